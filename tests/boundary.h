/* boundary.h - the boundary pressure projection of XPM section 6 in its general form, as a slow
   twin of the fluid box's own (fsi__fluid_box_project), which has one region per side.

           region_minus | face | region_plus        u > 0 is flow out of region_minus
                        |----->|                    and into region_plus                        */
#ifndef BOUNDARY_H
#define BOUNDARY_H
#include <math.h>

typedef struct boundary_faces {
    int faces, regions;
    const fsi_real *area, *mass;               /* m^2; kg, of dynamic faces */
    const int32_t *region_minus, *region_plus; /* closed regions on both sides, -1 = none */
    const uint8_t *fixed;                      /* 1: a source or scripted face */
    fsi_real *u;                               /* in U*, out U, m/s */
} boundary_faces;

/* The faces' signs in a region: row f of C has area on its minus side and -area on its plus side.
 */
static double boundary_sign(const boundary_faces *b, int f, int region) {
    return (b->region_minus[f] == region) - (b->region_plus[f] == region);
}

/* x = K^-1 x by elimination for a semi-definite K: a pivot that vanishes leaves its unknown at 0.
 */
static void boundary_solve(int n, fsi_real *K, fsi_real *x) {
    for (int j = 0; j < n; j++) {
        int gone = !(K[j * n + j] > FSI_R(1e3) * FSI_REAL_EPS);
        if (gone)
            x[j] = 0;
        for (int i = 0; i < n; i++) {
            fsi_real share = gone || i == j ? 0 : K[i * n + j] / K[j * n + j];
            for (int k = 0; k < n; k++)
                K[i * n + k] = gone && (i == j || k == j) ? (fsi_real)(i == k)
                                                          : K[i * n + k] - share * K[j * n + k];
            x[i] -= share * x[j];
        }
    }
    for (int i = 0; i < n; i++)
        x[i] /= K[i * n + i];
}

/* U -= M^-1 C (C^T M^-1 C)^-1 C^T U: no net outflow of any region with the least change of kinetic
   energy; p0[region] (Pa) is the pressure that does it in dt seconds; work[regions^2].
   FSI_INCOMPATIBLE: a region with no dynamic face has net flow (it is left alone). */
static fsi_result boundary_project(const boundary_faces *b, fsi_real dt, fsi_real *p0,
                                   fsi_real *work) {
    fsi_result result = FSI_OK;
    int m = b->regions;
    for (int i = 0; i < m; i++) {
        double flux = 0;
        for (int f = 0; f < b->faces; f++)
            flux += boundary_sign(b, f, i) * (double)(b->area[f] * b->u[f]);
        for (int j = 0; j < m; j++) {
            double sum = 0;
            for (int f = 0; f < b->faces; f++)
                if (!b->fixed[f])
                    sum += boundary_sign(b, f, i) * boundary_sign(b, f, j)
                           * (double)(b->area[f] * b->area[f] / b->mass[f]);
            work[i * m + j] = (fsi_real)sum;
        }
        p0[i] = (fsi_real)flux;
        if (work[i * m + i] > 0)
            continue;
        if (fabs(flux) > 0)
            result = FSI_INCOMPATIBLE;
        work[i * m + i] = 1;
        p0[i] = 0;
    }
    boundary_solve(m, work, p0);
    for (int f = 0; f < b->faces; f++)
        for (int i = 0; i < m && !b->fixed[f]; i++)
            b->u[f] -= b->area[f] / b->mass[f] * (fsi_real)boundary_sign(b, f, i) * p0[i];
    for (int i = 0; i < m; i++)
        p0[i] = -p0[i] / dt;
    return result;
}
#endif
