/* Look-up of triangles and segments by a uniform grid (fsi_lookup): closest, first crossing,
 * sphere, each against a loop over all elements. */
#include "fsi_sph.h"
#include "greatest.h"
#include "check.h"

#define MOST 3000
static fsi_real X[9 * MOST];
static int32_t inertia[3 * MOST];
static fsi_surface S;
static uint64_t seed = 11;

static fsi_real rnd(void) {
    return (fsi_real)check_random(&seed);
} /* [-1, 1] */

static fsi_vec3 rnd3(void) {
    fsi_vec3 a;
    a.x = rnd();
    a.y = rnd();
    a.z = rnd();
    return a;
}

/* n elements with corners of their own: about size large, their centres within spread; every tenth
 * is degenerate on request. */
static void make_soup(int dim, int n, double spread, double size, int degenerate) {
    memset(&S, 0, sizeof S);
    S.dim = dim;
    S.vertex_count = dim * n;
    S.element_count = n;
    S.x = X;
    S.index = inertia;
    for (int e = 0; e < n; e++) {
        fsi_vec3 c = fsi_vec_scale(rnd3(), (fsi_real)spread);
        for (int k = 0; k < dim; k++) {
            fsi_vec3 p = fsi_vec_mad(c, rnd3(), (fsi_real)size);
            /* a point, or a needle */
            if (degenerate && e % 10 < 3 && k >= e % 10)
                p = fsi_vec_load(X + 3 * dim * e);
            if (degenerate && e % 10 == 0)
                p = c;
            if (dim == 2)
                p.z = 0;
            fsi_vec_store(X + 3 * (dim * e + k), p);
            inertia[dim * e + k] = dim * e + k;
        }
    }
    /* the same element twice: ties */
    for (int e = 10; degenerate && e < n; e += 10)
        memcpy(inertia + dim * e, inertia + dim * (e - 1), (size_t)dim * sizeof *inertia);
}

/* A flat sheet of m x m squares in z = 0 on the integers: points and rays meet edges and corners of
 * many elements alike. */
static void make_sheet(int m) {
    int e = 0;
    memset(&S, 0, sizeof S);
    S.dim = 3;
    S.vertex_count = (m + 1) * (m + 1);
    S.element_count = 2 * m * m;
    S.x = X;
    S.index = inertia;
    for (int j = 0; j <= m; j++)
        for (int i = 0; i <= m; i++) {
            fsi_real *x = X + 3 * (i + (m + 1) * j);
            x[0] = (fsi_real)i;
            x[1] = (fsi_real)j;
            x[2] = 0;
        }
    for (int j = 0; j < m; j++)
        for (int i = 0; i < m; i++, e += 6) {
            int32_t v = (int32_t)(i + (m + 1) * j), w = v + (int32_t)m + 1;
            inertia[e] = v;
            inertia[e + 1] = v + 1;
            inertia[e + 2] = w + 1;
            inertia[e + 3] = v;
            inertia[e + 4] = w + 1;
            inertia[e + 5] = w;
        }
}

static int before(const fsi_hit *a, const fsi_hit *b) {
    return a->t < b->t || (a->t == b->t && a->element < b->element);
}

