/* slip_buoyancy: disks of different density in water, slip above no-slip (Robinson-Mosher et al.
   2009, fig. 10): the light one rises, the heavy one sinks, the third hangs. The first
   acceleration is compared with Archimedes and added mass, g (1 - r) / (1 + r) in an unbounded
   fluid.

       build/slip_buoyancy --out out

   Result: first acceleration of each disk beside the expected one, and how far each went. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    BODIES = 3,
    ROUND = 120
};

static const double radius = 0.1;

typedef struct tank {
    fsi_grid grid;
    fsi_slip slip;
    fsi_body body[BODIES];
    fsi_coupled door[BODIES];
    fsi_coupled *list[BODIES];
    fsi_surface surface[BODIES];
    fsi_scene scene;
    fsi_real x[BODIES][3 * ROUND];
    int32_t index[2 * ROUND];
    double first[BODIES];
    double begin[BODIES];
    fsi_real coefficient[BODIES];
    int taken;
} tank;

static fsi_result begin(void *user, fsi_real dt) {
    tank *t = (tank *)user;

    for (int b = 0; b < BODIES; b++) {
        fsi_body *body = &t->body[b];
        body->velocity.y -= 9.81 * dt;
        for (int i = 0; i < ROUND; i++) {
            double a = 2 * acos(-1) * i / ROUND;
            t->x[b][3 * i] = body->centre.x + (radius * cos(a));
            t->x[b][3 * i + 1] = body->centre.y + (radius * sin(a));
        }

        if (fsi_body_couple(body, &t->surface[b], &t->door[b]) != FSI_OK)
            return FSI_ERR_ARGUMENT;
    }

    return FSI_OK;
}

static fsi_result move(void *user, fsi_real dt) {
    tank *t = (tank *)user;

    for (int b = 0; b < BODIES; b++) {
        fsi_body *body = &t->body[b];
        fsi_body_take(body);
        if (!t->taken)
            t->first[b] = body->velocity.y / dt;

        /* floor and lid */
        if ((body->centre.y < 0.12 && body->velocity.y < 0)
            || (body->centre.y > 0.88 && body->velocity.y > 0))
            body->velocity.y = 0;
        body->centre = fsi_vec_mad(body->centre, body->velocity, dt);
    }

    t->taken = 1;
    return FSI_OK;
}

static int make(tank *t, int size, const double *density, double coefficient) {
    fsi_grid_desc desc = {
        .nx = size,
        .ny = size * 2 / 3,
        .nz = 1,
        .h = 1.5 / size,
        .rho = 1000,
        .gravity.y = -9.81,
        .shells = 1,
    };

    fsi_slip_desc given = {
        .passes = 3,
        .coefficient = t->coefficient,
    };

    for (int i = 0; i < ROUND; i++) {
        t->index[2 * i] = i;
        t->index[2 * i + 1] = (i + 1) % ROUND;
    }

    for (int b = 0; b < BODIES; b++) {
        double m = density[b] * 1000 * acos(-1) * radius * radius;
        fsi_body *body = &t->body[b];
        body->mass = m;
        body->inertia.m[0] = body->inertia.m[4] = body->inertia.m[8] = m * radius * radius / 2;
        body->centre = fsi_vec(0.3 + 0.45 * b, 0.5, 0);
        t->surface[b].dim = 2;
        t->surface[b].closed = 1;
        t->surface[b].vertex_count = t->surface[b].element_count = ROUND;
        t->surface[b].x = t->x[b];
        t->surface[b].index = t->index;
        t->list[b] = &t->door[b];
        t->begin[b] = 0.5;
        t->coefficient[b] = coefficient;
    }

    t->scene.solid = t->list;
    t->scene.count = BODIES;
    t->scene.begin_fn = begin;
    t->scene.move_fn = move;
    t->scene.user = t;
    return fsi_grid_init(&t->grid, &desc) == FSI_OK
           && fsi_slip_init(&t->slip, &t->grid, &given) == FSI_OK;
}

static void draw(const tank *t, ex_image *image, int row) {
    ex_view view = ex_view_make(0, 0, 1.5, 1, 20, 26 + row * 372, 510, 340);
    fsi_real *speed = (fsi_real *)calloc(t->grid.cells, sizeof *speed);

    for (size_t c = 0; speed && c < t->grid.cells; c++)
        speed[c] = fsi_vec_length(fsi_grid_velocity_at(
            &t->grid, fsi_grid_cell_centre(&t->grid, (int)(c % (size_t)t->grid.nx),
                                           (int)(c / (size_t)t->grid.nx), 0)));
    if (speed)
        ex_draw_field(image, &view, t->grid.nx, t->grid.ny, speed, 0, 1, 0);

    for (int b = 0; b < BODIES; b++)
        ex_disk(image, ex_px(&view, t->body[b].centre.x), ex_py(&view, t->body[b].centre.y),
                radius * 340, ex_map(2, 0.15 + 0.35 * b));
    ex_text(image, view.left, view.top - 18, 2, ex_grey(20), row ? "NO-SLIP" : "SLIP");
    ex_colorbar(image, &view, 0, 0, 1, "SPEED");
    free(speed);
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
    static tank t[2];
    ex_args args;
    double density[BODIES] = {1, 1, 1};
    double its = 0;
    int frame = 0;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    ex_list(&args, "density", density, BODIES);

    /* whose results have the plain names */
    int main_one = ex_is(&args, "wall", "noslip");
    int stable = make(&t[0], args.size, density, 1) && make(&t[1], args.size, density, 0);

    for (; frame < args.frames && stable; frame++) {
        for (int w = 0; w < 2 && stable; w++) {
            fsi_report report = {0};
            if (ex_is(&args, "wall", w ? "slip" : "noslip"))
                continue;
            stable = ex_try(fsi_slip_step(&t[w].slip, &t[w].scene, ex_number(&args, "dt"), &report))
                     >= 0;
            its += report.iterations;
            steps++;
        }

        if (args.out && frame % 3 == 2) {
            ex_image image = ex_image_make(620, 760);
            for (int w = 0; w < 2; w++)
                draw(&t[w], &image, w);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int b = 0; b < BODIES; b++) {
        char key[32];
        snprintf(key, sizeof key, "rise_%d", b);
        ex_result(key, "%.4f", t[main_one].body[b].centre.y - t[main_one].begin[b]);
        snprintf(key, sizeof key, "rise_noslip_%d", b);
        ex_result(key, "%.4f", t[1].body[b].centre.y - t[1].begin[b]);
        snprintf(key, sizeof key, "acceleration_%d", b);
        ex_result(key, "%.4f", t[main_one].first[b] / 9.81);
        snprintf(key, sizeof key, "unbounded_%d", b);
        ex_result(key, "%.4f", (1 - density[b]) / (1 + density[b]));
    }

    ex_result("iterations", "%.2f", its / (double)(steps > 0 ? steps : 1));
    ex_result("leak", "%.3e", fsi_slip_max_divergence(&t[main_one].slip) * t[main_one].grid.h);

    for (int w = 0; w < 2; w++) {
        fsi_slip_free(&t[w].slip);
        fsi_grid_free(&t[w].grid);
    }

    return ex_end(&args, steps, stable);
}
