/* realtime.h: what realtime_pool, realtime_tank and their benchmark share: bodies in a tank of
   water, one of them pulled about by a scripted mouse, stepped within a time budget, and the
   statistics of the frame times. */
#ifndef REALTIME_H
#define REALTIME_H
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RT_BODIES = 10,
    RT_SHAPES = 3,
    RT_FRAMES = 100000
};

typedef struct rt_scene {
    fsi_world w;
    fsi_shape shape[RT_SHAPES];
    int bodies, id[RT_BODIES];
    double (*clock_fn)(void *user);
    double width, level, dt; /* of the tank, m; s */
    /* simulated, s; of a whole step, s (0 = none); what the last steps took besides the solve, s */
    double time, budget, rest;
    double iterations, total; /* sums over the steps: linear iterations, s */
    double *frame;            /* [steps] s */
    int steps, late;          /* steps done; solves that the budget ended */
} rt_scene;

static fsi_real rt_water(fsi_vec3 x, void *user) {
    return x.y - ((rt_scene *)user)->level;
}

static void rt_end(rt_scene *s) {
    fsi_world_free(&s->w);

    for (int i = 0; i < RT_SHAPES; i++)
        fsi_shape_free(&s->shape[i]);
    free(s->frame);
    s->frame = NULL;
}

/* The tank: a square of size x size cells with ten bodies, or a cube of size^3 with five. What a
   user who wants speed chooses: pressure to 1e-3, started from the step before, few markers; volume
   correction takes back what that lets drift. Area fractions are not only smoother but cheaper: the
   flow goes on into closed solids, and no ray has to be sent past them (on one core voxel faces
   took 15 ms instead of 12, in 3D 209 instead of 132). 0 on failure. */
static int rt_begin(rt_scene *s, int dim, int size, double dt, double tolerance, int particles,
                    double budget, double (*clock_fn)(void *user)) {
    static const double density[RT_BODIES] = {0.4, 0.2, 0.6, 3, 0.5, 0.8, 0.3, 2, 0.15, 0.7};

    double side = dim == 2 ? 4 : 2;
    double r = (dim == 2 ? 0.0425 : 0.085) * side;
    memset(s, 0, sizeof *s);
    s->width = side;
    s->level = 0.45 * s->width;
    s->dt = dt;
    s->budget = budget;
    s->clock_fn = clock_fn;
    s->bodies = dim == 2 ? RT_BODIES : 5;

    fsi_world_desc desc = {
        .grid.nx = size,
        .grid.ny = size,
        .grid.nz = dim == 3 ? size : 1,
        .grid.h = s->width / size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.volume_correction = 1,
        .grid.particles = particles,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = FSI_BOUNDARY_CUT,
        .couple.tolerance = tolerance,
        .couple.warm_start = 1,
        .couple.clock_fn = clock_fn,
        .max_bodies = s->bodies,
    };

    fsi_shape_desc sd = {
        .dim = dim,
        .radius = r,
        .resolution = 16,
    };

    s->frame = (double *)malloc(RT_FRAMES * sizeof *s->frame);

    if (!s->frame || fsi_world_init(&s->w, &desc) != FSI_OK) {
        rt_end(s);
        return 0;
    }

    for (int i = 0; i < RT_SHAPES; i++) {
        sd.kind = i == 0 ? FSI_SHAPE_SPHERE : i == 1 ? FSI_SHAPE_BOX : FSI_SHAPE_CAPSULE;
        sd.half = fsi_vec(1.3 * r, 0.8 * r, r);
        if (i == 2) {
            sd.radius = 0.7 * r;
            sd.length = 1.6 * r;
        }

        if (fsi_shape_init(&s->shape[i], &sd) != FSI_OK) {
            rt_end(s);
            return 0;
        }
    }

    for (int i = 0; i < s->bodies; i++) {
        double x = dim == 2 ? 0.1 + 0.2 * (i % 5) : 0.22 + 0.28 * (i % 3);
        double y = dim == 2 ? 0.55 + 0.17 * (i / 5) : 0.6 + 0.27 * (i / 3);
        fsi_rigid_desc given = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &s->shape[i % RT_SHAPES],
            .density = 1000 * density[i],
            .friction = 0.2,
            .x = fsi_vec(side * x, side * y, dim == 3 ? side * (0.35 + 0.3 * (i % 2)) : 0),
        };

        s->id[i] = fsi_world_add(&s->w, &given);
        if (s->id[i] < 0) {
            rt_end(s);
            return 0;
        }
    }

    fsi_grid_set_field(&s->w.grid, FSI_FIELD_PHI, rt_water, s);
    fsi_grid_classify(&s->w.grid);
    return 1;
}

