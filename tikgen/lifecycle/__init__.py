"""The life of a kernel made visible: what was recorded of it, as text, picture, page and file."""
