"""Native code that joins what processes found: sums, and the greatest and least of numbers."""

from __future__ import annotations

import itertools

# The context: how many values, the address of a list of their addresses, where the result belongs.
_LOOP = """
define void @{name}(ptr %context) {{
entry:
  %count = load i64, ptr %context
  %list_at = getelementptr i64, ptr %context, i64 1
  %list = load ptr, ptr %list_at
  %target_at = getelementptr i64, ptr %context, i64 2
  %target = load ptr, ptr %target_at
  %first_address = load ptr, ptr %list
  %first = load {kind}, ptr %first_address
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %known = phi {wide} [ {start}, %entry ], [ %joined, %loop ]
  %at = getelementptr ptr, ptr %list, i64 %i
  %address = load ptr, ptr %at
  %value = load {kind}, ptr %address
{join}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
{end}
  ret void
}}
"""
# Every dtype that a reduction of a kernel may have: narrower ones are widened.
_KINDS = {
    "f32": "float",
    "f64": "double",
    **{f"{sign}{bits}": f"i{bits}" for sign in "iu" for bits in (32, 64)},
}


def _text(operation: str, dtype: str) -> str:
    kind, is_float = _KINDS[dtype], dtype.startswith("f")
    end = f"  store {kind} %joined, ptr %target"
    if operation == "sum" and is_float:  # In double precision.
        widened = "fpext float %value to double" if dtype == "f32" else "fadd double %value, -0.0"
        join = f"  %wide = {widened}\n  %joined = fadd double %known, %wide"
        if dtype == "f32":
            end = (
                "  %rounded = fptrunc double %joined to float\n  store float %rounded, ptr %target"
            )
        return _LOOP.format(
            name=f"sum_{dtype}", kind=kind, wide="double", start="0.0", join=join, end=end
        )
    if operation == "sum":
        start, join = "0", f"  %joined = add {kind} %known, %value"
    else:
        start = "%first"
        which = {"max": "gt", "min": "lt"}[operation]
        if is_float:  # NaN wins: nothing is beyond it.
            join = (
                f"  %is_beyond = fcmp o{which} {kind} %value, %known\n"
                f"  %is_nan = fcmp uno {kind} %value, %value\n"
                "  %is_taken = or i1 %is_beyond, %is_nan\n"
            )
        else:
            sign = "s" if dtype.startswith("i") else "u"
            join = f"  %is_taken = icmp {sign}{which} {kind} %value, %known\n"
        join += f"  %joined = select i1 %is_taken, {kind} %value, {kind} %known"
    return _LOOP.format(
        name=f"{operation}_{dtype}", kind=kind, wide=kind, start=start, join=join, end=end
    )


# A function for each operation and type, such as `sum_f32`.
FOLDS = "".join(
    _text(operation, dtype) for operation, dtype in itertools.product(("sum", "max", "min"), _KINDS)
)
