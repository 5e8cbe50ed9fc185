/* stack: ten boxes at rest for ten seconds, then a heavy ball swings in on a hinge and knocks the
   tower over.

       build/stack --out out
       build/stack --size 20   a higher tower

   Result: how far the boxes drifted and overlap before the ball came. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

/* A floor, a tower of boxes with edges of 1 m, and a ball on a hinge beside it. */
typedef struct scene {
    fsi_solids solids;
    fsi_shape plane;
    fsi_shape box;
    fsi_shape ball;
    fsi_shape pin;
    int *tower; /* [height] ids of the boxes, from below */
    int height;
    int hinge;
    double friction;
} scene;

static void make_shape(fsi_shape *shape, fsi_shape_kind kind, double size) {
    fsi_shape_desc desc = {
        .kind = kind,
        .radius = size,
        .half = fsi_vec(size, size, size),
        .resolution = 32,
    };
    ex_need(fsi_shape_init(shape, &desc));
}

/* Adds a body and returns its id. Without density it is fixed. */
static int add(scene *s, const fsi_shape *shape, fsi_vec3 x, double density) {
    fsi_rigid_desc desc = {
        .kind = density > 0 ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED,
        .shape = shape,
        .x = x,
        .density = density,
        .friction = s->friction,
    };
    int id;
    ex_need(fsi_solids_add(&s->solids, &desc, &id));
    return id;
}

/* The ball is held away from the tower by the motor of its hinge. */
static void hang_ball(scene *s, double density) {
    double n = s->height;
    fsi_vec3 top = fsi_vec(-1.4, n + 1, 0);
    fsi_joint_desc hinge = {
        .kind = FSI_JOINT_HINGE,
        .anchor = top,
        .a = add(s, &s->ball, fsi_vec(-1.4 - .6 * n, n + 1, 0), density),
        .motor = 1,
        .motor_limit = 1e9,
    };
    hinge.b = add(s, &s->pin, top, 0);
    ex_need(fsi_solids_join(&s->solids, &hinge, &s->hinge));
}

static void make_scene(scene *s, const ex_args *args) {
    s->height = args->size;
    s->friction = ex_number(args, "friction");
    s->tower = ex_alloc((size_t)s->height, sizeof *s->tower);
    make_shape(&s->plane, FSI_SHAPE_PLANE, 0);
    make_shape(&s->box, FSI_SHAPE_BOX, 0.5);
    make_shape(&s->ball, FSI_SHAPE_SPHERE, 0.8);
    make_shape(&s->pin, FSI_SHAPE_SPHERE, 0.1);

    fsi_solids_desc desc = {
        .dim = 3,
        .max_bodies = s->height + 3,
        .max_joints = 1,
        .gravity = fsi_vec(0, -9.81, 0),
    };
    ex_need(fsi_solids_init(&s->solids, &desc));
    add(s, &s->plane, fsi_vec(0, 0, 0), 0);
    for (int i = 0; i < s->height; i++)
        s->tower[i] = add(s, &s->box, fsi_vec(0, .5 + i, 0), 1000);
    hang_ball(s, ex_number(args, "density"));
}

static void free_scene(scene *s) {
    fsi_solids_free(&s->solids);
    fsi_shape_free(&s->plane);
    fsi_shape_free(&s->box);
    fsi_shape_free(&s->ball);
    fsi_shape_free(&s->pin);
    free(s->tower);
}

/* How far the box that has drifted most is from the axis of the tower, m. */
static double tower_drift(const scene *s) {
    double drift = 0;
    for (int i = 0; i < s->height; i++) {
        fsi_vec3 x = s->solids.body[s->tower[i]].x;
        drift = fmax(drift, hypot(x.x, x.z));
    }
    return drift;
}

/* What is measured while the tower stands, and of the hinge all the time. */
typedef struct findings {
    double penetration;
    double drift;
    double kinetic;
    double joint_error;
} findings;

static void step(scene *s, double dt, double rest, findings *found) {
    if (s->solids.time + dt / 2 >= rest)
        s->solids.joint[s->hinge].motor_limit = 0; /* let go */
    ex_try(fsi_solids_step(&s->solids, dt));

    fsi_solids_report report;
    fsi_solids_measure(&s->solids, &report);
    found->joint_error = fmax(found->joint_error, report.joint_error);
    if (s->solids.time > rest)
        return;
    found->kinetic = report.kinetic;
    found->penetration = fmax(found->penetration, report.penetration);
    found->drift = tower_drift(s);
}

