/* tled_beam: a rubber beam clamped at one end swings under its own weight, by total-Lagrangian
   explicit dynamics (Yang et al. 2012, section 3.3). It shows building tetrahedra, fixed nodes,
   the safe step, nodal-averaged pressure near incompressibility, energies.

       build/tled_beam --out out

   Result: how deep the tip swings, and the energies in the end. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "common.h"

typedef struct beam {
    int nodes;
    int tets;
    fsi_real *x;
    int32_t *tet;
} beam;

/* cubes of six tetrahedra along their long diagonals */
static beam make_beam(int nx, int ny, int nz, double h) {
    static const int path[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                   {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
    beam b;
    b.nodes = (nx + 1) * (ny + 1) * (nz + 1);
    b.tets = 0;
    b.x = (fsi_real *)malloc(3 * (size_t)b.nodes * sizeof *b.x);
    b.tet = (int32_t *)malloc(24 * (size_t)(nx * ny * nz) * sizeof *b.tet);
    if (!b.x || !b.tet)
        ex_die("%s%s", "out of memory", "");

    for (int k = 0; k <= nz; k++)
        for (int j = 0; j <= ny; j++)
            for (int i = 0; i <= nx; i++)
                fsi_vec_store(b.x + 3 * (i + (nx + 1) * (j + (ny + 1) * k)),
                              fsi_vec(i * h, j * h, k * h));

    for (int k = 0; k < nz; k++)
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++)
                for (int t = 0; t < 6; t++, b.tets++)
                    for (int c = 0; c < 4; c++) {
                        int q = path[t][c];
                        b.tet[4 * b.tets + c] =
                            i + (q & 1) + (nx + 1) * (j + (q >> 1 & 1) + (ny + 1) * (k + (q >> 2)));
                    }
    return b;
}

static void draw(ex_args *args, const fsi_tled *tled) {
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1, 0.45, 1.7, 0.5, -0.25, 0, 1, 40);
    double lo[3] = {-0.06, -0.12, -0.1};
    double hi[3] = {0.0, 0.25, 0.25};
    double flo[3] = {-1, 0, -1.2};
    double fhi[3] = {2, 0, 1.2};
    fsi_surface surface = fsi_tled_surface(tled);
    char text[96];
    ex_floor(&image, &camera, flo, fhi, 1, -0.9, 0.2);
    ex_draw_surface3(&image, &camera, &surface, ex_rgb(220, 120, 60));
    ex_box3(&image, &camera, lo, hi, ex_grey(60)); /* the clamp */
    snprintf(text, sizeof text, "%d tetrahedra, t = %.2f s", tled->tets, tled->clock[0]);
    ex_text(&image, 12, 12, 2, ex_grey(40), text);
    ex_frame(args, &image);
    ex_image_free(&image);
}

static const ex_about about = {
    .name = "tled_beam",
    .what = "A rubber beam clamped at one end swings under its own weight.",
    .size = 32,
    .frames = 60,
    .keys =
        {
            EX_WORD("material", "constitutive law", "nearly", "nearly,neohookean,stvk"),
            EX_NUMBER("young", "Pa", "Young's modulus", "3e5", "1e3 to 1e9"),
            EX_NUMBER("poisson", "", "ratio", "0.45", "0 to 0.495"),
            EX_NUMBER("average", "", "pressure from nodal volumes", "1", "0 to 1"),
            EX_NUMBER("density", "kg/m^3", "of the beam", "1000", "1 to 1e5"),
            EX_NUMBER("damping", "1/s", "mass-proportional", "1", "0 to 1e3"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
            EX_NUMBER("dt", "s", "time step, 0 = the safe one", "0", "0 to 1"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    double low = 0;
    int stable = 1;
    int inverted = 0;
    long steps = 0;

    ex_begin(&args, argc, argv, &about);
    int thick = args.size / 8 > 1 ? args.size / 8 : 1;
    double h = 1.0 / args.size;
    beam b = make_beam(args.size, thick, thick, h);
    fsi_tled_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nodes = b.nodes;
    desc.tets = b.tets;
    desc.x = b.x;
    desc.tet = b.tet;
    desc.density = ex_number(&args, "density");
    desc.young = ex_number(&args, "young");
    desc.poisson = ex_number(&args, "poisson");
    desc.material = ex_is(&args, "material", "stvk")     ? FSI_TLED_STVK
                    : ex_is(&args, "material", "nearly") ? FSI_TLED_NEARLY
                                                         : FSI_TLED_NEOHOOKEAN;
    desc.average_pressure = ex_number(&args, "average") > 0.5 && desc.material != FSI_TLED_STVK;
    desc.damping = ex_number(&args, "damping");
    desc.gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0);

    fsi_tled tled;
    ex_need(fsi_tled_init(&tled, &desc));

    for (int i = 0; i < tled.nodes; i++)
        if (tled.x0[3 * i] < (h / 2))
            fsi_tled_fix(&tled, i, fsi_vec(0, 0, 0));
    fsi_real dt = ex_number(&args, "dt") > 0 ? ex_number(&args, "dt") : fsi_tled_max_dt(&tled);

    for (int frame = 0; frame < args.frames && stable; frame++) {
        while (stable && tled.clock[0] < 0.04 * (frame + 1)) {
            if (ex_try(fsi_tled_step(&tled, dt)) < 0)
                stable = 0;
            inverted = tled.inverted > inverted ? tled.inverted : inverted;
            steps++;
        }

        for (int i = 0; i < tled.nodes; i++)
            low = fmin(low, tled.x[3 * i + 1]);
        ex_progress(&args, frame);
        if (args.out)
            draw(&args, &tled);
    }

    double kinetic;
    double elastic;
    fsi_tled_totals(&tled, &elastic, &kinetic, NULL, NULL);

    ex_result("tets", "%d", tled.tets);
    ex_result("dt", "%.3e", dt);
    ex_result("dt_critical", "%.3e", tled.dt_critical);
    ex_result("lowest", "%.4f", low);
    ex_result("kinetic", "%.4e", kinetic);
    ex_result("elastic", "%.4e", elastic);
    ex_result("inverted", "%d", inverted);
    fsi_tled_free(&tled);
    free(b.x);
    free(b.tet);
    return ex_end(&args, steps, stable);
}
