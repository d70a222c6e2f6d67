"""Pictures of graphs, as they are printed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from loopwright.graph.draw import Edge, Graph, Node

AGENT = Graph(
    ["__start__", "model", "tools", "__end__"],
    [
        ("__start__", "model"),
        ("model", "tools", None, True),
        ("model", "__end__", None, True),
        ("tools", "model", None, True),
    ],
)

PLAN = Graph(
    ["__start__", "plan", "a", "b", "join", "__end__"],
    [
        ("__start__", "plan"),
        ("plan", "a"),
        ("plan", "b"),
        ("a", "join"),
        ("b", "join"),
        ("b", "b", None, True),
        ("join", "plan", "again", True),
        ("join", "__end__", "done", True),
    ],
)


def test_nodes_and_edges_are_what_was_added():
    graph = Graph()
    graph.add_node("a", "first", data=len, metadata={"k": 1})
    graph.add_node("outer:b")
    graph.add_edge("a", "outer:b", "go", conditional=True)

    assert graph.nodes == {"a": Node("a", "first", len, {"k": 1}), "outer:b": Node("outer:b", "b")}
    assert graph.edges == [Edge("a", "outer:b", "go", True)]
    assert repr(graph) == "Graph(nodes=['a', 'outer:b'], edges=[('a', 'outer:b')])"


def test_ready_made_nodes_are_taken_as_they_are():
    assert Graph([Node("a", "A")]).nodes == {"a": Node("a", "A")}


def test_to_json_is_plain_and_leaves_out_what_is_empty():
    graph = Graph(["a", "b"], [("a", "b"), ("b", "a", "back", True)])
    graph.add_node("c", data=len, metadata={"k": 1})

    assert graph.to_json() == {
        "nodes": [
            {"id": "a", "name": "a"},
            {"id": "b", "name": "b"},
            {"id": "c", "name": "c", "metadata": {"k": 1}},
        ],
        "edges": [
            {"source": "a", "target": "b"},
            {"source": "b", "target": "a", "data": "back", "conditional": True},
        ],
    }


def test_mermaid_of_an_agent():
    assert AGENT.draw_mermaid() == snapshot("""\
graph TD
    __start__(["__start__"]):::first
    model("model")
    tools("tools")
    __end__(["__end__"]):::last
    __start__ --> model
    model -.-> tools
    model -.-> __end__
    tools -.-> model
    classDef default fill:#f4f4fb,stroke:#6b6b9e,color:#222222
    classDef first fill-opacity:0
    classDef last fill:#d5d5ee
""")


def test_mermaid_labels_conditional_edges():
    assert PLAN.draw_mermaid(with_styles=False) == snapshot("""\
graph TD
    __start__(["__start__"])
    plan("plan")
    a("a")
    b("b")
    join("join")
    __end__(["__end__"])
    __start__ --> plan
    plan --> a
    plan --> b
    a --> join
    b --> join
    b -.-> b
    join -.->|"again"| plan
    join -.->|"done"| __end__
""")


def test_mermaid_escapes_what_it_would_read_as_its_own():
    graph = Graph(
        ["__start__", "end", "my agent.before_model", "my_agent_before_model", "9", "日本", ""],
        [("__start__", "end"), ("end", "9", 'say "hi" <b> #1 `x`\nthere'), ("9", "ghost node")],
    )

    assert graph.draw_mermaid(with_styles=False) == snapshot("""\
graph TD
    __start__(["__start__"])
    n_end("end")
    my_agent_before_model("my agent.before_model")
    my_agent_before_model_2("my_agent_before_model")
    n_9("9")
    __("日本")
    n_("")
    __start__ --> n_end
    n_end -->|"say #quot;hi#quot; #lt;b#gt; #35;1 #96;x#96; there"| n_9
    n_9 --> ghost_node
""")


def test_mermaid_frames_nested_graphs():
    graph = Graph(
        ["__start__", "outer:x", "outer:in:q", "outer:y", "other:x"],
        [("__start__", "outer:x"), ("outer:x", "outer:in:q"), ("outer:in:q", "other:x")],
    )

    assert graph.draw_mermaid(with_styles=False) == snapshot("""\
graph TD
    __start__(["__start__"])
    subgraph frame_outer_["outer"]
        outer_x("x")
        subgraph frame_outer_in_["in"]
            outer_in_q("q")
        end
        outer_y("y")
    end
    subgraph frame_other_["other"]
        other_x("x")
    end
    __start__ --> outer_x
    outer_x --> outer_in_q
    outer_in_q --> other_x
