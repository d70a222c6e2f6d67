from __future__ import annotations

import copy
import json
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.messages import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    History,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    add_messages,
)

A, B = HumanMessage("a", id="1"), AIMessage("b", id="2")


def remove(id: str) -> RemoveMessage:
    return RemoveMessage(id=id)


# --- the reducer --------------------------------------------------------------


def test_append_replace_remove() -> None:
    assert add_messages([A], [B]) == [A, B]
    assert add_messages([A, B], [HumanMessage("a2", id="1")]) == [HumanMessage("a2", id="1"), B]
    assert add_messages([A], B) == [A, B]
    assert add_messages([A, B], [remove("1")]) == [B]
    assert add_messages([A, B], [remove("1"), HumanMessage("new", id="1")]) == [HumanMessage("new", id="1"), B]
    assert add_messages([A], [B, remove("2")]) == [A]


def test_removing_what_nobody_has_is_an_error_that_names_it() -> None:
    with pytest.raises(InvalidUpdateError, match=r"RemoveMessage\(id='9'\): no message has this id \(there are '1'\)"):
        add_messages([A], [remove("9")])
    with pytest.raises(ValueError, match="the history is empty"):
        add_messages([], [remove("9")])
    many = [HumanMessage("x", id=str(number)) for number in range(10)]
    with pytest.raises(InvalidUpdateError, match="the last are '5', '6', '7', '8', '9'"):
        add_messages(many, remove("x"))


def test_anything_that_is_a_message_may_be_added() -> None:
    history = add_messages("hi", [("ai", "a"), {"role": "user", "content": "b"}])
    assert [(message.type, message.content) for message in history] == [("human", "hi"), ("ai", "a"), ("human", "b")]
    assert add_messages(None, [A]) == [A]
    assert add_messages([A], None) == [A]
    assert add_messages([A], []) == [A]


def test_every_message_gets_an_id_and_nothing_given_changes() -> None:
    message, left = HumanMessage("a"), [HumanMessage("l")]
    history = add_messages(left, [message, message])
    ids = [message.id for message in history]
    assert len(set(ids)) == 3
    assert None not in ids
    assert message.id is None
    assert left == [HumanMessage("l")]


def test_chunks_become_messages() -> None:
    [message] = add_messages([], [AIMessageChunk("a", id="1")])
    assert message == AIMessage("a", id="1")
    assert type(add_messages([AIMessageChunk("a")], [])[0]) is AIMessage


def test_B102_duplicate_ids_in_one_update() -> None:
    assert add_messages([], [AIMessage("x", id="1"), AIMessage("y", id="1")]) == [AIMessage("y", id="1")]


def test_B102_after_remove_all() -> None:
    update = [
        remove(REMOVE_ALL_MESSAGES),
        AIMessage("first", id="1"),
        AIMessage("replacement", id="1"),
        remove("2"),
    ]
    assert add_messages([HumanMessage("old", id="2")], update) == [AIMessage("replacement", id="1")]
    assert add_messages([], update) == [AIMessage("replacement", id="1")]
    assert add_messages([A, B], [AIMessage("x", id="3"), remove(REMOVE_ALL_MESSAGES)]) == []


def test_contents_in_openais_form() -> None:
    reducer = add_messages(format="langchain-openai")
    [plain, image] = reducer([], [HumanMessage("a"), HumanMessage([{"type": "image", "url": "u"}])])
    assert plain.content == "a"
    assert image.content == [{"type": "image_url", "image_url": {"url": "u"}}]


def test_calls_that_cannot_work_say_so() -> None:
    with pytest.raises(UsageError, match=r"write add_messages\(left, right\)"):
        add_messages([A])  # type: ignore
    with pytest.raises(UsageError, match="format is"):
        add_messages([A], [B], format="openai")  # type: ignore
    with pytest.raises(UsageError, match=r"messages\[0\]: 'wizard' is not a role"):
        add_messages([A], [("wizard", "x")])


ids = st.sampled_from("abcde")
updates = st.lists(
    st.one_of(
        st.builds(lambda name, text: HumanMessage(text, id=name), ids, st.text(max_size=2)),
        st.builds(lambda name: RemoveMessage(id=name), ids),
        st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES)),
    ),
    max_size=4,
)


def plainly(left: list[BaseMessage], right: list[BaseMessage]) -> list[BaseMessage] | None:
    """The rules once more, slow and obvious; None where a removal has nothing to remove."""
    result, emptied = list(left), False
    for message in right:
        places = [at for at, other in enumerate(result) if other.id == message.id]
        if message.id == REMOVE_ALL_MESSAGES:
            result, emptied = [], True
        elif message.type == "remove":
            if not places and not emptied:
                return None
            # A removed message keeps its place for one that replaces it in the same update.
            result = [other if other.id != message.id else RemoveMessage(id=str(message.id)) for other in result]
        elif places:
            result[places[0]] = message
        else:
            result.append(message)
    return [message for message in result if message.type != "remove"]


