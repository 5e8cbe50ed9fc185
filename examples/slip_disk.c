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

enum {
    SLIP,
    NOSLIP,
    WALLS, /* plates that are compared */
    TRACERS = 2000,
    PERIOD = 160 /* steps of slide and sweep together; then again the other way */
};

/* Half the plate, half the slide, half the sweep, in a box of 1 m x 1 m. */
static const double half = 0.15, reach = 0.18, sweep = 0.12;

typedef struct scene {
    fsi_grid grid;
    fsi_slip slip;
    fsi_coupled door;
    fsi_coupled *list[1];
    fsi_scene step;
    fsi_real end[6], end_speed[6]; /* the two ends of the plate */
    fsi_real coefficient;          /* 1 slip, 0 no-slip */
    double along[2], centre[2];    /* of the plate */
    double dt;
    int frame;

    fsi_real point[3 * TRACERS], before[3 * TRACERS]; /* tracers, and before the step */
    int crossed;                                      /* tracers that crossed the plate */

    /* When the first slide was over: the smoke, its energy, its speed along the plate. */
    fsi_real *kept;
    double energy;
    double wall_speed;
} scene;

/* The centre of the plate after so many steps: it slides along itself and then sweeps across. */
static void place(const scene *plate, int frame, double *centre) {
    const double pi = acos(-1);
    double phase = (double)(frame % PERIOD) / PERIOD;
    int sliding = phase < 0.5;
    int back = frame / PERIOD & 1;
    double slid = (back ? -reach : reach) * (sliding ? -cos(2 * pi * phase) : 1);
    double swept = sliding ? 0 : sweep * (1 - cos(4 * pi * (phase - 0.5)));
    centre[0] = 0.5 + slid * plate->along[0] - swept * plate->along[1];
    centre[1] = 0.4 + slid * plate->along[1] + swept * plate->along[0];
}

/* Before the solve: where the plate is, and its velocity in this step. */
static fsi_result begin(fsi_real dt, void *user) {
    scene *plate = (scene *)user;
    double next[2];
    place(plate, plate->frame + 1, next);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            double side = i ? half : -half;
            plate->end[3 * i + k] = plate->centre[k] + side * plate->along[k];
            plate->end_speed[3 * i + k] = (next[k] - plate->centre[k]) / dt;
        }

    return FSI_OK;
}

/* After the solve: the plate moves. */
static fsi_result move(fsi_real dt, void *user) {
    scene *plate = (scene *)user;
    place(plate, ++plate->frame, plate->centre);
    for (int i = 0; i < 6; i++)
        plate->end[i] += dt * plate->end_speed[i];
    return FSI_OK;
}

/* Stripes of smoke, and tracers spread evenly. */
static void fill(scene *plate) {
    int size = plate->grid.nx;
    const double golden = 0.618033988749895;
    for (int j = 0; j < size; j++)
        for (int i = 0; i < size; i++)
            plate->grid.scalar[0][i + size * j] = (fsi_real)(i * 16 / size & 1);

    for (int k = 0; k < TRACERS; k++) {
        double turn = k * golden - floor(k * golden);
        plate->point[3 * k] = 0.01 + 0.98 * turn;
        plate->point[3 * k + 1] = 0.01 + 0.98 * (k + 0.5) / TRACERS;
    }

    plate->slip.tracer = plate->point;
    plate->slip.tracers = TRACERS;
}

static void make(scene *plate, int size, double angle, double coefficient) {
    static const int32_t segment[2] = {0, 1};
    memset(plate, 0, sizeof *plate);
    plate->coefficient = coefficient;
    plate->dt = 0.6 / size;
    plate->along[0] = cos(angle);
    plate->along[1] = sin(angle);
    place(plate, 0, plate->centre);

    fsi_grid_desc desc = {
        .nx = size,
        .ny = size,
        .nz = 1,
        .h = 1.0 / size,
        .rho = 1,
        .shells = 1,
        .scalars = 1,
    };
    fsi_slip_desc given = {.coefficient = &plate->coefficient, .passes = 2};
    ex_need(fsi_grid_init(&plate->grid, &desc));
    ex_need(fsi_slip_init(&plate->slip, &plate->grid, &given));

    /* The plate is one segment whose motion is given: it has no degrees of freedom. */
    plate->door.surface.dim = 2;
    plate->door.surface.vertex_count = 2;
    plate->door.surface.element_count = 1;
    plate->door.surface.x = plate->end;
    plate->door.surface.v = plate->end_speed;
    plate->door.surface.index = segment;
    plate->list[0] = &plate->door;
    plate->step = (fsi_scene){
        .solid = plate->list,
        .count = 1,
        .stages = {.begin_fn = begin, .move_fn = move, .user = plate},
    };
    plate->kept = (fsi_real *)ex_alloc(plate->grid.cells, sizeof *plate->kept);
    fill(plate);
}

