"""Native kernels of every template have the bits of the engine direct-cpu."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from conftest import ARCH, built_in_templates
from tikgen.aot.exporting.example_data import made_up
from tikgen.aot.exporting.template_kernels import described

pytest_plugins = ["one_compiler"]
on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="native bundles are for processors")
pytestmark = [on_cpu, pytest.mark.usefixtures("one_compiler")]
pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")

# Kernels by name, and sizes to run them with: 1, primes, and enough for several threads.
AXES = {
    1: ((1,), (31,), (100_003,)),
    2: ((1, 1), (7, 13), (331, 257)),
    3: ((1, 2, 3), (37, 41, 29)),
}
CASES: dict[str, tuple[str, dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "map_f32": ("map", {"expr": "z = a*x + y; w = sqrt(abs(z))"}, AXES[1]),
    "map_f64": ("map", {"expr": "z = a*exp(x) + y", "dtype": "f64", "dim": 2}, AXES[2]),
    "map_f16": ("map", {"expr": "z = a*x + y", "dtype": "f16"}, AXES[1]),
    "map_i64": ("map", {"expr": "z = a*x - y", "dtype": "i64"}, AXES[1]),
    "stencil_1d": ("stencil", {"dim": 1, "order": 4}, AXES[1]),
    "stencil_2d": ("stencil", {"dim": 2, "boundary": "periodic", "dtype": "f64"}, AXES[2]),
    "stencil_3d": ("stencil", {"dim": 3}, AXES[3]),
    "update": ("update", {"equations": "u' = u + 0.1*lap(u)", "dim": 2}, AXES[2]),
    "sum_f32": ("reduce", {"op": "sum"}, AXES[1]),
    "max_i32": ("reduce", {"op": "max", "dtype": "i32", "dim": 2}, AXES[2]),
    "scan_f32": ("scan", {}, AXES[1]),
    "histogram": ("histogram", {}, AXES[1]),
    "transpose": ("transpose", {}, AXES[2]),
    "gemm_f32": ("gemm", {}, ((1, 1, 1), (7, 13, 5), (67, 131, 97))),
    "gemm_f64": ("gemm", {"dtype": "f64"}, ((1, 2, 3), (65, 33, 129))),
    "ring": (
        "ring",
        {"handler": "y = 2*x", "inputs": {"x": "f32"}, "outputs": {"y": "f32"}},
        ((1,), (4,), (64,)),
    ),
    "spmv": ("spmv", {}, ((1, 1, 1), (7, 5, 11), (9973, 1009, 8999))),
}


def verified(template: str, params: dict[str, Any]) -> tikgen.Kernel:
    """Return a kernel with evidence for the processor, where it is compared with another engine."""
    from tikgen.pipeline import evidence

    source = tikgen.render(template, arch="cpu", **params)
    tally = evidence.Tally({}, passed=True, examples=1, worst=0.0)
    evidence.keep(source.variant.template, "cpu", 7, {source.digest: tally})
    return tikgen.build(template, arch="cpu", **params, schedule={})  # One code at all sizes.


# One of each template; "make verify" has the others.
FEW = {
    next(name for name, case in CASES.items() if case[0] == template)
    for template in built_in_templates()
}


class Group:
    """Some of the kernels, and a bundle of them."""

    def __init__(self, names: set[str], folder: Path) -> None:
        self.kernels = {name: verified(*CASES[name][:2]) for name in names}
        bundle = tikgen.aot.export(
            self.kernels, folder / "bits", native=True, target_cpu="host", examples=1
        )
        assert bundle.ok, bundle.failures
        self.runtime = bundle.load()


@pytest.fixture(scope="module")
def group_of(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Group]]:
    """Give the group of a kernel, which is exported when its first one is tested."""
    groups: dict[bool, Group] = {}
    # The cases of this run: it draws some.
    drawn = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_a_native_kernel_has_the_bits_of_the_engine.__name__
    }

    def find(name: str) -> Group:
        is_few = name in FEW
        if is_few not in groups:
            names = FEW if is_few else CASES.keys() - FEW
            groups[is_few] = Group(names & drawn, tmp_path_factory.mktemp("native"))
        return groups[is_few]

    yield find
    for group in groups.values():
        group.runtime.close()


@pytest.mark.parametrize(
    "name", [n if n in FEW else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_a_native_kernel_has_the_bits_of_the_engine(
    ti_arch: str, name: str, group_of: Callable[[str], Group]
) -> None:
    kernels, runtime = group_of(name).kernels, group_of(name).runtime
    kernel, rng = kernels[name], np.random.default_rng(len(name))
    template, problem = kernel.template, kernel.variant.problem
    direct = kernel.with_engine("direct-cpu")
    arguments = tuple(map(described, kernel.variant.arguments))
    symbols = runtime[name].signature.symbols
    for shape in CASES[name][2]:
        sizes = dict(zip(symbols, shape, strict=True))
        special = template.inputs(problem, sizes, rng)
        values = made_up(arguments, sizes, rng, special)
        for argument in arguments:
            if argument.role == "out" and values[argument.name].dtype.kind == "f":
                values[argument.name][...] = np.nan
        wanted = {n: np.array(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
        direct(**wanted)
        runtime[name](**values)
        assert direct.engine == "direct-cpu", direct.why
        for written in (a.name for a in arguments if a.role != "in"):
            assert values[written].tobytes() == wanted[written].tobytes(), (shape, written)


def test_every_template_has_a_case() -> None:
    assert {template for template, _, _ in CASES.values()} == built_in_templates()
