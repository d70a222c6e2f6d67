"""Door: ready-made nodes, under the name that LangGraph's users know."""

from loopwright.agents.tool_node import ToolNode, tools_condition
from loopwright.tools import InjectedState, InjectedStore, ToolRuntime

__all__ = ["InjectedState", "InjectedStore", "ToolNode", "ToolRuntime", "tools_condition"]
