"""What is remembered of a turn's calls, to tell whether the next one repeats them."""

from __future__ import annotations

from typing import Any, Final, cast
from zlib import crc32

from msgspec import Struct

__all__ = ["FEW", "Seen", "SeenTurn", "digest", "found"]


class Seen(Struct):
    """One call of the last turn. After a resume only the digests are known."""

    name: str
    args: Any
    content: Any
    streak: int
    restored: bool = False


FEW: Final = 16


def found(turn: list[Seen], name: str, args: Any, content: Any) -> Seen | None:
    """The call of a turn that had these arguments and this result."""
    for seen in turn:
        if seen.name != name:
            continue
        if seen.restored:
            if seen.content == digest(content) and seen.args == digest(args):
                return seen
        elif seen.content == content and seen.args == args:
            return seen
    return None


class SeenTurn:
    """The calls of one turn. Few are compared one by one; of many, each is looked up by its digest."""

    __slots__ = ("by_digest", "seen")

    def __init__(self, seen: list[Seen]) -> None:
        self.seen = seen
        self.by_digest: dict[tuple[str, int, int], Seen] | None = None

    def find(self, name: str, args: Any, content: Any) -> Seen | None:
        if len(self.seen) <= FEW:
            return found(self.seen, name, args, content)
        if self.by_digest is None:
            self.by_digest = {_key(seen): seen for seen in self.seen}
        return self.by_digest.get((name, digest(args), digest(content)))

    def add(self, seen: Seen) -> None:
        self.seen.append(seen)
        if self.by_digest is not None:
            self.by_digest[_key(seen)] = seen


def _key(seen: Seen) -> tuple[str, int, int]:
    if seen.restored:
        return seen.name, seen.args, seen.content
    return seen.name, digest(seen.args), digest(seen.content)


def digest(value: Any) -> int:
    """A number below 2**32, the same for equal plain data in every process. Short: each checkpoint has some."""
    if isinstance(value, dict):
        value = sorted(cast("dict[str, Any]", value).items())
    text = value if isinstance(value, str) else repr(value)
    return crc32(text.encode("utf-8", "surrogatepass"), len(text))
