"""Makes a small bundle by hand, so that the runtime is tested apart from what exports bundles.

``python aot_samples.py ARCH FOLDER``; whatever a runtime has to do is in it once.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import taichi as ti

from tikgen.aot.exporting.kernel_texts import WIDE, load_text, split
from tikgen.aot.manifest import (
    FORMAT,
    Accessor,
    Argument,
    Build,
    Field,
    File,
    Graph,
    Kernel,
    Manifest,
    Step,
    encode,
)
from tikgen.taichi import artefacts

DTYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")
CAPABILITIES = ["float16", "float64", "int8", "int16", "int64"]
LACKED = "spirv_has_physical_storage_buffer"

HEAD = "import taichi as ti\n\n\n@ti.kernel\n"
AXPY = """def axpy(a: ti.{0}, x: ti.types.ndarray(ti.{0}, 1), y: ti.types.ndarray(ti.{0}, 1)):
    for i in range(x.shape[0]):
        y[i] = ti.cast(a * x[i] + y[i], ti.{0})
"""
HALVE = """def halve(x: ti.types.ndarray(ti.f32, 2), y: ti.types.ndarray(ti.f32, 2)):
    for i, j in ti.ndrange(x.shape[0] - 1, x.shape[1]):
        y[i + 1, j] = {0} * x[i + 1, j]
"""
DOUBLE = """def double(x: ti.types.ndarray(ti.f32, 1), y: ti.types.ndarray(ti.f32, 1)):
    for i in range(x.shape[0]):
        y[i] = ti.f32(2.0) * x[i]
"""
WEIGH = """def weigh(
    x: ti.types.ndarray(ti.types.vector(3, ti.f32), 1), y: ti.types.ndarray(ti.f32, 1)
):
    for i in range(x.shape[0]):
        y[i] = x[i][0] + ti.f32(2.0) * x[i][1] + ti.f32(3.0) * x[i][2]
"""
TOTAL = """def total(
    x: ti.types.ndarray(ti.f32, 1), y: ti.types.ndarray(ti.f32, 1), w: ti.types.ndarray(ti.f32, 1)
):
    for i in range(x.shape[0]):
        w[i + 1] = x[i]
    for _ in range(1):
        sum = ti.f32(0.0)
        for i in range(x.shape[0]):
            sum += w[i + 1]
        y[0] = sum + w[0]
"""
CLEAR = """def clear(x: ti.types.ndarray(ti.f32, 1)):
    for i in range(x.shape[0]):
        x[i] = ti.f32(0.0)
"""
GROW = """def grow(by: ti.f32):
    for i, j in FIELDS["heat"]:
        FIELDS["heat"][i, j] += by
"""
READ = """def read(array: ti.types.ndarray(ti.f32, 2)):
    for i, j in FIELDS["heat"]:
        array[i, j] = FIELDS["heat"][i, j]
"""
WRITE = """def write(array: ti.types.ndarray(ti.f32, 2)):
    for i, j in FIELDS["heat"]:
        FIELDS["heat"][i, j] = array[i, j]
