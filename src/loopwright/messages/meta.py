"""How a message comes into being: tags, the constructors, and the table of all classes.

A msgspec Struct may define no `__init__`, and is made in C. What messages need beyond that is done by the
metaclass:

- `MessageMeta.__new__` gives each class its tag and its line in `message_classes`. Our own classes say
  `kind="human"`; a user's subclass keeps its parent's `type` and is stored under `<type>/<module>.<name>`, or
  `<type>/<tag>` if it says `tag="..."`;
- `__call__` takes the fields, `content_blocks=`, `type=` and any keyword. What needs no care goes to C at once;
  all else goes through `settle`, which asks the class's `_normalise` and then `make`;
- `make` takes fields as they are: keys that the class does not know go into `extra`, and None stands for the
  default of a field that is never None. Decoding, unpickling and merging use it.

The signatures spell the fields out because every keyword that must be sorted through `**rest` costs 0.1 µs. They
are hidden from type checkers, which read the `__init__` that each class declares for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import structs

from loopwright.errors import UsageError
from loopwright.messages.calls import invalid_calls, normal_calls
from loopwright.messages.plain import is_dict

if TYPE_CHECKING:
    from loopwright.messages.base import BaseMessage

__all__ = [
    "AIMeta",
    "ChunkMeta",
    "MessageMeta",
    "ToolMeta",
    "all_fields",
    "class_of",
    "make",
    "message_classes",
    "plain_content",
    "positional",
    "settle",
    "stored_fields",
    "tag_of",
]

M = TypeVar("M", bound="BaseMessage")

message_classes: dict[str, type[BaseMessage]] = {}
"""Every message class there is, by the tag it is stored under. Defining a class adds it."""

_simple: set[Any] = set()
"""Classes of ours whose fields are exactly those of a constructor below."""

_make: Any = msgspec.StructMeta.__call__  # the constructor in C


def positional(default: Any, *, kw_only: Literal[False] = False) -> Any:
    """A field that may be given without its name, also in users' subclasses, whose own fields may not."""
    return msgspec.field(default=default)


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field, positional))
class MessageMeta(msgspec.StructMeta):
    """The metaclass of all messages."""

    def __new__(  # noqa: PYI034 - a metaclass has no Self
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        kind: str | None = None,
        simple: bool = False,
        init: bool = True,
        **options: Any,
    ) -> MessageMeta:
        if kind is not None:
            namespace["type"] = tag = kind
        else:
            # Keyword-only, so that a user's class may have a field without a default.
            options.setdefault("kw_only", True)
            parent = cast("type[BaseMessage]", next(base for base in bases if isinstance(base, MessageMeta)))
            own = options.get("tag") or f"{namespace.get('__module__')}.{namespace.get('__qualname__', name)}"
            tag = f"{parent.type}/{own}"
        options["tag"] = tag
        cls = super().__new__(mcls, name, bases, namespace, **options)
        message_classes[tag] = cast("type[BaseMessage]", cls)
        if simple:
            _simple.add(cls)
        return cls

    if not TYPE_CHECKING:

        def __call__(
            cls,  # noqa: N805
            content: Any = "",
            additional_kwargs: Any = None,
            response_metadata: Any = None,
            name: Any = None,
            id: Any = None,
            *,
            content_blocks: Any = None,
            type: Any = None,
            **rest: Any,
        ) -> Any:
            if (
                rest
                or content.__class__ is not str
                or content_blocks is not None
                or type is not None
                or cls not in _simple
            ):
                fields = {
                    "content": content,
                    "additional_kwargs": additional_kwargs,
                    "response_metadata": response_metadata,
                    "name": name,
                    "id": id,
                    **rest,
                }
                return settle(cls, fields, content_blocks, type)
            return _make(
                cls,
                content,
                {} if additional_kwargs is None else additional_kwargs,
                {} if response_metadata is None else response_metadata,
                name,
                id,
                rest,
            )


class AIMeta(MessageMeta):
    """The same with AIMessage's fields."""

    if not TYPE_CHECKING:

        def __call__(
            cls,  # noqa: N805
            content: Any = "",
            additional_kwargs: Any = None,
            response_metadata: Any = None,
            name: Any = None,
            id: Any = None,
            *,
            tool_calls: Any = None,
            invalid_tool_calls: Any = None,
            usage_metadata: Any = None,
            content_blocks: Any = None,
            type: Any = None,
            **rest: Any,
        ) -> Any:
            if (
                rest
                or content.__class__ is not str
                or additional_kwargs
                or content_blocks is not None
                or type is not None
                or cls not in _simple
            ):
                fields = {
                    "content": content,
                    "additional_kwargs": additional_kwargs,
                    "response_metadata": response_metadata,
                    "name": name,
                    "id": id,
                    "tool_calls": tool_calls,
                    "invalid_tool_calls": invalid_tool_calls,
                    "usage_metadata": usage_metadata,
                    **rest,
                }
                return settle(cls, fields, content_blocks, type)
            invalid = invalid_calls(invalid_tool_calls) if invalid_tool_calls else []
            if tool_calls:
                tool_calls, bad = normal_calls(tool_calls)
                invalid += bad
            else:
                tool_calls = []
            metadata = {} if response_metadata is None else response_metadata
            return _make(cls, content, {}, metadata, name, id, rest, tool_calls, invalid, usage_metadata)


