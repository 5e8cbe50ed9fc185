/* bubble: air under water (Aanjaneya 2018, fig. 4). With bubbles=1 the closed air keeps its
   volume: its pressure is one unknown of the solve. With bubbles=0 it is treated like the
   atmosphere, and the water falls into it.

       build/bubble --out out
       build/bubble --set bubbles=0

   Result: how much the volume of the air changed, and how far it rose. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double R = 0.15, X0 = 0.5, Y0 = 0.3, LEVEL = 1.1;

static fsi_real water(fsi_vec3 x, void *user) { /* a pool with a round hole */
    int dim = *(int *)user;
    double z = dim == 3 ? x.z - 0.5 : 0;
    double hole = R - sqrt(pow(x.x - X0, 2) + pow(x.y - Y0, 2) + z * z);
    double top = x.y - LEVEL;
    return hole > top ? hole : top;
}

static const ex_about about = {
    .name = "bubble",
    .what = "An air bubble rises in water.",
    .size = 72,
    .frames = 320,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("bubbles", "", "1: closed air keeps its volume", "1", "0 to 1"),
            EX_NUMBER("dt", "s", "time step", "0.004", "1e-5 to 0.05"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    int stable = 1;
    int alive = 1;
    int pieces = 1;
    double total = 0;
    double v0 = 0;
    double worst = 0;
    double liquid = 0;
    double rise = 0;

    ex_begin(&args, argc, argv, &about);
    int dim = ex_whole(&args, "dim");
    double dt = ex_number(&args, "dt");

    fsi_world_desc desc = {
        .grid.ny = args.size,
        .grid.nx = args.size * 2 / 3,
        .grid.nz = dim == 3 ? args.size * 2 / 3 : 1,
    };

    desc.grid.h = 1.5 / desc.grid.ny;
    desc.grid.rho = 1000;
    desc.grid.gravity = fsi_vec(0, -9.81, 0);
    desc.grid.liquid = 1;
    desc.grid.volume_correction = 1;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.couple.bubbles = ex_whole(&args, "bubbles") ? 1 : -1;

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &dim);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        double volume = 0;
        double target = 0;
        double y = 0;
        double cells = 0;
        stable = ex_try(fsi_world_step(&world, dt, &report)) >= 0;
        total += report.iterations;
        fsi_grid_classify(&world.grid);
        for (int i = 0; i < world.grid.region_count; i++)
            if (!world.grid.regions[i].open)
                volume += world.grid.regions[i].volume;
        for (size_t c = 0; c < world.grid.cells; c++)
            if (world.grid.region[c] >= 0 && !world.grid.regions[world.grid.region[c]].open) {
                y += ((double)(c / (size_t)world.grid.nx % (size_t)world.grid.ny) + 0.5)
                     * world.grid.h;
                cells += 1;
            }
        for (int i = 0; i < world.couple.bubbles; i++)
            target += world.couple.bubble[i].target;
        if (frame == 0)
            v0 = volume;

        /* a piece has reached the surface, or all is gone */
        if (cells == 0 || (world.couple.bubbles && fabs(target - v0) > 0.001 * v0))
            alive = 0;
        if (alive) {
            rise = y / cells - Y0;
            pieces = world.couple.bubbles > pieces ? world.couple.bubbles : pieces;
        }

        if (alive
            && fabs(world.grid.stats.liquid_volume / world.grid.levelset.state->target - 1)
                   > fabs(liquid))
            liquid = world.grid.stats.liquid_volume / world.grid.levelset.state->target - 1;
        if (alive && fabs(volume - v0) / v0 > fabs(worst))
            worst = (volume - v0) / v0;
        if (args.out) {
            ex_image image = ex_image_make(400, 560);
            ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
            ex_clear(&image, ex_grey(255));
            ex_draw_field(&image, &view, world.grid.nx, world.grid.ny,
                          world.grid.phi
                              + (dim == 3 ? (size_t)(world.grid.nx * world.grid.ny)
                                                * (size_t)(world.grid.nz / 2)
                                          : 0),
                          1e8, 2e8, 2);
            ex_draw_liquid(&image, &view, world.grid.nx, world.grid.ny,
                           world.grid.phi
                               + (dim == 3 ? (size_t)(world.grid.nx * world.grid.ny)
                                                 * (size_t)(world.grid.nz / 2)
                                           : 0),
                           ex_rgb(80, 155, 215));
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    ex_result("volume_error", "%.6f", worst);

    /* in diameters, while all of it was closed */
    ex_result("rise", "%.4f", rise / (2 * R));
    ex_result("pieces", "%d", pieces);
    ex_result("liquid_error", "%.6f", liquid);
    ex_result("closed_at_end", "%d", alive);
    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    fsi_world_free(&world);
    return ex_end(&args, frame, stable);
}
