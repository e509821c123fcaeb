"""Permutation of the axes of an array."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tikgen import Array, DType, Invalid, ProblemModel, ScheduleModel, Template, parameter
from tikgen.dtypes import ALL_DTYPES
from tikgen.pipeline.loop_steps import box, looped, parallel
from tikgen.template.rules import GPUS, Not

from .axes import (
    AXES,
    end_of,
    extents,
    group_of,
    in_x,
    kept_rows,
    last_axes,
    merged,
    swapped,
    walked,
)
from .on_cpu import CHUNKS, SIDE, STRIP_LENGTHS, chunks, strips
from .on_gpu import gpu_schedule

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
            "flat: over chunks of all elements in order, each by a real function, for rows that "
            "stay rows; strips: over blocks of y, as many rows of x side by side as unroll says; "
            "tiles: over square tiles through memory that a block of threads shares",
            "rows",
            needs={"tiles": {"arch": GPUS}, ("flat", "strips"): {"arch": "cpu"}},
        )
        tile: Literal[0, 16, 32, 64, 128, 256, 512] = parameter(
            "side of a tile, or length of a strip along rows of x",
            0,
            only={"loop": ("strips", "tiles")},
            needs={0: {"loop": ("rows", "points", "flat")}},
        )
        row: Literal[-1, 0, 1, 2, 3] = parameter(
            "axis of y along which strips and tiles walk x; -1 for that of the last axis of x",
            -1,
            only={"loop": ("strips", "tiles")},
        )
        column: Literal[-1, 0, 1, 2, 3] = parameter(
            "axis of y along which a strip or tile is wide; -1 for the last one",
            -1,
            only={"loop": ("strips", "tiles")},
        )
        unroll: Literal[1, 2, 3, 4, 5, 6, 7, 8, 16] = parameter(
            "elements a step along a row of y; of points, those of a thread, one below the other",
            1,
            only={"loop": ("rows", "strips", "points")},
            needs={(3, 5, 6, 7): {"loop": "strips"}},
        )
        rows: Literal[1, 2, 3, 4, 5, 6, 7, 8] = parameter(
            "elements a step along a strip, for each of those that unroll says",
            1,
            only={"loop": "strips", "unroll": Not(1)},
        )
        lanes: Literal[-1, 0, 1, 2, 3] = parameter(
            "axis of y along which the threads of a block stand side by side, their elements a "
            "block apart; -1 for elements one below the other",
            -1,
            only={"loop": "points", "unroll": Not(1)},
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
        return usual_schedule(p, arch, sizes)

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        return usual_schedule(p, arch, sizes, is_direct=True)

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        usual = self.default_schedule(p, arch, sizes)
        # Where extents are 1, other axes than the last ones may be the ones to walk.
        axes = {name: (usual.get(name, -1),) for name in ("row", "column", "lanes")}
        if arch == "cpu":
            return {
                "loop": ("flat", "rows") if keeps_last_axis(p) else ("flat", "rows", "strips"),
                "chunk": CHUNKS,
                "serial": (False, True),
                "tile": (0, *STRIP_LENGTHS),
                "unroll": tuple(sorted({1, 4, 8, 16, usual.get("unroll", 1)})),
                "rows": tuple(sorted({1, 4, SIDE, usual.get("rows", 1)})),
                "block_dim": (0,),
                **axes,
            }
        return {
            "loop": ("points",) if keeps_last_axis(p) else ("tiles", "points"),
            "tile": (0, 16, 32, 64),
            "unroll": (1, 2, 4, 8),
            "block_dim": (64, 128, 256, 512),
            **axes,
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        ends = {group[-1] for group in merged(p.perm)}
        usual = [end_of(axis, p) for axis in last_axes(p)]
        # Of axes that are one, threads stand along it in any case.
        alone = -1 if len(ends) > 1 else usual[0]
        for name, own in ("row", usual[0]), ("column", usual[1]), ("lanes", alone):
            axis, others = getattr(s, name), sorted(ends - {own})
            if axis >= 0 and axis not in others:
                values = f"one of {others}, or -1" if others else "-1"
                raise Invalid(name, f"must be {values} where perm={p.perm}; got {axis}")
        if s.loop not in ("strips", "tiles"):
            return
        if s.loop == "strips" and s.unroll == 1 and s.column >= 0:
            raise Invalid("column", f"must be -1 where unroll=1; got {s.column}")
        row, column = walk(p, s)
        if row == column:
            given = f"row={s.row}, column={s.column} and perm={p.perm}"
            raise Invalid("row", f"must be apart from column in x and y; got {given}")
        if s.loop == "strips":
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
        own = [f"y.shape[{axis}]" for axis in range(dim)]
        zeros = "0, " * (dim - 1)
        groups = merged(p.perm)
        row, column = walk(p, s)
        lanes = lanes_of(p, s)
        is_merged = len(groups) < dim
        names = AXES[: len(groups)]
        counts = [" * ".join(own[axis] for axis in group) for group in groups]
        order = in_x(p.perm, groups)

        def along(one: str, other: str) -> list[str]:
            places = list(names)
            places[row], places[column] = one, other
            return places

        def linear(index: Sequence[str], order: Sequence[int]) -> str:
            found = index[order[0]]
            for number in order[1:]:
                outer = f"({found})" if " " in found else found
                found = f"{outer} * {names[number]}_extent + {index[number]}"
            return found

        def place(index: Sequence[str], order: Sequence[int]) -> str:
            if is_merged:
                return f"{zeros}{linear(index, order)}"
            return ", ".join(index[number] for number in order)

        def step(axis: int, order: Sequence[int]) -> str:
            behind = list(order)[list(order).index(axis) + 1 :]
            return " * ".join(f"{names[number]}_extent" for number in behind) or "1"

        in_order = range(len(groups))
        is_linear = is_merged or s.loop == "strips"
        return {
            **kept_rows(p, own),
            "linear_in_x": lambda index: linear(index, order),
            "linear_in_y": lambda index: linear(index, in_order),
            "steps": {
                "x_row": step(row, order),
                "x_column": step(column, order),
                "y_row": step(row, in_order),
                "y_column": step(column, in_order),
            },
            "keeps_last_axis": keeps_last_axis(p),
            "swapped": swapped(p.perm),
            "zeros": zeros,
            "count": " * ".join(own),
            "function": "copy_strip" if s.loop == "strips" else "elements",
            "bounds": [(AXES[axis], "0", own[axis]) for axis in range(dim)],
            "permuted": lambda index: [index[p.perm.index(axis)] for axis in range(dim)],
            "names": list(names),
            "row": names[row],
            "column": names[column],
            "lanes": None if lanes is None else names[lanes],
            "extent": lambda name: f"{name}_extent" if is_merged else counts[names.index(name)],
            "merged": dict(zip(names, counts, strict=True)) if is_linear else {},
            "along": along,
            "in_x": lambda index: place(index, order),
            "in_y": lambda index: place(index, in_order),
            "counts": lambda sides: [
                f"({count} - 1) // {sides[name]} + 1" if sides.get(name, 1) > 1 else count
                for name, count in zip(names, counts, strict=True)
            ],
            "plus": lambda step: f" + {step}" if step else "",
        }

    @staticmethod
    def reference(p: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.transpose(x, p.perm))

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        return {"y": 0}

    def steps(self, p: Any, s: Any, sizes: Mapping[str, int], read: Any) -> int:
        if s.loop == "points" and s.unroll > 1:
            counts, lanes = extents(p.perm, merged(p.perm), sizes), lanes_of(p, s)
            size = s.unroll * (1 if lanes is None else s.block_dim or 128)
            long = counts[-2 if lanes is None else lanes]
            groups = math.prod(counts) // long * ((long - 1) // size + 1)
            return parallel(groups * size // s.unroll, looped(s.unroll))
        if s.loop in ("rows", "points"):
            return box([sizes[f"n{axis}"] for axis in p.perm], s.loop == "rows", s.unroll)
        if s.loop in ("flat", "strips"):
            return 0  # For cpu, where loops have no limit.
        counts = extents(p.perm, merged(p.perm), sizes)
        row, column = (counts[number] for number in walk(p, s))
        count = math.prod(counts) // (row * column)
        count *= ((row - 1) // s.tile + 1) * ((column - 1) // s.tile + 1)
        return parallel(count * s.block_dim, 2 * looped(s.tile**2 // s.block_dim))

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        largest = {
            1: (1, 2, 7, 33, 131),
            2: (1, 3, 8, 17, 67),
            3: (1, 2, 5, 9, 17),
            4: (1, 2, 3, 5, 9),
        }[len(p.perm)]
        return {f"n{axis}": largest for axis in p.perm}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        if s.loop == "flat" and keeps_last_axis(p) and swapped(p.perm):
            # Rows of some blocks, and such as are longer than a chunk.
            lengths = (33,) if s.serial else (33, s.chunk + 5)
            last = f"n{len(p.perm) - 1}"
            return tuple(dict.fromkeys(self.size_symbols(p), 3) | {last: n} for n in lengths)
        lanes = lanes_of(p, s)
        if lanes is None:
            return ()
        # Threads with all of their elements, with some and without any.
        length = 3 * s.unroll * (s.block_dim or 128) // 2 + 5
        last = p.perm[merged(p.perm)[lanes][-1]]
        return (dict.fromkeys(self.size_symbols(p), 2) | {f"n{last}": length},)

    def strategies(self) -> Mapping[str, Any]:
        from hypothesis import strategies as st

        return {
            "perm": st.integers(1, 4).flatmap(lambda dim: st.permutations(range(dim)).map(tuple))
        }


def usual_schedule(
    p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool = False
) -> Mapping[str, Any]:
    """Return the schedule parameters that differ from their defaults."""
    axes = walked(p.perm, sizes) if sizes is not None else last_axes(p)
    if arch != "cpu":
        return gpu_schedule(p, arch, axes, sizes)
    if axes is None or (keeps_last_axis(p) and axes[0] == axes[1]):
        count = math.prod(sizes.values()) if sizes is not None else 0
        return {"loop": "flat", **chunks(p, count, is_direct)}
    if axes[0] == axes[1]:
        return {"loop": "rows", "unroll": 1}
    return {"loop": "strips", **strips(p, axes, sizes, is_direct)}


def keeps_last_axis(p: Any) -> bool:
    """Tell whether rows of y are rows of x, so that both are walked in order anyway."""
    return bool(p.perm[-1] == len(p.perm) - 1)


def walk(p: Any, s: Any) -> tuple[int, int]:
    """Return the groups of axes along which strips and tiles walk x, and are wide."""
    groups = merged(p.perm)
    row, column = last_axes(p)
    row, column = row if s.row < 0 else s.row, column if s.column < 0 else s.column
    return group_of(row, groups), group_of(column, groups)


def lanes_of(p: Any, s: Any) -> int | None:
    """Return the group of axes along which threads stand side by side, or None for the usual way.

    Where there is one group, there is no other way.
    """
    groups = merged(p.perm)
    if s.loop != "points" or s.unroll == 1 or (s.lanes < 0 and len(groups) > 1):
        return None
    return 0 if s.lanes < 0 else group_of(s.lanes, groups)
