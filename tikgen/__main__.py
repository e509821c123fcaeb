"""Lets ``python -m tikgen`` do what the command ``tikgen`` does."""

from tikgen.cli import main

main()
