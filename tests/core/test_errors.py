"""Exceptions survive the way out of a worker process: pickles and copies of them are equal."""

import copy
import copyreg
import inspect
import pickle
import sys
import threading
import typing
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tikgen import errors
from tikgen.ring import errors as ring_errors
from tikgen.template.parameters import Invalid


def _below(cls: type[BaseException]) -> list[type[BaseException]]:
    return [cls, *(below for sub in cls.__subclasses__() for below in _below(sub))]


# All of them exist once the module of each room is imported; that of buffers is imported there.
assert issubclass(ring_errors.RingError, errors.TikgenError)
EVERY = [
    c for c in dict.fromkeys(_below(errors.TikgenError)) if c.__module__.startswith("tikgen.")
] + [errors.Terminated, errors.StoreWarning, Invalid]

_GIVEN = {
    str: "word",
    int: 3,
    float: 0.5,
    bool: True,
    type: int,
    object: "thing",
    Exception: ValueError("cause"),
    Mapping[str, str]: {"a": "is wrong", "b": "too"},
    Mapping[str, Any]: {"a": ValueError("cause")},
    Mapping[str, Any] | None: {"dim": 2},
    Exception | str: ValueError("cause"),
    Iterable[str]: ("one", "other"),
    tuple[str, ...]: ("one", "other"),
}


def _made(cls: type[BaseException]) -> BaseException:
    own = cls.__init__
    if not inspect.isfunction(own):
        return cls("what", "why")
    hints = typing.get_type_hints(own, vars(sys.modules[own.__module__]))
    args, kwargs = [], {}
    for name, parameter in list(inspect.signature(own).parameters.items())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[name] = _GIVEN[hints[name]]
        else:
            args.append(_GIVEN[hints[name]])
    return cls(*args, **kwargs)


@pytest.fixture(autouse=True)
def _as_python_pickles(monkeypatch):
    """Leave out what Dask adds where it was imported: causes and tracebacks of exceptions."""
    for cls in [*copyreg.dispatch_table]:
        if isinstance(cls, type) and issubclass(cls, BaseException):
            monkeypatch.delitem(copyreg.dispatch_table, cls)


def _shown(error: BaseException) -> Any:
    return type(error), str(error), repr(error.args), {k: repr(v) for k, v in vars(error).items()}


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_pickles_and_copies_of_an_exception_are_equal(cls):
    error = _made(cls)
    error.later = ["set after it was raised"]
    if sys.version_info >= (3, 11):
        error.add_note("a note")
    error.__cause__ = KeyError("as Python does, it stays behind")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        loaded = pickle.loads(pickle.dumps(error, protocol))
        assert _shown(loaded) == _shown(error)
        assert loaded.__cause__ is None
    for copied in (copy.copy(error), copy.deepcopy(error)):
        assert _shown(copied) == _shown(error)
    assert copy.copy(error).later is error.later
    again = pickle.loads(pickle.dumps(loaded))
    assert _shown(again) == _shown(error)


class _OfTwo(Exception):
    def __init__(self, one, other):
        super().__init__(one + other)


def test_attributes_that_no_other_process_can_load_are_their_repr():
    lock = threading.Lock()
    error = errors.ArgumentError("saxpy", "is wrong")
    error.lock, error.cause, error.size = lock, _OfTwo("a", "b"), 3
    loaded = pickle.loads(pickle.dumps(error))
    assert vars(loaded) == {"lock": repr(lock), "cause": repr(_OfTwo("a", "b")), "size": 3}
    assert str(loaded) == "saxpy: is wrong"
    assert copy.copy(error).lock is lock  # A copy stays in the process.
    assert pickle.loads(pickle.dumps(errors.ProgramError(lock))).args == (repr(lock),)


def test_an_exit_by_a_signal_keeps_its_status():
    assert pickle.loads(pickle.dumps(errors.Terminated("out.npz", 7))).code == 75
