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

enum {
    MOST = 64 /* blocks */
};

/* ------------------------------------------------------------------------------------------------
 * The engine: cubes (in 2D squares) that bump into each other and stop at the box. */
typedef struct block {
    fsi_body body; /* what the coupling sees */
    fsi_quat turn;
    fsi_real half;  /* half an edge, m */
    fsi_real x[24]; /* corners */
    fsi_real v[24]; /* how fast they move: the advection asks */
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
    int open;       /* sides of the box; the hydrostatic pressure is left out then */
    int prescribed; /* the blocks' motion is given */
    uint64_t seed;
    fsi_real gravity;
} scene;

/* The corners of a block as it lies now, and their velocities. */
static void place_corners(block *b, int dim) {
    for (int i = 0; i < b->surface.vertex_count; i++) {
        int right = i % 4 == 1 || i % 4 == 2;
        int upper = i % 4 >= 2;
        int front = i >= 4;
        fsi_vec3 arm;
        arm.x = right ? b->half : -b->half;
        arm.y = upper ? b->half : -b->half;
        arm.z = front ? b->half : -b->half;
        if (dim == 2)
            arm.z = 0;
        arm = fsi_quat_rotate(b->turn, arm);
        fsi_vec3 v = fsi_vec_add(b->body.velocity, fsi_vec_cross(b->body.spin, arm));
        fsi_vec_store(b->x + 3 * i, fsi_vec_add(b->body.centre, arm));
        fsi_vec_store(b->v + 3 * i, v);
    }
}

/* Edges of a square, triangles of a cube. */
static void make_surface(block *b, int dim) {
    static const int32_t square[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    static const int32_t cube[36] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                     2, 3, 7, 2, 7, 6, 1, 2, 6, 1, 6, 5, 3, 0, 4, 3, 4, 7};
    b->surface = (fsi_surface){
        .dim = dim,
        .vertex_count = dim == 3 ? 8 : 4,
        .element_count = dim == 3 ? 12 : 4,
        .closed = 1,
        .x = b->x,
        .v = b->v,
        .index = dim == 3 ? cube : square,
    };
}

/* Sets mass and inertia. A cube's inertia is the same about every axis. */
static void weigh(block *b, int dim) {
    b->body.mass = b->density * pow(2 * b->half, dim);
    fsi_real inertia = b->body.mass * b->half * b->half * 2.0 / 3.0;
    for (int axis = 0; axis < 3; axis++)
        b->body.inertia.m[4 * axis] = inertia;
}

/* One block in the lower middle, tilted a little. */
static void place_one(scene *s, double density) {
    block *b = s->block;
    b->half = 0.15;
    b->density = density;
    b->body.centre = fsi_vec(0.5, 0.5, s->dim == 3 ? 0.5 : 0);
    b->turn = fsi_quat_from_rotation(fsi_vec(0, 0, 0.1));
}

/* Rows of smaller blocks, by turns a tenth, once and ten times as dense, each turned its own way.
 */
static void place_many(scene *s, double density) {
    static const double mix[3] = {0.1, 1, 10};
    int per_row = s->count <= 12 ? 3 : 5;
    int rows = (s->count + per_row - 1) / per_row;
    for (int k = 0; k < s->count; k++) {
        block *b = s->block + k;
        double depth = 0.3 + 0.4 * (k % 2);
        b->half = s->count <= 12 ? 0.08 : 0.045;
        b->density = density * mix[k % 3];
        b->body.centre.x = (k % per_row + 0.5) / per_row;
        b->body.centre.y = 0.2 + 1.6 * (k / per_row + 0.5) / rows;
        b->body.centre.z = s->dim == 3 ? depth : 0;
        b->turn = fsi_quat_from_rotation(fsi_vec(0, 0, 0.1 + 0.37 * k));
    }
}

static void place(scene *s, int count, double density) {
    s->count = count;
    if (count == 1)
        place_one(s, density);
    else
        place_many(s, density);
    for (int k = 0; k < count; k++) {
        weigh(s->block + k, s->dim);
        make_surface(s->block + k, s->dim);
        place_corners(s->block + k, s->dim);
        s->list[k] = s->door + k;
    }
}

/* First stage of a step: weight, less that of the fluid where the hydrostatic pressure is left
   out; then every block goes through its door. A block without mass moves as prescribed. */
