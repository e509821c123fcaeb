"""Rebuilds the kernels of a template from its files, and offers them the new code."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tikgen.errors import ParameterError, TemplateError, TikgenError
from tikgen.pipeline import builder
from tikgen.pipeline.choice import default_of
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import Variant, render_variant
from tikgen.taichi import runtime
from tikgen.template import catalogue, shapes
from tikgen.template.base import Template
from tikgen.template.blame import place_in
from tikgen.template.parameters import ParameterModel, ProblemModel, make_model
from tikgen.template.schedules import make_schedule


@dataclass(frozen=True)
class Change:
    """The outcome of a change of a template's files for its kernels.

    Attributes:
        template: name of the template.
        files: the files that changed.
        rebuilt: kernels whose next call compiles and runs the new code.
        unchanged: kernels whose code is the same as before.
        kept: kernels that keep their old code, with the error of the new one.
        compiled: kernels that run the new code since their first call with it, which compiled it.
        error: why the template cannot be used; all of its kernels keep their code then.
        seconds: duration of the rebuild.
    """

    template: str
    files: tuple[Path, ...] = ()
    rebuilt: tuple[Kernel, ...] = ()
    unchanged: tuple[Kernel, ...] = ()
    kept: Mapping[Kernel, TikgenError] = field(default_factory=dict)
    compiled: tuple[Kernel, ...] = ()
    error: TikgenError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether every kernel has the code of the new files."""
        return self.error is None and not self.kept

    def __str__(self) -> str:
        names = sorted({f"{file.parent.name}/{file.name}" for file in self.files})
        head = f"{self.template}: {', '.join(names) or 'files'} changed"
        if self.error is not None:
            return f"{head}, and cannot be used; all kernels keep their code.\n{self.error}"
        parts = []
        if self.rebuilt:
            took = f"{1e3 * self.seconds:.0f} ms"
            parts.append(f"loaded {_listed(self.rebuilt)} in {took}, compiled by the next call")
        if self.compiled:
            parts.append(f"rebuilt {_listed(self.compiled)}")
        if self.unchanged:
            parts.append(f"the code of {_listed(self.unchanged)} is the same")
        if self.kept:
            parts.append(f"kept the old code of {_listed(self.kept)}")
        lines = [f"{head}: {'; '.join(parts) or 'it has no kernels'}"]
        by_problem = {_without_parameters(error): str(error) for error in self.kept.values()}
        return "\n".join([*lines, *by_problem.values()])


def rebuild(folder: Path, files: tuple[Path, ...], on_compiled: Callable[[Change], None]) -> Change:
    """Rebuild the kernels of the loaded template in ``folder``; the next call of each compiles it.

    Once the new code is compiled or refused, ``on_compiled`` is called in the thread of that call.
    """
    began = time.perf_counter()
    rebuilt: list[Kernel] = []
    unchanged: list[Kernel] = []
    kept: dict[Kernel, TikgenError] = {}
    with builder.paused():
        try:
            template = catalogue.reload_template(folder)
        except TikgenError as error:
            return Change(folder.name, files, error=error, seconds=time.perf_counter() - began)
        for kernel in builder.kernels():
            if kernel.template.folder != folder:
                continue
            try:
                report = _reporter(kernel, template, files, on_compiled)
                is_new = _rebuild(kernel, template, report)
                (rebuilt if is_new else unchanged).extend(builder.handles(kernel))
            except TikgenError as error:
                kept |= dict.fromkeys(builder.handles(kernel), error)
    took = time.perf_counter() - began
    # A kernel that chooses by sizes has the code of several.
    new = tuple(dict.fromkeys(rebuilt))
    same = tuple(k for k in dict.fromkeys(unchanged) if k not in new)
    return Change(template.name, files, new, same, kept, seconds=took)


def _reporter(
    kernel: Kernel,
    template: Template,
    files: tuple[Path, ...],
    on_compiled: Callable[[Change], None],
) -> Callable[[TikgenError | None], None]:
    def report(error: TikgenError | None) -> None:
        handles = tuple(builder.handles(kernel))
        if error is None:
            on_compiled(Change(template.name, files, compiled=handles))
        else:
            on_compiled(Change(template.name, files, kept=dict.fromkeys(handles, error)))

    return report


def _rebuild(
    kernel: Kernel, template: Template, report: Callable[[TikgenError | None], None]
) -> bool:
    """Offer ``kernel`` its code in ``template`` if it is new; return whether it is."""
    with _naming(template):
        variant = _followed(kernel.variant, template)
    try:
        with _naming(template):
            source = render_variant(variant)
        is_same = builder.identity_of(source) == builder.identity_of(kernel.source)
        if kernel.is_changing or not is_same:
            builder.replace(kernel, source, report)
            return True
    except TikgenError:
        builder.keep(kernel, variant)
        raise
    # The reference, for example, is that of the new template.
    kernel.loaded.source = dataclasses.replace(kernel.source, variant=variant)
    return False


@contextlib.contextmanager
def _naming(template: Template) -> Iterator[None]:
    """Turn an error in a method of ``template`` into one that names its line."""
    try:
        yield
    except TikgenError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}{place_in(template.folder, error)}"
        raise TemplateError(template.name, problem) from error


def _followed(variant: Variant, template: Template) -> Variant:
    """Return the variant of ``template`` with the given parameters of ``variant``.

    A default schedule is replaced by the new default. Of any other schedule, the parameters that
    still exist are kept.
    """
    for name in variant.problem.model_fields_set - template.Problem.model_fields.keys():
        why = "was given to the kernel, but the template no longer has it"
        raise ParameterError(template.name, {name: why})
    problem = make_model(template.Problem, _given(variant.problem), template.name)
    assert isinstance(problem, ProblemModel)
    arch = runtime.current_arch() or builder.DEFAULT_ARCH
    sizes = dict(variant.sizes) or None
    default = default_of(variant, (arch,))
    if default is not None and not runtime.is_debug():
        values = template.default_values(problem, arch, sizes, is_direct=default[1])
    else:
        known = template.Schedule.model_fields
        values = {name: v for name, v in _given(variant.schedule).items() if name in known}
    schedule = make_schedule(template, problem, values, arch)
    if sizes is not None:
        arguments, symbols = template.arguments(problem), template.size_symbols(problem)
        sizes = shapes.sizes_of_shape(template.name, symbols, sizes, arguments)
    return Variant(template, problem, schedule, tuple((sizes or {}).items()), variant.views)


def _given(model: ParameterModel) -> dict[str, object]:
    return {name: getattr(model, name) for name in sorted(model.model_fields_set)}


def _listed(kernels: Mapping[Kernel, TikgenError] | tuple[Kernel, ...]) -> str:
    return ", ".join(kernel.name for kernel in kernels)


def _without_parameters(error: TikgenError) -> str:
    lines = str(error).splitlines()
    return "\n".join(line for line in lines if not line.startswith("  parameters: "))
