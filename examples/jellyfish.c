/* jellyfish: a bell with four jointed arms swims by contracting its bell (Lu et al. 2016, fig. 8,
   9), one or three of them. The bell is a reduced body with a basis of its own: contraction fields
   instead of vibration modes. The muscle moves the rest shape, so its force acts on the modes
   alone and is balanced exactly. Weight and buoyancy cancel but for their couple, which rights the
   bell. Bell and arms wear one skin; the dots are plankton.

       build/jellyfish --out out
       build/jellyfish --set bodies=3

   Result: way upward in body lengths, and how far the joints come apart. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swarm.h"

enum {
    BASIS = 3,
    ARMS = 4,
    PLANKTON = 1500
};

static fsi_real plankton[3 * PLANKTON];
static form_body bell_form = {FORM_BELL, FSI_R(0.2), FSI_R(0.09), FSI_R(0.2), 0, {0, 0, 0}},
                 arm_form = {FORM_ARM, FSI_R(0.2), FSI_R(0.032), FSI_R(0.026), 0, {0, 0, 0}};
static swarm s;
static const double RADIUS = 0.2, HEIGHT = 0.2;

typedef struct muscle {
    double time;
    double period;
    double strength;
    double part;
    double friction;
    double spring;
    double righting;
    fsi_real target[BASIS];
    int bodies;
} muscle;

/* Field k of the bell at x, t = 0 at the top to 1 at the rim. */
static fsi_vec3 field(int k, fsi_vec3 x, fsi_real top) {
    fsi_real t = (top - x.y) / HEIGHT;
    switch (k) {
    case 0:
        return fsi_vec(-t * x.x, 0, -t * x.z); /* contraction */
    case 1:
        return fsi_vec(-t * t * x.x, 0, -t * t * x.z);
    default:
        return fsi_vec(0, t * t, 0); /* the rim goes up and down */
    }
}

/* Angular velocity of a body's momentum: the rotational block of the inverse mass times it. */
static fsi_vec3 spin(const fsi_reduced *reduced) {
    fsi_real inverse[26 * 26];
    fsi_real velocity[3];
    int n = 6 + reduced->model->modes;
    fsi_vec3 momentum = reduced->rigid->angular_momentum;
    fsi_reduced_mass(reduced, 0, NULL, inverse);
    for (int i = 0; i < 3; i++) {
        const fsi_real *row = inverse + (3 + i) * n + 3;
        velocity[i] = row[0] * momentum.x + row[1] * momentum.y + row[2] * momentum.z;
    }

    return fsi_vec_load(velocity);
}

/* The axis of a body: its own y direction. */
static fsi_vec3 body_axis(const fsi_reduced *reduced) {
    const fsi_real *turn = reduced->axes.m;
    return fsi_vec(turn[1], turn[4], turn[7]);
}

/* A torque on a body. */
static void twist(fsi_reduced *reduced, fsi_vec3 torque) {
    fsi_real *force = reduced->force + 3;
    fsi_vec_store(force, fsi_vec_add(fsi_vec_load(force), torque));
}

/* Contracts during `part` of the period, relaxes during the rest; part 0.5 is the sine. */
static double contraction(const muscle *m) {
    const double pi = 3.14159265358979;
    double phase = fmod(m->time / m->period, 1);
    if (phase < m->part)
        return 0.5 - 0.5 * cos(pi * phase / m->part);
    return 0.5 + 0.5 * cos(pi * (phase - m->part) / (1 - m->part));
}

/* A joint between bell and arm: friction, and a spring that keeps the arm along the axis of the
   bell, as opposite torques on both. */
static void drive_arm(const muscle *m, fsi_reduced *bell, fsi_reduced *arm) {
    fsi_vec3 torque = fsi_vec_scale(fsi_vec_sub(spin(bell), spin(arm)), m->friction);
    fsi_vec3 lean = fsi_vec_cross(body_axis(arm), body_axis(bell));
    torque = fsi_vec_mad(torque, lean, m->spring);
    twist(arm, torque);
    twist(bell, fsi_vec_scale(torque, -1));
}

static void drive(swarm *w, fsi_real dt, void *user) {
    muscle *m = (muscle *)user;
    double strength = m->strength * contraction(m);
    for (int i = 0; i < m->bodies; i++) {
        fsi_reduced *bell = &w->body[i * (ARMS + 1)];
        fsi_vec3 lean = fsi_vec_cross(body_axis(bell), fsi_vec(0, 1, 0));
        twist(bell, fsi_vec_scale(lean, m->righting));
        for (int k = 0; k < BASIS; k++)
            bell->force[6 + k] += strength * bell->model->omega2[k] * m->target[k];
        for (int k = 1; k <= ARMS; k++)
            drive_arm(m, bell, bell + k);
    }

    m->time += dt;
}

static ex_color color(const swarm *q, int i) {
    (void)q;
    return ex_rgb(245 - 60 * (i == 2), 140 + 50 * (i == 1), 150 + 80 * (i == 2));
}

