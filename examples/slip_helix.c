/* slip_helix: a surface that is no solid steers smoke (Robinson-Mosher et al. 2009, fig. 1): a jet
   rises inside a helical tube whose wall only forbids flow through it. With slip the smoke slides
   along the tube, without it sticks to it.

       build/slip_helix --out out

   Result: share of the smoke outside the tube (leak), mean height of the smoke. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum {
    ALONG = 72,
    AROUND = 16,
    VERTICES = (ALONG + 1) * AROUND,
    TRIANGLES = 2 * ALONG * AROUND
};

/* m: radius of tube and helix, its start, its end; box 1 x 2 x 1 */
static const double tube = 0.21, turn = 0.22, straight = 0.2, high = 1.7;
static fsi_real x[3 * VERTICES];
static int32_t index_of[3 * TRIANGLES];

static void axis(double y, double *p) {
    double t = 2 * acos(-1) * 1.25 * fmax(0, y - straight) / (high - straight);
    p[0] = 0.5 + turn * cos(t);
    p[1] = y;
    p[2] = 0.5 + turn * sin(t);
}

static void make_tube(void) {
    int n = 0;

    for (int i = 0; i <= ALONG; i++)
        /* level circles: simple, and enough for a steep tube */
        for (int j = 0; j < AROUND; j++) {
            double p[3];
            double a = 2 * acos(-1) * j / AROUND;
            axis(high * i / ALONG, p);
            x[3 * (AROUND * i + j)] = p[0] + tube * cos(a);
            x[3 * (AROUND * i + j) + 1] = p[1];
            x[3 * (AROUND * i + j) + 2] = p[2] + tube * sin(a);
            if (i == ALONG)
                continue;
            index_of[n++] = AROUND * i + j;
            index_of[n++] = AROUND * (i + 1) + j;
            index_of[n++] = AROUND * i + (j + 1) % AROUND;
            index_of[n++] = AROUND * i + (j + 1) % AROUND;
            index_of[n++] = AROUND * (i + 1) + j;
            index_of[n++] = AROUND * (i + 1) + (j + 1) % AROUND;
        }
}

static void measure(const fsi_grid *grid, double *outside, double *height) {
    double all = 0;
    double out = 0;
    double up = 0;

    for (size_t c = 0; c < grid->cells; c++) {
        fsi_vec3 q = fsi_grid_cell_centre(grid, (int)(c % (size_t)grid->nx),
                                          (int)(c / (size_t)grid->nx % (size_t)grid->ny),
                                          (int)(c / ((size_t)grid->nx * (size_t)grid->ny)));
        double p[3];
        double d = grid->density[c];
        all += d;
        up += d * q.y;
        if (q.y > high)
            continue;
        axis(q.y, p);
        if (hypot(q.x - p[0], q.z - p[2]) > tube + 0.5 * grid->h)
            out += d;
    }

    *outside = all > 0 ? out / all : 0;
    *height = all > 0 ? up / all : 0;
}

static void draw(ex_image *all, fsi_grid *grid, const fsi_surface *surface, int at) {
    ex_image image = ex_image_make(400, 600);
    ex_camera camera = ex_camera_make(2.6, 1.7, 3.4, 0.5, 0.95, 0.5, 1, 34);
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {1, 2, 1};

    fsi_iso_mesh mesh = {0};
    ex_mesh glass = {surface->vertex_count, surface->element_count, surface->x,
                     surface->index,        {150, 190, 220},        3.0};
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.25);

    for (size_t i = 0; i < grid->cells; i++)
        grid->scratch[0][i] = 0.25 - grid->density[i];

    fsi_iso_desc desc = {
        .nx = grid->nx,
        .ny = grid->ny,
        .nz = grid->nz,
        .h = grid->h,
        .value = grid->scratch[0],
        .closed = 1,
        .origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2),
    };

    if (fsi_iso_build(&desc, &mesh) == FSI_OK) {
        ex_mesh smoke = {mesh.vertex_count, mesh.element_count, mesh.x,
                         mesh.index,        {90, 94, 105},      0};
        ex_draw_mesh(&image, &camera, &smoke);
        fsi_iso_free(&mesh);
    }

    ex_draw_mesh(&image, &camera, &glass);
    ex_box3(&image, &camera, lo, hi, ex_grey(130));
    ex_text(&image, 14, 14, 2, ex_grey(20), at ? "NO-SLIP" : "SLIP");
    ex_paste(all, &image, at * image.w, 0);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "slip_helix",
    .what = "A helical surface that is no solid steers a jet of smoke.",
    .size = 48,
    .frames = 60,
    .keys =
        {
            EX_WORD("wall", "of the tube", "both", "both,slip,noslip,none"),
            EX_NUMBER("dt", "s", "time step", "0.03", "1e-4 to 0.2"),
        },
};

