/* bubble: air under water (Aanjaneya 2018, fig. 4). With bubbles=1 the closed air keeps its
   volume: its pressure is one unknown of the solve. With bubbles=0 it is treated like the
   atmosphere, and the water falls into it.

       build/bubble --out out
       build/bubble --set bubbles=0

   Result: how much the volume of the air changed, and how far it rose. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double radius = 0.15, height = 0.3; /* of the bubble and its middle at first, m */
static const double level = 1.1;                 /* of the water, m */

/* Signed distance to the water, negative inside: a pool with a round hole. */
static fsi_real water(fsi_vec3 x, void *user) {
    int dim = *(const int *)user;
    double dx = x.x - 0.5;
    double dy = x.y - height;
    double dz = dim == 3 ? x.z - 0.5 : 0;
    double hole = radius - sqrt(dx * dx + dy * dy + dz * dz);
    return fmax(hole, x.y - level);
}

/* A tank of 1 m x 1.5 m (x 1 m), open above. */
static void make_tank(fsi_world *world, const ex_args *args) {
    int dim = ex_whole(args, "dim");
    fsi_world_desc desc = {
        .grid.nx = args->size * 2 / 3,
        .grid.ny = args->size,
        .grid.nz = dim == 3 ? args->size * 2 / 3 : 1,
        .grid.h = 1.5 / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.bubbles = ex_whole(args, "bubbles") ? 1 : -1,
    };
    ex_need(fsi_world_init(world, &desc));
    ex_need(fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, &dim));
}

/* The closed air of a step. */
typedef struct air {
    double volume;      /* m^3, in 2D m^2 */
    double target;      /* what the solve keeps it at */
    double mean_height; /* of its cells, m */
    int cells;
} air;

static air find_air(const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    air now = {0};
    for (int i = 0; i < grid->region_count; i++)
        if (!grid->regions[i].open)
            now.volume += grid->regions[i].volume;
    for (int i = 0; i < world->couple.bubbles; i++)
        now.target += world->couple.bubble[i].target;

    double sum = 0;
    for (int c = 0; c < (int)grid->cells; c++) {
        int region = grid->region[c];
        if (region < 0 || grid->regions[region].open)
            continue;
        int row = c / grid->nx % grid->ny;
        sum += (row + 0.5) * grid->h;
        now.cells++;
    }
    if (now.cells > 0)
        now.mean_height = sum / now.cells;
    return now;
}

/* What is followed as long as all of the air is closed. */
typedef struct findings {
    int closed;          /* 0: a piece has reached the surface, or all is gone */
    int pieces;          /* the most there were */
    double volume;       /* of the air at first */
    double volume_error; /* relative, worst */
    double liquid_error; /* the same of the water */
    double rise;         /* m */
} findings;

static double larger(double a, double b) {
    return fabs(b) > fabs(a) ? b : a;
}

static void observe(const fsi_world *world, int first, findings *found) {
    const fsi_grid *grid = &world->grid;
    air now = find_air(world);
    if (first)
        found->volume = now.volume;

    double missing = fabs(now.target - found->volume);
    int opened = world->couple.bubbles > 0 && missing > 0.001 * found->volume;
    if (now.cells == 0 || opened)
        found->closed = 0;
    if (!found->closed)
        return;

    double water_error = grid->stats.liquid_volume / grid->levelset.state->target - 1;
    double air_error = (now.volume - found->volume) / found->volume;
    found->rise = now.mean_height - height;
    found->liquid_error = larger(found->liquid_error, water_error);
    found->volume_error = larger(found->volume_error, air_error);
    if (world->couple.bubbles > found->pieces)
        found->pieces = world->couple.bubbles;
}

/* ---- pictures: the middle layer of the water */
static void draw(ex_args *args, const fsi_grid *grid) {
    const fsi_real *phi = grid->phi + grid->nx * grid->ny * (grid->nz / 2);
    ex_image image = ex_image_make(400, 560);
    ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
    ex_clear(&image, ex_grey(255));
    ex_draw_field(&image, &view, grid->nx, grid->ny, phi, 1e8, 2e8, EX_SMOKE);
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, phi, ex_rgb(80, 155, 215));
    ex_frame(args, &image);
    ex_image_free(&image);
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
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    fsi_world world;
    make_tank(&world, &args);

    findings found = {.closed = 1, .pieces = 1};
    double iterations = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&world, dt, &report));
        iterations += report.iterations;
        fsi_grid_classify(&world.grid);
        observe(&world, frame == 0, &found);
        if (args.out)
            draw(&args, &world.grid);
        ex_progress(&args, frame);
    }

    /* The rise in diameters of the bubble. */
    ex_result("volume_error", "%.6f", found.volume_error);
    ex_result("rise", "%.4f", found.rise / (2 * radius));
    ex_result("pieces", "%d", found.pieces);
    ex_result("liquid_error", "%.6f", found.liquid_error);
    ex_result("closed_at_end", "%d", found.closed);
    ex_result("iterations", "%.2f", iterations / (frame > 0 ? frame : 1));
    fsi_world_free(&world);
    return ex_end(&args, frame, ex_fine());
}
