/* jelly.h: a jellyfish swims by contracting its bell. Bell and arms are reduced bodies: a few
   numbers each say how they are bent. The bell's basis are fields of contraction; the muscle moves
   the rest shape along the first of them, so its force is balanced exactly. */
#ifndef JELLY_SCENE_H
#define JELLY_SCENE_H
#include "picture.h"
#include "forms.h"

enum {
    JELLY_BASIS = 3,
    JELLY_ARMS = 4,
    JELLY_BODIES = 1 + JELLY_ARMS,
    JELLY_DOTS = 700
};

static const double jelly_height = 0.2; /* of the bell, m */

static struct jelly {
    fsi_reduced_model model[2]; /* bell, arm */
    fsi_reduced body[JELLY_BODIES];
    fsi_reduced_group group;
    fsi_coupled door;
    fsi_real target[JELLY_BASIS]; /* the bell fully contracted, in its basis */
    fsi_real dot[3 * JELLY_DOTS]; /* plankton */
    double phase;                 /* of the stroke, periods */
} jelly;

/* Field k of the bell at x; the share is 0 at the top and 1 at the rim. */
static fsi_vec3 jelly_field(int k, fsi_vec3 x, fsi_real top) {
    fsi_real share = (top - x.y) / jelly_height;
    if (k == 0)
        return fsi_vec(-share * x.x, 0, -share * x.z);
    if (k == 1)
        return fsi_vec(-share * share * x.x, 0, -share * share * x.z);
    return fsi_vec(0, share * share, 0); /* the rim goes up and down */
}

static fsi_real jelly_top(const fsi_mesh *mesh) {
    fsi_real top = mesh->x[1];
    for (int i = 1; i < mesh->vertex_count; i++)
        top = mesh->x[3 * i + 1] > top ? mesh->x[3 * i + 1] : top;
    return top;
}

/* Where the contraction lies in the model's own basis: q = S^T M u. */
static void jelly_aim(const fsi_mesh *mesh, fsi_real top) {
    const fsi_reduced_model *bell = &jelly.model[0];
    for (int n = 0; n < bell->vertex_count; n++) {
        fsi_real u[3];
        fsi_vec_store(u, jelly_field(0, fsi_vec_load(mesh->x + 3 * n), top));
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < JELLY_BASIS; k++) {
                fsi_real column = bell->S[(3 * n + c) * JELLY_BASIS + k];
                jelly.target[k] += column * bell->node_mass[n] * u[c];
            }
    }
}

static fsi_result jelly_bell(void) {
    form_body form = {FORM_BELL, FSI_R(0.2), FSI_R(0.09), FSI_R(0.2), 0, {0, 0, 0}};
    fsi_mesh mesh = {0};
    fsi_vec3 far_corner = fsi_vec(0.32, 0.32, 0.32);
    fsi_vec3 corner = fsi_vec_scale(far_corner, -1);
    fsi_result result =
        fsi_mesh_from_sdf(&mesh, form_distance, &form, corner, far_corner, FSI_R(0.045), NULL);
    if (result < 0)
        return result;
    size_t numbers = 3 * (size_t)mesh.vertex_count;
    fsi_real *basis = malloc(JELLY_BASIS * numbers * sizeof *basis);
    fsi_real top = jelly_top(&mesh);
    for (int k = 0; k < JELLY_BASIS && basis; k++)
        for (int i = 0; i < mesh.vertex_count; i++) {
            fsi_vec3 field = jelly_field(k, fsi_vec_load(mesh.x + 3 * i), top);
            fsi_vec_store(basis + (size_t)k * numbers + 3 * (size_t)i, field);
        }
    fsi_reduced_desc desc = {
        .mesh = &mesh,
        .modes = JELLY_BASIS,
        .basis = basis,
        .density = 1000,
        .young = FSI_R(2e5),
        .poisson = FSI_R(0.3),
        .damping_stiffness = FSI_R(0.01),
        .samples = 30,
        .field = 12,
    };
    result = basis ? fsi_reduced_model_init(&jelly.model[0], &desc) : FSI_ERR_MEMORY;
    if (result >= 0)
        jelly_aim(&mesh, top);
    free(basis);
    fsi_mesh_free(&mesh);
    return result;
}

