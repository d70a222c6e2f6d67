"""From a signature to a JSON schema, and from a model's arguments to a call's."""

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import typing
import uuid
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import AfterValidator, BaseModel, Field

from loopwright.errors import ToolDefinitionError
from loopwright.tools import schema as schemas
from loopwright.tools import tool
from tests.tools.worlds import answer


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mode(enum.StrEnum):
    A = "a"
    B = "b"


class One(enum.Enum):
    ONLY = "only"


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Told(enum.Enum):
    """With words of its own."""

    A = "a"
    B = "b"


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


@dataclasses.dataclass
class Cfg:
    value: float = 1.5
    label: str = "default"


class Options(TypedDict):
    deep: bool
    note: NotRequired[str]


POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
CFG = {
    "type": "object",
    "properties": {"value": {"type": "number", "default": 1.5}, "label": {"type": "string", "default": "default"}},
}
OPTIONS = {
    "type": "object",
    "properties": {"deep": {"type": "boolean"}, "note": {"type": "string"}},
    "required": ["deep"],
}


class Client:
    pass


class Node(BaseModel):
    name: str
    children: list["Node"] = []


def made(annotation: Any, default: Any = ...) -> Any:
    """A tool of one parameter `x`."""
    function: Any = (lambda x: x) if default is ... else (lambda x=default: x)
    function.__annotations__ = {"x": annotation}
    function.__doc__ = "F.\n\nArgs:\n    x: words"
    return tool("f")(function)


def shown(annotation: Any, default: Any = ...):
    schema = made(annotation, default).json_schema
    assert (schema["type"], "required" in schema) == ("object", default is ...)
    prop = dict(schema["properties"]["x"])
    assert prop.pop("description") == "words"
    return prop | {key: schema[key] for key in schema.keys() - {"type", "properties", "required"}}


TYPES = [
    (str, ..., {"type": "string"}),
    (int, 3, {"type": "integer", "default": 3}),
    (float, ..., {"type": "number"}),
    (bool, False, {"type": "boolean", "default": False}),
    (Any, ..., {}),
    (type(None), None, {"type": "null", "default": None}),
    (list, ..., {"type": "array", "items": {}}),
    (typing.List, ..., {"type": "array", "items": {}}),  # noqa: UP006
    (dict, ..., {"type": "object", "additionalProperties": True}),
    (list[str], [], {"type": "array", "items": {"type": "string"}, "default": []}),
    (list[Any], ..., {"type": "array", "items": {}}),
    (dict[str, int], ..., {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dict[str, Any], {"a": [1.5]}, {"type": "object", "additionalProperties": True, "default": {"a": [1.5]}}),
    (Optional[str], None, {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),  # noqa: UP045
    (int | None, ..., {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (int, None, {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    (Union[int, str], ..., {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
    (int | str | None, ..., {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),
    (Literal["a", "b"], "a", {"enum": ["a", "b"], "type": "string", "default": "a"}),
    (Literal["a"], ..., {"const": "a", "type": "string"}),
    (Literal[1, 2], ..., {"enum": [1, 2], "type": "integer"}),
    (Literal[1, "a"], ..., {"enum": [1, "a"]}),
    (Unit, Unit.C, {"enum": ["celsius", "fahrenheit"], "type": "string", "default": "celsius"}),
    (Level, ..., {"enum": [1, 2], "type": "integer"}),
    (One, ..., {"enum": ["only"], "type": "string"}),
    (Mixed, ..., {"enum": [1, "b"]}),
    (Told, ..., {"enum": ["a", "b"], "type": "string"}),
    (dt.datetime, ..., {"type": "string", "format": "date-time"}),
    (decimal.Decimal, ..., {"anyOf": [{"type": "number"}, {"type": "string"}]}),
    (uuid.UUID, ..., {"type": "string", "format": "uuid"}),
    (pathlib.Path, pathlib.Path("a"), {"type": "string", "format": "path", "default": "a"}),
    (set[int], ..., {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (Annotated[int, Field(ge=1, le=9)], ..., {"type": "integer", "minimum": 1, "maximum": 9}),
    (Point, ..., POINT),
    (list[Point], ..., {"type": "array", "items": {**POINT, "description": "A place."}}),
    (Cfg, Cfg(), {**CFG, "default": {"value": 1.5, "label": "default"}}),
    (Options, ..., OPTIONS),
]


@pytest.mark.parametrize(("annotation", "default", "expected"), TYPES, ids=str)
def test_json_schemas(annotation, default, expected):
    """One row for each kind of type; no titles, and no reference that could be written out."""
    assert shown(annotation, default) == expected


def test_recursive_types():
    """Only these keep a reference."""
    assert shown(Node) == snapshot(
        {
            "properties": {
                "name": {"type": "string"},
                "children": {"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"},
            },
            "required": ["name"],
            "type": "object",
            "$defs": {
                "Node": {
                    "properties": {
                        "name": {"type": "string"},
                        "children": {"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"},
                    },
                    "required": ["name"],
                    "type": "object",
                }
            },
        }
    )


def test_descriptions():
    """What stands at the type wins over what the docstring says."""

    @tool
    def f(a: Annotated[str, "text"], b: Annotated[int, Field(description="field")], c: str = Field("x", max_length=3)):
        """F.

        Args:
            a: from the docstring
            b: from the docstring
            c: from the docstring
        """

    assert f.json_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "a": {"description": "text", "type": "string"},
                "b": {"description": "field", "type": "integer"},
                "c": {"default": "x", "description": "from the docstring", "maxLength": 3, "type": "string"},
            },
            "required": ["a", "b"],
        }
    )


def test_plain_descriptions_need_no_pydantic_model():
    @tool
    def f(a: Annotated[str, "text"], b: Annotated[int, Field(description="field")] = 1):
        """F."""

    assert vars(f.arguments)["_fields"] is not None
    assert f.json_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "description": "text"},
                "b": {"type": "integer", "description": "field", "default": 1},
            },
            "required": ["a"],
        }
    )


def test_B92_no_parameters():
    """An empty object, and `required` is left out as everywhere where nothing is required."""

    @tool
    def now() -> str:
        """Time."""
        return "noon"

    assert now.json_schema == {"type": "object", "properties": {}}
    assert [answer(now, args).content for args in ({}, "", None, "null", " {} ")] == ["noon"] * 5
    assert [now.invoke(args) for args in ({}, "", None)] == ["noon"] * 3
    assert answer(now, None, id="c2").tool_call_id == "c2"


# --- by hand and by pydantic --------------------------------------------------

PLAIN = st.sampled_from(
    [str, int, float, bool, Any, list, dict, Unit, Level, Mode, One, Literal["a", "b"], Literal[1, 2]]
)


def composed(inner):
    return st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: Optional[kind]),  # noqa: UP045
        st.tuples(inner, inner).map(lambda kinds: Union[kinds[0], kinds[1]]),  # noqa: UP007
    )


KINDS = st.recursive(PLAIN, composed, max_leaves=4)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(allow_nan=False, width=16),
        st.sampled_from(["", "a", "b", "1", "2", "1.5", "true", "celsius", "only", "x"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["a", "k"]), inner, max_size=2)
    ),
    max_leaves=4,
)
DEFAULTS = st.sampled_from([..., ..., None, 1, "a", 1.5, True, [], {}, Unit.C])


