"""Record and replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import RateLimitError, UsageError
from loopwright.messages import AIMessage, HumanMessage
from loopwright.models import BaseChatModel, ModelLike
from loopwright.testing import ManualClock, ScriptedModel, Tape, call, say, use
from tests.models.worlds import Blocking, both_worlds


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def never() -> Any:
    raise AssertionError("replaying makes no model")


def recorded(path: Path, model: Any, talk: Any) -> Tape:
    """Record what `talk(model)` does, and open the tape for replay."""
    tape = Tape(path, record=True)
    talk(tape.wrap(model))
    tape.save()
    return Tape(path, record=False)


@both_worlds
def test_what_was_recorded_comes_back(world: Blocking, tmp_path: Path) -> None:
    path = tmp_path / "recordings" / "a.json"

    def talk(model: ModelLike) -> list[Any]:
        bound = model.bind_tools([add], tool_choice="any").bind(temperature=0)
        answer = world.invoke(bound, "hi", stop=["x"])
        pieces = world.stream(model, [("human", "stream"), AIMessage("before", id="changes with each run")])
        return [answer.tool_calls, answer.usage_metadata, [(piece.content, piece.usage_metadata) for piece in pieces]]

    model = ScriptedModel(use(call("add", a=1, b=2), usage=(3, 4)), say("one two", usage=(5, 6)))
    tape = Tape(path, record=True)
    live = talk(tape.wrap(model))
    tape.save()
    assert talk(Tape(path, record=False).wrap(never)) == live
    assert model.requests[0].kwargs["tool_choice"] == "any"


def test_calls_may_come_in_another_order_and_with_or_without_a_reader(tmp_path: Path) -> None:
    def talk(model: ModelLike) -> None:
        model.invoke("a")
        list(model.stream("b"))

    replay = recorded(tmp_path / "a.json", ScriptedModel("A", "B b"), talk).wrap(never)
    assert replay.invoke("b").text == "B b"
    assert [piece.content for piece in replay.stream("a")] == ["A"]


def test_another_request_fails_with_a_diff(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replay = recorded(path, ScriptedModel("A"), lambda model: model.invoke("what is one?")).wrap(never)
    with pytest.raises(AssertionError) as caught:
        replay.invoke("what is two?")
    words = str(caught.value)
    assert "Run pytest with --record-models" in words
    assert '-   "content": "what is one?",' in words
    assert '+   "content": "what is two?",' in words


def test_one_call_too_many_and_no_file_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replay = recorded(path, ScriptedModel("A"), lambda model: model.invoke("hi")).wrap(never)
    replay.invoke("hi")
    with pytest.raises(AssertionError, match=r"holds 1 model calls, and the test makes one more"):
        replay.invoke("hi")
    with pytest.raises(AssertionError, match=r"Nothing is recorded in .*b\.json\. Run pytest with --record-models"):
        Tape(tmp_path / "b.json", record=False).wrap(never).invoke("hi")


def test_errors_are_recorded_too(tmp_path: Path, manual_clock: ManualClock) -> None:
    error = RateLimitError("slow down", status_code=429, retry_after=7.0)

    def talk(model: ModelLike) -> str:
        return model.with_retry().invoke("hi").text

    tape = recorded(tmp_path / "a.json", ScriptedModel(error, "ok"), talk)
    assert talk(tape.wrap(never)) == "ok"
    assert manual_clock.slept == [7.0, 7.0]


def test_a_stream_that_broke_breaks_again(tmp_path: Path) -> None:
    def talk(model: ModelLike) -> list[str]:
        got: list[str] = []
        with pytest.raises(RateLimitError, match="gone"):
            for piece in model.stream("hi"):
                got.append(piece.text)  # noqa: PERF401 - what came before the error is the point
        return got

    tape = recorded(tmp_path / "a.json", ScriptedModel(["a", RateLimitError("gone")]), talk)
    assert talk(tape.wrap(never)) == ["a"]


def test_no_key_gets_into_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "plain-words-as-a-key")
    path = tmp_path / "a.json"
    secrets = ["plain-words-as-a-key", "sk-abcdefghijklmnopqrstuvwx", "Bearer abcdefghijklmnop"]

    def talk(model: ModelLike) -> None:
        model.bind(api_key="hidden-1", extra_headers={"authorization": "hidden-2"}, max_tokens=5).invoke(
            [HumanMessage(f"my key is {secret}") for secret in secrets]
        )

    tape = recorded(path, ScriptedModel(say(f"I saw {secrets[0]}", response_metadata={"auth": secrets[1]})), talk)
    text = path.read_text(encoding="utf-8")
    assert [secret for secret in [*secrets, "hidden-1", "hidden-2"] if secret in text] == []
    assert json.loads(text)["exchanges"][0]["request"]["max_tokens"] == 5
    talk(tape.wrap(never))


def test_what_identifies_a_call_may_be_changed(tmp_path: Path) -> None:
    def told(request: dict[str, Any]) -> dict[str, Any]:
        return {**request, "messages": request["messages"][-1:]}

    path = tmp_path / "a.json"
    tape = Tape(path, record=True)
    tape.wrap(ScriptedModel("A"), told=told).invoke([("system", "It is Monday."), ("human", "hi")])
    tape.save()
    replay = Tape(path, record=False).wrap(never, told=told)
    assert replay.invoke([("system", "It is Friday."), ("human", "hi")]).text == "A"


def test_what_may_be_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-no-use")
    tape = Tape(tmp_path / "a.json", record=True)
    named = tape.wrap("openai:gpt-4o-mini").bound
    assert (type(named).__name__, isinstance(named, BaseChatModel)) == ("ChatOpenAI", True)
    wrapped = tape.wrap(lambda: ScriptedModel("ok", tags=["t"], profile={"structured_output": True}))
    assert wrapped.call_config({}).get("tags") == ["t"]
    assert wrapped.profile == {"structured_output": True}
    tape.save()
    replay = Tape(tmp_path / "a.json", record=False).wrap("openai:gpt-4o-mini")
    assert replay.profile == {"structured_output": True}
    assert (replay.call_config({}), repr(replay)) == ({}, "RecordedModel(a.json)")
    with pytest.raises(UsageError, match="give model_recording a chat model"):
        tape.wrap(3)


TEST = """
from loopwright.testing import ScriptedModel

def test_talk(model_recording, manual_clock):
    model = model_recording(lambda: ScriptedModel("recorded words"))
    assert model.invoke("hi").text == "recorded words"
    assert manual_clock.slept == []
"""


def test_the_fixture_records_beside_the_test_and_replays(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "loopwright.testing.pytest_plugin", *options, "."]
        env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
        done = subprocess.run(command, cwd=tmp_path, env=env, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout

    code, text = run()
    assert (code, "Nothing is recorded in" in text, "--record-models" in text) == (1, True, True)
    assert run("--record-models")[0] == 0
    file = tmp_path / "recordings" / "test_it.test_talk.json"
    assert json.loads(file.read_text(encoding="utf-8"))["exchanges"][0]["answer"]["content"] == "recorded words"
    assert run()[0] == 0
