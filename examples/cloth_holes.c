/* cloth_holes: water is poured onto a cloth with four holes, hung at its corners (Yang et al.
   2012, fig. 7). The cloth is an fsi_soft shell, wet on both sides; water passes only through the
   holes.

       build/cloth_holes --out out

   Result: particles that passed through the holes, and those that passed through the cloth. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static int keep(fsi_vec3 c, void *user) { /* 0: a hole here */
    double x = fabs(c.x) - 0.22;
    double z = fabs(c.z) - 0.22;
    (void)user;
    return x * x + z * z > 0.085 * 0.085;
}

static const ex_about about = {
    .name = "cloth_holes",
    .what = "Water on a cloth with holes.",
    .size = 12,
    .frames = 50,
    .keys =
        {
            EX_NUMBER("restitution", "", "e of the collisions", "0", "0 to 1"),
            EX_NUMBER("slip", "", "delta: 0 no slip, 1 free slip", "0.95", "0 to 1"),
            EX_NUMBER("particles", "", "most fluid particles", "2500", "100 to 1e6"),
            EX_NUMBER("tets", "", "about so many triangles", "700", "100 to 1e6"),
            EX_NUMBER("stretch", "N/m", "Young's modulus times thickness", "6000", "10 to 1e6"),
            EX_NUMBER("area_density", "kg/m^2", "of the cloth", "2", "0.01 to 100"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_camera camera = ex_camera_make(0.9, 1.25, 1.6, 0, 0.42, 0, 1, 38);
    double lo[3] = {-0.8, 0, -0.8};
    double hi[3] = {0.8, 1.2, 0.8};
    ex_args args;

    long below = 0;
    double sag = 1e9;

    ex_begin(&args, argc, argv, &about);
    int n = (int)(sqrt(ex_number(&args, "tets") / 2) + 0.5);
    fsi_mesh mesh;
    ex_need(fsi_mesh_sheet(&mesh, fsi_vec(-0.5, 0.6, -0.5), fsi_vec(0, 0, 1), fsi_vec(1, 0, 0), n,
                           n, 1, keep, NULL, NULL));
    unsigned char *pin = (unsigned char *)calloc((size_t)mesh.vertex_count, 1);
    if (!pin)
        return 1;

    for (int i = 0; i < mesh.vertex_count; i++)
        if (fabs(mesh.x[3 * i]) + fabs(mesh.x[3 * i + 2]) > 0.9)
            pin[i] = 7;

    fsi_soft_desc given = {
        .dim = 3,
        .vertex_count = mesh.vertex_count,
        .x = mesh.x,
        .triangle_count = mesh.element_count,
        .triangle = mesh.index,
        .pin = pin,
        .area_density = ex_number(&args, "area_density"),
        .stretch = ex_number(&args, "stretch"),
        .stretch_poisson = 0.3,
        .bend = 0.01,
        .damping_stiffness = 1e-3,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
        .use_cg = 1,
        .tolerance = 1e-5,
    };

    fsi_sph_desc desc = {
        .capacity = ex_whole(&args, "particles"),
        .boundary_capacity = 20000,
        .spacing = 0.36 / args.size,
        .density = 1000,
        .sound_speed = 30,
        .viscosity = 2,
        .artificial = 0.1,
        .gravity = given.gravity,
    };

    fsi_sph sph;

    fsi_soft cloth;
    ex_need(fsi_soft_init(&cloth, &given));
    ex_need(fsi_sph_init(&sph, &desc));

    fsi_sph_emitter tap = {
        .centre = fsi_vec(0, 0.95, 0),
        .direction = fsi_vec(0, -1, 0),
        .radius = 0.15,
        .speed = 1,
        /* nearly as many as there is room for */
        .until = 0.9 * desc.capacity * pow(desc.spacing, 3) / (3.14159 * 0.15 * 0.15),
    };

    fsi_sph_add_emitter(&sph, &tap);
    fsi_sph_add_box_walls(&sph, fsi_vec(-0.8, 0, -0.8), fsi_vec(0.8, 0.2, 0.8), 1u << 3, NULL);

    fsi_proxy_solid solid = {
        .soft = &cloth,
        .restitution = ex_number(&args, "restitution"),
        .slip = ex_number(&args, "slip"),
    };

    fsi_proxy_desc options = {
        .sph = &sph,
        .solid = &solid,
        .count = 1,
    };

    fsi_proxy proxy;
    pour w;
    ex_need(pour_begin(&w, &proxy, &options, 0.02));

    for (int frame = 0; frame < args.frames && pour_frame(&w); frame++) {
        for (int i = 0; i < sph.now.count; i++) {
            fsi_hit hit;
            pour_near(&w, i, desc.spacing, NULL, &hit);
        }

        fsi_surface surface = fsi_soft_surface(&cloth);
        if (args.out)
            pour_draw(&args, &sph, &surface, &camera, 520, lo, hi, ex_rgb(200, 80, 90));
        ex_progress(&args, frame);
    }

    for (int i = 0; i < sph.now.count; i++)
        below += sph.y[i] < 0.2;

    for (int i = 0; i < mesh.vertex_count; i++)
        sag = fmin(sag, cloth.x[3 * i + 1]);
    pour_results(&w, (long)proxy.stats.all_skipped);

    ex_result("triangles", "%d", mesh.element_count);

    /* through the holes and over the edges */
    ex_result("passed", "%ld", below);
    ex_result("sag", "%.4f", 0.6 - sag);
    fsi_proxy_free(&proxy);
    fsi_soft_free(&cloth);
    fsi_sph_free(&sph);
    fsi_mesh_free(&mesh);
    free(pin);
    return ex_end(&args, w.steps, w.stable);
}
