"""The machine code of a loaded kernel for an engine beside Taichi: found in the store, or made."""

from __future__ import annotations

import functools
import hashlib
import time
import weakref
from collections.abc import Sequence

from tikgen import engines
from tikgen.engines import code_store
from tikgen.engines.argument_struct import ArrayUse, Kind, array_use
from tikgen.engines.code_store import Stored
from tikgen.errors import EngineUnavailable
from tikgen.pipeline import events
from tikgen.pipeline.closed_text import is_closed
from tikgen.pipeline.loaded import Loaded
from tikgen.pipeline.signature import Signature
from tikgen.taichi import kernels, launcher, runtime
from tikgen.template.arguments import Array, Scalar


class MachineCode:
    """The machine code of a kernel for an engine and the current ``ti.init``.

    Args:
        loaded: the kernel.
        name: the engine.
        exact: whether results must have the bits of Taichi's, even with its fast math.

    Attributes:
        stored: the code, once it was found or made.

    Raises:
        EngineUnavailable: if it is known before compilation that the kernel needs Taichi.
    """

    def __init__(self, loaded: Loaded, name: str, exact: bool = False) -> None:
        # Weakly: what is kept for a kernel must not keep it alive.
        self._loaded: Loaded = weakref.proxy(loaded)
        self._engine = engines.engine(name)
        self._exact = exact
        self._name = loaded.source.variant.label
        if why := why_not(loaded, name):
            raise self._refused(why)
        every = (*loaded.signature.arguments, *loaded.numbers, *loaded.workspace)
        self._kinds = [
            (a.dtype, len(a.shape) if isinstance(a, Array) else None)
            for a in every
            if isinstance(a, Array | Scalar)
        ]
        self._use = _use_of(loaded.signature, self._kinds)
        self._key = self._text = ""
        self._cache = "store"
        self.stored: Stored | None = None
        # The code of another text is found by what Taichi makes of it.
        if is_closed(loaded.source.text):
            self._find({"digest": loaded.source.digest, "kernel": loaded.subject.name})

    def _find(self, what: dict[str, str]) -> None:
        self._key = code_store.key_of(
            {
                **what,
                "engine": self._engine.NAME,
                "exact": self._exact,
                "machine": dict(self._engine.identity()),
                "options": runtime.code_options(),
                "kinds": [(dtype.value, ndim) for dtype, ndim in self._kinds],
                "use": [sorted(self._use.read), self._use.same],
            }
        )
        self.stored = code_store.read(self._key)

    def make(self) -> None:
        """Make the code now, if the store has none.

        Raises:
            EngineUnavailable: if the kernel cannot run without Taichi.
            WrongThread: if Taichi cannot compile the kernel in this thread.
            KernelCompileError: if Taichi refuses the kernel.
        """
        if self.stored is None:
            text = self._taichi_text()
            if self.stored is None:
                try:
                    made = self._engine.machine_code(text, self._kinds, self._exact, self._use)
                except RuntimeError as error:
                    raise self._refused(f"LLVM makes no code of it: {error}") from error
                self.keep(Stored(made))

    def begin(self) -> engines.Making | None:
        """Begin to make exact code elsewhere, if the store has none; raises what :meth:`make` does.

        Its result is for :meth:`keep`.
        """
        if not self._engine.IS_TEXT_SLOW:
            self._taichi_text()
            if self.stored is not None:
                return None
        return self._engine.begin(self._taichi_text, self._kinds, self._key, self._name)

    def keep(self, stored: Stored) -> None:
        """Take code, and put it into the store."""
        self.stored, self._cache = stored, "compiled"
        code_store.keep(self._key, self._name, stored)

    def load(self) -> engines.Code:
        """Load the code, made if the store has none, into this process; raises what make does."""
        start = time.perf_counter()
        self.make()
        assert self.stored is not None
        try:
            code = self._engine.load(self.stored.content, self._kinds, self._exact)
        except ValueError:  # The store has something else under the key.
            if self._text:
                raise
            self.stored = None
            return self.load()
        details = {"engine": self._engine.NAME, "cache": self._cache, **runtime.init_options()}
        seconds = time.perf_counter() - start
        events.emit("engine", self._loaded.subject, start, seconds, **details)
        if runtime.may_materialise():  # Else other threads could not compile.
            runtime.materialise()
        return code

    def _taichi_text(self) -> str:
        """Return the code that Taichi makes of the kernel."""
        if not self._text:
            text_of = functools.partial(self._engine.text_of, exact=self._exact)
            if self._engine.IS_TEXT_SLOW:  # No lock is held meanwhile.
                text = text_of(self._loaded.function)
            else:
                text = self._loaded.compiled_text(text_of)
            if not kernels.is_plain_launch(self._loaded.function):
                raise self._refused("it prints")
            if why := self._engine.text_problem(text, self._kinds):
                raise self._refused(why)
            self._text = text
            if not self._key:
                self._find({"text": hashlib.sha256(text.encode()).hexdigest()})
        return self._text

    def _refused(self, why: str) -> EngineUnavailable:
        return EngineUnavailable(self._loaded.name, self._engine.NAME, why)


def why_not(loaded: Loaded, name: str) -> str:
    """Return why an engine cannot launch a kernel, as far as is known before it is compiled."""
    if runtime.current_arch() != engines.arch_of(name):
        return f"Taichi runs on {runtime.current_arch()}"
    if runtime.is_debug():
        return "debug mode needs Taichi"
    if not launcher.can_bind():
        return f"Taichi {runtime.version()} is not known to it"
    if any(isinstance(a, Array) and a.storage == "field" for a in loaded.signature.arguments):
        return "it takes fields"
    if "simt.grid.memfence" in loaded.source.text:
        return "it waits for what others write to memory"
    if loaded.signature.is_opaque:
        return "an opaque argument needs Taichi"
    return "a return value needs Taichi" if kernels.returns_value(loaded.function) else ""


def _use_of(signature: Signature, kinds: Sequence[Kind]) -> ArrayUse:
    """Return what a kernel does with its arrays."""
    arrays = {n: a for n, a in enumerate(signature.arguments) if isinstance(a, Array)}
    read = {n for n, array in arrays.items() if not array.written}
    return array_use(kinds, read, {n for n in arrays.keys() - read if arrays[n].inplace})
