"""The threads of the engine direct-cpu: they spin for a moment, then sleep, and hold no GIL.

The pool itself is LLVM text, thread_pool.ll. Its workers are Python threads that run its function
``worker`` from their start to the end of the process.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tikgen.engines import code_store, native

# How long a worker spins for the next loop, in cycles of the processor's clock: about 50 us.
_SPIN = 150_000
_SIZE = 640
_WORKERS, _NUMBERS, _SETS = 512, 584, 592
# Processors that a set of the system has, in bits.
_MOST_PROCESSORS = 1024
# By processor: what stands for the names in the text. RELAX is the instruction of a loop that
# waits, FUTEX and AFFINITY are numbers of system calls, and KEEP_MODE and TAKE_MODE store and load
# how a thread rounds.
_SYSTEMS = {
    "x86_64": {
        "FUTEX": "202",
        "AFFINITY": "203",
        "RELAX": "llvm.x86.sse2.pause()",
        "KEEP_MODE": "call void @llvm.x86.sse.stmxcsr(ptr %mode_at)",
        "TAKE_MODE": "call void @llvm.x86.sse.ldmxcsr(ptr %mode_at)",
        "DECLARED": "llvm.x86.sse2.pause()\n"
        "declare void @llvm.x86.sse.stmxcsr(ptr)\n"
        "declare void @llvm.x86.sse.ldmxcsr(ptr)",
    },
    "aarch64": {
        "FUTEX": "98",
        "AFFINITY": "122",
        "RELAX": "llvm.aarch64.hint(i32 1)",
        "KEEP_MODE": "%mode = call i64 @llvm.aarch64.get.fpcr()\n  store i64 %mode, ptr %mode_at",
        "TAKE_MODE": "%mode = load i64, ptr %mode_at\n"
        "  call void @llvm.aarch64.set.fpcr(i64 %mode)",
        "DECLARED": "llvm.aarch64.hint(i32)\n"
        "declare i64 @llvm.aarch64.get.fpcr()\n"
        "declare void @llvm.aarch64.set.fpcr(i64)",
    },
}


class ThreadPool:
    """Worker threads beside the calling one.

    Args:
        threads: how many threads run a loop, the calling one included.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._library = _library()
        self._memory = ctypes.create_string_buffer(_SIZE + 64)
        at = ctypes.addressof(self._memory)
        self.address = at + -at % 64
        self.parallel_for = self._library.address("parallel_for")
        self.serial_for = self._library.address("serial_for")
        self.backward_for = self._library.address("backward_for")
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(
            self._library.address("worker")
        )
        self._workers = [
            threading.Thread(
                target=work, args=(self.address, n), name=f"tikgen-worker-{n}", daemon=True
            )
            for n in range(1, threads)
        ]
        for worker in self._workers:
            worker.start()
        self._numbers = (ctypes.c_int32 * threads)(*(w.native_id or -1 for w in self._workers))
        self._sets = ctypes.create_string_buffer(_sets_without_one())
        for offset, held in ((_NUMBERS, self._numbers), (_SETS, self._sets)):
            ctypes.c_uint64.from_address(self.address + offset).value = ctypes.addressof(held)
        # Loops are shared from here on.
        self._count = ctypes.c_int32.from_address(self.address + _WORKERS)
        self._count.value = len(self._workers)
        atexit.register(self._stop)
        os.register_at_fork(after_in_child=self._forget)

    def _stop(self) -> None:
        self._count.value = 0
        stop = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library.address("stop"))
        stop(self.address)
        for worker in self._workers:
            worker.join()

    def _forget(self) -> None:
        """Run loops in one thread from now on: a forked process has no workers."""
        ctypes.memset(self.address, 0, _SIZE)
        self._workers = []


def _sets_without_one() -> bytes:
    """Return, for each processor, the set of those of this process but that one, in bits."""
    own = os.sched_getaffinity(0)
    everything = sum(1 << n for n in own if n < _MOST_PROCESSORS)
    sets = [everything] * _MOST_PROCESSORS
    for n in own:
        if n < _MOST_PROCESSORS and everything != 1 << n:
            sets[n] = everything & ~(1 << n)
    return b"".join(each.to_bytes(_MOST_PROCESSORS // 8, sys.byteorder) for each in sets)


@functools.cache
def _library() -> native.Library:
    text = Path(__file__).with_suffix(".ll").read_text(encoding="utf-8")
    return library_of(text, {"SPIN": str(_SPIN)}, "thread pool")


def library_of(text: str, values: Mapping[str, str], what: str) -> native.Library:
    """Return the library of LLVM text, which the store keeps for other processes.

    Args:
        text: the text, with names such as RELAX for what this processor and system need.
        values: what stands for further names.
        what: what it is, for people.
    """
    for name, value in {**_SYSTEMS[os.uname().machine], **values}.items():
        text = text.replace(name, value)
    key = code_store.key_of({"text": text, "machine": native.identity()})
    stored = code_store.read(key)
    if stored is None:
        stored = code_store.Stored(native.object_code(text))
        code_store.keep(key, what, stored)
    return native.Library(stored.content)


@functools.cache
def pool_of(threads: int) -> ThreadPool:
    """Return the pool of this process with a number of threads."""
    return ThreadPool(threads)


def problem() -> str:
    """Return why there is no pool on this machine, or an empty string."""
    if not hasattr(os, "uname") or os.uname().sysname != "Linux":
        return "its thread pool needs Linux"
    machine = os.uname().machine
    return "" if machine in _SYSTEMS else f"its thread pool does not know the processor {machine}"
