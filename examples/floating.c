/* floating: how a body floats, beside theory. Two-dimensional, in a tank with a beach at its ends.
   case=heave: a half-immersed cylinder is lifted by a third of its radius and let go (Ursell's
   added mass and damping in Cummins' equation: zeros 2.05 and 5.76 sqrt(R / g), lowest at -0.639).
   case=roll: a barge pinned at its centre is tilted by 15 degrees and let go. case=waves: a piston
   makes waves (Biesel's theory). case=stability: a box of half the water's density, tilted by 5
   degrees, comes to rest; wider than 1.225 of its height it stays upright.

       build/floating --out out
       build/floating --set case=waves
       build/floating --set case=stability --set breadth=1.15

   Result: heave: zero_1, zero_2, minimum. roll: period. waves: height, wavenumber and what theory
   says. stability: angle in degrees. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"
#include "published.h"

enum {
    GAUGES = 3,
    TRACE = 8192
};

static const double gravity = 9.81;
static const double pi = 3.14159265358979;

/* The tank, what is in it, and how long it runs. */
typedef struct scene {
    double width, depth, height; /* of the tank; depth of the water, m */
    double h;                    /* m */
    double beach;                /* length of the beach at both ends, m; 0 = none */
    double end;                  /* s */
    double longest_dt;           /* s */
    double damping;              /* 1/s, to come to rest */
    fsi_shape_desc form;
    fsi_rigid_desc body;
    int pinned; /* 1: the body turns about its centre */
} scene;

/* What was recorded of the body in every step. */
typedef struct trace {
    int count;
    double time[TRACE];
    double value[TRACE];
} trace;

/* ---- the four cases */
/* A cylinder that floats half under water, lifted. */
static scene heave_scene(int cells) {
    double radius = 0.0762;
    scene made = {
        .width = 3,
        .depth = 0.6,
        .height = 0.6 + 3 * radius,
        .h = 2 * radius / cells,
        .beach = 0.6,
        .end = 6.6 * sqrt(radius / gravity),
        .longest_dt = 0.005,
        .form = {.kind = FSI_SHAPE_SPHERE, .dim = 2, .radius = radius, .resolution = 96},
        .body = {.density = 500, .x = fsi_vec(1.5, 0.6 + radius / 3, 0)},
    };
    return made;
}

/* A barge of half the water's density, tilted, on a hinge through its centre. */
static scene roll_scene(int cells) {
    double half = 15 * pi / 360;
    scene made = {
        .width = 3,
        .depth = 0.6,
        .height = 0.8,
        .h = 0.3 / cells,
        .beach = 0.6,
        .end = 4,
        .longest_dt = 0.005,
        .form = {.kind = FSI_SHAPE_BOX, .dim = 2, .half = fsi_vec(0.15, 0.05, 0)},
        .body = {.density = 500, .x = fsi_vec(1.5, 0.6, 0), .q = {.z = sin(half), .w = cos(half)}},
        .pinned = 1,
    };
    return made;
}

/* A box of half the water's density, a little tilted, in water that calms down. */
static scene stability_scene(int cells, double breadth) {
    double high = 0.2;
    double half = 5 * pi / 360;
    scene made = {
        .width = 1.2,
        .depth = 0.5,
        .height = 0.8,
        .h = high / cells,
        .end = 12,
        .longest_dt = 0.005,
        .damping = 1,
        .form = {.kind = FSI_SHAPE_BOX, .dim = 2, .half = fsi_vec(breadth * high / 2, high / 2, 0)},
        .body = {.density = 500, .x = fsi_vec(0.6, 0.5, 0), .q = {.z = sin(half), .w = cos(half)}},
    };
    return made;
}

/* A piston whose front stands 0.2 m from the left end; its back is outside the tank. */
static const double period = 1.2, stroke = 0.05, front = 0.2, thick = 0.3;

static scene waves_scene(int cells) {
    scene made = {
        .width = 7,
        .depth = 0.5,
        .height = 0.7,
        .h = 0.4 / cells,
        .beach = 2.4,
        .end = 10 * period,
        .longest_dt = period / 200,
        .form = {.kind = FSI_SHAPE_BOX, .dim = 2, .half = fsi_vec(thick, 0.5, 0)},
        .body = {.kind = FSI_RIGID_SCRIPTED, .x = fsi_vec(front - thick, 0.25, 0), .ghost = 1},
    };
    return made;
}

/* ---- the run */
typedef struct tank {
    fsi_world world;
    fsi_shape shape;
    int id;
} tank;

