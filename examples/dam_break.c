/* dam_break: a column of water twice as high as wide falls into a dry tank; its front is compared
   with the experiment of Martin and Moyce (1952).

       build/dam_break --out out
       build/dam_break --size 70   half the cells

   Result: error of the front, and of the volume of the water. */
#define FSI_IMPLEMENTATION
#include "fsi_grid.h"
#include "common.h"

/* The experiment counts lengths in widths of the column and time in sqrt(width / 2 g):
       Z = front / width,  T = t sqrt(2 g / width). */
static const double width = 0.05715; /* of the column, m (2.25 inches) */

/* The points of the experiment with 1 < T < 4, digitised; its gate delays it by about 0.15. */
enum {
    POINTS = 4
};

static const double point_T[POINTS] = {1.219, 1.997, 2.547, 3.345},
                    point_Z[POINTS] = {1.474, 2.292, 2.995, 4.134}, gate_delay = 0.15;

/* Signed distance to the column in the left corner, twice as high as wide. */
static fsi_real column(fsi_vec3 x, void *user) {
    (void)user;
    double right = x.x - width;
    double above = x.y - 2 * width;
    int beyond_edge = right > 0 && above > 0;
    return beyond_edge ? sqrt(right * right + above * above) : fmax(right, above);
}

/* A tank seven columns wide and four high. */
static void make_tank(fsi_grid *grid, const ex_args *args) {
    fsi_grid_desc desc = {
        .nx = args->size,
        .ny = args->size * 4 / 7,
        .nz = ex_is(args, "dim", "3") ? args->size * 2 / 7 : 1,
        .h = 7 * width / args->size,
        .rho = ex_number(args, "density"),
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .liquid = 1,
        .cfl = ex_number(args, "cfl"),
        .particles = ex_whole(args, "particles"),
        .volume_correction = ex_is(args, "volume", "1") ? 1 : -1,
    };
    if (desc.ny < 3) {
        fprintf(stderr, "dam_break: cannot set up this size\n");
        exit(1);
    }

    ex_need(fsi_grid_init(grid, &desc));
    ex_need(fsi_grid_set_field(grid, FSI_FIELD_PHI, column, NULL));
}

/* ------------------------------------------------------------------------------------------------
 * the front */
/* The last wet place of a row of cells, m; 0 where it is dry. */
static double row_front(const fsi_grid *grid, int j, int k) {
    const fsi_real *phi = grid->phi + grid->nx * (j + grid->ny * k);
    for (int i = grid->nx - 1; i >= 0; i--) {
        if (!(phi[i] < 0))
            continue;
        int last = i + 1 == grid->nx;
        double beyond = last ? 0.5 : phi[i] / (phi[i] - phi[i + 1]); /* of the middle, cells */
        return (i + 0.5 + beyond) * grid->h;
    }

    return 0;
}

/* The farthest wet place in the three rows next to the floor, over the width of the column. */
static double front(const fsi_grid *grid) {
    double farthest = 0;
    for (int k = 0; k < grid->nz; k++)
        for (int j = 0; j < 3; j++)
            farthest = fmax(farthest, row_front(grid, j, k));
    return farthest / width;
}

/* Follows the front and compares it with the points of the experiment as they pass. */
typedef struct gauge {
    double T, Z; /* of the last step */
    double worst;
    int passed; /* points */
} gauge;

static void gauge_read(gauge *self, double T, double Z) {
    if (!(T > self->T))
        return;
    while (self->passed < POINTS && T >= point_T[self->passed] - gate_delay) {
        /* Linear between this step and the one before. */
        double since = point_T[self->passed] - gate_delay - self->T;
        double ours = self->Z + (Z - self->Z) * since / (T - self->T);
        self->worst = fmax(self->worst, fabs(ours / point_Z[self->passed] - 1));
        self->passed++;
    }

    self->T = T;
    self->Z = Z;
}

