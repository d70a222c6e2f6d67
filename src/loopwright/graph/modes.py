"""Stream modes: views of the facts. A mode is a row of `MODES`, from type of fact to the chunk it shows.

`Feed` is the log as one reader sees it: it gives each fact its number, makes the chunks that the asked-for modes
show of it, and puts them into the outbox. What no row wants is never made: producers ask `wants` first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from threading import RLock
from typing import Any, Final, cast

from msgspec import structs

from loopwright.drive.outbox import Outbox
from loopwright.errors import UsageError
from loopwright.graph.events import (
    AnswerGrew,
    CheckpointSaved,
    CustomEmitted,
    Event,
    LimitReached,
    MessageAdded,
    MessageChunk,
    RunFinished,
    RunInterrupted,
    RunStarted,
    StepCommitted,
    TaskFinished,
    TaskStarted,
    ToolFinished,
    ToolStarted,
)
from loopwright.graph.shown import TokenPair, UpdateChunk
from loopwright.messages.history import History

__all__ = ["MODES", "SKIP", "Feed", "check_modes", "picked", "replay"]

SKIP: Final = object()
"""A row's answer for "nothing to show of this one"."""

_View = Callable[[Any], Any]


def _values(event: StepCommitted) -> Any:
    return event.values if event.changed else SKIP


def _paused_values(event: RunInterrupted) -> Any:
    return {**event.values, "__interrupt__": event.interrupts} if event.interrupts else SKIP


def _update(event: TaskFinished) -> Any:
    if event.error is not None or event.interrupts:
        return SKIP
    return UpdateChunk({event.name: event.update})


def _whole_answer(event: TaskFinished) -> Any:
    """The answer that an agent has accepted, as the schema's own type."""
    update = event.update
    if event.error is not None or event.interrupts or not update:
        return SKIP
    updates = cast("list[dict[str, Any]]", update if isinstance(update, list) else [update])
    answers = [one["structured_response"] for one in updates if one.get("structured_response") is not None]
    return answers[-1] if answers else SKIP


def _paused_update(event: RunInterrupted) -> Any:
    return UpdateChunk({"__interrupt__": event.interrupts})


def _task(event: TaskStarted) -> dict[str, Any]:
    return {
        "id": event.id,
        "name": event.name,
        "input": event.input,
        "triggers": event.triggers,
        "metadata": event.metadata,
    }


def _task_result(event: TaskFinished) -> dict[str, Any]:
    return {
        "id": event.id,
        "name": event.name,
        "error": event.error,
        "result": event.update or {},
        "interrupts": [structs.asdict(asked) for asked in event.interrupts],
    }


def _checkpoint(event: CheckpointSaved) -> dict[str, Any]:
    return {
        "config": event.config,
        "parent_config": event.parent_config,
        "values": event.values,
        "metadata": event.metadata,
        "next": list(event.next),
        "tasks": [{"id": t.id, "name": t.name, "interrupts": t.interrupts, "state": None} for t in event.tasks],
    }


def _debug(kind: str, view: _View) -> _View:
    def show(event: Any) -> dict[str, Any]:
        stamp = datetime.fromtimestamp(event.time, UTC).isoformat()
        return {"step": event.step, "timestamp": stamp, "type": kind, "payload": view(event)}

    return show


def _same(event: Event) -> Event:
    return event


_ALL: Final = (
    RunStarted,
    TaskStarted,
    MessageChunk,
    MessageAdded,
    AnswerGrew,
    CustomEmitted,
    ToolStarted,
    ToolFinished,
    TaskFinished,
    StepCommitted,
    CheckpointSaved,
    LimitReached,
    RunInterrupted,
    RunFinished,
)

MODES: Final[dict[str, dict[type[Event], _View]]] = {
    "values": {StepCommitted: _values, RunInterrupted: _paused_values},
    "updates": {TaskFinished: _update, RunInterrupted: _paused_update},
    "messages": {
        MessageChunk: lambda event: TokenPair((event.chunk, event.metadata)),
        MessageAdded: lambda event: TokenPair((event.message, event.metadata)),
    },
    "structured": {AnswerGrew: lambda event: event.value, TaskFinished: _whole_answer},
    "custom": {CustomEmitted: lambda event: event.value},
    "checkpoints": {CheckpointSaved: _checkpoint},
    "tasks": {TaskStarted: _task, TaskFinished: _task_result},
    "debug": {
        CheckpointSaved: _debug("checkpoint", _checkpoint),
        TaskStarted: _debug("task", _task),
        TaskFinished: _debug("task_result", _task_result),
    },
    "events": dict.fromkeys(_ALL, _same),
}

_DEEP: Final = frozenset({"custom", "events"})
"""Modes that show nested runs also without `subgraphs=True`: a caller's own values and the facts belong to the tree."""


