"""The text of exported kernels: names, closures, functions, and what is refused."""

import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
import taichi.math as tm

from conftest import init_taichi
from own_samples import Fresh, agrees, axpy, fill, repeated, scaled
from own_samples import fresh as fresh
from own_samples import module_of as module_of
from tikgen.aot.user_kernels.extraction import extract
from tikgen.aot.user_kernels.value_text import Writer
from tikgen.errors import ExportError

FIRST = """
scale = 2.0

@ti.func
def weight(x):
    return x * scale

@ti.func
def twice(x):
    return 2 * weight(x)
"""
SECOND = """
scale = 5.0

@ti.func
def weight(x):
    return x + scale
"""
CLASHES = """
scale = 7.0
max = ti.min
ti_ = ti


class Options:
    n = 3
    name = "fast"
    inner = (1, 2.5)


@ti.kernel
def combine(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        weight = first.weight(x[i])  # A variable that is called as what it calls.
        weight += first.weight(1.0)
        n = first.twice(x[i]) + second.weight(x[i]) + Options.n
        if ti_.static(Options.name == "fast"):
            n += Options.inner[1] + second.scale + first.scale
        x[i] = max(weight * scale, n)
"""


def test_names_that_clash_are_told_apart(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    module = module_of(CLASHES, first=module_of(FIRST), second=module_of(SECOND))
    own = extract(module.combine)
    agrees(fresh, own, module.combine, (10 * rng.random(31, dtype=np.float32),))


def test_closures_are_fixed_as_they_stand(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    def make(a: float, table: list[Any]) -> Any:
        half = a / 2

        @ti.func
        def shift(x):
            return x + half

        @ti.kernel
        def nested(z: ti.types.ndarray(dtype=ti.f32, ndim=2)):
            for i, j in ti.ndrange(z.shape[0], z.shape[1]):
                for k in ti.static(range(len(table))):
                    z[i, j] += shift(table[k]) * a

        return nested

    for a in rng.random(2):
        kernel = make(float(a), [1, 2.5, np.float32(0.1), True])
        agrees(fresh, extract(kernel), kernel, (rng.random((3, 5), dtype=np.float32),))


BLOCKS = """
n, m = 5.0, 7.0
p = object()


@ti.kernel
def blocks(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            n = 2.0
            x[i] += n
        x[i] += n + sum([m * k for m in ti.static(range(3)) for k in ti.static((1.0, 2.0))])
        m = m + 1  # Reads the global one, and makes another.
        p = x[i]
        x[i] = m + p


@ti.func
def sum(values: ti.template()):
    total = 0.0
    for k in ti.static(range(len(values))):
        total += values[k]
    return total
"""


def test_blocks_see_what_taichi_lets_them_see(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    module = module_of(BLOCKS)
    own = extract(module.blocks)
    assert "n = 5.0\nm = 7.0\n" in own.text, "names stay where nothing speaks against it"
    agrees(fresh, own, module.blocks, (rng.random(17, dtype=np.float32),))


SOLVER = """
@ti.data_oriented
class Solver:
    def __init__(self, n, rate):
        self.n, self.rate = n, rate
        self.levels = [ti.field(ti.f32, n), ti.field(ti.f32, 2 * n)]

    @property
    def coarse(self):
        return self.levels[0]

    @ti.func
    def damped(self, value):
        return value * self.rate

    @staticmethod
    @ti.func
    def squared(value):
        return value * value

    @ti.kernel
    def restrict(self, offset: ti.i32):
        for i in self.coarse:
            fine = ti.static(self.levels[1])
            self.coarse[i] = self.damped(fine[2 * i] + self.squared(fine[2 * i + 1])) + offset
"""


def test_a_kernel_of_an_object_takes_it_as_it_stands(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    solver = module_of(SOLVER).Solver(6, 0.25)
    solver.levels[1].from_numpy(rng.random(12, dtype=np.float32))
    own = extract(solver.restrict)
    assert [a.name for a in own.arguments] == ["offset"] and "self" not in own.text
    agrees(fresh, own, solver.restrict, (2,))


def test_the_text_is_the_same_every_time(ti_arch: str) -> None:
    first, second = ti.field(ti.f32, 4), ti.field(ti.f32, 4)
    texts = {extract(fill, {"f": f, "kind": ti.f32}).text for f in (first, second)}
    assert len(texts) == 1, "a name is no other because of what was extracted before"


def test_one_field_has_one_name(ti_arch: str, module_of: Callable[..., Any]) -> None:
    module = module_of(
        "a = ti.field(ti.f32, 4)\nb = a\nother = [ti.field(ti.f32, 3)]\n\n\n"
        "@ti.kernel\ndef copy():\n    for i in a:\n        b[i] += a[i] + other[0][0]\n"
    )
    own = extract(module.copy)
    assert sorted(own.fields) == ["a", "other_0"]
    assert own.sources["a"] is module.a and 'b = FIELDS["a"]' in own.text


def test_without_ti_init(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "import taichi as ti\nfrom tikgen.aot.user_kernels.extraction import extract\n\nn = 4\n\n\n"
        "@ti.kernel\ndef put(a: float, x: ti.types.ndarray(dtype=int, ndim=2)):\n"
        "    x[0, 1] = ti.cast(a, int) + n\n\n\n"
        "print([a.dtype for a in extract(put).arguments])\nprint(extract(put).text)\n"
    )
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=True
    )
    assert "['f32', 'i32']" in done.stdout and "n = 4" in done.stdout


@ti.func
def spread(x: ti.f32, by: ti.f32 = 1.5, weights=(1, 2)):
    n: ti.i32 = 3
    if (m := n + 1) > 2:
        x += m * by * weights[1]
    return x


def chosen(limit):
    pick = lambda scale: scale * limit  # noqa: E731
    return pick(2)


@ti.kernel
def spreading(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in x:
        x[i] = same(spread(x[i]) + chosen(3))


same = abs


def test_defaults_and_inner_functions_are_kept() -> None:
    text = extract(spreading).text
    assert "def spread(x: ti.f32, by: ti.f32 = 1.5, weights=(1, 2)):" in text
    assert "pick = lambda scale: scale * limit" in text
    assert "same = abs" in text


def test_a_builtin_keeps_its_name() -> None:
    from builtins import abs

    @ti.kernel
    def absolute(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        x[0] = abs(x[0])

    text = extract(absolute).text
    assert "abs(x[0])" in text and "abs =" not in text


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"a": (1, 2.5), 3: [True]}, "{'a': (1, 2.5), 3: [True]}"),
        ({"a": print}, "{'a': print}"),
        ({"a": object()}, None),
        ((1, object()), None),
        (np.zeros((0, 2), np.float32), "np.zeros((0, 2), dtype=np.float32)"),
        (range(1, 9, 2), "range(1, 9, 2)"),
        (ti.types.struct(a=ti.f32, b=ti.i8), "ti.types.struct(a=ti.f32, b=ti.i8)"),
        (ti.types.ndarray(dtype=ti.f32, ndim=2), "ti.types.ndarray(dtype=ti.f32, ndim=2)"),
        (
            ti.types.ndarray(dtype=ti.f32, boundary="clamp"),
            'ti.types.ndarray(dtype=ti.f32, boundary="clamp")',
        ),
        (ti.ref(ti.f32), "ti.ref(ti.f32)"),
    ],
)
def test_values_become_code(value: Any, code: str | None) -> None:
    assert Writer("k", {}).code(value, "value") == code


# What cannot be exported.


@ti.kernel
def returns(a: ti.f32) -> ti.f32:
    return a


@ti.kernel
def by_value(v: tm.vec3, x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    x[0] = v[0]


@ti.kernel
def textured(t: ti.types.texture(num_dimensions=2), x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    x[0] = 1


@ti.kernel
def graded(x: ti.types.ndarray(dtype=ti.f32, ndim=1, needs_grad=True)):
    x[0] = 1


@ti.kernel
def bits(x: ti.types.ndarray(dtype=ti.u1, ndim=1)):
    x[0] = True


something = object()
huge = np.zeros(5000, np.float32)


@ti.kernel
def strange(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    x[0] = something


@ti.kernel
def vast(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in ti.static(range(5000)):
        x[0] += huge[i]


@ti.kernel
def misspelt(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    x[0] = nowhere  # noqa: F821


@ti.kernel
def calls(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    axpy(1.0, x, x)


options = types.SimpleNamespace(present=1)


@ti.kernel
def lost(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    x[0] = options.present + options.missing


ARRAY = ti.types.ndarray(dtype=ti.f32, ndim=1)
anonymous = lambda x: 2 * x  # noqa: E731
typed: dict[str, Any] = {}
exec("def unwritten(x):\n    return x", typed)
unwritten = typed["unwritten"]


def keyed(x, *, by):
    return x * by


@ti.func
def defaulted(x, by=something):
    return x


@ti.dataclass
class Armed:
    a: ti.f32

    @ti.func
    def move(self):
        return self.a


@ti.func
def annotated(x: Armed):
    return x


def calling(function: Any) -> Any:
    @ti.kernel
    def caller(x: ARRAY):
        x[0] = function(x[0])

    return caller


@pytest.mark.parametrize(
    ("kernel", "given", "message"),
    [
        (len, {}, "no function decorated with ti.kernel"),
        (returns, {}, "returns a value.* array of one element"),
        (by_value, {}, "'v' is a vector by value"),
        (textured, {}, "'t' is a Texture by value"),
        (graded, {}, "'x' needs a gradient"),
        (bits, {}, "'x' is of u1; bundles take i8, .*f64"),
        (strange, {}, "uses something, which is of object"),
        (vast, {}, "huge holds 5000 elements.* pass an array as an argument"),
        (misspelt, {}, "uses the name nowhere"),
        (calls, {}, "calls the kernel axpy; use a ti.func"),
        (lost, {}, "uses options.missing: .*no attribute 'missing'"),
        (repeated, {}, "open arguments 'n' "),
        (scaled, {"x": ARRAY}, "open arguments 'y' "),
        (repeated, {"m": 3}, "'m', which is no argument.* It takes n, x"),
        (repeated, {"n": 3, "x": np.zeros(3)}, r"declared as f32\[1d\].* has f64\[1d\]"),
        (scaled, {"x": 3, "y": ARRAY}, "int for the array 'x'"),
        (scaled, {"x": ARRAY, "y": np.zeros(())}, "'y' is an array without axes"),
        (axpy, {"a": 3}, "'a' is a scalar"),
        (calling(anonymous), {}, "it is a lambda; write it with def"),
        (calling(unwritten), {}, "its text cannot be read"),
        (calling(keyed), {}, "uses function, which is of function"),
        (calling(defaulted), {}, "the default of by cannot be written as text"),
        (calling(annotated), {}, "the annotation .*StructType.* cannot be written as text"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_exported_is_refused(kernel: Any, given: Any, message: str) -> None:
    with pytest.raises(ExportError, match=message):
        extract(kernel, given)


def test_fields_that_cannot_be_made_again_are_refused(ti_arch: str) -> None:
    offset = ti.field(ti.f32, 4, offset=2)
    structs = ti.Struct.field({"a": ti.f32}, shape=3)
    levels = ti.field(ti.f32)
    ti.root.dense(ti.i, 4).dense(ti.i, 2).place(levels)
    unplaced = ti.field(ti.f32)
    wrong = {"is of u1; take": ti.field(ti.u1, 4), "has no shape yet": unplaced}
    wrong |= {"has an offset": offset, "of structs": structs, "several levels": levels}
    if ti_arch == "cpu":
        sparse = ti.field(ti.f32)
        ti.root.bitmasked(ti.i, 4).place(sparse)
        wrong["is sparse"] = sparse
    for message, field in wrong.items():
        with pytest.raises(ExportError, match=f"the field f .*{message}"):
            extract(fill, {"f": field, "kind": ti.f32})
    ti.root.dense(ti.i, 4).place(unplaced)  # Else Taichi launches nothing any more.

    graded = ti.field(ti.f32, 4, needs_grad=True)

    @ti.kernel
    def descend():
        for i in graded:
            graded[i] -= graded.grad[i]

    with pytest.raises(ExportError, match="uses the gradient of a field"):
        extract(descend)
    array = ti.ndarray(ti.f32, 4)

    @ti.kernel
    def reach():
        array[0] = 1

    with pytest.raises(ExportError, match=r"array is a ti\.ndarray.*argument"):
        extract(reach)


def test_fields_of_an_earlier_init_are_refused(ti_arch: str) -> None:
    field = ti.field(ti.f32, 4)
    init_taichi()
    with pytest.raises(ExportError, match=r"belongs to an earlier ti\.init"):
        extract(fill, {"f": field, "kind": ti.f32})
