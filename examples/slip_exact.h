/* SPDX-License-Identifier: MIT OR Unlicense
   slip_exact.h: potential flow past a cylinder in a channel, for the example and the test.
   Complex velocity potential F = U (z + sum_m c_m G_m), G_m = sum over images 2 H k of 1 / (z - 2 i H k)^(2 m + 1) (k = all integers): the images
   make the walls y = +-H streamlines; the c_m make the circle |z| = a one (least squares of the stream function on 64 points). */
#ifndef SLIP_EXACT_H
#define SLIP_EXACT_H
#include <complex.h>
#include <math.h>
#include <string.h>
#define SLIP_TERMS 8
typedef struct slip_exact { double a, H, c[SLIP_TERMS]; } slip_exact;

static double complex slip_basis(const slip_exact *e, int m, double complex z, int derivative) {
    const double pi = 3.14159265358979323846;
    double complex sum = 0, s = pi / (2 * e->H);
    int k, p = 2 * m + 1;
    if (!m) return derivative ? -s * s / (csinh(s * z) * csinh(s * z)) : s * ccosh(s * z) / csinh(s * z);
    for (k = -60; k <= 60; k++) {
        double complex w = z - 2 * I * e->H * k;
        sum += derivative ? -p * cpow(w, -p - 1) : cpow(w, -p);
    }
    return sum;
}
/* Walls at +-H around a cylinder of radius a at the origin, stream 1. */
static void slip_exact_make(slip_exact *e, double a, double H) {
    enum { POINTS = 64, N = SLIP_TERMS };
    const double pi = 3.14159265358979323846;
    double A[N][N + 1];
    int i, j, k;
    memset(A, 0, sizeof A);
    e->a = a; e->H = H;
    for (k = 0; k < POINTS; k++) {
        double complex z = a * cexp(I * pi * (k + 0.5) / (2 * POINTS));
        double row[N], y = cimag(z);
        for (i = 0; i < N; i++) row[i] = cimag(slip_basis(e, i, z, 0)) * pow(a, 2 * i + 1);
        for (i = 0; i < N; i++) {
            for (j = 0; j < N; j++) A[i][j] += row[i] * row[j];
            A[i][N] -= row[i] * y;
        }
    }
    for (i = 0; i < N; i++) A[i][i] += 1e-15 * A[i][i];
    for (i = 0; i < N; i++)                                      /* positive definite: elimination without pivoting */
        for (k = i + 1; k < N; k++) {
            double f = A[k][i] / A[i][i];
            for (j = i; j <= N; j++) A[k][j] -= f * A[i][j];
        }
    for (i = N - 1; i >= 0; i--) {
        e->c[i] = A[i][N];
        for (j = i + 1; j < N; j++) e->c[i] -= A[i][j] * e->c[j];
        e->c[i] /= A[i][i];
    }
    for (i = 0; i < N; i++) e->c[i] *= pow(a, 2 * i + 1);
}
static void slip_exact_velocity(const slip_exact *e, double x, double y, double *u, double *v) {
    double complex w = 1;
    int m;
    for (m = 0; m < SLIP_TERMS; m++) w += e->c[m] * slip_basis(e, m, x + I * y, 1);
    *u = creal(w);
    *v = -cimag(w);
}
/* Speed along the surface at angle t (0 = downstream), in the direction of the stream over the top. */
static double slip_exact_speed(const slip_exact *e, double t) {
    double u, v;
    slip_exact_velocity(e, e->a * cos(t), e->a * sin(t), &u, &v);
    return u * sin(t) - v * cos(t);
}
#endif
