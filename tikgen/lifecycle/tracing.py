"""Records what happens to kernels while a block of code runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tikgen.lifecycle.trace import Trace
from tikgen.pipeline import events


@contextlib.contextmanager
def trace(*, all_kernels: bool = False) -> Iterator[Trace]:
    """Record each stage and each launch of the kernels that are touched inside the ``with`` block.

    Actors of :mod:`tikgen.ring` stand beside the kernels that they launch: their batches, and what
    becomes of them.

    The trace can be looked at inside the block and after it, also where the block raised. It sees
    every thread of this process. Traces may stand inside each other; each sees all there is.

    Args:
        all_kernels: also kernels that did not come from tikgen: those of your own files, and
            those that Taichi makes, for instance in ``to_numpy``.
    """
    with events.recording(all_kernels=all_kernels) as recording:
        yield Trace(recording)