/* All three queries at p, the ray on to q, against the loop over all elements. */
static int agrees(const fsi_lookup *lookup, fsi_vec3 p, fsi_vec3 q, fsi_real radius) {
    static fsi_hit all[MOST], got[MOST];
    fsi_hit first, ray, few[3];
    int n = 0, crossings = 0, ok = 1;
    first.t = ray.t = 0;
    first.element = ray.element = -1;
    fsi_hit hit;
    int e;
    for (e = 0; e < S.element_count; e++) {
        fsi_surface_closest(&S, e, p, &hit);
        if (hit.t <= radius) {
            all[n++] = hit;
            if (first.element < 0 || before(&hit, &first))
                first = hit;
        }
        if (!fsi_surface_cross(&S, e, p, q, &hit))
            continue;
        crossings++;
        if (ray.element < 0 || before(&hit, &ray))
            ray = hit;
    }
    ok &= fsi_lookup_closest(lookup, p, radius, &hit) == (n > 0)
          && (!n || !memcmp(&hit, &first, sizeof hit));
    ok &= fsi_lookup_first_hit(lookup, p, q, &hit) == (crossings > 0)
          && (!crossings || (hit.element == ray.element && hit.t == ray.t && hit.side == ray.side));
    ok &= fsi_lookup_sphere(lookup, p, radius, got, MOST) == n
          && fsi_lookup_sphere(lookup, p, radius, few, 3) == n
          && fsi_lookup_sphere(lookup, p, radius, NULL, 0) == n;
    for (int k = 0; k < n && ok; k++) {
        ok &= (k == 0 || before(&got[k - 1], &got[k]))
              && (k > 2 || !memcmp(&few[k], &got[k], sizeof hit));
        for (e = 0; e < n && all[e].element != got[k].element; e++) {
        }
        ok &= e < n && all[e].t == got[k].t;
    }
    return ok;
}

/* Queries near, on, beside and far from the surface, whose size is about `size`. */
static int agrees_everywhere(const fsi_lookup *lookup, double size, int count) {
    fsi_hit hit;
    for (int i = 0; i < count; i++) {
        fsi_real far_off = (fsi_real)(i % 7 == 6   ? 20 * size
                                      : i % 3 == 2 ? 1.5 * size
                                                   : size),
                 radius = lookup->reach * (fsi_real)(1 + rnd());
        fsi_vec3 o = fsi_vec_load(X + 3 * (i % S.vertex_count));
        if (!(fsi_vec_length(o) < 100))
            o = fsi_vec(0, 0, 0);
        fsi_vec3 p = fsi_vec_mad(o, rnd3(), far_off);
        fsi_vec3 q = fsi_vec_mad(o, rnd3(), far_off);
        if (i % 5 == 4)
            radius = (fsi_real)(size * (1 + check_random(&seed)));
        if (i % 11 == 10)
            radius = FSI_REAL_MAX;
        if (i % 4 == 1)
            q = fsi_vec_mad(p, rnd3(), lookup->reach);
        if (i % 8 == 3)
            q.x = p.x;
        if (i % 16 == 7) {
            q.x = p.x;
            q.y = p.y;
        }
        if (i % 6 == 5)
            p = fsi_vec_load(X + 3 * (i % S.vertex_count));
        if (i % 12 == 5)
            q = fsi_vec_load(X + 3 * (7 * i % S.vertex_count));
        if (S.dim == 2)
            p.z = q.z = 0;
        fsi_surface_closest(&S, i % S.element_count, p, &hit);
        if (i % 9 == 8)
            radius = hit.t; /* one just within reach */
        if (!agrees(lookup, p, q, radius))
            return 0;
    }
    return 1;
}

/* random, clustered, degenerate; moving; any reach */
TEST lookup_is_the_loop_over_all(void) {
    static const double reach[5] = {0, 1e-3, 0.05, 0.3, 5};
    fsi_lookup lookup;
    CHECK_OK(fsi_lookup_init(&lookup, MOST, NULL));
    for (int dim = 2; dim <= 3; dim++)
        for (int k = 0; k < 10; k++) {
            make_soup(dim, 400 + 100 * k, 1, k % 2 ? 0.02 : 0.2, k % 2);
            /* clustered */
            for (int i = 0; k >= 5 && i < 3 * S.vertex_count * 9 / 10; i++)
                X[i] = X[i] * FSI_R(0.01) + FSI_R(0.5) * (i % 3 < dim);
            /* away from the origin */
            for (int i = 0; k >= 8 && i < 3 * S.vertex_count; i++)
                X[i] += 40 * (fsi_real)(i % 3 < dim);
            for (int step = 0; step < 3; step++) {
                CHECK_OK(fsi_lookup_build(&lookup, &S, (fsi_real)reach[k % 5]));
                ASSERT(agrees_everywhere(&lookup, 1, 120));
                for (int i = 0; i < 3 * S.vertex_count; i++)
                    X[i] += i % 3 < dim ? FSI_R(0.05) * rnd() : 0;
            }
        }
    fsi_lookup_free(&lookup);
    PASS();
}

