"""The message classes: immutable, tagged, made of plain data.

    BaseMessage
    ├── HumanMessage ── HumanMessageChunk        ├── RemoveMessage      an order to the history, never sent
    ├── AIMessage ───── AIMessageChunk           ├── ChatMessage        a role of the caller's own
    ├── SystemMessage ─ SystemMessageChunk       ├── FunctionMessage    results before there were call ids
    └── ToolMessage ─── ToolMessageChunk         └── UnknownMessage     read from elsewhere, kept as it is

Rules:

- a message never changes: `model_copy(update=...)` makes a changed copy, which shares what it did not change;
- `type` is the class's tag. A user's subclass keeps its parent's `type`, and is stored under
  `<type>/<module>.<name>` (or `<type>/<tag>` with `class Mine(HumanMessage, tag="mine")`);
- keywords and stored fields that a class does not know are kept in `extra`;
- a class is made through `MessageMeta.__call__`, which checks and normalises what a user wrote. Decoding, copying and
  `AIMessageChunk` (thousands a second) go straight to msgspec's constructor: what they hold is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, cast

import msgspec
from msgspec import field, structs

from loopwright.errors import UsageError
from loopwright.messages.blocks import ContentBlock, InvalidToolCall, ToolCall, ToolCallChunk, UsageMetadata
from loopwright.messages.calls import normal_calls
from loopwright.messages.dump import dump, dump_json
from loopwright.messages.fragments import final_calls, streaming_calls
from loopwright.messages.show import pretty, short_repr
from loopwright.messages.standard import standard_blocks

__all__ = [
    "AIMessage",
    "AIMessageChunk",
    "BaseMessage",
    "BaseMessageChunk",
    "ChatMessage",
    "FunctionMessage",
    "HumanMessage",
    "HumanMessageChunk",
    "MessageContent",
    "MessageMeta",
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UnknownMessage",
    "class_of",
    "make",
    "message_classes",
    "with_id",
]

M = TypeVar("M", bound="BaseMessage")

MessageContent: TypeAlias = str | list[str | dict[str, Any]]

if TYPE_CHECKING:
    Object: TypeAlias = dict[str, Any]
    Calls: TypeAlias = list[ToolCall]
    BadCalls: TypeAlias = list[InvalidToolCall]
    Pieces: TypeAlias = list[ToolCallChunk]
    Usage: TypeAlias = UsageMetadata | None
    Content: TypeAlias = MessageContent
else:
    # msgspec reads the annotations: with the TypedDicts it would check every call and drop keys it does not know.
    Object, Calls, BadCalls, Pieces, Usage, Content = dict, list, list, list, dict | None, str | list

message_classes: dict[str, type[BaseMessage]] = {}
"""Every message class there is, by the tag it is stored under. Defining a class adds it."""

_make: Any = msgspec.StructMeta.__call__  # the constructor in C, without what `MessageMeta.__call__` adds


class MessageMeta(msgspec.StructMeta):
    """Gives each class its tag, and messages the constructor that a Struct may not define itself."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> MessageMeta:
        kind: str | None = options.pop("kind", None)
        if kind is not None:
            namespace["type"] = options["tag"] = kind
        else:
            # Keyword-only, so that a user's class may have a field without a default.
            options.setdefault("kw_only", True)
            parent = next(base for base in bases if isinstance(base, MessageMeta))
            own = options.get("tag") or f"{namespace.get('__module__')}.{namespace.get('__qualname__', name)}"
            options["tag"] = f"{cast('type[BaseMessage]', parent).type}/{own}"
        cls = super().__new__(mcls, name, bases, namespace, **options)
        message_classes[options["tag"]] = cast("type[BaseMessage]", cls)
        return cls

    if not TYPE_CHECKING:

        def __call__(
            cls,
            content="",
            additional_kwargs=None,
            response_metadata=None,
            name=None,
            id=None,
            *,
            content_blocks=None,
            type=None,
            **rest,
        ):
            if (
                rest
                or content.__class__ is not str
                or cls not in _simple_classes
                or content_blocks is not None
                or type is not None
            ):
                rest.update(
                    content=content, additional_kwargs=additional_kwargs, response_metadata=response_metadata, name=name, id=id
                )
                return _settle(cls, rest, content_blocks, type)
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
    """`MessageMeta` with AIMessage's fields spelled out: a keyword less to sort costs 0.1 µs less."""

    if not TYPE_CHECKING:

        def __call__(
            cls,
            content="",
            additional_kwargs=None,
            response_metadata=None,
            name=None,
            id=None,
            *,
            tool_calls=None,
            invalid_tool_calls=None,
            usage_metadata=None,
            content_blocks=None,
            type=None,
            **rest,
        ):
            if (
                rest
                or content.__class__ is not str
                or cls is not AIMessage
                or additional_kwargs
                or content_blocks is not None
                or type is not None
            ):
                rest.update(
                    content=content, additional_kwargs=additional_kwargs, response_metadata=response_metadata, name=name, id=id
                )
                rest.update(tool_calls=tool_calls, invalid_tool_calls=invalid_tool_calls, usage_metadata=usage_metadata)
                return _settle(cls, rest, content_blocks, type)
            invalid = [] if invalid_tool_calls is None else list(invalid_tool_calls)
            if tool_calls:
                tool_calls, bad = normal_calls(tool_calls)
                if bad:
                    invalid += bad
            else:
                tool_calls = []
            return _make(
                cls,
                content,
                {},
                {} if response_metadata is None else response_metadata,
                name,
                id,
                rest,
                tool_calls,
                invalid,
                usage_metadata,
            )


