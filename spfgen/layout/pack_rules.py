"""The nodes of a plan of packing: rules that give entries positions, and arrays elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spfgen.errors import Unsupported
from spfgen.facts.formula import Expr
from spfgen.layout.points import Encoded
from spfgen.sets.affine import Affine
from spfgen.sets.named import Case, Constraint
from spfgen.sets.uf import shifted


@dataclass(frozen=True)
class Computed:
    """The position is floor(numerator / divisor)."""

    position: str
    numerator: Affine
    divisor: int


@dataclass(frozen=True)
class Rank:
    """How positions are counted, or what an array holds, by its `kind`:

    "pointer"   positions lie in [f(e), f(e + 1)), `begin` is f(e);
    "ends"      in [begin, other);
    "counts"    in [begin, begin + other);
    "slots"     they are counted in each group, up to `highs`, or up to what an array says that is made later;
    "padded"    in [f(e), f(e + 1)), counted from f(e) in each group of the keys' other arguments: f(e + 1) - f(e) is
                the most that a group with these e has;
    "covered"   in [f(q), f(q + 1)), `begin` is f(q): runs, and what lies between runs is one, too;
    "chunk"     they are counted up to the end of `highs` in each group, and then again: the column "rounds of" the
                position says how often it began again.

    Without a position:

    "write"     the array is written at places that are known;
    "most", "least"  the same, with the largest or the smallest of the values;
    "room"      the value is what f(e + 1) - f(e) must be at least;
    "start"     position `run` counts from the elements: they leave room for the values, what is added;
    "digits"    the value has digits, some of which an entry says;
    "places"    only places of values speak of the `array`: an element leaves room for what counts from it;
    "given"     only facts speak of the `array`.
    """

    position: str
    keys: tuple[str, ...]
    """What is numbered, by the names of calls."""
    kind: str
    begin: str = ""
    """The call that says where positions begin."""
    other: str = ""
    """The call that says where they end, or how many there are."""
    low: int = 0
    """The first position there is; those of "pointer", "ends", "counts" and "padded" lie in [f(e) - base, ...)."""
    base: int = 0
    """What the array begins with: 1 in Fortran."""
    past: int = 0
    """Positions of "ends" lie before other - past."""
    highs: tuple[tuple[int, Affine], ...] = ()
    """Pairs (a, e): a*position <= e."""
    groups: tuple[Affine, ...] | None = None
    """The values that say the group of "slots", where they are not the keys' other arguments; for "places" the
    arguments of the call."""
    later: bool = False
    """The arrays of the keys are written once their places are known."""
    run: str = ""
    """Positions are runs of neighbouring values of that name, not of calls. Where several values lie in one run (blocks
    on the diagonal), the runs are the smallest that hold them."""
    same: bool = False
    """The stored values of a run are equal."""
    hint: tuple[Expr, ...] = ()
    """What counts before the keys (a `pack` clause)."""
    array: str = ""
    least: tuple[Affine, ...] = ()
    """Sizes that the first position is not below either (values behind a diagonal)."""
    extra: tuple[str, ...] = ()
    """Columns that are keys, too, behind the calls."""
    places: tuple[int, ...] = ()
    """What the digits count; the values are the digits, or UNSAID."""
    rests: tuple[int, ...] = ()
    """The digits that no entry says."""
    within: tuple[Affine, ...] | None = None
    """What is counted, or a run, begins anew where these change."""
    ended: bool = False
    """An array that is made later says up to where there are positions: those behind need no key."""


UNSAID = (Affine((), -1), 1)
"""The value of a digit that an alternative does not speak of."""


@dataclass(frozen=True)
class Ranked:
    """A rank and, for one piece of the relation, the values floor(numerator / divisor) of its keys."""

    rank: Rank
    values: tuple[tuple[Affine, int], ...]


@dataclass(frozen=True)
class Solved:
    """A column of that name is `value`, which may speak of the `digits`: in turn, each is what its case that holds
    says. Entries for which a digit has no case have no place."""

    name: str
    digits: tuple[tuple[str, tuple[Case, ...]], ...]
    value: Affine


@dataclass(frozen=True)
class Widened:
    """The size is the least one that is not below floor(numerator / divisor) of any entry: how far a band reaches."""

    size: str
    least: tuple[tuple[Affine, int], ...]


Rule = Computed | Ranked | Solved | Widened
Rules = tuple[Rule | None, ...]
"""One for each piece; None where a piece does not speak of the array."""


@dataclass(frozen=True)
class PackPlan:
    """`steps`: what to do in turn, one rule for each piece. `belongs`: the entries of each piece. `otherwise`:
    why there is no plan without choices of packing's own."""

    encoded: Encoded
    belongs: tuple[tuple[Constraint, ...], ...]
    steps: tuple[Rules, ...]
    sentinels: Mapping[str, Affine]
    injective: bool
    otherwise: Unsupported | None = None

    @property
    def ranks(self) -> list[Rank]:
        """All different ranks, in the order in which they are made."""
        return list(dict.fromkeys(r.rank for s in self.steps for r in s if isinstance(r, Ranked)))

    @property
    def is_plain(self) -> bool:
        """Whether all ranks count keys that are written at once, in an order of the keys themselves."""
        kinds = ("pointer", "ends", "counts", "slots", "write")
        if any(isinstance(r, Solved | Widened) for s in self.steps for r in s):
            return False
        return not any(
            r.kind not in kinds
            or r.later
            or r.run
            or r.hint
            or r.base
            or r.past
            or r.least
            or r.extra
            or self._shifted(r)
            for r in self.ranks
        )

    @property
    def is_free(self) -> bool:
        """Whether it chooses what the relation leaves open."""
        return any(r.kind in ("start", "digits", "chunk", "places") for r in self.ranks)

    def _shifted(self, rank: Rank) -> bool:
        """Whether the keys are not at the positions themselves."""
        places = [a for k in rank.keys if k in self.encoded.calls for a in self.encoded.calls[k].arguments]
        return any(shift(a, rank.position) for a in places)


