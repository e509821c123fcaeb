"""Texts that are executed again: `ti.init` freed their fields, or an import was replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import taichi as ti

import tikgen
from conftest import init_taichi
from tikgen.errors import TikgenError
from tikgen.live import Loader
from tikgen.live.cells import Cells

COUNT = """import taichi as ti
HOLDER


@ti.func
def next_count():
    FIELD[None] += 1.0
    return FIELD[None]


@ti.kernel
def count(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    for i in range(1):
        x[i] = VALUE
"""
MADE = "ti.field(ti.f32, ())"
KINDS = {
    "field": (f"f = {MADE}", "f", "f[None] + 1.0"),
    "function": (f"f = {MADE}", "f", "next_count()"),
    "list": (f"f = [{MADE}]", "f[0]", "f[0][None] + 1.0"),
}


def maker_of(how: str) -> Callable[[str], Any]:
    """Return a function that gives the kernel of a text, which the same text gives again."""
    if how == "string":
        return tikgen.from_string
    if how == "cell":
        cells = Cells()
        return lambda text: cells.run("counting", text, {}, {})["count"]
    loader = Loader()
    id = "counting" if how == "id" else None
    return lambda text: loader.load(text, id).count


def counted(kernel: Any) -> float:
    x = np.zeros(3, "f4")
    kernel(x)
    return float(x[0])


@pytest.mark.parametrize(
    ("how", "kind"),
    [("string", "field"), ("string", "list"), ("cell", "field"), ("id", "function")],
)
def test_a_text_with_a_field_is_executed_again_after_init(ti_arch, how: str, kind: str) -> None:
    holder, field, value = KINDS[kind]
    text = COUNT.replace("HOLDER", holder).replace("FIELD", field).replace("VALUE", value)
    make = maker_of(how)
    old = make(text)
    assert counted(old) == 1
    assert make(text) is old
    init_taichi()
    with pytest.raises((TikgenError, ti.TaichiCompilationError), match=r"before the last ti\.init"):
        counted(old)
    new = make(text)
    assert new is not old
    assert counted(new) == 1
    assert make(text) is new
    with pytest.raises((TikgenError, ti.TaichiCompilationError), match=r"before the last ti\.init"):
        counted(old)


def test_a_text_without_fields_stays_after_init(ti_arch) -> None:
    loader = Loader()
    text = COUNT.replace("HOLDER", "").replace("FIELD", "f").replace("VALUE", "3.0")
    module = loader.load(text, "plain")
    init_taichi()
    assert loader.load(text, "plain") is module
    assert counted(module.count) == 3


def test_a_text_without_an_id_keeps_its_id(ti_arch) -> None:
    loader = Loader()
    text = COUNT.replace("HOLDER", f"f = {MADE}").replace("FIELD", "f").replace("VALUE", "f[None]")
    loader.load(text)
    init_taichi()
    loader.load(text)
    assert list(loader) == ["kernel_0"]


@pytest.mark.parametrize("statement", ["from lib import power", "import lib\npower = lib.power"])
def test_a_text_loaded_again_takes_what_it_imports_anew(ti_arch, statement: str) -> None:
    loader = Loader()
    library = "@ti.func\ndef power(v):\n    return v * v"
    user = (
        f"{statement}\n@ti.kernel\ndef count(x: ti.types.ndarray(dtype=ti.f32, ndim=1)):\n"
        "    for i in range(x.shape[0]):\n        x[i] = power(3.0)"
    )
    loader.load(library, "lib")
    old = loader.load(user, "user")
    assert loader.load(user, "user") is old
    loader.load(library + " * v", "lib")
    new = loader.load(user, "user")
    assert (counted(old.count), counted(new.count)) == (9, 27)
    assert loader.load(user, "user") is new
    loader.rollback("lib")
    assert counted(loader.load(user, "user").count) == 9
