/* published.h: curves that others measured or computed, as points, and how far ours is from them.
 */
#ifndef PUBLISHED_H
#define PUBLISHED_H

enum {
    PUBLISHED_POINTS = 40 /* most points of a curve */
};

typedef struct published {
    int count;
    double x[PUBLISHED_POINTS]; /* ascending */
    double y[PUBLISHED_POINTS];
} published;

/* Depth over diameter of a falling cylinder of half the water's density, over time in
   sqrt(D / g): boundary elements beside the experiment of Greenhow and Lin 1983, read off a figure.
 */
EX const published published_cylinder_half = {
    .count = 18,
    .x = {0.0044, 0.0459, 0.0873, 0.1507, 0.2358, 0.3210, 0.4039, 0.5044, 0.5873, 0.6681, 0.7314,
          0.8384, 0.9127, 0.9847, 1.0786, 1.1594, 1.2205, 1.2795},
    .y = {0.0047, 0.0877, 0.1588, 0.2631, 0.4054, 0.5263, 0.6449, 0.7683, 0.8680, 0.9559, 1.0271,
          1.1293, 1.1934, 1.2671, 1.3361, 1.3885, 1.4384, 1.4789},
};

/* The same for a cylinder as dense as the water. */
EX const published published_cylinder_neutral = {
    .count = 15,
    .x = {0.0032, 0.1122, 0.25, 0.3686, 0.4487, 0.5865, 0.7083, 0.8622, 0.9679, 1.0769, 1.2692,
          1.3814, 1.5577, 1.6923, 1.8109},
    .y = {0, 0.2448, 0.5469, 0.75, 0.8906, 1.125, 1.3177, 1.5417, 1.6979, 1.8646, 2.0885, 2.2240,
          2.4115, 2.5573, 2.6719},
};

/* Speed in m/s of a falling wedge, 25 degrees, 94 kg/m, over time in ms: experiment of Yettou,
   Desrochers and Champoux 2006, read off a figure. */
EX const published published_wedge = {
    .count = 35,
    .x = {0.30,  1.91,  3.03,  4.10,  5.05,  5.94,  6.76,  7.65,  8.59,  9.77,  10.83, 11.77,
          12.54, 13.12, 14.01, 14.77, 15.36, 16.13, 16.78, 17.55, 18.37, 19.14, 19.80, 20.86,
          22.35, 24.31, 25.97, 28.82, 30.48, 31.91, 33.39, 34.81, 36.60, 38.38, 39.93},
    .y = {5.0536, 5.0183, 4.965,  4.8938, 4.8136, 4.7335, 4.6354, 4.4838, 4.3412,
          4.1361, 3.9578, 3.7437, 3.6546, 3.4940, 3.3513, 3.2087, 3.0749, 2.9679,
          2.8877, 2.7896, 2.6916, 2.6293, 2.5669, 2.5047, 2.4068, 2.3626, 2.2915,
          2.1761, 2.0693, 2.0071, 1.9360, 1.8649, 1.8385, 1.7675, 1.7768},
};

EX double published_end(const published *curve) {
    return curve->x[curve->count - 1];
}

/* Value at a time of a curve given by points, linear between them. */
EX double published_at(int count, const double *x, const double *y, double time) {
    int i = 1;
    while (i < count - 1 && x[i] < time)
        i++;
    double share = (time - x[i - 1]) / (x[i] - x[i - 1]);
    return y[i - 1] + share * (y[i] - y[i - 1]);
}

/* Root of the mean square distance to the published points that our curve reaches, in parts of the
   largest published value. */
EX double published_rms(const published *curve, int count, const double *x, const double *y) {
    double sum = 0;
    double largest = 0;
    int used = 0;
    for (int i = 0; i < curve->count; i++) {
        largest = fmax(largest, fabs(curve->y[i]));
        if (count < 2 || curve->x[i] > x[count - 1])
            continue;
        double distance = published_at(count, x, y, curve->x[i]) - curve->y[i];
        sum += distance * distance;
        used++;
    }

    return used > 0 ? sqrt(sum / used) / largest : NAN;
}

/* Still water up to a level. */
EX fsi_real published_water(fsi_vec3 x, void *user) {
    return x.y - *(const fsi_real *)user;
}

EX void published_fill(fsi_grid *grid, double level) {
    fsi_real height = level;
    ex_need(fsi_grid_set_field(grid, FSI_FIELD_PHI, published_water, &height));
}
#endif
