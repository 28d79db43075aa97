"""Integer sets whose dimensions are names. The only importer of islpy.

isl addresses dimensions by position; here a `Space` keeps the names, a `Piece` is one conjunction of affine
constraints over them (an isl basic set), and positions never leave this file. Unions are lists of disjoint pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from spfgen import limits
from spfgen.errors import InternalError, Unsupported
from spfgen.facts.formula import (
    And,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Not,
    Or,
)
from spfgen.ir import rewrite, walk
from spfgen.sets.affine import Affine, Atom, Floor, affine

if TYPE_CHECKING:
    import islpy as isl


class _Islpy:
    """islpy, imported when the first set is made: where all that was asked of it is known from the disk, it is not."""

    def __getattr__(self, name: str) -> Any:
        import islpy

        attribute = getattr(islpy, name)
        setattr(self, name, attribute)
        return attribute


if not TYPE_CHECKING:
    isl = _Islpy()


@dataclass(frozen=True, slots=True)
class Constraint:
    """`value = 0` when `equality`, else `value >= 0`."""

    equality: bool
    value: Affine


def is_floor(name: str, numerator: Affine, divisor: int) -> list[Constraint]:
    """name = floor(numerator / divisor)."""
    remainder = numerator - Affine(((name, divisor),))
    if divisor == 1:
        return [Constraint(True, remainder)]
    return [Constraint(False, remainder), Constraint(False, remainder.scaled(-1).plus(divisor - 1))]


@dataclass(frozen=True, slots=True)
class Case:
    """Where all `where` hold, a value is floor(numerator / divisor)."""

    where: tuple[Constraint, ...]
    numerator: Affine
    divisor: int


FEW = 4
"""So many constraints are looked at one by one. Measured, codegen_time: from 1 to 8 it takes as long."""
OPERATIONS = 500_000
"""So many steps isl may take to find a function: a budget that does not depend on the machine."""


class Space:
    """An ordered tuple of dimension names."""

    __slots__ = ("isl", "local", "names", "position")

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self.position = {name: k for k, name in enumerate(self.names)}
        if len(self.position) != len(self.names):
            raise InternalError(f"a dimension occurs twice: {self.names}")
        self.isl, self.local = _spaces(len(self.names))

    def universe(self) -> Piece:
        return Piece(self, isl.BasicSet.universe(self.isl))

    def of(self, constraints: Iterable[Constraint]) -> Piece:
        wanted = list(constraints)
        if any(c.value.floors() for c in wanted):
            return self.universe().with_constraints(wanted)
        return Piece(self, _basic(len(self.names), tuple(_numbers(self, c) for c in wanted)))


class Piece:
    """A conjunction of affine constraints over a space. Immutable."""

    __slots__ = ("_listed", "basic", "reduced", "said", "space")

    def __init__(self, space: Space, basic: Any) -> None:
        self.space = space
        self.basic = basic
        self.said: dict[tuple[str, frozenset[str]], list[Constraint]] = {}
        self.reduced: dict[frozenset[str], Any] = {}
        """What was found out about dimensions (eliminate.py)."""
        self._listed: dict[str | None, list[Constraint]] = {}

    def with_constraints(self, constraints: Iterable[Constraint]) -> Piece:
        basic = self.basic
        for constraint in constraints:
            if constraint.value.floors():
                basic = basic.intersect(_with_floors(self.space, constraint))
            else:
                basic = basic.add_constraint(_made(len(self.space.names), _numbers(self.space, constraint)))
        return Piece(self.space, basic)

    def intersect(self, other: Piece) -> Piece:
        return Piece(self.space, self.basic.intersect(other.basic))

    def is_empty(self) -> bool:
        return bool(self.basic.is_empty())

    def is_subset(self, other: Piece) -> bool:
        return bool(self.basic.is_subset(other.basic))

    def implies(self, constraint: Constraint) -> bool:
        """Whether every point satisfies the constraint."""
        return self.is_subset(self.space.of([constraint]))

    def sample(self) -> dict[str, int] | None:
        """A point of the set, or None when it is empty."""
        point = self.basic.sample_point()
        if point.is_void():
            return None
        return {n: _integer(point.get_coordinate_val(isl.dim_type.set, k)) for k, n in enumerate(self.space.names)}

    def subtract(self, other: Piece) -> list[Piece]:
        return _split(self.space, self.basic.to_set().subtract(other.basic.to_set()))

    def involves(self, name: str) -> bool:
        """Whether a constraint speaks of the dimension."""
        return bool(self.basic.involves_dims(isl.dim_type.set, self.space.position[name], 1))

    def without(self, names: set[str]) -> Piece:
        """The set without these dimensions, which no constraint may speak of."""
        if not names:
            return self
        basic = self.basic
        for first, count in reversed(_runs([n in names for n in self.space.names])):
            basic = basic.project_out(isl.dim_type.set, first, count)
        return Piece(Space(n for n in self.space.names if n not in names), basic)

    def project(self, kept: Iterable[str]) -> Piece:
        """What is known of the `kept` dimensions alone; the others stay in the space, unconstrained.

        May hold more points than the exact projection (divisibility can get lost), never fewer.
        """
        names = set(kept)
        basic = self.basic
        for first, count in _runs([n not in names for n in self.space.names]):
            basic = basic.eliminate(isl.dim_type.set, first, count)
        return Piece(self.space, basic.remove_unknown_divs())

    def has_floors(self) -> bool:
        """Whether constraints speak of quotients that are no dimensions."""
        return bool(self.basic.dim(isl.dim_type.div))

    def restrict(self, kept: Iterable[str]) -> Piece:
        """The constraints that are about `kept` dimensions only, as they stand (nothing is derived)."""
        names = set(kept)
        basic = self.basic
        for first, count in _runs([n not in names for n in self.space.names]):
            basic = basic.drop_constraints_involving_dims(isl.dim_type.set, first, count)
        return Piece(self.space, basic.intersect(isl.BasicSet.universe(self.space.isl)))  # isl leaves it half made

    def speaking_of(self, name: str) -> Piece:
        """The constraints in which the dimension occurs, as they stand; all where there are quotients."""
        if self.has_floors():
            return self
        kind = isl.dim_type.set
        basic = self.basic.drop_constraints_not_involving_dims(kind, self.space.position[name], 1)
        return Piece(self.space, basic.intersect(isl.BasicSet.universe(self.space.isl)))

    def without_floors(self) -> Piece:
        """What is known without speaking of quotients. May hold more points, never fewer."""
        return Piece(self.space, self.basic.remove_divs())

    def is_within_projection(self, other: Piece, hidden: Iterable[str]) -> bool:
        """Whether each point of this set is one of `other` for some values of the `hidden` dimensions, which are the
        last ones."""
        projected, projected_other = self._projected(hidden), other._projected(hidden)
        return bool(projected.is_subset(projected_other))

    def outside_projection(self, other: Piece, hidden: Iterable[str]) -> dict[str, int]:
        """A point of this set that is not; without the hidden dimensions."""
        projected, projected_other = self._projected(hidden), other._projected(hidden)
        point = projected.to_set().subtract(projected_other.to_set()).sample_point()
        shown = self.space.names[: projected.dim(isl.dim_type.set)]
        return {n: _integer(point.get_coordinate_val(isl.dim_type.set, k)) for k, n in enumerate(shown)}

    def _projected(self, hidden: Iterable[str]) -> Any:
        names = set(hidden)
        first = next((k for k, n in enumerate(self.space.names) if n in names), len(self.space.names))
        return self.basic.project_out(isl.dim_type.set, first, len(self.space.names) - first)

    def function(self, name: str, known: Iterable[str]) -> tuple[Case, ...] | None:
        """A dimension as a function of `known` ones, case by case: for each point of this set one case holds, and gives
        its value. None when it is no such function, or when that is not found within the budget."""
        shown = [n for n in self.space.names if n in set(known) and n != name]
        space = Space((*shown, name))
        context = self.basic.get_ctx()
        spent = context.get_max_operations()
        context.reset_operations()
        context.set_max_operations(OPERATIONS)
        try:
            return _cases(Space(shown), self.without_exactly(space).basic)
        except isl.Error:
            return None
        finally:
            context.set_max_operations(spent)
            context.reset_operations()

    def without_exactly(self, space: Space) -> Piece:
        """The projection to the dimensions of `space`, in their order there, with nothing lost."""
        kept = set(space.names)
        names = [n for n in self.space.names if n in kept]
        basic = self.basic
        for first, count in reversed(_runs([n not in kept for n in self.space.names])):
            basic = basic.project_out(isl.dim_type.set, first, count)
        return Piece(Space(names), basic).reordered(space)

    def gist(self, known: Piece) -> Piece:
        """Fewer constraints, equal to these where `known` holds. isl looks for long at each, and at all that is known:
        it is not asked where one or none is left that does not follow from what is known."""
        if self.has_floors() or known.has_floors():
            return Piece(self.space, self.basic.gist(known.basic))
        constraints = self.listed()
        if len(constraints) <= FEW:
            left = [c for c in constraints if not known.implies(c)]
        else:  # to read all that is known takes less than to ask as often
            known_limits = _strictest(known.listed())
            left = [c for c in constraints if not _is_said(c, known_limits)]
            left = left if len(left) > FEW else [c for c in left if not known.implies(c)]
        piece = self if len(left) == len(constraints) else self.space.of(left)
        return piece if len(left) < 2 else Piece(self.space, piece.basic.gist(known.basic))

    def hull(self) -> Piece:
        """The equalities that hold."""
        return Piece(self.space, self.basic.affine_hull())

    def reordered(self, space: Space) -> Piece:
        """The same set with its dimensions in the order of `space` (which may hold further ones)."""
        affs = isl.MultiAff.zero(isl.Space.map_from_domain_and_range(space.isl, self.space.isl))
        for k, name in enumerate(self.space.names):
            affs = affs.set_aff(k, isl.Aff.var_on_domain(space.local, isl.dim_type.set, space.position[name]))
        return Piece(space, self.basic.preimage_multi_aff(affs))

    def constraints(self, about: str | None = None) -> list[Constraint]:
        """The constraints, or only those in which dimension `about` occurs."""
        return [*self.listed(about)]

    def listed(self, about: str | None = None) -> list[Constraint]:
        """The same, remembered: not to be changed."""
        if about not in self._listed:
            self._listed[about] = self._read(about)
        return self._listed[about]

    def _read(self, about: str | None) -> list[Constraint]:
        isl_constraints: list[Any] = []
        self.basic.foreach_constraint(isl_constraints.append)
        divs: dict[int, Floor | None] = {}
        position = None if about is None else self.space.position[about]
        result = []
        for c in isl_constraints:
            if (
                position is not None
                and not c.involves_dims(isl.dim_type.set, position, 1)
                and not self._in_floor(c, position)
            ):
                continue
            if c.is_div_constraint():
                continue
            value = self._affine(c, divs)
            if value is not None:
                result.append(Constraint(bool(c.is_equality()), value))
        return result

    def _in_floor(self, constraint: Any, position: int) -> bool:
        count = self.basic.dim(isl.dim_type.div)
        if not count:
            return False
        name = self.space.names[position]
        for k in range(count):
            if constraint.involves_dims(isl.dim_type.div, k, 1):
                floor = self._floor(k, {})
                if floor is None or name in floor.numerator.names():
                    return True
        return False

    def _affine(self, item: Any, divs: dict[int, Floor | None]) -> Affine | None:
        """A constraint's value; None when it speaks of a quotient without a formula."""
        terms: list[tuple[Atom, int]] = []
        involves, coefficient, kind = item.involves_dims, item.get_coefficient_val, isl.dim_type.set
        for k, name in enumerate(self.space.names):
            if involves(kind, k, 1):
                terms.append((name, _integer(coefficient(kind, k))))
        for k in range(self.basic.dim(isl.dim_type.div)):
            if item.involves_dims(isl.dim_type.div, k, 1):
                if k not in divs:
                    divs[k] = self._floor(k, divs)
                floor = divs[k]
                if floor is None:
                    return None
                terms.append((floor, _integer(item.get_coefficient_val(isl.dim_type.div, k))))
        return Affine.of(terms, _integer(item.get_constant_val()))

    def _floor(self, k: int, divs: dict[int, Floor | None]) -> Floor | None:
        aff = self.basic.get_div(k)
        if aff.is_nan():
            return None
        divisor = _integer(aff.get_denominator_val())
        scaled = aff.scale_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor))
        terms: list[tuple[Atom, int]] = []
        for d, name in enumerate(self.space.names):
            coefficient = _integer(scaled.get_coefficient_val(isl.dim_type.in_, d))
            if coefficient:
                terms.append((name, coefficient))
        for d in range(scaled.dim(isl.dim_type.div)):
            coefficient = _integer(scaled.get_coefficient_val(isl.dim_type.div, d))
            if coefficient:
                inner = self._floor(d, divs)
                if inner is None:
                    return None
                terms.append((inner, coefficient))
        return Floor(Affine.of(terms, _integer(scaled.get_constant_val())), divisor)

    def __str__(self) -> str:
        basic = self.basic
        for k, name in enumerate(self.space.names):
            basic = basic.set_dim_name(isl.dim_type.set, k, name)
        return str(basic)


