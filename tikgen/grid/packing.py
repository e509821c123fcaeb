"""Generated kernels that copy a box of an array into a run of elements, and out of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tikgen import engines
from tikgen.grid.boxes import Box
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.one_off import from_string
from tikgen.taichi import runtime

# `o0` is the first index of the box along an axis, `n0` the number of points. They say how many
# there are, so that zeros, with which a kernel is compiled, reach no element.
_TEXT = """
import taichi as ti


@ti.kernel
def {{ called }}(
    held: ti.types.ndarray(dtype=ti.{{ dtype }}, ndim={{ dim }}),
    run: ti.types.ndarray(dtype=ti.{{ dtype }}, ndim=1),
    {% for axis in range(dim) %}
    o{{ axis }}: ti.i32,
    n{{ axis }}: ti.i32,
    {% endfor %}
):
    for at in range({% for axis in range(dim) %}{{ " * " if axis }}n{{ axis }}{% endfor %}):
        left = at
        {% for axis in range(dim - 1, -1, -1) %}
        i{{ axis }} = o{{ axis }} + left % n{{ axis }}
        left = left // n{{ axis }}
        {% endfor %}
        {% if packs %}
        run[at] = held[{% for axis in range(dim) %}i{{ axis }}, {% endfor %}]
        {% else %}
        held[{% for axis in range(dim) %}i{{ axis }}, {% endfor %}] = run[at]
        {% endif %}
"""


@functools.cache
def _kernel(dtype: str, dim: int, packs: bool) -> Kernel:
    called = "pack" if packs else "unpack"
    made = from_string(_TEXT, called=called, dtype=dtype, dim=dim, packs=packs)
    # What launches the kernels between the messages launches these: a CUDA graph may hold them.
    direct = engines.DIRECT_CUDA
    is_direct = runtime.current_arch() == "cuda" and not engines.problem(direct)
    return made.with_engine(direct) if is_direct else made


def moves(held: Any, run: Any, dtype: str, box: Box) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the functions that copy a box into a run of elements, and back.

    Args:
        held: the array that has the box, on the device.
        run: an array of one axis, with as many elements as the box.
        dtype: type of the elements of both.
        box: the first point and the one behind the last along each axis.
    """
    numbers = [number for start, stop in box for number in (start, stop - start)]
    pack, unpack = (
        _kernel(dtype, len(box), packs).bind(held, run, *numbers) for packs in (True, False)
    )
    return pack, unpack
