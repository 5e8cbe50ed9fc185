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
    NODES = 25,
    HAND = NODES - 1 /* the node that is held */
};

/* Level of the water; the sheet goes so far sideways and so far up: m. */
static const double level = 0.55, lean = 0.15, rise = 0.65;

typedef struct pool {
    sheet sheet;
    double volume; /* of the water at first */
    double lifted; /* most water above the level in the run, m^2 */
    double stretch;
} pool;

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* A pool of 1 m x 1.5 m with a sheet held by a hand at its upper end. */
static void make(pool *self, const fsi_mesh *mesh, const ex_args *args, double coefficient) {
    static unsigned char pin[NODES];
    pin[HAND] = 7;
    fsi_grid_desc desc = {
        .nx = args->size * 2 / 3,
        .ny = args->size,
        .nz = 1,
        .h = 1.5 / args->size,
        .rho = 1000,
        .gravity = fsi_vec(0, -9.81, 0),
        .liquid = 1,
        .shells = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
    };
    fsi_soft_desc cloth = {
        .dim = 2,
        .area_density = ex_number(args, "density"),
        .stretch = ex_number(args, "stretch"),
        .bend = 0.02,
        .damping_stiffness = 0.02,
        .gravity = fsi_vec(0, -9.81, 0),
        .pin = pin,
    };
    sheet_make(&self->sheet, &desc, &cloth, mesh, coefficient, 0);
    ex_need(fsi_grid_set_field(&self->sheet.grid, FSI_FIELD_PHI, water, NULL));
    self->volume = fsi_levelset_volume(&self->sheet.grid.levelset, NULL, NULL);
}

/* The hand pulls along the sheet as it was at first. */
static void pull(pool *self, double speed) {
    fsi_real *drive = self->sheet.cloth.drive + 3 * HAND;
    drive[0] = speed * lean / hypot(lean, rise);
    drive[1] = speed * rise / hypot(lean, rise);
}

/* Stretch of the whole sheet. */
static double longer(const pool *self) {
    const fsi_real *x = self->sheet.cloth.x;
    double sum = 0;
    for (int i = 0; i < HAND; i++)
        sum += hypot(x[3 * i + 3] - x[3 * i], x[3 * i + 4] - x[3 * i + 1]);
    return sum / hypot(lean, rise) - 1;
}

/* Water well above the level it started from, m^2. */
static double lifted(const pool *self) {
    const fsi_grid *grid = &self->sheet.grid;
    double sum = 0;
    for (int cell = 0; cell < (int)grid->cells; cell++) {
        double y = (cell / grid->nx + 0.5) * grid->h;
        if (grid->levelset.phi[cell] < 0 && y > level + 0.06)
            sum += grid->h * grid->h;
    }

    return sum;
}

/* The worst flux out of a cell beside the sheet, over cell side and the speed of the hand. */
static double leak(const pool *self, double speed) {
    return self->sheet.report.divergence * self->sheet.grid.h / fmax(speed, 1e-9);
}

static void draw(ex_image *image, const pool *self, int wall) {
    ex_view view = ex_view_make(0, 0, 1, 1.5, 14 + wall * 310, 40, 300, 450);
    const fsi_grid *grid = &self->sheet.grid;
    const fsi_real *x = self->sheet.cloth.x;
    const fsi_real *hand = x + 3 * HAND;
    ex_draw_liquid(image, &view, grid->nx, grid->ny, grid->levelset.phi, ex_rgb(90, 150, 220));
    sheet_draw2(image, &view, x, NODES, 3, ex_rgb(200, 50, 30));
    ex_disk(image, ex_px(&view, hand[0]), ex_py(&view, hand[1]), 5, ex_grey(60));
    ex_text(image, view.left, 16, 2, ex_grey(20), wall == SLIP ? "SLIP" : "NO-SLIP");
}

static const ex_about about = {
    .name = "cloth_pull",
    .what = "A sheet pulled out of water, slip beside no-slip.",
    .size = 72,
    .frames = 90,
    .keys =
        {
            EX_WORD("wall", "which to run", "both", "both,slip,noslip"),
            EX_NUMBER("speed", "m/s", "of the hand", "1.5", "0 to 10"),
            EX_NUMBER("dt", "s", "time step", "0.005", "1e-4 to 0.05"),
            EX_NUMBER("density", "kg/m", "of the sheet", "2", "0.01 to 1000"),
            EX_NUMBER("stretch", "N", "stiffness of the sheet", "4000", "1 to 1e6"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    double speed = ex_number(&args, "speed");

    /* The same pool twice, the sheet of one with a slip coefficient of 1, of the other with 0. */
    static pool pools[WALLS];
    fsi_vec3 lower = fsi_vec(0.5 - lean / 2, 0.1, 0);
    fsi_vec3 upper = fsi_vec(0.5 + lean / 2, 0.1 + rise, 0);
    fsi_mesh mesh;
    ex_need(fsi_mesh_strip(&mesh, lower, upper, NODES - 1, NULL));
    for (int wall = SLIP; wall < WALLS; wall++)
        make(&pools[wall], &mesh, &args, wall == SLIP);

    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int wall = SLIP; wall < WALLS && ex_fine(); wall++) {
            pool *self = &pools[wall];
            if (!wall_runs(&args, wall))
                continue;

            /* The hand takes a tenth of a second to start. */
            pull(self, speed * fmin(1, frame * dt / 0.1));
            sheet_step(&self->sheet, dt);
            self->lifted = fmax(self->lifted, lifted(self));
            self->stretch = fmax(self->stretch, longer(self));
            steps++;
        }

        if (args.out) {
            ex_image image = ex_image_make(640, 500);
            for (int wall = SLIP; wall < WALLS; wall++)
                draw(&image, &pools[wall], wall);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int wall = SLIP; wall < WALLS; wall++) {
        const pool *self = &pools[wall];
        double volume = fsi_levelset_volume(&self->sheet.grid.levelset, NULL, NULL);
        const char *volume_key = wall == SLIP ? "volume_error" : "volume_error_noslip";
        wall_result("lifted", wall, "%.5f", self->lifted);

        /* The largest of the whole sheet in the run, and of one element at the end. */
        wall_result("stretch", wall, "%.5f", self->stretch);
        wall_result("stretch_element", wall, "%.5f", sheet_stretch(&self->sheet, &mesh));
        ex_result(volume_key, "%.5f", volume / self->volume - 1);
        wall_result("leak", wall, "%.3e", leak(self, speed));
    }

    int shown = ex_is(&args, "wall", "noslip") ? NOSLIP : SLIP;
    ex_result("leak", "%.3e", leak(&pools[shown], speed));
    sheet_free(&pools[SLIP].sheet);
    sheet_free(&pools[NOSLIP].sheet);
    fsi_mesh_free(&mesh);
    return ex_end(&args, steps, ex_fine());
}
