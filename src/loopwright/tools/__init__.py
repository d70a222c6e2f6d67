"""Tools: what a model may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwright.errors import ToolException, ToolInvocationError
from loopwright.tools.base import BaseTool
from loopwright.tools.call import call_tool, invalid_call_message, unknown_tool_message
from loopwright.tools.convert import check_tools, convert_to_openai_function, convert_to_openai_tool
from loopwright.tools.decorator import tool
from loopwright.tools.runtime import (
    InjectedState,
    InjectedStore,
    InjectedToolArg,
    InjectedToolCallId,
    ToolRuntime,
    idempotency_key,
)
from loopwright.tools.structured import StructuredTool, Tool

if TYPE_CHECKING:
    from loopwright.messages.blocks import InvalidToolCall, ToolCall

__all__ = [
    "BaseTool",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "InvalidToolCall",
    "StructuredTool",
    "Tool",
    "ToolCall",
    "ToolException",
    "ToolInvocationError",
    "ToolRuntime",
    "call_tool",
    "check_tools",
    "convert_to_openai_function",
    "convert_to_openai_tool",
    "idempotency_key",
    "invalid_call_message",
    "tool",
    "unknown_tool_message",
]

_LAZY = ["InvalidToolCall", "ToolCall"]
"""Names that are imported when somebody asks for them: the messages' shapes are many classes."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'loopwright.tools' has no attribute {name!r}")
    from loopwright.messages import blocks

    return getattr(blocks, name)
