/* smoke_plume: hot smoke rises from a hot spot, curls and leaves through the open top, past a ball
   if asked for. Buoyancy lifts the heat, vorticity confinement keeps the curls alive; closed sides
   are frictionless.

       build/smoke_plume --out out
       build/smoke_plume --set dim=3 --size 48

   Result: height of the smoke and divergence of the flow. */
#define FSI_IMPLEMENTATION
#include "fsi_grid.h"
#include "common.h"

/* A solid that the smoke flows around; radius 0: there is none. */
typedef struct ball {
    fsi_vec3 centre;
    fsi_real radius;
    int dim;
} ball;

/* A box of 1 m x 1.5 m (x 1 m), open above, and a hot spot near its floor. */
static void make_room(fsi_grid *grid, const ex_args *args) {
    int ny = args->size < 16 ? 16 : args->size;
    int nx = ny * 2 / 3;
    int linear = ex_is(args, "advection", "linear");
    fsi_advection carry = linear ? FSI_ADVECT_LINEAR : FSI_ADVECT_MACCORMACK;
    fsi_grid_desc desc = {
        .nx = nx,
        .ny = ny,
        .nz = ex_whole(args, "dim") == 3 ? nx : 1,
        .h = 1.0 / nx,
        .rho = 1.2,
        .smoke = 1,
        .side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .buoyancy_temperature = ex_number(args, "buoyancy"),
        .confinement = ex_number(args, "confinement"),
        .cooling = 0.2,
        .advect_velocity = carry,
        .advect_density = carry,
        .advect_temperature = carry,
    };
    ex_need(fsi_grid_init(grid, &desc));

    /* A little off the middle, so that the plume sways. */
    fsi_grid_source vent = {
        .shape = FSI_SOURCE_SPHERE,
        .centre = fsi_vec(0.49, 0.14, 0.5),
        .radius = 0.08,
        .set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE,
        .density = 1,
        .temperature = 1,
    };
    ex_need(fsi_grid_add_source(grid, &vent));
}

/* From the middle of the ball to a point. In 2D the ball is a disk. */
static fsi_vec3 from_centre(const ball *b, fsi_vec3 x) {
    fsi_vec3 arm = fsi_vec_sub(x, b->centre);
    if (b->dim == 2)
        arm.z = 0;
    return arm;
}

/* The grid asks: where does the way from a to b first meet the ball? |arm + t way| = radius is a
   quadratic equation for t. */
static int hit(fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal, fsi_vec3 *velocity,
               void *user) {
    const ball *s = (const ball *)user;
    fsi_vec3 arm = from_centre(s, a);
    fsi_vec3 way = fsi_vec_sub(b, a);
    if (s->dim == 2)
        way.z = 0;
    double squared = fsi_vec_dot(way, way);
    double half_linear = fsi_vec_dot(way, arm);
    double constant = fsi_vec_dot(arm, arm) - s->radius * s->radius;
    double root = half_linear * half_linear - squared * constant;
    if (!(squared > 0) || root < 0)
        return 0;

    double first = (-half_linear - sqrt(root)) / squared;
    if (first < 0 || first > 1)
        return 0;
    *t = first;
    *normal = fsi_vec_unit(fsi_vec_mad(arm, way, *t));
    *velocity = fsi_vec(0, 0, 0);
    return 1;
}

/* Tells the grid which cells the ball covers, and how to find its surface. Returns the list of
   cells, which the grid reads and the caller frees. */
static uint8_t *put_ball(fsi_grid *grid, ball *b) {
    uint8_t *solid = ex_alloc(grid->cells, 1);
    for (int k = 0; k < grid->nz; k++)
        for (int j = 0; j < grid->ny; j++)
            for (int i = 0; i < grid->nx; i++) {
                fsi_vec3 arm = from_centre(b, fsi_grid_cell_centre(grid, i, j, k));
                int inside = fsi_vec_dot(arm, arm) < b->radius * b->radius;
                solid[i + grid->nx * (j + grid->ny * k)] = (uint8_t)inside;
            }
    fsi_occlusion occlusion = {
        .solid = solid,
        .hit_fn = hit,
        .user = b,
    };
    if (b->radius > 0)
        ex_need(fsi_grid_set_occlusion(grid, &occlusion));
    return solid;
}

/* How high the smoke has come, m. */
static double smoke_top(const fsi_grid *grid) {
    double top = 0;
    for (int i = 0; i < (int)grid->cells; i++) {
        int row = i / grid->nx % grid->ny;
        if (grid->density[i] > 0.1)
            top = fmax(top, (row + 0.5) * grid->h);
    }
    return top;
}

static double smoke_amount(const fsi_grid *grid) {
    double sum = 0;
    for (size_t i = 0; i < grid->cells; i++)
        sum += grid->density[i];
    return sum * pow(grid->h, grid->dim);
}

