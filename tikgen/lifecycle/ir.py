"""The code of a kernel at each stage of its compilation, from a process that compiles it again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tikgen.children.process import ChildProcess, Died
from tikgen.disk import TemporaryFolder
from tikgen.dtypes import DType
from tikgen.errors import ArgumentError, KernelCompileError, UnsupportedOnArch, near
from tikgen.pipeline.loaded import check_arch
from tikgen.taichi import arrays, runtime
from tikgen.template.arguments import Argument, Opaque, Scalar, concrete_shape

if TYPE_CHECKING:
    from tikgen.pipeline.kernel import Kernel

_WORKER = "tikgen.lifecycle.ir_child"
_MOST_SECONDS = 600.0
# The archs that have a kind of code; None if it does not depend on the arch.
KINDS: dict[str, tuple[str, ...] | None] = {
    "python": None,
    "ast": None,
    "chi": None,
    "llvm": ("cpu", "cuda"),
    "llvm-optimized": ("cpu", "cuda"),
    "asm": ("cpu",),
    "spirv": ("vulkan",),
    "ptx": ("cuda",),
}
_OPTIONS = ("fast_math", "opt_level", "advanced_optimization", "default_fp", "default_ip", "debug")
# Default extent of an axis.
_EXTENT = 16

# The description of an argument for the child: kind, dtype or value, shape.
_Made = tuple[str, Any, tuple[int, ...]]


def ir_of(kernel: Kernel, kind: str, *args: Any, arch: str | None = None) -> str:
    """Return the code of ``kernel`` at a stage of its compilation; see :meth:`Kernel.ir`.

    A child process compiles it with the current options of ``ti.init``; the working directory and
    Taichi's state in this process do not change.
    """
    name = kernel.template.name
    if not isinstance(kind, str) or kind not in KINDS:
        hint = near(kind, KINDS) if isinstance(kind, str) else ""
        raise ArgumentError(name, f"has no IR {kind!r}.{hint} It takes {', '.join(KINDS)}")
    source = kernel.source
    if kind == "python":
        return source.text
    if arch is not None and not runtime.is_arch(arch):
        raise ArgumentError(name, f"arch takes {runtime.LISTED_ARCHS}; got {arch!r}")
    arch = arch or runtime.current_arch() or "cpu"
    having = KINDS[kind]
    if having is not None and arch not in having:
        where = " and ".join(having)
        raise UnsupportedOnArch(
            f"The {kind} of {name}", arch, f"it exists on {where}; use arch={having[0]!r}"
        )
    try:
        check_arch(source.variant, arch)
    except UnsupportedOnArch as error:
        error.args = (f"{error}; build it with arch={arch!r} for a schedule of that arch",)
        raise
    return _from_child(kernel, job_of(kernel, kind, args), arch)


def optimised_code(kernel: Kernel, arch: str, text: str | None = None) -> str | None:
    """Return what the compiler makes of a kernel in the end, or None if that cannot be shown.

    Args:
        kernel: the kernel.
        arch: the arch to compile for.
        text: the text of another kernel with the same arguments, compiled instead.
    """
    kinds = [kind for kind in ("llvm-optimized", "spirv") if arch in (KINDS[kind] or ())]
    if not kinds:
        return None
    job = job_of(kernel, kinds[0], ())
    try:
        return _from_child(kernel, job if text is None else job | {"text": text}, arch)
    except (KernelCompileError, UnsupportedOnArch):
        return None


def job_of(kernel: Kernel, kind: str, args: Sequence[Any]) -> dict[str, Any]:
    """Return the message for the child."""
    return {
        "kind": kind,
        "text": kernel.source.text,
        "filename": kernel.source.filename,
        "entry": kernel.function.__name__ if kernel.is_loaded else kernel.template.name,
        "arguments": _arguments(kernel, args),
    }


def _from_child(kernel: Kernel, job: dict[str, Any], arch: str) -> str:
    """Return the code from a child process, or raise its error."""
    with compiler(kernel, arch, job["kind"]) as process:
        return ask(process, kernel, job)


@contextlib.contextmanager
def compiler(kernel: Kernel, arch: str, kind: str) -> Iterator[ChildProcess]:
    """Give a process that compiles kernels with the current options of ``ti.init``.

    Raises:
        UnsupportedOnArch: if the arch does not work here.
    """
    options = {"kind": kind, **compiler_options(kind)}
    with (
        TemporaryFolder("tikgen-ir-") as folder,
        ChildProcess(_WORKER, arch, str(folder), json.dumps(options)) as process,
    ):
        if problem := process.start():
            name = kernel.template.name
            raise UnsupportedOnArch(name, arch, f"it does not work here: {problem}")
        yield process


def compiler_options(kind: str) -> dict[str, Any]:
    """Return those options of ``ti.init`` that a compiling process takes over."""
    current = runtime.init_options()
    more = runtime.gpu_options() if kind == "ptx" and runtime.is_initialised() else {}
    return {k: current[k] for k in _OPTIONS if k in current} | more


def ask(process: ChildProcess, kernel: Kernel, job: dict[str, Any]) -> str:
    """Return the code that a compiling process answers, or raise its error."""
    name = kernel.template.name
    try:
        process.send(json.dumps(job))
        reply = process.reply(_MOST_SECONDS)
    except (Died, TimeoutError) as error:
        what = f"died: {error}" if isinstance(error, Died) else "timed out"
        problem = f"the process that compiled it {what}"
        raise KernelCompileError(name, problem, params=kernel.params) from None
    if "refused" in reply:
        raise kernel.loaded.explained(RuntimeError(reply["refused"]))
    if "failed" in reply:
        raise KernelCompileError(name, f"it has no IR: {reply['failed']}", params=kernel.params)
    if not reply["text"]:
        raise KernelCompileError(name, f"Taichi shows no {job['kind']} of it", params=kernel.params)
    return str(reply["text"])


def _arguments(kernel: Kernel, args: Sequence[Any]) -> list[_Made]:
    """Return the description of the arguments and the workspace for the child."""
    declared = kernel.signature.arguments
    variant = kernel.source.variant
    sizes = dict.fromkeys(kernel.signature.symbols, _EXTENT)
    if not variant.sizes:
        sizes |= variant.template.middle_sizes(variant.problem)
    if args:
        ordered = kernel.signature.order(args, {})
        made = [_like(kernel, a, v) for a, v in zip(declared, ordered, strict=True)]
        named = zip(kernel.signature.names, ordered, strict=True)
        sizes |= kernel.sizes_of({n: v for n, v in named if hasattr(v, "shape")})
    else:
        made = [_made_up(kernel, a, sizes) for a in declared]
    made += [_made_up(kernel, a, sizes) for a in kernel.loaded.numbers]
    return [*made, *(("array", a.dtype.value, concrete_shape(a, sizes)) for a in kernel.workspace)]


def _made_up(kernel: Kernel, argument: Argument, sizes: dict[str, int]) -> _Made:
    if isinstance(argument, Opaque):
        raise ArgumentError(
            kernel.template.name,
            f"argument {argument.name!r} is declared without dtype or ndim; pass arguments to "
            "compile for, such as kernel.ir('chi', ...)",
        )
    if isinstance(argument, Scalar):
        return "scalar", argument.dtype.value, ()
    kind = "field" if argument.storage == "field" else "array"
    return kind, argument.dtype.value, concrete_shape(argument, sizes)


def _like(kernel: Kernel, argument: Argument, value: Any) -> _Made:
    """Return the description of an argument that compiles to the same code as ``value``."""
    if isinstance(argument, Scalar):
        return "scalar", argument.dtype.value, ()
    if value is None or isinstance(value, bool | int | float | str):
        return "value", value, ()
    try:
        dtype = DType.parse(_dtype_of(value)).value
        kind = "field" if isinstance(value, arrays.TiScalarField) else "array"
        return kind, dtype, tuple(map(int, value.shape))
    except (ValueError, AttributeError):
        raise ArgumentError(
            kernel.template.name,
            f"argument {argument.name!r} takes an array of numbers, a ti.field of them or a plain "
            f"value to show IR; got {type(value).__name__}",
        ) from None


def _dtype_of(value: Any) -> Any:
    dtype = value.dtype
    return dtype if isinstance(dtype, np.dtype) else str(dtype).removeprefix("torch.")
