/* water_entry: a body falls into still water, beside published measurements and computations.
   case=cylinder: 0.11 m across, at 2.955 m/s, its depth over time beside the boundary elements of
   Greenhow and Lin's experiment (density 0.5 and 1). case=wedge: 1.2 m wide, 25 degrees deadrise,
   94 kg a metre, at 5.05 m/s, its speed beside the experiment of Yettou et al. 2006.

       build/water_entry --out out
       build/water_entry --set case=wedge --set cells=64
       build/water_entry --set density=1 --set fluid=dfsph --set cells=24
       build/water_entry --set boundary=voxel --set dt_scale=0.2

   Result: rms_error over the published points, in parts of the curve's largest value. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"
#include "published.h"

enum {
    ROUND = 96,  /* corners of the cylinder's outline */
    TRACE = 4096 /* most points that are kept of our own curve */
};

/* One experiment: what falls into which tank, and what is compared. */
typedef struct entry {
    const published *reference; /* NULL: nobody published this density */
    double width;               /* of the body, m */
    double speed;               /* downwards at the surface, m/s */
    double density;             /* of the cylinder over the water's; 0: mass is given */
    double mass;                /* of the wedge, kg a metre */
    double tank;                /* width, m */
    double level;               /* depth of the water, m */
    double height;              /* of the tank, m */
    double time_unit;           /* of the published curve, s */
    double end;                 /* in time units */
    int is_wedge;
} entry;

/* What was recorded: time and depth (cylinder) or speed (wedge), in the units of the reference. */
typedef struct trace {
    int count;
    double x[TRACE];
    double y[TRACE];
} trace;

/* Greenhow and Lin's cylinder falls half a metre; time is counted in sqrt(D / g), depth in D. */
static entry cylinder_entry(double density) {
    entry made = {
        .width = 0.11,
        .speed = 2.955,
        .density = density,
        .tank = 1.1,
        .level = 0.3,
        .height = 0.6,
        .time_unit = sqrt(0.11 / 9.81),
    };
    if (density == 0.5)
        made.reference = &published_cylinder_half;
    else if (density == 1)
        made.reference = &published_cylinder_neutral;
    made.end = made.reference ? published_end(made.reference) : 1.3;
    return made;
}

/* Yettou's wedge meets the water at 5.05 m/s; time is counted in milliseconds. */
static entry wedge_entry(void) {
    entry made = {
        .reference = &published_wedge,
        .width = 1.2,
        .speed = 5.05,
        .mass = 94,
        .tank = 2.5,
        .level = 1.1,
        .height = 1.8,
        .time_unit = 1e-3,
        .end = 40,
        .is_wedge = 1,
    };
    return made;
}

/* The outline, counter-clockwise from its lowest point, which is the origin; returns its number of
   corners. */
static int outline(const entry *e, fsi_real *x) {
    double half = e->width / 2;
    if (!e->is_wedge) {
        for (int i = 0; i < ROUND; i++) {
            double angle = 2 * 3.14159265358979 * i / ROUND - 3.14159265358979 / 2;
            x[3 * i] = half * cos(angle);
            x[3 * i + 1] = half + half * sin(angle);
            x[3 * i + 2] = 0;
        }
        return ROUND;
    }

    double shoulder = half * tan(25 * 3.14159265358979 / 180);
    double deck = shoulder + 0.25;
    const double corner[5][2] = {
        {0, 0}, {half, shoulder}, {half, deck}, {-half, deck}, {-half, shoulder}};
    for (int i = 0; i < 5; i++) {
        x[3 * i] = corner[i][0];
        x[3 * i + 1] = corner[i][1];
        x[3 * i + 2] = 0;
    }
    return 5;
}

/* The body touches the water with its lowest point. */
static fsi_rigid_desc falling(const entry *e, const fsi_shape *shape) {
    fsi_rigid_desc desc = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = shape,
        .density = 1000 * e->density,
        .x = fsi_vec(e->tank / 2, e->level + shape->com.y, 0),
        .v = fsi_vec(0, -e->speed, 0),
    };
    if (e->mass > 0) {
        desc.mass = e->mass;
        desc.inertia = fsi_vec(10, 10, 10);
    }
    return desc;
}

