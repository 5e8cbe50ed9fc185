/* cloth_pull: a sheet is pulled out of a pool, slip beside no-slip (Robinson-Mosher et al. 2009,
   fig. 9), in the plane, two-way: a hand holds the upper end. With slip the sheet slides out and
   leaves the water behind; without it water sticks to the sheet, is lifted with it and stretches
   it.

       build/cloth_pull --out out

   Result: water lifted above the pool and stretch of the sheet, for both walls. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    SLIP,
    NOSLIP,
    NODES = 25
};

static const double level = 0.55, lean = 0.15, length = 0.65;

typedef struct pool {
    sheet s;
    double volume, most, stretch;
} pool;

static fsi_real below(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

static int make(pool *p, const fsi_mesh *mesh, int size, double coefficient, double density,
                double stiff) {
    static unsigned char pin[NODES];

    fsi_grid_desc desc = {
        .nx = size * 2 / 3,
        .ny = size,
        .nz = 1,
        .h = 1.5 / size,
        .rho = 1000,
        .gravity.y = -9.81,
        .liquid = 1,
        .shells = 1,
        .volume_correction = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };

    pin[NODES - 1] = 7;

    fsi_soft_desc given = {
        .dim = 2,
        .area_density = density,
        .stretch = stiff,
        .bend = 0.02,
        .damping_stiffness = 0.02,
        .gravity.y = -9.81,
        .pin = pin,
    };

    if (!sheet_make(&p->s, &desc, &given, mesh, coefficient, 0)
        || fsi_grid_set_field(&p->s.grid, FSI_FIELD_PHI, below, NULL) < 0)
        return 0;
    p->volume = fsi_levelset_volume(&p->s.grid.levelset, NULL, NULL);
    return 1;
}

/* the hand, along the sheet as it was */
static void pull(pool *p, double speed) {
    p->s.cloth.drive[3 * (NODES - 1)] = speed * lean / hypot(lean, length);
    p->s.cloth.drive[3 * (NODES - 1) + 1] = speed * length / hypot(lean, length);
}

static double longer(const pool *p) { /* stretch of the whole sheet */
    const fsi_real *x = p->s.cloth.x;
    double sum = 0;

    for (int i = 0; i < NODES - 1; i++)
        sum += hypot(x[3 * i + 3] - x[3 * i], x[3 * i + 4] - x[3 * i + 1]);
    return sum / hypot(lean, length) - 1;
}

/* water well above the level it started from, m^2 */
static double lifted(const pool *p) {
    const fsi_grid *grid = &p->s.grid;
    double sum = 0;

    for (size_t c = 0; c < grid->cells; c++)
        if (grid->levelset.phi[c] < 0
            && ((double)(c / (size_t)grid->nx) + 0.5) * grid->h > level + 0.06)
            sum += grid->h * grid->h;
    return sum;
}

static void draw(const pool *p, ex_image *image, int at) {
    ex_view view = ex_view_make(0, 0, 1, 1.5, 14 + at * 310, 40, 300, 450);
    const fsi_real *x = p->s.cloth.x;
    ex_draw_liquid(image, &view, p->s.grid.nx, p->s.grid.ny, p->s.grid.levelset.phi,
                   ex_rgb(90, 150, 220));

    for (int i = 0; i < NODES - 1; i++)
        ex_line(image, ex_px(&view, x[3 * i]), ex_py(&view, x[3 * i + 1]),
                ex_px(&view, x[3 * i + 3]), ex_py(&view, x[3 * i + 4]), 3, ex_rgb(200, 50, 30));
    ex_disk(image, ex_px(&view, x[3 * NODES - 3]), ex_py(&view, x[3 * NODES - 2]), 5,
            ex_rgb(60, 60, 60));
    ex_text(image, view.left, 16, 2, ex_rgb(20, 20, 20), at ? "NO-SLIP" : "SLIP");
}

static const ex_about about = {
    .name = "cloth_pull",
    .what = "A sheet pulled out of water, slip beside no-slip.",
    .size = 72,
    .frames = 90,
    .keys =
        {
            EX_WORD("wall", "which to run", "both", "both,slip,noslip"),
            EX_NUMBER("speed", "m/s", "of the hand", "1.5", 0, 10),
            EX_NUMBER("dt", "s", "time step", "0.005", 1e-4, 0.05),
            EX_NUMBER("density", "kg/m", "of the sheet", "2", 0.01, 1000),
            EX_NUMBER("stretch", "N", "stiffness of the sheet", "4000", 1, 1e6),
        },
};

int main(int argc, char **argv) {
    static pool p[2];
    ex_args args;
    double leak[2] = {0, 0};
    int frame = 0;
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    fsi_mesh mesh;
    ex_need(fsi_mesh_strip(&mesh, fsi_vec(0.5 - lean / 2, 0.1, 0),
                           fsi_vec(0.5 + lean / 2, 0.1 + length, 0), NODES - 1, NULL));

    for (int w = SLIP; w <= NOSLIP; w++)
        stable = make(&p[w], &mesh, args.size, w == SLIP, ex_number(&args, "density"),
                      ex_number(&args, "stretch"))
                 && stable;

    for (; frame < args.frames && stable; frame++) {
        for (int w = SLIP; w <= NOSLIP && stable; w++) {
            if (ex_is(&args, "wall", w ? "slip" : "noslip"))
                continue;

            /* it takes a tenth of a second to start */
            pull(&p[w], ex_number(&args, "speed") * fmin(1, frame * ex_number(&args, "dt") / 0.1));
            stable = sheet_step(&p[w].s, ex_number(&args, "dt")) >= 0
                     && fsi_all_finite(3 * NODES, p[w].s.cloth.x);
            p[w].most = fmax(p[w].most, lifted(&p[w]));
            p[w].stretch = fmax(p[w].stretch, longer(&p[w]));
            steps++;
        }

        if (args.out) {
            ex_image image = ex_image_make(640, 500);
            for (int w = SLIP; w <= NOSLIP; w++)
                draw(&p[w], &image, w);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int w = SLIP; w <= NOSLIP; w++) {
        ex_result(w ? "lifted_noslip" : "lifted_slip", "%.5f", p[w].most);

        /* largest of the whole sheet in the run */
        ex_result(w ? "stretch_noslip" : "stretch_slip", "%.5f", p[w].stretch);

        /* largest of one element at the end */
        ex_result(w ? "stretch_element_noslip" : "stretch_element_slip", "%.5f",
                  sheet_stretch(&p[w].s, &mesh));
        ex_result(w ? "volume_error_noslip" : "volume_error", "%.5f",
                  fsi_levelset_volume(&p[w].s.grid.levelset, NULL, NULL) / p[w].volume - 1);
        ex_result(w ? "leak_noslip" : "leak_slip", "%.3e",
                  leak[w] = p[w].s.report.divergence * p[w].s.grid.h
                            / fmax(ex_number(&args, "speed"), 1e-9));
        sheet_free(&p[w].s);
    }

    /* worst flux out of a cell beside the sheet, over cell side and the hand's speed */
    ex_result("leak", "%.3e", leak[ex_is(&args, "wall", "noslip")]);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, stable);
}
