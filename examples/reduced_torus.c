/* reduced_torus: soft tori fall into a pool (Lu et al. 2016, fig. 4, 6, 7), and what a step costs
   with few and many tetrahedra (fig. 11). All tori are copies of one model.

       build/reduced_torus --out out
       build/reduced_torus --set bodies=8
       build/reduced_torus --frames 3 --set compare=1   fig. 11: many tetrahedra, full ones

   Result: seconds of each part of a step. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swarm.h"

typedef struct scene {
    swarm s;
    fsi_world w;
    fsi_mesh mesh;
    fsi_reduced_model model;
    swarm_hide hide;
    double level;
    double seconds;
    double iterations;
    int steps;
} scene;

static scene few, many, alone, reduced;

/* processor time: what else the machine does is left out */
static double cpu(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static const double R = 0.085, TUBE = 0.035;

static fsi_real water(fsi_vec3 x, void *user) {
    return x.y - *(double *)user;
}

static ex_color color(const swarm *q, int i) {
    (void)q;
    return ex_map(0, 0.25 + 0.6 * (i * 7 % 10) / 9.0);
}

/* layers of 3 x 3 above the water, shifted against each other */
static fsi_vec3 place(int i) {
    int layer = i / 9;
    int k = i % 9;
    return fsi_vec(0.2 + 0.28 * (k % 3) + 0.04 * (layer % 2), 0.42 + 0.1 * layer,
                   0.2 + 0.28 * (k / 3) - 0.04 * (layer % 2));
}

static int make_mesh(fsi_mesh *mesh, int tets) {
    form_body form = {FORM_TORUS, 0, 0, 0, 0, {0, 0, 0}};
    form.a = R;
    form.b = TUBE;
    return swarm_mesh(mesh, &form, fsi_vec(R + TUBE, TUBE, R + TUBE), tets);
}

static int make_world(fsi_world *world, const ex_args *args, int guests, double *level) {
    fsi_world_desc desc = {
        .grid.nx = args->size,
        .grid.nz = args->size,
        .grid.ny = args->size * 5 / 4,
        .grid.h = 1.0 / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = guests,
    };

    if (fsi_world_init(world, &desc) != FSI_OK)
        return 0;
    fsi_grid_set_field(&world->grid, FSI_FIELD_PHI, water, level);
    return fsi_grid_classify(&world->grid) >= 0;
}

static int open_scene(scene *q, ex_args *args, int tets, int bodies) {
    q->level = 0.35;
    if (!make_world(&q->w, args, bodies, &q->level))
        return 0;
    if (bodies && !make_mesh(&q->mesh, tets))
        return 0;

    fsi_reduced_desc desc = {
        .mesh = &q->mesh,
        .modes = ex_whole(args, "modes"),
        .density = 1000 * ex_number(args, "density"),
        .young = 3e4,
        .poisson = 0.4,
        .damping_stiffness = 0.005,
        .samples = 80,
        .field = 20,
    };

    if (bodies
        && (fsi_reduced_model_init(&q->model, &desc) != FSI_OK
            || (ex_number(args, "skin") > 0 && !swarm_skin_model(&q->hide, &q->model))))
        return 0;

    for (int i = 0; i < bodies; i++)
        if (!swarm_add(&q->s, &q->w, &q->model, place(i),
                       swarm_turn(0.5 * sin(i * 2.0), 0, 0.5 * cos(i * 3.0)))
            || !swarm_group(&q->s, 1, NULL, 0, q->hide.skin.terms ? &q->hide.skin : NULL))
            return 0;
    return 1;
}

/* One step; set-up and the first step do not count. */
static int step(scene *q, ex_args *args) {
    fsi_report report;
    double begin = cpu();
    fsi_result rc = ex_try(fsi_world_step(&q->w, ex_number(args, "dt"), &report));
    if (rc < 0) {
        fprintf(stderr, "step %d: %s\n", q->steps, fsi_result_text(rc));
        return 0;
    }

    if (q->steps++)
        q->seconds += cpu() - begin;
    else
        q->s.solid_seconds = 0;
    q->iterations += report.iterations;
    return 1;
}

static double cost(const scene *q) {
    return q->seconds / fmax(1, q->steps - 1);
}

static void close_scene(scene *q) {
    swarm_free(&q->s);
    swarm_skin_free(&q->hide);
    fsi_reduced_model_free(&q->model);
    fsi_mesh_free(&q->mesh);
    fsi_world_free(&q->w);
}

/* The same with fully deformable tori (nodal, implicit forces in the coupled solve). */
typedef struct soft_door {
    fsi_soft soft;
    fsi_coupled door;
    fsi_obstacle wall;
} soft_door;

static fsi_result soft_begin(fsi_real dt, void *user) {
    soft_door *q = (soft_door *)user;
    fsi_result result = fsi_soft_forces(&q->soft, dt);
    if (result >= 0)
        fsi_soft_couple(&q->soft, &q->door);
    return result;
}

static fsi_result soft_move(fsi_real dt, void *user) {
    soft_door *q = (soft_door *)user;
    fsi_result result = fsi_soft_take(&q->soft);
    if (result >= 0)
        result = fsi_soft_contact(&q->soft, &q->wall, 1, dt, NULL);
    return result < 0 ? result : fsi_soft_move(&q->soft, dt);
}

static double run_full(ex_args *args, int tets, int bodies, int steps, double *iterations) {
    fsi_world world;
    fsi_mesh mesh;
    double level = 0.35;
    double begin = 0;
    double seconds = 0;
    soft_door *q = (soft_door *)calloc((size_t)bodies, sizeof *q);
    if (!make_world(&world, args, bodies, &level) || !make_mesh(&mesh, tets))
        return 0;

    for (int i = 0; i < bodies; i++) {
        fsi_soft_desc desc = {
            .dim = 3,
            .vertex_count = mesh.vertex_count,
            .x = mesh.x,
            .tet = mesh.tet,
            .tet_count = mesh.tet_count,
            .density = 1000 * ex_number(args, "density"),
            .young = 3e4,
            .poisson = 0.4,
            .damping_stiffness = 0.005,
            .integrator = FSI_SOFT_SPLIT,
            .gravity = fsi_vec(0, -9.81, 0),
        };

        if (fsi_soft_init(&q[i].soft, &desc) != FSI_OK)
            return 0;
        for (int v = 0; v < desc.vertex_count; v++)
            fsi_vec_store(q[i].soft.x + 3 * v,
                          fsi_vec_add(fsi_vec_load(q[i].soft.x + 3 * v), place(i)));
        q[i].wall.distance_fn = swarm_box;
        q[i].wall.user = &world.grid;
        fsi_guest guest = {
            .door = &q[i].door,
            .stages = {.begin_fn = soft_begin, .move_fn = soft_move, .user = &q[i]},
        };

        fsi_world_add_guest(&world, &guest);
    }

    int k;

    for (*iterations = 0, k = 0; k < steps; k++) {
        fsi_report report;
        fsi_result rc = ex_try(fsi_world_step(&world, ex_number(args, "dt"), &report));
        if (rc < 0) {
            fprintf(stderr, "deformable step %d: %s\n", k, fsi_result_text(rc));
            break;
        }

        if (k == 0)
            begin = cpu();
        *iterations += (double)report.iterations / steps;
        seconds = (cpu() - begin) / (k ? k : 1);
    }

    for (int i = 0; i < bodies; i++)
        fsi_soft_free(&q[i].soft);
    free(q);
    fsi_mesh_free(&mesh);
    fsi_world_free(&world);
    return seconds;
}

static const ex_about about = {
    .name = "reduced_torus",
    .what = "Soft tori fall into a pool; cost against the number of tetrahedra.",
    .size = 40,
    .frames = 80,
    .keys =
        {
            EX_NUMBER("bodies", "", "tori; 0 = the water alone", "9", "0 to 200"),
            EX_NUMBER("modes", "", "per torus", "10", "0 to 40"),
            EX_NUMBER("tets", "", "tetrahedra per torus, about", "1000", "100 to 100000"),
            EX_NUMBER("density", "", "over the water's", "0.7", "1e-4 to 100"),
            EX_NUMBER("dt", "s", "time step", "0.008", "1e-5 to 0.1"),
            EX_NUMBER("compare", "",
                      "1: cost with tets and tets_many, reduced and fully deformable", "0",
                      "0 to 1"),
            EX_NUMBER("tets_many", "", "for compare", "8000", "100 to 200000"),
            EX_NUMBER("full_bodies", "", "fully deformable tori for compare", "2", "1 to 50"),
            EX_NUMBER("skin", "",
                      "1: the fluid sees a skin whose size does not depend on the tetrahedra; "
                      "0: the mesh's own "
                      "surface",
                      "1", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    swarm_view view = {
        640,  480, {{0}, {0}, {0}, {0}, 0}, {245, 248, 250}, {110, 110, 110}, color, 0.125, 0.6,
        NULL, 0};
    view.camera = ex_camera_make(0.5, 1.55, 2.3, 0.5, 0.4, 0.5, 1, 40);
    ex_args args;

    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    int compare = ex_number(&args, "compare") > 0;
    int ok = open_scene(&few, &args, ex_whole(&args, "tets"), bodies);
    if (compare)
        ok = ok && open_scene(&many, &args, ex_whole(&args, "tets_many"), bodies)
             && open_scene(&alone, &args, 0, 0);
    int k;

    for (int frame = 0; frame < args.frames && ok; frame++) {
        /* in turn: both see the same machine */
        for (k = 0; k < 2 && ok; k++)
            ok = step(&few, &args) && (!compare || (step(&many, &args) && step(&alone, &args)));
        if (args.out)
            swarm_draw(&args, &few.s, &view);
        ex_progress(&args, frame);
    }

    /* of the lowest points under the first level, over the tube's radius, mean */
    ex_result("depth", "%.4f", swarm_depth(&few.s, few.level, TUBE));
    swarm_results(&few.s, 2 * (R + TUBE));
    ex_result("tets", "%d", few.mesh.tet_count);

    /* processor time per step, set-up excluded */
    ex_result("seconds_few", "%.5f", cost(&few));

    /* the bodies' own stages among them */
    ex_result("seconds_few_bodies", "%.5f", few.s.solid_seconds / fmax(1, few.steps - 1));
    if (compare && ok) {
        double full[2];
        int n = ex_whole(&args, "full_bodies");
        ex_result("tets_many", "%d", many.mesh.tet_count);
        ex_result("seconds_many", "%.5f", cost(&many));
        ex_result("seconds_many_bodies", "%.5f", many.s.solid_seconds / fmax(1, many.steps - 1));
        ex_result("ratio", "%.3f", cost(&many) / cost(&few));
        ex_result("seconds_water", "%.5f", cost(&alone));
        ex_result("iterations_water", "%.2f", alone.iterations / alone.steps);
        if (open_scene(&reduced, &args, ex_whole(&args, "tets"), n))
            for (k = 0; k < 5; k++)
                step(&reduced, &args);
        double its;
        full[0] = run_full(&args, ex_whole(&args, "tets"), n, 5, &its);
        full[1] = run_full(&args, ex_whole(&args, "tets_many"), n, 5, &its);
        ex_result("seconds_reduced_full_bodies", "%.5f", cost(&reduced));
        ex_result("seconds_deformable_few", "%.5f", full[0]);
        ex_result("seconds_deformable_many", "%.5f", full[1]);
        ex_result("ratio_deformable", "%.3f", full[0] > 0 ? full[1] / full[0] : 0);
    }

    ex_result("iterations", "%.2f", few.iterations / fmax(1, few.steps));
    k = few.steps;
    close_scene(&few);
    close_scene(&many);
    close_scene(&alone);
    close_scene(&reduced);
    return ex_end(&args, k, ok);
}
