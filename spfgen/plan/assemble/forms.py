"""What tells where an entry of a result belongs, so that it can go there at once (in_place.py)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spfgen.facts.formula import Expr, Var, variables
from spfgen.layout.keys import KeyField, KeyPlan
from spfgen.plan.assemble.by_key import KeyAssembly, assembly_by_key
from spfgen.plan.nodes import InPlace
from spfgen.space.nodes import Tensor


@dataclass(frozen=True)
class Groups:
    """A layout with one rank of positions in groups: the key of each entry; the number of its group, as the place in an
    array with these extents; whether groups can be sorted, each with its values, and entries at one place added up."""

    key: KeyAssembly
    arguments: tuple[Expr, ...]
    extents: tuple[Expr, ...]
    sortable: bool
    how = "groups"
    may_be_wide = False

    @property
    def in_slots(self) -> bool:
        """Whether the positions of each group are numbered from 0."""
        (level,) = self.key.key.levels
        return level.rank.kind == "slots" and level.group > 0

    @property
    def group(self) -> int:
        """How many digits of the key are the group."""
        return self.key.key.levels[0].group


@dataclass(frozen=True)
class Keys:
    """A layout whose ranks are those of one key, which is a word."""

    key: KeyAssembly
    how = "keys"

    @property
    def fields(self) -> tuple[KeyField, ...]:
        """The digits of a word."""
        return self.key.key.fields

    @property
    def may_be_wide(self) -> bool:
        """Whether words may not fit in 64 bits."""
        return self.key.may_be_wide


@dataclass(frozen=True)
class Marks:
    """A layout whose last rank has places for several entries at each position: blocks, diagonals. The word of an entry
    has the digits of ranks only; its place follows from the position and from its coordinates."""

    key: KeyAssembly
    how = "marks"

    @property
    def fields(self) -> tuple[KeyField, ...]:
        """The digits of a word."""
        return self.key.key.fields[: self.key.key.levels[-1].end]

    @property
    def may_be_wide(self) -> bool:
        """Whether words may not fit in 64 bits."""
        return self.key.may_be_wide_with(self.fields)

    @property
    def group(self) -> int:
        """How many digits of the key are the group of the last rank."""
        return self.key.key.levels[-1].group


Form = Groups | Keys | Marks


def forms_of(tensor: Tensor) -> list[Form]:
    """The forms of a result, the one that is the least work first; none where it has no key."""
    assembly = assembly_by_key(tensor)
    if not isinstance(assembly, KeyAssembly) or tensor.entry_type != tensor.value_type:
        return []
    group, forms = number_of_group(assembly.key), list[Form]()
    if group is not None:
        forms.append(Groups(assembly, *group, is_sortable(assembly.key)))
    if _has_marks(assembly.key):
        forms.append(Marks(assembly))
    return [*forms, Keys(assembly)]


def form_of(tensor: Tensor, how: str) -> Form | None:
    """The form of that name, if the result has it."""
    return next((f for f in forms_of(tensor) if f.how == how), None)


def number_of_group(key: KeyPlan) -> tuple[tuple[Expr, ...], tuple[Expr, ...]] | None:
    """The number of the group of the only rank, as a place in an array with these extents, which are known; None where
    the layout has more than that."""
    layout = key.plan.encoded.layout
    if len(key.levels) != 1 or key.pads or key.checks or key.after:
        return None
    (level,), calls = key.levels, key.plan.encoded.calls
    rank, position = level.rank, (Var(level.rank.position),)
    if rank.kind not in ("pointer", "slots") or rank.low or rank.other or not (rank.begin or rank.keys):
        return None
    if rank.kind != "slots" and any(calls[k].arguments != position for k in rank.keys):
        return None
    call = calls[rank.begin or rank.keys[0]]
    pairs = zip(call.arguments, layout.index(call.function).extents, strict=True)
    kept = [(a, e) for a, e in pairs if a != Var(rank.position)]
    if any(not variables(e) <= {*layout.parameters} for _, e in kept):
        return None
    return tuple(a for a, _ in kept), tuple(e for _, e in kept)


def is_sortable(key: KeyPlan) -> bool:
    """Whether each group has one key, which rises, with a value at the same place, in arrays that are no longer than
    there are entries."""
    layout, (level,), calls = key.plan.encoded.layout, key.levels, key.plan.encoded.calls
    position, (value,), sizes = (Var(level.rank.position),), layout.values, layout.sizes
    if level.rank.kind != "pointer" or level.end != level.group + 1 or key.fields[level.group].down or len(sizes) != 1:
        return False
    extents = [*(layout.index(calls[k].function).extents for k in level.rank.keys), value.extents]
    alone = len(layout.indexes) == 1 + len(level.rank.keys) and value.position == position
    return alone and all(e == (Var(sizes[0]),) for e in extents)


def _has_marks(key: KeyPlan) -> bool:
    """Whether the place of a value follows from the last rank alone, numbered through, and from coordinates."""
    if not key.levels or not key.pads:
        return False
    layout, level = key.plan.encoded.layout, key.levels[-1]
    if level.rank.kind == "slots" and level.group:
        return False
    known = {level.rank.position, *layout.coordinates, *layout.parameters, *layout.sizes}
    known |= {rule.position for rule in key.computed}
    return all(variables(p) <= known for v in layout.values for p in v.position)


@dataclass(frozen=True)
class PlacedAssembly:
    """How the arrays of a result are made of entries that go to their place at once."""

    key: KeyAssembly
    plan: InPlace

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is done, in words, each with the reason."""
        match self.plan.how:
            case "groups":
                yield from self._groups()
            case "marks":
                yield "note which positions occur", self.plan.because
                yield from self.key.ranks()
                yield f"insert {self._value}", "each at the place that its position and its coordinates say"
            case _:
                yield "count the entries, then list them by their keys", self.plan.because
                yield from self.key.sorting()
                yield from self.key.ranks()
                yield f"insert {self._value}", "the values"

    @property
    def _value(self) -> str:
        return self.key.key.plan.encoded.layout.values[0].name

    def _groups(self) -> Iterator[tuple[str, str]]:
        (level,), calls = self.key.key.levels, self.key.key.plan.encoded.calls
        group = ", ".join(f.name for f in self.key.key.fields[: level.group])
        yield f"count the entries of each ({group})" if group else "count the entries", self.plan.because
        if level.rank.begin:
            why = "where the positions of a group begin: the sum of the counts before it"
            yield f"offsets {calls[level.rank.begin].function}", why
        for name in (*(calls[k].function for k in level.rank.keys), self._value):
            yield f"insert {name}", "at the next offset of its group"
        if not self.plan.ordered:
            yield f"sort each ({group})", "where it is not in order; entries at one place add up"


def counter_of(tensor: Tensor, plan: InPlace) -> str:
    """The type in which entries are counted: narrow where no group has more than there are coordinates of that type."""
    return "int32" if plan.ordered and {k for _, k in tensor.final_types} == {"int32"} else "int64"
