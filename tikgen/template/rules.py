"""When a parameter applies and what its values need, as `only` and `needs` say it once."""

from __future__ import annotations

import functools
import graphlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from tikgen.dtypes import DType
from tikgen.errors import TemplateError
from tikgen.units import listing

if TYPE_CHECKING:
    from pydantic import BaseModel

# What other parameters must be, by name; "arch" is one of the names.
Condition = Mapping[str, Any]
ARCH = "arch"
GPUS = ("cuda", "vulkan")
ARCHS = ("cpu", *GPUS)


class Not:
    """In a condition, means every value except some.

    Args:
        values: the values that do not meet the condition.
    """

    def __init__(self, *values: Any) -> None:
        self.values = values

    def __repr__(self) -> str:
        return f"Not({', '.join(map(repr, self.values))})"


@dataclass(frozen=True)
class Rule:
    """Holds what a parameter declares about the others.

    Attributes:
        only: conditions of which one must hold where the parameter applies; none if it always does.
        needs: for a value, or each value of a tuple, the condition under which it may be chosen.
        neutral: the value where the parameter does not apply.
    """

    neutral: Any
    only: tuple[Condition, ...] = ()
    needs: Mapping[Any, Condition] = field(default_factory=dict)

    def applies(self, known: Mapping[str, Any]) -> bool:
        """Return whether the parameter applies where others have the values in ``known``."""
        return not self.only or any(not _unmet(each, known) for each in self.only)

    def lacks(self, value: Any, known: Mapping[str, Any]) -> Condition:
        """Return the part of what ``value`` needs that does not hold."""
        for values, condition in self.needs.items():
            if value in (values if isinstance(values, tuple) else (values,)):
                return _unmet(condition, known)
        return {}

    @property
    def names(self) -> set[str]:
        """Return the names of the parameters that the conditions mention."""
        return {name for each in (*self.only, *self.needs.values()) for name in each}

    @property
    def text(self) -> str:
        """Return the rule as a clause for documentation, or an empty string."""
        parts = []
        if self.only:
            parts.append("only " + ", or ".join(map(_said, self.only)))
        for values, condition in self.needs.items():
            each = values if isinstance(values, tuple) else (values,)
            parts.append(f"{_any_of(each)} only {_said(condition)}")
        return "; ".join(parts)

    def why_not(self, known: Mapping[str, Any]) -> str:
        """Return why the parameter does not apply, for the message of a refusal."""
        failing = min((_unmet(each, known) for each in self.only), key=len)
        wanted = ", or ".join(map(_said, self.only))
        return f"must be {_shown(self.neutral)} {_had(failing, known)}; it matters only {wanted}"

    def cannot_be(
        self, value: Any, lacking: Condition, known: Mapping[str, Any], listed: Iterable[Any] = ()
    ) -> str:
        """Return why a value is refused, and which of the listed ones are not, for a message."""
        told = f"cannot be {_shown(value)} {_had(lacking, known)}"
        if not all(isinstance(wanted, Not) for wanted in lacking.values()):
            return f"{told}; it works only {_said(lacking)}"
        usable = [each for each in listed if not self.lacks(each, known)]
        return f"{told}; it takes {_any_of(usable)} there" if usable else told


def rules_of(model: type[BaseModel]) -> dict[str, Rule]:
    """Return the rule of each parameter that declares one."""
    return dict(_ordered(model))


@functools.lru_cache(maxsize=256)
def _ordered(model: type[BaseModel]) -> tuple[tuple[str, Rule], ...]:
    """Return the rules of a model, each behind those of the parameters that it mentions."""
    found: dict[str, Rule] = {}
    for name, info in model.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and isinstance(rule := extra.get("rule"), Rule):
            found[name] = rule
    # Sorted by declaration where the rules leave the order open.
    sorter = graphlib.TopologicalSorter(
        {name: [n for n in found if n in rule.names] for name, rule in found.items()}
    )
    try:
        return tuple((name, found[name]) for name in sorter.static_order())
    except graphlib.CycleError as error:
        names = " and ".join(sorted(set(error.args[1])))
        raise TemplateError(model.__qualname__, f"the rules of {names} form a circle") from None


def check_rules(
    template: str,
    problem: type[BaseModel],
    schedule: type[BaseModel],
    never: Callable[[Any, str, Any], bool],
    place: Callable[[str], str],
) -> None:
    """Raise :class:`TemplateError` where a rule mentions what does not exist.

    Args:
        template: name of the template, for messages.
        problem: its problem parameters.
        schedule: its schedule parameters.
        never: returns whether a parameter of a model never has a value.
        place: returns where a parameter is declared, for messages.
    """
    for model, known in ((problem, (problem,)), (schedule, (schedule, problem))):
        for name, rule in _ordered(model):
            conditions: list[Condition] = [*rule.only, *rule.needs.values()]
            if rule.needs:
                conditions.append({name: tuple(v for key in rule.needs for v in _values(key))})
            for other, wanted in (pair for each in conditions for pair in each.items()):
                owner = next((m for m in known if other in m.model_fields), None)
                if owner is None and not (other == ARCH and model is schedule):
                    usable = [n for m in known for n in m.model_fields if n != name]
                    usable += [ARCH] if model is schedule else []
                    problem_text = (
                        f"the rule of {name!r} mentions {other!r}, which it cannot; "
                        f"it may mention {', '.join(usable)}"
                    )
                    raise TemplateError(template, problem_text + place(name))
                values = _values(wanted)
                wrong = [v for v in values if (never(owner, other, v) if owner else v not in ARCHS)]
                if wrong or not values:
                    problem_text = f"the rule of {name!r} mentions {other}={(*wrong, values)[0]!r}"
                    raise TemplateError(
                        template, f"{problem_text}, which {other} never is{place(name)}"
                    )


