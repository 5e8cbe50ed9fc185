/* pool_party: balls and boxes of many densities and a sheet of cloth fall into a pool (Akbay et
   al. 2018, fig. 14), coupled by exchange or by one solve.

       build/pool_party --out out
       build/pool_party --set scheme=monolithic   one solve for everything
       build/pool_party --set mass_ratio=0.01     a lighter cloth

   Result: how often both solvers were asked a step, and the volume of the water. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    BODIES = 8,
    SHEET = 13
};

typedef struct cloth {
    fsi_soft soft;
    fsi_soft_responder responder;
    int monolithic;
} cloth;

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - *(const fsi_real *)user;
}

/* A square sheet whose two edges along x are held by posts at its corners. */
static int make_cloth(cloth *c, double mass, double y) {
    static fsi_real x[3 * SHEET * SHEET];
    static int32_t triangle[6 * (SHEET - 1) * (SHEET - 1)];
    static unsigned char pin[SHEET * SHEET];

    int n = 0;

    for (int j = 0; j < SHEET; j++)
        for (int i = 0; i < SHEET; i++) {
            fsi_real *p = x + 3 * (i + SHEET * j);
            p[0] = 1.2 + 0.6 * i / (SHEET - 1);
            p[1] = y;
            p[2] = 0.2 + 0.6 * j / (SHEET - 1);
            if (i + 1 < SHEET && j + 1 < SHEET) {
                int a = i + SHEET * j;
                int b = a + 1;
                int e = a + SHEET;
                int f = e + 1;
                const int q[6] = {a, e, b, b, e, f};
                for (int k = 0; k < 6; k++)
                    triangle[n++] = q[k];
            }
        }
    pin[0] = pin[SHEET - 1] = pin[SHEET * (SHEET - 1)] = pin[SHEET * SHEET - 1] = 7;

    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = SHEET * SHEET,
        .x = x,
        .triangle_count = n / 3,
        .triangle = triangle,
        .pin = pin,
        .area_density = mass,
        .stretch = 400,
        .stretch_poisson = 0.3,
        .bend = 1e-3,
        .damping_stiffness = 0.02,
        .gravity = fsi_vec(0, -9.81, 0),
        .integrator = c->monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };

    c->responder.soft = &c->soft;
    return fsi_soft_init(&c->soft, &desc) == FSI_OK;
}

static void draw(ex_args *args, fsi_world *world) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1, 1.7, 3.2, 1, 0.4, 0.5, 1, 33);
    fsi_grid *grid = &world->grid;
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {grid->h * grid->nx, grid->h * grid->ny, grid->h * grid->nz};
    ex_clear(&image, ex_rgb(245, 248, 250));
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);

    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface3(&image, &camera, &world->door[i]->surface,
                         world->door_body[i] < 0 ? ex_rgb(205, 60, 70)
                                                 : ex_map(0, 0.25 + 0.7 * i / BODIES));
    ex_draw_water(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                  ex_rgb(80, 160, 220), 0.5);
    ex_box3(&image, &camera, lo, hi, ex_rgb(110, 110, 110));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "pool_party",
    .what = "Balls, boxes and cloth fall into a pool.",
    .size = 48,
    .frames = 60,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "cloth over a layer of water two cells thick", "0.1", 1e-3,
                      1e3),
            EX_WORD("scheme", "coupling", "xpm", "p,pc,rmi,xpm,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc", "0.05", 1e-4, 1.9),
            EX_NUMBER("dt", "s", "time step", "0.005", 1e-4, 0.1),
            EX_NUMBER("cap", "", "most iterations of a step", "60", 2, 1000),
        },
};

