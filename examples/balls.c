/* balls: balls of several densities dropped into a pool (XPM, Akbay et al. 2018, fig. 7). Light
   ones float, heavy ones sink, all in one solve a step.

       build/balls --out out                      pictures to out/
       build/balls --set density=0.5,2 --set settle=1
       build/balls --set scheme=xpm               by exchange between water and balls
       build/balls --set dim=3 --size 48

   Result: depth, how deep each ball sits in the water over its radius. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"

enum {
    MOST = 16 /* balls */
};

static const double width = 2, level = 0.55, radius = 0.13; /* of pool, water, balls: m */

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* A pool twice as long as it is high, filled to level, open above. */
static void make_pool(fsi_world *world, const ex_args *args, int balls) {
    int dim = ex_whole(args, "dim");
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size / 2,
        .grid.nz = dim == 3 ? args->size / 2 : 1,
        .grid.h = width / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = ex_is(args, "boundary", "voxel") ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_bodies = balls,
        .damping = ex_whole(args, "settle") ? 2 : 0,
    };
    ex_need(fsi_world_init(world, &desc));
    ex_need(fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&world->grid));
}

/* One ball above the water, number i of so many in a row; returns its id. In 3D they stand in two
   rows. */
static int drop_ball(fsi_world *world, const fsi_shape *ball, double density, int i, int balls) {
    double row = i % 2 ? 0.7 : 0.3;
    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = ball,
        .density = 1000 * density,
        .x = fsi_vec(width * (i + 0.5) / balls, 0.8, world->grid.dim == 3 ? row : 0),
        .friction = 0.2,
    };
    return ex_need(fsi_world_add(world, &desc));
}

/* ---- pictures: the denser a ball, the brighter */
static ex_color ball_color(double density) {
    return ex_map(EX_HEAT, 0.35 + 0.12 * log10(density * 10));
}

static void draw(ex_args *args, const fsi_world *world, int balls, const int *id,
                 const double *density) {
    const fsi_grid *grid = &world->grid;
    int flat = grid->dim == 2;
    ex_image image = ex_image_make(720, flat ? 40 + 680 * grid->ny / grid->nx : 480);
    ex_view view = scene_view(grid, 20, 20, 680);
    ex_camera camera = ex_camera_make(1, 1.55, 3.1, 1, 0.42, 0.5, 1, 33);

    if (flat)
        scene_water2(&image, &view, grid);
    else
        scene_begin3(&image, &camera, grid);
    for (int i = 0; i < balls; i++) {
        fsi_surface surface = scene_body(world, id[i]);
        if (flat)
            ex_draw_surface(&image, &view, &surface, ball_color(density[i]));
        else
            ex_draw_surface3(&image, &camera, &surface, ball_color(density[i]));
    }

    if (!flat)
        scene_end3(&image, &camera, grid);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "balls",
    .what = "Balls of several densities dropped into a pool of water.",
    .size = 96,
    .frames = 100,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("density", "", "list, over the water's", "0.1,0.5,0.9,10", "1e-6 to 1e6"),
            EX_WORD("scheme", "coupling", "monolithic", "monolithic,xpm"),
            EX_NUMBER("settle", "", "1: run on until at rest, with damping", "0", "0 to 1"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-5 to 0.1"),
            EX_BOUNDARY,
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    int settle = ex_whole(&args, "settle");

    /* The pool, and a row of balls above it. */
    double density[MOST];
    int balls = ex_list(&args, "density", density, MOST);
    fsi_world world;
    make_pool(&world, &args, balls);
    fsi_shape_desc round = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = world.grid.dim,
        .radius = radius,
        .resolution = 32,
    };
    fsi_shape ball;
    ex_need(fsi_shape_init(&ball, &round));
    int id[MOST];
    for (int i = 0; i < balls; i++)
        id[i] = drop_ball(&world, &ball, density[i], i, balls);

    /* How water and balls are coupled: one solve, or exchange until they agree within a twentieth
       of a cell. */
    stepper run;
    fsi_partitioned_desc agree = {.tolerance = 0.05 * world.grid.h};
    stepper_begin(&run, &world, ex_is(&args, "scheme", "monolithic"), 6 * MOST, agree);

    /* Two steps a frame. To settle takes four times as long; that part is not drawn. */
    double volume_at_first = world.grid.stats.liquid_volume;
    int frames = settle ? 4 * args.frames : args.frames;
    if (settle)
        printf("damping=2 1/s on bodies and fluid\n");
    for (int frame = 0; frame < frames && ex_fine(); frame++) {
        for (int i = 0; i < 2 && ex_fine(); i++)
            stepper_step(&run, dt);
        if (args.out && frame < args.frames)
            draw(&args, &world, balls, id, density);
        ex_progress(&args, frame < args.frames ? frame : args.frames - 1);
    }

    /* How deep the lowest point of each ball is under the mean level of the water. The pool is 1 m
       deep in 3D too. */
    char depths[256] = "";
    for (int i = 0; i < balls; i++) {
        double bottom = fsi_world_position(&world, id[i]).y - radius;
        double depth = (scene_level(&world, width) - bottom) / radius;
        size_t used = strlen(depths);
        snprintf(depths + used, sizeof depths - used, "%s%.4f", i ? "," : "", depth);
    }

    ex_result("depth", "%s", depths);
    if (run.monolithic)
        ex_result("iterations", "%.2f", stepper_mean_iterations(&run));
    else {
        ex_result("mean_iterations", "%.3f", stepper_mean_iterations(&run));
        ex_result("xpm_share", "%.4f", stepper_scheme_share(&run));
    }
    double volume = world.grid.stats.liquid_volume;
    ex_result("volume_error", "%.6f", (volume - volume_at_first) / volume_at_first);

    stepper_end(&run);
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    return ex_end(&args, run.steps, ex_fine());
}
