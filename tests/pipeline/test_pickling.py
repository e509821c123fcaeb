"""What belongs to a process is refused where it is pickled, not where the pickle is loaded."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.pipeline.signature import Signature

TEXT = """
import taichi as ti

@ti.kernel
def fill(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in x:
        x[i] = 1.0
"""
KERNELS = {
    "sized": lambda: tikgen.elementwise("z = a*x + y"),
    "plain": lambda: tikgen.build("stencil", dim=2, shape=(8, 8)),
    "text": lambda: tikgen.from_string(TEXT),
}
_PARTS = ("variant", "template", "problem", "schedule", "source", "signature")


@pytest.mark.parametrize("kind", KERNELS)
def test_kernels_and_their_parts_are_refused_by_pickle(kind):
    kernel = KERNELS[kind]()
    for value in (kernel, [kernel], *(getattr(kernel, part) for part in _PARTS)):
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            with pytest.raises(TypeError, match=r"belongs to the process that made it.*\. "):
                pickle.dumps(value, protocol)


@pytest.mark.parametrize("kind", KERNELS)
def test_copies_of_kernels_work_as_those_of_functions(kind):
    kernel = KERNELS[kind]()
    assert copy.deepcopy({"kernel": kernel})["kernel"] is kernel
    with pytest.raises(TypeError, match=r"it belongs .*, and cannot be pickled\. "):
        pickle.dumps(kernel)
    for part in ("variant", "template", "source"):
        assert copy.deepcopy(getattr(kernel, part)) is getattr(kernel, part)
        assert vars(copy.copy(getattr(kernel, part))) == vars(getattr(kernel, part))
    problem = copy.deepcopy(kernel.problem)
    assert problem == kernel.problem == kernel.problem.model_copy()
    assert isinstance(copy.copy(kernel.signature), Signature)
    assert copy.copy(kernel).name == kernel.name


@pytest.mark.parametrize("kind", ["sized", "plain"])
def test_parameters_are_the_recipe_of_a_kernel(kind):
    kernel = KERNELS[kind]()
    name, params = pickle.loads(pickle.dumps((kernel.template.name, kernel.params)))
    assert tikgen.build(name, **params).problem == kernel.problem


def test_bound_kernels_and_programs_are_refused(ti_arch: str):
    x, y = np.zeros((2, 8, 8), "f4")
    bound = tikgen.build("stencil", dim=2).bind(x, y)
    program = tikgen.Program([bound])
    for value in (bound, program):
        for act in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to the process that made it"):
                act(value)


def test_parts_of_a_loaded_bundle_are_refused(tmp_path: Path):
    from tikgen.aot.running.bundle_runtime import Named
    from tikgen.aot.running.launchable import Family

    for value in (Named(tmp_path, "kernel", ["a"], str), Family("a", [])):
        with pytest.raises(TypeError, match="Load the bundle in the process that uses it"):
            pickle.dumps(value)
