r"""JSON as it travels on the wire: fast when it is sound, tolerant when it is not.

Rules:

- msgspec reads and writes; only what it refuses goes to the standard library (lone surrogates written as escapes,
  `NaN`, numbers out of range, bytes that are no UTF-8);
- text is sent as UTF-8, without `\uXXXX`: models read it better and it costs fewer tokens;
- a lone surrogate in what we send becomes U+FFFD, because a request must never fail for one broken character.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

__all__ = ["dumps", "dumps_text", "has_surrogates", "loads", "mend_surrogates"]

_decode = msgspec.json.Decoder().decode
_encoder = msgspec.json.Encoder(enc_hook=str)


def loads(data: bytes | str) -> Any:
    """The value in `data`. Raises `ValueError` where it is no JSON, or nested so deeply that nobody can read it."""
    try:
        try:
            return _decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            import json

            return json.loads(data.decode("utf-8", "replace") if isinstance(data, bytes) else data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def dumps(value: Any) -> bytes:
    """`value` as UTF-8 JSON. What has no JSON form is written as its `str()`."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_mended(value))


def dumps_text(value: Any) -> str:
    """The same as text."""
    return dumps(value).decode("utf-8")


def has_surrogates(text: str) -> bool:
    """Whether `text` holds half of a surrogate pair, and so cannot be written as UTF-8."""
    if text.isascii():
        return False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def mend_surrogates(text: str) -> str:
    """Halves that stand next to each other become their character, others U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return mend_surrogates(value) if has_surrogates(value) else value
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_mended(item) for item in cast("list[Any]", value)]
    return value
