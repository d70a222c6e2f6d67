"""From `module:name` to an agent: whatever the user's module calls by that name.

Rules: the current folder is looked in first, as `python -m` does; a file's path works too; a function without required
arguments is called; a bare chat model becomes an agent without tools. What is not there is said in one line, with the
names that are.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from loopwright.errors import UsageError

__all__ = ["bare_agent", "find_agent"]

_USUAL = ("agent", "graph", "app")


def bare_agent(model: Any, system: str | None) -> Any:
    """An agent without tools. Raises what a missing key or package raises."""
    from loopwright.agents import create_agent
    from loopwright.models.catalogue import init_chat_model

    made = init_chat_model(model) if isinstance(model, str) else model
    return create_agent(made, system_prompt=system)


def find_agent(spec: str) -> Any:
    """`module`, `module:name` or `path/file.py:name`. Raises `UsageError`."""
    place, _, name = spec.partition(":")
    module = _import(place)
    if name:
        target: Any = module
        for part in name.split("."):
            if not hasattr(target, part):
                raise UsageError(f"{place} has no {name!r}.{_what_there_is(place, module)}")
            target = getattr(target, part)
        return _as_agent(target, spec)
    found = {key: value for key, value in vars(module).items() if _is_agent(value)}
    for key in _USUAL:
        if key in found:
            return found[key]
    if len(found) == 1:
        return next(iter(found.values()))
    words = _what_there_is(place, module) if found else f" Write loopwright chat {place}:name"
    raise UsageError(f"{place} has {len(found) or 'no'} agents, and none is named.{words}")


def _import(place: str) -> ModuleType:
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if not place:
        raise UsageError("an agent is named by its module and its name there: loopwright chat my_module:agent")
    if place.endswith(".py"):
        path = Path(place)
        if not path.is_file():
            raise UsageError(f"there is no file {place}")
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if place == missing or place.startswith(f"{missing}."):
            raise UsageError(f"there is no module {place!r} in {here} or among the installed packages") from None
        raise


def _as_agent(value: Any, spec: str) -> Any:
    if _is_agent(value):
        return value
    from loopwright.models.like import ModelLike

    if isinstance(value, ModelLike):
        return bare_agent(value, None)
    if callable(value) and not isinstance(value, type):
        try:
            made = value()
        except TypeError as error:
            raise UsageError(f"{spec} is a function, and calling it failed: {error}") from error
        if _is_agent(made):
            return made
        value = made
    if hasattr(value, "compile") and hasattr(value, "add_node"):
        raise UsageError(f"{spec} is a graph that was not compiled: write {spec.partition(':')[2]} = graph.compile()")
    raise UsageError(f"{spec} is a {type(value).__name__}, and no agent: it has to come from create_agent(...)")


def _is_agent(value: Any) -> bool:
    from loopwright.graph.compiled import CompiledStateGraph

    return isinstance(value, CompiledStateGraph)


def _what_there_is(place: str, module: ModuleType) -> str:
    names = [key for key, value in vars(module).items() if _is_agent(value)]
    return f" There is {', '.join(f'{place}:{name}' for name in names)}" if names else " It has no agent by any name"
