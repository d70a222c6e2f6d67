"""One call: arguments, failures, time, callbacks."""

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from loopwright.callbacks import BaseCallbackHandler, parent_run
from loopwright.drive.aio import AioPort
from loopwright.errors import GraphBubbleUp, ToolException, ToolInvocationError, UsageError
from loopwright.messages import ToolMessage
from loopwright.scope import RunnableConfig
from loopwright.tools import (
    ToolRuntime,
    call_tool,
    invalid_call_message,
    tool,
    unknown_tool_message,
)
from tests.tools.worlds import answer, both_worlds, call, finish


def forecast(city: str, celsius: bool = False) -> str:
    """Weather."""
    return f"{city} {celsius}"


weather = tool("weather")(forecast)


@tool
def boom(text: str = "kaput") -> str:
    """Break."""
    raise ValueError(text)


# --- worlds -------------------------------------------------------------------


@both_worlds
def test_plain_and_coroutine_functions_in_both_worlds(world):
    async def later(n: int) -> int:
        """Later."""
        await asyncio.sleep(0)
        return n + 1

    def now(n: int) -> int:
        """Now."""
        return n + 1

    async def whole(n: int) -> int:
        return n + 1

    def promise(n: int):
        """A plain function that returns a coroutine."""
        return whole(n)

    for function in (later, now, promise):
        message = answer(function, {"n": 1}, world)
        assert (message.content, message.name, message.status) == ("2", function.__name__, "success")
        assert (message.tool_call_id, bool(message.id)) == ("c1", True)


@both_worlds
def test_of_two_functions_each_world_takes_its_own(world):
    from loopwright.tools import StructuredTool

    def plain() -> str:
        """Plain."""
        return "blocking"

    async def coroutine() -> str:
        return "aio"

    assert answer(StructuredTool(func=plain, coroutine=coroutine), {}, world).content == world


# --- arguments ----------------------------------------------------------------


@pytest.mark.parametrize("args", [None, [], "x", 3, True, "[1]", '"x"', '{"city": ', '["city"]'])
def test_B07_arguments_that_are_no_object(args):
    """Each is answered with an error result; nothing breaks on the way."""
    message = finish(lambda port: call_tool(weather, {"name": "weather", "args": args, "id": "c1"}, port))
    assert (message.status, message.tool_call_id, message.name) == ("error", "c1", "weather")
    assert "'weather'" in message.content


def test_B07_the_words_say_what_to_send():
    assert answer(weather, [1]).content == (
        "The arguments of tool 'weather' cannot be used: the arguments must be a JSON object, not an array. "
        "Send an object with city, celsius."
    )
    nothing = tool("now", description="Now.")(lambda: "noon")
    assert answer(nothing, [1]).content.endswith("It takes none: send an empty object.")


@both_worlds
def test_B14_arguments_as_json_text(world):
    """Decoded, not passed whole to the first parameter."""
    assert answer(weather, '{"city":"Paris","celsius":true}', world).content == "Paris True"


def test_B09_the_validators_sentence_reaches_the_model():
    class Range(BaseModel):
        low: int
        high: int
        runtime: ToolRuntime

        @model_validator(mode="after")
        def ordered(self):
            if self.low > self.high:
                raise ValueError("low must not be above high")
            return self

    @tool(args_schema=Range)
    def span(low: int, high: int, runtime: ToolRuntime) -> int:
        """Span."""
        return high - low

    secret = ToolRuntime(state={"secret": "s3cret"}, context="s3cret")
    message = answer(span, {"low": 5, "high": 1}, runtime=lambda: secret)
    assert message.content == "The arguments of tool 'span' do not fit:\n- low must not be above high"
    assert answer(span, {"low": 1, "high": 5}, runtime=lambda: secret).content == "4"


