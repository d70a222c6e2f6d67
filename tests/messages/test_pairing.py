from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    add_messages,
    calls_of,
    find_broken_pair,
    repair_history,
)
from tests.messages import strategies


def H(text: str = "h") -> HumanMessage:
    return HumanMessage(text)


def A(*ids: str, text: str = "") -> AIMessage:
    return AIMessage(text, tool_calls=[{"name": "f", "args": {}, "id": id} for id in ids])


def T(id: str, text: str = "r") -> ToolMessage:
    return ToolMessage(text, tool_call_id=id)


def not_run(id: str, text: str = "not run") -> tuple[str, str, str]:
    return (id, "error", text)


def shape(messages: list[BaseMessage]) -> list[Any]:
    """Results as (call id, status, text), other messages as they are."""
    return [
        (message.tool_call_id, message.status, message.text) if isinstance(message, ToolMessage) else message
        for message in messages
    ]


# --- the check ----------------------------------------------------------------


@given(strategies.valid_histories())
def test_valid_histories_pass_and_stay_the_same_object(history: list[BaseMessage]) -> None:
    assert find_broken_pair(history) is None
    assert repair_history(history) is history
    versioned = add_messages(history, [])
    for _ in range(2):
        assert repair_history(versioned) is versioned


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([T("1")], "messages[0] is a result for '1', which no AI message right before it asks for"),
        ([A("1")], "messages[0] makes the call '1', and its result does not follow"),
        ([A("1"), H()], "messages[0] makes the call '1', and its result does not follow"),
        ([A("1", "2"), T("2")], "messages[0] makes the call '1', and its result does not follow"),
        ([A("1"), T("1"), T("1")], "messages[2] is a result for '1', which no AI message right before it asks for"),
        (
            [A("1"), T("1"), H(), T("1")],
            "messages[3] is a result for '1', which no AI message right before it asks for",
        ),
        ([A("1"), A("2"), T("1"), T("2")], "messages[0] makes the call '1', and its result does not follow"),
        ([AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}])], "messages[0] calls 'f' without an id"),
    ],
)
def test_what_breaks_the_rule_is_named(messages: list[BaseMessage], problem: str) -> None:
    assert find_broken_pair(messages) == problem


def test_an_open_end_may_be_allowed() -> None:
    assert find_broken_pair([H(), A("1", "2"), T("1")], open_end=True) is None
    assert find_broken_pair([A("1"), H()], open_end=True) is not None
    assert find_broken_pair([T("1")], open_end=True) is not None


def test_an_id_used_twice_in_one_message_takes_one_result_or_two() -> None:
    assert find_broken_pair([A("1", "1"), T("1")]) is None
    assert find_broken_pair([A("1", "1"), T("1"), T("1")]) is None
    assert find_broken_pair([A("1", "1"), T("1"), T("1"), T("1")]) is not None


def test_calls_that_could_not_be_parsed_want_a_result() -> None:
    bad = AIMessage("", tool_calls=[{"name": "f", "args": "{", "id": "1"}])
    assert [call["id"] for call in calls_of(bad)] == ["1"]
    assert find_broken_pair([bad]) is not None
    assert find_broken_pair([bad, T("1")]) is None
    assert calls_of(H()) == []


# --- the repair ---------------------------------------------------------------


@given(strategies.any_histories(), st.booleans())
def test_a_repaired_history_is_valid(history: list[BaseMessage], open_end: bool) -> None:
    """It keeps all that was said in its order, and repairing it again does nothing."""
    repaired = repair_history(history, open_end=open_end)
    assert find_broken_pair(repaired, open_end=open_end) is None
    assert repair_history(repaired, open_end=open_end) is repaired

    def said(messages: list[BaseMessage]) -> list[str]:
        return [message.text for message in messages if message.type != "tool"]

    assert said(repaired) == said(history)


@given(strategies.valid_histories(), st.randoms())
def test_results_that_were_moved_come_back(history: list[BaseMessage], random: Any) -> None:
    """Within one turn: all results, in any order, pushed behind whatever follows."""
    calling = [at for at, message in enumerate(history) if calls_of(message)]
    if not calling:
        return
    at = calling[-1]
    results = [message for message in history[at:] if message.type == "tool"]
    others = [message for message in history[at + 1 :] if message.type != "tool"]
    random.shuffle(results)
    repaired = repair_history([*history[: at + 1], *others, *results])
    assert find_broken_pair(repaired) is None
    assert sorted(map(repr, repaired)) == sorted(map(repr, history))


