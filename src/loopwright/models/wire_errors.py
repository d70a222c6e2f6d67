"""From what a provider or a socket did to the error that says whose fault it is.

Rules:

- the class says whose fault it is, the text has the provider's own sentence and, where there is one, the mend;
- a key never gets into a text or a body: every error is made from text that went through `Peer.clean`;
- `retryable` says whether the very same call may succeed later; an empty account is not retryable, a full minute is;
- a 200 that is not the answer (a body of another API, a stream that stops) shows what was sent instead; a format says
  what its answers are called.

| status | class |
| --- | --- |
| 400, 405, 406, 413, 415, 422 and the rest of 4xx | `BadRequestError`, or `ContextLengthError` by code or sentence |
| 401 | `AuthenticationError` |
| 402 | `RateLimitError`, not retryable: the account is empty |
| 403 | `PermissionDeniedError` |
| 404, 410 | `NotFoundError` |
| 408 | `ModelTimeoutError` |
| 409, 425 | `BadRequestError`, retryable |
| 429, 498 | `RateLimitError` |
| 5xx | `ServerError` |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from loopwright.errors import (
    AuthenticationError,
    BadRequestError,
    ContextLengthError,
    InvalidResponseError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    StreamError,
    UsageError,
)
from loopwright.models.wire_json import loads

__all__ = [
    "IS_BASE_URL_RIGHT",
    "Peer",
    "cut_off",
    "error_in_answer",
    "error_in_stream",
    "from_exception",
    "from_response",
    "no_answer",
    "no_event",
    "no_stream",
    "public_url",
    "retry_after_s",
]

_EMPTY_ACCOUNT = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
        "insufficient_balance",
        "arrearage",
        "1113",  # Zhipu: account in arrears
    }
)
_PASSING = frozenset(
    {
        "api_error",
        "overloaded_error",
        "rate_limit_error",
        "server_error",
        "timeout_error",
        "internalServerException",  # Bedrock
        "serviceUnavailableException",
        "throttlingException",
    }
)
"""Codes of what may pass, for errors that come without a status."""
_CONTEXT_CODES = frozenset({"context_length_exceeded", "string_above_max_length", "model_context_window_exceeded"})
_CONTEXT_SENTENCES = (
    "context length",
    "context window",
    "context_length",
    "context limit",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "input token count exceeds",
    "range of input length",  # Qwen
    "reduce the length of the messages",
    "exceeds the available context size",  # llama.cpp
    "too many tokens in the prompt",
    "max_prompt_tokens",
)


class Peer:
    """Who is spoken to: the provider, how errors call it, its address, where its key comes from.

    `api` is the format that is spoken, where one model speaks several; `host` another server than the provider's own,
    which only speaks like it.
    """

    __slots__ = ("_secrets", "api", "key_hint", "label", "provider", "url", "who")

    def __init__(
        self,
        provider: str,
        url: str,
        *,
        label: str | None = None,
        host: str | None = None,
        key_hint: str = "",
        secrets: Iterable[str | None] = (),
        api: str = "",
    ) -> None:
        self.provider = provider
        self.who = {"provider": provider} if host is None else {"provider": provider, "host": host}
        """The same for `response_metadata`."""
        self.api = api
        self.label = label or provider
        self.url = public_url(url)
        self.key_hint = key_hint
        self._secrets: list[str] = []
        self.hide(secrets)

    def hide(self, secrets: Iterable[str | None]) -> None:
        """Never show these either, with "Bearer" before them or not; those too short to be told from words stay."""
        for secret in secrets:
            both = dict.fromkeys((secret or "", (secret or "").removeprefix("Bearer ")))
            self._secrets += [one for one in both if len(one) > 5]

    def clean(self, text: str) -> str:
        """`text` without the key and the values of the user's own headers."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def public_url(url: str) -> str:
    """Scheme, host and path: neither user names nor query secrets."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def from_response(peer: Peer, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error that an answer with a status other than 2xx stands for."""
    text = peer.clean(body.decode("utf-8", "replace"))
    try:
        value: Any = loads(text)
    except ValueError:
        value = None
    sentence, code, _ = _read(value)
    if not sentence:
        sentence = _excerpt(text) or "no reason was given"
    error = _by_status(status, code, sentence)
    advice = _advice(error, peer)
    made = type(error)(
        f"{peer.label} answered {status}: {sentence}{advice}",
        status_code=status,
        retryable=error.retryable,
        retry_after=_first_known(retry_after_s(headers), _retry_delay_s(value)),
        code=code,
        body=value if value is not None else text[:2000],
    )
    told = headers.get("x-should-retry")
    if told in ("true", "false") and not isinstance(made, (AuthenticationError, ContextLengthError)):
        made.retryable = told == "true" and not _is_empty_account(status, code, sentence)
    return made


