/* smoke_ball: light balls thrown about by a plume of smoke (Aanjaneya 2018, fig. 1).

       build/smoke_ball --out out
       build/smoke_ball --set bodies=3 --set density=0.01

   Result: iterations of the coupled solve. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    MOST = 64
};

static void draw(ex_args *args, fsi_world *world) {
    static fsi_real x[3 * 4096], v[3 * 4096];
    ex_image image = ex_image_make(400, 560);
    fsi_grid *grid = &world->grid;
    fsi_surface surface;
    if (grid->dim == 2) {
        ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->density, 0, 1, 2);
        ex_colorbar(&image, &view, 2, 0, 1, "SMOKE");
        for (int i = 0; i < world->door_count; i++) {
            fsi_solids_surface(&world->solids, world->door_body[i], x, v, &surface);
            ex_draw_surface(&image, &view, &surface,
                            ex_map(0, 0.3 + 0.6 * i / (world->door_count + 1.0)));
        }
    } else {
        ex_camera camera = ex_camera_make(1.9, 1.6, 2.7, 0.5, 0.7, 0.5, 1, 36);
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {1, 1.5, 1};

        fsi_iso_mesh mesh = {0};
        ex_clear(&image, ex_rgb(246, 248, 250));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);
        for (int i = 0; i < world->door_count; i++) {
            fsi_solids_surface(&world->solids, world->door_body[i], x, v, &surface);
            ex_draw_surface3(&image, &camera, &surface,
                             ex_map(0, 0.3 + 0.6 * i / (world->door_count + 1.0)));
        }

        for (int i = 0; i < (int)grid->cells; i++)
            grid->scratch[0][i] = 0.3 - grid->density[i];
        fsi_iso_desc desc = {
            .nx = grid->nx,
            .ny = grid->ny,
            .nz = grid->nz,
            .h = grid->h,
            .value = grid->scratch[0],
            .closed = 1,
            .origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2),
        };

        if (fsi_iso_build(&desc, &mesh) == FSI_OK) {
            ex_mesh smoke = {mesh.vertex_count, mesh.element_count, mesh.x,
                             mesh.index,        {120, 124, 135},    0.25};
            ex_draw_mesh(&image, &camera, &smoke);
            fsi_iso_free(&mesh);
        }

        ex_box3(&image, &camera, lo, hi, ex_grey(130));
    }

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
    int stable = 1;
    double total = 0;

    ex_begin(&args, argc, argv, &about);
    int dim = ex_whole(&args, "dim");
    int bodies = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");

    fsi_world_desc desc = {
        .grid.ny = args.size,
        .grid.nx = args.size * 2 / 3,
        .grid.nz = dim == 3 ? args.size * 2 / 3 : 1,
    };

    desc.grid.h = 1.5 / desc.grid.ny;
    desc.grid.rho = 1;
    desc.grid.smoke = 1;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.grid.buoyancy_temperature = 1;
    desc.grid.up = fsi_vec(0, 1, 0);
    desc.grid.confinement = 0.1;
    desc.max_bodies = bodies;

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));

    fsi_grid_source jet = {
        .lo = fsi_vec(0.4, 0, 0.4),
        .hi = fsi_vec(0.6, 1.01 * world.grid.h, 0.6),
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE | FSI_SOURCE_VELOCITY
               | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.6, 0),
        .divergence = 0.6 / world.grid.h,
        .density = 1,
        .temperature = 1,
    };

    fsi_grid_add_source(&world.grid, &jet);

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = dim,
        .radius = 0.08,
    };

    fsi_shape ball;
    ex_need(fsi_shape_init(&ball, &sd));

    for (int i = 0; i < bodies; i++) {
        fsi_rigid_desc given = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &ball,
            .density = ex_number(&args, "density"),
            .restitution = 0.3,
            .x = fsi_vec(0.5 + 0.04 * (i % 3 - 1), 0.25 + 0.19 * (i % 6),
                         dim == 3 ? (0.5 + 0.18 * (i / 6) + 0.03 * (i % 2)) : 0),
        };

        ex_need(fsi_world_add(&world, &given));
    }

    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        stable = ex_try(fsi_world_step(&world, dt, &report)) >= 0;
        total += report.iterations;
        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    return ex_end(&args, frame, stable);
}
