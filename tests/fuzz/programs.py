"""Random programs as .spf text, with the shapes and seeds of their data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from typing import Any

from hypothesis import strategies as st

from spfgen.errors import SpecError
from spfgen.lang.parse import parse_layout_use
from spfgen.lang.spec import SpecTree, parse_tree
from spfgen.lang.types import FINDS
from spfgen.pipeline import RANK, Generated, generate, layout_of, resolve
from tests.differential.kernels import layouts_of_rank
from tests.differential.support import places
from tests.fuzz import unseen

CLASSES = ("n0", "n1", "n2")
"""Extents that are the same wherever they stand; an index runs over one of them."""
INDICES = {"i": "n0", "j": "n1", "k": "n2", "l": "n0"}
PLAIN = {1: ["dense", "dense_col"], 2: ["dense", "dense_col"], 3: ["dense", "dense_col"]}
SPARSE_OUTPUTS = {
    1: ["sv", "sv_decreasing", "sv_unsorted", "interval_vector", "masked_vector", "one_based_vector"],
    2: [
        "csr", "csc", "dcsr", "dcsc", "coo", "bcsr", "bcsr(R=3, C=1)", "dia", "ell", "lower", "diagonal", "warp24",
        "csf", "csr_reversed", "envelope", "csr_permuted", "arrow", "first_column_and_list", "chessboard", "banded",
        "even_columns",
    ],
    3: ["csf", "coo", "dense_fibres"],
}  # fmt: skip
"""Layouts that store each coordinate once (others are refused)."""

SHARABLE = ("csr", "csc", "dcsr", "coo", "csf", "dia", "ell", "sv", "sv_unsorted", "bcsr(R=2, C=1)", "dense_fibres")


@dataclass(frozen=True)
class Data:
    """What one run needs to be made."""

    extents: tuple[tuple[str, int], ...]
    sizes: tuple[tuple[str, int], ...]
    density: float
    seed: int


@dataclass(frozen=True)
class Case:
    """`kernel` is the text; `dims` says the extent class of every dimension of every tensor."""

    kernel: str
    dims: tuple[tuple[str, tuple[str, ...]], ...]
    shares: tuple[tuple[str, str], ...]
    data: tuple[Data, ...]

    def tree(self, name: str) -> SpecTree:
        parsed = parse_tree(self.kernel.replace("kernel NAME", f"kernel {name}"), "program.spf")
        return SpecTree(unseen.tree().layouts, parsed.kernels)

    def with_finds(self, finds: Mapping[str, str]) -> Case:
        """The case with a schedule that says how these positions are found."""
        words = " ".join(f"find {place} : {algorithm}" for place, algorithm in finds.items())
        if "schedule {" in self.kernel:
            return replace(self, kernel=self.kernel.replace("schedule {", f"schedule {{ {words} ", 1))
        return replace(self, kernel=f"{self.kernel.rstrip().removesuffix('}')}    schedule {{ {words} }}\n}}")

    def text(self) -> str:
        """The whole program, with the layouts that it uses and spfgen does not have."""
        used = [u.text for u in unseen.ALL.values() if f": {u.name}" in self.kernel]
        return "\n".join([*used, self.kernel.replace("kernel NAME", "kernel k")])


def forced(case: Case, algorithms: Sequence[str] = tuple(FINDS)) -> Iterator[Case]:
    """The case with each of the algorithms wherever it is provable; one place at a time where what is forced would
    change who drives."""
    possible = places(compiled(case))
    for algorithm in algorithms:
        finds = {p: algorithm for p, known in possible.items() if algorithm in known}
        if not finds:
            continue
        try:
            compiled(case.with_finds(finds))
            yield case.with_finds(finds)
        except SpecError:
            yield from (case.with_finds({p: algorithm}) for p in finds)


OWN_NAME = "kernel_of_this_case"
"""What kernels are called until somebody gives them another name."""


def compiled(case: Case, name: str = OWN_NAME) -> Generated:
    """What the compiler makes of it; SpfgenError when it is refused. Made once for all names and data."""
    made = _compiled(replace(case, data=()))
    program = replace(made.program, name=name)
    return replace(
        made, program=program, source=made.source.replace(OWN_NAME, name), header=made.header.replace(OWN_NAME, name)
    )


@lru_cache(maxsize=512)
def _compiled(case: Case) -> Generated:
    tree = case.tree(OWN_NAME)
    return generate(tree.kernels[OWN_NAME], resolve(tree.kernels[OWN_NAME], tree))


@dataclass
class _Tensor:
    name: str
    layout: str
    dims: tuple[str, ...]
    shares: str = ""

    @property
    def sparse(self) -> bool:
        return bool(self.dims) and self.layout not in ("dense", "dense_col")


@cache
def known_layouts(rank: int) -> list[str]:
    found = [n for n in layouts_of_rank(rank) if n != "bcsr"]
    if rank == 2:
        found += [f"bcsr(R={r}, C={c})" for r, c in ((1, 1), (2, 2), (1, 3), (3, 2), (2, 1))]
    return found


def unseen_layouts(rank: int) -> list[str]:
    return [u.name for u in unseen.ALL.values() if u.rank == rank]


class _Builder:
    """Draws one program piece by piece."""

    def __init__(self, draw: Any, focus: str) -> None:
        self.draw = draw
        self.focus = focus
        self.tensors: list[_Tensor] = []
        self.scalars: set[str] = set()
        self.sizes: set[str] = set()
        self.temporaries: set[str] = set()

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)  # 0, what shrinking likes, means no

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    # --- tensors ------------------------------------------------------------------------------------

    def tensor(self, rank: int, output: bool) -> _Tensor:
        prefix = "y" if output else "ABCD"[min(rank, 3)]
        name = f"{prefix}{len(self.tensors)}"
        dims = tuple(self.pick(CLASSES) for _ in range(rank))
        shares = ""
        if not rank:
            layout = "scalar"
        elif output:
            layout = self.pick(PLAIN[rank])
            if self.chance(80 if self.focus == "outputs" else 10):
                layout = self.pick(SPARSE_OUTPUTS[rank])
                if self.chance(10):
                    layout = self.pick([*known_layouts(rank), *unseen_layouts(rank)])
            owners = [t for t in self.tensors if len(t.dims) == rank and not t.shares and t.layout in SHARABLE]
            if owners and self.chance(25):
                owner = self.pick(owners)
                layout, dims, shares = owner.layout, owner.dims, owner.name
        else:
            options = known_layouts(rank)
            if unseen_layouts(rank) and self.chance(70 if self.focus == "unseen" else 25):
                options = unseen_layouts(rank)
            layout = self.pick(options)
        made = _Tensor(name, layout, dims, shares)
        self.tensors.append(made)
        return made

    def operand(self, sparse_left: int) -> _Tensor:
        fresh = [t for t in self.tensors if t.name not in self.temporaries and t.dims and not t.name.startswith("y")]
        written = [t for t in self.tensors if t.name in self.temporaries and t.dims and t is not self.target]
        if written and self.chance(50):
            found = self.pick(written)
        elif fresh and (len(self.tensors) >= 6 or self.chance(30)):
            found = self.pick(fresh)
        else:
            found = self.tensor(self.pick((1, 2, 2, 2, 3)), output=False)
        if found.sparse and sparse_left <= 0:
            found.layout = "dense" if found.name not in self.temporaries else found.layout
        return found

    # --- subscripts ---------------------------------------------------------------------------------

    def subscripts(self, dims: Sequence[str], anchored: set[str], pool: Sequence[str]) -> list[str]:
        """One for each dimension; `anchored` are the indices that have a subscript of their own."""
        result = []
        for dim in dims:
            own = [n for n in pool if INDICES[n] == dim] or [n for n in INDICES if INDICES[n] == dim]
            if not self.chance(14):
                index = self.pick(own)
                anchored.add(index)
                result.append(index)
                continue
            index = self.pick(pool)
            kinds = ["{} + 1", "{} - 1", "2*{}", "constant", "3 - {}", "{} + size"]
            if len(anchored) >= 1:
                kinds += ["sum", "difference"]
            kind = self.pick(kinds)
            if kind == "constant":
                result.append(str(self.draw(st.integers(0, 3))))
            elif kind in ("sum", "difference"):
                a, b = self.pick(sorted(anchored)), self.pick(sorted(anchored))
                result.append(f"{a} + {b}" if kind == "sum" else f"{a} - {b}")
            else:
                if kind.endswith("size"):
                    self.sizes.add("w")
                    kind = "{} - w" if self.chance(50) else "{} + w"
                anchored.add(index)
                result.append(kind.format(index))
        return result

    # --- statements ---------------------------------------------------------------------------------

    def factor(self, pool: Sequence[str], anchored: set[str], sparse: list[int]) -> tuple[str, set[str]]:
        """A factor and its indices."""
        kind = self.draw(st.integers(0, 9))
        if kind == 9:
            return self.pick(["2", "3", "0.5", "0"]), set()
        if kind == 8:
            name = self.pick(["a", "b"])
            self.scalars.add(name)
            return name, set()
        tensor = self.operand(sparse[0])
        sparse[0] -= tensor.sparse
        subscripts = self.subscripts(tensor.dims, anchored, pool)
        used = {n for s in subscripts for n in re.findall(r"[a-z]\w*", s) if n in INDICES}
        return f"{tensor.name}[{', '.join(subscripts)}]", used

    def statement(self) -> str:
        """One statement."""
        written = [t for t in self.tensors if t.name in self.temporaries]
        rank = self.pick((0, 1, 1, 2, 2, 3)) if self.focus != "outputs" else self.pick((1, 2, 2, 3))
        if self.focus == "outputs" and self.chance(30):  # something to share with
            self.tensor(rank, output=False)
        if written and self.chance(20):
            self.target: _Tensor = self.pick(written)
        else:
            self.target = self.tensor(rank, output=True)
        target = self.target
        outer: set[str] = set()
        own = self.subscripts(target.dims, outer, list(INDICES))
        pool = [*sorted(outer), *(n for n in INDICES if n not in outer)][: max(len(outer) + 1, 2)]
        parts: list[str] = []
        common: set[str] | None = None
        for number in range(self.pick((1, 1, 1, 1, 2, 3))):
            text, uses = self.term(pool, set(outer))
            for use in uses:
                common = use if common is None else common & use
            if number == 0:
                parts.append(f"-{text}" if self.chance(10) else text)
            else:
                parts.append(f"{self.pick('+-')} {text}")
        op = self.pick(("=", "+="))
        left = target.name + (f"[{', '.join(own)}]" if own else "")
        if op == "=" and self.chance(10):
            parts.insert(0, f"{left} +")
        where = ""
        if self.chance(35):
            known = sorted(outer | (common or set()))
            if known:
                where = f" where {self.condition(known, 2)}"
        self.temporaries.add(target.name)
        return f"{left} {op} {' '.join(parts)}{where}"

    def term(self, pool: Sequence[str], anchored: set[str]) -> tuple[str, list[set[str]]]:
        """A product, and the indices of each of the terms that it is when multiplied out."""
        factors: list[str] = []
        uses: list[list[set[str]]] = []
        sparse = [3 if self.focus != "unseen" else 2]
        for _ in range(self.pick((1, 1, 2, 2, 2, 3, 4))):
            if self.chance(8):  # a sum in parentheses; indices of one summand alone anchor nothing
                one, two = (self.factor(pool, set(anchored), sparse) for _ in range(2))
                factors.append(f"({one[0]} {self.pick('+-')} {two[0]})")
                uses.append([one[1], two[1]])
            else:
                text, used = self.factor(pool, anchored, sparse)
                factors.append(text)
                uses.append([used])
        text = "*".join(factors)
        if self.chance(10):
            text = f"{text}/{self.pick(('2', 'a', '4'))}"
            if text.endswith("a"):
                self.scalars.add("a")
        if self.chance(5):
            text = f"(-{factors[0]})" + text[len(factors[0]) :]
        return text, [set().union(*row) for row in product(*uses)]

    # --- conditions ---------------------------------------------------------------------------------

    def amount(self, known: Sequence[str]) -> str:
        """An affine expression of indices and sizes."""
        index = self.pick(known)
        kind = self.draw(st.integers(0, 7))
        if kind <= 2:
            return index
        if kind == 3:
            return str(self.draw(st.integers(0, 4)))
        if kind == 4:
            name = self.pick(("w", INDICES[index] if INDICES[index] in self.sizes else "w"))
            self.sizes.add(name)
            return name
        if kind == 5:
            return f"{index} + {self.pick((1, 2))}"
        if kind == 6:
            return f"{self.pick((2, 3))}*{index} - 1"
        return f"{index} + {self.pick(known)}"

    def condition(self, known: Sequence[str], depth: int) -> str:
        kind = self.draw(st.integers(0, 9)) if depth else self.draw(st.integers(0, 5))
        match kind:
            case 0 | 1 | 2:
                return f"{self.amount(known)} {self.pick(('<', '<=', '>', '>=', '=', '!='))} {self.amount(known)}"
            case 3:
                divisor = self.pick((2, 3))
                return f"({self.amount(known)}) mod {divisor} {self.pick(('=', '!=', '<'))} {self.pick((0, 1, 2))}"
            case 4:
                quotient = f"floor(({self.amount(known)})/{self.pick((2, 3))})"
                return f"{quotient} {self.pick(('=', '<', '>=', '!='))} {self.amount(known)}"
            case 5:
                return f"0 <= {self.amount(known)} < {self.amount(known)}"
            case 6:
                return f"not ({self.condition(known, depth - 1)})"
            case 7:
                return f"({self.condition(known, depth - 1)} or {self.condition(known, depth - 1)})"
        return f"({self.condition(known, depth - 1)} and {self.condition(known, depth - 1)})"

    # --- the whole ----------------------------------------------------------------------------------

    def case(self) -> Case:
        if self.chance(20):
            self.sizes |= set(CLASSES)
        count = self.pick((1, 1, 2) if self.focus == "order" else (1, 1, 1, 2, 3))
        statements = [self.statement() for _ in range(count)]
        by_name = {t.name: t for t in self.tensors}
        lines = []
        used = [t for t in self.tensors if any(f"{t.name}[" in s or s.startswith(f"{t.name} ") for s in statements)]
        for t in used:
            if t.shares and (t.shares not in {u.name for u in used} or by_name[t.shares].layout != t.layout):
                t.shares = ""
            extents = ""
            if t.dims and set(t.dims) <= self.sizes and self.chance(70):
                extents = f"[{', '.join(t.dims)}]"
            if t.dims:
                shares = f" shares {t.shares}" if t.shares else ""
                lines.append(f"    tensor {t.name}{extents} : {t.layout}{shares}")
        lines = [*(f"    size {s}" for s in sorted(self.sizes)), *lines]
        loops = self.loops(used, statements) if self.chance(80 if self.focus in ("order", "schedules") else 10) else []
        clauses = self.clauses(loops) if self.focus == "schedules" else []
        clauses += [f"order {', '.join(loops)}"] if loops and (not clauses or self.chance(30)) else []
        if clauses:
            lines.append(f"    schedule {{ {'; '.join(clauses)} }}")
        text = "\n".join(["kernel NAME {", *lines, *(f"    {s}" for s in statements), "}"])
        dims = tuple((t.name, t.dims) for t in used)
        data = tuple(self.data() for _ in range(self.pick((2, 3))))
        return Case(text, dims, tuple((t.name, t.shares) for t in used if t.shares), data)

    def loops(self, used: Sequence[_Tensor], statements: Sequence[str]) -> list[str]:
        """Indices and positions in any order."""
        text = " ".join(s.partition(" where ")[0] for s in statements)
        inside = " ".join(part.partition("]")[0] for part in text.split("[")[1:])
        words = set(inside.replace("*", " ").replace(",", " ").split())
        names = [n for n in INDICES if n in words]
        for t in used:
            if t.sparse:
                declaration, settings = unseen.tree().resolve(parse_layout_use(t.layout))
                if RANK in dict(declaration.constants):
                    settings[RANK] = len(t.dims)
                names += [f"{t.name}.{p}" for p in layout_of(declaration, settings).positions]
        wanted = self.draw(st.permutations(names)) if names else []
        return list(wanted[: self.draw(st.integers(1, 4))])

    def clauses(self, loops: Sequence[str]) -> list[str]:
        """Tiles of some of the loops, and perhaps a parallel one."""
        result = []
        for number, loop in enumerate(loops[:2]):
            word = self.pick(("tile", "tile", "split"))
            result.append(f"{word} {loop} by {self.pick((1, 2, 3, 5))} as tile_{number}")
        if result and self.chance(30):
            result.append(f"parallel {self.pick((*loops, 'tile_0'))}")
        return result

    def data(self) -> Data:
        extents = tuple((c, self.pick((0, 1, 2, 3, 4, 5, 6))) for c in CLASSES)
        sizes = (("w", self.draw(st.integers(0, 5))),)
        return Data(extents, sizes, self.pick((0.4, 0.4, 0.4, 0.0, 1.0, 0.15)), self.draw(st.integers(0, 50)))


@st.composite
def cases(draw: Any, focus: str) -> Case:
    """`focus` is one of `dense`, `outputs`, `unseen`, `order`, `finds`, `schedules`: what there is more of."""
    if focus == "finds":
        return _with_forced_finds(draw, _Builder(draw, draw(st.sampled_from(("unseen", "order")))).case())
    return _Builder(draw, focus).case()


def _with_forced_finds(draw: Any, case: Case) -> Case:
    """The case with a provable algorithm for each position that is looked for."""
    try:
        possible = places(compiled(case))
    except Exception:  # refused, or what the runner will report
        return case
    finds = {place: draw(st.sampled_from(sorted(known))) for place, known in possible.items() if known}
    return case.with_finds(finds) if finds else case
