/* Slip beside the monolithic no-slip step in one run, and the solvers of the two-way system:
   seconds, iterations, ratios. cc -O3 -march=native -fopenmp -I. bench/bench_slip.c -lm; bench_slip
   [cells along a side, default 128] */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

enum {
    ROUND = 200,
    ROUNDS = 6
};

static fsi_real x[3 * ROUND];
static int32_t segment[2 * ROUND];

static fsi_surface disk(void) {
    fsi_surface surface;
    memset(&surface, 0, sizeof surface);

    for (int i = 0; i < ROUND; i++) {
        double t = 2 * acos(-1.0) * i / ROUND;
        x[3 * i] = (fsi_real)(0.5 + 0.15 * cos(t));
        x[3 * i + 1] = (fsi_real)(0.5 + 0.15 * sin(t));
        segment[2 * i] = i;
        segment[2 * i + 1] = (i + 1) % ROUND;
    }

    surface.dim = 2;
    surface.closed = 1;
    surface.vertex_count = surface.element_count = ROUND;
    surface.x = x;
    surface.index = segment;
    return surface;
}

static int grid_make(fsi_grid *grid, int n) {
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = desc.ny = n;
    desc.nz = 1;
    desc.h = 1 / (fsi_real)n;
    desc.rho = 1;
    desc.gravity.y = -1;
    desc.shells = 1;
    desc.side[FSI_LEFT].kind = FSI_SIDE_INFLOW;
    desc.side[FSI_LEFT].velocity.x = 1;
    desc.side[FSI_RIGHT].kind = FSI_SIDE_OPEN;

    if (fsi_grid_init(grid, &desc) != FSI_OK)
        return 0;

    for (size_t i = 0; i < grid->faces[0]; i++)
        grid->u[0][i] = grid->u_plus[0][i] = 1;
    return 1;
}

static void give(fsi_body *body, const fsi_surface *surface, fsi_coupled *door) {
    memset(body, 0, sizeof *body);
    body->mass = FSI_R(0.2);
    body->inertia.m[0] = body->inertia.m[4] = body->inertia.m[8] = FSI_R(0.003);
    body->centre = fsi_vec(FSI_R(0.5), FSI_R(0.5), 0);
    if (fsi_body_couple(body, surface, door) != FSI_OK)
        exit(1);
}

/* Whole steps of a free disk in a stream, interleaved; the shortest of each. */
static void steps(int n) {
    static fsi_grid grid[3];
    static fsi_couple couple;
    static fsi_slip slip[2];
    fsi_surface surface = disk();
    fsi_body body[3];
    fsi_coupled door[3], *list[3];
    fsi_scene scene[3];
    double best[3] = {1e30, 1e30, 1e30};
    int its[3] = {0, 0, 0};
    memset(scene, 0, sizeof scene);

    for (int k = 0; k < 3; k++) {
        fsi_slip_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.passes = k == 1 ? 1 : 3;
        list[k] = &door[k];
        scene[k].solid = list + k;
        scene[k].count = 1;
        if (!grid_make(&grid[k], n)
            || (k ? fsi_slip_init(&slip[k - 1], &grid[k], &desc)
                  : fsi_couple_init(&couple, &grid[0], NULL))
                   != FSI_OK)
            exit(1);
    }

    for (int round = 0; round < ROUNDS; round++)
        for (int k = 0; k < 3; k++) {
            give(&body[k], &surface, &door[k]);
            double t = now();
            fsi_report report;
            if ((k ? fsi_slip_step(&slip[k - 1], &scene[k], FSI_R(0.5) / (fsi_real)n, &report)
                   : fsi_couple_step(&couple, &scene[0], FSI_R(0.5) / (fsi_real)n, &report))
                < 0)
                exit(1);
            t = now() - t;
            if (t < best[k])
                best[k] = t;
            its[k] = report.iterations;
        }
    printf("bench slip_step_%d %.5f s\nbench slip_step_%d_one_pass %.5f s\nbench "
           "slip_step_%d_monolithic_noslip %.5f s\n",
           n, best[2], n, best[1], n, best[0]);
    printf("bench slip_step_%d_iterations %d 1\nbench slip_step_%d_monolithic_iterations %d 1\n", n,
           its[2], n, its[0]);
    printf(
        "bench slip_step_%d_over_noslip %.3f x\nbench slip_step_%d_one_pass_over_noslip %.3f x\n",
        n, best[2] / best[0], n, best[1] / best[0]);

    for (int k = 0; k < 3; k++) {
        if (k)
            fsi_slip_free(&slip[k - 1]);
        else
            fsi_couple_free(&couple);
        fsi_grid_free(&grid[k]);
    }
}

/* One solve of the same two-way system, both forms, by CG and by SYMMQMR; and how far apart the
 * answers are. */
static void solvers(int n, int form) {
    static const char *const name[2] = {"repaired", "paper"};
    fsi_surface surface = disk();
    double t[2];
    double worst = 0;
    fsi_real v[2][6];
    int its[2];

    for (int k = 0; k < 2; k++) {
        fsi_coupled door, *list[1];
        list[0] = &door;
        fsi_slip_desc desc;
        memset(&desc, 0, sizeof desc);
        desc.form = (fsi_slip_form)form;
        desc.solver = k ? FSI_SLIP_INDEFINITE : FSI_SLIP_CG;
        desc.passes = 1;
        desc.tolerance = sizeof(fsi_real) == 8 ? 1e-11 : 1e-5;
        fsi_body body;
        give(&body, &surface, &door);
        fsi_grid grid;
        fsi_slip slip;
        if (!grid_make(&grid, n) || fsi_slip_init(&slip, &grid, &desc) != FSI_OK
            || fsi_slip_detect(&slip, list, 1) < 0)
            exit(1);
        t[k] = now();
        fsi_report report;
        if (fsi_slip_solve(&slip, FSI_R(0.01), &report) < 0)
            exit(1);
        t[k] = now() - t[k];
        its[k] = report.iterations;
        memcpy(v[k], door.v, sizeof v[k]);
        fsi_slip_free(&slip);
        fsi_grid_free(&grid);
    }

    for (int i = 0; i < 6; i++)
        if (fabs((double)(v[0][i] - v[1][i])) > worst)
            worst = fabs((double)(v[0][i] - v[1][i]));
    printf("bench slip_%s_%d_cg %.5f s\nbench slip_%s_%d_cg_iterations %d 1\n", name[form], n, t[0],
           name[form], n, its[0]);
    printf("bench slip_%s_%d_symmqmr %.5f s\nbench slip_%s_%d_symmqmr_iterations %d 1\nbench "
           "slip_%s_%d_differ %.2e 1\n",
           name[form], n, t[1], name[form], n, its[1], name[form], n, worst);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128;
    if (n < 16)
        return 2;
    steps(n);
    solvers(n, FSI_SLIP_REPAIRED);
    solvers(n, FSI_SLIP_PAPER);
    return 0;
}
