"""Reviews of tool calls: what a person decides is what is stored, what runs, and what the model is told."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidAnswerError, UsageError
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call, use
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, stream, thread

ALL = ["approve", "edit", "reject", "respond"]


class Bench:
    """An agent whose `send` is reviewed and whose `look` is not, and what these have done."""

    def __init__(self, *calls: Any, on: Any = True, more: Any = (), **options: Any) -> None:
        self.effects: list[str] = []

        @tool
        def send(to: str, count: int = 1) -> str:
            """Send."""
            self.effects.append(f"{to} x{count}")
            return f"sent to {to}"

        @tool
        def look(at: str) -> str:
            """Look."""
            self.effects.append(f"looked at {at}")
            return at

        self.model = ScriptedModel(use(*(calls or [call("send", {"to": "Ada"}, "c1")])), "done", *more)
        review = HumanInTheLoopMiddleware({"send": on}, **options)
        self.agent = create_agent(self.model, [send, look], middleware=[review], checkpointer=InMemorySaver())

    def start(self, world: World) -> Any:
        return invoke(self.agent, world, config=thread())

    def decide(self, world: World, *decisions: Any) -> Any:
        return invoke(self.agent, world, Command(resume={"decisions": list(decisions)}), thread())


def approve() -> Any:
    return {"type": "approve"}


@tool
def nothing() -> str:
    """Do nothing."""
    return "nothing"


def edit(name: str = "send", **args: Any) -> Any:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


@both_worlds
def test_the_question_says_what_would_run_and_what_may_be_decided(world: World):
    bench = Bench()
    (asked,) = bench.start(world).interrupts
    assert asked.value == {
        "action_requests": [
            {
                "name": "send",
                "args": {"to": "Ada"},
                "description": "Tool execution requires approval\n\nTool: send\nArgs: {'to': 'Ada'}",
            }
        ],
        "review_configs": [{"action_name": "send", "allowed_decisions": ALL}],
    }
    assert bench.effects == []
    assert bench.decide(world, approve()).text == "done"
    assert bench.effects == ["Ada x1"]
    assert len(bench.model.requests) == 2


@both_worlds
def test_B34_an_edit_is_what_is_stored_what_runs_and_what_the_model_is_told(world: World):
    bench = Bench()
    first = bench.start(world)["messages"][-1]
    result = bench.decide(world, edit(to="Bob", count=2))
    assert bench.effects == ["Bob x2"]
    stored, told = result["messages"][1], bench.model.requests[-1].messages[1]
    assert [message.tool_calls[0]["args"] for message in (stored, told)] == [{"to": "Bob", "count": 2}] * 2  # pyright: ignore[reportAttributeAccessIssue]
    assert first.tool_calls[0]["args"] == {"to": "Ada"}, "the caller's message is not changed"
    assert result["messages"][2].text == (
        "A person changed this call before it ran. This is the result of the call as changed.\n\nsent to Bob"
    )


@both_worlds
def test_an_edit_may_name_another_tool(world: World):
    bench = Bench(edit_notice=None)
    bench.start(world)
    result = bench.decide(world, edit("look", at="it"))
    assert bench.effects == ["looked at it"]
    assert (result["messages"][1].tool_calls[0]["name"], result["messages"][2].text) == ("look", "it")


@both_worlds
def test_blocks_that_repeat_a_call_are_edited_along(world: World):
    block = {"type": "tool_use", "id": "c1", "name": "send", "input": {"to": "Ada"}}
    reply = AIMessage([{"type": "text", "text": "I send"}, block], tool_calls=[call("send", {"to": "Ada"}, "c1")])
    bench = Bench()
    bench.model = ScriptedModel(reply, "done")
    agent = create_agent(
        bench.model,
        list(bench.agent.tools.values()),
        middleware=[HumanInTheLoopMiddleware({"send": True})],
        checkpointer=InMemorySaver(),
    )
    invoke(agent, world, config=thread())
    result = invoke(agent, world, Command(resume={"decisions": [edit(to="Bob")]}), thread())
    assert result["messages"][1].content[1] == {**block, "input": {"to": "Bob"}}


@both_worlds
def test_a_rejected_call_never_runs_and_its_siblings_do(world: World):
    bench = Bench(call("send", {"to": "Ada"}, "c1"), call("look", {"at": "x"}, "c2"), call("send", {"to": "Bob"}, "c3"))
    (asked,) = bench.start(world).interrupts
    assert [action["args"]["to"] for action in asked.value["action_requests"]] == ["Ada", "Bob"]
    assert bench.effects == []
    result = bench.decide(world, {"type": "reject", "message": "not her"}, approve())
    assert sorted(bench.effects) == ["Bob x1", "looked at x"]
    results = {message.tool_call_id: message for message in result["messages"] if message.type == "tool"}
    assert (results["c1"].status, results["c1"].text) == ("error", "The user rejected the call of 'send': not her")
    assert (results["c2"].text, results["c3"].text) == ("x", "sent to Bob")
    assert is_valid(result["messages"])


@both_worlds
def test_a_rejection_without_reason_goes_back_to_the_model(world: World):
    bench = Bench()
    bench.start(world)
    result = bench.decide(world, {"type": "reject"})
    assert shown(result["messages"])[2:] == [
        (
            "tool",
            "The user rejected the call of 'send'. Do not call it again in the same way unless you are asked to.",
        ),
        ("ai", "done"),
    ]


@both_worlds
def test_a_person_answers_in_the_tools_place(world: World):
    bench = Bench()
    bench.start(world)
    result = bench.decide(world, {"type": "respond", "message": "I did it"})
    assert bench.effects == []
    assert (result["messages"][2].text, result["messages"][2].status) == ("I did it", "success")


@both_worlds
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"decisions": [approve(), approve()]}, "has 1 actions, and the answer 2 decisions"),
        ({"decisions": []}, "has 1 actions, and the answer 0 decisions"),
        ("yes", "The answer 'yes' holds no decisions"),
        ({"decisions": ["approve"]}, "holds no decisions"),
        ({"decisions": [{"type": "ok"}]}, "decision 'ok' is not allowed for tool 'send'; 'approve', 'edit'"),
        ({"decisions": [edit(to="Ada", count="many")]}, r"The edited call does not fit(.|\n)*count"),
        (
            {"decisions": [edit("nope", to="Ada")]},
            "names tool 'nope', which this agent does not have; it has 'look', 'send'",
        ),
        ({"decisions": [{"type": "edit"}]}, "needs the whole call"),
        ({"decisions": [{"type": "respond"}]}, "needs the result"),
        ({"decisions": [{"type": "edit", "edited_action": {"name": ["x"], "args": {}}}]}, "needs the whole call"),
        ({"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {1: 2}}}]}, "needs the whole call"),
    ],
)
def test_a_wrong_answer_is_the_callers_to_see_and_may_be_given_again(world: World, answer: Any, words: str):
    bench = Bench()
    asked = bench.start(world).interrupts
    with pytest.raises(InvalidAnswerError, match=words):
        invoke(bench.agent, world, Command(resume=answer), thread())
    assert bench.agent.get_state(thread()).interrupts == asked
    assert bench.decide(world, approve()).text == "done"
    assert bench.effects == ["Ada x1"]


@both_worlds
def test_an_edit_with_a_name_that_the_tool_does_not_take_is_refused(world: World):
    """The tool has a default, which is not what anybody decided."""
    removed: list[str] = []

    @tool
    def rm(runtime: ToolRuntime, path: str = "/") -> str:
        """Remove."""
        removed.append(path)
        return f"removed {path}"

    agent = create_agent(
        ScriptedModel(use(call("rm", {"path": "/tmp/a", "more": 1})), "done"),
        [rm],
        middleware=[HumanInTheLoopMiddleware(["rm"])],
        checkpointer=InMemorySaver(),
    )
    invoke(agent, world, config=thread())
    with pytest.raises(InvalidAnswerError, match=r"does not fit(.|\n)*not known here: Path \(it takes: path\)"):
        invoke(agent, world, Command(resume={"decisions": [edit("rm", Path="/tmp/b")]}), thread())
    assert removed == []
    fine = edit("rm", path="/tmp/b", runtime="what the program fills is dropped, as it is of a model")
    invoke(agent, world, Command(resume={"decisions": [fine]}), thread())
    assert removed == ["/tmp/b"]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    path: str = Field("/", alias="where")


LOOSE = {"type": "object", "properties": {"where": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "args", "fits"),
    [
        (Loose, {"where": "a", "more": 1}, True),
        (LOOSE, {"where": "a"}, True),
        (LOOSE, {"where": "a", "more": 1}, False),
        ({**LOOSE, "additionalProperties": False}, {"more": 1}, False),
        ({**LOOSE, "additionalProperties": True}, {"more": 1}, True),
        ({**LOOSE, "patternProperties": {"^m": {}}}, {"more": 1}, True),
        ({"type": "object"}, {"more": 1}, True),
    ],
)
def test_an_edit_may_have_more_names_where_the_schema_says_so(schema: Any, args: Any, fits: bool):
    given: list[Any] = []

    @tool(args_schema=schema)
    def open_ended(**named: Any) -> str:
        """Take anything."""
        given.append(named)
        return "ok"

    agent = create_agent(
        ScriptedModel(use(call("open_ended")), "done"),
        [open_ended],
        middleware=[HumanInTheLoopMiddleware({"open_ended": True})],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": "go"}, thread())
    answer = Command(resume={"decisions": [edit("open_ended", **args)]})
    if fits:
        agent.invoke(answer, thread())
        assert [set(named) - {"path"} for named in given] == [set(args) - {"where"} if schema is Loose else set(args)]
    else:
        with pytest.raises(InvalidAnswerError, match=r"not known here: more \(it takes: where\)"):
            agent.invoke(answer, thread())


@both_worlds
def test_what_may_be_decided_can_be_narrowed_and_described(world: World):
    schema = {"type": "object"}
    config = {
        "allowed_decisions": ["approve", "reject"],
        "description": lambda call, state, runtime: f"{call['name']}? ({len(state['messages'])})",
        "args_schema": schema,
    }
    bench = Bench(on=config)
    (asked,) = bench.start(world).interrupts
    assert asked.value["action_requests"][0]["description"] == "send? (2)"
    assert asked.value["review_configs"] == [
        {"action_name": "send", "allowed_decisions": ["approve", "reject"], "args_schema": schema}
    ]
    with pytest.raises(InvalidAnswerError, match="'edit' is not allowed"):
        bench.decide(world, edit(to="Bob"))


@both_worlds
def test_a_condition_says_which_calls_are_reviewed(world: World):
    config = {"allowed_decisions": ["approve"], "when": lambda request: request.tool_call["args"]["count"] > 1}
    bench = Bench(call("send", {"to": "Ada", "count": 1}), call("send", {"to": "Bob", "count": 9}), on=config)
    (asked,) = bench.start(world).interrupts
    assert [action["args"]["to"] for action in asked.value["action_requests"]] == ["Bob"]
    bench.decide(world, approve())
    assert sorted(bench.effects) == ["Ada x1", "Bob x9"]


@both_worlds
def test_per_call_there_is_a_question_for_each(world: World):
    bench = Bench(call("send", {"to": "Ada"}, "c1"), call("send", {"to": "Bob"}, "c2"), interrupt_mode="per_call")
    first, second = bench.start(world).interrupts
    assert first.value["action_requests"][0]["args"] == {"to": "Ada"}
    left = invoke(bench.agent, world, Command(resume={second.id: {"decisions": [edit(to="Eve")]}}), thread())
    assert (left.interrupts, bench.effects) == ((first,), [])
    invoke(bench.agent, world, Command(resume={"type": "approve"}), thread())
    assert sorted(bench.effects) == ["Ada x1", "Eve x1"]


@both_worlds
def test_False_and_tools_that_are_not_named_run_through(world: World):
    bench = Bench(on=False)
    assert bench.start(world).text == "done"
    bench = Bench(call("look", {"at": "x"}))
    assert bench.start(world).text == "done"


@both_worlds
def test_reviews_are_shown_in_streams(world: World):
    bench = Bench()
    chunks = stream(bench.agent, world, config=thread(), stream_mode="updates")
    assert [list(chunk) for chunk in chunks] == [["model"], ["__interrupt__"]]
    chunks = stream(bench.agent, world, Command(resume={"decisions": [approve()]}), thread(), stream_mode="updates")
    assert [next(iter(chunk)) for chunk in chunks] == [
        "HumanInTheLoopMiddleware.after_model",
        "tools",
        "model",
        "HumanInTheLoopMiddleware.after_model",
    ]


def test_without_a_checkpointer_the_model_is_not_asked():
    model = ScriptedModel("never")
    agent = create_agent(model, [nothing], middleware=[HumanInTheLoopMiddleware({"nothing": True})])
    with pytest.raises(UsageError, match="HumanInTheLoopMiddleware needs a checkpointer"):
        agent.invoke({"messages": "hi"})
    assert model.requests == []


@pytest.mark.parametrize("wrong", ["yes", {}, {"allowed_decisions": ["maybe"]}, {"allowed_decisions": []}, 3])
def test_a_wrong_configuration_is_refused(wrong: Any):
    with pytest.raises(UsageError, match=r"interrupt_on\['send'\]"):
        HumanInTheLoopMiddleware({"send": wrong})


@pytest.mark.parametrize("names", [["send"], ("send",)])
def test_a_list_of_names_means_all_decisions(names: Any):
    assert HumanInTheLoopMiddleware(names).interrupt_on == HumanInTheLoopMiddleware({"send": True}).interrupt_on


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("send", r"is a str: .* Write interrupt_on=\{'send': True\}, or \['send'\]"),
        (["send", 3], r"is a list: .* Write interrupt_on=\{\"my_tool\": True\}, or \[\"my_tool\"\]"),
        (None, "is a NoneType"),
    ],
)
def test_what_is_no_map_and_no_list_of_names_is_refused(wrong: Any, words: str):
    with pytest.raises(UsageError, match=words):
        HumanInTheLoopMiddleware(wrong)


class Brings(AgentMiddleware[Any, Any, Any]):
    """Has a tool of its own."""

    tools = (nothing,)


class Runs(AgentMiddleware[Any, Any, Any]):
    """May run tools that nobody has heard of before."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return handler(request)


