"""The verifier of assemblies, measured: those of all layouts with a mistake in them, which make other arrays of random
entries; how many it refuses for the small tables that it knows (plan/assemble/check.py)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from spfgen.errors import DataError, InternalError, SpfgenError
from spfgen.layout.fill import differs_as_number
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import storable
from spfgen.layout.pack_entries import sorted_entries
from spfgen.plan.assemble.by_key import KeyAssembly, assembly_by_key
from spfgen.plan.assemble.carried import Misstep, Refused, Table, carried_out
from spfgen.plan.assemble.check import Way, Wrong, check_held, check_key, check_steps, ways_by_key
from spfgen.plan.assemble.forms import number_of_group
from spfgen.plan.assemble.from_pack_plan import assembly_of
from spfgen.plan.assemble.nodes import Assembly
from spfgen.space.nodes import EntryList, Tensor
from tests.meta.measure import Share
from tests.meta.mutate_assembly import KINDS, ByKey, mutants

TABLES = 6
Found = Assembly | ByKey


@dataclass
class Assemblies:
    """By kind; `missed` are those that are not refused."""

    shares: dict[str, Share] = field(default_factory=lambda: defaultdict(Share))
    missed: list[tuple[Layout, str, Found]] = field(default_factory=list)
    count: int = 0

    @property
    def total(self) -> Share:
        return Share(sum(s.refused for s in self.shares.values()), sum(s.differ for s in self.shares.values()))

    def table(self) -> str:
        return "\n".join([*(f"{k:32} {self.shares[k]}" for k in KINDS if k in self.shares), f"{'all':32} {self.total}"])


def measured(layouts: Iterable[Layout], of_a_kind: int) -> Assemblies:
    """So many mutants of each kind are drawn of each assembly."""
    found = Assemblies()
    for number, layout in enumerate(layouts):
        rng = np.random.default_rng([number, 49])
        own = [*assemblies(layout)]
        tables = [*entries(layout, rng)] if own else []
        for assembly in own:
            found.count += 1
            assert not differs(layout, assembly, tables), f"the assembly of {layout.name} itself is wrong"
            by_kind: dict[str, list[Found]] = defaultdict(list)
            for kind, mutant in mutants(assembly):
                by_kind[kind].append(mutant)
            for kind, made in by_kind.items():
                for k in sorted(rng.permutation(len(made))[:of_a_kind]):
                    if differs(layout, made[k], tables):
                        seen = refuses(made[k])
                        found.shares[kind].count(seen)
                        found.missed += [] if seen else [(layout, kind, made[k])]
    return found


def assemblies(layout: Layout) -> Iterator[Found]:
    """What there is for a layout; nothing where it is not packed."""
    types = tuple((i.name, i.types[0]) for i in layout.indexes)
    names = tuple((i.name, i.name) for i in layout.indexes)
    tensor = Tensor("T", layout, "float64", types, layout.parameters, layout.sizes, names, False, True,
                    assembled=EntryList(layout, types, "float64"))  # fmt: skip
    try:
        yield assembly_of(layout)
        key = assembly_by_key(tensor)
    except SpfgenError:
        return
    if isinstance(key, KeyAssembly):
        yield ByKey(key.key, key.tree, number_of_group(key.key))


def entries(layout: Layout, rng: np.random.Generator) -> Iterator[Table]:
    """Random entries for which the layout has places, in small and in larger shapes."""
    for number in range(TABLES):
        shape = tuple(
            int(n) for n in rng.integers(1, (5, 9, 14)[number % 3] * (2 if layout.rank < 2 else 1), layout.rank)
        )
        count = int(rng.integers(0, 2 + 2 * max(shape, default=1)))
        coords = tuple(rng.integers(0, n, count) for n in shape)
        values = rng.integers(1, 4, count if shape else 1).astype(np.float64)
        try:
            columns, single = sorted_entries(layout, shape, coords, values, "first")
            held, stored = storable(layout, shape, tuple(columns.values()), single)
        except DataError:
            continue
        told = differs_as_number(stored, layout.fill)
        columns, single = sorted_entries(layout, shape, tuple(c[told] for c in held), stored[told])
        yield Table(dict(zip(layout.parameters, shape, strict=True)), columns, single)


def ways(assembly: Found) -> Sequence[Way]:
    if isinstance(assembly, ByKey):
        return ways_by_key(assembly.key, assembly.tree, assembly.groups)
    return [lambda table: carried_out(assembly, table)]


def differs(layout: Layout, assembly: Found, tables: Sequence[Table]) -> bool:
    """Whether some entries do not become arrays that hold them."""
    for way in ways(assembly):
        for table in tables:
            try:
                check_held(layout, table, way(table))
            except (Refused, Misstep, Wrong):
                return True
    return False


def refuses(assembly: Found) -> bool:
    try:
        if isinstance(assembly, ByKey):
            check_key(assembly.key, assembly.tree, assembly.groups)
        else:
            check_steps(assembly)
    except InternalError:
        return True
    return False
