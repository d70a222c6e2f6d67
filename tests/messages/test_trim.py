from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    find_broken_pair,
    trim_messages,
)
from tests.messages import strategies

S, H1, H2 = SystemMessage("s"), HumanMessage("h1"), HumanMessage("h2")
A1, A2 = AIMessage("a1"), AIMessage("a2")
CALL = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
RESULT = ToolMessage("r", tool_call_id="1")
TALK = [S, H1, CALL, RESULT, A1, H2, A2]


def characters(messages: list[BaseMessage]) -> int:
    return sum(len(message.text) for message in messages)


def last(number: int, **options: Any) -> list[BaseMessage]:
    return trim_messages(TALK, max_tokens=number, token_counter=len, **options)


# --- laws ---------------------------------------------------------------------

options = st.fixed_dictionaries(
    {"max_tokens": st.integers(0, 12)},
    optional={
        "end_on": st.sampled_from(["human", "tool", ("ai", "human")]),
        "allow_partial": st.booleans(),
    },
).flatmap(
    lambda drawn: st.one_of(
        st.just({**drawn, "strategy": "first"}),
        st.fixed_dictionaries(
            {}, optional={"start_on": st.sampled_from(["human", AIMessage]), "include_system": st.booleans()}
        ).map(lambda more: {**drawn, **more}),
    )
)
histories = strategies.valid_histories() | strategies.any_histories()


@given(histories, options)
def test_B17_what_is_trimmed_is_valid(history: list[BaseMessage], options: dict[str, Any]) -> None:
    trimmed = trim_messages(history, token_counter=len, **options)
    assert find_broken_pair(trimmed, open_end=True) is None


@given(strategies.valid_histories(), options)
def test_what_is_trimmed_fits_and_is_a_part(history: list[BaseMessage], options: dict[str, Any]) -> None:
    options["allow_partial"] = False
    trimmed = trim_messages(history, token_counter=len, **options)
    kept_system = bool(trimmed and options.get("include_system") and isinstance(trimmed[0], SystemMessage))
    assert len(trimmed) <= max(options["max_tokens"], kept_system)
    rest = trimmed[kept_system:]
    places = [at for at in range(len(history) + 1) if history[at : at + len(rest)] == rest]
    assert places != []


@given(strategies.valid_histories())
def test_what_fits_is_left(history: list[BaseMessage]) -> None:
    for strategy in ("first", "last"):
        assert trim_messages(history, max_tokens=100, token_counter=len, strategy=strategy) == history


# --- cases --------------------------------------------------------------------


def test_the_longest_end_that_fits() -> None:
    assert last(3) == [A1, H2, A2]
    assert last(0) == []
    assert last(99) == TALK


def test_a_call_and_its_result_stay_together() -> None:
    assert last(4) == [A1, H2, A2]
    assert last(5) == [CALL, RESULT, A1, H2, A2]
    assert last(3, strategy="first") == [S, H1]
    assert last(4, strategy="first") == [S, H1, CALL, RESULT]


def test_the_system_message_always_stays() -> None:
    assert last(3, include_system=True) == [S, H2, A2]
    assert last(0, include_system=True) == [S]
    assert trim_messages([H1, A1], max_tokens=1, token_counter=len, include_system=True) == [A1]


def test_where_to_start_and_end() -> None:
    assert last(5, start_on="human") == [H2, A2]
    assert last(5, start_on=HumanMessage, include_system=True) == [S, H2, A2]
    assert last(2, end_on="human") == [A1, H2]
    assert last(2, end_on=("tool",)) == [CALL, RESULT]
    assert last(6, strategy="first", end_on="tool") == [S, H1, CALL, RESULT]
    assert last(2, end_on="tool", start_on="human") == []


def test_B19_nothing_is_nothing() -> None:
    all_options: list[Any] = [
        {"include_system": True},
        {"strategy": "first"},
        {"allow_partial": True},
        {"start_on": "human"},
    ]
    for options in all_options:
        assert trim_messages([], max_tokens=10, token_counter=len, **options) == []


