"""Files of checkpoints: full disks, damage, what a killed save leaves, links."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tikgen
from tikgen.errors import ProgramError

pytestmark = pytest.mark.usefixtures("ti_arch")
FILES = ["run.npz", "run.h5"]


def program() -> tikgen.Program:
    """Return a program of arrays that HDF5 writes late, being small."""
    u = np.random.default_rng(3).random((60, 50))
    return tikgen.Program(["n = n + 1"], n=np.zeros(1), u=u, v=u + 1)


def needs(name: str) -> None:
    """Skip the test if what a file needs is missing."""
    if name.endswith("h5"):
        pytest.importorskip("h5py")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Have the system write no file that is larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("name", [*FILES, "run.zarr"])
def test_a_checkpoint_that_is_cut_off_is_an_error_and_the_last_one_stays(
    name: str, tmp_path: Path
) -> None:
    needs(name)
    path, made = tmp_path / name, program()
    made.save(path)
    made.run(1)
    made["u"][...] = 7
    for size in range(0, 24_000, 1500):
        with largest_file(size), pytest.raises(ProgramError, match=f"{name}' cannot be written"):
            made.save(path)
        assert list(tmp_path.iterdir()) == [path]
    again = program()
    expected = again.state().arrays
    again.load(path)
    assert again.steps == 0
    assert all((again[name] == values).all() for name, values in expected.items())
