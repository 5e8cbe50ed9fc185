/* stack: ten boxes at rest for ten seconds, then a heavy ball swings in on a hinge and knocks the
   tower over. cc -O2 -I. -Iexamples examples/stack.c -o stack -lm && ./stack --out out */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static fsi_shape shape(fsi_shape_kind kind, double radius, double hx, double hy, double hz) {
    fsi_shape_desc d;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.radius = (fsi_real)radius;
    d.half = fsi_vec((fsi_real)hx, (fsi_real)hy, (fsi_real)hz);
    d.resolution = 32;
    fsi_shape s;
    fsi_shape_init(&s, &d);
    return s;
}

static int add(fsi_solids *w, fsi_rigid_kind kind, const fsi_shape *s, double x, double y, double z,
               double density, double friction) {
    fsi_rigid_desc d;
    int id = -1;
    memset(&d, 0, sizeof d);
    d.kind = kind;
    d.shape = s;
    d.x = fsi_vec((fsi_real)x, (fsi_real)y, (fsi_real)z);
    d.density = (fsi_real)density;
    d.friction = (fsi_real)friction;
    fsi_solids_add(w, &d, &id);
    return id;
}

static void draw(ex_args *a, ex_image *m, const ex_camera *c, const fsi_solids *w) {
    static fsi_real x[3 * 4096], flat[3 * 36];
    static int32_t corner[36];
    double lo[3] = {-7, 0, -7}, hi[3] = {7, 0, 7};
    ex_clear(m, ex_rgb(235, 240, 246));
    ex_floor(m, c, lo, hi, 1, 0, 1);
    for (int i = 0; i < w->body_count; i++) {
        if (w->body[i].shape->surface.vertex_count == 0
            || w->body[i].shape->surface.vertex_count > 4096)
            continue;
        fsi_surface s;
        fsi_solids_surface(w, i, x, NULL, &s);
        ex_shadow(m, c, &s, 0.01);
        ex_mesh mesh;
        mesh.vertices = s.vertex_count;
        mesh.triangles = s.element_count;
        mesh.x = x;
        mesh.index = s.index;
        mesh.glass = 0;
        mesh.color = w->body[i].shape->kind == FSI_SHAPE_SPHERE ? ex_rgb(60, 70, 90)
                     : i % 2                                    ? ex_rgb(222, 120, 62)
                                                                : ex_rgb(70, 130, 180);
        /* corners of their own for every triangle: sharp edges */
        if (w->body[i].shape->kind == FSI_SHAPE_BOX) {
            for (int k = 0; k < 36; k++) {
                memcpy(flat + 3 * k, x + 3 * s.index[k], 3 * sizeof *x);
                corner[k] = k;
            }
            mesh.vertices = 36;
            mesh.x = flat;
            mesh.index = corner;
        }
        ex_draw_mesh(m, c, &mesh);
    }
    for (int i = 0; i < w->joint_count; i++) { /* the rope */
        fsi_vec3 p = w->body[w->joint[i].a].x, q = w->body[w->joint[i].b].x;
        double from[3] = {(double)p.x, (double)p.y, (double)p.z},
               to[3] = {(double)q.x, (double)q.y, (double)q.z}, u[3], v[3];
        if (ex_project(m, c, from, u) && ex_project(m, c, to, v))
            ex_line(m, u[0], u[1], v[0], v[1], 2, ex_rgb(60, 60, 60));
    }
    ex_frame(a, m);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {
        {"friction", "1", "Coulomb friction of boxes and floor", "0.5", 0, 2, NULL},
        {"dt", "s", "time step", "0.016666666666666666", 1e-4, 0.05, NULL},
        {"rest", "s", "seconds before the ball is let go", "10", 0, 60, NULL},
        {"density", "kg/m^3", "of the ball", "4000", 1, 1e5, NULL},
    };
    ex_args a;
    fsi_solids_report r;
    ex_image m = {0, 0, NULL, NULL};
    double worst = 0, drift = 0, kinetic = 0, joint = 0;
    long steps = 0;
    int stable = 1;
    ex_begin(&a, argc, argv, "stack",
             "A tower of boxes (--size of them), ten seconds at rest, then a wrecking ball.", keys,
             4, 10, 175);
    int n = a.size;
    double dt = ex_number(&a, "dt");
    double mu = ex_number(&a, "friction");
    double rest = ex_number(&a, "rest");
    fsi_shape plane = shape(FSI_SHAPE_PLANE, 0, 0, 0, 0);
    fsi_shape box = shape(FSI_SHAPE_BOX, 0, .5, .5, .5);
    fsi_shape ball = shape(FSI_SHAPE_SPHERE, .8, 0, 0, 0);
    fsi_shape pin = shape(FSI_SHAPE_SPHERE, .1, 0, 0, 0);
    fsi_solids_desc d;
    memset(&d, 0, sizeof d);
    d.dim = 3;
    d.max_bodies = n + 3;
    d.max_joints = 1;
    d.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    fsi_solids w;
    if (fsi_solids_init(&w, &d) != FSI_OK)
        return 1;
    add(&w, FSI_RIGID_FIXED, &plane, 0, 0, 0, 0, mu);
    int i;
    for (i = 0; i < n; i++)
        add(&w, FSI_RIGID_DYNAMIC, &box, 0, .5 + i, 0, 1000, mu);
    /* the ball hangs on a hinge whose motor holds it until then */
    fsi_joint_desc j;
    memset(&j, 0, sizeof j);
    j.kind = FSI_JOINT_HINGE;
    j.anchor = fsi_vec(FSI_R(-1.4), (fsi_real)(n + 1), 0);
    j.a = add(&w, FSI_RIGID_DYNAMIC, &ball, -1.4 - .6 * n, n + 1., 0, ex_number(&a, "density"), mu);
    j.b = add(&w, FSI_RIGID_FIXED, &pin, -1.4, n + 1., 0, 0, mu);
    j.motor = 1;
    j.motor_limit = FSI_R(1e9);
    if (fsi_solids_join(&w, &j, NULL) != FSI_OK)
        return 1;
    /* the frames cover the rest and four seconds more */
    int per = (int)((rest + 4) / dt / a.frames + .5);
    if (per < 1)
        per = 1;
    ex_camera cam = ex_camera_make(1.1 * n, .9 * n, 1.9 * n, -.1 * n, .42 * n, 0, 1, 42);
    if (a.out)
        m = ex_image_make(640, 640);
    int k;
    for (int frame = 0; frame < a.frames && stable; frame++) {
        for (i = 0; i < per && stable; i++, steps++) {
            if (w.time + dt / 2 >= rest)
                w.joint[0].motor_limit = 0; /* let go */
            if (fsi_solids_step(&w, (fsi_real)dt) < 0)
                stable = 0;
            fsi_solids_measure(&w, &r);
            joint = r.joint_error > joint ? r.joint_error : joint;
            if (w.time > rest)
                continue;
            kinetic = r.kinetic;
            worst = r.penetration > worst ? r.penetration : worst;
            for (k = 1, drift = 0; k <= n; k++)
                drift = fmax(drift, hypot((double)w.body[k].x.x, (double)w.body[k].x.z));
        }
        ex_progress(&a, frame);
        if (a.out)
            draw(&a, &m, &cam, &w);
    }
    for (k = 1; k <= n; k++)
        stable = stable && fabs((double)w.body[k].x.x) < 1e3;
    /* over the box edge, while at rest */
    ex_result("penetration", "%.6f", worst);
    ex_result("drift", "%.6f", drift);
    ex_result("kinetic", "%.3e", kinetic); /* J at the end of the rest */
    ex_result("joint_error", "%.3e", joint);
    i = ex_end(&a, steps, stable);
    fsi_solids_free(&w);
    fsi_shape_free(&plane);
    fsi_shape_free(&box);
    fsi_shape_free(&ball);
    fsi_shape_free(&pin);
    if (a.out)
        ex_image_free(&m);
    return i;
}
