/* fsi_sph.h 1.0: particle fluids (WCSPH, DFSPH) and total-Lagrangian explicit finite elements
   (TLED), 2D and 3D, one header of fsi.
   SPDX-License-Identifier: see the end of this file.

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_sph.h"
       #include <stdio.h>

       // A block of water collapses in a tank.
       int main(void) {
           // Water as particles 0.1 m apart, kept at their density by the DFSPH solver.
           fsi_sph_desc desc = {
               .solver = FSI_SPH_DFSPH,
               .capacity = 1000,
               .boundary_capacity = 6000,
               .spacing = FSI_R(0.1),
               .density = 1000,
               .gravity = fsi_vec(0, FSI_R(-9.81), 0),
           };
           fsi_sph sph;
           if (fsi_sph_init(&sph, &desc) != FSI_OK)
               return 1;

           // A cube of 1 m at rest in the corner of a tank of 3 m x 2 m x 1 m.
           fsi_vec3 corner = fsi_vec(0, 0, 0);
           fsi_vec3 at_rest = fsi_vec(0, 0, 0);
           fsi_sph_add_block(&sph, corner, fsi_vec(1, 1, 1), at_rest, NULL);
           fsi_sph_add_box_walls(&sph, corner, fsi_vec(3, 2, 1), 0, NULL);

           // Half a second, in steps that the solver chooses.
           if (fsi_sph_advance(&sph, FSI_R(0.5), 0, NULL, NULL) < 0)
               return 1;
           printf("%d particles after %g s\n", sph.now.count, sph.now.time);
           fsi_sph_free(&sph);
           return 0;
       }
   Compile: cc main.c -lm          (a first TLED: examples/tled_beam.c)

   WHAT IT DOES
   Fluids: weakly compressible (Tait, leap-frog, optional delta-SPH density) or divergence-free
   (density and divergence solves, warm start);
   laminar, artificial and XSPH viscosity; walls and moving bodies of boundary particles, forces
   and torques on them; emitters, removal boxes.
   Solids: linear tetrahedra, three hyperelastic laws, explicit, with the exact critical step of
   every element. Any surface: fsi_lookup.

   WHAT IT DOES NOT
   Surface tension, several fluids in one object, plasticity, contact between solids.

   CONFIGURATION (define before the include)
   FSI_SINGLE (every includer): float. FSI_IMPLEMENTATION (one file): code here. FSI_NO_OPENMP
   (implementation): no threads.

   UNITS AND CONVENTIONS
   SI. 2D: z = 0 and everything per metre of depth. The support radius R of a kernel is where it
   ends; h = R / 2 in the formulas.

   GLOSSARY
   door      what a solid hands to a coupling scheme: the struct fsi_coupled
   boundary  particles that stand for a wall or a solid and push fluid particles
   look-up   a table of the triangles near every small cell of space
   room      space that is left: items a list or an array can take

   USAGE
   fsi_sph_prepare     removal, emission, sorting by cells, neighbour lists, wall volumes,
                       densities   (here the particle order changes)
   fsi_sph_accelerate  pressure and all forces: v becomes v*, forces on two-way objects
                       (a coupling changes v after this)
   fsi_sph_move        x += dt v
   fsi_tled_accelerate and fsi_tled_move likewise. Particle order changes by sorting: follow a
   particle by id[].
   For partitioned coupling: save, set objects, prepare, accelerate, read bf or object.force,
   restore; bit for bit repeatable.

   NUMERICAL NOTES
   Steps: fsi_sph_max_dt and fsi_tled_max_dt. WCSPH with c = 10 times the top speed compresses by
   about 1 %.
   Support: 2 spacings is fastest (about 30 neighbours in 3D); hydrostatic pressures are then
   within 1 % on average and 1.5 % in the bottom
   layer (H-08, docs/sph.md). Wider supports smooth more and cost more. The first half spacing
   below a free surface carries no pressure.
   DFSPH: a mean density error e lets an acceleration of e * depth / dt^2 go unnoticed: small steps
   need a smaller density_error, or a column
   at rest breathes. Iterations: projected Jacobi with momentum; a tall column at rest needs tens,
   a dam break about ten.
   Nearly inviscid 2D columns of DFSPH are restless: give them some artificial viscosity (0.05 to
   0.1; more keeps them moving, docs/sph.md).
   Walls: boundary particles half a spacing outside; the wall guard keeps lone fast particles from
   slipping through a single layer.
   TLED: below min_volume the energy continues quadratically, so inverted elements push back
   instead of failing; such steps return FSI_CAPPED.
   St. Venant-Kirchhoff has no barrier against inversion. Near nu = 0.5 use FSI_TLED_NEARLY with
   average_pressure.

   MEMORY
   One block per object, made by init. Particles: about 800 bytes each in float, mostly neighbour
   lists (desc.neighbors). Nothing is
   allocated in steps. Too small lists cut neighbours, count them (stats.truncated) and the step
   returns FSI_CAPPED.

   ERRORS
   Negative results change nothing; positive ones are done, but look. Not finite positions or
   velocities: FSI_ERR_NUMERIC.

   THREADS AND DETERMINISM
   OpenMP inside each call; every particle and node gathers its own sum in a fixed order: same bits
   for any number of threads.

   REFERENCES
   Yang et al. 2012 (paper 004); Monaghan 1992, 2005; Mueller et al. 2003; Becker and Teschner
   2007; Akinci et al. 2012 (boundaries);
   Adami, Hu and Adams 2012 (pressure in walls); Bender and Koschier 2017 (DFSPH); Antuono et al.
   2010 (delta-SPH); Miller et al. 2007 (TLED); Bonet and Burton 1998 (nodal pressure);
   Zhu and Bridson 2005 (surface).

   CHANGELOG
   1.00  first release.

   LICENCE
   MIT or public domain, as you prefer; text at the end of the file. */
#if defined(FSI_IMPLEMENTATION) && !defined(FSI_DECLARATIONS_ONLY)                                 \
    && !defined(FSI_SPH_IMPLEMENTATION)
#define FSI_SPH_IMPLEMENTATION
#endif
#include "fsi_linalg.h"

#ifndef FSI_SPH_H
#define FSI_SPH_H
#if FSI_LINALG_VERSION != 100
#error "vendor all fsi_*.h files from the same release"
#endif
#ifdef FSI_SINGLE /* first calls of a user: a mixture of precisions does not link */
#define fsi_sph_init fsi_sph_init_f32
#define fsi_lookup_init fsi_lookup_init_f32
#define fsi_tled_init fsi_tled_init_f32
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>kernels */
/* Smoothing kernels by support radius R (W = 0 for r >= R). Smoothing lengths of the literature:
   cubic spline and Wendland R = 2 h, poly6, spiky and viscosity R = h. */
typedef enum fsi_kernel {
    FSI_KERNEL_CUBIC = 0,    /* cubic spline (Monaghan): the default */
    FSI_KERNEL_WENDLAND = 1, /* Wendland C2: no pairing of particles */
    /* in fsi_sph_desc: the trio of paper 004 (poly6 density, spiky pressure, viscosity Laplacian)
     */
    FSI_KERNEL_POLY6 = 2,
    FSI_KERNEL_SPIKY = 3,    /* functions only */
    FSI_KERNEL_VISCOSITY = 4 /* functions only */
} fsi_kernel;

/* W(r), 1/m^dim; dim 2 or 3, R > 0. 0 for bad arguments. The viscosity kernel is infinite at r = 0.
 */
