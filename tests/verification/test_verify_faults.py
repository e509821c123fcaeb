"""Verification reports faults other than wrong arithmetic: crashes, workspaces, methods."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tikgen
from mutants import MUTANTS
from test_verify import (
    ARCH,
    BEFORE,
    TWICE_CODE,
    TWICE_TEXT,
    failure_of,
    make_template,
    verify_briefly,
)
from tikgen.errors import TemplateError
from tikgen.taichi import runtime
from tikgen.verification import Trial


@pytest.fixture
def check(tmp_path, one_process):
    return functools.partial(verify_briefly, folder=tmp_path)


@pytest.mark.parametrize("statement", ["os.abort()", "time.sleep(3600)", "x[len(x)]"])
def test_evidence_of_a_kernel_is_withdrawn_when_it_crashes_hangs_or_raises(
    check, tmp_path, statement
):
    switch = tmp_path / "broken"
    code = TWICE_CODE.replace(
        BEFORE, f"if os.path.exists({str(switch)!r}): {statement}\n        {BEFORE}"
    )
    template = make_template(tmp_path, "sometimes", TWICE_TEXT, code)
    settings = {"max_examples": 2, "shrink_seconds": 0, "dtype": "i32"}
    assert check(template, **settings).ok
    kernel = tikgen.build(template, dtype="i32")
    assert kernel.evidence[0].passed
    switch.touch()
    assert not check(template, timeout=3, **settings).ok
    assert not kernel.evidence[0].passed


@pytest.mark.once
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("defect", ["bins not cleared", "workspace taken for zeros"])
def test_a_workspace_never_holds_zeros_by_luck(ti_arch, tmp_path, defect, seed):
    (mutant,) = (m for m in MUTANTS if m.defect == defect)
    template = mutant.make(tmp_path)
    sizes = template.middle_sizes(tikgen.build(template, **mutant.params).problem)
    trial = Trial(template, mutant.params, sizes=sizes, seed=seed)
    assert [trial.run().kind for _ in range(2)] == ["mismatch", "mismatch"]


STAYS = """out = y.astype(p.dtype.wide)
        out[:-1] = 2 * x[:-1]
        return out
