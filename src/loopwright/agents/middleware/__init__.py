"""Middleware: what runs around the steps of an agent."""

from loopwright.agents.middleware.decorators import (
    after_agent,
    after_model,
    before_agent,
    before_model,
    dynamic_prompt,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.agents.middleware.types import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    JumpTo,
    ModelCallResult,
    ModelRequest,
    ModelResponse,
    OmitFromInput,
    OmitFromOutput,
    OmitFromSchema,
    PrivateStateAttr,
    ToolCallRequest,
)
from loopwright.graph.runtime import Runtime

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "ExtendedModelResponse",
    "JumpTo",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "PrivateStateAttr",
    "Runtime",
    "ToolCallRequest",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]
