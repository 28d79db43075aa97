"""Plans to C: one case per node, nothing is decided here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce

from spfgen import tuning
from spfgen.cir.lower import (
    accumulators,
    entries,
    finds,
    flatten,
    from_steps,
    hoist,
    levels,
    parallel,
    placing,
    sums,
    variants,
)
from spfgen.cir.lower.clearing import cleared, cleared_between
from spfgen.cir.lower.cost import cost_expr, named
from spfgen.cir.lower.layout import field_name
from spfgen.cir.lower.parallel import privatised
from spfgen.cir.lower.scope import Accumulator, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.transpose import transpose
from spfgen.cir.lower.unroll import unrolled
from spfgen.cir.lower.wide import wide_type, widened
from spfgen.cir.lower.workspaces import given_back, taken
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree import openmp
from spfgen.cir.tree.build import INT, any_of, downwards, joined, loop
from spfgen.cir.tree.elements import converted, zero
from spfgen.cir.tree.names import Names
from spfgen.cir.tree.print import print_expr
from spfgen.errors import InternalError
from spfgen.facts.formula import ZERO, Bin, Expr, Not, Num, Var, calls, substitute
from spfgen.ir import walk
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.analyse.cost import over, plus, times
from spfgen.plan.nodes import (
    EACH,
    PLANS,
    STATEMENTS,
    Accumulate,
    Append,
    Block,
    BoundSearch,
    Clear,
    Find,
    FindTable,
    Guard,
    InPlace,
    LevelLoop,
    Load,
    Needs,
    Plan,
    Prefetch,
    Products,
    Reach,
    RowWorkspace,
    Scan,
    SearchState,
    Segment,
    SkipZero,
    Store,
    Transpose,
    Versions,
    is_temporary,
    stores_in,
)
from spfgen.plan.transform.prefetch import places_of
from spfgen.sets.affine import Affine, NotAffine
from spfgen.sets.uf import linear
from spfgen.space.nodes import Monoid, Operand, Program, size_values

SHAPE_ERROR, NULL_ERROR = "SPFGEN_ERROR_SHAPE", "SPFGEN_ERROR_NULL"


@dataclass(frozen=True)
class Lowered:
    """The kernel's function, what it calls, and the names in it: those of arrays of values, with their types, and those
    of index arrays."""

    function: c.Function
    called: tuple[c.Function, ...]
    names: Names
    values: Mapping[c.Expr, str]
    indices: tuple[str, ...]
    rooms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The functions that make room for the entries of a result, which the kernel's function calls."""


def lower(program: Program, plans: Sequence[Plan]) -> Lowered:
    """The kernel. `plans` are those of its statements, one for each or one for all."""
    lowering = KernelLowering(program, plans)
    function = lowering.function()
    names = lowering.array_names
    indices = tuple(names[t.name, a] for t in program.tensors for a, f in t.arrays if f == f"{t.name}.{a}")
    values: dict[c.Expr, str] = {
        c.Name(names[t.name, v.name]): TYPES[t.value_type].c for t in program.tensors for v in t.layout.values
    }
    return Lowered(function, tuple(lowering.functions.made), lowering.names, values, indices, lowering.rooms)


