"""Exports never write a wrong or partial bundle, and never replace foreign files."""

import errno
import math
import shutil
import threading
import time
import types
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import ARCH
from test_aot_export import TO, with_evidence
from tikgen.aot import manifest as m
from tikgen.aot import module as module_file
from tikgen.aot.exporting import (
    compiling,
    existing_bundle,
    export_plan,
    proving,
    staging,
    writing,
)
from tikgen.aot.exporting.compiling import Compiled
from tikgen.aot.exporting.example_data import checked_examples, is_current, worst_error, write_data
from tikgen.aot.exporting.export_plan import Code, KernelPlan, ModulePlan, OwnCheck
from tikgen.aot.exporting.template_kernels import evidence_on
from tikgen.aot.exporting.worker_process import Stopped, WorkerProcess, in_threads
from tikgen.children.process import Died
from tikgen.errors import BundleError, ExportError, ParameterError, UnknownTemplate
from tikgen.pipeline import evidence
from tikgen.store import default_store

pytest_plugins = ["one_compiler"]
pytestmark = pytest.mark.usefixtures("one_compiler")

X = m.Argument(name="x", kind="array", dtype="f32", shape=("x_0",), role="inout")
A = m.Argument(name="a", kind="scalar", dtype="f32")


def own(name: str = "k", check: OwnCheck | None = None, **codes: Code) -> KernelPlan:
    entry = m.Kernel(name=name, family=name, arguments=(X, A))
    return KernelPlan(entry, codes, check or OwnCheck())


def code(digest: str = "0", **options: str) -> Code:
    return Code(text="", function="k", digest=digest, options=options)


@pytest.mark.parametrize(
    ("got", "wanted", "is_right"),
    [
        ([0.0, 0.0], [1e-6, 0.0], False),
        ([1e-6, 1e-13], [1e-6, 0.0], True),
        ([1000.001, 0.0], [1000.0, 0.0], True),
        ([1.001, 0.0], [1.0, 0.0], False),
        ([np.inf, 1.0], [np.nan, 1.0], False),
        ([np.inf, 1.0], [-np.inf, 1.0], False),
        ([np.nan, np.inf], [np.nan, np.inf], True),
        ([np.nan, 1.0], [1.0, 1.0], False),
    ],
)
def test_errors_are_judged_by_what_is_computed(
    got: list[float], wanted: list[float], is_right: bool
) -> None:
    error = worst_error(np.array(got, np.float32), np.array(wanted, np.float32))
    assert (error <= 1) == is_right


def test_shapes_and_half_floats_are_judged() -> None:
    one = np.ones(3, np.float32)
    assert worst_error(one, one[:, None]) == float("inf")
    assert worst_error(np.float16([1.1]), np.float16([1.0])) > 1
    assert worst_error(np.int32([3]), np.int32([2])) == float("inf")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"examples": 0}, "'examples' must be a positive integer; got 0"),
        ({"examples": 2.5}, "'examples' must be"),
        ({"seed": -1}, "'seed' must be None or an integer that is not negative; got -1"),
    ],
)
def test_settings_without_a_proof_are_refused(
    settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=problem):
        tikgen.aot.Module([TO]).save(tmp_path / "b", **settings)


def test_capabilities_are_a_sequence() -> None:
    with pytest.raises(ParameterError, match="takes a sequence of names such as"):
        tikgen.aot.Module(["vulkan"], capabilities="spirv_has_int8")
    with pytest.raises(ParameterError, match="names 'foo', which is none of spirv_has_int8, "):
        tikgen.aot.Module(["vulkan"], capabilities=["foo"])


@pytest.mark.parametrize(
    ("example", "problem"),
    [
        ((np.zeros(4), 1.0), r"an example gives 'x' float64\[4\]; it is f32 of 1 axes"),
        ((np.zeros((4, 1), "f4"), 1.0), r"gives 'x' float32\[4, 1\]"),
        ((np.zeros(4, "f4"), "one"), r"gives 'a' .*; it is a number"),
        ((np.zeros(4, "f4"),), "an example has 1 values; it takes x, a, as a tuple"),
        (np.zeros(4, "f4"), "as a tuple"),
    ],
)
def test_examples_are_checked(example: Any, problem: str) -> None:
    with pytest.raises(ExportError, match=problem):
        checked_examples("k", (X, A), [example])


