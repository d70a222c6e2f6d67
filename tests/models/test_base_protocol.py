"""What a model class may look like, and that whatever it returns becomes one form of answer."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel, Field, PrivateAttr, ValidationError

from loopwright.chat_models import BaseChatModel
from loopwright.errors import InvalidResponseError, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage
from loopwright.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from tests.models.worlds import Blocking, both_worlds


class ChatParrot(BaseChatModel):
    """As a model is written for LangChain's protocol; only the imports are ours."""

    model_name: str = Field(alias="model")
    parrot_buffer_length: int = 3
    temperature: float | None = Field(default=0.5, ge=0)
    _calls: int = PrivateAttr(default=0)

    def _generate(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self._calls += 1
        words = messages[-1].content[: self.parrot_buffer_length]
        message = AIMessage(
            content=words,
            response_metadata={"model_name": self.model_name},
            usage_metadata={"input_tokens": 2, "output_tokens": 1},
        )
        return ChatResult(
            generations=[ChatGeneration(message=message, generation_info={"finish_reason": "stop"})],
            llm_output={"token_usage": {"total": 3}},
        )

    def _stream(
        self, messages: list[Any], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for letter in messages[-1].content[: self.parrot_buffer_length]:
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=letter))
            if run_manager:
                run_manager.on_llm_new_token(letter, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(message=AIMessageChunk(content=""), generation_info={"finish_reason": "stop"})

    @property
    def _llm_type(self) -> str:
        return "parrot"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": self.model_name}


@both_worlds
def test_a_class_written_for_langchains_protocol(world: Blocking) -> None:
    model = ChatParrot(model="parrot-1", temperature=0.1)
    answer = world.invoke(model, "hello")
    assert answer.content == "hel"
    assert answer.usage_metadata == {"input_tokens": 2, "output_tokens": 1, "total_tokens": 3}
    assert answer.response_metadata == {
        "token_usage": {"total": 3},
        "finish_reason": "stop",
        "model_name": "parrot-1",
    }
    pieces = world.stream(model, "hello")
    assert [piece.content for piece in pieces] == ["h", "e", "l", "", ""]
    assert pieces[3].response_metadata == {"finish_reason": "stop"}
    assert (model.temperature, model._calls) == (0.1, 1)


@both_worlds
def test_usage_with_counts_that_are_unknown(world: Blocking) -> None:
    """As some servers report it: null where a figure is missing."""

    class Vague(BaseChatModel):
        def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            usage: Any = {"input_tokens": 2, "output_tokens": None, "total_tokens": None}
            return AIMessage("text", usage_metadata=usage)

        @property
        def _llm_type(self) -> str:
            return "vague"

    answer = world.invoke(Vague(), "hello")
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["total_tokens"] == 2


@pytest.mark.parametrize(
    "result",
    [
        "text",
        AIMessage("text"),
        AIMessageChunk("text"),
        ChatResult(generations=[ChatGeneration(message=AIMessage("text"))]),
        ChatResult(generations=[ChatGeneration(message=AIMessageChunk("text"))]),
    ],
    ids=lambda result: type(result).__name__,
)
@both_worlds
def test_what_generate_may_return(world: Blocking, result: Any) -> None:
    class Any_(BaseChatModel):
        def _generate(self, messages: list[Any]) -> Any:
            return result

    answer = world.invoke(Any_(), "hi")
    assert (type(answer), answer.content, answer.id is not None) == (AIMessage, "text", True)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "_generate returned NoneType, not an AIMessage or a ChatResult"),
        (HumanMessage("h"), "_generate returned HumanMessage"),
        (ChatResult(generations=[]), "returned a ChatResult without generations"),
        (ChatResult(generations=[ChatGeneration(message=HumanMessage("h"))]), "answered with a HumanMessage"),
    ],
)
def test_a_result_that_is_no_answer(result: Any, words: str) -> None:
    class Wrong(BaseChatModel):
        def _generate(self, messages: list[Any]) -> Any:
            return result

    with pytest.raises(InvalidResponseError, match=words):
        Wrong().invoke("hi")


@pytest.mark.parametrize(
    "item",
    ["text", AIMessageChunk("text"), AIMessage("text"), ChatGenerationChunk(message=AIMessageChunk("text"))],
    ids=lambda item: type(item).__name__,
)
@both_worlds
def test_what_stream_may_yield(world: Blocking, item: Any) -> None:
    class Any_(BaseChatModel):
        def _stream(self, messages: list[Any]) -> Any:
            yield item

    assert [(type(piece), piece.content) for piece in world.stream(Any_(), "hi")] == [
        (AIMessageChunk, "text"),
        (AIMessageChunk, ""),
    ]
    assert world.invoke(Any_(), "hi").content == "text"


def test_a_whole_message_in_a_stream_keeps_its_calls_and_usage() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    whole = AIMessage("", tool_calls=[{"name": "f", "args": {"q": [1]}, "id": "1"}], usage_metadata=usage, id="m")

    class Whole(BaseChatModel):
        def _stream(self, messages: list[Any]) -> Any:
            yield whole

    answer = Whole().invoke("hi")
    assert (answer.tool_calls, answer.usage_metadata, answer.id) == (whole.tool_calls, usage, "m")


def test_a_stream_that_yields_something_else_or_nothing() -> None:
    class Wrong(BaseChatModel):
        def _stream(self, messages: list[Any]) -> Any:
            yield {"content": "x"}

    with pytest.raises(InvalidResponseError, match="_stream yielded dict"):
        list(Wrong().stream("hi"))

    class Empty(BaseChatModel):
        def _stream(self, messages: list[Any]) -> Any:
            yield from ()

    with pytest.raises(InvalidResponseError, match="ended before it had begun"):
        Empty().invoke("hi")
    with pytest.raises(InvalidResponseError, match="ended before it had begun"):
        list(Empty().stream("hi"))


