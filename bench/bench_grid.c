/* Benchmarks of fsi_grid.h: advection, the shares of a smoke step, bytes per cell, a real-time 2D
   step. bench NAME VALUE UNIT. Optional argument: cells along a side (default 128). */
#include "fsi_grid.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

static int make_smoke(fsi_grid *g, int nx, int ny, int nz, fsi_advection mode) {
    fsi_grid_desc d;
    memset(&d, 0, sizeof d);
    d.nx = nx;
    d.ny = ny;
    d.nz = nz;
    d.h = (fsi_real)(1.0 / nx);
    d.rho = 1;
    d.smoke = 1;
    d.buoyancy_temperature = 4;
    d.side[3].kind = FSI_SIDE_OPEN;
    d.advect_velocity = d.advect_density = d.advect_temperature = mode;
    if (fsi_grid_init(g, &d) < 0)
        return 0;
    fsi_grid_source s;
    memset(&s, 0, sizeof s);
    s.shape = FSI_SOURCE_SPHERE;
    s.centre =
        fsi_vec((fsi_real)0.5, (fsi_real)(0.2 * ny / nx), nz > 1 ? (fsi_real)(0.5 * nz / nx) : 0);
    s.radius = (fsi_real)0.12;
    s.set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY;
    s.density = 1;
    s.temperature = 1;
    s.velocity = fsi_vec(0, (fsi_real)0.8, 0);
    g->clock_fn = now_fn;
    return fsi_grid_add_source(g, &s) >= 0;
}

/* A few steps of a rising plume at one cell per step and more; returns seconds per step, shares
 * through the stats. */
static double steps(fsi_grid *g, int count, double share[3], double *iterations) {
    double t0 = now();
    share[0] = share[1] = share[2] = *iterations = 0;
    for (int i = 0; i < count; i++) {
        fsi_report r;
        if (fsi_grid_step(g, g->h / (fsi_real)0.8, &r) < 0)
            return -1;
        share[0] += g->stats.seconds_advect / count;
        share[1] += g->stats.seconds_forces / count;
        share[2] += g->stats.seconds_project / count;
        *iterations += (double)r.iterations / count;
    }
    return (now() - t0) / count;
}

/* A developed plume: forty steps on a grid half as fine, carried over. */
static fsi_vec3 coarse_velocity(fsi_vec3 x, double t, void *user) {
    (void)t;
    return fsi_grid_velocity_at((const fsi_grid *)user, x);
}

static fsi_real coarse_density(fsi_vec3 x, void *user) {
    return fsi_grid_field_at((const fsi_grid *)user, FSI_FIELD_DENSITY, x);
}

static fsi_real coarse_temperature(fsi_vec3 x, void *user) {
    return fsi_grid_field_at((const fsi_grid *)user, FSI_FIELD_TEMPERATURE, x);
}

static void develop(fsi_grid *g, fsi_grid *coarse) {
    double share[3], its;
    if (!coarse->steps)
        steps(coarse, 40, share, &its);
    fsi_grid_set_velocity(g, coarse_velocity, coarse);
    fsi_grid_set_field(g, FSI_FIELD_DENSITY, coarse_density, coarse);
    fsi_grid_set_field(g, FSI_FIELD_TEMPERATURE, coarse_temperature, coarse);
}

/* The shares of a whole smoke step; coarse NULL: the first steps. */
static double smoke_step(int n, int nthreads, fsi_advection mode, const char *label, double base,
                         fsi_grid *coarse, double *advect) {
    double share[3];
    use_threads(nthreads);
    fsi_grid g;
    if (!make_smoke(&g, n, n, n, mode))
        return 0;
    if (coarse)
        develop(&g, coarse);
    double its;
    steps(&g, 2, share, &its);
    double t = steps(&g, 3, share, &its);
    printf("bench smoke_step_%d%s_%dt %.4f s\n", n, label, nthreads, t);
    printf("bench smoke_step_%d%s_%dt_advect %.4f s\n", n, label, nthreads, share[0]);
    printf("bench smoke_step_%d%s_%dt_forces %.4f s\n", n, label, nthreads, share[1]);
    printf("bench smoke_step_%d%s_%dt_project %.4f s\n", n, label, nthreads, share[2]);
    printf("bench smoke_step_%d%s_%dt_iterations %.1f iterations\n", n, label, nthreads, its);
    printf("bench smoke_step_%d%s_%dt_share %.3f x\n", n, label, nthreads,
           (share[0] + share[1]) / share[2]);
    printf("bench advect_%d%s_%dt %.1f ns/cell\n", n, label, nthreads,
           share[0] / (double)g.cells * 1e9);
    if (advect)
        *advect = share[0] / (double)g.cells * 1e9;
    if (nthreads == 1 && !coarse)
        printf("bench smoke_bytes_per_cell %.1f B\n",
               (double)fsi_grid_memory(&g) / (double)g.cells);
    if (base > 0)
        printf("bench smoke_step_%d%s_speedup %.2f x\n", n, label, base / t);
    fsi_grid_free(&g);
    return t;
}

static fsi_real pool(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - (fsi_real)0.4;
}

static void liquid_memory(int n) {
    fsi_grid_desc d;
    memset(&d, 0, sizeof d);
    d.nx = d.ny = d.nz = n;
    d.h = (fsi_real)(1.0 / n);
    d.rho = 1000;
    d.gravity = fsi_vec(0, (fsi_real)-9.81, 0);
    d.liquid = 1;
    d.particles = -1;
    fsi_grid g;
    if (fsi_grid_init(&g, &d) < 0 || fsi_grid_set_field(&g, FSI_FIELD_PHI, pool, NULL) < 0)
        return;
    double t = now();
    fsi_report r;
    fsi_grid_step(&g, (fsi_real)0.005, &r);
    t = now() - t;
    printf("bench liquid_bytes_per_cell %.1f B\n", (double)fsi_grid_memory(&g) / (double)g.cells);
    printf("bench pool_step_%d %.4f s\n", n, t);
    fsi_grid_free(&g);
}

static void realtime(int nthreads) {
    double share[3];
    use_threads(nthreads);
    fsi_grid g;
    if (!make_smoke(&g, 128, 128, 1, FSI_ADVECT_MACCORMACK))
        return;
    double its;
    steps(&g, 20, share, &its);
    printf("bench smoke_2d_128x128_%dt %.3f ms\n", nthreads, 1e3 * steps(&g, 50, share, &its));
    fsi_grid_free(&g);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128;
    double advect[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (n < 8 || n > 512) {
        fprintf(stderr, "size must be 8..512\n");
        return 2;
    }
    double one = smoke_step(n, 1, FSI_ADVECT_MACCORMACK, "", 0, NULL, &advect[0]);
    smoke_step(n, 2, FSI_ADVECT_MACCORMACK, "", one, NULL, &advect[1]);
    bench_pair("advect", advect[0], advect[1], "ns/cell");
    fsi_grid coarse;
    if (make_smoke(&coarse, n / 2, n / 2, n / 2, FSI_ADVECT_MACCORMACK)) {
        one = smoke_step(n, 1, FSI_ADVECT_MACCORMACK, "_plume", 0, &coarse, NULL);
        smoke_step(n, 2, FSI_ADVECT_MACCORMACK, "_plume", one, &coarse, NULL);
        fsi_grid_free(&coarse);
    }
    smoke_step(n, 1, FSI_ADVECT_LINEAR, "_linear", 0, NULL, NULL);
    liquid_memory(n < 96 ? n : 96);
    realtime(1);
    realtime(2);
    return 0;
}
