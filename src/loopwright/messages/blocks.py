"""The plain data inside messages: content blocks, tool calls and usage, as TypedDicts.

They are dictionaries because their users index them. `typing_extensions.TypedDict` is what pydantic asks for on
Python 3.11, so each of these may be a field of a pydantic model or a tool's argument; msgspec has imported that
module already. Rules:

- every block has `type`; what a provider adds beyond the standard keys goes into `extras`;
- media blocks have exactly one of `url`, `base64` (with `mime_type`) and `file_id`;
- `index` marks the pieces of one block while it streams, and is gone from finished messages.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

__all__ = [
    "Annotation",
    "AudioContentBlock",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "ImageContentBlock",
    "InputTokenDetails",
    "InvalidToolCall",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "OutputTokenDetails",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "TextContentBlock",
    "ToolCall",
    "ToolCallChunk",
    "UsageMetadata",
    "VideoContentBlock",
]


class Citation(TypedDict):
    """Where a piece of text comes from."""

    type: Literal["citation"]
    id: NotRequired[str]
    url: NotRequired[str]
    title: NotRequired[str]
    start_index: NotRequired[int]
    """First character of the cited span in the block's text."""
    end_index: NotRequired[int]
    cited_text: NotRequired[str]
    """The words of the source."""
    extras: NotRequired[dict[str, Any]]


class NonStandardAnnotation(TypedDict):
    """A provider's annotation that is no citation, as it came."""

    type: Literal["non_standard_annotation"]
    id: NotRequired[str]
    value: dict[str, Any]


Annotation: TypeAlias = Citation | NonStandardAnnotation


class TextContentBlock(TypedDict):
    """Words."""

    type: Literal["text"]
    text: str
    id: NotRequired[str]
    annotations: NotRequired[list[Annotation]]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ReasoningContentBlock(TypedDict):
    """What a model thought before it answered. Signatures that must be sent back are in `extras`."""

    type: Literal["reasoning"]
    reasoning: NotRequired[str]
    id: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class RefusalContentBlock(TypedDict):
    """The model's words for not answering."""

    type: Literal["refusal"]
    refusal: str
    id: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ImageContentBlock(TypedDict):
    """A picture."""

    type: Literal["image"]
    id: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    url: NotRequired[str]
    base64: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class AudioContentBlock(TypedDict):
    """Sound."""

    type: Literal["audio"]
    id: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    url: NotRequired[str]
    base64: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class VideoContentBlock(TypedDict):
    """Moving pictures."""

    type: Literal["video"]
    id: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    url: NotRequired[str]
    base64: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class FileContentBlock(TypedDict):
    """Any other file, a PDF for example. `extras["filename"]` where it is known."""

    type: Literal["file"]
    id: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    url: NotRequired[str]
    base64: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


class PlainTextContentBlock(TypedDict):
    """A text document handed to the model, as opposed to words said to it."""

    type: Literal["text-plain"]
    id: NotRequired[str]
    file_id: NotRequired[str]
    mime_type: NotRequired[str]
    index: NotRequired[int | str]
    url: NotRequired[str]
    base64: NotRequired[str]
    text: NotRequired[str]
    title: NotRequired[str]
    context: NotRequired[str]
    extras: NotRequired[dict[str, Any]]


DataContentBlock: TypeAlias = (
    ImageContentBlock | VideoContentBlock | AudioContentBlock | PlainTextContentBlock | FileContentBlock
)


class NonStandardContentBlock(TypedDict):
    """A provider's block that has no standard form; `value` is the block as it came."""

    type: Literal["non_standard"]
    value: dict[str, Any]
    id: NotRequired[str]
    index: NotRequired[int | str]


class ToolCall(TypedDict):
    """A model's request to run one tool. `args` is always an object."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: NotRequired[Literal["tool_call"]]


class ToolCallChunk(TypedDict):
    """A piece of a tool call in a stream: `args` is a piece of JSON text."""

    name: str | None
    args: str | None
    id: str | None
    index: int | str | None
    type: NotRequired[Literal["tool_call_chunk"]]


class InvalidToolCall(TypedDict):
    """A call whose arguments are not a JSON object. `args` is the raw text, `error` says what is wrong with it."""

    name: str | None
    args: str | None
    id: str | None
    error: str | None
    type: NotRequired[Literal["invalid_tool_call"]]


class ServerToolCall(TypedDict):
    """A tool call that the provider runs itself (web search, code execution)."""

    type: Literal["server_tool_call"]
    id: str
    name: str
    args: dict[str, Any]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ServerToolCallChunk(TypedDict):
    """A piece of a `ServerToolCall` in a stream."""

    type: Literal["server_tool_call_chunk"]
    id: NotRequired[str]
    name: NotRequired[str]
    args: NotRequired[str]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


class ServerToolResult(TypedDict):
    """What the provider's own tool gave back."""

    type: Literal["server_tool_result"]
    tool_call_id: str
    status: Literal["success", "error"]
    id: NotRequired[str]
    output: NotRequired[Any]
    index: NotRequired[int | str]
    extras: NotRequired[dict[str, Any]]


ContentBlock: TypeAlias = (
    TextContentBlock
    | ReasoningContentBlock
    | RefusalContentBlock
    | DataContentBlock
    | ToolCall
    | ToolCallChunk
    | InvalidToolCall
    | ServerToolCall
    | ServerToolCallChunk
    | ServerToolResult
    | NonStandardContentBlock
)


class InputTokenDetails(TypedDict, total=False):
    """Parts of `input_tokens`. They need not add up to it."""

    audio: int
    cache_creation: int
    """Tokens written to the provider's cache."""
    cache_read: int
    """Tokens read from the provider's cache."""


class OutputTokenDetails(TypedDict, total=False):
    """Parts of `output_tokens`. They need not add up to it."""

    audio: int
    reasoning: int


class UsageMetadata(TypedDict):
    """Tokens of one model call. `input_tokens` has cache reads and writes in it."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: NotRequired[InputTokenDetails]
    output_token_details: NotRequired[OutputTokenDetails]
