"""Works that are drawn at random, and what each peer has for any of them."""

from drawn.draw import drawn_works
from drawn.forms import FORMS, form_for

__all__ = ["FORMS", "drawn_works", "form_for"]
