"""One answer, gathered from its parts: each part becomes a message chunk, in the order in which they come.

A whole answer is a stream of one event, so both are read here, and their messages cannot differ. Rules:

- text goes as text until something else comes; from then on the content is blocks, told apart by their index, which
  counts up where the kind changes;
- a part with a signature is a block of its own, also where its text is empty, because the signature must go back on the
  very part that it came with; empty text without one is nothing;
- calls are in `tool_calls`. Where other parts follow a call, a block in the content keeps its place;
- what the provider's own tools did is `server_tool_call` and `server_tool_result`; a part of a kind that nobody here
  knows is kept whole as `non_standard`;
- citations come after the text that they belong to, in one piece before the last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from loopwright.messages import AIMessageChunk
from loopwright.messages.plain import is_dict, is_list
from loopwright.models.google.citations import citations_of
from loopwright.models.google.facts import counts_in, finish_word, metadata_of, usage_of
from loopwright.models.google.partial import PartialCall
from loopwright.models.google.wire import Candidate, Event, Part, is_made, made_id, sealed_call
from loopwright.models.wire_json import dumps_text

__all__ = ["Gathered"]

_Block = dict[str, Any]
_FACTS: Final = ("finish_message", "url_context_metadata", "citation_metadata", "safety_ratings", "avg_logprobs")
_MEDIA: Final = ("image", "audio", "video")
_WORDS: Final = ("text", "reasoning")
_MARKS: Final = frozenset(("text", "thought", "thoughtSignature"))
"""Keys that say what a part of words is; one with others is of another kind."""


class Gathered:
    """What has come of one candidate."""

    def __init__(self, who: Mapping[str, str], message_id: str | None) -> None:
        self._who = who
        self._id = message_id
        self._facts: dict[str, Any] = {}
        self._usage: Any = b""
        self._finish: str | None = None
        self._blocked = False
        self._plain: list[str] = []  # text before there were blocks
        self._blocks = False  # content comes as blocks from here on
        self._index = -1  # of the block that is being added to
        self._kind = ""
        self._texts: list[tuple[int | None, list[str]]] = []  # text blocks by index
        self._calls = 0
        self._partial: PartialCall | None = None  # a call that comes in pieces
        self._unplaced: list[_Block] = []  # calls that nothing has followed
        self._sealed: list[_Block] = []  # signatures on empty text: they wait, for citations belong before them
        self._server_id = ""  # of the provider's own call that has no result yet

    @property
    def is_finished(self) -> bool:
        """Whether the provider has said why the answer ended."""
        return self._finish is not None

    @property
    def words(self) -> str:
        """The text so far."""
        return "".join(self._plain + [word for index, words in self._texts if index is not None for word in words])

    # -- what comes -------------------------------------------------------------------------------------------------

    def take(self, event: Event, candidate: Candidate | None, raw: Callable[[int], Any]) -> list[AIMessageChunk]:
        """The chunks of one event. `raw` gives the part of a number as it was sent."""
        chunks: list[AIMessageChunk] = []
        if candidate is not None:
            content = candidate.content
            if content is not None and content.parts:
                for number, part in enumerate(content.parts):
                    text = part.text
                    if text.__class__ is str and not part.thought and not part.thought_signature:
                        self._add_text(text, chunks)
                    else:
                        self._add_part(part, number, raw, chunks)
            if candidate.finish_reason:
                self._finish = str(candidate.finish_reason)
            if candidate.has_facts():
                self._note_candidate(candidate)
        facts = self._facts
        if event.model_version and "model_version" not in facts:
            facts["model_version"] = event.model_version
        if event.response_id and "response_id" not in facts:
            facts["response_id"] = event.response_id
        if event.usage_metadata:
            self._usage = event.usage_metadata
        if event.prompt_feedback:
            self._note_feedback(event.prompt_feedback)
        return chunks

    def _note_candidate(self, candidate: Candidate) -> None:
        facts = self._facts
        for name in _FACTS:
            value = getattr(candidate, name)
            if value:
                facts[name] = value
        if is_dict(candidate.grounding_metadata):
            facts["grounding_metadata"] = {**facts.get("grounding_metadata", {}), **candidate.grounding_metadata}
        found = candidate.logprobs_result
        if is_dict(found):
            known = facts.setdefault("logprobs_result", {})
            for key, value in found.items():
                before = known.get(key)
                known[key] = [*before, *value] if is_list(before) and is_list(value) else value

    def _note_feedback(self, feedback: Any) -> None:
        self._facts["prompt_feedback"] = feedback
        reason = feedback.get("blockReason") if is_dict(feedback) else None
        if reason and self._finish is None:
            self._finish, self._blocked = str(reason), True

    # -- parts ------------------------------------------------------------------------------------------------------

    def _add_text(self, text: str, chunks: list[AIMessageChunk]) -> None:
        if not text:
            return
        if self._blocks or self._unplaced or self._sealed:
            self._add_block({"type": "text", "text": text}, chunks)
            return
        if not self._plain:
            self._texts.append((None, self._plain))
        self._plain.append(text)
        chunks.append(AIMessageChunk(text, id=self._id))

    def _add_part(self, part: Part, number: int, raw: Callable[[int], Any], chunks: list[AIMessageChunk]) -> None:
        if is_dict(part.function_call):
            self._add_function(part.function_call, part.thought_signature, chunks)
            return
        block = self._block_of(part)
        if not isinstance(part.text, str) and (block is None or block["type"] in _WORDS):
            sent = raw(number)
            if is_dict(sent) and sent.keys() - _MARKS:
                self._add_block({"type": "non_standard", "value": sent}, chunks)
                return
        if block is None:
            return
        if part.thought_signature:
            extras: _Block = block.get("extras", {})
            block["extras"] = {**extras, "signature": part.thought_signature}
            if block["type"] == "text" and not block["text"]:
                self._place_calls(chunks)
                self._sealed.append(block)
                return
        self._add_block(block, chunks)

    def _block_of(self, part: Part) -> _Block | None:
        """The standard block of a part; None if it says nothing, or is of no known kind."""
        if is_dict(part.executable_code):
            return self._server_call(part.executable_code, "executableCode")
        if is_dict(part.code_execution_result):
            return self._server_result(part.code_execution_result, "codeExecutionResult")
        if is_dict(part.tool_call):
            return self._server_call(part.tool_call, "toolCall")
        if is_dict(part.tool_response):
            return self._server_result(part.tool_response, "toolResponse")
        if is_dict(part.inline_data):
            return _media(part.inline_data, "data", "base64", part.thought)
        if is_dict(part.file_data):
            return _media(part.file_data, "fileUri", "url", part.thought)
        text = part.text if isinstance(part.text, str) else ""
        if not text and not part.thought_signature:
            return None
        return {"type": "reasoning", "reasoning": text} if part.thought else {"type": "text", "text": text}

    def _server_call(self, found: Mapping[str, Any], kind: str) -> _Block:
        call_id = self._server_id = found.get("id") or made_id()
        if kind == "executableCode":
            name, args = "code_execution", {key: value for key, value in found.items() if key != "id"}
        else:
            name, args = str(found.get("toolType") or ""), dict(found.get("args") or {})
        return {"type": "server_tool_call", "id": call_id, "name": name, "args": args, "extras": {"part": kind}}

    def _server_result(self, found: Mapping[str, Any], kind: str) -> _Block:
        """A result without an id belongs to the call before it, if that had none either."""
        output = "output" if kind == "codeExecutionResult" else "response"
        block: _Block = {
            "type": "server_tool_result",
            "tool_call_id": found.get("id") or (self._server_id if is_made(self._server_id) else "") or made_id(),
            "status": "success" if found.get("outcome", "OUTCOME_OK") == "OUTCOME_OK" else "error",
        }
        if output in found:
            block["output"] = found[output]
        block["extras"] = {"part": kind, **{key: found[key] for key in found if key not in ("id", output)}}
        return block

    def _add_function(self, found: _Block, signature: Any, chunks: list[AIMessageChunk]) -> None:
        """A call, or a piece of one: only its first piece has the name."""
        partial = self._partial
        if partial is not None and found.get("name"):
            self._end_partial(chunks, is_whole=True)
            partial = None
        if partial is None and not found.get("willContinue") and not found.get("partialArgs"):
            self._add_call(found, signature, chunks)
            return
        if partial is None:
            partial = self._partial = PartialCall()
        partial.add(found, signature)
        if not found.get("willContinue"):
            self._end_partial(chunks, is_whole=True)

    def _end_partial(self, chunks: list[AIMessageChunk], *, is_whole: bool) -> None:
        partial, self._partial = self._partial, None
        if partial is not None:
            self._add_call(partial.call(is_whole=is_whole), partial.signature, chunks)

    def _add_call(self, found: _Block, signature: Any, chunks: list[AIMessageChunk]) -> None:
        args = found.get("args")
        piece: _Block = {
            "name": found.get("name") or None,
            "args": args if isinstance(args, str) else "" if args is None else dumps_text(args),
            "id": found.get("id") or made_id(),
            "index": self._calls,
            "type": "tool_call_chunk",
            **sealed_call(signature),
        }
        self._calls += 1
        place: _Block = {"name": piece["name"] or "", "args": args if is_dict(args) else {}, "id": piece["id"]}
        self._flush_sealed(chunks)
        self._unplaced.append({"type": "tool_call", **place})
        chunks.append(AIMessageChunk(id=self._id, tool_call_chunks=cast("Any", [piece])))

    # -- blocks -----------------------------------------------------------------------------------------------------

    def _add_block(self, block: _Block, chunks: list[AIMessageChunk]) -> None:
        self._place_calls(chunks)
        self._flush_sealed(chunks)
        kind = block["type"]
        joins = kind in _WORDS and "extras" not in block
        if not (joins and kind == self._kind):
            self._index += 1
            if kind == "text":
                self._texts.append((self._index, []))
        self._kind = kind if joins else ""
        if kind == "text":
            self._texts[-1][1].append(block["text"])
        self._send(block, chunks)

    def _send(self, block: _Block, chunks: list[AIMessageChunk]) -> None:
        self._blocks = True
        chunks.append(AIMessageChunk(cast("Any", [{**block, "index": self._index}]), id=self._id))

    def _place_calls(self, chunks: list[AIMessageChunk]) -> None:
        """Blocks in the places of the calls that something follows."""
        for call in self._unplaced:
            self._index, self._kind = self._index + 1, ""
            self._send(call, chunks)
        self._unplaced.clear()

    def _flush_sealed(self, chunks: list[AIMessageChunk]) -> None:
        for block in self._sealed:
            self._index, self._kind = self._index + 1, ""
            self._send(block, chunks)
        self._sealed.clear()

    # -- the end ----------------------------------------------------------------------------------------------------

    def end(self) -> list[AIMessageChunk]:
        """What is left, and the empty chunk that says how the answer ended."""
        chunks: list[AIMessageChunk] = []
        self._end_partial(chunks, is_whole=False)
        self._cite(chunks)
        self._flush_sealed(chunks)
        counts = counts_in(self._usage)
        word = finish_word(
            self._finish, blocked=self._blocked, calls=self._calls > 0, said=bool(self._plain) or self._index >= 0
        )
        metadata = metadata_of(self._facts, who=self._who, word=word, raw=self._finish, usage=counts)
        last = AIMessageChunk(
            response_metadata=metadata, id=self._id, usage_metadata=usage_of(counts), chunk_position="last"
        )
        return [*chunks, last]

    def _cite(self, chunks: list[AIMessageChunk]) -> None:
        """A piece for each text that has sources.

        Text before the first block has no index: once there are blocks, nothing can be added to it, and its sources
        follow without a place.
        """
        facts = self._facts
        texts = ["".join(words) for _, words in self._texts]
        found = citations_of(texts, facts.get("grounding_metadata"), facts.get("citation_metadata"))
        for number, citations in found.items():
            index = self._texts[number][0]
            block: _Block = {"type": "text", "text": "", "annotations": citations}
            if index is None and self._blocks:
                index = self._index = self._index + 1
                block["annotations"] = [_without_place(citation) for citation in citations]
            if index is not None:
                block["index"] = index
            chunks.append(AIMessageChunk(cast("Any", [block]), id=self._id))


def _without_place(citation: _Block) -> _Block:
    return {key: value for key, value in citation.items() if key not in ("start_index", "end_index")}


def _media(found: Mapping[str, Any], key: str, name: str, thought: Any) -> _Block:
    """A picture, sound or file. One that belongs to the thoughts says so."""
    mime = str(found.get("mimeType") or "")
    kind = mime.partition("/")[0]
    block: _Block = {"type": kind if kind in _MEDIA else "file", name: found.get(key) or ""}
    if mime:
        block["mime_type"] = mime
    extras = {"filename": found.get("displayName"), "thought": thought}
    known = {key: value for key, value in extras.items() if value}
    return {**block, "extras": known} if known else block
