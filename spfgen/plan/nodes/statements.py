"""Statements of steps, and the leaves of nests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from spfgen.facts.formula import Expr, show
from spfgen.facts.reach import RangeStep
from spfgen.layout.nodes import ENTRIES
from spfgen.plan.nodes.base import Block, Inside, Nested, Plan, operands_read, product
from spfgen.plan.text import show_operand, show_value
from spfgen.space.nodes import Asked, Monoid, Operand


@dataclass(frozen=True, slots=True)
class Store(Plan):
    """The value becomes that of a place, converted to its type (`=`); or it is added to what is there (`+=`), or
    combined with it by the `monoid`. In nests of sums of products (Products) it has the arithmetic of products."""

    target: Operand
    value: Any
    op: str = "="
    because: str = ""
    monoid: Monoid | None = None

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep(tuple(e for o in (self.target, *operands_read(self.value)) for e in o.place))

    @property
    def writes(self) -> str:
        return self.target.tensor

    @property
    def label(self) -> str:
        does = "store" if self.op == "=" else "do"
        return f"{does} {show_operand(self.target)} {self.op} {show_value(self.value)}"


@dataclass(frozen=True, slots=True)
class SkipZero(Nested):
    """The body runs unless `value` is zero and all values of the array of `other` are finite: then it would add
    nothing. Whether they are is asked where there are so many `additions` that it takes little beside them."""

    value: Operand
    other: Operand
    additions: Expr
    body: Plan
    because: str = ""

    @property
    def label(self) -> str:
        return f"unless {show_operand(self.value)} = 0 and all of {self.other.tensor} is finite"

    @property
    def meaning(self) -> Plan | None:
        return self.body


@dataclass(frozen=True, slots=True)
class Append(Plan):
    """The tensor gets an entry with this value at these coordinates, in any order; entries at one place add up when the
    tensor is packed. A leaf, as Store is, of a tensor that the program has as a list of entries. With `last` it gets an
    entry for each value of the coordinate number `axis` from the one given to this one. `without_fill`: unless the
    value is the tensor's fill."""

    tensor: str
    coordinates: tuple[Expr, ...]
    value: Any
    because: str = ""
    last: Expr | None = None
    axis: int = 0
    without_fill: bool = False

    @property
    def as_store(self) -> Store:
        """What it means: the value is added at the coordinates of a tensor that is 0 before."""
        target = Operand(self.tensor, self.tensor, ENTRIES, self.coordinates, (), (), self.coordinates, False)
        return Store(target, self.value, "+=", self.because)

    def computed(self) -> Iterator[RangeStep]:
        last = () if self.last is None else (self.last,)
        yield RangeStep((*self.coordinates, *last, *(e for o in operands_read(self.value) for e in o.place)))

    @property
    def writes(self) -> str:
        return self.tensor

    @property
    def label(self) -> str:
        at = [*map(show, self.coordinates)]
        if self.last is not None:
            at[self.axis] += f" to {show(self.last)}"
        unless = " unless that is its fill" if self.without_fill else ""
        return f"append to {self.tensor} at ({', '.join(at)}) {show_value(self.value)}{unless}"


@dataclass(frozen=True, slots=True)
class RowWorkspace(Nested):
    """What the body appends to the tensor has all coordinates but that of `axis` in `common`: it is added up in a
    workspace, and appended once, by rising coordinates along the axis, which are below `extent`."""

    tensor: str
    axis: int
    common: tuple[Expr, ...]
    extent: Expr
    body: Plan
    because: str = ""

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((*self.common, self.extent))

    @property
    def label(self) -> str:
        at = [*map(show, self.common[: self.axis]), "...", *map(show, self.common[self.axis :])]
        return f"gather what is appended to {self.tensor} at ({', '.join(at)})"


@dataclass(frozen=True, slots=True)
class InPlace(Nested):
    """What the body appends to the tensor goes to its place at once: the body runs twice, with room made in between.

    how "groups": the first run counts the entries of each group, whose beginnings the layout stores; from that follow
        the offsets of the groups and the sizes; in the second run each entry is inserted behind those of its group
        that came before. `ordered`: the entries of a group are proved to come in the order of the layout, each once;
        else groups are sorted where need be, and what comes twice is added up.
    "marks": the first run notes which positions of ranks occur, which are sorted and numbered; then each value goes to
        its place. It is proved that no two entries have one place, and that those of a group of positions come one
        after the other.
    "keys": the first run counts entries, the second one writes the key and the value of each, which are sorted where
        need be; what comes twice is added up.

    `apart`: the iterations of a parallel loop have groups of their own; else each part counts for itself."""

    tensor: str
    body: Plan
    ordered: bool = False
    apart: bool = False
    because: str = ""
    how: str = "groups"

    @property
    def label(self) -> str:
        if self.how == "marks":
            return f"note which positions of {self.tensor} occur, number them, store values at their places"
        if self.how == "keys":
            return f"count what is appended to {self.tensor}, then list it by its keys, sort keys that are not in order"
        kept = "in order" if self.ordered else "then sort groups that are not in order"
        return f"count what is appended to {self.tensor}, make offsets, insert it {kept}"

    @property
    def meaning(self) -> Plan | None:
        return self.body


