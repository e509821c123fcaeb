"""A process that runs exported texts, with nothing but their fields."""

import importlib.util
import itertools
import pickle
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import taichi as ti

from conftest import ARCH
from tikgen.aot.user_kernels.extraction import OwnKernel

# Executes texts as the process that exports them does: with nothing but their fields.
WORKER = """
import linecache, os, pickle, sys

out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # Taichi prints a greeting.
import taichi as ti

ti.init(arch=getattr(ti, sys.argv[1]), log_level=ti.ERROR, offline_cache=False)
count = 0
while True:
    try:
        text, function, fields, arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    made = {}
    for name, (dtype, shape, element, values) in fields.items():
        kind = getattr(ti, dtype)
        if element:
            make = ti.types.vector if len(element) == 1 else ti.types.matrix
            kind = make(*element, kind)
        made[name] = ti.field(kind, shape)
        made[name].from_numpy(values)
    count += 1
    path = f"text_{count}"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    names = {"FIELDS": made}
    try:
        exec(compile(text, path, "exec"), names)
        names[function](*arguments)
        answer = arguments, {name: field.to_numpy() for name, field in made.items()}
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    pickle.dump(answer, out)
    out.flush()
"""

Result = tuple[tuple[Any, ...], dict[str, Any]]


class Fresh:
    """A process that knows kernels by their texts only."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, ARCH],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, own: OwnKernel, *arguments: Any) -> Result:
        """Return the arguments and the fields as a launch of the text leaves them."""
        fields = {
            name: (f.dtype, f.shape, f.element, own.sources[name].to_numpy())
            for name, f in own.fields.items()
        }
        assert self._process.stdin and self._process.stdout
        pickle.dump((own.text, own.function, fields, arguments), self._process.stdin)
        self._process.stdin.flush()
        answer: Any = pickle.load(self._process.stdout)
        assert not isinstance(answer, str), f"{answer}\n{own.text}"
        return answer

    def stop(self) -> None:
        """Let the process end."""
        assert self._process.stdin
        self._process.stdin.close()
        assert self._process.wait(60) == 0


def agrees(
    fresh: Fresh, own: OwnKernel, kernel: Any, arguments: tuple[Any, ...], **templates: Any
) -> None:
    """Compare the text with the kernel that it came from, which is launched here.

    Args:
        fresh: runs the text.
        own: the text.
        kernel: the kernel itself.
        arguments: what both are launched with.
        templates: what the kernel takes besides.
    """
    given = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    got, fields = fresh.run(own, *given)
    before = [source.to_numpy() for source in own.sources.values()]
    names = [a.name for a in own.arguments]
    kernel(**dict(zip(names, given, strict=True)), **templates)
    expected = {n: source.to_numpy() for n, source in own.sources.items()}
    changed = [not np.array_equal(a, b) for a, b in zip(arguments, given, strict=True)]
    changed += [not np.array_equal(a, b) for a, b in zip(before, expected.values(), strict=True)]
    assert any(changed), "the kernel does nothing"
    for one, other in itertools.chain(
        zip(got, given, strict=True), ((fields[n], expected[n]) for n in expected)
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


modules = itertools.count()


@ti.kernel
def axpy(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@ti.kernel
def scaled(a: ti.f32, x: ti.types.ndarray(ndim=1), y: ti.types.ndarray()):
    for i in range(x.shape[0]):
        y[i] = a * x[i] + y[i]


@ti.kernel
def repeated(n: ti.template(), x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        for j in ti.static(range(n)):
            x[i] += j + 1


@ti.kernel
def fill(f: ti.template(), kind: ti.template(), v: ti.f32):
    for i in f:
        f[i] = ti.cast(v, kind)


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    process = Fresh()
    yield process
    process.stop()


@pytest.fixture
def module_of(tmp_path: Path) -> Callable[..., Any]:
    """Import a text as a module of the user's, under the name that it is given."""

    def load(text: str, **names: Any) -> types.ModuleType:
        path = tmp_path / f"user_module_{next(modules)}.py"
        path.write_text("import taichi as ti\n\n" + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        vars(module).update(names)
        spec.loader.exec_module(module)
        return module

    return load
