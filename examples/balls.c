/* balls: balls of several densities dropped into a pool (XPM fig. 7): light ones float, heavy ones
   sink, all in one solve a step, or by exchange (scheme=xpm). cc -O2 -I. -Iexamples
   examples/balls.c -o balls -lm */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    MOST = 16
};

typedef struct pool {
    int dim;
    double level;
} pool;

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - ((pool *)user)->level;
}

static void draw(ex_args *args, fsi_world *world, int balls, const int *id, const double *density) {
    static fsi_real x[3 * 4096], v[3 * 4096];
    fsi_grid *grid = &world->grid;
    ex_image image = ex_image_make(720, grid->dim == 3 ? 480 : 40 + 680 * grid->ny / grid->nx);
    fsi_surface surface;
    if (grid->dim == 2) {
        ex_view view = ex_view_make(0, 0, grid->h * grid->nx, grid->h * grid->ny, 20, 20, 680,
                                    (int)(680.0 * grid->ny / grid->nx));
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->phi, 1e8, 2e8, 2);
        ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
        for (int i = 0; i < balls; i++) {
            fsi_solids_surface(&world->solids, id[i], x, v, &surface);
            ex_draw_surface(&image, &view, &surface,
                            ex_map(0, 0.35 + 0.12 * log10(density[i] * 10)));
        }
    } else {
        ex_camera camera = ex_camera_make(1, 1.55, 3.1, 1, 0.42, 0.5, 1, 33);
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {grid->h * grid->nx, grid->h * grid->ny, grid->h * grid->nz};
        ex_clear(&image, ex_rgb(245, 248, 250));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);
        for (int i = 0; i < balls; i++) {
            fsi_solids_surface(&world->solids, id[i], x, v, &surface);
            ex_draw_surface3(&image, &camera, &surface,
                             ex_map(0, 0.35 + 0.12 * log10(density[i] * 10)));
        }

        ex_draw_water(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                      ex_rgb(80, 160, 220), 0.5);
        ex_box3(&image, &camera, lo, hi, ex_rgb(110, 110, 110));
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

int main(int argc, char **argv) {
    static const ex_about about = {
        .name = "balls",
        .what = "Balls of several densities dropped into a pool of water.",
        .size = 96,
        .frames = 100,
        .keys =
            {
                EX_NUMBER("dim", "", "2 or 3", "2", 2, 3),
                EX_NUMBER("density", "", "list, over the water's", "0.1,0.5,0.9,10", 1e-6, 1e6),
                EX_WORD("scheme", "coupling", "monolithic", "monolithic,xpm"),
                EX_NUMBER("settle", "", "1: run on until at rest, with damping", "0", 0, 1),
                EX_NUMBER("dt", "s", "time step", "0.005", 1e-5, 0.1),
                EX_NUMBER("fractions", "", "1: area fractions instead of voxel faces", "0", 0, 1),
            },
    };
    static fsi_partitioned_scene scene;
    static fsi_solid_part part[MOST + 1];
    fsi_coupled *list[MOST + 1];
    fsi_partitioned scheme = {0};

    ex_args args;
    double density[MOST], depth[MOST];
    double r = 0.13;
    double total = 0;
    double spent = 0;
    int id[MOST];
    int stable = 1;
    int steps = 0;
    char text[256] = "";

    ex_begin(&args, argc, argv, &about);
    pool p;
    p.dim = ex_whole(&args, "dim");
    p.level = 0.55;
    double dt = ex_number(&args, "dt");
    int settle = ex_whole(&args, "settle");
    int xpm = ex_is(&args, "scheme", "xpm");
    int balls = ex_list(&args, "density", density, MOST);

    fsi_world_desc desc = {
        .grid.nx = args.size,
        .grid.ny = args.size / 2,
        .grid.nz = p.dim == 3 ? args.size / 2 : 1,
        .grid.h = 2.0 / args.size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = balls,
        .couple.boundary = (fsi_boundary_kind)ex_number(&args, "fractions"),
        .damping = settle ? 2 : 0,
    };

    fsi_world world;
    if (fsi_world_init(&world, &desc) != FSI_OK)
        return 1;

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = p.dim,
        .radius = r,
        .resolution = 32,
    };

    fsi_shape ball;
    if (fsi_shape_init(&ball, &sd) != FSI_OK)
        return 1;

    for (int i = 0; i < balls; i++) {
        double z = p.dim == 3 ? 0.5 + 0.2 * (i % 2 ? 1 : -1) : 0;
        fsi_rigid_desc given = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &ball,
            .density = 1000 * density[i],
            .x = fsi_vec(2.0 * (i + 0.5) / balls, 0.8, z),
            .friction = 0.2,
        };

        id[i] = fsi_world_add(&world, &given);
    }

    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &p);
    fsi_grid_classify(&world.grid);

    fsi_partitioned_desc pd = {
        .n = 6 * MOST + 64,
        .m = 6 * MOST + 64,
        .group = 3,
        .tolerance = 0.05 * world.grid.h,
        .clock_fn = ex_clock,
    };

    scene.scheme = &scheme;
    scene.list = list;
    scene.solids.part = part;
    scene.fluid.bpp = 1;
    scene.fluid.tolerance = 1e-6;

    if (xpm && fsi_partitioned_init(&scheme, &pd) != FSI_OK)
        return 1;
    double volume0 = world.grid.stats.liquid_volume;
    if (settle)
        printf("damping=2 1/s on bodies and fluid\n");

    for (int frame = 0; frame < (settle ? 4 : 1) * args.frames && stable; frame++) {
        for (int i = 0; i < 2 && stable; i++, steps++) {
            double start = ex_now();
            fsi_report report;
            fsi_result rc = xpm ? fsi_world_exchange(&world, &scene, dt, &report)
                                : fsi_world_step(&world, dt, &report);
            if (rc < 0) {
                stable = 0;
                fprintf(stderr, "step %d: %s\n", steps, fsi_result_text(rc));
            }
            spent += ex_now() - start;
            total += report.iterations;
        }

        if (args.out && frame < args.frames)
            draw(&args, &world, balls, id, density);
        ex_progress(&args, frame < args.frames ? frame : args.frames - 1);
    }

    /* submerged depth over the radius: below the mean level of the water */
    for (int i = 0; i < balls; i++) {
        double area = 2.0 * (p.dim == 3 ? 1.0 : 1.0);
        double below = 0;
        for (int k = 0; k < world.door_count; k++)
            below += world.couple.iface.submerged[k];
        double level = (world.grid.stats.liquid_volume + below) / area;
        depth[i] = (level - (world.solids.body[id[i]].x.y - r)) / r;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.4f", i ? "," : "", depth[i]);
    }

    ex_result("depth", "%s", text);
    if (xpm) {
        ex_result("mean_iterations", "%.3f", total / (steps ? steps : 1));
        ex_result("xpm_share", "%.4f", scheme.seconds[2] / spent);
    } else
        ex_result("iterations", "%.2f", total / (steps ? steps : 1));
    ex_result("volume_error", "%.6f", (world.grid.stats.liquid_volume - volume0) / volume0);
    fsi_partitioned_scene_free(&scene);
    fsi_partitioned_free(&scheme);
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    return ex_end(&args, steps, stable);
}
