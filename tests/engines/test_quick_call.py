"""The quick way to check and pack arguments takes only what the long way takes."""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tikgen
from conftest import ARCH
from tikgen.dtypes import DType
from tikgen.engines import argument_struct
from tikgen.errors import ArgumentError
from tikgen.pipeline.quick_call import quick_call
from tikgen.pipeline.signature import Signature
from tikgen.template.arguments import Array, Scalar

on_cpu = pytest.mark.skipif(ARCH != "cpu", reason="the engine is for cpu")
pytestmark = [pytest.mark.arch, on_cpu]
WRONG = (TypeError, ValueError, OverflowError, struct.error)
ARGUMENTS = (
    Array("x", DType.f32, ("n", "m")),
    Array("y", DType.f32, ("n", "m"), role="out", inplace=True),
    Array("starts", DType.i32, ("n + 1",)),
    Array("out", DType.f64, (3, "m"), role="inout"),
    Scalar("a", DType.f32),
    Scalar("k", DType.i8),
)
KINDS = [(a.dtype, len(a.shape) if isinstance(a, Array) else None) for a in ARGUMENTS]
SIGNATURE = Signature("sample", ARGUMENTS)
PACKER = argument_struct.packer(KINDS)
QUICK = quick_call(SIGNATURE, False, PACKER.pack_into, ())


def quick(values: tuple[Any, ...]) -> bytes | None:
    """Return the packed arguments, or None if they are not taken."""
    assert QUICK is not None
    buffer = argument_struct.c_type(KINDS)()
    try:
        size = QUICK(buffer, {}, values)
    except WRONG:
        return None
    if size is None:
        return None
    assert size == sum(v.nbytes for v in values if isinstance(v, np.ndarray))
    return bytes(buffer)


def long(values: tuple[Any, ...]) -> bytes | None:
    """Return what the long way packs."""
    try:
        SIGNATURE.check(values)
    except ArgumentError:
        return None
    fields: list[Any] = []
    for value, (dtype, ndim) in zip(values, KINDS, strict=True):
        if ndim is None:
            fields.append(argument_struct.c_value(dtype, value))
        else:
            fields += [*value.shape, value.ctypes.data]
    buffer = argument_struct.c_type(KINDS)()
    PACKER.pack_into(buffer, 0, *fields)
    return bytes(buffer)


def good(n: int, m: int) -> list[Any]:
    return [
        np.ones((n, m), np.float32),
        np.zeros((n, m), np.float32),
        np.zeros(n + 1, np.int32),
        np.zeros((3, m)),
        2.5,
        -7,
    ]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


# What may be wrong with an array, or unusual.
ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "same": lambda a: a,
    "read-only": read_only,
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "other dtype": lambda a: a.astype(np.int64),
    "more axes": lambda a: a[None],
    "fewer axes": lambda a: a.reshape(-1),
    "longer": lambda a: np.concatenate([a, a]),
    "empty": lambda a: a[:0],
    "masked": np.ma.masked_array,
    "subclass": lambda a: a.view(np.recarray),
    "list": lambda a: a.tolist(),
    "bytes": lambda a: a.tobytes(),
    "none": lambda a: None,
    "misaligned": lambda a: np.frombuffer(b"x" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
}
SCALARS = [
    *(2.5, 3, 0, -128, 127, 128, -129, 2**70, True, None, "2", 1e300, float("nan"), float("inf")),
    *(np.float32(2.5), np.float64(2.5), np.int8(3), np.int64(300), np.bool_(True), 2 + 0j),
]


