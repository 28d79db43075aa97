"""Reads a layout declaration for given constants: families expanded, short forms written out, names checked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lark import Token, Tree

from spfgen.errors import Span, SpecError
from spfgen.facts.formula import (
    ONE,
    TRUE,
    ZERO,
    Bin,
    Call,
    Compare,
    Exists,
    Expr,
    Forall,
    Formula,
    Or,
    Var,
    calls,
    chain,
    conjunction,
    divisible,
    implies,
    rename,
    show,
    variables,
)
from spfgen.ir import children, fresh, walk
from spfgen.lang.expressions import SHORT_FORMS, Reader, counted, did_you_mean, raise_all, rebound, there_are
from spfgen.lang.nodes import LayoutDecl
from spfgen.lang.parse import read_fill
from spfgen.layout.nodes import HINT_FUNCTIONS, Binding, Hint, IndexArray, Layout, Property, ValueArray, ValueTransform

_EXTENT_HINT = "an extent is made of sizes: declare `size {name}`, or take an extent of the header"
_POSITION_HINT = "only sizes and the positions in the relation's first tuple can occur here"


def instantiate(declaration: LayoutDecl, settings: Mapping[str, int]) -> Layout:
    """The layout for these constants. Raises SpecError(s) with the place of each mistake."""
    constants: dict[str, int] = {}
    for name, default in declaration.constants:
        value = settings.get(name, default)
        if value is None:
            raise SpecError(
                f"expected a value for the constant `{name}` of layout `{declaration.name}`, but there is none",
                declaration.span,
                (f"write `{declaration.name}({name}=...)`",),
            )
        constants[name] = value
    reader = Reader(declaration.source, constants)
    parts = _Parts(reader, declaration)
    return parts.layout(tuple(constants.items()))


def extents_as_written(declaration: LayoutDecl, settings: Mapping[str, int]) -> dict[str, tuple[Expr, ...]]:
    """The extents of each array, with constants that `settings` does not set left as names.

    `settings` holds the constants that names depend on, such as the rank.
    """
    clauses = _clauses(Reader(declaration.source, settings), declaration.tree)
    arrays = ((r, t) for r, t in clauses if t.data in ("index", "value"))
    return {r.name(t.children[0]): r.exprs(t.children[1]) for r, t in arrays}


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
            first = self.defined[name]
            hint = f"it is defined in line {first.line}: " if first is not None else ""
            note = f"{hint}give one of them another name"
            self.errors.append(SpecError(f"expected a new name, but `{name}` is defined already", span, (note,)))
        self.defined.setdefault(name, span)

    def define_header(self, parameters: list[tuple[str, Span | None]], sizes: list[tuple[str, Span | None]]) -> None:
        """Every name that stands outside the relation's tuples, once."""
        for name, span in parameters:
            self.define(name, span)
        for tree in self.declaration.tree.children:
            if isinstance(tree, Tree) and tree.data == "constant":
                self.define(str(tree.children[0]), self.reader.span(tree.children[0]))
        for name, span in sizes:
            self.define(name, span)
        for r, t in (*self.of_kind("index"), *self.of_kind("value")):
            self.define(r.name(t.children[0]), r.span(t.children[0]))
        for tree in self.declaration.tree.iter_subtrees_topdown():
            if tree.data in ("each", "each_item") and str(tree.children[0]) in self.defined:
                self.define(str(tree.children[0]), self.reader.span(tree.children[0]))

    def layout(self, constants: tuple[tuple[str, int], ...]) -> Layout:
        reader, declaration = self.reader, self.declaration
        header = next((c for c in declaration.tree.children if isinstance(c, Tree) and c.data == "names"), None)
        parameters = reader.names(header)
        sizes = [s for r, t in self.of_kind("size") for s in r.names(t.children[0])]
        self.define_header(parameters, sizes)
        self.known = {n for n, _ in (*parameters, *sizes)}
        self.arity = {r.name(t.children[0]): len(r.exprs(t.children[1])) for r, t in self.of_kind("index")}
        self.raise_errors()

        positions, coordinates, relation = self.relation(len(parameters))
        indexes = tuple(self.index(r, t) for r, t in self.of_kind("index"))
        values = tuple(self.value(r, t, positions) for r, t in self.of_kind("value"))
        if not values:
            name = fresh("one", {*self.defined, *positions, *coordinates})
            values = (ValueArray(name, (ONE,), (ZERO,), implied=True),)
        fill, bindings = self.fill(), self.bindings()
        hints = self.hints(positions, coordinates)
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
            fill,
            bindings,
            hints,
            _doc(self.clauses),
            declaration.span,
            self.value_transforms,
        )

    def raise_errors(self) -> None:
        raise_all(self.errors)

    # --- the relation ----------------------------------------------------------------------------

    def relation(self, rank: int) -> tuple[tuple[str, ...], tuple[str, ...], Formula]:
        clauses = list(self.of_kind("relation"))
        if len(clauses) != 1:
            span = self.declaration.span if not clauses else clauses[1][0].span(clauses[1][1])
            if clauses:
                hint = "write alternatives in one relation, separated by `;`: `{ [p] -> [i] : ...; [q] -> [i] : ... }`"
            else:
                hint = "write for instance `relation { [p] -> [i] : 0 <= p < n and i = p }`"
            raise SpecError(f"expected one `relation`, but {there_are(len(clauses))}", span, (hint,))
        reader, tree = clauses[0]
        first = None
        alternatives = []
        turned: list[ValueTransform] = []
        for mapping in tree.children:
            positions, coordinates, formula = self.mapping(reader, mapping, rank)
            if first is None:
                first = (positions, coordinates)
            elif len(first[0]) != len(positions):
                raise reader.fail(
                    f"expected {counted(len(first[0]), 'position')} as above, but {there_are(len(positions))}",
                    mapping.children[0] or mapping,
                    "all alternatives have the same number of positions; one may be fixed: `q = 0`",
                )
            names = dict(zip((*positions, *coordinates), (*first[0], *first[1]), strict=True))
            self.check_mapping(formula, positions, coordinates)
            self.check_bounded(reader, mapping, formula)
            alternatives.append(rename(formula, {a: b for a, b in names.items() if a != b}))
            turned.append(ValueTransform(alternatives[-1], self.operators(reader, mapping)))
        self.value_transforms = tuple(turned) if any(t.operators for t in turned) else ()
        assert first is not None
        formula = alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))
        return first[0], first[1], formula

    def operators(self, reader: Reader, mapping: Tree[Any]) -> tuple[str, ...]:
        """What is done to the stored value: `as -val`, `as conj(val)`, `as -conj(val)`."""
        tree = mapping.children[3]
        if tree is None:
            return ()
        sign, name, argument = tree.children
        arrays = [r.name(t.children[0]) for r, t in self.of_kind("value")]
        array = str(name) if argument is None else reader.name(argument)
        hint = "write for instance `as -val` or `as conj(val)`"
        if argument is not None and str(name) != "conj":
            self.errors.append(reader.fail(f"expected `conj`, but found `{name}`", tree, hint))
        elif arrays != [array]:
            message = f"expected the only value array of the layout, but found `{array}`"
            self.errors.append(reader.fail(message, tree, hint))
        return (*(["conjugate"] if argument is not None else []), *(["negative"] if sign == "-" else []))

    def check_mapping(self, formula: Formula, positions: tuple[str, ...], coordinates: tuple[str, ...]) -> None:
        names = {*positions, *coordinates}
        self.errors += rebound(formula, {*self.defined, *names})
        self.check_names(formula, self.known | names)
        self.check_affine(formula)

    def check_bounded(self, reader: Reader, tree: Tree[Any], formula: Formula) -> None:
        """A position that no condition mentions runs for ever; layout/check.py looks at the others."""
        mentioned = variables(formula)
        for name, span in reader.names(tree.children[0]):
            if name not in mentioned:
                message = f"expected bounds for the position `{name}`, but no condition mentions it"
                hint = f"add for instance `0 <= {name} < n` to the relation"
                self.errors.append(SpecError(message, span, (hint,)))

    def define_tuple(self, names: list[tuple[str, Span | None]]) -> None:
        """The names of a tuple are new, each."""
        seen: set[str] = set()
        for name, span in names:
            if name in self.defined or name in seen:
                hint = "positions and coordinates need names of their own"
                self.errors.append(SpecError(f"expected a new name, but `{name}` is defined already", span, (hint,)))
            seen.add(name)
        self.raise_errors()

    def check_new(self, reader: Reader, right: Tree[Any] | None) -> None:
        """A size or constant is no coordinate: it would silently be the only one that has entries."""
        for tree in [] if right is None else right.children:
            if isinstance(tree, Tree) and (name := _text(reader, tree)) in self.defined:
                hint = "positions and coordinates need names of their own"
                self.errors.append(reader.fail(f"expected a new name, but `{name}` is defined already", tree, hint))
        self.raise_errors()

    def mapping(self, reader: Reader, tree: Tree[Any], rank: int) -> tuple[tuple[str, ...], tuple[str, ...], Formula]:
        """One `[positions] -> [coordinates] : formula`. A coordinate may be an expression of the positions."""
        left, right, formula_tree, _ = tree.children
        positions = tuple(n for n, _ in reader.names(left))
        images = reader.exprs(right)
        self.define_tuple(reader.names(left))
        self.check_new(reader, right)
        if len(images) != rank:
            raise reader.fail(
                f"expected {counted(rank, 'coordinate')}, one for each extent of the header, "
                f"but {there_are(len(images))}",
                right or tree,
                f"layout `{self.declaration.name}` has {counted(rank, 'extent')}: "
                "write as many names between the second brackets",
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
        self.define_tuple([(i.name, i.span) for i in images if isinstance(i, Var) and i.name in coordinates])
        formula = TRUE if formula_tree is None else reader.formula(formula_tree)
        return positions, tuple(coordinates), conjunction([*equalities, formula]) if equalities else formula

    # --- arrays ----------------------------------------------------------------------------------

    def index(self, reader: Reader, tree: Tree[Any]) -> IndexArray:
        name_tree, extents_tree, *entries = tree.children
        name = reader.name(name_tree)
        extents = reader.exprs(extents_tree)
        for extent in extents:
            self.check_extent(extent)
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
        allowed = f"a range contains sizes and the plain arguments of the array only: `0 <= {name}(p) < n`"
        self.check_names(formula, self.known | set(bound), allowed)
        self.errors += rebound(formula, {*self.defined, *bound})
        if not any(c.function == name for c in calls(formula)):
            message = f"expected a range of `{name}`, but `{name}` does not occur"
            self.errors.append(reader.fail(message, tree, f"write for instance `range 0 <= {name}(p) < n`"))
        closed = Forall(tuple(bound), formula) if bound else formula
        return Property(closed, _spelt(reader, tree.children[0], formula), reader.span(tree))

    def property(self, reader: Reader, tree: Tree[Any], name: str, arity: int) -> Property:
        body = tree.children[0]
        if body.data == "short_form":
            formula = self.short_form(reader, body, name, arity)
        elif body.data == "name" and not difflib.get_close_matches(reader.name(body), SHORT_FORMS, 1, 0.75):
            hint = f"short forms are {', '.join(f'`{s}`' for s in SHORT_FORMS)}; `{name}(0) = 0` is a formula"
            raise reader.fail("expected a formula or a short form, but this is neither", body, hint)
        else:
            formula = reader.formula(body)
        text = _spelt(reader, body, formula)
        self.check_names(formula, self.known, "bind the variables of a property: `property forall p < q : ...`")
        self.errors += rebound(formula, self.known)
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
                segments, span = reader.name(qualifier.children[0]), reader.span(qualifier.children[0])
                low, high = Call(segments, (Var(s),), span), Call(segments, (Bin("+", Var(s), ONE),), span)
                bound.insert(0, s)
                if injective:
                    conditions += [chain(low, "<=", Var(p), "<", high), chain(low, "<=", Var(q), "<", high)]
                else:
                    conditions = [chain(low, "<=", Var(p), "<", Var(q), "<", high)]
            else:
                for other in qualifier.children:
                    f, span = reader.name(other), reader.span(other)
                    conditions.append(Compare("=", Call(f, at_p.arguments, span), Call(f, at_q.arguments, span)))
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
                reader.fail(
                    f"expected {counted(len(extents), 'subscript')} after `at`, but {there_are(len(position))}",
                    position_tree or tree,
                    f"`{reader.name(name_tree)}` is declared with {counted(len(extents), 'extent')}",
                )
            )
        for extent in extents:
            self.check_extent(extent)
        for subscript in position:
            self.check_names(subscript, self.known | set(positions), _POSITION_HINT)
        when: Formula = TRUE if when_tree is None else reader.formula(when_tree)
        self.check_names(when, self.known | set(positions), _POSITION_HINT)
        self.check_affine(when)
        self.errors += rebound(when, {*self.defined, *positions})
        # What is divided by 0 has no place.
        for condition in dict.fromkeys(c for e in (*position, *extents) for c in divisible(e)):
            self.check_affine(condition)
            when = conjunction([when, condition])
        return ValueArray(reader.name(name_tree), extents, position, when, reader.span(name_tree))

    def fill(self) -> Any:
        clauses = list(self.of_kind("fill"))
        for reader, tree in clauses[1:]:
            hint = "a layout has one fill value"
            self.errors.append(reader.fail("expected one `fill`, but it is given twice", tree, hint))
        return next((read_fill(tree) for _, tree in clauses), 0)

    def bindings(self) -> tuple[Binding, ...]:
        """The `binds` clauses; those for one format are put together."""
        arrays = [r.name(t.children[0]) for r, t in self.clauses if t.data in ("index", "value")]
        formats: dict[tuple[str, str], list[tuple[str, str, int | None]]] = {}
        for reader, tree in self.of_kind("binds"):
            library, form, *items = tree.children
            bound_arrays = formats.setdefault((str(library), "" if form is None else str(form)), [])
            for item in items:
                name_tree, _, attribute, component = item.children
                name = reader.name(name_tree)
                if name not in arrays:
                    hint = did_you_mean(name, arrays) or f"its arrays: {', '.join(arrays)}"
                    message = f"expected an array of the layout, but `{name}` is not one"
                    self.errors.append(reader.fail(message, name_tree, hint))
                bound_arrays.append((name, str(attribute), None if component is None else reader.constant(component)))
        return tuple(Binding(library, form, tuple(bound_arrays)) for (library, form), bound_arrays in formats.items())

    def hints(self, positions: tuple[str, ...], coordinates: tuple[str, ...]) -> tuple[Hint, ...]:
        """The `pack` clauses, one for a position."""
        hints: dict[str, Hint] = {}
        for reader, tree in self.of_kind("pack"):
            name_tree, keys_tree = tree.children
            name = reader.name(name_tree)
            if name not in positions:
                hint = did_you_mean(name, positions) or f"its positions: {', '.join(positions)}"
                message = f"expected a position of the layout, but `{name}` is not one"
                self.errors.append(reader.fail(message, name_tree, hint))
            if name in hints:
                message = f"expected one `pack` for `{name}`, but there are two"
                self.errors.append(reader.fail(message, tree, "write all keys in one clause, the foremost first"))
            keys = reader.exprs(keys_tree)
            for key in keys:
                self.check_hint(reader, keys_tree, key, {*self.known, *positions, *coordinates})
            hints[name] = Hint(name, keys, reader.span(tree))
        return tuple(hints.values())

    def check_hint(self, reader: Reader, tree: Tree[Any], key: Expr, known: set[str]) -> None:
        hint = "a key of `pack` is made of coordinates, positions and sizes: `-count(i)`"
        for call in calls(key):
            if call.function not in HINT_FUNCTIONS or not call.arguments:
                words = ", ".join(f"`{f}(...)`" for f in HINT_FUNCTIONS[:-1]) + f" or `{HINT_FUNCTIONS[-1]}(...)`"
                message = f"expected {words} in a key of `pack`, but there is `{show(call)}`"
                self.errors.append(reader.fail(message, tree, hint))
        for name in sorted(variables(key) - known):
            self.errors.append(reader.fail(f"expected a known name, but `{name}` is not one", tree, hint))

    # --- checks ----------------------------------------------------------------------------------

    def check_names(self, node: Expr | Formula, known: set[str], hint: str = "") -> None:
        """Every name is declared where it stands, every call names an index array and has all its arguments."""
        match node:
            case Forall(bound, body) | Exists(bound, body):
                self.check_names(body, known | set(bound), hint)
                return
            case Var(name, span) if name not in known:
                self.errors.append(self.unknown(name, span, known, hint))
            case Call(function, arguments, span):
                self.check_call(function, len(arguments), span)
        for child in children(node):
            self.check_names(child, known, hint)

    def check_call(self, function: str, arguments: int, span: Span | None) -> None:
        wanted = self.arity.get(function)
        if wanted is None:
            self.errors.append(self.no_array(function, span))
        elif arguments != wanted:
            message = f"expected {counted(wanted, 'argument')} of `{function}`, but {there_are(arguments)}"
            hint = f"`{function}` is declared with {counted(wanted, 'extent')}"
            self.errors.append(SpecError(message, span, (hint,)))

    def check_extent(self, extent: Expr) -> None:
        """An extent is known before any array is read."""
        self.check_names(extent, self.known, _EXTENT_HINT)
        for call in calls(extent):
            if call.function in self.arity:
                message = f"expected an extent made of sizes and numbers, but `{show(call)}` is read from an array"
                hint = f"declare a size, and define it by a property: `property {show(call)} = nnz`"
                self.errors.append(SpecError(message, call.span, (hint,)))

    def unknown(self, name: str, span: Span | None, known: set[str], hint: str) -> SpecError:
        if name in self.arity:
            note = f"`{name}` is an index array: write `{name}(...)`"
        else:
            declare = f"declare it: a size with `size {name}`, an index in the relation's tuples"
            note = did_you_mean(name, known) or hint.format(name=name) or declare
        return SpecError(f"expected a known size or index, but `{name}` is not one", span, (note,))

    def no_array(self, name: str, span: Span | None) -> SpecError:
        if name in self.defined:
            note = f"`{name}` holds values and cannot be called" if name not in self.known else f"`{name}` is a size"
        else:
            note = did_you_mean(name, self.arity) or f"declare it: `index {name}[n] {{ ... }}`"
        return SpecError(f"expected an index array, but `{name}` is not one", span, (note,))

    def check_affine(self, formula: Formula) -> None:
        """Products of two unknowns are not Presburger."""
        for item in walk(formula):
            if isinstance(item, Bin) and item.op in ("*", "/", "%"):
                left, right = (_names_and_calls(item.left), _names_and_calls(item.right))
                if right if item.op in ("/", "%") else left and right:
                    what = "product of two unknowns" if item.op == "*" else "division by an unknown"
                    hint = (
                        "make one factor a constant (after `;` in the header), "
                        "or the position of a value array, which may be any expression"
                    )
                    if item.op == "*" and not any(calls(item)) and variables(item) <= self.known:
                        hint = (
                            "let two positions run over the factors, "
                            f"`0 <= a < {show(item.left)} and 0 <= b < {show(item.right)}`; "
                            f"a value may lie at `a*{show(item.right)} + b`"
                        )
                    self.errors.append(
                        SpecError(f"expected an affine expression, but `{show(item)}` is a {what}", item.span, (hint,))
                    )


def _names_and_calls(expr: Expr) -> bool:
    return bool(variables(expr) or calls(expr))


def _clauses(reader: Reader, tree: Tree[Any]) -> Iterator[tuple[Reader, Tree[Any]]]:
    """All clauses, `each` opened, every one with the reader that knows its constants."""
    for child in tree.children:
        if not isinstance(child, Tree):
            continue
        if child.data == "each_item":
            name, low, high, *_ = child.children
            for number in reader.repetitions(low, high):
                inner = Tree("inner", child.children[3:])
                yield from _clauses(reader.with_constant(str(name), number), inner)
        else:
            yield reader, child


def _spelt(reader: Reader, tree: Tree[Any], formula: Formula) -> str:
    """A fact as the user wrote it; where it is a clause of a family, what it says for this rank."""
    text = _text(reader, tree)
    if "{" not in text:
        return text
    if tree.data != "short_form":
        return show(formula)
    words = [str(c) for c in tree.children if isinstance(c, Token)]
    for qualifier in (c for c in tree.children if isinstance(c, Tree)):
        names = ", ".join(reader.name(n) for n in qualifier.children)
        words.append(f"within {names}" if qualifier.data == "within" else f"where {names} equal")
    return " ".join(words)


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