Said = dict[tuple[bool, frozenset[tuple[Atom, int]]], int]


def _strictest(constraints: Iterable[Constraint]) -> Said:
    """The least constant of each linear form."""
    limits: Said = {}
    for c in constraints:
        form = c.equality, frozenset(c.value.terms)
        limits[form] = min(c.value.constant, limits.get(form, c.value.constant))
    return limits


def _is_said(constraint: Constraint, limits: Said) -> bool:
    """Whether a constraint is among these, or a stricter one."""
    terms, constant = frozenset(constraint.value.terms), constraint.value.constant
    if constraint.equality:
        opposite = frozenset((a, -k) for a, k in terms)
        return limits.get((True, terms)) == constant or limits.get((True, opposite)) == -constant
    return limits.get((False, terms), constant + 1) <= constant


def _cases(space: Space, basic: Any) -> tuple[Case, ...] | None:
    """The last dimension of the set as a function of the others, which are those of `space`."""
    relation = isl.Map.from_range(basic.to_set())
    count = len(space.names)
    relation = relation.move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, count)
    if not relation.is_single_valued():
        return None
    cases: list[Case] = []
    function = isl.PwMultiAff.from_map(relation)
    parts: list[tuple[Any, Any]] = []
    function.foreach_piece(lambda domain, value: parts.append((domain, value)))
    for domain, value in parts:
        for piece in _split(space, domain):
            read = _read_aff(space, value.get_aff(0))
            where = tuple(piece.constraints())
            if read is None or not space.of(where).basic.is_equal(piece.basic):
                return None
            cases.append(Case(where, *read))
    return tuple(cases)


