/* own_solver: your own solver, here masses on a string of springs in small explicit steps, coupled
   to the grid through the black-box door. cc -O2 -I. -Iexamples examples/own_solver.c -o own_solver
   -lm.  It takes impulses on its masses and says how far they move in this step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    N = 17,
    SMALL = 100
};

typedef struct string {
    double x[N][2], v[N][2], x0[N][2], v0[N][2], mass, spring, dt;
    int regions;
} string;

/* from the same start every time: nothing to save or restore */
static fsi_result string_solve(void *user, const fsi_real *impulse, fsi_real *move) {
    string *c = (string *)user;
    double f[N][2];
    double h = c->dt / SMALL;
    memcpy(c->x, c->x0, sizeof c->x);
    memcpy(c->v, c->v0, sizeof c->v);
    int i;

    for (int s = 0; s < SMALL; s++) {
        /* springs 0.0234 m long, a little damped */
        for (memset(f, 0, sizeof f), i = 0; i + 1 < N; i++) {
            double l = hypot(c->x[i + 1][0] - c->x[i][0], c->x[i + 1][1] - c->x[i][1]);
            for (int k = 0; k < 2; k++) {
                double pull = c->spring * (1 - 0.0234 / l) * (c->x[i + 1][k] - c->x[i][k])
                              + 0.05 * (c->v[i + 1][k] - c->v[i][k]);
                f[i][k] += pull;
                f[i + 1][k] -= pull;
            }
        }

        for (i = 1; i + 1 < N; i++)
            for (int k = 0; k < 2; k++) {
                c->v[i][k] += (h * f[i][k] + impulse[3 * i + k] / SMALL) / c->mass;
                c->x[i][k] += h * c->v[i][k];
            }
    }

    for (i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            move[3 * i + k] = k < 2 ? (c->x[i][k] - c->x0[i][k]) : 0;

    /* pressures of closed regions come back as they are */
    for (i = 3 * N; i < 3 * N + c->regions; i++)
        move[i] = impulse[i];
    return FSI_OK;
}

int main(int argc, char **argv) {
    static const ex_about about = {
        .name = "own_solver",
        .what = "A hand-written spring-mass solver coupled to the grid.",
        .size = 48,
        .frames = 100,
        .keys =
            {
                EX_NUMBER("mass_ratio", "", "string over a layer of smoke two cells thick", "0.5",
                          0.05, 1e3),
                EX_NUMBER("spring", "N/m", "stiffness of a spring", "48", 1, 100),
            },
    };
    fsi_grid grid = {0};

    fsi_interface face = {0};

    fsi_partitioned scheme = {0};

    fsi_coupled *list[1];

    fsi_report report = {0};
    fsi_real load[3 * N + 16];
    fsi_real x[3 * N] = {0};
    fsi_real v[3 * N] = {0};
    fsi_real kg[N] = {0};
    fsi_real move[3 * N + 16] = {0};
    int32_t index[2 * N], node[N];
    string c = {0};
    ex_args args;
    double total = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);

    fsi_grid_desc desc = {
        .nx = args.size,
        .ny = args.size * 3 / 2,
        .nz = 1,
        .h = 1.0 / args.size,
        .rho = 1,
        .smoke = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    fsi_grid_source jet = {
        .lo.x = .375,
        .hi = fsi_vec(.625, 1.01 * desc.h, 0),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE,
        .velocity.y = .5,
        .divergence = .5 / desc.h,
        .density = 1,
    };

    c.dt = desc.h;
    c.mass = ex_number(&args, "mass_ratio") * 2 * c.dt / 48;
    c.spring = ex_number(&args, "spring");

    for (int i = 0; i < N; i++) {
        c.x0[i][0] = 1.0 / 3 + i / 48.0;
        c.x0[i][1] = 0.3 + i * (N - 1 - i) / 3840.0;
        index[2 * i] = node[i] = i;
        index[2 * i + 1] = i + 1;
    }

    fsi_coupled door = {
        .surface.dim = 2,
        .surface.vertex_count = N,
        .surface.element_count = N - 1,
        .surface.x = x,
        .surface.index = index,
        /* where the grid finds it; the masses stay with the solver */
        .dof = 3 * N,
        .v = v,
        .mass = kg,
        .inverse_mass = kg,
        .node = node,
    };

    list[0] = &door;

    fsi_partitioned_desc given = {
        .n = 3 * N + 16,
        .m = 3 * N + 16,
        .group = 3,
        .tolerance = .05 * desc.h,
    };

    fsi_fluid_box fluid = {
        .grid = &grid,
        .face = &face,
        .bpp = 1,
    };

    fsi_blackbox flow = fsi_fluid_box_door(&fluid);

    fsi_blackbox own = {
        .solve_fn = string_solve,
        .user = &c,
    };

    if (fsi_grid_init(&grid, &desc) || fsi_grid_add_source(&grid, &jet)
        || fsi_interface_init(&face, &grid, NULL) || fsi_partitioned_init(&scheme, &given))
        return 1;
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 2; k++) {
                x[3 * i + k] = c.x0[i][k];
                move[3 * i + k] = c.dt * c.v0[i][k];
            }
        stable =
            fsi_interface_detect(&face, &grid, list, 1) >= 0 && fsi_grid_advect(&grid, desc.h) >= 0
            && fsi_grid_forces(&grid, desc.h) >= 0 && fsi_fluid_box_begin(&fluid, desc.h) >= 0 &&
            /* until both agree */
            fluid.n <= given.n && (c.regions = fluid.regions) >= 0
            && fsi_partitioned_step(&scheme, fluid.n, fluid.n, &flow, &own, move, load, &report)
                   >= 0
            &&
            /* the fluid takes it, */
            fsi_fluid_box_finish(&fluid) >= 0 && fsi_grid_extrapolate(&grid) >= 0;

        /* and so does the string */
        memcpy(c.x0, c.x, sizeof c.x);
        memcpy(c.v0, c.v, sizeof c.v);
        for (int i = 0; i < 3 * N; i++)
            x[i] = i % 3 < 2 ? c.x0[i / 3][i % 3] : 0;

        /* smoke it ran over stays on its side */
        stable = stable && fsi_interface_moved(&face, &grid, NULL) >= 0;
        total += report.iterations;
        if (args.out) {
            ex_image image = ex_image_make(420, 560);
            ex_view view = ex_view_make(0, 0, 1, 1.5, 30, 30, 340, 510);
            ex_draw_field(&image, &view, grid.nx, grid.ny, grid.density, 0, 1, 2);
            ex_draw_surface(&image, &view, &door.surface, ex_rgb(200, 60, 30));
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    ex_result("height", "%.5f", c.x0[N / 2][1]);
    fsi_partitioned_free(&scheme);
    fsi_fluid_box_free(&fluid);
    fsi_interface_free(&face);
    fsi_grid_free(&grid);
    return ex_end(&args, frame, stable);
}
