"""Formats of times, sizes and counts."""

from __future__ import annotations

import pytest

from tikgen.units import counted, duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (3e-7, "300 ns"),
        (9.999e-7, "1 us"),
        (1.5e-6, "1.5 us"),
        (9.9996e-4, "1 ms"),
        (0.25, "250 ms"),
        (0.99999, "1 s"),
        (61.5, "61.5 s"),
        (5000.0, "5,000 s"),
    ],
)
def test_times_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_have_a_unit() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_000_000, 3 * 10**9)] == [
        "0 B", "999 B", "1.5 kB", "2.0 MB", "3.0 GB",
    ]  # fmt: skip


def test_counted_nouns_have_a_plural() -> None:
    counts = [counted(n, "launch") for n in (0, 1, 1000)]
    assert counts == ["0 launches", "1 launch", "1,000 launches"]
    assert counted(2, "kernel") == "2 kernels"
