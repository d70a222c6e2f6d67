"""`ChatLocal` with the real packaged model. What it says is not judged, but for one pinned prompt in tests/cli."""

import asyncio
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from loopwright.chat_models import init_chat_model
from loopwright.errors import ContextLengthError, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, merge_chunks
from loopwright.models.local import ChatLocal, Loading, release_engines
from loopwright.tools import convert_to_openai_tool

pytestmark = pytest.mark.local

TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool.function | tojson }}{% endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ 'user' if message.role == 'tool' else message.role }}
{% if message.content %}{{ message.content }}{% endif %}
{%- for call in message.tool_calls or [] -%}
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
"""
"""A call is a JSON object and nothing around it."""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def say(text: str) -> str:
    """Say it."""
    return text


@pytest.fixture(scope="module")
def model() -> ChatLocal:
    return ChatLocal(max_tokens=24)


# -- making it -------------------------------------------------------------------------------------------------------


@pytest.mark.shows("local", "profile")
def test_its_name_makes_it() -> None:
    made = init_chat_model("local:", max_tokens=7)
    assert isinstance(made, ChatLocal)
    assert repr(made) == "ChatLocal(max_tokens=7)"
    assert made.model_name.startswith("SmolLM2-135M-Instruct")
    assert made.profile == {"max_input_tokens": 4096, "tool_calling": True, "structured_output": True}
    same = init_chat_model(f"local:{made._path}")
    assert isinstance(same, ChatLocal)
    assert same.model_name == made.model_name


def test_wrong_fields() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        init_chat_model("local:/nowhere/model.gguf")
    with pytest.raises(UsageError, match=r"shots\[0\]"):
        ChatLocal(shots=["wrong"])
    with pytest.raises(ValidationError, match="contxt"):
        ChatLocal(contxt=5)  # type: ignore[call-arg]


# -- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.shows("local", "invoke", "stream", "async", "usage details")
def test_words_alike_in_every_way_of_asking(model: ChatLocal) -> None:
    """Whole, in pieces, and under asyncio; each piece is a token or a few."""

    async def ask() -> tuple[AIMessage, list[AIMessageChunk]]:
        return await model.ainvoke("Say hello."), [chunk async for chunk in model.astream("Say hello.")]

    whole = model.invoke("Say hello.")
    pieces = list(model.stream("Say hello."))
    later, later_pieces = asyncio.run(ask())
    assert whole.text
    assert [later.text, merge_chunks(pieces).text, merge_chunks(later_pieces).text] == [whole.text] * 3
    assert len([piece for piece in pieces if piece.content]) > 1
    assert pieces[-1].chunk_position == "last"
    assert later.usage_metadata is not None
    usage = later.usage_metadata
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
    assert usage.get("input_token_details", {}).get("cache_read", 0) > 0
    facts = whole.response_metadata
    assert facts["provider"] == "local"
    assert facts["model_name"] == model.model_name
    assert facts["finish_reason"] in ("stop", "length")


def test_settings_of_a_call_win(model: ChatLocal) -> None:
    cut = model.invoke("Tell me a long story.", max_tokens=2)
    assert cut.response_metadata["finish_reason"] == "length"
    assert cut.usage_metadata is not None
    assert cut.usage_metadata["output_tokens"] == 2
    whole = model.invoke("Tell me a long story.")
    word = whole.text.split()[3]
    assert model.invoke("Tell me a long story.", stop=[word]).text == whole.text.partition(word)[0]
    assert ChatLocal(max_tokens=24, stop=[word]).invoke("Tell me a long story.").text == whole.text.partition(word)[0]


def test_a_seed_repeats_what_chance_chose() -> None:
    def say(seed: int) -> str:
        return ChatLocal(max_tokens=12, temperature=1.5, seed=seed).invoke("Tell me a long story.").text

    assert say(1) == say(1)
    assert len({say(seed) for seed in range(4)}) > 1


def test_a_conversation_too_long_names_both_numbers() -> None:
    with pytest.raises(ContextLengthError, match=r"tokens, and SmolLM2.* was loaded for 4096: .*n_ctx"):
        ChatLocal().invoke("word " * 5000)


def test_loading_is_told_to_the_model_that_asks() -> None:
    release_engines()
    news: list[Loading] = []
    ChatLocal(max_tokens=1, on_load=news.append).invoke("Hi")
    assert [one.done for one in news] == [False, True]


# -- calls -----------------------------------------------------------------------------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int


class Drawing(BaseModel):
    """Draw a figure."""

    colour: Colour
    points: Annotated[list[Point], Field(min_length=2, max_length=2)]
    width: float | None


@pytest.mark.shows("local", "tool choice")
def test_a_call_that_must_be_made_fits_its_schema(model: ChatLocal) -> None:
    """Enums, nested models, lists of a length: the arguments validate, whatever the model thinks."""
    answer = model.bind_tools([Drawing], tool_choice="any").invoke("Good morning!", max_tokens=120)
    (call,) = answer.tool_calls
    assert call["name"] == "Drawing"
    assert call["id"]
    Drawing.model_validate(call["args"])
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert answer.content == ""


def test_a_call_comes_in_pieces(model: ChatLocal) -> None:
    bound = model.bind_tools([add, say], tool_choice="add")
    pieces = [piece for chunk in bound.stream("Good morning!") for piece in chunk.tool_call_chunks]
    assert pieces[0]["name"] == "add"
    assert len(pieces) > 3
    assert {piece["id"] for piece in pieces[1:]} == {None}

    async def ask() -> AIMessage:
        return await bound.ainvoke("Good morning!")

    (call,) = asyncio.run(ask()).tool_calls
    assert call["args"].keys() == {"a", "b"}
    assert all(isinstance(value, int) for value in call["args"].values())


def test_no_call_where_none_may_be_made(model: ChatLocal) -> None:
    answer = model.bind_tools([add], tool_choice="none").invoke("Add 1 and 2.")
    assert answer.tool_calls == []
    assert answer.text


@pytest.mark.shows("local", "tools")
def test_the_bar_decides(model: ChatLocal) -> None:
    """At 0 every answer is a call, above 1 none is; words do not begin with the brace of a call."""
    always = ChatLocal(max_tokens=24, call_at=0.0, rank_tools=0).bind_tools([add]).invoke("Add 1 and 2.")
    assert len(always.tool_calls) == 1
    never = ChatLocal(max_tokens=24, call_at=1.1).bind_tools([add]).invoke("Add 1 and 2.")
    assert never.tool_calls == []
    assert never.text
    assert not never.text.lstrip().startswith("{")


def test_it_answers_after_three_results_whatever_it_would_rather_do() -> None:
    """Though the bar is at 0, a model that needs examples does not call for ever."""
    bound = ChatLocal(max_tokens=8, call_at=0.0, call_again_at=0.0).bind_tools([add])
    history: list[Any] = [HumanMessage("Add 1 and 2.")]
    made: list[int] = []
    for _ in range(4):
        answer = bound.invoke(history, max_tokens=40)
        made.append(len(answer.tool_calls))
        history += [answer, *(ToolMessage("3", tool_call_id=str(call["id"])) for call in answer.tool_calls)]
    assert made == [1, 1, 1, 0]


def test_a_template_with_a_place_for_tools_is_used() -> None:
    """The model's own form of a call, parsed by llama.cpp. Earlier turns show how to a model not trained for it."""
    model = ChatLocal(max_tokens=40, chat_template=TEMPLATE, n_ctx=1024)
    history: list[Any] = []
    for number in (3, 4, 8):
        call = {"name": "add", "args": {"a": number, "b": 1}, "id": str(number), "type": "tool_call"}
        result = ToolMessage(str(number + 1), tool_call_id=str(number))
        history += [HumanMessage(f"Add {number} and 1."), AIMessage("", tool_calls=[call]), result, AIMessage("Done.")]
    answer = model.bind_tools([convert_to_openai_tool(add)]).invoke([*history, HumanMessage("Add 5 and 1.")])
    assert [call["name"] for call in answer.tool_calls] == ["add"]
    assert answer.response_metadata["finish_reason"] == "tool_calls"
    assert model._engine().template_takes_tools
    forced = model.bind_tools([add], tool_choice="any").invoke("Good morning!")
    assert forced.tool_calls[0]["args"].keys() == {"a", "b"}
    schema = ChatLocal(max_tokens=8, chat_template=TEMPLATE, n_ctx=1024, tool_calls="schema", call_at=1.1)
    assert schema.bind_tools([add]).invoke("Good morning!").tool_calls == []


# -- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.shows("local", "partial objects")
def test_an_object_that_grows(model: ChatLocal) -> None:
    grown: list[Any] = list(model.with_structured_output(Point, method="json_schema").stream("x is 3 and y is 4."))
    assert isinstance(grown[-1], Point)
    assert all(part.keys() <= {"x", "y"} for part in grown[:-1])
    assert grown[-2] == grown[-1].model_dump()


@pytest.mark.shows("local", "native schema")
def test_answers_as_data(model: ChatLocal) -> None:
    for method in ("function_calling", "json_schema"):
        point = model.with_structured_output(Point, method=method).invoke("x is 3 and y is 4.")
        assert isinstance(point, Point)
    free = model.bind(response_format={"type": "json_object"}).invoke("Give me JSON.", max_tokens=6)
    assert free.text.lstrip().startswith("{")
    text = model.bind(response_format={"type": "text"}).invoke("Hi")
    assert text.text
