/* sph_dam_break: a block of water made of particles collapses in a tank, weakly compressible
   (wcsph) or incompressible (dfsph). It shows filling, walls of boundary particles, adaptive
   steps, what the solver reports, and the surface for drawing.

       build/sph_dam_break --out out
       build/sph_dam_break --set solver=wcsph

   Result: how far the density is off, and the particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "common.h"

static void draw(ex_args *args, const fsi_sph *sph, double H) {
    int n = 36;
    int nx = 3 * n;
    int ny = 2 * n;
    int nz = n;
    double h = H / n;
    double lo[3] = {0, 0, 0};
    double hi[3] = {3 * H, 2 * H, H};
    double flo[3] = {-2 * H, 0, -2 * H};
    double fhi[3] = {5 * H, 0, 3 * H};
    fsi_real *phi = (fsi_real *)malloc((size_t)(nx * ny * nz) * sizeof *phi);
    ex_image image = ex_image_make(800, 500);
    ex_camera camera = ex_camera_make(3.6 * H, 2.3 * H, 4.3 * H, 1.5 * H, 0.75 * H, 0.5 * H, 1, 39);
    char text[96];
    if (!phi)
        return;
    ex_floor(&image, &camera, flo, fhi, 1, -0.01 * H, H / 2);
    if (fsi_sph_level(sph, fsi_vec(h / 2, h / 2, h / 2), h, nx, ny, nz, 0, phi) == FSI_OK)
        ex_draw_water(&image, &camera, nx, ny, nz, h, phi, ex_rgb(60, 130, 200), 0.45);
    ex_box3(&image, &camera, lo, hi, ex_grey(90));
    snprintf(text, sizeof text, "%d particles, t = %.2f s", sph->now.count, sph->now.time);
    ex_text(&image, 12, 12, 2, ex_grey(40), text);
    ex_frame(args, &image);
    ex_image_free(&image);
    free(phi);
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
    double mass = 0;
    double error = 0;
    double iterations = 0;
    double top = 0;
    double speed = 0;
    int stable = 1;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    int n = args.size;
    double H = ex_number(&args, "height");
    fsi_sph_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.solver = ex_is(&args, "solver", "wcsph") ? FSI_SPH_WCSPH : FSI_SPH_DFSPH;
    desc.capacity = n * n * n;
    desc.boundary_capacity = 22 * n * n + 60 * n + 100;
    desc.spacing = H / n;
    desc.density = ex_number(&args, "density");
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);

    /* ten times the top speed: 1 % compression */
    desc.sound_speed = (10 * sqrt(2 * ex_number(&args, "gravity") * H) + 1e-3);
    desc.viscosity = ex_number(&args, "viscosity");
    if (desc.solver == FSI_SPH_WCSPH)
        desc.artificial = 0.05;

    fsi_sph sph;
    ex_need(fsi_sph_init(&sph, &desc));
    ex_need(fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(H, H, H), fsi_vec(0, 0, 0), NULL));
    ex_need(fsi_sph_add_box_walls(&sph, fsi_vec(0, 0, 0), fsi_vec(3 * H, 2 * H, H), 0, NULL));
    double mass0;
    fsi_sph_totals(&sph, &mass0, NULL, NULL, NULL);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        double until = ex_number(&args, "frame") * (frame + 1);
        while (stable && sph.now.time < until - 1e-9) {
            double dt = fmin(fsi_sph_max_dt(&sph), until - sph.now.time);
            if (ex_try(fsi_sph_step(&sph, dt, NULL)) < 0) {
                stable = 0;
                break;
            }
            steps++;
            error += sph.stats.density_error;
            iterations += sph.stats.density_iterations + sph.stats.divergence_iterations;
            top = fmax(top, sph.stats.max_density);
            speed = fmax(speed, sph.stats.max_speed);
        }

        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &sph, H);
    }

    fsi_sph_totals(&sph, &mass, NULL, NULL, NULL);
    int i;

    for (i = 0, n = 0; i < sph.now.count; i++)
        n += sph.x[i] < -desc.spacing || sph.y[i] < -desc.spacing || sph.z[i] < -desc.spacing
             || sph.x[i] > (3 * H) + desc.spacing || sph.z[i] > H + desc.spacing;
    if (!(speed < 100 * sqrt(2 * 9.81 * H) + 10))
        stable = 0;

    ex_result("particles", "%d", sph.now.count);
    ex_result("iterations", "%.3f", iterations / (double)(steps ? steps : 1));
    ex_result("density_error", "%.3e", error / (double)(steps ? steps : 1));
    ex_result("max_density_ratio", "%.4f", top);
    ex_result("peak_speed", "%.3f", speed);
    ex_result("lost", "%d", n + (int)sph.now.lost);
    ex_result("volume_error", "%.3e", fabs(mass / mass0 - 1));
    fsi_sph_free(&sph);
    return ex_end(&args, steps, stable);
}
