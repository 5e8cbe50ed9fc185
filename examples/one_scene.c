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

static const fsi_real width = 1, level = FSI_R(0.5), radius = FSI_R(0.15); /* m */

typedef struct tank {
    fsi_grid grid;
    fsi_solids solids;
    fsi_shape disk;
    fsi_shape room;
    fsi_coupled *door; /* of the disk */
    int body;
    fsi_real damping; /* 1/s */
} tank;

/* What a run finds out. */
typedef struct findings {
    int steps;
    double iterations;
    double fluid_area; /* in the end, m^2 */
} findings;

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* The rigid world: a disk half above the water, in a box without a lid. */
static void make_solids(tank *t, double density, double gravity) {
    fsi_solids_desc desc = {
        .dim = 2,
        .max_bodies = 2,
        .gravity = fsi_vec(0, -gravity, 0),
    };
    fsi_shape_desc around = {
        .dim = 2,
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec(width / 2, 1, 0),
    };
    fsi_shape_desc round = {
        .dim = 2,
        .kind = FSI_SHAPE_SPHERE,
        .radius = radius,
        .resolution = 48,
    };
    ex_need(fsi_solids_init(&t->solids, &desc));
    ex_need(fsi_shape_init(&t->room, &around));
    ex_need(fsi_shape_init(&t->disk, &round));

    fsi_rigid_desc walls = {
        .kind = FSI_RIGID_FIXED,
        .shape = &t->room,
        .x = around.half,
    };
    fsi_rigid_desc floating = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &t->disk,
        .density = 1000 * density,
        .x = fsi_vec(width / 2, level + 0.04, 0),
    };
    ex_need(fsi_solids_enclose(&t->solids, &walls));
    ex_need(fsi_solids_add(&t->solids, &floating, &t->body));
}

static const fsi_rigid *disk_of(const tank *t) {
    return &t->solids.body[t->body];
}

/* ------------------------------------------------------------------------------------------------
 * On the grid: one solve, or an exchange between the two solvers. */
/* First stage of a step: forces, damped so that the disk comes to rest. */
static fsi_result begin(fsi_real dt, void *user) {
    tank *t = (tank *)user;
    fsi_real keep = 1 / (1 + dt * t->damping);
    for (int axis = 0; axis < 2; axis++)
        for (size_t face = 0; face < t->grid.faces[axis]; face++)
            t->grid.u[axis][face] *= keep;

    fsi_result result = fsi_solids_forces(&t->solids, dt);
    if (result < 0)
        return result;
    fsi_vec3 v = fsi_vec_scale(disk_of(t)->v, keep);
    fsi_vec3 spin = fsi_vec_scale(disk_of(t)->spin, keep);
    result = fsi_solids_set_velocity(&t->solids, t->body, v, spin);
    if (result < 0)
        return result;
    return fsi_solids_couple(&t->solids, t->body, &t->door);
}

/* Last stage: the disk takes its new velocity and moves. */
static fsi_result move(fsi_real dt, void *user) {
    tank *t = (tank *)user;
    fsi_result result = fsi_solids_take(&t->solids, t->body);
    return result < 0 ? result : fsi_solids_move(&t->solids, dt);
}

static void make_water(tank *t, int size) {
    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = width / (fsi_real)size,
        .rho = 1000,
        .gravity = t->solids.desc.gravity,
        .liquid = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    ex_need(fsi_grid_init(&t->grid, &desc));
    ex_need(fsi_grid_set_field(&t->grid, FSI_FIELD_PHI, water, NULL));
}

/* Weak coupling is one exchange a step, taken as it is. */
static void make_exchange(fsi_partitioned *scheme, const tank *t, const ex_args *args) {
    fsi_partitioned_desc desc = {
        .n = 6 + 16,
        .m = 6 + 16,
        .tolerance = 0.001 * t->grid.h,
        .omega = ex_number(args, "omega"),
        .max_iterations = 60,
        .scheme = ex_is(args, "method", "xpm") ? FSI_SCHEME_REDUCED : FSI_SCHEME_RELAXED,
    };
    if (ex_is(args, "method", "weak")) {
        desc.max_iterations = 1;
        desc.omega = 1;
    }
    ex_need(fsi_partitioned_init(scheme, &desc));
}

static void draw(ex_args *args, const tank *t, const fsi_sph *sph);

