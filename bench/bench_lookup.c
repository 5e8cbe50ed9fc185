/* Triangle look-up of a moving surface: the tree of boxes of fsi_linalg.h (refitted in every step)
   against the uniform grid of fsi_sph.h (built in every step), at the size of paper 004's hose: a
   tube of 9,800 triangles filled with 38,000 particles, closest triangle of every particle within
   0.5, 1 and 2 particle spacings. One thread, CPU time, best of five. docs/sph.md says what follows
   from it. */
#include "fsi_sph.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    AROUND = 49,
    ALONG = 50,
    NODES = 2 * AROUND * (ALONG + 1),
    TRIANGLES = 4 * AROUND * ALONG,
    MOST = 60000
};

static double cpu(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static void tube(fsi_real *x, int32_t *index) {
    int n = 0;
    int e = 0;

    for (int k = 0; k < 2; k++)
        for (int j = 0; j <= ALONG; j++)
            for (int i = 0; i < AROUND; i++, n++) {
                double angle = 6.283185307179586 * i / AROUND;
                double R = k ? 0.11 : 0.1;
                x[3 * n] = (fsi_real)j / ALONG;
                x[3 * n + 1] = (fsi_real)(R * cos(angle));
                x[3 * n + 2] = (fsi_real)(R * sin(angle));
            }

    for (int k = 0; k < 2; k++)
        for (int j = 0; j < ALONG; j++)
            for (int i = 0; i < AROUND; i++) {
                int32_t v = (int32_t)(k * AROUND * (ALONG + 1) + j * AROUND + i);
                int32_t w = (int32_t)(v - i + (i + 1) % AROUND);
                int32_t six[6];
                six[0] = v;
                six[1] = six[3] = w;
                six[2] = six[5] = v + AROUND;
                six[4] = w + AROUND;
                memcpy(index + e, six, sizeof six);
                e += 6;
            }
}

int main(void) {
    static fsi_real x[3 * NODES], p[3 * MOST];
    static int32_t index[3 * TRIANGLES];
    static const double reach[3] = {0.5, 1, 2};
    const double h = 0.0092;
    fsi_surface surface;
    int n = 0;
    memset(&surface, 0, sizeof surface);
    tube(x, index);
    surface.dim = 3;
    surface.vertex_count = NODES;
    surface.element_count = TRIANGLES;
    surface.x = x;
    surface.index = index;

    for (int k = 0; (k + 0.5) * h < 1; k++)
        for (int j = -11; j <= 11; j++)
            for (int i = -11; i <= 11; i++)
                if (h * sqrt(i * i + j * j) < 0.1 - 0.4 * h && n < MOST) {
                    p[3 * n] = (fsi_real)((k + 0.5) * h);
                    p[3 * n + 1] = (fsi_real)(j * h);
                    p[3 * n + 2] = (fsi_real)(i * h);
                    n++;
                }
    fsi_bvh tree;

    fsi_lookup grid;
    if (fsi_bvh_init(&tree, TRIANGLES, NULL) != FSI_OK || fsi_bvh_build(&tree, &surface) != FSI_OK
        || fsi_lookup_init(&grid, TRIANGLES, NULL) != FSI_OK)
        return 1;

    for (int c = 0; c < 3; c++) {
        double best[2] = {1e9, 1e9};
        int differ = 0;
        fsi_real r = (fsi_real)(reach[c] * h);
        for (int rep = 0; rep < 5; rep++) {
            /* the surface moves in every step */
            for (int k = 0; k < 3 * NODES; k++)
                x[k] += (fsi_real)(1e-4 * sin(k + rep));
            double t = cpu();
            if (fsi_bvh_refit(&tree, &surface) != FSI_OK)
                return 1;
            fsi_hit a;
            for (int k = 0; k < n; k++)
                differ +=
                    fsi_bvh_closest(&tree, fsi_vec_load(p + 3 * k), r, &a) ? a.element + 1 : 0;
            best[0] = fmin(best[0], cpu() - t);
            t = cpu();
            if (fsi_lookup_build(&grid, &surface, r) != FSI_OK)
                return 1;
            fsi_hit b;
            for (int k = 0; k < n; k++)
                differ -=
                    fsi_lookup_closest(&grid, fsi_vec_load(p + 3 * k), r, &b) ? b.element + 1 : 0;
            best[1] = fmin(best[1], cpu() - t);
        }

        printf("bench lookup_tree_reach_%g %.4g ms\nbench lookup_grid_reach_%g %.4g ms\n", reach[c],
               1e3 * best[0], reach[c], 1e3 * best[1]);
        if (differ)
            printf("bench lookup failed: the answers differ\n");
    }

    fsi_bvh_free(&tree);
    fsi_lookup_free(&grid);
    return 0;
}
