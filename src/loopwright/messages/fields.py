"""Messages as fields of a user's pydantic models. Imported only when pydantic asks.

Each class gives pydantic a validator (an instance is kept, a dictionary becomes a message), a serializer, and a
TypedDict that stands for it in JSON schemas, so that nested definitions come from pydantic itself. `AnyMessage` is
the union of all classes: a dictionary is read by its `type` or `role`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypeAlias, cast

from loopwright.errors import UsageError
from loopwright.messages.base import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
)
from loopwright.messages.convert import message_from, validate

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["AnyMessage", "core_schema"]


def core_schema(cls: type[BaseMessage], handler: GetCoreSchemaHandler) -> CoreSchema:
    """What pydantic validates, writes and describes a field of this class by."""
    return _plain_schema(partial(validate, cls), handler.generate_schema(_described(cls)))


def _plain_schema(read: Any, described: CoreSchema) -> CoreSchema:
    from pydantic_core import core_schema as schemas

    return schemas.no_info_plain_validator_function(
        read,
        json_schema_input_schema=described,
        serialization=schemas.plain_serializer_function_ser_schema(_written, info_arg=True),
    )


def _written(message: Any, info: Any) -> Any:
    if not isinstance(message, BaseMessage):
        return message  # put there without validation
    return message.model_dump(mode=info.mode, exclude_none=info.exclude_none, exclude_defaults=info.exclude_defaults)


def _described(cls: type[BaseMessage]) -> Any:
    """A TypedDict of the class's fields under its name; made once for each class."""
    known = _descriptions.get(cls)
    if known is None:
        from typing_extensions import TypedDict

        from loopwright.messages import blocks

        content: Any = str | list[str | dict[str, Any]]
        known_fields: dict[str, Any] = {
            "content": content,
            "additional_kwargs": NotRequired[dict[str, Any]],
            "response_metadata": NotRequired[dict[str, Any]],
            "type": NotRequired[Literal[cls.type]],
            "name": NotRequired[str | None],
            "id": NotRequired[str | None],
            "tool_calls": NotRequired[list[blocks.ToolCall]],
            "invalid_tool_calls": NotRequired[list[blocks.InvalidToolCall]],
            "usage_metadata": NotRequired[blocks.UsageMetadata | None],
            "tool_call_chunks": NotRequired[list[blocks.ToolCallChunk]],
            "chunk_position": NotRequired[Literal["last"] | None],
            "tool_call_id": str,
            "artifact": NotRequired[Any],
            "status": NotRequired[Literal["success", "error"]],
            "role": str,
        }
        names = ["type", *(name for name in cls.__struct_fields__ if name != "extra")]
        fields: Any = {name: known_fields.get(name, NotRequired[Any]) for name in names}
        make: Any = TypedDict
        known = _descriptions[cls] = make(cls.__name__, fields)
        known.__doc__ = cls.__doc__
        known.__module__ = cls.__module__
    return known


_descriptions: dict[type[BaseMessage], Any] = {}


class _AnyOf:
    """Marks `AnyMessage` for pydantic."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema as schemas

        choices: Any = [handler.generate_schema(_described(cls)) for cls in _MEMBERS]
        return _plain_schema(_read_any, schemas.union_schema(choices))

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Any:
        return handler(schema["json_schema_input_schema"])


def _read_any(value: Any) -> BaseMessage:
    if isinstance(value, (BaseMessage, dict)):
        return message_from(cast(Any, value))
    raise UsageError(f"{type(value).__name__} is no message: give a message or a dictionary with type or role")


_MEMBERS: tuple[type[BaseMessage], ...] = (
    AIMessage,
    HumanMessage,
    ChatMessage,
    SystemMessage,
    FunctionMessage,
    ToolMessage,
    AIMessageChunk,
    HumanMessageChunk,
    SystemMessageChunk,
    ToolMessageChunk,
)

AnyMessage: TypeAlias = Annotated[
    AIMessage
    | HumanMessage
    | ChatMessage
    | SystemMessage
    | FunctionMessage
    | ToolMessage
    | AIMessageChunk
    | HumanMessageChunk
    | SystemMessageChunk
    | ToolMessageChunk,
    _AnyOf(),
]
"""Any message that can be said, as the type of a field."""
