"""The house rules: what docs/architecture.md promises about the code, checked on the code itself.

The order of the rooms stands here and nowhere else (`FLOORS`). Exceptions have a reason beside them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopwright.errors import MissingExtraError

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "loopwright"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("errors", "ids"),
    ("port", "schema"),
    ("scope",),
    ("drive",),
    ("messages",),
    ("callbacks",),
    ("tools",),
    ("models", "checkpoint"),
    ("graph",),
    ("agents",),
    ("testing",),
    ("cli",),
    ("__main__",),
)
"""From the ground up. A room may import itself and the rooms on lower floors, not its neighbours."""

DOORS = (
    "channels",
    "chat_models",
    "config",
    "constants",
    "embeddings",
    "outputs",
    "prebuilt",
    "runnables",
    "runtime",
    "store",
    "types",
)
"""Modules that hand names on to where users look for them. They import whatever they like and hold no logic."""

FILE_LINES = 600
BODY_LINES = 60
LONG_BODIES: dict[str, str] = {}
"""`path:function` -> why its body may be longer than `BODY_LINES`."""
LONG_FILES: dict[str, str] = {}
"""`path` -> why it may be longer than `FILE_LINES`."""

LIGHT = ("loopwright.agents", "loopwright.messages", "loopwright.tools")
"""Rooms that are imported at every start."""
HEAVY = ("httpx2", "pydantic", "rich", "xllamacpp", "email", "http.client", "urllib.request", "unittest", "asyncio")
"""What importing a light room must not bring in."""
SOCKETS = ("httpx2", "asyncio", "email", "importlib.metadata", "logging", "socket", "ssl")
"""What only a program that calls a provider needs, or that makes a model: pydantic looks for its plugins then."""
UNASKED = {
    "from loopwright.agents import create_agent": (
        "loopwright.agents.answers",
        "loopwright.checkpoint.base",
        "loopwright.messages.blocks",
        "loopwright.models",
    ),
    "from loopwright.chat_models import BaseChatModel": (
        *SOCKETS,
        "loopwright.models.cache",
        "loopwright.models.catalogue",
        "loopwright.models.openai_chat",
        "loopwright.models.rate_limit",
    ),
    "from loopwright.chat_models import ChatOpenAI": (*SOCKETS, "loopwright.models.local"),
}
"""An import, and what it must leave for those who ask for it."""
MOST_MODULES = {
    "from loopwright.agents import create_agent": 90,
    "from loopwright.chat_models import BaseChatModel": 40,
    "from loopwright.chat_models import ChatOpenAI": 55,
}
"""An import, and how many modules of ours it may load: each costs a quarter of a millisecond."""

NEWCOMERS_PATH = ("src/loopwright/agents/loop.py", "src/loopwright/port.py", "src/loopwright/drive/blocking.py")

# Written so that this file does not find itself.
FORBIDDEN = {
    rf"(?<![\w.])/{'work'}\b": "a path of one machine",
    rf"\b(?:{'pypi'}\.org|{'pythonhosted'}\.org|registry\.{'npmjs'}|deb\.{'debian'})": "a registry's host",
    rf"\b(?:{'TO' + 'DO'}|{'FIX' + 'ME'}|{'XX' + 'X'})\b": "work left for later",
    rf"\b{'for' + ' now'}\b": "work left for later",
}


# --- the files ----------------------------------------------------------------


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def python_files(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if ".envs" not in path.parts and "__pycache__" not in path.parts)


SOURCES = python_files("src")
ALL_PYTHON = python_files("src", "tests", "bench", "scripts")


def module_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_door(path: Path) -> bool:
    inside = path.relative_to(PACKAGE).with_suffix("").parts
    return inside[0] in DOORS


def room_of(module: str) -> str:
    """`loopwright.graph.engine` -> `graph`; the package itself is the empty room."""
    return module.split(".")[1] if "." in module else ""


def loaded_by(program: str) -> list[str]:
    """Names of all modules that a fresh process has loaded after `program`."""
    command = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def opened(path: Path) -> Iterator[ast.stmt]:
    """The statements at the top of a module, those that only type checkers read included."""
    for node in tree(path).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body
        else:
            yield node


def files(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=name_of)


# --- who imports whom ---------------------------------------------------------


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and module of everything of ours that a file imports, at any depth, for types or for good."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno} imports relatively; write loopwright. ..."
            module = node.module or ""
            found = [f"loopwright.{alias.name}" for alias in node.names] if module == "loopwright" else [module]
        else:
            continue
        yield from ((node.lineno, module) for module in found if module.split(".")[0] == "loopwright")


@files(SOURCES)
def test_rooms_import_only_rooms_below(path: Path) -> None:
    floor = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
    room = room_of(module_of(path))
    if not room or room in DOORS:
        return
    assert room in floor, (
        f"{name_of(path)}: give {room!r} a floor in tests/test_house.py and a line in the architecture"
    )
    upward = [
        f"{name_of(path)}:{line} imports {module}"
        for line, module in imports(path)
        if (other := room_of(module)) not in (room, "", "__version__") and floor.get(other, len(FLOORS)) >= floor[room]
    ]
    assert upward == []


@files([path for path in SOURCES if is_door(path)])
def test_doors_hold_no_logic(path: Path) -> None:
    """A door is a docstring, imports and `__all__`. One to a costly room hands on that room's `__getattr__`."""
    allowed = (ast.Import, ast.ImportFrom)
    body = list(opened(path))[1:]
    rest = [ast.unparse(node) for node in body if not isinstance(node, allowed) and "__all__" not in ast.unparse(node)]
    assert rest == []


