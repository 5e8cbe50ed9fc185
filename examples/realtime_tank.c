/* realtime_tank: five bodies in a 3D tank of 48^3 cells, one pulled about by a scripted mouse,
   each coupled step with a time budget. The aim is 15 steps a second on two cores; the budget
   shortens the pressure solve only, about an eighth of a step.

       build/realtime_tank --out out
       build/realtime_tank --size 32

   Result: mean, 95th percentile and worst time of a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"
#include "realtime.h"

static void draw(ex_args *args, const rt_scene *scene) {
    const fsi_grid *grid = &scene->world.grid;
    ex_image image = ex_image_make(560, 520);
    ex_camera camera = ex_camera_make(2.7, 2.9, 6, 1, 0.84, 1, 1, 33);
    double lo[3];
    double hi[3];
    scene_box(grid, lo, hi);
    ex_clear(&image, ex_rgb(245, 248, 250));
    ex_floor(&image, &camera, lo, hi, 1, 0, 0.25);
    for (int i = 0; i < scene->bodies; i++) {
        fsi_surface surface = scene_body(&scene->world, scene->id[i]);
        ex_draw_surface3(&image, &camera, &surface, rt_color(i, 0.12));
    }

    scene_end3(&image, &camera, grid);
    rt_caption(&image, scene, 16);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "realtime_tank",
    .what = "Bodies in a tank, one pulled by a scripted mouse, in real time.",
    .size = 48,
    .frames = 75,
    .keys = {RT_KEYS("0.02", "66")},
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    return rt_run(&args, 3, draw);
}
