/* slip_disk: a stream meets a thin sloping plate, slip beside no-slip (SLIP, figures 7 and 8). Smoke shows it at a glance.
   cc -O2 -I. -Iexamples examples/slip_disk.c -o slip_disk -lm
   Left the fluid slides along the plate (wall=noslip: sticks), right the wall holds it. Result: kinetic energy kept beside the plate, tracers that crossed
   it; leak: those of the left plate over all that came in with the stream. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum { SLIP, NOSLIP, TRACERS = 2000 };
typedef struct scene { fsi_grid grid; fsi_slip slip; fsi_coupled door, *list[1]; fsi_scene step; fsi_real x[6], point[3 * TRACERS], coefficient; double t[2]; int crossed, entered; } scene;

static double height(const scene *s, double x, double y) { return -(x - 0.5) * s->t[1] + (y - 0.5) * s->t[0]; }
static double along(const scene *s, double x, double y) { return (x - 0.5) * s->t[0] + (y - 0.5) * s->t[1]; }
static int make(scene *s, int size, double angle, double coefficient) {
    static const int32_t index[2] = {0, 1};
    fsi_grid_desc g = {0};
    fsi_slip_desc d = {0};
    size_t i;
    int j, k;
    memset(s, 0, sizeof *s);
    g.nx = g.ny = size; g.nz = 1; g.h = (fsi_real)(1.0 / size); g.rho = 1; g.shells = 1; g.scalars = 1;
    g.side[0].kind = FSI_SIDE_INFLOW; g.side[0].velocity.x = 1; g.side[1].kind = FSI_SIDE_OPEN;
    s->coefficient = (fsi_real)coefficient;
    d.coefficient = &s->coefficient;
    d.passes = 2;
    s->t[0] = cos(angle); s->t[1] = sin(angle);
    for (j = 0; j < 2; j++) { s->x[3 * j] = (fsi_real)(0.5 + (j ? 0.2 : -0.2) * s->t[0]); s->x[3 * j + 1] = (fsi_real)(0.5 + (j ? 0.2 : -0.2) * s->t[1]); }
    s->door.surface.dim = 2; s->door.surface.vertex_count = 2; s->door.surface.element_count = 1; s->door.surface.x = s->x; s->door.surface.index = index;
    s->list[0] = &s->door;
    s->step.solid = s->list; s->step.count = 1;
    if (fsi_grid_init(&s->grid, &g) != FSI_OK || fsi_slip_init(&s->slip, &s->grid, &d) != FSI_OK) return 0;
    for (i = 0; i < s->grid.faces[0]; i++) s->grid.u[0][i] = s->grid.u_plus[0][i] = 1;
    for (j = 0; j < size; j++) for (k = 0; k < size; k++) s->grid.scalar[0][k + size * j] = (fsi_real)(j / (size / 16 > 0 ? size / 16 : 1) & 1);
    return 1;
}
static double beside(const scene *s) {                         /* mean speed along the plate in the first two cells on both sides */
    const fsi_slip *p = &s->slip;
    double sum = 0;
    int i;
    for (i = 0; i < p->interface.sides; i++) sum += (double)p->velocity[i].x * s->t[0] + (double)p->velocity[i].y * s->t[1];
    return p->interface.sides ? sum / p->interface.sides : 0;
}
static void trace(scene *s, int frame, double dt) {
    fsi_real old[3 * TRACERS];
    int i;
    for (i = 0; i < TRACERS; i++)
        if (frame == 0 || s->point[3 * i] > FSI_R(0.95)) {     /* new ones come in with the stream */
            s->entered++;
            s->point[3 * i] = (fsi_real)(0.02 + (frame ? 0 : 0.3) * (rand() / (RAND_MAX + 1.0)));
            s->point[3 * i + 1] = (fsi_real)(0.02 + 0.96 * (rand() / (RAND_MAX + 1.0)));
        }
    memcpy(old, s->point, sizeof old);
    (void)fsi_slip_trace(&s->slip, (fsi_real)dt, TRACERS, s->point);
    for (i = 0; i < TRACERS; i++) {
        double a = height(s, (double)old[3 * i], (double)old[3 * i + 1]), b = height(s, (double)s->point[3 * i], (double)s->point[3 * i + 1]);
        double l = (a * along(s, (double)s->point[3 * i], (double)s->point[3 * i + 1]) - b * along(s, (double)old[3 * i], (double)old[3 * i + 1])) / (a - b);
        if ((a > 0) != (b > 0) && fabs(l) < 0.2) s->crossed++;
    }
}
static void draw(const scene *s, ex_image *m, int at) {
    const fsi_grid *g = &s->grid;
    ex_view v = ex_view_make(0, 0, 1, 1, 14 + at * 310, 40, 300, 300);
    ex_draw_field(m, &v, g->nx, g->ny, g->scalar[0], 0, 1, 3);
    ex_draw_surface(m, &v, &s->door.surface, ex_rgb(200, 50, 30));
    ex_text(m, v.left, 16, 2, ex_rgb(20, 20, 20), at || s->coefficient < FSI_R(0.5) ? "NO-SLIP" : "SLIP");
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"wall", "", "of the left plate", "slip", 0, 0, "slip,noslip"}, {"angle", "rad", "of the plate", "0.3", 0, 1.5, NULL}, {"coefficient", "", "of the left plate with wall=slip: 1 = slip", "1", 0, 1, NULL}};
    static scene s[2];
    ex_args a;
    double dt;
    int frame, w, stable;
    ex_begin(&a, argc, argv, "slip_disk", "A stream along a thin sloping plate, slip beside no-slip.", keys, 3, 64, 60);
    stable = make(&s[SLIP], a.size, ex_number(&a, "angle"), ex_is(&a, "wall", "slip") ? ex_number(&a, "coefficient") : 0) && make(&s[NOSLIP], a.size, ex_number(&a, "angle"), 0);
    dt = 1.0 / a.size;
    for (frame = 0; frame < a.frames && stable; frame++) {
        for (w = SLIP; w <= NOSLIP && stable; w++) {
            stable = fsi_slip_step(&s[w].slip, &s[w].step, (fsi_real)dt, NULL) >= 0;
            trace(&s[w], frame, dt);
        }
        if (a.out) {
            ex_image m = ex_image_make(640, 350);
            for (w = SLIP; w <= NOSLIP; w++) draw(&s[w], &m, w);
            ex_frame(&a, &m);
            ex_image_free(&m);
        }
        ex_progress(&a, frame);
    }
    for (w = SLIP; w <= NOSLIP; w++) {
        ex_result(w ? "wall_speed_noslip" : "wall_speed_slip", "%.4f", beside(&s[w]));
        ex_result(w ? "energy_noslip" : "energy_slip", "%.6f", fsi_grid_kinetic_energy(&s[w].grid));
        ex_result(w ? "crossed_noslip" : "crossed_slip", "%d", s[w].crossed);
        fsi_slip_free(&s[w].slip); fsi_grid_free(&s[w].grid);
    }
    ex_result("leak", "%.6f", s[SLIP].entered ? (double)s[SLIP].crossed / s[SLIP].entered : 0);
    return ex_end(&a, frame, stable);
}