@given(st.lists(updates, max_size=5))
def test_the_rules_hold_update_after_update(rounds: list[list[BaseMessage]]) -> None:
    history: list[BaseMessage] = []
    for update in rounds:
        expected = plainly(history, update)
        if expected is None:
            with pytest.raises(InvalidUpdateError):
                add_messages(history, update)
            return
        added = add_messages(history, update)
        assert added == expected
        assert added == add_messages(list(history), update)
        buffer = added.buffer
        assert buffer.items[: len(added)] == added
        assert all(buffer.items[at].id == id for id, at in buffer.index.items())
        history = added


# --- the list -----------------------------------------------------------------


def test_a_history_is_a_list() -> None:
    history = add_messages([A], [B])
    assert isinstance(history, list)
    assert history == [A, B]
    assert [*history, A] == [A, B, A]
    assert history[-1] is B
    assert history[:1] == [A]
    assert json.loads(json.dumps([message.model_dump() for message in history]))[0]["content"] == "a"


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda h: pickle.loads(pickle.dumps(h)), lambda h: h.copy()]
)
def test_copies_are_histories(copied: Any) -> None:
    history = add_messages([A], [B])
    other = copied(history)
    assert type(other) is History
    assert other == history
    assert add_messages(other, [AIMessage("c", id="3")])[-1].id == "3"


def test_versions_share_a_buffer() -> None:
    """A saver stores `buffer.items[stored:len(history)]` as long as the buffer is the same."""
    first = add_messages([], [A])
    second = add_messages(first, [B])
    assert second.buffer is first.buffer
    assert second.buffer.items == [A, B]
    assert second.buffer.index == {"1": 0, "2": 1}
    assert first == [A]


def test_appending_to_an_older_version_forks() -> None:
    first = add_messages([], [A])
    second = add_messages(first, [B])
    other = add_messages(first, [AIMessage("other", id="2")])
    assert other == [A, AIMessage("other", id="2")]
    assert other.buffer is not first.buffer
    assert second == [A, B]
    assert second.buffer.items == [A, B]
    third = add_messages(first, [AIMessage("third", id="3")])
    assert third.buffer is not second.buffer
    assert third == [A, AIMessage("third", id="3")]


def test_replacing_and_removing_begin_a_buffer() -> None:
    first = add_messages([], [A, B])
    for update in ([HumanMessage("a2", id="1")], [remove("1")]):
        changed = add_messages(first, update)
        assert changed.buffer is not first.buffer
        assert changed.buffer.items == changed
        assert first.buffer.items == [A, B]


def test_a_version_of_a_buffer() -> None:
    buffer = add_messages([], [A, B]).buffer
    assert History.of(buffer, 1) == [A]
    assert History.of(buffer, 2).buffer is buffer
    assert add_messages(History.of(buffer, 2), AIMessage("c", id="3")).buffer is buffer


def test_a_history_of_its_own() -> None:
    history = History([A, B])
    assert history.buffer.items == [A, B]
    assert history.buffer is history.buffer
    assert add_messages(History([HumanMessage("no id")]), [])[0].id is not None


C = AIMessage("c", id="3")

CHANGES: dict[str, Any] = {
    "append": lambda h: h.append(C),
    "extend": lambda h: h.extend([C]),
    "insert": lambda h: h.insert(0, C),
    "pop": lambda h: h.pop(),
    "remove": lambda h: h.remove(A),
    "clear": lambda h: h.clear(),
    "reverse": lambda h: h.reverse(),
    "sort": lambda h: h.sort(key=lambda m: m.content, reverse=True),
    "set": lambda h: h.__setitem__(0, C),
    "delete": lambda h: h.__delitem__(0),
    "+=": lambda h: h.__iadd__([C]),
    "*=": lambda h: h.__imul__(1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changing_in_place_cuts_off_from_the_buffer(change: Any) -> None:
    history = add_messages([], [A, B])
    buffer, same = history.buffer, [A, B]
    change(history)
    change(same)
    assert history == same
    assert history.buffer is not buffer
    assert buffer.items == [A, B]
    added = add_messages(history, [HumanMessage("last", id="9")])
    assert added == [*same, HumanMessage("last", id="9")]


def test_two_runs_that_go_on_from_one_version_do_not_mix() -> None:
    first = add_messages([], [HumanMessage(str(n), id=str(n)) for n in range(50)])
    results: list[list[BaseMessage]] = []
    start = threading.Barrier(4)

    def grow(name: str) -> None:
        start.wait()
        history = first
        for number in range(50):
            history = add_messages(history, [AIMessage(name, id=f"{name}{number}")])
        results.append(history)

    threads = [threading.Thread(target=grow, args=(name,)) for name in "wxyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted({message.text for message in history[50:]} == {history[-1].text} for history in results) == [True] * 4
    assert [len(history) for history in results] == [100] * 4


def test_tools_and_system_messages_are_added_too() -> None:
    history = add_messages([SystemMessage("s")], [AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "c"}])])
    assert [message.type for message in add_messages(history, ToolMessage("r", tool_call_id="c"))] == [
        "system",
        "ai",
        "tool",
    ]
