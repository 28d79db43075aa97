"""Schedules as they are written: parse trees to clauses of IR 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lark import Tree

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import TRUE, calls, rename, show
from spfgen.lang.expressions import Reader, word_in
from spfgen.lang.nodes import Directive, FindClause, Kernel, Loop, LoopsRelation


@dataclass(frozen=True)
class Schedule:
    """The clauses of a schedule, in their order; `deterministic`: results do not depend on the number of threads."""

    order: tuple[Loop, ...] = ()
    finds: tuple[FindClause, ...] = ()
    directives: tuple[Directive | LoopsRelation, ...] = ()
    deterministic: bool = False


def read_schedule(reader: Reader, clauses: Sequence[Any]) -> Schedule:
    """The clauses of all schedules of a kernel. Raises SpecError."""
    order: list[Loop] = []
    finds: list[FindClause] = []
    directives: list[Directive | LoopsRelation] = []
    deterministic = False
    for clause in (c for c in clauses if isinstance(c, Tree)):
        match clause.data:
            case "order":
                order += [_loop(reader, loop) for loop in clause.children]
            case "find":
                finds.append(_find(reader, clause))
            case "loops_relation":
                directives.append(_relation(reader, clause))
            case "deterministic":
                deterministic = True
            case _:
                directives += _directives(reader, clause)
    return Schedule(tuple(order), tuple(finds), tuple(directives), deterministic)


def with_schedule(kernel: Kernel, schedule: Schedule) -> Kernel:
    """The kernel with this schedule in place of its own."""
    return replace(
        kernel,
        order=schedule.order,
        finds=schedule.finds,
        directives=schedule.directives,
        deterministic=schedule.deterministic,
    )


def _loop(reader: Reader, tree: Tree[Any]) -> Loop:
    first, second = tree.children[0], tree.children[1] if len(tree.children) > 1 else None
    if second is None:
        return Loop(None, str(first), reader.span(tree))
    return Loop(str(first), reader.name(second), reader.span(tree))


def _find(reader: Reader, tree: Tree[Any]) -> FindClause:
    position, algorithm = tree.children
    loop = _loop(reader, position)
    return FindClause(loop.tensor, loop.name, str(algorithm), reader.span(tree))


def _directives(reader: Reader, tree: Tree[Any]) -> Iterator[Directive]:
    """One for each loop, but one for all that are fused."""
    word = str(tree.data)
    if word == "fuse":
        *loops, name = tree.children
        given = None if name is None else str(name)
        yield Directive(word, tuple(_loop(reader, c) for c in loops), None, given, reader.span(tree))
        return
    for child in tree.children:
        if child.data == "loop":
            yield Directive(word, (_loop(reader, child),), span=reader.span(child))
            continue
        loop, number, *name = child.children
        factor = reader.number(number)
        if factor < 1:
            hint = f"for instance `{word} {show_loop(_loop(reader, loop))} by 4`"
            raise reader.fail(f"expected a number of at least 1 after `by`, but this is {factor}", number, hint)
        given = str(name[0]) if name and name[0] is not None else None
        yield Directive(word, (_loop(reader, loop),), factor, given, reader.span(child))


def _relation(reader: Reader, tree: Tree[Any]) -> LoopsRelation:
    old, new, condition = tree.children
    formula = TRUE if condition is None else reader.formula(condition)
    for call in calls(formula):
        hint = "a relation between loops is made of loops, sizes and numbers"
        raise SpecError(f"expected an affine condition, but `{show(call)}` is a call", call.span, (hint,))
    names: dict[str, str] = {}
    sides: list[tuple[Loop, ...]] = []
    for side in (old, new):
        loops = []
        for name, loop, equal in ((c.children[0], c.children[-1], c) for c in side.children):
            renamed_loop = _loop(reader, loop)
            if name is not None and str(name) in names:
                hint = "give each position a name of its own"
                raise reader.fail(f"expected a new name, but `{name}` is the name of a loop already", equal, hint)
            if name is not None:
                names[str(name)] = show_loop(renamed_loop)
            elif renamed_loop.tensor is None and renamed_loop.name in names:
                owner, _, name_of_loop = names[renamed_loop.name].rpartition(".")
                renamed_loop = Loop(owner or None, name_of_loop, renamed_loop.span)
            loops.append(renamed_loop)
        sides.append(tuple(loops))
    return LoopsRelation(sides[0], sides[1], rename(formula, names), reader.span(tree))


def show_loop(loop: Loop | FindClause) -> str:
    """The loop as it is written."""
    name = loop.name if isinstance(loop, Loop) else loop.position
    return f"{loop.tensor}.{name}" if loop.tensor else name


def doubled(schedule: Schedule) -> Iterator[SpecError]:
    """Loops, finds and directives that stand twice."""
    yield from _repeated(schedule.order, "list the loops from the outermost to the innermost")
    seen: set[str] = set()
    for find in schedule.finds:
        text = show_loop(find)
        if text in seen:
            hint = "a position is found by one algorithm: leave out the others"
            message = f"expected each position once, but `{text}` is given twice"
            yield SpecError(message, word_in(find.span, text), (hint,))
        seen.add(text)
    spans: dict[tuple[str, str], Span | None] = {}
    for directive in schedule.directives:
        if isinstance(directive, LoopsRelation):
            yield from _repeated(directive.old, "each loop occurs once on each side of `->`")
            yield from _repeated(directive.new, "each loop occurs once on each side of `->`")
            continue
        if directive.word == "fuse":
            yield from _repeated(directive.loops, "list the loops from the outermost to the innermost")
            continue
        (loop,) = directive.loops
        key = (directive.word, show_loop(loop))
        if key in spans:
            hint = f"`{directive.word}` is said of a loop once; what `tile` and `split` make has a name: `... as it`"
            message = f"expected `{directive.word}` once for `{key[1]}`, but it is given twice"
            yield SpecError(message, directive.span, (hint,))
        spans[key] = directive.span
        if directive.word in ("parallel", "serial") and {("parallel", key[1]), ("serial", key[1])} <= set(spans):
            message = f"expected `{key[1]}` to be parallel or serial, but both are said"
            yield SpecError(message, directive.span, ("leave one of them out",))


def _repeated(loops: Sequence[Loop], hint: str) -> Iterator[SpecError]:
    seen: set[str] = set()
    for loop in loops:
        text = show_loop(loop)
        if text in seen:
            yield SpecError(f"expected each loop once, but `{text}` is given twice", loop.span, (hint,))
        seen.add(text)
