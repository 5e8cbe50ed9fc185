/* slip_disk: a thin plate slides through smoke along itself, then sweeps through it, slip beside
   no-slip (Robinson-Mosher et al. 2009, fig. 8), in the plane, one-way. With slip the sliding
   plate leaves the smoke as it was; without it the smoke is dragged along. Sweeping stirs both.
   Top: now; bottom: when the slide was over.

       build/slip_disk --out out

   Result: energy the slide gave to the smoke, speed of the fluid along the plate, tracers that
   crossed it (leak). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

/* steps of slide and sweep together; then again the other way */
enum {
    SLIP,
    NOSLIP,
    TRACERS = 2000,
    PERIOD = 160
};

/* m: half the plate; half the slide; half the sweep. Box 1 x 1 */
static const double half = 0.15, reach = 0.18, sweep = 0.12;

typedef struct scene {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door, *list[1];
    fsi_scene step;
    fsi_real x[6], v[6], point[3 * TRACERS], old[3 * TRACERS], coefficient, *kept;
    double t[2], centre[2], energy, wall_speed, dt;
    int crossed, frame;
} scene;

/* centre of the plate after so many steps */
static void place(scene *s, int frame, double *c) {
    const double pi = acos(-1);
    double phase = (double)(frame % PERIOD) / PERIOD;
    double way = frame / PERIOD & 1 ? -1 : 1;
    double a = way * reach * (phase < 0.5 ? -cos(2 * pi * phase) : 1);
    double b = phase < 0.5 ? 0 : sweep * (1 - cos(4 * pi * (phase - 0.5)));
    c[0] = 0.5 + a * s->t[0] - b * s->t[1];
    c[1] = 0.4 + a * s->t[1] + b * s->t[0];
}

/* the plate's velocity in this step */
static fsi_result begin(void *user, fsi_real dt) {
    scene *s = (scene *)user;
    double next[2];
    place(s, s->frame + 1, next);

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            s->x[3 * i + k] = s->centre[k] + (i ? half : -half) * s->t[k];
            s->v[3 * i + k] = (next[k] - s->centre[k]) / dt;
        }
    return FSI_OK;
}

static fsi_result move(void *user, fsi_real dt) {
    scene *s = (scene *)user;
    place(s, ++s->frame, s->centre);

    for (int i = 0; i < 6; i++)
        s->x[i] += dt * s->v[i];
    return FSI_OK;
}

static int make(scene *s, int size, double angle, double coefficient) {
    static const int32_t index[2] = {0, 1};

    memset(s, 0, sizeof *s);

    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1,
        .shells = 1,
        .scalars = 1,
    };

    s->coefficient = coefficient;

    fsi_slip_desc given = {
        .coefficient = &s->coefficient,
        .passes = 2,
    };

    s->dt = 0.6 / size;
    s->t[0] = cos(angle);
    s->t[1] = sin(angle);
    place(s, 0, s->centre);
    s->door.surface.dim = 2;
    s->door.surface.vertex_count = 2;
    s->door.surface.element_count = 1;
    s->door.surface.x = s->x;
    s->door.surface.v = s->v;
    s->door.surface.index = index;
    s->list[0] = &s->door;
    s->step.solid = s->list;
    s->step.count = 1;
    s->step.begin_fn = begin;
    s->step.move_fn = move;
    s->step.user = s;
    s->kept = (fsi_real *)calloc((size_t)size * (size_t)size, sizeof *s->kept);

    if (!s->kept || fsi_grid_init(&s->grid, &desc) != FSI_OK
        || fsi_slip_init(&s->slip, &s->grid, &given) != FSI_OK)
        return 0;

    for (int j = 0; j < size; j++)
        for (int k = 0; k < size; k++)
            s->grid.scalar[0][k + size * j] = (fsi_real)(k * 16 / size & 1);

    for (int k = 0; k < TRACERS; k++) {
        s->point[3 * k] = (0.01 + 0.98 * (k * 0.618033988749895 - floor(k * 0.618033988749895)));
        s->point[3 * k + 1] = 0.01 + 0.98 * (k + 0.5) / TRACERS;
    }

    s->slip.tracer = s->point;
    s->slip.tracers = TRACERS;
    return 1;
}

