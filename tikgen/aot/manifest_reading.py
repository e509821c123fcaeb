"""Reads the manifest of an untrusted bundle, and checks every part of it.

Its texts become names and comments in C, paths, and arguments of Taichi's C library. A bundle with
an invalid part is refused; no code of the bundle is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tikgen.aot.manifest import ARCHS, FILE_NAME, FORMAT, Argument, Build, Graph, Kernel, Manifest
from tikgen.dtypes import DType
from tikgen.errors import BundleError

# Taichi's C library counts elements with 32 bits, and NumPy has 32 axes at most.
_MOST_EXTENT = (1 << 31) - 1
_MOST_AXES = 16
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1
_EXTENT = re.compile(r"[A-Za-z_]\w{0,99}( ?\+ ?\d{1,9})?", re.ASCII)
_VERSION = re.compile(r"[\w.+!-]{1,60}", re.ASCII)
_TAICHI = re.compile(r"\d{1,4}\.\d{1,4}[\w.+!-]{0,60}", re.ASCII)
_CAPABILITY = re.compile(r"[a-z][a-z0-9_]{0,99}")
# Names of processors, and lists of features such as ``+avx2,-avx512f``.
_PROCESSOR = re.compile(r"[\w.+,-]{0,4000}", re.ASCII)
_LIBRARY = re.compile(r"lib/lib\w+\.so", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
# The step that begins the name of scratch in a graph.
_SCRATCH = re.compile(r"step\d{1,9}\.", re.ASCII)
_MOST_NAME = 1000
_DTYPES = frozenset(dtype.value for dtype in DType)


class _Wrong(Exception):
    """A part of a manifest is invalid; the message names it."""


class _Version(msgspec.Struct):
    format: int
    tikgen: str = "unknown"


def decode(data: bytes, where: object) -> Manifest:
    """Return the manifest in ``data``, the ``manifest.json`` of the bundle ``where``.

    Raises:
        BundleError: if it is damaged, of a later format, invalid, or names a file outside the
            bundle.
    """
    try:
        version = msgspec.json.decode(data, type=_Version)
        if version.format > FORMAT:
            raise BundleError(
                where,
                f"has format {version.format}, written by tikgen {version.tikgen}; this tikgen "
                f"reads formats up to {FORMAT}: upgrade tikgen, or export the bundle again",
            )
        manifest = msgspec.json.decode(data, type=Manifest)
        _check_parts(manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, _Wrong) as error:
        raise BundleError(where, f"has a damaged {FILE_NAME}: {error}; export it again") from None
    _check(manifest, where)
    return manifest


def _check(manifest: Manifest, where: object) -> None:
    """Raise :class:`BundleError` if parts of a manifest contradict each other."""
    for path in _paths(manifest):
        if not is_inside(path):
            raise BundleError(where, f"names the file {path!r}, which is outside of the bundle")
    folders = {path.rpartition("/")[0] for path in manifest.files}
    for unknown in set(manifest.archs) - ARCHS.keys():
        raise BundleError(where, f"names the arch {unknown!r}; there are {', '.join(ARCHS)}")
    for group in (manifest.kernels, manifest.graphs, manifest.fields):
        for name, entry in group.items():
            if name != entry.name or not name.isidentifier():
                raise BundleError(where, f"has an entry {name!r} that is named {entry.name!r}")
    for entry in (*manifest.launchable, *manifest.fields.values()):
        for arch, build in entry.builds.items():
            if arch not in manifest.archs or build.module not in folders:
                raise BundleError(
                    where, f"has no artefacts of {entry.name} for {arch} in {build.module!r}"
                )
    for graph in manifest.graphs.values():
        for step in graph.steps:
            if step.kernel not in manifest.kernels:
                raise BundleError(where, f"has a graph {graph.name} of unknown {step.kernel!r}")


def _check_parts(manifest: Manifest) -> None:
    _take(_VERSION.fullmatch(manifest.tikgen), f"the version {manifest.tikgen!r} of tikgen")
    _take(_TAICHI.fullmatch(manifest.taichi), f"the version {manifest.taichi!r} of Taichi")
    _check_names([manifest.name])
    _take(manifest.name.isascii(), f"the name {manifest.name!r}")
    _check_capabilities(manifest.capabilities)
    for path, file in manifest.files.items():
        _take(
            _SHA256.fullmatch(file.sha256) and file.size >= 0, f"the digest or the size of {path!r}"
        )
    for field in manifest.fields.values():
        _check_array(field.name, field.dtype, field.shape, field.element)
        for accessor in field.builds.values():
            _check_names((accessor.read, accessor.write))
    for kernel in manifest.kernels.values():
        _check_names([kernel.family])
        _check_arguments(kernel.arguments)
        _check_names(kernel.sizes)
        for extent in kernel.sizes.values():
            _take(0 <= extent <= _MOST_EXTENT, f"the size {extent} of {kernel.name!r}")
        of_builds = (name for b in kernel.builds.values() for name in b.fields.values())
        for name in (*kernel.fields, *of_builds):
            _take(name in manifest.fields, f"the field {name!r} of {kernel.name!r}")
        _check_builds(kernel.builds)
    for arch, native in manifest.native.items():
        _take(arch in manifest.archs, f"the native arch {arch!r}")
        for text in (native.cpu, native.triple, native.features, *native.needed, native.llvmlite):
            _take(_PROCESSOR.fullmatch(text), f"the processor {text!r}")
        is_there = native.library in manifest.files and _LIBRARY.fullmatch(native.library)
        _take(not native.library or is_there, f"the library {native.library!r}")
    if manifest.native:
        _take({*manifest.native} == {*manifest.archs}, "the list of native archs")
        _take(not manifest.graphs and not manifest.fields, "a native bundle with graphs or fields")
    for graph in manifest.graphs.values():
        _check_graph(graph, manifest.kernels)
        _check_builds(graph.builds)


def _check_graph(graph: Graph, kernels: Mapping[str, Kernel]) -> None:
    _check_arguments((*graph.arguments, *graph.temporaries))
    _check_names(graph.constants)
    steps = graph.program_steps
    _take(0 <= steps <= _MOST_EXTENT, f"the number {steps} of steps of {graph.name!r}")
    for name, value in graph.constants.items():
        _take(_LEAST <= value <= _MOST, f"the constant {name!r} of {graph.name!r}")
    known = {a.name for a in (*graph.arguments, *graph.temporaries)} | graph.constants.keys()
    for step in graph.steps:
        kernel = kernels.get(step.kernel)
        takes = {a.name for a in kernel.arguments} if kernel is not None else set()
        is_whole = kernel is None or step.arguments.keys() == takes
        _take(is_whole, f"the step {step.kernel!r} of {graph.name!r}")
        for given in step.arguments.values():
            _take(given in known, f"the argument {given!r} of {graph.name!r}")


def _check_builds(builds: Mapping[str, Build]) -> None:
    for build in builds.values():
        _check_names((build.entry, *build.fields, *([build.function] if build.function else [])))
        _check_capabilities(build.capabilities)
        _check_arguments(build.workspace)


def _check_arguments(arguments: Iterable[Argument]) -> None:
    names: set[str] = set()
    for argument in arguments:
        _check_names([_SCRATCH.sub("", argument.name, count=1)])
        _take(argument.name not in names, f"the name {argument.name!r}, which is there twice")
        names.add(argument.name)
        _check_array(argument.name, argument.dtype, argument.shape, argument.element)


def _check_array(
    name: str, dtype: str, shape: tuple[int | str, ...], element: tuple[int, ...]
) -> None:
    _take(dtype in _DTYPES, f"the dtype {dtype!r} of {name!r}")
    for extent in (*shape, *element):
        is_extent = isinstance(extent, int) and 0 <= extent <= _MOST_EXTENT
        is_symbol = isinstance(extent, str) and _EXTENT.fullmatch(extent)
        _take(is_extent or is_symbol, f"the extent {extent!r} of {name!r}")
    _take(len(shape) + len(element) <= _MOST_AXES, f"the axes of {name!r}")


def _check_capabilities(names: Iterable[str]) -> None:
    for name in names:
        _take(_CAPABILITY.fullmatch(name), f"the capability {name!r}")


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        _take(name.isidentifier() and len(name) <= _MOST_NAME, f"the name {name!r}")


def _take(is_right: object, what: str) -> None:
    if not is_right:
        raise _Wrong(f"{what[:200]} cannot be right")


def _paths(manifest: Manifest) -> Iterator[str]:
    yield from manifest.files
    for entry in manifest.launchable:
        for build in entry.builds.values():
            data = build.proof.data if build.proof is not None else ""
            yield from (path for path in (build.module, build.source, data) if path)


def is_inside(path: str) -> bool:
    """Return whether a path of a manifest or an archive stays within the bundle."""
    parts = path.split("/")
    return not {*"\\:\0"} & {*path} and not {"", ".", ".."} & {*parts}
