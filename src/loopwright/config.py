"""Door: what running code asks of its run, under the name that LangGraph's users know."""

from loopwright.graph.task import get_config, get_store, get_stream_writer
from loopwright.scope import RunnableConfig

__all__ = ["RunnableConfig", "get_config", "get_store", "get_stream_writer"]
