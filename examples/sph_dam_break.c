/* sph_dam_break: a block of water made of particles collapses in a tank, weakly compressible
   (wcsph) or incompressible (dfsph). It shows filling, walls of boundary particles, adaptive
   steps, what the solver reports, and the surface for drawing.

       build/sph_dam_break --out out
       build/sph_dam_break --set solver=wcsph

   Result: how far the density is off, and the particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "common.h"

/* A cube of water at the left end of a tank three times as long and twice as high. */
static void make_dam(fsi_sph *sph, const ex_args *args) {
    int n = args->size;
    double height = ex_number(args, "height");
    double gravity = ex_number(args, "gravity");
    int weakly = ex_is(args, "solver", "wcsph");
    fsi_sph_desc desc = {
        .solver = weakly ? FSI_SPH_WCSPH : FSI_SPH_DFSPH,
        .capacity = n * n * n,
        .boundary_capacity = 22 * n * n + 60 * n + 100,
        .spacing = height / n,
        .density = ex_number(args, "density"),
        .gravity = fsi_vec(0, -gravity, 0),
        .viscosity = ex_number(args, "viscosity"),
        .artificial = weakly ? 0.05 : 0,
    };

    /* Ten times the speed of a free fall from the top: the water yields by one percent. */
    desc.sound_speed = 10 * sqrt(2 * gravity * height) + 1e-3;
    ex_need(fsi_sph_init(sph, &desc));

    fsi_vec3 corner = fsi_vec(0, 0, 0);
    fsi_vec3 block = fsi_vec(height, height, height);
    fsi_vec3 tank = fsi_vec(3 * height, 2 * height, height);
    fsi_vec3 at_rest = fsi_vec(0, 0, 0);
    ex_need(fsi_sph_add_block(sph, corner, block, at_rest, NULL));
    ex_need(fsi_sph_add_box_walls(sph, corner, tank, 0, NULL));
}

/* Sums and extremes over the steps of a run. */
typedef struct history {
    long steps;
    double density_error;
    double iterations;
    double top_density;
    double top_speed;
} history;

/* Steps as long as the solver advises, up to the time of the next picture. */
static void run_until(fsi_sph *sph, double until, history *sum) {
    while (ex_fine() && sph->now.time < until - 1e-9) {
        double dt = fmin(fsi_sph_max_dt(sph), until - sph->now.time);
        if (ex_try(fsi_sph_step(sph, dt, NULL)) < 0)
            return;
        const fsi_sph_stats *stats = &sph->stats;
        sum->steps++;
        sum->density_error += stats->density_error;
        sum->iterations += stats->density_iterations + stats->divergence_iterations;
        sum->top_density = fmax(sum->top_density, stats->max_density);
        sum->top_speed = fmax(sum->top_speed, stats->max_speed);
    }
}

/* Particles that have left the tank through its floor or a side. It is open above. */
static int count_outside(const fsi_sph *sph, double height) {
    double margin = sph->desc.spacing;
    int outside = 0;
    for (int i = 0; i < sph->now.count; i++) {
        int along = sph->x[i] >= -margin && sph->x[i] <= 3 * height + margin;
        int above = sph->y[i] >= -margin;
        int across = sph->z[i] >= -margin && sph->z[i] <= height + margin;
        outside += !(along && above && across);
    }
    return outside;
}

/* ---- pictures: the particles as one surface, on a grid of 36 cells to the block's height */
static void draw_water(ex_image *image, const ex_camera *camera, const fsi_sph *sph, double h) {
    int nx = 108;
    int ny = 72;
    int nz = 36;
    fsi_real *phi = ex_alloc((size_t)(nx * ny * nz), sizeof *phi);
    fsi_vec3 first_cell = fsi_vec(h / 2, h / 2, h / 2);
    if (fsi_sph_level(sph, first_cell, h, nx, ny, nz, 0, phi) == FSI_OK)
        ex_draw_water(image, camera, nx, ny, nz, h, phi, ex_rgb(60, 130, 200), 0.45);
    free(phi);
}

static void draw(ex_args *args, const fsi_sph *sph, double height) {
    double corner[3] = {0, 0, 0};
    double tank[3] = {3 * height, 2 * height, height};
    double floor_from[3] = {-2 * height, 0, -2 * height};
    double floor_to[3] = {5 * height, 0, 3 * height};
    ex_image image = ex_image_make(800, 500);
    ex_camera camera = ex_camera_make(3.6 * height, 2.3 * height, 4.3 * height, 1.5 * height,
                                      0.75 * height, 0.5 * height, 1, 39);
    ex_floor(&image, &camera, floor_from, floor_to, 1, -0.01 * height, height / 2);
    draw_water(&image, &camera, sph, height / 36);
    ex_box3(&image, &camera, corner, tank, ex_grey(90));

    char text[96];
    snprintf(text, sizeof text, "%d particles, t = %.2f s", sph->now.count, sph->now.time);
    ex_text(&image, 12, 12, 2, ex_grey(40), text);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "sph_dam_break",
    .what = "A block of water made of particles collapses in a tank.",
    .size = 24,
    .frames = 80,
    .keys =
        {
            EX_WORD("solver", "pressure", "dfsph", "wcsph,dfsph"),
            EX_NUMBER("height", "m", "of the block", "1", "0.01 to 100"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
            EX_NUMBER("density", "kg/m^3", "of the water", "1000", "1 to 1e5"),
            EX_NUMBER("viscosity", "Pa s", "laminar", "0.5", "0 to 1e3"),
            EX_NUMBER("frame", "s", "time between pictures", "0.025", "1e-4 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    double height = ex_number(&args, "height");
    double interval = ex_number(&args, "frame");

    fsi_sph sph;
    make_dam(&sph, &args);
    double mass_at_first;
    fsi_sph_totals(&sph, &mass_at_first, NULL, NULL, NULL);

    history sum = {0};
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        run_until(&sph, interval * (frame + 1), &sum);
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &sph, height);
    }

    double mass;
    fsi_sph_totals(&sph, &mass, NULL, NULL, NULL);
    double steps = (double)(sum.steps ? sum.steps : 1);
    int in_bounds = sum.top_speed < 100 * sqrt(2 * 9.81 * height) + 10;

    ex_result("particles", "%d", sph.now.count);
    ex_result("iterations", "%.3f", sum.iterations / steps);
    ex_result("density_error", "%.3e", sum.density_error / steps);
    ex_result("max_density_ratio", "%.4f", sum.top_density);
    ex_result("peak_speed", "%.3f", sum.top_speed);
    ex_result("lost", "%d", count_outside(&sph, height) + (int)sph.now.lost);
    ex_result("volume_error", "%.3e", fabs(mass / mass_at_first - 1));
    fsi_sph_free(&sph);
    return ex_end(&args, sum.steps, ex_fine() && in_bounds);
}
