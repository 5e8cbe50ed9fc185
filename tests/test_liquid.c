/* Whole liquid steps through fsi_grid: waves, U-tube, dam break, jet, symmetry. */
#define FSI_IMPLEMENTATION
#include "fsi_grid.h"
#include "greatest.h"
#include "check.h"

#define PI 3.14159265358979323846
#define G 9.81

static fsi_grid_desc tank(int nx, int ny, int nz, double h) {
    fsi_grid_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = nx;
    desc.ny = ny;
    desc.nz = nz;
    desc.h = (fsi_real)h;
    desc.rho = 1000;
    desc.gravity = fsi_vec(0, (fsi_real)-G, 0);
    desc.liquid = 1;
    return desc;
}

/* ------------------------------------------------------------------------------------------------
 * waves */
static fsi_real wave_fn(fsi_vec3 x, void *user) {
    (void)user;
    return x.y - (fsi_real)(0.5 + 0.01 * cos(PI * (double)x.x));
}

/* highest crossing in column i, m */
static double surface_height(const fsi_grid *grid, int i) {
    for (int j = grid->ny - 2; j >= 0; j--) {
        double p = (double)grid->phi[i + grid->nx * j],
               q = (double)grid->phi[i + grid->nx * (j + 1)];
        if (p < 0 && q >= 0)
            return (j + 0.5 + p / (p - q)) * (double)grid->h;
    }
    return 0;
}

static double first_mode(const fsi_grid *grid) {
    double a = 0;
    for (int i = 0; i < grid->nx; i++)
        a += 2.0 / grid->nx * (surface_height(grid, i) - 0.5) * cos(PI * (i + 0.5) / grid->nx);
    return a;
}

typedef struct wave {
    double omega, kept, most;
    int failed;
} wave;

/* Five periods of the standing wave in a unit box half full; kept: last maximum over the first,
 * most: largest ever over the first. */
static wave run_wave(int n, int per_period) {
    double exact = sqrt(G * PI * tanh(PI * 0.5)), dt = 2 * PI / exact / per_period, top = 0,
           first = -1, last = 0;
    int crossings = 0;
    fsi_grid_desc desc = tank(n, n, 1, 1.0 / n);
    wave w;
    memset(&w, 0, sizeof w);
    desc.tolerance = TOL(1e-9, 1e-5);
    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) < 0
        || fsi_grid_set_field(&grid, FSI_FIELD_PHI, wave_fn, NULL) < 0) {
        w.failed = 1;
        return w;
    }
    double before;
    double start = before = first_mode(&grid);
    for (int s = 0; s < (int)(5.3 * per_period); s++) {
        if (fsi_grid_step(&grid, (fsi_real)dt, NULL) < 0)
            w.failed = 1;
        double a = first_mode(&grid);
        if (a * before < 0) {
            last = (s + before / (before - a)) * dt;
            if (first < 0)
                first = last;
            crossings++;
            if (crossings > 1)
                w.kept = top / start;
            top = 0;
        }
        if (fabs(a) > top)
            top = fabs(a);
        if (fabs(a) / start > w.most)
            w.most = fabs(a) / start;
        before = a;
    }
    w.omega = PI * (crossings - 1) / (last - first);
    fsi_grid_free(&grid);
    return w;
}

TEST F_13_standing_wave_frequency(void) {
    double exact = sqrt(G * PI * tanh(PI * 0.5));
    wave w = run_wave(32, 60);
    printf("  32 cells: omega %.5f, exact %.5f, %+.3f %%\n", w.omega, exact,
           100 * (w.omega / exact - 1));
    ASSERT(!w.failed);
    CHECK_REL(exact, w.omega, 0.003);
    PASS();
}

