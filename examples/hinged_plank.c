/* hinged_plank: planks on hinges turn like weather vanes in a jet of smoke (Aanjaneya 2018, fig.
   3). The hinge is part of the coupled motion.

       build/hinged_plank --out out
       build/hinged_plank --set bodies=3

   Result: the angle of the plank and how far the hinge comes apart. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

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
    int stable = 1;
    double total = 0;
    double drift = 0;
    double turned = 0;

    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");

    fsi_world_desc desc = {
        .grid.ny = args.size,
        .grid.nx = args.size * 2 / 3,
        .grid.nz = 1,
    };

    desc.grid.h = 1.5 / desc.grid.ny;
    desc.grid.rho = 1;
    desc.grid.smoke = 1;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.max_bodies = 2 * bodies;
    desc.max_joints = bodies;

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));

    fsi_grid_source jet = {
        .lo = fsi_vec(0.35, 0, 0),
        .hi = fsi_vec(0.65, 1.01 * world.grid.h, 0),
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_VELOCITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 0.6, 0),
        .divergence = 0.6 / world.grid.h,
        .density = 1,
    };

    fsi_grid_add_source(&world.grid, &jet);

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_BOX,
        .dim = 2,
        .half = fsi_vec(0.16, 0.03, 0),
    };

    fsi_shape plank;
    ex_need(fsi_shape_init(&plank, &sd));
    sd.half = fsi_vec(0.008, 0.008, 0);

    fsi_shape post;
    ex_need(fsi_shape_init(&post, &sd));

    for (int i = 0; i < bodies; i++) {
        fsi_joint_desc options = {0};
        fsi_vec3 pin = fsi_vec(0.36 + 0.12 * i, 0.5 + 0.35 * i, 0);
        fsi_rigid_desc given = {
            .shape = &post,
            .x = pin,
            .ghost = 1,
        };

        options.b = fsi_world_add(&world, &given);
        given.kind = FSI_RIGID_DYNAMIC;
        given.shape = &plank;
        given.density = ex_number(&args, "density");
        given.x = fsi_vec(pin.x + 0.14, pin.y, 0);
        given.ghost = 0;
        given.group = 1;
        options.a = fsi_world_add(&world, &given);
        options.kind = FSI_JOINT_HINGE;
        options.anchor = pin;
        ex_need(fsi_solids_join(&world.solids, &options, NULL));
    }

    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        stable = ex_try(fsi_world_step(&world, ex_number(&args, "dt"), &report)) >= 0;
        total += report.iterations;
        fsi_solids_report sr;
        fsi_solids_measure(&world.solids, &sr);
        if (sr.joint_error > drift)
            drift = sr.joint_error;
        turned = 2 * atan2(world.solids.body[2].q.z, world.solids.body[2].q.w);
        if (args.out) {
            static fsi_real x[3 * 64], v[3 * 64];
            ex_image image = ex_image_make(400, 560);
            ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
            fsi_surface surface;
            ex_draw_field(&image, &view, world.grid.nx, world.grid.ny, world.grid.density, 0, 1, 2);
            ex_colorbar(&image, &view, 2, 0, 1, "SMOKE");
            for (int i = world.solids.body_count - 1; i > 0; i--) { /* pins over their planks */
                fsi_solids_surface(&world.solids, i, x, v, &surface);
                if (i % 2)
                    ex_disk(&image, ex_px(&view, world.solids.body[i].x.x),
                            ex_py(&view, world.solids.body[i].x.y), 4, ex_grey(30));
                else
                    ex_draw_surface(&image, &view, &surface, ex_rgb(205, 120, 50));
            }
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    ex_result("angle", "%.4f", turned);
    ex_result("joint_error", "%.2e", drift / 0.32);
    fsi_world_free(&world);
    fsi_shape_free(&plank);
    fsi_shape_free(&post);
    return ex_end(&args, frame, stable);
}
