/* smoke_plume: hot smoke rises from a hot spot, curls and leaves through the open top, past a ball
   if asked for. Buoyancy lifts the heat, vorticity confinement keeps the curls alive; closed sides
   are frictionless.

       build/smoke_plume --out out
       build/smoke_plume --set dim=3 --size 48

   Result: height of the smoke and divergence of the flow. */
#define FSI_IMPLEMENTATION
#include "fsi_grid.h"
#include "common.h"

typedef struct ball {
    fsi_vec3 centre;
    fsi_real radius;
    int dim;
} ball;

/* First point of a -> b on the ball. */
static int hit(void *user, fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal,
               fsi_vec3 *velocity) {
    const ball *s = (const ball *)user;
    fsi_vec3 d = fsi_vec_sub(b, a);
    fsi_vec3 o = fsi_vec_sub(a, s->centre);
    if (s->dim == 2)
        d.z = o.z = 0;
    double A = fsi_vec_dot(d, d);
    double B = fsi_vec_dot(d, o);
    double C = fsi_vec_dot(o, o) - (s->radius * s->radius);
    double q = B * B - A * C;
    if (!(A > 0) || q < 0)
        return 0;
    double x = (-B - sqrt(q)) / A;
    if (x < 0 || x > 1)
        return 0;
    *t = x;
    *normal = fsi_vec_unit(fsi_vec_mad(o, d, *t));
    *velocity = fsi_vec(0, 0, 0);
    return 1;
}

/* The ball, seen by the camera. */
static void draw_ball(ex_image *image, const ex_camera *camera, const ball *b) {
    for (int y = 0; y < image->h; y++)
        for (int x = 0; x < image->w; x++) {
            double d[3];
            double o[3];
            double n[3];
            double px = (x + 0.5 - image->w / 2.0) * 2 / (image->h * camera->zoom);
            double py = (image->h / 2.0 - y - 0.5) * 2 / (image->h * camera->zoom);
            double A = 0;
            double B = 0;
            const double at[3] = {b->centre.x, b->centre.y, b->centre.z};
            double C = -(b->radius * b->radius);
            for (int i = 0; i < 3; i++) {
                d[i] = camera->ahead[i] + px * camera->right[i] + py * camera->up[i];
                o[i] = camera->eye[i] - at[i];
                A += d[i] * d[i];
                B += d[i] * o[i];
                C += o[i] * o[i];
            }
            if (B * B < A * C)
                continue;
            double t = (-B - sqrt(B * B - A * C)) / A;
            for (int i = 0; i < 3; i++)
                n[i] = o[i] + t * d[i];
            ex_blend(image, x, y, ex_shade(camera, n, ex_rgb(215, 120, 60), 0.5), 1);
            image->depth[y * image->w + x] = (float)t;
        }
}

