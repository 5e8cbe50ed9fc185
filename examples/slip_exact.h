/* SPDX-License-Identifier: MIT OR Unlicense
   slip_exact.h: potential flow past a cylinder in a channel, for the example and the test.
   Complex velocity potential F = U (z + sum_m c_m G_m), G_m = sum over images 2 H k of 1 / (z - 2 i
   H k)^(2 m + 1) (k = all integers): the images make the walls y = +-H streamlines; the c_m make
   the circle |z| = a one (least squares of the stream function on 64 points). */
#ifndef SLIP_EXACT_H
#define SLIP_EXACT_H
#include <complex.h>
#include <math.h>
#include <string.h>
#define SLIP_TERMS 8

typedef struct slip_exact {
    double a;
    double H;
    double c[SLIP_TERMS];
} slip_exact;

/* G_m (or its derivative) for all m. */
static void slip_basis(const slip_exact *e, double complex z, int derivative, double complex *out) {
    const double pi = 3.14159265358979323846;
    double complex s = pi / (2 * e->H);

    for (int m = 1; m < SLIP_TERMS; m++)
        out[m] = 0;
    out[0] = derivative ? -s * s / (csinh(s * z) * csinh(s * z)) : s * ccosh(s * z) / csinh(s * z);

    for (int k = -60; k <= 60; k++) {
        double complex w = 1 / (z - 2 * _Complex_I * e->H * k);
        double complex w2 = w * w;
        double complex power = derivative ? w2 * w2 : w * w2;
        for (int m = 1; m < SLIP_TERMS; m++, power *= w2)
            out[m] += derivative ? -(2 * m + 1) * power : power;
    }
}

/* Walls at +-H around a cylinder of radius a at the origin, stream 1. */
static void slip_exact_make(slip_exact *e, double a, double H) {
    enum {
        POINTS = 64,
        N = SLIP_TERMS
    };

    const double pi = 3.14159265358979323846;
    double A[N][N + 1];
    memset(A, 0, sizeof A);
    e->a = a;
    e->H = H;

    for (int k = 0; k < POINTS; k++) {
        double complex z = a * cexp(_Complex_I * pi * (k + 0.5) / (2 * POINTS));
        double complex basis[N];
        double row[N];
        double y = cimag(z);
        slip_basis(e, z, 0, basis);
        for (int i = 0; i < N; i++)
            row[i] = cimag(basis[i]) * pow(a, 2 * i + 1);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++)
                A[i][j] += row[i] * row[j];
            A[i][N] -= row[i] * y;
        }
    }

    for (int i = 0; i < N; i++)
        A[i][i] += 1e-15 * A[i][i];

    /* positive definite: elimination without pivoting */
    for (int i = 0; i < N; i++)
        for (int k = i + 1; k < N; k++) {
            double f = A[k][i] / A[i][i];
            for (int j = i; j <= N; j++)
                A[k][j] -= f * A[i][j];
        }

    for (int i = N - 1; i >= 0; i--) {
        e->c[i] = A[i][N];
        for (int j = i + 1; j < N; j++)
            e->c[i] -= A[i][j] * e->c[j];
        e->c[i] /= A[i][i];
    }

    for (int i = 0; i < N; i++)
        e->c[i] *= pow(a, 2 * i + 1);
}

static void slip_exact_velocity(const slip_exact *e, double x, double y, double *u, double *v) {
    double complex basis[SLIP_TERMS];
    double complex w = 1;
    slip_basis(e, x + _Complex_I * y, 1, basis);

    for (int m = 0; m < SLIP_TERMS; m++)
        w += e->c[m] * basis[m];
    *u = creal(w);
    *v = -cimag(w);
}

/* Speed along the surface at angle t (0 = downstream), in the direction of the stream over the top.
 */
static double slip_exact_speed(const slip_exact *e, double t) {
    double u;
    double v;
    slip_exact_velocity(e, e->a * cos(t), e->a * sin(t), &u, &v);
    return u * sin(t) - v * cos(t);
}
#endif
