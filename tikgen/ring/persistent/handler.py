"""The handler of a persistent kernel: assignments, or a body of Taichi statements."""

from __future__ import annotations

import hashlib
import inspect
import textwrap
import tokenize
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tikgen.ring.errors import InvalidConfigurationError
from tikgen.ring.persistent.layout import Layout
from tikgen.template.arguments import Array
from tikgen.template.dependencies import read_files
from tikgen.version import __version__

if TYPE_CHECKING:
    from tikgen.pipeline.kernel import Kernel
    from tikgen.pipeline.rendering import Variant

NAME = "ring"


class RingBody:
    """A message handler as a Jinja2 text of Taichi statements.

    It reads the inputs and the state, and assigns the outputs and the state, all of them local
    variables. It may contain loops and conditions.

    Args:
        text: the statements.
        reference: the same in NumPy, to prove the kernel: a function of the inputs of one message
            and the state by name that returns a dict of the outputs and the state. Without it the
            artefact is compared with the kernel that Taichi compiles in Python.
        params: values for names in the text: numbers, dtypes, identifiers, or tuples of these.

    Raises:
        InvalidConfigurationError: if the text is empty, or the reference is no function.
    """

    def __init__(
        self,
        text: str,
        *,
        reference: Callable[..., Mapping[str, Any]] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(text, str) or not text.strip():
            raise InvalidConfigurationError("handler", text, "takes a text that is not empty")
        if reference is not None and not callable(reference):
            raise InvalidConfigurationError("reference", reference, "takes a function")
        self.text = textwrap.dedent(text).strip("\n")
        self.reference = reference
        self.params = dict(params or {})

    @property
    def key(self) -> str:
        """Return a text that is equal for equal bodies."""
        from tikgen.template.parameters import canonical, plain

        return repr((self.text, canonical(plain(self.params)), _text_of(self.reference)))

    def __repr__(self) -> str:
        return f"RingBody({self.text!r:.60})"


def key_of(handler: object, layout: Layout, arch: str, taichi: str) -> str:
    """Return a digest that identifies a kernel; ``taichi`` is the version of Taichi."""
    text = handler.key if isinstance(handler, RingBody) else str(handler)
    parts = (type(handler).__name__, text, layout.key, arch, taichi, __version__, _fingerprint())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def kernel_of(handler: object, layout: Layout, arch: str) -> Kernel:
    """Return the kernel of a handler."""
    from tikgen.pipeline import builder, one_off  # Slow to import.

    params: dict[str, Any] = {"inputs": dict(layout.inputs), "outputs": dict(layout.outputs)}
    params |= {"state": tuple(layout.state), "dtype": layout.dtype}
    if not isinstance(handler, RingBody):
        # Not built: Taichi may run on another arch in this process.
        return builder.kernel_of(builder.render(NAME, arch=arch, handler=handler, **params))
    # A variant of the template with the same columns checks their names and dtypes.
    first = next(iter(layout.inputs))
    other = "; ".join(f"{name} = {first}" for name in layout.outputs if name not in layout.inputs)
    like = builder.resolve(NAME, arch=arch, handler=other or f"{first} = {first}", **params)
    return one_off.from_string(_text_with(handler.text, like), **handler.params)


def _fingerprint() -> str:
    """Return the digest of the template's files."""
    package = Path(__file__).parents[2]
    folders = (package / "templates", package.parent / "templates")
    folder = next((f / NAME for f in folders if (f / NAME).is_dir()), folders[0] / NAME)
    files = read_files(folder / "kernel.py.j2", folder / "template.py", (folder.parent,))
    return files.fingerprint


def _text_with(body: str, like: Variant) -> str:
    """Return a Jinja2 text of the kernel with a body, and the arguments of a variant."""
    problem: Any = like.problem
    schedule = like.schedule
    pairs = [
        [(str(name), "") for name in sorted(columns)]
        for columns in (problem.inputs, problem.outputs)
    ]
    chosen = {name: getattr(schedule, name) for name in ("polling", "lanes", "batch")}
    state = [str(name) for name in problem.state]
    arrays = [a for a in like.arguments if isinstance(a, Array)]
    arguments = "\n".join(f"    {a.name}: {a.annotation}," for a in arrays)
    return (
        '#% from "_shared/ring.j2" import ring\n'
        "import taichi as ti\n\n\n"
        f"@ti.kernel\ndef {NAME}(\n{arguments}\n):\n"
        f"    #% call ring({pairs[0]!r}, {pairs[1]!r}, {state!r}, none, {chosen!r})\n"
        f"{textwrap.indent(body, '    ')}\n"
        "    #% endcall\n"
    )


def _text_of(reference: Callable[..., Any] | None) -> str:
    """Return the source of a reference, or its code."""
    if reference is None:
        return ""
    try:
        return inspect.getsource(reference)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        code = getattr(reference, "__code__", None)
        return repr((code.co_code, code.co_consts)) if code is not None else repr(reference)
