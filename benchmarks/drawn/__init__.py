"""Works that are drawn at random, and what each peer has for any of them."""

from drawn.draw import drawn_works
from drawn.forms import form_for

__all__ = ["drawn_works", "form_for"]
