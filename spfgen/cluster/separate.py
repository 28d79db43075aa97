"""What of a statement can be computed apart: which indices may be cut, and what a block of work reads of each operand.

All follows from the text: accesses, subscripts and reductions. An index may be cut

- where it stands alone as one subscript of the target: blocks of the result are disjoint;
- where all of the value is summed over it, or reduced by an operator that may take terms in any order, or where the
  target is written at places that are values (a scatter): results are combined by that operator.

An index that a condition, a division or a view speaks of is not cut: operands are taken whole along it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spfgen.errors import Unsupported
from spfgen.facts.formula import Bin, Expr, Formula, Num, variables
from spfgen.ir import children, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.ops import OPERATORS
from spfgen.lang.products import is_sum_of_products
from spfgen.lang.uses import accesses_in
from spfgen.sets.affine import Affine, NotAffine, affine

RESULT, COMBINED = "result", "combined"


@dataclass(frozen=True)
class Way:
    """How results meet where an index is cut: `RESULT` along `axis` of the target, or `COMBINED` by `op`."""

    kind: str
    axis: int = -1
    op: str = ""


@dataclass(frozen=True)
class Separable:
    """`ways` are the indices that may be cut, `kept` those that may not, with the reason."""

    ways: Mapping[str, Way]
    kept: Mapping[str, str]


def linear(subscript: Any) -> Affine | None:
    """A subscript that is a sum of multiples of indices; None for all others."""
    if not isinstance(subscript, Expr):
        return None
    try:
        found = affine(subscript, lambda call: call.function)
    except NotAffine:
        return None
    return None if found.floors() else found


def plain(subscript: Any) -> str | None:
    """The index that a subscript is."""
    found = linear(subscript)
    if found is None or found.constant or len(found.terms) != 1 or found.terms[0][1] != 1:
        return None
    return str(found.terms[0][0])


def separable(statement: lang.Statement) -> Separable:
    """Raises Unsupported for a statement that reads its own target."""
    own = [a for a in accesses_in([statement.value]) if a.tensor == statement.target.tensor]
    if own:
        name, index = own[0].tensor, next(iter(_indices_of(own[0])), "")
        along = f" along `{index}`" if index else ""
        hint = f"give the result another name, or pass operands that are not in blocks: {name}=A.compute()"
        message = f"expected a program whose blocks can be computed apart, but `{name}` is read{along} while it is made"
        raise Unsupported(message, own[0].span, (hint,))
    ways: dict[str, Way] = {}
    kept = dict(_spoken_of(statement))
    for index in sorted({i for a in accesses_in([statement]) for i in _indices_of(a)} - set(kept)):
        found = _way(statement, index)
        if isinstance(found, str):
            kept[index] = found
        else:
            ways[index] = found
    return Separable(ways, kept)


def _indices_of(access: lang.Access) -> list[str]:
    return [i for s in access.subscripts for e in walk(s) if isinstance(e, Expr) for i in sorted(variables(e))]


def _spoken_of(statement: lang.Statement) -> Iterator[tuple[str, str]]:
    """Indices of which more is said than that they are subscripts."""
    top = statement.value
    for node in walk(statement):
        match node:
            case (
                lang.Collapse(_, old, new)
                | lang.Split(_, old, new)
                | lang.Concat(_, old, new)
                | lang.Slice(_, old, new)
            ):
                bound = [n for names in (old, new) for n in ((names,) if isinstance(names, str) else names)]
                yield from ((name, "a view binds it") for name in bound)
            case lang.Range(index):
                yield index, "it counts a slice"
            case lang.Reduce(indices=indices, where=where):
                if node is not top:
                    yield from ((i, "a reduction within the value binds it") for i in indices)
                yield from ((i, "a condition speaks of it") for i in _names_in(where))
            case lang.Access(_, subscripts):
                for s in subscripts:
                    if isinstance(s, Expr) and linear(s) is None:
                        yield from ((i, "it is divided, or multiplied by another") for i in variables(s))
            case lang.Index(expr):
                if linear(expr) is None:
                    yield from ((i, "it is divided, or multiplied by another") for i in variables(expr))
    yield from ((i, "a condition speaks of it") for i in _names_in(statement.where))


def _names_in(where: Formula | None) -> set[str]:
    return set() if where is None else variables(where)


def _way(statement: lang.Statement, index: str) -> Way | str:
    axes = [k for k, s in enumerate(statement.target.subscripts) if index in _within(s)]
    if statement.within:
        return "the pattern of the result decides"
    if axes:
        return _of_target(statement, index, axes)
    if isinstance(statement.value, lang.Reduce):
        return _reduced(statement, statement.value, index)
    scatters = any(linear(s) is None for s in statement.target.subscripts)
    if statement.op not in ("=", "+=") or scatters:
        return "the result is written at places that are not known before"
    if not _every_term_has(statement.value, index):
        return "not all terms are summed over it"
    return Way(COMBINED, op="add")


def _of_target(statement: lang.Statement, index: str, axes: list[int]) -> Way | str:
    subscripts = statement.target.subscripts
    if len(axes) == 1 and plain(subscripts[axes[0]]) == index:
        return Way(RESULT, axes[0])
    if statement.op in ("+=", "maximum", "minimum", "logical_or") and any(linear(subscripts[a]) is None for a in axes):
        return Way(COMBINED, op="add" if statement.op == "+=" else statement.op)
    return "the result is written at more than one subscript of it"


def _within(subscript: Any) -> set[str]:
    return {i for e in walk(subscript) if isinstance(e, Expr) for i in variables(e)}


def _reduced(statement: lang.Statement, value: lang.Reduce, index: str) -> Way | str:
    if index not in value.indices or statement.op not in ("=", "+=") or (statement.op == "+=" and value.op != "add"):
        return "not all of the value is reduced over it"
    operator = None if value.function is not None else OPERATORS.get(value.op)
    if operator is None or operator.associative is not True or operator.commutative is not True:
        return f"`{value.op}` does not combine results of parts"
    if operator.identity is None:
        return f"`{value.op}` has no value for an empty part"
    return Way(COMBINED, op=value.op)


def _every_term_has(value: Any, index: str) -> bool:
    """Whether the value is a sum of products, each with the index: then it is summed over it, term by term."""
    if not is_sum_of_products(value) or any(isinstance(n, lang.Reduce) for n in walk(value)):
        return False
    return all(any(index in _within(s) for a in accesses_in([t]) for s in a.subscripts) for t in _terms(value))


def _terms(value: Any) -> Iterator[Any]:
    if isinstance(value, lang.Apply) and value.op in ("add", "subtract", "negative"):
        for part in value.arguments:
            yield from _terms(part)
    elif isinstance(value, lang.Apply) and value.op in ("multiply", "divide"):
        inner = [n for part in children(value) for n in walk(part) if isinstance(n, lang.Apply)]
        if any(n.op in ("add", "subtract") for n in inner) or value.op == "divide":
            yield lang.Constant(0)  # a product of sums: which of its terms are summed is not told apart here
        else:
            yield value
    else:
        yield value


# --- what a block of work reads ------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """One access with its own name for what a block of work gets of the operand. Along the axes of `sides` that is the
    image of the block under the subscript; it is whole along the others."""

    name: str
    access: lang.Access
    sides: tuple[Affine | None, ...]


def reads_of(statement: lang.Statement, cut: set[str]) -> tuple[tuple[Read, ...], lang.Statement]:
    """The reads of a statement, and the statement over their names. Accesses with the same subscripts are one."""
    found: dict[lang.Access, Read] = {}
    seen: set[str] = {a.tensor for a in accesses_in([statement])}

    def named(node: Any) -> Any:
        if not isinstance(node, lang.Access) or not node.subscripts:
            return None
        if node not in found:
            name = node.tensor
            others = sum(r.access.tensor == name for r in found.values())
            while others and name in seen:
                others, name = others + 1, f"{node.tensor}_{others}"
            seen.add(name)
            found[node] = Read(name, node, tuple(_side(s, cut) for s in node.subscripts))
        return replace(node, tensor=found[node].name)

    value = rewrite(named, statement.value)
    subscripts = tuple(rewrite(named, s) for s in statement.target.subscripts)
    target = replace(statement.target, subscripts=subscripts)
    return tuple(found.values()), replace(statement, value=value, target=target)


def _side(subscript: Any, cut: set[str]) -> Affine | None:
    found = linear(subscript)
    return found if found is not None and any(name in cut for name, _ in found.terms) else None


def image(side: Affine, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """The least and one more than the largest value of a subscript over a box that is not empty."""
    low = side.constant + sum(c * (ranges[str(i)][0] if c > 0 else ranges[str(i)][1] - 1) for i, c in side.terms)
    high = side.constant + sum(c * (ranges[str(i)][1] - 1 if c > 0 else ranges[str(i)][0]) for i, c in side.terms)
    return low, high + 1


def shifted(subscript: Expr, by: int) -> Expr:
    """The subscript with a number added."""
    if not by:
        return subscript
    return Bin("+", subscript, Num(by)) if by > 0 else Bin("-", subscript, Num(-by))
