/* sudden: a stream that is everywhere at once meets a cylinder that stands still. To turn aside,
   the fluid gives it an impulse: that of the added mass, which for a cylinder is the mass of the
   fluid in its place.

       build/sudden
       build/sudden --size 200   coarser cells

   Result: the force on the cylinder over that of the added mass; bytes a cell of the grid. Walls
   beside the cylinder raise the added mass by (1 + q) / (1 - q), q = (pi R / W)^2 / 3, for a
   channel of width W (the cylinder and its mirror images, to the first order in q). The force takes
   the pressure of whole cells: its error is a third of a cell over the radius, more or less. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

static const double pi = 3.14159265358979323846;
static const double width = 1;  /* of the channel, m; it is twice as long */
static const double speed = 2;  /* of the stream, m/s */
static const double rho = 1000; /* kg/m^3 */
static const double dt = 0.01;  /* s */

typedef struct channel {
    fsi_grid grid;
    fsi_slip slip;
    fsi_mesh circle;
    fsi_coupled cylinder; /* without degrees of freedom: it stands still */
    double radius;
} channel;

/* Both ends let the stream through, the other sides are walls. */
static void make_channel(channel *c, const ex_args *args) {
    fsi_grid_desc desc = {
        .nx = args->size,
        .ny = args->size / 2,
        .nz = 1,
        .h = 2 * width / args->size,
        .rho = rho,
        .side[FSI_LEFT].kind = FSI_SIDE_INFLOW,
        .side[FSI_RIGHT].kind = FSI_SIDE_INFLOW,
        .side[FSI_LEFT].velocity.x = speed,
        .side[FSI_RIGHT].velocity.x = speed,
    };
    ex_need(fsi_grid_init(&c->grid, &desc));
    ex_need(fsi_slip_init(&c->slip, &c->grid, NULL));
}

/* A cylinder in the middle, seen by the fluid as a loop of short segments. */
static void place_cylinder(channel *c, double radius) {
    fsi_vec3 middle = fsi_vec(width, width / 2, 0);
    c->radius = radius;
    ex_need(fsi_mesh_circle(&c->circle, middle, radius, 2000, NULL));
    c->cylinder.surface = fsi_mesh_surface(&c->circle);
}

/* The stream at the first moment: the same everywhere. */
static fsi_vec3 stream(fsi_vec3 x, double time, void *user) {
    (void)x;
    (void)time;
    (void)user;
    return fsi_vec(speed, 0, 0);
}

/* One solve turns the stream aside. The force is its impulse over dt, N per metre of depth. */
static double meet(channel *c) {
    fsi_coupled *list[1] = {&c->cylinder};
    ex_try(fsi_grid_set_velocity(&c->grid, stream, NULL));
    ex_try(fsi_slip_detect(&c->slip, list, 1));
    ex_try(fsi_slip_solve(&c->slip, dt, NULL));
    return (double)fsi_slip_force(&c->slip, 0).x;
}

static void print_results(const channel *c, double force) {
    double displaced = rho * pi * c->radius * c->radius;
    double turn = pi * c->radius / width;
    double walls = turn * turn / 3;
    ex_result("force", "%.4f", force * dt / (displaced * speed));
    ex_result("expected_force", "%.4f", (1 + walls) / (1 - walls));

    double cells = (double)c->grid.cells;
    ex_result("bytes_per_cell", "%.1f", (double)fsi_grid_memory(&c->grid) / cells);
}

/* ---- pictures: pressure around the cylinder */
static void draw(ex_args *args, const channel *c) {
    double most = rho * speed * c->radius;
    ex_image image = ex_image_make(640, 320);
    ex_view view = ex_view_make(0, 0, 2 * width, width, 0, 0, 640, 320);
    const fsi_grid *grid = &c->grid;
    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->pressure, -most, most, 0);
    ex_draw_surface(&image, &view, &c->cylinder.surface, ex_grey(40));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "sudden",
    .what = "A stream that begins all at once meets a cylinder: the force of added mass.",
    .size = 800,
    .frames = 1,
    .keys = {EX_NUMBER("radius", "m", "of the cylinder in a channel of 1 m", "0.1", "0.03 to 0.2")},
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    static channel c;
    make_channel(&c, &args);
    place_cylinder(&c, ex_number(&args, "radius"));

    /* Every frame begins anew, with a cylinder that has met nothing yet. */
    double force = 0;
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        force = meet(&c);
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &c);
    }

    print_results(&c, force);
    fsi_slip_free(&c.slip);
    fsi_grid_free(&c.grid);
    fsi_mesh_free(&c.circle);
    return ex_end(&args, frame, ex_fine());
}
