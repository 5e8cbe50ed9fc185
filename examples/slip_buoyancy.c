/* slip_buoyancy: disks of different density in water, slip above no-slip (Robinson-Mosher et al.
   2009, fig. 10): the light one rises, the heavy one sinks, the third hangs. The first
   acceleration is compared with Archimedes and added mass, g (1 - r) / (1 + r) in an unbounded
   fluid.

       build/slip_buoyancy --out out

   Result: first acceleration of each disk beside the expected one, and how far each went. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    DISKS = 3,
    ROUND = 120 /* corners of a disk */
};

static const double radius = 0.1, gravity = 9.81, pi = 3.14159265358979323846;

typedef struct tank {
    fsi_grid grid;
    fsi_slip slip;
    fsi_real coefficient[DISKS]; /* 1: slip, 0: no-slip */
    fsi_body body[DISKS];
    fsi_surface surface[DISKS];
    fsi_real x[DISKS][3 * ROUND];
    int32_t index[2 * ROUND];
    fsi_coupled door[DISKS];
    fsi_coupled *list[DISKS];
    fsi_scene scene;
    double acceleration[DISKS]; /* of the first step, m/s^2 */
    int moved;
} tank;

/* The corners of a disk around its centre. */
static void place_corners(fsi_vec3 centre, fsi_real *x) {
    for (int i = 0; i < ROUND; i++) {
        double angle = 2 * pi * i / ROUND;
        x[3 * i] = centre.x + radius * cos(angle);
        x[3 * i + 1] = centre.y + radius * sin(angle);
    }
}

/* First stage of a step: weight; then every disk goes through its door. */
static fsi_result begin(fsi_real dt, void *user) {
    tank *t = (tank *)user;
    for (int b = 0; b < DISKS; b++) {
        fsi_body *body = &t->body[b];
        body->velocity.y -= gravity * dt;
        place_corners(body->centre, t->x[b]);
        fsi_result result = fsi_body_couple(body, &t->surface[b], &t->door[b]);
        if (result < 0)
            return result;
    }
    return FSI_OK;
}

/* Last stage: the disks take their velocities and move; floor and lid stop them. */
static fsi_result move(fsi_real dt, void *user) {
    tank *t = (tank *)user;
    for (int b = 0; b < DISKS; b++) {
        fsi_body *body = &t->body[b];
        fsi_body_take(body);
        if (!t->moved)
            t->acceleration[b] = body->velocity.y / dt;

        int on_floor = body->centre.y < 0.12 && body->velocity.y < 0;
        int at_lid = body->centre.y > 0.88 && body->velocity.y > 0;
        if (on_floor || at_lid)
            body->velocity.y = 0;
        body->centre = fsi_vec_mad(body->centre, body->velocity, dt);
    }
    t->moved = 1;
    return FSI_OK;
}

/* Disk number b of the row, with its mass and its outline. */
static void make_disk(tank *t, int b, double density) {
    fsi_body *body = &t->body[b];
    body->mass = density * 1000 * pi * radius * radius;
    for (int axis = 0; axis < 3; axis++)
        body->inertia.m[4 * axis] = body->mass * radius * radius / 2;
    body->centre = fsi_vec(0.3 + 0.45 * b, 0.5, 0);
    t->surface[b] = (fsi_surface){
        .dim = 2,
        .closed = 1,
        .vertex_count = ROUND,
        .element_count = ROUND,
        .x = t->x[b],
        .index = t->index,
    };
    t->list[b] = &t->door[b];
}

/* A closed box of 1.5 m x 1 m, full of water, with the disks in its middle. */
static void make_tank(tank *t, int size, const double *density, double coefficient) {
    for (int i = 0; i < ROUND; i++) {
        t->index[2 * i] = i;
        t->index[2 * i + 1] = (i + 1) % ROUND;
    }
    for (int b = 0; b < DISKS; b++) {
        make_disk(t, b, density[b]);
        t->coefficient[b] = coefficient;
    }

    fsi_grid_desc desc = {
        .nx = size,
        .ny = size * 2 / 3,
        .nz = 1,
        .h = 1.5 / size,
        .rho = 1000,
        .gravity = fsi_vec(0, -gravity, 0),
        .shells = 1,
    };
    fsi_slip_desc walls = {
        .passes = 3,
        .coefficient = t->coefficient,
    };
    ex_need(fsi_grid_init(&t->grid, &desc));
    ex_need(fsi_slip_init(&t->slip, &t->grid, &walls));
    t->scene = (fsi_scene){
        .solid = t->list,
        .count = DISKS,
        .stages = {.begin_fn = begin, .move_fn = move, .user = t},
    };
}

