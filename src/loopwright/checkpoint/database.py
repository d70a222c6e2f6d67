"""A saver on a database: the deeds of `rows.py` and `keeping.py`, given to whoever can run them."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from loopwright.checkpoint.base import BaseCheckpointSaver, Record, SizeReport, Strategy
from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.keeping import Keeping
from loopwright.checkpoint.rows import PAGE, Place, Rows
from loopwright.checkpoint.sql import Deed, Dialect
from loopwright.checkpoint.words import check_thread_id
from loopwright.errors import StoredDataError

__all__ = ["DatabaseSaver", "Done", "Driver"]

T = TypeVar("T")


class Driver(Protocol):
    """Runs deeds, each in one transaction, from any thread."""

    def read(self, deed: Deed[T]) -> T:
        """In one snapshot, waiting for no writer."""
        ...

    async def aread(self, deed: Deed[T]) -> T: ...

    def write(self, deed: Deed[T], *, erases: bool = False) -> T:
        """Returns when what was written will last. `erases`: what was removed shall not be found any more, and where
        removing rows leaves their bytes behind, more is to be done.
        """
        ...

    async def awrite(self, deed: Deed[T], *, erases: bool = False) -> T: ...


class Done:
    """What a plain method returns that users of LangGraph's async savers await: it is done, and awaiting it is free."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class DatabaseSaver(BaseCheckpointSaver):
    """All that a saver does, plain and for asyncio, but for opening and closing.

    A deed is made on the caller's thread, where what it is made of is still as it was given.
    """

    def __init__(self, driver: Driver, dialect: Dialect, types: Iterable[type]) -> None:
        super().__init__(types=types)
        self._driver = driver
        self._rows = Rows(Codec(self.registry), dialect, repr(self))
        self._keeping = Keeping(self._rows)

    # --- reading ----------------------------------------------------------------

    def load(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        return self._driver.read(self._rows.load(thread_id, ns, checkpoint_id))

    async def aload(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        return await self._driver.aread(self._rows.load(thread_id, ns, checkpoint_id))

    def walk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[Record]:
        place = _place(thread_id, ns)
        below = None if before is None else self._driver.read(self._rows.before(place, before))
        left = PAGE if limit is None else limit
        while left > 0:
            numbers, below = self._driver.read(self._rows.page(place, below, filter, left))
            for number in numbers[:left]:
                try:
                    record = self._driver.read(self._rows.at(number))
                except StoredDataError as error:
                    _leave_out(error, thread_id)
                    continue
                if record is not None:  # deleted while the reader was away
                    left -= limit is not None
                    yield record
            if below is None:
                return

    async def awalk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Record]:
        place = _place(thread_id, ns)
        below = None if before is None else await self._driver.aread(self._rows.before(place, before))
        left = PAGE if limit is None else limit
        while left > 0:
            numbers, below = await self._driver.aread(self._rows.page(place, below, filter, left))
            for number in numbers[:left]:
                try:
                    record = await self._driver.aread(self._rows.at(number))
                except StoredDataError as error:
                    _leave_out(error, thread_id)
                    continue
                if record is not None:
                    left -= limit is not None
                    yield record
            if below is None:
                return

    def size_report(self, thread_id: str | None = None) -> SizeReport:
        return self._driver.read(self._keeping.size(thread_id))

    async def asize_report(self, thread_id: str | None = None) -> SizeReport:
        return await self._driver.aread(self._keeping.size(thread_id))

    # --- writing ----------------------------------------------------------------

    def claim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        return self._driver.write(self._rows.claim(thread_id, seen, run_id))

    async def aclaim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        return await self._driver.awrite(self._rows.claim(thread_id, seen, run_id))

    def save(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        self._driver.write(self._rows.save(record, changed, claim))

    async def asave(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        await self._driver.awrite(self._rows.save(record, changed, claim))

    def save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        self._driver.write(self._rows.save_writes(thread_id, ns, checkpoint_id, task_id, writes, claim))

    async def asave_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        await self._driver.awrite(self._rows.save_writes(thread_id, ns, checkpoint_id, task_id, writes, claim))

    # --- whole threads ----------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._driver.write(self._keeping.delete(thread_id), erases=True)

    async def adelete_thread(self, thread_id: str) -> None:
        await self._driver.awrite(self._keeping.delete(thread_id), erases=True)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._driver.write(self._keeping.copy(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._driver.awrite(self._keeping.copy(source_thread_id, target_thread_id))

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        deeds = self._keeping.prune(thread_ids, strategy, keep, older_than)
        return sum(self._driver.write(deed, erases=last) for deed, last in _erasing_last(deeds, strategy))

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        deeds = self._keeping.prune(thread_ids, strategy, keep, older_than)
        return sum([await self._driver.awrite(deed, erases=last) for deed, last in _erasing_last(deeds, strategy)])


def _erasing_last(deeds: Sequence[Deed[int]], strategy: Strategy) -> Iterator[tuple[Deed[int], bool]]:
    """Each deed, and whether it erases: the last one does so for all, which may mean to write a file anew."""
    return ((deed, strategy == "delete" and deed is deeds[-1]) for deed in deeds)


def _place(thread_id: str | None, ns: str | None) -> Place:
    if thread_id is not None:
        check_thread_id(thread_id, "walk")
    return Place(thread_id, ns)


def _leave_out(error: StoredDataError, thread_id: str | None) -> None:
    """A checkpoint that cannot be read ends the walk over its thread; a walk over all threads goes on, and tells."""
    if thread_id is not None:
        raise error
    warnings.warn(f"Left out of a list of all threads: {error}", RuntimeWarning, stacklevel=3)
