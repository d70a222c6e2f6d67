"""The physical limit: a hand-written loop over OpenAI-style dicts."""

import inspect
import json

from fake import INPUT_TOKENS, OUTPUT_TOKENS, SYSTEM_PROMPT, Script

PACKAGES = []
MODES = {"sync", "async"}
STREAMS = {"sync", "async"}
STORES = ["memory", "sqlite"]
SHARED_AGENT = True

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def prepare_tools(functions):
    """Name, callable and JSON schema of each function, from its signature."""
    tools = {}
    for function in functions:
        properties, required = {}, []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.annotation in _JSON_TYPES:
                properties[name] = {"type": _JSON_TYPES[parameter.annotation]}
            else:
                properties[name] = {"type": "array", "items": {"type": "string"}}
            if parameter.default is parameter.empty:
                required.append(name)
        schema = {"type": "object", "properties": properties, "required": required}
        description = inspect.getdoc(function)
        tools[function.__name__] = (
            function,
            {"name": function.__name__, "description": description, "parameters": schema},
        )
    return tools


def raw_tools(functions):
    return prepare_tools(functions)


class Agent:
    def __init__(self, script, tools):
        self.script = script
        self.tools = tools
        self.schemas = [schema for _, schema in tools.values()]

    def message(self, messages):
        """What the model says to `messages`, as an OpenAI-style dict."""
        reply = self.script.reply(messages[-1]["content"], len(messages))
        message = {"role": "assistant", "content": reply.text}
        if reply.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in reply.tool_calls
            ]
        message["usage"] = {"input": INPUT_TOKENS, "output": OUTPUT_TOKENS}
        return message

    def loop(self, messages):
        while True:
            message = self.message(messages)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return message["content"]
            for call in calls:
                function = self.tools[call["function"]["name"]][0]
                content = function(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    async def aloop(self, messages):
        while True:
            await self.script.wait()
            message = self.message(messages)
            messages.append(message)
            calls = message.get("tool_calls")
            if not calls:
                return message["content"]
            results = []
            for call in calls:
                function = self.tools[call["function"]["name"]][0]
                result = function(**json.loads(call["function"]["arguments"]))
                results.append(result)
            if inspect.isawaitable(results[0]):
                import asyncio

                results = [await results[0]] if len(results) == 1 else await asyncio.gather(*results)
            for call, content in zip(calls, results, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def build(script: Script, tools):
    return Agent(script, tools)


def _start(text):
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": text}]


def run(agent, text):
    return agent.loop(_start(text))


async def arun(agent, text):
    return await agent.aloop(_start(text))


def stream(agent, text):
    messages = _start(text)
    agent.script.reply(text, len(messages))
    parts = []
    for chunk in agent.script.chunks:
        parts.append(chunk)
        yield chunk
    messages.append({"role": "assistant", "content": "".join(parts)})


async def astream(agent, text):
    messages = _start(text)
    agent.script.reply(text, len(messages))
    parts = []
    for chunk in agent.script.chunks:
        parts.append(chunk)
        yield chunk
    messages.append({"role": "assistant", "content": "".join(parts)})


# What each format is asked at. The server answers by the path alone, and every stream is lines of `data: `.
_PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/m:streamGenerateContent?alt=sse",
}


def _events(line):
    """1 for a line that holds an event."""
    if not line.startswith("data: {"):
        return 0
    json.loads(line[6:])
    return 1


def wire(address):
    for format, path in _PATHS.items():
        for label, read in _readers(address + path):
            yield f"{format} {label}", read


def _readers(url):
    """The raw read: httpx2 and json, nothing made of it."""
    import httpx2

    client, aclient = httpx2.Client(), httpx2.AsyncClient()
    body = {"stream": True}

    def read():
        with client.stream("POST", url, json=body) as response:
            return sum(_events(line) for line in response.iter_lines())

    async def aread():
        count = 0
        async with aclient.stream("POST", url, json=body) as response:
            async for line in response.aiter_lines():
                count += _events(line)
        return count

    yield "agent sync", read
    yield "agent async", aread


class Thread:
    """A conversation whose history is read back from its store at the start of every turn."""

    def __init__(self, kind, path, script, tools):
        self.agent = build(script, tools)
        self.kind = kind
        self.history = [{"role": "system", "content": SYSTEM_PROMPT}]
        if kind == "sqlite":
            import sqlite3

            self.db = sqlite3.connect(path)
            self.db.execute("PRAGMA journal_mode=WAL")
            self.db.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, thread TEXT, body TEXT)")
            self.db.execute("CREATE INDEX by_thread ON messages (thread, id)")
            self._append(self.history)

    def _append(self, messages):
        rows = [("t", json.dumps(message)) for message in messages]
        self.db.executemany("INSERT INTO messages (thread, body) VALUES (?, ?)", rows)
        self.db.commit()

    def turn(self, text):
        if self.kind == "sqlite":
            rows = self.db.execute("SELECT body FROM messages WHERE thread = ? ORDER BY id", ("t",))
            self.history = [json.loads(body) for (body,) in rows]
        known = len(self.history)
        self.history.append({"role": "user", "content": text})
        answer = self.agent.loop(self.history)
        if self.kind == "sqlite":
            self._append(self.history[known:])
        return answer

    def messages(self):
        return self.history

    def stored_bytes(self):
        """Bytes held by an in-memory store; a store on disk is measured from outside."""
        return len(json.dumps(self.history))

    def close(self):
        if self.kind == "sqlite":
            self.db.close()
