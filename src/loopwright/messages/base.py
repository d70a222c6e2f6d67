"""The message classes: immutable, tagged, made of plain data.

    BaseMessage
    ├── HumanMessage ── HumanMessageChunk        ├── RemoveMessage      an order to the history, never sent
    ├── AIMessage ───── AIMessageChunk           ├── ChatMessage        a role of the caller's own
    ├── SystemMessage ─ SystemMessageChunk       ├── FunctionMessage    results before there were call ids
    └── ToolMessage ─── ToolMessageChunk         └── UnknownMessage     read from elsewhere, kept as it is

Rules:

- a message never changes: `model_copy(update=...)` makes a changed copy, which shares what it did not change;
- `type` is the word the class is known by everywhere, also of a user's subclass (`meta.py` says how that is
  stored);
- keywords and stored fields that a class does not know are kept in `extra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, cast

import msgspec
from msgspec import field, structs

from loopwright.errors import UsageError
from loopwright.messages.calls import invalid_calls, normal_calls
from loopwright.messages.fragments import final_calls, streaming_calls
from loopwright.messages.meta import (
    AIMeta,
    ChunkMeta,
    MessageMeta,
    ToolMeta,
    all_fields,
    make,
    plain_content,
    positional,
    settle,
    stored_fields,
)

if TYPE_CHECKING:
    from loopwright.messages.blocks import ContentBlock, InvalidToolCall, ToolCall, ToolCallChunk, UsageMetadata

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
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UnknownMessage",
    "with_id",
]

M = TypeVar("M", bound="BaseMessage")

MessageContent: TypeAlias = str | list[str | dict[str, Any]]

if TYPE_CHECKING:
    _Object: TypeAlias = dict[str, Any]
    _Calls: TypeAlias = list[ToolCall]
    _BadCalls: TypeAlias = list[InvalidToolCall]
    _Pieces: TypeAlias = list[ToolCallChunk]
    _Usage: TypeAlias = UsageMetadata | None
    _Content: TypeAlias = MessageContent
else:
    # msgspec reads the annotations: with the TypedDicts it would check every call and drop keys it does not know.
    _Object, _Calls, _BadCalls, _Pieces, _Usage, _Content = dict, list, list, list, dict | None, str | list

# The types themselves, which msgspec makes faster than a call of `dict[str, Any]`.
_dict: Any = dict
_list: Any = list


class BaseMessage(
    msgspec.Struct,
    metaclass=MessageMeta,
    kind="base",
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
):
    """What all messages have. Make one of the subclasses."""

    content: _Content = positional("")
    """The words, or a list of blocks (and bare strings)."""
    additional_kwargs: _Object = field(default_factory=_dict)
    """What a provider sent beyond all standard fields."""
    response_metadata: _Object = field(default_factory=_dict)
    """About the model call: `finish_reason`, `model_name`, `token_usage` and more."""
    name: str | None = None
    id: str | None = None
    extra: _Object = field(default_factory=_dict)
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
        fields["content"] = plain_content(cls, fields.get("content"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"messages do not change: write message.model_copy(update={{{name!r}: ...}}) for a changed copy"
        )

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
        from loopwright.messages.standard import standard_blocks

        return standard_blocks(self.content)

    def pretty_repr(self, html: bool = False) -> str:
        """The message under a title line, for people. `html=True` sets the title in bold for a terminal."""
        from loopwright.messages.show import pretty

        return pretty(self, html)

    def pretty_print(self) -> None:
        """Print `pretty_repr()`."""
        print(self.pretty_repr())  # noqa: T201

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """All fields in new containers. `include`, `exclude`, `exclude_none`, `exclude_defaults`, `mode="json"`."""
        from loopwright.messages.dump import dump

        return dump(self, **options)

    def model_dump_json(self, *, indent: int | None = None, **options: Any) -> str:
        """The same as JSON text."""
        from loopwright.messages.dump import dump_json

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
        from loopwright.messages.show import short_repr

        return short_repr(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return make, (type(self), stored_fields(self))

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return list(stored_fields(self).items())


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


_TEXT_TYPES: Final = frozenset((None, "text", "output_text", "input_text"))


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
    return settle(cls, {**all_fields(message), **changed}, blocks, kind)


def with_id(message: M, id: str) -> M:
    """The same message under another id."""
    return structs.replace(message, id=id)


class HumanMessage(BaseMessage, kind="human", init=False, simple=True):
    """What the user says."""


class SystemMessage(BaseMessage, kind="system", init=False, simple=True):
    """Instructions to the model."""


class AIMessage(BaseMessage, metaclass=AIMeta, kind="ai", simple=True):
    """What the model says, and the tools it wants to have run."""

    tool_calls: _Calls = field(default_factory=_list)
    invalid_tool_calls: _BadCalls = field(default_factory=_list)
    """Calls whose arguments cannot be read. They want a result too, one that says so."""
    usage_metadata: _Usage = None

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
        content = fields.get("content")
        content = fields["content"] = "" if content is None else plain_content(cls, content)
        calls = fields.get("tool_calls")
        if calls is None:
            calls = _calls_elsewhere(content, fields.get("additional_kwargs"))
        known = fields.get("invalid_tool_calls")
        if known:
            known = fields["invalid_tool_calls"] = invalid_calls(known)
        if calls:
            good, bad = normal_calls(calls)
            fields["tool_calls"] = good
            if bad:
                known = known or []
                fields["invalid_tool_calls"] = [*known, *(call for call in bad if call not in known)]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        from loopwright.messages.standard import standard_blocks

        return standard_blocks(self.content, self.tool_calls, self.additional_kwargs)


def _calls_elsewhere(content: Any, more: Any) -> list[Any]:
    """Calls given in OpenAI's form beside the content, or as blocks in it."""
    if more and more.get("tool_calls"):
        return more["tool_calls"]
    if not isinstance(content, list):
        return []
    blocks = [cast(dict[str, Any], block) for block in cast(list[Any], content) if isinstance(block, dict)]
    return [block for block in blocks if block.get("type") == "tool_call"]


