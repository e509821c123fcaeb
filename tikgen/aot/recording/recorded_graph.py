"""Exports a recording as a bundle with a graph."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from tikgen import engines
from tikgen.aot import manifest
from tikgen.aot.bundle import Bundle
from tikgen.aot.contents import bundle_path
from tikgen.aot.exporting.example_data import made_up
from tikgen.aot.exporting.template_kernels import evidence_on
from tikgen.aot.module import ARCHS, Module
from tikgen.aot.recording import recording_file as rf
from tikgen.aot.user_kernels.extraction import OwnKernel
from tikgen.aot.user_kernels.value_text import unused
from tikgen.disk import path_of
from tikgen.errors import ExportError, RecordingError, TikgenError, near
from tikgen.pipeline import builder
from tikgen.template.parameters import plain

# Examples of more elements would make the bundle large.
_MOST_ELEMENTS = 100_000


def export_recording(
    file: str | os.PathLike[str],
    path: str | os.PathLike[str],
    archs: Sequence[str] = ARCHS,
    *,
    graph: str = "step",
    names: Mapping[str, str] | None = None,
    temporaries: Sequence[str] = (),
    arguments: Sequence[str] = (),
    launches: Literal["loop", "all"] | tuple[int, int] = "loop",
    verify: bool = False,
    max_examples: int = 20,
    examples: int = 3,
    seed: int | None = None,
    capabilities: Sequence[str] = (),
) -> Bundle:
    """Export the kernels of a recording, with a graph of its launches in order.

    Each array of the recording becomes an argument of the graph, named after the first argument of
    a kernel that it was passed as. Scalars keep their recorded values.

    Args:
        file: what :func:`record` wrote.
        path: the bundle: a folder, or a file whose name ends in ``.zip``.
        archs: archs to compile for, as :func:`export` takes them.
        graph: name of the graph.
        names: other names for arrays, by their names in the recording.
        temporaries: names of arrays that the runtime allocates; they are not arguments.
        arguments: names of scalars that the graph takes as arguments, such as ``"dt"`` for that of
            every kernel, or ``"advance.dt"`` for that of one, which is then called ``advance_dt``.
        launches: ``"loop"`` takes the first iteration if the launches repeat from the first to the
            last, else all; ``"all"``; or the number of the first launch and of the one after the
            last.
        verify: whether to verify kernels of templates that have no evidence.
        max_examples: number of examples of such a verification.
        examples: number of launches with which each artefact is proved.
        seed: seed of their inputs; None takes a new one.
        capabilities: what every Vulkan device that runs the bundle has, beyond what kernels need.

    Raises:
        RecordingError: if the file cannot be read, is damaged, or is no recording.
        ExportError: if a template has changed, a name is unknown, or a launched kernel cannot be
            exported.
        BundleError: if the bundle cannot be written.
        ParameterError: if an arch is unknown, or a setting is invalid.
    """
    recording = path_of(file, lambda problem: RecordingError("a recording", f"file {problem}"))
    bundle_path(path)
    what = str(recording)
    content = rf.read(recording)
    module = Module(archs, verify=verify, max_examples=max_examples, capabilities=capabilities)
    taken = _taken(what, content.launches, launches, set(arguments))
    steps = _Steps(what, content, names or {}, arguments).of(taken)
    used = {launch.kernel for launch in taken}
    for build in content.builds:
        _add_build(module, build, content.arch)
    fields = {field.name: field for field in content.fields}
    for name, field in fields.items():
        module.add_field(name, field)
    for own in content.kernels:
        if not own.problem:
            given = _examples(own, content, examples, seed)
            module.add_kernel(_own_kernel(own, fields), name=own.name, examples=given)
        elif own.name in used:
            raise ExportError(what, f"it launches {own.name}. {own.problem.rstrip('.')}")
    module.add_graph(graph, steps, temporaries=temporaries)
    return module.save(path, examples=examples, seed=seed)


def _add_build(module: Module, build: rf.Build, arch: str) -> None:
    schedule = {name: plain(value) for name, value in build.schedule.items()}
    parameters = {name: plain(value) for name, value in build.parameters.items()}
    try:
        kernel = builder.build(
            build.template,
            schedule=schedule,
            shape=build.sizes or None,
            arch=arch,
            **parameters,
        )
    except TikgenError as error:
        raise ExportError(build.name, f"it cannot be built as recorded: {error}") from None
    if kernel.digest != build.digest:
        raise ExportError(
            build.name,
            f"the template {build.template!r} renders to other code than when it was recorded; "
            "record it again",
        )
    usual = builder.build(
        build.template,
        schedule={},
        shape=build.sizes or None,
        arch=arch,
        engine=engines.TAICHI,  # Whose runtime runs the bundle.
        **parameters,
    )
    if evidence_on(kernel.source, arch) is None and evidence_on(usual.source, arch) is not None:
        # The sizes of the calls chose a schedule; the one for any sizes was verified.
        schedule = dict(usual.schedule)
    module.add_kernel(usual, name=build.name, schedules={arch: schedule})


def _own_kernel(own: rf.Own, fields: Mapping[str, manifest.Field]) -> OwnKernel:
    sources = {inner: fields[outer] for inner, outer in own.fields.items()}
    return OwnKernel(
        own.name,
        own.text,
        own.function,
        own.arguments,
        own.templates,
        {inner: replace(field, name=inner) for inner, field in sources.items()},
        own.options,
        sources,
    )


def _examples(own: rf.Own, content: rf.File, most: int, seed: int | None) -> list[tuple[Any, ...]]:
    """Return random arguments with the recorded shapes and scalars; none if arrays are large.

    Other shapes may be wrong: a kernel may read as many elements of an array as a field has.
    """
    rng = np.random.default_rng(seed)
    shapes = {array.name: array.shape for array in content.arrays}
    found: dict[Hashable, tuple[Any, ...]] = {}
    for launch in content.launches:
        if launch.kernel != own.name or len(found) == most:
            continue
        given = [launch.arguments[argument.name] for argument in own.arguments]
        key = tuple(shapes.get(value, value) for value in given)
        arrays = [(a, v) for a, v in zip(own.arguments, key, strict=True) if a.kind == "array"]
        if sum(math.prod(shape) for _, shape in arrays) > _MOST_ELEMENTS:
            return []
        sizes = {str(s): n for a, shape in arrays for s, n in zip(a.shape, shape, strict=False)}
        scalars = {
            a.name: v for a, v in zip(own.arguments, given, strict=True) if a.kind == "scalar"
        }
        found[key] = tuple(made_up(own.arguments, sizes, rng, scalars).values())
    return list(found.values())


def _taken(
    what: str,
    launches: Sequence[rf.Launch],
    asked: Literal["loop", "all"] | tuple[int, int],
    open_scalars: set[str],
) -> Sequence[rf.Launch]:
    if asked == "loop":
        first, last = 0, turn_of([_key(launch, open_scalars) for launch in launches])
    elif asked == "all":
        first, last = 0, len(launches)
    elif isinstance(asked, tuple) and len(asked) == 2 and all(type(n) is int for n in asked):
        first, last = asked
    else:
        raise ExportError(
            what, f"launches takes 'loop', 'all' or two numbers such as (2, 5); got {asked!r}"
        )
    if not launches:
        raise ExportError(what, "it holds no launches")
    if not 0 <= first < last <= len(launches):
        raise ExportError(
            what, f"there are no launches from {first} up to {last}; it holds {len(launches)}"
        )
    return launches[first:last]


def _key(launch: rf.Launch, open_scalars: set[str]) -> Hashable:
    """Return a key that is equal for launches that differ in ``open_scalars`` only."""
    fixed = (
        (name, value)
        for name, value in launch.arguments.items()
        if not {name, f"{launch.kernel}.{name}"} & open_scalars
    )
    return launch.kernel, *fixed


def turn_of(keys: Sequence[Hashable]) -> int:
    """Return the period of a sequence that repeats at least twice, else its length.

    The last repetition may be incomplete.
    """
    # Knuth, Morris, Pratt: the length of the beginning that ends keys[: n + 1] as well.
    borders = [0] * len(keys)
    for n in range(1, len(keys)):
        length = borders[n - 1]
        while length and keys[n] != keys[length]:
            length = borders[length - 1]
        borders[n] = length + (keys[n] == keys[length])
    period = len(keys) - (borders[-1] if borders else 0)
    return period if 2 * period <= len(keys) else len(keys)


class _Steps:
    def __init__(
        self,
        what: str,
        content: rf.File,
        names: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        self._what = what
        arrays = [array.name for array in content.arrays]
        self._check(names, arrays, "array")
        self._arrays = {name: names.get(name, name) for name in arrays}
        if len(set(self._arrays.values())) < len(arrays):
            raise ExportError(what, f"names gives two arrays one name: {dict(names)}")
        kernels: list[rf.Build | rf.Own] = [
            *content.builds,
            *content.kernels,
        ]
        self._scalars = {
            (kernel.name, argument.name)
            for kernel in kernels
            for argument in kernel.arguments
            if argument.kind == "scalar"
        }
        known = {name for _, name in self._scalars} | {".".join(pair) for pair in self._scalars}
        self._check(arguments, known, "scalar")
        self._open = set(arguments)

    def _check(self, given: Iterable[str], known: Collection[str], kind: str) -> None:
        for name in given:
            if name not in known:
                raise ExportError(
                    self._what,
                    f"it has no {kind} {name!r}.{near(name, known)} "
                    f"It has {', '.join(sorted(known)) or 'none'}",
                )

    def of(self, launches: Sequence[rf.Launch]) -> list[tuple[str, dict[str, Any]]]:
        taken: dict[str, tuple[str, Any]] = {}
        steps = []
        for launch in launches:
            values: dict[str, Any] = {}
            for name, value in launch.arguments.items():
                if (launch.kernel, name) not in self._scalars:
                    values[name] = self._arrays[value]
                    continue
                values[name] = value
                if f"{launch.kernel}.{name}" in self._open:
                    values[name] = self._argument(f"{launch.kernel}_{name}", name, launch, taken)
                elif name in self._open:
                    values[name] = self._argument(name, name, launch, taken)
            steps.append((launch.kernel, values))
        return steps

    def _argument(
        self,
        wanted: str,
        scalar: str,
        launch: rf.Launch,
        taken: dict[str, tuple[str, Any]],
    ) -> str:
        """Return the name of the graph's argument for a scalar, which must have one value."""
        value = launch.arguments[scalar]
        kernel, before = taken.setdefault(wanted, (launch.kernel, value))
        if value != before:
            raise ExportError(
                self._what,
                f"{scalar!r} is {before} for {kernel} and {value} for {launch.kernel}: name one of "
                f"them, as in arguments=[{launch.kernel + '.' + scalar!r}]",
            )
        return unused(wanted, set(self._arrays.values()))
