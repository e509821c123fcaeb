"""States, checkpoints and references: where a program goes on, and what it must compute."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tikgen
from steppers import stepped
from tikgen.errors import ProgramError, TemplateError, VerificationError

pytestmark = pytest.mark.usefixtures("ti_arch")
SHAPE = (6, 7)


def program(native: bool | None = None, names: str = "u un") -> tikgen.Program:
    """Return a program that needs an even number of steps to have its arrays as at first."""
    step = tikgen.build("stencil", dim=2, update=True, boundary="periodic")
    grow = tikgen.elementwise("x = a*x")
    u = np.random.default_rng(3).random(SHAPE, np.float32)
    un = np.zeros_like(u)
    count = np.zeros(1, np.float32)
    return tikgen.Program(
        [
            step.bind(u, un, 0.2),
            tikgen.swap((u, un)),
            "count = count + 1",
            tikgen.varying(grow.bind(x=count, a=1), a=lambda step: 1 + step / 64),
        ],
        native=native,
        **dict(zip(names.split(), (u, un), strict=True)),
        count=count,
    )


@stepped
def test_a_program_goes_on_from_a_state_bit_for_bit(native: bool) -> None:
    made = program(native)
    made.run(3)
    state = made.state()
    made.run(4)
    later = made.state()
    made.restore(state)
    assert made.steps == 3
    made.run(4)
    for name, values in made.state().arrays.items():
        assert (values == later.arrays[name]).all()


@stepped
def test_after_a_restore_each_array_holds_its_own_values(native: bool) -> None:
    made = program(native)
    u = made["u"]
    made.run(3)
    assert made["u"] is not u
    state = made.state()
    made.restore(state)
    assert made["u"] is u
    assert (u == state.arrays["u"]).all()


@stepped
def test_settling_moves_values_into_the_arrays_of_their_names(native: bool) -> None:
    made, other = program(native), program(native)
    u = made["u"]
    for each in (made, other):
        each.run(3)
    made.settle()
    assert made["u"] is u
    assert (u == other["u"]).all()
    for each in (made, other):
        each.run(2)
    assert (made["u"] == other["u"]).all()


@pytest.mark.once
@stepped
def test_another_process_goes_on_from_a_checkpoint_bit_for_bit(
    native: bool, tmp_path: Path
) -> None:
    file = tmp_path / "run.npz"
    made = program(native)
    made.run(5)
    made.save(file)
    made.run(4)
    go_on = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "from conftest import init_taichi; init_taichi()\n"
        "from test_program_state import program\n"
        f"made = program({native}); made.load(sys.argv[3]); made.run(4); made.save(sys.argv[3])"
    )
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", go_on, str(here), str(here.parent), str(file)],
        check=True,
        capture_output=True,
        cwd=here.parents[1],
    )
    with np.load(file) as found:
        assert set(found) == {"u", "un", "count", "tikgen.json"}
        for name, values in made.state().arrays.items():
            assert (found[name] == values).all()
    again = program(native)
    again.load(file)
    assert again.steps == 9


def test_a_checkpoint_of_another_program_is_refused(tmp_path: Path) -> None:
    made = program()
    made.save(tmp_path / "run.npz")
    with pytest.raises(ProgramError, match=r"has no v, vn and has u, un, which the program has"):
        program(names="v vn").load(tmp_path / "run.npz")
    state = made.state()
    state.arrays["u"].resize((7, 6), refcheck=False)
    with pytest.raises(ProgramError, match=r"'u' takes float32 of shape \(6, 7\); it is"):
        made.restore(state)
    with pytest.raises(ProgramError, match=r"restore takes what state\(\) returned; got dict"):
        made.restore({})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["run.npz", "run.h5"])
@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 half of one"])
def test_a_file_that_is_no_checkpoint_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    if name.endswith("h5"):
        pytest.importorskip("h5py")
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ProgramError, match="is no checkpoint of a program"):
        program().load(file)


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        (None, "it has no tikgen.json"),
        ('{"format": 99, "steps": 1}', "it has another format"),
        ("[1]", "it has another format"),
        ('{"format": 1, "steps": -1}', "it has no number of steps"),
        ('{"format": 1, "steps": true}', "it has no number of steps"),
    ],
)
def test_a_checkpoint_says_what_it_is(about: str | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    with zipfile.ZipFile(file, "w") as archive:
        if about is not None:
            archive.writestr("tikgen.json", about)
    with pytest.raises(ProgramError, match=f"is no checkpoint of a program: {problem}"):
        program().load(file)


def test_without_h5py_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ProgramError, match=r"HDF5 needs h5py; pip install tikgen\[hdf5\]"):
        program().save(tmp_path / "run.h5")


def test_an_array_that_is_only_read_keeps_its_values() -> None:
    fixed = np.ones(1, np.float32)
    fixed.flags.writeable = False
    made = tikgen.Program(["n = n + one"], n=np.zeros(1, np.float32), one=fixed)
    state = made.state()
    made.restore(state)
    state.arrays["one"][0] = 2
    with pytest.raises(ProgramError, match="array 'one' is read-only and differs"):
        made.restore(state)


def test_a_checkpoint_that_would_unpack_to_far_more_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.npz"
    made = program()
    made.save(file)
    with zipfile.ZipFile(file) as archive:
        kept = {n: archive.read(n) for n in archive.namelist() if n != "u.npy"}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
        archive.writestr("u.npy", bytes(1 << 20))
    with pytest.raises(ProgramError, match="has a larger array 'u' than the program"):
        made.load(file)


def test_a_checkpoint_of_hdf5_holds_a_dataset_for_each_name(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    file, made = tmp_path / "run.h5", program()
    made.run(5)
    expected = made.state()
    made.save(file)
    with h5py.File(file) as found:
        assert {name: found[name][()].tolist() for name in found} == {
            name: values.tolist() for name, values in expected.arrays.items()
        }
    made.run(3)
    made.load(file)
    assert made.steps == 5
    for name, values in expected.arrays.items():
        assert (made[name] == values).all()
    with pytest.raises(ProgramError, match="has no v, vn and has u, un"):
        program(names="v vn").load(file)


def test_elements_in_another_file_are_no_part_of_a_checkpoint(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    file, made = tmp_path / "run.h5", program()
    made.save(file)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(6 * 7 * 4))
    shape = made["u"].shape
    with h5py.File(file, "r+") as found:
        del found["u"]
        found.create_dataset("u", shape, "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(ProgramError, match="u holds no elements"):
        made.load(file)
    with h5py.File(file, "r+") as found:
        del found["u"]
        found["u"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/u")
    with pytest.raises(ProgramError, match="u holds no elements"):
        made.load(file)
    with h5py.File(file, "r+") as found:
        del found["u"]
        found.create_dataset("u", (1 << 20,), "f4", chunks=True)
    with pytest.raises(ProgramError, match="larger array 'u' than the program"):
        made.load(file)


def test_a_checkpoint_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    made = program()
    with pytest.raises(ProgramError, match="cannot be written: No such file or directory"):
        made.save(tmp_path / "missing" / "run.npz")
    with pytest.raises(ProgramError, match="cannot be read: No such file or directory"):
        made.load(tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_a_name_without_an_ending_is_one_of_npz(tmp_path: Path) -> None:
    made = program()
    made.run(3)
    made.save(tmp_path / "run")
    (tmp_path / "run").rename(tmp_path / "run.old")  # What is read may have any name.
    other = program()
    assert other.load(tmp_path / "run.old")
    assert (other["u"] == made["u"]).all()


@stepped
def test_the_reference_takes_the_same_steps_in_numpy(native: bool) -> None:
    made = program(native)
    made.run(1)
    before = made.state()
    expected = made.reference(4)
    for name, values in made.state().arrays.items():
        assert (values == before.arrays[name]).all()
    made.run(4)
    for name, values in made.state().arrays.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-6)


@stepped
def test_verification_compares_each_launch_and_changes_nothing(native: bool) -> None:
    made = program(native)
    made.run(1)
    before = made.state()
    found = made.verify(steps=3)
    assert found.ok
    assert found.launches == 9
    assert not found.unchecked
    after = made.state()
    assert after.steps == before.steps
    for name, values in after.arrays.items():
        assert (values == before.arrays[name]).all()


def test_verification_tells_which_kernels_have_no_reference() -> None:
    text = """
