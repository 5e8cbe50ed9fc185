/* Benchmarks of fsi_grid.h: advection, the shares of a smoke step, bytes per cell, a real-time 2D
   step. bench NAME VALUE UNIT. Optional argument: cells along a side (default 128). */
#include "fsi_grid.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

static int make_smoke(fsi_grid *grid, int nx, int ny, int nz, fsi_advection mode) {
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = nx;
    desc.ny = ny;
    desc.nz = nz;
    desc.h = (fsi_real)(1.0 / nx);
    desc.rho = 1;
    desc.smoke = 1;
    desc.buoyancy_temperature = 4;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.advect_velocity = desc.advect_density = desc.advect_temperature = mode;

    if (fsi_grid_init(grid, &desc) < 0)
        return 0;
    fsi_grid_source source;
    memset(&source, 0, sizeof source);
    source.shape = FSI_SOURCE_SPHERE;
    source.centre =
        fsi_vec((fsi_real)0.5, (fsi_real)(0.2 * ny / nx), nz > 1 ? (fsi_real)(0.5 * nz / nx) : 0);
    source.radius = (fsi_real)0.12;
    source.set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY;
    source.density = 1;
    source.temperature = 1;
    source.velocity = fsi_vec(0, (fsi_real)0.8, 0);
    grid->clock_fn = now_fn;
    return fsi_grid_add_source(grid, &source) >= 0;
}

/* A few steps of a rising plume at one cell per step and more; returns seconds per step, shares
 * through the stats. */
static double steps(fsi_grid *grid, int count, double share[3], double *iterations) {
    double t0 = now();
    share[0] = share[1] = share[2] = *iterations = 0;

    for (int i = 0; i < count; i++) {
        fsi_report report;
        if (fsi_grid_step(grid, grid->h / (fsi_real)0.8, &report) < 0)
            return -1;
        share[0] += grid->stats.seconds_advect / count;
        share[1] += grid->stats.seconds_forces / count;
        share[2] += grid->stats.seconds_project / count;
        *iterations += (double)report.iterations / count;
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

static void develop(fsi_grid *grid, fsi_grid *coarse) {
    double share[3], its;
    if (!coarse->steps)
        steps(coarse, 40, share, &its);
    fsi_grid_set_velocity(grid, coarse_velocity, coarse);
    fsi_grid_set_field(grid, FSI_FIELD_DENSITY, coarse_density, coarse);
    fsi_grid_set_field(grid, FSI_FIELD_TEMPERATURE, coarse_temperature, coarse);
}

/* The shares of a whole smoke step; coarse NULL: the first steps. */
static double smoke_step(int n, int nthreads, fsi_advection mode, const char *label, double base,
                         fsi_grid *coarse, double *advect) {
    double share[3];
    use_threads(nthreads);
    fsi_grid grid;
    if (!make_smoke(&grid, n, n, n, mode))
        return 0;
    if (coarse)
        develop(&grid, coarse);
    double its;
    steps(&grid, 2, share, &its);
    double t = steps(&grid, 3, share, &its);
    printf("bench smoke_step_%d%s_%dt %.4f s\n", n, label, nthreads, t);
    printf("bench smoke_step_%d%s_%dt_advect %.4f s\n", n, label, nthreads, share[0]);
    printf("bench smoke_step_%d%s_%dt_forces %.4f s\n", n, label, nthreads, share[1]);
    printf("bench smoke_step_%d%s_%dt_project %.4f s\n", n, label, nthreads, share[2]);
    printf("bench smoke_step_%d%s_%dt_iterations %.1f iterations\n", n, label, nthreads, its);
    printf("bench smoke_step_%d%s_%dt_share %.3f x\n", n, label, nthreads,
           (share[0] + share[1]) / share[2]);
    printf("bench advect_%d%s_%dt %.1f ns/cell\n", n, label, nthreads,
           share[0] / (double)grid.cells * 1e9);
    if (advect)
        *advect = share[0] / (double)grid.cells * 1e9;
    if (nthreads == 1 && !coarse)
        printf("bench smoke_bytes_per_cell %.1f B\n",
               (double)fsi_grid_memory(&grid) / (double)grid.cells);
    if (base > 0)
        printf("bench smoke_step_%d%s_speedup %.2f x\n", n, label, base / t);
    fsi_grid_free(&grid);
    return t;
}

static fsi_real pool(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - (fsi_real)0.4;
}

static void liquid_memory(int n) {
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = desc.ny = desc.nz = n;
    desc.h = (fsi_real)(1.0 / n);
    desc.rho = 1000;
    desc.gravity = fsi_vec(0, (fsi_real)-9.81, 0);
    desc.liquid = 1;
    desc.particles = -1;

    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) < 0 || fsi_grid_set_field(&grid, FSI_FIELD_PHI, pool, NULL) < 0)
        return;
    double t = now();
    fsi_report report;
    fsi_grid_step(&grid, (fsi_real)0.005, &report);
    t = now() - t;
    printf("bench liquid_bytes_per_cell %.1f B\n",
           (double)fsi_grid_memory(&grid) / (double)grid.cells);
    printf("bench pool_step_%d %.4f s\n", n, t);
    fsi_grid_free(&grid);
}

static void realtime(int nthreads) {
    double share[3];
    use_threads(nthreads);
    fsi_grid grid;
    if (!make_smoke(&grid, 128, 128, 1, FSI_ADVECT_MACCORMACK))
        return;
    double its;
    steps(&grid, 20, share, &its);
    printf("bench smoke_2d_128x128_%dt %.3f ms\n", nthreads, 1e3 * steps(&grid, 50, share, &its));
    fsi_grid_free(&grid);
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
