"""Kernels and graphs of a loaded bundle as callables."""

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

# Scratch arrays, and copies of host arrays on the device, that each kernel keeps.
_MOST_KEPT = 16


class Launchable:
    """A kernel or a graph of a loaded bundle; call it with its arguments to launch it.

    NumPy arrays are copied to the device and back, on the processor they are used where they are.
    A :class:`DeviceArray` stays on the device, and nobody waits until it is read.

    Attributes:
        name: its name in the bundle.
        described: what the manifest says of it.
        signature: its arguments.
    """

    def __init__(
        self,
        engine: Engine,
        described: manifest.Kernel | manifest.Graph,
        scratch: Sequence[manifest.Argument] = (),
        constants: Mapping[str, tuple[str, int | float]] | None = None,
    ) -> None:
        self.name = described.name
        self.described = described
        self.signature = Signature(engine, self.name, tuple(map(argument_of, described.arguments)))
        self._engine = engine
        self._build = described.builds[engine.arch]
        self._is_graph = isinstance(described, manifest.Graph)
        self._sizes = {} if isinstance(described, manifest.Graph) else described.sizes
        scratch = (*scratch, *self._build.workspace)
        self._scratch = [a for a in map(argument_of, scratch) if isinstance(a, Array)]
        self._new_frame = partial(
            Frame, (*described.arguments, *scratch), constants or {}, self._is_graph
        )
        self._frame = self._new_frame()
        self._kept: dict[tuple[str, tuple[int, ...]], DeviceArray] = {}
        self._launch: Callable[[Frame], None] | None = None

    @property
    def baked(self) -> int:
        """Return the number of sizes that are baked in."""
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
        """Load it, which its first call does otherwise; return what launches a frame.

        Raises:
            BundleError: if the runtime was closed.
            LibraryError: if the library reports an error.
            UnsupportedOnArch: if the device lacks what the kernel needs.
        """
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
                # Its context has to be current in whatever thread launches.
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
        """Return what launches it with these arguments, checked once; quicker than a call.

        Args:
            args: arguments in order.
            kwargs: arguments by name.

        Raises:
            ArgumentError: if an argument does not fit, now or, if an array was closed, later.
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
        bound.values = values  # type: ignore[attr-defined]  # What the frame points to lives on.
        return bound

    def _staged(self, values: Sequence[Any]) -> dict[int, DeviceArray]:
        """Return an array on the device for each host array, by the place of the argument."""
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
        """Launch with copies of host arrays, and copy back what was written."""
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
        """Return the array of that name and shape, made of zeros if there is none."""
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


def kernel_of(engine: Engine, described: manifest.Kernel) -> Launchable:
    """Return a kernel of a bundle as a callable."""
    return Launchable(engine, described)


def graph_of(
    engine: Engine, described: manifest.Graph, kernels: Mapping[str, manifest.Kernel]
) -> Launchable:
    """Return a graph of a bundle as a callable.

    Args:
        engine: what runs it.
        described: what the manifest says of it.
        kernels: the kernels of the bundle, whose arguments say of what dtype constants are.
    """
    dtypes = {
        name: argument.dtype
        for step in described.steps
        for argument in kernels[step.kernel].arguments
        if (name := step.arguments.get(argument.name)) is not None
    }
    constants = {name: (dtypes[name], value) for name, value in described.constants.items()}
    return Launchable(engine, described, described.temporaries, constants)
