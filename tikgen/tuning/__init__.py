"""Tuning: measures schedules on this machine, keeps the records, and finds the fastest."""
