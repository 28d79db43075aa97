"""Behind the methods of tensors in blocks (blocked.py), and of kernels that are called with them."""

from spfgen.cluster import construction, program, store

blocks, blocks_like = construction.blocks, construction.blocks_like
called, evaluate = program.called, program.evaluate
to_npz, to_zarr = store.to_npz, store.to_zarr
