"""The command ``tikgen``: one command for each public function."""

from tikgen.cli.interrupts import hushed

with hushed():
    from tikgen.cli.app import app, main

__all__ = ["app", "main"]
