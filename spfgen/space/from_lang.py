"""Joins the statements with the layouts of their tensors: IR 1 to IR 2.

For every additive term: the relations of all accesses, with coordinates replaced by the subscripts, intersected
(Zhao et al. 2022, section 4). The layouts' positions stay dimensions beside the indices of the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from spfgen.errors import InternalError, SpecError, Unsupported
from spfgen.facts.formula import (
    TRUE,
    ZERO,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Num,
    Var,
    calls,
    conjunction,
    conjuncts,
    rename,
    show,
    substitute,
    variables,
    within,
)
from spfgen.facts.domains import arguments_inside, inside_arrays
from spfgen.facts.instances import instances
from spfgen.facts.prove import Facts
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import counted, did_you_mean, raise_all, there_are, word_in
from spfgen.lang.show import show_statement
from spfgen.lang.types import DEFAULT_INDEX, DEFAULT_VALUE, INDEX_TYPES, KEYWORDS, element_type
from spfgen.layout.nodes import SCALAR, Layout, ValueArray
from spfgen.layout.proofs import as_output, places_inside
from spfgen.sets.affine import NotAffine
from spfgen.sets.named import Piece, Space, pieces
from spfgen.sets.uf import Encoder, QuantifiedCall, comparisons, merge_equal_calls
from spfgen.space.nodes import (
    Binary,
    Group,
    Instance,
    Negate,
    Operand,
    Program,
    Read,
    Tensor,
    Value,
    size_values,
)


def join(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The iteration spaces of a kernel. `layouts` gives the layout of each declared tensor.

    Raises SpecError(s) for mistakes in the kernel, Unsupported for values that are not sums of products.
    """
    _check_names(kernel)
    declared = _with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    _check_accesses(kernel, layouts)
    extents = _Extents(kernel, declared, layouts)
    tensors = _tensors(kernel, declared, layouts, extents)
    by_name = {t.name: t for t in tensors}
    groups = tuple(_group(s, by_name, extents) for s in kernel.statements)
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        extents.parameters(),
        extents.readings(tensors),
        extents.fixed,
        extents.of_indices(),
        groups,
        _order(kernel, by_name),
    )


def accesses(value: lang.Value) -> Iterator[lang.Access]:
    return (n for n in walk(value) if isinstance(n, lang.Access))


def _check_names(kernel: lang.Kernel) -> None:
    """The kernel and its tensors become names in C; sizes are no scalars."""
    hint = "it becomes a name in C: choose another, for instance `{}`"
    if kernel.name in KEYWORDS or kernel.name.startswith("spfgen_"):
        message = f"expected a name for the kernel, but `{kernel.name}` has a meaning in C"
        raise SpecError(message, kernel.span, (hint.format(f"my_{kernel.name}"),))
    errors = []
    used = [a for s in kernel.statements for a in (s.target, *accesses(s.value))]
    for name, span in (*((d.name, d.span) for d in kernel.tensors), *((a.tensor, a.span) for a in used)):
        if name in KEYWORDS or name == kernel.name:
            what = "has a meaning in C" if name in KEYWORDS else "is the kernel"
            message = f"expected a name for the tensor, but `{name}` {what}"
            errors.append(SpecError(message, span, (hint.format(f"{name}_1"),)))
    for access in used:
        if access.tensor in kernel.sizes:
            message = f"expected a tensor or a number, but `{access.tensor}` is a size"
            errors.append(SpecError(message, access.span, ("sizes stand in extents, subscripts and conditions",)))
    raise_all(errors[:1])


def _with_scalars(kernel: lang.Kernel) -> list[lang.TensorDecl]:
    """The declared tensors, and a scalar for every name that is used without being declared."""
    result = list(kernel.tensors)
    names: set[str] = set()
    for declaration in result:
        if declaration.name in names or declaration.name in kernel.sizes:
            raise SpecError(
                f"expected a new name, but `{declaration.name}` is defined already",
                declaration.span,
                ("give it another name",),
            )
        names.add(declaration.name)
    for statement in kernel.statements:
        for access in (statement.target, *accesses(statement.value)):
            if access.tensor not in names and not access.subscripts:
                names.add(access.tensor)
                result.append(
                    lang.TensorDecl(access.tensor, lang.LayoutUse(SCALAR.name, span=access.span), span=access.span)
                )
    return result


