"""Door: the runtime that nodes, hooks and tools get."""

from loopwright.graph.runtime import Runtime, get_runtime

__all__ = ["Runtime", "get_runtime"]
