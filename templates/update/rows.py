"""Rows: where a real function finds the neighbours of their points."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tikgen.expression import Update
from tikgen.template.boundaries import ELEMENTS
from tikgen.template.outside import moved
from tikgen.template.vectors import blocks_before

from .boundaries import furthest
from .memory import Memory


def runs_of(p: Any, update: Update, rules: Mapping[str, Any], memory: Memory) -> dict[Any, Any]:
    """Return the run of elements that a step reads, for each array and offset of its row.

    Arrays with the same rules and strides share a run. None in place of an array has the run of the
    point in the first output.
    """
    centre = (0,) * (p.dim - 1)
    starts: dict[Any, str] = {}
    known: dict[Any, SimpleNamespace] = {}
    found: dict[Any, Any] = {}
    own = [(name, (*centre, 0)) for name in (None, *update.outputs)]
    first = next(iter((*update.outputs, *update.arrays)))
    for name, (*steps, last) in [*own, *update.accesses.values()]:
        leading = tuple(steps)
        kinds = tuple(
            rules[name][axis][int(step > 0)][0] if step else "" for axis, step in enumerate(leading)
        )
        group = memory.group(name or first)
        if (leading, kinds, group) not in starts:
            suffix = "".join(f"_{'n' if step < 0 else ''}{abs(step)}" for step in leading)
            number = sum((other, its) == (leading, group) for other, _, its in starts)
            suffix = suffix if any(leading) else ""
            if number:  # Two rules may differ along any axis.
                suffix = "_".join([suffix, *filter(None, kinds)])
            starts[leading, kinds, group] = suffix + memory.suffix(name or first)
        suffix = starts[leading, kinds, group]
        # The components of a vector lie one behind the other: some blocks of points apart.
        blocks = blocks_before(name, p.layout) if name else 0
        key = blocks, leading, kinds, group
        if key not in known:
            known[key] = SimpleNamespace(
                name=f"run_c{blocks}{suffix}" if blocks else f"run{suffix}",
                start=f"start{suffix}",
                blocks=blocks,
                block=memory.block(name) if blocks else "",
                steps=memory.steps(name or first),
                leading=leading,
                kinds=tuple(map(within, kinds)),
                kinds_at_face=kinds,
                first=last,
            )
        run = known[key]
        run.first = min(run.first, last)
        found[name, leading] = run
    return found


@dataclass
class Patch:
    """A copy of what a step along a row reads of an array, with what stands for values outside.

    Args:
        name: what the code calls it.
        is_face: whether numbers stand for a row that lies outside.
        low: how far the array is read before the first point.
        high: how far behind the last one.
        start: code for the place of the first element, 0, in a way that LLVM cannot know; or
            nothing.
    """

    name: str
    is_face: bool
    low: int = 0
    high: int = 0
    start: str = ""

    def at(self, step: int) -> str:
        """Return code for the value some steps from point `lane`."""
        lane = f"{self.start} + lane" if self.start else "lane"
        return f"{self.name}[{moved(lane, self.low + step)}]"


def patches_of(
    p: Any, update: Update, runs: Mapping[Any, Any], start: str, copies_faces: bool
) -> dict[Any, Patch]:
    """Return what is copied, for each array and offset of its row; see :class:`Patch`.

    Nothing is copied that only a condition reads which never holds: Taichi crashes where it
    compiles local arrays that are filled on two ways and not read.
    """
    folded = update.assignments.folded(p.dtype).assignments
    read = {name for _, expression in folded for name in expression.names}
    found: dict[Any, Patch] = {}
    for own, (name, (*leading, step)) in update.accesses.items():
        if own not in read:
            continue
        key = name, tuple(leading)
        is_face = any(within(kind) != kind for kind in runs[key].kinds_at_face)
        patch = found.setdefault(key, Patch(f"patch_{len(found)}", is_face, start=start))
        patch.low, patch.high = max(patch.low, -step), max(patch.high, step)
    return {
        key: it for key, it in found.items() if it.low or it.high or (copies_faces and it.is_face)
    }


def within(kind: str) -> str:
    """Return the kind of a rule in rows whose neighbours are all elements."""
    return kind if kind in ("", *ELEMENTS) else "interior"


def near_edge(
    p: Any, update: Update, every: Mapping[str, Any], names: tuple[str, ...], extents: list[str]
) -> str:
    """Return code that says whether some neighbours of a row are numbers instead of elements."""
    reached: dict[tuple[int, int], int] = {}
    for name, rules in every.items():
        for axis in range(p.dim - 1):
            for side, most in enumerate(furthest(update, name, axis)):
                if rules[axis][side][0] not in ELEMENTS:
                    reached[axis, side] = max(most, reached.get((axis, side), 0))
    return " or ".join(
        f"{names[axis]} >= {extents[axis]} - {most}" if side else f"{names[axis]} < {most}"
        for (axis, side), most in reached.items()
        if most
    )
