"""What becomes of a value: it is stored in its place, or an entry of a result or of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Formula, Var
from spfgen.lang import nodes as lang
from spfgen.lang.fills import fill_text
from spfgen.plan.nodes import Append, Block, Clear, If, Let, Plan, Store, UpdateEntry
from spfgen.plan.steps.env import Env, cast, joined, key_of, number_of
from spfgen.plan.steps.reductions import Reductions
from spfgen.space.nodes import Read
from spfgen.space.regions import Region
from spfgen.space.steps import Equation
from spfgen.space.typed import Holds, Scalar


def writes_all(eq: Equation) -> bool:
    """Whether the points of the equation are all places of the target: each subscript is an index of its own."""
    names = [s.name for s in eq.subscripts if isinstance(s, Var)]
    return len(names) == len(eq.subscripts) == len(set(names)) and set(names) == set(eq.indices)


class Stores(Reductions):
    """What becomes of a value: it is stored in its place, or an entry of a result or of a table."""

    def stored(self, eq: Equation, access: lang.Access, value: Any, env: Env) -> list[Plan]:
        """The value in its place, which is looked for where the nest does not have it at hand."""
        key = (access.tensor, access.subscripts)
        if access.tensor in self.collected:
            return self.kept_entry(eq, access, value)
        if access.tensor in self.assembled:
            tensor = self.tensors[access.tensor]
            return [Append(access.tensor, access.subscripts, cast(value, tensor.entry_type))]

        def leaf(inner: Env) -> Plan:
            read = inner.values[key]
            assert isinstance(read, Read)
            new = value if eq.updates is None else replace(eq.updates, arguments=(read, value))
            return Store(read.operand, new)

        if isinstance(env.values.get(key), Read):
            return [leaf(env)]
        return self.nests((access,), (), (), leaf, replace(env, parallel=False, order=()))

    def kept_entry(self, eq: Equation, access: lang.Access, value: Any) -> list[Plan]:
        """The value for a result whose entries are kept in a table until all are there."""
        table, kind = self.collected[access.tensor], self.kinds[access.tensor]
        fill = self.tensors[access.tensor].layout.fill
        old = Scalar(self.fresh("before"), kind)
        new = cast(value, kind) if eq.updates is None else replace(eq.updates, arguments=(old, value))
        entry = UpdateEntry(table, kind, access.subscripts, cast(new, kind), old.name, number_of(fill, kind).value)
        inside = [Holds(c) for c in self.inside(access)]
        return [If(joined("logical_and", inside), entry) if inside else entry]

    def delivered(self, name: str) -> list[Plan]:
        """All entries of a table, one after another, as those of a result: where an equation has written over what
        another one wrote, without those that are the fill again."""
        table = self.collected[name]
        tensor = self.tensors[table]
        indices = self.indices_for(tensor)
        access = lang.Access(table, tuple(Var(i) for i in indices))

        def leaf(inner: Env) -> Plan:
            value = cast(inner.values[key_of(access)], self.tensors[name].entry_type)
            if name not in self.rewritten:
                return Append(name, access.subscripts, value)
            new_value = Scalar(self.fresh("value"), self.tensors[name].entry_type)
            kept = If(self.differs(new_value, tensor.layout.fill), Append(name, access.subscripts, new_value))
            return Block((Let(new_value.name, new_value.type, value), kept))

        return self.nests((access,), indices, (), leaf, Env())

    def filled(
        self, eq: Equation, access: lang.Access, value: Any, env: Env, conditions: Sequence[Formula] = ()
    ) -> list[Plan]:
        """Every point of the target at which the conditions hold becomes the value. All of a result is cleared."""
        if not conditions and self.clears(eq, value, env):
            return [Clear(eq.target, f"`=` overwrites {eq.target}")]

        def leaf(inner: Env) -> Plan:
            return Block(tuple(self.stored(replace(eq, updates=None), access, value, inner)))

        return self.passes([Region((access,))], eq.indices, conditions, leaf, env, eq.subscripts)

    def clears(self, eq: Equation, value: Any, env: Env) -> bool:
        """Whether the value is zero, and the points of the equation are all places of an array of the result."""
        given = eq.target not in self.assembled and eq.target not in self.collected
        given = given and any(t.name == eq.target and t.is_output for t in self.program.tensors)
        zero = isinstance(value, lang.Constant) and fill_text(value.value) in ("0", "0.0", "False")
        return given and zero and writes_all(eq) and not env.known and not env.again

    def emptied(self, name: str, number: Any = None) -> list[Plan]:
        """All of a tensor becomes its fill, or this number."""
        tensor = self.tensors[name]
        indices = self.indices_for(tensor)
        access = lang.Access(name, tuple(Var(i) for i in indices))
        eq = Equation(name, access.subscripts, indices, lang.Constant(tensor.layout.fill if number is None else number))
        return self.filled(eq, access, eq.value, Env())

    def differs(self, value: Scalar, fill: Any) -> Any:
        """Whether a value is not the fill; nan is nan."""
        number = number_of(fill, value.type)
        if fill != fill:
            return lang.Apply("logical_not", (lang.Apply("isnan", (value,)),))
        return lang.Apply("not_equal", (value, number))
