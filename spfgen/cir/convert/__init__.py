"""Conversions that need no sorted keys. All have two passes over the source: count, then write.

    sequence  the source is one list of entries that are seen to come in the order of groups and keys: it is copied;
    counted   entries of a group are numbered as they come: a counting sort (rows to columns, say). Right where they
              come in the order of their keys; a last function tests that, or sorts each group;
    scattered the same where neighbours in the source lie far apart in the target: first each entry goes to a bucket of
              groups that fits the cache, then each bucket is put in order;
    table     all keys that occur are marked in a table, then numbered (diagonals);
    grouped   the source is scanned group by group; the keys that occur in one are collected and sorted (blocks).

All are for a target with one rank; layout/keys.py says what its groups and keys are.
"""

from __future__ import annotations

from spfgen.cir.convert.both import Pair, group_arguments
from spfgen.cir.convert.counted import counted_functions
from spfgen.cir.convert.grouped import grouped_functions
from spfgen.cir.convert.scattered import scattered_functions
from spfgen.cir.convert.sequence import is_sequence, sequence_functions
from spfgen.cir.convert.table import table_functions
from spfgen.cir.convert.which import is_counted, is_grouped, is_sortable, is_table

__all__ = [
    "Pair",
    "counted_functions",
    "group_arguments",
    "grouped_functions",
    "is_counted",
    "is_grouped",
    "is_sequence",
    "is_sortable",
    "is_table",
    "scattered_functions",
    "sequence_functions",
    "table_functions",
]