static void make_tank(tank *t, scene *s, int voxel) {
    fsi_world_desc desc = {
        .grid.nx = (int)lround(s->width / s->h),
        .grid.ny = (int)lround(s->height / s->h),
        .grid.nz = 1,
        .grid.h = s->h,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -gravity, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = voxel ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_bodies = 2,
        .max_joints = 1,
        .damping = s->damping,
    };
    ex_need(fsi_world_init(&t->world, &desc));
    published_fill(&t->world.grid, s->depth);
    ex_need(fsi_shape_init(&t->shape, &s->form));
    s->body.shape = &t->shape;
    if (s->body.kind != FSI_RIGID_SCRIPTED)
        s->body.kind = FSI_RIGID_DYNAMIC;
    t->id = ex_need(fsi_world_add(&t->world, &s->body));
    if (!s->pinned)
        return;

    /* What it hangs on stands outside the tank. */
    fsi_rigid_desc post = {.shape = &t->shape, .x = fsi_vec(-1, 0, 0), .ghost = 1};
    fsi_joint_desc hinge = {
        .kind = FSI_JOINT_HINGE,
        .a = t->id,
        .b = ex_need(fsi_world_add(&t->world, &post)),
        .anchor = s->body.x,
        .axis = fsi_vec(0, 0, 1),
    };
    ex_need(fsi_solids_join(&t->world.solids, &hinge, NULL));
}

/* The beach: velocities fade towards the ends of the tank, so that no wave comes back. A piston has
   a beach at the other end only. */
static void calm(fsi_grid *grid, const scene *s, double dt) {
    int both = s->body.kind != FSI_RIGID_SCRIPTED;
    for (int axis = 0; axis < 2 && s->beach > 0; axis++) {
        int columns = grid->nx + (axis == 0);
        int rows = grid->ny + (axis == 1);
        for (int i = 0; i < columns; i++) {
            double x = s->h * (i + (axis ? 0.5 : 0));
            double away = both ? fmin(x, s->width - x) : s->width - x;
            if (away >= s->beach)
                continue;
            double depth = 1 - away / s->beach;
            double keep = exp(-15 * dt * depth * depth * depth);
            for (int j = 0; j < rows; j++)
                grid->u[axis][i + columns * j] *= keep;
        }
    }
}

static double tilt(const fsi_rigid *body) {
    return 2 * atan2(body->q.z, body->q.w);
}

/* Height of the water's surface above its rest in a column. */
static double gauge(const fsi_grid *grid, double x, double rest) {
    int i = (int)(x / grid->h);
    for (int j = grid->ny - 2; j >= 0; j--) {
        double below = grid->phi[i + grid->nx * j];
        double above = grid->phi[i + grid->nx * (j + 1)];
        if (below < 0 && above >= 0)
            return grid->h * (j + 0.5 + below / (below - above)) - rest;
    }
    return 0;
}

