"""Compiles LLVM text for the processor at hand, with llvmlite."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from pathlib import Path
from typing import Any

# Fields of /proc/cpuinfo that decide which code a processor runs, and which code is fast.
_KNOWN = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
        *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
    }
)


def problem() -> str:
    """Return why nothing can be compiled here, or an empty string."""
    try:
        llvm = _llvm()
    except ImportError as error:
        return f"llvmlite is missing; pip install tikgen[fast] ({error})"
    if llvm.llvm_version_info[0] < 17:
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"llvmlite has LLVM {version}; 17 or later is needed"
    return ""


def object_code(text: str) -> bytes:
    """Return the object file of LLVM text with opaque pointers, for the processor at hand."""
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    module.data_layout = str(machine.target_data)
    return bytes(machine.emit_object(module))


class Library:
    """An object file, loaded into this process.

    Args:
        content: the result of :func:`object_code`.

    Raises:
        ValueError: if it is no object file, which would end the process.
    """

    def __init__(self, content: bytes) -> None:
        if not content.startswith(b"\x7fELF"):
            raise ValueError("is no object file")
        llvm = _llvm()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


@functools.cache
def identity() -> dict[str, str]:
    """Return what object code depends on beside its text: processor and versions.

    This imports no LLVM, so that it costs nothing where no code is found.
    """
    return {**_processor(), "llvmlite": importlib.metadata.version("llvmlite")}


def _processor() -> dict[str, str]:
    """Return the name and the features of the processor, as Linux knows them."""
    try:
        with Path("/proc/cpuinfo").open("rb", buffering=0) as file:
            first = file.read(1 << 14).partition(b"\n\n")[0].decode(errors="replace")
    except OSError:
        llvm = _llvm()
        features = llvm.get_host_cpu_features().flatten()
        return {"name": llvm.get_host_cpu_name(), "features": features}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if name.strip() in _KNOWN}


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # LLVM looks for functions in libraries that it was told of, and only there.
    with contextlib.suppress(RuntimeError):
        llvm.load_library_permanently("libm.so.6")
    return llvm


def _machine() -> Any:
    llvm = _llvm()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
        codemodel="jitdefault",
    )


def has_symbol(name: str) -> bool:
    """Return whether a function of this name exists in this process."""
    return _llvm().address_of_symbol(name) is not None