TEST F_14_wave_amplitude_is_kept(void) {
    wave w = run_wave(getenv("FSI_TEST_FULL") ? 64 : 32, 60);
    printf("  after 5 periods %.2f %% of the amplitude, at most %.2f %%\n", 100 * w.kept,
           100 * w.most);
    ASSERT(!w.failed);
    ASSERT(w.kept >= 0.8);
    CHECK_MOST(w.most, 1.02);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * U-tube */
static fsi_real utube_fn(fsi_vec3 x, void *user) {
    double top = *(const double *)user;
    /* legs 1 m wide at [0,1] and [4,5] */
    return x.y - (fsi_real)((double)x.x < 2.5 ? top + 0.1 : top - 0.1);
}

/* Two legs of width 1 (16 cells) joined by a channel of height 1; a square 90 degree bend of a
 * potential flow counts 0.5587 widths instead of 1. */
TEST F_15_u_tube(void) {
    const int n = 16, nx = 5 * n, ny = 5 * n;
    double top = 3.5, before = 0, first = -1, last = 0;
    fsi_grid_desc desc = tank(nx, ny, 1, 1.0 / n);
    uint8_t *solid = (uint8_t *)calloc((size_t)(nx * ny), 1);
    fsi_occlusion occlusion;
    int crossings = 0;
    memset(&occlusion, 0, sizeof occlusion);
    for (int c = 0; c < nx * ny; c++)
        solid[c] = c / nx >= n && c % nx >= n && c % nx < 4 * n;
    occlusion.solid = solid;
    /* straight parts and two bends */
    double L = 2 * (top - 1) + 3 + 2 * 0.5587;
    double exact = sqrt(2 * G / L);
    double dt = 2 * PI / exact / 80;
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_occlusion(&grid, &occlusion));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, utube_fn, &top));
    for (int s = 0; s < 125; s++) {
        double a = surface_height(&grid, n / 2) - surface_height(&grid, nx - n / 2);
        if (s && a * before < 0) {
            last = (s - 1 + before / (before - a)) * dt;
            if (first < 0)
                first = last;
            crossings++;
        }
        before = a;
        ASSERT(fsi_grid_step(&grid, (fsi_real)dt, NULL) >= 0);
    }
    ASSERT(crossings >= 2);
    printf("  omega %.4f, exact %.4f, %+.2f %%\n", PI * (crossings - 1) / (last - first), exact,
           100 * (PI * (crossings - 1) / (last - first) / exact - 1));
    CHECK_REL(exact, PI * (crossings - 1) / (last - first), 0.03);
    fsi_grid_free(&grid);
    free(solid);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * dam break */
typedef struct column {
    double width, height, from;
    int mirrored;
} column;

static fsi_real column_fn(fsi_vec3 x, void *user) {
    const column *c = (const column *)user;
    double qx = (c->mirrored ? c->from - (double)x.x : (double)x.x - c->from) - c->width,
           qy = (double)x.y - c->height;
    if (qx > 0 && qy > 0)
        return (fsi_real)sqrt(qx * qx + qy * qy);
    return (fsi_real)(qx > qy ? qx : qy);
}

/* farthest wet point of the lowest three rows, m */
static double dam_front(const fsi_grid *grid) {
    double x = 0;
    for (int j = 0; j < 3; j++)
        for (int i = grid->nx - 2; i >= 0; i--) {
            double p = (double)grid->phi[i + grid->nx * j],
                   q = (double)grid->phi[i + 1 + grid->nx * j];
            if (!(p < 0))
                continue;
            double at = q < 0 ? grid->nx : i + 0.5 + p / (p - q);
            if (at * (double)grid->h > x)
                x = at * (double)grid->h;
            break;
        }
    return x;
}

/* Column a x 2a with n cells over a; Z at the experiment's times minus the delay of the gate.
 * Returns the volume change, relative. */
static double dam_run(int n, double until, int count, const double *T, double delay, double *Z,
                      double *speed) {
    const double a = 0.05715, unit = sqrt(2 * G / a);
    fsi_grid_desc desc = tank(7 * n, 3 * n, 1, a / n);
    column c;
    double before = 1, tb = 0, z_at = 0, t_at = 0;
    int k = 0;
    memset(&c, 0, sizeof c);
    c.width = a;
    c.height = 2 * a;
    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) < 0
        || fsi_grid_set_field(&grid, FSI_FIELD_PHI, column_fn, &c) < 0)
        return 1e30;
    double volume = grid.levelset.state->target;
    while (grid.time * unit < until) {
        /* the start is the delicate part */
        grid.desc.cfl = grid.time * unit < 1.2 ? FSI_R(0.25) : FSI_R(0.5);
        if (fsi_grid_step(&grid, fsi_grid_max_dt(&grid), NULL) < 0)
            break;
        double t = grid.time * unit;
        double z = dam_front(&grid) / a;
        for (; k < count && t >= T[k] - delay; k++)
            Z[k] = before + (z - before) * (T[k] - delay - tb) / (t - tb);
        if (t < 2) {
            z_at = z;
            t_at = t;
        }
        before = z;
        tb = t;
    }
    /* mean dZ/dT from T = 2 on */
    if (speed)
        *speed = (before - z_at) / (tb - t_at);
    double out = fsi_levelset_volume(&grid.levelset, NULL, NULL) / volume - 1;
    fsi_grid_free(&grid);
    return out;
}