FSI_API fsi_real fsi_kernel_value(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* dW/dr, 1/m^(dim+1): never positive inside. */
FSI_API fsi_real fsi_kernel_slope(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* Laplacian of W, 1/m^(dim+2); for the viscosity kernel the positive, linear one it was made for.
 */
FSI_API fsi_real fsi_kernel_laplacian(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* Tait: p = rho0 c^2 / gamma ((rho / rho0)^gamma - 1), Pa (paper 004, eq. 4). */
FSI_API fsi_real fsi_sph_tait(fsi_real density, fsi_real rest_density, fsi_real sound_speed,
                              fsi_real gamma);

/* ------------------------------------------------------------------------------------------------
 * >>sph */
typedef enum fsi_sph_solver {
    FSI_SPH_WCSPH = 0,
    FSI_SPH_DFSPH = 1
} fsi_sph_solver;

#define FSI_SPH_OBJECTS 64  /* most boundary objects of one fluid */
#define FSI_SPH_EMITTERS 16 /* most emitters, and most removal boxes */

typedef struct fsi_sph_desc {
    /* 2 or 3; 0 = 3. In 2D z and vz are 0, masses are per metre of depth */
    int dim;
    int capacity;          /* most fluid particles, >= 1 (required) */
    int boundary_capacity; /* most boundary particles; 0 = none */
    fsi_sph_solver solver; /* WCSPH or DFSPH */
    fsi_kernel kernel;     /* FSI_KERNEL_CUBIC, _WENDLAND or _POLY6 (= the trio of paper 004) */
    fsi_real spacing;      /* rest distance of particles, m, > 0 (required) */
    fsi_real support;      /* kernel support radius R, m; 0 = 2 * spacing */
    fsi_real density;      /* rest density, kg/m^3, > 0 (required) */
    /* c of WCSPH, m/s; required there (about 10 times the top speed); ignored by DFSPH */
    fsi_real sound_speed;
    fsi_real gamma;     /* exponent of Tait; 0 = 7, range [1, 7] */
    fsi_real viscosity; /* laminar, dynamic mu, Pa s; 0 = none */
    /* Monaghan's alpha; 0 = none (0.01 .. 0.1 usual; needs sound_speed also in DFSPH) */
    fsi_real artificial;
    fsi_real xsph;           /* XSPH smoothing of velocities, 0 .. 1; 0 = none */
    fsi_real wall_viscosity; /* laminar mu between fluid and boundary particles, Pa s; 0 = slip */
    /* delta-SPH: > 0 integrates the density with this much diffusion (0.1 usual; WCSPH); 0 = summed
     * density */
    fsi_real delta;
    /* 1: negative pressures (WCSPH) and two-sided divergence solve (DFSPH) are kept; 0 = clamped to
     * 0 */
    int tension;
    fsi_vec3 gravity; /* m/s^2 */
    /* Verlet list: neighbours within support + skin are kept until something moved skin / 2; 0 =
     * new list each step */
    fsi_real skin;
    /* list room per particle on average; 0 = about twice a full neighbourhood; one particle may
     * take 8 times that */
    int neighbors;
    fsi_real density_error;    /* DFSPH: mean compression to reach, relative; 0 = 1e-4 */
    fsi_real divergence_error; /* DFSPH: mean |D rho / D t| dt / rho0 to reach; 0 = 1e-3 */
    int max_iterations;        /* DFSPH: cap of each solve; 0 = 100 */
    int cold_start;            /* DFSPH: 1 = no warm start */
    fsi_real cfl;              /* Courant factor of max_dt; 0 = 0.4 */
    fsi_real dt_max;           /* largest step max_dt may give, s; 0 = no limit */
    fsi_allocator allocator;   /* zero = malloc */
} fsi_sph_desc;

/* A group of boundary particles that move together: a wall, or the skin of a solid. */
typedef struct fsi_sph_object {
    int first, count; /* its boundary particles: bx[first] .. bx[first + count - 1] */
    int two_way;      /* 1: force, torque and bf are computed in every step */
    int contact;      /* particles that felt the fluid in the last step (two-way objects) */
    fsi_vec3 centre;  /* point the torque is about, m; moved by fsi_sph_object_pose */
    /* of the fluid on the object in the last step, N and N m (per metre in 2D) */
    fsi_vec3 force, torque;
} fsi_sph_object;

/* Blows a layer of particles through a disk (3D) or segment (2D) every spacing / speed seconds,
 * where no other particle is in the way. */
typedef struct fsi_sph_emitter {
    fsi_vec3 centre;      /* m */
    fsi_vec3 direction;   /* any length > 0 */
    fsi_real radius;      /* of the disk, half length of the segment, m, > 0 */
    fsi_real speed;       /* m/s, > 0 */
    fsi_real from, until; /* active time, s; until 0 = for ever */
    double due;           /* private: time of the next layer, s */
} fsi_sph_emitter;

/* Fluid particles inside (or, with outside = 1, outside) the box vanish at the start of the next
 * step. */
typedef struct fsi_sph_box {
    fsi_vec3 lo, hi;
    int outside;
} fsi_sph_box;

/* The scalars of the dynamic state; saved and restored together with the arrays. */
typedef struct fsi_sph_scalars {
    int count;                    /* fluid particles */
    int boundary_count;           /* boundary particles */
    int objects, emitters, boxes; /* how many of each */
    int list_valid;               /* private: the Verlet list may be used again */
    int boundary_dirty;           /* private: boundary particles moved or were added */
    int32_t next_id;              /* id of the next particle */
    /* so far: by emitters, by removal boxes, because they left for infinity */
    int64_t emitted, removed, lost;
    double time;               /* s */
    fsi_real dt_old;           /* last step, s: leap-frog kicks by (dt_old + dt) / 2 */
    fsi_real max_acceleration; /* of the last accelerate, m/s^2 (DFSPH: without pressure) */
    fsi_real mean_pressure;    /* of the last accelerate, Pa (DFSPH) */
    fsi_sph_object object[FSI_SPH_OBJECTS];
    fsi_sph_emitter emitter[FSI_SPH_EMITTERS];
    fsi_sph_box box[FSI_SPH_EMITTERS];
} fsi_sph_scalars;

/* What the last step did, beyond fsi_report. */
typedef struct fsi_sph_stats {
    int density_iterations, divergence_iterations; /* DFSPH */
    fsi_real density_error;    /* DFSPH: mean compression left, relative; WCSPH: mean compression */
    fsi_real divergence_error; /* DFSPH: mean |D rho / D t| dt / rho0 left */
    fsi_real max_density;      /* largest rho / rho0 */
    fsi_real max_speed;        /* m/s, after the velocity update */
    int64_t pairs;             /* entries of the neighbour lists (each fluid pair twice) */
    int max_neighbors;         /* longest list */
    /* particles whose list was cut for lack of room: the step returns FSI_CAPPED */
    int truncated;
    int rebuilt; /* 1: lists were made new in this step */
    /* layers of emitters that found no room (capacity) in this step, wholly or in part */
    int blocked;
} fsi_sph_stats;

/* private: counting-sorted cells on a torus: any positions, fixed memory */
typedef struct fsi__sph_cells {
    int t[3];     /* table size in cells */
    int wrap[3];  /* 1: this axis is longer than the table and wraps round */
    fsi_real inv; /* 1 / cell edge */
    /* cells are this many times shorter along x: a search ends where the sphere ends */
    int fine;
    int base[3];    /* cell coordinate of table entry 0 */
    int32_t *start; /* [room + 1] first particle of each cell */
    int room;       /* most cells */
} fsi__sph_cells;

/* A fluid of particles. Arrays are open: read them any time, change x and v between the stages of a
   step. The order of the fluid particles changes in fsi_sph_prepare (sorting by cells, removal,
   emission) and nowhere else; id[] stays with its particle. */
typedef struct fsi_sph {
    fsi_sph_desc desc;   /* as resolved: no zeros that mean default */
    fsi_sph_scalars now; /* counts, time, objects */
    fsi_sph_stats stats; /* of the last step */
    /* dynamic state, one contiguous range; fluid particles [capacity], used [now.count] */
    fsi_real *x, *y, *z;    /* positions, m */
    fsi_real *vx, *vy, *vz; /* velocities, m/s (WCSPH: half a step behind the positions) */
    fsi_real *mass;         /* kg, > 0 */
    /* density, kg/m^3; of the last prepare, with delta > 0 part of the state */
    fsi_real *rho;
    /* DFSPH warm start: dt^2 and dt times the stiffness of the two solves */
    fsi_real *kappa, *kappa_v;
    int32_t *id;   /* stable names, unique, in order of creation */
    fsi_real *ref; /* private: positions of the last list (only with skin > 0) */
    fsi_real *bx,
        *bv; /* boundary particles [3 * boundary_capacity]: positions m, velocities m/s; after a
                change by hand set now.boundary_dirty = 1 (fsi_sph_object_* do it) */
    /* [3 * boundary_capacity] positions in the object's own frame (as added) */
    fsi_real *blocal;
    int32_t *bobject; /* [boundary_capacity] object of each boundary particle */
    /* results of the last stages, not saved */
    fsi_real *p; /* [capacity] pressure, Pa (DFSPH: of both solves together) */
    /* [capacity] acceleration of the last accelerate, m/s^2 (DFSPH: without pressure) */
    fsi_real *ax, *ay, *az;
    /* [boundary_capacity] volume of each boundary particle, m^3 (Akinci 2012) */
    fsi_real *bvolume;
    /* [3 * boundary_capacity] force of the fluid on each boundary particle of two-way objects, N */
    fsi_real *bf;
    /* [capacity] neighbours of i: fluid list[first..middle), boundary list[middle..last) */
    int32_t *first, *middle, *last;
    int32_t *list;   /* fluid: index; boundary: index into border[] */
    int32_t *border; /* [boundary_capacity] boundary particle behind a list entry */
    /* private */
    fsi_real *grad; /* per list entry: m F = m W'(r) / r */
    /* packed copies for the pair loops: x y z m and vx vy vz s; fluid first, then boundary */
    fsi_real *xm, *vp;
    fsi_real *factor, *work, *cx, *cy, *cz; /* per particle scratch; sorted boundary positions */
    int32_t *key, *order;                   /* sorting */
    fsi__sph_cells cells, bcells;
    int ready;             /* 1 after prepare, 2 after accelerate */
    int list_room;         /* list entries per chunk of particles */
    fsi_real excess;       /* DFSPH: compression undone in this step at most, kg/m^3 */
    fsi_real least_factor; /* DFSPH: sum |m grad W|^2 of a full neighbourhood */
    /* calibrates boundary volumes: a flat wall at rest spacing completes the density */
    fsi_real wall_scale;
    void *block, *state; /* the one allocation, and where the state begins in it */
    size_t block_size, state_bytes;
} fsi_sph;

/* Checks the desc, makes the one allocation. */
FSI_API fsi_result fsi_sph_init(fsi_sph *sph, const fsi_sph_desc *desc);
/* Frees; safe on a zeroed struct and twice. */
FSI_API void fsi_sph_free(fsi_sph *sph);
/* Adds n particles. x [3n] positions; v [3n] velocities or NULL = at rest; mass [n] kg or NULL =
   density * spacing^dim. All or nothing: FSI_ERR_ARGUMENT (not finite, mass <= 0), FSI_ERR_SIZE
   (capacity). Between steps only. */
FSI_API fsi_result fsi_sph_add(fsi_sph *sph, int n, const fsi_real *x, const fsi_real *v,
                               const fsi_real *mass);
/* Adds particles on the lattice lo + spacing * (i + 1/2) inside the box, all with velocity v. count
 * (may be NULL) gets how many. */
FSI_API fsi_result fsi_sph_add_block(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, fsi_vec3 v,
                                     int *count);
/* Adds a boundary object of n particles at world positions x [3n], at rest, centred at centre.
 * object (may be NULL) gets its number. */
FSI_API fsi_result fsi_sph_add_boundary(fsi_sph *sph, int n, const fsi_real *x, fsi_vec3 centre,
                                        int two_way, int *object);
/* Adds walls of boundary particles around the box of fluid [lo, hi], the first layer half a spacing
   outside its faces: a fluid lattice of add_block fits exactly. One layer for support = 2 spacing,
   more for more. open: bit 0..5 leaves side -x +x -y +y -z +z away. */
FSI_API fsi_result fsi_sph_add_box_walls(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, unsigned open,
                                         int *object);
/* Adds a flat patch of boundary particles corner + a u + b v, a, b in [0, 1] (2D: along u only),
   half a spacing behind it, seen from the fluid on the side of the normal n (any length > 0). */
FSI_API fsi_result fsi_sph_add_plane(fsi_sph *sph, fsi_vec3 corner, fsi_vec3 u, fsi_vec3 v,
                                     fsi_vec3 n, int *object);
/* Samples a surface with points about spacing apart (none nearer than 0.7 spacing) and adds them as
 * a boundary object. */
FSI_API fsi_result fsi_sph_add_surface(fsi_sph *sph, const fsi_surface *surface, fsi_vec3 centre,
                                       int two_way, int *object);
/* The sampling alone: out [3 * room] gets points, count how many there are (also when room is too
 * small: FSI_ERR_SIZE; out NULL = count). */
FSI_API fsi_result fsi_sph_sample_surface(const fsi_surface *surface, fsi_real spacing,
                                          fsi_real *out, int room, int *count,
                                          const fsi_allocator *allocator);
/* Rigid motion of an object: its particles go to centre + R(q) (local - centre at creation), with
 * velocity v + w x r. */
FSI_API fsi_result fsi_sph_object_pose(fsi_sph *sph, int object, fsi_vec3 centre, fsi_quat q,
                                       fsi_vec3 v, fsi_vec3 w);
/* Any motion: new positions x [3 count] and velocities v [3 count] (NULL = at rest) of an object's
 * particles, by order of adding. */
FSI_API fsi_result fsi_sph_object_set(fsi_sph *sph, int object, const fsi_real *x,
                                      const fsi_real *v);
/* Adds an emitter or a removal box; FSI_ERR_SIZE when there are FSI_SPH_EMITTERS already. */
FSI_API fsi_result fsi_sph_add_emitter(fsi_sph *sph, const fsi_sph_emitter *emitter);
FSI_API fsi_result fsi_sph_add_removal(fsi_sph *sph, const fsi_sph_box *box);

/* One step = prepare, accelerate, move; a coupling sits between the stages (after accelerate v is
 * v*, and move uses what is then in v). */
FSI_API fsi_result fsi_sph_step(fsi_sph *sph, fsi_real dt, fsi_report *report);
/* Stage 1: removal, emission, sorting, neighbour lists, boundary volumes, densities. dt > 0 is the
   coming step. FSI_ERR_NUMERIC when a position or velocity is not finite: nothing was changed. */
FSI_API fsi_result fsi_sph_prepare(fsi_sph *sph, fsi_real dt);
/* Stage 2: forces and pressure; changes velocities, not positions. Then forces on two-way objects.
   Last the wall guard: particles nearer than 0.8 spacing to boundary particles lose their velocity
   towards them (counted in the forces). report may be NULL. */
FSI_API fsi_result fsi_sph_accelerate(fsi_sph *sph, fsi_real dt, fsi_report *report);
/* Stage 3: x += dt v, time += dt. */
FSI_API fsi_result fsi_sph_move(fsi_sph *sph, fsi_real dt);
/* Steps of at most max_dt until duration is over (the last ones evened out). steps (may be NULL)
 * gets how many; at most max_steps (0 = no cap). */
FSI_API fsi_result fsi_sph_advance(fsi_sph *sph, fsi_real duration, int max_steps, int *steps,
                                   fsi_report *report);
/* Largest advisable step, s. WCSPH: cfl * h / (c + speed) with h = support / 2; DFSPH: cfl *
   spacing / speed, where the speed is at least sqrt(g * spacing) and sqrt(2 mean pressure /
   density): beyond that the lattice of a compressed column buckles from step to step; both: 0.125
   h^2 rho / mu, 0.5 h / (alpha c), 0.25 sqrt(h / |acceleration|). */
FSI_API fsi_real fsi_sph_max_dt(const fsi_sph *sph);

/* Bytes that fsi_sph_save writes; the same for one object during its life. */
FSI_API size_t fsi_sph_state_size(const fsi_sph *sph);
/* Copies the whole dynamic state out (between steps or between stages; after restore the next stage
 * is prepare). */
FSI_API fsi_result fsi_sph_save(const fsi_sph *sph, void *out);
/* Copies it back; a restored run continues bit for bit. The state must come from this object or one
 * with an equal desc. */
FSI_API fsi_result fsi_sph_restore(fsi_sph *sph, const void *state);

/* Sums over fluid particles: mass kg, momentum N s, kinetic energy J; any pointer may be NULL. */
FSI_API void fsi_sph_totals(const fsi_sph *sph, double *mass, double momentum[3], double angular[3],
                            double *kinetic);
/* Signed distance of the fluid for drawing, at nodes origin + h (i, j, k), phi [nx ny nz], negative
   inside; smoothing radius = support (weighted mean of centres, Zhu and Bridson 2005); radius of a
   particle, m (0 = spacing * 0.55). Uses the cells of the last prepare. */
FSI_API fsi_result fsi_sph_level(const fsi_sph *sph, fsi_vec3 origin, fsi_real h, int nx, int ny,
                                 int nz, fsi_real radius, fsi_real *phi);
/* Bytes of memory per fluid particle of this object. */
FSI_API double fsi_sph_bytes_per_particle(const fsi_sph *sph);

/* ------------------------------------------------------------------------------------------------
 * >>look-up */
/* Uniform grid over the elements of one surface (triangles; segments in 2D), made anew in every
   step: closest element, first crossing of a segment, all elements within a sphere. An element
   stands in every cell within `reach` of its bounds, so a query of at most that radius reads one
   cell; larger ones are right too and read more. Cells are counted and sorted on a torus: memory is
   fixed, any positions do, the cost of a build is that of the surface. Elements much larger than
   the cells stand in a list of their own. Against the tree of the base (fsi_bvh): faster where
   points come near the surface, docs/sph.md. Queries are read-only: any number of threads may ask
   at once; answers do not depend on the cells (as long as distances have squares: from 1e-154 m,
   single 1e-19 m, see fsi_closest_on_triangle). */
typedef struct fsi_lookup {
    /* the surface of the last build; its arrays are read by the queries */
    fsi_surface surface;
    int capacity;   /* most elements */
    fsi_real reach; /* of the last build, m */
    /* private */
    fsi_real lo[3], hi[3]; /* bounds of the surface */
    fsi_real *box;         /* [6 * capacity] bounds of each element, slightly enlarged */
    /* [capacity] 0, 1, 2 ...; then `large` large elements; then those of the cells */
    int32_t *item;
    int large;
    fsi__sph_cells cells;
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_lookup;

/* Room for capacity >= 1 elements in one block (about 200 bytes each in float). allocator may be
 * NULL (malloc). */
FSI_API fsi_result fsi_lookup_init(fsi_lookup *lookup, int capacity,
                                   const fsi_allocator *allocator);
/* Frees the block; safe on a zeroed struct and twice. */
FSI_API void fsi_lookup_free(fsi_lookup *lookup);
/* The surface as it is now; reach >= 0, m: the radius most queries will have. Allocates nothing.
   FSI_ERR_SIZE: more elements than capacity; FSI_ERR_ARGUMENT: a bad reach; other errors as
   fsi_surface_check. After an error the look-up is empty. */
FSI_API fsi_result fsi_lookup_build(fsi_lookup *lookup, const fsi_surface *surface, fsi_real reach);
/* Element nearest to p within radius (ties: lowest index). 1 and *hit, or 0. */
FSI_API int fsi_lookup_closest(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius, fsi_hit *hit);
/* First crossing of p -> q (smallest t, ties: lowest index; fsi_surface_cross). 1 and *hit, or 0.
 */
FSI_API int fsi_lookup_first_hit(const fsi_lookup *lookup, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit);
/* All elements within radius of p, nearest first (ties: lowest index); writes at most room of them
 * and returns how many there are. */
FSI_API int fsi_lookup_sphere(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius, fsi_hit *hits,
                              int room);

/* ------------------------------------------------------------------------------------------------
 * >>tled */
/* Total-Lagrangian explicit dynamics on linear tetrahedra (paper 004, section 3.3): P = dpsi/dF,
   nodal force -V0 P grad N0. With J = det F, I1 = |F|^2: FSI_TLED_STVK        psi = mu |E|^2 +
   lambda/2 (tr E)^2,  E = (F^T F - I)/2 FSI_TLED_NEOHOOKEAN  psi = mu/2 (I1 - 3) - mu ln J +
   lambda/2 ln^2 J FSI_TLED_NEARLY      psi = mu/2 (J^(-2/3) I1 - 3) + K/2 (J - 1)^2      (nearly
   incompressible; K = bulk modulus) */
typedef enum fsi_tled_material {
    FSI_TLED_NEOHOOKEAN = 0,
    FSI_TLED_STVK = 1,
    FSI_TLED_NEARLY = 2
} fsi_tled_material;

typedef struct fsi_tled_desc {
    int nodes, tets;   /* >= 4, >= 1 (required) */
    const fsi_real *x; /* [3 nodes] rest positions, m; copied */
    /* [4 tets] nodes; either orientation (turned round where the volume is negative); copied */
    const int32_t *tet;
    fsi_real density; /* kg/m^3, > 0 (required) */
    fsi_real young;   /* Pa, > 0 (required) */
    fsi_real poisson; /* [0, 0.5) */
    fsi_tled_material material;
    /* 1: pressure from nodal volumes (against locking near nu = 0.5); not with FSI_TLED_STVK */
    int average_pressure;
    fsi_real damping; /* mass-proportional, 1/s: force -damping * m * v; 0 = none */
    fsi_vec3 gravity; /* m/s^2 */
    /* inversion guard: below this J the energy continues quadratically; 0 = 0.1, range (0, 1) */
    fsi_real min_volume;
    fsi_real safety;         /* of max_dt: fraction of the rest-state limit; 0 = 0.8 */
    fsi_allocator allocator; /* zero = malloc */
} fsi_tled_desc;

typedef struct fsi_tled {
    fsi_tled_desc desc; /* as resolved; desc.x and desc.tet point to the own copies */
    int nodes, tets;
    /* dynamic state, one contiguous range */
    fsi_real *x;     /* [3 nodes] positions, m */
    fsi_real *v;     /* [3 nodes] velocities, m/s, half a step behind the positions */
    fsi_real *drive; /* [3 nodes] velocity of fixed nodes, m/s (0 = held) */
    /* [3 nodes] external forces, N: kept from step to step until changed */
    fsi_real *fext;
    double *clock; /* [2] time and last dt, s */
    /* constant */
    fsi_real *x0;                  /* [3 nodes] rest positions */
    int32_t *tet;                  /* [4 tets] positively oriented */
    fsi_real *mass, *inverse_mass; /* [nodes] kg, 1/kg (0 = fixed) */
    fsi_real *volume;              /* [tets] rest volumes, m^3 */
    /* [tets] critical step 2 / omega_max of each element alone, s (exact eigenvalue; bounds the
     * mesh, S-10) */
    fsi_real *dt_element;
    fsi_real dt_critical; /* s: smallest of them */
    int worst;            /* the element it comes from */
    /* surface: faces that belong to one tetrahedron; vertices are the nodes themselves */
    int triangles;
    int32_t *triangle; /* [3 triangles] counter-clockwise seen from outside */
    int32_t *identity; /* [nodes] 0, 1, 2 ... (fsi_coupled.node) */
    fsi_real *impulse; /* [3 nodes] room for the impulse of a coupling scheme, N s */
    /* results of the last accelerate */
    fsi_real *force; /* [3 nodes] internal forces, N */
    int inverted;    /* elements below min_volume */
    fsi_real min_j;  /* smallest J */
    /* private */
    fsi_real *grad; /* per block of 8 elements: 9 gradient components and the volume */
    /* [12 per element] forces of the element on its corners, in blocks of 8 */
    fsi_real *corner;
    int32_t *corner_start, *corner_at; /* gather lists: node -> corners */
    fsi_real *node_p, *node_v0;        /* averaged pressure and rest volume of the nodes */
    fsi_real *block_j;                 /* smallest J of each block of 8 elements */
    int32_t *block_bad;                /* elements below min_volume in each block */
    fsi_real mu, lambda, bulk;         /* Lame constants and bulk modulus, Pa */
    int ready;                         /* 1 after accelerate */
    void *block;
    size_t block_size, state_bytes;
} fsi_tled;

/* Checks everything (indices, finite, no tetrahedron of zero volume: FSI_ERR_GEOMETRY),
 * precomputes, one allocation. */
FSI_API fsi_result fsi_tled_init(fsi_tled *tled, const fsi_tled_desc *desc);
/* Frees; safe on a zeroed struct and twice. */
FSI_API void fsi_tled_free(fsi_tled *tled);
/* Fixes a node (it moves with drive velocity, 0 = held) or frees it again. */
FSI_API fsi_result fsi_tled_fix(fsi_tled *tled, int node, fsi_vec3 drive);
FSI_API fsi_result fsi_tled_unfix(fsi_tled *tled, int node);
/* One step of central differences = accelerate, move. FSI_DT_TOO_LARGE when dt > max_dt (the step
   is done), FSI_CAPPED when elements are below min_volume, FSI_ERR_NUMERIC when something is not
   finite (state as before the step). */
FSI_API fsi_result fsi_tled_step(fsi_tled *tled, fsi_real dt);
/* Stage 1: internal forces, new velocities v*. A coupling may then change v (impulse *
 * inverse_mass). */
FSI_API fsi_result fsi_tled_accelerate(fsi_tled *tled, fsi_real dt);
/* Stage 2: x += dt v. */
FSI_API fsi_result fsi_tled_move(fsi_tled *tled, fsi_real dt);
/* safety * dt_critical, s: of the rest state. Elements near or beyond inversion are stiffer
 * (FSI_CAPPED) and need a fifteenth of it or less. */
FSI_API fsi_real fsi_tled_max_dt(const fsi_tled *tled);
/* Internal forces at the current positions into t->force (no step). */
FSI_API fsi_result fsi_tled_forces(fsi_tled *tled);
/* Energies, J, of the current positions and velocities; momentum and angular momentum about the
 * origin; any pointer may be NULL. */
FSI_API void fsi_tled_totals(const fsi_tled *tled, double *kinetic, double *elastic,
                             double momentum[3], double angular[3]);
/* Deformation gradient of an element now. */
FSI_API fsi_mat3 fsi_tled_gradient(const fsi_tled *tled, int tet);
/* What the fluid sees: a closed surface on all nodes with velocities; points into t. */
FSI_API fsi_surface fsi_tled_surface(const fsi_tled *tled);
/* The door for coupling schemes (nodal kind); points into t. */
FSI_API fsi_coupled fsi_tled_coupled(fsi_tled *tled);
/* State of one block: positions, velocities, drives, external forces, clock. */
FSI_API size_t fsi_tled_state_size(const fsi_tled *tled);
FSI_API fsi_result fsi_tled_save(const fsi_tled *tled, void *out);
FSI_API fsi_result fsi_tled_restore(fsi_tled *tled, const void *state);

#ifdef __cplusplus
}
#endif
#endif /* FSI_SPH_H */
/* Stop here if you only need the API. */

#if defined(FSI_SPH_IMPLEMENTATION) && !defined(FSI_SPH_IMPLEMENTED)
#define FSI_SPH_IMPLEMENTED
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>kernels */
/* Symbols: R support, q = r / R, W = sigma w(q), F = W'(r) / r, so that grad W = F x_ij with x_ij =
   x_i - x_j. cubic     w = 2 (1-q)+^3 - 8 (1/2-q)+^3             wendland  w = (1-q)^4 (4 q + 1)
   poly6     w = (1-q^2)^3      spiky w = (1-q)^3      viscosity w = -q^3/2 + q^2 + 1/(2q) - 1 */
#if defined(__GNUC__) || defined(__clang__)
#define FSI__SPH_FORCE_INLINE                                                                      \
    static inline __attribute__((always_inline, unused)) /* one copy of a pair loop per kernel */
#else
#define FSI__SPH_FORCE_INLINE static inline
#endif

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
#define FSI__SPH_LANES                                                                             \
    _Pragma("GCC unroll 1") /* gcc -O3 unrolls short loops before it could vectorise them */
#else
#define FSI__SPH_LANES
#endif

/* makes the integral of W one */
static fsi_real fsi__kernel_sigma(fsi_kernel kernel, int dim, fsi_real R) {
    static const double s2[5] = {40.0 / 7, 7, 4, 10, 10.0 / 3},
                        s3[5] = {8, 10.5, 315.0 / 64, 15, 7.5};
    double r = (double)R, pi = 3.14159265358979323846;
    return (fsi_real)(dim == 2 ? s2[kernel] / (pi * r * r) : s3[kernel] / (pi * r * r * r));
}

/* max(x, 0) without a branch, exact */
FSI__SPH_FORCE_INLINE fsi_real fsi__sph_clip(fsi_real x) {
    return FSI_R(0.5) * (x + fsi__abs(x));
}

/* w(q), q >= 0; 0 from 1 on */
FSI__SPH_FORCE_INLINE fsi_real fsi__kernel_w(fsi_kernel kernel, fsi_real q) {
    fsi_real a = fsi__sph_clip(1 - q), b = fsi__sph_clip(FSI_R(0.5) - q);
    switch (kernel) {
    case FSI_KERNEL_CUBIC:
        return 2 * a * a * a - 8 * b * b * b;
    case FSI_KERNEL_WENDLAND:
        return a * a * a * a * (4 * q + 1);
    case FSI_KERNEL_POLY6:
        a *= 1 + q;
        return a * a * a;
    case FSI_KERNEL_SPIKY:
        return a * a * a;
    case FSI_KERNEL_VISCOSITY:
        return -q * q * q / 2 + q * q + 1 / (2 * q) - 1;
    }
    return 0;
}

/* w'(q) / q, q > 0, i = 1 / q */
FSI__SPH_FORCE_INLINE fsi_real fsi__kernel_fi(fsi_kernel kernel, fsi_real q, fsi_real i) {
    fsi_real a = fsi__sph_clip(1 - q), b = fsi__sph_clip(FSI_R(0.5) - q);
    switch (kernel) {
    case FSI_KERNEL_CUBIC:
        return (24 * b * b - 6 * a * a) * i;
    case FSI_KERNEL_WENDLAND:
        return -20 * a * a * a;
    case FSI_KERNEL_POLY6:
        a *= 1 + q;
        return -6 * a * a;
    case FSI_KERNEL_SPIKY:
        return -3 * a * a * i;
    case FSI_KERNEL_VISCOSITY:
        return (-3 * q * q / 2 + 2 * q - i * i / 2) * i;
    }
    return 0;
}

FSI__INLINE fsi_real fsi__kernel_f(fsi_kernel kernel, fsi_real q) {
    return fsi__kernel_fi(kernel, q, 1 / q);
}

static int fsi__kernel_ok(fsi_kernel k, int dim, fsi_real R, fsi_real r) {
    return (int)k >= 0 && (int)k <= 4 && (dim == 2 || dim == 3) && R > 0 && r >= 0 && r < R;
}

FSI_API fsi_real fsi_kernel_value(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    return fsi__kernel_ok(kernel, dim, R, r)
               ? fsi__kernel_sigma(kernel, dim, R) * fsi__kernel_w(kernel, r / R)
               : 0;
}

FSI_API fsi_real fsi_kernel_slope(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    if (!fsi__kernel_ok(kernel, dim, R, r))
        return 0;
    if (r == 0)
        return kernel == FSI_KERNEL_SPIKY ? -3 * fsi__kernel_sigma(kernel, dim, R) / R : 0;
    return fsi__kernel_sigma(kernel, dim, R) / R * (r / R) * fsi__kernel_f(kernel, r / R);
}

FSI_API fsi_real fsi_kernel_laplacian(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    fsi_real q = r / R, a = 1 - q, b = fsi__max(FSI_R(0.5) - q, 0), n = (fsi_real)(dim - 1);
    if (!fsi__kernel_ok(kernel, dim, R, r))
        return 0;
    fsi_real s = fsi__kernel_sigma(kernel, dim, R) / (R * R);
    /* linear; scaled so that the integral of r^2 times it is 2 dim */
    if (kernel == FSI_KERNEL_VISCOSITY)
        return dim == 3 ? 6 * s * a : 40 / FSI_PI / (R * R * R * R) * a;
    q = fsi__max(q, FSI_R(1e-6));
    fsi_real second = kernel == FSI_KERNEL_CUBIC      ? 12 * a - 48 * b
                      : kernel == FSI_KERNEL_WENDLAND ? 60 * q * a * a - 20 * a * a * a
                      : kernel == FSI_KERNEL_POLY6    ? (1 - q * q) * (30 * q * q - 6)
                                                      : 6 * a;
    /* w'' + (dim - 1) w' / q */
    return s * (second + n * fsi__kernel_f(kernel, q));
}

FSI_API fsi_real fsi_sph_tait(fsi_real density, fsi_real rest_density, fsi_real sound_speed,
                              fsi_real gamma) {
    fsi_real t = density / rest_density, B = rest_density * sound_speed * sound_speed / gamma;
    fsi_real t3 = t * t * t;
    return B * ((gamma == 7 ? t3 * t3 * t : fsi__pow(t, gamma)) - 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>cells */
#define FSI__SPH_FAR                                                                               \
    FSI_R(1e8)          /* particles further than this many cells from the origin are lost */
#define FSI__SPH_FINE 4 /* fluid cells along x per support radius */

/* |t| <= FSI__SPH_FAR */
FSI__INLINE int fsi__sph_floor(fsi_real t) {
    int i = (int)t;
    return i - (t < (fsi_real)i);
}

/* Table for cells lo .. hi (one empty cell around); an axis that does not fit wraps: far particles
   then share cells, and the distance test tells them apart. */
static void fsi__sph_cells_fit(fsi__sph_cells *cells, const int lo[3], const int hi[3], int dim) {
    int d;
    for (d = 0; d < 3; d++) {
        cells->base[d] = lo[d] - 1;
        cells->t[d] = hi[d] - lo[d] + 3;
        cells->wrap[d] = 0;
        if (d == 2 && dim == 2) {
            cells->base[d] = 0;
            cells->t[d] = 1;
        }
    }
    while ((double)cells->t[0] * (double)cells->t[1] * (double)cells->t[2] > (double)cells->room) {
        int big = cells->t[0] >= cells->t[1] ? (cells->t[0] >= cells->t[2] ? 0 : 2)
                                             : (cells->t[1] >= cells->t[2] ? 1 : 2);
        /* the next power of two below; room >= 4096 cells: never below 8 */
        for (d = 1; 2 * d < cells->t[big]; d *= 2) {
        }
        cells->t[big] = d;
        cells->wrap[big] = 1;
    }
}

FSI__INLINE void fsi__sph_cell_of(const fsi__sph_cells *cells, fsi_real x, fsi_real y, fsi_real z,
                                  int at[3]) {
    at[0] = fsi__sph_floor(x * ((fsi_real)cells->fine * cells->inv));
    at[1] = fsi__sph_floor(y * cells->inv);
    at[2] = fsi__sph_floor(z * cells->inv);
}

FSI__INLINE int fsi__sph_key(const fsi__sph_cells *cells, const int at[3]) {
    int a[3];
    for (int d = 0; d < 3; d++) {
        a[d] = at[d] - cells->base[d];
        if (cells->wrap[d])
            a[d] &= cells->t[d] - 1;
    }
    return a[0] + cells->t[0] * (a[1] + cells->t[1] * a[2]);
}

/* Rows of cells along x around (at[1], at[2]): table entry of each row's first cell, and how far
   along y and z a point at fraction f of the middle cell is from the row, in cells: max(0, a + b
   f). Twelve places for at most nine rows: whole vectors. */
typedef struct fsi__sph_rows {
    int32_t row[12];
    fsi_real ya[12], yb[12], za[12], zb[12];
    int n;
} fsi__sph_rows;

/* table coordinate, or -1 when outside */
static int fsi__sph_wrapped(const fsi__sph_cells *cells, int d, int at) {
    int a = at - cells->base[d];
    if (cells->wrap[d])
        return a & (cells->t[d] - 1);
    return a < 0 || a >= cells->t[d] ? -1 : a;
}

static void fsi__sph_rows_around(const fsi__sph_cells *cells, const int at[3],
                                 fsi__sph_rows *rows) {
    /* rounding of y / edge - cell */
    const fsi_real slack = FSI_R(1e-4) + 4 * FSI_REAL_EPS * (fsi_real)(abs(at[1]) + abs(at[2]));
    /* rows before, at and behind the point */
    const fsi_real a[3] = {-slack, 0, 1 - slack}, b[3] = {1, 0, -1};
    int nz = cells->t[2] > 1 ? 1 : 0;
    memset(rows, 0, sizeof *rows);
    for (int dz = -nz; dz <= nz; dz++) {
        int b2 = nz ? fsi__sph_wrapped(cells, 2, at[2] + dz) : 0;
        for (int dy = -1; dy <= 1 && b2 >= 0; dy++) {
            int b1 = fsi__sph_wrapped(cells, 1, at[1] + dy), k = rows->n;
            if (b1 < 0)
                continue;
            rows->row[k] = cells->t[0] * (b1 + cells->t[1] * b2);
            rows->ya[k] = a[dy + 1];
            rows->yb[k] = b[dy + 1];
            rows->za[k] = a[dz + 1];
            rows->zb[k] = b[dz + 1];
            rows->n++;
        }
    }
}

/* Sorted particles of cells lo .. hi of one row: span[0] .. span[1] and, where the row wraps,
   span[2] .. span[3]. Returns how many pairs, none of them empty: a particle far from walls must
   not walk through nine empty rows of them. */
FSI__INLINE int fsi__sph_span(const fsi__sph_cells *cells, int row, int lo, int hi,
                              int32_t span[4]) {
    const int32_t *start = cells->start + row;
    int t = cells->t[0];
    lo -= cells->base[0];
    hi -= cells->base[0];
    if (!cells->wrap[0] || hi - lo >= t - 1) {
        if (lo < 0 || cells->wrap[0])
            lo = 0;
        if (hi > t - 1 || cells->wrap[0])
            hi = t - 1;
        if (lo > hi)
            return 0;
        span[0] = start[lo];
        span[1] = start[hi + 1];
        return span[0] < span[1];
    }
    lo &= t - 1;
    hi &= t - 1;
    span[0] = start[lo];
    span[1] = start[lo <= hi ? hi + 1 : t];
    int n = span[0] < span[1];
    if (lo <= hi)
        return n;
    span[2 * n] = start[0];
    span[2 * n + 1] = start[hi + 1];
    return n + (span[2 * n] < span[2 * n + 1]);
}

/* All sorted particles in the cells around a point, as at most 18 ranges. */
typedef struct fsi__sph_ranges {
    int32_t at[2 * 18];
    int n;
} fsi__sph_ranges;

static void fsi__sph_ranges_around(const fsi__sph_cells *cells, fsi_real x, fsi_real y, fsi_real z,
                                   fsi__sph_ranges *ranges) {
    int at[3];
    fsi__sph_cell_of(cells, x, y, z, at);
    fsi__sph_rows rows;
    fsi__sph_rows_around(cells, at, &rows);
    int k;
    for (ranges->n = 0, k = 0; k < rows.n; k++)
        ranges->n += fsi__sph_span(cells, rows.row[k], at[0] - cells->fine, at[0] + cells->fine,
                                   ranges->at + 2 * ranges->n);
}

/* Counting sort, stable: order[k] = particle at sorted place k. key[n] holds the cells. */
static void fsi__sph_cells_sort(fsi__sph_cells *c, int n, const int32_t *key, int32_t *order) {
    int cells = c->t[0] * c->t[1] * c->t[2];
    int32_t *start = c->start, sum = 0;
    memset(start, 0, ((size_t)cells + 1) * sizeof *start);
    for (int i = 0; i < n; i++)
        start[key[i]]++;
    for (int i = 0; i <= cells; i++) {
        int32_t k = start[i];
        start[i] = sum;
        sum += k;
    }
    for (int i = 0; i < n; i++)
        order[start[key[i]]++] = i;
    for (int i = cells; i > 0; i--)
        start[i] = start[i - 1];
    start[0] = 0;
}

/* Candidates of a search in groups of eight sorted particles: at = the first, end = where its range
   ends. Groups of all ranges stand in one row, so that one loop tests them: a loop for each short
   range would end where the processor does not expect it. */
#define FSI__SPH_GROUPS 64

typedef struct fsi__sph_search {
    const fsi_real *x, *y, *z; /* sorted particles to search among */
    fsi_vec3 p;                /* neighbours of this point ... */
    fsi_real r2;               /* ... nearer than the root of this ... */
    int self;                  /* ... but not this particle (-1: none) */
    int32_t *out;              /* list to append to: n entries so far, at most room */
    int n, room, full;         /* full: the room ended */
    int groups;
    int32_t at[FSI__SPH_GROUPS + 4], end[FSI__SPH_GROUPS + 4];
} fsi__sph_search;

/* Tests the groups and appends the hits in order, without a branch: four tests make a number 0 ..
 * 15 that looks up how the hits move up. */
static void fsi__sph_test(fsi__sph_search *search) {
    static const int32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7}, bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    static const int32_t count[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    static const int32_t up[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0},
                                      {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
                                      {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0},
                                      {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3}};
    const fsi_real px = search->p.x, py = search->p.y, pz = search->p.z, r2 = search->r2;
    int32_t *FSI__RESTRICT out = search->out;
    ptrdiff_t n = search->n;
    int g;
    for (g = 0; g < search->groups && n + 8 <= search->room; g++) {
        int32_t j = search->at[g], left = search->end[g] - j, own = search->self - j, hits = 0;
        const fsi_real *FSI__RESTRICT x = search->x + j, *FSI__RESTRICT y = search->y + j,
                                      *FSI__RESTRICT z = search->z + j;
        FSI__SPH_LANES
        for (int32_t k = 0; k < 8; k++) {
            fsi_real dx = x[k] - px, dy = y[k] - py, dz = z[k] - pz;
            hits |= (dx * dx + dy * dy + dz * dz < r2 ? bit[k] : 0) & (lane[k] < left ? bit[k] : 0)
                    & (lane[k] != own ? bit[k] : 0);
        }
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++)
            out[n + k] = j + up[hits & 15][k];
        n += count[hits & 15];
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++)
            out[n + k] = j + 4 + up[hits >> 4][k];
        n += count[hits >> 4];
    }
    search->full |= g < search->groups;
    search->n = (int)n;
    search->groups = 0;
}

/* Makes groups of the sorted particles begin .. end - 1; four are written whether needed or not:
 * more than a row of a fluid at rest has. */
FSI__INLINE void fsi__sph_candidates(fsi__sph_search *search, int begin, int end) {
    static const int32_t next[4] = {0, 8, 16, 24};
    int32_t g;
    do {
        int32_t *FSI__RESTRICT at = search->at + search->groups,
                               *FSI__RESTRICT to = search->end + search->groups;
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++) {
            at[k] = begin + next[k];
            to[k] = end;
        }
        g = (end - begin + 7) >> 3;
        search->groups += fsi__imin(g, 4);
        begin += 32;
        if (search->groups > FSI__SPH_GROUPS - 4)
            fsi__sph_test(search);
    } while (g > 4);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph */
#define FSI__SPH_CHUNK                                                                             \
    256 /* particles that share one pool of list entries; also the grain of the threads */
#define FSI__SPH_PARTS 64 /* fixed parts of small reductions */
#define FSI__SPH_MIRROR                                                                            \
    2 /* a boundary particle carries the pressure of the fluid particle it meets: (p_i + p_i) */

static void fsi__sph_layout(fsi_sph *sph, fsi_arena *arena) {
    size_t n = (size_t)sph->desc.capacity + 16, b = (size_t)sph->desc.boundary_capacity + 16;
    size_t chunks = ((size_t)sph->desc.capacity + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK, pool = 0;
    fsi_real **real[] = {&sph->x,  &sph->y,    &sph->z,   &sph->vx,    &sph->vy,
                         &sph->vz, &sph->mass, &sph->rho, &sph->kappa, &sph->kappa_v};
    fsi_real **more[] = {&sph->p, &sph->ax, &sph->ay, &sph->az, &sph->factor, &sph->work};
    for (size_t k = 0; k < sizeof real / sizeof *real; k++)
        FSI__TAKE(*real[k], fsi_real, arena, n);
    FSI__TAKE(sph->id, int32_t, arena, n);
    FSI__TAKE(sph->ref, fsi_real, arena, sph->desc.skin > 0 ? 3 * (n + b) : 0);
    FSI__TAKE(sph->bx, fsi_real, arena, 3 * b);
    FSI__TAKE(sph->bv, fsi_real, arena, 3 * b);
    FSI__TAKE(sph->blocal, fsi_real, arena, 3 * b);
    FSI__TAKE(sph->bobject, int32_t, arena, b);
    sph->state_bytes = arena->used;
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
        FSI__TAKE(*more[k], fsi_real, arena, n);
    FSI__TAKE(sph->bvolume, fsi_real, arena, b);
    FSI__TAKE(sph->bf, fsi_real, arena, 3 * b);
    FSI__TAKE(sph->cx, fsi_real, arena, b);
    FSI__TAKE(sph->cy, fsi_real, arena, b);
    FSI__TAKE(sph->cz, fsi_real, arena, b);
    FSI__TAKE(sph->border, int32_t, arena, b);
    FSI__TAKE(sph->first, int32_t, arena, n);
    FSI__TAKE(sph->middle, int32_t, arena, n);
    FSI__TAKE(sph->last, int32_t, arena, n);
    FSI__TAKE(sph->key, int32_t, arena, n > b ? n : b);
    FSI__TAKE(sph->order, int32_t, arena, n > b ? n : b);
    FSI__TAKE(sph->cells.start, int32_t, arena, (size_t)sph->cells.room + 1);
    FSI__TAKE(sph->bcells.start, int32_t, arena, (size_t)sph->bcells.room + 1);
    FSI__TAKE(sph->xm, fsi_real, arena, 4 * (n + b));
    FSI__TAKE(sph->vp, fsi_real, arena, 4 * (n + b));
    if (!fsi_size_mul(chunks, (size_t)sph->list_room, &pool) || pool > 0x7fffff00u)
        arena->failed = 1;
    FSI__TAKE(sph->list, int32_t, arena, pool + 16);
    FSI__TAKE(sph->grad, fsi_real, arena, pool + 16);
}

static fsi_real fsi__sph_rest_mass(const fsi_sph_desc *desc) {
    return desc->density * desc->spacing * desc->spacing * (desc->dim == 3 ? desc->spacing : 1);
}

static int fsi__sph_positive(fsi_real x) {
    return fsi__finite(x) && x > 0;
}

static int fsi__sph_natural(fsi_real x) {
    return fsi__finite(x) && x >= 0;
}

static int fsi__sph_desc_ok(const fsi_sph_desc *desc) {
    const fsi_real natural[] = {desc->support,
                                desc->sound_speed,
                                desc->gamma,
                                desc->viscosity,
                                desc->artificial,
                                desc->xsph,
                                desc->wall_viscosity,
                                desc->delta,
                                desc->skin,
                                desc->density_error,
                                desc->divergence_error,
                                desc->cfl,
                                desc->dt_max};
    for (size_t k = 0; k < sizeof natural / sizeof *natural; k++)
        if (!fsi__sph_natural(natural[k]))
            return 0;
    return (desc->dim == 2 || desc->dim == 3) && desc->capacity >= 1 && desc->boundary_capacity >= 0
           && desc->neighbors >= 0 && desc->max_iterations >= 0
           && ((int)desc->solver == 0 || (int)desc->solver == 1) && (int)desc->kernel >= 0
           && desc->kernel <= FSI_KERNEL_POLY6 && fsi__sph_positive(desc->spacing)
           && fsi__sph_positive(desc->density) && desc->support >= desc->spacing
           && desc->support <= 6 * desc->spacing && desc->gamma >= 1 && desc->gamma <= 7
           && desc->xsph <= 1 && fsi__finite_vec(desc->gravity) && desc->skin <= desc->support
           && (desc->solver == FSI_SPH_DFSPH || desc->sound_speed > 0)
           && fsi_allocator_valid(&desc->allocator) && desc->capacity < 0x1fffff00
           && desc->boundary_capacity < 0x1fffff00;
}

static void fsi__sph_defaults(fsi_sph_desc *desc) {
    if (desc->dim == 0)
        desc->dim = 3;
    if (desc->support == 0)
        desc->support = 2 * desc->spacing;
    if (desc->gamma == 0)
        desc->gamma = 7;
    if (desc->density_error == 0)
        desc->density_error = FSI_R(1e-4);
    if (desc->divergence_error == 0)
        desc->divergence_error = FSI_R(1e-3);
    if (desc->max_iterations == 0)
        desc->max_iterations = 100;
    if (desc->cfl == 0)
        desc->cfl = FSI_R(0.4);
    double R = (double)(desc->support + desc->skin) / (double)desc->spacing;
    /* particles in the support */
    double full = desc->dim == 3 ? 4.19 * R * R * R : 3.15 * R * R;
    if (desc->neighbors == 0 && full < 1e6)
        desc->neighbors = (int)(1.8 * full) + 16;
}

/* Sum of W over a flat lattice of the rest spacing at height z above it. */
static double fsi__sph_lattice(const fsi_sph_desc *desc, fsi_real z) {
    int m = (int)(desc->support / desc->spacing) + 1, mj = desc->dim == 3 ? m : 0;
    double sum = 0;
    for (int i = -m; i <= m; i++)
        for (int j = -mj; j <= mj; j++) {
            fsi_real x = (fsi_real)i * desc->spacing, y = (fsi_real)j * desc->spacing;
            sum += (double)fsi_kernel_value(desc->kernel, desc->dim, desc->support,
                                            fsi__sqrt(x * x + y * y + z * z));
        }
    return sum;
}

/* layers of a wall that fill the support of a particle one spacing away */
static int fsi__sph_layers(const fsi_sph_desc *desc) {
    return fsi__imax(1, (int)fsi__ceil(desc->support / desc->spacing - FSI_R(1.001)));
}

/* A boundary particle has volume wall_scale / sum W: spacing^dim in the first layer of a flat wall,
   so that the density beside it is the rest density; larger where a thin sampled surface stands for
   all the layers. */
static fsi_real fsi__sph_wall_scale(const fsi_sph_desc *desc) {
    double sum = 0, v0 = (double)(desc->dim == 3 ? desc->spacing * desc->spacing * desc->spacing
                                                 : desc->spacing * desc->spacing);
    for (int k = 0; k < fsi__sph_layers(desc); k++)
        sum += fsi__sph_lattice(desc, (fsi_real)k * desc->spacing);
    return (fsi_real)(v0 * sum);
}

/* sum |m grad W|^2 of a particle on the rest lattice. */
static double fsi__sph_lattice_stiffness(const fsi_sph_desc *desc) {
    int m = (int)(desc->support / desc->spacing) + 1, mk = desc->dim == 3 ? m : 0;
    fsi_kernel fk = desc->kernel == FSI_KERNEL_POLY6 ? FSI_KERNEL_SPIKY : desc->kernel;
    double sum = 0, mass = (double)fsi__sph_rest_mass(desc);
    for (int k = -mk; k <= mk; k++)
        for (int j = -m; j <= m; j++)
            for (int i = -m; i <= m; i++) {
                double g = (double)fsi_kernel_slope(
                    fk, desc->dim, desc->support,
                    desc->spacing * fsi__sqrt((fsi_real)(i * i + j * j + k * k)));
                if (i || j || k)
                    sum += mass * mass * g * g;
            }
    return sum;
}

FSI_API fsi_result fsi_sph_init(fsi_sph *sph, const fsi_sph_desc *desc) {
    fsi_arena arena = {NULL, 0, 0, 0};
    if (!sph || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_sph_desc given = *desc;
    fsi__sph_defaults(&given);
    if (!fsi__sph_desc_ok(&given))
        return FSI_ERR_ARGUMENT;
    memset(sph, 0, sizeof *sph);
    sph->desc = given;
    sph->cells.room = 4 * given.capacity + 4096;
    sph->bcells.room = 2 * given.boundary_capacity + 4096;
    sph->cells.inv = sph->bcells.inv = 1 / (given.support + given.skin);
    sph->cells.fine = FSI__SPH_FINE;
    sph->bcells.fine = 1;
    if ((double)given.neighbors * FSI__SPH_CHUNK > 1e9)
        return FSI_ERR_SIZE;
    sph->list_room = given.neighbors * FSI__SPH_CHUNK + 64;
    fsi__sph_layout(sph, &arena);
    fsi_result result = fsi__arena_block(&arena, &given.allocator, &sph->block, &sph->block_size);
    if (result != FSI_OK) {
        memset(sph, 0, sizeof *sph);
        return result;
    }
    fsi__sph_layout(sph, &arena);
    sph->state = sph->block;
    sph->wall_scale = fsi__sph_wall_scale(&given);
    sph->least_factor = (fsi_real)fsi__sph_lattice_stiffness(&given);
    sph->now.boundary_dirty = 1;
    return FSI_OK;
}

FSI_API void fsi_sph_free(fsi_sph *sph) {
    if (!sph)
        return;
    if (sph->block)
        fsi_free(&sph->desc.allocator, sph->block, sph->block_size);
    memset(sph, 0, sizeof *sph);
}

FSI_API double fsi_sph_bytes_per_particle(const fsi_sph *sph) {
    return sph && sph->block ? (double)sph->block_size / (double)sph->desc.capacity : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph filling */
/* inside the outermost cells? (NaN is not) */
static int fsi__sph_within(const fsi_sph *sph, fsi_vec3 p) {
    return fsi__max(fsi__max(fsi__abs(p.x), fsi__abs(p.y)), fsi__abs(p.z)) * sph->cells.inv
               < FSI__SPH_FAR
           && fsi__finite_vec(p);
}

static void fsi__sph_append(fsi_sph *sph, fsi_vec3 x, fsi_vec3 v, fsi_real mass) {
    int i = sph->now.count++, flat = sph->desc.dim == 2;
    sph->x[i] = x.x;
    sph->y[i] = x.y;
    sph->z[i] = flat ? 0 : x.z;
    sph->vx[i] = v.x;
    sph->vy[i] = v.y;
    sph->vz[i] = flat ? 0 : v.z;
    sph->mass[i] = mass;
    sph->rho[i] = sph->desc.density;
    sph->kappa[i] = sph->kappa_v[i] = 0;
    sph->id[i] = sph->now.next_id++;
    sph->now.list_valid = 0;
    sph->ready = 0;
}

FSI_API fsi_result fsi_sph_add(fsi_sph *sph, int n, const fsi_real *x, const fsi_real *v,
                               const fsi_real *mass) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (n < 0 || (n > 0 && !x))
        return FSI_ERR_ARGUMENT;
    if (n > sph->desc.capacity - sph->now.count || sph->now.next_id > 0x7fffffff - n)
        return FSI_ERR_SIZE;
    if (!fsi_all_finite(3 * (size_t)n, x) || (v && !fsi_all_finite(3 * (size_t)n, v)))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < n; i++) {
        if ((mass && !fsi__sph_positive(mass[i])) || !fsi__sph_within(sph, fsi_vec_load(x + 3 * i)))
            return FSI_ERR_ARGUMENT;
    }
    for (int i = 0; i < n; i++)
        fsi__sph_append(sph, fsi_vec_load(x + 3 * i),
                        v ? fsi_vec_load(v + 3 * i) : fsi_vec(0, 0, 0),
                        mass ? mass[i] : fsi__sph_rest_mass(&sph->desc));
    return FSI_OK;
}

FSI_API fsi_result fsi_sph_add_block(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, fsi_vec3 v,
                                     int *count) {
    double n[3];
    if (count)
        *count = 0;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!fsi__sph_within(sph, lo) || !fsi__sph_within(sph, hi) || !fsi__finite_vec(v))
        return FSI_ERR_ARGUMENT;
    double d = (double)sph->desc.spacing;
    n[0] = floor((double)(hi.x - lo.x) / d + 1e-4);
    n[1] = floor((double)(hi.y - lo.y) / d + 1e-4);
    n[2] = sph->desc.dim == 3 ? floor((double)(hi.z - lo.z) / d + 1e-4) : 1;
    if (n[0] <= 0 || n[1] <= 0 || n[2] <= 0)
        return FSI_EMPTY;
    if (n[0] * n[1] * n[2] > (double)(sph->desc.capacity - sph->now.count)
        || n[0] * n[1] * n[2] > (double)(0x7fffffff - sph->now.next_id))
        return FSI_ERR_SIZE;
    for (int k = 0; k < (int)n[2]; k++)
        for (int j = 0; j < (int)n[1]; j++)
            for (int i = 0; i < (int)n[0]; i++)
                fsi__sph_append(sph,
                                fsi_vec(lo.x + sph->desc.spacing * ((fsi_real)i + FSI_R(0.5)),
                                        lo.y + sph->desc.spacing * ((fsi_real)j + FSI_R(0.5)),
                                        lo.z + sph->desc.spacing * ((fsi_real)k + FSI_R(0.5))),
                                v, fsi__sph_rest_mass(&sph->desc));
    if (count)
        *count = (int)(n[0] * n[1] * n[2]);
    return FSI_OK;
}

FSI_API fsi_result fsi_sph_add_emitter(fsi_sph *sph, const fsi_sph_emitter *emitter) {
    /* a layer that could never fit is refused */
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!emitter || !fsi__finite_vec(emitter->centre) || !fsi__finite_vec(emitter->direction)
        || !(fsi__length(emitter->direction) > 0) || !fsi__sph_positive(emitter->radius)
        || !fsi__sph_positive(emitter->speed) || !fsi__finite(emitter->from)
        || !fsi__finite(emitter->until) || !fsi__sph_within(sph, emitter->centre))
        return FSI_ERR_ARGUMENT;
    double across = (double)emitter->radius / (double)sph->desc.spacing;
    if (sph->now.emitters == FSI_SPH_EMITTERS
        || across * (sph->desc.dim == 3 ? across : 1) > (double)sph->desc.capacity)
        return FSI_ERR_SIZE;
    sph->now.emitter[sph->now.emitters] = *emitter;
    sph->now.emitter[sph->now.emitters].direction = fsi__unit(emitter->direction);
    sph->now.emitter[sph->now.emitters++].due =
        (double)emitter->from > sph->now.time ? (double)emitter->from : sph->now.time;
    return FSI_OK;
}

FSI_API fsi_result fsi_sph_add_removal(fsi_sph *sph, const fsi_sph_box *box) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!box || !fsi__finite_vec(box->lo) || !fsi__finite_vec(box->hi))
        return FSI_ERR_ARGUMENT;
    if (sph->now.boxes == FSI_SPH_EMITTERS)
        return FSI_ERR_SIZE;
    sph->now.box[sph->now.boxes++] = *box;
    return FSI_OK;
}

