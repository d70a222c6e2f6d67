"""LangChain's chat models in our agents: the real `ChatOpenAI` against a server on this machine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

from langchain_core.callbacks import BaseCallbackHandler as TheirHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage as TheirAIMessage
from langchain_core.messages import SystemMessage as TheirSystemMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from loopwright import errors
from loopwright.agents import create_agent
from loopwright.agents.middleware import wrap_model_call
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.callbacks import BaseCallbackHandler
from loopwright.messages import AIMessage, HumanMessage, SystemMessage
from loopwright.models.langchain import ChatLangChain, as_ours
from loopwright.testing import ScriptedModel
from tests.models.loopback import Answer, Loopback, chat_answer, chat_event, chat_stream

WORLDS = pytest.mark.parametrize("world", ["blocking", "asyncio"])
KEY = "sk-very-secret-1234"


@pytest.fixture
def made() -> Iterator[Any]:
    """Makes models, and closes their connections."""
    models: list[Any] = []

    def make(server: Loopback, **fields: Any) -> Any:
        settings: Any = {"model": "gpt-4.1", "api_key": KEY, "base_url": server.url, "max_retries": 0, **fields}
        models.append(ChatOpenAI(**settings))
        return models[-1]

    yield make
    for model in models:
        model.root_client.close()


def test_a_prompt_of_theirs():
    model = ScriptedModel("ok")
    create_agent(model, system_prompt=cast(Any, TheirSystemMessage("Be brief."))).invoke({"messages": "hi"})
    assert [(type(m), m.text) for m in model.requests[0].messages] == [
        (SystemMessage, "Be brief."),
        (HumanMessage, "hi"),
    ]


def run(agent: Any, world: str, *args: Any) -> Any:
    return agent.invoke(*args) if world == "blocking" else asyncio.run(arun(agent, *args))


async def arun(agent: Any, *args: Any) -> Any:
    try:
        return await agent.ainvoke(*args)
    finally:
        for model in agents_models(agent):
            await model.root_async_client.close()


def agents_models(agent: Any) -> list[Any]:
    return [agent.runnable] if isinstance(agent, ChatLangChain) else [KEPT[-1]]


KEPT: list[Any] = []
GO: Any = {"messages": [("user", "go")]}


def tool_call(name: str, args: str) -> dict[str, Any]:
    return {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": args}}]}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.shows("langchain", "reasoning", "usage details")
def test_a_round_with_a_claude_that_thinks() -> None:
    """What must go back unchanged does: the signature of its reasoning, beside the call."""
    from langchain_anthropic import ChatAnthropic

    thought = {"type": "thinking", "thinking": "I should add.", "signature": "c2VhbGVk"}
    asked = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 2, "b": 3}}

    def answer(stop: str, *content: Any) -> Answer:
        usage = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1}
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "stop_sequence": None}
        return Answer(body={**body, "content": list(content), "stop_reason": stop, "usage": usage})

    with Loopback(answer("tool_use", thought, asked), answer("end_turn", {"type": "text", "text": "5"})) as server:
        address = server.url.removesuffix("/v1")
        settings: Any = {"model": "claude-of-today", "api_key": KEY, "base_url": address, "max_retries": 0}
        model = ChatAnthropic(**settings)
        result = create_agent(model, [add], system_prompt="Be brief.").invoke(GO)
        model._client.close()
    called: Any = result["messages"][1]
    assert result.text == "5"
    assert [block["type"] for block in called.content_blocks] == ["reasoning", "tool_call"]
    assert called.usage_metadata["input_tokens"] == 9
    assert called.usage_metadata["input_token_details"]["cache_read"] == 5
    assert (called.response_metadata["finish_reason"], called.response_metadata["raw_finish_reason"]) == (
        "tool_calls",
        "tool_use",
    )
    sent = server.requests[1].json
    assert sent["system"] == "Be brief."
    assert sent["messages"][1]["content"] == [thought, asked]
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"


@pytest.mark.shows("langchain", "invoke", "async", "tools")
@WORLDS
def test_a_round_with_a_tool(made: Any, world: str) -> None:
    called = chat_answer(None, finish="tool_calls", **tool_call("add", '{"a": 2, "b": 3}'))
    with Loopback(Answer(body=called), Answer(body=chat_answer("It is 5."))) as server:
        KEPT.append(made(server))
        result = run(create_agent(KEPT[-1], [add], system_prompt="Be brief."), world, GO)
    assert [message.text for message in result["messages"]] == ["go", "", "5", "It is 5."]
    assert (result.text, result.stop_reason) == ("It is 5.", "answer")
    assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (6, 4)
    metadata = result["messages"][1].response_metadata
    assert (metadata["finish_reason"], metadata["raw_finish_reason"]) == ("tool_calls", "tool_calls")
    assert (metadata["provider"], metadata["model_name"], metadata["id"]) == ("openai", "m-1", "chatcmpl-1")
    sent = server.requests[1].json
    assert [message["role"] for message in sent["messages"]] == ["system", "user", "assistant", "tool"]
    assert sent["tools"][0]["function"]["name"] == "add"


@pytest.mark.shows("langchain", "stream")
def test_tokens_arrive_one_by_one(made: Any) -> None:
    with Loopback(Answer(pieces=chat_stream("Hel", "lo"), headers={"content-type": "text/event-stream"})) as server:
        agent = create_agent(made(server))
        chunks = [chunk for chunk, _ in agent.stream(GO, stream_mode="messages")]
    assert [chunk.text for chunk in chunks if chunk.text] == ["Hel", "lo"]
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].chunk_position == "last"


def test_streamed_calls_are_run(made: Any) -> None:
    pieces = [
        chat_event(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 2,'}}]),
        chat_event(tool_calls=[{"index": 0, "function": {"arguments": ' "b": 3}'}}]),
        chat_event(finish="tool_calls"),
        b"data: [DONE]\n\n",
    ]
    stream = {"content-type": "text/event-stream"}
    with Loopback(Answer(pieces=pieces, headers=stream), Answer(pieces=chat_stream("5"), headers=stream)) as server:
        agent = create_agent(made(server), [add])
        last = list(agent.stream(GO, stream_mode=["values", "messages"]))[-1]
    assert [message.text for message in last[1]["messages"]] == ["go", "", "5", "5"]
    assert last[1]["messages"][1].response_metadata["finish_reason"] == "tool_calls"


def test_leaving_a_stream_hangs_up(made: Any) -> None:
    left = threading.Event()
    answer = Answer(
        pieces=[chat_event(content="a"), "until hangup"],
        headers={"content-type": "text/event-stream"},
        on_hangup=left,
    )
    with Loopback(answer) as server:
        pieces = ChatLangChain(runnable=made(server)).stream("go")
        assert next(pieces).text == "a"
        pieces.close()  # type: ignore[attr-defined]
        assert left.wait(10)


class City(BaseModel):
    """A city."""

    name: str
    people: int


@pytest.mark.shows("langchain", "tool choice", "native schema")
@pytest.mark.parametrize("strategy", [ToolStrategy(City), ProviderStrategy(City), City])
def test_structured_answers(made: Any, strategy: Any) -> None:
    said = '{"name": "Oslo", "people": 700000}'
    by_tool = isinstance(strategy, ToolStrategy)
    answer = chat_answer(None, **tool_call("City", said)) if by_tool else chat_answer(said)
    with Loopback(Answer(body=answer)) as server:
        result = create_agent(made(server), response_format=strategy).invoke(GO)
    assert result["structured_response"] == City(name="Oslo", people=700000)
    sent = server.requests[0].json
    assert ("response_format" in sent) is not by_tool
    assert sent.get("tool_choice") == ("required" if by_tool else None)


def look(city: str, times: int = 1) -> str:
    """Look it up."""
    return city * times


def test_a_structured_answer_beside_tools(made: Any) -> None:
    """OpenAI's SDK reads it beside strict tools only, and LangChain wants a title in the schema."""
    with Loopback(Answer(body=chat_answer('{"name": "Oslo", "people": 700000}'))) as server:
        agent = create_agent(made(server), [look], response_format=ProviderStrategy(City))
        assert agent.invoke(GO)["structured_response"] == City(name="Oslo", people=700000)
    sent = server.requests[0].json
    function = sent["tools"][0]["function"]
    assert (function["strict"], function["parameters"]["required"]) == (True, ["city", "times"])
    assert sent["response_format"]["json_schema"]["name"] == "City"


