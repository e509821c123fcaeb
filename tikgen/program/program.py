"""A program: bound kernels, swaps, loops and conditions that run many steps."""

from __future__ import annotations

import contextlib
import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tikgen.errors import ProgramError, TikgenError
from tikgen.pipeline import events
from tikgen.pipeline.events import Subject
from tikgen.program import agreement, checkpoints, picture, running, saving
from tikgen.program import reference as references
from tikgen.program import state as states
from tikgen.program.agreement import Check
from tikgen.program.exporting import exported
from tikgen.program.interrupts import Interrupts
from tikgen.program.parts import Part, kept, parts_of
from tikgen.program.plan import Plan
from tikgen.program.reference import Verified
from tikgen.program.several_steps import SeveralStepper, several_steps
from tikgen.program.slots import Slots
from tikgen.program.state import State
from tikgen.program.steppers import choice, stepper_of
from tikgen.program.stepping import Stepper
from tikgen.program.walk import Walk
from tikgen.taichi import runtime
from tikgen.template.here import Here


class Program(Here):
    """A list of parts that runs many steps, with the least work on the host.

    One pass over the list is a step. A part is a bound kernel, an assignment to one-element arrays
    such as ``"alpha = rr / pq"``, or what :func:`swap`, :func:`copy`, :func:`loop`, :func:`when`
    and :func:`varying` return. On cpu steps run in native code where the engine direct-cpu can
    launch every kernel, on cuda as CUDA graphs where the engine direct-cuda can; elsewhere Python
    launches them.

    A swap copies nothing: afterwards each array of a pair stands where the program names the other
    one. So after an odd number of steps with ``swap((u, un))`` the array ``un`` holds the newest
    values of ``u``. ``program["u"]`` and ``program.current(u)`` are the array that holds them, and
    :meth:`settle` moves every array's values into itself.

    Args:
        parts: what a step does, in order.
        native: whether steps run in native code or as CUDA graphs: None where possible, True
            always, False never.
        temporal_blocking: whether several steps at a time go over a slab of the grid that fits the
            cache, which gives the same bits: None where that takes less time, which is measured
            once a program has run for a second, True wherever possible, False never. Only native
            code on cpu does so.
        names: arrays, and numbers for conditions, by name. Arrays without a name have that of the
            argument for which they are passed first, numbered where several would have one. A
            copy of such an array does not take its name.

    Raises:
        ProgramError: if a part cannot run as it is written: arrays that are swapped differ, were
            made before the last ``ti.init``, or share memory with others; a name is unknown, or
            ``e`` or ``pi``; ``native=True`` is not possible; or processes that share a grid make
            different programs.
    """

    def __init__(
        self,
        parts: Iterable[Any],
        /,
        *,
        native: bool | None = None,
        temporal_blocking: bool | None = None,
        **names: Any,
    ) -> None:
        given = kept(parts)
        with agreement.refusing((given, *names.values())):
            choices = choice("native", native), choice("temporal_blocking", temporal_blocking)
            self._parts = listed = parts_of(given)
            if not listed:
                raise ProgramError("a program takes at least one part")
            self._slots = Slots(names)
        self._plan = Plan(listed, self._slots)
        if not self._plan.calls():
            raise ProgramError("a program takes at least one kernel")
        several = several_steps(listed)
        self._several = (
            None if several is None else (several, Plan(several.parts, self._slots, self._plan))
        )
        self._epoch = runtime.epoch()
        maker = sys._getframe(1)
        self._subject = Subject("program", maker.f_code.co_filename, maker.f_lineno, "program")
        self._choices = choices
        self._lock, self._worker = threading.Lock(), 0
        stepper, self._why = self._made_stepper()
        team = self._plan.team
        if team and isinstance(stepper, SeveralStepper) and not stepper.is_of_use(team):
            self._several, stepper = None, stepper.one
        self._walk = Walk(self._plan, stepper)

    def _made_stepper(self) -> tuple[Stepper, str]:
        """Return what does the steps, and why it is Python, if it is."""
        stepper, why = stepper_of(self._plan, *self._choices)
        if self._several is None:
            return stepper, why
        several, plan = self._several
        return SeveralStepper(stepper, stepper_of(plan, *self._choices)[0], several), why

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return what a step does, in order."""
        return self._parts

    @property
    def steps(self) -> int:
        """Return how many steps it has run, those before a restored state included."""
        return self._walk.steps

    @property
    def is_native(self) -> bool:
        """Return whether steps run in native code, or as CUDA graphs."""
        return not self._why

    @property
    def why_not_native(self) -> str:
        """Return why Python launches the kernels, or an empty string."""
        return self._why

    @property
    def why_not_blocked(self) -> str:
        """Return why several steps cannot go over a slab that fits the cache, or an empty string.

        Without a reason they do with ``temporal_blocking=True``, and else where that is faster.
        """
        return self._walk.stepper.why_not_blocked

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its arrays."""
        return tuple(self._slots.names)

    def __getitem__(self, name: str) -> Any:
        """Return the array that holds the values of a name now.

        Raises:
            ProgramError: if there is no such name.
        """
        return self._standing(self._slots.lookup(name))

    def __iter__(self) -> Iterator[str]:
        """Return an iterator over the names of its arrays."""
        return iter(self.names)

    def current(self, array: Any) -> Any:
        """Return the array that stands for ``array`` now, after all swaps so far.

        Raises:
            ProgramError: if no kernel of the program takes the array.
        """
        return self._standing(self._slots.number_of(array, "current"))

    def _standing(self, number: int) -> Any:
        standing = self._walk.standing(number)
        return self._slots.held.get(standing, self._slots.arrays[standing])

    def run(
        self,
        steps: int | None = None,
        *,
        every: int | None = None,
        call: Callable[[Program], Any] | None = None,
        until: str | None = None,
        check_every: int = 1,
        most: int | None = None,
        progress: bool = False,
        watch: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        minutes: float | None = None,
    ) -> running.Run:
        """Run steps; return how many were done, how long they took and why they ended.

        Ctrl-C ends it between two steps, on all processes that share a grid after the same one.

        Args:
            steps: how many steps; or use ``until``.
            every: ``call`` is called after each step whose number is a multiple of it.
            call: a function that takes the program; on ranks of a grid from 1 on it may be None.
            until: a condition on one-element arrays and numbers by name, such as ``"rr < 1e-8"``;
                steps end where it holds.
            check_every: conditions are checked after each step whose number is a multiple of it,
                and at the end.
            most: how many steps at most, which ``until`` needs.
            progress: whether to show a bar with steps a second, GB/s and the time left.
            watch: a condition that must hold, such as ``"dt*umax/dx < 1"``.
            checkpoint: the file of :meth:`save` that is written when SIGTERM asks this process, or
                one of those that share a grid, to end; all of them end with status 75 then.
            minutes: ``checkpoint`` is written every so many minutes as well.

        Raises:
            ProgramError: if an argument does not fit, or differs between processes that share a
                grid; an array was freed, moved or resized since the program was made; ``watch``
                does not hold, or ``checkpoint`` cannot be written: the arrays then hold the values
                after that step.
            Terminated: a SystemExit, after SIGTERM, once ``checkpoint`` is written.
            KeyboardInterrupt: after Ctrl-C, on all processes that share a grid.
        """
        before = self._walk.steps
        wanted = running.Wanted(
            steps, every, call, until, check_every, most, progress, watch, checkpoint, minutes
        )
        # From here on, as processes wait for each other to make the call.
        interrupts = Interrupts(self._walk)
        call_of_all = self._working(
            wanted.described, lambda: wanted.check(self._walk), runs=True, launches=True
        )
        with interrupts, call_of_all:
            start = time.perf_counter()
            try:
                return running.run(
                    self._walk, wanted, lambda: self._called(call), self.save, interrupts
                )
            finally:
                self._record(start, self._walk.steps - before)

    def _called(self, call: Callable[[Program], Any] | None) -> None:
        """Call a user's function; where processes wait for this one, its error ends all of them."""
        team = self._plan.team
        if call is not None:
            with contextlib.nullcontext() if team is None else team.ending_together():
                call(self)
        self._plan.renew()

    def _record(self, start: float, steps: int) -> None:
        """Record a run for traces."""
        seconds, how = time.perf_counter() - start, self._walk.stepper.how
        events.emit("run", self._subject, start, seconds, steps=steps, how=how)

    def stop(self) -> None:
        """End a run in progress after its current step; another thread or ``call`` may do so.

        Where several processes share a grid, any of them may, and all end after the same step.
        """
        self._walk.stop()

    def settle(self) -> None:
        """Move values so that each array holds those of its own name again.

        This copies the arrays that swaps left in each other's places, and nothing else.
        """
        with self._working("settle()"):
            states.settle(self._walk, self._slots)

    def state(self) -> State:
        """Return copies of all values by name, and the number of steps.

        Raises:
            ProgramError: if another thread runs the program.
        """
        with self._reading():
            return states.state_of(self._walk, self._slots)

    def restore(self, found: State) -> None:
        """Go back to a state: each array then holds the values of its own name.

        Args:
            found: what :meth:`state` returned, of this program or of another one with arrays of
                the same names, dtypes and shapes.

        Raises:
            ProgramError: if the arrays differ.
        """
        with self._working("restore(...)"):
            states.restore(self._walk, self._slots, found, self._plan.team)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state into a file, a checkpoint; see :meth:`load`.

        An existing file is replaced in one step, so that it is whole at any time.

        Args:
            path: the file: of HDF5 if its name ends in ``.h5`` or ``.hdf5``, which needs the extra
                ``hdf5``; a store of Zarr if it ends in ``.zarr``, to which all processes of a grid
                write at once, each its own part; of NumPy's format npz if it ends in ``.npz``, or
                has no ending. Of processes that share a grid, the path of rank 0 counts.

        Raises:
            ProgramError: if the name has another ending, the file cannot be written, or another
                thread runs the program.
        """
        name = checkpoints.name_of(path)
        with self._reading(f"save({name!r})", lambda: checkpoints.check_new(path, "save")):
            saving.save(self._walk, self._slots, self._plan.team, path, str(self))

    def load(self, path: str | os.PathLike[str], *, missing_ok: bool = False) -> bool:
        """Go back to the state in a file that :meth:`save` wrote, in another process as well.

        Args:
            path: the file.
            missing_ok: whether nothing is done where there is no such file.

        Returns:
            Whether there was one.

        Raises:
            ProgramError: if the file cannot be read, is no checkpoint, or has arrays of other
                names, dtypes or shapes.
        """
        call = f"load({checkpoints.name_of(path)!r}, missing_ok={missing_ok})"
        with self._working(call, lambda: checkpoints.check_path(path, "load")):
            return saving.load(self._walk, self._slots, self._plan.team, path, missing_ok)

    def reference(self, steps: int) -> dict[str, Any]:
        """Return the values of every name after further steps, computed by NumPy.

        It uses the references of the kernels, rounds what they write to the dtypes of the arrays,
        and changes none.

        Raises:
            ProgramError: if ``steps`` is no whole number of 0 or more.
            TemplateError: if a kernel has no reference.
        """
        wanted = running.Wanted(steps=steps)
        call = f"reference({running.told(steps)})"
        with self._reading(call, lambda: wanted.check(self._walk)):
            return references.reference(self._walk, self._slots, wanted.total)

    def verify(self, steps: int = 3) -> Verified:
        """Compare each launch of further steps with its reference, then put all arrays back.

        Launches are those of a run, with the arrays and scalars of each step.

        Raises:
            ProgramError: if ``steps`` is no whole number of 0 or more.
        """
        wanted = running.Wanted(steps=steps)
        call = f"verify({running.told(steps)})"
        with self._working(call, lambda: wanted.check(self._walk), launches=True):
            return references.verify(self._walk, self._slots, wanted.total)

    def export(
        self, path: str | os.PathLike[str], archs: Sequence[str] | None = None, **options: Any
    ) -> Any:
        """Export its steps as the graph ``program`` of a bundle, which runs without Python.

        The graph does as many steps as its arrays need to stand as at first, two for a program that
        swaps a pair, and takes the arrays by the names of the program. Scalars stay as they are.

        Args:
            path: a folder, or a file whose name ends in ``.zip``.
            archs: archs to compile for: ``"x64"``, ``"vulkan"``, ``"cuda"``, or ``"cpu"``; None
                takes x64 and vulkan.
            options: options of :func:`tikgen.aot.export`, such as ``verify=True``.

        Returns:
            The :class:`tikgen.aot.Bundle`.

        Raises:
            ProgramError: if it has conditions, scalars that change with the step, arrays that share
                memory and are written, or too many launches.
            ExportError: as :func:`tikgen.aot.export` raises it, and if the graph is on no arch.
        """
        return exported(self._plan, self._slots, path, archs, options)

    @contextmanager
    def _working(
        self, call: str, *fits: Check, runs: bool = False, launches: bool = False
    ) -> Iterator[None]:
        """Refuse two calls at once, arrays that changed, and processes that call other things.

        Args:
            call: what is called, with its arguments.
            fits: raises ProgramError if an argument does not fit.
            runs: whether it does steps.
            launches: whether it launches kernels.
        """
        if not self._lock.acquire(blocking=False):
            raise ProgramError("the program is running already")
        self._worker = threading.get_ident()
        try:
            self._check_all(call, *fits, runs=runs, launches=launches)
            yield
        finally:
            self._walk.stepper.finish()
            self._worker = 0
            self._lock.release()

    @contextmanager
    def _reading(self, call: str = "", *fits: Check) -> Iterator[None]:
        """Refuse to read values that another thread changes; what a run calls may read them."""
        if self._worker == threading.get_ident():
            self._check_all(call, *fits, runs=False, launches=False)
            yield
        else:
            with self._working(call, *fits):
                yield

    def _check_all(self, call: str, *fits: Check, runs: bool, launches: bool) -> None:
        """Raise ProgramError if it cannot run now, or other processes call something else."""
        team, checks = self._plan.team, (self.check if launches else self._check_arrays, *fits)
        if team is None or not call:
            for check in checks:
                check()
        else:
            runtime.refuse_fork("the program")
            functions = self._plan.composites if runs else []
            agreement.check_call(team, call, checks, self._slots, functions, self.steps)
        self._plan.renew()

    def check(self) -> None:
        """Raise ProgramError if it cannot run now, since an array, Taichi or a kernel changed."""
        self._check_arrays()
        try:
            if not self._walk.stepper.is_current:
                self._walk.stepper, self._why = self._made_stepper()
        except TikgenError as error:
            raise ProgramError(str(error)) from None

    def _check_arrays(self) -> None:
        """Raise ProgramError if the arrays are of no use now; they need no code of kernels."""
        runtime.refuse_fork("the program")
        if runtime.epoch() is not self._epoch:
            raise ProgramError("the program was made before the last ti.init; make it again")
        self._slots.check_unchanged()

    def __str__(self) -> str:
        """Return the program in words, a line for each part."""
        return "\n".join(picture.lines(self._parts, self._slots))

    def __repr__(self) -> str:
        what = picture.summary(self._parts, self._walk.stepper.how, self._plan.team)
        return f"<Program of {what}, step {self.steps}>"

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook."""
        return f"<pre>{html.escape(repr(self))}\n{html.escape(str(self))}</pre>"
