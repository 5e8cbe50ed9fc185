/* own_solver: your own solver, here a plate on a spring in thirty lines, coupled to the grid through the black-box door.
   cc -O2 -I. -Iexamples examples/own_solver.c -o own_solver -lm
   The plate knows nothing of fluids: it takes an impulse and says how far it moves in this step. It is lighter than the smoke it displaces. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

typedef struct plate { double y, v, mass, spring, dt; fsi_real x[12], speed; fsi_coupled door; } plate;   /* your engine's body */

static fsi_result plate_solve(void *user, const fsi_real *impulse, fsi_real *move) {     /* backward Euler: m (v' - v) = impulse - dt k (y + dt v') */
    plate *p = (plate *)user;
    double v = (p->mass * p->v + (double)impulse[0] - p->dt * p->spring * (p->y - 0.6)) / (p->mass + p->dt * p->dt * p->spring);
    move[0] = p->speed = (fsi_real)(p->dt * v);
    return FSI_OK;
}
static void plate_row(const fsi_coupled *self, int element, const fsi_real *weight, fsi_vec3 point, fsi_vec3 dir, fsi_real *row) {
    (void)self; (void)element; (void)weight; (void)point;
    row[0] = dir.y;                                           /* one degree of freedom: up and down */
}
static void plate_surface(plate *p) {                         /* a rectangle 0.3 x 0.06 */
    static const double corner[4][2] = {{-.15, -.03}, {.15, -.03}, {.15, .03}, {-.15, .03}};
    int i;
    for (i = 0; i < 4; i++) p->x[3 * i] = (fsi_real)(0.5 + corner[i][0]), p->x[3 * i + 1] = (fsi_real)(p->y + corner[i][1]);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"mass_ratio", "", "plate over the smoke it displaces", "0.1", 1e-4, 1e4, NULL}, {"spring", "N/m", "stiffness", "0.5", 0, 1e3, NULL}};
    static const int32_t index[8] = {0, 1, 1, 2, 2, 3, 3, 0};
    static const fsi_real zero = 0;
    fsi_grid grid;
    fsi_grid_desc g = {0};
    fsi_grid_source jet = {0};
    fsi_interface face;
    fsi_fluid_box fluid = {0};
    fsi_partitioned scheme;
    fsi_partitioned_desc d = {0};
    fsi_blackbox door = {0}, flow;
    fsi_coupled *list[1];
    plate p = {0};
    ex_args a;
    int frame, stable = 1;
    double total = 0;
    fsi_real one = 1, v = 0;
    ex_begin(&a, argc, argv, "own_solver", "A hand-written spring-mass solver coupled to the grid.", keys, 2, 48, 100);
    g.nx = a.size; g.ny = a.size * 3 / 2; g.nz = 1; g.h = FSI_R(1) / (fsi_real)a.size; g.rho = 1; g.smoke = 1; g.side[3].kind = FSI_SIDE_OPEN;
    if (fsi_grid_init(&grid, &g) != FSI_OK || fsi_interface_init(&face, &grid, NULL) != FSI_OK) return 1;
    jet.lo = fsi_vec(FSI_R(.4), 0, 0); jet.hi = fsi_vec(FSI_R(.6), FSI_R(1.01) * g.h, 0); jet.set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_DIVERGENCE;
    jet.velocity = fsi_vec(0, FSI_R(.5), 0); jet.divergence = FSI_R(.5) / g.h; jet.density = 1;
    fsi_grid_add_source(&grid, &jet);
    p.y = 0.6; p.mass = 0.3 * 0.06 * ex_number(&a, "mass_ratio"); p.spring = ex_number(&a, "spring"); p.dt = (double)g.h;
    p.door.surface.dim = 2; p.door.surface.vertex_count = p.door.surface.element_count = 4; p.door.surface.closed = 1; p.door.surface.x = p.x; p.door.surface.index = index;
    p.door.dof = 1; p.door.v = &v; p.door.mass = &one; p.door.inverse_mass = &zero; p.door.row_fn = plate_row;
    list[0] = &p.door;
    d.n = d.m = 8; d.tolerance = FSI_R(1e-3) * g.h;
    if (fsi_partitioned_init(&scheme, &d) != FSI_OK) return 1;
    fluid.grid = &grid; fluid.face = &face; fluid.bpp = 1;
    flow = fsi_fluid_box_door(&fluid);
    door.solve_fn = plate_solve; door.user = &p;
    for (frame = 0; frame < a.frames && stable; frame++) {
        fsi_report report;
        fsi_real move[8] = {0}, impulse[8] = {0};
        plate_surface(&p);
        fsi_interface_detect(&face, &grid, list, 1);          /* where the plate is */
        fsi_grid_advect(&grid, (fsi_real)p.dt);
        fsi_grid_forces(&grid, (fsi_real)p.dt);
        fsi_fluid_box_begin(&fluid, (fsi_real)p.dt);
        move[0] = (fsi_real)(p.dt * p.v);
        stable = fsi_partitioned_step(&scheme, fluid.n, fluid.n, &flow, &door, move, impulse, &report) == FSI_OK;
        fsi_fluid_box_finish(&fluid);                         /* the fluid takes what they agreed on, and so does the plate */
        fsi_grid_extrapolate(&grid);
        fsi_grid_move_surface(&grid, (fsi_real)p.dt, NULL);
        p.v = (double)p.speed / p.dt;
        p.y += (double)p.speed;
        total += report.iterations;
        if (a.out) {
            ex_image m = ex_image_make(420, 560);
            ex_view view = ex_view_make(0, 0, 1, 1.5, 30, 30, 340, 510);
            ex_draw_field(&m, &view, grid.nx, grid.ny, grid.density, 0, 1, 2);
            ex_draw_surface(&m, &view, &p.door.surface, ex_rgb(210, 110, 50));
            ex_frame(&a, &m);
            ex_image_free(&m);
        }
        ex_progress(&a, frame);
    }
    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    ex_result("height", "%.5f", p.y);
    fsi_partitioned_free(&scheme); fsi_fluid_box_free(&fluid); fsi_interface_free(&face); fsi_grid_free(&grid);
    return ex_end(&a, frame, stable);
}
