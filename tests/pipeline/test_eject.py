"""Ejected kernels: standalone files that check themselves."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tikgen
from conftest import built_in_templates
from ejected_files import run_alone
from some_cases import examples
from tikgen.errors import TemplateError

UPDATE = "r = dx(v); u' = a*lap(u) - r; q = where(i > 1, u[0, 1], x)"
SIDES = {"u": "reflect", "v": {"x": "periodic", "y-": ("value", "a"), "y+": ("flux", 2.0)}}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("stencil", {"dim": 2, "order": 4}),
    ("stencil", {"dim": 1, "storage": "field", "update": True, "boundary": "periodic"}),
    ("map", {"expr": "z = a*x + sin(y); w = where(x > 0, x, -y)", "dim": 2}),
    ("map", {"expr": "rng = p * values - expected"}),
    ("map", {"expr": "z = (x // y) % 3", "dtype": "i32"}),
    ("reduce", {"op": "sum", "dim": 2}),
    ("reduce", {"op": "argmin", "dim": 2, "axis": 0, "dtype": "i32"}),
    ("scan", {"op": "sum"}),
    ("transpose", {"perm": (2, 0, 1)}),
    ("gemm", {"layout": "nt", "epilogue": "max(v, 0)"}),
    ("spmv", {"format": "csr"}),
    ("spmv", {"format": "ell", "dtype": "f64"}),
    ("histogram", {"bins": 7, "weighted": True}),
    ("update", {"equations": UPDATE, "scalars": ("a",), "boundary": SIDES, "types": {"v": "f16"}}),
    (
        "ring",
        {
            "handler": "y = 2*x + n; n = n + 1",
            "inputs": {"x": "f32"},
            "outputs": {"y": "f64"},
            "state": ("n",),
        },
    ),
]


@pytest.mark.once
def test_every_ejected_file_runs_without_tikgen(ti_arch: str, tmp_path: Path) -> None:
    names = []
    variants = [(t, params) for t, params in VARIANTS if (t, ti_arch) != ("ring", "vulkan")]
    random.shuffle(variants)
    if examples(0, 1):  # One of each template.
        variants = list(dict(variants).items())
    for number, (template, params) in enumerate(variants):
        path = tmp_path / f"ejected_{number}_{template}.py"
        path.write_text(tikgen.build(template, **params).eject())
        names.append(path.name)
    printed = run_alone(tmp_path, names)
    fractions = re.findall(r"worst error is ([\d.]+)% of what is allowed", printed)
    assert len(fractions) >= len(variants)
    assert {template for template, _ in VARIANTS} == built_in_templates()


@pytest.mark.parametrize(("template", "params"), VARIANTS)
def test_an_ejected_file_imports_only_numpy_taichi_and_the_standard_library(
    template: str, params: dict[str, Any]
) -> None:
    text = tikgen.build(template, **params).eject()
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"numpy", "taichi"}
    assert "from __future__ import annotations" not in text


@pytest.mark.parametrize(
    ("name", "params", "right", "wrong"),
    [
        ("stencil", {"dim": 2}, "ti.f32(-4.0)", "ti.f32(-4.01)"),
        # Sizes beyond one chunk of the schedule show it.
        ("map", {"expr": "y = 2*x"}, "(y.shape[0] - 1) // 2048 + 1", "1"),
    ],
)
def test_the_self_check_of_an_ejected_file_can_fail(
    tmp_path: Path, name: str, params: dict[str, Any], right: str, wrong: str
) -> None:
    text = tikgen.build(name, arch="cpu", **params).eject()
    assert right in text
    path = tmp_path / "broken.py"
    path.write_text(text.replace(right, wrong))
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "AssertionError" in done.stderr


def test_a_value_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    from test_render import CODE, folder_with

    code = CODE.replace("from tikgen", "from fractions import Fraction\n\nfrom tikgen") + (
        "\n    @staticmethod\n    def reference(p, x):\n        return Fraction(1, 2) * x\n"
    )
    template = tikgen.load_template(folder_with(tmp_path, code=code, name="borrower"))
    with pytest.raises(TemplateError, match="cannot be ejected: reference uses Fraction"):
        tikgen.build(template).eject()


def test_a_reference_that_is_no_static_method_is_not_ejected(tmp_path: Path) -> None:
    from test_render import CODE, folder_with

    code = CODE + "\n    def reference(self, p, x):\n        return x\n"
    template = tikgen.load_template(folder_with(tmp_path, code=code, name="method"))
    told = r"reference is a method .*; write @staticmethod above def reference\(p, x\)"
    with pytest.raises(TemplateError, match=told):
        tikgen.build(template).eject()


def test_a_template_with_the_default_tolerance_can_be_ejected(tmp_path: Path) -> None:
    from test_render import CODE, TEXT, folder_with

    code = (
        CODE.replace("DType.f32, (", "p.dtype, (").replace(
            "n: int", 'dtype: DType = parameter("type", DType.f32)\n        n: int'
        )
        + "\n    @staticmethod\n    def reference(p, x):\n        return x.astype('f8') + p.n\n"
    )
    text = TEXT.replace("import taichi as ti", "import taichi as ti  # as ever")
    template = tikgen.load_template(folder_with(tmp_path, text, code, name="plain"))
    path = tmp_path / "alone.py"
    path.write_text(tikgen.build(template).eject())
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "of what is allowed" in done.stdout


def test_an_annotation_that_cannot_be_copied_is_omitted(tmp_path: Path) -> None:
    from test_render import CODE, folder_with

    code = CODE.replace("from tikgen", "from fractions import Fraction\n\nfrom tikgen") + (
        "\n    @staticmethod\n"
        "    def reference(\n        p: Fraction, x: dict[\n            str, Fraction] | None\n"
        "    ) -> list[Fraction]:\n        return x\n"
        "\n    @staticmethod\n    def tolerance(p, inputs, expected):\n        return {}\n"
    )
    template = tikgen.load_template(folder_with(tmp_path, code=code, name="annotated"))
    text = tikgen.build(template).eject()
    assert "p: object, x: object" in text
    assert ") -> object:" in text
    assert "Fraction" not in text


def test_ejected_kernels_are_distinct_without_tikgen_and_without_a_cache(tmp_path: Path) -> None:
    for number in (2, 3):
        text = tikgen.elementwise(f"x * {number}", dtype="f32", arch="cpu").eject()
        assert "@ti.real_func" in text
        (tmp_path / f"times{number}.py").write_text(text)
    program = """
import numpy as np, taichi as ti, times2, times3
ti.init(ti.cpu, offline_cache=False, log_level=ti.ERROR)
for module in (times2, times3):
    x, out = np.ones(3, np.float32), np.empty(3, np.float32)
    module.map(x, out)
    print(out[0])
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    assert done.stdout.split()[-2:] == ["2.0", "3.0"]
