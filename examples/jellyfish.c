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
    BASIS = 3, /* contraction fields of the bell */
    ARMS = 4,
    PARTS = ARMS + 1, /* reduced bodies of a jellyfish: the bell, then its arms */
    MOST = 3,         /* jellyfish */
    PLANKTON = 1500
};

static const double RADIUS = 0.2, HEIGHT = 0.2; /* of the bell, m */
static form_body bell_form = {.kind = FORM_BELL, .a = 0.2, .b = 0.09, .c = 0.2};
static form_body arm_form = {.kind = FORM_ARM, .a = 0.2, .b = 0.032, .c = 0.026};

static swarm s;
static fsi_real plankton[3 * PLANKTON];

typedef struct muscle {
    double time;
    double period;          /* of a stroke, s */
    double strength;        /* share of the radius taken in at the rim */
    double part;            /* of the period in which it contracts */
    double friction;        /* of the joints, N m s */
    double spring;          /* of the joints, N m */
    double righting;        /* couple of weight and buoyancy, N m */
    fsi_real target[BASIS]; /* the contraction in the bell's own basis */
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
        fsi_reduced *bell = &w->body[i * PARTS];
        fsi_vec3 lean = fsi_vec_cross(body_axis(bell), fsi_vec(0, 1, 0));
        twist(bell, fsi_vec_scale(lean, m->righting));
        for (int k = 0; k < BASIS; k++)
            bell->force[6 + k] += strength * bell->model->omega2[k] * m->target[k];
        for (int k = 1; k <= ARMS; k++)
            drive_arm(m, bell, bell + k);
    }

    m->time += dt;
}

/* The highest point of a mesh. */
static fsi_real mesh_top(const fsi_mesh *mesh) {
    fsi_real top = -1e30;
    for (int i = 0; i < mesh->vertex_count; i++)
        top = fmax(top, mesh->x[3 * i + 1]);
    return top;
}

/* The displacement of every vertex in field k. */
static void sample_field(const fsi_mesh *mesh, int k, fsi_real *out) {
    fsi_real top = mesh_top(mesh);
    for (int i = 0; i < mesh->vertex_count; i++)
        fsi_vec_store(out + 3 * i, field(k, fsi_vec_load(mesh->x + 3 * i), top));
}

/* The wanted contraction u in the bell's own basis S, with the masses of its nodes: S^T M u. */
static void aim_muscle(const fsi_reduced_model *bell, const fsi_real *contracted, muscle *m) {
    for (int k = 0; k < BASIS; k++) {
        m->target[k] = 0;
        for (int i = 0; i < 3 * bell->vertex_count; i++)
            m->target[k] += bell->S[i * BASIS + k] * bell->node_mass[i / 3] * contracted[i];
    }
}

/* The bell: a basis of its own instead of vibration modes. */
static void make_bell(fsi_mesh *mesh, fsi_reduced_model *model, muscle *m, const ex_args *args) {
    if (!swarm_mesh(mesh, &bell_form, fsi_vec(0.3, 0.3, 0.3), ex_whole(args, "tets")))
        ex_die("jellyfish: no mesh of the bell");
    size_t numbers = 3 * (size_t)mesh->vertex_count;
    fsi_real *basis = ex_alloc(BASIS * numbers, sizeof *basis);
    for (int k = 0; k < BASIS; k++)
        sample_field(mesh, k, basis + (size_t)k * numbers);
    fsi_reduced_desc desc = {
        .mesh = mesh,
        .modes = BASIS,
        .basis = basis,
        .density = 1000,
        .young = ex_number(args, "young"),
        .poisson = 0.3,
        .damping_stiffness = 0.01,
        .samples = 60,
        .field = 16,
    };
    ex_need(fsi_reduced_model_init(model, &desc));
    aim_muscle(model, basis, m);
    free(basis);
}

