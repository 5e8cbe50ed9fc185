/* pool_party: balls and boxes of many densities and a sheet of cloth fall into a pool (Akbay et
   al. 2018, fig. 14), coupled by exchange or by one solve.

       build/pool_party --out out
       build/pool_party --set scheme=monolithic   one solve for everything
       build/pool_party --set mass_ratio=0.01     a lighter cloth

   Result: how often both solvers were asked a step, and the volume of the water. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"

enum {
    BODIES = 8,
    SHEET = 13, /* nodes along the sheet */
    NODES = SHEET * SHEET
};

static const fsi_real level = 0.45; /* of the water, m */

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* A pool of 2 m x 1 m x 1 m, open above. Both sides of the sheet are wet: shells = 1. */
static void make_pool(fsi_world *world, int size) {
    fsi_world_desc desc = {
        .grid.nx = size,
        .grid.ny = size / 2,
        .grid.nz = size / 2,
        .grid.h = 2.0 / size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.shells = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = BODIES,
        .max_guests = 1,
    };
    ex_need(fsi_world_init(world, &desc));
    ex_need(fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&world->grid));
}

/* Two rows of four bodies, balls and boxes in turn. */
static void drop_bodies(fsi_world *world, const fsi_shape *ball, const fsi_shape *box) {
    static const double density[BODIES] = {0.1, 0.3, 0.5, 0.9, 2, 0.2, 0.6, 8};
    for (int i = 0; i < BODIES; i++) {
        int row = i / 4;
        fsi_rigid_desc desc = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = i % 2 ? box : ball,
            .density = 1000 * density[i],
            .friction = 0.3,
            .x = fsi_vec(0.16 + 0.27 * (i % 4), 0.68 + 0.15 * row, row ? 0.72 : 0.28),
        };
        ex_need(fsi_world_add(world, &desc));
    }
}

/* A square sheet held at its four corners, just above the water. */
static void make_sheet(fsi_soft *sheet, double area_density, int monolithic) {
    static fsi_real x[3 * NODES];
    static int32_t triangle[6 * NODES];
    static unsigned char pin[NODES];
    int corners = 0;
    for (int j = 0; j < SHEET; j++)
        for (int i = 0; i < SHEET; i++) {
            int node = i + SHEET * j;
            double along = 0.6 * i / (SHEET - 1);
            double across = 0.6 * j / (SHEET - 1);
            fsi_vec_store(x + 3 * node, fsi_vec(1.2 + along, 0.5, 0.2 + across));

            /* Two triangles a square. */
            if (i + 1 == SHEET || j + 1 == SHEET)
                continue;
            int right = node + 1;
            int next = node + SHEET;
            const int corner[6] = {node, next, right, right, next, next + 1};
            for (int k = 0; k < 6; k++)
                triangle[corners++] = corner[k];
        }

    /* 7: held along x, y and z. */
    pin[0] = pin[SHEET - 1] = 7;
    pin[NODES - SHEET] = pin[NODES - 1] = 7;

    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = NODES,
        .x = x,
        .triangle_count = corners / 3,
        .triangle = triangle,
        .pin = pin,
        .area_density = area_density,
        .stretch = 400,
        .stretch_poisson = 0.3,
        .bend = 1e-3,
        .damping_stiffness = 0.02,
        .gravity = fsi_vec(0, -9.81, 0),
        .integrator = monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };
    ex_need(fsi_soft_init(sheet, &desc));
}

/* How water and solids are coupled. */
static void couple(stepper *run, fsi_world *world, const ex_args *args) {
    fsi_partitioned_desc desc = {
        .scheme = stepper_relaxed(args) ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED,
        .omega = ex_number(args, "omega"),
        .max_iterations = ex_whole(args, "cap"),
        .tolerance = 0.05 * world->grid.h,
    };
    int dof = 6 * (BODIES + 1) + 3 * NODES;
    stepper_begin(run, world, ex_is(args, "scheme", "monolithic"), dof, desc);
    run->exchange.fluid.pressure_form = stepper_pressures(args);
}

static void draw(ex_args *args, const fsi_world *world) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1, 1.7, 3.2, 1, 0.4, 0.5, 1, 33);
    scene_begin3(&image, &camera, &world->grid);
    for (int i = 0; i < world->door_count; i++) {
        int is_sheet = world->door_body[i] < 0;
        ex_color color = ex_map(EX_HEAT, 0.25 + 0.7 * i / BODIES);
        ex_draw_surface3(&image, &camera, &world->door[i]->surface,
                         is_sheet ? ex_rgb(205, 60, 70) : color);
    }

    scene_end3(&image, &camera, &world->grid);
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
            EX_NUMBER("mass_ratio", "", "cloth over a layer of water two cells thick", "0.1",
                      "1e-3 to 1e3"),
            EX_WORD("scheme", "coupling", "xpm", "p,pc,rmi,xpm,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc", "0.05", "1e-4 to 1.9"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-4 to 0.1"),
            EX_NUMBER("cap", "", "most iterations of a step", "60", "2 to 1000"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");

    /* The pool and the bodies above it. */
    fsi_world world;
    make_pool(&world, args.size);
    fsi_shape_desc round = {.kind = FSI_SHAPE_SPHERE, .dim = 3, .radius = 0.11, .resolution = 20};
    fsi_shape_desc square = {.kind = FSI_SHAPE_BOX, .dim = 3, .half = fsi_vec(0.1, 0.08, 0.1)};
    fsi_shape ball;
    fsi_shape box;
    ex_need(fsi_shape_init(&ball, &round));
    ex_need(fsi_shape_init(&box, &square));
    drop_bodies(&world, &ball, &box);

    /* The sheet is a guest: a solid that is no rigid body. */
    fsi_soft sheet;
    double layer = 1000 * 2 * world.grid.h; /* kg per m^2 of water two cells thick */
    make_sheet(&sheet, ex_number(&args, "mass_ratio") * layer,
               ex_is(&args, "scheme", "monolithic"));
    fsi_soft_responder responder = {.soft = &sheet};
    fsi_guest guest = fsi_soft_guest(&responder);
    ex_need(fsi_world_add_guest(&world, &guest));

    stepper run;
    couple(&run, &world, &args);
    double volume_at_first = world.grid.stats.liquid_volume;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < 2 && ex_fine(); i++) {
            stepper_step(&run, dt);
            ex_check_speed(fsi_max_abs(3 * NODES, sheet.v), 100);
        }

        if (args.out)
            draw(&args, &world);
        ex_progress(&args, frame);
    }

    if (run.monolithic)
        ex_result("iterations", "%.3f", stepper_mean_iterations(&run));
    else
        stepper_results(&run);
    double volume = world.grid.stats.liquid_volume;
    ex_result("volume_error", "%.6f", (volume - volume_at_first) / volume_at_first);

    stepper_end(&run);
    fsi_soft_responder_free(&responder);
    fsi_soft_free(&sheet);
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    fsi_shape_free(&box);
    return ex_end(&args, run.steps, ex_fine());
}
