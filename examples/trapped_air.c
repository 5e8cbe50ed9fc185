/* trapped_air: closed air is one unknown of the solve and pushes on everything around it.

     cup     upside down under water, with air     lifted by what cup and air displace
     bell    the same with thin walls, pushed down for the first half of the run when held
     hull    sealed, under water                   lifted by what its outside displaces
     box     sealed, half full of water, in air    carries the weight of that water
     bottle  the same with thick walls             let go it falls with g
     lid     as wide as the tank, on air           rests on the air; held, it feels nothing

       build/trapped_air --set scene=cup --set held=1 --out out
       build/trapped_air --set scene=cup --set bubbles=0

   A held bell is pushed down by one cell in the first half of the run. The tank is 1 m wide and
   high; lengths are rounded to whole cells, so that what is expected is a closed form of the very
   geometry. Free: a = (expected - m g) / (m + added), where added is the mass of the water that a
   unit jerk of the same solid moves, found by one solve without gravity; in a sealed vessel it is
   that of the water inside. 2D: forces are per metre.

   Result: force (held, mean over the second half) or acceleration (free, first step), each with
   what is expected; the worst relative change of the air's volume; the largest speed of all. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double RHO = 1000, GRAVITY = 9.81;

typedef struct vessel {
    fsi_world world;
    fsi_shape shape, wall[4];
    fsi_shape_part part[4];
    int id;
    double x, y;         /* half of the outer sizes, m */
    double thick;        /* of the walls, m */
    double centre;       /* height of the middle, m */
    double level;        /* of the pool, m; below 0: none */
    double inside;       /* of the water inside, m above the tank's floor */
    double lift, weight; /* expected force; weight of the solid, N/m */
    int sealed, lid;
} vessel;

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

static double whole_cells(double length, double h) {
    return h * floor(length / h + 0.5);
}

/* Distance to the water, negative in it: pool, and water inside. */
static fsi_real water(fsi_vec3 at, void *user) {
    const vessel *v = user;
    double dx = fabs((double)at.x - 0.5);
    double dy = (double)at.y - v->centre;
    double wall = v->thick / 2;
    int below = v->sealed ? dy < -v->y + wall : dy < -v->y;
    int within = !v->lid && dx < v->x - wall && dy < v->y - wall && !below;
    double surface = within ? v->inside : v->level;
    return (fsi_real)fmin((double)at.y - surface, 0.3);
}

/* Sizes and what is expected of them. */
static void measure(vessel *v, const ex_args *args) {
    double h = 1.0 / args->size;
    int dry = ex_is(args, "scene", "box") || ex_is(args, "scene", "bottle");
    int hull = ex_is(args, "scene", "hull");
    double depth = whole_cells(ex_number(args, "depth"), h);
    v->lid = ex_is(args, "scene", "lid");
    v->sealed = dry || hull;
    v->x = whole_cells(ex_number(args, "width") / 2, h);
    v->y = whole_cells(0.15, h);
    v->thick = whole_cells(ex_is(args, "scene", "bell") ? h : 0.05, h);
    if (ex_is(args, "scene", "bottle"))
        v->thick = whole_cells(0.075, h);
    v->level = dry ? -1 : whole_cells(0.85, h);
    v->centre = dry ? whole_cells(0.65, h) : v->level - depth - v->y;
    double inner = 2 * (v->x - v->thick);
    double solid = 4 * v->x * v->y - inner * (2 * v->y - 2 * v->thick);
    if (dry) {
        v->inside = v->centre;
        v->lift = -RHO * GRAVITY * inner * (v->y - v->thick);
    } else if (hull) {
        v->inside = -1;
        v->lift = RHO * GRAVITY * 4 * v->x * v->y;
    } else {
        solid = 4 * v->x * v->y - inner * (2 * v->y - v->thick);
        v->inside = v->centre - v->y + whole_cells(0.1, h);
        double air = inner * (v->centre + v->y - v->thick - v->inside);
        v->lift = RHO * GRAVITY * (solid + air);
    }
    if (v->lid) {
        v->x = 0.6;
        v->y = whole_cells(0.1, h);
        v->level = whole_cells(0.3, h);
        v->centre = v->level + depth + v->y;
        solid = 4 * v->x * v->y;
        v->lift = 0;
    }
    v->weight = ex_number(args, "density") * GRAVITY * solid;
}

static void add_wall(vessel *v, int i, double left, double bottom, double right, double top) {
    fsi_shape_desc desc = {.kind = FSI_SHAPE_BOX, .dim = 2};
    desc.half = fsi_vec((right - left) / 2, (top - bottom) / 2, 0);
    ex_need(fsi_shape_init(&v->wall[i], &desc));
    v->part[i].shape = &v->wall[i];
    v->part[i].x = fsi_vec((left + right) / 2, (bottom + top) / 2, 0);
}

