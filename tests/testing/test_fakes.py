"""The fake models that tutorials use."""

from __future__ import annotations

from loopwright.messages import AIMessage
from loopwright.testing import FakeListChatModel, FakeMessagesListChatModel, GenericFakeChatModel
from tests.models.worlds import Blocking, both_worlds


@both_worlds
def test_a_list_of_texts_goes_round_and_streams_by_letter(world: Blocking) -> None:
    model = FakeListChatModel(responses=["ab", "c"])
    assert [world.invoke(model, "hi").content for _ in range(3)] == ["ab", "c", "ab"]
    assert [piece.content for piece in world.stream(model, "hi")] == ["c"]
    assert [piece.content for piece in world.stream(model, "hi")] == ["a", "b"]


@both_worlds
def test_a_list_of_messages_goes_round(world: Blocking) -> None:
    model = FakeMessagesListChatModel(responses=[AIMessage("a"), AIMessage("b")])
    assert [world.invoke(model, "hi").content for _ in range(3)] == ["a", "b", "a"]


@both_worlds
def test_an_iterator_of_messages_streams_by_word(world: Blocking) -> None:
    called = AIMessage("", tool_calls=[{"name": "f", "args": {}, "id": "1"}])
    model = GenericFakeChatModel(messages=iter(["hello there", AIMessage("hello there"), called]))
    assert world.invoke(model, "hi").content == "hello there"
    assert [piece.content for piece in world.stream(model, "hi")] == ["hello", " ", "there"]
    assert world.stream(model, "hi")[0].tool_calls[0]["name"] == "f"
