/* raft: a light rigid raft with a soft flag of tetrahedra clamped to it floats in a fluid of
   particles: three couplings in one step. The raft meets the fluid through its boundary particles,
   the flag through proxy particles, and both meet in the clamp.

       build/raft --out out
       build/raft --set young=1e6    a stiffer flag

   The scene: a tank of 1.2 m x 1 m x 0.6 m with 0.3 m of fluid, the raft above it, the flag, the
   clamp between both, and the two couplings with the fluid. step() shows their order. swim.h holds
   the tank.

   Result: height of the raft, and how far the clamp comes apart. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "swim.h"

static const double flag_left = 0.54, flag_bottom = 0.43, clamped_to = 0.58; /* m */

typedef struct scene {
    swim tank;            /* fluid and raft */
    fsi_mesh mesh;        /* of the flag at rest */
    fsi_tled flag;        /* its elastic body */
    fsi_clamp clamp;      /* raft and flag */
    fsi_proxy_solid soft; /* flag and fluid */
    fsi_proxy proxy;
    fsi_bvh tree; /* of the flag's surface, to find particles inside it */
    long penetrations;
    double gap; /* of the clamp, m */
    double sag; /* of the flag, m */
} scene;

/* An empty tank. */
static void make_tank(swim *tank, const ex_args *args) {
    int n = args->size;
    fsi_sph_desc fluid = {
        .capacity = 4 * n * n * n,
        .boundary_capacity = 80 * n * n + 4000,
        .spacing = 1.2 / (2 * n),
        .viscosity = 1,
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
        .dt_max = ex_number(args, "dt"),
    };
    swim_begin(tank, fluid, fsi_vec(1.2, 1, 0.6), 0);
}

/* The raft, with boundary particles half a spacing inside its surface. */
static void add_raft(swim *tank, double density) {
    fsi_shape_desc box = {
        .kind = FSI_SHAPE_BOX,
        .half = fsi_vec(0.16, 0.06, 0.14),
    };
    ex_need(fsi_shape_init(&tank->shape[0], &box));
    fsi_rigid_desc raft = {
        .density = 1000 * density,
        .x = fsi_vec(0.4, 0.42, 0.3),
    };

    double inwards = tank->sph.desc.spacing / 2;
    fsi_vec3 half = fsi_vec_sub(box.half, fsi_vec(inwards, inwards, inwards));
    fsi_vec3 lower = fsi_vec_sub(raft.x, half);
    fsi_vec3 upper = fsi_vec_add(raft.x, half);
    fsi_mesh mesh;
    ex_need(fsi_mesh_box(&mesh, lower, upper, 4, 2, 4, 0, NULL));
    fsi_surface skin = fsi_mesh_surface(&mesh);
    swim_add(tank, raft, &skin);
    fsi_mesh_free(&mesh);
}

/* The flag: a thin plate of tetrahedra, one end of it inside the raft. */
static void make_flag(scene *s, double young) {
    fsi_mesh *mesh = &s->mesh;
    fsi_vec3 lower = fsi_vec(flag_left, flag_bottom, 0.2);
    fsi_vec3 upper = fsi_vec(1.04, 0.46, 0.4);
    ex_need(fsi_mesh_box(mesh, lower, upper, 15, 1, 6, 0, NULL));
    fsi_tled_desc desc = {
        .nodes = mesh->vertex_count,
        .tets = mesh->tet_count,
        .x = mesh->x,
        .tet = mesh->tet,
        .density = 400,
        .young = young,
        .poisson = 0.3,
        .damping = 2,
        .gravity = s->tank.sph.desc.gravity,
    };
    ex_need(fsi_tled_init(&s->flag, &desc));
    ex_need(fsi_bvh_init(&s->tree, s->flag.triangles, NULL));
}

/* Ties the flag's end to the raft. */
static void make_clamp(scene *s) {
    fsi_tled *flag = &s->flag;
    int32_t *node = (int32_t *)ex_alloc((size_t)flag->nodes, sizeof *node);
    int held = 0;
    for (int i = 0; i < flag->nodes; i++)
        if (flag->x[3 * i] < clamped_to)
            node[held++] = i;
    swim *tank = &s->tank;
    int raft = tank->body[0];
    ex_need(fsi_clamp_init(&s->clamp, flag, &tank->solids, raft, node, held, NULL));
    free(node);
}

/* The flag collides with the fluid. */
static void make_proxy(scene *s, const ex_args *args) {
    s->soft = (fsi_proxy_solid){
        .tled = &s->flag,
        .restitution = ex_number(args, "restitution"),
        .slip = ex_number(args, "slip"),
    };
    fsi_proxy_desc desc = {
        .sph = &s->tank.sph,
        .solid = &s->soft,
        .count = 1,
    };
    ex_need(fsi_proxy_init(&s->proxy, &desc));
}

/* All of it, in the order in which the parts need one another. */
static void make_scene(scene *s, const ex_args *args) {
    swim *tank = &s->tank;
    make_tank(tank, args);
    swim_fill(tank, 0, 0.3, 0, 0);
    add_raft(tank, ex_number(args, "density"));
    make_flag(s, ex_number(args, "young"));
    make_clamp(s);
    fsi_sph_rigid_desc coupling = {
        .tolerance = ex_number(args, "tolerance"),
    };
    swim_couple(tank, coupling);
    make_proxy(s, args);
}

