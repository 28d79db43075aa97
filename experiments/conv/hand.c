/* The 3x3 correlation of a dense image with zeros around it: the inner points without tests, then the border. */

static double at(int rows, int columns, const double *image, const double *weight, int i, int j)
{
    double sum = 0.0;
    for (int p = 0; p < 3; p++)
        for (int q = 0; q < 3; q++) {
            int r = i + p - 1, c = j + q - 1;
            if (r >= 0 && r < rows && c >= 0 && c < columns)
                sum += image[(long)r * columns + c] * weight[3 * p + q];
        }
    return sum;
}

void correlate(int threads, int rows, int columns, const double *restrict image, const double *restrict weight,
               double *restrict out)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < rows; i++) {
        double *restrict line = out + (long)i * columns;
        if (i == 0 || i == rows - 1 || columns < 3) {
            for (int j = 0; j < columns; j++)
                line[j] = at(rows, columns, image, weight, i, j);
            continue;
        }
        const double *restrict a = image + (long)(i - 1) * columns, *restrict b = a + columns, *restrict c = b + columns;
        line[0] = at(rows, columns, image, weight, i, 0);
        for (int j = 1; j < columns - 1; j++)
            line[j] = a[j - 1] * weight[0] + a[j] * weight[1] + a[j + 1] * weight[2] + b[j - 1] * weight[3] +
                      b[j] * weight[4] + b[j + 1] * weight[5] + c[j - 1] * weight[6] + c[j] * weight[7] +
                      c[j + 1] * weight[8];
        line[columns - 1] = at(rows, columns, image, weight, i, columns - 1);
    }
}

/* A layer of dense images (rows and columns of one extent, channels last) with filters of width * width, `step` apart. */
void layer(int threads, int images, int extent, int channels, int width, int filters, int step, int results,
           const double *restrict image, const double *restrict weight, double *restrict out)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < images * results; t++) {
        int n = t / results, h = t % results;
        for (int w = 0; w < results; w++) {
            double *restrict to = out + ((long)t * results + w) * filters;
            for (int f = 0; f < filters; f++)
                to[f] = 0.0;
            for (int r = 0; r < width; r++)
                for (int q = 0; q < width; q++)
                    for (int c = 0; c < channels; c++) {
                        double value = image[(((long)n * extent + step * h + r) * extent + step * w + q) * channels + c];
                        const double *restrict by = weight + (((long)r * width + q) * channels + c) * filters;
                        for (int f = 0; f < filters; f++)
                            to[f] += value * by[f];
                    }
        }
    }
}