/* 1 when the straight path of tracer i, seen from the plate, crosses it. */
static int crosses(const scene *plate, int i, const double *centre_before) {
    double ax = plate->before[3 * i] - centre_before[0];
    double ay = plate->before[3 * i + 1] - centre_before[1];
    double bx = plate->point[3 * i] - plate->centre[0];
    double by = plate->point[3 * i + 1] - plate->centre[1];

    /* Heights over the plate, and where along it the height is zero. */
    double height_a = ay * plate->along[0] - ax * plate->along[1];
    double height_b = by * plate->along[0] - bx * plate->along[1];
    if ((height_a < 0) == (height_b < 0))
        return 0;
    double share = height_a / (height_a - height_b);
    double along_a = ax * plate->along[0] + ay * plate->along[1];
    double along_b = bx * plate->along[0] + by * plate->along[1];
    return fabs((1 - share) * along_a + share * along_b) < half;
}

/* The first slide is over: what did it do to the smoke? */
static void keep(scene *plate) {
    const fsi_interface *cut = &plate->slip.iface;
    double sum = 0;
    for (int i = 0; i < cut->sides; i++)
        sum += plate->slip.velocity[i].x * plate->along[0]
               + plate->slip.velocity[i].y * plate->along[1];
    plate->wall_speed = cut->sides ? sum / cut->sides : 0;
    plate->energy = fsi_grid_kinetic_energy(&plate->grid);
    memcpy(plate->kept, plate->grid.scalar[0], plate->grid.cells * sizeof *plate->kept);
}

/* One step; counts the tracers that cross the plate. */
static void step(scene *plate) {
    double centre_before[2] = {plate->centre[0], plate->centre[1]};
    memcpy(plate->before, plate->point, sizeof plate->before);
    ex_try(fsi_slip_step(&plate->slip, &plate->step, plate->dt, NULL));
    if (!ex_fine())
        return;
    for (int i = 0; i < TRACERS; i++)
        plate->crossed += crosses(plate, i, centre_before);
    if (plate->frame == PERIOD / 2)
        keep(plate);
}

/* Top: the smoke now, with the plate; bottom: when the slide was over. */
static void draw(ex_image *image, const scene *plate, int column) {
    const fsi_grid *grid = &plate->grid;
    int left = 14 + column * 310;
    ex_view now = ex_view_make(0, 0, 1, 1, left, 40, 300, 300);
    ex_view then = ex_view_make(0, 0, 1, 1, left, 350, 300, 300);
    ex_color black = ex_grey(20);
    ex_draw_field(image, &now, grid->nx, grid->ny, grid->scalar[0], 0, 1, EX_DEPTH);
    ex_line(image, ex_px(&now, plate->end[0]), ex_py(&now, plate->end[1]),
            ex_px(&now, plate->end[3]), ex_py(&now, plate->end[4]), 3, ex_rgb(200, 50, 30));
    if (plate->frame >= PERIOD / 2)
        ex_draw_field(image, &then, grid->nx, grid->ny, plate->kept, 0, 1, EX_DEPTH);
    int sticks = column == NOSLIP || plate->coefficient < 0.5;
    ex_text(image, left, 16, 2, black, sticks ? "NO-SLIP" : "SLIP");
    ex_text(image, 20, 356, 1, black, "AFTER THE SLIDE");
}

static void draw_both(ex_args *args, const scene *plates) {
    ex_image image = ex_image_make(640, 660);
    draw(&image, &plates[SLIP], SLIP);
    draw(&image, &plates[NOSLIP], NOSLIP);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "slip_disk",
    .what = "A thin plate slides and sweeps through smoke, slip beside no-slip.",
    .size = 64,
    .frames = 120,
    .keys =
        {
            EX_WORD("wall", "of the left plate", "slip", "slip,noslip"),
            EX_NUMBER("angle", "rad", "of the plate", "0.3", "0 to 1.5"),
            EX_NUMBER("coefficient", "", "of the left plate with wall=slip: 1 = slip", "1",
                      "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double angle = ex_number(&args, "angle");
    double coefficient = ex_is(&args, "wall", "slip") ? ex_number(&args, "coefficient") : 0;

    static scene plates[WALLS];
    make(&plates[SLIP], args.size, angle, coefficient);
    make(&plates[NOSLIP], args.size, angle, 0);
    int frame;
    for (frame = 0; frame < args.frames && ex_fine(); frame++) {
        step(&plates[SLIP]);
        step(&plates[NOSLIP]);
        if (args.out && frame % 2)
            draw_both(&args, plates);
        ex_progress(&args, frame);
    }

    for (int wall = SLIP; wall < WALLS; wall++) {
        scene *plate = &plates[wall];
        ex_result(wall ? "wall_speed_noslip" : "wall_speed_slip", "%.4f", plate->wall_speed);
        ex_result(wall ? "energy_noslip" : "energy_slip", "%.6f", plate->energy);
        ex_result(wall ? "crossed_noslip" : "crossed_slip", "%d", plate->crossed);
        fsi_slip_free(&plate->slip);
        fsi_grid_free(&plate->grid);
        free(plate->kept);
    }

    ex_result("leak", "%.6f", (double)plates[SLIP].crossed / TRACERS);
    return ex_end(&args, frame, ex_fine());
}
