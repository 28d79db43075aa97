"""Values, places in arrays, integers and conditions of a kernel as C."""

from __future__ import annotations

from collections.abc import Sequence

from spfgen.cir.lower.scope import Scope
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, folded, joined, linear_index, operation
from spfgen.cir.tree.elements import constant, converted, zero
from spfgen.cir.tree.names import Names
from spfgen.errors import InternalError
from spfgen.facts.formula import NEGATED, And, Bin, Call, Compare, Expr, Formula, Not, Num, Or, Var, substitute
from spfgen.ir import walk
from spfgen.lang.nodes import Apply, Constant
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.analyse import value_types
from spfgen.plan.nodes import Plan
from spfgen.space.nodes import Operand, Program, Read, Value, size_values


class ValueLowering:
    """Names and element types of what a kernel reads and stores; which of its sizes and arrays are used is noted."""

    def __init__(self, program: Program, names: Names) -> None:
        self.program = program
        self.names = names
        self.arrays: dict[str, None] = {}
        self.sizes: dict[str, None] = {}
        self.array_names: dict[tuple[str, str], str] = {}
        self.fields: dict[str, c.Expr] = {}
        """What stands for sizes, and for arrays by their names, of tables that change while they are read."""
        self.made: dict[str, tuple[str, str]] = {}
        """Index arrays that the kernel makes: their C names and types."""
        self.ranks: dict[str, int] = {}
        """The second extents of those that have two."""
        self.types = {t.name: t.value_type for t in (*program.tensors, *program.temporaries)}
        self.kinds = {t.name: TYPES[t.value_type] for t in (*program.tensors, *program.temporaries)}
        for tensor in program.tensors:
            for value in tensor.layout.values:
                self.array_names[tensor.name, value.name] = names.new(f"{tensor.name}_{value.name}")
            for array, function in tensor.arrays:
                if function == f"{tensor.name}.{array}":
                    self.array_names[tensor.name, array] = names.new(f"{tensor.name}_{array}")

    # --- values ----------------------------------------------------------------------------------

    def store(self, target: Operand, op: str, value: Value, scope: Scope) -> c.Stmt:
        target_type = self.kinds[target.tensor]
        kind = self.value_type(value, target_type)
        term = self.value(value, scope, kind)
        for operand, copy in scope.copied.items():
            element = TYPES[self.types[operand.tensor]]
            if (
                element.kind == "f"
                and not scope.numbers
                and operand in [n.operand for n in walk(value) if isinstance(n, Read)]
            ):
                if kind == element:
                    term = c.Call(f"spfgen_stored_{element.name}", (copy, term))
                else:
                    test = c.Call(f"spfgen_stored_{element.name}", (copy, constant(1, element)))
                    term = c.Select(c.Bin("!=", test, constant(0, element)), term, zero(kind))
        kept = scope.accumulator(target)
        if kept is not None and kept.falls:
            return c.Assign(kept.place, "-=", converted(term, kind, kept.type))
        if kept is not None:
            return self.combine(kept.place, "+=", term, kept.type, kind)
        return self.combine(self.place(target, scope), op, term, target_type, kind)

    def combine(self, place: c.Expr, op: str, term: c.Expr, place_type: ElementType, kind: ElementType) -> c.Stmt:
        """Store or add; the result has the type of the place. Booleans add by `or`."""
        if op == "+=" and place_type.kind == "b":
            return c.Assign(place, "=", c.Bin("||", place, converted(term, kind, place_type)))
        if op == "+=" and place_type.kind in "iu" and place_type.bytes < 4:
            return c.Assign(place, "=", c.Cast(place_type.c, c.Bin("+", place, term)))
        if op == "+=" and kind != place_type and not (place_type.kind == kind.kind and place_type.kind in "iu"):
            return c.Assign(place, "=", c.Cast(place_type.c, c.Bin("+", converted(place, place_type, kind), term)))
        return c.Assign(place, op, converted(term, kind, place_type))

    def place(self, operand: Operand, scope: Scope) -> c.Expr:
        self.arrays[f"{operand.tensor}.{operand.array}"] = None
        index = linear_index(
            (self.expr(p, scope) for p in operand.place), operand.extents, lambda e: self.expr(e, scope)
        )
        name = self.array_names[operand.tensor, operand.array]
        return c.Load(self.fields.get(name, c.Name(name)), index)

    def compute_type(self, body: Plan, target: Operand) -> ElementType:
        """The type of a sum of what the body adds."""
        return value_types.sum_type(body, self.kinds[target.tensor], self.types)

    def value_type(self, value: Value, target_type: ElementType) -> ElementType:
        """The type in which a value is computed."""
        return value_types.value_type(value, target_type, self.types)

    def value(self, value: Value, scope: Scope, kind: ElementType) -> c.Expr:
        match value:
            case Constant(number):
                return constant(number, kind)
            case Read(operand) if (kept := scope.temporary(operand.tensor)) is not None:
                return converted(kept.place, kept.type, kind)
            case Read(operand):
                operand_type = TYPES[self.types[operand.tensor]]
                return converted(scope.copied.get(operand) or self.place(operand, scope), operand_type, kind)
            case Apply(arguments=arguments):
                operand_type = value_types.made_in(value, kind, self.types)
                sign = value.operator.c_bool if operand_type.kind == "b" else value.operator.c
                operands = [self.value(a, scope, operand_type) for a in arguments]
                return converted(
                    c.Un(sign, *operands) if len(operands) == 1 else c.Bin(sign, *operands), operand_type, kind
                )
        raise InternalError(f"no C for {value!r}")

    # --- integers and conditions -----------------------------------------------------------------

    def expr(self, expr: Expr, scope: Scope, within: bool = False) -> c.Expr:
        """An integer expression. `within` an operation, narrow loaded values are widened first."""
        match expr:
            case Num(value):
                return c.Int(value)
            case Var(name) if name in scope.inline:
                return self.expr(scope.inline[name], scope, within)
            case Var(name) if name in self.fields:
                return self.fields[name]
            case Var(name):
                if name in self.program.sizes.fixed:
                    return c.Int(self.program.sizes.fixed[name])
                if name in self.program.sizes.readings:
                    self.sizes[name] = None
                return c.Name(self.names[name])
            case Call(function, arguments):
                return self.load(function, arguments, scope, within)
            case Bin(op, left, right):
                return operation(op, self.expr(left, scope, True), self.expr(right, scope, True))
        raise InternalError(f"no C for {expr!r}")

    def fold(self, function: str, values: tuple[Expr, ...], scope: Scope) -> c.Expr:
        return folded(function, [self.expr(v, scope) for v in values])

    def layout_expr(self, expr: Expr, tensor_name: str) -> c.Expr:
        """An extent of the layout, in the kernel's sizes."""
        tensor = self.program.tensor(tensor_name)
        return self.expr(substitute(expr, size_values(tensor, self.program.sizes.fixed)), Scope())

    def linear_index(self, at: tuple[Expr, ...], scope: Scope) -> c.Expr:
        (index,) = at
        return self.expr(index, scope)

    def load(self, function: str, arguments: tuple[Expr, ...], scope: Scope, within: bool) -> c.Expr:
        if function in self.made:
            name, kind = self.made[function]
            place = self.expr(arguments[0], scope)
            if len(arguments) > 1:
                place = c.Bin("+", c.Bin("*", place, c.Int(self.ranks[function])), self.expr(arguments[1], scope))
            element = c.Load(self.fields.get(name, c.Name(name)), place)
            return c.Cast(INT, element) if within and kind != "int64" else element
        owner, array = function.split(".", 1)
        tensor = self.program.tensor(owner)
        self.arrays[function] = None
        extents = tensor.layout.index(array).extents
        index = linear_index((self.expr(a, scope) for a in arguments), extents, lambda e: self.layout_expr(e, owner))
        loaded = c.Load(c.Name(self.array_names[owner, array]), index)
        narrow = dict(tensor.index_types)[array] != "int64"
        return c.Cast(INT, loaded) if within and narrow else loaded

    def element_type(self, read: Call | Operand) -> ElementType:
        """Of what an array of values or an index array holds."""
        if isinstance(read, Operand):
            return TYPES[self.types[read.tensor]]
        if read.function in self.made:
            return TYPES[self.made[read.function][1]]
        owner, array = read.function.split(".", 1)
        return TYPES[dict(self.program.tensor(owner).index_types)[array]]

    def all(self, conditions: Sequence[Formula], scope: Scope) -> c.Expr:
        return joined("&&", [self.condition(f, scope) for f in conditions])

    def condition(self, formula: Formula, scope: Scope) -> c.Expr:
        match formula:
            case Compare(op, left, right):
                sign = "==" if op == "=" else op
                return c.Bin(sign, self.expr(left, scope), self.expr(right, scope))
            case And(parts):
                return joined("&&", [self.condition(p, scope) for p in parts])
            case Or(parts):
                return joined("||", [self.condition(p, scope) for p in parts])
            case Not(Compare(op, left, right)) if op in NEGATED:
                return self.condition(Compare(NEGATED[op], left, right), scope)
            case Not(part):
                return c.Un("!", self.condition(part, scope))
        raise InternalError(f"no C for {formula!r}")
