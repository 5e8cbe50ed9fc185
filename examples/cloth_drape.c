/* cloth_drape: a square cloth falls over a ball and onto the floor, with bending, friction,
   collisions with itself and, if wanted, a hole. It shows a sheet mesh, fsi_soft with obstacles
   given as signed distances, and the stages forces, contact, move.

       build/cloth_drape --out out
       build/cloth_drape --set hole=0.3

   Result: contacts, the deepest penetration, the kinetic energy that is left. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static const double radius = 0.3, height = 0.34; /* the ball, m */

static fsi_real ball(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    fsi_vec3 d = fsi_vec(x.x, x.y - height, x.z);
    (void)user;
    *normal = fsi_vec_unit(d);
    *velocity = fsi_vec(0, 0, 0);
    return fsi_vec_length(d) - radius;
}

static fsi_real ground(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    return x.y;
}

static int keep(fsi_vec3 c, void *user) { /* squares outside the hole */
    const double *hole = (const double *)user;
    return sqrt(c.x * c.x + c.z * c.z) >= hole[0];
}

static void draw(ex_args *args, const fsi_soft *soft) {
    ex_image image = ex_image_make(640, 480);
    ex_camera camera = ex_camera_make(1.1, 1.15, 1.7, 0, 0.28, 0, 1, 36);
    double lo[3] = {-1.2, 0, -1.2};
    double hi[3] = {1.2, 0, 1.2};
    fsi_surface surface = fsi_soft_surface(soft);
    ex_floor(&image, &camera, lo, hi, 1, -0.004, 0.2);
    fsi_mesh sphere;
    if (fsi_mesh_sphere(&sphere, fsi_vec(0, height, 0), radius * 0.985, 16, NULL) == FSI_OK) {
        fsi_surface outline = fsi_mesh_surface(&sphere);
        ex_shadow(&image, &camera, &outline, -0.002);
        ex_shadow(&image, &camera, &surface, -0.002);
        ex_draw_surface3(&image, &camera, &outline, ex_rgb(230, 170, 60));
        fsi_mesh_free(&sphere);
    }

    ex_draw_surface3(&image, &camera, &surface, ex_rgb(70, 110, 200));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "cloth_drape",
    .what = "A cloth drapes over a ball.",
    .size = 32,
    .frames = 80,
    .keys =
        {
            EX_NUMBER("stretch", "N/m", "Young's modulus times thickness", "400", "1 to 1e6"),
            EX_NUMBER("bend", "N m", "bending stiffness: folds of two cells", "1e-3", "0 to 10"),
            EX_NUMBER("density", "kg/m^2", "of the cloth", "0.2", "1e-3 to 100"),
            EX_NUMBER("friction", "", "Coulomb coefficient", "0.3", "0 to 2"),
            EX_NUMBER("hole", "m", "radius of a hole in the middle", "0", "0 to 0.4"),
            EX_NUMBER("self", "", "self-collision", "1", "0 to 1"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.05"),
            EX_WORD("solver", "of the linear systems", "cg", "cg,cholesky"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    fsi_obstacle obstacle[2];
    double depth = 0;
    double kinetic = 0;
    int hits = 0;
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    double hole = ex_number(&args, "hole");
    double dt = ex_number(&args, "dt");
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    memset(obstacle, 0, sizeof obstacle);
    obstacle[0].distance_fn = ball;
    obstacle[1].distance_fn = ground;
    obstacle[0].friction = obstacle[1].friction = ex_number(&args, "friction");
    fsi_mesh mesh;
    ex_need(fsi_mesh_sheet(&mesh, fsi_vec(-0.6, 0.72, -0.6), fsi_vec(1.2, 0, 0), fsi_vec(0, 0, 1.2),
                           args.size, args.size, 1, hole > 0 ? keep : NULL, &hole, NULL));
    desc.dim = 3;
    desc.vertex_count = mesh.vertex_count;
    desc.x = mesh.x;
    desc.triangle_count = mesh.element_count;
    desc.triangle = mesh.index;
    desc.area_density = ex_number(&args, "density");
    desc.stretch = ex_number(&args, "stretch");
    desc.stretch_poisson = 0.2;
    desc.bend = ex_number(&args, "bend");
    desc.damping_stiffness = 0.004;
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);
    desc.thickness = 0.6 * 1.2 / args.size;
    desc.friction = obstacle[0].friction;
    desc.self_collision = ex_whole(&args, "self");
    desc.use_cg = ex_is(&args, "solver", "cg");

    fsi_soft soft;
    ex_need(fsi_soft_init(&soft, &desc));

    for (int frame = 0; frame < args.frames && stable; frame++) {
        int sub = (int)ceil(0.02 / dt);
        for (int i = 0; i < sub && stable; i++, steps++) {
            stable = ex_try(fsi_soft_forces(&soft, 0.02 / sub)) >= 0
                     && ex_try(fsi_soft_contact(&soft, obstacle, 2, 0.02 / sub, &hits)) >= 0
                     && ex_try(fsi_soft_move(&soft, 0.02 / sub)) >= 0;
        }

        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &soft);
    }

    for (int i = 0; i < soft.desc.vertex_count; i++) {
        fsi_vec3 n;
        fsi_vec3 v;
        fsi_vec3 x = fsi_vec_load(soft.x + 3 * i);
        depth = fmax(depth, -fmin(ball(x, &n, &v, NULL), ground(x, &n, &v, NULL)));
    }

    fsi_soft_energy(&soft, NULL, &kinetic);

    ex_result("contacts", "%d", hits);
    ex_result("penetration", "%.6f", depth);
    ex_result("kinetic", "%.6f", kinetic);
    fsi_soft_free(&soft);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
