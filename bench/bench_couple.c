/* The coupled solve beside the fluid alone: seconds, iterations, ratio; against IC on the full
   system where that ends in reasonable time. cc -O3 -march=native -fopenmp -I. -Itests
   bench/bench_couple.c -lm;  bench_couple [cells along the short side, default 128; 0 = share of
   XPM and the realtime scenes only] */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include <stdio.h>
#include "bench.h"

#include "../examples/realtime.h"

#define MOST 64
static const int32_t quad[8] = {0, 1, 1, 2, 2, 3, 3, 0};
static const int32_t cube[36] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                 2, 3, 7, 2, 7, 6, 1, 2, 6, 1, 6, 5, 3, 0, 4, 3, 4, 7};
static fsi_real x[MOST][24];
static fsi_body body[MOST];
static fsi_coupled door[MOST], *list[MOST];

/* Blocks on a lattice, turned; mixed densities 0.1, 1, 10 (one block: 0.1); held = 1: the fluid
 * alone around them. */
static void place(int dim, int bodies, int held) {
    int per = bodies == 1 ? 1 : bodies <= 12 ? 3 : 5;
    int rows = (bodies + per - 1) / per;
    double half = bodies == 1 ? 0.15 : bodies <= 12 ? 0.08 : 0.045;
    double mix[3] = {0.1, 1, 10};

    for (int k = 0; k < bodies; k++) {
        fsi_surface surface;
        double cx = bodies == 1 ? 0.5 : (k % per + 0.5) / per;
        double cy = bodies == 1 ? 0.8 : 0.2 + 1.6 * (k / per + 0.5) / rows;
        double cz = 0.3 + 0.4 * (k % 2);
        double a = 0.1 + 0.37 * k;
        memset(&surface, 0, sizeof surface);
        memset(&body[k], 0, sizeof body[k]);
        for (int i = 0; i < (dim == 3 ? 8 : 4); i++) {
            double px = i % 4 == 1 || i % 4 == 2 ? half : -half;
            double py = i % 4 >= 2 ? half : -half;
            x[k][3 * i] = (fsi_real)(cx + cos(a) * px - sin(a) * py);
            x[k][3 * i + 1] = (fsi_real)(cy + sin(a) * px + cos(a) * py);
            x[k][3 * i + 2] = (fsi_real)(dim == 3 ? cz + (i >= 4 ? half : -half) : 0);
        }

        surface.dim = dim;
        surface.vertex_count = dim == 3 ? 8 : 4;
        surface.element_count = dim == 3 ? 12 : 4;
        surface.closed = 1;
        surface.x = x[k];
        surface.index = dim == 3 ? cube : quad;
        body[k].mass = held ? 0 : (fsi_real)(pow(2 * half, dim) * (bodies == 1 ? 0.1 : mix[k % 3]));
        for (int i = 0; i < 9; i += 4)
            body[k].inertia.m[i] = body[k].mass * (fsi_real)(half * half * 2 / 3);
        body[k].centre = fsi_vec((fsi_real)cx, (fsi_real)cy, (fsi_real)(dim == 3 ? cz : 0));
        if (!held) {
            body[k].velocity = fsi_vec(FSI_R(0.1), FSI_R(-0.1), 0);
            body[k].spin.z = FSI_R(0.1);
        }

        fsi_body_couple(&body[k], &surface, &door[k]);
        list[k] = &door[k];
    }
}

/* Best of six, of twenty where a solve takes milliseconds and the machine's noise is as long:
 * seconds of interface and solve, iterations. */
static double run(int dim, int n, int bodies, int closed, fsi_couple_solver solver, int held,
                  int *iterations, double *interface_seconds) {
    fsi_grid_desc desc;
    double best = 1e30;
    int many = solver == FSI_COUPLE_FULL ? 1 : dim == 2 ? 20 : 6;
    memset(&desc, 0, sizeof desc);
    fsi_couple_desc cd;
    memset(&cd, 0, sizeof cd);
    desc.nx = n;
    desc.ny = 2 * n;
    desc.nz = dim == 3 ? n : 1;
    desc.h = 1 / (fsi_real)n;
    desc.rho = 1;
    desc.gravity.y = FSI_R(-9.81);
    desc.max_iterations = 5000;

    for (int k = 0; k < 6; k++)
        desc.side[k].kind = closed ? FSI_SIDE_SLIP : FSI_SIDE_OPEN;
    cd.solver = solver;
    cd.precondition = FSI_PRECONDITION_IC;
    fsi_grid grid;

    fsi_couple couple;
    if (fsi_grid_init(&grid, &desc) != FSI_OK || fsi_couple_init(&couple, &grid, &cd) != FSI_OK)
        return -1;

    for (int repeat = 0; repeat < many; repeat++) {
        place(dim, bodies, held);
        for (int k = 0; k < dim; k++)
            fsi_fill(grid.faces[k], 0, grid.u[k]);
        double t = now();
        fsi_couple_detect(&couple, list, bodies);
        if (interface_seconds)
            *interface_seconds = now() - t;
        fsi_grid_forces(&grid, FSI_R(0.01));
        t = now();
        fsi_report report;
        if (fsi_couple_solve(&couple, FSI_R(0.01), &report) < 0)
            return -1;
        t = now() - t;
        if (t < best)
            best = t;
        *iterations = report.iterations;
    }

    fsi_couple_free(&couple);
    fsi_grid_free(&grid);
    return best;
}