class KernelLowering(Lowering):
    """Writes a kernel's function: each node of the plan goes to the part that knows its C."""

    # --- the function ----------------------------------------------------------------------------

    def function(self) -> c.Function:
        nests = [s for p in self.plans for s in self.statement(p)]
        params = [self.param(t.name) for t in self.program.tensors]
        params += [c.Param(INT, self.names[s], "size") for s in self.program.parameters]
        params.append(c.Param("int", "threads", "threads to use; 0 or less leaves the choice to OpenMP"))
        params += levels.params(self)
        memory = taken(self.workspaces)
        threads = self.threads([*memory, *nests])  # may speak of sizes that the nests do not need
        free = [*entries.rows_freed(self), *given_back(self.workspaces)]
        early = [*named([*threads, *self.choices], self.names), *memory]
        extents, nests = _moved(early, nests)
        statements_inside = [*extents, *early, *nests, *free]
        used = {
            n.name for s in statements_inside for n in walk(s) if isinstance(n, c.Name)
        }  # templates may leave something out
        statements_inside = [*self.missing(used), *statements_inside]
        used = {n.name for s in statements_inside for n in walk(s) if isinstance(n, c.Name)}
        fields = [s for s in self.prologue() if not isinstance(s, c.Declare) or s.name in used]
        unused = [self.names[s] for s in self.program.parameters if self.names[s] not in used]
        fields += [c.Do(c.Cast("void", c.Name(name))) for name in unused]
        end: c.Expr = c.Name("SPFGEN_OK")
        if self.missing_memory:
            statements_inside = [
                c.Declare("bool", self.missing_memory, c.Name("false")),
                *self.table_lines,
                *statements_inside,
                *self.frees,
            ]
            end = c.Select(c.Name(self.missing_memory), c.Name("SPFGEN_ERROR_MEMORY"), end)
        statements_inside += entries.failed(self, used)
        statements_inside = [
            *(c.Declare("int", s.name, c.Name("SPFGEN_OK")) for s in self.statuses),
            *statements_inside,
        ]
        for status in self.statuses:
            end = c.Select(c.Bin("!=", status, c.Name("SPFGEN_OK")), status, end)
        for name, error in self.refused.items():
            end = c.Select(c.Name(name), c.Name(error), end)
        body = [*self.checks(), *fields, *statements_inside, c.Return(end)]
        statements = self.program.steps.text
        doc = f"{self.program.doc}\n\n{statements}" if self.program.doc else statements
        errors = " or ".join(self.refused.values())
        doc += "\n\nReturns SPFGEN_OK or an error code. "
        doc += f"After {errors} the results are incomplete; after any other error" if errors else "After an error"
        doc += " nothing has been written."
        return c.Function("int", self.program.name, tuple(params), c.Block(tuple(body)), doc)

    def param(self, name: str) -> c.Param:
        tensor = self.program.tensor(name)
        const = "" if tensor.is_output else "const "
        role = "result" if tensor.is_output and not tensor.is_input else "operand"
        if tensor.shared_with and tensor.is_output and not tensor.copied:
            role += f", which has index arrays of {tensor.shared_with}: its values are written"
        return c.Param(f"{const}{self.structs[name].name} *", self.names.tensors[name], role)

    def checks(self) -> list[c.Stmt]:
        """Null pointers and shapes that do not fit are errors of the caller, reported before anything is written."""
        missing = [c.Un("!", c.Name(self.names.tensors[t.name])) for t in self.program.tensors]
        result: list[c.Stmt] = [c.If(any_of(missing), c.Return(c.Name(NULL_ERROR)))]
        wrong: list[c.Expr] = []
        for size, places in self.program.sizes.readings.items():
            fields = [self.size_field(t, f) for t, f in places]
            if size in self.program.sizes.fixed:
                wrong += [c.Bin("!=", f, c.Int(self.program.sizes.fixed[size])) for f in fields]
            elif fields:
                wrong += [c.Bin("!=", fields[0], f) for f in fields[1:]]
            wrong += [c.Bin("<", f, c.Int(0)) for f in fields[:1]]
        for first, *others in self.program.sizes.agreements:
            wrong += [c.Bin("!=", self.least(first), self.least(group)) for group in others]
        if wrong:
            result.append(c.If(any_of(wrong), c.Return(c.Name(SHAPE_ERROR))))
        return result

    def least(self, sizes: Sequence[str]) -> c.Expr:
        """The least of some extents, as the operands have them."""
        values = [self.extent(s) for s in sizes]
        result = values[0]
        for value in values[1:]:
            result = c.Call("spfgen_min", (result, value))
        return result

    def missing(self, used: Set[str]) -> list[c.Stmt]:
        """A null pointer to one of the arrays that are used is an error of the caller, unless it has no elements."""
        null: list[c.Expr] = []
        for tensor, array in ((t, a) for t in self.program.tensors for a in t.layout.arrays):
            name = self.array_names.get((tensor.name, array), "")
            if name in used and f"{tensor.name}.{array}" in self.arrays:
                extents = tensor.layout.extents(array)
                lengths = [self.layout_expr(e, tensor.name) for e in extents if _may_be_empty(e)]
                null.append(joined("&&", [c.Un("!", c.Name(name)), *(c.Bin(">", n, c.Int(0)) for n in lengths)]))
        return [c.If(any_of(null), c.Return(c.Name(NULL_ERROR)))] if null else []

    def prologue(self) -> list[c.Stmt]:
        """Sizes and arrays under their own names."""
        result = entries.declared(self)
        for size in self.sizes:
            places = self.program.sizes.readings[size]
            if places:
                result.append(c.Declare(f"const {INT}", self.names[size], self.size_field(*places[0])))
        for tensor in self.program.tensors:
            for value in tensor.layout.values:
                if f"{tensor.name}.{value.name}" in self.arrays:
                    const = "" if tensor.is_output else "const "
                    kind = f"{const}{TYPES[tensor.value_type].c} *restrict"
                    result.append(self.array(kind, tensor.name, value.name))
            for array, kind in tensor.index_types:
                if f"{tensor.name}.{array}" in self.arrays:
                    result.append(self.array(f"const {TYPES[kind].c} *restrict", tensor.name, array))
        return result

    def array(self, kind: str, tensor: str, array: str) -> c.Stmt:
        return c.Declare(
            kind, self.array_names[tensor, array], c.Field(c.Name(self.names.tensors[tensor]), field_name(array))
        )

    def threads(self, nests: Sequence[c.Stmt]) -> list[c.Stmt]:
        if any(
            isinstance(n, c.For) and any("parallel" in p for p in n.pragmas) for s in nests for n in walk(s, c.Stmt)
        ):
            works = [None if nest is plan else work_of(nest) for plan in self.plans for nest in _nests(plan)]
            if all(w is not None for w in works):
                total = plus(*(w for w in works if w is not None), *map(self.clearing, self.plans))
                work = cost_expr(total, self, Scope())
            else:
                work = c.Cast("double", self.values_held())
            return [c.Assign(c.Name("threads"), "=", c.Call("spfgen_threads", (c.Name("threads"), work)))]
        return [c.Do(c.Cast("void", c.Name("threads")))]

    def clearing(self, plan: Plan) -> Expr:
        """About half a nanosecond for each value of what is cleared by a pass of its own, and an eighth of that where
        the loop that adds to it clears it by vectors."""
        total: list[Expr] = []
        each = {n.tensor: 2 if n.part is None else 16 for n in walk(plan, PLANS) if isinstance(n, Clear)}
        loops = (n for n in walk(plan, PLANS) if isinstance(n, Scan | Find) and n.partition is not None)
        each |= {n.partition.clears: 2 for n in loops if n.partition is not None and n.partition.clears}
        for name, count in each.items():
            if name in self.tables:
                continue
            tensor = self.program.tensor(name)
            if tensor.assembled is not None:
                continue
            sizes = size_values(tensor, self.program.sizes.fixed)
            total += [over(times(*(substitute(e, sizes) for e in v.extents)), Num(count)) for v in tensor.layout.values]
        return plus(*total)

    # --- statements ------------------------------------------------------------------------------

    def statement(self, plan: Plan) -> list[c.Stmt]:
        """The plan of a statement, or of all."""
        lines = self.plan(plan, Scope())
        if len(self.plans) == 1 or not isinstance(plan, Products):
            return lines  # the function is about this statement, and says so
        return [c.Comment(plan.asked.group.text), *lines]

    def products(self, plan: Products) -> list[c.Stmt]:
        """A statement that is a sum of products."""
        self.steps = False
        kind = wide_type(self, plan.asked.group, plan.body)
        lines = self.nests(plan.body) if kind is None else widened(self, plan.asked.group, plan.body, kind)
        self.steps = True
        return lines

    def nests(self, plan: Plan) -> list[c.Stmt]:
        """The nests of a statement. One that declares something outside of all its loops gets braces, or two nests
        could clash."""
        alone = all(isinstance(p, Products) for p in self.plans) and sum(len(_nests(p)) for p in self.plans) == 1
        result: list[c.Stmt] = []
        for nest in _nests(plan):
            lines = self.plan(nest, Scope())
            declares = any(isinstance(s, c.Declare) for s in lines)
            result += [c.Braces(c.Block(tuple(lines)))] if declares and not alone else lines
        return result

    def plan(self, plan: Plan, scope: Scope) -> list[c.Stmt]:
        for part in (self.of_loops, self.of_lookups, self.of_values, self.of_results):
            lines = part(plan, scope)
            if lines is not None:
                return lines
        if isinstance(plan, STATEMENTS):
            return from_steps.statement(self, plan, scope)
        if plan.meaning is not None:  # it has no C of its own
            return self.plan(plan.meaning, scope)
        raise InternalError(f"unknown plan node {plan!r}")

    def of_loops(self, plan: Plan, scope: Scope) -> list[c.Stmt] | None:
        """Loops, what runs in them, and which of several versions runs."""
        match plan:
            case Scan():
                return self.scan(plan, scope)
            case Guard(conditions, body, exits=True):
                over = joined("||", [self.condition(Not(f), scope) for f in conditions])
                return [c.If(over, c.Block((c.Break(),))), *self.plan(body, scope)]
            case Guard(conditions, body):
                return [c.If(self.all(conditions, scope), c.Block(tuple(self.plan(body, scope))))]
            case Versions():
                return variants.cheapest(self, plan, scope) if plan.by_cost else variants.versions(self, plan, scope)
            case LevelLoop():
                return levels.levels(self, plan, scope)
            case Needs(value):
                return [levels.pair(self, value, scope)]
            case SkipZero(value, other, additions, body):
                adds = c.Un("!", c.Bin("&&", self.all_finite(other, additions, scope), self.is_zero(value, scope)))
                return [c.Comment(plan.because), c.If(adds, c.Block(tuple(self.plan(body, scope))))]
        return None

    def of_lookups(self, plan: Plan, scope: Scope) -> list[c.Stmt] | None:
        """Where something stands in index arrays."""
        match plan:
            case Find():
                return self.find(plan, scope)
            case Segment(body=body):
                span = f"{self.names[plan.start]} to {self.names[plan.end]}"
                words = f"{span}: the positions with {self.sought(plan, scope)}, by {plan.algorithm}: {plan.because}"
                comment = c.Comment(words)
                return [comment, *finds.segment(self, plan, scope), *self.plan(body, scope)]
            case BoundSearch(body=body):
                return [*finds.bound(self, plan, scope), *self.plan(body, scope)]
            case Reach(body=body):
                lines, reaches = finds.reach(self, plan, scope)
                return [*lines, c.Comment(plan.because), c.If(reaches, c.Block(tuple(self.plan(body, scope))))]
            case SearchState():
                return hoist.state(self, plan, scope)
            case FindTable():
                return hoist.table(self, plan, scope)
        return None

    def of_values(self, plan: Plan, scope: Scope) -> list[c.Stmt] | None:
        """What is read, summed and stored in arrays."""
        match plan:
            case Load(dim, call, body, in_place):
                if in_place:
                    return self.plan(body, scope.inlined(dim, call))
                return [self.declare(dim, self.expr(call, scope)), *self.plan(body, scope)]
            case Prefetch():
                return [self.prefetch(plan, scope), *self.plan(plan.body, scope)]
            case Transpose():
                return transpose(self, plan, scope)
            case Accumulate():
                return accumulators.accumulate(self, plan, scope)
            case Store(monoid=Monoid()):
                return [self.merged(plan, scope)]
            case Store(target, value, op) if op == "+=" or not self.steps:
                stored = self.store(target, op, value, scope)
                is_memory = scope.accumulator(target) is None
                return [openmp.ATOMIC, stored] if scope.atomic and is_memory else [stored]
        return None

    def of_results(self, plan: Plan, scope: Scope) -> list[c.Stmt] | None:
        """What is done with a result as a whole: cleared, filled with entries."""
        match plan:
            case Clear(tensor, part=None, shared=shared):
                return self.clear(tensor, shared)
            case Clear(part=part, body=body) if part is not None and body is not None:
                return [*cleared(self, plan, part, scope), *self.plan(body, scope)]
            case RowWorkspace():
                return entries.gather(self, plan, scope)
            case InPlace():
                from spfgen.cir.lower.placed import target_of  # numpy, which is not needed before

                return target_of(self, plan).both(self, scope)
            case Append():
                return entries.append(self, plan, scope)
            case Products():
                return self.products(plan)
        return None

    def merged(self, plan: Store, scope: Scope) -> c.Stmt:
        """A value combined with what the target has."""
        assert plan.monoid is not None
        kind = TYPES[plan.monoid.type]
        term = from_steps.typed_as(self, plan.value, scope, kind)
        total = scope.accumulator(plan.target)
        if total is None:
            total = Accumulator(self.place(plan.target, scope), self.kinds[plan.target.tensor], monoid=plan.monoid)
        return self.added(total, "=" if total.begins else plan.op, term, kind)

    def added(self, total: Accumulator, op: str, term: c.Expr, kind: ElementType) -> c.Stmt:
        """A value of a type that comes to a total, or is stored there (`=`)."""
        if total.monoid is None or op == "=":
            return self.combine(total.place, op, term, total.type, kind)
        monoid_type = TYPES[total.monoid.type]
        old, new = converted(total.place, total.type, monoid_type), converted(term, kind, monoid_type)
        operator = total.monoid.operator
        if operator.op == "add" and operator.function is None and monoid_type.kind != "b" and monoid_type == total.type:
            return c.Assign(total.place, "+=", new)
        combined = from_steps.combined(self, total.monoid, old, new)
        return c.Assign(total.place, "=", converted(combined, monoid_type, total.type))

    def together(self, first: c.Expr, second: c.Expr, monoid: Monoid | None) -> c.Expr:
        """Two totals as one."""
        return c.Bin("+", first, second) if monoid is None else from_steps.combined(self, monoid, first, second)

    def is_zero(self, value: Operand, scope: Scope) -> c.Expr:
        return c.Bin("==", self.place(value, scope), zero(self.kinds[value.tensor]))

    def all_finite(self, other: Operand, additions: Expr, scope: Scope) -> c.Expr:
        """Whether zero times any value of the array is zero: found out where it takes little beside all additions."""
        kind, values = self.kinds[other.tensor], c.Name(self.array_names[other.tensor, other.array])
        self.arrays[f"{other.tensor}.{other.array}"] = None
        count = joined("*", [self.expr(e, scope) for e in other.extents])
        asked: c.Expr = c.Bin(">", cost_expr(additions, self, scope), c.Cast("double", count))
        if kind.kind == "f":
            asked = c.Bin("&&", asked, c.Call(f"spfgen_finite_{kind.name}", (values, count, c.Name("threads"))))
        why = f"zero times any value of {other.tensor} is zero if all are finite"
        return self.chosen("const bool", f"{other.tensor}_finite", asked, why)

    def clear(self, tensor_name: str, shared: bool = True) -> list[c.Stmt]:
        """Every value of the array becomes zero, a table loses its entries; `shared` by threads: who clears touches
        the memory first."""
        if tensor_name in self.entries:
            return entries.emptied(self, tensor_name)
        if tensor_name in self.tables:
            return [c.Do(c.Call("spfgen_map_clear", (c.Name(self.tables[tensor_name]),)))]
        result: list[c.Stmt] = []
        tensor = self.program.tensor(tensor_name)
        kind = self.kinds[tensor_name]
        for value in tensor.layout.values:
            self.arrays[f"{tensor_name}.{value.name}"] = None
            extents = [self.layout_expr(e, tensor_name) for e in value.extents]
            counter = self.names.new("p")
            target = c.Load(c.Name(self.array_names[tensor_name, value.name]), c.Name(counter))
            if not extents:
                target = c.Load(c.Name(self.array_names[tensor_name, value.name]), c.Int(0))
                result.append(c.Assign(target, "=", zero(kind)))
                continue
            total = joined("*", extents)
            more = c.Bin("<", c.Name(counter), total)
            alone = c.For(INT, counter, c.Int(0), more, 1, c.Assign(target, "=", zero(kind)))
            if not shared:
                result.append(alone)
                continue
            together = replace(alone, pragmas=(openmp.EQUAL_PARTS,))
            several = c.Bin(">", c.Name("threads"), c.Int(1))  # a team of one would still take time to start
            result.append(c.If(several, c.Block((together,)), c.Block((alone,))))
        return result

    def loop(self, plan: Scan | Find, scope: Scope, body: list[c.Stmt], private: str = "") -> c.For:
        name = self.names[plan.dim]
        low = self.fold("spfgen_max", plan.low, scope)
        high = self.fold("spfgen_min", plan.high, scope)
        if isinstance(plan, Scan) and plan.down:
            return downwards(name, low, high, body, pragma_of(plan, private))
        return loop(name, low, high, body, pragma_of(plan, private))

    def scan(self, plan: Scan, scope: Scope) -> list[c.Stmt]:
        if plan.collapse == 1:  # between loops that run as one nothing may stand
            return [self.loop(plan, scope, self.plan(plan.body, replace(scope, looped=True)))]
        comment: list[c.Stmt] = []
        if plan.parallel:
            comment.append(c.Comment(f"parallel over {self.names[plan.dim]}: {plan.because}"))
        if plan.private:
            return [*comment, *privatised.with_own_scalars(self, plan, scope)]
        if plan.parallel and (parallel.needs_parts(plan) or placing.counts_in_lanes(scope)):
            return [*comment, *parallel.on_threads(self, plan, scope)]
        lines = [*cleared_between(self, plan, plan.low, plan.high, scope), *self.whole_scan(plan, scope, comment)]
        return [levels.one_by_one(self.names[plan.dim], lines)] if plan.chained else lines

    def whole_scan(self, plan: Scan, scope: Scope, comment: list[c.Stmt]) -> list[c.Stmt]:
        """A loop that is not in parts."""
        if plan.flatten is not None:
            return [*comment, *flatten.flattened(self, plan, plan.flatten, scope)]
        if plan.vector or plan.unroll:
            in_array = not all(a.variable or a.written_out for a in scope.accumulators.values())
            barrier = [sums.compiler_barrier()] if in_array else []
            inside = replace(scope, looped=True)
            limits = (self.fold("spfgen_max", plan.low, scope), self.fold("spfgen_min", plan.high, scope))
            soon = sums.fetched(self, plan, inside, *limits, some=True, function="spfgen_prefetch_soon")
            return [*comment, *barrier, *soon, *self.as_said(plan, inside)]
        if plan.segment_keys:
            return sums.segmented(self, plan, replace(scope, looped=True))
        if plan.partial not in ("", EACH) and not plan.parallel:
            return sums.partial_sums(self, plan, replace(scope, looped=True))
        lines, of_thread, private, after, inner = self.divided(plan, scope)
        barrier = [sums.compiler_barrier()] if plan.partial == EACH else []
        body = _in_fused([*barrier, *self.plan(plan.body, inner)], of_thread, plan.collapse)
        loop = self.loop(plan, scope, body, private)
        end = self.fold("spfgen_min", plan.high, scope)
        ahead = sums.fetched(self, plan, scope, loop.start, end, some=False)
        return [*comment, *lines, *ahead, loop, *after]

    def as_said(self, plan: Scan, scope: Scope) -> list[c.Stmt]:
        """A loop that the schedule wants vectorized or unrolled."""
        body = self.plan(plan.body, scope)
        if plan.unroll > 1:
            written = unrolled(self, plan, scope, body, plan.unroll)
            return [self.loop(plan, scope, body)] if written is None else written
        if scope.atomic and not any(scope.running(n.target) for n in stores_in(plan.body)):
            plan = replace(plan, vector=False)  # one atomic addition after another
        loop = self.loop(plan, scope, body)
        if plan.pieces:
            return sums.in_pieces(loop, plan.pieces)
        totals = [scope.running(n.target) for n in stores_in(plan.body)] if plan.vector else []
        names = dict.fromkeys(t.variable for t in totals if t is not None)
        return [replace(loop, pragmas=(sums.vector(names),)) if names else loop]

    def divided(self, plan: Scan | Find, scope: Scope) -> tuple[list[c.Stmt], list[c.Stmt], str, list[c.Stmt], Scope]:
        """What each thread has for itself in a loop, if that is parallel: lines above it and in it, the clause for the
        pragma, lines after it, the scope inside."""
        inner = replace(scope, looped=True)
        if not plan.parallel:
            return [], [], "", [], inner
        lines, inner = self.started(replace(inner, thread=openmp.HERE))
        of_thread: list[c.Stmt] = [
            s for s in lines if isinstance(s, c.Declare) and "*" in s.type
        ]  # its part of an array
        names = [s.name for s in lines if isinstance(s, c.Declare) and s not in of_thread]
        private = openmp.own_copies(names) if names else ""
        above = [s for s in lines if s not in of_thread]
        names, threads = entries.appended(plan), c.Name("threads")
        more, after, inner = entries.divided(self, names, threads, openmp.HERE, inner)
        return above, [*of_thread, *more], private, after, inner

    def started(self, scope: Scope) -> tuple[list[c.Stmt], Scope]:
        """The states that this parallel loop carries, one for each thread, which runs its iterations in order."""
        lines: list[c.Stmt] = []
        for state in scope.waiting:
            more, kept = hoist.find_state(self, state, scope, seated=False, once=True)
            lines += more
            scope = replace(scope, states={**scope.states, state.name: kept})
        return lines, replace(scope, waiting=())

    def prefetch(self, plan: Prefetch, scope: Scope) -> c.Stmt:
        later = c.Bin("+", c.Name(self.names[plan.dim]), c.Int(plan.ahead))
        there = c.Bin("<", later, self.fold("spfgen_min", plan.high, scope))
        name = self.names.new(f"{self.names[plan.position]}_ahead")
        self.names.table[name] = name
        lines: list[c.Stmt] = [c.Declare(f"const {INT}", name, self.expr(plan.start, scope))]
        for array in plan.arrays:
            first = substitute(array, {plan.position: Var(name)})
            read = self.place(first, scope) if isinstance(first, Operand) else self.expr(first, scope)
            assert isinstance(read, c.Load)
            call = c.Call("spfgen_prefetch", (c.Un("&", read),))
            if any(calls(e) for e in places_of(first)):  # what is stored where there is no iteration may be no place
                index = c.Cast(INT, read.index) if isinstance(read.index, c.Load) else read.index
                size = c.Int(self.element_type(first).bytes)
                call = c.Call("spfgen_prefetch_soon", (read.array, c.Bin("*", index, size)))
            lines.append(c.Do(call))
        about = c.Comment(f"what a later {self.names[plan.dim]} reads first is fetched")
        return c.If(there, c.Block((about, *lines)))

    def find(self, plan: Find, scope: Scope) -> list[c.Stmt]:
        """`found` is kept only where a miss has something to do."""
        hit_flag = self.names.new("found") if plan.miss is not None else None
        before: list[c.Stmt] = [] if hit_flag is None else [c.Declare("bool", hit_flag, c.Name("false"))]
        loops = self.plain_loop(plan, scope, hit_flag) if plan.key is None else self.keyed(plan, scope, hit_flag)
        after: list[c.Stmt] = []
        if hit_flag is not None and plan.miss is not None:
            after.append(c.If(c.Un("!", c.Name(hit_flag)), c.Block(tuple(self.plan(plan.miss, scope)))))
        return [*before, *loops, *after]

    def keyed(self, plan: Find, scope: Scope, hit_flag: str | None) -> list[c.Stmt]:
        """A find of one value, by the template of its algorithm; without one every position is compared."""
        assert plan.key is not None
        template = finds.TEMPLATES.get(plan.algorithm)
        if template is None and plan.meaning is not None:
            return self.plain_loop(plan.meaning, scope, hit_flag)
        assert template is not None
        call = plan.calls()[plan.key.dim]
        lines, wanted = finds.sought(self, plan.dim, plan.low, plan.high, call, plan.key, scope)
        inner = replace(scope, looped=True)
        if plan.algorithm == "scatter":
            built = scope.tables[plan.place]
            assert built.table.values is not None
            values = replace(built.table.values, place=(Var(plan.dim),), subscripts=())
            inner = replace(inner, copied={**scope.copied, values: c.Load(built.arrays["workspace"], wanted.value)})

        def hit() -> list[c.Stmt]:
            return self.hits(plan, inner, hit_flag)[0]

        name = c.Name(self.names[plan.dim])
        text = print_expr(c.Bin("==", wanted.at(name), wanted.value))
        comment = c.Comment(f"find {name.name} with {text} by {plan.algorithm}: {plan.because}")
        loops = template(self, plan, scope, wanted, hit)
        return [*_used_lines(lines, plan), comment, *loops]

    def sought(self, plan: Segment, scope: Scope) -> str:
        loaded = self.expr(plan.call, scope)
        return print_expr(c.Bin("==", loaded, self.expr(plan.key.value, scope)))

    def hits(self, plan: Find, scope: Scope, hit_flag: str | None) -> tuple[list[c.Stmt], Scope]:
        """What runs at a position that passes the key: loads, conditions, the hit; and where values are inlined."""
        body: list[c.Stmt] = []
        for loaded in plan.loads:
            if loaded.in_place or (plan.key is not None and plan.key.dim == loaded.dim):
                scope = scope.inlined(loaded.dim, loaded.call)
        for dim, call in plan.loads:
            if dim not in scope.inline:
                body.append(self.declare(dim, self.expr(call, scope)))
        hit = self.plan(plan.hit, scope)
        if hit_flag is not None:
            hit = [c.Assign(c.Name(hit_flag), "=", c.Name("true")), *hit]
        if plan.conditions:
            return [*body, c.If(self.all(plan.conditions, scope), c.Block(tuple(hit)))], scope
        return [*body, *hit], scope

    def plain_loop(self, plan: Find, scope: Scope, hit_flag: str | None) -> list[c.Stmt]:
        if plan.parallel and parallel.needs_parts(plan):
            return parallel.on_threads(self, plan, scope)
        lines, of_thread, private, after, within = self.divided(plan, scope)
        body, inner = self.hits(plan, within, hit_flag)
        keys = print_expr(self.all(plan.conditions, inner))
        comment = c.Comment(f"find {self.names[plan.dim]} with {keys} by {plan.algorithm}: {plan.because}")
        return [comment, *lines, self.loop(plan, scope, [*of_thread, *body], private), *after]


