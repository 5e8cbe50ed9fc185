/* smoke_plume: hot smoke rises from a hot spot, curls and leaves through the open top; a ball in
   its way if asked for. cc -O2 -I. -Iexamples examples/smoke_plume.c -o smoke_plume -lm The closed
   sides are frictionless; buoyancy lifts the heat, vorticity confinement keeps the curls alive. */
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
    fsi_vec3 d = fsi_vec_sub(b, a), o = fsi_vec_sub(a, s->centre);
    if (s->dim == 2)
        d.z = o.z = 0;
    double A = (double)fsi_vec_dot(d, d);
    double B = (double)fsi_vec_dot(d, o);
    double C = (double)fsi_vec_dot(o, o) - (double)(s->radius * s->radius);
    double q = B * B - A * C;
    if (!(A > 0) || q < 0)
        return 0;
    double x = (-B - sqrt(q)) / A;
    if (x < 0 || x > 1)
        return 0;
    *t = (fsi_real)x;
    *normal = fsi_vec_unit(fsi_vec_mad(o, d, *t));
    *velocity = fsi_vec(0, 0, 0);
    return 1;
}

/* The ball, seen by the camera. */
static void draw_ball(ex_image *m, const ex_camera *c, const ball *b) {
    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++) {
            double px = (x + 0.5 - m->w / 2.0) * 2 / (m->h * c->zoom),
                   py = (m->h / 2.0 - y - 0.5) * 2 / (m->h * c->zoom), d[3], o[3], n[3], A = 0,
                   B = 0;
            const double at[3] = {(double)b->centre.x, (double)b->centre.y, (double)b->centre.z};
            double C = -(double)(b->radius * b->radius);
            for (int i = 0; i < 3; i++) {
                d[i] = c->ahead[i] + px * c->right[i] + py * c->up[i];
                o[i] = c->eye[i] - at[i];
                A += d[i] * d[i];
                B += d[i] * o[i];
                C += o[i] * o[i];
            }
            if (B * B < A * C)
                continue;
            double t = (-B - sqrt(B * B - A * C)) / A;
            for (int i = 0; i < 3; i++)
                n[i] = o[i] + t * d[i];
            ex_blend(m, x, y, ex_shade(c, n, ex_rgb(215, 120, 60), 0.5), 1);
            m->depth[y * m->w + x] = (float)t;
        }
}

/* 2D: the density. 3D: lit smoke before a dark room. */
static void draw(ex_args *a, const fsi_grid *g, const ball *b) {
    int W = 480, H = g->dim == 3 ? 660 : W * g->ny / g->nx;
    double w = (double)(g->nx * g->h), h = (double)(g->ny * g->h);
    ex_image m = ex_image_make(W, H);
    if (g->dim == 3) {
        const double lo[3] = {0, 0, 0}, hi[3] = {w, h, w};
        ex_camera c = ex_camera_make(1.35, 1.05, 3.6, 0.5 * w, 0.48 * h, 0.5 * w, 1, 36);
        for (int y = 0; y < H; y++)
            ex_line(&m, 0, y, W, y, 1.5, ex_rgb(22 + 26 * y / H, 26 + 30 * y / H, 38 + 36 * y / H));
        ex_floor(&m, &c, lo, hi, 1, 0, 0.25);
        if (b->radius > 0)
            draw_ball(&m, &c, b);
        ex_box3(&m, &c, lo, hi, ex_rgb(120, 128, 145));
        ex_draw_smoke(&m, &c, g->nx, g->ny, g->nz, (double)g->h, g->density, 0.06,
                      ex_rgb(250, 244, 236));
    } else {
        ex_view v = ex_view_make(0, 0, w, h, 0, 0, W, H);
        ex_draw_field(&m, &v, g->nx, g->ny, g->density, 0, 1, 0);
        if (b->radius > 0)
            ex_disk(&m, ex_px(&v, (double)b->centre.x), ex_py(&v, (double)b->centre.y),
                    (double)b->radius * W / w, ex_rgb(180, 110, 70));
    }
    ex_frame(a, &m);
    ex_image_free(&m);
}

static const ex_key keys[] = {
    {"dim", "", "2 or 3", "2", 2, 3, NULL},
    {"ball", "", "1: a ball in the way", "1", 0, 1, NULL},
    {"advection", "", "how velocity and smoke are carried", "maccormack", 0, 0,
     "maccormack,linear"},
    {"buoyancy", "m/s^2", "acceleration of the hottest smoke", "8", 0, 100, NULL},
    {"confinement", "", "vorticity confinement", "0.06", 0, 5, NULL},
    {"dt", "s", "time of one frame", "0.025", 1e-4, 1, NULL},
    {"export", "", "1: write the density as VTK", "0", 0, 1, NULL}};

