/* What one writes by hand for y = A x with A in csr; two schedules, the peer is the better one. */

#define SPMV(name, how)                                                                                  \
    void name(int threads, int rows, const int *restrict start, const int *restrict column,              \
              const double *restrict value, const double *restrict x, double *restrict y)                \
    {                                                                                                    \
        _Pragma(how) for (int i = 0; i < rows; i++)                                                      \
        {                                                                                                \
            double sum = 0.0;                                                                            \
            for (int p = start[i]; p < start[i + 1]; p++)                                                \
                sum += value[p] * x[column[p]];                                                          \
            y[i] = sum;                                                                                  \
        }                                                                                                \
    }

SPMV(spmv_static, "omp parallel for num_threads(threads) schedule(static)")
SPMV(spmv_dynamic, "omp parallel for num_threads(threads) schedule(dynamic, 64)")