TEST lookup_ties_go_to_the_lowest(void) { /* on a lattice most answers are ties */
    fsi_hit hit, all[64];
    make_sheet(20);
    fsi_lookup lookup;
    CHECK_OK(fsi_lookup_init(&lookup, S.element_count, NULL));
    for (int k = 0; k < 3; k++) {
        CHECK_OK(fsi_lookup_build(&lookup, &S, k == 0 ? 0 : k == 1 ? 1 : FSI_R(0.25)));
        for (int j = -2; j <= 44; j += 3)
            for (int i = -2; i <= 44; i++) {
                fsi_vec3 p = fsi_vec((fsi_real)i / 2, (fsi_real)j / 2, (fsi_real)(i % 3) / 2),
                         q = fsi_vec(p.x + (fsi_real)(j % 4), p.y, -p.z - 1);
                ASSERT(agrees(&lookup, p, q, FSI_R(1.5)));
            }
        ASSERT(fsi_lookup_closest(&lookup, fsi_vec(5, 5, 1), 3, &hit));
        ASSERT_EQ(2 * (4 + 20 * 4), hit.element); /* six triangles share that corner */
        ASSERT_EQ(6, fsi_lookup_sphere(&lookup, fsi_vec(5, 5, 0), 0, all, 64));
    }
    fsi_lookup_free(&lookup);
    PASS();
}

/* A node far away, or some huge elements: the others keep their cells, and the answers are right.
 */
TEST lookup_bears_far_nodes(void) {
    static const double away[4] = {1e3, 1e5, 1e7, 1e8};
    fsi_lookup lookup;
    CHECK_OK(fsi_lookup_init(&lookup, MOST, NULL));
    make_sheet(30);
    CHECK_OK(fsi_lookup_build(&lookup, &S, FSI_R(0.5)));
    fsi_real edge = 1 / lookup.cells.inverse_edge;
    ASSERT(agrees_everywhere(&lookup, 30, 200));
    for (int k = 0; k < 4; k++) {
        make_sheet(30);
        /* in single a longer needle has no distance to speak of */
        for (int i = 0; i < 3; i++)
            X[3 * 500 + i] = (fsi_real)(away[k] * TOL(1, 1e-4) * (i - 1.5));
        CHECK_OK(fsi_lookup_build(&lookup, &S, FSI_R(0.5)));
        ASSERT(lookup.large <= 6);
        CHECK_NEAR((double)edge, 1 / (double)lookup.cells.inverse_edge, 1e-6 * (double)edge);
        ASSERT(agrees_everywhere(&lookup, 30, 200));
        ASSERT(agrees(&lookup, fsi_vec_load(X + 1500), fsi_vec(5, 5, -1), 1));
    }
    /* a hundred huge ones among small ones, then all huge */
    for (int k = 0; k < 2; k++) {
        make_soup(3, 1000, 1, 0.01, 0);
        for (int i = 0; i < (k ? 9000 : 900); i++)
            X[i] *= 1000;
        CHECK_OK(fsi_lookup_build(&lookup, &S, FSI_R(0.02)));
        ASSERT(agrees_everywhere(&lookup, 1, 100) && agrees_everywhere(&lookup, 1000, 100));
    }
    fsi_lookup_free(&lookup);
    /* needles longer than a table that wraps round */
    CHECK_OK(fsi_lookup_init(&lookup, 100, NULL));
    make_soup(3, 100, 6, 0.5, 0);
    for (int i = 0; i < 100; i += 9)
        for (int k = 1; k < 3; k++)
            fsi_vec_store(X + 9 * i + 3 * k,
                          fsi_vec_add(fsi_vec_load(X + 9 * i), fsi_vec((fsi_real)(8 * k), 0, 0)));
    X[0] = X[1] = X[2] = 1000;
    CHECK_OK(fsi_lookup_build(&lookup, &S, FSI_R(0.01)));
    ASSERT(lookup.cells.wrap[0] && (fsi_real)lookup.cells.size[0] < 16 * lookup.cells.inverse_edge
           && lookup.large < 3);
    ASSERT(agrees_everywhere(&lookup, 10, 300));
    fsi_lookup_free(&lookup);
    PASS();
}