class ToolMeta(MessageMeta):
    """The same with ToolMessage's fields."""

    if not TYPE_CHECKING:

        def __call__(
            cls,  # noqa: N805
            content: Any = "",
            additional_kwargs: Any = None,
            response_metadata: Any = None,
            name: Any = None,
            id: Any = None,
            *,
            tool_call_id: Any = None,
            artifact: Any = None,
            status: Any = "success",
            content_blocks: Any = None,
            type: Any = None,
            **rest: Any,
        ) -> Any:
            if (
                rest
                or content.__class__ is not str
                or tool_call_id.__class__ is not str
                or (status != "success" and status != "error")  # noqa: PLR1714 - a tuple costs more
                or content_blocks is not None
                or type is not None
                or cls not in _simple
            ):
                fields = {
                    "content": content,
                    "additional_kwargs": additional_kwargs,
                    "response_metadata": response_metadata,
                    "name": name,
                    "id": id,
                    "tool_call_id": tool_call_id,
                    "artifact": artifact,
                    "status": status,
                    **rest,
                }
                return settle(cls, fields, content_blocks, type)
            return _make(
                cls,
                content,
                {} if additional_kwargs is None else additional_kwargs,
                {} if response_metadata is None else response_metadata,
                name,
                id,
                rest,
                tool_call_id,
                artifact,
                status,
            )


class ChunkMeta(AIMeta):
    """Undoes `__call__`: chunks come by the thousand and are made in C, of their fields only."""

    if not TYPE_CHECKING:
        __call__ = msgspec.StructMeta.__call__


def settle(cls: type[M], fields: dict[str, Any], blocks: Any = None, kind: Any = None) -> M:
    """The careful way to a message: everything a user may write, checked and brought to its one form."""
    if blocks is not None:
        fields["content"] = list(blocks)
    if kind is not None and kind not in (cls.type, cls.__struct_config__.tag):
        raise UsageError(f"{cls.__name__} has type {cls.type!r}, not {kind!r}: leave type= out")
    for name in ("additional_kwargs", "response_metadata"):
        given = fields.get(name)
        if given is not None and not is_dict(given):
            raise UsageError(f"{cls.__name__} {name} is a dictionary, not {type(given).__name__}: leave it out")
    cls._normalise(fields)  # pyright: ignore[reportPrivateUsage]
    return make(cls, fields)


_NEVER_NONE: Final = frozenset(
    (
        "content",
        "additional_kwargs",
        "response_metadata",
        "extra",
        "tool_calls",
        "invalid_tool_calls",
        "tool_call_chunks",
        "tool_call_id",
        "status",
    )
)


def make(cls: type[M], fields: Mapping[str, Any]) -> M:
    """A message of these fields as they are; unknown keys go into `extra`."""
    names = cls.__struct_fields__
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in names:
            extra[key] = value
        elif value is not None or key not in _NEVER_NONE:
            known[key] = value
    if extra:
        known["extra"] = {**known.get("extra", {}), **extra}
    return _make(cls, **known)


def class_of(tag: str) -> type[BaseMessage] | None:
    """The class stored under this tag; for a subclass that is not there its parent of ours; else None."""
    return message_classes.get(tag) or message_classes.get(tag.partition("/")[0])


def tag_of(message: BaseMessage | type[BaseMessage]) -> str:
    """What a message, or a class of messages, is stored under."""
    kept: Any = None if isinstance(message, type) else message.extra.get("type")
    # `kept`: the message was read from elsewhere, and its class is not here.
    return kept if isinstance(kept, str) else cast(str, message.__struct_config__.tag)


def all_fields(message: BaseMessage) -> dict[str, Any]:
    """All fields as they are stored, by name, sharing what is inside."""
    return dict(zip(message.__struct_fields__, structs.astuple(message), strict=True))


def stored_fields(message: BaseMessage) -> dict[str, Any]:
    """The fields that differ from an empty default, by name, sharing what is inside."""
    cls = type(message)
    empty = _empty_defaults.get(cls) or _learn_defaults(cls)
    return {
        name: value
        for name, kind, value in zip(cls.__struct_fields__, empty, structs.astuple(message), strict=True)
        if value.__class__ is not kind or value
    }


_empty_defaults: dict[type[BaseMessage], list[type | None]] = {}
"""For each field the type of its empty default (`NoneType`, `str`, `list`, `dict`), or None where it has another."""


def _learn_defaults(cls: type[BaseMessage]) -> list[type | None]:
    defaults: tuple[Any, ...] = cls.__struct_defaults__
    kinds: list[type | None] = [None] * (len(cls.__struct_fields__) - len(defaults))
    for default in defaults:
        factory = getattr(default, "factory", None)
        if default is None or default == "":
            kinds.append(type(default))
        else:
            kinds.append(factory if factory in (list, dict) else None)
    _empty_defaults[cls] = kinds
    return kinds


def plain_content(cls: type[BaseMessage], content: Any) -> Any:
    """Content as a string or a new list of strings and blocks. Raises `UsageError`."""
    if isinstance(content, str):
        return content if content.__class__ is str else str.__str__(content)
    if isinstance(content, (list, tuple)):
        items: list[Any] = list(cast("Sequence[Any]", content))
        for position, item in enumerate(items):
            if not isinstance(item, (str, dict)):
                raise UsageError(
                    f"{cls.__name__} content[{position}] is {type(item).__name__}: "
                    'write blocks like {"type": "text", "text": "..."}, or strings'
                )
        return items
    hint = "[block]" if is_dict(content) else "str(value)"
    raise UsageError(
        f"{cls.__name__} content must be a string or a list of blocks, not {type(content).__name__}: write {hint}"
    )
