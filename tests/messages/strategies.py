"""What hypothesis draws messages, streams and histories from."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

words = st.text(alphabet="ab c\n{}\"'é中😀", max_size=6)
ids = st.sampled_from(["c1", "c2", "c3"])

floats = st.floats(allow_nan=False, allow_infinity=False)  # as JSON has them
plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | floats | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)

objects = st.dictionaries(words, plain, max_size=2)


# --- messages -----------------------------------------------------------------

blocks = st.one_of(
    words,
    st.builds(lambda text: {"type": "text", "text": text}, words),
    st.builds(lambda text: {"type": "reasoning", "reasoning": text}, words),
    st.builds(lambda url: {"type": "image", "url": url}, words),
    st.builds(lambda more: {"type": "weird", **more}, objects),
)
contents = words | st.lists(blocks, max_size=3)
tool_calls = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["f", "g"]), "args": objects, "id": ids, "type": st.just("tool_call")}
    ),
    max_size=2,
)
usages = st.none() | st.fixed_dictionaries(
    {name: st.integers(0, 9) for name in ("input_tokens", "output_tokens", "total_tokens")},
    optional={"input_token_details": st.fixed_dictionaries({}, optional={"cache_read": st.integers(0, 9)})},
)
_shared = {"name": st.none() | words, "id": st.none() | words, "additional_kwargs": objects}

messages: st.SearchStrategy[BaseMessage] = st.one_of(
    st.builds(HumanMessage, contents, **_shared),
    st.builds(SystemMessage, contents, **_shared),
    st.builds(AIMessage, contents, tool_calls=tool_calls, usage_metadata=usages, **_shared),
    st.builds(ToolMessage, contents, tool_call_id=ids, status=st.sampled_from(["success", "error"]), artifact=plain),
)


# --- streams ------------------------------------------------------------------

nested = st.fixed_dictionaries({"content": st.lists(st.integers(0, 9), max_size=2) | words})
stream_blocks = st.one_of(
    words,
    st.builds(lambda text: {"type": "text", "text": text}, words),
    st.builds(lambda text, at: {"type": "text", "text": text, "index": at}, words, st.integers(0, 2)),
    st.builds(lambda text: {"type": "reasoning", "reasoning": text}, words),
    st.builds(lambda text, name: {"type": "reasoning", "reasoning": text, "id": name}, words, ids),
    st.builds(lambda text: {"type": "reasoning", "summary": [{"text": text}]}, words),
    st.builds(lambda text, at: {"type": "reasoning", "reasoning": text, "index": at}, words, st.integers(0, 2)),
    st.builds(lambda text, at: {"type": "input_json_delta", "partial_json": text, "index": at}, words, st.just(7)),
    st.builds(lambda at: {"type": "tool_use", "id": "c1", "name": "f", "input": {}, "index": at}, st.just(7)),
    st.builds(
        lambda mark: {"type": "text", "text": "x", "annotations": [mark], "index": 0}, st.just({"type": "citation"})
    ),
    st.just({"type": "image", "url": "u"}),
    st.builds(
        lambda odd: {"type": "text", "text": "x", "index": 1, "odd": odd}, st.none() | words | nested | st.just([1])
    ),
    st.builds(
        lambda odd: {"type": "reasoning", "summary": odd, "index": 2},
        st.none() | words | nested | st.just([{"text": "s"}]),
    ),
)
pieces = st.fixed_dictionaries(
    {
        "name": st.none() | st.sampled_from(["f", "g"]),
        "args": st.none() | words,
        "id": st.none() | ids,
        "index": st.none() | st.integers(0, 1),
    }
)
metadata = st.dictionaries(
    st.sampled_from(["finish_reason", "logprobs", "token_usage"]), st.none() | words | nested | st.just([1]), max_size=2
)
more = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_content": words,
        "refusal": st.none() | words,
        "other": words | nested | st.just([1]),
        "function_call": st.fixed_dictionaries({"arguments": words}, optional={"name": words}),
        "parts": st.lists(st.fixed_dictionaries({"index": st.integers(0, 1), "text": words}), max_size=2),
    },
)
chunks = st.builds(
    AIMessageChunk,
    words | st.lists(stream_blocks, max_size=3),
    id=st.none() | st.sampled_from(["m1", "m2"]),
    name=st.none() | st.just("bob"),
    tool_call_chunks=st.lists(pieces, max_size=2),
    usage_metadata=usages,
    response_metadata=metadata,
    additional_kwargs=more,
    chunk_position=st.none() | st.just("last"),
)


@st.composite
def streams(draw: st.DrawFn) -> list[AIMessageChunk]:
    """Chunks in any order. Only a call that another has followed under its index does not come again."""
    latest: dict[Any, str] = {}
    without_ids = draw(st.booleans())
    stream: list[AIMessageChunk] = []
    for chunk in draw(st.lists(chunks, max_size=6)):
        ordered: list[dict[str, Any]] = []
        for piece in chunk.tool_call_chunks:
            index, id_, name = piece["index"], piece["id"], piece["name"]
            if index is None and without_ids:
                id_ = None
            elif index is None and id_ is None:
                name = None
            if id_ is not None:
                latest[index] = max(id_, latest.get(index, ""))
            ordered.append({**piece, "name": name, "id": id_ and latest[index]})
        stream.append(chunk.model_copy(update={"tool_call_chunks": ordered}))
    return stream


@st.composite
def cut(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces."""
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def streamed_calls(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[AIMessageChunk]]:
    """Whole calls, and a stream that says them: a header each, then pieces of arguments, interleaved by index."""
    calls = [
        {"name": name, "args": args, "id": f"id{number}", "type": "tool_call"}
        for number, (name, args) in enumerate(draw(st.lists(st.tuples(st.sampled_from("fg"), objects), max_size=3)))
    ]
    queues = []
    for index, call in enumerate(calls):
        text = json.dumps(call["args"])
        parts = [{"name": call["name"], "args": "", "id": call["id"], "index": index}]
        parts += [{"name": None, "args": part, "id": None, "index": index} for part in draw(cut(text))]
        queues.append(parts)
    stream: list[AIMessageChunk] = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        stream.append(AIMessageChunk("", tool_call_chunks=[queue.pop(0)]))
        if draw(st.booleans()):
            stream.append(AIMessageChunk(draw(words)))
    return calls, stream


