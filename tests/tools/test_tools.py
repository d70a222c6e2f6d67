"""Making tools: the decorator, classes, and what they are asked."""

import asyncio
import copy
import functools
import pickle
import subprocess
import sys
from typing import Any, ClassVar

import pydantic
import pytest
from pydantic import BaseModel, Field

from loopwright.errors import ToolDefinitionError, ToolException, UsageError
from loopwright.messages import ToolMessage
from loopwright.tools import BaseTool, StructuredTool, Tool, tool
from tests.tools.worlds import answer, both_worlds, call


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def aadd(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


# --- the decorator ------------------------------------------------------------


def test_ways_to_write_it():
    made = [
        tool(add),
        tool("add")(add),
        tool()(add),
        tool(return_direct=True, timeout_s=3, max_concurrency=2, tags=["t"], extras={"x": 1})(add),
        tool("add", description="Add two numbers.")(add),
        StructuredTool.from_function(add),
        StructuredTool.from_function(func=add, name="add", description="Add two numbers."),
        StructuredTool.from_function(coroutine=aadd, name="add"),
        tool("add")(aadd),
    ]
    for one in made:
        assert (one.name, one.description, list(one.args)) == ("add", "Add two numbers.", ["a", "b"])
        assert one.invoke({"a": 2}) == 3
        assert asyncio.run(one.ainvoke({"a": 2, "b": 2})) == 4
    assert (made[3].return_direct, made[3].timeout_s, made[3].max_concurrency) == (True, 3, 2)
    assert (made[3].tags, made[3].extras, made[3].gate and made[3].gate.width) == (["t"], {"x": 1}, 2)
    assert repr(made[0]) == "StructuredTool(name='add', description='Add two numbers.')"


def test_a_tool_of_one_text():
    made = [
        Tool("shout", str.upper.__call__ and (lambda text: text.upper()), "Shout."),
        Tool.from_function(lambda text: text.upper(), "shout", "Shout."),
        tool("shout", infer_schema=False, description="Shout.")(lambda text: text.upper()),
    ]
    assert [one.invoke("a") for one in made] == ["A"] * 3
    assert [answer(one, {"text": "a"}).content for one in made] == ["A"] * 3
    assert made[0].is_single_input
    with pytest.raises(ToolDefinitionError, match="for a function of one text, and this one takes a, b"):
        Tool("add", add)


class Runnable:
    description = "Does it."

    def invoke(self, value):
        return f"plain {value}"

    async def ainvoke(self, value):
        return f"async {value}"


@both_worlds
def test_a_tool_of_a_runnable(world):
    class In(BaseModel):
        q: str

    one = tool("do", Runnable())
    other = tool("do", Runnable(), args_schema=In, description="Do.")
    kind = "plain" if world == "blocking" else "async"
    assert answer(one, {"input": "x"}, world).content == f"{kind} x"
    assert answer(other, {"q": "x"}, world).content == f"{kind} {{'q': 'x'}}"
    assert (one.description, other.description) == ("Does it.", "Do.")


def test_partials_and_objects():
    class Adder:
        """Adds."""

        async def __call__(self, a: int) -> int:
            return a + 1

    partial = tool("more", description="More.")(functools.partial(add, b=5))
    assert (partial.invoke({"a": 1}), partial.invoke({"a": 1, "b": 1})) == (6, 2)
    assert tool(functools.partial(add, 1)).description == "Add two numbers."
    assert tool("adder")(Adder()).invoke({"a": 1}) == 2


# --- what cannot be a tool ----------------------------------------------------


wrong: Any = tool


def undescribed(q):
    return q


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: wrong(undescribed),
            "Tool 'undescribed' has no description.*Write a docstring below `def undescribed`",
        ),
        (lambda: wrong(lambda q: q), "needs a name"),
        (lambda: wrong(functools.partial(functools.partial(lambda q: q))), "needs a name"),
        (lambda: wrong("a b", description="x")(add), r"The tool name 'a b' is not taken by all providers.*'a_b'"),
        (lambda: wrong("größe", description="x")(add), "'gr_e'"),
        (lambda: wrong("!", description="x")(add), "at most 64 of them\\."),
        (lambda: wrong("x" * 65)(add), "at most 64"),
        (lambda: wrong(tool(add)), "is a tool already"),
        (lambda: wrong(BaseModel), "BaseModel is a class"),
        (lambda: wrong(3), "@tool takes a function or a name, not 3"),
        (lambda: wrong("x")(3), "3 is no function"),
        (lambda: wrong(add, Runnable()), "needs the name first"),
        (lambda: wrong("x", 3, description="x"), "int has no invoke"),
        (lambda: wrong("x", type("R", (), {"invoke": print})()), 'needs description="..."'),
        (lambda: StructuredTool(name="x"), "needs func= or coroutine="),
        (lambda: wrong(timeout_s=0)(add), "timeout_s is a number of seconds above 0"),
        (lambda: wrong(max_concurrency=0)(add), "max_concurrency is a whole number from 1 up"),
        (lambda: wrong(max_result_chars=1.5)(add), "max_result_chars is a whole number"),
        (lambda: wrong(response_format="json")(add), "response_format is"),
        (lambda: wrong(descripton="x")(add), "has no field 'descripton'. Its fields: name, description"),
        (lambda: StructuredTool(func=add, name=""), "needs a name"),
        (lambda: StructuredTool(func=add, description=" "), "has no description"),
    ],
)
def test_definitions_that_cannot_work(make, words):
    """A `ToolDefinitionError` is a `ValueError` and a `TypeError`, and says what to write."""
    with pytest.raises(ToolDefinitionError, match=words) as caught:
        make()
    assert isinstance(caught.value, ValueError)