"""


def scalar(name: str, dtype: str) -> Argument:
    return Argument(name=name, kind="scalar", dtype=dtype)


def array(name: str, dtype: str = "f32", shape: tuple[Any, ...] = ("n",), **more: Any) -> Argument:
    return Argument(name=name, kind="array", dtype=dtype, shape=shape, **more)


SQUARE = ("rows", "columns")
TEXTS = {f"axpy_{d}": AXPY.format(d) for d in DTYPES} | {
    "halve": HALVE.format("ti.f32(0.5)"),
    "halve_5_7": HALVE.format("ti.f32(-0.5)"),  # Tells itself from the other by the sign.
    "double": DOUBLE,
    "weigh": WEIGH,
    "total": TOTAL,
    "clear": CLEAR,
}
ARGUMENTS = {
    f"axpy_{d}": (scalar("a", d), array("x", d), array("y", d, role="inout")) for d in DTYPES
} | {
    "halve": (array("x", shape=SQUARE), array("y", shape=SQUARE, role="out", covered=False)),
    "halve_5_7": (array("x", shape=(5, 7)), array("y", shape=(5, 7), role="out", covered=False)),
    "double": (array("x"), array("y", role="out", inplace=True)),
    "weigh": (array("x", element=(3,)), array("y", role="out")),
    "total": (array("x"), array("y", shape=(1,), role="out")),
    "clear": (array("x", role="out"),),
    "grow": (scalar("by", "f32"),),
}
WORKSPACES = {"total": (array("w", shape=("n + 1",), role="work"),)}
FAMILIES = {f"axpy_{d}": "axpy" for d in DTYPES} | {"halve_5_7": "halve"}
TWICE = Graph(
    name="twice",
    arguments=(scalar("a", "f32"), array("x"), array("y", role="inout")),
    temporaries=(array("t", role="work"),),
    constants={"c": 10.0},
    steps=(
        Step("clear", {"x": "t"}),
        Step("axpy_f32", {"a": "a", "x": "x", "y": "t"}),
        Step("axpy_f32", {"a": "c", "x": "t", "y": "y"}),
    ),
)


def write_module(folder: Path, texts: dict[str, str], fields: dict[str, Any], graph: Any) -> None:
    is_vulkan = folder.parent.name == "vulkan"
    builder = artefacts.ArtefactBuilder(
        [f"spirv_has_{c}" for c in CAPABILITIES] if is_vulkan else []
    )
    for name, field in fields.items():
        builder.add_field(name, field)
    kernels = {}
    for name, text in texts.items():
        function = text.split("(")[0].removeprefix("def ")
        wide = {a.name: a.dtype for a in ARGUMENTS.get(name, ()) if a.kind == "scalar"}
        wide = {a: dtype for a, dtype in wide.items() if dtype in WIDE}
        kernels[name] = load_text(name, split(HEAD + text, function, wide), function, fields)
        if not graph:
            builder.add_kernel(kernels[name], name)
    if graph:
        kinds = ti.graph.ArgKind
        made: dict[str, Any] = {n: ti.graph.Arg(kinds.SCALAR, n, ti.f32) for n in "ac"}
        made |= {n: ti.graph.Arg(kinds.NDARRAY, n, ti.f32, ndim=1) for n in "xyt"}
        steps = [
            (kernels[s.kernel], [made[s.arguments[a.name]] for a in ARGUMENTS[s.kernel]])
            for s in graph.steps
        ]
        builder.add_graph(graph.name, steps)
    folder.mkdir(parents=True)
    builder.write(folder)


def main(arch: str, root: Path) -> None:
    """Write the bundle for one arch."""
    ti.init(
        arch={"cuda": ti.cuda, "vulkan": ti.vulkan}.get(arch, ti.cpu),
        log_level=ti.ERROR,
        offline_cache=False,
    )
    heat = ti.field(ti.f32, (5, 3))
    for name, text in TEXTS.items():
        write_module(root / arch / name, {name: text}, {}, None)
    write_module(root / arch / "twice", {n: TEXTS[n] for n in ("clear", "axpy_f32")}, {}, TWICE)
    texts = {"grow": GROW, "read": READ, "write": WRITE}
    write_module(root / arch / "fields", texts, {"heat": heat}, None)

    def build(name: str, module: str = "", **more: Any) -> dict[str, Build]:
        said = Build(module=f"{arch}/{module or name}", entry=name, digest="", **more)
        return {arch: said}

    kernels = {
        name: Kernel(
            name=name,
            family=FAMILIES.get(name, name),
            sizes={"rows": 5, "columns": 7} if name == "halve_5_7" else {},
            arguments=ARGUMENTS[name],
            builds=build(name, workspace=WORKSPACES.get(name, ())),
        )
        for name in TEXTS
    }
    kernels["grow"] = Kernel(
        name="grow", family="grow", arguments=ARGUMENTS["grow"], builds=build("grow", "fields")
    )
    kernels["lacking"] = Kernel(
        name="lacking",
        family="lacking",
        arguments=ARGUMENTS["clear"],
        builds=build("clear", capabilities=(LACKED,)),
    )
    kernels["missing"] = Kernel(
        name="missing",
        family="missing",
        arguments=ARGUMENTS["clear"],
        builds=build("missing", "clear"),
    )
    field = Field(
        name="heat",
        dtype="f32",
        shape=(5, 3),
        builds={arch: Accessor(module=f"{arch}/fields", read="read", write="write")},
    )
    files = {
        path.relative_to(root).as_posix(): File(
            hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    manifest = Manifest(
        format=FORMAT,
        name="sample",
        archs=(arch,),
        tikgen="0",
        taichi=".".join(map(str, ti.__version__)),
        kernels=dict(sorted(kernels.items())),
        graphs={"twice": msgspec.structs.replace(TWICE, builds=build("twice"))},
        fields={"heat": field},
        files=files,
    )
    (root / "manifest.json").write_bytes(encode(manifest))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
