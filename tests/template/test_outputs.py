"""What a reference may return."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.errors import TemplateError
from tikgen.template.outputs import in_order


def test_a_dict_is_taken_by_name_and_a_tuple_in_order() -> None:
    assert in_order("t", ("u", "v"), {"v": 2, "u": 1}) == (1, 2)
    assert in_order("t", ("u", "v"), (1, 2)) == (1, 2)
    assert in_order("t", ("u",), 1) == in_order("t", ("u",), {"u": 1}) == (1,)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ({"u": 1}, "a dict that lacks 'v'; it must return u, v: a tuple in that order, or a dict"),
        ({"u": 1, "v": 2, "w": 3}, "a dict that has 'w', which is no output"),
        ({"w": 3, "v": 2}, "a dict that lacks 'u' and has 'w', which is no output"),
        (1, "returns 1 array, not 2; it must return u, v: a tuple in that order"),
        ((1, 2, 3), "returns 3 arrays, not 2"),
    ],
)
def test_what_is_missing_or_unknown_is_named(found: object, problem: str) -> None:
    with pytest.raises(TemplateError, match=problem):
        in_order("t", ("u", "v"), found)


CODE = '''\
from tikgen import Array, DType, ProblemModel, Template


class Both(Template):
    """Sum and difference."""

    def arguments(self, p):
        x, y = (Array(name, DType.f32, ("n",)) for name in "xy")
        return x, y, *(Array(name, DType.f32, ("n",), role="out") for name in ("u", "v"))

    @staticmethod
    def reference(p, x, y, u, v):
        return {"v": x.astype("f8") - y, "u": x.astype("f8") + y}

    @staticmethod
    def tolerance(p, inputs, expected):
        return {}
'''
TEXT = """\
#% from "_shared/signature.j2" import signature
import taichi as ti


@ti.kernel
def {{ name }}(
    {{ signature(arguments) }}
):
    for i in range(x.shape[0]):
        u[i] = x[i] + y[i]
        v[i] = x[i] - y[i]
"""


@pytest.mark.once
def test_a_reference_that_returns_a_dict_serves_everywhere(ti_arch: str, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    template = tikgen.load_template(folder)
    kernel = tikgen.build(template)
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    u, v = kernel.reference(x, y)
    assert (u == x + 1).all()
    assert (v == x - 1).all()
    text = kernel.eject()
    assert "expected = dict(zip" not in text
    assert tikgen.verify(template, archs=(ti_arch,), max_examples=3, seed=1).ok
