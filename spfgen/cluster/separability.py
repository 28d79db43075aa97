"""What of a program can be computed apart: the indices that may be cut, and how results meet then.

All follows from the text: accesses, subscripts, reductions, loops. An index may be cut

- where it stands alone as one subscript of all that is written: blocks of the result are disjoint;
- where values are combined over it by an operator that may take them in any order (sums, `max`, updates such as
  `min=`, scatters): each block of work gives a part of the result, and parts are combined.

What a program reads of its own result must be at the same place along an index that is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spfgen.cluster.read_conditions import under_conditions
from spfgen.facts.formula import Expr, Formula, variables
from spfgen.ir import walk
from spfgen.lang import nodes as lang
from spfgen.lang.blocks import values
from spfgen.lang.normalize import normalized
from spfgen.lang.ops import OPERATORS, Operator
from spfgen.lang.products import is_sum_of_products
from spfgen.lang.signs import PLACES
from spfgen.lang.types import TYPES
from spfgen.lang.uses import accesses_in, leaves_the_rest, read_first, statements_in
from spfgen.lang.values import indices_of
from spfgen.sets.affine import Affine, NotAffine, affine

RESULT, COMBINED = "result", "combined"
SUMS = ("=", "+=", "subtract")
"""Updates whose values are added up."""


@dataclass(frozen=True)
class Way:
    """How blocks of one result meet where an index is cut: `RESULT` along `axis` of the target, or `COMBINED` by the
    operator `op`, by what `argmin` or `argmax` finds in each, or by a function of the user."""

    kind: str
    axis: int = -1
    op: str = ""
    function: lang.Function | None = None


@dataclass(frozen=True)
class Separable:
    """`ways` are the indices that may be cut, with a way for each result; `kept` those that may not, with the reason;
    `carried` those of them along which the program reads its own result at other places."""

    ways: Mapping[str, Mapping[str, Way]]
    kept: Mapping[str, str]
    carried: Mapping[str, lang.Access]


class Kept(Exception):
    """An index may not be cut; the message says why."""


class Carried(Kept):
    """The program reads its own result along the index."""

    def __init__(self, access: lang.Access) -> None:
        super().__init__(f"`{access.tensor}` is read along it while it is made")
        self.access = access


def linear(subscript: Any) -> Affine | None:
    """A subscript that is a sum of multiples of indices; None for all others."""
    affine = quasi(subscript)
    return None if affine is None or affine.floors() else affine


def quasi(subscript: Any) -> Affine | None:
    """The same with quotients and remainders by numbers."""
    if not isinstance(subscript, Expr):
        return None
    try:
        return affine(subscript, lambda call: call.function)
    except NotAffine:
        return None


def plain(subscript: Any) -> str | None:
    """The index that a subscript is."""
    affine = linear(subscript)
    if affine is None or affine.constant or len(affine.terms) != 1 or affine.terms[0][1] != 1:
        return None
    return str(affine.terms[0][0])


def within(node: Any) -> set[str]:
    """The names in a subscript, a value or a condition, wherever they stand; none in `j - j`."""
    subscript = quasi(node)
    if subscript is not None:
        return subscript.names()
    names = {n for e in walk(node) if isinstance(e, Expr) for n in variables(e)}
    return names | {r.index for r in walk(node) if isinstance(r, lang.Range)}


def separable(
    steps: Sequence[Any], sizes: Sequence[str], filled: set[str], kinds: Mapping[str, str], local: Sequence[str] = ()
) -> Separable:
    """`steps` are one equation, or loops that belong together. `sizes` are names of numbers, `filled` the tensors whose
    fill value is not 0, `kinds` the types of results and operands, `local` the tensors that live within the program."""
    ways: dict[str, Mapping[str, Way]] = {}
    kept: dict[str, str] = {}
    carried: dict[str, lang.Access] = {}
    names = {n for s in steps for n in within(s)} | set(_loops(steps))
    explicit = normalized(tuple(steps), tuple(sizes))[0]
    for index in sorted(names - set(sizes)):
        try:
            _check_bound_once(steps, index)
            if len(steps) == 1 and isinstance(steps[0], lang.Statement):
                ways[index] = {steps[0].target.tensor: _of_equation(steps[0], explicit, index, filled)}
            else:
                ways[index] = _of_loops(steps, index, set(local))
            for target, way in ways[index].items():
                _check_order(way, kinds[target])
                _check_compared(way, steps, kinds)
        except Carried as reason:
            kept[index], carried[index] = str(reason), reason.access
        except Kept as reason:
            kept[index] = str(reason)
    ways = {i: w for i, w in ways.items() if i not in kept}
    return Separable(ways, kept, carried)


def _loops(steps: Sequence[Any]) -> Iterator[str]:
    for node in (n for s in steps for n in walk(s)):
        if isinstance(node, lang.For):
            yield from node.indices


def _check_bound_once(steps: Sequence[Any], index: str) -> None:
    """An index that a view binds, or two loops, is more than one. Raises Kept."""
    loops = 0
    for node in (n for s in steps for n in walk(s)):
        match node:
            case lang.Collapse(_, old, new) | lang.Split(_, old, new) | lang.Concat(_, old, new):
                bound = {*((old,) if isinstance(old, str) else old), *((new,) if isinstance(new, str) else new)}
            case lang.Slice(_, old, new):
                bound = {old, new}
            case lang.Range(name):
                bound = {name}
            case lang.For(indices):
                bound = set()
                loops += index in indices
            case _:
                continue
        if index in bound:
            raise Kept("a view binds it")
    if loops > 1:
        raise Kept("several loops bind it")


# --- equations -----------------------------------------------------------------------------------------


def _of_equation(statement: lang.Statement, explicit: Any, index: str, filled: set[str]) -> Way:
    """`explicit` is the same with its sums written out."""
    if statement.within:
        raise Kept("the pattern of the result decides")
    target = statement.target
    axes = [k for k, s in enumerate(target.subscripts) if index in within(s)]
    alone = len(axes) == 1 and plain(target.subscripts[axes[0]]) == index
    target_reads = [
        a for a in accesses_in([statement.value, *target.subscripts]) if a.tensor == target.tensor and a != target
    ]
    _check_own(target_reads, target, index, axes[0] if alone else None)
    reductions = [n for n in walk(statement.value) if isinstance(n, lang.Reduce) and index in n.indices]
    if reductions and axes:
        raise Kept("a reduction binds it again")
    if alone:
        return Way(RESULT, axes[0])
    if any(a.tensor == target.tensor for a in accesses_in([statement.value])):
        raise Kept("the result is read while values are combined")
    if axes:
        return _scattered(statement, axes, filled)
    if isinstance(statement.value, lang.Reduce) and index in statement.value.indices:
        return _reduced(statement, statement.value, filled)
    if reductions:
        raise Kept("a function is applied to what is reduced over it")
    return _updated(statement, explicit, index, filled)


def _check_own(target_reads: Sequence[lang.Access], target: lang.Access, index: str, axis: int | None) -> None:
    """What is read of the target itself lies at the same place along the index. Raises Carried."""
    for access in target_reads:
        others = [k for k, s in enumerate(access.subscripts) if k != axis and index in within(s)]
        if axis is None and not others and index not in within(target):
            continue
        if axis is None or others or plain(access.subscripts[axis]) != index:
            raise Carried(access)


def _scattered(statement: lang.Statement, axes: Sequence[int], filled: set[str]) -> Way:
    """The target is written at places that are more than one index: what several points give to one is combined."""
    subscripts = [statement.target.subscripts[a] for a in axes]
    if leaves_the_rest(statement):
        raise Kept("a slice of the result is written along it")
    if statement.op == "=":
        if any(quasi(s) is None for s in subscripts):
            raise Kept("the result is written at places that are values, and the last one counts")
        _check_adds(statement, filled)
        return Way(COMBINED, op="add")
    return Way(COMBINED, op=_combines(_update(statement), statement), function=statement.function)


def _update(statement: lang.Statement) -> str:
    return "add" if statement.op in SUMS else statement.op


def _check_adds(statement: lang.Statement, filled: set[str]) -> None:
    """Parts of the result may be added: where no point gives a value it is 0. Raises Kept."""
    if not is_sum_of_products(statement.value):
        raise Kept("the result is written at more than one subscript of it")
    _check_fills(statement, filled)


def _check_fills(statement: lang.Statement, filled: set[str]) -> None:
    if filled & {a.tensor for a in accesses_in([statement.value])}:
        raise Kept("operands have fill values, and so has each part of the result")


def _combines(op: str, statement: lang.Statement | lang.Reduce) -> str:
    """The name of an operator that combines parts. Raises Kept."""
    operator: Operator | None = OPERATORS.get(op) if statement.function is None else statement.function.operator
    if operator is None or not operator.associative or not operator.commutative:
        raise Kept(f"`{op}` does not combine results of parts")
    if operator.identity is None:
        raise Kept(f"`{op}` has no value for an empty part")
    return op


def _check_order(way: Way, kind: str) -> None:
    """Values of the type may be combined in any order. Raises Kept."""
    is_known = way.kind == COMBINED and way.function is None and way.op not in PLACES
    known = TYPES.get(kind) if is_known else None
    if known is not None and not OPERATORS[way.op].is_orderless(known):
        raise Kept(f"`{way.op}` of {kind} does not combine results of parts")


def _check_compared(way: Way, steps: Sequence[Any], kinds: Mapping[str, str]) -> None:
    """Of complex numbers that are not numbers one has no order. Raises Kept."""
    if way.op in PLACES and any(kinds.get(a.tensor, "").startswith("complex") for a in accesses_in(steps)):
        raise Kept(f"`{way.op}` of complex numbers does not combine results of parts")


def _best(statement: lang.Statement, value: lang.Reduce) -> Way:
    """Parts have the place of their best value and the value itself. Raises Kept."""
    subscripts = [plain(s) for s in statement.target.subscripts]
    if statement.op != "=" or statement.where is not None or None in subscripts or len({*subscripts}) < len(subscripts):
        raise Kept(f"`{value.op}` does not give each place of the result a value")
    return Way(COMBINED, op=value.op)


def _reduced(statement: lang.Statement, value: lang.Reduce, filled: set[str]) -> Way:
    if value.op in PLACES and value.function is None:
        return _best(statement, value)
    if statement.op != "=" and not (statement.op == value.op or (statement.op in SUMS and value.op == "add")):
        raise Kept("not all of the value is reduced over it")
    if any(quasi(s) is None for s in statement.target.subscripts) and statement.op == "=":
        raise Kept("the result is written at places that are values, and the last one counts")
    op = _combines(value.op, value)
    if statement.where is not None and (value.function is not None or op not in ("add", "maximum", "minimum")):
        raise Kept(f"where the condition does not hold parts are not combined by `{op}`")
    if statement.where is not None:
        _check_fills(statement, filled)
    return Way(COMBINED, op=op, function=value.function)


def _updated(statement: lang.Statement, explicit: Any, index: str, filled: set[str]) -> Way:
    """The index stands in the value alone: the sum over it, or the update by each of its values."""
    if statement.op not in SUMS:
        if explicit == statement or not isinstance(explicit, lang.Statement):
            raise Kept(f"`{statement.op}` takes the values one after another")
        if statement.where is not None:
            raise Kept("a condition decides which values the result is updated by")
        return Way(COMBINED, op=_combines(statement.op, statement), function=statement.function)
    if any(quasi(s) is None for s in statement.target.subscripts) and statement.op == "=":
        raise Kept("the result is written at places that are values, and the last one counts")
    if not isinstance(explicit, lang.Statement) or not all(_sums_over(term, index) for term in _terms(explicit.value)):
        raise Kept("not all terms are summed over it")
    if statement.where is not None:
        _check_fills(statement, filled)
    return Way(COMBINED, op="add")


def _sums_over(term: Any, index: str) -> bool:
    """Whether a term is a sum over the index, perhaps times what does not have it."""
    match term:
        case lang.Reduce("add", indices, function=None) if index in indices:
            return True
        case lang.Apply("multiply", (a, b), function=None):
            return (_sums_over(a, index) and index not in within(b)) or (
                _sums_over(b, index) and index not in within(a)
            )
        case lang.Apply("divide", (a, b), function=None):
            return _sums_over(a, index) and index not in within(b)
    return False


def _terms(value: Any) -> Iterator[Any]:
    if isinstance(value, lang.Apply) and value.op in ("add", "subtract", "negative") and value.function is None:
        for part in value.arguments:
            yield from _terms(part)
    else:
        yield value


# --- loops ---------------------------------------------------------------------------------------------


def _of_loops(steps: Sequence[Any], index: str, local: set[str]) -> dict[str, Way]:
    """The index of a loop around all that is written. Raises Kept."""
    if len(steps) != 1 or not isinstance(steps[0], lang.For) or index not in steps[0].indices:
        raise Kept("no loop over it is around all")
    loop = steps[0]
    if any(isinstance(s, lang.Break) for s in _own_steps(loop.body)):
        raise Kept("`break` ends its loop")
    if any(isinstance(n, lang.Reduce) and index in n.indices for n in walk(loop)):
        raise Kept("a reduction binds it again")
    for name in sorted(local):
        if name in _before_assigned(loop.body, name):
            raise Kept(f"`{name}` is kept from one iteration to the next")
    written = list(statements_in([loop]))
    targets = dict.fromkeys(s.target.tensor for s in written if s.target.tensor not in local)
    return {name: _of_target(loop, name, index, [s for s in written if s.target.tensor == name]) for name in targets}


def _own_steps(steps: Sequence[Any]) -> Iterator[Any]:
    """The steps that a `break` among them would end the loop of."""
    for step in steps:
        yield step
        if isinstance(step, lang.If):
            yield from _own_steps((*step.then, *step.otherwise))


def _before_assigned(body: Sequence[Any], name: str) -> set[str]:
    """The tensor, where it is used before an equation gives all of it a value."""
    for step in body:
        if not any(a.tensor == name for a in accesses_in([step])):
            continue
        first = isinstance(step, lang.Statement) and step.target.tensor == name and step.op == "="
        return set() if first and step.where is None and name not in read_first([step], True) else {name}
    return set()


def _of_target(loop: lang.For, name: str, index: str, written: Sequence[lang.Statement]) -> Way:
    first = written[0].target
    axes = [k for k, s in enumerate(first.subscripts) if plain(s) == index]
    read = [a for a in accesses_in([loop]) if a.tensor == name]
    for axis in axes:
        if all(plain(a.subscripts[axis]) == index for a in read):
            others = [s for a in read for k, s in enumerate(a.subscripts) if k != axis]
            if not any(index in within(s) for s in others):
                return Way(RESULT, axis)
    values = [a for s in _values_of(loop) for a in accesses_in([s]) if a.tensor == name]
    ops = {(_update(s), s.op == "=", s.function) for s in written}
    if values:
        raise Carried(values[0])
    op, is_set, function = next(iter(ops))
    if len(ops) > 1 or is_set:
        raise Kept(f"`{name}` is given values in more than one way, and the last one counts")
    return Way(COMBINED, op=_combines(op, written[0]), function=function)


def _values_of(loop: Any) -> Iterator[Any]:
    """What is read: values, conditions, and subscripts of targets."""
    for node in walk(loop):
        match node:
            case lang.Statement(target, _, value):
                yield value
                yield from (s for s in target.subscripts if not isinstance(s, Expr | lang.Range))
            case _:
                yield from values(node)


# --- what a block of work reads ------------------------------------------------------------------------


@dataclass(frozen=True)
class OperandRead:
    """Accesses of one operand with the same subscripts; `name` stands for what a block of work gets of it. `under` are
    the conditions under which it is read, one conjunction for each place where it stands."""

    name: str
    access: lang.Access
    under: tuple[tuple[Formula, ...], ...] = ()


def reads_of(
    steps: Sequence[Any], targets: set[str], numbers: Mapping[str, int], zeros: Collection[str]
) -> tuple[tuple[OperandRead, ...], tuple[Any, ...]]:
    """The reads of steps, and the steps over their names. `numbers` are the values of integers among the operands,
    `zeros` the tensors that are 0 where nothing is stored."""
    from spfgen.ir import rewrite

    name_of: dict[lang.Access, str] = {}
    seen: set[str] = {a.tensor for a in accesses_in(steps)}

    def named(node: Any) -> Any:
        if not isinstance(node, lang.Access) or not node.subscripts or node.tensor in targets:
            return None
        if node not in name_of:
            name, number = node.tensor, 1
            taken = set(name_of.values())
            while name in taken or (name != node.tensor and name in seen):
                number, name = number + 1, f"{node.tensor}_{number + 1}"
            name_of[node] = name
        return replace(node, tensor=name_of[node])

    renamed = tuple(rewrite(named, s) for s in steps)
    under: dict[str, list[tuple[Formula, ...]]] = {}
    absent = {name for access, name in name_of.items() if access.tensor in zeros}
    for step in renamed:
        for access, conditions in under_conditions(step, numbers, absent):
            under.setdefault(access.tensor, []).append(conditions)
    reads = tuple(OperandRead(name, access, tuple(dict.fromkeys(under[name]))) for access, name in name_of.items())
    return reads, renamed


__all__ = ["COMBINED", "RESULT", "OperandRead", "Separable", "Way", "indices_of", "linear", "plain", "quasi",
           "reads_of", "separable", "within"]  # fmt: skip