int main(int argc, char **argv) {
    fsi_slip_desc given = {0};

    fsi_coupled *list[1];

    fsi_real coefficient[2] = {1, 0};
    fsi_grid grid[2];
    fsi_slip slip[2];
    ex_args args;
    double p[3];
    double outside[2];
    double height[2];
    double its = 0;
    int frame = 0;
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);

    /* whose results have the plain names */
    int main_one = ex_is(&args, "wall", "noslip");
    make_tube();

    fsi_grid_desc desc = {
        .nx = args.size / 2,
        .nz = args.size / 2,
        .ny = args.size,
        .h = 2.0 / args.size,
        .rho = 1,
        .smoke = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .buoyancy_temperature = 1,
        .up = fsi_vec(0, 1, 0),
    };

    axis(0, p);

    fsi_grid_source jet = {
        .lo = fsi_vec(p[0] - 0.12, 0, p[2] - 0.12),
        .hi = fsi_vec(p[0] + 0.12, 0.2, p[2] + 0.12),
        .set = FSI_SOURCE_VELOCITY | FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE
               | FSI_SOURCE_DIVERGENCE,
        .velocity = fsi_vec(0, 1, 0),
        .density = 1,
        .temperature = 1,
        .divergence = 2,
    };

    fsi_coupled door = {
        .surface.dim = 3,
        .surface.vertex_count = VERTICES,
        .surface.element_count = TRIANGLES,
        .surface.x = x,
        .surface.index = index_of,
    };

    list[0] = &door;

    fsi_scene scene = {
        .solid = list,
        .count = ex_is(&args, "wall", "none") ? 0 : 1,
    };

    for (int w = 0; w < 2; w++) {
        given.coefficient = &coefficient[w];
        given.passes = 1;
        stable = fsi_grid_init(&grid[w], &desc) == FSI_OK
                 && fsi_slip_init(&slip[w], &grid[w], &given) == FSI_OK
                 && fsi_grid_add_source(&grid[w], &jet) == FSI_OK && stable;
    }

    for (; frame < args.frames && stable; frame++) {
        for (int w = 0; w < 2 && stable; w++) {
            fsi_report report = {0};
            if (w ? ex_is(&args, "wall", "slip") || ex_is(&args, "wall", "none") : main_one)
                continue;
            stable = ex_try(fsi_slip_step(&slip[w], &scene, ex_number(&args, "dt"), &report)) >= 0;
            its += report.iterations;
            steps++;
        }

        if (args.out && frame % 3 == 2) {
            ex_image image = ex_image_make(800, 600);
            for (int w = 0; w < 2; w++)
                draw(&image, &grid[w], &door.surface, w);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int w = 0; w < 2; w++)
        measure(&grid[w], &outside[w], &height[w]);

    ex_result("leak", "%.5f", outside[main_one]);
    ex_result("height", "%.4f", height[main_one]);
    ex_result("leak_noslip", "%.5f", outside[1]);
    ex_result("height_noslip", "%.4f", height[1]);
    ex_result("iterations", "%.2f", its / (double)(steps > 0 ? steps : 1));

    for (int w = 0; w < 2; w++) {
        fsi_slip_free(&slip[w]);
        fsi_grid_free(&grid[w]);
    }

    return ex_end(&args, steps, stable);
}
