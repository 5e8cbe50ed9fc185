/* The five scenes of paper 004 at its sizes (tetrahedra, surface triangles, particles), with the
   fluid lying against the solid: milliseconds of TLED, SPH and coupling per step beside the paper's
   (GTX 580). bench NAME VALUE UNIT. "To reach": the sum at most the paper's in every scene on two
   cores, single precision, -O3 -march=native: `make bench` builds that itself and runs it as
   native_. Arguments: a tag put before every name, one scene's number (-1 = all), steps before and
   steps of the measurement. */
#include "fsi_couple.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"

typedef struct scene {
    const char *name;
    int nu, nv, nw, wrap; /* bricks of the lattice; wrap: closed in the first direction */
    int particles;
    double paper[3];                                    /* ms: TLED, SPH, coupling */
    fsi_vec3 (*place)(double u, double v, double w);    /* (0, 1)^3 -> solid; w across the wall */
    int (*wet)(double x, double y, double z, double r); /* 1: fluid with this radius fits here */
    int (*keep)(double u, double v);                    /* NULL: no holes */
    double lo[3], hi[3];                                /* box that is filled */
    double v[3];   /* velocity of the fluid at the start, m/s */
    double volume; /* about what the fluid fills, m^3: gives the spacing */
} scene;

static fsi_vec3 at(double x, double y, double z) {
    return fsi_vec((fsi_real)x, (fsi_real)y, (fsi_real)z);
}

static fsi_vec3 hose_place(double u, double v, double w) {
    double a = 6.283185307 * u;
    double r = 0.1 + 0.012 * w;
    return at(1.2 * v, r * sin(a), r * cos(a));
}

static int hose_wet(double x, double y, double z, double r) {
    (void)x;
    return hypot(y, z) < 0.1 - r;
}

static fsi_vec3 beam_place(double u, double v, double w) {
    return at(0.08 * (v - 0.5), 0.6 * u, 0.05 * (w - 0.5));
}

static int beam_wet(double x, double y, double z, double r) {
    return fabs(x) > 0.04 + r || y > 0.6 + r || fabs(z) > 0.025 + r;
}

static fsi_vec3 cloth_place(double u, double v, double w) {
    return at(u - 0.5, -0.01 * w, v - 0.5);
}

static int cloth_keep(double u, double v) {
    return pow(fabs(u - 0.5) - 0.22, 2) + pow(fabs(v - 0.5) - 0.22, 2) > 0.085 * 0.085;
}

static int cloth_wet(double x, double y, double z, double r) {
    (void)x;
    (void)z;
    return y > r;
}

/* a square plate with round corners, bent into a bowl */
static fsi_vec3 bowl_place(double u, double v, double w) {
    double x = 2 * u - 1;
    double z = 2 * v - 1;
    double a = x * (0.4 + 0.6 * sqrt(1 - z * z / 2));
    double b = z * (0.4 + 0.6 * sqrt(1 - x * x / 2));
    double r = hypot(a, b);
    double size = 0.4 + 0.03 * w;
    double k = r > 0 ? size * sin(1.2 * r) / r : 0;
    return at(k * a, -size * cos(1.2 * r), k * b);
}

static int bowl_wet(double x, double y, double z, double r) {
    return sqrt(x * x + y * y + z * z) < 0.397 - r;
}

static fsi_vec3 funnel_place(double u, double v, double w) {
    double a = 6.283185307 * u;
    double r = 0.02 + 0.38 * v + 0.02 * w;
    return at(r * cos(a), 0.5 * v - 0.01 * w, r * sin(a));
}

static int funnel_wet(double x, double y, double z, double r) {
    return hypot(x, z) < 0.02 + 0.76 * y - 1.3 * r && y > 0.03;
}

static const scene scenes[5] = {{"hose",
                                 35,
                                 70,
                                 1,
                                 1,
                                 40000,
                                 {13.8, 11.0, 13.0},
                                 hose_place,
                                 hose_wet,
                                 NULL,
                                 {0.01, -0.1, -0.1},
                                 {1.19, 0.1, 0.1},
                                 {1, 0, 0},
                                 0.0335},
                                {"beam",
                                 128,
                                 3,
                                 2,
                                 0,
                                 40000,
                                 {10.9, 8.3, 9.5},
                                 beam_place,
                                 beam_wet,
                                 NULL,
                                 {-0.25, 0.02, -0.25},
                                 {0.15, 0.62, 0.25},
                                 {1.5, 0, 0},
                                 0.11},
                                {"cloth",
                                 38,
                                 38,
                                 1,
                                 0,
                                 40000,
                                 {11.5, 8.6, 8.8},
                                 cloth_place,
                                 cloth_wet,
                                 cloth_keep,
                                 {-0.48, 0, -0.48},
                                 {0.48, 0.15, 0.48},
                                 {0, -1, 0},
                                 0.13},
                                {"bowl",
                                 35,
                                 35,
                                 1,
                                 0,
                                 30000,
                                 {10.7, 8.2, 8.4},
                                 bowl_place,
                                 bowl_wet,
                                 NULL,
                                 {-0.4, -0.4, -0.4},
                                 {0.4, -0.07, 0.4},
                                 {0, -0.5, 0},
                                 0.0945},
                                {"funnel",
                                 40,
                                 25,
                                 1,
                                 1,
                                 30000,
                                 {12.9, 8.1, 12.2},
                                 funnel_place,
                                 funnel_wet,
                                 NULL,
                                 {-0.4, 0.03, -0.4},
                                 {0.4, 0.45, 0.4},
                                 {0, -0.5, 0},
                                 0.053}};

