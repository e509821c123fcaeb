"""What each peer has for works that are drawn: calls as its users would write them."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from drawn import grids
from peers.peer import Absent, Call
from works.work import Arguments, Work

Form = Callable[[Work, Arguments], Call]


def _expression(work: Work) -> str:
    return str(work.problem["expr"]).partition(" = ")[2]


def _map_numpy(work: Work, a: Arguments) -> Call:
    code = compile(_expression(work), "map", "eval")
    space = {**grids.OF_ARRAYS, **a}
    return lambda: np.copyto(a["z"], eval(code, space))


def _torch_map(work: Work, a: Arguments) -> grids.Step:
    import torch

    def of(operation: Any) -> Callable[[Any, Any], Any]:
        # One of two arguments may be a number.
        def compute(one: Any, other: Any) -> Any:
            one, other = (
                v if isinstance(v, torch.Tensor) else torch.full_like(a["x"][:1], v)
                for v in (one, other)
            )
            return operation(one, other)

        return compute

    def where(condition: Any, one: Any, other: Any) -> Any:
        if isinstance(condition, bool):
            return one if condition else other
        return torch.where(condition, one, other)

    space: dict[str, Any] = {"min": of(torch.minimum), "max": of(torch.maximum), "where": where}
    for name in ("exp", "sqrt", "sin", "abs"):
        space[name] = functools.partial(_of_number, getattr(torch, name), getattr(math, name, abs))
    exec(f"def loop({', '.join(a)}):\n    z.copy_({_expression(work)})", space)
    found: grids.Step = space["loop"]
    return found


def _called(function_of: Callable[[Work, Arguments], grids.Step]) -> Form:
    """Return a form that calls a function of the arrays."""

    def form(work: Work, a: Arguments) -> Call:
        run, values = function_of(work, a), list(a.values())
        return lambda: run(*values)

    return form


def _compiled(function_of: Callable[[Work, Arguments], grids.Step]) -> Form:
    """Return a form that compiles a function of the arrays."""

    def compiled(work: Work, a: Arguments) -> grids.Step:
        import torch

        torch.compiler.reset()  # After eight functions of one name it gives up.
        found: grids.Step = torch.compile(function_of(work, a), dynamic=False)
        return found

    return _called(compiled)


def _of_number(operation: Any, plain: Any, value: Any) -> Any:
    return plain(value) if isinstance(value, float | int) else operation(value)


def _map_numba(work: Work, a: Arguments) -> Call:
    import numba

    code = re.sub(r"\b([xy])\b", r"\1[i]", grids.typed_numbers(work, _expression(work)))
    names = ", ".join(a)
    text = f"def loop({names}):\n    for i in prange(z.size):\n        z[i] = {code}"
    space = grids.numba_names()
    exec(text, space)
    loop = numba.njit(parallel=True, fastmath=True)(space["loop"])
    values = [value.reshape(-1) for value in a.values()]
    return lambda: loop(*values)


def _reduce_numpy(work: Work, a: Arguments) -> Call:
    op, axis, x, out = getattr(np, work.problem["op"]), work.problem["axis"], a["x"], a["out"]
    return lambda: np.copyto(out, op(x, axis=axis), casting="unsafe")


def _torch_reduce(work: Work, a: Arguments) -> grids.Step:
    import torch

    name, axis = work.problem["op"], work.problem["axis"]
    operation = getattr(torch, {"max": "amax"}.get(name, name))

    def reduce(x: Any, out: Any) -> None:
        found = operation(x.reshape(-1), 0) if axis is None else operation(x, axis)
        out.copy_(found.reshape(out.shape))

    return reduce


def _scan_numpy(work: Work, a: Arguments) -> Call:
    return lambda: np.cumsum(a["x"], out=a["out"])


def _scan_torch(work: Work, a: Arguments) -> Call:
    import torch

    return lambda: torch.cumsum(a["x"], 0, dtype=a["out"].dtype, out=a["out"])


def _scan_numba(work: Work, a: Arguments) -> Call:
    import numba

    from peers.numba_loops import scan

    if work.problem["dtype"] != "f32":
        raise Absent("has loops of f32 only")
    return lambda: scan(a["x"], a["out"], numba.get_num_threads())


def _transpose_numpy(work: Work, a: Arguments) -> Call:
    return lambda: np.copyto(a["y"], a["x"].transpose(work.problem["perm"]))


def _torch_transpose(work: Work, a: Arguments) -> grids.Step:
    return lambda x, y: y.copy_(x.permute(work.problem["perm"]))


def _operands(work: Work, a: Arguments) -> tuple[Any, Any]:
    left, right = work.problem["layout"]
    return a["a"].T if left == "t" else a["a"], a["b"].T if right == "t" else a["b"]


def _gemm_numpy(work: Work, a: Arguments) -> Call:
    left, right = _operands(work, a)
    return lambda: np.matmul(left, right, out=a["c"])


def _gemm_torch(work: Work, a: Arguments) -> Call:
    import torch

    left, right = _operands(work, a)
    return lambda: torch.matmul(left, right, out=a["c"])


def _spmv_numpy(work: Work, a: Arguments) -> Call:
    from peers.numpy_calls import spmv

    return spmv(a)


def _spmv_torch(work: Work, a: Arguments) -> Call:
    from peers.torch_calls import spmv

    return spmv(a)


def _spmv_numba(work: Work, a: Arguments) -> Call:
    from peers.numba_loops import spmv

    if work.problem["dtype"] != "f32":
        raise Absent("has loops of f32 only")
    return lambda: spmv(a["data"], a["indices"], a["indptr"], a["x"], a["y"])


def _histogram_numpy(work: Work, a: Arguments) -> Call:
    from peers.numpy_calls import histogram

    return histogram(a)


def _histogram_torch(work: Work, a: Arguments) -> Call:
    from peers.torch_calls import histogram

    return histogram(a)


def _histogram_numba(work: Work, a: Arguments) -> Call:
    import numba

    from peers.numba_loops import histogram

    lo, hi = np.float32(a["lo"]), np.float32(a["hi"])
    return lambda: histogram(a["x"], a["counts"], lo, hi, numba.get_num_threads())


_ON_GRIDS = {
    "numpy": _called(grids.numpy_step),
    "numba": _called(grids.numba_step),
    "torch": _called(grids.torch_step),
    "torch_compile": _compiled(grids.torch_step),
}
FORMS: dict[str, dict[str, Form]] = {
    "map": {"numpy": _map_numpy, "numba": _map_numba, "torch": _called(_torch_map),
            "torch_compile": _compiled(_torch_map)},
    "stencil": _ON_GRIDS,
    "update": _ON_GRIDS,
    "reduce": {"numpy": _reduce_numpy, "torch": _called(_torch_reduce),
               "torch_compile": _compiled(_torch_reduce)},
    "scan": {"numpy": _scan_numpy, "numba": _scan_numba, "torch": _scan_torch},
    "transpose": {"numpy": _transpose_numpy, "torch": _called(_torch_transpose),
                  "torch_compile": _compiled(_torch_transpose)},
    "gemm": {"numpy": _gemm_numpy, "torch": _gemm_torch},
    "spmv": {"numpy": _spmv_numpy, "numba": _spmv_numba, "torch": _spmv_torch},
    "histogram": {"numpy": _histogram_numpy, "numba": _histogram_numba, "torch": _histogram_torch},
}  # fmt: skip


def form_for(key: str, work: Work, arguments: Arguments) -> Call:
    """Return a peer's call for a work whose arrays are placed for it.

    Raises:
        Absent: if the peer has no form of the work.
    """
    if key not in FORMS[work.template]:
        raise Absent(f"has no form of {work.title}")
    return FORMS[work.template][key](work, arguments)
