/* balloon: a rubber cap on the floor is blown up through a nozzle (XPM fig. 6, 8, 9, 12).
   cc -O2 -I. -Iexamples examples/balloon.c -o balloon -lm
   The fluid inside touches no free surface: without the boundary pressure projection (bpp=0) the rubber never feels the pressure and does not
   inflate; with it, the balloon gains what is injected. fluid=water: water inside, air outside. compare=1 runs the monolithic solve beside it.
   Figure 12 (iterations while it grows): --frames 540 --set walls=open --set ramp=540 --set tolerance=0.01 --set scheme=p, or xpm. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

typedef struct scene {
    fsi_grid grid; fsi_soft rubber; fsi_soft_responder responder; fsi_coupled door;
    fsi_partitioned_scene p; fsi_partitioned scheme; fsi_interface face; fsi_couple mono; fsi_scene solids; fsi_solid_part part; fsi_coupled *list[1], *doors[1];
    int dim, monolithic, water, nodes, faces;
    double h, divergence, v0;
    fsi_real *x; int32_t *index; unsigned char *pin;
} scene;
static const double R = 0.18, CX = 0.5;                       /* rest radius, centre on the floor */

/* A half circle (2D) or half sphere of rings (3D) whose rim is pinned to the floor. */
static void make_cap(scene *s, double h, double below) {
    int rings = (int)(1.571 * R / (0.9 * h)) + 2, around = s->dim == 2 ? 1 : (int)(6.283 * R / (1.2 * h)), i, j;
    int nodes = s->dim == 2 ? 2 * rings - 1 : around * (rings - 1) + 1, faces = s->dim == 2 ? 2 * rings - 2 : around * (2 * rings - 3);
    s->x = (fsi_real *)calloc((size_t)nodes * 3, sizeof(fsi_real));
    s->index = (int32_t *)calloc((size_t)faces * 3, sizeof(int32_t));
    s->pin = (unsigned char *)calloc((size_t)nodes, 1);
    for (i = 0; i < nodes; i++) {
        double t = s->dim == 2 ? 3.14159265358979 * i / (nodes - 1) : 1.5707963267949 * (i / around) / (rings - 1), p = s->dim == 2 ? 0 : 6.283185307 * (i % around) / around;
        if (s->dim == 3 && i == nodes - 1) t = 1.5707963267949;
        s->x[3 * i] = (fsi_real)(CX + R * cos(t) * cos(p));
        s->x[3 * i + 1] = (fsi_real)(R * sin(t) - (t < 1e-9 || t > 3.14159265 ? below : 0));
        s->x[3 * i + 2] = (fsi_real)(s->dim == 2 ? 0 : CX + R * cos(t) * sin(p));
    }
    if (s->dim == 2) {
        for (i = 0; i + 1 < nodes; i++) s->index[2 * i] = i, s->index[2 * i + 1] = i + 1;
        s->pin[0] = s->pin[nodes - 1] = 7;
        faces = nodes - 1;
    } else {
        int f = 0;
        for (j = 0; j < rings - 1; j++)
            for (i = 0; i < around; i++) {
                int a = j * around + i, b = j * around + (i + 1) % around, c = a + around, d = b + around;
                if (j == rings - 2) { s->index[3 * f] = b; s->index[3 * f + 1] = a; s->index[3 * f++ + 2] = nodes - 1; continue; }
                s->index[3 * f] = b; s->index[3 * f + 1] = a; s->index[3 * f++ + 2] = c;
                s->index[3 * f] = b; s->index[3 * f + 1] = c; s->index[3 * f++ + 2] = d;
            }
        for (i = 0; i < around; i++) s->pin[i] = 7;
        faces = f;
    }
    s->nodes = nodes;
    s->faces = faces;
}
/* Volume between the cap and the floor. */
static double volume(const scene *s) {
    double v = 0;
    int f;
    for (f = 0; f < s->faces; f++) {
        const fsi_real *a = s->rubber.x + 3 * s->index[s->dim * f], *b = s->rubber.x + 3 * s->index[s->dim * f + 1], *c = s->rubber.x + 3 * s->index[s->dim * f + (s->dim == 3 ? 2 : 0)];
        if (s->dim == 2) v += 0.5 * (double)(a[1] + b[1]) * (double)(a[0] - b[0]);
        else v += (double)((a[1] + b[1] + c[1]) / 3) * 0.5 * (double)((b[2] - a[2]) * (c[0] - a[0]) - (b[0] - a[0]) * (c[2] - a[2]));
    }
    return fabs(v);
}
static fsi_real cap_distance(fsi_vec3 x, void *user) {
    double z = ((scene *)user)->dim == 2 ? 0 : (double)x.z - CX;
    return (fsi_real)(sqrt(pow((double)x.x - CX, 2) + (double)(x.y * x.y) + z * z) - R);
}
static fsi_result begin(void *user, fsi_real dt) {
    scene *s = (scene *)user;
    if (s->monolithic) fsi_soft_forces(&s->rubber, dt);
    fsi_soft_coupled(&s->rubber, &s->door);
    return fsi_soft_responder_begin(&s->responder);
}
static fsi_result move(void *user, fsi_real dt) { return fsi_soft_move(&((scene *)user)->rubber, dt); }