def _read_aff(space: Space, aff: Any) -> tuple[Affine, int] | None:
    """(numerator, divisor) of an isl expression over the space."""
    divisor = aff.get_denominator_val().to_python()
    scaled = aff.scale_val(isl.Val.int_from_si(isl.DEFAULT_CONTEXT, divisor))
    terms: list[tuple[Atom, int]] = []
    for d, name in enumerate(space.names):
        terms.append((name, scaled.get_coefficient_val(isl.dim_type.in_, d).to_python()))
    for d in range(scaled.dim(isl.dim_type.div)):
        coefficient = scaled.get_coefficient_val(isl.dim_type.div, d).to_python()
        if coefficient:
            inner = scaled.get_div(d)
            read = None if inner.is_nan() else _read_aff(space, inner)
            if read is None:
                return None
            terms.append((Floor(*read), coefficient))
    return Affine.of(terms, scaled.get_constant_val().to_python()), divisor


def _runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """(first, length) of each run of true flags."""
    result = []
    k = 0
    while k < len(flags):
        if flags[k]:
            start = k
            while k < len(flags) and flags[k]:
                k += 1
            result.append((start, k - start))
        else:
            k += 1
    return result


_Numbers = tuple[bool, tuple[tuple[int, int], ...], int]
"""A constraint by the places of its dimensions: whether it is an equality, (place, coefficient), constant."""


