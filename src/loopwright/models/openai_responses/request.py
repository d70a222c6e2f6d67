"""Request out: messages, tools and schemas become what is posted.

Rules:

- an answer of this provider goes back as the items it was, ids and sealed reasoning with them, in their order;
- what a message says now counts, not what came: calls are those of `tool_calls`, with the arguments they have there;
- an answer of another provider goes back as its words and its calls. What only that provider understands stays out;
- reasoning stays out where the model is none that thinks, and, where it is only an id, with `store=False`: the provider
  remembers no item then. The ids of what followed it stay out with it, because the provider refuses one without the
  other. For the same reason reasoning that nothing followed (the answer was cut off) stays out;
- every call has a name and an id that the provider accepts, and arguments that are a JSON object;
- nothing of the caller's is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import (
    response_format,
    wire_broken_call,
    wire_call,
    wire_tool_choice,
    wire_tools,
)
from loopwright.models.openai_responses.items import (
    CALLS,
    Block,
    is_raw_item,
    message_item,
    reasoning_item,
    server_item,
)
from loopwright.models.openai_responses.parts import input_parts

__all__ = ["input_items", "since_last_answer", "text_format", "wire_choice", "wire_functions"]

_LONGEST_ID: Final = 64


# -- messages -------------------------------------------------------------------------------------------------------


def input_items(
    messages: Sequence[BaseMessage], provider: str, *, store: bool | None = None, thinks: bool = True
) -> list[dict[str, Any]]:
    """The conversation as items, oldest first. Raises `UsageError` for what cannot be sent.

    `thinks` is False for a model that takes no reasoning, not even another model's.
    """
    answered = frozenset(message.tool_call_id for message in messages if isinstance(message, ToolMessage))
    free_text: set[str] = set()
    sent: list[dict[str, Any]] = []
    for message in messages:
        if isinstance(message, AIMessage):
            items = _Turn(message, provider, answered, store=store, thinks=thinks).items()
            free_text.update(item["call_id"] for item in items if item["type"] == "custom_tool_call")
            sent += items
        elif isinstance(message, ToolMessage):
            sent.append(_result(message, free_text))
        else:
            sent += _others(message)
    return sent


def since_last_answer(messages: Sequence[BaseMessage], provider: str) -> tuple[str | None, Sequence[BaseMessage]]:
    """The id of the provider's last answer that it can be reminded of, and the messages after it."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if isinstance(message, AIMessage) and message.response_metadata.get("provider") == provider:
            answer_id = message.response_metadata.get("id")
            if isinstance(answer_id, str) and answer_id.startswith("resp_") and place + 1 < len(messages):
                return answer_id, messages[place + 1 :]
    return None, messages


def _others(message: BaseMessage) -> list[dict[str, Any]]:
    if isinstance(message, HumanMessage):
        role = "user"
    elif isinstance(message, SystemMessage):
        role = str(message.additional_kwargs.get("__openai_role__") or "system")
    elif isinstance(message, ChatMessage):
        role = message.role
    elif isinstance(message, FunctionMessage):
        raise UsageError("the Responses API has no role for a FunctionMessage: send the result as a ToolMessage")
    else:
        raise UsageError(
            f"a {type(message).__name__} cannot be sent to a model: send HumanMessage, AIMessage, SystemMessage "
            "or ToolMessage"
        )
    content: Any = message.content
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    items: list[dict[str, Any]] = []
    rest: list[Any] = []
    for found in cast("list[Any]", content):
        if isinstance(found, dict) and is_raw_item(_plain(cast(Block, found))):
            items.append(_raw(cast(Block, found)))
        else:
            rest.append(found)
    parts = input_parts(rest)
    return [*items, {"role": role, "content": parts}] if parts or not items else items


