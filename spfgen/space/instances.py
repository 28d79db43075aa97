"""The conjunctive pieces of one additive term: relations of all accesses intersected.

Coordinates are replaced by the subscripts; the layouts' positions stay dimensions beside the indices of the
computation (Zhao et al. 2022, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from spfgen import limits
from spfgen.errors import InternalError, SpecError, TooManyCases
from spfgen.facts.domains import Limits, arguments_inside, inside_arrays
from spfgen.facts.formula import (
    TRUE,
    ZERO,
    And,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Or,
    Var,
    calls,
    conjunction,
    rename,
    show,
    substitute,
    variables,
    within,
)
from spfgen.facts.instances import implications, instances
from spfgen.facts.prove import Facts
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.layout.digits import with_digits
from spfgen.layout.nodes import Layout, ValueArray, ValueTransform
from spfgen.layout.proofs import places_inside
from spfgen.sets.affine import NotAffine
from spfgen.sets.named import Piece, Space, TooManyPieces
from spfgen.sets.uf import Encoder, QuantifiedCall, comparisons, defined_pieces, in_domain, merge_equal_calls
from spfgen.space.extents import Ranges
from spfgen.space.names import accesses
from spfgen.space.nodes import (
    Instance,
    Operand,
    Read,
    Tensor,
    Value,
    size_values,
    value_of,
)


@dataclass(frozen=True)
class AtTarget:
    """In a term: the value that a tensor (a temporary, or the target itself) has at the place of the target."""

    tensor: str


@dataclass(frozen=True)
class _Choice:
    """One access with one of the value arrays of its layout: its operand and what it adds to the domain."""

    operand: Operand
    formula: Formula
    places: tuple[tuple[Expr, Expr], ...]
    safe: Callable[[], bool]


def make_instances(
    statement: lang.Statement,
    term: lang.Value,
    tensors: Mapping[str, Tensor],
    ranges: Ranges,
    labels: set[str] | None = None,
    over: Sequence[str] = (),
) -> Iterator[Instance]:
    """All instances of one additive term: a piece for each choice of value arrays and each disjunct. `labels` are of
    accesses in other terms that must not come again; the target's is always its name. `over` are the indices of the
    sums around the term, which it need not have."""
    read_accesses = list(accesses(term))
    everything = [statement.target, *read_accesses]
    taken: set[str] = set()
    choices: list[list[_Choice]] = []
    for access in everything:
        label = fresh(access.tensor, taken | set(tensors) - {access.tensor})
        taken = taken | {label} if taken or labels is None else {label, *labels}
        tensor = tensors[access.tensor]
        layout = tensor.layout
        choices.append(
            [_choice(access, label, tensor, v, a, ranges) for v in layout.values for a in layout.alternatives]
        )
    if labels is not None:
        labels |= taken
    indices = _indices(statement, everything, ranges, over)
    several = {a.tensor: n for a in everything if (n := ways(tensors[a.tensor].layout)) > 1}
    is_multiplied = sum(a.tensor in several for a in everything) > 1
    count = 0
    for number, combination in enumerate(product(*choices)):
        try:
            for instance in _pieces(statement, term, combination, indices, tensors, ranges):
                count += 1
                if is_multiplied and count > limits.CASES:
                    raise _too_many(statement, everything, tensors)
                yield instance
        except TooManyPieces:
            if not is_multiplied:
                raise
            raise _too_many(statement, everything, tensors) from None
        if is_multiplied and number > limits.CASES**2:
            raise _too_many(statement, everything, tensors)


def _too_many(
    statement: lang.Statement, read_accesses: Sequence[lang.Access], tensors: Mapping[str, Tensor]
) -> TooManyCases:
    several = [(a.tensor, n) for a in read_accesses if (n := ways(tensors[a.tensor].layout)) > 1]
    names = [*dict.fromkeys(n for n, _ in several)]
    layouts = ", ".join(f"`{x}`" for x in dict.fromkeys(tensors[n].layout.name for n in names))
    return TooManyCases(
        f"a product of {', '.join(names)} has more than the {limits.CASES} cases that are written out: "
        f"{layouts} can store an entry in several ways, which makes {prod(n for _, n in several)} or more in all",
        statement.span,
        (f"convert them first to a layout with one way, as csr or csf: {names[0]}.convert('csr')",),
        tensors=tuple(names),
    )


def ways(layout: Layout) -> int:
    """In how many ways a layout can store an entry: alternatives of its relation, or value arrays."""
    return max(len(layout.values), sum(_count(part.relation) for part in layout.alternatives))


def _count(formula: Formula) -> int:
    match formula:
        case And(parts):
            return prod(map(_count, parts))
        case Or(parts):
            return sum(map(_count, parts))
        case Compare("!=") | Not(Compare("=")):
            return 2
    return 1


def _indices(
    statement: lang.Statement, everything: Sequence[lang.Access], ranges: Ranges, over: Sequence[str]
) -> tuple[str, ...]:
    """The indices of a term: those on the right in their order, then the rest."""
    result: list[str] = []
    for access in (*everything[1:], everything[0]):
        for subscript in access.subscripts:
            names = dict.fromkeys(n.name for n in walk(subscript) if isinstance(n, Var))
            result += [n for n in names if n not in ranges.sizes and n not in result]
    result += [n for n in over if n not in result]
    bound = {n for q in walk(statement.where or TRUE) if hasattr(q, "variables") for n in q.variables}
    free = bound | set(ranges.sizes) | set(result)
    for node in walk(statement.where or TRUE):
        if isinstance(node, Var) and node.name not in free:
            raise _unbound(statement, node)
        if isinstance(node, Call):
            raise SpecError(
                f"expected an affine condition, but `{show(node)}` is a call",
                node.span or statement.span,
                ("index arrays belong to layouts: conditions are on indices and sizes",),
            )
    return tuple(result)


def _unbound(statement: lang.Statement, index: Var) -> SpecError:
    """A condition speaks of an index that the term does not have."""
    everywhere = {n for a in accesses(statement.value) for e in a.subscripts for n in variables(e)}
    if index.name in everywhere:
        return SpecError(
            f"expected every term to have the index `{index.name}` of the condition, but one does not",
            index.span or statement.span,
            ("write that term as a statement of its own: `+= ...` without the condition",),
        )
    return SpecError(
        f"expected an index of the statement, but `{index.name}` occurs only in the condition",
        index.span or statement.span,
        (f"`{index.name}` would run for ever; for a number that the caller passes, write `size {index.name}`",),
    )


def _choice(
    access: lang.Access, label: str, tensor: Tensor, value: ValueArray, part: ValueTransform, ranges: Ranges
) -> _Choice:
    layout = tensor.layout
    quantified = [
        n
        for formula in (part.relation, value.when)
        for q in walk(formula)
        if isinstance(q, Exists | Forall)
        for n in q.variables
    ]
    positions = {p: f"{label}.{p}" for p in layout.positions}
    names = positions | {q: f"{label}.{q}" for q in quantified}
    functions = dict(tensor.arrays)
    sizes = size_values(tensor, ranges.fixed)

    def here(node: Formula) -> Formula:
        renamed = substitute(rename(node, names, functions), sizes)
        return substitute(renamed, dict(zip(layout.coordinates, access.subscripts, strict=True)))  # type: ignore[no-any-return]

    def place_of(expr: Expr) -> Expr:
        return substitute(rename(expr, names, functions), sizes)  # type: ignore[no-any-return]

    extents_here = [sizes[p] for p in layout.parameters]
    inside = [within(s, ZERO, e) for s, e in zip(access.subscripts, extents_here, strict=True)]
    place = tuple(place_of(e) for e in value.position)
    limits = tuple(place_of(e) for e in value.extents)
    operand = Operand(
        label,
        tensor.name,
        value.name,
        place,
        limits,
        tuple(positions.values()),
        access.subscripts,
        bool(calls(layout.relation)),
        part.operators,
    )
    formula = conjunction([here(with_digits(layout, part.relation)), here(value.when), *inside])
    return _Choice(
        operand, formula, tuple(zip(place, limits, strict=True)), lambda: places_inside(layout, value).proved
    )


def _pieces(
    statement: lang.Statement,
    term: lang.Value,
    combination: Sequence[_Choice],
    indices: tuple[str, ...],
    tensors: Mapping[str, Tensor],
    ranges: Ranges,
) -> Iterator[Instance]:
    encoder = Encoder()
    limits = declared_facts(list(tensors.values()), ranges.fixed).extents
    parts, guards, domains = _in_terms_of_sets(statement, combination, indices, ranges, limits, encoder)
    parts += encoder.definitions()
    axioms = declared_facts([tensors[c.operand.tensor] for c in combination], ranges.fixed)
    facts: list[Formula] = list(dict.fromkeys(instances(axioms.formulas, encoder.calls)))
    places = [p for c in combination for p in c.operand.place]
    size_names = _sizes_in([*parts, *facts, *guards, *places], [c.operand for c in combination], indices, encoder)
    facts += [Compare(">=", Var(s), ZERO) for s in size_names if s not in ranges.signed]
    facts += [f for f in ranges.facts if variables(f) <= {*size_names}]
    positions = tuple(p for c in combination for p in c.operand.positions)
    space = Space((*size_names, *indices, *positions, *encoder.quotients, *encoder.calls))
    defined, _ = defined_pieces(space, conjunction(parts), encoder, domains, _no_calls)
    for whole, unused in defined:
        piece = whole.without(set(unused))
        used = _used_calls(piece, [c.operand for c in combination], encoder)
        merged, aliases = merge_equal_calls(piece.without(set(encoder.calls) - set(used)), used)
        known = _encoded(facts, merged.space)
        if _informed(merged, known, axioms, encoder).is_empty():
            continue
        operands = iter(c.operand for c in combination[1:])
        yield Instance(
            merged,
            size_names,
            indices,
            positions,
            {n: q for n, q in encoder.quotients.items() if n not in unused},
            used,
            aliases,
            {n: domains[n] for n in used},
            tuple(known),
            axioms,
            tuple(guards),
            _placed(combination[0].operand, encoder),
            _value(term, operands, encoder, _placed(combination[0].operand, encoder)),
            tuple(_placed(c.operand, encoder) for c in combination[1:]),
            signed=ranges.signed & set(size_names),
            around=ranges.around & set(size_names),
        )


def _in_terms_of_sets(
    statement: lang.Statement,
    combination: Sequence[_Choice],
    indices: Sequence[str],
    ranges: Ranges,
    limits: Limits,
    encoder: Encoder,
) -> tuple[list[Formula], list[Formula], dict[str, tuple[Formula, ...]]]:
    """What holds at the points; what has to be asked there, because no set says it; where index arrays have values.
    Raises SpecError for what is not affine."""
    guards: list[Formula] = []
    try:
        parts = [encoder.formula(inside_arrays(c.formula, limits)) for c in combination]
        parts += [encoder.formula(f) for index in indices for f in ranges.of(index)]
        if statement.where is not None:
            parts.append(encoder.formula(statement.where))
        for choice in combination:
            for place, limit in choice.places:
                within_array = _if_affine(encoder, within(place, ZERO, limit))
                if within_array is not None:
                    parts.append(within_array)
                    continue
                guard = within(encoder.expr(place), ZERO, encoder.expr(limit))
                if not choice.safe():
                    guards.append(guard)
        called = [c for choice in combination for p in choice.operand.place for c in calls(p)]
        parts += [encoder.formula(f) for f in arguments_inside(called, limits)]
        return parts, guards, in_domain(encoder, limits)
    except NotAffine as error:
        raise SpecError(
            f"expected an affine expression, but `{show(error.expr)}` is not affine",
            error.span or statement.span,
            ("subscripts, conditions and arguments of index arrays are sums of indices times numbers",),
        ) from None
    except QuantifiedCall as error:
        raise SpecError(
            f"expected arguments that are positions, but `{error.variable}` in `{show(error.call)}` is quantified",
            error.call.span or statement.span,
            (f"make `{error.variable}` a position of the relation",),
        ) from None


def _if_affine(encoder: Encoder, formula: Formula) -> Formula | None:
    """The encoded formula; None, and nothing is encoded, if it is not affine."""
    trial = Encoder(dict(encoder.calls), dict(encoder.quotients))
    try:
        encoded = trial.formula(formula)
    except NotAffine:
        return None
    encoder.calls.update(trial.calls)
    encoder.quotients.update(trial.quotients)
    return encoded


def _informed(piece: Piece, known: Sequence[Formula], axioms: Facts, encoder: Encoder) -> Piece:
    """The piece with what the declared properties say of its points: comparisons, and those that follow from them."""
    informed = piece.intersect(piece.space.of(comparisons(known)))
    names = set(piece.space.names)
    for conditions, conclusions in implications(axioms.formulas, encoder.calls):
        given = comparisons(conditions)
        if len(given) < len(conditions) or not all(variables(f) <= names for f in (*conditions, *conclusions)):
            continue  # `!=` is no comparison of sets
        if all(map(informed.implies, given)):
            informed = informed.with_constraints(comparisons(conclusions))
    return informed


def declared_facts(used: Sequence[Tensor], fixed: Mapping[str, int]) -> Facts:
    """The declared facts of the tensors, in the kernel's names; `fixed` are the extents that are numbers."""
    formulas: dict[Formula, None] = {}
    limits: dict[str, tuple[Expr, ...]] = {}
    for tensor in dict.fromkeys(t.name for t in used):
        first_use = next(t for t in used if t.name == tensor)
        values = size_values(first_use, fixed)
        arrays = dict(first_use.arrays)
        formulas |= dict.fromkeys(substitute(rename(p.formula, {}, arrays), values) for p in first_use.layout.facts)
        for index in first_use.layout.indexes:
            limits[arrays[index.name]] = tuple(substitute(e, values) for e in index.extents)
    return Facts(tuple(formulas), limits)