def both(kind, default):
    """The same tool made by hand and by pydantic; None if it cannot be made by hand."""
    one, other = made(kind, default), made(kind, default)
    if one.arguments._fields is None:
        return None
    other.arguments._fields = None
    return one, other


@settings(max_examples=150, deadline=None)
@given(kind=KINDS, default=DEFAULTS, value=VALUES)
def test_hand_made_schemas_are_pydantics(kind, default, value):
    """Same JSON schema, same arguments accepted, same values, and of the same types."""
    pair = both(kind, default)
    if pair is None:
        return
    one, other = pair
    assert one.json_schema == other.json_schema
    assert checked(one, {"x": value}) == checked(other, {"x": value})
    if default is ...:
        assert checked(one, {}) == checked(other, {})


def checked(one, args):
    try:
        given = one.plan.check(args)
    except pydantic.ValidationError as error:
        return [(detail["loc"], detail["type"], detail["msg"]) for detail in error.errors()]
    return repr(given)


def test_the_comparison_compares():
    """Most of the kinds that hypothesis draws are really made by hand."""
    drawn = [str, list[Unit], dict[str, int] | None, int | str, Literal["a", "b"], Mode]
    assert [kind for kind in drawn if both(kind, ...) is None] == []


def test_defaults_that_may_be_changed_are_copied():
    """A list in a signature is not shared between calls."""

    @tool
    def add(item: str, into: list = []) -> list:  # noqa: B006
        """Add."""
        into.append(item)
        return into

    assert [add.invoke({"item": "a"}), add.invoke({"item": "b"})] == [["a"], ["b"]]


@pytest.mark.parametrize("default", [float("inf"), Client, (1,), {1: 2}, {"a": Client}, [Client]])
def test_defaults_without_a_json_form_are_left_out(default):
    f = made(Any, default)
    assert f.json_schema["properties"]["x"].keys() <= {"description", "default"}
    assert f.arguments._fields is None
    assert f.plan.check({}) == {"x": default}


# --- values -------------------------------------------------------------------


def passed(annotation: Any, value: Any, default: Any = ...):
    return made(annotation, default).plan.check({"x": value})["x"]


