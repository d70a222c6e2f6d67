"""What a LangChain model raised, as the error that says whose fault it is.

Integrations raise what their provider's SDK raises. Those SDKs are many and none is imported here, so an error is read
by its shape: a status, a body, a broken connection. What has no known shape passes through unchanged.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

from loopwright.models.wire_errors import Peer, error_in_answer, error_in_stream, from_exception, from_response
from loopwright.models.wire_json import dumps

__all__ = ["in_our_words"]

_HTTP_CLIENTS = frozenset(("httpx", "httpx2", "httpcore", "requests", "aiohttp"))


@contextmanager
def in_our_words(model: Any) -> Generator[None]:
    """Raises the `ModelError` for what `model` raises inside, caused by it; what nobody knows, as it is."""
    try:
        yield
    except Exception as error:
        made = _read(error, model)
        if made is None:
            raise
        raise made from error


def _read(error: Exception, model: Any) -> Exception | None:
    names = {kind.__name__ for kind in type(error).__mro__}
    body: Any = getattr(error, "body", None)
    status = _status(error)
    if status >= 400:
        response: Any = getattr(error, "response", None)
        headers: Any = getattr(response, "headers", None) or {}
        said = dumps(body) if isinstance(body, (dict, list)) else str(error).encode()
        return from_response(_peer(error, model), status, headers, said)
    if "APIConnectionError" in names:
        cause = error.__cause__
        return from_exception(_peer(error, model), cause if isinstance(cause, Exception) else error)
    if "APIError" in names and body is not None:
        return error_in_stream(_peer(error, model), {"error": body} if _is_bare(body) else body)
    if type(error).__module__.partition(".")[0] in _HTTP_CLIENTS:
        return from_exception(_peer(error, model), error)
    if isinstance(error, ValueError) and error.args and isinstance(error.args[0], dict):
        return error_in_answer(_peer(error, model), {"error": error.args[0]})
    return None


def _status(error: Exception) -> int:
    """The HTTP status of an error; 0 if it has none."""
    for name in ("status_code", "code"):
        value: Any = getattr(error, name, None)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    return 0


def _is_bare(body: Any) -> bool:
    return not isinstance(body, dict) or "error" not in body


def _peer(error: Exception, model: Any) -> Peer:
    """Who was spoken to; the model's keys are kept out of what is said."""
    request: Any = getattr(error, "request", None)
    url = str(getattr(request, "url", None) or getattr(model, "base_url", None) or "")
    tell: Any = getattr(model, "_get_ls_params", None)
    about: dict[str, Any] = tell() if tell is not None else {}
    provider = str(about.get("ls_provider") or type(model).__name__)
    fields = cast("dict[str, Any]", getattr(model, "__dict__", {}))
    hidden = [getattr(value, "get_secret_value", None) for value in fields.values()]
    return Peer(provider, url, secrets=[str(show()) for show in hidden if callable(show)])
