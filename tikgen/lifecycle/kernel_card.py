"""The HTML of a kernel for notebooks: arguments, parameters, evidence, timings, source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from tikgen.lifecycle import html
from tikgen.pipeline.events import STAGES, Event, Launches
from tikgen.pipeline.kernel import Kernel
from tikgen.template.arguments import Argument, Array, Scalar
from tikgen.template.base import Template
from tikgen.units import counted, duration

# The details of events that are shown; the others appear elsewhere in the card.
_SHOWN = (
    "schedule_origin",
    "lines",
    "same_as",
    "signature",
    "cache",
    "arch",
    "engine",
    "why",
)


def of_kernel(kernel: Kernel) -> str:
    """Return the HTML of a kernel."""
    name = kernel.function.__name__ if kernel.is_loaded else kernel.template.name
    return html.card(
        name,
        html.tag("p", kernel.template.summary, class_="pale"),
        html.tag(
            "div",
            html.section("takes", html.table((), map(_argument, kernel.signature.arguments))),
            html.parameter_values(kernel.template.parameters, kernel.params),
            class_="side",
        ),
        _origin(kernel),
        html.tag("p", f"engine: {kernel.engine} ({kernel.why})", class_="pale"),
        _evidence(kernel),
        html.section("last timings", _timings(kernel.events, kernel.loaded.launched)),
        html.of_source(kernel.source),
    )


def _origin(kernel: Kernel) -> object:
    if not type(kernel.schedule).model_fields:
        return ""
    text = f"schedule: {kernel.schedule_origin}"
    if len(kernel.classes) > 1:
        origins = "; ".join(each.schedule_origin for each in kernel.classes)
        text += f"; one of {counted(len(kernel.classes), 'schedule')} by sizes: {origins}"
    return html.tag("p", text, class_="pale")


def _evidence(kernel: Kernel) -> object:
    if type(kernel.template).reference is Template.reference:
        return ""  # It cannot be verified.
    found = kernel.evidence
    shown = html.evidence_table(found) if found else html.tag("p", "none yet", class_="pale")
    return html.section("evidence", shown)


def _argument(argument: Argument) -> tuple[object, ...]:
    kind, role = "as the kernel declares", ""
    if isinstance(argument, Scalar):
        kind = str(argument.dtype)
    elif isinstance(argument, Array):
        kind = f"{argument.dtype}[{', '.join(map(str, argument.shape))}]"
        role = {"out": "written", "inout": "updated"}.get(argument.role, "")
    return (argument.name, html.tag("span", kind, class_="mono"), role)


def _timings(events: Sequence[Event], launches: Launches) -> Markup:
    """Return the last event of each stage, in order, and the last launch."""
    last = {event.stage: event for event in events}
    rows: list[tuple[object, ...]] = [
        (stage, duration(last[stage].seconds), html.join(_details(last[stage])))
        for stage in STAGES
        if stage in last and stage != "launch"
    ]
    took = duration(launches.spans[-1][1]) if launches.spans else "-"
    rows.append(("launch", took, html.tag("span", *_launched(launches), class_="pale")))
    return html.table((), rows, numbers=(1,))


def _launched(launches: Launches) -> Iterator[str]:
    """Yield the number of launches, and their times on the host and the device."""
    yield counted(launches.count, "launch")
    if launches.timed > 1:
        yield f", the last ones {duration(launches.shortest)} to {duration(launches.longest)}"
    if launches.device_seconds is not None and launches.device_count:
        yield f", on the device {duration(launches.device_seconds / launches.device_count)} each"


def _details(event: Event) -> Iterator[object]:
    if event.problem is not None:
        yield html.tag("span", event.problem or "failed", class_="bad strong")
    for key, value in event.details.items():
        if key in _SHOWN and value:
            yield html.tag("span", f"{key.replace('_', ' ')}: {value}  ", class_="pale")
