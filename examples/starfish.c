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
static form_body form = {.kind = FORM_STARFISH, .a = 0.13, .b = 0.035, .c = 0.045, .count = 5};
static const double level = 0.6; /* of the water, m */

/* Signed distance to the surface of the water, negative inside. */
static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - level;
}

/* A tank of 1 m x 1.25 m x 1 m, open above. */
static fsi_world_desc tank_of(const ex_args *args) {
    return (fsi_world_desc){
        .grid.nx = args->size,
        .grid.ny = args->size * 5 / 4,
        .grid.nz = args->size,
        .grid.h = 1.0 / args->size,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, -9.81, 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_guests = ex_whole(args, "bodies"),
        .damping = ex_number(args, "damping"),
    };
}

/* The model that many bodies share; without modes they are rigid. */
static void make_model(fsi_reduced_model *model, const fsi_mesh *mesh, int modes,
                       const ex_args *args) {
    fsi_reduced_desc desc = {
        .mesh = mesh,
        .modes = modes,
        .density = 1000 * ex_number(args, "density"),
        .young = ex_number(args, "young"),
        .poisson = 0.4,
        .damping_stiffness = 0.01,
        .samples = 90,
        .field = 24,
    };
    ex_need(fsi_reduced_model_init(model, &desc));
}

/* Starfish number i: layers of 3 x 3, each turned its own way; two stand side by side. */
static void add_starfish(fsi_world *world, const fsi_reduced_model *model, int i, int bodies) {
    int layer = i / 9;
    int place = i % 9;
    double shift = 0.19 + 0.02 * (layer % 2);
    fsi_vec3 at;
    at.x = shift + 0.3 * (place % 3);
    at.y = 0.35 + 0.14 * layer;
    at.z = shift + 0.3 * (place / 3);
    fsi_quat turn = swarm_turn(0.4 * sin(i * 2.3), i * 0.7, 0.4 * cos(i * 1.7));
    if (bodies == 2) {
        at = fsi_vec(i ? 0.25 : 0.75, 0.7, 0.5);
        turn = swarm_turn(1.1, 0.2, 0.3);
    }
    int added = swarm_add(&s, world, model, at, turn) && swarm_group(&s, 1, NULL, 0, NULL);
    if (!added)
        ex_die("starfish: no room for body %d", i);
}

/* Speeds of the centres of mass, m/s. */
typedef struct speeds {
    double most;
    double mean;
} speeds;

static speeds measure_speeds(void) {
    speeds now = {0};
    for (int i = 0; i < s.bodies; i++) {
        const fsi_reduced *body = &s.body[i];
        double speed = fsi_vec_length(body->rigid->momentum) / body->model->mass;
        now.most = fmax(now.most, speed);
        now.mean += speed / s.bodies;
    }
    return now;
}

static double lowest_point(void) {
    double lowest = 1e9;
    for (int i = 0; i < s.bodies; i++) {
        const fsi_reduced_model *model = s.body[i].model;
        for (int k = 0; k < model->surface_count; k++)
            lowest = fmin(lowest, fsi_reduced_point(&s.body[i], model->surface[k]).y);
    }
    return lowest;
}

/* ---- pictures: soft ones red, rigid ones grey */
static ex_color color(const swarm *q, int i) {
    int shade = i * 37 % 50;
    if (q->body[i].model->modes > 0)
        return ex_rgb(235 - shade, 90 + shade, 60);
    return ex_rgb(100 + shade, 105 + shade, 120 + shade);
}

static swarm_view view_of(int bodies) {
    swarm_view view = {
        .width = 640,
        .height = 520,
        .camera = ex_camera_make(0.5, 1.5, 2.4, 0.5, 0.45, 0.5, 1, 38),
        .back = ex_rgb(245, 248, 250),
        .edge = ex_rgb(110, 110, 110),
        .color_fn = color,
        .tile = 0.125,
        .water = 0.8,
    };
    if (bodies == 2)
        view.camera = ex_camera_make(0.5, 0.8, 2.2, 0.5, 0.4, 0.5, 1, 36);
    return view;
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
    ex_begin(&args, argc, argv, &about);
    int bodies = ex_whole(&args, "bodies");
    double dt = ex_number(&args, "dt");
    double rigid_share = ex_number(&args, "rigid");

    fsi_world_desc desc = tank_of(&args);
    fsi_world world;
    ex_need(fsi_world_init(&world, &desc));
    ex_need(fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, NULL));
    ex_need(fsi_grid_classify(&world.grid));

    /* One mesh, a soft and a rigid model of it, and all bodies as copies of the two. */
    fsi_mesh mesh;
    fsi_reduced_model soft;
    fsi_reduced_model rigid;
    if (!swarm_mesh(&mesh, &form, fsi_vec(0.15, 0.04, 0.15), ex_whole(&args, "tets")))
        ex_die("starfish: no mesh");
    make_model(&soft, &mesh, ex_whole(&args, "modes"), &args);
    make_model(&rigid, &mesh, 0, &args);
    for (int i = 0; i < bodies; i++) {
        int is_rigid = (int)((i + 1) * rigid_share) > (int)(i * rigid_share);
        add_starfish(&world, is_rigid ? &rigid : &soft, i, bodies);
    }
    s.damping = desc.damping;
    s.contacts.friction = 0.3;
    s.contacts.slop = 0.1 * world.grid.h;
    s.contacts.iterations = 100;
    printf("damping=%g 1/s on bodies and fluid, %d tetrahedra each\n", desc.damping,
           mesh.tet_count);

    swarm_view view = view_of(bodies);
    double iterations = 0;
    double peak_speed = 0;
    double overlap = 0;
    speeds last = {0};
    int steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        for (int i = 0; i < 2 && ex_fine(); i++) {
            fsi_report report = {0};
            ex_try(fsi_world_step(&world, dt, &report));
            iterations += report.iterations;
            last = measure_speeds();
            peak_speed = fmax(peak_speed, last.most);
            overlap = fmax(overlap, s.contacts.depth);
            steps++;
        }
        if (args.out)
            swarm_draw(&args, &s, &view);
        ex_progress(&args, frame);
    }

    ex_result("peak_speed", "%.4f", peak_speed);
    ex_result("end_speed", "%.4f", last.most);
    ex_result("end_speed_mean", "%.4f", last.mean);
    ex_result("at_rest", "%d", last.most < 0.05 && last.mean < 0.01);

    /* The largest anywhere, also in the last pockets between the bodies. */
    ex_result("water_speed", "%.3f", world.grid.stats.max_speed);
    ex_result("overlap_cells", "%.3f", overlap / world.grid.h);
    ex_result("below_floor_cells", "%.3f", fmax(0, -lowest_point() / world.grid.h));
    ex_result("contacts", "%d", s.contacts.count);

    /* Mean depth of the lowest points under the level of the start. */
    ex_result("depth", "%.4f", swarm_depth(&s, level, form.a));
    swarm_results(&s, 2 * form.a);

    /* Memory is measured in scenes of their own, whose time is not this one's. */
    double begin = ex_now();
    swarm_memory(&desc, &soft, water, NULL);
    args.begin += ex_now() - begin;

    ex_result("iterations", "%.2f", iterations / (steps ? steps : 1));
    swarm_free(&s);
    fsi_reduced_model_free(&soft);
    fsi_reduced_model_free(&rigid);
    fsi_mesh_free(&mesh);
    fsi_world_free(&world);
    return ex_end(&args, steps, ex_fine());
}
