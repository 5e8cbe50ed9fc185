/* Marching squares and cubes of fsi_linalg.h: closed, manifold, right volume, right normals. */
#define FSI_IMPLEMENTATION
#include "fsi_linalg.h"
#include "greatest.h"
#include "check.h"

#define N 20
static fsi_real value[N * N * N];

static fsi_iso_desc lattice(int nz, int closed) {
    fsi_iso_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = desc.ny = N;
    desc.nz = nz;
    desc.h = (fsi_real)(1.0 / N);
    desc.origin = fsi_vec(desc.h / 2, desc.h / 2, nz > 1 ? desc.h / 2 : 0);
    desc.value = value;
    desc.closed = closed;
    return desc;
}

static void fill_sphere(int nz, double cx, double r) {
    for (int k = 0; k < nz; k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                double x = (i + 0.5) / N - cx, y = (j + 0.5) / N - 0.5,
                       z = nz > 1 ? (k + 0.5) / N - 0.5 : 0;
                value[i + N * (j + N * k)] = (fsi_real)(sqrt(x * x + y * y + z * z) - r);
            }
}

static void fill_noise(int nz, uint64_t seed) {
    for (int c = 0; c < N * N * nz; c++)
        value[c] = (fsi_real)check_random(&seed);
}

static int compare_edges(const void *a, const void *b) {
    const int *p = (const int *)a, *q = (const int *)b;
    return p[0] != q[0] ? (p[0] < q[0] ? -1 : 1) : p[1] != q[1] ? (p[1] < q[1] ? -1 : 1) : 0;
}

/* Every edge of a closed oriented manifold is passed once in each direction; in 2D every vertex is
 * entered and left once. */
static int is_manifold(const fsi_iso_mesh *mesh) {
    int n = 3 * mesh->element_count, bad = 0;
    if (mesh->dim == 2) {
        int *in = (int *)calloc(2 * (size_t)mesh->vertex_count + 1, sizeof *in);
        for (int e = 0; e < mesh->element_count; e++) {
            in[2 * mesh->index[2 * e]]++;
            in[2 * mesh->index[2 * e + 1] + 1]++;
        }
        for (int e = 0; e < 2 * mesh->vertex_count; e++)
            bad += in[e] != 1;
        free(in);
        return !bad;
    } else {
        int *edge = (int *)malloc(2 * sizeof *edge * (size_t)n + 8), key[2];
        for (int e = 0; e < n; e++) {
            edge[2 * e] = mesh->index[e];
            edge[2 * e + 1] = mesh->index[e % 3 == 2 ? e - 2 : e + 1];
        }
        qsort(edge, (size_t)n, 2 * sizeof *edge, compare_edges);
        for (int e = 0; e < n; e++) {
            if (e && !compare_edges(edge + 2 * e, edge + 2 * e - 2))
                bad++;
            key[0] = edge[2 * e + 1];
            key[1] = edge[2 * e];
            if (!bsearch(key, edge, (size_t)n, 2 * sizeof *edge, compare_edges))
                bad++;
        }
        free(edge);
        return !bad;
    }
}

/* sum of signed cones from the origin */
static double enclosed(const fsi_iso_mesh *mesh) {
    double v = 0;
    for (int e = 0; e < mesh->element_count; e++) {
        const int32_t *t = mesh->index + mesh->dim * e;
        fsi_vec3 a = fsi_vec_load(mesh->x + 3 * t[0]), b = fsi_vec_load(mesh->x + 3 * t[1]);
        if (mesh->dim == 2)
            v += (double)(a.x * b.y - a.y * b.x) / 2;
        else
            v += (double)fsi_vec_dot(a, fsi_vec_cross(b, fsi_vec_load(mesh->x + 3 * t[2]))) / 6;
    }
    return v;
}

TEST I_01_sphere_is_closed_and_right(void) {
    fsi_iso_desc desc = lattice(N, 0);
    fill_sphere(N, 0.5, 0.31);
    fsi_iso_mesh mesh;
    CHECK_OK(fsi_iso_build(&desc, &mesh));
    ASSERT(is_manifold(&mesh));
    /* Euler: V - E + F = 2, E = 3 F / 2 */
    ASSERT_EQ(2, mesh.vertex_count - mesh.element_count / 2);
    CHECK_REL(4.0 / 3 * 3.14159265358979 * 0.31 * 0.31 * 0.31, enclosed(&mesh), 0.02);
    for (int v = 0; v < mesh.vertex_count; v++) {
        fsi_vec3 x = fsi_vec_sub(fsi_vec_load(mesh.x + 3 * v),
                                 fsi_vec(FSI_R(0.5), FSI_R(0.5), FSI_R(0.5))),
                 n = fsi_vec_load(mesh.normal + 3 * v);
        /* sag of a cell-sized chord: h^2 / 2R = 0.08 h */
        CHECK_NEAR(0.31, fsi_vec_length(x), 0.08 / N);
        CHECK_NEAR(1.0, fsi_vec_dot(n, fsi_vec_unit(x)), 2e-3);
    }
    fsi_iso_free(&mesh);
    fsi_iso_free(&mesh);
    PASS();
}

TEST I_02_circle_segments_run_counter_clockwise(void) {
    fsi_iso_desc desc = lattice(1, 0);
    fill_sphere(1, 0.5, 0.31);
    fsi_iso_mesh mesh;
    CHECK_OK(fsi_iso_build(&desc, &mesh));
    ASSERT(is_manifold(&mesh));
    ASSERT_EQ(mesh.vertex_count, mesh.element_count);
    CHECK_REL(3.14159265358979 * 0.31 * 0.31, enclosed(&mesh), 0.01);
    fsi_iso_free(&mesh);
    PASS();
}

