/* crush: a box in water between a paddle that somebody moves and the wall of the tank. There is no
   velocity that the box could have, and the step says so; the box is held, not thrown.

       build/crush --out out
       build/crush --set density=3 --set speed=4 --set dim=3

   The tank is 3 m long and 2 m high, with 1 m of water. The paddle starts 0.6 m from the wall and
   stops at 0.15 m, where it leaves less than a third of the room that the box needs. A light box
   may get away upwards: then it is a box that swims.

   Result: the largest speed of the box; how many steps said more than FSI_OK; the energy that
   contact, solve and advection have added in steps in which they added some, in J. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

typedef struct scene {
    fsi_world world;
    fsi_shape paddle_shape, box_shape;
    int paddle, box;
    double middle; /* of the tank's depth, m */
} scene;

static const double LEVEL = 1, START = 0.6, STOP = 0.15; /* m */

static fsi_real water(fsi_vec3 at, void *user) {
    (void)user;
    return at.y - (fsi_real)LEVEL;
}

/* The tank, --size cells long. */
static void make_tank(scene *s, const ex_args *args) {
    int n = args->size;
    int deep = ex_whole(args, "dim") == 3;
    double h = 3.0 / n;
    fsi_world_desc desc = {
        .grid =
            {
                .nx = n,
                .ny = 2 * n / 3,
                .nz = deep ? n / 4 : 1,
                .h = h,
                .rho = 1000,
                .gravity = fsi_vec(0, -9.81, 0),
                .liquid = 1,
                .side[FSI_TOP].kind = FSI_SIDE_OPEN,
            },
        .couple.boundary = ex_is(args, "boundary", "voxel") ? FSI_BOUNDARY_VOXEL : FSI_BOUNDARY_CUT,
        .max_bodies = 2,
    };
    ex_need(fsi_world_init(&s->world, &desc));
    s->middle = deep ? h * (n / 4) / 2 : 0;
    ex_need(fsi_grid_set_field(&s->world.grid, FSI_FIELD_PHI, water, NULL));
}

static int add(scene *s, fsi_shape *shape, fsi_vec3 half, double x, double density) {
    fsi_shape_desc form = {.kind = FSI_SHAPE_BOX, .dim = s->world.grid.dim, .half = half};
    ex_need(fsi_shape_init(shape, &form));
    fsi_rigid_desc body = {
        .kind = density > 0 ? FSI_RIGID_DYNAMIC : FSI_RIGID_SCRIPTED,
        .shape = shape,
        .density = density,
        .x = fsi_vec(x, 0.6, s->middle),
        .friction = 0.4,
    };
    int id = fsi_world_add(&s->world, &body);
    ex_need(id < 0 ? (fsi_result)id : FSI_OK);
    return id;
}

static void draw(const scene *s, ex_args *args) {
    const fsi_grid *grid = &s->world.grid;
    ex_image image = ex_image_make(620, 420);
    ex_view view = ex_view_make(0, 0, 3, 2, 10, 10, 600, 400);
    ex_clear(&image, ex_grey(255));
    size_t slice = (size_t)grid->nx * (size_t)grid->ny * (size_t)(grid->nz / 2);
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi + slice, ex_rgb(80, 155, 215));
    for (int i = 0; i < 2 && grid->dim == 2; i++)
        ex_draw_surface(&image, &view, &s->world.couple.iface.solid[i]->surface,
                        ex_grey(i == s->paddle ? 90 : 170));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "crush",
    .what = "A box between a moving paddle and a wall.",
    .size = 96,
    .frames = 600,
    .keys =
        {
            EX_NUMBER("density", "kg/m^3", "of the box", "300", "3 to 3000"),
            EX_NUMBER("speed", "m/s", "of the paddle", "0.4", "0.1 to 4"),
            EX_BOUNDARY,
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("dt", "s", "time step", "0.00833333", "1e-4 to 0.04"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");
    double speed = ex_number(&args, "speed");

    /* Tank, paddle, box. */
    static scene s;
    make_tank(&s, &args);
    s.paddle = add(&s, &s.paddle_shape, fsi_vec(0.06, 0.5, s.middle > 0 ? s.middle : 0), START, 0);
    s.box = add(&s, &s.box_shape, fsi_vec(0.14, 0.08, s.middle > 0 ? 0.1 : 0), 0.2,
                ex_number(&args, "density"));

    double peak = 0, gain = 0;
    int told = 0, frame = 0;
    for (; frame < args.frames && ex_fine(); frame++) {
        /* Where is the paddle to be at the end of the step? */
        double x = fmax(STOP, START - speed * dt * (frame + 1));
        fsi_solids *solids = &s.world.solids;
        fsi_vec3 to = fsi_vec(x, 0.6, s.middle);
        ex_need(fsi_solids_script(solids, s.paddle, to, solids->body[s.paddle].q, dt));

        fsi_report report = {0};
        fsi_result result = fsi_world_step(&s.world, dt, &report);
        ex_try(result);
        told += result > FSI_OK;
        gain += fmax(0, report.energy_contact + report.energy_solve + report.energy_advection);
        peak = fmax(peak, (double)fsi_vec_length(solids->body[s.box].v));
        if (args.out)
            draw(&s, &args);
        ex_progress(&args, frame);
    }

    ex_result("peak_speed", "%.4f", peak);
    ex_result("told", "%d", told);
    ex_result("energy_gain", "%.4f", gain);
    fsi_world_free(&s.world);
    fsi_shape_free(&s.paddle_shape);
    fsi_shape_free(&s.box_shape);
    return ex_end(&args, frame, ex_fine());
}
