"""The arrays of a program, each under a number and a name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tikgen.dtypes import DType
from tikgen.errors import ProgramError, near
from tikgen.expression.tree import CONSTANTS
from tikgen.program.team import Held, array_in
from tikgen.taichi import arrays
from tikgen.template.views import (
    is_contiguous,
    problem_of,
    share_elements,
    span_of,
    strides_of,
)


class Slots:
    """The arrays of a program in order of their first use.

    Args:
        named: arrays and numbers by the names that the user gives them.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.arrays: list[Any] = []
        self.constants: dict[str, int | float] = {}
        self.names: dict[str, int] = {}
        # What holds an array, by number.
        self.held: dict[int, Held] = {}
        self._by_identity: dict[Any, int] = {}
        self._used_as: list[str] = []
        # Numbers of arrays that parts take, which those that a user names need not be.
        self._taken: set[int] = set()
        self._ambiguous: dict[str, list[str]] = {}
        # Names of arrays whose argument has the name of a constant.
        self._beside_constant: dict[str, list[str]] = {}
        for name, value in named.items():
            if not name.isidentifier():
                raise ProgramError(f"{name!r} is no name: use letters, digits and underscores")
            if name in CONSTANTS:
                known = f"{CONSTANTS[name]:.6g}"
                raise ProgramError(
                    f"{name!r} is {known} in every text; choose another name, such as {name}_1"
                )
            if isinstance(value, int | float | np.integer | np.floating):
                self.constants[name] = value.item() if isinstance(value, np.generic) else value
            elif not is_array(array_in(value)):
                kind = type(value).__name__
                raise ProgramError(f"name {name!r} takes an array or a number; got {kind}")
            elif (number := self.add(value, name)) in self.names.values():
                other = next(known for known, at in self.names.items() if at == number)
                raise ProgramError(f"{other!r} and {name!r} name one array")
            else:
                self.names[name] = number
        self._taken.clear()

    def add(self, array: Any, used_as: str) -> int:
        """Return the number of an array, a new one at its first use.

        Args:
            array: the array, or what holds it.
            used_as: name of the argument for which it is passed.
        """
        held, array = array, array_in(array)
        identity = _identity(array)
        if identity not in self._by_identity:
            self._by_identity[identity] = len(self.arrays)
            self.arrays.append(array)
            self._used_as.append(used_as)
        number = self._by_identity[identity]
        self._taken.add(number)
        if held is not array:
            self.held[number] = held
        return number

    def number_of(self, array: Any, where: str) -> int:
        """Return the number of an array that a kernel takes; raise ProgramError if none does."""
        array = array_in(array)
        if not is_array(array):
            raise ProgramError(f"{where} takes arrays; got {type(array).__name__}")
        found = self._by_identity.get(_identity(array))
        if found is None:
            raise ProgramError(
                f"{where} was given an array that no kernel of the program takes: "
                f"{described(array)}; pass the very array that was bound{self._kin(array)}"
            )
        return found

    def check_taken(self) -> None:
        """Raise ProgramError if the name of an argument is given to an array that no part takes."""
        for name, number in self.names.items():
            is_argument = self._used_as.count(name) > 1  # Once for the array that has the name.
            if is_argument and number not in self._taken and not self._is_seen(number):
                held, array = self.held.get(number), self.arrays[number]
                what = f"a field of shape {held.whole_shape}" if held else described(array)
                raise ProgramError(
                    f"{name!r} names an array that no part of the program takes, {what}, and a "
                    f"kernel takes another one as {name!r}; pass the very array that was bound, no "
                    f"copy: Program([...], {name}=array), or choose another name"
                )

    def _is_seen(self, number: int) -> bool:
        """Return whether an array is a view of one that a part takes."""
        return any(self.share(number, other) for other in self._taken)

    def _kin(self, array: Any) -> str:
        """Return which array of the program shares memory with another one, for a message."""
        for number, own in enumerate(self.arrays):
            both = isinstance(own, np.ndarray) and isinstance(array, np.ndarray)
            if both and np.may_share_memory(own, array):
                name = self._used_as[number]
                return f"; {name!r} shares memory with it, but is another: {described(own)}"
        return ""

    def give_names(self) -> None:
        """Name every array: as the user did, or as the first argument for which it is passed."""
        named = set(self.names.values())
        by_argument: dict[str, list[int]] = {}
        for number, used_as in enumerate(self._used_as):
            if number not in named and used_as:
                by_argument.setdefault(used_as, []).append(number)
        for argument, numbers in by_argument.items():
            taken = any(argument in names for names in (self.names, self.constants, CONSTANTS))
            if len(numbers) == 1 and not taken:
                self.names[argument] = numbers[0]
                continue
            known = {*self.names, *self.constants, *by_argument}
            free = (n for c in itertools.count(1) if (n := f"{argument}_{c}") not in known)
            names = dict(zip(free, numbers, strict=False))
            if argument in CONSTANTS:
                self._beside_constant[argument] = list(names)
            if not taken:
                self._ambiguous[argument] = list(names)
            self.names |= names

    def check_constant(self, name: str) -> None:
        """Raise ProgramError if a constant that a text reads may stand for an array."""
        if several := self._beside_constant.get(name):
            one = "energy" if name == "e" else f"{name}_of_mine"
            raise ProgramError(
                f"{name!r} is {CONSTANTS[name]:.6g} in every text, and a kernel takes an array as "
                f"{name!r}, which is {' or '.join(several)} here; give it a name of its own: "
                f"Program([...], {one}=array)"
            )

    def name_of(self, number: int) -> str:
        """Return the name of an array."""
        return next((name for name, at in self.names.items() if at == number), "")

    def lookup(self, name: str) -> int:
        """Return the number of the array of a name; raise ProgramError if there is none."""
        if not isinstance(name, str):
            raise ProgramError(
                f"program[name] takes a name; got {type(name).__name__}. For an array write "
                "program.current(array)"
            )
        if name in self.names:
            return self.names[name]
        self.check_constant(name)
        if several := self._ambiguous.get(name):
            raise ProgramError(
                f"{name!r} may be {' or '.join(several)}; "
                f"give the array a name of its own: Program([...], {name}=array)"
            )
        if name in self.constants:
            value = self.constants[name]
            raise ProgramError(f"{name!r} is the number {value}, which never changes")
        known = [*self.names, *self.constants]
        listed = f" Known: {', '.join(known)}." if known else ""
        raise ProgramError(
            f"the name {name!r} is unknown.{near(name, known)}{listed} Name an array with "
            f"Program([...], {name}=array)"
        )

    def pair_of(self, one: Any, other: Any, what: str) -> tuple[int, int]:
        """Return the numbers of two arrays that kernels take, and that are alike."""
        try:
            pair = self.number_of(one, what), self.number_of(other, what)
        except ProgramError:
            known = array_in(one), array_in(other)
            if all(map(is_array, known)) and _layout(known[0]) != _layout(known[1]):
                raise _unlike(what, *map(described, known)) from None
            raise
        self.check_equal(*pair, what)
        self._taken.update(pair)
        return pair

    def check_equal(self, one: int, other: int, what: str) -> None:
        """Raise ProgramError unless two arrays have one kind, dtype, shape and layout."""
        if _layout(self.arrays[one]) != _layout(self.arrays[other]):
            raise _unlike(what, self.shown(one), self.shown(other))

    def partners(self, one: int, other: int) -> list[tuple[int, int]]:
        """Return pairs of reshaped arrays that change places when two arrays do.

        A kernel may take ``u.ravel()`` beside ``u``. Where ``u`` changes places with ``un``, it
        does so with ``un.ravel()``, which is added.
        """
        found: dict[tuple[int, int], None] = {}
        for number, array in enumerate(list(self.arrays)):
            if number in (one, other):
                continue
            for its, opposite in ((one, other), (other, one)):
                if self._is_reshaped(number, its):
                    view = self.arrays[opposite].reshape(tuple(array.shape))
                    pair = number, self.add(view, "")
                    found[pair if its == one else pair[::-1]] = None
        return list(found)

    def _is_reshaped(self, one: int, other: int) -> bool:
        """Return whether two arrays have the same elements in another shape."""
        arrays = self.arrays[one], self.arrays[other]
        ranges = [memory_of(array) for array in arrays]
        return (
            ranges[0] is not None
            and ranges[0] == ranges[1]
            and (arrays[0].dtype == arrays[1].dtype)
            and all(map(is_contiguous, arrays))
        )

    def check_apart(self, number: int) -> None:
        """Raise ProgramError if another array shares memory with one that is swapped."""
        for other in range(len(self.arrays)):
            if self.share(number, other) and not self._is_reshaped(number, other):
                raise ProgramError(
                    f"{self.shown(number)} is swapped, and {self.shown(other)} shares memory "
                    "with it; such a view would not change places with it"
                )

    def share(self, one: int, other: int) -> bool:
        """Return whether two different arrays share memory."""
        arrays = self.arrays[one], self.arrays[other]
        first, second = map(memory_of, arrays)
        if one == other or first is None or second is None:
            return False
        overlap = first[0] < second[1] and second[0] < first[1]
        return overlap and share_elements(*arrays)

    def are_apart(self) -> bool:
        """Return whether no two arrays share memory."""
        ranges = sorted(found for array in self.arrays if (found := memory_of(array)))
        return all(one[1] <= other[0] for one, other in itertools.pairwise(ranges))

    def shown(self, number: int) -> str:
        """Return name, kind, dtype and shape of an array, for a message."""
        return f"{self.name_of(number)} ({described(self.arrays[number])})"

    def check_unchanged(self) -> None:
        """Raise ProgramError if an array was freed, moved or resized since it was added."""
        for number, (array, was) in enumerate(zip(self.arrays, self._by_identity, strict=True)):
            if _identity(array) != was:
                name = self.name_of(number)
                raise ProgramError(
                    f"array {name!r} was freed, moved or resized since the program was made, and "
                    f"is {described(array)} now; make the program again"
                )


