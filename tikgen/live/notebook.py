"""The extension of IPython and Jupyter: ``%load_ext tikgen``."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from tikgen.errors import CellError, TikgenError
from tikgen.lifecycle import html
from tikgen.lifecycle.description import describe
from tikgen.live import completion
from tikgen.live.cells import Cells, parse_line
from tikgen.pipeline.builder import build
from tikgen.pipeline.kernel import Kernel
from tikgen.template.catalogue import find_template, list_templates
from tikgen.template.reserved import RESERVED

# What `Loader.load` takes beside the parameters of a cell.
_OF_LOADER = frozenset({"text", "id", "check"})
# One for each shell, so that cells that are executed again reuse their kernels.
_extensions: weakref.WeakKeyDictionary[Any, Extension] = weakref.WeakKeyDictionary()


def load_ipython_extension(shell: Any) -> None:
    """Add the magics ``%%tikgen``, ``%tikgen`` and ``%tikgen_describe``, and completion.

    IPython calls this at ``%load_ext tikgen``.

    Args:
        shell: the ``InteractiveShell``.
    """
    if shell not in _extensions:
        _extensions[shell] = Extension(shell)
        _extensions[shell].install()


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics and the completion; kernels in the namespace stay.

    IPython calls this at ``%unload_ext tikgen``.

    Args:
        shell: the ``InteractiveShell``.
    """
    if shell in _extensions:
        _extensions.pop(shell).remove()


class Extension:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        # A proxy, since the shell owns its extension.
        self._shell = weakref.proxy(shell)
        self.cells = Cells()
        self._magics = {
            ("cell", "tikgen"): self.cell,
            ("line", "tikgen"): self.line,
            ("line", "tikgen_describe"): self.describe,
        }
        self._matcher = self._match

    def install(self) -> None:
        """Register the magics and the completion."""
        from IPython.core.completer import context_matcher
        from IPython.core.magic import no_var_expand

        for (kind, name), magic in self._magics.items():
            # Braces are dicts here, not expressions for IPython to expand.
            self._shell.register_magic_function(no_var_expand(_plain(magic)), kind, name)
        self._matcher = context_matcher()(_plain(self._match))
        self._shell.Completer.custom_matchers.append(self._matcher)
        self._shell.events.register("post_run_cell", self._restore)

    def remove(self) -> None:
        """Undo :meth:`install`."""
        for kind, name in self._magics:
            self._shell.magics_manager.magics[kind].pop(name, None)
        self._shell.events.unregister("post_run_cell", self._restore)
        matchers = self._shell.Completer.custom_matchers
        if self._matcher in matchers:
            matchers.remove(self._matcher)

    def cell(self, line: str, body: str) -> None:
        """Define kernels by Jinja2 text or plain Python: ``%%tikgen NAME [PARAMETER=VALUE ...]``.

        The definitions of the cell are added to the namespace: each ``@ti.kernel`` as a tikgen
        kernel that checks its arguments, functions and classes as they are. Parameters are those
        of the text; ``dim=$n`` takes the value of the variable ``n``. If the cell has an error, its
        previous definitions stay. An unchanged cell costs nothing.
        """
        with _shown_without_traceback():
            variables = self._shell.user_ns
            name, params = parse_line("%%tikgen", line, variables, RESERVED | _OF_LOADER)
            # Notebooks count the line of the magic as the first one.
            self._shell.push(self.cells.run(name, "\n" + body, params, variables))

    def line(self, line: str) -> Kernel:
        """Return the kernel of a template: ``%tikgen NAME [PARAMETER=VALUE ...]``.

        ``lap = %tikgen stencil dim=2`` is ``lap = tikgen.build("stencil", dim=2)``.
        """
        with _shown_without_traceback():
            name, params = parse_line("%tikgen", line, self._shell.user_ns, ("name",))
            return build(find_template(name), **params)

    def describe(self, line: str) -> None:
        """Describe a template: ``%tikgen_describe NAME``; without a name, list all templates."""
        from IPython.display import display

        with _shown_without_traceback():
            if line.strip():
                name, params = parse_line("%tikgen_describe", line, {}, RESERVED)
                if params:
                    raise CellError("%tikgen_describe takes the name of a template only")
                description = describe(name)
                text, shown = str(description), description._repr_html_()
            else:
                summaries = {name: find_template(name).summary for name in list_templates()}
                text = "\n".join(f"{name}: {what}" for name, what in summaries.items())
                shown = html.card("templates", html.table((), summaries.items()))
            display({"text/plain": text, "text/html": shown}, raw=True)

    def _restore(self, _: Any) -> None:
        """Restore the previous values of names if a new kernel could not be compiled."""
        self._shell.push(self.cells.restored(self._shell.user_ns))

    def _match(self, context: Any) -> dict[str, Any]:
        """Return completions in IPython's format."""
        from IPython.core.completer import SimpleCompletion

        found = completion.complete(
            context.full_text,
            context.cursor_line,
            context.cursor_position,
            self._shell.user_ns,
        )
        texts = [text for text in found.texts if text.startswith(context.token)]
        return {
            "completions": [SimpleCompletion(text=text, type="tikgen") for text in texts],
            "suppress": found.is_all and bool(texts),
            "ordered": True,
        }


def _plain(method: Any) -> Any:
    """Return a method as a function, on which IPython can set attributes."""

    def function(*args: Any) -> Any:
        return method(*args)

    function.__doc__ = method.__doc__
    function.__name__ = method.__name__
    return function


@contextlib.contextmanager
def _shown_without_traceback() -> Iterator[None]:
    """Turn errors of tikgen into :class:`CellError`, which IPython shows without a traceback."""
    try:
        yield
    except CellError:
        raise
    except TikgenError as error:
        raise CellError(f"{type(error).__name__}: {error}") from None
