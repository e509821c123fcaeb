"""Every exception that tikgen raises: one class each, one message each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from tikgen.untrusted import printable


def near(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``Did you mean 'stencil'?`` or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(c) for c in close)}?"


class TikgenError(Exception):
    """Is the base of every exception that tikgen raises on purpose.

    A message may quote what others wrote. Whatever a terminal would obey is escaped in it.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(a) if isinstance(a, str) else a for a in args))


class UnknownTemplate(TikgenError):
    """A template was asked for that no search path holds."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(
            f"There is no template {name!r}.{near(name, names)}"
            f" Templates found: {', '.join(names) or 'none'}."
        )


class TemplateError(TikgenError):
    """A template folder is incomplete or declares something that tikgen cannot use."""

    def __init__(self, template: str, problem: str) -> None:
        super().__init__(f"Template {template!r}: {problem}")


class ParameterError(TikgenError):
    """A parameter is unknown, missing, ill-typed, out of range or unsafe.

    ``parameter`` names the first one that is wrong.
    """

    def __init__(self, template: str, problems: Mapping[str, str]) -> None:
        self.parameter = next(iter(problems), "")
        super().__init__(
            f"{template}: " + "; ".join(f"parameter {k!r} {v}" for k, v in problems.items()) + "."
        )

    @classmethod
    def unknown(cls, template: str, name: str, known: Iterable[str]) -> ParameterError:
        """Build the error for a parameter that ``template`` does not have."""
        names = list(known)
        takes = f"{template} takes {', '.join(names) or 'none'}"
        return cls(template, {name: f"is unknown.{near(name, names)} {takes}"})


class ExpressionError(TikgenError):
    """An expression holds something else than the arithmetic that tikgen allows."""

    def __init__(self, text: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Expression {text!r}: {problem}")


class _LocatedError(TikgenError):
    """Names the lines of the template and of the rendered kernel that are to blame."""

    def __init__(
        self,
        template: str,
        problem: str,
        *,
        template_line: str = "",
        rendered_line: str = "",
        params: Mapping[str, Any] | None = None,
    ) -> None:
        lines = [f"Template {template!r}: {problem}"]
        if template_line:
            lines.append(f"  template: {template_line}")
        if rendered_line:
            lines.append(f"  rendered: {rendered_line}")
        if params:
            lines.append("  parameters: " + ", ".join(f"{k}={v}" for k, v in params.items()))
        super().__init__("\n".join(lines))


class CompileBudgetExceeded(TikgenError):
    """A kernel is so large, once unrolled, that Taichi would compile it for minutes."""

    def __init__(self, kernel: str, operations: int, most: int) -> None:
        super().__init__(
            f"{kernel}: the kernel would hold about {operations} operations, and more than {most} "
            "take longer than half a minute to compile; unroll less, or take smaller tiles"
        )


class RenderError(_LocatedError):
    """A template could not be rendered, or rendered to text that is not Python."""


class KernelCompileError(_LocatedError):
    """Taichi refused the rendered kernel."""


class ArgumentError(TikgenError):
    """A kernel was called with an argument that it cannot take."""

    def __init__(self, kernel: str, problem: str) -> None:
        super().__init__(f"{kernel}: {problem}")


class UnsupportedOnArch(TikgenError):
    """A kernel needs what an arch cannot do."""

    def __init__(self, kernel: str, arch: str, what: str) -> None:
        self.arch = arch
        super().__init__(f"{kernel} is not supported on {arch}: {what}")


class TaichiNotInitialised(TikgenError):
    """A kernel was launched before ``ti.init``."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"{kernel} cannot run: Taichi is not initialised. "
            "Call ti.init(arch=ti.cpu), or another arch, before the first launch."
        )


class ForkedProcess(TaichiNotInitialised):
    """Taichi was asked for something in a process that was forked after ``ti.init``."""

    def __init__(self, who: str) -> None:
        TikgenError.__init__(
            self,
            f"{who} cannot run in this process: it was forked after ti.init, and Taichi's threads "
            "and devices stayed behind. Start it with multiprocessing.get_context('spawn'), or "
            "fork before ti.init.",
        )