def test_injected_trouble_is_hidden_from_the_model():
    """An injected value that the user's own schema refuses: neither its name nor the value is told."""
    from typing import Annotated

    from loopwright.tools import InjectedState

    class In(BaseModel):
        n: int
        user: Annotated[int, InjectedState("user")]

    @tool(args_schema=In)
    def f(n: int, user: int) -> int:
        """F."""
        return n

    message = answer(f, {"n": "x", "user": 3}, runtime=lambda: ToolRuntime(state={"user": "s3cret"}))
    assert message.content == (
        "The arguments of tool 'f' do not fit:\n"
        "- n: Input should be a valid integer, unable to parse string as an integer (got 'x')"
    )


def test_words_for_arguments_that_do_not_fit():
    """Each place, what is wrong there, and names that the tool does not know."""

    class Point(BaseModel):
        x: int

    @tool
    def f(city: str, points: list[Point], n: int = 1) -> str:
        """F."""
        return city

    message = answer(f, {"town": "Oslo", "points": [{"x": "a"}, {"y": "b" * 100}], "n": ["c" * 100]})
    assert message.content == (
        "The arguments of tool 'f' do not fit:\n"
        "- city: Field required\n"
        "- points.0.x: Input should be a valid integer, unable to parse string as an integer (got 'a')\n"
        "- points.1.x: Field required\n"
        "- n: Input should be a valid integer\n"
        "- not known here: town (it takes: city, points, n)"
    )
    long = answer(weather, {"city": "Oslo", "celsius": "z" * 200}).content
    assert long.endswith("(got '" + "z" * 79 + "...)")


def test_a_validator_that_breaks():
    """pydantic lets other exceptions of a validator pass; to the model it is all the same."""

    class In(BaseModel):
        n: int

        @model_validator(mode="before")
        @classmethod
        def check(cls, values: Any) -> Any:
            raise KeyError("odd")

    @tool(args_schema=In)
    def f(n: int) -> int:
        """F."""
        return n

    assert answer(f, {"n": 1}).content == "The arguments of tool 'f' do not fit:\n'odd'"
    with pytest.raises(ToolInvocationError):
        f.invoke({"n": 1})


# --- failures -----------------------------------------------------------------


@both_worlds
def test_B01_an_exception_becomes_an_error_result(world):
    """Its class and its words, no traceback."""
    message = answer(boom, {}, world)
    assert (message.status, message.content) == ("error", "Tool 'boom' failed: ValueError: kaput")
    assert answer(boom, {"text": ""}, world).content == "Tool 'boom' failed: ValueError"


@both_worlds
@pytest.mark.parametrize("base", [ValueError, ToolException])
def test_B01_even_one_that_cannot_say_what_it_is(world, base):
    class Mute(base):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @tool
    def fail() -> str:
        """Fail."""
        raise Mute

    message = answer(fail, {}, world)
    words = "The tool failed." if base is ToolException else "Tool 'fail' failed: Mute"
    assert (message.status, message.content) == ("error", words)


@both_worlds
def test_B01_or_is_raised_on_request(world):
    with pytest.raises(ValueError, match="kaput"):
        answer(boom, {}, world, handle_errors=False)


def test_B02_the_tools_own_exception_speaks_for_itself():
    @tool
    def fail(words: str = "try the other one") -> str:
        """Fail."""
        raise ToolException(*([words] if words else []))

    assert (answer(fail).status, answer(fail).content) == ("error", "try the other one")
    assert answer(fail, {"words": ""}).content == "The tool failed."
    with pytest.raises(ToolException):
        answer(fail, handle_errors=False)


def test_B12_an_error_keeps_its_artifact():
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("later", artifact={"code": 429, "retry_after": 3})

    assert answer(fail).artifact == {"code": 429, "retry_after": 3}
    fail.handle_tool_error = "come back"
    assert (answer(fail).content, answer(fail).artifact["code"]) == ("come back", 429)
    assert fail.invoke(call("fail")).artifact["code"] == 429


def on_value_error(error: ValueError) -> str:
    return f"mended {error}"


def on_two(error: KeyError | ValueError) -> dict:
    return {"why": str(error)}


class Handler:
    def __call__(self, error: KeyError) -> str:
        return "never"


def on_unknown(error: "Nowhere") -> str:  # noqa: F821  # pyright: ignore
    return "all"


