"""What messages say of common mistakes: what was given, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen import errors
from tikgen.template import written_rules

made: Any = tikgen  # Calls are wrong on purpose.

WRONG: dict[str, tuple[type[Exception], Callable[[], object], str]] = {
    "a text as a tree": (
        errors.ExpressionError,
        lambda: made.Expression("x +"),
        r"tikgen.Expression.parse\(text\) reads a text",
    ),
    "nothing as assignments": (
        errors.ExpressionError,
        lambda: made.Assignments(None),
        r"tikgen.Assignments.parse\(text\) reads a text",
    ),
    "a dtype": (errors.ConversionError, lambda: tikgen.DType("foo"), "'foo' is not one of i8, i16"),
    "an identifier": (errors.ConversionError, lambda: tikgen.Identifier("a b"), "plain identifier"),
    "a dict of nothing": (
        errors.ParameterError,
        lambda: made.update({}),
        "takes a text, or equations of SymPy: an Eq, or a list or a dict|is empty",
    ),
    "texts in a list": (
        errors.ParameterError,
        lambda: made.build("update", equations=["u' = u"]),
        "takes a text, or equations of SymPy|is no equation",
    ),
    "two primes": (
        errors.ParameterError,
        lambda: tikgen.update("u'' = u"),
        "a next value has one prime, as in u'",
    ),
    "a corner beside a centre": (
        errors.ParameterError,
        lambda: tikgen.update("u' = u + c", dim=2, at={"c": "corner"}),
        r"values at the corner; take the average of one of them, as in avgx\(avgy\(u\)\)",
    ),
    "a template as a folder": (
        errors.TemplateError,
        lambda: tikgen.load_template("map"),
        r"there is no folder .*; build\('map'\) takes the known template",
    ),
    "no folder": (errors.TemplateError, lambda: tikgen.load_template(""), "path of a folder"),
    "a folder as a template": (
        errors.TemplateError,
        lambda: made.render(Path("mine")),
        r"'mine': is a path: build\(load_template\(path\)\) takes those",
    ),
    "no template": (
        errors.UnknownTemplate,
        lambda: made.build(None),
        "There is no template None. Its name is a text",
    ),
    "an arch": (
        errors.ParameterError,
        lambda: tikgen.build("map", expr="y = x", arch="tpu"),
        "'arch' takes cpu, cuda or vulkan; got 'tpu'",
    ),
    "a file to eject into": (
        errors.ParameterError,
        lambda: tikgen.build("map", expr="y = x").eject("mine.py"),
        "'arch' takes cpu, cuda or vulkan; got 'mine.py'. It returns the text of a file",
    ),
    "an engine of a verification": (
        errors.ParameterError,
        lambda: tikgen.verify("map", engine="foo"),
        "'engine' takes default, taichi, direct-cpu or direct-cuda; got 'foo'",
    ),
    "two arguments that are missing": (
        errors.ArgumentError,
        lambda: tikgen.build("map", expr="y = x").bind(),
        "arguments x, y are missing",
    ),
    "a text as vectors": (
        errors.ParameterError,
        lambda: tikgen.update("u' = u", vectors="v"),
        "'vectors' takes None, or a dict from an identifier to an integer; got 'v'",
    ),
    "another axis": (
        errors.ParameterError,
        lambda: tikgen.build("reduce", dim=3, axis=5),
        "'axis' takes 0, 1, 2 or None; got 5",
    ),
    "a rule beyond a layer": (
        errors.InvalidValue,
        lambda: tikgen.absorbing(5, beyond="foo"),
        "'beyond' takes the rule of a side without layer, such as 'zero'; got 'foo'",
    ),
    "a slope": (
        errors.InvalidValue,
        lambda: written_rules.neumann(float("nan")),
        "'slope' takes a finite number, or .*; got nan",
    ),
    "a text without its import": (
        errors.RenderError,
        lambda: tikgen.from_string("@ti.kernel\ndef f():\n    pass\n"),
        "name 'ti' is not defined; import it in the text: import taichi as ti",
    ),
    "a shape of a sweep": (
        errors.ParameterError,
        lambda: made.sweep("map", shape="x", expr="y = x"),
        "'shape' is 'x'; it takes the size of each axis",
    ),
    "a module of an empty loader": (
        errors.UnknownId,
        lambda: tikgen.live.Loader()["q"],
        "'q' is not loaded. Nothing is loaded yet",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_told_with_what_is_right(name: str) -> None:
    kind, act, told = WRONG[name]
    with pytest.raises(kind, match=told) as caught:
        act()
    assert isinstance(caught.value, tikgen.TikgenError)


def test_arrays_that_do_not_fit(ti_arch: str) -> None:
    kernel, x = tikgen.build("map", expr="y = x"), np.zeros(4, np.float32)
    with pytest.raises(errors.ArgumentError, match=r"takes 1 axis \(n0,\); got shape \(1, 4\)"):
        kernel.bind(x[None], x[None])
    top = tikgen.build("map", expr="y = x; top = max(max(x, y), 0)")
    is_written = r"; got \(1,\); a reduction .* as in top = max\(max\(max\(x, y\), 0\)\)"
    with pytest.raises(errors.ArgumentError, match=is_written):
        top.bind(x, x.copy(), x[:1])
    top = tikgen.update("u' = u; top = max(max(u, u'), 0)", dim=2)
    with pytest.raises(errors.ArgumentError, match=r"; a .*top = max\(max\(max\(u, u'\), 0\)\)"):
        top.bind(u=x[None], u_next=x[None].copy(), top=x[:1])
    with pytest.raises(errors.ArgumentError, match="'y' is read-only, and the kernel writes to it"):
        kernel.bind(x, np.broadcast_to(np.float32(1), (4,)))


def test_dtypes_are_made_of_the_types_of_numpy_and_taichi() -> None:
    assert tikgen.DType(np.float32) is tikgen.DType("float32") is tikgen.DType.f32  # type: ignore[arg-type]


def test_far_names_are_not_suggested() -> None:
    assert errors.near("axes", ["lanes", "perm"]) == errors.near("foo", ["loop"]) == ""
    assert errors.near("output", ["in", "out"]) == " Did you mean 'out'?"
