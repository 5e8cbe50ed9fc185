/* plank_jet: a light rigid plank is lifted and turned by a jet of smoke (Akbay et al. 2018, fig.
   4), by exchange between two solvers or by one solve.

       build/plank_jet --out out
       build/plank_jet --set scheme=monolithic   one solve for both
       build/plank_jet --set mass_ratio=0.001    lighter: harder
       build/plank_jet --set dim=2 --size 96

   Result: how far it rose, and how often both solvers were asked a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "jet.h"

static const ex_about about = {
    .name = "plank_jet",
    .what = "A light rigid plank in a jet of smoke.",
    .size = 48,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "density of the plank over the smoke's", "0.1", 1e-4, 1e4),
            EX_NUMBER("dim", "", "2 or 3", "3", 2, 3),
            JET_KEYS,
        },
};

int main(int argc, char **argv) {
    static jet j;

    ex_args args;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int dim = ex_whole(&args, "dim");
    if (!jet_make(&j, &args, dim, 1, 0, 6))
        return 1;

    fsi_shape_desc desc = {
        .kind = FSI_SHAPE_BOX,
        .dim = dim,
        .half = fsi_vec(0.28, 0.05, 0.1),
    };

    fsi_shape plank;
    ex_need(fsi_shape_init(&plank, &desc));

    fsi_rigid_desc given = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = &plank,
        .density = ex_number(&args, "mass_ratio"),
        /* off the middle: it turns */
        .x = fsi_vec(0.56, 0.45, dim == 3 ? 0.5 : 0),
    };

    int id;
    id = fsi_world_add(&j.w, &given);
    if (id < 0)
        return 1;
    int frame;

    for (frame = 0; frame < args.frames && stable; frame++) {
        stable = jet_step(&j);
        if (args.out)
            jet_draw(&j, &args);
        ex_progress(&args, frame);
    }

    ex_result("rise", "%.5f", j.w.solids.body[id].x.y - 0.45);
    jet_results(&j);
    fsi_shape_free(&plank);
    return ex_end(&args, frame, stable);
}