def error_in_answer(peer: Peer, value: Any, status: int = 200) -> ModelError | None:
    """The error object inside a successful answer, None if there is none."""
    if not isinstance(value, dict) or not cast("dict[str, Any]", value).get("error"):
        return None
    sentence, code, inner = _read(value)
    sentence = peer.clean(sentence) or "an error without a reason"
    error = _by_status(inner or 400, code, sentence)
    return type(error)(
        f"{peer.label} answered {status} with an error inside: {sentence}{_advice(error, peer)}",
        status_code=inner or status,
        retryable=error.retryable,
        code=code,
        body=_cleaned(peer, value),
    )


def error_in_stream(peer: Peer, value: Any) -> StreamError:
    """An error event inside a stream that had begun. What was received before it has been handed on."""
    sentence, code, inner = _read(value)
    sentence = peer.clean(sentence) or "an error without a reason"
    retryable = _by_status(inner, code, sentence).retryable if inner else code in _PASSING
    return StreamError(
        f"{peer.label} reported an error inside the stream: {sentence}",
        status_code=inner or None,
        retryable=retryable,
        code=code,
        body=_cleaned(peer, value),
    )


def from_exception(peer: Peer, exc: Exception, received: int | None = None) -> Exception:
    """What the HTTP client raised, in our words. `received` bytes of the answer had come; None before any header.

    The client may be the user's own, so its exceptions are known by the names of their classes.
    """
    names = {kind.__name__ for kind in type(exc).__mro__}
    reason = peer.clean(str(exc)).strip() or type(exc).__name__
    if "TimeoutException" in names or isinstance(exc, TimeoutError):
        words, code = _timeout(names, received)
        return ModelTimeoutError(f"{peer.label} did not answer in time: {words} ({peer.url})", code=code)
    if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
        return UsageError(f"{peer.label} cannot be asked at {peer.url!r}: {reason}. Check base_url and the headers.")
    if received is not None:
        words = f"the connection to {peer.label} broke after {received} bytes of its answer: {reason}"
        return ModelConnectionError(words)
    if "ProxyError" in names:
        return ModelConnectionError(f"the proxy on the way to {peer.label} refused: {reason} ({peer.url})")
    hint = " Is the server running?" if _is_local(peer.url) else ""
    return ModelConnectionError(f"no connection to {peer.label} at {peer.url}: {reason}.{hint}")


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds the provider asks to wait, from `retry-after-ms` or `Retry-After` (seconds or an HTTP date)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return None if seconds is None else max(0.0, seconds)
    import time
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - (time.time() if now is None else now))


def _retry_delay_s(value: Any) -> float | None:
    """Seconds to wait where Google says them: in the body, as `{"retryDelay": "36s"}` among the details."""
    for entry in cast("list[Any]", value) if isinstance(value, list) else [value]:
        error = cast("dict[str, Any]", entry).get("error") if isinstance(entry, dict) else None
        details = cast("dict[str, Any]", error).get("details") if isinstance(error, dict) else None
        for detail in cast("list[Any]", details) if isinstance(details, list) else []:
            delay = cast("dict[str, Any]", detail).get("retryDelay") if isinstance(detail, dict) else None
            seconds = _number(delay.removesuffix("s")) if isinstance(delay, str) else None
            if seconds is not None:
                return max(0.0, seconds)
    return None


