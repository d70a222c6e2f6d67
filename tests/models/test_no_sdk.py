"""No provider's SDK is imported, not even where it is installed: with no class, and with no request that one makes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent.parent / "src"
SDKS = ("anthropic", "boto3", "botocore", "google", "langchain", "langgraph", "openai")
"""How the names of their packages begin."""
MODELS = {
    "openai-chat": "ChatOpenAI(model='m', api_key='k')",
    "openai-responses": "ChatOpenAI(model='m', api_key='k', use_responses_api=True)",
    "azure": "AzureChatOpenAI(model='m', api_key='k', azure_endpoint='https://mine.openai.azure.com')",
    "anthropic": "ChatAnthropic(model='m', api_key='k')",
    "bedrock": "ChatAnthropicBedrock(model='m', api_key='k', region_name='us-east-1')",
    "google": "ChatGoogleGenerativeAI(model='m', api_key='k')",
    "vertex": "ChatVertexAI(model='m', project='p', api_key=lambda: 'k')",
}
SIGNATURES = {"loopwright/models/aws.py": {"botocore"}}
"""Where AWS's signature is made, for those who have no key of Bedrock's. Imported when a request is signed."""
CONVERSION = {"loopwright/messages/langchain.py": {"langchain_core"}}
"""Where messages become LangChain's, for those who ask for them."""


def sdks_among(names: set[str]) -> set[str]:
    return {name for name in names if name.startswith(SDKS)}


@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_a_model_loads_no_sdk(made: str) -> None:
    """Its class alone, the model, what it sends and what it reads with."""
    name = made.partition("(")[0]
    program = (
        f"import sys; from loopwright.chat_models import {name}\n"
        "from loopwright.messages import HumanMessage\n"
        "imported = {*sys.modules}\n"
        f"model = {made}\n"
        "request = model._request([HumanMessage('hi')], None, {}, streamed=True)\n"
        "model._reader(request.peer)\n"
        "print(*imported); print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported, loaded = ran.stdout.splitlines()
    assert sdks_among({*imported.split()}) == set()
    assert sdks_among({*loaded.split()}) == set()


def third_parties(path: Path) -> set[str]:
    """The first name of each module that a file imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def test_no_source_names_an_sdk() -> None:
    named = {path.relative_to(SRC).as_posix(): sdks_among(third_parties(path)) for path in SRC.rglob("*.py")}
    assert {path: found for path, found in named.items() if found} == SIGNATURES | CONVERSION
