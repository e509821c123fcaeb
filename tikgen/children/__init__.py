"""Child processes that speak lines of JSON."""
