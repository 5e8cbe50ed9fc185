/* board: the same drop of fluid on four reclining boards side by side: no slip, free slip,
   elastic, inelastic (Yang et al. 2012, fig. 10). Each board is a solid of its own with its own
   restitution and slip; all of them and the fluid are one simulation.

       build/board --out out
       build/board --set angle=0.8   steeper boards

   Result: how far the drop slid on each board, and its mean height. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"
#include "pour.h"

enum {
    BOARDS = 4
};

static void draw(ex_args *args, const fsi_sph *sph, const fsi_tled *tled) {
    static const char *name[BOARDS] = {"NO SLIP", "FREE SLIP", "ELASTIC", "INELASTIC"};
    ex_image image = ex_image_make(900, 420);
    ex_camera camera = ex_camera_make(1.35, 0.95, 3.6, 1.35, 0.33, 0, 1, 26);
    double lo[3] = {-0.3, -0.05, -0.6};
    double hi[3] = {3, 1, 1};
    ex_floor(&image, &camera, lo, hi, 1, -0.05, 0.2);

    for (int k = 0; k < BOARDS; k++) {
        fsi_surface surface = fsi_tled_surface(&tled[k]);
        ex_draw_surface3(&image, &camera, &surface, ex_rgb(190, 150, 100));
        ex_text(&image, 95 + 200 * k, 392, 1, ex_grey(60), name[k]);
    }

    water_draw(&image, &camera, sph, lo, hi);
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* A board of n x n bricks, leant and put in its place. */
static fsi_result lean(fsi_mesh *mesh, int n, double x0, double angle) {
    fsi_result result =
        fsi_mesh_box(mesh, fsi_vec(-0.3, -0.04, -0.25), fsi_vec(0.3, 0, 0.25), n, 1, n, 0, NULL);

    for (int i = 0; result == FSI_OK && i < mesh->vertex_count; i++) {
        double x = mesh->x[3 * i];
        double y = mesh->x[3 * i + 1];
        mesh->x[3 * i] = x0 + x * cos(angle) + y * sin(angle);
        mesh->x[3 * i + 1] = 0.25 - x * sin(angle) + y * cos(angle);
    }

    return result;
}