"""
UPDATES = {
    "sum": lambda y: y + 3,
    "product": lambda y: y * y.dtype.type(3),
    "greatest": lambda y: np.fmax(y, 3),
    "least": lambda y: np.fmin(y, 3),
    "write": lambda y: 3,
}


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_no_update_of_an_element_that_must_stay_is_missed(ti_arch, tmp_path, dtype):
    code = TWICE_CODE.replace("return 2 * x.astype(p.dtype.wide)\n", STAYS)
    # The tolerance does not grow with what must stay.
    code += TOLERANCE + "return {'y': 1e-9 * np.nanmax(np.abs(expected['y']), initial=0)}\n"
    template = make_template(tmp_path, "stays", TWICE_TEXT, "import numpy as np\n" + code)

    def outcomes(update, error=0):
        def launch(values):
            x, y = values
            y[:-1] = 2 * x[:-1] + error
            with np.errstate(over="ignore"):
                y[-1] = update(y[-1])

        settings = {"sizes": {"n": 7}, "launch": launch}
        return [Trial(template, {"dtype": dtype}, seed=n, **settings).run() for n in range(5)]

    assert all(outcome.ok for outcome in outcomes(lambda y: y))
    if dtype == "f32":
        assert not any(outcome.ok for outcome in outcomes(lambda y: y, 1e-3))
    for name, update in UPDATES.items():
        found = [outcome.message for outcome in outcomes(update)]
        assert any("y[6] must stay untouched" in message for message in found), name


# Zero, whatever is read.
NEIGHBOUR = "x[i] + x[i] + ti.min(ti.max(x[i {} 1], 0.0), 0.0)"


@pytest.mark.skipif(ARCH == "vulkan", reason="memory of Vulkan cannot be fenced")
@pytest.mark.parametrize("sign", "+-")
def test_a_read_outside_is_found_though_nothing_depends_on_it(check, tmp_path, sign):
    text = TWICE_TEXT.replace("x[i] + x[i]", NEIGHBOUR.format(sign))
    template = make_template(tmp_path, "curious", text, TWICE_CODE)
    failure = failure_of(check(template, dtype="f32"))
    assert failure.case.container == "fenced"
    assert failure.outcome.kind == "crash"
    assert "reads or writes outside an array" in failure.outcome.message


@pytest.mark.skipif(ARCH != "cpu", reason="only the processor's memory can be made read-only")
def test_an_input_that_is_stored_as_it_was_is_found(check, tmp_path):
    text = TWICE_TEXT.replace("        y[i] =", "        x[i] = ti.min(x[i], 1e30)\n        y[i] =")
    assert text != TWICE_TEXT
    failure = failure_of(check(make_template(tmp_path, "careless", text, TWICE_CODE), dtype="f32"))
    assert failure.case.container == "fenced"
    assert "or changes an input" in failure.outcome.message


TOLERANCE = "\n    @staticmethod\n    def tolerance(p, inputs, expected):\n        "
INFINITE = TOLERANCE + "return {'y': float('inf')}\n"


def test_examples_that_compare_nothing_are_followed_by_more(check, tmp_path):
    only_large = INFINITE.replace("float('inf')", "float('inf') if inputs['x'].size < 6 else 0")
    template = make_template(tmp_path, "large", TWICE_TEXT, TWICE_CODE + only_large)
    for seed in range(3):
        assert check(template, max_examples=1, dtype="f32", seed=seed).ok


def test_the_largest_sizes_are_among_them(check, tmp_path):
    sizes = "\n    @staticmethod\n    def sizes(p):\n        return {'n': tuple(range(1, 201))}\n"
    only_largest = INFINITE.replace(
        "float('inf')", "0 if inputs['x'].size == 200 else float('inf')"
    )
    template = make_template(tmp_path, "largest", TWICE_TEXT, TWICE_CODE + sizes + only_largest)
    for seed in range(3):
        assert check(template, max_examples=1, dtype="f32", seed=seed).ok


def test_a_tolerance_that_forgives_everything_is_reported(check, tmp_path):
    text = TWICE_TEXT.replace("x[i] + x[i]", "2 * x[i]")  # Other tests leave evidence of theirs.
    template = make_template(tmp_path, "lenient", text, TWICE_CODE + INFINITE)
    failure = failure_of(check(template, max_examples=3, dtype="f32"))
    assert failure.outcome.kind == "uncompared"
    assert "no element of y was compared" in str(failure)
    assert failure.script is None
    found = tikgen.build(template, dtype="f32").evidence
    assert found
    assert not any(evidence.passed for evidence in found)


def test_a_tolerance_may_be_infinite_for_some_elements(check, tmp_path):
    some = "return {'y': [float('inf') if i else 0 for i in range(len(expected['y']))]}\n"
    code = TWICE_CODE + TOLERANCE + some
    report = check(make_template(tmp_path, "partial", TWICE_TEXT, code), max_examples=3)
    assert report.ok, str(report)


CHANGES = {
    "reference": (TWICE_CODE.replace(BEFORE, f"x[:] = 0\n        {BEFORE}"), "changes x"),
    "output": (
        TWICE_CODE.replace(BEFORE, f"y[:] = 2 * x\n        return y\n        {BEFORE}"),
        "changes y",
    ),
    "tolerance": (
        TWICE_CODE + TOLERANCE + "inputs['x'][:] = 0\n        return {'y': 0}\n", "changes x",
    ),
    "expected": (
        TWICE_CODE + TOLERANCE + "expected['y'][:] = 0\n        return {'y': 0}\n", "changes y",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_reference_or_tolerance_that_changes_its_arguments_is_reported(check, tmp_path, what):
    code, found = CHANGES[what]
    failure = failure_of(check(make_template(tmp_path, f"{what}_changed", TWICE_TEXT, code)))
    assert failure.outcome.kind == "error"
    assert found in failure.outcome.message
    assert "must only read" in failure.outcome.message


def test_a_reference_that_returns_no_numbers_is_reported(check, tmp_path):
    code = TWICE_CODE.replace(BEFORE, f"return np.full(x.shape, 'a')\n        {BEFORE}")
    template = make_template(tmp_path, "texts", TWICE_TEXT, "import numpy as np\n" + code)
    assert "reference() gives y the dtype <U1" in failure_of(check(template)).outcome.message


def test_a_template_without_a_reference_is_told_that_it_needs_one(check, tmp_path):
    code = TWICE_CODE[: TWICE_CODE.index("    @staticmethod")]
    template = make_template(tmp_path, "free", TWICE_TEXT, code)
    with pytest.raises(TemplateError, match=r"it needs a method reference\(p, ...\) that"):
        check(template)


def method(name: str, body: str) -> str:
    """Return the code of one more method of a template."""
    static = "    @staticmethod\n" if name in ("inputs", "reference", "tolerance") else ""
    takes = {
        "inputs": "p, sizes, rng", "tolerance": "p, inputs, expected", "strategies": "self",
        "adjust": "self, drawn, arch", "default_schedule": "self, p, arch, sizes",
        "check": "self, p, s, arch", "full_sizes": "self, p, s",
        "reference": "p, x, y",
        "unsupported": "self, p, arch", "workspace": "self, p, s", "sizes": "self, p",
    }[name]  # fmt: skip
    return f"\n{static}    def {name}({takes}):\n        {body}\n"


@pytest.mark.parametrize(
    ("name", "body", "found"),
    [
        ("inputs", "return {}['lost']", "inputs() fails: KeyError: 'lost' (in template.py:"),
        ("inputs", "return {'x': [1]}", "inputs() gives x the shape (1,), not ("),
        ("inputs", "return 7", "inputs() returned 7; it must return a dict"),
        ("inputs", "return {'z': 0}", "inputs() names 'z', which is no argument of the template"),
        ("tolerance", "return p.lost", "no attribute 'lost' (in template.py:"),
        ("tolerance", "{'y': 0}", "tolerance() returned None; it must return a dict"),
        ("tolerance", "return {'y': -1}", "tolerance() gives y -1.0; it takes a number that is"),
        ("reference", "pass", "reference() returned None; it must return y"),
    ],
)
def test_a_method_that_fails_in_a_launch_is_reported(check, tmp_path, name, body, found):
    code = TWICE_CODE + method(name, body) + method("sizes", "return {'n': (2, 3)}")
    failure = failure_of(check(make_template(tmp_path, "failing", TWICE_TEXT, code)))
    assert failure.outcome.kind == "error"
    assert found in failure.outcome.message


@pytest.mark.parametrize(
    ("name", "body", "found"),
    [
        ("sizes", "return 1 / 0", r"sizes\(\) fails: ZeroDivisionError: .* \(in template.py:"),
        ("sizes", "return [3]", r"sizes\(\) returned \[3\]; it must return a dict"),
        ("sizes", "return {'m': (3,)}", r"sizes\(\) names 'm', which is no size of the template"),
        ("strategies", "return {'m': 3}", r"strategies\(\) names 'm', which is no parameter"),
        ("sizes", "return {'n': ()}", r"sizes\(\) must give n sizes .*; gives \[\]"),
        (
            "sizes",
            "return {'n': (2.5,)}",
            r"sizes\(\) must give n sizes .*; gives \[2.5\]",
        ),
        ("strategies", "return 1 / 0", r"strategies\(\) fails: ZeroDivisionError"),
        ("adjust", "return 1 / 0", r"adjust\(\) fails: ZeroDivisionError"),
        ("check", "return 1 / 0", r"check\(\) fails: ZeroDivisionError"),
        ("adjust", "pass", r"adjust\(\) returned None; it must return a dict"),
        ("default_schedule", "return 1 / 0", r"default_schedule\(\) fails: ZeroDivisionError"),
        ("full_sizes", "return 3", r"full_sizes\(\) returned 3; it must return a tuple of dicts"),
        ("unsupported", "return 1 / 0", r"unsupported\(\) fails: ZeroDivisionError"),
        ("workspace", "return 1 / 0", r"workspace\(\) fails: ZeroDivisionError"),
    ],
)
def test_a_method_that_fails_while_drawing_is_named(check, tmp_path, name, body, found):
    template = make_template(tmp_path, "failing", TWICE_TEXT, TWICE_CODE + method(name, body))
    with pytest.raises(TemplateError, match=found):
        check(template, max_examples=3)


@pytest.mark.parametrize("has_cache", [False, True])
def test_a_fault_with_or_without_an_offline_cache_is_found(check, tmp_path, has_cache):
    wrong = f"(ti.lang.impl.current_cfg().offline_cache == {has_cache})"
    code = "import taichi as ti\n" + TWICE_CODE.replace(BEFORE, f"return {wrong} + 2 *")
    template = make_template(tmp_path, f"cached{has_cache}", TWICE_TEXT, code)
    failure = failure_of(check(template, max_examples=4))
    assert failure.case.offline_cache is has_cache
    assert f"offline_cache={has_cache}" in failure.script.read_text()
    assert ("offline cache" in str(failure)) is has_cache


@pytest.mark.parametrize("fast_math", [False, True])
def test_a_fault_with_or_without_fast_math_is_found(check, tmp_path, fast_math):
    wrong = f"(ti.lang.impl.current_cfg().fast_math == {fast_math})"
    code = "import taichi as ti\n" + TWICE_CODE.replace(BEFORE, f"return {wrong} + 2 *")
    template = make_template(tmp_path, f"strict{fast_math}", TWICE_TEXT, code)
    failure = failure_of(check(template, max_examples=4))
    assert failure.case.fast_math is fast_math
    assert f"fast_math={fast_math}" in failure.script.read_text()
    assert ("without fast math" in str(failure)) is not fast_math
    found = tikgen.build(template, shape=failure.case.shape, **failure.case.params).evidence
    assert not found or any(fast_math in each.fast_math for each in found)


@pytest.mark.parametrize("does_again", [False, True])
def test_a_failure_that_is_not_drawn_again_is_reported(check, tmp_path, does_again):
    draws = method("adjust", "calls.append(1)\n        return drawn | {'dtype': DTYPE}")
    draws = draws.replace("DTYPE", "'i32' if len(calls) == 3 else 'f32'")
    # In the process of the arch only the first two calls of the reference are counted.
    wrong = "return (p.dtype == 'i32' and (calls.append(1) or len(calls) < MOST)) + 2 *"
    wrong = wrong.replace("MOST", "99" if does_again else "3")
    code = "calls = []\n" + TWICE_CODE.replace(BEFORE, wrong) + draws
    template = make_template(tmp_path, f"flaky{does_again}", TWICE_TEXT, code)
    failure = failure_of(check(template, shrink_seconds=9))
    assert failure.outcome.kind == "mismatch"
    assert ("this did not happen again" in failure.outcome.message) is not does_again


def test_parameters_that_are_not_varied_are_reported(check, tmp_path):
    code = TWICE_CODE.replace("import Array,", "import Array, Expression, Identifier,").replace(
        "dtype: DType",
        'label: dict[Identifier, int] = parameter("a name", {})\n'
        '        shift: float = parameter("a number", 1.0)\n        dtype: DType',
    )
    template = make_template(tmp_path, "partly", TWICE_TEXT, code)
    report = check(template, max_examples=6, dtype="i32")
    assert report.ok, str(report)
    (found,) = report.archs
    assert found.never_varied == ("label",)
    assert "NEVER VARIED: label\n" in str(report) + "\n"
    assert "NEVER VARIED: label" in report._repr_html_()
    assert report.to_dict()["archs"][0]["never_varied"] == ["label"]
    found = tikgen.build(template, dtype="i32").evidence
    assert found
    assert all(list(evidence.never_varied) == ["label"] for evidence in found)


def test_a_schedule_parameter_with_one_value_on_the_arch_gives_no_warning(check):
    report = check("transpose", max_examples=4, perm=(1, 0), dtype="f32", loop="rows")
    (found,) = report.archs
    assert "tile" in found.pinned
    assert "tile" not in found.never_varied
    assert f"one value only on {found.arch}: " in str(report)


def test_a_parameter_that_no_variant_may_vary_is_no_alarm(check):
    # A product has one accuracy; other values are drawn, and adjusted.
    (found,) = check("reduce", max_examples=4, op="prod", dtype="i32", dim=1).archs
    assert "accuracy" in found.pinned
    assert "accuracy" not in found.never_varied
    # A sum of f32 has three, of which few examples show one: that may be an alarm.
    (found,) = check("reduce", max_examples=1, op="sum", dtype="f32", dim=1).archs
    assert "accuracy" not in found.pinned


# Wrong for large numbers only.
LARGE = "y[i] = x[i] if x[i] > 1000 else x[i] + x[i]"


@pytest.mark.some
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_large_numbers_are_drawn_where_the_template_says_so(check, tmp_path, dtype):
    declared = TWICE_CODE.replace('"x", p.dtype, ("n",)', '"x", p.dtype, ("n",), values="any"')
    assert declared != TWICE_CODE
    right = make_template(tmp_path, "right", TWICE_TEXT, declared)
    assert check(right, max_examples=25, dtype=dtype).ok
    text = TWICE_TEXT.replace("y[i] = x[i] + x[i]", LARGE)
    wrong = make_template(tmp_path, "wrong", text, declared)
    found = failure_of(check(wrong, max_examples=60, dtype=dtype))
    assert found.case.data == "wide"


def test_a_tolerance_that_allows_anything_is_a_warning(check, tmp_path):
    code = (
        "import numpy as np\n"
        + TWICE_CODE
        + """
    @staticmethod
    def tolerance(p, inputs, expected):
        return {"y": np.where(np.arange(expected["y"].size) == 0, 0, 1e30)}
