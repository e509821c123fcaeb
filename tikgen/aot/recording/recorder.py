"""Records the kernels that a block of code builds and launches, in order."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import taichi as ti
from msgspec.structs import replace

from tikgen.aot import manifest
from tikgen.aot.exporting.template_kernels import described
from tikgen.aot.names import identifier, variant_name
from tikgen.aot.recording import recording_file as rf
from tikgen.aot.user_kernels.annotations import dtype_name
from tikgen.aot.user_kernels.extraction import OwnKernel, extract
from tikgen.aot.user_kernels.value_text import unused
from tikgen.disk import path_of
from tikgen.errors import ExportError
from tikgen.pipeline import events
from tikgen.pipeline.bound import BoundKernel
from tikgen.pipeline.direct import Direct
from tikgen.pipeline.loaded import Loaded
from tikgen.taichi import arrays as taichi_arrays
from tikgen.taichi import hooks, runtime
from tikgen.taichi import kernels as taichi_kernels
from tikgen.template.arguments import Array
from tikgen.verification.case import literal
from tikgen.version import __version__

_starting = threading.Lock()
_is_on = False


@contextlib.contextmanager
def record(path: str | os.PathLike[str]) -> Iterator[Recording]:
    """Record every build and every launch of a block of code, and write them to a file.

    Every thread is recorded: kernels of templates, called or bound, and users' own kernels with the
    text that they have at their first launch in the block. Arrays are kept alive until the block
    ends. Operations without a kernel, such as copies and ``ti.ndarray.fill``, are not recorded. The
    file, which is YAML, is written when the block ends, even if it raises.

    Args:
        path: the file; an existing one is replaced.

    Raises:
        ExportError: if another recording is active, or the file cannot be written.
    """
    global _is_on
    file = path_of(path, lambda problem: ExportError("a recording", f"record {problem}"))
    if not file.absolute().parent.is_dir():
        raise ExportError(str(path), f"there is no folder {file.parent} to write a recording into")
    with _starting:
        if _is_on:
            raise ExportError(str(path), "another recording is active; end it first")
        _is_on = True
    try:
        with events.recording() as heard:
            recording = Recording(file, heard)
            try:
                with recording.listening():
                    yield recording
            finally:
                rf.write(recording.content, file)
    finally:
        _is_on = False


class _Met:
    """A kernel that was launched, and the positions of its arguments."""

    def __init__(self, entry: rf.Build | rf.Own, names: Sequence[str]) -> None:
        self.entry = entry
        self.slots = [(names.index(a.name), a) for a in entry.arguments]


class Recording:
    """What a block of code has built and launched; written to ``path`` at its end."""

    def __init__(self, path: Path, heard: events.Recording) -> None:
        self.path = path
        self._heard = heard
        self._lock = threading.RLock()
        self._thread = threading.local()
        # By what was launched, which is kept alive so that its address is not reused.
        self._met: dict[Any, _Met] = {}
        self._own: dict[Any, _Met] = {}
        self._names: set[str] = set()
        # By address: the field, its layout, and its names in the user's own kernels.
        self._fields: dict[str, tuple[Any, manifest.Field, list[str]]] = {}
        self._arrays: dict[Any, tuple[rf.Array, Any]] = {}
        self._launches: list[rf.Launch] = []
        self._arch = ""

    def __repr__(self) -> str:
        found = self.content
        return (
            f"<Recording of {len(found.builds)} builds, {len(found.kernels)} own kernels and "
            f"{len(found.launches)} launches into {self.path}>"
        )

    @property
    def content(self) -> rf.File:
        """Return what was recorded so far, as it is written."""
        with self._lock:
            for event in list(self._heard.events):
                loaded = events.lives.get(event.subject)
                if isinstance(loaded, Loaded) and _is_template(loaded):
                    self._meet_template(loaded)
            names = self._field_names()
            return rf.File(
                format=rf.FORMAT,
                tikgen=__version__,
                taichi=".".join(map(str, ti.__version__)),
                arch=self._arch or runtime.current_arch() or "cpu",
                builds=tuple(self._entries(rf.Build)),
                kernels=tuple(
                    replace(own, fields={inner: names[key] for inner, key in own.fields.items()})
                    for own in self._entries(rf.Own)
                ),
                fields=tuple(
                    replace(said, name=names[key]) for key, (_, said, _) in self._fields.items()
                ),
                arrays=tuple(array for array, _ in self._arrays.values()),
                launches=tuple(self._launches),
            )

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Record every launch within the block."""
        run, call = Loaded.run, BoundKernel.__call__
        launch, quick = Direct.launch, Direct.call

        @functools.wraps(run)
        def running(loaded: Loaded, values: tuple[Any, ...]) -> Any:
            with self._outermost() as is_outermost:
                returned = run(loaded, values)
            if is_outermost:
                self._take_template(loaded, values)
            return returned

        @functools.wraps(call)
        def calling(bound: BoundKernel, /, **scalars: Any) -> Any:
            with self._outermost() as is_outermost:
                returned = call(bound, **scalars)
            if is_outermost:
                binding = bound._binding
                self._take_template(binding.loaded, binding.values)
            return returned

        @functools.wraps(launch)
        def launching(direct: Direct, loaded: Loaded, values: Sequence[Any]) -> None:
            launch(direct, loaded, values)
            self._take_template(loaded, values)

        @functools.wraps(quick)
        def quickly(direct: Direct, loaded: Loaded, values: tuple[Any, ...]) -> bool:
            is_launched = quick(direct, loaded, values)
            if is_launched:
                self._take_template(loaded, values)
            return is_launched

        hook = hooks.CallHook(self._take_own)
        Loaded.run, BoundKernel.__call__ = running, calling  # type: ignore[method-assign, assignment]
        Direct.launch, Direct.call = launching, quickly  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Loaded.run, BoundKernel.__call__ = run, call  # type: ignore[method-assign]
            Direct.launch, Direct.call = launch, quick  # type: ignore[method-assign]
            hook.remove()

    @contextlib.contextmanager
    def _outermost(self) -> Iterator[bool]:
        """Yield whether a launch is not part of another one, as that of a bound kernel is."""
        if getattr(self._thread, "is_launching", False):
            yield False
            return
        self._thread.is_launching = True
        try:
            yield True
        finally:
            self._thread.is_launching = False

    def _take_template(self, loaded: Loaded, values: Sequence[Any]) -> None:
        with self._lock:
            if loaded.numbers:
                self._add(self._meet_views(loaded), values)
            elif loaded in self._met or _is_template(loaded):
                self._add(self._meet_template(loaded), values)
            else:
                key = (loaded, *map(_feature, values))
                self._add(self._meet_own(key, loaded.function, values), values)

    def _take_own(self, kernel: Any, instance: Any, values: tuple[Any, ...]) -> None:
        """Record a launch of a ``ti.kernel``, unless tikgen or Taichi launched it."""
        if getattr(self._thread, "is_launching", False):
            return
        written = taichi_kernels.written(kernel)
        assert written is not None
        subject = events.subject_of(written.function)
        if subject.origin == "taichi" and "fill" not in subject.name:
            return
        with self._lock:
            self._add(self._meet_own((kernel, instance), kernel, values), values)

    def _add(self, met: _Met, values: Sequence[Any]) -> None:
        self._arch = self._arch or runtime.current_arch() or ""
        arguments = {
            argument.name: self._array(values[slot], argument.name)
            if argument.kind == "array"
            else _number(values[slot], argument)
            for slot, argument in met.slots
        }
        self._launches.append(rf.Launch(met.entry.name, arguments))

    def _meet_template(self, loaded: Loaded) -> _Met:
        if loaded not in self._met:
            variant = loaded.source.variant
            entry = rf.Build(
                name=self._name(variant_name(variant)),
                template=variant.template.name,
                parameters={name: literal(value) for name, value in variant.problem},
                schedule={name: literal(value) for name, value in variant.schedule},
                sizes=dict(variant.sizes),
                digest=loaded.source.digest,
                arguments=tuple(map(described, loaded.signature.arguments)),
            )
            self._met[loaded] = _Met(entry, loaded.signature.names)
        return self._met[loaded]

    def _meet_views(self, loaded: Loaded) -> _Met:
        if loaded not in self._met:
            subject = loaded.subject
            entry = rf.Own(
                name=self._name(variant_name(loaded.source.variant)),
                function=subject.name,
                file=subject.file,
                line=subject.line,
                problem="it takes views, which bundles do not hold; pass contiguous arrays",
            )
            self._met[loaded] = _Met(entry, ())
        return self._met[loaded]

    def _meet_own(self, key: Any, kernel: Any, values: Sequence[Any]) -> _Met:
        if key not in self._met:
            self._met[key] = self._extracted(kernel, values)
        return self._met[key]

    def _extracted(self, kernel: Any, values: Sequence[Any]) -> _Met:
        """Return a kernel of the user's, the same for all instances of equal text."""
        written = taichi_kernels.written(kernel)
        assert written is not None
        name, code = written.function.__name__, written.function.__code__
        entry = rf.Own(name="", function=name, file=code.co_filename, line=code.co_firstlineno)
        names = [parameter for parameter, _, _ in written.parameters]
        given = {
            parameter: value
            for (parameter, annotation, _), value in zip(written.parameters, values, strict=True)
            if isinstance(annotation, ti.template | ti.types.ndarray)
        }
        try:
            if taichi_kernels.is_gradient(kernel):
                raise ExportError(name, "it is a derivative, which bundles do not hold")
            own = extract(kernel, given)
        except ExportError as error:
            refused = replace(entry, name=self._name(name), problem=str(error))
            return _Met(refused, names)
        is_taichis = events.subject_of(written.function).origin == "taichi"
        fields = {inner: self._field(own, inner, is_taichis) for inner in own.fields}
        key = (own.text, *fields.items())
        if key not in self._own:
            entry = replace(
                entry,
                name=self._name(name),
                function=own.function,
                arguments=own.arguments,
                templates=own.templates,
                fields=fields,
                options=own.options,
                text=own.text,
            )
            self._own[key] = _Met(entry, names)
        return self._own[key]

    def _field(self, own: OwnKernel, inner: str, is_taichis: bool) -> str:
        source = own.sources[inner]
        key = str(id(source))
        _, _, names = self._fields.setdefault(key, (source, own.fields[inner], []))
        if not is_taichis:  # Such as ti.Field.fill, which calls each field "field".
            names.append(inner)
        return key

    def _field_names(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, (_, said, names) in self._fields.items():
            found[key] = unused([*names, said.name][0], set(found.values()))
        return found

    def _array(self, value: Any, argument: str) -> str:
        """Return the name of an array in the recording, which all views of its memory share."""
        key = _identity(value)
        if key not in self._arrays:
            taken = {array.name for array, _ in self._arrays.values()}
            shape = (*value.shape, *getattr(value, "element_shape", ()))
            array = rf.Array(unused(argument, taken), dtype_name(value.dtype), shape)
            self._arrays[key] = array, value
        return self._arrays[key][0].name

    def _name(self, wanted: str) -> str:
        name = unused(identifier(wanted), self._names)
        self._names.add(name)
        return name

    def _entries(self, kind: type[rf.Build | rf.Own]) -> Iterator[Any]:
        met = dict.fromkeys(self._met.values())  # Several instances may have one entry.
        return (m.entry for m in met if isinstance(m.entry, kind))


def _is_template(loaded: Loaded) -> bool:
    """Return whether a kernel can be built again from its template, and exported as such."""
    arguments = loaded.source.variant.arguments
    return bool(arguments) and all(
        not isinstance(a, Array) or a.storage == "ndarray" for a in arguments
    )


def _identity(array: Any) -> Any:
    """Return what identifies an array; views of the same memory are equal."""
    if isinstance(array, taichi_arrays.TaichiArray):
        return id(array)
    if hasattr(array, "data_ptr"):
        return array.data_ptr(), tuple(array.shape), str(array.dtype)
    return array.ctypes.data, array.shape, array.strides, array.dtype.str


def _feature(value: Any) -> Any:
    """Return what an argument contributes to the choice of a kernel's instance."""
    if isinstance(value, taichi_arrays.TaichiArray) and hasattr(value, "snode"):
        return id(value)
    if hasattr(value, "shape"):
        return str(value.dtype), len(value.shape), getattr(value, "element_shape", ())
    return None if isinstance(value, float) else value


def _number(value: Any, argument: manifest.Argument) -> int | float:
    return float(value) if argument.dtype.startswith("f") else int(value)
