"""Agno's Agent."""

import os

os.environ["AGNO_TELEMETRY"] = "false"

from dataclasses import dataclass

from agno.agent import Agent
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools import tool
from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script

PACKAGES = ["agno", "pydantic", "SQLAlchemy"]
MODES = {"sync", "async"}
STREAMS = {"sync", "async"}
STORES = ["memory", "sqlite"]
SHARED_AGENT = True


def _usage():
    return MessageMetrics(
        input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, total_tokens=INPUT_TOKENS + OUTPUT_TOKENS
    )


@dataclass
class FakeModel(Model):
    script: Script = None
    name: str = "fake"
    provider: str = "fake"

    def _reply(self, messages, assistant_message):
        assistant_message.metrics.start_timer()
        reply = self.script.reply(messages[-1].content, len(messages))
        assistant_message.metrics.stop_timer()
        response = ModelResponse(role="assistant", content=reply.text or None, response_usage=_usage())
        response.tool_calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
        return response

    def _deltas(self, messages, assistant_message):
        assistant_message.metrics.start_timer()
        assert not self.script.reply(messages[-1].content, len(messages)).tool_calls
        chunks = self.script.chunks
        for word in chunks[:-1]:
            yield ModelResponse(content=word)
        yield ModelResponse(content=chunks[-1], response_usage=_usage())
        assistant_message.metrics.stop_timer()

    def invoke(self, messages, assistant_message, **kwargs):
        return self._reply(messages, assistant_message)

    async def ainvoke(self, messages, assistant_message, **kwargs):
        await self.script.wait()
        return self._reply(messages, assistant_message)

    def invoke_stream(self, messages, assistant_message, **kwargs):
        yield from self._deltas(messages, assistant_message)

    async def ainvoke_stream(self, messages, assistant_message, **kwargs):
        for delta in self._deltas(messages, assistant_message):
            yield delta

    def _parse_provider_response(self, response, **kwargs):
        return response

    def _parse_provider_response_delta(self, response):
        return response


def prepare_tools(functions):
    return [tool(function) for function in functions]


def raw_tools(functions):
    return functions


def build(script, tools, **options):
    model = FakeModel(id="fake", script=script)
    return Agent(model=model, tools=tools, system_message=SYSTEM_PROMPT, telemetry=False, **options)


def run(agent, text):
    return agent.run(text).content


async def arun(agent, text):
    return (await agent.arun(text)).content


def stream(agent, text):
    for event in agent.run(text, stream=True):
        if event.event == "RunContent":
            yield event.content


async def astream(agent, text):
    async for event in agent.arun(text, stream=True):
        if event.event == "RunContent":
            yield event.content


def wire(address):
    from agno.models.openai import OpenAIChat

    agent = Agent(model=OpenAIChat(id="m", api_key="k", base_url=f"{address}/v1"), telemetry=False)

    def read():
        return sum(1 for _ in stream(agent, "x"))

    async def aread():
        return len([chunk async for chunk in astream(agent, "x")])

    yield "openai-chat agent sync", read
    yield "openai-chat agent async", aread


class Thread:
    def __init__(self, kind, path, script, tools):
        self.kind = kind
        if kind == "memory":
            from agno.db.in_memory import InMemoryDb

            self.db = InMemoryDb()
        else:
            from agno.db.sqlite import SqliteDb

            self.db = SqliteDb(db_file=path)
        self.agent = build(
            script, tools, db=self.db, session_id="t", add_history_to_context=True, num_history_runs=1_000_000
        )

    def turn(self, text):
        return self.agent.run(text).content

    def messages(self):
        session = self.agent.get_session(session_id="t")
        return [message.to_dict() for run in session.runs for message in run.messages if not message.from_history]

    def stored_bytes(self):
        import json

        return len(json.dumps(self.db._sessions, default=str))

    def close(self):
        if self.kind == "sqlite":
            self.db.close()