def picked(values: Any, keys: str | Sequence[str]) -> Any:
    """What `output_keys` ask for: of a list of keys those that are there, of one key its bare value."""
    if isinstance(values, list):
        updates = cast("list[dict[str, Any]]", values)
        return [picked(update, keys) for update in updates if any(key in update for key in _listed(keys))] or None
    if not isinstance(values, dict):
        return None
    known = cast("dict[str, Any]", values)
    return known.get(keys) if isinstance(keys, str) else {key: known[key] for key in keys if key in known}


def _listed(keys: str | Sequence[str]) -> Sequence[str]:
    return (keys,) if isinstance(keys, str) else keys


def _picked_update(chunk: dict[str, Any], keys: str | Sequence[str]) -> Any:
    shown = {node: picked(update, keys) for node, update in chunk.items()}
    return UpdateChunk({node: None if update == {} else update for node, update in shown.items()})


_Pick = Callable[[Any, "str | Sequence[str]"], Any]
_KEYED: Final[dict[str, _Pick]] = {"values": picked, "updates": _picked_update}
"""Modes that `output_keys` narrow."""

_LATER: Final = {"tasks": 1, "debug": 2}
"""Modes that show a fact after the others have, whatever the order they were asked for in."""


def check_modes(modes: str | Sequence[str]) -> tuple[list[str], bool]:
    """The modes as a list, and whether one name was given. Raises for a mode that does not exist."""
    single = isinstance(modes, str)
    names = [modes] if isinstance(modes, str) else list(modes)
    for name in names:
        if name not in MODES:
            known = ", ".join(repr(mode) for mode in MODES)
            hint = ' Single tokens come with stream_mode="messages".' if name in ("token", "tokens") else ""
            raise UsageError(f"stream_mode={name!r} does not exist. The modes are {known}.{hint}")
    return names, single


class Feed:
    """The facts of one tree of runs on their way to one reader."""

    __slots__ = (
        "_above",
        "_bare",
        "_base",
        "_given",
        "_modes",
        "_rows",
        "_shown",
        "lock",
        "outbox",
        "seq",
        "subgraphs",
        "tokens",
        "wanted",
    )

    def __init__(
        self,
        outbox: Outbox,
        modes: Sequence[str],
        *,
        single: bool,
        subgraphs: bool = False,
        version: str = "v1",
        printed: Sequence[str] = (),
        output_keys: str | Sequence[str] | None = None,
    ) -> None:
        self.outbox = outbox
        self.seq = itertools.count(1)
        self.lock = RLock()
        """Held while a fact is numbered and shown: parallel tasks tell theirs from several threads."""
        self.subgraphs = subgraphs
        self._modes = frozenset(modes)
        self._above: Feed | None = None
        self._base = 0
        self._shown: set[Any] = set()
        self._given: dict[tuple[str, ...], list[tuple[dict[str, int], int]]] = {}
        """By run: positions by id, and how many of them it was given."""
        """Messages that were told of: ids at the root, `(path, id)` in nested runs."""
        self._bare = single and not subgraphs and not printed and version == "v1"
        shape = _shape(single=single, subgraphs=subgraphs, version=version)
        self._rows: dict[type[Event], list[tuple[_View, Callable[[Event, Any], None], bool]]] = {}
        ordered = sorted(modes, key=lambda mode: _LATER.get(mode, 0))
        for mode, show in [(mode, self._sender(shape(mode))) for mode in ordered] + [(m, _printer(m)) for m in printed]:
            for kind, view in (_told_once() if subgraphs and mode == "messages" else MODES[mode]).items():
                if output_keys is not None and mode in _KEYED:
                    view = self._picking(view, _KEYED[mode], output_keys)  # noqa: PLW2901 - the same view of less
                self._rows.setdefault(kind, []).append((view, show, subgraphs or mode in _DEEP))
        self.wanted = frozenset(self._rows)
        """Types of the facts that somebody reads."""
        self.tokens = MessageChunk in self.wanted

    def _sender(self, shape: Callable[[Event, Any], Any] | None) -> Callable[[Event, Any], None]:
        put = self.outbox.put
        if shape is None:
            return lambda event, chunk: put(chunk)
        return lambda event, chunk: put(shape(event, chunk))

    def _picking(self, view: _View, pick: _Pick, keys: str | Sequence[str]) -> _View:
        """A view of some keys of the state. Nested runs have other states, and are shown whole."""

        def picking(event: Event) -> Any:
            chunk = view(event)
            return chunk if chunk is SKIP or len(event.path) > self._base else pick(chunk, keys)

        return picking

    def below(self, above: Feed | None, path: tuple[str, ...]) -> Feed:
        """This feed for a nested run that has a reader of its own; the reader of the tree goes on reading too."""
        self._above, self._base = above, len(path)
        if above is not None:
            self.seq, self.lock = above.seq, above.lock
            self.wanted |= above.wanted
        return self

    def only_checkpoints(self) -> bool:
        """Whether checkpoints were asked for by name, not as a part of `debug`."""
        return "checkpoints" in self._modes

    def wants(self, kind: type[Event], path: tuple[str, ...]) -> bool:
        """Whether a fact of this type, made in a run at `path`, would be shown to anybody."""
        rows = self._rows.get(kind)
        if rows is not None and (len(path) == self._base or any(deep for _, _, deep in rows)):
            return True
        return self._above is not None and self._above.wants(kind, path)

    def tell(self, kind: type[Event], path: tuple[str, ...], *fields: Any) -> None:
        """Make a fact and show it."""
        with self.lock:
            self.emit(kind(next(self.seq), path, *fields))

    def emit(self, event: Event) -> None:
        """Show one fact."""
        nested = len(event.path) > self._base
        for view, show, deep in self._rows.get(type(event), ()):
            if nested and not deep:
                continue
            chunk = view(event)
            if chunk is not SKIP:
                show(event, chunk)
        if self._above is not None and self._above.wants(type(event), event.path):
            self._above.emit(event)

    def token_teller(self, path: tuple[str, ...], metadata: dict[str, Any]) -> Callable[[Any], None]:
        """How to show the tokens of one model call. Where the `messages` view is all that is read of them, that view is
        made and the fact behind it is not.
        """
        rows = self._rows.get(MessageChunk, ())
        lone = self._bare and self._modes == frozenset(("messages",))
        if self._above is not None or len(rows) != 1 or not lone or len(path) > self._base:
            return lambda chunk: self.tell(MessageChunk, path, chunk, metadata)
        outbox, append = self.outbox, self.outbox.items.append

        def tell(chunk: Any) -> None:
            append(TokenPair((chunk, metadata)))
            if outbox.bell is not None:
                outbox.bell(None)

        return tell

    def first_sight(self, message_id: str | None, path: tuple[str, ...]) -> bool:
        """Whether a message has not been told of in the run at `path`; from now on it has."""
        if message_id is None:
            return True
        key = (path, message_id) if path else message_id
        if key in self._shown:
            return False
        for index, length in self._given.get(path, ()):
            if index.get(message_id, length) < length:
                return False
        self._shown.add(key)
        return True

    def skip(self, messages: Any, path: tuple[str, ...]) -> None:
        """What the run at `path` was given is not told of as if it were new. A history knows its ids by heart."""
        known = messages if isinstance(messages, History) else History(messages)
        self._given.setdefault(path, []).append((known.buffer.index, len(known)))


