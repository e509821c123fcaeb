"""Arithmetic in users' text: parsed, checked, and translated to Taichi and NumPy code."""

from tikgen.expression.assignments import PARTIAL as PARTIAL
from tikgen.expression.assignments import Assignments as Assignments
from tikgen.expression.assignments import Expression as Expression
from tikgen.expression.assignments import lacks_on_vulkan as lacks_on_vulkan
from tikgen.expression.equations import Equations as Equations
from tikgen.expression.equations import Update as Update
from tikgen.expression.reducing import Reducing as Reducing
