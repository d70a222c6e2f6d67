"""Model calls recorded to a file, and replayed from it without a network or a key.

The file holds, for each call, what was asked (messages, tools, settings) and what came back: a message, its pieces, or
an error. Rules:

- what identifies a call is what the model was told; ids, usage and metadata of messages are left out, because they
  differ from run to run. A call is answered by the first unused recording that was asked the same;
- a call that was not recorded fails with a diff against the next recording, and with the command that records anew;
- keys never get into the file: settings that are named like one are dropped, the values of this process's key
  variables and what looks like a key are blotted out.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, cast

from loopwright import errors
from loopwright.errors import ModelError, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models.assemble import assembling
from loopwright.models.like import ModelLike, OnChunk
from loopwright.models.protocol import settled
from loopwright.port import Port
from loopwright.scope import RunnableConfig

__all__ = ["RecordedModel", "Tape"]

_TOLD = ("type", "content", "name", "tool_calls", "invalid_tool_calls", "tool_call_id", "status", "role")
_SECRET_NAME = re.compile(
    r"api_?key|secret|passw|authori[sz]|credential|headers|cookie|(?<!max_)(?<!completion_)token$", re.IGNORECASE
)
_LOOKS_LIKE_KEY = re.compile(
    r"\b(?:sk|pk|rk|xai|gsk|key|ghp|hf)[-_][A-Za-z0-9_-]{16,}|\bBearer\s+\S{12,}|\bAIza[\w-]{30,}"
)
_KEY_VARIABLE = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")


class Tape:
    """The recordings of one test. `record=True` calls the model and writes the file at `save`."""

    def __init__(self, path: Path, *, record: bool) -> None:
        self.path = path
        self.record = record
        self.exchanges: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}
        """What programs ask a model about itself: its `profile`."""
        self._used: set[int] = set()
        self._lock = Lock()
        if not record and path.exists():
            known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            self.exchanges, self.about = known["exchanges"], known.get("model", {})

    def wrap(self, model: Any, *, told: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> RecordedModel:
        """The model, recorded or replayed.

        `model`: a chat model, a name for `init_chat_model`, or a function that makes one; the last two are looked at
        only when recording, so that replaying needs no key. `told` changes what identifies a call, to leave out a
        date in the prompt, say.
        """
        if self.record:
            made = _made(model)
            self.about = {"profile": getattr(made, "profile", None)}
            return RecordedModel(self, made, told)
        return RecordedModel(self, None, told)

    def add(self, exchange: dict[str, Any]) -> None:
        with self._lock:
            self.exchanges.append(exchange)

    def find(self, request: dict[str, Any]) -> dict[str, Any]:
        """The recording that answers a request. Raises `AssertionError` with a diff if there is none."""
        again = "Run pytest with --record-models to record anew."
        if not self.path.exists():
            raise AssertionError(f"Nothing is recorded in {self.path}. {again}")
        with self._lock:
            for index, exchange in enumerate(self.exchanges):
                if index not in self._used and exchange["request"] == request:
                    self._used.add(index)
                    return exchange
            number = len(self._used) + 1
            left = [exchange for index, exchange in enumerate(self.exchanges) if index not in self._used]
        if not left:
            raise AssertionError(
                f"{self.path} holds {len(self.exchanges)} model calls, and the test makes one more:\n"
                f"{_lines(request)}\n{again}"
            )
        diff = difflib.unified_diff(
            _lines(left[0]["request"]).splitlines(),
            _lines(request).splitlines(),
            "recorded",
            "asked now",
            lineterm="",
            n=2,
        )
        raise AssertionError(f"Model call {number} is not the one recorded in {self.path}. {again}\n" + "\n".join(diff))

    def save(self) -> None:
        """Write the file, if this tape records."""
        if self.record:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = {"model": self.about, "exchanges": self.exchanges}
            self.path.write_text(_lines(_blotted(whole)) + "\n", encoding="utf-8")


class RecordedModel(ModelLike):
    """A chat model on tape."""

    def __init__(
        self, tape: Tape, bound: ModelLike | None, told: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    ) -> None:
        self.tape = tape
        self.bound = bound
        self._told = told

    def __repr__(self) -> str:
        return f"RecordedModel({self.tape.path.name})"

    @property
    def profile(self) -> dict[str, Any] | None:
        return self.tape.about.get("profile")

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        return self.bound.call_config(config) if self.bound is not None else config

    async def respond(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None = None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None = None,
    ) -> AIMessage:
        request = _blotted(_request(messages, stop, kwargs))
        if self._told is not None:
            request = self._told(request)
        if self.bound is None:
            return self._replay(self.tape.find(request), port, on_chunk)
        pieces: list[AIMessageChunk] = []
        model, kwargs = self.bound, dict(kwargs)
        if "tools" in kwargs:
            model = model.bind_tools(kwargs.pop("tools"), tool_choice=kwargs.pop("tool_choice", None))
        on_piece = None if on_chunk is None else _both(pieces.append, on_chunk)
        try:
            answer = await model.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=on_piece)
        except ModelError as error:
            self.tape.add({"request": request, "pieces": [_stored(piece) for piece in pieces], "error": _error(error)})
            raise
        if pieces:
            self.tape.add({"request": request, "pieces": [_stored(piece) for piece in pieces]})
        else:
            self.tape.add({"request": request, "answer": _stored(answer)})
        return answer

    def _replay(self, exchange: Mapping[str, Any], port: Port, on_chunk: OnChunk | None) -> AIMessage:
        """Pieces go to whoever reads them now; recorded without a reader, an answer comes as a whole."""
        take, finish = assembling(port.new_id, on_chunk)
        for piece in exchange.get("pieces", ()):
            take(AIMessageChunk(**{key: value for key, value in piece.items() if key not in ("type", "id")}))
        failure = exchange.get("error")
        if failure is not None:
            raise _raised(failure)
        if "answer" in exchange:
            answer = AIMessage.model_validate({**exchange["answer"], "id": port.new_id()})
            return settled(answer, port.new_id)
        return finish()


def _made(model: Any) -> ModelLike:
    if isinstance(model, str):
        from loopwright.models.catalogue import init_chat_model

        return cast(ModelLike, init_chat_model(model))
    if isinstance(model, ModelLike):
        return model
    if callable(model):
        return _made(model())
    raise UsageError(f"give model_recording a chat model, its name, or a function that makes one, not {model!r}")


def _both(first: Callable[[AIMessageChunk], object], second: OnChunk) -> OnChunk:
    def both(chunk: AIMessageChunk) -> None:
        first(chunk)
        second(chunk)

    return both


# -- what is in the file --------------------------------------------------------------------------------------------


def _request(messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in kwargs.items() if not _SECRET_NAME.search(key)}
    asked: dict[str, Any] = {"messages": [_told_of(message) for message in messages], **settings}
    if stop:
        asked["stop"] = stop
    return json.loads(json.dumps(asked, default=repr))


def _told_of(message: BaseMessage) -> dict[str, Any]:
    whole = message.model_dump(mode="json")
    told = {key: whole[key] for key in _TOLD if whole.get(key) not in (None, [], {})}
    if told.get("status") == "success":
        del told["status"]
    return told


def _stored(message: BaseMessage) -> dict[str, Any]:
    whole = message.model_dump(mode="json", exclude_defaults=True)
    whole.pop("id", None)
    return {**whole, "type": message.type}


def _error(error: ModelError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "message": str(error),
        "status_code": error.status_code,
        "retryable": error.retryable,
        "retry_after": error.retry_after,
        "code": error.code,
    }


def _raised(stored: Mapping[str, Any]) -> ModelError:
    kind: Any = getattr(errors, stored["class"], ModelError)
    return kind(stored["message"], **{key: value for key, value in stored.items() if key not in ("class", "message")})


def _blotted(value: Any) -> Any:
    """The same without anything that is, or looks like, a key."""
    known = [text for name, text in os.environ.items() if _KEY_VARIABLE.search(name) and len(text) >= 8]

    def walk(part: Any) -> Any:
        if isinstance(part, str):
            for text in known:
                part = part.replace(text, "***")
            return _LOOKS_LIKE_KEY.sub("***", part)
        if isinstance(part, dict):
            return {key: walk(inner) for key, inner in cast("dict[str, Any]", part).items()}
        if isinstance(part, list):
            return [walk(inner) for inner in cast("list[Any]", part)]
        return part

    return walk(value)


def _lines(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)
