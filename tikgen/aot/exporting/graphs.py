"""Plans graphs: kernels in sequence, whose arrays are matched by name and by shape."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import msgspec

from tikgen.aot import manifest as m
from tikgen.aot.names import identifier, name_problem
from tikgen.errors import ExportError, near
from tikgen.pipeline.kernel import Kernel
from tikgen.template.arguments import split_extent
from tikgen.template.parameters import canonical

# A kernel or its name in the bundle, then what it takes: by name or in order.
StepLike = tuple[Any, ...]

_Size = tuple[int, str]  # A size symbol of a step.
_Extent = tuple[_Size | None, int]  # A size plus a number, or a number.
# The names that workspaces have, see scratch_name.
_SCRATCH = re.compile(r"_step\d+_")


def steps_of(name: object, steps: Any) -> list[StepLike]:
    """Return the steps of a graph as a list; raise ExportError if they are something else."""
    if isinstance(steps, str | Mapping) or not isinstance(steps, Iterable):
        raise ExportError(f"the graph {name!r}", f"it takes a list of steps; got {steps!r:.60}")
    return list(steps)


def plan_graph(
    name: str,
    steps: Sequence[StepLike],
    kernels: Mapping[str, m.Kernel],
    temporaries: Sequence[str] = (),
    program_steps: int = 0,
) -> m.Graph:
    """Return the graph that launches ``steps`` in order.

    Args:
        name: its name.
        steps: for each launch ``(kernel, {argument: value, ...})`` or ``(kernel, value, ...)``,
            where the kernel is its name in the bundle, or what was exported; a value is the name
            of an argument of the graph or of a temporary, or a number that stays fixed.
        kernels: those of the bundle, by name.
        temporaries: names of arrays that the runtime allocates and the steps share.
        program_steps: how many steps of a program they are.

    Raises:
        ExportError: if a kernel or an argument is unknown or missing, or uses of a name disagree
            in kind, dtype, dimension or shape.
    """
    draft = _Draft(f"the graph {name!r}")
    if problem := name_problem(name):
        draft.refuse(f"its name cannot be used: {problem}")
    if name in kernels:
        draft.refuse("a kernel has the same name")
    listed = steps_of(name, steps)
    if not listed:
        draft.refuse("it has no steps")
    planned = [draft.add(number, step, kernels) for number, step in enumerate(listed)]
    arguments = draft.arguments()
    for temporary in temporaries:
        if temporary not in arguments or arguments[temporary].kind != "array":
            draft.refuse(f"no step uses the temporary array {temporary!r}")
    taken = {n: a for n, a in arguments.items() if n not in temporaries}
    held = {
        n: msgspec.structs.replace(arguments[n], role="work", covered=True, inplace=False)
        for n in temporaries
    }
    known = {None, *(split_extent(e)[0] for a in taken.values() for e in a.shape)}
    for array in held.values():
        for extent in array.shape:
            symbol, _ = split_extent(extent)
            if symbol not in known:
                draft.refuse(
                    f"no argument determines the size {symbol} of the temporary {array.name!r}; "
                    "let it be an argument"
                )
    return m.Graph(
        name=name,
        arguments=tuple(taken.values()),
        temporaries=tuple(held.values()),
        constants=draft.constants,
        steps=tuple(planned),
        program_steps=program_steps,
    )


def replanned(graph: m.Graph, kernels: Mapping[str, m.Kernel]) -> m.Graph | None:
    """Return a graph planned anew for other kernels; None if they do not fit."""
    steps = [
        (s.kernel, {n: graph.constants.get(given, given) for n, given in s.arguments.items()})
        for s in graph.steps
    ]
    temporaries = [t.name for t in graph.temporaries]
    try:
        return plan_graph(graph.name, steps, kernels, temporaries, graph.program_steps)
    except ExportError:
        return None


def scratch_of(
    graph: m.Graph, kernels: Mapping[str, m.Kernel], workspaces: Mapping[str, Sequence[m.Argument]]
) -> tuple[m.Argument, ...]:
    """Return the workspaces of a graph's kernels as arrays that the graph takes."""
    taken = {a.name: a for a in (*graph.arguments, *graph.temporaries)}
    found = []
    for number, step in enumerate(graph.steps):
        sizes = _sizes_in_graph(kernels[step.kernel], step, taken)
        for array in workspaces[step.kernel]:
            shape = tuple(_moved(extent, sizes) for extent in array.shape)
            scratch = scratch_name(number, array.name)
            found.append(msgspec.structs.replace(array, name=scratch, shape=shape))
    return tuple(found)