/* ------------------------------------------------------------------------------------------------
 * pictures */
/* Colours of the cells: the faster the water, the darker. */
static fsi_real *speed_colors(const fsi_grid *grid) {
    fsi_real *dark = (fsi_real *)ex_alloc(grid->cells, sizeof *dark);
    double fast = sqrt(4 * 9.81 * width);
    int nx = grid->nx;
    for (int j = 0; j < grid->ny; j++)
        for (int i = 0; i < nx; i++) {
            const fsi_real *across = grid->u[0] + i + (nx + 1) * j;
            const fsi_real *upward = grid->u[1] + i + nx * j;
            double x = (across[0] + across[1]) / 2;
            double y = (upward[0] + upward[nx]) / 2;
            dark[i + nx * j] = 0.35 + 0.6 * fmin(1, sqrt(x * x + y * y) / fast);
        }

    return dark;
}

/* The water of a 2D tank: a rim, and inside the colours of its speed. */
static void draw_water2(ex_image *image, const ex_view *view, const fsi_grid *grid) {
    fsi_real *dark = speed_colors(grid);
    double pixels = view->w / (view->x1 - view->x0); /* a metre */
    ex_draw_liquid(image, view, grid->nx, grid->ny, grid->phi, ex_rgb(60, 130, 205));
    for (int j = 0; j < view->h; j++)
        for (int i = 0; i < view->w; i++) {
            double x = (i + 0.5) / view->w;
            double y = 1 - (j + 0.5) / view->h;
            double distance = ex_field_at(grid->phi, grid->nx, grid->ny, x, y) * pixels;
            ex_color color = ex_map(EX_DEPTH, ex_field_at(dark, grid->nx, grid->ny, x, y));
            ex_blend(image, view->left + i, view->top + j, color, -1.5 - distance);
        }

    free(dark);
}

static void draw_tank2(ex_image *image, const fsi_grid *grid, double T) {
    double across = grid->nx * grid->h;
    double high = grid->ny * grid->h;
    ex_view view = ex_view_make(0, 0, across, high, 20, 40, 720, (int)(720 * high / across));
    draw_water2(image, &view, grid);

    /* The front of the experiment as a red tick around its time. */
    double bottom = ex_py(&view, 0);
    for (int k = 0; k < POINTS; k++) {
        double x = ex_px(&view, point_Z[k] * width);
        if (fabs(T + gate_delay - point_T[k]) < 0.25)
            ex_line(image, x, bottom - 14, x, bottom + 10, 3, ex_rgb(210, 40, 40));
    }

    /* Floor and walls. */
    double left = ex_px(&view, 0);
    double right = ex_px(&view, across);
    double top = ex_py(&view, high);
    ex_line(image, left, top, left, bottom, 3, ex_grey(90));
    ex_line(image, left, bottom, right, bottom, 3, ex_grey(90));
    ex_line(image, right, bottom, right, top, 3, ex_grey(90));
}

/* DIR/dam_break_0000.SUFFIX, numbered as the pictures. */
static void file_name(const ex_args *args, const char *suffix, char path[512]) {
    snprintf(path, 512, "%s/dam_break_%04d.%s", args->out, args->written, suffix);
}

