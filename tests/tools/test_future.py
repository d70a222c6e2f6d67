"""Tools in a module with `from __future__ import annotations`: all annotations are text."""

from __future__ import annotations

import dataclasses
import functools
import gc
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from loopwright.errors import ToolDefinitionError
from loopwright.scope import RunnableConfig
from loopwright.tools import BaseTool, InjectedState, InjectedToolCallId, StructuredTool, ToolRuntime, check_tools, tool
from tests.tools.worlds import answer

if TYPE_CHECKING:
    from fractions import Fraction


class Place(BaseModel):
    name: str


def visible(one):
    return one.json_schema["properties"]


def test_B76_same_schema_as_without_the_import():
    @tool
    def find(
        place: Place,
        mode: Literal["a", "b"],
        path: Path,
        name: str | None = None,
        n: Annotated[int, Field(ge=1), "how many"] = 1,
    ) -> str:
        """Find."""
        return f"{place.name} {mode} {path} {name} {n}"

    assert visible(find) == {
        "place": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "path": {"type": "string", "format": "path"},
        "name": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "n": {"type": "integer", "minimum": 1, "description": "how many", "default": 1},
    }
    assert find.invoke({"place": {"name": "x"}, "mode": "a", "path": "p"}) == "x a p None 1"


def test_B76_classes_local_to_a_function():
    class Local(BaseModel):
        n: int

    @dataclasses.dataclass
    class Data:
        inner: Local

    @tool
    def f(local: Local, data: Data) -> str:
        """F."""
        return f"{local.n} {data.inner.n}"

    def plain(local: list[Local]) -> int:
        """Plain."""
        return local[0].n

    tools, _ = check_tools([plain])
    assert f.invoke({"local": {"n": 1}, "data": {"inner": {"n": 2}}}) == "1 2"
    assert tools["plain"].invoke({"local": [{"n": 3}]}) == 3


def test_B76_methods_partials_and_decorated_functions():
    class Local(BaseModel):
        n: int

    class Search(BaseTool):
        name: str = "search"
        description: str = "Search."

        def _run(self, local: Local) -> int:
            return local.n

    class Shop:
        def buy(self, local: Local) -> int:
            """Buy."""
            return local.n

    class Callable:
        def __call__(self, local: Local) -> int:
            """Call."""
            return local.n

    def wrap(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    @tool
    @wrap
    def wrapped(local: Local) -> int:
        """Wrapped."""
        return local.n

    def two(a: int, local: Local) -> int:
        """Two."""
        return a + local.n

    partial = StructuredTool.from_function(functools.partial(two, 1), description="Two.")
    called = StructuredTool.from_function(Callable(), name="called", description="Call.")
    one = {"local": {"n": 1}}
    assert [t.invoke(one) for t in (Search(), tool(Shop().buy), wrapped, partial, called)] == [1, 1, 1, 2, 1]


def test_B77_forward_reference_inside_a_local_model():
    """The inner class is defined after the outer one, and after the tool."""

    class Container(BaseModel):
        rows: list[Row] = []

    @tool
    def count(real_arg: str, container: Container) -> int:
        """Count."""
        return len(container.rows)

    class Row(BaseModel):
        x: int

    assert list(visible(count)) == ["real_arg", "container"]
    assert visible(count)["container"]["properties"]["rows"]["items"]["properties"] == {"x": {"type": "integer"}}
    assert count.invoke({"real_arg": "a", "container": {"rows": [{"x": 1}]}}) == 1


def test_B77_forward_reference_that_never_comes():
    """A loud error that names the class; never an empty schema."""

    class Container(BaseModel):
        rows: list[Nowhere] = []  # noqa: F821  # pyright: ignore

    @tool
    def count(container: Container) -> int:
        """Count."""
        return 0

    with pytest.raises(ToolDefinitionError, match="'Nowhere', which is not defined"):
        _ = count.json_schema
    with pytest.raises(ToolDefinitionError, match="'Nowhere', which is not defined"):
        check_tools([count])


def test_B77_the_parameter_itself_comes_later():
    @tool
    def f(later: Later) -> int:
        """F."""
        return later.n

    class Later(BaseModel):
        n: int

    assert f.invoke({"later": {"n": 1}}) == 1


def test_names_below_type_checking_are_refused():
    @tool
    def f(n: Fraction) -> str:
        """F."""
        return str(n)

    with pytest.raises(ToolDefinitionError, match=r"name 'Fraction' is not defined.*not below `if TYPE_CHECKING:`"):
        _ = f.json_schema


def test_typed_dict_with_a_name_that_is_missing():
    class Outer(TypedDict):
        inner: Missing  # noqa: F821  # pyright: ignore

    @tool
    def f(outer: Outer) -> str:
        """F."""
        return ""

    with pytest.raises(ToolDefinitionError, match="Missing"):
        _ = f.json_schema


def test_injection_by_text():
    @tool
    def f(
        q: str,
        runtime: ToolRuntime[None, dict],
        config: RunnableConfig,
        user: Annotated[str, InjectedState("user")],
        call_id: Annotated[str, InjectedToolCallId],
    ) -> str:
        """F."""
        return f"{q} {runtime.tool_call_id} {config.get('run_name')} {user} {call_id}"

    def runtime():
        return ToolRuntime(state={"user": "ann"}, config={"run_name": "r"}, tool_call_id="c1")

    assert list(visible(f)) == ["q"]
    assert answer(f, {"q": "x"}, runtime=runtime).content == "x c1 r ann c1"


def test_the_functions_around_a_tool_are_let_go():
    """A tool keeps what is around its definition only until its types are found."""

    class Big:
        pass

    def make():
        big = Big()

        class Local(BaseModel):
            n: int

        @tool
        def f(local: Local) -> str:
            """F."""
            return ""

        _ = f.json_schema
        return f, weakref.ref(big)

    made, big = make()
    gc.collect()
    assert made.invoke({"local": {"n": 1}}) == ""
    assert big() is None


def test_closures():
    """A name that is neither global nor local any more, but held by the function."""

    def make():
        class Local(BaseModel):
            n: int

        def f(local: Local) -> str:
            """F."""
            return repr(Local(n=local.n))

        return f

    assert tool(make()).invoke({"local": {"n": 1}}) == "Local(n=1)"
