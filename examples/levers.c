/* levers: the small calls of solids, without a fluid. A box is posed and struck; a clamped beam
   finds its rest at once and stays there; a soft brick is pushed at a vertex and runs into a rigid
   box; another lies on a floor, is saved with its contacts and lives the same life twice.

       build/levers --out out

   Result: each value beside the one that school physics expects. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static const double gravity = 9.81; /* m/s^2, of beam and floor */
static const double seconds = 1;    /* of the whole run */

/* ---- rigid boxes with edges of 1 m and 1000 kg, weightless */
enum {
    STRUCK, /* number of the box that is struck */
    TARGET  /* of the box that the brick runs into */
};

typedef struct boxes {
    fsi_shape shape;
    fsi_solids solids;
} boxes;

static void add_box(boxes *b) {
    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &b->shape,
        .density = 1000,
    };
    int id;
    ex_need(fsi_solids_add(&b->solids, &desc, &id));
}

static void make_boxes(boxes *b) {
    fsi_shape_desc cube = {
        .kind = FSI_SHAPE_BOX,
        .half = fsi_vec(0.5, 0.5, 0.5),
    };
    fsi_solids_desc desc = {
        .dim = 3,
        .max_bodies = 2,
    };
    ex_need(fsi_shape_init(&b->shape, &cube));
    ex_need(fsi_solids_init(&b->solids, &desc));
    add_box(b);
    add_box(b);

    /* Bodies can be put anywhere at any time; a quaternion of zeros leaves them upright. */
    fsi_quat upright = {0};
    ex_need(fsi_solids_set_pose(&b->solids, STRUCK, fsi_vec(0, 3, 0), upright));
    ex_need(fsi_solids_set_pose(&b->solids, TARGET, fsi_vec(1.2, 0, 0), upright));
}

/* 500 N s, a quarter of a metre above the centre: the box goes right and turns clockwise. */
static void strike(boxes *b) {
    fsi_vec3 above = fsi_vec(0, 3.25, 0);
    ex_need(fsi_solids_impulse(&b->solids, STRUCK, above, fsi_vec(500, 0, 0)));
}

/* ---- a beam of 1 m, clamped at its left end */
typedef struct beam {
    fsi_soft soft;
    fsi_real *rest; /* [3 * vertices] where it came to rest */
    double lift;    /* of the elastic forces on the free vertices at rest, N */
    double weight;  /* of the free vertices, N */
} beam;

static void make_beam(beam *b, int cubes) {
    fsi_mesh mesh;
    int across = cubes / 10 > 1 ? cubes / 10 : 1;
    fsi_vec3 clamp = fsi_vec(2, 2, 0);
    fsi_vec3 end = fsi_vec(3, 2.1, 0.1);
    ex_need(fsi_mesh_box(&mesh, clamp, end, cubes, across, across, 1, NULL));
    unsigned char *pin = ex_alloc((size_t)mesh.vertex_count, 1);
    for (int i = 0; i < mesh.vertex_count; i++)
        pin[i] = mesh.x[3 * i] < FSI_R(2.001) ? 7 : 0;

    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = mesh.vertex_count,
        .x = mesh.x,
        .tet_count = mesh.tet_count,
        .tet = mesh.tet,
        .density = 1000,
        .young = 1e6,
        .poisson = 0.3,
        .pin = pin,
        .gravity = fsi_vec(0, -gravity, 0),
        .integrator = FSI_SOFT_EXPLICIT,
    };
    ex_need(fsi_soft_init(&b->soft, &desc));
    fsi_mesh_free(&mesh);
    free(pin);
}

/* At rest the elastic forces carry the weight of everything that is not clamped. */
static void find_rest(beam *b) {
    size_t numbers = 3 * (size_t)b->soft.desc.vertex_count;
    b->rest = ex_alloc(numbers, sizeof *b->rest);
    fsi_real *force = ex_alloc(numbers, sizeof *force);
    ex_need(fsi_soft_static(&b->soft, 0, 0, NULL));
    fsi_copy(numbers, b->soft.x, b->rest);
    fsi_soft_elastic_force(&b->soft, force);
    for (int i = 0; i < b->soft.desc.vertex_count; i++)
        if (b->soft.inverse_mass[i] > 0) {
            b->lift += (double)force[3 * i + 1];
            b->weight += gravity * (double)b->soft.mass[i];
        }
    free(force);
}

/* The explicit integrator takes equal steps no longer than the advised one. */
static void advance_beam(beam *b, double duration) {
    int steps = (int)ceil(duration / (double)fsi_soft_max_dt(&b->soft));
    for (int i = 0; i < steps; i++)
        ex_try(fsi_soft_step(&b->soft, NULL, 0, (fsi_real)(duration / steps)));
}

