"""A real process is killed at every effect of a run, and another one goes on.

The effects are the calls of the saver, of models and of tools, before and after each, and every token. `--kills=1`
kills at all of them, without it a sample is killed, which begins elsewhere for each way of running.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from tests.crash.judge import Ledger, updates
from tests.crash.program import Life
from tests.crash.zygote import Zygote

WAYS = [
    pytest.param(
        (asynchronous, reading), id=f"{'async' if asynchronous else 'sync'} {'stream' if reading else 'invoke'}"
    )
    for asynchronous in (False, True)
    for reading in (False, True)
]
AT_ONCE = 4
"""Lives that are led at the same time, on threads of one store."""


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, a_life: Life) -> Life:
    asynchronous, reading = request.param
    return a_life._replace(asynchronous=asynchronous, reading=reading)


def killed_and_resumed(zygote: Zygote, life: Life, every: int) -> Any:
    """Lead a life undisturbed, then others that are killed; yields of each its ledger and how its thread ended."""
    (whole,) = zygote.lead(life)
    way = 4 * (life.kind == "sqlite") + 2 * life.asynchronous + life.reading
    numbers = range(1 + way * every // 8, whole.told["effects"] + 1, every)
    for start in range(0, len(numbers), AT_ONCE):
        some = numbers[start : start + AT_ONCE]
        lives = [life._replace(thread=f"killed {at}", ledger=f"{life.ledger}-{at}", dies_at=at) for at in some]
        ends = zygote.lead(*lives)
        # Tasks that run side by side make a few effects more or fewer: the last numbers may not come up.
        killed = [one for one, end in zip(lives, ends, strict=True) if end.signal == 9]
        assert len(killed) >= len(lives) - sum(at > whole.told["effects"] - 4 for at in some)
        for one, end in zip(killed, zygote.lead(*(one._replace(dies_at=0) for one in killed)), strict=True):
            yield Ledger(one.ledger), end.told, whole.told


@pytest.mark.timeout(900)
def test_B44_with_sync_nothing_finished_is_done_twice_and_nothing_is_lost(zygote: Zygote, way: Life, kills: int):
    for ledger, told, whole in killed_and_resumed(zygote, way, kills):
        where = f"killed at {ledger.deaths}"
        assert (told["state"], told["problems"]) == (whole["state"], []), where
        assert (ledger.done_again(), ledger.lost(), ledger.outside_the_window()) == ([], [], []), where
        assert {call: keys for call, keys in ledger.keys().items() if len(keys) > 1} == {}, where
        assert ledger.rerun() <= ledger.cut_off(), where
        if way.reading:
            assert ledger.left_to_show() == updates(told["seen"]["nodes"]), where
        assert told["seen"]["usage"] in (None, whole["seen"]["usage"]), where  # None: there was nothing left to do


@pytest.mark.timeout(900)
def test_with_async_what_is_on_record_is_not_done_again(zygote: Zygote, way: Life, kills: int):
    way = way._replace(durability="async")
    for ledger, told, whole in killed_and_resumed(zygote, way, kills):
        where = f"killed at {ledger.deaths}"
        assert (told["state"], told["problems"]) == (whole["state"], []), where
        assert (ledger.done_again(), ledger.lost()) == ([], []), where


@pytest.mark.timeout(900)
def test_with_exit_the_thread_is_as_it_was_and_the_turn_can_be_made_again(zygote: Zygote, way: Life, kills: int):
    way = way._replace(durability="exit")
    for ledger, told, whole in killed_and_resumed(zygote, way, kills):
        where = f"killed at {ledger.deaths}"
        assert (told["state"], told["problems"]) == (whole["state"], []), where


def test_a_process_that_dies_again_and_again_comes_to_the_end(zygote: Zygote, way: Life):
    """What a life has brought on record is not lost by the next: a fixed number of effects each is enough."""
    (whole,) = zygote.lead(way)
    dying = way._replace(thread="dying", ledger=f"{way.ledger}-dying", dies_at=40)
    end = next(end for _ in count() if not (end := zygote.lead(dying)[0]).signal)
    ledger = Ledger(dying.ledger)
    assert len(ledger.deaths) > 2
    assert (end.told["state"], end.told["problems"]) == (whole.told["state"], [])
    assert (ledger.done_again(), ledger.lost()) == ([], [])