def _first_known(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and number == number and abs(number) != float("inf") else None  # noqa: PLR0124


def _by_status(status: int, code: str | None, sentence: str) -> ModelError:
    """An error of the right class; only its class and `retryable` are used."""
    if status in (429, 498, 402):
        return RateLimitError("", retryable=not _is_empty_account(status, code, sentence))
    if status == 401:
        return AuthenticationError("")
    if status >= 500:
        return ServerError("")
    if status == 408:
        return ModelTimeoutError("")
    if _is_context(code, sentence):
        return ContextLengthError("")
    if status == 403:
        return PermissionDeniedError("")
    if status in (404, 410):
        return NotFoundError("")
    return BadRequestError("", retryable=status in (409, 425))


def _is_empty_account(status: int, code: str | None, sentence: str) -> bool:
    return status == 402 or (code or "").lower() in _EMPTY_ACCOUNT or "exceeded your current quota" in sentence.lower()


def _is_context(code: str | None, sentence: str) -> bool:
    if code in _CONTEXT_CODES:
        return True
    lowered = sentence.lower()
    return any(words in lowered for words in _CONTEXT_SENTENCES)


def _advice(error: ModelError, peer: Peer) -> str:
    if isinstance(error, AuthenticationError) and peer.key_hint:
        return f" ({peer.key_hint})"
    if isinstance(error, NotFoundError):
        return f" (check the model's name and base_url; asked at {peer.url})"
    if isinstance(error, ContextLengthError):
        return " (shorten the history, for instance with trim_messages, or take a model with a larger window)"
    return ""


def _read(value: Any) -> tuple[str, str | None, int]:
    """(sentence, code, status) of an error body in any of the shapes that providers use; the status is 0 if unknown."""
    if isinstance(value, list) and value:  # Google wraps its error in a list
        value = cast("list[Any]", value)[0]
    if not isinstance(value, dict):
        return (value.strip() if isinstance(value, str) else ""), None, 0
    outer = cast("dict[str, Any]", value)
    error = outer.get("error")
    inner = cast("dict[str, Any]", error) if isinstance(error, dict) else outer
    sentence = _first_text(inner.get("message"), inner.get("msg"), error, outer.get("message"), inner.get("detail"))
    upstream = inner.get("metadata")
    if isinstance(upstream, dict):  # OpenRouter: what the provider behind it said
        raw = cast("dict[str, Any]", upstream).get("raw")
        if raw:
            sentence = f"{sentence} ({_excerpt(_said(raw))})"
    code = inner.get("code") or inner.get("type") or outer.get("code") or inner.get("status")
    status = 0
    for candidate in (inner.get("status"), inner.get("status_code"), inner.get("code"), outer.get("code")):
        number = int(candidate) if isinstance(candidate, (int, str)) and str(candidate).isdigit() else 0
        if 400 <= number < 600:
            status = number
            break
    return sentence, None if code is None else str(code), status


def _first_text(*candidates: Any) -> str:
    for candidate in candidates:
        if isinstance(candidate, str) and candidate.strip():
            return candidate.strip()
        if isinstance(candidate, (list, dict)) and candidate:  # FastAPI's `detail`: [{"loc": ..., "msg": ...}]
            return _excerpt(_said(cast(Any, candidate)))
    return ""


def _said(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(_said(item) for item in cast("list[Any]", value))
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        place = fields.get("loc")
        said = fields.get("msg") or fields.get("message") or fields.get("detail")
        if said:
            where = ".".join(str(step) for step in cast("list[Any]", place)) + ": " if isinstance(place, list) else ""
            return f"{where}{_said(said)}"
    return str(cast("Any", value))


def _excerpt(text: str, limit: int = 300) -> str:
    short = " ".join(text.split())
    return short if len(short) <= limit else f"{short[:limit]}…"


def _cleaned(peer: Peer, value: Any) -> Any:
    """The body without the key, should the provider have echoed it."""
    if isinstance(value, str):
        return peer.clean(value)
    if isinstance(value, dict):
        return {key: _cleaned(peer, item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_cleaned(peer, item) for item in cast("list[Any]", value)]
    return value


def _timeout(names: set[str], received: int | None) -> tuple[str, str]:
    if "ConnectTimeout" in names:
        return "no connection was made", "connect_timeout"
    if "PoolTimeout" in names:
        return "no connection was free", "pool_timeout"
    if "WriteTimeout" in names:
        return "the request could not be sent", "write_timeout"
    words = "nothing came" if not received else f"it fell silent after {received} bytes"
    return words, "read_timeout"


def _is_local(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0]
    return host.startswith(("localhost", "127.", "[::1]", "0.0.0.0"))  # noqa: S104


# -- what is no answer of the format ---------------------------------------------------------------------------------

IS_BASE_URL_RIGHT = "Is base_url right?"


def no_answer(
    peer: Peer, body: bytes, found: str, *, status: int = 200, question: str = IS_BASE_URL_RIGHT
) -> InvalidResponseError:
    """`found`: what came in place of what ("no JSON, which is no chat completion")."""
    text = peer.clean(" ".join(body.decode("utf-8", "replace").split()))
    shown = text if len(text) <= 200 else f"{text[:200]}…"
    return InvalidResponseError(
        f"{peer.label} answered {status} with {found}: {shown or '(nothing)'}. {question} It was asked at {peer.url}",
        status_code=status,
        body=text[:2000],
    )


def no_stream(peer: Peer, beginning: str, what: str, *, question: str = IS_BASE_URL_RIGHT) -> InvalidResponseError:
    """For a body without a single event. `what`: what a stream of this format is of ("a chat completion")."""
    shown = peer.clean(beginning)
    return InvalidResponseError(
        f"{peer.label} answered with no stream of {what}: {shown[:200] or '(nothing)'}. "
        f"{question} It was asked at {peer.url}",
        status_code=200,
        body=shown,
    )


def no_event(peer: Peer, data: bytes, what: str) -> InvalidResponseError:
    """For an event that this format does not know. `what`: what events of it are part of ("a chat completion")."""
    shown = peer.clean(data[:200].decode("utf-8", "replace"))
    return InvalidResponseError(f"{peer.label} sent an event that is no part of {what}: {shown!r}", body=shown)


def cut_off(peer: Peer, events: int, so_far: str) -> ModelConnectionError:
    """For a stream that ended before the answer did, after so many events and these words."""
    return ModelConnectionError(
        f"the stream from {peer.label} ended before the answer did, after {events} events"
        + (f" and {so_far[-80:]!r}" if so_far else ""),
        code="incomplete_stream",
        body=so_far,
    )