/* The world with the vessel in it: held, free, or given a speed without gravity (jerk). */
static void start(vessel *v, const ex_args *args, int held, double gravity) {
    fsi_world_desc desc = {.grid.nx = args->size, .grid.ny = args->size, .grid.nz = 1};
    desc.grid.h = 1.0 / args->size;
    desc.grid.rho = RHO;
    desc.grid.gravity = fsi_vec(0, -gravity, 0);
    desc.grid.liquid = 1;
    desc.grid.tolerance = 1e-8;
    desc.grid.volume_correction = 1;
    desc.grid.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    int voxel = ex_is(args, "boundary", "voxel");
    desc.couple.boundary = voxel ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT;
    desc.couple.bubbles = ex_whole(args, "bubbles") ? 1 : -1;
    desc.max_bodies = 1;
    desc.no_walls = v->lid;
    ex_need(fsi_world_init(&v->world, &desc));

    double x = v->x;
    double y = v->y;
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

    fsi_rigid_desc body = {.shape = &v->shape};
    body.kind = held ? FSI_RIGID_SCRIPTED : FSI_RIGID_DYNAMIC;
    body.density = ex_number(args, "density");
    body.x = fsi_vec(0.5, v->centre + v->shape.com.y, 0);
    if (v->lid)
        body.inertia = fsi_vec(1e9, 1e9, 1e9);
    if (!(gravity > 0))
        body.v = fsi_vec(0, 1, 0);
    else if (held && ex_is(args, "scene", "bell"))
        body.v = fsi_vec(0, -2 / (args->size * ex_number(args, "dt") * args->frames), 0);
    v->id = fsi_world_add(&v->world, &body);
    ex_need(v->id < 0 ? (fsi_result)v->id : FSI_OK);
    ex_need(fsi_grid_set_field(&v->world.grid, FSI_FIELD_PHI, water, v));
}

static void stop(vessel *v) {
    fsi_world_free(&v->world);
    fsi_shape_free(&v->shape);
    for (int i = 0; i < 4; i++)
        fsi_shape_free(&v->wall[i]);
    memset(v->wall, 0, sizeof v->wall);
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
    for (int i = 0; couple->desc.bubbles < 0 && i < grid->region_count; i++)
        sum += grid->regions[i].open ? 0 : grid->regions[i].volume;
    return sum;
}

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

int main(int argc, char **argv) {
    ex_args args;
    vessel v = {0};
    ex_begin(&args, argc, argv, &about);
    int held = ex_whole(&args, "held");
    double dt = ex_number(&args, "dt");
    measure(&v, &args);

    /* A lid on air that cannot yield does not move at all. */
    double expected_acceleration = 0;
    if (!held && !v.lid) {
        double mass = v.weight / GRAVITY + added_mass(&v, &args, dt);
        expected_acceleration = (v.lift - v.weight) / mass;
    }
    start(&v, &args, held, GRAVITY);

    int stable = 1;
    int frame = 0;
    int counted = 0;
    double force = 0;
    double acceleration = 0;
    double air = 0;
    double air_error = 0;
    double peak = 0;
    double iterations = 0;
    for (; frame < args.frames && stable; frame++) {
        fsi_report report = {0};
        fsi_body_report body = {0};
        if (held && 2 * frame >= args.frames)
            fsi_solids_set_velocity(&v.world.solids, v.id, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
        stable = ex_try(fsi_world_step(&v.world, dt, &report)) >= 0;
        ex_need(fsi_world_body(&v.world, v.id, &body));
        iterations += report.iterations;
        if (4 * frame >= 3 * args.frames) {
            force += (double)body.force.y;
            counted++;
        }
        double speed = fabs((double)v.world.solids.body[v.id].v.y);
        if (frame == 0) {
            acceleration = (double)v.world.solids.body[v.id].v.y / dt;
            air = closed_air(&v);
        }
        if (air > 0)
            air_error = fmax(air_error, fabs(closed_air(&v) / air - 1));
        peak = fmax(peak, fmax(speed, v.world.grid.stats.max_speed));
        if (args.out)
            draw(&v, &args);
        ex_progress(&args, frame);
    }

    if (held) {
        ex_result("force", "%.4f", counted ? force / counted : 0);
        ex_result("expected", "%.4f", v.lift);
    } else {
        ex_result("acceleration", "%.5f", acceleration);
        ex_result("expected_acceleration", "%.5f", expected_acceleration);
    }
    ex_result("air_error", "%.6f", air_error);
    ex_result("peak_speed", "%.4f", peak);
    ex_result("iterations", "%.2f", iterations / (frame > 0 ? frame : 1));
    stop(&v);
    return ex_end(&args, frame, stable);
}