import taichi as ti

@ti.kernel
def twice(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(x.shape[0]):
        x[i] = 2*x[i]
"""
    x = np.ones(3, np.float32)
    bound = tikgen.from_string(text).bind(x)
    made = tikgen.Program([bound, "n = n + 1"], n=np.zeros(1, np.float32))
    found = made.verify(2)
    assert found.ok
    assert found.launches == 2
    assert found.unchecked == (bound.kernel.name,)
    assert x.tolist() == [1, 1, 1]
    alone = tikgen.Program([bound]).verify()
    assert not alone.ok
    with pytest.raises(VerificationError, match="no kernel has a reference"):
        alone.raise_for_failure()
    with pytest.raises(TemplateError, match="has no reference"):
        made.reference(1)


@stepped
def test_verification_finds_a_launch_that_differs(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = program(native)
    template = tikgen.build("stencil", dim=2, update=True, boundary="periodic").template
    right = template.reference

    def wrong(p: Any, *arguments: Any) -> Any:
        found = np.array(right(p, *arguments))
        found[1, 2] += 1
        return found

    monkeypatch.setattr(type(template), "reference", staticmethod(wrong))
    found = made.verify()
    assert not found.ok
    with pytest.raises(VerificationError, match=r"step 0: stencil_.*, y\[1, 2\] is .* off by 1 "):
        found.raise_for_failure()


def test_values_are_not_read_while_another_thread_changes_them(tmp_path: Path) -> None:
    made, found = program(), []

    def refused(read: Callable[[], object]) -> None:
        with pytest.raises(ProgramError, match="running already"):
            read()
        found.append(1)

    def call(running: tikgen.Program) -> None:
        assert running.state().steps == running.steps
        running.save(tmp_path / "own.npz")
        for read in (running.state, lambda: running.save("x.npz"), lambda: running.reference(1)):
            other = threading.Thread(target=refused, args=(read,))
            other.start()
            other.join()

    made.run(2, every=1, call=call)
    assert len(found) == 6
    assert made.state().steps == 2


@stepped
def test_ctrl_c_ends_a_run_between_two_steps(native: bool) -> None:
    n, count, other = (np.zeros(1, np.float32) for _ in range(3))

    def press(step: int) -> float:
        if step == 37:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    add = tikgen.elementwise("x = x + a")
    made = tikgen.Program(
        [
            tikgen.varying(add.bind(x=n, a=0), a=press),
            "count = count + 1",
            tikgen.swap((count, other)),
            tikgen.copy(other, count),
            "count = count + 1",
        ],
        native=native,
        count=count,
        other=other,
    )
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        made.run(10**9)
    assert signal.getsignal(signal.SIGINT) is handler
    assert 0 < made.steps < 10**6
    assert float(made["count"][0]) == 2 * made.steps
    assert (made["count"] is count) == (made.steps % 2 == 0)


@stepped
def test_a_handler_of_ones_own_is_called_after_a_step_and_the_run_goes_on(native: bool) -> None:
    n, seen = np.zeros(1, np.float32), []
    steps = 3000 if native else 100  # In native code, more than are prepared at once.

    def press(step: int) -> float:
        if step == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return 1.0

    add = tikgen.elementwise("x = x + a")
    made = tikgen.Program([tikgen.varying(add.bind(x=n, a=0), a=press)], native=native)
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(made.steps))
    try:
        assert made.run(steps).steps == steps
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(seen) == 1
    assert n.tolist() == [steps]
