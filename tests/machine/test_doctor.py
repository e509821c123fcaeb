"""The doctor: finds archs that work, survives those that crash, sees stale locks."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from tikgen import engines
from tikgen.cli import app
from tikgen.machine import devices, doctor, drivers


@pytest.fixture(scope="module")
def whole() -> doctor.Diagnosis:
    """Examine everything, once."""
    return doctor.examine()


@pytest.mark.once
def test_it_examines_an_arch_that_works(ti_arch: str, whole: doctor.Diagnosis) -> None:
    diagnosis = whole
    (report,) = (report for report in diagnosis.archs if report.name == ti_arch)
    assert report.works, report.message
    assert report.device not in ("", "unknown")
    assert diagnosis.versions["taichi"].startswith("1.7")
    assert any(limit.startswith(ti_arch) for limit in diagnosis.limits)
    assert [c.name for c in diagnosis.caches if c.name == "taichi offline"]
    json.dumps(diagnosis.to_dict())


def test_it_tries_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = (doctor.ArchReport("cpu", True, "", ""),)
    report = doctor._engine_report("direct-cpu", cpu)
    if engines.missing("direct-cpu"):
        assert "pip install tikgen[fast]" in report.message
    else:
        assert (report.works, "the same bits" in report.message) == (True, True), report.message
    absent = doctor._engine_report("direct-cpu", (doctor.ArchReport("cpu", False, "", ""),))
    assert not absent.works
    monkeypatch.setattr(engines, "missing", lambda name: "llvmlite is missing")
    assert doctor._engine_report("direct-cpu", cpu).message == "llvmlite is missing"


def test_lavapipe_brings_its_loop_limit() -> None:
    lavapipe = doctor.ArchReport("vulkan", True, "llvmpipe (LLVM 15.0.6, 256 bits)", "")
    assert any("65,535" in limit for limit in doctor._limits_of((lavapipe,)))
    gpu = doctor.ArchReport("vulkan", True, "NVIDIA H200", "")
    assert not any("65,535" in limit for limit in doctor._limits_of((gpu,)))


def test_a_crash_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    real = doctor.subprocess.run

    def crashing(command: list[str], **options: object) -> object:
        return real([sys.executable, "-c", crash], **options)

    monkeypatch.setattr(doctor.subprocess, "run", crashing)
    monkeypatch.delenv("HOME")
    diagnosis = doctor.examine(("vulkan",))
    (report,) = diagnosis.archs
    assert not report.works
    assert report.message == "the probe was killed by SIGSEGV"
    for trouble in ("no arch works", "HOME is not set"):
        assert any(trouble in found for found in diagnosis.troubles)
    monkeypatch.setattr(doctor, "examine", lambda: diagnosis)
    for options in ((), ("--json",)):
        assert CliRunner().invoke(app, ["doctor", *options]).exit_code == 1


def test_a_probe_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(command: list[str], **options: object) -> object:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(doctor.subprocess, "run", slow)
    assert doctor._run_probe("cpu") == (1, f"did not finish within {doctor._PROBE_SECONDS} s")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: name)
    assert doctor._output_of("nvidia-smi") == ""


def test_the_device_of_cuda_is_what_its_tool_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._output_of(sys.executable, "-c", "print(' one\\ntwo ')") == "one\ntwo"
    assert doctor._output_of(sys.executable, "-c", "raise SystemExit(3)") == ""
    monkeypatch.setattr(doctor, "_output_of", lambda *command: "NVIDIA H100\nNVIDIA H200")
    assert doctor._device("cuda", "") == "NVIDIA H100; NVIDIA H200"


def test_a_driver_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = SimpleNamespace(cuInit=lambda flags: 100, vkCreateInstance=lambda *_: -9)
    monkeypatch.setattr(drivers, "_opened", lambda names, what: failing)
    with pytest.raises(drivers.NoDriver, match=r"CUDA cannot be started .*\(error 100\)"):
        drivers.cuda()
    with pytest.raises(drivers.NoDriver, match=r"Vulkan cannot be started .*\(error -9\)"):
        drivers.vulkan()
    assert devices.device_name.__wrapped__("vulkan") == devices.UNKNOWN
    assert devices._device_problem(lambda: 0, "CUDA", 0) == "CUDA finds no device on this machine"


def test_a_missing_arch_has_a_message() -> None:
    (report,) = doctor.examine(("nonsense",)).archs
    assert not report.works
    assert "nonsense" in report.message


def test_a_stale_lock_is_a_trouble(tmp_path: Path) -> None:
    works = (doctor.ArchReport("cpu", True, "", ""),)
    assert doctor._troubles(works, tmp_path) == ()
    (tmp_path / "ticache.lock").write_text("")
    (trouble,) = doctor._troubles(works, tmp_path)
    assert str(tmp_path / "ticache.lock") in trouble


def test_the_driver_of_a_vulkan_device_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = (
        "Devices:\n========\nGPU0:\n\tdeviceName         = NVIDIA H200\n\tdriverInfo = 550.1\n"
        "GPU1:\n\tdeviceName         = llvmpipe\n\tdriverInfo         = Mesa 22.3.6\n"
    )
    monkeypatch.setattr(doctor, "_output_of", lambda *command: summary)
    assert doctor._vulkan_driver("llvmpipe") == "Mesa 22.3.6"
    assert doctor._vulkan_driver("NVIDIA H200") == "550.1"
    assert doctor._vulkan_driver("other") == ""


def test_the_command_prints_the_same_as_text_and_as_json(
    monkeypatch: pytest.MonkeyPatch, whole: doctor.Diagnosis
) -> None:
    diagnosis = dataclasses.replace(whole, troubles=("a lock is stale",))
    monkeypatch.setattr(doctor, "examine", lambda: diagnosis)
    text, data = (CliRunner().invoke(app, ["doctor", *more]) for more in ((), ("--json",)))
    assert (text.exit_code, data.exit_code) == (0, 0)
    found = json.loads(data.stdout)
    assert {a["name"] for a in found["archs"]} == {"cpu", "cuda", "vulkan"}
    assert found["versions"]["taichi"] in text.stdout
    assert "trouble: a lock is stale" in text.stdout
    assert ["taichi", *(e["name"] for e in found["engines"])] == list(engines.ENGINES)
    for shown in (*found["limits"], *(e["name"] for e in found["engines"])):
        assert shown in text.stdout
