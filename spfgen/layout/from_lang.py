"""Reads a layout declaration for given constants: families expanded, short forms written out, names checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lark import Token, Tree

from spfgen.errors import Span, SpecError, SpecErrors
from spfgen.facts.formula import (
    ONE,
    TRUE,
    Bin,
    Call,
    Compare,
    Expr,
    Forall,
    Formula,
    Or,
    Var,
    calls,
    chain,
    conjunction,
    implies,
    show,
    substitute,
    variables,
)
from spfgen.ir import fresh, walk
from spfgen.lang.expressions import Reader
from spfgen.lang.nodes import LayoutDecl
from spfgen.layout.nodes import Binding, IndexArray, Layout, Property, ValueArray


def instantiate(declaration: LayoutDecl, settings: Mapping[str, int]) -> Layout:
    """The layout for these constants. Raises SpecError(s) with the place of each mistake."""
    constants = {}
    for name, default in declaration.constants:
        if name not in settings and default is None:
            raise SpecError(
                f"expected a value for the constant `{name}` of layout `{declaration.name}`, but there is none",
                declaration.span,
                (f"write `{declaration.name}({name}=...)`",),
            )
        constants[name] = settings.get(name, default)  # type: ignore[arg-type]
    reader = Reader(declaration.source, constants)
    parts = _Parts(reader, declaration)
    return parts.layout(tuple(constants.items()))


class _Parts:
    """The clauses of one declaration, read in the order that their names need."""

    def __init__(self, reader: Reader, declaration: LayoutDecl) -> None:
        self.reader = reader
        self.declaration = declaration
        self.errors: list[SpecError] = []
        self.clauses = list(_clauses(reader, declaration.tree))
        self.defined: dict[str, Span | None] = {}

    def of_kind(self, kind: str) -> Iterator[tuple[Reader, Tree[Any]]]:
        return ((r, t) for r, t in self.clauses if t.data == kind)

    def define(self, name: str, span: Span | None) -> None:
        if name in self.defined:
            self.errors.append(SpecError(f"expected a new name, but `{name}` is defined already", span))
        self.defined[name] = span

    def layout(self, constants: tuple[tuple[str, int], ...]) -> Layout:
        reader, declaration = self.reader, self.declaration
        header = next((c for c in declaration.tree.children if isinstance(c, Tree) and c.data == "names"), None)
        parameters = reader.names(header)
        sizes = [s for r, t in self.of_kind("size") for s in r.names(t.children[0])]
        for name, _ in constants:
            self.define(name, declaration.span)
        for name, span in (*parameters, *sizes):
            self.define(name, span)
        for r, t in (*self.of_kind("index"), *self.of_kind("value")):
            self.define(r.name(t.children[0]), r.span(t.children[0]))
        self.known = {n for n, _ in (*parameters, *sizes)}
        self.arity = {r.name(t.children[0]): len(r.exprs(t.children[1])) for r, t in self.of_kind("index")}
        self.raise_errors()

        positions, coordinates, relation = self.relation(len(parameters))
        indexes = tuple(self.index(r, t) for r, t in self.of_kind("index"))
        values = tuple(self.value(r, t, positions) for r, t in self.of_kind("value"))
        if not values:
            self.errors.append(SpecError("expected a `value` clause, but there is none", declaration.span,
                                         ("write for instance `value val[nnz] at [p]`",)))  # fmt: skip
        self.raise_errors()
        return Layout(
            declaration.name,
            tuple(n for n, _ in parameters),
            constants,
            tuple(n for n, _ in sizes),
            positions,
            coordinates,
            relation,
            indexes,
            values,
            self.fill(),
            _bindings(self.of_kind("binds")),
            _doc(self.clauses),
            declaration.span,
        )

    def raise_errors(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SpecErrors(self.errors)

    # --- the relation ----------------------------------------------------------------------------

    def relation(self, rank: int) -> tuple[tuple[str, ...], tuple[str, ...], Formula]:
        found = list(self.of_kind("relation"))
        if len(found) != 1:
            span = self.declaration.span if not found else found[1][0].span(found[1][1])
            raise SpecError(f"expected one `relation`, but there are {len(found)}", span)
        reader, tree = found[0]
        first = None
        alternatives = []
        for mapping in tree.children:
            positions, coordinates, formula = self.mapping(reader, mapping, rank)
            if first is None:
                first = (positions, coordinates)
            elif len(first[0]) != len(positions):
                raise reader.fail(f"expected {len(first[0])} positions as above, but there are {len(positions)}", mapping)
            names = dict(zip((*positions, *coordinates), (Var(n) for n in (*first[0], *first[1])), strict=True))
            alternatives.append(substitute(formula, names))
        assert first is not None
        formula = alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))
        for name in (*first[0], *first[1]):
            if name in self.defined:
                self.errors.append(reader.fail(f"expected a new name, but `{name}` is defined already", tree))
        self.check_names(formula, self.known | set(first[0]) | set(first[1]))
        self.check_affine(formula)
        return first[0], first[1], formula

    def mapping(
        self, reader: Reader, tree: Tree[Any], rank: int
    ) -> tuple[tuple[str, ...], tuple[str, ...], Formula]:
        """One `[positions] -> [coordinates] : formula`. A coordinate may be an expression of the positions."""
        left, right, formula_tree = tree.children
        positions = tuple(n for n, _ in reader.names(left))
        images = reader.exprs(right)
        if len(set(positions)) != len(positions):
            raise reader.fail("expected different names for the positions, but one stands twice", tree)
        if len(images) != rank:
            raise reader.fail(
                f"expected {rank} coordinates, one for each extent in the header, but there are {len(images)}", right or tree
            )
        coordinates: list[str] = []
        equalities: list[Formula] = []
        taken = set(positions) | self.known
        for image in images:
            if isinstance(image, Var) and image.name not in taken:
                name = image.name
            else:
                name = fresh(f"c{len(coordinates) + 1}", taken)
                equalities.append(Compare("=", Var(name), image, image.span if isinstance(image, Var) else None))
            coordinates.append(name)
            taken.add(name)
        formula = TRUE if formula_tree is None else reader.formula(formula_tree)
        return positions, tuple(coordinates), conjunction([*equalities, formula]) if equalities else formula

    # --- arrays ----------------------------------------------------------------------------------

    def index(self, reader: Reader, tree: Tree[Any]) -> IndexArray:
        name_tree, extents_tree, *entries = tree.children
        name = reader.name(name_tree)
        extents = reader.exprs(extents_tree)
        for extent in extents:
            self.check_names(extent, self.known)
        ranges, properties = [], []
        for entry in entries:
            if entry.data == "range":
                ranges.append(self.range(reader, entry, name))
            else:
                properties.append(self.property(reader, entry, name, len(extents)))
        return IndexArray(name, extents, tuple(ranges), tuple(properties), reader.span(name_tree))

    def range(self, reader: Reader, tree: Tree[Any], name: str) -> Property:
        """`0 <= f(p) < n` holds for all p: the variables are the arguments of the array's own calls."""
        formula = reader.formula(tree.children[0])
        bound: list[str] = []
        for call in calls(formula):
            if call.function == name:
                bound += [a.name for a in call.arguments if isinstance(a, Var) and a.name not in (*bound, *self.known)]
        self.check_names(formula, self.known | set(bound))
        if not any(c.function == name for c in calls(formula)):
            self.errors.append(reader.fail(f"expected a range of `{name}`, but `{name}` does not occur", tree))
        closed = Forall(tuple(bound), formula) if bound else formula
        return Property(closed, _text(reader, tree.children[0]), reader.span(tree))

    def property(self, reader: Reader, tree: Tree[Any], name: str, arity: int) -> Property:
        body = tree.children[0]
        text = _text(reader, body)
        if body.data == "short_form":
            formula = self.short_form(reader, body, name, arity)
        else:
            formula = reader.formula(body)
        self.check_names(formula, self.known)
        return Property(formula, text, reader.span(tree))

    def short_form(self, reader: Reader, tree: Tree[Any], name: str, arity: int) -> Formula:
        """The formulas of the paper's Table 1; an array of several dimensions is ordered along its last one."""
        words = [c for c in tree.children if isinstance(c, Token)]
        leading = [fresh(f"a{k}", self.known) for k in range(1, arity)]
        p, q, s = (fresh(n, self.known) for n in ("p", "q", "s"))
        at_p = Call(name, (*(Var(a) for a in leading), Var(p)))
        at_q = Call(name, (*(Var(a) for a in leading), Var(q)))
        bound = [*leading, p, q]
        injective = "injective" in words
        conditions: list[Formula] = [] if injective else [Compare("<", Var(p), Var(q))]
        for qualifier in (c for c in tree.children if isinstance(c, Tree)):
            if qualifier.data == "within":
                segments = reader.name(qualifier.children[0])
                low, high = Call(segments, (Var(s),)), Call(segments, (Bin("+", Var(s), ONE),))
                bound.insert(0, s)
                if injective:
                    conditions += [chain(low, "<=", Var(p), "<", high), chain(low, "<=", Var(q), "<", high)]
                else:
                    conditions = [chain(low, "<=", Var(p), "<", Var(q), "<", high)]
            else:
                for other in qualifier.children:
                    f = reader.name(other)
                    conditions.append(Compare("=", Call(f, at_p.arguments), Call(f, at_q.arguments)))
        if injective:
            conditions.append(Compare("=", at_p, at_q))
            return Forall(tuple(bound), implies(conjunction(conditions), Compare("=", Var(p), Var(q))))
        smaller = "<" if "strictly" in words else "<="
        a, b = (at_p, at_q) if "increasing" in words else (at_q, at_p)
        return Forall(tuple(bound), implies(conjunction(conditions), Compare(smaller, a, b)))

    def value(self, reader: Reader, tree: Tree[Any], positions: tuple[str, ...]) -> ValueArray:
        name_tree, extents_tree, position_tree, when_tree = tree.children
        extents, position = reader.exprs(extents_tree), reader.exprs(position_tree)
        if len(extents) != len(position):
            self.errors.append(
                reader.fail(f"expected {len(extents)} subscripts after `at`, but there are {len(position)}", tree)
            )
        for extent in extents:
            self.check_names(extent, self.known)
        for subscript in position:
            self.check_names(subscript, self.known | set(positions))
        when: Formula = TRUE if when_tree is None else reader.formula(when_tree)
        self.check_names(when, self.known | set(positions))
        return ValueArray(reader.name(name_tree), extents, position, when, reader.span(name_tree))

    def fill(self) -> float:
        for _, tree in self.of_kind("fill"):
            sign, number = tree.children
            value = float(number.children[0])
            return -value if sign == "-" else value
        return 0.0

    # --- checks ----------------------------------------------------------------------------------

    def check_names(self, node: Expr | Formula, known: set[str]) -> None:
        """Every name is declared, every call names an index array and has its number of arguments."""
        bound = {n for q in walk(node) if hasattr(q, "variables") for n in q.variables}
        for item in walk(node):
            match item:
                case Var(name, span) if name not in known | bound:
                    self.errors.append(_unknown(name, span, known | bound, set(self.arity)))
                case Call(function, _, span) if function not in self.arity:
                    self.errors.append(
                        SpecError(
                            f"expected an index array, but `{function}` is not one",
                            span,
                            (_near(function, set(self.arity)) or f"declare it: `index {function}[...] {{ ... }}`",),
                        )
                    )
                case Call(function, arguments, span) if len(arguments) != self.arity[function]:
                    self.errors.append(
                        SpecError(
                            f"expected {self.arity[function]} argument(s) of `{function}`, but there are {len(arguments)}",
                            span,
                            (f"`{function}` is declared with {self.arity[function]} extent(s)",),
                        )
                    )

    def check_affine(self, formula: Formula) -> None:
        """Products of two unknowns are not Presburger."""
        for item in walk(formula):
            if isinstance(item, Bin) and item.op in ("*", "/", "%"):
                left, right = (_names_and_calls(item.left), _names_and_calls(item.right))
                if right if item.op in ("/", "%") else left and right:
                    what = "product of two unknowns" if item.op == "*" else "division by an unknown"
                    self.errors.append(
                        SpecError(
                            f"expected an affine expression, but `{show(item)}` is a {what}",
                            item.span,
                            (
                                "make one factor a constant (after `;` in the header), "
                                "or the position of a value array, which may be any expression",
                            ),
                        )
                    )


