"""PyTorch, eager: on the cpu, or on a CUDA device."""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch

from peers.peer import Absent, Call, Peer, form_of
from works.work import Arguments, Work


def copy(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    return lambda: y.copy_(x)


def axpy(a: Arguments) -> Call:
    factor, x, y, z = a["a"], a["x"], a["y"], a["z"]
    return lambda: torch.add(y, x, alpha=factor, out=z)


def terms3d(x: Any) -> list[tuple[float, Any]]:
    """Return the weights and the slices whose sum is the 7-point Laplacian of the interior."""
    neighbours = (
        x[:-2, 1:-1, 1:-1],
        x[2:, 1:-1, 1:-1],
        x[1:-1, :-2, 1:-1],
        x[1:-1, 2:, 1:-1],
        x[1:-1, 1:-1, :-2],
        x[1:-1, 1:-1, 2:],
    )
    return [(-6.0, x[1:-1, 1:-1, 1:-1]), *((1.0, part) for part in neighbours)]


def terms2d(x: Any) -> list[tuple[float, Any]]:
    """Return the same for the Laplacian of fourth order."""
    near = x[1:-3, 2:-2], x[3:-1, 2:-2], x[2:-2, 1:-3], x[2:-2, 3:-1]
    far = x[:-4, 2:-2], x[4:, 2:-2], x[2:-2, :-4], x[2:-2, 4:]
    return [
        (-5.0, x[2:-2, 2:-2]),
        *((4 / 3, part) for part in near),
        *((-1 / 12, part) for part in far),
    ]


def weighted_sum(terms: list[tuple[float, Any]]) -> Any:
    """Return the sum as one expression."""
    return sum(weight * part for weight, part in terms)


def add_up(terms: list[tuple[float, Any]], out: Any) -> None:
    """Add the terms up in place."""
    (weight, first), *others = terms
    torch.mul(first, weight, out=out)
    for weight, part in others:
        out.add_(part, alpha=weight)


def stencil3d(a: Arguments) -> Call:
    x, y = a["x"], a["y"][1:-1, 1:-1, 1:-1]
    weights = torch.zeros(3, 3, 3, device=x.device)
    weights[:, 1, 1] = weights[1, :, 1] = weights[1, 1, :] = 1.0
    weights[1, 1, 1] = -6.0
    return _faster(
        lambda: add_up(terms3d(x), y),
        lambda: y.copy_(torch.nn.functional.conv3d(x[None, None], weights[None, None])[0, 0]),
    )


def stencil2d(a: Arguments) -> Call:
    x, y = a["x"], a["y"][2:-2, 2:-2]
    weights = torch.zeros(5, 5, device=x.device)
    weights[2, :] = weights[:, 2] = torch.tensor([-1 / 12, 4 / 3, 0, 4 / 3, -1 / 12])
    weights[2, 2] = -5.0
    return _faster(
        lambda: add_up(terms2d(x), y),
        lambda: y.copy_(torch.nn.functional.conv2d(x[None, None], weights[None, None])[0, 0]),
    )


def total(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    return lambda: torch.sum(x, 0, keepdim=True, out=out)


def dot(a: Arguments) -> Call:
    x, y, out = a["x"], a["y"], a["out"][0]
    return lambda: torch.dot(x, y, out=out)


def scan(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    return lambda: torch.cumsum(x, 0, out=out)


def transpose(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    return lambda: y.copy_(x.t())


def gemm(a: Arguments) -> Call:
    left, right, c = a["a"], a["b"], a["c"]
    return lambda: torch.matmul(left, right, out=c)


def spmv(a: Arguments) -> Call:
    x = a["x"]
    shape = (a["y"].numel(), x.numel())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Sparse tensors are in beta, it says.
        matrix = torch.sparse_csr_tensor(a["indptr"], a["indices"], a["data"], shape)

    def call() -> None:
        a["y"] = matrix @ x

    return call


def histogram(a: Arguments) -> Call:
    x, bins, lo, hi = a["x"], a["counts"].numel(), a["lo"], a["hi"]

    def call() -> None:
        a["counts"] = torch.histc(x, bins, lo, hi)

    return call


FORMS = {
    "copy": copy,
    "axpy": axpy,
    "stencil3d": stencil3d,
    "stencil2d": stencil2d,
    "sum": total,
    "dot": dot,
    "scan": scan,
    "transpose": transpose,
    "gemm": gemm,
    "spmv": spmv,
    "histogram": histogram,
}


def prepare(work: Work, arguments: Arguments) -> Call:
    return form_of(FORMS, work)(arguments)


def on_device(key: str, label: str, prepare: Any, machine: str) -> Peer:
    """Return a peer whose arrays are tensors: of host memory, or on the CUDA device."""
    if machine == "cpu":
        # The tensors share the memory of the NumPy arrays.
        return Peer(key, label, prepare, torch.from_numpy, lambda tensor: tensor.numpy())
    if not torch.cuda.is_available():
        raise Absent("torch finds no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    return Peer(
        key,
        label,
        prepare,
        lambda array: torch.from_numpy(array).cuda(),
        lambda tensor: tensor.cpu().numpy(),
        torch.cuda.synchronize,
    )


def peer(machine: str) -> Peer:
    return on_device("torch", "PyTorch", prepare, machine)


def _faster(*calls: Call) -> Call:
    """Return the fastest of some ways to compute the same; those that fail take no part."""
    seconds = {}
    for call in calls:
        try:
            call()
            _finish()
            start = time.perf_counter()
            call()
            _finish()
            seconds[time.perf_counter() - start] = call
        except RuntimeError:  # cuDNN may have no way, or memory run out.
            continue
    return seconds[min(seconds)]


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
