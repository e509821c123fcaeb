"""Makes the kernels of a template anew from its files, and offers them to whoever calls them."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tikgen.errors import ParameterError, TemplateError, TikgenError
from tikgen.pipeline import builder
from tikgen.pipeline.kernel import Kernel
from tikgen.pipeline.rendering import Source, Variant, render_variant
from tikgen.taichi import runtime
from tikgen.template import catalogue, shapes
from tikgen.template.base import CODE_NAME, Template
from tikgen.template.parameters import ParameterModel, ProblemModel, make_model
from tikgen.template.schedules import make_schedule


@dataclass(frozen=True)
class Change:
    """What became of a template's kernels when its files changed.

    Attributes:
        template: name of the template.
        files: the files that changed.
        rebuilt: kernels whose next call compiles and runs the new code.
        unchanged: kernels whose code is the same as before.
        kept: kernels that keep their code, and what speaks against the new one.
        error: why the template cannot be used, so that all of its kernels keep their code.
        seconds: time that the rebuilding took.
    """

    template: str
    files: tuple[Path, ...] = ()
    rebuilt: tuple[Kernel, ...] = ()
    unchanged: tuple[Kernel, ...] = ()
    kept: Mapping[Kernel, TikgenError] = field(default_factory=dict)
    error: TikgenError | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Tell whether every kernel is what its files say."""
        return self.error is None and not self.kept

    def __str__(self) -> str:
        names = sorted({f"{file.parent.name}/{file.name}" for file in self.files})
        head = f"{self.template}: {', '.join(names) or 'files'} changed"
        if self.error is not None:
            return f"{head}, and cannot be used; all kernels keep their code.\n{self.error}"
        told = []
        if self.rebuilt:
            took = f"{1e3 * self.seconds:.0f} ms"
            told.append(f"loaded {_listed(self.rebuilt)} in {took}, compiled by the next call")
        if self.unchanged:
            told.append(f"the code of {_listed(self.unchanged)} is the same")
        if self.kept:
            told.append(f"kept the old code of {_listed(self.kept)}")
        lines = [f"{head}: {'; '.join(told) or 'no kernel was built of it'}"]
        by_problem = {_without_parameters(error): str(error) for error in self.kept.values()}
        return "\n".join([*lines, *by_problem.values()])


def rebuild(folder: Path, files: tuple[Path, ...], on_refusal: Callable[[Change], None]) -> Change:
    """Make the kernels of the template in ``folder`` anew, and return what became of them.

    Nothing is compiled here: that is left to the next call of each kernel.

    Args:
        folder: folder of a template that is loaded.
        files: its files that changed, for the report.
        on_refusal: is told, in the thread that calls a kernel, why it keeps its old code after all.
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
                tell = _teller(kernel, template, files, on_refusal)
                is_new = _remake(kernel, template, tell)
                (rebuilt if is_new else unchanged).append(kernel)
            except TikgenError as error:
                kept[kernel] = error
    took = time.perf_counter() - began
    return Change(template.name, files, tuple(rebuilt), tuple(unchanged), kept, seconds=took)


def _teller(
    kernel: Kernel,
    template: Template,
    files: tuple[Path, ...],
    on_refusal: Callable[[Change], None],
) -> Callable[[TikgenError | None], None]:
    def tell(error: TikgenError | None) -> None:
        if error is not None:
            on_refusal(Change(template.name, files, kept={kernel: error}))

    return tell


def _remake(kernel: Kernel, template: Template, tell: Callable[[TikgenError | None], None]) -> bool:
    """Offer ``kernel`` the code that it has in ``template``; return whether that is other code.

    Raises:
        TikgenError: why the kernel keeps its code, for which it is built from now on as well.
    """
    with _naming(template):
        variant = _followed(kernel.variant, template)
    try:
        with _naming(template):
            source = render_variant(variant)
        if not _is_same(kernel, source):
            builder.replace(kernel, source, tell)
            return True
    except TikgenError:
        builder.keep(kernel, variant)
        raise
    # What is not code, such as the reference, is that of the new template.
    kernel.loaded.source = dataclasses.replace(kernel.source, variant=variant)
    return False


def _is_same(kernel: Kernel, source: Source) -> bool:
    """Tell whether the kernel runs this very code."""
    new, old = source.variant, kernel.variant
    return not kernel.is_changing and (source.digest, new.arguments, new.workspace) == (
        kernel.digest,
        old.arguments,
        old.workspace,
    )


@contextlib.contextmanager
def _naming(template: Template) -> Iterator[None]:
    """Turn an error of a method of ``template`` into one that names its line."""
    try:
        yield
    except TikgenError:
        raise
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        place = next((p for p in reversed(places) if p.filename.endswith(CODE_NAME)), places[-1])
        raise TemplateError(
            template.name,
            f"{type(error).__name__}: {error} (in {Path(place.filename).name}:{place.lineno})",
        ) from error


def _followed(variant: Variant, template: Template) -> Variant:
    """Return the variant of ``template`` with the parameters that were given to ``variant``.

    A schedule that was the arch's default becomes what is the default now. Of any other, the
    parameters that exist still are taken.
    """
    for name in variant.problem.model_fields_set - template.Problem.model_fields.keys():
        why = "was given to the kernel, and the template has no such parameter any more"
        raise ParameterError(template.name, {name: why})
    problem = make_model(template.Problem, _given(variant.problem), template.name)
    assert isinstance(problem, ProblemModel)
    arch = runtime.current_arch() or builder.DEFAULT_ARCH
    sizes = dict(variant.sizes) or None
    old = variant.template
    default = old.Schedule(**old.default_values(variant.problem, arch, sizes))
    if variant.schedule == default and not runtime.is_debug():
        values = dict(template.default_values(problem, arch, sizes))
    else:
        known = template.Schedule.model_fields
        values = {name: v for name, v in _given(variant.schedule).items() if name in known}
    schedule = make_schedule(template, problem, values, arch)
    if sizes is not None:
        arguments, symbols = template.arguments(problem), template.size_symbols(problem)
        sizes = shapes.sizes_of_shape(template.name, symbols, sizes, arguments)
    return Variant(template, problem, schedule, tuple((sizes or {}).items()))


def _given(model: ParameterModel) -> dict[str, object]:
    return {name: getattr(model, name) for name in sorted(model.model_fields_set)}


def _listed(kernels: Mapping[Kernel, TikgenError] | tuple[Kernel, ...]) -> str:
    return ", ".join(kernel.name for kernel in kernels)


def _without_parameters(error: TikgenError) -> str:
    lines = str(error).splitlines()
    return "\n".join(line for line in lines if not line.startswith("  parameters: "))
