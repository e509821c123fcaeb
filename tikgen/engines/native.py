"""Compiles LLVM text for the processor at hand, with llvmlite."""

from __future__ import annotations

import contextlib
import ctypes
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

# With it LLVM 22.1 may read a mask register that nothing wrote, where it asks two numbers of a
# vector for their signs (`vpmovd2m`).
_WITHOUT = "-avx512dq"
# AMD's processors read and write scattered elements no faster by one instruction than one by one.
_OF_AMD = "+prefer-no-gather,+prefer-no-scatter"


def problem() -> str:
    """Return why nothing can be compiled here, or an empty string."""
    try:
        llvm = _llvm()
    except ImportError as error:
        return f"llvmlite is missing; pip install tikgen[fast] ({error})"
    except OSError as error:
        return f"llvmlite cannot load its library ({error})"
    if llvm.llvm_version_info[0] < 17:
        version = ".".join(map(str, llvm.llvm_version_info))
        return f"llvmlite has LLVM {version}; 17 or later is needed"
    return ""


def object_code(text: str, vectorises: bool = True) -> bytes:
    """Return the object file of LLVM text with opaque pointers, for the processor at hand.

    Raises:
        RuntimeError: if this LLVM makes no valid code of it.
    """
    machine = _machine()
    module = _optimised(text, machine, vectorises=vectorises)
    module.data_layout = str(machine.target_data)
    return bytes(machine.emit_object(module))


def object_code_for(text: str, triple: str, cpu: str, features: str) -> bytes:
    """Return an object file for programs, in which what is not ``weak_odr`` is local.

    Args:
        text: LLVM text with opaque pointers.
        triple: LLVM's name for processor and system.
        cpu: LLVM's name of the processor.
        features: its features beyond those of ``cpu``.

    Raises:
        ValueError: if this LLVM does not know the processor.
        RuntimeError: if it makes no valid code of the text.
    """
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ValueError(f"needs an LLVM that knows {triple}: {error}") from None
    machine = target.create_target_machine(
        cpu=cpu, features=_tuned(features, cpu, triple), opt=3, reloc="pic", codemodel="default"
    )
    module = _optimised(text, machine, triple)
    for function in module.functions:
        if not function.is_declaration and function.linkage.name == "external":
            function.linkage = "internal"  # Now: before, it would change what is inlined.
    return bytes(machine.emit_object(module))


def host() -> tuple[str, str]:
    """Return LLVM's name of the processor at hand, and its features."""
    llvm = _llvm()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _tuned(features: str, cpu: str, triple: str) -> str:
    """Return those features of a processor for which LLVM makes right code, and fast code."""
    if not triple.startswith("x86_64"):
        return features
    chosen = [features, _WITHOUT, _OF_AMD if cpu.startswith("znver") else ""]
    return ",".join(filter(None, chosen))


def _optimised(text: str, machine: Any, triple: str = "", vectorises: bool = True) -> Any:
    """Return the module of LLVM text, optimised, with the data layout of another system if named.

    LLVM 22.1 may vectorise straight code so that a number is used before it is computed; to emit
    such a module ends the process. So it is verified, and made without that pass otherwise.

    Raises:
        RuntimeError: if the module is not valid.
    """
    llvm = _llvm()
    for vectorises_straight_code in (vectorises, False):
        module = llvm.parse_assembly(text)
        module.verify()
        if triple:
            module.triple = triple
            module.data_layout = str(machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization, options.slp_vectorization = vectorises, vectorises_straight_code
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        try:
            module.verify()
            break
        except RuntimeError:
            if not vectorises_straight_code:
                raise
    return module


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
        """Return the address of a function.

        Raises:
            LookupError: if the library has none of that name.
        """
        found = int(self._engine.get_function_address(name))
        if not found:
            raise LookupError(f"no function {name}")
        return found


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
    cpu, features = host()
    return (
        _llvm()
        .Target.from_default_triple()
        .create_target_machine(
            cpu=cpu,
            features=_tuned(features, cpu, _llvm().get_process_triple()),
            opt=3,
            jit=True,
            codemodel="jitdefault",
        )
    )


def has_symbol(name: str) -> bool:
    """Return whether a function of this name exists in this process."""
    # LLVM itself knows none before it has loaded its first object file.
    return hasattr(ctypes.CDLL(None), name)
