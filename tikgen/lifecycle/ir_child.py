"""The process that compiles a kernel to show its IR: ``python -m tikgen.lifecycle.ir_child``.

Taichi prints some IR and writes other IR to the working directory, so this process has a folder of
its own. It launches kernels only on cuda, where compiling alone is not enough.
"""

from __future__ import annotations

import contextlib
import functools
import json
import linecache
import os
import re
import struct
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import taichi as ti

from tikgen.children.work import Tell, serve, start
from tikgen.errors import one_line
from tikgen.lifecycle.spirv import disassemble
from tikgen.pipeline.loader import entry_of
from tikgen.pipeline.rendering import code_of
from tikgen.taichi import arrays, hooks, kernels, runtime

# Taichi's option for each kind, and the files that it writes on cpu and cuda.
_FLAGS = {
    "ast": "print_ir",
    "chi": "print_ir",
    "llvm": "print_kernel_llvm_ir",
    "llvm-optimized": "print_kernel_llvm_ir_optimized",
    "asm": "print_kernel_asm",
    "ptx": "print_kernel_asm",
}
_FILES = {
    "llvm": "taichi_kernel_generic_llvm_ir_*.ll",
    "llvm-optimized": "taichi_kernel_*_llvm_ir_optimized_*.ll",
    "asm": "taichi_kernel_cpu_*asm_*.s",
    "ptx": "taichi_kernel_nvptx_*.ptx",
}
# Names that texts loaded live use without an import.
_NAMES = {"ti": ti, "np": np, "tm": ti.math}
_DTYPES = ("default_fp", "default_ip")
_CACHE = "cache"
# The line that Taichi logs before it prints a stage of a kernel or a function.
_STAGE = re.compile(
    r"^\[I [^]]*\] \[[^]]*\] \[(?P<owner>\w+)[.\w]*\] (?P<stage>.+):$", re.MULTILINE
)
_FIRST_OF_TASK = "Start offload_to_executable"


class _Stage(NamedTuple):
    owner: str
    name: str
    text: str


def main() -> None:
    """Serve with the arch, folder and options of ``ti.init`` on the command line."""
    arch, folder, text = sys.argv[1:]
    os.chdir(folder)
    # All kernels of this process are tikgen's.
    hooks.StageHooks(lambda _: False, lambda _: True, lambda *_: None)
    options = json.loads(text)
    kind = options.pop("kind")
    for name in options.keys() & set(_DTYPES):
        options[name] = arrays.primitive(options[name])
    if kind in _FILES:  # Some compilers read the option only when Taichi starts.
        options[_FLAGS[kind]] = True
    if kind == "spirv":
        options |= {"offline_cache": True, "offline_cache_file_path": _CACHE}
    # One thread, so that tasks are in order.
    options |= {"log_level": "info", "num_compile_threads": 1, "print_ir_dbg_info": False}
    again = functools.partial(start, arch, **options)
    serve(arch, functools.partial(_answer, again), lines_per_init=sys.maxsize, **options)


def _answer(again: Callable[[], None], line: str, tell: Tell) -> str:
    job = json.loads(line)
    try:
        text = _text_of(job)
        if not text and job["kind"] in _FILES:  # Taichi writes files of the same code only once.
            again()
            text = _text_of(job)
        return json.dumps({"text": text})
    except (runtime.CompilationError, runtime.RuntimeFailure) as error:
        return json.dumps({"refused": str(error)})
    except Exception as error:
        return json.dumps({"failed": one_line(error)})


def _text_of(job: dict[str, Any]) -> str:
    kind, function = job["kind"], _load(job)
    values = [_made_up(*argument) for argument in job["arguments"]]
    runtime.materialise()
    runtime.sync()
    for path in Path().glob("taichi_kernel_*"):  # Of kernels of Taichi itself.
        path.unlink()
    if kind in _FLAGS:
        setattr(ti.cfg, _FLAGS[kind], True)
    with _printing_into("printed"):
        kernels.ensure_compiled(function, values)
        if runtime.current_arch() == "cuda" and kind in ("llvm-optimized", "ptx"):
            function(*values)  # Generates the PTX.
            runtime.sync()
    if kind == "spirv":
        return _spirv(function.__name__)
    if kind in _FILES:
        return "\n".join(path.read_text() for path in sorted(Path().glob(_FILES[kind])))
    stages = list(_stages(Path("printed").read_text()))
    return _first_stages(stages) if kind == "ast" else _last_stages(stages)


