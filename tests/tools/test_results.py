"""What a tool returned, as what the model reads."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import uuid
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loopwright.errors import InvalidUpdateError
from loopwright.messages import REMOVE_ALL_MESSAGES, AIMessage, HumanMessage, RemoveMessage, ToolMessage
from loopwright.tools import tool
from loopwright.tools.content import content_of, cut
from loopwright.types import Command
from tests.tools.worlds import answer, both_worlds, call

# --- content ------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


class P(BaseModel):
    a: int = 1
    when: dt.date = dt.date(2026, 1, 2)


class Odd(BaseModel, arbitrary_types_allowed=True):
    a: int
    inner: object
    _private: int = 3


@dataclasses.dataclass
class D:
    a: int = 1
    point: Any = None


class Pair(NamedTuple):
    a: int
    b: int


class S(msgspec.Struct):
    a: int


class Plain:
    def __str__(self):
        return "plainly"


class Array:
    """What numpy's arrays and numbers look like."""

    dtype = "int64"

    def tolist(self):
        return [1, 2]


MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ODD_KEYS = {(1, 2): 1, None: 2, True: 3, 1.5: 4, Color.RED: 5, dt.date(2026, 1, 2): 6}
VALUES = [
    ({"key": "val", "n": None, "ü": "日本"}, '{"key": "val", "n": null, "ü": "日本"}'),
    ([1, "a", None, True, 2.5], '[1, "a", null, true, 2.5]'),
    ((1, 2), "[1, 2]"),
    (Pair(1, 2), "[1, 2]"),
    ({3, 1, 2}, "[1, 2, 3]"),
    ({1, "a"}, '["a", 1]'),
    (frozenset(["b", "a"]), '["a", "b"]'),
    (b"hi", "hi"),
    (b"\xff\x00", "[2 bytes, base64] /wA="),
    ([bytearray(b"hi"), memoryview(b"ho")], '["hi", "ho"]'),
    (decimal.Decimal("1.10"), "1.10"),
    (MOMENT, "2026-01-02T03:04:05Z"),
    ([MOMENT.date(), MOMENT.time(), dt.timedelta(hours=1)], '["2026-01-02", "03:04:05", "PT3600S"]'),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (Color.RED, "red"),
    (Word.A, "a"),
    ([Number.ONE, Color.RED], '[1, "red"]'),
    (D(point=D()), '{"a": 1, "point": {"a": 1, "point": null}}'),
    (P(), '{"a": 1, "when": "2026-01-02"}'),
    (Odd(a=1, inner=Plain()), '{"a": 1, "inner": "plainly"}'),
    (S(a=1), '{"a": 1}'),
    (AIMessage("said"), "said"),
    (None, "null"),
    (3, "3"),
    (2.5, "2.5"),
    (True, "true"),
    ("", ""),
    (Plain(), "plainly"),
    ({"x": Plain(), "y": [object]}, '{"x": "plainly", "y": ["<class \'object\'>"]}'),
    (ValueError("bad"), "ValueError: bad"),
    (range(3), "[0, 1, 2]"),
    (collections.deque([1]), "[1]"),
    ({"a": 1}.keys(), '["a"]'),
    (collections.UserDict(a=1), '{"a": 1}'),
    (Array(), "[1, 2]"),
    ([float("nan"), float("inf"), 1.5], "[null, null, 1.5]"),
    (ODD_KEYS, '{"(1, 2)": 1, "null": 2, "true": 3, "1.5": 4, "red": 5, "2026-01-02": 6}'),
    ({"d": decimal.Decimal("NaN"), (1,): {2}}, '{"d": "NaN", "(1,)": [2]}'),
]


@pytest.mark.parametrize(("value", "content"), VALUES, ids=lambda value: type(value).__name__)
def test_B94_values_become_json(value, content):
    """Never Python's repr, no escapes; words without quotes where the whole is one word."""
    assert content_of(value) == content


def test_values_that_contain_themselves():
    circle: dict[str, Any] = {"a": 1}
    circle["self"] = [circle]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert content_of(circle) == '{"a": 1, "self": ["[circular]"]}'
    assert answer(lambda_tool(deep)).status == "error"


def lambda_tool(value: Any):
    @tool
    def give() -> Any:
        """Give."""
        return value

    return give


class Stubborn:
    def __str__(self):
        raise RuntimeError("no words")


def test_a_value_that_cannot_even_be_text():
    assert answer(lambda_tool(Stubborn())).content == "Tool 'give' failed: RuntimeError: no words"


