/* dam_break: a column of water twice as high as wide falls into a dry tank; its front is compared
   with the experiment of Martin and Moyce (1952).

       build/dam_break --out out
       build/dam_break --size 70   half the cells

   Result: error of the front, and of the volume of the water. */
#ifndef FSI_DECLARATIONS_ONLY
#define FSI_IMPLEMENTATION
#endif
#include "fsi_grid.h"
#include "common.h"

#define UNIT 0.05715 /* width of the column, m (2.25 inches) */

/* signed distance to the column in the left corner */
static fsi_real column(fsi_vec3 x, void *user) {
    double dx = x.x - UNIT;
    double dy = x.y - 2 * UNIT;
    (void)user;
    return dx > 0 && dy > 0 ? sqrt(dx * dx + dy * dy) : fmax(dx, dy);
}

/* farthest wet place near the floor, m */
static double front(const fsi_grid *grid) {
    double far_off = 0;

    for (int k = 0; k < grid->nz; k++)
        for (int j = 0; j < 3; j++)
            for (int i = grid->nx - 1; i >= 0; i--) {
                const fsi_real *p = grid->phi + i + grid->nx * (j + grid->ny * k);
                if (!(p[0] < 0))
                    continue;
                far_off =
                    fmax(far_off,
                         (i + 0.5 + (i + 1 < grid->nx ? (p[0] / (p[0] - p[1])) : 0.5)) * grid->h);
                break;
            }
    return far_off;
}

/* the experiment's points with 1 < T < 4: Z = x / a at T = t sqrt(2 g / a), digitised */
enum {
    POINTS = 4
};

static const double point_T[POINTS] = {1.219, 1.997, 2.547, 3.345},
                    point_Z[POINTS] = {1.474, 2.292, 2.995, 4.134};

/* 2D: the liquid, darker where it is faster, with a rim; the experiment's front as red ticks near
 * its time. */
static void section(ex_image *image, const ex_view *view, const fsi_grid *grid, double T) {
    fsi_real *speed = (fsi_real *)malloc(grid->cells * sizeof *speed);
    double top = sqrt(4 * 9.81 * UNIT);

    for (int j = 0; speed && j < grid->ny; j++)
        for (int i = 0; i < grid->nx; i++) {
            double x =
                (grid->u[0][i + (grid->nx + 1) * j] + grid->u[0][i + 1 + (grid->nx + 1) * j]) / 2;
            double y = (grid->u[1][i + grid->nx * j] + grid->u[1][i + grid->nx * (j + 1)]) / 2;
            speed[i + grid->nx * j] = (0.35 + 0.6 * fmin(1, sqrt(x * x + y * y) / top));
        }
    ex_draw_liquid(image, view, grid->nx, grid->ny, grid->phi, ex_rgb(60, 130, 205));

    for (int j = 0; speed && j < view->h; j++)
        for (int i = 0; i < view->w; i++) {
            double x = (i + 0.5) / view->w;
            double y = 1 - (j + 0.5) / view->h;
            double d =
                ex_field_at(grid->phi, grid->nx, grid->ny, x, y) * view->w / (view->x1 - view->x0);
            ex_blend(image, view->left + i, view->top + j,
                     ex_map(3, ex_field_at(speed, grid->nx, grid->ny, x, y)), -1.5 - d);
        }

    for (int k = 0; k < POINTS; k++)
        if (fabs(T + 0.15 - point_T[k]) < 0.25)
            ex_line(image, ex_px(view, point_Z[k] * UNIT), ex_py(view, 0) - 14,
                    ex_px(view, point_Z[k] * UNIT), ex_py(view, 0) + 10, 3, ex_rgb(210, 40, 40));
    free(speed);
}

