/* realtime_pool: ten bodies in a 2D pool, one pulled about by a scripted mouse, 60 coupled steps a
   second within a time budget.

       build/realtime_pool --set view=term   watch it live
       build/realtime_pool --out out

   Result: mean, 95th percentile and worst time of a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "scene.h"
#include "realtime.h"

/* The string from the first body to the mouse. */
static void draw_mouse(ex_image *image, const ex_view *view, const rt_scene *scene) {
    ex_color dark = ex_grey(40);
    fsi_vec3 mouse = rt_mouse(scene);
    fsi_vec3 body = fsi_world_position(&scene->world, scene->id[0]);
    double x = ex_px(view, mouse.x);
    double y = ex_py(view, mouse.y);
    ex_line(image, ex_px(view, body.x), ex_py(view, body.y), x, y, 2, dark);
    ex_disk(image, x, y, 5, dark);
}

/* The frame of a view. */
static void draw_frame(ex_image *image, const ex_view *view) {
    ex_color grey = ex_grey(110);
    double left = view->left;
    double top = view->top;
    double right = left + view->w;
    double bottom = top + view->h;
    ex_line(image, left, top, right, top, 1, grey);
    ex_line(image, left, bottom, right, bottom, 1, grey);
    ex_line(image, left, top, left, bottom, 1, grey);
    ex_line(image, right, top, right, bottom, 1, grey);
}

static void draw(ex_args *args, const rt_scene *scene) {
    ex_image image = ex_image_make(560, 560);
    ex_view view = scene_view(&scene->world.grid, 20, 20, 520);
    scene_water2(&image, &view, &scene->world.grid);
    for (int i = 0; i < scene->bodies; i++) {
        fsi_surface surface = scene_body(&scene->world, scene->id[i]);
        ex_draw_surface(&image, &view, &surface, rt_color(i, 0.06));
    }

    draw_mouse(&image, &view, scene);
    draw_frame(&image, &view);
    rt_caption(&image, scene, 28);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "realtime_pool",
    .what = "Ten bodies in a pool, one pulled by a scripted mouse, in real time.",
    .size = 128,
    .frames = 150,
    .keys = {RT_KEYS("0.016667", "16.7")},
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    return rt_run(&args, 2, draw);
}