def test_text_that_cannot_be_sent():
    """Half a surrogate pair, as `os.listdir` gives for names that are no Unicode."""
    assert content_of("a\udcffü") == "a?ü"
    assert content_of(["\udcff"]) == '["?"]'
    assert answer(lambda_tool("\udcff")).content == "?"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_plain_data_can_be_read_back(value):
    """Whatever is no text itself is JSON, or the text that its JSON says."""
    content = content_of([value])
    assert isinstance(content, str)
    again = json.loads(content)
    if "NaN" not in repr(value) and "nan" not in repr(value) and "inf" not in repr(value) and content.isascii():
        assert again == [value]


# --- content blocks -----------------------------------------------------------


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": "a"}],
        [{"type": "text", "text": "a"}, {"type": "image", "base64": "eA==", "mime_type": "image/png"}],
        ["words", {"type": "image_url", "image_url": {"url": "x"}}],
        [{"type": "file", "file_id": "f"}],
    ],
)
def test_content_blocks_stay_blocks(blocks):
    assert content_of(blocks) == content_of(tuple(blocks)) == blocks
    assert answer(lambda_tool(blocks)).content == blocks


def test_a_picture_alone_is_a_block():
    picture = {"type": "image", "url": "x"}
    assert content_of(picture) == [picture]


@pytest.mark.parametrize(
    "value",
    [
        [],
        ["a", "b"],
        [{"type": "text"}],
        [{"type": "text", "text": "a"}, 3],
        [{"type": "train", "text": "a"}],
        [{"type": 3}],
        {"type": "text", "text": "a"},
        {"type": "image", "width": 3},
    ],
)
def test_data_that_only_looks_like_blocks_is_json(value):
    content: Any = content_of(value)
    assert json.loads(content) == value


# --- size ---------------------------------------------------------------------


def test_long_results_are_cut_with_a_note():
    @tool(max_result_chars=5)
    def give(text: str) -> str:
        """Give."""
        return text

    @tool(max_result_chars=None)
    def all_of_it(text: str) -> str:
        """All of it."""
        return text

    assert answer(give, {"text": "12345"}).content == "12345"
    assert answer(give, {"text": "1234567"}).content == "12345\n[cut here: 2 of 7 characters are not shown]"
    assert answer(all_of_it, {"text": "x" * 200_000}).content == "x" * 200_000
    assert len(answer(lambda_tool("x" * 200_000)).content) == 100_000 + len(
        "\n[cut here: 100,000 of 200,000 characters are not shown]"
    )


def test_long_errors_and_own_messages_are_cut():
    @tool(max_result_chars=5)
    def give(fail: bool) -> Any:
        """Give."""
        if fail:
            raise ValueError("x" * 100)
        return ToolMessage("1234567", tool_call_id="")

    assert answer(give, {"fail": True}).content.startswith("Tool \n[cut here")
    assert answer(give, {"fail": False}).content == "12345\n[cut here: 2 of 7 characters are not shown]"


def test_blocks_are_cut_by_their_text():
    picture = {"type": "image", "url": "x" * 50}
    blocks = [{"type": "text", "text": "123"}, picture, "4567", {"type": "text", "text": "8"}, {"type": "text"}]
    note = "\n[cut here: {} of {} characters are not shown]"
    assert cut(blocks, 8) is blocks
    assert cut(blocks, 5) == [
        blocks[0], picture, "45" + note.format(2, 4), {"type": "text", "text": note.format(1, 1)}, blocks[4],
    ]  # fmt: skip


# --- messages of the tool's own -----------------------------------------------


@both_worlds
def test_a_message_of_the_tools_own(world):
    """It is used as it is; what it leaves out is filled in."""

    @tool
    def own(id: str) -> ToolMessage:
        """Own."""
        return ToolMessage("mine", tool_call_id=id, artifact={"k": 1}, status="error")

    for id in ("c1", ""):
        message = answer(own, {"id": id}, world)
        assert (message.content, message.tool_call_id, message.name) == ("mine", "c1", "own")
        assert (message.artifact, message.status, bool(message.id)) == ({"k": 1}, "error", True)
    complete = ToolMessage("mine", tool_call_id="c1", name="x", id="m1")
    assert answer(lambda_tool(complete), {}, world) is complete


@both_worlds
def test_B97_a_message_for_a_siblings_call(world):
    """The error names both ids, and it answers the call that was made."""

    @tool
    def own() -> ToolMessage:
        """Own."""
        return ToolMessage("mine", tool_call_id="c2")

    message = answer(own, {}, world)
    assert (message.status, message.tool_call_id) == ("error", "c1")
    assert "answered call 'c2' and was asked by call 'c1'" in message.content
    with pytest.raises(InvalidUpdateError):
        answer(own, {}, world, handle_errors=False)


