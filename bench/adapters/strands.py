"""Strands' Agent. An agent is one conversation, so every run that must not see another one gets its own agent."""

import json
import os

os.environ["OTEL_SDK_DISABLED"] = "true"

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

PACKAGES = ["strands-agents"]
MODES = {"sync", "async"}
STREAMS = {"async"}
STORES = ["memory", "files"]
SHARED_AGENT = False

_METADATA = {
    "metadata": {
        "usage": {
            "inputTokens": INPUT_TOKENS,
            "outputTokens": OUTPUT_TOKENS,
            "totalTokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
        "metrics": {"latencyMs": 0},
    }
}


class FakeModel(Model):
    def __init__(self, script: Script):
        self.script = script
        self.config = {"model_id": "fake"}

    def update_config(self, **model_config):
        self.config.update(model_config)

    def get_config(self):
        return self.config

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        await self.script.wait()
        block = messages[-1]["content"][-1]
        text = block["toolResult"]["content"][0]["text"] if "toolResult" in block else block["text"]
        reply = self.script.reply(text, len(messages))
        yield {"messageStart": {"role": "assistant"}}
        for call in reply.tool_calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": call.name, "toolUseId": call.id}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": call.arguments}}}}
            yield {"contentBlockStop": {}}
        if not reply.tool_calls:
            # The loop always streams; an answer comes word by word only where streaming is measured.
            yield {"contentBlockStart": {"start": {}}}
            for word in self.script.chunks if self.script.rounds == 0 else [reply.text]:
                yield {"contentBlockDelta": {"delta": {"text": word}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if reply.tool_calls else "end_turn"}}
        yield _METADATA


def prepare_tools(functions):
    return [tool(function) for function in functions]


def raw_tools(functions):
    return prepare_tools(functions)


def build(script, tools, **options):
    options.setdefault("conversation_manager", NullConversationManager())
    return Agent(model=FakeModel(script), tools=tools, system_prompt=SYSTEM_PROMPT, callback_handler=None, **options)


def _text(result):
    return result.message["content"][-1]["text"]


def run(agent, text):
    agent.messages.clear()
    return _text(agent(text))


async def arun(agent, text):
    agent.messages.clear()
    return _text(await agent.invoke_async(text))


async def astream(agent, text):
    agent.messages.clear()
    async for event in agent.stream_async(text):
        if "data" in event:
            yield event["data"]


def wire(address):
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"api_key": "k", "base_url": f"{address}/v1"}, model_id="m")
    agent = Agent(model=model, callback_handler=None)

    async def aread():
        return len([chunk async for chunk in astream(agent, "x")])

    yield "openai-chat agent async", aread


class Thread:
    def __init__(self, kind, path, script, tools):
        options = {}
        if kind == "files":
            from strands.session.file_session_manager import FileSessionManager

            options["session_manager"] = FileSessionManager(session_id="t", storage_dir=path)
        self.agent = build(script, tools, **options)

    def turn(self, text):
        return _text(self.agent(text))

    def messages(self):
        return self.agent.messages

    def stored_bytes(self):
        return len(json.dumps(self.agent.messages))

    def close(self):
        pass
