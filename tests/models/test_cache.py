"""Answers remembered."""

from __future__ import annotations

from typing import Any

from loopwright.models import InMemoryCache
from loopwright.testing import ScriptedModel, say
from tests.models.worlds import Blocking, both_worlds


@both_worlds
def test_the_same_question_is_asked_once(world: Blocking) -> None:
    model = ScriptedModel(say("one", usage=(3, 4)), "two", "three", cache=InMemoryCache())
    first, again = world.invoke(model, "hi"), world.invoke(model, [("human", "hi")])
    assert (again.text, again.usage_metadata, again.response_metadata["cache_hit"]) == ("one", None, True)
    assert again.id != first.id
    assert world.invoke(model, "hi", temperature=1).text == "two"
    assert world.invoke(model, "other").text == "three"
    assert [piece.content for piece in world.stream(model, "other")] == ["three"]
    assert len(model.requests) == 3


def test_only_the_last_used_are_kept() -> None:
    cache = InMemoryCache(maxsize=2)
    model = ScriptedModel("a", "b", "c", "b again", cache=cache)
    for text in ("1", "2", "1", "3", "1", "2"):
        model.invoke(text)
    assert [request.messages[0].content for request in model.requests] == ["1", "2", "3", "2"]
    cache.clear()
    assert cache.lookup("x", "y") is None


def test_true_means_one_cache_for_the_process() -> None:
    fields: Any = {"cache": True, "name": "shared by name alone"}
    ScriptedModel("one", **fields).invoke("unique question of this test")
    assert ScriptedModel("never", **fields).invoke("unique question of this test").text == "one"


@both_worlds
def test_a_cache_of_ones_own(world: Blocking) -> None:
    class Mine:
        def __init__(self) -> None:
            self.known: dict[Any, Any] = {}

        def lookup(self, prompt: str, llm_string: str) -> Any:
            return self.known.get((prompt, llm_string))

        def update(self, prompt: str, llm_string: str, return_val: Any) -> None:
            self.known[prompt, llm_string] = return_val

    class MineAsync(Mine):
        async def alookup(self, prompt: str, llm_string: str) -> Any:
            return self.lookup(prompt, llm_string)

        async def aupdate(self, prompt: str, llm_string: str, return_val: Any) -> None:
            self.update(prompt, llm_string, return_val)

    for cache in (Mine(), MineAsync()):
        model = ScriptedModel("one", "two", cache=cache)
        assert [world.invoke(model, "hi").text for _ in range(2)] == ["one", "one"]
