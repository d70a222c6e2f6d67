"""Structured answers that grow: every partial is a sound beginning of the whole, however the text is cut."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from loopwright.messages import AIMessageChunk
from loopwright.models.partial import EAGER, GrowingAnswer, partial_answer
from loopwright.testing import ScriptedModel
from tests.models.worlds import Blocking, both_worlds


class Mood(enum.Enum):
    calm = "calm"
    calmer = "calmer"


class Section(BaseModel):
    head: str
    words: int = 3

    @model_validator(mode="after")
    def refuse_nothing(self) -> Section:
        assert self.head, "an empty head"
        return self


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Report(BaseModel):
    """A report."""

    model_config = ConfigDict(extra="forbid")

    title: str
    sections: list[Section]
    tree: Tree | None = None
    scores: dict[str, float] = {}


@dataclass
class Point:
    label: str
    at: tuple[int, ...] = ()


class Trip(TypedDict):
    to: str
    days: list[int]


trees = st.recursive(
    st.builds(Tree, name=st.text(max_size=4)),
    lambda inner: st.builds(Tree, name=st.text(max_size=4), children=st.lists(inner, max_size=2)),
    max_leaves=3,
)
reports = st.builds(
    Report,
    title=st.text(max_size=9),
    sections=st.lists(
        st.builds(Section, head=st.text(min_size=1, max_size=6), words=st.integers(-999, 999)), max_size=3
    ),
    tree=st.none() | trees,
    scores=st.dictionaries(st.text(max_size=3), st.floats(-1e3, 1e3), max_size=2),
)


def begins(part: Any, whole: Any, *, last: bool = True) -> bool:
    """Whether a value is a beginning of another. Only what is last may be unfinished."""
    if isinstance(part, dict) and isinstance(whole, dict):
        keys = list(part)
        return keys == list(whole)[: len(keys)] and all(
            begins(part[key], whole[key], last=last and key == keys[-1]) for key in keys
        )
    if isinstance(part, list) and isinstance(whole, list):
        end = len(part) - 1
        return all(begins(one, whole[at], last=last and at == end) for at, one in enumerate(part))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part) if last else whole == part
    return part == whole


def size(value: Any) -> int:
    """Grows whenever a value does."""
    if isinstance(value, dict):
        return 1 + sum(1 + size(one) for one in value.values())
    if isinstance(value, list):
        return 1 + sum(map(size, value))
    return 1 + (len(value) if isinstance(value, str) else 0)


@given(reports, st.booleans())
def test_each_partial_begins_the_whole_and_is_more_than_the_last(report: Report, ascii: bool) -> None:
    whole = report.model_dump()
    text = json.dumps(whole, ensure_ascii=ascii)
    seen = [part for end in range(len(text) + 1) if (part := partial_answer(Report, text[:end])) is not None]
    assert all(begins(part, whole) for part in seen)
    assert [size(part) for part in seen] == sorted(size(part) for part in seen)
    assert seen[-1] == whole


@given(reports, st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_it_does_not_matter_how_the_text_is_cut(report: Report, lengths: list[int]) -> None:
    text, pieces, at = report.model_dump_json(), [], 0
    while at < len(text):
        pieces.append(text[at : at + lengths[len(pieces) % len(lengths)]])
        at += len(pieces[-1])
    for in_text in (True, False):
        answer = GrowingAnswer({"Report": Report}, in_text=in_text)
        chunks = [AIMessageChunk(piece) for piece in pieces] if in_text else called("Report", pieces)
        values = [value for chunk in chunks if (value := answer.take(chunk)) is not None]
        assert (values[-1], answer.name) == (report.model_dump(), "Report")
        assert all(one != other for one, other in itertools.pairwise(values))


def called(name: str, pieces: list[str], *, id: str | None = "c1", index: Any = 0) -> list[AIMessageChunk]:
    """A call in pieces, as servers stream it: name and id first, then the arguments."""
    return [fragment(name, "", id=id, index=index), *(fragment(None, piece, index=index) for piece in pieces)]


def fragment(name: str | None, args: str, *, id: str | None = None, index: Any = 0) -> AIMessageChunk:
    return AIMessageChunk(
        tool_call_chunks=[{"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}]
    )


@pytest.mark.parametrize("schema", [Point, Trip, Tree], ids=["dataclass", "TypedDict", "recursive"])
def test_every_kind_of_class(schema: Any) -> None:
    text, expected = {
        Point: ('{"label": "a", "at": [1, 2', {"label": "a", "at": (1,)}),
        Trip: ('{"to": "Oslo", "days": [1, 2', {"to": "Oslo", "days": [1]}),
        Tree: ('{"name": "a", "children": [{"name": "b', {"name": "a", "children": [{"name": "b"}]}),
    }[schema]
    assert partial_answer(schema, text) == expected


def test_a_json_schema_is_not_enforced() -> None:
    schema = {"title": "Trip", "type": "object", "properties": {"to": {"type": "integer"}}}
    assert partial_answer(schema, '{"to": "Osl') == {"to": "Osl"}
    assert partial_answer(schema, '{"to": "Oslo", "days": 12') == {"to": "Oslo"}


class Careful(BaseModel):
    answer: Literal["no", "none"] = "no"
    mood: Mood = Mood.calm
    when: dt.date | None = None
    code: Annotated[str, Field(pattern=r"^[a-z]+$")] = "x"
    count: int = 0
    loud: str = ""

    @field_validator("loud")
    @classmethod
    def raise_the_voice(cls, text: str) -> str:
        return text.upper()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"answer": "no', {}),
        ('{"answer": "no"', {"answer": "no"}),
        ('{"mood": "calm', {}),
        ('{"mood": "calmer"', {"mood": Mood.calmer}),
        ('{"when": "2026-01-02', {}),
        ('{"when": "2026-01-02"', {"when": dt.date(2026, 1, 2)}),
        ('{"code": "ab', {}),
        ('{"code": "ab"', {"code": "ab"}),
        ('{"count": 12', {}),
        ('{"count": 12,', {"count": 12}),
        ('{"count": "1', {}),
        ('{"loud": "hey', {"loud": "HEY"}),
        ('{"loud": "hey 12', {"loud": "HEY 12"}),
        ('{"loud": "hey \\u00e', {"loud": "HEY "}),
        ('{"count": "many"', {}),  # it is the last, and may be mended by what follows
        ('{"count": "many", "loud": "h', None),
        ('```json\n{"count": 1, "loud": "a"}\n```', {"count": 1, "loud": "A"}),
        ("", None),
        ("I think", None),
        ("[1, 2", None),
    ],
)
def test_what_may_still_grow_is_shown_only_if_it_is_text(text: str, expected: Any) -> None:
    assert partial_answer(Careful, text) == expected


class Odd(BaseModel):
    name: str = Field(alias="the name")
    parts: list[Section] = []
    tags: set[str] = set()
    anything: Any = None

    @field_validator("parts")
    @classmethod
    def read_the_parts(cls, parts: list[Section]) -> list[Section]:
        assert all(part.head for part in parts)
        return parts


def test_aliases_sets_and_validators_of_whole_objects() -> None:
    assert partial_answer(Odd, '{"the name": "a", "parts": [{"head": "b') == {"name": "a", "parts": [{"head": "b"}]}
    assert partial_answer(Odd, '{"the name": "a", "tags": ["x", "y') == {"name": "a", "tags": {"x"}}
    assert partial_answer(Odd, '{"the name": "a", "anything": {"x": ["y') == {"name": "a", "anything": {"x": ["y"]}}


def test_only_the_first_answer_call_counts() -> None:
    answer = GrowingAnswer({"Trip": Trip, "Tree": Tree}, in_text=False)
    chunks = [
        AIMessageChunk("Let me see: {"),
        fragment("look", '{"city": "Rome"}', id="c0", index=0),
        fragment("Tree", '{"name": ', id="c1", index=1),
        fragment("Trip", '{"to": "Rome"', id="c2", index=2),
        fragment(None, '"a', index=1),
        fragment(None, '"b"', index=2),
        fragment(None, "b", id="c1", index=1),
        fragment("Tree", '{"name": "z', id="c3", index=1),
        fragment(None, "x", index=1),
    ]
    assert [value for chunk in chunks if (value := answer.take(chunk))] == [{"name": "a"}, {"name": "ab"}]
    assert answer.name == "Tree"


def test_a_long_answer_is_not_read_again_with_each_piece() -> None:
    """The number of readings grows with the logarithm of the length, once the answer is long."""
    readings = []
    for length in (100_000, 400_000):
        text = json.dumps({"to": "lorem ipsum " * (length // 12), "days": []})
        answer = GrowingAnswer({"Trip": Trip}, in_text=True)
        chunks = [AIMessageChunk(text[at : at + 16]) for at in range(0, len(text), 16)]
        readings.append(sum(answer.take(chunk) is not None for chunk in chunks))
    assert EAGER // 16 < readings[0] < readings[1] < readings[0] + 120


# -- through a model ------------------------------------------------------------------------------------------------

TRIP = '{"to": "Oslo", "days": [1, 2]}'


@both_worlds
@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_a_model_streams_what_has_come_and_then_the_answer(world: Blocking, method: str) -> None:
    text = '{"name": "a tree", "children": []}'
    pieces = [text[at : at + 12] for at in range(0, len(text), 12)]
    script: Any = called("Tree", pieces) if method == "function_calling" else [AIMessageChunk(one) for one in pieces]
    model = ScriptedModel(script, loop=True).with_structured_output(Tree, method=method)
    expected = [{"name": "a "}, {"name": "a tree"}, {"name": "a tree", "children": []}, Tree(name="a tree")]
    assert world.stream(model, "hi") == expected
    assert world.invoke(model, "hi") == expected[-1]


@both_worlds
def test_with_the_raw_message_too(world: Blocking) -> None:
    model = ScriptedModel(called("Trip", [TRIP[:11], TRIP[11:]])).with_structured_output(Trip, include_raw=True)
    *partials, last = world.stream(model, "hi")
    assert partials[0] == {"raw": None, "parsed": {"to": "Osl"}, "parsing_error": None}
    assert (last["parsed"], last["raw"].tool_calls[0]["name"]) == (json.loads(TRIP), "Trip")


class Forecast(BaseModel):
    model_config = ConfigDict(strict=True)

    city: str
    when: dt.date
    mood: Mood
    advice: str


def test_what_is_strict_grows_past_what_json_has_as_text():
    text = '{"city": "Oslo", "when": "2026-01-02", "mood": "calm", "advice": "Take a hat."}'
    cut = text.index(" a hat")
    assert partial_answer(Forecast, text[:cut]) == {
        "city": "Oslo",
        "when": dt.date(2026, 1, 2),
        "mood": Mood.calm,
        "advice": "Take",
    }
    assert partial_answer(list[Forecast], f'{{"value": [{text[:cut]}') == [partial_answer(Forecast, text[:cut])]
    assert not partial_answer(Forecast, '{"city": 5, "when"')