TEST F_16_dam_break_front(void) {
    /* Martin and Moyce, a = 2.25 in */
    static const double T[4] = {1.219, 1.997, 2.547, 3.345},
                        measured[4] = {1.474, 2.292, 2.995, 4.134};
    double Z[4] = {0, 0, 0, 0}, speed, volume = dam_run(20, 4.0, 4, T, 0.15, Z, &speed);
    for (int k = 0; k < 4; k++)
        printf("  T = %.3f: Z = %.3f, measured %.3f, %+.1f %%\n", T[k], Z[k], measured[k],
               100 * (Z[k] / measured[k] - 1));
    printf("  dZ/dT = %.2f, volume %+.3f %%\n", speed, 100 * volume);
    for (int k = 0; k < 4; k++)
        CHECK_REL(measured[k], Z[k], 0.10);
    ASSERT(speed > 1.2 && speed < 2.0); /* Ritter: 2 */
    CHECK_NEAR(0, volume, 0.03);
    PASS();
}

TEST F_17_dam_break_volume(void) {
    static const double limit[3] = {0.03, 0.015, 0.008};
    int most = getenv("FSI_TEST_FULL") ? 3 : 1;
    for (int k = 0; k < most; k++) {
        double v = dam_run(20 << k, most > 1 ? 5.0 : 4.5, 0, NULL, 0, NULL, NULL);
        printf("  %d cells over a: volume %+.3f %% at the end\n", 20 << k, 100 * v);
        CHECK_NEAR(0, v, limit[k]);
    }
    PASS();
}

/* The dam break and its mirror image after 50 steps; markers on the regular lattice, so that they
 * are mirrored too. */