def needs(rule: Rule) -> set[str]:
    """What the values of a rule are made of."""
    match rule:
        case Computed(_, numerator, _):
            return numerator.names()
        case Ranked(_, values):
            return {n for numerator, _ in values for n in numerator.names()}
        case Widened(_, least):
            return {n for numerator, _ in least for n in numerator.names()}
        case Solved(_, digits, _):
            return {n for _, cases in digits for case in cases for n in case.numerator.names()}


@dataclass(frozen=True)
class KeyOrder:
    """In which order keys count, the foremost first: (number of the key, or a sum of keys by their functions; whether
    it runs down). `rest`: which of the ways to fill places that no entry has. `hint`: what counts before the keys, as
    in a `pack` clause, where the layout has none. `few`: only entries that fit speak for it."""

    keys: tuple[tuple[int | Affine, bool], ...]
    empty_first: bool = False
    rest: int = 0
    hint: tuple[Expr, ...] = ()
    few: bool = False

    @property
    def is_chosen(self) -> bool:
        """Whether it was found by trying, and samples alone speak for it."""
        return bool(self.rest or self.hint or self.few or not all(isinstance(k, int) for k, _ in self.keys))


def functions_of(encoded: Encoded, rank: Rank) -> list[str]:
    """The arrays that a rank makes."""
    if rank.array:
        return [rank.array]
    if rank.kind == "room":
        return [encoded.calls[rank.begin].function]
    keys = () if rank.later else rank.keys
    return [encoded.calls[n].function for n in (*keys, rank.begin, rank.other) if n]


def shift(argument: Expr, position: str) -> int | None:
    """How far behind the position the argument is, if it is so far behind each."""
    name, further = shifted(argument)
    return further if name == position else None
