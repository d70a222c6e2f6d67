"""Checks of users' functions, made once, when a middleware or an agent is made.

The code object says all that is asked here, so that `inspect` (3 ms to import) is not needed. Functions that are not
written in Python are taken as they are.
"""

from __future__ import annotations

from typing import Any, Final, cast

from loopwright.agents.middleware.types import JUMP_TARGETS, JumpTo
from loopwright.errors import UsageError

__all__ = ["check_arguments", "check_jump_targets", "is_async_callable", "shortly"]

_VARARGS: Final = 0x04
_COROUTINE: Final = 0x80
_ITERABLE_COROUTINE: Final = 0x100


def is_async_callable(function: Any) -> bool:
    """Whether calling it gives an awaitable; also for methods, partials and objects with an async `__call__`."""
    function = _unwrapped(function)
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):
        kind = cast("Any", type(function))
        code = getattr(getattr(kind, "__call__", None), "__code__", None)  # noqa: B004  # its code is asked for
    flags = 0 if code is None else code.co_flags
    return bool(flags & (_COROUTINE | _ITERABLE_COROUTINE)) or hasattr(function, "_is_coroutine_mark")


def _unwrapped(function: Any) -> Any:
    while True:
        if hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "func") and hasattr(function, "keywords"):  # functools.partial
            function = function.func
        else:
            return function


def check_arguments(function: Any, where: str, wanted: tuple[str, ...]) -> None:
    """Raise `UsageError` unless `function` can be called with as many positional arguments as `wanted` names."""
    bound = 1 if getattr(function, "__self__", None) is not None else 0
    inner = getattr(function, "__func__", function)
    code = getattr(inner, "__code__", None)
    if code is None:
        return
    most = code.co_argcount - bound
    least = most - len(inner.__defaults__ or ())
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    needed = [name for name in keywords if name not in (inner.__kwdefaults__ or {})]
    if least <= len(wanted) and (most >= len(wanted) or code.co_flags & _VARARGS) and not needed:
        return
    names = ", ".join([*code.co_varnames[bound : code.co_argcount], *(f"*, {name}" for name in needed)])
    keyword = "async def" if code.co_flags & _COROUTINE else "def"
    right = ", ".join(("self", *wanted) if bound else wanted)
    raise UsageError(
        f"{where}({names}) cannot be called with ({', '.join(wanted)}): write `{keyword} {inner.__name__}({right})`"
    )


def check_jump_targets(targets: Any, where: str) -> tuple[JumpTo, ...]:
    """`can_jump_to` as a tuple. Raises `UsageError` for what is no list of `JumpTo`."""
    if targets is None:
        return ()
    if isinstance(targets, str):
        raise UsageError(f'{where}: can_jump_to takes a list: can_jump_to=["{targets}"]')
    listed = tuple(targets)
    for target in listed:
        if target not in JUMP_TARGETS:
            raise UsageError(f"{where} cannot jump to {target!r}; targets are {', '.join(map(repr, JUMP_TARGETS))}")
    return cast("tuple[JumpTo, ...]", listed)


def shortly(value: Any) -> str:
    """A value and its type, for an error message."""
    if value is None:
        return "None"
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"