int main(int argc, char **argv) {
    ex_args a;
    double top = 0, smoke = 0, worst = 0, iterations = 0;
    long steps = 0;
    int stable = 1;
    ex_begin(&a, argc, argv, "smoke_plume", "Hot smoke rises past a ball.", keys, 7, 128, 160);
    int three = ex_number(&a, "dim") > 2.5;
    fsi_grid_desc d;
    memset(&d, 0, sizeof d);
    d.ny = a.size < 16 ? 16 : a.size; /* the box is 1 x 1.5 (x 1) m */
    d.nx = d.ny * 2 / 3;
    d.nz = three ? d.nx : 1;
    d.h = (fsi_real)(1.0 / d.nx);
    d.rho = (fsi_real)1.2;
    d.smoke = 1;
    d.side[3].kind = FSI_SIDE_OPEN;
    d.buoyancy_temperature = (fsi_real)ex_number(&a, "buoyancy");
    d.confinement = (fsi_real)ex_number(&a, "confinement");
    d.cooling = (fsi_real)0.2;
    d.advect_velocity = d.advect_density = d.advect_temperature =
        ex_is(&a, "advection", "linear") ? FSI_ADVECT_LINEAR : FSI_ADVECT_MACCORMACK;
    fsi_grid g;
    if (fsi_grid_init(&g, &d) < 0) {
        fprintf(stderr, "no memory for this size\n");
        return 1;
    }
    fsi_grid_source vent;
    memset(&vent, 0, sizeof vent);
    vent.shape = FSI_SOURCE_SPHERE;
    /* a little off the middle, so that the plume sways */
    vent.centre = fsi_vec((fsi_real)0.49, (fsi_real)0.14, (fsi_real)0.5);
    vent.radius = (fsi_real)0.08;
    vent.set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE;
    vent.density = vent.temperature = 1;
    fsi_grid_add_source(&g, &vent);
    ball b;
    b.centre = fsi_vec((fsi_real)0.52, (fsi_real)0.72, (fsi_real)0.5);
    b.radius = (fsi_real)(ex_number(&a, "ball") > 0 ? 0.09 : 0);
    b.dim = g.dim;
    uint8_t *solid = (uint8_t *)calloc(g.cells, 1);
    for (int k = 0; k < g.nz; k++)
        for (int j = 0; j < g.ny; j++)
            for (int i = 0; i < g.nx; i++) {
                fsi_vec3 x = fsi_vec_sub(fsi_grid_cell_centre(&g, i, j, k), b.centre);
                if (!three)
                    x.z = 0;
                solid[i + g.nx * (j + g.ny * k)] = fsi_vec_dot(x, x) < b.radius * b.radius;
            }
    fsi_occlusion o;
    memset(&o, 0, sizeof o);
    o.solid = solid;
    o.hit_fn = hit;
    o.user = &b;
    if (b.radius > 0)
        fsi_grid_set_occlusion(&g, &o);
    for (int frame = 0; frame < a.frames && stable; frame++) {
        fsi_report r;
        int n = 0;
        fsi_result q = fsi_grid_advance(&g, (fsi_real)ex_number(&a, "dt"), 20, &n, &r);
        stable = q >= 0 && fsi_all_finite(g.cells, g.density);
        steps += n;
        iterations += r.iterations;
        if (r.divergence * (double)ex_number(&a, "dt") > worst)
            worst = r.divergence * (double)ex_number(&a, "dt");
        if (a.out)
            draw(&a, &g, &b);
        ex_progress(&a, frame);
    }
    if (a.out && ex_number(&a, "export") > 0) {
        char path[1024];
        snprintf(path, sizeof path, "%s/smoke_plume.vtk", a.out);
        ex_vtk(path, g.nx, g.ny, g.nz, (double)g.h, "density", g.density);
    }
    for (int i = 0; i < (int)g.cells; i++) {
        double y = ((double)(i / g.nx % g.ny) + 0.5) * (double)g.h;
        smoke += (double)g.density[i];
        if ((double)g.density[i] > 0.1 && y > top)
            top = y;
    }
    ex_result("iterations", "%.2f", steps ? iterations / (double)steps : 0);
    /* largest divergence times the frame time */
    ex_result("divergence", "%.3g", worst);
    ex_result("height", "%.4f", top);                            /* m, of the smoke */
    ex_result("smoke", "%.6g", smoke * pow((double)g.h, g.dim)); /* what is in the box */
    fsi_grid_free(&g);
    free(solid);
    return ex_end(&a, steps, stable);
}