/* An arm: vibration modes. */
static void make_arm(fsi_mesh *mesh, fsi_reduced_model *model, const ex_args *args) {
    if (!swarm_mesh(mesh, &arm_form, fsi_vec(0.06, 0.26, 0.06), ex_whole(args, "tets") / 10))
        ex_die("jellyfish: no mesh of an arm");
    fsi_reduced_desc desc = {
        .mesh = mesh,
        .modes = ex_whole(args, "modes"),
        .density = 1000,
        .young = 2e4,
        .poisson = 0.4,
        .damping_stiffness = 0.01,
        .samples = 60,
        .field = 16,
    };
    ex_need(fsi_reduced_model_init(model, &desc));
}

/* Hangs arm number k under a bell: its top end at a vertex of the bell's underside. */
static fsi_reduced_joint hang_arm(fsi_world *world, fsi_reduced *bell, const fsi_reduced_model *arm,
                                  int k) {
    double angle = 1.5707963 * k + 0.785;
    fsi_vec3 place = fsi_vec(0.05 * cos(angle), 0.1, 0.05 * sin(angle));
    int under = swarm_nearest(bell->model, place);
    int top = swarm_nearest(arm, fsi_vec(0, 0, 0));
    fsi_vec3 shift = fsi_vec_sub(fsi_reduced_point(bell, under), fsi_vec_load(arm->x0 + 3 * top));
    if (!swarm_add(&s, world, arm, shift, swarm_turn(0, 0, 0)))
        ex_die("jellyfish: no room for an arm");
    return (fsi_reduced_joint){.body = {0, k + 1}, .vertex = {under, top}};
}

/* Jellyfish number i at a place: bell, arms and joints are one group. The first one makes the skin
   that all of them wear; without a skin fluid and contact see the surfaces of bell and arms. */
static void add_jellyfish(fsi_world *world, int i, const fsi_reduced_model *model, fsi_vec3 at,
                          swarm_hide *hide, int with_skin) {
    form_body *forms[PARTS] = {&bell_form, &arm_form, &arm_form, &arm_form, &arm_form};
    fsi_reduced_joint joint[ARMS];
    if (!swarm_add(&s, world, &model[0], at, swarm_turn(0, 0.4 * i, 0)))
        ex_die("jellyfish: no room for a bell");
    for (int k = 0; k < ARMS; k++)
        joint[k] = hang_arm(world, &s.body[i * PARTS], &model[1], k);

    fsi_vec3 middle = fsi_vec_sub(at, fsi_vec(0, 0.04, 0));
    int first = i == 0 && with_skin;
    if (first && !swarm_skin_forms(hide, s.body, forms, PARTS, middle, 0.28, 0.04))
        ex_die("jellyfish: no skin");
    if (!swarm_group(&s, PARTS, joint, ARMS, with_skin ? &hide->skin : NULL))
        ex_die("jellyfish: no group of bell and arms");
}

/* A box of water 1.8 m high, open above. Neither weight nor a free surface: both cancel. */
static void make_water(fsi_world *world, int size, int bodies) {
    int deep = size * 4 / 9;
    fsi_world_desc desc = {
        .grid.nx = bodies > 1 ? deep * (bodies * 3 + 1) / 4 : deep,
        .grid.ny = size,
        .grid.nz = deep,
        .grid.h = 1.8 / size,
        .grid.rho = 1000,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = bodies,
    };
    ex_need(fsi_world_init(world, &desc));
}

/* From the lowest to the highest point of a surface. */
static double surface_height(fsi_surface surface) {
    double lowest = 1e9;
    double highest = -1e9;
    for (int i = 0; i < surface.vertex_count; i++) {
        lowest = fmin(lowest, surface.x[3 * i + 1]);
        highest = fmax(highest, surface.x[3 * i + 1]);
    }
    return highest - lowest;
}

static double bell_height(int i) {
    return s.body[i * PARTS].rigid->position.y;
}

/* ---- pictures */
static ex_color color(const swarm *q, int i) {
    (void)q;
    return ex_rgb(245 - 60 * (i == 2), 140 + 50 * (i == 1), 150 + 80 * (i == 2));
}

