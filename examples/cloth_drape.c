/* cloth_drape: a square cloth falls over a ball and onto the floor, with bending, friction,
   collisions with itself and, if wanted, a hole. It shows a sheet mesh, fsi_soft with obstacles
   given as signed distances, and the stages forces, contact, move.

       build/cloth_drape --out out
       build/cloth_drape --set hole=0.3

   Result: contacts, the deepest penetration, the kinetic energy that is left. */
#define FSI_IMPLEMENTATION
#include "fsi_solids.h"
#include "common.h"

static const double radius = 0.3, height = 0.34; /* of the ball and its middle, m */
static const double edge = 1.2;                  /* of the cloth, m */

/* The obstacles, as distances with the outward normal and the velocity of their surface. */
static fsi_real ball(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    fsi_vec3 arm = fsi_vec(x.x, x.y - height, x.z);
    *normal = fsi_vec_unit(arm);
    *velocity = fsi_vec(0, 0, 0);
    return fsi_vec_length(arm) - radius;
}

static fsi_real ground(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    *normal = fsi_vec(0, 1, 0);
    *velocity = fsi_vec(0, 0, 0);
    return x.y;
}

/* Which squares of the sheet stay: those outside a round hole in its middle. */
static int outside_hole(fsi_vec3 centre, void *user) {
    double hole = *(const double *)user;
    return sqrt(centre.x * centre.x + centre.z * centre.z) >= hole;
}

/* A square sheet above the ball, size squares along its edge. */
static void make_sheet(fsi_mesh *mesh, const ex_args *args) {
    double hole = ex_number(args, "hole");
    fsi_vec3 corner = fsi_vec(-edge / 2, 0.72, -edge / 2);
    fsi_vec3 along = fsi_vec(edge, 0, 0);
    fsi_vec3 across = fsi_vec(0, 0, edge);
    int n = args->size;
    ex_need(fsi_mesh_sheet(mesh, corner, along, across, n, n, 1, hole > 0 ? outside_hole : NULL,
                           &hole, NULL));
}

static void make_cloth(fsi_soft *cloth, const fsi_mesh *mesh, const ex_args *args) {
    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = mesh->vertex_count,
        .x = mesh->x,
        .triangle_count = mesh->element_count,
        .triangle = mesh->index,
        .area_density = ex_number(args, "density"),
        .stretch = ex_number(args, "stretch"),
        .stretch_poisson = 0.2,
        .bend = ex_number(args, "bend"),
        .damping_stiffness = 0.004,
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .thickness = 0.6 * edge / args->size,
        .friction = ex_number(args, "friction"),
        .self_collision = ex_whole(args, "self"),
        .use_cg = ex_is(args, "solver", "cg"),
    };
    ex_need(fsi_soft_init(cloth, &desc));
}

/* How far the deepest vertex lies inside an obstacle, m. */
static double deepest(const fsi_soft *cloth) {
    double depth = 0;
    for (int i = 0; i < cloth->desc.vertex_count; i++) {
        fsi_vec3 normal;
        fsi_vec3 velocity;
        fsi_vec3 x = fsi_vec_load(cloth->x + 3 * i);
        depth = fmax(depth, -ball(x, &normal, &velocity, NULL));
        depth = fmax(depth, -ground(x, &normal, &velocity, NULL));
    }
    return depth;
}

/* ---- pictures */
static void draw(ex_args *args, const fsi_soft *soft) {
    double lo[3] = {-1.2, 0, -1.2};
    double hi[3] = {1.2, 0, 1.2};
    ex_image image = ex_image_make(640, 480);
    ex_camera camera = ex_camera_make(1.1, 1.15, 1.7, 0, 0.28, 0, 1, 36);
    fsi_surface cloth = fsi_soft_surface(soft);
    ex_floor(&image, &camera, lo, hi, 1, -0.004, 0.2);

    /* The ball is drawn a little smaller than it is, so that the cloth covers it. */
    fsi_mesh sphere;
    ex_need(fsi_mesh_sphere(&sphere, fsi_vec(0, height, 0), radius * 0.985, 16, NULL));
    fsi_surface outline = fsi_mesh_surface(&sphere);
    ex_shadow(&image, &camera, &outline, -0.002);
    ex_shadow(&image, &camera, &cloth, -0.002);
    ex_draw_surface3(&image, &camera, &outline, ex_rgb(230, 170, 60));
    ex_draw_surface3(&image, &camera, &cloth, ex_rgb(70, 110, 200));
    fsi_mesh_free(&sphere);
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
    ex_begin(&args, argc, argv, &about);
    double friction = ex_number(&args, "friction");

    fsi_mesh mesh;
    fsi_soft cloth;
    make_sheet(&mesh, &args);
    make_cloth(&cloth, &mesh, &args);
    fsi_obstacle obstacle[2] = {
        {.distance_fn = ball, .friction = friction},
        {.distance_fn = ground, .friction = friction},
    };

    /* A frame is 0.02 s, in steps of about dt: forces, contact, motion. */
    int per_frame = (int)ceil(0.02 / ex_number(&args, "dt"));
    double dt = 0.02 / per_frame;
    int contacts = 0;
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < per_frame && ex_fine(); i++) {
            ex_try(fsi_soft_forces(&cloth, dt));
            ex_try(fsi_soft_contact(&cloth, obstacle, 2, dt, &contacts));
            ex_try(fsi_soft_move(&cloth, dt));
            steps++;
        }
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &cloth);
    }

    double kinetic;
    fsi_soft_energy(&cloth, NULL, &kinetic);
    ex_result("contacts", "%d", contacts);
    ex_result("penetration", "%.6f", deepest(&cloth));
    ex_result("kinetic", "%.6f", kinetic);
    fsi_soft_free(&cloth);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, ex_fine());
}
