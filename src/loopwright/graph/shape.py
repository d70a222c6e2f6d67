"""From a compiled graph to its picture: which arrow can be taken, read from edges, path maps and destinations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwright.graph.draw import Graph
from loopwright.graph.types import END, START

if TYPE_CHECKING:
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.graph.nodes import Node

__all__ = ["graph_of"]


def graph_of(graph: CompiledStateGraph, *, xray: int | bool = False) -> Graph:
    """Nodes in the order they were declared. A branch that does not say where it leads may lead anywhere.

    `xray` opens nested graphs: True all of them, a number so many levels.
    """
    picture = Graph()
    picture.add_node(START)
    for node in graph.nodes.values():
        if node.hidden:
            continue
        picture.add_node(node.name, data=node.subgraph, metadata=node.metadata or None)
    picture.add_node(END)
    for node in (graph.start, *graph.nodes.values()):
        if not node.hidden:
            _add_edges(picture, graph, node)
    for sources, target in graph.joins.values():
        for source in sorted(sources):
            picture.add_edge(source, target)
    if xray:
        for node in list(graph.nodes.values()):
            if hasattr(node.subgraph, "parts"):
                _open(picture, node.name, graph_of(node.subgraph, xray=xray if xray is True else xray - 1))
    return picture


def _add_edges(picture: Graph, graph: CompiledStateGraph, node: Node) -> None:
    for target in node.edges:
        picture.add_edge(node.name, target)
    for branch in node.branches:
        anywhere = {name: name for name in [*graph.nodes, END]}
        ways = branch.path_map if branch.path_map is not None else anywhere
        shown = {word: target for word, target in ways.items() if target == END or not graph.nodes[target].hidden}
        for word, target in shown.items():
            picture.add_edge(node.name, target, str(word) if str(word) != target else None, conditional=len(shown) > 1)
    for target in node.destinations:
        label = node.destinations[target] if isinstance(node.destinations, dict) else None
        picture.add_edge(node.name, target, label, conditional=True)
    if not node.edges and not node.branches and not node.destinations and node.name != START:
        waited = any(node.name in sources for sources, _ in graph.joins.values())
        if not waited:
            picture.add_edge(node.name, END)


def _open(picture: Graph, name: str, inner: Graph) -> None:
    """Put a nested graph in the place of its node."""
    first = [edge.target for edge in inner.edges if edge.source == START]
    last = [edge.source for edge in inner.edges if edge.target == END]
    for node in inner.nodes.values():
        if node.id not in (START, END):
            picture.add_node(f"{name}:{node.id}", data=node.data, metadata=node.metadata)
    for edge in inner.edges:
        if START not in (edge.source, edge.target) and END not in (edge.source, edge.target):
            picture.add_edge(f"{name}:{edge.source}", f"{name}:{edge.target}", edge.data, edge.conditional)
    for edge in [edge for edge in picture.edges if name in (edge.source, edge.target)]:
        picture.edges.remove(edge)
        for source in [f"{name}:{x}" for x in last] if edge.source == name else [edge.source]:
            for target in [f"{name}:{x}" for x in first] if edge.target == name else [edge.target]:
                picture.add_edge(source, target, edge.data, edge.conditional)
    picture.nodes.pop(name)
