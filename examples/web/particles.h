/* particles.h: fluids of particles: a dam that breaks onto floating boxes, and a soft gate. */
#ifndef PARTICLE_SCENES_H
#define PARTICLE_SCENES_H
#include "picture.h"

enum {
    SWIM_BODIES = 4
};

/* Particles and rigid bodies that meet at boundary particles. */
static struct swim {
    fsi_sph sph;
    fsi_solids solids;
    fsi_sph_rigid couple;
    int body[SWIM_BODIES], object[SWIM_BODIES];
    int count;
} swim;

/* An empty tank from the origin to (width, height): walls for particles and for bodies. Compression
   to a thousandth is what a moving picture needs. */
static fsi_result swim_begin(double width, double height, double spacing, int capacity) {
    fsi_vec3 gravity = fsi_vec(0, FSI_R(-9.81), 0);
    fsi_sph_desc fluid = {
        .dim = 2,
        .spacing = spacing,
        .capacity = capacity,
        .boundary_capacity = 4000,
        .solver = FSI_SPH_DFSPH,
        .density = 1000,
        .density_error = FSI_R(1e-3),
        .divergence_error = FSI_R(1e-3),
        .viscosity = FSI_R(0.5),
        .gravity = gravity,
        .dt_max = FSI_R(1.0) / 240,
    };
    fsi_solids_desc solids = {.dim = 2, .max_bodies = 1 + SWIM_BODIES, .gravity = gravity};
    fsi_shape_desc room = {.kind = FSI_SHAPE_ROOM, .dim = 2};
    room.half = fsi_vec(width / 2, height, 0);
    fsi_result result = fsi_sph_init(&swim.sph, &fluid);
    if (result >= 0)
        result = fsi_solids_init(&swim.solids, &solids);
    if (result < 0)
        return result;
    stage.sph = &swim.sph;
    stage.solids = &swim.solids;
    stage.fluid_density = 1000;
    stage.hi = fsi_vec(width, height, 0);
    fsi_rigid_desc walls = {.kind = FSI_RIGID_FIXED, .shape = stage_shape(&room)};
    walls.x = room.half;
    fsi_solids_add(&swim.solids, &walls, NULL);
    fsi_vec3 top = fsi_vec(width, 1.5 * height, 0);
    return fsi_sph_add_box_walls(&swim.sph, fsi_vec(0, 0, 0), top, 0, NULL);
}

/* A body with boundary particles on its surface, half a spacing inside. */
static fsi_result swim_add(const fsi_rigid_desc *desc, double density, double shrink) {
    fsi_real x[3 * 64] = {0};
    const fsi_surface *own = &desc->shape->surface;
    fsi_surface skin = *own;
    fsi_result result = stage_add(desc, density);
    if (result < 0 || own->vertex_count > 64)
        return FSI_ERR_SIZE;
    for (int i = 0; i < own->vertex_count; i++) {
        fsi_vec3 corner = fsi_vec_load(own->x + 3 * i);
        fsi_vec_store(x + 3 * i, fsi_vec_mad(desc->x, corner, shrink));
    }
    skin.x = x;
    skin.v = NULL;
    swim.body[swim.count] = stage.body[stage.bodies - 1].id;
    return fsi_sph_add_surface(&swim.sph, &skin, desc->x, 1, &swim.object[swim.count++]);
}

static fsi_result swim_couple(fsi_sph_scheme scheme) {
    fsi_sph_rigid_desc desc = {
        .sph = &swim.sph,
        .world = &swim.solids,
        .count = swim.count,
        .body = swim.body,
        .object = swim.object,
        .scheme = scheme,
        .tolerance = FSI_R(0.2),
        .max_iterations = 12,
    };
    stage_keep(PART_SPH_RIGID, &swim.couple, 0);
    return fsi_sph_rigid_init(&swim.couple, &desc);
}