static void run_grid(ex_args *args, tank *t, double dt, findings *found) {
    int schur = ex_is(args, "method", "schur");
    int one_solve = schur || ex_is(args, "method", "monolithic");
    fsi_couple_desc solver = {.solver = schur ? FSI_COUPLE_SCHUR : FSI_COUPLE_DEFLATED};
    fsi_couple couple = {0};
    fsi_interface face = {0};
    fsi_partitioned scheme = {0};
    make_water(t, args->size);
    if (one_solve)
        ex_need(fsi_couple_init(&couple, &t->grid, &solver));
    else {
        ex_need(fsi_interface_init(&face, &t->grid, NULL));
        make_exchange(&scheme, t, args);
    }

    /* Called once before the first step, so that the door exists. */
    ex_need(begin(dt, t));
    fsi_guest part = {.door = t->door};
    fsi_coupled *list[1] = {t->door};
    fsi_scene together = {
        .solid = list,
        .count = 1,
        .stages = {.begin_fn = begin, .move_fn = move, .user = t},
    };
    fsi_partitioned_scene apart = {
        .grid = &t->grid,
        .face = &face,
        .scheme = &scheme,
        .list = list,
        .solids.part = &part,
        .solids.count = 1,
        .stages = {.begin_fn = begin, .move_fn = move, .user = t},
    };

    for (int frame = 0; frame < args->frames && ex_fine(); frame++) {
        fsi_report report = {0};
        if (one_solve)
            ex_try(fsi_couple_step(&couple, &together, dt, &report));
        else
            ex_try(fsi_partitioned_scene_step(&apart, dt, &report));
        if (ex_fine())
            found->iterations += report.iterations;
        ex_check_speed(fsi_vec_length(disk_of(t)->v), 10);
        found->steps++;
        if (args->out && frame % 4 == 0)
            draw(args, t, NULL);
        ex_progress(args, frame);
    }

    found->fluid_area = t->grid.stats.liquid_volume;
    fsi_couple_free(&couple);
    fsi_partitioned_scene_free(&apart);
    fsi_partitioned_free(&scheme);
    fsi_interface_free(&face);
    fsi_grid_free(&t->grid);
}

/* ------------------------------------------------------------------------------------------------
 * By particles: DFSPH and the same rigid world, coupled by the reduced model over boundary
 * particles. */
/* Takes out the particles that lie where the disk is. */
static void clear_disk(fsi_sph *sph, fsi_vec3 centre) {
    int kept = 0;
    for (int i = 0; i < sph->now.count; i++) {
        double distance = hypot(sph->x[i] - centre.x, sph->y[i] - centre.y);
        if (!(distance > radius + 0.5 * sph->desc.spacing))
            continue;
        sph->x[kept] = sph->x[i];
        sph->y[kept] = sph->y[i];
        kept++;
    }
    sph->now.count = kept;
}

static void make_particles(fsi_sph *sph, const tank *t, int size, double dt) {
    fsi_sph_desc desc = {
        .dim = 2,
        .spacing = width / (fsi_real)size,
        .capacity = size * size,
        .boundary_capacity = 40 * size,
        .solver = FSI_SPH_DFSPH,
        .density = 1000,
        .gravity = t->solids.desc.gravity,
        .viscosity = 1,
        .dt_max = dt,
    };
    fsi_vec3 corner = fsi_vec(0, 0, 0);
    fsi_vec3 at_rest = fsi_vec(0, 0, 0);
    ex_need(fsi_sph_init(sph, &desc));
    ex_need(fsi_sph_add_block(sph, corner, fsi_vec(width, level, 0), at_rest, NULL));
    clear_disk(sph, disk_of(t)->x);
    ex_need(fsi_sph_add_box_walls(sph, corner, fsi_vec(width, 2, 0), 0, NULL));
}

static void damp_particles(fsi_sph *sph, fsi_real keep) {
    for (int i = 0; i < sph->now.count; i++) {
        sph->vx[i] *= keep;
        sph->vy[i] *= keep;
    }
}

