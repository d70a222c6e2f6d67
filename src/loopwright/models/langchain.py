"""`ChatLangChain`: a chat model of LangChain's as one of ours. `create_agent` makes it of what it is given.

Rules:

- nothing of LangChain is imported here: the object brings what it needs;
- its public calls are used, so its own retries, cache, rate limit and tracing hold. Handlers set on it hear of it
  through it, handlers given to us hear of it through us, and nobody hears twice;
- messages are converted on the way out and on the way in; the finish reason is said in our words beside its own;
- what a provider's SDK or HTTP client raises becomes the `ModelError` that says whose fault it is, with the original
  as its cause; every other error passes through unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from typing import Any, Final

from pydantic import Field

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.messages.convert import message_from
from loopwright.messages.langchain import ended_by, is_langchain, to_langchain
from loopwright.messages.plain import is_dict
from loopwright.models.addresses import host_of
from loopwright.models.base import BaseChatModel
from loopwright.models.langchain_errors import in_our_words
from loopwright.models.like import ModelLike
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import wire_tools
from loopwright.models.openai_chat.response import finish_word

__all__ = ["ChatLangChain", "adapted", "as_ours"]

_ADDRESSES: Final = ("azure_endpoint", "openai_api_base", "anthropic_api_url", "base_url", "api_base", "endpoint_url")
"""Under which names classes of LangChain keep the address that they ask."""


def adapted(model: Any) -> ModelLike | None:
    """The model as one of ours; None if it is not LangChain's.

    A chat model with something around it (`bind`, `with_retry`, `with_fallbacks`, `with_config`) will do.
    """
    is_model = is_langchain(model, "BaseChatModel") or (
        is_langchain(model, "Runnable") and is_langchain(_inside(model), "BaseChatModel")
    )
    return ChatLangChain(runnable=model) if is_model else None


class ChatLangChain(BaseChatModel):
    """A chat model of LangChain's, or one with something bound to it."""

    runnable: Any = Field(exclude=True, repr=False)
    """What is called."""

    def __init__(self, **fields: Any) -> None:
        model = _inside(fields["runnable"])
        for name in ("tags", "metadata", "profile"):
            fields.setdefault(name, getattr(model, name, None) or None)
        fields.setdefault("name", getattr(model, "name", None) or type(model).__name__)
        super().__init__(**fields)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield None, type(_inside(self.runnable)).__name__

    @property
    def model_name(self) -> str:
        """What its provider calls it; empty if it does not say."""
        model = _inside(self.runnable)
        return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")

    @property
    def _llm_type(self) -> str:
        return str(getattr(_inside(self.runnable), "_llm_type", "langchain"))

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return dict(getattr(_inside(self.runnable), "_identifying_params", {}))

    @property
    def answers_beside_tools(self) -> bool:
        """Whether it may be held to a JSON schema beside any tools: OpenAI's SDK wants them strict, there."""
        return not any(kind.__name__ == "BaseChatOpenAI" for kind in type(_inside(self.runnable)).__mro__)

    def _address(self) -> str | None:
        """Where it asks, if it says."""
        model = _inside(self.runnable)
        client = getattr(model, "root_client", None)  # of the OpenAI SDK: it knows the environment
        places = (client, "base_url"), *((model, name) for name in _ADDRESSES)
        found = (str(getattr(place, name, None) or "") for place, name in places)
        return next((address for address in found if "://" in address), None)

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Tell the model of tools, in its own way. A tool of LangChain's is handed to it as it is."""
        from loopwright.tools import convert_to_openai_tool

        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        offered = [getattr(tool, "langchain_tool", None) or convert_to_openai_tool(tool) for tool in tools]
        if "response_format" in kwargs:
            kwargs["response_format"] = _titled(kwargs["response_format"])
            if not self.answers_beside_tools:
                kwargs["strict"] = True
                offered = [wire_tools([tool], Dialect(), strict=True)[0] if is_dict(tool) else tool for tool in offered]
        return self.model_copy(update={"runnable": self.runnable.bind_tools(offered, **kwargs)})

    # -- the four methods -------------------------------------------------------------------------------------------

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AIMessage:
        with in_our_words(_inside(self.runnable)):
            answer = self.runnable.invoke(to_langchain(messages), **_with_stop(stop, kwargs))
        return as_ours(answer, address=self._address())

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AIMessage:
        with in_our_words(_inside(self.runnable)):
            answer = await self.runnable.ainvoke(to_langchain(messages), **_with_stop(stop, kwargs))
        return as_ours(answer, address=self._address())

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Generator[AIMessage, None, None]:
        pieces = self.runnable.stream(to_langchain(messages), **_with_stop(stop, kwargs))
        calls, address = False, self._address()
        with in_our_words(_inside(self.runnable)), closing(pieces):
            for piece in pieces:
                answer = as_ours(piece, calls=calls, address=address)
                calls = calls or _calls(answer)
                yield answer

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncGenerator[AIMessage, None]:
        pieces = self.runnable.astream(to_langchain(messages), **_with_stop(stop, kwargs))
        calls, address = False, self._address()
        with in_our_words(_inside(self.runnable)):
            async with aclosing(pieces):
                async for piece in pieces:
                    answer = as_ours(piece, calls=calls, address=address)
                    calls = calls or _calls(answer)
                    yield answer


