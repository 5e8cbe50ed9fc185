/* What the reduced-body examples share: copies of a few models in a fluid world. Each group is a
   guest of the world; the first guest's functions run the stages for all of them: forces, doors,
   (coupled solve), velocities back, contact, motion. With newmark the scheme of REDUCED section 6
   instead: a coupled solve of half a step, motion and contact come first, then forces, doors,
   (coupled solve), velocities back. */
#ifndef SWARM_H
#define SWARM_H
#include "forms.h"

enum {
    SWARM_BODIES = 256
};

typedef struct swarm {
    fsi_world *world;
    fsi_reduced body[SWARM_BODIES];
    fsi_reduced *list[SWARM_BODIES];
    fsi_reduced_group group[SWARM_BODIES];
    fsi_reduced_group *groups_list[SWARM_BODIES];
    /* in place of a group: a copy on its own */
    fsi_reduced *single[SWARM_BODIES];
    fsi_coupled door[SWARM_BODIES];
    fsi_coupled *doors_list[SWARM_BODIES];
    int bodies;
    int groups;
    fsi_reduced_contacts contacts;
    fsi_obstacle wall;
    /* 1/s on momenta; the world's own damping for the fluid */
    fsi_real damping;
    int no_contact;
    int newmark;
    /* pushes before the forces; may be NULL */
    void (*drive_fn)(struct swarm *s, fsi_real dt, void *user);
    void *user;
    fsi_real joint_error; /* largest so far, m */
    /* height at which each was added, m */
    double begin[SWARM_BODIES];
    double solid_seconds; /* processor time in the stages */
    /* of copies, groups and contacts; NULL = malloc */
    const fsi_allocator *allocator;
} swarm;

/* inside of the grid's box, open above */
static fsi_real swarm_box(fsi_vec3 x, fsi_vec3 *normal, fsi_vec3 *velocity, void *user) {
    const fsi_grid *grid = (const fsi_grid *)user;
    fsi_real d[5];
    int k = 0;
    d[0] = x.y;
    d[1] = x.x;
    d[2] = (fsi_real)grid->nx * grid->h - x.x;
    d[3] = x.z;
    d[4] = (fsi_real)grid->nz * grid->h - x.z;
    fsi_real best;
    int i;

    for (best = d[0], i = 1; i < 5; i++)
        if (d[i] < best) {
            best = d[i];
            k = i;
        }
    *normal = k == 0   ? fsi_vec(0, 1, 0)
              : k == 1 ? fsi_vec(1, 0, 0)
              : k == 2 ? fsi_vec(-1, 0, 0)
              : k == 3 ? fsi_vec(0, 0, 1)
                       : fsi_vec(0, 0, -1);
    *velocity = fsi_vec(0, 0, 0);
    return best;
}

static fsi_result swarm_doors(swarm *s, fsi_real dt) {
    fsi_result result = FSI_OK;

    for (int i = 0; i < s->groups && result >= 0; i++) {
        result = s->single[i] ? fsi_reduced_couple(s->single[i], &s->door[i])
                              : fsi_reduced_group_couple(&s->group[i], dt, &s->door[i]);
        if (s->group[i].joint_error > s->joint_error)
            s->joint_error = s->group[i].joint_error;
    }

    return result;
}

static fsi_result swarm_take(swarm *s) {
    fsi_result result = FSI_OK;

    for (int i = 0; i < s->groups && result >= 0; i++)
        result =
            s->single[i] ? fsi_reduced_take(s->single[i]) : fsi_reduced_group_take(&s->group[i]);
    return result;
}