static fsi_result begin(fsi_real dt, void *user) {
    scene *s = (scene *)user;
    for (int k = 0; k < s->count; k++) {
        block *b = s->block + k;
        fsi_real pull = s->gravity * dt;
        if (s->open)
            pull *= 1 - 1 / b->density;
        if (s->prescribed)
            b->body.mass = 0;
        else
            b->body.velocity.y -= pull;
        b->before = b->body.velocity.y;
        b->surface.x = b->x;
        b->surface.v = b->v;
        fsi_result result = fsi_body_couple(&b->body, &b->surface, s->door + k);
        if (result < 0)
            return result;
    }

    return FSI_OK;
}

/* Round bumpers: two blocks that come near share their velocity along the line between them. */
static void bump(block *a, block *b) {
    fsi_vec3 between = fsi_vec_sub(b->body.centre, a->body.centre);
    fsi_real distance = fsi_vec_length(between);
    fsi_real overlap = 1.25 * (a->half + b->half) - distance;
    fsi_real share = a->body.mass / (a->body.mass + b->body.mass);
    if (!(overlap > 0) || !(distance > 0))
        return;
    fsi_vec3 dir = fsi_vec_scale(between, 1 / distance);
    a->body.centre = fsi_vec_mad(a->body.centre, dir, (share - 1) * overlap);
    b->body.centre = fsi_vec_mad(b->body.centre, dir, share * overlap);

    fsi_real closing = fsi_vec_dot(fsi_vec_sub(a->body.velocity, b->body.velocity), dir);
    if (!(closing > 0))
        return;
    a->body.velocity = fsi_vec_mad(a->body.velocity, dir, (share - 1) * closing);
    b->body.velocity = fsi_vec_mad(b->body.velocity, dir, share * closing);
}

/* One coordinate between two walls: past one it stops there. */
static void stop_between(fsi_real lowest, fsi_real highest, fsi_real *x, fsi_real *v) {
    if (*x < lowest) {
        *x = lowest;
        *v = fmax(*v, 0);
    }
    if (*x > highest) {
        *x = highest;
        *v = fmin(*v, 0);
    }
}

/* Symplectic Euler, then the walls of the box, 1 m x 2 m (x 1 m). */
static void move_block(block *b, int dim, fsi_real dt) {
    fsi_vec3 *x = &b->body.centre;
    fsi_vec3 *v = &b->body.velocity;
    *x = fsi_vec_mad(*x, *v, dt);
    fsi_quat turn = fsi_quat_from_rotation(fsi_vec_scale(b->body.spin, dt));
    b->turn = fsi_quat_unit(fsi_quat_mul(turn, b->turn));

    fsi_real radius = b->half * 1.5;
    stop_between(radius, 1 - radius, &x->x, &v->x);
    stop_between(radius, 2 - radius, &x->y, &v->y);
    if (dim == 3)
        stop_between(radius, 1 - radius, &x->z, &v->z);
}

/* Last stage of a step: the blocks take what the solve says, move and bump. */
static fsi_result move(fsi_real dt, void *user) {
    scene *s = (scene *)user;
    for (int k = 0; k < s->count; k++) {
        block *b = s->block + k;
        fsi_body_take(&b->body);
        b->solved = b->body.velocity;
        move_block(b, s->dim, dt);
    }
    for (int k = 0; k < s->count; k++)
        for (int l = 0; l < k; l++)
            bump(s->block + k, s->block + l);
    for (int k = 0; k < s->count; k++)
        place_corners(s->block + k, s->dim);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * The solvers. */
/* Solver and preconditioner by the word of the key precond. */
static void choose_solver(fsi_couple_desc *desc, const ex_args *args) {
    const char *word = ex_word(args, "precond");
    int schur = !strncmp(word, "schur", 5);
    desc->precondition = FSI_PRECONDITION_IC;
    desc->solver = FSI_COUPLE_DEFLATED;
    if (!strcmp(word, "none"))
        desc->precondition = FSI_PRECONDITION_NONE;
    if (!strcmp(word, "none") || !strcmp(word, "ic"))
        desc->solver = FSI_COUPLE_FULL;
    if (!strcmp(word, "neumann"))
        desc->solver = FSI_COUPLE_NEUMANN;
    if (!strcmp(word, "woodbury"))
        desc->solver = FSI_COUPLE_WOODBURY;
    if (schur) {
        desc->solver = FSI_COUPLE_SCHUR;
        desc->terms = word[5] - '0';
    }
    desc->max_iterations = ex_whole(args, "budget");
}

/* A box of fluid, n x 2 n (x n) cells. Open on all sides, or full and closed with gravity. */
static fsi_grid_desc box_of(const scene *s, int size) {
    int n = size / 2 > 4 ? size / 2 : 4;
    fsi_grid_desc desc = {
        .nx = n,
        .ny = 2 * n,
        .nz = s->dim == 3 ? n : 1,
        .h = 1.0 / n,
        .rho = 1,
        .shells = 1,
        .max_iterations = 20000,
    };
    if (!s->open)
        desc.gravity.y = -s->gravity;
    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        desc.side[side].kind = s->open ? FSI_SIDE_OPEN : FSI_SIDE_SLIP;
    return desc;
}

/* A number from -0.5 to 0.5 (linear congruential generator). */
static double random_number(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 40) / 16777216.0 - 0.5;
}