/* The scenes of realtime_pool and realtime_tank: mean time of a whole coupled step without a
 * budget, ms; < 0 on failure. */
static double realtime(int dim, int steps) {
    static rt_scene scene;
    rt_desc desc = {
        .dim = dim,
        .size = dim == 2 ? 128 : 48,
        .dt = dim == 2 ? 1.0 / 60 : 0.02,
        .tolerance = 1e-3,
        .particles = 2,
        .clock_fn = now_fn,
    };
    int ok = rt_begin(&scene, &desc);
    while (ok && scene.steps < steps)
        ok = rt_step(&scene) >= 0;
    double ms = ok ? rt_mean(&scene) : -1;
    rt_end(&scene);
    return ms;
}

static void realtime_lines(void) {
    for (int dim = 2; dim <= 3; dim++) {
        const char *name = dim == 2 ? "realtime_2d_128x128" : "realtime_3d_48";
        double ms = 0;
        double one = 0;
        for (int threads = 1; threads <= most_threads(); threads++) {
            use_threads(threads);
            ms = realtime(dim, dim == 2 ? 100 : 20);
            if (threads == 1)
                one = ms;
        }

        bench_pair(name, one, ms, "ms");
    }
}

/* What the partitioned scheme itself costs (XPM table 4): a pool, three balls and a sheet of cloth
   coupled by exchange; share of the steps' time that is neither the fluid's nor the solids', and
   pairs of calls per step. */
enum {
    SHEET = 13
};

static fsi_real pool_water(fsi_vec3 p, void *user) {
    (void)user;
    return p.y - FSI_R(0.45);
}

static int share_cloth(fsi_soft *soft) {
    static fsi_real at[3 * SHEET * SHEET];
    static int32_t triangle[6 * (SHEET - 1) * (SHEET - 1)];
    fsi_soft_desc desc;
    int n = 0;
    memset(&desc, 0, sizeof desc);

    for (int i = 0; i < SHEET * SHEET; i++) {
        const int a = i;
        const int b = i + 1;
        const int e = i + SHEET;
        const int f = e + 1;
        const int q[6] = {a, e, b, b, e, f};
        at[3 * i] = (fsi_real)(1.2 + 0.6 * (i % SHEET) / (SHEET - 1));
        at[3 * i + 1] = FSI_R(0.5);
        at[3 * i + 2] = (fsi_real)(0.2 + 0.6 * (i / SHEET) / (SHEET - 1));
        for (int k = 0; i % SHEET + 1 < SHEET && i / SHEET + 1 < SHEET && k < 6; k++)
            triangle[n++] = q[k];
    }

    desc.dim = 3;
    desc.vertex_count = SHEET * SHEET;
    desc.x = at;
    desc.triangle_count = n / 3;
    desc.triangle = triangle;
    desc.gravity.y = FSI_R(-9.81);
    desc.area_density = FSI_R(12.5);
    desc.stretch = 400;
    desc.stretch_poisson = FSI_R(0.3);
    desc.bend = FSI_R(1e-3);
    desc.damping_stiffness = FSI_R(0.02);
    desc.integrator = FSI_SOFT_IMPLICIT;
    return fsi_soft_init(soft, &desc) == FSI_OK;
}

