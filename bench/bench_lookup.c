/* Triangle look-up of a moving surface: the tree of boxes of fsi_linalg.h (refitted in every step) against a uniform grid of triangle lists (built in every
   step), at the size of paper 004's hose: a tube of 9,800 triangles filled with 38,000 particles, closest triangle of every particle within 0.5, 1 and 2 particle
   spacings. One thread, CPU time, best of five. docs/sph.md says what follows from it. */
#include "fsi_linalg.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { AROUND = 49, ALONG = 50, NODES = 2 * AROUND * (ALONG + 1), TRIANGLES = 4 * AROUND * ALONG, MOST = 60000 };
typedef struct grid { const fsi_surface *s; double lo[3], inv; int t[3]; int32_t *start, *item; } grid;

static double cpu(void) { return (double)clock() / CLOCKS_PER_SEC; }
static int clamp(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }
static int cell_of(const grid *g, double x, int d) { return clamp((int)floor((x - g->lo[d]) * g->inv), g->t[d]); }

/* Counting sort of the triangles into all cells that their bounds touch. Returns 0 without memory. */
static int grid_build(grid *g, const fsi_surface *s, double edge) {
    double hi[3] = {-1e9, -1e9, -1e9};
    int cells = 1, d, e, pass, k, a[3], b[3], x, y, z;
    g->s = s; g->inv = 1 / edge;
    for (d = 0; d < 3; d++) g->lo[d] = 1e9;
    for (k = 0; k < 3 * s->vertex_count; k++) { g->lo[k % 3] = fmin(g->lo[k % 3], (double)s->x[k]); hi[k % 3] = fmax(hi[k % 3], (double)s->x[k]); }
    for (d = 0; d < 3; d++) { g->t[d] = (int)((hi[d] - g->lo[d]) * g->inv) + 1; cells *= g->t[d]; }
    free(g->start); free(g->item);
    g->item = NULL;
    g->start = (int32_t *)calloc((size_t)cells + 2, sizeof *g->start);
    for (pass = 0; pass < 2 && g->start; pass++) {
        for (e = 0; e < s->element_count; e++) {
            fsi_real u[3], v[3];
            fsi_surface_bounds(s, e, u, v);
            for (d = 0; d < 3; d++) { a[d] = cell_of(g, (double)u[d], d); b[d] = cell_of(g, (double)v[d], d); }
            for (z = a[2]; z <= b[2]; z++)
                for (y = a[1]; y <= b[1]; y++)
                    for (x = a[0]; x <= b[0]; x++) {
                        int c = x + g->t[0] * (y + g->t[1] * z);
                        if (pass) g->item[g->start[c + 1]++] = e; else g->start[c + 2]++;
                    }
        }
        if (pass) break;
        for (k = 2; k < cells + 2; k++) g->start[k] += g->start[k - 1];
        g->item = (int32_t *)malloc((size_t)g->start[cells + 1] * sizeof *g->item);
        if (!g->item) return 0;
    }
    return g->start != NULL;
}

/* Nearest triangle within r; boxes of triangles are tested before the triangles. */
static int grid_closest(const grid *g, fsi_vec3 p, fsi_real r, fsi_hit *hit) {
    fsi_real q[3], lo[3], hi[3];
    int a[3], b[3], d, x, y, z, k, found = 0;
    fsi_vec_store(q, p);
    for (d = 0; d < 3; d++) { a[d] = cell_of(g, (double)(q[d] - r), d); b[d] = cell_of(g, (double)(q[d] + r), d); }
    for (z = a[2]; z <= b[2]; z++)
        for (y = a[1]; y <= b[1]; y++)
            for (x = a[0]; x <= b[0]; x++) {
                const int32_t *start = g->start + x + g->t[0] * (y + g->t[1] * z);
                for (k = start[0]; k < start[1]; k++) {
                    fsi_real d2 = 0, reach = found ? hit->t : r, w;
                    fsi_hit h;
                    fsi_surface_bounds(g->s, g->item[k], lo, hi);
                    for (d = 0; d < 3; d++) { w = lo[d] - q[d] > q[d] - hi[d] ? lo[d] - q[d] : q[d] - hi[d]; if (w > 0) d2 += w * w; }
                    if (d2 > reach * reach * (1 + 8 * FSI_REAL_EPS)) continue;
                    fsi_surface_closest(g->s, g->item[k], p, &h);
                    if (h.t > r || (found && (h.t > hit->t || (h.t == hit->t && h.element > hit->element)))) continue;
                    *hit = h;
                    found = 1;
                }
            }
    return found;
}

