"""What people write by mistake, and the words that show the right call: the table of docs/errors.md, row by row."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware, before_model, wrap_model_call, wrap_tool_call
from loopwright.chat_models import init_chat_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import (
    EmptyInputError,
    InputTypeError,
    InvalidUpdateError,
    MissingExtraError,
    ToolDefinitionError,
    UsageError,
)
from loopwright.messages import AIMessage, HumanMessage
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from loopwright.types import Command
from tests.agents import test_known_slips as slips
from tests.agents.worlds import both_worlds, stream, thread

RIGHT_CALL = 'agent.invoke({"messages": [{"role": "user", "content": "…"}]})'
TOKENS = 'for token, metadata in agent.stream(input, stream_mode="messages"): print(token.text)'
GIVEN = {"messages": "hi"}


def make(**options: Any) -> Any:
    return create_agent(ScriptedModel(say(chunks=["a", "b"]), loop=True), **options)


def with_thread() -> Any:
    return make(checkpointer=InMemorySaver())


def run(agent: Any, world: str, *given: Any) -> Any:
    """`invoke` or `ainvoke` with just these arguments."""
    return agent.invoke(*given) if world == "sync" else asyncio.run(agent.ainvoke(*given))


# -- input ----------------------------------------------------------------------------------------------------------


@both_worlds
def test_a_string(world):
    with pytest.raises(InputTypeError) as raised:
        run(make(), world, "hi")
    assert isinstance(raised.value, TypeError)
    assert "agent.invoke({\"messages\": 'hi'})" in str(raised.value)
    assert RIGHT_CALL in str(raised.value)


@both_worlds
@pytest.mark.parametrize("given", [{}, {"messages": []}, {"message": "hi"}], ids=str)
def test_no_messages(world, given):
    with pytest.raises(EmptyInputError) as raised:
        run(make(), world, given)
    assert RIGHT_CALL in str(raised.value)
    assert isinstance(raised.value, ValueError)
    if "message" in given:
        assert "'message'" in str(raised.value)


@both_worlds
def test_none_on_a_fresh_thread(world):
    with pytest.raises(EmptyInputError) as raised:
        run(with_thread(), world, None, thread())
    assert "this thread has nothing saved yet" in str(raised.value)
    assert RIGHT_CALL[:-1] + ", config)" in str(raised.value)


@both_worlds
def test_none_without_a_checkpointer(world):
    with pytest.raises(EmptyInputError, match="this agent has no checkpointer"):
        run(make(), world, None)


@both_worlds
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (HumanMessage("hi"), 'agent.invoke({"messages": [message]}); it got a bare HumanMessage'),
        ([HumanMessage("hi")], 'agent.invoke({"messages": [...]}); it got a bare list'),
        (("user", "hi"), 'agent.invoke({"messages": [...]}); it got a bare tuple'),
        (3, "it got int: 3"),
    ],
    ids=["message", "list", "tuple", "number"],
)
def test_a_bare_message(world, given, words):
    with pytest.raises(InputTypeError) as raised:
        run(make(), world, given)
    assert words in str(raised.value)


@both_worlds
def test_a_message_that_is_none(world):
    with pytest.raises(UsageError, match=r"messages\[0\]"):
        run(make(), world, {"messages": [{"rôle": "user", "content": "hi"}]})


# -- the result -----------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("name", ["content", "output", "message", "final_output", "response"])
def test_result_content(world, name):
    with pytest.raises(AttributeError) as raised:
        getattr(run(make(), world, GIVEN), name)
    assert "Write result.text for the text of the answer" in str(raised.value)


@both_worlds
def test_result_messages(world):
    with pytest.raises(AttributeError, match=r"write result\['messages'\]"):
        _ = run(make(), world, GIVEN).messages


# -- threads --------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "With InMemorySaver each run belongs to a thread, and the config names none."),
        ({"thread_id": "1"}, 'belongs to a thread; its thread_id belongs inside of "configurable".'),
        ({"configurable": {"thread_id": ""}}, "The config's thread_id is empty."),
        ({"configurable": {"thread_id": 1}}, "is of type int (1); it must be a str: str(...)."),
        ({"configurable": {"thread_id": None}}, "the config names none."),
    ],
    ids=["missing", "at the top", "empty", "a number", "none"],
)
def test_thread_id(world, config, words):
    """Told before the model is asked."""
    model = ScriptedModel("never")
    with pytest.raises(UsageError) as raised:
        run(create_agent(model, checkpointer=InMemorySaver()), world, GIVEN, config)
    assert words in str(raised.value)
    assert 'Write invoke(..., {"configurable": {"thread_id": "1"}}).' in str(raised.value)
    assert model.requests == []


@pytest.mark.parametrize(
    ("checkpointer", "words"),
    [
        (InMemorySaver, "make one: checkpointer=InMemorySaver()."),
        (True, "Write checkpointer=InMemorySaver()."),
        ("x.db", "checkpointer=SqliteSaver(path). Write: from loopwright.checkpoint.sqlite import SqliteSaver"),
        (object(), "is no checkpoint saver (a object)"),
    ],
    ids=["class", "True", "text", "object"],
)
def test_a_checkpointer_that_is_none(checkpointer, words):
    with pytest.raises(UsageError) as raised:
        make(checkpointer=checkpointer)
    assert words in str(raised.value)


def test_a_checkpointer_that_was_not_entered():
    import contextlib

    @contextlib.contextmanager
    def from_conn_string(path: str) -> Any:
        yield InMemorySaver()

    with pytest.raises(UsageError, match=r"with SqliteSaver.from_conn_string"):
        make(checkpointer=from_conn_string(":memory:"))


# -- streams --------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("mode", ["token", "tokens", "message", ["updates", "token"]], ids=str)
def test_a_stream_mode_that_does_not_exist(world, mode):
    with pytest.raises(UsageError) as raised:
        stream(make(), world, stream_mode=mode)
    assert "The modes are 'values', 'updates', 'messages', 'structured', 'custom'" in str(raised.value)
    if "token" in str(mode):
        assert 'Single tokens come with stream_mode="messages".' in str(raised.value)


@both_worlds
@pytest.mark.parametrize("name", ["content", "text"])
def test_tokens_expected_from_the_default_mode(world, name):
    (chunk,) = stream(make(), world)
    with pytest.raises(AttributeError) as raised:
        getattr(chunk, name)
    assert TOKENS in str(raised.value)


@both_worlds
def test_a_chunk_taken_for_the_answer(world):
    (chunk,) = stream(make(), world)
    with pytest.raises(KeyError) as raised:
        chunk["messages"]
    assert "Write chunk['model']['messages']" in raised.value.args[0]
    assert "result = agent.invoke(input)" in raised.value.args[0]


@both_worlds
def test_the_loop_of_tokens_around_the_updates(world):
    async def read() -> None:
        async for chunk, meta in make().astream(GIVEN):
            print(chunk, meta)

    with pytest.raises(TypeError) as raised:
        if world == "sync":
            for chunk, meta in make().stream(GIVEN):
                print(chunk, meta)
        else:
            asyncio.run(read())
    assert TOKENS in str(raised.value)


@both_worlds
@pytest.mark.parametrize("name", ["items", "content", "text"])
def test_the_loop_of_updates_around_pairs(world, name):
    chunk = stream(make(), world, stream_mode="messages")[0]
    with pytest.raises(AttributeError) as raised:
        getattr(chunk, name)
    assert TOKENS in str(raised.value)


def test_chunks_are_plain_to_everybody_else():
    """The help is for mistakes only: dicts and tuples like others, equal to them."""
    (update,) = stream(make(), "sync")
    token, meta = pair = stream(make(), "sync", stream_mode="messages")[0]
    assert (update == dict(update), isinstance(update, dict), list(update)) == (True, True, ["model"])
    assert (pair == (token, meta), isinstance(pair, tuple), pair[0] is token) == (True, True, True)


# -- the two worlds -------------------------------------------------------------------------------------------------


def test_a_plain_loop_around_astream():
    with pytest.raises(TypeError) as raised:
        for _ in make().astream(GIVEN):
            pass
    assert "write `async for chunk in agent.astream(input)`" in str(raised.value)
    assert "without asyncio `for chunk in agent.stream(input)`" in str(raised.value)


def test_what_python_says_itself():
    """The words that docs/errors.md quotes. A result or a stream that claimed to be asynchronous, so as to say more,
    would be awaited by every program that takes plain and asynchronous functions alike.
    """

    async def awaited() -> None:
        await make().invoke(GIVEN)

    async def looped() -> None:
        async for _ in make().stream(GIVEN):
            pass

    async def indexed() -> None:
        running = make().ainvoke(GIVEN)
        try:
            _ = running["messages"]
        finally:
            running.close()

    said = []
    for mistake in (awaited, looped, indexed):
        with pytest.raises(TypeError) as raised:
            asyncio.run(mistake())
        said.append(str(raised.value).replace("can't be used in 'await' expression", "can't be awaited"))
    assert said == [
        "object AgentResult can't be awaited",
        "'async for' requires an object with __aiter__ method, got generator",
        "'coroutine' object is not subscriptable",
    ]


@both_worlds
@pytest.mark.parametrize("wrap", [wrap_model_call, wrap_tool_call], ids=["model", "tool"])
def test_an_await_that_a_hook_forgot(world, wrap):
    async def watch(request: Any, handler: Any) -> Any:
        return handler(request)

    def look() -> str:
        """Look."""
        return "seen"

    agent = create_agent(ScriptedModel(call("look"), "done"), [look], middleware=[wrap(watch)])
    with pytest.raises(UsageError) as raised:
        run(agent, world, GIVEN)
    assert "watch.wrap_" in str(raised.value)
    assert "an `await` is missing: write `return await handler(request)`" in str(raised.value)


# -- models ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_keys(monkeypatch):
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)


@pytest.mark.usefixtures("no_keys")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nobody:gpt", "no provider of models is called 'nobody'. Known: openai, "),
        ("some-model-nobody-knows", "provider:"),
        ("openai:gpt-4o-mini", "set OPENAI_API_KEY"),
        ("deepseek:deepseek-chat", "set DEEPSEEK_API_KEY"),
    ],
)
def test_a_model_string(name, words):
    """Of a provider that there is not, and of one whose key is missing."""
    with pytest.raises(UsageError) as raised:
        create_agent(name)
    assert words in str(raised.value)


def test_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(MissingExtraError) as raised:
        model = init_chat_model("local:/nowhere/model.gguf")
        model.invoke("hi")
    assert "pip install" in str(raised.value)
    assert "loopwright[local]" in str(raised.value)
    assert isinstance(raised.value, ImportError)


# -- middleware and tools -------------------------------------------------------------------------------------------


def test_two_middlewares_of_one_name():
    @before_model
    def trim(state: Any, runtime: Any) -> None: ...

    other = before_model(name="trim")(lambda state, runtime: None)
    with pytest.raises(UsageError) as raised:
        make(middleware=[trim, other])
    assert "two middlewares are named 'trim'" in str(raised.value)
    assert '`name="..."` to the decorator, or `.name = "..."` on the instance' in str(raised.value)

    class Count(AgentMiddleware):
        pass

    with pytest.raises(UsageError, match="named 'Count'"):
        make(middleware=[Count(), Count()])


def test_a_tool_without_a_description():
    def bare(x: int) -> int:
        return x

    with pytest.raises(ToolDefinitionError) as raised:
        make(tools=[bare])
    assert "Tool 'bare' has no description" in str(raised.value)
    assert "Write a docstring below `def bare`, or give description=..." in str(raised.value)


@pytest.mark.parametrize(
    ("middleware", "words"),
    [
        ([AgentMiddleware], r"give an instance: middleware=\[AgentMiddleware\(\)\]"),
        (AgentMiddleware(), r"middleware= takes a list"),
        ([lambda state, runtime: None], "Say with a decorator when it runs"),
    ],
    ids=["class", "no list", "function"],
)
def test_what_is_no_middleware(middleware, words):
    with pytest.raises(UsageError, match=words):
        make(middleware=middleware)


# -- what an agent is made of ---------------------------------------------------------------------------------------


def test_a_class_of_models():
    with pytest.raises(UsageError, match=r"ScriptedModel.*class.*ScriptedModel\("):
        create_agent(ScriptedModel)  # pyright: ignore[reportArgumentType]


def test_two_tools_of_one_name():
    def look() -> str:
        """Look."""
        return "seen"

    @tool("look")
    def stare() -> str:
        """Look for long."""
        return "seen"

    with pytest.raises(ToolDefinitionError) as raised:
        make(tools=[look, stare])
    assert str(raised.value).count("look") >= 2
    assert '@tool("' in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prompt": "a", "system_prompt": "b"}, "prompt= is another spelling of system_prompt="),
        ({"prompt": lambda state: "x"}, "use @dynamic_prompt"),
    ],
    ids=["both", "function"],
)
def test_prompts(options, words):
    with pytest.raises(UsageError, match=words):
        make(**options)


@both_worlds
def test_a_command_without_a_result(world):
    def put() -> Command[Any]:
        """Put."""
        return Command(update={"messages": []})

    agent = create_agent(ScriptedModel(call("put"), "done"), [put])
    result = run(agent, world, GIVEN)["messages"][2]
    assert (result.status, "ToolMessage" in result.text) == ("error", True)


def test_a_message_that_is_assigned_to():
    message = AIMessage("a")
    with pytest.raises(AttributeError, match=r"messages do not change: write message\.model_copy\(update="):
        message.content = "b"  # pyright: ignore[reportAttributeAccessIssue]


@both_worlds
def test_a_misspelled_key(world):
    @before_model
    def note(state: Any, runtime: Any) -> Any:
        return {"mesages": ["look"]}

    with pytest.raises(InvalidUpdateError, match=r"wrote 'mesages', .* Did you mean 'messages'\?"):
        run(make(middleware=[note]), world, GIVEN)


def test_checkpoints_without_a_checkpointer():
    with pytest.raises(UsageError, match=r"checkpointer=InMemorySaver\(\)"):
        make().stream(GIVEN, stream_mode="checkpoints")


# -- the page -------------------------------------------------------------------------------------------------------

ROWS: dict[str, Callable[..., Any]] = {
    '`agent.invoke("hi")`': test_a_string,
    '`agent.invoke(HumanMessage("hi"))`, a bare list': test_a_bare_message,
    '`agent.invoke({})`, `{"message": "hi"}`': test_no_messages,
    "`agent.invoke(None, config)` on a fresh thread": test_none_on_a_fresh_thread,
    "`agent.invoke(None)` without a checkpointer": test_none_without_a_checkpointer,
    '`agent.invoke(Command(resume="yes"), config)` on a fresh thread': slips.test_an_answer_on_a_fresh_thread,
    '`agent.invoke(Command(resume="yes"))` without a checkpointer': slips.test_an_answer_without_a_checkpointer,
    "the same answer twice, on a thread that has ended": slips.test_an_answer_given_twice,
    '`{"messages": [{"rôle": "user", …}]}`': test_a_message_that_is_none,
    'a misspelled key in an input or an update: `return {"mesages": […]}`': test_a_misspelled_key,
    "`result.messages`": test_result_messages,
    "`result.content`, `.output`, `.message`, `.response`, `.final_output`": test_result_content,
    'no `thread_id`, `{"thread_id": "1"}` at the top of `config`': test_thread_id,
    "`thread_id` empty or a number": test_thread_id,
    "`checkpointer=InMemorySaver`, `True`, a path, another object": test_a_checkpointer_that_is_none,
    "`checkpointer=` a context manager": test_a_checkpointer_that_was_not_entered,
    '`stream_mode="token"`, also in a list': test_a_stream_mode_that_does_not_exist,
    "`chunk.content`, `chunk.text` of the default mode": test_tokens_expected_from_the_default_mode,
    '`chunk["messages"]` of the default mode': test_a_chunk_taken_for_the_answer,
    "`for chunk, meta in agent.stream(input)`": test_the_loop_of_tokens_around_the_updates,
    '`chunk.items()`, `chunk.content`, `chunk.text` in `stream_mode="messages"`': test_the_loop_of_updates_around_pairs,
    '`agent.stream(input, "messages")`, `agent.invoke(input, "1")`': slips.test_a_mode_by_position_is_no_config,
    "`for chunk in agent.astream(input)`": test_a_plain_loop_around_astream,
    "`async for chunk in agent.stream(input)`": test_what_python_says_itself,
    "`await agent.invoke(input)`": test_what_python_says_itself,
    '`agent.ainvoke(input)["messages"]`': test_what_python_says_itself,
    "an async wrap hook: `return handler(request)`": test_an_await_that_a_hook_forgot,
    '`stream_mode="checkpoints"` without a checkpointer': test_checkpoints_without_a_checkpointer,
    '`create_agent("nobody:model")`': test_a_model_string,
    "a key is missing": test_a_model_string,
    "an extra is missing": test_a_missing_extra,
    "`create_agent(ScriptedModel)`": test_a_class_of_models,
    "two middlewares of one name": test_two_middlewares_of_one_name,
    "`middleware=[Counter]`": test_what_is_no_middleware,
    "`middleware=Counter()`": test_what_is_no_middleware,
    "`middleware=[function]`": test_what_is_no_middleware,
    '`interrupt_on={"lok": True}`, with a tool `look`': slips.test_a_review_of_a_tool_that_is_not_there,
    '`interrupt_on={"Place": True}` with `response_format=Place`': slips.test_a_review_of_the_answer,
    "a tool renamed while its question waits": slips.test_a_tool_that_was_renamed_while_its_question_waits,
    '`interrupt_on="look"`': slips.test_one_name_where_reviews_are_meant,
    '`tools=look`, `tools="look"`': slips.test_one_tool_where_a_list_is_meant,
    '`limits={"model_calls": 2}`, `limits=5`': slips.test_limits_that_are_none,
    "a tool without a docstring": test_a_tool_without_a_description,
    "two tools of one name": test_two_tools_of_one_name,
    "`prompt=` and `system_prompt=`": test_prompts,
    "`prompt=` given a function": test_prompts,
    "a tool that returns a `Command` without a result for its call": test_a_command_without_a_result,
    '`message.content = "…"`': test_a_message_that_is_assigned_to,
}
"""The first column, and the test of it."""


def test_each_row_of_the_page_has_its_test():
    page = (Path(__file__).parents[2] / "docs/errors.md").read_text(encoding="utf-8")
    table = page.partition("| written | told | right |\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert list(ROWS) == [row.split(" | ")[0].removeprefix("| ") for row in table]
