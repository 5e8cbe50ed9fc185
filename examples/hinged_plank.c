/* hinged_plank: planks on hinges turn like weather vanes in a jet of smoke (Aanjaneya 2018, fig.
   3). The hinge is part of the coupled motion.

       build/hinged_plank --out out
       build/hinged_plank --set bodies=3

   Result: the angle of the first plank and how far the hinges come apart. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"

enum {
    MOST = 3 /* planks */
};

static const double half_length = 0.16, half_height = 0.03; /* of a plank, m */

/* A box of 1 m x 1.5 m, open above. A jet of smoke enters through the floor, 0.3 m wide. */
static void make_jet(fsi_world *world, int size, int planks) {
    double h = 1.5 / size;
    fsi_world_desc desc = {
        .grid.nx = size * 2 / 3,
        .grid.ny = size,
        .grid.nz = 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = 2 * planks,
        .max_joints = planks,
    };
    ex_need(fsi_world_init(world, &desc));

    /* One row of cells that make volume. */
    fsi_grid_source jet = {
        .lo = fsi_vec(0.35, 0, 0),
        .hi = fsi_vec(0.65, 1.01 * h, 0),
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_VELOCITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.6, 0),
        .divergence = 0.6 / h,
        .density = 1,
    };
    ex_need(fsi_grid_add_source(&world->grid, &jet));
}

static void make_box(fsi_shape *shape, double half_x, double half_y) {
    fsi_shape_desc desc = {
        .kind = FSI_SHAPE_BOX,
        .dim = 2,
        .half = fsi_vec(half_x, half_y, 0),
    };
    ex_need(fsi_shape_init(shape, &desc));
}

/* A fixed post that nothing touches, and a plank that turns about it. Returns the plank's id. */
static int hang_plank(fsi_world *world, const fsi_shape *post, const fsi_shape *plank, fsi_vec3 pin,
                      double density) {
    fsi_rigid_desc fixed = {
        .kind = FSI_RIGID_FIXED,
        .shape = post,
        .x = pin,
        .ghost = 1,
    };
    fsi_rigid_desc turning = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = plank,
        .density = density,
        .x = fsi_vec(pin.x + 0.14, pin.y, 0),
        .team = 1, /* planks pass each other */
    };
    fsi_joint_desc hinge = {
        .kind = FSI_JOINT_HINGE,
        .anchor = pin,
        .b = ex_need(fsi_world_add(world, &fixed)),
    };
    hinge.a = ex_need(fsi_world_add(world, &turning));
    ex_need(fsi_solids_join(&world->solids, &hinge, NULL));
    return hinge.a;
}

static double angle_of(const fsi_world *world, int id) {
    fsi_quat q = fsi_world_rigid(world, id)->q;
    return 2 * atan2(q.z, q.w);
}

/* ---- pictures: smoke, planks and their pins */
static void draw(ex_args *args, const fsi_world *world, int planks, const int *id) {
    const fsi_grid *grid = &world->grid;
    ex_image image = ex_image_make(400, 560);
    ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->density, 0, 1, EX_SMOKE);
    ex_colorbar(&image, &view, EX_SMOKE, 0, 1, "SMOKE");
    for (int i = 0; i < planks; i++) {
        fsi_surface surface = scene_body(world, id[i]);
        ex_draw_surface(&image, &view, &surface, ex_rgb(205, 120, 50));
    }
    for (int i = 0; i < planks; i++) {
        fsi_vec3 pin = fsi_world_position(world, world->solids.joint[i].b);
        ex_disk(&image, ex_px(&view, pin.x), ex_py(&view, pin.y), 4, ex_grey(30));
    }
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "hinged_plank",
    .what = "Planks on hinges in a jet of smoke.",
    .size = 72,
    .frames = 160,
    .keys =
        {
            EX_NUMBER("density", "", "of the plank over the smoke's", "1", "1e-4 to 1e4"),
            EX_NUMBER("bodies", "", "planks, each on its own hinge", "1", "1 to 3"),
            EX_NUMBER("dt", "s", "time step", "0.02", "1e-4 to 0.2"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int planks = ex_whole(&args, "bodies");
    double density = ex_number(&args, "density");
    double dt = ex_number(&args, "dt");

    /* The jet, and planks one above the other, each a little further to the right. */
    fsi_world world;
    fsi_shape plank;
    fsi_shape post;
    int id[MOST];
    make_jet(&world, args.size, planks);
    make_box(&plank, half_length, half_height);
    make_box(&post, 0.008, 0.008);
    for (int i = 0; i < planks; i++) {
        fsi_vec3 pin = fsi_vec(0.36 + 0.12 * i, 0.5 + 0.35 * i, 0);
        id[i] = hang_plank(&world, &post, &plank, pin, density);
    }

    double iterations = 0;
    double gap = 0; /* of the hinges, m */
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&world, dt, &report));
        iterations += report.iterations;

        fsi_solids_report solids;
        fsi_solids_measure(&world.solids, &solids);
        gap = fmax(gap, solids.joint_error);
        if (args.out)
            draw(&args, &world, planks, id);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", iterations / (frame > 0 ? frame : 1));
    ex_result("angle", "%.4f", angle_of(&world, id[0]));
    ex_result("joint_error", "%.2e", gap / (2 * half_length));
    fsi_world_free(&world);
    fsi_shape_free(&plank);
    fsi_shape_free(&post);
    return ex_end(&args, frame, ex_fine());
}
