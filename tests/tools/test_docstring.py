"""What is read of docstrings in Google's, NumPy's and reST's way of writing."""

import textwrap

import pytest
from inline_snapshot import snapshot

from loopwright.errors import ToolDefinitionError
from loopwright.tools import tool
from loopwright.tools.docstring import clean, parse_docstring


def parsed(text: str):
    return tuple(parse_docstring(textwrap.indent(textwrap.dedent(text), "    ").strip()))


def test_google():
    assert parsed(
        """Find pages.

        Args:
            query (str): Words to look for,
                in any order.
            limit (int, optional): How many. Default: 5.
            **options: Passed on.
            a, b: Two at once.

        Returns:
            Pages.
        """
    ) == snapshot(
        (
            "Find pages.",
            {
                "query": "Words to look for, in any order.",
                "limit": "How many. Default: 5.",
                "options": "Passed on.",
                "a": "Two at once.",
                "b": "Two at once.",
            },
        )
    )


def test_numpy():
    assert parsed(
        """Find pages.

        More about it.

        Parameters
        ----------
        query : str
            Words to look for,
            in any order.
        limit : int, optional
            How many.

        Returns
        -------
        list
            Pages.
        """
    ) == snapshot(
        ("Find pages.\n\nMore about it.", {"query": "Words to look for, in any order.", "limit": "How many."})
    )


def test_rest():
    assert parsed(
        """Find pages.

        :param str query: Words to look for,
            in any order.
        :param limit: How many.
        :type limit: int
        :returns: Pages.
        :raises ValueError: Never.
        """
    ) == snapshot(("Find pages.", {"query": "Words to look for, in any order.", "limit": "How many."}))


def test_epytext():
    assert parsed("""Find.\n\n@param query: Words.\n@return: Pages.""") == ("Find.", {"query": "Words."})


def test_B79_google_with_two_paragraphs():
    """Both paragraphs are the description."""
    assert parsed(
        """Find pages.

        It knows only pages
        of this site.

        Args:
            query: Words.
        """
    ) == ("Find pages.\n\nIt knows only pages\nof this site.", {"query": "Words."})


def test_B82_other_sections_do_not_leak():
    """`Raises`, `Note` and `Yields` are for people who read the code, wherever they stand."""
    assert parsed(
        """Find pages.

        Raises:
            ValueError: If there is no query.

        Args:
            query: Words.

        Note:
            Slow.

        Yields:
            Pages.

        Afterthought.
        """
    ) == ("Find pages.", {"query": "Words."})


@pytest.mark.parametrize(
    "text",
    [
        "Note: mind the gap.\nIt is wide.",
        "Use it so.\n\nExamples:\n- one\n- two",
        "Takes a ratio like 3:4.\n\nThe rest: nothing.",
    ],
)
def test_prose_with_colons_stays(text):
    """A section is a name alone on its line with something indented below it."""
    assert parsed(text) == (text, {})


def test_types_with_colons_and_lines_that_are_no_entry():
    assert parsed(
        """Sum.

        Args:
            table (dict[str: int]): Numbers.
            a sentence that is no entry
            last:
        """
    ) == ("Sum.", {"table": "Numbers."})


def test_empty_and_odd_ones():
    assert [parse_docstring(text) for text in (None, "", "  ", ":param x: words")] == [("", {})] * 4
    assert parsed("Args:\nReturns:\n    x") == ("", {})
    assert parsed("Parameters\n----------\nx : int\n    Words.\n\n:returns: y") == ("", {"x": "Words."})


def test_clean_takes_indentation_and_edges():
    assert clean("First.\n\n        Second.\n          Third.\n        ") == "First.\n\nSecond.\n  Third."


def test_B81_no_arguments_and_one_line():
    @tool
    def now() -> str:
        """What time it is."""
        return "noon"

    assert now.description == "What time it is."


def test_whole_docstring_when_not_parsed():
    @tool(parse_docstring=False)
    def find(query: str) -> str:
        """Find pages.

        Args:
            query: Words.
        """
        return query

    assert find.description == "Find pages.\n\nArgs:\n    query: Words."
    assert find.json_schema["properties"] == {"query": {"type": "string"}}


def test_docstring_of_other_parameters_is_refused_on_request():
    def find(query: str) -> str:  # noqa: D417
        """Find pages.

        Args:
            words: Words.
        """
        return query

    assert tool(find).invoke("x") == "x"
    with pytest.raises(ToolDefinitionError, match="describes words, which the function does not take"):
        tool(error_on_invalid_docstring=True)(find)
