"""Compiles LLVM text for the processor at hand, with llvmlite."""

from __future__ import annotations

import functools
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


class Library:
    """Machine code made of LLVM text, loaded into this process.

    Args:
        text: LLVM text with opaque pointers.
    """

    def __init__(self, text: str) -> None:
        llvm = _llvm()
        module = llvm.parse_assembly(text)
        module.verify()
        machine = _machine()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        module.data_layout = str(machine.target_data)
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))


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
