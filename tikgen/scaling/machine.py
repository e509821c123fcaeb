"""How fast kernels are on a node: seconds of a launch by the bytes that its cost model names."""

from __future__ import annotations

import dataclasses
import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from typing import Any

from tikgen import disk, untrusted
from tikgen.disk import path_of, why
from tikgen.errors import GridError
from tikgen.scaling.given import real, shown, whole
from tikgen.scaling.network import Network

# Bytes of a launch by its cost model, and its seconds; bytes rise.
Rates = tuple[tuple[float, float], ...]
COPY = "copy"


@dataclass(frozen=True)
class Machine:
    """A node, as :func:`measure` found it.

    Attributes:
        ranks: how many ranks worked at the same time.
        kernels: rates by the name of a kernel; ``"copy"`` is a copy of memory.
        network: messages between its ranks; None where there was one.

    Raises:
        GridError: if ``ranks`` is no whole number of 1 or more, ``network`` something else, or
            rates are no pairs of finite numbers above 0, of which the bytes rise; those of a copy
            must be there.
    """

    ranks: int
    kernels: Mapping[str, Rates]
    network: Network | None = None

    def __post_init__(self) -> None:
        if (ranks := whole(self.ranks)) < 1:
            raise GridError(
                f"ranks of a machine takes a whole number of 1 or more; got {shown(self.ranks)}"
            )
        if not isinstance(self.network, Network | None):
            raise GridError(
                "network of a machine takes a tikgen.scaling.Network or None; got "
                f"{shown(self.network)}"
            )
        if not isinstance(self.kernels, Mapping) or COPY not in self.kernels:
            raise GridError(
                f"kernels of a machine takes rates by the name of a kernel, and those of {COPY!r}; "
                f"got {shown(self.kernels)}"
            )
        rates = {str(name): _rates(str(name), given) for name, given in self.kernels.items()}
        object.__setattr__(self, "ranks", ranks)
        object.__setattr__(self, "kernels", rates)

    def seconds(self, kernel: str, moved: float) -> float:
        """Return how long a launch takes that moves some bytes.

        Between sizes that were measured the logarithms lie on lines. Fewer bytes take as long as
        the fewest measured, and more take longer in proportion. A kernel that was not measured
        takes as long as a copy of as many bytes.
        """
        rates = self.kernels.get(kernel) or self.kernels[COPY]
        place = bisect_right([size for size, _ in rates], moved)
        if place == 0:
            return rates[0][1]
        low, least = rates[place - 1]
        if place == len(rates):
            return least * moved / low
        high, most = rates[place]
        share = log(moved / low) / log(high / low)
        return exp((1 - share) * log(least) + share * log(most))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it into a file of JSON.

        Raises:
            GridError: if the file cannot be written.
        """
        file = _file(path, "save")
        try:
            with disk.whole(file) as new:
                new.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        except OSError as error:
            raise GridError(f"{str(file)!r} cannot be written: {why(error)}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Machine:
        """Return what :meth:`save` wrote.

        Raises:
            GridError: if the file cannot be read, or holds something else.
        """
        file = _file(path, "load")
        try:
            found = untrusted.from_json(file.read_bytes())
            network = found["network"] and Network(**found["network"])
            return cls(found["ranks"], found["kernels"], network)
        except OSError as error:
            raise GridError(f"{str(file)!r} cannot be read: {why(error)}") from None
        except (KeyError, TypeError, ValueError, AttributeError, GridError) as error:
            raise GridError(f"{str(file)!r} holds no machine: {error}") from None


def _file(path: object, what: str) -> Path:
    return path_of(path, lambda problem: GridError(f"{what} {problem}"))


def _rates(name: str, given: Any) -> Rates:
    """Return the rates of a kernel; raise GridError if they are something else."""
    try:
        found = tuple((real(size), real(seconds)) for size, seconds in given)
    except (TypeError, ValueError):
        found = ()
    sizes = [size for size, _ in found]
    are_numbers = all(0 < number < inf for pair in found for number in pair)
    if not found or not are_numbers or sizes != sorted(set(sizes)):
        raise GridError(
            f"rates of {name!r} takes pairs of bytes, which rise, and seconds, finite numbers "
            f"greater than 0; got {shown(given)}"
        )
    return found
