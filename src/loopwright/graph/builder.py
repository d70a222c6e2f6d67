"""`StateGraph`: nodes and edges as they are declared, and the checks before they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast, get_args, get_origin, get_type_hints

from loopwright.errors import UsageError
from loopwright.graph.compiled import CompiledStateGraph, Parts
from loopwright.graph.nodes import Branch, Node, node_from
from loopwright.graph.state import channels_of, fields_of, merge_channels, view_of
from loopwright.graph.stops import StopAt
from loopwright.graph.types import END, START, Command, RetryPolicy

__all__ = ["StateGraph"]

_RESERVED = frozenset("|:")


class StateGraph:
    """A graph whose nodes read one state and return updates of it.

    `state_schema` is a class with annotated keys (TypedDict, dataclass, pydantic model); `Annotated[list, reducer]`
    says how updates of a key are joined. `input_schema` and `output_schema` narrow what callers give and get.
    """

    def __init__(
        self,
        state_schema: type[Any],
        context_schema: type[Any] | None = None,
        *,
        input_schema: type[Any] | None = None,
        output_schema: type[Any] | None = None,
    ) -> None:
        _check_schema(state_schema)
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.input_schema = input_schema
        self.output_schema = output_schema
        self._shared: list[type[Any]] = [state_schema]
        """What callers see, unless `input_schema` or `output_schema` say otherwise."""
        self._schemas = [s for s in (state_schema, input_schema, output_schema) if s is not None]
        self.channels = merge_channels(self._schemas)
        self.nodes: dict[str, Node] = {}
        self.edges: set[tuple[str, str]] = set()
        self.joins: dict[str, tuple[frozenset[str], str]] = {}
        self.branches: dict[str, list[Branch]] = {}
        self._default_retry: tuple[RetryPolicy, ...] = ()
        self.declares: Sequence[Any] = ()
        """Annotations, beside the schemas, of what may be stored."""

    def add_schemas(self, schemas: Iterable[type[Any]]) -> StateGraph:
        """Add the keys of further schemas."""
        for schema in schemas:
            if schema not in self._shared:
                self._shared.append(schema)
            if schema not in self._schemas:
                self._schemas.append(schema)
                self.channels = merge_channels(self._schemas)
        return self

    def add_node(
        self,
        node: str | Any,
        action: Any = None,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        metadata: Mapping[str, Any] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        input_schema: type[Any] | None = None,
    ) -> StateGraph:
        """Add a function `(state) -> update`, a compiled graph or a model; the name is the function's if none is given.

        The node is given what `input_schema` names, or the annotation of its first parameter; keys that only such a
        schema has are private to the nodes.
        """
        if action is None:
            node, action = getattr(node, "name", None) or getattr(node, "__name__", None), node
        if not isinstance(node, str):
            raise UsageError(f"A node needs a name: add_node('name', {action!r}).")
        if node in self.nodes:
            raise UsageError(f"Node {node!r} is there already; give the second one another name.")
        if node in (START, END) or any(char in _RESERVED for char in node) or not node:
            raise UsageError(f"{node!r} cannot be a node's name: START, END and names with ':' or '|' are reserved.")
        schema = input_schema if input_schema is not None else _annotated_schema(action)
        if schema is not None and schema not in self._schemas:
            self.channels = merge_channels([*self._schemas, schema])
            self._schemas.append(schema)
        policies = self._default_retry if retry_policy is None else _policies(retry_policy)
        where = destinations if destinations is not None else _destinations_of(action)
        view = None if schema in (None, self.state_schema) else view_of(schema)
        self.nodes[node] = node_from(node, action, view, retry=policies, metadata=metadata, destinations=where)
        return self

    def set_node_defaults(self, *, retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None) -> StateGraph:
        """What nodes added from here on get when they do not say otherwise."""
        self._default_retry = () if retry_policy is None else _policies(retry_policy)
        return self

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> StateGraph:
        """From one node to another; a list of starts means: when all of them have ended."""
        if isinstance(start_key, str):
            if start_key == END:
                raise UsageError("Nothing leads on from END.")
            if end_key == START:
                raise UsageError("Nothing leads to START.")
            self.edges.add((start_key, end_key))
        else:
            sources = frozenset(start_key)
            self.joins["+".join(sorted(sources)) + ">" + end_key] = (sources, end_key)
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[..., Any],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
    ) -> StateGraph:
        """After `source`, ask `path(state)` for the next node, a `Send`, or a list of them."""
        branch = Branch(path, path_map if path_map is not None else _literals_of(path))
        if any(known.name == branch.name and known.path is path for known in self.branches.get(source, ())):
            raise UsageError(f"Node {source!r} has a conditional edge {branch.name!r} already.")
        self.branches.setdefault(source, []).append(branch)
        return self

    def add_sequence(self, nodes: Iterable[Any]) -> StateGraph:
        """Add nodes, functions or `(name, function)`, one after the other."""
        names: list[str] = []
        for item in nodes:
            named = isinstance(item, tuple)
            pair = cast("tuple[str, Any]", item if named else (getattr(item, "name", None) or item.__name__, item))
            self.add_node(*pair)
            names.append(pair[0])
        if not names:
            raise UsageError("add_sequence needs at least one node.")
        for before, after in pairwise(names):
            self.add_edge(before, after)
        return self

    def set_entry_point(self, key: str) -> StateGraph:
        """`add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., Any], path_map: Mapping[Any, str] | Sequence[str] | None = None
    ) -> StateGraph:
        """`add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> StateGraph:
        """`add_edge(key, END)`."""
        return self.add_edge(key, END)

    def validate(self) -> StateGraph:
        """Check that the graph can begin and that every edge joins nodes that exist. Raises `UsageError`."""
        sources = [source for source, _ in self.edges] + list(self.branches)
        sources += [source for members, _ in self.joins.values() for source in members]
        targets = [target for _, target in self.edges] + [target for _, target in self.joins.values()]
        for branches in self.branches.values():
            targets += [target for branch in branches for target in (branch.path_map or {}).values()]
        for name, role in [(s, "starts at") for s in sources] + [(t, "leads to") for t in targets]:
            if name not in self.nodes and name not in (START, END):
                known = ", ".join(map(repr, self.nodes)) or "none"
                raise UsageError(
                    f"An edge {role} {name!r}, which is no node (nodes: {known}); add_node({name!r}, …) is missing."
                )
        if START not in sources:
            raise UsageError('The graph has no entry point: add_edge(START, "name of the first node").')
        return self

    def compile(
        self,
        checkpointer: Any = None,
        *,
        store: Any = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        debug: bool = False,
        name: str | None = None,
    ) -> CompiledStateGraph:
        """The graph, ready to run. It stops before and after the nodes named, "*" for each, until `invoke(None)`."""
        self.validate()
        return CompiledStateGraph(
            self.parts(),
            checkpointer=checkpointer,
            store=store,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            debug=debug,
            name=name or "LangGraph",
        )

    def parts(self) -> Parts:
        """What has been declared, in the form the engine runs."""
        ways: dict[str, list[str]] = {}
        for source, target in sorted(self.edges):
            ways.setdefault(source, []).append(target)
        nodes = {name: _wired(node, ways, self.branches) for name, node in self.nodes.items()}
        shared = self.channels if self._shared == self._schemas else merge_channels(self._shared)
        given = shared if self.input_schema is None else channels_of(self.input_schema)
        shown = shared if self.output_schema is None else channels_of(self.output_schema)
        state = self.state_schema
        return Parts(
            nodes=nodes,
            start=_wired(Node(START, _nothing), ways, self.branches),
            channels=self.channels,
            joins=dict(self.joins),
            output_keys=tuple(name for name, channel in shown.items() if channel.in_output),
            input_keys=frozenset(name for name, channel in given.items() if channel.in_input),
            shape=view_of(state)
            if hasattr(state, "model_validate") or hasattr(state, "__dataclass_fields__")
            else None,
            context_schema=self.context_schema,
            declares=(*self._schemas, self.context_schema, *self.declares),
        )