/* Lattice of bricks, six tetrahedra each along the edges in every order, so neighbours fit. Unused
 * vertices are left out. */
static int32_t *mesh(const scene *s, fsi_real **x, int *nodes, int *tets) {
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    int nu = s->nu + !s->wrap;
    int nv = s->nv + 1;
    int nw = s->nw + 1;
    int n = 0;
    int *number = (int *)malloc((size_t)(nu * nv * nw) * sizeof *number);
    int32_t *tet = (int32_t *)malloc((size_t)(24 * s->nu * s->nv * s->nw) * sizeof *tet);
    *x = (fsi_real *)malloc((size_t)(3 * nu * nv * nw) * sizeof **x);

    for (int i = 0; i < nu * nv * nw; i++)
        number[i] = -1;
    int k;

    for (*nodes = 0, k = 0; k < s->nw; k++)
        for (int j = 0; j < s->nv; j++)
            for (int i = 0; i < s->nu; i++) {
                if (s->keep && !s->keep((i + 0.5) / s->nu, (j + 0.5) / s->nv))
                    continue;
                for (int p = 0; p < 6; p++) {
                    int c[3] = {i, j, k};
                    for (int q = 0; q < 4; q++) {
                        int id = c[0] % nu + nu * (c[1] + nv * c[2]);
                        if (number[id] < 0) {
                            number[id] = (*nodes)++;
                            fsi_vec_store(*x + 3 * number[id],
                                          s->place((double)(c[0] % nu) / s->nu,
                                                   (double)c[1] / s->nv, (double)c[2] / s->nw));
                        }
                        tet[n++] = number[id];
                        if (q < 3)
                            c[order[p][q]]++;
                    }
                }
            }
    free(number);
    *tets = n / 4;
    return tet;
}

/* Held: the hose and the funnel at one end, the beam at its foot, the cloth at its rim, the bowl at
 * its bottom. */
static int held(const scene *s, const fsi_real *p) {
    double x = (double)p[0];
    double y = (double)p[1];
    double z = (double)p[2];
    switch (s->name[0] == 'b' ? s->name[1] : s->name[0]) {
    case 'h':
        return x < 0.1;
    case 'e':
        return y < 1e-6;
    case 'c':
        return fabs(x) > 0.499 || fabs(z) > 0.499;
    case 'o':
        return y < -0.4 + 0.03;
    default:
        return y > 0.45;
    }
}

static int fill(const scene *s, fsi_sph *sph, double d) {
    int n = 0;

    for (double y = s->lo[1] + d / 2; n < s->particles; y += d) {
        if (y > s->hi[1] && s->name[0] != 'c')
            break;
        for (double x = s->lo[0] + d / 2; x < s->hi[0]; x += d)
            for (double z = s->lo[2] + d / 2; z < s->hi[2] && n < s->particles; z += d) {
                fsi_real p[3], v[3];
                if (!s->wet(x, y, z, d / 2))
                    continue;
                p[0] = (fsi_real)x;
                p[1] = (fsi_real)y;
                p[2] = (fsi_real)z;
                v[0] = (fsi_real)s->v[0];
                v[1] = (fsi_real)s->v[1];
                v[2] = (fsi_real)s->v[2];
                n += fsi_sph_add(sph, 1, p, v, NULL) == FSI_OK;
            }
    }

    return n;
}

typedef struct answer {
    double ms[3], contacts, skipped, substeps, density, dt;
    int tets, triangles, particles, ok;
} answer;