def test_content_and_artifact():
    @tool(response_format="content_and_artifact")
    def give(kind: str) -> Any:
        """Give."""
        whole = ToolMessage("own", tool_call_id="")
        kinds = {"pair": ({"n": 1}, [2]), "text": "x", "three": (1, 2, 3), "own": whole, "command": Command(goto="x")}
        return kinds[kind]

    message = answer(give, {"kind": "pair"})
    assert (message.content, message.artifact, message.status) == ('{"n": 1}', [2], "success")
    assert answer(give, {"kind": "own"}).content == "own"
    for kind in ("text", "three"):
        assert "must return a tuple of two" in answer(give, {"kind": kind}).content
        with pytest.raises(InvalidUpdateError, match="must return a tuple of two"):
            give.invoke({"kind": kind})
    assert give.invoke({"kind": "pair"}) == {"n": 1}
    assert give.invoke(call("give", {"kind": "pair"})).artifact == [2]
    assert give.invoke({"kind": "own"}).content == "own"
    assert give.invoke({"kind": "command"}) == Command(goto="x")


# --- commands -----------------------------------------------------------------


def closing(**fields):
    return ToolMessage("done", tool_call_id="c1", **fields)


@pytest.mark.parametrize(
    "update",
    [
        {"messages": [closing()], "mood": "merry"},
        {"messages": [{"role": "tool", "content": "done", "tool_call_id": "c1"}], "mood": "merry"},
        {"messages": [{"type": "tool", "content": "done"}], "mood": "merry"},
        {"messages": closing(), "mood": "merry"},
        [("mood", "merry"), ("messages", [closing()])],
        [["messages", (closing(),)], ("mood", "merry")],
    ],
)
def test_B96_a_command_with_its_answer(update):
    """Three shapes of the answer, two of the update. The answer is made complete; the rest is as it was."""
    command = answer(lambda_tool(Command(update=update, goto="next")))
    given = dict(command.update)
    (message,) = given["messages"]
    assert (message.content, message.tool_call_id, message.name, bool(message.id)) == ("done", "c1", "give", True)
    assert (given["mood"], command.goto) == ("merry", "next")


def test_B96_an_update_that_is_a_list_of_messages():
    command = answer(lambda_tool(Command(update=[HumanMessage("note"), {"role": "tool", "content": "done"}])))
    assert [message.content for message in command.update["messages"]] == ["note", "done"]


def test_B96_lists_of_commands():
    """One answer among all of them."""
    parts = answer(lambda_tool([Command(update={"a": 1}), Command(update={"messages": [closing()]})]))
    assert (parts[0].update, parts[1].update["messages"][0].name) == ({"a": 1}, "give")
    parts = answer(lambda_tool((Command(update={"a": 1}), closing())))
    assert (parts[0].update, parts[1].name) == ({"a": 1}, "give")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Command(update={"mood": "merry"}), "has no ToolMessage for call 'c1'"),
        (Command(update={"messages": [ToolMessage("x", tool_call_id="c2")]}), "has no ToolMessage"),
        (Command(update={"messages": [HumanMessage("x"), {"role": "user", "content": "x"}]}), "has no ToolMessage"),
        (Command(goto="x"), "has no ToolMessage"),
        (Command(update=[("mood", "merry")]), "has no ToolMessage"),
        (Command(update={"messages": [RemoveMessage(id="m1")]}), "has no ToolMessage"),
        (Command(update={"messages": [closing(), closing()]}), "has 2 ToolMessages"),
        ([Command(update={"messages": [closing()]}), closing()], "has 2 ToolMessages"),
        ([Command(update={"messages": [closing()]}), "text"], "a list of commands with str in it"),
    ],
)
def test_B96_none_or_two_answers(value, words):
    """An error result, so that the history stays valid; the words say what to return."""
    message = answer(lambda_tool(value))
    assert (message.status, message.tool_call_id) == ("error", "c1")
    assert words in message.content
    with pytest.raises(InvalidUpdateError, match="Tool 'give' returned"):
        answer(lambda_tool(value), handle_errors=False)


@pytest.mark.parametrize(
    "command",
    [
        Command(graph=Command.PARENT, goto="other", update={"messages": []}),
        Command(update={"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}),
    ],
)
def test_commands_that_need_no_answer(command):
    """One for the graph around, and one that takes the call itself out of the history."""
    assert answer(lambda_tool(command)) is command


def test_a_command_of_another_library():
    @dataclasses.dataclass(frozen=True)
    class Foreign:
        update: Any
        graph: Any = None
        goto: Any = ()

    made = answer(lambda_tool(Foreign({"messages": [closing()]})))
    assert (type(made), made.update["messages"][0].name) == (Foreign, "give")


def test_long_answers_in_commands_are_cut():
    @tool(max_result_chars=3)
    def give() -> Command:
        """Give."""
        return Command(update={"messages": [closing()]})

    assert answer(give).update["messages"][0].content.startswith("don\n[cut here")
