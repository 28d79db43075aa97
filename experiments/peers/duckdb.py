"""DuckDB: sums of products as joins of tables of entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from experiments.harness.case import Missing, Runner
from experiments.peers.kernels import measured

Array = np.ndarray[Any, Any]


def prepare(
    query: str, operands: Mapping[str, Any], threads: int, read: Callable[[Mapping[str, Array]], Any] | None = None
) -> Runner:
    """A query of tables (i, j, v), one for each operand: what is not stored has no row. The result is one number, or
    what `read` makes of the columns."""
    try:
        import duckdb
    except ImportError as error:
        raise Missing(f"{error}; pip install duckdb") from error
    connection = duckdb.connect()
    connection.execute(f"SET threads={threads}")
    for name, operand in operands.items():
        rows, columns = operand.nonzero()
        table = {
            "i": rows.astype(np.int64),
            "j": columns.astype(np.int64),
            "v": np.asarray(operand[rows, columns], float),
        }
        connection.register("table_of_numpy", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM table_of_numpy")
        connection.unregister("table_of_numpy")
    if read is None:
        return measured(lambda: connection.execute(query).fetchone()[0], (connection,))
    return measured(lambda: read(connection.execute(query).fetchnumpy()), (connection,))