/* ---- pictures */
/* One pixel of the ball, if the ray through it meets the ball. */
static void draw_ball_pixel(ex_image *image, const ex_camera *camera, const ball *b, int x, int y) {
    const double centre[3] = {b->centre.x, b->centre.y, b->centre.z};
    double scale = 2 / (image->h * camera->zoom);
    double right = (x + 0.5 - image->w / 2.0) * scale;
    double up = (image->h / 2.0 - y - 0.5) * scale;
    double way[3];
    double arm[3];
    double squared = 0;
    double half_linear = 0;
    double constant = -(b->radius * b->radius);
    for (int i = 0; i < 3; i++) {
        way[i] = camera->ahead[i] + right * camera->right[i] + up * camera->up[i];
        arm[i] = camera->eye[i] - centre[i];
        squared += way[i] * way[i];
        half_linear += way[i] * arm[i];
        constant += arm[i] * arm[i];
    }
    double root = half_linear * half_linear - squared * constant;
    if (root < 0)
        return;

    double t = (-half_linear - sqrt(root)) / squared;
    double normal[3];
    for (int i = 0; i < 3; i++)
        normal[i] = arm[i] + t * way[i];
    ex_blend(image, x, y, ex_shade(camera, normal, ex_rgb(215, 120, 60), 0.5), 1);
    image->depth[y * image->w + x] = (float)t;
}

/* Lit smoke before a dark room. */
static void draw3(ex_image *image, const fsi_grid *grid, const ball *b) {
    double w = grid->nx * grid->h;
    double h = grid->ny * grid->h;
    const double lo[3] = {0, 0, 0};
    const double hi[3] = {w, h, w};
    ex_camera camera = ex_camera_make(1.35, 1.05, 3.6, 0.5 * w, 0.48 * h, 0.5 * w, 1, 36);
    for (int y = 0; y < image->h; y++) {
        double down = (double)y / image->h;
        ex_color dark = ex_rgb(22 + 26 * down, 26 + 30 * down, 38 + 36 * down);
        ex_line(image, 0, y, image->w, y, 1.5, dark);
    }
    ex_floor(image, &camera, lo, hi, 1, 0, 0.25);
    for (int y = 0; y < image->h && b->radius > 0; y++)
        for (int x = 0; x < image->w; x++)
            draw_ball_pixel(image, &camera, b, x, y);
    ex_box3(image, &camera, lo, hi, ex_rgb(120, 128, 145));
    ex_draw_smoke(image, &camera, grid->nx, grid->ny, grid->nz, grid->h, grid->density, 0.06,
                  ex_rgb(250, 244, 236));
}

static void draw2(ex_image *image, const fsi_grid *grid, const ball *b) {
    double w = grid->nx * grid->h;
    double h = grid->ny * grid->h;
    ex_view view = ex_view_make(0, 0, w, h, 0, 0, image->w, image->h);
    ex_draw_field(image, &view, grid->nx, grid->ny, grid->density, 0, 1, EX_HEAT);
    double x = ex_px(&view, b->centre.x);
    double y = ex_py(&view, b->centre.y);
    if (b->radius > 0)
        ex_disk(image, x, y, b->radius * image->w / w, ex_rgb(180, 110, 70));
}

static void draw(ex_args *args, const fsi_grid *grid, const ball *b) {
    int height = grid->dim == 3 ? 660 : 480 * grid->ny / grid->nx;
    ex_image image = ex_image_make(480, height);
    if (grid->dim == 3)
        draw3(&image, grid, b);
    else
        draw2(&image, grid, b);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static void export_density(const ex_args *args, const fsi_grid *grid) {
    char path[1024];
    snprintf(path, sizeof path, "%s/smoke_plume.vtk", args->out);
    ex_vtk(path, grid->nx, grid->ny, grid->nz, grid->h, "density", grid->density);
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
    ex_begin(&args, argc, argv, &about);
    double dt = ex_number(&args, "dt");

    fsi_grid grid;
    make_room(&grid, &args);
    ball b = {
        .centre = fsi_vec(0.52, 0.72, 0.5),
        .radius = ex_number(&args, "ball") > 0 ? 0.09 : 0,
        .dim = grid.dim,
    };
    uint8_t *solid = put_ball(&grid, &b);

    /* A frame is as many steps as the speed of the smoke asks for, at most twenty. */
    double iterations = 0;
    double divergence = 0;
    long steps = 0;
    int finite = 1;
    for (int frame = 0; frame < args.frames && ex_fine() && finite; frame++) {
        fsi_report report = {0};
        int taken = 0;
        ex_try(fsi_grid_advance(&grid, dt, 20, &taken, &report));
        finite = fsi_all_finite(grid.cells, grid.density);
        steps += taken;
        iterations += report.iterations;
        divergence = fmax(divergence, report.divergence * dt);
        if (args.out)
            draw(&args, &grid, &b);
        ex_progress(&args, frame);
    }
    if (args.out && ex_number(&args, "export") > 0)
        export_density(&args, &grid);

    /* The largest divergence times the time of a frame; the height of the smoke in m. */
    ex_result("iterations", "%.2f", steps ? iterations / (double)steps : 0);
    ex_result("divergence", "%.3g", divergence);
    ex_result("height", "%.4f", smoke_top(&grid));
    ex_result("smoke", "%.6g", smoke_amount(&grid));
    fsi_grid_free(&grid);
    free(solid);
    return ex_end(&args, steps, ex_fine() && finite);
}
