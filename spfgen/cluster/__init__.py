"""Tensors in blocks, on dask: as chunks of dask.array, in files, and on a cluster."""
