/* box_lift: blocks rise or sink in a fluid (Aanjaneya 2018, fig. 5, 6), bodies of a hand-written
   engine: no part of fsi_solids.h is used. The key precond names the solver of the coupled system:
   none and ic work on all unknowns (p, lambda), schur0 .. schur3 are the preconditioners P(s) of
   the paper, the others use multigrid on the fluid alone.

       build/box_lift --size 64 --out out
       build/box_lift --size 64 --set precond=schur1
       build/box_lift --size 64 --set walls=closed            a full box instead of open sides
       build/box_lift --size 64 --set bodies=12 --set density=0.001

   Result: iterations of the solve beside those of the fluid alone, the first acceleration, the
   rise. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

#define MOST 64
static const int32_t quad[8] = {0, 1, 1, 2, 2, 3, 3, 0};
static const int32_t cube[36] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                 2, 3, 7, 2, 7, 6, 1, 2, 6, 1, 6, 5, 3, 0, 4, 3, 4, 7};

typedef struct block {
    fsi_body body; /* what the coupling sees */
    fsi_quat turn;
    fsi_real half, inertia; /* half edge, m; moment of inertia of the cube (square) */
    /* corners and how fast they move: the advection asks, and v* of a light block is far off */
    fsi_real x[24], v[24];
    fsi_surface surface;
    double density;
    fsi_real before; /* v* of the step, m/s */
    fsi_vec3 solved; /* v of the solve, before any bump */
} block;

typedef struct scene {
    fsi_grid grid;
    block block[MOST];
    fsi_coupled door[MOST];
    fsi_coupled *list[MOST];
    int count;
    int dim;
    int open;
    int prescribed;
    uint64_t seed;
    fsi_real g;
} scene;

static void corners(block *b, int dim) {
    for (int i = 0; i < (dim == 3 ? 8 : 4); i++) {
        fsi_vec3 p =
            fsi_vec(i % 4 == 1 || i % 4 == 2 ? b->half : -b->half, i % 4 >= 2 ? b->half : -b->half,
                    dim == 2 ? 0
                    : i >= 4 ? b->half
                             : -b->half);
        p = fsi_quat_rotate(b->turn, p);
        fsi_vec_store(b->x + 3 * i, fsi_vec_add(b->body.centre, p));
        fsi_vec_store(b->v + 3 * i, fsi_vec_add(b->body.velocity, fsi_vec_cross(b->body.spin, p)));
    }
}

static void place(scene *s, int bodies, double density) {
    int per = bodies == 1 ? 1 : bodies <= 12 ? 3 : 5;
    int rows = (bodies + per - 1) / per;
    s->count = bodies;

    for (int k = 0; k < bodies; k++) {
        block *b = s->block + k;
        double mix[3] = {0.1, 1, 10};
        double angle = bodies == 1 ? 0.1 : 0.1 + 0.37 * k;
        b->half = bodies == 1 ? 0.15 : bodies <= 12 ? 0.08 : 0.045;
        b->density = bodies == 1 ? density : density * mix[k % 3];
        double volume = pow(2 * b->half, s->dim);
        b->body.mass = b->density * volume;
        b->inertia = b->body.mass * b->half * b->half * 2.0 / 3.0;
        for (int a = 0; a < 9; a += 4)
            b->body.inertia.m[a] = b->inertia;
        b->body.centre = bodies == 1
                             ? fsi_vec(0.5, 0.5, s->dim == 3 ? 0.5 : 0)
                             : fsi_vec((k % per + 0.5) / per, 0.2 + 1.6 * (k / per + 0.5) / rows,
                                       s->dim == 3 ? (0.3 + 0.4 * (k % 2)) : 0);
        b->turn = fsi_quat_from_rotation(fsi_vec(0, 0, angle));
        b->surface.dim = s->dim;
        b->surface.vertex_count = s->dim == 3 ? 8 : 4;
        b->surface.element_count = s->dim == 3 ? 12 : 4;
        b->surface.closed = 1;
        b->surface.x = b->x;
        b->surface.v = b->v;
        b->surface.index = s->dim == 3 ? cube : quad;
        s->list[k] = s->door + k;
        corners(b, s->dim);
    }
}

/* Explicit forces: weight, less the weight of the fluid where the hydrostatic pressure was taken
 * out. */
