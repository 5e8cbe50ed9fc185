/* water.h: rigid bodies in flat tanks of water: pool, raft, boat and diver. All four are a world,
   bodies and one coupled solve a step. */
#ifndef WATER_SCENES_H
#define WATER_SCENES_H
#include "picture.h"

static double water_level; /* m */

static fsi_real water_below_level(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - water_level;
}

/* A tank of nx x ny cells, open above, filled up to `level`. What a user who wants speed chooses:
   pressure to 1e-3, started from that of the step before; the volume correction takes back what
   that lets drift. air = 0: closed air yields like open air, which saves a third of the time. */
static fsi_result water_tank(int nx, int ny, double h, double level, int bodies, int air) {
    fsi_world_desc desc = {
        .grid.nx = nx,
        .grid.ny = ny,
        .grid.nz = 1,
        .grid.h = h,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, FSI_R(-9.81), 0),
        .grid.liquid = 1,
        .grid.particles = 2,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.tolerance = 1e-3,
        .couple.warm_start = 1,
        .couple.bubbles = air ? 0 : -1,
        .max_bodies = bodies,
    };
    fsi_result result = stage_world(&desc);
    water_level = level;
    if (result >= 0)
        result = fsi_grid_set_field(&stage.world->grid, FSI_FIELD_PHI, water_below_level, NULL);
    return result < 0 ? result : fsi_grid_classify(&stage.world->grid);
}

static fsi_rigid_desc water_body(const fsi_shape *shape, double x, double y) {
    fsi_rigid_desc desc = {.kind = FSI_RIGID_DYNAMIC, .shape = shape, .friction = FSI_R(0.3)};
    desc.x = fsi_vec(x, y, 0);
    return desc;
}

/* All bodies get the density of the slider. */
static void water_weigh_all(double density) {
    for (int i = 0; i < stage.bodies; i++)
        stage.body[i].density = density;
    stage.result = stage_weigh();
    stage.broken = stage.result < 0;
}

/* ------------------------------------------------------------------------------------------------
 * pool: crates, balls and planks of many densities */
enum {
    POOL_BODIES = 20
};

/* Density 0 stands for all kinds: from cork to lead. */
static double pool_density(int i) {
    static const double kinds[7] = {0.05, 0.5, 0.25, 2.5, 0.7, 0.9, 0.15};
    double chosen = value_of("density");
    return chosen > 0 ? chosen : kinds[i % 7];
}

static fsi_result pool_make(void) {
    int count = (int)value_of("bodies");
    fsi_result result = water_tank(128, 64, 1.0 / 32, 0.85, POOL_BODIES, value_of("air") > 0);
    const fsi_shape *shape[4];
    if (result < 0)
        return result;
    shape[0] = stage_box(0.14, 0.14);
    shape[1] = stage_ball(2, 0.13, 24);
    shape[2] = stage_box(0.22, 0.07);
    shape[3] = stage_box(0.11, 0.11);

    /* Rows of five above the water, the first in the middle. */
    static const int order[5] = {2, 1, 3, 0, 4};
    for (int i = 0; i < count && result >= 0; i++) {
        double x = 0.5 + 0.75 * order[i % 5] + 0.06 * (i / 5 % 2);
        double y = 1.05 + 0.3 * (i / 5);
        fsi_rigid_desc body = water_body(shape[i % 4], x, count > 1 ? y : 0.95);
        result = stage_add(&body, pool_density(i));
    }
    return result;
}

static void pool_change(setting *own) {
    if (strcmp(own->key, "density") == 0 && own->value > 0)
        water_weigh_all(own->value < 1e-4 ? 1e-4 : own->value);
}

static void pool_before(fsi_real dt) {
    (void)dt;
    stage.world->damping = value_of("calm");
}

/* ------------------------------------------------------------------------------------------------
 * raft: a plank that carries boxes */
static fsi_result raft_make(void) {
    int load = (int)value_of("load");
    fsi_result result = water_tank(96, 56, 1.0 / 32, 0.8, 12, 1);
    if (result < 0)
        return result;
    const fsi_shape *plank = stage_box(0.75, 0.09);
    const fsi_shape *box = stage_box(0.12, 0.1);
    fsi_rigid_desc raft = water_body(plank, 1.5, 0.85);
    raft.friction = FSI_R(0.8);
    result = stage_add(&raft, value_of("density"));

    /* Rows of four, then three, then two, each on the gaps of the one below. */
    static const double column[9] = {0, 1, 2, 3, 0.5, 1.5, 2.5, 1, 2};
    static const int row[9] = {0, 0, 0, 0, 1, 1, 1, 2, 2};
    for (int i = 0; i < load && i < 9 && result >= 0; i++) {
        double x = 1.5 + 0.28 * (column[i] - 1.5);
        fsi_rigid_desc body = water_body(box, x, 1.045 + 0.202 * row[i]);
        body.friction = FSI_R(0.8);
        result = stage_add(&body, value_of("cargo"));
    }
    return result;
}

