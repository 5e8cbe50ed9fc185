/* realtime_pool: ten bodies in a 2D pool, one pulled about by a scripted mouse, 60 coupled steps a
   second within a time budget.

       build/realtime_pool --set view=term   watch it live
       build/realtime_pool --out out

   Result: mean, 95th percentile and worst time of a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "realtime.h"

static void draw(ex_args *args, rt_scene *s) {
    static fsi_real x[3 * 256], v[3 * 256];
    ex_image image = ex_image_make(560, 560);
    ex_view view = ex_view_make(0, 0, s->width, s->width, 20, 20, 520, 520);
    fsi_grid *grid = &s->w.grid;
    fsi_rigid *body = &s->w.solids.body[s->id[0]];
    fsi_vec3 p = rt_mouse(s, s->time);
    fsi_surface surface;
    char text[64];
    ex_draw_field(&image, &view, grid->nx, grid->ny, grid->phi, 1e8, 2e8, 2);
    ex_draw_liquid(&image, &view, grid->nx, grid->ny, grid->phi, ex_rgb(80, 155, 215));

    for (int i = 0; i < s->bodies; i++) {
        fsi_solids_surface(&s->w.solids, s->id[i], x, v, &surface);
        ex_draw_surface(&image, &view, &surface,
                        i ? ex_map(0, 0.3 + 0.06 * i) : ex_rgb(215, 60, 60));
    }

    ex_line(&image, ex_px(&view, body->x.x), ex_py(&view, body->x.y), ex_px(&view, p.x),
            ex_py(&view, p.y), 2, ex_rgb(40, 40, 40));
    ex_disk(&image, ex_px(&view, p.x), ex_py(&view, p.y), 5, ex_rgb(40, 40, 40));

    for (int i = 0; i < 4; i++)
        ex_line(&image, 20 + 520 * (i == 1), 20 + 520 * (i == 2), 20 + 520 * (i != 0),
                20 + 520 * (i != 3), 1, ex_rgb(110, 110, 110));
    snprintf(text, sizeof text, "%.2f s  %.1f ms a step", s->time, rt_mean(s));
    ex_text(&image, 28, 28, 2, ex_rgb(60, 60, 60), text);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "realtime_pool",
    .what = "Ten bodies in a pool, one pulled by a scripted mouse, in real time.",
    .size = 128,
    .frames = 150,
    .keys =
        {
            EX_NUMBER("dt", "s", "time step", "0.016667", 1e-4, 0.1),
            EX_NUMBER("budget", "ms", "for a whole step, 0 = none", "16.7", 0, 1e4),
            EX_NUMBER("tolerance", "", "of the pressure, relative", "1e-3", 1e-10, 0.5),
            EX_NUMBER("particles", "", "markers per cell side, -1 = none", "2", -1, 8),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    ex_begin(&args, argc, argv, &about);
    return rt_run(&args, 2, draw);
}
