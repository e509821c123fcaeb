"""What a program is a list of, as users write it."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tikgen.callables import function_name, takes_arguments
from tikgen.errors import ProgramError
from tikgen.pipeline.bound import BoundKernel
from tikgen.program.scalars import check_condition
from tikgen.program.slots import is_array
from tikgen.program.team import Held, Team, Work
from tikgen.template.arguments import Scalar

# A function of the number of the step, or a value for each step.
Changing = Callable[[int], Any] | Sequence[Any]


@dataclass(frozen=True, eq=False)
class Swap:
    """Pairs of arrays that change places."""

    pairs: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True, eq=False)
class Copy:
    """A copy of the elements of one array into another."""

    source: Any
    target: Any


@dataclass(frozen=True, eq=False)
class Loop:
    """Parts that run several times."""

    times: int
    parts: tuple[Part, ...]
    until: str | None


@dataclass(frozen=True, eq=False)
class When:
    """Parts that run if a condition holds, and others that run if not."""

    condition: str
    parts: tuple[Part, ...]
    otherwise: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Varying:
    """A bound kernel with scalars that change with the step."""

    bound: BoundKernel
    scalars: Mapping[str, Changing]


class Composite(ABC):
    """A part that stands for others, which are asked for when a program is made."""

    @property
    @abstractmethod
    def arguments(self) -> Mapping[str, Any]:
        """Return what its kernel takes, by name: arrays, what holds them, and numbers."""

    @property
    @abstractmethod
    def changing(self) -> Mapping[str, Changing]:
        """Return the scalars that change with the step."""

    @property
    @abstractmethod
    def described(self) -> str:
        """Return in words what it is on all processes."""

    def renew(self) -> None:  # noqa: B027
        """Take the values of arrays that it copied, as they are before a run."""

    @property
    def scratch(self) -> tuple[Any, ...]:
        """Return arrays of its parts that have no name, and are no part of the state."""
        return ()

    @property
    @abstractmethod
    def team(self) -> Team | None:
        """Return the processes that do it together; None for this one alone."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """Return the parts, the same ones each time."""

    @abstractmethod
    def varying(self, scalars: Mapping[str, Changing]) -> Composite:
        """Return it with scalars that change with the step."""

    def several_steps(self, listed: Sequence[Part]) -> Several | None:
        """Return parts that do several steps of a program with this part; None if none do.

        Args:
            listed: the parts of a step.
        """
        return None


@dataclass(frozen=True)
class Several:
    """Parts that do several steps together, with less than these take one by one.

    Attributes:
        steps: how many.
        parts: the parts.
        why: what they have in common, in words.
        needs_blocks: whether they take less time only by temporal blocking.
    """

    steps: int
    parts: tuple[Part, ...]
    why: str
    needs_blocks: bool = False


Part = BoundKernel | Swap | Copy | Loop | When | Varying | Work | Composite | str


def swap(*pairs: tuple[Any, Any]) -> Swap:
    """Return the part of a program that lets arrays change places, without a copy.

    From there on each array of a pair stands wherever the program names the other one.

    Args:
        pairs: pairs of arrays of equal shape, dtype and layout.

    Raises:
        ProgramError: if something is no pair of two arrays.
    """
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ProgramError(f"swap takes pairs such as (u, u_next); got {_kind(pair)}")
        _check_arrays("swap", *pair)
        if pair[0] is pair[1]:
            raise ProgramError("swap was given one array twice in a pair")
    if not pairs:
        raise ProgramError("swap takes at least one pair such as (u, u_next)")
    return Swap(tuple((one, other) for one, other in pairs))


def copy(source: Any, target: Any) -> Copy:
    """Return the part of a program that copies every element of ``source`` into ``target``.

    Args:
        source: an array.
        target: an array of the same shape and dtype.

    Raises:
        ProgramError: if one of them is no array, or both are one array.
    """
    _check_arrays("copy", source, target)
    if source is target:
        raise ProgramError("copy was given one array as source and target")
    return Copy(source, target)


def loop(times: int, parts: Iterable[Part], *, until: str | None = None) -> Loop:
    """Return the part of a program that runs ``parts`` several times within each step.

    Args:
        times: how many times; 0 leaves the parts out.
        parts: what a program takes.
        until: a condition on one-element arrays, such as ``"rr < 1e-8"``, checked after each time;
            the loop ends where it holds, and after ``times`` in any case.

    Raises:
        ProgramError: if ``times`` is no whole number from 0 on, ``parts`` holds something else, or
            ``until`` is no condition.
    """
    if isinstance(times, bool) or not isinstance(times, numbers.Integral) or times < 0:
        raise ProgramError(f"loop takes a whole number of times, 0 or more; got {times!r}")
    if until is not None:
        check_condition(until)
    return Loop(int(times), parts_of(parts), until)


def when(condition: str, parts: Iterable[Part], *, otherwise: Iterable[Part] = ()) -> When:
    """Return the part of a program that runs ``parts`` where a condition holds.

    Args:
        condition: a condition on one-element arrays, such as ``"rr > tol"``.
        parts: what a program takes.
        otherwise: what runs where the condition does not hold.

    Raises:
        ProgramError: if ``condition`` is none, or ``parts`` or ``otherwise`` holds something else.
    """
    check_condition(condition)
    return When(condition, parts_of(parts), parts_of(otherwise))


def varying(bound: BoundKernel | Composite, **scalars: Changing) -> Varying | Composite:
    """Return the part of a program that launches a kernel with scalars that change with the step.

    Args:
        bound: the bound kernel.
        scalars: for each scalar a function of the number of the step, counted from 0, or a
            sequence with a value for each step. A function must depend on that number alone: it may
            be called for steps ahead.

    Raises:
        ProgramError: if ``bound`` is no bound kernel or has no such scalar.
    """
    if isinstance(bound, Composite):
        return bound.varying(scalars)
    if not isinstance(bound, BoundKernel):
        raise ProgramError(f"varying takes a bound kernel, kernel.bind(...); got {_kind(bound)}")
    known = [a.name for a in bound.signature.arguments if isinstance(a, Scalar)]
    for name, value in scalars.items():
        if name not in known:
            takes = ", ".join(known) or "no scalar"
            raise ProgramError(f"{bound.kernel.name} has no scalar {name!r}; it takes {takes}")
        if not callable(value) and not is_table(value):
            what = "takes a function of the step or a value for each step"
            raise ProgramError(f"scalar {name!r} {what}; got {_kind(value)}")
        if callable(value) and not takes_arguments(value, 1):
            raise ProgramError(
                f"scalar {name!r} takes a function of the number of the step, such as "
                f"lambda step: 0.1*step; {function_name(value)}() does not take one argument"
            )
        if not callable(value) and not len(value):
            raise ProgramError(f"scalar {name!r} takes a value for each step; got no values")
    if not scalars:
        raise ProgramError("varying takes scalars by name, such as dt=lambda step: 0.1/(step + 1)")
    return Varying(bound, scalars)


def is_table(value: Any) -> bool:
    """Return whether something has a value for each step."""
    has_places = hasattr(value, "__len__") and hasattr(value, "__getitem__")
    return has_places and not isinstance(value, str | Mapping) and getattr(value, "shape", 1) != ()


def kept(parts: Any) -> Any:
    """Return what a program is given; an iterator as a tuple, which can be read again."""
    return tuple(parts) if isinstance(parts, Iterable) and not isinstance(parts, Part) else parts


def parts_of(parts: Iterable[Any]) -> tuple[Part, ...]:
    """Return the parts as a tuple; raise ProgramError if one is something else."""
    if isinstance(parts, Part) or not isinstance(parts, Iterable):
        raise ProgramError(f"a program takes a list of parts; got {_kind(parts)}")
    found = tuple(parts)
    for part in found:
        if not isinstance(part, Part):
            hint = "; bind it: kernel.bind(...)" if hasattr(part, "bind") else ""
            raise ProgramError(
                "a program takes bound kernels, assignments as text, swap, copy, loop, when and "
                f"varying; got {_kind(part)}{hint}"
            )
    return tuple(part for part in found if not isinstance(part, Loop) or part.times)


def _check_arrays(what: str, *values: Any) -> None:
    for value in values:
        if not isinstance(value, Held) and not is_array(value):
            raise ProgramError(f"{what} takes arrays; got {_kind(value)}")


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
