/* Y[i, j] = A[i + r, j + s]*W[r, s] */
int convolution(
    const csr_f64_i32_t *A,
    const dense_rank2_f64_t *W,
    dense_rank2_f64_t *Y,
    int threads)
{
    if (!A || !W || !Y) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow < 0 || A->ncol < 0 || A->nnz < 0 || W->n_1 < 0 || W->n_2 < 0 || Y->n_1 < 0
            || Y->n_2 < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t Y_n_1 = Y->n_1;
    const int64_t Y_n_2 = Y->n_2;
    const int64_t nrow = A->nrow;
    const int64_t W_n_1 = W->n_1;
    const int64_t nnz = A->nnz;
    const int64_t ncol = A->ncol;
    const int64_t W_n_2 = W->n_2;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict W_val = W->val;
    double *restrict Y_val = Y->val;
    if (!A_rowptr || (!A_colidx && nnz > 0) || (!A_val && nnz > 0)
            || (!W_val && W_n_1 > 0 && W_n_2 > 0) || (!Y_val && Y_n_1 > 0 && Y_n_2 > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    /* what the cost estimates depend on */
    const double ratio = spfgen_over((double)nnz, (double)nrow);
    threads =
            spfgen_threads(threads, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0)
            + spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) * ratio
            + spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1
            - 1.0) * ratio * spfgen_most(spfgen_least(spfgen_least((double)nrow, (double)Y_n_1
            + (double)W_n_1 - 1.0) / 2.0 + 1.0, (double)Y_n_1)
            - spfgen_most(0.0, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) / 2.0
            - (double)W_n_1 + 1.0), 1.0)
            + 3.0 * (spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1
            - 1.0) * ratio * spfgen_most(spfgen_least(spfgen_least((double)nrow, (double)Y_n_1
            + (double)W_n_1 - 1.0) / 2.0 + 1.0, (double)Y_n_1)
            - spfgen_most(0.0, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) / 2.0
            - (double)W_n_1 + 1.0),
            1.0) * spfgen_most(spfgen_least((double)ncol / 2.0 + 1.0, (double)Y_n_2)
            - spfgen_most(0.0, (double)ncol / 2.0 - (double)W_n_2 + 1.0), 1.0))
            + ((double)Y_n_1 * (double)Y_n_2) / 2.0);
    const int copies =
            spfgen_copies(threads, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0)
            + spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) * ratio
            + spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1
            - 1.0) * ratio * spfgen_most(spfgen_least(spfgen_least((double)nrow, (double)Y_n_1
            + (double)W_n_1 - 1.0) / 2.0 + 1.0, (double)Y_n_1)
            - spfgen_most(0.0, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) / 2.0
            - (double)W_n_1 + 1.0), 1.0)
            + 3.0 * (spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1
            - 1.0) * ratio * spfgen_most(spfgen_least(spfgen_least((double)nrow, (double)Y_n_1
            + (double)W_n_1 - 1.0) / 2.0 + 1.0, (double)Y_n_1)
            - spfgen_most(0.0, spfgen_least((double)nrow, (double)Y_n_1 + (double)W_n_1 - 1.0) / 2.0
            - (double)W_n_1 + 1.0),
            1.0) * spfgen_most(spfgen_least((double)ncol / 2.0 + 1.0, (double)Y_n_2)
            - spfgen_most(0.0, (double)ncol / 2.0 - (double)W_n_2 + 1.0), 1.0)), Y_n_1 * Y_n_2);
    double *Y_copies =
            (double *)spfgen_memory(spfgen_times(copies - 1, spfgen_times(Y_n_1, Y_n_2)), 1,
            sizeof(double));
    if (!Y_copies) {
        free(Y_copies);
        return SPFGEN_ERROR_MEMORY;
    }
    /*
     * parallel over pi: its iterations only add to Y: each thread adds to a copy of it, if
     * copying is little work compared with the rest
     */
    if (0 < spfgen_min(nrow, Y_n_1 + W_n_1 - 1)) {
        /* work partition: parts of about the same number of entries, by A_rowptr */
        #pragma omp parallel for schedule(static, 1) num_threads(copies)
        for (int part = 0; part < copies; part++) {
            const int64_t pi_begin =
                    spfgen_partition_int32(A_rowptr, 0, spfgen_min(nrow, Y_n_1 + W_n_1 - 1), 1,
                    part, copies);
            const int64_t pi_end =
                    spfgen_partition_int32(A_rowptr, 0, spfgen_min(nrow, Y_n_1 + W_n_1 - 1), 1, part
                    + 1, copies);
            double *restrict Y_own = part > 0 ? Y_copies + (int64_t)(part - 1) * (Y_n_1 * Y_n_2)
                    : Y_val;
            for (int64_t p = 0; p < Y_n_1 * Y_n_2; p++) {
                Y_own[p] = 0.0;
            }
            for (int64_t pi = pi_begin; pi < pi_end; pi++) {
                for (int64_t pj = A_rowptr[pi]; pj < A_rowptr[pi + 1]; pj++) {
                    const int64_t colidx_pj = A_colidx[pj];
                    for (int64_t i = spfgen_max(0, pi - W_n_1 + 1); i < spfgen_min(pi + 1, Y_n_1);
                            i++) {
                        const int64_t r = pi - i;
                        for (int64_t j = spfgen_max(0, colidx_pj - W_n_2 + 1);
                                j < spfgen_min(colidx_pj + 1, Y_n_2); j++) {
                            const int64_t s = colidx_pj - j;
                            Y_own[i * Y_n_2 + j] += A_val[pj] * W_val[r * W_n_2 + s];
                        }
                    }
                }
            }
        }
        if (copies > 1) {
            /* the copies are added in order */
            const int adders = Y_n_1 * Y_n_2 < 1024 ? 1 : threads;
            #pragma omp parallel for schedule(static, 1) num_threads(adders)
            for (int part_2 = 0; part_2 < adders; part_2++) {
                const int64_t p_end = spfgen_part(0, Y_n_1 * Y_n_2, part_2 + 1, adders);
                for (int copy = 0; copy < copies - 1; copy++) {
                    for (int64_t p_2 = spfgen_part(0, Y_n_1 * Y_n_2, part_2, adders); p_2 < p_end;
                            p_2++) {
                        Y_val[p_2] += Y_copies[(int64_t)copy * (Y_n_1 * Y_n_2) + p_2];
                    }
                }
            }
        }
    } else if (threads > 1) {
        #pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t p_3 = 0; p_3 < Y_n_1 * Y_n_2; p_3++) {
            Y_val[p_3] = 0.0;
        }
    } else {
        for (int64_t p_3 = 0; p_3 < Y_n_1 * Y_n_2; p_3++) {
            Y_val[p_3] = 0.0;
        }
    }
    free(Y_copies);
    return SPFGEN_OK;
}
