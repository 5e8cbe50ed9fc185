/* tled_beam: a rubber beam clamped at one end swings under its own weight, by total-Lagrangian
   explicit dynamics (paper 004, section 3.3). cc -O2 -I. -Iexamples examples/tled_beam.c -o
   tled_beam -lm Shows: building tetrahedra, fixed nodes, the safe step, nodal-averaged pressure
   near incompressibility, energies. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "common.h"

typedef struct beam {
    int nodes, tets;
    fsi_real *x;
    int32_t *tet;
} beam;

/* cubes of six tetrahedra along their long diagonals */
static beam make_beam(int nx, int ny, int nz, double h) {
    static const int path[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                   {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
    beam b;
    b.nodes = (nx + 1) * (ny + 1) * (nz + 1);
    b.tets = 0;
    b.x = (fsi_real *)malloc(3 * (size_t)b.nodes * sizeof *b.x);
    b.tet = (int32_t *)malloc(24 * (size_t)(nx * ny * nz) * sizeof *b.tet);
    if (!b.x || !b.tet)
        ex_die("%s%s", "out of memory", "");
    for (int k = 0; k <= nz; k++)
        for (int j = 0; j <= ny; j++)
            for (int i = 0; i <= nx; i++)
                fsi_vec_store(b.x + 3 * (i + (nx + 1) * (j + (ny + 1) * k)),
                              fsi_vec((fsi_real)(i * h), (fsi_real)(j * h), (fsi_real)(k * h)));
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++)
                for (int t = 0; t < 6; t++, b.tets++)
                    for (int c = 0; c < 4; c++) {
                        int q = path[t][c];
                        b.tet[4 * b.tets + c] =
                            i + (q & 1) + (nx + 1) * (j + (q >> 1 & 1) + (ny + 1) * (k + (q >> 2)));
                    }
    return b;
}

static void draw(ex_args *a, const fsi_tled *t) {
    ex_image m = ex_image_make(720, 480);
    ex_camera c = ex_camera_make(1.0, 0.45, 1.7, 0.5, -0.25, 0, 1, 40);
    double lo[3] = {-0.06, -0.12, -0.1}, hi[3] = {0.0, 0.25, 0.25}, flo[3] = {-1, 0, -1.2},
           fhi[3] = {2, 0, 1.2};
    fsi_surface s = fsi_tled_surface(t);
    char text[96];
    ex_floor(&m, &c, flo, fhi, 1, -0.9, 0.2);
    ex_draw_surface3(&m, &c, &s, ex_rgb(220, 120, 60));
    ex_box3(&m, &c, lo, hi, ex_rgb(60, 60, 60)); /* the clamp */
    snprintf(text, sizeof text, "%d tetrahedra, t = %.2f s", t->tets, t->clock[0]);
    ex_text(&m, 12, 12, 2, ex_rgb(40, 40, 40), text);
    ex_frame(a, &m);
    ex_image_free(&m);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {
        {"material", "", "constitutive law", "nearly", 0, 0, "nearly,neohookean,stvk"},
        {"young", "Pa", "Young's modulus", "3e5", 1e3, 1e9, NULL},
        {"poisson", "", "ratio", "0.45", 0, 0.495, NULL},
        {"average", "", "pressure from nodal volumes", "1", 0, 1, NULL},
        {"density", "kg/m^3", "of the beam", "1000", 1, 1e5, NULL},
        {"damping", "1/s", "mass-proportional", "1", 0, 1e3, NULL},
        {"gravity", "m/s^2", "downwards", "9.81", 0, 100, NULL},
        {"dt", "s", "time step, 0 = the safe one", "0", 0, 1, NULL}};
    ex_args a;
    double low = 0;
    int stable = 1, inverted = 0;
    long steps = 0;
    ex_begin(&a, argc, argv, "tled_beam",
             "A rubber beam clamped at one end swings under its own weight.", keys, 8, 32, 60);
    int thick = a.size / 8 > 1 ? a.size / 8 : 1;
    double h = 1.0 / a.size;
    beam b = make_beam(a.size, thick, thick, h);
    fsi_tled_desc d;
    memset(&d, 0, sizeof d);
    d.nodes = b.nodes;
    d.tets = b.tets;
    d.x = b.x;
    d.tet = b.tet;
    d.density = (fsi_real)ex_number(&a, "density");
    d.young = (fsi_real)ex_number(&a, "young");
    d.poisson = (fsi_real)ex_number(&a, "poisson");
    d.material = ex_is(&a, "material", "stvk")     ? FSI_TLED_STVK
                 : ex_is(&a, "material", "nearly") ? FSI_TLED_NEARLY
                                                   : FSI_TLED_NEOHOOKEAN;
    d.average_pressure = ex_number(&a, "average") > 0.5 && d.material != FSI_TLED_STVK;
    d.damping = (fsi_real)ex_number(&a, "damping");
    d.gravity = fsi_vec(0, -(fsi_real)ex_number(&a, "gravity"), 0);
    fsi_tled t;
    if (fsi_tled_init(&t, &d) != FSI_OK)
        return 1;
    for (int i = 0; i < t.nodes; i++)
        if (t.x0[3 * i] < (fsi_real)(h / 2))
            fsi_tled_fix(&t, i, fsi_vec(0, 0, 0));
    fsi_real dt = ex_number(&a, "dt") > 0 ? (fsi_real)ex_number(&a, "dt") : fsi_tled_max_dt(&t);
    for (int frame = 0; frame < a.frames && stable; frame++) {
        while (stable && t.clock[0] < 0.04 * (frame + 1)) {
            if (fsi_tled_step(&t, dt) < 0)
                stable = 0;
            inverted = t.inverted > inverted ? t.inverted : inverted;
            steps++;
        }
        for (int i = 0; i < t.nodes; i++)
            low = fmin(low, (double)t.x[3 * i + 1]);
        ex_progress(&a, frame);
        if (a.out)
            draw(&a, &t);
    }
    double kinetic;
    double elastic;
    fsi_tled_totals(&t, &kinetic, &elastic, NULL, NULL);
    ex_result("tets", "%d", t.tets);
    ex_result("dt", "%.3e", (double)dt);
    ex_result("dt_critical", "%.3e", (double)t.dt_critical);
    ex_result("lowest", "%.4f", low);
    ex_result("kinetic", "%.4e", kinetic);
    ex_result("elastic", "%.4e", elastic);
    ex_result("inverted", "%d", inverted);
    fsi_tled_free(&t);
    free(b.x);
    free(b.tet);
    return ex_end(&a, steps, stable);
}
