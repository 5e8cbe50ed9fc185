/* Benchmarks of fsi_solids.h: bodies per millisecond for piles of rigid and reduced bodies, cost
   per contact as the pile grows, a chain of joints. bench NAME VALUE UNIT. Optional argument:
   bodies of the large pile (default 1000). */
#include "fsi_solids.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench.h"
#include "../examples/forms.h"

static fsi_shape shape(fsi_shape_kind kind, double radius, double length, double hx, double hy,
                       double hz) {
    fsi_shape_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.kind = kind;
    desc.radius = (fsi_real)radius;
    desc.length = (fsi_real)length;
    desc.half = fsi_vec((fsi_real)hx, (fsi_real)hy, (fsi_real)hz);

    fsi_shape form;
    if (fsi_shape_init(&form, &desc) != FSI_OK)
        exit(1);
    return form;
}

typedef struct pile {
    double ms, per_contact;
    int contacts;
} pile;

/* n boxes, balls and capsules (kinds of them) dropped into a bin of the same proportions, settled
 * for a second, then timed: best of batches. */
static pile run(int n, int kinds) {
    int side = (int)ceil(cbrt((double)n) - 1e-9);
    double half = .55 * side;
    double best = 1e30;
    fsi_shape form[3];
    fsi_shape room = shape(FSI_SHAPE_ROOM, 0, 0, half, 4 * half, half);
    form[0] = shape(FSI_SHAPE_BOX, 0, 0, .45, .45, .45);
    form[1] = shape(FSI_SHAPE_SPHERE, .45, 0, 0, 0, 0);
    form[2] = shape(FSI_SHAPE_CAPSULE, .25, .4, 0, 0, 0);
    fsi_solids_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_rigid_desc given;
    memset(&given, 0, sizeof given);
    desc.dim = 3;
    desc.max_bodies = n + 1;
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);

    fsi_solids solids;
    if (fsi_solids_init(&solids, &desc) != FSI_OK)
        exit(1);
    given.shape = &room;
    given.friction = FSI_R(0.5);
    given.x = fsi_vec(0, (fsi_real)(4 * half), 0);
    fsi_solids_add(&solids, &given, NULL);
    given.kind = FSI_RIGID_DYNAMIC;
    given.density = 1000;

    for (int i = 0; i < n; i++) {
        int x = i % side;
        int z = i / side % side;
        int y = i / side / side;
        given.shape = form + i % kinds;
        given.x = fsi_vec((fsi_real)(1.02 * (x - .5 * (side - 1)) + .02 * (y % 3)),
                          (fsi_real)(.5 + 1.0 * y),
                          (fsi_real)(1.02 * (z - .5 * (side - 1)) - .02 * (y % 2)));
        fsi_solids_add(&solids, &given, NULL);
    }

    for (int i = 0; i < 60; i++)
        fsi_solids_step(&solids, FSI_R(1.) / 60);

    for (int k = 0; k < 3; k++) {
        double t = now();
        for (int i = 0; i < 10; i++)
            fsi_solids_step(&solids, FSI_R(1.) / 60);
        t = (now() - t) / 10;
        if (t < best)
            best = t;
    }

    fsi_solids_report report;
    fsi_solids_measure(&solids, &report);
    pile p;
    p.ms = 1e3 * best;
    p.contacts = solids.contact_count;
    p.per_contact = 1e9 * best / solids.contact_count;
    fsi_solids_free(&solids);

    for (int i = 0; i < 3; i++)
        fsi_shape_free(form + i);
    fsi_shape_free(&room);
    return p;
}