/* Contact, then motion; Newmark: motion, v^n back, contact. */
static fsi_result swarm_go(swarm *s, fsi_real dt) {
    fsi_result result = FSI_OK;

    for (int pass = 0; pass < 2 && result >= 0; pass++)
        if (pass == s->newmark) {
            /* copies on their own: by their samples */
            s->contacts.group = s->groups_list;
            s->contacts.group_count = s->bodies > s->groups ? s->groups : 0;
            if (!s->no_contact)
                result = fsi_reduced_contact(&s->contacts, s->list, s->bodies, &s->wall, 1, dt);
        } else {
            for (int i = 0; i < s->groups && result >= 0; i++)
                result = s->single[i] ? fsi_reduced_move(s->single[i], dt)
                                      : fsi_reduced_group_move(&s->group[i], dt);
            for (int i = 0; i < s->bodies && result >= 0 && s->newmark; i++)
                result = fsi_reduced_rewind(&s->body[i]);
        }
    return result;
}

static fsi_result swarm_begin(fsi_real dt, void *user) {
    swarm *s = (swarm *)user;
    clock_t t = clock();
    fsi_result result = FSI_OK;
    if (s->drive_fn)
        s->drive_fn(s, dt, s->user);

    fsi_real kept = 1 / (1 + dt * s->damping);
    for (int i = 0; i < s->bodies && s->damping > 0; i++) {
        fsi_reduced_rigid *rigid = s->body[i].rigid;
        rigid->momentum = fsi_vec_scale(rigid->momentum, kept);
        rigid->angular_momentum = fsi_vec_scale(rigid->angular_momentum, kept);
    }
    if (s->newmark) {
        for (int i = 0; i < s->bodies && result >= 0; i++)
            result = fsi_reduced_half(&s->body[i], dt);
        if (result >= 0)
            result = swarm_doors(s, dt / 2);
        if (result >= 0)
            result = fsi_couple_half(&s->world->couple, s->doors_list, s->groups, dt, NULL);
        if (result >= 0)
            result = swarm_take(s);
        if (result >= 0)
            result = swarm_go(s, dt);
    }

    for (int i = 0; i < s->bodies && result >= 0; i++)
        result = fsi_reduced_forces(&s->body[i], dt);
    if (result >= 0 && !s->newmark && !s->no_contact)
        result = fsi_reduced_contact_hold(&s->contacts, s->list, s->bodies, dt);
    if (result >= 0)
        result = swarm_doors(s, dt);
    s->solid_seconds += (double)(clock() - t) / CLOCKS_PER_SEC;
    return result;
}

static fsi_result swarm_move(fsi_real dt, void *user) {
    swarm *s = (swarm *)user;
    clock_t t = clock();
    fsi_result result = swarm_take(s);
    if (result >= 0 && !s->newmark)
        result = swarm_go(s, dt);
    s->solid_seconds += (double)(clock() - t) / CLOCKS_PER_SEC;
    return result;
}

/* A copy at T, turned by q; it joins a group later (swarm_group). */
static int swarm_add(swarm *s, fsi_world *world, const fsi_reduced_model *model, fsi_vec3 T,
                     fsi_quat q) {
    fsi_reduced *reduced = &s->body[s->bodies];
    s->world = world;

    if (s->bodies == SWARM_BODIES || fsi_reduced_init(reduced, model, T, s->allocator) != FSI_OK)
        return 0;
    fsi_reduced_place(reduced, T, q, fsi_vec(0, 0, 0), fsi_vec(0, 0, 0));
    reduced->gravity = world->grid.desc.gravity;
    s->wall.distance_fn = swarm_box;
    s->wall.user = &world->grid;
    s->wall.friction = 0.2;
    s->begin[s->bodies] = T.y;
    s->list[s->bodies++] = reduced;
    return 1;
}

/* The last count bodies become one group and a guest of the world. */
static int swarm_group(swarm *s, int count, const fsi_reduced_joint *joint, int joints,
                       const fsi_reduced_skin *skin) {
    fsi_guest guest;
    int k = s->groups++;
    memset(&guest, 0, sizeof guest);
    if (count == 1 && !joints && !skin)
        s->single[k] = s->list[s->bodies - 1];
    else if (fsi_reduced_group_init(&s->group[k], s->list + s->bodies - count, count, joint, joints,
                                    skin, s->allocator)
             != FSI_OK)
        return 0;
    guest.door = s->doors_list[k] = &s->door[k];
    s->groups_list[k] = &s->group[k];
    if (k == 0) {
        guest.stages.begin_fn = swarm_begin;
        guest.stages.move_fn = swarm_move;
        guest.stages.user = s;
    }

    return fsi_world_add_guest(s->world, &guest) == FSI_OK;
}

