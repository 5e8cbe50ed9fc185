/* methods.h: the same physics by several methods: a floating disk by every coupling scheme, and a
   stream around a cylinder that slips beside one that does not. */
#ifndef METHOD_SCENES_H
#define METHOD_SCENES_H
#include "water.h"
#include "air.h"
#include "particles.h"

/* ------------------------------------------------------------------------------------------------
 * methods: weak, partitioned, XPM, one solve, SCHUR, particles */
typedef enum method {
    METHOD_WEAK,
    METHOD_RELAXED,
    METHOD_REDUCED,
    METHOD_MONOLITHIC,
    METHOD_SCHUR,
    METHOD_PARTICLES,
    METHODS
} method;

static int method_now(void) {
    return (int)(value_of("method") + 0.5);
}

static fsi_rigid_desc method_disk(void) {
    fsi_rigid_desc body = {.kind = FSI_RIGID_DYNAMIC, .shape = stage_ball(2, 0.15, 40)};
    body.x = fsi_vec(0.75, 0.66, 0);
    return body;
}

/* Weak: each solver is asked once a step, so the water answers to where the disk was going. */
static fsi_result method_exchange(int which) {
    fsi_partitioned_desc desc = {
        .n = 6 + 16,
        .m = 6 + 16,
        .tolerance = FSI_R(0.01) * stage.grid->h,
        .omega = FSI_R(0.2),
        .max_iterations = 60,
        .scheme = which == METHOD_REDUCED ? FSI_SCHEME_REDUCED : FSI_SCHEME_RELAXED,
    };
    if (which == METHOD_WEAK) {
        desc.max_iterations = 1;
        desc.omega = 1;
    }
    exchange.scene.scheme = &exchange.scheme;
    exchange.scene.list = exchange.list;
    exchange.scene.solids.part = exchange.part;
    exchange.scene.fluid.tolerance = 1e-4;
    stage_keep(PART_SCHEME, &exchange.scheme, 0);
    return fsi_partitioned_init(&exchange.scheme, &desc);
}

static fsi_result method_particles(void) {
    double spacing = 0.03;
    fsi_result result = swim_begin(1.5, 1.05, spacing, 1200);
    fsi_vec3 rest = fsi_vec(0, 0, 0);
    if (result >= 0)
        result = fsi_sph_add_block(&swim.sph, rest, fsi_vec(1.5, 0.48, 0), rest, NULL);
    fsi_rigid_desc body = method_disk();
    if (result >= 0)
        result = swim_add(&body, value_of("density"), 1 - spacing / 0.3);
    return result < 0 ? result : swim_couple(FSI_SPH_XPM);
}

static fsi_result methods_make(void) {
    int which = method_now();
    if (which == METHOD_PARTICLES)
        return method_particles();
    fsi_result result = water_tank(64, 45, 1.5 / 64, 0.5, 1, 1);
    fsi_rigid_desc body = method_disk();
    if (result >= 0)
        result = stage_add(&body, value_of("density"));
    if (result >= 0 && which <= METHOD_REDUCED)
        result = method_exchange(which);
    if (which == METHOD_SCHUR)
        stage.world->couple.desc.solver = FSI_COUPLE_SCHUR;
    stage.world_desc.couple.solver = stage.world->couple.desc.solver;
    return result;
}

static fsi_result methods_step(fsi_real dt, fsi_report *report) {
    int which = method_now();
    if (which == METHOD_PARTICLES)
        return swim_step(dt, report);
    if (which <= METHOD_REDUCED)
        return exchange_step(dt, report);
    return fsi_world_step(stage.world, dt, report);
}

static void methods_end(void) {
    exchange_end();
    swim_end();
}

/* ------------------------------------------------------------------------------------------------
 * slip: two channels, one above the other; the upper cylinder slips */
enum {
    SLIP_NX = 112,
    SLIP_NY = 36,
    SLIP_GAP = 3,
    SLIP_ROUND = 64,
    SLIP_DOTS = 500 /* in each channel */
};

static const double slip_h = 0.025, slip_radius = 0.14; /* m */

typedef struct channel {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door;
    fsi_coupled *list[1];
    fsi_real x[3 * SLIP_ROUND], v[3 * SLIP_ROUND];
    int32_t index[2 * SLIP_ROUND];
    fsi_real dot[3 * SLIP_DOTS];
    fsi_real coefficient;
} channel;

static struct streams {
    channel channel[2];
    double centre[2], velocity[2]; /* of both cylinders, m, m/s */
    uint32_t seed;
} streams;

static double slip_lift(int which) {
    return which * (SLIP_NY + SLIP_GAP) * slip_h;
}

