"""Variables that nothing reads are left out, with what is stored in them: compilers warn of them.

Later passes leave some behind, such as where a segment ends when no iteration needs where the next one begins.
"""

from __future__ import annotations

from dataclasses import replace

from spfgen.cir.tree import nodes as c
from spfgen.ir import rewrite, walk


def without_unused(function: c.Function) -> c.Function:
    """The function without them; what calls something stays."""
    while True:
        nodes = list(walk(function.body))
        stores = [n for n in nodes if isinstance(n, c.Assign) and isinstance(n.target, c.Name) and n.op == "="]
        reads = [n.name for n in nodes if isinstance(n, c.Name)]
        written = [n.target.name for n in stores if isinstance(n.target, c.Name)]
        calling = {n.name for n in nodes if isinstance(n, c.Declare) and _calls(n.value)}
        calling |= {n.target.name for n in stores if isinstance(n.target, c.Name) and _calls(n.value)}
        unused = {n.name for n in nodes if isinstance(n, c.Declare) and not n.length} - calling
        unused = {n for n in unused if reads.count(n) == written.count(n)}
        pragmas = " ".join(p for n in nodes if isinstance(n, c.For | c.Pragma) for p in _pragmas(n))
        unused = {n for n in unused if n not in pragmas}
        if not unused:
            return function

        def rule(node: object, unused: set[str] = unused) -> c.Stmt | None:
            if not isinstance(node, c.Block):
                return None
            kept = tuple(s for s in node.statements if not _is_of(s, unused))
            return c.Block(kept) if len(kept) < len(node.statements) else None

        body = rewrite(rule, function.body, c.Stmt)
        if body is function.body:
            return function
        function = replace(function, body=body)


def _calls(value: c.Expr | None) -> bool:
    return value is not None and any(isinstance(n, c.Call) for n in walk(value))


def _pragmas(node: c.For | c.Pragma) -> tuple[str, ...]:
    return node.pragmas if isinstance(node, c.For) else (node.text,)


def _is_of(statement: c.Stmt, names: set[str]) -> bool:
    match statement:
        case c.Declare(_, name) | c.Assign(c.Name(name), "="):
            return name in names
    return False
