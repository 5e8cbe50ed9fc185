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
    MOST = 24, /* bunnies */
    PARTS = 7, /* of a bunny */
    N = 26     /* samples along each axis to mesh one */
};

/* A bunny is about 2 long, looks along +x, and is the same on both sides of z = 0. */
typedef struct ellipsoid {
    double x, y, z;           /* centre */
    double along, up, across; /* half axes */
    double turn;              /* about z */
} ellipsoid;

static const ellipsoid part[PARTS] = {
    {-.15, 0, 0, .62, .50, .48, 0},      /* body */
    {.50, .42, 0, .34, .31, .29, 0},     /* head */
    {.22, .98, .15, .12, .46, .10, .35}, /* ear */
    {-.80, .05, 0, .18, .18, .18, 0},    /* tail */
    {-.25, -.32, .30, .38, .22, .16, 0}, /* hind foot */
    {.36, -.34, .20, .24, .14, .13, 0},  /* front foot */
    {.80, .34, 0, .12, .11, .13, 0},     /* nose */
};

/* About the distance, smaller than 0 inside: the smooth minimum over all parts. In 2D ears and feet
   lie in the plane. */
static double bunny(double x, double y, double z, int dim) {
    double sum = 0;
    for (int i = 0; i < PARTS; i++) {
        const ellipsoid *e = &part[i];
        double dx = x - e->x;
        double dy = y - e->y;
        double dz = dim == 3 ? fabs(z) - e->z : 0;

        /* Along its own axes, in units of them. */
        double along = (cos(e->turn) * dx + sin(e->turn) * dy) / e->along;
        double up = (cos(e->turn) * dy - sin(e->turn) * dx) / e->up;
        double across = dz / e->across;
        double radius = sqrt(along * along + up * up + across * across);
        double thin = fmin(e->along, fmin(e->up, e->across));
        sum += exp(-24 * (radius - 1) * thin);
    }

    return -log(sum + 1e-300) / 24;
}

/* The formula as a rigid shape, size m long: sampled, meshed, measured. */
static void make_bunny(fsi_shape *shape, int dim, double size) {
    static fsi_real value[N * N * N];
    double h = 2.7 / (N - 1);
    int layers = dim == 3 ? N : 1;
    for (int k = 0; k < layers; k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                double z = dim == 3 ? -1.35 + h * k : 0;
                double distance = bunny(-1.3 + h * i, -.9 + h * j, z, dim);
                value[i + N * (j + N * k)] = size / 2 * distance;
            }

    fsi_iso_mesh mesh = {0};
    fsi_iso_desc samples = {
        .nx = N,
        .ny = N,
        .nz = layers,
        .h = size / 2 * h,
        .value = value,
    };
    ex_need(fsi_iso_build(&samples, &mesh));

    /* Mass, centre and inertia come from the mesh; contact from its distance field. */
    fsi_surface surface = {
        .dim = dim,
        .vertex_count = mesh.vertex_count,
        .element_count = mesh.element_count,
        .closed = 1,
        .x = mesh.x,
        .index = mesh.index,
    };
    fsi_shape_desc desc = {
        .kind = FSI_SHAPE_MESH,
        .dim = dim,
        .surface = &surface,
    };
    ex_need(fsi_shape_init(shape, &desc));
    fsi_iso_free(&mesh);
}

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - 0.4;
}

/* A pool of 1 m a side, and a tap at its left that opens after a while. */
static void make_pool(fsi_world *world, const ex_args *args) {
    int dim = ex_whole(args, "dim");
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size,
        .grid.nz = dim == 3 ? args->size : 1,
        .grid.h = 1.0 / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = MOST,
    };
    fsi_grid_source tap = {
        .lo = fsi_vec(0.05, 0.78, 0.4),
        .hi = fsi_vec(0.15, 0.9, 0.6),
        .velocity = fsi_vec(1.5, -1, 0),
        .set = FSI_SOURCE_LIQUID | FSI_SOURCE_VELOCITY,
        .start = ex_number(args, "pour"),
        .stop = 1e9,
    };
    ex_need(fsi_world_init(world, &desc));
    ex_need(fsi_grid_add_source(&world->grid, &tap));
    ex_need(fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&world->grid));
}

/* Bunny number i: layers of 2 x 2 (2D: of 3), each turned its own way. */
static void drop_bunny(fsi_world *world, const fsi_shape *shape, int i, double density) {
    fsi_vec3 at;
    fsi_vec3 turn = fsi_vec(0, 0, 0.35 * (i % 5 - 2));
    if (world->grid.dim == 3) {
        int layer = i / 4;
        double shift = 0.03 * (layer % 2);
        at = fsi_vec(0.3 + 0.4 * (i % 2) + shift, 0.6 + 0.3 * layer, 0.3 + 0.4 * (i / 2 % 2));
        turn.y = 1.3 * i;
    } else
        at = fsi_vec(0.2 + 0.3 * (i % 3), 0.55 + 0.25 * (i / 3), 0);

    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = shape,
        .density = density,
        .friction = 0.3,
        .restitution = 0.2,
        .x = at,
        .q = fsi_quat_from_rotation(turn),
        .v = fsi_vec(0, -1, 0),
    };
    ex_need(fsi_world_add(world, &desc));
}

/* ---- pictures */
static ex_color bunny_color(const fsi_world *world, int i) {
    return ex_map(0, 0.45 + 0.5 * i / world->door_count);
}

static void draw2(ex_image *image, const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    ex_view view = ex_view_make(0, 0, 1, 1, 40, 20, 520, 520);
    ex_draw_field(image, &view, grid->nx, grid->ny, grid->phi, 1e8, 2e8, 2);
    ex_draw_liquid(image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface(image, &view, &world->door[i]->surface, bunny_color(world, i));
}

static void draw3(ex_image *image, const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    ex_camera camera = ex_camera_make(1.5, 1.6, 3, 0.5, 0.38, 0.5, 1, 30);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1, 1};
    ex_clear(image, ex_rgb(245, 248, 250));
    ex_floor(image, &camera, lo, hi, 1, 0, 0.125);
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface3(image, &camera, &world->door[i]->surface, bunny_color(world, i));
    ex_draw_water(image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                  ex_rgb(80, 160, 220), 0.5);
    ex_box3(image, &camera, lo, hi, ex_grey(130));
}

static void draw(ex_args *args, const fsi_world *world) {
    ex_image image = ex_image_make(600, 560);
    if (world->grid.dim == 2)
        draw2(&image, world);
    else
        draw3(&image, world);
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
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double density = 1000 * ex_number(&args, "density");
    double dt = ex_number(&args, "dt");

    fsi_world world;
    fsi_shape shape;
    make_pool(&world, &args);
    make_bunny(&shape, world.grid.dim, world.grid.dim == 3 ? 0.26 : 0.2);
    for (int i = 0; i < bodies; i++)
        drop_bunny(&world, &shape, i, density);

    double iterations = 0;
    double contacts = 0;
    double overlap = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&world, dt, &report));
        iterations += report.iterations;

        fsi_solids_report solids = {0};
        fsi_solids_measure(&world.solids, &solids);
        contacts += solids.contacts;
        overlap = fmax(overlap, solids.penetration);
        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    double frames = frame > 0 ? frame : 1;
    ex_result("iterations", "%.2f", iterations / frames);
    ex_result("contacts", "%.2f", contacts / frames);
    ex_result("penetration", "%.5f", overlap);
    fsi_world_free(&world);
    fsi_shape_free(&shape);
    return ex_end(&args, frame, ex_fine());
}