static int fsi__sph_in_box(const fsi_sph_box *box, fsi_vec3 p, int dim) {
    int in = p.x >= box->lo.x && p.x <= box->hi.x && p.y >= box->lo.y && p.y <= box->hi.y
             && (dim == 2 || (p.z >= box->lo.z && p.z <= box->hi.z));
    return box->outside ? !in : in;
}

static void fsi__sph_copy_particle(fsi_sph *sph, int to, int from) {
    fsi_real *a[] = {sph->x,  sph->y,    sph->z,   sph->vx,    sph->vy,
                     sph->vz, sph->mass, sph->rho, sph->kappa, sph->kappa_v};
    for (size_t k = 0; k < sizeof a / sizeof *a; k++)
        a[k][to] = a[k][from];
    sph->id[to] = sph->id[from];
}

/* Drops particles in removal boxes and particles beyond all cells; the others keep their order. */
static void fsi__sph_remove(fsi_sph *sph, int far_off) {
    int n = 0;
    fsi_real limit = FSI__SPH_FAR / sph->cells.inv;
    if (!sph->now.boxes && !far_off)
        return;
    for (int i = 0; i < sph->now.count; i++) {
        fsi_vec3 p = fsi_vec(sph->x[i], sph->y[i], sph->z[i]);
        int gone = fsi__abs(p.x) >= limit || fsi__abs(p.y) >= limit || fsi__abs(p.z) >= limit;
        if (gone)
            sph->now.lost++;
        for (int k = 0; k < sph->now.boxes && !gone; k++)
            if (fsi__sph_in_box(&sph->now.box[k], p, sph->desc.dim)) {
                gone = 1;
                sph->now.removed++;
            }
        if (gone)
            continue;
        if (n != i)
            fsi__sph_copy_particle(sph, n, i);
        n++;
    }
    if (n != sph->now.count)
        sph->now.list_valid = 0;
    sph->now.count = n;
}

#define FSI__SPH_FREE                                                                              \
    FSI_R(0.75) /* spacings: an emitter puts no particle nearer than this to another */

/* Particles that may be in the way of a layer around x: their numbers into key. Returns how many.
 */
static int fsi__sph_in_the_way(fsi_sph *sph, fsi_vec3 x, fsi_real radius) {
    fsi_real r = radius + FSI__SPH_FREE * sph->desc.spacing;
    int n = 0;
    for (int i = 0; i < sph->now.count; i++) {
        fsi_vec3 d = fsi_vec_sub(fsi_vec(sph->x[i], sph->y[i], sph->z[i]), x);
        if (fsi_vec_dot(d, d) < r * r)
            sph->key[n++] = i;
    }
    return n;
}

static int fsi__sph_is_free(const fsi_sph *sph, int nearby, fsi_vec3 x) {
    fsi_real r = FSI__SPH_FREE * sph->desc.spacing;
    for (int k = 0; k < nearby; k++) {
        fsi_vec3 d =
            fsi_vec_sub(fsi_vec(sph->x[sph->key[k]], sph->y[sph->key[k]], sph->z[sph->key[k]]), x);
        if (fsi_vec_dot(d, d) < r * r)
            return 0;
    }
    return 1;
}

/* One layer, along m downstream of the disk; what would lie beyond all cells is lost at once. Fluid
   that has come to a stop before the emitter leaves no room: a particle put onto another would be a
   burst of pressure. */
static void fsi__sph_emit_layer(fsi_sph *sph, const fsi_sph_emitter *emitter, fsi_real along) {
    fsi_vec3 d = emitter->direction;
    fsi_real h = sph->desc.spacing;
    int m = (int)(emitter->radius / h), mj = sph->desc.dim == 3 ? m : 0,
        nearby = fsi__sph_in_the_way(sph, fsi_vec_mad(emitter->centre, d, along), emitter->radius);
    fsi_vec3 u = sph->desc.dim == 2
                     ? fsi_vec(-d.y, d.x, 0)
                     : fsi__unit(fsi_vec_cross(d, fsi__abs(d.x) < FSI_R(0.7) ? fsi_vec(1, 0, 0)
                                                                             : fsi_vec(0, 1, 0)));
    fsi_vec3 w = fsi_vec_cross(d, u);
    for (int i = -m; i <= m; i++)
        for (int j = -mj; j <= mj; j++) {
            fsi_real a = (fsi_real)i * h, b = (fsi_real)j * h;
            fsi_vec3 p =
                fsi_vec_mad(fsi_vec_mad(fsi_vec_mad(emitter->centre, u, a), w, b), d, along);
            if (a * a + b * b > emitter->radius * emitter->radius)
                continue;
            if (sph->now.count == sph->desc.capacity || sph->now.next_id == 0x7fffffff) {
                sph->stats.blocked++;
                return;
            }
            if (!fsi__sph_is_free(sph, nearby, p))
                continue;
            sph->now.emitted++;
            if (fsi__sph_within(sph, p))
                fsi__sph_append(sph, p, fsi_vec_scale(d, emitter->speed),
                                fsi__sph_rest_mass(&sph->desc));
            else
                sph->now.lost++;
        }
}

static void fsi__sph_emit(fsi_sph *sph) {
    for (int k = 0; k < sph->now.emitters; k++) {
        fsi_sph_emitter *emitter = &sph->now.emitter[k];
        for (int layers = 0; emitter->due <= sph->now.time && layers < 1000; layers++) {
            if (emitter->until > 0 && emitter->due > (double)emitter->until)
                break;
            fsi__sph_emit_layer(sph, emitter,
                                (fsi_real)(sph->now.time - emitter->due) * emitter->speed);
            emitter->due += (double)sph->desc.spacing / (double)emitter->speed;
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>sph boundaries */
FSI_API fsi_result fsi_sph_add_boundary(fsi_sph *sph, int n, const fsi_real *x, fsi_vec3 centre,
                                        int two_way, int *object) {
    int ok = 1;
    if (object)
        *object = -1;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (n < 0 || (n > 0 && !x) || !fsi__finite_vec(centre))
        return FSI_ERR_ARGUMENT;
    if (n > sph->desc.boundary_capacity - sph->now.boundary_count
        || sph->now.objects == FSI_SPH_OBJECTS)
        return FSI_ERR_SIZE;
    for (int i = 0; i < 3 * n && ok; i++)
        ok = fsi__finite(x[i]) && fsi__abs(x[i]) * sph->cells.inv < FSI__SPH_FAR;
    if (!ok)
        return FSI_ERR_ARGUMENT;
    int at = sph->now.boundary_count;
    fsi_sph_object *o = &sph->now.object[sph->now.objects];
    memset(o, 0, sizeof *o);
    o->first = at;
    o->count = n;
    o->two_way = two_way != 0;
    o->centre = centre;
    for (int i = 0; i < n; i++) {
        fsi_vec3 p = fsi_vec_load(x + 3 * i);
        if (sph->desc.dim == 2)
            p.z = 0;
        fsi_vec_store(sph->bx + 3 * (at + i), p);
        fsi_vec_store(sph->blocal + 3 * (at + i), fsi_vec_sub(p, centre));
        for (int d = 0; d < 3; d++)
            sph->bv[3 * (at + i) + d] = 0;
        sph->bobject[at + i] = sph->now.objects;
    }
    sph->now.boundary_count += n;
    sph->now.boundary_dirty = 1;
    sph->now.list_valid = 0;
    sph->ready = 0;
    if (object)
        *object = sph->now.objects;
    sph->now.objects++;
    return FSI_OK;
}

/* Points of a growing boundary object: counted while out is NULL. */
typedef struct fsi__sph_points {
    fsi_real *out;
    int n, room;
} fsi__sph_points;

static void fsi__sph_point(fsi__sph_points *points, fsi_vec3 x) {
    if (points->out && points->n < points->room)
        fsi_vec_store(points->out + 3 * points->n, x);
    points->n++;
}

/* Puts the points into a new object; they were written straight behind the last boundary particle.
 */
static fsi_result fsi__sph_add_points(fsi_sph *sph, const fsi__sph_points *points, fsi_vec3 centre,
                                      int *object) {
    if (points->n > points->room)
        return FSI_ERR_SIZE;
    return fsi_sph_add_boundary(sph, points->n, points->out, centre, 0, object);
}

/* Place number i along one axis of a box: 0 .. n - 1 fill the side [lo, hi] evenly, numbers before
   and behind go on by the spacing h. Returns 0 between the walls, 1 in the wall at lo, 2 in the
   wall at hi. */
static int fsi__sph_wall_place(fsi_real lo, fsi_real hi, int n, int i, fsi_real h,
                               fsi_real *place) {
    fsi_real at = (fsi_real)i + FSI_R(0.5);
    if (i < 0) {
        *place = lo + h * at;
        return 1;
    }
    if (i >= n) {
        *place = hi + h * (at - (fsi_real)n);
        return 2;
    }
    *place = lo + (hi - lo) / (fsi_real)n * at;
    return 0;
}

FSI_API fsi_result fsi_sph_add_box_walls(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, unsigned open,
                                         int *object) {
    fsi_real x[3] = {0, 0, 0};
    /* places -m .. n + m - 1 on each axis */
    int i[3] = {0, 0, 0}, n[3] = {1, 1, 1}, m[3] = {0, 0, 0};
    if (object)
        *object = -1;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!fsi__finite_vec(lo) || !fsi__finite_vec(hi))
        return FSI_ERR_ARGUMENT;
    int layers = fsi__sph_layers(&sph->desc);
    for (int d = 0; d < sph->desc.dim; d++) {
        fsi_real side = (fsi__get(hi, d) - fsi__get(lo, d)) / sph->desc.spacing;
        if (!(side > 0) || !(side < FSI_R(1e6)))
            return FSI_ERR_ARGUMENT;
        n[d] = fsi__imax(1, (int)(side + FSI_R(0.5)));
        m[d] = layers;
    }
    fsi__sph_points points;
    points.out = sph->bx + 3 * sph->now.boundary_count;
    points.n = 0;
    points.room = sph->desc.boundary_capacity - sph->now.boundary_count;
    for (i[2] = -m[2]; i[2] < n[2] + m[2]; i[2]++)
        for (i[1] = -m[1]; i[1] < n[1] + m[1]; i[1]++)
            for (i[0] = -m[0]; i[0] < n[0] + m[0]; i[0]++) {
                /* in an edge two walls meet, in a corner three: one that is open opens it */
                int walls = 0, left_open = 0;
                for (int d = 0; d < sph->desc.dim; d++) {
                    int side = fsi__sph_wall_place(fsi__get(lo, d), fsi__get(hi, d), n[d], i[d],
                                                   sph->desc.spacing, &x[d]);
                    walls += side > 0;
                    left_open += side > 0 && (open >> (2 * d + side - 1) & 1u);
                }
                if (walls && !left_open)
                    fsi__sph_point(&points, fsi_vec_load(x));
                /* nothing more before the wall at hi */
                else if (!walls)
                    i[0] = n[0] - 1;
            }
    return fsi__sph_add_points(sph, &points, fsi_vec_scale(fsi_vec_add(lo, hi), FSI_R(0.5)),
                               object);
}

FSI_API fsi_result fsi_sph_add_plane(fsi_sph *sph, fsi_vec3 corner, fsi_vec3 u, fsi_vec3 v,
                                     fsi_vec3 n, int *object) {
    int nv = 0;
    if (object)
        *object = -1;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    fsi_real h = sph->desc.spacing;
    fsi_real lu = fsi__length(u) / h;
    fsi_real lv = sph->desc.dim == 3 ? fsi__length(v) / h : 0;
    if (!fsi__finite_vec(corner) || !fsi__finite_vec(u) || !fsi__finite_vec(v)
        || !fsi__finite_vec(n) || !(fsi__length(n) > 0) || !(lu > 0) || !(lu < FSI_R(1e6))
        || !(lv < FSI_R(1e6)))
        return FSI_ERR_ARGUMENT;
    int nu = fsi__imax(1, (int)(lu + FSI_R(0.5)));
    if (sph->desc.dim == 3)
        nv = fsi__imax(1, (int)(lv + FSI_R(0.5)));
    n = fsi__unit(n);
    fsi__sph_points points;
    points.out = sph->bx + 3 * sph->now.boundary_count;
    points.n = 0;
    points.room = sph->desc.boundary_capacity - sph->now.boundary_count;
    for (int k = 0; k < fsi__sph_layers(&sph->desc); k++)
        for (int j = 0; j <= nv; j++)
            for (int i = 0; i <= nu; i++)
                fsi__sph_point(
                    &points,
                    fsi_vec_mad(fsi_vec_mad(fsi_vec_mad(corner, n, -h * ((fsi_real)k + FSI_R(0.5))),
                                            u, (fsi_real)i / (fsi_real)nu),
                                v, nv ? (fsi_real)j / (fsi_real)nv : 0));
    return fsi__sph_add_points(sph, &points, corner, object);
}

/* Dart throwing with a fixed order: a candidate is taken when no taken point is nearer than 0.7
 * spacing. Chains in a small hash table. */
typedef struct fsi__sph_darts {
    fsi_real *x;
    int32_t *next, *head;
    int n, room, mask;
    fsi_real inv, r2;
} fsi__sph_darts;

static int fsi__sph_hash(const fsi__sph_darts *darts, int a, int b, int c) {
    uint32_t k = (uint32_t)a * 73856093u ^ (uint32_t)b * 19349663u ^ (uint32_t)c * 83492791u;
    return (int)((k ^ k >> 15) & (uint32_t)darts->mask);
}

static void fsi__sph_dart(fsi__sph_darts *darts, fsi_vec3 p) {
    int a = fsi__sph_floor(p.x * darts->inv), b = fsi__sph_floor(p.y * darts->inv),
        c = fsi__sph_floor(p.z * darts->inv);
    for (int k = -1; k <= 1; k++)
        for (int j = -1; j <= 1; j++)
            for (int i = -1; i <= 1; i++)
                for (int32_t e = darts->head[fsi__sph_hash(darts, a + i, b + j, c + k)]; e >= 0;
                     e = darts->next[e]) {
                    fsi_vec3 r = fsi_vec_sub(p, fsi_vec_load(darts->x + 3 * e));
                    if (fsi_vec_dot(r, r) < darts->r2)
                        return;
                }
    if (darts->n == darts->room)
        return;
    int h = fsi__sph_hash(darts, a, b, c);
    fsi_vec_store(darts->x + 3 * darts->n, p);
    darts->next[darts->n] = darts->head[h];
    darts->head[h] = darts->n++;
}

static int fsi__sph_divisions(fsi_vec3 a, fsi_vec3 b, fsi_real spacing) {
    fsi_real n = fsi__length(fsi_vec_sub(b, a)) / spacing;
    return n < FSI_R(1e5) ? (int)fsi__ceil(n - FSI_R(1e-3)) : 100000;
}

/* Candidates of one element: corners first, then edges, then the inside, so that sharp features
 * stay sampled. */
static double fsi__sph_throw(fsi__sph_darts *darts, const fsi_surface *surface, int e, int pass,
                             fsi_real spacing) {
    fsi_vec3 v[3];
    int m = surface->dim;
    double thrown = 0;
    for (int i = 0; i < m; i++)
        v[i] = fsi_vec_load(surface->x + 3 * surface->index[m * e + i]);
    if (pass == 0)
        for (int i = 0; i < m; i++, thrown += 1)
            if (darts)
                fsi__sph_dart(darts, v[i]);
    int n;
    if (pass == 1)
        for (int k = 0; k < (m == 2 ? 1 : 3); k++) {
            fsi_vec3 a = v[k], b = v[(k + 1) % m];
            n = fsi__sph_divisions(a, b, spacing);
            for (int i = 1; i < n; i++, thrown += 1)
                if (darts)
                    fsi__sph_dart(darts,
                                  fsi_vec_mad(a, fsi_vec_sub(b, a), (fsi_real)i / (fsi_real)n));
        }
    if (pass == 2 && m == 3) {
        n = fsi__imax(fsi__sph_divisions(v[0], v[1], spacing),
                      fsi__imax(fsi__sph_divisions(v[1], v[2], spacing),
                                fsi__sph_divisions(v[2], v[0], spacing)));
        for (int i = 1; i < n; i++)
            for (int j = 1; i + j < n; j++, thrown += 1)
                if (darts)
                    fsi__sph_dart(darts,
                                  fsi_vec_mad(fsi_vec_mad(v[0], fsi_vec_sub(v[1], v[0]),
                                                          (fsi_real)i / (fsi_real)n),
                                              fsi_vec_sub(v[2], v[0]), (fsi_real)j / (fsi_real)n));
    }
    return thrown;
}

FSI_API fsi_result fsi_sph_sample_surface(const fsi_surface *surface, fsi_real spacing,
                                          fsi_real *out, int room, int *count,
                                          const fsi_allocator *allocator) {
    fsi_arena arena = {NULL, 0, 0, 0};
    fsi_result result = FSI_OK;
    double most = 0;
    if (count)
        *count = 0;
    if (fsi_surface_check(surface) != FSI_OK || (surface->vertex_count && !surface->x)
        || !fsi__sph_positive(spacing) || room < 0 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    for (int pass = 0; pass < 3; pass++)
        for (int e = 0; e < surface->element_count; e++)
            most += fsi__sph_throw(NULL, surface, e, pass, spacing);
    for (int i = 0; i < 3 * surface->vertex_count; i++)
        if (!(fsi__abs(surface->x[i]) / spacing < FSI__SPH_FAR))
            return FSI_ERR_ARGUMENT;
    if (most > 1e8)
        return FSI_ERR_SIZE;
    fsi__sph_darts darts;
    memset(&darts, 0, sizeof darts);
    darts.room = (int)most + 1;
    for (darts.mask = 64; darts.mask < darts.room; darts.mask *= 2) {
    }
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            result = fsi__arena_open(&arena, allocator);
        if (result != FSI_OK)
            return result;
        FSI__TAKE(darts.x, fsi_real, &arena, 3 * (size_t)darts.room);
        FSI__TAKE(darts.next, int32_t, &arena, (size_t)darts.room);
        FSI__TAKE(darts.head, int32_t, &arena, (size_t)darts.mask);
    }
    for (int i = 0; i < darts.mask; i++)
        darts.head[i] = -1;
    darts.mask--;
    darts.inv = 1 / spacing;
    darts.r2 = FSI_R(0.49) * spacing * spacing;
    for (int pass = 0; pass < 3; pass++)
        for (int e = 0; e < surface->element_count; e++)
            fsi__sph_throw(&darts, surface, e, pass, spacing);
    if (count)
        *count = darts.n;
    if (out && darts.n <= room)
        memcpy(out, darts.x, 3 * (size_t)darts.n * sizeof *out);
    fsi_free(allocator, arena.base, arena.size);
    return out && darts.n > room ? FSI_ERR_SIZE : FSI_OK;
}

FSI_API fsi_result fsi_sph_add_surface(fsi_sph *sph, const fsi_surface *surface, fsi_vec3 centre,
                                       int two_way, int *object) {
    if (object)
        *object = -1;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    fsi_real *to = sph->bx + 3 * sph->now.boundary_count;
    int n;
    fsi_result result = fsi_sph_sample_surface(
        surface, sph->desc.spacing, to, sph->desc.boundary_capacity - sph->now.boundary_count, &n,
        &sph->desc.allocator);
    return result == FSI_OK ? fsi_sph_add_boundary(sph, n, to, centre, two_way, object) : result;
}

FSI_API fsi_result fsi_sph_object_set(fsi_sph *sph, int object, const fsi_real *x,
                                      const fsi_real *v) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (object < 0 || object >= sph->now.objects || !x)
        return FSI_ERR_ARGUMENT;
    fsi_sph_object *o = &sph->now.object[object];
    for (int i = 0; i < 3 * o->count; i++)
        if (!fsi__finite(x[i]) || !(fsi__abs(x[i]) * sph->cells.inv < FSI__SPH_FAR)
            || (v && !fsi__finite(v[i])))
            return FSI_ERR_ARGUMENT;
    if (o->count)
        memmove(sph->bx + 3 * o->first, x, 3 * (size_t)o->count * sizeof *x);
    for (int i = 0; i < 3 * o->count; i++)
        sph->bv[3 * o->first + i] = v ? v[i] : 0;
    for (int i = 0; sph->desc.dim == 2 && i < o->count; i++)
        sph->bx[3 * (o->first + i) + 2] = sph->bv[3 * (o->first + i) + 2] = 0;
    sph->now.boundary_dirty = 1;
    return FSI_OK;
}

FSI_API fsi_result fsi_sph_object_pose(fsi_sph *sph, int object, fsi_vec3 centre, fsi_quat q,
                                       fsi_vec3 v, fsi_vec3 w) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    fsi_real far_off =
        fsi__max(fsi__max(fsi__abs(centre.x), fsi__abs(centre.y)), fsi__abs(centre.z))
        * sph->cells.inv;
    if (object < 0 || object >= sph->now.objects || !fsi__finite_vec(centre)
        || !(2 * far_off < FSI__SPH_FAR) || !fsi__finite_vec(v) || !fsi__finite_vec(w)
        || !fsi__finite(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z))
        return FSI_ERR_ARGUMENT;
    fsi_sph_object *o = &sph->now.object[object];
    q = fsi_quat_unit(q);
    o->centre = centre;
    for (int i = o->first; i < o->first + o->count; i++) {
        fsi_vec3 r = fsi_quat_rotate(q, fsi_vec_load(sph->blocal + 3 * i));
        fsi_vec_store(sph->bx + 3 * i, fsi_vec_add(centre, r));
        fsi_vec_store(sph->bv + 3 * i, fsi_vec_add(v, fsi_vec_cross(w, r)));
        if (sph->desc.dim == 2)
            sph->bx[3 * i + 2] = sph->bv[3 * i + 2] = 0;
    }
    sph->now.boundary_dirty = 1;
    return FSI_OK;
}

