"""Evidence is that of a text and of the reference that it was compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

import tikgen
from tikgen.aot.exporting.template_kernels import evidence_on
from tikgen.pipeline import evidence

TEXT = """\
import taichi as ti


@ti.kernel
def {{ name }}(x: ti.types.ndarray(ti.f32, ndim=1), y: ti.types.ndarray(ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        y[i] = x[i] * ti.f32(2)
"""
CODE = """\
from tikgen import Array, DType, Template
from .beside import FACTOR


class {name}(Template):
    def arguments(self, p):
        return Array("x", DType.f32, ("n",)), Array("y", DType.f32, ("n",), role="out")

    @staticmethod
    def reference(p, x, y):
        return FACTOR * x.astype("f8")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "doubled"
    folder.mkdir()
    (folder / "kernel.py.j2").write_text(TEXT)
    (folder / "template.py").write_text(CODE.format(name="Doubled"))
    (folder / "beside.py").write_text("FACTOR = 2.0\n")
    return folder


def kernel_of(folder: Path) -> tikgen.Kernel:
    return tikgen.build(tikgen.load_template(folder), arch="cpu", schedule={})


@pytest.mark.parametrize("file", ["template.py", "beside.py"])
def test_evidence_of_another_reference_does_not_count(folder: Path, file: str) -> None:
    kernel = kernel_of(folder)
    tally = evidence.Tally(kernel.params)
    tally.add(True, 0.5)
    for engine in ("taichi", "direct-cpu"):
        evidence.keep(kernel.template, "cpu", 1, {kernel.digest: tally}, engine=engine)
    assert [each.passed for each in kernel.evidence] == [True, True]
    assert evidence.is_verified(kernel.source, "cpu", "direct-cpu")
    assert evidence_on(kernel.source, "cpu") is not None

    path = folder / file
    before = path.read_text()
    path.write_text(before.replace("FACTOR = 2.0", "FACTOR = 3.0").replace("FACTOR * x", "0 * x"))
    changed = kernel_of(folder)
    assert changed.digest == kernel.digest
    assert changed.evidence == ()
    assert not evidence.is_verified(changed.source, "cpu", "direct-cpu")
    assert evidence_on(changed.source, "cpu") is None
    assert evidence.evidence_for(kernel.digest)

    path.write_text(before)
    assert len(kernel_of(folder).evidence) == 2


def test_a_change_of_the_text_that_renders_the_same_keeps_it(folder: Path) -> None:
    kernel = kernel_of(folder)
    tally = evidence.Tally(kernel.params, examples=1)
    evidence.keep(kernel.template, "cpu", 1, {kernel.digest: tally})
    (folder / "kernel.py.j2").write_text("{# Doubles. #}" + TEXT)
    changed = kernel_of(folder)
    assert changed.template.fingerprint != kernel.template.fingerprint
    assert changed.evidence
