/* own_body: a body of your own engine in water. Copy this: the struct plank and its functions stand
   for your engine, pool_step is all it takes to couple it.

       build/own_body --out out
       build/own_body --set density=0.8 --set bounce=0

   Result: depth, the share of the plank under water, beside what Archimedes says. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* ------------------------------------------------------------------------------------------------
 * Your engine: a plank of 0.4 m x 0.2 m. Nothing here knows of the library. In 2D all masses are
 * per metre of depth. */
typedef struct plank {
    double mass;
    double inertia;
    double x, y, angle; /* of its centre */
    double vx;
    double vy;
    double spin;
    double corner[4][2]; /* counter-clockwise */
} plank;

static const double plank_length = 0.4, plank_height = 0.2;

/* Where the corners are now. */
static void plank_corners(plank *body) {
    static const double sign[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    double cosine = cos(body->angle);
    double sine = sin(body->angle);
    for (int i = 0; i < 4; i++) {
        double along = sign[i][0] * plank_length / 2;
        double across = sign[i][1] * plank_height / 2;
        body->corner[i][0] = body->x + cosine * along - sine * across;
        body->corner[i][1] = body->y + sine * along + cosine * across;
    }
}

/* The velocity comes first: the weight here, the water in pool_step ... */
static void plank_weight(plank *body, double dt) {
    body->vy -= 9.81 * dt;
}

/* A corner below the floor: lift the plank, and turn the corner's speed around by an impulse. */
static void plank_hit_floor(plank *body, int corner, double bounce) {
    double arm = body->corner[corner][0] - body->x;
    double speed = body->vy + body->spin * arm;
    double give = 1 / body->mass + arm * arm / body->inertia; /* speed per impulse */
    double impulse = speed < 0 ? -(1 + bounce) * speed / give : 0;
    body->y -= body->corner[corner][1];
    body->vy += impulse / body->mass;
    body->spin += arm * impulse / body->inertia;
    plank_corners(body);
}

/* ... then the pose follows with the new velocity (semi-implicit Euler). */
static void plank_move(plank *body, double dt, double bounce) {
    body->x += dt * body->vx;
    body->y += dt * body->vy;
    body->angle += dt * body->spin;
    plank_corners(body);
    for (int i = 0; i < 4; i++)
        if (body->corner[i][1] < 0)
            plank_hit_floor(body, i, bounce);
}

/* ------------------------------------------------------------------------------------------------
 * The coupling: water, what it sees of the plank, and one step of both. */
typedef struct pool {
    fsi_grid grid;
    fsi_couple couple;
    fsi_body body;       /* mass, pose and velocity of the plank */
    fsi_surface outline; /* its edges */
    fsi_real corner[12]; /* x, y, 0 of each corner */
    fsi_coupled door;    /* through which the coupling sees both */
} pool;

/* Hands the plank to the coupling: its outline, its mass, where and how fast it is. */
static void pool_give(pool *tank, const plank *body) {
    static const int32_t edge[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    for (int i = 0; i < 4; i++)
        fsi_vec_store(tank->corner + 3 * i, fsi_vec(body->corner[i][0], body->corner[i][1], 0));
    tank->outline = (fsi_surface){
        .dim = 2,
        .closed = 1,
        .vertex_count = 4,
        .element_count = 4,
        .x = tank->corner,
        .index = edge,
    };
    tank->body.mass = body->mass;
    tank->body.inertia.m[8] = body->inertia; /* about the z axis */
    tank->body.centre = fsi_vec(body->x, body->y, 0);
    tank->body.velocity = fsi_vec(body->vx, body->vy, 0);
    tank->body.spin = fsi_vec(0, 0, body->spin);
    ex_try(fsi_body_couple(&tank->body, &tank->outline, &tank->door));
}

/* Takes the new velocity back. An engine that wants impulses takes body.impulse and body.twist. */
static void pool_take(pool *tank, plank *body) {
    fsi_body_take(&tank->body);
    body->vx = tank->body.velocity.x;
    body->vy = tank->body.velocity.y;
    body->spin = tank->body.spin.z;
}

/* One step of both. Returns the iterations of the solve. */
static int pool_step(pool *tank, plank *body, double dt, double bounce) {
    fsi_coupled *doors[1] = {&tank->door};
    fsi_report report = {0};

    /* The plank's own forces; which cells does it cover? */
    plank_weight(body, dt);
    pool_give(tank, body);
    ex_try(fsi_couple_detect(&tank->couple, doors, 1));

    /* The water flows on and feels its own weight. */
    ex_try(fsi_grid_advect(&tank->grid, dt));
    ex_try(fsi_grid_forces(&tank->grid, dt));

    /* One solve for the pressure of the water and the velocity of the plank. */
    ex_try(fsi_couple_solve(&tank->couple, dt, &report));
    if (ex_fine())
        pool_take(tank, body);

    /* Both move: the surface of the water, and the plank. */
    ex_try(fsi_grid_extrapolate(&tank->grid));
    ex_try(fsi_grid_move_surface(&tank->grid, dt, NULL));
    if (ex_fine())
        plank_move(body, dt, bounce);
    return report.iterations;
}

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - 0.5;
}

/* A tank of 1 m x 1 m, half full, open above. */
static void pool_make(pool *tank, int size) {
    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1000,
        .gravity = fsi_vec(0, -9.81, 0),
        .liquid = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    ex_need(fsi_grid_init(&tank->grid, &desc));
    ex_need(fsi_couple_init(&tank->couple, &tank->grid, NULL));
    ex_need(fsi_grid_set_field(&tank->grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&tank->grid));
}

/* The share of the plank under water. It lies flat in a tank 1 m wide, so that
   water and what the plank displaces of it fill the tank to
       level = volume + share * length * height   and also   level = bottom + share * height. */
static double share_under_water(const pool *tank, const plank *body) {
    double bottom = body->y - plank_height / 2;
    double share =
        (tank->grid.stats.liquid_volume - bottom) / (plank_height - plank_length * plank_height);
    return ex_clamp(share, 0, 1);
}

static void draw(ex_args *args, const pool *tank) {
    const fsi_grid *grid = &tank->grid;
    ex_image image = ex_image_make(560, 560);
    ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 520, 520);
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));
    ex_draw_surface(&image, &view, &tank->outline, ex_rgb(205, 120, 50));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "own_body",
    .what = "A hand-written rigid body coupled to water.",
    .size = 64,
    .frames = 400,
    .keys =
        {
            EX_NUMBER("density", "", "plank over water", "0.4", "1e-3 to 1e3"),
            EX_NUMBER("bounce", "", "restitution at the floor", "0.4", "0 to 1"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.05"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double density = ex_number(&args, "density");
    double bounce = ex_number(&args, "bounce");
    double dt = ex_number(&args, "dt");

    /* The tank, and a tilted plank above the water. */
    static pool tank;
    pool_make(&tank, args.size);
    plank body = {.x = 0.5, .y = 0.72, .angle = 0.3};
    body.mass = 1000 * density * 0.4 * 0.2;
    body.inertia = body.mass * (0.4 * 0.4 + 0.2 * 0.2) / 12;
    plank_corners(&body);

    /* It falls in and bobs: its depth is the mean over the second half. */
    double iterations = 0;
    double depth = 0;
    double counted = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        iterations += pool_step(&tank, &body, dt, bounce);
        ex_check_speed(fabs(body.vy), 100);
        if (2 * frame >= args.frames) {
            depth += share_under_water(&tank, &body);
            counted++;
        }

        if (args.out)
            draw(&args, &tank);
        ex_progress(&args, frame);
    }

    ex_result("depth", "%.4f", depth / (counted > 0 ? counted : 1));
    ex_result("archimedes", "%.4f", density < 1 ? density : 1);
    ex_result("iterations", "%.2f", iterations / (frame > 0 ? frame : 1));
    fsi_couple_free(&tank.couple);
    fsi_grid_free(&tank.grid);
    return ex_end(&args, frame, ex_fine());
}