static void fsi__sph_copy_boundary(fsi_sph *sph) { /* positions in sorted order */
    for (int i = 0; i < sph->now.boundary_count; i++) {
        const fsi_real *x = sph->bx + 3 * sph->border[i];
        sph->cx[i] = x[0];
        sph->cy[i] = x[1];
        sph->cz[i] = x[2];
    }
}

/* Sorts the boundary particles into their own cells and finds their volumes: V_b = wall_scale /
 * sum_b' W (Akinci et al. 2012, eq. 4). */
static void fsi__sph_sort_boundary(fsi_sph *sph) {
    int lo[3] = {0, 0, 0}, hi[3] = {0, 0, 0}, at[3], n = sph->now.boundary_count;
    for (int i = 0; i < n; i++) {
        fsi__sph_cell_of(&sph->bcells, sph->bx[3 * i], sph->bx[3 * i + 1], sph->bx[3 * i + 2], at);
        for (int d = 0; d < 3; d++) {
            if (i == 0 || at[d] < lo[d])
                lo[d] = at[d];
            if (i == 0 || at[d] > hi[d])
                hi[d] = at[d];
        }
    }
    fsi__sph_cells_fit(&sph->bcells, lo, hi, sph->desc.dim);
    for (int i = 0; i < n; i++) {
        fsi__sph_cell_of(&sph->bcells, sph->bx[3 * i], sph->bx[3 * i + 1], sph->bx[3 * i + 2], at);
        sph->key[i] = fsi__sph_key(&sph->bcells, at);
    }
    fsi__sph_cells_sort(&sph->bcells, n, sph->key, sph->border);
    fsi__sph_copy_boundary(sph);
}

static void fsi__sph_boundary_volumes(fsi_sph *sph) {
    int n = sph->now.boundary_count;
    fsi_real R = sph->desc.support, sigma = fsi__kernel_sigma(sph->desc.kernel, sph->desc.dim, R);
    FSI__OMP(parallel for schedule(static) if (n > 512))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi__sph_ranges in;
        fsi_real sum = 0;
        fsi__sph_ranges_around(&sph->bcells, sph->cx[i], sph->cy[i], sph->cz[i], &in);
        for (int k = 0; k < in.n; k++)
            for (int j = in.at[2 * k]; j < in.at[2 * k + 1]; j++) {
                fsi_real dx = sph->cx[j] - sph->cx[i], dy = sph->cy[j] - sph->cy[i],
                         dz = sph->cz[j] - sph->cz[i], r2 = dx * dx + dy * dy + dz * dz;
                if (r2 < R * R)
                    sum += sigma * fsi__kernel_w(sph->desc.kernel, fsi__sqrt(r2) / R);
            }
        /* sum >= W(0) > 0 */
        sph->bvolume[sph->border[i]] = sph->wall_scale / sum;
    }
}

/* Packed copies of the sorted boundary particles behind those of the fluid: x y z Psi and v 0, Psi
 * = rho0 V_b. */
static void fsi__sph_pack_boundary(fsi_sph *sph) {
    fsi_real *xm = sph->xm + 4 * (size_t)sph->desc.capacity,
             *vp = sph->vp + 4 * (size_t)sph->desc.capacity;
    int n = sph->now.boundary_count;
    for (int i = 0; i < n; i++) {
        int b = sph->border[i];
        const fsi_real *x = sph->bx + 3 * b, *v = sph->bv + 3 * b;
        xm[4 * i] = x[0];
        xm[4 * i + 1] = x[1];
        xm[4 * i + 2] = x[2];
        xm[4 * i + 3] = sph->desc.density * sph->bvolume[b];
        vp[4 * i] = v[0];
        vp[4 * i + 1] = v[1];
        vp[4 * i + 2] = v[2];
        vp[4 * i + 3] = 0;
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>sph neighbours */
/* Least and largest of a[begin .. end - 1], eight lanes at a time: a single running minimum would
 * wait for itself. */
static void fsi__sph_range(const fsi_real *a, int begin, int end, fsi_real *least, fsi_real *most) {
    fsi_real m[8], M[8];
    int k;
    for (k = 0; k < 8; k++) {
        m[k] = FSI_REAL_MAX;
        M[k] = -FSI_REAL_MAX;
    }
    int i;
    for (i = begin; i + 8 <= end; i += 8) {
        FSI__SPH_LANES
        for (k = 0; k < 8; k++) {
            m[k] = a[i + k] < m[k] ? a[i + k] : m[k];
            M[k] = a[i + k] > M[k] ? a[i + k] : M[k];
        }
    }
    for (; i < end; i++) {
        m[0] = fsi__min(m[0], a[i]);
        M[0] = fsi__max(M[0], a[i]);
    }
    for (*least = m[0], *most = M[0], k = 1; k < 8; k++) {
        *least = fsi__min(*least, m[k]);
        *most = fsi__max(*most, M[k]);
    }
}

/* Bounds of all positions over fixed parts; 0 when a position or velocity is not finite. */
static int fsi__sph_bounds(const fsi_sph *sph, fsi_real lo[3], fsi_real hi[3]) {
    const fsi_real *a[6];
    fsi_real part[FSI__SPH_PARTS][6];
    int n = sph->now.count, size = n / FSI__SPH_PARTS + 1, ok = 1;
    a[0] = sph->x;
    a[1] = sph->y;
    a[2] = sph->z;
    a[3] = sph->vx;
    a[4] = sph->vy;
    a[5] = sph->vz;
    /* has threads of its own: not inside a part */
    for (int d = 0; d < 6; d++)
        ok &= fsi_all_finite((size_t)n, a[d]);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++) {
        int end = fsi__imin(((int)c + 1) * size, n), begin = fsi__imin((int)c * size, end);
        for (int k = 0; k < 3; k++)
            fsi__sph_range(a[k], begin, end, &part[c][k], &part[c][3 + k]);
    }
    for (int d = 0; d < 3; d++) {
        lo[d] = FSI_REAL_MAX;
        hi[d] = -FSI_REAL_MAX;
    }
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++)
        for (int d = 0; d < 3; d++) {
            lo[d] = fsi__min(lo[d], part[c][d]);
            hi[d] = fsi__max(hi[d], part[c][3 + d]);
        }
    return ok;
}

/* Largest length of the vectors (x, y, z) of all fluid particles. */
static fsi_real fsi__sph_longest(int n, const fsi_real *x, const fsi_real *y, const fsi_real *z) {
    fsi_real top[FSI__SPH_PARTS], all = 0;
    int size = (n / FSI__SPH_PARTS + 8) & ~7;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++) {
        fsi_real t[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        int i, k, end = fsi__imin(((int)c + 1) * size, n);
        for (i = (int)c * size; i + 8 <= end; i += 8) {
            FSI__SPH_LANES
            for (k = 0; k < 8; k++) {
                fsi_real a2 = x[i + k] * x[i + k] + y[i + k] * y[i + k] + z[i + k] * z[i + k];
                t[k] = a2 > t[k] ? a2 : t[k];
            }
        }
        for (; i < end; i++) {
            fsi_real a = x[i] * x[i] + y[i] * y[i] + z[i] * z[i];
            t[0] = fsi__max(a, t[0]);
        }
        for (top[c] = t[0], k = 1; k < 8; k++)
            top[c] = fsi__max(top[c], t[k]);
    }
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++)
        all = fsi__max(all, top[c]);
    return fsi__sqrt(all);
}

/* Cells of the fluid particles within the bounds blo .. bhi, and in order[] the order by cells. */
static void fsi__sph_fill_cells(fsi_sph *sph, const fsi_real blo[3], const fsi_real bhi[3]) {
    int lo[3], hi[3], n = sph->now.count;
    fsi__sph_cell_of(&sph->cells, blo[0], blo[1], blo[2], lo);
    fsi__sph_cell_of(&sph->cells, bhi[0], bhi[1], bhi[2], hi);
    fsi__sph_cells_fit(&sph->cells, lo, hi, sph->desc.dim);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        int at[3];
        fsi__sph_cell_of(&sph->cells, sph->x[i], sph->y[i], sph->z[i], at);
        sph->key[i] = fsi__sph_key(&sph->cells, at);
    }
    fsi__sph_cells_sort(&sph->cells, n, sph->key, sph->order);
}

/* Sorts the fluid particles by cells, with everything they carry. */
static void fsi__sph_sort(fsi_sph *sph, const fsi_real lo[3], const fsi_real hi[3]) {
    int n = sph->now.count, used = sph->desc.solver == FSI_SPH_DFSPH ? 10
                                   : sph->desc.delta > 0             ? 8
                                                                     : 7;
    fsi_real *a[] = {sph->x,  sph->y,    sph->z,   sph->vx,    sph->vy,
                     sph->vz, sph->mass, sph->rho, sph->kappa, sph->kappa_v};
    size_t N = (size_t)sph->desc.capacity;
    /* scratch now */
    fsi_real *to[] = {sph->xm,     sph->xm + N,     sph->xm + 2 * N, sph->xm + 3 * N, sph->vp,
                      sph->vp + N, sph->vp + 2 * N, sph->vp + 3 * N, sph->work,       sph->factor};
    fsi__sph_fill_cells(sph, lo, hi);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        int32_t from = sph->order[i];
        for (int k = 0; k < used; k++)
            to[k][i] = a[k][from];
        sph->first[i] = sph->id[from];
    }
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        for (int k = 0; k < used; k++)
            a[k][i] = to[k][i];
        sph->id[i] = sph->first[i];
    }
}

/* Candidates among the rows around cell at: of each row the cells that the sphere of radius R
   reaches. Half its chord there is R sqrt(t), t = 1 - distance^2; three tangents bound the root
   from above by at most a tenth (a root would keep compilers from vectorising). */
static void fsi__sph_reach(const fsi__sph_cells *cells, const fsi__sph_rows *rows, const int at[3],
                           fsi_real R, fsi__sph_search *search) {
    const fsi_real fy = search->p.y * cells->inv - (fsi_real)at[1],
                   fz = search->p.z * cells->inv - (fsi_real)at[2],
                   inv = (fsi_real)cells->fine * cells->inv, px = search->p.x * inv, r = R * inv;
    int32_t lo[12], hi[12], span[4] = {0, 0, 0, 0};
    FSI__SPH_LANES
    for (int k = 0; k < 12; k++) {
        fsi_real u = rows->ya[k] + rows->yb[k] * fy, w = rows->za[k] + rows->zb[k] * fz;
        u = u > 0 ? u : 0;
        w = w > 0 ? w : 0;
        fsi_real t = FSI_R(1.001) - u * u - w * w;
        fsi_real s = FSI_R(0.5) + FSI_R(0.5) * t;
        s = s < FSI_R(0.25) + t ? s : FSI_R(0.25) + t;
        s = s < FSI_R(0.1) + FSI_R(2.5) * t ? s : FSI_R(0.1) + FSI_R(2.5) * t;
        s *= r;
        lo[k] = (int32_t)(px - s) - (px - s < (fsi_real)(int32_t)(px - s));
        hi[k] = (int32_t)(px + s) - (px + s < (fsi_real)(int32_t)(px + s));
    }
    for (int k = 0; k < rows->n; k++) {
        int pieces = fsi__sph_span(cells, rows->row[k], lo[k], hi[k], span);
        if (pieces == 0)
            continue;
        fsi__sph_candidates(search, span[0], span[1]);
        if (pieces == 2)
            fsi__sph_candidates(search, span[2], span[3]);
    }
    fsi__sph_test(search);
}

/* Lists of the particles of one chunk, packed one after the other in the chunk's pool. order[i] = 1
 * marks a list cut short. */
static void fsi__sph_list_chunk(fsi_sph *sph, int chunk) {
    fsi__sph_rows rows;
    fsi__sph_search search;
    int begin = chunk * FSI__SPH_CHUNK, end = fsi__imin(begin + FSI__SPH_CHUNK, sph->now.count),
        base = chunk * sph->list_room;
    int at[3], old[3] = {0, 0, 0}, most = 8 * sph->desc.neighbors, pool = sph->list_room - 16;
    fsi_real R = sph->desc.support + sph->desc.skin;
    search.r2 = R * R;
    search.out = sph->list + base;
    fsi__sph_ranges wall;
    search.n = search.groups = wall.n = 0;
    for (int i = begin; i < end; i++) {
        search.p = fsi_vec(sph->x[i], sph->y[i], sph->z[i]);
        search.room = fsi__imin(search.n + most, pool);
        search.full = 0;
        fsi__sph_cell_of(&sph->bcells, search.p.x, search.p.y, search.p.z, at);
        /* a new cell: its surroundings once */
        if (i == begin || at[0] != old[0] || at[1] != old[1] || at[2] != old[2]) {
            fsi__sph_rows_around(&sph->cells, at, &rows);
            if (sph->now.boundary_count)
                fsi__sph_ranges_around(&sph->bcells, search.p.x, search.p.y, search.p.z, &wall);
            memcpy(old, at, sizeof old);
        }
        sph->first[i] = base + search.n;
        search.x = sph->x;
        search.y = sph->y;
        search.z = sph->z;
        search.self = i;
        fsi__sph_reach(&sph->cells, &rows, at, R, &search);
        sph->middle[i] = base + search.n;
        search.x = sph->cx;
        search.y = sph->cy;
        search.z = sph->cz;
        search.self = -1;
        for (int k = 0; k < wall.n; k++)
            fsi__sph_candidates(&search, wall.at[2 * k], wall.at[2 * k + 1]);
        fsi__sph_test(&search);
        sph->last[i] = base + search.n;
        sph->order[i] = search.full;
    }
}

/* Verlet: may the old lists serve? 1 while nothing moved further than half the skin from where it
 * was. ref: x, y, z, boundary. */
static int fsi__sph_list_serves(const fsi_sph *sph) {
    size_t n = (size_t)sph->desc.capacity + 16;
    const fsi_real *r = sph->ref;
    fsi_real limit = sph->desc.skin * sph->desc.skin / 4;
    int ok = 1;
    if (!(sph->desc.skin > 0) || !sph->now.list_valid)
        return 0;
    for (int i = 0; i < sph->now.count && ok; i++) {
        fsi_vec3 d = fsi_vec(sph->x[i] - r[i], sph->y[i] - r[n + (size_t)i],
                             sph->z[i] - r[2 * n + (size_t)i]);
        ok = fsi_vec_dot(d, d) < limit;
    }
    for (int i = 0; sph->now.boundary_dirty && i < sph->now.boundary_count && ok; i++) {
        fsi_vec3 d =
            fsi_vec_sub(fsi_vec_load(sph->bx + 3 * i), fsi_vec_load(r + 3 * n + 3 * (size_t)i));
        ok = fsi_vec_dot(d, d) < limit;
    }
    return ok;
}

static void fsi__sph_remember(fsi_sph *sph) {
    size_t n = (size_t)sph->desc.capacity + 16, m = (size_t)sph->now.count * sizeof(fsi_real);
    if (!(sph->desc.skin > 0))
        return;
    memcpy(sph->ref, sph->x, m);
    memcpy(sph->ref + n, sph->y, m);
    memcpy(sph->ref + 2 * n, sph->z, m);
    memcpy(sph->ref + 3 * n, sph->bx, 3 * (size_t)sph->now.boundary_count * sizeof(fsi_real));
    sph->now.list_valid = 1;
}

/* After a restore the Verlet lists are made again from the positions they came from (which are in
 * the order of their cells): same order, same bits. */
static void fsi__sph_recall(fsi_sph *sph) {
    size_t n = (size_t)sph->desc.capacity + 16;
    fsi_real *x = sph->x, *y = sph->y, *z = sph->z, *bx = sph->bx, lo[3], hi[3];
    int chunks = (sph->now.count + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK;
    sph->x = sph->ref;
    sph->y = sph->ref + n;
    sph->z = sph->ref + 2 * n;
    sph->bx = sph->ref + 3 * n;
    fsi__sph_bounds(sph, lo, hi);
    fsi__sph_fill_cells(sph, lo, hi);
    fsi__sph_sort_boundary(sph);
    for (int c = 0; c < chunks; c++)
        fsi__sph_list_chunk(sph, c);
    sph->x = x;
    sph->y = y;
    sph->z = z;
    sph->bx = bx;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph sums */
/* 1 / sqrt(x), x > 0: a guess from the bits, then Newton. A call of sqrt() would keep gcc from
 * vectorising (it may set errno). */
FSI__SPH_FORCE_INLINE fsi_real fsi__sph_rsqrt(fsi_real x) {
#ifdef FSI_SINGLE
    uint32_t bits, magic = 0x5f375a86u;
#else
    uint64_t bits, magic = (uint64_t)0x5fe6eb50u << 32 | 0xc7b537a9u;
#endif
    memcpy(&bits, &x, sizeof bits);
    bits = magic - (bits >> 1);
    fsi_real y;
    memcpy(&y, &bits, sizeof bits);
    for (int i = 0; i < (sizeof(fsi_real) == 4 ? 3 : 4); i++)
        y *= FSI_R(1.5) - FSI_R(0.5) * x * y * y;
    return y;
}

/* What one list adds: density, G = sum m grad W and sum |m grad W|^2, for 8 entries at a time;
 * partial sums per lane. */
typedef struct fsi__sph_lanes {
    fsi_real rho[8], gx[8], gy[8], gz[8], g2[8];
} fsi__sph_lanes;

/* Sums over list entries k0 .. k1 of one particle; other: packed particles x y z m. Leaves m F of
   each pair in grad for later passes. Writes may pass k1: those entries are written later by the
   same thread, and the pool has room. */
FSI__SPH_FORCE_INLINE void fsi__sph_sum_list(const fsi_real *FSI__RESTRICT other,
                                             const int32_t *FSI__RESTRICT list,
                                             fsi_real *FSI__RESTRICT grad, int k0, int k1,
                                             const fsi_real *FSI__RESTRICT me, fsi_kernel wk,
                                             fsi_kernel fk, fsi_real R, fsi_real f0, int full,
                                             fsi__sph_lanes *FSI__RESTRICT sum) {
    const fsi_real inv = 1 / R, tiny = FSI_R(1e-12) * R * R, mi = me[3];
    fsi_real t[32][4];
    int l;
    for (int k = k0; k < k1; k += 32) {
        int n = k1 - k < 32 ? k1 - k : 32;
        /* all differences first: what was just written in pieces is slow to read in one */
        for (l = 0; l < n; l++) {
            const fsi_real *o = other + 4 * (size_t)list[k + l];
            FSI__SPH_LANES
            for (int d = 0; d < 4; d++)
                t[l][d] = me[d] - o[d];
        }
        /* no mass behind the end */
        for (; l & 7; l++) {
            t[l][0] = R;
            t[l][1] = t[l][2] = 0;
            t[l][3] = mi;
        }
        for (int j = 0; j < n; j += 8) {
            fsi_real *FSI__RESTRICT out = grad + k + j;
            FSI__SPH_LANES
            for (l = 0; l < 8; l++) {
                fsi_real x = t[j + l][0], y = t[j + l][1], z = t[j + l][2], m = mi - t[j + l][3];
                /* q > 1 (Verlet skin): everything is 0 */
                fsi_real r2 = x * x + y * y + z * z + tiny, i = fsi__sph_rsqrt(r2),
                         q = r2 * i * inv;
                fsi_real F = m * f0 * fsi__kernel_fi(fk, q, i * R);
                out[l] = F;
                sum->rho[l] += m * fsi__kernel_w(wk, q);
                if (!full)
                    continue;
                x *= F;
                y *= F;
                z *= F;
                sum->gx[l] += x;
                sum->gy[l] += y;
                sum->gz[l] += z;
                sum->g2[l] += x * x + y * y + z * z;
            }
        }
    }
}

FSI__INLINE fsi_real fsi__sph_sum8(const fsi_real *a) {
    return ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));
}

/* Densities and kernel slopes of all pairs; DFSPH: factor = 1 / (G . G' + sum |m grad W|^2), the
   inverse of -d(rho)/d(k) / dt^2, where G = sum m grad W over everything and G' counts walls
   FSI__SPH_MIRROR times (their pressure mirrors ours). */
FSI__SPH_FORCE_INLINE void fsi__sph_sums_chunk(fsi_sph *sph, int begin, int end, fsi_kernel wk,
                                               fsi_kernel fk, int full) {
    const fsi_real R = sph->desc.support, sigma = fsi__kernel_sigma(wk, sph->desc.dim, R),
                   f0 = fsi__kernel_sigma(fk, sph->desc.dim, R) / (R * R);
    const fsi_real w0 = sigma * fsi__kernel_w(wk, 0),
                   *border = sph->xm + 4 * (size_t)sph->desc.capacity;
    int keep = sph->desc.delta > 0 && !full; /* the density is integrated, not summed */
    for (int i = begin; i < end; i++) {
        const fsi_real *me = sph->xm + 4 * (size_t)i;
        fsi__sph_lanes f;
        memset(&f, 0, sizeof f);
        fsi__sph_lanes b;
        memset(&b, 0, sizeof b);
        fsi__sph_sum_list(sph->xm, sph->list, sph->grad, sph->first[i], sph->middle[i], me, wk, fk,
                          R, f0, full, &f);
        fsi__sph_sum_list(border, sph->list, sph->grad, sph->middle[i], sph->last[i], me, wk, fk, R,
                          f0, full, &b);
        if (!keep)
            sph->rho[i] = me[3] * w0 + sigma * (fsi__sph_sum8(f.rho) + fsi__sph_sum8(b.rho));
        if (full) {
            const fsi_real c = FSI__SPH_MIRROR;
            fsi_vec3 u = fsi_vec(fsi__sph_sum8(f.gx), fsi__sph_sum8(f.gy), fsi__sph_sum8(f.gz)),
                     v = fsi_vec(fsi__sph_sum8(b.gx), fsi__sph_sum8(b.gy), fsi__sph_sum8(b.gz));
            fsi_real D = fsi_vec_dot(fsi_vec_add(u, v), fsi_vec_mad(u, v, c)) + fsi__sph_sum8(f.g2);
            /* few neighbours must not mean a huge correction */
            sph->factor[i] = 1 / fsi__max(D, sph->least_factor);
        }
    }
}

