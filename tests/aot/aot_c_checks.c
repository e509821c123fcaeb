/*
 * Checks what the header of a bundle does; prints each check that fails, and returns how many.
 *
 * Usage: checks BUNDLE ARCH SEED, or checks BUNDLE ARCH damaged MESSAGE, where a file of the kernel
 * fill_f32 is not as it was; ARCH is x64, cuda or vulkan. test_aot_c.py exports the bundle "box".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box.h"

static int failures = 0;

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      printf("line %d: %s\n  %s\n", __LINE__, #condition, box_error(bundle));     \
      failures++;                                                                 \
    }                                                                             \
  } while (0)

/* What a call must return and say. */
#define REFUSED(call, status, text) CHECK((call) == (status) && strstr(box_error(bundle), text))

enum { N = 13 };

static box_array *new_array(box_bundle *bundle, TiDataType dtype, int ndim, int64_t a, int64_t b) {
  const int64_t shape[] = {a, b};
  return box_array_new(bundle, dtype, ndim, shape);
}

static void fill_random(float *values, int count) {
  int i;
  for (i = 0; i < count; i++) {
    values[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  }
}

/* What a step of the heat equation makes of a value. */
static float next(const float *x, int i, float scale) {
  return i == 0 || i == N - 1 ? 0 : x[i] + scale * (x[i - 1] - 2 * x[i] + x[i + 1]);
}

static int step(box_bundle *bundle, const box_array *x, box_array *y) {
  return box_stencil_order2_interior_update(bundle, x, y, 0.5f);
}

static int step_1d(box_bundle *bundle, const box_array *x, box_array *y, float scale) {
  return box_stencil_dim1_f32_order2_interior_update(bundle, x, y, scale);
}

static void check_opening(const char *folder, TiArch arch) {
  box_bundle *bundle = NULL;
  CHECK(box_open(NULL, arch, 0) == NULL && strstr(box_error(NULL), "folder is NULL"));
  CHECK(box_open("no/such/folder", arch, 0) == NULL && strstr(box_error(NULL), "not a bundle"));
  CHECK(box_open(folder, TI_ARCH_METAL, 0) == NULL && strstr(box_error(NULL), "metal; it has"));
  CHECK(box_open(folder, (TiArch)99, 0) == NULL && strstr(box_error(NULL), "unknown arch"));
  CHECK(box_wait(NULL) == BOX_BAD_ARGUMENT && strstr(box_error(NULL), "bundle is NULL"));
  CHECK(box_array_new(NULL, TI_DATA_TYPE_F32, 0, NULL) == NULL);
  CHECK(box_fill(NULL, 1, 0, NULL) == BOX_BAD_ARGUMENT);
  if (arch == TI_ARCH_X64) {
    CHECK(box_open(folder, arch, 7) == NULL && strstr(box_error(NULL), "device"));
  }
  box_close(NULL);
  box_array_free(NULL);
}

static void check_arrays(box_bundle *bundle) {
  float values[2 * N], back[2 * N];
  box_array *array = new_array(bundle, TI_DATA_TYPE_F32, 2, 2, N);
  box_array *freed;
  int i;
  CHECK(array != NULL && box_array_bytes(array) == sizeof values);
  fill_random(back, 2 * N);
  CHECK(box_array_download(array, back) == BOX_OK);
  for (i = 0; i < 2 * N; i++) {
    CHECK(back[i] == 0); /* new arrays hold zeros */
  }
  fill_random(values, 2 * N);
  CHECK(box_array_upload(array, values) == BOX_OK);
  CHECK(box_array_download(array, back) == BOX_OK);
  CHECK(memcmp(values, back, sizeof values) == 0);
  CHECK((box_array_data(array) != NULL) == (bundle->arch == TI_ARCH_X64));
  REFUSED(box_array_upload(array, NULL), BOX_BAD_ARGUMENT, "NULL");
  REFUSED(box_array_download(array, NULL), BOX_BAD_ARGUMENT, "NULL");
  CHECK(box_array_upload(NULL, values) == BOX_BAD_ARGUMENT);
  CHECK(!new_array(bundle, TI_DATA_TYPE_F32, 2, 2, 0) && strstr(box_error(bundle), "extent 0"));
  CHECK(!new_array(bundle, TI_DATA_TYPE_F32, 2, 65536, 65536));
  CHECK(!new_array(bundle, TI_DATA_TYPE_F32, 17, 1, 1) && strstr(box_error(bundle), "0 to 16"));
  CHECK(!new_array(bundle, TI_DATA_TYPE_U1, 1, 1, 1) && strstr(box_error(bundle), "u1"));
  for (i = 0; i < 50; i++) { /* memory comes back, handles serve again */
    freed = new_array(bundle, TI_DATA_TYPE_F32, 2, 2, N);
    CHECK(freed != NULL);
    box_array_free(freed);
  }
  box_array_free(array);
}

/* Looks at the bytes of an array from one of its elements on; those before are zeros. */
static int holds(const box_array *array, int first, const void *wanted, size_t size) {
  char back[N * sizeof(double)];
  const char zeros[sizeof(double)] = {0};
  size_t i;
  int is_right = box_array_download(array, back) == BOX_OK;
  for (i = 0; i < N; i++) {
    is_right &= memcmp(back + i * size, (int)i < first ? zeros : wanted, size) == 0;
  }
  return is_right;
}

#define CHECK_SCALAR(dtype, DTYPE, type, given, expected)                         \
  do {                                                                            \
    const type wanted = (expected);                                               \
    box_array *array = new_array(bundle, TI_DATA_TYPE_##DTYPE, 1, N, 0);          \
    CHECK(box_fill_##dtype(bundle, (given), 3, array) == BOX_OK);                 \
    CHECK(holds(array, 3, &wanted, sizeof wanted));                               \
    box_array_free(array);                                                        \
  } while (0)

static void check_scalars(box_bundle *bundle) {
  const float pi = 3.14159265f;
  const int16_t i16 = -30000;
  const uint8_t u8 = 200;
  const uint16_t u16 = 60000;
  const uint32_t u32 = 4000000000u;
  const uint64_t u64 = UINT64_MAX - 3;
  const double f64 = 0.1;
  box_array *i16s = new_array(bundle, TI_DATA_TYPE_I16, 1, N, 0);
  box_array *u8s = new_array(bundle, TI_DATA_TYPE_U8, 1, N, 0);
  box_array *u16s = new_array(bundle, TI_DATA_TYPE_U16, 1, N, 0);
  box_array *u32s = new_array(bundle, TI_DATA_TYPE_U32, 1, N, 0);
  box_array *u64s = new_array(bundle, TI_DATA_TYPE_U64, 1, N, 0);
  box_array *f64s = new_array(bundle, TI_DATA_TYPE_F64, 1, N, 0);
  CHECK_SCALAR(i8, I8, int8_t, -100, -100);
  CHECK_SCALAR(i32, I32, int32_t, INT32_MIN, INT32_MIN);
  CHECK_SCALAR(i64, I64, int64_t, INT64_MIN + 5, INT64_MIN + 5);
  CHECK_SCALAR(f16, F16, uint16_t, pi, 0x4248);
  CHECK_SCALAR(f32, F32, float, pi, pi);
  CHECK(box_fill_rest(bundle, i16, u8, u16, u32, u64, f64, i16s, u8s, u16s, u32s, u64s, f64s) ==
        BOX_OK);
  CHECK(holds(i16s, 0, &i16, sizeof i16));
  CHECK(holds(u8s, 0, &u8, sizeof u8));
  CHECK(holds(u16s, 0, &u16, sizeof u16));
  CHECK(holds(u32s, 0, &u32, sizeof u32));
  CHECK(holds(u64s, 0, &u64, sizeof u64));
  CHECK(holds(f64s, 0, &f64, sizeof f64));
}

static void check_sizes(const box_bundle *bundle) {
  box_parameter_ parameter;
  box_array array;
  int64_t extent;
  memset(&parameter, 0, sizeof parameter);
  memset(&array, 0, sizeof array);
  parameter.shape[0].symbol = "n";
  parameter.shape[0].more = 3;
  array.ndim = 1;
  for (extent = 1; extent < 6; extent++) { /* A size is at least 1. */
    box_sizes_ sizes = {0};
    array.shape[0] = extent;
    CHECK(box_shape_fits_(&parameter, &array, &sizes) == (extent > 3));
  }
}

static void check_halves(box_bundle *bundle) {
  static const struct {
    float value;
    uint16_t bits;
  } known[] = {{0.0f, 0x0000},      {-0.0f, 0x8000},     {1.0f, 0x3c00},     {65504.0f, 0x7bff},
               {65519.0f, 0x7bff},  {65520.0f, 0x7c00},  {-1e30f, 0xfc00},   {6.1035156e-05f, 0x0400},
               {6.0976e-05f, 0x03ff}, {5.9604645e-08f, 0x0001}, {2.9802322e-08f, 0x0000},
               {2.98024e-08f, 0x0001}, {1.00048828125f, 0x3c00}, {1.00146484375f, 0x3c02}};
  size_t i;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    CHECK(box_half_(known[i].value) == known[i].bits);
  }
  CHECK((box_half_(NAN) & 0x7fff) > 0x7c00);
  CHECK(box_half_(INFINITY) == 0x7c00);
}

static void check_selector(box_bundle *bundle) {
  box_array *line = new_array(bundle, TI_DATA_TYPE_F32, 1, N, 0);
  box_array *line_too = new_array(bundle, TI_DATA_TYPE_F32, 1, N, 0);
  box_array *short_line = new_array(bundle, TI_DATA_TYPE_F32, 1, 10, 0);
  box_array *short_line_too = new_array(bundle, TI_DATA_TYPE_F32, 1, 10, 0);
  box_array *plane = new_array(bundle, TI_DATA_TYPE_F32, 2, N, 5);
  box_array *doubles = new_array(bundle, TI_DATA_TYPE_F64, 1, N, 0);
  const int any = box_callable_stencil_dim1_f32_order2_interior_update_.index;
  const int baked = box_callable_stencil_dim1_f32_order2_interior_update_10_.index;
  const int flat = box_callable_fill_plane_.index;
  float x[N], y[N], cells[5 * N];
  int i;
  fill_random(x, N);
  CHECK(box_array_upload(line, x) == BOX_OK);
  CHECK(step(bundle, line, line_too) == BOX_OK);
  CHECK(bundle->kernels[any] && !bundle->kernels[baked]);
  CHECK(box_array_download(line_too, y) == BOX_OK);
  for (i = 1; i < N - 1; i++) {
    CHECK(fabsf(y[i] - next(x, i, 0.5f)) < 1e-6f);
  }
  CHECK(y[0] == 0 && y[N - 1] == 0); /* left alone */
  CHECK(step(bundle, short_line, short_line_too) == BOX_OK);
  CHECK(bundle->kernels[baked]);
  CHECK(!bundle->kernels[flat]);
  CHECK(box_fill(bundle, 0.5, 1, plane) == BOX_OK);
  CHECK(bundle->kernels[flat]);
  CHECK(box_array_download(plane, cells) == BOX_OK);
  CHECK(cells[4] == 0 && cells[5] == 0.5f && cells[5 * N - 1] == 0.5f);

  REFUSED(step(bundle, doubles, line), BOX_BAD_ARGUMENT, "no kernel");
  CHECK(strstr(box_error(bundle), "x f64[13]") && strstr(box_error(bundle), "x f32[n0]"));
  REFUSED(step(bundle, line, short_line), BOX_BAD_ARGUMENT, "y f32[10]");
  REFUSED(step(bundle, NULL, line), BOX_BAD_ARGUMENT, "x NULL");
  REFUSED(step(bundle, line, line), BOX_BAD_ARGUMENT, "another array");
  REFUSED(step_1d(bundle, doubles, line, 1), BOX_BAD_ARGUMENT,
          "'x' takes f32[n0]; got f64[13]");
  REFUSED(step_1d(bundle, plane, line, 1), BOX_BAD_ARGUMENT, "[13, 5]");
  REFUSED(step_1d(bundle, line, short_line, 1), BOX_BAD_ARGUMENT,
          "'y' takes f32[n0] where n0 = 13; got f32[10]");
  REFUSED(step_1d(bundle, line, NULL, 1), BOX_BAD_ARGUMENT, "NULL");
  REFUSED(box_fill(bundle, 1.5, 0, new_array(bundle, TI_DATA_TYPE_I8, 1, N, 0)), BOX_BAD_ARGUMENT,
          "does not fit i8");
  REFUSED(box_fill(bundle, 1e300, 0, new_array(bundle, TI_DATA_TYPE_I32, 1, N, 0)),
          BOX_BAD_ARGUMENT, "does not fit i32");
}

static void check_the_rest(box_bundle *bundle, const char *folder) {
  box_bundle *other = box_open(folder, bundle->arch, 0);
  box_array *a = new_array(bundle, TI_DATA_TYPE_F32, 1, N, 0);
  box_array *out = new_array(bundle, TI_DATA_TYPE_F32, 1, N, 0);
  box_array *total = new_array(bundle, TI_DATA_TYPE_F32, 1, 1, 0);
  box_array *points = new_array(bundle, TI_DATA_TYPE_F32, 2, N, 3);
  box_array *state = new_array(bundle, TI_DATA_TYPE_I32, 2, 3, 2);
  float x[3 * N], half_way[N], z[N], sum = 0, expected = 0;
  int32_t before[6], after[6];
  int i;
  fill_random(x, 3 * N);
  CHECK(box_array_upload(a, x) == BOX_OK);
  CHECK(box_two_steps(bundle, a, out, 0.5f) == BOX_OK); /* a graph with a scratch array */
  CHECK(box_array_download(out, z) == BOX_OK);
  for (i = 0; i < N; i++) {
    half_way[i] = next(x, i, 0.25f);
    expected += x[i];
  }
  for (i = 0; i < N; i++) {
    CHECK(fabsf(z[i] - next(half_way, i, 0.5f)) < 1e-6f);
  }
  CHECK(box_reduce_sum_dim1_f32_fast(bundle, a, total) == BOX_OK); /* with scratch arrays */
  CHECK(box_array_download(total, &sum) == BOX_OK);
  CHECK(fabsf(sum - expected) < 1e-5f);

  CHECK(box_array_upload(points, x) == BOX_OK);
  CHECK(box_double_(bundle, points, out) == BOX_OK); /* vectors */
  CHECK(box_array_download(out, z) == BOX_OK);
  for (i = 0; i < N; i++) {
    CHECK(fabsf(z[i] - 2 * (x[3 * i] + x[3 * i + 1] + x[3 * i + 2])) < 1e-5f);
  }
  REFUSED(box_double_(bundle, state, out), BOX_BAD_ARGUMENT, "i32[3, 2]");

  for (i = 0; i < 6; i++) {
    before[i] = rand() % 1000;
  }
  CHECK(box_array_upload(state, before) == BOX_OK);
  CHECK(box_write_state(bundle, state) == BOX_OK);
  CHECK(box_advance(bundle, 7) == BOX_OK);
  CHECK(box_read_state(bundle, state) == BOX_OK);
  CHECK(box_array_download(state, after) == BOX_OK);
  for (i = 0; i < 6; i++) {
    CHECK(after[i] == before[i] + 7);
  }
  REFUSED(box_read_state(bundle, a), BOX_BAD_ARGUMENT, "i32[3, 2]");
  CHECK(box_wait(bundle) == BOX_OK);

  CHECK(other != NULL);
  CHECK(box_double_(other, points, out) == BOX_BAD_ARGUMENT &&
        strstr(box_error(other), "another bundle"));
  box_close(other); /* frees nothing of the first */
  CHECK(box_array_download(state, after) == BOX_OK);
}

/* A file of a module is not as it was: an error that says so, and the next kernel still works. */
static void check_damage(const char *folder, TiArch arch, const char *said) {
  box_bundle *bundle = box_open(folder, arch, 0);
  box_array *array = new_array(bundle, TI_DATA_TYPE_F32, 1, N, 0);
  REFUSED(box_fill_f32(bundle, 1, 0, array), BOX_NOT_FOUND, said);
  REFUSED(box_fill_f32(bundle, 1, 0, array), BOX_NOT_FOUND, said);
  array = new_array(bundle, TI_DATA_TYPE_I32, 1, N, 0);
  CHECK(box_fill_i32(bundle, 1, 0, array) == BOX_OK);
  box_close(bundle);
}

static TiArch arch_named(const char *name) {
  if (strcmp(name, "cuda") == 0) {
    return TI_ARCH_CUDA;
  }
  return strcmp(name, "vulkan") == 0 ? TI_ARCH_VULKAN : TI_ARCH_X64;
}

int main(int argc, char **argv) {
  const TiArch arch = argc > 2 ? arch_named(argv[2]) : TI_ARCH_X64;
  box_bundle *bundle = NULL;
  if (argc == 5) {
    check_damage(argv[1], arch, argv[4]);
    return failures;
  }
  if (argc != 4) {
    return EXIT_FAILURE;
  }
  srand((unsigned)atoi(argv[3]));
  check_opening(argv[1], arch);
  bundle = box_open(argv[1], arch, 0);
  CHECK(bundle != NULL);
  if (bundle != NULL) {
    check_arrays(bundle);
    check_scalars(bundle);
    check_sizes(bundle);
    check_halves(bundle);
    check_selector(bundle);
    check_the_rest(bundle, argv[1]);
  }
  box_close(bundle);
  return failures;
}
