"""Actors whose body is a kernel that handles many messages in one launch."""