def _plain(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block, or the one inside that has no standard form."""
    value = block.get("value")
    if block.get("type") == "non_standard" and isinstance(value, dict):
        return cast("dict[str, Any]", value)
    return block


def _raw(block: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_plain(block))


def _result(message: ToolMessage, free_text: set[str]) -> dict[str, Any]:
    call_id = _call_id(message.tool_call_id)
    kind = message.additional_kwargs.get("type")
    if not (isinstance(kind, str) and kind.endswith("_output")):
        kind = "custom_tool_call_output" if call_id in free_text else "function_call_output"
    output = input_parts(message.content)
    one_picture = kind == "computer_call_output" and not isinstance(output, str)
    return {"type": kind, "call_id": call_id, "output": output[0] if one_picture else output}


def _call_id(call_id: Any) -> str:
    """An id as the provider takes it: at most 64 characters. Another provider's may be longer."""
    text = str(call_id or "")
    if len(text) <= _LONGEST_ID:
        return text
    from hashlib import sha256

    return f"call_{sha256(text.encode('utf-8', 'replace')).hexdigest()[:32]}"


# -- the model's own turns ------------------------------------------------------------------------------------------


class _Turn:
    """One message of the model's, on its way back."""

    def __init__(
        self, message: AIMessage, provider: str, answered: frozenset[str], *, store: bool | None, thinks: bool
    ) -> None:
        content: Any = message.content
        self._content = cast("list[Any]", [content] if isinstance(content, str) else content)
        self._is_own = message.response_metadata.get("provider", provider) == provider
        self._store = store
        self._thinks = thinks
        self._with_ids = self._is_own
        self._calls: dict[Any, dict[str, Any]] = {}
        for call in message.tool_calls:
            self._calls[call.get("id") or len(self._calls)] = _function_call(wire_call(call))
        for call in message.invalid_tool_calls:
            if call.get("id") in answered:
                self._calls[call.get("id")] = _function_call(wire_broken_call(call))
        self._items: list[dict[str, Any]] = []
        self._open: list[Block] = []  # blocks of one item that may go on

    def items(self) -> list[dict[str, Any]]:
        """Its items, in order; calls that no block stands for come last."""
        for found in self._content:
            if isinstance(found, str):
                self._add({"type": "text", "text": found})
            elif isinstance(found, dict):
                self._add(cast(Block, found))
        self._close()
        self._items += self._calls.values()
        while self._items and self._items[-1]["type"] == "reasoning":
            self._items.pop()
        return self._items

    def _add(self, block: Block) -> None:
        kind = block.get("type")
        if kind in ("text", "output_text", "refusal"):
            if block.get("text") or block.get("refusal") or (block.get("id") and self._with_ids):
                self._gather({**block, "type": "refusal" if kind == "refusal" else "text"})
            return
        if kind == "reasoning" and not is_raw_item(block):
            if self._is_own and block.get("id"):
                self._gather(block)
            return
        if kind in CALLS:
            self._close()
            call = self._calls.pop(block.get("call_id"), None)
            if call is not None:
                self._items.append(self._as_called(block, call))
        elif self._is_own:
            self._close()
            self._add_own(block)

    def _add_own(self, block: Block) -> None:
        """A block that only the provider understands."""
        if block.get("type") in ("server_tool_call", "server_tool_result"):
            others = (cast(Block, other) for other in self._content if isinstance(other, dict))
            item = server_item(block, others)
            if item is not None:
                self._items.append(item)
        elif block.get("type") == "reasoning":
            self._add_thought(dict(block))
        elif is_raw_item(_plain(block)):
            self._items.append(_raw(block))

    def _add_thought(self, item: dict[str, Any]) -> None:
        is_only_an_id = not item.get("encrypted_content") and not item.get("content")
        if self._thinks and not (self._store is False and is_only_an_id):
            self._items.append(item)
        else:
            self._with_ids = False

    def _gather(self, block: Block) -> None:
        """Blocks of the same kind and id were one item. What another provider said is one."""
        if not self._is_own:
            block = {key: value for key, value in block.items() if key != "id"}
        first = self._open[0] if self._open else None
        if first is not None and (
            first.get("id") != block.get("id") or (first["type"] == "reasoning") != (block["type"] == "reasoning")
        ):
            self._close()
        self._open.append(block)

    def _close(self) -> None:
        blocks, self._open = self._open, []
        if not blocks:
            return
        if blocks[0]["type"] == "reasoning":
            self._add_thought(reasoning_item(blocks))
        elif self._with_ids and blocks[0].get("id"):
            self._items.append(message_item(blocks, with_id=True))
        else:
            self._items.append(_plain_words(blocks))

    def _as_called(self, block: Block, call: dict[str, Any]) -> dict[str, Any]:
        """A call as the item it was."""
        if not self._is_own:
            return call
        if block.get("item_type") == "custom_tool_call" or block["type"] == "custom_tool_call":
            from loopwright.models.wire_json import loads

            arguments = loads(call.pop("arguments"))
            call |= {"type": "custom_tool_call", "input": str(arguments.get("input", ""))}
        if block.get("namespace"):
            call["namespace"] = block["namespace"]
        if self._with_ids and block.get("id"):
            call |= {"id": block["id"], "status": block.get("status") or "completed"}
        return call


def _plain_words(blocks: Iterable[Block]) -> dict[str, Any]:
    """What the model said, without an item to belong to."""
    blocks = list(blocks)
    words = "".join(str(block.get("text") or block.get("refusal") or "") for block in blocks)
    extras: Mapping[str, Any] = blocks[0].get("extras") or {}
    phase = {"phase": extras["phase"]} if extras.get("phase") else {}
    return {"type": "message", "role": "assistant", "content": words, **phase}


def _function_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {"type": "function_call", "call_id": _call_id(call["id"]), **function}


# -- tools ----------------------------------------------------------------------------------------------------------


def wire_functions(
    tools: Iterable[Mapping[str, Any]], dialect: Dialect, *, strict: bool | None
) -> list[dict[str, Any]]:
    """Tools in this API's flat form. The provider's own (`{"type": "web_search"}`) are handed on.

    The API makes a function strict that does not say, which changes what optional fields mean; so each one says.
    """
    made: list[dict[str, Any]] = []
    for tool in wire_tools(tools, dialect, strict=strict):
        kind = str(tool.get("type"))
        inner = tool.get(kind) if kind in ("function", "custom") else None
        if isinstance(inner, Mapping):
            flat = {**tool, **cast("Mapping[str, Any]", inner)}
            del flat[kind]
            if kind == "function" and dialect.strict:
                flat.setdefault("strict", False)
            made.append(flat)
        else:
            made.append(tool)
    return made


def wire_choice(choice: Any, tools: Sequence[Mapping[str, Any]], dialect: Dialect) -> Any:
    """`auto`, `none`, `any`/`required`/True, the name of a tool or the type of the provider's own, or a dictionary."""
    if isinstance(choice, Mapping):
        given = cast("Mapping[str, Any]", choice)
        function = given.get("function")
        if given.get("type") == "function" and isinstance(function, Mapping):
            return {"type": "function", "name": cast("Mapping[str, Any]", function).get("name")}
        return dict(given)
    for tool in tools:
        if isinstance(choice, str) and choice == tool.get("type") != "function":
            return {"type": choice}
        if isinstance(choice, str) and choice == tool.get("name") and tool.get("type") in ("custom", "mcp"):
            return {"type": tool["type"], "name": choice}
    functions = [{"function": tool} for tool in tools if tool.get("type") == "function"]
    word = wire_tool_choice(choice, functions, dialect)
    return {"type": "function", **cast("dict[str, Any]", word)["function"]} if isinstance(word, dict) else word


# -- structured output ----------------------------------------------------------------------------------------------


def text_format(wanted: Any, dialect: Dialect, provider: str, *, strict: bool | None) -> dict[str, Any]:
    """`text.format` from a schema, or from the dictionary that Chat Completions takes."""
    made = response_format(wanted, dialect, provider, strict=strict)
    inner = made.get("json_schema")
    return {"type": made["type"], **cast("dict[str, Any]", inner)} if isinstance(inner, dict) else made
