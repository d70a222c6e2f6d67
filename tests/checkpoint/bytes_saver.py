"""The saver in memory, but with values kept as bytes: what a saver on disk does with the codec, without the disk."""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec import structs

from loopwright.checkpoint.base import NO_ARG, Pending, Record
from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.plain import argument_path, channel_path


class BytesSaver(InMemorySaver):
    instant: ClassVar[bool] = True

    def reopened(self, **options: Any) -> BytesSaver:
        """A saver of the same threads, as another process would open it: what was registered is not known to it."""
        other = BytesSaver(**options)
        other._threads, other._numbers, other._lock = self._threads, self._numbers, self._lock  # type: ignore
        return other

    def save(self, record, changed=None, claim=None):
        encode = Codec(self.registry).encode
        kept = structs.replace(
            record,
            values={key: encode(value, f'state["{key}"]') for key, value in record.values.items()},
            pending=tuple(_with_argument(task, encode) for task in record.pending),
            writes=[(task, key, encode(value, channel_path(key))) for task, key, value in record.writes],
        )
        super().save(kept, changed, claim)

    def save_writes(self, thread_id, ns, checkpoint_id, task_id, writes, claim=None):
        encode = Codec(self.registry).encode
        kept = [(key, encode(value, channel_path(key))) for key, value in writes]
        super().save_writes(thread_id, ns, checkpoint_id, task_id, kept, claim)

    def load(self, thread_id, ns="", checkpoint_id=None) -> Record | None:
        found = super().load(thread_id, ns, checkpoint_id)
        if found is None:
            return None
        decode = Codec(self.registry).decode
        lost: list[Unreadable] = []
        return structs.replace(
            found,
            values={key: decode(value, f'state["{key}"]', lost) for key, value in found.values.items()},
            pending=tuple(_with_argument(task, decode, lost) for task in found.pending),
            writes=[(task, key, decode(value, channel_path(key), lost)) for task, key, value in found.writes],
            unreadable=lost,
        )


def _with_argument(task: Pending, turn: Any, *more: Any) -> Pending:
    return task if task.arg is NO_ARG else structs.replace(task, arg=turn(task.arg, argument_path(task.name), *more))