/* 2D: the density. 3D: lit smoke before a dark room. */
static void draw(ex_args *args, const fsi_grid *grid, const ball *b) {
    int W = 480;
    int H = grid->dim == 3 ? 660 : W * grid->ny / grid->nx;
    double w = grid->nx * grid->h;
    double h = grid->ny * grid->h;
    ex_image image = ex_image_make(W, H);
    if (grid->dim == 3) {
        const double lo[3] = {0, 0, 0};
        const double hi[3] = {w, h, w};
        ex_camera camera = ex_camera_make(1.35, 1.05, 3.6, 0.5 * w, 0.48 * h, 0.5 * w, 1, 36);
        for (int y = 0; y < H; y++)
            ex_line(&image, 0, y, W, y, 1.5,
                    ex_rgb(22 + 26 * y / H, 26 + 30 * y / H, 38 + 36 * y / H));
        ex_floor(&image, &camera, lo, hi, 1, 0, 0.25);
        if (b->radius > 0)
            draw_ball(&image, &camera, b);
        ex_box3(&image, &camera, lo, hi, ex_rgb(120, 128, 145));
        ex_draw_smoke(&image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->density, 0.06,
                      ex_rgb(250, 244, 236));
    } else {
        ex_view view = ex_view_make(0, 0, w, h, 0, 0, W, H);
        ex_draw_field(&image, &view, grid->nx, grid->ny, grid->density, 0, 1, 0);
        if (b->radius > 0)
            ex_disk(&image, ex_px(&view, b->centre.x), ex_py(&view, b->centre.y), b->radius * W / w,
                    ex_rgb(180, 110, 70));
    }

    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "smoke_plume",
    .what = "Hot smoke rises past a ball.",
    .size = 128,
    .frames = 160,
    .keys =
        {
            EX_NUMBER("dim", "", "2 or 3", "2", "2 to 3"),
            EX_NUMBER("ball", "", "1: a ball in the way", "1", "0 to 1"),
            EX_WORD("advection", "how velocity and smoke are carried", "maccormack",
                    "maccormack,linear"),
            EX_NUMBER("buoyancy", "m/s^2", "acceleration of the hottest smoke", "8", "0 to 100"),
            EX_NUMBER("confinement", "", "vorticity confinement", "0.06", "0 to 5"),
            EX_NUMBER("dt", "s", "time of one frame", "0.025", "1e-4 to 1"),
            EX_NUMBER("export", "", "1: write the density as VTK", "0", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    double top = 0;
    double smoke = 0;
    double worst = 0;
    double iterations = 0;
    long steps = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int three = ex_number(&args, "dim") > 2.5;
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.ny = args.size < 16 ? 16 : args.size; /* the box is 1 x 1.5 (x 1) m */
    desc.nx = desc.ny * 2 / 3;
    desc.nz = three ? desc.nx : 1;
    desc.h = 1.0 / desc.nx;
    desc.rho = 1.2;
    desc.smoke = 1;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.buoyancy_temperature = ex_number(&args, "buoyancy");
    desc.confinement = ex_number(&args, "confinement");
    desc.cooling = 0.2;
    desc.advect_velocity = desc.advect_density = desc.advect_temperature =
        ex_is(&args, "advection", "linear") ? FSI_ADVECT_LINEAR : FSI_ADVECT_MACCORMACK;

    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) < 0) {
        fprintf(stderr, "no memory for this size\n");
        return 1;
    }

    fsi_grid_source vent;
    memset(&vent, 0, sizeof vent);
    vent.shape = FSI_SOURCE_SPHERE;

    /* a little off the middle, so that the plume sways */
    vent.centre = fsi_vec(0.49, 0.14, 0.5);
    vent.radius = 0.08;
    vent.set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE;
    vent.density = vent.temperature = 1;
    fsi_grid_add_source(&grid, &vent);
    ball b;
    b.centre = fsi_vec(0.52, 0.72, 0.5);
    b.radius = ex_number(&args, "ball") > 0 ? 0.09 : 0;
    b.dim = grid.dim;
    uint8_t *solid = (uint8_t *)calloc(grid.cells, 1);

    for (int k = 0; k < grid.nz; k++)
        for (int j = 0; j < grid.ny; j++)
            for (int i = 0; i < grid.nx; i++) {
                fsi_vec3 x = fsi_vec_sub(fsi_grid_cell_centre(&grid, i, j, k), b.centre);
                if (!three)
                    x.z = 0;
                solid[i + grid.nx * (j + grid.ny * k)] = fsi_vec_dot(x, x) < b.radius * b.radius;
            }
    fsi_occlusion occlusion;
    memset(&occlusion, 0, sizeof occlusion);
    occlusion.solid = solid;
    occlusion.hit_fn = hit;
    occlusion.user = &b;
    if (b.radius > 0)
        fsi_grid_set_occlusion(&grid, &occlusion);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        fsi_report report;
        int n = 0;
        fsi_result result =
            ex_try(fsi_grid_advance(&grid, ex_number(&args, "dt"), 20, &n, &report));
        stable = result >= 0 && fsi_all_finite(grid.cells, grid.density);
        steps += n;
        iterations += report.iterations;
        if (report.divergence * ex_number(&args, "dt") > worst)
            worst = report.divergence * ex_number(&args, "dt");
        if (args.out)
            draw(&args, &grid, &b);
        ex_progress(&args, frame);
    }

    if (args.out && ex_number(&args, "export") > 0) {
        char path[1024];
        snprintf(path, sizeof path, "%s/smoke_plume.vtk", args.out);
        ex_vtk(path, grid.nx, grid.ny, grid.nz, grid.h, "density", grid.density);
    }

    for (int i = 0; i < (int)grid.cells; i++) {
        double y = ((double)(i / grid.nx % grid.ny) + 0.5) * grid.h;
        smoke += grid.density[i];
        if (grid.density[i] > 0.1 && y > top)
            top = y;
    }

    ex_result("iterations", "%.2f", steps ? iterations / (double)steps : 0);

    /* largest divergence times the frame time */
    ex_result("divergence", "%.3g", worst);
    ex_result("height", "%.4f", top);                          /* m, of the smoke */
    ex_result("smoke", "%.6g", smoke * pow(grid.h, grid.dim)); /* what is in the box */
    fsi_grid_free(&grid);
    free(solid);
    return ex_end(&args, steps, stable);
}
