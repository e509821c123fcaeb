"""Exporting bundles: their contents and names, what is left out, and what is kept."""

import errno
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH
from tikgen.aot.exporting import staging, writing
from tikgen.aot.exporting.compiling import Compiled
from tikgen.errors import BundleError, ExportError, ParameterError
from tikgen.machine.devices import host_arch
from tikgen.pipeline import evidence, rendering
from tikgen.pipeline.choice import choose

TO = host_arch() if ARCH == "cpu" else ARCH
pytest_plugins = ["one_compiler"]
pytestmark = [pytest.mark.arch, pytest.mark.usefixtures("one_compiler")]


def with_evidence(kernel: tikgen.Kernel) -> tikgen.Kernel:
    """Say of a kernel that it was verified, which takes a while and is tested elsewhere."""
    tally = evidence.Tally({}, passed=True, examples=3, worst=0.1)
    for shape in (None, dict(kernel.variant.sizes) or None):
        found = choose(kernel.template, None, shape, ARCH, dict(kernel.problem), engine="taichi")
        digest = rendering.render_variant(found[0]).digest
        evidence.keep(kernel.template, ARCH, 7, {digest: tally})
    return kernel


@pytest.fixture(scope="module")
def kernels() -> list[tikgen.Kernel]:
    """Return a stencil in two dtypes, and a map with a scalar that the C library cannot pass."""
    return [
        with_evidence(tikgen.build("stencil", dim=2)),
        with_evidence(tikgen.build("stencil", dim=2, dtype="f64")),
        with_evidence(tikgen.build("map", expr="z = y + a*x", dim=2, dtype="f64")),
    ]


@pytest.fixture(scope="module")
def exported(
    kernels: list[tikgen.Kernel], tmp_path_factory: pytest.TempPathFactory
) -> tikgen.aot.Bundle:
    """Return a bundle of the kernels, with a graph."""
    folder = tmp_path_factory.mktemp("bundles") / "heat"
    steps = [(kernels[1], "u", "lap"), (kernels[2], {"x": "lap", "y": "u", "z": "u", "a": "dt"})]
    graphs = {"step": {"steps": steps, "temporaries": ["lap"]}}
    return tikgen.aot.export(kernels, folder, [TO], graphs=graphs, examples=2)


@pytest.fixture
def bundle(exported: tikgen.aot.Bundle, tmp_path: Path) -> tikgen.aot.Bundle:
    """Return a copy of the bundle that a test may spoil."""
    shutil.copytree(exported.path, tmp_path / "heat")
    return tikgen.aot.Bundle(tmp_path / "heat")


def test_a_bundle_has_the_contents_of_its_manifest(exported: tikgen.aot.Bundle) -> None:
    assert exported.ok, exported.failures
    names = (
        "map_z_y_a_x_dim2_f64",
        "stencil_dim2_f32_order2_interior",
        "stencil_dim2_f64_order2_interior",
    )
    assert exported.kernels == names
    assert exported.graphs == ("step",)
    assert exported.archs == (TO,)
    said = json.loads((exported.path / "manifest.json").read_text())
    stencil = said["kernels"][names[1]]
    assert stencil["template"] == "stencil"
    assert stencil["family"] == "stencil_order2_interior"
    assert stencil["params"]["dtype"] == "f32"
    assert [a["name"] for a in stencil["arguments"]] == ["x", "y"]
    assert stencil["arguments"][1]["role"] == "out"
    assert stencil["cost"]["bytes"] == [{"factor": 8.0, "symbols": ["n0", "n1"]}]
    build = stencil["builds"][TO]
    assert build["evidence"]["examples"] == 3
    assert build["proof"]["against"] == "reference"
    assert 0 <= build["proof"]["worst"] <= 1
    text = (exported.path / build["source"]).read_text()
    default = choose("stencil", None, None, ARCH, {"dim": 2}, engine="taichi")[0]
    assert rendering.digest_of(text) == rendering.render_variant(default).digest
    assert said["graphs"]["step"]["builds"][TO]["proof"]["against"] == "kernels"
    assert (exported.path / "include" / "heat.h").is_file()
    assert (exported.path / "include" / "heat.hpp").is_file()
    if TO == "vulkan":
        capabilities = said["kernels"][names[2]]["builds"][TO]["capabilities"]
        assert "spirv_has_float64" in capabilities


