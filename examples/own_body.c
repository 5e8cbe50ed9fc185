/* own_body: a body of your own engine in water. Copy this: the struct and its three functions stand
   for your engine, water_step is all it takes to couple it. cc -O2 -I. -Iexamples
   examples/own_body.c -o own_body -lm */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* ---- Your engine: a plank 0.4 x 0.2 m, in 2D all masses are per metre of depth. Nothing here
 * knows of the library. */
typedef struct plank {
    double mass, inertia, x, y, angle, vx, vy, spin, corner[4][2];
} plank;

static void plank_corners(plank *b) { /* counter-clockwise */
    static const double at[4][2] = {{-.2, -.1}, {.2, -.1}, {.2, .1}, {-.2, .1}};
    double c = cos(b->angle);
    double s = sin(b->angle);

    for (int i = 0; i < 4; i++) {
        b->corner[i][0] = b->x + c * at[i][0] - s * at[i][1];
        b->corner[i][1] = b->y + s * at[i][0] + c * at[i][1];
    }
}

/* Semi-implicit Euler: the velocity first (weight here, the water in water_step), then the pose
 * with the new velocity. */
static void plank_weight(plank *b, double dt) {
    b->vy -= 9.81 * dt;
}

static void plank_move(plank *b, double dt, double bounce) {
    b->x += dt * b->vx;
    b->y += dt * b->vy;
    b->angle += dt * b->spin;
    plank_corners(b);

    /* a corner below the floor: lift the plank, and an impulse j that turns the corner's speed
     * around */
    for (int i = 0; i < 4; i++) {
        double arm = b->corner[i][0] - b->x;
        double speed = b->vy + b->spin * arm;
        if (b->corner[i][1] >= 0)
            continue;
        b->y -= b->corner[i][1];
        double j = speed < 0 ? -(1 + bounce) * speed / (1 / b->mass + arm * arm / b->inertia) : 0;
        b->vy += j / b->mass;
        b->spin += arm * j / b->inertia;
        plank_corners(b);
    }
}

/* ---- What the coupling needs of it, and one coupled step: give mass, pose, speed and outline;
 * solve; take the new speed back; move. */
typedef struct pool {
    fsi_grid grid;
    fsi_couple couple;
    fsi_body body;
    fsi_coupled door, *list[1];
    fsi_surface outline;
    fsi_real x[12];
} pool;

static fsi_result pool_step(pool *p, plank *b, double time, double bounce, fsi_report *report) {
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    fsi_real dt = time;
    plank_weight(b, time);

    for (int i = 0; i < 4; i++) {
        p->x[3 * i] = b->corner[i][0];
        p->x[3 * i + 1] = b->corner[i][1];
    }

    p->outline.dim = 2;
    p->outline.vertex_count = p->outline.element_count = 4;
    p->outline.closed = 1;
    p->outline.x = p->x;
    p->outline.index = index;
    p->body.mass = b->mass;
    p->body.inertia.m[8] = b->inertia;
    p->body.centre = fsi_vec(b->x, b->y, 0);
    p->body.velocity = fsi_vec(b->vx, b->vy, 0);
    p->body.spin = fsi_vec(0, 0, b->spin);
    p->list[0] = &p->door;
    fsi_result result;
    if ((result = fsi_body_couple(&p->body, &p->outline, &p->door)) < 0
        || (result = fsi_couple_detect(&p->couple, p->list, 1)) < 0)
        return result;
    if ((result = fsi_grid_advect(&p->grid, dt)) < 0
        || (result = fsi_grid_forces(&p->grid, dt)) < 0)
        return result;
    if ((result = fsi_couple_solve(&p->couple, dt, report)) < 0)
        return result;

    /* an engine that wants forces takes body.impulse and body.twist instead */
    fsi_body_take(&p->body);
    b->vx = p->body.velocity.x;
    b->vy = p->body.velocity.y;
    b->spin = p->body.spin.z;
    if ((result = fsi_grid_extrapolate(&p->grid)) < 0
        || (result = fsi_grid_move_surface(&p->grid, dt, NULL)) < 0)
        return result;
    plank_move(b, time, bounce);
    return result;
}

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - 0.5;
}

int main(int argc, char **argv) {
    static const ex_about about = {
        .name = "own_body",
        .what = "A hand-written rigid body coupled to water.",
        .size = 64,
        .frames = 400,
        .keys =
            {
                EX_NUMBER("density", "", "plank over water", "0.4", 1e-3, 1e3),
                EX_NUMBER("bounce", "", "restitution at the floor", "0.4", 0, 1),
                EX_NUMBER("dt", "s", "time step", "0.01", 1e-4, 0.05),
            },
    };
    static pool p;

    plank b = {0};
    ex_args args;
    int stable = 1;
    double total = 0;
    double depth = 0;
    double late = 0;

    ex_begin(&args, argc, argv, &about);
    double density = ex_number(&args, "density");

    fsi_grid_desc desc = {
        .nx = args.size,
        .ny = args.size,
        .nz = 1,
        .h = 1.0 / args.size,
        .rho = 1000,
        .gravity.y = -9.81,
        .liquid = 1,
        .volume_correction = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    if (fsi_grid_init(&p.grid, &desc) != FSI_OK
        || fsi_couple_init(&p.couple, &p.grid, NULL) != FSI_OK)
        return 1;
    fsi_grid_set_field(&p.grid, FSI_FIELD_PHI, water, NULL);
    fsi_grid_classify(&p.grid);
    b.mass = 1000 * density * 0.4 * 0.2;
    b.inertia = b.mass * (0.4 * 0.4 + 0.2 * 0.2) / 12;
    b.x = 0.5;
    b.y = 0.72;
    b.angle = 0.3;
    plank_corners(&b);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report = {0};
        stable = pool_step(&p, &b, ex_number(&args, "dt"), ex_number(&args, "bounce"), &report) >= 0
                 && fabs(b.vy) < 100;
        total += report.iterations;

        /* water and what the plank displaces fill the tank to share * 0.2 above its bottom */
        double share = (p.grid.stats.liquid_volume - (b.y - 0.1)) / (0.2 - 0.4 * 0.2);

        /* it bobs: mean of the second half */
        if (2 * frame >= args.frames) {
            depth += share < 0 ? 0 : share > 1 ? 1 : share;
            late++;
        }

        if (args.out) {
            ex_image image = ex_image_make(560, 560);
            ex_view view = ex_view_make(0, 0, 1, 1, 20, 20, 520, 520);
            ex_draw_field(&image, &view, p.grid.nx, p.grid.ny, p.grid.phi, 1e8, 2e8, 2);
            ex_draw_liquid(&image, &view, p.grid.nx, p.grid.ny, p.grid.phi, ex_rgb(80, 155, 215));
            ex_draw_surface(&image, &view, &p.outline, ex_rgb(205, 120, 50));
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    ex_result("depth", "%.4f", depth / (late > 0 ? late : 1));
    ex_result("archimedes", "%.4f", density < 1 ? density : 1);
    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    fsi_couple_free(&p.couple);
    fsi_grid_free(&p.grid);
    return ex_end(&args, frame, stable);
}
