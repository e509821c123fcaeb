"""Topics: names with dots, to which actors subscribe by patterns."""

from __future__ import annotations

import functools

from tikgen.ring.errors import InvalidConfigurationError


class Topics:
    """Who subscribed to what.

    A topic is words with dots between them, such as ``sensors.roof.wind``. In a pattern ``*``
    stands for one word, and ``**`` for any number of them, none included.
    """

    def __init__(self) -> None:
        self._subscribers: dict[str, dict[str, None]] = {}
        self._found: dict[str, tuple[str, ...]] = {}

    def subscribe(self, pattern: str, kernel_id: str) -> None:
        """Have messages of all topics that match go to an actor, each of them once."""
        _check(pattern, "pattern")
        self._subscribers.setdefault(pattern, {})[kernel_id] = None
        self._found.clear()

    def unsubscribe(self, pattern: str | None, kernel_id: str) -> None:
        """Undo a subscription, or, without a pattern, all of an actor."""
        for name in [pattern] if pattern is not None else list(self._subscribers):
            subscribers = self._subscribers.get(name, {})
            subscribers.pop(kernel_id, None)
            if not subscribers:
                self._subscribers.pop(name, None)
        self._found.clear()

    def subscribers(self, topic: str) -> tuple[str, ...]:
        """Return the actors that get a message of a topic, in the order of subscription."""
        found = self._found.get(topic) if isinstance(topic, str) else None
        if found is None:
            _check(topic, "topic")
            words = tuple(topic.split("."))
            matching = [
                subscribers
                for pattern, subscribers in self._subscribers.items()
                if _matches(tuple(pattern.split(".")), words)
            ]
            found = tuple(dict.fromkeys(name for names in matching for name in names))
            if len(self._found) < 10_000:  # Topics may be made up without end.
                self._found[topic] = found
        return found


def _matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether words match a pattern.

    Each word is compared with each place of the pattern once at most, however many ``**`` it has.
    """

    @functools.cache
    def rest(place: int, word: int) -> bool:
        if place == len(pattern):
            return word == len(words)
        if pattern[place] == "**":
            return rest(place + 1, word) or (word < len(words) and rest(place, word + 1))
        is_match = word < len(words) and pattern[place] in ("*", words[word])
        return is_match and rest(place + 1, word + 1)

    return rest(0, 0)


def _check(name: str, kind: str) -> None:
    is_text = isinstance(name, str)
    words = name.split(".") if is_text else []
    allowed = ("*", "**") if kind == "pattern" else ()
    if not words or not all(w in allowed or (w and "*" not in w) for w in words) or len(words) > 64:
        wild = "; a word may be * for any one, ** for any number" if kind == "pattern" else ""
        raise InvalidConfigurationError(
            kind, name, f"takes at most 64 words with dots between them, as in 'a.b'{wild}"
        )
