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

enum {
    SLIP,
    PAPER,
    NOSLIP,
    VOXEL,
    FRACTION,
    WALLS,
    ROUND = 4000,
    BINS = 37
};

static const char *const names[WALLS] = {"slip", "paper", "noslip", "voxel", "fraction"};

typedef struct channel {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door;
    fsi_coupled *list[1];
    fsi_real x[3 * ROUND];
    int32_t index[2 * ROUND];
    slip_exact exact;
    double cx;
    double cy;
    double rms;
    double most;
    double top;
    double leak;
    double bin[BINS];
    double weight[BINS];
} channel;

static int make(channel *c, int n, double blockage, const fsi_slip_desc *desc) {
    int ny = (int)(2 * n / blockage + 0.5);
    slip_exact_make(&c->exact, n, n / blockage);

    fsi_grid_desc given = {
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

    c->cx = ny + 0.13;
    c->cy = ny / 2.0;

    for (size_t i = 0; i < ROUND; i++) {
        double t = 2 * acos(-1) * (double)i / ROUND;
        c->x[3 * i] = c->cx + n * cos(t);
        c->x[3 * i + 1] = c->cy + n * sin(t);
        c->index[2 * i] = (int32_t)i;
        c->index[2 * i + 1] = (int32_t)((i + 1) % ROUND);
    }

    c->door.surface.dim = 2;
    c->door.surface.closed = 1;
    c->door.surface.vertex_count = c->door.surface.element_count = ROUND;
    c->door.surface.x = c->x;
    c->door.surface.index = c->index;
    c->list[0] = &c->door;

    if (fsi_grid_init(&c->grid, &given) != FSI_OK
        || fsi_slip_init(&c->slip, &c->grid, desc) != FSI_OK)
        return 0;

    for (size_t i = 0; i < c->grid.faces[0]; i++)
        c->grid.u[0][i] = 1;
    return 1;
}

/* What comes out of a box two cells wider than the cylinder, all its faces regular: what got
 * through the surface. */
static double through(const channel *c) {
    const fsi_grid *grid = &c->grid;
    int n = (int)c->exact.a + 3;
    int x0 = (int)c->cx - n;
    int x1 = (int)c->cx + n;
    int y0 = (int)c->cy - n;
    int y1 = (int)c->cy + n;
    double sum = 0;

    for (int i = y0; i < y1; i++)
        sum += grid->u[0][x1 + (grid->nx + 1) * i] - grid->u[0][x0 + (grid->nx + 1) * i];

    for (int i = x0; i < x1; i++)
        sum += grid->u[1][i + grid->nx * y1] - grid->u[1][i + grid->nx * y0];
    return fabs(sum) / (2 * c->exact.a);
}

static void measure(channel *c) {
    const fsi_interface *iface = &c->slip.iface;

    /* one cell of arc around 90 degrees */
    double sum = 0;
    double nearby = 1.0 / c->exact.a;
    double tops = 0;

    for (int i = 0; i < iface->sides; i++) {
        fsi_vec3 x = fsi_interface_centre(iface, &iface->side[i]);
        double t = atan2(x.y - c->cy, x.x - c->cx);
        double got = c->slip.velocity[i].x * sin(t) - c->slip.velocity[i].y * cos(t);
        double e = got - slip_exact_speed(&c->exact, t);
        int b = (int)(fabs(t) / acos(-1) * (BINS - 1) + 0.5);
        sum += e * e;
        if (fabs(e) > c->most)
            c->most = fabs(e);
        c->bin[b] += fabs(got);
        c->weight[b] += 1;
        if (fabs(fabs(t) - acos(-1) / 2) < nearby) {
            c->top += fabs(got);
            tops += 1;
        }
    }

    c->rms = sqrt(sum / iface->sides);
    c->top /= tops > 0 ? tops : 1;
    c->leak = through(c);
}

/* With cut cells cut faces have samples of their own: velocity at a side from all open faces
 * of its cell, its tangential part. */
static void open_faces(channel *c) {
    const fsi_grid *grid = &c->grid;

    for (int i = 0; i < c->slip.iface.sides; i++) {
        const fsi_side *side = &c->slip.iface.side[i];
        int x = side->cell % grid->nx;
        int y = side->cell / grid->nx;
        fsi_real v[3] = {0, 0, 0};
        for (int axis = 0; axis < 2; axis++) {
            size_t lo = axis ? (size_t)(x + grid->nx * y) : (size_t)(x + (grid->nx + 1) * y);
            size_t hi = lo + (size_t)(axis ? grid->nx : 1);
            int a = grid->weight[axis][lo] > 0;
            int b = grid->weight[axis][hi] > 0;

            /* the side's own sample */
            if (axis == side->axis && a && b) {
                if ((size_t)side->face == hi)
                    a = 0;
                else
                    b = 0;
            }
            if (a + b)
                v[axis] =
                    ((a ? grid->u[axis][lo] : 0) + (b ? grid->u[axis][hi] : 0)) / (fsi_real)(a + b);
        }

        c->slip.velocity[i] =
            fsi_vec_mad(fsi_vec_load(v), side->normal, -fsi_vec_dot(fsi_vec_load(v), side->normal));
    }
}

static int run(channel *c, int wall, int n, double blockage, int passes) {
    fsi_real zero = 0;

    fsi_slip_desc desc = {
        .passes = passes,
        .tolerance = 1e-7,
        .form = wall == PAPER ? FSI_SLIP_PAPER : FSI_SLIP_REPAIRED,
        .coefficient = wall == NOSLIP ? &zero : NULL,
    };

    if (!make(c, n, blockage, &desc))
        return 0;
    fsi_result result;
    if (wall == FRACTION || wall == VOXEL) { /* no ghosts: the monolithic solve */

        fsi_couple_desc cd = {
            .boundary = wall == FRACTION ? FSI_BOUNDARY_CUT : FSI_BOUNDARY_VOXEL,
            .tolerance = 1e-7,
        };

        fsi_couple couple;
        if (fsi_couple_init(&couple, &c->grid, &cd) != FSI_OK)
            return 0;
        result = fsi_couple_detect(&couple, c->list, 1);
        if (result >= 0)
            result = fsi_couple_solve(&couple, 1, NULL);
        if (result >= 0)
            result = fsi_slip_detect(&c->slip, c->list, 1);
        fsi_couple_free(&couple);
    } else {
        result = fsi_slip_detect(&c->slip, c->list, 1);
        if (result >= 0)
            result = ex_try(fsi_slip_solve(&c->slip, 1, NULL));
    }

    if (result >= 0 && (wall == VOXEL || wall == FRACTION))
        result = fsi_slip_surface(&c->slip);
    if (result >= 0 && wall == FRACTION)
        open_faces(c);
    measure(c);
    return result >= 0;
}

static void draw(const channel *c, ex_image *image, int at, const char *name) {
    const fsi_grid *grid = &c->grid;
    int half = (int)(1.8 * c->exact.a);
    if (half > grid->ny / 2)
        half = grid->ny / 2;
    int w = 2 * half;
    int x0 = grid->nx / 2 - half;
    int y0 = grid->ny / 2 - half;
    ex_view view = ex_view_make(x0, y0, x0 + w, y0 + w, 14 + at * 288, 40, 276, 276);
    fsi_real *speed;
    speed = (fsi_real *)calloc((size_t)w * (size_t)w, sizeof *speed);

    for (int j = 0; j < w; j++)
        for (int i = 0; i < w; i++) {
            size_t f = (size_t)(i + x0) + (size_t)(grid->nx + 1) * (size_t)(j + y0);
            size_t e = (size_t)(i + x0) + (size_t)grid->nx * (size_t)(j + y0);
            speed[i + w * j] = hypot((grid->u[0][f] + grid->u[0][f + 1]) / 2,
                                     (grid->u[1][e] + grid->u[1][e + (size_t)grid->nx]) / 2);
        }
    ex_draw_field(image, &view, w, w, speed, 0, 2.2, 0);
    ex_draw_surface(image, &view, &c->door.surface, ex_grey(200));
    ex_text(image, view.left, view.top - 16, 1, ex_grey(20), name);
    if (at)
        ex_colorbar(image, &view, 0, 0, 2.2, "SPEED");
    free(speed);
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

int main(int argc, char **argv) {
    static channel c[WALLS];
    ex_args args;
    int chosen = SLIP;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    double blockage = ex_number(&args, "blockage");

    /* cells per radius; the channel is four half widths long */
    int n = (int)(args.size * blockage / 4 + 0.5);
    if (ex_number(&args, "radius_cells") > 0)
        n = (int)(ex_number(&args, "radius_cells") + 0.5);

    /* the box of through() stays inside the channel */
    if (n < 4)
        n = 4;

    ex_result("cells_per_radius", "%d", n);

    for (int w = 0; w < WALLS; w++) {
        char key[32];
        if (ex_is(&args, "wall", names[w]))
            chosen = w;
        else if (!ex_is(&args, "wall", "all"))
            continue;
        stable = run(&c[w], w, n, blockage, ex_whole(&args, "passes")) && stable;
        snprintf(key, sizeof key, "%s_rms", names[w]);
        ex_result(key, "%.4f", c[w].rms);
        snprintf(key, sizeof key, "%s_max", names[w]);
        ex_result(key, "%.4f", c[w].most);
    }

    ex_result("slip_rms_error", "%.4f", c[chosen].rms);
    ex_result("speed_90", "%.4f", c[chosen].top);
    ex_result("exact_90", "%.4f", slip_exact_speed(&c[chosen].exact, acos(-1) / 2));
    ex_result("leak", "%.3e", c[chosen].leak);
    if (args.out && ex_is(&args, "wall", "all")) {
        static double x[BINS], y[WALLS + 1][BINS];
        static double px[WALLS][BINS];
        ex_curve curve[WALLS + 1];
        ex_image image = ex_image_make(640, 340);
        draw(&c[SLIP], &image, 0, "SLIP");
        draw(&c[NOSLIP], &image, 1, "NO-SLIP");
        ex_frame(&args, &image);
        ex_image_free(&image);
        image = ex_image_make(640, 340);
        for (int k = 0; k < BINS; k++) {
            x[k] = 180.0 * k / (BINS - 1);
            y[WALLS][k] = fabs(slip_exact_speed(&c[0].exact, x[k] * acos(-1) / 180));
        }

        for (int w = 0; w < WALLS; w++) {
            static const int rgb[WALLS][3] = {
                {20, 110, 200}, {200, 60, 60}, {150, 150, 150}, {220, 150, 30}, {40, 150, 80}};
            curve[w].name = names[w];
            curve[w].n = 0;
            curve[w].x = px[w];
            curve[w].y = y[w];
            curve[w].color = ex_rgb(rgb[w][0], rgb[w][1], rgb[w][2]);
            for (int k = 0; k < BINS; k++)
                if (c[w].weight[k] > 0) {
                    px[w][curve[w].n] = x[k];
                    y[w][curve[w].n++] = c[w].bin[k] / c[w].weight[k];
                }
        }

        curve[WALLS].name = "exact";
        curve[WALLS].n = BINS;
        curve[WALLS].x = x;
        curve[WALLS].y = y[WALLS];
        curve[WALLS].color = ex_grey(0);
        ex_plot(&image, "SPEED ALONG THE CYLINDER", "ANGLE", "SPEED/STREAM", curve, WALLS + 1, 0,
                0);
        ex_frame(&args, &image);
        ex_image_free(&image);
    }

    for (int w = 0; w < WALLS; w++) {
        fsi_slip_free(&c[w].slip);
        fsi_grid_free(&c[w].grid);
    }

    return ex_end(&args, 1, stable);
}