TEST I_03_noise_is_manifold_2d_and_3d(void) {
    for (uint64_t seed = 1; seed <= 6; seed++) {
        fsi_iso_desc desc = lattice(seed & 1 ? N : 1, 1);
        fill_noise(desc.nz, seed);
        fsi_iso_mesh mesh;
        CHECK_OK(fsi_iso_build(&desc, &mesh));
        ASSERT(is_manifold(&mesh));
        /* about half the box, so the orientation is right */
        ASSERT(enclosed(&mesh) > 0.2);
        fsi_iso_free(&mesh);
    }
    PASS();
}

TEST I_04_lid_closes_at_the_wall(void) {
    for (int dim = 2; dim <= 3; dim++) {
        fsi_iso_desc desc = lattice(dim == 3 ? N : 1, 1);
        double full = dim == 3 ? 0.5 : 0.5;
        /* lower half of the box */
        for (int c = 0; c < N * N * desc.nz; c++)
            value[c] = (fsi_real)((c / N % N + 0.5) / N - 0.5);
        fsi_iso_mesh mesh;
        CHECK_OK(fsi_iso_build(&desc, &mesh));
        ASSERT(is_manifold(&mesh));
        /* the rim of the box is bevelled by half a cell */
        CHECK_REL(full, enclosed(&mesh), 0.03);
        for (int c = 0; c < mesh.vertex_count; c++)
            ASSERT(mesh.x[3 * c] > FSI_R(-1e-6) && mesh.x[3 * c] < FSI_R(1.0 + 1e-6));
        fsi_iso_free(&mesh);
    }
    PASS();
}

TEST I_05_caller_buffers_and_sizes(void) {
    fsi_iso_desc desc = lattice(N, 0);
    fsi_iso_mesh mesh;
    memset(&mesh, 0, sizeof mesh);
    fill_sphere(N, 0.4, 0.31);
    CHECK_OK(fsi_iso_extract(&desc, &mesh)); /* counts */
    ASSERT(mesh.vertex_count > 100 && mesh.element_count > 200 && mesh.dim == 3);
    fsi_real *x;
    x = (fsi_real *)malloc(3 * sizeof *x * (size_t)mesh.vertex_count);
    int32_t *index;
    index = (int32_t *)malloc(3 * sizeof *index * (size_t)mesh.element_count);
    mesh.x = x;
    mesh.index = index;
    mesh.vertex_room = mesh.vertex_count;
    mesh.element_room = mesh.element_count;
    CHECK_OK(fsi_iso_extract(&desc, &mesh));
    ASSERT(is_manifold(&mesh));
    mesh.vertex_room--;
    CHECK_RESULT(FSI_ERR_SIZE, fsi_iso_extract(&desc, &mesh));
    mesh.vertex_room++;
    mesh.element_room -= 5;
    CHECK_RESULT(FSI_ERR_SIZE, fsi_iso_extract(&desc, &mesh));
    free(x);
    free(index);
    PASS();
}

TEST I_06_bad_input_and_failing_allocator(void) {
    fsi_iso_desc desc = lattice(N, 1);
    fill_sphere(N, 0.5, 0.3);
    fsi_iso_mesh mesh;
    long k;
    for (k = 0; k < 10; k++) {
        fail_allocator f = fail_begin(k);
        desc.allocator = fail_make(&f);
        memset(&mesh, 0, sizeof mesh);
        fsi_result result = fsi_iso_build(&desc, &mesh);
        if (result == FSI_OK) {
            fsi_iso_free(&mesh);
            ASSERT_EQ(0, f.live);
            break;
        }
        ASSERT_EQ(FSI_ERR_MEMORY, result);
        ASSERT_EQ(0, f.live);
    }
    ASSERT(k > 1 && k < 10);
    desc = lattice(N, 1);
    desc.h = 0;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_iso_build(&desc, &mesh));
    desc = lattice(0, 1);
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_iso_build(&desc, &mesh));
    desc = lattice(N, 1);
    desc.value = NULL;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_iso_build(&desc, &mesh));
    desc = lattice(N, 1);
    value[7] = (fsi_real)NAN;
    CHECK_RESULT(FSI_ERR_ARGUMENT, fsi_iso_build(&desc, &mesh));
    /* differences overflow: still a finite surface */
    for (k = 0; k < N * N * N; k++)
        value[k] = k / (N * N) < N / 2 ? FSI_REAL_MAX : -FSI_REAL_MAX;
    CHECK_OK(fsi_iso_build(&desc, &mesh));
    ASSERT(fsi_all_finite(3 * (size_t)mesh.vertex_count, mesh.x)
           && fsi_all_finite(3 * (size_t)mesh.vertex_count, mesh.normal));
    fsi_iso_free(&mesh);
    fill_sphere(N, 0.5, -1.0);
    CHECK_RESULT(FSI_EMPTY, fsi_iso_build(&desc, &mesh));
    fsi_iso_free(&mesh);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(I_01_sphere_is_closed_and_right);
    RUN_TEST(I_02_circle_segments_run_counter_clockwise);
    RUN_TEST(I_03_noise_is_manifold_2d_and_3d);
    RUN_TEST(I_04_lid_closes_at_the_wall);
    RUN_TEST(I_05_caller_buffers_and_sizes);
    RUN_TEST(I_06_bad_input_and_failing_allocator);
    GREATEST_MAIN_END();
}
