"""What a reply costs: the provider's own figure, else the table's, else nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loopwright.chat_models import ChatOpenAI
from loopwright.messages import AIMessage
from loopwright.models.openai_chat import response as chat
from loopwright.models.openai_responses import response as responses
from loopwright.models.prices import price_of
from loopwright.models.wire_errors import Peer
from tests.models.loopback import Answer, Loopback, chat_answer
from tests.models.test_openai_responses import responses_answer
from tests.models.test_openai_responses_request import text_item

SHARED = Path(__file__).resolve().parents[3] / "shared" / "recordings"


def reply(provider: str = "openai", model: str | None = "gpt-4o-mini", usage: Any = None, **metadata: Any) -> AIMessage:
    usage = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100} if usage is None else usage
    known = {"provider": provider, "model_name": model, **metadata}
    return AIMessage("ok", response_metadata=known, usage_metadata=usage or None)


def spent(**details: Any) -> dict[str, Any]:
    return {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100, **details}


@pytest.mark.shows("openai-compatible", "prices")
@pytest.mark.parametrize(
    ("said", "dollars"),
    [
        ({"cost": 0.25}, 0.25),
        ({"token_usage": {"cost": 0.000151, "is_byok": False}}, 0.000151),
        ({"token_usage": {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}}, 0.21),
        ({"token_usage": {"cost_in_usd_ticks": 37_756_000}}, 0.0037756),
        ({"token_usage": {"cost": {"input_tokens_cost": 0.001, "total_cost": 0.006}}}, 0.006),
        ({"cache_hit": True}, 0.0),
    ],
    ids=["ours", "OpenRouter", "OpenRouter with a key of one's own", "xAI", "Perplexity", "remembered"],
)
def test_the_providers_own_figure_goes_first(said: dict[str, Any], dollars: float) -> None:
    assert price_of(reply(**said)) == pytest.approx(dollars)


@pytest.mark.shows("openai-responses", "prices")
def test_an_answer_of_responses_has_its_price() -> None:
    body = responses_answer(text_item("Hello"), model="gpt-4o-mini")
    [message] = responses.parse_response(json.dumps(body).encode(), Peer("openai", "https://api.openai.com/v1"))
    assert price_of(message) == pytest.approx((3 * 0.15 + 2 * 0.60) / 1e6)


@pytest.mark.shows("openai-chat", "azure", "anthropic", "bedrock", "google", "vertex", "prices")
@pytest.mark.parametrize(
    ("message", "dollars"),
    [
        (reply(), (1000 * 0.15 + 100 * 0.60) / 1e6),
        (reply(usage=spent(input_token_details={"cache_read": 400})), (600 * 0.15 + 400 * 0.075 + 60) / 1e6),
        (reply("azure"), (1000 * 0.15 + 100 * 0.60) / 1e6),
        (reply(model="gpt-4o-mini-2024-07-18"), (1000 * 0.15 + 100 * 0.60) / 1e6),
        (reply(model="o3-mini", usage=spent(output_token_details={"reasoning": 60})), (1100 + 440) / 1e6),
        (
            reply(
                "anthropic",
                "claude-sonnet-4-20250514",
                spent(input_token_details={"cache_read": 500, "cache_creation": 200}),
            ),
            (300 * 3 + 500 * 0.3 + 200 * 3.75 + 100 * 15) / 1e6,
        ),
        (reply("bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0"), (1000 * 1.1 + 100 * 5.5) / 1e6),
        (reply("google", "gemini-2.5-flash"), (1000 * 0.3 + 100 * 2.5) / 1e6),
        (reply("google-vertex", "gemini-2.5-flash"), (1000 * 0.3 + 100 * 2.5) / 1e6),
    ],
    ids=["plain", "cache reads", "Azure", "dated", "reasoning", "cache writes", "Bedrock", "Gemini", "Vertex AI"],
)
def test_the_table_knows_the_usual_models(message: AIMessage, dollars: float) -> None:
    assert price_of(message) == pytest.approx(dollars, rel=1e-6)


@pytest.mark.parametrize(
    "message",
    [
        reply(model="gpt-of-tomorrow"),
        reply(model=None),
        reply("ollama"),
        reply("litellm", "openai/gpt-4o-mini"),
        reply("perplexity", "sonar"),
        reply(host="localhost:8000"),
        reply(usage={}),
        reply(usage={"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}),
        reply(usage=spent(input_token_details={"smell": 3})),
        reply(service_tier="overnight"),
        reply(token_usage={"cost": 0.01, "is_byok": True}, model="gpt-of-tomorrow"),
        reply().model_copy(update={"content": [{"type": "server_tool_call", "id": "1", "name": "search", "args": {}}]}),
        AIMessage("ok"),
    ],
)
def test_what_is_not_known_has_no_price(message: AIMessage) -> None:
    assert price_of(message) is None


def test_a_tier_costs_what_the_table_says_of_it() -> None:
    usual = price_of(reply(model="gpt-5"))
    assert usual is not None
    assert price_of(reply(model="gpt-5", service_tier="default")) == usual
    assert price_of(reply(model="gpt-5", service_tier="flex")) == pytest.approx(usual / 2)


def test_a_server_that_only_speaks_like_the_provider_is_not_it() -> None:
    with Loopback(Answer(body={**chat_answer(), "model": "gpt-4o-mini"})) as server:
        answer = ChatOpenAI(model="gpt-4o-mini", base_url=server.url, api_key="k").invoke("hi")
    assert answer.response_metadata["host"].startswith("127.0.0.1")
    assert price_of(answer) is None
    assert price_of(reply()) is not None


def test_the_table_is_loaded_by_the_first_reply_that_needs_it() -> None:
    program = """
import sys
from loopwright.messages import AIMessage
from loopwright.models.prices import price_of
usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
price_of(AIMessage("a", response_metadata={"provider": "xai", "token_usage": {"cost": 1}}, usage_metadata=usage))
price_of(AIMessage("a", response_metadata={"provider": "vllm", "model_name": "m"}, usage_metadata=usage))
print("genai_prices" in sys.modules)
sys.modules["genai_prices"] = None  # as if it were not installed
known = {"provider": "openai", "model_name": "gpt-4o-mini"}
print(price_of(AIMessage("a", response_metadata=known, usage_metadata=usage)))
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=os.environ)
    assert ran.stdout.split() == ["False", "None"]


@pytest.mark.skipif(not SHARED.exists(), reason=f"there are no recordings at {SHARED}")
def test_recorded_figures_are_read() -> None:
    """OpenRouter's answers, whole, as they were sent."""
    read = 0
    for line in (SHARED / "openrouter.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        body = record["response"]["body"]
        if "stream" in record["tags"] or record["api"] != "openai-chat" or '"cost"' not in body:
            continue
        usage = json.loads(body)["usage"]
        own = usage["cost"] + (usage["cost_details"]["upstream_inference_cost"] if usage.get("is_byok") else 0)
        message = chat.parse_response(body.encode(), Peer("openrouter", "https://openrouter.ai/api/v1"))[0]
        assert price_of(message) == pytest.approx(own)
        read += 1
    assert read > 15