/* How far the vertex that moved most is from where it rested, m. */
static double beam_drift(const beam *b) {
    double drift = 0;
    for (int i = 0; i < 3 * b->soft.desc.vertex_count; i++)
        drift = fmax(drift, fabs((double)(b->soft.x[i] - b->rest[i])));
    return drift;
}

/* ---- soft bricks of few modes: one is pushed, one lies on a floor */
typedef struct bricks {
    fsi_reduced_model model;
    fsi_reduced pushed;
    fsi_external touch; /* how the rigid boxes feel the pushed one */
    fsi_real *sample;   /* [3 * samples] its contact points */
    double given;       /* impulse of the push so far, N s */
    fsi_reduced lying;
    fsi_reduced_contacts contacts; /* of the lying one with the floor */
} bricks;

/* 1 m x 0.5 m x 0.5 m, 250 kg. */
static void make_bricks(bricks *b) {
    fsi_mesh mesh;
    fsi_vec3 end = fsi_vec(1, 0.5, 0.5);
    ex_need(fsi_mesh_box(&mesh, fsi_vec(0, 0, 0), end, 4, 2, 2, 1, NULL));
    fsi_reduced_desc desc = {
        .mesh = &mesh,
        .modes = 6,
        .density = 1000,
        .young = 1e6,
        .poisson = 0.3,
        .damping_stiffness = 0.002,
    };
    ex_need(fsi_reduced_model_init(&b->model, &desc));
    fsi_mesh_free(&mesh);

    ex_need(fsi_reduced_init(&b->pushed, &b->model, fsi_vec(0, 0, 0), NULL));
    ex_need(fsi_reduced_init(&b->lying, &b->model, fsi_vec(0, 0.3, 0), NULL));
    b->lying.gravity = fsi_vec(0, -gravity, 0);
    b->sample = ex_alloc(3 * (size_t)b->model.sample_count, sizeof *b->sample);
    b->contacts.friction = FSI_R(0.5);
}

/* 2000 N in the middle of the left face, for a tenth of a second. */
static void push(bricks *b, double time, double dt) {
    int middle = 5 * (1 + 3 * 1); /* vertex i + 5 (j + 3 k) of the mesh with i = 0, j = k = 1 */
    if (time + dt / 2 > 0.1)
        return;
    fsi_reduced_add_force(&b->pushed, middle, fsi_vec(2000, 0, 0));
    b->given += 2000 * dt;
}

/* One step of the pushed brick and the boxes together: the rigid world sees it as an external. */
static void step_together(bricks *b, boxes *rigid, double dt) {
    fsi_reduced_external(&b->pushed, b->sample, &b->touch);
    ex_try(fsi_reduced_forces(&b->pushed, (fsi_real)dt));
    ex_try(fsi_solids_set_externals(&rigid->solids, &b->touch, 1));
    ex_try(fsi_solids_step(&rigid->solids, (fsi_real)dt));
    ex_try(fsi_reduced_move(&b->pushed, (fsi_real)dt));
}

static fsi_real floor_distance(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    return x.y;
}

/* One step of the brick on the floor. */
static void step_lying(bricks *b, double dt) {
    fsi_obstacle ground = {
        .distance_fn = floor_distance,
        .friction = FSI_R(0.5),
    };
    fsi_reduced *list[1] = {&b->lying};
    ex_try(fsi_reduced_forces(&b->lying, (fsi_real)dt));
    ex_try(fsi_reduced_contact(&b->contacts, list, 1, &ground, 1, (fsi_real)dt));
    ex_try(fsi_reduced_move(&b->lying, (fsi_real)dt));
}

/* The state of a brick and of its contacts are saved, 20 steps are taken, both are restored, and
   the same 20 steps are taken again. Difference of the two ends: 0 to the last bit. */
static double live_twice(bricks *b, double dt) {
    size_t body_size = fsi_reduced_state_size(&b->lying);
    size_t contacts_size = fsi_reduced_contacts_state_size(&b->contacts);
    void *body = ex_alloc(body_size, 1);
    void *contacts = ex_alloc(contacts_size, 1);
    ex_need(fsi_reduced_save(&b->lying, body));
    ex_need(fsi_reduced_contacts_save(&b->contacts, contacts));
    for (int i = 0; i < 20; i++)
        step_lying(b, dt);
    fsi_vec3 first = fsi_reduced_point(&b->lying, 0);

    ex_need(fsi_reduced_restore(&b->lying, body, body_size));
    ex_need(fsi_reduced_contacts_restore(&b->contacts, contacts, contacts_size));
    for (int i = 0; i < 20; i++)
        step_lying(b, dt);
    fsi_vec3 second = fsi_reduced_point(&b->lying, 0);
    free(body);
    free(contacts);
    return (double)fsi_vec_length(fsi_vec_sub(second, first));
}