static fsi_result begin(void *user, fsi_real dt) {
    scene *s = (scene *)user;
    fsi_result result = FSI_OK;

    for (int k = 0; k < s->count && result >= 0; k++) {
        block *b = s->block + k;
        b->surface.x = b->x;
        b->surface.v = b->v;
        if (s->prescribed)
            b->body.mass = 0;
        else
            b->body.velocity.y -= s->g * dt * (s->open ? 1 - 1 / b->density : 1);
        b->before = b->body.velocity.y;
        result = fsi_body_couple(&b->body, &b->surface, s->door + k);
    }

    return result;
}

/* Round bumpers: two blocks that come near share their velocity along the line between them. */
static void bump(block *a, block *b) {
    fsi_vec3 d = fsi_vec_sub(b->body.centre, a->body.centre);
    fsi_real l = fsi_vec_length(d);
    fsi_real gap = 1.25 * (a->half + b->half) - l;
    fsi_real share = a->body.mass / (a->body.mass + b->body.mass);
    if (!(gap > 0) || !(l > 0))
        return;
    d = fsi_vec_scale(d, 1 / l);
    fsi_real closing = fsi_vec_dot(fsi_vec_sub(a->body.velocity, b->body.velocity), d);
    a->body.centre = fsi_vec_mad(a->body.centre, d, (share - 1) * gap);
    b->body.centre = fsi_vec_mad(b->body.centre, d, share * gap);
    if (!(closing > 0))
        return;
    a->body.velocity = fsi_vec_mad(a->body.velocity, d, (share - 1) * closing);
    b->body.velocity = fsi_vec_mad(b->body.velocity, d, share * closing);
}

/* The integrator of "your own engine": symplectic Euler; a cube's inertia does not turn. Blocks
 * stop at the box. */
static fsi_result move(void *user, fsi_real dt) {
    scene *s = (scene *)user;

    for (int k = 0; k < s->count; k++) {
        block *b = s->block + k;
        fsi_vec3 *x = &b->body.centre;
        fsi_vec3 *v = &b->body.velocity;
        fsi_real r = b->half * 1.5;
        fsi_body_take(&b->body);
        b->solved = *v;
        *x = fsi_vec_mad(*x, *v, dt);
        b->turn = fsi_quat_unit(
            fsi_quat_mul(fsi_quat_from_rotation(fsi_vec_scale(b->body.spin, dt)), b->turn));
        if (x->x < r) {
            x->x = r;
            if (v->x < 0)
                v->x = 0;
        }

        if (x->x > 1 - r) {
            x->x = 1 - r;
            if (v->x > 0)
                v->x = 0;
        }

        if (x->y < r) {
            x->y = r;
            if (v->y < 0)
                v->y = 0;
        }

        if (x->y > 2 - r) {
            x->y = 2 - r;
            if (v->y > 0)
                v->y = 0;
        }

        if (s->dim == 3 && x->z < r) {
            x->z = r;
            if (v->z < 0)
                v->z = 0;
        }

        if (s->dim == 3 && x->z > 1 - r) {
            x->z = 1 - r;
            if (v->z > 0)
                v->z = 0;
        }
    }

    for (int k = 0; k < s->count; k++)
        for (int l = 0; l < k; l++)
            bump(s->block + k, s->block + l);

    for (int k = 0; k < s->count; k++)
        corners(s->block + k, s->dim);
    return FSI_OK;
}

/* The stricter way: a flow that is rough everywhere (random u along y), the same each time a step
 * asks, around blocks that are held (prescribed) or free, at rest before it. */
static fsi_result rough(fsi_couple *fluid, scene *s, const scene *at, int prescribed, fsi_real dt,
                        fsi_report *report) {
    fsi_grid *grid = &s->grid;
    uint64_t seed = s->seed;
    memcpy(s->block, at->block, sizeof s->block);
    s->prescribed = prescribed;

    for (int k = 0; k < s->count; k++)
        s->block[k].body.velocity = s->block[k].body.spin = fsi_vec(0, 0, 0);
    fsi_result result = begin(s, dt);
    if (result >= 0)
        result = fsi_couple_detect(fluid, s->list, s->count);
    if (result < 0)
        return result;

    for (int a = 0; a < s->dim; a++)
        fsi_fill(grid->faces[a], 0, grid->u[a]);

    for (size_t f = 0; f < grid->faces[1]; f++)
        grid->u[1][f] = ((double)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 40)
                             / 16777216.0
                         - 0.5);

    for (int a = 0; a < s->dim; a++)
        if (grid->u_plus[a])
            memcpy(grid->u_plus[a], grid->u[a], grid->faces[a] * sizeof *grid->u[a]);
    if (!prescribed)
        s->seed = seed; /* another flow in the next step */
    return fsi_couple_solve(fluid, dt, report);
}

