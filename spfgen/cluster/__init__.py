"""Beyond one machine: tensors in blocks, on dask. What needs dask imports it when it is used.

`cuts` says where axes are cut; `parts` is what single tasks do; `blocked` is the collection; `made` makes one;
`separate` finds in a statement what may be cut and what each block of work reads; `program` writes the tasks;
`workers` knows who computes; `backend` makes tensors chunks of dask.array.
It stands above the door of the compiler, and knows nothing of layouts or plans but what that door says.
"""
