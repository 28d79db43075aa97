"""Hash tables of entries: of tensors that store a coordinate several times, or in no order; of results."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Expr, Var, variables
from spfgen.ir import rewrite, walk
from spfgen.lang import nodes as lang
from spfgen.lang.types import TYPES
from spfgen.layout.proofs import stored_once
from spfgen.plan.context import Context
from spfgen.plan.nodes import Block, Collect, Find, Plan, Scan, Segment, UpdateEntry
from spfgen.plan.steps.env import Env, accesses_of, key_of, number_of
from spfgen.plan.steps.nests import NestPlanner
from spfgen.space.local_tensors import entries_of
from spfgen.space.nodes import Program, Steps, Tensor, size_values
from spfgen.space.steps import Equation
from spfgen.space.typed import Scalar


class Tables(NestPlanner):
    """Hash tables of entries: of tensors that store a coordinate several times, or in no order; of results."""

    def __init__(self, steps: Steps, program: Program, context: Context) -> None:
        super().__init__(steps, program, context)
        self.assembled = {t.name for t in program.tensors if t.assembled is not None}
        """Results whose pattern is computed."""
        self.collected: dict[str, str] = {}
        """Those of them whose entries are kept in a table until all are there, and sparse tensors that the kernel has
        for itself; and the names of the tables."""
        self.steps = replace(steps, body=tuple(s if s in steps.sums else self.once(s) for s in steps.body))
        self.sums: set[Equation] = set()
        """The equations that have nests of sums of products."""
        self.rewritten: set[str] = set()
        """Tensors kept in tables of which an equation writes places that another one has written."""
        for name in sorted(self.assembled):
            self.collect(name)
        for tensor in program.temporaries:
            if tensor.layout.indexes:
                self.keep(tensor.name)
        self.entries = self.assembled | self.collected.keys()
        """Tensors that are written as entries: only those that are not their fill."""
        self.steps = replace(self.steps, body=tuple(self.from_tables(s) for s in self.steps.body))
        lets = [n for s in self.steps.body for n in walk(s) if isinstance(n, lang.Let)]
        changed = {n.name for s in self.steps.body for n in walk(s) if isinstance(n, lang.Set)}
        names = [n.name for n in lets]
        self.inlined.update({n.name: n.value for n in lets if names.count(n.name) == 1 and n.name not in changed})

    def collect(self, name: str) -> None:
        """A result that more than one equation writes, or one in a loop, or that is read, is kept in a table."""
        writers = [n for s in self.steps.body for n in walk(s) if isinstance(n, Equation) and n.target == name]
        alone = len(writers) == 1 and writers[0] in self.steps.body and writers[0].updates is None and not writers[0].at
        if not alone or any(a.tensor == name for s in self.steps.body for a in accesses_of(s)):
            self.keep(name)

    def keep(self, name: str) -> None:
        """The entries of a tensor are kept in a table."""
        table = self.collected[name] = self.fresh(f"{name}_kept")
        tensor = self.tensors[name]
        self.tensors[table] = entries_of(table, tensor)
        self.kinds[table] = tensor.value_type
        self.labels.add(table)
        self.tables[table] = table
        self.written.add(table)
        why = f"the entries of {name}"
        self.before.append(Collect(table, tensor.value_type, self.extents_of(tensor), Block(()), why))

    def extents_of(self, tensor: Tensor) -> tuple[Expr, ...]:
        """As sizes, numbers or what the kernel computes of sizes."""
        values, names = (
            size_values(tensor, self.program.sizes.fixed),
            zip(tensor.layout.parameters, tensor.extents, strict=True),
        )
        return tuple(self.sizes.get(extent, values[parameter]) for parameter, extent in names)

    def from_tables(self, step: Any) -> Any:
        """What is kept in tables is read there."""

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor in self.collected:
                return replace(node, tensor=self.collected[node.tensor])
            return None

        return rewrite(rule, step)

    def once(self, step: Any) -> Any:
        """Tensors that may store a coordinate several times are read from tables in which it stands once."""

        def rule(node: Any) -> Any:
            if isinstance(node, lang.Access) and node.tensor not in self.written:
                tensor = self.tensors[node.tensor]
                if tensor.layout.rank and not stored_once(tensor.layout).proved:
                    return replace(node, tensor=self.table(node.tensor))
            return None

        return rewrite(rule, step)

    def table(self, name: str) -> str:
        """The table of a tensor's entries."""
        if name not in self.tables:
            tensor = self.tensors[name]
            table = self.tables[name] = self.fresh(f"{name}_collected")
            self.kinds[table] = tensor.value_type
            self.tensors[table] = entries_of(table, tensor)
            self.labels.add(table)
            indices = self.indices_for(tensor)
            access = lang.Access(name, tuple(Var(i) for i in indices))

            def leaf(inner: Env) -> Plan:
                read = inner.values[key_of(access)]
                old = Scalar(self.fresh("before"), tensor.value_type)
                added = lang.Apply("add", (old, read))
                zero = number_of(0, old.type).value
                first = -zero if TYPES[old.type].kind in "fc" else zero  # 0.0 would change the sign of a stored -0.0
                return UpdateEntry(table, old.type, access.subscripts, added, old.name, first)

            body = Block(tuple(self.nests((access,), indices, (), leaf, Env(parallel=False))))
            why = f"the entries of {name}, each coordinate once"
            self.before.append(Collect(table, tensor.value_type, self.extents_of(tensor), body, why))
        return self.tables[name]

    def looks_everywhere(self, node: Plan) -> bool:
        """Whether a loop goes over all values of an index, or all beyond another's, to look for entries at each."""
        if isinstance(node, Find) and node.key is None:
            return True
        if not isinstance(node, Scan) or not any(isinstance(n, Find | Segment) for n in walk(node.body, Plan)):
            return False
        sizes = {*self.program.size_names, *self.sizes}
        ends = [variables(*side) for side in (node.low, node.high)]
        return all(end <= sizes | set(self.extents) for end in ends) and any(end <= sizes for end in ends)
