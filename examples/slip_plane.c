/* slip_plane: two streams slide along the two sides of a thin sloping plate in opposite directions
   (Robinson-Mosher et al. 2009, fig. 5). With ghost cells the flow stays as it is, to round-off,
   at any angle; with plain voxel faces the stair steps stop it.

       build/slip_plane --out out
       build/slip_plane --set angle=0.1,0.3,0.7

   Result: error of the flow for each angle, and tracers that crossed the plate (leak). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    SLIP,
    VOXEL,
    TRACERS = 3000
};

typedef struct scene {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door, *list[1];
    fsi_real x[6], point[3 * TRACERS];
    double t[2], n[2], error;
    int leaks, crossed;
} scene;

static fsi_real zero = 0;

static double height(const scene *s, double x, double y) {
    return (x - 0.503) * s->n[0] + (y - 0.4837) * s->n[1];
}

/* u = +t above, -t below; or the largest difference from that four cells off the box */
static double streams(scene *s, int set) {
    fsi_grid *grid = &s->grid;
    double worst = 0;
    double h = grid->h;

    for (int a = 0; a < 2; a++)
        for (int j = 0; j < grid->ny + (a == 1); j++)
            for (int i = 0; i < grid->nx + (a == 0); i++) {
                size_t f = (size_t)(i + (grid->nx + (a == 0)) * j);
                double x = fmin(fmax((i + (a ? 0.5 : 0)) * h, h / 2), 1 - h / 2);
                double y = fmin(fmax((j + (a ? 0 : 0.5)) * h, h / 2), 1 - h / 2);
                double want = height(s, x, y) > 0 ? s->t[a] : -s->t[a];
                if (set)
                    grid->u[a][f] = grid->u_plus[a][f] = want;
                else if (!s->slip.iface.blocked[a][f]
                         && fmin(fmin(x, 1 - x), fmin(y, 1 - y)) > 4 * h)
                    worst = fmax(worst, fabs(grid->u[a][f] - want));
            }
    return worst;
}

static int make(scene *s, int size, double angle, int wall) {
    static const int32_t index[2] = {0, 1};

    memset(s, 0, sizeof *s);

    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1,
        .shells = 1,
    };

    for (int i = 0; i < 4; i++)
        desc.side[i].kind = FSI_SIDE_OPEN;

    fsi_slip_desc given = {
        .coefficient = wall == VOXEL ? &zero : NULL,
        .tolerance = 1e-10,
    };

    s->t[0] = cos(angle);
    s->t[1] = sin(angle);
    s->n[0] = -s->t[1];
    s->n[1] = s->t[0];

    for (int i = 0; i < 2; i++) {
        s->x[3 * i] = 0.503 + (i ? 2 : -2) * s->t[0];
        s->x[3 * i + 1] = 0.4837 + (i ? 2 : -2) * s->t[1];
    }

    s->door.surface.dim = 2;
    s->door.surface.vertex_count = 2;
    s->door.surface.element_count = 1;
    s->door.surface.x = s->x;
    s->door.surface.index = index;
    s->list[0] = &s->door;

    if (fsi_grid_init(&s->grid, &desc) != FSI_OK
        || fsi_slip_init(&s->slip, &s->grid, &given) != FSI_OK
        || fsi_slip_detect(&s->slip, s->list, 1) < 0)
        return 0;
    streams(s, 1);
    if (fsi_slip_solve(&s->slip, desc.h, NULL) < 0)
        return 0;
    s->error = streams(s, 0);
    int *sign;
    sign = (int *)calloc((size_t)s->slip.groups + 1, sizeof *sign);

    for (int i = 0; i < s->slip.iface.sides; i++) {
        int c = s->slip.iface.side[i].cell;
        int *at = sign + s->slip.group[s->slip.ghost[i]];
        int w = height(s, (c % size + 0.5) / size, (c / size + 0.5) / size) > 0 ? 1 : -1;
        if (*at && *at != w)
            s->leaks++;
        *at = w;
    }

    free(sign);
    srand(1);

    for (int i = 0; i < TRACERS; i++) {
        s->point[3 * i] = rand() / (RAND_MAX + 1.0);
        s->point[3 * i + 1] = rand() / (RAND_MAX + 1.0);
    }

    return 1;
}