TEST F_22_mirrored_dam_break(void) {
    for (int markers = -1; markers <= 4; markers += 5) {
        const int nx = 48, ny = 32, steps = 50;
        fsi_grid_desc desc = tank(nx, ny, 1, 1.0 / 32);
        fsi_grid grid[2];
        column c;
        double worst = 0, fastest = 0;
        desc.particles = markers;
        desc.tolerance = TOL(1e-12, 1e-6);
        for (int k = 0; k < 2; k++) {
            c.width = 0.413;
            c.height = 0.617;
            c.mirrored = k;
            c.from = k ? 1.5 : 0;
            CHECK_OK(fsi_grid_init(&grid[k], &desc));
            grid[k].levelset.desc.even = 1;
            CHECK_OK(fsi_grid_set_field(&grid[k], FSI_FIELD_PHI, column_fn, &c));
            for (int s = 0; s < steps; s++)
                ASSERT(fsi_grid_step(&grid[k], FSI_R(0.008), NULL) >= 0);
        }
        for (int j = 0; j < ny; j++)
            for (int i = 0; i < nx; i++) {
                double e = fabs(
                           (double)(grid[0].phi[i + nx * j] - grid[1].phi[nx - 1 - i + nx * j])),
                       u = (double)grid[0].u[0][i + (nx + 1) * j];
                double eu = fabs(u + (double)grid[1].u[0][nx - i + (nx + 1) * j]);
                if (e > worst)
                    worst = e;
                if (eu > worst)
                    worst = eu;
                if (fabs(u) > fastest)
                    fastest = fabs(u);
            }
        printf("  %s markers: largest difference %.2e, speed %.2f\n", markers < 0 ? "no" : "with",
               worst, fastest);
        ASSERT(fastest > 1);
        CHECK_MOST(worst, TOL(1e-9, 0.05));
        fsi_grid_free(&grid[0]);
        fsi_grid_free(&grid[1]);
    }
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * jet */
/* A block of liquid on its way, or water up to a level. */
static fsi_real block_fn(fsi_vec3 x, void *user) {
    const int *flies = (const int *)user;
    double across = fabs((double)x.x - 1.55) - 0.35, along = fabs((double)x.y - 0.5) - 0.25;
    return (fsi_real)(*flies ? fmax(across, along) : (double)x.y - 0.5);
}

static fsi_vec3 flight_fn(fsi_vec3 x, double time, void *user) {
    (void)x;
    (void)time;
    return fsi_vec(*(const int *)user ? 1 : 0, 0, 0);
}

/* F-24: what leaves through an open side, and what sources make or take, is no drift: the volume
   that is kept follows it. */
TEST F_24_flow_through_the_sides_is_no_drift(void) {
    const double h = 1.0 / 32, dt = 0.01;
    for (int kind = 0; kind < 3; kind++) {
        int flies = kind == 0;
        fsi_grid_desc desc = tank(64, 32, 1, h);
        desc.gravity = fsi_vec(0, 0, 0);
        if (flies) {
            desc.side[FSI_LEFT].kind = FSI_SIDE_INFLOW;
            desc.side[FSI_LEFT].velocity.x = 1;
            desc.side[FSI_RIGHT].kind = FSI_SIDE_OPEN;
        }
        fsi_grid grid;
        CHECK_OK(fsi_grid_init(&grid, &desc));
        CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, block_fn, &flies));
        CHECK_OK(fsi_grid_set_velocity(&grid, flight_fn, &flies));
        fsi_grid_source source;
        memset(&source, 0, sizeof source);
        source.lo = fsi_vec(1, 0, 0);
        source.hi = fsi_vec(FSI_R(1.25), FSI_R(0.125), 0);
        source.set = FSI_SOURCE_DIVERGENCE;
        source.divergence = kind == 1 ? FSI_R(3.2) : FSI_R(-3.2);
        if (!flies)
            CHECK_OK(fsi_grid_add_source(&grid, &source));
        double before = fsi_levelset_volume(&grid.levelset, NULL, NULL);
        int steps = flies ? 40 : 20;
        for (int i = 0; i < steps; i++)
            ASSERT(fsi_grid_step(&grid, (fsi_real)dt, NULL) >= 0);
        double gained = fsi_levelset_volume(&grid.levelset, NULL, NULL) - before;
        double given = 3.2 * 0.25 * 0.125 * steps * dt * (kind == 1 ? 1 : -1);
        if (flies)
            given = -0.5 * (1.9 + steps * dt - 2);
        CHECK_NEAR(given, gained, 0.02 * fabs(given));
        fsi_grid_free(&grid);
    }
    PASS();
}

static fsi_real above_fn(fsi_vec3 x, void *user) {
    const double *y = (const double *)user;
    double lo = y[0] - (double)x.y, hi = (double)x.y - y[1];
    return (fsi_real)(lo > hi ? lo : hi);
}

/* Half of a tank with a slit of B/10 in its thin floor: closed faces, no thickness; 8 cells over
 * half the slit. */
TEST F_18_torricelli(void) {
    const int nx = 80, hole = 8, below = 32, full = 64, ny = below + full + 8;
    const double h = 1.0 / nx;
    double y[2], scale = sqrt(2 * full * h / G), speed = 0, volume = 0, since = 0, coefficient = 0,
                 by_volume = 0;
    fsi_grid_desc desc = tank(nx, ny, 1, h);
    int samples = 0;
    desc.side[FSI_BOTTOM].kind = FSI_SIDE_OPEN;
    desc.cfl = 1;
    desc.volume_correction = -1; /* the surface's own loss is what is measured */
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    uint8_t *blocked = (uint8_t *)calloc(grid.faces[1], 1);
    fsi_real *part;
    part = (fsi_real *)calloc(grid.cells, sizeof *part);
    fsi_occlusion occlusion;
    memset(&occlusion, 0, sizeof occlusion);
    for (int i = hole; i < nx; i++)
        blocked[i + nx * below] = 1;
    occlusion.blocked[1] = blocked;
    y[0] = below * h;
    y[1] = (below + full) * h;
    CHECK_OK(fsi_grid_set_occlusion(&grid, &occlusion));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, above_fn, y));
    while (grid.time < scale) {
        double depth = 0, q = 0;
        ASSERT(fsi_grid_step(&grid, fsi_grid_max_dt(&grid), NULL) >= 0);
        if (grid.time < 0.6 * scale)
            continue; /* the jet stands */
        fsi_levelset_volume(&grid.levelset, NULL, part);
        for (int j = below; j < ny; j++)
            /* the tank is 1 m wide */
            for (int i = 0; i < nx; i++)
                depth += (double)part[i + nx * j] * h * h;
        for (int i = 0; i < hole; i++)
            q -= (double)grid.u[1][i + nx * below] * h;
        coefficient += q / (hole * h * sqrt(2 * G * depth));
        speed += -(double)grid.u[1][nx * (below - 2 * hole)] / sqrt(2 * G * (depth + 2 * hole * h));
        if (!samples) {
            volume = depth;
            since = grid.time;
        } else
            by_volume = (volume - depth) / (grid.time - since) / (hole * h * sqrt(2 * G * depth));
        samples++;
    }
    coefficient /= samples;
    speed /= samples;
    printf("  efflux coefficient %.3f from the flux, %.3f from the volume (slit: 0.611); jet speed "
           "%.3f of sqrt(2 g H)\n",
           coefficient, by_volume, speed);
    ASSERT(coefficient > 0.58 && coefficient < 0.66);
    /* what the surface loses is what flows */
    CHECK_NEAR(coefficient, by_volume, 0.02);
    CHECK_NEAR(1.0, speed, 0.05);
    fsi_grid_free(&grid);
    free(blocked);
    free(part);
    PASS();
}

