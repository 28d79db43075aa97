static int product_loops(
    const csr_f64_i32_t *A, const csr_f64_i32_t *B, csr_appended_f64_t *C, int threads)
{
    if (!A || !B || !C) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != C->nrow || A->nrow < 0 || A->ncol != B->nrow || A->ncol < 0 || A->nnz < 0
            || B->ncol != C->ncol || B->ncol < 0 || B->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    spfgen_appended *C_appended = &C->entries;
    const int64_t A_nnz = A->nnz;
    const int64_t B_nnz = B->nnz;
    const int64_t nrow = A->nrow;
    const int64_t B_ncol = B->ncol;
    const int64_t A_ncol = A->ncol;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_rowptr = B->rowptr;
    const int32_t *restrict B_colidx = B->colidx;
    if (!A_rowptr || (!A_colidx && A_nnz > 0) || (!A_val && A_nnz > 0) || !B_rowptr
            || (!B_colidx && B_nnz > 0) || (!B_val && B_nnz > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads =
            spfgen_threads(threads, (double)nrow + (double)A_nnz
            + 3.0 * ((double)A_nnz * spfgen_over((double)B_nnz, (double)A_ncol)));
    /* rows that are longer than all that is stored are kept in hash tables */
    const bool C_hashed = B_ncol > 4194304 && B_ncol / 8 > A_nnz + B_nnz;
    spfgen_appended *C_parts =
            (spfgen_appended *)spfgen_workspace(threads, 1, sizeof(spfgen_appended));
    spfgen_row *C_rows = (spfgen_row *)spfgen_workspace(1, threads, sizeof(spfgen_row));
    if (!C_parts || !C_rows) {
        free(C_parts);
        free(C_rows);
        return SPFGEN_ERROR_MEMORY;
    }
    spfgen_appended_by_rows(C_appended, 0);
    C_appended->count = 0;
    C_appended->expected = (double)A_nnz + (double)B_nnz;
    /* parallel over i: each thread has entries of C of its own */
    /* work partition: parts of about the same number of entries, by A_rowptr */
    #pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int part = 0; part < threads; part++) {
        const int64_t i_begin = spfgen_partition_int32(A_rowptr, 0, nrow, 1, part, threads);
        const int64_t i_end = spfgen_partition_int32(A_rowptr, 0, nrow, 1, part + 1, threads);
        spfgen_appended *C_own = spfgen_appended_part(C_appended, C_parts, threads, part);
        for (int64_t i = i_begin; i < i_end; i++) {
            spfgen_row *C_row = C_rows + spfgen_thread();
            /*
             * what is delivered here has all coordinates but one in common: each is appended
             * once, in order
             */
            if (spfgen_row_start(C_row, C_own, B_ncol, C_hashed)) {
                for (int64_t A_pj = A_rowptr[i]; A_pj < A_rowptr[i + 1]; A_pj++) {
                    const int64_t j = A_colidx[A_pj];
                    for (int64_t B_pj = B_rowptr[j]; B_pj < B_rowptr[j + 1]; B_pj++) {
                        const int64_t k = B_colidx[B_pj];
                        const int64_t before = C_row->count;
                        const int64_t entry = spfgen_row_place(C_row, k, sizeof(double));
                        if (entry >= 0) {
                            if (entry == before) {
                                ((double *)C_row->values)[entry] = A_val[A_pj] * B_val[B_pj];
                            } else {
                                ((double *)C_row->values)[entry] += A_val[A_pj] * B_val[B_pj];
                            }
                        }
                    }
                }
                int64_t common[1];
                common[0] = i;
                spfgen_row_end(C_row, C_own, common, 1, 2, B_ncol, sizeof(double), true);
            } else {
                C_own->failed = 1;
            }
        }
    }
    spfgen_appended_join(C_appended, C_parts, threads, 2, sizeof(double), threads);
    spfgen_rows_free(C_rows, threads);
    free(C_parts);
    free(C_rows);
    if (C_appended->failed) {
        spfgen_appended_free(C_appended);
        return SPFGEN_ERROR_MEMORY;
    }
    return SPFGEN_OK;
}
