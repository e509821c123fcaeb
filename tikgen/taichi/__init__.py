"""Everything that touches private names of Taichi, one file a topic."""
