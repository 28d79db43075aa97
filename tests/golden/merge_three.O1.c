static int merge_three_loops(
    const csr_f64_i32_t *A, const csr_f64_i32_t *B, const csr_f64_i32_t *C, csr_appended_f64_t *D,
    int threads)
{
    if (!A || !B || !C || !D) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != B->nrow || A->nrow != C->nrow || A->nrow != D->nrow || A->nrow < 0
            || A->ncol != B->ncol || A->ncol != C->ncol || A->ncol != D->ncol || A->ncol < 0
            || A->nnz < 0 || B->nnz < 0 || C->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    spfgen_appended *D_appended = &D->entries;
    const int64_t A_nnz = A->nnz;
    const int64_t B_nnz = B->nnz;
    const int64_t C_nnz = C->nnz;
    const int64_t nrow = A->nrow;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict B_val = B->val;
    const int32_t *restrict B_rowptr = B->rowptr;
    const int32_t *restrict B_colidx = B->colidx;
    const double *restrict C_val = C->val;
    const int32_t *restrict C_rowptr = C->rowptr;
    const int32_t *restrict C_colidx = C->colidx;
    if (!A_rowptr || (!A_colidx && A_nnz > 0) || (!A_val && A_nnz > 0) || !B_rowptr
            || (!B_colidx && B_nnz > 0) || (!B_val && B_nnz > 0) || !C_rowptr
            || (!C_colidx && C_nnz > 0) || (!C_val && C_nnz > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads = spfgen_threads(threads, (double)(A_nnz + B_nnz + C_nnz));
    spfgen_appended *D_parts =
            (spfgen_appended *)spfgen_workspace(threads, 1, sizeof(spfgen_appended));
    if (!D_parts) {
        free(D_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    D_appended->count = 0;
    D_appended->expected = (double)A_nnz + (double)B_nnz + (double)C_nnz;
    /* D[i, j] = maximum(maximum(A[i, j], B[i, j]), C[i, j]) */
    /* parallel over i: its iterations write different places */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < nrow; i++) {
        spfgen_appended *D_own =
                spfgen_appended_part(D_appended, D_parts, threads, spfgen_thread());
        const int64_t A_rowptr_i = A_rowptr[i];
        const int64_t A_rowptr_i_1 = A_rowptr[i + 1];
        const int64_t B_rowptr_i = B_rowptr[i];
        const int64_t B_rowptr_i_1 = B_rowptr[i + 1];
        const int64_t C_rowptr_i = C_rowptr[i];
        const int64_t C_rowptr_i_1 = C_rowptr[i + 1];
        int64_t A_pj = A_rowptr_i;
        int64_t B_pj = B_rowptr_i;
        int64_t C_pj = C_rowptr_i;
        /* A, B, C deliver j in order: they are merged */
        while (true) {
            int64_t j_next = INT64_C(9223372036854775807);
            if (A_pj < A_rowptr_i_1) {
                j_next = spfgen_minimum_int64(j_next, A_colidx[A_pj]);
            }
            if (B_pj < B_rowptr_i_1) {
                j_next = spfgen_minimum_int64(j_next, B_colidx[B_pj]);
            }
            if (C_pj < C_rowptr_i_1) {
                j_next = spfgen_minimum_int64(j_next, C_colidx[C_pj]);
            }
            if (j_next == INT64_C(9223372036854775807)) {
                break;
            }
            const int64_t j = j_next;
            bool A_there = A_pj < A_rowptr_i_1 && A_colidx[A_pj] == j;
            double A_value = 0.0;
            if (A_there) {
                A_value = A_val[A_pj];
            }
            bool B_there = B_pj < B_rowptr_i_1 && B_colidx[B_pj] == j;
            double B_value = 0.0;
            if (B_there) {
                B_value = B_val[B_pj];
            }
            bool C_there = C_pj < C_rowptr_i_1 && C_colidx[C_pj] == j;
            double C_value = 0.0;
            if (C_there) {
                C_value = C_val[C_pj];
            }
            if (spfgen_appended_room(D_own, 2, sizeof(double))) {
                const int64_t entry = D_own->count;
                spfgen_appended_set(D_own, 0, entry, i);
                spfgen_appended_set(D_own, 1, entry, j);
                ((double *)D_own->values)[entry] =
                        spfgen_maximum_float64(spfgen_maximum_float64(A_value, B_value), C_value);
                D_own->count = entry + 1;
            }
            if (A_there) {
                A_pj = A_pj + 1;
            }
            if (B_there) {
                B_pj = B_pj + 1;
            }
            if (C_there) {
                C_pj = C_pj + 1;
            }
        }
    }
    spfgen_appended_join(D_appended, D_parts, threads, 2, sizeof(double), threads);
    free(D_parts);
    if (D_appended->failed) {
        spfgen_appended_free(D_appended);
        return SPFGEN_ERROR_MEMORY;
    }
    return SPFGEN_OK;
}
