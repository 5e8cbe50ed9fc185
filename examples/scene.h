/* scene.h: what the examples with a whole fsi_world share: stepping it by the scheme that was
   chosen, with sums over the steps, and pictures of its water and bodies. */
#ifndef SCENE_H
#define SCENE_H

enum {
    STEPPER_SOLIDS = 32 /* most rigid bodies and guests of a scene stepped by exchange */
};

/* Steps a world, by one solve for everything (monolithic) or by exchange between the fluid and the
   solids (partitioned), and sums up what that took. */
typedef struct stepper {
    fsi_world *world;
    int monolithic;

    /* By exchange only: the scheme, its options, and room for one part per solid. */
    fsi_partitioned scheme;
    fsi_partitioned_scene exchange;
    fsi_guest part[STEPPER_SOLIDS];
    fsi_coupled *list[STEPPER_SOLIDS];

    /* Sums over the steps. */
    int steps;
    int most_iterations; /* of a step */
    int capped;          /* steps that ended without agreement */
    double iterations;
    double seconds;
} stepper;

/* dof: degrees of freedom of all solids together; desc: what the scheme needs besides. */
EX void stepper_begin(stepper *run, fsi_world *world, int monolithic, int dof,
                      fsi_partitioned_desc desc) {
    memset(run, 0, sizeof *run);
    run->world = world;
    run->monolithic = monolithic;
    if (monolithic)
        return;

    /* Closed regions of fluid exchange their pressures too: room for 64. */
    desc.n = dof + 64;
    desc.m = dof + 64;
    desc.per_node = 3;
    desc.clock_fn = ex_clock;
    ex_need(fsi_partitioned_init(&run->scheme, &desc));
    run->exchange.scheme = &run->scheme;
    run->exchange.list = run->list;
    run->exchange.solids.part = run->part;
    run->exchange.fluid.bpp = 1;
    run->exchange.fluid.tolerance = 1e-6;
}

/* The schemes of Akbay et al. 2018 by their words: p and pc are under-relaxed, rmi and xpm use a
   reduced model; p and rmi exchange pressures, pc and xpm conservative impulses. */
EX int stepper_relaxed(const ex_args *args) {
    return ex_is(args, "scheme", "p") || ex_is(args, "scheme", "pc");
}

EX int stepper_pressures(const ex_args *args) {
    return ex_is(args, "scheme", "p") || ex_is(args, "scheme", "rmi");
}

/* One step of the world. */
EX fsi_result stepper_step(stepper *run, double dt) {
    fsi_report report = {0};
    double start = ex_now();
    fsi_result result;
    if (run->monolithic)
        result = ex_try(fsi_world_step(run->world, dt, &report));
    else
        result = ex_try(fsi_world_exchange(run->world, &run->exchange, dt, &report));

    run->seconds += ex_now() - start;
    run->steps++;
    run->iterations += report.iterations;
    run->capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
    if (report.iterations > run->most_iterations)
        run->most_iterations = report.iterations;
    return result;
}

EX double stepper_mean_iterations(const stepper *run) {
    return run->iterations / (run->steps ? run->steps : 1);
}

/* Shares of the time that an exchange spends in the fluid, in the solids and in the scheme. */
EX double stepper_fluid_share(const stepper *run) {
    return run->scheme.seconds[0] / run->seconds;
}

EX double stepper_solid_share(const stepper *run) {
    return run->scheme.seconds[1] / run->seconds;
}

EX double stepper_scheme_share(const stepper *run) {
    return run->scheme.seconds[2] / run->seconds;
}

/* The result lines of a scene that was stepped by exchange. */
EX void stepper_results(const stepper *run) {
    ex_result("mean_iterations", "%.3f", stepper_mean_iterations(run));
    ex_result("max_iterations", "%d", run->most_iterations);
    ex_result("capped_steps", "%d", run->capped);
    ex_result("modes", "%.2f", stepper_mean_iterations(run) - 1); /* as the paper counts */
    ex_result("fluid_share", "%.4f", stepper_fluid_share(run));
    ex_result("solid_share", "%.4f", stepper_solid_share(run));
    ex_result("xpm_share", "%.4f", stepper_scheme_share(run));
}

EX void stepper_end(stepper *run) {
    fsi_partitioned_scene_free(&run->exchange);
    fsi_partitioned_free(&run->scheme);
}

/* The fastest degree of freedom of all solids, m/s or rad/s. */
EX double scene_solid_speed(const fsi_world *world) {
    double speed = 0;
    for (int i = 0; i < world->door_count; i++) {
        const fsi_coupled *door = world->door[i];
        speed = fmax(speed, fsi_max_abs((size_t)door->dof, door->v));
    }

    return speed;
}

/* The mean level of the water: its volume and what bodies displace of it, over the ground. */
EX double scene_level(const fsi_world *world, double ground) {
    double below = 0;
    for (int i = 0; i < world->door_count; i++)
        below += world->couple.iface.submerged[i];
    return (world->grid.stats.liquid_volume + below) / ground;
}

/* ------------------------------------------------------------------------------------------------
 * pictures */
/* The surface of a rigid body where it is now. The arrays are reused by the next call. */
EX fsi_surface scene_body(const fsi_world *world, int id) {
    enum {
        MOST = 4096
    };

    static fsi_real x[3 * MOST], v[3 * MOST];
    fsi_surface surface;
    fsi_solids_surface(&world->solids, id, x, v, &surface);
    return surface;
}

/* Width and height of the grid in metres fill the pixels from (left, top), w wide. */
EX ex_view scene_view(const fsi_grid *grid, int left, int top, int w) {
    double aspect = (double)grid->ny / grid->nx;
    return ex_view_make(0, 0, grid->h * grid->nx, grid->h * grid->ny, left, top, w,
                        (int)(w * aspect));
}

/* The water of a 2D grid. */
EX void scene_water2(ex_image *image, const ex_view *view, const fsi_grid *grid) {
    ex_draw_liquid(image, view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
}

/* The lower and upper corner of the grid. */
EX void scene_box(const fsi_grid *grid, double lo[3], double hi[3]) {
    const int cells[3] = {grid->nx, grid->ny, grid->nz};
    for (int axis = 0; axis < 3; axis++) {
        lo[axis] = 0;
        hi[axis] = grid->h * cells[axis];
    }
}

/* A 3D picture begins with a light sky and a checkered floor ... */
EX void scene_begin3(ex_image *image, const ex_camera *camera, const fsi_grid *grid) {
    double lo[3];
    double hi[3];
    scene_box(grid, lo, hi);
    ex_clear(image, ex_rgb(245, 248, 250));
    ex_floor(image, camera, lo, hi, 1, 0, 0.125);
}

/* ... and ends, after the solids, with the clear water and the edges of the tank. */
EX void scene_end3(ex_image *image, const ex_camera *camera, const fsi_grid *grid) {
    double lo[3];
    double hi[3];
    scene_box(grid, lo, hi);
    ex_draw_water(image, camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                  ex_rgb(80, 160, 220), 0.5);
    ex_box3(image, camera, lo, hi, ex_grey(110));
}
#endif