static double chain(int links) {
    fsi_shape rod = shape(FSI_SHAPE_BOX, 0, 0, .5, .05, .05);
    fsi_solids_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.dim = 3;
    desc.max_bodies = links + 1;
    desc.max_joints = links;
    desc.gravity = fsi_vec(0, FSI_R(-9.81), 0);

    fsi_solids solids;
    if (fsi_solids_init(&solids, &desc) != FSI_OK)
        exit(1);

    for (int i = 0; i <= links; i++) {
        fsi_rigid_desc given;
        memset(&given, 0, sizeof given);
        fsi_joint_desc options;
        memset(&options, 0, sizeof options);
        given.kind = i ? FSI_RIGID_DYNAMIC : FSI_RIGID_FIXED;
        given.shape = &rod;
        given.density = 1000;
        given.team = 1;
        given.x = fsi_vec((fsi_real)i - FSI_R(0.5), 0, 0);
        fsi_solids_add(&solids, &given, NULL);
        options.kind = FSI_JOINT_POINT;
        options.a = i;
        options.b = i - 1;
        options.anchor = fsi_vec((fsi_real)(i - 1), 0, 0);
        if (i)
            fsi_solids_join(&solids, &options, NULL);
    }

    double t = now();

    for (int i = 0; i < 100; i++)
        fsi_solids_step(&solids, FSI_R(1.) / 120);
    t = (now() - t) / 100;
    fsi_solids_free(&solids);
    fsi_shape_free(&rod);
    return 1e6 * t / links;
}

/* floor y = 0.15 sin(3x) sin(3z) between walls at |x|, |z| = *user */
static fsi_real bumpy(fsi_vec3 x, fsi_vec3 *n, fsi_vec3 *v, void *user) {
    double half = *(const double *)user;
    double sx = sin(3 * (double)x.x);
    double sz = sin(3 * (double)x.z);
    fsi_vec3 g = fsi_vec((fsi_real)(-.45 * cos(3 * (double)x.x) * sz), 1,
                         (fsi_real)(-.45 * sx * cos(3 * (double)x.z)));
    double d = ((double)x.y - .15 * sx * sz) / (double)fsi_vec_length(g);
    *v = fsi_vec(0, 0, 0);
    *n = fsi_vec_unit(g);
    if (half - fabs((double)x.x) < d) {
        d = half - fabs((double)x.x);
        *n = fsi_vec(x.x > 0 ? FSI_R(-1.) : FSI_R(1.), 0, 0);
    }

    if (half - fabs((double)x.z) < d) {
        d = half - fabs((double)x.z);
        *n = fsi_vec(0, 0, x.z > 0 ? FSI_R(-1.) : FSI_R(1.));
    }

    return (fsi_real)d;
}

/* n reduced starfish with 20 modes dropped on a bumpy floor with walls, six layers, settled for a
 * second and a half, then timed. */
