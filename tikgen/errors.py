"""Every exception that tikgen raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from tikgen.untrusted import printable

_PLAIN = (str, bytes, bool, int, float, complex, type(None))


def near(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ``Did you mean 'stencil'?``, or an empty string."""
    # Not so low that "axes" gives "lanes". Of few letters, one in common is much.
    cutoff = min(0.7, 0.3 + 0.1 * len(name))
    names = [*dict.fromkeys(known)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=cutoff)
    if not close:  # "output" may be meant as "out".
        close = [n for n in names if len(n) > 2 and (n.startswith(name) or name.startswith(n))][:3]
    if not close or not name:
        return ""
    return f" Did you mean {' or '.join(repr(c) for c in close)}?"


def one_line(error: BaseException) -> str:
    """Return an error as one line, with its type."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _remade(cls: type[TikgenError], args: tuple[object, ...]) -> TikgenError:
    """Return an exception with its final ``args``, from which ``__init__`` would make others."""
    error = cls.__new__(cls)
    error.args = args
    return error


def _portable(value: object) -> object:
    """Return what every process can load: values of plain types, and the repr of others."""
    if isinstance(value, list | tuple | set | frozenset) and type(value).__module__ == "builtins":
        made: Any = type(value)
        return made(map(_portable, value))
    if type(value) is dict:
        return {_portable(key): _portable(each) for key, each in value.items()}
    if isinstance(value, BaseException) and type(value).__module__ == "builtins":
        return value if _portable(value.args) == value.args else repr(value)
    if isinstance(value, type):
        return value if value.__module__ == "builtins" else repr(value)
    is_plain = type(value) in _PLAIN or isinstance(value, PurePath | TikgenError)
    return value if is_plain else repr(value)


# Words of other tools, and the parameter that they may mean.
_USUAL = {
    **dict.fromkeys(("bc", "bcs", "boundary_conditions"), "boundary"),
    **dict.fromkeys(("precision", "data_type"), "dtype"),
    **dict.fromkeys(("dx", "h", "step_size"), "spacing"),
    **dict.fromkeys(("accuracy", "stencil_order"), "order"),
}


class TikgenError(Exception):
    """The base of every exception that tikgen raises.

    Control characters in a message are escaped, since it may quote untrusted text. All of them can
    be pickled, so that worker processes can raise them; what is of no plain type is its repr then.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(printable(a) if isinstance(a, str) else a for a in args))

    def __reduce__(self) -> tuple[Any, ...]:
        args = tuple(map(_portable, self.args))
        return _remade, (type(self), args), {k: _portable(v) for k, v in vars(self).items()}

    def __copy__(self) -> TikgenError:
        made = _remade(type(self), self.args)
        vars(made).update(vars(self))
        return made


class UnknownTemplate(TikgenError):
    """No search path has a template of that name."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        hint = near(name, names) if isinstance(name, str) else " Its name is a text."
        super().__init__(
            f"There is no template {name!r}.{hint} Templates found: {', '.join(names) or 'none'}."
        )


class TemplateError(TikgenError):
    """A template folder is incomplete, or has a declaration that tikgen cannot use."""

    def __init__(self, template: str, problem: str) -> None:
        super().__init__(f"Template {template!r}: {problem}")


class TemplateChanged(TemplateError):
    """The files of a template were saved between two uses that must agree."""

    def __init__(self, message: str) -> None:
        TikgenError.__init__(self, message)


class DeclarationError(TemplateError):
    """An array or a scalar is declared with something that it cannot have."""

    def __init__(self, what: str, problem: str) -> None:
        TikgenError.__init__(self, f"{what}: {problem}")


class ParameterError(TikgenError):
    """A parameter is unknown, missing, ill-typed, out of range or unsafe.

    ``parameter`` is the name of the first wrong one, and ``problems`` says what is wrong with each.
    """

    def __init__(self, template: str, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        self.parameter = next(iter(problems), "")
        text = "; ".join(f"parameter {name!r} {problem}" for name, problem in problems.items())
        # A question, such as "Did you mean 'u'?", and a quoted line end by themselves.
        super().__init__(f"{template}: {text}{'' if text.endswith(('.', '?', '^')) else '.'}")

    @classmethod
    def unknown(cls, template: str, name: str, known: Iterable[str]) -> ParameterError:
        """Return the error for a parameter that ``template`` does not have."""
        names = list(known)
        takes = f"{template} takes {', '.join(names) or 'none'}"
        meant = _USUAL.get(name)
        hint = f" Did you mean {meant!r}?" if meant in names else near(name, names)
        return cls(template, {name: f"is unknown.{hint} {takes}"})


class InvalidValue(ParameterError, ValueError):
    """A function such as ``tikgen.dirichlet`` was given a value that it cannot take.

    ``parameter`` is the name of what was given, as for :class:`ParameterError`.
    """


class ConversionError(TikgenError, ValueError):
    """A value is no dtype, or no identifier."""


class ExpressionError(TikgenError):
    """An expression contains something other than the arithmetic that tikgen allows."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        self.problem = problem
        super().__init__(f"Expression {text!r}: {problem}")


