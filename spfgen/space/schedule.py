"""The schedule of a kernel, as dimensions of its iteration spaces: the order of loops, relations that make new ones,
marks on loops, and how positions are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import Bin, Num, Var, variables, within
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.expressions import did_you_mean, raise_all, word_in
from spfgen.lang.schedule import show_loop
from spfgen.lang.types import FINDS
from spfgen.lang.uses import accesses_in
from spfgen.space.nodes import Change, ForcedFind, Group, LoopSchedule, Mark, Tensor

APPLIED = ("order", "find", "serial", "parallel", "deterministic")
"""The clauses that all kernels have: they are about loops that there are, and change no iteration space."""


def read_schedule(
    kernel: lang.Kernel, tensors: Mapping[str, Tensor], groups: Sequence[Group], others: Sequence[Any], beyond: str
) -> LoopSchedule:
    """What the schedule says of loops, as dimensions of sums of products, and of all `others` as the text calls them:
    planning looks for those that are meant. `beyond` is what is more than sums of products. Raises SpecError, also
    where a clause for sums of products alone is about a loop that others have."""
    reader = _Reader(kernel, tensors, groups)
    theirs = _indices_in(others) | {a.tensor for a in accesses_in(others)}
    for directive in kernel.directives:
        word, about = "relation", directive.old if isinstance(directive, lang.LoopsRelation) else directive.loops
        word = directive.word if isinstance(directive, lang.Directive) else word
        for loop in about if word not in APPLIED else ():
            if (loop.tensor or loop.name) in theirs:
                raise _only_for_sums(word, show_loop(loop), directive.span, beyond)
        if isinstance(directive, lang.LoopsRelation):
            reader.relation(directive)
        elif directive.word in ("tile", "split"):
            reader.resized(directive)
        elif directive.word == "fuse" and directive.name is not None:
            reader.fused[reader.new(directive.name, directive.span)] = directive.loops[0]
    for directive in kernel.directives:  # also of loops that are made further down
        if isinstance(directive, lang.Directive) and directive.word not in ("tile", "split"):
            reader.marked(directive)
    named = [reader.dim(loop) for loop in kernel.order]
    reader.marks += [Mark("order", dim, span=loop.span) for dim, loop in zip(named, kernel.order, strict=True)]
    order = [d for d in reader.first if d not in named] + named
    for outer, inner in reader.outside:  # where the inner loop has its place, the one around it has its own
        if inner in order and outer not in order:
            order.insert(order.index(inner), outer)
    finds = _forced_finds(kernel, tensors)
    return LoopSchedule(tuple(order), finds, tuple(reader.marks), tuple(reader.outside), tuple(reader.changes))


def _forced_finds(kernel: lang.Kernel, tensors: Mapping[str, Tensor]) -> tuple[ForcedFind, ...]:
    """The algorithms that the schedule asks for, by what the positions are called in the text: all accesses of a tensor
    have one name."""
    raise_all([e for f in kernel.finds for e in (*_wrong_position(kernel, f, tensors), *_wrong_algorithm(f))])
    written = [(f"{find.tensor}.{find.position}", find) for find in kernel.finds]
    return tuple(ForcedFind(name, find.algorithm, name, find.span) for name, find in written)


def _only_for_sums(word: str, loop: str, span: Span | None, beyond: str) -> SpecError:
    message = f"expected a clause that all kernels have, but `{word}` is for sums of products alone"
    message += f", and `{loop}` is a loop of what is more: {beyond}"
    applied = ", ".join(f"`{w}`" for w in APPLIED)
    way = "put the sum of products into a kernel of its own, with the schedule, and what is made of it into another"
    way = f"or give the loops of the sum names that no other statement has, or {way}"
    return SpecError(message, span, (f"leave `{word}` out (all kernels have {applied})", way))


class _Reader:
    """Loops by name, those that clauses make too; what the clauses come to."""

    def __init__(self, kernel: lang.Kernel, tensors: Mapping[str, Tensor], groups: Sequence[Group]) -> None:
        self.kernel = kernel
        self.tensors = tensors
        self.indices = _indices(kernel)
        instances = [i for g in groups for i in g.all]
        self.positions = dict.fromkeys(p for i in instances for p in i.positions)
        self.made: dict[str, None] = {}
        self.fused: dict[str, lang.Loop] = {}
        self.first: list[str] = []
        self.outside: list[tuple[str, str]] = []
        self.changes: list[Change] = []
        self.marks: list[Mark] = []

    def dim(self, loop: lang.Loop) -> str:
        """The dimension of a loop. Raises SpecError when there is none of that name."""
        name = show_loop(loop)
        if name in self.fused:
            return self.dim(self.fused[name])  # the outermost stands for all
        if name in self.made or name in self.positions:
            return name
        if loop.tensor is None:
            if loop.name not in self.indices:
                known = sorted({*self.indices, *(n for n in self.made if "." not in n)} - set(self.kernel.sizes))
                raise SpecError(
                    f"expected an index or a position such as `A.p`, but `{loop.name}` is neither",
                    loop.span,
                    (f"indices: {', '.join(known)}", _positions(self.tensors.values())),
                )
        elif loop.tensor not in self.tensors or loop.name not in self.tensors[loop.tensor].layout.positions:
            raise SpecError(
                f"expected a position of a tensor, but `{name}` is not one",
                loop.span,
                (_positions(self.tensors.values()),),
            )
        return name

    def new(self, name: str, span: Span | None) -> str:
        """A name for a loop that a clause makes. Raises SpecError when it is taken."""
        taken = {*self.indices, *self.positions, *self.made, *self.kernel.sizes, *self.tensors}
        if name in taken:
            message = f"expected a new name for a loop, but `{name}` is defined already"
            raise SpecError(message, word_in(span, name), ("choose another one after `as`",))
        self.made[name] = None
        return name

    def resized(self, directive: lang.Directive) -> None:
        """A loop over tiles: with `tile` among the outermost loops, with `split` directly around the loop."""
        inner = self.dim(directive.loops[0])
        size = Num(directive.number or 1)
        outer = self.new(directive.name or f"{inner}_{directive.word}", directive.span)
        start = Bin("*", size, Var(outer))
        self.changes.append(
            Change((inner,), (outer,), within(Var(inner), start, Bin("+", start, size)), (), directive.span)
        )
        self.marks.append(Mark(directive.word, outer, size.value, span=directive.span))
        if directive.word == "split":
            self.outside.append((outer, inner))
        else:
            self.first.insert(self.first.index(inner) if inner in self.first else len(self.first), outer)

    def relation(self, relation: lang.LoopsRelation) -> None:
        """Loops in place of others."""
        old = [self.dim(loop) for loop in relation.old]
        makes = [show_loop(loop) for loop in relation.new if show_loop(loop) not in old]
        for loop in relation.new:
            if show_loop(loop) in makes:
                self.new(show_loop(loop), loop.span)
        known = {*old, *makes, *self.kernel.sizes}
        for node in walk(relation.condition):
            if isinstance(node, Var) and node.name not in known:
                hint = f"loops of the relation: {', '.join((*old, *makes))}"
                raise SpecError(f"expected a loop or a size, but `{node.name}` is neither", node.span, (hint,))
        sizes = tuple(n for n in self.kernel.sizes if n in variables(relation.condition))
        self.changes.append(Change(tuple(old), tuple(makes), relation.condition, sizes, relation.span))
        self.marks += [Mark("relation", name, span=relation.span) for name in makes]
        self.first += [n for n in map(show_loop, relation.new) if n not in self.first]

    def marked(self, directive: lang.Directive) -> None:
        dim, *inner = map(self.dim, directive.loops)
        self.marks.append(Mark(directive.word, dim, directive.number or 0, tuple(inner), directive.span))


def _wrong_position(kernel: lang.Kernel, find: lang.FindClause, tensors: Mapping[str, Tensor]) -> Iterator[SpecError]:
    """What is to be found is no position of a tensor."""
    if find.tensor is None:
        name = find.position
        what = "an index" if name in _indices(kernel) else "a tensor" if name in tensors else "not one"
        message = f"expected a position of a tensor such as `A.p`, but `{name}` is {what}"
        yield SpecError(message, word_in(find.span, name), (_positions(tensors.values()),))
    elif find.tensor not in tensors:
        message = f"expected a tensor of the kernel, but `{find.tensor}` is not one"
        hint = did_you_mean(find.tensor, tensors) or f"its tensors: {', '.join(tensors)}"
        yield SpecError(message, word_in(find.span, find.tensor), (hint,))
    elif find.position not in tensors[find.tensor].layout.positions:
        known = tensors[find.tensor].layout.positions
        text = f"{find.tensor}.{find.position}"
        message = f"expected a position of `{find.tensor}`, but `{text}` is not one"
        listed = _positions([tensors[find.tensor]]) if known else f"`{find.tensor}` is a scalar: it has none"
        hints = (did_you_mean(find.position, known), listed)
        yield SpecError(message, word_in(find.span, text), [h for h in hints if h])


def _wrong_algorithm(find: lang.FindClause) -> Iterator[SpecError]:
    if find.algorithm not in FINDS:
        hints = (did_you_mean(find.algorithm, FINDS), f"algorithms: {', '.join(FINDS)}")
        message = f"expected an algorithm that finds positions, but `{find.algorithm}` is not one"
        yield SpecError(message, word_in(find.span, find.algorithm), [h for h in hints if h])


def _indices(kernel: lang.Kernel) -> set[str]:
    """The names of indices: those in subscripts, and those over which loops and reductions run."""
    return _indices_in(kernel.statements) - {*kernel.sizes}


def _indices_in(steps: Sequence[Any]) -> set[str]:
    nodes = [n for s in steps for n in walk(s)]
    indices = {n.name for a in nodes if isinstance(a, lang.Access) for n in walk(a) if isinstance(n, Var)}
    indices |= {n.index for n in nodes if isinstance(n, lang.Range)}
    return indices | {i for n in nodes if isinstance(n, lang.For | lang.Reduce) for i in n.indices}


def _positions(tensors: Iterable[Tensor]) -> str:
    """A hint: the positions there are."""
    return f"positions: {', '.join(f'{t.name}.{p}' for t in tensors for p in t.layout.positions) or 'none'}"
