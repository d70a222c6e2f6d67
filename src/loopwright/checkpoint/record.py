"""What a saver keeps: one `Record` for each checkpoint.

The engine speaks this vocabulary and no other; `base.py` translates it into what LangGraph's users know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct

if TYPE_CHECKING:
    from loopwright.checkpoint.kinds import Unreadable

__all__ = ["NO_ARG", "STORED_TYPES", "Interrupt", "Overwrite", "Pending", "Record", "Send", "Write"]

NO_ARG: Final = UNSET
"""`Pending.arg` of a task that reads the graph's own state."""

Write = tuple[str, str, Any]
"""Task id, channel, value. A channel in double underscores is the engine's own (`__error__`: why the task failed)."""


class Send(Struct, frozen=True):
    """Run `node` in the next step with `arg` in place of the graph's state. Several may name one node."""

    node: str
    arg: Any


class Interrupt(Struct, frozen=True):
    """A question that a paused run asks its caller. Answer with `Command(resume={id: answer})`.

    It may stand for its id there, so it has a hash whatever its value is.
    """

    value: Any
    id: str = ""
    response_schema: Any = None
    """A JSON schema of the answer that is expected, if the question has one."""

    def __hash__(self) -> int:
        return hash(self.id)


class Overwrite(Struct, frozen=True):
    """A value that takes the place of what the state holds, past the key's reducer."""

    value: Any


class Pending(Struct, frozen=True):
    """A task that runs when the thread goes on."""

    id: str
    name: str
    """The node."""
    path: tuple[Any, ...] = ()
    """How the task came to be; orders the writes of one step."""
    arg: Any = NO_ARG
    """What a `Send` gives the node in place of the state."""


class Record(Struct, kw_only=True):
    """One checkpoint of one thread."""

    id: str
    thread_id: str
    ns: str = ""
    """"" is the graph itself; nested graphs are `node:task_id`, joined by `|`."""
    parent_id: str | None = None
    """The checkpoint this one was made from; None for the first."""
    step: int = -1
    source: str = "loop"
    """`input`, `loop`, `update` or `fork`."""
    created_at: str = ""
    """ISO 8601 with zone."""
    metadata: dict[str, Any] = {}
    """What the run's config carried, `run_id`, `parents`: plain data. `describe` adds `source` and `step`."""
    values: dict[str, Any] = {}
    """The whole state, by channel. A channel that was never written is absent."""
    pending: tuple[Pending, ...] = ()
    """What runs next; empty when the graph has ended."""
    writes: list[Write] = []
    """What tasks of `pending` have finished with already."""
    account: Any = None
    """What the run had spent, for the one that goes on with it: small and plain. None once it has ended."""
    versions: dict[str, Any] = {}
    """When each channel last changed: a number that grows. Set by the saver on loading."""
    versions_seen: dict[str, Any] = {}
    """Only kept for those who `put` it."""
    unreadable: Sequence[Unreadable] = ()
    """What in `values`, `pending` and `writes` could not be read. Set by the saver on loading; no run begins so."""
    fence: int = 0
    """How often the thread had been written to, or claimed, when this was loaded. `claim` compares it."""

    def describe(self) -> dict[str, Any]:
        """The metadata as users see it and filter by."""
        return {"source": self.source, "step": self.step, "parents": {}, **self.metadata}


STORED_TYPES: Final[tuple[type, ...]] = (Send, Interrupt, Overwrite, Pending)
"""Classes of ours that values may hold; every saver knows them, under their bare names."""
