// Eigen's ways to multiply a sparse matrix by a sparse vector, behind functions that ctypes can call.

#include <Eigen/SparseCore>

template <int Order>
struct Product {
    using Matrix = Eigen::SparseMatrix<double, Order, int>;

    Matrix a;
    Eigen::SparseVector<double> x;
    Eigen::SparseVector<double> sparse;
    Eigen::VectorXd dense;

    Product(int rows, int columns, const int *start, const int *index, const double *value)
        : a(Eigen::Map<const Matrix>(rows, columns, start[Order == Eigen::RowMajor ? rows : columns], start, index,
                                     value)),
          x(columns), sparse(rows), dense(rows)
    {
    }
};

template <int Order>
void *make(int rows, int columns, const int *start, const int *index, const double *value, int size, const int *place,
           const double *x)
{
    auto *made = new Product<Order>(rows, columns, start, index, value);
    made->x.reserve(size);
    for (int q = 0; q < size; q++)
        made->x.insertBack(place[q]) = x[q];
    return made;
}

#define PRODUCT(name, order)                                                                                        \
    extern "C" void *name##_make(int rows, int columns, const int *start, const int *index, const double *value,   \
                                 int size, const int *place, const double *x)                                       \
    {                                                                                                               \
        return make<order>(rows, columns, start, index, value, size, place, x);                                     \
    }                                                                                                               \
    extern "C" void name##_free(void *handle) { delete static_cast<Product<order> *>(handle); }                     \
    extern "C" void name##_sparse(void *handle)                                                                     \
    {                                                                                                               \
        auto &product = *static_cast<Product<order> *>(handle);                                                     \
        product.sparse = product.a * product.x;                                                                     \
    }                                                                                                               \
    extern "C" void name##_dense(void *handle)                                                                      \
    {                                                                                                               \
        auto &product = *static_cast<Product<order> *>(handle);                                                     \
        product.dense = product.a * product.x;                                                                      \
    }                                                                                                               \
    extern "C" void name##_sparse_result(void *handle, double *y)                                                   \
    {                                                                                                               \
        auto &product = *static_cast<Product<order> *>(handle);                                                     \
        Eigen::Map<Eigen::VectorXd>(y, product.sparse.size()) = Eigen::VectorXd(product.sparse);                    \
    }                                                                                                               \
    extern "C" void name##_dense_result(void *handle, double *y)                                                    \
    {                                                                                                               \
        auto &product = *static_cast<Product<order> *>(handle);                                                     \
        Eigen::Map<Eigen::VectorXd>(y, product.dense.size()) = product.dense;                                       \
    }

PRODUCT(rows, Eigen::RowMajor)
PRODUCT(columns, Eigen::ColMajor)

extern "C" void rows_dots(void *handle, int threads)
{
    auto &product = *static_cast<Product<Eigen::RowMajor> *>(handle);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 64)
    for (int i = 0; i < product.a.rows(); i++)
        product.dense[i] = product.a.row(i).dot(product.x);
}
