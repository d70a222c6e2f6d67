"""Agents: `create_agent`, the loop, limits, structured answers and middleware."""

from loopwright.agents.agent import Agent
from loopwright.agents.factory import create_agent
from loopwright.agents.limits import Limits
from loopwright.agents.middleware.types import AgentState
from loopwright.agents.result import AgentResult

__all__ = ["Agent", "AgentResult", "AgentState", "Limits", "create_agent"]


def __getattr__(name: str) -> object:
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
