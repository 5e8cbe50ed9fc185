/* raft: a light rigid raft with a soft flag of tetrahedra clamped to it floats in a fluid of
   particles: three couplings in one step. The raft meets the fluid through its boundary particles,
   the flag through proxy particles, and both meet in the clamp.

       build/raft --out out

   Result: height of the raft, and how far the clamp comes apart. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"

static void draw(ex_args *args, const fsi_sph *sph, const fsi_solids *solids, int body,
                 const fsi_tled *tled) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1.1, 1.05, 2.1, 0.62, 0.3, 0.3, 1, 33);
    double lo[3] = {0, 0, 0};
    double hi[3] = {1.2, 0.8, 0.6};
    double flo[3] = {-0.8, 0, -0.8};
    double fhi[3] = {2, 0, 1.4};
    fsi_surface surface = fsi_tled_surface(tled);
    fsi_real *x = (fsi_real *)malloc((size_t)(3 * solids->body[body].shape->surface.vertex_count)
                                     * sizeof *x);
    ex_floor(&image, &camera, flo, fhi, 1, -0.003, 0.2);
    fsi_surface box;
    if (x && fsi_solids_surface(solids, body, x, NULL, &box) == FSI_OK)
        ex_draw_surface3(&image, &camera, &box, ex_rgb(200, 150, 90));
    ex_draw_surface3(&image, &camera, &surface, ex_rgb(200, 60, 90));
    water_draw(&image, &camera, sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(110));
    ex_frame(args, &image);
    ex_image_free(&image);
    free(x);
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

/* Longer than a page on purpose: what three couplings need, in the order in which they need it. */
int main(int argc, char **argv) {
    ex_args args;

    fsi_report report;
    int n = 0;
    int stable = 1;
    int capped = 0;
    long steps = 0;
    long bad = 0;
    long lost = 0;
    double total = 0;
    double density = 0;
    double momentum = 0;
    double gap = 0;
    double bend = 0;

    ex_begin(&args, argc, argv, &about);
    double h = 1.2 / (2 * args.size);

    fsi_sph_desc desc = {
        .capacity = 4 * args.size * args.size * args.size,
        .boundary_capacity = 80 * args.size * args.size + 4000,
        .solver = FSI_SPH_DFSPH,
        .spacing = h,
        .density = 1000,
        .viscosity = 1,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
        .dt_max = ex_number(&args, "dt"),
        .density_error = 1e-12,
        .divergence_error = 1e-12,
        .max_iterations = 5,
    };

    fsi_solids_desc given = {
        .dim = 3,
        .max_bodies = 2,
        .gravity = desc.gravity,
        .substeps = 1,
    };

    fsi_sph sph;

    fsi_solids world;
    ex_need(fsi_sph_init(&sph, &desc));
    ex_need(fsi_solids_init(&world, &given));

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec(0.6, 0.5, 0.3),
    };

    fsi_shape room;
    ex_need(fsi_shape_init(&room, &sd));

    fsi_rigid_desc options = {
        .shape = &room,
        .x = sd.half,
        .kind = FSI_RIGID_FIXED,
    };

    fsi_solids_add(&world, &options, NULL);
    sd.kind = FSI_SHAPE_BOX;
    sd.half = fsi_vec(0.16, 0.06, 0.14);

    fsi_shape raft;
    ex_need(fsi_shape_init(&raft, &sd));
    options.shape = &raft;
    options.kind = FSI_RIGID_DYNAMIC;
    options.density = 1000 * ex_number(&args, "density");
    options.x = fsi_vec(0.4, 0.42, 0.3);
    int body;
    fsi_solids_add(&world, &options, &body);
    ex_need(
        fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(1.2, 0.3, 0.6), fsi_vec(0, 0, 0), &n));
    ex_need(fsi_sph_add_box_walls(&sph, fsi_vec(0, 0, 0), fsi_vec(1.2, 1, 0.6), 0, NULL));
    fsi_mesh mesh;
    ex_need(fsi_mesh_box(&mesh,
                         fsi_vec_sub(options.x, fsi_vec_sub(sd.half, fsi_vec(h / 2, h / 2, h / 2))),
                         fsi_vec_add(options.x, fsi_vec_sub(sd.half, fsi_vec(h / 2, h / 2, h / 2))),
                         4, 2, 4, 0, NULL));

    /* boundary particles half a spacing inside */
    fsi_surface skin = fsi_mesh_surface(&mesh);
    int object;
    ex_need(fsi_sph_add_surface(&sph, &skin, options.x, 1, &object));
    fsi_mesh_free(&mesh);
    ex_need(
        fsi_mesh_box(&mesh, fsi_vec(0.54, 0.43, 0.2), fsi_vec(1.04, 0.46, 0.4), 15, 1, 6, 0, NULL));

    fsi_tled_desc t = {
        .nodes = mesh.vertex_count,
        .tets = mesh.tet_count,
        .x = mesh.x,
        .tet = mesh.tet,
        .density = 400,
        .young = ex_number(&args, "young"),
        .poisson = 0.3,
        .damping = 2,
        .gravity = desc.gravity,
    };

    int32_t *node;
    node = (int32_t *)malloc((size_t)t.nodes * sizeof *node);

    fsi_tled flag;
    if (!node || fsi_tled_init(&flag, &t) != FSI_OK)
        return 1;
    int i;

    for (n = 0, i = 0; i < flag.nodes; i++)
        if (flag.x[3 * i] < 0.58)
            node[n++] = i;

    fsi_clamp clamp;
    ex_need(fsi_clamp_init(&clamp, &flag, &world, body, node, n, NULL));

    fsi_sph_rigid_desc d = {
        .sph = &sph,
        .world = &world,
        .count = 1,
        .body = &body,
        .object = &object,
        .tolerance = ex_number(&args, "tolerance"),
    };

    fsi_proxy_solid solid = {
        .tled = &flag,
        .restitution = ex_number(&args, "restitution"),
        .slip = ex_number(&args, "slip"),
    };

    fsi_proxy_desc p = {
        .sph = &sph,
        .solid = &solid,
        .count = 1,
    };

    fsi_sph_rigid couple;
    fsi_proxy proxy;

    fsi_bvh tree;
    ex_need(fsi_sph_rigid_init(&couple, &d));
    ex_need(fsi_proxy_init(&proxy, &p));
    ex_need(fsi_bvh_init(&tree, flag.triangles, NULL));
    n = sph.now.count;
    int frame;
    double time;

    for (frame = 0, time = 0; frame < args.frames && stable; frame++) {
        for (double start = time; time < start + 0.03 - 1e-9 && stable; steps++) {
            double rest = start + 0.03 - time;
            double dt = rest / ceil(rest / fsi_sph_max_dt(&sph) - 1e-6);

            /* sorted here: the order must not change between collide and correct */
            fsi_result result = fsi_sph_prepare(&sph, dt);

            /* fluid hits the soft part */
            if (result >= 0)
                result = fsi_proxy_collide(&proxy, dt);

            /* the soft part moves and pulls at the raft */
            if (result >= 0)
                result = fsi_clamp_advance(&clamp, dt);

            /* fluid and raft move */
            if (result >= 0)
                result = ex_try(fsi_sph_rigid_step(&couple, dt, &report));
            if (result == FSI_NOT_CONVERGED)
                capped++;

            /* nothing stays in the soft part */
            if (result >= 0)
                result = fsi_proxy_correct(&proxy);
            stable = result >= 0 && fsi_vec_length(world.body[body].v) < 50;
            time += dt;
            total += report.iterations;
            density = fmax(density, sph.stats.max_density);
            for (i = 0; i < 3; i++)
                momentum = fmax(momentum, fabs(report.momentum[i]));
        }

        skin = fsi_tled_surface(&flag);
        ex_need(fsi_bvh_build(&tree, &skin));
        for (i = 0; i < sph.now.count; i++)
            bad += fsi_bvh_inside(&tree, fsi_vec(sph.x[i], sph.y[i], sph.z[i]));
        for (i = 0; i < clamp.count; i++)
            gap = fmax(gap, fsi_vec_length(fsi_vec_sub(
                                fsi_vec_load(flag.x + 3 * clamp.node[i]),
                                fsi_vec_add(world.body[body].x,
                                            fsi_quat_rotate(world.body[body].q,
                                                            fsi_vec_load(clamp.local + 3 * i))))));
        for (i = 0; i < flag.nodes; i++)
            bend = fmax(bend, 0.43 - flag.x[3 * i + 1]);
        if (args.out)
            draw(&args, &sph, &world, body, &flag);
        ex_progress(&args, frame);
    }

    for (i = 0; i < sph.now.count; i++)
        lost += !(sph.x[i] > -h && sph.x[i] < 1.2 + h && sph.y[i] > -h && sph.y[i] < 1 + h
                  && sph.z[i] > -h && sph.z[i] < 0.6 + h);

    ex_result("particles", "%d", n);
    ex_result("tets", "%d", mesh.tet_count);
    ex_result("mean_iterations", "%.3f", total / (steps > 0 ? (double)steps : 1));
    ex_result("capped", "%d", capped);
    ex_result("penetrations", "%ld", bad);
    ex_result("skipped", "%ld", (long)proxy.stats.all_skipped);
    ex_result("contacts", "%ld", (long)proxy.stats.all_contacts);
    ex_result("max_density_ratio", "%.4f", density);

    /* largest distance of a clamped node from its place on the raft, m */
    ex_result("clamp_gap", "%.6f", gap);
    ex_result("sag", "%.4f", bend);
    ex_result("height", "%.4f", world.body[body].x.y);
    ex_result("lost", "%ld", lost + n - sph.now.count);
    ex_result("momentum_error", "%.3g", momentum);
    fsi_bvh_free(&tree);
    fsi_proxy_free(&proxy);
    fsi_sph_rigid_free(&couple);
    fsi_clamp_free(&clamp);
    fsi_tled_free(&flag);
    fsi_mesh_free(&mesh);
    fsi_solids_free(&world);
    fsi_shape_free(&raft);
    fsi_shape_free(&room);
    fsi_sph_free(&sph);
    free(node);
    return ex_end(&args, steps, stable);
}
