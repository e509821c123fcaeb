"""Plans the export of kernels of templates, on each arch with its own schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tikgen import engines
from tikgen.aot import manifest as m
from tikgen.aot.exporting.cost_model import cost_of
from tikgen.aot.exporting.export_plan import Code, KernelPlan
from tikgen.aot.names import family_name, variant_name
from tikgen.errors import ExportError, ParameterError, UnsupportedOnArch
from tikgen.machine.devices import ARCHS, core_arch, problem_with
from tikgen.pipeline import evidence
from tikgen.pipeline.choice import choose, default_of
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.loaded import check_arch
from tikgen.pipeline.rendering import Source, Variant, render_variant
from tikgen.template.arguments import Argument, Array, Scalar
from tikgen.template.base import BUILTIN_FOLDER, Template
from tikgen.template.catalogue import current_template
from tikgen.template.parameters import canonical


def plan_kernel(
    kernel: Kernel,
    archs: Sequence[str],
    schedules: Mapping[str, Mapping[str, Any]],
    verify_now: bool,
    max_examples: int,
    needs_evidence: bool = True,
    is_native: bool = False,
) -> KernelPlan:
    """Return the plan for a kernel that :func:`tikgen.build` returned.

    Without evidence it is verified if ``verify_now``, else refused unless not ``needs_evidence``.
    For a native bundle it is verified on the processor of this machine, whatever the arch.
    """
    variant = kernel.variant
    if any(isinstance(a, Array) and a.storage == "field" for a in variant.arguments):
        raise ExportError(
            kernel.name,
            "it takes fields; build it with storage='ndarray', or export a ti.kernel of your own "
            "over fields of your own",
        )
    if variant.views:
        raise ExportError(kernel.name, "it takes views; export the kernel for contiguous arrays")
    if current_template(variant.template).fingerprint != variant.template.fingerprint:
        raise ExportError(kernel.name, "the files of its template were changed: build it again")
    # What runs the bundle: Taichi's runtime, or the machine code of direct-cpu.
    engine = engines.DIRECT if is_native else engines.TAICHI
    codes, failures = {}, {}
    for arch in archs:
        if verify_now and (absent := problem_with(arch)) and not is_native:
            failures[arch] = f"it cannot be verified and proved here: {absent}"
            continue
        try:
            variant_there = _variant_on(kernel, core_arch(arch), schedules.get(arch), engine)
            source = render_variant(variant_there)
            found = evidence_on(source, core_arch(arch))
            if verify_now and not (found is not None and found.passed):
                _verify(source.variant, core_arch(arch), max_examples)
                found = evidence_on(source, core_arch(arch))
            if needs_evidence if found is None else not found.passed:
                raise ExportError(kernel.name, _without_evidence(source, arch, found))
        except (UnsupportedOnArch, ParameterError, ExportError) as error:
            failures[arch] = error.problem if isinstance(error, ExportError) else str(error)
            continue
        codes[arch] = _code(source, kernel.function.__name__, found)
    entry = m.Kernel(
        name=variant_name(variant),
        family=family_name(variant),
        template=variant.template.name,
        params={name: canonical(value) for name, value in variant.problem},
        sizes=dict(variant.sizes),
        arguments=tuple(map(described, variant.arguments)),
        cost=cost_of(variant),
    )
    template = variant.template
    return KernelPlan(
        entry,
        codes,
        template=str(template.folder),
        fingerprint=template.fingerprint,
        failures=failures,
    )


def described(argument: Argument) -> m.Argument:
    """Return an argument as a manifest describes it."""
    if isinstance(argument, Scalar):
        return m.Argument(name=argument.name, kind="scalar", dtype=argument.dtype.value)
    assert isinstance(argument, Array)
    return m.Argument(
        name=argument.name,
        kind="array",
        dtype=argument.dtype.value,
        shape=argument.shape,
        role=argument.role,
        covered=argument.covered,
        inplace=argument.inplace,
    )


def evidence_on(source: Source, arch: str) -> evidence.Evidence | None:
    """Return the evidence for a source on an arch; without any that for sizes not baked in."""
    twins = [source]
    if source.variant.sizes:  # The same text but for numbers in place of extents.
        variant = source.variant
        twins.append(render_variant(Variant(variant.template, variant.problem, variant.schedule)))
    for twin in twins:
        found = evidence.on_arch(twin, arch)
        if found is not None:
            return found
    return None


def _variant_on(
    kernel: Kernel, arch: str, schedule: Mapping[str, Any] | None, engine: str
) -> Variant:
    """Return the variant with the schedule of the arch and the engine, unless one was given."""
    variant = kernel.variant
    suited = variant
    if schedule is not None or not _was_given(kernel):
        problem, sizes = dict(variant.problem), dict(variant.sizes) or None
        suited, _ = choose(variant.template, schedule, sizes, arch, problem, engine=engine)
    check_arch(suited, arch)
    return suited


def _was_given(kernel: Kernel) -> bool:
    """Return whether the schedule is neither a default nor from a tuning record."""
    if kernel.record is not None or kernel.chosen_for is not None:
        return False
    return default_of(kernel.variant, ARCHS) is None


def _code(source: Source, function: str, found: evidence.Evidence | None) -> Code:
    variant = source.variant
    return Code(
        text=source.text,
        function=function,
        digest=source.digest,
        literals=repr(_literals(variant)),
        schedule={name: canonical(value) for name, value in variant.schedule},
        workspace=tuple(map(described, variant.workspace)),
        evidence=None
        if found is None
        else m.Evidence(
            examples=found.examples, seed=found.seed, worst=found.worst, when=found.when
        ),
    )


def _literals(variant: Variant) -> dict[str, Any]:
    from tikgen.verification.case import literal

    return {name: literal(value) for name, value in variant.params.items()}


def _verify(variant: Variant, arch: str, max_examples: int) -> None:
    from tikgen.verification import verify

    verify(variant.template, archs=(arch,), max_examples=max_examples, **_literals(variant))


def _without_evidence(source: Source, arch: str, found: evidence.Evidence | None) -> str:
    template = _written(source.variant.template)
    if found is not None:
        return f"its verification on {core_arch(arch)} failed; see tikgen.verify({template}, ...)"
    return (
        f"its code was never verified on {core_arch(arch)}: export with verify=True (--verify), or "
        f"verify it before, with tikgen.verify({template}, archs=({core_arch(arch)!r},), ...)"
    )


def _written(template: Template) -> str:
    """Return how any program names a template: a user's own is loaded from its folder."""
    if template.folder.parent == BUILTIN_FOLDER:
        return repr(template.name)
    return f"tikgen.load_template({str(template.folder)!r})"
