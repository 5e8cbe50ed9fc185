/* Geometry of the base: closest points, watertight crossings, trees of boxes, inside test,
 * clipping; each against an obvious twin. */
#define FSI_IMPLEMENTATION
#define FSI_LINALG_IMPLEMENTATION /* it looks inside, so it compiles this one itself */
#include "fsi_linalg.h"
#include "greatest.h"
#include "check.h"

#define MAX_V 5000
#define MAX_E 10000

typedef struct mesh {
    fsi_real x[3 * MAX_V];
    int32_t index[3 * MAX_E];
    fsi_surface s;
} mesh;

static mesh ball, soup, ring;
static uint64_t seed = 7;

static fsi_real rnd(void) {
    return (fsi_real)check_random(&seed);
}

static fsi_vec3 rnd3(void) {
    fsi_vec3 a;
    a.x = rnd();
    a.y = rnd();
    a.z = rnd();
    return a;
}

static void finish(mesh *m, int dim, int vertices, int elements, int closed) {
    memset(&m->s, 0, sizeof m->s);
    m->s.dim = dim;
    m->s.vertex_count = vertices;
    m->s.element_count = elements;
    m->s.closed = closed;
    m->s.x = m->x;
    m->s.index = m->index;
}

/* A box [-1, 1]^3 of n x n quads per side, on integer multiples of 2/n (so that rays meet edges and
 * vertices), bent to a ball on request. */
static void make_ball(mesh *m, int n, int round) {
    static const int corner[6][3] = {{1, 0, 0}, {1, 0, 0}, {0, 1, 0},
                                     {0, 1, 0}, {0, 0, 1}, {0, 0, 1}};
    int v = 0, e = 0;
    for (int f = 0; f < 6; f++) {
        int axis = corner[f][0]   ? 0
                   : corner[f][1] ? 1
                                  : 2,
            sign = f % 2 ? 1 : -1, a = (axis + 1) % 3, b = (axis + 2) % 3, base = v;
        for (int j = 0; j <= n; j++)
            for (int i = 0; i <= n; i++, v++) {
                fsi_real *x = m->x + 3 * v;
                x[axis] = (fsi_real)sign;
                x[a] = (fsi_real)(2 * i - n) / (fsi_real)n;
                x[b] = (fsi_real)(2 * j - n) / (fsi_real)n;
                if (!round)
                    continue;
                fsi_real l = fsi_vec_length(fsi_vec_load(x));
                for (int k = 0; k < 3; k++)
                    x[k] /= l;
            }
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) {
                int q[4];
                q[0] = base + i + (n + 1) * j;
                q[1] = q[0] + 1;
                q[2] = q[0] + n + 2;
                q[3] = q[0] + n + 1;
                if (sign < 0) {
                    int t = q[1];
                    q[1] = q[3];
                    q[3] = t;
                }
                m->index[3 * e] = q[0];
                m->index[3 * e + 1] = q[1];
                m->index[3 * e + 2] = q[2];
                e++;
                m->index[3 * e] = q[0];
                m->index[3 * e + 1] = q[2];
                m->index[3 * e + 2] = q[3];
                e++;
            }
    }
    finish(m, 3, v, e, 1);
}

static void make_ring(mesh *m, int n) {
    for (int i = 0; i < n; i++) {
        m->x[3 * i] = (fsi_real)cos(2 * 3.14159265358979 * i / n);
        m->x[3 * i + 1] = (fsi_real)sin(2 * 3.14159265358979 * i / n);
        m->x[3 * i + 2] = 0;
        m->index[2 * i] = i;
        m->index[2 * i + 1] = (i + 1) % n;
    }
    finish(m, 2, n, n, 1);
}

static void make_soup(mesh *m, int dim, int n) {
    for (int i = 0; i < dim * n; i++) {
        fsi_vec3 c;
        if (i % dim == 0)
            c = rnd3();
        else
            c = fsi_vec_mad(fsi_vec_load(m->x + 3 * (i - i % dim)), rnd3(), FSI_R(0.2));
        if (dim == 2)
            c.z = 0;
        fsi_vec_store(m->x + 3 * i, c);
        m->index[i] = i;
    }
    /* one element without length or area */
    for (int k = 0; k < 3; k++)
        m->x[3 + k] = m->x[k];
    finish(m, dim, dim * n, n, 0);
}

