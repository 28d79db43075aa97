"""What is known of a kernel while its steps are planned: tensors, sizes, names, types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import ONE, ZERO, Bin, Compare, Expr, Formula, Num, Var, conjuncts, variables, within
from spfgen.ir import fresh, walk
from spfgen.lang import nodes as lang
from spfgen.lang.typing import Kind, scalar_types
from spfgen.layout.nodes import SCALAR
from spfgen.plan.analyse.cost import CountedSize
from spfgen.plan.context import Context
from spfgen.plan.nodes import Array, Define, Plan
from spfgen.plan.steps.env import POINT, Env
from spfgen.sets.affine import NotAffine
from spfgen.sets.uf import linear
from spfgen.space.local_tensors import COUNT, own_tensor
from spfgen.space.nodes import Program, Read, Steps, Tensor, extent_value
from spfgen.space.regions import Regions, is_everywhere
from spfgen.space.steps import Equation, Gathered, Linked
from spfgen.space.typed import Types


class PlannerState:
    """What is known of a kernel while its steps are planned: tensors, sizes, names, types."""

    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        self.steps = steps
        self.program = program
        self.context = context
        self.tensors = {t.name: t for t in (*program.tensors, *program.temporaries)}
        self.point = Tensor(POINT, SCALAR, "float64", (), (), (), (), False, False)
        self.labels: set[str] = set()
        self.names: set[str] = {*steps.extents, *(t.name for t in program.every_tensor)}
        self.before: list[Plan] = []
        self.extents: dict[str, Expr] = {}
        self.scalars: dict[str, Kind] = {}
        self.called: dict[str, str] = {}
        self.constants: set[str] = set()
        """Scalars that hold a reduction that was made once, before the loops of a value that speaks of it."""
        self.inlined: dict[str, Any] = {}
        self.indices: set[str] = {*steps.extents, *steps.free}
        """All names of indices, those that are values among them."""
        self.refuses = False
        self.loses = False
        self.sizes: dict[str, Expr] = {}
        for name, extent in steps.computed.items():
            self.names.add(name)
            self.before.append(Define(name, extent))
            self.sizes[name] = extent
        for index, extent in steps.extents.items():
            self.extents[index] = self.size(index, extent)
        self.tables: dict[str, str] = {}
        """The tables of entries, by the tensors whose entries they hold."""
        self.kinds = dict(context.types)
        self.written = {n.target for s in steps.body for n in walk(s) if isinstance(n, Equation)}
        for tensor in (t for t in program.temporaries if not t.layout.indexes):
            self.own(tensor.name, tensor.value_type, tensor.layout.fill, tensor.extents)
        scalar_types(steps.body, self.types.leaf, self.scalars)

    def own(self, name: str, kind: str, fill: Any, extents: Sequence[str]) -> None:
        """Memory of the kernel's for a tensor."""
        self.tensors[name] = own_tensor(name, kind, extents)
        self.kinds[name] = kind
        self.labels.add(name)
        whole = tuple(self.sizes.get(e, Var(e)) for e in extents)
        self.before.append(Array(name, kind, whole, fill))

    def size(self, index: str, extent: Expr) -> Expr:
        """An extent as a name or a number: what is computed of others is so once."""
        if isinstance(extent, Var | Num):
            return extent
        name = self.fresh(f"{index}_extent")
        self.before.append(Define(name, extent))
        self.sizes[name] = extent
        return Var(name)

    def extent_name(self, index: str) -> str:
        """The extent of an index as the name of a size."""
        extent = self.extents[index]
        if isinstance(extent, Var):
            return extent.name
        name = self.fresh(f"{index}_extent")
        self.before.append(Define(name, extent))
        self.sizes[name] = extent
        return name

    def kept(self) -> Callable[[], None]:
        """What is known now; the result makes it so again, whatever was planned meanwhile."""
        labels, before, tables = set(self.labels), [*self.before], dict(self.tables)
        tensors, kinds = dict(self.tensors), dict(self.kinds)

        def restore() -> None:
            self.labels, self.before, self.tables = set(labels), [*before], dict(tables)
            self.tensors, self.kinds = dict(tensors), dict(kinds)

        return restore

    def fresh(self, wanted: str) -> str:
        name = fresh(wanted, self.names)
        self.names.add(name)
        return name

    @property
    def nest_context(self) -> Context:
        """The context of a nest: it may read tables."""
        counts = {f"{t}.{COUNT}": CountedSize(self.tensors[t].extents) for t in self.tables.values()}
        return replace(self.context, stored={**self.context.stored, **counts})

    def settled(self, env: Env) -> Env:
        """Without what was read of tensors that steps write."""
        kept = {k: v for k, v in env.values.items() if k[0].rstrip("?") not in self.written or isinstance(v, Read)}
        return replace(env, values=kept)

    @property
    def types(self) -> Types:
        return Types(self.kinds, self.scalars)

    @property
    def regions(self) -> Regions:
        layouts = {n: t.layout for n, t in self.tensors.items()}
        return Regions(layouts, self.dense, self.types, self.inlined)

    @property
    def dense(self) -> frozenset[str]:
        """The tensors that have a value of its own everywhere."""
        return frozenset(n for n, t in self.tensors.items() if is_everywhere(t))

    def indices_for(self, tensor: Tensor) -> tuple[str, ...]:
        """New indices over all of a tensor."""
        result = []
        for extent in tensor.extents:
            index = self.fresh("q")
            self.extents[index] = extent_value(extent, self.program.sizes.fixed)
            self.indices.add(index)
            result.append(index)
        return tuple(result)

    def indices_in(self, access: lang.Access) -> set[str]:
        return {v for s in access.subscripts for v in variables(s) if v in self.indices}

    def indices_of(self, condition: Formula) -> set[str]:
        return {v for v in variables(condition) if v in self.indices}

    def free(self, value: Any) -> set[str]:
        """The indices of a value that nothing within it binds."""
        names = {n.name for n in walk(value) if isinstance(n, Var) and n.name in self.indices}
        names |= {m for n in walk(value) if isinstance(n, Linked) for m in n.link.names}
        bound = {i for n in walk(value) if isinstance(n, lang.Reduce) for i in n.indices}
        bound |= {i for n in walk(value) if isinstance(n, Linked) for i in n.link.inner}
        bound |= {n.name for n in walk(value) if isinstance(n, Gathered)}
        return names - bound

    def whole(self, indices: Sequence[str]) -> Expr:
        result: Expr = ONE
        for index in indices:
            result = self.extents[index] if result == ONE else Bin("*", result, self.extents[index])
        return result

    def inside(self, access: lang.Access) -> list[Formula]:
        """That an access lies within its tensor, where that is a question."""
        conditions: list[Formula] = []
        for subscript, extent in zip(access.subscripts, self.tensors[access.tensor].extents, strict=True):
            size = extent_value(extent, self.program.sizes.fixed)
            if isinstance(subscript, Var) and self.extents.get(subscript.name) == size:
                continue
            conditions += conjuncts(within(subscript, ZERO, size))
        return conditions

    def is_affine(self, condition: Formula) -> bool:
        try:
            for node in walk(condition):
                if isinstance(node, Compare):
                    linear(node.left), linear(node.right)
        except NotAffine:
            return False
        return True
