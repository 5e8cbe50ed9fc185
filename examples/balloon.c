/* balloon: a rubber cap on the floor is blown up through a nozzle (Akbay et al. 2018, fig. 6, 8,
   9, 12). The fluid inside touches no free surface: without the boundary pressure projection
   (bpp=0) the rubber never feels its pressure and does not inflate; with it the balloon gains what
   is injected.

       build/balloon --out out
       build/balloon --set bpp=0                              it stays flat
       build/balloon --set fluid=water                        water inside, air outside
       build/balloon --set compare=1                          the monolithic solve beside it
       build/balloon --frames 540 --set rate=0.11 --set scheme=p   fig. 12: iterations as it grows

   Result: the volumes injected and gained, and how often both solvers were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "cap.h"

typedef struct scene {
    fsi_world w;
    fsi_soft rubber;
    fsi_soft_responder responder;
    fsi_coupled *list[1];
    fsi_partitioned scheme;
    fsi_partitioned_scene p;
    fsi_guest part[1];
    int dim, monolithic;
    double h, v0;
} scene;

/* Largest distance of a node of s from the same node of t, cells. */
static double shape_distance(const scene *s, const scene *t) {
    double most = 0;

    for (int i = 0; i < s->rubber.desc.vertex_count; i++) {
        const fsi_real *x = s->rubber.x + 3 * i;
        const fsi_real *y = t->rubber.x + 3 * i;
        most = fmax(most, sqrt(pow(x[0] - y[0], 2) + pow(x[1] - y[1], 2) + pow(x[2] - y[2], 2)));
    }

    return most / s->h;
}

static fsi_real cap_distance(fsi_vec3 x, void *user) {
    double z = ((scene *)user)->dim == 2 ? 0 : x.z - CX;
    return sqrt(pow(x.x - CX, 2) + (x.y * x.y) + z * z) - R;
}

static void draw(ex_args *args, scene *s) {
    ex_image image = ex_image_make(480, 480);
    fsi_surface surface = fsi_soft_surface(&s->rubber);
    const fsi_grid *grid = &s->w.grid;
    if (s->dim == 2) {
        ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 400, 400);
        ex_draw_field(&image, &view, grid->nx, grid->ny,
                      grid->density ? grid->density : grid->pressure, 0, 1, 2);
        if (grid->phi)
            ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(70, 150, 215));
        else
            ex_colorbar(&image, &view, 2, 0, 1, "SMOKE");
        ex_draw_surface(&image, &view, &surface, ex_rgb(200, 50, 60));
        ex_line(&image, 20, 420, 420, 420, 3, ex_grey(90));
    } else {
        ex_camera camera = ex_camera_make(1.3, 0.7, 1.7, CX, 0.2, CX, 1, 28);
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {1, 1, 1};
        ex_clear(&image, ex_rgb(246, 248, 250));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.1);
        cap_draw_open(&image, &camera, &s->rubber);
        if (grid->phi)
            ex_draw_water(&image, &camera, grid->nx, grid->ny, grid->nz, s->h, grid->phi,
                          ex_rgb(70, 150, 215), 0.2);
        else
            ex_draw_smoke(&image, &camera, grid->nx, grid->ny, grid->nz, s->h, grid->density, 0.06,
                          ex_rgb(110, 114, 125));
        ex_box3(&image, &camera, lo, hi, ex_grey(120));
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

/* Grid, nozzle that makes rate m^3/s, rubber, and the scheme that couples them; 0 = lack of memory.
 */
static int make_scene(scene *s, ex_args *args, int monolithic, double rate) {
    fsi_partitioned_desc options = {0};
    double h = s->h = 1.0 / args->size;
    int water = ex_is(args, "fluid", "water");
    s->dim = ex_whole(args, "dim");
    s->monolithic = monolithic;

    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size,
        .grid.nz = s->dim == 3 ? args->size : 1,
        .grid.h = h,
        .grid.rho = 1,
        .grid.shells = 1,
        .grid.smoke = !water,
        .grid.liquid = water,
        .grid.advect_velocity = FSI_ADVECT_LINEAR,
        .max_guests = 1,
        .no_walls = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    if (fsi_world_init(&s->w, &desc) != FSI_OK)
        return 0;
    if (water)
        fsi_grid_set_field(&s->w.grid, FSI_FIELD_PHI, cap_distance, s);

    fsi_grid_source nozzle = {
        .lo = fsi_vec(FSI_R(CX - 0.08), 0, FSI_R(CX - 0.08)),
        .hi = fsi_vec(FSI_R(CX + 0.08), 1.01 * h, FSI_R(CX + 0.08)),
    };

    /* cell centres inside, along one axis */
    double cells = floor((CX + 0.08) / h - 0.5) - ceil((CX - 0.08) / h - 0.5) + 1;
    nozzle.set = FSI_SOURCE_DIVERGENCE | (water ? 0u : (unsigned)FSI_SOURCE_DENSITY);
    nozzle.density = 1;
    nozzle.divergence = (rate / ((s->dim == 2 ? cells : cells * cells) * pow(h, s->dim)));
    fsi_grid_add_source(&s->w.grid, &nozzle);

    fsi_soft_desc given = {
        .dim = s->dim,
        .stretch = ex_number(args, "stiffness"),
        .bend = 1e-6,
        .damping_stiffness = 0.01,
        .area_density = ex_number(args, "mass_ratio") * 2 * h,
        .integrator = monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
        .newton = ex_whole(args, "newton"),
    };

    options.gentle = given.newton > 1;
    if (!cap_make(&s->rubber, &given, h))
        return 0;
    s->v0 = cap_volume(&s->rubber);
    s->responder.soft = &s->rubber;
    fsi_guest guest = fsi_soft_guest(&s->responder);
    fsi_world_add_guest(&s->w, &guest);
    options.n = options.m = 3 * s->rubber.desc.vertex_count + 64;
    options.group = 3;
    options.min_iterations = 2;
    options.max_iterations = ex_whole(args, "cap");
    options.tolerance = ex_number(args, "tolerance") * h;
    options.omega = ex_number(args, "omega");
    options.scheme = ex_is(args, "scheme", "p") || ex_is(args, "scheme", "pc") ? FSI_SCHEME_RELAXED
                     : ex_is(args, "scheme", "aitken")                         ? FSI_SCHEME_AITKEN
                                                                               : FSI_SCHEME_REDUCED;
    s->p.scheme = &s->scheme;
    s->p.list = s->list;
    s->p.solids.part = s->part;
    s->p.fluid.bpp = s->p.fluid.swept = ex_whole(args, "bpp");
    s->p.fluid.pressure_form = ex_is(args, "scheme", "p") || ex_is(args, "scheme", "rmi");
    return fsi_partitioned_init(&s->scheme, &options) == FSI_OK;
}

