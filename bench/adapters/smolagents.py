"""Smolagents' ToolCallingAgent. It answers through a tool of its own, `final_answer`, and has no async API."""

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script
from smolagents import ChatMessage, LogLevel, MessageRole, Model, TokenUsage, ToolCallingAgent, tool
from smolagents.models import (
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
)

PACKAGES = ["smolagents"]
MODES = {"sync"}
STREAMS = {"sync"}
STORES = ["memory"]
SHARED_AGENT = True


def _last_text(messages):
    content = messages[-1].content
    return content if isinstance(content, str) else content[-1]["text"]


class FakeModel(Model):
    def __init__(self, script: Script):
        super().__init__(model_id="fake")
        self.script = script

    def _calls(self, messages):
        reply = self.script.reply(_last_text(messages), len(messages))
        if reply.tool_calls:
            return reply.tool_calls
        return [(f"final_{self.script.model_calls}", "final_answer", {"answer": reply.text})]

    def generate(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs):
        calls = [
            ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), identifier, "function")
            for identifier, name, arguments in self._calls(messages)
        ]
        usage = TokenUsage(INPUT_TOKENS, OUTPUT_TOKENS)
        return ChatMessage(MessageRole.ASSISTANT, content="", tool_calls=calls, token_usage=usage)

    def generate_stream(self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs):
        self.script.reply(_last_text(messages), len(messages))
        for word in self.script.chunks:
            yield ChatMessageStreamDelta(content=word)
        function = ChatMessageToolCallFunction('{"answer": "done"}', "final_answer")
        call = ChatMessageToolCallStreamDelta(index=0, id="final", type="function", function=function)
        yield ChatMessageStreamDelta(tool_calls=[call], token_usage=TokenUsage(INPUT_TOKENS, OUTPUT_TOKENS))


def prepare_tools(functions):
    return [tool(function) for function in functions]


def raw_tools(functions):
    return prepare_tools(functions)


def build(script, tools):
    return ToolCallingAgent(
        tools=tools,
        model=FakeModel(script),
        instructions=SYSTEM_PROMPT,
        max_steps=1000,
        verbosity_level=LogLevel.OFF,
        stream_outputs=script.rounds == 0,
    )


def run(agent, text):
    return agent.run(text)


def stream(agent, text):
    for event in agent.run(text, stream=True):
        if isinstance(event, ChatMessageStreamDelta) and event.content:
            yield event.content


class Thread:
    def __init__(self, kind, path, script, tools):
        self.agent = build(script, tools)

    def turn(self, text):
        return self.agent.run(text, reset=False)

    def messages(self):
        return [message.dict() for message in self.agent.write_memory_to_messages()]

    def stored_bytes(self):
        import json

        return len(json.dumps(self.messages(), default=str))

    def close(self):
        pass
