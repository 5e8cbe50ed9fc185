/* smoke_ball: light balls thrown about by a plume of smoke (Aanjaneya 2018, fig. 1).

       build/smoke_ball --out out
       build/smoke_ball --set bodies=3 --set density=0.01

   Result: iterations of the coupled solve. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* A box of 1 m x 1.5 m (x 1 m), open above. Hot smoke enters through the floor, 0.2 m wide. */
static void make_plume(fsi_world *world, const ex_args *args, int bodies) {
    int dim = ex_whole(args, "dim");
    double h = 1.5 / args->size;
    fsi_world_desc desc = {
        .grid.nx = args->size * 2 / 3,
        .grid.ny = args->size,
        .grid.nz = dim == 3 ? args->size * 2 / 3 : 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .grid.buoyancy_temperature = 1,
        .grid.up = fsi_vec(0, 1, 0),
        .grid.confinement = 0.1,
        .max_bodies = bodies,
    };
    ex_need(fsi_world_init(world, &desc));

    /* One row of cells that make volume, smoke and heat. */
    fsi_grid_source jet = {
        .lo = fsi_vec(0.4, 0, 0.4),
        .hi = fsi_vec(0.6, 1.01 * h, 0.6),
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY
               | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.6, 0),
        .divergence = 0.6 / h,
        .density = 1,
        .temperature = 1,
    };
    ex_need(fsi_grid_add_source(&world->grid, &jet));
}

/* Ball number i: columns of six above the jet, by turns left, above and right of its middle. */
static void add_ball(fsi_world *world, const fsi_shape *ball, int i, double density) {
    double x = 0.5 + 0.04 * (i % 3 - 1);
    double y = 0.25 + 0.19 * (i % 6);
    double z = 0.5 + 0.18 * (i / 6) + 0.03 * (i % 2);
    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = ball,
        .density = density,
        .restitution = 0.3,
        .x = fsi_vec(x, y, world->grid.dim == 3 ? z : 0),
    };
    ex_need(fsi_world_add(world, &desc));
}

/* ---- pictures */
static ex_color ball_color(const fsi_world *world, int i) {
    return ex_map(0, 0.3 + 0.6 * i / (world->door_count + 1.0));
}

static void draw2(ex_image *image, const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
    ex_draw_field(image, &view, grid->nx, grid->ny, grid->density, 0, 1, EX_SMOKE);
    ex_colorbar(image, &view, EX_SMOKE, 0, 1, "SMOKE");
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface(image, &view, &world->door[i]->surface, ball_color(world, i));
}

/* The surface where the smoke has three tenths of its density. */
static void draw_smoke(ex_image *image, const ex_camera *camera, const fsi_grid *grid) {
    fsi_real *value = ex_alloc(grid->cells, sizeof *value);
    for (size_t i = 0; i < grid->cells; i++)
        value[i] = 0.3 - grid->density[i];

    fsi_iso_desc desc = {
        .nx = grid->nx,
        .ny = grid->ny,
        .nz = grid->nz,
        .h = grid->h,
        .value = value,
        .closed = 1,
        .origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2),
    };
    fsi_iso_mesh mesh = {0};
    if (fsi_iso_build(&desc, &mesh) == FSI_OK) {
        ex_mesh smoke = {
            .vertices = mesh.vertex_count,
            .triangles = mesh.element_count,
            .x = mesh.x,
            .index = mesh.index,
            .color = ex_rgb(120, 124, 135),
            .glass = 0.25,
        };
        ex_draw_mesh(image, camera, &smoke);
        fsi_iso_free(&mesh);
    }
    free(value);
}

static void draw3(ex_image *image, const fsi_world *world) {
    ex_camera camera = ex_camera_make(1.9, 1.6, 2.7, 0.5, 0.7, 0.5, 1, 36);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1.5, 1};
    ex_clear(image, ex_rgb(246, 248, 250));
    ex_floor(image, &camera, lo, hi, 1, 0, 0.125);
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface3(image, &camera, &world->door[i]->surface, ball_color(world, i));
    draw_smoke(image, &camera, &world->grid);
    ex_box3(image, &camera, lo, hi, ex_grey(130));
}

static void draw(ex_args *args, const fsi_world *world) {
    ex_image image = ex_image_make(400, 560);
    if (world->grid.dim == 2)
        draw2(&image, world);
    else
        draw3(&image, world);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "smoke_ball",
    .what = "Light balls in a plume of smoke.",
    .size = 72,
    .frames = 160,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("bodies", "", "number of balls", "3", "1 to 64"),
            EX_NUMBER("density", "", "over the smoke's", "0.2", "1e-4 to 1e4"),
            EX_NUMBER("dt", "s", "time step", "0.02", "1e-4 to 0.2"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double density = ex_number(&args, "density");
    double dt = ex_number(&args, "dt");

    fsi_world world;
    make_plume(&world, &args, bodies);
    fsi_shape_desc round = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = world.grid.dim,
        .radius = 0.08,
    };
    fsi_shape ball;
    ex_need(fsi_shape_init(&ball, &round));
    for (int i = 0; i < bodies; i++)
        add_ball(&world, &ball, i, density);

    double iterations = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&world, dt, &report));
        iterations += report.iterations;
        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", iterations / (frame > 0 ? frame : 1));
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    return ex_end(&args, frame, ex_fine());
}
