"""Experiments: times of spfgen's kernels beside those of others, under one harness.

Run from the repository root: `python -m experiments NAME [--quick] [--peers a,b] [--threads N]`.
Every sub-package that defines `cases(quick, threads)` is an experiment; `harness`, `data` and `peers` are
what they share. Figures are never written by hand: they are in `results/NAME.json`, which a run makes.
"""
