/* Calls every function of the bundle "samples", and checks results and statuses. */
#include "samples.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      fprintf(stderr, "line %d: %s is false\n", __LINE__, #condition);     \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

enum { MOST = 200003 };

static float x[MOST], y[MOST], z[MOST];

static void fill(int n) {
  int i;
  for (i = 0; i < n; i++) {
    x[i] = (float)(i % 101);
    y[i] = (float)(i % 7);
  }
  for (i = 0; i < MOST; i++) {
    z[i] = NAN;
  }
}

static void check_sizes(void) {
  static const int sizes[] = {1, 2, 31, 64, 257, 4099, 100000, MOST};
  size_t k;
  int i;
  for (k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    int n = sizes[k];
    float total = NAN, expected = 0;
    fill(n);
    CHECK(samples_axpy(2.0f, x, y, z, n) == SAMPLES_OK);
    for (i = 0; i < n; i++) {
      CHECK(z[i] == 2.0f * x[i] + y[i]);
      expected += y[i]; /* Less than 2^24: every sum is exact. */
    }
    CHECK(n == MOST || isnan(z[n]));
    CHECK(samples_total(y, &total, n) == SAMPLES_OK);
    CHECK(total == expected);
  }
}

static void check_statuses(void) {
  fill(10);
  CHECK(samples_axpy(1.0f, x, y, z, 0) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, x, y, z, -1) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, x, y, z, INT64_MIN) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, x, y, z, INT64_C(1) << 31) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, x, y, z, 2013265921) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, x, y, z, (INT64_C(1) << 32) + 1) == SAMPLES_BAD_SIZE);
  CHECK(samples_product(x, y, z, 1.0f, 0.0f, 1 << 20, 1 << 20, 1 << 20) == SAMPLES_BAD_SIZE);
  CHECK(samples_axpy(1.0f, NULL, y, z, 10) == SAMPLES_BAD_POINTER);
  CHECK(samples_axpy(1.0f, x, y, (float *)(void *)((char *)z + 1), 9) == SAMPLES_BAD_POINTER);
  CHECK(samples_axpy(1.0f, x, y, x + 5, 10) == SAMPLES_OVERLAP);
  CHECK(samples_axpy(1.0f, x, y, x + 10, 10) == SAMPLES_OK);
  CHECK(samples_total(x, x, 10) == SAMPLES_OVERLAP);
  CHECK(isnan(z[0]));
  fill(10);
  CHECK(samples_axpy(1.0f, x, y, x, 10) == SAMPLES_OK); /* In place. */
  CHECK(x[3] == 6.0f);
  CHECK(strstr(samples_problem(SAMPLES_OVERLAP), "shares memory") != NULL);
  CHECK(strlen(samples_problem(99)) > 0);
}

static void check_kinds(void) {
  float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4] = {NAN, NAN, NAN, NAN};
  int64_t wide[3] = {1, 2, 3};
  uint16_t half[2] = {0x3c00, 0x4000}, doubled[2] = {0xffff, 0xffff};
  double scaled[3];
  memset(scaled, 0xff, sizeof scaled);
  CHECK(samples_product(a, b, c, 1.0f, 0.0f, 2, 3, 2) == SAMPLES_OK);
  CHECK(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
  CHECK(samples_wide(INT64_C(1) << 40, 0.1, wide, scaled, 3, 3) == SAMPLES_OK);
  CHECK(scaled[2] == 0.1 * (double)(3 + (INT64_C(1) << 40)));
  CHECK(samples_half(2.0f, half, doubled, 2) == SAMPLES_OK);
  CHECK(doubled[0] == 0x4000 && doubled[1] == 0x4400);
}

/* A pool of the user's: counts loops, and runs them backwards. */
static void backwards(void *pool, int n, void (*task)(void *context, int i), void *context) {
  ++*(int *)pool;
  while (n-- > 0) {
    task(context, n);
  }
}

static void *call(void *unused) {
  static const float ones[40000] = {1.0f};
  float *result = malloc(sizeof ones);
  int i, repeat;
  (void)unused;
  for (repeat = 0; repeat < 200; repeat++) {
    result[39999] = NAN;
    CHECK(samples_axpy((float)repeat, ones, ones, result, 40000) == SAMPLES_OK);
    for (i = 0; i < 40000; i++) {
      CHECK(result[i] == (i == 0 ? (float)repeat + 1 : 0));
    }
  }
  free(result);
  return NULL;
}

/* 2^24 + 1 lies between two floats: each tells how the thread rounds that computed it. */
static void check_rounding(int rounding, float expected) {
  int i;
  for (i = 0; i < MOST; i++) {
    x[i] = 16777216.0f;
    y[i] = 1;
  }
  CHECK(fesetround(rounding) == 0);
  CHECK(samples_axpy(1.0f, x, y, z, MOST) == SAMPLES_OK);
  CHECK(fegetround() == rounding);
  CHECK(fesetround(FE_TONEAREST) == 0);
  for (i = 0; i < MOST; i++) {
    CHECK(z[i] == expected);
  }
}

typedef struct Part {
  int i;
  void (*task)(void *context, int i);
  void *context;
} Part;

static void *run_part(void *part) {
  const Part *given = part;
  CHECK(fesetround(FE_DOWNWARD) == 0);
  given->task(given->context, given->i);
  CHECK(fegetround() == FE_DOWNWARD);
  return NULL;
}

/* A pool of the user's whose threads round down. */
static void in_other_threads(void *pool, int n, void (*task)(void *context, int i),
                             void *context) {
  int i;
  (void)pool;
  for (i = 0; i < n; i++) {
    Part part = {i, task, context};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_part, &part) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
  }
}

static void check_rounding_of_threads(void) {
  int repeat;
  samples_use_threads(4);
  for (repeat = 0; repeat < 20; repeat++) {
    check_rounding(FE_UPWARD, 16777218.0f);
    check_rounding(FE_TONEAREST, 16777216.0f);
  }
  samples_use_parallel_for(in_other_threads, NULL);
  check_rounding(FE_UPWARD, 16777218.0f);
  samples_use_parallel_for(NULL, NULL);
  samples_use_threads(0);
}

static void check_threads(void) {
  static const int counts[] = {1, 4, 0, 3};
  pthread_t threads[3];
  int loops = 0, status;
  size_t k;
  pid_t child;
  for (k = 0; k < sizeof counts / sizeof *counts; k++) {
    samples_use_threads(counts[k]);
    check_sizes();
  }
  for (k = 0; k < 3; k++) {
    CHECK(pthread_create(&threads[k], NULL, call, NULL) == 0);
  }
  call(NULL);
  for (k = 0; k < 3; k++) {
    CHECK(pthread_join(threads[k], NULL) == 0);
  }
  samples_use_parallel_for(backwards, &loops);
  check_sizes();
  CHECK(loops > 0);
  samples_use_parallel_for(NULL, NULL);
  status = loops;
  check_sizes();
  CHECK(loops == status);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    check_sizes();
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  check_sizes();
}

int main(void) {
  check_sizes();
  check_statuses();
  check_kinds();
  check_threads();
  check_rounding_of_threads();
  puts("all is well");
  return 0;
}