@pytest.mark.parametrize(
    ("handle", "content"),
    [
        ("please stop", "please stop"),
        (ValueError, "Tool 'boom' failed: ValueError: kaput"),
        ((KeyError, ValueError), "Tool 'boom' failed: ValueError: kaput"),
        (on_value_error, "mended kaput"),
        (on_two, '{"why": "kaput"}'),
        (lambda error: f"any {error}", "any kaput"),
        (on_unknown, "all"),
        (KeyError, None),
        ((KeyError, OSError), None),
        (Handler(), None),
    ],
)
def test_ways_to_handle_errors(handle, content):
    """A string, exception classes, or a function that is asked for what its annotation names."""
    if content is not None:
        message = answer(boom, handle_errors=handle)
        assert (message.content, message.status) == (content, "error")
        return
    with pytest.raises(ValueError, match="kaput"):
        answer(boom, handle_errors=handle)


def test_a_handler_that_is_none():
    with pytest.raises(ValueError, match="kaput"):
        answer(boom, handle_errors=None)
    with pytest.raises(UsageError, match="handle_tool_errors=3: give True"):
        answer(boom, handle_errors=3)


def test_arguments_that_do_not_fit_are_a_failure_like_others():
    """With `handle_errors=False` they are raised, as our error with pydantic's inside; a class may name it."""
    with pytest.raises(ToolInvocationError) as caught:
        answer(weather, {}, handle_errors=False)
    assert isinstance(caught.value.source, ValidationError)
    assert answer(weather, {}, handle_errors=ToolInvocationError).status == "error"
    with pytest.raises(ToolInvocationError):
        answer(weather, {}, handle_errors=ValueError)


def test_the_tool_decides_first():
    @tool(handle_tool_error=lambda error: [f"own {error}"])
    def fail() -> str:
        """Fail."""
        raise ToolException("x")

    assert answer(fail, handle_errors=False).content == '["own x"]'
    fail.handle_tool_error = True
    assert answer(fail, handle_errors=False).content == fail.invoke({}) == "x"
    strict = tool("weather", handle_validation_error=True)(forecast)
    assert answer(strict, {}, handle_errors=False).content.startswith("The arguments of tool 'weather' do not fit")
    strict.handle_validation_error = lambda error: f"{type(error).__name__}"
    assert answer(strict, {}, handle_errors=False).content == strict.invoke({}) == "ValidationError"
    assert answer(strict, [], handle_errors=False).content == "ToolInvocationError"
    strict.handle_validation_error = "bad input"
    message = strict.invoke(call("weather", {"town": 1}))
    assert (message.content, message.status, strict.invoke({"town": 1})) == ("bad input", "error", "bad input")


class Pause(GraphBubbleUp):
    pass


@pytest.mark.parametrize(("world", "kind"), [("blocking", Pause), ("blocking", KeyboardInterrupt), ("aio", Pause)])
def test_control_flow_passes(world, kind):
    @tool
    def stop() -> str:
        """Stop."""
        raise kind

    with pytest.raises(kind):
        answer(stop, {}, world)


@both_worlds
def test_time_is_up(world):
    """A paired error result, for a plain function too; the function is left behind."""
    over = threading.Event()

    @tool(timeout_s=0.01)
    def sleepy() -> str:
        """Sleep."""
        over.wait(5)
        return "late"

    @tool(timeout_s=0.01)
    async def drowsy() -> str:
        """Sleep."""
        await asyncio.sleep(5)
        return "late"

    @tool(timeout_s=5)
    def own() -> str:
        """Own."""
        raise TimeoutError("the server's")

    for one in (sleepy, drowsy):
        message = answer(one, {}, world)
        assert message.content == f"Tool '{one.name}' failed: TimeoutError: it was not done within 0.01 s"
        assert (message.status, message.tool_call_id) == ("error", "c1")
    over.set()
    assert answer(own, {}, world).content == "Tool 'own' failed: TimeoutError: the server's"


# --- calls that cannot be made ------------------------------------------------


