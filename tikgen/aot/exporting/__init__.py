"""Exports: plans, compiles and proves artefacts, and puts a bundle in its place."""
