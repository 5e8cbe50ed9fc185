/* The walk of one step: which functions fsi_world_step calls with a box and a cloth in water, in
   their order and down to a depth of three. walk.sh compiles this with -finstrument-functions and
   turns the addresses into functions and chapters. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include <stdio.h>

enum {
    DEEPEST = 3
};

#define QUIET __attribute__((no_instrument_function))

static int walking;
static int depth; /* of the function that runs: 0 is fsi_world_step */

void __cyg_profile_func_enter(void *function, void *from) QUIET;
void __cyg_profile_func_exit(void *function, void *from) QUIET;

void __cyg_profile_func_enter(void *function, void *from) {
    (void)from;
    if (walking && depth <= DEEPEST)
        printf("%d %p\n", depth, function);
    depth += walking;
}

void __cyg_profile_func_exit(void *function, void *from) {
    (void)function;
    (void)from;
    depth -= walking;
}

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - FSI_R(0.6);
}

/* A tank of 1 m x 1 m with water, open above. */
static fsi_result make_tank(fsi_world *world) {
    fsi_world_desc desc = {
        .grid.nx = 24,
        .grid.ny = 24,
        .grid.nz = 1,
        .grid.h = FSI_R(1.0) / 24,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, FSI_R(-9.81), 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = 1,
        .max_guests = 1,
    };
    fsi_result result = fsi_world_init(world, &desc);
    return result < 0 ? result : fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, NULL);
}

/* A box at the left, half in the water. */
static int add_box(fsi_world *world, fsi_shape *shape) {
    fsi_shape_desc box = {
        .kind = FSI_SHAPE_BOX,
        .dim = 2,
        .half = fsi_vec(FSI_R(0.12), FSI_R(0.08), 0),
    };
    fsi_rigid_desc body = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = shape,
        .density = 500,
        .x = fsi_vec(FSI_R(0.3), FSI_R(0.6), 0),
    };
    return fsi_shape_init(shape, &box) < 0 ? -1 : fsi_world_add(world, &body);
}

/* A strip of cloth at the right, under water. */
static fsi_result add_cloth(fsi_world *world, fsi_soft *cloth, fsi_soft_responder *responder) {
    fsi_mesh strip;
    fsi_vec3 from = fsi_vec(FSI_R(0.6), FSI_R(0.4), 0);
    fsi_vec3 to = fsi_vec(FSI_R(0.9), FSI_R(0.4), 0);
    fsi_result result = fsi_mesh_strip(&strip, from, to, 8, NULL);
    if (result < 0)
        return result;
    fsi_soft_desc desc = {
        .dim = 2,
        .vertex_count = strip.vertex_count,
        .x = strip.x,
        .segment_count = strip.element_count,
        .segment = strip.index,
        .area_density = 10,
        .stretch = 1000,
        .bend = FSI_R(1e-3),
        .integrator = FSI_SOFT_SPLIT,
        .gravity = fsi_vec(0, FSI_R(-9.81), 0),
    };
    result = fsi_soft_init(cloth, &desc);
    fsi_mesh_free(&strip);
    if (result < 0)
        return result;
    responder->soft = cloth;
    fsi_guest guest = fsi_soft_guest(responder);
    return fsi_world_add_guest(world, &guest);
}

int main(void) {
    static fsi_world world;
    static fsi_shape shape;
    static fsi_soft cloth;
    static fsi_soft_responder responder;
    if (make_tank(&world) < 0 || add_box(&world, &shape) < 0)
        return 1;
    if (add_cloth(&world, &cloth, &responder) < 0)
        return 1;

    /* The second step is the one to look at: nothing is allocated any more. */
    fsi_result result = fsi_world_step(&world, FSI_R(0.005), NULL);
    walking = 1;
    if (result >= 0)
        result = fsi_world_step(&world, FSI_R(0.005), NULL);
    walking = 0;

    fsi_soft_responder_free(&responder);
    fsi_soft_free(&cloth);
    fsi_world_free(&world);
    fsi_shape_free(&shape);
    return result < 0;
}
