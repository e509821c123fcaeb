"""Parameters that are called as a column of a sweep's table is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tikgen.errors import ParameterError
from tikgen.template.base import Template
from tikgen.tuning.sweeps.combinations import SweepSpace, space_of
from tikgen.tuning.sweeps.rows import check_axes
from tikgen.tuning.sweeps.sweep import sweep
from tuning_templates import TWICE_CODE, TWICE_TEXT, make


def one_row(template: Template, params: dict[str, Any]) -> SweepSpace:
    options = {"archs": ("cpu",), "baked": False, "rounds": 2, "seed": 0}
    return space_of(template, shape=32, params=params, **options)


@pytest.mark.parametrize("name", ["kind", "bytes", "template"])
def test_such_a_parameter_is_no_axis(tmp_path: Path, name: str) -> None:
    template = make(tmp_path, "twice", TWICE_TEXT, TWICE_CODE.replace("idle:", f"{name}:"))
    with pytest.raises(ParameterError, match=f"'{name}' cannot be an axis: the table has another"):
        sweep(template, shape=9, **{name: [1, 2]})
    (found,) = one_row(template, {"way": "plain", name: 2}).combinations()
    assert found.cells["template"] == "twice"
    check_axes("twice", {name: (2,), "way": ("plain", "slow")})