/* A skin around bodies at their present places: the isosurface d, as fine as its lattice, however
   many tetrahedra there are. Each vertex hangs on the triangle next to it of the nearest body and,
   the more the nearer it is (fading within `blend` m), of the second. Numbers are those in body;
   groups copy it. */
typedef struct swarm_hide {
    fsi_iso_mesh mesh;
    int32_t *body;
    int32_t *vertex;
    fsi_real *weight;
    fsi_reduced_skin skin;
} swarm_hide;

EX int swarm_skin(swarm_hide *hide, const fsi_reduced *body, int count, const fsi_iso_desc *desc,
                  double blend) {
    enum {
        MOST = 8
    };

    fsi_bvh bvh[MOST];
    fsi_surface own[MOST];
    fsi_real *x[MOST] = {NULL};
    int terms = count > 1 ? 6 : 3;
    memset(hide, 0, sizeof *hide);
    memset(own, 0, sizeof own);
    memset(bvh, 0, sizeof bvh);
    int ok = count >= 1 && count <= MOST && fsi_iso_build(desc, &hide->mesh) == FSI_OK;
    int n = hide->mesh.vertex_count;

    for (int b = 0; b < count && ok; b++) {
        const fsi_reduced_model *model = body[b].model;
        x[b] = (fsi_real *)malloc(3 * (size_t)model->surface_count * sizeof **x);
        for (int i = 0; i < model->surface_count; i++)
            fsi_vec_store(x[b] + 3 * i, fsi_reduced_point(&body[b], model->surface[i]));
        own[b].dim = 3;
        own[b].vertex_count = model->surface_count;
        own[b].element_count = model->element_count;
        own[b].x = x[b];
        own[b].index = model->index;
        ok = fsi_bvh_init(&bvh[b], model->element_count, NULL) == FSI_OK
             && fsi_bvh_build(&bvh[b], &own[b]) == FSI_OK;
    }

    hide->body = (int32_t *)calloc((size_t)(terms * n), sizeof(int32_t));
    hide->vertex = (int32_t *)calloc((size_t)(terms * n), sizeof(int32_t));
    hide->weight = (fsi_real *)calloc((size_t)(terms * n), sizeof(fsi_real));

    for (int i = 0; i < n && ok; i++) {
        fsi_hit hit[2];
        fsi_hit h;
        int near_body[2] = {0, 0};
        int found = 0;
        for (int b = 0; b < count; b++) {
            if (!fsi_bvh_closest(&bvh[b], fsi_vec_load(hide->mesh.x + 3 * i), 1e3, &h))
                continue;
            if (!found || h.t < hit[0].t) {
                hit[1] = hit[0];
                near_body[1] = near_body[0];
                hit[0] = h;
                near_body[0] = b;
            } else if (found == 1 || h.t < hit[1].t) {
                hit[1] = h;
                near_body[1] = b;
            }
            found++;
        }

        if (!found) {
            ok = 0;
            break;
        }

        double second =
            found > 1 && blend > 0 ? 0.5 * fmax(0, 1 - (hit[1].t - hit[0].t) / blend) : 0;
        for (int b = 0; b < terms / 3; b++)
            for (int k = 0; k < 3; k++) {
                const fsi_reduced_model *model = body[near_body[b]].model;
                hide->body[terms * i + 3 * b + k] = near_body[b];
                hide->vertex[terms * i + 3 * b + k] =
                    model->surface[model->index[3 * hit[b].element + k]];
                hide->weight[terms * i + 3 * b + k] = hit[b].weight[k] * (b ? second : 1 - second);
            }
    }

    hide->skin.vertex_count = n;
    hide->skin.element_count = hide->mesh.element_count;
    hide->skin.index = hide->mesh.index;
    hide->skin.terms = terms;
    hide->skin.body = hide->body;
    hide->skin.vertex = hide->vertex;
    hide->skin.weight = hide->weight;

    for (int b = 0; b < MOST; b++) {
        fsi_bvh_free(&bvh[b]);
        free(x[b]);
    }

    return ok;
}