/* Notes one point of our own curve. */
static void record(trace *curve, const entry *e, double time, double fallen, double speed) {
    if (curve->count == TRACE)
        return;
    curve->x[curve->count] = time / e->time_unit;
    curve->y[curve->count] = e->is_wedge ? speed : fallen / e->width;
    curve->count++;
}

/* ---- the water as a grid */
typedef struct tank {
    fsi_world world;
    int id;
    double start; /* height of the body's centre at first, m */
} tank;

static void make_tank(tank *t, const entry *e, const fsi_shape *shape, double h, int voxel) {
    fsi_world_desc desc = {
        .grid.nx = (int)lround(e->tank / h),
        .grid.ny = (int)lround(e->height / h),
        .grid.nz = 1,
        .grid.h = h,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = voxel ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_bodies = 1,
    };
    ex_need(fsi_world_init(&t->world, &desc));
    published_fill(&t->world.grid, e->level);
    fsi_rigid_desc body = falling(e, shape);
    t->id = ex_need(fsi_world_add(&t->world, &body));
    t->start = body.x.y;
}

/* Half a cell a step for whatever is fastest, scaled by dt_scale. */
static double grid_dt(const tank *t, double speed, double scale) {
    double fastest = fmax(t->world.grid.stats.max_speed, fmax(speed, 1));
    return scale * 0.5 * t->world.grid.h / fastest;
}