static void draw(const scene *s, ex_image *image, int at, const fsi_real *begin) {
    ex_view view = ex_view_make(0, 0, 1, 1, 20 + at * 310, 40, 290, 290);
    const fsi_grid *grid = &s->grid;
    fsi_real *lost = (fsi_real *)calloc(grid->cells, sizeof *lost);

    /* difference from the streams: 0 white, 1 dark; each cell from its own side of the plate */
    for (int i = 0; lost && i < (int)grid->cells; i++) {
        size_t f = (size_t)(i + i / grid->nx);
        size_t e = (size_t)i;
        double sign =
            height(s, (i % grid->nx + 0.5) / grid->nx, (i / grid->nx + 0.5) / grid->ny) > 0 ? 1
                                                                                            : -1;
        lost[i] =
            hypot((grid->u_plus[0][f] + grid->u[0][f + 1]) / 2 - sign * s->t[0],
                  (grid->u_plus[1][e] + grid->u[1][e + (size_t)grid->nx]) / 2 - sign * s->t[1]);
    }

    if (lost)
        ex_draw_field(image, &view, grid->nx, grid->ny, lost, 0, 1, 3);
    free(lost);

    for (int i = 0; i < TRACERS; i += 2) {
        double x = s->point[3 * i];
        double y = s->point[3 * i + 1];
        if (x > 0.01 && x < 0.99 && y > 0.01 && y < 0.99)
            ex_disk(image, ex_px(&view, x), ex_py(&view, y), 1.3,
                    height(s, begin[3 * i], begin[3 * i + 1]) > 0 ? ex_rgb(20, 110, 200)
                                                                  : ex_rgb(215, 90, 40));
    }

    ex_line(image, ex_px(&view, fmax(0, 0.503 - 0.6 * s->t[0])),
            ex_py(&view, 0.4837 - 0.5 * s->t[1]), ex_px(&view, fmin(1, 0.503 + 0.5 * s->t[0])),
            ex_py(&view, 0.4837 + 0.5 * s->t[1]), 2.5, ex_rgb(30, 30, 30));
    ex_text(image, view.left, 16, 2, ex_rgb(20, 20, 20), at ? "VOXEL FACES" : "SLIP");
    ex_text(image, view.left, 336, 1, ex_rgb(20, 20, 20), at ? "BLUE: WHAT THE STREAMS LOST" : "");
}

static const ex_about about = {
    .name = "slip_plane",
    .what = "Opposite streams on the two sides of a thin sloping plate.",
    .size = 64,
    .frames = 24,
    .keys =
        {
            EX_NUMBER("angle", "rad", "of the plate, list", "0.19634954,0.11,0.37,0.731,1.3", 0,
                      3.1415),
        },
};

int main(int argc, char **argv) {
    static scene s[2];
    static fsi_real begin[2][3 * TRACERS];
    ex_args args;
    double angle[32];
    double error[2] = {0, 0};
    int leaks = 0;
    int crossed = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int n = ex_list(&args, "angle", angle, 32);

    /* the first angle last: it is shown */
    for (int k = n - 1; k >= 0; k--)
        for (int w = SLIP; w <= VOXEL; w++) {
            if (k < n - 1) {
                fsi_slip_free(&s[w].slip);
                fsi_grid_free(&s[w].grid);
            }
            stable = make(&s[w], args.size, angle[k], w) && stable;
            error[w] = fmax(error[w], s[w].error);
            leaks += s[w].leaks;
        }

    for (int w = SLIP; w <= VOXEL; w++)
        memcpy(begin[w], s[w].point, sizeof begin[w]);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        for (int w = SLIP; w <= VOXEL; w++)
            (void)fsi_slip_trace(&s[w].slip, 0.5 / args.size, TRACERS, s[w].point);
        if (args.out) {
            ex_image image = ex_image_make(640, 350);
            for (int w = SLIP; w <= VOXEL; w++)
                draw(&s[w], &image, w, begin[w]);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int i = 0; i < TRACERS; i++) { /* those still in the box */
        double x = s[0].point[3 * i];
        double y = s[0].point[3 * i + 1];
        double h = 1.0 / args.size;
        if (fmin(fmin(x, 1 - x), fmin(y, 1 - y)) < h)
            continue;
        int began_above = height(&s[0], begin[0][3 * i], begin[0][3 * i + 1]) > 0;
        int is_above = height(&s[0], x, y) > 0;
        crossed += began_above != is_above;
    }

    /* largest difference from the streams, which have speed 1; of all angles */
    ex_result("error", "%.3e", error[SLIP]);

    /* share of the tracers that changed sides */
    ex_result("leak", "%.5f", (double)crossed / TRACERS);
    ex_result("error_slip", "%.3e", error[SLIP]);
    ex_result("error_voxel", "%.3e", error[VOXEL]);
    ex_result("groups_on_both_sides", "%d", leaks);
    ex_result("tracers_crossed", "%d", crossed);

    for (int w = SLIP; w <= VOXEL; w++) {
        fsi_slip_free(&s[w].slip);
        fsi_grid_free(&s[w].grid);
    }

    return ex_end(&args, frame, stable);
}
