"""`ChatAnthropicBedrock`: Claude behind Amazon Bedrock, in Anthropic's own format.

Rules:

- the model is part of the address, the version of the format and the betas part of the body;
- with a Bedrock API key (`api_key=` or `AWS_BEARER_TOKEN_BEDROCK`) the key is sent; without one, each request is signed
  with the AWS credentials that botocore finds (extra `bedrock`), unless `auth=` does it;
- a streamed answer comes in AWS's own framing, whose messages each hold one of Anthropic's events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, SecretStr

from loopwright.errors import InvalidResponseError, ModelConnectionError, UsageError
from loopwright.messages import AIMessageChunk, BaseMessage
from loopwright.models.addresses import host_of
from loopwright.models.anthropic.model import ChatAnthropic
from loopwright.models.anthropic.profiles import profile_of
from loopwright.models.anthropic.settings import SPELLINGS, betas_of
from loopwright.models.anthropic.stream import MessageStream
from loopwright.models.aws import Signer, region_of
from loopwright.models.eventstream import EventStreamDecoder
from loopwright.models.http import WireRequest
from loopwright.models.settings import first_env, given_key, settle_names, sound_key
from loopwright.models.wire_errors import Peer, error_in_stream
from loopwright.models.wire_json import dumps, loads

__all__ = ["BedrockStream", "ChatAnthropicBedrock"]

_VERSION = "bedrock-2023-05-31"
_KEY_ENV = ("AWS_BEARER_TOKEN_BEDROCK",)


class ChatAnthropicBedrock(ChatAnthropic):
    """Claude at Amazon Bedrock. `model` is Bedrock's id, or the ARN of an inference profile."""

    region_name: str | None = None
    """The AWS region; without it, `AWS_REGION`."""
    credentials_profile_name: str | None = None
    """A profile of the AWS configuration."""
    aws_access_key_id: SecretStr | None = Field(default=None, exclude=True, repr=False)
    aws_secret_access_key: SecretStr | None = Field(default=None, exclude=True, repr=False)
    aws_session_token: SecretStr | None = Field(default=None, exclude=True, repr=False)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super(ChatAnthropic, self).__init__(**_settle(type(self), fields))

    @property
    def _llm_type(self) -> str:
        return "anthropic-bedrock-chat"

    def _reader(self, peer: Peer) -> BedrockStream:
        return BedrockStream(peer)

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        from urllib.parse import quote

        given = {**self.model_kwargs, **kwargs}
        betas = given.pop("betas", self.betas)
        body = {"anthropic_version": _VERSION, **self._body(messages, stop, given)}
        model = body.pop("model")
        if wanted := betas_of(body, betas):
            body["anthropic_beta"] = wanted
        key = self._key()
        accept = "application/vnd.amazon.eventstream" if streamed else "application/json"
        headers = self._headers({"authorization": f"Bearer {key}"} if key else {}, accept=accept)
        peer = Peer(
            "bedrock",
            self.base_url,
            host=None if self.base_url.endswith(".amazonaws.com") else host_of(self.base_url),
            key_hint="the key comes from api_key= or AWS_BEARER_TOKEN_BEDROCK",
            secrets=self._secrets(key),
        )
        verb = "invoke-with-response-stream" if streamed else "invoke"
        return WireRequest(f"{self.base_url}/model/{quote(model, safe='')}/{verb}", headers, dumps(body), peer)


class BedrockStream:
    """Reads one streamed answer: `feed` each piece of bytes, then `close`."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._frames = EventStreamDecoder()
        self._events = MessageStream(peer)
        self._is_framed: bool | None = None
        """Whether the body is an event stream at all; None before its first byte."""

    def feed(self, piece: bytes) -> list[AIMessageChunk]:
        """The chunks that `piece` completes."""
        if self._is_framed is None and piece:
            self._is_framed = piece[0] == 0  # the length of no message fills four bytes
        if not self._is_framed:
            return self._events.feed(piece)
        try:
            frames = self._frames.feed(piece)
        except ValueError as problem:
            raise InvalidResponseError(f"{self._peer.label} sent a broken event stream: {problem}") from None
        return [chunk for headers, payload in frames for chunk in self._take(headers, payload)]

    def close(self) -> list[AIMessageChunk]:
        """What is left when the bytes have ended. Raises where the answer is not complete."""
        if not self._frames.is_between_messages:
            raise ModelConnectionError(
                f"the stream from {self._peer.label} ended inside a message", code="incomplete_stream"
            )
        return self._events.close()

    def _take(self, headers: Mapping[str, str], payload: bytes) -> list[AIMessageChunk]:
        try:
            value: Any = loads(payload)
        except ValueError:
            value = {"message": payload.decode("utf-8", "replace")}
        kind = headers.get(":message-type", "event")
        if kind != "event":
            name = headers.get(":exception-type") or headers.get(":error-code") or kind
            words = value.get("message") or headers.get(":error-message") or name
            raise error_in_stream(self._peer, {"error": {"message": words, "code": name}})
        from base64 import b64decode

        event = b64decode(value.get("bytes") or b"")
        return self._events.feed(b"data: " + event.replace(b"\n", b" ") + b"\n\n") if event else []


def _settle(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields as they are kept: region, address and key found. Raises `UsageError`."""
    settle_names(cls, fields, {**SPELLINGS, "model_id": "model", "region": "region_name", "endpoint_url": "base_url"})
    if not fields.get("model"):
        name = "anthropic.claude-sonnet-4-5-20250929-v1:0"
        raise UsageError(f'{cls.__name__} needs the id of a model: {cls.__name__}(model="{name}")')
    fields["region_name"] = region = region_of(fields.get("region_name"))
    url = str(fields.get("base_url") or f"https://bedrock-runtime.{region}.amazonaws.com").rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise UsageError(f"base_url must begin with https:// or http://, not {url!r}")
    fields["base_url"] = url
    if fields.get("api_key") is not None:
        fields["api_key"] = given_key(fields["api_key"])
    elif not fields.get("aws_access_key_id") and (found := first_env(_KEY_ENV)):
        fields["api_key"] = SecretStr(sound_key(found))
    headers: Mapping[str, str] = fields.get("default_headers") or {}
    if not (fields.get("api_key") or fields.get("auth") or "authorization" in map(str.lower, headers)):
        fields["auth"] = _signer(region, fields)
    if fields.get("profile") is None:
        fields["profile"] = profile_of(str(fields["model"]))
    return fields


def _signer(region: str, fields: Mapping[str, Any]) -> Signer:
    def shown(name: str) -> str | None:
        given = fields.get(name)
        return given.get_secret_value() if isinstance(given, SecretStr) else given

    return Signer(
        "bedrock",
        region,
        profile=fields.get("credentials_profile_name"),
        access_key=shown("aws_access_key_id"),
        secret_key=shown("aws_secret_access_key"),
        session_token=shown("aws_session_token"),
    )