TEST G_01_closest_triangle_optimality(void) {
    for (int i = 0; i < 3000; i++) {
        fsi_vec3 x[3], p = rnd3();
        fsi_real w[3], eps = TOL(1e-11, 2e-4);
        for (int k = 0; k < 3; k++)
            x[k] = rnd3();
        /* no area */
        if (i % 10 == 0)
            x[2] = fsi_vec_mad(x[0], fsi_vec_sub(x[1], x[0]), FSI_R(0.5));
        fsi_real d2 = fsi_closest_on_triangle(p, x[0], x[1], x[2], w);
        ASSERT(w[0] >= 0 && w[1] >= 0 && w[2] >= 0);
        CHECK_NEAR(1, w[0] + w[1] + w[2], TOL(1e-12, 1e-5));
        fsi_vec3 c = fsi_vec_mad(fsi_vec_mad(fsi_vec_scale(x[0], w[0]), x[1], w[1]), x[2], w[2]);
        fsi_vec3 d = fsi_vec_sub(p, c);
        CHECK_NEAR(fsi_vec_dot(d, d), d2, eps);
        /* no corner lies nearer: (p-c).(x-c) <= 0 */
        for (int k = 0; k < 3; k++)
            CHECK_MOST(fsi_vec_dot(d, fsi_vec_sub(x[k], c)), eps);
    }
    PASS();
}

/* The same triangle and point in other units, down to the smallest and up to the largest positions
 * allowed: the same distance in those units. */
TEST G_01_closest_triangle_in_any_unit(void) {
    for (int i = 0; i < 2000; i++) {
        fsi_vec3 x[4], y[4];
        fsi_real w[3], d = 0;
        for (int k = 0; k < 4; k++)
            x[k] = rnd3();
        for (int u = -4; u <= 4; u++) {
            /* 2^-232 .. 2^232 m; single: 2^-24 .. 2^28 m */
            fsi_real unit = (fsi_real)ldexp(1, u * TOL(58, u < 0 ? 6 : 7));
            for (int k = 0; k < 4; k++)
                y[k] = fsi_vec_scale(x[k], unit);
            if (u == -4)
                d = fsi__sqrt(fsi_closest_on_triangle(x[3], x[0], x[1], x[2], w));
            CHECK_NEAR(
                (double)d,
                (double)(fsi__sqrt(fsi_closest_on_triangle(y[3], y[0], y[1], y[2], w)) / unit),
                (double)(4 * FSI_REAL_EPS));
        }
    }
    PASS();
}

TEST G_02_crossing_weights_and_side(void) {
    int hits = 0;
    for (int dim = 2; dim <= 3; dim++) {
        make_soup(&soup, dim, 400);
        for (int i = 0; i < 40000; i++) {
            fsi_vec3 p = rnd3(), q = rnd3();
            int e = i % 400;
            if (dim == 2)
                p.z = q.z = 0;
            fsi_hit hit;
            if (!fsi_surface_cross(&soup.s, e, p, q, &hit))
                continue;
            hits++;
            fsi_vec3 a = fsi_vec_load(soup.x + 3 * dim * e);
            fsi_vec3 b = fsi_vec_load(soup.x + 3 * dim * e + 3);
            fsi_vec3 c = dim == 3 ? fsi_vec_load(soup.x + 3 * dim * e + 6) : fsi_vec(0, 0, 0);
            fsi_vec3 x = fsi_vec_mad(fsi_vec_mad(fsi_vec_scale(a, hit.weight[0]), b, hit.weight[1]),
                                     c, hit.weight[2]);
            CHECK_NEAR(0, fsi_vec_length(fsi_vec_sub(x, hit.point)), TOL(1e-9, 1e-3));
            ASSERT(hit.t >= 0 && hit.t <= 1 && hit.weight[0] >= 0 && hit.weight[1] >= 0
                   && hit.weight[2] >= 0);
            ASSERT_EQ(fsi_vec_dot(fsi_vec_sub(q, p), fsi_surface_normal(&soup.s, e)) > 0 ? 1 : -1,
                      hit.side);
        }
    }
    ASSERT(hits > 150);
    PASS();
}

/* Every axis-parallel line through a closed box and ball, aimed at vertices, edges and diagonals,
 * must enter as often as it leaves. */
