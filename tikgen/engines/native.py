"""Compiles LLVM text for the processor at hand, with llvmlite."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any


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
    """

    def __init__(self, content: bytes) -> None:
        llvm = _llvm()
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


def identity() -> dict[str, str]:
    """Return what object code depends on beside its text: processor and versions."""
    llvm = _llvm()
    return {
        "processor": llvm.get_host_cpu_name(),
        "features": llvm.get_host_cpu_features().flatten(),
        "system": llvm.get_default_triple(),
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
        "llvmlite": importlib.metadata.version("llvmlite"),
    }


@functools.cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
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
