"""Times every work against its peers, in turn, in one process; the saved JSON holds all of them.

pytest-benchmark times tikgen's default. Before each of its rounds every peer has had one of its
own, so that whatever disturbs the machine disturbs all of them. What they took stands under
``extra_info``, for one call each.
"""

from __future__ import annotations

import gc
import os
import re
from dataclasses import asdict
from typing import Any

import pytest

import machine
from limits import limit_of
from peers import Absent, Peer, find_peers
from peers.checking import Wrong, checked_call
from peers.peer import Call
from timing import SECONDS_A_ROUND, Turns
from works import WORKS, Work

OURS = "default"
TUNED = "tuned"
LIMIT = "limit"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    arch = os.environ.get("TIKGEN_TEST_ARCH", "cpu")
    chosen = metafunc.config.getoption("--machine") or machine.kind(arch)
    works = [work for work in WORKS if work.machine == chosen]
    metafunc.parametrize("work", works, ids=[re.sub(r"\W", "-", work.name) for work in works])


def test_work(benchmark: Any, pytestconfig: Any, ti_arch: str, work: Work) -> None:
    peers = find_peers(ti_arch, work.machine, pytestconfig.getoption("--tune-seconds"))
    host = work.arguments()
    expected = work.expected(host)
    calls: dict[str, Call] = {}
    finishes: dict[str, Call] = {}
    errors: dict[str, float] = {}
    outcomes: dict[str, dict[str, Any]] = {}
    for key, peer in peers.items():
        try:
            if not isinstance(peer, Peer):
                raise Absent(peer)
            calls[key], errors[key] = checked_call(peer, work, host, expected, key in (OURS, TUNED))
            finishes[key] = peer.finish
        except Absent as reason:
            outcomes[key] = {"absent": str(reason)}
        except Wrong as reason:
            outcomes[key] = {"wrong": str(reason)}
        except Exception as error:  # A peer that fails is a result, and not the end.
            first = (str(error).strip() or repr(error)).splitlines()[0]
            outcomes[key] = {"absent": f"fails: {type(error).__name__}: {first[:200]}"}
    del expected
    gc.collect()
    assert OURS in calls, outcomes[OURS]

    limit = limit_of(work, peers)
    turns = Turns(
        {**calls, LIMIT: limit.call},
        {**finishes, LIMIT: limit.finish},
        # To wait for a GPU costs up to 1 ms; a round is long against that.
        seconds_a_round=0.1 if work.machine == "gpu" else SECONDS_A_ROUND,
    )
    benchmark.pedantic(
        turns.time, (OURS,), setup=lambda: turns.begin_round(OURS), rounds=turns.rounds
    )
    timings = turns.timings()
    rate = limit.amount / timings.pop(LIMIT).median
    found = outcomes | {k: asdict(t) | {"error": errors[k]} for k, t in timings.items()}
    benchmark.extra_info |= {
        "work": work.name,
        "machine": work.machine,
        "bytes": work.cost.bytes,
        "flops": work.cost.flops,
        "calls_a_round": turns.calls_a_round[OURS],
        "limit": {"kind": limit.key, "rate": rate},
        "peers": {key: found[key] for key in peers},
    }