def _load(job: dict[str, Any]) -> Any:
    text, filename = job["text"], job["filename"]
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    module = types.ModuleType("shown")
    vars(module).update(_NAMES)
    exec(code_of(text, filename), vars(module))
    return entry_of(module, job["entry"])


def _made_up(kind: str, what: Any, shape: list[int]) -> Any:
    """Return an argument: an array or a field of zeros, a zero, or the given value."""
    if kind == "value":
        return what
    if kind == "scalar":
        return 0.0 if what.startswith("f") else 0
    if kind == "field":
        return ti.field(arrays.primitive(what), tuple(shape))
    return arrays.make_ndarray(what, tuple(shape))


@contextlib.contextmanager
def _printing_into(path: str) -> Iterator[None]:
    """Redirect standard output and error to one file, C++ output included."""
    saved = [os.dup(stream) for stream in (1, 2)]
    with Path(path).open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        try:
            yield
        finally:
            for stream, before in zip((1, 2), saved, strict=True):
                os.dup2(before, stream)
                os.close(before)


def _stages(text: str) -> Iterator[_Stage]:
    """Yield each printed stage of the kernel and of the real functions that it calls."""
    found = list(_STAGE.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    for match, end in zip(found, ends, strict=True):
        yield _Stage(match["owner"], match["stage"], text[match.end() : end].strip())


def _first_stages(stages: Sequence[_Stage]) -> str:
    """Return the first stage of the kernel and of each function."""
    first: dict[str, str] = {}
    for stage in stages:
        first.setdefault(stage.owner, stage.text)
    return "\n".join(f"; {owner}\n{text}\n" for owner, text in first.items())


def _last_stages(stages: Sequence[_Stage]) -> str:
    """Return the last stage of each function and of each task of the kernel.

    On archs that run through LLVM tasks are compiled one by one, elsewhere together.
    """
    last: dict[tuple[str, int], str] = {}
    tasks: Counter[str] = Counter()
    for stage in stages:
        tasks[stage.owner] += stage.name == _FIRST_OF_TASK
        last[stage.owner, max(tasks[stage.owner], 1)] = stage.text
    order = list(tasks)
    return "\n".join(
        f"; {owner}{f', task {task}' if tasks[owner] > 1 else ''}\n{last[owner, task]}\n"
        for owner, task in sorted(last, key=lambda key: (order.index(key[0]), key[1]))
    )


def _spirv(function: str) -> str:
    """Return the SPIR-V of each task, from the entry of Taichi's offline cache."""
    ti.reset()  # Writes the cache.
    found = []
    for path in sorted(Path(_CACHE).rglob("*.tic")):
        data = path.read_bytes()
        # "TIC" in 4 bytes, arch, size of metadata, size of code; metadata; code; checksum.
        _, _, metadata_size, _ = struct.unpack_from("<4sIQQ", data)
        place = struct.calcsize("<4sIQQ")
        metadata = json.loads(data[place : place + metadata_size])["kernel_attribs"]
        if not metadata["name"].startswith(f"{function}_c"):
            continue
        _, count = struct.unpack_from("<QQ", data, place + metadata_size)
        place += metadata_size + 16
        for task in metadata["tasks_attribs"][:count]:
            (words,) = struct.unpack_from("<Q", data, place)
            code = struct.unpack_from(f"<{words}I", data, place + 8)
            place += 8 + 4 * words
            group = task["advisory_num_threads_per_group"]
            found.append(f"; Task {task['name']}, {group} threads a group\n{disassemble(code)}")
    return "\n".join(found)


if __name__ == "__main__":
    main()
