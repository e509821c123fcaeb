"""Runs bundles over Taichi's C library; nothing in here imports Taichi."""
