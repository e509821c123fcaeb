"""Machine code in the store, so that no process compiles again what another one compiled."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tikgen import taichi
from tikgen.store import default_store
from tikgen.version import __version__

KIND = "code"


@dataclass(frozen=True)
class Stored:
    """Machine code in the store.

    Attributes:
        content: the code.
        agrees: whether its results were compared with those of Taichi, and had the same bits.
    """

    content: bytes
    agrees: bool = False


def key_of(facts: Mapping[str, Any]) -> str:
    """Return the key of machine code that depends on ``facts`` and on this version of tikgen."""
    every = {**facts, "tikgen": __version__, "made by": _sources()}
    return hashlib.sha256(json.dumps(every, sort_keys=True).encode()).hexdigest()


def read(key: str) -> Stored | None:
    """Return the machine code under a key, or None if it is missing or damaged."""
    document = default_store().read(KIND, key) or {}
    if document.get("key") != key:  # Code of another kernel would be called all the same.
        return None
    try:
        content = base64.b64decode(document["code"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    return Stored(content, document.get("agrees") is True) if content else None


def keep(key: str, name: str, stored: Stored) -> None:
    """Put machine code into the store under a key; ``name`` says for people what it is."""
    code = base64.b64encode(stored.content).decode()
    document = {"key": key, "name": name, "code": code, "agrees": stored.agrees}
    default_store().write(KIND, key, document)


@functools.cache
def _sources() -> str:
    """Return the SHA-256 of the files that decide how machine code is made and called."""
    found = hashlib.sha256()
    for package in (__package__, taichi.__name__):
        for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
            if file.name.endswith((".py", ".ll")):
                found.update(file.read_bytes())
    return found.hexdigest()
