"""What an iteration has just made goes to the next one in a register.

    for i { ... for p { s -= a[p]*x[f(p)] } ... x[i] = s/d }

Mostly the last value that is read is x[i - 1]: a chain through all iterations, in which each waits until that is stored
and read again. In a variable it is known sooner (a triangular solve of a mesh takes a fifth less). Where only some
iterations need it, no processor foresees which: a few of them are looked at before, and the variable is not used unless
nearly all do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spfgen import tuning
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined
from spfgen.cir.tree.names import Names
from spfgen.ir import rewrite, walk


@dataclass(frozen=True)
class _Chain:
    """A loop over i that stores `array`[i] once, and inside a loop that takes products with values of it off a sum:
    `inner`, reached if all of `when` hold. `some` says whether it has an iteration, `last` is the position of the last
    one, `values` are what is declared above it."""

    loop: c.For
    store: c.Assign
    inner: c.For
    index: c.Load
    when: tuple[c.Expr, ...]
    values: Mapping[str, c.Expr]

    @property
    def array(self) -> c.Expr:
        return self.store.target.array if isinstance(self.store.target, c.Load) else self.store.target

    @property
    def last(self) -> c.Expr:
        assert isinstance(self.inner.condition, c.Bin)
        end = self.inner.condition.right
        return end if self.inner.step == -1 else _plus(end, -1)

    @property
    def some(self) -> c.Expr:
        assert isinstance(self.inner.condition, c.Bin)
        return replace(self.inner.condition, left=self.inner.start)

    def at_last(self, expr: c.Expr) -> c.Expr:
        """An expression of the inner loop at its last position."""
        return _renamed(expr, {self.inner.variable: self.last})


def with_forwarding(statements: Sequence[c.Stmt], kinds: Mapping[c.Expr, str], names: Names) -> list[c.Stmt]:
    """The statements with such loops, over arrays of these types; what says whether it pays stands before those that
    are not inside of others."""
    return [line for s in statements for line in _with_forwarded(s, kinds, names)]


def _with_forwarded(statement: c.Stmt, kinds: Mapping[c.Expr, str], names: Names) -> list[c.Stmt]:
    match statement:
        case c.For():
            outermost: c.Stmt | None = statement
        case (
            c.Braces(c.Block((*first, outermost)), outline="serial")
            | c.If(orelse=c.Block((c.Braces(c.Block((*first, outermost)), outline="serial"),)))
        ) if not any(isinstance(s, c.Declare) for s in first):
            pass
        case _:
            return [statement]
    forwarded = _chain_of(outermost)
    asked = None if forwarded is None or forwarded.array not in kinds else _asked(forwarded, names)
    if forwarded is None or asked is None:
        return [statement]
    near, lines = asked

    def rule(node: object) -> c.Stmt | None:
        chain = _chain_of(node)
        alike = chain is not None and (chain.array, chain.loop.variable) == (forwarded.array, forwarded.loop.variable)
        return _with_forwarded_value(chain, near, kinds[chain.array], names) if chain is not None and alike else None

    result: c.Stmt = rewrite(rule, statement, c.Stmt)
    return [*lines, result]


def _chain_of(node: object) -> _Chain | None:
    """The loop as such a chain, if it is one."""
    match node:
        case c.For(variable=i, step=1 | -1, body=c.Block(lines), pragmas=()):
            pass
        case _:
            return None
    stores = [s for s in lines if isinstance(s, c.Assign) and isinstance(s.target, c.Load)]
    if len(stores) != 1 or stores[0].op != "=":
        return None
    (store,) = stores
    assert isinstance(store.target, c.Load)
    array = store.target.array
    targets = [n.target for n in walk(node.body) if isinstance(n, c.Assign)]
    written = [t for t in targets if isinstance(t, c.Load) and t.array == array]
    if written != [c.Load(array, c.Name(i))]:
        return None
    for when, values, inner in _reached(lines, (), {}):
        match inner.body:
            case c.Block((c.Assign(c.Name(), "-=", c.Bin("*", _, c.Load(read, c.Load() as index))),)):
                if read == array and isinstance(inner.condition, c.Bin):
                    return _Chain(node, store, inner, index, when, values)
    return None


def _reached(
    lines: Sequence[c.Stmt], when: tuple[c.Expr, ...], values: Mapping[str, c.Expr]
) -> Iterator[tuple[tuple[c.Expr, ...], Mapping[str, c.Expr], c.For]]:
    """The loops by steps of one that are no part of others, under which conditions, and the values of what is declared
    above each."""
    for line in lines:
        match line:
            case c.Declare(name=name, value=value) if value is not None:
                values = {**values, name: _renamed(value, values)}
            case c.Braces(c.Block(inner)) | c.Block(inner):
                yield from _reached(inner, when, values)
            case c.If(condition=condition, then=c.Block(inner)):
                yield from _reached(inner, (*when, _renamed(condition, values)), values)
            case c.For(step=1 | -1):
                yield when, values, line


def _asked(chain: _Chain, names: Names) -> tuple[c.Name, list[c.Stmt]] | None:
    """1 if nearly all of some iterations need the one before them first, else 0, and what finds that out; None where
    it depends on what the loop does."""
    loop = chain.loop
    assert isinstance(loop.condition, c.Bin)
    i, down = c.Name(loop.variable), loop.step == -1
    needed = c.Bin("==", chain.at_last(chain.index), _plus(i, 1 if down else -1))
    conditions = [*chain.when, *(_renamed(e, chain.values) for e in (chain.some, needed))]
    declared = {n.name for n in walk(loop) if isinstance(n, c.Declare | c.For) for n in (_own(n),)}
    if any(n.name in declared - {i.name} for e in conditions for n in walk(e) if isinstance(n, c.Name)):
        return None
    low, high = (loop.condition.right, loop.start) if down else (_plus(loop.start, 1), loop.condition.right)
    hits, near = (c.Name(names.new(n)) for n in ("hits", "near"))
    part = c.Bin("/", c.Bin("-", high, low), c.Int(2 * tuning.FORWARDING_SAMPLES))
    step = c.Bin("+", i, c.Bin("+", c.Bin("*", c.Int(2), part), c.Int(1)))  # odd: not at the same place of each line
    count = c.Assign(hits, "+=", c.Select(joined("&&", conditions), c.Int(1), c.Int(tuning.FORWARDING_MISS)))
    few = c.Bin(">=", hits, c.Int(tuning.FORWARDING_MISS))  # misses: with a second one there are enough
    return near, [
        c.Comment(f"whether nearly every {i.name} needs the value of the one before: that stays in a register then"),
        c.Declare(INT, hits.name, c.Int(0)),
        c.For(INT, i.name, low, c.Bin("&&", c.Bin("<", i, high), few), step, c.Block((count,))),
        c.Declare("const bool", near.name, c.Bin(">", hits, c.Int(0))),
    ]


def _own(node: c.Declare | c.For) -> c.Name:
    return c.Name(node.name if isinstance(node, c.Declare) else node.variable)


def _with_forwarded_value(chain: _Chain, near: c.Name, kind: str, names: Names) -> c.Stmt:
    """The loop, and the same with the latest value in a variable, and whose it is."""
    inner, loop = chain.inner, chain.loop
    assert isinstance(inner.body, c.Block)
    assert isinstance(inner.condition, c.Bin)
    (product,) = inner.body.statements
    assert isinstance(product, c.Assign)
    assert isinstance(product.value, c.Bin)
    value, at, place = (c.Name(names.new(n)) for n in ("prev", "prev_at", "own"))
    limit = _plus(inner.condition.right, 1 if inner.step == -1 else -1)
    all_but_last = replace(inner, condition=replace(inner.condition, right=limit))
    read = c.Select(c.Bin("==", place, at), value, c.Load(chain.array, place))
    last = c.Block(
        (
            c.Declare(f"const {INT}", place.name, chain.at_last(chain.index)),
            replace(product, value=replace(product.value, left=chain.at_last(product.value.left), right=read)),
        )
    )

    def rule(node: object) -> c.Stmt | None:
        if node is inner:
            return c.Block((all_but_last, c.If(chain.some, last)))
        if node is chain.store:
            stored = replace(chain.store, value=value)
            whose = c.Assign(at, "=", c.Name(loop.variable))
            return c.Block((c.Assign(value, "=", chain.store.value), stored, whose))
        return None

    body: c.Stmt = rewrite(rule, loop.body, c.Stmt)
    kept = (c.Declare(kind, value.name, c.Int(0)), c.Declare(INT, at.name, c.Int(-1)), replace(loop, body=body))
    return c.If(near, c.Block(kept), c.Block((loop,)))


def _renamed(expr: c.Expr, values: Mapping[str, c.Expr]) -> c.Expr:
    result: c.Expr = rewrite(lambda n: values.get(n.name) if isinstance(n, c.Name) else None, expr)
    return result


def _plus(expr: c.Expr, number: int) -> c.Expr:
    """The sum, in as few numbers as there may be."""
    match expr:
        case c.Bin("+" | "-" as op, left, c.Int(value)):
            expr, number = left, number + (value if op == "+" else -value)
        case c.Int(value):
            return c.Int(value + number)
    return expr if number == 0 else c.Bin("+" if number > 0 else "-", expr, c.Int(abs(number)))
