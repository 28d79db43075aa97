"""A layout: arrays, the relation from positions to coordinates, and the facts that hold of the arrays.

    Layout ::= parameters (logical extents), constants, sizes,
               positions -> coordinates : relation,
               IndexArray*, ValueArray+, fill, Binding*

Names of families are already expanded and constants are numbers: a Layout has one rank and one block size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from spfgen.errors import DataError, Span
from spfgen.facts.formula import (
    ONE,
    TRUE,
    ZERO,
    Call,
    Compare,
    Expr,
    Forall,
    Formula,
    Num,
    Var,
    conjunction,
    conjuncts,
    show,
    within,
)
from spfgen.lang.fills import fill_text, plain_fill
from spfgen.lang.types import INDEX_TYPES, MARK_TYPES
from spfgen.public import Public


def _span() -> Any:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Property:
    """A fact about index arrays, closed by quantifiers; `text` is how the user wrote it."""

    formula: Formula
    text: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class IndexArray:
    """An uninterpreted function with its extents. `ranges` bound single values, `properties` relate several."""

    name: str
    extents: tuple[Expr, ...]
    ranges: tuple[Property, ...] = ()
    properties: tuple[Property, ...] = ()
    span: Span | None = _span()

    @property
    def types(self) -> tuple[str, ...]:
        """The element types that it may have, the usual one first: a mark is a byte."""
        return MARK_TYPES if _is_mark(self.ranges) else INDEX_TYPES


@lru_cache(maxsize=256)
def _is_mark(ranges: tuple[Property, ...]) -> bool:
    """Whether the ranges leave 0 and 1."""
    limits: set[tuple[str, Expr, bool]] = set()
    for formula in (r.formula for r in ranges):
        for part in conjuncts(formula.body if isinstance(formula, Forall) else formula):
            match part:
                case Compare(op, Num() as low, Call()):
                    limits.add((op, low, True))
                case Compare(op, Call(), Num() as high):
                    limits.add((op, high, False))
    return ("<=", ZERO, True) in limits and bool(limits & {("<=", ONE, False), ("<", Num(2), False)})


@dataclass(frozen=True, slots=True)
class ValueArray:
    """Where values lie: `name[extents]`, read at `position`, for the positions that satisfy `when`. What is `implied`
    is no array of the text: it holds a 1, the value of all that a layout without values stores."""

    name: str
    extents: tuple[Expr, ...]
    position: tuple[Expr, ...]
    when: Formula = TRUE
    span: Span | None = _span()
    implied: bool = False


@dataclass(frozen=True, slots=True)
class Binding:
    """How arrays of another library are this layout's: `binds scipy.csr : rowptr = indptr, ...`.

    Each array is (name here, attribute there, component of the attribute or None).
    """

    library: str
    format: str
    arrays: tuple[tuple[str, str, int | None], ...]


@dataclass(frozen=True, slots=True)
class ValueTransform:
    """An alternative of the relation, and what is done to the stored value there: names of operators (lang/ops.py) of
    one argument that undo themselves, `negative` and `conjugate`, the first one first."""

    relation: Formula
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hint:
    """In which order packing numbers a position, where the relation leaves that open: `pack q by -count(i), i`.

    The keys are expressions of coordinates, positions and sizes; `count(e, ...)` is the number of entries that have the
    same values of these expressions, `pattern(e, ...)` a number that two of them share when the other coordinates of
    their entries are the same, `content(e, ...)` one that they share when the values are, too.
    """

    position: str
    keys: tuple[Expr, ...]
    span: Span | None = _span()


HINT_FUNCTIONS = ("count", "pattern", "content")


@dataclass(frozen=True, slots=True, repr=False)
class Layout(Public):
    """A layout, as `tensor.layout` gives it: what its declaration says, with constants as numbers.

    `arrays` are the names of its arrays, `rank` is the number of its coordinates.
    """

    _public = (
        *("name", "rank", "constants", "fill", "doc", "parameters", "sizes", "positions", "coordinates"),
        *("relation", "arrays", "is_pattern"),
    )
    name: str
    parameters: tuple[str, ...]
    constants: tuple[tuple[str, int], ...]
    sizes: tuple[str, ...]
    positions: tuple[str, ...]
    coordinates: tuple[str, ...]
    relation: Formula
    indexes: tuple[IndexArray, ...]
    values: tuple[ValueArray, ...]
    fill: Any = field(default=0, compare=False)
    """The value of what is not stored: a number. `fill_text` stands for it where layouts are compared."""
    bindings: tuple[Binding, ...] = ()
    hints: tuple[Hint, ...] = ()
    doc: str = ""
    span: Span | None = _span()
    value_transforms: tuple[ValueTransform, ...] = ()
    """Where some alternatives say what becomes of the value there: all of them."""
    fill_text: str = field(default="0", init=False)
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)
    _unfilled: Layout | None = field(default=None, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fill", plain_fill(self.fill))
        object.__setattr__(self, "fill_text", fill_text(self.fill))
        if self.value_transforms and self.fill_text not in ("0", "nan"):
            raise DataError(
                f"expected the fill value 0 or nan for layout `{self.name}`, which negates or conjugates "
                f"stored values, but it is {self.fill_text}",
                self.span,
            )

    def __hash__(self) -> int:
        """Found once: much is kept by layout, and each is a tree."""
        if self._hash is None:
            compared = tuple(getattr(self, f.name) for f in fields(self) if f.compare)
            object.__setattr__(self, "_hash", hash(compared))
        assert self._hash is not None
        return self._hash

    def __getstate__(self) -> list[Any]:
        # Texts have other hashes in another process.
        return [None if f.name in ("_hash", "_unfilled") else getattr(self, f.name) for f in fields(self)]

    def __repr__(self) -> str:
        return f"<spfgen layout {self.title}>"

    @property
    def unfilled(self) -> Layout:
        """The layout with fill value 0: what is known of where entries are is found out for that one."""
        if self.fill_text == "0":
            return self
        if self._unfilled is None:
            object.__setattr__(self, "_unfilled", replace(self, fill=0))
        assert self._unfilled is not None
        return self._unfilled

    def refilled(self, fill: Any) -> Layout:
        """The layout with that fill value."""
        layout = replace(self, fill=fill)
        object.__setattr__(layout, "_unfilled", self.unfilled)
        return layout

    @property
    def structure(self) -> str:
        """All of it as text, for the names of what is kept on the disk: another layout has another."""
        return ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)

    @property
    def title(self) -> str:
        """The name with the constants and the fill value: `name(R=3, C=2) fill inf`."""
        constants = ", ".join(f"{n}={v}" for n, v in self.constants)
        fill = "" if self.fill_text == "0" else f" fill {self.fill_text}"
        return f"{self.name}({constants}){fill}" if constants else f"{self.name}{fill}"

    @property
    def rank(self) -> int:
        return len(self.parameters)

    @property
    def written(self) -> dict[str, str]:
        """Each coordinate as the text writes it: where that is a position or an expression, it has no name there."""
        text = "" if self.span is None else self.span.text
        images = {
            part.left.name: show(part.right)
            for part in conjuncts(self.relation)
            if isinstance(part, Compare) and part.op == "=" and isinstance(part.left, Var)
        }
        named = {c for c in self.coordinates if re.search(rf"\b{c}\b", text)}
        return {c: c if c in named else images.get(c, c) for c in self.coordinates}

    @property
    def is_pattern(self) -> bool:
        """Whether it stores no values: what it stores is 1 (True)."""
        return any(v.implied for v in self.values)

    @property
    def alternatives(self) -> tuple[ValueTransform, ...]:
        """The relation in parts that do the same with all values."""
        return self.value_transforms or (ValueTransform(self.relation),)

    @property
    def facts(self) -> tuple[Property, ...]:
        """All that is declared of the index arrays."""
        return tuple(p for a in self.indexes for p in (*a.ranges, *a.properties))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The names of all arrays, index arrays first."""
        return (*(a.name for a in self.indexes), *(v.name for v in self.values))

    def extents(self, array: str) -> tuple[Expr, ...]:
        """The declared extents of an index or value array."""
        extents: dict[str, tuple[Expr, ...]] = {a.name: a.extents for a in self.indexes}
        extents |= {v.name: v.extents for v in self.values}
        return extents[array]

    def hint(self, position: str) -> Hint | None:
        return next((h for h in self.hints if h.position == position), None)

    def index(self, name: str) -> IndexArray:
        return next(a for a in self.indexes if a.name == name)


