"""A saver of a simulated process: it keeps what the real one behind it keeps, until the process dies.

Around each call that the engine makes, `draw` is asked what goes wrong. It raises what keeps the call from being made,
or returns what raises once it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

from loopwright.checkpoint.base import BaseCheckpointSaver, SizeReport, Strategy
from loopwright.checkpoint.record import Record

__all__ = ["CrashingSaver", "Draw", "crashing"]

Draw: TypeAlias = Callable[[str], "Callable[[], None] | None"]


class CrashingSaver(BaseCheckpointSaver):
    """`saver`, with accidents. The engine calls it as it would one that waits for a disk."""

    def __init__(self, saver: BaseCheckpointSaver, draw: Draw) -> None:
        self.saver = saver
        self._draw = draw

    def _do(self, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        strike = self._draw(what)
        answer = function(*args, **kwargs)
        if strike is not None:
            strike()
        return answer

    def load(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        return self._do("load", self.saver.load, thread_id, ns, checkpoint_id)

    def claim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        return self._do("claim", self.saver.claim, thread_id, seen, run_id)

    def save(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        self._do("save", self.saver.save, record, changed, claim)

    def save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        self._do("save_writes", self.saver.save_writes, thread_id, ns, checkpoint_id, task_id, writes, claim)

    # What the engine does not call is handed on.

    def walk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[Record]:
        return self.saver.walk(thread_id, ns, before=before, filter=filter, limit=limit)

    def delete_thread(self, thread_id: str) -> None:
        self.saver.delete_thread(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.saver.copy_thread(source_thread_id, target_thread_id)

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        return self.saver.prune(thread_ids, strategy=strategy, keep=keep, older_than=older_than)

    def size_report(self, thread_id: str | None = None) -> SizeReport:
        return self.saver.size_report(thread_id)


class _InstantSaver(CrashingSaver):
    """The same, called at once."""

    instant: ClassVar[bool] = True


def crashing(saver: BaseCheckpointSaver, draw: Draw, *, instant: bool) -> CrashingSaver:
    """`saver` with accidents; `instant` says how the engine calls it."""
    return (_InstantSaver if instant else CrashingSaver)(saver, draw)
