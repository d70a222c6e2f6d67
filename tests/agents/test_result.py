"""What `invoke` returns: a dictionary with the state's keys, and answers beside it."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from loopwright.agents.result import AgentResult
from loopwright.agents.stop import STOP_REASONS, is_notice, is_reminder, notice, reminder
from loopwright.graph.types import Interrupt
from loopwright.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

ASK = HumanMessage("hi", id="h1")
CALL = {"name": "look", "args": {"city": "Köln"}, "id": "c1", "type": "tool_call"}


def result(*messages, stop_reason="answer", **more) -> AgentResult:
    return AgentResult({"messages": [ASK, *messages]}, stop_reason=stop_reason, **more)  # pyright: ignore[reportArgumentType]


def test_it_is_the_state():
    messages = [ASK, AIMessage("ok", id="a1")]
    made = AgentResult({"messages": messages, "n": 3}, stop_reason="answer")
    assert made == {"messages": messages, "n": 3}
    assert (list(made), made["n"], isinstance(made, dict)) == (["messages", "n"], 3, True)
    assert json.dumps(AgentResult({"n": 1}, stop_reason="answer")) == '{"n": 1}'


def test_what_the_run_says_of_itself():
    asked = (Interrupt("sure?", "i1"),)
    made = result(stop_reason="interrupted", usage={"total_tokens": 3}, cost=0.5, interrupts=asked)
    assert (made.stop_reason, made.usage, made.cost, made.interrupts) == (
        "interrupted",
        {"total_tokens": 3},
        0.5,
        asked,
    )
    bare = result()
    assert (bare.usage, bare.cost, bare.interrupts) == ({}, None, ())


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_it_pickles_with_its_attributes(protocol):
    made = result(AIMessage("ok"), stop_reason="answer", usage={"total_tokens": 3}, cost=1.0)
    again = pickle.loads(pickle.dumps(made, protocol))
    assert (type(again), again, again.usage, again.text) == (AgentResult, made, {"total_tokens": 3}, "ok")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, AgentResult.copy])
def test_it_copies_with_its_attributes(copied):
    made = result(AIMessage("ok"), cost=1.0)
    again = copied(made)
    again["new"] = 1
    assert (type(again), again.cost, again["messages"], "new" in made) == (AgentResult, 1.0, made["messages"], False)


# -- final and text -------------------------------------------------------------------------------------------------


def test_an_answer():
    answer = AIMessage("ok")
    made = result(AIMessage("", tool_calls=[CALL]), ToolMessage("sunny", tool_call_id="c1"), answer)
    assert (made.final, made.text) == (answer, "ok")


def test_the_answer_of_an_earlier_turn_is_not_this_runs():
    earlier = [HumanMessage("1"), AIMessage("old answer")]
    stopped = [ASK, notice("tokens", "stopped")]
    made = AgentResult({"messages": [*earlier, *stopped]}, stop_reason="tokens")
    assert (made.final, made.text) == (None, "stopped")


def test_a_notice_is_never_the_models_answer():
    made = result(
        AIMessage("let me see", tool_calls=[CALL]), notice("model_calls", "stopped"), stop_reason="model_calls"
    )
    assert (made.final, made.text) == (None, "stopped")


def test_words_after_the_answer_from_a_hook_are_the_last_word():
    made = result(AIMessage("ok"), AIMessage("bye"))
    assert made.text == "bye"
    followed = result(AIMessage("ok"), SystemMessage("note"))
    assert followed.text == "ok"


def test_a_direct_result():
    messages = AIMessage("", tool_calls=[CALL]), ToolMessage("sunny", tool_call_id="c1")
    made = result(*messages, stop_reason="return_direct")
    assert (made.final, made.text) == (None, "sunny")
    assert result(*messages, stop_reason="return_direct", said="the direct one").text == "the direct one"


def test_a_structured_answer_by_tool():
    closed = ToolMessage("accepted", tool_call_id="c1")
    messages = AIMessage("", tool_calls=[{**CALL, "id": "c0"}, CALL]), closed
    made = result(*messages, stop_reason="structured_answer")
    assert (made.final, made.text) == (messages[0], '{"city": "Köln"}')
    beside = result(*messages, ToolMessage("seen", tool_call_id="c0"), stop_reason="structured_answer")
    assert (beside.final, beside.text) == (messages[0], '{"city": "Köln"}')
    orphaned = AgentResult({"messages": [closed]}, stop_reason="structured_answer")
    assert orphaned.text == "accepted"
    by_other_calls = result(AIMessage("", tool_calls=[{**CALL, "id": "c9"}]), closed, stop_reason="structured_answer")
    assert (by_other_calls.final, by_other_calls.text) == (None, "accepted")


def test_a_structured_answer_by_provider():
    answer = AIMessage('{"city": "Oslo"}')
    made = result(answer, stop_reason="structured_answer")
    assert (made.final, made.text) == (answer, '{"city": "Oslo"}')


@pytest.mark.parametrize("reason", ["malformed_turn", "empty_turn"])
def test_B06_a_turn_that_says_nothing_is_no_answer(reason):
    made = result(AIMessage("", response_metadata={"finish_reason": "error"}), stop_reason=reason)
    assert (made.final, made.text) == (None, "")


def test_calls_that_did_not_parse_are_no_answer():
    bad = {"name": "look", "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}
    assert result(AIMessage("", invalid_tool_calls=[bad])).final is None


def test_without_messages():
    made = AgentResult({"n": 1}, stop_reason="answer")
    assert (made.final, made.text) == (None, "")
    assert AgentResult({"messages": None}, stop_reason="answer").text == ""


# -- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("content", r"result\.text for the text of the answer"),
        ("output", r"result\.final for its message"),
        ("tool_calls", "The calls are in the messages"),
        ("usage_metadata", r"Write result\.usage"),
        ("structured_response", "only with response_format"),
        ("messages", r"write result\['messages'\]"),
        ("nonsense", r"'messages'\), with the attributes final, text, usage"),
    ],
)
def test_attributes_that_are_expected_show_what_to_write(name, words):
    with pytest.raises(AttributeError, match=words):
        getattr(result(), name)


def test_a_key_that_output_keys_left_out():
    with pytest.raises(AttributeError, match="output_keys"):
        _ = AgentResult({}, stop_reason="answer").messages  # type: ignore[attr-defined]


def test_private_names_are_plainly_missing():
    assert not hasattr(result(), "_repr_html_")
    assert not hasattr(AgentResult.__new__(AgentResult), "_report")


# -- stop reasons ---------------------------------------------------------------------------------------------------


def test_every_stop_reason_is_explained_where_it_is_listed():
    from loopwright.agents import stop

    explained = [line.split()[0] for line in (stop.__doc__ or "").splitlines() if line.startswith("    ")]
    assert explained == list(STOP_REASONS)


def test_notices_and_reminders_are_known_after_a_round_trip():
    made, asked = notice("tokens", "stopped", id="n1"), reminder("please")
    assert (made.id, made.text, is_notice(made), is_notice(AIMessage("stopped")), is_notice(asked)) == (
        "n1",
        "stopped",
        True,
        False,
        False,
    )
    assert (is_reminder(asked), is_reminder(HumanMessage("please")), is_reminder(made)) == (True, False, False)
    assert is_notice(pickle.loads(pickle.dumps(made)))
