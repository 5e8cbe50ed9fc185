/* Helpers shared by the tests, on top of upstream's macros only. Include after the fsi headers. */
#ifndef CHECK_H
#define CHECK_H
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef FSI_SINGLE
#define TOL(in_double, in_single) (in_single) /* every tolerance is stated for both precisions */
#else
#define TOL(in_double, in_single) (in_double)
#endif
#if defined(__GNUC__) || defined(__clang__)
#define CHECK_UNUSED __attribute__((unused))
#else
#define CHECK_UNUSED
#endif

/* |expected - actual| <= tol; NaN fails. Prints the three numbers when it fails. */
static CHECK_UNUSED int check_near(double expected, double actual, double tol, const char *text,
                                   int line) {
    if (fabs(expected - actual) <= tol)
        return 1;
    printf("\n  line %d: %s: expected %.17g, got %.17g, difference %.3g, tolerance %.3g\n", line,
           text, expected, actual, actual - expected, tol);
    return 0;
}

#define CHECK_NEAR(expected, actual, tol)                                                          \
    ASSERTm(#actual " is not near " #expected,                                                     \
            check_near((double)(expected), (double)(actual), (double)(tol), #actual, __LINE__))
#define CHECK_REL(expected, actual, tol)                                                           \
    CHECK_NEAR(expected, actual, (double)(tol)*fabs((double)(expected)))
/* value <= limit, NaN fails */
#define CHECK_MOST(value, limit)                                                                   \
    ASSERTm(#value " exceeds " #limit,                                                             \
            check_most((double)(value), (double)(limit), #value, __LINE__))

static CHECK_UNUSED int check_most(double value, double limit, const char *text, int line) {
    if (value <= limit)
        return 1;
    printf("\n  line %d: %s = %.17g exceeds %.17g\n", line, text, value, limit);
    return 0;
}

#define CHECK_OK(expr)                                                                             \
    ASSERTm(#expr " is not FSI_OK", check_result((int)(expr), FSI_OK, #expr, __LINE__))
#define CHECK_RESULT(expected, expr)                                                               \
    ASSERTm(#expr " is not " #expected, check_result((int)(expr), (int)(expected), #expr, __LINE__))

static CHECK_UNUSED int check_result(int got, int expected, const char *text, int line) {
    if (got == expected)
        return 1;
    printf("\n  line %d: %s: result %d (%s), expected %d\n", line, text, got,
           fsi_result_text((fsi_result)got), expected);
    return 0;
}

/* Repeatable random numbers, uniform in [-1, 1). */
static CHECK_UNUSED double check_random(uint64_t *state) {
    uint64_t z = (*state += (uint64_t)0x9e3779b9u << 32 | 0x7f4a7c15u);
    z = (z ^ (z >> 30)) * ((uint64_t)0xbf58476du << 32 | 0x1ce4e5b9u);
    z = (z ^ (z >> 27)) * ((uint64_t)0x94d049bbu << 32 | 0x133111ebu);
    z ^= z >> 31;
    return (double)(z >> 11) / 4503599627370496.0 - 1.0;
}

#ifdef CHECK_TRACE
#include "trace.h"
#define CHECK_TRACED(failed) trace(failed)
#else
#define CHECK_TRACED(failed) (void)(failed)
#endif
/* An allocator that fails from its fail_at-th call on (counted from 0; -1 = never; once = 1: only
   that one) and counts what is still held. Loop: for (k = 0; k < limit; k++) { fail_allocator f; f
   = fail_begin(k); run with fail_make(&f); until it succeeds }. */
typedef struct fail_allocator {
    long calls, fail_at, live;
    size_t bytes, peak;
    int once;
} fail_allocator;

static CHECK_UNUSED fail_allocator fail_begin(long fail_at) {
    fail_allocator f;
    memset(&f, 0, sizeof f);
    f.fail_at = fail_at;
    return f;
}

static CHECK_UNUSED void *fail_alloc_fn(size_t size, size_t align, void *user) {
    fail_allocator *f = (fail_allocator *)user;
    int fails = f->fail_at >= 0 && (f->once ? f->calls == f->fail_at : f->calls >= f->fail_at);
    (void)align;
    CHECK_TRACED(fails);
    f->calls++;
    if (fails)
        return NULL;
    unsigned char *raw = (unsigned char *)malloc(size + 128);
    if (!raw)
        return NULL;
    unsigned char *p = raw + (128 - (size_t)((uintptr_t)raw & 63u));
    memcpy(p - 16, &raw, sizeof raw);
    memcpy(p - 32, &size, sizeof size);
    memset(p, 0xa5, size); /* fsi_alloc must zero it */
    f->live++;
    f->bytes += size;
    if (f->bytes > f->peak)
        f->peak = f->bytes;
    return p;
}

static CHECK_UNUSED void fail_free_fn(void *ptr, size_t size, void *user) {
    fail_allocator *f = (fail_allocator *)user;
    unsigned char *p = (unsigned char *)ptr;
    if (!ptr)
        return;
    unsigned char *raw;
    memcpy(&raw, p - 16, sizeof raw);
    size_t told;
    memcpy(&told, p - 32, sizeof told);
    if (told != size) {
        printf("\n  free got size %lu, allocated was %lu\n", (unsigned long)size,
               (unsigned long)told);
        abort();
    }
    f->live--;
    f->bytes -= size;
    free(raw);
}

static CHECK_UNUSED fsi_allocator fail_make(fail_allocator *f) {
    fsi_allocator allocator;
    allocator.alloc_fn = fail_alloc_fn;
    allocator.free_fn = fail_free_fn;
    allocator.user = f;
    return allocator;
}

/* Sets the number of threads where there are threads. */
static CHECK_UNUSED void check_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

/* A hash of bytes: two runs agree bit for bit when their hashes do. */
static CHECK_UNUSED uint64_t check_hash(const void *data, size_t size, uint64_t seed) {
    const unsigned char *p = (const unsigned char *)data;
    uint64_t h = seed + (uint64_t)0xcbf29ce4u;
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * ((uint64_t)0x100 << 32 | 0x1b3u);
    return h;
}
#endif
