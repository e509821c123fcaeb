"""Arrays whose memory does not contain their elements are refused wherever arrays are passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tikgen
from tikgen.errors import ArgumentError
from tikgen.ring import RingKernelMessage, UnifiedBuffer
from tikgen.ring.errors import ColumnError
from tikgen.ring.messages.columns import check_columns, columns_of
from tikgen.template.argument_checks import hidden_problem


class Sample(RingKernelMessage):
    """A message with one number."""

    x: float


def masked() -> Any:
    return np.ma.masked_array(np.ones(4, np.float32), [True, False, False, False])


TENSORS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "negative bit": (
        lambda torch: torch._neg_view(torch.ones(4)),
        r"has the negative bit.*resolve_neg\(\)",
    ),
    "one imaginary part": (
        lambda torch: (torch.zeros(1, dtype=torch.complex64) + 3j).conj().imag,
        r"has the negative bit",
    ),
    "conjugate bit": (
        lambda torch: torch.ones(4, dtype=torch.complex64).conj(),
        r"has the conjugate bit.*resolve_conj\(\)",
    ),
    "meta": (lambda torch: torch.zeros(4, device="meta"), "of device meta that holds no data"),
    "sparse": (lambda torch: torch.zeros(4).to_sparse(), r"layout sparse_coo.*to_dense\(\)"),
    "sparse rows": (lambda torch: torch.zeros(4, 4).to_sparse_csr(), "layout sparse_csr"),
    "quantised": (
        lambda torch: torch.quantize_per_tensor(torch.zeros(4), 0.1, 0, torch.quint8),
        "takes dtype f32; got torch.quint8",
    ),
    "gradient": (lambda torch: torch.zeros(4, requires_grad=True), "requires a gradient"),
    "no axis": (lambda torch: torch.zeros(()), "takes 1 axis"),
    "freed": (lambda torch: _freed(torch.zeros(4)), "holds no data"),
}

ARRAYS: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (masked, r"is a masked array.*x\.filled"),
    "masked nowhere": (lambda: np.ma.masked_array(np.ones(4, np.float32)), "is a masked array"),
    "byte order": (lambda: np.ones(4, np.dtype("f4").newbyteorder()), "takes dtype f32"),
    "objects": (lambda: np.ones(4, object), "takes dtype f32"),
    "structured": (lambda: np.ones(4, [("a", "f4")]), "takes dtype f32"),
    "no axis": (lambda: np.ones((), np.float32), "takes 1 axis"),
}


def _freed(tensor: Any) -> Any:
    tensor.untyped_storage().resize_(0)
    return tensor


def check_refused(value: Any, match: str) -> None:
    kernel = tikgen.build("map", expr="y = x + 1", dtype="f32")
    y = np.zeros(4, np.float32)
    with pytest.raises(ArgumentError, match=match):
        kernel(value, y)
    with pytest.raises(ArgumentError, match=match):
        kernel.bind(value, y)
    x = np.ones(4, np.float32)
    with pytest.raises(ArgumentError):
        kernel(x, value)
    bound = kernel.bind(x, y)
    with pytest.raises(ArgumentError, match=match):
        bound.rebind(x=value)


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.filterwarnings("ignore")
def test_tensors(kind: str, ti_arch: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
    make, match = TENSORS[kind]
    check_refused(make(torch), match)


def test_the_advice_about_tensors_is_right(ti_arch: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
    kernel = tikgen.build("map", expr="y = x + 1", dtype="f32")
    y = np.zeros(1, np.float32)
    kernel((torch.zeros(1, dtype=torch.complex64) + 3j).conj().imag.resolve_neg(), y)
    assert y[0] == -2
    assert not hidden_problem("x", torch.zeros(0))


@pytest.mark.parametrize("kind", ARRAYS)
def test_numpy_arrays(kind: str, ti_arch: str) -> None:
    make, match = ARRAYS[kind]
    check_refused(make(), match)


def test_memory_mapped_files_are_written_only_in_a_writable_mode(
    ti_arch: str, tmp_path: Any
) -> None:
    path = tmp_path / "x"
    np.ones(4, np.float32).tofile(path)
    kernel = tikgen.build("map", expr="y = x + 1", dtype="f32")
    y = np.zeros(4, np.float32)
    kernel(np.memmap(path, np.float32, "r"), y)
    assert (y == 2).all()
    with pytest.raises(ArgumentError, match="read-only"):
        kernel(y, np.memmap(path, np.float32, "r"))


def test_a_kernel_whose_arguments_are_not_declared(ti_arch: str) -> None:
    text = """
import taichi as ti

@ti.kernel
def plus_one(x: ti.types.ndarray(), y: ti.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = x[i] + 1
"""
    kernel = tikgen.from_string(text)
    with pytest.raises(ArgumentError, match="is a masked array"):
        kernel(masked(), np.zeros(4, np.float32))


def test_buffers_and_columns_of_actors(ti_arch: str) -> None:
    with pytest.raises(ArgumentError, match="is a masked array"):
        UnifiedBuffer((4,), "f32").copy_from(masked())
    columns = columns_of(Sample)
    with pytest.raises(ColumnError, match="column 'x' is a masked array"):
        check_columns({"x": masked()}, columns)


@pytest.mark.parametrize("storage", ["masked", "masked nowhere", "negative bit", "meta"])
def test_references_and_tuning_refuse_them_too(storage: str) -> None:
    if storage in ARRAYS:
        array, message = ARRAYS[storage][0](), ARRAYS[storage][1]
    else:
        torch = pytest.importorskip("torch", reason="torch is an extra: pip install tikgen[torch]")
        array, message = TENSORS[storage][0](torch), TENSORS[storage][1]
    kernel = tikgen.elementwise("y = x + 1")
    with pytest.raises(ArgumentError, match=message):
        kernel.reference(array)
    with pytest.raises(ArgumentError, match=message):
        kernel.tune(array)
    with pytest.raises(ArgumentError, match=message):
        tikgen.tune("map", expr="y = x + 1", arguments={"x": array})
