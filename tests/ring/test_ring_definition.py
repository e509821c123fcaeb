"""Definitions of actors: what they take, and what they refuse before anything is launched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ring_samples import echo
from tikgen.ring import Definition, RingKernelConfig, ring_kernel
from tikgen.ring.actors.engine import _takes
from tikgen.ring.batch.engine import _body
from tikgen.ring.definition import definition_of, merged
from tikgen.ring.errors import InvalidConfigurationError, KernelNotFoundError

CONFIG = RingKernelConfig("a")
MAP = {"body": "map"}
PARAMS = {"body": print, "params": {"expr": "y = x"}}
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "supervision": (lambda: RingKernelConfig("a", supervision=3), "policy's name, or a Super"),  # type: ignore[arg-type]
    "no function": (lambda: Definition(CONFIG, None), "engine='host' takes a function"),
    "no body": (
        lambda: definition_of("nobody", None, None, {"engine": "batch"}),
        "engine='batch' needs it, or a registered actor",
    ),
    "what takes no attribute": (lambda: ring_kernel(len, auto_register=False), "takes a function"),
    "no name": (lambda: ring_kernel(engine="batch", body="map"), "takes a name"),
    "a function and a body": (
        lambda: _body(Definition(RingKernelConfig("a", engine="batch", options=MAP), echo)),
        "there is a function already",
    ),
    "params of a function": (
        lambda: _body(Definition(RingKernelConfig("a", engine="batch", options=PARAMS))),
        "is for a body that names a template",
    ),
    "no config": (lambda: definition_of("a", echo, 3, {}), "takes a RingKernelConfig"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_definition_is_refused(what: str) -> None:
    make, problem = WRONG[what]
    with pytest.raises(InvalidConfigurationError, match=problem):
        make()


def test_a_definition_is_found_wherever_it_is() -> None:
    made = Definition(CONFIG, echo)
    assert definition_of("b", made, None, {}) is made

    @ring_kernel
    async def bare(ctx: Any, message: Any) -> None: ...

    assert bare.ring_kernel.config.kernel_id == "bare"
    assert definition_of("b", bare, None, {}) is bare.ring_kernel
    assert definition_of("bare", None, None, {}) is bare.ring_kernel
    with pytest.raises(KernelNotFoundError, match="bar"):
        definition_of("bar", None, None, {})


def test_settings_of_an_engine_are_dropped_with_it() -> None:
    batch = RingKernelConfig("a", engine="batch", options={"body": "map"})
    assert merged(batch, {"max_batch": 3}).options == {"body": "map", "max_batch": 3}
    assert merged(batch, {"engine": "host", "queue_size": 7}).options == {}


@pytest.mark.parametrize("wrong", [0, 2.5, "9", True], ids=repr)
def test_a_wrong_queue_size_is_refused_by_the_name_that_was_given(wrong: Any) -> None:
    for name in ("queue_size", "input_queue_size", "output_queue_size"):
        with pytest.raises(InvalidConfigurationError, match=rf"^{name}=.*a whole number from 1"):
            merged(RingKernelConfig("a"), {name: wrong})


def test_bodies_take_a_context_and_perhaps_a_message() -> None:
    class Unsigned:
        __signature__ = "none"

        def __call__(self, ctx: Any) -> None: ...

    bodies = (echo, lambda ctx: None, lambda *args: None, Unsigned())
    assert [_takes("a", body) for body in bodies] == [2, 1, 1, 1]
    with pytest.raises(InvalidConfigurationError):
        _takes("a", lambda: None)