static void draw(ex_args *a, scene *s) {
    ex_image m = ex_image_make(480, 480);
    fsi_surface f = fsi_soft_surface(&s->rubber);
    if (s->dim == 2) {
        ex_view v = ex_view_make(0, 0, 1, 1, 30, 30, 400, 400);
        ex_draw_field(&m, &v, s->grid.nx, s->grid.ny, s->grid.density ? s->grid.density : s->grid.pressure, 0, 1, 2);
        if (s->grid.phi) ex_draw_liquid(&m, &v, s->grid.nx, s->grid.ny, s->grid.phi, ex_rgb(70, 150, 215));
        ex_draw_surface(&m, &v, &f, ex_rgb(200, 50, 60));
    } else {
        ex_camera c = ex_camera_make(1.5, 0.9, 2.0, CX, 0.25, CX, 1, 32);
        const double lo[3] = {0, 0, 0}, hi[3] = {1, 1, 1};
        ex_clear(&m, ex_rgb(246, 248, 250));
        ex_floor(&m, &c, lo, hi, 1, 0, 0.1);
        ex_draw_surface3(&m, &c, &f, ex_rgb(215, 60, 70));
        ex_box3(&m, &c, lo, hi, ex_rgb(120, 120, 120));
    }
    ex_frame(a, &m);
    ex_image_free(&m);
}

