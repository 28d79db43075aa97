"""What the parts of the lowering share: the state of writing a kernel's function, and what they ask each other for.

from_plan.py gives each node of a plan to the part that knows its C; the parts ask for the C of what is inside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from spfgen.cir.lower.layout import field_name, structs
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.values import ValueLowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import operators
from spfgen.cir.tree.build import INT, joined
from spfgen.cir.tree.elements import zero
from spfgen.cir.tree.functions import Functions
from spfgen.cir.tree.names import Names
from spfgen.ir import walk
from spfgen.lang.types import ElementType
from spfgen.plan.nodes import (
    PLANS,
    Array,
    BoundSearch,
    Collect,
    Define,
    Find,
    FindTable,
    InPlace,
    Let,
    LevelLoop,
    Load,
    Plan,
    Probe,
    Reach,
    RegisterTile,
    Scan,
    SearchState,
    Segment,
    UpdateEntry,
    is_tile,
)
from spfgen.space.local_tensors import COUNT
from spfgen.space.nodes import Monoid, Program


class Lowering(ValueLowering, ABC):
    """The state of writing a kernel's function."""

    def __init__(self, program: Program, plans: Sequence[Plan]) -> None:
        dims = dict.fromkeys(program.sizes.readings)
        for plan in plans:
            dims |= dict.fromkeys(_dims(plan))
        super().__init__(program, Names(program, dims))
        self.plans = plans
        self.steps = True
        """Whether what is written has steps: their values say in which types they are made."""
        self.workspaces: list[WorkspaceArray] = []
        self.choices: list[c.Stmt] = []
        self.functions = Functions(self.names.new)
        self.tables: dict[str, str] = {}
        """The hash tables of entries by the tensors that they are."""
        self.table_lines: list[c.Stmt] = []
        self.frees: list[c.Stmt] = []
        self.missing_memory = ""
        self.refused: dict[str, str] = {}
        """The variables that say whether the call fails, with the error."""
        self.structs = structs(program)
        self.ordered: list[LevelLoop] = []
        self.orders = self.names.new("levels")
        computed = [t.name for t in program.tensors if t.assembled is not None]
        placed = dict.fromkeys(n.tensor for p in plans for n in walk(p, PLANS) if isinstance(n, InPlace))
        self.rooms = {
            name: (self.names.new(f"{program.name}_{name}_room"), self.names.new(f"{program.name}_{name}_gathered"))
            for name in placed
        }
        """The functions that make room for entries that go to their place at once, and that bring buckets in order."""
        self.statuses: list[c.Name] = []
        """The variables that say how that went."""
        self.rows: list[WorkspaceArray] = []
        """The workspaces of rows."""
        self.released: list[c.Stmt] = []
        """What gives back what other workspaces hold."""
        self.entries = {name: c.Name(self.names.new(f"{name}_appended")) for name in computed}

    def without_memory(self) -> str:
        """The variable that says whether memory was missing on the way."""
        self.missing_memory = self.missing_memory or self.names.new("no_memory")
        return self.missing_memory

    def extent(self, size: str) -> c.Expr:
        if size in self.program.sizes.fixed:
            return c.Int(self.program.sizes.fixed[size])
        places = self.program.sizes.readings[size]
        return self.size_field(*places[0]) if places else c.Name(self.names[size])

    def size_field(self, tensor: str, name: str) -> c.Expr:
        return c.Field(c.Name(self.names.tensors[tensor]), field_name(name))

    def chosen(self, kind: str, name: str, value: c.Expr, why: str) -> c.Name:
        """What is found out once, before memory is taken."""
        for known in self.choices:
            if isinstance(known, c.Declare) and (known.type, known.value) == (kind, value):
                return c.Name(known.name)
        constant = c.Name(self.names.new(name))
        self.choices += [c.Comment(why), c.Declare(kind, constant.name, value)]
        return constant

    def values_held(self) -> c.Expr:
        """How many values all tensors hold: a measure of the work that needs no knowledge of the loops."""
        total: c.Expr = c.Int(0)
        for tensor in (t for t in self.program.tensors if t.assembled is None):
            for value in tensor.layout.values:
                if value.extents:
                    count = joined("*", [self.layout_expr(e, tensor.name) for e in value.extents])
                    total = count if total == c.Int(0) else c.Bin("+", total, count)
        return total

    def nothing(self, kind: ElementType, monoid: Monoid | None) -> c.Expr:
        """What a total of a type begins with."""
        return zero(kind) if monoid is None else operators.literal(monoid.neutral, kind)

    def declare(self, dim: str, value: c.Expr) -> c.Stmt:
        return c.Declare(f"const {INT}", self.names[dim], value)

    # --- what from_plan.py knows -----------------------------------------------------------------

    @abstractmethod
    def plan(self, plan: Plan, scope: Scope) -> list[c.Stmt]:
        """A part of a plan."""

    @abstractmethod
    def nests(self, plan: Plan) -> list[c.Stmt]:
        """The nests of a statement."""

    @abstractmethod
    def clear(self, tensor_name: str, shared: bool = True) -> list[c.Stmt]:
        """Every value of the array becomes zero; `shared` by threads: those that clear touch the memory first."""

    @abstractmethod
    def loop(self, plan: Scan | Find, scope: Scope, body: list[c.Stmt], private: str = "") -> c.For:
        """The loop over a dimension, with this body."""

    @abstractmethod
    def started(self, scope: Scope) -> tuple[list[c.Stmt], Scope]:
        """The states that this parallel loop carries, one for each thread, which runs its iterations in order."""

    @abstractmethod
    def added(self, total: Accumulator, op: str, term: c.Expr, kind: ElementType) -> c.Stmt:
        """A value of a type that comes to a total, or is stored there (`=`)."""

    @abstractmethod
    def together(self, first: c.Expr, second: c.Expr, monoid: Monoid | None) -> c.Expr:
        """Two totals as one."""


def _dims(plan: Plan) -> list[str]:
    """All dimensions of a plan in the order of their definition."""
    result = []
    for node in walk(plan, PLANS):
        if isinstance(node, Scan | Find | Define | Load | FindTable | Reach | LevelLoop):  # a find may have another
            result.append(node.dim)
        if isinstance(node, Find):
            result += [d for d, _ in node.loads]
        if isinstance(node, Segment):
            result += [node.start, node.end]
        if isinstance(node, SearchState | BoundSearch | Let | Array):
            result.append(node.name)
        if isinstance(node, Probe):
            result.append(node.dim)
        if isinstance(node, Collect):
            result.append(f"{node.name}.{COUNT}")
        if isinstance(node, UpdateEntry):
            result.append(node.old)
        if is_tile(node) and isinstance(node.storage, RegisterTile):
            result += [node.storage.start, node.storage.end]
    return result