/* One function per kernel: a kernel that is a constant leaves no choice in the pair loops, and only
   then they are vectorised. (Through the body of a parallel loop a constant does not pass.) */
static void fsi__sph_sums_cubic(fsi_sph *sph, int begin, int end) {
    fsi__sph_sums_chunk(sph, begin, end, FSI_KERNEL_CUBIC, FSI_KERNEL_CUBIC, 0);
}

static void fsi__sph_sums_cubic_full(fsi_sph *sph, int begin, int end) {
    fsi__sph_sums_chunk(sph, begin, end, FSI_KERNEL_CUBIC, FSI_KERNEL_CUBIC, 1);
}

static void fsi__sph_sums_wendland(fsi_sph *sph, int begin, int end) {
    fsi__sph_sums_chunk(sph, begin, end, FSI_KERNEL_WENDLAND, FSI_KERNEL_WENDLAND, 0);
}

static void fsi__sph_sums_wendland_full(fsi_sph *sph, int begin, int end) {
    fsi__sph_sums_chunk(sph, begin, end, FSI_KERNEL_WENDLAND, FSI_KERNEL_WENDLAND, 1);
}

static void fsi__sph_sums_trio(fsi_sph *sph, int begin, int end) {
    fsi__sph_sums_chunk(sph, begin, end, FSI_KERNEL_POLY6, FSI_KERNEL_SPIKY,
                        sph->desc.solver == FSI_SPH_DFSPH);
}

/* Sums of all particles, chunk by chunk; search: make their lists first, which are then still in
 * the cache. */
static void fsi__sph_sums(fsi_sph *sph, int search) {
    int full = sph->desc.solver == FSI_SPH_DFSPH;
    void (*sums)(fsi_sph *, int, int) =
        sph->desc.kernel == FSI_KERNEL_POLY6 ? fsi__sph_sums_trio
        : sph->desc.kernel == FSI_KERNEL_WENDLAND
            ? (full ? fsi__sph_sums_wendland_full : fsi__sph_sums_wendland)
        : full ? fsi__sph_sums_cubic_full
               : fsi__sph_sums_cubic;
    ptrdiff_t chunks = (sph->now.count + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK;
    FSI__OMP(parallel for schedule(static) if (chunks > 1))
    for (ptrdiff_t c = 0; c < chunks; c++) {
        if (search)
            fsi__sph_list_chunk(sph, (int)c);
        sums(sph, (int)c * FSI__SPH_CHUNK,
             fsi__imin(((int)c + 1) * FSI__SPH_CHUNK, sph->now.count));
    }
}

/* Statistics of lists (also of old ones: a list cut short stays so) and densities, over fixed
 * parts. */
typedef struct fsi__sph_tally {
    int64_t pairs;
    int most, cut;
    fsi_real top;
    double sum;
} fsi__sph_tally;

static void fsi__sph_count(fsi_sph *sph) {
    fsi__sph_tally p[FSI__SPH_PARTS];
    int n = sph->now.count, size = n / FSI__SPH_PARTS + 1;
    fsi_real rest = sph->desc.density, top = 0;
    double sum = 0;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++) {
        int end = fsi__imin(((int)c + 1) * size, n);
        fsi__sph_tally t = {0, 0, 0, 0, 0};
        for (int i = (int)c * size; i < end; i++) {
            int m = sph->last[i] - sph->first[i];
            t.pairs += m;
            t.most = fsi__imax(t.most, m);
            t.cut += sph->order[i];
            t.top = fsi__max(t.top, sph->rho[i]);
            t.sum += (double)fsi__max(sph->rho[i] - rest, 0);
        }
        p[c] = t;
    }
    for (ptrdiff_t c = 0; c < FSI__SPH_PARTS; c++) {
        sph->stats.pairs += p[c].pairs;
        sph->stats.max_neighbors = fsi__imax(sph->stats.max_neighbors, p[c].most);
        sph->stats.truncated += p[c].cut;
        top = fsi__max(top, p[c].top);
        sum += p[c].sum;
    }
    sph->stats.max_density = top / rest;
    sph->stats.density_error = (fsi_real)(sum / (double)n) / rest;
}

static void fsi__sph_pack(fsi_sph *sph) { /* positions and masses for the pair loops */
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real *o = sph->xm + 4 * i;
        o[0] = sph->x[i];
        o[1] = sph->y[i];
        o[2] = sph->z[i];
        o[3] = sph->mass[i];
    }
}

static void fsi__sph_pack_velocity(fsi_sph *sph, const fsi_real *fourth) {
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real *o = sph->vp + 4 * i;
        o[0] = sph->vx[i];
        o[1] = sph->vy[i];
        o[2] = sph->vz[i];
        o[3] = fourth ? fourth[i] : 0;
    }
}

FSI_API fsi_result fsi_sph_prepare(fsi_sph *sph, fsi_real dt) {
    fsi_real lo[3], hi[3];
    int far_off = 0;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(dt)
        || (sph->now.boundary_dirty
            && !(fsi_all_finite(3 * (size_t)sph->now.boundary_count, sph->bx)
                 && fsi_all_finite(3 * (size_t)sph->now.boundary_count, sph->bv))))
        return FSI_ERR_ARGUMENT;
    if (!fsi__sph_bounds(sph, lo, hi))
        return FSI_ERR_NUMERIC;
    memset(&sph->stats, 0, sizeof sph->stats);
    fsi_real limit = FSI__SPH_FAR / sph->cells.inv;
    for (int d = 0; d < 3; d++)
        far_off |= sph->now.count > 0 && (lo[d] <= -limit || hi[d] >= limit);
    fsi__sph_remove(sph, far_off);
    int i = sph->now.count;
    fsi__sph_emit(sph);
    if (sph->now.count == 0) {
        sph->ready = 1;
        return FSI_EMPTY;
    }
    sph->stats.rebuilt = !fsi__sph_list_serves(sph);
    int resort = sph->stats.rebuilt && (sph->now.boundary_dirty || sph->desc.skin > 0);
    if (sph->stats.rebuilt) {
        if (far_off || i != sph->now.count || sph->now.boxes)
            fsi__sph_bounds(sph, lo, hi);
        fsi__sph_sort(sph, lo, hi);
        fsi__sph_remember(sph);
    }
    if (resort)
        fsi__sph_sort_boundary(sph);
    else if (sph->now.boundary_dirty)
        fsi__sph_copy_boundary(sph);
    if (sph->now.boundary_dirty)
        fsi__sph_boundary_volumes(sph);
    if (resort || sph->now.boundary_dirty)
        fsi__sph_pack_boundary(sph);
    sph->now.boundary_dirty = 0;
    fsi__sph_pack(sph);
    fsi__sph_sums(sph, sph->stats.rebuilt);
    fsi__sph_count(sph);
    sph->ready = 1;
    return sph->stats.truncated || sph->stats.blocked ? FSI_CAPPED : FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>wcsph */
/* m_i a_i = -sum m_i m_j (p_i/rho_i^2 + p_j/rho_j^2) grad W + viscosity + m_i g. Friction terms,
   all antisymmetric in i, j: laminar     2 mu / rho0^2 m_j F r^2 / (r^2 + eta) v_ij (Morris; with
   FSI_KERNEL_POLY6: -mu / rho0^2 m_j lap W v_ij) artificial  alpha c h / rho0 m_j min(0, v_ij .
   x_ij) / (r^2 + eta) F x_ij      (Monaghan; central, keeps angular momentum) The rest density
   stands for rho_i and rho_j here: summed densities near a free surface are too small. Walls: k_b =
   k_i + g . (x_b - x_i) / rho0, k = p / rho^2: the pressure at rest goes on into the wall (Adami et
   al. 2012). With k_b = k_i alone the layer at the floor must carry the weight of half a layer too
   much, and the layers above it alternate about rho g depth. The addition is at most k_i, so that a
   lone particle beside a wall, without pressure, feels nothing. */
typedef struct fsi__sph_law {
    fsi_real laminar, artificial, wall, eta, lap, inv;
    fsi_vec3 lift;
} fsi__sph_law;

static fsi__sph_law fsi__sph_make_law(const fsi_sph_desc *desc) {
    fsi__sph_law law;
    fsi_real h = desc->support / 2, r = desc->density;
    law.lap = desc->kernel == FSI_KERNEL_POLY6
                  ? fsi_kernel_laplacian(FSI_KERNEL_VISCOSITY, desc->dim, desc->support, 0)
                  : 0;
    law.laminar = desc->viscosity / (r * r);
    law.wall = desc->wall_viscosity / (r * r);
    law.artificial = desc->artificial * desc->sound_speed * h / r;
    law.eta = FSI_R(0.01) * h * h;
    law.inv = 1 / desc->support;
    law.lift = fsi_vec_scale(desc->gravity, -1 / r);
    return law;
}

/* m F to -2 m F r^2 / (r^2 + eta), or m times the viscosity kernel's Laplacian: how fast a velocity
 * difference is evened out. */
FSI__SPH_FORCE_INLINE fsi_real fsi__sph_diffusion(const fsi__sph_law *law, int trio, fsi_real m,
                                                  fsi_real mF, fsi_real r2) {
    if (trio)
        return m * law->lap * fsi__max(1 - fsi__sqrt(r2) * law->inv, 0);
    return -2 * mF * r2 * (1 / (r2 + law->eta));
}

/* terms of a list */
enum {
    FSI__SPH_PLAIN = 0,
    FSI__SPH_ARTIFICIAL = 1,
    FSI__SPH_LAMINAR = 2,
    FSI__SPH_WALL = 4,
    FSI__SPH_TRIO = 8
};

/* Adds the accelerations of list entries k0 .. k1 of the particle at me with mv = (v, k), 8 pairs
   at a time. Slopes behind the end of a list are finite (the sums wrote them) and meet a zero
   distance. Walls: k_b = k_i + lift . x_ij, bounded by limit. */
FSI__SPH_FORCE_INLINE void
fsi__sph_force_list(const fsi_real *FSI__RESTRICT x4, const fsi_real *FSI__RESTRICT v4,
                    const int32_t *FSI__RESTRICT list, const fsi_real *FSI__RESTRICT grad, int k0,
                    int k1, const fsi_real *FSI__RESTRICT me, const fsi_real *FSI__RESTRICT mv,
                    fsi_real limit, const fsi__sph_law *FSI__RESTRICT law, int kind,
                    fsi_real *FSI__RESTRICT acc) {
    const fsi_real nu = kind & FSI__SPH_WALL ? law->wall : law->laminar, mi = me[3], ki = mv[3];
    fsi_real r[32][4], u[32][4], ax[8], ay[8], az[8];
    if (k0 == k1)
        return;
    int i;
    FSI__SPH_LANES
    for (i = 0; i < 8; i++)
        ax[i] = ay[i] = az[i] = 0;
    for (int k = k0; k < k1; k += 32) {
        int n = k1 - k < 32 ? k1 - k : 32;
        for (i = 0; i < n; i++) {
            const fsi_real *o = x4 + 4 * (size_t)list[k + i], *w = v4 + 4 * (size_t)list[k + i];
            FSI__SPH_LANES
            for (int d = 0; d < 4; d++)
                r[i][d] = me[d] - o[d];
            FSI__SPH_LANES
            for (int d = 0; d < 4; d++)
                u[i][d] = mv[d] - w[d];
        }
        for (; i & 7; i++)
            for (int d = 0; d < 4; d++)
                r[i][d] = u[i][d] = 0;
        for (int j = 0; j < n; j += 8) {
            const fsi_real *FSI__RESTRICT slope = grad + k + j;
            FSI__SPH_LANES
            for (i = 0; i < 8; i++) {
                fsi_real x = r[j + i][0], y = r[j + i][1], z = r[j + i][2], vx = u[j + i][0],
                         vy = u[j + i][1], vz = u[j + i][2];
                fsi_real F = slope[i], r2 = x * x + y * y + z * z, A;
                if (kind & FSI__SPH_WALL) {
                    fsi_real t = law->lift.x * x + law->lift.y * y + law->lift.z * z;
                    t = t < limit ? t : limit;
                    t = t > -limit ? t : -limit;
                    A = -(FSI__SPH_MIRROR * ki + t) * F;
                } else
                    A = -(2 * ki - u[j + i][3]) * F;
                if (kind & FSI__SPH_ARTIFICIAL) {
                    fsi_real approach = x * vx + y * vy + z * vz;
                    A += law->artificial * (approach < 0 ? approach : 0) / (r2 + law->eta) * F;
                }
                if (kind & FSI__SPH_LAMINAR) {
                    fsi_real B =
                        -nu
                        * fsi__sph_diffusion(law, kind & FSI__SPH_TRIO, mi - r[j + i][3], F, r2);
                    ax[i] += B * vx;
                    ay[i] += B * vy;
                    az[i] += B * vz;
                }
                ax[i] += A * x;
                ay[i] += A * y;
                az[i] += A * z;
            }
        }
    }
    acc[0] += fsi__sph_sum8(ax);
    acc[1] += fsi__sph_sum8(ay);
    acc[2] += fsi__sph_sum8(az);
}

FSI__SPH_FORCE_INLINE void fsi__sph_forces_chunk(fsi_sph *sph, const fsi__sph_law *law, int begin,
                                                 int end, int fluid, int walls) {
    const fsi_real *bx = sph->xm + 4 * (size_t)sph->desc.capacity,
                   *bv = sph->vp + 4 * (size_t)sph->desc.capacity;
    for (ptrdiff_t i = begin; i < end; i++) {
        const fsi_real *me = sph->xm + 4 * i, *mv = sph->vp + 4 * i;
        fsi_real a[3] = {0, 0, 0};
        fsi__sph_force_list(sph->xm, sph->vp, sph->list, sph->grad, sph->first[i], sph->middle[i],
                            me, mv, 0, law, fluid, a);
        fsi__sph_force_list(bx, bv, sph->list, sph->grad, sph->middle[i], sph->last[i], me, mv,
                            fsi__max(sph->work[i], 0), law, walls | FSI__SPH_WALL, a);
        sph->ax[i] = a[0] + sph->desc.gravity.x;
        sph->ay[i] = a[1] + sph->desc.gravity.y;
        sph->az[i] = sph->desc.dim == 2 ? 0 : a[2] + sph->desc.gravity.z;
    }
}

/* One function per set of terms, as for the sums. A term with a zero coefficient adds zero. */
static void fsi__sph_forces_plain(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    fsi__sph_forces_chunk(sph, law, begin, end, FSI__SPH_PLAIN, FSI__SPH_PLAIN);
}

static void fsi__sph_forces_artificial(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    fsi__sph_forces_chunk(sph, law, begin, end, FSI__SPH_ARTIFICIAL, FSI__SPH_PLAIN);
}

static void fsi__sph_forces_laminar(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    fsi__sph_forces_chunk(sph, law, begin, end, FSI__SPH_ARTIFICIAL | FSI__SPH_LAMINAR,
                          FSI__SPH_PLAIN);
}

static void fsi__sph_forces_wall(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    fsi__sph_forces_chunk(sph, law, begin, end, FSI__SPH_ARTIFICIAL | FSI__SPH_LAMINAR,
                          FSI__SPH_LAMINAR);
}

static void fsi__sph_forces_trio(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    fsi__sph_forces_chunk(sph, law, begin, end,
                          FSI__SPH_ARTIFICIAL | FSI__SPH_LAMINAR | FSI__SPH_TRIO,
                          FSI__SPH_LAMINAR | FSI__SPH_TRIO);
}

/* Accelerations from vp = (v, p / rho^2; DFSPH: 0) and work = p / rho^2 (DFSPH: of the step
 * before). */
static void fsi__sph_forces(fsi_sph *sph) {
    const fsi__sph_law law = fsi__sph_make_law(&sph->desc);
    int laminar = sph->desc.viscosity > 0, wall = sph->desc.wall_viscosity > 0,
        artificial = sph->desc.artificial * sph->desc.sound_speed > 0;
    void (*chunk)(fsi_sph *, const fsi__sph_law *, int, int) = wall      ? fsi__sph_forces_wall
                                                               : laminar ? fsi__sph_forces_laminar
                                                               : artificial
                                                                   ? fsi__sph_forces_artificial
                                                                   : fsi__sph_forces_plain;
    ptrdiff_t chunks = (sph->now.count + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK;
    if ((laminar || wall) && sph->desc.kernel == FSI_KERNEL_POLY6)
        chunk = fsi__sph_forces_trio;
    FSI__OMP(parallel for schedule(static) if (chunks > 1))
    for (ptrdiff_t c = 0; c < chunks; c++)
        chunk(sph, &law, (int)c * FSI__SPH_CHUNK,
              fsi__imin(((int)c + 1) * FSI__SPH_CHUNK, sph->now.count));
}

static void fsi__sph_pressures(fsi_sph *sph) { /* p by Tait; work = p / rho^2 */
    const fsi_sph_desc *desc = &sph->desc;
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real r = sph->rho[i],
                 p = fsi_sph_tait(r, desc->density, desc->sound_speed, desc->gamma);
        if (!desc->tension && p < 0)
            p = 0;
        sph->p[i] = p;
        sph->work[i] = r > 0 ? p / (r * r) : 0;
    }
}

static void fsi__sph_kick(fsi_sph *sph, fsi_real dt) { /* v += dt a */
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        sph->vx[i] += dt * sph->ax[i];
        sph->vy[i] += dt * sph->ay[i];
        sph->vz[i] += dt * sph->az[i];
    }
}

/* XSPH: v_i += eps sum m_j / rho0 (v_j - v_i) W, momentum kept; uses a packed copy of the
 * velocities. */
static void fsi__sph_xsph(fsi_sph *sph) {
    fsi_real R = sph->desc.support, c = sph->desc.xsph
                                        * fsi__kernel_sigma(sph->desc.kernel, sph->desc.dim, R)
                                        / sph->desc.density;
    ptrdiff_t n = sph->now.count;
    if (!(sph->desc.xsph > 0))
        return;
    fsi__sph_pack_velocity(sph, sph->work);
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (ptrdiff_t i = 0; i < n; i++) {
        const fsi_real *me = sph->xm + 4 * i, *mv = sph->vp + 4 * i;
        fsi_vec3 a = fsi_vec(0, 0, 0);
        for (int k = sph->first[i]; k < sph->middle[i]; k++) {
            const fsi_real *o = sph->xm + 4 * (size_t)sph->list[k],
                           *w = sph->vp + 4 * (size_t)sph->list[k];
            fsi_vec3 d = fsi_vec(me[0] - o[0], me[1] - o[1], me[2] - o[2]);
            fsi_real q = fsi__min(fsi__sqrt(fsi_vec_dot(d, d)) / R, 1),
                     g = c * o[3] * fsi__kernel_w(sph->desc.kernel, q);
            a = fsi_vec_mad(a, fsi_vec(w[0] - mv[0], w[1] - mv[1], w[2] - mv[2]), g);
        }
        sph->vx[i] += a.x;
        sph->vy[i] += a.y;
        sph->vz[i] += a.z;
    }
}

/* Reaction of the fluid on one boundary particle, gathered from the fluid around it: f_b = -sum
 * (force of b on i). */
static fsi_vec3 fsi__sph_react_one(const fsi_sph *sph, int sorted, const fsi__sph_law *law,
                                   int pressure, int known) {
    const fsi_real *o = sph->xm + 4 * ((size_t)sph->desc.capacity + (size_t)sorted),
                   *w = sph->vp + 4 * ((size_t)sph->desc.capacity + (size_t)sorted);
    fsi_kernel fk = sph->desc.kernel == FSI_KERNEL_POLY6 ? FSI_KERNEL_SPIKY : sph->desc.kernel;
    fsi_real R = sph->desc.support, f0 = fsi__kernel_sigma(fk, sph->desc.dim, R) / (R * R),
             tiny = FSI_R(1e-12) * R * R;
    fsi_vec3 f = fsi_vec(0, 0, 0);
    fsi__sph_ranges in;
    fsi__sph_ranges_around(&sph->cells, o[0], o[1], o[2], &in);
    for (int k = 0; k < in.n; k++)
        for (int i = in.at[2 * k]; i < in.at[2 * k + 1]; i++) {
            const fsi_real *me = sph->xm + 4 * (size_t)i, *mv = sph->vp + 4 * (size_t)i;
            fsi_vec3 d = fsi_vec(me[0] - o[0], me[1] - o[1], me[2] - o[2]),
                     u = fsi_vec(mv[0] - w[0], mv[1] - w[1], mv[2] - w[2]);
            fsi_real r2 = fsi_vec_dot(d, d);
            if (!(r2 < R * R))
                continue;
            fsi_real F = f0 * fsi__kernel_f(fk, fsi__min(fsi__sqrt(r2 + tiny) / R, 1));
            fsi_real m = me[3] * o[3]; /* m_i Psi_b */
            if (pressure)
                f = fsi_vec_mad(f, d, m * FSI__SPH_MIRROR * sph->work[i] * F);
            if (!known)
                continue;
            fsi_real limit = fsi__max(sph->work[i], 0);
            f = fsi_vec_mad(f, d,
                            m * fsi__max(fsi__min(fsi_vec_dot(law->lift, d), limit), -limit) * F);
            if (law->wall > 0)
                f = fsi_vec_mad(f, u,
                                m * law->wall * fsi__sph_diffusion(law, law->lap > 0, 1, F, r2));
        }
    return f;
}

static int fsi__sph_two_way(const fsi_sph *sph) { /* does any object want forces? */
    int any = 0;
    for (int k = 0; k < sph->now.objects; k++)
        any |= sph->now.object[k].two_way;
    return any;
}

/* Forces on two-way objects: work[] holds p / rho^2 of the fluid, vp the velocities. pressure: the
   mirrored pressure; known: what fsi__sph_forces added (friction and lift). add = 0 starts from
   zero. */
static void fsi__sph_react(fsi_sph *sph, int pressure, int known, int add) {
    fsi__sph_law law = fsi__sph_make_law(&sph->desc);
    ptrdiff_t n = sph->now.boundary_count;
    if (!fsi__sph_two_way(sph))
        return;
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (ptrdiff_t i = 0; i < n; i++) {
        int b = sph->border[i];
        fsi_vec3 f = fsi_vec_load(sph->bf + 3 * b);
        if (!sph->now.object[sph->bobject[b]].two_way)
            continue;
        if (!add)
            f = fsi_vec(0, 0, 0);
        if (pressure || known)
            f = fsi_vec_add(f, fsi__sph_react_one(sph, (int)i, &law, pressure, known));
        fsi_vec_store(sph->bf + 3 * b, f);
    }
}

/* Wall guard: a lone particle is slowed down by a wall's density only when it is nearly through.
   One that is nearer than 0.8 spacing to boundary particles loses the velocity towards them: n =
   sum w (x_i - x_b), w = (0.8 spacing - r)+. factor[i] = sum w where it acted. */
#define FSI__SPH_GUARD FSI_R(0.8)

static void fsi__sph_guard(fsi_sph *sph) {
    const fsi_real *bx = sph->xm + 4 * (size_t)sph->desc.capacity,
                   *bv = sph->vp + 4 * (size_t)sph->desc.capacity;
    fsi_real reach = FSI__SPH_GUARD * sph->desc.spacing;
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, NULL);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        const fsi_real *me = sph->xm + 4 * i;
        fsi_vec3 normal = fsi_vec(0, 0, 0), u = normal;
        fsi_real sum = 0;
        sph->factor[i] = 0;
        for (int k = sph->middle[i]; k < sph->last[i]; k++) {
            const fsi_real *o = bx + 4 * (size_t)sph->list[k], *w4 = bv + 4 * (size_t)sph->list[k];
            fsi_vec3 d = fsi_vec(me[0] - o[0], me[1] - o[1], me[2] - o[2]);
            fsi_real w = reach - fsi__length(d);
            if (!(w > 0))
                continue;
            sum += w;
            normal = fsi_vec_mad(normal, d, w);
            u = fsi_vec_mad(u, fsi_vec(w4[0], w4[1], w4[2]), w);
        }
        if (!(sum > 0))
            continue;
        normal = fsi__unit(normal);
        fsi_real away = (sph->vx[i] - u.x / sum) * normal.x + (sph->vy[i] - u.y / sum) * normal.y
                        + (sph->vz[i] - u.z / sum) * normal.z;
        if (away >= 0)
            continue;
        sph->vx[i] -= away * normal.x;
        sph->vy[i] -= away * normal.y;
        sph->vz[i] -= away * normal.z;
        sph->factor[i] = sum;
    }
}

/* The guard's impulses on two-way boundary particles, as forces over dt: shared by the weights that
 * made the normal. */
static void fsi__sph_guard_react(fsi_sph *sph, fsi_real dt) {
    fsi_real reach = FSI__SPH_GUARD * sph->desc.spacing;
    ptrdiff_t n = sph->now.boundary_count;
    if (!fsi__sph_two_way(sph))
        return;
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (ptrdiff_t b = 0; b < n; b++) {
        const fsi_real *o = sph->xm + 4 * ((size_t)sph->desc.capacity + (size_t)b);
        fsi_real *f = sph->bf + 3 * (size_t)sph->border[b];
        if (!sph->now.object[sph->bobject[sph->border[b]]].two_way)
            continue;
        fsi__sph_ranges in;
        fsi__sph_ranges_around(&sph->cells, o[0], o[1], o[2], &in);
        for (int k = 0; k < in.n; k++)
            for (int i = in.at[2 * k]; i < in.at[2 * k + 1]; i++) {
                const fsi_real *me = sph->xm + 4 * (size_t)i, *v = sph->vp + 4 * (size_t)i;
                if (!(sph->factor[i] > 0))
                    continue;
                fsi_real w = reach - fsi__length(fsi_vec(me[0] - o[0], me[1] - o[1], me[2] - o[2]));
                if (!(w > 0))
                    continue;
                w *= me[3] / (sph->factor[i] * dt);
                f[0] -= w * (sph->vx[i] - v[0]);
                f[1] -= w * (sph->vy[i] - v[1]);
                f[2] -= w * (sph->vz[i] - v[2]);
            }
    }
}

