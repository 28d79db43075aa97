"""Conversions without sorted keys that kernels do not make. Both have two passes over the source: count, then write.

    table     all keys that occur are marked in a table, then numbered (diagonals);
    grouped   the source is scanned group by group; the keys that occur in one are collected and sorted (blocks).

Both are for a target with one rank; layout/keys.py says what its groups and keys are.
"""

from __future__ import annotations

from spfgen.cir.convert.both import Pair, group_arguments
from spfgen.cir.convert.grouped import grouped_functions
from spfgen.cir.convert.table import table_functions
from spfgen.cir.convert.which import is_grouped, is_table

__all__ = [
    "Pair",
    "group_arguments",
    "grouped_functions",
    "is_grouped",
    "is_table",
    "table_functions",
]
