"""What can be done with each provider, as the tests say it. `scripts/providers_table.py` writes it into the docs.

A mark names providers and features, `@pytest.mark.shows("anthropic", "stream")`: the test shows each of the features
with each of the providers. What is the same for a whole file stands in its `pytestmark`, and belongs to every mark
there. Marks are read from the text of the tests: nothing is imported, and what is skipped here counts as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FEATURES", "PAGE", "PROVIDERS", "TESTS", "Shown", "shown", "table"]

TESTS = Path(__file__).resolve().parent
PAGE = TESTS.parent / "docs" / "providers" / "README.md"

PROVIDERS = {
    "openai-chat": "[OpenAI, Chat Completions](../models.md#providers)",
    "openai-responses": "[OpenAI, Responses](openai-responses.md)",
    "azure": "[Azure](openai-responses.md#azure)",
    "anthropic": "[Anthropic](anthropic.md)",
    "bedrock": "[Bedrock](anthropic.md#bedrock)",
    "google": "[Gemini](google.md)",
    "vertex": "[Vertex AI](google.md#vertex-ai)",
    "local": "[in the process](../local.md)",
    "openai-compatible": "[OpenAI-compatible](../models.md#providers)",
    "langchain": "[of LangChain's](../coming-from-langchain.md#with-langchains-own-models-and-tools)",
}
"""How a mark names it -> the head of its column, with a link to its example."""

FEATURES = (
    "invoke",
    "stream",
    "async",
    "tools",
    "tool choice",
    "parallel calls",
    "native schema",
    "partial objects",
    "reasoning",
    "images in",
    "files in",
    "audio in",
    "video in",
    "media in tool results",
    "citations",
    "refusals",
    "server tools",
    "usage details",
    "prompt cache marks",
    "prices",
    "profile",
    "retries",
    "errors mapped",
    "cut mid-stream",
    "recordings parsed",
    "requests rebuilt",
    "real server",
    "embeddings",
)


class Shown(NamedTuple):
    """A test, or a class of tests, and what one of its marks says."""

    path: Path
    test: str
    names: frozenset[str]


def shown() -> list[Shown]:
    """All marks of tests, by file and place."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in sorted(TESTS.rglob("test_*.py")))
    return [one for path, text in texts if "pytest.mark.shows(" in text for one in _marked(path, ast.parse(text))]


def _marked(path: Path, file: ast.Module) -> Iterator[Shown]:
    whole = {name for node in file.body if _is_pytestmark(node) for mark in _marks(node) for name in mark}
    for node in file.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                yield from (Shown(path, node.name, frozenset(whole | mark)) for mark in _marks(decorator))


def _is_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"


def _marks(node: ast.AST) -> Iterator[set[str]]:
    """The names of each mark in it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "pytest.mark.shows":
            yield {ast.literal_eval(name) for name in part.args}


def table() -> str:
    """A row for each feature, a column for each provider; a cell leads to the file of the first test and names all."""
    found = shown()
    lines = [f"| | {' | '.join(PROVIDERS.values())} |", "| --- |" + " :---: |" * len(PROVIDERS)]
    for feature in FEATURES:
        cells = [_cell([one for one in found if {feature, provider} <= one.names]) for provider in PROVIDERS]
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(tests: list[Shown]) -> str:
    if not tests:
        return ""
    where = tests[0].path.relative_to(TESTS).as_posix()
    return f'[✓](../../tests/{where} "{", ".join(dict.fromkeys(one.test for one in tests))}")'
