"""Arithmetic that users write, parsed, checked and turned into Taichi and NumPy code."""

from __future__ import annotations


class Expression:
    """One expression over named values."""


class Program:
    """Assignments, each of an expression to a name."""