/* ------------------------------------------------------------------------------------------------
 * ceiling and books */
static fsi_real ceiling_fn(fsi_vec3 x, void *user) {
    double qx = fabs((double)x.x - 0.5) - 0.15, qy = 0.7 - (double)x.y;
    (void)user;
    if (qx > 0 && qy > 0)
        return (fsi_real)sqrt(qx * qx + qy * qy);
    return (fsi_real)(qx > qy ? qx : qy);
}

/* A block 14 cells thick under a closed lid: air comes in from the sides and it falls nearly
 * freely. */
TEST G_10_a_block_leaves_the_ceiling(void) {
    fsi_grid_desc desc = tank(48, 48, 1, 1.0 / 48);
    double mean = 0, volume = 0;
    int wet = 0;
    desc.cfl = 1;
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, ceiling_fn, NULL));
    fsi_real *part;
    part = (fsi_real *)calloc(grid.cells, sizeof *part);
    while (grid.time < 0.3)
        ASSERT(fsi_grid_step(&grid, FSI_R(0.005), NULL) >= 0);
    fsi_levelset_volume(&grid.levelset, NULL, part);
    for (int i = 0; i < (int)grid.cells; i++) {
        volume += (double)part[i];
        mean += (double)part[i] * (i / 48 + 0.5) / 48;
    }
    for (int i = 0; i < 48; i++)
        wet += grid.phi[i + 48 * 47] < 0;
    printf("  wet lid cells %d, centre %.3f (free fall %.3f)\n", wet, mean / volume,
           0.85 - G / 2 * 0.09);
    ASSERT_EQ(0, wet);
    CHECK_NEAR(0.85 - G / 2 * 0.09, mean / volume, 0.05);
    free(part);
    fsi_grid_free(&grid);
    PASS();
}

/* ---- A layer over the whole width under a closed lid cannot fall as one: no air gets above it,
   and the air below (p = 0) holds it as a glass turned over does. A wave on its lower side grows as
   a cosh(sigma t) with sigma^2 = g k tanh(k d); in the end it comes down, and nothing of it is
   lost. */
static fsi_real layer_fn(fsi_vec3 x, void *user) {
    (void)user;
    return (fsi_real)(0.5 + 0.001 * cos(PI * (double)x.x)) - x.y;
}

static double layer_mode(const fsi_grid *grid) {
    double a = 0;
    for (int i = 0; i < grid->nx; i++)
        for (int j = 0; j + 1 < grid->ny; j++) {
            double p = (double)grid->phi[i + grid->nx * j],
                   q = (double)grid->phi[i + grid->nx * (j + 1)];
            if (p >= 0 && q < 0) {
                a += 2.0 / grid->nx * ((j + 0.5 + p / (p - q)) * (double)grid->h - 0.5)
                     * cos(PI * (i + 0.5) / grid->nx);
                break;
            }
        }
    return a;
}