static void tube(fsi_real *x, int32_t *index) {
    int n = 0, e = 0, k, j, i;
    for (k = 0; k < 2; k++)
        for (j = 0; j <= ALONG; j++)
            for (i = 0; i < AROUND; i++, n++) {
                double angle = 6.283185307179586 * i / AROUND, R = k ? 0.11 : 0.1;
                x[3 * n] = (fsi_real)j / ALONG; x[3 * n + 1] = (fsi_real)(R * cos(angle)); x[3 * n + 2] = (fsi_real)(R * sin(angle));
            }
    for (k = 0; k < 2; k++)
        for (j = 0; j < ALONG; j++)
            for (i = 0; i < AROUND; i++) {
                int32_t v = (int32_t)(k * AROUND * (ALONG + 1) + j * AROUND + i), w = (int32_t)(v - i + (i + 1) % AROUND);
                int32_t six[6];
                six[0] = v; six[1] = six[3] = w; six[2] = six[5] = v + AROUND; six[4] = w + AROUND;
                memcpy(index + e, six, sizeof six);
                e += 6;
            }
}

int main(void) {
    static fsi_real x[3 * NODES], p[3 * MOST];
    static int32_t index[3 * TRIANGLES];
    static const double reach[3] = {0.5, 1, 2};
    const double h = 0.0092;
    fsi_surface s;
    fsi_bvh tree;
    grid g;
    int n = 0, c, rep, i, j, k;
    memset(&s, 0, sizeof s);
    memset(&g, 0, sizeof g);
    tube(x, index);
    s.dim = 3; s.vertex_count = NODES; s.element_count = TRIANGLES; s.x = x; s.index = index;
    for (k = 0; (k + 0.5) * h < 1; k++)
        for (j = -11; j <= 11; j++)
            for (i = -11; i <= 11; i++)
                if (h * sqrt(i * i + j * j) < 0.1 - 0.4 * h && n < MOST) { p[3 * n] = (fsi_real)((k + 0.5) * h); p[3 * n + 1] = (fsi_real)(j * h); p[3 * n + 2] = (fsi_real)(i * h); n++; }
    if (fsi_bvh_init(&tree, TRIANGLES, NULL) != FSI_OK || fsi_bvh_build(&tree, &s) != FSI_OK) return 1;
    for (c = 0; c < 3; c++) {
        double best[2] = {1e9, 1e9}, t;
        int differ = 0;
        fsi_real r = (fsi_real)(reach[c] * h);
        for (rep = 0; rep < 5; rep++) {
            fsi_hit a, b;
            for (k = 0; k < 3 * NODES; k++) x[k] += (fsi_real)(1e-4 * sin(k + rep));           /* the surface moves in every step */
            t = cpu();
            if (fsi_bvh_refit(&tree, &s) != FSI_OK) return 1;
            for (k = 0; k < n; k++) differ += fsi_bvh_closest(&tree, fsi_vec_load(p + 3 * k), r, &a);
            best[0] = fmin(best[0], cpu() - t);
            t = cpu();
            if (!grid_build(&g, &s, 0.02)) return 1;
            for (k = 0; k < n; k++) differ -= grid_closest(&g, fsi_vec_load(p + 3 * k), r, &b);
            best[1] = fmin(best[1], cpu() - t);
        }
        printf("bench lookup_tree_reach_%g %.4g ms\nbench lookup_grid_reach_%g %.4g ms\n", reach[c], 1e3 * best[0], reach[c], 1e3 * best[1]);
        if (differ) printf("bench lookup failed: %d answers differ\n", differ);
    }
    fsi_bvh_free(&tree);
    free(g.start);
    free(g.item);
    return 0;
}