static answer measure(const scene *s, int threads, int skip, int count) {
    double spacing = cbrt(s->volume / s->particles);
    double dt = 0.4 * spacing / 25;
    use_threads(threads);
    answer a;
    memset(&a, 0, sizeof a);
    fsi_sph_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_tled_desc given;
    memset(&given, 0, sizeof given);
    fsi_proxy_desc options;
    memset(&options, 0, sizeof options);
    fsi_proxy_solid part;
    memset(&part, 0, sizeof part);
    fsi_real *x;
    int32_t *tet = mesh(s, &x, &given.nodes, &given.tets);
    given.x = x;
    given.tet = tet;
    given.density = 1000;
    given.young = FSI_R(6e5);
    given.poisson = FSI_R(0.3);
    given.damping = 2;
    given.gravity = fsi_vec(0, FSI_R(-9.81), 0);
    desc.capacity = s->particles;
    desc.spacing = (fsi_real)spacing;
    desc.density = 1000;
    desc.sound_speed = 20;
    desc.viscosity = FSI_R(0.2);
    desc.artificial = FSI_R(0.05);
    desc.gravity = given.gravity; /* c and mu of the paper's table 1 */
    fsi_tled solid;
    part.tled = &solid;
    part.slip = 1;
    fsi_sph sph;
    options.sph = &sph;
    options.solid = &part;
    options.count = 1;
    options.clock_fn = now_fn;

    if (fsi_tled_init(&solid, &given) != FSI_OK || fsi_sph_init(&sph, &desc) != FSI_OK)
        return a;

    for (int i = 0; i < given.nodes; i++)
        if (held(s, x + 3 * i))
            fsi_tled_fix(&solid, i, fsi_vec(0, 0, 0));

    /* under pressure: it lies against the wall everywhere */
    a.particles = fill(s, &sph, 0.99 * spacing);
    fsi_proxy proxy;
    a.ok = fsi_proxy_init(&proxy, &options) == FSI_OK;

    for (int k = 0; k < skip + count && a.ok; k++) {
        a.ok = fsi_proxy_step(&proxy, (fsi_real)dt, NULL) >= 0;
        if (k < skip)
            continue;
        a.ms[0] += 1e3 * proxy.stats.seconds_solid / count;
        a.ms[1] += 1e3 * proxy.stats.seconds_sph / count;
        a.ms[2] += 1e3 * proxy.stats.seconds_coupling / count;
        a.contacts += (double)proxy.stats.contacts / count;
        a.substeps += (double)part.substeps / count;
        if ((double)sph.stats.max_density > a.density)
            a.density = (double)sph.stats.max_density;
    }

    a.tets = given.tets;
    a.triangles = solid.triangles;
    a.dt = dt;
    a.skipped = (double)proxy.stats.all_skipped / (double)(proxy.stats.all_contacts + 1);
    fsi_proxy_free(&proxy);
    fsi_tled_free(&solid);
    fsi_sph_free(&sph);
    free(x);
    free(tet);
    return a;
}

static const char *tag = "";

static void line(const char *name, const char *what, double value, const char *unit) {
    printf("bench %s%s%s %.4g %s\n", tag, name, what, value, unit);
}

int main(int argc, char **argv) {
    int only = argc > 2 ? atoi(argv[2]) : -1;
    int skip = argc > 3 ? atoi(argv[3]) : 60;
    int count = argc > 4 ? atoi(argv[4]) : 40;
    if (argc > 1)
        tag = argv[1];

    for (int k = 0; k < 5; k++) {
        const scene *s = &scenes[k];
        double paper = s->paper[0] + s->paper[1] + s->paper[2];
        char name[32];
        if (only >= 0 && only != k)
            continue;
        snprintf(name, sizeof name, "proxy_%s", s->name);
        answer a = measure(s, 2, skip, count);
        double sum = a.ms[0] + a.ms[1] + a.ms[2];
        if (!a.ok) {
            printf("bench %s%s failed\n", tag, name);
            continue;
        }

        line(name, "", sum, "ms");
        line(name, "_tled", a.ms[0], "ms");
        line(name, "_sph", a.ms[1], "ms");
        line(name, "_coupling", a.ms[2], "ms");
        line(name, "_paper", paper, "ms");
        line(name, "_paper_tled", s->paper[0], "ms");
        line(name, "_paper_sph", s->paper[1], "ms");
        line(name, "_paper_coupling", s->paper[2], "ms");
        line(name, "_of_paper", sum / paper, "x");
        line(name, "_tets", a.tets, "tetrahedra");
        line(name, "_triangles", a.triangles, "triangles");
        line(name, "_particles", a.particles, "particles");
        line(name, "_contacts", a.contacts, "contacts/step");
        line(name, "_substeps", a.substeps, "per step");
        line(name, "_density", a.density, "x");
        line(name, "_skipped", a.skipped, "of contacts");
        fflush(stdout);
        if (k > 0)
            continue;
        answer one = measure(s, 1, skip / 3, count / 2);
        line("proxy_40k_15k", "", sum, "ms");
        line("proxy_40k_15k", "_1thread", one.ms[0] + one.ms[1] + one.ms[2], "ms");
        line("proxy_40k_15k", "_speedup", (one.ms[0] + one.ms[1] + one.ms[2]) / sum, "x");
        fflush(stdout);
    }

    return 0;
}