""")


def test_ascii_of_an_agent():
    assert AGENT.draw_ascii() == snapshot("""\
      +-----------+
      | __start__ |
      +-----------+
            |
            +.............+
            v             :
        +-------+         :
        | model |         :
        +-------+         :
            :             :
    +.......+.....+       :
    v             v       :
+-------+    +---------+  :
| tools |    | __end__ |  :
+-------+    +---------+  :
    :                     :
    +.....................+
""")


def test_ascii_of_an_agent_without_tools_is_a_straight_line():
    graph = Graph(["__start__", "model", "__end__"], [("__start__", "model"), ("model", "__end__")])

    assert graph.draw_ascii() == snapshot("""\
+-----------+
| __start__ |
+-----------+
      |
      v
  +-------+
  | model |
  +-------+
      |
      v
 +---------+
 | __end__ |
 +---------+
""")


def test_ascii_of_forks_joins_and_two_loops():
    assert PLAN.draw_ascii() == snapshot("""\
 +-----------+
 | __start__ |
 +-----------+
       |
       +............+
       v            :
   +------+         :
   | plan |         :
   +------+         :
       |            :
  +----+----+       :
  |         +....+  :
  v         v    :  :
+---+     +---+  :  :
| a |     | b |  :  :
+---+     +---+  :  :
  |         :    :  :
  +----+    +....+  :
       +----+       :
       v            :
   +------+         :
   | join |         :
   +------+         :
       :            :
       +............+
       v
  +---------+
  | __end__ |
  +---------+
""")


def test_ascii_of_edges_that_skip_rows():
    graph = Graph(
        ["__start__", "guard.before_model", "model", "guard.after_model", "tools", "__end__"],
        [
            ("__start__", "guard.before_model"),
            ("guard.before_model", "model", None, True),
            ("guard.before_model", "__end__", None, True),
            ("model", "guard.after_model"),
            ("guard.after_model", "tools", None, True),
            ("guard.after_model", "__end__", None, True),
            ("tools", "guard.before_model", None, True),
        ],
    )

    assert graph.draw_ascii() == snapshot("""\
            +-----------+
            | __start__ |
            +-----------+
                  |
                  +.............+
                  v             :
       +--------------------+   :
       | guard.before_model |   :
       +--------------------+   :
                  :             :
             +....+...+         :
             v        :         :
         +-------+    :         :
         | model |    :         :
         +-------+    :         :
             |        :         :
          +--+        +...+     :
          v               :     :
+-------------------+     :     :
| guard.after_model |     :     :
+-------------------+     :     :
          :               :     :
       +..+..........+    :     :
       :             +....+     :
       v             v          :
   +-------+    +---------+     :
   | tools |    | __end__ |     :
   +-------+    +---------+     :
       :                        :
       +........................+
""")


def test_ascii_of_parts_that_are_not_connected():
    assert Graph(["a", "b"], [("a", "nobody")]).draw_ascii() == snapshot("""\
+---+     +---+
| a |     | b |
+---+     +---+
""")


def test_ascii_of_nothing():
    assert Graph().draw_ascii() == ""


def test_print_ascii_prints_it(capsys):
    AGENT.print_ascii()

    assert capsys.readouterr().out == AGENT.draw_ascii() + "\n"


def test_pictures_as_images_are_not_offered():
    with pytest.raises(AttributeError):
        AGENT.draw_mermaid_png()  # pyright: ignore[reportAttributeAccessIssue]


names = st.lists(st.text("abc_. :", min_size=1, max_size=6), min_size=1, max_size=7, unique=True)


@given(names, st.data())
def test_any_graph_can_be_drawn(nodes, data):
    """Every box is there whole, no line hangs over, and Mermaid gets one unambiguous id for each node."""
    some = st.sampled_from(nodes)
    edges = data.draw(st.lists(st.tuples(some, some, st.none(), st.booleans()), max_size=12))
    graph = Graph(nodes, edges)

    drawing = graph.draw_ascii()
    mermaid = graph.draw_mermaid()

    for node in nodes:
        assert f"| {node} |" in drawing
    assert all(line == line.rstrip() for line in drawing.splitlines())
    assert mermaid.startswith("graph TD\n")
    ids = re.findall(r"^ +(\w+)\(", mermaid, re.MULTILINE)
    assert len(set(ids)) == len(nodes)