static int make_models(const ex_args *args, fsi_mesh *mesh, fsi_reduced_model *model, muscle *m) {
    fsi_real top = -1e30;
    if (!swarm_mesh(&mesh[0], &bell_form, fsi_vec(0.3, 0.3, 0.3), ex_whole(args, "tets")))
        return 0;
    if (!swarm_mesh(&mesh[1], &arm_form, fsi_vec(0.06, 0.26, 0.06), ex_whole(args, "tets") / 10))
        return 0;
    int n = 3 * mesh[0].vertex_count;
    fsi_real *basis;
    basis = (fsi_real *)malloc(sizeof *basis * (size_t)(BASIS * n));
    int i;

    for (i = 0; i < n / 3; i++)
        if (mesh[0].x[3 * i + 1] > top)
            top = mesh[0].x[3 * i + 1];

    for (int k = 0; k < BASIS; k++)
        for (i = 0; i < n / 3; i++)
            fsi_vec_store(basis + k * n + 3 * i, field(k, fsi_vec_load(mesh[0].x + 3 * i), top));

    fsi_reduced_desc desc = {
        .mesh = &mesh[0],
        .modes = BASIS,
        .basis = basis,
        .density = 1000,
        .young = ex_number(args, "young"),
        .poisson = 0.3,
        .damping_stiffness = 0.01,
        .samples = 60,
        .field = 16,
    };

    i = fsi_reduced_model_init(&model[0], &desc);

    /* q = S^T M u of the wanted contraction */
    for (int k = 0; k < BASIS && i == FSI_OK; k++) {
        m->target[k] = 0;
        for (n = 0; n < model[0].vertex_count; n++) {
            fsi_real u[3];
            fsi_vec_store(u, field(0, fsi_vec_load(mesh[0].x + 3 * n), top));
            for (int c = 0; c < 3; c++)
                m->target[k] += model[0].S[(3 * n + c) * BASIS + k] * model[0].node_mass[n] * u[c];
        }
    }

    free(basis);
    desc.mesh = &mesh[1];
    desc.modes = ex_whole(args, "modes");
    desc.basis = NULL;
    desc.young = 2e4;
    desc.poisson = 0.4;
    return i == FSI_OK && fsi_reduced_model_init(&model[1], &desc) == FSI_OK;
}