TEST G_03_watertight(void) {
    for (int round = 0; round < 2; round++)
        for (int n = 1; n <= 8; n *= 2) {
            make_ball(&ball, n, round);
            fsi_bvh bvh;
            CHECK_OK(fsi_bvh_init(&bvh, ball.s.element_count, NULL));
            CHECK_OK(fsi_bvh_build(&bvh, &ball.s));
            for (int axis = 0; axis < 3; axis++)
                for (int j = -4 * n - 3; j <= 4 * n + 3; j++)
                    for (int i = -4 * n - 3; i <= 4 * n + 3; i++) {
                        fsi_real p[3], q[3];
                        fsi_hit hit[64];
                        int sum = 0;
                        p[axis] = -2;
                        q[axis] = 2;
                        p[(axis + 1) % 3] = q[(axis + 1) % 3] = (fsi_real)i / (fsi_real)(4 * n);
                        p[(axis + 2) % 3] = q[(axis + 2) % 3] = (fsi_real)j / (fsi_real)(4 * n);
                        int count =
                            fsi_bvh_all_hits(&bvh, fsi_vec_load(p), fsi_vec_load(q), hit, 64);
                        for (int k = 0; k < count; k++)
                            sum += hit[k].side;
                        ASSERT_EQ(0, sum);
                        int in = i > -4 * n && i < 4 * n && j > -4 * n && j < 4 * n;
                        if (!round && in)
                            ASSERT_EQ(2, count);
                    }
            /* skew lines from the centre through every vertex and edge middle */
            for (int i = 0; i < ball.s.vertex_count; i++) {
                fsi_vec3 v = fsi_vec_load(ball.x + 3 * i);
                fsi_hit hit[64];
                ASSERT_EQ(1,
                          fsi_bvh_all_hits(&bvh, fsi_vec(0, 0, 0), fsi_vec_scale(v, 3), hit, 64));
                ASSERT_EQ(1, hit[0].side);
            }
            fsi_bvh_free(&bvh);
        }
    PASS();
}

/* A chain of segments p0 -> p1 -> p2 whose joints lie on the surface crosses it once. */
TEST G_04_joints_count_once(void) {
    int n = 0;
    make_ball(&ball, 4, 0);
    for (int i = 0; i < ball.s.element_count; i++) {
        fsi_hit hit;
        n += fsi_surface_cross(&ball.s, i, fsi_vec(0, FSI_R(0.1), FSI_R(0.2)),
                               fsi_vec(1, FSI_R(0.1), FSI_R(0.2)), &hit);
        n += fsi_surface_cross(&ball.s, i, fsi_vec(1, FSI_R(0.1), FSI_R(0.2)),
                               fsi_vec(2, FSI_R(0.1), FSI_R(0.2)), &hit);
    }
    ASSERT_EQ(1, n);
    PASS();
}

static int count_visit(int e, void *user) {
    ((int *)user)[e]++;
    return 0;
}

