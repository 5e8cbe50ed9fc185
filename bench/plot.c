/* plot: curves from text files (two numbers a line, x and y) as one SVG, by the plotter of
   examples/common.h. build/plot OUT.svg TITLE XNAME YNAME LOGX LOGY NAME=FILE... */
#include "fsi_linalg.h"
#include "common.h"

enum {
    CURVES = 8,
    POINTS = 1000,
    FIRST_CURVE = 7 /* its argument; the six before are named above */
};

static const int color[CURVES][3] = {
    {31, 119, 180},  {214, 98, 40},  {44, 140, 60},  {150, 60, 150},
    {120, 120, 120}, {200, 160, 30}, {30, 150, 160}, {180, 40, 60},
};

/* Reads NAME=FILE into curve number n. */
static ex_curve read_curve(char *argument, int n) {
    static double x[CURVES][POINTS], y[CURVES][POINTS];
    char *path = strchr(argument, '=');
    FILE *file = path ? fopen(path + 1, "r") : NULL;
    if (!file)
        ex_die("plot: cannot read %s", argument);
    *path = 0;

    int count = 0;
    while (count < POINTS && fscanf(file, "%lf %lf", &x[n][count], &y[n][count]) == 2)
        count++;
    fclose(file);
    return (ex_curve){
        .name = argument,
        .n = count,
        .x = x[n],
        .y = y[n],
        .color = ex_rgb(color[n][0], color[n][1], color[n][2]),
    };
}

int main(int argc, char **argv) {
    ex_curve curve[CURVES];
    int count = 0;
    for (int i = FIRST_CURVE; i < argc && count < CURVES; i++) {
        curve[count] = read_curve(argv[i], count);
        count++;
    }
    if (count == 0)
        ex_die("plot OUT.svg TITLE XNAME YNAME LOGX LOGY NAME=FILE...");

    int log_x = atoi(argv[5]);
    int log_y = atoi(argv[6]);
    return !ex_plot_svg(argv[1], argv[2], argv[3], argv[4], curve, count, log_x, log_y);
}
