"""Which statements are sums of products, and what is made of them by the four operators, of tensors that are 0 where
nothing is stored: their points are instances. All others are planned by regions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.products import first_beyond
from spfgen.lang.show import show_value
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.layout.proofs import stored_once
from spfgen.space.assembled import is_zero_on_fills
from spfgen.space.names import accesses
from spfgen.space.products import has_sum, is_long_by_element
from spfgen.space.recurrences import reads_the_rest
from spfgen.space.runs import is_about_runs
from spfgen.space.unions import merges
from spfgen.space.values import combined_type, converted_within


@dataclass(frozen=True)
class Operands:
    """What a statement speaks of: the `layouts` and value `types` of tensors, results whose pattern is `computed`, the
    kernel's `sizes`; whether a sum of products stays one though something else were faster, `as_written`."""

    layouts: Mapping[str, Layout]
    types: Mapping[str, str]
    computed: Set[str]
    sizes: Sequence[str]
    as_written: bool = False


def beyond_products(statement: Any, known: Operands) -> str:
    """What is more than a sum of products in a statement; "" where nothing is."""
    if beyond := what_is_beyond(statement):
        return beyond
    layouts = known.layouts
    for name in dict.fromkeys(a.tensor for a in (statement.target, *accesses(statement.value))):
        if name in layouts and not is_summed(layouts[name]):
            fill = layouts[name].fill
            return f"`{name}` is not 0 where nothing is stored" if fill != 0 else f"values of `{name}` are turned"
    if (node := converted((statement,), known)) is not None:
        return f"`{show_value(node)}` is made in another type than the whole"
    if recurs(statement) and reads_the_rest(statement, known.sizes):
        return "it reads places of its target that it does not write"
    if name := _counted(statement, known):
        return f"a truth value of `{name}` may be stored several times"
    computed = statement.target.tensor in known.computed
    if not known.as_written:
        if is_about_runs(statement, layouts, known.computed):
            return "values do not change along runs"
        if _divides_by_sums(statement, known.computed):
            return "it divides by a sum"
        if _multiplies_sums(statement.value, layouts):
            return "a sum is needed only where a factor of it is stored"
        if computed and merges(statement, layouts):
            return "operands in one order are merged"
        if is_long_by_element(statement):
            return "a product of sums would be written out as many products"
    if computed and not is_zero_on_fills(statement.value):
        return "a result is not 0 where nothing is stored"
    if any(a.tensor in known.computed for a in accesses(statement.value)):
        return "it reads a result whose pattern it computes"
    return ""


def is_summed(layout: Layout) -> bool:
    """What is not stored is 0, and what is stored the value, perhaps with another sign."""
    return layout.fill == 0 and all(t.operators in ((), ("negative",)) for t in layout.value_transforms)


def recurs(statement: lang.Statement) -> bool:
    """Whether a statement reads its target: instances alone know an order for that."""
    return any(a.tensor == statement.target.tensor for a in accesses(statement.value))


def converted(statements: Sequence[lang.Statement], known: Operands) -> Any | None:
    """The first operation that is not made in the type of its statement; None where all are, or numpy refuses one."""
    for statement in statements:
        used = {statement.target.tensor, *(a.tensor for a in accesses(statement.value))}
        try:
            found = converted_within(statement, known.types, known.sizes) if used <= {*known.types} else None
        except SpecError:
            continue
        if found is not None:
            return found
    return None


def _counted(statement: lang.Statement, known: Operands) -> str:
    """A tensor of truth values that are added up as numbers, and of which several may be stored at one coordinate; ""
    where there is none. At such a coordinate the tensor is true if one of them is, which is not how often they are."""
    read, types = {a.tensor for a in accesses(statement.value)}, known.types
    if not read | {statement.target.tensor} <= {*types} or combined_type(statement, types) == "bool":
        return ""  # those without a type are refused later
    for name in sorted(n for n in read if types[n] == "bool"):
        layout = known.layouts.get(name, SCALAR)
        if layout.indexes and not stored_once(layout).proved:
            return name
    return ""


def _divides_by_sums(statement: lang.Statement, computed: Collection[str]) -> bool:
    """Whether something is divided by a sum, and the pattern of that is computed or it is summed itself."""
    value = statement.value
    found = [n for n in walk(value) if isinstance(n, lang.Apply) and n.op == "divide" and has_sum(n.arguments[1])]
    sums = [n for n in walk(value) if isinstance(n, lang.Reduce)] if found else []
    bound = {i for r in sums for i in r.indices} | {v for s in statement.target.subscripts for v in variables(s)}
    return any(
        statement.target.tensor in computed
        or any(quotient is n for r in sums for n in walk(r.value))
        or any(variables(s) - bound for a in accesses(quotient) for s in a.subscripts)
        for quotient in found
    )


def _multiplies_sums(value: Any, layouts: Mapping[str, Layout]) -> bool:
    """Whether a sum is a factor of something that is mostly not stored, and another one at each place of that: it is
    needed at few points."""
    for product in (n for n in walk(value) if isinstance(n, lang.Apply) and n.op == "multiply"):
        factors = _factors(product)
        places = [
            _spoken_of(f) for f in factors if isinstance(f, lang.Access) and layouts.get(f.tensor, SCALAR).indexes
        ]
        sums = [_spoken_of(f) - {*f.indices} for f in factors if isinstance(f, lang.Reduce) and f.op == "add"]
        if any(place <= found for place in places for found in sums):
            return True
    return False


def _spoken_of(value: Any) -> set[str]:
    return {v for a in accesses(value) for s in a.subscripts for v in variables(s)}


def _factors(value: Any) -> list[Any]:
    if isinstance(value, lang.Apply) and value.op == "multiply":
        return [f for a in value.arguments for f in _factors(a)]
    return [value]


def what_is_beyond(statement: Any) -> str:
    """What of a statement is none of a sum of products, whatever its operands are; "" where nothing is."""
    match first_beyond((statement,)):
        case None:
            return ""
        case lang.Statement(op=op):
            return f"it updates by `{op}`"
        case lang.Apply(op) | lang.Reduce(op):
            return f"`{op}` is more than sums and products"
        case lang.Access(tensor):
            return f"a subscript of `{tensor}` is a view or a value"
        case lang.Constant() | lang.Index() | lang.Local():
            return "a value is none of numbers that tensors hold"
        case lang.For() | lang.If() | lang.While() | lang.Let() | lang.Set():
            return "it has steps"
    return "it has views"
