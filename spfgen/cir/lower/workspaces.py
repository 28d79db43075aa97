"""Memory that a kernel needs for itself: taken before anything is written, given back at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp

MEMORY_ERROR = "SPFGEN_ERROR_MEMORY"


@dataclass(frozen=True)
class WorkspaceArray:
    """`count` elements of a C type, all zero bytes, or all `fill`, or anything where not `cleared`; as many again for
    each thread where `each_thread`. All of it is used where it is `filled`."""

    name: str
    kind: str
    count: c.Expr
    fill: c.Expr | None = None
    each_thread: bool = False
    when: c.Expr | None = None
    cleared: bool = True
    filled: bool = False


def taken(workspaces: Sequence[WorkspaceArray]) -> list[c.Stmt]:
    """Allocation of all, with one way out when there is not enough memory."""
    lines: list[c.Stmt] = []
    for w in workspaces:
        count = _counted(w.count)
        count = c.Select(w.when, count, c.Int(0)) if w.when is not None else count
        threads = c.Name("threads") if w.each_thread else c.Int(1)
        size = c.Call("sizeof", (c.Name(w.kind),))
        function = "spfgen_large_memory" if w.filled else "spfgen_workspace" if w.cleared else "spfgen_memory"
        memory = c.Cast(f"{w.kind} *", c.Call(function, (count, threads, size)))
        lines.append(c.Declare(f"{w.kind} *", w.name, memory))
    if not workspaces:
        return lines
    missing: c.Expr = c.Un("!", c.Name(workspaces[0].name))
    for w in workspaces[1:]:
        missing = c.Bin("||", missing, c.Un("!", c.Name(w.name)))
    lines.append(c.If(missing, c.Block((*given_back(workspaces), c.Return(c.Name(MEMORY_ERROR))))))
    for w in workspaces:
        if w.fill is not None:
            lines.append(_filled(w))
    return lines


def _counted(count: c.Expr) -> c.Expr:
    """The same, but products of sizes do not wrap around: extents may be large where another one is 0."""
    match count:
        case c.Bin("*", left, right) if not (isinstance(left, c.Int) and isinstance(right, c.Int)):
            return c.Call("spfgen_times", (_counted(left), _counted(right)))
    return count


def _filled(w: WorkspaceArray) -> c.Stmt:
    counter = f"{w.name}_place"
    count = c.Bin("*", w.count, c.Name("threads")) if w.each_thread else w.count
    assert w.fill is not None
    set_it = c.Assign(c.Load(c.Name(w.name), c.Name(counter)), "=", w.fill)
    loop = c.For("int64_t", counter, c.Int(0), c.Bin("<", c.Name(counter), count), 1, set_it, (openmp.EQUAL_PARTS,))
    return loop if w.when is None else c.If(w.when, c.Block((loop,)))


def given_back(workspaces: Sequence[WorkspaceArray]) -> list[c.Stmt]:
    return [c.Do(c.Call("free", (c.Name(w.name),))) for w in workspaces]
