"""What a program knows of processes that run it together, and of arrays that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

NDArray = npt.NDArray[Any]
# What processes agree about before they go on.
CONDITION = "a condition of the program"


class Team(Protocol):
    """Processes that do the same steps of a program, each with a part of the arrays."""

    @property
    def rank(self) -> int:
        """Return the number of this process, from 0."""

    @property
    def size(self) -> int:
        """Return how many processes there are."""

    def all(self, value: Any) -> list[Any]:
        """Return the values that the processes have, in their order."""

    def agreed(self, what: str, value: bool) -> bool:
        """Return a value that all processes have; raise GridError on all of them if they differ."""

    def check(self, problem: str) -> None:
        """Raise ProgramError on all processes if one of them has a problem, which is not empty."""

    def compare(self, what: str, text: str, problem: str = "", awaited: str = "") -> None:
        """Raise ProgramError on all processes if one has a problem, or another text.

        Args:
            what: what the processes do if they have different texts.
            text: what all have to have in common, in lines.
            problem: what is wrong on this process, or nothing.
            awaited: a call that all make; a process that waits for long says so.
        """

    def greatest(self, values: Sequence[float]) -> list[float]:
        """Return the greatest of each of some numbers among all processes."""

    def shared(self, value: Any) -> Any:
        """Return the value that the process of rank 0 has."""

    def ending_together(self) -> AbstractContextManager[None]:
        """Return a context in which an error ends all processes."""


class Held(ABC):
    """Something that holds the array that kernels take, and is named in its place.

    With a team, it is a part of a whole array.
    """

    # What a kernel says that is called with it in place of an array.
    hint_for_kernels = "; pass fields of a grid to grid.bind(kernel, ...), which returns a step"

    @property
    @abstractmethod
    def team(self) -> Team | None:
        """Return the processes that have such parts; None for this one alone."""

    @property
    @abstractmethod
    def array(self) -> Any:
        """Return the array that kernels take."""

    @property
    @abstractmethod
    def whole_shape(self) -> tuple[int, ...]:
        """Return the shape of the whole array."""

    @abstractmethod
    def whole(self, array: NDArray) -> NDArray:
        """Return the whole array of which processes have such parts, on all of them."""

    @abstractmethod
    def gathered(self) -> NDArray | None:
        """Return the whole array in the process of rank 0, None in others."""

    @property
    @abstractmethod
    def divided(self) -> tuple[int, ...]:
        """Return among how many processes each axis of the whole array is divided."""

    @abstractmethod
    def shared_out(self, extents: Sequence[int]) -> tuple[list[tuple[int, int]], NDArray]:
        """Return a part of the whole array: where it lies, and its elements; all must call it.

        Args:
            extents: the extents of the parts, of which there are at most as many along each axis as
                processes. Those at its end may have less, or nothing.
        """

    @property
    @abstractmethod
    def box(self) -> list[tuple[int, int]]:
        """Return where in the whole array the elements lie that this process has."""

    @abstractmethod
    def from_numpy(self, values: Any) -> None:
        """Write the elements that this process has."""

    @abstractmethod
    def scatter(self, whole: NDArray | None) -> None:
        """Take this process's part of a whole array, which the process of rank 0 gives."""


@dataclass(frozen=True, eq=False)
class Job:
    """Work for certain arrays.

    Attributes:
        run: does it.
        native: functions that do the same, ``void function(void *context)``, with their contexts;
            None if Python must.
        kept: what has to live as long as the job.
        is_recordable: whether all it does is to launch something in the current stream of a GPU,
            so that a CUDA graph can hold it.
        why: why Python must, if it must.
    """

    run: Callable[[], None]
    native: tuple[tuple[int, int], ...] | None = None
    kept: Any = None
    is_recordable: bool = False
    why: str = "processes exchange messages that native code cannot"


class Work(ABC):
    """A part of a program that is done between launches, on all processes of a team.

    Attributes:
        arrays: the arrays that it reads or writes.
    """

    arrays: tuple[Any, ...]

    @abstractmethod
    def made_for(self, arrays: Sequence[Any]) -> Job:
        """Return the job for arrays that stand for its own after swaps; all processes make it."""

    @abstractmethod
    def described(self, names: Sequence[str]) -> str:
        """Return it in words, with the names of its arrays."""


def array_in(value: Any) -> Any:
    """Return the array that a value holds for kernels, or the value."""
    return value.array if isinstance(value, Held) else value