static void run_sph(ex_args *args, tank *t, double dt, findings *found) {
    fsi_sph sph;
    make_particles(&sph, t, args->size, dt);

    /* The disk as boundary particles, half a spacing inside its surface. */
    fsi_vec3 centre = disk_of(t)->x;
    fsi_mesh circle;
    int object;
    ex_need(fsi_mesh_circle(&circle, centre, radius - sph.desc.spacing / 2, 64, NULL));
    fsi_surface skin = fsi_mesh_surface(&circle);
    ex_need(fsi_sph_add_surface(&sph, &skin, centre, 1, &object));

    fsi_sph_rigid_desc desc = {
        .sph = &sph,
        .world = &t->solids,
        .count = 1,
        .body = &t->body,
        .object = &object,
    };
    fsi_sph_rigid couple;
    ex_need(fsi_sph_rigid_init(&couple, &desc));

    /* Steps as long as the particles allow; a picture every four steps of the grid's. */
    double time = 0;
    int frame = 0;
    while (time < args->frames * dt && ex_fine()) {
        fsi_real step = fsi_sph_max_dt(&sph);
        damp_particles(&sph, 1 / (1 + step * t->damping));
        fsi_report report = {0};
        ex_try(fsi_sph_rigid_step(&couple, step, &report));
        ex_check_speed(fsi_vec_length(disk_of(t)->v), 10);
        found->iterations += report.iterations;
        found->steps++;
        time += step;
        if (time < (frame + 1) * 4 * dt)
            continue;
        if (args->out)
            draw(args, t, &sph);
        ex_progress(args, 4 * frame);
        frame++;
    }

    found->fluid_area = sph.desc.spacing * sph.desc.spacing * sph.now.count;
    fsi_sph_rigid_free(&couple);
    fsi_mesh_free(&circle);
    fsi_sph_free(&sph);
}

/* ------------------------------------------------------------------------------------------------
 * How deep it floats. */
/* Area of a disk of radius 1 below a line at height s over its middle. */
static double area_below(double s) {
    s = ex_clamp(s, -1, 1);
    return acos(-s) + s * sqrt(1 - s * s);
}

/* How deep the disk sits under the level of all the water and what it displaces, over its radius.
   The level depends on what is under it: a fixed point, found by halving the distance. */
static double depth_of(const tank *t, double fluid_area) {
    double y = disk_of(t)->x.y;
    double top = level;
    for (int k = 0; k < 60; k++) {
        double below = radius * radius * area_below((top - y) / radius);
        top = 0.5 * top + 0.5 * (fluid_area + below) / width;
    }
    return (top - (y - radius)) / radius;
}

/* The depth over the radius at which that share of the disk is under water, by bisection. */
static double archimedes(double share) {
    double lo = 0;
    double hi = 2;
    for (int k = 0; k < 60; k++) {
        double depth = (lo + hi) / 2;
        if (area_below(depth - 1) < share * 3.14159265358979)
            lo = depth;
        else
            hi = depth;
    }
    return (lo + hi) / 2;
}

/* ---- pictures */
static void draw(ex_args *args, const tank *t, const fsi_sph *sph) {
    static fsi_real x[3 * 256], v[3 * 256];
    const fsi_grid *grid = &t->grid;
    ex_color blue = ex_rgb(80, 155, 215);
    ex_image image = ex_image_make(480, 500);
    ex_view view = ex_view_make(0, 0, width, 1, 20, 20, 440, 440);
    if (!sph)
        ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, blue);
    for (int i = 0; sph && i < sph->now.count; i++)
        ex_disk(&image, ex_px(&view, sph->x[i]), ex_py(&view, sph->y[i]), 2.5, blue);

    fsi_surface surface;
    fsi_solids_surface(&t->solids, t->body, x, v, &surface);
    ex_draw_surface(&image, &view, &surface, ex_rgb(220, 120, 50));
    ex_text(&image, 24, 470, 2, ex_grey(30), ex_word(args, "method"));
    ex_frame(args, &image);
    ex_image_free(&image);
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
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double density = ex_number(&args, "density");
    double dt = ex_number(&args, "dt");

    static tank t;
    findings found = {0};
    t.damping = ex_number(&args, "damping");
    make_solids(&t, density, ex_number(&args, "gravity"));
    if (ex_is(&args, "method", "sph"))
        run_sph(&args, &t, dt, &found);
    else
        run_grid(&args, &t, dt, &found);

    /* The error in cells, or in spacings of particles. */
    double depth = depth_of(&t, found.fluid_area);
    double error = (depth - archimedes(density)) * radius * args.size;
    printf("damping=%g 1/s on disk and fluid\n", t.damping);
    ex_result("depth", "%.4f", depth);
    ex_result("archimedes", "%.4f", density < 1 ? archimedes(density) : 2.0);
    ex_result("error_cells", "%.3f", error);
    ex_result("iterations", "%.2f", found.iterations / (found.steps ? found.steps : 1));
    fsi_solids_free(&t.solids);
    fsi_shape_free(&t.disk);
    fsi_shape_free(&t.room);
    return ex_end(&args, found.steps, ex_fine());
}