/* ---- the run */
typedef struct scene {
    boxes rigid;
    beam soft;
    bricks reduced;
    double longest; /* step advised for the boxes after the strike, s */
} scene;

static void make_scene(scene *s, const ex_args *args) {
    make_boxes(&s->rigid);
    strike(&s->rigid);
    s->longest = (double)fsi_solids_max_dt(&s->rigid.solids);
    make_beam(&s->soft, args->size);
    find_rest(&s->soft);
    make_bricks(&s->reduced);
}

/* One frame, in steps of at most 5 ms and never longer than advised. */
static int advance(scene *s, double duration) {
    double most = fmin(0.005, (double)fsi_solids_max_dt(&s->rigid.solids));
    int steps = (int)ceil(duration / most - 1e-9);
    double dt = duration / steps;
    for (int i = 0; i < steps; i++) {
        push(&s->reduced, s->rigid.solids.time, dt);
        step_together(&s->reduced, &s->rigid, dt);
        step_lying(&s->reduced, dt);
    }
    advance_beam(&s->soft, duration);
    return steps;
}

static void free_scene(scene *s) {
    fsi_solids_free(&s->rigid.solids);
    fsi_shape_free(&s->rigid.shape);
    fsi_soft_free(&s->soft.soft);
    free(s->soft.rest);
    fsi_reduced_contacts_free(&s->reduced.contacts);
    fsi_reduced_free(&s->reduced.pushed);
    fsi_reduced_free(&s->reduced.lying);
    fsi_reduced_model_free(&s->reduced.model);
    free(s->reduced.sample);
}

static void print_results(scene *s) {
    /* v = J / m; spin = r J / I with I = m / 6 for a cube with edges of 1 m. */
    const fsi_rigid *struck = &s->rigid.solids.body[STRUCK];
    ex_result("travel", "%.6f", (double)struck->x.x);
    ex_result("expected_travel", "%.6f", 0.5 * s->rigid.solids.time);
    ex_result("spin", "%.6f", (double)struck->spin.z);
    ex_result("expected_spin", "%.6f", -0.25 * 500 * 6 / 1000);
    ex_result("advised_dt", "%.4f", s->longest);

    /* N of the elastic forces against the weight; m that the beam moves from its rest. */
    ex_result("lift", "%.4f", s->soft.lift);
    ex_result("expected_lift", "%.4f", s->soft.weight);
    ex_result("beam_drift", "%.2e", beam_drift(&s->soft));
    ex_result("expected_beam_drift", "0");

    /* The push is shared between brick and box; nothing of it is lost where they touch. */
    double target = 1000 * (double)s->rigid.solids.body[TARGET].v.x;
    double brick = (double)s->reduced.pushed.rigid->momentum.x;
    ex_result("momentum", "%.6f", brick + target);
    ex_result("expected_momentum", "%.6f", s->reduced.given);
    ex_result("momentum_of_box", "%.4f", target);

    ex_result("second_life", "%.2e", live_twice(&s->reduced, 0.005));
    ex_result("expected_second_life", "0");
}

/* ---- pictures, seen along z: boxes, pushed brick and beam as points */
static void draw_points(ex_image *image, int count, const fsi_real *x, ex_color color) {
    ex_view view = ex_view_make(-1.5, -1.5, 4, 4, 0, 0, 480, 480);
    for (int i = 0; i < count; i++) {
        double across = ex_px(&view, x[3 * i]);
        double up = ex_py(&view, x[3 * i + 1]);
        ex_disk(image, across, up, 3, color);
    }
}

static void draw(ex_args *args, const scene *s) {
    ex_image image = ex_image_make(480, 480);
    for (int id = 0; id < 2; id++) {
        fsi_real x[3 * 64];
        fsi_surface surface;
        if (s->rigid.shape.surface.vertex_count > 64)
            continue;
        fsi_solids_surface(&s->rigid.solids, id, x, NULL, &surface);
        draw_points(&image, surface.vertex_count, x, ex_rgb(60, 120, 200));
    }
    for (int i = 0; i < s->reduced.model.vertex_count; i++) {
        fsi_real x[3];
        fsi_vec_store(x, fsi_reduced_point(&s->reduced.pushed, i));
        draw_points(&image, 1, x, ex_rgb(200, 90, 60));
    }
    draw_points(&image, s->soft.soft.desc.vertex_count, s->soft.soft.x, ex_grey(90));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "levers",
    .what = "A struck box, a beam at rest (--size cubes long), a pushed brick, a life lived twice.",
    .size = 20,
    .frames = 50,
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    scene s = {0};
    make_scene(&s, &args);

    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        steps += advance(&s, seconds / args.frames);
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &s);
    }

    print_results(&s);
    free_scene(&s);
    return ex_end(&args, steps, ex_fine());
}
