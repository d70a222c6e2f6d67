"""Loopwright's create_agent."""

import json
from functools import partial

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script

from loopwright.agents import Limits, create_agent
from loopwright.chat_models import BaseChatModel
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from loopwright.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from loopwright.tools import convert_to_openai_tool, tool

PACKAGES = ["loopwright"]
MODES = {"sync", "async"}
STREAMS = {"sync", "async"}
STORES = ["memory", "sqlite"]
SERVERS = ["postgres"]
SHARED_AGENT = True

# Counted as always, and never reached.
LIMITS = Limits(model_calls=10**6, tool_calls=10**6)

_USAGE = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}


class FakeChat(BaseChatModel):
    script: Script

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        """What a real chat model does there, and the agent asks for it before every model call."""
        return self.bind(tools=[convert_to_openai_tool(item) for item in tools], **kwargs)

    def _result(self, messages):
        reply = self.script.reply(messages[-1].content, len(messages))
        message = AIMessage(
            content=reply.text,
            tool_calls=[{"id": c.id, "name": c.name, "args": json.loads(c.arguments)} for c in reply.tool_calls],
            usage_metadata=_USAGE,
            response_metadata={"model_name": "fake"},
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return self._result(messages)

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        await self.script.wait()
        return self._result(messages)

    def _chunks(self, messages):
        reply = self.script.reply(messages[-1].content, len(messages))
        assert not reply.tool_calls
        chunks = self.script.chunks
        for word in chunks[:-1]:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        last = AIMessageChunk(content=chunks[-1], usage_metadata=_USAGE, chunk_position="last")
        yield ChatGenerationChunk(message=last)

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        yield from self._chunks(messages)

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        for chunk in self._chunks(messages):
            yield chunk


def prepare_tools(functions):
    return [tool(function) for function in functions]


def raw_tools(functions):
    return functions


def build(script, tools, **options):
    model = FakeChat(script=script)
    return create_agent(model, tools=tools, system_prompt=SYSTEM_PROMPT, limits=LIMITS, **options)


def _input(text):
    return {"messages": [HumanMessage(text)]}


def run(agent, text):
    return agent.invoke(_input(text))["messages"][-1].content


async def arun(agent, text):
    return (await agent.ainvoke(_input(text)))["messages"][-1].content


def stream(agent, text):
    for chunk, _ in agent.stream(_input(text), stream_mode="messages"):
        yield chunk.content


async def astream(agent, text):
    async for chunk, _ in agent.astream(_input(text), stream_mode="messages"):
        yield chunk.content


def wire(address):
    from loopwright.chat_models import ChatAnthropic, ChatGoogleGenerativeAI, ChatOpenAI

    openai = partial(ChatOpenAI, model="m", api_key="k", base_url=f"{address}/v1")
    models = {
        "openai-chat": openai(),
        "openai-responses": openai(use_responses_api=True),
        "anthropic": ChatAnthropic(model="m", api_key="k", base_url=address),
        "google": ChatGoogleGenerativeAI(model="m", api_key="k", base_url=address),
    }
    for format, model in models.items():
        for label, read in _readers(model):
            yield f"{format} {label}", read


def _readers(model):
    agent = create_agent(model, tools=[])

    def read_model():
        return sum(1 for _ in model.stream("x"))

    async def aread_model():
        return len([chunk async for chunk in model.astream("x")])

    def read():
        return sum(1 for _ in agent.stream(_input("x"), stream_mode="messages"))

    async def aread():
        return len([chunk async for chunk in agent.astream(_input("x"), stream_mode="messages")])

    yield "model sync", read_model
    yield "model async", aread_model
    yield "agent sync", read
    yield "agent async", aread


class Thread:
    def __init__(self, kind, path, script, tools):
        if kind == "memory":
            from loopwright.checkpoint.memory import InMemorySaver

            self.saver = InMemorySaver()
        elif kind == "postgres":
            from loopwright.checkpoint.postgres import PostgresSaver

            self.saver = PostgresSaver(path)
        else:
            from loopwright.checkpoint.sqlite import SqliteSaver

            self.saver = SqliteSaver(path)
        self.agent = build(script, tools, checkpointer=self.saver)
        self.config = {"configurable": {"thread_id": "t"}}

    def turn(self, text):
        return self.agent.invoke(_input(text), self.config)["messages"][-1].content

    def messages(self):
        from loopwright.messages import messages_to_dict

        return messages_to_dict(self.agent.get_state(self.config).values["messages"])

    def stored_bytes(self):
        """What the saver itself reports it holds."""
        return self.saver.size_report()["bytes"]

    def close(self):
        self.saver.close()


def _said(number):
    """A message of a conversation: in turn what a user, a model, a tool and a model say."""
    call = f"call_{(number - 1) // 4}"
    return (
        lambda: HumanMessage("Please look up the item and tell me what the table says of it.", id=f"m{number}"),
        lambda: AIMessage(
            "",
            id=f"m{number}",
            tool_calls=[{"id": call, "name": "lookup", "args": {"query": "round-0", "limit": 5}}],
            usage_metadata=_USAGE,
        ),
        lambda: ToolMessage("round-0: 5 rows", id=f"m{number}", tool_call_id=call, name="lookup"),
        lambda: AIMessage("word " * 20, id=f"m{number}", usage_metadata=_USAGE),
    )[(number - 1) % 4]()


class Store:
    """The saver alone: what the engine asks of it in a step."""

    def __init__(self, path):
        from loopwright.checkpoint.base import Record
        from loopwright.checkpoint.sqlite import SqliteSaver
        from loopwright.ids import new_ordered_id
        from loopwright.messages.history import add_messages

        self.saver, self.record, self.new_id, self.add = SqliteSaver(path), Record, new_ordered_id, add_messages
        self.parent, self.step_number, self.history = None, 0, []

    def step(self):
        number = self.step_number = self.step_number + 1
        message = _said(number)
        if self.parent:
            self.saver.save_writes("t", "", self.parent, f"task-{number}", [("messages", [message])])
        self.history = self.add(self.history, [message])
        values = {"messages": self.history, "steps": number}
        id = self.new_id()
        self.saver.save(self.record(id=id, thread_id="t", parent_id=self.parent, step=number, values=values), values)
        self.parent = id

    def load(self):
        return len(self.saver.load("t").values["messages"])

    def close(self):
        self.saver.close()
