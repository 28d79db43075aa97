"""Joins steps with the layouts of their tensors: IR 1 to IR 2, for all that is more than sums of products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any

from spfgen.errors import SpecError
from spfgen.facts.formula import (
    ONE,
    TRUE,
    ZERO,
    Bin,
    Compare,
    Expr,
    Formula,
    Num,
    Var,
    conjunction,
    substitute,
    variables,
    within,
)
from spfgen.ir import children, rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import raise_all
from spfgen.lang.fills import plain_fill
from spfgen.lang.normalize import normalized
from spfgen.lang.types import DEFAULT_VALUE, DEFAULT_WHOLE, TYPES
from spfgen.lang.typing import scalar_types
from spfgen.layout.nodes import SCALAR, Layout
from spfgen.layout.proofs import as_output
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear
from spfgen.space.assembled import as_assembled
from spfgen.space.extents import Extents, Key
from spfgen.space.names import check_kernel_name, check_use
from spfgen.space.nodes import Group, Program, Tensor
from spfgen.space.normal import Inside, Joined, Normal, moved
from spfgen.space.regions import Regions, is_everywhere
from spfgen.space.result_types import result_types
from spfgen.space.steps import Chosen, Equation, Link, Linked, Steps, Tie
from spfgen.space.tensors import make_tensors
from spfgen.space.typed import Types


def join_steps(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> Program:
    """The program of a kernel whose steps are no sums of products. Raises SpecError(s)."""
    check_kernel_name(kernel)
    declared = with_scalars(kernel)
    layouts = {d.name: layouts.get(d.name, SCALAR) for d in declared}
    check_accesses(kernel, layouts)
    normal = Normal(frozenset(kernel.sizes))
    body = normal.steps(normalized(kernel.statements, kernel.sizes), {})
    uses = list(_accesses(body))
    roles = roles_of(kernel)
    inner = [d for d in declared if d.local]
    others = [d for d in declared if not d.local]  # these name extents first: calls know them
    extents = Extents(kernel, [*others, *inner], layouts, [uses], roles.outputs | {d.name for d in inner})
    own = {d.name for d in kernel.tensors if d.local}
    made = make_tensors(kernel, declared, layouts, extents, roles.inputs, roles.outputs)
    made = with_result_types(kernel, declared, made, own)
    made = with_patterns(kernel, made)
    tensors = tuple(t for t in made if t.name not in own)
    local = tuple(t for t in made if t.name in own)
    said = {d.name for d in kernel.tensors if d.use.fill is not None}
    found = _Ranges(kernel, extents, normal, uses, (roles.outputs - roles.inputs) | own, own)
    found.bounding = [a for s in body for a in _bounding(s)]
    body = tuple(found.resolved(s) for s in body)
    for equation in (n for n in nodes(body) if isinstance(n, Equation)):
        if not any((d.assembled or d.local) and d.name == equation.target for d in kernel.tensors):
            _check_output(equation, layouts[equation.target])
    tensors = with_fills(body, tensors, local, said)
    needed = found.needed(body)
    free = frozenset(i for i in needed if found.is_free(i))
    for index in free:
        found.check_bounded(index, body)
    indices = {i: found.extent(i) for i in normal.taken if i in needed - free}
    steps = Steps(body, indices, free, "\n".join(_texts(body)), kernel.span, found.computed)
    asked = [e.name for e in found.asked.values()]
    written: dict[str, dict[str, None]] = {}
    for index, extent in indices.items():
        if isinstance(extent, Var):
            written.setdefault(normal.called.get(index, index), {})[extent.name] = None
    return Program(
        kernel.name,
        kernel.doc,
        tensors,
        (*extents.parameters(), *asked),
        {**extents.readings(tensors), **dict.fromkeys(asked, ())},
        extents.fixed,
        {name: tuple(sizes) for name, sizes in written.items()},
        (Group(steps.text, "=", "", (), None, kernel.span, steps),),
        (),
        deterministic=kernel.deterministic,
        level=kernel.level,
        agreements=tuple(extents.agreements()),
        derived=tuple(found.derived()),
        temporaries=local,
        steps=True,
    )


def with_result_types(
    kernel: lang.Kernel, declared: Sequence[lang.TensorDecl], tensors: Sequence[Tensor], own: set[str]
) -> tuple[Tensor, ...]:
    """Results, and tensors of the kernel's own, have the types of what is computed, unless the text says others."""
    said = {d.name for d in declared if d.use.value_type is not None}
    open_ = [t.name for t in tensors if t.name not in said and not (t.is_output or t.name in own)]
    refused: SpecError | None = None
    for kinds in islice(_choices(len(open_)), MOST_CHOICES):
        chosen = dict(zip(open_, kinds, strict=True))
        fitting = {n: k for n, k in chosen.items() if _fits(next(t for t in tensors if t.name == n), k)}
        operands = tuple(replace(t, value_type=fitting.get(t.name, t.value_type)) for t in tensors)
        known = {t.name: t.value_type for t in operands if t.name in said or not (t.is_output or t.name in own)}
        try:
            types = result_types(kernel, known)
        except SpecError as error:
            refused = refused or error
            continue
        return tuple(replace(t, value_type=types.get(t.name, t.value_type)) for t in operands)
    assert refused is not None
    raise refused


