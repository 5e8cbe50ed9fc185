/* bowl: water is poured into a soft bowl (Yang et al. 2012, fig. 8), which stands on its fixed
   middle and widens under the load.

       build/bowl --out out
       build/bowl --set young=3e5   a softer bowl

   Result: radius of the rim, and particles found on the wrong side of the wall. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "vessel.h"

static void bend(double r, double top, double *wide, double *y) {
    double angle = 1.25 * r;
    double size = 0.4 + 0.035 * (1 - top);
    *wide = r > 0 ? size * sin(angle) / r : 0;
    *y = 0.45 - size * cos(angle);
}

static int held(const fsi_real *x) {
    return x[1] < 0.035;
}

static double rim(const fsi_tled *tled) { /* m */
    double most = 0;

    for (int i = 0; i < tled->nodes; i++)
        most = fmax(most, hypot(tled->x[3 * i], tled->x[3 * i + 2]));
    return most;
}

int main(int argc, char **argv) {
    static const vessel bowl = {"bowl", "Water poured into a soft bowl.",
                                "1500", {0.75, 0.95, 1.2},
                                0.22,   0.75,
                                0.12,   bend,
                                held,   "rim",
                                rim};
    return vessel_run(&bowl, argc, argv);
}