def test_lists_are_examples_too() -> None:
    ((x, a),) = checked_examples("k", (X, A), [([1, 2], np.float32(0.5))])
    assert (x.dtype, x.tolist(), a) == (np.float32, [1.0, 2.0], 0.5)


def test_a_changed_reference_or_example_is_noticed(tmp_path: Path) -> None:
    def doubled(x: Any, a: float) -> dict[str, Any]:
        return {"x": 2 * x}

    file = tmp_path / "k.npz"
    kernel = own(check=OwnCheck(reference=doubled))
    assert not is_current(kernel, None)
    write_data(kernel, 2, 7, file)
    assert is_current(kernel, file)
    assert is_current(own(), file)
    assert not is_current(own(check=OwnCheck(reference=lambda x, a: {"x": 3 * x})), file)
    examples = ((np.ones(3, np.float32), 1.0),)
    assert not is_current(own(check=OwnCheck(examples=examples)), file)


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ({"x": np.ones((2, 2))}, r"returns 'x' as float64\[2, 2\]; the shape is \[3\]"),
        ({"y": 0}, "it must return a dict from names"),
        ({}, "it must return a dict from names"),
        ({"x": ["a", "b", "c"]}, "returns 'x' as <U1"),
    ],
)
def test_what_a_reference_returns_is_checked(returned: Any, problem: str, tmp_path: Path) -> None:
    check = OwnCheck(((np.ones(3, np.float32), 1.0),), lambda x, a: returned)
    with pytest.raises(ExportError, match=problem):
        write_data(own(check=check), 1, 0, tmp_path / "k.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_reference_that_fails_is_named(tmp_path: Path) -> None:
    check = OwnCheck(reference=lambda x, a: {"x": x + int("no")})
    plan = export_plan.Plan({"k": own(check=check)}, {}, (TO,))
    said = proving._write_examples(plan, tmp_path, [("k", TO)], 1, 0)["k"]
    assert "its reference fails: ValueError: invalid literal" in said


def test_foreign_files_are_not_replaced(tmp_path: Path) -> None:
    archive = tmp_path / "thesis.zip"
    for content in (b"not an archive", None):
        if content is None:
            with zipfile.ZipFile(archive, "w") as packed:
                packed.writestr("thesis.tex", "years of work")
        else:
            archive.write_bytes(content)
        with pytest.raises(BundleError, match="the file holds something else"):
            staging.check_target(archive)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("manifest.json", "{}")
    staging.check_target(archive)
    archive.write_bytes(archive.read_bytes()[:20])  # A truncated bundle may be replaced.
    staging.check_target(archive)

    extension = tmp_path / "extension"
    extension.mkdir()
    (extension / "manifest.json").write_text('{"name": "of a browser"}')
    with pytest.raises(BundleError, match="the folder holds something else"):
        staging.check_target(extension)
    (extension / "manifest.json").write_text('{"tikgen": "0.1", "form')
    (extension / "sources").mkdir()
    (extension / "sources" / "k.x64.py").touch()
    staging.check_target(extension)
    (extension / "code.js").touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(BundleError, match="the folder holds something else"):
        staging.check_target(tmp_path / "deep")
    with pytest.raises(BundleError, match=r"files that are not the bundle's \(code.js\)"):
        staging.check_target(extension)


@pytest.mark.parametrize("name", ["he\0at", "he\0at.zip", "a\0b/heat"])
def test_a_null_character_in_the_path_is_a_bundle_error(name: str, tmp_path: Path) -> None:
    kernel = tikgen.build("map", expr="z = 3*x", dim=1)
    with pytest.raises(BundleError, match="no file name contains a null character"):
        tikgen.aot.export(kernel, f"{tmp_path}/{name}", [TO])
    with pytest.raises(BundleError, match="no file name contains a null character"):
        tikgen.aot.load(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []


def test_another_export_to_the_same_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_LOCK_SECONDS", 0.05)
    with (
        staging.locked(tmp_path / "b"),
        pytest.raises(BundleError, match="another export to it is running"),
        staging.locked(tmp_path / "b"),
    ):
        pass
    with staging.locked(tmp_path / "b"):
        pass


def test_an_interruption_ends_the_wait_for_a_process() -> None:
    is_waiting, has_ended = threading.Event(), threading.Event()

    class Silent(WorkerProcess):
        is_running = True

        def send(self, line: str) -> None:
            pass

        def reply(self, seconds: float) -> dict[str, Any]:
            time.sleep(seconds)
            raise TimeoutError

    def silent(seconds: float, stop: threading.Event) -> WorkerProcess:
        return Silent("none", doing="proof", seconds=seconds, stop=stop)

    def work(item: str, stop: threading.Event) -> None:
        if item == "fails":
            assert is_waiting.wait(300)
            raise KeyboardInterrupt
        is_waiting.set()
        try:
            silent(math.inf, stop).answer({})
        except Stopped:
            has_ended.set()

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, ["waits", "fails"], 2)
    assert has_ended.wait(300)
    assert silent(0.01, threading.Event()).answer({}) == {
        "problem": "its proof took longer than 0.01 s"
    }


def test_a_process_that_dies_or_never_starts_is_told() -> None:
    class Dying(WorkerProcess):
        def start(self) -> str:
            return "" if self._command[-1] == "dies" else "no driver"

        def send(self, line: str) -> None:
            raise Died("killed by SIGSEGV")

    said = [
        Dying("none", how, doing="proof", seconds=1, stop=threading.Event()).answer({})["problem"]
        for how in ("dies", "never starts")
    ]
    assert said == [
        "the process died during its proof: killed by SIGSEGV",
        "its proof could not start: no driver",
    ]


def test_an_arch_that_is_not_here_compiles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "problem_with", lambda arch: f"{arch} is not here")
    told: list[str] = []
    plan = ModulePlan("vulkan/m", "vulkan", {"a": own("a", vulkan=code())}, ())
    compiling.compile_modules(
        "vulkan", [plan], tmp_path, lambda _, found: told.append(found.problem), threading.Event()
    )
    assert told == ["it cannot be compiled and proved here: vulkan is not here"]