static void draw(ex_args *args, const tank *t) {
    const fsi_grid *grid = &t->world.grid;
    ex_image image = ex_image_make(900, 40 + 860 * grid->ny / grid->nx);
    ex_view view = scene_view(grid, 20, 20, 860);
    scene_water2(&image, &view, grid);
    fsi_surface surface = scene_body(&t->world, t->id);
    ex_draw_surface(&image, &view, &surface, ex_rgb(225, 120, 50));
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* Where the piston is at a time; it starts gently within one period. */
static void move_piston(tank *t, double time, double dt) {
    double ramp = fmin(1, time / period);
    double x = front - thick + ramp * stroke / 2 * sin(2 * pi / period * time);
    fsi_quat upright = fsi_world_rigid(&t->world, t->id)->q;
    ex_try(fsi_solids_script(&t->world.solids, t->id, fsi_vec(x, 0.25, 0), upright, dt));
}

/* Runs a scene; record_fn is asked for a value after each step. */
static int run(ex_args *args, scene *s, trace *curve,
               void (*record_fn)(const tank *t, const scene *s, double time, trace *curve)) {
    tank t;
    make_tank(&t, s, ex_is(args, "boundary", "voxel"));
    int steps = 0;
    int frame = 0;
    double time = 0;
    while (time < s->end && ex_fine()) {
        double fastest = fmax(t.world.grid.stats.max_speed, 1e-3);
        double dt = fmin(s->longest_dt, s->h / fastest);
        if (s->body.kind == FSI_RIGID_SCRIPTED)
            move_piston(&t, time + dt, dt);
        ex_try(fsi_world_step(&t.world, dt, NULL));
        calm(&t.world.grid, s, dt);
        time += dt;
        steps++;
        record_fn(&t, s, time, curve);
        if (time >= frame * s->end / args->frames) {
            if (args->out)
                draw(args, &t);
            ex_progress(args, frame < args->frames ? frame : args->frames - 1);
            frame++;
        }
    }

    fsi_world_free(&t.world);
    fsi_shape_free(&t.shape);
    return steps;
}

/* ---- what is recorded, and what it says */
static void record(trace *curve, double time, double value) {
    if (curve->count == TRACE)
        return;
    curve->time[curve->count] = time;
    curve->value[curve->count] = value;
    curve->count++;
}

static void record_heave(const tank *t, const scene *s, double time, trace *curve) {
    double lift = s->form.radius / 3;
    double unit = sqrt(s->form.radius / gravity);
    record(curve, time / unit, (fsi_world_position(&t->world, t->id).y - s->depth) / lift);
}

static void record_tilt(const tank *t, const scene *s, double time, trace *curve) {
    (void)s;
    record(curve, time, tilt(fsi_world_rigid(&t->world, t->id)));
}

/* Three gauges in turn, in the last three periods. */
static const double gauge_at[GAUGES] = {1.2, 2.2, 3.2};

static void record_waves(const tank *t, const scene *s, double time, trace *curve) {
    if (time < s->end - 3 * period)
        return;
    for (int k = 0; k < GAUGES; k++)
        record(curve, time, gauge(&t->world.grid, gauge_at[k], s->depth));
}

/* Time of crossing number n of zero, or 0. */
static double zero_of(const trace *curve, int n) {
    for (int i = 1; i < curve->count; i++) {
        double before = curve->value[i - 1];
        double now = curve->value[i];
        if ((before < 0) == (now < 0) || --n > 0)
            continue;
        double share = before / (before - now);
        return curve->time[i - 1] + share * (curve->time[i] - curve->time[i - 1]);
    }
    return 0;
}

static void heave_results(const trace *curve) {
    double lowest = 0;
    for (int i = 0; i < curve->count; i++)
        lowest = fmin(lowest, curve->value[i]);
    ex_result("zero_1", "%.4f", zero_of(curve, 1));
    ex_result("zero_2", "%.4f", zero_of(curve, 2));
    ex_result("minimum", "%.4f", lowest);
}

/* Amplitude and phase of the first harmonic at a gauge. */
static double harmonic(const trace *curve, int gauge_number, double *phase) {
    double along = 0;
    double across = 0;
    int count = 0;
    for (int i = gauge_number; i < curve->count; i += GAUGES) {
        double angle = 2 * pi * curve->time[i] / period;
        along += curve->value[i] * cos(angle);
        across += curve->value[i] * sin(angle);
        count++;
    }
    *phase = atan2(across, along);
    return 2 * hypot(along, across) / count;
}

/* Biesel: H / S = 2 (cosh 2kd - 1) / (sinh 2kd + 2kd), with w^2 = g k tanh kd. */
static void wave_results(const trace *curve, double depth) {
    double frequency = 2 * pi / period;
    double k = frequency * frequency / gravity;
    for (int i = 0; i < 200; i++)
        k = frequency * frequency / gravity / tanh(k * depth);
    double q = 2 * k * depth;
    double expected = stroke * 2 * (cosh(q) - 1) / (sinh(q) + q);

    double sum = 0;
    double turned = 0;
    double last = 0;
    for (int i = 0; i < GAUGES; i++) {
        double phase;
        sum += 2 * harmonic(curve, i, &phase);
        double way = fmod(phase - last + 4 * pi, 2 * pi);
        turned += i ? way : 0;
        last = phase;
    }
    ex_result("height", "%.5f", sum / GAUGES);
    ex_result("expected_height", "%.5f", expected);
    ex_result("wavenumber", "%.4f", turned / (gauge_at[GAUGES - 1] - gauge_at[0]));
    ex_result("expected_wavenumber", "%.4f", k);
}

static const ex_about about = {
    .name = "floating",
    .what = "Heave, roll, waves and stability of floating bodies, beside theory.",
    .size = 400,
    .frames = 40,
    .keys =
        {
            EX_WORD("case", "what floats", "heave", "heave,roll,waves,stability"),
            EX_NUMBER("cells", "", "across the body (waves: in 0.4 m)", "20", "4 to 200"),
            EX_BOUNDARY,
            EX_NUMBER("breadth", "", "stability: breadth over height", "1.3", "0.5 to 4"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    static trace curve;
    int cells = ex_whole(&args, "cells");
    int steps = 0;
    if (ex_is(&args, "case", "heave")) {
        scene s = heave_scene(cells);
        steps = run(&args, &s, &curve, record_heave);
        heave_results(&curve);
    } else if (ex_is(&args, "case", "roll")) {
        scene s = roll_scene(cells);
        steps = run(&args, &s, &curve, record_tilt);
        ex_result("period", "%.4f", zero_of(&curve, 3) - zero_of(&curve, 1));
    } else if (ex_is(&args, "case", "waves")) {
        scene s = waves_scene(cells);
        steps = run(&args, &s, &curve, record_waves);
        wave_results(&curve, s.depth);
    } else {
        scene s = stability_scene(cells, ex_number(&args, "breadth"));
        printf("damping=1 1/s on body and water\n");
        steps = run(&args, &s, &curve, record_tilt);
        ex_result("angle", "%.3f", curve.value[curve.count - 1] * 180 / pi);
    }
    return ex_end(&args, steps, ex_fine());
}
