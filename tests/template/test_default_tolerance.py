"""The tolerance of a template that declares none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tikgen

TEXT = """\
#% from "_shared/signature.j2" import signature
import taichi as ti


@ti.kernel
def {{ name }}(
    {{ signature(arguments) }}
):
    for i in range(x.shape[0]):
        y[i] = ti.cast(x[i], ti.f64) / 3.0
        count[i] = 2
"""
CODE = '''\
import numpy as np
from tikgen import Array, DType, Template


class Thirds(Template):
    """A third."""

    def arguments(self, p):
        x = Array("x", DType.f32, ("n",))
        out = [Array(n, t, ("n",), role="out") for n, t in (("y", DType.f64), ("count", DType.i32))]
        return x, *out

    @staticmethod
    def reference(p, x, y, count):
        return x.astype(np.longdouble) / 3, np.full(x.shape, 2)
'''


@pytest.fixture
def template(tmp_path: Path) -> tikgen.Template:
    folder = tmp_path / "thirds"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE)
    return tikgen.load_template(folder)


def test_it_is_in_units_of_each_output(template: tikgen.Template) -> None:
    given = {"y": np.zeros(2), "count": np.zeros(2, np.int32), "x": np.ones(2, np.float32)}
    expected = {"y": np.array([4.0, np.inf]), "count": np.array([2, 2])}
    allowed = template.tolerance(None, given, expected)
    assert allowed == {"y": 64 * np.finfo(np.float64).eps, "count": 0.0}


def test_no_problem_parameter_is_needed(ti_arch: str, template: tikgen.Template) -> None:
    kernel = tikgen.build(template)
    x, y, count = np.ones(5, np.float32), np.zeros(5), np.zeros(5, np.int32)
    report = tikgen.Program([kernel.bind(x, y, count)]).verify(1)
    assert report.ok, str(report)
    assert "def tolerance" in kernel.eject()
    sizes = {"n": 7}
    outcome = tikgen.verification.Trial(template, {}, sizes=sizes, seed=1).run()
    assert outcome.ok, outcome.message
