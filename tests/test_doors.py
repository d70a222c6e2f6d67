"""Names where users look for them: the imports of tutorials, translated as docs/coming-from-langchain.md says."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import loopwright
from loopwright.errors import MissingExtraError, no_such_name

PAGE = Path(__file__).resolve().parent.parent / "docs/coming-from-langchain.md"

TUTORIALS = """\
from langchain.agents import create_agent, AgentState
from langchain.agents.factory import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, before_model
from langchain.agents.middleware.types import ModelRequest, ModelResponse, PrivateStateAttr
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain.chat_models import init_chat_model
from langchain.chat_models.base import init_chat_model
from langchain.embeddings import init_embeddings
from langchain.messages import AIMessage, HumanMessage, SystemMessage
from langchain.tools import ToolRuntime, tool
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.callbacks.base import BaseCallbackHandler
from langchain_core.caches import InMemoryCache
from langchain_core.embeddings import Embeddings
from langchain_core.exceptions import OutputParserException
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AnyMessage, trim_messages
from langchain_core.messages.ai import AIMessage, AIMessageChunk
from langchain_core.messages.base import BaseMessage
from langchain_core.messages.tool import ToolCall, ToolMessage
from langchain_core.messages.utils import count_tokens_approximately, trim_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.outputs.chat_generation import ChatGenerationChunk
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import RunnableConfig, ensure_config, merge_configs
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langchain_core.tools.base import BaseTool, InjectedToolCallId, ToolException
from langchain_core.tools.structured import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_openai import ChatOpenAI
from langchain_openai import OpenAIEmbeddings
from langchain_openai.chat_models import ChatOpenAI
from langgraph.channels import EphemeralValue
from langgraph.channels.ephemeral_value import EphemeralValue
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver, MemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_config, get_store, get_stream_writer
from langgraph.constants import END, START
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.graph.state import CompiledStateGraph, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, create_react_agent, tools_condition
from langgraph.prebuilt.chat_agent_executor import create_react_agent
from langgraph.prebuilt.tool_node import ToolNode
from langgraph.runtime import Runtime, get_runtime
from langgraph.types import Command, Interrupt, RetryPolicy, Send, StreamWriter, interrupt
    import langchain_core.messages as messages
name = "langgraph.graph"
"""


@pytest.fixture(scope="module")
def translated(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines above, after the command of the page has run on a file of them."""
    if shutil.which("sed") is None or sys.platform == "darwin":
        pytest.skip("no GNU sed")
    program = tmp_path_factory.mktemp("tutorial") / "program.py"
    program.write_text(TUTORIALS, encoding="utf-8")
    found = re.search(r"^```sh\n(sed .*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    subprocess.run(found[1].replace("FILES", str(program)), shell=True, check=True)
    return program.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("number", range(len(TUTORIALS.splitlines()) - 1), ids=TUTORIALS.splitlines()[:-1])
def test_the_imports_of_tutorials_work_when_translated(translated: list[str], number: int) -> None:
    try:
        exec(translated[number].strip(), {})
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_only_imports_are_translated(translated: list[str]) -> None:
    assert translated[-1] == 'name = "langgraph.graph"'


def test_the_table_names_modules_that_are_there() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Imports")[2].partition("A submodule")[0]
    modules = sorted({name for line in table.splitlines() for name in re.findall(r"`(loopwright[a-z_.]*)", line)})

    assert len(modules) > 15
    for module in modules:
        if importlib.util.find_spec("psycopg") is not None or "postgres" not in module:
            importlib.import_module(module.removesuffix("."))


# --- names that are looked for elsewhere -----------------------------------------


def test_what_costs_nothing_is_where_it_is_looked_for() -> None:
    from loopwright import agents, checkpoint
    from loopwright.checkpoint.memory import InMemorySaver
    from loopwright.checkpoint.sqlite import SqliteSaver

    assert loopwright.create_agent is agents.create_agent
    assert checkpoint.InMemorySaver is InMemorySaver
    assert checkpoint.SqliteSaver is SqliteSaver


def test_the_doors_cost_nothing_until_they_are_used() -> None:
    program = "import loopwright.checkpoint, sys; print(*(name for name in sys.modules if 'loopwright' in name))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["loopwright", "loopwright.checkpoint"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "from loopwright.agents import interrupt",
            "loopwright.agents has no 'interrupt'. Write: from loopwright.ty",
        ),
        ("from loopwright import tool", "loopwright has no 'tool'. Write: from loopwright.tools import tool"),
        ("from loopwright.checkpoint import StateGraph", "Write: from loopwright.graph import StateGraph"),
        ("from loopwright.agents.middleware import Command", "Write: from loopwright.types import Command"),
        ("from loopwright.chat_models import HumanMessage", "Write: from loopwright.messages import HumanMessage"),
        ("from loopwright import nonsense", "cannot import name 'nonsense' from 'loopwright'"),
    ],
)
def test_a_wrong_import_is_told_the_right_one(line: str, words: str) -> None:
    with pytest.raises(ImportError, match=re.escape(words)):
        exec(line)


def test_every_home_has_the_names_that_lead_to_it() -> None:
    from loopwright.errors import _HOMES

    for home, names in _HOMES.items():
        for name in names:
            assert f"from loopwright.{home} import {name}" in str(no_such_name("loopwright.elsewhere", name))
            try:
                exec(f"from loopwright.{home} import {name}")
            except MissingExtraError:
                continue


def test_a_submodule_is_no_missing_name() -> None:
    program = "from loopwright import agents, checkpoint, messages; from loopwright.checkpoint import codec; print(1)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout.split() == ["1"]
    assert not hasattr(loopwright, "__path_of_nothing__")
