"""Response in: the JSON of a whole answer becomes a message.

Rules:

- `content` is a list of blocks in the order of the answer's items (see `items`), each with the item's id; it is empty
  where nothing was said;
- the raw finish reason is the answer's `status`, or why it is `incomplete`; an answer that is still being made
  (`queued`, `in_progress`) is a message too, with that word;
- an answer that failed raises its error, by whose fault it is; so does JSON that is no answer of this API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from loopwright.errors import InvalidResponseError, ModelError
from loopwright.messages import AIMessage
from loopwright.messages.calls import normal_calls
from loopwright.models.openai_chat.response import finish_word, metadata_of, usage_of
from loopwright.models.openai_responses.items import CALLS, Block, item_blocks, item_call, with_call_id
from loopwright.models.wire_errors import Peer, error_in_answer, no_answer
from loopwright.models.wire_json import loads

__all__ = ["ending", "failure", "logprobs_of", "output_items", "parse_response", "usage_of_responses"]

_STATUSES: Final = {"server_error": 500, "rate_limit_exceeded": 429, "vector_store_timeout": 500}
"""Codes of answers that failed for another reason than the request, as HTTP has them."""


def parse_response(body: bytes, peer: Peer) -> list[AIMessage]:
    """The message of an answer, alone in a list.

    Raises the provider's own error where the answer failed, and `InvalidResponseError` where it is none.
    """
    try:
        value: Any = loads(body)
    except ValueError:
        raise _no_answer(peer, body, "no JSON") from None
    error = failure(peer, value)
    if error is not None:
        raise error
    if not isinstance(value, dict) or not isinstance(cast("dict[str, Any]", value).get("output"), list):
        raise _no_answer(peer, body, "JSON without output")
    return [_message(cast("dict[str, Any]", value), peer)]


def _no_answer(peer: Peer, body: bytes, found: str) -> InvalidResponseError:
    return no_answer(
        peer,
        body,
        f"{found}, which is no answer of the Responses API",
        question="Is base_url right, and does the server have that API?",
    )


def failure(peer: Peer, value: Any) -> ModelError | None:
    """The error of an answer that failed; None if it did not."""
    if not isinstance(value, dict):
        return None
    answer = cast("dict[str, Any]", value)
    error = answer.get("error")
    if not error and answer.get("status") == "failed":
        error = {"message": "the answer failed, without a reason"}
    if isinstance(error, dict):
        known = cast("dict[str, Any]", error)
        status = _STATUSES.get(str(known.get("code")))
        error = {**known, "status": status} if status else known
    return error_in_answer(peer, {"error": error}) if error else None


def _message(answer: Mapping[str, Any], peer: Peer) -> AIMessage:
    content: list[Block] = []
    raw_calls: list[dict[str, Any]] = []
    items = output_items(answer)
    for item in items:
        content += [block for _, block in item_blocks(item)]
        if item.get("type") in CALLS:
            raw_calls.append(item_call(item))
    calls, broken = normal_calls(raw_calls)
    metadata = ending(
        answer,
        peer,
        calls=bool(raw_calls),
        refused=any(block["type"] == "refusal" for block in content),
        said=bool(content),
        logprobs=logprobs_of(items),
    )
    return AIMessage(
        cast("Any", content) or "",
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=usage_of_responses(answer.get("usage")),
        response_metadata=metadata,
    )


def output_items(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of an answer."""
    output = answer.get("output")
    found = cast("list[Any]", output) if isinstance(output, list) else []
    return [with_call_id(cast("dict[str, Any]", item)) for item in found if isinstance(item, dict)]


def logprobs_of(items: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Log probabilities of the words of an answer, in order."""
    found: list[Any] = []
    for item in items:
        content = item.get("content") if item.get("type") == "message" else None
        for part in cast("list[Any]", content) if isinstance(content, list) else []:
            if isinstance(part, dict):
                found += cast("dict[str, Any]", part).get("logprobs") or []
    return found


def ending(
    answer: Mapping[str, Any], peer: Peer, *, calls: bool, refused: bool, said: bool, logprobs: list[Any]
) -> dict[str, Any]:
    """`response_metadata` of an answer."""
    raw = answer.get("status") or None
    details = answer.get("incomplete_details")
    if raw == "incomplete" and isinstance(details, dict):
        raw = cast("dict[str, Any]", details).get("reason") or raw
    return metadata_of(
        answer,
        {"logprobs": {"content": logprobs}},
        who=peer.who,
        word=finish_word(raw, calls=calls, refused=refused, said=said),
        raw=raw,
        usage=answer.get("usage") or None,
    )


def usage_of_responses(usage: Any) -> Any:
    """`usage_metadata`; the names of the counts are others than those of Chat Completions, their meaning is not."""
    if not isinstance(usage, dict):
        return None
    found = cast("dict[str, Any]", usage)
    return usage_of(
        {
            "prompt_tokens": found.get("input_tokens"),
            "completion_tokens": found.get("output_tokens"),
            "total_tokens": found.get("total_tokens"),
            "prompt_tokens_details": found.get("input_tokens_details"),
            "completion_tokens_details": found.get("output_tokens_details"),
        }
    )
