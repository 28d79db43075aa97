"""Who computes: the workers of the client of distributed, which have the spfgen that is here, or this machine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from spfgen.errors import UsageError

PACKAGE = "spfgen"

_asked: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()
"""The workers of each client that have said their version."""


@dataclass(frozen=True)
class Workers:
    """How many tasks run at a time, on how many workers; the bytes that one of them may hold (0: not known)."""

    count: int = 1
    threads: int = 1
    memory: int = 0

    @property
    def slots(self) -> int:
        return self.count * self.threads


def workers() -> Workers:
    """Those of the client of distributed, if there is one; else the processors of this machine. Raises UsageError where
    they have another spfgen."""
    from os import cpu_count

    client, described = _there()
    if not described:
        return Workers(1, cpu_count() or 1)
    check_versions(client, described)
    memory = min(int(w.get("memory_limit") or 0) for w in described.values())
    return Workers(len(described), max(1, min(int(w["nthreads"]) for w in described.values())), memory)


def addresses() -> tuple[str, ...]:
    """Of the workers of the client of distributed; none where there is no client."""
    return tuple(_there()[1])


def _there() -> tuple[Any, Mapping[str, Any]]:
    """The client of distributed, and what it knows of its workers."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None, {}
    try:
        client = distributed.default_client()
        return client, client.scheduler_info(n_workers=-1)["workers"]
    except (ValueError, KeyError, TypeError, OSError):
        return None, {}


def check_versions(client: Any, described: Mapping[str, Any]) -> None:
    """Ask the scheduler and the workers which spfgen they have, again when others are there: its objects go between
    processes. Raises UsageError. A client that is driven by coroutines cannot ask."""
    named = frozenset(f"{w.get('id', '')} {address}" for address, w in described.items())
    if client.asynchronous or _asked.get(client) == named:
        return
    versions = client.get_versions(packages=[PACKAGE])
    ours = versions["client"]["packages"].get(PACKAGE)
    for where, one in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
        version = one["packages"].get(PACKAGE) if one else ours  # a worker that has just gone says nothing
        if version != ours:
            message = (
                f"expected spfgen {ours} on all of the cluster, as it is here, but {where} has {version or 'none'}"
            )
            raise UsageError(message, None, (f"pip install spfgen=={ours} there, and start it again",))
    _asked[client] = named
