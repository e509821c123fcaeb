"""What belongs to the process that made it, and is refused by pickle."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

_T = TypeVar("_T")


class Here:
    """Belongs to the process that made it: a pickle could not be loaded in another one.

    ``copy.copy`` makes another object over the same parts; ``copy.deepcopy`` raises, too.
    """

    __slots__ = ()
    _refused = "pickled or deeply copied"
    _elsewhere = "Make it in the process that uses it."

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        problem = f"belongs to the process that made it, and cannot be {self._refused}"
        raise TypeError(f"{type(self).__name__}: it {problem}. {self._elsewhere}")

    def __copy__(self: _T) -> _T:
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        return made


class Constant(Here):
    """Is its own deep copy, like a function, and is made from parameters that can be pickled."""

    __slots__ = ()
    _refused = "pickled"
    _elsewhere = "Hand over the template's name and kernel.params, and build it there."

    def __deepcopy__(self: _T, memo: dict[int, Any]) -> _T:
        return self


class Opened(Here):
    """Is part of a bundle that was loaded."""

    __slots__ = ()
    _elsewhere = "Load the bundle in the process that uses it."
