"""Pydantic AI's Agent. It has no storage of its own: the caller passes message_history and keeps the JSON."""

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.usage import RequestUsage, UsageLimits

PACKAGES = ["pydantic-ai-slim", "pydantic-graph", "pydantic"]
MODES = {"sync", "async"}
STREAMS = {"sync", "async"}
STORES = ["memory", "sqlite"]
SHARED_AGENT = True

_NO_LIMIT = UsageLimits(request_limit=None)
_NOW = datetime.now(UTC)


@dataclass
class FakeStream(StreamedResponse):
    chunks: list[str]

    async def _get_event_iterator(self):
        for word in self.chunks:
            for event in self._parts_manager.handle_text_delta(vendor_part_id="content", content=word):
                yield event
        self._usage += RequestUsage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS)

    model_name = "fake"
    provider_name = "fake"
    provider_url = None
    timestamp = _NOW


class FakeModel(Model):
    model_name = "fake"
    system = "fake"

    def __init__(self, script: Script):
        super().__init__()
        self.script = script

    def _reply(self, messages):
        return self.script.reply(messages[-1].parts[-1].content, len(messages))

    async def request(self, messages, model_settings, model_request_parameters):
        await self.script.wait()
        model_settings, model_request_parameters = self.prepare_request(model_settings, model_request_parameters)
        reply = self._reply(messages)
        parts = [ToolCallPart(call.name, call.arguments, call.id) for call in reply.tool_calls]
        return ModelResponse(
            parts=parts or [TextPart(reply.text)],
            usage=RequestUsage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS),
            model_name="fake",
        )

    @asynccontextmanager
    async def request_stream(self, messages, model_settings, model_request_parameters, run_context=None):
        model_settings, model_request_parameters = self.prepare_request(model_settings, model_request_parameters)
        assert not self._reply(messages).tool_calls
        yield FakeStream(model_request_parameters=model_request_parameters, chunks=self.script.chunks)


def prepare_tools(functions):
    return [Tool(function) for function in functions]


def raw_tools(functions):
    return functions


def build(script, tools):
    return Agent(FakeModel(script), system_prompt=SYSTEM_PROMPT, tools=tools)


def run(agent, text):
    return agent.run_sync(text, usage_limits=_NO_LIMIT).output


async def arun(agent, text):
    return (await agent.run(text, usage_limits=_NO_LIMIT)).output


def stream(agent, text):
    yield from agent.run_stream_sync(text).stream_text(delta=True, debounce_by=None)


async def astream(agent, text):
    async with agent.run_stream(text) as result:
        async for chunk in result.stream_text(delta=True, debounce_by=None):
            yield chunk


class Thread:
    """In memory the message objects are handed on; in SQLite the whole JSON is read and replaced every turn."""

    def __init__(self, kind, path, script, tools):
        self.agent = build(script, tools)
        self.kind = kind
        self.history = []
        if kind == "sqlite":
            import sqlite3

            self.db = sqlite3.connect(path)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("CREATE TABLE threads (id TEXT PRIMARY KEY, body BLOB)")
            self.db.execute("INSERT INTO threads VALUES ('t', '[]')")
            self.db.commit()

    def turn(self, text):
        if self.kind == "sqlite":
            (body,) = self.db.execute("SELECT body FROM threads WHERE id = 't'").fetchone()
            self.history = ModelMessagesTypeAdapter.validate_json(body)
        result = self.agent.run_sync(text, message_history=self.history, usage_limits=_NO_LIMIT)
        self.history = result.all_messages()
        if self.kind == "sqlite":
            body = ModelMessagesTypeAdapter.dump_json(self.history)
            self.db.execute("UPDATE threads SET body = ? WHERE id = 't'", (body,))
            self.db.commit()
        return result.output

    def messages(self):
        return ModelMessagesTypeAdapter.dump_python(self.history, mode="json")

    def stored_bytes(self):
        return len(ModelMessagesTypeAdapter.dump_json(self.history))

    def close(self):
        if self.kind == "sqlite":
            self.db.close()