ENDING = {"type": "function", "function": {"name": "ending", "parameters": {"type": "object", "properties": {}}}}


def reviewed(*names: str, middleware: Any = (), **options: Any) -> Any:
    """An agent with these names under review, and what its middlewares and the provider bring."""
    review = HumanInTheLoopMiddleware(dict.fromkeys(names, True))
    return create_agent(ScriptedModel(), [ENDING], middleware=[review, *middleware], **options)


def test_a_review_of_a_tool_that_is_not_there_is_refused_when_the_agent_is_made():
    with pytest.raises(UsageError, match=r"names 'endnig', which .*; its tools are 'ending'\. Did you mean 'ending'\?"):
        reviewed("endnig")
    with pytest.raises(UsageError, match=r"names 'other', .*; its tools are 'nothing', 'ending'\.$"):
        reviewed("ending", "other", middleware=[Brings()])
    with pytest.raises(UsageError, match=r"names 'other', .*; it has no tools"):
        create_agent(ScriptedModel(), middleware=[HumanInTheLoopMiddleware(["other"])])
    create_agent(ScriptedModel(), middleware=[HumanInTheLoopMiddleware({"other": False})])


def test_tools_that_middlewares_and_providers_bring_may_be_reviewed():
    reviewed("ending", "nothing", middleware=[Brings()])


