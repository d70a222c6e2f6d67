"""Recorded exchanges of a wire format, and the proof that each arrives as its oracle says.

A test file makes a `Format`, which says what is particular to it, and a subclass of `Proof`, whose tests are the same
for all: whole, cut anywhere, through a real socket, blocking and on a loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest

from loopwright import errors
from loopwright.messages import AIMessage, HumanMessage, merge_chunks, message_chunk_to_message
from loopwright.models.wire_errors import Peer, from_response
from tests.models.loopback import Answer, Loopback, Request

__all__ = ["FOLDER", "Format", "Proof", "answer_to", "is_there", "records_where"]

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "recordings"

_KINDS = {
    errors.AuthenticationError: "authentication",
    errors.PermissionDeniedError: "permission",
    errors.NotFoundError: "not_found",
    errors.RateLimitError: "rate_limit",
    errors.ServerError: "server",
    errors.StreamError: "stream_error",
    errors.InvalidResponseError: "invalid_response",
    errors.BadRequestError: "bad_request",
}
_QUESTION = [HumanMessage("hi")]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def records_where(wanted: Callable[[dict[str, Any]], bool]) -> dict[str, dict[str, Any]]:
    """The records that are wanted, by id; none where the folder is not there."""
    paths = (path for path in sorted(FOLDER.glob("*.jsonl")) if path.name != "fuzz_splits.jsonl")
    return {record["id"]: record for path in paths for record in _lines(path) if wanted(record)}


def is_there(records: dict[str, Any]) -> pytest.MarkDecorator:
    """Skips where the recordings are not there."""
    return pytest.mark.skipif(not records, reason=f"the recorded exchanges are not there: {FOLDER}")


def answer_to(record: dict[str, Any]) -> Answer:
    """What a server answers with; a stream comes in pieces of 1,000 bytes."""
    response = record["response"]
    body = response["body"].encode()
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)] if "stream" in record["tags"] else None
    return Answer(response["status"], body, {"content-type": response["content_type"]}, pieces)


@dataclass(frozen=True)
class Format:
    """One wire format, and how our answers are read in the oracles' terms."""

    api: str
    peer: Peer
    whole: Callable[[bytes, Peer], Sequence[AIMessage]]
    """Reads a whole answer."""
    reader: Callable[[Peer], Any]
    """Reads a streamed one."""
    model: Callable[[str], Any]
    """A model at an address that ends with the id of its record."""
    sealed: Callable[[AIMessage], Sequence[str]]
    """Signatures and encrypted reasoning, in order."""
    others: Callable[[AIMessage], list[str]] | None = None
    """The types of the remaining parts, where the format keeps them under the provider's names."""
    bytewise: float = 32_768
    """Streams of so many bytes are cut after every byte, too."""

    @cached_property
    def records(self) -> dict[str, dict[str, Any]]:
        return records_where(lambda record: record["api"] == self.api)

    @cached_property
    def streams(self) -> list[str]:
        return [name for name, record in self.records.items() if "stream" in record["tags"]]

    @cached_property
    def cuts(self) -> dict[str, list[dict[str, Any]]]:
        if not self.records:
            return {}
        return {line["id"]: line["cases"] for line in _lines(FOLDER / "fuzz_splits.jsonl")}

    @property
    def is_there(self) -> pytest.MarkDecorator:
        return is_there(self.records)

    # -- our answer in the oracle's terms ---------------------------------------------------------------------------

    def normal(self, message: AIMessage) -> dict[str, Any]:
        blocks: list[Any] = list(message.content_blocks)
        usage = message.usage_metadata
        told = {
            "text": message.text,
            "reasoning": "".join(block.get("reasoning", "") for block in blocks if block["type"] == "reasoning"),
            "refusal": "".join(block["refusal"] for block in blocks if block["type"] == "refusal") or None,
            "tool_calls": [{key: call[key] for key in ("id", "name", "args")} for call in message.tool_calls],
            "invalid_tool_calls": [
                {key: call[key] for key in ("id", "name", "args")} for call in message.invalid_tool_calls
            ],
            "finish_reason": message.response_metadata["raw_finish_reason"],
            "usage": usage
            and {
                **{key: usage[key] for key in ("input_tokens", "output_tokens", "total_tokens")},
                "cache_read": usage.get("input_token_details", {}).get("cache_read", 0),
                "cache_creation": usage.get("input_token_details", {}).get("cache_creation", 0),
                "reasoning": usage.get("output_token_details", {}).get("reasoning", 0),
            },
            "model": message.response_metadata["model_name"],
            "response_id": message.response_metadata["id"],
            "signatures": [hashlib.sha256(text.encode()).hexdigest()[:16] for text in self.sealed(message)],
        }
        return told if self.others is None else {**told, "other": self.others(message)}

    def wanted(self, record: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
        """The oracle, with what it leaves open taken from `got`: ids that were not sent, values that are as good."""
        oracle = record["oracle"]
        want = {name: oracle.get(name) for name in got}
        want["signatures"] = oracle.get("signatures", [])
        if "other" in got:
            want["other"] = oracle.get("other", [])
        want["finish_reason"] = oracle["finish_reason"] or None
        for name in ("model", "response_id"):
            want[name] = oracle[name] or got[name]
        for name in ("tool_calls", "invalid_tool_calls"):
            ids = [call["id"] for call in got[name]]
            calls = [{key: call[key] for key in ("id", "name", "args")} for call in oracle[name]]
            want[name] = [{**call, "id": call["id"] or own} for call, own in zip(calls, ids, strict=True)]
        if oracle["usage"] is not None:
            want["usage"] = {key: value or 0 for key, value in oracle["usage"].items()}
        for name, others in oracle.get("accept", {}).items():
            if got.get(name) in others:
                want[name] = got[name]
        return want

    def check(self, record: dict[str, Any], outcome: Any) -> None:
        """An answer or an error of ours is what the oracle says."""
        if isinstance(outcome, errors.ModelError):
            _check_error(record, outcome)
            return
        assert record["oracle"]["error"] is None, outcome
        got = self.normal(outcome)
        assert self.wanted(record, got) == got
        assert all(call["id"] for call in outcome.tool_calls)

    def parse(self, record: dict[str, Any], pieces: Sequence[bytes]) -> AIMessage:
        """The answer in bytes that arrive so."""
        response = record["response"]
        if response["status"] >= 300:
            raise from_response(self.peer, response["status"], {}, b"".join(pieces))
        if "stream" not in record["tags"]:
            return self.whole(b"".join(pieces), self.peer)[0]
        stream = self.reader(self.peer)
        chunks = [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()
        assert [chunk.chunk_position for chunk in chunks] == [None] * (len(chunks) - 1) + ["last"]
        return _summed(chunks)

    def serve(self, request: Request) -> Answer:
        """The record that the path begins with."""
        return answer_to(self.records[request.path.split("/")[1]])


def _check_error(record: dict[str, Any], error: errors.ModelError) -> None:
    oracle = record["oracle"]["error"]
    assert oracle is not None, error
    kind = next(kind for cls, kind in _KINDS.items() if isinstance(error, cls))
    if oracle["kind"] == "provider_error":  # an error inside a 200: by its own words a refused request
        assert (kind, error.status_code) == ("bad_request", 400)
    else:
        assert (kind, error.status_code) == (oracle["kind"], oracle["status"])
    assert " ".join((oracle["message"] or "").split()) in " ".join(str(error).split())


def _summed(chunks: Sequence[Any]) -> AIMessage:
    message = message_chunk_to_message(merge_chunks(list(chunks)))
    assert isinstance(message, AIMessage)
    return message


class Proof:
    """`record` is each record of the format, `streamed` each that is a stream (`conftest.py`)."""

    format: ClassVar[Format]
    counts: ClassVar[tuple[int, int]]
    """Records in all, and streams: none is passed over."""

    def test_all_of_them_are_here(self):
        assert (len(self.format.records), len(self.format.streams)) == self.counts

    def test_whole(self, record: dict[str, Any]):
        try:
            outcome: Any = self.format.parse(record, [record["response"]["body"].encode()])
        except errors.ModelError as error:
            outcome = error
        self.format.check(record, outcome)

    def test_cut(self, streamed: dict[str, Any]):
        """At the places where decoders break, and after every byte."""
        body = streamed["response"]["body"].encode()
        cuttings: list[Sequence[int]] = [case["cuts"] for case in self.format.cuts[streamed["id"]]]
        if len(body) <= self.format.bytewise:
            cuttings.append(range(1, len(body)))
        for cuts in cuttings:
            pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
            self.format.check(streamed, self.format.parse(streamed, pieces))

    def test_through_a_socket_blocking(self):
        with Loopback(self.format.serve) as server:
            for name, record in self.format.records.items():
                model = self.format.model(f"http://127.0.0.1:{server.port}/{name}")
                try:
                    streams = "stream" in record["tags"]
                    outcome: Any = _summed(list(model.stream(_QUESTION))) if streams else model.invoke(_QUESTION)
                except errors.ModelError as error:
                    outcome = error
                self.format.check(record, outcome)
                model.close()

    def test_through_a_socket_on_a_loop(self):
        async def ask(model: Any, *, streams: bool) -> AIMessage:
            if not streams:
                return await model.ainvoke(_QUESTION)
            return _summed([chunk async for chunk in model.astream(_QUESTION)])

        async def all_at_once(server: Loopback) -> list[Any]:
            asked = (
                ask(self.format.model(f"http://127.0.0.1:{server.port}/{name}"), streams="stream" in record["tags"])
                for name, record in self.format.records.items()
            )
            return await asyncio.gather(*asked, return_exceptions=True)

        with Loopback(self.format.serve) as server:
            outcomes = asyncio.run(all_at_once(server))
        for record, outcome in zip(self.format.records.values(), outcomes, strict=True):
            self.format.check(record, outcome)