class AIChunkMeta(AIMeta):
    """Undoes `__call__`: a chunk is made in C, with its fields only."""

    if not TYPE_CHECKING:
        __call__ = msgspec.StructMeta.__call__


def _settle(cls: type[M], fields: dict[str, Any], blocks: Any, kind: str | None) -> M:
    """The careful way to a message: everything a user may write, checked and brought to its one form."""
    if blocks is not None:
        fields["content"] = list(blocks)
    if kind is not None and kind not in (cls.type, cls.__struct_config__.tag):
        raise UsageError(f"{cls.__name__} has type {cls.type!r}, not {kind!r}: leave type= out")
    cls._normalise(fields)  # pyright: ignore[reportPrivateUsage]
    return make(cls, fields)


def make(cls: type[M], fields: Mapping[str, Any]) -> M:
    """A message of these fields as they are; what the class does not know goes into `extra`, None means the default."""
    names = cls.__struct_fields__
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in fields.items():
        if key not in names:
            extra[key] = value
        elif value is not None:
            known[key] = value
    if extra:
        known["extra"] = {**known.get("extra", {}), **extra}
    return _make(cls, **known)


def class_of(tag: str) -> type[BaseMessage] | None:
    """The class that is stored under this tag; for an unknown subclass its nearest known parent, else None."""
    return message_classes.get(tag) or message_classes.get(tag.partition("/")[0])


class BaseMessage(
    msgspec.Struct,
    metaclass=MessageMeta,
    kind="base",
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What all messages have. Make one of the subclasses."""

    content: Content = ""
    """The words, or a list of blocks (and bare strings)."""
    additional_kwargs: Object = field(default_factory=dict)
    """What a provider sent beyond all standard fields."""
    response_metadata: Object = field(default_factory=dict)
    """About the model call: `finish_reason`, `model_name`, `token_usage` and more."""
    name: str | None = None
    id: str | None = None
    extra: Object = field(default_factory=dict)
    """Keywords and stored fields that the class does not know."""

    type: ClassVar[str] = "base"

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str | Sequence[Any] = "",
            additional_kwargs: dict[str, Any] | None = None,
            response_metadata: dict[str, Any] | None = None,
            name: str | None = None,
            id: str | None = None,
            *,
            content_blocks: Sequence[Any] | None = None,
            type: str | None = None,
            **extra: Any,
        ) -> None: ...

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        fields["content"] = _content(cls, fields.get("content"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"messages do not change: write message.model_copy(update={{{name!r}: ...}}) for a changed copy")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"messages do not change: {name!r} cannot be deleted")

    @property
    def text(self) -> str:
        """All words of the content, without reasoning, media and calls."""
        content = self.content
        if content.__class__ is str:
            return cast(str, content)
        return "".join(_texts(cast("list[Any]", content)))

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content as standard blocks, whatever form it has; an AI message's tool calls are among them."""
        return standard_blocks(self.content)

    def pretty_repr(self, html: bool = False) -> str:
        """The message under a title line, for people. `html=True` sets the title in bold for a terminal."""
        return pretty(self, html)

    def pretty_print(self) -> None:
        """Print `pretty_repr()`."""
        print(self.pretty_repr())  # noqa: T201

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """All fields as new plain containers. `include`, `exclude`, `exclude_none`, `exclude_defaults`, `mode="json"`."""
        return dump(self, **options)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """The same as JSON text."""
        return dump_json(self, indent=indent, **options)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed. `deep` copies what is inside too."""
        return _copy(self, update, deep)

    @classmethod
    def model_validate(cls, value: Any) -> Self:
        """A message from a dictionary in our form or in OpenAI's, or the message itself. Raises `UsageError`."""
        from loopwright.messages.convert import validate

        return validate(cls, value)

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> Self:
        """A message from what `model_dump_json` wrote."""
        return cls.model_validate(msgspec.json.decode(text))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from loopwright.messages.fields import core_schema

        return core_schema(cls, handler)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        return handler(schema["json_schema_input_schema"])

    def __repr__(self) -> str:
        return short_repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (type(self), stored_fields(self))

    def __rich_repr__(self) -> Iterator[Any]:
        yield from stored_fields(self).items()


def stored_fields(message: BaseMessage) -> dict[str, Any]:
    """The fields that are not at their default, by name. What is inside is shared, not copied."""
    return {
        name: value for name, value in zip(message.__struct_fields__, structs.astuple(message), strict=True) if value not in _empty
    }


_empty: tuple[Any, ...] = (None, "", [], {})


def _content(cls: type[BaseMessage], content: Any) -> MessageContent:
    if content.__class__ is str:
        return content
    if isinstance(content, str):
        return str.__str__(content)
    if isinstance(content, (list, tuple)):
        items: list[Any] = list(cast("Sequence[Any]", content))
        for position, item in enumerate(items):
            if not isinstance(item, (str, dict)):
                raise UsageError(
                    f"{cls.__name__} content[{position}] is {type(item).__name__}: "
                    'write blocks like {"type": "text", "text": "..."}, or strings'
                )
        return items
    if content is None and issubclass(cls, AIMessage):
        return ""
    hint = "[block]" if isinstance(content, dict) else "str(value)"
    raise UsageError(f"{cls.__name__} content must be a string or a list of blocks, not {type(content).__name__}: write {hint}")


def _texts(content: list[Any]) -> Iterator[str]:
    for block in content:
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict):
            block = cast("dict[str, Any]", block)
            if block.get("type") in _TEXT_TYPES:
                text = block.get("text")
                if isinstance(text, str):
                    yield text


