"""How often the packaged local model calls the right tool, and says what the tool said.

    python bench/local_accuracy.py [--own-shots] [--no-ranking] [--markdown]

The prompts were written before the model was run on any of them, and nothing was tuned on them: the examples, the
bars and the weights in `loopwright/models/local` were chosen on other prompts with other tools. One run gives the
figures, because temperature is 0; other processors may round differently.

right tool: the first call. right call: and its arguments (without regard to case). answer: the run ended with words
that hold what the tool gave. no call: words where no tool fits.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, Literal, NamedTuple

from loopwright.agents import Limits, create_agent
from loopwright.chat_models import init_chat_model


class Ask(NamedTuple):
    text: str
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    heard: str = ""
    """What the answer must hold."""


def get_weather(city: str) -> str:
    """The weather in a city."""
    return {"Lisbon": "21 C, sunny", "Dublin": "11 C, rain", "Helsinki": "-4 C, snow"}.get(city, "18 C, cloudy")


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def search_books(topic: str) -> str:
    """Search the library for books on a topic."""
    return f"3 books on {topic}"


def lend_book(title: str, days: int) -> str:
    """Lend a book for some days."""
    return f"{title} is lent for {days} days"


def turn_light(room: str, state: Literal["on", "off"]) -> str:
    """Turn the light in a room on or off."""
    return f"light in the {room} is {state}"


def set_alarm(time: str) -> str:
    """Set an alarm at a time."""
    return f"alarm set at {time}"


def play_music(artist: str) -> str:
    """Play music by an artist."""
    return f"now playing {artist}"


SETS: list[tuple[list[Any], list[Any], list[Ask]]] = [
    (
        [get_weather, add],
        [
            ("What's the weather like in Madrid?", "get_weather", {"city": "Madrid"}),
            ("What is 4 plus 11?", "add", {"a": 4, "b": 11}),
            ("Will it rain in Oslo today?", "get_weather", {"city": "Oslo"}),
            ("Sum 31 and 56.", "add", {"a": 31, "b": 56}),
        ],
        [
            Ask("What's the weather in Lisbon right now?", "get_weather", {"city": "Lisbon"}, "sunny"),
            Ask("Do I need an umbrella in Dublin?", "get_weather", {"city": "Dublin"}, "rain"),
            Ask("Is it cold in Helsinki?", "get_weather", {"city": "Helsinki"}, "snow"),
            Ask("How much is 17 plus 25?", "add", {"a": 17, "b": 25}, "42"),
            Ask("Add 120 and 45.", "add", {"a": 120, "b": 45}, "165"),
            Ask("I have 8 apples and buy 6 more. How many do I have?", "add", {"a": 8, "b": 6}, "14"),
            Ask("Hello!"),
            Ask("Who are you?"),
        ],
    ),
    (
        [search_books, lend_book],
        [
            ("Do you have books about bees?", "search_books", {"topic": "bees"}),
            ("I want to take Dracula home for 10 days.", "lend_book", {"title": "Dracula", "days": 10}),
            ("I'd like to read about space travel.", "search_books", {"topic": "space travel"}),
            ("Can I have Ulysses for 21 days?", "lend_book", {"title": "Ulysses", "days": 21}),
        ],
        [
            Ask("Find me books about volcanoes.", "search_books", {"topic": "volcanoes"}, "3"),
            Ask("Do you have anything on Roman history?", "search_books", {"topic": "Roman history"}, "3"),
            Ask("I'd like to borrow Moby Dick for 14 days.", "lend_book", {"title": "Moby Dick", "days": 14}, "14"),
            Ask("Lend me Emma for 7 days.", "lend_book", {"title": "Emma", "days": 7}, "7"),
            Ask("Thank you very much."),
        ],
    ),
    (
        [turn_light, set_alarm, play_music],
        [
            ("Put the light on in the hall.", "turn_light", {"room": "hall", "state": "on"}),
            ("Get me up at 7:45.", "set_alarm", {"time": "7:45"}),
            ("Some Mozart, please.", "play_music", {"artist": "Mozart"}),
            ("No more light in the cellar, please.", "turn_light", {"room": "cellar", "state": "off"}),
        ],
        [
            Ask("Turn off the light in the kitchen.", "turn_light", {"room": "kitchen", "state": "off"}, "off"),
            Ask("Switch on the lamp in the bedroom.", "turn_light", {"room": "bedroom", "state": "on"}, "on"),
            Ask("Wake me at 6:30.", "set_alarm", {"time": "6:30"}, "6:30"),
            Ask("Set an alarm for 21:15.", "set_alarm", {"time": "21:15"}, "21:15"),
            Ask("Play something by Miles Davis.", "play_music", {"artist": "Miles Davis"}, "miles davis"),
            Ask("I want to hear Nina Simone.", "play_music", {"artist": "Nina Simone"}, "nina simone"),
            Ask("Tell me a joke."),
        ],
    ),
]
"""Tools, examples of a user's own for `--own-shots`, and the prompts."""


def same(expected: dict[str, Any], found: dict[str, Any]) -> bool:
    def plain(value: Any) -> Any:
        return value.strip().rstrip(".").lower() if isinstance(value, str) else value

    return {key: plain(value) for key, value in expected.items()} == {key: plain(value) for key, value in found.items()}


def run(*, own_shots: bool, ranking: bool, markdown: bool) -> None:
    score = dict.fromkeys(("calls asked", "right tool", "right call", "answer", "none asked", "no call", "ended"), 0)
    started = time.perf_counter()
    for tools, shots, asks in SETS:
        settings: dict[str, Any] = {"shots": shots} if own_shots else {}
        model = init_chat_model("local:", **settings, **({} if ranking else {"rank_tools": 0}))
        agent = create_agent(model, tools, limits=Limits(model_calls=4))
        for ask in asks:
            began = time.perf_counter()
            result = agent.invoke({"messages": [{"role": "user", "content": ask.text}]})
            spent = time.perf_counter() - began
            calls = [call for message in result["messages"] for call in getattr(message, "tool_calls", ())]
            first = calls[0] if calls else None
            answer = result.final.text if result.final is not None else ""
            score["ended"] += result.final is not None
            if ask.tool is None:
                score["none asked"] += 1
                score["no call"] += first is None
                good = first is None
            else:
                tool = first is not None and first["name"] == ask.tool
                call = tool and same(ask.arguments or {}, first["args"])
                good = call and ask.heard in answer.lower()
                score["calls asked"] += 1
                score["right tool"] += tool
                score["right call"] += call
                score["answer"] += good
            said = f"{first['name']}({', '.join(f'{k}={v!r}' for k, v in first['args'].items())})" if first else "-"
            if markdown:
                print(f"| {'yes' if good else 'no'} | {ask.text} | `{said}` | {' '.join(answer.split())} |")
            else:
                more = f" (+{len(calls) - 1} calls)" if len(calls) > 1 else ""
                print(f"{'ok ' if good else 'BAD'} {spent:4.1f}s {ask.text} -> {said}{more} -> {answer!r}", flush=True)
    print(", ".join(f"{name} {value}" for name, value in score.items()), f"in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--own-shots", action="store_true", help="with examples written for these tools")
    parser.add_argument("--no-ranking", action="store_true", help="let the model pick the tool as it writes")
    parser.add_argument("--markdown", action="store_true", help="rows of a table")
    given = parser.parse_args()
    run(own_shots=given.own_shots, ranking=not given.no_ranking, markdown=given.markdown)
