# ruff: noqa: E501 - a feature is a line
"""Feature by paper: how it is written here, and the test that shows it; or that it is not there yet."""

from __future__ import annotations

import re
from dataclasses import dataclass

from docs.made.pages import ROOT

NOT_YET = "not yet"


@dataclass(frozen=True)
class Feature:
    """`test` is FILE::FUNCTION below tests/, or empty for what is not there yet."""

    feature: str
    papers: str
    how: str
    test: str


FEATURES = (
    Feature("Layouts as relations with uninterpreted functions", "Zhao et al. 2022", "`relation { ... }` in a layout", "unit/layout/test_points.py"),
    Feature("Properties of index arrays as formulas, proved by Z3", "Zhao et al. 2022", "`property forall p, q : ...`", "unit/facts/test_prove.py"),
    Feature("Finds instead of merges: who drives is chosen", "Zhao et al. 2022", "chosen; `schedule { find B.pj : search }`", "unit/plan/test_finds.py"),
    Feature("Sequential iteration with persistent state", "Zhao et al. 2022", "`find B.pj : sequential`", "unit/plan/test_sequential.py"),
    Feature("Hash maps, position arrays, bitmaps for finds", "Zhao et al. 2022; Kjolstad et al. 2019 (workspaces)", "`find B.pj : hash`, `array`, `bitmap`, `scatter`", "unit/plan/test_find_tables.py"),
    Feature("Blocked layouts beside unblocked ones", "Zhao et al. 2022; Im and Yelick 2001", "`tensor B : bcsr(R=4, C=4)`", "differential/test_combinations.py"),
    Feature("Unsorted lists and duplicates", "Zhao et al. 2022", "`coo_unsorted`; duplicates add up", "unit/test_evaluate.py"),
    Feature("Level formats, TACO's notation", "Kjolstad et al. 2017; Chou et al. 2018", "{levels}", "unit/lang/test_levels.py"),
    Feature("Runs of equal values", "Donenfeld et al. 2022; Ahrens et al. 2023", "layouts `rle`, `csr_rle`", "unit/layout/test_pack_kinds.py"),
    Feature("Variable blocks, skylines, bands", "Ahrens et al. 2023 (Finch); Saad 1994", "layouts `vbl`, `vbr`, `skyline`, `band`", "unit/layout/test_pack_kinds.py"),
    Feature("Symmetric storage", "Patel et al. 2024 (SySTeC)", "layouts `sym_csr`, `sym_lower`: one position, two coordinates", "unit/layout/test_pack_kinds.py"),
    Feature("Sliced and permuted rows", "Kreutzer et al. 2014", "layouts `sell`, `sell_sigma`, `jds`; `pack q by -count(i)`", "unit/layout/test_pack_kinds.py"),
    Feature("Conversion between any two formats", "Chou et al. 2020", "`tensor.convert(\"bcsr\", R=4, C=4)`", "unit/run/test_convert.py"),
    Feature("Checks of arrays derived from properties", "Zhao et al. 2022", "`Tensor.validate()`, made when arrays are first seen", "unit/run/test_checks.py"),
    Feature("Convolution and affine subscripts", "Won et al. 2023 (unified convolution)", "`y[i] = x[i + r]*w[r]`", "differential/test_combinations.py"),
    Feature("Work shared out by non-zeros", "Merrill and Garland 2016; Senanayake et al. 2020", "without being asked", "unit/run/test_threads.py"),
    Feature("Scheduling: split, reorder, tile by coordinate or position", "Senanayake et al. 2020", "`schedule { tile i by 64; split A.pj by 8 }`", "unit/space/test_transform.py"),
    Feature("Translation validation of every plan", "Pnueli et al. 1998; loopy", "always on", "unit/plan/test_verifier.py"),
    Feature("Sparse results with a pattern of their own", "Kjolstad et al. 2017, 2019", "", ""),
    Feature("Union, complement, user functions, fill values", "Henry et al. 2021", "", ""),
    Feature("Code for GPUs", "Senanayake et al. 2020; Ye et al. 2023 (SparseTIR)", "", ""),
    Feature("Search for schedules by running them", "Ye et al. 2023; Won et al. 2023 (WACO)", "", ""),
)  # fmt: skip


def table() -> str:
    """The table; a test that is named must be there."""
    rows = ["| feature | paper | here | test |", "| --- | --- | --- | --- |"]
    for item in FEATURES:
        here = item.how.replace("{levels}", "`spfgen layouts NAME --as levels`; `spfgen taco`")
        if not item.test or not (ROOT / "tests" / item.test).exists():
            rows.append(f"| {item.feature} | {item.papers} | {NOT_YET} | |")
        else:
            rows.append(f"| {item.feature} | {item.papers} | {here} | `tests/{item.test}` |")
    return re.sub(r" +\n", "\n", "\n".join(rows))
