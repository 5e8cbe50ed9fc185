/* funnel: water is poured into a soft cone with a sharp tip, held at its rim (Yang et al. 2012,
   fig. 9). Triangles with conflicting normals meet in the tip; corrections that find no way out
   are counted (skipped).

       build/funnel --out out

   Result: depth of the tip, and particles found on the wrong side of the wall. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "vessel.h"

/* the finer the nearer to the tip */
static void bend(double r, double top, double *wide, double *y) {
    *wide = 0.36 * pow(r, 0.4) + 0.02 * (1 - top);
    *y = 0.15 + 0.45 * pow(r, 1.4) - 0.05 * (1 - top);
}

static int held(const fsi_real *x) {
    return hypot(x[0], x[2]) > 0.35;
}

static double tip(const fsi_tled *tled) { /* lowest point, m; 0.1 at rest */
    double least = 1e9;

    for (int i = 0; i < tled->nodes; i++)
        least = fmin(least, tled->x[3 * i + 1]);
    return least;
}

int main(int argc, char **argv) {
    static const vessel cone = {"funnel", "Water poured into a soft cone.",
                                "1000",   {0.75, 1.35, 1.1},
                                0.3,      0.85,
                                0.1,      bend,
                                held,     "tip",
                                tip};
    return vessel_run(&cone, argc, argv);
}