/* 0 = it came apart. */
static int step_scene(scene *s, fsi_report *report) {
    fsi_result result = s->monolithic ? ex_try(fsi_world_step(&s->w, s->h, report))
                                      : ex_try(fsi_world_exchange(&s->w, &s->p, s->h, report));
    if (result >= 0 && fsi_max_abs(3 * (size_t)s->rubber.desc.vertex_count, s->rubber.v) < 50)
        return 1;
    fprintf(stderr, "%s\n", fsi_result_text(result));
    return 0;
}

static void free_scene(scene *s) {
    fsi_partitioned_scene_free(&s->p);
    fsi_partitioned_free(&s->scheme);
    fsi_soft_responder_free(&s->responder);
    fsi_soft_free(&s->rubber);
    fsi_world_free(&s->w);
}

static const ex_about about = {
    .name = "balloon",
    .what = "A rubber cap is blown up through a nozzle in the floor.",
    .size = 48,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_WORD("fluid", "what is blown in", "smoke", "smoke,water"),
            EX_NUMBER("bpp", "", "1: boundary pressure projection", "1", "0 to 1"),
            EX_WORD("scheme", "coupling", "xpm", "p,pc,aitken,rmi,xpm,monolithic"),
            EX_NUMBER("omega", "", "relaxation of p and pc, aitken's first", "0.2", "1e-3 to 1.9"),
            EX_NUMBER("mass_ratio", "", "rubber over a fluid layer two cells thick", "0.8",
                      "1e-6 to 1e3"),
            EX_NUMBER("rate", "1/s", "volume injected per second over the rest volume", "0.6",
                      "0 to 10"),
            EX_NUMBER("stiffness", "N/m", "of the rubber", "2", "0 to 1e6"),
            EX_NUMBER("tolerance", "cells", "residual of the partitioned schemes", "0.05",
                      "1e-9 to 1"),
            EX_NUMBER("cap", "", "most iterations of a step", "30", "2 to 1000"),
            EX_NUMBER("newton", "", "most Newton iterations of the rubber in a step", "1",
                      "1 to 100"),
            EX_NUMBER("compare", "", "1: the monolithic solve beside it", "0", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    static scene s, other;
    ex_args args;
    int stable = 1;
    int most = 0;
    int capped = 0;
    double injected = 0;
    double leak = 0;
    double total = 0;
    double third[3] = {0, 0, 0};
    double shape = 0;

    ex_begin(&args, argc, argv, &about);
    double q = ex_number(&args, "rate")
               * (ex_number(&args, "dim") < 3 ? PI / 2 * R * R : 2 * PI / 3 * R * R * R);
    int compare = ex_whole(&args, "compare");
    if (!make_scene(&s, &args, ex_is(&args, "scheme", "monolithic"), q)
        || (compare && !make_scene(&other, &args, 1, q)))
        return 1;
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        stable = step_scene(&s, &report);
        injected += q * s.h;
        leak += s.p.fluid.leak;
        total += report.iterations;
        capped += report.reason == FSI_NOT_CONVERGED || report.reason == FSI_STALLED;
        third[3 * frame / args.frames] += report.iterations;
        if (report.iterations > most)
            most = report.iterations;
        if (compare && stable) {
            stable = step_scene(&other, &report);
            shape = fmax(shape, shape_distance(&s, &other));
        }

        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    ex_result("injected", "%.8f", injected);
    ex_result("gained", "%.8f", cap_volume(&s.rubber) - s.v0);
    ex_result("volume_error", "%.6f", (cap_volume(&s.rubber) - s.v0 - injected) / injected);

    /* what the steps' residuals left over, summed: it explains volume_error */
    if (!s.monolithic)
        ex_result("leak", "%.6f", leak / injected);

    /* cells from the monolithic surface, the largest of all steps */
    if (compare)
        ex_result("shape_error", "%.4f", shape);
    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    ex_result("mean_iterations_first_third", "%.3f", third[0] / (args.frames / 3.0));
    ex_result("mean_iterations_last_third", "%.3f", third[2] / (args.frames / 3.0));
    ex_result("max_iterations", "%d", most);
    if (!s.monolithic)
        ex_result("capped_steps", "%d", capped);
    free_scene(&s);
    if (compare)
        free_scene(&other);
    return ex_end(&args, frame, stable);
}