def test_real_instances_arrive():
    assert [
        passed(Point, {"x": "1"}),
        passed(Cfg, {}),
        passed(list[Point], [{"x": 1}]),
        passed(Unit, "celsius"),
        passed(Level, 2),
        passed(dt.date, "2026-11-30"),
        passed(decimal.Decimal, "1.10"),
        passed(pathlib.Path, "a/b"),
        passed(int, "5"),
    ] == [
        Point(x=1),
        Cfg(),
        [Point(x=1)],
        Unit.C,
        Level.HIGH,
        dt.date(2026, 11, 30),
        decimal.Decimal("1.10"),
        pathlib.Path("a/b"),
        5,
    ]


def test_B84_nested_defaults_apply():
    """What is left out takes the declared default; a `NotRequired` key stays out."""
    assert passed(Cfg, {}) == Cfg(1.5, "default")
    assert passed(Options, {"deep": True}) == {"deep": True}


def test_names_that_pydantic_uses_itself():
    """A parameter may be called like a method of pydantic's models, or begin with an underscore."""

    @tool
    def f(schema: Point, json: str = "j", model_config: int = 1, _hidden: str = "h") -> str:
        """F."""
        return f"{schema.x} {json} {model_config} {_hidden}"

    assert list(f.json_schema["properties"]) == ["schema", "json", "model_config", "_hidden"]
    assert f.invoke({"schema": {"x": 1}, "json": "k", "model_config": 2, "_hidden": "i"}) == "1 k 2 i"


def test_names_that_the_port_uses_itself():
    @tool
    def f(is_async: bool, timeout_s: int) -> str:
        """F."""
        return f"{is_async} {timeout_s}"

    assert answer(f, {"is_async": True, "timeout_s": 3}).content == "True 3"


# --- what cannot be -----------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda *args: 1, r"cannot fill \*args"),
        (lambda **kwargs: 1, r"cannot fill \*\*kwargs.*`kwargs: dict\[str, Any\]`"),
        (eval("lambda a, /: 1"), "only be given by position"),
    ],
)
def test_B86_signatures_that_no_model_can_fill(function, words):
    with pytest.raises(ToolDefinitionError, match=words):
        tool("f", description="F.")(function)


def test_generators_are_refused():
    def f(n: int):
        """F."""
        yield n

    async def g(n: int):
        """G."""
        yield n

    for function in (f, g):
        with pytest.raises(ToolDefinitionError, match="it yields"):
            tool(function)


def test_functions_without_a_signature():
    with pytest.raises(ToolDefinitionError, match="does not tell the parameters"):
        tool("largest", description="Largest.")(max)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    one = tool("largest", description="Largest.", args_schema=schema)(lambda **numbers: max(numbers.values()))
    assert one.invoke({"n": 1, "m": 2}) == 2
    one = tool("missing", description="Missing.", args_schema={"type": "object"})(breakpoint)
    assert one.json_schema == {"type": "object", "properties": {}}


def test_types_that_a_model_cannot_give():
    """The error names the parameter and how to have the program fill it."""

    @tool
    def f(q: str, client: Client) -> str:
        """F."""
        return q

    with pytest.raises(ToolDefinitionError, match="parameter 'client' is of type Client, which a model cannot give"):
        _ = f.json_schema


def test_types_without_a_json_form():
    @tool
    def f(q: str, done: typing.Callable[[], None]) -> str:
        """F."""
        return q

    with pytest.raises(ToolDefinitionError, match="parameter 'done'"):
        _ = f.openai_tool


def test_trouble_that_is_no_single_parameters():
    """pydantic may refuse the whole for a reason of its own; its words are kept."""
    error = schemas._blame([], RuntimeError("odd"), "Tool 'f'")
    assert str(error) == "Tool 'f': no schema can be made of its parameters: odd"


# --- what users ask -----------------------------------------------------------


def test_args_have_titles_and_the_schema_has_not():
    @tool
    def f(city: str, point: Point) -> str:
        """F."""
        return city

    assert f.args == snapshot({"city": {"title": "City", "type": "string"}, "point": {"$ref": "#/$defs/Point"}})
    model: Any = f.get_input_schema()
    assert model.__name__ == "f"
    assert f.is_single_input is False


def test_validators_in_annotations():
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @tool
    def half(n: Annotated[int, AfterValidator(even), "an even number"]) -> int:
        """Half."""
        return n // 2

    assert half.json_schema["properties"]["n"] == {"type": "integer", "description": "an even number"}
    assert half.invoke({"n": 4}) == 2
    assert "- n: must be even (got 3)" in answer(half, {"n": 3}).content


def test_default_factory():
    @tool
    def f(tags: list[str] = Field(default_factory=lambda: ["a"])) -> str:  # noqa: B008
        """F."""
        return ",".join(tags)

    assert f.invoke({}) == "a"