def test_kernels_that_differ_on_one_arch_alone_have_two_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plans = iter([own(x64=code("b"), vulkan=code("a")), own(x64=code("c"), vulkan=code("a"))])
    monkeypatch.setattr(module_file, "plan_kernel", lambda *_, **__: next(plans))
    kernel = tikgen.build("stencil", dim=2)
    module = tikgen.aot.Module(["x64", "vulkan"])
    module.add_kernel(kernel)
    module.add_kernel(kernel)
    assert len(module.plan().kernels) == 2


def test_names_that_one_file_would_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_file, "plan_kernel", lambda *_, **__: own(x64=code()))
    module = tikgen.aot.Module(["x64"])
    for name in ("Step", "step"):
        module.add_kernel(tikgen.build("stencil", dim=2), name=name)
    with pytest.raises(ExportError, match="differs from Step in upper and lower case alone"):
        module.plan()


def test_kernels_of_a_module_agree_in_types_of_numbers() -> None:
    kernels = {"a": own("a", x64=code()), "b": own("b", x64=code(default_fp="f64"))}
    with pytest.raises(ExportError, match=r"a and b together: .*default_fp=f32.*default_fp=f64"):
        ModulePlan("x64/m", "x64", kernels, ()).options  # noqa: B018
    kernels["a"] = own("a", x64=code(default_fp="f64"))
    assert ModulePlan("x64/m", "x64", kernels, ()).options == {"default_fp": "f64"}


def test_a_digest_covers_the_parameters() -> None:
    before = ModulePlan("x64/k", "x64", {"k": own(x64=code())}, ())
    for change in ({"literals": "{}"}, {"function": "run"}, {"options": {"default_ip": "i64"}}):
        changed = own(x64=replace(code(), **change))  # type: ignore[arg-type]
        assert ModulePlan("x64/k", "x64", {"k": changed}, ()).digest != before.digest


def test_evidence_of_another_version_is_none() -> None:
    kernel = with_evidence(tikgen.build("map", expr="z = 11*x", dim=2))
    source = tikgen.render(kernel.template, arch=ARCH, **dict(kernel.problem))
    assert evidence_on(source, ARCH) is not None
    key = f"{source.digest}-{ARCH}"
    document = default_store().read(evidence.KIND, key)
    assert document is not None
    default_store().write(evidence.KIND, key, {**document, "of_later": 1})
    assert evidence_on(source, ARCH) is None


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tikgen.aot.Bundle:
    kernel = with_evidence(tikgen.build("map", expr="z = 3*x", dim=1))
    return tikgen.aot.export({"k": kernel}, tmp_path_factory.mktemp("b") / "b", [TO], examples=1)


def _dying(arch: str, modules: Any, folder: Path, tell: Callable[..., None], stop: Any) -> None:
    for module in modules:
        tell(module, Compiled(problem="it died"))


