"""Finds out which actor is meant by a launch, and makes its engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tikgen.ring.actors.engine import Engine, HostEngine
from tikgen.ring.definition import Definition, RingKernelConfig, merged, registered
from tikgen.ring.errors import InvalidConfigurationError, KernelNotFoundError

# The setting that says what an engine of kernels does.
_BODY = {"batch": "body", "persistent": "handler"}


def definition_of(
    kernel_id: str,
    given: Callable[..., Any] | Definition | None,
    config: RingKernelConfig | None,
    settings: Mapping[str, Any],
) -> Definition:
    """Return the definition that is meant."""
    if config is not None and not isinstance(config, RingKernelConfig):
        raise InvalidConfigurationError("config", config, "takes a RingKernelConfig")
    if isinstance(given, Definition):
        return given
    made = getattr(given, "ring_kernel", None)
    if isinstance(made, Definition):
        return made
    has_body = bool({"body", "handler"} & settings.keys())
    if given is None and not has_body:
        known = registered()
        engine = settings.get("engine", config.engine if config else "host")
        if kernel_id not in known and engine in _BODY:
            raise InvalidConfigurationError(
                _BODY[engine], None, f"engine={engine!r} needs it, or an actor that is registered"
            )
        if kernel_id not in known:
            raise KernelNotFoundError(kernel_id, known, "defined")
        return known[kernel_id]
    engine = settings.get("engine", config.engine if config else "host")
    base = merged(config or RingKernelConfig(kernel_id, engine=engine), settings)
    return Definition(base, given)


def engine_of(definition: Definition) -> Engine:
    """Return the engine of an actor; those of kernels are imported late."""
    config = definition.config
    if config.engine == "batch":
        from tikgen.ring.batch.engine import BatchEngine

        return BatchEngine(definition)
    if config.engine == "persistent":
        from tikgen.ring.persistent.engine import PersistentEngine

        return PersistentEngine(definition)
    assert definition.function is not None
    return HostEngine(config.kernel_id, definition.function)
