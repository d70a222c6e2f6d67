"""Each recorded request, rebuilt from our classes, says field by field what was sent.

Recorded clients spell one thing in several ways that Google reads alike. Before the comparison both sides are brought
to one spelling (`normal`), each rule with its reason. There is no request that our classes cannot say.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from loopwright.models.google import ChatGoogleGenerativeAI
from loopwright.models.google.wire import made_id, sealed_call
from tests.models.recorded import FOLDER
from tests.models.test_google_recordings import RECORDS

pytestmark = pytest.mark.skipif(not RECORDS, reason=f"the recorded exchanges are not there: {FOLDER}")

DATA = {"args", "response", "properties", "$defs", "responseSchema", "labels", "modelArmorConfig"}
"""Below these keys the names are the user's own."""


# -- one spelling ---------------------------------------------------------------------------------------------------


def camel(name: str) -> str:
    head, *words = name.split("_")
    return head + "".join(word.capitalize() for word in words)


def spelled(value: Any) -> Any:
    """Keys in camel case: Google reads both."""
    if isinstance(value, list):
        return [spelled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {camel(key): item if camel(key) in DATA else spelled(item) for key, item in value.items()}


def lowered(schema: Any) -> Any:
    """Types of the older schema form in lower case, as JSON schema has them."""
    if isinstance(schema, list):
        return [lowered(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else lowered(value)
        for key, value in schema.items()
    }


def normal(body: dict[str, Any]) -> dict[str, Any]:
    body = spelled(body)
    if not body.get("generationConfig", True):
        del body["generationConfig"]  # an empty one says nothing
    instruction = body.get("systemInstruction")
    if instruction:
        instruction.pop("role", None)  # it has none that is read
    if isinstance(body.get("tools"), dict):
        body["tools"] = [body["tools"]]  # one that stands for a list of one
    for tool in body.get("tools", ()):
        for function in tool.get("functionDeclarations", ()):
            function["description"] = function.get("description") or ""  # none and an empty one are alike
            parameters = function.pop("parameters", None)
            if parameters is not None:  # the older form of the same schema
                function["parametersJsonSchema"] = lowered(parameters)
    for content in body["contents"]:
        if content.get("role") == "model":
            content["parts"] = [part for part in content["parts"] if part != {"text": ""}]  # nothing was said
    return body


# -- rebuilding -----------------------------------------------------------------------------------------------------


def block_of(part: dict[str, Any]) -> dict[str, Any]:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    media = part.get("inlineData") or part["fileData"]
    kind = media["mimeType"].partition("/")[0]
    block = {"type": kind if kind in ("image", "audio", "video") else "file", "mime_type": media["mimeType"]}
    block |= {"base64": media["data"]} if "data" in media else {"url": media["fileUri"]}
    if "videoMetadata" in part:
        block["extras"] = {"video_metadata": part["videoMetadata"]}
    return block


def result_of(part: dict[str, Any], ids: list[str]) -> ToolMessage:
    """Google tells results without ids apart by their order; ours have the ids that we made."""
    sent = part["functionResponse"]
    call_id = sent.get("id") or ids[0]
    ids.remove(call_id)
    response = sent["response"]
    if response.keys() == {"output"} or response.keys() == {"error"}:
        [(word, text)] = response.items()
        status = "error" if word == "error" else "success"
        return ToolMessage(text, tool_call_id=call_id, name=sent["name"], status=status)
    return ToolMessage(json.dumps(response), tool_call_id=call_id, name=sent["name"])


def answer_of(parts: list[dict[str, Any]], ids: list[str]) -> AIMessage:
    blocks, calls = [], []
    for part in parts:
        seal = part.get("thoughtSignature")
        if "functionCall" in part:
            call = part["functionCall"]
            calls.append(
                {"name": call["name"], "args": call["args"], "id": call.get("id") or made_id(), **sealed_call(seal)}
            )
            ids.append(calls[-1]["id"])
            continue
        block = block_of(part)
        blocks.append({**block, "extras": {"signature": seal}} if seal else block)
    return AIMessage(blocks, tool_calls=calls, response_metadata={"provider": "google"})


def messages_of(body: dict[str, Any]) -> list[BaseMessage]:
    messages: list[BaseMessage] = []
    if "systemInstruction" in body:
        messages.append(SystemMessage([block_of(part) for part in body["systemInstruction"]["parts"]]))
    ids: list[str] = []
    for content in body["contents"]:
        parts = content["parts"]
        if content.get("role") == "model":
            messages.append(answer_of(parts, ids))
        elif "functionResponse" in parts[0]:
            messages += [result_of(part, ids) for part in parts]
        else:
            messages.append(HumanMessage([block_of(part) for part in parts]))
    return messages


def tools_of(body: dict[str, Any]) -> list[Any]:
    """Functions in the form of `convert_to_openai_tool`, and Google's own tools."""
    tools: list[Any] = []
    for tool in body.get("tools", ()):
        for function in tool.get("functionDeclarations", ()):
            about = {"name": function["name"], "description": function["description"]}
            about["parameters"] = function.get("parametersJsonSchema")
            tools.append({"type": "function", "function": about})
        if "functionDeclarations" not in tool:
            tools.append(tool)
    return tools


def choice_of(body: dict[str, Any]) -> Any:
    config = body.get("toolConfig", {}).get("functionCallingConfig")
    if config is None:
        return None
    return config.get("allowedFunctionNames") or config["mode"].lower()


FIELDS = {
    "temperature": "temperature", "maxOutputTokens": "max_output_tokens", "responseLogprobs": "response_logprobs",
    "logprobs": "logprobs", "responseModalities": "response_modalities", "responseSchema": "response_schema",
    "responseMimeType": "response_mime_type", "topP": "top_p", "topK": "top_k", "stopSequences": "stop",
}  # fmt: skip
THINKING = {
    "includeThoughts": "include_thoughts", "thinkingBudget": "thinking_budget", "thinkingLevel": "thinking_level",
}  # fmt: skip


def settings_of(body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of the model, arguments of the call)."""
    fields: dict[str, Any] = {}
    call: dict[str, Any] = {}
    config = dict(body.get("generationConfig", {}))
    for key, value in config.pop("thinkingConfig", {}).items():
        fields[THINKING[key]] = value
    schema = config.pop("responseJsonSchema", None)
    if schema is not None:  # as `with_structured_output` and agents pass it
        call["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        assert config.pop("responseMimeType") == "application/json"
    fields |= {FIELDS[key]: value for key, value in config.items()}
    if "safetySettings" in body:
        fields["safety_settings"] = {one["category"]: one["threshold"] for one in body["safetySettings"]}
    if "labels" in body:
        fields["labels"] = body["labels"]
    if "modelArmorConfig" in body:
        fields["model_kwargs"] = {"modelArmorConfig": body["modelArmorConfig"]}
    return fields, call


def rebuilt(record: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    fields, call = settings_of(body)
    name = record["request"]["path"].rpartition("/")[2].partition(":")[0]
    model = ChatGoogleGenerativeAI(model=name, api_key="key-of-test", **fields)
    asked = model.bind_tools(tools_of(body), tool_choice=choice_of(body), **call)
    kwargs: dict[str, Any] = getattr(asked, "kwargs", {})
    request = model._request(messages_of(body), None, kwargs, streamed=False)
    return json.loads(request.body)


@pytest.mark.shows("google", "vertex", "requests rebuilt")
@pytest.mark.parametrize("name", RECORDS)
def test_rebuilt(name: str):
    record = RECORDS[name]
    sent = normal(record["request"]["body"])
    assert normal(rebuilt(record, sent)) == sent
