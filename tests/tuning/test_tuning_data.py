"""The data on which kernels are timed: typical of a template, or a user's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import built_in_templates
from tikgen import Template
from tikgen.errors import ArgumentError, ParameterError, TemplateError
from tikgen.pipeline import records
from tikgen.pipeline.builder import resolve
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.catalogue import find_template
from tikgen.tuning import measuring
from tikgen.tuning.given_data import load, own_data, saved, typical_values
from tikgen.tuning.job import Job
from tikgen.tuning.run import tune
from tikgen.tuning.workload import Workload
from tuning_templates import SCALED_CODE, SCALED_TEXT, Simulated, make

ARCH = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
NEEDED = {"map": {"expr": "y = a*x + y"}, "ring": {"handler": "y = x", "inputs": {"x": "f32"}}}
NEEDED["ring"] |= {"outputs": {"y": "f32"}}
NEEDED["update"] = {"equations": "u' = u + lap(u)"}
# Problems whose typical data is another one than that of the template's defaults.
FURTHER = [
    ("map", {"expr": "y = sqrt(x) + log(b)"}),
    ("map", {"expr": "y = x // b", "dtype": "i32"}),
    ("update", {"equations": "u' = u + sqrt(w)*dx(u) + log(a)", "scalars": ("a",)}),
    ("update", {"equations": "u' = u + dxx(u)", "dtype": "i32", "dim": 1}),
    ("histogram", {"dtype": "f64", "weighted": True}),
    ("histogram", {"dtype": "i8"}),
    ("histogram", {"dtype": "u64"}),
    ("reduce", {"op": "any"}),
    ("reduce", {"op": "prod", "dtype": "f16"}),
    ("reduce", {"accuracy": "kahan"}),
    ("reduce", {"op": "dot", "dtype": "i64"}),
    ("scan", {"op": "prod", "dtype": "f32"}),
    ("spmv", {"format": "ell"}),
    ("spmv", {"dtype": "i32", "index_dtype": "i64"}),
    ("gemm", {"dtype": "i32"}),
    ("stencil", {"update": True, "dtype": "i32"}),
]
CASES = [*((name, NEEDED.get(name, {})) for name in sorted(built_in_templates())), *FURTHER]


@pytest.fixture(autouse=True)
def _no_records() -> Iterator[None]:
    records.forget(lambda record: True)
    yield
    records.forget(lambda record: True)
    measuring.forget()


@pytest.mark.parametrize(("name", "params"), CASES, ids=str)
def test_typical_data_is_finite_in_range_and_of_the_right_shape(name: str, params) -> None:
    template = find_template(name)
    problem = resolve(name, arch="cpu", **params).problem
    symbols = template.size_symbols(problem)
    for sizes in (dict.fromkeys(symbols, 1), {s: 90 + 7 * i for i, s in enumerate(symbols)}):
        for values in map(dict, typical_values(template, problem, sizes, 3).values()):
            for argument in template.arguments(problem):
                value = np.asarray(values[argument.name])
                if isinstance(argument, Array):
                    assert value.dtype == argument.dtype.numpy
                    assert value.shape == concrete_shape(argument, sizes)
                    if argument.role == "out":
                        values[argument.name] = np.zeros_like(value)
                        continue
                assert np.isfinite(value).all()
            expected = template.reference(problem, *values.values())
            for result in expected if isinstance(expected, tuple) else (expected,):
                assert np.isfinite(np.asarray(result, float)).all()


@pytest.mark.parametrize("name", sorted(built_in_templates() - {"stencil", "transpose"}))
def test_every_template_whose_numbers_matter_declares_its_data(name: str) -> None:
    assert type(find_template(name)).workload is not Template.workload
    # The others take any numbers: they have no data of their own for verification either.
    for plain in ("stencil", "transpose"):
        assert type(find_template(plain)).inputs is Template.inputs


def test_a_histogram_is_timed_on_numbers_in_its_range() -> None:
    template = find_template("histogram")
    problem = resolve("histogram", arch="cpu").problem
    kinds = typical_values(template, problem, {"n": 100_003}, 0)
    assert set(kinds) == {"uniform", "peaked"}
    for kind, values in kinds.items():
        counts = template.reference(problem, *values.values())
        assert counts.sum() == 100_003
        assert (counts.max() > 5 * counts.mean()) == (kind == "peaked")


def test_rows_of_sparse_matrices_are_even_or_spread() -> None:
    template = find_template("spmv")
    sizes = {"nnz": 5003, "rows": 1000, "cols": 700}
    problem = resolve("spmv", arch="cpu").problem
    kinds = typical_values(template, problem, sizes, 0)
    lengths = {kind: np.diff(values["indptr"]) for kind, values in kinds.items()}
    assert set(lengths["even"]) == {5, 6}
    assert lengths["spread"].max() > 20
    for kind, values in kinds.items():
        assert lengths[kind].sum() == 5003
        assert lengths[kind].min() >= 0
        assert 0 <= values["indices"].min() <= values["indices"].max() < 700


def test_without_a_declaration_structure_is_kept_without_special_values(tmp_path: Path) -> None:
    code = (
        SCALED_CODE
        + """
    @staticmethod
    def inputs(p, sizes, rng):
        import numpy as np

        x = np.arange(sizes["n"], dtype="f4")
        x[::2] = np.nan
        x[3] = np.inf
        return {"x": x}
