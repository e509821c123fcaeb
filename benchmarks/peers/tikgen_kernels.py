"""tikgen itself: with the default schedule, and with a tuned one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import taichi as ti

import tikgen
from peers.peer import Absent, Call, Peer
from tikgen.taichi.runtime import current_arch
from tikgen.template.catalogue import find_template
from works.work import Arguments, Work


def to_device(array: np.ndarray) -> Any:
    """Return a ti.ndarray with the contents of a host array."""
    device = ti.ndarray(getattr(ti, f"{array.dtype.kind}{8 * array.itemsize}"), array.shape)
    device.from_numpy(array)
    return device


def to_host(array: Any) -> np.ndarray:
    """Return the contents of a ti.ndarray; what is on the host already stays as it is."""
    return array if isinstance(array, np.ndarray) else array.to_numpy()


# On cpu kernels take NumPy arrays as they are; elsewhere arrays stay on the device.
PLACES: dict[bool, dict[str, Any]] = {
    True: {"finish": ti.sync},
    False: {"place": to_device, "fetch": to_host, "finish": ti.sync},
}


def default(work: Work, arguments: Arguments) -> Call:
    # Spelt out, since "auto" would take what tuning found in an earlier work or run.
    template = find_template(work.template)
    chosen = template.default_schedule(work.parameters, str(current_arch()), None)
    schedule = dict(template.Schedule(**chosen))
    return tikgen.build(work.template, schedule=schedule, **work.problem).bind(*arguments.values())


def tuned(work: Work, arguments: Arguments, seconds: float) -> Call:
    if not hasattr(tikgen, "tune"):
        raise Absent("this tikgen cannot tune")
    if seconds <= 0:
        raise Absent("no time given for tuning")
    tikgen.tune(work.template, shape=dict(work.sizes), budget=seconds, **work.problem)
    kernel = tikgen.build(work.template, schedule="tuned", shape=dict(work.sizes), **work.problem)
    return kernel.bind(*arguments.values())


def peer(machine: str) -> Peer:
    return Peer("default", "tikgen", default, **PLACES[machine == "cpu"])


def tuned_peer(machine: str, seconds: float) -> Peer:
    prepare = partial(tuned, seconds=seconds)
    return Peer("tuned", "tikgen, tuned", prepare, **PLACES[machine == "cpu"])
