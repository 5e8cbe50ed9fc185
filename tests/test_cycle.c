/* L-20 for the V-cycle itself. The library runs it in float, so there it is symmetric to 2e-6 only
   (test_multigrid.c). Here the same lines are compiled with double in place of float: what is left
   must be rounding of double, or the transfers and sweeps are not adjoint. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#undef FSI_SINGLE
#define float double
#define FSI_IMPLEMENTATION
#define FSI_LINALG_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_linalg.h"
#undef float
#define main multigrid_main
#include "test_multigrid.c"
#undef main

static const char *cycle_error(problem *p, double most) {
    fsi_mg mg;
    const char *error = NULL;
    if (start(&mg, p) != FSI_OK)
        return "start";
    double worst;
    double least;
    symmetry(&mg, p, 1, 20, &worst, &least);
    if (!(worst <= most)) {
        printf("\n  asymmetry %.3g", worst);
        error = "not symmetric";
    }
    if (!(least > 0))
        error = "not positive";
    fsi_mg_free(&mg);
    return error;
}

TEST L_20_the_cycle_is_symmetric_to_rounding(void) {
    static const int size[][3] = {{45, 45, 1}, {19, 19, 19}, {64, 3, 1}, {7, 1, 1}, {16, 2, 9}};
    for (int scene = 0; scene < SCENES; scene++)
        for (int dim = 2; dim <= 3; dim++)
            for (int sweeps = 1; sweeps <= 3; sweeps++) {
                problem p = scene_make(scene, dim, dim == 2 ? 45 : 19);
                /* none, one (default), one */
                p.desc.sweeps = sweeps;
                p.desc.band_sweeps = sweeps - 2;
                ASSERT_EQ(NULL, cycle_error(&p, 1e-13));
                drop(&p);
            }
    /* random masks, weights and closed faces on grids of any shape */
    for (int q = 0; q < 100; q++) {
        const int *n = size[q % 5];
        problem p = make(n[0], n[1], n[2], q & 1);
        p.desc.open[q % 6] = 1;
        p.desc.open[(q / 6 + 1) % 6] = q % 7 < 3;
        for (int c = 0; c < p.cells; c++) {
            double u = unit();
            p.cell[c] = (uint8_t)(u < 0.1   ? FSI_CELL_DIRICHLET
                                  : u < 0.3 ? FSI_CELL_NEUMANN
                                            : FSI_CELL_FLUID);
        }
        for (int a = 0; a < 3 && p.w[a]; a++)
            for (int c = 0; c < (n[0] + (a == 0)) * (n[1] + (a == 1)) * (n[2] + (a == 2)); c++)
                p.w[a][c] = (fsi_real)(unit() < 0.2 ? 0 : 0.01 + unit());
        ASSERT_EQ(NULL, cycle_error(&p, 1e-13));
        drop(&p);
    }
    PASS();
}

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(L_20_the_cycle_is_symmetric_to_rounding);
    GREATEST_MAIN_END();
}
