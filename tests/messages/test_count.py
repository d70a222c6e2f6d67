from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loopwright.messages import AIMessage, HumanMessage, ToolMessage, count_tokens_approximately

PICTURE = {"type": "image", "url": "u"}


def count(message: Any, **options: Any) -> int:
    return count_tokens_approximately(message, extra_tokens_per_message=0, **options)


def call(args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "f", "args": args, "id": "1"}])


def test_four_characters_are_a_token() -> None:
    assert count("x" * 400) == 100
    assert count("x" * 400, chars_per_token=2) == 200
    assert count("") == 0
    assert count_tokens_approximately([("user", "x" * 400)] * 2) == 206


@pytest.mark.parametrize(
    ("text", "tokens"), [("你好世界", 4), ("привет", 4), ("😀😀😀", 4), ("你好 abc ", 4), ("\ud800", 1)]
)
def test_other_scripts(text: str, tokens: int) -> None:
    assert count(text) == tokens


def test_names_count() -> None:
    assert count(HumanMessage("", name="x" * 8)) == 2
    assert count(HumanMessage("", name="x" * 8), count_name=False) == 0


def test_B144_arguments_and_results_count() -> None:
    assert count(call({"text": "x" * 50_000})) > 12_000
    assert count(call("{" + "x" * 50_000)) > 12_000
    assert count(ToolMessage("x" * 50_000, tool_call_id="1")) > 12_000
    assert count(call({"when": object})) > 0


def test_B99_pictures_count() -> None:
    message = HumanMessage([{"type": "text", "text": "x" * 40}, PICTURE, {"type": "text", "text": 3}])
    assert 775 <= count(message) < 800
    assert count(HumanMessage([PICTURE]), tokens_per_image=100) == 100
    low = {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}
    assert count(HumanMessage([low])) == 85
    assert count(HumanMessage([{"type": "image", "base64": "A" * 1_000_000, "mime_type": "image/png"}])) == 765


def test_thoughts_and_unknown_blocks_count() -> None:
    assert count(AIMessage([{"type": "reasoning", "reasoning": "x" * 40}, {"type": "reasoning"}])) == 10
    assert count(AIMessage([{"type": "weird", "z": "x" * 400}])) > 100
    assert count(AIMessage("", additional_kwargs={"reasoning_content": "x" * 40})) == 10


def test_artifacts_do_not() -> None:
    assert count(ToolMessage("", tool_call_id="", artifact="x" * 400)) == 0


def test_tools_count() -> None:
    schema = {"name": "f", "description": "x" * 400, "parameters": {}}
    tool = SimpleNamespace(name="f", description="x" * 400, args={"q": {"type": "string"}}, func=object())
    assert count([], tools=[schema]) > 100
    assert count([], tools=[tool]) > 100
