"""LangChain's create_agent, on LangGraph."""

import json

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script
from langchain.agents import create_agent
from langchain.tools import tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

PACKAGES = ["langchain", "langchain-core", "langgraph", "langgraph-checkpoint", "langgraph-checkpoint-sqlite"]
MODES = {"sync", "async"}
STREAMS = {"sync", "async"}
STORES = ["memory", "sqlite", "sqlite, durability=exit"]
SERVERS = ["postgres"]
SHARED_AGENT = True

# The agent calls bind_tools before every model call. A real chat model turns the tools
# into JSON schemas there, and so does the fake, unless a variant of this adapter says not to.
CONVERT_TOOLS = True
STATE_SCHEMA = None

_USAGE = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}


class FakeChat(BaseChatModel):
    script: Script

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        if CONVERT_TOOLS:
            tools = [convert_to_openai_tool(item) for item in tools]
        return self.bind(tools=tools, **kwargs)

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
    if STATE_SCHEMA is not None:
        options["state_schema"] = STATE_SCHEMA
    return create_agent(FakeChat(script=script), tools=tools, system_prompt=SYSTEM_PROMPT, **options)


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


class Thread:
    def __init__(self, kind, path, script, tools):
        self.options = {"durability": "exit"} if kind.endswith("exit") else {}
        self.context = None
        if kind == "memory":
            from langgraph.checkpoint.memory import InMemorySaver

            self.saver = InMemorySaver()
        elif kind == "postgres":
            from langgraph.checkpoint.postgres import PostgresSaver

            self.context = PostgresSaver.from_conn_string(path)
            self.saver = self.context.__enter__()
            self.saver.setup()
        else:
            from langgraph.checkpoint.sqlite import SqliteSaver

            self.context = SqliteSaver.from_conn_string(path)
            self.saver = self.context.__enter__()
        self.agent = build(script, tools, checkpointer=self.saver)
        self.config = {"configurable": {"thread_id": "t"}}

    def turn(self, text):
        return self.agent.invoke(_input(text), self.config, **self.options)["messages"][-1].content

    def messages(self):
        from langchain_core.messages import messages_to_dict

        return messages_to_dict(self.agent.get_state(self.config).values["messages"])

    def stored_bytes(self):
        """The serialised values and pending writes that the saver holds."""
        saver = self.saver
        total = sum(len(data) for _, data in saver.blobs.values())
        for namespaces in saver.storage.values():
            for checkpoints in namespaces.values():
                total += sum(len(c[1]) + len(m[1]) for c, m, _ in checkpoints.values())
        for writes in saver.writes.values():
            total += sum(len(write[2][1]) for write in writes.values())
        return total

    def close(self):
        if self.context is not None:
            self.context.__exit__(None, None, None)


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
    """The saver alone: what LangGraph's loop asks of it in a step."""

    def __init__(self, path):
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.base.id import uuid6
        from langgraph.checkpoint.sqlite import SqliteSaver

        self.context = SqliteSaver.from_conn_string(path)
        self.saver = self.context.__enter__()
        self.empty, self.new_id = empty_checkpoint, uuid6
        self.step_number, self.history = 0, []
        self.config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    def step(self):
        number = self.step_number = self.step_number + 1
        message = _said(number)
        if number > 1:
            self.saver.put_writes(self.config, [("messages", [message])], f"task-{number}")
        self.history = [*self.history, message]
        versions = {"messages": str(number), "steps": str(number)}
        checkpoint = {
            **self.empty(),
            "id": str(self.new_id(clock_seq=number)),
            "channel_values": {"messages": self.history, "steps": number},
            "channel_versions": versions,
        }
        metadata = {"source": "loop", "step": number, "parents": {}}
        self.config = self.saver.put(self.config, checkpoint, metadata, versions)

    def load(self):
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        return len(self.saver.get_tuple(config).checkpoint["channel_values"]["messages"])

    def close(self):
        self.context.__exit__(None, None, None)
