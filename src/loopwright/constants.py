"""Door: names with a meaning of their own."""

from loopwright.graph.types import END, START, TAG_HIDDEN, TAG_NOSTREAM

__all__ = ["END", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]
