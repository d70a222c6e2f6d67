"""A message as plain containers or JSON text.

`mode="python"` copies lists and dictionaries and leaves every other value as it is; `mode="json"` turns what JSON
does not know (dates, sets, dataclasses, pydantic models) into what it does, at the latest into its `str`.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from loopwright.errors import UsageError

if TYPE_CHECKING:
    from loopwright.messages.base import BaseMessage

__all__ = ["copy_plain", "dump", "dump_json", "json_value"]


def dump(
    message: BaseMessage,
    *,
    mode: Literal["python", "json"] = "python",
    include: Container[str] | None = None,
    exclude: Container[str] | None = None,
    exclude_none: bool = False,
    exclude_defaults: bool = False,
    exclude_unset: bool = False,
    **ignored: Any,
) -> dict[str, Any]:
    """All fields, `type` after the first three; `extra` is spread into the rest. Other options change nothing."""
    if mode not in ("python", "json"):
        raise UsageError(f'model_dump mode is "python" or "json", not {mode!r}')
    from loopwright.messages.meta import all_fields, stored_fields

    stored = stored_fields(message) if exclude_defaults or exclude_unset else None
    fields: dict[str, Any] = {}
    for name, value in all_fields(message).items():
        if name == "name":
            fields["type"] = message.type
        if name != "extra" and (stored is None or name in stored):
            fields[name] = value
    fields.update((name, value) for name, value in message.extra.items() if name != "type")
    kept = {
        name: value
        for name, value in fields.items()
        if (include is None or name in include)
        and (exclude is None or name not in exclude)
        and not (exclude_none and value is None)
    }
    return cast("dict[str, Any]", copy_plain(kept) if mode == "python" else json_value(kept))


def dump_json(message: BaseMessage, *, indent: int | None = None, **options: Any) -> str:
    """`dump(mode="json")` as text; `indent` spaces a level."""
    options.pop("mode", None)
    data = msgspec.json.encode(dump(message, mode="json", **options))
    return (data if indent is None else msgspec.json.format(data, indent=indent)).decode()


def copy_plain(value: Any) -> Any:
    """New lists and dictionaries all the way down; other values are shared."""
    if value.__class__ is dict:
        return {key: copy_plain(item) for key, item in value.items()}
    if value.__class__ is list:
        return [copy_plain(item) for item in value]
    return value


def json_value(value: Any) -> Any:
    """Only what JSON knows. Surrogates that UTF-8 cannot hold become U+FFFD."""
    return msgspec.json.decode(msgspec.json.encode(_clean(value), enc_hook=_to_json))


def _to_json(value: Any) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    dump_method = getattr(value, "model_dump", None)
    return dump_method(mode="json") if callable(dump_method) else str(value)


def _clean(value: Any) -> Any:
    if value.__class__ is str:
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if value.__class__ is dict:
        return {_clean(key if key.__class__ is str else str(key)): _clean(item) for key, item in value.items()}
    if value.__class__ is list:
        return [_clean(item) for item in value]
    return value
