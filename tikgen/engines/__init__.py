"""Engines: who compiles a kernel and launches it.

``taichi`` is Taichi itself, which is always there and is the reference. Each other engine is a
module of this room, with the functions of :class:`Engine`: it takes the code that Taichi makes of a
kernel, compiles it for the device at hand, and launches it without Taichi.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from tikgen.dtypes import DType
    from tikgen.engines.argument_struct import ArrayUse, Kind

TAICHI, DIRECT_CPU, DIRECT_CUDA = "taichi", "direct-cpu", "direct-cuda"
# Taichi, until another engine is proven for the kernel.
AUTO = "auto"
# The engine beside Taichi of the arch, where it can launch the kernel, else Taichi.
DIRECT = "direct"
# What launches a kernel unless the call that made it says otherwise; see :func:`resolved`.
DEFAULT = "default"
_OPTIONS = (AUTO, DIRECT, DEFAULT)
# Takes the place of the default.
_VARIABLE = "TIKGEN_ENGINE"
_wanted = os.environ.get(_VARIABLE, "") or DEFAULT


class _Place(NamedTuple):
    """Where an engine beside Taichi is, what it needs, and the arch of Taichi that it is for."""

    module: str
    package: str
    extra: str
    arch: str


_PLACES = {
    DIRECT_CPU: _Place("tikgen.engines.direct_cpu", "llvmlite", "fast", "cpu"),
    DIRECT_CUDA: _Place("tikgen.engines.direct_cuda", "cuda", "cuda", "cuda"),
}
ENGINES = (TAICHI, *_PLACES)


class AnyLauncher(Protocol):
    """Launches one kernel over a context in which its arguments stay set."""

    launch: Callable[[], None]

    @property
    def is_spent(self) -> bool:
        """Return whether the context must be renewed before the next launch."""

    def renew(self) -> None:
        """Begin a new context, in which no argument is set."""

    def set_array(self, slot: int, array: Any) -> None:
        """Set the array argument in ``slot``."""

    def scalar_setter(self, slot: int, is_float: bool, is_signed: bool) -> Callable[[Any], None]:
        """Return the function that sets the scalar argument in ``slot``."""


class DirectLauncher(AnyLauncher, Protocol):
    """Launches machine code; for one thread at a time.

    Attributes:
        arguments: memory of the host into which :attr:`Code.pack_into` packs the arguments.
    """

    arguments: Any

    def packed(self, values: Sequence[Any], size: int) -> bool:
        """Take arguments that were packed, with arrays of ``size`` bytes in all.

        Return False if they must be set one by one.
        """

    def set_all(self, values: Sequence[Any]) -> None:
        """Set every argument, in the order of the slots."""


class Code(Protocol):
    """The machine code of a kernel, loaded into this process.

    Attributes:
        pack_into: packs the fields of all arguments: scalars, and extents and addresses of arrays.
        on_device: addresses of the device that were found to be usable; None if it takes those of
            the host.
    """

    pack_into: Callable[..., None]
    on_device: Container[int] | None

    def launcher(self) -> DirectLauncher:
        """Return a new launcher, in which no argument is set."""

    def scratch(self, dtype: DType, shape: tuple[int, ...]) -> Any:
        """Return a new array for a kernel to work in."""

    def address_of(self, scratch: Any) -> int:
        """Return the address of such an array."""


class Making(Protocol):
    """Machine code that is being made beside the work of this process."""

    def result(self) -> bytes | None:
        """Return the machine code, or None while it is being made.

        Raises:
            ValueError: if it cannot be made; the message says why.
        """


class Engine(Protocol):
    """What the module of an engine has.

    Attributes:
        NAME: its name.
        IS_TEXT_SLOW: whether :meth:`text_of` takes seconds, in another process.
        MOST_BYTES: up to how many bytes of arrays ``auto`` launches by it.
        MOST_COMPARED: up to how many bytes ``auto`` compares its results with those of Taichi.
    """

    NAME: str
    IS_TEXT_SLOW: bool
    MOST_BYTES: int
    MOST_COMPARED: int

    def problem(self) -> str:
        """Return why it cannot be used on this machine, or an empty string."""

    def identity(self) -> Mapping[str, str]:
        """Return what machine code depends on beside the kernel: processor and versions."""

    def text_of(self, kernel: Any, exact: bool = False) -> str:
        """Return the code that Taichi makes of a ``ti.kernel``.

        Args:
            kernel: the kernel.
            exact: whether it is for exact code, see :meth:`machine_code`.
        """

    def text_problem(self, text: str, kinds: Sequence[Kind]) -> str:
        """Return why the result of :meth:`text_of` cannot run without Taichi, or an empty string.

        Args:
            text: the code.
            kinds: dtype and number of axes of each argument.
        """

    def machine_code(
        self,
        text: str,
        kinds: Sequence[Kind],
        exact: bool = False,
        use: ArrayUse | None = None,
    ) -> bytes:
        """Return machine code, which can be stored, made of a text without problem.

        Args:
            text: the code.
            kinds: dtype and number of axes of each argument.
            exact: whether results must have the bits of Taichi's, even with its fast math.
            use: what the kernel does with its arrays; None if that is not known.
        """

    def begin(self, text: Callable[[], str], kinds: Sequence[Kind], key: str, name: str) -> Making:
        """Begin to make exact :meth:`machine_code` beside the work of this process.

        It may be put into the store meanwhile, under ``key`` and ``name``.

        Args:
            text: returns the code that Taichi makes of the kernel.
            kinds: dtype and number of axes of each argument.
            key: key of the machine code in the store; empty if only the text tells it.
            name: what it is, for people.
        """

    def wait(self) -> None:
        """Wait until the device has nothing to do."""

    def load(self, machine_code: bytes, kinds: Sequence[Kind], exact: bool = False) -> Code:
        """Load machine code into this process.

        Args:
            machine_code: the result of :meth:`machine_code`, of the same :meth:`identity`.
            kinds: dtype and number of axes of each argument.
            exact: whether launches take their place among those of Taichi.

        Raises:
            ValueError: if it is no machine code.
        """


def engine(name: str) -> Engine:
    """Return an engine beside Taichi, by name."""
    return cast("Engine", importlib.import_module(_PLACES[name].module))


def resolved(option: str, arch: str | None) -> str:
    """Return what an option means on an arch.

    The default is what the environment variable ``TIKGEN_ENGINE`` says; without it :data:`DIRECT`
    on cpu where direct-cpu works and Taichi need not see each launch, :data:`AUTO` on cuda, and
    elsewhere :data:`TAICHI`.
    """
    option = _wanted if option == DEFAULT else option
    if option != DEFAULT:
        return option
    if arch == "cpu" and works(DIRECT_CPU):
        from tikgen.taichi import runtime

        return TAICHI if runtime.needs_own_launches() else DIRECT
    return AUTO if arch == "cuda" else TAICHI


def is_direct(option: object, arch: str) -> bool:
    """Return whether an option, which may be anything, means an engine beside Taichi at once."""
    return isinstance(option, str) and resolved(option, arch) not in (TAICHI, AUTO)


def steady(arch: str | None) -> str:
    """Return the option by which kernels are measured: the default, unless that may change."""
    option = resolved(DEFAULT, arch)
    return TAICHI if option == AUTO else option


def timed_by(option: object, arch: str) -> str:
    """Return the engine whose times tell how fast an option, which may be anything, launches."""
    return for_arch(arch) if is_direct(option, arch) else TAICHI


def for_arch(arch: str | None) -> str:
    """Return the engine beside Taichi that takes the kernels of an arch, or an empty string."""
    return next((name for name, place in _PLACES.items() if place.arch == arch), "")


def arch_of(name: str) -> str:
    """Return the arch of Taichi whose kernels an engine takes."""
    return _PLACES[name].arch


def missing(name: str) -> str:
    """Return which package an engine lacks, or an empty string; this imports nothing."""
    place = _PLACES[name]
    found = importlib.util.find_spec(place.package) is not None
    return "" if found else f"{place.package} is missing; pip install tikgen[{place.extra}]"


@functools.cache
def works(name: str) -> bool:
    """Return whether an engine can be used on this machine, asked once."""
    return not problem(name)


def problem(name: object) -> str:
    """Return why an engine cannot be used on this machine, or an empty string."""
    known = (*ENGINES, *_OPTIONS)
    if not isinstance(name, str) or name not in known:
        return f"there is none of that name; take one of {', '.join(known)}"
    name = _wanted if name == DEFAULT else name
    if name not in known:
        return f"{_VARIABLE} names {name!r}; take one of {', '.join(known)}"
    return engine(name).problem() if name in _PLACES else ""
