/* cloth_pull: a sheet is pulled out of a pool of water, slip beside no-slip (SLIP fig. 9). In the plane; the sheet follows the hand (one-way).
   cc -O2 -I. -Iexamples examples/cloth_pull.c -o cloth_pull -lm
   With slip the sheet slides out and leaves the water behind; without, water sticks to it and is lifted with it. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"

enum { SLIP, NOSLIP, NODES = 25 };
static const double level = 0.55, lean = 0.15;
typedef struct pool { fsi_grid grid; fsi_slip slip; fsi_coupled door, *list[1]; fsi_scene scene; fsi_real x[3 * NODES], v[3 * NODES], coefficient; fsi_report report; double volume, most; } pool;
static int32_t segment[2 * (NODES - 1)];
static fsi_real below(fsi_vec3 x, void *user) { (void)user; return x.y - (fsi_real)level; }
static fsi_result move(void *user, fsi_real dt) {
    pool *s = (pool *)user;
    int i;
    for (i = 0; i < 3 * NODES; i++) s->x[i] += dt * s->v[i];
    return FSI_OK;
}
static int make(pool *s, int size, double coefficient, double speed) {
    fsi_grid_desc g = {0};
    fsi_slip_desc d = {0};
    int i;
    g.nx = size * 2 / 3; g.ny = size; g.nz = 1; g.h = FSI_R(1.5) / (fsi_real)size; g.rho = 1000; g.gravity.y = FSI_R(-9.81);
    g.liquid = 1; g.shells = 1; g.volume_correction = 1; g.side[3].kind = FSI_SIDE_OPEN;
    s->coefficient = (fsi_real)coefficient;
    d.coefficient = &s->coefficient; d.passes = 2;
    for (i = 0; i < NODES; i++) {                               /* pulled along itself */
        s->x[3 * i] = (fsi_real)(0.5 + lean * (i / (NODES - 1.0) - 0.5)); s->x[3 * i + 1] = (fsi_real)(0.1 + 0.65 * i / (NODES - 1.0));
        s->v[3 * i] = (fsi_real)(speed * lean / hypot(lean, 0.65)); s->v[3 * i + 1] = (fsi_real)(speed * 0.65 / hypot(lean, 0.65));
        if (i) { segment[2 * i - 2] = i - 1; segment[2 * i - 1] = i; }
    }
    s->door.surface.dim = 2; s->door.surface.vertex_count = NODES; s->door.surface.element_count = NODES - 1; s->door.surface.x = s->x; s->door.surface.v = s->v; s->door.surface.index = segment;
    s->list[0] = &s->door; s->scene.solid = s->list; s->scene.count = 1; s->scene.move_fn = move; s->scene.user = s;
    if (fsi_grid_init(&s->grid, &g) != FSI_OK || fsi_slip_init(&s->slip, &s->grid, &d) != FSI_OK || fsi_grid_set_field(&s->grid, FSI_FIELD_PHI, below, NULL) < 0) return 0;
    s->volume = fsi_levelset_volume(&s->grid.levelset, NULL, NULL);
    return 1;
}
static double lifted(const pool *s) {                           /* water well above the level it started from, m^2 */
    const fsi_grid *g = &s->grid;
    double sum = 0;
    size_t c;
    for (c = 0; c < g->cells; c++) if (g->levelset.phi[c] < 0 && ((double)(c / (size_t)g->nx) + 0.5) * (double)g->h > level + 0.06) sum += (double)(g->h * g->h);
    return sum;
}
static void draw(const pool *s, ex_image *m, int at) {
    ex_view v = ex_view_make(0, 0, 1, 1.5, 14 + at * 310, 40, 300, 450);
    const fsi_real *x = s->x;
    int i;
    ex_draw_liquid(m, &v, s->grid.nx, s->grid.ny, s->grid.levelset.phi, ex_rgb(90, 150, 220));
    for (i = 0; i < NODES - 1; i++) ex_line(m, ex_px(&v, (double)x[3 * i]), ex_py(&v, (double)x[3 * i + 1]), ex_px(&v, (double)x[3 * i + 3]), ex_py(&v, (double)x[3 * i + 4]), 3, ex_rgb(200, 50, 30));
    ex_text(m, v.left, 16, 2, ex_rgb(20, 20, 20), at ? "NO-SLIP" : "SLIP");
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"wall", "", "which to run", "both", 0, 0, "both,slip,noslip"}, {"speed", "m/s", "of the hand", "1.5", 0, 10, NULL}, {"dt", "s", "time step", "0.005", 1e-4, 0.05, NULL}};
    static pool s[2];
    ex_args a;
    double leak[2];
    int frame = 0, w, stable = 1;
    long steps = 0;
    ex_begin(&a, argc, argv, "cloth_pull", "A sheet pulled out of water, slip beside no-slip.", keys, 3, 72, 80);
    for (w = SLIP; w <= NOSLIP; w++) stable = make(&s[w], a.size, w == SLIP, ex_number(&a, "speed")) && stable;
    for (; frame < a.frames && stable; frame++) {
        for (w = SLIP; w <= NOSLIP && stable; w++) {
            if (ex_is(&a, "wall", w ? "slip" : "noslip")) continue;
            stable = fsi_slip_step(&s[w].slip, &s[w].scene, (fsi_real)ex_number(&a, "dt"), &s[w].report) >= 0;
            s[w].most = fmax(s[w].most, lifted(&s[w]));
            steps++;
        }
        if (a.out) {
            ex_image m = ex_image_make(640, 500);
            for (w = SLIP; w <= NOSLIP; w++) draw(&s[w], &m, w);
            ex_frame(&a, &m);
            ex_image_free(&m);
        }
        ex_progress(&a, frame);
    }
    for (w = SLIP; w <= NOSLIP; w++) {
        ex_result(w ? "lifted_noslip" : "lifted_slip", "%.5f", s[w].most);
        ex_result(w ? "volume_error_noslip" : "volume_error", "%.5f", fsi_levelset_volume(&s[w].grid.levelset, NULL, NULL) / s[w].volume - 1);
        ex_result(w ? "leak_noslip" : "leak_slip", "%.3e", leak[w] = s[w].report.divergence * (double)s[w].grid.h / fmax(ex_number(&a, "speed"), 1e-9));
        fsi_slip_free(&s[w].slip); fsi_grid_free(&s[w].grid);
    }
    ex_result("leak", "%.3e", leak[ex_is(&a, "wall", "noslip")]);   /* worst flux out of a cell beside the sheet, over cell side and the hand's speed */
    return ex_end(&a, steps, stable);
}
