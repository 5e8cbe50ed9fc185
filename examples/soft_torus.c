/* soft_torus: a soft torus of tetrahedra falls onto two bars and slips to the floor. It shows
   tetrahedra from a signed distance, four materials, implicit steps, and the volume before and
   after.

       build/soft_torus --out out
       build/soft_torus --set material=neohookean

   Result: quality of the elements, volume kept, where it comes to rest. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"
#include "forms.h"

/* two bars along z, radius 0.09 */
static fsi_vec3 bar_at(int i) {
    return fsi_vec(i ? 0.24 : -0.24, i ? 0.20 : 0.32, 0);
}

static fsi_real bars(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    fsi_real best = x.y; /* the floor */
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);

    for (int i = 0; i < 2; i++) {
        fsi_vec3 d = fsi_vec_sub(x, bar_at(i));
        d.z = 0;
        fsi_real r = fsi_vec_length(d) - 0.09;
        if (r < best) {
            best = r;
            *normal = fsi_vec_unit(d);
        }
    }

    return best;
}

static void draw(ex_args *args, const fsi_soft *soft) {
    ex_image image = ex_image_make(640, 480);
    ex_camera camera = ex_camera_make(0.7, 0.95, 1.75, 0, 0.3, 0, 1, 40);
    double lo[3] = {-1.2, 0, -1.2};
    double hi[3] = {1.2, 0, 1.2};
    fsi_surface surface = fsi_soft_surface(soft);
    ex_floor(&image, &camera, lo, hi, 1, -0.004, 0.2);
    ex_shadow(&image, &camera, &surface, -0.002);

    for (int i = 0; i < 2; i++) {
        fsi_real x[3 * 66];
        int32_t index[6 * 32];
        fsi_vec3 p = bar_at(i);
        for (int k = 0; k < 64; k++) {
            double t = 2 * 3.14159265358979 * (k % 32) / 32;
            fsi_vec_store(x + 3 * k, fsi_vec(p.x + (0.088 * cos(t)), p.y + (0.088 * sin(t)),
                                             k < 32 ? -0.5 : 0.5));
        }

        for (int k = 0; k < 32; k++) {
            int n = (k + 1) % 32;
            index[6 * k] = k;
            index[6 * k + 1] = n;
            index[6 * k + 2] = n + 32;
            index[6 * k + 3] = k;
            index[6 * k + 4] = n + 32;
            index[6 * k + 5] = k + 32;
        }

        ex_mesh bar;
        bar.vertices = 64;
        bar.triangles = 64;
        bar.x = x;
        bar.index = index;
        bar.color = ex_rgb(150, 150, 155);
        bar.glass = 0;
        ex_draw_mesh(&image, &camera, &bar);
    }

    ex_draw_surface3(&image, &camera, &surface, ex_rgb(215, 90, 70));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "soft_torus",
    .what = "A soft torus falls onto two bars.",
    .size = 16,
    .frames = 80,
    .keys =
        {
            EX_WORD("material", "constitutive model", "neohookean", "corotated,stvk,neohookean"),
            EX_NUMBER("young", "Pa", "Young's modulus", "5e4", "1e3 to 1e8"),
            EX_NUMBER("poisson", "", "ratio", "0.4", "0 to 0.49"),
            EX_NUMBER("density", "kg/m^3", "of the torus", "1000", "1 to 1e5"),
            EX_NUMBER(
                "newton", "",
                "Newton iterations per step (more: less numerical damping, needs a smaller dt)",
                "1", "1 to 100"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.05"),
            EX_WORD("solver", "of the linear systems", "cg", "cg,cholesky"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    double lowest = 1e9;
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    form_body form;
    memset(&form, 0, sizeof form);
    fsi_soft_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    form.kind = FORM_TORUS;
    form.a = 0.28;
    form.b = 0.1;
    form.centre = fsi_vec(0, 0.75, 0);
    fsi_mesh mesh;
    ex_need(fsi_mesh_from_sdf(&mesh, form_distance, &form, fsi_vec(-0.5, 0.5, -0.5),
                              fsi_vec(0.5, 1, 0.5), 1.0 / args.size, NULL));
    desc.dim = 3;
    desc.vertex_count = mesh.vertex_count;
    desc.x = mesh.x;
    desc.tet_count = mesh.tet_count;
    desc.tet = mesh.tet;
    desc.density = ex_number(&args, "density");
    desc.young = ex_number(&args, "young");
    desc.poisson = ex_number(&args, "poisson");
    desc.model = ex_is(&args, "material", "stvk")        ? FSI_SOFT_STVK
                 : ex_is(&args, "material", "corotated") ? FSI_SOFT_COROTATED
                                                         : FSI_SOFT_NEOHOOKEAN;
    desc.damping_stiffness = 0.005;
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);
    desc.newton = ex_whole(&args, "newton");
    desc.tolerance = 1e-5;
    obstacle.distance_fn = bars;
    obstacle.friction = 0.15;
    desc.use_cg = ex_is(&args, "solver", "cg");

    fsi_soft soft;
    ex_need(fsi_soft_init(&soft, &desc));
    double volume = fsi_soft_volume(&soft);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        int sub = (int)ceil(0.02 / dt);
        for (int i = 0; i < sub && stable; i++, steps++)
            stable = ex_try(fsi_soft_step(&soft, 0.02 / sub, &obstacle, 1)) >= 0;
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &soft);
    }

    for (int i = 0; i < mesh.vertex_count; i++)
        lowest = fmin(lowest, soft.x[3 * i + 1]);
    double elastic;
    double kinetic;
    fsi_soft_energy(&soft, &elastic, &kinetic);

    ex_result("tets", "%d", mesh.tet_count);
    ex_result("angle_min", "%.2f", mesh.angle_min * 57.29578);
    ex_result("angle_max", "%.2f", mesh.angle_max * 57.29578);
    ex_result("lowest", "%.4f", lowest);
    ex_result("kinetic", "%.5f", kinetic);
    ex_result("volume_error", "%.5f", fabs(fsi_soft_volume(&soft) / volume - 1));
    fsi_soft_free(&soft);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
