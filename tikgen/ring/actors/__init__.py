"""Actors: mailboxes, contexts, supervision, topics and barriers."""
