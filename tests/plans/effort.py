"""How much a plan does when it is carried out: counted by the interpreter, never guessed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Effort:
    """`iterations` of loops, and positions that are looked at one by one; `finds` by a key, in whatever is sorted or a
    table; `probes` of hash tables of entries, and what goes into them; `cells` of memory that get a first value."""

    iterations: int = 0
    finds: int = 0
    probes: int = 0
    cells: int = 0

    @property
    def total(self) -> int:
        return self.iterations + self.finds + self.probes + self.cells