def _choices(count: int) -> Iterator[tuple[str, ...]]:
    """Types for so many operands of which the text says none: calls decide, here any will do that has a meaning. First
    all the same."""
    kinds = (DEFAULT_VALUE, DEFAULT_WHOLE, "bool")
    yield from ((kind,) * count for kind in kinds)
    yield from product(kinds, repeat=count)


def _fits(tensor: Tensor, kind: str) -> bool:
    """Whether the tensor's fill value is one of the type."""
    fill = tensor.layout.fill
    return not isinstance(fill, float) or TYPES[kind].kind in "fc"


def with_patterns(kernel: lang.Kernel, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Results whose pattern is computed are lists of entries."""
    computed = {d.name for d in kernel.tensors if d.assembled and d.shares is None}
    return tuple(as_assembled(t, t.value_type) if t.name in computed else t for t in tensors)


def with_fills(
    body: Sequence[Any], tensors: Sequence[Tensor], local: Sequence[Tensor], said: set[str]
) -> tuple[Tensor, ...]:
    """Results whose pattern is computed are, where nothing is stored, what their value is where no operand stores
    anything; unless the text says something else."""
    everything = {t.name: t for t in (*tensors, *local)}
    scalars = scalar_types(body, Types({n: t.value_type for n, t in everything.items()}, {}).leaf)
    types = Types({n: t.value_type for n, t in everything.items()}, scalars)
    layouts = {n: t.layout for n, t in everything.items()}
    dense = frozenset(n for n, t in everything.items() if is_everywhere(t))
    regions = Regions(layouts, dense, types, {})
    result = []
    for tensor in tensors:
        own = [n for n in nodes(tuple(body)) if isinstance(n, Equation) and n.target == tensor.name]
        alone = len(own) == 1 and own[0].updates is None and own[0] in _everywhere(body)
        if tensor.assembled is not None and tensor.name not in said and alone:
            fill = regions.fill(own[0].value)
            if fill is not None:
                number = plain_fill(np_cast(fill, tensor.value_type))
                layout, assembled = replace(tensor.layout, fill=number), replace(tensor.assembled, fill=number)
                tensor = replace(tensor, layout=layout, assembled=assembled)
        result.append(tensor)
    return tuple(result)


def _everywhere(steps: Sequence[Any]) -> Iterator[Equation]:
    """The equations that write every place of their target, whatever the data are: under no condition, in no loop that
    may end early."""
    for step in steps:
        match step:
            case Equation():
                plain = all(isinstance(s, Var) for s in step.subscripts) and len(set(step.subscripts)) == len(
                    step.subscripts
                )
                if plain and step.where is None and not step.at and not step.within:
                    yield step
            case lang.For(_, body, None) if not any(isinstance(n, lang.Break) for n in nodes(tuple(body))):
                yield from _everywhere(body)


def np_cast(number: Any, kind: str) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.asarray(number).astype(kind)[()]


MOST_CHOICES = 250
"""So many choices of types are tried where the text says none."""


class Roles:
    """Which tensors a kernel reads before it has written them, writes, and keeps for itself."""

    def __init__(self, inputs: set[str], outputs: set[str]) -> None:
        self.inputs = inputs
        self.outputs = outputs


def roles_of(kernel: lang.Kernel) -> Roles:
    inputs: set[str] = set()
    written: set[str] = set()
    whole: set[str] = set()

    def visit(steps: Sequence[Any], top: bool) -> None:
        for step in steps:
            match step:
                case lang.Statement():
                    read = [a.tensor for s in (step.value, *step.target.subscripts) for a in _reads(s)]
                    inputs.update(n for n in read if n not in whole)
                    written.add(step.target.tensor)
                    if top and step.op == "=" and step.where is None:
                        whole.add(step.target.tensor)
                case lang.For(_, body):
                    visit(body, False)
                case lang.While(condition, body):
                    inputs.update(a.tensor for a in _reads(condition) if a.tensor not in whole)
                    visit(body, False)
                case lang.If(condition, then, otherwise):
                    inputs.update(a.tensor for a in _reads(condition) if a.tensor not in whole)
                    visit(then, False)
                    visit(otherwise, False)
                case lang.Let(_, value) | lang.Set(_, _, value):
                    inputs.update(a.tensor for a in _reads(value) if a.tensor not in whole)

    visit(kernel.statements, True)
    own = {d.name for d in kernel.tensors if d.local}
    return Roles(inputs - own, written - own)


def nodes(steps: Any) -> Iterator[Any]:
    """All nodes of a value, or of several steps."""
    for step in steps if isinstance(steps, tuple) else (steps,):
        yield from walk(step)


def _reads(value: Any) -> Iterator[lang.Access]:
    return (n for n in nodes(value) if isinstance(n, lang.Access))


def with_scalars(kernel: lang.Kernel) -> list[lang.TensorDecl]:
    """The declared tensors, and a scalar for every name that is used without being declared."""
    result = list(kernel.tensors)
    names = {d.name for d in result}
    for access in _reads(kernel.statements):
        if access.tensor not in names and not access.subscripts and access.tensor not in kernel.sizes:
            names.add(access.tensor)
            use = lang.LayoutUse(SCALAR.name, span=access.span)
            result.append(lang.TensorDecl(access.tensor, use, span=access.span))
    return result


def check_accesses(kernel: lang.Kernel, layouts: Mapping[str, Layout]) -> None:
    errors: list[SpecError] = []
    for access in _reads(kernel.statements):
        errors += check_use(access, layouts)
    raise_all(errors)


def _check_output(equation: Equation, layout: Layout) -> None:
    doubt = as_output(layout) if layout is not SCALAR else None
    if doubt is not None:
        what, _ = doubt
        raise SpecError(
            f"expected a layout that can be written by coordinate for `{equation.target}`, but of `{layout.name}` it "
            f"is not proved that {what}",
            equation.span,
            ("declare the result in another layout",),
        )


def _accesses(body: Any) -> Iterator[lang.Access]:
    for node in nodes(body):
        if isinstance(node, lang.Access):
            yield node
        elif isinstance(node, Equation):
            yield lang.Access(node.target, node.subscripts, node.span)


def _bounding(node: Any) -> Iterator[lang.Access]:
    """The accesses but for those that `coalesce` catches outside of their tensors."""
    match node:
        case lang.Access():
            yield node
        case Chosen(Inside(), _, otherwise):
            yield from _bounding(otherwise)
        case _:
            for child in children(node):
                yield from _bounding(child)


def _texts(body: Sequence[Any]) -> Iterator[str]:
    for step in body:
        match step:
            case Equation(text=text):
                yield text
            case lang.For(indices, inner):
                yield f"for {', '.join(indices)} {{"
                yield from (f"    {t}" for t in _texts(inner))
                yield "}"
            case lang.If(_, then, otherwise):
                yield "if ... {"
                yield from (f"    {t}" for t in _texts(then))
                if otherwise:
                    yield "} else {"
                    yield from (f"    {t}" for t in _texts(otherwise))
                yield "}"
            case lang.While(_, inner):
                yield "while ... {"
                yield from (f"    {t}" for t in _texts(inner))
                yield "}"
            case lang.Let(name):
                yield f"let {name} = ..."
            case lang.Set(name, op):
                yield f"{name} {op} ..."
            case lang.Break():
                yield "break"


class _Ranges:
    """The extents of all indices: those of tensors where they stand alone, else what views and accesses make them."""

    def __init__(
        self,
        kernel: lang.Kernel,
        extents: Extents,
        normal: Normal,
        uses: Sequence[lang.Access],
        made: set[str],
        own: set[str],
    ) -> None:
        self.kernel = kernel
        self.extents = extents
        self.normal = normal
        self.uses = uses
        self.made = made
        """Tensors that the kernel makes: their extents follow."""
        self.own = own
        """Those of them that nobody outside sees: nothing knows their extents."""
        self.bounding: Sequence[lang.Access] = uses
        """The accesses that lie within their tensors wherever anything is computed."""
        self.found: dict[str, Expr] = {}
        self.pending: set[str] = set()
        self.computed: dict[str, Expr] = {}
        """Extents that are made of others."""
        self.asked: dict[str, Var] = {}
        """The extents of indices that a split makes and nothing decides: the caller says them."""
        for link in normal.links:
            open_ = [p for p in link.parts if not self.is_decided(p)]
            for part in open_ if len(open_) > 1 else ():
                if self.named(part) is None:
                    self.asked[part] = Var(f"{normal.called.get(part, part)}_extent")

    def is_decided(self, index: str) -> bool:
        named = self.named(index)
        if named is not None and named[1]:
            return True
        return index in self.normal.slices or any(new == index for new, _ in self.normal.concats)

    def tensor(self, name: str, dimension: int) -> Expr:
        return self.extents.value(self.extents.name(("tensor", name, dimension)))

    def sizes(self, node: Any) -> Any:
        """With the names of extents in place."""
        values = {
            n.name: self.tensor(n.name.rpartition("#")[0], int(n.name.rpartition("#")[2]))
            for n in walk(node)
            if isinstance(n, Var) and "#" in n.name
        }
        return substitute(node, values) if values else node

    def named(self, index: str) -> tuple[Expr, bool] | None:
        """The extent where it stands alone, and whether an operand decides it."""
        key: Key = ("index", index, 0)
        if key not in self.extents.parent:
            return self.least(index)
        root = self.extents.find(key)
        if root not in self.extents.names:
            return self.least(index)
        members = [k for k in self.extents.parent if self.extents.find(k) == root]
        decided = any(k[0] in ("size", "number") or (k[0] == "tensor" and k[1] not in self.made) for k in members)
        return self.extents.value(self.extents.names[root]), decided

    def least(self, index: str) -> tuple[Expr, bool] | None:
        """Of an index that one access repeats."""
        for key, places in self.extents.repeated:
            if key[1] == index:
                result: Expr | None = None
                for name in dict.fromkeys(self.extents.name(p) for p in places):
                    value = self.extents.value(name)
                    result = value if result is None else Bin("min", result, value)
                assert result is not None
                return result, any(p[1] not in self.made for p in places)
        return None

    def extent(self, index: str) -> Expr:
        """The extent of an index, by name. Raises SpecError where nothing bounds it."""
        found = self.extent_of(index)
        if isinstance(found, Var | Num):
            return found
        name = next((n for n, e in self.computed.items() if e == found), None)
        if name is None:
            name = f"{index}_extent"
            while name in self.computed or name in self.normal.taken:
                name = f"{name}_"
            self.computed[name] = found
        return Var(name)

    def extent_of(self, index: str) -> Expr:
        if index not in self.found:
            named = self.named(index)
            if named is not None and not self.is_own(named[0]):
                self.found[index] = named[0]
            else:
                made = self.made_of(index)
                if made is None:
                    raise self.unbounded(index)
                self.found[index] = made
        return self.found[index]

    def is_free(self, index: str) -> bool:
        """Whether nothing but conditions, and that accesses lie within their tensors, bounds the index."""
        named = self.named(index)
        if named is not None and not self.is_own(named[0]):
            return False
        return index not in self.asked and self.viewed(index) is None and named is None

    def is_own(self, extent: Expr) -> bool:
        return isinstance(extent, Var) and extent.name.partition(".")[0] in self.own

    def made_of(self, index: str) -> Expr | None:
        """What views and accesses make it."""
        if index in self.asked:
            return self.asked[index]
        if index in self.pending:
            return None
        self.pending.add(index)
        try:
            return self.by_slice(index) or self.by_link(index) or self.by_concat(index) or self.by_reads(index)
        finally:
            self.pending.discard(index)

    def known(self, index: str) -> Expr | None:
        """The extent, if an operand or a view decides it."""
        named = self.named(index)
        if named is not None and named[1]:
            return named[0]
        return self.made_of(index) or (named[0] if named is not None and index not in self.pending else None)

    def by_slice(self, index: str) -> Expr | None:
        if index not in self.normal.slices:
            return None
        base, start, stop, step = self.normal.slices[index]
        whole = self.tensor(base[1], base[2]) if isinstance(base, tuple) else None
        if isinstance(base, str):
            return _length(start or ZERO, stop or ZERO, step)
        assert whole is not None
        if step > 0:
            first = ZERO if start is None else self.place(start, whole)
            last = whole if stop is None else Bin("min", self.place(stop, whole), whole)
            return _length(first, last, step)
        first = Bin("-", whole, ONE) if start is None else Bin("min", self.place(start, whole), Bin("-", whole, ONE))
        last = Num(-1) if stop is None else self.place(stop, whole)
        return _length(first, last, step)

    def place(self, expr: Expr, whole: Expr) -> Expr:
        return Bin("+", whole, expr) if isinstance(expr, Num) and expr.value < 0 else expr

    def by_link(self, index: str) -> Expr | None:
        for link in self.normal.links:
            if link.whole == index:
                parts = [self.known(p) for p in link.parts]
                if all(p is not None for p in parts):
                    return _product([p for p in parts if p is not None])
            if index in link.parts:
                others = [self.known(p) for p in link.parts if p != index]
                whole = self.known(link.whole)
                if whole is not None and all(p is not None for p in others):
                    return Bin("/", whole, _product([p for p in others if p is not None]))
        return None

    def by_concat(self, index: str) -> Expr | None:
        for new, old in self.normal.concats:
            if new == index:
                parts = [self.known(o) for o in old]
                if all(p is not None for p in parts):
                    result = parts[0]
                    for part in parts[1:]:
                        result = Bin("+", result, part)  # type: ignore[arg-type]
                    return result
        return None

    def by_reads(self, index: str) -> Expr | None:
        """As far as the accesses lie within their tensors, which have the index with other things in a subscript."""
        best: Expr | None = None
        for access in self.bounding:
            if access.tensor in self.made:
                continue
            for k, subscript in enumerate(access.subscripts):
                if index not in variables(subscript):
                    continue
                try:
                    affine = linear(self.sizes(subscript))
                except NotAffine:
                    continue
                limit = self.last(index, affine, self.tensor(access.tensor, k))
                if limit is not None:
                    best = limit if best is None else Bin("max", best, limit)
        return None if best is None else Bin("max", best, ZERO)

    def last(self, index: str, affine: Affine, extent: Expr) -> Expr | None:
        """One more than the largest value of the index with 0 <= affine < extent, others being what they may be."""
        factor = affine.coefficient(index)
        if not factor:
            return None
        rest: Expr = Num(affine.constant)
        for atom, k in affine.terms:
            if not isinstance(atom, str):
                return None
            if atom == index:
                continue
            if atom in self.normal.taken:
                if (k < 0) != (factor > 0):
                    continue  # what leaves the index most is 0
                other = self.known(atom)
                if other is None:
                    return None
                most = Bin("*", Num(abs(k)), Bin("-", other, ONE))
                rest = Bin("-" if k < 0 else "+", rest, most)
            else:
                rest = Bin("+", rest, Bin("*", Num(k), Var(atom)))
        if factor > 0:
            return Bin("+", Bin("/", Bin("-", Bin("-", extent, ONE), rest), Num(factor)), ONE)
        return Bin("+", Bin("/", rest, Num(-factor)), ONE)

    def check_bounded(self, index: str, body: Any) -> None:
        """Raises SpecError for an index that is in no subscript and in no condition."""
        spoken = any(index in variables(s) for a in self.uses for s in a.subscripts)
        if not spoken and not any(isinstance(n, Compare) and index in variables(n) for n in nodes(body)):
            raise self.unbounded(index)

    def unbounded(self, index: str) -> SpecError:
        name = self.normal.called.get(index, index)
        span = next((a.span for a in self.uses if any(index in variables(s) for s in a.subscripts)), self.kernel.span)
        return SpecError(
            f"expected bounds for `{name}`, but nothing bounds it: its loop would run for ever",
            span,
            ("an index gets its extent where it stands alone as a subscript: `A[i, j]`",),
        )

    def derived(self) -> Iterator[tuple[Expr, Expr, bool]]:
        """Extents that have names, what calls make results by that have them, and whether the two have to be equal: so
        it is where a view has the extent; where reads lie within their tensors says no more than what would do."""
        for index in sorted(self.normal.taken):
            named = self.named(index)
            if named is None:
                continue
            is_part = any(index in link.parts for link in self.normal.links)
            viewed = None if is_part and named[1] else self.viewed(index)
            other = viewed or (None if named[1] else self.made_of(index))
            if other is not None and named[0] != other:
                yield named[0], self.sizes(other), viewed is not None and not is_part
        for index, size in self.asked.items():
            for link in (k for k in self.normal.links if index in k.parts):
                others = [self.asked.get(p) or (self.named(p) or (None,))[0] for p in link.parts if p != index]
                whole = self.known(link.whole)
                known = [o for o in others if o is not None]
                if whole is not None and len(known) == len(others) and not any(size in walk(e) for e in known):
                    yield size, self.sizes(Bin("/", whole, _product(known))), False

    def viewed(self, index: str) -> Expr | None:
        """The extent that a view gives the index."""
        self.pending.add(index)
        try:
            return self.by_slice(index) or self.by_link(index) or self.by_concat(index)
        finally:
            self.pending.discard(index)

    def needed(self, body: Any) -> set[str]:
        """The indices over which something runs."""
        found: set[str] = set()
        for node in nodes(body):
            match node:
                case Equation(indices=indices) | lang.For(indices) | lang.Reduce(_, indices):
                    found |= set(indices)
                case Linked(link):
                    found |= set(link.names)
        return found

    # --- nodes -----------------------------------------------------------------------------------

    def resolved(self, step: Any) -> Any:
        """With extents in links, concatenations as choices, conditions of insideness as formulas."""

        def rule(node: Any) -> Any:
            match node:
                case Linked(Link(_, parts, ()) as link, value):
                    return replace(node, link=replace(link, extents=tuple(self.extent(p) for p in parts)))
                case Joined():
                    return self.joined(node)
                case Chosen(Inside(value)):
                    return replace(node, condition=self.inside(value))
                case Var(name) if "#" in name:
                    return self.sizes(node)
            return None

        return rewrite(rule, step)

    def joined(self, node: Joined) -> Any:
        offset: Expr = ZERO
        parts: list[tuple[Expr, Any]] = []
        for old, value in zip(node.old, node.parts, strict=True):
            start: Expr = ZERO if offset == ZERO else Bin("-", ZERO, offset)
            part = moved(value, Tie(old, node.new, start, 1), node.span)
            offset = self.extent(old) if offset == ZERO else Bin("+", offset, self.extent(old))
            parts.append((offset, part))
        result = parts[-1][1]
        for end, part in reversed(parts[:-1]):
            result = Chosen(Compare("<", Var(node.new), end), part, result, node.span)
        return result

    def inside(self, value: Any) -> Formula:
        conditions: list[Formula] = []
        for access in (n for n in walk(value) if isinstance(n, lang.Access)):
            for k, subscript in enumerate(access.subscripts):
                conditions.append(within(self.sizes(subscript), ZERO, self.tensor(access.tensor, k)))
        return conjunction(conditions) if conditions else TRUE


def _length(start: Expr, stop: Expr, step: int) -> Expr:
    """How many places a slice has."""
    distance = Bin("-", stop, start) if step > 0 else Bin("-", start, stop)
    match distance:
        case Bin("-", Num(a), Num(b)):
            return Num(max(0, -(-(a - b) // abs(step))))
    rounded = Bin("/", Bin("+", distance, Num(abs(step) - 1)), Num(abs(step))) if abs(step) > 1 else distance
    return Bin("max", rounded, ZERO)


def _product(parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Bin("*", result, part)
    return result
