"""PyTorch through torch.compile, for what Inductor can fuse into a kernel of its own."""

from __future__ import annotations

import torch

from peers.peer import Call, Peer, form_of
from peers.torch_calls import on_device, terms2d, terms3d, weighted_sum
from works.work import Arguments, Work


def copy(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    run = torch.compile(lambda x, y: y.copy_(x), fullgraph=True)
    return lambda: run(x, y)


def axpy(a: Arguments) -> Call:
    factor, x, y, z = a["a"], a["x"], a["y"], a["z"]
    run = torch.compile(lambda x, y, z: z.copy_(factor * x + y), fullgraph=True)
    return lambda: run(x, y, z)


def stencil3d(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    run = torch.compile(
        lambda x, y: y[1:-1, 1:-1, 1:-1].copy_(weighted_sum(terms3d(x))), fullgraph=True
    )
    return lambda: run(x, y)


def stencil2d(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    run = torch.compile(lambda x, y: y[2:-2, 2:-2].copy_(weighted_sum(terms2d(x))), fullgraph=True)
    return lambda: run(x, y)


def total(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    run = torch.compile(lambda x, out: out.copy_(x.sum(0, keepdim=True)), fullgraph=True)
    return lambda: run(x, out)


def dot(a: Arguments) -> Call:
    x, y, out = a["x"], a["y"], a["out"]
    run = torch.compile(lambda x, y, out: out.copy_((x * y).sum(0, keepdim=True)), fullgraph=True)
    return lambda: run(x, y, out)


def scan(a: Arguments) -> Call:
    x, out = a["x"], a["out"]
    run = torch.compile(lambda x, out: out.copy_(x.cumsum(0)), fullgraph=True)
    return lambda: run(x, out)


def transpose(a: Arguments) -> Call:
    x, y = a["x"], a["y"]
    run = torch.compile(lambda x, y: y.copy_(x.t()), fullgraph=True)
    return lambda: run(x, y)


FORMS = {
    "copy": copy,
    "axpy": axpy,
    "stencil3d": stencil3d,
    "stencil2d": stencil2d,
    "sum": total,
    "dot": dot,
    "scan": scan,
    "transpose": transpose,
}


def prepare(work: Work, arguments: Arguments) -> Call:
    return form_of(FORMS, work)(arguments)


def peer(machine: str) -> Peer:
    return on_device("torch_compile", "torch.compile", prepare, machine)