def test_a_part_of_the_message_at_the_cut() -> None:
    message = HumanMessage("one\ntwo\nthree\n", id="1")
    options: Any = {"token_counter": characters, "allow_partial": True}
    assert trim_messages([message, AIMessage("ab")], max_tokens=9, **options) == [
        HumanMessage("three\n", id="1"),
        AIMessage("ab"),
    ]
    assert trim_messages([message], max_tokens=8, strategy="first", **options) == [HumanMessage("one\ntwo\n", id="1")]
    assert trim_messages([message], max_tokens=2, **options) == []


def test_a_part_of_a_message_of_blocks() -> None:
    blocks = [{"type": "text", "text": "one\ntwo\n"}, {"type": "image", "url": "u"}, {"type": "text", "text": "three"}]
    options: Any = {"token_counter": characters, "allow_partial": True}
    [end] = trim_messages([HumanMessage(blocks)], max_tokens=9, **options)
    assert end.content == [{"type": "text", "text": "two\n"}, *blocks[1:]]
    [end] = trim_messages([HumanMessage(blocks)], max_tokens=5, **options)
    assert end.content == blocks[1:]
    [start] = trim_messages([HumanMessage(blocks)], max_tokens=4, strategy="first", **options)
    assert start.content == [{"type": "text", "text": "one\n"}]


class Halves:
    def split_text(self, text: str) -> list[str]:
        return [text[: len(text) // 2], text[len(text) // 2 :]]


@pytest.mark.parametrize("splitter", [Halves(), Halves().split_text])
def test_a_text_splitter(splitter: Any) -> None:
    options: Any = {"token_counter": characters, "allow_partial": True, "text_splitter": splitter}
    assert trim_messages([HumanMessage("abcd")], max_tokens=3, **options) == [HumanMessage("cd")]


def test_calls_are_never_cut_in_part() -> None:
    call = AIMessage("one\ntwo", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    options: Any = {"token_counter": characters, "allow_partial": True}
    assert trim_messages([call, RESULT], max_tokens=5, **options) == []
    assert trim_messages([call], max_tokens=5, **options) == []


class Model:
    def get_num_tokens_from_messages(self, messages: list[BaseMessage]) -> int:
        return 2 * len(messages)

    def one(self, message: AIMessage) -> int:
        return 2


def one(message: BaseMessage) -> int:
    return 2


def one_human(message: HumanMessage, unused: int = 0) -> int:
    return 2


@pytest.mark.parametrize("counter", [Model(), Model().one, one, one_human, lambda messages: 2 * len(messages)])
def test_token_counters(counter: Any) -> None:
    assert trim_messages([H1, A1, H2], max_tokens=4, token_counter=counter) == [A1, H2]


def test_counting_approximately() -> None:
    talk = [HumanMessage("x" * 400), AIMessage("y" * 40)]
    assert trim_messages(talk, max_tokens=20, token_counter="approximate") == talk[1:]


def test_anything_that_is_a_message_is_trimmed() -> None:
    assert trim_messages([("user", "a"), ("ai", "b")], max_tokens=1, token_counter=len) == [AIMessage("b")]


def test_a_trimmer_is_called_or_invoked_later() -> None:
    trimmer = trim_messages(max_tokens=1, token_counter=len)
    assert trimmer(TALK) == [A2]
    assert trimmer.invoke(TALK) == [A2]
    assert trimmer.invoke(TALK, {"tags": []}, max_tokens=2) == [H2, A2]
    assert repr(trimmer).startswith("trim_messages(max_tokens=1, token_counter=<built-in function len>")


async def test_a_trimmer_in_async_code() -> None:
    assert await trim_messages(max_tokens=1, token_counter=len).ainvoke(TALK) == [A2]


def test_nothing_given_is_changed() -> None:
    before = list(TALK)
    last(2, include_system=True, end_on="human")
    assert before == TALK


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "middle"}, '"first" or "last"'),
        ({"strategy": "first", "start_on": "human"}, 'belong to strategy="last"'),
        ({"strategy": "first", "include_system": True}, 'belong to strategy="last"'),
        ({"token_counter": 3}, 'write "approximate", len'),
        ({"allow_partial": True, "text_splitter": 3}, "must be a function"),
    ],
)
def test_options_that_cannot_work_say_so(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        trim_messages(TALK, **{"max_tokens": 1, "token_counter": len, **options})
