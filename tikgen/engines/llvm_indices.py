"""Has LLVM compute the indices of array elements with 64 bits.

Taichi computes the place of an element with 32 bits that may wrap around, and extends the result.
LLVM must then ask before each inner loop whether that happens, for each array and each neighbour,
and for short rows that takes longer than the loop. No index of an element that exists wraps
around, so that 64 bits give the same. Where two numbers that were read or mixed from bits meet, the
index is left as it is: a difference of counters that wrap around is one that exists. So is one that
has a sum, and a number that was computed of the same sum: ``s % 70`` is ``s - s / 70 * 70``.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tikgen.engines import llvm_reads

_FUNCTION = re.compile(r"^define [^\n]*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
_EXTENDED = re.compile(r"^( *)(%[\w.]+) = sext i32 (%[\w.]+) to i64$")
_SUM = re.compile(r"(add|sub|mul) (?:n[us]w )*i32 (\S+), (\S+)")
_NUMBER = re.compile(r"-?\d+")
_NAME = re.compile(r"%[\w.]+")
# Sums within each other, with which an index is found.
_MOST_SUMS = 64
# Numbers up to here and counters of loops have a sum that does not wrap around.
_SMALL = 1 << 16
_CARRIED = re.compile(r"\[ (\S+), (%[\w.]+) \]")
_GIVEN = re.compile(rf"load .*, ptr (%[\w.]+), .*!invariant\.load !(?!{llvm_reads.NOTE[1:]}\b)")
_EXTENT = re.compile(r"getelementptr .*, ptr %[\w.]+, i64 0, i32 \d+, i32 0, i32 \d+$")
# What may have wrapped around: what is read, or made of other bits. Arguments and extents have
# another note than elements.
_DATA = re.compile(
    r"(?:load|xor|or|shl|lshr|trunc|[zs]ext(?! i1)|fpto[su]i|bitcast|call(?! i32 @llvm\.)) "
    rf"(?!.*!invariant\.load !(?!{llvm_reads.NOTE[1:]}\b))"
)
# What may be one of its operands, or a part of one.
_PASSED = re.compile(
    r"(?:select i1 [^,]+,|and i32|[su]div|[su]rem|ashr|(?:tail )?call i32 @llvm\.)(.*)"
)


def widened(text: str) -> str:
    """Return LLVM text, with opaque pointers and notes on what nothing changes, with such indices.

    See :mod:`tikgen.engines.llvm_invariants` for the notes.
    """

    def changed(function: re.Match[str]) -> str:
        return _Function(function[0]).widened() if " = sext i32 " in function[0] else function[0]

    return _FUNCTION.sub(changed, text)


class _Function:
    """A function.

    Args:
        text: its text.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        # Where each name is given to a value, the value, and the lines that use it.
        self._places: dict[str, int] = {}
        self._values: dict[str, str] = {}
        self._uses: dict[str, list[str]] = defaultdict(list)
        for at, line in enumerate(self._lines):
            name, equals, value = line.strip().partition(" = ")
            if equals:
                self._places[name], self._values[name] = at, value
            for used in _NAME.findall(value if equals else line):
                self._uses[used].append(value if equals else line)
        self._wide: dict[str, str] = {}
        self._data: dict[str, bool] = {}
        self._added: dict[int, list[str]] = defaultdict(list)

    def widened(self) -> str:
        """Return the text with indices of 64 bits."""
        for at, line in enumerate(self._lines):
            found = _EXTENDED.match(line)
            if found and self._is_index(found[2]) and self._is_sum(found[3]):
                self._lines[at] = f"{found[1]}{found[2]} = add i64 {self._of(found[3])}, 0"
        lines = []
        for at, line in enumerate(self._lines):
            lines += [line, *self._added.get(at, ())]
        return "\n".join(lines)

    def _is_index(self, name: str) -> bool:
        """Return whether a value says where an element lies, and nothing else."""
        return all(use.startswith("getelementptr ") for use in self._uses[name])

    def _is_sum(self, name: str) -> bool:
        """Return whether a value is a sum or a product that may have 64 bits."""
        if not _SUM.fullmatch(self._values.get(name, "")):
            return False
        sums, others = self._parts_of(name)
        data = set(filter(self._is_data, others))
        numbers = data | set(filter(self._is_number, others))
        if len(sums) > _MOST_SUMS or (len(numbers) > 1 and not self._are_on_axes(name, data)):
            return False
        return all(self._cannot_wrap(one) for one in sums & self._operands_of(others))

    def _are_on_axes(self, name: str, data: set[str]) -> bool:
        """Return whether each axis has one number: ``(x - a[i]) * extent + y - b``."""
        terms = self._terms_of(name)
        factors = []
        for term in terms:
            known = [one for one in term if one in data]
            if not known and all(map(self._is_given, term)):
                known = [one for one in term if self._is_number(one)][:1]
            others = list(term)
            for one in known[:1]:
                others.remove(one)
                factors.append(tuple(sorted(others)))
            if known and not all(one not in data and self._is_given(one) for one in others):
                return False
        return bool(terms) and len({*factors}) == len(factors)

    def _is_given(self, name: str) -> bool:
        """Return whether a value is an argument or an extent."""
        return bool(_GIVEN.match(self._values.get(name, "")))

    def _is_number(self, name: str) -> bool:
        """Return whether a value is an argument that is a number."""
        given = _GIVEN.match(self._values.get(name, ""))
        return given is not None and not _EXTENT.match(self._values.get(given[1], ""))

    def _terms_of(self, name: str) -> list[tuple[str, ...]]:
        """Return the factors of each term of a sum without its numbers; none of too many terms."""
        if _NUMBER.fullmatch(name):
            return [()]
        parts = _SUM.fullmatch(self._values.get(name, ""))
        if parts is None:
            return [(name,)]
        one, other = self._terms_of(parts[2]), self._terms_of(parts[3])
        terms = one + other
        if parts[1] == "mul":
            terms = [left + right for left in one for right in other]
        return terms if len(terms) <= _MOST_SUMS and one and other else []

    def _cannot_wrap(self, name: str) -> bool:
        """Return whether a value is a sum of counters of loops and small numbers."""
        sums, others = self._parts_of(name)
        found = [_SUM.fullmatch(self._values[one]) for one in sums]
        parts = [one.groups() for one in found if one is not None]
        numbers = [int(one) for _, *both in parts for one in both if _NUMBER.fullmatch(one)]
        return (
            not any(kind == "mul" for kind, *_ in parts)
            and all(abs(number) <= _SMALL for number in numbers)
            and all(map(self._is_counter, others))
        )

    def _is_counter(self, name: str) -> bool:
        """Return whether a value is one more at each turn of a loop."""
        value = self._values.get(name, "")
        carried = [before for before, _ in _CARRIED.findall(value)]
        return value.startswith("phi i32 ") and any(
            (parts := _SUM.fullmatch(self._values.get(one, ""))) is not None
            and parts.groups() == ("add", name, "1")
            for one in carried
        )

    def _operands_of(self, names: set[str]) -> set[str]:
        """Return the values of which others are computed, in the same turn of all loops."""
        found: set[str] = set()
        left = list(names)
        while left:
            value = self._values.get(left.pop(), "")
            if not value.startswith(("phi ", "load ")):
                operands = {one for one in _NAME.findall(value) if one in self._values} - found
                found |= operands
                left += operands
        return found

    def _parts_of(self, name: str, carried: bool = False) -> tuple[set[str], set[str]]:
        """Return the sums of which a value is made, and the other values in them.

        Args:
            name: the value.
            carried: whether numbers that loops carry on count as sums of what they were before.
        """
        sums: set[str] = set()
        others: set[str] = set()
        left = [name]
        while left:
            operand = left.pop()
            if operand in sums or _NUMBER.fullmatch(operand):
                continue
            value = self._values.get(operand, "")
            if parts := _SUM.fullmatch(value):
                left += parts.groups()[1:]
            elif carried and value.startswith("phi i32 "):
                left += (before for before, _ in _CARRIED.findall(value))
            else:
                others.add(operand)
                continue
            sums.add(operand)
        return sums, others

    def _is_data(self, name: str) -> bool:
        """Return whether a value may have wrapped around."""
        if name not in self._data:
            seen: set[str] = set()
            left = {name}
            while left - seen:
                seen |= left
                parts = {one for each in left for one in self._parts_of(each, carried=True)[1]}
                values = [self._values.get(one, "") for one in parts]
                if any(map(_DATA.match, values)):
                    break
                passed = (found[1] for value in values if (found := _PASSED.match(value)))
                left = {one for operands in passed for one in _NAME.findall(operands)} - seen
            else:
                left = set()
            self._data[name] = bool(left)
        return self._data[name]

    def _of(self, operand: str) -> str:
        """Return the name of an operand with 64 bits."""
        if _NUMBER.fullmatch(operand):
            return operand
        if operand not in self._wide:
            value = self._values.get(operand, "")
            parts = _SUM.fullmatch(value)
            code = f"sext i32 {operand} to i64"
            if parts:
                code = f"{parts[1]} nsw i64 {self._of(parts[2])}, {self._of(parts[3])}"
            name = self._wide[operand] = f"%tikgen.index{len(self._wide)}"
            self._added[self._line_behind(operand)].append(f"  {name} = {code}")
        return self._wide[operand]

    def _line_behind(self, name: str) -> int:
        """Return the line behind which code may use a value."""
        at = self._places.get(name)
        if at is None:  # An argument: behind the label of the first block.
            return 1 if self._lines[1].endswith(":") else 0
        while self._values[name].startswith("phi ") and " = phi " in self._lines[at + 1]:
            at += 1
        return at
