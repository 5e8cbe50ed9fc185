/* stack: ten boxes at rest for ten seconds, then a heavy ball swings in on a hinge and knocks the
   tower over.

       build/stack --out out
       build/stack --size 20   a higher tower

   Result: how far the boxes drifted and overlap before the ball came. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static fsi_shape shape(fsi_shape_kind kind, double radius, double hx, double hy, double hz) {
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.radius = radius;
    desc.half = fsi_vec(hx, hy, hz);
    desc.resolution = 32;
    fsi_shape form;
    fsi_shape_init(&form, &desc);
    return form;
}

static int add(fsi_solids *solids, fsi_rigid_kind kind, const fsi_shape *shape, double x, double y,
               double z, double density, double friction) {
    fsi_rigid_desc desc;
    int id = -1;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.shape = shape;
    desc.x = fsi_vec(x, y, z);
    desc.density = density;
    desc.friction = friction;
    fsi_solids_add(solids, &desc, &id);
    return id;
}

static void draw(ex_args *args, ex_image *image, const ex_camera *camera,
                 const fsi_solids *solids) {
    static fsi_real x[3 * 4096], flat[3 * 36];
    static int32_t corner[36];
    double lo[3] = {-7, 0, -7};
    double hi[3] = {7, 0, 7};
    ex_clear(image, ex_rgb(235, 240, 246));
    ex_floor(image, camera, lo, hi, 1, 0, 1);

    for (int i = 0; i < solids->body_count; i++) {
        if (solids->body[i].shape->surface.vertex_count == 0
            || solids->body[i].shape->surface.vertex_count > 4096)
            continue;
        fsi_surface surface;
        fsi_solids_surface(solids, i, x, NULL, &surface);
        ex_shadow(image, camera, &surface, 0.01);
        ex_mesh mesh;
        mesh.vertices = surface.vertex_count;
        mesh.triangles = surface.element_count;
        mesh.x = x;
        mesh.index = surface.index;
        mesh.glass = 0;
        mesh.color = solids->body[i].shape->kind == FSI_SHAPE_SPHERE ? ex_rgb(60, 70, 90)
                     : i % 2                                         ? ex_rgb(222, 120, 62)
                                                                     : ex_rgb(70, 130, 180);

        /* corners of their own for every triangle: sharp edges */
        if (solids->body[i].shape->kind == FSI_SHAPE_BOX) {
            for (int k = 0; k < 36; k++) {
                memcpy(flat + 3 * k, x + 3 * surface.index[k], 3 * sizeof *x);
                corner[k] = k;
            }
            mesh.vertices = 36;
            mesh.x = flat;
            mesh.index = corner;
        }

        ex_draw_mesh(image, camera, &mesh);
    }

    for (int i = 0; i < solids->joint_count; i++) { /* the rope */
        fsi_vec3 p = solids->body[solids->joint[i].a].x;
        fsi_vec3 q = solids->body[solids->joint[i].b].x;
        double u[3];
        double v[3];
        double from[3] = {p.x, p.y, p.z};
        double to[3] = {q.x, q.y, q.z};
        if (ex_project(image, camera, from, u) && ex_project(image, camera, to, v))
            ex_line(image, u[0], u[1], v[0], v[1], 2, ex_grey(60));
    }

    ex_frame(args, image);
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
    fsi_solids_report report;
    ex_image image = {0, 0, NULL, NULL};
    double worst = 0;
    double drift = 0;
    double kinetic = 0;
    double joint = 0;
    long steps = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int n = args.size;
    double dt = ex_number(&args, "dt");
    double mu = ex_number(&args, "friction");
    double rest = ex_number(&args, "rest");
    fsi_shape plane = shape(FSI_SHAPE_PLANE, 0, 0, 0, 0);
    fsi_shape box = shape(FSI_SHAPE_BOX, 0, .5, .5, .5);
    fsi_shape ball = shape(FSI_SHAPE_SPHERE, .8, 0, 0, 0);
    fsi_shape pin = shape(FSI_SHAPE_SPHERE, .1, 0, 0, 0);
    fsi_solids_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.max_bodies = n + 3;
    desc.max_joints = 1;
    desc.gravity = fsi_vec(0, -9.81, 0);

    fsi_solids solids;
    ex_need(fsi_solids_init(&solids, &desc));
    add(&solids, FSI_RIGID_FIXED, &plane, 0, 0, 0, 0, mu);
    int i;

    for (i = 0; i < n; i++)
        add(&solids, FSI_RIGID_DYNAMIC, &box, 0, .5 + i, 0, 1000, mu);

    /* the ball hangs on a hinge whose motor holds it until then */
    fsi_joint_desc given;
    memset(&given, 0, sizeof given);
    given.kind = FSI_JOINT_HINGE;
    given.anchor = fsi_vec(-1.4, n + 1, 0);
    given.a = add(&solids, FSI_RIGID_DYNAMIC, &ball, -1.4 - .6 * n, n + 1., 0,
                  ex_number(&args, "density"), mu);
    given.b = add(&solids, FSI_RIGID_FIXED, &pin, -1.4, n + 1., 0, 0, mu);
    given.motor = 1;
    given.motor_limit = 1e9;
    ex_need(fsi_solids_join(&solids, &given, NULL));

    /* the frames cover the rest and four seconds more */
    int per = (int)((rest + 4) / dt / args.frames + .5);
    if (per < 1)
        per = 1;
    ex_camera cam = ex_camera_make(1.1 * n, .9 * n, 1.9 * n, -.1 * n, .42 * n, 0, 1, 42);
    if (args.out)
        image = ex_image_make(640, 640);
    int k;

    for (int frame = 0; frame < args.frames && stable; frame++) {
        for (i = 0; i < per && stable; i++, steps++) {
            if (solids.time + dt / 2 >= rest)
                solids.joint[0].motor_limit = 0; /* let go */
            if (ex_try(fsi_solids_step(&solids, dt)) < 0)
                stable = 0;
            fsi_solids_measure(&solids, &report);
            joint = report.joint_error > joint ? report.joint_error : joint;
            if (solids.time > rest)
                continue;
            kinetic = report.kinetic;
            worst = report.penetration > worst ? report.penetration : worst;
            for (k = 1, drift = 0; k <= n; k++)
                drift = fmax(drift, hypot(solids.body[k].x.x, solids.body[k].x.z));
        }

        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &image, &cam, &solids);
    }

    for (k = 1; k <= n; k++)
        stable = stable && fabs(solids.body[k].x.x) < 1e3;

    /* over the box edge, while at rest */
    ex_result("penetration", "%.6f", worst);
    ex_result("drift", "%.6f", drift);
    ex_result("kinetic", "%.3e", kinetic); /* J at the end of the rest */
    ex_result("joint_error", "%.3e", joint);
    i = ex_end(&args, steps, stable);
    fsi_solids_free(&solids);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    fsi_shape_free(&ball);
    fsi_shape_free(&pin);
    if (args.out)
        ex_image_free(&image);
    return i;
}
