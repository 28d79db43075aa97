"""The body of a loop over parts becomes a function of its own, whose parameters are what it needs.

Compilers heed `restrict` on parameters, not on variables, and nothing of it within a loop in parallel: without the
function a counting sort within the caches takes a third longer.
"""

from __future__ import annotations

import re
from dataclasses import replace

from spfgen.cir.tree import nodes as c
from spfgen.ir import walk

NOINLINE = "SPFGEN_NOINLINE"
"""Before the type of a function that is not to be inlined: rt/noinline.h."""

_REDUCED = re.compile(r" reduction\(\|:(.*)\)")


def with_outlined_part(function: c.Function) -> list[c.Function]:
    """The function of the body and what calls it; the function as it is where more than one result is collected."""
    statements = function.body.statements
    at = next((k for k, s in enumerate(statements) if isinstance(s, c.For) and s.pragmas), None)
    if at is None:
        return [function]
    loop = statements[at]
    assert isinstance(loop, c.For)
    assert isinstance(loop.body, c.Block)
    reduced = _REDUCED.findall(" ".join(loop.pragmas))
    if reduced and "," in reduced[0]:
        return [function]
    types = {p.name: p.type for p in function.params} | {loop.variable: loop.type}
    types |= {s.name: s.type for s in statements[:at] if isinstance(s, c.Declare)}
    body = list(loop.body.statements)
    params, given = list[c.Param](), list[c.Expr]()
    for declared in list(body):
        if not isinstance(declared, c.Declare) or not declared.type.endswith("*restrict") or declared.value is None:
            break
        body.remove(declared)
        params.append(c.Param(declared.type, declared.name))
        given.append(declared.value)
    result = reduced[0] if reduced else ""
    used = {n.name for s in body for n in walk(s) if isinstance(n, c.Name)} - {result}
    shared = [c.Param(t, n) for n, t in types.items() if n in used]
    whole = [c.Declare("int", result, c.Int(0)), *body, c.Return(c.Name(result))] if result else body
    kind = f"{NOINLINE} {'int' if result else 'void'}"
    name = f"{function.name}_part"
    part = c.Function(
        kind, name, (*shared, *params), c.Block(tuple(whole)), f"One part of {function.name}.", static=True
    )
    call: c.Expr = c.Call(name, (*[c.Name(p.name) for p in shared], *given))
    step: c.Stmt = c.Assign(c.Name(result), "|=", call) if result else c.Do(call)
    calling = replace(loop, body=c.Block((step,)))
    lines = (*statements[:at], calling, *statements[at + 1 :])
    return [part, replace(function, body=c.Block(lines))]