def _numbers(space: Space, constraint: Constraint) -> _Numbers:
    terms = constraint.value.terms
    return constraint.equality, tuple((space.position[a], k) for a, k in terms), constraint.value.constant  # type: ignore[index]


# islpy (2026.2.2) never frees 32 bytes of each object that isl takes, most of them where constraints are made: 70 kB
# for a small kernel. So what was made stays for the next one who asks for the same.


@cache
def _spaces(size: int) -> tuple[Any, Any]:
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, size)
    return space, isl.LocalSpace.from_space(space)


@lru_cache(maxsize=4096)
def _made(size: int, numbers: _Numbers) -> Any:
    equality, terms, constant = numbers
    result = (isl.Constraint.equality_alloc if equality else isl.Constraint.inequality_alloc)(_spaces(size)[1])
    for place, coefficient in terms:
        result = result.set_coefficient_val(isl.dim_type.set, place, _value(coefficient))
    return result.set_constant_val(_value(constant))


@lru_cache(maxsize=1024)
def _basic(size: int, constraints: tuple[_Numbers, ...]) -> Any:
    result = isl.BasicSet.universe(_spaces(size)[0])
    for numbers in constraints:
        result = result.add_constraint(_made(size, numbers))
    return result


def _value(number: int) -> Any:
    """A number for isl, which islpy makes of what fits into 64 bits only."""
    return number if abs(number) < 2**63 else isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(number))


