/* many_bodies: what a number of free bodies costs the coupled solve, beside the same bodies held.

       build/many_bodies --set bodies=200
       build/many_bodies --set bodies=1000 --set dim=3 --set density=0.0001
       build/many_bodies --set bodies=500 --set touching=1 --set boundary=voxel
       build/many_bodies --set bodies=160 --set solver=deflated

   Boxes stand on a lattice in a full, closed tank of 1 m, each turned its own way; touching ones
   all by the same angle, edge against edge with pockets of water between them. Gravity acts, and
   every box begins with a velocity of its own. The tank has --size cells along an edge, 256 unless
   told (in 3D 96).

   Result: iterations of the solve; those with the boxes held, where the fluid is alone; and the
   processor time of the first over that of the second, each the shortest of --frames solves that
   take turns. A solve begins with finding the boxes' wet sides and ends with their velocities. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double DT = 0.01, GRAVITY = 9.81;

typedef struct box {
    fsi_body body;
    fsi_quat turn;
    fsi_real half;  /* of an edge, m */
    fsi_real x[24]; /* corners */
} box;

typedef struct crowd {
    int dim, count, touching;
    double density; /* over the fluid's; 0: held */
    box *box;
    fsi_coupled *door;
    fsi_coupled **list;
} crowd;

/* The corners as fsi_surface wants them. */
static fsi_surface surface_of(box *b, int dim) {
    static const int32_t square[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    static const int32_t cube[36] = {0, 2, 1, 0, 3, 2, 4, 5, 6, 4, 6, 7, 0, 1, 5, 0, 5, 4,
                                     2, 3, 7, 2, 7, 6, 1, 2, 6, 1, 6, 5, 3, 0, 4, 3, 4, 7};
    fsi_surface surface = {
        .dim = dim,
        .vertex_count = dim == 3 ? 8 : 4,
        .element_count = dim == 3 ? 12 : 4,
        .closed = 1,
        .x = b->x,
        .index = dim == 3 ? cube : square,
    };
    for (int i = 0; i < surface.vertex_count; i++) {
        fsi_real x = i % 4 == 1 || i % 4 == 2 ? b->half : -b->half;
        fsi_real y = i % 4 >= 2 ? b->half : -b->half;
        fsi_real z = dim == 2 ? 0 : i >= 4 ? b->half : -b->half;
        fsi_vec3 arm = fsi_quat_rotate(b->turn, fsi_vec(x, y, z));
        fsi_vec_store(b->x + 3 * i, fsi_vec_add(b->body.centre, arm));
    }
    return surface;
}

/* Place k of the smallest lattice that has room for all; that of touching boxes ends a little
   before the walls. */
static void stand(crowd *c, int k) {
    box *b = c->box + k;
    int per = 1;
    while (pow(per, c->dim) < c->count)
        per++;
    double margin = c->touching ? 0.06 : 0;
    double spacing = (1 - 2 * margin) / per;
    double at[3] = {0, 0, 0};
    for (int axis = 0, rest = k; axis < c->dim; axis++, rest /= per)
        at[axis] = margin + spacing * (rest % per + 0.5);
    b->body.centre = fsi_vec(at[0], at[1], at[2]);

    /* Boxes turned by the same angle touch when their edges are the spacing's cosine. */
    double angle = c->touching ? 0.2 : 0.1 + 0.37 * k;
    double tilt = c->touching || c->dim == 2 ? 0 : 0.23 * k;
    b->half = c->touching ? spacing * cos(angle) / 2 : 0.28 * spacing;
    b->turn = fsi_quat_from_rotation(fsi_vec(tilt, 0, angle));
}

/* All doors with their v* of this step. */
static void begin(crowd *c) {
    for (int k = 0; k < c->count; k++) {
        box *b = c->box + k;
        stand(c, k);
        double mass = c->density * pow(2 * b->half, c->dim);
        b->body.mass = mass;
        for (int axis = 0; axis < 3; axis++)
            b->body.inertia.m[4 * axis] = mass * b->half * b->half * 2 / 3;
        double way = 2.4 * k;
        b->body.velocity = fsi_vec(0.1 * cos(way), 0.1 * sin(way) - DT * GRAVITY, 0);
        b->body.spin = fsi_vec(0, 0, 0.1);
        if (!(mass > 0)) {
            b->body.velocity = fsi_vec(0, 0, 0);
            b->body.spin = fsi_vec(0, 0, 0);
        }

        fsi_surface surface = surface_of(b, c->dim);
        ex_try(fsi_body_couple(&b->body, &surface, &c->door[k]));
        c->list[k] = &c->door[k];
    }
}

/* One solve in water at rest, under gravity; returns its processor time, s. */
static double solve(fsi_couple *couple, crowd *c, fsi_report *report) {
    fsi_grid *grid = couple->grid;
    begin(c);
    ex_try(fsi_couple_detect(couple, c->list, c->count));
    for (int axis = 0; axis < grid->dim; axis++)
        fsi_fill(grid->faces[axis], 0, grid->u[axis]);
    ex_try(fsi_grid_forces(grid, DT));

    clock_t start = clock();
    ex_try(fsi_couple_solve(couple, DT, report));
    return (double)(clock() - start) / CLOCKS_PER_SEC;
}

static void draw(ex_args *args, const fsi_grid *grid, crowd *c) {
    ex_image image = ex_image_make(600, 600);
    ex_view view = ex_view_make(0, 0, 1, 1, 10, 10, 580, 580);
    for (int j = 0; j < grid->ny && c->dim == 2; j++)
        for (int i = 0; i < grid->nx; i++) {
            fsi_vec3 u = fsi_grid_velocity_at(grid, fsi_grid_cell_centre(grid, i, j, 0));
            grid->scalar_work[i + grid->nx * j] = fsi_vec_length(u);
        }
    ex_camera camera = ex_camera_make(2.4, 1.7, 2.9, 0.5, 0.45, 0.5, 1, 30);
    if (c->dim == 2)
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->scalar_work, 0, 0.2, 0);
    for (int k = 0; k < c->count; k++) {
        fsi_surface surface = surface_of(c->box + k, c->dim);
        if (c->dim == 2)
            ex_draw_surface(&image, &view, &surface, ex_rgb(230, 230, 235));
        else
            ex_draw_surface3(&image, &camera, &surface, ex_map(0, 0.3 + 0.2 * (k % 3)));
    }
    ex_frame(args, &image);
    ex_image_free(&image);
}