TEST G_10_a_full_layer_under_a_lid(void) {
    const double sigma = sqrt(G * PI * tanh(PI * 0.5));
    fsi_grid_desc desc = tank(32, 32, 1, 1.0 / 32);
    int wet = 0;
    desc.tolerance = TOL(1e-9, 1e-5);
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, layer_fn, NULL));
    double a0 = layer_mode(&grid);
    double V = grid.levelset.state->target;
    CHECK_NEAR(0.5, V, 1e-3);
    while (grid.time < 0.4)
        ASSERT(fsi_grid_step(&grid, FSI_R(0.005), NULL) >= 0);
    double grown = acosh(layer_mode(&grid) / a0) / grid.time;
    printf("  under a lid: sigma %.4f, exact %.4f, %+.2f %%\n", grown, sigma,
           100 * (grown / sigma - 1));
    CHECK_REL(sigma, grown, 0.03);
    while (grid.time < 1.4)
        ASSERT(fsi_grid_step(&grid, FSI_R(0.005), NULL) >= 0);
    for (int i = 0; i < 32 * 4; i++)
        wet += grid.phi[i] < 0;
    printf("  at 1.4 s: %d wet cells near the floor, volume %+.2f %%\n", wet,
           100 * (fsi_levelset_volume(&grid.levelset, NULL, NULL) / V - 1));
    ASSERT(wet > 20);
    CHECK_REL(V, fsi_levelset_volume(&grid.levelset, NULL, NULL), 0.06);
    fsi_grid_free(&grid);
    PASS();
}

/* A slab of liquid flows out through an open side while air follows it in through the other one. */
static fsi_real everywhere_fn(fsi_vec3 x, void *user) {
    (void)x;
    (void)user;
    return -1;
}

static fsi_vec3 stream_fn(fsi_vec3 x, double t, void *user) {
    (void)x;
    (void)t;
    (void)user;
    return fsi_vec(1, 0, 0);
}

static enum greatest_test_res follow_case(double dt) {
    fsi_grid_desc desc = tank(48, 12, 1, 1.0 / 48);
    desc.gravity = fsi_vec(0, 0, 0);
    desc.side[FSI_LEFT].kind = desc.side[FSI_RIGHT].kind = FSI_SIDE_OPEN;
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, everywhere_fn, NULL));
    CHECK_OK(fsi_grid_set_velocity(&grid, stream_fn, NULL));
    while (grid.time < 0.5)
        ASSERT(fsi_grid_step(&grid, (fsi_real)dt, NULL) >= 0);
    CHECK_NEAR(0.25 * (1 - grid.time), fsi_levelset_volume(&grid.levelset, NULL, NULL),
               0.25 * 0.02);
    ASSERT(grid.region_count == 1 && grid.regions[0].open);
    while (grid.time < 1.1)
        ASSERT(fsi_grid_step(&grid, (fsi_real)dt, NULL) >= 0);
    /* half a cell: behind the last centre there is no cell to push it */
    CHECK_NEAR(0, fsi_levelset_volume(&grid.levelset, NULL, NULL), 0.25 * 0.5 / 48);
    fsi_grid_free(&grid);
    PASS();
}

TEST G_13_air_follows_through_open_sides(void) {
    /* a seventh of a cell a step: slower than from one redistancing to the next */
    CHECK_CALL(follow_case(0.003));
    CHECK_CALL(follow_case(0.01));
    CHECK_CALL(follow_case(0.05));
    PASS();
}

static uint64_t short_liquid(int threads, int dim, void *block, int restore) {
    /* enough cells for all loops to be shared */
    fsi_grid_desc desc = dim == 2 ? tank(160, 130, 1, 0.0125) : tank(40, 24, 24, 0.05);
    const int steps = getenv("FSI_TEST_FULL") ? 100 : dim == 2 ? 10 : 6;
    column c;
    memset(&c, 0, sizeof c);
    c.width = 0.6;
    c.height = 0.8;
    check_threads(threads);
    fsi_grid grid;
    if (fsi_grid_init(&grid, &desc) < 0
        || fsi_grid_set_field(&grid, FSI_FIELD_PHI, column_fn, &c) < 0)
        return 0;
    if (restore && fsi_grid_restore(&grid, block, fsi_grid_state_size(&grid)) < 0)
        return 0;
    for (int s = restore ? steps / 2 : 0; s < steps; s++) {
        if (block && !restore && s == steps / 2)
            fsi_grid_save(&grid, block);
        if (fsi_grid_step(&grid, dim == 2 ? FSI_R(0.006) : FSI_R(0.02), NULL) < 0)
            return 0;
    }
    uint64_t hash =
        check_hash(grid.phi, grid.cells * sizeof *grid.phi, 1)
        + 3 * check_hash(grid.u[0], grid.faces[0] * sizeof *grid.phi, 2)
        + 5 * check_hash(grid.u[1], grid.faces[1] * sizeof *grid.phi, 3)
        + check_hash(grid.levelset.marker_x, grid.levelset.state->count * sizeof *grid.phi, 4);
    fsi_grid_free(&grid);
    check_threads(1);
    return hash;
}