def _integer(value: Any) -> int:
    """A number of isl: 0 stands for what is too large; text, which islpy does not free, only for that."""
    number = int(value.get_num_si())
    return number if number or value.is_zero() else int(value.to_python())


def _aff(space: Space, value: Affine) -> Any:
    result = isl.Aff.zero_on_domain(space.local).set_constant_val(value.constant)
    for atom, coefficient in value.terms:
        if isinstance(atom, str):
            result = result.set_coefficient_val(isl.dim_type.in_, space.position[atom], coefficient)
        else:
            inner = _aff(space, atom.numerator).scale_down_val(atom.divisor).floor()
            result = result.add(inner.scale_val(coefficient))
    return result


def _with_floors(space: Space, constraint: Constraint) -> Any:
    aff = _aff(space, constraint.value)
    if constraint.equality:
        return aff.zero_basic_set()
    return aff.ge_basic_set(isl.Aff.zero_on_domain(space.local))


def _split(space: Space, union: Any) -> list[Piece]:
    """Disjoint pieces without quotients that lack a formula."""
    union = union.compute_divs().coalesce()
    if union.n_basic_set() > 1:
        union = union.make_disjoint()
    basics: list[Any] = []
    union.foreach_basic_set(basics.append)
    return [Piece(space, b) for b in basics if not b.is_empty()]


# --- from formulas -----------------------------------------------------------------------------------

Encode = Callable[[Call], str]


class TooManyPieces(Unsupported):
    """Alternatives multiplied out make more pieces than are looked at."""

    def __init__(self) -> None:
        super().__init__(f"the alternatives of a formula make more than {limits.PIECES} pieces when they are expanded")


def pieces(space: Space, formula: Formula, encode: Encode, defined: Iterable[Formula] = ()) -> list[Piece]:
    """The points of `space` where the formula holds, as disjoint pieces. Raises TooManyPieces.

    `encode` names the dimension that stands for a call. `defined` are conditions under each of which a call has a
    value; where it has none the formula does not speak of it, and then no piece does. Raises NotAffine.
    """
    simple = _conjunction(formula, encode)
    if simple is not None:
        piece_of_all = space.of(simple)
        return [] if piece_of_all.is_empty() else [piece_of_all]
    parts = [_set(space, formula, encode)]
    for condition in defined:
        inside = _set(space, condition, encode)
        outside = [part.subtract(inside) for part in parts]
        cut = [(p,) if o.is_empty() else (p.intersect(inside), o) for p, o in zip(parts, outside, strict=True)]
        parts = [p for both in cut for p in both]
    return [piece for part in parts for piece in _split(space, part)]


