"""What is measured of actors, and the ways to look at it."""
