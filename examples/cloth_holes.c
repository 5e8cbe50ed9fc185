/* cloth_holes: water is poured onto a cloth with four holes, hung at its corners (paper 004, fig.
   7). The cloth is an fsi_soft shell, wet on both sides; what passes does so through the holes. cc
   -O2 -I. -Iexamples examples/cloth_holes.c -o cloth_holes -lm */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static int keep(fsi_vec3 c, void *user) { /* 0: a hole here */
    double x = fabs((double)c.x) - 0.22, z = fabs((double)c.z) - 0.22;
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
    double lo[3] = {-0.8, 0, -0.8}, hi[3] = {0.8, 1.2, 0.8};
    ex_args a;
    fsi_sph_desc f = {0};
    fsi_sph_emitter tap = {0};
    fsi_soft_desc d = {0};
    fsi_proxy_desc p = {0};
    fsi_proxy_solid solid = {0};
    long below = 0;
    double sag = 1e9;
    ex_begin(&a, argc, argv, "cloth_holes", "Water on a cloth with holes.", keys, 7, 12, 50);
    int n = (int)(sqrt(ex_number(&a, "tets") / 2) + 0.5);
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
    d.dim = 3;
    d.vertex_count = mesh.vertex_count;
    d.x = mesh.x;
    d.triangle_count = mesh.element_count;
    d.triangle = mesh.index;
    d.pin = pin;
    d.area_density = (fsi_real)ex_number(&a, "area_density");
    d.stretch = (fsi_real)ex_number(&a, "stretch");
    d.stretch_poisson = FSI_R(0.3);
    d.bend = FSI_R(0.01);
    d.damping_stiffness = FSI_R(1e-3);
    d.gravity = fsi_vec(0, (fsi_real)-ex_number(&a, "gravity"), 0);
    d.use_cg = 1;
    d.tolerance = 1e-5;
    f.capacity = (int)ex_number(&a, "particles");
    f.boundary_capacity = 20000;
    f.spacing = FSI_R(0.36) / (fsi_real)a.size;
    f.density = 1000;
    f.sound_speed = 30;
    f.viscosity = 2;
    f.artificial = FSI_R(0.1);
    f.gravity = d.gravity;
    fsi_sph sph;
    fsi_soft cloth;
    if (fsi_soft_init(&cloth, &d) != FSI_OK || fsi_sph_init(&sph, &f) != FSI_OK)
        return 1;
    tap.centre = fsi_vec(0, FSI_R(0.95), 0);
    tap.direction = fsi_vec(0, -1, 0);
    tap.radius = FSI_R(0.15);
    tap.speed = 1;
    /* nearly as many as there is room for */
    tap.until = (fsi_real)(0.9 * f.capacity * pow((double)f.spacing, 3) / (3.14159 * 0.15 * 0.15));
    fsi_sph_add_emitter(&sph, &tap);
    fsi_sph_add_box_walls(&sph, fsi_vec(-FSI_R(0.8), 0, -FSI_R(0.8)),
                          fsi_vec(FSI_R(0.8), FSI_R(0.2), FSI_R(0.8)), 1u << 3, NULL);
    solid.soft = &cloth;
    solid.restitution = (fsi_real)ex_number(&a, "restitution");
    solid.slip = (fsi_real)ex_number(&a, "slip");
    p.sph = &sph;
    p.solid = &solid;
    p.count = 1;
    fsi_proxy proxy;
    pour w;
    if (pour_begin(&w, &proxy, &p, 0.02) != FSI_OK)
        return 1;
    for (int frame = 0; frame < a.frames && pour_frame(&w); frame++) {
        for (int i = 0; i < sph.now.count; i++) {
            fsi_hit h;
            pour_near(&w, i, f.spacing, NULL, &h);
        }
        fsi_surface surface = fsi_soft_surface(&cloth);
        if (a.out)
            pour_draw(&a, &sph, &surface, &camera, 520, lo, hi, ex_rgb(200, 80, 90));
        ex_progress(&a, frame);
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
    return ex_end(&a, w.steps, w.stable);
}
