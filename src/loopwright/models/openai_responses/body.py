"""The body of a request to the Responses API, out of the settings of a `ChatOpenAI`.

Rules:

- Chat Completions' names of settings are translated; what the API does not have is an error that says so;
- the call's arguments go over the model's fields, and `extra_body` over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from loopwright.errors import UsageError
from loopwright.models.openai_chat.request import offered_tools
from loopwright.models.openai_responses.request import (
    input_items,
    since_last_answer,
    text_format,
    wire_choice,
    wire_functions,
)

if TYPE_CHECKING:
    from loopwright.messages import BaseMessage
    from loopwright.models.openai_chat.model import ChatOpenAI

__all__ = ["responses_body"]

_SENT: Final = (
    "temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs", "service_tier", "user", "store",
    "include", "truncation", "context_management",
)  # fmt: skip
_NOT_THERE: Final = ("n", "seed", "logit_bias")


def responses_body(
    model: ChatOpenAI,
    messages: Sequence[BaseMessage],
    stop: list[str] | None,
    kwargs: Mapping[str, Any],
    streamed: bool,
) -> dict[str, Any]:
    """The JSON of one request. Raises `UsageError`."""
    given = _settings(model, stop, kwargs)
    extra = given.pop("extra_body", None)
    body: dict[str, Any] = {"model": given.pop("model", model.wire_model)}
    if model.use_previous_response_id and not given.get("previous_response_id"):
        answer_id, messages = since_last_answer(messages, model.provider)
        if answer_id:
            body["previous_response_id"] = answer_id
    thinks = (model.profile or {}).get("reasoning_output") is not False
    items = input_items(messages, model.provider, store=given.get("store"), thinks=thinks)
    _add_tools(body, given, model)
    _add_text(body, given, model)
    body.update((name, value) for name, value in given.items() if value is not None and not name.startswith("ls_"))
    if streamed:
        body["stream"] = True
    body["input"] = items  # last, so that the next turn's request begins with the bytes of this one
    body.update(model.extra_body or {})
    body.update(extra or {})
    return body


def _settings(model: ChatOpenAI, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of this call under the API's names."""
    given = {name: getattr(model, name) for name in (*_SENT, *_NOT_THERE)}
    given |= {"reasoning": model.reasoning, **model.model_kwargs, **kwargs}
    stop = stop if stop is not None else given.pop("stop", model.stop)
    missing = [name for name in _NOT_THERE if given.pop(name, None) is not None] + (["stop"] if stop else [])
    if missing:
        raise UsageError(
            f"the Responses API has no {' and no '.join(missing)}: leave it out, "
            "or ask Chat Completions with use_responses_api=False"
        )
    names = ("max_output_tokens", "max_completion_tokens", "max_tokens")
    limits = [given.pop(name) for name in names if given.get(name) is not None]
    given["max_output_tokens"] = limits[0] if limits else model.max_tokens
    effort = given.pop("reasoning_effort", None) or model.reasoning_effort
    if effort is not None:
        given["reasoning"] = {"effort": effort, **(given["reasoning"] or {})}
    if given.pop("logprobs", model.logprobs) or given.get("top_logprobs"):
        wanted = "message.output_text.logprobs"
        included: list[str] = given.get("include") or []
        given["include"] = included if wanted in included else [*included, wanted]
    for name in ("stream", "stream_options", "stop"):
        given.pop(name, None)
    return given


def _add_text(body: dict[str, Any], given: dict[str, Any], model: ChatOpenAI) -> None:
    """`text`: the form of the answer, and how wordy it is."""
    text: dict[str, Any] = dict(given.pop("text", None) or {})
    verbosity = given.pop("verbosity", model.verbosity)
    strict = given.pop("strict", None)
    wanted = given.pop("response_format", None)
    if wanted is not None:
        text["format"] = text_format(wanted, model.wire_dialect, model.provider, strict=strict)
    if verbosity is not None:
        text.setdefault("verbosity", verbosity)
    if text:
        body["text"] = text


def _add_tools(body: dict[str, Any], given: dict[str, Any], model: ChatOpenAI) -> None:
    tools: Sequence[Any] = given.pop("tools", None) or ()
    choice = given.pop("tool_choice", None)
    parallel = given.pop("parallel_tool_calls", model.parallel_tool_calls)
    if not tools:
        return
    dialect = model.wire_dialect
    body["tools"] = wire_functions(offered_tools(tools), dialect, strict=given.get("strict"))
    word = wire_choice(choice, body["tools"], dialect)
    if word is not None:
        body["tool_choice"] = word
    if parallel is not None and dialect.parallel_tool_calls:
        body["parallel_tool_calls"] = parallel