static swarm_view view_of(const double *box, int bodies) {
    double middle = 0.5 * box[0];
    double depth = 0.5 * box[2];
    return (swarm_view){
        .width = bodies > 1 ? 800 : 480,
        .height = 600,
        .camera = ex_camera_make(middle + 0.6, 0.35, depth + 2.3 + middle, middle, 0.5 * box[1],
                                 depth, 1, 40),
        .back = ex_rgb(14, 44, 72),
        .edge = ex_rgb(150, 170, 190),
        .color_fn = color,
        .tile = 0.2,
        .dots = plankton,
        .dot_count = PLANKTON,
    };
}

/* Plankton, evenly spread. */
static void spread_plankton(const double *box) {
    const double turn[3] = {0.8191725134, 0.6710436067, 0.5497004779};
    for (int i = 0; i < PLANKTON; i++)
        for (int axis = 0; axis < 3; axis++)
            plankton[3 * i + axis] = fmod(0.5 + i * turn[axis], 1) * box[axis];
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
    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");
    muscle m = {
        .period = ex_number(&args, "period"),
        .strength = ex_number(&args, "actuation"),
        .part = ex_number(&args, "part"),
        .friction = ex_number(&args, "friction"),
        .spring = ex_number(&args, "spring"),
        .righting = ex_number(&args, "righting"),
        .bodies = bodies,
    };

    /* The water, models of bell and arm, and jellyfish side by side. */
    fsi_world world;
    fsi_mesh mesh[2];
    fsi_reduced_model model[2];
    swarm_hide hide = {0};
    make_water(&world, args.size, bodies);
    make_bell(&mesh[0], &model[0], &m, &args);
    make_arm(&mesh[1], &model[1], &args);
    const fsi_grid *grid = &world.grid;
    const double box[3] = {grid->h * grid->nx, grid->h * grid->ny, grid->h * grid->nz};
    int with_skin = ex_number(&args, "skin") > 0;
    for (int i = 0; i < bodies; i++) {
        fsi_vec3 at = fsi_vec((i + 0.5) * box[0] / bodies, 0.5 + 0.05 * (i % 2), 0.5 * box[2]);
        add_jellyfish(&world, i, model, at, &hide, with_skin);
    }
    s.newmark = ex_whole(&args, "newmark");
    s.drive_fn = drive;
    s.user = &m;

    double length = surface_height(fsi_reduced_group_surface(&s.group[0]));
    double start[MOST];
    for (int i = 0; i < bodies; i++)
        start[i] = bell_height(i);
    swarm_view view = view_of(box, bodies);
    spread_plankton(box);

    /* A frame is 0.04 s. */
    int per_frame = (int)(0.04 / dt + 0.5);
    double iterations = 0;
    int steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < per_frame && ex_fine(); i++) {
            fsi_report report = {0};
            ex_try(fsi_world_step(&world, dt, &report));
            iterations += report.iterations;
            steps++;
        }
        fsi_grid_trace(&world.grid, PLANKTON, plankton, dt * per_frame);
        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    /* Ways upward in body lengths, mean of all; bytes of a bell and its arms; the depth of the
       first bell under the top over its radius. */
    double swum = 0;
    for (int i = 0; i < bodies; i++)
        swum += (bell_height(i) - start[i]) / length / bodies;
    size_t bytes = s.body[0].size + ARMS * s.body[1].size + PARTS * sizeof(fsi_reduced);
    ex_result("length", "%.4f", length);
    ex_result("swim_distance", "%.4f", swum);
    ex_result("bytes_per_body", "%lu", (unsigned long)bytes);
    ex_result("depth", "%.4f", (box[1] - bell_height(0)) / RADIUS);
    ex_result("joint_error", "%.6f", s.joint_error / length);
    ex_result("iterations", "%.2f", iterations / (steps ? steps : 1));

    swarm_free(&s);
    swarm_skin_free(&hide);
    for (int i = 0; i < 2; i++) {
        fsi_reduced_model_free(&model[i]);
        fsi_mesh_free(&mesh[i]);
    }
    fsi_world_free(&world);
    return ex_end(&args, steps, ex_fine());
}