def test_results_are_in_the_order_of_the_calls() -> None:
    first, second = T("1"), T("2")
    assert repair_history([A("1", "2"), H(), second, first]) == [A("1", "2"), first, second, H()]


def test_B16_a_result_whose_call_is_gone_is_dropped() -> None:
    assert repair_history([T("old"), T("new"), A("new")], "not run")[0] == A("new")
    assert repair_history([H(), T("old"), A("new"), T("new")]) == [H(), A("new"), T("new")]


def test_B17_results_go_right_behind_their_calls() -> None:
    assert repair_history([H(), A("1"), A("2"), T("1"), T("2"), A(text="ok")]) == [
        H(),
        A("1"),
        T("1"),
        A("2"),
        T("2"),
        A(text="ok"),
    ]
    assert repair_history([H(), A("1"), A(text="aside"), T("1")]) == [H(), A("1"), T("1"), A(text="aside")]


def test_B22_every_call_gets_a_result() -> None:
    repaired = repair_history([H(), A("1", "2", "3"), T("1"), H("next")], "not run")
    assert shape(repaired) == [H(), A("1", "2", "3"), ("1", "success", "r"), not_run("2"), not_run("3"), H("next")]


def test_B24_more_results_than_calls() -> None:
    assert repair_history([A("1"), T("1"), T("1", "again"), H()]) == [A("1"), T("1"), H()]


def test_a_result_said_before_its_call() -> None:
    assert repair_history([T("1"), H(), A("1")]) == [H(), A("1"), T("1")]


def test_a_result_belongs_to_the_last_call_that_waits() -> None:
    """Ids come again in programs that count them; the first call here was never answered."""
    repaired = repair_history([A("1", text="first"), H(), A("1", text="second"), T("1")], "not run")
    assert shape(repaired) == [A("1", text="first"), not_run("1"), H(), A("1", text="second"), ("1", "success", "r")]


def test_a_surplus_result_is_not_taken_for_a_later_call() -> None:
    repaired = repair_history([A("1"), T("1"), T("1", "surplus"), H(), A("1", text="b"), H()], "not run")
    assert shape(repaired)[4] == not_run("1")


def test_the_text_may_be_a_function_of_the_call() -> None:
    repaired = repair_history([A("1"), H()], lambda call: f"{call['name']} was stopped")
    assert shape(repaired)[1] == not_run("1", "f was stopped")
    assert repaired[1].name == "f"
    assert repaired[1].id is not None


def test_the_reason_why_a_call_could_not_be_parsed_is_told() -> None:
    bad = AIMessage("", tool_calls=[{"name": "f", "args": "[]", "id": "1"}])
    assert shape(repair_history([bad], "Not run."))[1] == not_run(
        "1", "the arguments must be a JSON object, not an array. Not run."
    )


def test_calls_without_an_id_get_one() -> None:
    message = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": None}, {"name": "g", "args": {}, "id": "1"}])
    repaired = repair_history([message, T("1")], "not run")
    call = calls_of(repaired[0])[0]
    assert call["id"]
    assert shape(repaired[1:]) == [not_run(call["id"]), ("1", "success", "r")]
    assert calls_of(message)[0]["id"] is None


def test_an_id_used_twice_gets_one_result() -> None:
    assert shape(repair_history([A("1", "1"), H()], "not run")) == [A("1", "1"), not_run("1"), H()]
    assert repair_history([A("1", "1"), H(), T("1"), T("1")]) == [A("1", "1"), T("1"), T("1"), H()]


def test_calls_at_an_open_end_wait() -> None:
    history = [A("1"), H(), A("2", "3"), T("3")]
    assert shape(repair_history(history, "not run", open_end=True)) == [
        A("1"),
        not_run("1"),
        H(),
        A("2", "3"),
        ("3", "success", "r"),
    ]


def test_a_history_remembers_what_was_in_order() -> None:
    """What was in order is not looked at again."""
    history = add_messages([], [H(), A("1"), T("1"), H()])
    assert repair_history(history) is history
    assert history.buffer.checked == 4
    longer = add_messages(history, [A("2")])
    assert repair_history(longer, open_end=True) is longer
    assert shape(repair_history(longer, "not run"))[-1] == not_run("2")
    answered = add_messages(longer, [T("2"), T("2")])
    assert repair_history(answered) == [*longer, answered[-2]]


def test_an_older_version_is_checked_anew() -> None:
    first = add_messages([], [H(), A("1")])
    second = add_messages(first, [T("1"), H(), H()])
    assert repair_history(second) is second
    assert second.buffer.checked == 5
    assert shape(repair_history(first, "not run"))[-1] == not_run("1")
