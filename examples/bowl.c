/* bowl: water is poured into a soft bowl (paper 004, fig. 8). SPH fluid and TLED tetrahedra meet through proxy particles.
   cc -O2 -I. -Iexamples examples/bowl.c -o bowl -lm
   The bowl stands on its fixed middle and widens under the load. No particle may get into or through its wall: penetrations counts them. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

static void draw(ex_args *a, const fsi_sph *s, const fsi_tled *t) {
    ex_image m = ex_image_make(640, 480);
    ex_camera c = ex_camera_make(0.75, 0.95, 1.2, 0, 0.22, 0, 1, 36);
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
                                  {"particles", "", "most fluid particles", "1500", 100, 1e6, NULL},
                                  {"tets", "", "about so many tetrahedra", "900", 100, 1e6, NULL},
                                  {"young", "Pa", "Young's modulus of the bowl", "1e6", 1e3, 1e8, NULL},
                                  {"density", "kg/m^3", "of the bowl", "1000", 10, 1e5, NULL},
                                  {"gravity", "m/s^2", "downwards", "9.81", 0, 100, NULL}};
    ex_args a;
    fsi_sph sph;
    fsi_sph_desc f = {0};
    fsi_sph_emitter tap = {0};
    fsi_tled bowl;
    fsi_tled_desc t = {0};
    fsi_mesh mesh;
    fsi_proxy proxy;
    fsi_proxy_desc p = {0};
    fsi_proxy_solid solid = {0};
    pour w;
    int frame, i, n;
    long bad = 0;
    double rim = 0;
    ex_begin(&a, argc, argv, "bowl", "Water poured into a soft bowl.", keys, 7, 12, 60);
    n = (int)(sqrt(ex_number(&a, "tets") / 6) / 2 + 0.5) * 2;
    if (fsi_mesh_box(&mesh, fsi_vec(-1, 0, -1), fsi_vec(1, 1, 1), n, 1, n, 0, NULL) != FSI_OK) return 1;
    for (i = 0; i < mesh.vertex_count; i++) {                 /* a square plate bent into a bowl */
        double x = (double)mesh.x[3 * i], z = (double)mesh.x[3 * i + 2], top = (double)mesh.x[3 * i + 1], u = x * sqrt(1 - z * z / 2), w = z * sqrt(1 - x * x / 2);
        double r = sqrt(u * u + w * w), angle = 1.25 * r, size = 0.4 + 0.035 * (1 - top), k = r > 0 ? size * sin(angle) / r : 0;
        fsi_vec_store(mesh.x + 3 * i, fsi_vec((fsi_real)(k * u), (fsi_real)(0.45 - size * cos(angle)), (fsi_real)(k * w)));
    }
    t.nodes = mesh.vertex_count; t.tets = mesh.tet_count; t.x = mesh.x; t.tet = mesh.tet; t.density = (fsi_real)ex_number(&a, "density");
    t.young = (fsi_real)ex_number(&a, "young"); t.poisson = FSI_R(0.3); t.damping = 4; t.gravity = fsi_vec(0, (fsi_real)-ex_number(&a, "gravity"), 0);
    f.capacity = (int)ex_number(&a, "particles"); f.spacing = FSI_R(0.36) / (fsi_real)a.size; f.density = 1000; f.sound_speed = 30; f.viscosity = 2;
    f.artificial = FSI_R(0.1); f.gravity = t.gravity;
    if (fsi_tled_init(&bowl, &t) != FSI_OK || fsi_sph_init(&sph, &f) != FSI_OK) return 1;
    for (i = 0; i < bowl.nodes; i++) if (bowl.x[3 * i + 1] < FSI_R(0.035)) fsi_tled_fix(&bowl, i, fsi_vec(0, 0, 0));
    tap.centre = fsi_vec(0, FSI_R(0.75), 0); tap.direction = fsi_vec(0, -1, 0); tap.radius = FSI_R(0.12); tap.speed = FSI_R(1.5);
    tap.until = (fsi_real)(f.capacity * pow((double)f.spacing, 3) / (3.14159 * 0.12 * 0.12 * 1.5));
    fsi_sph_add_emitter(&sph, &tap);
    solid.tled = &bowl; solid.restitution = (fsi_real)ex_number(&a, "restitution"); solid.slip = (fsi_real)ex_number(&a, "slip");
    p.sph = &sph; p.solid = &solid; p.count = 1;
    if (pour_begin(&w, &proxy, &p, 0.02) != FSI_OK) return 1;
    for (frame = 0; frame < a.frames && pour_frame(&w); frame++) {
        for (i = 0; i < sph.now.count; i++) {                 /* on the wrong side: nearest to the lower layer of nodes */
            fsi_vec3 x = fsi_vec(sph.x[i], sph.y[i], sph.z[i]);
            fsi_hit h;
            if (!pour_near(&w, i, FSI_R(0.5), NULL, &h)) continue;
            for (n = 0; n < 3; n++) {                         /* nodes of the upper layer lie on the sphere of radius 0.4 at rest */
                const fsi_real *q = mesh.x + 3 * bowl.triangle[3 * h.element + n];
                if (sqrt((double)(q[0] * q[0] + q[2] * q[2]) + pow((double)q[1] - 0.45, 2)) < 0.417) break;
            }
            if (hypot((double)x.x, (double)x.z) < 0.3 && n == 3) bad++;
        }
        if (a.out) draw(&a, &sph, &bowl);
        ex_progress(&a, frame);
    }
    for (i = 0; i < bowl.nodes; i++) rim = fmax(rim, hypot((double)bowl.x[3 * i], (double)bowl.x[3 * i + 2]));
    pour_results(&w, bad);
    ex_result("tets", "%d", mesh.tet_count);
    ex_result("rim", "%.4f", rim);
    fsi_proxy_free(&proxy); fsi_tled_free(&bowl); fsi_sph_free(&sph); fsi_mesh_free(&mesh);
    return ex_end(&a, w.steps, w.stable);
}