@pytest.mark.once
@pytest.mark.arch
def test_a_disk_that_is_full_costs_nothing(
    bundle: tikgen.aot.Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = {
        "k": with_evidence(tikgen.build("map", expr="z = 3*x", dim=1)),
        "n": with_evidence(tikgen.build("map", expr="z = 5*x", dim=1)),
    }
    full = types.SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    monkeypatch.setattr(writing, "compile_modules", _dying)
    with pytest.raises(BundleError, match="the disk is full; the existing bundle is unchanged"):
        tikgen.aot.export(kernels, bundle.path, [TO])
    assert bundle.verify(prove=False) == ()
    full.free = 1 << 40

    def failing(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "compile_modules", failing)
    with pytest.raises(BundleError, match="the disk is full"):
        tikgen.aot.export(kernels, bundle.path, [TO])
    assert tikgen.aot.Bundle(bundle.path).kernels == ("k",)


@pytest.mark.once
@pytest.mark.arch
def test_a_graph_is_added_without_the_template_and_never_at_a_kernels_cost(
    bundle: tikgen.aot.Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(bundle.path, tmp_path / "b")

    def unknown(name: str) -> None:
        raise UnknownTemplate(name, [])

    monkeypatch.setattr(existing_bundle, "find_template", unknown)
    found = tikgen.aot.Bundle(tmp_path / "b").add_graph("twice", [("k", "x", "y"), ("k", "y", "z")])
    assert found.graphs == ("twice",)
    assert found.reused == (("k", TO),)
    monkeypatch.setattr(export_plan, "__version__", "0.0.later")
    monkeypatch.setattr(writing, "compile_modules", _dying)
    with pytest.raises(ExportError, match=r"its artefact for .* would be lost: it died"):
        found.add_graph("again", [("k", "x", "y")])
    assert found.verify(prove=False) == ()


@pytest.mark.once
@pytest.mark.arch
def test_a_link_leads_to_the_bundle(bundle: tikgen.aot.Bundle, tmp_path: Path) -> None:
    shutil.copytree(bundle.path, tmp_path / "größe 1")
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "größe 1")
    kernel = with_evidence(tikgen.build("map", expr="z = 3*x", dim=1))
    found = tikgen.aot.export({"other": kernel}, link, [TO], examples=1)
    assert link.is_symlink()
    assert found.manifest.name == "latest"
    assert tikgen.aot.Bundle(tmp_path / "größe 1").kernels == ("other",)
    assert len(list(tmp_path.iterdir())) == 2


LINE = ti.types.ndarray(dtype=ti.f32, ndim=1)


@pytest.mark.arch
@pytest.mark.once
def test_kernels_that_share_fields_are_proved_one_by_one(ti_arch: str, tmp_path: Path) -> None:
    heat = ti.field(ti.f32, 4)

    @ti.kernel
    def fields(x: LINE, y: LINE):
        for i in x:
            y[i] = 2 * x[i]

    @ti.kernel
    def read_heat(by: ti.f32, y: LINE):
        for i in heat:
            heat[i] += by
        for i in y:
            y[i] += 1

    @ti.kernel
    def broken(x: LINE):
        for i in heat:
            x[i, i] = heat[i]

    def module_of(factor: float, *more: Any) -> tikgen.aot.Module:
        module = tikgen.aot.Module([TO])
        module.add_field("heat", heat)
        module.add_kernel(fields, reference=lambda x, y: {"y": factor * x})
        module.add_kernel(read_heat, reference=lambda by, y: {"heat": np.full(4, by, np.float32)})
        for kernel in more:
            module.add_kernel(kernel)
        module.add_graph("step", [("fields", "x", "y"), ("read_heat", 0.5, "y")])
        return module

    path = tmp_path / "b"
    found = module_of(2, broken).save(path, examples=1)
    assert [f.name for f in found.failures] == ["broken"], found.failures
    again = module_of(2).save(path, examples=1)
    assert again.ok
    assert again.reused == tuple((name, TO) for name in ("fields", "read_heat", "step"))
    proofs = [build.proof for e in again.manifest.launchable for build in e.builds.values()]
    assert [proof.against for proof in proofs if proof] == ["reference", "reference", "kernels"]
    wrong = module_of(3).save(path, examples=1)
    problems = {failure.name: failure.problem for failure in wrong.failures}
    assert "y differs from what reference computes" in problems["fields"]
    assert wrong.kernels == ("read_heat",)
