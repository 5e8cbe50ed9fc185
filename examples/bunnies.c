/* bunnies: light bunnies plunge into a pool, rise, bump into each other and are stirred by water
   poured on them (Aanjaneya 2018, fig. 2). A bunny is a formula: ellipsoids melted together,
   meshed as an isosurface. Any closed triangle mesh does.

       build/bunnies --out out
       build/bunnies --set bodies=5

   Result: iterations of the coupled solve. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    MOST = 24,
    N = 26
};

/* Ellipsoids: centre, half axes, turn about z; a bunny is about 2 long, looks along +x, and is the
 * same on both sides of z = 0. */
static const double blob[7][7] = {
    {-.15, 0, 0, .62, .50, .48, 0},      {.50, .42, 0, .34, .31, .29, 0},
    {.22, .98, .15, .12, .46, .10, .35}, {-.80, .05, 0, .18, .18, .18, 0},
    {-.25, -.32, .30, .38, .22, .16, 0}, {.36, -.34, .20, .24, .14, .13, 0},
    {.80, .34, 0, .12, .11, .13, 0}};

/* About the distance, smaller than 0 inside: smooth minimum of all parts. In 2D the ears and feet
 * lie in the plane. */
static double bunny(double x, double y, double z, int dim) {
    double sum = 0;

    for (int i = 0; i < 7; i++) {
        const double *b = blob[i];
        double dx = x - b[0];
        double dy = y - b[1];
        double p = (cos(b[6]) * dx + sin(b[6]) * dy) / b[3];
        double q = (cos(b[6]) * dy - sin(b[6]) * dx) / b[4];
        double r = (dim == 3 ? fabs(z) - b[2] : 0) / b[5];
        double s = sqrt(p * p + q * q + r * r);
        double thin = fmin(b[3], fmin(b[4], b[5]));
        sum += exp(-24 * (s - 1) * thin);
    }

    return -log(sum + 1e-300) / 24;
}

static fsi_result bunny_shape(fsi_shape *shape, int dim, double size) {
    static fsi_real value[N * N * N];

    fsi_iso_mesh mesh = {0};

    double h = 2.7 / (N - 1);

    for (int k = 0; k < (dim == 3 ? N : 1); k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++)
                value[i + N * (j + N * k)] =
                    (size / 2
                     * bunny(-1.3 + h * i, -.9 + h * j, dim == 3 ? -1.35 + h * k : 0, dim));

    fsi_iso_desc desc = {
        .nx = N,
        .ny = N,
        .nz = dim == 3 ? N : 1,
        .h = size / 2 * h,
        .value = value,
    };

    fsi_result result;
    if ((result = fsi_iso_build(&desc, &mesh)) != FSI_OK)
        return result;

    fsi_surface surface = {
        .dim = dim,
        .vertex_count = mesh.vertex_count,
        .element_count = mesh.element_count,
        .closed = 1,
        .x = mesh.x,
        .index = mesh.index,
    };

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_MESH,
        .dim = dim,
        .surface = &surface,
    };

    /* mass, centre and inertia come from the mesh; contact from its distance field */
    result = fsi_shape_init(shape, &sd);
    fsi_iso_free(&mesh);
    return result;
}

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - *(const fsi_real *)user;
}