/* ---- pictures */
static void draw_tank(const tank *t, ex_image *image, int wall) {
    const fsi_grid *grid = &t->grid;
    ex_view view = ex_view_make(0, 0, 1.5, 1, 20, 26 + wall * 372, 510, 340);
    fsi_real *speed = ex_alloc(grid->cells, sizeof *speed);
    for (int j = 0; j < grid->ny; j++)
        for (int i = 0; i < grid->nx; i++) {
            fsi_vec3 u = fsi_grid_velocity_at(grid, fsi_grid_cell_centre(grid, i, j, 0));
            speed[i + grid->nx * j] = fsi_vec_length(u);
        }
    ex_draw_field(image, &view, grid->nx, grid->ny, speed, 0, 1, EX_HEAT);
    free(speed);

    for (int b = 0; b < DISKS; b++) {
        double x = ex_px(&view, t->body[b].centre.x);
        double y = ex_py(&view, t->body[b].centre.y);
        ex_disk(image, x, y, radius * 340, ex_map(EX_SMOKE, 0.15 + 0.35 * b));
    }
    ex_text(image, view.left, view.top - 18, 2, ex_grey(20), wall == NOSLIP ? "NO-SLIP" : "SLIP");
    ex_colorbar(image, &view, EX_HEAT, 0, 1, "SPEED");
}

static void draw(ex_args *args, const tank *t) {
    ex_image image = ex_image_make(620, 760);
    draw_tank(&t[SLIP], &image, SLIP);
    draw_tank(&t[NOSLIP], &image, NOSLIP);
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* One result line of a disk: its key and number. */
static void disk_result(const char *key, int disk, double value) {
    char name[32];
    snprintf(name, sizeof name, "%s_%d", key, disk);
    ex_result(name, "%.4f", value);
}

static const ex_about about = {
    .name = "slip_buoyancy",
    .what = "Disks of different density in water, slip above no-slip.",
    .size = 96,
    .frames = 90,
    .keys =
        {
            EX_NUMBER("density", "", "of the three disks over the water's", "0.3,1,3",
                      "0.01 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-4 to 0.05"),
            EX_WORD("wall", "of the disks", "both", "both,slip,noslip"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    double density[DISKS] = {1, 1, 1};
    ex_list(&args, "density", density, DISKS);

    static tank t[WALLS];
    make_tank(&t[SLIP], args.size, density, 1);
    make_tank(&t[NOSLIP], args.size, density, 0);

    double iterations = 0;
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS && ex_fine(); wall++) {
            if (!wall_runs(&args, wall))
                continue;
            fsi_report report = {0};
            ex_try(fsi_slip_step(&t[wall].slip, &t[wall].scene, dt, &report));
            iterations += report.iterations;
            steps++;
        }
        if (args.out && frame % 3 == 2)
            draw(&args, t);
        ex_progress(&args, frame);
    }

    /* The plain keys are those of slip, or of no-slip when it runs alone. */
    const tank *shown = &t[ex_is(&args, "wall", "noslip") ? NOSLIP : SLIP];
    for (int b = 0; b < DISKS; b++) {
        disk_result("rise", b, shown->body[b].centre.y - 0.5);
        disk_result("rise_noslip", b, t[NOSLIP].body[b].centre.y - 0.5);
        disk_result("acceleration", b, shown->acceleration[b] / gravity);
        disk_result("unbounded", b, (1 - density[b]) / (1 + density[b]));
    }
    ex_result("iterations", "%.2f", iterations / (double)(steps > 0 ? steps : 1));
    ex_result("leak", "%.3e", fsi_slip_max_divergence(&shown->slip) * shown->grid.h);

    for (int wall = SLIP; wall < WALLS; wall++) {
        fsi_slip_free(&t[wall].slip);
        fsi_grid_free(&t[wall].grid);
    }
    return ex_end(&args, steps, ex_fine());
}
