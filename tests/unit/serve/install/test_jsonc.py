"""JSON with comments is changed where it is ours, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.serve.install import jsonc
from harken.serve.install.entries import SyntaxFault

OURS = {"command": "harken", "args": ["mcp"]}

COMMENTED = """\
// Settings of a person who writes comments.
{
\t"theme": "dark", // like the night
\t/* servers */
\t"mcpServers": {
\t\t"other": {"command": "x"}, // the only one
\t},
}
"""

TEXTS = {
    "comments and commas at the end": COMMENTED,
    "nothing in it": "{}",
    "one line": '{"a": 1, "mcpServers": {"other": {}}}',
    "no such key": '{\n    "a": [1, 2],\n    "b": null\n}\n',
    "an empty object": '{\n  "mcpServers": {}\n}\n',
    "Windows lines": '{\r\n  "mcpServers": {\r\n    "other": 1\r\n  }\r\n}\r\n',
    "a note behind the last item": '{\n  "mcpServers": {\n    "a": 1 // note, with a comma\n  }\n}',
    "a marker of comments inside a text": '{\n  "url": "http://x/*", "b": "\\"//"\n}\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_put_in_and_taken_out_leaves_no_trace(text: str) -> None:
    had = "mcpServers" in jsonc.data(text)
    put = jsonc.put(text, ("mcpServers", "harken"), OURS)
    assert jsonc.data(put)["mcpServers"]["harken"] == OURS
    assert jsonc.drop(put, ("mcpServers", "harken") if had else ("mcpServers",)) == text


def test_comments_and_indentation_stay_as_they_are() -> None:
    put = jsonc.put(COMMENTED, ("mcpServers", "harken"), OURS)
    kept, added = put.split('"harken": {')
    assert kept.endswith('{"command": "x"}, // the only one\n\t\t')
    assert '\n\t\t\t"command": "harken",\n' in added
    assert added.endswith("\n\t\t},\n\t},\n}\n")


def test_a_value_is_replaced_where_it_stands() -> None:
    text = '{\n  "a": {"harken": 1}, // one\n  "b": 2\n}\n'
    assert jsonc.put(text, ("a", "harken"), 5) == text.replace("1}", "5}")


def test_the_first_of_several_goes_and_the_others_stay() -> None:
    text = '{\n  "harken": 1,\n  // of the other\n  "other": 2\n}\n'
    assert jsonc.drop(text, ("harken",)) == '{\n  // of the other\n  "other": 2\n}\n'


def test_only_the_unwanted_of_a_list_go() -> None:
    text = '{"hooks": {"Stop": [1, 2, 3, 2]}}'
    assert jsonc.data(jsonc.drop_from(text, ("hooks", "Stop"), lambda value: value == 2)) == {"hooks": {"Stop": [1, 3]}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "missing"),
        ('{\n"a": }', "line 2: a value"),
        ('{"a" 1}', "':' is missing"),
        ("{a: 1}", "a key in quotes"),
        ('{"a": 1 "b": 2}', "',' or '}'"),
        ("[1]", "no JSON object"),
        ("{} {}", "more than one"),
        ('{"a": "open}', "no end"),
        ("[" * 5000, "too deeply"),
    ],
)
def test_a_broken_text_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(SyntaxFault, match=said):
        jsonc.parse(text)


def test_something_else_at_our_place_is_not_overwritten() -> None:
    with pytest.raises(SyntaxFault, match="'mcpServers' is not an object"):
        jsonc.put('{"mcpServers": []}', ("mcpServers", "harken"), OURS)
    with pytest.raises(SyntaxFault, match=r"'hooks.Stop' is not a list"):
        jsonc.add('{"hooks": {"Stop": {}}}', ("hooks", "Stop"), OURS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 2, 4, "\t"]), VALUES)
def test_any_settings_come_back_as_they_were(settings: dict[str, Any], indent: Any, value: Any) -> None:
    settings.pop("harken", None)
    text = json.dumps(settings, indent=indent)
    put = jsonc.put(text, ("harken", "inner"), value)
    assert json.loads(put) == {**settings, "harken": {"inner": value}}
    assert jsonc.drop(put, ("harken",)) == text
    added = jsonc.add(text, ("harken",), value)
    assert json.loads(added) == {**settings, "harken": [value]}
    assert jsonc.drop(added, ("harken",)) == text
