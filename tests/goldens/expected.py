"""Scenarios in which Loopwright does not do what LangChain did, and why each may differ.

A value is the first cell of a row of docs/differences.md (we differ on purpose), or begins with `LATER`
(what it needs is not built yet). Anything else that differs is a fault.
"""

LATER = "later: "

STORE = LATER + "long-term stores"
INTERRUPTS = LATER + "interrupts"
ASTREAM_EVENTS = LATER + "astream_events"

EXPECTED: dict[str, str] = {
    "graph/agent_as_tool_with_interrupt": INTERRUPTS,
    "model/astream_events": ASTREAM_EVENTS,
    "store/basics": STORE,
    "stream/astream_events_v2": ASTREAM_EVENTS,
}