def _unlike(what: str, one: str, other: str) -> ProgramError:
    return ProgramError(
        f"{what} takes arrays of one kind, dtype, shape and layout; got {one} and {other}"
    )


def is_array(value: Any) -> bool:
    """Return whether a value is a NumPy array, a Taichi array, a field or a tensor."""
    return isinstance(value, (np.ndarray, *arrays.TaichiArray)) or hasattr(value, "data_ptr")


def dtype_of(array: Any) -> DType:
    """Return the dtype of an array."""
    return DType.parse(str(array.dtype).removeprefix("torch."))


def described(array: Any) -> str:
    """Return kind, dtype and shape of an array in words."""
    kind, dtype, shape, strides = _layout(array)
    apart = "" if is_contiguous(array) else f" and strides {strides}"
    return f"{kind} {dtype} of shape {shape}{apart}"


def _layout(array: Any) -> tuple[str, Any, tuple[int, ...], Any]:
    if isinstance(array, np.ndarray):
        return "ndarray", array.dtype, array.shape, _steps(array.shape, array.strides)
    kind = type(array).__name__
    if hasattr(array, "data_ptr"):
        return (
            f"{array.device} {kind}",
            array.dtype,
            tuple(array.shape),
            _steps(array.shape, array.stride()),
        )
    return kind, array.dtype, tuple(array.shape), None


def _steps(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return strides, 0 on axes of one element: nothing ever takes a step there."""
    return tuple(step if n > 1 else 0 for step, n in zip(strides, shape, strict=True))


def _identity(array: Any) -> Any:
    """Return what two references to the same elements have in common."""
    if isinstance(array, arrays.TaichiArray):
        return "taichi", id(array), tuple(array.shape)
    return (*memory_of(array), *_layout(array)[1:])  # type: ignore[misc]


def memory_of(array: Any) -> tuple[int, int] | None:
    """Return where the memory of an array or a tensor starts and stops, None for Taichi's."""
    if isinstance(array, arrays.TaichiArray):
        return None
    address, size = arrays.address_of(array)
    if not is_contiguous(array):
        if strides_of(array, may_overlap=True) is None:
            raise ProgramError(
                f"a program cannot take {described(array)}: {problem_of(array, may_overlap=True)}; "
                "pass a contiguous copy"
            )
        size = size // math.prod(array.shape) * span_of(array)
    return address, address + size
