"""What is alike with every provider, through a real socket: each format's own bytes, and one way to ask.

The local model has the same in local/test_model.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import BaseModel

from loopwright import errors
from loopwright.agents import create_agent
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.models.anthropic import ChatAnthropic
from loopwright.models.google import ChatGoogleGenerativeAI, ChatVertexAI
from loopwright.models.openai_chat import AzureChatOpenAI, ChatOpenAI
from tests.models import test_anthropic as claude
from tests.models import test_anthropic_bedrock as bedrock
from tests.models import test_google as gemini
from tests.models import test_openai_responses as responses
from tests.models.loopback import Answer, Loopback, chat_answer, chat_stream
from tests.models.test_anthropic_stream import BEGIN, END, delta, start
from tests.models.test_openai_responses_request import text_item

Call = tuple[str, dict[str, Any]]
"""A tool's name and arguments."""


@dataclass(frozen=True)
class Wire:
    """One format: how a server says words, all at once or one by one, and calls."""

    says: Callable[[str], Any]
    streams: Callable[[list[str]], list[bytes]]
    calls: Callable[[list[Call]], Any]
    forced: tuple[str, Any]
    """The field of a request that says which tool must be called, and what it says of `tenfold`."""
    native: str
    """The field that holds the schema of an answer."""
    content_type: str = "text/event-stream"

    def streamed(self, *words: str) -> Answer:
        return Answer(pieces=self.streams(list(words)), headers={"content-type": self.content_type})

    def cut(self) -> Answer:
        """The beginning of three words."""
        pieces = self.streams(["one", "two", "three"])[:-3]
        return Answer(pieces=pieces, headers={"content-type": self.content_type}, cut=True)


def chat_calls(calls: list[Call]) -> Any:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for n, (name, args) in enumerate(calls)
    ]
    return chat_answer(None, finish="tool_calls", tool_calls=made)


def responses_events(words: list[str]) -> list[bytes]:
    where = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    item = text_item("".join(words))
    events = [
        {"type": "response.created", "response": responses.responses_answer(status="in_progress")},
        *({"type": "response.output_text.delta", "delta": word, **where} for word in words),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": responses.responses_answer(item)},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def responses_calls(calls: list[Call]) -> Any:
    return responses.responses_answer(*(
        {
            "type": "function_call",
            "id": f"fc_{n}",
            "call_id": f"c{n}",
            "name": name,
            "arguments": json.dumps(args),
            "status": "completed",
        }
        for n, (name, args) in enumerate(calls)
    ))  # fmt: skip


def claude_events(words: list[str]) -> list[bytes]:
    return [BEGIN, start(0, "text", text=""), *(delta(0, "text_delta", text=word) for word in words), END]


def claude_calls(calls: list[Call]) -> Any:
    made = [{"type": "tool_use", "id": f"c{n}", "name": name, "input": args} for n, (name, args) in enumerate(calls)]
    return claude.answer(*made, reason="tool_use")


def framed(words: list[str]) -> list[bytes]:
    events = b"".join(claude_events(words)).split(b"\n\n")[:-1]
    return [bedrock.chunk(event) for event in events]


def gemini_events(words: list[str]) -> list[bytes]:
    return [gemini.event(gemini.text(word, None)) for word in words] + [gemini.event(gemini.text(""))]


def gemini_calls(calls: list[Call]) -> Any:
    return gemini.answer(*({"functionCall": {"name": name, "args": args}} for name, args in calls))


NAMED = {"type": "function", "function": {"name": "tenfold"}}
CHAT = Wire(
    chat_answer, lambda words: chat_stream(*words), chat_calls, forced=("tool_choice", NAMED), native="response_format"
)
RESPONSES = Wire(
    lambda text: responses.responses_answer(text_item(text)),
    responses_events,
    responses_calls,
    forced=("tool_choice", {"type": "function", "name": "tenfold"}),
    native="text",
)
CLAUDE = Wire(
    lambda text: claude.answer(claude.text(text)),
    claude_events,
    claude_calls,
    forced=("tool_choice", {"type": "tool", "name": "tenfold"}),
    native="output_config",
)
BEDROCK = replace(CLAUDE, streams=framed, content_type="application/vnd.amazon.eventstream")
GEMINI = Wire(
    gemini.text,
    gemini_events,
    gemini_calls,
    forced=("toolConfig", {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["tenfold"]}}),
    native="generationConfig",
)

