"""Pairs with equal keys: each value of the last loop is compared with the last one before it that has the same keys.

That one is found by a hash table of chains. One loop: each thread has the keys of a part of the table. Loops around it:
each thread has a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spfgen.cir.checks import bits
from spfgen.cir.checks.names import HOLDS
from spfgen.cir.checks.partition import counted, partitioned, workspace
from spfgen.cir.checks.writer import NEVER, Writer, critical
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, any_of, loop, minus
from spfgen.facts.formula import Var
from spfgen.layout.checks import GroupCheck
from spfgen.layout.loops import Loop


@dataclass(frozen=True)
class Chains:
    """C names: the first value that is wrong; the table, in which `slots` heads of chains stand before the links; the
    number of keys; by how much a hash is shifted."""

    found: str
    table: str
    count: str
    slots: str
    shift: str

    def sizes(self) -> list[c.Stmt]:
        """A chain for each key, or more."""
        return [
            c.Declare("const int", self.shift, c.Call("spfgen_chain_shift", (c.Name(self.count),))),
            c.Declare(f"const {INT}", self.slots, c.Call("spfgen_chains", (c.Name(self.count),))),
        ]

    def words(self) -> c.Expr:
        """How long the table is."""
        return c.Bin("+", c.Name(self.slots), c.Name(self.count))


def groups(w: Writer, part: GroupCheck) -> list[c.Stmt]:
    *outer, last = part.scan.loops
    w.counted = bool(outer) and not w.check.is_linear
    chains = Chains(*(w.names.of(n) for n in ("found", "table", "count", "slots", "shift")))
    lines: list[c.Stmt] = [c.Declare(INT, chains.found, NEVER), *w.counter()]
    lines += _tables(w, part, outer, last, chains) if outer else _one_table(w, part, last, chains)
    lines.append(c.Do(c.Call("free", (c.Name(chains.table),))))
    lines.append(w.failed_at(chains.found))
    lines += w.too_much()
    return w.within(part.scan.before, lines)


def _one_table(w: Writer, part: GroupCheck, over: Loop, chains: Chains) -> list[c.Stmt]:
    lines, low, high = counted(w, over, chains.count)
    hold = c.If(c.Bin("<=", c.Name(chains.count), c.Int(0)), c.Block((c.Return(c.Name(HOLDS)),)))
    lines += [hold, *bits.in_set(w, part, low, high, chains.found, chains.count), *chains.sizes()]
    lines += workspace(w, INT, chains.table, chains.words(), c.Int(1))
    start, end = w.names.of("slot_start"), w.names.of("slot_end")
    return [
        *lines,
        partitioned(
            w, "the keys whose slots are in this part", chains.slots, (start, end),
            _chained(w, part, low, high, chains, within=(start, end)),
        ),
    ]  # fmt: skip


def _tables(w: Writer, part: GroupCheck, outer: Sequence[Loop], over: Loop, chains: Chains) -> list[c.Stmt]:
    longest, size, thread_table, k = (w.names.of(n) for n in ("longest", "size", "own", "k"))
    count = chains.count

    def measure() -> list[c.Stmt]:
        lines, _, _ = counted(w, over, count)
        higher = c.Bin(">", c.Name(count), c.Name(longest))
        return [*lines, c.If(higher, c.Block((c.Assign(c.Name(longest), "=", c.Name(count)),)))]

    def row() -> list[c.Stmt]:
        lines, low, high = counted(w, over, count)
        wanted: c.Expr = c.Bin(">", c.Name(count), c.Int(1))
        if w.counted:
            lines.append(w.counting(low, high))
            wanted = c.Bin("&&", wanted, w.is_little())
        place = c.Bin("+", c.Name(chains.table), c.Bin("*", openmp.HERE, c.Name(size)))
        cleared = c.Assign(c.Load(c.Name(thread_table), c.Name(k)), "=", c.Int(0))
        doing: list[c.Stmt] = [
            c.Declare(f"{INT} *", thread_table, place),
            *chains.sizes(),
            loop(k, c.Int(0), chains.words(), [cleared]),
            *_chained(w, part, low, high, replace(chains, table=thread_table), order=outer[0].variable),
        ]
        return [*lines, c.If(wanted, c.Block(tuple(doing)))]

    measured = w.uncounted(lambda: w.loops(outer, measure, w.parallel(openmp.combined("max", longest))))
    words = c.Bin("+", c.Call("spfgen_chains", (c.Name(longest),)), c.Name(longest))
    return [
        c.Declare(INT, longest, c.Int(0)),
        *measured,
        c.Declare(f"const {INT}", size, words),
        *workspace(w, INT, chains.table, c.Name(size), c.Name(w.threads)),
        *w.loops(outer, row, w.shared()),
    ]


def _chained(
    w: Writer,
    part: GroupCheck,
    low: c.Expr,
    high: c.Expr,
    chains: Chains,
    within: tuple[str, str] | None = None,
    order: str = "",
) -> list[c.Stmt]:
    """The loop over a range: links hold places counted from its start, plus one.

    `within`: only slots between these are looked at. `order`: the variable of the outermost loop, if there is one.
    """
    slot, link, hash_name = w.names.of("slot"), w.names.of("link"), w.names.of("hash")
    at, before = w.names.of(part.second), w.names.of(part.first)
    content = c.Un("*", c.Name(link))
    shifted = c.Bin("-", content, c.Int(1))
    other = shifted if low == c.Int(0) else c.Bin("+", low, shifted)  # the place that the link holds
    keys = _keys(w, part, c.Name(at))
    their = _keys(w, part, other)
    differs = any_of([c.Bin("!=", a, b) for a, b in zip(keys, their, strict=True)])
    links = c.Bin("+", c.Name(chains.table), c.Name(chains.slots))
    following = c.Assign(c.Name(link), "=", c.Bin("+", links, shifted))
    hit = [c.Declare(f"const {INT}", before, other), *_compared(w, part, chains, low, order)]
    is_held = c.Bin(">", content, c.Int(0))
    chain: list[c.Stmt] = [
        c.Declare(f"{INT} *", link, c.Bin("+", c.Name(chains.table), c.Name(slot))),
        c.While(c.Bin("&&", is_held, differs), c.Block((following,))),
        c.If(is_held, c.Block(tuple(hit))),
        c.Assign(content, "=", c.Bin("+", minus(c.Name(at), low), c.Int(1))),
    ]
    if within:
        mine = c.Bin("&&", c.Bin(">=", c.Name(slot), c.Name(within[0])), c.Bin("<", c.Name(slot), c.Name(within[1])))
        chain = [c.If(mine, c.Block(tuple(chain)))]
    mixed = [c.Assign(c.Name(hash_name), "=", c.Call("spfgen_mix", (c.Name(hash_name), key))) for key in keys]
    lines: list[c.Stmt] = [
        c.Declare("uint64_t", hash_name, c.Int(0)),
        *mixed,
        c.Declare(f"const {INT}", slot, c.Cast(INT, c.Bin(">>", c.Name(hash_name), c.Name(chains.shift)))),
        *chain,
    ]
    return [loop(at, low, high, lines)]


def _keys(w: Writer, part: GroupCheck, place: c.Expr) -> list[c.Expr]:
    with w.naming({part.first: place}):
        return [w.expr(k) for k in part.keys]


def _compared(w: Writer, part: GroupCheck, chains: Chains, low: c.Expr, order: str) -> list[c.Stmt]:
    """A place and the one before it with equal keys: what is wrong is noted, and the link of the one is the other's."""
    at, before = c.Name(w.names.of(part.second)), c.Name(w.names.of(part.first))
    with w.naming({part.first: before, part.second: at}):
        more, wrong = w.wrong(part.body, part.inside)
        kept = w.kept_names()
    value = w.expr(Var(order)) if order else at
    least_broken = c.Name(chains.found)
    is_first = c.Bin("<", value, least_broken)  # in the order of the loops
    record = c.If(is_first, c.Block((c.Assign(least_broken, "=", value), *kept)))

    def seat(place: c.Expr) -> c.Expr:
        return c.Load(c.Name(chains.table), c.Bin("+", c.Name(chains.slots), minus(place, low)))

    return [*more, c.If(wrong, critical([record])), c.Assign(seat(at), "=", seat(before))]
