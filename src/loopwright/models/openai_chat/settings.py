"""What a user wrote to make a `ChatOpenAI`, completed and checked.

Rules:

- LangChain's and OpenAI's spellings of a field are accepted; one that does not exist is an error with near names;
- OpenAI's own variables (`OPENAI_API_KEY`) serve OpenAI, servers that nobody knows, and an address that came from
  `OPENAI_BASE_URL`; they are not sent to another provider of the table;
- a key is checked before it is used, because what the HTTP client says about a bad header would show it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from pydantic import SecretStr

from loopwright.errors import UsageError
from loopwright.models.catalogue import find_key, provider_named
from loopwright.models.http import Timeouts
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.providers import PROVIDERS, Provider, provider_at

__all__ = ["ANYONE", "endpoint", "key_hint", "settle", "sound_key", "timeouts_of"]

ANYONE: Final = Dialect()
"""The dialect for an address that is in no row."""

_SPELLINGS: Final = {
    "model_name": "model",
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "openai_organization": "organization",
    "request_timeout": "timeout",
    "max_completion_tokens": "max_tokens",
    "stop_sequences": "stop",
}


def settle(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as they are kept: provider, address and key found. Raises `UsageError`."""
    for spelling, name in _SPELLINGS.items():
        if spelling in fields:
            fields.setdefault(name, fields.pop(spelling))
    _refuse_unknown(cls, fields)
    if fields.pop("use_responses_api", None):
        raise UsageError("ChatOpenAI speaks Chat Completions: leave use_responses_api out")
    if not fields.get("model"):
        raise UsageError(f'{cls.__name__} needs the name of a model: {cls.__name__}(model="gpt-4o-mini")')
    given_url, from_openai_env = fields.get("base_url") or "", False
    if not fields.get("provider") and not given_url:
        given_url = _first_env(PROVIDERS["openai"].base_url_env)
        from_openai_env = bool(given_url)
    row = (
        provider_named(fields["provider"]) if fields.get("provider") else provider_at(given_url) or PROVIDERS["openai"]
    )
    fields["provider"] = row.name
    fields["base_url"] = url = _address(row, given_url)
    fields["api_key"] = _key(cls.__name__, row, url, fields, from_openai_env)
    if fields.get("profile") is None and row.structured_output and _holds_schemas(row, url, str(fields["model"])):
        fields["profile"] = {"structured_output": True, "tool_calling": True}
    return fields


def _refuse_unknown(cls: Any, fields: Mapping[str, Any]) -> None:
    known: dict[str, Any] = cls.model_fields
    unknown = fields.keys() - known.keys() - {"use_responses_api"}
    for info in known.values() if unknown else ():
        unknown -= {info.alias, info.validation_alias if isinstance(info.validation_alias, str) else None}
    if unknown:
        from difflib import get_close_matches

        name = min(unknown)
        near = get_close_matches(name, [*known, *_SPELLINGS], n=2)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(
            f"{cls.__name__} has no field {name!r}.{hint} What only the provider knows goes into "
            f"model_kwargs={{{name!r}: ...}} or extra_body={{{name!r}: ...}}"
        )


def _address(row: Provider, given: str) -> str:
    url = (given or _first_env(row.base_url_env) or row.base_url).strip()
    if not url:
        raise UsageError(
            f"{row.name} has an address for each customer: give base_url= or set {' or '.join(row.base_url_env)}"
        )
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"base_url must begin with https:// or http://, not {url!r}")
    url = url.rstrip("/").removesuffix("/chat/completions")
    has_path = "/" in url.partition("://")[2]
    if not has_path and row.name == "azure":
        return f"{url}/openai/v1"
    if not has_path and row.base_url.startswith("http://localhost"):
        return f"{url}/v1"
    return url


def _key(cls: str, row: Provider, url: str, fields: Mapping[str, Any], from_openai_env: bool) -> Any:
    given = fields.get("api_key")
    if given is None:
        found = find_key(row) or (find_key(PROVIDERS["openai"]) if from_openai_env else None)
        if found:
            return SecretStr(sound_key(found))
        headers: Mapping[str, str] = fields.get("default_headers") or {}
        has_own = any(name.lower() == row.key_header for name in headers)
        is_local = url.startswith("http://") and row.name == "openai"
        if row.needs_key and not has_own and not is_local:
            names = " or ".join(row.key_env)
            raise UsageError(
                f'no key for {row.name}: set {names}, or give it as {cls}(..., api_key="...") '
                '(api_key="" if the server wants none)'
            )
        return None
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


def sound_key(key: str) -> str:
    """The key without the blanks around it. Raises `UsageError`, without showing it, if it cannot be a header."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key has a blank, a line break or a character that no key has: copy it again")
    return key


def key_hint(row: Provider) -> str:
    """Where a key that was refused came from."""
    variables = " or ".join(row.key_env)
    return f"the key comes from api_key= or {variables}" + (f"; {row.note}" if row.note else "")


def endpoint(base_url: str, query: Mapping[str, str] | None) -> str:
    """The address that is posted to."""
    url = f"{base_url}/chat/completions"
    if query:
        from urllib.parse import urlencode

        url = f"{url}?{urlencode(query)}"
    return url


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


def _holds_schemas(row: Provider, url: str, model: str) -> bool:
    """Whether the model is known to hold to a JSON schema; an unknown server behind OpenAI's name is not."""
    if row.name == "openai" and provider_at(url) is None:
        return False
    return not model.startswith(("gpt-3.5", "gpt-4-", "chatgpt-", "o1-mini", "o1-preview")) and model != "gpt-4"


def _first_env(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")
