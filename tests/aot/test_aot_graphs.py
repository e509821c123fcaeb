"""Planning graphs: names and shapes are matched over the steps, mistakes reported."""

import pytest

from tikgen.aot.exporting.graphs import plan_graph, replanned, scratch_of
from tikgen.aot.manifest import Argument, Extent, Kernel, Role
from tikgen.errors import ExportError


def array(
    name: str, *shape: Extent, role: Role = "in", covered: bool = True, inplace: bool = False
) -> Argument:
    return Argument(
        name=name,
        kind="array",
        dtype="f32",
        shape=shape,
        role=role,
        covered=covered,
        inplace=inplace,
    )


def kernel(name: str, *arguments: Argument) -> Kernel:
    return Kernel(name=name, family=name, arguments=arguments)


FACTOR = Argument(name="a", kind="scalar", dtype="f32")
KERNELS = {
    k.name: k
    for k in (
        kernel(
            "stencil", array("x", "n0", "n1"), array("y", "n0", "n1", role="out", covered=False)
        ),
        kernel("axpy", FACTOR, array("x", "n0", "n1"), array("y", "n0", "n1", role="inout")),
        kernel("shrink", array("x", "n + 1", "k"), array("y", "n", 4, role="inout")),
        kernel("double", array("x", "n"), array("y", "n", role="out", inplace=True)),
    )
}


def test_names_become_arguments_temporaries_and_constants() -> None:
    graph = plan_graph(
        "step",
        [
            ("stencil", "u", "lap"),
            ("axpy", {"a": "dt", "x": "lap", "y": "u"}),
            ("axpy", 0.5, "lap", "u"),
        ],
        KERNELS,
        ["lap"],
    )
    assert [(a.name, a.shape, a.role) for a in graph.arguments] == [
        ("u", ("u_0", "u_1"), "inout"),
        ("dt", (), "in"),
    ]
    (lap,) = graph.temporaries
    assert (lap.shape, lap.role) == (("u_0", "u_1"), "work")
    assert graph.constants == {"step2_a": 0.5}
    assert [s.kernel for s in graph.steps] == ["stencil", "axpy", "axpy"]


def test_sizes_that_differ_by_a_number_are_matched() -> None:
    graph = plan_graph(
        "g", [("stencil", "u", "v"), ("shrink", "u", "w"), ("shrink", "v", "w")], KERNELS
    )
    assert {a.name: a.shape for a in graph.arguments} == {
        "u": ("u_0 + 1", "u_1"),
        "v": ("u_0 + 1", "u_1"),
        "w": ("u_0", 4),
    }


def test_a_number_fixes_every_size_that_is_equal_to_it() -> None:
    graph = plan_graph("g", [("stencil", "w", "v"), ("shrink", "u", "w")], KERNELS)
    assert {a.name: a.shape for a in graph.arguments} == {
        "w": ("w_0", 4),
        "v": ("w_0", 4),
        "u": ("w_0 + 1", "u_1"),
    }


def test_a_kernel_of_the_bundle_is_found_by_its_function() -> None:
    def shrink() -> None: ...

    (step,) = plan_graph("g", [(shrink, "u", "v")], KERNELS).steps
    assert step.kernel == "shrink"
    twice = {**KERNELS, "again": kernel("shrink", *KERNELS["shrink"].arguments)}
    with pytest.raises(ExportError, match="more than once; name one of shrink, again"):
        plan_graph("g", [(shrink, "u", "v")], twice)


def test_workspaces_follow_the_sizes_of_the_graph() -> None:
    graph = plan_graph("g", [("shrink", "u", "w"), ("shrink", "v", "w")], KERNELS)
    scratch = scratch_of(graph, KERNELS, {"shrink": (array("partial", "n + 3", "k", role="work"),)})
    assert [(a.name, a.shape) for a in scratch] == [
        ("_step0_partial", ("u_0 + 3", "u_1")),
        ("_step1_partial", ("u_0 + 3", "v_1")),
    ]


def test_what_is_written_first_and_read_later_need_not_be_filled() -> None:
    graph = plan_graph(
        "g", [("double", "u", "v"), ("double", "v", "w"), ("double", "w", "w")], KERNELS
    )
    assert {a.name: a.role for a in graph.arguments} == {"u": "in", "v": "out", "w": "out"}


def test_a_graph_is_planned_anew_for_kernels_that_still_fit() -> None:
    graph = plan_graph("g", [("axpy", 0.25, "x", "y")], KERNELS)
    assert replanned(graph, KERNELS) == graph
    assert replanned(graph, {"stencil": KERNELS["stencil"]}) is None


def test_a_graph_says_how_many_steps_of_a_program_it_does() -> None:
    graph = plan_graph("g", [("stencil", "u", "v")] * 2, KERNELS, program_steps=2)
    again = replanned(graph, KERNELS)
    assert again is not None and again.program_steps == graph.program_steps == 2


@pytest.mark.parametrize(
    ("steps", "temporaries", "problem"),
    [
        ([], [], "it has no steps"),
        (
            [("stencl", "u", "v")],
            [],
            r"'stencl', which is not in the bundle. Did you mean 'stencil'",
        ),
        (["stencil"], [], "step 0 is 'stencil'; a step is"),
        ([("stencil", "u")], [], "step 0, stencil, lacks 'y'; it takes x, y"),
        ([("stencil", {"x": "u", "z": "v"})], [], "has no argument 'z'"),
        ([("stencil", "u", "v", "w")], [], "more than x, y"),
        ([("stencil", "u", "u")], [], "gives 'u' to 'y' and 'x' of stencil, which writes to 'y'"),
        ([("stencil", "u", 3)], [], "step 0 gives 'y' of stencil the value 3; it takes a name"),
        ([("axpy", True, "u", "v")], [], "the value True; it takes a name or a number"),
        ([("stencil", "u", "v"), ("axpy", "u", "v", "w")], [], "'u' has kind array in step 0"),
        ([("stencil", "u", "v"), ("double", "u", "w")], [], "'u' has shape .* in step 0"),
        ([("shrink", "u", "w"), ("stencil", "u", "w")], [], "has shape"),
        ([("stencil", "u", "v")], ["lap"], "no step uses the temporary array 'lap'"),
        ([("stencil", "u", "v")], ["u", "v"], "no argument determines the size"),
        ([(abs, "u", "v")], [], "abs is not in the bundle; it holds stencil, axpy"),
        ([("stencil", "u v", "w")], [], "'u v' cannot be the name of an argument"),
        ([("stencil", "u", "lambda")], [], "'lambda' cannot be the name of an argument: it is a k"),
        ([("stencil", "u", "_step0_partial")], [], "'_step0_partial' cannot be the name"),
    ],
)
def test_mistakes_are_reported(
    steps: list[tuple[str, ...]], temporaries: list[str], problem: str
) -> None:
    with pytest.raises(ExportError, match=problem):
        plan_graph("g", steps, KERNELS, temporaries)


@pytest.mark.parametrize("name", ["", "a b", "stencil", 3])
def test_names_of_graphs_are_checked(name: str) -> None:
    with pytest.raises(ExportError, match="name"):
        plan_graph(name, [("stencil", "u", "v")], KERNELS)
