"""Runs the command ``tikgen`` as ``python -m tikgen``."""

from tikgen.cli import main

main()