def _check_accesses(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> None:
    errors: list[SpecError] = []
    if not kernel.statements:
        errors.append(SpecError(f"expected a statement in kernel `{kernel.name}`, but there is none", kernel.span,
                                ("for instance `y[i] += A[i, j]*x[j]`",)))  # fmt: skip
    for statement in kernel.statements:
        for access in (statement.target, *accesses(statement.value)):
            layout = layouts.get(access.tensor)
            if layout is None:
                errors.append(
                    SpecError(
                        f"expected a tensor, but `{access.tensor}` is not declared",
                        access.span,
                        (f"declare it: `tensor {access.tensor} : dense`",),
                    )
                )
            elif len(access.subscripts) != layout.rank:
                errors.append(
                    SpecError(
                        f"expected {counted(layout.rank, 'subscript')} of `{access.tensor}`, "
                        f"but {there_are(len(access.subscripts))}",
                        access.span,
                        (f"its layout `{layout.name}` has rank {layout.rank}",),
                    )
                )
            for subscript in access.subscripts:
                for call in calls(subscript):
                    errors.append(
                        SpecError(
                            f"expected an affine subscript, but `{show(call)}` is a call",
                            call.span,
                            ("index arrays belong to layouts: declare a layout whose relation holds the call",),
                        )
                    )
    names = {d.name for d in kernel.tensors}
    for declaration in kernel.tensors:
        shares = declaration.shares
        if shares is not None and (shares.tensor not in names or shares.tensor == declaration.name):
            what = "is the tensor itself" if shares.tensor == declaration.name else "is not one"
            others = ", ".join(sorted(names - {declaration.name})) or "none"
            errors.append(
                SpecError(
                    f"expected another tensor to share with, but `{shares.tensor}` {what}",
                    word_in(shares.span, shares.tensor),
                    (did_you_mean(shares.tensor, names - {declaration.name}) or f"the other tensors: {others}",),
                )
            )
        if shares is not None and not layouts[declaration.name].indexes:
            errors.append(
                SpecError(
                    f"expected a layout with index arrays to share, but `{layouts[declaration.name].name}` has none",
                    shares.span,
                    ("leave `shares` out: only index arrays can be shared",),
                )
            )
        if declaration.extents is not None and len(declaration.extents) != layouts[declaration.name].rank:
            errors.append(
                SpecError(
                    f"expected {counted(layouts[declaration.name].rank, 'extent')} of `{declaration.name}`, "
                    f"but {there_are(len(declaration.extents))}",
                    declaration.span,
                    (f"its layout `{layouts[declaration.name].name}` has rank {layouts[declaration.name].rank}",),
                )
            )
    raise_all(errors)


# --- extents -----------------------------------------------------------------------------------------

Key = tuple[str, str, int]


class _Extents:
    """Which extents are the same: of tensors along an index, named sizes, numbers. A union-find over keys."""

    def __init__(
        self, kernel: lang.Kernel, declared: Sequence[lang.TensorDecl], layouts: Mapping[str, Layout]
    ) -> None:
        self.parent: dict[Key, Key] = {}
        self.kernel = kernel
        self.layouts = layouts
        for declaration in declared:
            for k in range(layouts[declaration.name].rank):
                self.find(("tensor", declaration.name, k))
        for name in kernel.sizes:
            self.find(("size", name, 0))
        for declaration in declared:
            for k, extent in enumerate(declaration.extents or ()):
                self.declared_extent(declaration, k, extent)
        for statement in kernel.statements:
            for access in (statement.target, *accesses(statement.value)):
                for k, subscript in enumerate(access.subscripts):
                    if isinstance(subscript, Var) and subscript.name not in kernel.sizes:
                        self.unite(("tensor", access.tensor, k), ("index", subscript.name, 0), access)
        self.names: dict[Key, str] = {}
        self.fixed: dict[str, int] = {}
        outputs = {s.target.tensor for s in kernel.statements}
        ordered = sorted(declared, key=lambda d: d.name in outputs)
        for key in [
            *(("size", n, 0) for n in kernel.sizes),
            *(("tensor", d.name, k) for d in ordered for k in range(layouts[d.name].rank)),
        ]:
            name = key[1] if key[0] == "size" else f"{key[1]}.{layouts[key[1]].parameters[key[2]]}"
            root = self.find(key)
            self.names.setdefault(root, name)
            if root[0] == "number":
                self.fixed[self.names[root]] = root[2]

    def find(self, key: Key) -> Key:
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def unite(self, a: Key, b: Key, at: lang.Access | lang.TensorDecl) -> None:
        a, b = self.find(a), self.find(b)
        if a == b:
            return
        if a[0] == "number" and b[0] == "number":
            raise SpecError(
                f"expected extents that agree, but {a[2]} and {b[2]} must be the same here",
                at.span,
                ("the extents of tensors with one index in common are equal",),
            )
        if a[0] == "number":
            a, b = b, a
        self.parent[a] = b

    def declared_extent(self, declaration: lang.TensorDecl, k: int, extent: Expr) -> None:
        key: Key = ("tensor", declaration.name, k)
        match extent:
            case Num(value):
                self.unite(key, ("number", "", value), declaration)
            case Var(name) if name in self.kernel.sizes:
                self.unite(key, ("size", name, 0), declaration)
            case _:
                raise SpecError(
                    f"expected a number or a size of the kernel, but `{show(extent)}` is neither",
                    getattr(extent, "span", None) or declaration.span,
                    (f"declare it: `size {show(extent)}`",)
                    if isinstance(extent, Var)
                    else ("declare a `size` of its own for it",),
                )

    def name(self, key: Key) -> str:
        return self.names[self.find(key)]

    def of_tensor(self, tensor: str) -> tuple[str, ...]:
        return tuple(self.name(("tensor", tensor, k)) for k in range(self.layouts[tensor].rank))

    def of_indices(self) -> dict[str, str]:
        keys = [k for k in self.parent if k[0] == "index"]
        return {k[1]: self.name(k) for k in keys if self.find(k) in self.names}

    def parameters(self) -> tuple[str, ...]:
        """Named sizes that no tensor's extent gives: the caller passes them."""
        known = {self.find(("tensor", t, k)) for t, layout in self.layouts.items() for k in range(layout.rank)}
        return tuple(n for n in self.kernel.sizes if self.find(("size", n, 0)) not in known)

    def readings(self, tensors: Sequence[Tensor]) -> dict[str, tuple[tuple[str, str], ...]]:
        """For each size dimension, the (tensor, parameter or size) pairs where its value stands."""
        found: dict[str, list[tuple[str, str]]] = {n: [] for n in self.kernel.sizes}
        for tensor in tensors:
            for name, field in zip(
                (*tensor.extents, *tensor.sizes), (*tensor.layout.parameters, *tensor.layout.sizes), strict=True
            ):
                found.setdefault(name, []).append((tensor.name, field))
        return {n: tuple(p) for n, p in found.items()}


# --- tensors -----------------------------------------------------------------------------------------


def _tensors(
    kernel: lang.Kernel, declared: Sequence[lang.TensorDecl], layouts: Mapping[str, Layout], extents: _Extents
) -> tuple[Tensor, ...]:
    outputs = {s.target.tensor for s in kernel.statements}
    inputs: set[str] = set()
    written: set[str] = set()
    for statement in kernel.statements:
        inputs |= {a.tensor for a in accesses(statement.value)} - written
        written.add(statement.target.tensor)
    result: dict[str, Tensor] = {}
    pending = list(declared)
    while pending:
        ready = [d for d in pending if d.shares is None or d.shares.tensor in result]
        if not ready:
            last = pending[-1]
            raise SpecError(
                f"expected tensors that share without a circle, but `{last.name}` is in one",
                last.shares.span if last.shares is not None else last.span,
                ("one tensor of them must own its arrays: leave out its `shares`",),
            )
        for d in ready:
            layout = layouts[d.name]
            arrays = {a.name: f"{d.name}.{a.name}" for a in layout.indexes}
            sizes = {s: f"{d.name}.{s}" for s in layout.sizes}
            if d.shares is not None:
                owner = result[d.shares.tensor]
                shared = _shared(kernel, d, layout, owner)
                owned = dict(owner.arrays)
                arrays |= {a: owned[a] for a in shared if a in arrays}
                owned = dict(zip(owner.layout.sizes, owner.sizes, strict=True))
                sizes |= {s: owned[s] for s in shared if s in sizes}
            value_type, index_types = _types(d, layout)
            result[d.name] = Tensor(
                d.name,
                layout,
                value_type,
                index_types,
                extents.of_tensor(d.name),
                tuple(sizes.values()),
                tuple(arrays.items()),
                d.name in inputs,
                d.name in outputs,
                None if d.shares is None else d.shares.tensor,
                d.use.value_type is not None or d.use.index_type is not None or bool(d.use.array_types),
                d.span,
            )
            pending.remove(d)
    return tuple(result[d.name] for d in declared)


def _types(declaration: lang.TensorDecl, layout: Layout) -> tuple[str, tuple[tuple[str, str], ...]]:
    use = declaration.use
    value = element_type(use.value_type or DEFAULT_VALUE)
    if value is None:
        raise SpecError(
            f"expected an element type, but `{use.value_type}` is not one",
            word_in(use.span, use.value_type or ""),
            ("known: bool, int8 to int64, uint8 to uint64, float, double, complex64, complex128",),
        )
    own = dict(use.array_types)
    for array in own:
        if array not in {a.name for a in layout.indexes}:
            known = [a.name for a in layout.indexes]
            listed = f"its index arrays: {', '.join(known)}" if known else "it has no index arrays"
            raise SpecError(
                f"expected an index array of `{layout.name}`, but `{array}` is not one",
                word_in(use.span, array),
                (did_you_mean(array, known) or listed,),
            )
    result = []
    for index in layout.indexes:
        wanted = own.get(index.name, use.index_type or DEFAULT_INDEX)
        kind = element_type(wanted)
        if kind is None or kind.name not in INDEX_TYPES:
            raise SpecError(
                f"expected an index type, but `{wanted}` is not one",
                word_in(use.span, wanted),
                (f"known: {', '.join(INDEX_TYPES)}",),
            )
        result.append((index.name, kind.name))
    return value.name, tuple(result)


def _shared(kernel: lang.Kernel, declaration: lang.TensorDecl, layout: Layout, owner: Tensor) -> set[str]:
    """The arrays and sizes that locate the shared coordinates: those in constraints on their positions alone."""
    shares = declaration.shares
    assert shares is not None
    coordinates = _coordinates(kernel, declaration, layout)
    relation = list(conjuncts(layout.relation))
    located = {p for c in relation if variables(c) & coordinates for p in variables(c) if p in layout.positions}
    before = {p: set(layout.positions[: k + 1]) for k, p in enumerate(layout.positions)}
    grown = True
    while grown:
        grown = False
        for part in relation:
            own = variables(part) & set(layout.positions)
            latest = max(own, key=layout.positions.index) if own else None
            if latest in located and own <= before[latest] and not own <= located:
                located |= own
                grown = True
    shared: set[str] = set()
    for part in relation:
        unknown = variables(part) & (set(layout.positions) | set(layout.coordinates))
        if unknown <= located | coordinates:
            shared |= {c.function for c in calls(part)}
            shared |= variables(part) & set(layout.sizes)
    for index in layout.indexes:
        if index.name in shared:
            for extent in index.extents:
                shared |= variables(extent) & set(layout.sizes)
    for name in sorted(shared):
        if name in {a.name for a in layout.indexes} and name not in dict(owner.arrays):
            raise SpecError(
                f"expected `{owner.name}` to have an index array `{name}` to share, but it has none",
                shares.span,
                (f"its layout is `{owner.layout.name}`",),
            )
    return shared


def _coordinates(kernel: lang.Kernel, declaration: lang.TensorDecl, layout: Layout) -> set[str]:
    """The coordinates of the layout that stand for the indices named in `shares ... on`."""
    shares = declaration.shares
    assert shares is not None
    if not shares.indices:
        return set(layout.coordinates)
    found: dict[str, str] = dict(zip(layout.coordinates, layout.coordinates, strict=True))
    for statement in kernel.statements:
        for access in (statement.target, *accesses(statement.value)):
            if access.tensor == declaration.name:
                for subscript, coordinate in zip(access.subscripts, layout.coordinates, strict=True):
                    if isinstance(subscript, Var):
                        found[subscript.name] = coordinate
    for index in shares.indices:
        if index not in found:
            raise SpecError(
                f"expected an index of `{declaration.name}`, but `{index}` is not one",
                word_in(shares.span, index),
                (f"its indices: {', '.join(found)}",),
            )
    return {found[i] for i in shares.indices}


# --- statements --------------------------------------------------------------------------------------


def _group(statement: lang.Statement, tensors: Mapping[str, Tensor], extents: _Extents) -> Group:
    text = show_statement(statement)
    target = statement.target
    op = statement.op
    terms = list(_terms(statement.value))
    own = [t for t in terms if t == target]
    if op == "=" and len(own) == 1:
        terms, op = [t for t in terms if t != target], "+="
    again = next((a for t in terms for a in accesses(t) if a.tensor == target.tensor), None)
    if again is not None:
        raise Unsupported(
            f"`{target.tensor}` is read and written by one statement, which would read values already changed",
            again.span or statement.span,
            ("write the result into another tensor",),
        )
    layout = tensors[target.tensor].layout
    _check_output(statement, layout)
    found = tuple(i for term in terms for i in _instances(statement, term, tensors, extents))
    for access in (target, *(a for t in terms for a in accesses(t))):
        filled = tensors[access.tensor].layout
        if filled.fill != 0:
            raise Unsupported(
                f"layouts with a fill value other than 0 are not compiled yet: `{filled.name}` has {filled.fill:g}",
                access.span or statement.span,
                ("leave `fill` out, and add the value to the result",),
            )
    return Group(text, op, target.tensor, found, statement.span)


def _check_output(statement: lang.Statement, layout: Layout) -> None:
    """What is added to one coordinate must arrive at one place, and at no other coordinate's."""
    doubt = as_output(layout)
    if doubt is not None:
        what, answer = doubt
        example = ", ".join(f"{n} = {v}" for n, v in answer.model or ())
        raise Unsupported(
            f"`{statement.target.tensor}` cannot be an output in layout `{layout.name}`: it is not proved that {what}",
            statement.target.span,
            (f"a counterexample: {example}" if example else "Z3 found neither a proof nor a counterexample",),
        )


def _terms(value: lang.Value) -> Iterator[lang.Value]:
    """The additive terms of a value, products of sums multiplied out: each is a product of accesses and numbers."""
    match value:
        case lang.Binary("+", left, right):
            yield from _terms(left)
            yield from _terms(right)
        case lang.Binary("-", left, right):
            yield from _terms(left)
            for term in _terms(right):
                yield lang.Negate(term, term.span)
        case lang.Binary("*", left, right, span):
            for a, b in product(list(_terms(left)), list(_terms(right))):
                yield lang.Binary("*", a, b, span)
        case lang.Binary("/", left, right, span):
            if any(a.subscripts for a in accesses(right)):
                raise Unsupported(
                    "division by a tensor is not compiled yet: where it stores nothing the quotient has no value",
                    span,
                    ("divide by a number or a scalar, or multiply by a tensor of reciprocals",),
                )
            for a in _terms(left):
                yield lang.Binary("/", a, right, span)
        case lang.Negate(inner):
            for term in _terms(inner):
                yield lang.Negate(term, term.span)
        case _:
            yield value


@dataclass(frozen=True)
class _Choice:
    """One access with one of the value arrays of its layout: its operand and what it adds to the domain."""

    operand: Operand
    formula: Formula
    places: tuple[tuple[Expr, Expr], ...]
    safe: Callable[[], bool]


def _instances(
    statement: lang.Statement, term: lang.Value, tensors: Mapping[str, Tensor], extents: _Extents
) -> Iterator[Instance]:
    found = list(accesses(term))
    everything = [statement.target, *found]
    taken: set[str] = set()
    choices: list[list[_Choice]] = []
    for access in everything:
        label = fresh(access.tensor, taken)
        taken.add(label)
        tensor = tensors[access.tensor]
        choices.append([_choice(access, label, tensor, v, extents) for v in tensor.layout.values])
    indices = _indices(statement, everything, extents)
    for combination in product(*choices):
        yield from _pieces(statement, term, combination, indices, tensors, extents)


def _indices(
    statement: lang.Statement, everything: Sequence[lang.Access], extents: _Extents
) -> tuple[str, ...]:
    """The indices of a term: those on the right in their order, then the rest."""
    result: list[str] = []
    for access in (*everything[1:], everything[0]):
        for subscript in access.subscripts:
            names = [n.name for n in walk(subscript) if isinstance(n, Var)]
            result += [n for n in names if n not in extents.kernel.sizes and n not in result]
    bound = {n for q in walk(statement.where or TRUE) if hasattr(q, "variables") for n in q.variables}
    for node in walk(statement.where or TRUE):
        if isinstance(node, Var) and node.name not in extents.kernel.sizes and node.name not in bound:
            if node.name not in result:
                raise SpecError(
                    f"expected an index of the statement, but `{node.name}` occurs only in the condition",
                    node.span or statement.span,
                    (f"`{node.name}` would run for ever; for a number that the caller passes, write `size {node.name}`",),
                )
        if isinstance(node, Call):
            raise SpecError(
                f"expected an affine condition, but `{show(node)}` is a call",
                node.span or statement.span,
                ("index arrays belong to layouts: conditions are on indices and sizes",),
            )
    return tuple(result)


def _choice(
    access: lang.Access, label: str, tensor: Tensor, value: ValueArray, extents: _Extents
) -> _Choice:
    layout = tensor.layout
    quantified = [
        n
        for formula in (layout.relation, value.when)
        for q in walk(formula)
        if isinstance(q, Exists | Forall)
        for n in q.variables
    ]
    positions = {p: f"{label}.{p}" for p in layout.positions}
    own = positions | {q: f"{label}.{q}" for q in quantified}
    functions = dict(tensor.arrays)
    sizes = size_values(tensor, extents.fixed)

    def here(node: Formula) -> Formula:
        renamed = substitute(rename(node, own, functions), sizes)
        return substitute(renamed, dict(zip(layout.coordinates, access.subscripts, strict=True)))  # type: ignore[no-any-return]

    def place_of(expr: Expr) -> Expr:
        return substitute(rename(expr, own, functions), sizes)  # type: ignore[no-any-return]

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
    )
    formula = conjunction([here(layout.relation), here(value.when), *inside])
    return _Choice(operand, formula, tuple(zip(place, limits, strict=True)), lambda: places_inside(layout, value).proved)


