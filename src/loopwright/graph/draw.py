"""A graph as a picture: what `compiled.get_graph()` returns.

Holds names and edges only, knows nothing of running. Two drawings, both plain text and without a dependency:
Mermaid (GitHub, notebooks and editors render it) and boxes for a terminal (`graph/boxes.py`).

Ids with a colon (`outer:inner`) are nodes of a nested graph: Mermaid draws them inside a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from loopwright.graph.types import END, START

__all__ = ["Edge", "Graph", "Node"]


class Node(NamedTuple):
    """One box."""

    id: str
    name: str
    data: Any = None
    """Whatever runs there; only handed on."""
    metadata: Mapping[str, Any] | None = None


class Edge(NamedTuple):
    """One arrow."""

    source: str
    target: str
    data: str | None = None
    """The label, if the branch has a name of its own."""
    conditional: bool = False
    """Taken only if something decides so; drawn dotted."""


class Graph:
    """Nodes by id, in the order they were added, and the edges between them."""

    __slots__ = ("edges", "nodes")

    nodes: dict[str, Node]
    edges: list[Edge]

    def __init__(self, nodes: Iterable[str | Node] = (), edges: Iterable[tuple[Any, ...]] = ()) -> None:
        self.nodes = {}
        for node in nodes:
            if isinstance(node, str):
                self.add_node(node)
            else:
                self.nodes[node.id] = node
        self.edges = [Edge(*edge) for edge in edges]

    def __repr__(self) -> str:
        return f"Graph(nodes={list(self.nodes)!r}, edges={[(edge.source, edge.target) for edge in self.edges]!r})"

    def add_node(
        self, id: str, name: str | None = None, data: Any = None, metadata: Mapping[str, Any] | None = None
    ) -> Node:
        """Add a box, or replace the one of that id."""
        node = self.nodes[id] = Node(id, id.rpartition(":")[2] if name is None else name, data, metadata)
        return node

    def add_edge(self, source: str, target: str, data: str | None = None, conditional: bool = False) -> Edge:
        """Add an arrow between two nodes that have been added or will be."""
        edge = Edge(source, target, data, conditional)
        self.edges.append(edge)
        return edge

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Plain data: nodes `{"id", "name", "metadata"?}`, edges `{"source", "target", "data"?, "conditional"?}`."""
        nodes: list[dict[str, Any]] = []
        for node in self.nodes.values():
            entry: dict[str, Any] = {"id": node.id, "name": node.name}
            if node.metadata:
                entry["metadata"] = dict(node.metadata)
            nodes.append(entry)
        edges: list[dict[str, Any]] = []
        for edge in self.edges:
            entry = {"source": edge.source, "target": edge.target}
            if edge.data is not None:
                entry["data"] = edge.data
            if edge.conditional:
                entry["conditional"] = True
            edges.append(entry)
        return {"nodes": nodes, "edges": edges}

    def draw_mermaid(self, *, with_styles: bool = True) -> str:
        """The graph in Mermaid's language, to paste into Markdown between ```` ```mermaid ```` fences."""
        names = _mermaid_ids(self.nodes)
        lines = ["graph TD"]
        lines += _mermaid_boxes(self.nodes, names, with_styles)
        for edge in self.edges:
            # An edge may name a node nobody added; Mermaid then makes a box of its id.
            source = names.get(edge.source) or _mermaid_id(edge.source)
            target = names.get(edge.target) or _mermaid_id(edge.target)
            label = "" if edge.data is None else f'|"{_mermaid_text(edge.data)}"|'
            lines.append(f"    {source} {'-.->' if edge.conditional else '-->'}{label} {target}")
        if with_styles:
            lines += [
                "    classDef default fill:#f4f4fb,stroke:#6b6b9e,color:#222222",
                "    classDef first fill-opacity:0",
                "    classDef last fill:#d5d5ee",
            ]
        return "\n".join(lines) + "\n"

    def draw_ascii(self) -> str:
        """The graph as boxes and lines for a terminal: solid edges `|`, conditional ones `:`."""
        from loopwright.graph.boxes import draw_boxes

        return draw_boxes(list(self.nodes), self.edges)

    def print_ascii(self) -> None:
        """Print `draw_ascii()`."""
        print(self.draw_ascii())  # noqa: T201 - what it is for


_WORDS: Final = frozenset(
    [
        "call",
        "class",
        "classdef",
        "click",
        "default",
        "direction",
        "end",
        "flowchart",
        "graph",
        "href",
        "linkstyle",
        "style",
        "subgraph",
    ]
)
"""Words that Mermaid reads as its own when they stand where an id should."""


def _mermaid_id(name: str) -> str:
    """`name` with all that Mermaid would not read as one word replaced."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name)
    if not plain or plain.lower() in _WORDS or plain[0].isdigit():
        plain = f"n_{plain}"
    return plain


def _mermaid_ids(nodes: Iterable[str]) -> dict[str, str]:
    """An id for each node, no two alike."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for name in nodes:
        plain = _mermaid_id(name)
        unique = plain
        count = 2
        while unique in taken:
            unique = f"{plain}_{count}"
            count += 1
        taken.add(unique)
        ids[name] = unique
    return ids


def _mermaid_text(text: str) -> str:
    """`text` for use between double quotes: entity codes for what would end them or be read as markup."""
    for mark, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;"), ("\n", " ")):
        text = text.replace(mark, code)
    return text


class _Frame(dict[str, "Node | _Frame"]):
    """The nodes of one nested graph, and the graphs nested in it under their names with a colon."""


def _mermaid_boxes(nodes: Mapping[str, Node], ids: Mapping[str, str], with_styles: bool) -> list[str]:
    """The lines that declare the nodes, those of nested graphs inside `subgraph` frames."""
    boxes = _Frame()
    frames: dict[str, _Frame] = {}
    for node in nodes.values():
        inner, path = boxes, ""
        for part in node.id.split(":")[:-1]:
            path += f"{part}:"
            if path not in frames:
                inner[f"frame {path}"] = frames[path] = _Frame()
            inner = frames[path]
        inner[f"node {node.id}"] = node
    titles = {path: path.split(":")[-2] for path in frames}
    frame_ids = _mermaid_ids([*ids.values(), *(f"frame {path}" for path in frames)])
    lines: list[str] = []

    def declare(frame: _Frame, indent: str) -> None:
        for key, entry in frame.items():
            if isinstance(entry, _Frame):
                title = _mermaid_text(titles[key.removeprefix("frame ")])
                lines.append(f'{indent}subgraph {frame_ids[key]}["{title}"]')
                declare(entry, indent + "    ")
                lines.append(f"{indent}end")
            else:
                lines.append(indent + _mermaid_box(entry, ids[entry.id], with_styles))

    declare(boxes, "    ")
    return lines


def _mermaid_box(node: Node, id: str, with_styles: bool) -> str:
    text = f'"{_mermaid_text(node.name)}"'
    if node.id not in (START, END):
        return f"{id}({text})"
    style = (":::first" if node.id == START else ":::last") if with_styles else ""
    return f"{id}([{text}]){style}"
