"""JSON with comments is changed where it is ours, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.serve.install.entries import JSON, SyntaxFault

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
    "no such key": '{\n    "a": [1, 2],\n    "b": null\n}\n',
    "an empty object": '{\n  "mcpServers": {}\n}\n',
    "Windows lines": '{\r\n  "mcpServers": {\r\n    "other": 1\r\n  }\r\n}\r\n',
    "a note behind the last item": '{\n  "mcpServers": {\n    "a": 1 // note, with a comma\n  }\n}',
    "a marker of comments inside a text": '{\n  "url": "http://x/*", "b": "\\"//"\n}\n',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_put_in_and_taken_out_leaves_no_trace(text: str) -> None:
    had = "mcpServers" in JSON.data(text)
    put = JSON.put(text, ("mcpServers", "harken"), OURS)
    assert JSON.data(put)["mcpServers"]["harken"] == OURS
    assert JSON.drop(put, ("mcpServers", "harken") if had else ("mcpServers",)) == text


def test_what_stands_in_one_line_is_kept_too() -> None:
    text = '{"a": 1, "mcpServers": {"other": {}}}'
    put = JSON.put(text, ("mcpServers", "harken"), OURS)
    assert JSON.data(put) == {"a": 1, "mcpServers": {"harken": OURS, "other": {}}}
    assert JSON.data(JSON.drop(put, ("mcpServers", "harken"))) == JSON.data(text)


def test_comments_and_indentation_stay_as_they_are() -> None:
    put = JSON.put(COMMENTED, ("mcpServers", "harken"), OURS)
    kept, added = put.split('"harken": {')
    assert kept.endswith('"mcpServers": {\n\t\t')
    assert added.startswith('\n\t\t\t"command": "harken",\n')
    assert added.endswith('\n\t\t},\n\t\t"other": {"command": "x"}, // the only one\n\t},\n}\n')


@pytest.mark.parametrize("comma", ["", ","])
def test_hooks_of_others_keep_their_form_and_their_comments_where_ours_is_added(comma: str) -> None:
    others = '[\n    // mine\n    {"hooks": [{"command": "say"}]}COMMA // aloud\n  '
    text = f'{{\n  "Stop": {others.replace("COMMA", comma)}]\n}}\n'
    put = JSON.put(text, ("Stop",), [{"hooks": [{"command": "say"}]}, OURS])
    ours = '    {\n      "command": "harken",\n      "args": [\n        "mcp"\n      ]\n    }\n  '
    assert put == f'{{\n  "Stop": {others.replace("COMMA", ",").removesuffix("  ")}{ours}]\n}}\n'
    assert JSON.data(JSON.put('{"Stop": [1]}', ("Stop",), [1, 2])) == {"Stop": [1, 2]}


def test_a_value_is_replaced_where_it_stands() -> None:
    text = '{\n  "a": {"harken": 1}, // one\n  "b": 2\n}\n'
    assert JSON.put(text, ("a", "harken"), 5) == text.replace("1}", "5}")


def test_the_first_of_several_goes_and_the_others_stay() -> None:
    text = '{\n  "harken": 1,\n  // of the other\n  "other": 2\n}\n'
    assert JSON.drop(text, ("harken",)) == '{\n  // of the other\n  "other": 2\n}\n'


def test_the_last_goes_with_the_comma_before_it_and_comments_stay() -> None:
    text = '{\n  "other": 2, // of the other\n  "harken": 1 // ours\n}\n'
    left = JSON.drop(text, ("harken",))
    assert JSON.data(left) == {"other": 2}
    assert "// of the other\n" in left


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: "),
        ('{\n"a": }', "line 2: Expecting value"),
        ('{"a" 1}', "Expecting ':' delimiter"),
        ("{a: 1}", "property name enclosed in double quotes"),
        ('{"a": 1 "b": 2}', "Expecting ',' delimiter"),
        ("/* 1\n2 */ [1, // 3\n{]", "line 3: "),
        ("[1]", "no JSON object"),
        ("{} {}", "more than one"),
        ('{"a": "open}', "Unterminated string"),
        ("[" * 100_000, "too deeply"),
    ],
)
def test_a_broken_text_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(SyntaxFault, match=said):
        JSON.data(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 2, 4, "\t"]), VALUES)
def test_any_settings_come_back_as_they_were(settings: dict[str, Any], indent: Any, value: Any) -> None:
    settings.pop("harken", None)
    text = json.dumps(settings, indent=indent)
    put = JSON.put(text, ("harken", "inner"), value)
    assert json.loads(put) == {**settings, "harken": {"inner": value}}
    left = JSON.drop(put, ("harken",))
    assert json.loads(left) == settings
    assert left == text or indent is None