def _pieces(
    statement: lang.Statement,
    term: lang.Value,
    combination: Sequence[_Choice],
    indices: tuple[str, ...],
    tensors: Mapping[str, Tensor],
    extents: _Extents,
) -> Iterator[Instance]:
    encoder = Encoder()
    guards: list[Formula] = []
    try:
        limits = _axioms(list(tensors.values()), extents).extents
        parts = [encoder.formula(inside_arrays(c.formula, limits)) for c in combination]
        if statement.where is not None:
            parts.append(encoder.formula(statement.where))
        for choice in combination:
            for place, limit in choice.places:
                inside = within(place, ZERO, limit)
                try:
                    trial = Encoder(dict(encoder.calls), dict(encoder.quotients))
                    parts.append(trial.formula(inside))
                    encoder.calls.update(trial.calls)
                    encoder.quotients.update(trial.quotients)
                except NotAffine:
                    if not choice.safe():
                        guards.append(within(encoder.expr(place), ZERO, encoder.expr(limit)))
        called = [c for choice in combination for p in choice.operand.place for c in calls(p)]
        parts += [encoder.formula(f) for f in arguments_inside(called, limits)]
        domains = _in_domain(encoder, limits)
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
    parts += encoder.definitions()
    axioms = _axioms([tensors[c.operand.tensor] for c in combination], extents)
    facts: list[Formula] = list(dict.fromkeys(instances(axioms.formulas, encoder.calls)))
    size_names = _sizes_in([*parts, *facts], [c.operand for c in combination], indices, encoder)
    facts += [Compare(">=", Var(s), ZERO) for s in size_names]
    positions = tuple(p for c in combination for p in c.operand.positions)
    space = Space((*size_names, *indices, *positions, *encoder.quotients, *encoder.calls))
    for piece in pieces(space, conjunction(parts), _no_calls):
        used = _used_calls(piece, [c.operand for c in combination], encoder)
        merged, aliases = merge_equal_calls(piece.without(set(encoder.calls) - set(used)), used)
        known = _encoded(facts, merged.space)
        if merged.intersect(merged.space.of(comparisons(known))).is_empty():
            continue
        operands = iter(c.operand for c in combination[1:])
        yield Instance(
            merged,
            size_names,
            indices,
            positions,
            encoder.quotients,
            used,
            aliases,
            {n: domains[n] for n in used},
            tuple(known),
            axioms,
            tuple(guards),
            _placed(combination[0].operand, encoder),
            _value(term, operands, encoder),
            tuple(_placed(c.operand, encoder) for c in combination[1:]),
        )


