"""Every recorded exchange of the format parses to what its oracle says: whole, cut anywhere, through a real socket."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.messages import AIMessage
from loopwright.models.openai_chat import ChatOpenAI
from loopwright.models.openai_chat.response import parse_response
from loopwright.models.openai_chat.stream import ChatStream
from loopwright.models.wire_errors import Peer
from tests.models.recorded import Format, Proof


def model_at(url: str) -> ChatOpenAI:
    return ChatOpenAI(model="m", api_key="sk-test", base_url=f"{url}/v1", max_retries=0)


def sealed(message: AIMessage) -> list[str]:
    details: list[Any] = message.additional_kwargs.get("reasoning_details", [])
    return [detail[key] for detail in details for key in ("signature", "data") if detail.get(key)]


FORMAT = Format(
    "openai-chat", Peer("recorded", "http://127.0.0.1/v1"), parse_response, ChatStream, model=model_at, sealed=sealed
)
RECORDS = FORMAT.records

pytestmark = FORMAT.is_there


@pytest.mark.shows("openai-chat", "azure", "bedrock", "openai-compatible", "recordings parsed")
class TestRecordings(Proof):
    format = FORMAT
    counts = (214, 51)
