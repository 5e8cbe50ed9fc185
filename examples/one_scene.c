/* one_scene: the same floating disk by every coupling method. weak: the fluid sees the last
   velocity of the disk, the disk the answer of the fluid, once a step. partitioned: repeated with
   under-relaxation. xpm: repeated with a reduced model of both sides. monolithic, schur: one
   linear solve. sph: particles with the same reduced model.

       build/one_scene --out out
       build/one_scene --set method=weak --set density=0.1   light bodies are lost
       build/one_scene --set method=xpm
       build/one_scene --set method=sph

   Result: how deep the disk floats beside what Archimedes says, and what a step costs. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

typedef struct tank {
    fsi_grid grid;
    fsi_solids solids;
    fsi_shape ball;
    fsi_shape room;
    fsi_coupled *door;
    int body;
    fsi_real damping;
} tank;

static const fsi_real width = 1, level = FSI_R(0.5), radius = FSI_R(0.15);

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* The rigid world: the disk half above the water, in a box without a lid. */
static int make_solids(tank *t, double density, double gravity) {
    fsi_solids_desc desc = {
        .dim = 2,
        .max_bodies = 2,
        .gravity = fsi_vec(0, -gravity, 0),
    };

    fsi_shape_desc given = {
        .dim = 2,
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec(width / 2, 1, 0),
    };

    if (fsi_solids_init(&t->solids, &desc) != FSI_OK || fsi_shape_init(&t->room, &given) != FSI_OK)
        return 0;

    fsi_rigid_desc options = {
        .kind = FSI_RIGID_FIXED,
        .shape = &t->room,
        .x = given.half,
    };

    fsi_solids_add(&t->solids, &options, NULL);
    given.kind = FSI_SHAPE_SPHERE;
    given.radius = radius;
    given.resolution = 48;

    if (fsi_shape_init(&t->ball, &given) != FSI_OK)
        return 0;
    options.kind = FSI_RIGID_DYNAMIC;
    options.shape = &t->ball;
    options.density = 1000 * density;
    options.x = fsi_vec(width / 2, level + 0.04, 0);
    return fsi_solids_add(&t->solids, &options, &t->body) == FSI_OK;
}

/* The stages around the exchange: forces (with damping, so that it comes to rest) and motion. */
static fsi_result begin(void *user, fsi_real dt) {
    tank *t = (tank *)user;
    fsi_rigid *body = &t->solids.body[t->body];
    fsi_real keep = 1 / (1 + dt * t->damping);
    fsi_result result = fsi_solids_forces(&t->solids, dt);

    for (int a = 0; a < 2; a++)
        for (size_t f = 0; f < t->grid.faces[a]; f++)
            t->grid.u[a][f] *= keep;
    if (result >= 0)
        result = fsi_solids_set_velocity(&t->solids, t->body, fsi_vec_scale(body->v, keep),
                                         fsi_vec_scale(body->spin, keep));
    return result < 0 ? result : fsi_solids_couple(&t->solids, t->body, &t->door);
}

static fsi_result move(void *user, fsi_real dt) {
    tank *t = (tank *)user;
    fsi_result result = fsi_solids_take(&t->solids, t->body);
    return result < 0 ? result : fsi_solids_move(&t->solids, dt);
}

/* How deep the disk sits under the level of all the water and what it displaces, over its radius.
 */
static double depth_of(const tank *t, double fluid_area) {
    double y = t->solids.body[t->body].x.y;
    double r = radius;
    double below = 0;
    double top = level;

    /* the level depends on what is under it */
    for (int k = 0; k < 60; k++) {
        double s = fmax(-1, fmin(1, (y - top) / r));

        /* area of the disk below the level */
        below = r * r * (acos(s) - s * sqrt(1 - s * s));
        top = 0.5 * top + 0.5 * (fluid_area + below) / width;
    }

    return (top - (y - r)) / r;
}

/* depth over radius with that share of the disk under water */
static double archimedes(double density) {
    double lo = 0;
    double hi = 2;
    double m = 1;

    for (int k = 0; k < 60; k++) {
        m = (lo + hi) / 2;
        if ((acos(1 - m) - (1 - m) * sqrt(m * (2 - m))) / 3.14159265358979 < density)
            lo = m;
        else
            hi = m;
    }

    return m;
}

