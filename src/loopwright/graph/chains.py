"""What `config["callbacks"]` hear of a graph: its run as a chain, and each node as a chain inside of it.

Handlers find the place of a model or tool call by `parent_run_id`. A chain that stops to ask, or that sends a command
to the graph around it, has ended, and with no error. Without handlers nothing of this runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from loopwright.callbacks import CallbackRun, Callbacks
from loopwright.drive.bridge import awaited
from loopwright.drive.steps import InContext
from loopwright.errors import Escalated, GraphInterrupt, ParentCommand

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task
    from loopwright.port import Port

__all__ = ["heard_run", "heard_task"]


async def heard_run(run: Run, heard: Callbacks, given: Any, go: Callable[[], Awaitable[Any]]) -> Any:
    """Run a graph and tell its handlers."""
    name = run.config.get("run_name") or run.graph.name
    return await _heard(run.port, heard.run(run.run_id), name, given, go)


async def heard_task(task: Task, heard: Callbacks, go: Callable[[], Awaitable[Any]]) -> Any:
    """Run a node and tell the handlers of its graph, in a context of its own."""
    heard.metadata = {**heard.metadata, **task.metadata}
    chain = heard.run()
    return await InContext(_heard(task.port, chain, task.name, task.input, go), copy_context())


async def _heard(port: Port, chain: CallbackRun, name: str, given: Any, go: Callable[[], Awaitable[Any]]) -> Any:
    chain.become_parent()
    await chain.emit(port, "on_chain_start", {"name": name}, given, name=name)
    try:
        answer = await awaited(go())
    except GeneratorExit:
        raise
    except GraphInterrupt as asked:
        await chain.emit(port, "on_chain_end", {"__interrupt__": asked.interrupts})
        raise
    except ParentCommand as bubble:
        await chain.emit(port, "on_chain_end", bubble.command)
        raise
    except Escalated as outer:
        await chain.emit(port, "on_chain_error", outer.error)
        raise
    except BaseException as error:
        await chain.emit(port, "on_chain_error", error)
        raise
    await chain.emit(port, "on_chain_end", answer)
    return answer
