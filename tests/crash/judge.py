"""What has to hold of a thread whose processes died, told by the ledger they left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["Ledger", "updates"]


class Ledger:
    """What happened, process by process."""

    def __init__(self, path: str | Path) -> None:
        entries = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        self.lives: list[list[dict[str, Any]]] = []
        for entry in entries:
            if entry["what"] == "found":
                self.lives.append([])
            self.lives[-1].append(entry)

    @property
    def deaths(self) -> list[str]:
        """The effects at which processes were killed."""
        return [entry["at"] for life in self.lives for entry in life if entry["what"] == "killed"]

    def done_again(self) -> list[str]:
        """Calls that were made, and turns that the model was asked for, though their results were on record."""
        again: list[str] = []
        for found, *life in self.lives:
            again += [entry["call"] for entry in life if entry["what"] == "begun" and entry["call"] in found["calls"]]
            again += [entry["place"] for entry in life if entry["what"] == "asked" and entry["place"] in found["turns"]]
        return again

    def lost(self) -> list[str]:
        """Results that were reported saved, and were not there when the next process looked."""
        return [
            call
            for life, after in zip(self.lives, self.lives[1:], strict=False)
            for entry in life
            if entry["what"] == "saved"
            for call in entry["calls"]
            if call not in after[0]["calls"]
        ]

    def outside_the_window(self) -> list[str]:
        """Calls that ran again though the run had gone on behind them: its model had been asked once more."""
        return [
            call
            for life, after in zip(self.lives, self.lives[1:], strict=False)
            for call in {entry["call"] for entry in life if entry["what"] == "done"} - set(after[0]["calls"])
            if any(entry["what"] == "asked" and _is_behind(entry["place"], call) for entry in life)
        ]

    def keys(self) -> dict[str, set[str]]:
        """The idempotency keys of each call, over all its tries."""
        keys: dict[str, set[str]] = {}
        for life in self.lives:
            for entry in life:
                if entry["what"] == "begun":
                    keys.setdefault(entry["call"], set()).add(entry["key"])
        return keys

    def rerun(self) -> set[str]:
        """Calls that were begun more than once."""
        begun = [entry["call"] for life in self.lives for entry in life if entry["what"] == "begun"]
        return {call for call in begun if begun.count(call) > 1}

    def cut_off(self) -> set[str]:
        """Calls that a process had begun, and that had no result on record when it died."""
        return {
            entry["call"]
            for life, after in zip(self.lives, self.lives[1:], strict=False)
            for entry in life
            if entry["what"] == "begun" and entry["call"] not in after[0]["calls"]
        }

    def left_to_show(self) -> tuple[int, int]:
        """How many turns, and how many calls, of the outer agent were not on record when the last life began."""
        found = self.lives[-1][0]
        turns = sum(place.startswith("all.") for place in found["turns"])
        calls = sum(call.startswith(("all.0.", "all.1.")) for call in found["calls"])
        return 3 - turns, 6 - calls


def _is_behind(place: str, call: str) -> bool:
    """Whether a turn comes after that of a call: of the same agent, and later."""
    agent, _, turn = place.partition(".")
    of, number, _ = call.split(".")
    return agent == of and int(turn) > int(number)


def updates(nodes: list[str]) -> tuple[int, int]:
    """Of what a stream has shown, how many turns and how many calls."""
    return nodes.count("model"), nodes.count("tools")