@pytest.mark.parametrize("module", LIGHT)
def test_light_rooms_import_nothing_heavy(module: str) -> None:
    assert sorted(set(HEAVY).intersection(loaded_by(f"import {module}"))) == []


@pytest.mark.parametrize("program", UNASKED)
def test_imports_leave_what_nobody_asked_for(program: str) -> None:
    assert sorted(set(UNASKED[program]).intersection(loaded_by(program))) == []


@pytest.mark.parametrize("program", MOST_MODULES)
def test_imports_load_few_modules(program: str) -> None:
    ours = [name for name in loaded_by(program) if name.split(".")[0] == "loopwright"]
    assert len(ours) <= MOST_MODULES[program], ours


# --- the form of a file -------------------------------------------------------


@files(ALL_PYTHON)
def test_files_are_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= FILE_LINES or name_of(path) in LONG_FILES, f"{lines} lines; split it along a duty"


def bodies(node: ast.AST, owner: str = "") -> Iterator[tuple[str, int]]:
    """Qualified name and lines of the body of every function; signature and docstring do not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            name = f"{owner}.{child.name}".lstrip(".")
            statements = child.body[1:] if ast.get_docstring(child) is not None else child.body
            if statements and not isinstance(child, ast.ClassDef):
                yield name, (statements[-1].end_lineno or 0) - statements[0].lineno + 1
            yield from bodies(child, name)
        else:
            yield from bodies(child, owner)


@files(ALL_PYTHON)
def test_bodies_are_short(path: Path) -> None:
    found = {f"{name_of(path)}:{name}": lines for name, lines in bodies(tree(path)) if lines > BODY_LINES}
    assert {name: lines for name, lines in found.items() if name not in LONG_BODIES} == {}


@pytest.mark.parametrize("name", [*LONG_BODIES, *LONG_FILES] or [""])
def test_exceptions_are_still_needed(name: str) -> None:
    path, _, function = name.partition(":")
    if function:
        assert dict(bodies(tree(ROOT / path)))[function] > BODY_LINES
    elif path:
        assert len((ROOT / path).read_text(encoding="utf-8").splitlines()) > FILE_LINES


@files(SOURCES)
def test_files_say_their_duty(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "begin the file with its one duty and the rules it holds"
    assert not path.stem.startswith("_") or path.stem in ("__init__", "__main__"), (
        "private is the package, not the file"
    )


# --- the public names ---------------------------------------------------------


def declared(path: Path) -> list[str] | None:
    for node in tree(path).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and targets(node) == ["__all__"]:
            names = ast.literal_eval(node.value)
            assert isinstance(names, list), "__all__ is a literal list"
            return names
    return None


def targets(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module gives. Type variables are nobody's to import."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(value=ast.Call(func=ast.Name("TypeVar" | "ParamSpec" | "TypeVarTuple"))):
            return []
        case ast.Assign():
            return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        case ast.AnnAssign(target=ast.Name(name)):
            return [name]
        case _:
            return []


def handed_on(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("loopwright"):
        return [name for alias in node.names if (name := alias.asname or alias.name) != "__getattr__"]
    return []


@files([path for path in SOURCES if path.stem != "__main__"])
def test_all_is_every_public_name(path: Path) -> None:
    """Doors and the `__init__` of a room exist to hand names on: all that they import is public. Others may."""
    names = declared(path)
    assert names is not None, "declare __all__"
    assert len(names) == len(set(names))
    own = {name for node in tree(path).body for name in targets(node)}
    own = {name for name in own if not name.startswith("_") or name == "__version__"} | lazy_names(path)
    imported = {name for node in (opened(path) if is_door(path) else tree(path).body) for name in handed_on(node)}
    if path.stem == "__init__" or is_door(path):
        own |= imported
    assert sorted(own - set(names)) == [], "public by name and not in __all__: add it, or give it an underscore"
    assert sorted(set(names) - own - imported) == [], "in __all__, and not here"


def lazy_names(path: Path) -> set[str]:
    """Names that a module's `__getattr__` imports when asked: the keys of its table `_LAZY`."""
    for node in tree(path).body:
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        if value is not None and targets(node) == ["_LAZY"]:
            return set(ast.literal_eval(value))
    return set()


@files([path for path in SOURCES if path.stem != "__main__"])
def test_public_names_can_be_imported(path: Path) -> None:
    try:
        module = importlib.import_module(module_of(path))
        missing = [name for name in module.__all__ if not hasattr(module, name)]
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert missing == []


# --- words and the way in -----------------------------------------------------


def tracked() -> list[Path]:
    """The project's own text files; without git, those that a release has."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    paths = [ROOT / name for name in names if name] or [*ALL_PYTHON, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    return sorted(path for path in paths if path.is_file() and path.suffix in TEXT)


TEXT = {"", ".cfg", ".json", ".md", ".py", ".toml", ".txt", ".yaml", ".yml"}


def test_no_forbidden_words() -> None:
    found: list[str] = []
    for path in tracked():
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern, what in FORBIDDEN.items():
            for match in re.finditer(pattern, text, re.IGNORECASE if " " in pattern else 0):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{name_of(path)}:{line} has {match.group()!r}: {what}")
    assert found == []


def test_newcomers_path() -> None:
    """README -> docs/architecture.md -> the loop -> the port -> the blocking driver, each one link away."""
    assert "(docs/architecture.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    architecture = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    places = [architecture.find(f"(../{step})") for step in NEWCOMERS_PATH]
    assert -1 not in places
    assert places == sorted(places)


def test_architecture_names_every_room() -> None:
    architecture = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert (
        sorted(room for room in rooms - {"__init__", "__main__"} if not re.search(rf"`{room}(/|\.py)?`", architecture))
        == []
    )