def _shape(*, single: bool, subgraphs: bool, version: str) -> Callable[[str], Callable[[Event, Any], Any] | None]:
    """How a chunk is wrapped for the reader; None where it is handed out as it is."""
    if version == "v2":
        return lambda mode: lambda event, chunk: _part(mode, event, chunk)
    if subgraphs and single:
        return lambda mode: lambda event, chunk: (event.path, chunk)
    if subgraphs:
        return lambda mode: lambda event, chunk: (event.path, mode, chunk)
    if single:
        return lambda mode: None
    return lambda mode: lambda event, chunk: (mode, chunk)


def _told_once() -> dict[type[Event], _View]:
    """`messages` with nested runs: what a nested run has shown is not shown again by the run that it answers to."""
    shown: set[str | None] = set()

    def chunk(event: MessageChunk) -> Any:
        shown.add(event.chunk.id)
        return TokenPair((event.chunk, event.metadata))

    def message(event: MessageAdded) -> Any:
        if event.message.id in shown:
            return SKIP
        shown.add(event.message.id)
        return TokenPair((event.message, event.metadata))

    return {MessageChunk: chunk, MessageAdded: message}


def _printer(mode: str) -> Callable[[Event, Any], None]:
    return lambda event, chunk: print(f"[{mode}]", chunk)  # noqa: T201 - what print_mode asks for


def _part(mode: str, event: Event, chunk: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"type": mode, "ns": event.path, "data": chunk}
    if mode == "values":
        part["interrupts"] = event.interrupts if isinstance(event, RunInterrupted) else ()
    return part


def replay(
    events: Iterable[Event], modes: str | Sequence[str], *, subgraphs: bool = False, version: str = "v1"
) -> Iterator[Any]:
    """The chunks that `stream` would have shown of these facts."""
    names, single = check_modes(modes)
    outbox = Outbox()
    feed = Feed(outbox, names, single=single, subgraphs=subgraphs, version=version)
    for event in events:
        if type(event) in feed.wanted:
            feed.emit(event)
            while outbox.items:
                yield outbox.items.popleft()