/* Where the mouse is: it sweeps through the tank and dips in and out of the water. */
static fsi_vec3 rt_mouse(const rt_scene *s, double t) {
    double c = s->width / 2;
    double z = s->w.grid.dim == 3 ? c + 0.25 * s->width * sin(0.9 * t) : 0;
    return fsi_vec(c - 0.32 * s->width * cos(1.5 * t), s->level + 0.16 * s->width * sin(2.4 * t),
                   z);
}

/* One frame: a spring from the first body to the mouse, the solve's share of the budget, the whole
 * coupled step, its time. */
static fsi_result rt_step(rt_scene *s) {
    fsi_rigid *body = &s->w.solids.body[s->id[0]];
    fsi_vec3 pull = fsi_vec_sub(rt_mouse(s, s->time), body->x);
    double start = s->clock_fn(NULL);

    /* 80 1/s^2, damped with 10 1/s */
    body->force = fsi_vec_add(
        body->force, fsi_vec_scale(fsi_vec_sub(fsi_vec_scale(pull, 80), fsi_vec_scale(body->v, 10)),
                                   body->mass));
    if (s->budget > 0)
        s->w.couple.desc.seconds = s->budget > 1.25 * s->rest ? s->budget - s->rest : s->budget / 5;
    fsi_report report;
    fsi_result result = fsi_world_step(&s->w, s->dt, &report);
    double spent = s->clock_fn(NULL) - start;
    if (result < 0)
        return result;
    double rest = spent - s->w.couple.report.seconds;

    /* rises at once, falls slowly */
    s->rest = rest > s->rest ? rest : 0.9 * s->rest + 0.1 * rest;
    s->late += s->w.couple.report.reason == FSI_NOT_CONVERGED;
    s->iterations += report.iterations;
    if (s->steps < RT_FRAMES)
        s->frame[s->steps] = spent;
    s->total += spent;
    s->time += s->dt;
    s->steps++;
    return result;
}

/* ms */
static double rt_mean(const rt_scene *s) {
    return s->steps ? 1e3 * s->total / s->steps : 0;
}

#ifdef COMMON_H
static int rt_order(const void *a, const void *b) {
    return *(const double *)a > *(const double *)b   ? 1
           : *(const double *)a < *(const double *)b ? -1
                                                     : 0;
}

/* The time within which a part of the frames was done, ms: 0.5 the median, 1 the worst. Sorts the
 * list. */
static double rt_within(rt_scene *s, double part) {
    int n = s->steps < RT_FRAMES ? s->steps : RT_FRAMES;
    int k = (int)ceil(part * n) - 1;
    if (n < 1)
        return 0;
    qsort(s->frame, (size_t)n, sizeof *s->frame, rt_order);
    return 1e3 * s->frame[k < 0 ? 0 : k];
}

static void rt_print(rt_scene *s, double volume_error) {
    ex_result("mean_ms", "%.3f", rt_mean(s));
    ex_result("p95_ms", "%.3f", rt_within(s, 0.95));
    ex_result("worst_ms", "%.3f", rt_within(s, 1));
    ex_result("steps_per_second", "%.2f", s->total > 0 ? s->steps / s->total : 0.0);

    /* simulated over spent: 1 and more keeps up with the clock */
    ex_result("real_time", "%.3f", s->total > 0 ? s->time / s->total : 0.0);
    ex_result("cut_short", "%d", s->late);
    ex_result("iterations", "%.2f", s->iterations / (s->steps ? s->steps : 1));
    ex_result("volume_error", "%.6f", volume_error);
}

/* All frames, two steps each, drawn when asked for, and the result lines; returns main's status.
 * Keys: dt, budget, tolerance, particles. */
static int rt_run(ex_args *a, int dim, void (*draw)(ex_args *a, rt_scene *s)) {
    static rt_scene s;
    int stable = 1;
    if (!rt_begin(&s, dim, a->size, ex_number(a, "dt"), ex_number(a, "tolerance"),
                  (int)ex_number(a, "particles"), 1e-3 * ex_number(a, "budget"), ex_clock))
        return 1;
    double volume0 = s.w.grid.stats.liquid_volume;
    int i;

    for (int frame = 0; frame < a->frames && stable; frame++) {
        for (i = 0; i < 2 && stable; i++) {
            fsi_result result = rt_step(&s);
            if (result < 0) {
                stable = 0;
                fprintf(stderr, "step %d: %s\n", s.steps, fsi_result_text(result));
            }
        }

        if (a->out)
            draw(a, &s);
        ex_progress(a, frame);
    }

    rt_print(&s, (s.w.grid.stats.liquid_volume - volume0) / volume0);
    i = s.steps;
    rt_end(&s);
    return ex_end(a, i, stable);
}
#endif
#endif
