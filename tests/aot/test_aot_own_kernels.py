"""Users' own kernels as text: what the text computes in a fresh process, and what is refused."""

import importlib.util
import itertools
import pickle
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti
import taichi.math as tm

import tikgen
from conftest import ARCH, init_taichi
from tikgen.aot.user_kernels.extraction import OwnKernel, extract
from tikgen.errors import ExportError
from tikgen.live import Loader
from tikgen.pipeline.one_off import only_read

# Executes texts as the process that exports them does: with nothing but their fields.
WORKER = """
import linecache, os, pickle, sys

out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # Taichi prints a greeting.
import taichi as ti

ti.init(arch=getattr(ti, sys.argv[1]), log_level=ti.ERROR, offline_cache=False)
count = 0
while True:
    try:
        text, function, fields, arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    made = {}
    for name, (dtype, shape, element, values) in fields.items():
        kind = getattr(ti, dtype)
        if element:
            make = ti.types.vector if len(element) == 1 else ti.types.matrix
            kind = make(*element, kind)
        made[name] = ti.field(kind, shape)
        made[name].from_numpy(values)
    count += 1
    path = f"text_{count}"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names = {"FIELDS": made}
    try:
        exec(compile(text, path, "exec"), names)
        names[function](*arguments)
        answer = arguments, {name: field.to_numpy() for name, field in made.items()}
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    pickle.dump(answer, out)
    out.flush()
"""

Result = tuple[tuple[Any, ...], dict[str, Any]]


class Fresh:
    """A process that knows kernels by their texts only."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, ARCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, own: OwnKernel, *arguments: Any) -> Result:
        """Return the arguments and the fields as a launch of the text leaves them."""
        fields = {
            name: (f.dtype, f.shape, f.element, own.sources[name].to_numpy())
            for name, f in own.fields.items()
        }
        assert self._process.stdin and self._process.stdout
        pickle.dump((own.text, own.function, fields, arguments), self._process.stdin)
        self._process.stdin.flush()
        answer: Any = pickle.load(self._process.stdout)
        assert not isinstance(answer, str), f"{answer}\n{own.text}"
        return answer

    def stop(self) -> None:
        """Let the process end."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    process = Fresh()
    yield process
    process.stop()


