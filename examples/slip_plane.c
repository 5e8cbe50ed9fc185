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
    WALLS, /* kinds of walls that are compared */
    TRACERS = 3000,
    ANGLES = 32
};

static const double middle_x = 0.503, middle_y = 0.4837; /* a point of the plate, m */

typedef struct scene {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door;
    fsi_coupled *list[1];
    fsi_real end[6]; /* the two ends of the plate, far outside the box */
    fsi_real point[3 * TRACERS];
    fsi_real begin[3 * TRACERS];
    double along[2], normal[2]; /* directions of the plate */
    double error;               /* largest difference from the streams, which have speed 1 */
    int mixed;                  /* islands of ghost cells on both sides: must be none */
} scene;

/* Signed distance to the plate. */
static double height(const scene *plate, double x, double y) {
    return (x - middle_x) * plate->normal[0] + (y - middle_y) * plate->normal[1];
}

/* The streams at (x, y): along the plate above it, against it below. */
static double stream(const scene *plate, int axis, double x, double y) {
    return height(plate, x, y) > 0 ? plate->along[axis] : -plate->along[axis];
}

static double distance_to_box(double x, double y) {
    return fmin(fmin(x, 1 - x), fmin(y, 1 - y));
}

/* Calls for every face: set = 1 gives the fluid the streams; set = 0 returns the largest difference
   from them, four cells away from the sides of the box. */
static double streams(scene *plate, int set) {
    fsi_grid *grid = &plate->grid;
    double worst = 0;
    double h = grid->h;
    for (int axis = 0; axis < 2; axis++) {
        int columns = grid->nx + (axis == 0);
        int rows = grid->ny + (axis == 1);
        for (int face = 0; face < columns * rows; face++) {
            /* The middle of the face, moved into the box. */
            fsi_vec3 middle = fsi_grid_face_centre(grid, axis, face % columns, face / columns, 0);
            double x = ex_clamp(middle.x, h / 2, 1 - h / 2);
            double y = ex_clamp(middle.y, h / 2, 1 - h / 2);

            double want = stream(plate, axis, x, y);
            int counts = !plate->slip.iface.blocked[axis][face] && distance_to_box(x, y) > 4 * h;
            if (set)
                grid->u[axis][face] = grid->u_plus[axis][face] = want;
            else if (counts)
                worst = fmax(worst, fabs(grid->u[axis][face] - want));
        }
    }

    return worst;
}

/* Ghost cells that act together must lie on one side of the plate: counts where they do not. */
static int count_mixed(const scene *plate) {
    int size = plate->grid.nx;
    int mixed = 0;
    int *side_of = (int *)ex_alloc((size_t)plate->slip.islands + 1, sizeof *side_of);
    for (int i = 0; i < plate->slip.iface.sides; i++) {
        int cell = plate->slip.iface.side[i].cell;
        double x = (cell % size + 0.5) / size;
        double y = (cell / size + 0.5) / size;
        int side = height(plate, x, y) > 0 ? 1 : -1;
        int *known = &side_of[plate->slip.island[plate->slip.ghost[i]]];
        mixed += *known && *known != side;
        *known = side;
    }

    free(side_of);
    return mixed;
}

/* A box of 1 m x 1 m, open all around, with a plate through it. */
static void make(scene *plate, int size, double angle, int wall) {
    static const int32_t segment[2] = {0, 1};
    static fsi_real no_slip = 0; /* with a coefficient of 0 only voxel faces are left */
    memset(plate, 0, sizeof *plate);
    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1,
        .shells = 1,
    };
    for (int side = FSI_LEFT; side <= FSI_TOP; side++)
        desc.side[side].kind = FSI_SIDE_OPEN;
    fsi_slip_desc given = {
        .coefficient = wall == VOXEL ? &no_slip : NULL,
        .tolerance = 1e-10,
    };
    ex_need(fsi_grid_init(&plate->grid, &desc));
    ex_need(fsi_slip_init(&plate->slip, &plate->grid, &given));

    /* The plate: one segment, 4 m long. */
    plate->along[0] = cos(angle);
    plate->along[1] = sin(angle);
    plate->normal[0] = -plate->along[1];
    plate->normal[1] = plate->along[0];
    fsi_vec_store(plate->end,
                  fsi_vec(middle_x - 2 * plate->along[0], middle_y - 2 * plate->along[1], 0));
    fsi_vec_store(plate->end + 3,
                  fsi_vec(middle_x + 2 * plate->along[0], middle_y + 2 * plate->along[1], 0));
    plate->door.surface.dim = 2;
    plate->door.surface.vertex_count = 2;
    plate->door.surface.element_count = 1;
    plate->door.surface.x = plate->end;
    plate->door.surface.index = segment;
    plate->list[0] = &plate->door;
}

/* One projection of the streams: what is left of them? */
static void solve(scene *plate) {
    ex_try(fsi_slip_detect(&plate->slip, plate->list, 1));
    if (!ex_fine())
        return;
    streams(plate, 1);
    ex_try(fsi_slip_solve(&plate->slip, plate->grid.h, NULL));
    plate->error = streams(plate, 0);
    plate->mixed = count_mixed(plate);

    srand(1);
    for (int i = 0; i < TRACERS; i++) {
        plate->point[3 * i] = rand() / (RAND_MAX + 1.0);
        plate->point[3 * i + 1] = rand() / (RAND_MAX + 1.0);
    }

    memcpy(plate->begin, plate->point, sizeof plate->begin);
}

