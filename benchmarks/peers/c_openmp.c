/* Each work in C with OpenMP, as a competent programmer writes it for gcc. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))

void copy(long n, const float *restrict x, float *restrict y) {
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) y[i] = x[i];
}

void axpy(long n, float a, const float *restrict x, const float *restrict y, float *restrict z) {
#pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n; i++) z[i] = a * x[i] + y[i];
}

void stencil3d(long n, long m, long l, const float *restrict x, float *restrict y) {
    const long row = l, plane = m * l;
#pragma omp parallel for collapse(2) schedule(static)
    for (long i = 1; i < n - 1; i++)
        for (long j = 1; j < m - 1; j++) {
            const float *restrict p = x + i * plane + j * row;
            float *restrict q = y + i * plane + j * row;
#pragma omp simd
            for (long k = 1; k < l - 1; k++)
                q[k] = p[k - plane] + p[k + plane] + p[k - row] + p[k + row] + p[k - 1] + p[k + 1] -
                       6.0f * p[k];
        }
}

void stencil2d(long n, long m, const float *restrict x, float *restrict y) {
    const float near = 4.0f / 3.0f, far = 1.0f / 12.0f;
#pragma omp parallel for schedule(static)
    for (long i = 2; i < n - 2; i++) {
        const float *restrict p = x + i * m;
        float *restrict q = y + i * m;
#pragma omp simd
        for (long j = 2; j < m - 2; j++)
            q[j] = near * (p[j - m] + p[j + m] + p[j - 1] + p[j + 1]) -
                   far * (p[j - 2 * m] + p[j + 2 * m] + p[j - 2] + p[j + 2]) - 5.0f * p[j];
    }
}

void sum(long n, const float *restrict x, float *restrict out) {
    float total = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : total)
    for (long i = 0; i < n; i++) total += x[i];
    out[0] = total;
}

void dot(long n, const float *restrict x, const float *restrict y, float *restrict out) {
    float total = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : total)
    for (long i = 0; i < n; i++) total += x[i] * y[i];
    out[0] = total;
}

void scan(long n, const float *restrict x, float *restrict out) {
    float *totals = calloc(omp_get_max_threads() + 1, sizeof(float));
#pragma omp parallel
    {
        const int part = omp_get_thread_num(), parts = omp_get_num_threads();
        const long length = (n + parts - 1) / parts;
        const long begin = part * length, end = MIN(begin + length, n);
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (long i = begin; i < end; i++) total += x[i];
        totals[part + 1] = total;
#pragma omp barrier
        float running = 0;
        for (int before = 0; before <= part; before++) running += totals[before];
        for (long i = begin; i < end; i++) {
            running += x[i];
            out[i] = running;
        }
    }
    free(totals);
}

void transpose(long n, long m, const float *restrict x, float *restrict y) {
    enum { SIDE = 32 };
#pragma omp parallel for collapse(2) schedule(static)
    for (long jj = 0; jj < m; jj += SIDE)
        for (long ii = 0; ii < n; ii += SIDE)
            for (long j = jj; j < MIN(jj + SIDE, m); j++)
                for (long i = ii; i < MIN(ii + SIDE, n); i++) y[j * n + i] = x[i * m + j];
}

void gemm(long m, long n, long k, const float *restrict a, const float *restrict b,
          float *restrict c) {
    enum { ROWS = 4, COLUMNS = 512, DEPTH = 256 };
#pragma omp parallel for schedule(static)
    for (long ii = 0; ii < m; ii += ROWS) {
        const long rows = MIN(ROWS, m - ii);
        memset(c + ii * n, 0, rows * n * sizeof(float));
        for (long jj = 0; jj < n; jj += COLUMNS)
            for (long pp = 0; pp < k; pp += DEPTH)
                for (long i = ii; i < ii + rows; i++)
                    for (long p = pp; p < MIN(pp + DEPTH, k); p++) {
                        const float factor = a[i * k + p];
#pragma omp simd
                        for (long j = jj; j < MIN(jj + COLUMNS, n); j++)
                            c[i * n + j] += factor * b[p * n + j];
                    }
    }
}

void spmv(long rows, const float *restrict data, const int *restrict indices,
          const int *restrict indptr, const float *restrict x, float *restrict y) {
#pragma omp parallel for schedule(static)
    for (long row = 0; row < rows; row++) {
        float total = 0; /* Not in vectors: gathering takes 1.6 times as long. */
        for (int e = indptr[row]; e < indptr[row + 1]; e++) total += data[e] * x[indices[e]];
        y[row] = total;
    }
}

void histogram(long n, long bins, float lo, float hi, const float *restrict x,
               int *restrict counts) {
    const float scale = bins / (hi - lo);
    memset(counts, 0, bins * sizeof(int));
#pragma omp parallel
    {
        int *own = calloc(bins, sizeof(int));
#pragma omp for schedule(static)
        for (long i = 0; i < n; i++)
            if (x[i] >= lo && x[i] <= hi) {
                const long place = (long)((x[i] - lo) * scale);
                own[MIN(place, bins - 1)]++;
            }
#pragma omp critical
        for (long b = 0; b < bins; b++) counts[b] += own[b];
        free(own);
    }
}

/* 2 * 128 operations, n times in each thread, in registers: what the arithmetic units can do. */
void fma_limit(long n, int threads, float *restrict out) {
#pragma omp parallel num_threads(threads)
    {
        float v[128];
        for (int i = 0; i < 128; i++) v[i] = i;
        for (long step = 0; step < n; step++)
#pragma omp simd
            for (int i = 0; i < 128; i++) v[i] = v[i] * 0.5f + 1.0f;
        float total = 0;
        for (int i = 0; i < 128; i++) total += v[i];
        out[omp_get_thread_num()] = total;
    }
}
