"""Messages, tools and examples as the turns of a prompt."""

from typing import Any

import pytest

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.models.local.prompt import chat_messages, rounds_so_far
from loopwright.models.local.shots import Shot, read_shots, shot_messages

WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city. Ask it for one at a time.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = {"name": "get_weather", "args": {"city": "Rom"}, "id": "1", "type": "tool_call"}


def turns(*messages: Any, tools: Any = (), shots: Any = None, schema: Any = None) -> list[tuple[str, str]]:
    made = chat_messages(messages, tools, shots=shots, answer_schema=schema)
    return [(turn["role"], turn["content"]) for turn in made]


def test_a_plain_conversation_stays_as_it_is() -> None:
    given = [SystemMessage("Be brief."), HumanMessage("Hi"), AIMessage("Hello."), HumanMessage("Bye")]
    assert turns(*given) == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."), ("user", "Bye")]


def test_tools_follow_the_caller_s_system_prompt() -> None:
    assert turns(SystemMessage("Be brief."), HumanMessage("Hi"), tools=[WEATHER]) == [
        (
            "system",
            """\
Be brief.

You help with these tools:
- get_weather: The weather in a city. Ask it for one at a time. Arguments: city.
To use one, reply only with {"tool": name, "arguments": {...}}.""",
        ),
        ("user", "Hi"),
    ]


def test_calls_and_results_look_like_the_examples() -> None:
    given = [
        HumanMessage("Rome?"),
        AIMessage("I look.", tool_calls=[CALL, {**CALL, "id": "2"}]),
        ToolMessage("sunny", tool_call_id="1"),
        ToolMessage("still sunny", tool_call_id="2"),
        HumanMessage("Go on."),
    ]
    called = '{"tool":"get_weather","arguments":{"city":"Rom"}}'
    assert turns(*given) == [
        ("user", "Rome?"),
        ("assistant", f"I look.\n{called}\n{called}"),
        ("user", "Tool result: sunny\nTool result: still sunny\nGo on."),
    ]


def test_a_broken_call_and_other_roles() -> None:
    broken = {"name": "add", "args": '{"a": ', "id": "1", "error": None, "type": "invalid_tool_call"}
    given = [
        AIMessage("", invalid_tool_calls=[broken]),
        ChatMessage("yes", role="assistant"),
        ChatMessage("no", role="critic"),
    ]
    assert turns(*given) == [("assistant", 'add {"a": \nyes'), ("user", "no")]


def test_nothing_but_a_system_prompt_still_has_somebody_asking() -> None:
    assert turns(SystemMessage("Be brief.")) == [("system", "Be brief."), ("user", "")]


def test_the_fields_of_an_answer_are_named() -> None:
    schema = {"properties": {"name": {"type": "string"}, "age": {"type": "integer", "description": "in years"}}}
    assert turns(HumanMessage("Hi"), schema=schema)[0] == (
        "system",
        "Answer in JSON with these fields: name, age (in years).",
    )
    assert turns(HumanMessage("Hi"), schema={})[0] == ("system", "Answer in JSON.")


def test_media_are_refused_in_words() -> None:
    with pytest.raises(UsageError, match="ChatLocal reads text only, and a HumanMessage holds a block 'image'"):
        turns(HumanMessage([{"type": "text", "text": "See"}, {"type": "image", "url": "https://example.com/a.png"}]))


def test_rounds_so_far() -> None:
    ask, answer = AIMessage("", tool_calls=[CALL]), ToolMessage("sunny", tool_call_id="1")
    assert rounds_so_far([]) == 0
    assert rounds_so_far([HumanMessage("Hi")]) == 0
    assert rounds_so_far([HumanMessage("Hi"), ask, answer]) == 1
    assert rounds_so_far([HumanMessage("Hi"), ask, answer, answer, ask, answer]) == 2
    assert rounds_so_far([ask, answer, HumanMessage("Hi")]) == 0
    assert rounds_so_far([ask, answer, AIMessage("Sunny."), HumanMessage("Hi"), ask, answer]) == 1


# -- examples --------------------------------------------------------------------------------------------------------


def examples(tools: list[Any], given: Any = ()) -> list[tuple[str, str]]:
    made = shot_messages(tools, read_shots(given))
    return [(asked["content"], said["content"]) for asked, said in zip(made[::2], made[1::2], strict=True)]


