"""Loops that add to places all over the memory, which they fetch ahead (plan/scattered.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spfgen.cir import nodes as c
from spfgen.cir.scope import Scope
from spfgen.cir.sums import pays
from spfgen.ir import rewrite
from spfgen.plan.nodes import Scan
from spfgen.plan.scattered import fetching

if TYPE_CHECKING:
    from spfgen.cir.from_plan import Lowering


def may_fetch(low: Lowering, plan: Scan, inner: Scan, scope: Scope, comment: Sequence[c.Stmt]) -> c.Stmt:
    """The loop, in which `inner` (or itself) fetches the places that it adds to, if they are scattered. Beside such
    waits it counts little how segments end: they are not taken together then."""
    assert inner.scattered is not None

    def answer(by: Scan, flat: str) -> c.Block:
        loop = by if inner is plan else rewrite(lambda n: by if n is inner else None, replace(plan, flat=flat))
        return c.Block(tuple(low.whole_scan(loop, scope, list(comment))))

    asked = pays(low, inner.scattered, scope)
    return c.If(asked, answer(fetching(inner), ""), answer(replace(inner, scattered=None), plan.flat))
