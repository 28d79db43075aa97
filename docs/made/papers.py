# ruff: noqa: E501 - a feature is a line
"""Feature by paper: how it is written here, and the test that shows it; or that it is not there yet."""

from __future__ import annotations

from dataclasses import dataclass

from docs.made.pages import ROOT

NOT_YET = "not yet"


@dataclass(frozen=True)
class Feature:
    """`test` is FILE::FUNCTION below tests/; empty for what is not there yet, and then `how` says nothing."""

    feature: str
    how: str = ""
    test: str = ""


PAPERS = {
    "Zhao, Popoola, Hall, Olschanowsky, Strout 2022: polyhedral specification and code generation with co-iteration": (
        Feature("layouts as relations with uninterpreted functions", "`relation { [pi, pj] -> [i, j] : ... }`", "unit/layout/test_points.py"),
        Feature("the layouts of its tables", "`spfgen layouts`", "unit/layout/test_pack.py::test_pictures_of_the_layouts"),
        Feature("properties of index arrays", "`property strictly increasing within rowptr`, or any formula", "unit/facts/test_prove.py"),
        Feature("finds by proof: binary search, sequential iteration, hash map, loop", "chosen; `schedule { find B.pj : search }`", "unit/plan/test_finds.py::test_what_is_allowed_is_right"),
        Feature("state that is kept between iterations, by elimination of indices", "`find B.pj : sequential`", "unit/plan/test_sequential.py::test_columns_by_rows_keep_a_position_for_each_row"),
        Feature("blocked and unblocked matrices in one kernel", "`tensor B : bcsr(R=4, C=4)`", "unit/plan/test_finds.py::test_blocks_are_found_by_the_quotient"),
        Feature("a choice of the find when the kernel is called", "without being asked, by formulas of cost", "unit/plan/test_cost.py::test_the_variant_that_runs_is_the_cheapest"),
        Feature("dependence tests; parallel outer loops", "without being asked; `spfgen explain` lists dependences", "unit/plan/test_depend.py::test_examples_are_true"),
        Feature("tiling, with tiles that are skipped", "`schedule { tile i by 64, j by 64 }`", "unit/plan/test_narrow.py::test_tiles_that_are_passed_over"),
        Feature("a result that shares the pattern of an operand (TTM)", "`tensor C : csf3 shares A on i, j`", "unit/plan/test_injective.py::test_ttm_shares_its_fibres"),
        Feature("triangular layouts and computations", "layout `lower`; `where j <= i`", "unit/plan/test_narrow.py::test_tiles_of_triangles_and_bands"),
        Feature("conversions between layouts", "`tensor.convert(\"ell\")`", "unit/run/test_convert.py"),
    ),
    "Henry et al. 2021: compilation of sparse array programming models": (
        Feature("sums of differently sparse operands", "`y[i] = A[i, j]*x[j] + b[i]`: a term at a time", "differential/test_combinations.py::test_combinations"),
        Feature("unions and complements of several operands (merged if sorted, else looked up)", "`C[i, j] = logical_xor(A[i, j], B[i, j])`", "papers/test_ufunc_model.py::test_iteration_spaces_with_complements"),
        Feature("any function, with its algebraic properties", "`function gcd(x, y) { ... space x or y }`", "papers/test_ufunc_model.py::test_fig_11_greatest_of_three_with_annihilator"),
        Feature("any fill value", "`tensor A : csr fill inf`", "papers/test_ufunc_model.py::test_fig_7_fill_value_of_1"),
        Feature("reductions by any function, over fills too", "`m[i] = min(j: A[i, j])`", "papers/test_ufunc_model.py::test_section_7_2_reductions_over_fills"),
        Feature("slices with strides", "`B[i, j] = A[i(1:5:2), j(2:6:2)]`", "papers/test_ufunc_model.py::test_fig_19_strided_slice_of_a_matrix"),
    ),
    "Root et al. 2024: compilation of shape operators on sparse arrays": (
        Feature("conversion from any layout to any other", "`tensor.convert`, `spfgen.pack`", "unit/run/test_convert.py"),
        Feature("slices by affine subscripts", "`B[i, j] = A[2*i, j + 3]`", "unit/lang/test_oracle.py"),
        Feature("reshape, flatten, split in an expression", "`c[k] = collapse(A[i, j], (i, j) -> k)`, `split(b[k], k -> (i, j))`", "papers/test_shape_operators.py::test_section_4_1_split"),
        Feature("concatenation in an expression", "`concat((A[i, j], B[k, j]), (i, k) -> l)`", "papers/test_shape_operators.py::test_section_4_1_concat"),
        Feature("results in any layout", "`out=\"csr\"`, or a declaration", "papers/test_sparse_results.py::test_fig_24_a_reshape"),
    ),
    "Liu et al. 2024: compiler support for sparse tensor convolutions": (
        Feature("affine subscripts", "`y[i] = x[i + r]*w[r]`", "differential/test_combinations.py::test_combinations"),
        Feature("any combination of formats in a convolution", "any layout for each tensor", "fuzz/test_random_programs.py"),
        Feature("iteration over the stored entries of the input only", "chosen by cost, where the input drives", "unit/plan/test_drivers.py::test_who_drives"),
        Feature("sums over windows of several sparse dimensions", "`y[i, j] = x[i + r, j + s]*w[r, s]`", "papers/test_convolution.py::test_fig_5_windows_of_a_matrix"),
    ),
    "Ahrens et al. 2024: Finch": (
        Feature("runs of equal values", "layouts `rle`, `csr_rle`", "unit/layout/test_pack_kinds.py::test_runs_end_at_gaps_and_where_values_change"),
        Feature("variable blocks, bands, skylines", "layouts `vbl`, `vbr`, `band`, `skyline`", "unit/layout/test_pack_kinds.py::test_pictures"),
        Feature("symmetric storage", "layouts `sym_csr`, `sym_lower`: one position, two coordinates", "unit/layout/test_pack_kinds.py::test_pictures"),
        Feature("programs of several statements", "statements run in their order", "unit/plan/test_clearing.py::test_only_the_first_of_several_terms_clears"),
        Feature("several protocols of one level (walk, gallop, ...)", "`find B.pj : gallop`, and others", "unit/space/test_schedule.py::test_every_algorithm"),
        Feature("conditions", "`where j <= i + n`", "unit/lang/test_oracle.py"),
        Feature("if, while, early breaks in programs", "`for j { if A[i, j] > 0.8 { first = j  break } }`", "papers/test_structured_programs.py::test_first_of_each_row"),
        Feature("workspaces", "`local tensor w : sv_unsorted`", "papers/test_structured_programs.py::test_fig_16_gustavson"),
        Feature("gathers and scatters", "`h[img[r, c]/16] += 1`", "papers/test_structured_programs.py::test_fig_20_histogram"),
        Feature("an array interface", "operators on tensors, `spfgen.asarray`", "unit/run/test_arrays.py"),
    ),
    "TACO, MLIR, the universal sparse tensor": (
        Feature("formats by levels", "`(i, j) -> (i : dense, j : compressed)`; `spfgen layouts NAME --as levels`", "unit/lang/test_levels.py::test_levels_are_layouts"),
        Feature("TACO's command", "`spfgen taco \"y(i)=A(i,j)*x(j)\" -f=A:ds`", "unit/lang/test_levels.py::test_the_command"),
        Feature("schedules: reorder, split, tile, fuse, parallelise, unroll", "`schedule { tile i by 64; parallel i_tile }`", "unit/space/test_transform.py::test_new_loops"),
        Feature("sparse results with a pattern that is computed", "`tensor C : csr`, not shared", "papers/test_sparse_results.py::test_fig_16_products"),
        Feature("code for GPUs"),
    ),
}  # fmt: skip


def table() -> str:
    """A table for each paper. Raises ValueError for a test that is not there."""
    parts = []
    for paper, features in PAPERS.items():
        parts += [f"## {paper}", "", "| feature | here | test |", "| --- | --- | --- |"]
        for item in features:
            here = item.how if item.test else ": ".join(filter(None, (f"**{NOT_YET}**", item.how)))
            parts.append(f"| {item.feature} | {here} | {_shown(item.test)} |")
        parts.append("")
    return "\n".join(parts)


def _shown(test: str) -> str:
    """The test's name, after a look whether it is there."""
    if not test:
        return ""
    file, _, function = test.partition("::")
    path = ROOT / "tests" / file
    if not path.exists() or (function and f"def {function}(" not in path.read_text(encoding="utf-8")):
        raise ValueError(f"a feature names the test {test}, which is not there")
    return f"`tests/{test}`"