def _names_and_calls(expr: Expr) -> bool:
    return bool(variables(expr) or calls(expr))


def _unknown(name: str, span: Span | None, known: set[str], functions: set[str]) -> SpecError:
    if name in functions:
        note = f"`{name}` is an index array: write `{name}(...)`"
    else:
        note = _near(name, known) or f"declare it: a size with `size {name}`, an index in the relation's tuples"
    return SpecError(f"expected a known size or index, but `{name}` is not one", span, (note,))


def _near(name: str, known: set[str]) -> str:
    import difflib

    found = difflib.get_close_matches(name, sorted(known), 1)
    return f"did you mean `{found[0]}`?" if found else ""


def _clauses(reader: Reader, tree: Tree[Any]) -> Iterator[tuple[Reader, Tree[Any]]]:
    """All clauses, `each` opened, every one with the reader that knows its constants."""
    for child in tree.children:
        if not isinstance(child, Tree):
            continue
        if child.data == "each_item":
            name, low, high, *_ = child.children
            for number in range(reader.constant(low), reader.constant(high) + 1):
                inner = Tree("inner", child.children[3:])
                yield from _clauses(reader.with_constant(str(name), number), inner)
        else:
            yield reader, child


def _text(reader: Reader, tree: Tree[Any]) -> str:
    """The text as written, white space folded."""
    meta = tree.meta
    return re.sub(r"\s+", " ", reader.source.text[meta.start_pos : meta.end_pos]).strip()


def _doc(clauses: list[tuple[Reader, Tree[Any]]]) -> str:
    import textwrap

    texts = []
    for _, tree in clauses:
        if tree.data == "doc":
            raw = str(tree.children[0])
            texts.append(textwrap.dedent(raw[3:-3]).strip("\n") if raw.startswith('"""') else raw[1:-1])
    return "\n".join(texts)


def _bindings(found: Iterator[tuple[Reader, Tree[Any]]]) -> tuple[Binding, ...]:
    """The `binds` clauses; those for one format are put together."""
    formats: dict[tuple[str, str], list[tuple[str, str, int | None]]] = {}
    for reader, tree in found:
        library, form, *items = tree.children
        arrays = formats.setdefault((str(library), "" if form is None else str(form)), [])
        for item in items:
            name, _, attribute, component = item.children
            arrays.append((reader.name(name), str(attribute), None if component is None else reader.constant(component)))
    return tuple(Binding(library, form, tuple(arrays)) for (library, form), arrays in formats.items())
