"""Why a kernel was built or compiled again: the fields that differ from the nearest known key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tikgen import untrusted
from tikgen.errors import ArgumentError
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import Source, render_variant
from tikgen.pipeline.variant_key import FILE, FINGERPRINT, SCHEDULE, key_fields
from tikgen.store import default_store
from tikgen.taichi import kernels, runtime
from tikgen.template.base import CODE_NAME, Template
from tikgen.units import counted

_HERE = "built in this process"
_EARLIER = "built by an earlier process or before tikgen.clear()"
_UNSET = "unset"
_ARGUMENT = re.compile(r", (?=\w+: )")
_INIT = "number of the ti.init"
_NAMES = {"init": _INIT, "arch": "arch"}
_DROPPED = "ti.init was called again, which drops all code"
_CACHES = {
    "compiled": ", and nothing of it was in a cache",
    "disk": ", whose code came from Taichi's cache on disk",
    "memory": ", whose code came from Taichi's cache in memory",
    "store": ", whose code came from the store",
}
_NO_OPTIONS = ("signature", "cache", "error", "offline_cache", "engine")


class Difference(NamedTuple):
    """A field of a key that differs: its name, its value now, and its value before."""

    field: str
    now: str
    before: str

    def __str__(self) -> str:
        return f"{self.field} is {self.now}, not {self.before}"


@dataclass(frozen=True, repr=False)
class Cause:
    """Why a kernel was built or compiled, or was not.

    Attributes:
        text: one paragraph.
        differences: the fields that differ from the nearest known variant: those of the build,
            then those of the compilation.
    """

    text: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class _Known(NamedTuple):
    """A known variant: its name, where it was built, and its key."""

    label: str
    where: str
    fields: Mapping[str, str]


def why(kernel_or_name: Any, /, **params: Any) -> Cause:
    """Return why a kernel was built and compiled, or would be.

    Args:
        kernel_or_name: a kernel, a ``ti.kernel``, a template, or the name of one.
        params: with a template, the arguments of :func:`tikgen.build`: parameters, ``schedule``,
            ``shape`` and ``arch``.

    Returns:
        One paragraph, with the fields that differ from the nearest known variant.

    Raises:
        ArgumentError: if the first argument is of another type, or a kernel comes with parameters.
        UnknownTemplate: if no template has that name.
        ParameterError: as ``build`` does.
    """
    if isinstance(kernel_or_name, str | Template):
        return _of_params(kernel_or_name, params)
    if params:
        raise ArgumentError("why", "parameters go with the name of a template, not with a kernel")
    if isinstance(kernel_or_name, Kernel):
        return _of_kernel(kernel_or_name)
    if kernels.is_kernel(kernel_or_name):
        return _of_function(kernel_or_name)
    raise ArgumentError(
        "why", f"takes a kernel or the name of a template; got {type(kernel_or_name).__name__}"
    )


def _of_kernel(kernel: Kernel) -> Cause:
    sources = builder.sources()
    keys = [source.variant.key for source in sources]
    key = kernel.variant.key
    before = sources[: keys.index(key)] if key in keys else sources
    built, of_build = _explain_build(kernel.source, before, "was")
    if any(d.field.startswith(SCHEDULE) for d in of_build):
        built += f" Its schedule is {kernel.schedule_origin}."
    identity = builder.identity_of(kernel.source)
    others = [s for s in sources if builder.identity_of(s) == identity and s.variant.key != key]
    if others:
        names = _listed([_shown(s, kernel.source) for s in others])
        built += f" It serves further parameters, which render to the same code: {names}."
    if len(kernel.classes) > 1:
        count, origins = counted(len(kernel.classes), "schedule"), _origins(kernel)
        built += f" By their sizes, calls took {count} so far ({origins}); this is the last one."
    compiled, of_compilation = _explain_compilations(kernel)
    return Cause(f"{built} {compiled}", of_build + of_compilation)


def _origins(kernel: Kernel) -> str:
    return "; ".join(each.schedule_origin for each in kernel.classes)


def _of_params(name: str | Template, params: Mapping[str, Any]) -> Cause:
    options: dict[str, Any] = {name: params.get(name) for name in ("schedule", "shape", "arch")}
    rest = {key: value for key, value in params.items() if key not in options}
    variant, record = builder.choose(name, params=rest, **options)
    sources = builder.sources()
    known = next((s for s in sources if s.variant.key == variant.key), None)
    source = known or render_variant(variant)
    identity = builder.identity_of(source)
    same = (k for k in builder.kernels() if builder.identity_of(k.source) == identity)
    kernel = next(same, None)
    if known is None:
        text, found = _explain_build(source, sources, "would be")
        text += f" Its schedule is {record}." if record is not None else ""
    else:
        text, found = f"{variant.label} is built already: build looks it up.", ()
    if kernel is None:
        return Cause(text, found)
    if kernel.variant.key != variant.key:
        verb = "was" if known else "would be"
        text += (
            f" It renders to the code of {_shown(kernel.source, source)}, so that nothing {verb} "
            "loaded or compiled for it."
        )
    compiled, of_compilation = _explain_compilations(kernel)
    return Cause(f"{text} {compiled}", found + of_compilation)


def _of_function(function: Any) -> Cause:
    signatures = kernels.signatures(function)
    name = function.__name__
    if not signatures:
        return Cause(f"Taichi has compiled nothing of {name} since ti.init.", ())
    if len(signatures) == 1:
        return Cause(f"Taichi compiled {name} once since ti.init, for ({signatures[0]}).", ())
    *before, last = map(_signature_fields, signatures)
    found = _nearest(last, before)
    text = (
        f"Taichi compiled {name} {len(signatures)} times since ti.init, the last time for "
        f"({signatures[-1]}), because {_listed(found)}."
    )
    return Cause(text, found)


def _explain_build(
    source: Source, before: Sequence[Source], was: str
) -> tuple[str, tuple[Difference, ...]]:
    """Return why ``source`` was or would be built, and what differs from the nearest variant."""
    variant, fields = source.variant, key_fields(source.variant)
    template = variant.template.name
    known = [
        _Known(s.variant.label, _HERE, key_fields(s.variant))
        for s in reversed(before)
        if s.variant.template.name == template
    ]
    here = [key_fields(s.variant) for s in builder.sources()]
    known += [k for k in _stored(template) if k.fields not in here]
    if not known:
        return f"{variant.label} {was} built, as the first variant of {template} that is known.", ()
    best = min(known, key=lambda k: len(_differing(fields, k.fields)))
    found = _differing(fields, best.fields)
    if not found:
        return f"{variant.label} {was} built anew: it is known, but {_EARLIER}.", ()
    text = (
        f"{variant.label} {was} built because nothing known has its key; the nearest, {best.label} "
        f"({best.where}), differs in {counted(len(found), 'field')}: {_listed(found)}."
    )
    return text, found


def _stored(template: str) -> Iterator[_Known]:
    """Yield the variants of a template in the store."""
    store = default_store()
    for key in store.keys("sources"):
        document = store.read("sources", key) or {}
        fields: Any = document.get("key")
        label = document.get("label", template)
        if not isinstance(fields, dict) or not isinstance(label, str):
            continue
        if document.get("template") == template:
            texts = {untrusted.printable(k): untrusted.printable(str(v)) for k, v in fields.items()}
            yield _Known(untrusted.printable(label), _EARLIER, texts)


def _differing(now: Mapping[str, str], before: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return what differs, with files instead of the fingerprint that depends on them."""
    found = _differences(now, before)
    named = any(d.field.startswith(FILE) for d in found)
    return tuple(
        d._replace(field=FILE + CODE_NAME) if d.field == FINGERPRINT else d
        for d in found
        if not (named and d.field == FINGERPRINT)
    )