def test_signatures_decide_what_a_method_is_given() -> None:
    got: list[Any] = []

    class Bare(BaseChatModel):
        def _generate(self, messages: list[Any]) -> str:
            got.append("bare")
            return "ok"

    class Stop(BaseChatModel):
        def _generate(self, messages: list[Any], stop: Any) -> str:
            got.append(stop)
            return "ok"

    class Required(BaseChatModel):
        def _generate(self, messages: list[Any], stop: Any, run_manager: Any, *, temperature: float) -> str:
            got.append((stop, run_manager, temperature))
            return "ok"

    class Rest(BaseChatModel):
        def _generate(self, messages: list[Any], **kwargs: Any) -> str:
            got.append(kwargs)
            return "ok"

    Bare().invoke("hi")
    Stop().invoke("hi")
    Stop().invoke("hi", stop=["x"])
    Required().invoke("hi", temperature=0.5)
    Rest().invoke("hi", stop=["x"], top_p=1)
    Rest().invoke("hi")
    assert got == ["bare", None, ["x"], (None, None, 0.5), {"stop": ["x"], "top_p": 1}, {}]
    with pytest.raises(UsageError, match=r"Bare\._generate does not take stop, tools: give it \*\*kwargs"):
        Bare().invoke("hi", stop=["x"], tools=[])


@both_worlds
def test_async_methods_may_have_the_plain_names(world: Blocking) -> None:
    class Coroutines(BaseChatModel):
        async def _generate(self, messages: list[Any], **kwargs: Any) -> str:
            return "whole"

        async def _stream(self, messages: list[Any], **kwargs: Any) -> AsyncIterator[str]:
            yield "in parts"

    assert world.invoke(Coroutines(), "hi").content == "whole"
    assert [piece.content for piece in world.stream(Coroutines(), "hi")] == ["in parts", ""]


def test_a_class_without_a_method_says_what_to_write() -> None:
    class Nothing(BaseChatModel):
        pass

    with pytest.raises(UsageError, match=r"Nothing cannot answer: write def _generate\("):
        Nothing().invoke("hi")


def test_a_field_called_streaming_makes_invoke_stream() -> None:
    class Chosen(BaseChatModel):
        streaming: bool = False

        def _generate(self, messages: list[Any]) -> str:
            return "whole"

        def _stream(self, messages: list[Any]) -> Iterator[str]:
            yield "streamed"

    assert Chosen().invoke("hi").content == "whole"
    assert Chosen(streaming=True).invoke("hi").content == "streamed"


@both_worlds
def test_output_version_v1_gives_blocks(world: Blocking) -> None:
    class Words(BaseChatModel):
        def _generate(self, messages: list[Any]) -> AIMessage:
            return AIMessage("a", tool_calls=[{"name": "f", "args": {}, "id": "1"}])

        def _stream(self, messages: list[Any]) -> Iterator[str]:
            yield "a"

    answer = world.invoke(Words(output_version="v1"), "hi")
    assert [block["type"] for block in answer.content] == ["text", "tool_call"]
    assert answer.text == "a"
    pieces = world.stream(Words(output_version="v1"), "hi")
    assert pieces[0].content == [{"type": "text", "text": "a"}]


def test_counting_tokens() -> None:
    class Words(BaseChatModel):
        def _generate(self, messages: list[Any]) -> str:
            return "ok"

    assert Words().get_num_tokens("12345678") == 2
    assert Words(custom_get_token_ids=lambda text: [ord(c) for c in text]).get_num_tokens("abc") == 3
    assert Words().get_num_tokens_from_messages([("human", "x" * 400)]) > 90
    assert Words().bind(stop=["x"]).get_num_tokens_from_messages("hi") > 0


def test_verbose_prints_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    class Words(BaseChatModel):
        def _generate(self, messages: list[Any]) -> str:
            return "said aloud"

    Words(verbose=True).invoke("hi")
    assert "said aloud" in capsys.readouterr().out


def test_chunks_of_the_protocol_add_up() -> None:
    total = ChatGenerationChunk(message=AIMessageChunk("a"), generation_info={"x": 1}) + ChatGenerationChunk(
        message=AIMessageChunk("b")
    )
    assert (total.text, total.generation_info) == ("ab", {"x": 1})


def test_a_class_is_built_when_its_first_model_is_made() -> None:
    """Most programs import several model classes and make a model of one."""

    class Settings(BaseModel):
        words: int

    class Configured(BaseChatModel):
        settings: Settings

        def _generate(self, messages: list[Any], **kwargs: Any) -> AIMessage:
            return AIMessage("word " * self.settings.words)

    assert not Configured.__pydantic_complete__
    assert "settings" in Configured.model_fields
    with pytest.raises(ValidationError, match=r"settings\.words"):
        Configured(settings={"words": "many"})  # pyright: ignore[reportArgumentType]
    assert Configured.__pydantic_complete__
    assert Configured(settings={"words": "2"}).invoke("hi").text == "word word "  # pyright: ignore[reportArgumentType]


def test_first_models_of_a_class_may_be_made_at_once() -> None:
    class Shared(BaseChatModel):
        number: int

    start = threading.Barrier(8)

    def make(number: int) -> int:
        start.wait()
        return Shared(number=str(number)).number  # pyright: ignore[reportArgumentType]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(make, range(8))) == list(range(8))
