"""Runs that wait for a person, answered at the command line: real processes, and threads in a real file."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from loopwright.cli.questions import Questions
from loopwright.errors import InvalidAnswerError
from loopwright.graph.types import Interrupt
from tests.cli.terminal import COMMAND, SECONDS, Terminal

BOT = '''
from loopwright.agents import create_agent
from loopwright.agents.middleware import HumanInTheLoopMiddleware
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.testing import ScriptedModel, call, use
from loopwright.types import interrupt

def rm(path: str = "/") -> str:
    """Remove."""
    return f"removed {path}"

def ask(what: str) -> str:
    """Ask the person."""
    return f"got {interrupt(what)!r}"

def at(saver, *script):
    return create_agent(
        ScriptedModel(*script, "Done.", "Next."),
        [rm, ask],
        middleware=[HumanInTheLoopMiddleware(["rm"])],
        checkpointer=saver,
    )

kept = SqliteSaver("threads.db")
one = at(kept, call("rm", path="/tmp/a"))
answering = at(kept)
two = at(None, use(call("rm", path="/tmp/a"), call("rm", path="/tmp/b")))
asking = at(None, use(call("ask", what="Where?"), call("ask", what="How many?")))
'''


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bot.py").write_text(BOT, encoding="utf-8")
    return tmp_path


def said(place: Path, agent: str, *lines: str, errors: str = "") -> list[str]:
    """What a chat in a pipe shows, without empty lines."""
    done = subprocess.run(
        [*COMMAND, "chat", f"bot:{agent}", "--thread", "h"],
        input="".join(f"{line}\n" for line in lines),
        cwd=place,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, errors in done.stderr, bool(done.stderr)) == (0, True, bool(errors)), done.stderr
    return [line for line in done.stdout.splitlines() if line]


WHAT_MAY_BE_TYPED = '  approve · edit {"path": "/tmp/a"} · reject [why] · respond TEXT · /skip for a new turn instead'


def test_what_is_typed_at_a_question_is_the_answer(place: Path) -> None:
    shown = said(place, "one", "rm", "approve", "thanks")
    asked = shown.index("‖ the run waits for a decision: rm(path='/tmp/a')")
    assert shown[asked - 1].startswith("· interrupted")
    assert shown[asked + 1 : asked + 3] == ["  Tool execution requires approval", WHAT_MAY_BE_TYPED]
    assert shown[asked + 3 : asked + 7] == ["> approve", "→ rm(path='/tmp/a')", "← removed /tmp/a", "Done."]
    assert "Next." in shown


def test_a_thread_in_a_file_goes_on_with_its_question(place: Path) -> None:
    assert said(place, "one", "rm")[-1] == WHAT_MAY_BE_TYPED
    shown = said(place, "answering", 'edit {"path": "/tmp/c"}')
    assert shown[:2] == ["thread h goes on after 2 messages", "‖ the run waits for a decision: rm(path='/tmp/a')"]
    assert "→ rm(path='/tmp/c')" in shown
    assert "Done." in shown
    assert said(place, "answering") == ["thread h goes on after 4 messages"]


def test_actions_are_asked_one_after_the_other_and_decided_together(place: Path) -> None:
    shown = said(place, "two", "rm", "reject keep it", "respond I did it myself")
    assert [line for line in shown if line.startswith(("‖", "→", "←", ">"))] == [
        "> rm",
        "‖ the run waits for a decision (1 of 2): rm(path='/tmp/a')",
        "> reject keep it",
        "‖ the run waits for a decision (2 of 2): rm(path='/tmp/b')",
        "> respond I did it myself",
    ]
    assert "Done." in shown


def test_questions_of_tools_are_answered_together(place: Path) -> None:
    shown = said(place, "asking", "go", "/tmp/a b", "3")
    assert "‖ the run asks (1 of 2): Where?" in shown
    assert "‖ the run asks (2 of 2): How many?" in shown
    assert "  type the answer: text, or JSON · /skip for a new turn instead" in shown
    assert {"← got '/tmp/a b'", "← got 3"} <= set(shown)


def test_what_is_no_decision_is_asked_again(place: Path) -> None:
    shown = said(place, "one", "rm", "hm", "", "a nice idea", "edit /tmp/c", "/usage", "approve")
    assert shown.count("‖ the run waits for a decision: rm(path='/tmp/a')") == 5
    assert any(line.startswith("'hm' is no decision about rm. Type approve · ") for line in shown)
    assert "← removed /tmp/a" in shown


def test_an_answer_that_the_agent_refuses_is_asked_again(place: Path) -> None:
    words = "error: The edited call does not fit. The arguments of tool 'rm' do not fit: - not known here: Path"
    shown = said(place, "one", "rm", 'edit {"Path": "/tmp/b"}', 'edit {"path": "/tmp/b"}', errors=words)
    assert shown.count("‖ the run waits for a decision: rm(path='/tmp/a')") == 2
    assert "removed /tmp/b" in shown


def test_a_new_turn_in_place_of_an_answer(place: Path) -> None:
    """The scripted model fails on a history in which the call has no result."""
    shown = said(place, "one", "rm", "/skip", "never mind", "/skip")
    assert shown[shown.index("> /skip") + 1] == "what is typed next begins a new turn"
    assert shown[shown.index("> never mind") + 1] == "Done."
    assert shown[-1] == "nothing is asked"
    assert not any("removed" in line for line in shown)


def test_another_thread_has_no_questions(place: Path) -> None:
    shown = said(place, "one", "rm", "/new", "hello", "/thread h", "approve")
    assert "Done." in shown[shown.index("> hello") :]
    assert shown[shown.index("> /thread h") + 3] == "‖ the run waits for a decision: rm(path='/tmp/a')"
    assert "← removed /tmp/a" in shown


def test_at_a_terminal(place: Path) -> None:
    with Terminal(["chat", "bot:one", "--thread", "h"], cwd=place) as terminal:
        terminal.expect("> ")
        terminal.type("rm\n")
        terminal.expect("rm(path='/tmp/a')")
        terminal.expect("> ")
        terminal.interrupt_until("exit or Ctrl-D leaves")
        terminal.expect("> ")
        terminal.type("approve\n")
        terminal.expect("removed /tmp/a")
        terminal.expect("> ")
        terminal.type("exit\n")
        assert terminal.wait() == 0


# -- what was typed, and what it means ---------------------------------------------------------------------------------


def answer(text: str, value: Any = "?", schema: Any = None) -> Any:
    questions = Questions([Interrupt(value, "q", schema)])
    assert questions.take(text)
    return questions.answers["q"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes, do it", "yes, do it"),
        ("  5 ", 5),
        ("2.5", 2.5),
        ("true", True),
        ("null", None),
        ('{"a": [1]}', {"a": [1]}),
        ('"5"', "5"),
        ("01234", "01234"),
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("[1, 2", "[1, 2"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=lambda given: str(given)[:20],
)
def test_text_or_json(text: str, value: Any) -> None:
    assert (answer(text), type(answer(text))) == (value, type(value))


def test_a_question_that_wants_text_gets_it() -> None:
    assert answer("12345", schema={"type": "string"}) == "12345"
    assert answer("12345", schema={"type": "integer"}) == 12345


ACTION = {"name": "rm", "args": {"path": "/"}, "description": "really?"}


def review(*allowed: str, **more: Any) -> Any:
    return {"action_requests": [{**ACTION, **more}], "review_configs": [{"allowed_decisions": list(allowed)}]}


ALL = ("approve", "edit", "reject", "respond")


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("approve", {"type": "approve"}),
        ("a", {"type": "approve"}),
        ("Yes.", {"type": "approve"}),
        ("no", {"type": "reject"}),
        ("No, keep it, please", {"type": "reject", "message": "keep it, please"}),
        ("respond a  b", {"type": "respond", "message": "a  b"}),
        ("edit {}", {"type": "edit", "edited_action": {"name": "rm", "args": {}}}),
    ],
)
def test_decisions(text: str, decision: Any) -> None:
    assert answer(text, review(*ALL)) == {"decisions": [decision]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("maybe", "'maybe' is no decision about rm"),
        ("approve it", "approve stands alone"),
        ("respond", "respond TEXT"),
        ("edit [1]", 'as a JSON object: edit {"path": "/"}'),
        ("edit", 'as a JSON object: edit {"path": "/"}'),
    ],
)
def test_what_is_no_decision(text: str, words: str) -> None:
    with pytest.raises(InvalidAnswerError, match=words):
        answer(text, review(*ALL))


def test_only_what_is_allowed() -> None:
    with pytest.raises(InvalidAnswerError, match=r"Type approve · reject \[why\]$"):
        answer("edit {}", review("approve", "reject"))


def test_long_arguments_are_shown_whole_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    from loopwright.cli.screen import Screen

    Questions([Interrupt(review(*ALL, args={"text": "x" * 2000}), "q")]).show(Screen())
    shown = capsys.readouterr().out
    assert (shown.count("x" * 2000), "edit {…}" in shown, "really?" in shown) == (1, True, True)


@pytest.mark.parametrize(
    "value",
    [
        {"action_requests": [], "review_configs": []},
        {"action_requests": [ACTION], "review_configs": []},
        {"action_requests": ["rm"], "review_configs": [{"allowed_decisions": []}]},
        {"action_requests": [{"name": "rm"}], "review_configs": [{"allowed_decisions": []}]},
        {"action_requests": [ACTION], "review_configs": [{}]},
        {},
        "",
    ],
    ids=repr,
)
def test_what_only_resembles_a_review_is_a_question_like_others(value: Any) -> None:
    assert answer("approve", value) == "approve"
