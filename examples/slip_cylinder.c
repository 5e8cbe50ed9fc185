/* slip_cylinder: speed of an ideal fluid along a cylinder in a channel (Robinson-Mosher et al.
   2009, fig. 7): one projection of the undisturbed stream, compared with potential flow. Five ways
   to treat the wall: slip (ghost cells, repaired form), paper (eq. 10 as printed), noslip (the
   fluid sticks), voxel (stair steps), fraction (cut cells of fsi_couple).

       build/slip_cylinder --size 160 --set wall=slip --set radius_cells=10
       build/slip_cylinder --size 160 --set wall=all --set radius_cells=10   all five

   Result: errors in parts of the stream; speed_90, the speed at the top; leak, the net flux out of
   a box around the cylinder. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_exact.h"

/* The ways to treat the wall. */
enum {
    SLIP,
    PAPER,
    NOSLIP,
    VOXEL,
    FRACTION,
    WALLS
};

static const char *const wall_name[WALLS] = {"slip", "paper", "noslip", "voxel", "fraction"};

enum {
    ROUND = 4000, /* corners of the cylinder */
    BINS = 37     /* of the plot, 5 degrees each */
};

static const double pi = 3.14159265358979323846;

typedef struct channel {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door; /* the cylinder: it has no degrees of freedom and stands still */
    fsi_coupled *list[1];
    fsi_real x[3 * ROUND];
    int32_t index[2 * ROUND];
    fsi_vec3 centre;
    slip_exact exact;

    double rms_error; /* of the speed along the cylinder */
    double max_error;
    double top_speed;       /* at 90 degrees */
    double leak;            /* net flux out of a box around the cylinder */
    double speed_sum[BINS]; /* over the sides of each bin */
    double speed_count[BINS];
} channel;

/* ------------------------------------------------------------------------------------------------
 * The scene: a stream of speed 1 in a channel, in cells of size 1. */
static void make_cylinder(channel *c, double radius) {
    for (int i = 0; i < ROUND; i++) {
        double angle = 2 * pi * i / ROUND;
        c->x[3 * i] = c->centre.x + radius * cos(angle);
        c->x[3 * i + 1] = c->centre.y + radius * sin(angle);
        c->index[2 * i] = i;
        c->index[2 * i + 1] = (i + 1) % ROUND;
    }
    c->door.surface = (fsi_surface){
        .dim = 2,
        .closed = 1,
        .vertex_count = ROUND,
        .element_count = ROUND,
        .x = c->x,
        .index = c->index,
    };
    c->list[0] = &c->door;
}

/* Twice as long as wide; n cells per radius. The cylinder lies a little off the cells' corners. */
static void make_channel(channel *c, int n, double blockage) {
    int ny = (int)(2 * n / blockage + 0.5);
    fsi_grid_desc desc = {
        .nx = 2 * ny,
        .ny = ny,
        .nz = 1,
        .h = 1,
        .rho = 1,
        .side[FSI_LEFT].kind = FSI_SIDE_INFLOW,
        .side[FSI_RIGHT].kind = FSI_SIDE_INFLOW,
        .side[FSI_LEFT].velocity.x = 1,
        .side[FSI_RIGHT].velocity.x = 1,
    };
    ex_need(fsi_grid_init(&c->grid, &desc));
    for (size_t i = 0; i < c->grid.faces[0]; i++)
        c->grid.u[0][i] = 1;

    slip_exact_make(&c->exact, n, n / blockage);
    c->centre = fsi_vec(ny + 0.13, ny / 2.0, 0);
    make_cylinder(c, n);
}

/* One projection by ghost cells: the slip solve. */
static void project_slip(channel *c) {
    ex_try(fsi_slip_detect(&c->slip, c->list, 1));
    ex_try(fsi_slip_solve(&c->slip, 1, NULL));
}

/* One projection without ghosts: the monolithic solve; then the slip solver is asked for the
   velocity along the surface. */
static void project_couple(channel *c, int cut) {
    fsi_couple_desc desc = {
        .boundary = cut ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL,
        .tolerance = 1e-7,
    };
    fsi_couple couple;
    ex_need(fsi_couple_init(&couple, &c->grid, &desc));
    ex_try(fsi_couple_detect(&couple, c->list, 1));
    ex_try(fsi_couple_solve(&couple, 1, NULL));
    ex_try(fsi_slip_detect(&c->slip, c->list, 1));
    ex_try(fsi_slip_surface(&c->slip));
    fsi_couple_free(&couple);
}

/* ------------------------------------------------------------------------------------------------
 * What is measured. */
/* Mean velocity of the open faces of a side's cell along one axis; across the side its own sample
   alone where both faces are open. */