"""
    )
    template = make_template(tmp_path, "anything", TWICE_TEXT, code)
    report = check(template, max_examples=9)
    assert report.ok
    assert "LOOSE TOLERANCE: most elements of y could as well be 0" in str(report)
    assert report.to_dict()["archs"][0]["loose"] == ["y"]
    twice = make_template(tmp_path, "twice", TWICE_TEXT, TWICE_CODE)
    assert "LOOSE" not in str(check(twice, max_examples=9))


@pytest.mark.skipif(ARCH != "cpu", reason="threads of the processor")
def test_iterations_that_need_earlier_ones_are_found_in_small_arrays(ti_arch, tmp_path):
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    if runtime.threads() < 2:
        pytest.skip("one thread takes every loop as a whole")
    text = TWICE_TEXT.replace(
        "y[i] = x[i] + x[i]", "y[i] = x[i]\n        if i > 0:\n            y[i] += y[i - 1]"
    )
    code = TWICE_CODE.replace(f"{BEFORE} x.astype(p.dtype.wide)", "return x.cumsum()")
    template = make_template(tmp_path, "summed", text, code.replace("inplace=True", ""))
    trial = Trial(template, {"dtype": "i32"}, sizes={"n": 40}, engine="direct-cpu", repeats=1)
    outcome = trial.run()
    assert outcome.kind == "mismatch"
    assert "parallel loops ran backwards in one thread" in outcome.message