def _no_calls(call: Call) -> str:
    raise InternalError(f"a call was not encoded: {show(call)}")


def _used_calls(piece: Piece, operands: Sequence[Operand], encoder: Encoder) -> dict[str, Call]:
    """The calls that this piece speaks of, and those that value places need; with the calls in their arguments."""
    names = [n for n in encoder.calls if piece.involves(n)]
    names += [v for o in operands for p in o.place for v in variables(encoder.expr(p)) if v in encoder.calls]
    for name in names:
        names += [
            v for a in encoder.calls[name].arguments for v in variables(a) if v in encoder.calls and v not in names
        ]
    return {n: c for n, c in encoder.calls.items() if n in names}


def _sizes_in(
    formulas: Sequence[Formula | Expr], operands: Sequence[Operand], indices: Sequence[str], encoder: Encoder
) -> tuple[str, ...]:
    """The size dimensions of an instance: every name that is nothing else."""
    others = {*indices, *encoder.calls, *encoder.quotients, *(p for o in operands for p in o.positions)}
    result: list[str] = []
    for formula in formulas:
        bound = {n for q in walk(formula) if hasattr(q, "variables") for n in q.variables}
        for node in walk(formula):
            if isinstance(node, Var) and node.name not in others | bound and node.name not in result:
                result.append(node.name)
    return tuple(result)


def _encoded(facts: Sequence[Formula], space: Space) -> list[Formula]:
    """The facts that are affine over the space as it is (no new dimensions)."""
    result = []
    for fact in facts:
        trial = Encoder()
        try:
            encoded = trial.formula(fact)
        except NotAffine:
            continue
        if not trial.calls and variables(encoded) <= set(space.names) and not (set(trial.quotients) - set(space.names)):
            result.append(encoded)
    return result


def _placed(operand: Operand, encoder: Encoder) -> Operand:
    return replace(operand, place=tuple(encoder.expr(p) for p in operand.place))


def _value(term: lang.Value | AtTarget, operands: Iterator[Operand], encoder: Encoder, target: Operand) -> Value:
    match term:
        case AtTarget(tensor):
            return Read(replace(target, tensor=tensor))
        case lang.Constant():
            return term
        case lang.Access():
            read: Value = value_of(_placed(next(operands), encoder))
            return read
        case lang.Apply(op, arguments):
            return lang.Apply(op, tuple(_value(a, operands, encoder, target) for a in arguments))
    raise InternalError(f"no value for {term!r}")