static const ex_about about = {
    .name = "board",
    .what = "Four boundary conditions side by side.",
    .size = 8,
    .frames = 40,
    .keys =
        {
            EX_NUMBER("restitution", "", "e of the elastic board", "0.8", "0 to 1"),
            EX_NUMBER("slip", "", "delta of the slippery boards", "1", "0 to 1"),
            EX_NUMBER("particles", "", "most fluid particles", "10000", "100 to 1e6"),
            EX_NUMBER("tets", "", "about so many tetrahedra per board", "400", "50 to 1e6"),
            EX_NUMBER("angle", "rad", "of the boards", "0.5", "0 to 1.4"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    static const char *slide_name[BOARDS] = {"slide_noslip", "slide_slip", "slide_elastic",
                                             "slide_inelastic"};
    static const char *high_name[BOARDS] = {"height_noslip", "height_slip", "height_elastic",
                                            "height_inelastic"};
    ex_args args;
    fsi_sph_desc desc = {0};
    fsi_tled board[BOARDS];

    fsi_mesh mesh[BOARDS];

    fsi_proxy_solid solid[BOARDS];
    fsi_bvh tree[BOARDS];
    int first[BOARDS + 1] = {0};
    long bad = 0;
    double slide[BOARDS] = {0};
    double high[BOARDS] = {0};

    ex_begin(&args, argc, argv, &about);
    double angle = ex_number(&args, "angle");
    memset(solid, 0, sizeof solid);
    int n = (int)fmax(3, sqrt(ex_number(&args, "tets") / 6) + 0.5);
    desc.capacity = ex_whole(&args, "particles");

    /* coarser where they would not fit */
    double dt;

    for (dt = 0.24 / args.size;
         BOARDS * ceil(0.24 / dt) * ceil(0.18 / dt) * ceil(0.24 / dt) > desc.capacity; dt *= 1.02) {
    }

    desc.spacing = dt;
    desc.density = 1000;
    desc.sound_speed = 30;
    desc.viscosity = 1;
    desc.artificial = 0.05;
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);

    fsi_sph sph;
    ex_need(fsi_sph_init(&sph, &desc));

    fsi_tled_desc given = {
        .density = 1000,
        .young = 2e6,
        .poisson = 0.3,
        .damping = 5,
    };

    int k;

    for (k = 0; k < BOARDS; k++) {
        double x0 = 0.9 * k;
        if (lean(&mesh[k], n, x0, angle) != FSI_OK)
            return 1;
        given.nodes = mesh[k].vertex_count;
        given.tets = mesh[k].tet_count;
        given.x = mesh[k].x;
        given.tet = mesh[k].tet;
        ex_need(fsi_tled_init(&board[k], &given));

        /* both ends held */
        for (int i = 0; i < given.nodes; i++)
            if (fabs(mesh[k].x[3 * i] - x0) > 0.24)
                fsi_tled_fix(&board[k], i, fsi_vec(0, 0, 0));
        ex_need(fsi_sph_add_block(&sph, fsi_vec(x0 - 0.22, 0.5, -0.12),
                                  fsi_vec(x0 + 0.02, 0.68, 0.12), fsi_vec(0, -1, 0), NULL));
        first[k + 1] = sph.now.count; /* ids of this board's fluid */
        solid[k].tled = &board[k];
        solid[k].slip = k == 0 ? 0 : ex_number(&args, "slip");
        solid[k].restitution = k == 2 ? ex_number(&args, "restitution") : 0;
    }

    solid[3].slip = 0.9;

    fsi_proxy_desc options = {
        .sph = &sph,
        .solid = solid,
        .count = BOARDS,
    };

    fsi_proxy proxy;
    pour w;
    ex_need(pour_begin(&w, &proxy, &options, 0.01));

    for (k = 0; k < BOARDS; k++)
        ex_need(fsi_bvh_init(&tree[k], board[k].triangles, NULL));

    for (int frame = 0; frame < args.frames && pour_frame(&w); frame++) {
        memset(slide, 0, sizeof slide);
        memset(high, 0, sizeof high);
        for (k = 0; k < BOARDS; k++)
            ex_need(fsi_bvh_build(&tree[k], &solid[k].door.surface));
        for (int i = 0; i < sph.now.count; i++) {
            fsi_vec3 x = fsi_vec(sph.x[i], sph.y[i], sph.z[i]);
            for (k = 0; sph.id[i] >= first[k + 1]; k++) {
            }
            slide[k] += (x.x - 0.9 * k + 0.1) / (first[k + 1] - first[k]);
            high[k] += x.y / (first[k + 1] - first[k]);
            fsi_hit hit;
            int s;
            if (!pour_near(&w, i, desc.spacing, &s, &hit))
                continue;
            bad += fsi_bvh_inside(&tree[s], x);
        }

        if (args.out)
            draw(&args, &sph, board);
        ex_progress(&args, frame);
    }

    pour_results(&w, bad);

    /* mean way down the slope, m */
    for (k = 0; k < BOARDS; k++)
        ex_result(slide_name[k], "%.4f", slide[k]);

    for (k = 0; k < BOARDS; k++)
        ex_result(high_name[k], "%.4f", high[k]); /* mean height, m */
    fsi_proxy_free(&proxy);
    fsi_sph_free(&sph);

    for (k = 0; k < BOARDS; k++) {
        fsi_bvh_free(&tree[k]);
        fsi_tled_free(&board[k]);
        fsi_mesh_free(&mesh[k]);
    }

    return ex_end(&args, w.steps, w.stable);
}