@pytest.mark.parametrize("name", ["nope", "invalid tool", "", None])
def test_B04_unknown_tools(name):
    """The error result names those that exist."""
    message = unknown_tool_message({"name": name, "args": {}, "id": "c1"}, ["weather", "boom"])
    assert message.content == f"There is no tool named {name or ''!r}. Tools that exist: boom, weather."
    assert (message.name, message.tool_call_id, message.status) == (name or None, "c1", "error")
    assert unknown_tool_message({"name": name, "args": {}, "id": None}, []).text.endswith("There are no tools.")


def test_invalid_calls():
    bad = {"name": "weather", "args": '{"city": ', "id": "c1", "error": "it breaks off", "type": "invalid_tool_call"}
    message = invalid_call_message(bad)
    assert message.content == (
        "The call of tool 'weather' cannot be read: it breaks off. Call it again with a JSON object as arguments."
    )
    assert (message.name, message.tool_call_id, message.status) == ("weather", "c1", "error")
    message = invalid_call_message({"name": None, "args": None, "id": None, "error": None})
    assert (message.name, message.tool_call_id) == (None, "")


# --- callbacks ----------------------------------------------------------------


class Listener(BaseCallbackHandler):
    raise_error = True

    def __init__(self):
        self.heard = []

    def on_tool_start(self, serialized, input_str, **more):
        self.heard.append(("start", serialized["name"], input_str, more["inputs"], more["tool_call_id"], more["tags"]))
        self.run_id, self.parent, self.metadata = more["run_id"], more["parent_run_id"], more["metadata"]

    def on_tool_end(self, output, **more):
        assert more["run_id"] == self.run_id
        self.heard.append(("end", output.content if isinstance(output, ToolMessage) else output))

    def on_tool_error(self, error, **more):
        self.heard.append(("error", type(error).__name__))


@both_worlds
def test_callbacks_hear_of_a_call(world):
    seen = []

    @tool(tags=["own"], metadata={"k": 1})
    def f(q: str) -> str:
        """F."""
        seen.append(parent_run.get())
        return q

    ear, own = Listener(), Listener()
    f.callbacks = [own]
    message = answer(f, {"q": "ü"}, world, config={"callbacks": [ear], "tags": ["t"]})
    assert message.content == "ü"
    assert ear.heard == [("start", "f", '{"q": "ü"}', {"q": "ü"}, "c1", ["t", "own"]), ("end", "ü")]
    assert (own.heard, ear.metadata, ear.parent) == (ear.heard, {"k": 1}, None)
    assert seen == [ear.run_id]
    assert parent_run.get() is None


@both_worlds
def test_callbacks_hear_of_failures(world):
    """What was handled by the tool itself is an end, everything else an error, raised or not."""
    ear = Listener()
    config: RunnableConfig = {"callbacks": [ear]}
    assert answer(boom, {}, world, config=config).status == "error"
    with pytest.raises(ValueError, match="kaput"):
        answer(boom, {}, world, config=config, handle_errors=False)
    with pytest.raises(ValueError, match="kaput"):
        boom.invoke({}, config)
    handled = tool("weather", handle_validation_error="bad")(forecast)
    assert answer(handled, "no json", world, config=config).content == handled.invoke({}, config) == "bad"
    assert [event[:2] for event in ear.heard] == [
        ("start", "boom"), ("error", "ValueError"), ("start", "boom"), ("error", "ValueError"),
        ("start", "boom"), ("error", "ValueError"), ("start", "weather"), ("end", "bad"),
        ("start", "weather"), ("end", "bad"),
    ]  # fmt: skip


def test_callbacks_hear_of_a_tool_invoked_by_hand():
    ear = Listener()
    config: RunnableConfig = {"callbacks": [ear], "run_id": "12345678-1234-1234-1234-123456789abc"}
    assert weather.invoke("Oslo", config) == "Oslo False"
    assert ear.heard == [("start", "weather", '{"city": "Oslo"}', {"city": "Oslo"}, None, []), ("end", "Oslo False")]
    assert str(ear.run_id) == "12345678-1234-1234-1234-123456789abc"


# --- cancelling ---------------------------------------------------------------


async def test_a_cancelled_call_raises():
    """Cancelling is never an error result."""
    began = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        began.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.create_task(call_tool(hang, call("hang"), AioPort()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
