"""Values: from parse trees to nodes.

What a bare name means depends on where it stands: a scalar of a `let`, an index, a size, or a tensor without
subscripts. Values are read with those of the last kind as `Access`; when all subscripts around are known, those that
are indices become `Index` (`with_indices`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from lark import Token, Tree

from spfgen.errors import SpecError
from spfgen.facts.formula import Bin, Expr, Formula, Num, Var, calls, conjunction, show, variables
from spfgen.lang import signs
from spfgen.lang.expressions import BUILTINS, Reader, counted, did_you_mean, there_are, with_absolute_values
from spfgen.lang.nodes import (
    Access,
    Apply,
    Coalesce,
    Collapse,
    Concat,
    Constant,
    Function,
    Index,
    Local,
    Range,
    Reduce,
    Slice,
    Split,
    Value,
)
from spfgen.lang.ops import FUNCTIONS, OPERATORS, REDUCTIONS

_FAMILIES = ("subscripted", "ranged", "ranged_down")
_RANGES = ("range_between", "range_from", "range_to")
_CHAINS = ("value_bits", "value_xor", "value_both", "value_shift", "value_sum", "value_product", "value_power")
VIEWS = {
    "collapse": "collapse(v, (i, j) -> k)",
    "split": "split(v, k -> (i, j))",
    "concat": "concat((v, w), (i, k) -> l)",
    "slice": "slice(v, j -> k, (1, 8, 3))",
    "coalesce": "coalesce(x[i - 1], 0)",
}
"""The functions that are no operators, each as it should look."""


@dataclass(frozen=True)
class LexicalScope:
    """What names mean where a value stands."""

    reader: Reader
    functions: Mapping[str, Function] = field(default_factory=dict)
    """Those that may be called."""
    sizes: frozenset[str] = frozenset()
    """Names of sizes."""
    locals: frozenset[str] = frozenset()
    """Scalars of `let`, and parameters of a function."""
    indices: frozenset[str] = frozenset()
    """Indices of the loops around."""
    known: frozenset[str] = frozenset()
    """Further names that a reduction cannot bind."""
    in_subscript: bool = False
    """Within a subscript: division rounds down, and bare names are indices."""
    closed: bool = False
    """In the body of a function, where there are no tensors."""
    owner: str = ""
    """The name of that function."""

    @property
    def taken(self) -> frozenset[str]:
        """The names that mean something already."""
        return self.sizes | self.locals | self.indices | self.known


def read_value(scope: LexicalScope, tree: Tree[Any]) -> Value:
    """The value, where bare names that are not known yet are tensors."""
    reader, span = scope.reader, scope.reader.span(tree)
    match tree.data:
        case "value_number":
            return _number(scope, tree.children[0].children[0], tree)
        case "value_truth":
            return Constant(str(tree.children[0]).lower() == "true", span)
        case "access":
            return _name(scope, tree) if tree.children[1] is None else read_access(scope, tree)
        case "subscripted":
            return _bare(scope, reader.name(tree), tree)
        case "value_scaled":
            number, value = tree.children
            return Apply("multiply", (_number(scope, number, number), read_value(scope, value)), span)
        case "value_sign" | "value_negation":
            sign = str(tree.children[0]) if tree.data == "value_sign" else "not"
            operand = read_value(scope, tree.children[-1])
            if sign == "-" and isinstance(operand, Constant) and operand.value == 2**63 and type(operand.value) is int:
                return Constant(-(2**63), span)  # the least int64, which is not the negative of one
            return operand if sign == "+" else Apply(signs.SIGNS[sign], (operand,), span)
        case "value_or" | "value_and":
            op = signs.NAMES[tree.data.removeprefix("value_")]
            result, *others = (read_value(scope, c) for c in tree.children)
            for other in others:
                result = Apply(op, (result, other), span)
            return result
        case "value_comparison":
            return _comparison(scope, tree)
        case "value_call":
            return _call(scope, tree)
        case "value_reduction":
            return _reduction(scope, tree)
        case chain if chain in _CHAINS:
            return _chain(scope, tree)
        case "range_between" | "range_from" | "range_to":
            hint = "a slice must be a subscript by itself: `A[i(1:5:2), j]`"
            raise reader.fail("expected a value, but this is a slice", tree, hint)
        case "ranged" | "ranged_down":
            reader.name(tree)
    hint = f"lists and arrows belong to shape operators: `{VIEWS['collapse']}`, `{VIEWS['concat']}`"
    raise reader.fail("expected a value, but this is a list", tree, hint)


def _number(scope: LexicalScope, token: Any, at: Any) -> Constant:
    if not token.isdigit():
        return Constant(float(token), scope.reader.span(at))
    number = scope.reader.number(token) if scope.in_subscript else scope.reader.whole(token)
    return Constant(number, scope.reader.span(at))


def _name(scope: LexicalScope, tree: Tree[Any]) -> Value:
    return _bare(scope, str(tree.children[0]), tree)


def _bare(scope: LexicalScope, name: str, at: Tree[Any]) -> Value:
    """A name without subscripts."""
    span = scope.reader.span(at)
    if name in scope.locals:
        return Local(name, span)
    if scope.in_subscript or name in scope.indices or name in scope.sizes:
        return Index(Var(name, span), span)
    if scope.closed:
        known = ", ".join(sorted(scope.locals)) or "none"
        hint = did_you_mean(name, scope.locals) or f"the names that are known here: {known}"
        raise scope.reader.fail(f"expected a parameter or a name of `let`, but `{name}` is not one", at, hint)
    return Access(name, (), span)


def _chain(scope: LexicalScope, tree: Tree[Any]) -> Value:
    result = read_value(scope, tree.children[0])
    span = scope.reader.span(tree)
    for sign, operand in zip(tree.children[1::2], tree.children[2::2], strict=True):
        op = signs.NAMES[str(sign)]
        right = read_value(scope, operand)
        if op == "divide":
            if isinstance(right, Constant) and right.value == 0:
                message = "expected a divisor other than 0, but it is 0"
                raise scope.reader.fail(message, operand, "divide by another number")
            op = "floor_divide" if scope.in_subscript else op
        result = Apply(op, (result, right), span)
    return result


def _comparison(scope: LexicalScope, tree: Tree[Any]) -> Value:
    """`a < b < c` is `a < b and b < c`, as in Python."""
    operands = [read_value(scope, c) for c in tree.children[::2]]
    span = scope.reader.span(tree)
    parts: list[Value] = []
    for sign, (left, right) in zip(tree.children[1::2], pairwise(operands), strict=True):
        parts.append(Apply(signs.NAMES["==" if sign == "=" else str(sign)], (left, right), span))
    result = parts[0]
    for part in parts[1:]:
        result = Apply("logical_and", (result, part), span)
    return result


# --- functions and reductions ---------------------------------------------------------------------------


def _call(scope: LexicalScope, tree: Tree[Any]) -> Value:
    name, listed = str(tree.children[0]), tree.children[1]
    trees = [] if listed is None else listed.children
    if name in VIEWS and name not in scope.functions:
        return _view(scope, name, trees, tree)
    if name not in scope.functions and name not in FUNCTIONS and name in (*REDUCTIONS, *signs.PLACES, signs.MEAN):
        message = f"expected an index of `{name}`, but there is none"
        hint = f"write `{name}(j: ...)`"
        if name == "sum":
            hint += "; indices that occur only on the right are summed over implicitly"
        raise scope.reader.fail(message, tree, hint)
    op, function, arity = operator_of(scope, name, tree)
    arguments = [read_value(scope, t) for t in trees]
    span = scope.reader.span(tree)
    if name in signs.FOLDED and function is None and len(arguments) > arity:
        result = arguments[0]
        for argument in arguments[1:]:
            result = Apply(op, (result, argument), span)
        return result
    _check_arity(scope, name, arity, len(arguments), tree)
    return Apply(op, tuple(arguments), span, function)


def _check_arity(scope: LexicalScope, name: str, arity: int, given: int, tree: Tree[Any]) -> None:
    if given != arity:
        wanted = f"expected {counted(arity, 'argument')} of `{name}`"
        hint = f"write `{name}({', '.join('abcdefgh'[:arity])})`"
        raise scope.reader.fail(f"{wanted}, but {there_are(given)}", tree, hint)


def operator_of(scope: LexicalScope, name: str, at: Any) -> tuple[str, Function | None, int]:
    """The operator of a name in the text: its name in nodes, the function of the user, how many arguments it has."""
    if name in scope.functions:
        function = scope.functions[name]
        return name, function, len(function.parameters)
    if name in FUNCTIONS:
        op = FUNCTIONS[name]
        return op, None, OPERATORS[op].arity
    if name == scope.owner:
        message = f"expected a function that is defined before `{name}`, but this is `{name}` itself"
        raise scope.reader.fail(message, at, "functions do not call themselves: write a `while` loop")
    known = {*scope.functions, *FUNCTIONS, *REDUCTIONS, *signs.PLACES, *VIEWS}
    near = did_you_mean(name, known)
    brackets = f"a tensor is accessed with square brackets, `{name}[...]`"
    define = f"a function of yours is written `function {name}(x, y) {{ return x + y }}`"
    raise scope.reader.fail(f"expected a function, but `{name}` is not known", at, near or brackets, define)


def _reduction(scope: LexicalScope, tree: Tree[Any]) -> Value:
    """`max(j: v)`, `max(i, j: v)`, `max(j < i: v)`: the names that are new here are reduced over."""
    name, head, value, where = tree.children
    reader, span = scope.reader, scope.reader.span(tree)
    items, conditions = _head(scope, head)
    plain = [n for n in items if n]
    indices = tuple(n for n in dict.fromkeys(plain) if n not in scope.taken and n not in reader.constants)
    if not indices or (not conditions and len(indices) < len(items)):
        problem = f"`{plain[0]}` means something already" if plain else "this names none"
        raise reader.fail(
            f"expected an index to {'sum' if name == 'sum' else 'reduce'} over, but {problem}",
            head,
            f"write `{name}(j: ...)` with an index of its own, or with a condition on it, `{name}(j < i: ...)`",
        )
    inner_scope = replace(scope, known=scope.known | set(indices))
    conditions += [] if where is None else [read_condition(inner_scope, where)]
    inner = read_value(inner_scope, value)
    condition = conjunction(conditions) if conditions else None
    word = str(name)
    if word == signs.MEAN and word not in scope.functions:
        whole = Apply("divide", (inner, Constant(1, span)), span)  # integers are added as numpy does it, in float64
        total = Reduce("add", indices, whole, condition, span)
        count = Reduce("add", indices, Constant(1, span), condition, span)
        return Apply("divide", (total, count), span)
    if word in signs.PLACES and word not in scope.functions:
        if len(indices) > 1:
            hint = f"nest two of them, or take `{word.removeprefix('arg')}` over both"
            raise reader.fail(f"expected one index of `{word}`, but there are {len(indices)}", head, hint)
        return Reduce(word, indices, inner, condition, span)
    op, function, arity = operator_of(scope, word if word in scope.functions else REDUCTIONS.get(word, word), tree)
    if arity != 2:
        message = f"expected a function of two arguments, but `{word}` has {arity}"
        raise reader.fail(message, tree, "reductions combine two values: `sum`, `max`, `any`, `logical_xor`, ...")
    return Reduce(op, indices, inner, condition, span, function)


def _head(scope: LexicalScope, head: Tree[Any]) -> tuple[list[str], list[Formula]]:
    """The items of the head, as names ("" for other expressions), and the conditions that they make."""
    sides: list[list[Tree[Any]]] = [[]]
    comparisons: list[Token] = []
    for item in head.children:
        parts = item.children if item.data == "value_comparison" else [item]
        for part in parts:
            if isinstance(part, Token):
                comparisons.append(part)
                sides.append([])
            else:
                sides[-1].append(part)
    names = [_plain_name(scope, i) for side in sides for i in side]
    if not comparisons:
        return names, []
    read = [_as_expression(scope, i) for side in sides for i in side]
    for item, expression in zip((i for side in sides for i in side), read, strict=True):
        if expression is None:
            hint = "before the `:` of a reduction are indices and conditions on them; tensors come after it"
            raise scope.reader.fail("expected an expression of indices and numbers, but this is a value", item, hint)
    trees = iter(read)
    lists = [[next(trees) for _ in side] for side in sides]
    joined = [only[0] if len(only) == 1 else Tree("expressions_", only, head.meta) for only in lists]
    mixed = [joined[0], *(x for pair in zip(comparisons, joined[1:], strict=True) for x in pair)]
    return names, [with_absolute_values(scope.reader.formula(Tree("comparison", mixed, head.meta)))]


def _plain_name(scope: LexicalScope, tree: Tree[Any]) -> str:
    if tree.data == "access" and tree.children[1] is None:
        return str(tree.children[0])
    return scope.reader.name(tree) if tree.data in _FAMILIES else ""


def check_assigned(scope: LexicalScope, tree: Tree[Any]) -> None:
    """What is assigned compares with `==`: `y[i] = x[i] = 2` may mean anything."""
    for sign in tree.children[1::2] if tree.data == "value_comparison" else ():
        if sign == "=":
            raise scope.reader.fail("expected `==`, but found `=`", sign, "values are compared with `==`")


def read_condition(scope: LexicalScope, tree: Tree[Any]) -> Formula:
    """A condition after `where`."""
    condition = with_absolute_values(scope.reader.formula(tree))
    for name in sorted(variables(condition) & scope.locals):
        hint = f"write `if` around it: `if {name} > 0 {{ ... }}`"
        raise scope.reader.fail(f"expected indices and sizes, but `{name}` is a value of `let`", tree, hint)
    return condition


# --- accesses and subscripts ------------------------------------------------------------------------------


def read_access(scope: LexicalScope, tree: Tree[Any]) -> Access:
    """`A[i, 2*j + 1]`, a target too."""
    name, subscripts = tree.children
    if scope.closed:
        hint = "pass the value: `f(A[i, j])`"
        raise scope.reader.fail(f"expected values of numbers, but `{name}[...]` is a tensor", tree, hint)
    subscript_values = () if subscripts is None else _subscripts(scope, subscripts.children)
    return Access(str(name), subscript_values, scope.reader.span(tree))


def _subscripts(scope: LexicalScope, trees: Sequence[Any]) -> tuple[Any, ...]:
    result: list[Any] = []
    for tree in trees:
        if tree is None:
            continue
        if tree.data in ("ranged", "ranged_down"):
            result += [scope.reader.variable(n, tree) for n in scope.reader.names_of(tree)]
        else:
            result.append(_subscript(scope, tree))
    return tuple(result)


def _subscript(scope: LexicalScope, tree: Tree[Any]) -> Any:
    """An affine expression, a slice, or a value."""
    if tree.data in _RANGES or (tree.data == "value_reduction" and not _reduces(scope, str(tree.children[0]))):
        return _range(scope, tree)
    expression = _as_expression(scope, tree)
    if expression is None:
        return read_value(replace(scope, in_subscript=True), tree)
    affine = scope.reader.expr(expression)
    for call in calls(affine):
        raise SpecError(
            f"expected a subscript made of indices and numbers, but `{show(call)}` is a call",
            call.span,
            (f"a value of a tensor is read with square brackets: `{call.function}[...]`",),
        )
    return affine


def _reduces(scope: LexicalScope, name: str) -> bool:
    return name in scope.functions or name in (*FUNCTIONS, *REDUCTIONS, *signs.PLACES, signs.MEAN)


def _range(scope: LexicalScope, tree: Tree[Any]) -> Range:
    """`i(start:stop:step)`."""
    name, *parts = tree.children
    match tree.data:
        case "value_reduction" | "range_between":
            first, stop, step = parts
        case "range_from":
            (first, step), stop = parts, None
        case _:
            (stop, step), first = parts, None
    step = None if tree.data == "value_reduction" else step
    if first is not None and len(first.children) != 1:
        hint = "a slice has a start, a stop and a step: `i(1:5:2)`"
        raise scope.reader.fail(f"expected one start of the slice, but there are {len(first.children)}", first, hint)
    start = None if first is None else _bound(scope, first.children[0])
    number = 1 if step is None else _step(scope, step)
    end = None if stop is None else _bound(scope, stop)
    return Range(str(name), start, end, number, scope.reader.span(tree))


def _bound(scope: LexicalScope, tree: Tree[Any]) -> Expr:
    expression = _as_expression(scope, tree)
    if expression is None:
        hint = "the bounds of a slice are numbers and sizes: `i(1:n - 1:2)`"
        raise scope.reader.fail("expected a number or a size, but this is a value", tree, hint)
    return scope.reader.expr(expression)


def _step(scope: LexicalScope, tree: Tree[Any]) -> int:
    match _bound(scope, tree):
        case Num(value) if value:
            return value
        case Bin("-", Num(0), Num(value)) if value:
            return -value
    raise scope.reader.fail(
        "expected a step that is a number other than 0, but this is not one", tree, "for instance `i(1:5:2)`, `i(::-1)`"
    )


def _as_expression(scope: LexicalScope, tree: Tree[Any]) -> Tree[Any] | None:
    """The tree of an integer expression in place of that of a value; None for what is a value only."""

    def translated(trees: Sequence[Any]) -> list[Any] | None:
        expressions = [t if isinstance(t, Token) else _as_expression(scope, t) for t in trees]
        return None if any(f is None for f in expressions) else expressions

    children: list[Any] | None
    match tree.data:
        case "value_number":
            token: Any = tree.children[0].children[0]
            if token.isdigit():
                return Tree("number_", [token], tree.meta)
            hint = "subscripts are made of integers; a half of i is `i/2`, rounded down"
            raise scope.reader.fail(f"expected an integer, but found `{token}`", tree, hint)
        case "access" if tree.children[1] is None:
            name = tree.children[0]
            return None if str(name) in scope.locals else Tree("name", [name], tree.meta)
        case data if data in _FAMILIES:
            return tree
        case "value_scaled" if (children := translated(tree.children)) is not None:
            return Tree("scaled", children, tree.meta)
        case "value_sign" if tree.children[0] != "~" and (children := translated(tree.children)) is not None:
            return Tree("sign", children, tree.meta)
        case "value_sum" if (children := translated(tree.children)) is not None:
            return Tree("sum", children, tree.meta)
        case "value_product" if (children := translated(tree.children)) is not None:
            plain = [Token.new_borrow_pos(c.type, "/", c) if c == "//" else c for c in children]
            return Tree("product", plain, tree.meta)
        case "value_call":
            name, listed = tree.children
            children = [] if listed is None else translated(listed.children)
            if children is None or str(name) in scope.functions:
                return None
            if str(name) in BUILTINS:
                return Tree("builtin", [name, *children], tree.meta)
            if _reduces(scope, str(name)) or str(name) in VIEWS:
                return None
            return Tree("call", [Tree("name", [name], tree.meta), Tree("expressions", children, tree.meta)], tree.meta)
    return None


# --- shape operators ------------------------------------------------------------------------------------------


def _view(scope: LexicalScope, name: str, trees: Sequence[Tree[Any]], tree: Tree[Any]) -> Value:
    """`coalesce` and the shape operators, which bind the old names within their value."""
    span = scope.reader.span(tree)
    if scope.closed:
        raise scope.reader.fail(f"expected values of numbers, but `{name}` is about tensors", tree, "leave it out")
    if name == "coalesce":
        if len(trees) < 2:
            raise _misshaped(scope, name, tree)
        return Coalesce(tuple(read_value(scope, t) for t in trees), span)
    if len(trees) != (3 if name == "slice" else 2) or trees[1].data != "arrow":
        raise _misshaped(scope, name, tree)
    old, new = (_listed(scope, t) for t in trees[1].children)
    within = replace(scope, known=scope.known | set(old))
    if name == "concat":
        parts = trees[0].children if trees[0].data == "tuple" else [trees[0]]
        if len(parts) != len(old) or len(new) != 1:
            raise _misshaped(scope, name, tree)
        return Concat(tuple(read_value(within, p) for p in parts), old, new[0], span)
    value = read_value(within, trees[0])
    match name:
        case "collapse" if len(new) == 1 and len(set(old)) == len(old) > 1:
            return Collapse(value, old, new[0], span)
        case "split" if len(old) == 1 and len(set(new)) == len(new) > 1:
            return Split(value, old[0], new, span)
        case "slice" if len(old) == len(new) == 1 and trees[2].data == "tuple" and len(trees[2].children) in (2, 3):
            start, stop, *step = trees[2].children
            number = _step(scope, step[0]) if step else 1
            return Slice(value, old[0], new[0], _bound(scope, start), _bound(scope, stop), number, span)
    raise _misshaped(scope, name, tree)


def _misshaped(scope: LexicalScope, name: str, tree: Tree[Any]) -> SpecError:
    message = f"expected `{name}` in the form `{VIEWS[name]}`, but it has another"
    names = "" if name == "coalesce" else "; the old names are on the left of the arrow, the new ones on the right"
    return scope.reader.fail(message, tree, f"for instance `{VIEWS[name]}`{names}")


def _listed(scope: LexicalScope, tree: Tree[Any]) -> tuple[str, ...]:
    """The names on one side of an arrow."""
    items = tree.children if tree.data == "tuple" else [tree]
    names = tuple(_plain_name(scope, i) for i in items)
    for item, name in zip(items, names, strict=True):
        if not name or name in scope.sizes or name in scope.locals:
            hint = f"for instance `{VIEWS['collapse']}`"
            raise scope.reader.fail("expected the name of an index, but this is not one", item, hint)
    return names


# --- indices ----------------------------------------------------------------------------------------------------


def indices_of(value: Any) -> set[str]:
    """The names that stand in subscripts of a value and are not bound within it; sizes are among them."""
    match value:
        case Access(_, subscripts):
            return set().union(*(_indices_of_subscript(s) for s in subscripts))
        case Index(expr):
            return variables(expr)
        case Apply(arguments=parts) | Coalesce(parts):
            return set().union(*(indices_of(p) for p in parts))
        case Reduce(_, indices, inner):
            return indices_of(inner) - set(indices)
        case Collapse(inner, old, new):
            return indices_of(inner) - set(old) | {new}
        case Split(inner, old, new):
            return indices_of(inner) - {old} | set(new)
        case Concat(values, old, new):
            return set().union(*(indices_of(v) - {o} for v, o in zip(values, old, strict=True))) | {new}
        case Slice(inner, old, new):
            return indices_of(inner) - {old} | {new}
    return set()


def _indices_of_subscript(subscript: Any) -> set[str]:
    match subscript:
        case Range(index, start, stop):
            return {index}.union(*(variables(b) for b in (start, stop) if b is not None))
        case Expr():
            return variables(subscript)
    return indices_of(subscript)


def with_indices(value: Any, names: set[str] | frozenset[str]) -> Any:
    """The value in which the bare names that are indices are `Index`: those of `names`, and those bound within."""

    def bound(inner: Value, old: Sequence[str]) -> Any:
        return with_indices(inner, names | set(old) | indices_of(inner))

    match value:
        case Access(name, (), span) if name in names:
            return Index(Var(name, span), span)
        case Access(_, subscripts) if subscripts:
            return replace(value, subscripts=tuple(with_indices(s, names) for s in subscripts))
        case Apply(arguments=parts) | Coalesce(parts):
            return replace(value, arguments=tuple(with_indices(p, names) for p in parts))
        case Reduce(_, indices, inner):
            return replace(value, value=with_indices(inner, names | set(indices)))
        case Collapse(inner, old):
            return replace(value, value=bound(inner, old))
        case Split(inner, single) | Slice(inner, single):
            return replace(value, value=bound(inner, [single]))
        case Concat(values, old):
            return replace(value, values=tuple(bound(v, [o]) for v, o in zip(values, old, strict=True)))
    return value
