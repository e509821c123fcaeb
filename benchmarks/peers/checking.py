"""Compares what peers compute with the reference, before they are timed."""

from __future__ import annotations

import numpy as np

from peers.peer import Call, Peer
from works.work import Arguments, Work


class Wrong(Exception):
    """How the result of a peer differs from the reference."""


def checked_call(
    peer: Peer, work: Work, host: Arguments, expected: dict[str, np.ndarray], is_ours: bool
) -> tuple[Call, float]:
    """Return a call of a peer whose result is right, and the error relative to the greatest.

    Raises:
        Wrong: if it is not.
    """
    work.poison(host)
    placed = {k: peer.place(v) if isinstance(v, np.ndarray) else v for k, v in host.items()}
    call = peer.prepare(work, placed)
    call()
    peer.finish()
    rtol = work.rtol if is_ours or work.peers_rtol is None else work.peers_rtol
    greatest = 0.0
    for name, values in expected.items():
        actual = peer.fetch(placed[name])
        if not (error := work.error(actual, values)) <= rtol:
            worst = np.nanargmax(np.abs(actual - values)) if actual.shape == values.shape else 0
            raise Wrong(
                f"{name} is off by {error / rtol:.3g} times what is allowed: "
                f"{actual.flat[worst]} for {values.flat[worst]:.8g}"
            )
        greatest = max(greatest, error)
    return call, greatest