static const ex_about about = {
    .name = "jellyfish",
    .what = "Jellyfish swim by contracting their bells.",
    .size = 27,
    .frames = 250,
    .keys =
        {
            EX_NUMBER("bodies", "", "jellyfish", "1", "1 to 3"),
            EX_NUMBER("modes", "", "per arm", "4", "0 to 20"),
            EX_NUMBER("tets", "", "of the bell, about", "4000", "300 to 50000"),
            EX_NUMBER("actuation", "", "share of the bell's radius taken in at the rim", "0.4",
                      "0 to 0.8"),
            EX_NUMBER("period", "s", "of a stroke", "0.5", "0.05 to 10"),
            EX_NUMBER("part", "", "of the period in which it contracts; 0.5 = sine", "0.3",
                      "0.05 to 0.95"),
            EX_NUMBER("young", "Pa", "stiffness of the bell", "2e5", "100 to 1e8"),
            EX_NUMBER("friction", "N m s", "of the joints", "0.02", "0 to 0.02"),
            EX_NUMBER("spring", "N m", "of the joints, at a right angle", "1", "0 to 10"),
            EX_NUMBER("righting", "N m", "couple of weight and buoyancy at a right angle", "0.4",
                      "0 to 10"),
            EX_NUMBER("skin", "",
                      "1: fluid and contact see one skin over bell and arms; 0: their own surfaces",
                      "1", "0 to 1"),
            EX_NUMBER("newmark", "", "1: the two solves a step of the paper's section 6", "0",
                      "0 to 1"),
            EX_NUMBER("dt", "s", "time step, at most 0.04", "0.01", "1e-4 to 0.04"),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    fsi_mesh mesh[2];
    fsi_reduced_model model[2];
    muscle m = {0};
    swarm_hide hide = {0};

    swarm_view view = {
        480,      600,     {{0}, {0}, {0}, {0}, 0}, {14, 44, 72}, {150, 170, 190}, color, 0.2, 0,
        plankton, PLANKTON};
    form_body *forms[ARMS + 1] = {&bell_form, &arm_form, &arm_form, &arm_form, &arm_form};
    double y0[3];
    double total = 0;
    double length = 0;
    double swum = 0;
    int steps = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");

    fsi_world_desc desc = {
        .grid.ny = args.size,
        .grid.h = 1.8 / args.size,
        .grid.nz = args.size * 4 / 9,
    };

    desc.grid.nx = bodies > 1 ? desc.grid.nz * (bodies * 3 + 1) / 4 : desc.grid.nz;
    desc.grid.rho = 1000;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.max_guests = bodies;

    fsi_world world;
    if (fsi_world_init(&world, &desc) != FSI_OK || !make_models(&args, mesh, model, &m))
        return 1;
    double width = world.grid.h * world.grid.nx;
    double tall = world.grid.h * world.grid.ny;
    double deep = world.grid.h * world.grid.nz;
    int inner = (int)(0.04 / dt + 0.5);
    view.camera = ex_camera_make(0.5 * width + 0.6, 0.35, 0.5 * deep + 2.3 + 0.5 * width,
                                 0.5 * width, 0.5 * tall, 0.5 * deep, 1, 40);
    if (bodies > 1)
        view.width = 800;
    m.period = ex_number(&args, "period");
    m.part = ex_number(&args, "part");
    m.strength = ex_number(&args, "actuation");
    m.bodies = bodies;
    m.friction = ex_number(&args, "friction");
    m.righting = ex_number(&args, "righting");
    m.spring = ex_number(&args, "spring");

    for (int i = 0; i < bodies; i++) {
        fsi_reduced_joint joint[ARMS];
        fsi_vec3 at =
            fsi_vec((i + 0.5) * width / bodies, 0.5 + 0.05 * (fsi_real)(i % 2), 0.5 * deep);
        if (!swarm_add(&s, &world, &model[0], at, swarm_turn(0, 0.4 * i, 0)))
            return 1;
        for (int k = 0; k < ARMS; k++) {
            double t = 1.5707963 * k + 0.785;
            int up = swarm_nearest(&model[1], fsi_vec(0, 0, 0));
            int under = swarm_nearest(&model[0], fsi_vec(0.05 * cos(t), 0.1, 0.05 * sin(t)));
            fsi_reduced *bell = &s.body[i * (ARMS + 1)];
            fsi_vec3 T =
                fsi_vec_sub(fsi_reduced_point(bell, under), fsi_vec_load(model[1].x0 + 3 * up));
            joint[k].body[0] = 0;
            joint[k].body[1] = k + 1;
            joint[k].vertex[0] = under;
            joint[k].vertex[1] = up;
            if (!swarm_add(&s, &world, &model[1], T, swarm_turn(0, 0, 0)))
                return 1;
        }

        if (i == 0 && ex_number(&args, "skin") > 0
            && !swarm_skin_forms(&hide, s.body, forms, ARMS + 1,
                                 fsi_vec_sub(at, fsi_vec(0, 0.04, 0)), 0.28, 0.04))
            return 1;
        if (!swarm_group(&s, ARMS + 1, joint, ARMS, hide.skin.terms ? &hide.skin : NULL))
            return 1;
    }

    s.newmark = ex_whole(&args, "newmark");
    s.drive_fn = drive;
    s.user = &m;
    {
        double lo = 1e9;
        double hi = -1e9;
        fsi_surface surface = fsi_reduced_group_surface(&s.group[0]);
        for (int i = 0; i < surface.vertex_count; i++) {
            lo = fmin(lo, surface.x[3 * i + 1]);
            hi = fmax(hi, surface.x[3 * i + 1]);
        }

        length = hi - lo;
    }

    /* Plankton, evenly spread. */
    const double turn[3] = {0.8191725134, 0.6710436067, 0.5497004779};
    const double box[3] = {width, tall, deep};
    for (int i = 0; i < PLANKTON; i++)
        for (int axis = 0; axis < 3; axis++)
            plankton[3 * i + axis] = fmod(0.5 + i * turn[axis], 1) * box[axis];

    for (int i = 0; i < bodies; i++)
        y0[i] = s.body[i * (ARMS + 1)].rigid->position.y;

    for (int frame = 0; frame < args.frames && stable; frame++) {
        for (int i = 0; i < inner && stable; i++, steps++) {
            fsi_report report;
            stable = ex_try(fsi_world_step(&world, dt, &report)) >= 0;
            total += report.iterations;
        }

        fsi_grid_trace(&world.grid, dt * inner, PLANKTON, plankton);
        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < bodies; i++)
        swum += (s.body[i * (ARMS + 1)].rigid->position.y - y0[i]) / length / bodies;

    ex_result("length", "%.4f", length);      /* m */
    ex_result("swim_distance", "%.4f", swum); /* body lengths, upwards, mean */

    /* bell and arms */
    ex_result(
        "bytes_per_body", "%lu",
        (unsigned long)(s.body[0].size + ARMS * s.body[1].size + (ARMS + 1) * sizeof(fsi_reduced)));

    /* of the first bell under the top, over its radius */
    ex_result("depth", "%.4f", (tall - s.body[0].rigid->position.y) / RADIUS);
    ex_result("joint_error", "%.6f", s.joint_error / length);
    ex_result("iterations", "%.2f", total / (steps ? steps : 1));
    swarm_free(&s);
    swarm_skin_free(&hide);

    for (int i = 0; i < 2; i++) {
        fsi_reduced_model_free(&model[i]);
        fsi_mesh_free(&mesh[i]);
    }

    fsi_world_free(&world);
    return ex_end(&args, steps, stable);
}
