"""Kernels on a grid: what is exchanged before a launch, the launch, and what is joined after it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np

from tikgen.errors import GridError, TikgenError
from tikgen.grid import nccl
from tikgen.grid.decomposition import by
from tikgen.grid.domain import Domain
from tikgen.grid.exact_totals import ExactTotals
from tikgen.grid.exchange import Exchange, needs
from tikgen.grid.faces import Face, check_face
from tikgen.grid.field import Field
from tikgen.grid.gpus import check_own_gpu
from tikgen.grid.layers import Layers
from tikgen.grid.memory import zeros
from tikgen.grid.processes import different
from tikgen.grid.regions import Region, beyond_reach, inside_and_sides
from tikgen.grid.totals import Totals
from tikgen.grid.wide_layers import several_steps
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.signature import Signature
from tikgen.pipeline.sized import SizedKernel
from tikgen.program.parts import (
    Changing,
    Composite,
    Part,
    Several,
    Swap,
    Varying,
    is_table,
    varying,
)
from tikgen.program.slots import is_array
from tikgen.program.team import Held, Job, Team, Work
from tikgen.template.arguments import Array, Scalar
from tikgen.template.grid_use import ArrayUse, GridUse, LayersUse
from tikgen.template.parameters import canonical


class GridStep(Composite):
    """A kernel with fields of a grid as arguments; made by :meth:`Grid.bind`.

    It is a part of a program. Call it to launch the kernel once, on all processes.
    """

    def __init__(
        self,
        domain: Domain,
        kernel: Kernel,
        use: GridUse,
        values: Mapping[str, Any],
        scalars: Mapping[str, Changing] | None = None,
        number: int = 0,
    ) -> None:
        self._domain, self.kernel, self.use, self._number = domain, kernel, use, number
        self._values, self._varying = dict(values), dict(scalars or {})
        self._faces = {name: Face(domain, values[name], axis) for name, axis in use.faces.items()}
        self._jobs: dict[Work, Job] = {}

    @property
    def signature(self) -> Signature:
        """Return the ordered arguments of the kernel."""
        return self.kernel.signature

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return its arguments by name, fields among them."""
        return self._values

    @property
    def changing(self) -> Mapping[str, Changing]:
        """Return its scalars that change with the step."""
        return self._varying

    @property
    def described(self) -> str:
        """Return its number among those bound, the same on all processes, fields and scalars."""
        shown = {
            name: f"field {value.number}" if isinstance(value, Field) else value
            for name, value in self._values.items()
            if not is_array(value)
        }
        shown |= {name: _told(source) for name, source in self._varying.items()}
        given = ", ".join(f"{name}={value}" for name, value in shown.items())
        return f"kernel {self._number} of grid.bind({given})"

    @property
    def team(self) -> Team | None:
        """Return the processes, if there are several."""
        processes = self._domain.processes
        return processes if processes.size > 1 or self.exact else None

    @property
    def exact(self) -> tuple[str, ...]:
        """Return the sums that are exact; those of integers are so anyway."""
        if self._domain.sums == "fast":
            return ()
        kinds = {a.name: a.dtype for a in self.signature.arguments if isinstance(a, Array)}
        sums = (name for name, operation in self.use.totals.items() if operation == "sum")
        return tuple(name for name in sums if kinds[name].is_float)

    @functools.cached_property
    def _terms(self) -> dict[str, Any]:
        """Return an array for the terms of each exact sum; 0 where nothing is computed."""
        kinds = {a.name: a.dtype for a in self.signature.arguments if isinstance(a, Array)}
        shape, memory = self._domain.extents, self._domain.memory
        return {name: zeros(memory, shape, kinds[name]) for name in self.exact}

    @property
    def scratch(self) -> tuple[Any, ...]:
        """Return the arrays of terms, and copies of values over faces."""
        copied = (face.array for name, face in self._faces.items())
        own = [array for array in copied if not any(array is v for v in self._values.values())]
        return (*self._terms.values(), *own)

    @property
    def renewing(self) -> tuple[Work, ...]:
        """Return what takes values over faces anew, before the kernel reads them."""
        return tuple(face.work for face in self._faces.values() if face.work is not None)

    def renew(self) -> None:
        """Take values over faces as they are before a run, on a device."""
        for face in self._faces.values():
            face.renew()

    @functools.cached_property
    def bound(self) -> BoundKernel:
        """Return the kernel of this process, with its arrays."""
        return self.over(self._domain.part)

    def over(self, region: Region) -> BoundKernel:
        """Return the kernel that computes the points of a region of this process's part."""
        given = {
            name: value.array if isinstance(value, Held) else value
            for name, value in self._values.items()
        }
        given |= {name: face.array for name, face in self._faces.items()}
        changes = self.use.storing if self.exact else {}
        kernel = own_kernel(self._domain, self.kernel, region, changes)
        return kernel.bind(**(given | self._terms))

    def _launch(self, bound: BoundKernel) -> BoundKernel | Varying:
        if not self._varying:
            return bound
        made = varying(bound, **self._varying)
        assert isinstance(made, Varying)
        return made

    def _regions(self, uses: Iterable[ArrayUse]) -> list[Region]:
        """Return what is computed while messages travel, and the regions that wait for them."""
        if not self._domain.overlaps or len(self.use.totals) > len(self.exact):
            return []  # A reduction over several launches would round otherwise.
        joined = functools.reduce(ArrayUse.joined, uses)
        return inside_and_sides(self._domain, joined.reach)

    @functools.cached_property
    def parts(self) -> tuple[Part, ...]:
        """Return the exchange before the launch, the launch, and the join of reductions."""
        exact = self._exact_parts()
        if self._domain.processes.size == 1:
            return (*self.renewing, self._launch(self.bound), *exact)
        read: dict[Field, ArrayUse] = {}
        for name, use in self.use.arrays.items():
            if needs(self._domain, use):
                field = self._values[name]
                read[field] = use.joined(read[field]) if field in read else use
        found: list[Part] = [*self.renewing]
        if regions := self._regions(read.values()) if read else []:
            begin, end = Exchange(self._domain, read).halves()
            inside, *sides = (self._launch(self.over(region)) for region in regions)
            found += [begin, inside, end, *sides]
        else:
            if read:
                found.append(Exchange(self._domain, read))
            found.append(self._launch(self.bound))
        results = {n: self._values[n] for n in self.use.totals if n not in self.exact}
        if results:
            found.append(Totals(self._domain, results, self.use.totals))
        return (*found, *exact)

    def _exact_parts(self) -> tuple[Part, ...]:
        results = [self._values[name] for name in self.exact]
        return (ExactTotals(self._domain, [*self._terms.values()], results),) if results else ()

    def varying(self, scalars: Mapping[str, Changing]) -> GridStep:
        """Return it with scalars that change with the step."""
        return GridStep(self._domain, self.kernel, self.use, self._values, scalars, self._number)

    def several_steps(self, listed: Sequence[Part]) -> Several | None:
        """Return parts that do several steps with one exchange of wider ghost layers."""
        return several_steps(self._domain, listed) if self.repeats(listed) else None

    def repeats(self, listed: Sequence[Part]) -> TypeGuard[Sequence[GridStep | Swap]]:
        """Return whether parts are swaps and kernels on its grid that do the same in each step."""
        return all(
            isinstance(part, Swap)
            or (isinstance(part, GridStep) and part._domain is self._domain and not part._varying)
            for part in listed
        )

    def __call__(self, /, **scalars: Any) -> None:
        """Launch the kernel once, with what belongs before and after; all processes must.

        Args:
            scalars: new values of scalar arguments, kept for later calls.
        """
        self.renew()
        for part in self.parts:
            if isinstance(part, Work):
                self._job(part).run()
            elif isinstance(part, BoundKernel):
                part(**scalars)
            else:
                assert isinstance(part, Varying)
                part.bound(**scalars)
        self._values |= scalars

    def _job(self, work: Work) -> Job:
        """Return the job of a part that is called; it is made once."""
        if work not in self._jobs:
            self._jobs[work] = work.made_for(work.arrays)
        return self._jobs[work]

    def __repr__(self) -> str:
        return f"<GridStep {self.kernel.name} over {self._domain}>"


