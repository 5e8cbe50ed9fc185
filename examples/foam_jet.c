/* foam_jet: a light block of soft foam in a jet of smoke (Akbay et al. 2018, fig. 2): tetrahedra
   with implicit steps, coupled by exchange or by one solve.

       build/foam_jet --out out
       build/foam_jet --set scheme=monolithic   one solve for both
       build/foam_jet --set mass_ratio=0.01     lighter: harder

   Result: how far it rose, and how often both solvers were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "jet.h"

typedef struct foam {
    fsi_soft soft;
    fsi_soft_responder responder;
    int monolithic;
} foam;

/* A box of n[0] x n[1] x n[2] cubes, six tetrahedra each. */
static int make_foam(foam *f, const int *n, const double *lo, const double *hi, double density,
                     double young) {
    static const int cube[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                   {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};

    int nodes = (n[0] + 1) * (n[1] + 1) * (n[2] + 1);
    fsi_real *x = (fsi_real *)calloc((size_t)nodes * 3, sizeof *x);
    int32_t *tet = (int32_t *)calloc((size_t)(n[0] * n[1] * n[2]) * 24, sizeof *tet);

    for (int c = 0; c < nodes; c++) {
        int i[3];
        i[0] = c % (n[0] + 1);
        i[1] = c / (n[0] + 1) % (n[1] + 1);
        i[2] = c / ((n[0] + 1) * (n[1] + 1));
        for (int k = 0; k < 3; k++)
            x[3 * c + k] = lo[k] + (hi[k] - lo[k]) * i[k] / n[k];
    }

    for (int c = 0; c < n[0] * n[1] * n[2]; c++)
        for (int t = 0; t < 6; t++)
            for (int k = 0; k < 4; k++) {
                int q = cube[t][k];
                int i = c % n[0] + (q & 1);
                int j = c / n[0] % n[1] + (q >> 1 & 1);
                int l = c / (n[0] * n[1]) + (q >> 2);
                tet[24 * c + 4 * t + k] = i + (n[0] + 1) * (j + (n[1] + 1) * l);
            }

    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = nodes,
        .x = x,
        .tet_count = 6 * n[0] * n[1] * n[2],
        .tet = tet,
        .density = density,
        .young = young,
        .poisson = 0.3,
        .damping_stiffness = 0.02,
        .integrator = f->monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };

    int ok = fsi_soft_init(&f->soft, &desc) == FSI_OK;
    f->responder.soft = &f->soft;
    free(x);
    free(tet);
    return ok;
}

static const ex_about about = {
    .name = "foam_jet",
    .what = "A light block of soft foam in a jet of smoke.",
    .size = 36,
    .frames = 100,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "density of the foam over the smoke's", "0.2", 1e-4, 1e4),
            EX_NUMBER("young", "Pa", "stiffness of the foam", "2", 1e-3, 1e6),
            JET_KEYS,
        },
};

int main(int argc, char **argv) {
    static jet j;
    static foam f;
    static const double lo[3] = {0.24, 0.42, 0.36};
    static const double hi[3] = {0.80, 0.52, 0.64};
    ex_args args;
    int n[3];
    int stable = 1;
    double bend = 0;
    double mean = 0;

    ex_begin(&args, argc, argv, &about);

    for (int k = 0; k < 3; k++) {
        n[k] = (int)((hi[k] - lo[k]) * args.size / 1.5 / 1.4 + 0.5);
        if (n[k] < 2)
            n[k] = 2;
    }

    f.monolithic = ex_is(&args, "scheme", "monolithic");
    if (!make_foam(&f, n, lo, hi, ex_number(&args, "mass_ratio"), ex_number(&args, "young")))
        return 1;
    if (!jet_make(&j, &args, 3, 0, 1, 3 * f.soft.desc.vertex_count))
        return 1;
    fsi_guest guest = fsi_soft_guest(&f.responder);
    fsi_world_add_guest(&j.w, &guest);
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        stable = jet_step(&j);
        if (args.out)
            jet_draw(&j, &args);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < f.soft.desc.vertex_count; i++)
        mean += f.soft.x[3 * i + 1] / f.soft.desc.vertex_count;

    for (int i = 0; i < f.soft.desc.vertex_count; i++)
        bend = fmax(bend, fabs(f.soft.x[3 * i + 1] - mean));

    ex_result("rise", "%.5f", mean - 0.5 * (lo[1] + hi[1]));
    ex_result("half_height", "%.5f", bend); /* 0.05 when flat */
    jet_results(&j);
    fsi_soft_responder_free(&f.responder);
    fsi_soft_free(&f.soft);
    return ex_end(&args, frame, stable);
}
