"""Tensors in blocks, computed by many processes with dask. Modules that need dask are imported when it is used.

`cuts` divides axes into blocks; `construction` makes a collection of blocks (`blocked`); `separability` says along
which indices a program may be cut, and `choose_cuts` where it is; `joint_plan` makes the graph of tasks (`tasks`);
`workers` asks the cluster; `backend` makes tensors chunks of dask.array. All of it uses
the compiler by its public functions.
"""
