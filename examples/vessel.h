/* vessel.h: water poured into a soft vessel, a square plate of one layer of tetrahedra bent to its
   shape (bowl, funnel). SPH fluid and TLED tetrahedra meet through proxy particles. No particle may
   get into or through the wall: penetrations counts them. */
#ifndef VESSEL_H
#define VESSEL_H
#include "water.h"
#include "pour.h"

typedef struct vessel {
    /* of the example; most fluid particles by default */
    const char *name, *what, *particles;
    /* m: camera, and the height it looks at */
    double eye[3], look;
    double tap, radius; /* m: height and radius of the jet */
    /* r 0 .. 1 from the middle, top 1 inside 0 outside: radius / r and height, m */
    void (*bend_fn)(double r, double top, double *wide, double *y);
    int (*held_fn)(const fsi_real *x); /* 1: this node is fixed */
    const char *result;                /* what measure_fn gives */
    double (*measure_fn)(const fsi_tled *t);
} vessel;

EX int vessel_run(const vessel *v, int argc, char **argv) {
    const ex_about about = {
        .name = v->name,
        .what = v->what,
        .size = 12,
        .frames = 60,
        .keys =
            {
                EX_NUMBER("restitution", "", "e of the collisions", "0", "0 to 1"),
                EX_NUMBER("slip", "", "delta: 0 no slip, 1 free slip", "0.9", "0 to 1"),
                EX_NUMBER("particles", "", "most fluid particles", v->particles, "100 to 1e6"),
                EX_NUMBER("tets", "", "about so many tetrahedra", "900", "100 to 1e6"),
                EX_NUMBER("young", "Pa", "Young's modulus of the vessel", "1e6", "1e3 to 1e8"),
                EX_NUMBER("density", "kg/m^3", "of the vessel", "1000", "10 to 1e5"),
                EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
            },
    };
    ex_camera camera = ex_camera_make(v->eye[0], v->eye[1], v->eye[2], 0, v->look, 0, 1, 36);
    double lo[3] = {-1, 0, -1};
    double hi[3] = {1, 1, 1};
    ex_args args;

    long bad = 0;

    ex_begin(&args, argc, argv, &about);
    int n = (int)(sqrt(ex_number(&args, "tets") / 6) / 2 + 0.5) * 2;

    /* vertex i + side * (j + 2 k), j = 0 below, 1 above */
    int side = n + 1;
    fsi_mesh mesh;
    ex_need(fsi_mesh_box(&mesh, fsi_vec(-1, 0, -1), fsi_vec(1, 1, 1), n, 1, n, 0, NULL));

    /* the square becomes a disk, the disk is bent */
    for (int i = 0; i < mesh.vertex_count; i++) {
        double k;
        double y;
        double x = mesh.x[3 * i];
        double z = mesh.x[3 * i + 2];
        double u = x * sqrt(1 - z * z / 2);
        double s = z * sqrt(1 - x * x / 2);
        v->bend_fn(sqrt(u * u + s * s), mesh.x[3 * i + 1], &k, &y);
        fsi_vec_store(mesh.x + 3 * i, fsi_vec(k * u, y, k * s));
    }

    fsi_tled_desc given = {
        .nodes = mesh.vertex_count,
        .tets = mesh.tet_count,
        .x = mesh.x,
        .tet = mesh.tet,
        .density = ex_number(&args, "density"),
        .young = ex_number(&args, "young"),
        .poisson = 0.3,
        .damping = 4,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
    };

    fsi_sph_desc desc = {
        .capacity = ex_whole(&args, "particles"),
        .spacing = 0.36 / args.size,
        .density = 1000,
        .sound_speed = 30,
        .viscosity = 2,
        .artificial = 0.1,
        .gravity = given.gravity,
    };

    fsi_sph sph;

    fsi_tled solid;
    ex_need(fsi_tled_init(&solid, &given));
    ex_need(fsi_sph_init(&sph, &desc));

    for (int i = 0; i < solid.nodes; i++)
        if (v->held_fn(solid.x + 3 * i))
            fsi_tled_fix(&solid, i, fsi_vec(0, 0, 0));

    fsi_sph_emitter tap = {
        .centre = fsi_vec(0, v->tap, 0),
        .direction = fsi_vec(0, -1, 0),
        .radius = v->radius,
        .speed = 1.5,
        .until = desc.capacity * pow(desc.spacing, 3) / (3.14159 * v->radius * v->radius * 1.5),
    };

    fsi_sph_add_emitter(&sph, &tap);

    fsi_proxy_solid part = {
        .tled = &solid,
        .restitution = ex_number(&args, "restitution"),
        .slip = ex_number(&args, "slip"),
    };

    fsi_proxy_desc options = {
        .sph = &sph,
        .solid = &part,
        .count = 1,
    };

    fsi_proxy proxy;
    pour w;
    ex_need(pour_begin(&w, &proxy, &options, 0.02));

    for (int frame = 0; frame < args.frames && pour_frame(&w); frame++) {
        /* on the wrong side: nearest to the lower layer of nodes */
        for (int i = 0; i < sph.now.count; i++) {
            fsi_hit hit;
            if (!pour_near(&w, i, 0.5, NULL, &hit))
                continue;
            for (n = 0; n < 3 && solid.triangle[3 * hit.element + n] / side % 2 == 0; n++) {
            }
            bad += n == 3 && hypot(sph.x[i], sph.z[i]) < 0.3;
        }

        fsi_surface surface = fsi_tled_surface(&solid);
        if (args.out)
            pour_draw(&args, &sph, &surface, &camera, 480, lo, hi, ex_rgb(215, 140, 70));
        ex_progress(&args, frame);
    }

    pour_results(&w, bad);

    ex_result("tets", "%d", mesh.tet_count);
    ex_result(v->result, "%.4f", v->measure_fn(&solid));
    fsi_proxy_free(&proxy);
    fsi_tled_free(&solid);
    fsi_sph_free(&sph);
    fsi_mesh_free(&mesh);
    return ex_end(&args, w.steps, w.stable);
}
#endif
