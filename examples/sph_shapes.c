/* sph_shapes: a light ball, a heavy cylinder and a torus in a fluid of particles (Akbay et al.
   2018, fig. 16: density ratios 0.05, 2 and 0.7). scene=drop: they fall into a tank; scene=fall: a
   block of fluid falls on them. All three are coupled at once.

       build/sph_shapes --out out
       build/sph_shapes --set scene=fall
       build/sph_shapes --size 29          the 24,389 particles of the paper

   Result: fastest speed, iterations a step, particles lost. */
#define FSI_IMPLEMENTATION
#include "fsi_couple.h"
#include "common.h"
#include "water.h"

enum {
    SHAPES = 3
};

typedef struct scene {
    fsi_sph sph;
    fsi_solids world;
    fsi_shape room;
    fsi_shape shape[SHAPES];
    fsi_sph_rigid couple;
    int body[SHAPES];
    int object[SHAPES];
} scene;

static void draw(ex_args *args, const scene *s, double top) {
    static const int color[SHAPES][3] = {{225, 120, 50}, {110, 115, 125}, {200, 60, 90}};
    ex_image image = ex_image_make(720, 520);
    ex_camera camera = ex_camera_make(1.9, 1.5, 2.5, 0.5, 0.42, 0.5, 1, 33);
    double lo[3] = {0, 0, 0};
    double hi[3] = {1, 1, 1};
    double flo[3] = {-1.2, 0, -1.2};
    double fhi[3] = {2.2, 0, 2.2};
    hi[1] = top;
    ex_floor(&image, &camera, flo, fhi, 1, -0.003, 0.25);

    for (int k = 0; k < SHAPES; k++) {
        const fsi_surface *surface = &s->shape[k].surface;
        fsi_real *x = (fsi_real *)malloc((size_t)(3 * surface->vertex_count) * sizeof *x);
        fsi_surface out;
        if (x && fsi_solids_surface(&s->world, s->body[k], x, NULL, &out) == FSI_OK)
            ex_draw_surface3(&image, &camera, &out, ex_rgb(color[k][0], color[k][1], color[k][2]));
        free(x);
    }

    water_draw(&image, &camera, &s->sph, lo, hi);
    ex_box3(&image, &camera, lo, hi, ex_grey(110));
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* A closed cylinder along y: 24 corners below, 24 above, two centres. */
static fsi_surface cylinder(fsi_real radius, fsi_real half, fsi_real *x, int32_t *index) {
    fsi_surface surface;
    int n = 24;
    int t = 0;
    memset(&surface, 0, sizeof surface);

    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            fsi_vec_store(x + 3 * (i + k * n),
                          fsi_vec(radius * cos(6.283185307 * i / n), k ? half : -half,
                                  -radius * sin(6.283185307 * i / n)));
    fsi_vec_store(x + 6 * n, fsi_vec(0, -half, 0));
    fsi_vec_store(x + 6 * n + 3, fsi_vec(0, half, 0));

    for (int i = 0; i < n; i++) {
        int q[12];
        int j = (i + 1) % n;
        q[0] = i;
        q[1] = j;
        q[2] = j + n;
        q[3] = i;
        q[4] = j + n;
        q[5] = i + n;
        q[6] = 2 * n;
        q[7] = j;
        q[8] = i;
        q[9] = 2 * n + 1;
        q[10] = i + n;
        q[11] = j + n;
        for (int k = 0; k < 12; k++)
            index[t++] = q[k];
    }

    surface.dim = 3;
    surface.closed = 1;
    surface.vertex_count = 2 * n + 2;
    surface.element_count = t / 3;
    surface.x = x;
    surface.index = index;
    return surface;
}

/* Shape k as a body, and its boundary particles half a spacing inside the surface. */
static int add_shape(scene *s, int k, fsi_vec3 at, double ratio, double h) {
    fsi_shape_desc desc;
    fsi_real rod[150];
    fsi_real half = h / 2;
    int32_t index[288];
    memset(&desc, 0, sizeof desc);
    fsi_rigid_desc given;
    memset(&given, 0, sizeof given);
    desc.kind = k == 0 ? FSI_SHAPE_SPHERE : k == 1 ? FSI_SHAPE_MESH : FSI_SHAPE_TORUS;
    desc.radius = k == 0 ? 0.14 : 0.065;
    desc.length = 0.15;
    fsi_surface hull = cylinder(0.1, 0.13, rod, index);
    desc.surface = &hull;

    if (fsi_shape_init(&s->shape[k], &desc) != FSI_OK)
        return 0;
    given.shape = &s->shape[k];
    given.kind = FSI_RIGID_DYNAMIC;
    given.density = 1000 * ratio;
    given.x = at;
    given.friction = 0.2;
    given.q = fsi_quat_from_rotation(fsi_vec(k == 1 ? 0.9 : k == 2 ? 0.4 : 0, 0, 0));
    if (fsi_solids_add(&s->world, &given, &s->body[k]) != FSI_OK)
        return 0;
    fsi_surface skin = s->shape[k].surface; /* shrunk along the vertex normals */
    int i;
    {
        fsi_real *x = (fsi_real *)malloc((size_t)(3 * skin.vertex_count) * sizeof *x);
        double *n = (double *)malloc((size_t)(3 * skin.vertex_count) * sizeof *n);
        if (!x || !n)
            return 0;
        ex_mesh mesh;
        mesh.vertices = skin.vertex_count;
        mesh.triangles = skin.element_count;
        mesh.x = skin.x;
        mesh.index = skin.index;
        ex_normals(&mesh, n);
        for (i = 0; i < skin.vertex_count; i++)
            fsi_vec_store(
                x + 3 * i,
                fsi_vec_add(at, fsi_quat_rotate(given.q, fsi_vec_mad(fsi_vec_load(skin.x + 3 * i),
                                                                     fsi_vec(n[3 * i], n[3 * i + 1],
                                                                             n[3 * i + 2]),
                                                                     -half))));
        skin.x = x;
        skin.v = NULL;
        i = fsi_sph_add_surface(&s->sph, &skin, at, 1, &s->object[k]) == FSI_OK;
        free(x);
        free(n);
    }

    return i && fsi_solids_set_pose(&s->world, s->body[k], at, given.q) == FSI_OK;
}

static const ex_about about = {
    .name = "sph_shapes",
    .what = "Ball, cylinder and torus in a fluid of particles.",
    .size = 18,
    .frames = 50,
    .keys =
        {
            EX_NUMBER("density", "", "ball, cylinder, torus over fluid", "0.05,2,0.7",
                      "1e-3 to 100"),
            EX_WORD("scheme", "coupling", "xpm", "weak,p,aitken,xpm"),
            EX_WORD("scene", "what falls", "drop", "drop,fall"),
            EX_NUMBER("seed", "", "disturbs the particles by 1 % of their spacing", "1",
                      "0 to 1e6"),
            EX_NUMBER("omega", "", "under-relaxation of p", "0.05", "1e-3 to 1"),
            EX_NUMBER("tolerance", "", "of the motion, over the particle radius", "0.1",
                      "1e-6 to 10"),
            EX_NUMBER("dt", "s", "largest step", "0.002", "1e-5 to 0.05"),
            EX_NUMBER("gravity", "m/s^2", "downwards", "9.81", "0 to 100"),
        },
};

int main(int argc, char **argv) {
    ex_args args;
    static scene s;

    fsi_report report;
    double ratio[SHAPES] = {0.05, 2, 0.7};
    double total = 0;
    double peak = 0;
    double error = 0;
    double momentum = 0;
    double top = 1.6;
    int n = 0;
    int stable = 1;
    int worst = 0;
    int capped = 0;
    long steps = 0;
    long lost = 0;

    ex_begin(&args, argc, argv, &about);
    int k = ex_list(&args, "density", ratio, SHAPES);
    if (k == 1)
        ratio[1] = ratio[2] = ratio[0]; /* one for all */
    else if (k != SHAPES) {
        fprintf(stderr, "sph_shapes: density takes one or three numbers\n");
        return 2;
    }

    double h = 1.0 / args.size;
    int fall = ex_is(&args, "scene", "fall");

    fsi_sph_desc desc = {
        .capacity = args.size * args.size * (args.size + 1) / 2 + args.size * args.size,
        .boundary_capacity = 40 * args.size * args.size + 8000,
        .solver = FSI_SPH_DFSPH,
        .spacing = h,
        .density = 1000,
        .viscosity = 1,
        .gravity = fsi_vec(0, -ex_number(&args, "gravity"), 0),
        .dt_max = ex_number(&args, "dt"),
        /* always five: the fluid's answer changes smoothly with the bodies' motion */
        .density_error = 1e-12,
        .divergence_error = 1e-12,
        .max_iterations = 5,
    };

    fsi_solids_desc given = {
        .dim = 3,
        .max_bodies = SHAPES + 1,
        .max_contacts = 2000,
        .gravity = desc.gravity,
        .substeps = 1,
        .iterations = 8,
    };

    ex_need(fsi_sph_init(&s.sph, &desc));
    ex_need(fsi_solids_init(&s.world, &given));

    fsi_shape_desc sd = {
        .kind = FSI_SHAPE_ROOM,
        .half = fsi_vec(0.5, top / 2, 0.5),
    };

    ex_need(fsi_shape_init(&s.room, &sd));

    fsi_rigid_desc options = {
        .shape = &s.room,
        .x = sd.half,
        .kind = FSI_RIGID_FIXED,
    };

    fsi_solids_add(&s.world, &options, NULL);
    fsi_sph_add_block(&s.sph, fsi_vec(0, fall ? 0.6 : 0, 0), fsi_vec(1, fall ? 1.1 : 0.5, 1),
                      fsi_vec(0, 0, 0), &n);
    water_disturb(&s.sph, (uint32_t)ex_number(&args, "seed"), 0.01 * h);
    fsi_sph_add_box_walls(&s.sph, fsi_vec(0, 0, 0), fsi_vec(1, top, 1), 0, NULL);

    for (k = 0; k < SHAPES; k++)
        if (!add_shape(&s, k,
                       fsi_vec(k == 0   ? 0.25
                               : k == 1 ? 0.7
                                        : 0.55,
                               (fall ? 0.2 : 0.72) + 0.02 * (fsi_real)k,
                               k == 0   ? 0.3
                               : k == 1 ? 0.25
                                        : 0.7),
                       ratio[k], h))
            return 1;

    fsi_sph_rigid_desc d = {
        .sph = &s.sph,
        .world = &s.world,
        .count = SHAPES,
        .body = s.body,
        .object = s.object,
        .max_iterations = 100,
        .scheme = ex_is(&args, "scheme", "weak")     ? FSI_SPH_WEAK
                  : ex_is(&args, "scheme", "p")      ? FSI_SPH_RELAXED
                  : ex_is(&args, "scheme", "aitken") ? FSI_SPH_AITKEN
                                                     : FSI_SPH_XPM,
        .omega = ex_number(&args, "omega"),
        .tolerance = ex_number(&args, "tolerance"),
    };

    ex_need(fsi_sph_rigid_init(&s.couple, &d));
    double time;
    int frame;

    for (frame = 0, time = 0; frame < args.frames && stable; frame++) {
        for (double start = time; time < start + 0.03 - 1e-9 && stable; steps++) {
            /* equal steps, no sliver at the end */
            double rest = start + 0.03 - time;
            double dt = rest / ceil(rest / fsi_sph_max_dt(&s.sph) - 1e-6);
            fsi_result result = ex_try(fsi_sph_rigid_step(&s.couple, dt, &report));
            time += dt;
            total += report.iterations;
            if (report.iterations > worst)
                worst = report.iterations;
            capped += result == FSI_NOT_CONVERGED || result == FSI_STALLED;
            error = fmax(error, s.sph.stats.density_error);
            for (k = 0; k < SHAPES; k++)
                peak = fmax(peak, fsi_vec_length(s.world.body[s.body[k]].v));
            for (int i = 0; i < 3; i++)
                momentum = fmax(momentum, fabs(report.momentum[i]));
            stable = result >= 0 && peak < 100;
        }

        if (args.out)
            draw(&args, &s, top);
        ex_progress(&args, frame);
    }

    for (int i = 0; i < s.sph.now.count; i++)
        lost += !(s.sph.x[i] > -h && s.sph.x[i] < 1 + h && s.sph.y[i] > -h && s.sph.y[i] < top + h
                  && s.sph.z[i] > -h && s.sph.z[i] < 1 + h);

    ex_result("particles", "%d", n);
    ex_result("mean_iterations", "%.3f", total / (steps > 0 ? (double)steps : 1));
    ex_result("max_iterations", "%d", worst);
    ex_result("capped", "%d", capped);
    ex_result("max_density_error", "%.5f", error);
    ex_result("peak_speed", "%.3f", peak);
    ex_result("height", "%.3f,%.3f,%.3f", s.world.body[s.body[0]].x.y, s.world.body[s.body[1]].x.y,
              s.world.body[s.body[2]].x.y);
    ex_result("lost", "%ld", lost + n - s.sph.now.count);
    ex_result("momentum_error", "%.3g", momentum);
    fsi_sph_rigid_free(&s.couple);
    fsi_solids_free(&s.world);
    fsi_shape_free(&s.room);
    fsi_sph_free(&s.sph);

    for (k = 0; k < SHAPES; k++)
        fsi_shape_free(&s.shape[k]);
    return ex_end(&args, steps, stable);
}
