// Eigen's product of a sparse matrix in csr with a dense vector, over arrays that exist already.

#include <Eigen/SparseCore>

template <typename Value>
static void multiply(int threads, int rows, int columns, const int *start, const int *index, const Value *value,
                     const Value *x, Value *y)
{
    using Matrix = Eigen::SparseMatrix<Value, Eigen::RowMajor, int>;
    using Vector = Eigen::Matrix<Value, Eigen::Dynamic, 1>;
    Eigen::setNbThreads(threads);
    const Eigen::Map<const Matrix> a(rows, columns, start[rows], start, index, value);
    Eigen::Map<Vector>(y, rows).noalias() = a * Eigen::Map<const Vector>(x, columns);
}

#define MULTIPLY(name, Value)                                                                                        \
    extern "C" void name(int threads, int rows, int columns, const int *start, const int *index, const Value *value, \
                         const Value *x, Value *y)                                                                   \
    {                                                                                                                \
        multiply<Value>(threads, rows, columns, start, index, value, x, y);                                          \
    }

MULTIPLY(spmv_float64, double)
MULTIPLY(spmv_float32, float)