def agrees(
    fresh: Fresh, own: OwnKernel, kernel: Any, arguments: tuple[Any, ...], **templates: Any
) -> None:
    """Compare the text with the kernel that it came from, which is launched here.

    Args:
        fresh: runs the text.
        own: the text.
        kernel: the kernel itself.
        arguments: what both are launched with.
        templates: what the kernel takes besides.
    """
    given = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    got, fields = fresh.run(own, *given)
    before = [source.to_numpy() for source in own.sources.values()]
    names = [a.name for a in own.arguments]
    kernel(**dict(zip(names, given, strict=True)), **templates)
    expected = {n: source.to_numpy() for n, source in own.sources.items()}
    changed = [not np.array_equal(a, b) for a, b in zip(arguments, given, strict=True)]
    changed += [not np.array_equal(a, b) for a, b in zip(before, expected.values(), strict=True)]
    assert any(changed), "the kernel does nothing"
    for one, other in itertools.chain(
        zip(got, given, strict=True), ((fields[n], expected[n]) for n in expected)
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


modules = itertools.count()


@pytest.fixture
def module_of(tmp_path: Path) -> Callable[..., Any]:
    """Import a text as a module of the user's, under the name that it is given."""

    def load(text: str, **names: Any) -> types.ModuleType:
        path = tmp_path / f"user_module_{next(modules)}.py"
        path.write_text("import taichi as ti\n\n" + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return module

    return load


# Programs as people write them.

MPM = """
import numpy as np
import taichi.math as tm
from conftest import ARCH, init_taichi

n_particles, n_grid = 7, 8
dx, inv_dx = 1 / n_grid, float(n_grid)
dt = 1e-4
p_mass = np.float32(0.5)
gravity = ti.Vector([0.0, -9.8])
weights = np.array([0.5, 0.75, 0.5], np.float32)
x = ti.Vector.field(2, ti.f32, n_particles)
v = ti.Vector.field(2, ti.f32, n_particles)
C = ti.Matrix.field(2, 2, ti.f32, n_particles)
grid_v = ti.Vector.field(2, ti.f32, (n_grid, n_grid))
grid_m = ti.field(ti.f32, (n_grid, n_grid))


@ti.kernel
def p2g(scale: ti.f32):
    for p in x:
        # Quadratic weights.
        base = (x[p] * inv_dx - 0.5).cast(int)
        fx = x[p] * inv_dx - base.cast(ti.f32)
        w = [weights[0] * (1.5 - fx) ** 2, weights[1] - (fx - 1) ** 2, weights[2] * (fx - 0.5) ** 2]
        affine = materials.stress(x[p], dt) + p_mass * C[p]
        for i, j in ti.static(ti.ndrange(3, 3)):
            offset = ti.Vector([i, j])
            weight = w[i][0] * w[j][1]
            dpos = (offset.cast(ti.f32) - fx) * dx
            cell = tm.clamp(base + offset, 0, n_grid - 1)
            grid_v[cell] += weight * (p_mass * v[p] + affine @ dpos + dt * gravity) * scale
            grid_m[cell] += weight * p_mass
"""
MATERIALS = """
import math

E = 5.0
I = ti.Matrix([[1.0, 0.0], [0.0, 1.0]])


@ti.func
def softened(a):
    return ti.sqrt(a.dot(a) + math.pi)


@ti.func
def stress(a, dt):
    return E * dt * softened(a) * I
"""


def test_a_step_of_mpm(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    mpm = module_of(MPM, materials=module_of(MATERIALS))
    for field in (mpm.x, mpm.v, mpm.C):
        shape = field.to_numpy().shape
        field.from_numpy(rng.random(shape, dtype=np.float32) * 0.6 + 0.2)
    own = extract(mpm.p2g)
    assert own.fields["grid_v"].shape == (8, 8) and own.fields["grid_v"].element == (2,)
    assert own.fields["C"].element == (2, 2)
    assert "# Quadratic weights." in own.text, "comments stay"
    assert "user_module" not in own.text
    agrees(fresh, own, mpm.p2g, (1.5,))


@ti.kernel
def axpy(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@ti.kernel
def scaled(a: ti.f32, x: ti.types.ndarray(ndim=1), y: ti.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@ti.kernel
def repeated(n: ti.template(), x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        for j in ti.static(range(n)):
            x[i] += j + 1


@ti.kernel
def fill(f: ti.template(), kind: ti.template(), v: ti.f32):
    for i in f:
        f[i] = ti.cast(v, kind)


def test_typed_arrays_and_scalars(ti_arch: str, fresh: Fresh, rng: np.random.Generator) -> None:
    own = extract(axpy)
    shown = [(a.name, a.kind, a.dtype, a.shape, a.role) for a in own.arguments]
    assert shown == [
        ("a", "scalar", "f32", (), "in"),
        ("x", "array", "f32", ("x_0",), "in"),
        ("y", "array", "f32", ("y_0",), "inout"),
    ]
    assert not own.arguments[2].covered and own.arguments[2].inplace
    x, y = rng.random((2, 13), dtype=np.float32)
    agrees(fresh, own, axpy, (3.0, x, y))


def test_open_arrays_take_their_kind_from_an_example(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    # An f64 is what np.dtype says equals Python's float, and yet is no f32.
    own = extract(scaled, {"x": ti.ndarray(ti.f32, 3), "y": np.zeros(3)})
    assert [a.dtype for a in own.arguments] == ["f32", "f32", "f64"]
    assert own.templates == {"x": "f32[1d]", "y": "f64[1d]"}
    agrees(fresh, own, scaled, (3.0, rng.random(5, dtype=np.float32), rng.random(5)))
    declared = ti.types.ndarray(dtype=ti.i32, ndim=1)
    assert [a.dtype for a in extract(scaled, {"x": declared, "y": declared}).arguments[1:]] == [
        "i32",
        "i32",
    ]


def test_each_template_value_makes_a_kernel_of_its_own(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    x = rng.random(4, dtype=np.float32)
    for n in (3, 4):
        repeated(n, x.copy())  # What was launched before decides nothing.
    for n in (4, 1, 3):
        own = extract(repeated, {"n": n})
        assert own.templates == {"n": n} and [a.name for a in own.arguments] == ["x"]
        agrees(fresh, own, repeated, (x,), n=n)


def test_fields_and_dtypes_as_template_arguments(ti_arch: str, fresh: Fresh) -> None:
    counts = ti.field(ti.i32, 5)
    own = extract(fill, {"f": counts, "kind": ti.i32})
    assert own.templates == {"f": "f", "kind": "i32"}
    assert own.fields["f"].shape == (5,) and own.sources["f"] is counts
    agrees(fresh, own, fill, (3.7,), f=counts, kind=ti.i32)


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


def test_equal_names_are_made_unique(
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


def test_a_kernel_of_an_object_takes_its_current_state(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    solver = module_of(SOLVER).Solver(6, 0.25)
    solver.levels[1].from_numpy(rng.random(12, dtype=np.float32))
    own = extract(solver.restrict)
    assert [a.name for a in own.arguments] == ["offset"] and "self" not in own.text
    agrees(fresh, own, solver.restrict, (2,))


def test_vectors_in_arrays(ti_arch: str, fresh: Fresh, rng: np.random.Generator) -> None:
    vec3 = ti.types.vector(3, ti.f32)

    @ti.kernel
    def mix(
        v: ti.types.ndarray(dtype=vec3, ndim=1),
        m: ti.types.ndarray(dtype=tm.mat2, ndim=1),
        out: ti.types.ndarray(dtype=vec3, ndim=1),
    ):
        for i in range(v.shape[0]):
            out[i].y += v[i].x * m[i][0, 1]
            out[i][2] = tm.dot(v[i], vec3(1, 2, 3))

    own = extract(mix)
    assert [a.element for a in own.arguments] == [(3,), (2, 2), (3,)]
    assert [a.shape for a in own.arguments] == [("v_0",), ("m_0",), ("out_0",)]
    # What functions take may be written there; what m is used for cannot.
    assert [a.role for a in own.arguments] == ["inout", "in", "inout"]
    arrays = (rng.random((7, *shape), dtype=np.float32) for shape in [(3,), (2, 2), (3,)])
    agrees(fresh, own, mix, tuple(arrays))


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("y[0] = x[0] + x.shape[0]", "in"),
        ("for i in range(x.shape[0]):\n        y[i] = x[i].y", "in"),
        ("x[0] = 1", "inout"),
        ("x[0] += 1", "inout"),
        ("x[0].y = 1", "inout"),
        ("x[0][1] -= 1", "inout"),
        ("y[0] = ti.atomic_add(x[0], 1)", "inout"),
        ("helper(target=x[0])", "inout"),
        ("helper(x[0].xy)", "inout"),
        ("helper(*x)", "inout"),
        ("x[0].fill(0)", "inout"),
    ],
)
def test_an_array_is_only_read_where_nothing_can_write_to_it(body: str, role: str) -> None:
    read = only_read(f"def kernel(x, y):\n    {body}\n", "kernel")
    assert ("x" in read) == (role == "in")
    assert ("y" in read) == ("y[" not in body)


def test_functions_of_every_kind(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator, module_of: Callable[..., Any]
) -> None:
    if ti_arch == "vulkan":
        pytest.skip("Taichi has no real functions on vulkan")
    module = module_of(
        """
last = object()


def unrolled(n):
    if n > 2:  # In Python, what a block writes is still there behind it.
        first, last = 0, n
    return [k * k for k in range(first, last)]


@ti.real_func
def power(x: ti.f32, n: ti.i32) -> ti.f32:
    result = ti.f32(1.0)
    if n > 0:
        result = x * power(x, n - 1)
    return result


@ti.pyfunc
def add(a, b):
    return a + b


@ti.func
def accumulate(target: ti.template(), i: int, value: float):
    target[i] += value


@ti.kernel
def run(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        for k in ti.static(unrolled(3)):
            accumulate(x, i, add(power(x[i], 3), k))
"""
    )
    agrees(fresh, extract(module.run), module.run, (rng.random(11, dtype=np.float32),))


def test_kernels_that_tikgen_made_of_a_text(
    ti_arch: str, fresh: Fresh, rng: np.random.Generator
) -> None:
    text = """
import taichi as ti

@ti.kernel
def add(x: ti.types.ndarray(dtype=ti.f32, ndim=1), y: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        y[i] += {{ factor }} * x[i]
"""
    arrays = tuple(rng.random((2, 9), dtype=np.float32))
    kernel = tikgen.from_string(text, factor=3)
    agrees(fresh, extract(kernel), kernel, arrays)
    loaded = Loader().load(text, factor=4).add
    agrees(fresh, extract(loaded), loaded, arrays)


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
    wrong = {"has an offset": offset, "of structs": structs, "several levels": levels}
    if ti_arch == "cpu":
        sparse = ti.field(ti.f32)
        ti.root.bitmasked(ti.i, 4).place(sparse)
        wrong["is sparse"] = sparse
    for message, field in wrong.items():
        with pytest.raises(ExportError, match=f"the field f .*{message}"):
            extract(fill, {"f": field, "kind": ti.f32})

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
