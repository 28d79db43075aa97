"""Layouts as levels, the way MLIR, the universal sparse tensor and TACO write them: sugar for relations.

    Levels ::= dims -> Level*            (i, j) -> (i : dense, j : compressed)
    Level  ::= expression : kind         dense, range, compressed, singleton, structured[n, m]; nonunique, nonordered

An expression is `i`, `i floordiv n`, `i mod n`, or a sum or difference such as `j - i`. `declaration` gives the layout
as it would stand in a spec file, with arrays `pos_k` and `crd_k` of level k: nothing else knows levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark, Tree
from lark.exceptions import UnexpectedInput, UnexpectedToken

from spfgen.errors import Span, SpecError, Unsupported
from spfgen.lang.expressions import did_you_mean, word_in

KINDS = tuple("dense range compressed singleton structured".split())
DENSE, RANGE, COMPRESSED, SINGLETON, STRUCTURED = KINDS
PROPERTIES = {"unique": (True, None), "nonunique": (False, None), "ordered": (None, True), "nonordered": (None, False)}
OWN = re.compile(r"(p|pos|crd|nnz|n)_\w*|val")
"""Names that layouts made of levels give to positions, arrays and sizes."""
EXAMPLE = "for instance `(i, j) -> (i : dense, j : compressed)`"
LONGEST = 48
"""Names made of levels are not longer."""


@dataclass(frozen=True)
class LevelTerm:
    """`sign * (dim floordiv by)`, `sign * (dim mod by)`, or `sign * dim` when `op` is empty."""

    dim: str
    op: str = ""
    by: int = 1
    sign: int = 1

    def __str__(self) -> str:
        return f"{self.dim} {self.op} {self.by}" if self.op else self.dim


@dataclass(frozen=True)
class Level:
    """`slots` of `structured[n, m]`: n places for m coordinates."""

    terms: tuple[LevelTerm, ...]
    kind: str
    unique: bool = True
    ordered: bool = True
    slots: tuple[int, int] | None = None

    @property
    def single(self) -> LevelTerm | None:
        """The only term, when it is one that counts upwards."""
        return self.terms[0] if len(self.terms) == 1 and self.terms[0].sign == 1 else None

    def expression(self) -> str:
        first, *others = self.terms
        text = str(first) if first.sign == 1 else f"-{first}"
        return text + "".join(f" {'+' if t.sign == 1 else '-'} {t}" for t in others)

    def __str__(self) -> str:
        words = [w for w, is_so in (("nonunique", not self.unique), ("nonordered", not self.ordered)) if is_so]
        slots = f"[{self.slots[0]}, {self.slots[1]}]" if self.slots else ""
        properties = f"({', '.join(words)})" if words else ""
        return f"{self.expression()} : {self.kind}{slots}{properties}"


@dataclass(frozen=True)
class Levels:
    dims: tuple[str, ...]
    levels: tuple[Level, ...]

    def __str__(self) -> str:
        return f"({', '.join(self.dims)}) -> ({', '.join(map(str, self.levels))})"

    @property
    def name(self) -> str:
        """A name that C can have, made of the levels."""
        text = (
            re.sub(r"\W+", "_", "_".join(str(x).replace(" - ", " minus ") for x in self.levels)).strip("_") or "number"
        )
        if len(text) <= LONGEST:
            return text
        from spfgen.folder import hash_of

        return f"{text[:LONGEST].rstrip('_')}_{hash_of(str(self))[:6]}"


def is_levels(text: str) -> bool:
    """Whether a text that stands for a layout is written as levels."""
    return "->" in text


# --- reading -------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = files("spfgen.lang").joinpath("levels.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


def parse_levels(text: str, span: Span | None = None) -> Levels:
    """Read levels; `span` is where the text stands, if it stands in a file. Raises SpecError."""
    at = span or Span("<levels>", text, 1, 1, 1 + len(text.splitlines()[0] if text else ""))
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        start = len(text.rstrip()) if ended else error.pos_in_stream or 0
        match = re.match(r"\w+|\S", text[start:])
        but = "the text ends here" if match is None else f"found `{match[0]}`"
        place = _piece(at, text, start, 1 if match is None else len(match[0]))
        raise SpecError(f"expected levels, but {but}", place, (EXAMPLE,)) from None
    first, *level_trees = tree.children
    dims = tuple(map(str, first.children)) if isinstance(first, Tree) else ()
    levels = Levels(dims, tuple(_level(t, at) for t in level_trees if isinstance(t, Tree)))
    _check(levels, at)
    return levels


def _piece(span: Span, text: str, start: int, length: int) -> Span:
    """A part of the levels; all of them where they stand on several lines."""
    if "\n" in text:
        return span
    return replace(span, column=span.column + start, end_column=span.column + start + length)


def _level(tree: Tree[Any], whole: Span) -> Level:
    expression, kind, slots, properties = tree.children
    span = word_in(whole, str(kind))
    if str(kind) not in KINDS:
        hint = did_you_mean(str(kind), KINDS) or f"the kinds of levels: {', '.join(KINDS)}"
        raise SpecError(f"expected a kind of level, but `{kind}` is not one", span, (hint,))
    unique, ordered = True, True
    for word in map(str, properties.children) if properties is not None else ():
        if word not in PROPERTIES:
            hint = did_you_mean(word, PROPERTIES) or f"the properties: {', '.join(PROPERTIES)}"
            raise SpecError(f"expected a property of a level, but `{word}` is not one", word_in(whole, word), (hint,))
        said_unique, said_ordered = PROPERTIES[word]
        unique = unique if said_unique is None else said_unique
        ordered = ordered if said_ordered is None else said_ordered
    counts = (int(str(slots.children[0])), int(str(slots.children[1]))) if slots is not None else None
    if (str(kind) == STRUCTURED) != (counts is not None):
        hint = "for instance `j mod 4 : structured[2, 4]`"
        message = "expected `structured[n, m]`, n places for m coordinates, and numbers for no other kind"
        raise SpecError(message, span, (hint,))
    return Level(tuple(_terms(expression, 1)), str(kind), unique, ordered, counts)


def _terms(tree: Tree[Any], sign: int) -> Iterator[LevelTerm]:
    match tree.data:
        case "name":
            yield LevelTerm(str(tree.children[0]), sign=sign)
        case "floordiv" | "mod" as op:
            yield LevelTerm(str(tree.children[0]), str(op), int(str(tree.children[1])), sign)
        case _:
            yield from _terms(tree.children[0], sign)
            yield from _terms(tree.children[1], sign if tree.data == "plus" else -sign)


def _check(levels: Levels, span: Span) -> None:
    """Every dimension is there and can be found from the levels."""
    used = {t.dim for x in levels.levels for t in x.terms}
    for dim in sorted(used - set(levels.dims)):
        hint = f"the dimensions come before `->`: {', '.join(levels.dims) or 'here there are none'}"
        raise SpecError(f"expected a dimension, but `{dim}` is not one", word_in(span, dim), (hint,))
    for dim in levels.dims:
        if OWN.fullmatch(dim):
            message = f"expected another name than `{dim}`, which the arrays of levels have"
            raise SpecError(message, word_in(span, dim), ("rename the dimension",))
        if levels.dims.count(dim) > 1:
            message = f"expected each dimension once, but `{dim}` is given twice"
            raise SpecError(message, word_in(span, dim), ("each subscript of the tensor is one dimension",))
        if dim not in used:
            message = f"expected a level for the dimension `{dim}`, but there is none"
            raise SpecError(message, word_in(span, dim), (f"add one behind `->`, for instance `{dim} : compressed`",))
    for level in levels.levels:
        if any(t.op and t.by < 1 for t in level.terms):
            message = "expected a positive number after `floordiv` and `mod`, but it is 0"
            raise SpecError(message, word_in(span, "0"), ("it is the size of a block: `i floordiv 2`, `i mod 2`",))
        if level.slots and not 0 < level.slots[0] <= level.slots[1]:
            message = "expected `structured[n, m]` with 1 <= n <= m, but the numbers are others"
            raise SpecError(message, word_in(span, STRUCTURED), ("for instance `structured[2, 4]`: two of every four",))
    if levels.levels and levels.levels[0].kind == SINGLETON:
        message = "expected another level before the first `singleton`, whose positions it has"
        hint = "for instance `(i : compressed(nonunique), j : singleton)`"
        raise SpecError(message, word_in(span, SINGLETON), (hint,))


# --- as a relation -------------------------------------------------------------------------------------


def declaration(levels: Levels, name: str) -> str:
    """The layout as it would stand in a spec file. Raises Unsupported for levels that no arrays can hold."""
    declared = _Declaration(levels)
    doc = f'    doc "{levels}"'
    sizes = [f"    size {', '.join(declared.sizes)}"] if declared.sizes else []
    arrays = [line for text in declared.arrays for line in text.splitlines()]
    bound = "\n        and ".join([*declared.conditions, *declared.equations]) or "true"
    return "\n".join(
        [
            f"layout {name}({', '.join(declared.extents.values())}) {{",
            doc,
            *sizes,
            f"    relation {{ [{', '.join(declared.positions)}] -> [{', '.join(levels.dims)}] :",
            f"        {bound} }}",
            *(f"    {line}" for line in arrays),
            f"    value val[{', '.join(e for _, e in declared.place)}] at [{', '.join(p for p, _ in declared.place)}]",
            *declared.bindings(),
            "}",
            "",
        ]
    )


class _Declaration:
    """The parts of the declaration, level by level. `place` holds (position, extent) of the current level."""

    def __init__(self, levels: Levels) -> None:
        self.levels = levels
        self.extents = {d: f"n_{d}" for d in levels.dims}
        self.positions: list[str] = []
        self.sizes: list[str] = []
        self.conditions: list[str] = []
        self.arrays: list[str] = []
        self.place: list[tuple[str, str]] = []
        self.segment: tuple[str, str] | None = None
        """(array of bounds, position) of the last compressed level that is not the first."""
        self.chain: list[str] = []
        """The coordinates of nonunique levels that share the current position."""
        self.values: list[str] = []
        """What each level's expression is equal to."""
        for number, level in enumerate(levels.levels, 1):
            getattr(self, f"_{level.kind}")(number, level)
        self.equations = list(self._equations())

    # Each kind of level extends the place, and says what its expression is.

    def _dense(self, number: int, level: Level) -> None:
        term = level.single
        if term is None:
            raise Unsupported(
                f"a dense level over `{level.expression()}` would need negative places",
                None,
                ("make it compressed, as in `(i, j) -> (j - i : compressed, i : range)`",),
            )
        position = self._position(number)
        self.conditions.append(_within(term, position, self.extents))
        self.place.append((position, _extent(term, self.extents)))
        self.values.append(position)
        self.chain = []

    _range = _dense

    def _compressed(self, number: int, level: Level) -> None:
        position, size = self._position(number), f"nnz_{number}"
        self.sizes.append(size)
        if not self.place:
            self.conditions.append(f"0 <= {position} < {size}")
            self.segment = None
        else:
            pointers = f"pos_{number}"
            *outer, (last, _) = self.place
            before = "".join(f"{p}, " for p, _ in outer)
            self.conditions.append(f"{pointers}({before}{last}) <= {position} < {pointers}({before}{last} + 1)")
            self.arrays.append(_pointers(pointers, [e for _, e in self.place], size))
            self.segment = (pointers, size) if not outer else (f"{pointers}/{len(outer)}", size)
        self.place = [(position, size)]
        self.chain = []
        self._key(number, level)

    def _singleton(self, number: int, level: Level) -> None:
        if len(self.place) != 1 or not self.place[0][1].startswith("nnz_"):
            raise Unsupported(
                "a singleton level shares the positions of a compressed one, but a dense one is before it"
            )
        self._key(number, level)

    def _structured(self, number: int, level: Level) -> None:
        assert level.slots is not None
        slot = self._position(number)
        self.conditions.append(f"0 <= {slot} < {level.slots[0]}")
        self.place.append((slot, str(level.slots[0])))
        coordinates = f"crd_{number}"
        order = "\n    property strictly increasing" if level.ordered and level.unique else ""
        names = [f"q_{k}" for k in range(len(self.place))]
        limits = _range_of(level, f"{coordinates}({', '.join(names)})", self.extents)
        extents = ", ".join(e for _, e in self.place)
        self.arrays.append(f"index {coordinates}[{extents}] {{\n    range {limits}{order}\n}}")
        self.values.append(f"{coordinates}({', '.join(p for p, _ in self.place)})")
        self.chain = []

    def _position(self, number: int) -> str:
        self.positions.append(f"p_{number}")
        return self.positions[-1]

    def _key(self, number: int, level: Level) -> None:
        """The array of coordinates of a compressed or singleton level."""
        position, size = self.place[0]
        coordinates = f"crd_{number}"
        order = self._order(coordinates, level)
        body = "".join(f"\n    property {o}" for o in order)
        limits = _range_of(level, f"{coordinates}(q)", self.extents)
        self.arrays.append(f"index {coordinates}[{size}] {{\n    range {limits}{body}\n}}")
        self.values.append(f"{coordinates}({position})")
        self.chain.append(coordinates)

    def _order(self, coordinates: str, level: Level) -> Iterator[str]:
        """That the coordinates of a segment rise where those before in the chain are equal; that they differ."""
        if not level.ordered and not level.unique:
            return
        sign = "<" if level.unique and level.ordered else "<=" if level.ordered else "!="
        same = "".join(f" and {c}(p) = {c}(q)" for c in self.chain)
        if self.segment is None:
            yield f"forall p, q : p < q{same} => {coordinates}(p) {sign} {coordinates}(q)"
            return
        pointers, _, depth = self.segment[0].partition("/")
        outer = "".join(f"s_{k}, " for k in range(int(depth or 0)))
        within = f"{pointers}({outer}s) <= p < q < {pointers}({outer}s + 1)"
        yield f"forall {outer}s, p, q : {within}{same} => {coordinates}(p) {sign} {coordinates}(q)"

    def _equations(self) -> Iterator[str]:
        """The dimensions by the levels: `i = 2*p_1 + p_3` of its quotient and remainder."""
        pairs = dict(zip(self.levels.levels, self.values, strict=True))
        quotients = {(t.dim, t.by): v for x, v in pairs.items() if (t := x.single) and t.op == "floordiv"}
        remainders = {(t.dim, t.by): v for x, v in pairs.items() if (t := x.single) and t.op == "mod"}
        joined = set(quotients) & set(remainders)
        for level, value in pairs.items():
            term = level.single
            if term is not None and (term.dim, term.by) in joined and term.op:
                if term.op == "floordiv":
                    yield f"{term.dim} = {term.by}*{value} + {remainders[term.dim, term.by]}"
            elif term is not None and not term.op:
                yield f"{term.dim} = {value}"
            else:
                yield self._solved(level, value) or f"{_formula(level)} = {value}"

    def _solved(self, level: Level, value: str) -> str:
        """The one dimension of a sum that no other level is, by the others; empty where there is none."""
        single = {
            t.dim: v for x, v in zip(self.levels.levels, self.values, strict=True) if (t := x.single) and not t.op
        }
        free = [t for t in level.terms if t.dim not in single]
        if len(free) != 1 or free[0].op or any(t.op for t in level.terms):
            return ""
        sign = free[0].sign
        others = [("-" if t.sign == sign else "+", single[t.dim]) for t in level.terms if t is not free[0]]
        first, *more = sorted([("+" if sign == 1 else "-", value), *others])
        start = first[1] if first[0] == "+" else f"-{first[1]}"
        return f"{free[0].dim} = {start}" + "".join(f" {op} {text}" for op, text in more)

    def bindings(self) -> Iterator[str]:
        """How arrays of numpy and scipy are this layout's, where they have it."""
        pattern = _pattern(self.levels)
        for wanted, text in FOREIGN.items():
            if pattern == wanted:
                yield f"    binds {text}"


