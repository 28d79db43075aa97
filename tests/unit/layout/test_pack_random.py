"""Random layouts, put together from dense, compressed, blocked, slotted, run and permuted dimensions: what is packed is
valid and comes back."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spfgen.lang.spec import parse_tree
from spfgen.layout.nodes import Layout
from spfgen.layout.pack import pack
from spfgen.layout.points import to_coordinates
from spfgen.layout.validate import check_arrays
from spfgen.pipeline import layout_of

BOUNDS = ("pointer", "ends", "counts")


class Writer:
    """The text of a layout, dimension by dimension. `outer` are the positions that say where the next one counts."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.sizes: list[str] = []
        self.positions: list[str] = []
        self.conditions: list[str] = []
        self.arrays: list[str] = []
        self.packs: list[str] = []
        self.outer: list[tuple[str, str]] = []
        self.coordinates = dict.fromkeys(range(rank), "")
        self.inner: list[tuple[str, str]] = []
        self.place: str | None = None

    def position(self) -> str:
        self.positions.append(f"p{len(self.positions)}")
        return self.positions[-1]

    def array(self, name: str, extents: list[str], low: str, call: str, high: str, more: str = "") -> None:
        self.arrays.append(f"index {name}[{', '.join(extents)}] {{ range {low} <= {call} {high} {more} }}")

    def dense(self, extent: str) -> str:
        p = self.position()
        self.conditions.append(f"0 <= {p} < {extent}")
        self.outer.append((p, extent))
        return p

    def bounded(self, kind: str, p: str, size: str) -> None:
        """Where position p counts: in a segment of its own for all outer positions."""
        names, extents = [n for n, _ in self.outer], [e for _, e in self.outer]
        if not names:
            self.conditions.append(f"0 <= {p} < {size}")
            return
        last = [*names[:-1], f"{names[-1]} + 1"]
        own, other = f"f_{p}({', '.join(names)})", f"g_{p}({', '.join(names)})"
        if kind == "pointer":
            self.conditions.append(f"{own} <= {p} < f_{p}({', '.join(last)})")
            extents = [*extents[:-1], f"{extents[-1]} + 1"]
        else:
            self.conditions.append(f"{own} <= {p} < {other}" if kind == "ends" else f"{own} <= {p} < {own} + {other}")
            self.array(f"g_{p}", extents, "0", other, f"<= {size}")
        self.array(f"f_{p}", extents, "0", own, f"<= {size}")

    def compressed(self, kind: str, extent: str, down: bool) -> str:
        p = self.position()
        size = f"size_{p}"
        self.sizes.append(size)
        self.bounded(kind, p, size)
        within = f"within f_{p}" if kind == "pointer" and len(self.outer) == 1 else ""
        ordered = f"property strictly {'decreasing' if down else 'increasing'} {within}"
        property_ = ordered if not self.outer or within else ""
        self.array(f"key_{p}", [size], "0", f"key_{p}(q)", f"< {extent}", property_)
        self.outer = [(p, size)]
        return f"key_{p}({p})"

    def slots(self, extent: str) -> str:
        p = self.position()
        width = f"size_{p}"
        self.sizes.append(width)
        self.conditions.append(f"0 <= {p} < {width}")
        self.outer.append((p, width))
        call = f"key_{p}({', '.join(n for n, _ in self.outer)})"
        self.conditions.append(f"0 <= {call}")
        self.array(f"key_{p}", [e for _, e in self.outer], "-1", call, f"< {extent}")
        return call

    def permuted(self, extent: str, own: str) -> str:
        p = self.position()
        self.conditions.append(f"0 <= {p} < {extent}")
        self.outer.append((p, extent))
        self.array(f"perm_{p}", [extent], "0", f"perm_{p}(q)", f"< {extent}", "property injective")
        self.packs.append(f"pack {p} by -count({own}), {own}")
        return f"perm_{p}({p})"

    def runs(self, kind: str, same: bool, extent: str) -> str:
        """Runs of neighbours: each with its first and either its end or a place for its values."""
        q = self.position()
        size = f"size_{q}"
        self.sizes.append(size)
        self.bounded(kind, q, size)
        p = self.position()
        self.array(f"start_{q}", [size], "0", f"start_{q}(q)", f"< {extent}")
        if same:
            self.array(f"stop_{q}", [size], "0", f"stop_{q}(q)", f"<= {extent}")
            self.conditions.append(f"start_{q}({q}) <= {p} < stop_{q}({q})")
            self.outer = [(q, size)]
            return p
        self.sizes.append("stored")
        self.array(f"room_{q}", [f"{size} + 1"], "0", f"room_{q}(q)", "<= stored", "property increasing")
        self.conditions.append(f"start_{q}({q}) <= {p} < start_{q}({q}) + room_{q}({q} + 1) - room_{q}({q})")
        self.outer = [("", "stored")]
        self.place = f"room_{q}({q}) + {p} - start_{q}({q})"
        return p

    def text(self) -> str:
        names = [f"i{k}" for k in range(self.rank)]
        conditions = [*self.conditions, *(f"{n} = {self.coordinates[k]}" for k, n in enumerate(names))]
        if self.place is not None:
            extents, places = ["stored"], [self.place]
        else:
            extents, places = [e for _, e in self.outer], [n for n, _ in self.outer]
        for p, extent in self.inner:
            self.positions.append(p)
            extents.append(extent)
            places.append(p)
        size = f"size {', '.join(dict.fromkeys(self.sizes))}" if self.sizes else ""
        return f"""
layout made({", ".join(f"n{k}" for k in range(self.rank))}) {{ {size}
    relation {{ [{", ".join(self.positions)}] -> [{", ".join(names)}] : {" and ".join(conditions)} }}
    {" ".join(self.arrays)}
    value val[{", ".join(extents)}] at [{", ".join(places)}]
    {" ".join(self.packs)} }}"""


