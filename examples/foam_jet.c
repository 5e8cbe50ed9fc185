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

/* The block: its lower and upper corner, m. */
static const double lo[3] = {0.24, 0.42, 0.36}, hi[3] = {0.80, 0.52, 0.64};

/* Corner number corner (0 .. 7) of brick number brick, in a box of n[0] x n[1] x n[2] bricks. */
static int brick_corner(const int *n, int brick, int corner) {
    int i = brick % n[0] + (corner & 1);
    int j = brick / n[0] % n[1] + (corner >> 1 & 1);
    int k = brick / (n[0] * n[1]) + (corner >> 2);
    return i + (n[0] + 1) * (j + (n[1] + 1) * k);
}

/* The nodes of the bricks. */
static void place_nodes(const int *n, fsi_real *x) {
    int row = n[0] + 1;
    int layer = row * (n[1] + 1);
    for (int node = 0; node < layer * (n[2] + 1); node++) {
        const int at[3] = {node % row, node / row % (n[1] + 1), node / layer};
        for (int axis = 0; axis < 3; axis++)
            x[3 * node + axis] = lo[axis] + (hi[axis] - lo[axis]) * at[axis] / n[axis];
    }
}

/* Six tetrahedra a brick, all around its diagonal from corner 0 to corner 7. */
static void make_tets(const int *n, int32_t *tet) {
    static const int corners[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                      {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
    for (int brick = 0; brick < n[0] * n[1] * n[2]; brick++)
        for (int t = 0; t < 6; t++)
            for (int k = 0; k < 4; k++)
                *tet++ = brick_corner(n, brick, corners[t][k]);
}

/* Soft foam of n[0] x n[1] x n[2] bricks. */
static void make_foam(fsi_soft *foam, const int *n, const ex_args *args) {
    int bricks = n[0] * n[1] * n[2];
    int nodes = (n[0] + 1) * (n[1] + 1) * (n[2] + 1);
    fsi_real *x = (fsi_real *)ex_alloc((size_t)nodes, 3 * sizeof *x);
    int32_t *tet = (int32_t *)ex_alloc((size_t)bricks, 24 * sizeof *tet);
    place_nodes(n, x);
    make_tets(n, tet);

    /* In one solve the stiff part is implicit and split off; by exchange each call is implicit. */
    int monolithic = ex_is(args, "scheme", "monolithic");
    fsi_soft_desc desc = {
        .dim = 3,
        .vertex_count = nodes,
        .x = x,
        .tet_count = 6 * bricks,
        .tet = tet,
        .density = ex_number(args, "mass_ratio"),
        .young = ex_number(args, "young"),
        .poisson = 0.3,
        .damping_stiffness = 0.02,
        .integrator = monolithic ? FSI_SOFT_SPLIT : FSI_SOFT_IMPLICIT,
    };
    ex_need(fsi_soft_init(foam, &desc));
    free(x);
    free(tet);
}

static const ex_about about = {
    .name = "foam_jet",
    .what = "A light block of soft foam in a jet of smoke.",
    .size = 36,
    .frames = 100,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "density of the foam over the smoke's", "0.2",
                      "1e-4 to 1e4"),
            EX_NUMBER("young", "Pa", "stiffness of the foam", "2", "1e-3 to 1e6"),
            JET_KEYS,
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);

    /* Bricks of about 1.4 cells, at least two along each axis. */
    int n[3];
    for (int axis = 0; axis < 3; axis++)
        n[axis] = (int)fmax(2, (hi[axis] - lo[axis]) * args.size / 1.5 / 1.4 + 0.5);
    fsi_soft foam;
    make_foam(&foam, n, &args);
    int nodes = foam.desc.vertex_count;

    /* The foam is a guest of the world: a solid that is no rigid body. */
    static jet scene;
    fsi_soft_responder responder = {.soft = &foam};
    jet_make(&scene, &args, 3, 0, 1);
    fsi_guest guest = fsi_soft_guest(&responder);
    ex_need(fsi_world_add_guest(&scene.world, &guest));
    jet_couple(&scene, &args, 3 * nodes);

    int steps = jet_run(&args, &scene);

    /* Its mean height, and how far nodes are from it: 0.05 when the block is flat. */
    double mean = 0;
    double bend = 0;
    for (int i = 0; i < nodes; i++)
        mean += foam.x[3 * i + 1] / nodes;
    for (int i = 0; i < nodes; i++)
        bend = fmax(bend, fabs(foam.x[3 * i + 1] - mean));
    ex_result("rise", "%.5f", mean - 0.5 * (lo[1] + hi[1]));
    ex_result("half_height", "%.5f", bend);

    jet_end(&scene);
    fsi_soft_responder_free(&responder);
    fsi_soft_free(&foam);
    return ex_end(&args, steps, ex_fine());
}