@dataclass(frozen=True, slots=True)
class Products(Nested):
    """The nests of a statement that is a sum of products: they are made and rewritten as if it were all of the kernel,
    and compared with the points of its instances."""

    asked: Asked
    body: Plan
    because: str = ""

    @property
    def label(self) -> str:
        return "sums of products"


@dataclass(frozen=True, slots=True)
class Define(Nested):
    """`dim` is the integer `value` in the body; without one, in the rest of the block."""

    DEEPER = 0

    dim: str
    value: Expr
    body: Any = None
    because: str = ""

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((self.value,), self.dim)

    @property
    def label(self) -> str:
        return f"locate {self.dim} = {show(self.value)}"


@dataclass(frozen=True, slots=True)
class Let(Plan):
    """A scalar variable of an element type, in the rest of the block."""

    name: str
    type: str
    value: Any
    because: str = ""

    @property
    def label(self) -> str:
        return f"let {self.name} : {self.type} = {show_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Assign(Plan):
    """The scalar `name` gets the value."""

    name: str
    type: str
    value: Any

    @property
    def label(self) -> str:
        return f"{self.name} = {show_value(self.value)}"


@dataclass(frozen=True, slots=True)
class If(Plan):
    """`condition` is a value; what is not 0 is true."""

    condition: Any
    then: Plan
    otherwise: Plan | None = None
    because: str = ""

    @property
    def label(self) -> str:
        return f"if {show_value(self.condition)}"

    def shown(self) -> Iterator[Inside]:
        yield Inside(self.then)
        if self.otherwise is not None:
            yield Inside(self.otherwise, "else")


@dataclass(frozen=True, slots=True)
class Repeat(Plan):
    """The body again and again, until it breaks."""

    body: Plan
    because: str = ""

    @property
    def label(self) -> str:
        return "repeat"

    def shown(self) -> Iterator[Inside]:
        yield Inside(self.body)


@dataclass(frozen=True, slots=True)
class Break(Plan):
    """The innermost loop ends."""

    @property
    def label(self) -> str:
        return "break"


@dataclass(frozen=True, slots=True)
class Array(Plan):
    """The values of a tensor that the kernel has for itself, as long as it runs: each of them is `fill` at first."""

    name: str
    type: str
    extents: tuple[Expr, ...]
    fill: Any = None
    because: str = ""

    def computed(self) -> Iterator[RangeStep]:
        yield RangeStep((product(self.extents),))

    @property
    def label(self) -> str:
        filled = "" if self.fill is None else f", filled with {self.fill}"
        return f"array {self.name}[{', '.join(map(show, self.extents))}] : {self.type}{filled}"


@dataclass(frozen=True, slots=True)
class Refuse(Plan):
    """The kernel ends with an error if the scalar is true. `status` is RANGE: a place that is a value lay outside of
    its tensor; or PLACE: something was computed that has no place in its target."""

    name: str
    status: str

    @property
    def writes(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        return f"the call fails if {self.name}"


@dataclass(frozen=True, slots=True)
class Collect(Plan):
    """The entries that the body makes are kept in a hash table, under the name of a tensor: one at each coordinate
    within the extents. With an empty body it begins empty, and entries come and go."""

    name: str
    type: str
    extents: tuple[Expr, ...]
    body: Plan
    because: str = ""

    @property
    def writes(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        keys = "coordinate" if len(self.extents) == 1 else f"{len(self.extents)} coordinates"
        return f"hash table {self.name}, keyed by {keys}"

    def shown(self) -> Iterator[Inside]:
        yield Inside(self.body)


@dataclass(frozen=True, slots=True)
class UpdateEntry(Plan):
    """The entry `at` these coordinates of the table of that name gets a value, which may be made of the one that it
    had, the scalar `old`: `fill` where there was none."""

    name: str
    type: str
    at: tuple[Expr, ...]
    value: Any
    old: str
    fill: Any

    @property
    def writes(self) -> str:
        return self.name

    @property
    def label(self) -> str:
        at = ", ".join(map(show, self.at))
        return f"entry of {self.name} at ({at}): {self.old} becomes {show_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Probe(Plan):
    """`dim` is the entry of a table at these coordinates, or -1, in the rest of the block."""

    dim: str
    name: str
    at: tuple[Expr, ...]

    @property
    def label(self) -> str:
        return f"let {self.dim} be the entry of {self.name} at ({', '.join(map(show, self.at))})"

    @property
    def reason(self) -> str:
        return "it is looked up in a hash table"


STATEMENTS = (
    Block | Define | Let | Assign | Store | If | Repeat | Break | Array | Refuse | Collect | UpdateEntry | Probe
)
"""The statements of steps: what is lowered and carried out beside the nests."""


def goes_on(node: object) -> TypeGuard[Define]:
    """Whether it defines something for the rest of the block."""
    return isinstance(node, Define) and node.body is None
