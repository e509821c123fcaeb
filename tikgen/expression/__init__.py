"""Arithmetic in users' text: parsed, checked, and translated to Taichi and NumPy code."""

from tikgen.expression.program import Expression as Expression
from tikgen.expression.program import Program as Program
from tikgen.expression.program import lacks_on_vulkan as lacks_on_vulkan
