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

enum {
    BARS = 2,
    ROUND = 32 /* corners of a bar's end */
};

static const double bar_radius = 0.09; /* m */

/* Where the bars cross the plane z = 0; they lie along z. */
static fsi_vec3 bar_at(int i) {
    return fsi_vec(i ? 0.24 : -0.24, i ? 0.20 : 0.32, 0);
}

/* Distance to the floor and the bars, with the outward normal of the nearest. */
static fsi_real floor_and_bars(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    fsi_real nearest = x.y;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    for (int i = 0; i < BARS; i++) {
        fsi_vec3 arm = fsi_vec_sub(x, bar_at(i));
        arm.z = 0;
        fsi_real distance = fsi_vec_length(arm) - bar_radius;
        if (distance < nearest) {
            nearest = distance;
            *normal = fsi_vec_unit(arm);
        }
    }
    return nearest;
}

/* Tetrahedra of a torus above the bars, cubes of 1 / size m. */
static void make_mesh(fsi_mesh *mesh, int size) {
    form_body torus = {
        .kind = FORM_TORUS,
        .a = 0.28,
        .b = 0.1,
        .centre = fsi_vec(0, 0.75, 0),
    };
    fsi_vec3 lo = fsi_vec(-0.5, 0.5, -0.5);
    fsi_vec3 hi = fsi_vec(0.5, 1, 0.5);
    ex_need(fsi_mesh_from_sdf(mesh, form_distance, &torus, lo, hi, 1.0 / size, NULL));
}

static fsi_soft_model material_of(const ex_args *args) {
    if (ex_is(args, "material", "stvk"))
        return FSI_SOFT_STVK;
    if (ex_is(args, "material", "corotated"))
        return FSI_SOFT_COROTATED;
    return FSI_SOFT_NEOHOOKEAN;
}

static void make_torus(fsi_soft *torus, const fsi_mesh *mesh, const ex_args *args) {
    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = mesh->vertex_count,
        .x = mesh->x,
        .tet_count = mesh->tet_count,
        .tet = mesh->tet,
        .model = material_of(args),
        .density = ex_number(args, "density"),
        .young = ex_number(args, "young"),
        .poisson = ex_number(args, "poisson"),
        .damping_stiffness = 0.005,
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .newton = ex_whole(args, "newton"),
        .tolerance = 1e-5,
        .use_cg = ex_is(args, "solver", "cg"),
    };
    ex_need(fsi_soft_init(torus, &desc));
}

static double lowest_vertex(const fsi_soft *torus) {
    double lowest = 1e9;
    for (int i = 0; i < torus->desc.vertex_count; i++)
        lowest = fmin(lowest, torus->x[3 * i + 1]);
    return lowest;
}

/* ---- pictures */
/* A bar as a tube, a little thinner than it is, so that the torus lies on it. */
static void draw_bar(ex_image *image, const ex_camera *camera, fsi_vec3 at) {
    const double radius = 0.088;
    fsi_real x[3 * 2 * ROUND];
    int32_t index[6 * ROUND];
    for (int k = 0; k < ROUND; k++) {
        double angle = 2 * 3.14159265358979 * k / ROUND;
        fsi_vec3 corner = fsi_vec(at.x + radius * cos(angle), at.y + radius * sin(angle), -0.5);
        fsi_vec_store(x + 3 * k, corner);
        corner.z = 0.5;
        fsi_vec_store(x + 3 * (ROUND + k), corner);

        int next = (k + 1) % ROUND;
        int32_t *triangles = index + 6 * k;
        triangles[0] = k;
        triangles[1] = next;
        triangles[2] = next + ROUND;
        triangles[3] = k;
        triangles[4] = next + ROUND;
        triangles[5] = k + ROUND;
    }
    ex_mesh bar = {
        .vertices = 2 * ROUND,
        .triangles = 2 * ROUND,
        .x = x,
        .index = index,
        .color = ex_rgb(150, 150, 155),
    };
    ex_draw_mesh(image, camera, &bar);
}

static void draw(ex_args *args, const fsi_soft *soft) {
    double lo[3] = {-1.2, 0, -1.2};
    double hi[3] = {1.2, 0, 1.2};
    ex_image image = ex_image_make(640, 480);
    ex_camera camera = ex_camera_make(0.7, 0.95, 1.75, 0, 0.3, 0, 1, 40);
    fsi_surface torus = fsi_soft_surface(soft);
    ex_floor(&image, &camera, lo, hi, 1, -0.004, 0.2);
    ex_shadow(&image, &camera, &torus, -0.002);
    for (int i = 0; i < BARS; i++)
        draw_bar(&image, &camera, bar_at(i));
    ex_draw_surface3(&image, &camera, &torus, ex_rgb(215, 90, 70));
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
    ex_begin(&args, argc, argv, &about);

    fsi_mesh mesh;
    fsi_soft torus;
    make_mesh(&mesh, args.size);
    make_torus(&torus, &mesh, &args);
    fsi_obstacle obstacle = {.distance_fn = floor_and_bars, .friction = 0.15};
    double volume_at_first = fsi_soft_volume(&torus);

    /* A frame is 0.02 s, in steps of about dt. */
    int per_frame = (int)ceil(0.02 / ex_number(&args, "dt"));
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < per_frame && ex_fine(); i++) {
            ex_try(fsi_soft_step(&torus, &obstacle, 1, 0.02 / per_frame));
            steps++;
        }
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &torus);
    }

    double elastic;
    double kinetic;
    fsi_soft_energy(&torus, &elastic, &kinetic);
    const double degrees = 57.29578;
    ex_result("tets", "%d", mesh.tet_count);
    ex_result("angle_min", "%.2f", mesh.angle_min * degrees);
    ex_result("angle_max", "%.2f", mesh.angle_max * degrees);
    ex_result("lowest", "%.4f", lowest_vertex(&torus));
    ex_result("kinetic", "%.5f", kinetic);
    ex_result("volume_error", "%.5f", fabs(fsi_soft_volume(&torus) / volume_at_first - 1));
    fsi_soft_free(&torus);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, ex_fine());
}