static fsi_real open_mean(const fsi_grid *grid, const fsi_side *side, int axis) {
    int x = side->cell % grid->nx;
    int y = side->cell / grid->nx;
    int first = axis == 0 ? x + (grid->nx + 1) * y : x + grid->nx * y;
    int second = first + (axis == 0 ? 1 : grid->nx);
    int first_open = grid->weight[axis][first] > 0;
    int second_open = grid->weight[axis][second] > 0;
    if (axis == side->axis && first_open && second_open) {
        int is_second = side->face == second;
        first_open = !is_second;
        second_open = is_second;
    }
    fsi_real sum = 0;
    if (first_open)
        sum += grid->u[axis][first];
    if (second_open)
        sum += grid->u[axis][second];
    int count = first_open + second_open;
    return count ? sum / (fsi_real)count : 0;
}

/* With cut cells cut faces have samples of their own: the velocity at a side is the tangential part
   of that of the open faces of its cell. */
static void read_open_faces(channel *c) {
    for (int i = 0; i < c->slip.iface.sides; i++) {
        const fsi_side *side = &c->slip.iface.side[i];
        fsi_vec3 v = fsi_vec(open_mean(&c->grid, side, 0), open_mean(&c->grid, side, 1), 0);
        fsi_real through = fsi_vec_dot(v, side->normal);
        c->slip.velocity[i] = fsi_vec_mad(v, side->normal, -through);
    }
}

/* What comes out of a box three cells wider than the cylinder, all its faces regular: what got
   through the surface. */
static double flux_out(const channel *c) {
    const fsi_grid *grid = &c->grid;
    const fsi_real *across = grid->u[0];
    const fsi_real *upward = grid->u[1];
    int half = (int)c->exact.a + 3;
    int left = (int)c->centre.x - half;
    int right = (int)c->centre.x + half;
    int bottom = (int)c->centre.y - half;
    int top = (int)c->centre.y + half;
    double sum = 0;
    for (int j = bottom; j < top; j++) {
        int row = (grid->nx + 1) * j;
        sum += across[right + row] - across[left + row];
    }
    for (int i = left; i < right; i++)
        sum += upward[i + grid->nx * top] - upward[i + grid->nx * bottom];
    return fabs(sum) / (2 * c->exact.a);
}

/* Speeds along the cylinder at all coupling sides, beside those of potential flow. */
static void measure(channel *c) {
    const fsi_interface *iface = &c->slip.iface;
    double cell_of_arc = 1.0 / c->exact.a;
    double squares = 0;
    double top_sum = 0;
    double top_count = 0;
    for (int i = 0; i < iface->sides; i++) {
        fsi_vec3 arm = fsi_vec_sub(fsi_interface_centre(iface, &iface->side[i]), c->centre);
        double angle = atan2(arm.y, arm.x);
        fsi_vec3 v = c->slip.velocity[i];
        double speed = v.x * sin(angle) - v.y * cos(angle);
        double error = speed - slip_exact_speed(&c->exact, angle);
        squares += error * error;
        c->max_error = fmax(c->max_error, fabs(error));

        int bin = (int)(fabs(angle) / pi * (BINS - 1) + 0.5);
        c->speed_sum[bin] += fabs(speed);
        c->speed_count[bin] += 1;
        if (fabs(fabs(angle) - pi / 2) < cell_of_arc) {
            top_sum += fabs(speed);
            top_count += 1;
        }
    }
    c->rms_error = sqrt(squares / iface->sides);
    c->top_speed = top_sum / (top_count > 0 ? top_count : 1);
    c->leak = flux_out(c);
}

static void run(channel *c, int wall, int n, const ex_args *args) {
    fsi_real sticks = 0;
    fsi_slip_desc desc = {
        .boundary = FSI_BOUNDARY_VOXEL, /* its ghost cells are what is compared */
        .passes = ex_whole(args, "passes"),
        .tolerance = 1e-7,
        .form = wall == PAPER ? FSI_SLIP_PAPER : FSI_SLIP_REPAIRED,
        .coefficient = wall == NOSLIP ? &sticks : NULL,
    };
    make_channel(c, n, ex_number(args, "blockage"));
    ex_need(fsi_slip_init(&c->slip, &c->grid, &desc));
    if (wall == VOXEL || wall == FRACTION)
        project_couple(c, wall == FRACTION);
    else
        project_slip(c);
    if (wall == FRACTION)
        read_open_faces(c);
    measure(c);
}

/* ---- pictures: the speed around two cylinders, and a plot along all of them */
static void draw_channel(const channel *c, ex_image *image, int place, const char *name) {
    const fsi_grid *grid = &c->grid;
    int half = (int)fmin(1.8 * c->exact.a, grid->ny / 2);
    int width = 2 * half;
    int left = grid->nx / 2 - half;
    int bottom = grid->ny / 2 - half;
    ex_view view =
        ex_view_make(left, bottom, left + width, bottom + width, 14 + place * 288, 40, 276, 276);
    fsi_real *speed = ex_alloc((size_t)(width * width), sizeof *speed);
    for (int j = 0; j < width; j++)
        for (int i = 0; i < width; i++) {
            fsi_vec3 at = fsi_grid_cell_centre(grid, left + i, bottom + j, 0);
            speed[i + width * j] = fsi_vec_length(fsi_grid_velocity_at(grid, at));
        }
    ex_draw_field(image, &view, width, width, speed, 0, 2.2, EX_HEAT);
    ex_draw_surface(image, &view, &c->door.surface, ex_grey(200));
    ex_text(image, view.left, view.top - 16, 1, ex_grey(20), name);
    if (place)
        ex_colorbar(image, &view, EX_HEAT, 0, 2.2, "SPEED");
    free(speed);
}