static fsi_result jelly_arm(void) {
    form_body form = {FORM_ARM, FSI_R(0.36), FSI_R(0.032), FSI_R(0.026), 0, {0, 0, 0}};
    fsi_mesh mesh = {0};
    fsi_result result = fsi_mesh_from_sdf(&mesh, form_distance, &form, fsi_vec(-0.1, -0.46, -0.1),
                                          fsi_vec(0.1, 0.1, 0.1), FSI_R(0.034), NULL);
    fsi_reduced_desc desc = {
        .mesh = &mesh,
        .modes = 4,
        .density = 1000,
        .young = FSI_R(2e4),
        .poisson = FSI_R(0.4),
        .damping_stiffness = FSI_R(0.01),
        .samples = 20,
        .field = 12,
    };
    if (result >= 0)
        result = fsi_reduced_model_init(&jelly.model[1], &desc);
    fsi_mesh_free(&mesh);
    return result;
}

/* Vertex of a model next to x, in the coordinates of its mesh. */
static int jelly_vertex(const fsi_reduced_model *model, fsi_vec3 x) {
    double least = 1e9;
    int best = 0;
    x = fsi_vec_sub(x, model->centre);
    for (int i = 0; i < model->vertex_count; i++) {
        double away = distance_to(x, fsi_vec_load(model->x0 + 3 * i));
        if (away < least) {
            least = away;
            best = i;
        }
    }
    return best;
}

/* The bell at a place, the arms under it, and the joints between them. */
static fsi_result jelly_assemble(fsi_vec3 at) {
    fsi_reduced_joint joint[JELLY_ARMS];
    fsi_reduced *list[JELLY_BODIES];
    fsi_result result = fsi_reduced_init(&jelly.body[0], &jelly.model[0], at, NULL);
    int root = jelly_vertex(&jelly.model[1], fsi_vec(0, 0, 0));
    list[0] = &jelly.body[0];
    for (int k = 0; k < JELLY_ARMS && result >= 0; k++) {
        double turn = 1.5707963 * k + 0.785;
        fsi_vec3 under = fsi_vec(0.05 * cos(turn), 0.1, 0.05 * sin(turn));
        int vertex = jelly_vertex(&jelly.model[0], under);
        fsi_vec3 place = fsi_vec_sub(fsi_reduced_point(&jelly.body[0], vertex),
                                     fsi_vec_load(jelly.model[1].x0 + 3 * root));
        result = fsi_reduced_init(&jelly.body[k + 1], &jelly.model[1], place, NULL);
        list[k + 1] = &jelly.body[k + 1];
        joint[k].body[0] = 0;
        joint[k].body[1] = k + 1;
        joint[k].vertex[0] = vertex;
        joint[k].vertex[1] = root;
    }
    if (result < 0)
        return result;
    return fsi_reduced_group_init(&jelly.group, list, JELLY_BODIES, joint, JELLY_ARMS, NULL, NULL);
}

/* ---- muscles */
static fsi_vec3 jelly_axis(const fsi_reduced *body) {
    const fsi_real *turn = body->axes.m;
    return fsi_vec(turn[1], turn[4], turn[7]);
}

static void jelly_twist(fsi_reduced *body, fsi_vec3 torque) {
    fsi_real *force = body->force + 3;
    fsi_vec_store(force, fsi_vec_add(fsi_vec_load(force), torque));
}

static void jelly_push(fsi_reduced *body, fsi_vec3 force) {
    fsi_vec_store(body->force, fsi_vec_add(fsi_vec_load(body->force), force));
}

/* It contracts fast and relaxes slowly: that is what swims. */
static double jelly_contraction(void) {
    const double fast = 0.3;
    double phase = jelly.phase - floor(jelly.phase);
    return phase < fast ? ease(phase / fast) : ease((1 - phase) / (1 - fast));
}

/* Opposite torques on bell and arm keep the arm along the bell's axis. */
static void jelly_hang(fsi_reduced *bell, fsi_reduced *arm) {
    fsi_vec3 lean = fsi_vec_cross(jelly_axis(arm), jelly_axis(bell));
    jelly_twist(arm, lean);
    jelly_twist(bell, fsi_vec_scale(lean, -1));
}

/* A little heavier than water; and soft walls turn it back before it meets the real ones. */
static fsi_vec3 jelly_weight(const fsi_reduced *bell) {
    fsi_vec3 x = bell->rigid->position;
    fsi_vec3 lower = fsi_vec(0.36, 0.5, 0.36);
    fsi_vec3 upper = fsi_vec(0.44, 1.05, 0.44);
    fsi_vec3 inside = fsi_vec(between(lower.x, x.x, upper.x), between(lower.y, x.y, upper.y),
                              between(lower.z, x.z, upper.z));
    fsi_vec3 back = fsi_vec_scale(fsi_vec_sub(inside, x), 60);
    return fsi_vec_add(back, fsi_vec(0, -value_of("weight"), 0));
}