FOREIGN = {
    "0 dense": "numpy : val = self",
    "0 dense, 1 dense": "numpy : val = self",
    "0 dense, 1 dense, 2 dense": "numpy : val = self",
    "1 dense, 0 dense": "numpy : val = T",
    "0 dense, 1 compressed": "scipy.csr : pos_2 = indptr, crd_2 = indices, val = data",
    "0 dense, 1 compressed(nonunique, nonordered)": "scipy.csr : pos_2 = indptr, crd_2 = indices, val = data",
    "1 dense, 0 compressed": "scipy.csc : pos_2 = indptr, crd_2 = indices, val = data",
    "1 dense, 0 compressed(nonunique, nonordered)": "scipy.csc : pos_2 = indptr, crd_2 = indices, val = data",
    "0 compressed(nonunique), 1 singleton": "scipy.coo : crd_1 = coords[0], crd_2 = coords[1], val = data",
    "0 floordiv dense, 1 floordiv compressed, 0 mod dense, 1 mod dense": (
        "scipy.bsr : pos_2 = indptr, crd_2 = indices, val = data"
    ),
}
"""Levels, with dimensions by number, that libraries have; blocks of any size are one pattern."""


def _pattern(levels: Levels) -> str:
    parts = []
    for level in levels.levels:
        term = level.single
        if term is None:
            return ""
        kind = str(level).rpartition(" : ")[2]
        parts.append(f"{levels.dims.index(term.dim)} {term.op + ' ' if term.op else ''}{kind}")
    return ", ".join(parts)


