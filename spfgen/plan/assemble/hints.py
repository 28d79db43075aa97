"""The values of `pack` clauses (layout/hints.py) as vectors."""

from __future__ import annotations

from spfgen.errors import Unsupported
from spfgen.facts.formula import Call, Expr, Num, Var, calls, substitute, variables
from spfgen.ir import rewrite
from spfgen.layout.pack_rules import Rank
from spfgen.plan.assemble.nodes import COUNT, ROW, Choose, Into, Patterns, Ranks, ValueWord, at, compare, minus, plus
from spfgen.plan.assemble.state import AssemblyBuilder
from spfgen.sets.bounds import single_value

WORDS = 2
"""So many 64-bit words a value has at most."""


def hint_vectors(s: AssemblyBuilder, rank: Rank, unused: tuple[str, Expr] | None = None) -> list[str]:
    """The values of the rank's hint for all entries, then for keys that no entry has. Raises Unsupported."""
    hints = _Hints(s, rank, unused)
    return [hints.vector(key) for key in rank.hint]


class _Hints:
    def __init__(self, s: AssemblyBuilder, rank: Rank, unused: tuple[str, Expr] | None) -> None:
        self.s, self.rank, self.unused = s, rank, unused
        self.total: Expr = COUNT if unused is None else s.let("with unused", plus(COUNT, unused[1]))
        self.found: dict[str, str] = {}

    def vector(self, expr: Expr) -> str:
        for call in dict.fromkeys(calls(expr)):
            self._called(call)
        names = variables(expr)
        values = {n: self._column(n) for n in names}
        plain = rewrite(
            lambda n: at(self.found[_label(n)]) if isinstance(n, Call) and _label(n) in self.found else None, expr
        )
        return self.s.vec("hint", self.total, substitute(plain, values))

    def _column(self, name: str) -> Expr:
        s = self.s
        if name in s.sizes:
            return Var(name)
        if name not in s.columns:
            raise Unsupported(
                f"layout `{s.layout.name}` cannot be packed: `{name}` in `pack {self.rank.position} by ...` is not "
                "known when the position is numbered",
                s.layout.span,
            )
        of_entries = at(s.columns[name])
        if self.unused is None:
            return of_entries
        about = s.encoded.pieces[0].project({*s.encoded.sizes, *self.rank.keys, name}).constraints(name)
        value = single_value(about, name)
        if value is None:
            raise Unsupported(
                f"layout `{s.layout.name}` cannot be packed: `pack {self.rank.position} by ...` speaks of `{name}`, "
                f"which `{' and '.join(self.rank.keys)}` does not say for a place without entries",
                s.layout.span,
            )
        from spfgen.plan.assemble.state import divided
        from spfgen.sets.affine import expression

        key = at(self.unused[0], minus(ROW, COUNT))
        more = divided(substitute(expression(value[0]), {self.rank.keys[0]: key}), value[1])
        return Choose(compare(ROW, "<", COUNT), of_entries, more)

    def _called(self, call: Call) -> None:
        s, label = self.s, _label(call)
        if label in self.found:
            return
        arguments = [self.vector(a) for a in call.arguments]
        if call.function in ("least", "most"):
            self.found[label] = self._end(call, arguments)
            return
        group, groups = self._groups(arguments)
        if call.function == "count":
            sizes = s.vec("sizes", groups, Num(0))
            s.steps.append(Into(sizes, COUNT, at(group), Num(1), "add"))
            self.found[label] = s.vec("count", self.total, at(sizes, at(group)))
            return
        named = variables(*call.arguments)
        others = [s.columns[c] for c in s.layout.coordinates if c not in named]
        if call.function == "content":
            others += [s.vec("word", COUNT, ValueWord(ROW, k)) for k in range(WORDS)]
        content, first, total = s.new("rest"), s.new("first"), s.new("total")
        s.steps.append(Ranks(content, first, total, COUNT, tuple(others)))
        name = s.new("pattern")
        s.steps.append(Patterns(name, COUNT, group, content, groups))
        self.found[label] = s.vec("pattern", self.total, at(name, at(group)))

    def _groups(self, arguments: list[str]) -> tuple[str, Expr]:
        group, first, total = self.s.new("group"), self.s.new("first"), self.s.new("total")
        self.s.steps.append(Ranks(group, first, total, self.total, tuple(arguments)))
        return group, Var(total)

    def _end(self, call: Call, arguments: list[str]) -> str:
        """The least or the most that entries with these other arguments have of the first; 0 where there is none."""
        s = self.s
        ranked, *others = arguments
        group, groups = self._groups(others)
        most = call.function == "most"
        none = Num(-(2**62) if most else 2**62)
        ends = s.vec("ends", groups, none)
        s.steps.append(Into(ends, COUNT, at(group), at(ranked), "max" if most else "min"))
        end = at(ends, at(group))
        return s.vec("end", self.total, Choose(compare(end, "=", none), Num(0), end))


def _label(call: Call) -> str:
    from spfgen.facts.formula import show

    return show(call)
