"""Configs: copied, never changed, and joined by the rule of each key."""

from __future__ import annotations

import contextvars
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.scope import current_scope, ensure_config, merge_configs

configs: Any = st.fixed_dictionaries(
    {},
    optional={
        "tags": st.none() | st.lists(st.sampled_from("abc"), max_size=3, unique=True),
        "metadata": st.none() | st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=2),
        "configurable": st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=2),
        "recursion_limit": st.none() | st.integers(1, 9),
        "run_name": st.text(max_size=2),
        "callbacks": st.none() | st.lists(st.integers(), max_size=2) | st.integers() | st.tuples(st.integers()),
    },
)


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_config_is_an_empty_one(nothing):
    assert ensure_config(nothing) == {}
    assert merge_configs(nothing, nothing) == {}
    assert merge_configs() == {}


def test_a_config_is_copied_to_work_on():
    given_: Any = {"tags": ["a"]}
    own = ensure_config(given_)
    own["run_name"] = "mine"
    assert given_ == {"tags": ["a"]}


def test_later_configs_win_and_some_keys_are_joined():
    merged = merge_configs(
        {"tags": ["a", "b"], "metadata": {"x": 1, "y": 1}, "recursion_limit": 3, "callbacks": "one"},
        None,
        {"tags": ["b", "c"], "metadata": {"y": 2}, "recursion_limit": 5, "callbacks": ("two",), "run_name": None},
        {"configurable": {"thread_id": "1"}, "metadata": None},
    )
    assert merged == {
        "tags": ["a", "b", "c"],
        "metadata": {"x": 1, "y": 2},
        "recursion_limit": 5,
        "callbacks": ["one", "two"],
        "configurable": {"thread_id": "1"},
    }


@given(st.lists(configs, max_size=3))
def test_B49_merging_changes_no_config(several):
    before = copy.deepcopy(several)
    merged: Any = merge_configs(*several)
    assert several == before
    assert all(value is not None for value in merged.values())
    for key in ("recursion_limit", "run_name"):
        said = [config[key] for config in several if config.get(key) is not None]
        assert merged.get(key) == (said[-1] if said else None)
    for key in ("metadata", "configurable"):
        expected: dict[str, Any] = {}
        for config in several:
            expected.update(config.get(key) or {})
        assert merged.get(key, {}) == expected
    assert set(merged.get("tags", [])) == {tag for config in several for tag in config.get("tags") or ()}


@given(configs, configs, configs)
def test_merging_two_and_two_is_merging_all(a, b, c):
    def form(config: Any) -> Any:
        callbacks = config.get("callbacks", [])
        return {**config, "callbacks": list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]}

    assert form(merge_configs(merge_configs(a, b), c)) == form(merge_configs(a, b, c))
    assert form(merge_configs(a, merge_configs(b, c))) == form(merge_configs(a, b, c))


def test_there_is_no_scope_outside_of_a_run():
    assert contextvars.Context().run(current_scope.get) is None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tags": "x"}, r"config\['tags'\] is a list of texts; got 'x'. Write config=\{'tags': \[\"tag\"\]\}"),
        ({"metadata": ["a"]}, r"config\['metadata'\] is a dict; got \['a'\]"),
        ({"configurable": "t1"}, r"Write config=\{'configurable': \{\"thread_id\": \"1\"\}\}"),
        ({"callbacks": 5}, r"config\['callbacks'\] is a list of handlers; got 5"),
        ({"run_name": 5}, r"config\['run_name'\] is a text; got 5"),
    ],
    ids=str,
)
def test_values_of_a_config_have_their_form(config: Any, words: str):
    """At every door: agents, threads, models and tools."""
    from loopwright.agents import create_agent
    from loopwright.checkpoint.memory import InMemorySaver
    from loopwright.testing import ScriptedModel
    from loopwright.tools import tool

    @tool
    def act() -> str:
        """Act."""
        return "acted"

    model = ScriptedModel("hi")
    agent = create_agent(model, [act], checkpointer=InMemorySaver())
    doors: list[Any] = [
        lambda: agent.invoke({"messages": "hi"}, config),
        lambda: list(agent.stream({"messages": "hi"}, config)),
        lambda: agent.get_state(config),
        lambda: agent.with_config(config),
        lambda: agent.with_config(**config),
        lambda: model.invoke("hi", config),
        lambda: act.invoke({}, config),
    ]
    for door in doors:
        with pytest.raises(UsageError, match=words):
            door()


def test_none_says_nothing_in_a_config():
    nothing = dict.fromkeys(("tags", "metadata", "configurable", "callbacks", "run_name"))
    assert ensure_config(nothing) == nothing  # pyright: ignore[reportArgumentType]