/* The same for every copy of one model, from the model's own distance field. */
EX int swarm_skin_model(swarm_hide *hide, const fsi_reduced_model *model) {
    fsi_iso_desc desc = {
        .nx = model->nx,
        .ny = model->ny,
        .nz = model->nz,
        .h = model->h,
        .origin = model->origin,
        .value = model->phi,
    };

    fsi_reduced reduced;
    if (fsi_reduced_init(&reduced, model, fsi_vec(0, 0, 0), NULL) != FSI_OK)
        return 0;
    int ok = swarm_skin(hide, &reduced, 1, &desc, 0);
    fsi_reduced_free(&reduced);
    return ok;
}

/* One skin over bodies with these forms, joined smoothly over a centimetre; the cube of half-width
   half around at holds them. Numbers of particles and weights only, so it serves all bodies made
   like these. */
EX int swarm_skin_forms(swarm_hide *hide, const fsi_reduced *reduced, form_body *const *form,
                        int count, fsi_vec3 at, double half, double blend) {
    enum {
        N = 30
    };

    static fsi_real value[N * N * N];

    fsi_iso_desc desc = {
        .nx = N,
        .ny = N,
        .nz = N,
        .h = (2 * half) / (N - 1),
        .origin = fsi_vec_sub(at, fsi_vec(half, half, half)),
        .value = value,
    };

    for (int i = 0; i < N * N * N; i++) {
        fsi_vec3 x = fsi_vec_mad(desc.origin, fsi_vec(i % N, i / N % N, i / N / N), desc.h);
        double sum = 0;
        for (int k = 0; k < count; k++) /* x in the mesh's coordinates */
            sum += exp(-100
                       * form_distance(fsi_vec_add(fsi_vec_sub(x, reduced[k].rigid->position),
                                                   reduced[k].model->centre),
                                       form[k]));
        value[i] = fmin(-log(fmax(sum, 1e-30)) / 100, 0.2);
    }

    return swarm_skin(hide, reduced, count, &desc, blend);
}

EX void swarm_skin_free(swarm_hide *hide) {
    fsi_iso_free(&hide->mesh);
    free(hide->body);
    free(hide->vertex);
    free(hide->weight);
}

/* What all of them print: gap of the joints (0 without any), mean way upwards in body lengths,
 * memory of a copy. */
EX void swarm_results(const swarm *s, double length) {
    double way = 0;

    for (int i = 0; i < s->bodies; i++)
        way += (s->body[i].rigid->position.y - s->begin[i]) / s->bodies;

    ex_result("joint_error", "%.6f", s->joint_error / length);
    ex_result("swim_distance", "%.4f", way / length);

    /* state of one copy */
    ex_result("bytes_per_body", "%lu",
              s->bodies ? (unsigned long)(s->body[0].size + sizeof(fsi_reduced)) : 0ul);
}

/* Mean depth of the lowest points under a level, over radius. */
EX double swarm_depth(const swarm *s, double level, double radius) {
    double low;
    double sum = 0;
    int k;

    for (int i = 0; i < s->bodies; i++) {
        const fsi_reduced_model *model = s->body[i].model;
        for (low = 1e9, k = 0; k < model->surface_count; k++)
            low = fmin(low, fsi_reduced_point(&s->body[i], model->surface[k]).y);
        sum += fmax(0, level - low) / radius / s->bodies;
    }

    return sum;
}

/* A picture of box, bodies, dots (those behind a body do not show) and water (share of it seen, 0 =
 * none). */
