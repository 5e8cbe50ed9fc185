/* picture: writes the README's animated picture, docs/balls.svg: the balls of examples/balls.c as
   plain text, water and balls in one path each. build/picture docs/balls.svg */
#include "fsi_couple.h"
#include <math.h>
#include <stdio.h>

/* STILL: the frame shown where nothing moves */
enum {
    NX = 96,
    NY = 48,
    FRAMES = 90,
    BALLS = 4,
    STILL = 30
};

static float height[FRAMES][NX + 1], at[FRAMES][BALLS][3];

static fsi_real water(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - FSI_R(0.55);
}

/* Height of the water in a column: the highest cell where it ends, seen from below. */
static float column(const fsi_grid *grid, int i) {
    for (int j = NY - 1; j > 0; j--) {
        double a = (double)grid->phi[i + NX * (j - 1)];
        double b = (double)grid->phi[i + NX * j];
        if (a < 0 && b >= 0)
            return (float)((double)grid->h * (j - 0.5 + a / (a - b)));
    }

    return 0;
}

static void record(const fsi_world *world, int f) {
    for (int i = 0; i <= NX; i++) {
        int l = i > 0 ? i - 1 : 0;
        int r = i < NX ? i : NX - 1;
        height[f][i] = (column(&world->grid, l) + column(&world->grid, r)) / 2;
    }

    for (int i = 0; i < BALLS; i++) {
        const fsi_rigid *body = fsi_world_rigid(world, i);
        at[f][i][0] = (float)body->x.x;
        at[f][i][1] = (float)body->x.y;
        at[f][i][2] = (float)(2 * atan2((double)body->q.z, (double)body->q.w) * -57.29578);
    }
}

/* one animated number of a ball over all frames */
static void values(FILE *file, int ball, int what) {
    for (int f = 0; f < FRAMES; f++) {
        if (f)
            fprintf(file, ";");
        if (what == 0)
            fprintf(file, "%.1f %.1f", 300 * at[f][ball][0], 300 - 300 * at[f][ball][1]);
        else
            fprintf(file, "%.0f", at[f][ball][2]);
    }
}

static void surface(FILE *file, int f) {
    fprintf(file, "M0 300");

    for (int i = 0; i <= NX; i += 2)
        fprintf(file, " %s%.4g %.0f", i ? "" : "L", 600.0 * i / NX,
                300 - 300 * (double)height[f][i]);
    fprintf(file, " 600 300Z");
}

int main(int argc, char **argv) {
    static const double density[BALLS] = {0.1, 0.5, 0.9, 10};
    static const char *color[BALLS] = {"#f3c74f", "#ee964b", "#d1603d", "#59324c"};

    FILE *file = fopen(argc > 1 ? argv[1] : "docs/balls.svg", "w");

    fsi_world_desc desc = {
        .grid.nx = NX,
        .grid.ny = NY,
        .grid.nz = 1,
        .grid.h = FSI_R(2.0) / NX,
        .grid.rho = 1000,
        .grid.gravity = fsi_vec(0, FSI_R(-9.81), 0),
        .grid.liquid = 1,
        .grid.side[FSI_TOP].kind = FSI_SIDE_OPEN,
        .max_bodies = BALLS,
    };

    fsi_shape_desc given = {
        .kind = FSI_SHAPE_SPHERE,
        .dim = 2,
        .radius = FSI_R(0.13),
        .resolution = 32,
    };

    fsi_world world;

    fsi_shape ball;
    if (!file || fsi_world_init(&world, &desc) != FSI_OK || fsi_shape_init(&ball, &given) != FSI_OK)
        return 1;

    for (int i = 0; i < BALLS; i++) {
        fsi_rigid_desc options = {
            .kind = FSI_RIGID_DYNAMIC,
            .shape = &ball,
            .density = (fsi_real)(1000 * density[i]),
            .x = fsi_vec((fsi_real)(2.0 * (i + 0.5) / BALLS), FSI_R(0.8), 0),
            .friction = FSI_R(0.2),
        };

        fsi_world_add(&world, &options);
    }

    fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, water, NULL);

    for (int f = 0; f < FRAMES; f++) {
        record(&world, f);
        for (int i = 0; i < 6; i++)
            if (fsi_world_step(&world, FSI_R(0.005), NULL) < 0)
                return 1;
    }

    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 300\" width=\"600\" "
                  "height=\"300\">\n<rect width=\"600\" height=\"300\" fill=\"#f6f8fa\"/>\n");
    fprintf(file, "<path fill=\"#4f9bd9\" d=\"");
    surface(file, STILL);
    fprintf(file,
            "\"><animate attributeName=\"d\" dur=\"2.7s\" repeatCount=\"indefinite\" values=\"");

    for (int f = 0; f < FRAMES; f++) {
        if (f)
            fprintf(file, ";\n");
        surface(file, f);
    }

    fprintf(file, "\"/></path>\n");

    for (int i = 0; i < BALLS; i++) {
        fprintf(
            file,
            "<g transform=\"translate(%.1f %.1f)\"><animateTransform attributeName=\"transform\" "
            "type=\"translate\" dur=\"2.7s\" repeatCount=\"indefinite\" values=\"",
            300 * (double)at[STILL][i][0], 300 - 300 * (double)at[STILL][i][1]);
        values(file, i, 0);
        fprintf(file, "\"/>\n<g><animateTransform attributeName=\"transform\" type=\"rotate\" "
                      "dur=\"2.7s\" repeatCount=\"indefinite\" values=\"");
        values(file, i, 1);
        fprintf(file,
                "\"/>\n<circle r=\"39\" fill=\"%s\" stroke=\"#333\"/><path d=\"M0 0H39\" "
                "stroke=\"#333\"/></g>\n",
                color[i]);
        fprintf(file,
                "<text y=\"5\" font-family=\"sans-serif\" font-size=\"15\" text-anchor=\"middle\" "
                "fill=\"#fff\">%g</text></g>\n",
                density[i]);
    }

    fprintf(file, "</svg>\n");
    fclose(file);
    fsi_world_free(&world);
    fsi_shape_free(&ball);
    return 0;
}
