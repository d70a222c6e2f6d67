"""Graphs: state and reducers, the builder, the engine, the facts of a run and the views of them."""

from loopwright.graph.builder import StateGraph
from loopwright.graph.compiled import CompiledStateGraph
from loopwright.graph.message import MessagesState, add_messages
from loopwright.graph.types import END, START

__all__ = ["END", "START", "CompiledStateGraph", "MessagesState", "StateGraph", "add_messages"]
