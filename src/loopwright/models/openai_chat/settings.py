"""What a user wrote to make a `ChatOpenAI`, completed and checked.

Rules:

- LangChain's and OpenAI's spellings of a field are accepted;
- OpenAI's own variables (`OPENAI_API_KEY`) serve OpenAI, servers that nobody knows, and an address that came from
  `OPENAI_BASE_URL`; they are not sent to another provider of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import SecretStr

from loopwright.errors import UsageError
from loopwright.models.catalogue import find_key, provider_named
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.profiles import profile_of
from loopwright.models.providers import PROVIDERS, Provider, provider_at
from loopwright.models.settings import first_env, given_key, no_key, settle_names, sound_key

__all__ = ["ANYONE", "SPELLINGS", "key_hint", "locate", "settle"]

ANYONE: Final = Dialect()
"""The dialect for an address that is in no row."""

SPELLINGS: Final = {
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
    settle_names(cls, fields, SPELLINGS)
    if not fields.get("model"):
        raise UsageError(f'{cls.__name__} needs the name of a model: {cls.__name__}(model="gpt-4o-mini")')
    row = locate(cls.__name__, fields)
    if fields.get("profile") is None and row.structured_output:
        fields["profile"] = _profile(row, fields["base_url"], str(fields["model"]))
    return fields


def locate(cls: str, fields: dict[str, Any]) -> Provider:
    """The provider of these fields, whose address and key are put into them. Raises `UsageError`."""
    given_url, from_openai_env = fields.get("base_url") or "", False
    if not fields.get("provider") and not given_url:
        given_url = first_env(PROVIDERS["openai"].base_url_env)
        from_openai_env = bool(given_url)
    row = (
        provider_named(fields["provider"]) if fields.get("provider") else provider_at(given_url) or PROVIDERS["openai"]
    )
    fields["provider"] = row.name
    fields["base_url"] = url = _address(row, given_url)
    fields["api_key"] = _key(cls, row, url, fields, from_openai_env)
    return row


def _address(row: Provider, given: str) -> str:
    url = (given or first_env(row.base_url_env) or row.base_url).strip()
    if not url:
        raise UsageError(
            f"{row.name} has an address for each customer: give base_url= or set {' or '.join(row.base_url_env)}"
        )
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"base_url must begin with https:// or http://, not {url!r}")
    url = url.rstrip("/").removesuffix("/chat/completions").removesuffix("/responses").removesuffix("/embeddings")
    has_path = "/" in url.partition("://")[2]
    if not has_path and row.name == "azure":
        return f"{url}/openai/v1"
    if not has_path and row.base_url.startswith("http://localhost"):
        return f"{url}/v1"
    return url


def _key(cls: str, row: Provider, url: str, fields: Mapping[str, Any], from_openai_env: bool) -> Any:
    given = fields.get("api_key")
    if given is not None:
        return given_key(given)
    found = find_key(row) or (find_key(PROVIDERS["openai"]) if from_openai_env else None)
    if found:
        return SecretStr(sound_key(found))
    headers: Mapping[str, str] = fields.get("default_headers") or {}
    has_own = any(name.lower() == row.key_header for name in headers)
    is_local = url.startswith("http://") and row.name == "openai"
    if row.needs_key and not has_own and not is_local and fields.get("auth") is None:
        raise no_key(cls, row.name, row.key_env)
    return None


def key_hint(row: Provider) -> str:
    """Where a key that was refused came from."""
    variables = " or ".join(row.key_env)
    return f"the key comes from api_key= or {variables}" + (f"; {row.note}" if row.note else "")


def _profile(row: Provider, url: str, model: str) -> dict[str, Any] | None:
    """What is known of a model. Of an unknown server behind OpenAI's name nothing is."""
    if row.name == "openai" and provider_at(url) is None:
        return None
    known = profile_of(model) if row.name in ("openai", "azure") else None
    return known or {"structured_output": True, "tool_calling": True}