def test_the_graph_does_what_numpy_does(
    exported: tikgen.aot.Bundle, rng: np.random.Generator
) -> None:
    u = rng.uniform(-1, 1, (13, 17))
    wanted, step = u.copy(), float(rng.uniform(0.01, 0.2))
    with exported.load() as runtime:
        for _ in range(3):
            runtime.graphs["step"](u=u, dt=step)
            inner = wanted[1:-1, 2:] + wanted[1:-1, :-2] + wanted[2:, 1:-1] + wanted[:-2, 1:-1]
            wanted[1:-1, 1:-1] += step * (inner - 4 * wanted[1:-1, 1:-1])
    np.testing.assert_allclose(u, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.once
def test_what_is_unchanged_is_taken_over(
    bundle: tikgen.aot.Bundle, kernels: list[tikgen.Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    original = writing.compile_modules

    def noting(arch: str, modules: Any, *args: Any) -> None:
        compiled.extend(module.folder for module in modules)
        original(arch, modules, *args)

    monkeypatch.setattr(writing, "compile_modules", noting)
    before = (bundle.path / "manifest.json").read_bytes()
    again = tikgen.aot.export(kernels, bundle.path, [TO])
    assert compiled == []
    assert len(again.reused) == 4  # Three kernels, and the graph that was kept.
    assert (bundle.path / "manifest.json").read_bytes() == before

    spoilt = next((bundle.path / TO / again.kernels[0]).glob("*.*"))
    spoilt.write_bytes(spoilt.read_bytes() + b" ")
    mended = tikgen.aot.export(kernels, bundle.path, [TO])
    assert compiled == [f"{TO}/{again.kernels[0]}"]
    assert mended.ok
    assert mended.verify(prove=False) == ()


@pytest.mark.once
def test_an_archive_is_one_file_and_the_same_each_time(
    bundle: tikgen.aot.Bundle, kernels: list[tikgen.Kernel], rng: np.random.Generator
) -> None:
    path = bundle.path.with_name("heat.zip")
    seed = int(rng.integers(2**32))
    tikgen.aot.export(kernels[:1], path, [TO], examples=1, seed=seed)
    first = path.read_bytes()
    again = tikgen.aot.export(kernels[:1], path, [TO], examples=1, seed=seed)
    assert len(again.reused) == 1
    assert path.read_bytes() == first
    assert "manifest.json" in zipfile.ZipFile(path).namelist()
    x = rng.uniform(-1, 1, (9, 7)).astype(np.float32)
    y = np.full_like(x, 5)
    with tikgen.aot.load(path) as runtime:
        runtime.stencil_dim2_f32_order2_interior(x, y)
    wanted = np.full_like(x, 5)
    wanted[1:-1, 1:-1] = x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1] - 4 * x[1:-1, 1:-1]
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    assert sorted(p.name for p in path.parent.iterdir()) == ["heat", "heat.zip"]


@pytest.mark.once
def test_a_kernel_without_evidence_is_refused(tmp_path: Path) -> None:
    kernel = tikgen.build("stencil", dim=2, order=8)
    message = r"b: stencil\S+ on \w+: its code was never verified on \w+: .*verify=True"
    with pytest.raises(ExportError, match=message):
        tikgen.aot.export(kernel, tmp_path / "b", [TO])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.once
def test_what_fails_its_proof_is_left_out_and_reported(
    bundle: tikgen.aot.Bundle, kernels: list[tikgen.Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replace one artefact by that of another kernel, which the manifest does not show."""
    # Another sign shows whatever the data is.
    expr = "z = where(y > a*x, 7, 5) - 3"
    wrong = with_evidence(tikgen.build("map", expr=expr, dim=2, dtype="f64"))
    original = writing.compile_modules

    def swapping(arch: str, modules: Any, folder: Path, tell: Any, stop: Any) -> None:
        for module in modules:
            for plan in module.kernels.values():
                if "map" in plan.entry.name:
                    text = plan.codes[arch].text.replace("-", "+")
                    object.__setattr__(plan.codes[arch], "text", text)
        original(arch, modules, folder, tell, stop)

    monkeypatch.setattr(writing, "compile_modules", swapping)
    found = tikgen.aot.export([*kernels[:2], wrong], bundle.path, [TO], examples=2)
    (failure,) = found.failures
    assert (failure.name, failure.arch) == ("map_z_where_y_a_x_7_5_3_dim2_f64", TO)
    assert "failed the proof" in failure.problem
    assert found.kernels == tuple(sorted(found.kernels))
    assert "map_z_y_a_x_dim2_f64" not in found.kernels
    assert found.graphs == ()  # The graph was one of another kernel of that name.
    assert not (bundle.path / TO / "map_z_y_a_x_dim2_f64").exists()
    assert found.verify(prove=False) == ()


@pytest.mark.once
def test_an_interrupted_export_keeps_the_old_bundle(
    bundle: tikgen.aot.Bundle, kernels: list[tikgen.Kernel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tikgen.aot.export(kernels[:2], bundle.path, [TO])
    monkeypatch.setattr(writing, "publish", full)
    with pytest.raises(BundleError, match=r"the disk is full; the existing bundle is unchanged"):
        tikgen.aot.export(kernels[:2], bundle.path, [TO])
    assert bundle.verify(prove=False) == ()
    assert tikgen.aot.Bundle(bundle.path).kernels == bundle.kernels
    assert [p.name for p in bundle.path.parent.iterdir()] == ["heat"]


@pytest.mark.once
def test_a_dead_compiler_is_reported(
    kernels: list[tikgen.Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dying(arch: str, modules: Any, folder: Path, tell: Any, stop: Any) -> None:
        for module in modules:
            tell(module, Compiled(problem="the process that compiled it died: SIGSEGV"))

    monkeypatch.setattr(writing, "compile_modules", dying)
    with pytest.raises(ExportError, match=r"SIGSEGV; nothing is left to put into the bundle"):
        tikgen.aot.export(kernels[0], tmp_path / "b", [TO])
    assert list(tmp_path.iterdir()) == []


def test_names_that_collide_carry_a_digest(kernels: list[tikgen.Kernel], tmp_path: Path) -> None:
    other = tikgen.build("stencil", dim=2, schedule={"unroll": 2} if ARCH == "cpu" else {})
    module = tikgen.aot.Module([TO])
    module.add_kernel(kernels[0])
    module.add_kernel(kernels[0])
    assert list(module.plan().kernels) == ["stencil_dim2_f32_order2_interior"]
    if other.digest != kernels[0].digest:
        module = tikgen.aot.Module([TO], verify=True, max_examples=1)
        module.add_kernel(kernels[0])
        module.add_kernel(other)
        names = list(module.plan().kernels)
        assert len(names) == 2
        prefix = "stencil_dim2_f32_order2_interior_"
        assert all(n.startswith(prefix) and len(n) == len(prefix) + 8 for n in names)


@pytest.mark.once
def test_several_values_of_a_template_argument_come_out_as_several_kernels(
    ti_arch: str, tmp_path: Path
) -> None:
    """Taichi's own export gives the instance that was compiled last, whichever is asked for."""

    @ti.kernel
    def powers(n: ti.template(), x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
        for i in range(x.shape[0]):
            for _ in ti.static(range(n)):
                x[i] *= 2.0

    for n in (2, 5, 3):
        powers(n, np.ones(4, np.float32))
    module = tikgen.aot.Module([TO])
    with module.add_kernel_template(powers) as template:
        template.instantiate(n=5)
        template.instantiate(n=2)
    found = module.save(tmp_path / "powers", examples=1)
    assert found.ok, found.failures
    with found.load() as runtime:
        for n in (2, 5):
            x = np.ones(6, np.float32)
            runtime.kernels[f"powers_n{n}"](x)
            assert (x == 2**n).all()


@pytest.mark.once
def test_a_program_that_runs_is_left_alone(
    ti_arch: str, kernels: list[tikgen.Kernel], tmp_path: Path, rng: np.random.Generator
) -> None:
    field = ti.field(ti.f32, 5)
    field.fill(3)
    tikgen.aot.export(kernels[0], tmp_path / "b", [TO], examples=1)
    assert (field.to_numpy() == 3).all()
    late = ti.field(ti.f32, 4)  # Which Taichi forbids after an export of its own.
    late.fill(1)
    assert late.to_numpy().sum() == 4


@pytest.mark.once
@pytest.mark.parametrize(
    ("archs", "error"),
    [
        ("vulcan", "takes a sequence of cpu"),
        ([], "takes a sequence"),
        (["x64", "cpu"], "each once"),
    ],
)
def test_archs_are_checked(archs: Any, error: str, tmp_path: Path) -> None:
    if host_arch() != "x64":
        pytest.skip("the names are those of another processor")
    with pytest.raises(ParameterError, match=error):
        tikgen.aot.Module(archs)


@pytest.mark.once
@pytest.mark.parametrize("what", [3, "stencil", [], [1], lambda x: x])
def test_what_is_no_kernel_is_refused(what: Any, tmp_path: Path) -> None:
    with pytest.raises(ExportError):
        tikgen.aot.export(what, tmp_path / "b", [TO])


@pytest.mark.once
def test_a_path_that_holds_something_else_is_left_alone(
    bundle: tikgen.aot.Bundle, kernels: list[tikgen.Kernel], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(BundleError, match="holds something else"):
        tikgen.aot.export(kernels[0], tmp_path / "mine", [TO])
    (bundle.path / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"files that are not the bundle's \(notes.txt\)"):
        tikgen.aot.export(kernels[0], bundle.path, [TO])
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BundleError, match="there is a file of that name"):
        tikgen.aot.export(kernels[0], tmp_path / "file", [TO])
    assert (bundle.path / "notes.txt").read_text() == "mine"


@pytest.fixture
def other_folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "one"
    folder.mkdir()
    yield folder


@pytest.mark.once
def test_folders_are_exchanged_also_where_the_system_cannot(
    other_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (other_folder / "new").touch()
    target = other_folder.with_name("target")
    target.mkdir()
    (target / "old").touch()
    monkeypatch.setattr(staging.sys, "platform", "other")
    staging.publish(other_folder, target)
    assert [p.name for p in target.iterdir()] == ["new"]
    assert [p.name for p in other_folder.iterdir()] == ["old"]
