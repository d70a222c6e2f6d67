"""One answer as requests and events, with events that llama.cpp was seen to send."""

import json
from typing import Any

import pytest

from loopwright.errors import BadRequestError, ContextLengthError, InvalidResponseError, ModelError, ServerError
from loopwright.messages import AIMessage, AIMessageChunk, merge_chunks, message_chunk_to_message
from loopwright.models.local.exchange import Exchange, Plan
from loopwright.models.local.ranking import PRIOR, Ranking

BASE = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
ADD = {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}
SAY = {"name": "say"}


def event(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def usage(asked: int, answered: int, cached: int = 0) -> dict[str, Any]:
    details = {"cached_tokens": cached}
    counts = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    return {"choices": [], "usage": {**counts, "prompt_tokens_details": details}}


def first_token(probability: float) -> list[dict[str, Any]]:
    import math

    top = [{"id": 1, "token": '{"', "logprob": math.log(probability)}, {"id": 2, "token": "The", "logprob": -1.0}]
    said = event({"content": "The"})
    said["choices"][0]["logprobs"] = {"content": [{"token": "The", "logprob": -1.0, "top_logprobs": top}]}
    return [event({"role": "assistant", "content": None}), said, event({}, "length"), usage(9, 1, 4)]


def answer(exchange: Exchange, *rounds: list[dict[str, Any]]) -> tuple[AIMessage, list[AIMessageChunk], list[Any]]:
    chunks: list[AIMessageChunk] = []
    requests: list[Any] = []
    for events in rounds:
        assert exchange.request is not None
        requests.append(exchange.request)
        for one in events:
            chunks += exchange.feed(one)
        chunks += exchange.close()
    assert exchange.request is None
    message = message_chunk_to_message(merge_chunks(chunks))
    assert isinstance(message, AIMessage)
    return message, chunks, requests


def test_words() -> None:
    events = [event({"role": "assistant", "content": None}), event({"content": "Hel"}), event({"content": "lo"})]
    message, chunks, requests = answer(Exchange(Plan(BASE, "smol")), [*events, event({}, "stop"), usage(9, 2, 3)])
    assert requests == [BASE]
    assert [chunk.content for chunk in chunks] == ["Hel", "lo", ""]
    assert message.content == "Hello"
    assert message.usage_metadata == {
        "input_tokens": 9,
        "output_tokens": 2,
        "total_tokens": 11,
        "input_token_details": {"cache_read": 3},
    }
    facts = message.response_metadata
    assert (facts["finish_reason"], facts["raw_finish_reason"]) == ("stop", "stop")
    assert (facts["model_name"], facts["provider"], facts["id"]) == ("m", "local", "chatcmpl-1")


@pytest.mark.shows("local", "reasoning")
def test_thoughts_come_before_the_words() -> None:
    events = [event({"reasoning_content": "Hm"}), event({"reasoning_content": "m"}), event({"content": "Yes"})]
    message, _, _ = answer(Exchange(Plan(BASE, "smol")), [*events, event({}, "stop")])
    assert message.content == [{"type": "reasoning", "reasoning": "Hmm"}, {"type": "text", "text": "Yes"}]


def test_a_call_decided_on_by_the_first_token() -> None:
    plan = Plan(BASE, "smol", [ADD], call_at=0.5)
    call = [event({"content": piece}) for piece in ('{"tool"', ':"add","arg', 'uments":{"a', '":1}}')]
    message, chunks, requests = answer(Exchange(plan), first_token(0.5), [*call, event({}, "stop"), usage(9, 8, 8)])
    assert requests[0] == {**BASE, "max_tokens": 1, "logprobs": True, "top_logprobs": 20, "temperature": 0}
    assert requests[1]["response_format"]["json_schema"]["schema"]["properties"]["tool"] == {"const": "add"}
    assert [call["args"] for call in message.tool_calls] == [{"a": 1}]
    assert [len(chunk.tool_call_chunks) for chunk in chunks] == [1, 1, 0]
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert message.usage_metadata is not None
    assert message.usage_metadata["output_tokens"] == 8, "the deciding request is no part of the answer"
    details = message.usage_metadata.get("input_token_details")
    assert details == {"cache_read": 4}, "what the first request found already read"


def test_words_decided_on_by_the_first_token() -> None:
    """The brace that was likely, and not likely enough, is forbidden."""
    plan = Plan(BASE, "smol", [ADD], call_at=0.9, words={"repeat_penalty": 1.1})
    _, _, requests = answer(Exchange(plan), first_token(0.6), [event({"content": "Hi"}), event({}, "stop")])
    assert requests[1] == {**BASE, "repeat_penalty": 1.1, "logit_bias": [[1, False]]}


def test_an_answer_under_a_schema_of_its_own() -> None:
    form = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    plan = Plan(BASE, "smol", [ADD], call_at=0.9, answer=form)
    _, _, requests = answer(Exchange(plan), first_token(0.6), [event({"content": "{}"}), event({}, "stop")])
    assert requests[1] == {**BASE, "response_format": form}


def test_a_call_that_must_be_made_is_asked_for_at_once() -> None:
    plan = Plan(BASE, "smol", [ADD], must_call=True)
    message, _, _ = answer(Exchange(plan), [event({"content": '{"tool":"add","arguments":{}}'}), event({}, "stop")])
    assert [call["name"] for call in message.tool_calls] == ["add"]


def test_a_call_cut_off_by_the_limit_of_tokens() -> None:
    plan = Plan(BASE, "smol", [ADD], must_call=True)
    cut = [event({"content": '{"tool":"add","arguments":{"a":'}), event({}, "length")]
    message, _, _ = answer(Exchange(plan), cut)
    assert message.tool_calls == []
    assert [broken["name"] for broken in message.invalid_tool_calls] == ["add"]
    assert message.response_metadata["finish_reason"] == "length"


def test_a_call_cut_off_before_its_tool_is_known_is_shown_as_it_is() -> None:
    plan = Plan(BASE, "smol", [ADD], must_call=True)
    message, _, _ = answer(Exchange(plan), [event({"content": '{"tool":"a'}), event({}, "length")])
    assert message.content == '{"tool":"a'
    assert message.response_metadata["finish_reason"] == "length"


def scores(name: str, logprob: float) -> list[dict[str, Any]]:
    """The model's own text under the schema, token by token; only the name's tokens count."""
    events: list[dict[str, Any]] = []
    for token, value in (('{"', -9.0), ("tool", -9.0), ('":"', -9.0), (name, logprob), ('"}', -0.5)):
        one = event({"content": token})
        one["choices"][0]["logprobs"] = {"content": [{"token": token, "logprob": value, "top_logprobs": []}]}
        events.append(one)
    return [*events, event({}, "stop")]


def test_names_are_weighed_against_what_they_get_for_nothing() -> None:
    """`say` is likelier as it stands; it is so for a request that says nothing, too."""
    opening = [{"role": "system", "content": "names are weighed"}]
    plan = Plan(BASE, "smol", [ADD, SAY], must_call=True, ranking=Ranking(["add", "say"], "key", opening))
    call = [event({"content": '{"tool":"add","arguments":{}}'}), event({}, "stop")]
    rounds = [scores("add", -8.0), scores("say", -2.0), scores("add", -4.0), scores("say", -3.5), call]
    message, _, requests = answer(Exchange(plan), *rounds)
    neutral = [*opening, {"role": "user", "content": "N/A"}]
    assert [request["messages"] for request in requests] == [neutral, neutral, *[BASE["messages"]] * 3]
    assert -4.5 + PRIOR * 8.5 > -4.0 + PRIOR * 2.5
    assert requests[4]["response_format"]["json_schema"]["schema"]["properties"]["tool"] == {"const": "add"}
    assert [call["name"] for call in message.tool_calls] == ["add"]
    again = Ranking(["add", "say"], "key", opening)
    assert again.next() == ("add", False), "what a name gets for nothing is known by now"


def test_the_engine_s_own_calls() -> None:
    """Two at once, in the pieces of OpenAI's form."""

    def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
        function = {"arguments": arguments, **{key: value for key, value in more.items() if key == "name"}}
        return {"index": index, "function": function, **{key: more[key] for key in more if key == "id"}}

    events = [
        event({"content": "Two:"}),
        event({"tool_calls": [call(0, "{", name="add", id="x1")]}),
        event({"tool_calls": [call(0, '"a":1}')]}),
        event({"tool_calls": [call(1, "{}", name="say", id="x2")]}),
        event({}, "tool_calls"),
    ]
    message, _, _ = answer(Exchange(Plan({**BASE, "tools": []}, "smol")), events)
    assert message.text == "Two:"
    assert [(one["name"], one["args"], one["id"]) for one in message.tool_calls] == [
        ("add", {"a": 1}, "x1"),
        ("say", {}, "x2"),
    ]


@pytest.mark.shows("local", "errors mapped")
@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (
            {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 31, "n_ctx": 20, "message": "x"},
            ContextLengthError,
            "the conversation has 31 tokens, and smol was loaded for 20",
        ),
        ({"code": 400, "message": "no such field"}, BadRequestError, "smol (llama.cpp): no such field"),
        ({"code": 503, "message": "loading"}, ServerError, "loading"),
        ("odd", BadRequestError, "odd"),
    ],
)
def test_errors_by_whose_fault_they_are(told: Any, kind: type[ModelError], words: str) -> None:
    with pytest.raises(kind) as caught:
        Exchange(Plan(BASE, "smol")).feed({"error": told})
    assert words in str(caught.value)


@pytest.mark.shows("local", "cut mid-stream")
def test_an_answer_that_ends_in_the_middle() -> None:
    exchange = Exchange(Plan(BASE, "smol"))
    exchange.feed(event({"content": "Hel"}))
    with pytest.raises(InvalidResponseError, match="ended in the middle"):
        exchange.close()


def test_a_plan_is_not_changed() -> None:
    before = json.dumps(BASE)
    answer(
        Exchange(Plan(BASE, "smol", [ADD], call_at=0.9)), first_token(0.6), [event({"content": "a"}), event({}, "stop")]
    )
    assert json.dumps(BASE) == before
