"""The process that compiles for one arch: ``python -m tikgen.aot.exporting.export_child ARCH``.

It reads one module a line, writes it to its folder, and replies what the device must have. It does
not run the user's program: every kernel comes as text.
"""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import taichi as ti

from tikgen.aot.exporting.export_plan import accessor_names
from tikgen.aot.exporting.graphs import scratch_name
from tikgen.aot.exporting.kernel_texts import (
    HIGH,
    LOW,
    WIDE,
    accessors,
    element_type,
    init_options,
    load_text,
    make_field,
    split,
)
from tikgen.aot.native.targets import Target
from tikgen.children.work import Tell, serve, start
from tikgen.errors import one_line
from tikgen.taichi import arrays, artefacts, runtime

# The capability of a Vulkan device that a type needs.
_CAPABILITIES = {
    "i8": "spirv_has_int8",
    "u8": "spirv_has_int8",
    "i16": "spirv_has_int16",
    "u16": "spirv_has_int16",
    "i64": "spirv_has_int64",
    "u64": "spirv_has_int64",
    "f16": "spirv_has_float16",
    "f64": "spirv_has_float64",
}
_MISSED = re.compile(r"Type (\w+) not supported")
# Only ti.init frees compiled code.
_MODULES_PER_INIT = 100


class NotNative(Exception):
    """A kernel cannot be compiled without Taichi's runtime; the message says why."""


def main() -> None:
    """Compile for the arch named on the command line until the input ends."""
    serve(sys.argv[1], _answer, lines_per_init=_MODULES_PER_INIT)


def _answer(line: str, tell: Tell) -> str:
    job = json.loads(line)
    refused = {"kernel": ""}
    # No field may be declared after the first module, and options are for one module only.
    is_special = bool(job["fields"] or job["options"])
    try:
        if is_special:
            start(sys.argv[1], **init_options(job["options"]))
        return json.dumps({"capabilities": _export(job, refused)})
    except (runtime.CompilationError, runtime.RuntimeFailure) as error:
        lines = [li.strip() for li in str(error).splitlines() if li.strip()]
        problem = lines[-1] if lines else type(error).__name__
    except NotNative as error:
        said = f"it cannot be native, since the engine direct-cpu cannot take it: {error}"
        return json.dumps(refused | {"problem": said})
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return json.dumps({"full": error.errno})
        problem = one_line(error)
    finally:
        if is_special:
            start(sys.argv[1])
    return json.dumps(refused | {"problem": f"Taichi cannot compile it: {problem}"})


def _export(job: dict[str, Any], at: dict[str, str]) -> list[str]:
    """Compile and write the module; return the capabilities that it needs.

    Meanwhile ``at`` names the kernel that is being compiled.
    """
    fields = {f["name"]: make_field(f) for f in job["fields"]}
    kernels = {
        name: load_text(
            name,
            said["text"] if job["native"] else split(said["text"], said["function"], _wide(said)),
            said["function"],
            {inner: fields[outer] for inner, outer in said["fields"].items()},
        )
        for name, said in job["kernels"].items()
    }
    if job["native"]:
        _write_object(job, kernels, at)
        return []
    copying = {f["name"]: accessors(f, fields[f["name"]]) for f in job["fields"]}
    capabilities = {*job["capabilities"]}
    if sys.argv[1] == "vulkan":  # The compiler accepts any scalar; the driver crashes.
        dtypes = {a["dtype"] for a in _scalars(job["kernels"].values())} - {*WIDE}
        capabilities |= {_CAPABILITIES[dtype] for dtype in dtypes & _CAPABILITIES.keys()}
    while True:
        try:
            _write(job, kernels, fields, copying, sorted(capabilities), at)
            break
        except RuntimeError as error:
            # What the code of a kernel needs shows only when it is compiled.
            missed = _MISSED.search(str(error))
            needed = _CAPABILITIES.get(missed[1]) if missed else None
            if needed is None or needed in capabilities:
                raise
            capabilities.add(needed)
    return sorted(capabilities)


def _write_object(job: dict[str, Any], kernels: dict[str, Any], at: dict[str, str]) -> None:
    """Write the object file of a kernel, from the text that the engine direct-cpu compiles."""
    from tikgen.aot.native.objects import OBJECT, kinds_of, object_of, use_of

    ((name, kernel),) = job["kernels"].items()
    at["kernel"] = name
    text = artefacts.llvm_text(kernels[name])
    at["kernel"] = ""
    target = Target(**{**job["native"], "needed": tuple(job["native"]["needed"])})
    try:
        given = kernel["arguments"]
        made = object_of(text, kinds_of(given), use_of(given), target, job["symbol"])
    except ValueError as error:
        raise NotNative(f"it {error}") from None
    (Path(job["folder"]) / OBJECT).write_bytes(made)


def _write(
    job: dict[str, Any],
    kernels: dict[str, Any],
    fields: dict[str, Any],
    copying: dict[str, tuple[Any, Any]],
    capabilities: list[str],
    at: dict[str, str],
) -> None:
    builder = artefacts.ArtefactBuilder(capabilities if sys.argv[1] == "vulkan" else [])
    for name, field in fields.items():
        builder.add_field(name, field)
    if not job["is_graph"]:
        for name, kernel in kernels.items():
            at["kernel"] = name
            builder.add_kernel(kernel, name)
        at["kernel"] = ""
    for name, (read, write) in copying.items():
        for accessor, entry in zip((read, write), accessor_names(name), strict=True):
            builder.add_kernel(accessor, entry)
    for graph in job["graphs"]:
        steps = [
            (kernels[s["kernel"]], _graph_arguments(number, s, job["kernels"][s["kernel"]]))
            for number, s in enumerate(graph["steps"])
        ]
        builder.add_graph(graph["name"], steps)
    builder.write(Path(job["folder"]))


def _graph_arguments(number: int, step: dict[str, Any], kernel: dict[str, Any]) -> list[Any]:
    """Return what the graph passes to each argument of a kernel, then to its workspace."""
    names = step["arguments"] | {w: scratch_name(number, w) for w in kernel["workspace"]}
    return [made for a in kernel["arguments"] for made in _graph_arguments_of(names[a["name"]], a)]


def _graph_arguments_of(name: str, argument: dict[str, Any]) -> list[Any]:
    kinds = ti.graph.ArgKind
    dtype = arrays.primitive(argument["dtype"])
    if argument["kind"] == "scalar":
        if argument["dtype"] in WIDE:
            halves = (f"{name}.{half}" for half in (LOW, HIGH))
            return [ti.graph.Arg(kinds.SCALAR, half, ti.i32) for half in halves]
        return [ti.graph.Arg(kinds.SCALAR, name, dtype)]
    dtype = element_type(argument.get("element", ()), dtype)
    return [ti.graph.Arg(kinds.NDARRAY, name, dtype, ndim=len(argument["shape"]))]


def _wide(kernel: dict[str, Any]) -> dict[str, str]:
    """Return the dtype of each scalar of 64 bits that a kernel takes, by name."""
    return {a["name"]: a["dtype"] for a in _scalars([kernel]) if a["dtype"] in WIDE}


def _scalars(kernels: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [a for kernel in kernels for a in kernel["arguments"] if a["kind"] == "scalar"]


if __name__ == "__main__":
    main()
