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
    RT_FRAMES = 100000 /* whose times are kept */
};

/* What a user chooses. */
typedef struct rt_desc {
    int dim;
    int size; /* cells along a side */
    double dt;
    double tolerance; /* of the pressure, relative */
    int particles;    /* markers per cell side, -1 = none */
    double budget;    /* of a whole step, s; 0 = none */
    double (*clock_fn)(void *user);
} rt_desc;

typedef struct rt_scene {
    fsi_world world;
    fsi_shape shape[RT_SHAPES];
    rt_desc desc;
    int bodies;
    int id[RT_BODIES];
    double width, level; /* of the tank, of the water, m */

    double time; /* simulated, s */
    double rest; /* what the last steps took besides the solve, s */
    int steps;
    int late;                   /* solves that the budget ended */
    double iterations, seconds; /* sums over the steps */
    double *frame;              /* [RT_FRAMES] s */
} rt_scene;

static fsi_real rt_water(fsi_vec3 x, void *user) {
    return x.y - ((rt_scene *)user)->level;
}

static void rt_end(rt_scene *scene) {
    fsi_world_free(&scene->world);
    for (int i = 0; i < RT_SHAPES; i++)
        fsi_shape_free(&scene->shape[i]);
    free(scene->frame);
    scene->frame = NULL;
}

/* The tank. What a user who wants speed chooses: pressure to 1e-3, started from the step before,
   few markers; the volume correction takes back what that lets drift. */
static fsi_result rt_tank(rt_scene *scene) {
    const rt_desc *given = &scene->desc;
    fsi_world_desc desc = {
        .grid.nx = given->size,
        .grid.ny = given->size,
        .grid.nz = given->dim == 3 ? given->size : 1,
        .grid.h = scene->width / given->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.particles = given->particles,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.tolerance = given->tolerance,
        .couple.warm_start = 1,
        .couple.clock_fn = given->clock_fn,
        .max_bodies = scene->bodies,
    };
    return fsi_world_init(&scene->world, &desc);
}

/* A ball, a box and a capsule. */
static fsi_result rt_shapes(rt_scene *scene, double radius) {
    int dim = scene->desc.dim;
    fsi_shape_desc ball = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = dim,
        .radius = radius,
        .resolution = 16,
    };
    fsi_shape_desc box = {
        .kind = FSI_SHAPE_BOX,
        .dim = dim,
        .half = fsi_vec(1.3 * radius, 0.8 * radius, radius),
    };
    fsi_shape_desc capsule = {
        .kind = FSI_SHAPE_CAPSULE,
        .dim = dim,
        .radius = 0.7 * radius,
        .length = 1.6 * radius,
        .resolution = 16,
    };
    fsi_result result = fsi_shape_init(&scene->shape[0], &ball);
    if (result >= 0)
        result = fsi_shape_init(&scene->shape[1], &box);
    if (result >= 0)
        result = fsi_shape_init(&scene->shape[2], &capsule);
    return result;
}

/* Body i in rows above the water, of the three shapes in turn; returns its id. */
static int rt_body(rt_scene *scene, int i) {
    static const double density[RT_BODIES] = {0.4, 0.2, 0.6, 3, 0.5, 0.8, 0.3, 2, 0.15, 0.7};
    int flat = scene->desc.dim == 2;
    double x = flat ? 0.1 + 0.2 * (i % 5) : 0.22 + 0.28 * (i % 3);
    double y = flat ? 0.55 + 0.17 * (i / 5) : 0.6 + 0.27 * (i / 3);
    double z = flat ? 0 : 0.35 + 0.3 * (i % 2);
    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &scene->shape[i % RT_SHAPES],
        .density = 1000 * density[i],
        .friction = 0.2,
        .x = fsi_vec(scene->width * x, scene->width * y, scene->width * z),
    };
    return fsi_world_add(&scene->world, &desc);
}

/* A square of 4 m with ten bodies, or a cube of 2 m with five. 0 on failure. */
static int rt_begin(rt_scene *scene, const rt_desc *desc) {
    int flat = desc->dim == 2;
    memset(scene, 0, sizeof *scene);
    scene->desc = *desc;
    scene->width = flat ? 4 : 2;
    scene->level = 0.45 * scene->width;
    scene->bodies = flat ? RT_BODIES : 5;
    scene->frame = (double *)malloc(RT_FRAMES * sizeof *scene->frame);

    double radius = (flat ? 0.0425 : 0.085) * scene->width;
    int ok = scene->frame && rt_tank(scene) == FSI_OK && rt_shapes(scene, radius) == FSI_OK;
    for (int i = 0; i < scene->bodies && ok; i++) {
        scene->id[i] = rt_body(scene, i);
        ok = scene->id[i] >= 0;
    }

    if (!ok) {
        rt_end(scene);
        return 0;
    }

    fsi_grid_set_field(&scene->world.grid, FSI_FIELD_PHI, rt_water, scene);
    fsi_grid_classify(&scene->world.grid);
    return 1;
}

/* Where the mouse is: it sweeps through the tank and dips in and out of the water. */
static fsi_vec3 rt_mouse(const rt_scene *scene) {
    double time = scene->time;
    double middle = scene->width / 2;
    double x = middle - 0.32 * scene->width * cos(1.5 * time);
    double y = scene->level + 0.16 * scene->width * sin(2.4 * time);
    double z = middle + 0.25 * scene->width * sin(0.9 * time);
    return fsi_vec(x, y, scene->desc.dim == 3 ? z : 0);
}

