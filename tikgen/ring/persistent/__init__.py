"""Actors whose kernel stays on the device and polls a ring in memory."""