TEST G_11_liquid_same_bits_and_restore(void) {
    for (int dim = 2; dim <= 3; dim++) {
        fsi_grid_desc desc = dim == 2 ? tank(160, 130, 1, 0.0125) : tank(40, 24, 24, 0.05);
        fsi_grid grid;
        CHECK_OK(fsi_grid_init(&grid, &desc));
        void *block = malloc(fsi_grid_state_size(&grid));
        fsi_grid_free(&grid);
        uint64_t one = short_liquid(1, dim, block, 0); /* saved half way */
        ASSERT(one != 0);
        ASSERT(short_liquid(2, dim, NULL, 0) == one);
        ASSERT(short_liquid(3, dim, NULL, 0) == one);
        /* another grid, another number of threads, the second half */
        ASSERT(short_liquid(2, dim, block, 1) == one);
        free(block);
    }
    PASS();
}

TEST G_12_memory_and_volume_correction(void) {
    fsi_grid_desc desc = tank(64, 64, 64, 0.05);
    double sum = 0;
    desc.particles = -1;
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    printf("  liquid in 3D: %.0f bytes per cell without markers\n",
           (double)fsi_grid_memory(&grid) / (double)grid.cells);
    CHECK_MOST((double)fsi_grid_memory(&grid) / (double)grid.cells, 320);
    fsi_grid_free(&grid);
    desc = tank(48, 32, 1, 1.0 / 32);
    desc.volume_correction = 1;
    column c;
    memset(&c, 0, sizeof c);
    fsi_report report;
    memset(&report, 0, sizeof report);
    c.width = 0.4;
    c.height = 0.6;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, column_fn, &c));
    double V = grid.levelset.state->target;
    for (int s = 0; s < 60; s++) {
        ASSERT(fsi_grid_step(&grid, FSI_R(0.01), &report) >= 0);
        sum += fabs(report.volume_change);
    }
    printf("  volume kept to %.1e, %.2f %% were put back in small portions\n",
           fabs(report.volume / V - 1), 100 * sum / V);
    CHECK_REL(V, report.volume, TOL(1e-4, 1e-3));
    ASSERT(sum > 0);
    fsi_grid_free(&grid);
    PASS();
}

/* A column that falls in a tank of 12 cells comes to rest: its energy over the flat pool's, J per
   kg/m^3. It once stayed at 15 % for ever (a wave of 2.6 m/s, in 3D growing again to 14 m/s):
   MacCormack's correction next to the surface gave back what was lost. */
static fsi_real slosh_fn(fsi_vec3 x, void *user) {
    (void)user;
    return x.x < FSI_R(0.4) ? x.y - FSI_R(0.6) : FSI_R(0.5) * (x.x - FSI_R(0.4)) + FSI_R(0.02);
}

static double slosh_energy(const fsi_grid *grid, fsi_real *part) {
    double h = (double)grid->h, v = fsi_levelset_volume(&grid->levelset, NULL, part),
           sum = -0.5 * G * v * v / (grid->nx * h);
    /* cells are filled from below where there is liquid below */
    for (size_t c = 0; c < grid->cells; c++) {
        int j = (int)(c / (size_t)grid->nx),
            below = j == 0 || part[c - (size_t)grid->nx] >= FSI_R(0.5);
        sum += h * h * h * G * (double)part[c] * (j + 0.5 * (below ? (double)part[c] : 1));
    }
    return sum + fsi_grid_kinetic_energy(grid) / (double)grid->desc.rho;
}

