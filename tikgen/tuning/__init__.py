"""Tuning: measures schedules on this machine, keeps what came of each, and finds the fastest."""
