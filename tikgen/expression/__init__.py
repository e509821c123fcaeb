"""Arithmetic in users' text: parsed, checked, and translated to Taichi and NumPy code."""

from tikgen.expression.assignments import Assignments as Assignments
from tikgen.expression.assignments import Expression as Expression
from tikgen.expression.assignments import lacks_on_vulkan as lacks_on_vulkan
