/* pour.h: what the examples of paper 004 share: the steps of one frame with their sums, the nearest
 * particle, and the result lines. */
#ifndef POUR_H
#define POUR_H

typedef struct pour {
    fsi_proxy *proxy;
    double dt;      /* s: an even part of a frame */
    double ms[3];   /* particles, solid, coupling: sums over the steps, ms */
    double density; /* largest density over that at rest */
    /* largest gain of kinetic energy in the collisions of a step, J: never positive */
    double gain;
    double closest;       /* least distance of a particle to a solid, m */
    long steps, substeps; /* of the coupling, of the first solid */
    int per, stable;      /* steps a frame; 0 after a failed step */
} pour;

EX double pour_clock(void *user) {
    (void)user;
    return ex_now();
}

/* Sets the coupling up; frame: seconds. The step obeys the fluid's sound speed and up to 5 m/s of
 * flow. */
EX fsi_result pour_begin(pour *w, fsi_proxy *proxy, fsi_proxy_desc *desc, double frame) {
    memset(w, 0, sizeof *w);
    w->proxy = proxy;
    w->closest = 1e9;
    w->gain = -1e9;
    w->stable = 1;
    w->per = (int)ceil(frame * (desc->sph->desc.sound_speed + 5) / (0.4 * desc->sph->desc.spacing));
    w->dt = frame / w->per;
    desc->clock_fn = pour_clock;
    return fsi_proxy_init(proxy, desc);
}

EX int pour_frame(pour *w) {
    const fsi_proxy_stats *stats = &w->proxy->stats;

    for (int i = 0; i < w->per && w->stable; i++, w->steps++) {
        w->stable = ex_try(fsi_proxy_step(w->proxy, w->dt, NULL)) >= 0;
        w->ms[0] += 1e3 * stats->seconds_sph;
        w->ms[1] += 1e3 * stats->seconds_solid;
        w->ms[2] += 1e3 * stats->seconds_coupling;
        w->density = fmax(w->density, w->proxy->desc.sph->stats.max_density);
        w->gain = fmax(w->gain, stats->energy_change);
        w->substeps += w->proxy->desc.solid[0].substeps;
    }

    return w->stable;
}

/* The triangle nearest to particle i within reach, and which solid's: 0 where there is none. */
EX int pour_near(pour *w, int i, fsi_real reach, int *solid, fsi_hit *hit) {
    const fsi_sph *sph = w->proxy->desc.sph;
    if (!fsi_proxy_closest(w->proxy, fsi_vec(sph->x[i], sph->y[i], sph->z[i]), reach, solid, hit))
        return 0;
    w->closest = fmin(w->closest, hit->t);
    return 1;
}

/* The solid on the floor, and the water inside lo .. hi. */
EX void pour_draw(ex_args *args, const fsi_sph *sph, const fsi_surface *solid,
                  const ex_camera *camera, int height, const double *lo, const double *hi,
                  ex_color color) {
    ex_image image = ex_image_make(640, height);
    ex_floor(&image, camera, lo, hi, 1, -0.002, 0.2);
    ex_draw_surface3(&image, camera, solid, color);
    water_draw(&image, camera, sph, lo, hi);
    ex_frame(args, &image);
    ex_image_free(&image);
}

EX void pour_results(const pour *w, long penetrations) {
    static const char *name[3] = {"ms_sph", "ms_tled", "ms_coupling"};
    const fsi_proxy_stats *stats = &w->proxy->stats;
    double steps = w->steps > 0 ? (double)w->steps : 1;

    for (int i = 0; i < 3; i++)
        ex_result(name[i], "%.4f", w->ms[i] / steps);
    ex_result("particles", "%d", w->proxy->desc.sph->now.count);
    ex_result("penetrations", "%ld", penetrations);

    /* over the particle radius */
    if (w->closest < 1e8)
        ex_result("closest", "%.4f", w->closest / w->proxy->desc.radius);
    ex_result("contacts", "%ld", (long)stats->all_contacts);

    /* met the other side within a step and were taken back */
    ex_result("crossed", "%ld", (long)stats->all_crossed);

    /* corrections that found no way out */
    ex_result("skipped", "%ld", (long)stats->all_skipped);
    ex_result("max_density_ratio", "%.4f", w->density);
    ex_result("energy_gain", "%.3g", w->gain);
    ex_result("substeps", "%.2f", (double)w->substeps / steps);
}
#endif
