"""Actors with message queues: on the host, in batches, or persistent on the device."""

import lazy_loader

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    try:
        return _own(name)
    except AttributeError:
        from tikgen.ring.elsewhere import check_elsewhere

        check_elsewhere(name)
        raise
