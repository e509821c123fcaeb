"""Writes compiled kernels and graphs as AOT modules.

``ti.aot.Module`` ends the declaration of fields, so that there can be one in each ``ti.init``. The
builder behind it has no such limit.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import taichi as ti
from taichi.aot.utils import produce_injected_args
from taichi.lang import impl
from taichi.lang.matrix import MatrixField

from tikgen.taichi import loop_marks, passes, row_loops


class ArtefactBuilder:
    """Collects compiled kernels and graphs, and writes them as one AOT module.

    All fields must be declared before the first builder is made.

    Args:
        capabilities: capabilities of the target device, such as ``spirv_has_float64``.
    """

    def __init__(self, capabilities: Sequence[str]) -> None:
        if not impl.root.finalized:
            impl.pytaichi._finalize_root_fb_for_aot()
        arch = impl.current_cfg().arch
        self._builder = impl.pytaichi.prog.make_aot_module_builder(arch, list(capabilities))
        self._content: list[str] = []

    def add_kernel(self, kernel: Any, name: str) -> None:
        """Compile a ``ti.kernel`` whose arrays all declare dtype and dimension."""
        _add(self._builder, name, kernel._primal)
        self._content.append(f"kernel:{name}")

    def add_field(self, name: str, field: Any) -> None:
        """Add a field that kernels of the module use."""
        matrix = isinstance(field, MatrixField)
        rows, columns = (field.m, field.n) if matrix else (1, 1)
        snode = field.snode
        self._builder.add_field(
            name, snode.ptr, not matrix, field.dtype, snode.shape, rows, columns
        )

    def add_graph(self, name: str, steps: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        """Compile a graph of kernels, each with the ``ti.graph.Arg`` of its arguments."""
        graph = ti.graph.GraphBuilder()
        for kernel, arguments in steps:
            graph.dispatch(kernel, *arguments)
        self._builder.add_graph(name, graph.compile()._compiled_graph)
        self._content.append(f"cgraph:{name}")

    def write(self, folder: Path) -> None:
        """Write the module into an existing folder."""
        self._builder.dump(str(folder), "")
        (folder / "__content__").write_text("\n".join(self._content))
        (folder / "__version__").write_text(".".join(map(str, ti.__version__)))


def _add(builder: Any, name: str, primal: Any) -> None:
    key = primal.ensure_compiled(*produce_injected_args(primal))
    with passes.suited_to(primal):
        builder.add(name, primal.compiled_kernels[key])


def llvm_text(kernel: Any, exact: bool = False) -> str:
    """Return the optimised LLVM text of a kernel for the processor.

    Its loops over arrays are :mod:`by rows <tikgen.taichi.row_loops>`. Unlike
    :class:`ArtefactBuilder` this leaves the declaration of fields open.

    Args:
        kernel: the ``ti.kernel``.
        exact: whether its loops are those that Taichi launches. Otherwise Taichi's LLVM is kept
            from :mod:`unrolling and vectorising <tikgen.taichi.loop_marks>` them.
    """
    primal = kernel._primal
    compiled = row_loops.by_rows(primal)
    if not exact:
        marked = copy.copy(compiled)
        marked.compiled_kernels = {}
        with loop_marks.marking():
            text = loop_marks.noted(_llvm_text(primal, marked))
        if text is not None:
            return text
    return _llvm_text(primal, compiled)


def _llvm_text(primal: Any, compiled: Any) -> str:
    """Return the text of ``compiled``, a copy of ``primal`` or itself."""
    builder = impl.pytaichi.prog.make_aot_module_builder(impl.current_cfg().arch, [])
    _add(builder, "kernel", compiled)
    primal.has_print |= compiled.has_print  # Which its compilation finds.
    with tempfile.TemporaryDirectory(prefix="tikgen-") as folder:
        builder.dump(folder, "")
        return "".join(path.read_text() for path in sorted(Path(folder).glob("*.ll")))
