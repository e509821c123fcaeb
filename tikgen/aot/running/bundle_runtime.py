"""A loaded bundle: its kernels, graphs, fields and families, and arrays on its device."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np

from tikgen.aot.contents import Contents
from tikgen.aot.manifest import Graph, Kernel, Manifest
from tikgen.aot.running.c_engine import Engine
from tikgen.aot.running.device_array import DeviceArray, checked_shape, mapped
from tikgen.aot.running.launchable import Family, Launchable
from tikgen.aot.running.loaded_field import LoadedField
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, UnknownEntry
from tikgen.template.argument_checks import hidden_problem
from tikgen.template.here import Opened

_T = TypeVar("_T")


class Named(Opened, Mapping[str, _T], Generic[_T]):
    """The entries of a bundle of one kind, by name; each is made at its first use."""

    def __init__(
        self, where: object, kind: str, names: Sequence[str], make: Callable[[str], _T]
    ) -> None:
        self._where = where
        self._kind = kind
        self._names = tuple(names)
        self._make = make
        self._made: dict[str, _T] = {}

    def __getitem__(self, name: str) -> _T:
        found = self._made.get(name)
        if found is None:
            if name not in self._names:
                raise UnknownEntry(self._where, self._kind, name, self._names)
            found = self._made.setdefault(name, self._make(name))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(self._names) or 'none'}>"


class Runtime(Opened):
    """A bundle, loaded for one arch of this machine; made by :func:`tikgen.aot.load`.

    Call kernels and graphs by name: ``runtime.heat(x, y)`` or ``runtime["heat"](x, y)``. They take
    NumPy arrays and arrays of :meth:`array`, :meth:`empty` and :meth:`zeros`. Any thread may call
    them; a forked process has to load the bundle anew. Close it, or use it in a ``with`` block, to
    free its memory.

    Attributes:
        manifest: the manifest of the bundle.
        kernels: the kernels that the bundle has for the arch, by name.
        graphs: its graphs, by name.
        fields: its fields, by name.
        families: its families, by name; a family calls the kernel that suits the arguments.
    """

    def __init__(
        self,
        engine: Engine,
        contents: Contents,
        launchable: Callable[[Engine, Kernel | Graph, Mapping[str, Kernel]], Any] = Launchable,
    ) -> None:
        self.manifest: Manifest = contents.manifest
        self._engine = engine
        self._contents = contents
        known, where, arch = contents.manifest, contents.path, engine.arch

        def named(kind: str, entries: Mapping[str, Any], make: Callable[[Any], _T]) -> Named[_T]:
            here = [name for name, entry in entries.items() if arch in entry.builds]
            return Named(where, kind, here, lambda name: make(entries[name]))

        def made(entry: Kernel | Graph) -> Any:
            return launchable(engine, entry, known.kernels)

        self.kernels: Named[Launchable] = named("kernel", known.kernels, made)
        self.graphs: Named[Launchable] = named("graph", known.graphs, made)
        self.fields: Named[LoadedField] = named(
            "field", known.fields, lambda entry: LoadedField(engine, entry)
        )
        members: dict[str, list[str]] = {}
        for name in self.kernels:
            members.setdefault(known.kernels[name].family, []).append(name)
        kernels = self.kernels
        self.families: Named[Family] = Named(
            where,
            "family",
            sorted(members),
            lambda name: Family(name, [kernels[member] for member in members[name]]),
        )

    @property
    def arch(self) -> str:
        """Return the arch on which it runs."""
        return self._engine.arch

    @property
    def is_closed(self) -> bool:
        """Return whether it was closed."""
        return self._engine.is_closed

    @property
    def capabilities(self) -> dict[str, int]:
        """Return the level of each capability of the device, by Taichi's names; only of Vulkan."""
        with self._engine.lock:
            return dict(self._engine.capabilities)

    def select(self, family: str, /, *args: Any, **kwargs: Any) -> Launchable:
        """Return the kernel of a family that suits arguments, by dtype, dimension and shape.

        Raises:
            ArgumentError: if no kernel suits.
            UnknownEntry: if there is no such family.
        """
        return self.families[family].select(*args, **kwargs)

    def prepare(self, *names: str) -> None:
        """Load kernels and graphs now instead of at their first call; without names all.

        Raises:
            LibraryError: if the library reports an error.
            UnknownEntry: if the bundle has no such kernel or graph.
            UnsupportedOnArch: if the device lacks what a kernel needs.
        """
        for name in names or (*self.kernels, *self.graphs):
            self[name].prepare()

    def empty(self, shape: int | Sequence[int], dtype: object) -> DeviceArray:
        """Return an array on the device with undefined contents.

        Args:
            shape: its shape; axes of vectors and matrices come last.
            dtype: its element type: ``"f32"``, ``np.float32`` or the like.

        Raises:
            ArgumentError: if shape or dtype is invalid.
            BundleError: if the runtime was closed.
            LibraryError: if there is not enough memory.
        """
        if self.is_closed:
            self._engine.refuse()
        try:
            parsed = DType.parse(dtype)
        except ValueError as error:
            raise ArgumentError("DeviceArray", f"cannot be of that dtype: {error}") from None
        return DeviceArray(self._engine, checked_shape(shape), parsed)

    def zeros(self, shape: int | Sequence[int], dtype: object) -> DeviceArray:
        """Return an array of zeros on the device; see :meth:`empty`."""
        made = self.empty(shape, dtype)
        made.fill(0)
        return made

    def array(self, values: Any) -> DeviceArray:
        """Return an array on the device with the values, shape and dtype of a NumPy array.

        Raises:
            ArgumentError: if it is empty, or kernels do not support its dtype.
            LibraryError: if there is not enough memory.
        """
        if problem := hidden_problem("values", values):
            raise ArgumentError("DeviceArray", problem)
        host = np.asarray(values)
        if host.dtype.kind not in "biuf":
            raise ArgumentError("array", f"takes numbers or an array of them; got {values!r:.60}")
        made = self.empty(host.shape, host.dtype)
        made.from_numpy(host)
        return made

    def mapped(self, count: int, dtype: object) -> tuple[np.ndarray[Any, Any], DeviceArray]:
        """Return ``count`` zeros in memory that host and GPU share, for NumPy and for kernels.

        Raises:
            LibraryError: if the driver refuses.
            UnsupportedOnArch: if the arch is not cuda.
        """
        return mapped(self._engine, count, DType.parse(dtype))

    def sync(self) -> None:
        """Wait until all launches are done.

        Raises:
            BundleError: if it was closed.
            LibraryError: if the library reports an error.
        """
        with self._engine.lock:
            self._engine.handle  # noqa: B018
            self._engine.wait()

    def close(self) -> None:
        """Wait for the device, then free all that the runtime holds; later calls raise."""
        self._engine.close()
        self._contents.close()

    def __getitem__(self, name: str) -> Launchable:
        for entries in (self.graphs, self.kernels):
            if name in entries:
                return entries[name]
        known, hint = (*self.kernels, *self.graphs), ""
        if name in self.families:
            kernels = ", ".join(kernel.name for kernel in self.families[name].kernels)
            calls = f"runtime.families[{name!r}](...) launches the one that suits"
            hint = f" It is the family of {kernels}: name one of them; in Python {calls}."
        raise UnknownEntry(self._contents.path, "kernel or graph", name, known, hint)

    def __getattr__(self, name: str) -> Launchable:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except UnknownEntry as error:
            raise AttributeError(str(error)) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.kernels, *self.graphs})

    def __enter__(self) -> Runtime:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.is_closed else ""
        lines = [f"<Runtime of {self._contents.path} on {self.arch}{state}"]
        for entry in itertools.chain(self.kernels.values(), self.graphs.values()):
            lines.append(f"  {entry.name}({entry.signature})")
        lines += [f"  {field}" for field in self.fields.values()]
        return "\n".join(lines) + ">"

    def _repr_html_(self) -> str:
        from tikgen.lifecycle import html

        entries = [("kernel", e.name, str(e.signature)) for e in self.kernels.values()]
        entries += [("graph", e.name, str(e.signature)) for e in self.graphs.values()]
        entries += [("field", e.name, f"{e.dtype}{list(e.shape)}") for e in self.fields.values()]
        rows = [(html.tag("code", name), kind, takes) for kind, name, takes in entries]
        state = ", closed" if self.is_closed else ""
        return html.card(
            f"{self.manifest.name} on {self.arch}{state}",
            html.tag("p", self._contents.path, class_="pale"),
            html.table(("name", "", "takes"), rows),
        )