/* ---- pictures */
static ex_color body_color(const scene *s, int id) {
    if (s->solids.body[id].shape->kind == FSI_SHAPE_SPHERE)
        return ex_rgb(60, 70, 90);
    return id % 2 ? ex_rgb(222, 120, 62) : ex_rgb(70, 130, 180);
}

/* Every triangle of a box has corners of its own: that makes the edges sharp. */
static void sharpen(ex_mesh *mesh) {
    static fsi_real flat[3 * 36];
    static int32_t corner[36];
    for (int k = 0; k < 36; k++) {
        memcpy(flat + 3 * k, mesh->x + 3 * mesh->index[k], 3 * sizeof *flat);
        corner[k] = k;
    }
    mesh->vertices = 36;
    mesh->x = flat;
    mesh->index = corner;
}

static void draw_body(ex_image *image, const ex_camera *camera, const scene *s, int id) {
    static fsi_real x[3 * 4096];
    const fsi_shape *shape = s->solids.body[id].shape;
    if (shape->surface.vertex_count == 0 || shape->surface.vertex_count > 4096)
        return;
    fsi_surface surface;
    fsi_solids_surface(&s->solids, id, x, NULL, &surface);
    ex_shadow(image, camera, &surface, 0.01);
    ex_mesh mesh = {
        .vertices = surface.vertex_count,
        .triangles = surface.element_count,
        .x = x,
        .index = surface.index,
        .color = body_color(s, id),
    };
    if (shape->kind == FSI_SHAPE_BOX)
        sharpen(&mesh);
    ex_draw_mesh(image, camera, &mesh);
}

/* A line from the ball to its pin. */
static void draw_rope(ex_image *image, const ex_camera *camera, const scene *s) {
    const fsi_joint *hinge = &s->solids.joint[s->hinge];
    fsi_vec3 ball = s->solids.body[hinge->a].x;
    fsi_vec3 pin = s->solids.body[hinge->b].x;
    double from[3] = {ball.x, ball.y, ball.z};
    double to[3] = {pin.x, pin.y, pin.z};
    double start[3];
    double end[3];
    int seen = ex_project(image, camera, from, start) && ex_project(image, camera, to, end);
    if (seen)
        ex_line(image, start[0], start[1], end[0], end[1], 2, ex_grey(60));
}

static void draw(ex_args *args, const scene *s) {
    double n = s->height;
    double lo[3] = {-7, 0, -7};
    double hi[3] = {7, 0, 7};
    ex_image image = ex_image_make(640, 640);
    ex_camera camera = ex_camera_make(1.1 * n, .9 * n, 1.9 * n, -.1 * n, .42 * n, 0, 1, 42);
    ex_clear(&image, ex_rgb(235, 240, 246));
    ex_floor(&image, &camera, lo, hi, 1, 0, 1);
    for (int id = 0; id < s->solids.body_count; id++)
        draw_body(&image, &camera, s, id);
    draw_rope(&image, &camera, s);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "stack",
    .what = "A tower of boxes (--size of them), ten seconds at rest, then a wrecking ball.",
    .size = 10,
    .frames = 175,
    .keys =
        {
            EX_NUMBER("friction", "1", "Coulomb friction of boxes and floor", "0.5", "0 to 2"),
            EX_NUMBER("dt", "s", "time step", "0.016666666666666666", "1e-4 to 0.05"),
            EX_NUMBER("rest", "s", "seconds before the ball is let go", "10", "0 to 60"),
            EX_NUMBER("density", "kg/m^3", "of the ball", "4000", "1 to 1e5"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    double rest = ex_number(&args, "rest");
    scene s = {0};
    make_scene(&s, &args);

    /* The frames cover the rest and four seconds more. */
    int per_frame = (int)fmax(1, (rest + 4) / dt / args.frames + .5);
    findings found = {0};
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < per_frame && ex_fine(); i++) {
            step(&s, dt, rest, &found);
            steps++;
        }
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &s);
    }

    /* A tower that flew apart is no answer. */
    int together = 1;
    for (int i = 0; i < s.height; i++)
        together = together && fabs(s.solids.body[s.tower[i]].x.x) < 1e3;

    /* While at rest: overlap and drift in m, which is an edge of a box; energy in J at its end. */
    ex_result("penetration", "%.6f", found.penetration);
    ex_result("drift", "%.6f", found.drift);
    ex_result("kinetic", "%.3e", found.kinetic);
    ex_result("joint_error", "%.3e", found.joint_error);
    free_scene(&s);
    return ex_end(&args, steps, ex_fine() && together);
}
