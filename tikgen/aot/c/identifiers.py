"""Names for C and C++, where names of a bundle may be keywords."""

from __future__ import annotations

import re

from tikgen.untrusted import printable

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr
constinit continue decltype default delete do double dynamic_cast else enum explicit export
extern false final float for friend goto if inline int import long module mutable namespace new
noexcept not not_eq nullptr operator or or_eq override private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast
struct switch template this thread_local throw true try typedef typeid typename typeof union
unsigned using virtual void volatile wchar_t while xor xor_eq
"""
# Macros of compilers, of the C library and of Taichi, in particular of what headers include.
_MACROS = """
linux unix i386 errno stdin stdout stderr assert NULL EOF I INFINITY NAN
BUFSIZ EXIT_FAILURE EXIT_SUCCESS FILENAME_MAX FOPEN_MAX L_tmpnam MB_CUR_MAX RAND_MAX SEEK_CUR
SEEK_END SEEK_SET TMP_MAX FILE TI_FALSE TI_TRUE TI_NULL_HANDLE
"""
_UNUSABLE = frozenset(f"{_KEYWORDS} {_MACROS}".split())
# What <stdint.h> and <stddef.h> define, which declarations of headers use.
_OF_INTEGERS = re.compile(
    r"u?int(_least|_fast)?\d+_t|u?int(ptr|max)_t|size_t|ptrdiff_t"
    r"|U?INT(_LEAST|_FAST)?\d+_(MIN|MAX|WIDTH|C)|U?INT(PTR|MAX)_(MIN|MAX|WIDTH|C)"
    r"|(SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MIN|MAX|WIDTH)"
)
_TAKEN_PREFIXES = frozenset({"ti", "taichi", "std", "posix"})


def quoted(text: str) -> str:
    """Return a text as a safe literal of C."""
    # A question mark could begin a trigraph; octal escapes end after three digits.
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "backslashreplace")
    )
    return f'"{plain}"'


def as_comment(text: str) -> str:
    """Return a text for a comment of C: one line, which does not end the comment."""
    line = printable(text).replace("\n", " ")
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)", " ", line)


def usable(name: str, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Return ``name``, with underscores appended if C, C++ or ``taken`` has it."""
    while name in _UNUSABLE or name in taken or _OF_INTEGERS.fullmatch(name):
        name += "_"
    return name


def prefix_of(bundle: str) -> str:
    """Return the prefix and namespace of a bundle's names."""
    return f"{bundle}_bundle" if bundle in _TAKEN_PREFIXES else usable(bundle)


def names_in(text: str, prefix: str) -> set[str]:
    """Return each name of a C text that begins with the prefix, without it."""
    return set(re.findall(rf"\b{re.escape(prefix)}_(\w+)", text))


def defined_in(template: str, prefix: str) -> set[str]:
    """Return the names of a template that begin with NAME or UPPER, for a bundle's prefix."""
    functions = {f"{prefix}_{name}" for name in names_in(template, "NAME")}
    return functions | {f"{prefix.upper()}_{name}" for name in names_in(template, "UPPER")}


class Names:
    """Gives out unique names in C."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = set(taken)

    def give(self, name: str) -> str:
        """Return a unique name like ``name``."""
        given = usable(name, self._taken)
        self._taken.add(given)
        return given
