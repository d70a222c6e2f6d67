"""What a docstring says: about the whole, and about each parameter.

Google's, NumPy's and reST's way of writing are read, whichever a docstring uses. Rules:

- the description is the summary and the paragraphs before the first section; what stands in and behind sections
  (`Returns`, `Raises`, `Examples`, ...) is for people who read the code;
- a section begins with a known name on a line of its own: `Args:` with something indented below it, or `Parameters`
  with a line of dashes below it. "Note: mind the gap" in the middle of a sentence is prose;
- nothing is an error here: what cannot be read as a parameter is not one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["Docstring", "clean", "parse_docstring"]

_ARGUMENTS: Final = frozenset(
    ("args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters", "kwargs")
)
_SECTIONS: Final = _ARGUMENTS | frozenset(
    (
        "attention", "attributes", "caution", "danger", "error", "errors", "example", "examples", "hint", "important",
        "methods", "note", "notes", "raise", "raises", "receives", "references", "return", "returns", "see also", "tip",
        "todo", "usage", "warning", "warnings", "warns", "yield", "yields",
    )
)  # fmt: skip
_FIELDS: Final = ("param", "parameter", "arg", "argument", "key", "keyword")
_OTHER_FIELDS: Final = (
    "type", "rtype", "return", "returns", "raise", "raises", "except", "exception", "yield", "yields", "ytype", "var",
    "ivar", "cvar", "meta",
)  # fmt: skip


class Docstring(NamedTuple):
    """A docstring taken apart."""

    description: str
    parameters: dict[str, str]
    """Name -> its description on one line, without its type."""


def parse_docstring(text: str | None) -> Docstring:
    """Take a docstring apart."""
    whole = clean(text)
    if "\n" not in whole:
        return Docstring("" if _field_of(whole) else whole, {})
    lines = whole.split("\n")
    described: list[str] = []
    parameters: dict[str, str] = {}
    position, count = 0, len(lines)
    in_prose = True
    while position < count:
        line = lines[position]
        name, begin = _section_at(lines, position)
        if name is not None:
            in_prose = False
            end = _section_end(lines, begin, begin - position > 1)
            if name in _ARGUMENTS:
                read = _numpy_arguments if begin - position > 1 else _google_arguments
                read(lines[begin:end], parameters)
            position = end
            continue
        field = _field_of(line)
        if field is not None:
            in_prose = False
            end = _field_end(lines, position + 1)
            kind, argument, words = field
            if kind in _FIELDS and argument:
                parameters[argument] = _one_line([words, *lines[position + 1 : end]])
            position = end
            continue
        if in_prose:
            described.append(line)
        position += 1
    return Docstring("\n".join(described).strip(), parameters)


def clean(text: str | None) -> str:
    """A docstring without the indentation and the blank edges that it has in the source."""
    if not text:
        return ""
    if "\n" not in text:
        return text.strip()
    lines = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return "\n".join([lines[0].strip(), *(line[margin:].rstrip() for line in lines[1:])]).strip("\n")


# -- sections -------------------------------------------------------------------------------------------------------


def _section_at(lines: list[str], position: int) -> tuple[str | None, int]:
    """The name of the section that begins on this line, and the line its content begins on."""
    line = lines[position]
    if not line or line[0] == " ":
        return None, 0
    if line[-1] == ":" and line[:-1].lower() in _SECTIONS:
        below = next((other for other in lines[position + 1 :] if other), "")
        return (line[:-1].lower(), position + 1) if not below or below[0] == " " or _is_section(below) else (None, 0)
    following = lines[position + 1] if position + 1 < len(lines) else ""
    if following[:3] == "---" and not following.strip("-") and line.rstrip(":").lower() in _SECTIONS:
        return line.rstrip(":").lower(), position + 2
    return None, 0


def _is_section(line: str) -> bool:
    return line[-1] == ":" and line[:-1].lower() in _SECTIONS


def _section_end(lines: list[str], begin: int, underlined: bool) -> int:
    """Google's section ends where the indentation does, NumPy's where the next begins."""
    for position in range(begin, len(lines)):
        line = lines[position]
        if underlined:
            if _section_at(lines, position)[0] is not None or _field_of(line) is not None:
                return position
        elif line and line[0] != " ":
            return position
    return len(lines)


def _google_arguments(lines: list[str], found: dict[str, str]) -> None:
    """`name (type): words`, with further lines indented more."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    entry: list[str] = []
    names: list[str] = []
    for line in [*lines, ""]:
        body = line[margin:]
        if body and body[0] != " ":
            _keep(names, entry, found)
            head, colon, words = _split_head(body)
            names, entry = (_names(head), [words]) if colon else ([], [])
        else:
            entry.append(body)
    _keep(names, entry, found)


def _split_head(line: str) -> tuple[str, str, str]:
    """At the first colon that is not inside brackets: a type may have one, `x (dict[str: int]): words`."""
    depth = 0
    for position, char in enumerate(line):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == ":" and depth == 0:
            return line[:position], ":", line[position + 1 :]
    return line, "", ""


def _numpy_arguments(lines: list[str], found: dict[str, str]) -> None:
    """`name : type`, with the words on the lines below it, indented."""
    names: list[str] = []
    entry: list[str] = []
    for line in lines:
        if line and line[0] != " ":
            _keep(names, entry, found)
            names, entry = _names(line.split(":", 1)[0]), []
        else:
            entry.append(line)
    _keep(names, entry, found)


def _names(head: str) -> list[str]:
    """`x`, `x (int, optional)`, `*args`, `x, y` -> the names alone."""
    bare = head.split("(", 1)[0].strip()
    parts = [part.strip().strip("`").lstrip("*") for part in bare.split(",")]
    return parts if all(part.isidentifier() for part in parts) else []


def _keep(names: list[str], entry: list[str], found: dict[str, str]) -> None:
    words = _one_line(entry)
    if words:
        for name in names:
            found[name] = words


def _one_line(lines: list[str]) -> str:
    return " ".join(word for line in lines for word in line.split())


# -- fields ---------------------------------------------------------------------------------------------------------


def _field_of(line: str) -> tuple[str, str, str] | None:
    """`:param int x: words` or `@param x: words` -> (kind, name, words)."""
    if line[:1] not in (":", "@"):
        return None
    head, colon, words = line[1:].partition(":")
    parts = head.split()
    if not colon or not parts or parts[0] not in (*_FIELDS, *_OTHER_FIELDS):
        return None
    return parts[0], parts[-1].lstrip("*") if len(parts) > 1 else "", words


def _field_end(lines: list[str], begin: int) -> int:
    for position in range(begin, len(lines)):
        line = lines[position]
        if not line or line[0] != " ":
            return position
    return len(lines)
