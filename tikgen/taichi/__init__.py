"""Everything that touches private names of Taichi 1.7.4, one file a topic."""