Made = Callable[..., Any]
"""From a server and fields to a model that asks it."""


def openai(server: Loopback, **fields: Any) -> Any:
    return ChatOpenAI(model="m", api_key="k", base_url=server.url, **fields)


def openai_responses(server: Loopback, **fields: Any) -> Any:
    return openai(server, use_responses_api=True, **fields)


def mistral(server: Loopback, **fields: Any) -> Any:
    return openai(server, provider="mistral", **fields)


def azure(server: Loopback, **fields: Any) -> Any:
    return AzureChatOpenAI(azure_endpoint=root(server), azure_deployment="mine", api_key="k", **fields)


def anthropic(server: Loopback, **fields: Any) -> Any:
    return ChatAnthropic(model="claude-sonnet-4-5", api_key="k", base_url=root(server), **fields)


def on_bedrock(server: Loopback, **fields: Any) -> Any:
    return bedrock.made(api_key="k", base_url=root(server), **fields)


def google(server: Loopback, **fields: Any) -> Any:
    return ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="k", base_url=server.url, **fields)


def vertex(server: Loopback, **fields: Any) -> Any:
    return ChatVertexAI(model="gemini-2.5-flash", project="p", api_key=lambda: "t", base_url=server.url, **fields)


def root(server: Loopback) -> str:
    return server.url.removesuffix("/v1")


WITH_SOUND = [
    pytest.param(CHAT, openai, id="openai-chat"),
    pytest.param(RESPONSES, openai_responses, id="openai-responses"),
    pytest.param(CHAT, azure, id="azure"),
    pytest.param(GEMINI, google, id="google"),
    pytest.param(GEMINI, vertex, id="vertex"),
    pytest.param(CHAT, mistral, id="openai-compatible"),
]
WITHOUT = [pytest.param(CLAUDE, anthropic, id="anthropic"), pytest.param(BEDROCK, on_bedrock, id="bedrock")]
with_each = pytest.mark.parametrize(("wire", "made"), [*WITH_SOUND, *WITHOUT])

pytestmark = pytest.mark.shows("openai-chat", "openai-responses", "azure", "google", "vertex", "openai-compatible")


def tenfold(number: int) -> str:
    """Ten times a number."""
    return f"It is {number * 10}."


class Place(BaseModel):
    """A place on a map."""

    city: str
    rating: int


# -- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.shows("anthropic", "bedrock", "invoke", "stream")
@with_each
def test_words_whole_and_one_by_one(wire: Wire, made: Made):
    with Loopback(Answer(body=wire.says("Hello you")), wire.streamed("Hello", " you")) as server:
        model = made(server)
        assert model.invoke("hi").text == "Hello you"
        assert [chunk.text for chunk in model.stream("hi") if chunk.text] == ["Hello", " you"]
        model.close()


@pytest.mark.shows("anthropic", "bedrock", "async")
@with_each
async def test_words_on_a_loop(wire: Wire, made: Made):
    with Loopback(Answer(body=wire.says("Hello you")), wire.streamed("Hello", " you")) as server:
        model = made(server)
        assert (await model.ainvoke("hi")).text == "Hello you"
        assert [chunk.text async for chunk in model.astream("hi") if chunk.text] == ["Hello", " you"]
        await model.aclose()


# -- calls and data -------------------------------------------------------------------------------------------------


@pytest.mark.shows("anthropic", "bedrock", "tools", "parallel calls")
@with_each
def test_an_agent_makes_two_calls_at_once(wire: Wire, made: Made):
    calls = [("tenfold", {"number": 1}), ("tenfold", {"number": 2})]
    with Loopback(Answer(body=wire.calls(calls)), Answer(body=wire.says("Done."))) as server:
        model = made(server)
        result = create_agent(model, [tenfold]).invoke({"messages": "go"})
        model.close()
    assert [message.text for message in result["messages"]] == ["go", "", "It is 10.", "It is 20.", "Done."]
    asked, told = (request.body for request in server.requests)
    assert b"Ten times a number." in asked
    assert (told.count(b"It is 10."), told.count(b"It is 20.")) == (1, 1)