class _LocatedError(TikgenError):
    """An error with the lines of the template and the rendered kernel in which it occurred."""

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
    """A kernel is so large after unrolling that Taichi would compile it for minutes."""

    def __init__(self, kernel: str, operations: int, most: int) -> None:
        super().__init__(
            f"{kernel}: the kernel would have about {operations} operations, and more than {most} "
            "take longer than half a minute to compile; unroll less, use smaller "
            "tiles, or split the work over two kernels"
        )


class RenderError(_LocatedError):
    """A template could not be rendered, or its rendered text is not Python."""


class KernelCompileError(_LocatedError):
    """Taichi refused the rendered kernel."""


class UnknownLine(TikgenError, IndexError):
    """A text has no line of that number."""

    def __init__(self, number: object, lines: int) -> None:
        super().__init__(f"The text has lines 1 to {lines}; got {number!r:.60}.")


class ArgumentError(TikgenError):
    """A kernel was called with an argument that it cannot take."""

    def __init__(self, kernel: str, problem: str) -> None:
        super().__init__(f"{kernel}: {problem}")


class UnsupportedOnArch(TikgenError):
    """A kernel cannot run on an arch."""

    def __init__(self, kernel: str, arch: str, what: str) -> None:
        self.arch = arch
        super().__init__(f"{kernel} is not supported on {arch}: {what}")


class EngineUnavailable(TikgenError):
    """An engine cannot launch a kernel."""

    def __init__(self, kernel: str, engine: str, why: str) -> None:
        self.engine, self.why = engine, why
        super().__init__(f"{kernel} cannot be launched by the engine {engine!r}: {why}")


class DeviceError(TikgenError):
    """The driver of a device refused a call."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"The CUDA driver refused {what}: {why}.")


class ProgramError(TikgenError):
    """A program cannot be made, run or restored as asked."""


class Terminated(SystemExit):
    """SIGTERM asked a run to end, and it did so once its checkpoint was written.

    Nobody has to catch it: Python ends with the exit status 75, ``EX_TEMPFAIL`` of sysexits.h.

    Attributes:
        path: the checkpoint.
        steps: how many steps the program has run.
    """

    STATUS = 75

    def __init__(self, path: str, steps: int) -> None:
        super().__init__(self.STATUS)
        self.path, self.steps = path, steps

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.path, self.steps), vars(self)

    def __str__(self) -> str:
        return (
            f"SIGTERM: the checkpoint {self.path!r} holds step {self.steps}; "
            f"exit status {self.STATUS}"
        )


class GridError(TikgenError):
    """A grid cannot be divided among processes, or used, as asked."""


class TaichiNotInitialised(TikgenError):
    """A kernel was launched before ``ti.init``."""

    def __init__(self, kernel: str) -> None:
        super().__init__(
            f"{kernel} cannot run: Taichi is not initialised. "
            "Call ti.init(arch=ti.cpu), or another arch, before the first launch."
        )


class ForkedProcess(TaichiNotInitialised):
    """Taichi was used in a process that was forked after ``ti.init``."""

    def __init__(self, who: str) -> None:
        TikgenError.__init__(
            self,
            f"{who} cannot run in this process: it was forked after ti.init, without Taichi's "
            "threads and devices. Start it with multiprocessing.get_context('spawn'), or fork "
            "before ti.init.",
        )


class WrongThread(TikgenError):
    """A kernel was first launched in a thread in which Taichi cannot prepare for it.

    Args:
        who: the kernel, or what else needs Taichi.
        what: what it cannot do, if it is no kernel.
        remedy: what the other thread has to do, likewise.
    """

    def __init__(self, who: str, what: str = "", remedy: str = "") -> None:
        done = remedy or "launch it once"
        then = "." if what else ", after the last field is declared; then any thread may launch it."
        super().__init__(
            f"{who} cannot {what or 'have its first launch'} in this thread: "
            f"{done} in the thread that called ti.init{then}"
        )


class VerificationError(TikgenError):
    """A kernel disagrees with its reference, or its process died."""

    def __init__(self, template: str, summary: str, script: str = "") -> None:
        self.script = script
        where = f"\nReproduce it with: python {script}" if script else ""
        super().__init__(f"Template {template!r} failed verification. {summary}{where}")


class TuningError(TikgenError):
    """No schedule of a problem could be timed."""


class SubmissionError(TikgenError):
    """A job for a queueing system cannot be written or submitted as asked."""


class TraceError(TikgenError):
    """A trace cannot be shown or written."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Trace: {problem}.")


