"""IR 3: in what order the points run, and how each dimension is found.

    Block(parts)                              statements of one scope, one after another
    Scan(dim, low, high, body)                dim runs over max(low) <= dim < min(high)
    LevelLoop(dim, low, high, body, inspect)  dim runs level by level; `inspect` says which iterations need which
    Needs(value)                              this iteration of the levels needs that one
    Repeat(body)                              again and again, until something in it breaks
    Break()                                   the innermost loop ends
    Guard(conditions, body)                   the body runs where they hold
    If(condition, then, otherwise)            one of two, by a value
    Versions(versions)                        one of several plans that do the same: the first that may run in this call
    Define(dim, value, body)                  dim has one value, computed, in the body, or in the rest of the block
    Load(dim, call, body)                     dim is read from an index array
    Find(dim, low, high, loads, conditions, algorithm, hit, miss)
    Segment(start, end, body)                 the positions of one key lie side by side, in [start, end)
    BoundSearch(name, body)                   where a value begins in a sorted index array, or those behind it
    Reach(dim, low, high, body)               the body runs if a sorted index array has values there within bounds
    SearchState(name, body)                   where a find by sequential iteration stands, kept over the loops inside
    FindTable(name, body)                     where each value of an index array stands, for the finds inside
    Prefetch(dim, body)                       the beginning of a later iteration's segment is fetched
    Transpose(operand, copy, body)            a copy of an operand in another order, which the body reads
    SkipZero(value, other, body)              the body runs unless it would add nothing
    Store(target, value, op, monoid)          a value is stored, added, or combined with what is there
    Accumulate(target, op, body, storage)     what the body adds to the target is kept in an accumulator
    Finish(name, type, body)                  what is made of such a total, and stored
    Clear(tensor, part, body)                 all of an output becomes 0, or what a nest goes through; a table loses its
                                              entries
    Append(tensor, coordinates, value)        one entry of a result whose pattern is computed is delivered
    RowWorkspace(tensor, body)                what the body appends, each coordinate once and in order
    InPlace(tensor, body)                     what the body appends is counted, then inserted where it belongs
    Products(asked, body)                     a statement that is a sum of products, among others
    Let(name, type, value)                    a scalar for the rest of the block
    Assign(name, value)                       the scalar has another value
    Array(name, type, extents, fill)          memory of the kernel, all of it `fill`
    Collect(name, body)                       entries in a hash table
    UpdateEntry(name, at, value)              one of them gets a value
    Probe(dim, name, at)                      dim is the entry at these coordinates, or -1
    Refuse(name)                              the call fails if the scalar is true

Expressions are those of facts/formula.py over dimension names. Every decision says why in `because`.
"""

from spfgen.plan.nodes.accumulators import (
    VARIABLE,
    Accumulate,
    Finish,
    Registers,
    RegisterTile,
    Row,
    Storage,
    Variable,
    Workspace,
    is_sum,
    is_temporary,
    is_tile,
    stores_in,
)
from spfgen.plan.nodes.base import Block, Inside, Nested, Plan, body, chain, operands_read, product, with_body
from spfgen.plan.nodes.finds import BoundSearch, Find, FindTable, Key, Loaded, Reach, Rejected, SearchState, Segment
from spfgen.plan.nodes.loops import (
    ACROSS,
    DISTINCT,
    EACH,
    FEW_LEFT,
    IN_TURN,
    LEFT,
    SEVERAL,
    Ahead,
    Clear,
    Copy,
    Flatten,
    Guard,
    LevelLoop,
    Load,
    Needs,
    Partition,
    Prefetch,
    Scan,
    Slice,
    Transpose,
    Weight,
    lookups_of,
    without_ends,
)
from spfgen.plan.nodes.statements import (
    STATEMENTS,
    Append,
    Array,
    Assign,
    Break,
    Collect,
    Define,
    If,
    InPlace,
    Let,
    Probe,
    Products,
    Refuse,
    Repeat,
    RowWorkspace,
    SkipZero,
    Store,
    UpdateEntry,
    goes_on,
)
from spfgen.plan.nodes.versions import Cheapest, Version, Versions, specialised

PLANS = Plan | Version
"""What plans consist of, but for their expressions: `walk` and `rewrite` pass these over when told so."""

__all__ = [
    "ACROSS",
    "DISTINCT",
    "EACH",
    "FEW_LEFT",
    "IN_TURN",
    "LEFT",
    "PLANS",
    "SEVERAL",
    "STATEMENTS",
    "VARIABLE",
    "Accumulate",
    "Ahead",
    "Append",
    "Array",
    "Assign",
    "Block",
    "BoundSearch",
    "Break",
    "Cheapest",
    "Clear",
    "Collect",
    "Copy",
    "Define",
    "Find",
    "FindTable",
    "Finish",
    "Flatten",
    "Guard",
    "If",
    "InPlace",
    "Inside",
    "Key",
    "Let",
    "LevelLoop",
    "Load",
    "Loaded",
    "Needs",
    "Nested",
    "Partition",
    "Plan",
    "Prefetch",
    "Probe",
    "Products",
    "Reach",
    "Refuse",
    "RegisterTile",
    "Registers",
    "Rejected",
    "Repeat",
    "Row",
    "RowWorkspace",
    "Scan",
    "SearchState",
    "Segment",
    "SkipZero",
    "Slice",
    "Storage",
    "Store",
    "Transpose",
    "UpdateEntry",
    "Variable",
    "Version",
    "Versions",
    "Weight",
    "Workspace",
    "body",
    "chain",
    "goes_on",
    "is_sum",
    "is_temporary",
    "is_tile",
    "lookups_of",
    "operands_read",
    "product",
    "specialised",
    "stores_in",
    "with_body",
    "without_ends",
]
