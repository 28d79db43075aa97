static int merge_loops(
    const csr_f64_i32_t *A, const csr_f64_i32_t *B, csr_appended_f64_t *C, int threads)
{
    if (!A || !B || !C) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != B->nrow || A->nrow != C->nrow || A->nrow < 0 || A->ncol != B->ncol
            || A->ncol != C->ncol || A->ncol < 0 || A->nnz < 0 || B->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    spfgen_appended *C_appended = &C->entries;
    const int64_t A_nnz = A->nnz;
    const int64_t B_nnz = B->nnz;
    const int64_t nrow = A->nrow;
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
    threads = spfgen_threads(threads, (double)(A_nnz + B_nnz));
    spfgen_appended *C_parts =
            (spfgen_appended *)spfgen_workspace(threads, 1, sizeof(spfgen_appended));
    if (!C_parts) {
        free(C_parts);
        return SPFGEN_ERROR_MEMORY;
    }
    C_appended->count = 0;
    C_appended->expected = (double)A_nnz + (double)B_nnz;
    /* C[i, j] = A[i, j] + B[i, j] */
    /* parallel over i: its iterations write different places */
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < nrow; i++) {
        spfgen_appended *C_own =
                spfgen_appended_part(C_appended, C_parts, threads, spfgen_thread());
        const int64_t A_rowptr_i = A_rowptr[i];
        const int64_t A_rowptr_i_1 = A_rowptr[i + 1];
        const int64_t B_rowptr_i = B_rowptr[i];
        const int64_t B_rowptr_i_1 = B_rowptr[i + 1];
        int64_t A_pj = A_rowptr_i;
        int64_t B_pj = B_rowptr_i;
        /* A, B deliver j in order: they are merged */
        while (A_pj < A_rowptr_i_1 && B_pj < B_rowptr_i_1) {
            const int64_t A_j = A_colidx[A_pj];
            const int64_t B_j = B_colidx[B_pj];
            if (A_j == B_j) {
                const int64_t j = A_j;
                if (spfgen_appended_room(C_own, 2, sizeof(double))) {
                    const int64_t entry = C_own->count;
                    spfgen_appended_set(C_own, 0, entry, i);
                    spfgen_appended_set(C_own, 1, entry, j);
                    ((double *)C_own->values)[entry] = A_val[A_pj] + B_val[B_pj];
                    C_own->count = entry + 1;
                }
                A_pj = A_pj + 1;
                B_pj = B_pj + 1;
            } else if (A_j < B_j) {
                const int64_t j = A_j;
                if (spfgen_appended_room(C_own, 2, sizeof(double))) {
                    const int64_t entry_2 = C_own->count;
                    spfgen_appended_set(C_own, 0, entry_2, i);
                    spfgen_appended_set(C_own, 1, entry_2, j);
                    ((double *)C_own->values)[entry_2] = A_val[A_pj] + 0.0;
                    C_own->count = entry_2 + 1;
                }
                A_pj = A_pj + 1;
            } else {
                const int64_t j = B_j;
                if (spfgen_appended_room(C_own, 2, sizeof(double))) {
                    const int64_t entry_3 = C_own->count;
                    spfgen_appended_set(C_own, 0, entry_3, i);
                    spfgen_appended_set(C_own, 1, entry_3, j);
                    ((double *)C_own->values)[entry_3] = 0.0 + B_val[B_pj];
                    C_own->count = entry_3 + 1;
                }
                B_pj = B_pj + 1;
            }
        }
        /* what is left of A */
        while (A_pj < A_rowptr_i_1) {
            const int64_t j = A_colidx[A_pj];
            if (spfgen_appended_room(C_own, 2, sizeof(double))) {
                const int64_t entry_4 = C_own->count;
                spfgen_appended_set(C_own, 0, entry_4, i);
                spfgen_appended_set(C_own, 1, entry_4, j);
                ((double *)C_own->values)[entry_4] = A_val[A_pj] + 0.0;
                C_own->count = entry_4 + 1;
            }
            A_pj = A_pj + 1;
        }
        /* what is left of B */
        while (B_pj < B_rowptr_i_1) {
            const int64_t j = B_colidx[B_pj];
            if (spfgen_appended_room(C_own, 2, sizeof(double))) {
                const int64_t entry_5 = C_own->count;
                spfgen_appended_set(C_own, 0, entry_5, i);
                spfgen_appended_set(C_own, 1, entry_5, j);
                ((double *)C_own->values)[entry_5] = 0.0 + B_val[B_pj];
                C_own->count = entry_5 + 1;
            }
            B_pj = B_pj + 1;
        }
    }
    spfgen_appended_join(C_appended, C_parts, threads, 2, sizeof(double), threads);
    free(C_parts);
    if (C_appended->failed) {
        spfgen_appended_free(C_appended);
        return SPFGEN_ERROR_MEMORY;
    }
    return SPFGEN_OK;
}