def test_beside_tools_a_bare_schema_is_asked_for_as_a_tool(made: Any) -> None:
    """Whose arguments may be left out, and whose objects have free keys, is no tool of strict mode."""
    calls = tool_call("City", '{"name": "Oslo", "people": 700000}')
    with Loopback(Answer(body=chat_answer(None, **calls))) as server:
        result = create_agent(made(server), [look], response_format=City).invoke(GO)
    assert result["structured_response"] == City(name="Oslo", people=700000)
    assert [tool["function"]["name"] for tool in server.requests[0].json["tools"]] == ["look", "City"]


def test_another_server_has_no_list_price(made: Any) -> None:
    """Whatever the price of the model of that name is at its provider's."""
    pytest.importorskip("genai_prices")
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    with Loopback(Answer(body={**chat_answer("ok"), "usage": usage, "model": "gpt-4o-mini"})) as server:
        told = create_agent(made(server)).invoke(GO)
    reply = told["messages"][-1]
    assert (told.cost, reply.response_metadata["host"]) == (None, server.url.split("/")[2])


@pytest.mark.parametrize(
    ("provider", "address", "host"),
    [
        ("openai", "https://api.openai.com/v1", None),
        ("openai", "https://eu.api.openai.com/v1/", None),
        ("openai", "https://openai.gateway.example/v1", "openai.gateway.example"),
        ("openai", "https://openrouter.ai/api/v1", "openrouter.ai"),
        ("openai", "http://localhost:8000/v1", "localhost:8000"),
        ("anthropic", "https://api.anthropic.com", None),
        ("google_genai", "https://generativelanguage.googleapis.com", None),
        ("mistralai", "https://api.mistral.ai/v1", None),
        ("azure", "https://own.openai.azure.com", None),
        ("openai", None, None),
    ],
)
def test_whose_server_it_is(provider: str, address: str | None, host: str | None) -> None:
    theirs = TheirAIMessage("ok", response_metadata={"model_provider": provider})
    assert as_ours(theirs, address=address).response_metadata.get("host") == host


