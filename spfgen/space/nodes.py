"""IR 2: which points of which statement run, over named dimensions.

    Program   ::= name, Tensor*, sizes, Steps, order, ForcedFind*
    Steps     ::= statements in normal form (steps.py), a Group of each that is a sum of products
    Group     ::= one statement of the user: target, op, Instance*, [point]
    Instance  ::= domain (one conjunction), dimensions, calls, facts, target, value
    Value     ::= Constant | Read(operand) | Apply(operator, arguments)

A dimension is a size (fixed for the whole call), an index of the computation, a position of a tensor's layout,
a quotient, a call (the value of an index array), or made by the schedule (a tile). Names: `i`, `A.pi`, `A.nrow`,
`A.rowptr(A.pi + 1)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from spfgen.errors import Span
from spfgen.facts.formula import ZERO, Call, Compare, Expr, Formula, Num, Var, conjuncts, variables
from spfgen.facts.prove import Facts
from spfgen.facts.reach import Limits
from spfgen.lang.nodes import Access, Apply, Constant
from spfgen.layout.nodes import Layout
from spfgen.sets.named import Constraint, Piece
from spfgen.sets.uf import comparisons, is_quotient
from spfgen.space.steps import Equation


@dataclass(frozen=True, slots=True)
class EntryList:
    """A result whose pattern is computed, as the loops deliver it: entries that are assembled at last."""

    layout: Layout
    """What they are assembled to."""
    index_types: tuple[tuple[str, str], ...]
    """Those of its index arrays."""
    type: str
    """That of the values, in which they can be summed."""
    axis: int | None = None
    """They are intervals along this coordinate: an entry has the last one besides."""
    common: int | None = None
    """They come row by row; a row has this coordinate in common."""
    any_order: bool = False
    """Whether the layout takes the entries of a row as they come."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the kernel.

    `extents` and `sizes` are the size dimensions behind the layout's parameters and sizes; `arrays` are the
    functions behind its index arrays (another tensor's where they are shared). Where it is `assembled`, `layout` is
    that of the list.
    """

    name: str
    layout: Layout
    value_type: str
    index_types: tuple[tuple[str, str], ...]
    extents: tuple[str, ...]
    sizes: tuple[str, ...]
    arrays: tuple[tuple[str, str], ...]
    is_input: bool
    is_output: bool
    shared_with: str | None = None
    typed: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    assembled: EntryList | None = None
    copied: bool = False
    """Whether it is made with copies of the index arrays of `shared_with`."""

    @property
    def is_made(self) -> bool:
        """Whether the kernel makes its arrays."""
        return self.assembled is not None or self.copied

    @property
    def borrows(self) -> bool:
        """Whether all its index arrays and sizes are another tensor's: where it comes without arrays, it is made with
        copies of them."""
        own = [n for n in (*dict(self.arrays).values(), *self.sizes) if n.startswith(f"{self.name}.")]
        is_result = self.shared_with is not None and self.is_output and not self.is_input and not self.copied
        return is_result and bool(self.arrays or self.sizes) and not own

    @property
    def entries(self) -> EntryList:
        """Of a result whose pattern is computed."""
        assert self.assembled is not None
        return self.assembled

    @property
    def final_layout(self) -> Layout:
        """The layout that it has at last."""
        return self.layout if self.assembled is None else self.assembled.layout

    @property
    def final_types(self) -> tuple[tuple[str, str], ...]:
        """The types of the index arrays that it has at last."""
        return self.index_types if self.assembled is None else self.assembled.index_types

    @property
    def entry_type(self) -> str:
        """The type in which the kernel has its values."""
        return self.value_type if self.assembled is None else self.assembled.type


def extent_value(extent: str, fixed: Mapping[str, int]) -> Expr:
    """A size dimension, or the number that it is."""
    return Num(fixed[extent]) if extent in fixed else Var(extent)


def size_values(tensor: Tensor, fixed: Mapping[str, int]) -> dict[str, Expr]:
    """What the layout's parameters and sizes are in the kernel: size dimensions, or numbers."""
    names = zip((*tensor.layout.parameters, *tensor.layout.sizes), (*tensor.extents, *tensor.sizes), strict=True)
    return {parameter: extent_value(dim, fixed) for parameter, dim in names}


@dataclass(frozen=True, slots=True)
class Operand:
    """One access: the value array of a tensor and the place in it, over the dimensions of its instance.

    `label` tells accesses of one tensor apart; `positions` are the dimensions of this access; `sparse`
    says that its layout has index arrays.
    """

    label: str
    tensor: str
    array: str
    place: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    positions: tuple[str, ...]
    subscripts: tuple[Expr, ...]
    sparse: bool
    turned: tuple[str, ...] = ()
    """Operators for what is stored there, to have the value at the coordinate, the first one first."""


@dataclass(frozen=True, slots=True)
class Read:
    operand: Operand


def value_of(operand: Operand) -> Any:
    """The value at the coordinate of an access."""
    value: Any = Read(operand)
    for operator in operand.turned:
        value = Apply(operator, (value,))
    return value


Value = Constant | Read | Apply


@dataclass(frozen=True, slots=True)
class Monoid:
    """How values become one: `operator`, of two of this type, without arguments, may take them in any order and
    grouping; `neutral` leaves every other value as it is."""

    operator: Apply
    type: str
    neutral: Any


@dataclass(frozen=True, slots=True)
class Instance:
    """One conjunctive piece of one term of a statement."""

    domain: Piece
    """All conditions, over all dimensions."""
    sizes: tuple[str, ...]
    """Dimensions that the loops around, operands or the caller decide."""
    indices: tuple[str, ...]
    """Dimensions of the statement."""
    positions: tuple[str, ...]
    """Dimensions of the layouts."""
    quotients: Mapping[str, tuple[Expr, int]]
    """Dimensions that are floor(numerator / divisor)."""
    calls: Mapping[str, Call]
    """Dimensions that are values of index arrays."""
    aliases: Mapping[str, str]
    """Calls that equal an earlier call."""
    domains: Mapping[str, tuple[Formula, ...]]
    """For each call, that its arguments lie within the array."""
    facts: tuple[Formula, ...]
    """They hold wherever the calls that they speak of are defined."""
    axioms: Facts
    """All declared facts, for the prover."""
    guards: tuple[Formula, ...]
    """Conditions that are not affine."""
    target: Operand
    value: Value
    reads: tuple[Operand, ...]
    made: tuple[str, ...] = ()
    """Dimensions that the schedule adds."""
    signed: frozenset[str] = frozenset()
    """Sizes that may be negative."""
    around: frozenset[str] = frozenset()
    """Sizes that are indices of loops around."""
    monoid: Monoid | None = None
    """How the values of points with one place are combined; None: added, in the type that holds all of them."""
    finish: str = ""
    """The name of the combined value, if something is computed from it before it is stored."""

    @property
    def op(self) -> str:
        """How a value comes to its place, as `+=`."""
        return "+=" if self.monoid is None else f"{self.monoid.operator.op}="

    @property
    def natural(self) -> tuple[str, ...]:
        """The sizes that are not negative: all but indices that are known and may be."""
        return tuple(s for s in self.sizes if s not in self.signed)

    @property
    def sizes_known(self) -> tuple[Formula, ...]:
        """That sizes are not negative."""
        return tuple(Compare(">=", Var(s), ZERO) for s in self.natural)

    def meaning(self, dim: str, known: Collection[str]) -> list[Constraint]:
        """What makes the dimension a quotient, if it is one and the numerator is known."""
        if dim not in self.quotients or not variables(self.quotients[dim][0]) <= {*known}:
            return []
        return comparisons(conjuncts(is_quotient(dim, *self.quotients[dim])))


@dataclass(frozen=True, slots=True)
class Group:
    """All instances of one statement. `op` is `=` (cleared first) or `+=`.

    Each instance adds to its target. Where the value is more than a sum of products, the instances add to temporaries
    of the program, each a sum within the value; `point` has the points of the statement's own target and the value
    that is stored there, over the temporaries at the same place.
    """

    text: str
    op: str
    target: str
    instances: tuple[Instance, ...]
    point: Instance | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def all(self) -> tuple[Instance, ...]:
        """The instances, and the point."""
        return self.instances if self.point is None else (*self.instances, self.point)


class Asked(NamedTuple):
    """What is asked for by a statement that is a sum of products: its points, and the temporaries that it needs. It is
    no node: a plan is not about its points, but has them."""

    group: Group
    temporaries: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Steps:
    """A kernel's steps. `extents` has the range [0, extent) of each index; but the `free` ones have what conditions
    leave, and that accesses lie within their tensors. `computed` are extents that are made of others, by name; `called`
    has what each index is called in the text. `sums` has what is asked for by those equations that are sums of
    products: by their names of indices, which are those of the text where it has no views. `local` are tensors that
    nobody outside sees."""

    body: tuple[Any, ...]
    extents: Mapping[str, Expr]
    free: frozenset[str] = frozenset()
    text: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    computed: Mapping[str, Expr] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    sums: Mapping[Equation, Asked] = field(default_factory=dict)
    local: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ForcedFind:
    """The schedule wants the dimension `dim`, a position of one access, to be found by this algorithm.

    `written` is what the user calls it: one name for all accesses of a tensor.
    """

    dim: str
    algorithm: str
    written: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Mark:
    """A clause of the schedule on the loop over `dim`: parallel, serial, vectorize, unroll, or that it is the loop over
    tiles of another one. `word` is the clause, `number` the number after `by`; `inner` are loops fused with it."""

    word: str
    dim: str
    number: int = 0
    inner: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A relation on iteration spaces: those that have all dimensions of `needs` get those of `makes`, such that
    `condition` (over dimensions and `sizes`) holds."""

    needs: tuple[str, ...]
    makes: tuple[str, ...]
    condition: Formula
    sizes: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class PatternObligation:
    """A part of a value that may differ from the fill value where `target` stores nothing: where all `factors` are
    stored, under the condition `where`. Calls check whether an entry would be lost. With a `statement`, its values
    determine where, and the factors are all that it reads. `where_empty`: only if an extent is 0. `asked`: the kernel
    checks all entries before it writes any."""

    target: Access
    factors: tuple[Access, ...]
    where: Formula | None = None
    statement: Any = None
    where_empty: bool = False
    asked: bool = False


@dataclass(frozen=True)
class LoopSchedule:
    """What the schedule asks for, in terms of the dimensions of iteration spaces."""

    order: tuple[str, ...] = ()
    """The loops that come first, the outermost first."""
    finds: tuple[ForcedFind, ...] = ()
    """Search algorithms."""
    marks: tuple[Mark, ...] = ()
    """Clauses on loops."""
    outside: tuple[tuple[str, str], ...] = ()
    """(outer, inner) loops, one directly around the other."""
    changes: tuple[Change, ...] = ()
    """Relations that iteration spaces are transformed by."""


@dataclass(frozen=True, slots=True)
class ProgramSizes:
    """Where the size dimensions of a kernel, and the extents of its indices, come from."""

    readings: Mapping[str, tuple[tuple[str, str], ...]]
    """For each size dimension, the (tensor, parameter or size) pairs that give its value and must agree; () for a size
    that the caller passes."""
    fixed: Mapping[str, int]
    """The size dimensions that are numbers."""
    of_index: Mapping[str, tuple[str, ...]]
    """The extents of each index, one for each statement in which it has another."""
    agreements: tuple[tuple[tuple[str, ...], ...], ...] = ()
    """Groups of extents whose least ones are equal."""
    derived: tuple[tuple[Expr, Expr, bool], ...] = ()
    """Extents, their expressions in other extents, and whether they must be equal."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The extents of indices that are numbers."""


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as iteration spaces: statements, extents, and the schedule."""

    name: str
    doc: str
    tensors: tuple[Tensor, ...]
    parameters: tuple[str, ...]
    sizes: ProgramSizes
    steps: Steps
    schedule: LoopSchedule
    temporaries: tuple[Tensor, ...] = ()
    """Values that the kernel keeps for itself, each at the places of a tensor that it writes."""
    levels: int = 0
    """How many loops run level by level; each keeps something between calls (rt/levels_type.h)."""
    deterministic: bool = False
    """Results do not depend on the number of threads."""
    level: int = 2
    """Of optimisation (lang/optimization.py)."""
    limits: Limits = Limits()
    """What must fit in 64 bits."""
    doubts: tuple[PatternObligation, ...] = ()
    """Entries that their target may not have a place for."""
    beyond: str = ""
    """In words: what in it is more than a sum of products."""
    filled: tuple[str, ...] = ()
    """Assembled results that get an entry at each of their places."""
    without_fill: bool = False
    """Values that equal the fill value of an assembled result are no entries."""

    @property
    def size_names(self) -> tuple[str, ...]:
        """What calls say: the parameters and the size dimensions."""
        return tuple(dict.fromkeys((*self.parameters, *self.sizes.readings)))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The points of the statements that are sums of products."""
        return tuple(asked.group for asked in self.steps.sums.values())

    @property
    def every_tensor(self) -> tuple[Tensor, ...]:
        """Those that calls know, and those that the kernel has for itself."""
        return (*self.tensors, *self.temporaries, *(t for asked in self.steps.sums.values() for t in asked.temporaries))

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.every_tensor if t.name == name)