static fsi_result jelly_begin(fsi_real dt, void *user) {
    fsi_reduced *bell = &jelly.body[0];
    double strength = value_of("stroke") * jelly_contraction();
    fsi_result result = FSI_OK;
    (void)user;
    jelly.phase += (double)dt / value_of("period");
    for (int k = 0; k < JELLY_BASIS; k++)
        bell->force[6 + k] += strength * bell->model->omega2[k] * jelly.target[k];
    fsi_vec3 lean = fsi_vec_cross(jelly_axis(bell), fsi_vec(0, 1, 0));
    jelly_twist(bell, fsi_vec_scale(lean, FSI_R(0.6)));
    jelly_push(bell, jelly_weight(bell));
    for (int k = 1; k < JELLY_BODIES; k++)
        jelly_hang(bell, &jelly.body[k]);
    for (int k = 0; k < JELLY_BODIES && result >= 0; k++)
        result = fsi_reduced_forces(&jelly.body[k], dt);
    return result < 0 ? result : fsi_reduced_group_couple(&jelly.group, dt, &jelly.door);
}

static fsi_result jelly_move(fsi_real dt, void *user) {
    fsi_result result = fsi_reduced_group_take(&jelly.group);
    (void)user;
    return result < 0 ? result : fsi_reduced_group_move(&jelly.group, dt);
}

/* ---- the scene */
/* Plankton, evenly spread. */
static void jelly_plankton(void) {
    const double turn[3] = {0.8191725134, 0.6710436067, 0.5497004779};
    const double box[3] = {0.8, 1.4, 0.8};
    for (int i = 0; i < JELLY_DOTS; i++)
        for (int axis = 0; axis < 3; axis++)
            jelly.dot[3 * i + axis] = fmod(0.5 + i * turn[axis], 1) * box[axis];
}

static fsi_result jelly_make(void) {
    fsi_world_desc desc = {
        .grid.nx = 12,
        .grid.ny = 21,
        .grid.nz = 12,
        .grid.h = FSI_R(1.4) / 21,
        .grid.rho = 1000,
        .grid.tolerance = 1e-4,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.warm_start = 1,
        .max_guests = 1,
        .no_walls = 1,
    };
    fsi_result result = stage_world(&desc);
    if (result >= 0)
        result = jelly_bell();
    if (result >= 0)
        result = jelly_arm();
    if (result >= 0)
        result = jelly_assemble(fsi_vec(0.4, 0.7, 0.4));
    if (result < 0)
        return result;
    for (int i = 0; i < JELLY_BODIES; i++)
        stage_keep(PART_REDUCED, &jelly.body[i], 0);
    jelly_plankton();
    stage_keep(PART_NUMBERS, jelly.dot, sizeof jelly.dot);
    stage_keep(PART_NUMBERS, &jelly.phase, sizeof jelly.phase);
    fsi_guest guest = {
        .door = &jelly.door,
        .stages = {.begin_fn = jelly_begin, .move_fn = jelly_move},
    };
    return fsi_world_add_guest(stage.world, &guest);
}

static fsi_result jelly_step(fsi_real dt, fsi_report *report) {
    fsi_result result = fsi_world_step(stage.world, dt, report);
    fsi_grid_trace(&stage.world->grid, JELLY_DOTS, jelly.dot, dt);
    return result;
}

static void jelly_draw(void) {
    fsi_surface surface = fsi_reduced_group_surface(&jelly.group);
    picture_surface(&surface, PIECE_ALIVE, 1, stage.hand.kind == HAND_REDUCED);
    for (int i = 0; i < JELLY_DOTS; i++)
        picture_point(jelly.dot[3 * i], jelly.dot[3 * i + 1], jelly.dot[3 * i + 2], 1);
}

static void jelly_end(void) {
    fsi_reduced_group_free(&jelly.group);
    for (int i = 0; i < JELLY_BODIES; i++)
        fsi_reduced_free(&jelly.body[i]);
    for (int i = 0; i < 2; i++)
        fsi_reduced_model_free(&jelly.model[i]);
    memset(&jelly, 0, sizeof jelly);
}

static scene jelly_scene = {
    .name = "jellyfish",
    .setting = {{"stroke", 0, 0.6, 0.4, 0, 0},
                {"period", 0.3, 1.5, 0.55, 0, 0},
                {"weight", 0, 6, 1.5, 0, 0}},
    .dt = 1.0 / 30,
    .make = jelly_make,
    .step = jelly_step,
    .draw = jelly_draw,
    .end = jelly_end,
};
#endif