static void share_lines(void) {
    static fsi_partitioned_scene scene;
    static const double density[3] = {100, 500, 2000};
    fsi_world_desc desc;
    fsi_guest part[4];
    fsi_coupled *doors[4];
    double spent = 0;
    double pairs = 0;
    int steps = 30;
    memset(&desc, 0, sizeof desc);
    fsi_partitioned_desc pd;
    memset(&pd, 0, sizeof pd);
    fsi_shape_desc sd;
    memset(&sd, 0, sizeof sd);
    fsi_soft_responder responder;
    memset(&responder, 0, sizeof responder);
    memset(&scene, 0, sizeof scene);
    desc.grid.nx = 32;
    desc.grid.ny = desc.grid.nz = 16;
    desc.grid.h = FSI_R(0.0625);
    desc.grid.rho = 1000;
    desc.grid.gravity.y = FSI_R(-9.81);
    desc.grid.liquid = desc.grid.shells = 1;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.max_bodies = 3;
    desc.max_guests = 1;
    sd.dim = 3;
    sd.kind = FSI_SHAPE_SPHERE;
    sd.radius = FSI_R(0.11);
    sd.resolution = 20;
    fsi_world world;
    fsi_shape ball;

    fsi_soft soft;
    if (fsi_world_init(&world, &desc) != FSI_OK || fsi_shape_init(&ball, &sd) != FSI_OK
        || !share_cloth(&soft))
        return;
    int i;

    for (i = 0; i < 3; i++) {
        fsi_rigid_desc given;
        memset(&given, 0, sizeof given);
        given.kind = FSI_RIGID_DYNAMIC;
        given.shape = &ball;
        given.density = (fsi_real)density[i];
        given.x = fsi_vec((fsi_real)(0.2 + 0.3 * i), FSI_R(0.5), FSI_R(0.5));
        if (fsi_world_add(&world, &given) < 0)
            return;
    }

    responder.soft = &soft;
    fsi_guest guest = fsi_soft_guest(&responder);
    fsi_world_add_guest(&world, &guest);
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, pool_water, NULL);
    pd.n = pd.m = 6 * 4 + 3 * SHEET * SHEET + 64;
    pd.per_node = 3;
    pd.tolerance = FSI_R(0.05) * desc.grid.h;
    pd.clock_fn = now_fn;

    fsi_partitioned scheme;
    if (fsi_partitioned_init(&scheme, &pd) != FSI_OK)
        return;
    scene.scheme = &scheme;
    scene.list = doors;
    scene.solids.part = part;
    scene.fluid.bpp = 1;
    scene.fluid.tolerance = 1e-6;

    for (i = 0; i < steps; i++) {
        fsi_report report;
        double start = now();
        if (fsi_world_exchange(&world, &scene, FSI_R(0.005), &report) < 0)
            break;
        spent += now() - start;
        pairs += report.iterations;
    }

    if (i == steps) {
        printf(
            "bench xpm_share %.4f x\nbench xpm_fluid_share %.4f x\nbench xpm_solid_share %.4f x\n",
            scheme.seconds[2] / spent, scheme.seconds[0] / spent, scheme.seconds[1] / spent);
        printf("bench xpm_pairs %.2f 1\nbench xpm_step %.3f ms\n", pairs / steps,
               1e3 * spent / steps);
        fflush(stdout);
    }

    fsi_partitioned_scene_free(&scene);
    fsi_partitioned_free(&scheme);
    fsi_soft_responder_free(&responder);
    fsi_soft_free(&soft);
    fsi_world_free(&world);
    fsi_shape_free(&ball);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 128;
    static const int bodies[3] = {1, 12, 50};
    double alone[3] = {0, 0, 0};
    share_lines();
    realtime_lines();
    if (n < 1)
        return 0;

    for (int threads = 1; threads <= most_threads(); threads++) {
        use_threads(threads);
        for (int dim = 2; dim <= 3; dim++)
            for (int closed = 0; closed < 2; closed++)
                for (int b = 0; b < 3; b++) {
                    char name[80];
                    int i0, i1;
                    double detect;
                    double t0 = run(dim, n, bodies[b], closed, FSI_COUPLE_DEFLATED, 1, &i0, NULL);
                    double t1 =
                        run(dim, n, bodies[b], closed, FSI_COUPLE_DEFLATED, 0, &i1, &detect);
                    sprintf(name, "coupled_%s%dx%d_%dbodies_%s_%dthreads",
                            dim == 3 ? (n == 128 ? "128x" : "3d_") : "", n, 2 * n, bodies[b],
                            closed ? "closed" : "open", threads);
                    printf("bench %s %.4f s\nbench %s_fluid %.4f s\nbench %s_iterations %d "
                           "1\nbench %s_fluid_iterations %d 1\n",
                           name, t1, name, t0, name, i1, name, i0);
                    printf("bench %s_ratio %.3f x\nbench %s_interface %.3f x\n", name, t1 / t0,
                           name, detect / t1);
                    fflush(stdout);
                    if (dim == 3 && !closed && threads == 1)
                        alone[b] = t1;
                    if (dim == 3 && !closed && threads == most_threads()) {
                        char plain[80];
                        sprintf(plain, "coupled_%dx%dx%d_%dbodies", n, n, 2 * n, bodies[b]);
                        bench_pair(plain, alone[b], t1, "s");
                        printf("bench %s_iterations %d 1\nbench %s_ratio %.3f x\n", plain, i1,
                               plain, t1 / t0);
                    }
                    if (b == 0 && !closed && threads == 1) {
                        double t2 = run(dim, n, 1, 0, FSI_COUPLE_FULL, 0, &i1, NULL);
                        printf("bench %s_ic %.4f s\nbench %s_ic_iterations %d 1\nbench "
                               "%s_faster_than_ic %.1f x\n",
                               name, t2, name, i1, name, t2 / t1);
                    }
                }
    }

    return 0;
}
