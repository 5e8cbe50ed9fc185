/* forms.h: bodies of the figures as signed distances (negative inside), ready for
   fsi_mesh_from_sdf: sphere, box, torus, starfish, jellyfish (bell and arms) and helix. */
#ifndef FORMS_H
#define FORMS_H
#include <math.h>

#include "fsi_solids.h"

/* Every form is centred at the origin before it is moved to `centre`. Lengths in m. A form with a
   length <= 0 where one is needed counts as empty (distance 1e30). */
typedef enum form_kind {
    FORM_SPHERE = 0, /* a: radius */
    FORM_BOX = 1,    /* a, b, c: half sizes along x, y, z */
    FORM_TORUS = 2,  /* axis y; a: radius of the ring, b: radius of the tube */
    /* In the x-z plane; a: radius to the tips, b: half thickness in the middle, c: radius of an arm
       at its root; count: arms (0 = 5). */
    FORM_STARFISH = 3,
    /* Bell of a jellyfish, open towards -y; a: radius, b: thickness at the top, c: height. */
    FORM_BELL = 4,
    /* Arm of a jellyfish, hanging along -y from the origin; a: length, b: radius at the root, c:
       radius at the tip. */
    FORM_ARM = 5,
    /* Along y; a: radius of the coil, b: radius of the wire, c: height; count: turns (0 = 3). */
    FORM_HELIX = 6
} form_kind;

typedef struct form_body {
    form_kind kind;
    fsi_real a, b, c; /* see the kind, m */
    int count;        /* arms or turns */
    fsi_vec3 centre;  /* m */
} form_body;

static fsi_real form_least(fsi_real a, fsi_real b) {
    return a < b ? a : b;
}

static fsi_real form_length(fsi_real x, fsi_real y, fsi_real z) {
    return sqrt(x * x + y * y + z * z);
}

/* A rod from p to q whose radius goes linearly from radius_p to radius_q. */
static fsi_real form_rod(fsi_vec3 x, fsi_vec3 p, fsi_vec3 q, fsi_real radius_p, fsi_real radius_q) {
    fsi_real weight[2];
    fsi_real squared = fsi_closest_on_segment(x, p, q, weight);
    fsi_real radius = radius_p * weight[0] + radius_q * weight[1];
    return sqrt(squared) - radius;
}

static fsi_real form_box(const form_body *box, fsi_vec3 x) {
    fsi_real out_x = fabs(x.x) - box->a;
    fsi_real out_y = fabs(x.y) - box->b;
    fsi_real out_z = fabs(x.z) - box->c;

    /* Inside all three are negative, and the nearest face is the largest of them. */
    fsi_real inside = -form_least(-out_x, form_least(-out_y, -out_z));
    if (inside <= 0)
        return inside;
    return form_length(out_x > 0 ? out_x : 0, out_y > 0 ? out_y : 0, out_z > 0 ? out_z : 0);
}

static fsi_real form_torus(const form_body *torus, fsi_vec3 x) {
    fsi_real from_ring = form_length(x.x, x.z, 0) - torus->a;
    return form_length(from_ring, x.y, 0) - torus->b;
}

/* The arms are rods that get thinner towards their tips; y is stretched first, so that round arms
   become flat ones. */
static fsi_real form_starfish(const form_body *star, fsi_vec3 x) {
    fsi_real flat = star->b / star->c;
    fsi_real tip = star->c * 0.45;
    fsi_real reach = star->a - tip;
    int arms = star->count > 0 ? star->count : 5;
    fsi_real distance = FSI_REAL_MAX;

    x.y /= flat;
    for (int i = 0; i < arms; i++) {
        double turn = 2 * FSI_PI * i / arms;
        fsi_vec3 end = fsi_vec(reach * cos(turn), 0, reach * sin(turn));
        distance = form_least(distance, form_rod(x, fsi_vec(0, 0, 0), end, star->c, tip));
    }
    return distance * form_least(flat, 1);
}

/* The profile is a quarter of an ellipse, in rods that get thinner towards the rim:

        top  o---_        y
                  \_      |
              rim   o     +-- distance from the axis        */
static fsi_real form_bell(const form_body *bell, fsi_vec3 x) {
    fsi_vec3 in_profile = fsi_vec(form_length(x.x, x.z, 0), x.y, 0);
    fsi_vec3 from = fsi_vec(0, bell->c, 0);
    fsi_real radius_from = bell->b / 2;
    fsi_real distance = FSI_REAL_MAX;
    int rods = 24;

    for (int i = 1; i <= rods; i++) {
        fsi_real share = (fsi_real)i / (fsi_real)rods;
        double turn = FSI_PI / 2 * share;
        fsi_real radius_to = bell->b / 2 * (1 - 0.4 * share);
        fsi_vec3 to = fsi_vec(bell->a * sin(turn), bell->c * cos(turn), 0);
        distance = form_least(distance, form_rod(in_profile, from, to, radius_from, radius_to));
        from = to;
        radius_from = radius_to;
    }
    return distance;
}

static fsi_real form_helix(const form_body *helix, fsi_vec3 x) {
    int turns = helix->count > 0 ? helix->count : 3;
    int rods = 32 * turns;
    fsi_vec3 from = fsi_vec(helix->a, -helix->c / 2, 0);
    fsi_real distance = FSI_REAL_MAX;

    for (int i = 1; i <= rods; i++) {
        fsi_real share = (fsi_real)i / (fsi_real)rods;
        double turn = 2 * FSI_PI * (fsi_real)turns * share;
        fsi_vec3 to = fsi_vec(helix->a * cos(turn), helix->c * (share - 0.5), helix->a * sin(turn));
        distance = form_least(distance, form_rod(x, from, to, helix->b, helix->b));
        from = to;
    }
    return distance;
}

/* Signed distance to the form behind user: an fsi_sdf_fn. Exact for sphere, box and torus; a bound
   of the same sign for the others. */
static fsi_real form_distance(fsi_vec3 x, void *user) {
    const form_body *body = (const form_body *)user;
    int needs_b = body->kind != FORM_SPHERE;
    int needs_c = needs_b && body->kind != FORM_TORUS;
    if (!(body->a > 0) || (needs_b && !(body->b > 0)) || (needs_c && !(body->c > 0)))
        return 1e30;

    x = fsi_vec_sub(x, body->centre);
    switch (body->kind) {
    case FORM_SPHERE:
        return form_length(x.x, x.y, x.z) - body->a;
    case FORM_BOX:
        return form_box(body, x);
    case FORM_TORUS:
        return form_torus(body, x);
    case FORM_STARFISH:
        return form_starfish(body, x);
    case FORM_BELL:
        return form_bell(body, x);
    case FORM_ARM:
        return form_rod(x, fsi_vec(0, 0, 0), fsi_vec(0, -body->a, 0), body->b, body->c);
    case FORM_HELIX:
        return form_helix(body, x);
    }
    return 1e30;
}

#endif /* FORMS_H */