def test_examples_are_made_of_a_tool_s_own_words() -> None:
    assert examples([WEATHER]) == [
        ("The weather in a city: Madrid.", '{"tool":"get_weather","arguments":{"city":"Madrid"}}'),
        ("Tool result: 17 kilos and heavy", "The result is: 17 kilos and heavy."),
        ("Hello!", "Hello! How can I help you?"),
        ("Thank you.", "You are welcome!"),
        ("I need this for Oslo: the weather in a city.", '{"tool":"get_weather","arguments":{"city":"Oslo"}}'),
        ("Tool result: nothing was found for it", "The result is: nothing was found for it."),
    ]


def test_a_user_s_examples_take_the_place_of_those_of_their_tools() -> None:
    given = [
        ("Sunny in Bari?", "get_weather", {"city": "Bari"}),
        ("Hey.", "Hey yourself."),
        ("Not bound.", "other", {}),
    ]
    made = examples([WEATHER, {"name": "now", "description": "The time."}], given)
    assert [asked for asked, _ in made if not asked.startswith("Tool result")] == [
        "Sunny in Bari?",
        "Hey.",
        "The time.",
        "I need this: the time.",
    ]


@pytest.mark.parametrize("wrong", ["text", ("only",), ("a", 1), ("a", "tool", "{}"), ("a", "b", {}, {})])
def test_what_is_no_example(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"shots\[0\] is .* an example is \(request, tool name, arguments\)"):
        read_shots([wrong])


def test_read_shots() -> None:
    assert read_shots([("a", "t", {"x": 1}), ["b", "c"], Shot("d", None, {}, "e")]) == (
        Shot("a", "t", {"x": 1}),
        Shot("b", None, {}, "c"),
        Shot("d", None, {}, "e"),
    )


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"type": "string"}, ["apple", "silver"]),
        ({"type": "integer"}, [4, 11]),
        ({"type": "number", "minimum": 7, "maximum": 10}, [7, 10]),
        ({"type": "boolean"}, [True, False]),
        ({"enum": ["a", "b", "c"]}, ["a", "b"]),
        ({"type": "string", "examples": ["x"]}, ["x", "x"]),
        ({"type": "string", "default": "d"}, ["d", "d"]),
        ({"const": 5}, [5, 5]),
        ({"type": "null"}, [None, None]),
        ({"type": ["null", "integer"]}, [4, 11]),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, [4, 11]),
        ({"type": "array", "items": {"type": "integer"}}, [[4], [11]]),
        ({"$ref": "#/$defs/Point"}, [{"x": 4}, {"x": 11}]),
        ({"$ref": "#/$defs/Tree"}, [{"kids": [{"kids": []}]}] * 2),
        ({"$ref": "#/$defs/Nowhere"}, ["apple", "silver"]),
        ({"$ref": "#/$defs/Circle"}, ["apple", "silver"]),
        ({}, ["apple", "silver"]),
    ],
)
def test_values_of_examples_fit_their_schema(schema: Any, values: list[Any]) -> None:
    import json

    definitions = {
        "Point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "Tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}},
        "Circle": {"$ref": "#/$defs/Circle"},
    }
    parameters = {"type": "object", "properties": {"value": schema}, "required": ["value"], "$defs": definitions}
    made = examples([{"name": "take", "description": "Take it", "parameters": parameters}])
    found = [json.loads(said)["arguments"]["value"] for _, said in made if said.startswith('{"tool"')]
    assert found == values


def test_known_names_get_fitting_words() -> None:
    parameters = {"properties": {"home_city": {}, "Email": {}, "extra": {}}, "required": ["home_city", "Email"]}
    made = examples([{"name": "move_in", "parameters": parameters}])
    assert made[0] == (
        "move in: Madrid and john@example.com.",
        '{"tool":"move_in","arguments":{"home_city":"Madrid","Email":"john@example.com"}}',
    )


def test_many_tools_get_fewer_examples() -> None:
    tools = [{"name": f"tool{number}", "description": f"Do {number}"} for number in range(20)]
    calls = [said for _, said in examples(tools) if said.startswith('{"tool"')]
    assert len(calls) == 12


def test_the_same_tools_give_the_same_prompt() -> None:
    """So the engine need not read it anew."""
    assert shot_messages([WEATHER], ()) == shot_messages([WEATHER], ())
