/* trapped_air: closed air is one unknown of the solve and pushes on everything around it.

     cup     upside down under water, with air     lifted by what cup and air displace
     bell    the same with walls of two cells, lowered by one cell before the run when held
     hull    sealed, under water                   lifted by what its outside displaces
     box     sealed, half full of water, in air    carries the weight of that water
     bottle  the same with thick walls             let go it falls with g
     lid     as wide as the tank, on air, with     rests on the air; held, it feels the water
             water on it                           above, and air that nothing compresses

       build/trapped_air --set scene=cup --set held=1 --out out
       build/trapped_air --set scene=cup --set bubbles=0

   The tank is 1 m wide and high; lengths are rounded to whole cells, so that what is expected is a
   closed form of the very geometry; walls have two cells at least, since the level set of a thinner
   one cannot have air on one side and water on the other. Free: a = (expected - m g) / (m + added),
   where added is the mass of the water that a unit jerk of the same solid moves, found by one solve
   without gravity. A sealed vessel in air falls with g whatever moves in it. 2D: forces are per
   metre.

   Result: force (held, mean over the last quarter) or acceleration (free, first step), each with
   what is expected; the worst relative change of the air's volume; the largest speed of all. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double RHO = 1000, GRAVITY = 9.81;

typedef struct vessel {
    fsi_world world;
    fsi_shape shape;
    fsi_shape wall[4];
    fsi_shape_part part[4];
    int id;

    double half_width;  /* outer sizes, m */
    double half_height; /* the same upwards */
    double thick;       /* of the walls, m */
    double centre;      /* height of the middle, m */
    double level;       /* of the pool, m; below 0: there is none */
    double inside;      /* level of the water inside, m above the tank's floor */
    int sealed;         /* it has a bottom */
    int lid;            /* it is a plate as wide as the tank */
    int bell;           /* it is lowered by one cell before the run */

    double lift;   /* force that is expected, N/m */
    double weight; /* of the solid, N/m */
} vessel;

static double whole_cells(double length, double h) {
    return h * floor(length / h + 0.5);
}

/* A plate of 0.2 m on air, with 0.1 m of water on it. It is wider than the tank, so that nothing
   escapes beside it. */
static void measure_lid(vessel *v, double depth, double h) {
    v->half_width = 0.6;
    v->half_height = whole_cells(0.1, h);
    v->level = whole_cells(0.3, h);
    v->centre = v->level + depth + v->half_height;
    v->inside = v->centre + v->half_height + whole_cells(0.1, h);
    v->lift = -RHO * GRAVITY * whole_cells(0.1, h);
}

/* Half full of water, in air: the walls carry the weight of that water. */
static void measure_dry(vessel *v, double inner_width, double h) {
    v->level = -1;
    v->centre = whole_cells(0.65, h);
    v->inside = v->centre;
    v->lift = -RHO * GRAVITY * inner_width * (v->half_height - v->thick);
}

/* Under water: lifted by what the solid and its air displace. */
static void measure_wet(vessel *v, double depth, double inner_width, double solid, double h) {
    v->level = whole_cells(0.85, h);
    v->centre = v->level - depth - v->half_height;
    if (v->sealed) {
        v->inside = -1;
        v->lift = RHO * GRAVITY * 4 * v->half_width * v->half_height;
        return;
    }
    double bottom = v->centre - v->half_height;
    double ceiling = v->centre + v->half_height - v->thick;
    v->inside = bottom + whole_cells(0.1, h);
    double air = inner_width * (ceiling - v->inside);
    v->lift = RHO * GRAVITY * (solid + air);
}

/* Sizes of the scene in whole cells, and the force that follows from them. */
static void measure(vessel *v, const ex_args *args) {
    double h = 1.0 / args->size;
    double depth = whole_cells(ex_number(args, "depth"), h);
    int bottle = ex_is(args, "scene", "bottle");
    int dry = bottle || ex_is(args, "scene", "box");
    v->lid = ex_is(args, "scene", "lid");
    v->sealed = dry || ex_is(args, "scene", "hull");
    v->half_width = whole_cells(ex_number(args, "width") / 2, h);
    v->half_height = whole_cells(0.15, h);

    v->bell = ex_is(args, "scene", "bell");
    v->thick = fmax(whole_cells(bottle ? 0.075 : 0.05, h), 2 * h);
    if (v->bell)
        v->thick = 2 * h;

    /* Walls on two sides and above; below too when it is sealed. */
    double inner_width = 2 * (v->half_width - v->thick);
    double inner_height = 2 * v->half_height - (v->sealed ? 2 : 1) * v->thick;
    double solid = 4 * v->half_width * v->half_height - inner_width * inner_height;

    if (v->lid) {
        measure_lid(v, depth, h);
        solid = 4 * v->half_width * v->half_height;
    } else if (dry)
        measure_dry(v, inner_width, h);
    else
        measure_wet(v, depth, inner_width, solid, h);
    v->weight = ex_number(args, "density") * GRAVITY * solid;
}