static void draw_grid(ex_args *args, const tank *t) {
    const fsi_grid *grid = &t->world.grid;
    ex_image image = ex_image_make(720, 40 + 680 * grid->ny / grid->nx);
    ex_view view = scene_view(grid, 20, 20, 680);
    scene_water2(&image, &view, grid);
    fsi_surface surface = scene_body(&t->world, t->id);
    ex_draw_surface(&image, &view, &surface, ex_rgb(225, 120, 50));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static int run_grid(ex_args *args, const entry *e, const fsi_shape *shape, trace *curve) {
    tank t;
    double h = e->width / ex_whole(args, "cells");
    make_tank(&t, e, shape, h, ex_is(args, "boundary", "voxel"));

    int steps = 0;
    double time = 0;
    double speed = e->speed;
    double end = e->end * e->time_unit;
    int frame = 0;
    record(curve, e, 0, 0, speed);
    while (time < end && ex_fine()) {
        double dt = grid_dt(&t, speed, ex_number(args, "dt_scale"));
        ex_try(fsi_world_step(&t.world, dt, NULL));
        time += dt;
        steps++;
        const fsi_rigid *body = fsi_world_rigid(&t.world, t.id);
        speed = -body->v.y;
        record(curve, e, time, t.start - body->x.y, speed);

        if (time >= frame * end / args->frames) {
            if (args->out)
                draw_grid(args, &t);
            ex_progress(args, frame < args->frames ? frame : args->frames - 1);
            frame++;
        }
    }

    fsi_world_free(&t.world);
    return steps;
}

/* ---- the water as particles */
/* Moves the corners of a convex outline inwards by a distance. */
static void inset(int corners, const fsi_real *x, double distance, fsi_real *moved) {
    for (int i = 0; i < corners; i++) {
        const fsi_real *here = x + 3 * i;
        const fsi_real *before = x + 3 * ((i + corners - 1) % corners);
        const fsi_real *after = x + 3 * ((i + 1) % corners);

        /* Outward normals of the two edges that meet here. */
        double first = hypot(here[0] - before[0], here[1] - before[1]);
        double second = hypot(after[0] - here[0], after[1] - here[1]);
        double ax = (here[1] - before[1]) / first;
        double ay = (before[0] - here[0]) / first;
        double bx = (after[1] - here[1]) / second;
        double by = (here[0] - after[0]) / second;
        double scale = distance / (1 + ax * bx + ay * by);
        moved[3 * i] = here[0] - scale * (ax + bx);
        moved[3 * i + 1] = here[1] - scale * (ay + by);
        moved[3 * i + 2] = 0;
    }
}

/* The boundary particles of the body, half a spacing inside its outline. */
static int add_skin(fsi_sph *sph, const entry *e, fsi_vec3 lowest, fsi_vec3 centre) {
    fsi_real x[3 * ROUND];
    fsi_real inner[3 * ROUND];
    int32_t index[2 * ROUND];
    int corners = outline(e, x);
    inset(corners, x, sph->desc.spacing / 2, inner);
    for (int i = 0; i < corners; i++) {
        inner[3 * i] += lowest.x;
        inner[3 * i + 1] += lowest.y;
        index[2 * i] = i;
        index[2 * i + 1] = (i + 1) % corners;
    }
    fsi_surface skin = {
        .dim = 2,
        .closed = 1,
        .vertex_count = corners,
        .element_count = corners,
        .x = inner,
        .index = index,
    };
    int object = -1;
    ex_need(fsi_sph_add_surface(sph, &skin, centre, 1, &object));
    return object;
}

static fsi_sph_desc particles(const entry *e, double h, int divergence_free) {
    int columns = (int)lround(e->tank / h);
    int rows = (int)lround(e->level / h);
    fsi_sph_desc desc = {
        .dim = 2,
        .capacity = columns * rows + 10,
        .boundary_capacity = 20 * (columns + rows) + 8000,
        .solver = divergence_free ? FSI_SPH_DFSPH : FSI_SPH_WCSPH,
        .spacing = h,
        .density = 1000,
        .gravity = fsi_vec(0, -9.81, 0),
        .sound_speed = 14 * e->speed,
        .artificial = 0.05,
        .delta = divergence_free ? 0 : 0.1,
    };
    return desc;
}

static void draw_particles(ex_args *args, const fsi_sph *sph, const fsi_solids *solids, int body,
                           const entry *e) {
    ex_image image = ex_image_make(720, 40 + (int)(680 * e->height / e->tank));
    ex_clear(&image, ex_grey(250));
    ex_view view = ex_view_make(0, 0, e->tank, e->height, 20, 20, 680, image.h - 40);
    double radius = 0.5 * sph->desc.spacing * 680 / e->tank;
    for (int i = 0; i < sph->now.count; i++)
        ex_disk(&image, ex_px(&view, sph->x[i]), ex_py(&view, sph->y[i]), radius,
                ex_rgb(80, 155, 215));
    fsi_real x[3 * ROUND];
    fsi_real v[3 * ROUND];
    fsi_surface surface;
    fsi_solids_surface(solids, body, x, v, &surface);
    ex_draw_surface(&image, &view, &surface, ex_rgb(225, 120, 50));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static int run_particles(ex_args *args, const entry *e, const fsi_shape *shape, trace *curve) {
    /* The tank's size is a whole number of particles. */
    double h = e->width / ex_whole(args, "cells");
    entry fitted = *e;
    fitted.tank = h * lround(e->tank / h);
    fitted.level = h * lround(e->level / h);
    fsi_sph sph;
    fsi_sph_desc fluid = particles(&fitted, h, ex_is(args, "fluid", "dfsph"));
    ex_need(fsi_sph_init(&sph, &fluid));
    fsi_vec3 origin = fsi_vec(0, 0, 0);
    ex_need(fsi_sph_add_block(&sph, origin, fsi_vec(fitted.tank, fitted.level, 0), origin, NULL));
    fsi_vec3 top = fsi_vec(fitted.tank, 2 * fitted.height, 0);
    ex_need(fsi_sph_add_box_walls(&sph, origin, top, 1u << FSI_TOP, NULL));

    /* The body among the solids, and its skin among the particles. */
    fsi_solids solids;
    fsi_solids_desc room = {.dim = 2, .max_bodies = 1, .gravity = fluid.gravity, .substeps = 1};
    ex_need(fsi_solids_init(&solids, &room));
    fsi_rigid_desc desc = falling(&fitted, shape);
    int body = 0;
    ex_need(fsi_solids_add(&solids, &desc, &body));
    fsi_vec3 lowest = fsi_vec(desc.x.x, fitted.level, 0);
    int object = add_skin(&sph, &fitted, lowest, desc.x);
    fsi_sph_rigid couple;
    fsi_sph_rigid_desc both = {
        .sph = &sph, .world = &solids, .count = 1, .body = &body, .object = &object};
    ex_need(fsi_sph_rigid_init(&couple, &both));

    int steps = 0;
    double time = 0;
    double end = e->end * e->time_unit;
    int frame = 0;
    record(curve, e, 0, 0, e->speed);
    while (time < end && ex_fine()) {
        double dt = fmin(fsi_sph_max_dt(&sph), 0.3 * h / e->speed);
        dt *= ex_number(args, "dt_scale");
        ex_try(fsi_sph_rigid_step(&couple, dt, NULL));
        time += dt;
        steps++;
        const fsi_rigid *now = &solids.body[body];
        record(curve, e, time, desc.x.y - now->x.y, -now->v.y);

        if (time >= frame * end / args->frames) {
            if (args->out)
                draw_particles(args, &sph, &solids, body, &fitted);
            ex_progress(args, frame < args->frames ? frame : args->frames - 1);
            frame++;
        }
    }

    fsi_sph_rigid_free(&couple);
    fsi_solids_free(&solids);
    fsi_sph_free(&sph);
    return steps;
}

/* ---- results */
/* Our curve beside the published one. */
static void draw_curves(ex_args *args, const entry *e, const trace *curve) {
    ex_image image = ex_image_make(720, 480);
    ex_curve curves[2] = {
        {.name = "ours", .n = curve->count, .x = curve->x, .y = curve->y},
        {.name = "published"},
    };
    curves[0].color = ex_rgb(40, 90, 190);
    curves[1].color = ex_rgb(220, 90, 40);
    if (e->reference) {
        curves[1].n = e->reference->count;
        curves[1].x = e->reference->x;
        curves[1].y = e->reference->y;
    }
    ex_plot(&image, e->is_wedge ? "WEDGE" : "CYLINDER", e->is_wedge ? "TIME MS" : "TIME",
            e->is_wedge ? "SPEED" : "DEPTH", curves, e->reference ? 2 : 1, 0, 0);
    char path[512];
    snprintf(path, sizeof path, "%s/water_entry_curve.png", args->out);
    ex_png(path, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "water_entry",
    .what = "A cylinder or a wedge falls into still water, beside published curves.",
    .size = 320,
    .frames = 40,
    .keys =
        {
            EX_WORD("case", "what falls", "cylinder", "cylinder,wedge"),
            EX_NUMBER("density", "", "cylinder over water; published: 0.5 and 1", "0.5",
                      "0.01 to 100"),
            EX_NUMBER("cells", "", "cells or particles across the body", "32", "4 to 512"),
            EX_NUMBER("dt_scale", "", "of the time step", "1", "0.01 to 4"),
            EX_BOUNDARY,
            EX_WORD("fluid", "the water", "grid", "grid,wcsph,dfsph"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    entry e =
        ex_is(&args, "case", "wedge") ? wedge_entry() : cylinder_entry(ex_number(&args, "density"));

    /* The body's shape from its outline. */
    fsi_real x[3 * ROUND];
    int32_t index[2 * ROUND];
    int corners = outline(&e, x);
    for (int i = 0; i < corners; i++) {
        index[2 * i] = i;
        index[2 * i + 1] = (i + 1) % corners;
    }
    fsi_surface skin = {
        .dim = 2,
        .closed = 1,
        .vertex_count = corners,
        .element_count = corners,
        .x = x,
        .index = index,
    };
    fsi_shape_desc form = {.kind = FSI_SHAPE_MESH, .dim = 2, .surface = &skin, .sdf_cells = 128};
    fsi_shape shape;
    ex_need(fsi_shape_init(&shape, &form));

    static trace curve;
    int steps = ex_is(&args, "fluid", "grid") ? run_grid(&args, &e, &shape, &curve)
                                              : run_particles(&args, &e, &shape, &curve);
    fsi_shape_free(&shape);
    if (args.out)
        draw_curves(&args, &e, &curve);

    if (e.reference)
        ex_result("rms_error", "%.5f", published_rms(e.reference, curve.count, curve.x, curve.y));
    else
        ex_result("rms_error", "none");
    double last = curve.y[curve.count - 1];
    if (e.is_wedge)
        ex_result("velocity_40ms", "%.4f", last);
    else
        ex_result("depth_end", "%.4f", last);
    return ex_end(&args, steps, ex_fine());
}