/* The mean speed of every bin that has sides. */
static ex_curve curve_of(const channel *c, double *x, double *y) {
    ex_curve curve = {.x = x, .y = y};
    for (int k = 0; k < BINS; k++) {
        if (!(c->speed_count[k] > 0))
            continue;
        x[curve.n] = 180.0 * k / (BINS - 1);
        y[curve.n] = c->speed_sum[k] / c->speed_count[k];
        curve.n++;
    }
    return curve;
}

static ex_curve exact_curve(const channel *c, double *x, double *y) {
    for (int k = 0; k < BINS; k++) {
        x[k] = 180.0 * k / (BINS - 1);
        y[k] = fabs(slip_exact_speed(&c->exact, x[k] * pi / 180));
    }
    return (ex_curve){.name = "exact", .n = BINS, .x = x, .y = y, .color = ex_grey(0)};
}

static void draw(ex_args *args, const channel *c) {
    ex_image image = ex_image_make(640, 340);
    draw_channel(&c[SLIP], &image, 0, "SLIP");
    draw_channel(&c[NOSLIP], &image, 1, "NO-SLIP");
    ex_frame(args, &image);
    ex_image_free(&image);

    const ex_color color[WALLS] = {
        ex_rgb(20, 110, 200), ex_rgb(200, 60, 60), ex_rgb(150, 150, 150),
        ex_rgb(220, 150, 30), ex_rgb(40, 150, 80),
    };
    static double x[WALLS + 1][BINS], y[WALLS + 1][BINS];
    ex_curve curve[WALLS + 1];
    for (int wall = 0; wall < WALLS; wall++) {
        curve[wall] = curve_of(&c[wall], x[wall], y[wall]);
        curve[wall].name = wall_name[wall];
        curve[wall].color = color[wall];
    }
    curve[WALLS] = exact_curve(&c[SLIP], x[WALLS], y[WALLS]);
    image = ex_image_make(640, 340);
    ex_plot(&image, "SPEED ALONG THE CYLINDER", "ANGLE", "SPEED/STREAM", curve, WALLS + 1, 0, 0);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static void wall_results(const channel *c, int wall) {
    char key[32];
    snprintf(key, sizeof key, "%s_rms", wall_name[wall]);
    ex_result(key, "%.4f", c->rms_error);
    snprintf(key, sizeof key, "%s_max", wall_name[wall]);
    ex_result(key, "%.4f", c->max_error);
}

static const ex_about about = {
    .name = "slip_cylinder",
    .what = "Speed of an ideal fluid along a cylinder in a channel.",
    .size = 320,
    .frames = 1,
    .keys =
        {
            EX_NUMBER("blockage", "", "radius over half the width of the channel", "0.25",
                      "0.05 to 0.6"),
            EX_NUMBER("radius_cells", "", "cells per radius; 0: from --size", "0", "0 to 200"),
            EX_WORD("wall", "which treatment", "all", "all,slip,paper,noslip,voxel,fraction"),
            EX_NUMBER("passes", "", "solves with fresh ghost fluxes (slip)", "5", "1 to 100"),
        },
};

/* Cells per radius: as asked for, or so that the channel has args->size cells. At least four, so
   that the box of flux_out stays inside the channel. */
static int cells_per_radius(const ex_args *args) {
    double asked = ex_number(args, "radius_cells");
    double fitting = args->size * ex_number(args, "blockage") / 4;
    int n = (int)((asked > 0 ? asked : fitting) + 0.5);
    return n < 4 ? 4 : n;
}

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    int all = ex_is(&args, "wall", "all");
    int n = cells_per_radius(&args);
    ex_result("cells_per_radius", "%d", n);

    static channel c[WALLS];
    int shown = SLIP;
    for (int wall = 0; wall < WALLS; wall++) {
        int chosen = ex_is(&args, "wall", wall_name[wall]);
        if (!all && !chosen)
            continue;
        if (chosen)
            shown = wall;
        run(&c[wall], wall, n, &args);
        wall_results(&c[wall], wall);
    }

    ex_result("slip_rms_error", "%.4f", c[shown].rms_error);
    ex_result("speed_90", "%.4f", c[shown].top_speed);
    ex_result("exact_90", "%.4f", slip_exact_speed(&c[shown].exact, pi / 2));
    ex_result("leak", "%.3e", c[shown].leak);
    if (args.out && all)
        draw(&args, c);
    for (int wall = 0; wall < WALLS; wall++) {
        fsi_slip_free(&c[wall].slip);
        fsi_grid_free(&c[wall].grid);
    }
    return ex_end(&args, 1, ex_fine());
}
