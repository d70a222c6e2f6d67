"""`loopwright chat`: a conversation with an agent of the user's, or with a model."""

from __future__ import annotations

from loopwright.cli.find import bare_agent, find_agent
from loopwright.cli.loading import show_loading
from loopwright.cli.screen import Screen
from loopwright.cli.session import Session
from loopwright.errors import UsageError

__all__ = ["chat"]


def chat(
    screen: Screen,
    *,
    agent: str | None = None,
    model: str | None = None,
    thread: str | None = None,
    system: str | None = None,
    debug: bool = False,
) -> int:
    """Until the input ends. Raises `UsageError` for what cannot be started."""
    if agent is not None and (model or system):
        option = "--model" if model else "--system"
        raise UsageError(f"{option} makes an agent of its own: give it, or {agent}, not both")
    if thread is not None and not thread.strip():
        raise UsageError("--thread needs a name that is not empty")
    screen.busy(f"loading {agent or model or 'local:'}")
    made = find_agent(agent) if agent is not None else bare_agent(model or "local:", system)
    screen.idle()
    with show_loading(screen):
        session = Session(made, screen, thread=thread, debug=debug)
        if screen.interactive:
            screen.line(f"{agent or model or 'local:'} · /help shows what can be typed, exit leaves", "dim")
        session.welcome_back()
        session.chat()
    return 0
