/* cloth_drape: a square cloth falls over a ball and onto the floor, with bending, friction,
   self-collision and, if wanted, a hole. cc -O2 -I. -Iexamples examples/cloth_drape.c -o
   cloth_drape -lm Shows: a sheet mesh, fsi_soft with obstacles given as signed distances, the
   stages forces - contact - move. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static const double radius = 0.3, height = 0.34; /* the ball, m */

static fsi_real ball(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    fsi_vec3 d = fsi_vec(x.x, x.y - (fsi_real)height, x.z);
    (void)user;
    *normal = fsi_vec_unit(d);
    *velocity = fsi_vec(0, 0, 0);
    return fsi_vec_length(d) - (fsi_real)radius;
}

static fsi_real ground(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    return x.y;
}

static int keep(fsi_vec3 c, void *user) { /* squares outside the hole */
    const double *hole = (const double *)user;
    return sqrt((double)(c.x * c.x + c.z * c.z)) >= hole[0];
}

static void draw(ex_args *a, const fsi_soft *s) {
    ex_image m = ex_image_make(640, 480);
    ex_camera c = ex_camera_make(1.1, 1.15, 1.7, 0, 0.28, 0, 1, 36);
    double lo[3] = {-1.2, 0, -1.2}, hi[3] = {1.2, 0, 1.2};
    fsi_surface f = fsi_soft_surface(s);
    ex_floor(&m, &c, lo, hi, 1, -0.004, 0.2);
    fsi_mesh sphere;
    if (fsi_mesh_sphere(&sphere, fsi_vec(0, (fsi_real)height, 0), (fsi_real)radius * FSI_R(0.985),
                        16, NULL)
        == FSI_OK) {
        fsi_surface b = fsi_mesh_surface(&sphere);
        ex_shadow(&m, &c, &b, -0.002);
        ex_shadow(&m, &c, &f, -0.002);
        ex_draw_surface3(&m, &c, &b, ex_rgb(230, 170, 60));
        fsi_mesh_free(&sphere);
    }
    ex_draw_surface3(&m, &c, &f, ex_rgb(70, 110, 200));
    ex_frame(a, &m);
    ex_image_free(&m);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {
        {"stretch", "N/m", "Young's modulus times thickness", "400", 1, 1e6, NULL},
        {"bend", "N m", "bending stiffness: folds of two cells", "1e-3", 0, 10, NULL},
        {"density", "kg/m^2", "of the cloth", "0.2", 1e-3, 100, NULL},
        {"friction", "", "Coulomb coefficient", "0.3", 0, 2, NULL},
        {"hole", "m", "radius of a hole in the middle", "0", 0, 0.4, NULL},
        {"self", "", "self-collision", "1", 0, 1, NULL},
        {"gravity", "m/s^2", "downwards", "9.81", 0, 100, NULL},
        {"dt", "s", "time step", "0.01", 1e-4, 0.05, NULL},
        {"solver", "", "of the linear systems", "cg", 0, 0, "cg,cholesky"}};
    ex_args a;
    fsi_obstacle o[2];
    double depth = 0, kinetic = 0;
    int hits = 0, stable = 1;
    long steps = 0;
    ex_begin(&a, argc, argv, "cloth_drape", "A cloth drapes over a ball.", keys, 9, 32, 80);
    double hole = ex_number(&a, "hole");
    double dt = ex_number(&a, "dt");
    fsi_soft_desc d;
    memset(&d, 0, sizeof d);
    memset(o, 0, sizeof o);
    o[0].distance_fn = ball;
    o[1].distance_fn = ground;
    o[0].friction = o[1].friction = (fsi_real)ex_number(&a, "friction");
    fsi_mesh mesh;
    if (fsi_mesh_sheet(&mesh, fsi_vec(-FSI_R(0.6), FSI_R(0.72), -FSI_R(0.6)),
                       fsi_vec(FSI_R(1.2), 0, 0), fsi_vec(0, 0, FSI_R(1.2)), a.size, a.size, 1,
                       hole > 0 ? keep : NULL, &hole, NULL)
        != FSI_OK)
        return 1;
    d.dim = 3;
    d.vertex_count = mesh.vertex_count;
    d.x = mesh.x;
    d.triangle_count = mesh.element_count;
    d.triangle = mesh.index;
    d.area_density = (fsi_real)ex_number(&a, "density");
    d.stretch = (fsi_real)ex_number(&a, "stretch");
    d.stretch_poisson = FSI_R(0.2);
    d.bend = (fsi_real)ex_number(&a, "bend");
    d.damping_stiffness = FSI_R(0.004);
    d.gravity = fsi_vec(0, (fsi_real)-ex_number(&a, "gravity"), 0);
    d.thickness = (fsi_real)(0.6 * 1.2 / a.size);
    d.friction = o[0].friction;
    d.self_collision = (int)ex_number(&a, "self");
    d.use_cg = ex_is(&a, "solver", "cg");
    fsi_soft s;
    if (fsi_soft_init(&s, &d) != FSI_OK)
        return 1;
    for (int frame = 0; frame < a.frames && stable; frame++) {
        int sub = (int)ceil(0.02 / dt);
        for (int i = 0; i < sub && stable; i++, steps++) {
            stable = fsi_soft_forces(&s, (fsi_real)(0.02 / sub)) >= 0
                     && fsi_soft_contact(&s, o, 2, (fsi_real)(0.02 / sub), &hits) >= 0
                     && fsi_soft_move(&s, (fsi_real)(0.02 / sub)) >= 0;
        }
        ex_progress(&a, frame);
        if (a.out)
            draw(&a, &s);
    }
    for (int i = 0; i < s.desc.vertex_count; i++) {
        fsi_vec3 n, v, x = fsi_vec_load(s.x + 3 * i);
        depth = fmax(depth, -fmin((double)ball(x, &n, &v, NULL), (double)ground(x, &n, &v, NULL)));
    }
    fsi_soft_energy(&s, NULL, &kinetic);
    ex_result("contacts", "%d", hits);
    ex_result("penetration", "%.6f", depth);
    ex_result("kinetic", "%.6f", kinetic);
    fsi_soft_free(&s);
    fsi_mesh_free(&mesh);
    return ex_end(&a, steps, stable);
}
