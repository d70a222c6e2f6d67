"""`args_schema`: arguments described by a pydantic model or a JSON schema instead of the signature."""

import dataclasses
from datetime import date
from typing import Annotated, Any

import pydantic
import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, ConfigDict, Field

from loopwright.errors import ToolDefinitionError, ToolInvocationError
from loopwright.tools import InjectedToolArg, ToolRuntime, call_tool, tool
from tests.tools.worlds import finish


@dataclasses.dataclass
class Cfg:
    value: float = 1.5


class Range(BaseModel):
    """Two numbers."""

    low: int = Field(description="the smaller")
    high: int = 9

    @pydantic.model_validator(mode="after")
    def ordered(self):
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


def test_args_schema_model():
    @tool(args_schema=Range)
    def span(low: int, high: int) -> int:
        return high - low

    assert span.description == "Two numbers."
    assert span.json_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "low": {"description": "the smaller", "type": "integer"},
                "high": {"default": 9, "type": "integer"},
            },
            "required": ["low"],
        }
    )
    assert span.tool_call_schema is Range
    assert span.invoke({"low": 1}) == 8


def test_args_schema_json():
    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}

    @tool(args_schema=schema)
    def find(q: str, n: int = 3) -> str:
        """Find."""
        return f"{q}{n}"

    assert find.json_schema == schema
    assert find.args == schema["properties"]
    assert find.tool_call_schema == schema
    assert find.invoke({"q": "a", "unknown": 1}) == "a3"
    with pytest.raises(ToolInvocationError, match="q: Field required"):
        find.invoke({"n": 1})


def test_args_schema_with_open_ended_function():
    """What an MCP adapter does: a JSON schema, and a function that takes whatever it allows."""

    @tool(args_schema={"type": "object", "properties": {"q": {"type": "string"}}})
    def find(**arguments: Any) -> str:
        """Find."""
        return repr(arguments)

    assert find.invoke({"q": "a", "more": 1}) == "{'q': 'a', 'more': 1}"


def test_args_schema_model_with_extra():
    class Open(BaseModel, extra="allow"):
        q: str

    @tool(args_schema=Open)
    def find(**arguments: Any) -> str:
        """Find."""
        return repr(arguments)

    assert find.invoke({"q": "a", "more": 1}) == "{'q': 'a', 'more': 1}"


def test_args_schema_with_injected_field():
    """The model of the user's is checked as a whole, with what is injected; the model sees only the rest."""

    class In(BaseModel):
        q: str
        user: Annotated[str, InjectedToolArg]
        runtime: ToolRuntime

    @tool(args_schema=In)
    def find(q: str, user: str, runtime: ToolRuntime) -> str:
        """Find."""
        return f"{q} {user} {runtime.tool_call_id}"

    assert list(find.json_schema["properties"]) == ["q"]
    model: Any = find.tool_call_schema
    assert list(model.model_fields) == ["q"]
    hooked = {"name": "find", "args": {"q": "a", "user": "ann"}, "id": "c1"}
    asked = {"name": "find", "args": {"q": "a"}, "id": "c1"}
    assert find.invoke({"q": "a", "user": "ann"}) == "a ann None"
    assert answer_of(find, hooked, asked).content == "a ann c1"


def answer_of(one, call, asked):
    return finish(lambda port: call_tool(one, call, port, asked=asked))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Range, "args_schema has 'high' and the function has no such parameter"),
        ({"type": "object", "properties": {}}, "the function needs 'low' and args_schema does not have it"),
        (Cfg, "args_schema must be a pydantic model class or a JSON schema"),
        ({"type": "string"}, "must describe an object"),
    ],
)
def test_args_schema_that_does_not_fit(schema, words):
    @tool(args_schema=schema, description="F.")
    def f(low: int) -> int:
        return low

    with pytest.raises(ToolDefinitionError, match=words):
        _ = f.json_schema


class Order(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    sizes: set[int]


STRICT = {"day": "2024-02-29", "sizes": [1, 2]}


def test_strict_arguments_are_read_as_json():
    @tool(args_schema=Order)
    def by_schema(day: date, sizes: set[int]) -> str:
        """Order."""
        return f"{day!r} {sizes}"

    @tool
    def by_signature(day: Annotated[date, Field(strict=True)], sizes: Annotated[set[int], Field(strict=True)]) -> str:
        """Order."""
        return f"{day!r} {sizes}"

    @tool
    def by_field(order: Order) -> str:
        """Order."""
        return f"{order.day!r} {order.sizes}"

    for one, args in ((by_schema, STRICT), (by_signature, STRICT), (by_field, {"order": STRICT})):
        asked = {"name": one.name, "id": "1", "args": args}
        answer = finish(lambda port, one=one, asked=asked: call_tool(one, asked, port))
        assert answer.text == "datetime.date(2024, 2, 29) {1, 2}"
    assert by_schema.invoke({"day": date(2024, 2, 29), "sizes": {1, 2}}) == "datetime.date(2024, 2, 29) {1, 2}"
    with pytest.raises(pydantic.ValidationError, match="day value is outside expected range"):
        by_schema.invoke({**STRICT, "day": "2024-02-30"})
    with pytest.raises(pydantic.ValidationError, match="valid integer"):
        by_schema.invoke({**STRICT, "sizes": ["1"]})


def test_strict_arguments_beside_what_the_program_gives():
    class Kept(Order):
        when: date = Field(alias="at")
        store: Annotated[Any, InjectedToolArg] = None

    @tool(args_schema=Kept)
    def keep(day: date, sizes: set[int], when: date, store: Any) -> str:
        """Keep."""
        return f"{day} {sizes} {when} {type(store).__name__}"

    args = {**STRICT, "at": "2024-03-01"}
    assert keep.invoke({**args, "store": object()}) == "2024-02-29 {1, 2} 2024-03-01 object"
    assert keep.invoke(args) == "2024-02-29 {1, 2} 2024-03-01 NoneType"
    with pytest.raises(pydantic.ValidationError, match="valid integer"):
        keep.invoke({**args, "sizes": ["1"], "store": object()})
    with pytest.raises(pydantic.ValidationError, match="valid date"):
        keep.invoke({**args, "day": "2024-02-29", "sizes": {1}, "store": object()})
