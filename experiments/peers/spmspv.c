/*
 * What one writes by hand for y = A x with x sparse and y dense. Two schedules where threads share the rows, the
 * peer is the better one.
 */

/* A in csr: each row is merged with the whole of x, two pointers that move without a branch. */
#define MERGE(name, how)                                                                                   \
    void name(int threads, int rows, const int *restrict start, const int *restrict column,                \
              const double *restrict value, int size, const int *restrict index,                           \
              const double *restrict x, double *restrict y)                                                \
    {                                                                                                      \
        _Pragma(how) for (int i = 0; i < rows; i++)                                                        \
        {                                                                                                  \
            double sum = 0.0;                                                                              \
            int p = start[i], q = 0;                                                                       \
            const int end = start[i + 1];                                                                  \
            while (p < end && q < size) {                                                                  \
                const int left = column[p], right = index[q];                                              \
                if (left == right)                                                                         \
                    sum += value[p] * x[q];                                                                \
                p += left <= right;                                                                        \
                q += right <= left;                                                                        \
            }                                                                                              \
            y[i] = sum;                                                                                    \
        }                                                                                                  \
    }

MERGE(merge_static, "omp parallel for num_threads(threads) schedule(static)")
MERGE(merge_dynamic, "omp parallel for num_threads(threads) schedule(dynamic, 64)")

/* A in csr: x is scattered into a dense vector of zeros, which is made zero again at the end. */
#define SCATTER(name, how)                                                                                 \
    void name(int threads, int rows, const int *restrict start, const int *restrict column,                \
              const double *restrict value, int size, const int *restrict index,                           \
              const double *restrict x, double *restrict dense, double *restrict y)                        \
    {                                                                                                      \
        for (int q = 0; q < size; q++)                                                                     \
            dense[index[q]] = x[q];                                                                        \
        _Pragma(how) for (int i = 0; i < rows; i++)                                                        \
        {                                                                                                  \
            double sum = 0.0;                                                                              \
            for (int p = start[i]; p < start[i + 1]; p++)                                                  \
                sum += value[p] * dense[column[p]];                                                        \
            y[i] = sum;                                                                                    \
        }                                                                                                  \
        for (int q = 0; q < size; q++)                                                                     \
            dense[index[q]] = 0.0;                                                                         \
    }

SCATTER(scatter_static, "omp parallel for num_threads(threads) schedule(static)")
SCATTER(scatter_dynamic, "omp parallel for num_threads(threads) schedule(dynamic, 64)")

/* A in csc: the columns that x names are added to y, one after the other. */
void columns_serial(int rows, const int *restrict start, const int *restrict row, const double *restrict value,
                    int size, const int *restrict index, const double *restrict x, double *restrict y)
{
    for (int i = 0; i < rows; i++)
        y[i] = 0.0;
    for (int q = 0; q < size; q++) {
        const double factor = x[q];
        for (int p = start[index[q]]; p < start[index[q] + 1]; p++)
            y[row[p]] += value[p] * factor;
    }
}

/* The same by several threads, which may meet in the same element of y. */
void columns_atomic(int threads, int rows, const int *restrict start, const int *restrict row,
                    const double *restrict value, int size, const int *restrict index, const double *restrict x,
                    double *restrict y)
{
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int i = 0; i < rows; i++)
            y[i] = 0.0;
#pragma omp for schedule(dynamic, 16)
        for (int q = 0; q < size; q++) {
            const double factor = x[q];
            for (int p = start[index[q]]; p < start[index[q] + 1]; p++) {
#pragma omp atomic
                y[row[p]] += value[p] * factor;
            }
        }
    }
}
