/* bench.h: what the benchmark programs share: the clock and the number of threads. */
#ifndef BENCH_H
#define BENCH_H
#include <stdio.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__GNUC__)
#define BENCH static __attribute__((unused))
#else
#define BENCH static
#endif
BENCH double now(void) { /* s */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

BENCH double now_fn(void *user) {
    (void)user;
    return now();
} /* as the headers' clock_fn */

BENCH void use_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

BENCH int max_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

/* every figure at one and two threads, where there are threads */
BENCH int most_threads(void) {
#ifdef _OPENMP
    return 2;
#else
    return 1;
#endif
}

/* A figure of the contract under its plain name: with two threads (as many as there are), with one,
 * and the speed-up. */
BENCH void bench_pair(const char *name, double one, double most, const char *unit) {
    printf("bench %s %.4g %s\nbench %s_1thread %.4g %s\nbench %s_speedup %.2f x\n", name, most,
           unit, name, one, unit, name, one / most);
    fflush(stdout);
}
#endif
