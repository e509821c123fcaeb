"""Permutation of the axes of an array."""

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from tikgen import Array, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter
from tikgen.dtypes import ALL_DTYPES
from tikgen.pipeline.loop_steps import box, looped, parallel
from tikgen.template.rules import GPUS, Not

AXES = ("i", "j", "k", "l")
CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16384)
STRIP_LENGTHS = (64, 128, 256, 512)
# Taichi gives so many iterations to a thread.
ITERATIONS_A_TASK = 512
# To wake the other threads takes 25 us. So many elements take one thread less.
SERIAL = 2**15
# What a block of threads may share on every device.
SHARED_BYTES = 32768


class Transpose(Template):
    """Permuted copy: axis `a` of y is axis `perm[a]` of x, as `np.transpose(x, perm)`."""

    class Problem(ProblemModel):
        perm: tuple[int, ...] = parameter(
            "which axis of x becomes each axis of y, up to 4 of them", (1, 0)
        )
        dtype: DType = parameter("element type", DType.f32, choices=ALL_DTYPES)

        def check(self) -> None:
            dim = len(self.perm)
            if not 1 <= dim <= 4 or sorted(self.perm) != list(range(dim)):
                raise Invalid(
                    "perm",
                    "takes each of 0, 1, ... once, up to 4 of them, such as (0, 2, 1); "
                    f"got {self.perm}",
                )

    class Schedule(ScheduleModel):
        loop: Literal["rows", "points", "flat", "strips", "tiles"] = parameter(
            "rows: parallel over rows of y, each walked in order; points: over every point; "
            "flat: over chunks of all elements in order, each by a real function; strips: over "
            "blocks of y, as many rows of x side by side as unroll says; tiles: over square tiles "
            "through memory that a block of threads shares",
            "rows",
            needs={"tiles": {"arch": GPUS}, "flat": {"arch": "cpu"}},
        )
        tile: Literal[0, 16, 32, 64, 128, 256, 512] = parameter(
            "side of a tile, or length of a strip along rows of x",
            0,
            only={"loop": ("strips", "tiles")},
            needs={0: {"loop": ("rows", "points", "flat")}},
        )
        unroll: Literal[1, 2, 4, 8, 16] = parameter(
            "elements a step along a row of y", 1, only={"loop": ("rows", "strips")}
        )
        chunk: Literal[256, 512, 1024, 2048, 4096, 8192, 16384] = parameter(
            "elements of a chunk; a thread takes 512 chunks at a time",
            2048,
            only={"loop": "flat", "serial": False},
        )
        serial: bool = parameter(
            "whether one thread does it all",
            False,
            only={"loop": ("flat", "strips"), "block_dim": 0, "arch": "cpu"},
        )
        block_dim: Literal[0, 32, 64, 128, 256, 512] = parameter(
            "threads in a block; 0 for Taichi's own choice, but not with loop='tiles'",
            0,
            only={"loop": Not("flat")},
        )

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        count = math.prod(sizes.values()) if sizes is not None else 0
        if keeps_last_axis(p):
            if arch != "cpu":
                return {"loop": "points", "block_dim": 128}
            if 0 < count <= SERIAL:
                return {"loop": "flat", "serial": True}
            # As many as leave eight tasks or more.
            fitting = [c for c in CHUNKS if count >= 8 * ITERATIONS_A_TASK * c]
            return {"loop": "flat", "chunk": max(fitting, default=CHUNKS[0] if count else 2048)}
        if arch != "cpu":
            # H200, 8192^2 f32: 139 us on cuda with tiles of 64, 153 with tiles of 32; 157 on Vulkan
            # with tiles of 32, 165 with tiles of 64. A copy takes 134.
            if arch == "cuda" and p.dtype.bits <= 32:
                return {"loop": "tiles", "tile": 64, "block_dim": 256}
            return {"loop": "tiles", "tile": 32, "block_dim": 128}
        # 4096 x 4096 f32 on 2 cores: 8.3 ms in strips of 512 x 8, 8.9 of 256 x 8, 10 of 64 x 8 or
        # 128 x 16, 13 of 64 x 4, 21 in square tiles of 16, 43 point by point, 124 in NumPy.
        # Taichi makes 512 strips a task, so small arrays need short ones: 1024 x 1024 took 0.40 ms
        # of 64 x 8 or 128 x 8 and 0.61 of 256 x 8.
        if 0 < count <= SERIAL:
            return {"loop": "strips", "tile": STRIP_LENGTHS[0], "unroll": 8, "serial": True}
        length = 256
        if sizes is not None:
            strips = math.prod(sizes.values()) // 8
            fitting = [t for t in STRIP_LENGTHS if strips >= 4 * ITERATIONS_A_TASK * t]
            length = max(fitting, default=STRIP_LENGTHS[0])
        return {"loop": "strips", "tile": length, "unroll": 8}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        if arch == "cpu":
            return {
                "loop": ("flat", "rows") if keeps_last_axis(p) else ("strips", "rows"),
                "chunk": CHUNKS,
                "serial": (False, True),
                "tile": (0, *STRIP_LENGTHS),
                "unroll": (1, 2, 4, 8, 16),
                "block_dim": (0,),
            }
        return {
            "loop": ("points",) if keeps_last_axis(p) else ("tiles", "points"),
            "tile": (0, 16, 32, 64),
            "unroll": (1,),
            "block_dim": (64, 128, 256, 512),
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        if s.loop in ("strips", "tiles") and keeps_last_axis(p):
            raise Invalid(
                "loop", f"must be rows, points or flat: perm={p.perm} keeps the last axis last"
            )
        if s.loop == "flat" and not keeps_last_axis(p):
            raise Invalid("loop", f"must not be flat: perm={p.perm} moves the last axis")
        if s.loop != "tiles":
            return
        if s.tile > s.block_dim or s.block_dim > s.tile**2:
            raise Invalid(
                "block_dim",
                f"must be from {s.tile} to {s.tile**2} with tiles of {s.tile}; got {s.block_dim}",
            )
        if s.tile * (s.tile + 1) * p.dtype.bits > 8 * SHARED_BYTES:
            raise Invalid("tile", f"needs more than {SHARED_BYTES} bytes of shared memory")

    def arguments(self, p: Any) -> tuple[Array, ...]:
        x = Array("x", p.dtype, tuple(f"n{axis}" for axis in range(len(p.perm))))
        y = Array("y", p.dtype, tuple(f"n{axis}" for axis in p.perm), role="out")
        return x, y

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        dim = len(p.perm)
        extents = [f"y.shape[{axis}]" for axis in range(dim)]
        # The axis of y along which x is contiguous; the last one is contiguous in y.
        source = p.perm.index(dim - 1)

        def along(row: str, column: str) -> list[str]:
            places = list(AXES[:dim])
            places[source], places[-1] = row, column
            return places

        return {
            **kept_rows(p, extents),
            "zeros": "0, " * (dim - 1),
            "count": " * ".join(extents),
            "function": "elements",
            "bounds": [(AXES[axis], "0", extents[axis]) for axis in range(dim)],
            "row": AXES[source],
            "column": AXES[dim - 1],
            "row_extent": extents[source],
            "column_extent": extents[-1],
            "along": along,
            "counts": lambda height, width: [
                f"({extent} - 1) // {side} + 1" if side > 1 else extent
                for axis, extent in enumerate(extents)
                for side in [height if axis == source else width if axis == dim - 1 else 0]
            ],
            "permuted": lambda index: [index[p.perm.index(axis)] for axis in range(dim)],
            "plus": lambda step: f" + {step}" if step else "",
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.transpose(x, p.perm))

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        return {"y": 0}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        extents = [sizes[f"n{axis}"] for axis in p.perm]
        if s.loop in ("rows", "points"):
            return box(extents, s.loop == "rows", s.unroll)
        if s.loop == "flat":
            return 0  # For cpu, where loops have no limit.
        row, column = extents[p.perm.index(len(p.perm) - 1)], extents[-1]
        width = s.unroll if s.loop == "strips" else s.tile
        count = math.prod(extents) // (row * column)
        count *= ((row - 1) // s.tile + 1) * ((column - 1) // width + 1)
        if s.loop == "strips":
            return parallel(count, looped(s.tile, looped(s.unroll)))
        return parallel(count * s.block_dim, 2 * looped(s.tile**2 // s.block_dim))

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        largest = {
            1: (1, 2, 7, 33, 131),
            2: (1, 3, 8, 17, 67),
            3: (1, 2, 5, 9, 17),
            4: (1, 2, 3, 5, 9),
        }[len(p.perm)]
        return {f"n{axis}": largest for axis in p.perm}

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "perm": st.integers(1, 4).flatmap(lambda dim: st.permutations(range(dim)).map(tuple))
        }


def keeps_last_axis(p: Any) -> bool:
    """Tell whether rows of y are rows of x, so that both are walked in order anyway."""
    return bool(p.perm[-1] == len(p.perm) - 1)


def kept_rows(p: Any, extents: list[str]) -> Mapping[str, Any]:
    """Return what the text needs where the last axes keep their places.

    A row is what lies along those axes; the others lead to it, in y in their order. The index of
    the row `start` is found by division, and `row_place` is its number in x.
    """
    dim = len(p.perm)
    leading = next((n for n in reversed(range(1, dim + 1)) if p.perm[n - 1] != n - 1), 0)
    index = []
    for axis in reversed(range(leading)):
        inner = "".join(f" // {extent}" for extent in reversed(extents[axis + 1 : leading]))
        index.append((AXES[axis], f"start{inner}" + (f" % {extents[axis]}" if axis else "")))
    place = ""
    for axis in range(leading):
        name = AXES[p.perm.index(axis)]
        outer = f"({place})" if axis > 1 else place
        place = f"{outer} * x.shape[{axis}] + {name}" if axis else name
    return {
        "axes": AXES,
        "leading": leading,
        "row_length": " * ".join(extents[leading:]),
        "row_index": index,
        "row_place": place,
    }