class WatchError(TikgenError):
    """A target cannot be watched."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(f"Cannot watch {what}: it {problem}.")


class UnknownId(TikgenError, ValueError):
    """A loader has no module under an id."""

    def __init__(self, id: object, known: Iterable[str]) -> None:
        names = list(known)
        hint = near(id, names) if isinstance(id, str) else ""
        held = f"It has {', '.join(map(repr, names))}." if names else "Nothing is loaded yet."
        told = "nothing is loaded yet." if id is None else f"{id!r} is not loaded.{hint} {held}"
        super().__init__(f"Loader: {told}")


class InvalidId(TikgenError, ValueError):
    """An id cannot name a module in a loader."""

    def __init__(self, id: object, problem: str) -> None:
        super().__init__(f"Loader: the id {id!r} {problem}.")


class InvalidText(TikgenError):
    """A loader cannot execute a text as a module."""

    def __init__(self, id: str, problem: str, line: str = "") -> None:
        super().__init__(f"The text for {id!r} {problem}" + (f"\n  {line}" if line else ""))


class CheckFailed(TikgenError):
    """The caller's check refused a new text; the cause is chained."""

    def __init__(self, id: str, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(f"The new text for {id!r} failed its check: {problem}")


class NoEarlierVersion(TikgenError):
    """A loader has no earlier version to return to."""

    def __init__(self, id: str, number: int) -> None:
        super().__init__(f"Loader: {id!r} has no version before {number} to return to.")


class BundleError(TikgenError):
    """A bundle cannot be used: it is damaged, incomplete, of a later version, or closed."""

    def __init__(self, bundle: object, problem: str) -> None:
        super().__init__(f"The bundle {bundle} {problem}.")


class UnknownEntry(BundleError, KeyError):
    """A bundle does not have a kernel, graph, field or family of that name."""

    def __init__(
        self, bundle: object, kind: str, name: object, known: tuple[str, ...], hint: str = ""
    ) -> None:
        hint = hint or (near(name, known) if isinstance(name, str) else "")
        has = f"It has {', '.join(sorted(known)) or 'none'}"
        super().__init__(bundle, f"has no {kind} {name!r}.{hint} {has}")

    __str__ = Exception.__str__  # A KeyError shows its message in quotes.


class ExportError(TikgenError):
    """A kernel cannot be exported ahead of time, or its artefact failed its proof."""

    def __init__(self, what: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"Cannot export {what}: {problem}.")


class RecordingError(ExportError):
    """A file cannot be read as a recording of :func:`tikgen.aot.record`."""


class LibraryError(TikgenError):
    """Taichi's C library is missing, or reported an error.

    ``code`` is its error code, or 0.
    """

    def __init__(self, doing: str, problem: str, code: int = 0) -> None:
        self.code = code
        super().__init__(f"Taichi's C library, {doing}: {problem}.")


class StoreError(TikgenError):
    """A key, kind or document is not valid in the store."""


class StoreWarning(UserWarning):
    """The store cannot use an entry or the disk."""


class CellError(TikgenError):
    """A notebook's cell has an error; its previous definitions stay.

    IPython shows it without a traceback, which would contain tikgen's own files only.
    """

    def _render_traceback_(self) -> list[str]:
        return [str(self)]
