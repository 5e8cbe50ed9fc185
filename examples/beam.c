/* beam: a wave of particles runs against an elastic beam clamped to the floor and bends it (Yang
   et al. 2012, fig. 6; as there, the beam has no weight). The tank is made of boundary particles,
   the beam of tetrahedra: both act on the same fluid.

       build/beam --out out
       build/beam --set young=1e5   a softer beam

   Result: how far the tip bends, and what the parts of a step cost. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static fsi_result stay(fsi_real dt, void *user) {
    (void)user;
    (void)dt;
    return FSI_OK;
}

static void draw(ex_args *args, const fsi_sph *sph, const fsi_tled *tled, const double *hi) {
    ex_image image = ex_image_make(720, 440);
    ex_camera camera = ex_camera_make(0.95, 0.75, 2.3, 0.8, 0.3, 0.2, 1, 36);
    double lo[3] = {0, 0, 0};
    fsi_surface surface = fsi_tled_surface(tled);
    ex_floor(&image, &camera, lo, hi, 1, -0.002, 0.2);
    ex_draw_surface3(&image, &camera, &surface, ex_rgb(220, 110, 60));
    water_draw(&image, &camera, sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(130));
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "beam",
    .what = "A wave bends an elastic beam.",
    .size = 12,
    .frames = 50,
    .keys =
        {
            EX_NUMBER("restitution", "", "e of the collisions", "0", "0 to 1"),
            EX_NUMBER("slip", "", "delta: 0 no slip, 1 free slip", "1", "0 to 1"),
            EX_NUMBER("particles", "", "most fluid particles", "20000", "100 to 1e6"),
            EX_NUMBER("tets", "", "about so many tetrahedra", "1150", "100 to 1e6"),
            EX_NUMBER("young", "Pa", "Young's modulus", "3e5", "1e3 to 1e8"),
            EX_NUMBER("density", "kg/m^3", "of the beam", "1000", "10 to 1e5"),
            EX_NUMBER("gravity", "m/s^2", "on the fluid", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    fsi_sph_desc desc = {0};

    fsi_proxy_solid solid[2];
    fsi_coupled *door = &solid[1].door;
    static fsi_real zero[24];
    static fsi_real one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const int32_t node[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    long bad = 0;
    long lost = 0;
    double hi[3] = {1.6, 0.8, 0.4};
    double bend = 0;
    double now_bend = 0;

    ex_begin(&args, argc, argv, &about);

    /* n x 6 n x 4 n bricks */
    int n = (int)fmax(1, pow(ex_number(&args, "tets") / 6 / 24, 1.0 / 3) + 0.5);
    fsi_mesh mesh;
    ex_need(fsi_mesh_box(&mesh, fsi_vec(0.95, 0.005, 0.1), fsi_vec(1.01, 0.4, 0.3), n, 6 * n, 4 * n,
                         1, NULL));

    fsi_tled_desc given = {
        .nodes = mesh.vertex_count,
        .tets = mesh.tet_count,
        .x = mesh.x,
        .tet = mesh.tet,
        .density = ex_number(&args, "density"),
        .young = ex_number(&args, "young"),
        .poisson = 0.3,
        .damping = 2,
    };

    desc.capacity = ex_whole(&args, "particles");

    /* coarser where they would not fit */
    double dt;

    for (dt = 0.4 / args.size; ceil(0.5 / dt) * ceil(0.5 / dt) * ceil(0.4 / dt) > desc.capacity;
         dt *= 1.02) {
    }

    desc.spacing = dt;
    desc.boundary_capacity = 40 * args.size * args.size + 4000;
    desc.density = 1000;
    desc.sound_speed = 30;
    desc.viscosity = 1;
    desc.artificial = 0.1;
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);
    fsi_sph sph;

    fsi_tled beam;
    ex_need(fsi_tled_init(&beam, &given));
    ex_need(fsi_sph_init(&sph, &desc));
    int i;

    for (i = 0; i < beam.nodes; i++)
        if (beam.x[3 * i + 1] < 0.01)
            fsi_tled_fix(&beam, i, fsi_vec(0, 0, 0));
    ex_need(
        fsi_sph_add_block(&sph, fsi_vec(0, 0, 0), fsi_vec(0.5, 0.5, 0.4), fsi_vec(0, 0, 0), NULL));
    fsi_sph_add_box_walls(&sph, fsi_vec(0, 0, 0), fsi_vec(hi[0], hi[1], hi[2]), 1u << 3, NULL);
    fsi_mesh tank;
    ex_need(fsi_mesh_box(&tank, fsi_vec_scale(fsi_vec(1, 1, 1), -0.4 * desc.spacing),
                         fsi_vec(hi[0] + 0.4 * desc.spacing, 2, hi[2] + 0.4 * desc.spacing), 1, 1,
                         1, 0, NULL));

    /* spray has no pressure and would pass boundary particles: a fixed sheet outside holds it */
    memset(solid, 0, sizeof solid);
    solid[1].advance_fn = stay;
    solid[1].slip = 1;
    door->surface = fsi_mesh_surface(&tank);
    door->surface.closed = 0;
    door->dof = 24;
    door->v = zero;
    door->mass = one;
    door->inverse_mass = zero;
    door->node = node;
    solid[0].tled = &beam;
    solid[0].restitution = ex_number(&args, "restitution");
    solid[0].slip = ex_number(&args, "slip");

    fsi_proxy_desc options = {
        .sph = &sph,
        .solid = solid,
        .count = 2,
    };

    fsi_proxy proxy;
    pour w;
    ex_need(pour_begin(&w, &proxy, &options, 0.02));

    fsi_bvh tree;
    ex_need(fsi_bvh_init(&tree, beam.triangles, NULL));

    for (int frame = 0; frame < args.frames && pour_frame(&w); frame++) {
        ex_need(fsi_bvh_build(&tree, &solid[0].door.surface));
        for (i = 0; i < sph.now.count; i++) {
            fsi_vec3 x = fsi_vec(sph.x[i], sph.y[i], sph.z[i]);
            fsi_hit hit;
            if (!pour_near(&w, i, desc.spacing, NULL, &hit))
                continue;
            bad += fsi_bvh_inside(&tree, x);
        }

        for (i = 0, now_bend = 0; i < beam.nodes; i++)
            now_bend = fmax(now_bend, beam.x[3 * i] - mesh.x[3 * i]);
        bend = fmax(bend, now_bend);
        if (args.out)
            draw(&args, &sph, &beam, hi);
        ex_progress(&args, frame);
    }

    for (i = 0; i < sph.now.count; i++)
        lost += !(sph.x[i] > -0.01 && sph.x[i] < hi[0] + 0.01 && sph.y[i] > -0.01
                  && sph.z[i] > -0.01 && sph.z[i] < hi[2] + 0.01);
    pour_results(&w, bad);

    ex_result("tets", "%d", mesh.tet_count);
    ex_result("lost", "%ld", lost); /* outside the tank */

    /* largest displacement along the flow, m */
    ex_result("bend", "%.4f", bend);
    ex_result("bend_end", "%.4f", now_bend);
    fsi_bvh_free(&tree);
    fsi_proxy_free(&proxy);
    fsi_tled_free(&beam);
    fsi_sph_free(&sph);
    fsi_mesh_free(&mesh);
    fsi_mesh_free(&tank);
    return ex_end(&args, w.steps, w.stable);
}