/* The cylinder of a channel where it is now. */
static void slip_place(channel *own) {
    for (int i = 0; i < SLIP_ROUND; i++) {
        double turn = 6.283185307 * i / SLIP_ROUND;
        double out_x = slip_radius * cos(turn);
        double out_y = slip_radius * sin(turn);
        fsi_vec_store(own->x + 3 * i,
                      fsi_vec(streams.centre[0] + out_x, streams.centre[1] + out_y, 0));
        fsi_vec_store(own->v + 3 * i, fsi_vec(streams.velocity[0], streams.velocity[1], 0));
        own->index[2 * i] = i;
        own->index[2 * i + 1] = (i + 1) % SLIP_ROUND;
    }
}

static fsi_real slip_chance(void) {
    streams.seed = streams.seed * 1664525u + 1013904223u;
    return (fsi_real)(streams.seed >> 8) / 16777216;
}

static fsi_result channel_make(channel *own, double speed) {
    fsi_grid_desc desc = {
        .nx = SLIP_NX,
        .ny = SLIP_NY,
        .nz = 1,
        .h = slip_h,
        .rho = 1,
        .tolerance = 1e-4,
        .side[FSI_LEFT].kind = FSI_SIDE_INFLOW,
        .side[FSI_LEFT].velocity.x = speed,
        .side[FSI_RIGHT].kind = FSI_SIDE_OPEN,
    };
    fsi_surface *surface = &own->door.surface;
    surface->dim = 2;
    surface->closed = 1;
    surface->vertex_count = surface->element_count = SLIP_ROUND;
    surface->x = own->x;
    surface->v = own->v;
    surface->index = own->index;
    own->list[0] = &own->door;
    slip_place(own);
    fsi_slip_desc options = {.passes = 1, .coefficient = &own->coefficient};
    fsi_result result = fsi_grid_init(&own->grid, &desc);
    if (result >= 0)
        result = fsi_slip_init(&own->slip, &own->grid, &options);
    for (size_t i = 0; i < own->grid.faces[0] && result >= 0; i++)
        own->grid.u[0][i] = speed;
    for (int i = 0; i < SLIP_DOTS; i++) {
        fsi_real x = slip_chance() * SLIP_NX * slip_h;
        fsi_real y = (2 + slip_chance() * (SLIP_NY - 4)) * slip_h;
        fsi_vec_store(own->dot + 3 * i, fsi_vec(x, y, 0));
    }
    return result;
}

static void slip_coefficients(void) {
    streams.channel[0].coefficient = value_of("lower");
    streams.channel[1].coefficient = 1;
}

static fsi_result slip_make(void) {
    fsi_result result = FSI_OK;
    streams.centre[0] = 0.7;
    streams.centre[1] = (0.5 * SLIP_NY + 0.2) * slip_h;
    streams.seed = 1;
    slip_coefficients();
    for (int i = 0; i < 2 && result >= 0; i++) {
        result = channel_make(&streams.channel[i], value_of("speed"));
        stage_keep(PART_GRID, &streams.channel[i].grid, 0);
        stage_keep(PART_SLIP, &streams.channel[i].slip, 0);
        stage_keep(PART_NUMBERS, streams.channel[i].dot, sizeof streams.channel[i].dot);
    }
    stage_keep(PART_NUMBERS, streams.centre, sizeof streams.centre + sizeof streams.velocity);
    stage_keep(PART_NUMBERS, &streams.seed, sizeof streams.seed);
    stage.fluid_density = 1;
    stage.hi = fsi_vec(SLIP_NX * slip_h, slip_lift(1) + SLIP_NY * slip_h, 0);
    return result;
}

/* Both cylinders follow the hand, at most as fast as the stream. */
static void slip_before(fsi_real dt) {
    for (int axis = 0; axis < 2; axis++) {
        double goal = axis ? stage.hand.target.y : stage.hand.target.x;
        double way = stage.hand.kind == HAND_SCENE ? goal - streams.centre[axis] : 0;
        double velocity = 0.3 * way / (double)dt;
        streams.velocity[axis] = between(-1, velocity, 1);
    }
    slip_coefficients();
}

/* Dots that have left come in again on the left. */
static void slip_dots(channel *own) {
    for (int i = 0; i < SLIP_DOTS; i++) {
        fsi_real *x = own->dot + 3 * i;
        double away = hypot((double)x[0] - streams.centre[0], (double)x[1] - streams.centre[1]);
        if ((double)x[0] < (SLIP_NX - 1) * slip_h && away > slip_radius + 0.002)
            continue;
        x[0] = slip_chance() * FSI_R(0.05);
        x[1] = (2 + slip_chance() * (SLIP_NY - 4)) * slip_h;
    }
}