/* As many steps as the particles need. The hand's pull lasts for all of them. */
static fsi_result swim_step(fsi_real dt, fsi_report *report) {
    fsi_vec3 pull[1 + SWIM_BODIES];
    fsi_result result = FSI_OK;
    fsi_real left = dt;
    int iterations = 0;
    for (int i = 0; i < swim.solids.body_count; i++)
        pull[i] = swim.solids.body[i].force;
    for (int part = 0; part < 12 && left > dt / 1000 && result >= 0; part++) {
        fsi_real most = fsi_sph_max_dt(&swim.sph);
        fsi_real step = most < left ? most : left;
        for (int i = 0; part && i < swim.solids.body_count; i++)
            swim.solids.body[i].force = pull[i];
        result = fsi_sph_rigid_step(&swim.couple, step, report);
        iterations += report->iterations;
        left -= step;
    }
    report->iterations = iterations;
    return result;
}

static void swim_end(void) {
    fsi_sph_rigid_free(&swim.couple);
    fsi_sph_free(&swim.sph);
    fsi_solids_free(&swim.solids);
    memset(&swim, 0, sizeof swim);
}

/* ------------------------------------------------------------------------------------------------
 * dam: a column of water collapses onto boxes that float in a shallow */
static fsi_result dam_make(void) {
    double spacing = 0.028;
    fsi_result result = swim_begin(2.24, 1.4, spacing, 2000);
    double column = 22 * spacing;
    double bed = 5 * spacing;
    fsi_vec3 rest = fsi_vec(0, 0, 0);
    if (result >= 0)
        result = fsi_sph_add_block(&swim.sph, rest, fsi_vec(column, 0.95, 0), rest, NULL);
    if (result >= 0)
        result = fsi_sph_add_block(&swim.sph, fsi_vec(column, 0, 0), fsi_vec(stage.hi.x, bed, 0),
                                   rest, NULL);
    int boxes = (int)value_of("boxes");
    const fsi_shape *box = stage_box(0.12, 0.1);
    for (int i = 0; i < boxes && result >= 0; i++) {
        fsi_rigid_desc body = {.kind = FSI_RIGID_DYNAMIC, .shape = box, .friction = FSI_R(0.3)};
        double y = bed + 0.11 + 0.215 * (i / 2);
        body.x = fsi_vec(1.25 + 0.3 * (i % 2) + 0.15 * (i / 2), y, 0);
        result = swim_add(&body, value_of("density"), 1 - spacing / 0.2);
    }
    return result < 0 ? result : swim_couple(FSI_SPH_XPM);
}

/* ------------------------------------------------------------------------------------------------
 * gate: water behind a rubber gate that hangs from its upper edge. In space, seen from the side. */
static struct gate {
    fsi_sph sph;
    fsi_tled rubber;
    fsi_proxy_solid solid;
    fsi_proxy proxy;
    fsi_mesh mesh;
    double balance_at_first; /* particles of the tap less those of the drain */
} gate;

static const double gate_x = 0.36, gate_top = 0.46, gate_depth = 0.1; /* m */

static fsi_result gate_rubber(void) {
    fsi_vec3 lower = fsi_vec(gate_x, 0.012, 0.002);
    fsi_vec3 upper = fsi_vec(gate_x + 0.02, gate_top, gate_depth - 0.002);
    fsi_result result = fsi_mesh_box(&gate.mesh, lower, upper, 1, 16, 4, 1, NULL);
    fsi_tled_desc desc = {
        .nodes = gate.mesh.vertex_count,
        .tets = gate.mesh.tet_count,
        .x = gate.mesh.x,
        .tet = gate.mesh.tet,
        .density = 1100,
        .young = value_of("young"),
        .poisson = FSI_R(0.4),
        .damping = 4,
        .gravity = fsi_vec(0, FSI_R(-9.81), 0),
    };
    if (result >= 0)
        result = fsi_tled_init(&gate.rubber, &desc);
    for (int i = 0; i < desc.nodes && result >= 0; i++)
        if (gate.rubber.x[3 * i + 1] > gate_top - 0.05)
            result = fsi_tled_fix(&gate.rubber, i, fsi_vec(0, 0, 0));
    return result;
}