# --- histories ----------------------------------------------------------------


@st.composite
def valid_histories(draw: st.DrawFn, max_turns: int = 5) -> list[BaseMessage]:
    """Histories in which every call is answered right away; call ids come again in later turns."""
    history: list[BaseMessage] = [SystemMessage("s", id="s")] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(0, max_turns))):
        if draw(st.booleans()):
            history.append(HumanMessage(draw(words), id=f"h{turn}"))
        names = draw(st.lists(ids, max_size=3, unique=True))
        calls = [{"name": "f", "args": {}, "id": name} for name in names]
        history.append(AIMessage(draw(words), id=f"a{turn}", tool_calls=calls))
        history += [
            ToolMessage(draw(words), tool_call_id=name, id=f"t{turn}{name}") for name in draw(st.permutations(names))
        ]
    return history


@st.composite
def any_histories(draw: st.DrawFn) -> list[BaseMessage]:
    """Messages in any order, most of them broken."""
    kinds = st.one_of(
        st.builds(HumanMessage, words),
        st.builds(lambda calls: AIMessage("a", tool_calls=calls), tool_calls),
        st.builds(
            lambda name: AIMessage("", invalid_tool_calls=[{"name": "f", "args": "{", "id": name, "error": "cut"}]), ids
        ),
        st.builds(lambda name: ToolMessage("r", tool_call_id=name), ids),
        st.builds(SystemMessage, words),
    )
    return draw(st.lists(kinds, max_size=8))
