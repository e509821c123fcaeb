"""docs/security.md: each test that it names exists; and what holds for tikgen as a whole."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import tikgen
from conftest import built_in_templates
from tikgen import ring
from tikgen.errors import ParameterError, TikgenError
from tikgen.ring.errors import MessageDeserializationError
from tikgen.ring.messages.wire import decode, encode
from tikgen.template.catalogue import find_template

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
PACKAGE = Path(tikgen.__file__).parent
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)

CODE = [
    "__import__('os').system('false')",
    "x.__class__",
    "x; import os",
    "x\nimport os",
    "(lambda: x)()",
    "[x for x in y]",
    "x if x else (y := 1)",
    "f'{x}'",
    "exec('x')",
    "{{ 7 * 7 }}",
    "#% import os",
    '""" + x',
    "x # comment\\\n",
]
# What templates need to be built at all.
NEEDED: dict[str, dict[str, Any]] = {
    "map": {"expr": "out = x + 1"},
    "update": {"equations": "u' = lap(u)"},
    "ring": {"handler": "y = x", "inputs": {"x": "f32"}, "outputs": {"y": "f32"}},
}


def test_each_test_that_the_page_names_exists() -> None:
    assert len(NAMED) > 20
    for file, name in NAMED:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in known, f"{file}::{name}"


def test_each_line_of_what_never_runs_names_a_test() -> None:
    rules = PAGE.partition("| the rule |")[2]
    lines = [line for line in rules.splitlines() if line.startswith("| ")]
    for line in lines:
        is_head = set(line) <= set("| -") or line.endswith("| its test |")
        assert is_head or re.search(r"`tests/[\w/]+\.py::\w+` \|$", line), line


def called(tree: ast.AST) -> dict[str, list[ast.Call]]:
    """Return the calls of a file by what is called, such as ``np.load``."""
    found: dict[str, list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            inner, name = node.func, ""
            while isinstance(inner, ast.Attribute):
                inner, name = inner.value, f".{inner.attr}{name}"
            whole = f"{inner.id}{name}" if isinstance(inner, ast.Name) else name
            found.setdefault(whole, []).append(node)
    return found


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


# Lines that a process of tikgen's own wrote, and repr() of its own values.
_OWN_LINES = {"untrusted.py", "case.py", "job.py", "eject_functions.py"}


def test_nothing_is_unpickled() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not imported(tree) & {"pickle", "cPickle", "dill", "marshal", "shelve"}, path
        calls = called(tree)
        if path.name != "untrusted.py":
            assert not any(name.startswith("yaml.") and "load" in name for name in calls), path
            assert not calls.keys() & {"tomllib.loads", "tomli.loads"}, path
        if path.name not in _OWN_LINES:
            assert not calls.keys() & {"ast.literal_eval", "literal_eval"}, path
        for call in calls.get("np.load", ()):
            options = {keyword.arg: keyword.value for keyword in call.keywords}
            allowed = options.get("allow_pickle", ast.Constant(False))
            assert isinstance(allowed, ast.Constant), path
            assert allowed.value is False, path


@pytest.mark.parametrize("name", sorted(built_in_templates()))
def test_no_parameter_of_any_template_takes_code(name: str) -> None:
    template = find_template(name)
    for parameter in (*template.Problem.model_fields, *template.Schedule.model_fields):
        for text in CODE:
            with pytest.raises(ParameterError) as caught:
                tikgen.build(name, arch="cpu", **NEEDED.get(name, {}) | {parameter: text})
            assert caught.value.parameter == parameter


@pytest.mark.parametrize("text", CODE)
def test_no_expression_takes_code(text: str) -> None:
    for expression in (text, f"out = {text}", f"out = x + {text}"):
        with pytest.raises(TikgenError):
            tikgen.build("map", expr=expression, arch="cpu")


@ring.message
class _Any:
    value: Any = None


def test_deep_and_large_messages_are_refused() -> None:
    whole = encode(_Any(value=[1]))
    assert decode(whole, _Any).value == [1]
    head = whole.partition(b"\x91\x01")[0]
    huge = (b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\xc9\xff\xff\xff\xff\x01")
    for rest in (b"\x91" * 1_000_000, *huge):
        for data in (head + rest, rest):
            with pytest.raises(MessageDeserializationError):
                decode(data, _Any)
