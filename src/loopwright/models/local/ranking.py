"""Which tool, for a model too small to pick one word by word.

Such a model takes the tool whose name begins likeliest and finds out too late that the rest does not fit. So each
tool's whole name is weighed after the prompt, one short request for each, and the best one is taken. A name that the
model likes whatever is asked would win too often: some of what it gets for a request that says nothing is taken off
(`PRIOR`). That is measured once for a set of tools and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loopwright.models.local.calls import choice_tokens

__all__ = ["MOST_RANKED", "PRIOR", "NameScore", "Ranking"]

PRIOR: Final = 0.4
"""Share of a name's own likelihood that is taken off. Chosen on prompts that bench/local_accuracy.py does not use."""
MOST_RANKED: Final = 6
"""More tools than that are not weighed: it takes a quarter of a second for each."""
_NOTHING: Final = {"role": "user", "content": "N/A"}
"""The request that says nothing."""

_MOST_KEPT = 64
_priors: dict[Any, dict[str, float]] = {}


class NameScore:
    """How likely one name is: the sum of its tokens' log probabilities, read from the events of `request`."""

    def __init__(self, name: str) -> None:
        self.value = 0.0
        self._text = ""
        schema = {
            "type": "object",
            "properties": {"tool": {"const": name}},
            "required": ["tool"],
            "additionalProperties": False,
        }
        self.request: Final[dict[str, Any]] = {
            "max_tokens": 64,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 1,
            "response_format": {"type": "json_schema", "json_schema": {"name": "name", "schema": schema}},
        }

    def feed(self, choice: Mapping[str, Any]) -> None:
        for token in choice_tokens(choice):
            before, self._text = self._text, self._text + token["token"]
            # {"tool":"name"}: the name stands between the third and the fourth quote.
            if before.count('"') < 4 and self._text.count('"') >= 3 and not self._text.endswith(':"'):
                self.value += token["logprob"]


class Ranking:
    """The names of one answer's tools and what is known of them. `key`: what stands before the conversation."""

    def __init__(self, names: list[str], key: Any, opening: list[dict[str, str]]) -> None:
        self.names = names
        self.neutral = [*opening, _NOTHING]
        self._scores: dict[str, float] = {}
        self._key = (key, tuple(names), tuple(turn["content"] for turn in opening))
        self._prior = dict(_priors.get(self._key, {}))

    def next(self) -> tuple[str, bool] | None:
        """The name to weigh, and whether after the request that says nothing. None when all are known."""
        for name in self.names:
            if name not in self._prior:
                return name, True
        for name in self.names:
            if name not in self._scores:
                return name, False
        return None

    def take(self, name: str, score: float, *, neutral: bool) -> None:
        (self._prior if neutral else self._scores)[name] = score
        if neutral and len(self._prior) == len(self.names):
            if len(_priors) >= _MOST_KEPT:
                _priors.pop(next(iter(_priors)), None)
            _priors[self._key] = self._prior

    def best(self) -> str:
        return max(self.names, key=lambda name: self._scores[name] - PRIOR * self._prior[name])
