"""Kernels, graphs and families of kernels of a loaded bundle, as callables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tikgen.aot import manifest
from tikgen.aot.running.bundle_signature import Signature, argument_of
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray
from tikgen.aot.running.frame import Frame
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError
from tikgen.template.arguments import Array, concrete_shape
from tikgen.template.here import Opened
from tikgen.template.pinned import pinned

# The number of scratch arrays and staged host arrays that each kernel keeps.
_MOST_KEPT = 16
# The number of kinds of arguments for which a family remembers its choice.
_MOST_CHOSEN = 1024


class Launchable(Opened):
    """A kernel or a graph of a loaded bundle; call it with its arguments to launch it.

    NumPy arrays are used in place on the processor, and copied to the device and back elsewhere.
    A :class:`DeviceArray` stays on the device; reading it waits for the launch.

    Attributes:
        name: its name in the bundle.
        described: its entry in the manifest.
        signature: its arguments.
    """

    def __init__(
        self,
        engine: Engine,
        described: manifest.Kernel | manifest.Graph,
        kernels: Mapping[str, manifest.Kernel],
    ) -> None:
        self.name = described.name
        self.described = described
        self.signature = Signature(engine, self.name, tuple(map(argument_of, described.arguments)))
        self._engine = engine
        self._build = described.builds[engine.arch]
        scratch: tuple[manifest.Argument, ...] = self._build.workspace
        constants = {}
        self._sizes: Mapping[str, int] = {}
        self._is_graph = isinstance(described, manifest.Graph)
        if isinstance(described, manifest.Graph):
            scratch = (*described.temporaries, *scratch)
            dtypes = {
                step.arguments[argument.name]: argument.dtype
                for step in described.steps
                for argument in kernels[step.kernel].arguments
            }
            constants = {n: (dtypes[n], value) for n, value in described.constants.items()}
        else:
            self._sizes = described.sizes
        self._scratch = [a for a in map(argument_of, scratch) if isinstance(a, Array)]
        self._new_frame = partial(
            Frame, (*described.arguments, *scratch), constants, self._is_graph
        )
        self._frame = self._new_frame()
        self._kept: dict[tuple[str, tuple[int, ...]], DeviceArray] = {}
        self._launch: Callable[[Frame], None] | None = None

    @property
    def baked(self) -> int:
        """Return the number of baked sizes."""
        return len(self._sizes)

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Launch it.

        Args:
            args: arguments in order.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit.
            BundleError: if the runtime was closed.
            LibraryError: if the library reports an error.
            UnsupportedOnArch: if the device lacks what the kernel needs.
        """
        launch, engine = self._launch or self.prepare(), self._engine
        if engine.is_closed:
            engine.refuse()
        values = self.signature.order(args, kwargs)
        sizes = self.signature.check(values)
        staged = {} if engine.is_host else self._staged(values)
        if self._scratch:
            values = (*values, *self._scratch_for(sizes))
        with engine.lock:
            if staged:
                self._launch_staged(launch, values, staged)
            else:
                self._frame.fill(values, engine)
                launch(self._frame)

    def prepare(self) -> Callable[[Frame], None]:
        """Load it now instead of at its first call; raises what a call raises."""
        engine = self._engine
        with engine.lock:
            if self._launch is None:
                library, runtime = engine.library, engine.handle
                engine.require(self.name, self._build.capabilities)
                module = engine.module(self._build.module)
                if self._is_graph:
                    function = library.launch_graph
                    handle = library.graph(module, self._build.entry)
                else:
                    function = library.launch_kernel
                    handle = library.kernel(module, self._build.entry)
                doing = f"launching {self.name}"
                # Its context has to be current in the thread that launches.
                is_cuda = engine.arch == "cuda"

                def launch(frame: Frame) -> None:
                    if engine.is_closed:
                        engine.refuse()
                    at = engine.handle if is_cuda else runtime
                    function(at, handle, frame.count, frame.address)
                    engine.note_launch()
                    library.check(doing)

                self._launch = launch
        return self._launch

    def bind(self, /, *args: Any, **kwargs: Any) -> Callable[[], None]:
        """Return a function that launches it with these arguments, which are checked once.

        Args:
            args: arguments in order.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit; later, if an array was closed.
        """
        launch, engine = self.prepare(), self._engine
        values = self.signature.order(args, kwargs)
        sizes = self.signature.check(values)
        if not engine.is_host and self._staged(values):
            return partial(self, *values)
        frame, values = self._new_frame(), (*values, *self._scratch_for(sizes))
        arrays = [value for value in values if isinstance(value, DeviceArray)]
        with engine.lock:
            frame.fill(values, engine)

        def bound() -> None:
            with engine.lock:
                for array in arrays:
                    if not array.is_open:
                        raise ArgumentError(self.name, f"takes an array that {array.problem()}")
                launch(frame)

        bound.__doc__ = f"Launch {self.name} with the arguments that were bound."
        # Keeps alive, and in place, what the frame points to.
        bound.values, bound.pinned = values, pinned(values)  # type: ignore[attr-defined]
        return bound

    def _staged(self, values: Sequence[Any]) -> dict[int, DeviceArray]:
        """Return an array on the device for each host array, by the position of the argument."""
        return {
            index: self._keep(slot.name, value.shape, slot.dtype)
            for index, (slot, value) in enumerate(zip(self._frame.slots, values, strict=False))
            if slot.put is None and type(value) is not DeviceArray
        }

    def _launch_staged(
        self,
        launch: Callable[[Frame], None],
        values: Sequence[Any],
        staged: Mapping[int, DeviceArray],
    ) -> None:
        """Launch with copies of host arrays, and copy back those that were written."""
        on_device = list(values)
        for index, array in staged.items():
            on_device[index] = array
            if self._frame.slots[index].is_read:
                array.upload(values[index])
        self._frame.fill(on_device, self._engine)
        launch(self._frame)
        for index, array in staged.items():
            if self._frame.slots[index].is_written:
                array.download(values[index])

    def _scratch_for(self, sizes: Sequence[int]) -> list[DeviceArray]:
        named = {**self._sizes, **dict(zip(self.signature.symbols, sizes, strict=True))}
        return [
            self._keep(array.name, concrete_shape(array, named), array.dtype)
            for array in self._scratch
        ]

    def _keep(self, name: str, shape: tuple[int, ...], dtype: DType) -> DeviceArray:
        """Return the array of a name and shape; a new one holds zeros."""
        key = name, shape
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            found = DeviceArray(self._engine, shape, dtype)
            found.fill(0)
            self._kept[key] = found
        return found

    def __repr__(self) -> str:
        what = "graph" if self._is_graph else "kernel"
        return f"<{what} {self.name}({self.signature}) on {self._engine.arch}>"