class WrongThread(TikgenError):
    """A kernel was first launched in a thread in which Taichi cannot prepare for it."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"{kernel} cannot run first in this thread: launch it once in the thread that called "
            "ti.init, after the last field was declared; from then on every thread may launch it."
        )


class VerificationError(TikgenError):
    """A kernel disagrees with its reference, or its process died."""

    def __init__(self, template: str, summary: str, script: str = "") -> None:
        self.script = script
        where = f"\nReproduce it with: python {script}" if script else ""
        super().__init__(f"Template {template!r} failed verification. {summary}{where}")


class TuningError(TikgenError):
    """Not a single schedule of a problem could be timed."""


class TraceError(TikgenError):
    """A trace cannot be shown or written as it was asked for."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Trace: {problem}.")


class WatchError(TikgenError):
    """Something was to be watched that cannot be."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"Cannot watch {what}: it {problem}.")


class UnknownId(TikgenError, ValueError):
    """A loader was asked for an id under which it holds nothing."""

    def __init__(self, id: object, known: Iterable[str]) -> None:
        names = list(known)
        hint = near(id, names) if isinstance(id, str) else ""
        held = ", ".join(map(repr, names)) or "nothing"
        what = "nothing is loaded" if id is None else f"{id!r} is not loaded"
        super().__init__(f"Loader: {what}.{hint} It holds {held}.")


class InvalidId(TikgenError, ValueError):
    """A loader was given an id that it does not take."""

    def __init__(self, id: object, problem: str) -> None:
        super().__init__(f"Loader: the id {id!r} {problem}.")


class InvalidText(TikgenError):
    """A loader was given what it cannot execute as a module."""

    def __init__(self, id: str, problem: str, line: str = "") -> None:
        super().__init__(f"The text for {id!r} {problem}" + (f"\n  {line}" if line else ""))


class CheckFailed(TikgenError):
    """A new text was refused by the check that its caller asked for; the cause is chained."""

    def __init__(self, id: str, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(f"The new text for {id!r} failed its check: {problem}")


class NoEarlierVersion(TikgenError):
    """A loader has no version to go back to."""

    def __init__(self, id: str, number: int) -> None:
        super().__init__(
            f"Loader: there is no version of {id!r} before version {number} to go back to."
        )


class BundleError(TikgenError):
    """A bundle on disk cannot be used: damaged, incomplete, of a later version, or closed."""

    def __init__(self, bundle: object, problem: str) -> None:
        super().__init__(f"The bundle {bundle} {problem}.")


class UnknownEntry(BundleError, KeyError):
    """A bundle was asked for a kernel, graph, field or family that it does not have."""

    def __init__(self, bundle: object, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        hint = near(name, names) if isinstance(name, str) else ""
        has = f"It has {', '.join(names)}" if names else "It has none"
        super().__init__(bundle, f"has no {kind} {name!r}.{hint} {has}")

    __str__ = Exception.__str__  # A KeyError shows its message in quotes.


class ExportError(TikgenError):
    """Something cannot be exported ahead of time, or what was exported failed its proof."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"Cannot export {what}: {problem}.")


class LibraryError(TikgenError):
    """Taichi's C library is missing, or reported an error.

    ``code`` is its error code, 0 where there is none.
    """

    def __init__(self, doing: str, problem: str, code: int = 0) -> None:
        self.code = code
        super().__init__(f"Taichi's C library, {doing}: {problem}.")


class StoreError(TikgenError):
    """The store on disk was asked for something that it cannot do."""


class StoreWarning(UserWarning):
    """The store found an entry that it cannot use, or a disk that it cannot use."""


class CellError(TikgenError):
    """A notebook's cell cannot be used; what it defined before stays as it was.

    IPython shows it without a traceback, which would tell of nothing but tikgen's own files.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