/* One step of everything. */
static void step(scene *s, double dt) {
    swim *tank = &s->tank;

    /* The particles are sorted here: their order must not change between collide and correct. */
    ex_try(fsi_sph_prepare(&tank->sph, dt));

    /* Fluid hits the flag; the flag moves and pulls at the raft; fluid and raft move. */
    ex_try(fsi_proxy_collide(&s->proxy, dt));
    ex_try(fsi_clamp_advance(dt, &s->clamp));
    swim_step(tank, dt);

    /* No particle stays in the flag. */
    ex_try(fsi_proxy_correct(&s->proxy));
    tank->stable = tank->stable && ex_fine();
}

/* ---- results */
/* How far clamped node i is from its place on the raft, m. */
static double clamp_gap(const scene *s, int i) {
    const fsi_rigid *raft = &s->tank.solids.body[s->tank.body[0]];
    fsi_vec3 local = fsi_vec_load(s->clamp.local + 3 * i);
    fsi_vec3 place = fsi_vec_add(raft->x, fsi_quat_rotate(raft->q, local));
    fsi_vec3 node = fsi_vec_load(s->flag.x + 3 * s->clamp.node[i]);
    return fsi_vec_length(fsi_vec_sub(node, place));
}

/* After a frame: particles inside the flag, the clamp, and how far the flag hangs down. */
static void measure(scene *s) {
    const fsi_tled *flag = &s->flag;
    const fsi_sph *sph = &s->tank.sph;
    fsi_surface skin = fsi_tled_surface(flag);
    ex_need(fsi_bvh_build(&s->tree, &skin));
    for (int i = 0; i < sph->now.count; i++) {
        fsi_vec3 point = water_point(sph, i);
        s->penetrations += fsi_bvh_inside(&s->tree, point);
    }

    for (int i = 0; i < s->clamp.count; i++) {
        double gap = clamp_gap(s, i);
        s->gap = fmax(s->gap, gap);
    }

    for (int i = 0; i < flag->nodes; i++) {
        double height = flag->x[3 * i + 1];
        s->sag = fmax(s->sag, flag_bottom - height);
    }
}

static void print_results(const scene *s) {
    const swim *tank = &s->tank;
    ex_result("particles", "%d", tank->particles);
    ex_result("tets", "%d", s->mesh.tet_count);
    ex_result("mean_iterations", "%.3f", swim_mean_iterations(tank));
    ex_result("capped", "%d", tank->capped);
    ex_result("penetrations", "%ld", s->penetrations);
    ex_result("skipped", "%ld", (long)s->proxy.stats.all_skipped);
    ex_result("contacts", "%ld", (long)s->proxy.stats.all_contacts);
    ex_result("max_density_ratio", "%.4f", tank->density);
    ex_result("clamp_gap", "%.6f", s->gap);
    ex_result("sag", "%.4f", s->sag);
    ex_result("height", "%.4f", swim_position(tank, 0).y);
    ex_result("lost", "%ld", swim_lost(tank));
    ex_result("momentum_error", "%.3g", tank->momentum);
}

/* ---- pictures */
static void draw(ex_args *args, const scene *s) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1.1, 1.05, 2.1, 0.62, 0.3, 0.3, 1, 33);
    double lo[3] = {0, 0, 0};
    double hi[3] = {1.2, 0.8, 0.6};
    double floor_lo[3] = {-0.8, 0, -0.8};
    double floor_hi[3] = {2, 0, 1.4};
    fsi_surface flag = fsi_tled_surface(&s->flag);

    ex_floor(&image, &camera, floor_lo, floor_hi, 1, -0.003, 0.2);
    swim_draw_body(&image, &camera, &s->tank, 0, ex_rgb(200, 150, 90));
    ex_draw_surface3(&image, &camera, &flag, ex_rgb(200, 60, 90));
    water_draw(&image, &camera, &s->tank.sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(110));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static void free_scene(scene *s) {
    fsi_bvh_free(&s->tree);
    fsi_proxy_free(&s->proxy);
    fsi_clamp_free(&s->clamp);
    swim_end(&s->tank);
    fsi_tled_free(&s->flag);
    fsi_mesh_free(&s->mesh);
}

static const ex_about about = {
    .name = "raft",
    .what = "A soft part clamped to a floating raft.",
    .size = 20,
    .frames = 50,
    .keys =
        {
            EX_NUMBER("density", "", "raft over fluid", "0.3", "0.02 to 1"),
            EX_NUMBER("young", "Pa", "Young's modulus of the soft part", "1e5", "1e4 to 1e8"),
            EX_NUMBER("tolerance", "", "of the raft's motion, over the particle radius", "0.05",
                      "1e-6 to 10"),
            EX_NUMBER("restitution", "", "e of the collisions", "0", "0 to 1"),
            EX_NUMBER("slip", "", "delta: 0 no slip, 1 free slip", "1", "0 to 1"),
            EX_NUMBER("dt", "s", "largest step", "0.001", "1e-5 to 0.02"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    ex_begin(&args, argc, argv, &about);
    static scene s;
    swim *tank = &s.tank;
    make_scene(&s, &args);

    for (int frame = 0; frame < args.frames && tank->stable; frame++) {
        double end = tank->time + 0.03;
        while (swim_before(tank, end)) {
            double dt = swim_dt(tank, end);
            step(&s, dt);
        }

        measure(&s);
        if (args.out)
            draw(&args, &s);
        ex_progress(&args, frame);
    }

    print_results(&s);
    free_scene(&s);
    return ex_end(&args, tank->steps, tank->stable);
}