def _conjunction(formula: Formula, encode: Encode) -> list[Constraint] | None:
    """The constraints of a plain conjunction of comparisons; None when it is anything else."""
    match formula:
        case And(parts):
            result: list[Constraint] = []
            for part in parts:
                inner = _conjunction(part, encode)
                if inner is None:
                    return None
                result += inner
            return result
        case Compare(op, left, right) if op != "!=" and not _extremum(formula):
            return [comparison(op, affine(left, encode), affine(right, encode))]
    return None


def comparison(op: str, left: Affine, right: Affine) -> Constraint:
    """A comparison as a constraint; not for `!=`."""
    match op:
        case "=":
            return Constraint(True, left - right)
        case "<=":
            return Constraint(False, right - left)
        case "<":
            return Constraint(False, (right - left).plus(-1))
        case ">=":
            return Constraint(False, left - right)
        case ">":
            return Constraint(False, (left - right).plus(-1))
    raise InternalError(f"no constraint for {op!r}")


def _extremum(formula: Formula) -> Bin | None:
    """An innermost `min` or `max`."""
    extrema = [n for n in walk(formula) if isinstance(n, Bin) and n.op in ("min", "max")]
    return extrema[-1] if extrema else None


def _set(space: Space, formula: Formula, encode: Encode) -> Any:
    match formula:
        case And(parts):
            result = isl.Set.universe(space.isl)
            for part in parts:
                part_set = _set(space, part, encode)
                result = result.intersect(part_set)
                if result.n_basic_set() > max(limits.PIECES, part_set.n_basic_set()):
                    result = _without_empty(result)
                    if result.n_basic_set() > max(limits.PIECES, part_set.n_basic_set()):
                        raise TooManyPieces
            return result
        case Or(parts):
            result = isl.Set.empty(space.isl)
            for part in parts:
                result = result.union(_set(space, part, encode))
            return result
        case Not(part):
            return _set(space, part, encode).complement()
        case Compare():
            return _comparison_set(space, formula, encode)
        case Exists(bound, body):
            wide = Space((*space.names, *bound))
            body_set = _set(wide, body, encode)
            return body_set.project_out(isl.dim_type.set, len(space.names), len(bound))
        case Forall(bound, body):
            return _set(space, Not(Exists(bound, Not(body))), encode)
    raise InternalError(f"no set for {formula!r}")


def _without_empty(union: Any) -> Any:
    basics: list[Any] = []
    union.foreach_basic_set(basics.append)
    result = isl.Set.empty(union.get_space())
    for basic in basics:
        if not basic.is_empty():
            result = result.union(basic.to_set())
    return result.coalesce()


def _comparison_set(space: Space, formula: Compare, encode: Encode) -> Any:
    extremum = _extremum(formula)
    if extremum is not None:
        a, b = extremum.left, extremum.right
        first, second = (a, b) if extremum.op == "min" else (b, a)
        cases = Or(
            (
                And((Compare("<=", first, second), _replaced(formula, extremum, a))),
                And((Compare(">", first, second), _replaced(formula, extremum, b))),
            )
        )
        return _set(space, cases, encode)
    left, right = affine(formula.left, encode), affine(formula.right, encode)
    if formula.op == "!=":
        less = space.of([comparison("<", left, right)]).basic.to_set()
        return less.union(space.of([comparison(">", left, right)]).basic.to_set())
    return space.of([comparison(formula.op, left, right)]).basic.to_set()


def _replaced(formula: Compare, old: Expr, new: Expr) -> Formula:
    result = rewrite(lambda n: new if n == old else None, formula)
    assert isinstance(result, Compare)
    return result


def product(left: list[Piece], right: list[Piece]) -> list[Piece]:
    """Intersections of every piece with every piece, empty ones dropped."""
    intersections = [a.intersect(b) for a in left for b in right]
    return [p for p in intersections if not p.is_empty()]
