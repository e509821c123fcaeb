"""Why something was built or compiled again: which field of its key differs from what was known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tikgen import untrusted
from tikgen.errors import ArgumentError
from tikgen.lifecycle.compilations import explain_compilations, signature_fields
from tikgen.lifecycle.difference import Difference, differences, listed, nearest
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import Source, render_variant
from tikgen.pipeline.variant_key import FILE, FINGERPRINT, SCHEDULE, key_fields
from tikgen.store import default_store
from tikgen.taichi import kernels
from tikgen.template.base import CODE_NAME, Template
from tikgen.units import counted

_HERE = "built in this process"
_EARLIER = "built by an earlier process or before tikgen.clear()"


@dataclass(frozen=True, repr=False)
class Cause:
    """Why something was built or compiled, or was not.

    Attributes:
        text: one paragraph.
        differences: the fields that differ from what was known and is nearest: those of the
            build, then those of the compilation.
    """

    text: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class _Known(NamedTuple):
    """A variant to compare with: its name, where it was built, and its key."""

    label: str
    where: str
    fields: Mapping[str, str]


def why(kernel_or_name: Any, /, **params: Any) -> Cause:
    """Tell why a kernel was built and compiled, or would be.

    Args:
        kernel_or_name: a kernel, a ``ti.kernel``, or the name of a template (or the template).
        params: with a name, what :func:`tikgen.build` takes: parameters, ``schedule``, ``shape``
            and ``arch``.

    Returns:
        One paragraph, with the fields that differ from the nearest variant that is known.

    Raises:
        ArgumentError: if the first argument is something else, or a kernel comes with parameters.
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
    others = [s for s in sources if _is_same_code(s, kernel) and s.variant.key != key]
    if others:
        names = listed([_shown(s, kernel.source) for s in others])
        built += f" It serves further parameters, which render to the same code: {names}."
    compiled, of_compilation = explain_compilations(kernel)
    return Cause(f"{built} {compiled}", of_build + of_compilation)


def _of_params(name: str | Template, params: Mapping[str, Any]) -> Cause:
    options = {option: params.get(option) for option in ("schedule", "shape", "arch")}
    rest = {key: value for key, value in params.items() if key not in options}
    variant, record = builder.choose(name, params=rest, **options)
    sources = builder.sources()
    known = next((s for s in sources if s.variant.key == variant.key), None)
    source = known or render_variant(variant)
    kernel = next((k for k in builder.kernels() if _is_same_code(source, k)), None)
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
    compiled, of_compilation = explain_compilations(kernel)
    return Cause(f"{text} {compiled}", found + of_compilation)


def _of_function(function: Any) -> Cause:
    signatures = kernels.signatures(function)
    name = function.__name__
    if not signatures:
        return Cause(f"Taichi has compiled nothing of {name} since ti.init.", ())
    last = signature_fields(signatures[-1])
    if len(signatures) == 1:
        return Cause(f"Taichi compiled {name} once since ti.init, for ({signatures[0]}).", ())
    found = nearest(last, [signature_fields(signature) for signature in signatures[:-1]])
    text = (
        f"Taichi compiled {name} {len(signatures)} times since ti.init, the last time for "
        f"({signatures[-1]}), because {listed(found)}."
    )
    return Cause(text, found)


def _explain_build(
    source: Source, before: Sequence[Source], was: str
) -> tuple[str, tuple[Difference, ...]]:
    """Return why ``source`` was built, or would be, and what differs from the nearest variant."""
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
        f"({best.where}), differs in {counted(len(found), 'field')}: {listed(found)}."
    )
    return text, found


def _stored(template: str) -> Iterator[_Known]:
    """Yield the variants of a template that the store knows."""
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
    """Return what differs, files in the place of the fingerprint that is made of them."""
    found = differences(now, before)
    named = any(d.field.startswith(FILE) for d in found)
    return tuple(
        d._replace(field=FILE + CODE_NAME) if d.field == FINGERPRINT else d
        for d in found
        if not (named and d.field == FINGERPRINT)
    )


def _is_same_code(source: Source, kernel: Kernel) -> bool:
    one, other = source.variant, kernel.variant
    is_same = one.arguments == other.arguments and one.workspace == other.workspace
    return source.digest == kernel.digest and is_same


def _shown(source: Source, beside: Source) -> str:
    """Return the name of a variant, with what tells it from the one ``beside`` it."""
    found = _differing(key_fields(source.variant), key_fields(beside.variant))
    return f"{source.variant.label} (its {listed(found)})"
