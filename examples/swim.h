/* swim.h: what the examples with rigid bodies in a tank of particles share: the tank, bodies with
   their boundary particles, steps by the coupling with sums over them, and the result lines. */
#ifndef SWIM_H
#define SWIM_H
#include "water.h"

enum {
    SWIM_BODIES = 3 /* most bodies in the tank */
};

/* A tank from the origin to corner, its fluid, its bodies, and sums over the steps. */
typedef struct swim {
    fsi_vec3 corner;
    fsi_sph sph;
    fsi_solids solids;
    fsi_shape room; /* the tank, for the bodies */
    fsi_sph_rigid couple;

    /* The bodies: their shapes, their numbers among the solids and among the fluid's objects. */
    int count;
    fsi_shape shape[SWIM_BODIES];
    int body[SWIM_BODIES];
    int object[SWIM_BODIES];

    double time;         /* s */
    int stable;          /* 0 after a failed step, or when a body is faster than 100 m/s */
    int particles;       /* at first */
    long steps;          /* so far */
    int capped;          /* steps that ended without agreement */
    int last_iterations; /* of the last step */
    int most_iterations; /* of any step */
    double iterations;   /* of all steps */
    double peak;         /* fastest speed of a body, m/s */
    double density;      /* largest density over that at rest */
    double error;        /* largest relative error of the density */
    double momentum;     /* largest error in a step's ledger, kg m/s */
} swim;

/* An empty tank. Of the fluid's desc the caller gives sizes, spacing, viscosity and gravity. The
   pressure always takes five iterations: then the fluid's answer changes smoothly with the motion
   of the bodies, which is what the coupling needs. */
EX void swim_begin(swim *tank, fsi_sph_desc fluid, fsi_vec3 corner, int sweeps) {
    memset(tank, 0, sizeof *tank);
    tank->corner = corner;
    tank->stable = 1;
    fluid.solver = FSI_SPH_DFSPH;
    fluid.density = 1000;
    fluid.density_error = 1e-12;
    fluid.divergence_error = 1e-12;
    fluid.max_iterations = 5;
    ex_need(fsi_sph_init(&tank->sph, &fluid));

    fsi_solids_desc solids = {
        .dim = 3,
        .max_bodies = 1 + SWIM_BODIES,
        .max_contacts = 2000,
        .gravity = fluid.gravity,
        .substeps = 1,
        .iterations = sweeps,
    };
    ex_need(fsi_solids_init(&tank->solids, &solids));

    fsi_shape_desc inside = {
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec_scale(corner, 0.5),
    };
    ex_need(fsi_shape_init(&tank->room, &inside));
    fsi_rigid_desc walls = {
        .shape = &tank->room,
        .x = inside.half,
        .kind = FSI_RIGID_FIXED,
    };
    ex_need(fsi_solids_add(&tank->solids, &walls, NULL));
}

/* Fluid from wall to wall between two heights, disturbed by a share of its spacing, and the walls
   of the tank as boundary particles. */
EX void swim_fill(swim *tank, double from, double to, uint32_t seed, double noise) {
    fsi_vec3 corner = tank->corner;
    fsi_vec3 lower = fsi_vec(0, from, 0);
    fsi_vec3 upper = fsi_vec(corner.x, to, corner.z);
    fsi_vec3 none = fsi_vec(0, 0, 0);
    ex_need(fsi_sph_add_block(&tank->sph, lower, upper, none, &tank->particles));
    water_disturb(&tank->sph, seed, noise * tank->sph.desc.spacing);
    ex_need(fsi_sph_add_box_walls(&tank->sph, none, corner, 0, NULL));
}

/* Adds a body whose shape is the next free one of the tank. Its boundary particles lie on skin,
   half a spacing inside its surface and where the body is now. */
EX void swim_add(swim *tank, fsi_rigid_desc desc, const fsi_surface *skin) {
    int i = tank->count++;
    desc.shape = &tank->shape[i];
    desc.kind = FSI_RIGID_DYNAMIC;
    ex_need(fsi_solids_add(&tank->solids, &desc, &tank->body[i]));
    ex_need(fsi_sph_add_surface(&tank->sph, skin, desc.x, 1, &tank->object[i]));
}