/* Round-off: a flat sheet away from the origin, spheres that just reach it, rays from far away. */
TEST lookup_bears_round_off(void) {
    fsi_hit hit;
    make_sheet(20);
    for (int i = 0; i < 3 * S.vertex_count; i++)
        X[i] += FSI_R(1000.3);
    fsi_lookup lookup;
    CHECK_OK(fsi_lookup_init(&lookup, S.element_count, NULL));
    CHECK_OK(fsi_lookup_build(&lookup, &S, FSI_R(0.01)));
    for (int i = 0; i < 2000; i++) {
        fsi_vec3 o = fsi_vec(FSI_R(1010.3) + 10 * rnd(), FSI_R(1010.3) + 10 * rnd(), FSI_R(1000.3)),
                 p = o;
        p.z += FSI_R(0.1) * rnd();
        ASSERT(fsi_lookup_closest(&lookup, p, 1, &hit));
        ASSERT(agrees(&lookup, p, o, hit.t));
        p = fsi_vec_mad(o, rnd3(), FSI_R(1e5));
        ASSERT(agrees(&lookup, p, fsi_vec_sub(fsi_vec_scale(o, 2), p), 1));
    }
    fsi_lookup_free(&lookup);
    PASS();
}

/* The same in other units: down to where squared distances end in zero, up to the largest positions
 * allowed. */
TEST lookup_bears_any_unit(void) {
    fsi_lookup lookup;
    CHECK_OK(fsi_lookup_init(&lookup, MOST, NULL));
    for (int dim = 2; dim <= 3; dim++)
        for (int u = TOL(-70, -15); u <= TOL(68, 7); u += TOL(6, 1)) {
            fsi_real unit = (fsi_real)pow(10, u);
            make_soup(dim, 500, 1, u % 2 ? 0.02 : 0.2, u % 3 == 0);
            for (int i = 0; i < 3 * S.vertex_count; i++)
                X[i] *= unit;
            CHECK_OK(fsi_lookup_build(&lookup, &S, unit * FSI_R(0.05)));
            ASSERT(agrees_everywhere(&lookup, (double)unit, 120));
        }
    fsi_lookup_free(&lookup);
    PASS();
}

