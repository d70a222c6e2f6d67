"""What a user writes to make a model behind a wire, and the connections that come of it: what all formats share.

Rules:

- other libraries' spellings of a field are accepted; one that does not exist is an error with near names;
- a key is checked before it is used, because what the HTTP client says about a bad header would show it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from loopwright import __version__
from loopwright.errors import UsageError
from loopwright.models.http import Timeouts, Wire, WireHeaders

__all__ = [
    "WireSettings",
    "accepted",
    "first_env",
    "given_key",
    "no_key",
    "settle_names",
    "sound_key",
    "timeouts_of",
    "with_query",
]


class WireSettings(BaseModel, defer_build=True):
    """The settings of whoever speaks to a provider, and its connections."""

    model: str
    """The provider's name of the model."""
    api_key: Any = Field(default=None, exclude=True, repr=False)
    """The key, or a function that gives it for each request. Without it, the provider's environment variable."""
    base_url: str = ""
    """The address that the paths of the format are added to. Without it, the provider's."""
    timeout: Any = None
    """Longest silence in seconds, before an answer and inside of one; 600 by default, `inf` for none. A pair is
    (connect, silence)."""
    max_retries: int = 2
    """Further tries after a failure that may pass; nothing is tried again once the answer has begun."""
    default_headers: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    http_client: Any = Field(default=None, exclude=True, repr=False)
    """An `httpx2.Client` of your own (proxies, certificates). You close it."""
    http_async_client: Any = Field(default=None, exclude=True, repr=False)

    _wire: Any = PrivateAttr(default=None)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what was set: most settings are the provider's."""
        shown = self.model_fields_set
        return ((name, value) for name, value in super().__repr_args__() if name in shown and value is not None)

    def _key(self) -> str | None:
        """The key of one request."""
        key = self.api_key
        if key is None:
            return None
        return key.get_secret_value() if isinstance(key, SecretStr) else sound_key(key())

    def _headers(self, own: Mapping[str, str], *, accept: str = "application/json") -> WireHeaders:
        """Those of every request, `own` of the format over them, and over both the user's."""
        common = {"content-type": "application/json", "user-agent": f"loopwright/{__version__}", "accept": accept}
        users = {name.lower(): value for name, value in (self.default_headers or {}).items()}
        return WireHeaders({**common, **own, **users})

    def _secrets(self, *known: str | None) -> tuple[str | None, ...]:
        """What no error may show."""
        return (*known, *(self.default_headers or {}).values())

    def _silence_inside(self) -> float | None:
        """Longest silence inside of an answer, where it is another than `timeout`."""
        return None

    def _connected(self) -> Wire:
        """The wire of these settings. A copy with the same settings shares it."""
        own, idle = (self.http_client, self.http_async_client), self._silence_inside()
        settings = (self.timeout, idle, self.max_retries, *own)
        known = self._wire
        if known is None or known[0] != settings:
            wire = Wire(
                timeouts=timeouts_of(self.timeout, idle, has_own=own != (None, None)),
                max_retries=self.max_retries,
                http_client=self.http_client,
                http_async_client=self.http_async_client,
            )
            known = self._wire = (settings, wire)
        return known[1]

    def close(self) -> None:
        """Close the connections of blocking calls. It happens by itself when the object is gone."""
        self._connected().close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. It happens by itself when the loop ends."""
        await self._connected().aclose()


def accepted(*, streamed: bool) -> str:
    """The form that an answer is asked for in."""
    return "text/event-stream" if streamed else "application/json"


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
