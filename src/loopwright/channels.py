"""Door: marks on the keys of a state, as in `Annotated[str, EphemeralValue]`."""

from loopwright.graph.state import EphemeralValue, OmitFromInput, OmitFromOutput, OmitFromSchema, PrivateStateAttr

__all__ = ["EphemeralValue", "OmitFromInput", "OmitFromOutput", "OmitFromSchema", "PrivateStateAttr"]
