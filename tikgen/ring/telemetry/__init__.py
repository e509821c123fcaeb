"""The telemetry of actors, and its views."""
