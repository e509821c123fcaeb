"""The base class of every template: what a kernel family declares beside its text."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tikgen.errors import TemplateError
from tikgen.template.arguments import Argument, Array, Opaque, concrete_shape, symbols
from tikgen.template.blame import asked
from tikgen.template.declared import declared, returned_schedule, tried_sizes
from tikgen.template.dependencies import Files, Macro, read_files, read_macros
from tikgen.template.grid_use import GridUse
from tikgen.template.here import Constant
from tikgen.template.once import once
from tikgen.template.parameters import (
    Invalid,
    ParameterInfo,
    ProblemModel,
    ScheduleModel,
    listed_values,
    parameter_infos,
)
from tikgen.template.rules import ARCH, first_refusal, neutral_values
from tikgen.template.views import Views

_PACKAGE = Path(__file__).parents[1]
# A wheel holds the templates inside the package, a checkout beside it.
BUILTIN_FOLDER = next(
    (f for f in (_PACKAGE / "templates", _PACKAGE.parent / "templates") if f.is_dir()),
    _PACKAGE / "templates",
)

NDArray = npt.NDArray[Any]
TEXT_NAME = "kernel.py.j2"
CODE_NAME = "template.py"
# Sizes that verification tries for arrays of 1, 2, 3 and 4 axes; no unrolling divides them all.
SIZES = (
    (1, 2, 5, 17, 64, 131, 1031),
    (1, 3, 8, 17, 37),
    (1, 2, 5, 9, 17),
    (1, 2, 3, 5, 7),
)


@dataclass(frozen=True)
class Cost:
    """What one launch must do at least, as ``Template.cost`` returns it.

    Attributes:
        bytes: bytes moved through memory.
        flops: operations done.
    """

    bytes: int
    flops: int


class Template(Constant):
    """A kernel family: a Jinja2 text, its typed parameters and its NumPy reference.

    A subclass lives in ``template.py`` beside ``kernel.py.j2``. It declares ``Problem`` and
    ``Schedule`` and overrides what it needs. ``p`` is an instance of ``Problem`` throughout.

    ``reference``, ``inputs`` and ``tolerance`` are static methods that use NumPy, ``p`` and
    functions of the template's own files only, because ``Kernel.eject`` copies their source.
    """

    Problem: ClassVar[type[ProblemModel]] = ProblemModel
    Schedule: ClassVar[type[ScheduleModel]] = ScheduleModel

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name
        files = files_of(folder)
        text = files.contents[folder / TEXT_NAME]
        if text is None:
            raise TemplateError(self.name, f"the file {folder / TEXT_NAME} cannot be read")
        self.text = text.decode("utf-8")
        self.macros = files.macros
        # SHA-256 over the text, the declarations and the macro files, as they were read.
        self.fingerprint = files.fingerprint
        # That of the Python files alone: evidence is of the reference that they hold.
        self.code_fingerprint = files.code_fingerprint

    # What the template declares.

    def arguments(self, p: Any) -> tuple[Argument, ...]:
        """Return what a caller passes, in order."""
        raise NotImplementedError

    def workspace(self, p: Any, s: Any) -> tuple[Array, ...]:
        """Return the scratch arrays that the kernel takes after its arguments."""
        return ()

    def context(self, p: Any, s: Any) -> Mapping[str, Any]:
        """Return further names for the Jinja2 text; none of them may come from a user's text."""
        return {}

    def set_apart(self, p: Any) -> tuple[Any, tuple[str, ...]]:
        """Return the problem as the code is rendered from, and names that it spells otherwise.

        Those are names of a user that the text has as well: :mod:`tikgen.expression.apart`.
        """
        return p, ()

    def default_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        """Return the schedule parameters that differ from the model's defaults.

        Args:
            p: the problem.
            arch: arch to run on.
            sizes: value of each size symbol where they are known, else None.
        """
        return {}

    def direct_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, Any]:
        """Return the same for an engine beside Taichi, which wakes its threads sooner."""
        return self.default_schedule(p, arch, sizes)

    def traits(
        self, p: Any, arch: str, sizes: Mapping[str, int], read: Callable[[str], Any]
    ) -> Mapping[str, int]:
        """Return numbers about the data that ``default_schedule`` finds among the sizes.

        They are taken from the first arguments of some shapes, and the schedule that follows
        serves all arguments of these shapes. ``default_schedule`` does without them where a
        kernel is built for a ``shape``.

        Args:
            p: the problem.
            arch: arch to run on.
            sizes: value of each size symbol.
            read: returns an argument by name as a NumPy array, copied from a GPU.
        """
        return {}

    def schedule_space(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None
    ) -> Mapping[str, tuple[Any, ...]]:
        """Return the values of each schedule parameter that tuning tries.

        A parameter that is left out stays at its default. What ``check`` refuses is left out of
        the product. Without an override every listed choice of every parameter is tried.
        """
        return {
            info.name: values
            for info in self.parameters
            if info.kind == "schedule" and (values := listed_values(self.Schedule, info.name))
        }

    def check(self, p: Any, s: Any, arch: str) -> None:
        """Raise :class:`tikgen.template.parameters.Invalid` where a schedule does not fit.

        It says what `only` and `needs` of the parameters cannot, and runs after these were met.
        """

    def unsupported(self, p: Any, arch: str) -> str | None:
        """Return why ``arch`` cannot run the problem and what to use instead, or None."""
        return None

    def steps(
        self, p: Any, s: Any, sizes: Mapping[str, int], read: Callable[[str], NDArray]
    ) -> int:
        """Return how many steps the loops of one invocation take at most, on Vulkan.

        Mesa's Vulkan on a processor ends every loop in silence after 65,535 of them, so that a
        launch there which needs more is refused. :mod:`tikgen.pipeline.loop_steps` counts, and has
        a launch with large arrays refused on every arch where a parallel loop has more iterations
        than Taichi can count. Without an override no launch is refused.

        Args:
            p: the problem.
            s: the schedule.
            sizes: value of each size symbol.
            read: returns the content of the array with a name, where the steps depend on it.
        """
        return 0

    def cost(self, p: Any, sizes: Mapping[str, int]) -> Cost:
        """Return the least work of a launch where each size symbol has its value in ``sizes``.

        Without an override every array is read or written once, or both where its role is
        ``"inout"``, and ``flops`` tells the operations.
        """
        moved = 0
        for array in self.arguments(p):
            if isinstance(array, Opaque):
                raise NotImplementedError
            if isinstance(array, Array):
                bits = math.prod(concrete_shape(array, sizes)) * array.dtype.bits
                moved += bits // 8 * (2 if array.role == "inout" else 1)
        flops = asked(self, "flops()", numbers.Real, "a number", p, sizes)
        return Cost(bytes=moved, flops=flops)

    def flops(self, p: Any, sizes: Mapping[str, int]) -> int:
        """Return how many operations a launch does at least; without an override none."""
        return 0

    def grid_use(self, p: Any) -> GridUse | None:
        """Return what the kernel does with the points of a grid that is divided among processes.

        None says that it cannot compute a part of a grid. A template that returns something else
        has the problem parameter ``part``, which :class:`~tikgen.template.grid_use.GridUse`
        explains.
        """
        return None

    def takes_views(self, p: Any) -> tuple[str, ...]:
        """Return the names of the arrays that may be views, whose rows lie apart in memory.

        A template that returns some has :meth:`context_of_views`. The kernels for views are made
        when a view is first met, and :class:`~tikgen.template.views.Views` says what they take.
        """
        return ()

    def context_of_views(self, p: Any, s: Any, views: Views) -> Mapping[str, Any]:
        """Return :meth:`context` for a kernel of which some arrays may be views."""
        raise NotImplementedError

    def hint(self, p: Any, name: str, value: object) -> str:
        """Return what to say of an argument that a kernel does not take, or nothing.

        Args:
            p: the problem.
            name: name of the argument.
            value: what was passed: anything for a name that is unknown, else no array; of an array
                of a wrong shape its shape.
        """
        if isinstance(value, int | float | np.number) and hasattr(p, "scalars"):
            found = next((each for each in self.arguments(p) if each.name == name), None)
            if isinstance(found, Array) and found.may_be_scalar:
                return f"; a number is named at the build, scalars={name!r}"
        return ""

    # What the kernel must compute.

    @staticmethod
    def reference(p: Any, *arguments: Any) -> NDArray | tuple[NDArray, ...] | Mapping[str, NDArray]:
        """Return what every written array must hold after a launch with ``arguments``.

        That is a tuple in the order of the arguments, or a dict by name; one array may be alone.

        Takes what the caller passes, outputs included with what they hold before the launch,
        and changes none. Computes in higher precision (``DType.wide``).
        """
        raise NotImplementedError

    @staticmethod
    def inputs(p: Any, sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, Any]:
        """Return values for those arguments that random numbers would not suit."""
        return {}

    @staticmethod
    def tolerance(p: Any, inputs: Mapping[str, Any], expected: Mapping[str, Any]) -> Any:
        """Return the greatest error allowed, a dict from output to a number or an array.

        The default allows 16 units in the last place of the largest expected value, in the dtype of
        the output. Rounding the result to its dtype is allowed on top, always.
        """
        allowed = {}
        for name, value in expected.items():
            dtype = inputs[name].dtype
            is_float = dtype.kind == value.dtype.kind == "f"
            finite = np.abs(value[np.isfinite(value)]) if is_float else value[:0]
            scale = float(finite.max()) if finite.size else 0.0
            allowed[name] = 16 * float(np.finfo(dtype).eps) * scale if scale else 0.0
        return allowed

    # What tuning and sweeps time.

    def workload(
        self, p: Any, sizes: Mapping[str, int], rng: np.random.Generator
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return typical data to time kernels on: values by argument, for each kind of data.

        An argument that is left out holds uniform random numbers: floats from -1 to 1, integers
        from -100 or 0 to 100. Kernels are timed on every kind. Data that verification needs,
        such as NaN, infinities and empty ranges, does not belong here.

        Without an override it is what ``inputs`` gives, less what is not finite.
        """
        given = self.inputs(p, sizes, rng)
        return {"typical": {name: _finite(value, rng) for name, value in given.items()}}

    # What verification draws.

    def sizes(self, p: Any) -> Mapping[str, tuple[int, ...]]:
        """Return the sizes that verification tries for each size symbol.

        Without an override they follow from the number of axes of the largest array.
        """
        arrays = [a for a in self.arguments(p) if isinstance(a, Array)]
        axes = max((len(symbols((a,))) for a in arrays), default=1)
        return dict.fromkeys(self.size_symbols(p), SIZES[min(max(axes, 1), len(SIZES)) - 1])

    def largest_sizes(self, p: Any) -> Mapping[str, int]:
        """Return the largest size for each size symbol whose arrays cannot be of any size.

        A launch of larger ones is refused. Verification stretches some axes beyond ``sizes``, and
        no further than this.
        """
        return {}

    def full_sizes(self, p: Any, s: Any) -> tuple[Mapping[str, int], ...]:
        """Return sizes that fill all parts of a schedule, where ``sizes`` holds none so large.

        Verification launches few of them, on cpu only.
        """
        return ()

    def strategies(self) -> Mapping[str, Any]:
        """Return hypothesis strategies for parameters whose type does not imply one."""
        return {}

    def adjust(self, drawn: dict[str, Any], arch: str) -> Mapping[str, Any]:
        """Return ``drawn``, some or all parameters by name, changed so that they go together.

        What rules and ``check`` refuse afterwards is changed by :func:`fitted`, or drawn again.
        """
        return drawn

    # What follows from the above.

    @property
    def key(self) -> str:
        """Return one text for equal templates, such as ``stencil@0123456789abcdef``."""
        return f"{self.name}@{self.fingerprint[:16]}"

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Return the folders from which the text may import macros, nearest first."""
        return _search_path(self.folder)

    @functools.cached_property
    def macros(self) -> tuple[Macro, ...]:
        """Return the macro files that the text leads to, as they were when they were read."""
        return read_macros(self.text.encode(), self.search_path, self.folder)[0]

    @property
    def doc(self) -> str:
        """Return the template's own description."""
        return (type(self).__doc__ or "").strip()

    @property
    def summary(self) -> str:
        """Return the first line of the description."""
        return self.doc.partition("\n")[0]

    @functools.cached_property
    def parameters(self) -> tuple[ParameterInfo, ...]:
        """Return every parameter, problem parameters first."""
        return parameter_infos(self.Problem, "problem") + parameter_infos(self.Schedule, "schedule")

    def default_values(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool = False
    ) -> dict[str, Any]:
        """Return ``default_schedule``, with the neutral values of parameters that do not apply."""
        known = None if sizes is None else (*sizes.items(),)
        return dict(_default_values(p, self, arch, known, is_direct))

    def chosen_schedule(
        self, p: Any, arch: str, sizes: Mapping[str, int] | None, is_direct: bool
    ) -> Mapping[str, Any]:
        """Return ``direct_schedule`` or ``default_schedule``, checked."""
        is_own = is_direct and type(self).direct_schedule is not Template.direct_schedule
        method = "direct_schedule()" if is_own else "default_schedule()"
        return returned_schedule(self, method, self.Schedule, p, arch, sizes)

    def check_schedule(self, p: Any, s: Any, arch: str) -> None:
        """Raise :class:`tikgen.template.parameters.Invalid` where rules or ``check`` refuse."""
        if refusal := first_refusal(self.Schedule, {**dict(p), **dict(s), ARCH: arch}):
            raise Invalid(*refusal)
        takes = "nothing, and raise Invalid"
        asked(self, "check()", type(None), takes, p, s, arch, passing=(Invalid,))

    def size_symbols(self, p: Any) -> tuple[str, ...]:
        """Return the names of the sizes on which shapes depend."""
        return symbols(declared(self, "arguments()", p))

    def middle_sizes(self, p: Any) -> dict[str, int]:
        """Return for each size symbol the middle one of the sizes that verification tries."""
        tried = tried_sizes(self, p)
        middle = {}
        for symbol in self.size_symbols(p):
            options = tried.get(symbol, [17])
            middle[symbol] = options[len(options) // 2]
        return middle

    def __repr__(self) -> str:
        return f"<Template {self.name} at {self.folder}>"


@once
def _default_values(
    p: Any,
    template: Template,
    arch: str,
    sizes: tuple[tuple[str, int], ...] | None,
    is_direct: bool,
) -> dict[str, Any]:
    known_sizes = None if sizes is None else dict(sizes)
    values = dict(template.chosen_schedule(p, arch, known_sizes, is_direct))
    known = {n: f.default for n, f in template.Schedule.model_fields.items()} | values
    neutral = neutral_values(template.Schedule, {**dict(p), **known, ARCH: arch}, values)
    return values | {name: value for name, value in neutral.items() if value != known[name]}


def files_of(folder: Path) -> Files:
    """Return what the files of the template in ``folder`` hold now."""
    return read_files(folder / TEXT_NAME, folder / CODE_NAME, _search_path(folder))


def _finite(value: Any, rng: np.random.Generator) -> Any:
    """Return a value whose non-finite numbers are replaced by random ones of its range."""
    given = np.asarray(value)
    if given.dtype.kind != "f" or np.isfinite(given).all():
        return value
    usable = np.isfinite(given)
    known = given[usable] if usable.any() else np.array([-1.0, 1.0], given.dtype)
    drawn = rng.uniform(float(known.min()), float(known.max()), given.shape)
    return np.where(usable, given, drawn).astype(given.dtype)


def _search_path(folder: Path) -> tuple[Path, ...]:
    return (folder.parent, BUILTIN_FOLDER)
