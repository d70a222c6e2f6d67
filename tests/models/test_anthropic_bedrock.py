"""`ChatAnthropicBedrock`: what it posts, how it signs, and AWS's framing of a stream."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
import pickle
from typing import Any
from urllib.parse import quote
from zlib import crc32

import pytest

from loopwright import errors
from loopwright.messages import HumanMessage, merge_chunks
from loopwright.models.anthropic import ChatAnthropicBedrock
from loopwright.models.anthropic.bedrock import BedrockStream
from loopwright.models.aws import Signer
from loopwright.models.eventstream import EventStreamDecoder
from loopwright.models.wire_errors import Peer
from tests.models.loopback import Answer, Loopback, Request
from tests.models.test_anthropic import answer, text
from tests.models.test_anthropic_stream import BEGIN, END, delta, start

MODEL = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
KEYS: dict[str, Any] = {"aws_access_key_id": "AKIDEXAMPLE", "aws_secret_access_key": "very-secret-key-1"}
EVENTS = [BEGIN, start(0, "text", text=""), delta(0, "text_delta", text="Hel"), delta(0, "text_delta", text="lo"), END]


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)


def made(**fields: Any) -> ChatAnthropicBedrock:
    return ChatAnthropicBedrock(**{"model": MODEL, "region_name": "us-east-1", **fields})


def model_at(server: Loopback, **fields: Any) -> ChatAnthropicBedrock:
    return made(base_url=f"http://127.0.0.1:{server.port}", max_retries=0, **fields)


# -- requests -------------------------------------------------------------------------------------------------------


def test_a_call_with_a_key():
    with Loopback(Answer(body=answer(text("hello")))) as server:
        model = model_at(server, api_key="bedrock-key-1")
        said = model.invoke("hi", betas=["x"])
        model.close()
        [got] = server.requests
    assert said.content == "hello"
    assert said.response_metadata["provider"] == "bedrock"
    assert got.path == f"/model/{quote(MODEL, safe='')}/invoke"
    assert got.headers["authorization"] == "Bearer bedrock-key-1"
    assert got.json == {
        "anthropic_version": "bedrock-2023-05-31",
        "anthropic_beta": ["x"],
        "max_tokens": 32_000,
        "messages": [{"role": "user", "content": "hi"}],
    }


def signature_of(request: Request, secret: str) -> str:
    """Signature Version 4 by its definition, from what came in at the server."""
    _, _, fields = request.headers["authorization"].partition(" ")
    told = dict(field.split("=", 1) for field in fields.split(", "))
    _, date, region, service, end = told["Credential"].split("/")
    names = told["SignedHeaders"].split(";")
    canonical = "\n".join([
        request.method,
        quote(request.path, safe="/~"),
        "",
        *(f"{name}:{request.headers[name].strip()}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(request.body).hexdigest(),
    ])  # fmt: skip
    scope = f"{date}/{region}/{service}/{end}"
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    words = f"AWS4-HMAC-SHA256\n{request.headers['x-amz-date']}\n{scope}\n{hashed}"
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, end):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, words.encode(), "sha256").hexdigest()


@pytest.mark.parametrize("streamed", [False, True])
def test_a_call_that_is_signed(streamed: bool):
    pytest.importorskip("botocore", reason="signing needs the extra: bedrock")
    with Loopback(Answer(body=answer(text("hello")))) as server:
        model = model_at(server, **KEYS, aws_session_token="session-token-1")
        said = merge_chunks(list(model.stream("hi"))) if streamed else model.invoke("hi")
        model.close()
        [got] = server.requests
    assert said.content == "hello"
    assert "/us-east-1/bedrock/aws4_request" in got.headers["authorization"]
    assert got.headers["authorization"].endswith(f"Signature={signature_of(got, 'very-secret-key-1')}")
    assert got.headers["x-amz-security-token"] == "session-token-1"
    assert got.path.endswith("/invoke-with-response-stream" if streamed else "/invoke")


def test_nothing_secret_is_shown():
    model = made(**KEYS, aws_session_token="session-token-1")
    shown = f"{model!r} {model.model_dump()} {model.model_dump_json()} {model.auth!r}"
    assert not [secret for secret in ("AKIDEXAMPLE", "very-secret", "session-token") if secret in shown]


def test_copies_sign_too():
    pytest.importorskip("botocore", reason="signing needs the extra: bedrock")
    model = made(**KEYS)
    request = model._request([HumanMessage("hi")], None, {}, streamed=False)
    model._authorised(request)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert "AKIDEXAMPLE" in other._authorised(request).headers["authorization"]


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    pytest.importorskip("botocore", reason="signing needs the extra: bedrock")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with pytest.raises(errors.UsageError, match="no AWS credentials: give aws_access_key_id="):
        Signer("bedrock", "us-east-1")("POST", "https://x.example/", {}, b"")


def test_where_region_and_key_come_from(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(errors.UsageError, match="an address for each region: give region_name="):
        made(region_name=None)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key-2")
    model = made(region_name=None)
    assert model.base_url == "https://bedrock-runtime.eu-central-1.amazonaws.com"
    request = model._request([HumanMessage("hi")], None, {}, streamed=False)
    assert request.headers["authorization"] == "Bearer bedrock-key-2"
    assert made(**KEYS).api_key is None
    with pytest.raises(errors.UsageError, match="needs the id of a model"):
        made(model="")
    with pytest.raises(errors.UsageError, match="must begin with https://"):
        made(base_url="bedrock")


@pytest.mark.shows("bedrock", "reasoning", "prompt cache marks")
def test_a_thought_goes_back_signed_and_the_end_is_marked():
    thought = {"type": "thinking", "thinking": "A capital.", "signature": "c2VhbGVk"}
    with Loopback(Answer(body=answer(thought, text("Oslo.")))) as server:
        model = model_at(server, api_key="bedrock-key-1", prompt_caching=True)
        said = model.invoke("Where?")
        model.invoke([HumanMessage("Where?"), said, HumanMessage("Sure?")])
        model.close()
        [_, turn, last] = server.requests[1].json["messages"]
    assert [block.get("type") for block in said.content_blocks] == ["reasoning", "text"]
    assert turn["content"] == [thought, text("Oslo.")]
    assert last["content"] == [{**text("Sure?"), "cache_control": {"type": "ephemeral"}}]


@pytest.mark.shows("bedrock", "citations", "refusals")
def test_citations_and_a_refusal():
    cited = {**text("So."), "citations": [{"type": "char_location", "cited_text": "so", "start_char_index": 0}]}
    with Loopback(Answer(body=answer(cited)), Answer(body=answer(reason="refusal"))) as server:
        model = model_at(server, api_key="bedrock-key-1")
        said, refused = model.invoke("So?"), model.invoke("Do it.")
        model.close()
    [block] = said.content_blocks
    assert block.get("annotations") == [{"type": "citation", "cited_text": "so", "extras": {"start_char_index": 0}}]
    assert (refused.text, refused.response_metadata["finish_reason"]) == ("", "refusal")


@pytest.mark.shows("bedrock", "profile")
def test_what_is_known_of_the_model():
    profile = made(**KEYS).profile
    assert profile is not None
    assert profile["max_output_tokens"] == 64_000


@pytest.mark.shows("bedrock", "errors mapped")
def test_errors_of_bedrock():
    with Loopback(
        Answer(429, {"message": "Too many requests"}), Answer(403, {"Message": "bad bedrock-key-1"})
    ) as server:
        model = model_at(server, api_key="bedrock-key-1")
        with pytest.raises(errors.RateLimitError, match="Too many requests"):
            model.invoke("hi")
        with pytest.raises(errors.PermissionDeniedError) as caught:
            model.invoke("hi")
        model.close()
    assert "bedrock-key-1" not in str(caught.value)


# -- the framing of a stream ----------------------------------------------------------------------------------------


def frame(payload: dict[str, Any] | bytes, **headers: str) -> bytes:
    """One message of an event stream, by its definition."""
    named = {
        ":message-type": "event",
        ":event-type": "chunk",
        **{f":{k.replace('_', '-')}": v for k, v in headers.items()},
    }
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
        for name, value in named.items()
    )
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    begin = (12 + len(head) + len(body) + 4).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    begin += crc32(begin).to_bytes(4, "big")
    message = begin + head + body
    return message + crc32(message).to_bytes(4, "big")


def chunk(event: bytes) -> bytes:
    data = event.partition(b"data: ")[2].strip()
    return frame({"bytes": base64.b64encode(data).decode(), "p": "abcdef"})


def framed() -> bytes:
    lines = b"".join(EVENTS).split(b"\n\n")[:-1]
    return b"".join(map(chunk, lines))


def read(*pieces: bytes) -> list[Any]:
    stream = BedrockStream(Peer("bedrock", "https://x"))
    return [chunk for piece in pieces for chunk in stream.feed(piece)] + stream.close()


def test_a_stream():
    with Loopback(Answer(pieces=[framed()], headers={"content-type": "application/vnd.amazon.eventstream"})) as server:
        model = model_at(server, api_key="bedrock-key-1")
        chunks = list(model.stream("hi"))
        model.close()
        [got] = server.requests
    assert [chunk.content for chunk in chunks] == ["Hel", "lo", ""]
    assert chunks[-1].response_metadata["provider"] == "bedrock"
    assert got.headers["accept"] == "application/vnd.amazon.eventstream"
    assert "stream" not in got.json


def test_a_stream_that_is_cut_anywhere():
    body = framed()
    wanted = [chunk.content for chunk in read(body)]
    assert wanted == [chunk.content for chunk in read(*(body[at : at + 1] for at in range(len(body))))]
    for at in range(1, len(body)):
        assert wanted == [chunk.content for chunk in read(body[:at], body[at:])]


def test_botocore_reads_the_same():
    eventstream: Any = pytest.importorskip("botocore.eventstream", reason="the other reader is botocore's")
    buffer = eventstream.EventStreamBuffer()
    buffer.add_data(framed())
    theirs = [(message.headers, message.payload) for message in buffer]
    assert theirs == EventStreamDecoder().feed(framed())


@pytest.mark.shows("bedrock", "cut mid-stream")
def test_a_stream_that_breaks_off():
    body = framed()
    with pytest.raises(errors.ModelConnectionError, match="ended inside a message"):
        read(body[:-5])
    with pytest.raises(errors.ModelConnectionError, match="before the answer did"):
        read(chunk(EVENTS[0]) + chunk(EVENTS[2]))
    damaged = bytearray(body)
    damaged[40] ^= 1
    with pytest.raises(errors.InvalidResponseError, match="broken event stream: the checksum"):
        read(bytes(damaged))
    with pytest.raises(errors.InvalidResponseError, match="no sound head"):
        read(b"\0" * 20)


def test_an_exception_inside_a_stream():
    refused = frame({"message": "Too many tokens"}, message_type="exception", exception_type="throttlingException")
    with pytest.raises(errors.StreamError, match="Too many tokens") as caught:
        read(chunk(EVENTS[0]), refused)
    assert caught.value.code == "throttlingException"
    assert caught.value.retryable
    broken = frame(b"", message_type="error", error_code="500", error_message="gone")
    with pytest.raises(errors.StreamError, match="gone"):
        read(broken)


def test_headers_of_every_type():
    values = {0: b"", 2: b"\1", 3: b"\1\2", 4: b"\1\2\3\4", 8: b"\0" * 8, 9: b"\0" * 16, 6: b"\0\2ab", 7: b"\0\2hi"}
    head = b"".join(b"\1" + bytes([97 + kind, kind]) + value for kind, value in values.items())
    begin = (16 + len(head)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    begin += crc32(begin).to_bytes(4, "big")
    message = begin + head
    [(headers, payload)] = EventStreamDecoder().feed(message + crc32(message).to_bytes(4, "big"))
    assert (headers, payload) == ({"h": "hi"}, b"")
