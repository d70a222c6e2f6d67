"""Door: ready-made nodes, under the name that LangGraph's users know."""

from loopwright.agents.factory import create_agent as create_react_agent
from loopwright.agents.tool_node import ToolNode, tools_condition
from loopwright.tools import InjectedState, InjectedStore, ToolRuntime

__all__ = ["InjectedState", "InjectedStore", "ToolNode", "ToolRuntime", "create_react_agent", "tools_condition"]
