"""What a peer is: a way to compute the works, with its own place for arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from works.work import Arguments, Work

Call = Callable[[], object]


class Absent(Exception):
    """Why a peer cannot be measured."""


def _same(array: Any) -> Any:
    return array


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Peer:
    """One competitor.

    Attributes:
        key: short name, the same in every run.
        label: what the page calls it.
        prepare: returns a call that computes a work on arguments placed for the peer. What it
            computes lies in the outputs among the arguments, which it may replace. Raises
            `Absent` where the peer has no form for the work.
        place: moves a host array to where the peer wants it.
        fetch: returns the host array with what a placed one holds.
        finish: waits until the device has done what it was given.
    """

    key: str
    label: str
    prepare: Callable[[Work, Arguments], Call]
    place: Callable[[np.ndarray], Any] = _same
    fetch: Callable[[Any], np.ndarray] = _same
    finish: Callable[[], object] = _nothing


def form_of(forms: dict[str, Callable[[Arguments], Call]], work: Work) -> Callable:
    """Return the form for a work; raise `Absent` where there is none."""
    if work.kind not in forms:
        raise Absent(f"has no form of {work.title}")
    return forms[work.kind]
