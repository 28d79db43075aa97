"""The templates of the find algorithms: what plan/finds/ has proved right, as C.

Each function yields the statements of one find; `hit(name of the position)` gives those of a hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from spfgen.cir.lower.scope import Built, FindState, Scope
from spfgen.cir.lower.state import Lowering
from spfgen.cir.lower.workspaces import WorkspaceArray
from spfgen.cir.tree import nodes as c
from spfgen.cir.tree.build import INT, joined, loop
from spfgen.cir.tree.elements import zero
from spfgen.cir.tree.print import print_expr
from spfgen.facts.formula import Call, Expr, Num, Var, substitute
from spfgen.lang.types import TYPES, ElementType
from spfgen.plan.nodes import BoundSearch, Find, FindTable, Key, Reach, Segment
from spfgen.space.nodes import Operand

Hit = Callable[[], list[c.Stmt]]


@dataclass(frozen=True)
class Sought:
    """A key in C: the array, the offset of its row, the bounds, the value, and what is loaded at the position."""

    array: c.Expr
    base: c.Expr
    low: c.Expr
    high: c.Expr
    value: c.Expr
    kind: str
    key: Key

    def at(self, position: c.Expr) -> c.Expr:
        index = position if self.base == c.Int(0) else c.Bin("+", self.base, position)
        return c.Load(self.array, index)

    def first(self, low: c.Expr, value: c.Expr, near: bool = False) -> c.Expr:
        """The first position from `low` on that does not stand before the value; `near`: probably soon."""
        function = f"spfgen_{'gallop' if near else 'search'}{'_down' if self.key.descending else ''}_{self.kind}"
        return c.Call(function, (self.array, self.base, low, self.high, value))

    @property
    def before(self) -> str:
        """How a value compares that stands before the one sought."""
        return ">" if self.key.descending else "<"

    @property
    def after(self) -> c.Expr:
        """The neighbouring value that stands right after the one sought."""
        return c.Bin("-" if self.key.descending else "+", self.value, c.Int(1))


def sought(
    low: Lowering, dim: str, lows: tuple[Expr, ...], highs: tuple[Expr, ...], call: Call, key: Key, scope: Scope
) -> tuple[list[c.Stmt], Sought]:
    """The key and its bounds; what is not a name gets one."""
    name = low.names[dim]
    lines: list[c.Stmt] = []

    def named(value: c.Expr, suffix: str) -> c.Expr:
        if isinstance(value, c.Name | c.Int):
            return value
        lines.append(c.Declare(f"const {INT}", low.names.new(f"{name}_{suffix}"), value))
        return c.Name(lines[-1].name)  # type: ignore[attr-defined]

    first = low.fold("spfgen_max", lows, scope)
    end = named(low.fold("spfgen_min", highs, scope), "end")
    value = named(low.expr(key.value, scope), "key")
    loaded = low.expr(substitute(call, {dim: Num(0)}), scope)
    assert isinstance(loaded, c.Load)
    function, array = call.function.split(".", 1)
    kind = dict(low.program.tensor(function).index_types)[array]
    return lines, Sought(loaded.array, loaded.index, first, end, value, kind, key)


# --- search and sequential iteration ------------------------------------------------------------


def search(low: Lowering, find: Find, scope: Scope, wanted: Sought, hit: Hit) -> list[c.Stmt]:
    """Binary search for the first position, then on while the value is there (once, where it is unique)."""
    name = low.names[find.dim]
    there = _there(wanted, name)
    start = wanted.first(wanted.low, wanted.value)
    if wanted.key.unique:
        return [c.Declare(f"const {INT}", name, start), c.If(there, c.Block(tuple(hit())))]
    return [c.For(INT, name, start, there, 1, c.Block(tuple(hit())))]


def sequential(low: Lowering, find: Find, scope: Scope, wanted: Sought, hit: Hit) -> list[c.Stmt]:
    """On from where the last find stopped; there it stays, for the next may ask for the same."""
    name = low.names[find.dim]
    kept = scope.states[find.place]
    lines, at = _moved(low, name, find.at, find.algorithm, kept, wanted, scope)
    if wanted.key.unique and wanted.key.backward:
        there = c.Bin("&&", c.Bin(">=", c.Name(name), wanted.low), c.Bin("==", wanted.at(c.Name(name)), wanted.value))
        return [*lines, c.Declare(f"const {INT}", name, _minus(at, c.Int(1))), c.If(there, c.Block(tuple(hit())))]
    if wanted.key.unique:
        return [*lines, c.Declare(f"const {INT}", name, at), c.If(_there(wanted, name), c.Block(tuple(hit())))]
    if wanted.key.backward:  # back to the first of the equal keys: what is inside relies on rising positions
        first = low.names.new(f"{name}_first")
        lines += [c.Declare(INT, first, at), *_extended(first, wanted, -1)]
        return [*lines, c.For(INT, name, c.Name(first), c.Bin("<", c.Name(name), at), 1, c.Block(tuple(hit())))]
    return [*lines, c.For(INT, name, at, _there(wanted, name), 1, c.Block(tuple(hit())))]


def _extended(name: str, wanted: Sought, step: int) -> list[c.Stmt]:
    """A bound of the equal keys moved on as far as they stand."""
    bound = c.Name(name)
    next_one = bound if step > 0 else c.Bin("-", bound, c.Int(1))
    limit = c.Bin("<", bound, wanted.high) if step > 0 else c.Bin(">", bound, wanted.low)
    same = c.Bin("&&", limit, c.Bin("==", wanted.at(next_one), wanted.value))
    return [c.While(same, c.Block((c.Assign(bound, "+=" if step > 0 else "-=", c.Int(1)),)))]


def _moved(
    low: Lowering, name: str, at: tuple[Expr, ...], algorithm: str, kept: FindState, wanted: Sought, scope: Scope
) -> tuple[list[c.Stmt], c.Expr]:
    """The state moved to where the value is or would be; and the position."""
    lines: list[c.Stmt] = []
    backward = wanted.key.backward
    start = wanted.high if backward else wanted.low
    if kept.array:
        place = c.Load(c.Name(kept.at), low.linear_index(at, scope))
        position = c.Name(low.names.new(f"{name}_now"))
        anew = c.Bin("==", place, c.Int(0))
        lines.append(c.Declare(INT, position.name, c.Select(anew, start, c.Bin("-", place, c.Int(1)))))
    else:
        position = c.Name(kept.at)
        unset = c.Bin("<", position, c.Int(0))
        if kept.tag:
            (index,) = at
            value = low.expr(index, scope)
            anew = c.Bin("||", unset, c.Bin("!=", c.Name(kept.tag), value))
            first = [c.Assign(c.Name(kept.tag), "=", value), c.Assign(position, "=", start)]
            lines.append(c.If(anew, c.Block(tuple(first))))
        elif not kept.seated:
            first_position = wanted.first(wanted.low, wanted.after if backward else wanted.value)
            lines.append(c.If(unset, c.Block((c.Assign(position, "=", first_position),))))
    if backward:
        previous = c.Bin("-", position, c.Int(1))
        past = ">" if wanted.before == "<" else "<"
        more = c.Bin("&&", c.Bin(">", position, wanted.low), c.Bin(past, wanted.at(previous), wanted.value))
        lines.append(c.While(more, c.Block((c.Assign(position, "-=", c.Int(1)),))))
    elif algorithm == "galloping":
        function = f"spfgen_gallop{'_down' if wanted.key.descending else ''}_{wanted.kind}"
        arguments = (wanted.array, wanted.base, position, wanted.high, wanted.value)
        lines.append(c.Assign(position, "=", c.Call(function, arguments)))
    else:
        smaller = c.Bin(wanted.before, wanted.at(position), wanted.value)
        more = c.Bin("&&", c.Bin("<", position, wanted.high), smaller)
        lines.append(c.While(more, c.Block((c.Assign(position, "+=", c.Int(1)),))))
    if kept.array:
        lines.append(c.Assign(place, "=", c.Bin("+", position, c.Int(1))))
    return lines, position


def _there(wanted: Sought, name: str) -> c.Expr:
    inside = c.Bin("<", c.Name(name), wanted.high)
    return c.Bin("&&", inside, c.Bin("==", wanted.at(c.Name(name)), wanted.value))


def segment(low: Lowering, plan: Segment, scope: Scope) -> list[c.Stmt]:
    """The first position of the key and the first after them."""
    lines, wanted = sought(low, plan.dim, plan.low, plan.high, plan.call, plan.key, scope)
    start, end = low.names[plan.start], low.names[plan.end]
    if not plan.place:
        first = c.Declare(f"const {INT}", start, wanted.first(wanted.low, wanted.value))
        last = c.Declare(f"const {INT}", end, wanted.first(c.Name(start), wanted.after))
        return [*lines, first, last]
    more, at = _moved(low, low.names[plan.start], plan.at, plan.algorithm, scope.states[plan.place], wanted, scope)
    lines += more
    near, other, step = (end, start, -1) if plan.key.backward else (start, end, 1)
    lines += [c.Declare(f"const {INT}", near, at), c.Declare(INT, other, at)]
    return [*lines, *_extended(other, wanted, step)]


def bound(low: Lowering, plan: BoundSearch, scope: Scope) -> list[c.Stmt]:
    """The first position from which on a sorted array is no longer before a value."""
    key = Key(plan.name, plan.value, plan.descending)
    lines, wanted = sought(low, plan.dim, plan.low, plan.high, plan.call, key, scope)
    name = low.names[plan.name]
    value = low.expr(plan.value, scope)
    past = print_expr(c.Bin("<=" if plan.descending else ">=", low.expr(plan.call, scope), value))
    how = scope.tables[plan.place].table.kind if plan.place else "galloping" if plan.near else "binary search"
    comment = c.Comment(f"{name}: the first {low.names[plan.dim]} with {past}, by {how}: {plan.because}")
    first = (
        _reached(scope.tables[plan.place], plan, wanted)
        if plan.place
        else wanted.first(wanted.low, wanted.value, plan.near)
    )
    return [*lines, comment, c.Declare(f"const {INT}", name, first)]


def _reached(built: Built, plan: BoundSearch, wanted: Sought) -> c.Expr:
    """The first position from the inverse array; the first or the end for values that it has no place for."""
    first = c.Load(built.arrays["reached"], wanted.value)
    if plan.inside:
        return first
    beyond = c.Select(c.Bin("<", wanted.value, built.extent), first, built.high)
    return c.Select(c.Bin("<", wanted.value, c.Int(0)), built.low, beyond)


def reach(low: Lowering, plan: Reach, scope: Scope) -> tuple[list[c.Stmt], c.Expr]:
    """Whether a sorted array has values within bounds: there are positions, and neither all lie before nor behind."""
    lines, wanted = sought(low, plan.dim, plan.low, plan.high, plan.call, Key(plan.dim, plan.first), scope)
    least, most = wanted.low, c.Bin("-", wanted.high, c.Int(1))
    first, last = wanted.value, low.expr(plan.last, scope)
    some = c.Bin("<", wanted.low, wanted.high)
    if plan.descending:
        return lines, joined("&&", [some, c.Bin("<", wanted.at(most), last), c.Bin(">=", wanted.at(least), first)])
    return lines, joined("&&", [some, c.Bin("<", wanted.at(least), last), c.Bin(">=", wanted.at(most), first)])


# --- tables --------------------------------------------------------------------------------------


def looked_up(low: Lowering, find: Find, scope: Scope, wanted: Sought, hit: Hit) -> list[c.Stmt]:
    """The first position from the table; the others stand beside it or are chained."""
    name = low.names[find.dim]
    built = scope.tables[find.place]
    table = built.table
    if "end" in built.arrays:
        return _between(low, find, scope, wanted, hit)
    position = _first(built, wanted)
    if table.kind == "bitmap" and table.order == "unique":
        has = c.Call("spfgen_bitmap_has", (built.arrays["bits"], wanted.value))
        if isinstance(position, c.Select):  # the bit is tested here
            position = position.yes
        body = [c.Declare(f"const {INT}", name, position), *hit()]
        if find.place in scope.known:
            return body
        return [c.If(_inside(built, wanted, has), c.Block(tuple(body)))]
    none = built.high if table.kind == "hash map" else None
    there = c.Bin("<", c.Name(name), none) if none is not None else c.Bin(">=", c.Name(name), c.Int(0))
    if table.order == "unique":
        return [c.Declare(f"const {INT}", name, position), c.If(there, c.Block(tuple(hit())))]
    if table.order == "side by side":
        inside = c.Bin("<", c.Name(name), built.high)
        there = inside if none is not None else c.Bin("&&", there, inside)
        there = c.Bin("&&", there, c.Bin("==", wanted.at(c.Name(name)), wanted.value))
        return [c.For(INT, name, position, there, 1, c.Block(tuple(hit())))]
    following: c.Expr = c.Load(built.arrays["next"], _minus(c.Name(name), built.low))
    if none is None:
        following = c.Bin("-", following, c.Int(1))
    step = c.Assign(c.Name(name), "=", following)
    return [c.Declare(INT, name, position), c.While(there, c.Block((*hit(), step)))]


def _between(low: Lowering, find: Find, scope: Scope, wanted: Sought, hit: Hit) -> list[c.Stmt]:
    """All positions of the key, side by side: none where the end is 0."""
    name, end = low.names[find.dim], c.Name(low.names.new(f"{low.names[find.dim]}_after"))
    built = scope.tables[find.place]
    first, body = c.Load(built.arrays["at"], wanted.value), hit()
    after = c.Declare(f"const {INT}", end.name, c.Load(built.arrays["end"], wanted.value))
    lines: list[c.Stmt] = [after, loop(name, first, end, body)]
    return lines if wanted.key.inside else [c.If(_inside(built, wanted, None), c.Block(tuple(lines)))]


def _first(built: Built, wanted: Sought) -> c.Expr:
    """The first position of the key; -1, or for a hash map the end of the range, where there is none."""
    arrays = built.arrays
    if built.table.kind == "hash map":
        place = (arrays["slots"], arrays["filter"], arrays["shift"], built.high, wanted.value)
        return c.Call("spfgen_hash_find_filtered", place)
    if "first" in arrays:
        return c.Call("spfgen_bitmap_position", (arrays["bits"], arrays["first"], wanted.value))
    stored = c.Bin("-", c.Load(arrays["at"], wanted.value), c.Int(1))
    if built.table.kind == "bitmap":
        has = c.Call("spfgen_bitmap_has", (arrays["bits"], wanted.value))
        return c.Select(_inside(built, wanted, has), stored, c.Int(-1))
    if wanted.key.inside:
        return stored
    return c.Select(_inside(built, wanted, None), stored, c.Int(-1))


def _inside(built: Built, wanted: Sought, more: c.Expr | None) -> c.Expr:
    """The key is one that the table has a place for."""
    if wanted.key.inside and more is not None:
        return more
    both = c.Bin("&&", c.Bin(">=", wanted.value, c.Int(0)), c.Bin("<", wanted.value, built.extent))
    return both if more is None else c.Bin("&&", both, more)


def scattered(low: Lowering, find: Find, scope: Scope, wanted: Sought, hit: Hit) -> list[c.Stmt]:
    """The value is read from the workspace: nothing is looked for."""
    if wanted.key.inside:
        return hit()
    return [c.If(_inside(scope.tables[find.place], wanted, None), c.Block(tuple(hit())))]


def table_workspaces(low: Lowering, table: FindTable, scope: Scope) -> dict[str, WorkspaceArray]:
    """The arrays that a table needs, by role."""
    extent = low.expr(table.extent, scope)
    tensor, array = table.call.function.split(".", 1)
    stored = joined("*", [low.layout_expr(e, tensor) for e in low.program.tensor(tensor).layout.index(array).extents])
    stem = low.array_names[tensor, array]
    result: dict[str, WorkspaceArray] = {}

    def add(role: str, kind: str, count: c.Expr, fill: c.Expr | None = None) -> None:
        result[role] = WorkspaceArray(low.names.new(f"{stem}_{role}"), kind, count, fill)

    match table.kind:
        case "hash map":
            add("slots", "struct spfgen_slot", c.Call("spfgen_hash_slots", (stored,)))
            add("filter", "uint64_t", c.Call("spfgen_hash_filter_words", (stored,)))
        case "bitmap":
            words = c.Call("spfgen_bitmap_words", (extent,))
            add("bits", "uint64_t", words)
            if table.order == "unique" and table.rising:
                add("first", INT, words)
        case "scatter":
            kind = value_kind(low, table)
            fill = c.Float(-0.0, single=kind.name == "float32") if kind.kind == "f" else None
            add("workspace", kind.c, extent, fill)
        case "inverse array":
            add("reached", INT, extent)
    if table.kind == "position array" or (table.kind == "bitmap" and "first" not in result):
        add("at", INT, extent)
    if table.kind == "position array" and table.order == "side by side":
        add("end", INT, extent)
    if table.order == "chained" and table.kind != "scatter":
        add("next", INT, stored)
    return result


def value_kind(low: Lowering, table: FindTable) -> ElementType:
    assert table.values is not None
    return TYPES[low.program.tensor(table.values.tensor).value_type]


def build(low: Lowering, built: Built, scope: Scope) -> list[c.Stmt]:
    """Fill the table from the positions of its range."""
    table, arrays = built.table, built.arrays
    array, base, kind = _keys(low, table, scope)
    span = (array, base, built.low, built.high)
    if table.kind == "hash map":
        if table.order == "chained":
            call = c.Call(f"spfgen_hash_chain_{kind}", (arrays["slots"], arrays["next"], arrays["shift"], *span))
        else:
            call = c.Call(f"spfgen_hash_build_{kind}", (arrays["slots"], arrays["shift"], *span))
        filtered = c.Call(f"spfgen_hash_filter_build_{kind}", (arrays["filter"], arrays["shift"], *span))
        return [c.Do(call), c.Do(filtered)]
    if "first" in arrays:
        return [c.Do(c.Call(f"spfgen_bitmap_rank_{kind}", (arrays["bits"], arrays["first"], *span)))]
    lines: list[c.Stmt] = []
    if "bits" in arrays:
        lines.append(c.Do(c.Call(f"spfgen_bitmap_set_{kind}", (arrays["bits"], *span))))
    name = low.names.new(low.names[table.dim])
    key = c.Load(array, c.Bin("+", base, c.Name(name)))
    if "end" in arrays:
        return [*lines, *_runs(low, built, name, key)]
    if "reached" in arrays:
        return _inverted(low, built, name, key)
    if table.kind == "scatter":
        value = low.place(_at(table, name, low), scope)
        zero = c.Float(0.0, single=value_kind(low, table).name == "float32")
        normal = c.Bin("+", value, zero) if value_kind(low, table).kind == "f" else value
        op = "=" if table.order == "unique" else "+="
        body: list[c.Stmt] = [c.Assign(c.Load(arrays["workspace"], key), op, normal)]
        return [*lines, _each(name, built, body, backward=False)]
    place = c.Load(arrays["at"], key)
    body = [c.Assign(place, "=", c.Bin("+", c.Name(name), c.Int(1)))]
    if table.order == "chained":
        body.insert(0, c.Assign(c.Load(arrays["next"], _minus(c.Name(name), built.low)), "=", place))
    return [*lines, _each(name, built, body, backward=table.order != "unique")]


def _runs(low: Lowering, built: Built, name: str, key: c.Expr) -> list[c.Stmt]:
    """Where the positions of each key begin and end, run by run of equal keys."""
    position, run_key = c.Name(name), c.Name(low.names.new(f"{name}_key"))
    on = c.Assign(position, "+=", c.Int(1))
    same = c.Bin("&&", c.Bin("<", position, built.high), c.Bin("==", key, run_key))
    body = (
        c.Declare(f"const {INT}", run_key.name, key),
        c.Assign(c.Load(built.arrays["at"], run_key), "=", position),
        on,
        c.While(same, c.Block((on,))),
        c.Assign(c.Load(built.arrays["end"], run_key), "=", position),
    )
    return [c.Declare(INT, name, built.low), c.While(c.Bin("<", position, built.high), c.Block(body))]


def _inverted(low: Lowering, built: Built, name: str, key: c.Expr) -> list[c.Stmt]:
    """Where the keys first reach each value; behind all of them, the end."""
    value = c.Name(low.names.new(f"{name}_key"))
    last_key = c.Name(low.names.new(f"{name}_last"))
    place = c.Load(built.arrays["reached"], value)
    on = c.Assign(value, "+=", c.Int(1))

    def up_to(inside: c.Expr, position: c.Expr) -> c.Stmt:
        return c.While(inside, c.Block((c.Assign(place, "=", position), on)))

    body = [c.Declare(f"const {INT}", last_key.name, key), up_to(c.Bin("<=", value, last_key), c.Name(name))]
    behind = up_to(c.Bin("<", value, built.extent), built.high)
    return [c.Declare(INT, value.name, c.Int(0)), _each(name, built, body, backward=False), behind]


def reset(low: Lowering, built: Built, scope: Scope) -> list[c.Stmt]:
    """Undo the building, touching only what it touched."""
    table, arrays = built.table, built.arrays
    array, base, kind = _keys(low, table, scope)
    span = (array, base, built.low, built.high)
    lines: list[c.Stmt] = []
    if "bits" in arrays:
        lines.append(c.Do(c.Call(f"spfgen_bitmap_clear_{kind}", (arrays["bits"], *span))))
    role = "workspace" if table.kind == "scatter" else "end" if "end" in arrays else "at"
    if role in arrays:
        name = low.names.new(low.names[table.dim])
        key = c.Load(array, c.Bin("+", base, c.Name(name)))
        empty: c.Expr = c.Int(0)
        if role == "workspace":
            element = value_kind(low, table)
            empty = c.Float(-0.0, single=element.name == "float32") if element.kind == "f" else zero(element)
        lines.append(_each(name, built, [c.Assign(c.Load(arrays[role], key), "=", empty)], backward=False))
    return lines


def _keys(low: Lowering, table: FindTable, scope: Scope) -> tuple[c.Expr, c.Expr, str]:
    loaded = low.expr(substitute(table.call, {table.dim: Num(0)}), scope)
    assert isinstance(loaded, c.Load)
    tensor, array = table.call.function.split(".", 1)
    return loaded.array, loaded.index, dict(low.program.tensor(tensor).index_types)[array]


def stored_keys(low: Lowering, built: Built, kind: str, scope: Scope) -> tuple[c.Expr, c.Expr] | None:
    """Where the keys of a table's range begin and how many there are, if their type is this one."""
    array, base, key_type = _keys(low, built.table, scope)
    if key_type != kind:
        return None
    start = built.low if base == c.Int(0) else c.Bin("+", base, built.low)
    return (array if start == c.Int(0) else c.Bin("+", array, start)), _minus(built.high, built.low)


def _at(table: FindTable, name: str, low: Lowering) -> Operand:
    """The operand at the position of the building loop."""
    assert table.values is not None
    low.names.table[name] = name
    return replace(table.values, place=tuple(substitute(p, {table.dim: Var(name)}) for p in table.values.place))


def _each(name: str, built: Built, body: list[c.Stmt], backward: bool) -> c.Stmt:
    block = c.Block(tuple(body))
    if backward:
        return c.For(INT, name, _minus(built.high, c.Int(1)), c.Bin(">=", c.Name(name), built.low), -1, block)
    return c.For(INT, name, built.low, c.Bin("<", c.Name(name), built.high), 1, block)


def _minus(a: c.Expr, b: c.Expr) -> c.Expr:
    return a if b == c.Int(0) else c.Bin("-", a, b)


TEMPLATES: Mapping[str, Callable[[Lowering, Find, Scope, Sought, Hit], list[c.Stmt]]] = {
    "binary search": search,
    "sequential iteration": sequential,
    "galloping": sequential,
    "hash map": looked_up,
    "position array": looked_up,
    "bitmap": looked_up,
    "scatter": scattered,
}