static void draw(ex_args *args, fsi_world *world) {
    ex_image image = ex_image_make(600, 560);
    fsi_grid *grid = &world->grid;
    if (grid->dim == 2) {
        ex_view view = ex_view_make(0, 0, 1, 1, 40, 20, 520, 520);
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->phi, 1e8, 2e8, 2);
        ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
        for (int i = 0; i < world->door_count; i++)
            ex_draw_surface(&image, &view, &world->door[i]->surface,
                            ex_map(0, 0.45 + 0.5 * i / world->door_count));
    } else {
        ex_camera camera = ex_camera_make(1.5, 1.6, 3, 0.5, 0.38, 0.5, 1, 30);
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {1, 1, 1};
        ex_clear(&image, ex_rgb(245, 248, 250));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);
        for (int i = 0; i < world->door_count; i++)
            ex_draw_surface3(&image, &camera, &world->door[i]->surface,
                             ex_map(0, 0.45 + 0.5 * i / world->door_count));
        ex_draw_water(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                      ex_rgb(80, 160, 220), 0.5);
        ex_box3(&image, &camera, lo, hi, ex_grey(130));
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "bunnies",
    .what = "Light bunnies fall into a pool; then water is poured on them.",
    .size = 36,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "3", "2 to 3"),
            EX_NUMBER("bodies", "", "number of bunnies", "8", "1 to 24"),
            EX_NUMBER("density", "", "over the water's", "0.3", "1e-3 to 1e3"),
            EX_NUMBER("pour", "s", "when water is poured in", "0.6", "0 to 1e3"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.1"),
        },
};

int main(int argc, char **argv) {
    fsi_real level = 0.4;
    ex_args args;
    int stable = 1;
    double total = 0;
    double touch = 0;
    double deep = 0;

    ex_begin(&args, argc, argv, &about);
    int dim = ex_whole(&args, "dim");
    int bodies = ex_whole(&args, "bodies");

    fsi_world_desc desc = {
        .grid.nx = args.size,
        .grid.ny = args.size,
        .grid.nz = dim == 3 ? args.size : 1,
        .grid.h = 1.0 / args.size,
        .grid.rho = 1000,
        .grid.gravity.y = -9.81,
        .grid.liquid = 1,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = bodies,
    };

    fsi_world world;

    fsi_shape shape;
    if (fsi_world_init(&world, &desc) != FSI_OK
        || bunny_shape(&shape, dim, dim == 3 ? 0.26 : 0.2) != FSI_OK)
        return 1;

    /* layers of 2 x 2 (2D: 3), each turned its own way */
    for (int i = 0; i < bodies; i++) {
        int row = dim == 3 ? i / 4 : i / 3;
        fsi_rigid_desc given = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &shape,
            .density = 1000 * ex_number(&args, "density"),
            .friction = 0.3,
            .restitution = 0.2,
            .x = dim == 3 ? fsi_vec(0.3 + 0.4 * (i % 2) + 0.03 * (row % 2), 0.6 + 0.3 * row,
                                    0.3 + 0.4 * (i / 2 % 2))
                          : fsi_vec(0.2 + 0.3 * (i % 3), 0.55 + 0.25 * row, 0),
            .q = fsi_quat_from_rotation(fsi_vec(0, dim == 3 ? (1.3 * i) : 0, 0.35 * (i % 5 - 2))),
            .v.y = -1,
        };

        ex_need(fsi_world_add(&world, &given));
    }

    fsi_grid_source tap = {
        .lo = fsi_vec(0.05, 0.78, 0.4),
        .hi = fsi_vec(0.15, 0.9, 0.6),
        .velocity = fsi_vec(1.5, -1, 0),
        .set = FSI_SOURCE_LIQUID | FSI_SOURCE_VELOCITY,
        .start = ex_number(&args, "pour"),
        .stop = 1e9,
    };

    fsi_grid_add_source(&world.grid, &tap);
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &level);
    fsi_grid_classify(&world.grid);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report = {0};
        fsi_solids_report sr = {0};
        stable = ex_try(fsi_world_step(&world, ex_number(&args, "dt"), &report)) >= 0;

        fsi_solids_measure(&world.solids, &sr);
        total += report.iterations;
        touch += sr.contacts;
        deep = fmax(deep, sr.penetration);
        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    ex_result("contacts", "%.2f", touch / (frame > 0 ? frame : 1));
    ex_result("penetration", "%.5f", deep);
    fsi_world_free(&world);
    fsi_shape_free(&shape);
    return ex_end(&args, frame, stable);
}
