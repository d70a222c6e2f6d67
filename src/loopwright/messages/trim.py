"""Making a conversation fit: `trim_messages`.

Rules:

- what is returned is valid: a call and its results are one unit that stays or goes whole (`pairing.py` restores an
  input that is broken; only calls at the very end may wait for results);
- nothing given is changed; with `include_system` the first system message always stays, whatever it costs;
- `strategy="last"` keeps the longest end that fits, `"first"` the longest beginning;
- `start_on` and `end_on` drop units from the kept part until one begins, or ends, with such a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast, overload

from msgspec import structs

from loopwright.errors import UsageError
from loopwright.messages.base import BaseMessage, SystemMessage, ToolMessage
from loopwright.messages.convert import convert_to_messages
from loopwright.messages.count import count_tokens_approximately
from loopwright.messages.meta import message_classes
from loopwright.messages.pairing import calls_of, repair_history
from loopwright.messages.select import MessageStep, MessageTypes, is_of_type

__all__ = ["TokenCounter", "trim_messages"]

TokenCounter: TypeAlias = Any
"""A function of a list of messages (or of one `BaseMessage`, by its annotation), `len`, `"approximate"`, or a model
with `get_num_tokens_from_messages`."""

_Count: TypeAlias = Callable[[list[BaseMessage]], int]
_Unit: TypeAlias = list[BaseMessage]


@overload
def trim_messages(
    messages: None = None,
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: MessageTypes | None = None,
    start_on: MessageTypes | None = None,
    include_system: bool = False,
    text_splitter: Any = None,
) -> MessageStep: ...
@overload
def trim_messages(
    messages: Any,
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: MessageTypes | None = None,
    start_on: MessageTypes | None = None,
    include_system: bool = False,
    text_splitter: Any = None,
) -> list[BaseMessage]: ...
def trim_messages(
    messages: Any = None,
    *,
    max_tokens: int,
    token_counter: TokenCounter,
    strategy: Literal["first", "last"] = "last",
    allow_partial: bool = False,
    end_on: MessageTypes | None = None,
    start_on: MessageTypes | None = None,
    include_system: bool = False,
    text_splitter: Any = None,
) -> Any:
    """The end (or the beginning) of a conversation that has at most `max_tokens` tokens.

    With `allow_partial`, the message at the cut gives as much of its text as fits; `text_splitter` is a function
    that cuts a text into pieces (lines, if it is missing), or an object with `split_text`. Raises `UsageError` for
    options that contradict each other.
    """
    if messages is None:
        return MessageStep(trim_messages, {name: value for name, value in locals().items() if name != "messages"})
    if strategy not in ("first", "last"):
        raise UsageError(f'trim_messages strategy is "first" or "last", not {strategy!r}')
    if strategy == "first" and (start_on or include_system):
        raise UsageError('start_on and include_system belong to strategy="last": leave them out, or use that')
    count = _counter(token_counter)
    given = convert_to_messages(messages)
    units = _units(repair_history(given, open_end=True))
    split = _splitter(text_splitter) if allow_partial else None
    if strategy == "first":
        kept = _fitting(units, max_tokens, count, split, [], from_end=False)
        return _flat(_ending(kept, end_on))
    system: _Unit = []
    if include_system and units and isinstance(units[0][0], SystemMessage):
        system = units.pop(0)
    kept = _fitting(_ending(units, end_on), max_tokens, count, split, system, from_end=True)
    while start_on and kept and not is_of_type(kept[0][0], start_on):
        del kept[0]
    return [*system, *_flat(kept)]


def _units(messages: Sequence[BaseMessage]) -> list[_Unit]:
    """A call and its results together, every other message alone."""
    units: list[_Unit] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _flat(units: list[_Unit]) -> list[BaseMessage]:
    return [message for unit in units for message in unit]


def _ending(units: list[_Unit], end_on: MessageTypes | None) -> list[_Unit]:
    length = len(units)
    while end_on and length and not is_of_type(units[length - 1][-1], end_on):
        length -= 1
    return units[:length]


def _fitting(
    units: list[_Unit],
    max_tokens: int,
    count: _Count,
    split: Callable[[str], list[str]] | None,
    head: _Unit,
    *,
    from_end: bool,
) -> list[_Unit]:
    """As many units from one end as fit beside `head`, found by halving; then a part of the next, if allowed."""

    def part(number: int) -> list[_Unit]:
        if not from_end:
            return units[:number]
        return units[len(units) - number :]

    def fits(candidate: list[_Unit]) -> bool:
        return count([*head, *_flat(candidate)]) <= max_tokens

    low, high = 0, len(units)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(part(middle)):
            low = middle
        else:
            high = middle - 1
    kept = part(low)
    if split is None or low == len(units):
        return kept
    cut = units[len(units) - low - 1] if from_end else units[low]
    for piece in _pieces(cut, split, from_end=from_end):
        candidate = [[piece], *kept] if from_end else [*kept, [piece]]
        if fits(candidate):
            return candidate
    return kept


def _pieces(unit: _Unit, split: Callable[[str], list[str]], *, from_end: bool) -> list[BaseMessage]:
    """Ever smaller parts of a message: without blocks at the cut end, then without pieces of the last block's text."""
    message = unit[0]
    if len(unit) > 1 or calls_of(message):
        return []
    content = message.content
    blocks: list[Any] = [content] if isinstance(content, str) else list(content)
    shorter: list[Any] = []
    while blocks:
        edge = blocks.pop(0 if from_end else -1)
        words = edge if isinstance(edge, str) else edge.get("text")
        texts = split(words) if isinstance(words, str) else []
        for number in range(len(texts) - 1, 0, -1):
            text = "".join(texts[-number:] if from_end else texts[:number])
            part = text if isinstance(edge, str) else {**edge, "text": text}
            shorter.append([part, *blocks] if from_end else [*blocks, part])
        if blocks:
            shorter.append(list(blocks))
    return [structs.replace(message, content=part[0] if isinstance(content, str) else part) for part in shorter]


def _splitter(splitter: Any) -> Callable[[str], list[str]]:
    if splitter is None:
        return lambda text: text.splitlines(keepends=True)
    if callable(splitter):
        return cast(Callable[[str], list[str]], splitter)
    if callable(getattr(splitter, "split_text", None)):
        return splitter.split_text
    raise UsageError("text_splitter must be a function from a text to its pieces, or have split_text")


def _counter(counter: Any) -> _Count:
    if counter == "approximate":
        return count_tokens_approximately
    of_model = getattr(counter, "get_num_tokens_from_messages", None)
    if callable(of_model):
        return cast(_Count, of_model)
    if not callable(counter):
        raise UsageError(
            f"token_counter is {counter!r}: "
            'write "approximate", len, a model, or a function of a list of messages that returns a number'
        )
    count = cast(Callable[[Any], int], counter)
    if _is_of_one_message(counter):
        return lambda messages: sum(count(message) for message in messages)
    return count


def _is_of_one_message(counter: Any) -> bool:
    """Whether a function says by its first parameter's annotation that it counts a single message."""
    code = getattr(counter, "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code is not None else ()
    first = next((name for name in names if name != "self"), "")
    kind: Any = counter.__annotations__.get(first) if first else None
    if isinstance(kind, str):
        return kind == "AnyMessage" or kind in {cls.__name__ for cls in message_classes.values()}
    return isinstance(kind, type) and issubclass(kind, BaseMessage)