# --- classes ------------------------------------------------------------------


class Search(BaseTool):
    name: str = "search"
    description: str = "Search."
    api_key: str
    limit: int = 5
    seen: list[str] = []
    options: dict[str, Any] = Field(default_factory=dict)
    level: int = Field(default=3, description="pydantic's way")
    kind: ClassVar[str] = "web"
    other: "ClassVar[str]" = "web"
    _secret: str = "s"

    def _run(self, q: str) -> str:
        self.seen.append(q)
        return f"{q} {self.api_key} {self.limit} {self.level} {self.options}"


@both_worlds
def test_a_class_with_fields(world):
    one, two = Search(api_key="k"), Search(api_key="l", limit=1, name="other")
    assert answer(one, {"q": "x"}, world).content == "x k 5 3 {}"
    assert (one.seen, two.seen, two.name, one.kind) == (["x"], [], "other", "web")


@both_worlds
def test_run_and_arun(world):
    class OnlyAsync(BaseTool):
        """Works later."""

        name: str = "later"

        async def _arun(self, q: str) -> str:
            return f"{q} async"

    class AsyncRun(OnlyAsync):
        async def _run(self, q: str) -> str:
            return f"{q} run"

    class Both(OnlyAsync):
        def _run(self, q: str) -> str:
            """Run.

            Args:
                q: the question
            """
            return f"{q} plain"

    assert OnlyAsync().description == "Works later."
    assert answer(OnlyAsync(), {"q": "x"}, world).content == "x async"
    assert answer(AsyncRun(description="x"), {"q": "x"}, world).content == "x async"
    assert answer(Both(description="x"), {"q": "x"}, world).content == {"blocking": "x plain", "aio": "x async"}[world]
    assert Both(description="x").json_schema["properties"]["q"]["description"] == "the question"


def test_only_an_async_run():
    class AsyncRun(BaseTool):
        name: str = "later"
        description: str = "Later."

        async def _run(self, q: str) -> str:
            return q

    assert AsyncRun().invoke("x") == "x"


def test_functions_and_properties_as_fields():
    class Odd(BaseTool):
        name: str = "odd"
        handle_tool_error = lambda error: f"own {error}"

        @property
        def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
            return "Odd."

        def _run(self, q: str) -> str:
            raise ToolException(q)

    assert (Odd().description, Odd().invoke("x")) == ("Odd.", "own x")


def test_a_constructor_of_the_users_own():
    class Own(BaseTool):
        name: str = "own"
        description: str = "Own."
        client: Any

        def __init__(self, url: str, **fields: Any):
            self.client = f"client of {url}"
            super().__init__(**fields)

        def _run(self) -> str:
            return self.client

    assert Own("u").invoke({}) == "client of u"


wrong_class: Any = Search


class Idle(BaseTool):
    """Does nothing."""

    name: str = "idle"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Search, r"Search\(...\) needs api_key: Search\(api_key=...\)"),
        (lambda: wrong_class(api_key="k", apikey="k"), "has no field 'apikey'"),
        (type("WebSearchTool", (BaseTool,), {"_run": add}), "has no name.*`name: str = 'web_search'`"),
        (
            lambda: type("X", (BaseTool,), {"_run": add})(name="x"),
            "Tool 'x' has no description.*Write a docstring or description=",
        ),
        (Idle, "nothing to run. Write `def _run"),
    ],
)
def test_classes_that_cannot_work(make, words):
    with pytest.raises(ToolDefinitionError, match=words):
        make()


def test_required_pydantic_field():
    class One(BaseTool):
        name: str = "one"
        description: str = "One."
        key: str = Field(description="needed")

        def _run(self) -> str:
            return self.key

    with pytest.raises(ToolDefinitionError, match="needs key"):
        One()
    assert One(key="k").invoke({}) == "k"


# --- fields set later ---------------------------------------------------------


def test_fields_can_be_set_and_what_follows_from_them_follows():
    one = tool(add)
    assert one.openai_tool["function"]["name"] == "add"
    one.name, one.description = "plus", "Plus."
    one.func = lambda x: x
    assert one.openai_tool["function"] == {
        "name": "plus",
        "description": "Plus.",
        "parameters": {"type": "object", "properties": {"x": {}}, "required": ["x"]},
    }
    one.max_result_chars = 1
    assert answer(one, {"x": "12"}).content.startswith("1\n")
    one.max_concurrency = 3
    assert (one.gate and one.gate.width, answer(one, {"x": "1"}).content) == (3, "1")
    gate = one.gate
    one.handle_tool_error = True
    assert one.gate is gate
    vars(one)["anything"] = 3