def _axioms(used: Sequence[Tensor], extents: _Extents) -> Facts:
    """The declared facts of the tensors, in the kernel's names."""
    formulas: dict[Formula, None] = {}
    limits: dict[str, tuple[Expr, ...]] = {}
    for tensor in dict.fromkeys(t.name for t in used):
        found = next(t for t in used if t.name == tensor)
        values = size_values(found, extents.fixed)
        arrays = dict(found.arrays)
        formulas |= dict.fromkeys(substitute(rename(p.formula, {}, arrays), values) for p in found.layout.facts)
        for index in found.layout.indexes:
            limits[arrays[index.name]] = tuple(substitute(e, values) for e in index.extents)
    return Facts(tuple(formulas), limits)


def _no_calls(call: Call) -> str:
    raise InternalError(f"a call was not encoded: {show(call)}")


def _in_domain(encoder: Encoder, limits: Mapping[str, tuple[Expr, ...]]) -> dict[str, tuple[Formula, ...]]:
    """For each call that occurs: its arguments lie within the extents of the array."""
    result: dict[str, tuple[Formula, ...]] = {}
    while len(result) < len(encoder.calls):
        for name, call in list(encoder.calls.items()):
            if name not in result:
                result[name] = tuple(encoder.formula(f) for f in arguments_inside([call], limits))
    return result


