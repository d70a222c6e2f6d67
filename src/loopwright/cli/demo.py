"""`loopwright demo`: an agent with two tools on a small model in this process, then a chat with it."""

from __future__ import annotations

from loopwright.cli.loading import show_loading
from loopwright.cli.screen import Screen
from loopwright.cli.session import Session
from loopwright.errors import ToolException

__all__ = ["AGENT", "TOUR", "add", "demo", "get_weather"]

_WEATHER = {
    "amsterdam": "14 degrees and windy",
    "berlin": "17 degrees and cloudy",
    "lisbon": "24 degrees and sunny",
    "london": "13 degrees and rainy",
    "madrid": "29 degrees and sunny",
    "oslo": "6 degrees and snowy",
    "paris": "19 degrees and cloudy",
    "rome": "26 degrees and sunny",
    "tokyo": "21 degrees and clear",
}

AGENT = """\
agent = create_agent("local:", tools=[get_weather, add])
for event in agent.stream({"messages": question}, stream_mode="events"):
    ..."""

TOUR = (
    ("A question that needs a tool", "What is the weather in Paris?"),
    ("Another tool", "What is 12 plus 30?"),
    ("No tool at all", "Hello!"),
    ("A tool that fails: the model is told, and the run goes on", "What is the weather in Moscow?"),
)
"""What is shown, and what is asked."""


def get_weather(city: str) -> str:
    """The weather in a city."""
    weather = _WEATHER.get(city.strip().lower())
    if weather is None:
        raise ToolException(f"no weather is known for {city}")
    return weather


def add(a: float, b: float) -> float:
    """Add two numbers."""
    total = a + b
    return int(total) if total == int(total) else total


def demo(screen: Screen, *, debug: bool = False) -> int:
    """The tour; then, at a terminal, a chat. 1 if the model is not installed."""
    from loopwright.models.local.engine import missing_installs

    missing = missing_installs()
    if missing:
        screen.error("the demo runs on a small local model, which is not installed:")
        for command in missing:
            screen.line(f"    {command}")
        return 1
    from loopwright.agents import Limits, create_agent

    agent = create_agent("local:", tools=[get_weather, add], limits=Limits(model_calls=6))
    screen.line('Loopwright: an agent = model + tools + a loop that asks "go on?"', "bold")
    screen.line(
        "The model is SmolLM2 with 135 million parameters, in this process, on one core: no key, no network. It is a "
        "model to see the loop turn, not to rely on: it often picks the wrong tool, and reads a result badly."
    )
    screen.line(f"\n{AGENT}\n", "dim")
    with show_loading(screen):
        session = Session(agent, screen, debug=debug)
        for title, question in TOUR:
            screen.line(f"\n{title}", "bold")
            screen.line(f"> {question}")
            session.thread = f"tour: {title}"
            session.turn(question)
        screen.line("\nEach line that begins with · says why the run ended and what it took.", "dim")
        if screen.interactive:
            screen.line("Now you: ask for the weather in a city, or for a sum. /help shows more, exit leaves.", "bold")
            session.thread = "chat"
            session.chat()
    return 0
