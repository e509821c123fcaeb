"""The file of a recording: which kernels were built and launched, with what, in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from tikgen import untrusted
from tikgen.aot import manifest
from tikgen.disk import whole, why
from tikgen.errors import ExportError, RecordingError

FORMAT = 1
_HEADER = "# What tikgen.aot.record saw; tikgen.aot.export_recording makes a bundle of it."


class Array(msgspec.Struct, frozen=True):
    """An array that kernels were launched with, named after its first argument."""

    name: str
    dtype: str
    shape: tuple[int, ...]  # The axes of its elements last.


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel of a template that was built or launched."""

    name: str
    template: str
    parameters: dict[str, Any]
    schedule: dict[str, Any]
    sizes: dict[str, int]  # Those that are baked in, by symbol.
    digest: str
    arguments: tuple[manifest.Argument, ...]


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """A ``ti.kernel`` of the user's that was launched; see :class:`OwnKernel`."""

    name: str
    function: str
    file: str
    line: int
    problem: str = ""  # Why it cannot be exported.
    arguments: tuple[manifest.Argument, ...] = ()
    templates: dict[str, Any] = {}
    fields: dict[str, str] = {}  # Names in the recording, by names in the text.
    options: dict[str, str] = {}
    text: str = ""


class Launch(msgspec.Struct, frozen=True):
    """A launch: its arguments, in order, are names of arrays and values of scalars."""

    kernel: str
    arguments: dict[str, Any]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A recording as it is on disk: its parts in order."""

    format: int
    tikgen: str
    taichi: str
    arch: str
    builds: tuple[Build, ...] = ()
    kernels: tuple[Own, ...] = ()
    fields: tuple[manifest.Field, ...] = ()
    arrays: tuple[Array, ...] = ()
    launches: tuple[Launch, ...] = ()


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes texts of several lines as blocks."""


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def write(recorded: File, path: Path) -> None:
    """Write a recording, all of it or nothing."""
    content = yaml.dump(
        msgspec.to_builtins(recorded),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=100,
        allow_unicode=True,
    )
    try:
        with whole(path) as new:
            new.write_text(f"{_HEADER}\n{content}", "utf-8")
    except (OSError, ValueError) as error:  # A null character in the name is a ValueError.
        raise ExportError(str(path), f"it cannot be written: {why(error)}") from None


def read(path: Path) -> File:
    """Return the recording in a file."""
    try:
        content = untrusted.from_yaml(untrusted.read_text(path))
        if not isinstance(content, dict) or "format" not in content:
            raise RecordingError(str(path), "it is no recording of tikgen.aot.record")
        if content["format"] != FORMAT:
            raise RecordingError(
                str(path),
                f"it has format {content['format']!r}, written by tikgen {content.get('tikgen')}; "
                f"this tikgen reads format {FORMAT}: upgrade tikgen, or record it again",
            )
        recorded = untrusted.as_type(content, File)
        _check(recorded)
    except OSError as error:
        raise RecordingError(str(path), f"it cannot be read: {why(error)}") from None
    except ValueError as error:
        raise RecordingError(str(path), f"it is damaged ({error}); record it again") from None
    return recorded


def _check(recorded: File) -> None:
    """Raise ValueError if parts of a recording contradict each other."""
    every: list[Build | Own] = [*recorded.builds, *recorded.kernels]
    kernels = {kernel.name: kernel for kernel in every}
    arrays = {array.name for array in recorded.arrays}
    fields = {field.name for field in recorded.fields}
    for own in recorded.kernels:
        for name in own.fields.values():
            if name not in fields:
                raise ValueError(f"{own.name} uses the unknown field {name!r}")
    for number, launch in enumerate(recorded.launches):
        kernel = kernels.get(launch.kernel)
        if kernel is None:
            raise ValueError(f"launch {number} is of the unknown kernel {launch.kernel!r}")
        if isinstance(kernel, Own) and kernel.problem:
            continue
        if list(launch.arguments) != [a.name for a in kernel.arguments]:
            raise ValueError(f"launch {number} does not have the arguments of {launch.kernel}")
        for argument in kernel.arguments:
            value = launch.arguments[argument.name]
            is_array = isinstance(value, str) and value in arrays
            if not (is_array if argument.kind == "array" else isinstance(value, int | float)):
                raise ValueError(f"launch {number} passes the unknown {value!r}")