static void end(scene *plate) {
    fsi_slip_free(&plate->slip);
    fsi_grid_free(&plate->grid);
}

/* Tracers that changed sides, of those still in the box. */
static int count_crossed(const scene *plate) {
    int crossed = 0;
    for (int i = 0; i < TRACERS; i++) {
        const fsi_real *now = plate->point + 3 * i;
        const fsi_real *then = plate->begin + 3 * i;
        if (distance_to_box(now[0], now[1]) < plate->grid.h)
            continue;
        int began_above = height(plate, then[0], then[1]) > 0;
        int is_above = height(plate, now[0], now[1]) > 0;
        crossed += began_above != is_above;
    }

    return crossed;
}

/* ---- pictures */
/* Difference of the flow from the streams in each cell, taken from its own side of the plate. */
static void draw_loss(ex_image *image, const ex_view *view, const scene *plate) {
    const fsi_grid *grid = &plate->grid;
    fsi_real *lost = (fsi_real *)ex_alloc(grid->cells, sizeof *lost);
    for (int cell = 0; cell < (int)grid->cells; cell++) {
        int left = cell + cell / grid->nx;
        double x = (cell % grid->nx + 0.5) / grid->nx;
        double y = (cell / grid->nx + 0.5) / grid->ny;
        double u = (grid->u_plus[0][left] + grid->u[0][left + 1]) / 2;
        double v = (grid->u_plus[1][cell] + grid->u[1][cell + grid->nx]) / 2;
        lost[cell] = hypot(u - stream(plate, 0, x, y), v - stream(plate, 1, x, y));
    }

    ex_draw_field(image, view, grid->nx, grid->ny, lost, 0, 1, EX_DEPTH);
    free(lost);
}

/* Every second tracer, in the colour of the side where it began. */
static void draw_tracers(ex_image *image, const ex_view *view, const scene *plate) {
    for (int i = 0; i < TRACERS; i += 2) {
        const fsi_real *now = plate->point + 3 * i;
        const fsi_real *then = plate->begin + 3 * i;
        int above = height(plate, then[0], then[1]) > 0;
        ex_color color = above ? ex_rgb(20, 110, 200) : ex_rgb(215, 90, 40);
        if (distance_to_box(now[0], now[1]) > 0.01)
            ex_disk(image, ex_px(view, now[0]), ex_py(view, now[1]), 1.3, color);
    }
}

static void draw(ex_image *image, const scene *plate, int wall) {
    ex_view view = ex_view_make(0, 0, 1, 1, 20 + wall * 310, 40, 290, 290);
    ex_color black = ex_grey(20);
    draw_loss(image, &view, plate);
    draw_tracers(image, &view, plate);

    double left = ex_px(&view, fmax(0, middle_x - 0.6 * plate->along[0]));
    double right = ex_px(&view, fmin(1, middle_x + 0.5 * plate->along[0]));
    double bottom = ex_py(&view, middle_y - 0.5 * plate->along[1]);
    double top = ex_py(&view, middle_y + 0.5 * plate->along[1]);
    ex_line(image, left, bottom, right, top, 2.5, ex_grey(30));
    ex_text(image, view.left, 16, 2, black, wall == SLIP ? "SLIP" : "VOXEL FACES");
    if (wall == VOXEL)
        ex_text(image, view.left, 336, 1, black, "BLUE: WHAT THE STREAMS LOST");
}

static const ex_about about = {
    .name = "slip_plane",
    .what = "Opposite streams on the two sides of a thin sloping plate.",
    .size = 64,
    .frames = 24,
    .keys =
        {
            EX_NUMBER("angle", "rad", "of the plate, list", "0.19634954,0.11,0.37,0.731,1.3",
                      "0 to 3.1415"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);

    /* All angles with both walls. The first angle comes last: it is the one shown. */
    static scene walls[WALLS];
    double angle[ANGLES];
    double error[WALLS] = {0, 0};
    int mixed = 0;
    int angles = ex_list(&args, "angle", angle, ANGLES);
    for (int k = angles - 1; k >= 0; k--)
        for (int wall = SLIP; wall < WALLS; wall++) {
            if (k < angles - 1)
                end(&walls[wall]);
            make(&walls[wall], args.size, angle[k], wall);
            solve(&walls[wall]);
            error[wall] = fmax(error[wall], walls[wall].error);
            mixed += walls[wall].mixed;
        }

    /* Tracers run along, half a cell a frame. */
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS; wall++)
            ex_try(fsi_slip_trace(&walls[wall].slip, TRACERS, walls[wall].point, 0.5 / args.size));
        if (args.out) {
            ex_image image = ex_image_make(640, 350);
            for (int wall = SLIP; wall < WALLS; wall++)
                draw(&image, &walls[wall], wall);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    int crossed = count_crossed(&walls[SLIP]);
    ex_result("error", "%.3e", error[SLIP]);
    ex_result("leak", "%.5f", (double)crossed / TRACERS);
    ex_result("error_slip", "%.3e", error[SLIP]);
    ex_result("error_voxel", "%.3e", error[VOXEL]);
    ex_result("groups_on_both_sides", "%d", mixed);
    ex_result("tracers_crossed", "%d", crossed);
    end(&walls[SLIP]);
    end(&walls[VOXEL]);
    return ex_end(&args, frame, ex_fine());
}
