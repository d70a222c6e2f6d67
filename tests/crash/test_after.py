"""After a crash at one known place: what the next process shows, who may go on, and what a tool can hold on to."""

from __future__ import annotations

import pytest

from tests.crash.judge import Ledger, updates
from tests.crash.program import Life
from tests.crash.zygote import Zygote


@pytest.mark.parametrize(
    ("asynchronous", "dies_at", "most", "first_words"),
    [
        pytest.param(False, "token of all.0", 10, ["Let", "me", "see."], id="in the first answer"),
        pytest.param(True, "in all.0.a", 9, [], id="in a tool"),
        pytest.param(False, "asking owls.1", 7, [], id="in an agent below"),
        pytest.param(True, "token of all.1", 6, ["And", "now."], id="in the second answer"),
        pytest.param(False, "asking bats.1", 2, [], id="after a person has answered"),
        pytest.param(True, "asking all.2", 1, [], id="in the last answer"),
    ],
)
def test_a_stream_shows_only_what_is_new(zygote: Zygote, a_life: Life, asynchronous, dies_at, most, first_words):
    """What was cut off is told from its beginning; what is on record is not told again."""
    life = a_life._replace(asynchronous=asynchronous, reading=True)
    (killed,) = zygote.lead(life._replace(dies_at=dies_at))
    assert killed.signal == 9
    (end,) = zygote.lead(life)
    seen = end.told["seen"]
    found = Ledger(life.ledger).lives[-1][0]

    expected = {"all.0": "see.", "all.1": "now."}
    told_again = [place for place, word in expected.items() if place in found["turns"] and word in seen["texts"]]
    told_again += [call for call in found["calls"] if f"noted {call[-1]}" in seen["texts"]]
    assert told_again == []
    words = [text.strip() for text in seen["texts"] if text.strip()]
    assert words[: len(first_words)] == first_words
    assert Ledger(life.ledger).left_to_show() == updates(seen["nodes"])
    assert sum(updates(seen["nodes"])) <= most


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_of_two_that_go_on_after_a_crash_one_does(zygote: Zygote, a_life: Life, asynchronous):
    """Both have read the same thread when they claim it; the other one is told, and has run nothing."""
    life = a_life._replace(asynchronous=asynchronous)
    (killed,) = zygote.lead(life._replace(dies_at="asking owls.1"))
    assert killed.signal == 9
    lives = [life._replace(gate="before claim", ledger=f"{life.ledger}-{name}") for name in "ab"]
    ends = zygote.lead(*lives)

    told = [(end.told["seen"]["conflict"], Ledger(one.ledger).lives[0]) for one, end in zip(lives, ends, strict=True)]
    (conflict, lost), (none, won) = sorted(told, key=lambda each: each[0] is None)
    assert none is None
    assert "has run nothing" in conflict
    assert [entry for entry in lost if entry["what"] != "found"] == []
    assert "all.2" in [entry.get("place") for entry in won]
    (whole,) = zygote.lead(a_life._replace(thread="whole"))
    assert zygote.lead(life)[0].told["state"] == whole.told["state"]


@pytest.mark.parametrize(
    ("asynchronous", "where", "call"),
    [
        (False, "in", "all.0.a"),
        (True, "behind", "all.0.b"),
        (True, "in", "owls.0.owls-1"),
        (False, "behind", "bats.0.bats-1"),
    ],
)
def test_a_call_that_was_cut_off_has_the_same_key_again(zygote: Zygote, a_life: Life, asynchronous, call, where):
    """Killed while it runs, or when it has run and its result is not yet written, which no journal can tell apart."""
    life = a_life._replace(asynchronous=asynchronous)
    (killed,) = zygote.lead(life._replace(dies_at=f"{where} {call}"))
    assert killed.signal == 9
    (end,) = zygote.lead(life)
    ledger = Ledger(life.ledger)
    begun = [
        entry["key"] for life in ledger.lives for entry in life if (entry["what"], entry.get("call")) == ("begun", call)
    ]
    assert len(begun) == 2
    assert len(set(begun)) == 1
    assert end.told["problems"] == []