static pile run_reduced(int n) {
    int side = (int)ceil(sqrt(n / 6.) - 1e-9);
    double half = .3 * side;
    double best = 1e30;
    form_body form;
    fsi_reduced *reduced = (fsi_reduced *)calloc((size_t)n, sizeof *reduced);
    fsi_reduced **list = (fsi_reduced **)calloc((size_t)n, sizeof *list);
    memset(&form, 0, sizeof form);
    fsi_reduced_desc desc;
    memset(&desc, 0, sizeof desc);
    fsi_reduced_contacts contacts;
    memset(&contacts, 0, sizeof contacts);
    fsi_obstacle obstacle;
    memset(&obstacle, 0, sizeof obstacle);
    form.kind = FORM_STARFISH;
    form.a = FSI_R(0.25);
    form.b = FSI_R(0.05);
    form.c = FSI_R(0.07);
    fsi_mesh mesh;
    if (!reduced || !list
        || fsi_mesh_from_sdf(&mesh, form_distance, &form,
                             fsi_vec(-FSI_R(0.3), -FSI_R(0.1), -FSI_R(0.3)),
                             fsi_vec(FSI_R(0.3), FSI_R(0.1), FSI_R(0.3)), FSI_R(0.045), NULL)
               != FSI_OK)
        exit(1);
    desc.mesh = &mesh;
    desc.modes = 20;
    desc.density = 1000;
    desc.young = FSI_R(2e5);
    desc.poisson = FSI_R(0.3);
    desc.damping_stiffness = FSI_R(0.005);
    desc.samples = 80;
    desc.field = 28;

    fsi_reduced_model model;
    if (fsi_reduced_model_init(&model, &desc) != FSI_OK)
        exit(1);
    obstacle.distance_fn = bumpy;
    obstacle.user = &half;
    obstacle.friction = contacts.friction = FSI_R(0.4);
    contacts.slop = FSI_R(0.002);

    for (int i = 0; i < n; i++) {
        if (fsi_reduced_init(reduced + i, &model,
                             fsi_vec((fsi_real)(.55 * (i % side - .5 * (side - 1))),
                                     (fsi_real)(.5 + .35 * (i / side / side)),
                                     (fsi_real)(.55 * (i / side % side - .5 * (side - 1)))),
                             NULL)
            != FSI_OK)
            exit(1);
        reduced[i].gravity = fsi_vec(0, -10, 0);
        list[i] = reduced + i;
    }

    /* batches of ten steps; the first fifteen settle */
    for (int k = -15; k < 3; k++) {
        double t = now();
        for (int step = 0; step < 10; step++) {
            for (int i = 0; i < n; i++)
                fsi_reduced_forces(reduced + i, FSI_R(0.01));
            if (fsi_reduced_contact(&contacts, list, n, &obstacle, 1, FSI_R(0.01)) != FSI_OK)
                exit(1);
            for (int i = 0; i < n; i++)
                fsi_reduced_move(reduced + i, FSI_R(0.01));
        }

        t = (now() - t) / 10;
        if (k >= 0 && t < best)
            best = t;
    }

    pile p;
    p.ms = 1e3 * best;
    p.contacts = contacts.count;
    p.per_contact = 1e9 * best / contacts.count;

    for (int i = 0; i < n; i++)
        fsi_reduced_free(reduced + i);
    fsi_reduced_contacts_free(&contacts);
    fsi_reduced_model_free(&model);
    fsi_mesh_free(&mesh);
    free(reduced);
    free(list);
    return p;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    double one = 0;
    double first = 0;
    pile p;

    for (int t = 1; t <= most_threads(); t++) {
        use_threads(t);
        p = run(n, 1);
        printf("bench rigid_boxes_%d_t%d %.2f ms (%d contacts)\n", n, t, p.ms, p.contacts);
        printf("bench rigid_boxes_%d_t%d_bodies_per_ms %.1f 1/ms\n", n, t, n / p.ms);
        if (t == 1)
            one = p.ms;
        else
            printf("bench rigid_boxes_%d_speedup %.2f x\n", n, one / p.ms);
    }

    use_threads(1);
    p = run(n, 3);
    printf("bench rigid_mixed_%d_t1 %.2f ms (%d contacts)\nbench rigid_mixed_%d_t1_bodies_per_ms "
           "%.1f 1/ms\n",
           n, p.ms, p.contacts, n, n / p.ms);

    for (int t = n / 8; t <= 2 * n; t *= 2) {
        p = run(t, 1);
        if (first == 0)
            first = p.per_contact;
        printf("bench rigid_contact_cost_%d %.1f ns (x%.2f)\n", t, p.per_contact,
               p.per_contact / first);
    }

    printf("bench rigid_contact_growth %.2f x\n", p.per_contact / first);
    p = run_reduced(150);
    printf("bench reduced_150_t1 %.2f ms (%d contacts)\nbench reduced_150_t1_bodies_per_ms %.2f "
           "1/ms\n",
           p.ms, p.contacts, 150 / p.ms);
    first = 0;

    for (int t = 54; t <= 216; t *= 2) {
        p = run_reduced(t);
        if (first == 0)
            first = p.per_contact;
        printf("bench reduced_contact_cost_%d %.1f ns (x%.2f)\n", t, p.per_contact,
               p.per_contact / first);
    }

    printf("bench reduced_contact_growth %.2f x\n", p.per_contact / first);
    printf("bench joint_chain_200 %.2f us (per joint and step)\n", chain(200));
    return 0;
}