/* Grid, nozzle, rubber and the scheme that couples them; 0 = lack of memory. */
static int make_scene(scene *s, ex_args *a, int monolithic, double rate) {
    fsi_grid_desc g = {0};
    fsi_grid_source nozzle = {0};
    fsi_soft_desc c = {0};
    fsi_partitioned_desc d = {0};
    double cells, h = s->h = 1.0 / a->size;
    int relaxed = ex_is(a, "scheme", "p") || ex_is(a, "scheme", "pc"), i;
    s->dim = (int)ex_number(a, "dim"); s->water = ex_is(a, "fluid", "water"); s->monolithic = monolithic;
    g.nx = g.ny = a->size; g.nz = s->dim == 3 ? a->size : 1; g.h = (fsi_real)h; g.rho = 1; g.shells = 1; g.smoke = !s->water; g.liquid = s->water;
    g.advect_velocity = FSI_ADVECT_LINEAR;
    for (i = 0; i < 6; i++) if (i == 3 || (i != 2 && ex_is(a, "walls", "open"))) g.side[i].kind = FSI_SIDE_OPEN;
    if (fsi_grid_init(&s->grid, &g) != FSI_OK) return 0;
    if (s->water) fsi_grid_set_field(&s->grid, FSI_FIELD_PHI, cap_distance, s);
    make_cap(s, h, 0.0);
    nozzle.lo = fsi_vec(FSI_R(CX - 0.08), 0, FSI_R(CX - 0.08)); nozzle.hi = fsi_vec(FSI_R(CX + 0.08), (fsi_real)(1.01 * h), FSI_R(CX + 0.08));
    cells = floor((CX + 0.08) / h - 0.5) - ceil((CX - 0.08) / h - 0.5) + 1;   /* cell centres inside, along one axis */
    nozzle.set = FSI_SOURCE_DIVERGENCE | (s->water ? 0u : (unsigned)FSI_SOURCE_DENSITY);
    nozzle.density = 1; s->divergence = rate / ((s->dim == 2 ? cells : cells * cells) * pow(h, s->dim)); nozzle.divergence = (fsi_real)s->divergence;
    fsi_grid_add_source(&s->grid, &nozzle);
    c.dim = s->dim; c.vertex_count = s->nodes; c.x = s->x; c.pin = s->pin; c.stretch = (fsi_real)ex_number(a, "stiffness"); c.bend = FSI_R(1e-6); c.damping_stiffness = FSI_R(0.01);
    if (s->dim == 2) c.segment_count = s->faces, c.segment = s->index; else c.triangle_count = s->faces, c.triangle = s->index, c.stretch_poisson = FSI_R(0.3);
    c.area_density = (fsi_real)(ex_number(a, "mass_ratio") * 2 * h); c.integrator = monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT;
    if (fsi_soft_init(&s->rubber, &c) != FSI_OK) return 0;
    s->responder.soft = &s->rubber;
    s->v0 = volume(s);
    d.n = d.m = 3 * s->nodes + 64; d.group = 3; d.tolerance = (fsi_real)(ex_number(a, "tolerance") * h); d.min_iterations = 2; d.omega = (fsi_real)ex_number(a, "omega");
    d.scheme = relaxed ? FSI_SCHEME_RELAXED : FSI_SCHEME_REDUCED; d.max_iterations = (int)ex_number(a, "cap");
    if (fsi_partitioned_init(&s->scheme, &d) != FSI_OK) return 0;
    if ((monolithic ? fsi_couple_init(&s->mono, &s->grid, NULL) : fsi_interface_init(&s->face, &s->grid, NULL)) != FSI_OK) return 0;
    s->list[0] = s->part.solid = &s->door; s->part.respond_fn = fsi_soft_respond; s->part.user = &s->responder;
    s->p.grid = &s->grid; s->p.face = &s->face; s->p.scheme = &s->scheme; s->p.list = s->doors; s->p.solids.part = &s->part; s->p.solids.count = 1;
    s->p.fluid.bpp = s->p.fluid.swept = (int)ex_number(a, "bpp"); s->p.fluid.pressure_form = ex_is(a, "scheme", "p") || ex_is(a, "scheme", "rmi");
    s->p.begin_fn = begin; s->p.move_fn = move; s->p.user = s;
    s->solids.solid = s->list; s->solids.count = 1; s->solids.begin_fn = begin; s->solids.move_fn = move; s->solids.user = s;
    return 1;
}
/* One step with a share of the full inflow; 0 = it came apart. */
static int step_scene(scene *s, double share, fsi_report *report) {
    fsi_result r;
    s->grid.source[0].divergence = (fsi_real)(share * s->divergence);
    r = s->monolithic ? fsi_couple_step(&s->mono, &s->solids, (fsi_real)s->h, report) : fsi_partitioned_scene_step(&s->p, (fsi_real)s->h, report);
    if (r >= 0 && (double)fsi_max_abs(3 * (size_t)s->nodes, s->rubber.v) < 50) return 1;
    fprintf(stderr, "%s\n", fsi_result_text(r));
    return 0;
}
static void free_scene(scene *s) {
    fsi_partitioned_scene_free(&s->p); fsi_partitioned_free(&s->scheme); fsi_soft_responder_free(&s->responder); fsi_soft_free(&s->rubber);
    fsi_interface_free(&s->face); fsi_couple_free(&s->mono); fsi_grid_free(&s->grid); free(s->x); free(s->index); free(s->pin);
}
/* Largest distance of a node of s from the surface of t, cells. */
static double shape_distance(const scene *s, const scene *t) {
    double most = 0;
    int i, e, k;
    for (i = 0; i < s->nodes; i++) {
        fsi_vec3 x = fsi_vec(s->rubber.x[3 * i], s->rubber.x[3 * i + 1], s->rubber.x[3 * i + 2]), c[3];
        double least = 1e30;
        for (e = 0; e < t->faces; e++) {
            fsi_real w[3], d;
            for (k = 0; k < t->dim; k++) { const fsi_real *p = t->rubber.x + 3 * t->index[t->dim * e + k]; c[k] = fsi_vec(p[0], p[1], p[2]); }
            d = t->dim == 2 ? fsi_closest_on_segment(x, c[0], c[1], w) : fsi_closest_on_triangle(x, c[0], c[1], c[2], w);
            least = fmin(least, sqrt((double)d));
        }
        most = fmax(most, least);
    }
    return most / s->h;
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"dim", "", "2 or 3", "2", 2, 3, NULL}, {"fluid", "", "what is blown in", "smoke", 0, 0, "smoke,water"},
                                  {"bpp", "", "1: boundary pressure projection", "1", 0, 1, NULL}, {"scheme", "", "coupling", "xpm", 0, 0, "p,pc,rmi,xpm,monolithic"},
                                  {"omega", "", "relaxation of p and pc", "0.2", 1e-3, 1.9, NULL}, {"mass_ratio", "", "rubber over a fluid layer two cells thick", "0.8", 1e-3, 1e3, NULL},
                                  {"rate", "1/s", "volume injected per second over the rest volume", "0.6", 0, 10, NULL}, {"stiffness", "N/m", "of the rubber", "2", 0, 1e6, NULL},
                                  {"tolerance", "cells", "residual of the partitioned schemes", "0.001", 1e-9, 1, NULL}, {"cap", "", "most iterations of a step", "30", 2, 1000, NULL},
                                  {"walls", "", "sides of the box", "closed", 0, 0, "closed,open"}, {"ramp", "steps", "over which the inflow grows", "0", 0, 1e6, NULL},
                                  {"compare", "", "1: the monolithic solve beside it", "0", 0, 1, NULL}};
    static scene s, other;
    ex_args a;
    int frame, stable = 1, most = 0, compare;
    double injected = 0, leak = 0, total = 0, third[3] = {0, 0, 0}, q, shape = 0, ramp;
    ex_begin(&a, argc, argv, "balloon", "A rubber cap is blown up through a nozzle in the floor.", keys, 13, 48, 120);
    q = ex_number(&a, "rate") * ((int)ex_number(&a, "dim") == 2 ? 0.5 * 3.14159 * R * R : 2.0 / 3 * 3.14159 * R * R * R);
    ramp = ex_number(&a, "ramp"); compare = (int)ex_number(&a, "compare");
    if (!make_scene(&s, &a, ex_is(&a, "scheme", "monolithic"), q) || (compare && !make_scene(&other, &a, 1, q))) return 1;
    for (frame = 0; frame < a.frames && stable; frame++) {
        fsi_report report;
        double share = frame + 1 < ramp ? (frame + 1) / ramp : 1;
        stable = step_scene(&s, share, &report);
        injected += share * q * s.h; leak += s.p.fluid.leak; total += report.iterations; third[3 * frame / a.frames] += report.iterations;
        if (report.iterations > most) most = report.iterations;
        if (compare && stable) stable = step_scene(&other, share, &report), shape = fmax(shape, shape_distance(&s, &other));
        if (a.out) draw(&a, &s);
        ex_progress(&a, frame);
    }
    ex_result("injected", "%.8f", injected);
    ex_result("gained", "%.8f", volume(&s) - s.v0);
    ex_result("volume_error", "%.6f", (volume(&s) - s.v0 - injected) / injected);
    if (!s.monolithic) ex_result("leak", "%.6f", leak / injected);     /* what the steps' residuals left over, summed: it explains volume_error */
    if (compare) ex_result("shape_error", "%.4f", shape);              /* cells from the monolithic surface, the largest of all steps */
    ex_result("mean_iterations", "%.3f", total / (frame > 0 ? frame : 1));
    ex_result("mean_iterations_first_third", "%.3f", third[0] / (a.frames / 3.0));
    ex_result("mean_iterations_last_third", "%.3f", third[2] / (a.frames / 3.0));
    ex_result("max_iterations", "%d", most);
    free_scene(&s);
    if (compare) free_scene(&other);
    return ex_end(&a, frame, stable);
}