static void raft_change(setting *own) {
    for (int i = 0; i < stage.bodies; i++)
        stage.body[i].density = value_of(i ? "cargo" : "density");
    stage.result = stage_weigh();
    (void)own;
}

/* ------------------------------------------------------------------------------------------------
 * boat: a hull with a motor, and a paddle that makes waves */
enum {
    BOAT_HULL = 8
};

static double boat_phase; /* of the paddle, periods */

/* Seen from the side: stern on the left, a bow that rises, a cabin. */
static const fsi_shape *boat_hull(void) {
    static const double outline[BOAT_HULL][2] = {
        {-0.5, 0.12}, {-0.46, -0.12}, {0.34, -0.12}, {0.62, 0.16},
        {0.12, 0.13}, {0.08, 0.28},   {-0.26, 0.28}, {-0.3, 0.12},
    };
    fsi_real x[3 * BOAT_HULL] = {0};
    int32_t index[2 * BOAT_HULL];
    for (int i = 0; i < BOAT_HULL; i++) {
        x[3 * i] = outline[i][0];
        x[3 * i + 1] = outline[i][1];
        index[2 * i] = i;
        index[2 * i + 1] = (i + 1) % BOAT_HULL;
    }
    fsi_surface surface = {.dim = 2, .closed = 1, .x = x, .index = index};
    surface.vertex_count = surface.element_count = BOAT_HULL;
    fsi_shape_desc desc = {.kind = FSI_SHAPE_MESH, .dim = 2, .surface = &surface};
    return stage_shape(&desc);
}

static fsi_result boat_make(void) {
    fsi_result result = water_tank(160, 56, 1.0 / 32, 0.8, 2, 1);
    if (result < 0)
        return result;
    boat_phase = 0;
    stage_keep(PART_NUMBERS, &boat_phase, sizeof boat_phase);
    fsi_rigid_desc hull = water_body(boat_hull(), 2.2, 0.86);
    result = stage_add(&hull, value_of("density"));
    fsi_rigid_desc paddle = {.kind = FSI_RIGID_SCRIPTED, .shape = stage_box(0.06, 0.6)};
    paddle.x = fsi_vec(0.35, 0.75, 0);
    return result < 0 ? result : stage_add(&paddle, 1);
}

/* Where the propeller is: under the stern. */
static fsi_vec3 boat_propeller(void) {
    const fsi_rigid *hull = &stage.solids->body[stage.body[0].id];
    return fsi_vec_add(hull->x, fsi_mat3_mul_vec(&hull->rotation, fsi_vec(-0.48, -0.16, 0)));
}

static fsi_vec3 boat_thrust(void) {
    const fsi_rigid *hull = &stage.solids->body[stage.body[0].id];
    fsi_vec3 forward = fsi_vec(hull->rotation.m[0], hull->rotation.m[3], 0);
    return fsi_vec_scale(forward, 90 * value_of("throttle"));
}

/* The jet behind the propeller takes the same momentum backwards: a disk of 0.1 m. */
static fsi_vec3 boat_jet(fsi_vec3 x, double time, void *user) {
    const fsi_real radius = FSI_R(0.1);
    fsi_vec3 arm = fsi_vec_sub(x, boat_propeller());
    (void)time;
    (void)user;
    if (fsi_vec_dot(arm, arm) > radius * radius)
        return fsi_vec(0, 0, 0);
    fsi_real mass = 1000 * FSI_R(3.14159) * radius * radius;
    return fsi_vec_scale(boat_thrust(), -1 / mass);
}

/* Is the propeller in water? In air it finds nothing to push. */
static int boat_wet(void) {
    return fsi_grid_field_at(stage.grid, FSI_FIELD_PHI, boat_propeller()) < 0;
}

