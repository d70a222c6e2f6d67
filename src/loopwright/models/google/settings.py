"""What a user wrote to make a model of this format, completed and checked.

Rules:

- LangChain's and Google's spellings of a field are accepted;
- Vertex AI is chosen by `vertexai`, by `project`, or by the class; there a key may be a function that gives a bearer
  token, and without one the key is Google's own ("express mode"), which needs no project;
- an address without a path gets the version of the API that the format belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import quote

from pydantic import SecretStr

from loopwright.errors import UsageError
from loopwright.models.settings import first_env, given_key, no_key, settle_names, sound_key

__all__ = ["HOST", "KEY_VARIABLES", "address_of", "key_header", "model_path", "safety_list", "settle"]

HOST: Final = "generativelanguage.googleapis.com"
KEY_VARIABLES: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_KEY_HEADERS: Final = ("x-goog-api-key", "authorization")
_SPELLINGS: Final = {
    "model_name": "model",
    "google_api_key": "api_key",
    "max_tokens": "max_output_tokens",
    "candidate_count": "n",
    "stop_sequences": "stop",
    "request_timeout": "timeout",
    "api_endpoint": "base_url",
    "additional_headers": "default_headers",
    "reasoning_effort": "thinking_level",
}
_TRUE: Final = ("1", "true", "yes")


def settle(cls: Any, fields: dict[str, Any], *, vertexai: bool) -> dict[str, Any]:
    """The fields as they are kept: place, address and key found. Raises `UsageError`."""
    if fields.get("credentials") is not None:
        raise UsageError(
            f"{cls.__name__} takes a function that gives a bearer token in place of credentials: write api_key=token, "
            "where token() refreshes the credentials if they are not valid and returns their token"
        )
    settle_names(cls, fields, _SPELLINGS)
    model = str(fields.get("model") or "").removeprefix("models/")
    if not model:
        raise UsageError(f'{cls.__name__} needs the name of a model: {cls.__name__}(model="gemini-2.5-flash")')
    fields["model"] = model
    if fields.get("vertexai") is None:
        from_env = first_env(("GOOGLE_GENAI_USE_VERTEXAI",)).lower() in _TRUE
        fields["vertexai"] = vertexai or bool(fields.get("project")) or from_env
    if fields["vertexai"]:
        fields["project"] = fields.get("project") or first_env(("GOOGLE_CLOUD_PROJECT",)) or None
        fields["location"] = fields.get("location") or first_env(("GOOGLE_CLOUD_LOCATION",)) or "global"
    fields["base_url"] = url = _address(fields)
    fields["api_key"] = _key(cls.__name__, url, fields)
    if fields.get("profile") is None:
        from loopwright.models.google.profiles import profile_of

        fields["profile"] = profile_of(model)
    return fields


def _address(fields: Mapping[str, Any]) -> str:
    version = "v1beta1" if fields["vertexai"] else "v1beta"
    given = address_of(fields.get("base_url"), version)
    if given:
        return given
    if not fields["vertexai"]:
        return f"https://{HOST}/{version}"
    location = fields["location"] if fields.get("project") else "global"
    before = "" if location == "global" else f"{location}-"
    return f"https://{before}aiplatform.googleapis.com/{version}"


def address_of(base_url: Any, version: str) -> str:
    """What was given as `base_url`, with the version of the API where it names none; empty if nothing was."""
    given = str(base_url or "").strip().rstrip("/")
    if given and not given.startswith(("https://", "http://")):
        raise UsageError(f"base_url must begin with https:// or http://, not {given!r}")
    return given if not given or "/" in given.partition("://")[2] else f"{given}/{version}"


def _key(cls: str, url: str, fields: Mapping[str, Any]) -> Any:
    given = fields.get("api_key")
    if given is not None:
        return given_key(given)
    on_vertex = fields["vertexai"] and fields.get("project")
    found = "" if on_vertex else first_env(KEY_VARIABLES)
    if found:
        return SecretStr(sound_key(found))
    headers: Mapping[str, str] = fields.get("default_headers") or {}
    if any(name.lower() in _KEY_HEADERS for name in headers) or url.startswith("http://"):
        return None
    if fields["vertexai"]:
        raise UsageError(
            f"no key for Vertex AI: give a function that returns a bearer token, {cls}(..., api_key=token), with "
            f"project=, or a key of Vertex AI's express mode as api_key= or {' or '.join(KEY_VARIABLES)}"
        )
    raise no_key(cls, "google", KEY_VARIABLES)


def key_header(key: str, *, is_token: bool) -> tuple[str, str]:
    """The header that carries the key. A key is never a part of the address."""
    return ("authorization", f"Bearer {key}") if is_token else ("x-goog-api-key", key)


def model_path(model: str, project: str | None, location: str | None, *, vertexai: bool) -> str:
    """The path of a model below the address, without the method."""
    name = quote(model, safe="/@.-_")
    if not vertexai:
        return f"/{name}" if "/" in name else f"/models/{name}"
    place = f"/projects/{project}/locations/{location}" if project else ""
    if name.startswith("projects/"):
        return f"/{name}"
    if "/" in name:
        return f"{place}/{name}"
    return f"{place}/publishers/google/models/{name}"


def safety_list(settings: Any) -> list[dict[str, Any]]:
    """`safetySettings` from a list in Gemini's form, or a dictionary of category and threshold, enumerations too."""
    if isinstance(settings, Mapping):
        pairs = cast("Mapping[Any, Any]", settings).items()
        return [{"category": _word(category), "threshold": _word(threshold)} for category, threshold in pairs]
    return [dict(setting) for setting in settings]


def _word(value: Any) -> str:
    return str(getattr(value, "name", value))
