// CUDA C, a competent kernel for each work that has one here. Indices are 32 bits wide.

extern "C" __global__ void copy(const float4* __restrict__ x, float4* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

extern "C" __global__ void axpy(float a, const float4* __restrict__ x,
                                const float4* __restrict__ y, float4* __restrict__ z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float4 u = x[i], v = y[i];
        z[i] = make_float4(a * u.x + v.x, a * u.y + v.y, a * u.z + v.z, a * u.w + v.w);
    }
}

// Each thread walks SWEEP planes and keeps the three values along that axis in registers.
extern "C" __global__ void stencil3d(const float* __restrict__ x, float* __restrict__ y, int n,
                                     int m, int l) {
    int k = blockIdx.x * blockDim.x + threadIdx.x + 1;
    int j = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (k >= l - 1 || j >= m - 1) return;
    int plane = m * l, first = 1 + blockIdx.z * SWEEP, last = min(first + SWEEP, n - 1);
    int c = first * plane + j * l + k;
    float below = x[c - plane], here = x[c];
    for (int i = first; i < last; i++, c += plane) {
        float above = x[c + plane];
        y[c] = below + above + x[c - l] + x[c + l] + x[c - 1] + x[c + 1] - 6.0f * here;
        below = here;
        here = above;
    }
}

__device__ float block_sum(float total) {
    __shared__ float parts[32];
    for (int step = 16; step; step >>= 1) total += __shfl_down_sync(~0u, total, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    total = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int step = 16; step; step >>= 1) total += __shfl_down_sync(~0u, total, step);
    return total;
}

extern "C" __global__ void sum(const float4* __restrict__ x, float* __restrict__ out, int n) {
    float total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 u = x[i];
        total += (u.x + u.y) + (u.z + u.w);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" __global__ void dot(const float4* __restrict__ x, const float4* __restrict__ y,
                               float* __restrict__ out, int n) {
    float total = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 u = x[i], v = y[i];
        total += (u.x * v.x + u.y * v.y) + (u.z * v.z + u.w * v.w);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" __global__ void total(const float* __restrict__ partial, float* __restrict__ out,
                                 int n) {
    float found = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) found += partial[i];
    found = block_sum(found);
    if (threadIdx.x == 0) out[0] = found;
}

// Blocks of 32 by 8 threads move tiles of 32 by 32; the odd pitch avoids bank conflicts.
extern "C" __global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int n,
                                     int m) {
    __shared__ float tile[32][33];
    int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (j < m && i + step < n) tile[threadIdx.y + step][threadIdx.x] = x[(i + step) * m + j];
    __syncthreads();
    i = blockIdx.y * 32 + threadIdx.x;
    j = blockIdx.x * 32 + threadIdx.y;
    for (int step = 0; step < 32; step += 8)
        if (i < n && j + step < m) y[(j + step) * n + i] = tile[threadIdx.x][threadIdx.y + step];
}
