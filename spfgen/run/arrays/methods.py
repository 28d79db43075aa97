"""Behind the methods, operators and protocols of tensors (run/tensor.py) that compute: what they call."""

from spfgen.run.arrays import eager, entries, functions, numpy_functions

part, cast, transposed = eager.part, eager.cast, eager.transposed
reshape, squeeze, diagonal = functions.reshape, functions.squeeze, functions.diagonal
clipped, rounded = eager.clipped, eager.rounded
nonzero, nonzero_count = eager.nonzero, entries.nonzero_count
number, truth, item, rows = eager.number, eager.truth, eager.item, eager.rows
in_place, dense_of, is_operand = eager.in_place, eager.dense_of, eager.is_operand
applied, reduced = eager.applied, eager.reduced
called, ufunc_called = numpy_functions.called, eager.ufunc_called