def _shown(source: Source, beside: Source) -> str:
    """Return the name of a variant, with the fields in which it differs from ``beside``."""
    found = _differing(key_fields(source.variant), key_fields(beside.variant))
    return f"{source.variant.label} (its {_listed(found)})"


def _explain_compilations(kernel: Kernel) -> tuple[str, tuple[Difference, ...]]:
    """Return what was compiled of ``kernel`` and why, and what differs from the time before.

    The differences are those of the compilation due at the next launch, else of the last one.
    """
    if not kernel.is_loaded:
        return "It was unloaded since: build it again.", ()
    life = sorted(kernel.loaded.life, key=lambda event: event.start)
    made = [e for e in life if "cache" in e.details and "error" not in e.details]
    # Where Taichi and an engine beside it compiled, the last one counts.
    events = [e for e in made if e.stage == made[-1].stage]
    if not events:
        return "Nothing of it was compiled yet: that happens at the first launch.", ()
    keys = [_key(event.details) for event in events]
    last = events[-1].details
    who = last.get("engine", "Taichi")
    arguments = f"for ({last['signature']}) " if "signature" in last else ""
    how = f"in {1e3 * events[-1].seconds:.1f} ms {arguments}on {last['arch']}"
    how += _CACHES.get(last["cache"], "")
    found: tuple[Difference, ...] = ()
    text = f"{who} compiled it once, {how}."
    if len(events) > 1:
        found = _nearest(keys[-1], keys[:-1])
        reasons = _listed(_reasons(found)) or "its code was dropped meanwhile"
        text = f"{who} compiled it {len(events)} times, the last time {how}, because {reasons}."
    if not runtime.is_initialised():
        return f"{text} Taichi is not initialised now: the next ti.init begins anew.", found
    now = _key(runtime.init_options())
    due = _nearest(now, [{k: v for k, v in key.items() if k in now} for key in keys])
    if due:
        return f"{text} The next launch compiles it again, because {_listed(_reasons(due))}.", due
    return f"{text} A further launch with such arguments is a look-up.", found


def _signature_fields(signature: str) -> dict[str, str]:
    """Return the type of each argument in a signature such as ``x: f32[2d], n: i32``."""
    parts = (part.partition(": ") for part in _ARGUMENT.split(signature) if part)
    return {f"argument {name}": kind for name, _, kind in parts}


def _key(details: Mapping[str, Any]) -> dict[str, str]:
    """Return what decides whether Taichi compiles, options and signature, by readable names."""
    options = {
        _NAMES.get(name, f"{name} of ti.init"): str(value)
        for name, value in details.items()
        if name not in _NO_OPTIONS
    }
    return options | _signature_fields(details.get("signature", ""))


def _reasons(found: tuple[Difference, ...]) -> list[str]:
    return [f"{_DROPPED} ({each})" if each.field == _INIT else str(each) for each in found]


def _differences(now: Mapping[str, str], before: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the fields that differ, in the order of ``now``."""
    return tuple(
        Difference(name, now.get(name, _UNSET), before.get(name, _UNSET))
        for name in dict.fromkeys([*now, *before])
        if now.get(name) != before.get(name)
    )


def _nearest(now: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> tuple[Difference, ...]:
    """Return what differs from the nearest key, the latest of equally near ones."""
    return min((_differences(now, before) for before in reversed(known)), key=len)


def _listed(found: Sequence[object]) -> str:
    """Return a readable list, such as ``a, b and c``."""
    texts = [str(each) for each in found]
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else ""
