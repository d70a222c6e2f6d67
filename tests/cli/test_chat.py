"""Conversations with real processes: at a pseudo terminal, and through pipes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal import COMMAND, SECONDS, Terminal

SLOW = '''
import threading
from loopwright.agents import create_agent
from loopwright.testing import ScriptedModel, call, say

def wait() -> str:
    """Wait for ever."""
    print("WAITING", flush=True)
    threading.Event().wait()
    return "never"

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def fail() -> str:
    """Fail."""
    raise RuntimeError("the \\x1b[31mdisk is full")

# The scripted model fails on a history in which a call has no result.
agent = create_agent(ScriptedModel(call("wait"), say("still here", usage=(10, 2)), call("wait"), "and here"), [wait])
speaking = create_agent(ScriptedModel(say("one two", chunks=["one ", "two"], chunk_delay_s=1000), "again"))
adding = create_agent(ScriptedModel(call("add", a=1, b=2), say("It is 3.", usage=(20, 4)), "You are welcome."), [add])
failing = create_agent(ScriptedModel(call("fail"), "Sorry."), [fail])
broken = create_agent(ScriptedModel(ValueError("no such\\nthing"), "fine again"))
odd = create_agent(ScriptedModel(say("\\x1b[2Jred")))
model = ScriptedModel("bare")
number = 7

def make():
    return create_agent(ScriptedModel("made"))
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    return tmp_path


def piped(place: Path, arguments: list[str], given: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        cwd=place,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_a_tool_and_the_thread_goes_on(place: Path) -> None:
    """The call that was stopped has its result, else the scripted model would refuse the next turn."""
    with Terminal(["chat", "slow:agent"], cwd=place) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("WAITING")
        terminal.interrupt()
        terminal.expect("stopped; the conversation goes on")
        terminal.expect("> ")
        terminal.type("are you there?\n")
        terminal.expect("still here")
        terminal.expect("answer · 1 model call · 10 tokens in, 2 out")
        terminal.expect("> ")
        terminal.type("once more\n")
        terminal.expect("WAITING")
        terminal.type("\x03")  # the byte, which the terminal turns into the signal
        terminal.expect("stopped;")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.seen


def test_ctrl_c_stops_a_model_in_the_middle_of_its_words(place: Path) -> None:
    with Terminal(["chat", "slow:speaking"], cwd=place) as terminal:
        terminal.expect("> ")
        terminal.type("go\n")
        terminal.expect("one ")
        terminal.interrupt()
        terminal.expect("stopped;")
        terminal.expect("> ")
        terminal.type("and now?\n")
        terminal.expect("again")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_ctrl_c_at_the_prompt_says_how_to_leave(place: Path) -> None:
    with Terminal(["chat", "slow:adding"], cwd=place) as terminal:
        terminal.expect("> ")
        terminal.interrupt_until("exit or Ctrl-D leaves")
        terminal.expect("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert "Traceback" not in terminal.seen


@pytest.mark.parametrize("word", ["exit", "quit", "/exit", "/quit", " Exit "])
def test_a_word_alone_on_a_line_leaves(place: Path, word: str) -> None:
    done = piped(place, ["chat", "slow:speaking"], f"{word}\nnever asked\n")
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", [">", *word.split()])


def test_a_word_in_a_sentence_does_not_leave(place: Path) -> None:
    done = piped(place, ["chat", "slow:adding"], "how do I exit vim?\nquit\n")
    assert "It is 3." in done.stdout


def test_the_greeting_says_how_to_leave(place: Path) -> None:
    with Terminal(["chat", "slow:adding"], cwd=place) as terminal:
        terminal.expect("slow:adding · /help shows what can be typed, exit leaves")
        terminal.expect("> ")
        terminal.type("quit\n")
        assert terminal.wait() == 0


def test_ctrl_c_in_a_pipe_ends_the_run_and_reads_on(place: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "chat", "slow:agent"],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\nare you there?\n")
        process.stdin.close()
        for line in process.stdout:
            if "WAITING" in line:
                process.send_signal(2)
                break
        rest = process.stdout.read()
        assert process.wait(SECONDS) == 0
    assert "stopped;" in rest
    assert "still here" in rest


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_a_piped_conversation_is_plain_text(place: Path) -> None:
    done = piped(place, ["chat", "slow:adding"], "what is 1 and 2?\n\nthanks\n/usage\n")
    shown = [line for line in done.stdout.splitlines() if line]
    assert shown[:4] == ["> what is 1 and 2?", "→ add(a=1, b=2)", "← 3", "It is 3."]
    assert shown[4].startswith("· answer · 2 model calls · 20 tokens in, 4 out · ")
    assert shown[5:7] == ["> thanks", "You are welcome."]
    assert shown[-1] == "2 runs · 20 tokens in, 4 out"
    assert done.stderr == ""
    assert done.returncode == 0


def test_colour_at_a_terminal_and_none_with_no_color(place: Path) -> None:
    pytest.importorskip("rich")
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        with Terminal(["chat", "slow:adding"], cwd=place, env=env) as terminal:
            terminal.expect("> ")
            terminal.type("what is 1 and 2?\n")
            shown = terminal.expect("add(a=1, b=2)")
            terminal.expect("> ")
            terminal.type("/exit\n")
            assert terminal.wait() == 0
            assert ("\x1b[36m" in shown) is coloured


def test_escape_sequences_of_models_and_tools_are_shown(place: Path) -> None:
    done = piped(place, ["chat", "slow:odd"], "hi\n")
    assert "␛[2Jred" in done.stdout
    done = piped(place, ["chat", "slow:failing"], "hi\n")
    assert "✗" in done.stdout
    assert "␛[31mdisk is full" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_terminal_without_the_characters(place: Path) -> None:
    done = piped(place, ["chat", "slow:adding"], "what is 1 and 2?\n", PYTHONIOENCODING="ascii")
    assert "? add(a=1, b=2)" in done.stdout
    assert done.returncode == 0


def test_without_rich_it_is_plain(place: Path) -> None:
    """A module of that name that cannot be imported stands in for the package that is not installed."""
    (place / "rich.py").write_text("raise ImportError('not installed')", encoding="utf-8")
    with Terminal(["chat", "slow:adding"], cwd=place, env={"PYTHONPATH": str(place)}) as terminal:
        terminal.expect("> ")
        terminal.type("what is 1 and 2?\n")
        terminal.expect("It is 3.")
        terminal.expect("> ")
        terminal.type("/exit\n")
        assert terminal.wait() == 0
        assert "\x1b[36m" not in terminal.seen


def test_a_run_that_fails_is_one_line_and_the_talk_goes_on(place: Path) -> None:
    done = piped(place, ["chat", "slow:broken"], "hi\nand now?\n")
    assert done.stderr == "error: ValueError: no such thing\n"
    assert "fine again" in done.stdout
    assert done.returncode == 0


def test_debug_shows_the_traceback(place: Path) -> None:
    done = piped(place, ["chat", "slow:broken", "--debug"], "hi\n")
    assert "Traceback" in done.stdout


# -- commands --------------------------------------------------------------------------------------------------------


def test_commands(place: Path) -> None:
    given = "/help\n/thread mine\nhi\n/thread other\n/thread mine\n/new\n/nothing\n/exit\nnever read\n"
    done = piped(place, ["chat", "slow:make"], given)
    shown = done.stdout
    assert "/usage       tokens so far" in shown
    assert "thread mine goes on after 2 messages" in shown
    assert "new thread " in shown
    assert "there is no /nothing; /help shows what there is" in shown
    assert "never read" not in shown


def test_a_thread_is_one_conversation(place: Path) -> None:
    """The scripted model of `adding` has one script for all; its histories tell the threads apart."""
    done = piped(place, ["chat", "slow:adding", "--thread", "monday"], "what is 1 and 2?\n/thread\n")
    assert "thread monday goes on after 4 messages" in done.stdout


# -- finding the agent -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "answer"),
    [("slow:model", "bare"), ("slow:make", "made"), ("slow.py:odd", "␛[2Jred"), ("./slow.py:make", "made")],
)
def test_what_may_be_talked_to(place: Path, spec: str, answer: str) -> None:
    assert answer in piped(place, ["chat", spec], "hi\n").stdout


def test_the_usual_name_is_found(place: Path) -> None:
    (place / "mine.py").write_text("from slow import odd as agent, adding", encoding="utf-8")
    assert "red" in piped(place, ["chat", "mine"], "hi\n").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere:agent"], "there is no module 'nowhere'"),
        (["nowhere.py:agent"], "there is no file nowhere.py"),
        (["slow:nothing"], "slow has no 'nothing'. There is slow:agent, slow:speaking"),
        (["slow:number"], "slow:number is a int, and no agent: it has to come from create_agent(...)"),
        (["slow:ScriptedModel"], "slow:ScriptedModel is a"),
        (["many"], "many has 2 agents, and none is named. There is many:odd, many:adding"),
        (["empty"], "empty has no agents, and none is named."),
        (["failing"], "ZeroDivisionError: division by zero"),
        (["needs"], "ModuleNotFoundError: No module named 'not_there'"),
        (["graph:builder"], "graph:builder is a graph that was not compiled: write builder = graph.compile()"),
        (["graph:takes"], "graph:takes is a function, and calling it failed"),
        ([":agent"], "an agent is named by its module and its name there"),
        (["slow:agent", "--model", "local:"], "--model makes an agent of its own"),
        (["slow:agent", "--system", "Be brief"], "--system makes an agent of its own"),
        (["slow:agent", "--thread", " "], "--thread needs a name that is not empty"),
        (["--model", "nobody:x"], "nobody"),
        (["--model", "local:/nowhere.gguf"], "'/nowhere.gguf' cannot be read"),
    ],
)
def test_what_cannot_be_started_is_said_in_a_line(place: Path, arguments: list[str], words: str) -> None:
    (place / "many.py").write_text("from slow import odd, adding", encoding="utf-8")
    (place / "empty.py").write_text("", encoding="utf-8")
    (place / "failing.py").write_text("1 / 0", encoding="utf-8")
    (place / "needs.py").write_text("import not_there", encoding="utf-8")
    (place / "graph.py").write_text(
        "from loopwright.graph import MessagesState, StateGraph\n"
        "builder = StateGraph(MessagesState)\n"
        "def takes(x): return x\n",
        encoding="utf-8",
    )
    done = piped(place, ["chat", *arguments], "hi\n")
    if "xllamacpp" in done.stderr:
        pytest.skip("xllamacpp is not installed")
    assert done.stderr.startswith("error: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1


def test_debug_shows_where_the_module_failed(place: Path) -> None:
    (place / "failing.py").write_text("1 / 0", encoding="utf-8")
    done = piped(place, ["chat", "failing", "--debug"])
    assert 'failing.py", line 1' in done.stderr


def test_nobody_reads_any_more(place: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "chat", "slow:adding"],
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write("hi\n")
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait(SECONDS) == 1
    assert "Traceback" not in said


def test_a_limit_of_a_nested_run_is_told_of() -> None:
    from loopwright.cli.screen import Screen
    from loopwright.cli.view import RunView
    from loopwright.graph.events import LimitReached

    screen = Screen()
    lines: list[str] = []
    screen.line = lambda text="", style="": lines.append(text)  # type: ignore[method-assign]
    RunView(screen).show(LimitReached(seq=2, path=("tools:1",), limit="model_calls", sentence="..."))
    assert lines == ["  ! limit reached: model_calls"]