def test_a_field_that_cannot_be_set_stays_as_it_was():
    one = tool(add)
    for name, value in [("name", "a b"), ("timeout_s", -1), ("func", eval("lambda a, /: a"))]:
        before = getattr(one, name)
        with pytest.raises(ToolDefinitionError):
            setattr(one, name, value)
        assert getattr(one, name) == before
    assert one.invoke({"a": 1}) == 2


def test_copies():
    one = Search(api_key="k", max_concurrency=1)
    _ = one.plan
    for other in (
        copy.copy(one),
        copy.deepcopy(one),
        pickle.loads(pickle.dumps(Search(api_key="k", max_concurrency=1))),
    ):
        assert other.invoke("x") == "x k 5 3 {}"
        assert other.gate is not one.gate


# --- by hand ------------------------------------------------------------------


def test_functions_can_be_called_as_they_are():
    made: Any = tool(add)
    assert (made.func(1, 2), tool(add)._run(1, b=3), asyncio.run(tool(add)._arun(1))) == (3, 4, 2)
    assert asyncio.run(tool(aadd)._arun(1)) == 2
    with pytest.raises(ToolDefinitionError, match="has only a coroutine function"):
        tool(aadd)._run(1)


@both_worlds
def test_a_whole_call_gives_a_message(world):
    one = tool(add)
    whole = call("add", {"a": 3}, "c7")
    message = one.invoke(whole) if world == "blocking" else asyncio.run(one.ainvoke(whole))
    assert (message.content, message.tool_call_id, message.name, type(message)) == ("4", "c7", "add", ToolMessage)
    assert one.invoke({"name": "add", "args": '{"a": 1}', "id": None, "type": "tool_call"}).tool_call_id == ""


def test_arguments_that_do_not_fit_raise_pydantics_error():
    with pytest.raises(pydantic.ValidationError, match="1 validation error for add"):
        tool(add).invoke({})
    with pytest.raises(pydantic.ValidationError):
        tool(add).invoke("many")


@pytest.mark.parametrize("input", [3, ["a"], ("a",), b"a"])
def test_input_of_the_wrong_kind(input):
    with pytest.raises(UsageError, match=r'add.invoke\({"a": ..., "b": ...}\)'):
        tool(add).invoke(input)
    with pytest.raises(UsageError, match=r"now.invoke\({}\)"):
        tool("now", description="Now.")(lambda: 1).invoke("x")


@both_worlds
def test_batches(world):
    """Results in order, the first failure raised or each in its place."""
    one = tool(add)

    def batch(inputs, **options):
        if world == "blocking":
            return one.batch(inputs, **options)
        return asyncio.run(one.abatch(inputs, **options))

    assert batch([{"a": n} for n in range(20)], config={"max_concurrency": 3}) == list(range(1, 21))
    assert batch([]) == []
    assert type(batch([{"a": 1}, {}], return_exceptions=True)[1]) is pydantic.ValidationError
    with pytest.raises(pydantic.ValidationError):
        batch([{"a": 1}, {}])


# --- weight -------------------------------------------------------------------


def test_making_a_tool_imports_no_pydantic():
    """Only its schema does, and one of plain types needs no more than pydantic's core."""
    program = """
import sys
from loopwright.tools import tool, BaseTool
@tool
def f(q: str, n: int = 1) -> str:
    "F."
    return q * n
class S(BaseTool):
    name: str = "s"
    description: str = "S."
    def _run(self, q: str) -> str: ...
S(), f.openai_tool
assert "pydantic_core" not in sys.modules
assert f.invoke({"q": "a", "n": 2}) == "aa"
assert "pydantic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_schema_of_a_tool_that_was_given_none():
    """The way tutorials look at a tool: a pydantic model class with the tool's description, also on copies."""

    @tool
    def look(city: str, days: list[int] | None = None) -> str:
        """Look at a city."""
        return city

    class Own(BaseTool):
        name: str = "own"
        description: str = "Own."

        def _run(self, city: str) -> str:
            return city

    schema = look.args_schema.model_json_schema()
    assert (schema["title"], schema["description"], list(schema["properties"])) == (
        "look",
        "Look at a city.",
        ["city", "days"],
    )
    assert look.args_schema is look.tool_call_schema
    assert copy.copy(look).args_schema.model_json_schema() == schema
    assert list(Own().args_schema.model_fields) == ["city"]
    assert "description" not in look.openai_tool["function"]["parameters"]


def test_a_given_schema_is_left_as_it_is():
    class Place(BaseModel):
        city: str

    @tool(args_schema=Place)
    def look(city: str) -> str:
        """Look at a city."""
        return city

    assert (look.args_schema, look.tool_call_schema, Place.__doc__) == (Place, Place, None)
