"""What each peer has for works that are drawn: calls as its users would write them."""

from __future__ import annotations

import functools
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from drawn import grids
from works.work import Arguments, Work

Call = Callable[[], object]
_NAMES = {"exp": "exp", "sqrt": "sqrt", "sin": "sin", "where": "where", "abs": "abs"}


def _expression(work: Work) -> str:
    return str(work.problem["expr"]).partition(" = ")[2]


def _map_numpy(work: Work, a: Arguments) -> Call:
    space = {n: getattr(np, f) for n, f in _NAMES.items()}
    code = compile(_expression(work), "map", "eval")
    space |= {"min": np.minimum, "max": np.maximum, **a}
    return lambda: np.copyto(a["z"], eval(code, space))


def _map_torch(work: Work, a: Arguments) -> Call:
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

    space = {n: getattr(torch, f) for n, f in _NAMES.items()}
    space |= {"min": of(torch.minimum), "max": of(torch.maximum)}
    for name in ("exp", "sqrt", "sin", "abs"):
        space[name] = functools.partial(_of_number, space[name], getattr(math, name, abs))
    space["where"] = lambda c, x, y: torch.where(torch.as_tensor(c), x, y)
    code = compile(_expression(work), "map", "eval")
    return lambda: a["z"].copy_(eval(code, {**space, **a}))


def _of_number(operation: Any, plain: Any, value: Any) -> Any:
    return plain(value) if isinstance(value, float | int) else operation(value)


def _map_numba(work: Work, a: Arguments) -> Call:
    import numba

    number = "np.float64" if work.problem["dtype"] == "f64" else "np.float32"
    code = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)", rf"{number}(\1)", _expression(work))
    code = re.sub(r"\b([xy])\b", r"\1[i]", code)
    names = ", ".join(a)
    text = f"def loop({names}):\n    for i in prange(z.size):\n        z[i] = {code}"
    space: dict[str, Any] = {"prange": numba.prange, "np": np, "exp": math.exp, "sin": math.sin}
    space |= {"sqrt": math.sqrt, "where": numba.njit(lambda c, one, other: one if c else other)}
    exec(text, space)
    loop = numba.njit(parallel=True, fastmath=True)(space["loop"])
    values = [value.reshape(-1) for value in a.values()]
    return lambda: loop(*values)


def _reduce_numpy(work: Work, a: Arguments) -> Call:
    op, axis, x, out = getattr(np, work.problem["op"]), work.problem["axis"], a["x"], a["out"]
    return lambda: np.copyto(out, op(x, axis=axis), casting="unsafe")


def _reduce_torch(work: Work, a: Arguments) -> Call:
    import torch

    name, axis, x, out = work.problem["op"], work.problem["axis"], a["x"], a["out"]
    operation = getattr(torch, {"max": "amax"}.get(name, name))
    if axis is None:
        x, axis = x.reshape(-1), 0
    return lambda: out.copy_(operation(x, axis).reshape(out.shape))


def _scan_numpy(work: Work, a: Arguments) -> Call:
    return lambda: np.cumsum(a["x"], out=a["out"])


def _scan_torch(work: Work, a: Arguments) -> Call:
    import torch

    return lambda: torch.cumsum(a["x"], 0, dtype=a["out"].dtype, out=a["out"])


def _scan_numba(work: Work, a: Arguments) -> Call:
    import numba

    from peers.numba_loops import scan

    if work.problem["dtype"] != "f32":
        raise NotImplementedError
    return lambda: scan(a["x"], a["out"], numba.get_num_threads())


def _transpose_numpy(work: Work, a: Arguments) -> Call:
    return lambda: np.copyto(a["y"], a["x"].transpose(work.problem["perm"]))


def _transpose_torch(work: Work, a: Arguments) -> Call:
    return lambda: a["y"].copy_(a["x"].permute(work.problem["perm"]))


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
        raise NotImplementedError
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


Form = Callable[[Work, Arguments], Call]
FORMS: dict[str, grids.Forms] = {
    "map": {"numpy": _map_numpy, "numba": _map_numba, "torch": _map_torch,
            "torch_compile": _map_torch},
    "stencil": grids.FORMS,
    "update": grids.FORMS,
    "reduce": {"numpy": _reduce_numpy, "torch": _reduce_torch, "torch_compile": _reduce_torch},
    "scan": {"numpy": _scan_numpy, "numba": _scan_numba, "torch": _scan_torch},
    "transpose": {"numpy": _transpose_numpy, "torch": _transpose_torch,
                  "torch_compile": _transpose_torch},
    "gemm": {"numpy": _gemm_numpy, "torch": _gemm_torch},
    "spmv": {"numpy": _spmv_numpy, "numba": _spmv_numba, "torch": _spmv_torch},
    "histogram": {"numpy": _histogram_numpy, "numba": _histogram_numba, "torch": _histogram_torch},
}  # fmt: skip


def form_for(key: str, work: Work, arguments: Arguments) -> Call | None:
    """Return a peer's call for a work whose arrays are placed for it, or None if it has none."""
    form = FORMS[work.template].get(key)
    if form is None:
        return None
    try:
        call = form(work, arguments)
    except NotImplementedError:
        return None
    if key != "torch_compile":
        return call
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(call, dynamic=False)  # type: ignore[no-any-return]
