"""What a kernel means, in plain numpy: the oracle of the whole language. It shares nothing with the compiler.

Tensors are dense arrays, filled with their fill value where nothing is stored; functions are numpy's, of numpy's result
types. A number in the text takes the type of what it meets.

**Ranges.** An index that stands alone as a subscript has that extent; all such extents agree (within one access, as in
`A[i, i]`, the least counts). The extents of slices and shape operators follow, and those of results
that are made: see `reach` in oracle/ranges.py. Any other index has the range that
conditions, and the extents of what it is a part of a subscript of, leave it. An index has one range in a statement, or
in the whole body of its loop; `sizes` gives those that nothing else does.

**Reads outside.** A point at which a tensor is read outside of it is not part of a reduction: a function has no value
there, a sum or a difference that of its other term, the reduction leaves it out, `where` looks at the branch that it
takes, and `coalesce` has the value of its first argument that is read inside. In reductions other than sums, and in
what `coalesce` catches, a sum has no value either where one of its terms has none. Outside of reductions the fill is
read. Values as subscripts (gathers, scatters) that lie outside are an error, within `coalesce` they are reads outside.

**Implicit sums.** In each additive term (products multiplied out as far as their terms differ in this) the indices that
stand only on the right are summed; updates by other functions are made once for each value, in the order of the points.

**Reductions** run over all of the range, fills count, from the first point to the last, as numpy's `ufunc.reduce` has
it: `subtract(j: x[j])` is x[0] - x[1] - x[2]. Over nothing the result is the identity of the operator, 0 where there is
none; `argmin` and `argmax` have no value there. First among equals wins, as in numpy.

**Assignments.** `=` gives all places of the target a value: those that the statement does not compute get the fill of
the result, which is that of `fills`, or what constants and fills alone say that the expression is on the fills; else 0,
as where indices, dense tensors or the extents of a sum say it, and for sums of products of tensors whose fill is 0.
What several points give to one place is added up; where values are subscripts, the last one wins. In a loop these are
the places of the iteration: what its subscripts are for all values of the indices that no loop has, whether a condition
holds or not. Where the target has slices (or, in a loop, values) as subscripts only the places that are computed
change. Updates change what they compute, one point after another. A statement reads what was before it, but for places
of its target that other points of it write: there it reads what these give, which is a recurrence. Those of which the
values need each other have no meaning.

**What is not stored.** In tensors that `fills` names, an entry that equals the fill is not stored (or `stored` says
which are). A value that is made of such fills alone and is 0 makes a product 0, and a quotient or remainder of which it
is the dividend, whatever the other factor is: 0 times inf is 0 there. So does what is read outside. The product of
fills alone is numpy's. One that is infinite stays so, whatever is added. Of a choice that counts which it takes. A
reduction is a number as any other. Where the target is dense, and the value divides or adds to such an infinity
outside of reductions, it is as in numpy.

Loops run one index after another in the order in which they are written, ascending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from spfgen.facts.formula import Expr, conjuncts, variables
from spfgen.ir import rewrite
from spfgen.lang import nodes as n
from spfgen.lang.blocks import all_steps
from spfgen.lang.oracle.functions import BreakLoop, converted, is_literal, operator_of, plain
from spfgen.lang.oracle.names import IndexRenamer
from spfgen.lang.oracle.tree import index_names, indices_in_order, nodes_of, used_in
from spfgen.lang.oracle.values import Evaluator, Frame
from spfgen.lang.products import first_beyond
from spfgen.lang.uses import divides, leaves_the_rest, outside_of_reductions

Array = npt.NDArray[Any]


def interpret(
    program: n.Kernel | Sequence[Any],
    tensors: Mapping[str, npt.ArrayLike],
    fills: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    stored: Mapping[str, npt.ArrayLike] | None = None,
) -> dict[str, Array]:
    """The targets after the kernel, or the steps, has run; nothing that is passed is modified.

    `tensors` are the operands; targets that are not among them, and local tensors, are made: their extents follow from
    the statements, they are filled with their fill value, and they have the type of what is assigned. `fills` names
    the tensors that are not dense. Raises ValueError where the program has no meaning for these tensors.
    """
    copies = {k: np.array(v) for k, v in tensors.items()}
    kept = {k: np.asarray(v, bool) for k, v in (stored or {}).items()}
    run, unique = Interpreter.prepared(program, copies, fills, sizes, kept)
    return run.carried_out(program, unique)


def numbers_of(program: n.Kernel | Sequence[Any], steps: Sequence[Any], given: Mapping[str, int]) -> set[str]:
    """The names of sizes: those that a kernel declares, or its tensors' extents; in plain steps, what is given and no
    index for sure."""
    if isinstance(program, n.Kernel):
        extents = [e for t in program.tensors for e in t.extents or ()]
        return set(program.sizes).union(*map(variables, extents))
    return given.keys() - index_names(steps)


def constants_of(steps: Sequence[Any]) -> dict[str, Any]:
    """The values of scalars that nothing changes."""
    every = [*all_steps(steps)]
    names = [s.name for s in every if isinstance(s, n.Let | n.Set)]
    return {s.name: s.value for s in every if isinstance(s, n.Let) and names.count(s.name) == 1}


class Interpreter(Evaluator):
    """The steps, one after another."""

    @classmethod
    def prepared(
        cls,
        program: n.Kernel | Sequence[Any],
        tensors: Mapping[str, Any],
        fills: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        stored: Mapping[str, Any] | None = None,
    ) -> tuple[Self, tuple[Any, ...]]:
        """What `interpret` is to carry out, on these very arrays: extents of indices are known, and names unique."""
        steps = program.statements if isinstance(program, n.Kernel) else tuple(program)
        declared = {t.name: t for t in program.tensors} if isinstance(program, n.Kernel) else {}
        names = program.sizes if isinstance(program, n.Kernel) else ()
        given = {k: int(v) for k, v in (sizes or {}).items()}
        numbers = numbers_of(program, steps, given)
        run = cls(
            dict(tensors),
            dict(fills or {}),
            {k: v for k, v in given.items() if k in numbers},
            {k: v for k, v in given.items() if k not in numbers},
            declared,
        )
        run.stored = dict(stored or {})
        run.lets = constants_of(steps)
        run.read_extents()
        missing = [s for s in names if s not in run.sizes]
        if missing:
            raise ValueError(f"expected a number for size {', '.join(missing)}")
        with np.errstate(all="ignore"):
            unique = IndexRenamer(frozenset(run.sizes)).steps(steps, {})
            run.prepare(unique)
        return run, tuple(unique)

    def carried_out(self, program: n.Kernel | Sequence[Any], unique: Sequence[Any]) -> dict[str, Array]:
        """The targets, without those that the kernel has for itself."""
        with np.errstate(all="ignore"):
            try:
                self.steps(unique, Frame(), {})
            except BreakLoop:
                raise ValueError("expected `break` within a loop") from None
        local = {t.name for t in program.tensors if t.local} if isinstance(program, n.Kernel) else set()
        targets = {s.target.tensor for s in all_steps(unique) if isinstance(s, n.Statement)}
        return {t: self.tensors[t] for t in targets - local}

    def steps(self, steps: Sequence[Any], frame: Frame, scalars: dict[str, Any]) -> None:
        known = set(scalars)
        for step in steps:
            self.step(step, frame, scalars)
        for name in set(scalars) - known:
            del scalars[name]

    def step(self, step: Any, frame: Frame, scalars: dict[str, Any]) -> None:
        match step:
            case n.Statement():
                self.statement(step, frame, scalars)
            case n.Let(name, value):
                evaluated = self.summed(value, frame, scalars, "=", None, None)
                scalars[name] = plain(evaluated.value)
                self.absent_lets[name] = evaluated.absent if name in self.lets else False
            case n.Set(name, op, value, _, function):
                assigned = self.scalar(value, frame, scalars, op, function)
                if op != "=":
                    assigned = self.apply(operator_of(op), function, (scalars[name], assigned))
                scalars[name] = plain(assigned)
            case n.If(condition, then, otherwise):
                self.steps(then if self.truth(condition, frame, scalars) else otherwise, frame, scalars)
            case n.While(condition, body):
                self.repeating += 1
                try:
                    while self.truth(condition, frame, scalars):
                        self.steps(body, frame, scalars)
                except BreakLoop:
                    pass
                self.repeating -= 1
            case n.For(indices, body, where):
                try:
                    for values in product(*(range(*self.range_of(i)) for i in indices)):
                        inner = frame.with_indices({i: np.array(v) for i, v in zip(indices, values, strict=True)})
                        if where is None or bool(self.formula(where, inner.indices)):
                            self.steps(body, inner, scalars)
                except BreakLoop:
                    pass
            case n.Break():
                raise BreakLoop
            case _:
                raise ValueError(f"expected a step of a kernel, not {type(step).__name__}")

    def scalar(self, value: Any, frame: Frame, scalars: Any, op: str = "=", function: Any = None) -> Any:
        return plain(self.summed(value, frame, scalars, op, function, None).value)

    def truth(self, condition: Any, frame: Frame, scalars: Any) -> bool:
        return bool(np.asarray(self.value(condition, frame, scalars).value).all())

    def statement(self, step: n.Statement, frame: Frame, scalars: dict[str, Any]) -> None:
        target = self.tensors[step.target.tensor]
        free = [i for i in indices_in_order(step.target) if i not in frame.indices and i not in self.sizes]
        inner = frame.extended([(i, *self.range_of(i)) for i in free])
        for part in conjuncts(step.where) if step.where is not None else ():
            if variables(part) <= {*inner.indices, *self.sizes}:
                inner = replace(inner, mask=inner.mask & self.formula(part, inner.indices))
        value = self.apart(step, frame, inner)
        if value is None:
            self.tensors[step.target.tensor] = self.computed(step, step.value, frame, inner, scalars, target)
        else:
            self.recurrence(step, value, frame, inner, scalars)

    def computed(
        self, step: n.Statement, what: Any, frame: Frame, inner: Frame, scalars: dict[str, Any], target: Array
    ) -> Array:
        """The target after the statement, which stores the value `what`."""
        exact = self.is_exact(step, frame)
        frame, inner = replace(frame, exact=exact), replace(inner, exact=exact)
        if step.op in ("=", "+=", "subtract"):
            result_of_value = self.summed(what, inner, scalars, step.op, step.function, step.where)
        else:  # once for each value
            inner = self.with_free(what, inner, step.where)
            result_of_value = self.value(what, inner, scalars)
        places, inside = self.places(step.target, target.shape, inner, scalars)
        mask = np.broadcast_to(np.asarray(inside & inner.mask), inner.shape)
        count = int(np.count_nonzero(mask))
        chosen = tuple(np.broadcast_to(p, inner.shape)[mask] for p in places)
        at = np.ravel_multi_index(chosen, target.shape) if chosen and count else np.zeros(count, np.int64)
        value: Any = np.broadcast_to(np.asarray(result_of_value.value), inner.shape)[mask]
        if is_literal(result_of_value.value):
            value = result_of_value.value  # a literal takes the type of the target
        if step.within:
            kept = self.is_stored(step.target.tensor).reshape(-1)[at]
            at, value = at[kept], value[kept] if isinstance(value, np.ndarray) else value
        result = target.copy()
        flat = result.reshape(-1)
        if step.op == "=":
            of_iteration = tuple(np.broadcast_to(p, inner.shape)[np.broadcast_to(inside, inner.shape)] for p in places)
            self.clear(step, result, of_iteration if frame.indices else None, frame)
            added = all(isinstance(s, Expr) for s in step.target.subscripts) and len(np.unique(at)) < len(at)
            if added:
                total = np.zeros(flat.shape, np.asarray(value).dtype)
                np.add.at(total, at, value)
                value = total[at]
            flat[at] = converted(value, result.dtype)
        else:
            self.update(flat, at, value, step)
        return result

    def apart(self, step: n.Statement, frame: Frame, inner: Frame) -> Any:
        """The value with the target at the point itself under another name, as it was before, if it reads the target
        elsewhere, too, and has points of its own; else None."""
        name = step.target.tensor
        before = replace(step.target, tensor=f"{name} before")
        reads = [v for v in nodes_of(step.value) if isinstance(v, n.Access) and v.tensor == name]
        has_values_as_subscripts = any(not isinstance(s, Expr | n.Range) for s in step.target.subscripts)
        if (
            has_values_as_subscripts
            or inner.indices.keys() == frame.indices.keys()
            or all(r == step.target for r in reads)
        ):
            return None
        self.tensors[before.tensor] = self.tensors[name].copy()
        if name in self.fills:
            self.fills[before.tensor] = self.fills[name]
        if name in self.stored:
            self.stored[before.tensor] = self.stored[name]
        return rewrite(lambda v: before if v == step.target else None, step.value)

    def recurrence(self, step: n.Statement, value: Any, frame: Frame, inner: Frame, scalars: dict[str, Any]) -> None:
        """The values of which each follows from others: repeated until nothing changes. What no point of the statement
        writes is read as it was before."""
        name = step.target.tensor
        old = self.tensors[name].copy()
        places, inside = self.places(step.target, old.shape, inner, scalars)
        here = np.broadcast_to(np.asarray(inside & inner.mask), inner.shape)
        written = np.zeros(old.shape, bool)
        written[tuple(np.broadcast_to(p, inner.shape)[here] for p in places)] = True
        current = old
        for _ in range(old.size + 2):
            self.tensors[name] = np.where(written, current, old)
            updated = self.computed(step, value, frame, inner, scalars, old)
            if np.array_equal(updated, current, equal_nan=updated.dtype.kind in "fc"):
                self.tensors[name] = updated
                return
            current = updated
        raise ValueError(f"{name}: expected values that follow from one another, but they need each other")

    def is_exact(self, step: n.Statement, frame: Frame) -> bool:
        """Whether what is not stored is a number as any other: see «What is not stored» above."""
        of_infinities = divides(step.value) or self.adds_infinities(step.value, frame)
        return step.target.tensor not in self.fills and of_infinities

    def adds_infinities(self, value: Any, frame: Frame) -> bool:
        """Whether something is added, outside of reductions, to what is infinite on the fills."""
        sums = [v for v in outside_of_reductions(value) if isinstance(v, n.Apply) and v.op in ("add", "subtract")]
        fills = [self.on_fills(a, frame) for v in sums if v.function is None for a in v.arguments]
        return any(f is not None and bool(np.isinf(f)) for f in fills)

    def with_free(self, value: Any, frame: Frame, where: Any) -> Frame:
        """The frame with an axis for each index that stands only on the right, as far as the condition goes."""
        more = self.free(value, frame)
        inner = replace(frame.extended([(i, *self.range_of(i)) for i in more]), exact=frame.exact)
        for part in conjuncts(where) if where is not None else ():
            if variables(part) & set(more):
                inner = replace(inner, mask=inner.mask & self.formula(part, inner.indices))
        return inner

    def clear(self, step: n.Statement, result: Array, places: Any, frame: Frame) -> None:
        """The places (None: all) that the statement has not computed get the fill value."""
        subscripts = step.target.subscripts
        if step.within or leaves_the_rest(step):
            return
        if any(not isinstance(s, Expr) for s in subscripts) and (frame.indices or self.repeating):
            return
        fill = self.cleared(step, frame)
        result[... if places is None else places] = converted(np.asarray(fill), result.dtype)

    def cleared(self, step: n.Statement, frame: Frame) -> Any:
        """The value of places that an assignment does not compute."""
        name = step.target.tensor
        if name in self.fills:
            return self.fills[name]
        return 0 if self.is_plain(step) or self.is_summed(step, frame) else self.fill_of(step.value, frame)

    def is_summed(self, step: n.Statement, frame: Frame) -> bool:
        """Whether something that is not 0 on the fills is summed: how often is no constant."""
        at_target = frame.with_indices({i: np.zeros(()) for i in used_in(step.target)})
        return any(self.free(t, at_target) and self.fill_of(t, frame) != 0 for t in self.terms(step.value, at_target))

    def is_plain(self, step: n.Statement) -> bool:
        """Whether it is a sum of products of tensors that are 0 where nothing is stored: so is the result."""
        read = {v.tensor for v in nodes_of(step.value) if isinstance(v, n.Access)}
        return first_beyond([step]) is None and all(self.fills.get(t, 0) == 0 for t in read)

    def update(self, flat: Array, at: Array, value: Any, step: n.Statement) -> None:
        """The places updated, one point after another where a place is met again."""
        op = operator_of(step.op)
        if len(np.unique(at)) == len(at):
            flat[at] = converted(self.apply(op, step.function, (flat[at], value)), flat.dtype)
            return
        for point, place in enumerate(at):
            operand = value[point] if isinstance(value, np.ndarray) else value
            flat[place] = converted(self.apply(op, step.function, (flat[place], operand)), flat.dtype)
