from __future__ import annotations

import copy
import pickle
import typing
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopwright.constants
import loopwright.types
from loopwright.errors import ModelConnectionError, ModelError, UsageError
from loopwright.graph import types as defined
from loopwright.graph.types import (
    Command,
    GraphOutput,
    Interrupt,
    Overwrite,
    PregelTask,
    RetryPolicy,
    Send,
    StateSnapshot,
    StateUpdate,
    default_retry_on,
)

VALUES = [
    Send("node", {"a": 1}),
    Command(update={"a": 1}, goto=[Send("x", 1), "y"], resume={"id": 1}, graph=Command.PARENT),
    Interrupt("ok?", "1"),
    Overwrite([1]),
    GraphOutput({"a": 1}, (Interrupt("?"),)),
    StateUpdate({"a": 1}, "node"),
    PregelTask("1", "node", ("a", 1)),
    StateSnapshot({}, ("a",), {}, None, None, None, (), ()),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_compare_pickle_and_copy(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert type(value).__name__ in repr(value)


@pytest.mark.parametrize("value", VALUES[:5], ids=lambda value: type(value).__name__)
def test_values_are_frozen_and_have_no_room_for_more(value):
    with pytest.raises(AttributeError):
        setattr(value, value.__struct_fields__[0], None)
    assert not hasattr(value, "__dict__")


def test_values_that_can_be_are_hashable():
    assert len({Send("a", 1), Send("a", 1), Interrupt("x", "1"), Command(goto="a")}) == 3


def test_a_command_shows_what_it_does_and_no_more():
    assert repr(Command(goto="a")) == "Command(goto='a')"
    assert Command.PARENT == "__parent__"
    with pytest.raises(TypeError):
        Command({"a": 1})  # pyright: ignore[reportCallIssue]


def test_a_command_may_name_its_targets_in_an_annotation():
    def node() -> Command[Literal["a", "b"]]:
        return Command(goto="a")

    (targets,) = typing.get_args(typing.get_type_hints(node)["return"])
    assert typing.get_args(targets) == ("a", "b")
    assert Command[Literal["a"]](goto="a") == Command(goto="a")


def test_named_tuples_unpack():
    values, following, *_, interrupts = VALUES[-1]

    assert (values, following, interrupts) == ({}, ("a",), ())


def test_doors_hand_on_what_is_defined():
    for name in loopwright.types.__all__:
        if name in defined.__all__:
            assert getattr(loopwright.types, name) is getattr(defined, name)
    assert loopwright.constants.START == "__start__"
    assert loopwright.constants.END == "__end__"
    assert loopwright.constants.TAG_NOSTREAM == "nostream"


class Answered(Exception):
    def __init__(self, status_code):
        self.response = type("Response", (), {"status_code": status_code})()


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ConnectionError(), True),
        (TimeoutError(), True),
        (ModelConnectionError("x"), True),
        (ModelError("x"), False),
        (ModelError("x", retryable=True), True),
        (Answered(500), True),
        (Answered(429), True),
        (Answered(408), True),
        (Answered(404), False),
        (Answered(None), True),
        (type("Odd", (Exception,), {})(), True),
        (ValueError(), False),
        (UsageError(), False),
        (KeyError(), False),
        (FileNotFoundError(), False),
        (KeyboardInterrupt(), False),
    ],
)
def test_what_is_worth_another_try(error, again):
    assert default_retry_on(error) is again
    assert RetryPolicy().allows(error, 1) is again


def test_a_policy_counts_the_first_try():
    assert RetryPolicy(max_attempts=2).allows(ConnectionError(), 1)
    assert not RetryPolicy(max_attempts=2).allows(ConnectionError(), 2)
    assert not RetryPolicy(max_attempts=1).allows(ConnectionError(), 1)


@pytest.mark.parametrize(
    "rule", [ValueError, (ValueError, KeyError), [ValueError], lambda error: isinstance(error, ValueError)]
)
def test_a_policy_takes_classes_or_a_function(rule):
    policy = RetryPolicy(retry_on=rule)

    assert policy.allows(ValueError(), 1)
    assert not policy.allows(ConnectionError(), 1)
    assert not policy.allows(KeyboardInterrupt(), 1)


def test_pauses_grow_to_their_bound():
    policy = RetryPolicy(initial_interval=1, backoff_factor=3, max_interval=10, max_attempts=9, jitter=False)

    assert [policy.pause_s(attempts) for attempts in (1, 2, 3, 4, 5)] == [1, 3, 9, 10, 10]


@given(st.floats(0, 1))
def test_jitter_lengthens_a_pause_by_up_to_a_second(random):
    assert 0.5 <= RetryPolicy().pause_s(1, random) <= 1.5


@pytest.mark.parametrize(
    "fields", [{"max_attempts": 0}, {"initial_interval": -1}, {"backoff_factor": 0.5}, {"max_interval": -1}]
)
def test_a_policy_that_means_nothing_is_refused(fields):
    with pytest.raises(UsageError, match="RetryPolicy"):
        RetryPolicy(**fields)
