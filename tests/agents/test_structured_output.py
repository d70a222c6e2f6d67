"""What is asked of a model for a structured answer, and what its reply amounts to."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, model_validator
from typing_extensions import TypedDict

from loopwright.agents.answers import MAX_REJECTED, AnswerPlan, Outcome, answer_strategy, plan_answers
from loopwright.agents.stop import is_reminder
from loopwright.agents.structured_output import (
    AutoStrategy,
    MissingStructuredOutputError,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
)
from loopwright.errors import LoopwrightError, UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage


class Person(BaseModel):
    """A person."""

    name: str
    age: int = Field(ge=0)


class Place(BaseModel):
    city: str


@dataclass
class Pet:
    """A pet."""

    kind: str
    legs: int = 4


class Car(TypedDict):
    """A car."""

    brand: str


FRUIT = {"title": "Fruit", "type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
ASK = HumanMessage("hi")


def call(name: str, args: Any, id: str = "c1") -> dict[str, Any]:
    return {"name": name, "args": args, "id": id, "type": "tool_call"}


def use(*calls: Any, **more: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls), **more)


def bad_call(name: str, id: str = "b1") -> dict[str, Any]:
    return {"name": name, "args": "{", "id": id, "error": None, "type": "invalid_tool_call"}


def plan(schema: Any, **options: Any) -> AnswerPlan:
    return AnswerPlan(ToolStrategy(schema, **options))


ann, bad_ann = call("Person", {"name": "Ann", "age": 3}), call("Person", {"name": "Ann", "age": -1})


# -- what is asked --------------------------------------------------------------------------------------------------


def test_an_answer_tool():
    made = plan(Person)
    assert made.tools == (
        {
            "type": "function",
            "function": {
                "name": "Person",
                "description": "A person.",
                "parameters": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
                    "required": ["name", "age"],
                },
            },
        },
    )
    assert (made.tool_choice, made.kwargs) == ("any", {})


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (Person | Place, ["Person", "Place"]),
        (Union[Person, Pet, Car], ["Person", "Pet", "Car"]),  # noqa: UP007
        ({"oneOf": [FRUIT, {**FRUIT, "title": "Berry"}]}, ["Fruit", "Berry"]),
        ({**FRUIT, "title": "Fruit of the day!"}, ["Fruit_of_the_day"]),
        ({**FRUIT, "title": "果物"}, ["answer"]),
    ],
)
def test_names_of_answer_tools(schema, names):
    assert [tool["function"]["name"] for tool in plan(schema).tools] == names


def test_a_schema_without_a_docstring_is_described_all_the_same():
    assert plan(Place).tools[0]["function"]["description"] == "Give the final answer in this form."


def test_the_providers_own_output():
    made = AnswerPlan(ProviderStrategy(Person, strict=True))
    form = made.kwargs["response_format"]
    assert (made.tools, made.tool_choice, form["type"]) == ((), None, "json_schema")
    inner = form["json_schema"]
    assert (inner["name"], inner["strict"], inner["description"], sorted(inner["schema"]["properties"])) == (
        "Person",
        True,
        "A person.",
        ["age", "name"],
    )
    assert set(AnswerPlan(ProviderStrategy(Place)).kwargs["response_format"]["json_schema"]) == {"name", "schema"}


def test_two_schemas_of_one_name_are_refused():
    with pytest.raises(UsageError, match="two schemas of response_format are named 'Fruit'"):
        plan({"oneOf": [FRUIT, FRUIT]})


def test_a_union_cannot_be_asked_of_a_provider():
    with pytest.raises(UsageError, match=r"not Person \| Place: use ToolStrategy"):
        AnswerPlan(ProviderStrategy(Person | Place))  # type: ignore[arg-type]


def test_an_answer_tool_may_not_have_the_name_of_a_tool():
    with pytest.raises(UsageError, match="both named 'Person'"):
        plan(Person).check_names(["weather", "Person"])
    plan(Person).check_names(["weather"])
    AnswerPlan(ProviderStrategy(Person)).check_names(["Person"])


@pytest.mark.parametrize("rule", [3, None, Person, KeyboardInterrupt, (ValueError, 3)])
def test_rules_for_errors_that_are_none(rule):
    with pytest.raises(UsageError, match="handle_errors="):
        ToolStrategy(Person, handle_errors=rule)


def test_a_strategy_takes_a_schema():
    with pytest.raises(UsageError, match="not another strategy"):
        ToolStrategy(ProviderStrategy(Person))
    assert (repr(ToolStrategy(Person)), repr(AutoStrategy(FRUIT))[:22]) == (
        "ToolStrategy(Person)",
        "AutoStrategy({'title':",
    )


# -- which strategy -------------------------------------------------------------------------------------------------


def kind_for(model: Any, schema: Any = Person) -> type:
    made = plan_answers(answer_strategy(schema), model)
    assert made is not None
    return type(made.strategy)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (SimpleNamespace(profile={"structured_output": True}), ProviderStrategy),
        (SimpleNamespace(profile={"structured_output": False}, model_name="gpt-4o"), ToolStrategy),
        (SimpleNamespace(profile={"tool_calling": True}), ToolStrategy),
        (SimpleNamespace(profile=None, model_name="gpt-4o-mini"), ProviderStrategy),
        (SimpleNamespace(model="openai/gpt-5"), ProviderStrategy),
        (SimpleNamespace(model="qwen3"), ToolStrategy),
        (SimpleNamespace(bound=SimpleNamespace(model_name="gpt-4.1")), ProviderStrategy),
        (object(), ToolStrategy),
    ],
)
def test_a_bare_schema_takes_what_suits_the_model(model, kind):
    assert kind_for(model) is kind


def test_a_union_is_always_asked_with_tools():
    assert kind_for(SimpleNamespace(model_name="gpt-4o"), Person | Place) is ToolStrategy


def test_a_plan_is_made_once():
    strategy = answer_strategy(Person)
    capable, other = SimpleNamespace(model_name="gpt-4o"), object()
    assert plan_answers(strategy, other) is plan_answers(strategy, other)
    assert plan_answers(strategy, capable) is not plan_answers(strategy, other)
    given_strategy = ToolStrategy(Person)
    assert answer_strategy(given_strategy) is given_strategy
    assert plan_answers(given_strategy, capable).strategy is given_strategy  # type: ignore[union-attr]
    assert (answer_strategy(None), plan_answers(None, other)) == (None, None)


def test_what_is_no_schema_is_refused():
    with pytest.raises(UsageError, match=r"write ToolStrategy\(MySchema\)"):
        answer_strategy(ToolStrategy)
    with pytest.raises(UsageError, match="is no schema"):
        plan_answers(answer_strategy(3), object())
    with pytest.raises(UsageError, match="let what may be missing be a field"):
        plan_answers(answer_strategy(Person | None), object())
    with pytest.raises(UsageError):
        plan_answers(answer_strategy(object), object())


# -- an answer that fits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "name", "args", "value"),
    [
        (Person, "Person", {"name": "Ann", "age": 3}, Person(name="Ann", age=3)),
        (Pet, "Pet", {"kind": "cat"}, Pet("cat")),
        (Car, "Car", {"brand": "Saab"}, {"brand": "Saab"}),
        (Person | Place, "Place", {"city": "Oslo"}, Place(city="Oslo")),
        (FRUIT, "Fruit", {"colour": 3}, {"colour": 3}),
    ],
)
def test_one_answer_that_fits(schema, name, args, value):
    outcome = plan(schema).read(use(call(name, args)))
    assert (outcome.answered, outcome.structured_response, outcome.error, outcome.again) == (True, value, None, False)
    [result] = outcome.results
    assert (result.tool_call_id, result.name, result.status) == ("c1", name, "success")


def test_the_result_of_the_answer_call():
    [result] = plan(Place).read(use(call("Place", {"city": "Köln"}))).results
    assert result.content == 'Structured response accepted: {"city": "Köln"}'
    [result] = plan(Place, tool_message_content="noted").read(use(call("Place", {"city": "Oslo"}))).results
    assert result.content == "noted"


def test_the_other_calls_of_an_answer_are_still_to_be_run():
    weather, broken = call("weather", {}, "c2"), bad_call("weather")
    outcome = plan(Place).read(use(weather, call("Place", {"city": "Oslo"}), invalid_tool_calls=[broken]))
    assert (outcome.answered, outcome.calls, outcome.invalid_calls) == (True, [weather], [broken])
    assert [result.tool_call_id for result in outcome.results] == ["c1"]


def test_a_reply_without_an_answer_call_is_none_of_ours():
    weather = call("weather", {})
    assert plan(Place).read(use(weather)) == Outcome(calls=[weather], invalid_calls=[])  # pyright: ignore[reportArgumentType]
    assert AnswerPlan(ProviderStrategy(Place)).read(use(weather)) == Outcome(calls=[weather], invalid_calls=[])  # pyright: ignore[reportArgumentType]


# -- an answer that does not ----------------------------------------------------------------------------------------


def test_B106_an_answer_that_does_not_fit_goes_back_with_the_validators_words():
    outcome = plan(Person).read(use(bad_ann), [ASK])
    [result] = outcome.results
    assert (outcome.again, outcome.answered, outcome.error, result.status) == (True, False, None, "error")
    assert result.content == (
        "The model's structured answer 'Person' does not fit: age: Input should be greater than or equal to 0, not -1. "
        "Call Person once, with arguments that fit."
    )


def test_B106_the_same_bad_value_forever_ends_in_a_named_error():
    made, history = plan(Person), [ASK]
    for _ in range(MAX_REJECTED):
        outcome = made.read(use(bad_ann), history)
        assert (outcome.again, outcome.error) == (True, None)
        history += [use(bad_ann), *outcome.results]
    outcome = made.read(use(bad_ann), history)
    assert isinstance(outcome.error, StructuredOutputValidationError)
    assert [result.tool_call_id for result in outcome.results] == ["c1"]
    assert made.read(use(bad_ann), [*history, HumanMessage("and now?")]).error is None


def test_B106_with_handling_off_the_error_names_the_field():
    reply = use(bad_ann)
    outcome = plan(Person, handle_errors=False).read(reply, [ASK])
    error = outcome.error
    assert isinstance(error, StructuredOutputValidationError)
    assert (error.tool_name, error.ai_message, "age" in str(error), error.__cause__) == (
        "Person",
        reply,
        True,
        error.source,
    )
    assert [result.tool_call_id for result in outcome.results] == ["c1"]


def test_a_validators_own_sentence_reaches_the_model():
    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def ordered(self) -> Range:
            if self.low > self.high:
                raise ValueError("low must not be above high")
            return self

    [result] = plan(Range).read(use(call("Range", {"low": 5, "high": 1})), [ASK]).results
    assert "low must not be above high" in result.content


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("try again", "try again"),
        (lambda error: f"no: {type(error).__name__}", "no: StructuredOutputValidationError"),
        (ValueError, None),
        (StructuredOutputValidationError, None),
        ((KeyError, StructuredOutputError), None),
    ],
)
def test_rules_that_send_it_back(rule, words):
    outcome = plan(Person, handle_errors=rule).read(use(bad_ann), [ASK])
    assert outcome.again
    assert words is None or outcome.results[0].content == words


@pytest.mark.parametrize("rule", [KeyError, (KeyError, MultipleStructuredOutputsError), False])
def test_rules_that_raise(rule):
    assert isinstance(plan(Person, handle_errors=rule).read(use(bad_ann)).error, StructuredOutputValidationError)


def test_a_rule_that_returns_no_text():
    with pytest.raises(UsageError, match="handle_errors returned None"):
        plan(Person, handle_errors=lambda _error: None).read(use(bad_ann))  # type: ignore[arg-type,return-value]


def test_two_answers_at_once_are_none():
    bob = call("Person", {"name": "Bob", "age": 2}, "c2")
    outcome = plan(Person).read(use(ann, bob), [ASK])
    assert ([result.tool_call_id for result in outcome.results], outcome.again) == (["c1", "c2"], True)
    assert "2 structured answers at once (Person, Person)" in outcome.results[0].content
    error = plan(Person, handle_errors=False).read(use(ann, bob)).error
    assert isinstance(error, MultipleStructuredOutputsError)
    assert error.tool_names == ["Person", "Person"]


def test_the_other_calls_of_a_bad_answer_are_run_before_the_model_is_asked_again():
    weather = call("weather", {}, "c2")
    outcome = plan(Person).read(use(bad_ann, weather), [ASK])
    assert (outcome.calls, outcome.again, outcome.answered) == ([weather], False, False)


def test_with_an_error_every_call_of_the_reply_has_a_result():
    reply = use(bad_ann, call("weather", {}, "c2"), invalid_tool_calls=[bad_call("weather", "b1")])
    outcome = plan(Person, handle_errors=False).read(reply)
    assert [(result.tool_call_id, result.status) for result in outcome.results] == [
        ("c1", "error"),
        ("c2", "error"),
        ("b1", "error"),
    ]
    assert (list(outcome.calls), list(outcome.invalid_calls)) == ([], [])


def test_an_answer_call_that_does_not_parse_is_a_bad_answer():
    outcome = plan(Person).read(AIMessage("", invalid_tool_calls=[bad_call("Person")]), [ASK])
    [result] = outcome.results
    assert (result.tool_call_id, outcome.again) == ("b1", True)
    assert "arguments are no JSON object" in result.content
    both = plan(Person).read(use(ann, invalid_tool_calls=[bad_call("Person")]), [ASK])
    assert [result.tool_call_id for result in both.results] == ["c1", "b1"]


# -- words instead --------------------------------------------------------------------------------------------------


def test_B104_words_instead_of_an_answer_are_asked_again_once_and_then_raise():
    made, words = plan(Place), AIMessage("just text", response_metadata={"finish_reason": "length"})
    first = made.read(words, [ASK])
    assert first.reminder is not None
    assert (first.again, is_reminder(first.reminder), "Place" in first.reminder.text) == (True, True, True)
    second = made.read(words, [ASK, words, first.reminder])
    assert isinstance(second.error, MissingStructuredOutputError)
    assert (second.error.ai_message, "finish_reason='length'" in str(second.error)) == (words, True)
    later = made.read(words, [ASK, words, first.reminder, use(ann), HumanMessage("go on")])
    assert later.reminder is not None


@pytest.mark.parametrize("text", ['{"city": "Oslo"}', '```json\n{"city": "Oslo"}\n```', ' ```\n{"city": "Oslo"}``` '])
def test_words_that_are_the_answer_in_json_are_taken(text):
    assert plan(Person | Place).read(AIMessage(text)) == Outcome(answered=True, structured_response=Place(city="Oslo"))


@pytest.mark.parametrize("text", ["42", "[]", "```", '{"city": 3}', "{"])
def test_words_that_are_another_json_are_not(text):
    assert plan(Place).read(AIMessage(text), [ASK]).reminder is not None


def test_any_object_in_words_does_not_answer_a_schema_that_is_not_enforced():
    assert plan(FRUIT).read(AIMessage('{"kind": "fig"}'), [ASK]).reminder is not None


# -- the provider's own output --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (Person, '{"name": "Ann", "age": 3}', Person(name="Ann", age=3)),
        (Pet, '```json\n{"kind": "cat"}\n```', Pet("cat")),
        (FRUIT, '{"colour": 3}', {"colour": 3}),
    ],
)
def test_a_providers_json_is_read(schema, text, value):
    outcome = AnswerPlan(ProviderStrategy(schema)).read(AIMessage(text))
    assert outcome == Outcome(answered=True, structured_response=value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sorry", "it is no JSON"),
        ("[1]", "no JSON object, but list"),
        ('{"name": "Ann", "age": -1}', "age: Input should be greater than or equal to 0"),
    ],
)
def test_a_providers_text_that_does_not_fit_raises(text, words):
    reply = AIMessage(text)
    error = AnswerPlan(ProviderStrategy(Person)).read(reply).error
    assert isinstance(error, StructuredOutputValidationError)
    assert (error.tool_name, error.ai_message, words in str(error)) == ("Person", reply, True)


def test_a_cut_reply_says_that_it_was_cut():
    reply = AIMessage('{"name": "An', response_metadata={"finish_reason": "length"})
    error = AnswerPlan(ProviderStrategy(Person)).read(reply).error
    assert "finish_reason='length'" in str(error)


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        MultipleStructuredOutputsError(["A", "B"], AIMessage("x", id="1")),
        StructuredOutputValidationError("A", ValueError("bad"), AIMessage("x", id="1")),
        MissingStructuredOutputError(["A"], AIMessage("x", id="1")),
    ],
)
def test_errors_are_ours_and_pickle(error):
    assert isinstance(error, StructuredOutputError)
    assert isinstance(error, LoopwrightError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.ai_message) == (type(error), str(error), error.ai_message)


# -- law ------------------------------------------------------------------------------------------------------------

some_calls = st.lists(
    st.tuples(st.sampled_from(["Person", "Place", "weather"]), st.sampled_from([{}, {"city": "Oslo"}, ann["args"]])),
    min_size=1,
    max_size=5,
)


@given(some_calls, st.lists(st.sampled_from(["Person", "weather"]), max_size=2), st.sampled_from([True, False, "no"]))
def test_every_call_of_a_reply_is_answered_or_handed_on_once(named, broken, rule):
    calls = [call(name, args, f"c{index}") for index, (name, args) in enumerate(named)]
    invalid = [bad_call(name, f"b{index}") for index, name in enumerate(broken)]
    outcome = plan(Person | Place, handle_errors=rule).read(use(*calls, invalid_tool_calls=invalid), [ASK])
    ids = [result.tool_call_id for result in outcome.results]
    ids += [each["id"] for each in (*outcome.calls, *outcome.invalid_calls)]
    assert sorted(ids) == sorted(each["id"] for each in (*calls, *invalid))  # pyright: ignore[reportArgumentType]
    assert all(isinstance(result, ToolMessage) for result in outcome.results)
    assert not (outcome.answered and outcome.error)