TEST slosh_comes_to_rest(void) {
    fsi_grid_desc desc = tank(12, 15, 1, 1.0 / 12);
    fsi_real part[12 * 15];
    double last = 0;
    desc.side[FSI_TOP].kind = FSI_SIDE_OPEN;
    desc.volume_correction = 1;
    desc.particles = -1;
    fsi_grid grid;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, slosh_fn, NULL));
    double first = slosh_energy(&grid, part);
    for (int i = 0; i < 1500; i++) {
        ASSERT(fsi_grid_step(&grid, FSI_R(0.025), NULL) >= 0);
        if (i >= 1200)
            last += slosh_energy(&grid, part) / 300;
    }
    CHECK_MOST(last, 0.03 * first);
    fsi_grid_free(&grid);
    PASS();
}

/* A column falls in a corner of a 3D tank, damping 2 1/s: markers of drops and bubbles smaller than
   a cell, which neither fell nor rose, kept the surface moving and ate the liquid for as long as
   one looked. */
static fsi_real corner_fn(fsi_vec3 x, void *user) {
    (void)user;
    return (fsi_real)fmax((double)x.x - 0.4, fmax((double)x.y - 0.7, (double)x.z - 0.5));
}

static size_t wrong_side(const fsi_grid *grid) { /* markers there */
    const fsi_levelset *ls = &grid->levelset;
    size_t count = 0;
    for (size_t p = 0; p < ls->state->count; p++) {
        fsi_vec3 x = fsi_vec(ls->marker_x[p], ls->marker_y[p], ls->marker_z[p]);
        fsi_real phi = fsi_grid_field_at(grid, FSI_FIELD_PHI, x);
        count += (ls->marker_radius[p] > 0 ? -phi : phi) > FSI_R(0.11) * ls->desc.h;
    }
    return count;
}

TEST splash_comes_to_rest(void) {
    fsi_grid grid;
    fsi_grid_desc desc = tank(16, 16, 16, 1.0 / 16);
    double fastest = 0, settled = 0;
    CHECK_OK(fsi_grid_init(&grid, &desc));
    CHECK_OK(fsi_grid_set_field(&grid, FSI_FIELD_PHI, corner_fn, NULL));
    double V = grid.levelset.state->target;
    for (int i = 0; i < 400; i++) {
        for (int a = 0; a < 3; a++)
            for (size_t f = 0; f < grid.faces[a]; f++)
                grid.u[a][f] /= FSI_R(1.02);
        ASSERT(fsi_grid_step(&grid, FSI_R(0.01), NULL) >= 0);
        if (i == 299)
            settled = grid.stats.liquid_volume;
        if (i >= 350)
            fastest = fmax(fastest, grid.stats.max_speed);
    }
    printf("  4 s after a splash: %.2f m/s, %d of %d markers on the wrong side, volume %+.2f %%, "
           "%+.2f %% of it in the last second\n",
           fastest, (int)wrong_side(&grid), (int)grid.levelset.state->count,
           100 * (grid.stats.liquid_volume / V - 1),
           100 * (grid.stats.liquid_volume - settled) / V);
    ASSERT_EQ(0, (int)wrong_side(&grid));
    /* were 609, 0.24 m/s and 1.4e-3 */
    CHECK_MOST(fastest, 0.15);
    CHECK_MOST(fabs(grid.stats.liquid_volume - settled), 3e-4 * V);
    fsi_grid_free(&grid);
    PASS();
}

GREATEST_MAIN_DEFS();

int main(int argc, char **argv) {
    GREATEST_MAIN_BEGIN();
    RUN_TEST(F_13_standing_wave_frequency);
    RUN_TEST(F_14_wave_amplitude_is_kept);
    RUN_TEST(F_15_u_tube);
    RUN_TEST(F_16_dam_break_front);
    RUN_TEST(F_17_dam_break_volume);
    RUN_TEST(F_24_flow_through_the_sides_is_no_drift);
    RUN_TEST(F_18_torricelli);
    RUN_TEST(slosh_comes_to_rest);
    RUN_TEST(splash_comes_to_rest);
    RUN_TEST(F_22_mirrored_dam_break);
    RUN_TEST(G_10_a_block_leaves_the_ceiling);
    RUN_TEST(G_10_a_full_layer_under_a_lid);
    RUN_TEST(G_13_air_follows_through_open_sides);
    RUN_TEST(G_11_liquid_same_bits_and_restore);
    RUN_TEST(G_12_memory_and_volume_correction);
    GREATEST_MAIN_END();
}