def _extent(term: LevelTerm, extents: dict[str, str]) -> str:
    extent = extents[term.dim]
    return {"": extent, "floordiv": f"ceil({extent}/{term.by})", "mod": str(term.by)}[term.op]


def _within(term: LevelTerm, value: str, extents: dict[str, str]) -> str:
    """That a value is one of the term's."""
    extent = extents[term.dim]
    match term.op:
        case "floordiv":
            return f"0 <= {term.by}*{value} < {extent}"
        case "mod":
            return f"0 <= {value} < {term.by}"
    return f"0 <= {value} < {extent}"


def _range_of(level: Level, value: str, extents: dict[str, str]) -> str:
    """That a value is one of the level's."""
    if level.single is not None:
        return _within(level.single, value, extents)
    above = [t for t in level.terms if t.sign == 1]
    below = [t for t in level.terms if t.sign == -1]
    high = " + ".join(_extent(t, extents) for t in above) or "1"
    low = " - ".join(["0", *(_extent(t, extents) for t in below)])
    return f"{low} - 1 < {value} < {high}"


def _formula(level: Level) -> str:
    """The expression as relations write it."""
    texts = {"": "{d}", "floordiv": "floor({d}/{n})", "mod": "{d} mod {n}"}
    parts = [("+" if t.sign == 1 else "-", texts[t.op].format(d=t.dim, n=t.by)) for t in level.terms]
    first = parts[0][1] if parts[0][0] == "+" else f"-{parts[0][1]}"
    return first + "".join(f" {sign} {text}" for sign, text in parts[1:])


