"""Records what a program builds and launches, and makes a bundle of it."""
