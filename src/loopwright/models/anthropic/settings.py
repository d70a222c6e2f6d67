"""What a user wrote to make a `ChatAnthropic`, completed and checked.

Rules:

- LangChain's and Anthropic's spellings of a field are accepted;
- the key and the address come from Anthropic's own variables where they are not given; a key from the environment is
  only sent to Anthropic or to an address that came from the environment too;
- a beta that a tool or a setting of the request needs is asked for without being told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from pydantic import SecretStr

from loopwright.errors import UsageError
from loopwright.models.anthropic.caching import cache_mark
from loopwright.models.anthropic.profiles import profile_of
from loopwright.models.settings import first_env, given_key, no_key, settle_names, sound_key, with_query

__all__ = ["BASE_URL", "KEY_ENV", "SPELLINGS", "betas_of", "endpoint", "settle"]

BASE_URL: Final = "https://api.anthropic.com"
KEY_ENV: Final = ("ANTHROPIC_API_KEY",)
_URL_ENV: Final = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL")

SPELLINGS: Final = {
    "model_name": "model",
    "anthropic_api_key": "api_key",
    "anthropic_api_url": "base_url",
    "stop_sequences": "stop",
    "max_tokens_to_sample": "max_tokens",
    "default_request_timeout": "timeout",
    "request_timeout": "timeout",
}
_BETAS: Final = {
    "mcp_servers": "mcp-client-2025-11-20",
    "context_management": "context-management-2025-06-27",
    "file": "files-api-2025-04-14",
    "container_upload": "files-api-2025-04-14",
    "mcp_toolset": "mcp-client-2025-11-20",
    "web_fetch_20250910": "web-fetch-2025-09-10",
    "code_execution_20250522": "code-execution-2025-05-22",
    "code_execution_20250825": "code-execution-2025-08-25",
    "memory_20250818": "context-management-2025-06-27",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "advisor_20260301": "advisor-tool-2026-03-01",
}
"""What in a request needs which beta: fields, types of tools, of blocks and of their sources. As of November 2026."""


def settle(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as they are kept: address and key found. Raises `UsageError`."""
    settle_names(cls, fields, SPELLINGS)
    if not fields.get("model"):
        raise UsageError(f'{cls.__name__} needs the name of a model: {cls.__name__}(model="claude-sonnet-4-5")')
    given_url = fields.get("base_url") or ""
    env_url = "" if given_url else first_env(_URL_ENV)
    fields["base_url"] = url = _address(given_url or env_url or BASE_URL)
    fields["api_key"] = _key(cls.__name__, url, fields, trusted=not given_url or url == BASE_URL)
    cache_mark(fields.get("prompt_caching"))
    if fields.get("profile") is None:
        fields["profile"] = profile_of(str(fields["model"]))
    return fields


def _address(given: str) -> str:
    url = given.strip().rstrip("/").removesuffix("/messages").removesuffix("/v1")
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"base_url must begin with https:// or http://, not {given!r}")
    return url


def _key(cls: str, url: str, fields: Mapping[str, Any], *, trusted: bool) -> Any:
    given = fields.get("api_key")
    if given is not None:
        return given_key(given)
    found = first_env(KEY_ENV) if trusted else ""
    if found:
        return SecretStr(sound_key(found))
    headers: Mapping[str, str] = fields.get("default_headers") or {}
    has_own = any(name.lower() in ("x-api-key", "authorization") for name in headers)
    if not has_own and fields.get("auth") is None and not url.startswith("http://"):
        raise no_key(cls, "anthropic", KEY_ENV)
    return None


def endpoint(base_url: str, query: Mapping[str, str] | None) -> str:
    """The address that is posted to."""
    return with_query(f"{base_url}/v1/messages", query)


def betas_of(body: Mapping[str, Any], own: Any) -> list[str]:
    """The user's betas, and those that the request needs, each once."""
    found = [_BETAS[word] for word in _words(body) if word in _BETAS]
    return list(dict.fromkeys([*(own or ()), *found]))


def _words(body: Mapping[str, Any]) -> Iterator[str]:
    yield from (key for key in ("mcp_servers", "context_management") if body.get(key))
    yield from (str(tool.get("type")) for tool in body.get("tools", ()))
    for turn in body["messages"]:
        if isinstance(turn["content"], list):
            yield from _words_of(cast("list[dict[str, Any]]", turn["content"]))


def _words_of(blocks: list[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        source = block.get("source")
        yield str((cast("dict[str, Any]", source) if isinstance(source, dict) else block).get("type"))
        if isinstance(block.get("content"), list):
            yield from _words_of([item for item in block["content"] if isinstance(item, dict)])
