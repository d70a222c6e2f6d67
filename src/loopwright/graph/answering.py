"""Questions in the middle of a run, and the answers that let it go on.

`interrupt(value)` stops the task it is called in. Its run pauses once the other tasks of the step have ended, and the
caller gets all their questions together. With `Command(resume=answer)` that task runs again from its first line, and
the same call of `interrupt` returns the answer. Rules:

- a question has an id: the task, the tool call in it, and how many that call has asked before. So it is the same in
  every run of the task, in whatever order tasks end, and no two are alike;
- an answer belongs to an id. It is kept with the task, and a run below finds it by asking the tasks above;
- a question is control flow, no error: a `BaseException`, which no `except Exception` of a tool or a hook holds up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.graph.types import Interrupt
from loopwright.scope import current_scope

__all__ = [
    "MISSING",
    "answers_for",
    "ask_together",
    "asked_again",
    "asked_by",
    "asking_call",
    "digits",
    "interrupt",
    "question_id",
]

MISSING: Final = object()
"""No answer yet."""

asking_call: ContextVar[str] = ContextVar("loopwright_asking_call", default="")
"""The tool call that runs here, where a task has several."""

_TASK_DIGITS, _CALL_DIGITS, _NUMBER_DIGITS = 16, 12, 4


def interrupt(value: Any, *, response_schema: Any = None) -> Any:
    """Ask the caller something and return the answer.

    The first time, the run pauses: `invoke` returns with the question in `result["__interrupt__"]`, and streams show
    it. `invoke(Command(resume=answer), config)` runs the node, hook or tool again from its first line, and now this
    call returns `answer`. What stands before it runs twice, so effects belong behind it. `value` is what the caller
    sees, `response_schema` (a JSON schema) says what answer is expected; both must be plain data that can be stored.

    Raises `RuntimeError` outside of a run; without a checkpointer the run ends with a `UsageError`.
    """
    return _here().ask([value], response_schema)[0]


def ask_together(values: Sequence[Any]) -> list[Any]:
    """`interrupt` for several questions that may be answered one by one: they are all asked at the same time."""
    return _here().ask(values)


def _here() -> Any:
    scope: Any = current_scope.get()
    if scope is None or not hasattr(scope, "ask"):
        raise RuntimeError(
            "interrupt() was called outside of a run. Call it in a node, a hook or a tool while the graph runs."
        )
    return scope


def question_id(task_id: str, call_id: str, number: int) -> str:
    """The id of the question that a task (in one of its tool calls) asks as its `number`th: 32 hexadecimal digits."""
    task = digits(task_id.encode(), _TASK_DIGITS)
    call = digits(call_id.encode("utf-8", "surrogatepass"), _CALL_DIGITS)
    return f"{task}{call}{number:0{_NUMBER_DIGITS}x}"


def asked_again(task_id: str, question: str) -> str:
    """The id of the same question, asked by another task that does the same."""
    return digits(task_id.encode(), _TASK_DIGITS) + question[_TASK_DIGITS:]


def asked_by(task_id: str, question: str) -> bool:
    """Whether a question is the task's own, not one of a run inside of it."""
    return question.startswith(digits(task_id.encode(), _TASK_DIGITS))


def digits(content: bytes, count: int) -> str:
    """So many hexadecimal digits that are the same for the same content."""
    from hashlib import blake2b

    return blake2b(content, digest_size=count // 2).hexdigest()


def answers_for(
    questions: Sequence[Interrupt], resume: Any, thread_id: str | None, *, is_paused: bool
) -> dict[str, Any]:
    """From what `Command(resume=…)` brings to answers by id. Raises `UsageError` for one that fits no question."""
    known = [question.id for question in questions]
    resume = _with_ids(resume)
    if _is_map(resume, known):
        answers = cast("Mapping[str, Any]", resume)
        strange = [id for id in answers if id not in known]
        if strange:
            raise UsageError(
                f"Command(resume=…) answers {', '.join(map(repr, strange))}, which thread {thread_id!r} does not wait "
                f"for: answered before, or asked elsewhere. {_open(known)} Nothing was run."
            )
        return dict(answers)
    if len(known) == 1:
        return {known[0]: resume}
    if known:
        raise UsageError(
            f"Thread {thread_id!r} waits for {len(known)} answers, and Command(resume={resume!r:.60}) does not say "
            "which one it is. Write Command(resume={id: answer, …}); "
            f"the ids are {', '.join(map(repr, known))}, the questions are in agent.get_state(config).interrupts."
        )
    stands, way = (
        ("waits for no answer", "Go on with invoke(None, config), or give a new input")
        if is_paused
        else ("is not paused", "Give a new input")
    )
    raise UsageError(f"Command(resume=…) answers a question, and thread {thread_id!r} {stands}. {way}.")


def _with_ids(resume: Any) -> Any:
    """A `resume` in which questions that are keys stand as their ids."""
    if not isinstance(resume, dict):
        return resume
    answers = cast("dict[Any, Any]", resume)
    if not any(isinstance(key, Interrupt) for key in answers):
        return answers
    return {key.id if isinstance(key, Interrupt) else key: answer for key, answer in answers.items()}


def _is_map(resume: Any, known: Sequence[str]) -> bool:
    """Whether a `resume` is a dict from ids to answers, and not an answer that happens to be a dict."""
    if not isinstance(resume, dict) or not resume:
        return False
    keys = list(cast("dict[Any, Any]", resume))
    return any(key in known for key in keys) or all(_is_id(key) for key in keys)


def _is_id(key: Any) -> bool:
    return isinstance(key, str) and len(key) == 32 and not key.strip("0123456789abcdef")


def _open(known: Sequence[str]) -> str:
    if not known:
        return "It waits for no answer now."
    return f"It waits for {', '.join(map(repr, known))}."
