/* plot: curves from text files (two numbers a line, x and y) as one SVG, by the plotter of
   examples/common.h. build/plot OUT.svg TITLE XNAME YNAME LOGX LOGY NAME=FILE... */
#include "fsi_linalg.h"
#include "common.h"

enum {
    CURVES = 8,
    POINTS = 1000
};

int main(int argc, char **argv) {
    static double x[CURVES][POINTS], y[CURVES][POINTS];
    static const int color[CURVES][3] = {{31, 119, 180}, {214, 98, 40},   {44, 140, 60},
                                         {150, 60, 150}, {120, 120, 120}, {200, 160, 30},
                                         {30, 150, 160}, {180, 40, 60}};
    ex_curve curve[CURVES];
    int n = 0;

    for (int i = 7; i < argc && n < CURVES; i++, n++) {
        char *file = strchr(argv[i], '=');
        FILE *f = file ? fopen(file + 1, "r") : NULL;
        if (!f) {
            fprintf(stderr, "plot: cannot read %s\n", argv[i]);
            return 2;
        }

        *file = 0;
        curve[n].name = argv[i];
        curve[n].x = x[n];
        curve[n].y = y[n];
        curve[n].color = ex_rgb(color[n][0], color[n][1], color[n][2]);
        for (curve[n].n = 0;
             curve[n].n < POINTS && fscanf(f, "%lf %lf", &x[n][curve[n].n], &y[n][curve[n].n]) == 2;
             curve[n].n++) {
        }

        fclose(f);
    }

    if (n == 0) {
        fprintf(stderr, "plot OUT.svg TITLE XNAME YNAME LOGX LOGY NAME=FILE...\n");
        return 2;
    }

    return !ex_plot_svg(argv[1], argv[2], argv[3], argv[4], curve, n, atoi(argv[5]), atoi(argv[6]));
}