/* force and torque of each two-way object, in fixed order, in double */
static void fsi__sph_sum_objects(fsi_sph *sph) {
    for (int k = 0; k < sph->now.objects; k++) {
        fsi_sph_object *object = &sph->now.object[k];
        double f[3] = {0, 0, 0}, t[3] = {0, 0, 0};
        if (!object->two_way)
            continue;
        object->contact = 0;
        for (int i = object->first; i < object->first + object->count; i++) {
            fsi_vec3 F = fsi_vec_load(sph->bf + 3 * i),
                     T = fsi_vec_cross(fsi_vec_sub(fsi_vec_load(sph->bx + 3 * i), object->centre),
                                       F);
            for (int d = 0; d < 3; d++) {
                f[d] += (double)fsi__get(F, d);
                t[d] += (double)fsi__get(T, d);
            }
            object->contact += F.x != 0 || F.y != 0 || F.z != 0;
        }
        object->force = fsi_vec((fsi_real)f[0], (fsi_real)f[1], (fsi_real)f[2]);
        object->torque = fsi_vec((fsi_real)t[0], (fsi_real)t[1], (fsi_real)t[2]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>dfsph */
/* Divergence-free SPH (Bender and Koschier 2017) as projected Jacobi on the stiffness k of each
   particle (k = p / rho^2): dv_i/dt = -sum m_j (k_i + k_j) grad W - mirror sum Psi_b k_i grad W, k
   >= 0 k_i <- max(0, k_i + omega (residual of i) / (its own share dt^2 / factor)) Nesterov's
   momentum is put on top (from 10 to 7 iterations in a dam break of 40,000). residual: rho_i + dt
   D_i - rho0 for the density, D_i for the divergence, D_i = sum m_j v_ij . grad W. kappa = dt^2 k
   and kappa_v = dt k are kept for the next step. The packed velocities vp = (v, change of k) are
   iterated. */
#define FSI__DF_EXCESS                                                                             \
    FSI_R(0.02) /* compression undone in one step of max_dt: all at once would throw particles     \
                   that hit a wall back at twice their speed */
#define FSI__DF_OMEGA                                                                              \
    FSI_R(0.4) /* measured: 0.5 may burst with wide supports, 0.3 costs a third more iterations */

/* D rho / D t by the packed velocities: sum m F x_ij . v_ij over list entries k0 .. k1 of the
 * particle at me with velocity mv. */
FSI__SPH_FORCE_INLINE fsi_real fsi__df_rate_list(const fsi_real *FSI__RESTRICT x4,
                                                 const fsi_real *FSI__RESTRICT v4,
                                                 const int32_t *FSI__RESTRICT list,
                                                 const fsi_real *FSI__RESTRICT grad, int k0, int k1,
                                                 const fsi_real *FSI__RESTRICT me,
                                                 const fsi_real *FSI__RESTRICT mv) {
    fsi_real a[4] = {0, 0, 0, 0}, b[4] = {0, 0, 0, 0};
    int k;
    /* two sums: one addition need not wait for the other */
    for (k = k0; k + 1 < k1; k += 2) {
        const fsi_real *o = x4 + 4 * (size_t)list[k], *p = v4 + 4 * (size_t)list[k], F = grad[k];
        const fsi_real *o2 = x4 + 4 * (size_t)list[k + 1], *p2 = v4 + 4 * (size_t)list[k + 1],
                       F2 = grad[k + 1];
        FSI__SPH_LANES
        for (int d = 0; d < 4; d++)
            a[d] += F * (me[d] - o[d]) * (mv[d] - p[d]);
        FSI__SPH_LANES
        for (int d = 0; d < 4; d++)
            b[d] += F2 * (me[d] - o2[d]) * (mv[d] - p2[d]);
    }
    if (k < k1) {
        const fsi_real *o = x4 + 4 * (size_t)list[k], *p = v4 + 4 * (size_t)list[k], F = grad[k];
        FSI__SPH_LANES
        for (int d = 0; d < 4; d++)
            a[d] += F * (me[d] - o[d]) * (mv[d] - p[d]);
    }
    return (a[0] + b[0]) + (a[1] + b[1]) + (a[2] + b[2]);
}

FSI__INLINE fsi_real fsi__df_rate(const fsi_sph *sph, ptrdiff_t i) {
    const fsi_real *me = sph->xm + 4 * i, *mv = sph->vp + 4 * i;
    size_t b = 4 * (size_t)sph->desc.capacity;
    return fsi__df_rate_list(sph->xm, sph->vp, sph->list, sph->grad, sph->first[i], sph->middle[i],
                             me, mv)
           + fsi__df_rate_list(sph->xm + b, sph->vp + b, sph->list, sph->grad, sph->middle[i],
                               sph->last[i], me, mv);
}

/* New stiffness changes into vp[3]; returns the mean residual, relative to rho0 (density) or rho0 /
 * dt (divergence). */
static fsi_real fsi__df_residual(fsi_sph *sph, fsi_real dt, int density, fsi_real omega,
                                 fsi_real beta) {
    const fsi_real rest = sph->desc.density, *kappa = density ? sph->kappa : sph->kappa_v;
    /* with fewer neighbours the divergence means nothing */
    int few = density ? 0 : sph->desc.dim == 3 ? 20 : 7;
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 256))
    /* apart from what follows: the lanes read vp[3] of neighbours too, and drop it */
    for (ptrdiff_t i = 0; i < n; i++)
        sph->work[i] = fsi__df_rate(sph, i);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real D = sph->work[i],
                 r = density ? fsi__min(sph->rho[i] - rest, sph->excess) + dt * D : D,
                 k = kappa[i] + omega * r * sph->factor[i];
        int loose = sph->last[i] - sph->first[i] < few, two_sided = sph->desc.tension && !density;
        if (loose) {
            k = 0;
            r = 0;
        }
        if (k < 0 && !two_sided)
            k = 0;
        fsi_real y = k + beta * (k - sph->p[i]); /* momentum; p holds the k before */
        if (y < 0 && !two_sided)
            y = 0;
        sph->p[i] = k;
        sph->vp[4 * i + 3] = y - kappa[i];
        /* too much pressure is an error as long as there is any */
        if (r < 0)
            r = two_sided ? -r : fsi__min(-r, kappa[i] / sph->factor[i]);
        sph->work[i] = (density ? r : r * dt) / rest;
    }
    return (fsi_real)(fsi_sum((size_t)n, sph->work) / (double)n);
}

/* sum += (k_i + k_j) m grad W over list entries k0 .. k1; k4: stiffness changes, 4 apart; walls:
 * (k_i) m grad W. */
FSI__SPH_FORCE_INLINE void fsi__df_push_list(const fsi_real *FSI__RESTRICT x4,
                                             const fsi_real *FSI__RESTRICT k4,
                                             const int32_t *FSI__RESTRICT list,
                                             const fsi_real *FSI__RESTRICT grad, int k0, int k1,
                                             const fsi_real *FSI__RESTRICT me, fsi_real ki,
                                             int walls, fsi_real *FSI__RESTRICT sum) {
    fsi_real a[4] = {0, 0, 0, 0};
    for (int k = k0; k < k1; k++) {
        const fsi_real *o = x4 + 4 * (size_t)list[k];
        fsi_real c = grad[k] * (walls ? ki : ki + k4[4 * (size_t)list[k]]);
        FSI__SPH_LANES
        for (int d = 0; d < 4; d++)
            a[d] += c * (me[d] - o[d]);
    }
    for (int d = 0; d < 4; d++)
        sum[d] += a[d];
}

/* v -= scale * (sum of the changes in vp[3]), and takes the changes into kappa. */
static void fsi__df_push(fsi_sph *sph, fsi_real scale, fsi_real *kappa) {
    const fsi_real *bx = sph->xm + 4 * (size_t)sph->desc.capacity;
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (ptrdiff_t i = 0; i < n; i++) {
        const fsi_real *me = sph->xm + 4 * i;
        fsi_real *mv = sph->vp + 4 * i, a[4] = {0, 0, 0, 0};
        fsi__df_push_list(sph->xm, sph->vp + 3, sph->list, sph->grad, sph->first[i], sph->middle[i],
                          me, mv[3], 0, a);
        fsi__df_push_list(bx, NULL, sph->list, sph->grad, sph->middle[i], sph->last[i], me,
                          FSI__SPH_MIRROR * mv[3], 1, a);
        mv[0] -= scale * a[0];
        mv[1] -= scale * a[1];
        mv[2] -= scale * a[2];
        if (kappa)
            kappa[i] += mv[3];
    }
}

/* One solve: warm start, then iterations until the mean residual is small. Returns how many; *error
 * gets what is left. */
static int fsi__df_solve(fsi_sph *sph, fsi_real dt, int density, fsi_real *error) {
    fsi_real *kappa = density ? sph->kappa : sph->kappa_v,
             tol = density ? sph->desc.density_error : sph->desc.divergence_error;
    fsi_real scale = density ? 1 / dt : 1, ratio = sph->now.dt_old > 0 ? dt / sph->now.dt_old : 0;
    ptrdiff_t n = sph->now.count;
    fsi_real t = 1, last = FSI_REAL_MAX, omega = FSI__DF_OMEGA;
    if (sph->desc.cold_start)
        ratio = 0;
    /* the same pressure in a step of another length */
    if (density)
        ratio *= ratio;
    for (ptrdiff_t i = 0; i < n; i++)
        sph->p[i] = sph->vp[4 * i + 3] = kappa[i] = ratio * kappa[i];
    if (ratio > 0)
        fsi__df_push(sph, scale, NULL);
    for (int it = 0;; it++) {
        fsi_real t_new = FSI_R(0.5) * (1 + fsi__sqrt(1 + 4 * t * t));
        *error = fsi__df_residual(sph, dt, density, omega, (t - 1) / t_new);
        t = t_new;
        /* it gets worse: start again, slower */
        if (*error > FSI_R(1.3) * last) {
            t = 1;
            omega = fsi__max(FSI_R(0.7) * omega, FSI_R(0.1));
        }
        last = *error;
        if ((*error <= tol && it >= density) || it == sph->desc.max_iterations
            || !fsi__finite(*error))
            return it;
        fsi__df_push(sph, scale, kappa);
    }
}

static void fsi__df_unpack(fsi_sph *sph) {
    ptrdiff_t n = sph->now.count;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        sph->vx[i] = sph->vp[4 * i];
        sph->vy[i] = sph->vp[4 * i + 1];
        sph->vz[i] = sph->vp[4 * i + 2];
    }
}

static void fsi__df_accelerate(fsi_sph *sph, fsi_real dt) {
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, NULL);
    sph->stats.divergence_iterations = fsi__df_solve(sph, dt, 0, &sph->stats.divergence_error);
    fsi__df_unpack(sph);
    fsi__sph_pack_velocity(sph, NULL);
    for (ptrdiff_t i = 0; i < n; i++)
        sph->work[i] = sph->now.dt_old > 0 ? sph->kappa[i] / (sph->now.dt_old * sph->now.dt_old)
                                                 + sph->kappa_v[i] / dt
                                           : 0;
    /* gravity, viscosity, lift of the walls: vp[3] = 0 */
    fsi__sph_forces(sph);
    fsi__sph_react(sph, 0, 1, 0);
    fsi__sph_kick(sph, dt);
    fsi__sph_xsph(sph);
    fsi__sph_pack_velocity(sph, NULL);
    sph->stats.density_iterations = fsi__df_solve(sph, dt, 1, &sph->stats.density_error);
    fsi__df_unpack(sph);
    for (ptrdiff_t i = 0; i < n; i++) {
        sph->work[i] = sph->kappa[i] / (dt * dt) + sph->kappa_v[i] / dt;
        sph->p[i] = sph->work[i] * sph->rho[i] * sph->rho[i];
    }
    sph->now.mean_pressure = (fsi_real)(fsi_sum((size_t)n, sph->p) / (double)n);
    fsi__sph_react(sph, 1, 0, 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph step */
static void fsi__wc_accelerate(fsi_sph *sph, fsi_real dt) {
    fsi__sph_pressures(sph);
    fsi__sph_pack_velocity(sph, sph->work);
    fsi__sph_forces(sph);
    fsi__sph_react(sph, 1, 1, 0);
    /* v(n+1/2) = v(n-1/2) + a(n) (dt_old + dt)/2 */
    fsi__sph_kick(sph, (sph->now.dt_old + dt) / 2);
    fsi__sph_xsph(sph);
}

static void fsi__sph_report(const fsi_sph *sph, fsi_real dt, fsi_result result,
                            fsi_report *report) {
    double mass = 0;
    if (!report)
        return;
    memset(report, 0, sizeof *report);
    fsi_sph_totals(sph, &mass, NULL, NULL, NULL);
    report->reason = result;
    report->iterations = sph->stats.density_iterations + sph->stats.divergence_iterations;
    report->residual = (double)sph->stats.density_error;
    report->divergence = (double)(sph->stats.divergence_error / dt);
    report->volume = mass / (double)sph->desc.density;
}

FSI_API fsi_result fsi_sph_accelerate(fsi_sph *sph, fsi_real dt, fsi_report *report) {
    fsi_result result = FSI_OK;
    if (!sph || !sph->block || sph->ready < 1)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(dt))
        return FSI_ERR_ARGUMENT;
    if (sph->now.count == 0) {
        fsi__sph_react(sph, 0, 0, 0);
        fsi__sph_sum_objects(sph);
        fsi__sph_report(sph, dt, FSI_EMPTY, report);
        return FSI_EMPTY;
    }
    fsi_real safe = fsi_sph_max_dt(sph);
    /* a rate: a step cut short must not push as far as a full one */
    sph->excess = FSI__DF_EXCESS * sph->desc.density * fsi__min(dt / safe, 1);
    if (sph->desc.solver == FSI_SPH_DFSPH)
        fsi__df_accelerate(sph, dt);
    else
        fsi__wc_accelerate(sph, dt);
    if (sph->now.boundary_count) {
        fsi__sph_guard(sph);
        fsi__sph_guard_react(sph,
                             sph->desc.solver == FSI_SPH_DFSPH ? dt : (sph->now.dt_old + dt) / 2);
    }
    fsi__sph_sum_objects(sph);
    sph->stats.max_speed = fsi__sph_longest(sph->now.count, sph->vx, sph->vy, sph->vz);
    sph->now.max_acceleration = fsi__sph_longest(sph->now.count, sph->ax, sph->ay, sph->az);
    sph->ready = 2;
    if (dt > safe * FSI_R(1.001))
        result = FSI_DT_TOO_LARGE;
    if (sph->stats.density_iterations >= sph->desc.max_iterations
        || sph->stats.divergence_iterations >= sph->desc.max_iterations)
        result = FSI_NOT_CONVERGED;
    if (sph->stats.truncated || sph->stats.blocked)
        result = FSI_CAPPED;
    fsi__sph_report(sph, dt, result, report);
    return result;
}

/* delta-SPH: d rho_i/dt = sum m_j v_ij . grad W + 2 delta h c sum V_j (rho_i - rho_j - hydrostatic
 * part) F. */
static void fsi__sph_integrate_density(fsi_sph *sph, fsi_real dt) {
    /* 2 h = support */
    fsi_real c = sph->desc.sound_speed,
             k = sph->desc.delta * sph->desc.support * c / sph->desc.density;
    /* d rho / d x at rest */
    fsi_vec3 g = fsi_vec_scale(sph->desc.gravity, sph->desc.density / (c * c));
    const fsi_real *bx = sph->xm + 4 * (size_t)sph->desc.capacity,
                   *bv = sph->vp + 4 * (size_t)sph->desc.capacity;
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, sph->rho);
    FSI__OMP(parallel for schedule(static) if (n > 256))
    for (ptrdiff_t i = 0; i < n; i++) {
        const fsi_real *me = sph->xm + 4 * i, *mv = sph->vp + 4 * i;
        fsi_real D = 0;
        for (int q = sph->first[i]; q < sph->last[i]; q++) {
            int wall = q >= sph->middle[i];
            const fsi_real *o = (wall ? bx : sph->xm) + 4 * (size_t)sph->list[q],
                           *w = (wall ? bv : sph->vp) + 4 * (size_t)sph->list[q];
            fsi_vec3 r = fsi_vec(me[0] - o[0], me[1] - o[1], me[2] - o[2]),
                     u = fsi_vec(mv[0] - w[0], mv[1] - w[1], mv[2] - w[2]);
            D += sph->grad[q]
                 * (fsi_vec_dot(u, r) + (wall ? 0 : k * (mv[3] - w[3] - fsi_vec_dot(g, r))));
        }
        sph->rho[i] += dt * D;
    }
}

FSI_API fsi_result fsi_sph_move(fsi_sph *sph, fsi_real dt) {
    ptrdiff_t n;
    if (!sph || !sph->block || sph->ready < 1)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(dt))
        return FSI_ERR_ARGUMENT;
    n = sph->now.count;
    if (sph->desc.delta > 0 && sph->desc.solver == FSI_SPH_WCSPH && n > 0)
        fsi__sph_integrate_density(sph, dt);
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++) {
        sph->x[i] += dt * sph->vx[i];
        sph->y[i] += dt * sph->vy[i];
        sph->z[i] += dt * sph->vz[i];
    }
    sph->now.time += (double)dt;
    sph->now.dt_old = dt;
    sph->ready = 0;
    if (!fsi_all_finite((size_t)n, sph->x) || !fsi_all_finite((size_t)n, sph->y)
        || !fsi_all_finite((size_t)n, sph->z))
        return FSI_ERR_NUMERIC;
    return n ? FSI_OK : FSI_EMPTY;
}

FSI_API fsi_result fsi_sph_step(fsi_sph *sph, fsi_real dt, fsi_report *report) {
    fsi_result result = fsi_sph_prepare(sph, dt);
    if (result < 0)
        return result;
    result = fsi_sph_accelerate(sph, dt, report);
    if (result < 0)
        return result;
    fsi_result r2 = fsi_sph_move(sph, dt);
    return r2 < 0 ? r2 : result;
}

FSI_API fsi_real fsi_sph_max_dt(const fsi_sph *sph) {
    fsi_real dt = FSI_REAL_MAX;
    if (!sph || !sph->block)
        return 0;
    fsi_real h = sph->desc.support / 2;
    fsi_real speed = fsi__sph_longest(sph->now.count, sph->vx, sph->vy, sph->vz);
    fsi_real g = fsi__length(sph->desc.gravity);
    fsi_real a = fsi__max(g, sph->now.max_acceleration);
    if (sph->desc.solver == FSI_SPH_WCSPH)
        dt = sph->desc.cfl * h / (sph->desc.sound_speed + speed);
    else {
        speed =
            fsi__max(speed, fsi__sqrt(fsi__max(g * sph->desc.spacing,
                                               2 * sph->now.mean_pressure / sph->desc.density)));
        if (speed > 0)
            dt = sph->desc.cfl * sph->desc.spacing / speed;
    }
    if (sph->desc.viscosity > 0)
        dt = fsi__min(dt, FSI_R(0.125) * h * h * sph->desc.density / sph->desc.viscosity);
    if (sph->desc.artificial * sph->desc.sound_speed > 0)
        dt = fsi__min(dt, FSI_R(0.5) * h / (sph->desc.artificial * sph->desc.sound_speed));
    if (sph->desc.wall_viscosity > 0)
        dt = fsi__min(dt, FSI_R(0.125) * h * h * sph->desc.density / sph->desc.wall_viscosity);
    if (a > 0)
        dt = fsi__min(dt, FSI_R(0.25) * fsi__sqrt(h / a));
    return sph->desc.dt_max > 0 ? fsi__min(dt, sph->desc.dt_max) : dt;
}

FSI_API fsi_result fsi_sph_advance(fsi_sph *sph, fsi_real duration, int max_steps, int *steps,
                                   fsi_report *report) {
    fsi_result result = FSI_OK;
    double left = (double)duration;
    int n = 0;
    if (steps)
        *steps = 0;
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(duration) || max_steps < 0)
        return FSI_ERR_ARGUMENT;
    while (left > 1e-9 * (double)duration) {
        double safe = (double)fsi_sph_max_dt(sph), dt = left, parts = ceil(left / safe - 1e-6);
        if (!(safe > 0))
            return FSI_ERR_NUMERIC;
        if (max_steps && n == max_steps)
            return FSI_NOT_CONVERGED;
        /* even steps at the end */
        if (parts > 1 && parts < 3)
            dt = left / parts;
        else if (parts >= 3)
            dt = safe;
        result = fsi_sph_step(sph, (fsi_real)dt, report);
        if (result < 0)
            return result;
        left -= dt;
        n++;
        if (steps)
            *steps = n;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph state */
FSI_API size_t fsi_sph_state_size(const fsi_sph *sph) {
    return sph && sph->block ? sizeof sph->now + sph->state_bytes : 0;
}

FSI_API fsi_result fsi_sph_save(const fsi_sph *sph, void *out) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!out)
        return FSI_ERR_ARGUMENT;
    memcpy(out, &sph->now, sizeof sph->now);
    memcpy((unsigned char *)out + sizeof sph->now, sph->state, sph->state_bytes);
    return FSI_OK;
}

FSI_API fsi_result fsi_sph_restore(fsi_sph *sph, const void *state) {
    if (!sph || !sph->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    fsi_sph_scalars now;
    memcpy(&now, state, sizeof now);
    if (now.count < 0 || now.count > sph->desc.capacity || now.boundary_count < 0
        || now.boundary_count > sph->desc.boundary_capacity || now.objects < 0
        || now.objects > FSI_SPH_OBJECTS || now.emitters < 0 || now.emitters > FSI_SPH_EMITTERS
        || now.boxes < 0 || now.boxes > FSI_SPH_EMITTERS)
        return FSI_ERR_ARGUMENT;
    sph->now = now;
    memcpy(sph->state, (const unsigned char *)state + sizeof sph->now, sph->state_bytes);
    sph->ready = 0;
    if (sph->desc.skin > 0 && now.list_valid && now.count)
        fsi__sph_recall(sph);
    /* the sorted copies of the boundary may be of another time */
    sph->now.boundary_dirty = 1;
    return FSI_OK;
}

FSI_API void fsi_sph_totals(const fsi_sph *sph, double *mass, double momentum[3], double angular[3],
                            double *kinetic) {
    double M = 0, P[3] = {0, 0, 0}, L[3] = {0, 0, 0}, E = 0;
    for (int i = 0; sph && i < sph->now.count; i++) {
        double m = (double)sph->mass[i], x = (double)sph->x[i], y = (double)sph->y[i],
               z = (double)sph->z[i];
        double u = (double)sph->vx[i], v = (double)sph->vy[i], w = (double)sph->vz[i];
        M += m;
        P[0] += m * u;
        P[1] += m * v;
        P[2] += m * w;
        L[0] += m * (y * w - z * v);
        L[1] += m * (z * u - x * w);
        L[2] += m * (x * v - y * u);
        E += 0.5 * m * (u * u + v * v + w * w);
    }
    if (mass)
        *mass = M;
    if (kinetic)
        *kinetic = E;
    for (int d = 0; d < 3; d++) {
        if (momentum)
            momentum[d] = P[d];
        if (angular)
            angular[d] = L[d];
    }
}

static fsi_real fsi__sph_level_at(const fsi_sph *sph, fsi_vec3 p, fsi_real radius) {
    fsi_real R = sph->desc.support, w = 0;
    fsi_vec3 c = fsi_vec(0, 0, 0);
    if (!fsi__sph_within(sph, p))
        return R;
    fsi__sph_ranges in;
    fsi__sph_ranges_around(&sph->cells, p.x, p.y, p.z, &in);
    for (int k = 0; k < in.n; k++)
        for (int j = in.at[2 * k]; j < in.at[2 * k + 1] && j < sph->now.count; j++) {
            fsi_vec3 d = fsi_vec(sph->x[j] - p.x, sph->y[j] - p.y, sph->z[j] - p.z);
            fsi_real a = 1 - fsi_vec_dot(d, d) / (R * R);
            if (!(a > 0))
                continue;
            a *= a * a;
            w += a;
            c = fsi_vec_mad(c, d, a); /* mean of centres, seen from p */
        }
    return w > 0 ? fsi__length(c) / w - radius : R;
}

FSI_API fsi_result fsi_sph_level(const fsi_sph *sph, fsi_vec3 origin, fsi_real h, int nx, int ny,
                                 int nz, fsi_real radius, fsi_real *phi) {
    ptrdiff_t rows = (ptrdiff_t)ny * nz;
    if (!sph || !sph->block || sph->cells.t[0] == 0)
        return FSI_ERR_STATE;
    if (!fsi__finite_vec(origin) || !fsi__sph_positive(h) || nx < 1 || ny < 1 || nz < 1 || !phi
        || !fsi__sph_natural(radius))
        return FSI_ERR_ARGUMENT;
    if (radius == 0)
        radius = FSI_R(0.55) * sph->desc.spacing;
    FSI__OMP(parallel for schedule(static) if (rows > 8))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % ny), k = (int)(r / ny);
        for (int i = 0; i < nx; i++)
            phi[i + (ptrdiff_t)nx * r] =
                fsi__sph_level_at(sph,
                                  fsi_vec(origin.x + h * (fsi_real)i, origin.y + h * (fsi_real)j,
                                          origin.z + h * (fsi_real)k),
                                  radius);
    }
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled */
/* Symbols: X rest, x now, g_a = grad N_a in the rest state (a = 1..3; g_0 = -sum), F = sum (x_a -
   x_0) g_a^T, J = det F, C = cof F. All hyperelastic laws here have psi(F) = A(J) |F|^2 / 2 + U(J),
   so P = dpsi/dF = A F + (A' |F|^2 / 2 + U') C: no inverse of F is needed, and below J = min_volume
   A and U' go on linearly, which keeps the force defined (and pushing back) through inversion. */
#define FSI__TLED_LANES                                                                            \
    8 /* elements worked on together; constant, so that compilers vectorise at -O2 */

/* 2 atanh((J-1)/(J+1)) for 1/2 <= J <= 2, else libm */
static fsi_real fsi__tled_log(fsi_real J) {
    fsi_real y = (J - 1) / (J + 1), z = y * y, s = 0;
    if (!(J >= FSI_R(0.5) && J <= 2))
        return fsi__log(J);
    for (int k = sizeof(fsi_real) == 4 ? 7 : 16; k >= 0; k--)
        s = s * z + 1 / (fsi_real)(2 * k + 1);
    return 2 * y * s;
}

/* U'(J) and A(J), A'(J) of one element: the plain version, also beyond the range of the fast one.
 */
static void fsi__tled_law(const fsi_tled *tled, fsi_real J, fsi_real *A, fsi_real *dA,
                          fsi_real *dU) {
    /* e < 0: how far below the guard */
    fsi_real m = tled->desc.min_volume, j = J > m ? J : m, e = J - j;
    if (tled->desc.material == FSI_TLED_NEARLY) {
        fsi_real a = fsi__pow(j, FSI_R(-2.0) / 3);
        *dA = tled->mu * FSI_R(-2.0) / 3 * a / j;
        *A = tled->mu * a + *dA * e;
        *dU = tled->bulk * (J - 1);
    } else {
        fsi_real L = fsi__tled_log(j);
        *A = tled->mu;
        *dA = 0;
        *dU = (tled->lambda * L - tled->mu) / j + e * (tled->lambda * (1 - L) + tled->mu) / (j * j);
    }
}

/* The part of U' that pressure averaging takes from the nodes: lambda ln J / J or K (J - 1). */
static fsi_real fsi__tled_pressure(const fsi_tled *tled, fsi_real J) {
    fsi_real m = tled->desc.min_volume, j = J > m ? J : m;
    if (tled->desc.material == FSI_TLED_NEARLY)
        return tled->bulk * (J - 1);
    fsi_real L = fsi__tled_log(j);
    return tled->lambda * (L / j + (J - j) * (1 - L) / (j * j));
}

