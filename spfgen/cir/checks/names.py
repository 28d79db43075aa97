"""C names in the functions of checks."""

from __future__ import annotations

from spfgen.cir.tree.names import identifier
from spfgen.ir import fresh
from spfgen.lang.types import KEYWORDS
from spfgen.layout.nodes import Layout

HOLDS, BROKEN, UNCHECKED, MEMORY = "SPFGEN_HOLDS", "SPFGEN_BROKEN", "SPFGEN_UNCHECKED", "SPFGEN_MEMORY"
KNOWN = frozenset({HOLDS, BROKEN, UNCHECKED, MEMORY, "INT64_MAX", "INT32_MAX", "NULL", "int64_t", "uint64_t"})


class CheckNames:
    """C names of sizes and arrays, and fresh ones."""

    def __init__(self, layout: Layout, name: str) -> None:
        self.taken = {*KEYWORDS, *KNOWN, name}
        self.variables: dict[str, str] = {}
        self.table = {n: self.new(n) for n in (*layout.parameters, *layout.sizes, *(a.name for a in layout.indexes))}
        self.limit, self.threads = self.new("limit"), "threads"
        self.report, self.status = self.new("report"), self.new("status")

    def new(self, wanted: str) -> str:
        name = fresh(identifier(wanted), self.taken)
        self.taken.add(name)
        return name

    def of(self, variable: str) -> str:
        """The same name each time: for what is never declared inside of its own scope."""
        if variable not in self.variables:
            self.variables[variable] = self.new(variable)
        return self.variables[variable]

    def __getitem__(self, name: str) -> str:
        return self.table[name]
