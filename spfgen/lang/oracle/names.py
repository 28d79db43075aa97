"""One name for one index: those of other statements, loops and shape operators get others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spfgen.facts.formula import Expr, rename
from spfgen.lang import nodes as n
from spfgen.lang.blocks import with_blocks, with_values
from spfgen.lang.oracle.tree import reduced_in, used_in


class IndexRenamer:
    """Gives every index of every statement, loop and shape operator a name of its own."""

    def __init__(self, sizes: frozenset[str]) -> None:
        self.sizes = sizes
        self.count = 0

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name}.{self.count}"

    def steps(self, steps: Sequence[Any], names: Mapping[str, str]) -> tuple[Any, ...]:
        return tuple(self.step(s, names) for s in steps)

    def step(self, step: Any, names: Mapping[str, str]) -> Any:
        match step:
            case n.For(indices, body, where):
                inner = {**names, **{i: self.fresh(i) for i in indices}}
                return replace(
                    step,
                    indices=tuple(inner[i] for i in indices),
                    body=self.steps(body, inner),
                    where=None if where is None else rename(where, inner),
                )
            case n.Statement(target, _, value, where):
                named = self.of_value(value, names)
                named = {**{i: self.fresh(i) for i in sorted(used_in(target) - self.sizes) if i not in named}, **named}
                return replace(
                    step,
                    target=self.value(target, named),
                    value=self.value(value, named),
                    where=None if where is None else rename(where, named),
                )
        step = with_values(step, lambda value: self.value(value, self.of_value(value, names)))
        return with_blocks(step, lambda block: self.steps(block, names))

    def of_value(self, value: Any, names: Mapping[str, str]) -> dict[str, str]:
        """The names of a statement: its indices, those of its reductions too, each once."""
        indices = (used_in(value) | reduced_in(value)) - self.sizes
        return {**{i: self.fresh(i) for i in sorted(indices) if i not in names}, **names}

    def value(self, value: Any, names: Mapping[str, str]) -> Any:
        match value:
            case n.Access(_, subscripts):
                return replace(value, subscripts=tuple(self.value(s, names) for s in subscripts))
            case n.Range(index, start, stop):
                bounds = [None if b is None else rename(b, names) for b in (start, stop)]
                return replace(value, index=names[index], start=bounds[0], stop=bounds[1])
            case Expr():
                return rename(value, names)
            case n.Index(expr):
                return replace(value, expr=rename(expr, names))
            case n.Apply(arguments=parts) | n.Coalesce(parts):
                return replace(value, arguments=tuple(self.value(p, names) for p in parts))
            case n.Reduce(_, indices, inner, where):
                return replace(
                    value,
                    indices=tuple(names[i] for i in indices),
                    value=self.value(inner, names),
                    where=None if where is None else rename(where, names),
                )
            case n.Collapse(inner, old, new):
                inner_names = self.within(inner, names, old)
                return replace(
                    value, value=self.value(inner, inner_names), old=tuple(inner_names[o] for o in old), new=names[new]
                )
            case n.Split(inner, single, several):
                inner_names = self.within(inner, names, (single,))
                new_names = tuple(names[i] for i in several)
                return replace(value, value=self.value(inner, inner_names), old=inner_names[single], new=new_names)
            case n.Slice(inner, single, new, start, stop):
                inner_names = self.within(inner, names, (single,))
                first, last = rename(start, names), rename(stop, names)
                sliced = self.value(inner, inner_names)
                return n.Slice(sliced, inner_names[single], names[new], first, last, value.step)
            case n.Concat(values, old, new):
                names_of_values = [self.within(v, names, (o,)) for v, o in zip(values, old, strict=True)]
                return replace(
                    value,
                    values=tuple(
                        self.value(v, inner_names) for v, inner_names in zip(values, names_of_values, strict=True)
                    ),
                    old=tuple(inner_names[o] for o, inner_names in zip(old, names_of_values, strict=True)),
                    new=names[new],
                )
        return value

    def within(self, value: Any, names: Mapping[str, str], old: Sequence[str]) -> dict[str, str]:
        """The names within a shape operator: the old ones are its own."""
        return {**names, **{o: self.fresh(o) for o in old}}
