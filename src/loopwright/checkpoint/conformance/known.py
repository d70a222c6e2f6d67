"""What every saver promises to LangGraph's users, and under asyncio."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest

from loopwright.checkpoint.base import Pending
from loopwright.checkpoint.conformance.records import Saver, record, refused
from loopwright.errors import UsageError
from loopwright.messages import HumanMessage

__all__ = ["KnownConformance"]


class KnownConformance:
    """The methods and shapes they know."""

    # --- what LangGraph's users call --------------------------------------------

    def test_get_tuple_has_the_known_shape(self, saver: Saver) -> None:
        saver.save(record("c1", values={"n": 1}))
        saver.save(record("c2", "c1", step=1, metadata={"user": "ann"}, values={"n": 2}, pending=(Pending("7", "a"),)))
        saver.save_writes("t", "", "c2", "7", [("n", 3)])
        config = {"configurable": {"thread_id": "t"}}

        found = saver.get_tuple(config)

        at = {"thread_id": "t", "checkpoint_ns": ""}
        assert found.config == {"configurable": {**at, "checkpoint_id": "c2"}}
        assert found.parent_config == {"configurable": {**at, "checkpoint_id": "c1"}}
        assert found.metadata == {"source": "loop", "step": 1, "parents": {}, "user": "ann"}
        assert found.pending_writes == [("7", "n", 3)]
        assert found.checkpoint["id"] == "c2"
        assert found.checkpoint["ts"] == "2026-01-01T00:00:02+00:00"
        assert found.checkpoint["channel_values"] == {"n": 2}
        assert saver.get(config) == found.checkpoint
        assert saver.get_tuple(found.parent_config).checkpoint["channel_values"] == {"n": 1}
        assert saver.get_tuple(found.parent_config).parent_config is None
        assert saver.get_tuple({"configurable": {"thread_id": "u"}}) is None
        assert saver.get({"configurable": {"thread_id": "u"}}) is None

    def test_list_goes_by_config(self, saver: Saver) -> None:
        saver.save(record("c1", source="input"))
        saver.save(record("c2", "c1"))
        saver.save(record("d1", ns="tools:1"))
        saver.save(record("c1", None, "u"))

        def listed(config: Any, **options: Any) -> list[str]:
            return [found.checkpoint["id"] for found in saver.list(config, **options)]

        t = {"configurable": {"thread_id": "t"}}
        root = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        assert listed(None) == ["c1", "d1", "c2", "c1"]
        assert listed(t) == ["d1", "c2", "c1"]
        assert listed(root) == ["c2", "c1"]
        assert listed(root, limit=1) == ["c2"]
        assert listed(root, filter={"source": "input"}) == ["c1"]
        assert listed(root, before={"configurable": {"checkpoint_id": "c2"}}) == ["c1"]
        assert listed({"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c1"}}) == ["c1"]

    def test_a_checkpoint_that_is_put_comes_back(self, saver: Saver) -> None:
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        checkpoint = {
            "v": 4,
            "id": "1ef4f797-8335-6428-8001-8a1503f9b875",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {"n": 1, "messages": [HumanMessage("hi", id="1")]},
            "channel_versions": {"n": 2, "messages": 3},
            "versions_seen": {"a": {"n": 1}},
        }

        at = saver.put(config, checkpoint, {"source": "input", "step": -1, "who": "me"}, {"n": 2})
        saver.put_writes(at, [("n", 5)], "task", "~path")
        found = saver.get_tuple(config)

        assert at == {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        assert found.config == at
        assert found.metadata == {"source": "input", "step": -1, "who": "me", "parents": {}}
        assert found.pending_writes == [("task", "n", 5)]
        assert {key: found.checkpoint[key] for key in checkpoint} == checkpoint

    def test_a_checkpoint_can_be_put_into_another_thread_and_goes_on_there(self, saver: Saver) -> None:
        pending = (Pending("7", "tools", ("a",), {"x": 1}), Pending("8", "model"))
        saver.save(record("c1", values={"n": 1}, pending=pending))
        found = saver.get_tuple({"configurable": {"thread_id": "t"}})

        saver.put({"configurable": {"thread_id": "u"}}, found.checkpoint, found.metadata, {})

        assert saver.load("u").pending == pending
        assert saver.load("u").values == {"n": 1}

    def test_a_put_checkpoint_may_have_no_more_than_an_id(self, saver: Saver) -> None:
        saver.put({"configurable": {"thread_id": "t", "checkpoint_id": "c0"}}, {"id": "c1"}, {}, {})

        found = saver.load("t")
        assert (found.id, found.parent_id, found.source, found.step) == ("c1", "c0", "update", -1)
        assert datetime.fromisoformat(found.created_at).tzinfo is not None

    def test_put_writes_needs_a_checkpoint(self, saver: Saver) -> None:
        with refused(UsageError):
            saver.put_writes({"configurable": {"thread_id": "t"}}, [("n", 1)], "task")

    @pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": ""}}])
    def test_the_thread_must_be_named(self, saver: Saver, config: Any) -> None:
        with refused(UsageError, "thread_id"):
            saver.get_tuple(config)
        with refused(UsageError, "thread_id"):
            list(saver.list(config))

    def test_get_next_version(self, saver: Saver) -> None:
        assert saver.get_next_version(None) == 1
        assert saver.get_next_version(1, None) == 2
        assert saver.get_next_version("00000002.0.123") == 3

    # --- the same for asyncio ---------------------------------------------------

    def test_the_async_methods_do_the_same(self, plain: Saver) -> None:
        async def main() -> None:
            claim = await plain.aclaim("t", None, "r")
            await plain.asave(record("c1", values={"n": 1}), None, claim)
            await plain.asave_writes("t", "", "c1", "task", [("n", 2)], claim)
            config = {"configurable": {"thread_id": "t"}}

            assert (await plain.aload("t")).writes == [("task", "n", 2)]
            assert [found.id async for found in plain.awalk("t")] == ["c1"]
            assert await plain.aget(config) == (await plain.aget_tuple(config)).checkpoint
            assert await plain.aget({"configurable": {"thread_id": "u"}}) is None
            assert [found async for found in plain.alist(config)] == [await plain.aget_tuple(config)]
            other = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c9"}}
            assert [found async for found in plain.alist(other)] == []
            at = await plain.aput({"configurable": {"thread_id": "u"}}, {"id": "c1"}, {}, {})
            await plain.aput_writes(at, [("n", 1)], "task")
            assert (await plain.aload("u")).writes == [("task", "n", 1)]
            await plain.acopy_thread("t", "v")
            assert await plain.aprune(["t"]) == 0
            assert (await plain.asize_report("v"))["checkpoints"] == 1
            await plain.adelete_thread("t")
            assert await plain.aload("t") is None

        asyncio.run(main())

    def test_it_is_a_context_manager(self, plain: Saver) -> None:
        with plain as same:
            assert same is plain

    def test_it_is_an_async_context_manager(self, plain: Saver) -> None:
        async def main() -> None:
            async with plain as same:
                assert same is plain

        asyncio.run(main())
