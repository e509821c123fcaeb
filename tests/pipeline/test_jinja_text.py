"""The template language: indentation, blank lines, marks."""

from __future__ import annotations

import jinja2
import pytest

from tikgen.pipeline.jinja_text import folded, make_environment, reindent, split_marks

LOOPS = """\
#% macro nest(n)
for i in range({{ n }}):
    for j in range(2):
        {{ caller("i + j") }}
#% endmacro
{% macro element(i) %}x[{{ i }}]{% endmacro %}
"""


def rendered(text: str, **names: object) -> tuple[str, tuple[str, ...]]:
    environment = make_environment(jinja2.DictLoader({"main": text, "loops": LOOPS}))
    return split_marks(environment.get_template("main").render(**names))


def test_a_call_keeps_its_own_indentation_and_nests() -> None:
    text, _ = rendered(
        """\
#% from "loops" import nest, element
def f():
    #% call(k) nest(3)
    #% call(m) nest(
        n
    )
        y = {{ element(k) }} + {{ element(m) }}
    #% endcall
    if y:
        z = 1
    #% endcall
    return
""",
        n=5,
    )
    assert text == (
        "def f():\n"
        "    for i in range(3):\n"
        "        for j in range(2):\n"
        "            for i in range(5):\n"
        "                for j in range(2):\n"
        "                    y = x[i + j] + x[i + j]\n"
        "            if y:\n"
        "                z = 1\n"
        "    return\n"
    )


def test_a_value_alone_on_a_line_is_indented_and_removed_when_empty() -> None:
    text, _ = rendered(
        "def f():\n    {{ many }}\n    {{ empty }}\n    a = 1\n", many="if b:\n    c", empty=""
    )
    assert text == "def f():\n    if b:\n        c\n    a = 1\n"


def test_blank_lines_between_blocks_stay_and_runs_shrink_to_two() -> None:
    text, _ = rendered("\n\na\n#% if true\nb\n#% endif\n\n\nc\n\n\n\n\nd\n\n\n")
    assert text == "a\nb\n\n\nc\n\n\nd\n"


def test_marks_trace_every_line_to_its_template_line() -> None:
    text, places = rendered(
        '#% from "loops" import nest\na\n#% call(k) nest(3)\ny = {{ k }}\n#% endcall\n{{ v }}\n',
        v="p\nq",
    )
    assert dict(zip(text.splitlines(), places, strict=True)) == {
        "a": "main:2",
        "for i in range(3):": "loops:2",
        "    for j in range(2):": "loops:3",
        "        y = i + j": "main:4",
        "p": "main:6",
        "q": "main:6",
    }


def test_statements_continue_while_brackets_are_open_and_strings_hide_brackets() -> None:
    text, _ = rendered(
        "#% for a in [\n    1,\n    2\n]\n{{ a }}\n#% endfor\n#% set b = '('\n{{ b }}\n"
    )
    assert text == "1\n2\n(\n"


def test_undefined_names_are_errors() -> None:
    with pytest.raises(jinja2.UndefinedError, match="missing"):
        rendered("{{ missing }}\n")


def test_control_characters_of_the_marks_are_refused() -> None:
    with pytest.raises(ValueError, match="control characters"):
        rendered("a\x02b\n")


def test_reindent_drops_blank_ends_and_keeps_inner_structure() -> None:
    assert reindent("\n      a\n        b\n\n      c\n\n", 2) == "  a\n    b\n\n  c\n"
    assert reindent("", 4) == ""


@pytest.mark.parametrize(
    "code, less",
    [
        ("x.shape[1] - 1 - 1 - 1", "x.shape[1] - 3"),
        ("n - 0 - 1", "n - 1"),
        ("n - 3 + 3", "n"),
        ("n + 1 + 2", "n + 3"),
        ("n - 1 - 2 * m", "n - 1 - 2 * m"),
        ("n - 1 - 2 // 3", "n - 1 - 2 // 3"),
        ("n - 1 - 1.5", "n - 1 - 1.5"),
    ],
)
def test_constants_of_an_index_are_added_up(code: str, less: str) -> None:
    assert folded(code) == less
