"""What is read of the processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tikgen.machine import devices

WIDE = "avx2 avx512f avx512bw avx512vl"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"processor\t: 0\nflags\t\t: fpu sse2 {WIDE}\nbugs\t: none\n", 64),
        ("processor\t: 0\nflags\t\t: fpu sse2 avx2\n\nflags\t: avx512f\n", 32),
        # The first processors with AVX-512 could not use it for short vectors.
        ("flags\t\t: avx2 avx512f avx512er\n", 32),
        ("Features\t: fp asimd\n", 32),
        ("", 32),
    ],
)
def test_the_widest_vectors(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, **options: text)
    assert devices.vector_bytes.__wrapped__() == expected
