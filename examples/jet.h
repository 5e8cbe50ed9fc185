/* A jet of smoke and what it blows about, by every coupling scheme: shared by plank_jet.c and
 * foam_jet.c. */
#ifndef JET_H
#define JET_H
#define JET_KEYS                                                                                   \
    EX_WORD("scheme", "coupling", "xpm", "p,pc,rmi,xpm,monolithic"),                               \
        EX_NUMBER("omega", "", "relaxation of p and pc", "0.05", 1e-4, 1.9),                       \
        EX_NUMBER("speed", "m/s", "of the jet", "0.5", 0, 10),                                     \
        EX_NUMBER("tolerance", "cells", "residual of the partitioned schemes", "0.05", 1e-9, 1)

typedef struct jet {
    fsi_world w;
    fsi_partitioned scheme;
    fsi_partitioned_scene x;
    fsi_guest part[4];
    fsi_coupled *list[4];
    int monolithic, most, capped, steps;
    double dt, total, spent;
} jet;

/* A box 1 x 1.5 (x 1) m, open above; the jet is 0.25 m wide. dof: of all solids together. */
static int jet_make(jet *j, ex_args *args, int dim, int bodies, int guests, int dof) {
    double speed = ex_number(args, "speed");
    int relaxed = ex_is(args, "scheme", "p") || ex_is(args, "scheme", "pc");

    fsi_world_desc desc = {
        .grid.ny = args->size,
        .grid.nx = args->size * 2 / 3,
        .grid.nz = dim == 3 ? args->size * 2 / 3 : 1,
        .grid.h = 1.5 / args->size,
        .grid.rho = 1,
        .grid.smoke = 1,
        .grid.shells = 0,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = bodies,
        .max_guests = guests,
    };

    if (fsi_world_init(&j->w, &desc) != FSI_OK)
        return 0;

    fsi_grid_source source = {
        .lo = fsi_vec(0.375, 0, 0.375),
        .hi = fsi_vec(0.625, 1.01 * desc.grid.h, 0.625),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, speed, 0),
        .divergence = speed / desc.grid.h,
        .density = 1,
    };

    fsi_grid_add_source(&j->w.grid, &source);
    j->dt = desc.grid.h; /* half a cell a step at 0.5 m/s */
    j->monolithic = ex_is(args, "scheme", "monolithic");

    fsi_partitioned_desc given = {
        .n = dof + 64,
        .m = dof + 64,
        .group = 3,
        .tolerance = ex_number(args, "tolerance") * desc.grid.h,
        .clock_fn = ex_clock,
        .min_iterations = 2,
        .scheme = relaxed ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED,
        .omega = ex_number(args, "omega"),
    };

    j->x.scheme = &j->scheme;
    j->x.list = j->list;
    j->x.solids.part = j->part;
    j->x.fluid.bpp = 1;
    j->x.fluid.tolerance = 1e-6;
    j->x.fluid.pressure_form = ex_is(args, "scheme", "p") || ex_is(args, "scheme", "rmi");
    return fsi_partitioned_init(&j->scheme, &given) == FSI_OK;
}

static int jet_step(jet *j) { /* 0 = it came apart */
    fsi_report report;
    double start = ex_now();
    double speed = 0;
    fsi_result result = j->monolithic ? fsi_world_step(&j->w, j->dt, &report)
                                      : fsi_world_exchange(&j->w, &j->x, j->dt, &report);
    j->spent += ex_now() - start;
    j->total += report.iterations;
    j->capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
    j->steps++;
    if (report.iterations > j->most)
        j->most = report.iterations;

    for (int i = 0; i < j->w.door_count && result >= 0; i++)
        speed = fmax(speed, fsi_max_abs((size_t)j->w.door[i]->dof, j->w.door[i]->v));
    return result >= 0 && speed < 50;
}

/* Smoke by rays in 3D, as a field in 2D. */
static void jet_draw(jet *j, ex_args *args) {
    ex_image image = ex_image_make(400, 560);
    fsi_grid *grid = &j->w.grid;
    if (grid->dim == 2) {
        ex_view view = ex_view_make(0, 0, 1, 1.5, 20, 20, 340, 510);
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->density, 0, 1, 2);
        ex_colorbar(&image, &view, 2, 0, 1, "SMOKE");
        for (int i = 0; i < j->w.door_count; i++)
            ex_draw_surface(&image, &view, &j->w.door[i]->surface, ex_rgb(205, 120, 60));
    } else {
        ex_camera camera = ex_camera_make(1.9, 1.6, 2.7, 0.5, 0.7, 0.5, 1, 36);
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {1, 1.5, 1};
        ex_clear(&image, ex_rgb(246, 248, 250));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.125);
        for (int i = 0; i < j->w.door_count; i++)
            ex_draw_surface3(&image, &camera, &j->w.door[i]->surface, ex_rgb(215, 120, 60));
        ex_draw_smoke(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->density, 0.08,
                      ex_rgb(120, 124, 135));
        ex_box3(&image, &camera, lo, hi, ex_rgb(130, 130, 130));
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

static void jet_results(jet *j) {
    double n = j->steps ? j->steps : 1;
    if (j->monolithic)
        ex_result("iterations", "%.2f", j->total / n);
    else {
        ex_result("mean_iterations", "%.3f", j->total / n);
        ex_result("max_iterations", "%d", j->most);
        ex_result("capped_steps", "%d", j->capped);

        /* the paper's count: iterations less one */
        ex_result("modes", "%.2f", j->total / n - 1);
        ex_result("fluid_share", "%.4f", j->scheme.seconds[0] / j->spent);
        ex_result("solid_share", "%.4f", j->scheme.seconds[1] / j->spent);
        ex_result("xpm_share", "%.4f", j->scheme.seconds[2] / j->spent);
    }

    fsi_partitioned_scene_free(&j->x);
    fsi_partitioned_free(&j->scheme);
    fsi_world_free(&j->w);
}
#endif
