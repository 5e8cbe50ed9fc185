/* funnel: water is poured into a soft cone with a sharp tip, held at its rim (paper 004, fig. 9): many triangles with conflicting normals meet there.
   cc -O2 -I. -Iexamples examples/funnel.c -o funnel -lm
   No particle may get into or through its wall (penetrations); corrections without a way out are counted (skipped). */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static void draw(ex_args *a, const fsi_sph *s, const fsi_tled *t) {
    ex_image m = ex_image_make(640, 480);
    ex_camera c = ex_camera_make(0.75, 1.35, 1.1, 0, 0.3, 0, 1, 36);
    double lo[3] = {-1, 0, -1}, hi[3] = {1, 1, 1};
    fsi_surface f = fsi_tled_surface(t);
    ex_floor(&m, &c, lo, hi, 1, -0.002, 0.2);
    ex_draw_surface3(&m, &c, &f, ex_rgb(215, 140, 70));
    water_draw(&m, &c, s, lo, hi);
    ex_frame(a, &m);
    ex_image_free(&m);
}

int main(int argc, char **argv) {
    static const ex_key keys[] = {{"restitution", "", "e of the collisions", "0", 0, 1, NULL},
                                  {"slip", "", "delta: 0 no slip, 1 free slip", "0.9", 0, 1, NULL},
                                  {"particles", "", "most fluid particles", "1000", 100, 1e6, NULL},
                                  {"tets", "", "about so many tetrahedra", "900", 100, 1e6, NULL},
                                  {"young", "Pa", "Young's modulus of the cone", "1e6", 1e3, 1e8, NULL},
                                  {"density", "kg/m^3", "of the cone", "1000", 10, 1e5, NULL},
                                  {"gravity", "m/s^2", "downwards", "9.81", 0, 100, NULL}};
    ex_args a;
    fsi_sph sph;
    fsi_sph_desc f = {0};
    fsi_sph_emitter tap = {0};
    fsi_tled cone;
    fsi_tled_desc t = {0};
    fsi_mesh mesh;
    fsi_proxy proxy;
    fsi_proxy_desc p = {0};
    fsi_proxy_solid solid = {0};
    pour w;
    int frame, i, n, side;
    long bad = 0;
    double rim = 1e9;
    ex_begin(&a, argc, argv, "funnel", "Water poured into a soft cone.", keys, 7, 12, 60);
    n = (int)(sqrt(ex_number(&a, "tets") / 6) / 2 + 0.5) * 2;
    side = n + 1;                                             /* vertex i + side * (j + 2 k), j = 0 below, 1 above */
    if (fsi_mesh_box(&mesh, fsi_vec(-1, 0, -1), fsi_vec(1, 1, 1), n, 1, n, 0, NULL) != FSI_OK) return 1;
    for (i = 0; i < mesh.vertex_count; i++) {                 /* a square plate drawn down to a tip, the finer the nearer to it */
        double x = (double)mesh.x[3 * i], z = (double)mesh.x[3 * i + 2], top = (double)mesh.x[3 * i + 1], u = x * sqrt(1 - z * z / 2), w = z * sqrt(1 - x * x / 2);
        double r = sqrt(u * u + w * w), k = 0.36 * pow(r, 0.4) + 0.02 * (1 - top);
        fsi_vec_store(mesh.x + 3 * i, fsi_vec((fsi_real)(k * u), (fsi_real)(0.15 + 0.45 * pow(r, 1.4) - 0.05 * (1 - top)), (fsi_real)(k * w)));
    }
    t.nodes = mesh.vertex_count; t.tets = mesh.tet_count; t.x = mesh.x; t.tet = mesh.tet; t.density = (fsi_real)ex_number(&a, "density");
    t.young = (fsi_real)ex_number(&a, "young"); t.poisson = FSI_R(0.3); t.damping = 4; t.gravity = fsi_vec(0, (fsi_real)-ex_number(&a, "gravity"), 0);
    f.capacity = (int)ex_number(&a, "particles"); f.spacing = FSI_R(0.36) / (fsi_real)a.size; f.density = 1000; f.sound_speed = 30; f.viscosity = 2;
    f.artificial = FSI_R(0.1); f.gravity = t.gravity;
    if (fsi_tled_init(&cone, &t) != FSI_OK || fsi_sph_init(&sph, &f) != FSI_OK) return 1;
    for (i = 0; i < cone.nodes; i++) if (hypot((double)cone.x[3 * i], (double)cone.x[3 * i + 2]) > 0.35) fsi_tled_fix(&cone, i, fsi_vec(0, 0, 0));
    tap.centre = fsi_vec(0, FSI_R(0.85), 0); tap.direction = fsi_vec(0, -1, 0); tap.radius = FSI_R(0.1); tap.speed = FSI_R(1.5);
    tap.until = (fsi_real)(f.capacity * pow((double)f.spacing, 3) / (3.14159 * 0.1 * 0.1 * 1.5));
    fsi_sph_add_emitter(&sph, &tap);
    solid.tled = &cone; solid.restitution = (fsi_real)ex_number(&a, "restitution"); solid.slip = (fsi_real)ex_number(&a, "slip");
    p.sph = &sph; p.solid = &solid; p.count = 1;
    if (pour_begin(&w, &proxy, &p, 0.02) != FSI_OK) return 1;
    for (frame = 0; frame < a.frames && pour_frame(&w); frame++) {
        for (i = 0; i < sph.now.count; i++) {                 /* on the wrong side: nearest to the lower layer of nodes */
            fsi_vec3 x = fsi_vec(sph.x[i], sph.y[i], sph.z[i]);
            fsi_hit h;
            if (!pour_near(&w, i, FSI_R(0.5), NULL, &h)) continue;
            for (n = 0; n < 3 && cone.triangle[3 * h.element + n] / side % 2 == 0; n++) {}    /* layers of nodes alternate: 0 below, 1 above */
            bad += n == 3 && hypot((double)x.x, (double)x.z) < 0.3;
        }
        if (a.out) draw(&a, &sph, &cone);
        ex_progress(&a, frame);
    }
    for (i = 0; i < cone.nodes; i++) rim = fmin(rim, (double)cone.x[3 * i + 1]);
    pour_results(&w, bad);
    ex_result("tets", "%d", mesh.tet_count);
    ex_result("tip", "%.4f", rim);                            /* lowest point, m; 0.1 at rest */
    fsi_proxy_free(&proxy); fsi_tled_free(&cone); fsi_sph_free(&sph); fsi_mesh_free(&mesh);
    return ex_end(&a, w.steps, w.stable);
}
