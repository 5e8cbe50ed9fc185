/* tled_beam: a rubber beam clamped at one end swings under its own weight, by total-Lagrangian
   explicit dynamics (Yang et al. 2012, section 3.3). It shows building tetrahedra, fixed nodes,
   the safe step, nodal-averaged pressure near incompressibility, energies.

       build/tled_beam --out out

   Result: how deep the tip swings, and the energies in the end. */
#define FSI_IMPLEMENTATION
#include "fsi_sph.h"
#include "common.h"

/* A box of cubes with edge h, each cut into tetrahedra. */
typedef struct beam {
    int nx, ny, nz; /* cubes along each axis */
    double h;
    int nodes;
    int tets;
    fsi_real *x;  /* [3 * nodes] */
    int32_t *tet; /* [4 * tets] */
} beam;

static int node_at(const beam *b, int i, int j, int k) {
    return i + (b->nx + 1) * (j + (b->ny + 1) * k);
}

/* Six tetrahedra around the long diagonal of a cube. Bits of a corner's number: in x, y, z. */
static void cut_cube(beam *b, int i, int j, int k) {
    static const int corners[6][4] = {{0, 1, 3, 7}, {0, 3, 2, 7}, {0, 2, 6, 7},
                                      {0, 6, 4, 7}, {0, 4, 5, 7}, {0, 5, 1, 7}};
    for (int part = 0; part < 6; part++) {
        int32_t *tet = b->tet + 4 * b->tets;
        for (int c = 0; c < 4; c++) {
            int corner = corners[part][c];
            int in_x = corner & 1;
            int in_y = corner >> 1 & 1;
            int in_z = corner >> 2;
            tet[c] = node_at(b, i + in_x, j + in_y, k + in_z);
        }
        b->tets++;
    }
}

/* One metre long, an eighth as thick, n cubes along its length. */
static void make_beam(beam *b, int n) {
    b->nx = n;
    b->ny = b->nz = n / 8 > 1 ? n / 8 : 1;
    b->h = 1.0 / n;
    b->nodes = (b->nx + 1) * (b->ny + 1) * (b->nz + 1);
    b->x = ex_alloc(3 * (size_t)b->nodes, sizeof *b->x);
    b->tet = ex_alloc(24 * (size_t)(b->nx * b->ny * b->nz), sizeof *b->tet);

    for (int k = 0; k <= b->nz; k++)
        for (int j = 0; j <= b->ny; j++)
            for (int i = 0; i <= b->nx; i++) {
                fsi_vec3 at = fsi_vec(i * b->h, j * b->h, k * b->h);
                fsi_vec_store(b->x + 3 * node_at(b, i, j, k), at);
            }

    b->tets = 0;
    for (int k = 0; k < b->nz; k++)
        for (int j = 0; j < b->ny; j++)
            for (int i = 0; i < b->nx; i++)
                cut_cube(b, i, j, k);
}

static fsi_tled_material material_of(const ex_args *args) {
    if (ex_is(args, "material", "stvk"))
        return FSI_TLED_STVK;
    if (ex_is(args, "material", "nearly"))
        return FSI_TLED_NEARLY;
    return FSI_TLED_NEOHOOKEAN;
}

/* The beam as a solid, clamped at its left end. */
static void clamp_beam(fsi_tled *tled, const beam *b, const ex_args *args) {
    fsi_tled_desc desc = {
        .nodes = b->nodes,
        .tets = b->tets,
        .x = b->x,
        .tet = b->tet,
        .material = material_of(args),
        .density = ex_number(args, "density"),
        .young = ex_number(args, "young"),
        .poisson = ex_number(args, "poisson"),
        .damping = ex_number(args, "damping"),
        .gravity = fsi_vec(0, -ex_number(args, "gravity"), 0),
    };

    /* St. Venant-Kirchhoff has no pressure to average. */
    int average = ex_number(args, "average") > 0.5;
    desc.average_pressure = average && desc.material != FSI_TLED_STVK;
    ex_need(fsi_tled_init(tled, &desc));

    for (int i = 0; i < tled->nodes; i++)
        if (tled->x0[3 * i] < b->h / 2)
            fsi_tled_fix(tled, i, fsi_vec(0, 0, 0));
}

static double lowest_node(const fsi_tled *tled) {
    double low = 0;
    for (int i = 0; i < tled->nodes; i++)
        low = fmin(low, tled->x[3 * i + 1]);
    return low;
}

/* ---- pictures */
static void draw(ex_args *args, const fsi_tled *tled) {
    double clamp_from[3] = {-0.06, -0.12, -0.1};
    double clamp_to[3] = {0.0, 0.25, 0.25};
    double floor_from[3] = {-1, 0, -1.2};
    double floor_to[3] = {2, 0, 1.2};
    ex_image image = ex_image_make(720, 480);
    ex_camera camera = ex_camera_make(1, 0.45, 1.7, 0.5, -0.25, 0, 1, 40);
    fsi_surface surface = fsi_tled_surface(tled);
    ex_floor(&image, &camera, floor_from, floor_to, 1, -0.9, 0.2);
    ex_draw_surface3(&image, &camera, &surface, ex_rgb(220, 120, 60));
    ex_box3(&image, &camera, clamp_from, clamp_to, ex_grey(60));

    char text[96];
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
    ex_begin(&args, argc, argv, &about);

    beam rubber;
    fsi_tled tled;
    make_beam(&rubber, args.size);
    clamp_beam(&tled, &rubber, &args);
    fsi_real dt = ex_number(&args, "dt");
    if (!(dt > 0))
        dt = fsi_tled_max_dt(&tled);

    /* Many small explicit steps for each picture, 0.04 s apart. */
    double low = 0;
    int inverted = 0;
    long steps = 0;
    for (int frame = 0; frame < args.frames && ex_fine(); frame++) {
        while (ex_fine() && tled.clock[0] < 0.04 * (frame + 1)) {
            ex_try(fsi_tled_step(&tled, dt));
            inverted = tled.inverted > inverted ? tled.inverted : inverted;
            steps++;
        }

        low = fmin(low, lowest_node(&tled));
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
    free(rubber.x);
    free(rubber.tet);
    return ex_end(&args, steps, ex_fine());
}