class ToolMessage(BaseMessage, metaclass=ToolMeta, kind="tool", simple=True):
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
        content: Any = fields.get("content")
        if isinstance(content, (list, tuple)):
            content = [item if isinstance(item, (str, dict)) else str(item) for item in cast("Sequence[Any]", content)]
        elif not isinstance(content, str):
            content = str(content)
        fields["content"] = plain_content(cls, content)


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


class ChatMessage(BaseMessage, kind="chat", init=False):
    """A message under a role of the caller's own."""

    role: str = ""

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        super()._normalise(fields)
        if not fields.get("role"):
            raise UsageError('ChatMessage needs a role: write ChatMessage("...", role="critic")')


class FunctionMessage(BaseMessage, kind="function", init=False):
    """A function's result in the form that providers had before tool calls; `name` says which function."""

    @classmethod
    def _normalise(cls, fields: dict[str, Any]) -> None:
        super()._normalise(fields)
        if not fields.get("name"):
            raise UsageError(
                'FunctionMessage needs the name of the function: write FunctionMessage("...", name="search")'
            )


class UnknownMessage(BaseMessage, kind="unknown", init=False):
    """A stored message of a type nobody here knows. `extra["type"]` is its type; storing it again loses nothing."""


class BaseMessageChunk:
    """Marks a piece of a streamed message. `chunk + chunk` is the piece of both."""

    __slots__ = ()

    def __add__(self, other: Any) -> Self:
        from loopwright.messages.chunks import add_chunks

        return cast(Self, add_chunks(cast(Any, self), other))


class AIMessageChunk(AIMessage, BaseMessageChunk, metaclass=ChunkMeta, kind="AIMessageChunk"):
    """A piece of a model's answer.

    `tool_calls` shows what can be read of the calls so far; only `message_chunk_to_message`, at the end of the
    stream, says which of them are invalid.
    """

    tool_call_chunks: _Pieces = field(default_factory=_list)
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
            tool_calls: Sequence[Any] = ...,
            invalid_tool_calls: Sequence[Any] = ...,
            usage_metadata: Mapping[str, Any] | UsageMetadata | None = None,
            tool_call_chunks: Sequence[Any] = ...,
            chunk_position: Literal["last"] | None = None,
        ) -> None: ...

    else:

        @property
        def tool_calls(self) -> list[ToolCall]:
            whole = _whole_calls(self)
            if not self.tool_call_chunks:
                return whole
            if self.chunk_position == "last":
                return final_calls(whole, self.tool_call_chunks)[0]
            return streaming_calls(whole, self.tool_call_chunks)

        @property
        def invalid_tool_calls(self) -> list[InvalidToolCall]:
            whole = _whole_bad_calls(self)
            if not self.tool_call_chunks or self.chunk_position != "last":
                return whole
            return [*whole, *final_calls([], self.tool_call_chunks)[1]]

    @property
    def content_blocks(self) -> list[ContentBlock]:
        from loopwright.messages.standard import standard_blocks

        return standard_blocks(self.content, _whole_calls(self), self.additional_kwargs, self.tool_call_chunks)


# The fields as they are stored, behind the views that AIMessageChunk puts in front of them.
_whole_calls: Any = AIMessage.__dict__["tool_calls"].__get__
_whole_bad_calls: Any = AIMessage.__dict__["invalid_tool_calls"].__get__


class HumanMessageChunk(HumanMessage, BaseMessageChunk, kind="HumanMessageChunk", init=False):
    """A piece of what a user says."""


class SystemMessageChunk(SystemMessage, BaseMessageChunk, kind="SystemMessageChunk", init=False):
    """A piece of instructions."""


class ToolMessageChunk(ToolMessage, BaseMessageChunk, kind="ToolMessageChunk", init=False):
    """A piece of a tool's result."""