@pytest.mark.parametrize(
    "given", [Loose, ToolStrategy(Loose), ToolStrategy(Loose | list[int]), ProviderStrategy(Loose)]
)
def test_a_review_of_the_answer_is_refused_when_the_agent_is_made(given: Any):
    for middleware in ([], [Runs()]):
        with pytest.raises(UsageError, match=r"names 'Loose', which is the form of the answer.*return_direct=True"):
            reviewed("ending", "Loose", response_format=given, middleware=middleware)
    reviewed("ending", response_format=given)


@both_worlds
def test_a_review_of_an_answer_that_a_hook_asks_for_is_refused(world: World):
    class Forms(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(response_format=ToolStrategy(Loose)))

    agent = create_agent(
        ScriptedModel(call("Loose", where="/tmp")),
        [nothing],
        middleware=[HumanInTheLoopMiddleware(["nothing", "Loose"]), Forms(), Runs()],
        checkpointer=InMemorySaver(types=[Loose]),
    )
    with pytest.raises(UsageError, match="names 'Loose', which is the form of the answer"):
        invoke(agent, world, config=thread())


@both_worlds
def test_a_tool_in_the_place_of_an_answer_is_reviewed(world: World):
    @tool(return_direct=True)
    def submit(name: str) -> str:
        """Give the answer."""
        return name

    model = ScriptedModel(call("submit", name="Ada"), call("submit", name="Bob"))
    review = HumanInTheLoopMiddleware(["submit"], edit_notice=None)
    agent = create_agent(model, [submit], middleware=[review], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    result = invoke(agent, world, Command(resume={"decisions": [{"type": "reject", "message": "not her"}]}), thread())
    assert (len(result.interrupts), result["messages"][2].text.endswith(": not her")) == (1, True)
    edited = {"type": "edit", "edited_action": {"name": "submit", "args": {"name": "Eve"}}}
    result = invoke(agent, world, Command(resume={"decisions": [edited]}), thread())
    assert (result.text, result.stop_reason) == ("Eve", "return_direct")


def test_where_a_hook_may_bring_tools_only_a_slip_is_refused():
    reviewed("other", middleware=[Runs()])
    reviewed("ending", "endings", middleware=[Runs()])
    with pytest.raises(UsageError, match="Did you mean 'ending'"):
        reviewed("endings", middleware=[Runs()])


def test_a_wrong_mode_is_refused():
    with pytest.raises(UsageError, match="per_call"):
        HumanInTheLoopMiddleware({"send": True}, interrupt_mode="each")  # type: ignore[arg-type]


@both_worlds
def test_the_reviewed_agent_in_a_tool_of_another(world: World):
    bench = Bench()

    @tool
    async def delegate() -> str:
        """Delegate."""
        return (await inner.ainvoke({"messages": "go"})).text

    inner = create_agent(
        bench.model,
        list(bench.agent.tools.values()),
        middleware=[HumanInTheLoopMiddleware({"send": True})],
    )
    outer = create_agent(ScriptedModel(use(call("delegate")), "all done"), [delegate], checkpointer=InMemorySaver())
    assert len(invoke(outer, world, config=thread()).interrupts) == 1
    with pytest.raises(InvalidAnswerError):
        invoke(outer, world, Command(resume="yes"), thread())
    assert invoke(outer, world, Command(resume={"decisions": [approve()]}), thread()).text == "all done"
    assert bench.effects == ["Ada x1"]


@both_worlds
def test_calls_of_one_id_are_told_apart(world: World):
    """The rejected one never runs, the approved one does."""
    bench = Bench(call("send", {"to": "Ada"}, "same"), call("send", {"to": "Bob"}, "same"))
    bench.start(world)
    result = bench.decide(world, approve(), {"type": "reject", "message": "never Bob"})
    assert bench.effects == ["Ada x1"]
    assert is_valid(result["messages"])


@both_worlds
def test_what_a_caller_does_to_a_question_changes_nothing(world: World):
    bench = Bench()
    bench.start(world).interrupts[0].value["action_requests"][0]["args"]["to"] = "Eve"
    bench.decide(world, approve())
    assert bench.effects == ["Ada x1"]


@both_worlds
@pytest.mark.parametrize("given", [{"decisions": [{"type": "approve"}]}, {"resume": "yes"}, {}])
def test_an_answer_without_its_command_is_refused(world: World, given: Any):
    bench = Bench()
    asked = bench.start(world).interrupts
    with pytest.raises(UsageError, match=r"waits for an answer.*Command\(resume=…\)"):
        invoke(bench.agent, world, given, thread())
    assert bench.agent.get_state(thread()).interrupts == asked


@both_worlds
def test_an_edit_may_give_a_strict_argument_as_json_does(world: World):
    @tool
    def book(day: Annotated[date, Field(strict=True)]) -> str:
        """Book."""
        return f"booked {day!r}"

    agent = create_agent(
        ScriptedModel(call("book", day="2024-02-29"), "done"),
        [book],
        middleware=[HumanInTheLoopMiddleware(["book"])],
        checkpointer=InMemorySaver(),
    )
    invoke(agent, world, config=thread())
    with pytest.raises(InvalidAnswerError, match="day"):
        invoke(agent, world, Command(resume={"decisions": [edit("book", day="2024-02-30")]}), thread())
    result = invoke(agent, world, Command(resume={"decisions": [edit("book", day="2024-03-01")]}), thread())
    assert result["messages"][-2].text.endswith("booked datetime.date(2024, 3, 1)")