def _moved(early: Sequence[c.Stmt], nests: Sequence[c.Stmt]) -> tuple[list[c.Stmt], list[c.Stmt]]:
    """What the nests declare outside of all loops and what stands before them speaks of, as extents; and the rest."""
    declared = {s.name: s for s in nests if isinstance(s, c.Declare)}
    asked, wanted = list(early), set[str]()
    while asked:
        names = {n.name for n in walk(asked.pop()) if isinstance(n, c.Name)} & declared.keys() - wanted
        wanted |= names
        asked += [declared[n] for n in names]
    first: list[c.Stmt] = [s for s in nests if isinstance(s, c.Declare) and s.name in wanted]
    return first, [s for s in nests if not isinstance(s, c.Declare) or s.name not in wanted]


def _in_fused(body: list[c.Stmt], of_thread: list[c.Stmt], loops: int) -> list[c.Stmt]:
    """The body of a loop, which begins with what each thread has of its own: inside of all loops that run as one."""
    if loops <= 1 or not of_thread:
        return [*of_thread, *body]
    *others, last = body
    assert isinstance(last, c.For)
    inner = list(last.body.statements) if isinstance(last.body, c.Block) else [last.body]
    return [*others, replace(last, body=c.Block(tuple(_in_fused(inner, of_thread, loops - 1))))]