/* A flow that is rough everywhere: random velocities along y. Returns the seed for another one. */
static uint64_t make_rough(fsi_grid *grid, uint64_t seed) {
    for (int axis = 0; axis < grid->dim; axis++)
        fsi_fill(grid->faces[axis], 0, grid->u[axis]);
    for (size_t face = 0; face < grid->faces[1]; face++)
        grid->u[1][face] = random_number(&seed);

    /* Shells have a second velocity on faces they cut. */
    for (int axis = 0; axis < grid->dim; axis++) {
        size_t bytes = grid->faces[axis] * sizeof *grid->u[axis];
        if (grid->u_plus[axis])
            memcpy(grid->u_plus[axis], grid->u[axis], bytes);
    }
    return seed;
}

/* The stricter comparison: one solve in a rough flow around blocks at rest, held (prescribed) or
   free. The flow is the same for both. */
static void solve_rough(fsi_couple *fluid, scene *s, const scene *at, int prescribed, fsi_real dt,
                        fsi_report *report) {
    memcpy(s->block, at->block, sizeof s->block);
    s->prescribed = prescribed;
    for (int k = 0; k < s->count; k++) {
        s->block[k].body.velocity = fsi_vec(0, 0, 0);
        s->block[k].body.spin = fsi_vec(0, 0, 0);
    }
    ex_try(begin(dt, s));
    ex_try(fsi_couple_detect(fluid, s->list, s->count));
    if (!ex_fine())
        return;
    uint64_t seed = make_rough(&s->grid, s->seed);
    if (!prescribed)
        s->seed = seed;
    ex_try(fsi_couple_solve(fluid, dt, report));
}

/* Largest relative difference between the momentum a block gained and the impulse it was given. */
static double momentum_error(const scene *s) {
    double worst = 0;
    for (int k = 0; k < s->count; k++) {
        const block *b = s->block + k;
        double given = b->body.impulse.y;
        double gained = b->body.mass * (b->solved.y - b->before);
        if (fabs(given) > 0)
            worst = fmax(worst, fabs(gained - given) / fabs(given));
    }
    return worst;
}

/* ---- pictures: blocks, in 2D with the speed of the fluid */
static void draw2(ex_image *image, scene *s) {
    fsi_grid *grid = &s->grid;
    fsi_real *speed = grid->scalar_work;
    ex_view view = ex_view_make(0, 0, 1, 2, 15, 30, 280, 560);
    for (int j = 0; j < grid->ny; j++)
        for (int i = 0; i < grid->nx; i++) {
            fsi_vec3 u = fsi_grid_velocity_at(grid, fsi_grid_cell_centre(grid, i, j, 0));
            speed[i + grid->nx * j] = fsi_vec_length(u);
        }
    ex_draw_field(image, &view, grid->nx, grid->ny, speed, 0, 0.5, 0);
    for (int k = 0; k < s->count; k++)
        ex_draw_surface(image, &view, &s->block[k].surface, ex_rgb(230, 230, 235));
    ex_colorbar(image, &view, 0, 0, 0.5, "SPEED M/S");
}

static void draw3(ex_image *image, const scene *s) {
    ex_camera camera = ex_camera_make(3.4, 2.2, 4.2, 0.5, 0.95, 0.5, 1, 30);
    double lo[3] = {0, 0, 0};
    double hi[3] = {1, 2, 1};
    for (int k = 0; k < s->count; k++)
        ex_draw_surface3(image, &camera, &s->block[k].surface, ex_map(0, 0.3 + 0.2 * (k % 3)));
    ex_box3(image, &camera, lo, hi, ex_rgb(60, 60, 80));
}

