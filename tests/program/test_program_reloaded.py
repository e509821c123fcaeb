"""Programs and bound kernels whose kernel gets code with arguments in another order, or others."""

from __future__ import annotations

import numpy as np
import pytest

import tikgen
from tikgen.errors import ArgumentError, TikgenError
from tikgen.pipeline import builder

KERNEL = """#% from "_shared/signature.j2" import signature
import taichi as ti


@ti.kernel
def {{ name }}(
    {{ signature(arguments) }}
):
    for i in range(x.shape[0]):
        BODY
"""
TEMPLATE = '''from tikgen import Array, DType, ProblemModel, Scalar, Template


class Line(Template):
    """Computes a line."""

    class Problem(ProblemModel):
        pass

    def arguments(self, p):
        x, y = Array("x", DType.f32, ("n",)), Array("y", DType.f32, ("n",), role="out")
        a, b, c = (Scalar(name, DType.f32) for name in "abc")
        ROLES
        return ORDER

    @staticmethod
    def reference(p, ORDER):
        return RESULT

    @staticmethod
    def tolerance(p, inputs, expected):
        return {"y": 1e-5, "x": 1e-5}
'''


@pytest.fixture
def line(tmp_path):
    """Return a function that gives a kernel of y = a*x + b, or offers newer code to it."""
    versions = iter(range(100))

    def write(order, result="a * x + b", roles="", body=""):
        folder = tmp_path / str(next(versions)) / "line"
        folder.mkdir(parents=True)
        text = TEMPLATE.replace("ORDER", order).replace("ROLES", roles)
        (folder / "template.py").write_text(text.replace("RESULT", result))
        body = body or f"y[i] = {result.replace('x', 'x[i]')}"
        (folder / "kernel.py.j2").write_text(KERNEL.replace("BODY", body))
        return tikgen.load_template(folder)

    kernel = tikgen.build(write("x, y, a, b"))
    told = []

    def offer(*args, **kwargs):
        builder.replace(kernel, tikgen.render(write(*args, **kwargs)), told.append)
        return told

    yield kernel, offer
    tikgen.clear()


def arrays_of():
    return np.full(3, 2, "f4"), np.zeros(3, "f4")


@pytest.mark.parametrize("order", ["x, y, b, a", "y, x, a, b", "b, y, a, x"])
@pytest.mark.parametrize("by_name", [False, True])
def test_arguments_in_another_order_are_taken_by_name(ti_arch, line, order, by_name) -> None:
    kernel, offer = line
    x, y = arrays_of()
    bound = kernel.bind(x=x, y=y, a=10.0, b=1.0) if by_name else kernel.bind(x, y, 10.0, 1.0)
    program = tikgen.Program([tikgen.varying(kernel.bind(x, y, 0.0, 1.0), a=lambda step: 10.0)])
    bound()
    program.run(1)
    told = offer(order, "a * x + 2 * b")
    bound()
    assert told == [None]
    assert (x[0], y[0]) == (2, 22)
    assert list(bound.arguments) == order.split(", ")
    bound(a=20.0)
    assert (x[0], y[0]) == (2, 42)
    bound.rebind(b=0.0)
    bound()
    assert (x[0], y[0]) == (2, 40)
    assert program.reference(1)["y"][0] == 22
    assert program.verify(1).ok
    program.run(1)
    assert (x[0], y[0]) == (2, 22)


def test_bound_kernels_keep_code_whose_arguments_have_their_roles(ti_arch, line) -> None:
    kernel, offer = line
    x, y = arrays_of()
    bound = kernel.bind(x, y, 10.0, 1.0)
    roles = 'x, y = Array("x", DType.f32, ("n",), role="out"), Array("y", DType.f32, ("n",))'
    told = offer("x, y, a, b", "a * y + b", roles=roles, body="x[i] = a * y[i] + b")
    for _ in range(2):
        bound()
        assert (x[0], y[0]) == (2, 21)
    (error,) = told
    assert isinstance(error, ArgumentError)
    assert "'x' is bound with the role 'in', not 'out'" in str(error)
    kernel(x=x, y=y, a=1.0, b=0.0)  # This call provides them.
    assert (x[0], y[0]) == (21, 21)
    bound()
    assert (x[0], y[0]) == (21, 211)


@pytest.mark.parametrize(
    ("order", "result"),
    [("x, y, a, b, c", "a * x + b + c"), ("x, y, a", "a * x"), ("x, y, c, b", "c * x + b")],
)
@pytest.mark.parametrize("native", [None, False])
def test_programs_go_on_with_old_code_where_new_code_takes_other_arguments(
    ti_arch, line, tmp_path, order, result, native
) -> None:
    kernel, offer = line
    x, y = arrays_of()
    bound = kernel.bind(x, y, 0.0, 1.0)
    program = tikgen.Program([tikgen.varying(bound, a=lambda step: step + 1.0)], native=native)
    program.run(1)
    assert y[0] == 3
    offer(order, result)
    others = dict.fromkeys(order.split(", ")[2:], 5.0)
    kernel(np.ones(4, "f4"), np.zeros(4, "f4"), **others)  # Takes the new code.
    assert program.reference(1)["y"][0] == 5
    assert program.verify(2).ok
    program.run(1)
    assert y[0] == 5
    state = program.state()
    program.save(tmp_path / "state.npz")
    program.settle()
    program.run(1)
    assert y[0] == 7
    program.restore(state)
    assert (program.steps, y[0]) == (2, 5)
    program.run(1)
    assert program.load(tmp_path / "state.npz")
    assert (program.steps, y[0]) == (2, 5)
    bound.rebind(b=2.0)
    bound(a=3.0)
    assert y[0] == 8


def test_the_state_is_saved_where_nothing_can_be_launched(ti_arch, line, tmp_path) -> None:
    kernel, _ = line
    x, y = arrays_of()
    program = tikgen.Program([kernel.bind(x, y, 10.0, 1.0)])
    program.run(1)
    tikgen.clear()  # Unloads every kernel.
    assert program.state().steps == 1
    program.save(tmp_path / "state.npz")
    program.settle()
    with pytest.raises(TikgenError, match="was unloaded"):
        program.run(1)