TEST G_05_bvh_against_all_elements(void) {
    static int seen[2000];
    int n = 700;
    for (int dim = 2; dim <= 3; dim++) {
        make_soup(&soup, dim, n);
        fsi_bvh bvh;
        CHECK_OK(fsi_bvh_init(&bvh, n + 5, NULL));
        CHECK_OK(fsi_bvh_build(&bvh, &soup.s));
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < 400; i++) {
                fsi_vec3 p = rnd3(), q = rnd3();
                fsi_hit best = {-1, 0, 0, {0, 0, 0}, {0, 0, 0}}, hits[200], first = best;
                fsi_real radius = FSI_R(0.1) + FSI_R(0.1) * rnd();
                int found = 0, total = 0;
                if (dim == 2)
                    p.z = q.z = 0;
                /* one just within reach */
                fsi_hit hit;
                if (i % 3 == 0) {
                    fsi_surface_closest(&soup.s, i, p, &hit);
                    radius = hit.t;
                }
                for (int e = 0; e < n; e++) {
                    fsi_surface_closest(&soup.s, e, p, &hit);
                    if (hit.t <= radius && (!found || hit.t < best.t)) {
                        best = hit;
                        found = 1;
                    }
                    if (!fsi_surface_cross(&soup.s, e, p, q, &hit))
                        continue;
                    if (first.element < 0 || hit.t < first.t)
                        first = hit;
                    total++;
                }
                ASSERT_EQ(found, fsi_bvh_closest(&bvh, p, radius, &hit));
                if (found) {
                    ASSERT_EQ(best.element, hit.element);
                    ASSERT(best.t == hit.t);
                }
                int got = fsi_bvh_all_hits(&bvh, p, q, hits, 200);
                ASSERT_EQ(total, got);
                for (int e = 1; e < got; e++)
                    ASSERT(hits[e - 1].t <= hits[e].t);
                ASSERT_EQ(total > 0, fsi_bvh_first_hit(&bvh, p, q, &hit));
                if (total) {
                    ASSERT_EQ(first.element, hit.element);
                    ASSERT(first.t == hit.t);
                    ASSERT_EQ(first.element, hits[0].element);
                }
                fsi_vec3 lo = fsi_vec_sub(p, fsi_vec(radius, radius, radius));
                fsi_vec3 hi = fsi_vec_add(p, fsi_vec(radius, radius, radius));
                memset(seen, 0, sizeof seen);
                ASSERT_EQ(0, fsi_bvh_overlap(&bvh, lo, hi, count_visit, seen));
                for (int e = 0; e < n; e++) {
                    fsi_real l[3], u[3];
                    int touch = 1;
                    fsi_surface_bounds(&soup.s, e, l, u);
                    for (int k = 0; k < dim; k++)
                        touch &= l[k] <= fsi__get(hi, k) && u[k] >= fsi__get(lo, k);
                    ASSERT_EQ(touch, seen[e]);
                }
            }
            for (int i = 0; i < 3 * soup.s.vertex_count; i++)
                soup.x[i] += i % 3 < dim ? FSI_R(0.3) * rnd() : 0;
            CHECK_OK(fsi_bvh_refit(&bvh, &soup.s));
        }
        fsi_bvh_free(&bvh);
    }
    make_ball(&ball, 8, 0); /* flat sides: boxes without thickness */
    fsi_bvh tree;
    CHECK_OK(fsi_bvh_init(&tree, ball.s.element_count, NULL));
    CHECK_OK(fsi_bvh_build(&tree, &ball.s));
    for (int i = 0; i < 2000; i++) {
        fsi_vec3 p = fsi_vec(2 + rnd(), rnd(), rnd());
        fsi_hit hit;
        ASSERT(fsi_bvh_closest(&tree, p, 9, &hit));
        ASSERT(fsi_bvh_closest(&tree, p, hit.t, &hit)); /* a sphere that just reaches */
    }
    fsi_bvh_free(&tree);
    PASS();
}

/* Solid angle of all triangles over 4 pi: the slow winding number. */
static double winding(const fsi_surface *surface, fsi_vec3 p) {
    double sum = 0;
    for (int e = 0; e < surface->element_count; e++) {
        fsi_vec3 a = fsi_vec_sub(fsi__surface_vertex(surface, e, 0), p),
                 b = fsi_vec_sub(fsi__surface_vertex(surface, e, 1), p);
        if (surface->dim == 2)
            sum += atan2((double)(a.x * b.y - a.y * b.x), (double)(a.x * b.x + a.y * b.y))
                   / 6.283185307179586;
        else {
            fsi_vec3 c = fsi_vec_sub(fsi__surface_vertex(surface, e, 2), p);
            double la = (double)fsi_vec_length(a), lb = (double)fsi_vec_length(b),
                   lc = (double)fsi_vec_length(c);
            double d = la * lb * lc + (double)fsi_vec_dot(a, b) * lc
                       + (double)fsi_vec_dot(b, c) * la + (double)fsi_vec_dot(c, a) * lb;
            sum += 2 * atan2((double)fsi_vec_dot(a, fsi_vec_cross(b, c)), d) / 12.566370614359172;
        }
    }
    return sum;
}

TEST G_06_inside_is_the_winding_number(void) {
    int in = 0;
    make_ball(&ball, 8, 1);
    make_ring(&ring, 37);
    for (int dim = 2; dim <= 3; dim++) {
        const fsi_surface *surface = dim == 2 ? &ring.s : &ball.s;
        fsi_bvh bvh;
        CHECK_OK(fsi_bvh_init(&bvh, surface->element_count, NULL));
        CHECK_OK(fsi_bvh_build(&bvh, surface));
        for (int i = 0; i < 2000; i++) {
            fsi_vec3 p = fsi_vec_scale(rnd3(), FSI_R(1.2));
            if (dim == 2)
                p.z = 0;
            /* in line with vertices */
            if (i < 200) {
                p.x = (fsi_real)(i % 15 - 7) / 8;
                p.y = (fsi_real)(i / 15 - 7) / 8;
                p.z = 0;
            }
            double w = winding(surface, p);
            if (fabs(w - 0.5) < 0.45)
                continue; /* on the surface */
            ASSERT_EQ(w > 0.5, fsi_bvh_inside(&bvh, p));
            in += w > 0.5;
        }
        fsi_bvh_free(&bvh);
    }
    ASSERT(in > 500);
    PASS();
}