@pytest.mark.parametrize("method", ["function_calling", "json_schema"])
def test_with_structured_output(made: Any, method: str) -> None:
    said = '{"name": "Oslo", "people": 700000}'
    answer = chat_answer(None, **tool_call("City", said)) if method == "function_calling" else chat_answer(said)
    with Loopback(Answer(body=answer)) as server:
        model = ChatLangChain(runnable=made(server))
        assert model.with_structured_output(City, method=method).invoke("Oslo?") == City(name="Oslo", people=700000)


@pytest.mark.shows("langchain", "partial objects")
def test_an_object_that_grows(made: Any) -> None:
    pieces = chat_stream('{"name": "Os', 'lo", "people"', ": 700000}")
    with Loopback(Answer(pieces=pieces, headers={"content-type": "text/event-stream"})) as server:
        model = ChatLangChain(runnable=made(server)).with_structured_output(City, method="json_schema")
        grown = list(model.stream("Oslo?"))
    whole = {"name": "Oslo", "people": 700000}
    assert grown == [{"name": "Os"}, {"name": "Oslo"}, whole, City(name="Oslo", people=700000)]


@pytest.mark.shows("langchain", "cut mid-stream")
def test_a_stream_that_breaks_off(made: Any) -> None:
    answer = Answer(pieces=chat_stream("Hel", "lo")[:2], headers={"content-type": "text/event-stream"}, cut=True)
    with Loopback(answer) as server, pytest.raises(errors.ModelConnectionError):
        list(ChatLangChain(runnable=made(server)).stream("go"))


@pytest.mark.shows("langchain", "parallel calls")
def test_two_calls_at_once(made: Any) -> None:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "add", "arguments": f'{{"a": {n}, "b": 3}}'}}
        for n in range(2)
    ]
    called = chat_answer(None, finish="tool_calls", tool_calls=calls)
    with Loopback(Answer(body=called), Answer(body=chat_answer("Done."))) as server:
        result = create_agent(made(server), [add]).invoke(GO)
    assert [message.text for message in result["messages"]] == ["go", "", "3", "4", "Done."]
    assert [message["role"] for message in server.requests[1].json["messages"]][-2:] == ["tool", "tool"]


@pytest.mark.shows("langchain", "images in", "files in", "audio in")
def test_media(made: Any) -> None:
    media = [
        {"type": "image", "base64": "iVBORw0K", "mime_type": "image/png"},
        {"type": "file", "base64": "JVBERi0x", "mime_type": "application/pdf", "filename": "a.pdf"},
        {"type": "audio", "base64": "UklGRgAA", "mime_type": "audio/wav"},
    ]
    with Loopback(Answer(body=chat_answer("A dog."))) as server:
        assert ChatLangChain(runnable=made(server)).invoke([HumanMessage(media)]).text == "A dog."
    assert server.requests[0].json["messages"][0]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRgAA", "format": "wav"}},
    ]


@pytest.mark.shows("langchain", "profile")
def test_what_is_known_of_the_model(made: Any) -> None:
    with Loopback(Answer()) as server:
        theirs = made(server)
    assert theirs.profile["tool_calling"] is True
    assert ChatLangChain(runnable=theirs).profile == theirs.profile