@pytest.mark.shows("anthropic", "bedrock", "tool choice")
@with_each
def test_a_call_that_must_be_made(wire: Wire, made: Made):
    with Loopback(Answer(body=wire.calls([("tenfold", {"number": 1})]))) as server:
        model = made(server)
        [call] = model.bind_tools([tenfold], tool_choice="tenfold").invoke("hi").tool_calls
        model.close()
        field, value = wire.forced
        assert server.requests[0].json[field] == value
    assert (call["name"], call["args"]) == ("tenfold", {"number": 1})


@pytest.mark.shows("anthropic", "bedrock", "native schema", "partial objects")
@with_each
def test_an_object_that_grows(wire: Wire, made: Made):
    with Loopback(wire.streamed('{"city": "Os', 'lo", "rating"', ": 4}")) as server:
        model = made(server)
        grown = list(model.with_structured_output(Place, method="json_schema").stream("Where?"))
        model.close()
        assert "rating" in json.dumps(server.requests[0].json[wire.native])
    whole = {"city": "Oslo", "rating": 4}
    assert grown == [{"city": "Os"}, {"city": "Oslo"}, whole, Place(**whole)]


# -- media ----------------------------------------------------------------------------------------------------------

IMAGE = {"type": "image", "base64": "iVBORw0K", "mime_type": "image/png"}
PDF = {"type": "file", "base64": "JVBERi0x", "mime_type": "application/pdf"}
SOUND = {"type": "audio", "base64": "UklGRgAA", "mime_type": "audio/wav"}


def asked_with(wire: Wire, made: Made, *messages: Any) -> bytes:
    """The body of the request."""
    with Loopback(Answer(body=wire.says("Seen."))) as server:
        model = made(server)
        assert model.invoke(list(messages)).text == "Seen."
        model.close()
    return server.requests[0].body


@pytest.mark.shows("anthropic", "bedrock", "images in", "files in", "media in tool results")
@with_each
def test_pictures_and_files(wire: Wire, made: Made):
    looked = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}])
    assert b"iVBORw0K" in asked_with(wire, made, HumanMessage([IMAGE]))
    assert b"JVBERi0x" in asked_with(wire, made, HumanMessage([PDF]))
    result = ToolMessage([IMAGE], tool_call_id="c1", name="look")
    assert b"iVBORw0K" in asked_with(wire, made, HumanMessage("Look."), looked, result)


@with_each
def test_a_picture_that_does_not_say_its_kind(wire: Wire, made: Made):
    """Its first bytes do."""
    assert b"image/png" in asked_with(wire, made, HumanMessage([{"type": "image", "base64": IMAGE["base64"]}]))


@pytest.mark.shows("audio in")
@pytest.mark.parametrize(("wire", "made"), WITH_SOUND)
def test_sound(wire: Wire, made: Made):
    assert b"UklGRgAA" in asked_with(wire, made, HumanMessage([SOUND]))


# -- when it fails --------------------------------------------------------------------------------------------------


@pytest.mark.shows("anthropic", "bedrock", "retries")
@with_each
def test_what_may_pass_is_tried_again(wire: Wire, made: Made):
    with Loopback(Answer(503, {}, {"retry-after": "0"}), Answer(body=wire.says("Hello"))) as server:
        model = made(server)
        assert model.invoke("hi").text == "Hello"
        model.close()
    assert len(server.requests) == 2


@pytest.mark.shows("anthropic", "bedrock", "errors mapped")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequestError),
        (401, errors.AuthenticationError),
        (429, errors.RateLimitError),
        (500, errors.ServerError),
    ],
)
@with_each
def test_errors_say_whose_fault_it_is(wire: Wire, made: Made, status: int, kind: type[errors.ModelError]):
    with Loopback(Answer(status, {"error": {"message": "Not like this."}})) as server:
        model = made(server, max_retries=0)
        with pytest.raises(kind, match="Not like this"):
            model.invoke("hi")
        model.close()


@pytest.mark.shows("anthropic", "bedrock", "cut mid-stream")
@with_each
def test_a_stream_that_breaks_off_is_no_answer(wire: Wire, made: Made):
    with Loopback(wire.cut()) as server:
        model = made(server)
        read: list[str] = []
        with pytest.raises(errors.ModelConnectionError):
            read.extend(chunk.text for chunk in model.stream("hi"))
        model.close()
    assert len(server.requests) == 1
    assert read[0] == "one"