def pragma_of(plan: Scan | Find, private: str) -> str:
    """How a loop runs: what stands above it."""
    if not isinstance(plan, Scan):
        return openmp.parallel_for("threads", "static", private) if plan.parallel else ""
    if plan.parallel:
        return openmp.parallel_for("threads", "static", private, plan.vector, plan.collapse)
    if plan.vector:
        return openmp.SIMD
    return openmp.unroll(min(plan.unroll, tuning.MOST_UNROLLED)) if plan.unroll else ""


def work_of(plan: Plan) -> Expr | None:
    """The nanoseconds that a nest takes, if that is known; of variants the least, as the fastest is expected to run."""
    if isinstance(plan, Versions) and plan.by_cost:
        works = [work_of(v.body) for v in plan.versions]
        known = dict.fromkeys(w for w in works if w is not None)
        return None if None in works else reduce(lambda a, b: Bin("min", a, b), known)
    if isinstance(plan, Block):
        parts = [work_of(p) for p in plan.parts]
        return None if None in parts else plus(*(p for p in parts if p is not None))
    if any(isinstance(n, LevelLoop) or is_temporary(n) for n in walk(plan, PLANS)):
        return None
    partition = next(
        (n.partition for n in walk(plan, PLANS) if isinstance(n, Scan | Find) and n.partition is not None), None
    )
    return ZERO if partition is None else partition.work


def _nests(plan: Plan) -> tuple[Plan, ...]:
    """The loop nests and clearings of a statement."""
    if not isinstance(plan, Products):
        return (plan,)
    return plan.body.parts if isinstance(plan.body, Block) else (plan.body,)


def _used_lines(lines: list[c.Stmt], plan: Find) -> list[c.Stmt]:
    """A find that goes by the key alone has no use for the end of the range."""
    if plan.algorithm not in ("hash map", "position array", "bitmap", "scatter"):
        return lines
    return [s for s in lines if not (isinstance(s, c.Declare) and s.name.endswith("_end"))]


def _at_least(least: int, value: Affine) -> bool:
    """Whether it is, whatever the sizes are, which are not negative."""
    natural = (isinstance(a, str) or _at_least(0, a.numerator) for a, _ in value.terms)
    return value.constant >= least and all(k > 0 for _, k in value.terms) and all(natural)


def _may_be_empty(extent: Expr) -> bool:
    """Whether there are sizes with which it is 0."""
    try:
        return not _at_least(1, linear(extent))
    except NotAffine:
        return True
