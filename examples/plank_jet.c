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

/* A plank over the jet, a little off its middle: it turns. Returns its id. */
static int add_plank(fsi_world *world, fsi_shape *shape, double density) {
    int dim = world->grid.dim;
    fsi_shape_desc box = {
        .kind = FSI_SHAPE_BOX,
        .dim = dim,
        .half = fsi_vec(0.28, 0.05, 0.1),
    };
    ex_need(fsi_shape_init(shape, &box));
    fsi_rigid_desc plank = {
        .kind = FSI_RIGID_DYNAMIC,
        .shape = shape,
        .density = density,
        .x = fsi_vec(0.56, 0.45, dim == 3 ? 0.5 : 0),
    };
    return ex_need(fsi_world_add(world, &plank));
}

static const ex_about about = {
    .name = "plank_jet",
    .what = "A light rigid plank in a jet of smoke.",
    .size = 48,
    .frames = 120,
    .keys =
        {
            EX_NUMBER("mass_ratio", "", "density of the plank over the smoke's", "0.1",
                      "1e-4 to 1e4"),
            EX_NUMBER("dim", "", "2 or 3", "3", "2 to 3"),
            JET_KEYS,
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);

    static jet scene;
    fsi_shape shape;
    jet_make(&scene, &args, ex_whole(&args, "dim"), 1, 0);
    int id = add_plank(&scene.world, &shape, ex_number(&args, "mass_ratio"));
    jet_couple(&scene, &args, 6);

    int steps = jet_run(&args, &scene);
    ex_result("rise", "%.5f", fsi_world_position(&scene.world, id).y - 0.45);
    jet_end(&scene);
    fsi_shape_free(&shape);
    return ex_end(&args, steps, ex_fine());
}