typedef struct swarm_view {
    int width;
    int height;
    ex_camera camera;
    ex_color back;
    ex_color edge;
    ex_color (*color_fn)(const swarm *s, int group);
    double tile;
    double water;
    const fsi_real *dots;
    int dot_count;
} swarm_view;

EX void swarm_draw(ex_args *args, swarm *s, const swarm_view *v) {
    const fsi_grid *grid = &s->world->grid;
    ex_image image = ex_image_make(v->width, v->height);
    double hi[3];
    double p[3];
    double q[3];
    double lo[3] = {0, 0, 0};
    hi[0] = (grid->h * grid->nx);
    hi[1] = (grid->h * grid->ny);
    hi[2] = (grid->h * grid->nz);
    ex_clear(&image, v->back);
    ex_floor(&image, &v->camera, lo, hi, 1, 0, v->tile);

    for (int i = 0; i < s->groups; i++) {
        fsi_surface surface =
            s->single[i] ? s->door[i].surface : fsi_reduced_group_surface(&s->group[i]);
        fsi_real *x = (fsi_real *)malloc(3 * (size_t)surface.vertex_count * sizeof *x + 1);
        for (int k = 0; k < surface.vertex_count; k++)
            fsi_vec_store(x + 3 * k, fsi_surface_place(&surface, k));
        surface.x = x;
        ex_draw_surface3(&image, &v->camera, &surface, v->color_fn(s, i));
        free(x);
    }

    for (int i = 0; i < v->dot_count; i++) {
        for (int k = 0; k < 3; k++)
            p[k] = v->dots[3 * i + k];
        if (ex_project(&image, &v->camera, p, q) && q[0] >= 0 && q[1] >= 0 && q[0] < image.w
            && q[1] < image.h && q[2] < image.depth[(int)q[0] + image.w * (int)q[1]])
            ex_blend(&image, (int)q[0], (int)q[1], ex_rgb(190, 230, 200), 0.9);
    }

    if (v->water > 0)
        ex_draw_water(&image, &v->camera, grid->nx, grid->ny, grid->nz, grid->h, grid->phi,
                      ex_rgb(80, 160, 220), v->water);
    ex_box3(&image, &v->camera, lo, hi, v->edge);
    ex_frame(args, &image);
    ex_image_free(&image);
}

/* Vertex of a model nearest to x, in the mesh's coordinates. */
EX int swarm_nearest(const fsi_reduced_model *model, fsi_vec3 x) {
    fsi_real best = 1e30;
    int at = 0;
    x = fsi_vec_sub(x, model->centre);

    for (int i = 0; i < model->vertex_count; i++) {
        fsi_vec3 d = fsi_vec_sub(fsi_vec_load(model->x0 + 3 * i), x);
        if (fsi_vec_dot(d, d) < best) {
            best = fsi_vec_dot(d, d);
            at = i;
        }
    }

    return at;
}

static void swarm_free(swarm *s) {
    for (int i = 0; i < s->groups; i++)
        fsi_reduced_group_free(&s->group[i]);

    for (int i = 0; i < s->bodies; i++)
        fsi_reduced_free(&s->body[i]);
    fsi_reduced_contacts_free(&s->contacts);
}

/* Bytes held: what malloc gave through this allocator. */
EX void *swarm_take_bytes(size_t size, size_t align, void *user) {
    unsigned char *raw = (unsigned char *)malloc(size + 128);
    (void)align;
    if (!raw)
        return NULL;
    unsigned char *p = raw + 128 - ((uintptr_t)raw & 63u);
    memcpy(p - 16, &raw, sizeof raw);
    *(double *)user += size;
    return p;
}

EX void swarm_give_bytes(void *ptr, size_t size, void *user) {
    if (!ptr)
        return;
    void *raw;
    memcpy(&raw, (unsigned char *)ptr - 16, sizeof raw);
    *(double *)user -= size;
    free(raw);
}

/* Bytes in use after two steps of a world d with count copies of m on their own, the caller's
   structs included; they stand `aside` m beside the box's middle, in layers of nine. *sides:
   coupling sides of all. 0: failed. */