static void picture(ex_args *args, const fsi_grid *grid, double T) {
    double w = grid->nx * grid->h;
    double h = grid->ny * grid->h;
    double d = grid->nz * grid->h;
    ex_image image = ex_image_make(760, 480);
    char text[64];
    if (grid->dim == 2) {
        ex_view view = ex_view_make(0, 0, w, h, 20, 40, 720, (int)(720 * h / w));
        section(&image, &view, grid, T);
        ex_line(&image, ex_px(&view, 0), ex_py(&view, h), ex_px(&view, 0), ex_py(&view, 0), 3,
                ex_grey(90));
        ex_line(&image, ex_px(&view, 0), ex_py(&view, 0), ex_px(&view, w), ex_py(&view, 0), 3,
                ex_grey(90));
        ex_line(&image, ex_px(&view, w), ex_py(&view, 0), ex_px(&view, w), ex_py(&view, h), 3,
                ex_grey(90));
    } else {
        ex_camera camera =
            ex_camera_make(0.62 * w, 0.85 * w, 1.35 * w, 0.49 * w, 0.26 * w, d / 2, 1, 38);
        double hi[3];
        double lo[3] = {0, 0, 0};
        hi[0] = w;
        hi[1] = h;
        hi[2] = d;
        ex_floor(&image, &camera, lo, hi, 1, -0.01 * h, w / 14);
        fsi_iso_desc id;
        memset(&id, 0, sizeof id);
        id.nx = grid->nx;
        id.ny = grid->ny;
        id.nz = grid->nz;
        id.h = grid->h;
        id.value = grid->phi;
        id.closed = 1;
        id.origin = fsi_vec(grid->h / 2, grid->h / 2, grid->h / 2);
        fsi_iso_mesh mesh;
        if (fsi_iso_build(&id, &mesh) == FSI_OK) {
            ex_mesh s;
            s.vertices = mesh.vertex_count;
            s.triangles = mesh.element_count;
            s.x = mesh.x;
            s.index = mesh.index;
            s.color = ex_rgb(70, 145, 215);
            s.glass = w / 10;
            ex_draw_mesh(&image, &camera, &s);
            if (ex_is(args, "export", "1")) {
                char path[512];
                snprintf(path, sizeof path, "%s/dam_break_%04d.obj", args->out, args->written);
                ex_obj_write(path, mesh.vertex_count, mesh.x, mesh.element_count, mesh.index);
            }
            fsi_iso_free(&mesh);
        }

        ex_box3(&image, &camera, lo, hi, ex_grey(120));
    }

    if (ex_is(args, "export", "1")) {
        char path[512];
        snprintf(path, sizeof path, "%s/dam_break_%04d.vtk", args->out, args->written);
        ex_vtk(path, grid->nx, grid->ny, grid->nz, grid->h, "phi", grid->phi);
    }

    snprintf(text, sizeof text, "T = %.2f   Z = %.2f", T, front(grid) / UNIT);
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
            EX_WORD("volume", "1: correct the volume", "0", "0,1"),
            EX_WORD("export", "1: VTK and OBJ files too", "0", "0,1"),
        },
};

int main(int argc, char **argv) {
    /* the gate delays the experiment by up to 0.15 */
    double worst = 0;
    double iterations = 0;
    double T = 0;
    double before = 1;
    double T_before = 0;
    double shift = 0.15;
    int stable = 1;
    int point = 0;
    long steps = 0;
    ex_args args;

    ex_begin(&args, argc, argv, &about);
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = args.size;
    desc.ny = args.size * 4 / 7;
    desc.nz = ex_is(&args, "dim", "3") ? args.size * 2 / 7 : 1;
    desc.h = 7 * UNIT / args.size;
    desc.rho = ex_number(&args, "density");
    desc.gravity.y = -ex_number(&args, "gravity");
    desc.liquid = 1;
    desc.cfl = ex_number(&args, "cfl");
    desc.particles = ex_whole(&args, "particles");
    desc.volume_correction = ex_is(&args, "volume", "1");

    fsi_grid grid;
    if (desc.ny < 3 || fsi_grid_init(&grid, &desc) != FSI_OK
        || fsi_grid_set_field(&grid, FSI_FIELD_PHI, column, NULL) < 0) {
        fprintf(stderr, "dam_break: cannot set up this size\n");
        return 1;
    }

    double V = fsi_levelset_volume(&grid.levelset, NULL, NULL);
    double scale = sqrt(2 * ex_number(&args, "gravity") / UNIT);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        /* a frame is 0.1 of the experiment's time unit */
        while (stable && T < 0.1 * (frame + 1)) {
            /* the start is the delicate part */
            fsi_real dt = fsi_grid_max_dt(&grid) / (T < 1 ? 4 : 1);
            if (dt * scale > 0.1 * (frame + 1) - T)
                dt = ((0.1 * (frame + 1) - T) / scale * 1.000001);
            fsi_report report;
            stable = fsi_grid_step(&grid, dt, &report) >= 0;
            iterations += report.iterations;
            steps++;
            T = grid.time * scale;
            if (T - T_before > 0) {
                double z = front(&grid) / UNIT;
                for (; point < POINTS && T >= point_T[point] - shift; point++)
                    worst = fmax(worst, fabs((before
                                              + (z - before) * (point_T[point] - shift - T_before)
                                                    / (T - T_before))
                                                 / point_Z[point]
                                             - 1));
                before = z;
                T_before = T;
            }
        }

        if (args.out)
            picture(&args, &grid, T);
        ex_progress(&args, frame);
    }

    ex_result("front", "%.4f", before);
    if (point)
        ex_result("front_error", "%.4f", worst);
    ex_result("volume_error", "%.6f",
              fabs(fsi_levelset_volume(&grid.levelset, NULL, NULL) / V - 1));
    ex_result("iterations", "%.3f", steps ? iterations / (double)steps : 0.0);
    fsi_grid_free(&grid);
    return ex_end(&args, steps, stable);
}