def _inside(runnable: Any) -> Any:
    """The chat model in what was put around it."""
    while not is_langchain(runnable, "BaseChatModel"):
        inner = getattr(runnable, "bound", None)
        if inner is None:  # fallbacks
            inner = getattr(runnable, "runnable", None)
        if inner is None:
            break
        runnable = inner
    return runnable


def _with_stop(stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    return kwargs if stop is None else {**kwargs, "stop": stop}


def _calls(answer: AIMessage) -> bool:
    return bool(getattr(answer, "tool_call_chunks", None) or answer.tool_calls or answer.invalid_tool_calls)


def _titled(wanted: Any) -> Any:
    """A JSON schema of the provider's form, with its name inside, too: LangChain looks for it there."""
    form: Any = wanted.get("json_schema") if is_dict(wanted) else None
    schema: Any = form.get("schema") if is_dict(form) else None
    if not is_dict(form) or not is_dict(schema) or "title" in schema:
        return wanted
    return {**wanted, "json_schema": {**form, "schema": {"title": form.get("name", "answer"), **schema}}}


def _is_own(address: str, provider: str) -> bool:
    """Whether a server is its provider's: what another one asks for an answer is no list price."""
    *_, name, ending = ("", "", *host_of(address).partition(":")[0].split("."))
    word = provider.partition("_")[0]
    return name in (word, f"{word}apis") or name + ending == word  # openai.com, googleapis.com, mistral.ai


def as_ours(theirs: Any, *, calls: bool = False, address: str | None = None) -> AIMessage:
    """An answer, or a piece of one, in our class; `calls`: whether pieces before it had calls."""
    answer = message_from(theirs)
    if not isinstance(answer, AIMessage):
        raise UsageError(f"the LangChain model answered with a {type(theirs).__name__}, not an AIMessage")
    metadata = answer.response_metadata
    if not metadata:
        return answer
    told = dict(metadata)
    raw = ended_by(metadata)
    if raw is not None:
        refused = bool(answer.additional_kwargs.get("refusal"))
        whole = not isinstance(answer, AIMessageChunk)
        word = finish_word(raw, calls=calls or _calls(answer), refused=refused, said=not whole or bool(answer.content))
        told.update(finish_reason=word, raw_finish_reason=raw)
    if "model_provider" in metadata:
        provider = told.setdefault("provider", metadata["model_provider"])
        if address is not None and not _is_own(address, provider):
            told.setdefault("host", host_of(address))
    if "usage" in metadata:
        told.setdefault("token_usage", metadata["usage"])
    return answer.model_copy(update={"response_metadata": told})