static void draw_tank3(ex_image *image, const ex_args *args, const fsi_grid *grid) {
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {grid->nx * grid->h, grid->ny * grid->h, grid->nz * grid->h};
    double across = hi[0];
    ex_camera camera = ex_camera_make(0.62 * across, 0.85 * across, 1.35 * across, 0.49 * across,
                                      0.26 * across, hi[2] / 2, 1, 38);
    ex_floor(image, &camera, lo, hi, 1, -0.01 * hi[1], across / 14);

    /* The surface of the water as a mesh. */
    fsi_iso_desc desc = {
        .nx = grid->nx,
        .ny = grid->ny,
        .nz = grid->nz,
        .h = grid->h,
        .value = grid->phi,
        .closed = 1,
        .origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2),
    };
    fsi_iso_mesh surface = {0};
    if (fsi_iso_build(&desc, &surface) == FSI_OK) {
        ex_mesh mesh = {
            .vertices = surface.vertex_count,
            .triangles = surface.element_count,
            .x = surface.x,
            .index = surface.index,
            .color = ex_rgb(70, 145, 215),
            .glass = across / 10,
        };
        ex_draw_mesh(image, &camera, &mesh);
        char path[512];
        file_name(args, "obj", path);
        if (ex_is(args, "export", "1"))
            ex_obj_write(path, mesh.vertices, mesh.x, mesh.triangles, mesh.index);
        fsi_iso_free(&surface);
    }

    ex_box3(image, &camera, lo, hi, ex_grey(120));
}

static void draw(ex_args *args, const fsi_grid *grid, double T) {
    ex_image image = ex_image_make(760, 480);
    if (grid->dim == 2)
        draw_tank2(&image, grid, T);
    else
        draw_tank3(&image, args, grid);
    if (ex_is(args, "export", "1")) {
        char path[512];
        file_name(args, "vtk", path);
        ex_vtk(path, grid->nx, grid->ny, grid->nz, grid->h, "phi", grid->phi);
    }

    char text[64];
    snprintf(text, sizeof text, "T = %.2f   Z = %.2f", T, front(grid));
    ex_text(&image, 20, 14, 2, ex_grey(40), text);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "dam_break",
    .what = "A column of water collapses; front against Martin and Moyce (1952).",
    .size = 140,
    .frames = 100,
    .keys =
        {
            EX_WORD("dim", "dimensions", "2", "2,3"),
            EX_NUMBER("gravity", "m/s^2", "downward", "9.81", "0.1 to 100"),
            EX_NUMBER("density", "kg/m^3", "of the water", "1000", "1e-3 to 1e5"),
            EX_NUMBER("cfl", "cells", "longest way in a step", "1", "0.05 to 5"),
            EX_NUMBER("particles", "", "markers per cell side, -1 = none", "0", "-1 to 8"),
            EX_WORD("volume", "1: correct the volume", "1", "0,1"),
            EX_WORD("export", "1: VTK and OBJ files too", "0", "0,1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double time_scale = sqrt(2 * ex_number(&args, "gravity") / width); /* T a second */

    fsi_grid grid;
    make_tank(&grid, &args);
    double volume_at_first = fsi_levelset_volume(&grid.levelset, NULL, NULL);

    double T = 0;
    double iterations = 0;
    long steps = 0;
    gauge gauge = {.Z = 1};
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        /* A frame is 0.1 of the time unit of the experiment. Steps are shorter at the start, which
           is the delicate part, and the last one ends with the frame. */
        double frame_end = 0.1 * (frame + 1);
        while (ex_fine() && T < frame_end) {
            fsi_real dt = fsi_grid_max_dt(&grid) / (T < 1 ? 4 : 1);
            if (dt * time_scale > frame_end - T)
                dt = (frame_end - T) / time_scale * 1.000001;
            fsi_report report = {0};
            ex_try(fsi_grid_step(&grid, dt, &report));
            iterations += report.iterations;
            steps++;
            T = grid.time * time_scale;
            gauge_read(&gauge, T, front(&grid));
        }

        if (args.out)
            draw(&args, &grid, T);
        ex_progress(&args, frame);
    }

    double volume = fsi_levelset_volume(&grid.levelset, NULL, NULL);
    ex_result("front", "%.4f", gauge.Z);
    if (gauge.passed)
        ex_result("front_error", "%.4f", gauge.worst);
    ex_result("volume_error", "%.6f", fabs(volume / volume_at_first - 1));
    ex_result("iterations", "%.3f", steps ? iterations / (double)steps : 0.0);
    fsi_grid_free(&grid);
    return ex_end(&args, steps, ex_fine());
}
