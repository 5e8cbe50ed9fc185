/* realtime_tank: five bodies in a 3D tank of 48^3 cells, one pulled about by a scripted mouse,
   each coupled step with a time budget. The aim is 15 steps a second on two cores; the budget
   shortens the pressure solve only, about an eighth of a step.

       build/realtime_tank --out out
       build/realtime_tank --size 32

   Result: mean, 95th percentile and worst time of a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "realtime.h"

static void draw(ex_args *args, rt_scene *s) {
    static fsi_real x[3 * 4096], v[3 * 4096];
    ex_image image = ex_image_make(560, 520);
    ex_camera camera = ex_camera_make(2.7, 2.9, 6, 1, 0.84, 1, 1, 33);
    fsi_grid *grid = &s->w.grid;
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {s->width, s->width, s->width};
    fsi_surface surface;
    char text[64];
    ex_clear(&image, ex_rgb(245, 248, 250));
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.25);

    for (int i = 0; i < s->bodies; i++) {
        fsi_solids_surface(&s->w.solids, s->id[i], x, v, &surface);
        ex_draw_surface3(&image, &camera, &surface,
                         i ? ex_map(0, 0.3 + 0.12 * i) : ex_rgb(215, 60, 60));
    }

    ex_draw_water(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                  ex_rgb(80, 160, 220), 0.5);
    ex_box3(&image, &camera, lo, hi, ex_rgb(110, 110, 110));
    snprintf(text, sizeof text, "%.2f s  %.1f ms a step", s->time, rt_mean(s));
    ex_text(&image, 16, 16, 2, ex_rgb(60, 60, 60), text);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "realtime_tank",
    .what = "Bodies in a tank, one pulled by a scripted mouse, in real time.",
    .size = 48,
    .frames = 75,
    .keys =
        {
            EX_NUMBER("dt", "s", "time step", "0.02", 1e-4, 0.1),
            EX_NUMBER("budget", "ms", "for a whole step, 0 = none", "66", 0, 1e4),
            EX_NUMBER("tolerance", "", "of the pressure, relative", "1e-3", 1e-10, 0.5),
            EX_NUMBER("particles", "", "markers per cell side, -1 = none", "2", -1, 8),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    ex_begin(&args, argc, argv, &about);
    return rt_run(&args, 3, draw);
}