def scratch_name(step: int, workspace: str) -> str:
    """Return the name by which a graph takes the workspace of one of its steps.

    It is an identifier, as every argument's name, and none that a user may give.
    """
    return f"_step{step}_{workspace}"


def _sizes_in_graph(
    kernel: m.Kernel, step: m.Step, taken: Mapping[str, m.Argument]
) -> dict[str, tuple[str | None, int]]:
    """Return each size symbol of a step's kernel as a symbol of the graph plus a number."""
    sizes: dict[str, tuple[str | None, int]] = {}
    for argument in kernel.arguments:
        if argument.kind != "array":
            continue
        given = taken[step.arguments[argument.name]].shape
        for inner, outer in zip(argument.shape, given, strict=True):
            symbol, more = split_extent(inner)
            if symbol is not None:
                base, offset = split_extent(outer)
                sizes.setdefault(symbol, (base, offset - more))
    return sizes


def _moved(extent: m.Extent, sizes: Mapping[str, tuple[str | None, int]]) -> m.Extent:
    symbol, more = split_extent(extent)
    if symbol is None:
        return extent
    base, offset = sizes[symbol]
    return _extent(base, offset + more)


def _extent(symbol: str | None, more: int) -> m.Extent:
    if symbol is None:
        return more
    return f"{symbol} + {more}" if more else symbol


def _name_of(kernel: Any, kernels: Mapping[str, m.Kernel]) -> str:
    """Return the name of a kernel in the bundle, which must be unique."""
    if isinstance(kernel, str):
        return kernel
    if isinstance(kernel, Kernel) and kernel.variant.arguments:
        params = {name: canonical(value) for name, value in kernel.variant.problem}
        wanted = (kernel.template.name, params, dict(kernel.variant.sizes))
        shown = kernel.name
        found = [n for n, k in kernels.items() if (k.template, k.params, k.sizes) == wanted]
    else:
        function = kernel.function if isinstance(kernel, Kernel) else kernel
        shown = getattr(function, "__name__", repr(kernel))
        family = identifier(shown)
        found = [n for n, k in kernels.items() if not k.template and k.family == family]
    if len(found) == 1:
        return found[0]
    problem = (
        f"is in the bundle more than once; name one of {', '.join(found)}"
        if found
        else f"is not in the bundle; it holds {', '.join(kernels)}"
    )
    raise ExportError("the graph", f"{shown} {problem}")


@dataclass
class _Use:
    """What the steps so far require of a name."""

    argument: m.Argument
    step: int
    kernel: str
    extents: list[_Extent]