static void draw(ex_args *args, scene *s) {
    ex_image image = ex_image_make(s->dim == 3 ? 420 : 380, 620);
    if (s->dim == 3)
        draw3(&image, s);
    else
        draw2(&image, s);
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
            EX_WORD("boundary",
                    "form of the solids; cut: the paper's none, ic and schur have voxels", "cut",
                    "cut,voxel,fraction"),
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
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    fsi_real dt = ex_number(&args, "dt");
    int strict = ex_is(&args, "alone", "held");

    /* The blocks in their fluid. */
    static scene s;
    s.dim = ex_whole(&args, "dim");
    s.open = ex_is(&args, "walls", "open");
    s.gravity = ex_number(&args, "gravity");
    place(&s, ex_whole(&args, "bodies"), ex_number(&args, "density"));

    fsi_grid_desc box = box_of(&s, args.size);
    fsi_couple_desc desc = {0};
    choose_solver(&desc, &args);
    if (ex_is(&args, "boundary", "voxel"))
        desc.boundary = FSI_BOUNDARY_VOXEL;
    if (ex_is(&args, "boundary", "fraction"))
        desc.boundary = FSI_BOUNDARY_CUT;
    if (desc.solver == FSI_COUPLE_FULL && desc.boundary == FSI_BOUNDARY_CUT)
        ex_die("box_lift: precond none and ic have no cut cells");

    /* The same blocks with prescribed motion, in a fluid of their own. */
    static scene alone;
    alone.dim = s.dim;
    alone.prescribed = 1;
    alone.seed = 1;
    place(&alone, s.count, 1);

    static fsi_couple couple;
    static fsi_couple fluid;
    ex_try(fsi_grid_init(&s.grid, &box));
    ex_try(fsi_couple_init(&couple, &s.grid, &desc));
    ex_try(fsi_grid_init(&alone.grid, &box));
    fsi_couple_desc same = {.boundary = couple.desc.boundary};
    ex_try(fsi_couple_init(&fluid, &alone.grid, &same));
    if (!ex_fine())
        return ex_end(&args, 0, 0);

    fsi_scene free_blocks = {
        .solid = s.list,
        .count = s.count,
        .stages = {.begin_fn = begin, .move_fn = move, .user = &s},
    };
    fsi_scene prescribed_blocks = {
        .solid = alone.list,
        .count = s.count,
        .stages = {.begin_fn = begin, .user = &alone},
    };

    double start = s.block[0].body.centre.y;
    double iterations = 0;
    double iterations_fluid = 0;
    double iterations_random = 0;
    double acceleration = 0;
    double momentum = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        static scene before;
        memcpy(before.block, s.block, sizeof s.block);
        memcpy(alone.block, s.block, sizeof s.block);

        fsi_report report = {0};
        ex_try(fsi_couple_step(&couple, &free_blocks, dt, &report));
        iterations += report.iterations;

        /* What the fluid alone takes: the same motion prescribed, or a rough flow. */
        for (int k = 0; k < s.count; k++) {
            alone.block[k].body.velocity = s.block[k].solved;
            alone.block[k].body.spin = s.block[k].body.spin;
        }
        if (strict)
            solve_rough(&fluid, &alone, &before, 1, dt, &report);
        else
            ex_try(fsi_couple_step(&fluid, &prescribed_blocks, dt, &report));
        iterations_fluid += report.iterations;
        if (strict) {
            solve_rough(&fluid, &alone, &before, 0, dt, &report);
            iterations_random += report.iterations;
        }

        if (frame == 0)
            acceleration = s.block[0].solved.y / dt;
        momentum = fmax(momentum, momentum_error(&s));
        for (int k = 0; k < s.count; k++)
            ex_check_speed(fsi_vec_length(s.block[k].body.velocity), 100);
        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    double frames = frame > 0 ? frame : 1;
    ex_result("iterations", "%.2f", iterations / frames);
    ex_result("iterations_fluid", "%.2f", iterations_fluid / frames);
    if (strict)
        ex_result("iterations_random", "%.2f", iterations_random / frames);
    ex_result("acceleration", "%.6f", acceleration);
    ex_result("rise", "%.6f", s.block[0].body.centre.y - start);
    ex_result("momentum_error", "%.3g", momentum);
    fsi_couple_free(&couple);
    fsi_couple_free(&fluid);
    fsi_grid_free(&s.grid);
    fsi_grid_free(&alone.grid);
    return ex_end(&args, frame, ex_fine());
}