static void fsi__tled_layout(fsi_tled *tled, fsi_arena *arena) {
    size_t n = (size_t)tled->nodes, e = (size_t)tled->tets,
           b = (e + FSI__TLED_LANES - 1) / FSI__TLED_LANES;
    FSI__TAKE(tled->x, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->v, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->drive, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->fext, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->inverse_mass, fsi_real, arena, n);
    FSI__TAKE(tled->clock, double, arena, 2);
    tled->state_bytes = arena->used;
    FSI__TAKE(tled->x0, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->tet, int32_t, arena, 4 * e);
    FSI__TAKE(tled->mass, fsi_real, arena, n);
    FSI__TAKE(tled->volume, fsi_real, arena, e);
    FSI__TAKE(tled->dt_element, fsi_real, arena, e);
    FSI__TAKE(tled->triangle, int32_t, arena, 12 * e);
    FSI__TAKE(tled->identity, int32_t, arena, n);
    FSI__TAKE(tled->impulse, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->force, fsi_real, arena, 3 * n);
    FSI__TAKE(tled->grad, fsi_real, arena, 10 * FSI__TLED_LANES * b);
    FSI__TAKE(tled->corner, fsi_real, arena, 12 * FSI__TLED_LANES * b);
    FSI__TAKE(tled->corner_start, int32_t, arena, n + 1);
    FSI__TAKE(tled->corner_at, int32_t, arena, 4 * e);
    FSI__TAKE(tled->node_p, fsi_real, arena, n);
    FSI__TAKE(tled->node_v0, fsi_real, arena, n);
    FSI__TAKE(tled->block_j, fsi_real, arena, b);
    FSI__TAKE(tled->block_bad, int32_t, arena, b);
}

/* Rest gradients g_1..g_3 (rows of out[9]) and volume; 0 when the tetrahedron is flat. Turns a
 * negative one round. */
static int fsi__tled_rest(const fsi_real *X, int32_t *tet, double out[9], double *volume) {
    double d[9], c[9], size = 0;
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 3; i++) {
            d[3 * a + i] = (double)X[3 * tet[a + 1] + i] - (double)X[3 * tet[0] + i];
            if (fabs(d[3 * a + i]) > size)
                size = fabs(d[3 * a + i]);
        }
    /* rows of the cofactor matrix: c_a = d_b x d_c */
    for (int a = 0; a < 3; a++) {
        const double *u = d + 3 * ((a + 1) % 3), *w = d + 3 * ((a + 2) % 3);
        c[3 * a] = u[1] * w[2] - u[2] * w[1];
        c[3 * a + 1] = u[2] * w[0] - u[0] * w[2];
        c[3 * a + 2] = u[0] * w[1] - u[1] * w[0];
    }
    double det = d[0] * c[0] + d[1] * c[1] + d[2] * c[2];
    if (!(fabs(det) > (sizeof(fsi_real) == 4 ? 1e-7 : 1e-12) * size * size * size))
        return 0;
    if (det < 0) {
        int32_t s = tet[2];
        tet[2] = tet[3];
        tet[3] = s;
        return fsi__tled_rest(X, tet, out, volume);
    }
    for (int i = 0; i < 9; i++)
        out[i] = c[i] / det; /* g_a . d_b = delta_ab */
    *volume = det / 6;
    return 1;
}

/* Largest eigenvalue of a symmetric 6 x 6 by cyclic Jacobi rotations. */
static double fsi__tled_eigen6(double A[6][6]) {
    double top = 0;
    for (int sweep = 0; sweep < 12; sweep++) {
        double off = 0, diag = 0;
        for (int p = 0; p < 6; p++) {
            diag += A[p][p] * A[p][p];
            for (int q = p + 1; q < 6; q++)
                off += A[p][q] * A[p][q];
        }
        if (off <= 1e-30 * diag)
            break;
        for (int p = 0; p < 5; p++)
            for (int q = p + 1; q < 6; q++) {
                if (fabs(A[p][q]) < 1e-300)
                    continue;
                double theta = (A[q][q] - A[p][p]) / (2 * A[p][q]);
                double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1);
                double s = t * c;
                for (int k = 0; k < 6; k++) {
                    double u = A[k][p], v = A[k][q];
                    A[k][p] = c * u - s * v;
                    A[k][q] = s * u + c * v;
                }
                for (int k = 0; k < 6; k++) {
                    double u = A[p][k], v = A[q][k];
                    A[p][k] = c * u - s * v;
                    A[q][k] = s * u + c * v;
                }
            }
    }
    for (int p = 0; p < 6; p++)
        if (A[p][p] > top)
            top = A[p][p];
    return top;
}

/* omega_max^2 of one element with a quarter of its mass at each corner, exact: M^-1 K = (4 / rho)
   B^T D B has the non-zero eigenvalues of (4 / rho) D^1/2 B B^T D^1/2. Mandel notation: D = 2 mu I
   + lambda m m^T, whose root is known. */
static double fsi__tled_omega2(const double g[9], double mu, double lambda, double rho) {
    double B[6][12], S[6][6], s = sqrt(0.5), r = sqrt(2 * mu),
                              c = (sqrt(2 * mu + 3 * lambda) - r) / 3;
    int k;
    for (int a = 0; a < 4; a++) {
        double x = a ? g[3 * a - 3] : -(g[0] + g[3] + g[6]),
               y = a ? g[3 * a - 2] : -(g[1] + g[4] + g[7]),
               z = a ? g[3 * a - 1] : -(g[2] + g[5] + g[8]);
        double rows[6][3] = {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
               mean[3];
        rows[0][0] = x;
        rows[1][1] = y;
        rows[2][2] = z;
        rows[3][1] = s * z;
        rows[3][2] = s * y;
        rows[4][0] = s * z;
        rows[4][2] = s * x;
        rows[5][0] = s * y;
        rows[5][1] = s * x;
        mean[0] = x;
        mean[1] = y;
        mean[2] = z; /* m^T B */
        for (int i = 0; i < 6; i++)
            for (k = 0; k < 3; k++)
                B[i][3 * a + k] = r * rows[i][k] + (i < 3 ? c * mean[k] : 0);
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++)
            for (S[i][j] = 0, k = 0; k < 12; k++)
                S[i][j] += B[i][k] * B[j][k];
    return 4 / rho * fsi__tled_eigen6(S);
}

static int fsi__tled_desc_ok(const fsi_tled_desc *desc) {
    if (desc->nodes < 4 || desc->tets < 1 || !desc->x || !desc->tet || desc->tets > 0x7fffffff / 16
        || desc->nodes > 0x7fffffff / 4)
        return 0;
    if (!fsi__sph_positive(desc->density) || !fsi__sph_positive(desc->young)
        || !fsi__sph_natural(desc->poisson) || desc->poisson > FSI_R(0.49999)
        || !fsi__sph_natural(desc->damping) || !fsi__finite_vec(desc->gravity)
        || !(desc->min_volume > 0 && desc->min_volume < 1)
        || !(desc->safety > 0 && desc->safety <= 1) || (int)desc->material < 0
        || (int)desc->material > 2 || (desc->average_pressure && desc->material == FSI_TLED_STVK)
        || !fsi_allocator_valid(&desc->allocator)
        || !fsi_all_finite(3 * (size_t)desc->nodes, desc->x))
        return 0;
    for (int i = 0; i < 4 * desc->tets; i++)
        if (desc->tet[i] < 0 || desc->tet[i] >= desc->nodes)
            return 0;
    return 1;
}

/* node -> its corners, as offsets into corner[] */
static void fsi__tled_gather_lists(fsi_tled *tled) {
    for (int i = 0; i < 4 * tled->tets; i++)
        tled->corner_start[tled->tet[i] + 1]++;
    for (int i = 0; i < tled->nodes; i++)
        tled->corner_start[i + 1] += tled->corner_start[i];
    for (int i = 0; i < tled->tets; i++)
        for (int a = 0; a < 4; a++)
            tled->corner_at[tled->corner_start[tled->tet[4 * i + a]]++] =
                (i / FSI__TLED_LANES * 12 + 3 * a) * FSI__TLED_LANES + i % FSI__TLED_LANES;
    for (int i = tled->nodes; i > 0; i--)
        tled->corner_start[i] = tled->corner_start[i - 1];
    tled->corner_start[0] = 0;
}

/* are all three nodes in this tetrahedron? */
static int fsi__tled_has(const int32_t *tet, const int32_t f[3]) {
    int n = 0;
    for (int a = 0; a < 4; a++)
        n += tet[a] == f[0] || tet[a] == f[1] || tet[a] == f[2];
    return n == 3;
}

/* Faces that only one tetrahedron has, counter-clockwise from outside; twins are looked for around
 * the first node of a face. */
static void fsi__tled_skin(fsi_tled *tled) {
    /* opposite corner 0..3, outward for positive volume */
    static const int face[4][3] = {{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}};
    int k, count;
    for (int e = 0; e < tled->tets; e++)
        for (int c = 0; c < 4; c++) {
            int32_t f[3];
            for (k = 0; k < 3; k++)
                f[k] = tled->tet[4 * e + face[c][k]];
            for (count = 0, k = tled->corner_start[f[0]]; k < tled->corner_start[f[0] + 1]; k++) {
                int at = tled->corner_at[k],
                    other = at / (12 * FSI__TLED_LANES) * FSI__TLED_LANES + at % FSI__TLED_LANES;
                count += fsi__tled_has(tled->tet + 4 * other, f);
            }
            if (count == 1)
                memcpy(tled->triangle + 3 * tled->triangles++, f, sizeof f);
        }
}

/* Everything that depends on the rest state alone. */
static fsi_result fsi__tled_precompute(fsi_tled *tled) {
    double mu = (double)tled->mu, lambda = (double)tled->lambda, g[9], V, top = 0;
    for (int e = 0; e < tled->tets; e++) {
        fsi_real *block =
            tled->grad + (size_t)(e / FSI__TLED_LANES) * 10 * FSI__TLED_LANES + e % FSI__TLED_LANES;
        if (!fsi__tled_rest(tled->x0, tled->tet + 4 * e, g, &V))
            return FSI_ERR_GEOMETRY;
        for (int i = 0; i < 9; i++)
            block[i * FSI__TLED_LANES] = (fsi_real)g[i];
        block[9 * FSI__TLED_LANES] = tled->volume[e] = (fsi_real)V;
        for (int a = 0; a < 4; a++) {
            tled->mass[tled->tet[4 * e + a]] += (fsi_real)((double)tled->desc.density * V / 4);
            tled->node_v0[tled->tet[4 * e + a]] += (fsi_real)(V / 4);
        }
        double w2 = fsi__tled_omega2(g, mu, lambda, (double)tled->desc.density);
        tled->dt_element[e] = (fsi_real)(2 / sqrt(w2));
        if (w2 > top) {
            top = w2;
            tled->worst = e;
        }
    }
    tled->dt_critical = tled->dt_element[tled->worst];
    for (int i = 0; i < tled->nodes; i++) {
        /* a node without tetrahedra */
        if (!(tled->mass[i] > 0))
            return FSI_ERR_GEOMETRY;
        tled->inverse_mass[i] = 1 / tled->mass[i];
        tled->identity[i] = i;
    }
    fsi__tled_gather_lists(tled);
    fsi__tled_skin(tled);
    return FSI_OK;
}

FSI_API fsi_result fsi_tled_init(fsi_tled *tled, const fsi_tled_desc *desc) {
    fsi_arena arena = {NULL, 0, 0, 0};
    if (!tled || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_tled_desc given = *desc;
    if (given.min_volume == 0)
        given.min_volume = FSI_R(0.1);
    if (given.safety == 0)
        given.safety = FSI_R(0.8);
    if (!fsi__tled_desc_ok(&given))
        return FSI_ERR_ARGUMENT;
    memset(tled, 0, sizeof *tled);
    tled->desc = given;
    tled->nodes = given.nodes;
    tled->tets = given.tets;
    tled->mu = given.young / (2 * (1 + given.poisson));
    tled->lambda = given.young * given.poisson / ((1 + given.poisson) * (1 - 2 * given.poisson));
    tled->bulk = given.young / (3 * (1 - 2 * given.poisson));
    fsi__tled_layout(tled, &arena);
    fsi_result result = fsi__arena_block(&arena, &given.allocator, &tled->block, &tled->block_size);
    if (result != FSI_OK) {
        memset(tled, 0, sizeof *tled);
        return result;
    }
    fsi__tled_layout(tled, &arena);
    memcpy(tled->x0, given.x, 3 * (size_t)given.nodes * sizeof *tled->x0);
    memcpy(tled->x, given.x, 3 * (size_t)given.nodes * sizeof *tled->x);
    memcpy(tled->tet, given.tet, 4 * (size_t)given.tets * sizeof *tled->tet);
    tled->desc.x = tled->x0;
    tled->desc.tet = tled->tet;
    result = fsi__tled_precompute(tled);
    if (result != FSI_OK)
        fsi_tled_free(tled);
    return result;
}

FSI_API void fsi_tled_free(fsi_tled *tled) {
    if (!tled)
        return;
    if (tled->block)
        fsi_free(&tled->desc.allocator, tled->block, tled->block_size);
    memset(tled, 0, sizeof *tled);
}

FSI_API fsi_result fsi_tled_fix(fsi_tled *tled, int node, fsi_vec3 drive) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    if (node < 0 || node >= tled->nodes || !fsi__finite_vec(drive))
        return FSI_ERR_ARGUMENT;
    tled->inverse_mass[node] = 0;
    fsi_vec_store(tled->drive + 3 * node, drive);
    return FSI_OK;
}

FSI_API fsi_result fsi_tled_unfix(fsi_tled *tled, int node) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    if (node < 0 || node >= tled->nodes)
        return FSI_ERR_ARGUMENT;
    tled->inverse_mass[node] = 1 / tled->mass[node];
    fsi_vec_store(tled->drive + 3 * node, fsi_vec(0, 0, 0));
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled forces */
typedef struct fsi__tled_lanes {
    fsi_real F[9][FSI__TLED_LANES], C[9][FSI__TLED_LANES], J[FSI__TLED_LANES], I1[FSI__TLED_LANES];
} fsi__tled_lanes;

/* F, its cofactors, J and |F|^2 of the 8 elements of a block (the last block repeats its last
 * element: volume 0). */
FSI__SPH_FORCE_INLINE void fsi__tled_kinematics(const fsi_tled *tled, int block,
                                                fsi__tled_lanes *lanes) {
    const fsi_real *FSI__RESTRICT g = tled->grad + (size_t)block * 10 * FSI__TLED_LANES,
                                  *x = tled->x;
    fsi_real d[9 * FSI__TLED_LANES];
    for (int k = 0; k < FSI__TLED_LANES; k++) {
        const int32_t *n =
            tled->tet + 4 * (size_t)fsi__imin(block * FSI__TLED_LANES + k, tled->tets - 1);
        const fsi_real *p = x + 3 * (size_t)n[0], *q = x + 3 * (size_t)n[1],
                       *r = x + 3 * (size_t)n[2], *w = x + 3 * (size_t)n[3];
        d[k] = q[0] - p[0];
        d[1 * FSI__TLED_LANES + k] = q[1] - p[1];
        d[2 * FSI__TLED_LANES + k] = q[2] - p[2];
        d[3 * FSI__TLED_LANES + k] = r[0] - p[0];
        d[4 * FSI__TLED_LANES + k] = r[1] - p[1];
        d[5 * FSI__TLED_LANES + k] = r[2] - p[2];
        d[6 * FSI__TLED_LANES + k] = w[0] - p[0];
        d[7 * FSI__TLED_LANES + k] = w[1] - p[1];
        d[8 * FSI__TLED_LANES + k] = w[2] - p[2];
    }
    for (int i = 0; i < 9; i++) { /* F_ij = sum_a d_a,i g_a,j */
        const fsi_real *a = g + i % 3 * FSI__TLED_LANES, *b = d + i / 3 * FSI__TLED_LANES;
        for (int k = 0; k < FSI__TLED_LANES; k++)
            lanes->F[i][k] = b[k] * a[k] + b[3 * FSI__TLED_LANES + k] * a[3 * FSI__TLED_LANES + k]
                             + b[6 * FSI__TLED_LANES + k] * a[6 * FSI__TLED_LANES + k];
    }
    for (int k = 0; k < FSI__TLED_LANES; k++) {
        fsi_real a = lanes->F[0][k], b = lanes->F[1][k], c = lanes->F[2][k], e = lanes->F[3][k],
                 f = lanes->F[4][k], h = lanes->F[5][k], l = lanes->F[6][k], m = lanes->F[7][k],
                 o = lanes->F[8][k];
        lanes->C[0][k] = f * o - h * m;
        lanes->C[1][k] = h * l - e * o;
        lanes->C[2][k] = e * m - f * l;
        lanes->C[3][k] = c * m - b * o;
        lanes->C[4][k] = a * o - c * l;
        lanes->C[5][k] = b * l - a * m;
        lanes->C[6][k] = b * h - c * f;
        lanes->C[7][k] = c * e - a * h;
        lanes->C[8][k] = a * f - b * e;
        lanes->J[k] = a * lanes->C[0][k] + b * lanes->C[1][k] + c * lanes->C[2][k];
        lanes->I1[k] = a * a + b * b + c * c + e * e + f * f + h * h + l * l + m * m + o * o;
    }
}

/* Coefficients of P = a F + c C for all lanes by series and Newton (no libm); lanes outside [1/2,
 * 2] by the plain version. */
FSI__SPH_FORCE_INLINE void fsi__tled_stress(const fsi_tled *tled, const fsi__tled_lanes *lanes,
                                            int nearly, fsi_real *a, fsi_real *c) {
    const fsi_real mu = tled->mu, lambda = tled->lambda, bulk = tled->bulk;
    const int newton = sizeof(fsi_real) == 4 ? 3 : 5, terms = sizeof(fsi_real) == 4 ? 7 : 16;
    fsi_real s[FSI__TLED_LANES], y[FSI__TLED_LANES], z[FSI__TLED_LANES];
    int odd = 0;
    if (nearly) {
        for (int k = 0; k < FSI__TLED_LANES; k++)
            s[k] = 3 / (2 + lanes->J[k]);
        for (int i = 0; i < newton; i++) /* s = J^(-1/3): s <- s (4 - J s^3) / 3 */
            for (int k = 0; k < FSI__TLED_LANES; k++)
                s[k] =
                    s[k] * (4 - lanes->J[k] * s[k] * s[k] * s[k]) * FSI_R(0.33333333333333333333);
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            a[k] = mu * s[k] * s[k];
            /* K (J-1) - mu J^(-5/3) I1 / 3 */
            c[k] = bulk * (lanes->J[k] - 1) - a[k] * lanes->I1[k] / (3 * lanes->J[k]);
        }
    } else {
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            y[k] = (lanes->J[k] - 1) / (lanes->J[k] + 1);
            z[k] = y[k] * y[k];
            s[k] = 0;
        }
        for (int i = terms; i >= 0; i--) { /* ln J = 2 (y + y^3/3 + y^5/5 ...) */
            fsi_real w = 1 / (fsi_real)(2 * i + 1);
            for (int k = 0; k < FSI__TLED_LANES; k++)
                s[k] = s[k] * z[k] + w;
        }
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            a[k] = mu;
            c[k] = (lambda * 2 * y[k] * s[k] - mu) / lanes->J[k];
        }
    }
    for (int k = 0; k < FSI__TLED_LANES; k++)
        odd |= !(lanes->J[k] >= FSI_R(0.5)) | !(lanes->J[k] <= 2);
    for (int k = 0; odd && k < FSI__TLED_LANES; k++)
        if (!(lanes->J[k] >= FSI_R(0.5) && lanes->J[k] <= 2)) {
            fsi_real dA, dU;
            fsi__tled_law(tled, lanes->J[k], &a[k], &dA, &dU);
            c[k] = dA * lanes->I1[k] / 2 + dU;
        }
}

/* With averaged pressure: the element's own pressure is replaced by the mean of its nodes'. */
static void fsi__tled_average(const fsi_tled *tled, int block, const fsi__tled_lanes *lanes,
                              fsi_real *c) {
    for (int k = 0; k < FSI__TLED_LANES; k++) {
        const int32_t *n =
            tled->tet + 4 * (size_t)fsi__imin(block * FSI__TLED_LANES + k, tled->tets - 1);
        fsi_real p =
            (tled->node_p[n[0]] + tled->node_p[n[1]] + tled->node_p[n[2]] + tled->node_p[n[3]]) / 4;
        c[k] += p - fsi__tled_pressure(tled, lanes->J[k]);
    }
}

/* P of all lanes. St. Venant-Kirchhoff: P = (lambda tr E - mu) F + mu F F^T F. */
FSI__SPH_FORCE_INLINE void fsi__tled_piola(const fsi_tled *tled, int block,
                                           const fsi__tled_lanes *lanes, fsi_tled_material kind,
                                           fsi_real P[9][FSI__TLED_LANES]) {
    fsi_real a[FSI__TLED_LANES], c[FSI__TLED_LANES];
    if (kind == FSI_TLED_STVK) {
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < FSI__TLED_LANES; k++) {
                /* row i of B = F F^T */
                fsi_real s = tled->lambda * (lanes->I1[k] - 3) / 2 - tled->mu, B[3];
                for (int j = 0; j < 3; j++)
                    B[j] = lanes->F[3 * i][k] * lanes->F[3 * j][k]
                           + lanes->F[3 * i + 1][k] * lanes->F[3 * j + 1][k]
                           + lanes->F[3 * i + 2][k] * lanes->F[3 * j + 2][k];
                for (int j = 0; j < 3; j++)
                    P[3 * i + j][k] = s * lanes->F[3 * i + j][k]
                                      + tled->mu
                                            * (B[0] * lanes->F[j][k] + B[1] * lanes->F[3 + j][k]
                                               + B[2] * lanes->F[6 + j][k]);
            }
        return;
    }
    fsi__tled_stress(tled, lanes, kind == FSI_TLED_NEARLY, a, c);
    if (tled->desc.average_pressure)
        fsi__tled_average(tled, block, lanes, c);
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < FSI__TLED_LANES; k++)
            P[i][k] = a[k] * lanes->F[i][k] + c[k] * lanes->C[i][k];
}

/* Corner forces f_a = -V P g_a of a block, f_0 = -(f_1 + f_2 + f_3). */
FSI__SPH_FORCE_INLINE void fsi__tled_block_forces(fsi_tled *tled, int block,
                                                  fsi_tled_material kind) {
    const fsi_real *FSI__RESTRICT g = tled->grad + (size_t)block * 10 * FSI__TLED_LANES,
                                  *FSI__RESTRICT V = g + 9 * FSI__TLED_LANES;
    fsi_real *FSI__RESTRICT out = tled->corner + (size_t)block * 12 * FSI__TLED_LANES;
    fsi_real P[9][FSI__TLED_LANES], f[12][FSI__TLED_LANES];
    fsi__tled_lanes lanes;
    int bad = 0;
    fsi__tled_kinematics(tled, block, &lanes);
    fsi__tled_piola(tled, block, &lanes, kind, P);
    int k;
    for (int i = 0; i < 3; i++)
        for (int a = 1; a < 4; a++)
            for (k = 0; k < FSI__TLED_LANES; k++) {
                const fsi_real *q = g + 3 * (a - 1) * FSI__TLED_LANES + k;
                f[3 * a + i][k] = -V[k]
                                  * (P[3 * i][k] * q[0] + P[3 * i + 1][k] * q[FSI__TLED_LANES]
                                     + P[3 * i + 2][k] * q[2 * FSI__TLED_LANES]);
            }
    for (int i = 0; i < 3; i++)
        for (k = 0; k < FSI__TLED_LANES; k++)
            f[i][k] = -(f[3 + i][k] + f[6 + i][k] + f[9 + i][k]);
    memcpy(out, f, sizeof f);
    fsi_real least;
    for (least = lanes.J[0], k = 0; k < FSI__TLED_LANES; k++) {
        if (block * FSI__TLED_LANES + k >= tled->tets)
            break;
        least = lanes.J[k] < least ? lanes.J[k] : least;
        bad += !(lanes.J[k] >= tled->desc.min_volume);
    }
    tled->block_j[block] = least;
    tled->block_bad[block] = bad;
}

/* Nodal pressures from nodal volumes: J_a = sum V / sum V0 over the elements around a (Bonet and
 * Burton 1998). */
static void fsi__tled_nodal_pressure(fsi_tled *tled) {
    ptrdiff_t blocks = (tled->tets + FSI__TLED_LANES - 1) / FSI__TLED_LANES;
    FSI__OMP(parallel for schedule(static) if (blocks > 32))
    for (ptrdiff_t b = 0; b < blocks; b++) {
        const fsi_real *V = tled->grad + ((size_t)b * 10 + 9) * FSI__TLED_LANES;
        fsi__tled_lanes lanes;
        fsi__tled_kinematics(tled, (int)b, &lanes);
        for (int a = 0; a < 4; a++)
            for (int k = 0; k < FSI__TLED_LANES; k++)
                tled->corner[((size_t)b * 12 + 3 * (size_t)a) * FSI__TLED_LANES + (size_t)k] =
                    lanes.J[k] * V[k] / 4;
    }
    FSI__OMP(parallel for schedule(static) if (tled->nodes > 1024))
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_real sum = 0;
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++)
            sum += tled->corner[tled->corner_at[k]];
        tled->node_p[i] = fsi__tled_pressure(tled, sum / tled->node_v0[i]);
    }
}

static void fsi__tled_element_forces(fsi_tled *tled) {
    ptrdiff_t blocks = (tled->tets + FSI__TLED_LANES - 1) / FSI__TLED_LANES;
    if (tled->desc.average_pressure)
        fsi__tled_nodal_pressure(tled);
    if (tled->desc.material == FSI_TLED_STVK) {
        FSI__OMP(parallel for schedule(static) if (blocks > 32))
        for (ptrdiff_t b = 0; b < blocks; b++)
            fsi__tled_block_forces(tled, (int)b, FSI_TLED_STVK);
    } else if (tled->desc.material == FSI_TLED_NEARLY) {
        FSI__OMP(parallel for schedule(static) if (blocks > 32))
        for (ptrdiff_t b = 0; b < blocks; b++)
            fsi__tled_block_forces(tled, (int)b, FSI_TLED_NEARLY);
    } else {
        FSI__OMP(parallel for schedule(static) if (blocks > 32))
        for (ptrdiff_t b = 0; b < blocks; b++)
            fsi__tled_block_forces(tled, (int)b, FSI_TLED_NEOHOOKEAN);
    }
    tled->min_j = tled->block_j[0];
    tled->inverted = 0;
    for (ptrdiff_t b = 0; b < blocks; b++) {
        if (!(tled->block_j[b] >= tled->min_j))
            tled->min_j = tled->block_j[b];
        tled->inverted += tled->block_bad[b];
    }
}

FSI_API fsi_result fsi_tled_forces(fsi_tled *tled) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    fsi__tled_element_forces(tled);
    FSI__OMP(parallel for schedule(static) if (tled->nodes > 1024))
    /* each node gathers its own corners: no atomics, one order */
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_real fx = 0, fy = 0, fz = 0;
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++) {
            const fsi_real *f = tled->corner + tled->corner_at[k];
            fx += f[0];
            fy += f[FSI__TLED_LANES];
            fz += f[2 * FSI__TLED_LANES];
        }
        tled->force[3 * i] = fx;
        tled->force[3 * i + 1] = fy;
        tled->force[3 * i + 2] = fz;
    }
    if (!fsi_all_finite(3 * (size_t)tled->nodes, tled->force))
        return FSI_ERR_NUMERIC;
    return tled->inverted ? FSI_CAPPED : FSI_OK;
}