static void boat_before(fsi_real dt) {
    fsi_rigid *hull = &stage.solids->body[stage.body[0].id];
    int running = value_of("throttle") != 0 && boat_wet();
    if (running) {
        fsi_vec3 thrust = boat_thrust();
        fsi_vec3 arm = fsi_vec_sub(boat_propeller(), hull->x);
        hull->force = fsi_vec_add(hull->force, thrust);
        hull->torque = fsi_vec_add(hull->torque, fsi_vec_cross(arm, thrust));
    }
    stage.world->grid.desc.force_fn = running ? boat_jet : NULL;

    /* The paddle swings along x. */
    double rate = 6.2831853 / value_of("period");
    boat_phase += (double)dt / value_of("period");
    double speed = value_of("waves") * rate * wave_at(boat_phase + 0.25);
    fsi_vec3 velocity = fsi_vec(speed, 0, 0);
    if (stage.time < 1)
        velocity = fsi_vec_scale(velocity, stage.time);
    fsi_solids_set_velocity(stage.solids, stage.body[1].id, velocity, fsi_vec(0, 0, 0));
}

static void boat_change(setting *own) {
    if (strcmp(own->key, "density") != 0)
        return;
    stage.body[0].density = own->value;
    stage.result = stage_weigh();
}

/* ------------------------------------------------------------------------------------------------
 * diver: a cup upside down that holds air */
static const double diver_x = 0.2, diver_y = 0.16, diver_wall = 0.05;
static double diver_height; /* of the cup's middle, m */

/* Water everywhere below the level but in the upper part of the cup. */
static fsi_real diver_water(fsi_vec3 x, void *user) {
    double across = fabs((double)x.x - 0.6);
    double up = (double)x.y - diver_height;
    int within = across < diver_x - diver_wall / 2 && fabs(up) < diver_y - diver_wall / 2;
    double surface = within ? diver_height - diver_y + 0.1 : water_level;
    (void)user;
    return fmin((double)x.y - surface, 0.3);
}

static const fsi_shape *diver_cup(fsi_vec3 *centre) {
    double x = diver_x;
    double y = diver_y;
    double wall = diver_wall;
    fsi_shape_part part[3] = {{.shape = stage_box(wall / 2, y)},
                              {.shape = stage_box(wall / 2, y)},
                              {.shape = stage_box(x - wall, wall / 2)}};
    part[0].x = fsi_vec(-x + wall / 2, 0, 0);
    part[1].x = fsi_vec(x - wall / 2, 0, 0);
    part[2].x = fsi_vec(0, y - wall / 2, 0);
    fsi_shape_desc desc = {.kind = FSI_SHAPE_COMPOUND, .dim = 2, .part = part, .part_count = 3};
    const fsi_shape *cup = stage_shape(&desc);
    if (cup)
        *centre = cup->com;
    return cup;
}

static fsi_result diver_make(void) {
    fsi_result result = water_tank(48, 64, 0.025, 1.25, 1, value_of("air") > 0);
    fsi_vec3 centre = {0};
    if (result < 0)
        return result;
    diver_height = 0.8;
    const fsi_shape *cup = diver_cup(&centre);
    fsi_rigid_desc body = water_body(cup, 0.6, diver_height + (double)centre.y);
    result = stage_add(&body, value_of("density"));
    if (result < 0)
        return result;
    return fsi_grid_set_field(&stage.world->grid, FSI_FIELD_PHI, diver_water, NULL);
}

static void diver_change(setting *own) {
    if (strcmp(own->key, "density") == 0)
        water_weigh_all(own->value);
}

/* ------------------------------------------------------------------------------------------------
 * the four */
static scene pool_scene = {
    .name = "pool",
    .setting = {{"density", 0, 1e4, 0, 0, 0},
                {"bodies", 1, POOL_BODIES, 14, 1, 0},
                {"calm", 0, 4, 0, 0, 0},
                {"air", 0, 1, 1, 1, 0}},
    .dt = 1.0 / 60,
    .make = pool_make,
    .before = pool_before,
    .change = pool_change,
};

static scene raft_scene = {
    .name = "raft",
    .setting = {{"load", 0, 9, 7, 1, 0},
                {"cargo", 0.05, 5, 0.4, 0, 0},
                {"density", 1e-4, 2, 0.2, 0, 0}},
    .dt = 1.0 / 60,
    .make = raft_make,
    .change = raft_change,
};

static scene boat_scene = {
    .name = "boat",
    .setting = {{"throttle", -1, 1, 0.5, 0, 0},
                {"waves", 0, 0.15, 0.05, 0, 0},
                {"period", 0.6, 2.5, 1.1, 0, 0},
                {"density", 0.05, 1.5, 0.35, 0, 0}},
    .dt = 1.0 / 60,
    .make = boat_make,
    .before = boat_before,
    .change = boat_change,
};

static scene diver_scene = {
    .name = "diver",
    .setting = {{"density", 0.1, 5, 1.7, 0, 0}, {"air", 0, 1, 1, 1, 0}},
    .dt = 1.0 / 120,
    .make = diver_make,
    .change = diver_change,
};
#endif
