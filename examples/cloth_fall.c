/* cloth_fall: a light sheet falls through air, slip beside no-slip (Robinson-Mosher et al. 2009,
   fig. 11), in the plane. Tracers show the air.

       build/cloth_fall --out out

   Result: how far the sheet slid sideways and fell, and the tracers that got through it (leak). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    SLIP,
    NOSLIP,
    NODES = 17,
    TRACERS = 500,
    TRAIL = 40
};

/* ground and side walls */
static fsi_real room(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    double side = fmin(x.x, 1 - x.x) - 0.02;
    double up = x.y - 0.05;
    (void)user;
    *normal = up < side ? fsi_vec(0, 1, 0) : fsi_vec(x.x < 0.5 ? 1 : -1, 0, 0);
    *velocity = fsi_vec(0, 0, 0);
    return fmin(up, side);
}

static int make(sheet *s, const fsi_mesh *mesh, int size, double coefficient, double density,
                double bend) {
    fsi_grid_desc desc = {
        .nx = size * 2 / 3,
        .ny = size,
        .nz = 1,
        .h = 1.5 / size,
        .rho = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    fsi_soft_desc given = {
        .dim = 2,
        .area_density = density,
        .stretch = 20,
        .bend = bend,
        .damping_stiffness = 0.01,
        .gravity.y = -9.81,
    };

    int ok = sheet_make(s, &desc, &given, mesh, coefficient, TRACERS);
    s->wall[0].distance_fn = room;
    s->wall[0].friction = 0.3;
    s->walls = 1;

    for (int i = 0; i < TRACERS; i++) {
        s->point[3 * i] = (0.1 + 0.8 * (i * 0.618033988749895 - floor(i * 0.618033988749895)));
        s->point[3 * i + 1] = 0.1 + 1.3 * i / TRACERS;
    }

    return ok;
}

static void centre(const sheet *s, double *x) {
    x[0] = x[1] = 0;

    for (int i = 0; i < NODES; i++) {
        x[0] += s->cloth.x[3 * i] / NODES;
        x[1] += s->cloth.x[3 * i + 1] / NODES;
    }
}

/* where the sheets were, for the picture */
static fsi_real trail[2][TRAIL][3 * NODES];

static void draw(const sheet *s, ex_image *image, int at, int trails) {
    ex_view view = ex_view_make(0, 0, 1, 1.5, 14 + at * 310, 40, 300, 450);
    fsi_surface surface = fsi_soft_surface(&s->cloth);
    ex_line(image, ex_px(&view, 0), ex_py(&view, 0.05), ex_px(&view, 1), ex_py(&view, 0.05), 2,
            ex_rgb(120, 120, 120));

    for (int i = 0; i < TRACERS; i++) {
        double a[2], b[2];
        for (int k = 0; k < 2; k++) {
            a[k] = s->before[3 * i + k];
            b[k] = s->point[3 * i + k];
            a[k] += 5 * (b[k] - a[k]);
        }

        ex_line(image, ex_px(&view, a[0]), ex_py(&view, a[1]), ex_px(&view, b[0]),
                ex_py(&view, b[1]), 1.5, ex_rgb(90, 140, 200));
    }

    for (int k = 0; k < trails; k++)
        for (int i = 0; i < NODES - 1; i++) {
            const fsi_real *x = trail[at][k] + 3 * i;
            ex_line(image, ex_px(&view, x[0]), ex_py(&view, x[1]), ex_px(&view, x[3]),
                    ex_py(&view, x[4]), 2, ex_rgb(240, 180, 165));
        }

    for (int i = 0; i < surface.element_count; i++)
        ex_line(image, ex_px(&view, surface.x[3 * surface.index[2 * i]]),
                ex_py(&view, surface.x[3 * surface.index[2 * i] + 1]),
                ex_px(&view, surface.x[3 * surface.index[2 * i + 1]]),
                ex_py(&view, surface.x[3 * surface.index[2 * i + 1] + 1]), 4, ex_rgb(200, 50, 30));
    ex_text(image, view.left, 16, 2, ex_rgb(20, 20, 20), at ? "NO-SLIP" : "SLIP");
}

static const ex_about about = {
    .name = "cloth_fall",
    .what = "A light sheet falls through air, slip beside no-slip.",
    .size = 60,
    .frames = 160,
    .keys =
        {
            EX_WORD("wall", "which to run", "both", "both,slip,noslip"),
            EX_NUMBER("density", "kg/m^2", "of the sheet", "0.3", 0.01, 100),
            EX_NUMBER("bend", "N m", "bending stiffness", "0.02", 0, 100),
            EX_NUMBER("dt", "s", "time step", "0.005", 1e-4, 0.05),
        },
};

int main(int argc, char **argv) {
    static sheet s[2];
    ex_args args;
    double from[2], to[2];
    int frame = 0;
    int stable = 1;
    int trails = 0;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    fsi_mesh mesh;
    ex_need(fsi_mesh_strip(&mesh, fsi_vec(0.48, 1.13, 0), fsi_vec(0.88, 1.31, 0), NODES - 1, NULL));

    for (int w = SLIP; w <= NOSLIP; w++)
        stable = make(&s[w], &mesh, args.size, w == SLIP, ex_number(&args, "density"),
                      ex_number(&args, "bend"))
                 && stable;
    centre(&s[0], from);

    for (; frame < args.frames && stable; frame++) {
        for (int w = SLIP; w <= NOSLIP && stable; w++)
            if (!ex_is(&args, "wall", w ? "slip" : "noslip")) {
                stable = sheet_step(&s[w], dt) >= 0 && fsi_all_finite(3 * NODES, s[w].cloth.x);
                steps++;
            }
        if (frame % 12 == 0 && trails < TRAIL) {
            for (int w = SLIP; w <= NOSLIP; w++)
                memcpy(trail[w][trails], s[w].cloth.x, sizeof trail[w][0]);
            trails++;
        }

        if (args.out && frame % 4 == 3) {
            ex_image image = ex_image_make(640, 500);
            for (int w = SLIP; w <= NOSLIP; w++)
                draw(&s[w], &image, w, trails);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int w = SLIP; w <= NOSLIP; w++) {
        centre(&s[w], to);
        ex_result(w ? "slid_noslip" : "slid_slip", "%.4f", to[0] - from[0]);
        ex_result(w ? "fell_noslip" : "fell_slip", "%.4f", from[1] - to[1]);
        ex_result(w ? "stretch_noslip" : "stretch_slip", "%.4f", sheet_stretch(&s[w], &mesh));
        ex_result(w ? "crossed_noslip" : "crossed_slip", "%d", s[w].crossed);
        sheet_free(&s[w]);
    }

    /* share of the tracers */
    ex_result("leak", "%.5f", (double)s[ex_is(&args, "wall", "noslip")].crossed / TRACERS);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
