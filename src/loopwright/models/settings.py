"""What a user wrote to make a model behind a wire, checked: the parts that all formats share.

Rules:

- other libraries' spellings of a field are accepted; one that does not exist is an error with near names;
- a key is checked before it is used, because what the HTTP client says about a bad header would show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import SecretStr

from loopwright.errors import UsageError
from loopwright.models.http import Timeouts

__all__ = ["first_env", "given_key", "no_key", "settle_names", "sound_key", "timeouts_of", "with_query"]


def settle_names(cls: Any, fields: dict[str, Any], spellings: Mapping[str, str]) -> None:
    """Bring fields to their own names. Raises `UsageError` for one that does not exist."""
    for spelling, name in spellings.items():
        if spelling in fields:
            fields.setdefault(name, fields.pop(spelling))
    known: dict[str, Any] = cls.model_fields
    unknown = fields.keys() - known.keys()
    for info in known.values() if unknown else ():
        unknown -= {info.alias, info.validation_alias if isinstance(info.validation_alias, str) else None}
    if unknown:
        from difflib import get_close_matches

        name = min(unknown)
        near = get_close_matches(name, [*known, *spellings], n=2)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(
            f"{cls.__name__} has no field {name!r}.{hint} What only the provider knows goes into "
            f"model_kwargs={{{name!r}: ...}} or extra_body={{{name!r}: ...}}"
        )


def given_key(given: Any) -> Any:
    """A key as it is kept: hidden, a function that gives it, or None for an empty one. Raises `UsageError`."""
    if isinstance(given, SecretStr):
        given = given.get_secret_value()
    if isinstance(given, str):
        return SecretStr(sound_key(given)) if given.strip() else None
    if callable(given):
        return cast("Any", given)
    secret: Any = getattr(given, "get_secret_value", None)
    if secret is None:
        raise UsageError(f"api_key must be a string or a function that gives one, not {type(given).__name__}")
    return SecretStr(sound_key(secret()))


def no_key(cls: str, provider: str, variables: Iterable[str]) -> UsageError:
    """The error of a model that has no key."""
    return UsageError(
        f'no key for {provider}: set {" or ".join(variables)}, or give it as {cls}(..., api_key="...") '
        '(api_key="" if the server wants none)'
    )


def sound_key(key: str) -> str:
    """The key without the blanks around it. Raises `UsageError`, without showing it, if it cannot be a header."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key has a blank, a line break or a character that no key has: copy it again")
    return key


def with_query(url: str, query: Mapping[str, str] | None) -> str:
    """An address and its parameters."""
    if not query:
        return url
    from urllib.parse import urlencode

    return f"{url}?{urlencode(query)}"


def timeouts_of(timeout: Any, idle: float | None, *, has_own: bool) -> Timeouts | None:
    """`timeout` as the wire takes it; None leaves it to the user's own client. `inf` waits for ever."""
    if timeout is None and idle is None and has_own:
        return None
    default = Timeouts()
    connect: float | None
    first: float | None
    if timeout is None:
        connect, first = default.connect_s, default.first_s
    elif isinstance(timeout, (int, float)):
        connect, first = min(timeout, default.connect_s or timeout), float(timeout)
    elif isinstance(timeout, (tuple, list)):
        connect, first = cast("list[float | None]", timeout)[:2]
    elif hasattr(timeout, "read"):
        connect, first = timeout.connect, timeout.read
    else:
        raise UsageError(f"timeout must be seconds, (connect, silence) or a Timeout, not {timeout!r}")
    return Timeouts(_finite(connect), _finite(first), _finite(first if idle is None else idle))


def _finite(seconds: float | None) -> float | None:
    return None if seconds is None or seconds == float("inf") else float(seconds)


def first_env(names: Iterable[str]) -> str:
    """The first of some environment variables that holds something."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")
