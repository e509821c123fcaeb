"""Sweeps: measures every combination of a template's parameters, and gives a table."""