EX double swarm_bytes(const fsi_world_desc *given, const fsi_reduced_model *model, int count,
                      double aside, fsi_real (*phi)(fsi_vec3 x, void *user), void *user,
                      int *sides) {
    static swarm s;
    double bytes = 0;
    double held = 0;
    fsi_allocator allocator;
    fsi_world_desc desc = *given;
    allocator.alloc_fn = swarm_take_bytes;
    allocator.free_fn = swarm_give_bytes;
    allocator.user = &bytes;
    desc.grid.allocator = desc.couple.allocator = allocator;
    desc.max_guests = count;
    memset(&s, 0, sizeof s);
    s.allocator = &allocator;
    s.contacts.allocator = allocator;
    s.contacts.slop = given->grid.h / 10;

    fsi_world world;
    if (fsi_world_init(&world, &desc) != FSI_OK)
        return 0;
    int ok = fsi_grid_set_field(&world.grid, FSI_FIELD_PHI, phi, user) >= 0;

    for (int i = 0; i < count && ok; i++)
        ok = swarm_add(&s, &world, model,
                       fsi_vec(aside + 0.2 + 0.3 * (i % 3), 0.2 + 0.14 * (i / 9),
                               0.2 + 0.3 * (i / 3 % 3)),
                       fsi_quat_from_rotation(fsi_vec(0, 0, 0)))
             && swarm_group(&s, 1, NULL, 0, NULL);
    s.no_contact = aside > 0;

    for (int i = 0; i < 2 && ok; i++)
        ok = fsi_world_step(&world, 0.005, NULL) >= 0;
    *sides = world.couple.iface.sides;
    held = bytes + count * (double)(sizeof(fsi_reduced) + sizeof(fsi_coupled) + 2 * sizeof(void *));
    swarm_free(&s);
    fsi_world_free(&world);
    return ok && bytes == 0 ? held : 0;
}

/* What one more copy costs: for itself (beside the box: no coupling sides), and per coupling side
 * under water. */
EX void swarm_memory(const fsi_world_desc *desc, const fsi_reduced_model *model,
                     fsi_real (*phi)(fsi_vec3 x, void *user), void *user) {
    enum {
        FEW = 9,
        MORE = 18
    };

    int sides[2];
    double own = swarm_bytes(desc, model, MORE, 3, phi, user, sides)
                 - swarm_bytes(desc, model, FEW, 3, phi, user, sides);
    own /= MORE - FEW;
    double wet = swarm_bytes(desc, model, MORE, 0, phi, user, sides)
                 - swarm_bytes(desc, model, FEW, 0, phi, user, sides + 1);

    ex_result("bytes_per_body_all", "%.0f", own);
    ex_result("bytes_per_side", "%.0f", (wet - (MORE - FEW) * own) / fmax(1, sides[0] - sides[1]));
}

static fsi_quat swarm_turn(double x, double y, double z) {
    return fsi_quat_from_rotation(fsi_vec(x, y, z));
}

/* Tetrahedra of a form; the lattice is chosen so that there are about tets of them. */
static int swarm_mesh(fsi_mesh *mesh, form_body *form, fsi_vec3 half, int tets) {
    double h = pow(8.0 * (half.x * half.y * half.z) * 12 * 0.5 / tets, 1.0 / 3);

    for (int k = 0; k < 4; k++) {
        fsi_real m = 2 * h;
        memset(mesh, 0, sizeof *mesh);
        if (fsi_mesh_from_sdf(mesh, form_distance, form,
                              fsi_vec(-half.x - m, -half.y - m, -half.z - m),
                              fsi_vec(half.x + m, half.y + m, half.z + m), h, NULL)
            != FSI_OK) {
            h *= 0.7;
            continue;
        }

        double got = mesh->tet_count;
        if (k == 3 || fabs(got / tets - 1) < 0.1)
            return 1;
        fsi_mesh_free(mesh);
        h *= pow(got / tets, 1.0 / 3);
    }

    return 0;
}
#endif