int main(int argc, char **argv) {
    static const double density[BODIES] = {0.1, 0.3, 0.5, 0.9, 2, 0.2, 0.6, 8};
    static fsi_partitioned_scene scene;
    static fsi_guest part[BODIES + 2];
    static cloth c;
    fsi_coupled *list[BODIES + 2];
    fsi_partitioned scheme = {0};

    fsi_shape shape[2];

    fsi_real level = 0.45;
    ex_args args;
    double total = 0;
    double spent = 0;
    int steps = 0;
    int stable = 1;
    int most = 0;
    int capped = 0;

    ex_begin(&args, argc, argv, &about);
    c.monolithic = ex_is(&args, "scheme", "monolithic");
    double dt = ex_number(&args, "dt");
    int pressure = ex_is(&args, "scheme", "p") || ex_is(&args, "scheme", "rmi");

    fsi_world_desc desc = {
        .grid.nx = args.size,
        .grid.ny = args.size / 2,
        .grid.nz = args.size / 2,
        .grid.h = 2.0 / args.size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.shells = 1,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = BODIES,
        .max_guests = 1,
    };

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));

    fsi_shape_desc sd = {
        .dim = 3,
        .kind = FSI_SHAPE_SPHERE,
        .radius = 0.11,
        .resolution = 20,
    };

    ex_need(fsi_shape_init(&shape[0], &sd));
    sd.kind = FSI_SHAPE_BOX;
    sd.half = fsi_vec(0.1, 0.08, 0.1);

    ex_need(fsi_shape_init(&shape[1], &sd));

    for (int i = 0; i < BODIES; i++) {
        fsi_rigid_desc given = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &shape[i % 2],
            .density = 1000 * density[i],
            .friction = 0.3,
            .x = fsi_vec(0.16 + 0.27 * (i % 4), 0.68 + 0.15 * (i / 4), i / 4 ? 0.72 : 0.28),
        };

        ex_need(fsi_world_add(&world, &given));
    }

    if (!make_cloth(&c, ex_number(&args, "mass_ratio") * 1000 * 2 * desc.grid.h, 0.5))
        return 1;
    fsi_guest guest = fsi_soft_guest(&c.responder);
    fsi_world_add_guest(&world, &guest);
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &level);
    fsi_grid_classify(&world.grid);
    double volume0 = world.grid.stats.liquid_volume;

    fsi_partitioned_desc pd = {
        .n = 6 * (BODIES + 1) + 3 * SHEET * SHEET + 64,
        .m = 6 * (BODIES + 1) + 3 * SHEET * SHEET + 64,
        .group = 3,
        .max_iterations = ex_whole(&args, "cap"),
        .tolerance = 0.05 * desc.grid.h,
        .clock_fn = ex_clock,
        .omega = ex_number(&args, "omega"),
        .scheme = ex_is(&args, "scheme", "p") || ex_is(&args, "scheme", "pc") ? FSI_SCHEME_RELAXED
                                                                              : FSI_SCHEME_REDUCED,
    };

    ex_need(fsi_partitioned_init(&scheme, &pd));
    scene.scheme = &scheme;
    scene.list = list;
    scene.solids.part = part;
    scene.fluid.bpp = 1;
    scene.fluid.tolerance = 1e-6;
    scene.fluid.pressure_form = pressure;

    for (int frame = 0; frame < args.frames && stable; frame++) {
        for (int i = 0; i < 2 && stable; i++, steps++) {
            fsi_report report;
            double start = ex_now();
            fsi_result result = c.monolithic ? fsi_world_step(&world, dt, &report)
                                             : fsi_world_exchange(&world, &scene, dt, &report);
            spent += ex_now() - start;
            if (result < 0 || !(fsi_max_abs(3 * SHEET * SHEET, c.soft.v) < 100)) {
                stable = 0;
                fprintf(stderr, "step %d: %s\n", steps, fsi_result_text(result));
            }
            total += report.iterations;
            capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
            if (report.iterations > most)
                most = report.iterations;
        }

        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    ex_result(c.monolithic ? "iterations" : "mean_iterations", "%.3f", total / (steps ? steps : 1));
    if (!c.monolithic) {
        ex_result("max_iterations", "%d", most);
        ex_result("capped_steps", "%d", capped);
        ex_result("modes", "%.2f", total / (steps ? steps : 1) - 1);
        ex_result("fluid_share", "%.4f", scheme.seconds[0] / spent);
        ex_result("solid_share", "%.4f", scheme.seconds[1] / spent);
        ex_result("xpm_share", "%.4f", scheme.seconds[2] / spent);
    }

    ex_result("volume_error", "%.6f", (world.grid.stats.liquid_volume - volume0) / volume0);
    fsi_partitioned_scene_free(&scene);
    fsi_partitioned_free(&scheme);
    fsi_soft_responder_free(&c.responder);
    fsi_soft_free(&c.soft);
    fsi_world_free(&world);
    fsi_shape_free(&shape[0]);
    fsi_shape_free(&shape[1]);
    return ex_end(&args, steps, stable);
}
