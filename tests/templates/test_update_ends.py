"""The ends of rows and the rows at faces of equations that are too long for a text of their own."""

from __future__ import annotations

import ast
import random
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tikgen
from comparing import assert_near
from conftest import ARCH
from some_cases import examples

LONG = "u' = u + dx(c*dx(u)) + dy(c*dy(u)) + u**3 - 2*u*c + c**2"
TEXTS: list[tuple[str, dict[str, Any]]] = [
    (LONG, {"order": 4}),
    (LONG + "; s = sum(u'*c); h = max(u')", {"order": 4}),
    ("u' = u + lap(u) + dxy(u)*v; v' = v - lap(v) + u*v", {"order": 6}),
    ("q = 2*u - q + c*(lap(u) + dxy(c) + dxx(u*c)) + u**2*c", {"order": 6}),
    ("r = dx(u, along=c) + dy(u, along=c); u' = u - r*c + lap(u*c)*r + lap(c)", {"order": 6}),
    ("u' = lap(u)*c + dx(u)*dy(c) + i - j", {"order": 8, "types": {"c": "f16"}}),
    (LONG + " + dz(c*dz(u))", {"dim": 3, "order": 4}),
    ("u' = u + lap(u*c) + dz(c*u)*dx(u) - dy(u)*u; w = u*c*u' + u", {"dim": 3, "order": 6}),
    ("u' = u - lap(u)*lap(c) + 3*u*c; s = sum(u')", {"dim": 3, "order": 6}),
    # Few operations: at faces, rows outside are chosen where they are read.
    ("v' = v + lap(u)", {"dim": 3, "order": 8}),
    ("v = v + lap(u) + dyz(u)", {"dim": 3, "order": 8}),
]
LINE: tuple[str, dict[str, Any]] = ("v' = v + lap(u); w = u[2]", {"dim": 1})
RULES = ("periodic", "zero", "clamp", "reflect", "antireflect", "symmetric", "antisymmetric")
NUMBERED = (tikgen.dirichlet(1.5), tikgen.neumann(-0.5), tikgen.dirichlet(0.5, at="wall"))


@st.composite
def boundaries(draw: st.DrawFn, dim: int) -> Any:
    """Return a rule for each side, or an array over the faces of one axis."""
    found: dict[str, Any] = {}
    for letter in "xyz"[:dim]:
        low = draw(st.sampled_from((*RULES, *NUMBERED)))
        if low == "periodic":
            found[letter] = low
        else:
            others = st.sampled_from((*RULES[1:], *NUMBERED))
            found |= {f"{letter}-": low, f"{letter}+": draw(others)}
    if draw(st.booleans()):
        letter = draw(st.sampled_from("xyz"[:dim]))
        found = {side: rule for side, rule in found.items() if side[0] != letter}
        found[letter] = tikgen.dirichlet("over_face")
    return found


@pytest.mark.skipif(ARCH != "cpu", reason="real functions belong to cpu")
@pytest.mark.parametrize(("text", "params"), TEXTS, ids=str)
@settings(max_examples=examples(2, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_long_and_short_rows_agree_with_numpy(
    text: str, params: dict[str, Any], ti_arch: str, data: Any
) -> None:
    params = {"dim": 2} | params
    dim = params["dim"]
    rows = data.draw(st.sampled_from((8, 16, 32)))
    boundary = data.draw(boundaries(dim))
    kernel = tikgen.update(text, **params, boundary=boundary, row_buffer=rows)
    assert "patch_" in str(kernel.source)
    for _ in range(3):
        more = data.draw(st.integers(0, 40))
        shape = (*(data.draw(st.integers(1, 9)) for _ in range(dim - 1)), rows + more)
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        values = {}
        for argument in kernel.signature.arguments:
            own = shape
            if argument.name == "over_face":
                axis = next(a for a, x in enumerate("xyz") if x in boundary and over(boundary, x))
                own = shape[:axis] + shape[axis + 1 :]
            elif argument.shape == (1,):
                own = (1,)
            values[argument.name] = rng.uniform(-1, 1, own).astype(argument.dtype.numpy)
        before = {name: value.copy() for name, value in values.items()}
        kernel(**values)
        assert_near(kernel, before, values)


def over(boundary: dict[str, Any], letter: str) -> bool:
    """Return whether an axis has an array over its faces."""
    return bool(boundary[letter] == tikgen.dirichlet("over_face"))


@pytest.mark.some
@pytest.mark.parametrize("arch", ["cpu", "cuda"])
@pytest.mark.parametrize("boundary", ["periodic", "zero"])
@pytest.mark.parametrize(("text", "params"), [*TEXTS, ("v = v + lap(u)", {}), LINE], ids=str)
def test_generated_code_makes_room_for_names_of_users(
    text: str, params: dict[str, Any], boundary: str, arch: str
) -> None:
    params = {"dim": 2, "boundary": boundary, "arch": arch} | params
    if params["dim"] == 1 and arch == "cuda":
        params |= {"items": 4, "block_dim": 64}
    tree = ast.parse(tikgen.render("update", equations=text, **params).text)
    known = {"_", "i", "j", "k", "ii", "jj", "kk"} | set(re.findall("[a-z]+", text))
    stored = set()
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and "u" in {a.arg for a in function.args.args}:
            known |= {a.arg for a in function.args.args}
            names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
            stored |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    assert len(stored) > 4
    names_of_ours = sorted(stored - known)
    for name in random.sample(names_of_ours, examples(len(names_of_ours), 2)):
        renamed = re.sub(r"\bu\b", name, text)
        rendered = ast.parse(tikgen.render("update", equations=renamed, **params).text)
        for function in (f for f in rendered.body if isinstance(f, ast.FunctionDef)):
            taken = {a.arg for a in function.args.args}
            assert name in taken or not taken & {"v", "u_next"}, name
            names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
            assert not taken & {n.id for n in names if isinstance(n.ctx, ast.Store)}, name


def test_a_long_row_is_not_asked_again_whether_it_is_long() -> None:
    source = tikgen.render(
        "update",
        equations="u = u + lap(v*w) + lap(v*v) + where(dz(v, along=v) > 0.3, v, dz(w, along=v))",
        dim=3,
        order=4,
        boundary="antisymmetric",
        schedule={"loop": "function", "row_buffer": 128},
        arch="cpu",
    )
    (asked,) = [line.strip() for line in source.text.splitlines() if "if row >=" in line]
    assert asked == "if row >= 136 and u.shape[0] > 2 and u.shape[1] > 2:"


@pytest.mark.skipif(ARCH != "cpu", reason="real functions belong to cpu")
@pytest.mark.parametrize(("text", "params"), [TEXTS[0], TEXTS[2], TEXTS[6]], ids=str)
def test_what_never_holds_is_not_copied(
    text: str, params: dict[str, Any], ti_arch: str, rng: np.random.Generator
) -> None:
    lines = "\n    ".join(text.split("; "))
    params = {"dim": 2, "boundary": "clamp", "row_buffer": 8} | params
    kernel = tikgen.update(f"r = 0.25\nwhere r > 1:\n    {lines}", **params)
    # Taichi crashes where it compiles arrays that are filled on two ways and not read.
    assert "patch_" not in str(kernel.source)
    shape = (3,) * (params["dim"] - 1) + (50,)
    values = {name: rng.uniform(-1, 1, shape).astype("f4") for name in kernel.signature.names}
    kernel(**values)
    assert (values["u_next"] == values["u"]).all()