/* One step; counts tracers whose straight path, seen from the plate, crosses it. */
static int step(scene *s) {
    double c[2], a[2], b[2];

    for (int k = 0; k < 2; k++)
        c[k] = s->centre[k];
    memcpy(s->old, s->point, sizeof s->old);
    if (fsi_slip_step(&s->slip, &s->step, s->dt, NULL) < 0)
        return 0;

    for (int i = 0; i < TRACERS; i++) {
        for (int k = 0; k < 2; k++) {
            a[k] = s->old[3 * i + k] - c[k];
            b[k] = s->point[3 * i + k] - s->centre[k];
        }

        {
            double p = a[1] * s->t[0] - a[0] * s->t[1];
            double q = b[1] * s->t[0] - b[0] * s->t[1];
            double w = p / (p - q);
            if ((p < 0) != (q < 0)
                && fabs((1 - w) * (a[0] * s->t[0] + a[1] * s->t[1])
                        + w * (b[0] * s->t[0] + b[1] * s->t[1]))
                       < half)
                s->crossed++;
        }
    }

    if (s->frame == PERIOD / 2) { /* the first slide is over */
        double sum = 0;
        memcpy(s->kept, s->grid.scalar[0], s->grid.cells * sizeof *s->kept);
        s->energy = fsi_grid_kinetic_energy(&s->grid);
        for (int i = 0; i < s->slip.iface.sides; i++)
            sum += s->slip.velocity[i].x * s->t[0] + s->slip.velocity[i].y * s->t[1];
        s->wall_speed = s->slip.iface.sides ? sum / s->slip.iface.sides : 0;
    }

    return 1;
}

static void draw(const scene *s, ex_image *image, int at) {
    const fsi_grid *grid = &s->grid;

    for (int row = 0; row < 2; row++) {
        ex_view view = ex_view_make(0, 0, 1, 1, 14 + at * 310, 40 + row * 310, 300, 300);
        if (row && s->frame < PERIOD / 2)
            continue;
        ex_draw_field(image, &view, grid->nx, grid->ny, row ? s->kept : grid->scalar[0], 0, 1, 3);
        if (!row)
            ex_line(image, ex_px(&view, s->x[0]), ex_py(&view, s->x[1]), ex_px(&view, s->x[3]),
                    ex_py(&view, s->x[4]), 3, ex_rgb(200, 50, 30));
    }

    ex_text(image, 14 + at * 310, 16, 2, ex_rgb(20, 20, 20),
            at || s->coefficient < 0.5 ? "NO-SLIP" : "SLIP");
    ex_text(image, 20, 356, 1, ex_rgb(20, 20, 20), "AFTER THE SLIDE");
}

static const ex_about about = {
    .name = "slip_disk",
    .what = "A thin plate slides and sweeps through smoke, slip beside no-slip.",
    .size = 64,
    .frames = 120,
    .keys =
        {
            EX_WORD("wall", "of the left plate", "slip", "slip,noslip"),
            EX_NUMBER("angle", "rad", "of the plate", "0.3", 0, 1.5),
            EX_NUMBER("coefficient", "", "of the left plate with wall=slip: 1 = slip", "1", 0, 1),
        },
};

int main(int argc, char **argv) {
    static scene s[2];
    ex_args args;

    ex_begin(&args, argc, argv, &about);
    int stable = make(&s[SLIP], args.size, ex_number(&args, "angle"),
                      ex_is(&args, "wall", "slip") ? ex_number(&args, "coefficient") : 0)
                 && make(&s[NOSLIP], args.size, ex_number(&args, "angle"), 0);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        for (int w = SLIP; w <= NOSLIP && stable; w++)
            stable = step(&s[w]);
        if (args.out && frame % 2) {
            ex_image image = ex_image_make(640, 660);
            for (int w = SLIP; w <= NOSLIP; w++)
                draw(&s[w], &image, w);
            ex_frame(&args, &image);
            ex_image_free(&image);
        }

        ex_progress(&args, frame);
    }

    for (int w = SLIP; w <= NOSLIP; w++) {
        ex_result(w ? "wall_speed_noslip" : "wall_speed_slip", "%.4f", s[w].wall_speed);
        ex_result(w ? "energy_noslip" : "energy_slip", "%.6f", s[w].energy);
        ex_result(w ? "crossed_noslip" : "crossed_slip", "%d", s[w].crossed);
        fsi_slip_free(&s[w].slip);
        fsi_grid_free(&s[w].grid);
        free(s[w].kept);
    }

    ex_result("leak", "%.6f", (double)s[SLIP].crossed / TRACERS);
    return ex_end(&args, frame, stable);
}