/* A spring of 80 1/s^2 from the first body to the mouse, damped with 10 1/s. */
static void rt_pull(rt_scene *scene) {
    fsi_rigid *body = &scene->world.solids.body[scene->id[0]];
    fsi_vec3 spring = fsi_vec_scale(fsi_vec_sub(rt_mouse(scene), body->x), 80);
    fsi_vec3 acceleration = fsi_vec_sub(spring, fsi_vec_scale(body->v, 10));
    body->force = fsi_vec_add(body->force, fsi_vec_scale(acceleration, body->mass));
}

/* One whole coupled step and its time. The solve gets what the rest of a step leaves of the
   budget, at least a fifth. */
static fsi_result rt_step(rt_scene *scene) {
    double budget = scene->desc.budget;
    double start = scene->desc.clock_fn(NULL);
    rt_pull(scene);
    if (budget > 0) {
        int enough = budget > 1.25 * scene->rest;
        scene->world.couple.desc.seconds = enough ? budget - scene->rest : budget / 5;
    }

    fsi_report report;
    fsi_result result = fsi_world_step(&scene->world, scene->desc.dt, &report);
    double spent = scene->desc.clock_fn(NULL) - start;
    if (result < 0)
        return result;

    /* What a step takes besides the solve rises at once and falls slowly. */
    double rest = spent - scene->world.couple.report.seconds;
    scene->rest = rest > scene->rest ? rest : 0.9 * scene->rest + 0.1 * rest;

    scene->late += scene->world.couple.report.reason == FSI_NOT_CONVERGED;
    scene->iterations += report.iterations;
    if (scene->steps < RT_FRAMES)
        scene->frame[scene->steps] = spent;
    scene->seconds += spent;
    scene->time += scene->desc.dt;
    scene->steps++;
    return result;
}

/* Mean time of a step, ms. */
static double rt_mean(const rt_scene *scene) {
    return scene->steps ? 1e3 * scene->seconds / scene->steps : 0;
}

/* ------------------------------------------------------------------------------------------------
 * the examples: what the benchmark does not need */
#ifdef COMMON_H
#define RT_KEYS(dt, budget)                                                                        \
    EX_NUMBER("dt", "s", "time step", dt, "1e-4 to 0.1"),                                          \
        EX_NUMBER("budget", "ms", "for a whole step, 0 = none", budget, "0 to 1e4"),               \
        EX_NUMBER("tolerance", "", "of the pressure, relative", "1e-3", "1e-10 to 0.5"),           \
        EX_NUMBER("particles", "", "markers per cell side, -1 = none", "2", "-1 to 8")

static int rt_order(const void *first, const void *second) {
    double a = *(const double *)first;
    double b = *(const double *)second;
    return (a > b) - (a < b);
}

/* The time within which a part of the frames was done, ms: 0.5 the median, 1 the worst. Sorts the
   list. */
static double rt_within(rt_scene *scene, double part) {
    int count = scene->steps < RT_FRAMES ? scene->steps : RT_FRAMES;
    int place = (int)ceil(part * count) - 1;
    if (count < 1)
        return 0;
    qsort(scene->frame, (size_t)count, sizeof *scene->frame, rt_order);
    return 1e3 * scene->frame[place < 0 ? 0 : place];
}

static void rt_results(rt_scene *scene, double volume_error) {
    double seconds = scene->seconds;
    int steps = scene->steps;
    ex_result("mean_ms", "%.3f", rt_mean(scene));
    ex_result("p95_ms", "%.3f", rt_within(scene, 0.95));
    ex_result("worst_ms", "%.3f", rt_within(scene, 1));
    ex_result("steps_per_second", "%.2f", seconds > 0 ? steps / seconds : 0.0);

    /* Simulated over spent: 1 and more keeps up with the clock. */
    ex_result("real_time", "%.3f", seconds > 0 ? scene->time / seconds : 0.0);
    ex_result("cut_short", "%d", scene->late);
    ex_result("iterations", "%.2f", scene->iterations / (steps ? steps : 1));
    ex_result("volume_error", "%.6f", volume_error);
}

/* The body that is pulled is red. */
static ex_color rt_color(int i, double step) {
    return i ? ex_map(EX_HEAT, 0.3 + step * i) : ex_rgb(215, 60, 60);
}

/* Time and speed in the picture's corner. */
static void rt_caption(ex_image *image, const rt_scene *scene, int at) {
    char text[64];
    snprintf(text, sizeof text, "%.2f s  %.1f ms a step", scene->time, rt_mean(scene));
    ex_text(image, at, at, 2, ex_grey(60), text);
}

/* All frames, two steps each, drawn when asked for, and the result lines; returns main's status. */
static int rt_run(ex_args *args, int dim, void (*draw)(ex_args *args, const rt_scene *scene)) {
    static rt_scene scene;
    rt_desc desc = {
        .dim = dim,
        .size = args->size,
        .dt = ex_number(args, "dt"),
        .tolerance = ex_number(args, "tolerance"),
        .particles = ex_whole(args, "particles"),
        .budget = 1e-3 * ex_number(args, "budget"),
        .clock_fn = ex_clock,
    };
    if (!rt_begin(&scene, &desc))
        return 1;

    double volume_at_first = scene.world.grid.stats.liquid_volume;
    for (int frame = 0; frame < args->frames && ex_fine(); frame++) {
        for (int i = 0; i < 2; i++)
            ex_try(rt_step(&scene));
        if (args->out)
            draw(args, &scene);
        ex_progress(args, frame);
    }

    double volume = scene.world.grid.stats.liquid_volume;
    rt_results(&scene, (volume - volume_at_first) / volume_at_first);
    rt_end(&scene);
    return ex_end(args, scene.steps, ex_fine());
}
#endif
#endif
