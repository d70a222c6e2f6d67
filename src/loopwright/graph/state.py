"""State: which keys a graph has, and how an update changes each.

A state is a plain dict from key to value; a key that was never written is absent. A `Channel` says how one key takes
updates: a reducer folds them in, in the order of the tasks; without one the last value counts, and two tasks of the
same step that both write it are an error. A committed state is never changed in place, so whoever holds one (an
event, a checkpoint, a reader) holds what it was.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, cast
from weakref import WeakKeyDictionary

from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph.types import Overwrite

__all__ = [
    "Channel",
    "EphemeralValue",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "PrivateStateAttr",
    "Reducer",
    "Schema",
    "as_update",
    "channels_of",
    "fields_of",
    "fold",
    "merge_channels",
    "refuse_misspelled",
    "view_of",
]


class OmitFromSchema:
    """Mark on a state key: the caller neither gives it (`input`) nor gets it back (`output`)."""

    __slots__ = ("input", "output")

    def __init__(self, input: bool = True, output: bool = True) -> None:
        self.input = input
        self.output = output

    def __repr__(self) -> str:
        return f"OmitFromSchema(input={self.input}, output={self.output})"


OmitFromInput: Final = OmitFromSchema(input=True, output=False)
"""`Annotated[int, OmitFromInput]`: the run sets this key, the caller only reads it."""
OmitFromOutput: Final = OmitFromSchema(input=False, output=True)
"""`Annotated[int, OmitFromOutput]`: the caller may give this key and does not get it back."""
PrivateStateAttr: Final = OmitFromSchema(input=True, output=True)
"""`Annotated[int, PrivateStateAttr]`: a key between nodes, unseen from outside."""


class EphemeralValue:
    """Mark on a state key: its value lives until the next step has ended, and is never stored."""

    __slots__ = ()


Reducer = Callable[[Any, Any], Any]
"""From what a key holds and an update of it to what it holds then."""
_ABSENT: Final = object()


class Channel:
    """One key of the state."""

    __slots__ = ("default", "ephemeral", "in_input", "in_output", "name", "reducer")

    def __init__(
        self,
        name: str,
        reducer: Reducer | None = None,
        default: Callable[[], Any] | None = None,
        marks: Sequence[object] = (),
    ) -> None:
        self.name = name
        self.reducer = reducer
        self.default = default
        """What the reducer starts from when the key is absent; None: the first update is taken as it is."""
        omitted = [mark for mark in marks if isinstance(mark, OmitFromSchema)]
        self.ephemeral = any(mark is EphemeralValue or isinstance(mark, EphemeralValue) for mark in marks)
        self.in_input = not any(mark.input for mark in omitted)
        self.in_output = not any(mark.output for mark in omitted)


class Schema(Protocol):
    """Anything with annotated fields: a TypedDict, a dataclass, a pydantic model, a plain class."""

    __annotations__: dict[str, Any]


_known: WeakKeyDictionary[type, dict[str, Channel]] = WeakKeyDictionary()


def channels_of(schema: Any) -> dict[str, Channel]:
    """The channels a schema declares, by key. Worked out once for each class."""
    if not isinstance(schema, type):
        raise UsageError(
            "A state schema must be a class with annotated keys, such as a TypedDict; "
            f"got {type(schema).__name__}: {schema!r}."
        )
    known = _known.get(schema)
    if known is None:
        known = {name: _channel(name, hint) for name, hint in fields_of(schema).items()}
        _known[schema] = known
    return known


def fields_of(schema: type) -> dict[str, Any]:
    """Resolved annotations of a schema, inherited ones first, `Annotated` kept."""
    try:
        hints = typing.get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{schema.__qualname__} names a type that cannot be found: {error}. "
            "Define or import it at module level, not only under TYPE_CHECKING or inside the function."
        ) from error
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}


def _channel(name: str, hint: Any) -> Channel:
    while typing.get_origin(hint) in _WRAPPERS or str(typing.get_origin(hint)) in _FOREIGN_WRAPPERS:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is not typing.Annotated:
        return Channel(name)
    base, *metadata = typing.get_args(hint)
    for item in reversed(metadata):
        if callable(item) and not isinstance(item, type):
            _check_reducer(name, item)
            return Channel(name, item, _default_of(base), metadata)
    return Channel(name, None, None, metadata)


_WRAPPERS: Final = (typing.Required, typing.NotRequired)
_FOREIGN_WRAPPERS: Final = ("typing_extensions.Required", "typing_extensions.NotRequired", "typing_extensions.ReadOnly")


def _check_reducer(name: str, reducer: Any) -> None:
    """A reducer takes (old, update). Builtins hide their signature and are taken at their word."""
    import inspect

    if inspect.iscoroutinefunction(reducer) or inspect.iscoroutinefunction(getattr(reducer, "__call__", None)):  # noqa: B004
        raise UsageError(
            f"The reducer of state key {name!r} is async, and a state is folded without waiting. Write a plain "
            "function (old, update), and await what it needs in the node."
        )
    try:
        signature = inspect.signature(reducer)
    except ValueError:
        return
    positional = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    required = [p for p in positional if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    takes_more = any(p.kind is p.VAR_POSITIONAL for p in positional) or len(positional) >= 2
    if not takes_more or len(required) > 2:
        raise UsageError(
            f"The reducer of state key {name!r} must take two arguments, (old, update); {reducer!r} has {signature}."
        )


_EMPTY: Final = {
    "list": list,
    "List": list,
    "Sequence": list,
    "Collection": list,
    "dict": dict,
    "Dict": dict,
    "Mapping": dict,
    "MutableMapping": dict,
    "set": set,
    "Set": set,
    "frozenset": frozenset,
    "tuple": tuple,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bool": bool,
}


def _default_of(base: Any) -> Callable[[], Any] | None:
    """The empty value of a type, where there is one."""
    origin = typing.get_origin(base) or base
    known = _EMPTY.get(getattr(origin, "__name__", ""))
    if known is not None:
        return known
    if isinstance(origin, type):
        try:
            origin()
        except Exception:  # noqa: BLE001 - a class that needs arguments has no empty value
            return None
        return origin
    return None


def merge_channels(schemas: Iterable[Any]) -> dict[str, Channel]:
    """Channels of several schemas together; a reducer wins over a plain key of the same name."""
    merged: dict[str, Channel] = {}
    for schema in schemas:
        for name, channel in channels_of(schema).items():
            known = merged.get(name)
            if known is None or (known.reducer is None and channel.reducer is not None):
                merged[name] = channel
            elif channel.reducer is not None and known.reducer is not channel.reducer:
                raise UsageError(
                    f"State key {name!r} is declared with two different reducers, {known.reducer!r} and "
                    f"{channel.reducer!r}. Use one, or give one of the keys another name."
                )
    return merged


def view_of(schema: type[Any]) -> Callable[[dict[str, Any]], Any]:
    """How the part of a state that a schema names is shown in its form: an instance, or a dict for a TypedDict."""
    names = frozenset(channels_of(schema))
    make: Callable[..., Any] = dict
    if hasattr(schema, "model_validate"):
        validate: Callable[[Any], Any] = schema.model_validate
        return lambda state: validate({key: value for key, value in state.items() if key in names})
    if hasattr(schema, "__dataclass_fields__"):
        make = schema
    return lambda state: make(**{key: value for key, value in state.items() if key in names})


def fold(
    channels: Mapping[str, Channel],
    state: dict[str, Any],
    writes: Sequence[tuple[str, Sequence[tuple[str, Any]]]],
    ephemeral: Iterable[str] = (),
) -> tuple[dict[str, Any], set[str]]:
    """A new state: `state` with the writes of a step's tasks, `(task name, [(key, update)])` in their order.

    Keys in `ephemeral` have lived long enough: only what this step writes to them is kept.
    Returns it with the keys that changed. Raises `InvalidUpdateError`, naming key and tasks.
    """
    new = dict(state)
    for key in ephemeral:
        new.pop(key, None)
    if len(writes) == 1 and len(writes[0][1]) == 1:  # nearly every step
        key, update = writes[0][1][0]
        channel = channels.get(key)
        if channel is not None and channel.reducer is not None and key in new and type(update) is not Overwrite:
            new[key] = channel.reducer(new[key], update)
            return new, {key}
    changed: set[str] = set()
    writer: dict[str, str] = {}
    for task, updates in writes:
        for key, update in updates:
            channel = channels.get(key)
            if channel is None:  # passed over, unless it is all but the name of one: a node may serve several graphs
                refuse_misspelled(channels, [name for name, _ in updates], f"Node {task!r} wrote")
                continue
            reducer = channel.reducer
            if reducer is None or type(update) is Overwrite:
                if key in writer:
                    raise _written_twice(channel, writer[key], task)
                writer[key] = task
                new[key] = update.value if type(update) is Overwrite else update
            elif key in writer:
                continue  # overwritten: what the others of this step have to add is gone with the rest
            elif key in new:
                new[key] = reducer(new[key], update)
            else:
                new[key] = update if channel.default is None else reducer(channel.default(), update)
            changed.add(key)
    return new, changed


def refuse_misspelled(known: Iterable[str], keys: Iterable[str], who: str) -> None:
    """Raise `InvalidUpdateError` for a key that is not `known` but nearly one that is; `who` begins the sentence.

    Where the right key is there too, the other is a key of its own, meant for somebody else.
    """
    names, given = tuple(known), tuple(keys)
    for key in given:
        meant = None if key in names else _nearest(key, names)
        if meant is not None and meant not in given:
            raise InvalidUpdateError(
                f"{who} {key!r}, which the state does not have. Did you mean {meant!r}? "
                f"Its keys are {', '.join(map(repr, names))}."
            )


_NEAR: Final = 0.82
"""Least likeness: `anwser` is an answer, `input_tokens` are no `output_tokens`."""


@lru_cache(maxsize=256)
def _nearest(key: Any, names: tuple[str, ...]) -> str | None:
    """The name that a key is a slip of. Kept: a graph that is given foreign keys is given them in every step."""
    from difflib import get_close_matches

    found = get_close_matches(key, names, 1, _NEAR) if isinstance(key, str) else []
    return found[0] if found else None


def _written_twice(channel: Channel, one: str, two: str) -> InvalidUpdateError:
    name = channel.name
    if channel.reducer is not None:
        return InvalidUpdateError(f"State key {name!r} was overwritten twice in one step, by {one!r} and {two!r}.")
    return InvalidUpdateError(
        f"State key {name!r} was written twice in one step, by {one!r} and {two!r}, and has no reducer to join them. "
        f"Declare one: `{name}: Annotated[list, operator.add]`, or write it in one place."
    )


def as_update(value: Any) -> dict[str, Any] | None:
    """A pydantic model's or dataclass instance's set fields as an update; None for anything else."""
    if hasattr(value, "model_fields_set"):
        return {name: getattr(value, name) for name in cast(set[str], value.model_fields_set)}
    fields: dict[str, Any] | None = getattr(cast(Any, type(value)), "__dataclass_fields__", None)
    return None if fields is None else {name: getattr(value, name) for name in fields if hasattr(value, name)}
