"""A life of threads that the corpus holds as a SQLite file: all that the tables can hold. It stays as it is here."""

from __future__ import annotations

from typing import Any

from loopwright.checkpoint.base import BaseCheckpointSaver, Pending, Record
from loopwright.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from loopwright.messages.history import add_messages

CALL = {"name": "look", "args": {"city": "Oslo"}, "id": "call_1"}


def live(saver: BaseCheckpointSaver) -> None:
    """Turns, a branch, a list that was rebuilt, values that grew, a pause, a nested graph, a copy, a prune."""
    ids = (f"0190a8f0-7b5c-7d3e-8a4b-{number:012x}" for number in range(100))
    parent: dict[str, str | None] = {}

    def save(thread: str, changed: set[str] | None, **fields: Any) -> str:
        id = next(ids)
        fields.setdefault("created_at", "2026-11-30T12:00:00.000001+00:00")
        saver.save(Record(id=id, thread_id=thread, parent_id=parent.get(thread), **fields), changed)
        parent[thread] = id
        return id

    history = add_messages([], [HumanMessage("Weather in Oslo? ☃", id="m1")])
    log = ["a line that is long enough for a row of its own"]
    first = save(
        "ann", None, step=-1, source="input", metadata={"user": "ann"}, values={"messages": history, "log": log}
    )
    for number, message in enumerate(
        (
            AIMessage("", id="m2", tool_calls=[CALL]),
            ToolMessage("sunny", id="m3", tool_call_id="call_1", artifact={"raw": (1, {2})}),
            AIMessage(
                "It is sunny.", id="m4", usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
            ),
        )
    ):
        at = parent["ann"] or ""
        saver.save_writes("ann", "", at, f"task-{number}", [("messages", [message]), ("__goto__", ["next"])])
        history, log = add_messages(history, [message]), [*log, f"line {number}"]
        save("ann", {"messages", "log"}, step=number, values={"messages": history, "log": log})
    shorter = add_messages(history, [RemoveMessage(id="m2"), RemoveMessage(id="m3"), HumanMessage("Oslo?", id="m1")])
    save("ann", {"messages"}, step=3, source="update", values={"messages": shorter, "log": log})
    parent["ann"] = first
    save("ann", {"n"}, step=0, source="fork", values={"messages": history, "log": log, "n": 1})

    pending = (Pending("task-a", "ask", ("push", 0), {"what": [1]}), Pending("task-b", "other"))
    paused = save("bob", None, values={"n": 2**70, "nan": None}, pending=pending, account={"calls": 3, "spent": [0.5]})
    saver.save_writes("bob", "", paused, "task-b", [("n", 7), ("one", AIMessage("alone", id="m9"))])
    saver.save(
        Record(
            id="inner", thread_id="bob", ns="ask:task-a", created_at="once", values={"x": {"deep": [1, (2,)]}}, step=5
        )
    )
    saver.put(
        {"configurable": {"thread_id": "put", "checkpoint_id": "elsewhere"}},
        {"id": "c1", "ts": "2026-11-30T12:00:00Z", "channel_values": {"n": 1}, "channel_versions": {"n": "00003.7"}},
        {"source": "loop", "step": 4},
        {},
    )
    saver.copy_thread("ann", "copy")
    saver.prune(["copy"], keep=2)


_SHOWN = (
    "thread_id",
    "ns",
    "id",
    "parent_id",
    "step",
    "source",
    "created_at",
    "metadata",
    "values",
    "pending",
    "writes",
)


def shown(saver: BaseCheckpointSaver) -> list[Any]:
    """All that a saver holds, in a form that compares."""
    return [
        [type(found.values.get("messages")), found.account, *(getattr(found, name) for name in _SHOWN)]
        for found in saver.walk(None, None)
    ]