_TEXT_TYPES = frozenset((None, "text", "output_text", "input_text"))


def _copy(message: M, update: Mapping[str, Any] | None, deep: bool) -> M:
    if deep:
        from copy import deepcopy

        message = deepcopy(message)
    if not update:
        return structs.replace(message)
    cls = type(message)
    changed = dict(update)
    kind = changed.pop("type", None)
    blocks = changed.pop("content_blocks", None)
    if len(changed) == 1 and changed.get("id") is not None:
        return with_id(message, changed["id"])
    return _settle(cls, {**dict(zip(cls.__struct_fields__, structs.astuple(message), strict=True)), **changed}, blocks, kind)


def with_id(message: M, id: str) -> M:
    """The same message under another id."""
    return structs.replace(message, id=id)


class HumanMessage(BaseMessage, kind="human"):
    """What the user says."""


class SystemMessage(BaseMessage, kind="system"):
    """Instructions to the model."""


class AIMessage(BaseMessage, metaclass=AIMeta, kind="ai"):
    """What the model says, and the tools it wants to have run."""

    tool_calls: Calls = field(default_factory=list)
    invalid_tool_calls: BadCalls = field(default_factory=list)
    """Calls whose arguments cannot be read. They want a result too, one that says so."""
    usage_metadata: Usage = None

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str | Sequence[Any] | None = "",
            additional_kwargs: dict[str, Any] | None = None,
            response_metadata: dict[str, Any] | None = None,
            name: str | None = None,
            id: str | None = None,
            *,
            tool_calls: Sequence[Any] | None = None,
            invalid_tool_calls: Sequence[Any] | None = None,
            usage_metadata: Mapping[str, Any] | UsageMetadata | None = None,
            content_blocks: Sequence[Any] | None = None,
            type: str | None = None,
            **extra: Any,
        ) -> None: ...

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        content = fields["content"] = _content(cls, fields.get("content"))
        calls = fields.get("tool_calls")
        if not calls:
            more = fields.get("additional_kwargs")
            if more and more.get("tool_calls"):
                calls = more["tool_calls"]
            elif isinstance(content, list):
                calls = [block for block in content if isinstance(block, dict) and block.get("type") == "tool_call"]
        if calls:
            good, bad = normal_calls(calls)
            fields["tool_calls"] = good
            if bad:
                known = fields.get("invalid_tool_calls") or []
                fields["invalid_tool_calls"] = [*known, *(call for call in bad if call not in known)]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        return standard_blocks(self.content, self.tool_calls, self.additional_kwargs)


