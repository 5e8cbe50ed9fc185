/* starfish: a heap of starfish sinks through water, rigid ones beside soft ones (Lu et al. 2016,
   fig. 2, 3, 10). All are copies of two models, with modes and without.

       build/starfish --out out
       build/starfish --set bodies=2                          one of each side by side (fig. 3)
       build/starfish --frames 450 --set bodies=150 --set damping=2   fig. 10, at rest in the end

   Result: bytes_per_body is the state of one; bytes_per_body_all is all that one more of them
   needs but for what goes with its coupling sides, which is bytes_per_side. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swarm.h"

static swarm s;

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - *(double *)user;
}

static ex_color color(const swarm *q, int i) { /* soft ones red, rigid ones grey */
    int k = i * 37 % 50;
    return q->body[i].model->modes ? ex_rgb(235 - k, 90 + k, 60)
                                   : ex_rgb(100 + k, 105 + k, 120 + k);
}

static double fastest(double *mean) { /* of the centres of mass, m/s */
    double most = 0;
    int i;

    for (*mean = 0, i = 0; i < s.bodies; i++) {
        double v = fsi_vec_length(s.body[i].rigid->momentum) / s.body[i].model->mass;
        most = fmax(most, v);
        *mean += v / s.bodies;
    }

    return most;
}

static const ex_about about = {
    .name = "starfish",
    .what = "A heap of starfish, rigid ones beside soft ones, sinks through water.",
    .size = 24,
    .frames = 80,
    .keys =
        {
            EX_NUMBER("bodies", "", "starfish", "18", "1 to 200"),
            EX_NUMBER("modes", "", "of the soft ones", "8", "1 to 30"),
            EX_NUMBER("tets", "", "tetrahedra each, about", "400", "100 to 50000"),
            EX_NUMBER("rigid", "", "share without modes", "0.5", "0 to 1"),
            EX_NUMBER("density", "", "over the water's", "1.6", "1e-4 to 20"),
            EX_NUMBER("young", "Pa", "stiffness", "3e4", "100 to 1e9"),
            EX_NUMBER("damping", "1/s", "on bodies and fluid", "0.5", "0 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.01", "1e-4 to 0.05"),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    form_body form = {FORM_STARFISH, 0.13, 0.035, 0.045, 5, {0, 0, 0}};
    fsi_reduced_model model[2];
    double total = 0;
    double peak = 0;
    double last = 0;
    double mean = 0;
    double deepest = 0;
    double low = 1e9;

    swarm_view view = {
        640,  520, {{0}, {0}, {0}, {0}, 0}, {245, 248, 250}, {110, 110, 110}, color, 0.125, 0.8,
        NULL, 0};
    int steps = 0;
    int stable = 1;

    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");
    double share = ex_number(&args, "rigid");

    fsi_world_desc desc = {
        .grid.nx = args.size,
        .grid.nz = args.size,
        .grid.ny = args.size * 5 / 4,
        .grid.h = 1.0 / args.size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.volume_correction = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = bodies,
        .damping = ex_number(&args, "damping"),
    };

    double level = 0.6;

    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));
    fsi_mesh mesh;
    if (!swarm_mesh(&mesh, &form, fsi_vec(0.15, 0.04, 0.15), ex_whole(&args, "tets")))
        return 1;

    for (int i = 0; i < 2; i++) {
        fsi_reduced_desc given = {
            .mesh = &mesh,
            .modes = i ? 0 : ex_whole(&args, "modes"),
            .density = 1000 * ex_number(&args, "density"),
            .young = ex_number(&args, "young"),
            .poisson = 0.4,
            .damping_stiffness = 0.01,
            .samples = 90,
            .field = 24,
        };

        ex_need(fsi_reduced_model_init(&model[i], &given));
    }

    for (int i = 0; i < bodies; i++) { /* layers of 3 x 3 */
        int layer = i / 9;
        int q = i % 9;
        int hard = (int)((i + 1) * share) > (int)(i * share);
        fsi_vec3 T = fsi_vec(0.19 + 0.3 * (q % 3) + 0.02 * (layer % 2), 0.35 + 0.14 * layer,
                             0.19 + 0.3 * (q / 3) + 0.02 * (layer % 2));
        fsi_quat turn = swarm_turn(0.4 * sin(i * 2.3), i * 0.7, 0.4 * cos(i * 1.7));
        if (bodies == 2) {
            T = fsi_vec(i ? 0.25 : 0.75, 0.7, 0.5);
            turn = swarm_turn(1.1, 0.2, 0.3);
        }

        if (!swarm_add(&s, &world, &model[hard], T, turn) || !swarm_group(&s, 1, NULL, 0, NULL))
            return 1;
    }

    view.camera = bodies == 2 ? ex_camera_make(0.5, 0.8, 2.2, 0.5, 0.4, 0.5, 1, 36)
                              : ex_camera_make(0.5, 1.5, 2.4, 0.5, 0.45, 0.5, 1, 38);
    s.damping = desc.damping;
    s.contacts.friction = 0.3;
    s.contacts.slop = 0.1 * world.grid.h;
    s.contacts.iterations = 100;
    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, &level);
    fsi_grid_classify(&world.grid);
    printf("damping=%g 1/s on bodies and fluid, %d tetrahedra each\n", desc.damping,
           mesh.tet_count);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        for (int i = 0; i < 2 && stable; i++, steps++) {
            fsi_report report;
            stable = ex_try(fsi_world_step(&world, dt, &report)) >= 0;
            total += report.iterations;
            peak = fmax(peak, last = fastest(&mean));
            deepest = fmax(deepest, s.contacts.depth);
        }

        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < bodies; i++)
        for (int k = 0; k < s.body[i].model->surface_count; k++)
            low = fmin(low, fsi_reduced_point(&s.body[i], s.body[i].model->surface[k]).y);

    ex_result("peak_speed", "%.4f", peak);
    ex_result("end_speed", "%.4f", last); /* of the fastest one, m/s */
    ex_result("end_speed_mean", "%.4f", mean);
    ex_result("at_rest", "%d", last < 0.05 && mean < 0.01);

    /* largest anywhere, also in the last pockets between the bodies */
    ex_result("water_speed", "%.3f", world.grid.stats.max_speed);
    ex_result("overlap_cells", "%.3f", deepest / world.grid.h); /* deepest contact met */
    ex_result("below_floor_cells", "%.3f", fmax(0, -low / world.grid.h));
    ex_result("contacts", "%d", s.contacts.count);

    /* mean, of the lowest points under the level of the start */
    ex_result("depth", "%.4f", swarm_depth(&s, level, form.a));
    swarm_results(&s, 2 * form.a);
    double begin = ex_now();
    swarm_memory(&desc, &model[0], water, &level);
    args.begin += ex_now() - begin; /* not the scene's time */

    ex_result("iterations", "%.2f", total / (steps ? steps : 1));
    swarm_free(&s);

    for (int i = 0; i < 2; i++)
        fsi_reduced_model_free(&model[i]);
    fsi_mesh_free(&mesh);
    fsi_world_free(&world);
    return ex_end(&args, steps, stable);
}
