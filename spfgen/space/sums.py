"""Which statements are sums of products of tensors with fill value 0, and so have instances as their points; all others
are planned by regions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import Var, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.products import first_beyond
from spfgen.lang.show import show_statement, show_value
from spfgen.lang.types import promoted
from spfgen.lang.uses import statements_in
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.layout.proofs import stored_once
from spfgen.space.assembled import is_zero_on_fills
from spfgen.space.extents import Ranges
from spfgen.space.implicit_updates import is_nothing
from spfgen.space.local_tensors import own_tensor
from spfgen.space.names import accesses
from spfgen.space.nodes import Asked, Tensor
from spfgen.space.products import has_sum, is_long_by_element
from spfgen.space.recurrences import reads_the_rest
from spfgen.space.runs import is_about_runs
from spfgen.space.steps import Chosen, Equation, Gathered, Linked
from spfgen.space.terms import make_group
from spfgen.space.unions import merges
from spfgen.space.values import NoSumOfProducts, SeveralPlaces, UnstoredDivisor, combined_type, converted_within


@dataclass(frozen=True)
class Operands:
    """What a statement speaks of: the `layouts` and value `types` of tensors, results whose pattern is `computed`, the
    kernel's `sizes`, its `own` tensors that are not dense; whether a sum of products stays one though something else
    were faster, `as_written`: one that reads its target always does, as its instances alone know an order for that."""

    layouts: Mapping[str, Layout]
    types: Mapping[str, str]
    computed: Set[str]
    sizes: Sequence[str]
    as_written: bool = False
    own: Set[str] = frozenset()


def beyond_products(statement: Any, known: Operands) -> str:
    """What is more than a sum of products in a statement; "" where nothing is."""
    if beyond := what_is_beyond(statement):
        return beyond
    layouts = known.layouts
    for name in dict.fromkeys(a.tensor for a in (statement.target, *accesses(statement.value))):
        if name in layouts and not is_summed(layouts[name]):
            fill = layouts[name].fill
            return f"`{name}` has a fill value other than 0" if fill != 0 else f"`{name}` negates or conjugates values"
        if name in known.own:
            return f"`{name}` is a tensor of the kernel's own that is not dense"
    if (node := converted((statement,), known)) is not None:
        return f"`{show_value(node)}` is computed in another type than the result"
    if recurs(statement) and reads_the_rest(statement, known.sizes):
        return "it reads places of its target that it does not write"
    if name := _counted(statement, known):
        return f"a truth value of `{name}` may be stored several times"
    computed = statement.target.tensor in known.computed
    if not (known.as_written or recurs(statement)):
        if is_about_runs(statement, layouts, known.computed):
            return "values do not change along runs"
        if _divides_by_sums(statement, known.computed):
            return "it divides by a sum"
        if _multiplies_sums(statement, layouts):
            return "a sum is needed only where a factor of it is stored, or for several places of the target"
        if computed and merges(statement, layouts):
            return "sorted operands are merged"
        if is_long_by_element(statement):
            return "expanding a product of sums would make many products"
    if computed and not is_zero_on_fills(statement.value):
        return "a result has a fill value other than 0"
    if any(a.tensor in known.computed for a in accesses(statement.value)):
        return "it reads a result whose pattern it computes"
    return ""


class Sums:
    """The statements of a kernel that are sums of products. `beyond` is why the first one is none that is not."""

    def __init__(self, kernel: lang.Kernel, layouts: Mapping[str, Layout], tensors: Sequence[Tensor]) -> None:
        self.kernel = kernel
        types = {t.name: t.value_type for t in tensors}
        computed = {d.name for d in kernel.tensors if d.assembled and d.shares is None}
        local_sparse = {d.name for d in kernel.tensors if d.local and d.name in layouts and layouts[d.name].indexes}
        self.known = Operands(layouts, types, computed, kernel.sizes, kernel.is_scheduled, local_sparse)
        self.beyond = ""
        self.ranges: dict[Equation, Ranges] = {}
        """What those that are sums of products as they are written know of their indices."""
        self.others: list[Any] = []
        """The statements that are none."""

    def entry_types(self, stated: Sequence[lang.Statement]) -> dict[str, str]:
        """In which types the entries of results whose pattern is computed are added up, where all that `stated` about
        them, outside of loops, are sums of products."""
        entry_types: dict[str, list[str]] = {}
        others = {
            s.target.tensor
            for s in statements_in(self.kernel.statements)
            if not any(s is entry_type for entry_type in stated)
        }
        for statement in stated:
            if beyond_products(statement, self.known):
                others.add(statement.target.tensor)
            elif statement.target.tensor in self.known.computed:
                entry_type = combined_type(statement, self.known.types)
                entry_types.setdefault(statement.target.tensor, []).append(entry_type)
        return {name: promoted(sorted({*types})).name for name, types in entry_types.items() if name not in others}

    def groups(
        self,
        equations: Sequence[tuple[lang.Statement, Equation]],
        tensors: Mapping[str, Tensor],
        known_ranges: Sequence[Ranges],
        ranges: Ranges,
        free: Set[str],
        computed: Set[str],
    ) -> dict[Equation, Asked]:
        """What is asked for by those of the `equations` that are sums of products. `own` is what each knows of its
        indices by the names of the text, `ranges` what all know of theirs; `computed` are extents that the kernel
        makes of others: what is chosen before all statements does not speak of them. Raises SpecError, Unsupported."""
        groups: dict[Equation, Asked] = {}
        tensors = {n: own_tensor(n, t.value_type, t.extents) if self.is_local(t) else t for n, t in tensors.items()}
        self.beyond = next((f"`{d.name}` is a tensor of its own" for d in self.kernel.tensors if d.local), "")
        for (statement, equation), known in zip(equations, known_ranges, strict=True):
            beyond = beyond_products(statement, self.known)
            viewed = self.without_views(statement, equation, free) if beyond else None
            asked = None
            if not beyond:
                asked = self.points(statement, tensors, known)
            elif viewed is not None:
                asked = self.points(viewed, tensors, ranges)
            if asked is not None and not any(s in computed for i in asked.group.all for s in i.sizes):
                groups[equation] = asked._replace(group=replace(asked.group, text=show_statement(statement)))
                self.ranges |= {} if beyond else {equation: known}
                tensors |= {t.name: t for t in asked.temporaries}
            else:
                self.others.append(statement)
                self.beyond = self.beyond or beyond or WRITTEN_OUT
        steps = [s for s in self.kernel.statements if not isinstance(s, lang.Statement)]
        self.others += steps
        self.beyond = self.beyond or next(map(what_is_beyond, steps), "")
        return groups

    def is_local(self, tensor: Tensor) -> bool:
        """Whether the kernel has a dense tensor for itself."""
        return not tensor.layout.indexes and any(d.local and d.name == tensor.name for d in self.kernel.tensors)

    def points(self, statement: lang.Statement, tensors: Mapping[str, Tensor], ranges: Ranges) -> Asked | None:
        """The points of a statement; None where it is better planned by regions."""
        try:
            return make_group(statement, tensors, ranges)
        except (NoSumOfProducts, UnstoredDivisor, SeveralPlaces):
            if self.known.as_written or recurs(statement):
                raise
        return None

    def without_views(self, statement: lang.Statement, equation: Equation, free: Set[str]) -> lang.Statement | None:
        """A statement with views as one without; None where it then is no sum of products either."""
        op = equation.updates
        if equation.at or equation.selects or equation.within or (op is not None and op != lang.Apply("add", ())):
            return None
        read = [*accesses(equation.value)]
        views = any(isinstance(n, Chosen | Gathered | Linked) for n in walk(equation.value))
        if views or is_nothing(statement.value) or any(a.tensor == equation.target for a in read):
            return None
        if {*equation.indices} & free or {v for a in read for s in a.subscripts for v in variables(s)} & free:
            return None
        is_sum = isinstance(equation.value, lang.Apply) and equation.value.op in ("add", "subtract")
        moved = any(not isinstance(s, Var) for a in read for s in a.subscripts)
        if moved and (is_sum or equation.target in self.known.computed):
            return None  # parts that views move come in order, and are merged
        target = lang.Access(equation.target, equation.subscripts, equation.span)
        plain = replace(
            statement, target=target, op="=" if op is None else "+=", value=equation.value, where=equation.where
        )
        return None if beyond_products(plain, self.known) else plain


WRITTEN_OUT = "a divisor may not be stored, or values lie in several arrays"


def is_summed(layout: Layout) -> bool:
    """What is not stored is 0, and what is stored the value, perhaps with another sign."""
    return layout.fill == 0 and all(t.operators in ((), ("negative",)) for t in layout.value_transforms)


def recurs(statement: lang.Statement) -> bool:
    """Whether a statement reads its target."""
    return any(a.tensor == statement.target.tensor for a in accesses(statement.value))


def converted(statements: Sequence[lang.Statement], known: Operands) -> Any | None:
    """The first operation that is not made in the type of its statement; None where all are, or numpy refuses one."""
    for statement in statements:
        used = {statement.target.tensor, *(a.tensor for a in accesses(statement.value))}
        try:
            conversion = converted_within(statement, known.types, known.sizes) if used <= {*known.types} else None
        except SpecError:
            continue
        if conversion is not None:
            return conversion
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
    quotients = [n for n in walk(value) if isinstance(n, lang.Apply) and n.op == "divide" and has_sum(n.arguments[1])]
    sums = [n for n in walk(value) if isinstance(n, lang.Reduce)] if quotients else []
    bound = {i for r in sums for i in r.indices} | variables(*statement.target.subscripts)
    return any(
        statement.target.tensor in computed
        or any(quotient is n for r in sums for n in walk(r.value))
        or any(variables(s) - bound for a in accesses(quotient) for s in a.subscripts)
        for quotient in quotients
    )


def _multiplies_sums(statement: lang.Statement, layouts: Mapping[str, Layout]) -> bool:
    """Whether a sum is a factor of something that is mostly not stored, and another one at each place of that: it is
    needed at few points. Or another factor speaks of an index of the target that it does not: it is one for several."""
    target = _spoken_of(statement.target)
    for product in (n for n in walk(statement.value) if isinstance(n, lang.Apply) and n.op == "multiply"):
        factors = _factors(product)
        places = [
            _spoken_of(f) for f in factors if isinstance(f, lang.Access) and layouts.get(f.tensor, SCALAR).indexes
        ]
        spoken = target & {name for f in factors for name in _free(f)}
        sums = [_free(f) for f in factors if isinstance(f, lang.Reduce) and f.op == "add"]
        if any(spoken - names or any(place <= names for place in places) for names in sums):
            return True
    return False


def _free(value: Any) -> set[str]:
    return _spoken_of(value) - ({*value.indices} if isinstance(value, lang.Reduce) else set())


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
            return "a value is not made of numbers that tensors hold"
        case step if isinstance(step, lang.Step):
            return "it has steps"
    return "it has views"