def own_kernel(
    domain: Domain, kernel: Kernel, part: Region, changes: Mapping[str, Any] | None = None
) -> Kernel:
    """Return the kernel that computes a part of the grid that this process owns.

    Args:
        domain: the grid.
        kernel: the kernel of the whole grid.
        part: the part.
        changes: further problem parameters.
    """
    changes = dict(changes or {})
    if domain.processes.size > 1:
        use = kernel.template.grid_use(kernel.problem) if domain.is_idle else None
        changes["part"] = beyond_reach(part, _reaches(use)) if use else part
    if not changes:
        return kernel
    schedule = None if isinstance(kernel, SizedKernel) else dict(kernel.schedule)
    problem = dict(kernel.problem) | changes
    return build(kernel.template, schedule=schedule, engine=kernel._engine, **problem)


def bound_on(
    domain: Domain,
    periodic: Sequence[bool],
    kernel: Kernel,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> GridStep:
    """Return a kernel bound to fields, once all processes agree that it fits.

    Raises:
        GridError: if it does not, on all processes.
    """
    problem, text, values, use = "", "", {}, None
    try:
        use = _use_of(domain, kernel)
        given = kernel.signature.order(args, kwargs)
        values = dict(zip(kernel.signature.names, given, strict=False))
        _check_arrays(domain, kernel, use, values)
        _check_sides(periodic, kernel, use)
        for name, axis in use.faces.items():
            check_face(domain, name, values[name], axis)
        _check_plain(kernel, {*use.totals, *use.faces}, values)
        domain.take([max(map(max, each)) for each in _reaches(use)], kernel.name)
        text = _description(domain, kernel, use, values)
    except TikgenError as error:
        problem = str(error)
    domain.processes.refuse(problem)
    check_own_gpu(domain.processes)
    if not domain.bound:
        domain.carrier = nccl.carrier_of(domain)
    _check_agreement(domain, kernel.name, text)
    assert use is not None
    domain.bound += 1
    return GridStep(domain, kernel, use, values, number=domain.bound)


def _use_of(domain: Domain, kernel: Kernel) -> GridUse:
    if not isinstance(kernel, Kernel):
        raise GridError(f"bind takes a kernel and its arguments; got {type(kernel).__name__}")
    use = kernel.template.grid_use(kernel.problem)
    if use is None:
        raise GridError(
            f"{kernel.name} computes no part of a grid, as its template, "
            f"{kernel.template.name}, knows no ghost points; write its equations for tikgen.update"
        )
    if getattr(kernel.problem, "part", None) is not None:
        raise GridError(f"{kernel.name} has a part already; the grid chooses it")
    if use.dim != len(domain.shape):
        raise GridError(
            f"{kernel.name} has {use.dim} axes, and the grid of {by(domain.shape)} points has "
            f"{len(domain.shape)}"
        )
    return use


def _reaches(use: GridUse) -> list[list[tuple[int, int]]]:
    """Return how far a kernel reaches into each array, for each axis."""
    return [[each.reach[axis] for each in use.arrays.values()] for axis in range(use.dim)]


def _check_arrays(domain: Domain, kernel: Kernel, use: GridUse, values: Mapping[str, Any]) -> None:
    """Raise GridError where an argument is no field of the grid that fits."""
    for argument in kernel.signature.arguments:
        name, value = argument.name, values.get(argument.name)
        what = f"{kernel.name}: argument {name!r}"
        if name in use.layers or isinstance(value, Layers):
            _check_layers(domain, what, argument, use.layers.get(name), value)
            continue
        if name not in use.arrays:
            if isinstance(value, Held):
                is_scalar = isinstance(argument, Scalar)
                hint = "; it is a scalar, a number of the call" if is_scalar else ""
                raise GridError(f"{what} takes no field{hint}; got {value!r}")
            continue
        assert isinstance(argument, Array)
        if not isinstance(value, Field):
            hint = "; make it with grid.field(array)" if is_array(value) else ""
            raise GridError(f"{what} takes a field of the grid; got {type(value).__name__}{hint}")
        if value.domain is not domain:
            raise GridError(f"{what} is a field of another grid, of {value.domain}")
        if value.dtype is not argument.dtype:
            why = kernel.template.hint(kernel.problem, name, value)
            raise GridError(
                f"{what} takes dtype {argument.dtype}; got a field of {value.dtype}{why}"
            )
        wanted = [extent for extent in argument.shape if isinstance(extent, int)]
        own = [value.components] if value.components else []
        if (own, value.first_axis) != (wanted, use.arrays[name].first_axis):
            layout = ", layout='last'" if wanted and not use.arrays[name].first_axis else ""
            takes = f"components={wanted[0]}{layout}" if wanted else "no components"
            raise GridError(f"{what} takes a field with {takes}; got shape {value.whole_shape}")


def _check_layers(
    domain: Domain, what: str, argument: Any, use: LayersUse | None, value: Any
) -> None:
    """Raise GridError where an argument, or a value, is of matched layers and does not fit."""
    if use is None:
        raise GridError(f"{what} takes nothing that layers keep; got {value!r}")
    is_of_layers = isinstance(value, Layers)
    wanted = domain, use, argument.shape[0], argument.dtype
    if not is_of_layers or wanted != (value.domain, value.use, value.components, value.dtype):
        got = repr(value) if is_of_layers else type(value).__name__
        raise GridError(
            f"{what} takes what grid.matched_layers(kernel, courant=...) makes for this kernel and "
            f"grid; got {got}"
        )


def _check_sides(periodic: Sequence[bool], kernel: Kernel, use: GridUse) -> None:
    """Raise GridError where rules of a kernel and of the grid differ about periodic axes."""
    for name, each in use.arrays.items():
        for axis, rules in enumerate(each.periodic):
            if rules - {periodic[axis]}:
                told, own = ("is", "another rule") if periodic[axis] else ("is not", "'periodic'")
                raise GridError(
                    f"{kernel.name}: the grid {told} periodic along axis {axis}, and the boundary "
                    f"of {name} there is {own}; say the same in Grid(..., periodic=...) and in the "
                    "kernel's boundary"
                )


def _check_plain(kernel: Kernel, names: set[str], values: Mapping[str, Any]) -> None:
    """Raise GridError where an array that is no field has another dtype, or is no single number."""
    signature = kernel.signature
    for argument, check in zip(signature.arguments, signature.checks, strict=True):
        if argument.name not in names or check is None or not isinstance(argument, Array):
            continue
        value = values[argument.name]
        problem = check.array_problem(value)
        if not problem and argument.shape == (1,) and tuple(value.shape) != (1,):
            problem = f"argument {argument.name!r} takes shape (1,); got {tuple(value.shape)}"
        if problem:
            raise GridError(f"{kernel.name}: {problem}")


def _told(source: Changing) -> str:
    """Return what processes have to agree about where a scalar changes with the step."""
    if callable(source) or not is_table(source):
        return "a function"
    values = [str(source[step]) for step in range(len(source))]
    digest = hashlib.sha256("\n".join(values).encode()).hexdigest()
    begin = ", ".join(values[:3])
    return f"[{begin}, ...], {len(values)} values of digest {digest[:16]}"


def _description(domain: Domain, kernel: Kernel, use: GridUse, values: Mapping[str, Any]) -> str:
    """Return what processes have to agree about, a line each."""
    lines = [f"{name}={canonical(value)}" for name, value in dict(kernel.problem).items()]
    for name, value in values.items():
        if isinstance(value, Field):
            lines.append(f"{name} is field {value.number}")
        elif name in use.faces:
            digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
            lines.append(f"{name} holds values of digest {digest[:16]}")
        elif is_array(value):
            lines.append(f"{name} is an array of shape {tuple(value.shape)}")
        else:
            lines.append(f"{name}={value!r}")
    return "\n".join([kernel.template.name, f"fields on {domain.memory.name}", *lines])


def _check_agreement(domain: Domain, kernel: str, text: str) -> None:
    """Raise GridError on all processes unless they bind the same."""
    processes = domain.processes
    if processes.difference(hashlib.sha256(text.encode()).hexdigest()) is None:
        return
    found = different(processes.all(text))
    raise GridError(f"the processes bind {kernel} differently: {found}")
