"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.messages import AIMessage
from loopwright.models.anthropic import ChatAnthropic
from loopwright.models.anthropic.response import parse_response
from loopwright.models.anthropic.stream import MessageStream
from loopwright.models.wire_errors import Peer
from tests.models.recorded import Format, Proof


def model_at(url: str) -> ChatAnthropic:
    return ChatAnthropic(model="m", api_key="sk-test", base_url=url, max_retries=0)


def sealed(message: AIMessage) -> list[str]:
    content: list[Any] = message.content if isinstance(message.content, list) else []
    return [text for block in content if (text := block.get("signature") or block.get("data"))]


FORMAT = Format(
    "anthropic-messages", Peer("anthropic", "http://127.0.0.1"), parse_response, MessageStream, model_at, sealed
)
PEER, RECORDS, STREAMS, check, parse = FORMAT.peer, FORMAT.records, FORMAT.streams, FORMAT.check, FORMAT.parse

pytestmark = FORMAT.is_there


@pytest.mark.shows("anthropic", "bedrock", "recordings parsed", "usage details")
class TestRecordings(Proof):
    format = FORMAT
    counts = (162, 55)