TEST lookup_bad_input_and_memory(void) {
    const fsi_real inf = (fsi_real)INFINITY, nan = (fsi_real)NAN;
    fail_allocator f = fail_begin(0);
    fsi_allocator allocator = fail_make(&f);
    make_sheet(5);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_lookup_init(NULL, 5, NULL));
    fsi_lookup lookup;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_lookup_init(&lookup, 0, NULL));
    CHECK_RESULT(FSI_ERR_SIZE, fsi_lookup_init(&lookup, INT32_MAX, NULL));
    CHECK_RESULT(FSI_ERR_STATE, fsi_lookup_build(&lookup, &S, 1));
    CHECK_RESULT(FSI_ERR_MEMORY, fsi_lookup_init(&lookup, 50, &allocator));
    CHECK_RESULT(FSI_ERR_STATE, fsi_lookup_build(&lookup, &S, 1));
    f = fail_begin(-1);
    CHECK_OK(fsi_lookup_init(&lookup, 50, &allocator));
    /* empty: before the first build, and by an empty surface */
    fsi_hit hit;
    for (int i = 0; i < 2; i++) {
        fsi_surface none = S;
        ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(0, 0, 0), FSI_REAL_MAX, &hit));
        ASSERT_EQ(0, fsi_lookup_first_hit(&lookup, fsi_vec(1, 2, -1), fsi_vec(1, 2, 1), &hit));
        ASSERT_EQ(0, fsi_lookup_sphere(&lookup, fsi_vec(0, 0, 0), 9, &hit, 1));
        none.element_count = 0;
        CHECK_OK(fsi_lookup_build(&lookup, &none, 1));
    }
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_lookup_build(&lookup, &S, -1));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_lookup_build(&lookup, &S, nan));
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_lookup_build(&lookup, &S, inf));
    CHECK_OK(fsi_lookup_build(&lookup, &S, 1));
    ASSERT(fsi_lookup_closest(&lookup, fsi_vec(1, 1, 1), 1, &hit)
           && fsi_lookup_closest(&lookup, fsi_vec(1, 1, 1), inf, &hit));
    ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(nan, 0, 0), 1, &hit));
    ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(0, -inf, 0), inf, &hit));
    ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(0, 0, 0), nan, &hit));
    ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(0, 0, 0), -1, &hit));
    ASSERT_EQ(0, fsi_lookup_sphere(&lookup, fsi_vec(0, 0, nan), 1, &hit, 1));
    ASSERT_EQ(0, fsi_lookup_first_hit(&lookup, fsi_vec(0, 0, 0), fsi_vec(0, inf, 0), &hit));
    ASSERT(agrees(&lookup, fsi_vec(2, 2, -FSI_REAL_MAX / 2), fsi_vec(2, 2, FSI_REAL_MAX), 1));
    ASSERT(agrees(&lookup, fsi_vec(-FSI_REAL_MAX, 2, 0), fsi_vec(FSI_REAL_MAX, 2, 0), 1));
    X[4] = nan;
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_lookup_build(&lookup, &S, 1));
    /* empty after an error */
    ASSERT_EQ(0, fsi_lookup_closest(&lookup, fsi_vec(1, 1, 1), 1, &hit));
    X[4] = TOL(FSI_R(1e71), FSI_R(1e10));
    CHECK_RESULT(FSI_ERR_GEOMETRY, fsi_lookup_build(&lookup, &S, 1));
    X[4] = TOL(FSI_R(9e69), FSI_R(9e8));
    CHECK_OK(fsi_lookup_build(&lookup, &S, 1)); /* huge, but a surface */
    ASSERT(fsi_lookup_closest(&lookup, fsi_vec(4, 4, 1), 2, &hit));
    make_sheet(6);
    CHECK_RESULT(FSI_ERR_SIZE, fsi_lookup_build(&lookup, &S, 1));
    make_soup(3, 50, 0, 0, 0); /* all elements are one point */
    CHECK_OK(fsi_lookup_build(&lookup, &S, 0));
    ASSERT(agrees(&lookup, fsi_vec(0, 0, 0), fsi_vec(1, 0, 0), 0)
           && agrees(&lookup, fsi_vec(1, 2, 3), fsi_vec(0, 0, 0), 10));
    ASSERT_EQ(1, f.calls); /* the builds allocated nothing */
    fsi_lookup_free(&lookup);
    fsi_lookup_free(&lookup);
    fsi_lookup_free(NULL);
    ASSERT_EQ(0, f.live);
    PASS();
}

SUITE(lookup) {
    RUN_TEST(lookup_is_the_loop_over_all);
    RUN_TEST(lookup_ties_go_to_the_lowest);
    RUN_TEST(lookup_bears_far_nodes);
    RUN_TEST(lookup_bears_round_off);
    RUN_TEST(lookup_bears_any_unit);
    RUN_TEST(lookup_bad_input_and_memory);
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_SUITE(lookup);
    GREATEST_MAIN_END();
}
