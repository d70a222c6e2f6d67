"""Chunks behave as the plain dict and tuple they are, and answer the usual mistakes of their readers."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import msgspec
import pytest

from loopwright.graph.shown import TokenPair, UpdateChunk

UPDATE = UpdateChunk({"model": {"messages": [1]}})
TOKEN = TokenPair(("token", {"langgraph_node": "model"}))


@pytest.mark.parametrize(
    ("chunk", "plain"), [(UPDATE, {"model": {"messages": [1]}}), (TOKEN, ("token", {"langgraph_node": "model"}))]
)
def test_chunks_are_what_they_look_like(chunk, plain):
    assert chunk == plain
    assert repr(chunk) == repr(plain)
    assert pickle.loads(pickle.dumps(chunk)) == plain
    assert copy.deepcopy(chunk) == copy.copy(chunk) == plain
    assert json.loads(json.dumps(chunk)) == json.loads(json.dumps(plain))
    assert msgspec.json.decode(msgspec.json.encode(chunk)) == json.loads(json.dumps(plain))
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        chunk.other  # noqa: B018


def test_an_update_is_read_as_a_dict():
    assert [(node, change) for node, change in UPDATE.items()] == [("model", {"messages": [1]})]
    assert list(UPDATE) == [*UPDATE] == ["model"]
    (node,) = UPDATE
    assert node == "model"
    assert {**UPDATE} == dict(UPDATE) == UPDATE
    assert UPDATE.get("messages") is None
    with pytest.raises(KeyError, match=r"^'other'$"):
        UPDATE["other"]
    one, two = UpdateChunk({"a": 1, "b": 2})
    assert (one, two) == ("a", "b")


def test_a_token_is_read_as_a_pair():
    token, metadata = TOKEN
    assert (token, metadata["langgraph_node"]) == ("token", "model")


def test_an_update_taken_for_a_token():
    with pytest.raises(TypeError, match=r'default stream_mode is "updates".*stream_mode="messages"'):
        for _chunk, _meta in [UPDATE]:
            pass
    for name in ("content", "text", "tool_calls", "content_blocks"):
        with pytest.raises(AttributeError, match=f"has no '{name}'.*for token, metadata in .*result.text"):
            getattr(UPDATE, name)


@pytest.mark.parametrize("key", ["messages", "structured_response"])
def test_an_update_taken_for_the_state(key):
    with pytest.raises(KeyError) as caught:
        UPDATE[key]
    words: str = caught.value.args[0]
    assert f"Write chunk['model']['{key}']" in words
    assert 'stream_mode="values"' in words
    with pytest.raises(KeyError):
        UpdateChunk()[key]


def test_a_token_taken_for_an_update_or_a_message():
    loop: Any = TOKEN
    for name in ("items", "keys", "values", "get"):
        with pytest.raises(
            AttributeError, match=f"is a pair, \\(token, metadata\\), and has no '{name}'.*for update in"
        ):
            getattr(loop, name)
    for name in ("content", "text", "tool_calls", "tool_call_chunks", "usage_metadata"):
        with pytest.raises(AttributeError, match=f"has no '{name}'. Write: for token, metadata in"):
            getattr(loop, name)