def _pointers(name: str, extents: list[str], size: str) -> str:
    """The array that bounds the segments of a compressed level; row by row where several dense levels are before it."""
    *outer, last = extents
    names = [f"s_{k}" for k in range(len(outer))]
    before = "".join(f"{n}, " for n in names)
    lines = [f"index {name}[{', '.join([*outer, f'{last} + 1'])}] {{", f"    range 0 <= {name}({before}q) <= {size}"]
    lines.append("    property increasing")
    if not outer:
        lines += [f"    property {name}(0) = 0", f"    property {name}({last}) = {size}"]
    else:
        zeros = ", ".join("0" for _ in outer)
        ends = ", ".join(f"{e} - 1" for e in outer)
        lines += [f"    property {name}({zeros}, 0) = 0", f"    property {name}({ends}, {last}) = {size}"]
        for k in range(len(outer)):  # the end of one is the beginning of the next
            inner = [f"{e} - 1" for e in outer[k + 1 :]]
            now = ", ".join([*names[:k], names[k], *inner, last])
            after = ", ".join([*names[:k], f"{names[k]} + 1", *("0" for _ in outer[k + 1 :]), "0"])
            lines.append(f"    property forall {', '.join(names[: k + 1])} : {name}({after}) = {name}({now})")
    return "\n".join([*lines, "}"])
