"""IR 3: in what order the points run, and how each dimension is found.

    Plan ::= Seq(parts)            one after another
           | Clear(tensor)         all values of an output become 0, or those that a nest of loops goes through
           | Scan(dim, low, high)  dim runs over max(low) <= dim < min(high)
           | Locate(dim, value)    dim has one value, computed
           | Load(dim, call)       dim is read from an index array
           | Guard(conditions)     the body runs where they hold
           | Find(dim, low, high, loads, conditions, algorithm, hit, miss)
           | Segment(start, end)   the positions of one key lie side by side, in [start, end)
           | Bound(name)           the first position from which on a sorted index array holds a value or one behind it
           | Reach(dim, low, high)  the body runs if a sorted index array has values there that lie within bounds
           | State(name)           where a find by sequential iteration stands, kept over the loops inside
           | Table(name)           where each value of an index array stands, for the finds inside
           | Prefetch(dim)         the beginning of a later iteration's segment is fetched
           | Accumulate(target, op, body, storage) what the body adds to the target is kept in an accumulator
           | Finish(name, type, body) what is made of such a total, and stored
           | Levels(dim, low, high, body, inspect) dim runs level by level, where the inspector finds levels
           | Needs(value)          this iteration of the levels needs that one
           | Transpose(operand, copy, body)  a copy of an operand in another order, which the body reads
           | Versions(versions)    one of several plans that do the same: the first whose predicate holds in the call
           | Do(target, value)     one value is added to (or stored in) the target
           | Append(tensor, coordinates, value) one entry of a result whose pattern is computed is delivered
           | Gather(tensor, body)  what the body appends, each coordinate once and in order
           | InPlace(tensor, body) what the body appends is counted, then inserted where it belongs
           | Products(asked, body) a statement that is a sum of products, among other steps
           | Block(parts)          statements of one scope, one after another
           | Define(dim, value)    dim has one value in the rest of the block
           | Let(name, type, value) a scalar for the rest of the block
           | Assign(name, value)   the scalar has another value
           | Store(target, value)  one value is stored
           | If(condition, then, otherwise)
           | Repeat(body)          until something in it breaks
           | Break()               the innermost loop ends
           | Array(name, type, extents, fill)   memory of the kernel, all of it `fill`
           | Refuse(name)          the call fails if the scalar is true
           | Collect(name, body)   entries in a hash table
           | Entry(name, at, value) one of them
           | Emptied(name)         the table has none any more
           | Probe(dim, name, at)  dim is the entry at these coordinates, or -1

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
)
from spfgen.plan.nodes.base import (
    Inside,
    Nested,
    Plan,
    Seq,
    body,
    chain,
    operands_read,
    product,
    with_body,
)
from spfgen.plan.nodes.finds import (
    Bound,
    Find,
    Key,
    Loaded,
    Reach,
    Rejected,
    Segment,
    State,
    Table,
)
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
    Levels,
    Load,
    Locate,
    Needs,
    Partition,
    Prefetch,
    Scan,
    Slice,
    Transpose,
    Weight,
    without_ends,
)
from spfgen.plan.nodes.statements import (
    STATEMENTS,
    Append,
    Array,
    Assign,
    Block,
    Break,
    Collect,
    Define,
    Do,
    Emptied,
    Entry,
    Gather,
    If,
    InPlace,
    Let,
    Probe,
    Products,
    Refuse,
    Repeat,
    SkipZero,
    Store,
)
from spfgen.plan.nodes.versions import (
    Cheapest,
    Version,
    Versions,
    specialised,
)

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
    "Bound",
    "Break",
    "Cheapest",
    "Clear",
    "Collect",
    "Copy",
    "Define",
    "Do",
    "Emptied",
    "Entry",
    "Find",
    "Finish",
    "Flatten",
    "Gather",
    "Guard",
    "If",
    "InPlace",
    "Inside",
    "Key",
    "Let",
    "Levels",
    "Load",
    "Loaded",
    "Locate",
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
    "Scan",
    "Segment",
    "Seq",
    "SkipZero",
    "Slice",
    "State",
    "Storage",
    "Store",
    "Table",
    "Transpose",
    "Variable",
    "Version",
    "Versions",
    "Weight",
    "Workspace",
    "body",
    "chain",
    "is_sum",
    "is_temporary",
    "is_tile",
    "operands_read",
    "product",
    "specialised",
    "with_body",
    "without_ends",
]