@pytest.mark.shows("langchain", "errors mapped")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.AuthenticationError),
        (404, errors.NotFoundError),
        (429, errors.RateLimitError),
        (503, errors.ServerError),
        (400, errors.BadRequestError),
    ],
)
def test_errors_say_whose_fault_it_is(made: Any, status: int, kind: type[errors.ModelError]) -> None:
    refusal = {"error": {"message": f"no, {KEY} will not do", "code": "sorry"}}
    with (
        Loopback(Answer(status, refusal, {"retry-after": "7"})) as server,
        pytest.raises(kind, match="no, \\*\\*\\*") as caught,
    ):
        create_agent(made(server)).invoke(GO)
    error = caught.value
    assert (error.status_code, error.code, error.retry_after) == (status, "sorry", 7.0)
    assert "APIStatusError" in [kind.__name__ for kind in type(error.__cause__).__mro__]
    assert KEY not in str(error)
    assert error.state is not None
    assert len(error.state["messages"]) == 1


def test_a_broken_connection_and_an_error_in_a_stream(made: Any) -> None:
    with Loopback(Answer(0)) as server, pytest.raises(errors.ModelConnectionError):
        create_agent(made(server)).invoke(GO)
    broken = [chat_event(content="a"), b'data: {"error": {"message": "out of order"}}\n\n']
    with (
        Loopback(Answer(pieces=broken, headers={"content-type": "text/event-stream"})) as server,
        pytest.raises(errors.StreamError, match="out of order"),
    ):
        list(create_agent(made(server)).stream(GO, stream_mode="messages"))


def test_other_errors_pass_unchanged() -> None:
    class Broken(GenericFakeChatModel):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        create_agent(Broken(messages=iter([]))).invoke(GO)


def test_a_fallback(made: Any) -> None:
    with Loopback(Answer(503, {}), Answer(body=chat_answer("second"))) as server:
        model = ScriptedModel(errors.ServerError("down")).with_fallbacks([made(server), made(server)])
        assert create_agent(model, [add]).invoke(GO).text == "second"


@pytest.mark.shows("langchain", "retries")
def test_with_something_bound_to_it(made: Any) -> None:
    with Loopback(Answer(503, {}), Answer(body=chat_answer("again"))) as server:
        model = made(server).bind(temperature=0.5).with_retry(wait_exponential_jitter=False)
        assert create_agent(model).invoke(GO).text == "again"
    assert [request.json["temperature"] for request in server.requests] == [0.5, 0.5]


def test_a_hook_may_choose_one(made: Any) -> None:
    with Loopback(Answer(body=chat_answer("chosen"))) as server:
        chosen = made(server)

        @wrap_model_call
        def choose(request: Any, handler: Any) -> Any:
            return handler(request.override(model=chosen))

        assert create_agent(ScriptedModel(), [add], middleware=[choose]).invoke(GO).text == "chosen"


def test_nobody_hears_twice() -> None:
    heard: list[str] = []

    class Ours(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            heard.append("ours begins")

        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            heard.append("ours ends")

    class Theirs(TheirHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            heard.append("theirs begins")

    model = GenericFakeChatModel(messages=iter([TheirAIMessage("hi")]), callbacks=[Theirs()])
    create_agent(model).invoke(GO, {"callbacks": [Ours()]})
    assert heard == ["ours begins", "theirs begins", "ours ends"]


def test_tags_of_the_model_hold() -> None:
    model = GenericFakeChatModel(messages=iter([TheirAIMessage("not shown")]), tags=["nostream"])
    shown = [message for message, _ in create_agent(model).stream(GO, stream_mode="messages")]
    assert [type(message) for message in shown] == [AIMessage]  # the whole, when it is in the state; no tokens


def test_what_is_no_model() -> None:
    with pytest.raises(errors.UsageError, match="no chat model"):
        create_agent(object())  # type: ignore
    with pytest.raises(errors.UsageError, match="with_fallbacks takes chat models"):
        ScriptedModel().with_fallbacks([object()])  # type: ignore


def test_the_core_never_imports_it() -> None:
    program = (
        "import sys\n"
        "from loopwright.agents import create_agent\n"
        "from loopwright.chat_models import ChatOpenAI\n"
        "from loopwright.testing import ScriptedModel\n"
        "import loopwright.models.langchain, loopwright.tools.langchain, loopwright.messages.langchain\n"
        "def now() -> str:\n"
        "    'Tell the time.'\n"
        "create_agent(ScriptedModel('hi'), [now]).invoke({'messages': [('user', 'go')]})\n"
        "assert not [name for name in sys.modules if name.startswith(('langchain', 'langgraph', 'langsmith'))]"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