def _used_calls(piece: Piece, operands: Sequence[Operand], encoder: Encoder) -> dict[str, Call]:
    """The calls that this piece speaks of, and those that value places need; with the calls in their arguments."""
    names = [n for n in encoder.calls if piece.involves(n)]
    names += [v for o in operands for p in o.place for v in variables(encoder.expr(p)) if v in encoder.calls]
    for name in names:
        names += [v for a in encoder.calls[name].arguments for v in variables(a) if v in encoder.calls and v not in names]
    return {n: c for n, c in encoder.calls.items() if n in names}


def _sizes_in(
    formulas: Sequence[Formula], operands: Sequence[Operand], indices: Sequence[str], encoder: Encoder
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


def _value(term: lang.Value, operands: Iterator[Operand], encoder: Encoder) -> Value:
    match term:
        case lang.Constant():
            return term
        case lang.Access():
            return Read(_placed(next(operands), encoder))
        case lang.Binary(op, left, right):
            first = _value(left, operands, encoder)
            return Binary(op, first, _value(right, operands, encoder))
        case lang.Negate(inner):
            return Negate(_value(inner, operands, encoder))
    raise InternalError(f"no value for {term!r}")


def _order(kernel: lang.Kernel, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The loops named by the schedule, as dimensions."""
    indices = {
        n.name
        for s in kernel.statements
        for a in (s.target, *accesses(s.value))
        for e in a.subscripts
        for n in walk(e)
        if isinstance(n, Var)
    }
    result = []
    for loop in kernel.order:
        if loop.tensor is None:
            if loop.name not in indices:
                raise SpecError(
                    f"expected an index or a position such as `A.p`, but `{loop.name}` is neither",
                    loop.span,
                    (f"indices: {', '.join(sorted(indices - set(kernel.sizes)))}",),
                )
            result.append(loop.name)
        elif loop.tensor not in tensors or loop.name not in tensors[loop.tensor].layout.positions:
            known = ", ".join(f"{t.name}.{p}" for t in tensors.values() for p in t.layout.positions)
            raise SpecError(
                f"expected a position of a tensor, but `{loop.tensor}.{loop.name}` is not one",
                loop.span,
                (f"positions: {known}",),
            )
        else:
            result.append(f"{loop.tensor}.{loop.name}")
    return tuple(result)