/* Distance to the water, negative in it: the pool, and the water inside. */
static fsi_real water(fsi_vec3 at, void *user) {
    const vessel *v = user;
    double beside = fabs((double)at.x - 0.5);
    double above = (double)at.y - v->centre;
    double wall = v->thick / 2;
    double bottom = -v->half_height + (v->sealed ? wall : 0);
    int between_sides = beside < v->half_width - wall;
    int between_ends = above >= bottom && above < v->half_height - wall;
    int within = v->lid ? above > 0 : between_sides && between_ends;
    double surface = within ? v->inside : v->level;
    return (fsi_real)fmin((double)at.y - surface, 0.3);
}

/* ---- the scene */
static void add_wall(vessel *v, int i, double left, double bottom, double right, double top) {
    fsi_shape_desc desc = {.kind = FSI_SHAPE_BOX, .dim = 2};
    desc.half = fsi_vec((right - left) / 2, (top - bottom) / 2, 0);
    ex_need(fsi_shape_init(&v->wall[i], &desc));
    v->part[i].shape = &v->wall[i];
    v->part[i].x = fsi_vec((left + right) / 2, (bottom + top) / 2, 0);
}

/* One solid of up to four boxes: left, right, above, below. */
static void make_shape(vessel *v) {
    double x = v->half_width;
    double y = v->half_height;
    double t = v->thick;
    fsi_shape_desc shape = {.kind = FSI_SHAPE_COMPOUND, .dim = 2, .part = v->part};
    memset(v->part, 0, sizeof v->part);
    if (v->lid) {
        add_wall(v, 0, -x, -y, x, y);
        shape.part_count = 1;
    } else {
        add_wall(v, 0, -x, -y, -x + t, y);
        add_wall(v, 1, x - t, -y, x, y);
        add_wall(v, 2, -x + t, y - t, x - t, y);
        add_wall(v, 3, -x + t, -y, x - t, -y + t);
        shape.part_count = v->sealed ? 4 : 3;
    }
    ex_need(fsi_shape_init(&v->shape, &shape));
}

static void make_tank(vessel *v, const ex_args *args, double gravity) {
    int voxel = ex_is(args, "boundary", "voxel");
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.ny = args->size,
        .grid.nz = 1,
        .grid.h = 1.0 / args->size,
        .grid.rho = RHO,
        .grid.gravity = fsi_vec(0, -gravity, 0),
        .grid.liquid = 1,
        .grid.tolerance = 1e-8,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .couple.boundary = voxel ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .couple.bubbles = ex_whole(args, "bubbles") ? 1 : -1,
        .max_bodies = 1,
        .no_walls = v->lid,
    };
    ex_need(fsi_world_init(&v->world, &desc));
}

/* The tank with the vessel in it, held or free. Without gravity it gets a speed of 1 m/s: a jerk.
 */
static void start(vessel *v, const ex_args *args, int held, double gravity) {
    make_tank(v, args, gravity);
    make_shape(v);

    fsi_rigid_desc body = {
        .kind = held ? FSI_RIGID_SCRIPTED : FSI_RIGID_DYNAMIC,
        .shape = &v->shape,
        .density = ex_number(args, "density"),
        .x = fsi_vec(0.5, v->centre + v->shape.com.y, 0),
    };

    /* A lid stays level. */
    if (v->lid)
        body.inertia = fsi_vec(1e9, 1e9, 1e9);
    if (!(gravity > 0))
        body.v = fsi_vec(0, 1, 0);
    v->id = ex_need(fsi_world_add(&v->world, &body));
    ex_need(fsi_grid_set_field(&v->world.grid, FSI_FIELD_PHI, water, v));
}

static void stop(vessel *v) {
    fsi_world_free(&v->world);
    fsi_shape_free(&v->shape);
    for (int i = 0; i < 4; i++)
        fsi_shape_free(&v->wall[i]);
    memset(v->wall, 0, sizeof v->wall);
}

/* Lowers a held vessel by one cell within two seconds, softly, and waits for one more: what waves
   are left change the force by less than 0.1 %. */
static void lower(vessel *v, const ex_args *args) {
    const double dt = 0.004;
    const double seconds = 2;
    fsi_vec3 still = fsi_vec(0, 0, 0);
    for (double t = 0; t < 1.5 * seconds && ex_fine(); t += dt) {
        double mean = 1 / (args->size * seconds);
        double speed = t < seconds ? mean * (1 - cos(2 * FSI_PI * t / seconds)) : 0;
        fsi_solids_set_velocity(&v->world.solids, v->id, fsi_vec(0, -speed, 0), still);
        ex_try(fsi_world_step(&v->world, dt, NULL));
    }
    fsi_solids_set_velocity(&v->world.solids, v->id, still, still);
}