static void draw(ex_args *args, scene *s) {
    ex_image image = ex_image_make(s->dim == 3 ? 420 : 380, 620);
    if (s->dim == 3) {
        ex_camera camera = ex_camera_make(3.4, 2.2, 4.2, 0.5, 0.95, 0.5, 1, 30);
        double lo[3] = {0, 0, 0};
        double hi[3] = {1, 2, 1};
        for (int k = 0; k < s->count; k++)
            ex_draw_surface3(&image, &camera, &s->block[k].surface, ex_map(0, 0.3 + 0.2 * (k % 3)));
        ex_box3(&image, &camera, lo, hi, ex_rgb(60, 60, 80));
    } else {
        ex_view view = ex_view_make(0, 0, 1, 2, 15, 30, 280, 560);
        for (size_t c = 0; c < s->grid.cells; c++) {
            int i = (int)(c % (size_t)s->grid.nx);
            int j = (int)(c / (size_t)s->grid.nx);
            fsi_vec3 u = fsi_grid_velocity_at(&s->grid, fsi_grid_cell_centre(&s->grid, i, j, 0));
            s->grid.scratch[0][c] = fsi_vec_length(u);
        }

        ex_draw_field(&image, &view, s->grid.nx, s->grid.ny, s->grid.scratch[0], 0, 0.5, 0);
        for (int k = 0; k < s->count; k++)
            ex_draw_surface(&image, &view, &s->block[k].surface, ex_rgb(230, 230, 235));
        ex_colorbar(&image, &view, 0, 0, 0.5, "SPEED M/S");
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "box_lift",
    .what = "Blocks rise in a fluid; every solver of the coupled system.",
    .size = 256,
    .frames = 100,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("bodies", "", "number of blocks", "1", "1 to 64"),
            EX_NUMBER("density", "", "block over fluid (many blocks: times 0.1, 1, 10)", "0.1",
                      "1e-6 to 1e6"),
            EX_WORD("precond", "solver", "deflated",
                    "none,ic,schur0,schur1,schur2,schur3,neumann,woodbury,deflated"),
            EX_NUMBER("budget", "iterations", "cap of the solve, 0 = none", "0", "0 to 1e6"),
            EX_WORD("walls", "the box", "open", "open,closed"),
            EX_WORD("boundary", "form of the solids", "voxel", "voxel,fraction"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-6 to 1"),
            EX_NUMBER("gravity", "m/s^2", "downward", "1", "0 to 100"),
            EX_WORD("alone",
                    "what iterations_fluid counts: same step with the blocks' motion "
                    "prescribed, or held "
                    "blocks in random flow (iterations_random: free ones)",
                    "same", "same,held"),
        },
};

int main(int argc, char **argv) {
    /* as it was before the step; the same blocks with prescribed motion, in a fluid of their own */
    static scene s, before, alone;
    static const char *names[9] = {"none",   "ic",      "schur0",   "schur1",  "schur2",
                                   "schur3", "neumann", "woodbury", "deflated"};

    fsi_couple couple = {0};
    fsi_couple fluid = {0};

    ex_args args;
    int stable = 1;
    int which = 8;
    double total = 0;
    double total_fluid = 0;
    double total_random = 0;
    double acceleration = 0;
    double momentum = 0;

    ex_begin(&args, argc, argv, &about);

    for (int k = 0; k < 9; k++)
        if (ex_is(&args, "precond", names[k]))
            which = k;
    s.dim = ex_whole(&args, "dim");
    s.open = ex_is(&args, "walls", "open");
    s.g = ex_number(&args, "gravity");
    fsi_real dt = ex_number(&args, "dt");
    int strict = ex_is(&args, "alone", "held");
    int n = args.size / 2 > 4 ? args.size / 2 : 4;

    fsi_grid_desc desc = {
        .nx = n,
        .ny = 2 * n,
        .nz = s.dim == 3 ? n : 1,
        .h = 1.0 / n,
        .rho = 1,
        .shells = 1,
        .max_iterations = 20000,
    };

    if (!s.open)
        desc.gravity.y = -s.g;

    for (int k = 0; k < 6; k++)
        desc.side[k].kind = s.open ? FSI_SIDE_OPEN : FSI_SIDE_SLIP;

    fsi_couple_desc cd = {
        .solver = which < 2    ? FSI_COUPLE_FULL
                  : which < 6  ? FSI_COUPLE_SCHUR
                  : which == 6 ? FSI_COUPLE_NEUMANN
                  : which == 7 ? FSI_COUPLE_WOODBURY
                               : FSI_COUPLE_DEFLATED,
        .precondition = which == 0 ? FSI_PRECONDITION_NONE : FSI_PRECONDITION_IC,
        .terms = which - 2,
        .max_iterations = ex_whole(&args, "budget"),
    };

    if (ex_is(&args, "boundary", "fraction"))
        cd.boundary = FSI_BOUNDARY_CUT;
    place(&s, ex_whole(&args, "bodies"), ex_number(&args, "density"));
    if (which < 2 && cd.boundary == FSI_BOUNDARY_CUT) {
        fprintf(stderr, "box_lift: precond none and ic need boundary=voxel\n");
        return 2;
    }

    if (which < 2 || which > 5)
        cd.terms = 0;

    if (fsi_grid_init(&s.grid, &desc) != FSI_OK || fsi_couple_init(&couple, &s.grid, &cd) != FSI_OK)
        return ex_end(&args, 0, 0);
    alone.dim = s.dim;
    place(&alone, s.count, 1);
    alone.prescribed = 1;
    alone.seed = 1;

    if (fsi_grid_init(&alone.grid, &desc) != FSI_OK
        || fsi_couple_init(&fluid, &alone.grid, NULL) != FSI_OK)
        return ex_end(&args, 0, 0);

    fsi_scene same = {
        .solid = alone.list,
        .count = s.count,
        .begin_fn = begin,
        .user = &alone,
    };

    fsi_scene sc = {
        .solid = s.list,
        .count = s.count,
        .begin_fn = begin,
        .move_fn = move,
        .user = &s,
    };

    double y0 = s.block[0].body.centre.y;
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        memcpy(before.block, s.block, sizeof s.block); /* where the blocks are now */
        memcpy(alone.block, s.block, sizeof s.block);
        fsi_report report;
        if (ex_try(fsi_couple_step(&couple, &sc, dt, &report)) < 0)
            stable = 0;
        total += report.iterations;
        for (int k = 0; k < s.count; k++) {
            alone.block[k].body.velocity = s.block[k].solved;
            alone.block[k].body.spin = s.block[k].body.spin;
        }

        if ((strict ? rough(&fluid, &alone, &before, 1, dt, &report)
                    : ex_try(fsi_couple_step(&fluid, &same, dt, &report)))
            < 0)
            stable = 0;
        total_fluid += report.iterations;
        if (strict && rough(&fluid, &alone, &before, 0, dt, &report) < 0)
            stable = 0;
        total_random += strict ? report.iterations : 0;
        if (frame == 0)
            acceleration = s.block[0].solved.y / dt;
        for (int k = 0; k < s.count; k++) {
            double speed = fsi_vec_length(s.block[k].body.velocity);
            double j = s.block[k].body.impulse.y;
            double gained = s.block[k].body.mass * (s.block[k].solved.y - s.block[k].before);
            if (!(speed < 100))
                stable = 0;
            if (fabs(gained - j) > momentum * fabs(j) && fabs(j) > 0)
                momentum = fabs(gained - j) / fabs(j);
        }

        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%.2f", total / (frame > 0 ? frame : 1));
    ex_result("iterations_fluid", "%.2f", total_fluid / (frame > 0 ? frame : 1));
    if (strict)
        ex_result("iterations_random", "%.2f", total_random / (frame > 0 ? frame : 1));
    ex_result("acceleration", "%.6f", acceleration);
    ex_result("rise", "%.6f", s.block[0].body.centre.y - y0);
    ex_result("momentum_error", "%.3g", momentum);
    fsi_couple_free(&couple);
    fsi_couple_free(&fluid);
    fsi_grid_free(&s.grid);
    fsi_grid_free(&alone.grid);
    return ex_end(&args, frame, stable);
}
