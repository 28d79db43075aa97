"""IR 1: what the user wrote.

    SpecFile  ::= LayoutDecl* LayoutAlias* Kernel* Import*
    Kernel    ::= tensors, sizes, statements, order, finds, directives, deterministic, level
    Statement ::= target (= | +=) value [where formula] [within target]
    Value     ::= Constant | Access(tensor, subscripts) | Apply(operator, arguments) | Sum(indices, value, where)

A LayoutDecl keeps its parse tree: names and clauses of a family (`p_{1..rank}`, `each k in ...`) depend on the
constants of a use, so the tree is read when they are known (layout/from_lang.py). Every node has its span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
    value: int | float
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Access:
    """`tensor[subscripts]`; a scalar has none."""

    tensor: str
    subscripts: tuple[Expr, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator of lang/ops.py, by its name, of as many arguments as it takes. The arguments are values of whatever
    representation the node stands in: it goes unchanged from the text to C."""

    op: str
    arguments: tuple[Any, ...]
    span: Span | None = _span()

    @property
    def operator(self) -> Operator:
        return OPERATORS[self.op]


@dataclass(frozen=True, slots=True)
class Sum:
    """`sum(j < i: value)`: the sum of the value over `indices` (here j), where the condition holds."""

    indices: tuple[str, ...]
    value: Value
    where: Formula | None = None
    span: Span | None = _span()


Value = Constant | Access | Apply | Sum


def product_of(factors: Sequence[Value]) -> Value:
    """The product of values, 1 of none."""
    result: Value = factors[0] if factors else Constant(1)
    for factor in factors[1:]:
        result = Apply("multiply", (result, factor))
    return result


@dataclass(frozen=True, slots=True)
class LayoutUse:
    """`csr<float, rowptr : int64>(R=4)`: a layout by name, element types, constants."""

    name: str
    value_type: str | None = None
    index_type: str | None = None
    array_types: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, int], ...] = ()
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Shares:
    """`shares tensor on indices`; no indices means all of them."""

    tensor: str
    indices: tuple[str, ...]
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class TensorDecl:
    name: str
    use: LayoutUse
    extents: tuple[Expr, ...] | None = None
    shares: Shares | None = None
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop named in a schedule: an index (`i`), a position of a tensor (`A.pj`), or one that the schedule makes."""

    tensor: str | None
    name: str
    span: Span | None = _span()


@dataclass(frozen=True, slots=True)
class ForcedFind:
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
    """`within`: it is computed only where the target stores something, as the text says."""

    target: Access
    op: str
    value: Value
    where: Formula | None = None
    span: Span | None = _span()
    within: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One computation. Tensors that are used but not declared are scalars. `deterministic`: its results do not depend
    on the number of threads, to the last bit. `level`: how much it is optimised, one of OPTIMIZATION."""

    name: str
    tensors: tuple[TensorDecl, ...]
    sizes: tuple[str, ...]
    statements: tuple[Statement, ...]
    order: tuple[Loop, ...] = ()
    finds: tuple[ForcedFind, ...] = ()
    doc: str = ""
    span: Span | None = _span()
    directives: tuple[Directive | LoopsRelation, ...] = ()
    deterministic: bool = False
    level: int = 2

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
