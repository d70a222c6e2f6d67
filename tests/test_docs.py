"""The docs are true: every example runs, every link leads somewhere, and both READMEs show the same code.

A block fenced `python` runs; all blocks of a page share one namespace, top to bottom. `python no-run` is only
compiled: it needs a key, a network or a person. `python needs-local-model` runs where the local model is installed.
What a block prints is compared with its lines that begin with `#>`, if it has any.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from loopwright.models.local.engine import missing_installs

ROOT = Path(__file__).resolve().parent.parent
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PAGES = [*READMES, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/providers").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "bench/README.md"]
LINKED += sorted((ROOT / "docs/adr").glob("*.md"))

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


class Block(NamedTuple):
    info: str
    """What stands behind the backticks."""
    line: int
    """Of the first line of code, counted from 1."""
    code: str


def blocks(text: str) -> Iterator[Block]:
    for fence in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(fence[1].strip(), text.count("\n", 0, fence.start(2)) + 1, fence[2])


def python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page.read_text(encoding="utf-8")) if block.info.split()[:1] == ["python"]]


# --- examples -----------------------------------------------------------------


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No keys in the environment, and an empty folder to be in."""
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def run(block: Block, page: Path, namespace: types.ModuleType) -> None:
    """Lines are shifted, so that tracebacks show the line of the page."""
    code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
    info = block.info.split()
    if "no-run" in info or ("needs-local-model" in info and missing_installs()):
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace.__dict__)
    expected = [line.partition("#>")[2].strip() for line in block.code.splitlines() if line.lstrip().startswith("#>")]
    if expected:
        assert expected == [line.strip() for line in printed.getvalue().splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
@pytest.mark.usefixtures("bare_machine")
def test_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = types.ModuleType(f"example_{page.stem}".replace("-", "_").replace(".", "_"))
    # Schemas of tools and answers look their annotations up in the module.
    monkeypatch.setitem(sys.modules, namespace.__name__, namespace)
    for block in python_blocks(page):
        try:
            run(block, page, namespace)
        except BaseException as error:
            at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(page)]
            line = getattr(error, "lineno", None) or (at or [block.line])[-1]
            raise AssertionError(f"{name_of(page)}:{line}: {type(error).__name__}: {error}") from error


def test_readmes_show_the_same_code() -> None:
    """Comments are translated, code is not."""
    english, chinese = (
        [re.sub(r"\s*#.*", "", block.code) for block in blocks(page.read_text(encoding="utf-8"))] for page in READMES
    )
    assert english == chinese


# --- links --------------------------------------------------------------------


def links(text: str) -> Iterator[tuple[int, str]]:
    """Line and target of every link inside the project, outside of code."""
    code = re.compile(r"```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
    prose = code.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for link in LINK.finditer(prose):
        if not re.match(r"[a-z]+:", link[1]):
            yield prose.count("\n", 0, link.start()) + 1, link[1]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as forges make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    dead: list[str] = []
    for line, target in links(page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            dead.append(f"{name_of(page)}:{line}: {target}")
    assert dead == []
