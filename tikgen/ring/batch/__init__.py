"""Actors whose body is a kernel that takes many messages in one launch."""