"""
    )
    template = make(tmp_path, "scaled", SCALED_TEXT, code)
    problem = resolve(template, arch="cpu").problem
    (values,) = typical_values(template, problem, {"n": 8}, 0).values()
    assert values["x"][[1, 5, 7]].tolist() == [1, 5, 7]
    assert np.isfinite(values["x"]).all()
    assert 1 <= values["x"].min() <= values["x"].max() <= 7


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return {}", r"workload\(\) gives no data"),
        ("return {'a': {'x': [1.0]}}", r"workload\(\) gives x the shape \(1,\), not \(8,\)"),
        ("return {'a': 3}", r"workload\(\) returned 3; it must return a dict"),
    ],
)
def test_a_workload_that_does_not_fit_is_an_error_of_the_template(
    tmp_path: Path, body: str, says: str
) -> None:
    code = SCALED_CODE + f"\n    def workload(self, p, sizes, rng):\n        {body}\n"
    template = make(tmp_path, "scaled", SCALED_TEXT, code)
    with pytest.raises(TemplateError, match=says):
        typical_values(template, resolve(template, arch="cpu").problem, {"n": 8}, 0)


def given_to(template: str, *args, problem=None, **named):
    found = resolve(template, arch="cpu", **(problem or {})).problem
    return own_data(find_template(template), found, args, named)


def test_own_data_gives_the_sizes_and_may_lack_outputs() -> None:
    x = np.linspace(0, 1, 77, dtype=np.float32)
    data = given_to("histogram", x=x, lo=0.0, hi=1.0)
    assert data.sizes == {"n": 77}
    assert data.values["counts"].shape == (64,)
    # Neither what is added to an element that must stay nor what is never written is missed.
    assert len({*data.values["counts"].tolist()}) == 2
    assert data.values["x"] is not x
    assert data.digest == given_to("histogram", x=x.copy(), lo=0.0, hi=1.0).digest
    assert data.digest != given_to("histogram", x=x, lo=0.0, hi=2.0).digest


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x": np.zeros(5, np.float32), "lo": 0.0}, "argument hi is missing"),
        ({"x": np.zeros(5), "lo": 0.0, "hi": 1.0}, "x.*takes dtype f32.*got float64"),
        ({"x": np.zeros((5, 2), np.float32), "lo": 0.0, "hi": 1.0}, "x.*takes 1 axis"),
        ({"x": [1.0], "lo": 0.0, "hi": 1.0}, "takes a NumPy array"),
        ({"z": 3}, "no argument 'z'"),
        ({"x": np.zeros(0, np.float32), "lo": 0.0, "hi": 1.0}, "is empty"),
        ({"x": np.zeros(5, object), "lo": 0.0, "hi": 1.0}, "takes dtype f32"),
    ],
)
def test_own_data_that_does_not_fit_is_refused(given, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        given_to("histogram", **given)
    with pytest.raises(ArgumentError, match=says):
        tune("histogram", arguments=given)


def test_arguments_and_shape_have_to_agree() -> None:
    given = {"x": np.zeros(5, np.float32), "lo": 0.0, "hi": 1.0}
    with pytest.raises(ParameterError, match=r"shape.*is n=6, and the arguments have n=5"):
        tune("histogram", arguments=given, shape=6)
    with pytest.raises(ParameterError, match=r"shape.*is needed, unless your own data"):
        tune("histogram")
    with pytest.raises(ParameterError, match=r"arguments.*takes values by name"):
        tune("histogram", arguments=3)


def test_own_data_travels_without_pickles_and_is_removed() -> None:
    x = np.arange(5.0, dtype=np.float32)
    data = given_to("histogram", x=x, lo=-1.0, hi=9.0)
    arguments = find_template("histogram").arguments(resolve("histogram", arch="cpu").problem)
    with saved(data) as place:
        folder = Path(place.folder)
        assert folder.stat().st_mode & 0o077 == 0
        (found,) = load(place.folder, arguments).values()
        assert found["x"].tolist() == x.tolist()
        assert (found["lo"], found["hi"]) == (-1.0, 9.0)
        np.save(folder / "x.npy", np.array([{}]), allow_pickle=True)
        with pytest.raises(ValueError, match="allow_pickle"):
            load(place.folder, arguments)
    assert not folder.exists()


def test_an_output_that_is_an_input_is_restored_before_each_batch(ti_arch: str) -> None:
    x = np.arange(64, dtype=np.float32)
    data = given_to("scan", x, x)
    assert data.same == {"out": "x"}
    template = find_template("scan")
    problem = resolve("scan", arch=ti_arch).problem
    with saved(data) as place:
        job = Job(
            "scan",
            str(template.folder),
            ti_arch,
            {"chunks": 7},  # The default has millions of elements to share out on a GPU.
            data.sizes,
            data=place.folder,
            same=data.same,
        )
        workload = Workload(template, problem, job)
        values = workload.use("own")
        assert values[0] is values[1]
        for _ in range(3):
            tikgen.build("scan", arch=ti_arch)(*values)
            assert workload.judge()[1] == ""
            workload.restore()
        assert np.array_equal(tikgen.taichi.arrays.to_host(values[0]), x)
        assert measuring.measure(job, job).ok


@pytest.mark.parametrize(
    ("name", "params", "sizes"),
    [
        ("spmv", {"dtype": "f64"}, {"nnz": 300, "rows": 40, "cols": 50}),
        ("histogram", {}, {"n": 999}),
        ("map", {"expr": "y = a*x + y"}, {"n0": 500}),
        ("stencil", {"dim": 2, "storage": "field"}, {"n0": 33, "n1": 20}),
    ],
)
def test_every_kind_of_data_is_verified_and_timed(
    ti_arch: str, monkeypatch: pytest.MonkeyPatch, name: str, params, sizes
) -> None:
    used: list[str] = []
    use = Workload.use
    monkeypatch.setattr(Workload, "use", lambda self, kind: used.append(kind) or use(self, kind))
    job = Job.of(resolve(name, arch=ti_arch, **params), ti_arch, sizes, rounds=2)
    found = measuring.measure(job, job)
    assert found.ok, found
    assert len(found.ratios) == found.rounds
    problem = resolve(name, arch=ti_arch, **params).problem
    kinds = list(typical_values(find_template(name), problem, sizes, 0))
    assert list(dict.fromkeys(used)) == kinds


def test_without_a_reference_candidates_have_to_agree_with_the_baseline(
    ti_arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tikgen.tuning import workload

    monkeypatch.setattr(workload, "MOST_REFERENCE_SECONDS", -1.0)
    monkeypatch.setattr(measuring, "_small_trials", lambda *_: [])
    text = SCALED_TEXT.replace("* x[i]", "* x[i] + ({{ s.unroll }} - 1)")
    template = make(tmp_path, "scaled", text, SCALED_CODE)

    def job(unroll: int) -> Job:
        return Job.of(resolve(template, arch=ti_arch, unroll=unroll), ti_arch, {"n": 64}, rounds=1)

    found = measuring.measure(job(4), job(1))
    assert (found.kind, "expected" in found.message) == ("mismatch", True)


def test_a_kernel_is_tuned_on_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []

    class Watched(Simulated):
        def run(self, job: Job, baseline: Job | None = None):
            assert sorted(p.name for p in Path(job.data).iterdir()) == ["x.npy", "y.npy"]
            jobs.append(job)
            return super().run(job, baseline)

    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Watched)
    template = make(tmp_path, "scaled", SCALED_TEXT, SCALED_CODE)
    kernel = tikgen.build(template, arch="cpu", dtype="f64")
    result = kernel.tune(np.ones(50), arch="cpu")
    assert (result.workload, result.sizes, result.problem["dtype"]) == ("own", {"n": 50}, "f64")
    assert {r.workload for r in result.records} == {"own"}
    assert "timed on your own data" in str(result)
    assert not Path(jobs[0].data).exists()
    tuned = tikgen.build(template, arch="cpu", dtype="f64", shape=(50,))
    assert "with your own data" in tuned.schedule_origin
    # The same data again continues; other data starts anew, and so does typical data.
    assert kernel.tune(np.ones(50), arch="cpu").measured == 0
    assert kernel.tune(arguments={"x": np.zeros(50)}, arch="cpu").measured > 20
    assert len(records.all_records()) == 24
    monkeypatch.setattr("tikgen.tuning.run.MeasuringProcess", Simulated)
    typical = tune(template, shape=50, dtype="f64", arch="cpu")
    assert typical.measured > 20
    assert typical.workload == "typical"
    assert len(records.all_records()) == 48
    again = tikgen.build(template, arch="cpu", dtype="f64", shape=(50,))
    assert "with your own data" in again.schedule_origin


@pytest.mark.slow
def test_own_data_of_every_kind_of_array_is_timed_in_another_process() -> None:
    init = getattr(ti, ARCH)
    ti.init(arch=init, log_level=ti.ERROR)
    x = ti.ndarray(ti.f32, 4096)
    x.fill(0.25)
    kernel = tikgen.build("histogram", arch=ARCH)
    result = kernel.tune(arguments={"x": x, "lo": 0.0, "hi": 1.0}, arch=ARCH, budget=3)
    assert result.kinds["timed"] >= 1
    assert result.workload == "own"
