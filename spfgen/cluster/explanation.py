"""What `Blocked.explain` says of a program over blocks."""

from __future__ import annotations

from collections.abc import Iterator

from spfgen.cluster.blocked import Blocked
from spfgen.cluster.choose_cuts import ChosenCuts
from spfgen.cluster.iteration_space import EXACT
from spfgen.cluster.joint import Joint
from spfgen.cluster.separability import COMBINED, RESULT, OperandRead, Way, within
from spfgen.facts.formula import Var, show


def explanation(unit: Joint, choice: ChosenCuts, text: str, tasks: int) -> str:
    """The lines of `Blocked.explain()`."""
    lines = [text, ""]
    for index, bounds in unit.cuts.items():
        for target in unit.targets:
            way = unit.way(index, target)
            result = f"`{target}`" if len(unit.targets) > 1 else "the result"
            meet = f"disjoint along axis {way.axis} of {result}" if way.kind == RESULT else _combined(way)
            lines.append(f"cut along {index}: {len(bounds) - 1} blocks of [0, {bounds[-1]}); results are {meet}")
    lines += [f"not cut along {index}: {why}" for index, why in unit.separable.kept.items()]
    lines += _replicated(unit)
    lines += _left_out(unit)
    if not unit.cuts:
        lines.append("nothing is cut: there is one task")
    lines += [_read(unit, r) for r in unit.reads]
    lines += ["", *_costs(choice)]
    lines += [f"{tasks} tasks with those for parts; partial results are combined in pairs, always in the same order"]
    return "\n".join([*lines, *_proofs(unit)])


def _replicated(unit: Joint) -> Iterator[str]:
    """Where a reduction is cut beside two indices of the result: the algorithms that are called 2.5-D."""
    kinds = {i: {unit.way(i, t).kind for t in unit.targets} for i in unit.cuts}
    layers = [i for i, kind in kinds.items() if kind == {COMBINED}]
    grid = [i for i, kind in kinds.items() if kind == {RESULT}]
    if layers and len(grid) > 1:
        sizes = f"a grid of {' x '.join(grid)} for each part of {', '.join(layers)}"
        yield f"2.5-D: {sizes}; parts of operands are replicated"


def _left_out(unit: Joint) -> Iterator[str]:
    """Blocks of work that conditions leave nothing to do in."""
    scheduled = [is_needed for _, is_needed in unit.scheduled]
    if sum(scheduled) < len(scheduled):
        yield f"{sum(scheduled):,} of {len(scheduled):,} blocks of work have something to do"


def _costs(choice: ChosenCuts) -> Iterator[str]:
    """What the cuts are expected to cost, and others."""
    on = f"{choice.on.count} workers" if choice.on.count > 1 else "one worker"
    yield f"expected on {on}: {choice.cost}"
    for cuts, cost in choice.others:
        yield f"rather than {cuts}: {cost}"


def _combined(way: Way) -> str:
    return f"combined by {way.function.name if way.function else way.op}"


def _read(unit: Joint, read: OperandRead) -> str:
    """How one operand is read."""
    ways = []
    for part, subscript in zip(unit.parts[read.name], read.access.subscripts, strict=True):
        if isinstance(part, str) and part in unit.cuts:
            ways.append(f"its part of {part}")
        elif isinstance(part, str):
            ways.append(f"{part} where blocks of {_narrowing(unit, part)} have entries")
        elif part is None:
            ways.append("whole")
        else:
            known = "" if part.known == EXACT else ", in a box around them"
            cut = sorted(part.follows() - within(subscript) - {*unit.narrowed})
            known = f" that belong to its part of {', '.join(cut)}{known}" if cut else known
            for index in sorted(part.follows() & {*unit.narrowed}):
                known += f", {index} where blocks of {_narrowing(unit, index)} have entries"
            ways.append(f"the places of {show(subscript)}{known}")
    kept = "" if isinstance(unit.sources[read.name], Blocked) else ", sent once to each worker"
    return f"{read.access.tensor}: {', '.join(ways) or 'a number'}{kept}"


def _narrowing(unit: Joint, index: str) -> str:
    """The operands whose entries say what an index runs over."""
    return " and ".join(sorted({r.access.tensor for r, _ in unit.narrowed[index]}))


def _proofs(unit: Joint) -> Iterator[str]:
    """What isl proved of all blocks of work at once, and what was seen of the bounds alone."""
    conditions = [c for r in unit.reads for under in r.under for c in under]
    for index in unit.cuts:
        is_proved = unit.work(tuple(unit.cuts)).parts_in_two(index, list(dict.fromkeys(conditions)))
        word = "proved (isl, for all bounds)" if is_proved else "checked (bounds rise from 0 to the extent)"
        yield f"{word}: each point of the iteration space is in one block of work along {index}"
        for target in unit.targets:
            way = unit.way(index, target)
            if way.kind == RESULT:
                apart = unit.work(tuple(unit.cuts)).writes_apart(index, Var(index))
                word = "proved (isl, for all bounds)" if apart else "checked (bounds)"
                yield f"{word}: blocks of work along {index} write `{target}` at different places"
            else:
                why = "its declared properties" if way.function else "the table of operators"
                yield f"known from {why}: {_combined(way).removeprefix('combined by ')} takes parts in any order"