SCALAR = Layout("scalar", (), (), (), (), (), TRUE, (), (ValueArray("val", (), ()),), doc="A single number.")
"""The layout of a tensor of rank 0 that was not declared."""


@lru_cache
def everywhere(rank: int) -> Layout:
    """One value for all coordinates: of what is computed, where it may be."""
    ks = range(1, rank + 1)
    parts = [within(Var(f"at_{k}"), ZERO, Var(f"extent_{k}")) for k in ks]
    parts += [Compare("=", Var(f"c_{k}"), Var(f"at_{k}")) for k in ks]
    return Layout(
        "everywhere",
        tuple(f"extent_{k}" for k in ks),
        (),
        (),
        tuple(f"at_{k}" for k in ks),
        tuple(f"c_{k}" for k in ks),
        conjunction(parts),
        (),
        (ValueArray("one", (ONE,), (ZERO,)),),
    )


ENTRIES = "entry"
"""The values of a list of entries."""


@lru_cache(maxsize=1024)
def as_entries(layout: Layout) -> Layout:
    """What a kernel delivers for a result whose pattern is computed, in place of the result's layout: a value at each
    coordinate within the extents, for which there is a place only when it comes."""
    coordinates, extents = tuple(map(Var, layout.coordinates)), tuple(map(Var, layout.parameters))
    at = tuple(Var(f"at_{k}") for k in range(1, layout.rank + 1))
    parts = [within(a, ZERO, e) for a, e in zip(at, extents, strict=True)]
    parts += [Compare("=", c, a) for c, a in zip(coordinates, at, strict=True)]
    return Layout(
        f"{layout.name}_appended",
        layout.parameters,
        (),
        (),
        tuple(a.name for a in at),
        layout.coordinates,
        conjunction(parts),
        (),
        (ValueArray(ENTRIES, extents, at),),
        layout.fill,
    )


@lru_cache
def coordinate_list(rank: int) -> Layout:
    """Coordinates and values side by side, in any order, nothing known of them: what is packed."""
    ks = range(1, rank + 1)
    count, at = Var("n_entries"), Var("entry")
    parts: list[Formula] = [within(at, ZERO, count)]
    parts += [Compare("=", Var(f"c_{k}"), Call(f"column_{k}", (at,))) for k in ks]
    return Layout(
        "coordinates",
        tuple(f"extent_{k}" for k in ks),
        (),
        ("n_entries",),
        ("entry",),
        tuple(f"c_{k}" for k in ks),
        conjunction(parts),
        tuple(IndexArray(f"column_{k}", (count,)) for k in ks),
        (ValueArray("entry_value", (count,), (at,)),),
    )


def numbered_list(rank: int) -> Layout:
    """`coordinate_list` with the number of an entry as its first coordinate: each is there once."""
    plain = coordinate_list(rank)
    relation = conjunction([plain.relation, Compare("=", Var("c_0"), Var("entry"))])
    parameters, coordinates = ("n_entries", *plain.parameters), ("c_0", *plain.coordinates)
    return replace(plain, name="numbered", parameters=parameters, sizes=(), coordinates=coordinates, relation=relation)