/* Mass of the water that a jerk moves: minus force times dt over the speed of 1 m/s. */
static double added_mass(vessel *v, const ex_args *args, double dt) {
    fsi_body_report report = {0};
    start(v, args, 1, 0);
    ex_need(fsi_world_step(&v->world, dt, NULL));
    ex_need(fsi_world_body(&v->world, v->id, &report));
    stop(v);
    return -(double)report.force.y * dt;
}

/* Volume of all closed air, m^2; without bubbles as the grid counts it. */
static double closed_air(const vessel *v) {
    const fsi_couple *couple = &v->world.couple;
    const fsi_grid *grid = &v->world.grid;
    double sum = 0;
    for (int i = 0; i < couple->bubbles; i++)
        sum += couple->bubble[i].volume;
    if (couple->desc.bubbles >= 0)
        return sum;
    for (int i = 0; i < grid->region_count; i++)
        if (!grid->regions[i].open)
            sum += grid->regions[i].volume;
    return sum;
}

/* ---- pictures */
static void draw(const vessel *v, ex_args *args) {
    const fsi_grid *grid = &v->world.grid;
    ex_image image = ex_image_make(440, 440);
    ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 400, 400);
    ex_clear(&image, ex_grey(255));
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
    ex_draw_surface(&image, &view, &v->world.couple.iface.solid[0]->surface, ex_grey(150));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "trapped_air",
    .what = "Closed air pushes on a solid.",
    .size = 40,
    .frames = 200,
    .keys =
        {
            EX_WORD("scene", "what holds the air", "cup", "cup,bottle,box,lid,bell,hull"),
            EX_NUMBER("held", "", "1: held, 0: let go", "1", "0 to 1"),
            EX_NUMBER("width", "m", "of the vessel", "0.4", "0.2 to 0.7"),
            EX_NUMBER("depth", "m", "of its top under water; lid: of the air", "0.15",
                      "0.05 to 0.3"),
            EX_NUMBER("density", "kg/m^3", "of the walls", "1500", "10 to 1e5"),
            EX_WORD("boundary", "form of the solids", "cut", "cut,voxel,fraction"),
            EX_NUMBER("bubbles", "", "0: closed air yields", "1", "0 to 1"),
            EX_NUMBER("dt", "s", "time step", "0.002", "1e-5 to 0.02"),
        },
};

/* What is measured over a run. */
typedef struct findings {
    double force_sum; /* over the last quarter of the run */
    int force_count;
    double acceleration; /* of the first step */
    double air_at_first;
    double air_error;
    double peak_speed;
    double iterations;
} findings;

static void observe(const vessel *v, int frame, int frames, double dt, findings *found) {
    fsi_body_report body = {0};
    ex_need(fsi_world_body(&v->world, v->id, &body));
    double velocity = (double)fsi_world_rigid(&v->world, v->id)->v.y;
    double air = closed_air(v);
    if (frame == 0) {
        found->acceleration = velocity / dt;
        found->air_at_first = air;
    }
    if (4 * frame >= 3 * frames) {
        found->force_sum += (double)body.force.y;
        found->force_count++;
    }

    if (found->air_at_first > 0)
        found->air_error = fmax(found->air_error, fabs(air / found->air_at_first - 1));
    double speed = fmax(fabs(velocity), v->world.grid.stats.max_speed);
    found->peak_speed = fmax(found->peak_speed, speed);
}

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int held = ex_whole(&args, "held");
    double dt = ex_number(&args, "dt");
    static vessel v;
    measure(&v, &args);

    /* A lid on air that cannot yield does not move at all, and what is sealed in air falls freely.
     */
    double expected_acceleration = v.lid ? 0 : -GRAVITY;
    if (!held && v.level > 0 && !v.lid) {
        double mass = v.weight / GRAVITY + added_mass(&v, &args, dt);
        expected_acceleration = (v.lift - v.weight) / mass;
    }

    start(&v, &args, held, GRAVITY);
    if (held && v.bell)
        lower(&v, &args);
    findings found = {0};
    int frame = 0;
    for (; frame < args.frames && ex_fine(); frame++) {
        fsi_report report = {0};
        ex_try(fsi_world_step(&v.world, dt, &report));
        found.iterations += report.iterations;
        observe(&v, frame, args.frames, dt, &found);
        if (args.out)
            draw(&v, &args);
        ex_progress(&args, frame);
    }

    if (held) {
        int count = found.force_count;
        ex_result("force", "%.4f", count ? found.force_sum / count : 0);
        ex_result("expected", "%.4f", v.lift);
    } else {
        ex_result("acceleration", "%.5f", found.acceleration);
        ex_result("expected_acceleration", "%.5f", expected_acceleration);
    }
    ex_result("air_error", "%.6f", found.air_error);
    ex_result("peak_speed", "%.4f", found.peak_speed);
    ex_result("iterations", "%.2f", found.iterations / (frame > 0 ? frame : 1));
    stop(&v);
    return ex_end(&args, frame, ex_fine());
}
