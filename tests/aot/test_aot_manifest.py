"""Manifests with a wrong part: each is valid, or the bundle is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import damaged
from some_cases import examples
from tikgen.aot.bundle import Bundle
from tikgen.aot.bundle_shown import rows_of
from tikgen.aot.c.files import c_files
from tikgen.aot.manifest import (
    Accessor,
    Argument,
    Build,
    Evidence,
    Field,
    File,
    Graph,
    Kernel,
    Manifest,
    Proof,
    Step,
    encode,
)
from tikgen.aot.manifest_reading import decode
from tikgen.errors import BundleError

ARCH = "x64"


def said(**changes: Any) -> dict[str, Any]:
    """Return a manifest with a kernel, a graph and a field, as plain data, changed."""
    x = Argument(name="x", kind="array", dtype="f32", shape=("n", "n + 1"))
    a = Argument(name="a", kind="scalar", dtype="f64")
    build = Build(
        module=f"{ARCH}/heat",
        entry="heat",
        digest="d",
        fields={"u": "u"},
        workspace=(Argument(name="part", kind="array", dtype="i32", shape=(4,), role="work"),),
        capabilities=("spirv_has_int64",),
        evidence=Evidence(examples=1, seed=2, worst=0.5, when="now"),
        proof=Proof(against="reference", examples=3, seed=1, worst=0.1, when="now"),
    )
    heat = Kernel(
        name="heat",
        family="family",
        template="map",
        params={"expr": "y = x"},
        sizes={"n": 4},
        arguments=(x, a),
        fields=("u",),
        builds={ARCH: build},
    )
    steps = (Step("heat", {"x": "x", "a": "step0_a"}),)
    twice = Graph(
        name="twice",
        arguments=(x,),
        constants={"step0_a": 2.0},
        steps=steps,
        builds={ARCH: build},
    )
    u = Field(
        name="u",
        dtype="f32",
        shape=(3,),
        builds={ARCH: Accessor(module=f"{ARCH}/heat", read="read_u", write="write_u")},
    )
    whole = Manifest(
        format=1,
        name="sample",
        archs=(ARCH, "vulkan"),
        tikgen="0.1.0",
        taichi="1.7.4",
        kernels={"heat": heat},
        graphs={"twice": twice},
        fields={"u": u},
        files={path: File("0" * 64, 5) for path in (f"{ARCH}/heat/heat.ll", "sources/heat.py")},
    )
    return json.loads(encode(whole)) | changes


def decoded(document: Any) -> Manifest:
    return decode(json.dumps(document).encode(), "x")


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("kernels.heat.arguments.0.dtype", "q8", "the dtype 'q8' of 'x'"),
        ("kernels.heat.arguments.0.shape", ["n-1"], "the extent 'n-1' of 'x'"),
        ("kernels.heat.arguments.0.shape", ["n", "*/"], r"the extent '\*/' of 'x'"),
        ("kernels.heat.arguments.0.shape", [1] * 17, "the axes of 'x'"),
        ("kernels.heat.arguments.0.shape", [10**30], "extent"),
        ("kernels.heat.arguments.0.name", 'x", 0); evil(', "the name"),
        ("kernels.heat.arguments.1.name", "x", "there twice"),
        ("kernels.heat.family", "*/ evil /*", "the name"),
        ("kernels.heat.sizes", {"n": -1}, "the size -1"),
        ("kernels.heat.fields", ["w"], "the field 'w'"),
        (f"kernels.heat.builds.{ARCH}.entry", '"}; evil', "the name"),
        (f"kernels.heat.builds.{ARCH}.capabilities", ['a"}; evil'], "the capability"),
        ("graphs.twice.constants.step0_a", 10**30, "the constant 'step0_a'|damaged"),
        ("graphs.twice.program_steps", -1, "the number -1 of steps"),
        ("graphs.twice.steps.0.arguments", {"x": "x"}, "the step 'heat'"),
        ("graphs.twice.steps.0.arguments", {"x": "x", "a": "no"}, "the argument 'no'"),
        (f"fields.u.builds.{ARCH}.read", "a; evil", "the name"),
        ("name", "evil;", "the name"),
        ("tikgen", "1\n*/ evil", "the version"),
        ("taichi", "1.7%s%n", "the version"),
        ("taichi", "new", "the version"),
        ("files.sources/heat.py.sha256", "xyz", "the digest"),
    ],
)
def test_a_part_of_a_manifest_that_cannot_be_is_refused_by_name(
    path: str, value: Any, problem: str
) -> None:
    document = said()
    *outer, last = path.replace("sources/heat.py", "sources/heat@py").split(".")
    inner: Any = document
    for name in outer:
        inner = inner[int(name)] if isinstance(inner, list) else inner[name.replace("@", ".")]
    inner[last] = value
    with pytest.raises(BundleError, match=problem):
        decoded(document)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format":1,"x":' + "[" * 100_000])
def test_a_deep_manifest_is_damaged(text: str) -> None:
    with pytest.raises(BundleError, match="damaged"):
        decode(text.encode(), "x")


EVIL = '*/ evil(); /* "); evil(); ("\\" evil ??/" evil \n#error evil\n\\\nevil \x1b[2J'


def test_no_text_of_a_manifest_becomes_code_in_c() -> None:
    document = said()
    document["kernels"]["heat"]["params"] = {EVIL: EVIL}
    document["kernels"]["heat"]["template"] = EVIL
    path = f"{ARCH}/heat/{EVIL.replace('/', '').replace(chr(92), '')}"
    document["files"][path] = {"sha256": "0" * 64, "size": 1}
    for name, text in c_files(decoded(document)).items():
        assert "evil" in text or not name.endswith((".h", ".hpp"))
        assert "\x1b" not in text
        code = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        assert "??/" not in code
        code = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)
        assert "evil" not in code, name


@settings(max_examples=examples(300, 100), deadline=None)
@given(data=st.data())
def test_any_damage_to_a_manifest_is_a_bundle_error_or_makes_sound_files(
    data: st.DataObject,
) -> None:
    document = said()
    for _ in range(data.draw(st.integers(1, 3))):
        document = damaged(document, data.draw)
    try:
        manifest = decoded(document)
    except BundleError:
        return
    for text in c_files(manifest).values():
        assert "\x1b" not in text
    bundle = Bundle("x", manifest)
    assert isinstance(rows_of(manifest), list)
    assert repr(bundle)