def _wired(node: Node, ways: Mapping[str, list[str]], branches: Mapping[str, list[Branch]]) -> Node:
    """A copy of a node with its edges; compiling again after a change leaves earlier graphs as they were."""
    wired = Node(
        node.name,
        node.run,
        retry=node.retry,
        metadata=node.metadata,
        destinations=node.destinations,
        subgraph=node.subgraph,
        tags=node.tags,
        hidden=node.hidden,
    )
    wired.edges = tuple(ways.get(node.name, ()))
    wired.branches = tuple(branches.get(node.name, ()))
    return wired


async def _nothing(_: Any) -> None:
    """START's work."""


def _policies(given: Any) -> tuple[RetryPolicy, ...]:
    """One policy or a list of them. Raises `UsageError` for anything else."""
    listed = tuple(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else (given,)
    for each in listed:
        if not isinstance(each, RetryPolicy):
            raise UsageError(f"retry_policy= takes RetryPolicy(max_attempts=3), or a list of such; got {each!r:.80}.")
    return cast("tuple[RetryPolicy, ...]", listed)


def _check_schema(schema: Any) -> None:
    """Refuse a class that names no key: its graph would keep nothing, and pass over all that it is given."""
    if isinstance(schema, type) and schema.__module__ in ("builtins", "collections", "typing"):
        raise UsageError(
            f"StateGraph({schema.__name__}) names no keys, so its state would stay empty. Write the keys down: "
            "class State(TypedDict): x: int, and StateGraph(State)."
        )


def _annotated_schema(action: Any) -> type[Any] | None:
    """The class that annotates the first parameter of a node's function, if it names keys of a state."""
    function: Any = action if hasattr(action, "__code__") else getattr(action, "__call__", None)  # noqa: B004
    try:
        names = [name for name in function.__code__.co_varnames if name != "self"]
        schema = get_type_hints(function).get(names[0])
        return cast("type[Any]", schema) if isinstance(schema, type) and fields_of(schema) else None
    except Exception:  # noqa: BLE001 - annotations that cannot be read say nothing
        return None


def _literals_of(path: Callable[..., Any]) -> list[str] | None:
    """Where a conditional edge can lead, if its annotation says so: `-> Literal["a", "b"]`."""
    try:
        answer = get_type_hints(path).get("return")
    except Exception:  # noqa: BLE001 - annotations are a hint for drawing, nothing depends on them
        return None
    words = [word for word in get_args(answer) if isinstance(word, str)]
    return words or None


def _destinations_of(action: Any) -> Sequence[str]:
    """Where a node's `Command` can lead, if its annotation says so: `-> Command[Literal["a", "b"]]`."""
    try:
        answer = get_type_hints(action).get("return")
    except Exception:  # noqa: BLE001 - annotations are a hint for drawing, nothing depends on them
        return ()
    if get_origin(answer) is not Command:
        return ()
    return [word for argument in get_args(answer) for word in get_args(argument) if isinstance(word, str)]
