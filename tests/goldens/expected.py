"""Steps of scenarios in which Loopwright does not do what LangChain did, and why each may differ.

A value is the first cell of a row of docs/differences.md (we differ on purpose), or begins with `LATER`
(what it needs is not built yet). Anything else that differs is a fault.
"""

LATER = "later: "

STORE = LATER + "long-term stores"
ASTREAM_EVENTS = LATER + "astream_events"

WHOLE = "*"
"""In place of a step: all of the scenario."""

ERROR_CLASSES = "Classes of usage errors"
TOOL_RAISES = "A tool raises"
NO_TOOLS = "The model calls a tool and there is none"
OPEN_CALLS = "Calls without a result in the input"
ENDLESS = "Runs without an end"
EMPTY_INPUT = "An input without messages"
STRING_INPUT = "A string as input"
ASYNC_ONLY = "Async-only hooks and tools under `invoke`"
RESULTS = "Results of tools that are no strings"
COMMAND_WITHOUT_RESULT = "A `Command` without a result for its call"
TOOL_NODE = "A tool raises in a `ToolNode`"
NO_SAVER = "`checkpoints` mode without a checkpointer"
PARTIAL_CALLS = "Streamed pieces of a call"
REJECTED = "The result of a structured answer that does not fit"
WORDS = "Words in place of a structured answer"
CONTEXT_DEFAULTS = "A context class with defaults"
RESULT_CLASS = "Result of `invoke`"
NOT_PAUSED = "`Command(resume=...)` where nothing is asked, or with an id that was answered"
NOT_KEPT = "`interrupt()`, `interrupt_before` and reviews without a checkpointer"
WRONG_ANSWER = "An answer that a review cannot take"
REVIEWED = "The result of a call that a review rejected or answered"
PICTURE = "The edge from the tools to the model"

EXPECTED: dict[str, dict[str, str]] = {
    "graph/compile_errors": {"no entry": ERROR_CLASSES, "duplicate": ERROR_CLASSES, "missing node": ERROR_CLASSES},
    "graph/get_graph": {"edges": PICTURE},
    "hitl/no_checkpointer": {"invoke": NOT_KEPT},
    "hitl/reject_with_message": {"reject": REVIEWED},
    "hitl/respond": {"respond": REVIEWED},
    "hitl/two_calls_mixed": {"mixed": REVIEWED},
    "hitl/wrong_number_of_decisions": {"two": WRONG_ANSWER, "then right": WRONG_ANSWER},
    "interrupt/resume_nothing_pending": {"finished": NOT_PAUSED, "fresh": NOT_PAUSED},
    "loop/async_tool_sync_invoke": {"invoke": ASYNC_ONLY},
    "loop/input_bad_role": {"invoke": ERROR_CLASSES},
    "loop/input_empty_dict": {"invoke": EMPTY_INPUT},
    "loop/input_no_messages_key": {"invoke": EMPTY_INPUT},
    "loop/input_string": {"invoke": STRING_INPUT},
    "loop/no_tools_but_model_calls_one": {"invoke": NO_TOOLS, "model_calls": NO_TOOLS},
    "loop/one_of_two_tools_raises": {"invoke": TOOL_RAISES, "state": TOOL_RAISES},
    "loop/pending_tool_calls_in_input": {"sent": OPEN_CALLS, "invoke": OPEN_CALLS},
    "loop/recursion_limit_default": {"messages": ENDLESS},
    "loop/tool_exception_default": {"invoke": TOOL_RAISES},
    "loop/tool_raises": {"invoke": TOOL_RAISES, "model_calls": TOOL_RAISES},
    "loop/unknown_model_string": {"build": ERROR_CLASSES, "provider": ERROR_CLASSES},
    "messages/add_messages": {"remove unknown": ERROR_CLASSES},
    "messages/convert_roundtrip": {"bad tuple": ERROR_CLASSES},
    "middleware/async_only_hook_sync_invoke": {"wrap": ASYNC_ONLY, "before": ASYNC_ONLY},
    "middleware/context_dict_and_missing": {"wrong key": ERROR_CLASSES, "seen": CONTEXT_DEFAULTS},
    "middleware/recursion_cost_of_hooks": {"limit 6": RESULT_CLASS},
    "middleware/wrap_model_bad_return": {"none": ERROR_CLASSES, "string": ERROR_CLASSES},
    "model/astream_events": {WHOLE: ASTREAM_EVENTS},
    "model/init_chat_model_errors": {"unknown name": ERROR_CLASSES, "unknown provider": ERROR_CLASSES},
    "store/basics": {WHOLE: STORE},
    "stream/astream_events_v2": {WHOLE: ASTREAM_EVENTS},
    "stream/checkpoints_without_saver": {"checkpoints": NO_SAVER},
    "stream/messages_tool_call_chunks": {"both": PARTIAL_CALLS},
    "structured/invalid_then_retry": {"invoke": REJECTED},
    "structured/plain_text_instead": {"invoke": WORDS, "model_calls": WORDS},
    "structured/two_answers_at_once": {"invoke": REJECTED},
    "threads/get_state_no_saver": {"state": ERROR_CLASSES, "history": ERROR_CLASSES},
    "threads/missing_thread_id": {"none": ERROR_CLASSES, "empty": ERROR_CLASSES},
    "threads/new_input_after_failure": {"1": TOOL_RAISES, "2": TOOL_RAISES, "sent": TOOL_RAISES},
    "threads/remove_message": {"unknown": ERROR_CLASSES},
    "threads/resume_parallel_only_failed": {"1": TOOL_RAISES, "2": TOOL_RAISES, "runs": TOOL_RAISES},
    "tools/no_docstring": {"tool()": ERROR_CLASSES},
    "tools/result_command_without_message": {"invoke": COMMAND_WITHOUT_RESULT},
    "tools/result_objects": {"pydantic": RESULTS, "dataclass": RESULTS, "enum": RESULTS, "bytes": RESULTS},
    "tools/toolnode_direct": {"raises": TOOL_NODE},
    "tools/tools_condition": {"empty": ERROR_CLASSES},
}
"""Scenario -> its steps that differ -> why."""
