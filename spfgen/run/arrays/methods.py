"""Behind the methods, operators and protocols of tensors (run/tensor.py) that compute: what they call.

Subscripts are here from the beginning. All else is imported when it is first asked for: to read some entries needs none
of it, and takes less time.
"""

from typing import Any

from spfgen.run.arrays import indexing

item, rows = indexing.item, indexing.rows


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from spfgen.run.arrays import eager, entries, functions, numpy_functions

    elsewhere = (functions.reshape, functions.squeeze, functions.diagonal)
    known = {f.__name__: f for f in (*elsewhere, entries.nonzero_count, numpy_functions.called)}
    globals()[name] = known[name] if name in known else getattr(eager, name)
    return globals()[name]
