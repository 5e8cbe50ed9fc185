/* cloth_holes: water is poured onto a cloth with four holes, hung at its corners (paper 004, fig.
   7). The cloth is an fsi_soft shell, wet on both sides; what passes does so through the holes. cc
   -O2 -I. -Iexamples examples/cloth_holes.c -o cloth_holes -lm */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static int keep(fsi_vec3 c, void *user) { /* 0: a hole here */
    double x = fabs((double)c.x) - 0.22;
    double z = fabs((double)c.z) - 0.22;
    (void)user;
    return x * x + z * z > 0.085 * 0.085;
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {
        {"restitution", "", "e of the collisions", "0", 0, 1, NULL},
        {"slip", "", "delta: 0 no slip, 1 free slip", "0.95", 0, 1, NULL},
        {"particles", "", "most fluid particles", "2500", 100, 1e6, NULL},
        {"tets", "", "about so many triangles", "700", 100, 1e6, NULL},
        {"stretch", "N/m", "Young's modulus times thickness", "6000", 10, 1e6, NULL},
        {"area_density", "kg/m^2", "of the cloth", "2", 0.01, 100, NULL},
        {"gravity", "m/s^2", "downwards", "9.81", 0, 100, NULL}};
    ex_camera camera = ex_camera_make(0.9, 1.25, 1.6, 0, 0.42, 0, 1, 38);
    double lo[3] = {-0.8, 0, -0.8};
    double hi[3] = {0.8, 1.2, 0.8};
    ex_args args;

    long below = 0;
    double sag = 1e9;

    ex_begin(&args, argc, argv, "cloth_holes", "Water on a cloth with holes.", keys, 7, 12, 50);
    int n = (int)(sqrt(ex_number(&args, "tets") / 2) + 0.5);
    fsi_mesh mesh;
    if (fsi_mesh_sheet(&mesh, fsi_vec(-FSI_R(0.5), FSI_R(0.6), -FSI_R(0.5)), fsi_vec(0, 0, 1),
                       fsi_vec(1, 0, 0), n, n, 1, keep, NULL, NULL)
        != FSI_OK)
        return 1;
    unsigned char *pin = (unsigned char *)calloc((size_t)mesh.vertex_count, 1);
    if (!pin)
        return 1;

    for (int i = 0; i < mesh.vertex_count; i++)
        if (fabs((double)mesh.x[3 * i]) + fabs((double)mesh.x[3 * i + 2]) > 0.9)
            pin[i] = 7;

    fsi_soft_desc given = {
        .dim = 3,
        .vertex_count = mesh.vertex_count,
        .x = mesh.x,
        .triangle_count = mesh.element_count,
        .triangle = mesh.index,
        .pin = pin,
        .area_density = (fsi_real)ex_number(&args, "area_density"),
        .stretch = (fsi_real)ex_number(&args, "stretch"),
        .stretch_poisson = FSI_R(0.3),
        .bend = FSI_R(0.01),
        .damping_stiffness = FSI_R(1e-3),
        .gravity = fsi_vec(0, (fsi_real)-ex_number(&args, "gravity"), 0),
        .use_cg = 1,
        .tolerance = 1e-5,
    };

    fsi_sph_desc desc = {
        .capacity = (int)ex_number(&args, "particles"),
        .boundary_capacity = 20000,
        .spacing = FSI_R(0.36) / (fsi_real)args.size,
        .density = 1000,
        .sound_speed = 30,
        .viscosity = 2,
        .artificial = FSI_R(0.1),
        .gravity = given.gravity,
    };

    fsi_sph sph;

    fsi_soft cloth;
    if (fsi_soft_init(&cloth, &given) != FSI_OK || fsi_sph_init(&sph, &desc) != FSI_OK)
        return 1;

    fsi_sph_emitter tap = {
        .centre = fsi_vec(0, FSI_R(0.95), 0),
        .direction = fsi_vec(0, -1, 0),
        .radius = FSI_R(0.15),
        .speed = 1,
        /* nearly as many as there is room for */
        .until = (fsi_real)(0.9 * desc.capacity * pow((double)desc.spacing, 3)
                            / (3.14159 * 0.15 * 0.15)),
    };

    fsi_sph_add_emitter(&sph, &tap);
    fsi_sph_add_box_walls(&sph, fsi_vec(-FSI_R(0.8), 0, -FSI_R(0.8)),
                          fsi_vec(FSI_R(0.8), FSI_R(0.2), FSI_R(0.8)), 1u << 3, NULL);

    fsi_proxy_solid solid = {
        .soft = &cloth,
        .restitution = (fsi_real)ex_number(&args, "restitution"),
        .slip = (fsi_real)ex_number(&args, "slip"),
    };

    fsi_proxy_desc options = {
        .sph = &sph,
        .solid = &solid,
        .count = 1,
    };

    fsi_proxy proxy;
    pour w;
    if (pour_begin(&w, &proxy, &options, 0.02) != FSI_OK)
        return 1;

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
        below += sph.y[i] < FSI_R(0.2);

    for (int i = 0; i < mesh.vertex_count; i++)
        sag = fmin(sag, (double)cloth.x[3 * i + 1]);
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