/* Parts clipped to the boxes of a grid add up: area, centroid and normal. */
TEST G_07_clip_tiles_the_element(void) {
    for (int dim = 2; dim <= 3; dim++) {
        make_soup(&soup, dim, 60);
        for (int t = 1; t < 60; t++) {
            double area = 0, w[3] = {0, 0, 0},
                   full = (double)fsi_vec_length(fsi_surface_normal(&soup.s, t));
            fsi_vec3 normal = fsi_vec(0, 0, 0);
            int n = 7, nz = dim == 3 ? 7 : 1;
            fsi_real h = FSI_R(2.6) / FSI_R(7);
            for (int k = 0; k < nz; k++)
                for (int j = 0; j < n; j++)
                    for (int i = 0; i < n; i++) {
                        fsi_vec3 lo =
                            fsi_vec(FSI_R(-1.3) + (fsi_real)i * h, FSI_R(-1.3) + (fsi_real)j * h,
                                    FSI_R(-1.3) + (fsi_real)k * h);
                        fsi_clip part;
                        if (!fsi_surface_clip(&soup.s, t, lo, fsi_vec_add(lo, fsi_vec(h, h, h)),
                                              &part))
                            continue;
                        CHECK_NEAR(1, part.weight[0] + part.weight[1] + part.weight[2],
                                   TOL(1e-12, 1e-5));
                        area += (double)part.area;
                        for (int c = 0; c < 3; c++)
                            w[c] += (double)(part.area * part.weight[c]);
                        normal = fsi_vec_add(normal, part.normal);
                    }
            CHECK_NEAR(full, area, TOL(1e-13, 1e-6));
            for (int c = 0; c < dim; c++)
                CHECK_NEAR(full / dim, w[c], TOL(1e-13, 1e-6));
            CHECK_NEAR(full, fsi_vec_length(normal), TOL(1e-13, 1e-6));
        }
    }
    PASS();
}

TEST G_08_bad_input_and_memory(void) {
    fail_allocator f = fail_begin(0);
    fsi_allocator allocator = fail_make(&f);
    make_ring(&ring, 10);
    fsi_bvh bvh;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_bvh_init(&bvh, 0, NULL));
    CHECK_RESULT(FSI_ERR_MEMORY, fsi_bvh_init(&bvh, 10, &allocator));
    f = fail_begin(-1);
    CHECK_OK(fsi_bvh_init(&bvh, 9, &allocator));
    ASSERT_EQ(0, fsi_bvh_inside(&bvh, fsi_vec(0, 0, 0))); /* empty tree */
    fsi_hit hit;
    ASSERT_EQ(0, fsi_bvh_first_hit(&bvh, fsi_vec(0, 0, 0), fsi_vec(2, 0, 0), &hit));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_bvh_build(&bvh, &ring.s));
    fsi_surface surface = ring.s;
    surface.element_count = 9;
    surface.closed = 0;
    CHECK_OK(fsi_bvh_build(&bvh, &surface));
    CHECK_RESULT(FSI_ERR_STATE, fsi_bvh_refit(&bvh, &ring.s));
    ring.index[3] = 10;
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_bvh_build(&bvh, &surface));
    ring.index[3] = 2;
    ring.x[4] = (fsi_real)NAN;
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_bvh_build(&bvh, &surface));
    ring.x[4] = TOL(FSI_R(1e71), FSI_R(1e10)); /* its area could not be squared */
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_bvh_build(&bvh, &surface));
    ring.x[4] = 0;
    surface.dim = 4;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_bvh_build(&bvh, &surface));
    ASSERT_EQ(0, fsi_bvh_closest(&bvh, fsi_vec((fsi_real)NAN, 0, 0), 1, &hit));
    fsi_bvh_free(&bvh);
    fsi_bvh_free(&bvh);
    ASSERT_EQ(0, f.live);
    PASS();
}

SUITE(geometry) {
    RUN_TEST(G_01_closest_triangle_optimality);
    RUN_TEST(G_01_closest_triangle_in_any_unit);
    RUN_TEST(G_02_crossing_weights_and_side);
    RUN_TEST(G_03_watertight);
    RUN_TEST(G_04_joints_count_once);
    RUN_TEST(G_05_bvh_against_all_elements);
    RUN_TEST(G_06_inside_is_the_winding_number);
    RUN_TEST(G_07_clip_tiles_the_element);
    RUN_TEST(G_08_bad_input_and_memory);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(geometry);
    GREATEST_MAIN_END();
}