class Family(Opened):
    """Kernels of one family; call it to launch the one that suits the arguments.

    Attributes:
        name: name of the family.
        kernels: its kernels, those with most baked sizes first.
    """

    def __init__(self, name: str, kernels: Sequence[Launchable]) -> None:
        self.name = name
        self.kernels = sorted(kernels, key=lambda kernel: (-kernel.baked, kernel.name))
        self._chosen: dict[tuple[Any, ...], Launchable] = {}

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Launch the kernel that suits the arguments.

        Raises:
            ArgumentError: if no kernel suits, or an argument does not fit the one that does.
        """
        self.select(*args, **kwargs)(*args, **kwargs)

    def select(self, /, *args: Any, **kwargs: Any) -> Launchable:
        """Return the kernel that suits arguments, by dtype, dimension and shape.

        Raises:
            ArgumentError: if no kernel suits.
        """
        key = tuple(map(_kind, args)), tuple((k, _kind(v)) for k, v in kwargs.items())
        found = self._chosen.get(key)
        if found is None:
            found = self._search(args, kwargs)
            if len(self._chosen) >= _MOST_CHOSEN:
                self._chosen.clear()
            self._chosen[key] = found
        return found

    def _search(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Launchable:
        for kernel in self.kernels:
            if kernel.signature.suits(args, kwargs):
                return kernel
        if len(self.kernels) == 1:  # Its own message says more.
            signature = self.kernels[0].signature
            signature.check(signature.order(args, kwargs))
        given = [*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())]
        known = "; ".join(f"{kernel.name}({kernel.signature})" for kernel in self.kernels)
        raise ArgumentError(self.name, f"no kernel suits ({', '.join(given)}); there are {known}")

    def __repr__(self) -> str:
        return f"<family {self.name}: {', '.join(kernel.name for kernel in self.kernels)}>"


def _kind(value: Any) -> tuple[Any, Any]:
    """Return what selects a kernel: dtype and shape of an array, type of a scalar."""
    dtype = getattr(value, "dtype", None)
    return (dtype, value.shape) if dtype is not None else (type(value), None)


def _shown(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return f"{dtype}{list(value.shape)}" if dtype is not None else type(value).__name__
