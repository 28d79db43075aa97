"""IR 1: what the user wrote.

    SpecFile  ::= LayoutDecl* LayoutAlias* Function* Kernel* Import*
    Kernel    ::= tensors, sizes, statements, order, finds, directives, deterministic, level
    Step      ::= Statement | For(indices, body) | If(condition, then, otherwise) | Let(name, value)
                | Set(name, op, value) | While(condition, body) | Break | Return(value)
    Statement ::= target (= | f=) value [where formula] [within target]
    Value     ::= Constant | Index(expression) | Local(name) | Access(tensor, subscripts) | Apply(operator, arguments)
                | Reduce(operator, indices, value, where) | Coalesce(arguments)
                | Collapse(value, old, new) | Split(value, old, new) | Concat(values, old, new)
                | Slice(value, old, new, start, stop, step)
    Subscript ::= affine expression | Range(index, start, stop, step) | Value

`Return` and a `Let` or `Set` outside of loops stand in the bodies of functions as well.

A LayoutDecl keeps its parse tree: names and clauses of a family (`p_{1..rank}`, `each k in ...`) depend on the
constants of a use, so the tree is read when they are known (layout/from_lang.py). Every node has its span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from spfgen.errors import Span
from spfgen.facts.formula import Expr, Formula
from spfgen.lang.ops import OPERATORS, Operator


def _span() -> Any:
    return field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name of the file it came from."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: bool | int | float
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Index:
    """An index, or an affine expression of indices and sizes, as a value: an int64."""

    expr: Expr
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Local:
    """The scalar that a `let` around it introduced."""

    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Range:
    """`i(start:stop:step)` as a subscript: `start + step*i`, where i counts what Python's slice of the tensor's extent
    holds. None is a bound that was left out; `step` is not 0."""

    index: str
    start: Expr | None
    stop: Expr | None
    step: int = 1
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Access:
    """`tensor[subscripts]`; a scalar has none. A subscript is an affine expression, a Range, or a value (a gather, or a
    scatter where the access is a target)."""

    tensor: str
    subscripts: tuple[Any, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator of lang/ops.py, by its name, of as many arguments as it takes. The arguments are values of whatever
    representation the node stands in: it goes unchanged from the text to C."""

    op: str
    arguments: tuple[Any, ...]
    span: Span | None = _span()
    function: Function | None = None

    @property
    def operator(self) -> Operator:
        return OPERATORS[self.op] if self.function is None else self.function.operator