/* A tap keeps the water coming, a drain takes what has passed the gate. */
static fsi_result gate_water(double spacing) {
    fsi_sph_desc desc = {
        .capacity = 2600,
        .boundary_capacity = 6000,
        .spacing = spacing,
        .density = 1000,
        .sound_speed = 22,
        .viscosity = 1,
        .artificial = FSI_R(0.1),
        .gravity = fsi_vec(0, FSI_R(-9.81), 0),
    };
    fsi_sph_emitter tap = {
        .centre = fsi_vec(0.1, 0.55, gate_depth / 2),
        .direction = fsi_vec(0, -1, 0),
        .radius = FSI_R(0.045),
        .speed = value_of("tap"),
    };
    fsi_sph_box drain = {fsi_vec(1, -1, -1), fsi_vec(9, 9, 9), 0};
    fsi_vec3 rest = fsi_vec(0, 0, 0);
    fsi_vec3 corner = fsi_vec(gate_x - spacing / 4, 0.34, gate_depth);
    fsi_result result = fsi_sph_init(&gate.sph, &desc);
    if (result >= 0)
        result = fsi_sph_add_block(&gate.sph, rest, corner, rest, NULL);
    if (result >= 0 && tap.speed > 0)
        result = fsi_sph_add_emitter(&gate.sph, &tap);
    if (result >= 0)
        result = fsi_sph_add_removal(&gate.sph, &drain);
    unsigned open_right = 2;
    if (result >= 0)
        result =
            fsi_sph_add_box_walls(&gate.sph, rest, fsi_vec(1.1, 0.7, gate_depth), open_right, NULL);
    return result;
}

static fsi_result gate_make(void) {
    fsi_result result = gate_water(0.02);
    if (result >= 0)
        result = gate_rubber();
    if (result < 0)
        return result;
    stage.sph = &gate.sph;
    stage.fluid_density = 1000;
    stage.hi = fsi_vec(1, 0.6, gate_depth);
    gate.solid.tled = &gate.rubber;
    gate.solid.slip = 1;
    fsi_proxy_desc desc = {.sph = &gate.sph, .solid = &gate.solid, .count = 1};
    stage_keep(PART_SPH, &gate.sph, 0);
    stage_keep(PART_TLED, &gate.rubber, 0);
    stage_keep(PART_NUMBERS, &gate.balance_at_first, sizeof gate.balance_at_first);
    return fsi_proxy_init(&gate.proxy, &desc);
}

static fsi_result gate_step(fsi_real dt, fsi_report *report) {
    fsi_result result = FSI_OK;
    fsi_real most = fsi_sph_max_dt(&gate.sph);
    int parts = (int)ceil((double)(dt / most));
    parts = parts < 1 ? 1 : parts > 40 ? 40 : parts;
    for (int i = 0; i < parts && result >= 0; i++)
        result = fsi_proxy_step(&gate.proxy, dt / parts, report);
    report->iterations = parts;

    /* Before the first step ends, nobody has asked for a volume yet. */
    const fsi_sph_scalars *now = &gate.sph.now;
    double each = pow((double)gate.sph.desc.spacing, 3);
    if (stage.steps == 0)
        gate.balance_at_first = (double)(now->emitted - now->removed);
    stage.volume_added = each * ((double)(now->emitted - now->removed) - gate.balance_at_first);
    return result;
}

static void gate_draw(void) {
    picture.table.dim = 3;
}

static void gate_end(void) {
    fsi_proxy_free(&gate.proxy);
    fsi_tled_free(&gate.rubber);
    fsi_sph_free(&gate.sph);
    fsi_mesh_free(&gate.mesh);
    memset(&gate, 0, sizeof gate);
}

/* ------------------------------------------------------------------------------------------------
 * the two */
static scene dam_scene = {
    .name = "dam",
    .setting = {{"density", 0.01, 10, 0.3, 1, 0}, {"boxes", 1, SWIM_BODIES, 3, 1, 0}},
    .dt = 1.0 / 120,
    .make = dam_make,
    .step = swim_step,
    .end = swim_end,
};

static scene gate_scene = {
    .name = "gate",
    .setting = {{"young", 5e4, 5e6, 3e5, 1, 0}, {"tap", 0, 2, 1.2, 1, 0}},
    .dt = 1.0 / 480,
    .make = gate_make,
    .step = gate_step,
    .draw = gate_draw,
    .end = gate_end,
};
#endif