@st.composite
def layouts(draw: st.DrawFn) -> tuple[str, Layout]:
    rank = draw(st.integers(1, 3))
    writer = Writer(rank)
    order = draw(st.permutations(range(rank)))
    for number, k in enumerate(order):
        last = number == rank - 1
        extent, own = f"n{k}", f"i{k}"
        kinds = ["dense", "compressed", "compressed", "slots", "blocked"]
        kinds += ["permuted"] if number == 0 and rank > 1 else []
        kinds += ["runs"] if last and not writer.inner else []
        kind = draw(st.sampled_from(kinds))
        bounds = draw(st.sampled_from(BOUNDS))
        if kind == "blocked":
            block = draw(st.integers(2, 3))
            outer = f"ceil({extent}/{block})"
            if draw(st.booleans()):
                value = writer.dense(outer)
            else:
                value = writer.compressed(bounds, outer, draw(st.booleans()))
            inner = f"r{k}"
            writer.conditions.append(f"0 <= {inner} < {block}")
            writer.inner.append((inner, str(block)))
            writer.coordinates[k] = f"{block}*{value} + {inner}"
            continue
        match kind:
            case "dense":
                value = writer.dense(extent)
            case "compressed":
                value = writer.compressed(bounds, extent, draw(st.booleans()))
            case "slots":
                value = writer.slots(extent)
            case "permuted":
                value = writer.permuted(extent, own)
            case _:
                value = writer.runs(bounds, draw(st.booleans()), extent)
        turned = kind in ("dense", "compressed") and draw(st.booleans())
        writer.coordinates[k] = f"{extent} - 1 - {value}" if turned else value
    text = writer.text()
    return text, layout_of(parse_tree(text).layouts["made"], {})


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(layouts(), st.integers(0, 2**16), st.sampled_from(["empty", "one", "sparse", "dense"]), st.booleans())
def test_what_is_packed_comes_back(made: tuple[str, Layout], seed: int, amount: str, tiny: bool) -> None:
    text, layout = made
    random = np.random.default_rng(seed)
    shape = tuple(int(random.integers(0, 3) if tiny else random.integers(3, 8)) for _ in range(layout.rank))
    density = {"empty": 0.0, "one": 0.0, "sparse": 0.3, "dense": 1.0}[amount]
    dense = np.where(random.random(shape) < density, random.integers(1, 4, shape), 0).astype(float)
    if amount == "one" and dense.size:
        dense[tuple(random.integers(0, n) for n in shape)] = 7
    coords = np.nonzero(dense)
    shuffled = random.permutation(len(coords[0]))
    packed = pack(layout, shape, tuple(c[shuffled] for c in coords), dense[coords][shuffled])
    assert check_arrays(layout, packed.sizes, packed.arrays, thorough=True) == (), text
    found, values = to_coordinates(layout, packed.sizes, packed.arrays, packed.arrays)
    back = np.zeros(shape)
    np.add.at(back, found, values)
    np.testing.assert_array_equal(back, dense, err_msg=text)