static fsi_result slip_step(fsi_real dt, fsi_report *report) {
    fsi_result result = FSI_OK;
    for (int i = 0; i < 2 && result >= 0; i++) {
        channel *own = &streams.channel[i];
        fsi_scene scene = {.solid = own->list, .count = 1};
        slip_place(own);
        result = fsi_slip_step(&own->slip, &scene, dt, report);
        if (result >= 0)
            fsi_grid_trace(&own->grid, SLIP_DOTS, own->dot, dt);
        slip_dots(own);
    }
    for (int axis = 0; axis < 2; axis++)
        streams.centre[axis] += (double)dt * streams.velocity[axis];
    return result;
}

static int slip_grab(fsi_vec3 at) {
    double lift = (double)at.y > slip_lift(1) ? slip_lift(1) : 0;
    double up = (double)at.y - lift - streams.centre[1];
    if (hypot((double)at.x - streams.centre[0], up) > slip_radius + 0.05)
        return 0;
    hand_hold(HAND_SCENE, NULL, 0, fsi_vec(streams.centre[0], streams.centre[1], 0));
    return 1;
}

/* The lower cylinder and the upper one, which the scene moves alike. */
static int slip_solids(stage_solid *list) {
    for (int i = 0; i < 2; i++) {
        list[i].x = fsi_vec(streams.centre[0], streams.centre[1] + slip_lift(i), 0);
        list[i].v = fsi_vec(streams.velocity[0], streams.velocity[1], 0);
        list[i].density = 1;
        list[i].submerged = 1;
    }
    return 2;
}

/* The cylinders stay off the walls. */
static void slip_keep_inside(void) {
    const fsi_real room = slip_radius + 2 * slip_h;
    fsi_vec3 *target = &stage.hand.target;
    target->x = between(room, target->x, FSI_R(0.6) * SLIP_NX * slip_h);
    target->y = between(room, target->y, SLIP_NY * slip_h - room);
}

static void slip_shade(int which) {
    const fsi_grid *grid = &streams.channel[which].grid;
    int first = which * (SLIP_NY + SLIP_GAP);
    for (int j = 0; j < SLIP_NY; j++)
        for (int i = 0; i < SLIP_NX; i++)
            picture.shade[i + SLIP_NX * (j + first)] = cell_speed(grid, i, j);
}

/* The bar between the channels. */
static void slip_bar(void) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    fsi_real x[12] = {0};
    for (int i = 0; i < 4; i++) {
        x[3 * i] = i == 1 || i == 2 ? SLIP_NX * slip_h : 0;
        x[3 * i + 1] = (SLIP_NY + (i >= 2 ? SLIP_GAP : 0)) * slip_h;
    }
    fsi_surface bar = {.dim = 2, .closed = 1, .vertex_count = 4, .element_count = 4};
    bar.x = x;
    bar.index = index;
    picture_edges(&bar, PIECE_FIXED, 1, 0);
}

static void slip_draw(void) {
    memset(picture.shade, 0, sizeof *picture.shade * SLIP_NX * (2 * SLIP_NY + SLIP_GAP));
    picture.table.nx = SLIP_NX;
    picture.table.ny = 2 * SLIP_NY + SLIP_GAP;
    picture.table.nz = 1;
    picture.table.shade = (intptr_t)picture.shade;
    slip_bar();
    for (int which = 0; which < 2; which++) {
        const channel *own = &streams.channel[which];
        slip_shade(which);
        piece *disk = picture_edges(&own->door.surface, PIECE_FIXED, 1, slip_lift(which));
        disk->held = stage.hand.kind == HAND_SCENE;
        for (int i = 0; i < SLIP_DOTS; i++)
            picture_point(own->dot[3 * i], own->dot[3 * i + 1] + slip_lift(which), 0, 0);
    }
}

static void slip_end(void) {
    for (int i = 0; i < 2; i++) {
        fsi_slip_free(&streams.channel[i].slip);
        fsi_grid_free(&streams.channel[i].grid);
    }
    memset(&streams, 0, sizeof streams);
}

static void slip_hold(fsi_real dt) {
    if (stage.hand.kind == HAND_SCENE)
        slip_keep_inside();
    slip_before(dt);
}

/* ------------------------------------------------------------------------------------------------
 * the two */
static scene methods_scene = {
    .name = "methods",
    .setting = {{"method", 0, METHODS - 1, METHOD_MONOLITHIC, 1, 0},
                {"density", 1e-4, 1e4, 0.5, 1, 0}},
    .dt = 1.0 / 120,
    .most_speed = 5.5,
    .make = methods_make,
    .step = methods_step,
    .end = methods_end,
};

static scene slip_scene = {
    .name = "slip",
    .setting = {{"lower", 0, 1, 0, 0, 0}, {"speed", 0.2, 1.5, 0.8, 1, 0}},
    .dt = 1.0 / 60,
    .make = slip_make,
    .step = slip_step,
    .before = slip_hold,
    .draw = slip_draw,
    .grab = slip_grab,
    .solids = slip_solids,
    .end = slip_end,
};
#endif
