/* cloth_fall: a light sheet falls through air, slip beside no-slip (Robinson-Mosher et al. 2009,
   fig. 11), in the plane. Tracers show the air.

       build/cloth_fall --out out

   Result: how far the sheet slid sideways and fell, and the tracers that got through it (leak). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "slip_sheet.h"

enum {
    NODES = 17,
    TRACERS = 500,
    TRAIL = 40 /* shapes of the sheet that stay in the picture */
};

static const double ground = 0.05; /* m */

/* Distance to ground and side walls. */
static fsi_real room(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    (void)user;
    double side = fmin(x.x, 1 - x.x) - 0.02;
    double up = x.y - ground;
    *normal = up < side ? fsi_vec(0, 1, 0) : fsi_vec(x.x < 0.5 ? 1 : -1, 0, 0);
    *velocity = fsi_vec(0, 0, 0);
    return fmin(up, side);
}

/* Air in a box of 1 m x 1.5 m, open above, with a sheet that cannot enter ground and walls. */
static void make(sheet *air, const fsi_mesh *mesh, const ex_args *args, double coefficient) {
    fsi_grid_desc desc = {
        .nx = args->size * 2 / 3,
        .ny = args->size,
        .nz = 1,
        .h = 1.5 / args->size,
        .rho = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    fsi_soft_desc cloth = {
        .dim = 2,
        .area_density = ex_number(args, "density"),
        .stretch = 20,
        .bend = ex_number(args, "bend"),
        .damping_stiffness = 0.01,
        .gravity = fsi_vec(0, -9.81, 0),
    };
    sheet_make(air, &desc, &cloth, mesh, coefficient, TRACERS);
    air->wall[0].distance_fn = room;
    air->wall[0].friction = 0.3;
    air->walls = 1;

    /* Tracers spread evenly. */
    const double golden = 0.618033988749895;
    for (int i = 0; i < TRACERS; i++) {
        double turn = i * golden - floor(i * golden);
        air->point[3 * i] = 0.1 + 0.8 * turn;
        air->point[3 * i + 1] = 0.1 + 1.3 * i / TRACERS;
    }
}

/* The mean of all nodes. */
static fsi_vec3 centre(const sheet *air) {
    fsi_vec3 sum = fsi_vec(0, 0, 0);
    for (int i = 0; i < NODES; i++) {
        sum.x += air->cloth.x[3 * i] / NODES;
        sum.y += air->cloth.x[3 * i + 1] / NODES;
    }

    return sum;
}

/* ---- pictures */
/* Where the sheets were. */
static fsi_real trail[WALLS][TRAIL][3 * NODES];

/* A tracer is a line five times as long as its way in the last step. */
static void draw_tracer(ex_image *image, const ex_view *view, const sheet *air, int i) {
    const fsi_real *now = air->point + 3 * i;
    const fsi_real *before = air->before + 3 * i;
    double x = before[0] + 5 * (now[0] - before[0]);
    double y = before[1] + 5 * (now[1] - before[1]);
    ex_line(image, ex_px(view, x), ex_py(view, y), ex_px(view, now[0]), ex_py(view, now[1]), 1.5,
            ex_rgb(90, 140, 200));
}

static void draw(ex_image *image, const sheet *air, int wall, int trails) {
    ex_view view = ex_view_make(0, 0, 1, 1.5, 14 + wall * 310, 40, 300, 450);
    double floor_row = ex_py(&view, ground);
    ex_line(image, ex_px(&view, 0), floor_row, ex_px(&view, 1), floor_row, 2, ex_grey(120));
    for (int i = 0; i < TRACERS; i++)
        draw_tracer(image, &view, air, i);
    for (int k = 0; k < trails; k++)
        sheet_draw2(image, &view, trail[wall][k], NODES, 2, ex_rgb(240, 180, 165));
    sheet_draw2(image, &view, air->cloth.x, NODES, 4, ex_rgb(200, 50, 30));
    ex_text(image, view.left, 16, 2, ex_grey(20), wall == SLIP ? "SLIP" : "NO-SLIP");
}

static const ex_about about = {
    .name = "cloth_fall",
    .what = "A light sheet falls through air, slip beside no-slip.",
    .size = 60,
    .frames = 160,
    .keys =
        {
            EX_WORD("wall", "which to run", "both", "both,slip,noslip"),
            EX_NUMBER("density", "kg/m^2", "of the sheet", "0.3", "0.01 to 100"),
            EX_NUMBER("bend", "N m", "bending stiffness", "0.02", "0 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-4 to 0.05"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");

    /* The same sloping sheet twice, one with a slip coefficient of 1, one with 0. */
    static sheet air[WALLS];
    fsi_mesh mesh;
    ex_need(fsi_mesh_strip(&mesh, fsi_vec(0.48, 1.13, 0), fsi_vec(0.88, 1.31, 0), NODES - 1, NULL));
    for (int wall = SLIP; wall < WALLS; wall++)
        make(&air[wall], &mesh, &args, wall == SLIP);
    fsi_vec3 from = centre(&air[SLIP]);

    long steps = 0;
    int trails = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS && ex_fine(); wall++)
            if (wall_runs(&args, wall)) {
                sheet_step(&air[wall], dt);
                steps++;
            }

        /* Every twelfth shape stays in the picture. */
        if (frame % 12 == 0 && trails < TRAIL) {
            for (int wall = SLIP; wall < WALLS; wall++)
                memcpy(trail[wall][trails], air[wall].cloth.x, sizeof trail[wall][0]);
            trails++;
        }

        if (args.out && frame % 4 == 3) {
            ex_image image = ex_image_make(640, 500);
            for (int wall = SLIP; wall < WALLS; wall++)
                draw(&image, &air[wall], wall, trails);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int wall = SLIP; wall < WALLS; wall++) {
        fsi_vec3 to = centre(&air[wall]);
        wall_result("slid", wall, "%.4f", to.x - from.x);
        wall_result("fell", wall, "%.4f", from.y - to.y);
        wall_result("stretch", wall, "%.4f", sheet_stretch(&air[wall], &mesh));
        wall_result("crossed", wall, "%.0f", air[wall].crossed);
        sheet_free(&air[wall]);
    }

    /* Share of the tracers that got through the sheet. */
    int shown = ex_is(&args, "wall", "noslip") ? NOSLIP : SLIP;
    ex_result("leak", "%.5f", (double)air[shown].crossed / TRACERS);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, ex_fine());
}
