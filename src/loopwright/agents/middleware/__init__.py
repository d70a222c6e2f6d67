"""Middleware: what runs around the steps of an agent."""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from loopwright.agents.middleware.human_in_the_loop import (
        Action,
        ActionRequest,
        Decision,
        DecisionType,
        HITLRequest,
        HITLResponse,
        HumanInTheLoopMiddleware,
        InterruptOnConfig,
        ReviewConfig,
    )

__all__ = [
    "Action",
    "ActionRequest",
    "AgentMiddleware",
    "AgentState",
    "Decision",
    "DecisionType",
    "ExtendedModelResponse",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InterruptOnConfig",
    "JumpTo",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "PrivateStateAttr",
    "ReviewConfig",
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


_LAZY = {
    "Action": "human_in_the_loop",
    "ActionRequest": "human_in_the_loop",
    "Decision": "human_in_the_loop",
    "DecisionType": "human_in_the_loop",
    "HITLRequest": "human_in_the_loop",
    "HITLResponse": "human_in_the_loop",
    "HumanInTheLoopMiddleware": "human_in_the_loop",
    "InterruptOnConfig": "human_in_the_loop",
    "ReviewConfig": "human_in_the_loop",
}
"""Ready-made middleware is loaded when it is used: name -> module."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
