"""What stages look like wherever they are shown: their colours and their meanings."""

from __future__ import annotations

# Told apart by colour-blind readers as well, after Okabe and Ito (2008): blues before Taichi sees a
# kernel, warm colours while it compiles, green when it runs.
COLOURS = {
    "resolve": "#9dd3f5",
    "render": "#56b4e9",
    "hash": "#b9b4dd",
    "dedup": "#8b83bd",
    "load": "#0072b2",
    "register": "#e8cf3f",
    "instantiate": "#e69f00",
    "ast": "#cc79a7",
    "compile": "#d55e00",
    "launch": "#009e73",
    # Actors, after Paul Tol's muted scheme (2021).
    "created": "#bbbbbb",
    "launched": "#88ccee",
    "active": "#999933",
    "deactivated": "#ddcc77",
    "session": "#dddddd",
    "batch": "#44aa99",
    "failed": "#882255",
    "restart": "#aa4499",
    "terminating": "#6655aa",
    "terminated": "#332288",
}
MEANINGS = {
    "resolve": "find the template, check the parameters, choose the schedule",
    "render": "write the source from the template",
    "hash": "digest of the code",
    "dedup": "look for a kernel with the same code",
    "load": "run the source as a module",
    "register": "the decorator ti.kernel takes the function in",
    "instantiate": "a new template signature, its Python AST read",
    "ast": "the Python AST is transformed into Taichi's",
    "compile": "IR passes and code generation, or code from a cache",
    "launch": "calls of the compiled kernel",
    "created": "an actor gets its queues",
    "launched": "an actor gets its kernel and its memory on the device",
    "active": "an actor begins to handle messages",
    "deactivated": "an actor pauses, and its messages wait",
    "session": "a kernel stays on the device and polls for messages",
    "batch": "an actor handles messages together",
    "failed": "an actor raised",
    "restart": "an actor is started again after it failed",
    "terminating": "an actor takes nothing new, and handles what waits",
    "terminated": "an actor has ended",
}
CACHE = {
    "compiled": "compiled",
    "disk": "from the cache on disk",
    "memory": "from the cache in memory",
    "unknown": "compiled or cached, not known which",
}