class ToolMessage(BaseMessage, kind="tool"):
    """What one tool call gave back."""

    tool_call_id: str = ""
    artifact: Any = None
    """For programs; never sent to the model."""
    status: Literal["success", "error"] = "success"

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Any = "",
            additional_kwargs: dict[str, Any] | None = None,
            response_metadata: dict[str, Any] | None = None,
            name: str | None = None,
            id: str | None = None,
            *,
            tool_call_id: str,
            artifact: Any = None,
            status: Literal["success", "error"] = "success",
            content_blocks: Sequence[Any] | None = None,
            type: str | None = None,
            **extra: Any,
        ) -> None: ...

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        call_id = fields.get("tool_call_id")
        if call_id is None:
            raise UsageError(f'{cls.__name__} needs the id of the call it answers: write tool_call_id=call["id"]')
        fields["tool_call_id"] = str(call_id)
        status = fields.get("status")
        if status not in (None, "success", "error"):
            raise UsageError(f'{cls.__name__} status is "success" or "error", not {status!r}')
        content = fields.get("content")
        if isinstance(content, (list, tuple)):
            content = [item if isinstance(item, (str, dict)) else str(item) for item in cast("Sequence[Any]", content)]
        elif not isinstance(content, str):
            content = str(content)
        fields["content"] = _content(cls, content)


class RemoveMessage(BaseMessage, kind="remove"):
    """Tells `add_messages` to take the message with this id out of the history."""

    if TYPE_CHECKING:

        def __init__(self, id: str, **extra: Any) -> None: ...

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        fields["id"] = fields.get("id") or fields.get("content") or None
        if not isinstance(fields["id"], str):
            raise UsageError("RemoveMessage needs the id of the message to remove: write RemoveMessage(id=message.id)")
        fields["content"] = ""


class ChatMessage(BaseMessage, kind="chat"):
    """A message under a role of the caller's own."""

    role: str = ""

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        super()._normalise(fields)
        if not fields.get("role"):
            raise UsageError('ChatMessage needs a role: write ChatMessage("...", role="critic")')


class FunctionMessage(BaseMessage, kind="function"):
    """A function's result in the form that providers had before tool calls; `name` says which function."""

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        super()._normalise(fields)
        if not fields.get("name"):
            raise UsageError('FunctionMessage needs the name of the function: write FunctionMessage("...", name="search")')


class UnknownMessage(BaseMessage, kind="unknown"):
    """A stored message of a type that nobody here knows. `extra["type"]` is its type; storing it again loses nothing."""


class BaseMessageChunk:
    """Marks a piece of a streamed message. `chunk + chunk` is the piece of both."""

    __slots__ = ()

    def __add__(self, other: Any) -> Self:
        from loopwright.messages.chunks import add_chunks

        return cast(Self, add_chunks(cast(Any, self), other))


class AIMessageChunk(AIMessage, BaseMessageChunk, metaclass=AIChunkMeta, kind="AIMessageChunk"):
    """A piece of a model's answer.

    `tool_calls` shows what can be read of the calls so far; only `message_chunk_to_message`, at the end of the
    stream, says which of them are invalid.
    """

    tool_call_chunks: Pieces = field(default_factory=list)
    chunk_position: Literal["last"] | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            content: str | list[Any] = "",
            additional_kwargs: dict[str, Any] = ...,
            response_metadata: dict[str, Any] = ...,
            name: str | None = None,
            id: str | None = None,
            *,
            tool_calls: list[ToolCall] = ...,
            invalid_tool_calls: list[InvalidToolCall] = ...,
            usage_metadata: UsageMetadata | None = None,
            tool_call_chunks: Sequence[ToolCallChunk | dict[str, Any]] = ...,
            chunk_position: Literal["last"] | None = None,
        ) -> None: ...

    else:

        @property
        def tool_calls(self):
            whole = _whole_calls(self)
            if not self.tool_call_chunks:
                return whole
            if self.chunk_position == "last":
                return final_calls(whole, self.tool_call_chunks)[0]
            return streaming_calls(whole, self.tool_call_chunks)

        @property
        def invalid_tool_calls(self):
            whole = _whole_bad_calls(self)
            if not self.tool_call_chunks or self.chunk_position != "last":
                return whole
            return [*whole, *final_calls([], self.tool_call_chunks)[1]]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        return standard_blocks(self.content, _whole_calls(self), self.additional_kwargs, self.tool_call_chunks)


# The fields as they are stored, behind the views that AIMessageChunk puts in front of them.
_whole_calls: Any = AIMessage.__dict__["tool_calls"].__get__
_whole_bad_calls: Any = AIMessage.__dict__["invalid_tool_calls"].__get__


class HumanMessageChunk(HumanMessage, BaseMessageChunk, kind="HumanMessageChunk"):
    """A piece of what a user says."""


class SystemMessageChunk(SystemMessage, BaseMessageChunk, kind="SystemMessageChunk"):
    """A piece of instructions."""


class ToolMessageChunk(ToolMessage, BaseMessageChunk, kind="ToolMessageChunk"):
    """A piece of a tool's result."""


_simple_classes = frozenset((HumanMessage, SystemMessage))