static void *room(int count, size_t size) {
    void *memory = calloc((size_t)count, size);
    if (!memory)
        ex_die("many_bodies: no memory");
    return memory;
}

static const ex_about about = {
    .name = "many_bodies",
    .what = "Any number of bodies in one solve, beside the same bodies held.",
    .size = 256,
    .frames = 5,
    .keys =
        {
            EX_NUMBER("bodies", "", "number of boxes", "200", "1 to 20000"),
            EX_NUMBER("touching", "", "1: edge against edge", "0", "0 to 1"),
            EX_NUMBER("density", "", "box over fluid", "0.1", "1e-6 to 1e6"),
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_WORD("boundary", "form of the solids", "cut", "cut,voxel,fraction"),
            EX_WORD("solver", "of the coupled system", "auto", "auto,deflated,neumann"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    crowd c = {0};
    c.dim = ex_whole(&args, "dim");
    c.count = ex_whole(&args, "bodies");
    c.touching = ex_whole(&args, "touching");
    c.box = room(c.count, sizeof *c.box);
    c.door = room(c.count, sizeof *c.door);
    c.list = room(c.count, sizeof *c.list);

    /* A full tank, closed on all sides. */
    int n = c.dim == 3 && args.size == about.size ? 96 : args.size;
    fsi_grid_desc tank = {
        .nx = n,
        .ny = n,
        .nz = c.dim == 3 ? n : 1,
        .h = 1.0 / n,
        .rho = 1,
        .gravity.y = -GRAVITY,
        .max_iterations = 5000,
    };
    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        tank.side[side].kind = FSI_SIDE_SLIP;

    fsi_couple_desc desc = {0};
    desc.boundary = ex_is(&args, "boundary", "voxel") ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT;
    if (ex_is(&args, "solver", "deflated"))
        desc.solver = FSI_COUPLE_DEFLATED;
    if (ex_is(&args, "solver", "neumann"))
        desc.solver = FSI_COUPLE_NEUMANN;

    static fsi_grid grid;
    static fsi_couple couple;
    ex_need(fsi_grid_init(&grid, &tank));
    ex_need(fsi_couple_init(&couple, &grid, &desc));

    /* Held and free by turns: whatever slows the machine down slows both. */
    fsi_report held = {0};
    fsi_report coupled = {0};
    double seconds_held = 1e30;
    double seconds = 1e30;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        c.density = 0;
        seconds_held = fmin(seconds_held, solve(&couple, &c, &held));
        c.density = ex_number(&args, "density");
        seconds = fmin(seconds, solve(&couple, &c, &coupled));
        if (args.out && frame == 0)
            draw(&args, &grid, &c);
        ex_progress(&args, frame);
    }

    ex_result("iterations", "%d", coupled.iterations);
    ex_result("iterations_fluid", "%d", held.iterations);
    ex_result("time_ratio", "%.3f", seconds / fmax(seconds_held, 1e-9));
    ex_result("seconds_coupled", "%.4f", seconds);
    ex_result("solver", "%s", couple.solver == FSI_COUPLE_NEUMANN ? "neumann" : "deflated");
    ex_result("residual", "%.2g", coupled.residual / fmax(coupled.residual_start, 1e-300));
    fsi_couple_free(&couple);
    fsi_grid_free(&grid);
    free(c.box);
    free(c.door);
    free(c.list);
    return ex_end(&args, frame, ex_fine());
}