def neutral_values(
    model: type[BaseModel], known: Mapping[str, Any], given: Collection[str]
) -> dict[str, Any]:
    """Return the neutral value of each parameter that does not apply and was not given.

    Args:
        model: what declares the parameters.
        known: the value of every parameter, and the arch where it is known.
        given: names of parameters that keep their value.
    """
    values = dict(known)
    found: dict[str, Any] = {}
    for name, rule in _ordered(model):
        if name not in given and not rule.applies(values):
            values[name] = found[name] = rule.neutral
    return found


def first_refusal(model: type[BaseModel], known: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a parameter that breaks a rule and what is wrong with it, or None.

    Where one follows from another it is the other.

    Args:
        model: what declares the parameters.
        known: the value of every parameter, and the arch where it is known.
    """
    for name, rule in _ordered(model):
        if not rule.applies(known):
            if known[name] != rule.neutral:
                return name, rule.why_not(known)
        elif lacking := rule.lacks(known[name], known):
            annotation = model.model_fields[name].annotation
            listed = get_args(annotation) if get_origin(annotation) is Literal else ()
            return name, rule.cannot_be(known[name], lacking, known, listed)
    return None


def idle(model: type[BaseModel], known: Mapping[str, Any]) -> set[str]:
    """Return the parameters that do not matter where others have the values in ``known``.

    Where the arch is not known, one that needs some arch and is neutral does not matter either.
    """
    found = set()
    for name, rule in _ordered(model):
        by_arch = ARCH not in known and all(ARCH in each for each in rule.only) and rule.only
        if not rule.applies(known) or (by_arch and known[name] == rule.neutral):
            found.add(name)
    return found


def may_be(rule: Rule, value: Any, known: Mapping[str, Any]) -> bool:
    """Return whether a value is possible where only some parameters are known."""
    return (rule.applies(known) and not rule.lacks(value, known)) or value == rule.neutral


def repaired(
    values: Mapping[str, Any],
    refused: Callable[[Mapping[str, Any]], str | None],
    choices: Callable[[str], Sequence[tuple[str, Any]]],
    pick: Callable[[Sequence[Any]], Any],
) -> dict[str, Any]:
    """Return ``values`` with refused ones replaced by allowed ones, as far as possible.

    Args:
        values: values by name.
        refused: returns the name of the first value that is refused, or None.
        choices: returns the changes that may help where a name is refused, each a name and a value.
        pick: chooses one of several.
    """
    found = dict(values)
    tried: set[str] = set()
    while (name := refused(found)) is not None and name not in tried:
        tried.add(name)
        outcomes = [(change, refused({**found, change[0]: change[1]})) for change in choices(name)]
        usable = [change for change, wrong in outcomes if wrong is None]
        usable = usable or [change for change, wrong in outcomes if wrong != name]
        if not usable:
            break
        changed, value = pick(usable)
        found[changed] = value
    return found


def _unmet(condition: Condition, known: Mapping[str, Any]) -> dict[str, Any]:
    return {n: w for n, w in condition.items() if n in known and not _holds(known[n], w)}


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Not):
        return value not in wanted.values
    return bool(value in wanted if isinstance(wanted, tuple) else value == wanted)


def _values(wanted: Any) -> tuple[Any, ...]:
    if isinstance(wanted, Not):
        return wanted.values
    return wanted if isinstance(wanted, tuple) else (wanted,)


def _said(condition: Condition) -> str:
    """Return a condition as words, such as ``where loop='sweep' and dim=2 or 3, on cpu``."""
    parts = [
        f"{name} is not {_any_of(_values(wanted))}"
        if isinstance(wanted, Not)
        else f"{name}={_any_of(_values(wanted))}"
        for name, wanted in condition.items()
        if name != ARCH
    ]
    words = [f"where {' and '.join(parts)}"] if parts else []
    if ARCH in condition:
        words.append(f"on {_any_of(_values(condition[ARCH]), str)}")
    return ", ".join(words)


def _had(condition: Condition, known: Mapping[str, Any]) -> str:
    """Return the values that do not meet a condition as words."""
    return _said({name: (known[name],) for name in condition})


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, DType) else repr(value)


def _any_of(values: Sequence[Any], shown: Callable[[Any], str] = _shown) -> str:
    return listing(map(shown, values) if values else ["nothing"])
