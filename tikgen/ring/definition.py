"""Definitions of actors: body, message types, settings; and the register of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, overload

from tikgen.errors import near
from tikgen.ring.actors.queues import AGEING
from tikgen.ring.actors.supervision import Supervision
from tikgen.ring.errors import InvalidConfigurationError, KernelNotFoundError

BACKPRESSURE = ("block", "reject", "drop_oldest", "drop_newest")
# The settings of each engine beside those of all actors.
ENGINE_OPTIONS: Mapping[str, frozenset[str]] = {
    "host": frozenset(),
    "batch": frozenset({"body", "params", "constants", "max_batch", "max_delay"}),
    "persistent": frozenset(
        {"handler", "state", "capacity", "arch", "device", "watchdog", "dtype"}
    ),
}

# Settings of actors in PyDotCompute, and what replaces them.
_ELSEWHERE = dict.fromkeys(
    ("grid_size", "block_size"),
    "is no setting of an actor: the schedule of the kernel that is its body decides it, as in "
    "body=tikgen.build(..., schedule={...})",
)

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class RingKernelConfig:
    """The settings of an actor.

    Attributes:
        kernel_id: its name.
        engine: ``"host"``, ``"batch"`` or ``"persistent"``.
        input_queue_size: greatest number of queued messages.
        output_queue_size: greatest number of replies to receive; then the actor waits.
        backpressure: the policy of a full input queue: ``"block"`` has senders wait, ``"reject"``
            raises, ``"drop_oldest"`` and ``"drop_newest"`` drop and count.
        supervision: what follows when the body raises: a :class:`Supervision`, or its policy.
        ageing: seconds of waiting that raise the priority by one; None for strict priorities.
        deduplicate: how many last ids are kept, to ignore repeated messages; 0 for none.
        options: settings of its engine.
    """

    kernel_id: str
    engine: str = "host"
    input_queue_size: int = 4096
    output_queue_size: int = 4096
    backpressure: str = "block"
    supervision: Supervision = field(default_factory=Supervision)
    ageing: float | None = AGEING
    deduplicate: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kernel_id, str) or not self.kernel_id.strip():
            raise InvalidConfigurationError("kernel_id", self.kernel_id, "takes a name")
        _check_choice("engine", self.engine, tuple(ENGINE_OPTIONS))
        _check_choice("backpressure", self.backpressure, BACKPRESSURE)
        for name, least in (("input_queue_size", 1), ("output_queue_size", 1), ("deduplicate", 0)):
            _check_whole(name, getattr(self, name), least)
        if isinstance(self.supervision, str):
            object.__setattr__(self, "supervision", Supervision(self.supervision))
        if not isinstance(self.supervision, Supervision):
            raise InvalidConfigurationError(
                "supervision", self.supervision, "takes a policy's name, or a Supervision"
            )
        ageing = self.ageing
        is_number = isinstance(ageing, int | float) and not isinstance(ageing, bool)
        if ageing is not None and not (is_number and 0 < ageing < 1e6):
            raise InvalidConfigurationError("ageing", ageing, "takes seconds above 0, or None")
        known = ENGINE_OPTIONS[self.engine]
        for name, value in self.options.items():
            if name in _ELSEWHERE:
                raise InvalidConfigurationError(name, value, _ELSEWHERE[name])
            if name not in known:
                common = {*self.__dataclass_fields__, "queue_size"} - {"options"}
                takes = ", ".join(sorted(known | common)) + "." + near(name, known | common)
                problem = f"is no setting of engine={self.engine!r}, which takes {takes}"
                raise InvalidConfigurationError(name, value, problem)


def _is_generator(function: Any) -> bool:
    """Return whether calling a body makes a generator, and runs nothing."""
    called = getattr(type(function), "__call__", None)  # noqa: B004
    return any(
        inspect.isasyncgenfunction(found) or inspect.isgeneratorfunction(found)
        for found in (function, called)
    )


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        hint = near(value, choices) if isinstance(value, str) else ""
        raise InvalidConfigurationError(name, value, f"takes one of {', '.join(choices)}.{hint}")


@dataclass(frozen=True)
class Definition:
    """An actor that can be launched.

    Attributes:
        config: its settings.
        function: its body on the host; of a batch engine a function of columns, or None.
        input_type: class of its messages; None for any.
        output_type: class of its replies; None for any.
    """

    config: RingKernelConfig
    function: Callable[..., Any] | None = None
    input_type: type | None = None
    output_type: type | None = None

    def __post_init__(self) -> None:
        for name in ("input_type", "output_type"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, type):
                raise InvalidConfigurationError(name, value, "takes a class, or None for any")
        if self.function is not None and not callable(self.function):
            raise InvalidConfigurationError("kernel_func", self.function, "takes a function")
        if _is_generator(self.function):
            problem = (
                "contains `yield`, so calling it runs nothing; reply with `await ctx.send(...)`, "
                "or with `return` from a function of (ctx, message)"
            )
            raise InvalidConfigurationError("kernel_func", self.function, problem)
        engine = self.config.engine
        if engine == "host" and self.function is None:
            raise InvalidConfigurationError("kernel_func", None, "engine='host' takes a function")
        if engine == "host" and inspect.isclass(self.function):
            raise InvalidConfigurationError(
                "kernel_func", self.function, "takes a function, or an object that is callable"
            )

    def message_types(self) -> tuple[type, type]:
        """Return the classes of messages and replies, which kernels require.

        Raises:
            InvalidConfigurationError: if one is missing.
        """
        for name in ("input_type", "output_type"):
            if getattr(self, name) is None:
                raise InvalidConfigurationError(
                    name, None, f"engine={self.config.engine!r} takes the class of a message"
                )
        assert self.input_type is not None and self.output_type is not None
        return self.input_type, self.output_type

    def changed(
        self,
        config: RingKernelConfig | None = None,
        input_type: type | None = None,
        output_type: type | None = None,
        **settings: Any,
    ) -> Definition:
        """Return a copy with other settings."""
        return replace(
            self,
            config=merged(config or self.config, settings),
            input_type=input_type or self.input_type,
            output_type=output_type or self.output_type,
        )


def merged(config: RingKernelConfig, settings: Mapping[str, Any]) -> RingKernelConfig:
    """Return a config with further settings, including those of its engine."""
    own = {name: value for name, value in settings.items() if name in config.__dataclass_fields__}
    options = {name: value for name, value in settings.items() if name not in own}
    options = {**own.pop("options", {}), **options}
    queue_size = options.pop("queue_size", None)
    if queue_size is not None:
        _check_whole("queue_size", queue_size, 1)  # By the name that was given.
        own = {"input_queue_size": queue_size, "output_queue_size": queue_size, **own}
    if "engine" in own and own["engine"] != config.engine:
        return replace(config, **own, options=options)
    return replace(config, **own, options={**config.options, **options})


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidConfigurationError(name, value, f"takes a whole number from {least}")


_registered: dict[str, Definition] = {}


def register(definition: Definition) -> Definition:
    """Register an actor, to be launched by name; a later one replaces it."""
    _registered[definition.config.kernel_id] = definition
    return definition


# The setting with the body of an engine of kernels.
_BODY = {"batch": "body", "persistent": "handler"}


def definition_of(
    kernel_id: str,
    given: Callable[..., Any] | Definition | None,
    config: RingKernelConfig | None,
    settings: Mapping[str, Any],
) -> Definition:
    """Return the definition of a body, or the registered one; without further settings."""
    if config is not None and not isinstance(config, RingKernelConfig):
        raise InvalidConfigurationError("config", config, "takes a RingKernelConfig")
    if isinstance(given, Definition):
        return given
    made = getattr(given, "ring_kernel", None)
    if isinstance(made, Definition):
        return made
    engine = settings.get("engine", config.engine if config else "host")
    if given is None and not {"body", "handler"} & settings.keys():
        if kernel_id in _registered:
            return _registered[kernel_id]
        if engine in _BODY:
            problem = f"engine={engine!r} needs it, or a registered actor"
            raise InvalidConfigurationError(_BODY[engine], None, problem)
        raise KernelNotFoundError(kernel_id, _registered, "defined")
    base = merged(config or RingKernelConfig(kernel_id, engine=engine), settings)
    return Definition(base, given)


@overload
def ring_kernel(func: _F) -> _F: ...
@overload
def ring_kernel(
    func: None = None, *, kernel_id: str | None = None, **settings: Any
) -> Callable[[_F], _F]: ...
def ring_kernel(
    func: Any = None,
    *,
    kernel_id: str | None = None,
    input_type: type | None = None,
    output_type: type | None = None,
    auto_register: bool = True,
    **settings: Any,
) -> Any:
    """Define an actor.

    On the host, the body is a function of a context, usually ``async``, that receives and sends
    until ``ctx.should_terminate``; or a function of a context and a message, whose return value is
    the reply. With ``engine="batch"``, it is a function of a dict of columns that returns one, or
    a kernel, ``body=``. With ``engine="persistent"``, it is ``handler=``. With ``body`` or
    ``handler`` and no function, the definition is returned.

    Args:
        func: the function.
        kernel_id: name of the actor, by default of the function.
        input_type: class of its messages; None for any.
        output_type: class of its replies; None for any.
        auto_register: whether to register it for ``runtime.launch(kernel_id)``.
        settings: ``queue_size`` for both queues, and the settings of :class:`RingKernelConfig` and
            of the engine.

    Raises:
        InvalidConfigurationError: if a setting is unknown or invalid.
    """

    def define(function: Callable[..., Any] | None, name: str) -> Definition:
        engine = settings.get("engine", "host")
        config = merged(RingKernelConfig(name, engine=engine), settings)
        made = Definition(config, function, input_type, output_type)
        return register(made) if auto_register else made

    def decorate(function: _F) -> _F:
        name = kernel_id if kernel_id is not None else getattr(function, "__name__", "")
        definition = define(function, name)
        try:
            function.ring_kernel = definition  # type: ignore[attr-defined]
        except AttributeError:
            raise InvalidConfigurationError("func", function, "takes a function") from None
        return function

    if func is not None:
        return decorate(func)
    if {"body", "handler"} & settings.keys():
        if kernel_id is None:
            raise InvalidConfigurationError("kernel_id", None, "takes a name")
        return define(None, kernel_id)
    return decorate