@settings(max_examples=400, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 4),
    st.dictionaries(st.integers(0, 3), st.sampled_from(sorted(ARRAYS)), max_size=2),
    st.dictionaries(st.integers(4, 5), st.sampled_from(range(len(SCALARS))), max_size=2),
    st.sampled_from(["", "same", "shifted", "crossed", "fewer", "more"]),
)
def test_what_is_taken_quickly_is_taken_in_the_same_bits(
    n: int, m: int, arrays: Any, scalars: Any, shared: str
) -> None:
    values = good(n, m)
    if shared in ("same", "shifted"):
        memory = np.ones((2 * n, m), np.float32)
        shift = 0 if shared == "same" else n - 1
        values[0], values[1] = memory[:n], memory[shift : shift + n]
    elif shared == "crossed":
        memory = np.ones((n + m + 8) * 8, np.uint8)
        values[2] = memory[: 4 * (n + 1)].view(np.int32)
        values[3] = memory[: 24 * m].view(np.float64).reshape(3, m)[:3] if n + 8 >= 2 * m else None
    for place, name in arrays.items():
        values[place] = ARRAYS[name](values[place]) if values[place] is not None else None
    for place, number in scalars.items():
        values[place] = SCALARS[number]
    given = tuple(
        values[:-1] if shared == "fewer" else [*values, 1] if shared == "more" else values
    )
    packed = quick(given)
    if packed is not None:
        assert packed == long(given)


@pytest.mark.parametrize("name", ["same", "read-only"])
@pytest.mark.parametrize("scalars", [(2.5, -7), (3, 127), (float("nan"), 0), (float("inf"), -128)])
def test_what_is_usual_is_taken_quickly(name: str, scalars: tuple[Any, ...]) -> None:
    values = good(3, 5)
    values[0], values[2] = (ARRAYS[name](values[i]) for i in (0, 2))
    assert quick((*values[:4], *scalars)) == long((*values[:4], *scalars))


def test_an_output_may_be_the_very_input(rng: np.random.Generator) -> None:
    values = good(3, 5)
    values[1] = values[0]
    assert quick(tuple(values)) == long(tuple(values))


def test_a_size_is_at_least_1() -> None:
    signature = Signature("sample", (Array("x", DType.f32, ("n + 3",), role="out"),))
    packer = argument_struct.packer([(DType.f32, 1)])
    call = quick_call(signature, False, packer.pack_into, ())
    assert call is not None
    for length in (1, 2, 3):
        x = np.ones(length, np.float32)
        with pytest.raises(ArgumentError, match=r"takes shape \(n \+ 3,\), and n is at least 1; g"):
            signature.check((x,))
        with pytest.raises(ArgumentError, match="and n is at least 1"):
            signature.sizes_of({"x": x})
        assert call(ctypes.create_string_buffer(packer.size), {}, (x,)) is None
    assert signature.check((np.ones(4, np.float32),)) == [1]


@pytest.mark.parametrize("engine", ["direct-cpu", "auto"])
def test_calls_follow_what_changes(ti_arch: str, engine: str, rng: np.random.Generator) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    kernel = tikgen.build("map", expr="z = a*x + y", dtype="f64", engine=engine)
    total = tikgen.build("reduce", op="max", dtype="f64", engine=engine)
    numbers = itertools.count(1)
    for size in (5, 5, 70_000, 5, 20_000):
        x, y, z, found = rng.random(size), rng.random(size), np.zeros(size), np.zeros(1)
        for a in (next(numbers), 0.5):
            before = kernel.launches
            kernel(a, x, y, z)
            kernel(a=a, x=x, y=y, z=z)
            np.testing.assert_allclose(z, a * x + y, rtol=1e-15)
            total(x, found)
            assert (kernel.launches, found[0]) == (before + 2, x.max())
        memory = np.zeros(size + 1)
        overlapping = (a, memory[1:], y, memory[:-1])
        for wrong in ((a, x, y), overlapping, (a, x, y, z[1:]), ("a", x, y, z), (a, x, y, None)):
            with pytest.raises(ArgumentError):
                kernel(*wrong)
        z.flags.writeable = False
        with pytest.raises(ArgumentError, match="read-only"):
            kernel(a, x, y, z)


def test_an_unloaded_kernel_is_refused(ti_arch: str) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is an extra: pip install tikgen[fast]")
    kernel = tikgen.build("map", expr="y = x + 17/3", dtype="f64", engine="direct-cpu")
    x, y = np.ones(4), np.zeros(4)
    kernel(x, y)
    bound = kernel.bind(x, y)
    kernel.unload()
    for call in (lambda: kernel(x, y), bound):
        with pytest.raises(ArgumentError, match="was unloaded"):
            call()
    tikgen.clear()
