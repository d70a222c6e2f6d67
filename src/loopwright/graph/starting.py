"""How a run begins: fresh, as the next turn of a thread, or where its thread stopped.

What a call asks for is checked before the thread is claimed: a wrong one must not take it from the run that has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from msgspec import msgpack

from loopwright.checkpoint.record import NO_ARG, Record
from loopwright.errors import EmptyInputError, Escalated, UsageError
from loopwright.graph.answering import MISSING, answers_for, asked_again, asked_by, digits
from loopwright.graph.events import RunStarted
from loopwright.graph.keeping import ask, load, save, save_task
from loopwright.graph.nodes import from_outside
from loopwright.graph.saved import (
    JOINS_KEY,
    RAN_KEY,
    Progress,
    account_in,
    has_stopped,
    joined,
    open_in,
    opened_in,
    paused_form,
    progress_in,
)
from loopwright.graph.state import refuse_misspelled
from loopwright.graph.telling import tell_checkpoint, tell_step
from loopwright.graph.types import START, Command
from loopwright.graph.writers import Writers
from loopwright.graph.writes import writes_of
from loopwright.messages.plain import is_dict

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task
    from loopwright.scope import ConfigLike

__all__ = ["begin", "mend", "open_thread", "refuse_place_below", "revive", "settle", "take"]


async def begin(run: Run, given: Any) -> None:
    """Bring a run to its first step. `given` is input, None or a `Command`."""
    if run.saver is not None and run.below is None:
        await run.port.after_abandoned(run.place)
    if run.below is None:
        head, record = await open_thread(run)
    else:
        head = record = await _open_below(run, run.below, given)
    if record is not None and record.unreadable:
        from loopwright.checkpoint.kinds import unknown_type

        raise unknown_type(run.thread_id, record.unreadable)
    if run.below is not None and record is not None:
        given = None  # the task around it runs again: what it has begun goes on in place
    if record is None and isinstance(given, Command) and given.resume is None and is_dict(given.update):
        given = given.update  # the first input of a thread, given as an update of it
    command = cast("Command[Any]", given) if isinstance(given, Command) else None
    resumes = given is None or command is not None
    answers: dict[str, Any] = {}
    writes: list[tuple[str, Any]] = []
    if not resumes and record is head and record is not None and open_in(record):
        _check_answer(run, given)
    if resumes:
        answers = _check_resume(run, record, command, is_head=record is head)
    else:
        writes = _input_writes(run, given)
    if run.below is not None:
        run.claim, run.writers = run.below.run.claim, run.below.run.writers
    elif run.saver is not None:
        run.claim = await ask(run, "claim", run.thread_id, head, run.run_id)
        run.writers = Writers()
    if run.wants(RunStarted):
        run.emit(RunStarted, run.run_id, run.thread_id, given)
    if record is not None and resumes:
        saved = await _resume(run, record, is_head=record is head, command=command, answers=answers)
        if record is not head or command is not None or has_stopped(record):
            run.passed = run.step
        if not run.tasks and mend(run, run.graph.repair):  # ended by another program, or from outside
            run.step += 1
            saved = await save(run, "loop")
    else:
        saved = await _start(run, record, writes, is_head=record is head)
    run.first_step = run.step
    run.begun = True
    if run.tokens and run.feed is not None:
        for key in run.graph.message_keys:
            run.feed.skip(run.state.get(key, ()), run.path)
    if run.feed is not None:
        await tell_step(run, saved, changed=True)


async def _open_below(run: Run, task: Task, given: Any) -> Record | None:
    """Find the place of a run below: that of the run which the task has begun with the same input before.

    Runs that a task begins at the same time may begin in another order when it runs again. One whose input is new
    has the next place that is free. What is on record here counts for the task's step, which has to be there first.
    """
    try:
        await task.run.beside.over_around(run.port)
    except Exception as error:
        raise Escalated(error) from error
    found: list[Record] = []
    first, token, run.opened = run.namespace, object(), _in_short(run.graph.name, given)
    while (record := await load(run, None)) is not None:
        found.append(record)
        run.namespace = f"{first}|{len(found)}"
    same = (at for at, record in enumerate(found) if opened_in(record) == run.opened)
    place = next((at for at in same if task.takes(at, token)), None)
    if place is None:
        place = next(at for at in count() if task.takes(at, token))
    run.namespace = f"{first}|{place}" if place else first
    if place >= len(found):
        return None
    take(run, found[place])
    return found[place]


def _in_short(name: str, given: Any) -> str:
    """The same text for the same agent and input, in every process."""
    try:
        said = msgpack.encode((name, given), enc_hook=repr)
    except Exception:  # noqa: BLE001 - what cannot be written is told by its type
        said = f"{name}:{type(given).__name__}".encode()
    return digits(said, 8)


async def open_thread(run: Run) -> tuple[Record | None, Record | None]:
    """Read the thread: its head, and the checkpoint to go on from, which becomes the state of this run."""
    head = record = await load(run, None)
    wanted = run.checkpoint_id
    if wanted is not None and (head is None or head.id != wanted):
        record = await load(run, wanted)
        if record is None:
            raise UsageError(
                f"Thread {run.thread_id!r} has no checkpoint {wanted!r}; see agent.get_state_history(config)."
            )
    if record is not None:
        take(run, record)
    return head, record


def take(run: Run, record: Record | None) -> None:
    """Make what is saved the state of this run; None is a fresh thread."""
    if record is None:
        run.state = run.graph.empty_state()
        run.unsaved = set(run.state)
        run.step = -2
        return
    run.state = dict(record.values)
    run.ran = run.state.pop(RAN_KEY, run.ran)
    run.arrived = run.state.pop(JOINS_KEY, run.arrived)
    run.step = record.step
    run.checkpoint_id, run.parent_checkpoint_id = record.id, record.parent_id


def settle(run: Run, record: Record) -> None:
    """Take in what tasks of the saved step have written, because that step will not be finished."""
    ended = [(task.name, task.writes) for task in progress_in(record).values() if task.ended]
    run.state, changed = joined(run.graph.channels, run.state, ended)
    run.unsaved |= changed


# ---- new input


def _check_answer(run: Run, given: Any) -> None:
    """Raise for an input of a paused thread that says nothing: an answer without its `Command`."""
    if is_dict(given) and not any(key in run.graph.input_keys for key in given):
        raise UsageError(
            f"Thread {run.thread_id!r} waits for an answer, and the input {given!r:.80} holds nothing of the state. "
            "Answer with invoke(Command(resume=…), config); an input with messages begins a new turn instead."
        )


def _input_writes(run: Run, given: Any) -> list[tuple[str, Any]]:
    keys, given = run.graph.input_keys, run.graph.check_input(given, run.state)
    writes = [(key, value) for key, value in given.items() if key in keys]
    if len(writes) < len(given) and (run.parent is None or run.parent.node.subgraph is None):
        foreign = [key for key in given if key in keys or key not in run.graph.channels]
        refuse_misspelled(keys, foreign, "The input has")
    return writes


async def _start(run: Run, record: Record | None, writes: list[tuple[str, Any]], *, is_head: bool) -> Record | None:
    """New input: on a fresh thread, or as the next turn of one that has ended or broken off."""
    if record is None:
        take(run, None)
    else:
        close = run.graph.repair
        if is_head:
            settle(run, record)
            close = _closing(run, record)
        mend(run, close)
        mend(run, run.graph.renew)
    start = run.make_task(run.graph.start, (START,), NO_ARG)
    start.writes, start.done = writes, True
    run.tasks = [start]
    run.step += 1
    tell_checkpoint(run, await save(run, "input"))
    await run.commit([start])
    mend(run, run.graph.repair)
    return await save(run, "loop")


def _closing(run: Run, record: Record) -> Any:
    """How a step is closed that will not be finished. Nobody knows how far its tasks had come."""
    if run.graph.close is None:
        return run.graph.repair
    progress = progress_in(record)
    begun = [pending.arg for pending in record.pending if not progress[pending.id].ended]
    return partial(run.graph.close, begun=begun, cancelled=False)


# ---- going on


def refuse_place_below(config: ConfigLike, nodes: Collection[str]) -> None:
    """Raise `UsageError` for a config that names the place of a run below: only that run knows its graph."""
    namespace = str((config.get("configurable") or {}).get("checkpoint_ns") or "")
    node, colon, _ = namespace.partition(":")
    if colon and node in nodes:
        raise UsageError(
            f"The config names the place of a run below, checkpoint_ns={namespace!r}. That can be looked at with "
            'get_state(config); run or change the thread itself: {"configurable": {"thread_id": …}}.'
        )


def _check_resume(run: Run, record: Record | None, command: Command[Any] | None, *, is_head: bool) -> dict[str, Any]:
    """The answers that a call without input brings. Raises for one that there is nothing to do for."""
    if record is None:
        answers = command is not None and command.resume is not None
        raise EmptyInputError(run.graph.nothing_to_resume(has_saver=run.saver is not None, answers=answers))
    if command is not None and command.update is not None:
        _, writes, _ = writes_of(command, START)
        refuse_misspelled(run.graph.channels, [key for key, _ in writes], "The command's update has")
    if command is None or command.resume is None:
        return {}
    answers = answers_for(open_in(record), command.resume, run.thread_id, is_paused=bool(record.pending))
    if answers and command.goto:
        raise UsageError(
            "Command(resume=…, goto=…) answers a task and gives it up at once. Write one of them; an answer may go "
            "with update=."
        )
    if answers and not is_head:
        _check_own(record, answers)
    return answers


def _check_own(record: Record, answers: dict[str, Any]) -> None:
    """Of an old checkpoint only the tasks of the graph itself go on with an answer: what runs in them begins anew."""
    for task_id, progress in progress_in(record).items():
        for asked in progress.interrupts:
            if asked.id in answers and not asked_by(task_id, asked.id):
                raise UsageError(
                    f"The question {asked.id!r} was asked by a run inside of node {progress.name!r}. From an old "
                    "checkpoint that begins anew, and asks again: go on with invoke(None, config), or answer at the "
                    "thread's head."
                )


async def _resume(
    run: Run, record: Record, *, is_head: bool, command: Command[Any] | None, answers: dict[str, Any]
) -> Record | None:
    """No input: go on where the thread stopped, running only what has not ended."""
    if command is not None and command.goto and is_head:
        settle(run, record)
    answered = revive(run, record, is_head=is_head, answers=answers)
    _restore(run, record)
    if is_head:
        for task in answered:
            await save_task(run, task, paused_form(task.interrupts, task.answers, task.finished))
    if command is not None and (command.update is not None or command.goto):
        return await _redirect(run, command)
    if is_head:
        return None
    run.step += 1
    return await save(run, "fork")


def revive(run: Run, record: Record, *, is_head: bool, answers: dict[str, Any] | None = None) -> list[Task]:
    """Plan the saved step again; returns the tasks that an answer was for.

    At the head, tasks that had ended stay so. Of an old step only its input does: the rest runs, and asks, anew.
    """
    answered: list[Task] = []
    run.tasks = []
    for pending, progress in zip(record.pending, progress_in(record).values(), strict=True):
        node = run.graph.start if pending.name == START else run.graph.nodes.get(pending.name)
        if node is None:
            names = ", ".join(map(repr, run.graph.nodes))
            raise UsageError(
                f"Thread {run.thread_id!r} waits for node {pending.name!r}, which this graph does not have (it "
                f"has {names}). Go on with the graph that made it, or say what runs next: "
                "update_state(…, as_node=…)."
            )
        task = run.make_task(node, pending.path or node.pulled, pending.arg, pending.id if is_head else None)
        if progress.ended and (is_head or pending.name == START):
            task.done, task.writes, task.goto = True, progress.writes, progress.goto
            task.spent = progress.spent
        elif _takes_up(task, progress, answers or {}, is_head=is_head):
            answered.append(task)
        run.tasks.append(task)
    return answered


def _takes_up(task: Task, progress: Progress, answers: dict[str, Any], *, is_head: bool) -> bool:
    """Give a task that had stopped to ask its questions and answers back; whether one of these answers is new."""
    own = {asked.id: answers[asked.id] for asked in progress.interrupts if asked.id in answers}
    if not is_head:
        task.answers = {asked_again(task.id, id): answer for id, answer in own.items()}
        return bool(own)
    task.answers, task.finished = {**progress.answers, **own}, progress.finished
    task.answered = tuple(asked for asked in progress.interrupts if asked.id in own)
    task.interrupts = tuple(asked for asked in progress.interrupts if asked.id not in own)
    known = own or any(task.answer_to(asked.id) is not MISSING for asked in task.interrupts)
    task.waits = bool(task.interrupts) and not known
    return bool(own)


def _restore(run: Run, record: Record) -> None:
    """Go on counting, from the account that knows of most. A run below then tells those above what it has spent."""
    progress = progress_in(record)
    latest = next((one.account for task in run.tasks if task.done and (one := progress.get(task.id))), None)
    run.kept = account = latest or account_in(record)
    if account is None:
        return
    run.stop_reason, run.said, spent, *more = account
    if run.budget is None or spent is None:
        return
    run.budget.restore(spent)
    if latest is None:
        _count_tasks(run, more[0] if more else {})
    if run.below is not None:
        run.budget.charge_above()


def _count_tasks(run: Run, known: Mapping[str, Any]) -> None:
    """Add what tasks have spent since. `known`: what of each, and of the runs in it, is in the account already."""
    for task in run.tasks:
        counted = known.get(task.id)
        if task.done:
            run.budget.add(task.spent or ())
            run.budget.add(counted or (), -1)
        elif counted is not None:
            task.tally = run.budget.tally(counted)


async def _redirect(run: Run, command: Command[Any]) -> Record | None:
    """The caller changes the state, or where the thread goes on, from outside."""
    task = run.make_task(from_outside(), (START,), NO_ARG)
    _, task.writes, task.goto = writes_of(command, START)
    kept = run.tasks
    await run.commit([task])
    if not command.goto:
        run.tasks = kept
        for task in kept:
            if task.arg is NO_ARG:
                task.input = dict(run.state)
    if not run.tasks:
        mend(run, run.graph.repair)
    return await save(run, "update")


def mend(run: Run, repair: Any) -> bool:
    """Mend what a broken-off run or another program left in the state; whether anything had to be."""
    mended: dict[str, Any] = {} if repair is None else repair(run.state)
    if mended:
        run.state = {**run.state, **mended}
        run.unsaved |= mended.keys()
        for task in run.tasks:
            if task.arg is NO_ARG:
                task.input = dict(run.state)
    return bool(mended)