@dataclass(frozen=True, slots=True)
class Reduce:
    """`max(j < i: value)`: the value over `indices` (here j), where the condition holds, combined by an operator of two
    arguments: numpy's ufunc of that name (`add` is written `sum`), a function of the user, or `argmin` and `argmax`,
    whose result is the place along the one index."""

    op: str
    indices: tuple[str, ...]
    value: Value
    where: Formula | None = None
    span: Span | None = _span()
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Coalesce:
    """`coalesce(x[i - 1], y[i - 1], 0)`: the first argument whose accesses all lie within their tensors."""

    arguments: tuple[Value, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Collapse:
    """`collapse(v, (i, j) -> k)`: the `old` indices of the value as one, the last of them fastest."""

    value: Value
    old: tuple[str, ...]
    new: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Split:
    """`split(v, k -> (i, j))`: the `old` index of the value as several, the last of them fastest."""

    value: Value
    old: str
    new: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Concat:
    """`concat((v, w), (i, k) -> l)`: along `new` first all of the first value, by its own index, then the next."""

    values: tuple[Value, ...]
    old: tuple[str, ...]
    new: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Slice:
    """`slice(v, j -> k, (start, stop, step))`: j = start + step*k while j < stop (j > stop where the step is
    negative)."""

    value: Value
    old: str
    new: str
    start: Expr
    stop: Expr
    step: int = 1
    span: Span | None = _span()


Value = Constant | Index | Local | Access | Apply | Reduce | Coalesce | Collapse | Split | Concat | Slice


def product_of(factors: Sequence[Value]) -> Value:
    """The product of values, 1 of none."""
    result: Value = factors[0] if factors else Constant(1)
    for factor in factors[1:]:
        result = Apply("multiply", (result, factor))
    return result


@dataclass(frozen=True, slots=True)
class LayoutUse:
    """`csr<float, rowptr : int64>(R=4) fill inf`: a layout by name, element types, constants, the value of what is not
    stored (None: that of the layout)."""

    name: str
    value_type: str | None = None
    index_type: str | None = None
    array_types: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, int], ...] = ()
    span: Span | None = _span()
    fill: bool | int | float | complex | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """`shares tensor on indices`; no indices means all of them."""

    tensor: str
    indices: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TensorDecl:
    """`local`: it lives as long as the kernel runs, which makes it. `assembled`: its pattern is computed."""

    name: str
    use: LayoutUse
    extents: tuple[Expr, ...] | None = None
    shares: Shares | None = None
    span: Span | None = _span()
    local: bool = False
    assembled: bool = False


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop named in a schedule: an index (`i`), a position of a tensor (`A.pj`), or one that the schedule makes."""

    tensor: str | None
    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class FindClause:
    """`find B.p : hash`: every find of that position of the tensor is by this algorithm (a name of lang/types.py).

    `tensor` is None where the person wrote a name alone, which is refused when the layouts are known."""

    tensor: str | None
    position: str
    algorithm: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Directive:
    """`tile i by 32 as it`, `split A.p by 4`, `fuse i, j as f`, `parallel i`, `unroll k by 4`: `word` says what is done
    with the loops, `number` stands after `by`, `name` after `as`."""

    word: str
    loops: tuple[Loop, ...]
    number: int | None = None
    name: str | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class LoopsRelation:
    """`relation { [i, j] -> [t, j] : t = i + j }`: the loops on the right in place of those on the left. Positions
    have names of their own, `[p = A.pj]`, which `condition` no longer has."""

    old: tuple[Loop, ...]
    new: tuple[Loop, ...]
    condition: Formula
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Statement:
    """An equation. `op` is `=`, or the name of the operator that updates the target: `+=` is written as it stands, all
    others by numpy's name (`minimum` for `min=`). `within`: it is computed only where the target stores something, as
    the text says."""

    target: Access
    op: str
    value: Value
    where: Formula | None = None
    span: Span | None = _span()
    within: bool = False
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class For:
    """`for j, i { ... }`: over the extents of the indices, where the condition holds, in any order that the dependences
    of the body allow."""

    BLOCKS: ClassVar = ("body",)

    indices: tuple[str, ...]
    body: tuple[Step, ...]
    where: Formula | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class If:
    BLOCKS: ClassVar = ("then", "otherwise")
    VALUES: ClassVar = ("condition",)

    condition: Value
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Let:
    """`let s = value`: a scalar that lives to the end of the block, of the type of the value."""

    VALUES: ClassVar = ("value",)

    name: str
    value: Value
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Set:
    """`s += value`, of a scalar that a `let` introduced. `op` as in a Statement."""

    VALUES: ClassVar = ("value",)

    name: str
    op: str
    value: Value
    span: Span | None = _span()
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class While:
    BLOCKS: ClassVar = ("body",)
    VALUES: ClassVar = ("condition",)

    condition: Value
    body: tuple[Step, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Break:
    """Ends the innermost loop."""

    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Return:
    """The value of a function."""

    VALUES: ClassVar = ("value",)

    value: Value
    span: Span | None = _span()


Step = Statement | For | If | Let | Set | While | Break | Return


@dataclass(frozen=True, slots=True)
class Case:
    """`case x, 0 : value`: the value of a function where the arguments at the None places are any, and each other one
    equals the number."""

    arguments: tuple[bool | int | float | None, ...]
    value: Value
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the user. The parameters are `Local`s of the body. `space` is a value over them (and, or, not),
    read as «is not its fill»: where the result may differ from that of the fills. `operator` has the declared
    properties."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Step, ...]
    operator: Operator
    cases: tuple[Case, ...] = ()
    space: Value | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Kernel:
    """One computation. `statements` are its steps in their order. Tensors that are used but not declared are scalars.
    `deterministic`: its results do not depend on the number of threads, to the last bit. `level`: how much it is
    optimised (optimization.py). `without_fill`: what equals the fill value of a result is no entry of it."""

    name: str
    tensors: tuple[TensorDecl, ...]
    sizes: tuple[str, ...]
    statements: tuple[Any, ...]
    order: tuple[Loop, ...] = ()
    finds: tuple[FindClause, ...] = ()
    doc: str = ""
    span: Span | None = _span()
    directives: tuple[Directive | LoopsRelation, ...] = ()
    deterministic: bool = False
    level: int = 2
    without_fill: bool = False

    @property
    def is_scheduled(self) -> bool:
        """Whether anything is said of how it runs."""
        return bool(self.order or self.finds or self.directives or self.deterministic)


@dataclass(frozen=True, slots=True)
class LayoutDecl:
    name: str
    tree: Any = field(compare=False, repr=False)
    source: Source = field(compare=False, repr=False)
    constants: tuple[tuple[str, int | None], ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class LayoutAlias:
    name: str
    use: LayoutUse
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Import:
    path: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class SpecFile:
    """The items of one file, in their order."""

    source: Source
    layouts: tuple[LayoutDecl | LayoutAlias, ...]
    kernels: tuple[Kernel, ...]
    imports: tuple[Import, ...]
    functions: tuple[Function, ...] = ()
