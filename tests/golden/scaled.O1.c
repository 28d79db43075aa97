/*
 * for i { largest[i] = max(j: A[i, j]); if largest[i] > 0 { y[i] = sum(j: A[i,
 * j]*x[j])/largest[i] } }
 */
int scaled(const csr_f64_i32_t *A, const dense_rank1_f64_t *x, dense_rank1_f64_t *y, int threads)
{
    if (!A || !x || !y) {
        return SPFGEN_ERROR_NULL;
    }
    if (A->nrow != y->n_1 || A->nrow < 0 || A->ncol != x->n_1 || A->ncol < 0 || A->nnz < 0) {
        return SPFGEN_ERROR_SHAPE;
    }
    const int64_t nrow = A->nrow;
    const int64_t ncol = A->ncol;
    const int64_t nnz = A->nnz;
    const double *restrict A_val = A->val;
    const int32_t *restrict A_rowptr = A->rowptr;
    const int32_t *restrict A_colidx = A->colidx;
    const double *restrict x_val = x->val;
    double *restrict y_val = y->val;
    if (!A_rowptr || (!A_colidx && nnz > 0) || (!A_val && nnz > 0) || (!x_val && ncol > 0)
            || (!y_val && nrow > 0)) {
        return SPFGEN_ERROR_NULL;
    }
    threads = spfgen_threads(threads, (double)(nnz + ncol + nrow));
    double *largest = (double *)spfgen_workspace(nrow, 1, sizeof(double));
    if (!largest) {
        free(largest);
        return SPFGEN_ERROR_MEMORY;
    }
    #pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t largest_place = 0; largest_place < nrow; largest_place++) {
        largest[largest_place] = 0.0;
    }
    for (int64_t i = 0; i < nrow; i++) {
        /* largest[i] = max(j: A[i, j]) */
        {
            double most = -INFINITY;
            int64_t visited = 0;
            for (int64_t A_pj = A_rowptr[i]; A_pj < A_rowptr[i + 1]; A_pj++) {
                most = spfgen_maximum_float64(most, A_val[A_pj]);
                visited = visited + 1;
            }
            if (visited < ncol) {
                most = spfgen_maximum_float64(most, 0.0);
            }
            largest[i] = most;
        }
        if (largest[i] > 0.0) {
            /* y[i] = sum(j: A[i, j]*x[j])/largest[i] */
            {
                double sum = 0.0;
                for (int64_t A_2_pj = A_rowptr[i]; A_2_pj < A_rowptr[i + 1]; A_2_pj++) {
                    const int64_t j_2 = A_colidx[A_2_pj];
                    sum = sum + A_val[A_2_pj] * x_val[j_2];
                }
                y_val[i] = sum / largest[i];
            }
        }
    }
    free(largest);
    return SPFGEN_OK;
}
