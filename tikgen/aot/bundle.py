"""A bundle on disk: its contents, and what can be done with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tikgen.aot import manifest as m
from tikgen.aot.contents import Contents, bundle_path, check_all
from tikgen.aot.manifest import Failure as Failure
from tikgen.errors import ExportError, ParameterError
from tikgen.units import counted

if TYPE_CHECKING:
    from tikgen.aot.exporting.graphs import StepLike
    from tikgen.aot.running.bundle_runtime import Runtime


class Bundle:
    """A bundle on disk.

    Attributes:
        path: the folder, or the archive.
        manifest: its manifest.
        failures: what failed to be exported; empty for a bundle that was not exported here.
        reused: name and arch of what the last export reused.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        manifest: m.Manifest | None = None,
        failures: Sequence[Failure] = (),
        reused: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.path = bundle_path(path)
        if manifest is None:
            with contextlib.closing(Contents(self.path)) as contents:
                manifest = contents.manifest
        self.manifest = manifest
        self.failures = tuple(failures)
        self.reused = tuple(reused)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the names of its kernels."""
        return tuple(self.manifest.kernels)

    @property
    def graphs(self) -> tuple[str, ...]:
        """Return the names of its graphs."""
        return tuple(self.manifest.graphs)

    @property
    def archs(self) -> tuple[str, ...]:
        """Return the archs for which it has kernels or graphs."""
        entries = self.manifest.launchable
        return tuple(a for a in self.manifest.archs if any(a in e.builds for e in entries))

    @property
    def ok(self) -> bool:
        """Return whether nothing failed to be exported."""
        return not self.failures

    def add_graph(
        self, name: str, steps: Sequence[StepLike], *, temporaries: Sequence[str] = ()
    ) -> Bundle:
        """Add kernels of the bundle in sequence, launched by one call, and return the bundle.

        Args:
            name: name of the graph; an existing one of that name is replaced.
            steps: ``(kernel, {argument: value})`` or ``(kernel, value, ...)`` for each launch,
                where ``kernel`` is its name or what was exported, and a value is the name of an
                argument of the graph or of a temporary, or a number that stays fixed.
            temporaries: names of arrays that the runtime allocates, zeroed, and the steps share.

        Raises:
            ExportError: if the steps do not fit together, the graph fails its proof everywhere, or
                contents of the bundle would be lost: after an upgrade all of it is compiled anew,
                which needs every arch of the bundle.
        """
        if self.manifest.native:
            problem = "a native bundle has no graphs; call its functions in turn"
            raise ExportError(f"the graph {name!r}", problem)
        from tikgen.aot.exporting.existing_bundle import planned
        from tikgen.aot.exporting.graphs import plan_graph
        from tikgen.aot.exporting.writing import write

        with contextlib.closing(Contents(self.path)) as contents:
            kernels = contents.manifest.kernels
            graph = plan_graph(name, steps, kernels, temporaries)
            plan = planned(contents, may_lack_templates=True).with_graph(graph)
            held = contents.manifest.launchable
            needed = {(e.name, arch) for e in held if e.name != name for arch in e.builds}
            written = write(plan, self.path, needed=needed)
        failed = [f for f in written.failures if f.name == name]
        if name not in written.manifest.graphs:
            raise ExportError(f"the graph {name!r}", "; ".join(f.problem for f in failed))
        self.manifest, self.reused = written.manifest, written.reused
        self.failures = (*(f for f in self.failures if f.name != name), *written.failures)
        return self

    def verify(self, *, prove: bool = False, archs: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return what is wrong with the bundle, one sentence each.

        The structure of the manifest, its digest and that of every file are checked, and whether
        Taichi, if installed, has the version that the bundle needs. No code of the bundle runs.

        Args:
            prove: whether to prove its artefacts again. This runs the bundle's code: its compiled
                kernels, and its Python sources to compare them with.
            archs: archs to prove on; None takes all that work here.

        Raises:
            ParameterError: if archs are given without ``prove``, or the bundle has nothing for one.
        """
        if archs is not None and not prove:
            raise ParameterError("verify", {"archs": "needs prove=True"})
        problems = tuple(check_all(self.path))
        if problems or not prove:
            return problems
        from tikgen.aot.exporting.existing_bundle import proved_again

        return proved_again(self.path, archs)

    def load(self, arch: str | None = None) -> Runtime:
        """Load the bundle; see :func:`tikgen.aot.load`."""
        from tikgen.aot.running.loading import load

        return load(self.path, arch)

    def _repr_html_(self) -> str:
        from tikgen.aot.bundle_shown import html_of

        return html_of(self.path, self.manifest, self.failures, self.ok)

    def __repr__(self) -> str:
        counts = f"{counted(len(self.kernels), 'kernel')}, {counted(len(self.graphs), 'graph')}"
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<Bundle {self.path} of {counts} for {', '.join(self.archs)}{failed}>"