/* The coupling by its word. */
EX fsi_sph_scheme swim_scheme(const ex_args *args) {
    if (ex_is(args, "scheme", "weak"))
        return FSI_SPH_WEAK;
    if (ex_is(args, "scheme", "p"))
        return FSI_SPH_RELAXED;
    if (ex_is(args, "scheme", "aitken"))
        return FSI_SPH_AITKEN;
    return FSI_SPH_XPM;
}

/* Couples fluid and bodies when all of them are there. desc: scheme and tolerances. */
EX void swim_couple(swim *tank, fsi_sph_rigid_desc desc) {
    desc.sph = &tank->sph;
    desc.world = &tank->solids;
    desc.count = tank->count;
    desc.body = tank->body;
    desc.object = tank->object;
    ex_need(fsi_sph_rigid_init(&tank->couple, &desc));
}

/* 1 while there are steps to do in this frame. */
EX int swim_before(const swim *tank, double end) {
    return tank->stable && tank->time < end - 1e-9;
}

/* Steps of equal length to the end of the frame: no sliver remains. */
EX double swim_dt(const swim *tank, double end) {
    double rest = end - tank->time;
    return rest / ceil(rest / fsi_sph_max_dt(&tank->sph) - 1e-6);
}

/* The fastest body, m/s. */
EX double swim_speed(const swim *tank) {
    double speed = 0;
    for (int i = 0; i < tank->count; i++)
        speed = fmax(speed, fsi_vec_length(tank->solids.body[tank->body[i]].v));
    return speed;
}

/* One step of fluid and bodies, and its sums. */
EX fsi_result swim_step(swim *tank, double dt) {
    fsi_report report = {0};
    fsi_result result = ex_try(fsi_sph_rigid_step(&tank->couple, dt, &report));
    double speed = swim_speed(tank);

    tank->time += dt;
    tank->steps++;
    tank->stable = result >= 0 && speed < 100;
    tank->capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
    tank->last_iterations = report.iterations;
    tank->iterations += report.iterations;
    if (report.iterations > tank->most_iterations)
        tank->most_iterations = report.iterations;

    tank->peak = fmax(tank->peak, speed);
    tank->density = fmax(tank->density, tank->sph.stats.max_density);
    tank->error = fmax(tank->error, tank->sph.stats.density_error);
    for (int axis = 0; axis < 3; axis++)
        tank->momentum = fmax(tank->momentum, fabs(report.momentum[axis]));
    return result;
}

EX double swim_mean_iterations(const swim *tank) {
    return tank->iterations / (double)(tank->steps > 0 ? tank->steps : 1);
}

/* Where body i is. */
EX fsi_vec3 swim_position(const swim *tank, int i) {
    return tank->solids.body[tank->body[i]].x;
}

/* Particles that left the tank by more than a spacing, or vanished. */
EX long swim_lost(const swim *tank) {
    double lo[3] = {0, 0, 0};
    double hi[3] = {tank->corner.x, tank->corner.y, tank->corner.z};
    int vanished = tank->particles - tank->sph.now.count;
    return water_outside(&tank->sph, lo, hi, tank->sph.desc.spacing) + vanished;
}

/* Draws body i where it is now. */
EX void swim_draw_body(ex_image *image, const ex_camera *camera, const swim *tank, int i,
                       ex_color color) {
    size_t vertices = (size_t)tank->shape[i].surface.vertex_count;
    fsi_real *x = (fsi_real *)ex_alloc(vertices, 3 * sizeof *x);
    fsi_surface surface;
    if (fsi_solids_surface(&tank->solids, tank->body[i], x, NULL, &surface) == FSI_OK)
        ex_draw_surface3(image, camera, &surface, color);
    free(x);
}

EX void swim_end(swim *tank) {
    fsi_sph_rigid_free(&tank->couple);
    fsi_solids_free(&tank->solids);
    fsi_sph_free(&tank->sph);
    fsi_shape_free(&tank->room);
    for (int i = 0; i < tank->count; i++)
        fsi_shape_free(&tank->shape[i]);
}
#endif
