/* hose: water is driven through a soft thin-walled hose, clamped at its inlet (Yang et al. 2012,
   fig. 1). The wall is one layer of tetrahedra.

       build/hose --out out

   Result: penetrations: particles found inside the wall or outside of it between the ends. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

/* A tube of nu x nv x 1 bricks, six tetrahedra each: vertex i + nu * (j + (nv + 1) * layer), layer
 * 0 inside, 1 outside. */
static int32_t *tube(int nu, int nv, fsi_real *x, int *tets) {
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    int32_t *tet = (int32_t *)malloc((size_t)(24 * nu * nv) * sizeof *tet);
    int n = 0;

    for (int l = 0; l < 2; l++)
        for (int j = 0; j <= nv; j++)
            for (int i = 0; i < nu; i++) {
                double s = (double)j / nv;
                double angle = 6.283185307 * i / nu;
                double r = 0.1 + 0.024 * l;
                fsi_vec_store(x + 3 * (i + nu * (j + (nv + 1) * l)),
                              fsi_vec(1.2 * s, 0.8 + r * sin(angle), r * cos(angle)));
            }

    for (int j = 0; j < nv && tet; j++)
        for (int i = 0; i < nu; i++)
            /* along the edges of the brick in every order: neighbours fit */
            for (int p = 0; p < 6; p++) {
                int at[3] = {i, j, 0};
                for (int k = 0; k < 4; k++) {
                    tet[n++] = at[0] % nu + nu * (at[1] + (nv + 1) * at[2]);
                    if (k < 3)
                        at[order[p][k]]++;
                }
            }
    *tets = n / 4;
    return tet;
}

static void draw(ex_args *args, const fsi_sph *sph, const fsi_tled *tled) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1.05, 1.05, 2.5, 0.85, 0.42, 0, 1, 36);
    fsi_surface surface = fsi_tled_surface(tled);
    double lo[3] = {-0.5, -0.3, -1};
    double hi[3] = {2, 1.5, 1};
    double flo[3] = {-1, 0, -1.4};
    double fhi[3] = {2.6, 0, 1.2};
    ex_floor(&image, &camera, flo, fhi, 1, -0.3, 0.2);
    water_draw_as(&image, &camera, sph, lo, hi, 0);
    ex_mesh hose;
    hose.vertices = surface.vertex_count;
    hose.triangles = surface.element_count;
    hose.x = surface.x;
    hose.index = surface.index;

    /* a clear wall: the water is seen in it */
    hose.color = ex_rgb(90, 170, 110);
    hose.glass = 0.15;
    ex_draw_mesh(&image, &camera, &hose);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "hose",
    .what = "Water through a soft hose.",
    .size = 12,
    .frames = 60,
    .keys =
        {
            EX_NUMBER("restitution", "", "e of the collisions", "0", "0 to 1"),
            EX_NUMBER("slip", "", "delta: 0 no slip, 1 free slip", "1", "0 to 1"),
            EX_NUMBER("particles", "", "most fluid particles", "4000", "100 to 1e6"),
            EX_NUMBER("tets", "", "about so many tetrahedra", "2900", "500 to 1e6"),
            EX_NUMBER("young", "Pa", "Young's modulus", "6e5", "1e3 to 1e8"),
            EX_NUMBER("speed", "m/s", "of the water at the inlet", "1", "0.1 to 5"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;

    fsi_sph_box drain = {{0, 0, 0}, {0, 0, 0}, 0};

    int k;
    long bad = 0;
    double tip = 0;

    ex_begin(&args, argc, argv, &about);
    int nu = (int)(sqrt(ex_number(&args, "tets") / 12) + 0.5);
    int nv = 2 * nu;
    fsi_real *x;
    x = (fsi_real *)malloc((size_t)(6 * nu * (nv + 1)) * sizeof *x);
    int tets;
    int32_t *tet = x ? tube(nu, nv, x, &tets) : NULL;
    if (!tet)
        return 1;

    fsi_tled_desc given = {
        .nodes = 2 * nu * (nv + 1),
        .tets = tets,
        .x = x,
        .tet = tet,
        .density = 1000,
        .young = ex_number(&args, "young"),
        .poisson = 0.3,
        .damping = 2,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
    };

    fsi_sph_desc desc = {
        .capacity = ex_whole(&args, "particles"),
        .boundary_capacity = 2000,
        .spacing = 0.3 / args.size,
        .density = 1000,
        .sound_speed = 30,
        .viscosity = 2,
        .artificial = 0.1,
        .gravity = given.gravity,
    };

    fsi_sph sph;

    fsi_tled hose;
    ex_need(fsi_tled_init(&hose, &given));
    ex_need(fsi_sph_init(&sph, &desc));

    for (int i = 0; i < hose.nodes; i++)
        if (x[3 * i] < 0.25)
            fsi_tled_fix(&hose, i, fsi_vec(0, 0, 0));

    fsi_sph_emitter tap = {
        .centre = fsi_vec(0.08, 0.8, 0),
        .direction = fsi_vec(1, 0, 0),
        .radius = 0.065,
        .speed = ex_number(&args, "speed"),
    };

    drain.lo = fsi_vec(-10, -10, -10);
    drain.hi = fsi_vec(10, -0.3, 10);
    fsi_sph_add_emitter(&sph, &tap);
    fsi_sph_add_removal(&sph, &drain);
    drain.hi = fsi_vec(-0.02, 10, 10);
    fsi_sph_add_removal(&sph, &drain);

    /* a lid behind the tap */
    ex_need(fsi_sph_add_plane(&sph, fsi_vec(0.04, 0.68, -0.12), fsi_vec(0, 0, 0.24),
                              fsi_vec(0, 0.24, 0), fsi_vec(1, 0, 0), NULL));

    fsi_proxy_solid solid = {
        .tled = &hose,
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
            fsi_vec3 q = fsi_vec(sph.x[i], sph.y[i], sph.z[i]);
            fsi_hit hit;
            if (!pour_near(&w, i, 0.3, NULL, &hit))
                continue;
            for (k = 0; k < 3 && hose.triangle[3 * hit.element + k] >= nu * (nv + 1); k++) {
            }

            /* nearest to the outer layer and well before the outlet */
            bad += k == 3 && q.x > 0.05 && q.x < 0.9;
        }

        if (args.out)
            draw(&args, &sph, &hose);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < nu; i++)
        tip += hose.x[3 * (i + nu * nv) + 1] / nu;
    pour_results(&w, bad);

    ex_result("tets", "%d", tets);

    /* height of the outlet, m; 0.8 at rest without load */
    ex_result("tip", "%.4f", tip);
    fsi_proxy_free(&proxy);
    fsi_tled_free(&hose);
    fsi_sph_free(&sph);
    free(x);
    free(tet);
    return ex_end(&args, w.steps, w.stable);
}