static void draw(ex_args *args, const tank *t, const fsi_sph *sph) {
    static fsi_real x[3 * 256], v[3 * 256];
    ex_image image = ex_image_make(480, 500);
    ex_view view = ex_view_make(0, 0, width, 1, 20, 20, 440, 440);
    if (!sph)
        ex_draw_liquid(&image, &view, t->grid.nx, t->grid.ny, t->grid.phi, ex_rgb(80, 155, 215));
    else
        for (int i = 0; i < sph->now.count; i++)
            ex_disk(&image, 20 + 440 * sph->x[i], 460 - 440 * sph->y[i], 2.5, ex_rgb(80, 155, 215));
    fsi_surface surface;
    fsi_solids_surface(&t->solids, t->body, x, v, &surface);
    ex_draw_surface(&image, &view, &surface, ex_rgb(220, 120, 50));
    ex_text(&image, 24, 470, 2, ex_grey(30), ex_word(args, "method"));
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* On the grid: one solve, or an exchange between the two solvers. */
static int run_grid(ex_args *args, tank *t, double dt, int *steps, double *iterations,
                    double *area) {
    fsi_couple couple = {0};
    fsi_couple_desc given = {0};

    fsi_interface face = {0};
    fsi_partitioned scheme = {0};

    fsi_guest part = {0};
    fsi_coupled *list[1];
    int stable = 1;
    int mono = ex_is(args, "method", "monolithic") || ex_is(args, "method", "schur");

    fsi_grid_desc desc = {
        .nx = args->size,
        .ny = args->size,
        .nz = 1,
        .h = width / (fsi_real)args->size,
        .rho = 1000,
        .gravity = t->solids.desc.gravity,
        .liquid = 1,
        .volume_correction = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    if (fsi_grid_init(&t->grid, &desc) != FSI_OK
        || fsi_grid_set_field(&t->grid, FSI_FIELD_PHI, water, NULL) != FSI_OK)
        return 0;
    if (ex_is(args, "method", "schur"))
        given.solver = FSI_COUPLE_SCHUR;

    fsi_partitioned_desc options = {
        .n = 6 + 16,
        .m = 6 + 16,
        .tolerance = 0.001 * desc.h,
        .omega = ex_number(args, "omega"),
        .max_iterations = 60,
        .scheme = ex_is(args, "method", "xpm") ? FSI_SCHEME_REDUCED : FSI_SCHEME_RELAXED,
    };

    if (ex_is(args, "method", "weak")) {
        options.max_iterations = 1;
        options.omega = 1;
    }

    if (mono ? fsi_couple_init(&couple, &t->grid, &given) != FSI_OK
             : fsi_interface_init(&face, &t->grid, NULL) != FSI_OK
                   || fsi_partitioned_init(&scheme, &options) != FSI_OK)
        return 0;
    begin(t, dt); /* once, so that the door exists */
    part.door = t->door;
    list[0] = t->door;

    fsi_scene scene = {
        .solid = list,
        .count = 1,
        .begin_fn = begin,
        .move_fn = move,
        .user = t,
    };

    fsi_partitioned_scene parted = {
        .grid = &t->grid,
        .face = &face,
        .scheme = &scheme,
        .list = list,
        .solids.part = &part,
        .solids.count = 1,
        .begin_fn = begin,
        .move_fn = move,
        .user = t,
    };

    for (int frame = 0; frame < args->frames && stable; frame++, ++*steps) {
        fsi_report report;
        fsi_result result = mono ? ex_try(fsi_couple_step(&couple, &scene, dt, &report))
                                 : ex_try(fsi_partitioned_scene_step(&parted, dt, &report));
        stable = result >= 0 && fsi_vec_length(t->solids.body[t->body].v) < 10;
        *iterations += result >= 0 ? report.iterations : 0;
        if (args->out && frame % 4 == 0)
            draw(args, t, NULL);
        ex_progress(args, frame);
    }

    *area = t->grid.stats.liquid_volume;
    fsi_couple_free(&couple);
    fsi_partitioned_scene_free(&parted);
    fsi_partitioned_free(&scheme);
    fsi_interface_free(&face);
    fsi_grid_free(&t->grid);
    return stable;
}

/* By particles: DFSPH and the same rigid world, coupled by the reduced model over boundary
 * particles. */
static int run_sph(ex_args *args, tank *t, double dt, int *steps, double *iterations,
                   double *area) {
    int stable = 1;
    int kept = 0;
    double time = 0;
    double end = args->frames * dt;
    fsi_vec3 centre = t->solids.body[t->body].x;

    fsi_sph_desc desc = {
        .dim = 2,
        .spacing = width / (fsi_real)args->size,
        .capacity = args->size * args->size,
        .boundary_capacity = 40 * args->size,
        .solver = FSI_SPH_DFSPH,
        .density = 1000,
        .gravity = t->solids.desc.gravity,
        .viscosity = 1,
        .dt_max = dt,
    };

    fsi_sph sph;

    int n;
    if (fsi_sph_init(&sph, &desc) != FSI_OK
        || fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(width, level, 0), fsi_vec(0, 0, 0), &n)
               != FSI_OK)
        return 0;

    for (int i = 0; i < n; i++) /* no particles where the disk is */
        if (hypot(sph.x[i] - centre.x, sph.y[i] - centre.y) > (radius + 0.5 * desc.spacing)) {
            sph.x[kept] = sph.x[i];
            sph.y[kept++] = sph.y[i];
        }
    sph.now.count = kept;
    fsi_mesh circle;
    if (fsi_sph_add_box_walls(&sph, fsi_vec(0, 0, 0), fsi_vec(width, 2, 0), 0, NULL) != FSI_OK
        || fsi_mesh_circle(&circle, centre, radius - desc.spacing / 2, 64, NULL) != FSI_OK)
        return 0;
    fsi_surface skin = fsi_mesh_surface(&circle);
    int object;
    if (fsi_sph_add_surface(&sph, &skin, centre, 1, &object) != FSI_OK)
        return 0;

    fsi_sph_rigid_desc given = {
        .sph = &sph,
        .world = &t->solids,
        .count = 1,
        .body = &t->body,
        .object = &object,
    };

    fsi_sph_rigid couple;
    if (fsi_sph_rigid_init(&couple, &given) != FSI_OK)
        return 0;

    for (int frame = 0; time < end && stable; ++*steps) {
        fsi_real step = fsi_sph_max_dt(&sph);
        fsi_real keep = 1 / (1 + step * t->damping);
        for (int i = 0; i < sph.now.count; i++) {
            sph.vx[i] *= keep;
            sph.vy[i] *= keep;
        }

        fsi_report report;
        stable = ex_try(fsi_sph_rigid_step(&couple, step, &report)) >= 0
                 && fsi_vec_length(t->solids.body[t->body].v) < 10;
        time += step;
        *iterations += report.iterations;
        if (time < (frame + 1) * 4 * dt)
            continue;
        if (args->out)
            draw(args, t, &sph);
        ex_progress(args, 4 * frame++);
    }

    *area = (desc.spacing * desc.spacing) * sph.now.count;
    fsi_sph_rigid_free(&couple);
    fsi_mesh_free(&circle);
    fsi_sph_free(&sph);
    return stable;
}

static const ex_about about = {
    .name = "one_scene",
    .what = "The same floating disk by every coupling method.",
    .size = 64,
    .frames = 600,
    .keys =
        {
            EX_WORD("method", "of coupling", "monolithic",
                    "weak,partitioned,xpm,monolithic,schur,sph"),
            EX_NUMBER("density", "", "of the disk over the water's", "0.5", "1e-6 to 1e6"),
            EX_NUMBER("omega", "", "relaxation of partitioned", "0.2", "1e-3 to 1.9"),
            EX_NUMBER("damping", "1/s", "on disk and fluid, to come to rest", "2", "0 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-5 to 0.1"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    static tank t;
    ex_args args;
    double iterations = 0;
    double area = 0;
    int steps = 0;

    ex_begin(&args, argc, argv, &about);
    double density = ex_number(&args, "density");
    t.damping = ex_number(&args, "damping");
    if (!make_solids(&t, density, ex_number(&args, "gravity")))
        return 1;
    int stable = ex_is(&args, "method", "sph")
                     ? run_sph(&args, &t, ex_number(&args, "dt"), &steps, &iterations, &area)
                     : run_grid(&args, &t, ex_number(&args, "dt"), &steps, &iterations, &area);
    double depth = depth_of(&t, area);
    printf("damping=%g 1/s on disk and fluid\n", t.damping);

    ex_result("depth", "%.4f", depth);
    ex_result("archimedes", "%.4f", density < 1 ? archimedes(density) : 2.0);

    /* cells, or particle spacings */
    ex_result("error_cells", "%.3f", (depth - archimedes(density)) * radius * args.size);
    ex_result("iterations", "%.2f", iterations / (steps ? steps : 1));
    fsi_solids_free(&t.solids);
    fsi_shape_free(&t.ball);
    fsi_shape_free(&t.room);
    return ex_end(&args, steps, stable);
}
