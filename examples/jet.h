/* jet.h: a jet of smoke and what it blows about, by every coupling scheme: shared by plank_jet.c
   and foam_jet.c. */
#ifndef JET_H
#define JET_H
#include "scene.h"

#define JET_KEYS                                                                                   \
    EX_WORD("scheme", "coupling", "xpm", "p,pc,rmi,xpm,monolithic"),                               \
        EX_NUMBER("omega", "", "relaxation of p and pc", "0.05", "1e-4 to 1.9"),                   \
        EX_NUMBER("speed", "m/s", "of the jet", "0.5", "0 to 10"),                                 \
        EX_NUMBER("tolerance", "cells", "residual of the partitioned schemes", "0.05",             \
                  "1e-9 to 1")

typedef struct jet {
    fsi_world world;
    stepper run;
} jet;

/* A box of 1 m x 1.5 m (x 1 m), open above; the jet enters through the floor, 0.25 m wide. */
static void jet_make(jet *scene, const ex_args *args, int dim, int bodies, int guests) {
    double h = 1.5 / args->size;
    double speed = ex_number(args, "speed");
    fsi_world_desc desc = {
        .grid.nx = args->size * 2 / 3,
        .grid.ny = args->size,
        .grid.nz = dim == 3 ? args->size * 2 / 3 : 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = bodies,
        .max_guests = guests,
    };
    ex_need(fsi_world_init(&scene->world, &desc));

    /* One row of cells that make volume. */
    fsi_grid_source source = {
        .lo = fsi_vec(0.375, 0, 0.375),
        .hi = fsi_vec(0.625, 1.01 * h, 0.625),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, speed, 0),
        .divergence = speed / h,
        .density = 1,
    };
    ex_need(fsi_grid_add_source(&scene->world.grid, &source));
}

/* How fluid and solids are coupled; dof: degrees of freedom of all solids. */
static void jet_couple(jet *scene, const ex_args *args, int dof) {
    fsi_partitioned_desc desc = {
        .scheme = stepper_relaxed(args) ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED,
        .omega = ex_number(args, "omega"),
        .tolerance = ex_number(args, "tolerance") * scene->world.grid.h,
        .min_iterations = 2,
    };
    int monolithic = ex_is(args, "scheme", "monolithic");
    stepper_begin(&scene->run, &scene->world, monolithic, dof, desc);
    scene->run.exchange.fluid.pressure_form = stepper_pressures(args);
}

/* Smoke as a field in 2D. */
static void jet_draw2(ex_image *image, const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
    ex_draw_field(image, &view, grid->nx, grid->ny, grid->density, 0, 1, EX_SMOKE);
    ex_colorbar(image, &view, EX_SMOKE, 0, 1, "SMOKE");
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface(image, &view, &world->door[i]->surface, ex_rgb(205, 120, 60));
}

/* Smoke by rays in 3D. */
static void jet_draw3(ex_image *image, const fsi_world *world) {
    const fsi_grid *grid = &world->grid;
    ex_camera camera = ex_camera_make(1.9, 1.6, 2.7, 0.5, 0.7, 0.5, 1, 36);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 1.5, 1};
    ex_clear(image, ex_rgb(246, 248, 250));
    ex_floor(image, &camera, lo, hi, 1, 0, 0.125);
    for (int i = 0; i < world->door_count; i++)
        ex_draw_surface3(image, &camera, &world->door[i]->surface, ex_rgb(215, 120, 60));
    ex_draw_smoke(image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->density, 0.08,
                  ex_rgb(120, 124, 135));
    ex_box3(image, &camera, lo, hi, ex_grey(130));
}

static void jet_draw(ex_args *args, const jet *scene) {
    ex_image image = ex_image_make(400, 560);
    if (scene->world.grid.dim == 2)
        jet_draw2(&image, &scene->world);
    else
        jet_draw3(&image, &scene->world);
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* All frames, a step each: at 0.5 m/s the jet goes half a cell a step. Returns the steps done. */
static int jet_run(ex_args *args, jet *scene) {
    int frame;
    for (frame = 0; frame < args->frames && ex_fine(); frame++) {
        stepper_step(&scene->run, scene->world.grid.h);
        ex_check_speed(scene_solid_speed(&scene->world), 50);
        if (args->out)
            jet_draw(args, scene);
        ex_progress(args, frame);
    }

    return frame;
}

static void jet_end(jet *scene) {
    if (scene->run.monolithic)
        ex_result("iterations", "%.2f", stepper_mean_iterations(&scene->run));
    else
        stepper_results(&scene->run);
    stepper_end(&scene->run);
    fsi_world_free(&scene->world);
}
#endif
