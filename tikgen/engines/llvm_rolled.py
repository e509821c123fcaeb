"""Rolls loops up again that Taichi's LLVM unrolled, so that a current LLVM can vectorise them.

Taichi's LLVM must assume that a store changes the addresses of arrays, and vectorises no loop that
stores to one. It unrolls such loops: one does several turns at once, another one the rest. A
current LLVM that knows better (:mod:`tikgen.engines.llvm_invariants`) vectorises the loop for the
rest, but not the other. So the loop for the rest does all turns here, where that is certain.
"""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"^define [^\n]*\{\n.*?^\}", re.MULTILINE | re.DOTALL)
# How many turns are left over, by the name that LLVM 15 gives. Of the number from which this comes
# the last bits may be right, and no others.
_REST = re.compile(r"^ *(%xtraiter[\w.]*) = and (i32|i64) %[\w.]+, (\d+)$")
_BRANCH = re.compile(r"^ *br i1 (%[\w.]+), label %([\w.$-]+), label %([\w.$-]+)(.*)$")
_LABEL = re.compile(r"^([\w.$-]+):")
_ENDS = ("br ", "switch ", "ret ", "unreachable")
_NAME = r"(%[\w.]+)"


def rolled(text: str) -> str:
    """Return LLVM text with opaque pointers in which loops for the rest do all turns."""

    def changed(function: re.Match[str]) -> str:
        return _Function(function[0]).rolled() if "%xtraiter" in function[0] else function[0]

    return _FUNCTION.sub(changed, text)


class _Function:
    """A function.

    Args:
        text: its text.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._blocks: dict[str, int] = {}
        # Where each name is given to a value, and the value.
        self._places: dict[str, int] = {}
        self._values: dict[str, str] = {}
        for at, line in enumerate(self._lines):
            if label := _LABEL.match(line):
                self._blocks[label[1]] = at
            name, equals, value = line.strip().partition(" = ")
            if equals:
                self._places[name], self._values[name] = at, value

    def rolled(self) -> str:
        """Return the text with the loops rolled that can be."""
        for at, line in enumerate(self._lines):
            if found := _REST.match(line):
                self._roll(at, *found.groups())
        return "\n".join(self._lines)

    def _roll(self, at: int, rest: str, kind: str, most: str) -> None:
        """Have the loop that does ``rest`` turns do all, if it counts them one by one."""
        latch = self._latch_of(rest, kind)
        guard = self._end_of(at)
        branch = _BRANCH.match(self._lines[guard])
        if latch is None or branch is None:
            return
        is_none = f"icmp eq {kind} {rest}, 0"
        if self._values.get(branch[1]) == is_none:
            # The loop for the rest comes first. Behind it the unrolled one may be left out.
            guard = self._end_of(self._blocks[branch[2]])
            branch = _BRANCH.match(self._lines[guard])
        else:
            # It comes last, where one also gets without the unrolled one.
            after = _BRANCH.match(self._lines[self._end_of(self._blocks[branch[2]])])
            if after is None or self._values.get(after[1]) != is_none:
                return
        # The unrolled loop is left out if the other turns, behind the first, are few.
        few = self._values.get(branch[1], "") if branch else ""
        others = re.fullmatch(rf"icmp ult {kind} {_NAME}, {most}", few)
        if branch is None or others is None or self._places.get(others[1], at) >= at:
            return
        self._lines[at] = f"  {rest} = add {kind} {others[1]}, 1"
        self._lines[guard] = f"  br i1 true, label %{branch[2]}, label %{branch[3]}"
        self._lines[latch] = self._lines[latch].partition(", !llvm.loop")[0]

    def _latch_of(self, rest: str, kind: str) -> int | None:
        """Return the line that ends a turn of the loop which counts to ``rest``, or down from it.

        None if there is no such loop, or something else depends on ``rest``, which had few bits.
        """
        its, ends = re.escape(rest), []
        counts = re.compile(rf"icmp eq {kind} (?:{_NAME}, {its}|{its}, {_NAME})")
        known = re.compile(rf"sub (?:n[us]w )*{kind} {_NAME}, {its}|icmp eq {kind} {its}, 0")
        for name, code in self._uses(rest):
            if count := counts.fullmatch(code):
                ends.append(name if self._is_count(count[1] or count[2], kind) else "")
            elif code.startswith(f"phi {kind} "):
                ends.append(self._end_of_count(rest, kind, "-1"))
            elif code == f"sub {kind} 0, {rest}":
                ends.append(self._end_of_count(name, kind, "1"))
            elif not known.fullmatch(code):
                return None
        if len(ends) != 1 or not ends[0]:
            return None
        latches = [at for at, line in enumerate(self._lines) if f"br i1 {ends[0]}, " in line]
        is_loop = len(latches) == 1 and "!llvm.loop" in self._lines[latches[0]]
        return latches[0] if is_loop else None

    def _uses(self, name: str) -> list[tuple[str, str]]:
        """Return what depends on a value: its name, if it has one, and the code."""
        word = re.compile(rf"{re.escape(name)}(?![\w.])")
        found = []
        for line in self._lines:
            own, equals, code = line.strip().partition(" = ")
            if word.search(code if equals else own):
                found.append((own, code) if equals else ("", own))
        return found

    def _is_count(self, after: str, kind: str) -> bool:
        """Return whether a value is 1 in the first turn of a loop, and 1 more in each further."""
        step = re.fullmatch(rf"add (?:n[us]w )*{kind} {_NAME}, 1", self._values.get(after, ""))
        code = self._values.get(step[1], "") if step else ""
        ways = re.fullmatch(rf"phi {kind} \[ (\S+), \S+ \], \[ (\S+), \S+ \]", code)
        return ways is not None and {ways[1], ways[2]} == {"0", after}

    def _end_of_count(self, first: str, kind: str, step: str) -> str:
        """Return the condition that ends a loop which counts from ``first`` to 0, or nothing."""
        counts = [(name, code) for name, code in self._uses(first) if code.startswith("phi ")]
        if len(counts) != 1 or f"[ {first}, " not in counts[0][1]:
            return ""
        count, code = counts[0]
        for after, its in self._uses(count):
            if its == f"add nsw {kind} {count}, {step}" and f"[ {after}, " in code:
                is_end = f"icmp eq {kind} {after}, 0"
                return next((name for name, its in self._uses(after) if its == is_end), "")
        return ""

    def _end_of(self, at: int) -> int:
        """Return the line that ends the block with a line."""
        while not self._lines[at].lstrip().startswith(_ENDS):
            at += 1
        return at