class _Draft:
    """A graph in the making: matches the sizes of its steps with one another."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.constants: dict[str, int | float] = {}
        self._uses: dict[str, _Use] = {}
        # Each size is another size plus a number, or stands for itself; or it is a number.
        self._above: dict[_Size, tuple[_Size, int]] = {}
        self._fixed: dict[_Size, int] = {}

    def refuse(self, problem: str) -> NoReturn:
        raise ExportError(self.what, problem)

    def add(self, number: int, step: StepLike, kernels: Mapping[str, m.Kernel]) -> m.Step:
        kernel, values = self._read(number, step, kernels)
        names = {}
        for argument in kernel.arguments:
            value = values[argument.name]
            if isinstance(value, str):
                self._use(number, kernel, argument, value)
                names[argument.name] = value
                continue
            if argument.kind != "scalar" or isinstance(value, bool):
                self.refuse(
                    f"step {number} gives {argument.name!r} of {kernel.name} the value {value!r}; "
                    "it takes a name" + (" or a number" if argument.kind == "scalar" else "")
                )
            fixed = f"step{number}_{argument.name}"
            self.constants[fixed] = value
            names[argument.name] = fixed
        self._check_aliases(number, kernel, names)
        return m.Step(kernel.name, names)

    def arguments(self) -> dict[str, m.Argument]:
        """Return every name with what it takes, in order of first use."""
        least: dict[_Size, int] = {}
        for use in self._uses.values():
            for size, more in use.extents:
                if size is not None:
                    root, offset = self._root(size)
                    least[root] = min(least.get(root, 0), offset + more)
        found = {}
        labels: dict[_Size, str] = {}
        for name, use in self._uses.items():
            shape = []
            for axis, (size, more) in enumerate(use.extents):
                if size is None:
                    shape.append(_extent(None, more))
                    continue
                root, offset = self._root(size)
                if root in self._fixed:
                    shape.append(_extent(None, self._fixed[root] + offset + more))
                    continue
                label = labels.setdefault(root, f"{name}_{axis}")
                shape.append(_extent(label, offset + more - least[root]))
            found[name] = msgspec.structs.replace(use.argument, name=name, shape=tuple(shape))
        return found

    def _read(
        self, number: int, step: StepLike, kernels: Mapping[str, m.Kernel]
    ) -> tuple[m.Kernel, dict[str, Any]]:
        if not isinstance(step, tuple) or not step:
            self.refuse(
                f"step {number} is {step!r}; a step is (kernel, {{'argument': 'name', ...}})"
            )
        name = _name_of(step[0], kernels)
        if name not in kernels:
            self.refuse(
                f"step {number} launches {name!r}, which is not in the bundle."
                f"{near(name, kernels)} It holds {', '.join(kernels)}"
            )
        kernel = kernels[name]
        wanted = [a.name for a in kernel.arguments]
        takes = ", ".join(wanted)
        given = step[1] if len(step) == 2 and isinstance(step[1], Mapping) else None
        if given is None:
            if len(step) - 1 > len(wanted):
                self.refuse(f"step {number} gives {name} more than {takes}")
            given = dict(zip(wanted, step[1:], strict=False))
        for unknown in (n for n in given if n not in wanted):
            self.refuse(f"step {number}, {name}, has no argument {unknown!r}; it takes {takes}")
        for missing in (n for n in wanted if n not in given):
            self.refuse(f"step {number}, {name}, lacks {missing!r}; it takes {takes}")
        return kernel, dict(given)

    def _use(self, number: int, kernel: m.Kernel, argument: m.Argument, name: str) -> None:
        if not name.isidentifier() or _SCRATCH.match(name):
            self.refuse(f"{name!r} cannot be the name of an argument")
        if keyword.iskeyword(name):
            self.refuse(f"{name!r} cannot be the name of an argument: it is a keyword of Python")
        split = map(split_extent, argument.shape)
        sizes: list[_Extent] = [(None if s is None else (number, s), more) for s, more in split]
        known = self._uses.get(name)
        if known is None:
            self._uses[name] = _Use(argument, number, kernel.name, sizes)
            return
        before = known.argument
        traits = ("kind", "dtype", "element")
        differs = next((t for t in traits if getattr(before, t) != getattr(argument, t)), "")
        is_alike = len(known.extents) == len(sizes) and all(map(self._unite, known.extents, sizes))
        if differs or not is_alike:
            trait = differs or "shape"
            self.refuse(
                f"{name!r} has {trait} {getattr(before, trait)} in step {known.step} "
                f"({known.kernel}), and {getattr(argument, trait)} in step {number} ({kernel.name})"
            )
        # What is written first and read later need not be filled by the caller.
        role = before.role
        if role == "in" and argument.role != "in":
            role = "inout"
        elif role == "out" and not before.covered:
            role = "inout" if argument.role != "out" else "out"
        known.argument = msgspec.structs.replace(before, role=role, inplace=False)

    def _check_aliases(self, number: int, kernel: m.Kernel, names: Mapping[str, str]) -> None:
        arrays = [a for a in kernel.arguments if a.kind == "array"]
        for one in arrays:
            for other in arrays:
                same = one is not other and names[one.name] == names[other.name]
                if same and one.role != "in" and not (one.inplace and other.role == "in"):
                    self.refuse(
                        f"step {number} gives {names[one.name]!r} to {one.name!r} and "
                        f"{other.name!r} of {kernel.name}, which writes to {one.name!r}"
                    )

    def _root(self, size: _Size) -> tuple[_Size, int]:
        """Return what a size is measured from, and its distance from there."""
        offset = 0
        while size in self._above:
            size, more = self._above[size]
            offset += more
        return size, offset

    def _unite(self, one: _Extent, other: _Extent) -> bool:
        """Let two extents be equal; return whether they can be."""
        (first, more), (second, plus) = one, other
        if first is None or second is None:
            if first is second:
                return more == plus
            size, offset, value = (second, plus, more) if first is None else (first, more, plus)
            assert size is not None
            root, distance = self._root(size)
            fixed = value - offset - distance
            return self._fixed.setdefault(root, fixed) == fixed
        (root, near_by), (base, far) = self._root(first), self._root(second)
        # root + near_by + more == base + far + plus
        distance = near_by + more - far - plus
        if root == base:
            return distance == 0
        if base in self._fixed:
            fixed = self._fixed.pop(base) - distance
            if self._fixed.setdefault(root, fixed) != fixed:
                return False
        self._above[base] = (root, distance)
        return True
