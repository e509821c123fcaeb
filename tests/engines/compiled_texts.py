"""What llvmlite compiles, for tests of what is written for it."""

from __future__ import annotations

from typing import Any

import pytest

from tikgen.engines import llvm_text


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets each text that llvmlite compiles."""
    found: list[str] = []
    translated = llvm_text.translated

    def noting(*args: Any) -> str:
        found.append(translated(*args))
        return found[-1]

    monkeypatch.setattr(llvm_text, "translated", noting)
    return found