FSI_API fsi_result fsi_tled_accelerate(fsi_tled *tled, fsi_real dt) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(dt))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(3 * (size_t)tled->nodes, tled->fext)
        || !fsi_all_finite(3 * (size_t)tled->nodes, tled->v))
        return FSI_ERR_NUMERIC;
    fsi_result result = fsi_tled_forces(tled);
    if (result < 0)
        return result;
    /* from the middle of the last step to the middle of this one */
    fsi_real k = ((fsi_real)tled->clock[1] + dt) / 2;
    /* damping force at the mean of old and new velocity */
    fsi_real gain = k / (1 + tled->desc.damping * k / 2);
    fsi_real keep = (1 - tled->desc.damping * k / 2) / (1 + tled->desc.damping * k / 2);
    fsi_vec3 g = tled->desc.gravity;
    FSI__OMP(parallel for schedule(static) if (tled->nodes > 1024))
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_real w = tled->inverse_mass[i], *v = tled->v + 3 * i;
        const fsi_real *f = tled->force + 3 * i, *e = tled->fext + 3 * i, *d = tled->drive + 3 * i;
        if (w > 0) {
            v[0] = keep * v[0] + gain * ((f[0] + e[0]) * w + g.x);
            v[1] = keep * v[1] + gain * ((f[1] + e[1]) * w + g.y);
            v[2] = keep * v[2] + gain * ((f[2] + e[2]) * w + g.z);
        } else {
            v[0] = d[0];
            v[1] = d[1];
            v[2] = d[2];
        }
    }
    tled->ready = 1;
    if (result == FSI_OK && dt > fsi_tled_max_dt(tled) * FSI_R(1.0001))
        result = FSI_DT_TOO_LARGE;
    return result;
}

FSI_API fsi_result fsi_tled_move(fsi_tled *tled, fsi_real dt) {
    ptrdiff_t n;
    if (!tled || !tled->block || !tled->ready)
        return FSI_ERR_STATE;
    if (!fsi__sph_positive(dt))
        return FSI_ERR_ARGUMENT;
    n = 3 * (ptrdiff_t)tled->nodes;
    FSI__OMP(parallel for schedule(static) if (n > 4096))
    for (ptrdiff_t i = 0; i < n; i++)
        tled->x[i] += dt * tled->v[i];
    tled->clock[0] += (double)dt;
    tled->clock[1] = (double)dt;
    tled->ready = 0;
    return FSI_OK;
}

FSI_API fsi_result fsi_tled_step(fsi_tled *tled, fsi_real dt) {
    fsi_result result = fsi_tled_accelerate(tled, dt);
    if (result < 0)
        return result;
    fsi_result r2 = fsi_tled_move(tled, dt);
    return r2 < 0 ? r2 : result;
}

FSI_API fsi_real fsi_tled_max_dt(const fsi_tled *tled) {
    return tled && tled->block ? tled->desc.safety * tled->dt_critical : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled looks */
FSI_API fsi_mat3 fsi_tled_gradient(const fsi_tled *tled, int tet) {
    fsi_mat3 F;
    memset(&F, 0, sizeof F);
    if (!tled || !tled->block || tet < 0 || tet >= tled->tets)
        return F;
    const fsi_real *g =
        tled->grad + (size_t)(tet / FSI__TLED_LANES) * 10 * FSI__TLED_LANES + tet % FSI__TLED_LANES;
    const int32_t *n = tled->tet + 4 * (size_t)tet;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int a = 0; a < 3; a++)
                F.m[3 * i + j] += (tled->x[3 * n[a + 1] + i] - tled->x[3 * n[0] + i])
                                  * g[(3 * a + j) * FSI__TLED_LANES];
    return F;
}

/* psi of one element without the averaged part; J below the guard: the quadratic that belongs to
 * the linear force. */
static double fsi__tled_psi(const fsi_tled *tled, const fsi_mat3 *F) {
    double I1 = 0, J = (double)fsi_mat3_det(F), m = (double)tled->desc.min_volume,
           j = J > m ? J : m, e = J - j, L = log(j), b = 0;
    double mu = (double)tled->mu, lambda = (double)tled->lambda, K = (double)tled->bulk;
    for (int i = 0; i < 9; i++)
        I1 += (double)F->m[i] * (double)F->m[i];
    if (tled->desc.material == FSI_TLED_STVK) {
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 3; k++) {
                double c = (double)(F->m[i] * F->m[k] + F->m[3 + i] * F->m[3 + k]
                                    + F->m[6 + i] * F->m[6 + k])
                           - (i == k);
                b += c * c / 4;
            }
        return mu * b + lambda / 8 * (I1 - 3) * (I1 - 3);
    }
    if (tled->desc.material == FSI_TLED_NEARLY) {
        double a = pow(j, -2.0 / 3);
        return mu / 2 * ((a - 2.0 / 3 * a / j * e) * I1 - 3)
               + (tled->desc.average_pressure ? 0 : K / 2 * (J - 1) * (J - 1));
    }
    b = mu / 2 * (I1 - 3) - mu * (L + e / j - e * e / (2 * j * j));
    return b
           + (tled->desc.average_pressure
                  ? 0
                  : lambda * (L * L / 2 + e * L / j + e * e / 2 * (1 - L) / (j * j)));
}

FSI_API void fsi_tled_totals(const fsi_tled *tled, double *kinetic, double *elastic,
                             double momentum[3], double angular[3]) {
    double E = 0, U = 0, P[3] = {0, 0, 0}, L[3] = {0, 0, 0};
    if (!tled || !tled->block)
        return;
    for (int i = 0; i < tled->nodes; i++) {
        const fsi_real *q = tled->x + 3 * i, *w = tled->v + 3 * i;
        double m = (double)tled->mass[i], x[3], v[3];
        for (int d = 0; d < 3; d++) {
            x[d] = (double)q[d];
            v[d] = (double)w[d];
            E += 0.5 * m * v[d] * v[d];
            P[d] += m * v[d];
        }
        for (int d = 0; d < 3; d++)
            L[d] += m * (x[(d + 1) % 3] * v[(d + 2) % 3] - x[(d + 2) % 3] * v[(d + 1) % 3]);
    }
    for (int i = 0; elastic && i < tled->tets; i++) {
        fsi_mat3 F = fsi_tled_gradient(tled, i);
        U += (double)tled->volume[i] * fsi__tled_psi(tled, &F);
    }
    /* + sum_a U(J_a) V0_a */
    for (int i = 0; elastic && tled->desc.average_pressure && i < tled->nodes; i++) {
        double J = 0, m = (double)tled->desc.min_volume;
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++) {
            int at = tled->corner_at[k],
                el = at / (12 * FSI__TLED_LANES) * FSI__TLED_LANES + at % FSI__TLED_LANES;
            fsi_mat3 F = fsi_tled_gradient(tled, el);
            J += (double)fsi_mat3_det(&F) * (double)tled->volume[el] / 4;
        }
        J /= (double)tled->node_v0[i];
        double j = J > m ? J : m;
        double e = J - j;
        double l = log(j);
        U += (double)tled->node_v0[i]
             * (tled->desc.material == FSI_TLED_NEARLY
                    ? (double)tled->bulk / 2 * (J - 1) * (J - 1)
                    : (double)tled->lambda
                          * (l * l / 2 + e * l / j + e * e / 2 * (1 - l) / (j * j)));
    }
    if (kinetic)
        *kinetic = E;
    if (elastic)
        *elastic = U;
    for (int d = 0; d < 3; d++) {
        if (momentum)
            momentum[d] = P[d];
        if (angular)
            angular[d] = L[d];
    }
}

FSI_API fsi_surface fsi_tled_surface(const fsi_tled *tled) {
    fsi_surface surface;
    memset(&surface, 0, sizeof surface);
    surface.dim = 3;
    if (!tled || !tled->block)
        return surface;
    surface.vertex_count = tled->nodes;
    surface.element_count = tled->triangles;
    surface.closed = 1;
    surface.x = tled->x;
    surface.v = tled->v;
    surface.index = tled->triangle;
    return surface;
}

FSI_API fsi_coupled fsi_tled_coupled(fsi_tled *tled) {
    fsi_coupled door;
    memset(&door, 0, sizeof door);
    if (!tled || !tled->block)
        return door;
    door.surface = fsi_tled_surface(tled);
    door.dof = 3 * tled->nodes;
    door.v = tled->v;
    door.impulse = tled->impulse;
    door.mass = tled->mass;
    door.inverse_mass = tled->inverse_mass;
    door.node = tled->identity;
    return door;
}

FSI_API size_t fsi_tled_state_size(const fsi_tled *tled) {
    return tled && tled->block ? tled->state_bytes : 0;
}

FSI_API fsi_result fsi_tled_save(const fsi_tled *tled, void *out) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    if (!out)
        return FSI_ERR_ARGUMENT;
    memcpy(out, tled->block, tled->state_bytes);
    return FSI_OK;
}

FSI_API fsi_result fsi_tled_restore(fsi_tled *tled, const void *state) {
    if (!tled || !tled->block)
        return FSI_ERR_STATE;
    if (!state)
        return FSI_ERR_ARGUMENT;
    memcpy(tled->block, state, tled->state_bytes);
    tled->ready = 0;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>look-up */
#define FSI__LOOKUP_ITEMS 32 /* room per element, in cells */
#define FSI__LOOKUP_MOST 128 /* an element in more cells than this is a large one ... */
#define FSI__LOOKUP_LARGE 16 /* ... of which there may be so many */

static void fsi__lookup_layout(fsi_lookup *lookup, fsi_arena *arena) {
    size_t n = (size_t)lookup->capacity;
    FSI__TAKE(lookup->box, fsi_real, arena, 6 * n);
    FSI__TAKE(lookup->item, int32_t, arena, n * (FSI__LOOKUP_ITEMS + 1) + FSI__LOOKUP_LARGE);
    FSI__TAKE(lookup->cells.start, int32_t, arena, (size_t)lookup->cells.room + 2);
}

FSI_API fsi_result fsi_lookup_init(fsi_lookup *lookup, int capacity,
                                   const fsi_allocator *allocator) {
    fsi_arena arena = {NULL, 0, 0, 0};
    if (!lookup || capacity < 1 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    memset(lookup, 0, sizeof *lookup);
    /* places in item[] are 32 bits */
    if (capacity > INT32_MAX / (FSI__LOOKUP_ITEMS + 2))
        return FSI_ERR_SIZE;
    lookup->capacity = capacity;
    lookup->cells.room = fsi__imax(4096, 4 * capacity);
    if (allocator)
        lookup->allocator = *allocator;
    fsi__lookup_layout(lookup, &arena);
    fsi_result result = fsi__arena_block(&arena, &lookup->allocator, &lookup->block, &lookup->size);
    if (result != FSI_OK) {
        memset(lookup, 0, sizeof *lookup);
        return result;
    }
    fsi__lookup_layout(lookup, &arena);
    for (capacity--; capacity >= 0; capacity--)
        lookup->item[capacity] = capacity;
    return FSI_OK;
}

FSI_API void fsi_lookup_free(fsi_lookup *lookup) {
    if (!lookup)
        return;
    fsi_free(&lookup->allocator, lookup->block, lookup->size);
    memset(lookup, 0, sizeof *lookup);
}

/* rises with x, whatever x is */
FSI__INLINE int fsi__lookup_cell(const fsi_lookup *lookup, fsi_real x) {
    x *= lookup->cells.inv;
    return fsi__sph_floor(fsi__max(-FSI__SPH_FAR, fsi__min(FSI__SPH_FAR, x)));
}

/* Cells of the box lo .. hi enlarged by r, at least the middle one; z has one cell in 2D. */
static void fsi__lookup_cells(const fsi_lookup *lookup, const fsi_real *lo, const fsi_real *hi,
                              fsi_real r, int a[3], int b[3]) {
    int d;
    for (a[2] = b[2] = d = 0; d < lookup->surface.dim; d++) {
        fsi_real x = lo[d] - r, y = hi[d] + r;
        if (x > y)
            x = y = lo[d] / 2 + hi[d] / 2;
        a[d] = fsi__lookup_cell(lookup, x);
        b[d] = fsi__lookup_cell(lookup, y);
    }
}

/* Bounds of all elements, and of them together. */
static void fsi__lookup_boxes(fsi_lookup *lookup) {
    for (int d = 0; d < 3; d++) {
        lookup->lo[d] = FSI_REAL_MAX;
        lookup->hi[d] = -FSI_REAL_MAX;
    }
    for (int e = 0; e < lookup->surface.element_count; e++) {
        fsi_real *b = lookup->box + 6 * (size_t)e;
        fsi_surface_bounds(&lookup->surface, e, b, b + 3);
        for (int d = 0; d < 3; d++) {
            /* room for the round-off of the tests */
            fsi_real pad = 8 * FSI_REAL_EPS * fsi__max(fsi__abs(b[d]), fsi__abs(b[3 + d]));
            b[d] -= pad;
            b[3 + d] += pad;
            lookup->lo[d] = fsi__min(lookup->lo[d], b[d]);
            lookup->hi[d] = fsi__max(lookup->hi[d], b[3 + d]);
        }
    }
}

/* Edge of the cells from the median of a few elements: neither huge nor degenerate ones count. */
static fsi_real fsi__lookup_edge(const fsi_lookup *lookup) {
    fsi_real size[31];
    int n = fsi__imin(31, lookup->surface.element_count), j;
    for (int k = 0; k < n; k++) {
        const fsi_real *b =
            lookup->box + 6 * ((size_t)k * (size_t)lookup->surface.element_count / (size_t)n);
        fsi_real s = fsi__max(b[3] - b[0], fsi__max(b[4] - b[1], b[5] - b[2]));
        for (j = k; j > 0 && size[j - 1] > s; j--)
            size[j] = size[j - 1];
        size[j] = s;
    }
    fsi_real edge = FSI_R(0.5) * (size[n / 2] + 2 * lookup->reach);
    return edge > FSI_R(1e-30) ? edge : 1;
}

/* Element e into its cells: pass 0 counts them in start[cell + 2], pass 1 writes them behind
 * start[cell + 1]. Returns how many; 0 = a large one. */
static int fsi__lookup_put(fsi_lookup *lookup, int e, int pass) {
    fsi__sph_cells *cells = &lookup->cells;
    const fsi_real *box = lookup->box + 6 * (size_t)e;
    int a[3], b[3];
    double n = 1;
    fsi__lookup_cells(lookup, box, box + 3, lookup->reach, a, b);
    for (int d = 0; d < 3; d++) {
        b[d] = fsi__imin(b[d], a[d] + cells->t[d] - 1);
        n *= b[d] - a[d] + 1;
    }
    if (n > FSI__LOOKUP_MOST)
        return 0;
    for (int z = a[2]; z <= b[2]; z++)
        for (int y = a[1]; y <= b[1]; y++) {
            int32_t *row = cells->start + 1
                           + (ptrdiff_t)cells->t[0]
                                 * (fsi__sph_wrapped(cells, 1, y)
                                    + cells->t[1] * fsi__sph_wrapped(cells, 2, z));
            for (int x = a[0]; x <= b[0]; x++) {
                int32_t *at = row + fsi__sph_wrapped(cells, 0, x);
                if (pass)
                    lookup->item[(*at)++] = e;
                else
                    at[1]++;
            }
        }
    return (int)n;
}

/* Counts with cells of this edge; 0 when the items do not fit. */
static int fsi__lookup_count(fsi_lookup *lookup, fsi_real edge) {
    int a[3], b[3], k, n = lookup->surface.element_count, all = 0;
    lookup->cells.inv = 1 / edge;
    fsi__lookup_cells(lookup, lookup->lo, lookup->hi, lookup->reach, a, b);
    fsi__sph_cells_fit(&lookup->cells, a, b, lookup->surface.dim);
    memset(lookup->cells.start, 0,
           ((size_t)(lookup->cells.t[0] * lookup->cells.t[1] * lookup->cells.t[2]) + 2)
               * sizeof *lookup->cells.start);
    int e;
    for (lookup->large = 0, e = 0; e < n && all <= FSI__LOOKUP_ITEMS * n; e++) {
        all += k = fsi__lookup_put(lookup, e, 0);
        if (k)
            continue;
        if (lookup->large == FSI__LOOKUP_LARGE)
            return 0;
        lookup->item[lookup->capacity + lookup->large++] = e;
    }
    return all <= FSI__LOOKUP_ITEMS * n;
}

FSI_API fsi_result fsi_lookup_build(fsi_lookup *lookup, const fsi_surface *surface,
                                    fsi_real reach) {
    if (!lookup || !lookup->block)
        return FSI_ERR_STATE;
    lookup->surface.element_count = 0;
    if (!(reach >= 0 && reach < fsi__sqrt(FSI_REAL_MAX)))
        return FSI_ERR_ARGUMENT;
    fsi_result result;
    if ((result = fsi_surface_check(surface)) != FSI_OK)
        return result;
    if (surface->element_count > lookup->capacity)
        return FSI_ERR_SIZE;
    lookup->surface = *surface;
    lookup->reach = reach;
    if (!surface->element_count)
        return FSI_OK;
    fsi__lookup_boxes(lookup);
    /* ends: an element no larger than a cell is in at most 8 */
    for (fsi_real edge = fsi__lookup_edge(lookup); !fsi__lookup_count(lookup, edge);
         edge *= FSI_R(1.5)) {
    }
    int cells = lookup->cells.t[0] * lookup->cells.t[1] * lookup->cells.t[2];
    lookup->cells.start[0] = lookup->cells.start[1] = lookup->capacity + lookup->large;
    for (int k = 1; k <= cells; k++)
        lookup->cells.start[k + 1] += lookup->cells.start[k];
    for (int k = 0; k < surface->element_count; k++)
        (void)fsi__lookup_put(lookup, k, 1);
    return FSI_OK;
}

/* One query: elements whose bounds come within the root of limit of the box lo .. hi, by distance
 * from p or by crossing of p -> q. */
typedef struct fsi__lookup_query {
    const fsi_lookup *l;
    fsi_vec3 p, q;
    int ray;   /* 1: crossings */
    int first; /* 1: only the first one matters; radius and limit shrink */
    fsi_real lo[3], hi[3], radius, limit;
    fsi_hit *hits; /* sorted */
    int room, count;
} fsi__lookup_query;

static void fsi__lookup_test(fsi__lookup_query *query, int e) {
    const fsi_real *b = query->l->box + 6 * (size_t)e;
    fsi_real d2 = 0;
    int k;
    for (k = 0; k < 3; k++) {
        fsi_real w = fsi__max(fsi__max(b[k] - query->hi[k], query->lo[k] - b[3 + k]), 0);
        d2 += w * w;
    }
    if (!(d2 <= query->limit))
        return;
    fsi_hit hit;
    if (query->ray && !fsi_surface_cross(&query->l->surface, e, query->p, query->q, &hit))
        return;
    if (!query->ray)
        fsi_surface_closest(&query->l->surface, e, query->p, &hit);
    if (!(hit.t <= query->radius))
        return;
    /* insertion into the sorted list of the first ones */
    k = fsi__imin(query->count++, query->room);
    for (; k > 0
           && (hit.t < query->hits[k - 1].t
               || (hit.t == query->hits[k - 1].t && e < query->hits[k - 1].element));
         k--)
        if (k < query->room)
            query->hits[k] = query->hits[k - 1];
    if (k < query->room)
        query->hits[k] = hit;
    if (!query->first)
        return;
    query->radius = query->hits[0].t;
    query->limit = fsi__min(
        query->limit, query->ray ? 0 : query->radius * query->radius * (1 + 8 * FSI_REAL_EPS));
}

/* Is this the first cell of the query that holds element e? */
static int fsi__lookup_new(const fsi_lookup *lookup, int e, const int at[3], const int lo[3]) {
    for (int d = 0; d < lookup->surface.dim; d++)
        if (at[d]
            != fsi__imax(
                fsi__lookup_cell(lookup, lookup->box[6 * (size_t)e + (size_t)d] - lookup->reach),
                lo[d]))
            return 0;
    return 1;
}

/* Tests, each once, the elements of the cells that hold everything within r of the query's box.
   Returns 1 when it tested all there are instead, because the cells were more. */
static int fsi__lookup_search(fsi__lookup_query *query, fsi_real r) {
    const fsi_lookup *lookup = query->l;
    const fsi__sph_cells *cells = &lookup->cells;
    int lo[3], hi[3], at[3];
    double n = 1;
    fsi__lookup_cells(lookup, query->lo, query->hi, r - lookup->reach, lo, hi);
    for (int d = 0; d < 3; d++) {
        if (!cells->wrap[d]) {
            lo[d] = fsi__imax(lo[d], cells->base[d]);
            hi[d] = fsi__imin(hi[d], cells->base[d] + cells->t[d] - 1);
        }
        n *= fsi__imax(hi[d] - lo[d] + 1, 0);
    }
    int all = n > lookup->surface.element_count;
    for (int k = 0; k < (all ? lookup->surface.element_count : lookup->large); k++)
        fsi__lookup_test(query, lookup->item[all ? k : lookup->capacity + k]);
    for (at[2] = lo[2]; at[2] <= hi[2] && n > 0 && !all; at[2]++)
        for (at[1] = lo[1]; at[1] <= hi[1]; at[1]++) {
            const int32_t *row = cells->start
                                 + (ptrdiff_t)cells->t[0]
                                       * (fsi__sph_wrapped(cells, 1, at[1])
                                          + cells->t[1] * fsi__sph_wrapped(cells, 2, at[2]));
            for (at[0] = lo[0]; at[0] <= hi[0]; at[0]++) {
                const int32_t *run = row + fsi__sph_wrapped(cells, 0, at[0]);
                for (int k = run[0]; k < run[1]; k++)
                    if (n < 2 || fsi__lookup_new(lookup, lookup->item[k], at, lo))
                        fsi__lookup_test(query, lookup->item[k]);
            }
        }
    return all;
}

/* 0: nothing to find */
static int fsi__lookup_begin(fsi__lookup_query *query, const fsi_lookup *lookup, fsi_vec3 p,
                             fsi_hit *hits, int room) {
    memset(query, 0, sizeof *query);
    if (!lookup || !lookup->block || !lookup->surface.element_count || !fsi__finite_vec(p))
        return 0;
    if (lookup->surface.dim == 2)
        p.z = 0;
    query->l = lookup;
    query->p = p;
    query->hits = hits;
    query->room = room;
    fsi_vec_store(query->lo, p);
    fsi_vec_store(query->hi, p);
    return 1;
}

static int fsi__lookup_within(fsi__lookup_query *query, fsi_real radius) {
    query->radius = radius;
    query->limit = radius < fsi__sqrt(FSI_REAL_MAX) / 2 ? radius * radius * (1 + 8 * FSI_REAL_EPS)
                                                        : FSI_REAL_MAX;
    return fsi__lookup_search(query, radius);
}

FSI_API int fsi_lookup_closest(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius,
                               fsi_hit *hit) {
    fsi__lookup_query query;
    if (!(radius >= 0) || !fsi__lookup_begin(&query, lookup, p, hit, 1))
        return 0;
    query.first = 1;
    /* the sphere grows until it holds one */
    for (fsi_real r = fsi__min(radius, lookup->reach);;
         r = fsi__min(radius, fsi__max(2 * r, 1 / lookup->cells.inv))) {
        if (fsi__lookup_within(&query, r) && !query.count)
            (void)fsi__lookup_within(&query, r = radius);
        if (query.count || r >= radius)
            return query.count > 0;
    }
}

FSI_API int fsi_lookup_sphere(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius, fsi_hit *hits,
                              int room) {
    fsi__lookup_query query;
    if (!(radius >= 0) || !fsi__lookup_begin(&query, lookup, p, hits, room))
        return 0;
    (void)fsi__lookup_within(&query, radius);
    return query.count;
}

/* The part of p -> q within the bounds of the surface, in pieces about a cell long. slack: the
 * round-off of points on it. Returns the number of pieces. */
static int fsi__lookup_pieces(const fsi_lookup *lookup, const fsi_real p[3], const fsi_real q[3],
                              const fsi_real slack[3], fsi_real t[2]) {
    fsi_real most = 0;
    int d;
    for (t[0] = 0, t[1] = 1, d = 0; d < lookup->surface.dim; d++) {
        fsi_real way = q[d] - p[d];
        most = fsi__max(most, fsi__abs(way));
        if (way == 0 || !fsi__finite(way))
            continue;
        fsi_real x = (lookup->lo[d] - slack[d] - p[d]) / way;
        fsi_real y = (lookup->hi[d] + slack[d] - p[d]) / way;
        t[0] = fsi__max(t[0], fsi__min(x, y));
        t[1] = fsi__min(t[1], fsi__max(x, y));
    }
    if (!(t[0] <= t[1]))
        return 0;
    fsi_real n = fsi__ceil(most * (t[1] - t[0]) * lookup->cells.inv);
    /* more pieces than elements: look at all of them once */
    return n < (fsi_real)lookup->surface.element_count ? fsi__imax(1, (int)n) : 1;
}

FSI_API int fsi_lookup_first_hit(const fsi_lookup *lookup, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit) {
    fsi__lookup_query query;
    fsi_real a[3], b[3], slack[3], t[2];
    if (!fsi__lookup_begin(&query, lookup, p, hit, 1) || !fsi__finite_vec(q))
        return 0;
    if (lookup->surface.dim == 2)
        q.z = 0;
    query.q = q;
    query.ray = query.first = 1;
    query.radius = 1;
    fsi_vec_store(a, query.p);
    fsi_vec_store(b, q);
    for (int d = 0; d < 3; d++)
        slack[d] = 8 * FSI_REAL_EPS * (fsi__abs(a[d]) + fsi__abs(b[d]));
    int k;
    int n;
    for (n = fsi__lookup_pieces(lookup, a, b, slack, t), k = 0; k < n; k++) {
        fsi_real u = t[0] + (t[1] - t[0]) * (fsi_real)k / (fsi_real)n;
        fsi_real v = t[0] + (t[1] - t[0]) * (fsi_real)(k + 1) / (fsi_real)n;
        if (query.count && hit->t < u - 16 * FSI_REAL_EPS)
            break; /* what comes now is behind it */
        for (int d = 0; d < 3; d++) {
            fsi_real x = (1 - u) * a[d] + u * b[d];
            fsi_real y = (1 - v) * a[d] + v * b[d];
            query.lo[d] = fsi__min(x, y) - slack[d];
            query.hi[d] = fsi__max(x, y) + slack[d];
        }
        (void)fsi__lookup_search(&query, 0);
    }
    return query.count > 0;
}

#ifdef __cplusplus
}
#endif
#endif /* FSI_SPH_IMPLEMENTATION */

/*
------------------------------------------------------------------------------------------------
This software is available under two licences: choose the one you prefer.
------------------------------------------------------------------------------------------------
A: MIT License. Copyright (c) 2026 the fsi authors
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions: The above copyright notice and this
permission notice shall be included in all copies or substantial portions of the Software. THE
SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT
LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT.
IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
------------------------------------------------------------------------------------------------
B: Public Domain (www.unlicense.org)
Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software, in source
or binary form, for any purpose, commercial or non-commercial, and by any means. The authors
dedicate any and all copyright interest in the software to the public domain. The software is
provided "as is", without warranty of any kind, as in licence A.
------------------------------------------------------------------------------------------------
*/
