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
           fsi_vec3 corner = FSI__ZERO;
           fsi_vec3 at_rest = FSI__ZERO;
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
   (density and divergence solves with a warm start); laminar, artificial and XSPH viscosity; walls
   and moving bodies made of boundary particles, forces and torques on them; emitters and boxes that
   remove particles.
   Solids: linear tetrahedra, three hyperelastic laws, explicit, with the exact critical step of
   every element. Queries on any surface: fsi_lookup.

   WHAT IT DOES NOT
   Surface tension, several fluids in one object, plasticity, contact between solids.

   CONFIGURATION (define before the include)
   FSI_SINGLE (every includer): float. FSI_IMPLEMENTATION (one file): code here. FSI_NO_OPENMP
   (implementation): no threads.

   UNITS AND CONVENTIONS
   SI. 2D: z = 0 and everything is per metre of depth. The support radius R of a kernel is where it
   ends; h = R / 2 in the formulas.

   GLOSSARY
   door               what a solid hands to a coupling scheme: the struct fsi_coupled
   boundary particle  a sample of a wall or of the skin of a solid; it has a volume but no motion of
                      its own
   object             boundary particles that move together; two-way: the force on it is wanted
   support            radius of the kernel: particles further apart do not feel one another
   skin               by how much neighbour lists reach beyond the support, so that they last
   rest               the state of spacing, density and shape in which nothing pushes
   stiffness          k = p / rho^2, what the pressure force between two particles is made of
   look-up            a table of the elements of a surface around every cell of space
   room               space that is left: items a list or an array can take

   USAGE
   fsi_sph_prepare     removal, emission, sorting by cells, neighbour lists, wall volumes,
                       densities   (here the particle order changes)
   fsi_sph_accelerate  pressure and all forces: v becomes v*, forces on two-way objects
                       (a coupling changes v after this)
   fsi_sph_move        x += dt v
   fsi_tled_accelerate and fsi_tled_move likewise. Particle order changes by sorting: follow a
   particle by id[].
   For partitioned coupling: save, set objects, prepare, accelerate, read bf or object.force,
   restore. A repeated step gives the same bits.

   NUMERICAL NOTES
   Steps: fsi_sph_max_dt and fsi_tled_max_dt. WCSPH with c = 10 times the top speed compresses by
   about 1 %.
   Support: 2 spacings is fastest (about 30 neighbours in 3D); hydrostatic pressures are then
   within 1 % on average and 1.5 % in the bottom layer (H-08, docs/sph.md). Wider supports smooth
   more and cost more. The first half spacing below a free surface carries no pressure.
   DFSPH: a mean density error e lets an acceleration of e * depth / dt^2 go unnoticed: short steps
   need a smaller density_error, or a column at rest breathes. Iterations: projected Jacobi with
   momentum; a tall column at rest needs tens, a dam break about ten.
   Nearly inviscid 2D columns of DFSPH are restless: give them some artificial viscosity (0.05 to
   0.1; more keeps them moving, docs/sph.md).
   Walls: boundary particles lie half a spacing outside; the wall guard keeps lone fast particles
   from slipping through a single layer.
   TLED: below min_volume the energy continues quadratically, so inverted elements push back
   instead of failing; such steps return FSI_CAPPED. St. Venant-Kirchhoff has no barrier against
   inversion. Close to nu = 0.5 use FSI_TLED_NEARLY with average_pressure.

   MEMORY
   One block per object, made by init. Particles: about 800 bytes each in float, mostly neighbour
   lists (desc.neighbors). Nothing is allocated in steps. Lists that are too short drop neighbours,
   count them (stats.truncated) and the step returns FSI_CAPPED.

   ERRORS
   Negative results change nothing. Positive ones are warnings: the call is done. Positions or
   velocities that are not finite: FSI_ERR_NUMERIC.

   THREADS AND DETERMINISM
   OpenMP inside each call; every particle and node gathers its own sum in a fixed order: same bits
   for any number of threads.

   REFERENCES
   Yang et al. 2012 (paper 004: SPH fluids and TLED solids, coupled by proxies); Monaghan 1992,
   2005; Mueller et al. 2003; Becker and Teschner 2007; Akinci et al. 2012 (boundaries); Adami, Hu
   and Adams 2012 (pressure in walls); Bender and Koschier 2017 (DFSPH); Antuono et al. 2010
   (delta-SPH); Miller et al. 2007 (TLED); Bonet and Burton 1998 (nodal pressure); Zhu and Bridson
   2005 (surface).

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
    FSI_KERNEL_WENDLAND = 1, /* Wendland C2: particles do not pair up */
    /* In fsi_sph_desc: the trio of paper 004 (poly6 for densities, spiky for pressures, the
       viscosity kernel's Laplacian for friction). */
    FSI_KERNEL_POLY6 = 2,
    FSI_KERNEL_SPIKY = 3,    /* for the functions below only */
    FSI_KERNEL_VISCOSITY = 4 /* for the functions below only */
} fsi_kernel;

/* W(r), 1/m^dim; dim 2 or 3, R > 0. 0 for bad arguments. The viscosity kernel is infinite at
   r = 0. */
FSI_API fsi_real fsi_kernel_value(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* dW/dr, 1/m^(dim+1): never positive inside. */
FSI_API fsi_real fsi_kernel_slope(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* Laplacian of W, 1/m^(dim+2); for the viscosity kernel the positive, linear one it was made
   for. */
FSI_API fsi_real fsi_kernel_laplacian(fsi_kernel kernel, int dim, fsi_real R, fsi_real r);
/* Tait: p = rho0 c^2 / gamma ((rho / rho0)^gamma - 1), Pa, negative below rest
   density; arguments are not checked. */
FSI_API fsi_real fsi_sph_tait(fsi_real density, fsi_real rest_density, fsi_real sound_speed,
                              fsi_real gamma);

/* ------------------------------------------------------------------------------------------------
 * >>sph */
typedef enum fsi_sph_solver {
    FSI_SPH_WCSPH = 0, /* weakly compressible: pressure from density, short steps */
    FSI_SPH_DFSPH = 1  /* divergence-free: pressure by iteration, long steps */
} fsi_sph_solver;

#define FSI_SPH_OBJECTS 64  /* most boundary objects of one fluid */
#define FSI_SPH_EMITTERS 16 /* most emitters, and most removal boxes */

/* What a fluid is made of. The caller fills it; fsi_sph_init copies it. */
typedef struct fsi_sph_desc {
    int dim;      /* 2 or 3; 0 = 3. In 2D z and vz are 0 and masses are per metre of depth */
    int capacity; /* most fluid particles, >= 1 (required) */
    int boundary_capacity; /* most boundary particles, >= 0; 0 = none */
    fsi_sph_solver solver; /* 0 = WCSPH */
    fsi_kernel kernel;     /* FSI_KERNEL_CUBIC (0), _WENDLAND or _POLY6 (= the trio of paper 004) */
    fsi_real spacing;      /* rest distance of particles, m, > 0 (required) */
    fsi_real support;      /* kernel support radius R, m, 1 .. 6 spacings; 0 = 2 * spacing */
    fsi_real density;      /* rest density, kg/m^3, > 0 (required) */
    /* c, m/s, >= 0. WCSPH needs it (about 10 times the top speed); DFSPH uses it in the artificial
       viscosity only. */
    fsi_real sound_speed;
    fsi_real gamma;     /* exponent of Tait, 1 .. 7; 0 = 7 */
    fsi_real viscosity; /* laminar, dynamic mu, Pa s, >= 0; 0 = none */
    /* Monaghan's alpha, >= 0; 0 = none (0.01 .. 0.1 usual). It acts only with a sound_speed, also
       in DFSPH. */
    fsi_real artificial;
    fsi_real xsph; /* XSPH smoothing of velocities, 0 .. 1; 0 = none */
    /* laminar mu between fluid and boundary particles, Pa s, >= 0; 0 = the fluid slips */
    fsi_real wall_viscosity;
    /* delta-SPH, WCSPH only: > 0 integrates the density with this much diffusion (0.1 usual); 0 =
       the density is summed anew in every step */
    fsi_real delta;
    /* 1: negative pressures (WCSPH) and both signs in the divergence solve (DFSPH) are kept; 0 =
       they are cut off at 0 */
    int tension;
    fsi_vec3 gravity; /* m/s^2; 0 = none */
    /* m, 0 .. support. Verlet lists: neighbours within support + skin are kept until something
       moved by skin / 2; 0 = new lists in each step */
    fsi_real skin;
    /* list entries per particle on average, >= 0; 0 = about twice a full neighbourhood. One
       particle may take 8 times that. */
    int neighbors;
    fsi_real density_error;    /* DFSPH: mean compression to reach, relative, >= 0; 0 = 1e-4 */
    fsi_real divergence_error; /* DFSPH: mean |D rho / D t| dt / rho0 to reach, >= 0; 0 = 1e-3 */
    int max_iterations;        /* DFSPH: cap of each solve, >= 0; 0 = 100 */
    int cold_start;            /* DFSPH: 1 = do not begin with the pressures of the last step */
    fsi_real cfl;              /* Courant factor of fsi_sph_max_dt, >= 0; 0 = 0.4 */
    fsi_real dt_max;           /* longest step fsi_sph_max_dt may give, s, >= 0; 0 = no limit */
    fsi_allocator allocator;   /* the caller's; zero = malloc */
} fsi_sph_desc;

/* Boundary particles that move together: a wall, or the skin of a solid. Written by the fluid;
   two_way may be changed between steps. */
typedef struct fsi_sph_object {
    int first, count; /* its boundary particles: bx[3 * first] ..., count of them, >= 0 */
    int two_way;      /* 1: force, torque and bf are computed in every step; 0 = they stay 0 */
    int contact;      /* particles that felt the fluid in the last step (two-way objects) */
    fsi_vec3 centre;  /* point the torque is about, m; moved by fsi_sph_object_pose */
    /* of the fluid on the object in the last step, N and N m (per metre in 2D) */
    fsi_vec3 force, torque;
} fsi_sph_object;

/* Blows a layer of particles through a disk (3D) or segment (2D) every spacing / speed seconds,
   where no other particle is in the way. The caller fills it; fsi_sph_add_emitter copies it. */
typedef struct fsi_sph_emitter {
    fsi_vec3 centre;    /* m */
    fsi_vec3 direction; /* any length > 0 */
    fsi_real radius;    /* of the disk, half length of the segment, m, > 0 */
    fsi_real speed;     /* m/s, > 0 */
    fsi_real from;      /* first layer at this time, s; 0 = at once */
    fsi_real until;     /* no layer after this time, s; 0 = for ever */
    double due;         /* private: time of the next layer, s */
} fsi_sph_emitter;

/* Fluid particles inside the box vanish at the start of the next step. */
typedef struct fsi_sph_box {
    fsi_vec3 lo, hi; /* corners, m; z does not count in 2D */
    int outside;     /* 1: the particles outside vanish instead */
} fsi_sph_box;

/* The scalars of the dynamic state; saved and restored together with the arrays. Owned by the
   fluid: read them. */
typedef struct fsi_sph_scalars {
    int count;          /* fluid particles, 0 .. capacity */
    int boundary_count; /* boundary particles, 0 .. boundary_capacity */
    int objects;        /* used of object[] */
    int emitters;       /* used of emitter[] */
    int boxes;          /* used of box[] */
    int list_valid;     /* private: the Verlet lists may be used again */
    int boundary_dirty; /* 1: boundary particles were moved or added since the last prepare */
    int32_t next_id;    /* id of the next particle */
    int64_t emitted;    /* particles so far by emitters */
    int64_t removed;    /* particles so far taken by removal boxes */
    int64_t lost;       /* particles so far that left for infinity */
    double time;        /* s */
    fsi_real dt_old;    /* last step, s: leap-frog kicks by (dt_old + dt) / 2; 0 = none yet */
    fsi_real max_acceleration; /* of the last accelerate, m/s^2 (DFSPH: without pressure) */
    fsi_real mean_pressure;    /* of the last accelerate, Pa (DFSPH) */
    fsi_sph_object object[FSI_SPH_OBJECTS];
    fsi_sph_emitter emitter[FSI_SPH_EMITTERS];
    fsi_sph_box box[FSI_SPH_EMITTERS];
} fsi_sph_scalars;

/* What the last step did, beyond fsi_report. */
typedef struct fsi_sph_stats {
    int density_iterations, divergence_iterations; /* DFSPH; 0 = the start was good enough */
    fsi_real density_error;    /* DFSPH: mean compression left, relative; WCSPH: mean compression */
    fsi_real divergence_error; /* DFSPH: mean |D rho / D t| dt / rho0 left */
    fsi_real max_density;      /* largest rho / rho0 */
    fsi_real max_speed;        /* m/s, after the velocity update */
    int64_t pairs;             /* entries of the neighbour lists (each fluid pair twice) */
    int max_neighbors;         /* longest list */
    int truncated; /* particles whose list was cut for lack of room: the step returns FSI_CAPPED */
    int rebuilt;   /* 1: lists were made new in this step */
    int blocked;   /* layers of emitters that met the capacity in this step, wholly or in part */
} fsi_sph_stats;

/* private: counting-sorted cells on a torus: any positions, fixed memory */
typedef struct fsi__cells {
    int size[3];           /* table size in cells */
    int wrap[3];           /* 1: this axis is longer than the table and wraps round */
    int origin[3];         /* cell coordinate of table entry 0 */
    fsi_real inverse_edge; /* 1 / cell edge, 1/m */
    int fine;              /* cells are so many times shorter along x */
    int32_t *start;        /* [room + 1] first particle of each cell */
    int room;              /* most cells */
} fsi__cells;

/* A fluid of particles. Arrays are open: read them any time, change x and v between the stages of a
   step. The order of the fluid particles changes in fsi_sph_prepare (sorting by cells, removal,
   emission) and nowhere else; id[] stays with its particle. */
typedef struct fsi_sph {
    fsi_sph_desc desc;   /* as resolved: no zeros that mean default */
    fsi_sph_scalars now; /* counts, time, objects */
    fsi_sph_stats stats; /* of the last step */

    /* Dynamic state, one contiguous range. Fluid particles [capacity], used [now.count]. */
    fsi_real *x, *y, *z;    /* positions, m */
    fsi_real *vx, *vy, *vz; /* velocities, m/s (WCSPH: half a step behind the positions) */
    fsi_real *mass;         /* kg, > 0 */
    fsi_real *rho;          /* density, kg/m^3, of the last prepare; with delta > 0 integrated */
    fsi_real *kappa;        /* DFSPH warm start: dt^2 times the stiffness of the density solve */
    fsi_real *kappa_v;      /* DFSPH warm start: dt times the stiffness of the divergence solve */
    int32_t *id;            /* stable names, unique, in order of creation */
    fsi_real *listed_at;    /* private: positions of the last lists (only with skin > 0) */

    /* Boundary particles [boundary_capacity], used [now.boundary_count]. After a change by hand set
       now.boundary_dirty = 1 (fsi_sph_object_* do it). */
    fsi_real *bx;     /* [3 each] positions, m */
    fsi_real *bv;     /* [3 each] velocities, m/s */
    fsi_real *blocal; /* [3 each] positions as added, seen from the object's centre, m */
    int32_t *bobject; /* object of each */

    /* Results of the last stages, not saved. */
    fsi_real *p;             /* [capacity] pressure, Pa (DFSPH: of both solves together) */
    fsi_real *ax, *ay, *az;  /* [capacity] acceleration, m/s^2 (DFSPH: without pressure) */
    fsi_real *bvolume;       /* [boundary_capacity] volume of each, m^3 (Akinci et al. 2012) */
    fsi_real *bf;            /* [3 boundary_capacity] force of the fluid on each, N; two-way only */
    int32_t *list;           /* neighbours; fluid: its index; boundary: an index of border[] */
    int32_t *first, *middle; /* [capacity] fluid neighbours of i: list[first[i]] .. middle[i] - 1 */
    int32_t *last;   /* [capacity] its boundary neighbours: list[middle[i]] .. last[i] - 1 */
    int32_t *border; /* [boundary_capacity] boundary particles in the order of their cells */

    /* private */
    fsi_real *slope;     /* per list entry: m F = m W'(r) / r */
    fsi_real *packed_x;  /* x y z m of each particle, for the pair loops; fluid, then boundary */
    fsi_real *packed_v;  /* vx vy vz and one more number, in the same order */
    fsi_real *stiffness; /* [capacity] k = p / rho^2 */
    fsi_real *alpha;     /* [capacity] DFSPH: 1 / (D rho / D t per kappa), a Jacobi diagonal */
    fsi_real *previous;  /* [capacity] DFSPH: kappa of the iteration before */
    fsi_real *guard;     /* [capacity] sum of the weights of the wall guard; 0 = it did not act */
    fsi_real *work;      /* [capacity] scratch of a single function */
    fsi_real *sorted_bx, *sorted_by, *sorted_bz; /* boundary positions in the order of border[] */
    int32_t *key;                                /* cell of each particle while sorting */
    int32_t *order;                              /* sorted order; then 1 where a list was cut */
    fsi__cells cells, bcells;                    /* of the fluid, of the boundary */
    int ready;                                   /* 1 after prepare, 2 after accelerate */
    int list_room;                               /* list entries per chunk of particles */
    fsi_real excess;      /* DFSPH: compression undone in this step at most, kg/m^3 */
    fsi_real least_alpha; /* DFSPH: 1 / alpha of a full neighbourhood without its own gradient */
    fsi_real wall_scale;  /* calibrates boundary volumes: a flat wall completes the density */
    void *block;          /* the one allocation; it begins with the state */
    size_t block_size;
} fsi_sph;

/* Checks the desc and makes the one allocation. FSI_ERR_ARGUMENT, FSI_ERR_SIZE, FSI_ERR_MEMORY. */
FSI_API fsi_result fsi_sph_init(fsi_sph *sph, const fsi_sph_desc *desc);
/* Frees; safe on a zeroed struct and twice. */
FSI_API void fsi_sph_free(fsi_sph *sph);
/* Adds n particles. x [3n] positions; v [3n] velocities or NULL = at rest; mass [n] kg or NULL =
   density * spacing^dim. All or nothing: FSI_ERR_ARGUMENT (not finite, mass <= 0), FSI_ERR_SIZE
   (capacity). Between steps only. */
FSI_API fsi_result fsi_sph_add(fsi_sph *sph, int n, const fsi_real *x, const fsi_real *v,
                               const fsi_real *mass);
/* Adds particles on the lattice lo + spacing * (i + 1/2) inside the box, all with velocity v. count
   (may be NULL) gets how many. */
FSI_API fsi_result fsi_sph_add_block(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, fsi_vec3 v,
                                     int *count);
/* Adds a boundary object of n particles at world positions x [3n], at rest. centre is where its
   local frame begins. object (may be NULL) gets its number. */
FSI_API fsi_result fsi_sph_add_boundary(fsi_sph *sph, int n, const fsi_real *x, fsi_vec3 centre,
                                        int two_way, int *object);
/* Adds walls of boundary particles around the box of fluid [lo, hi], the first layer half a spacing
   outside its faces: a fluid lattice of add_block fits exactly. One layer for support = 2 spacing,
   more for more. open: bit 0..5 leaves side -x +x -y +y -z +z away. */
FSI_API fsi_result fsi_sph_add_box_walls(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, unsigned open,
                                         int *object);
/* Adds a flat patch of boundary particles corner + a u + b v, a, b in [0, 1] (2D: along u only),
   half a spacing behind it, seen from the fluid on the side of the normal (any length > 0). */
FSI_API fsi_result fsi_sph_add_plane(fsi_sph *sph, fsi_vec3 corner, fsi_vec3 u, fsi_vec3 v,
                                     fsi_vec3 normal, int *object);
/* Samples a surface with points about spacing apart (none closer than 0.7 spacing) and adds them as
   a boundary object. */
FSI_API fsi_result fsi_sph_add_surface(fsi_sph *sph, const fsi_surface *surface, fsi_vec3 centre,
                                       int two_way, int *object);
/* The sampling alone: out [3 * room] gets points, count how many there are (also when room is too
   small: FSI_ERR_SIZE; out NULL = count). */
FSI_API fsi_result fsi_sph_sample_surface(const fsi_surface *surface, fsi_real spacing,
                                          fsi_real *out, int room, int *count,
                                          const fsi_allocator *allocator);
/* Rigid motion of an object: its particles go to centre + R(q) blocal, with velocity v + spin x
   (their distance from the centre). */
FSI_API fsi_result fsi_sph_object_pose(fsi_sph *sph, int object, fsi_vec3 centre, fsi_quat q,
                                       fsi_vec3 v, fsi_vec3 spin);
/* Any motion: new positions x [3 count] and velocities v [3 count] (NULL = at rest) of an object's
   particles, in the order of adding. */
FSI_API fsi_result fsi_sph_object_set(fsi_sph *sph, int object, const fsi_real *x,
                                      const fsi_real *v);
/* Adds an emitter or a removal box; FSI_ERR_SIZE when there are FSI_SPH_EMITTERS already, or when a
   layer of the emitter could never fit. */
FSI_API fsi_result fsi_sph_add_emitter(fsi_sph *sph, const fsi_sph_emitter *emitter);
FSI_API fsi_result fsi_sph_add_removal(fsi_sph *sph, const fsi_sph_box *box);

/* One step = prepare, accelerate, move; a coupling sits between the stages (after accelerate v is
   v*, and move uses what is then in v). */
FSI_API fsi_result fsi_sph_step(fsi_sph *sph, fsi_real dt, fsi_report *report);
/* Stage 1: removal, emission, sorting, neighbour lists, boundary volumes, densities. dt > 0 is the
   coming step. FSI_ERR_NUMERIC when a position or velocity is not finite: nothing was changed. */
FSI_API fsi_result fsi_sph_prepare(fsi_sph *sph, fsi_real dt);
/* Stage 2: forces and pressure; changes velocities, not positions. Then forces on two-way objects.
   Last the wall guard: particles closer than 0.8 spacing to boundary particles lose their velocity
   towards them (counted in the forces). report may be NULL. */
FSI_API fsi_result fsi_sph_accelerate(fsi_sph *sph, fsi_real dt, fsi_report *report);
/* Stage 3: x += dt v, time += dt. */
FSI_API fsi_result fsi_sph_move(fsi_sph *sph, fsi_real dt);
/* Steps of at most max_dt until duration is over (the last ones evened out). steps (may be NULL)
   gets how many; at most max_steps (0 = no cap). */
FSI_API fsi_result fsi_sph_advance(fsi_sph *sph, fsi_real duration, int max_steps, int *steps,
                                   fsi_report *report);
/* Longest advisable step, s: the smallest of
     WCSPH   cfl * h / (c + speed), h = support / 2
     DFSPH   cfl * spacing / speed, where the speed is at least sqrt(g * spacing) and
             sqrt(2 mean pressure / density): beyond that the lattice of a compressed column
             buckles from step to step
     both    0.125 h^2 rho / mu, 0.5 h / (alpha c), 0.25 sqrt(h / |acceleration|) */
FSI_API fsi_real fsi_sph_max_dt(const fsi_sph *sph);

/* Bytes that fsi_sph_save writes; the same for one object during its life. */
FSI_API size_t fsi_sph_state_size(const fsi_sph *sph);
/* Copies the whole dynamic state out (between steps or between stages; after restore the next stage
   is prepare). */
FSI_API fsi_result fsi_sph_save(const fsi_sph *sph, void *block);
/* Copies it back; a restored run gives identical bits. The block, of size bytes, may come from
   anywhere: FSI_ERR_SIZE or FSI_ERR_DATA where it is not a state of this object or one with an
   equal desc; nothing changes then. */
FSI_API fsi_result fsi_sph_restore(fsi_sph *sph, const void *block, size_t size);
/* What restore would say, without restoring. */
FSI_API fsi_result fsi_sph_check(const fsi_sph *sph, const void *block, size_t size);

/* Sums over fluid particles: mass kg, momentum N s, angular momentum about the origin N m s,
   kinetic energy J; any pointer may be NULL. */
FSI_API void fsi_sph_totals(const fsi_sph *sph, double *mass, double momentum[3],
                            double angular_momentum[3], double *kinetic);
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
   the cells stand in a list of their own. Against the tree of the base (fsi_bvh): for many points
   that come close to a surface that moves, two to four times as fast (bench/bench_lookup.c: 38,000
   points, 9,800 triangles, docs/sph.md); the tree is for far queries and long rays. Queries are
   read-only: any number of threads may ask at once; answers do not depend on the cells (as long as
   distances have squares: from 1e-154 m, single 1e-19 m, see fsi_closest_on_triangle). */
typedef struct fsi_lookup {
    fsi_surface surface; /* of the last build; its arrays are the caller's, read by the queries */
    int capacity;        /* most elements */
    fsi_real reach;      /* of the last build, m */
    /* private */
    fsi_real lo[3], hi[3]; /* bounds of the surface */
    fsi_real *box;         /* [6 * capacity] bounds of each element, slightly enlarged */
    /* [capacity] 0, 1, 2 ...; then `large` large elements; then those of the cells */
    int32_t *item;
    int large;
    fsi__cells cells;
    fsi_allocator allocator;
    void *block;
    size_t size; /* the one allocation */
} fsi_lookup;

/* Room for capacity >= 1 elements in one block (about 200 bytes each in float). allocator may be
   NULL (malloc). */
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
/* First crossing of p -> q (smallest t, ties: lowest index; fsi_surface_cross). 1 and *hit, or
   0. Looks at all cells of the segment's box: for ways of a few cells. */
FSI_API int fsi_lookup_first_hit(const fsi_lookup *lookup, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit);
/* All elements within radius of p, nearest first (ties: lowest index); writes at most room of them
   and returns how many there are. */
FSI_API int fsi_lookup_sphere(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius, fsi_hit *hits,
                              int room);

/* ------------------------------------------------------------------------------------------------
 * >>tled */
/* Total-Lagrangian explicit dynamics on linear tetrahedra (paper 004, section 3.3). With the
   deformation gradient F, J = det F and I1 = |F|^2, P = dpsi/dF and a node feels -V0 P grad N. */
typedef enum fsi_tled_material {
    FSI_TLED_NEOHOOKEAN = 0, /* psi = mu/2 (I1 - 3) - mu ln J + lambda/2 ln^2 J */
    FSI_TLED_STVK = 1,       /* psi = mu |E|^2 + lambda/2 (tr E)^2,  E = (F^T F - 1) / 2 */
    /* psi = mu/2 (J^(-2/3) I1 - 3) + K/2 (J - 1)^2: nearly incompressible, bulk modulus K */
    FSI_TLED_NEARLY = 2
} fsi_tled_material;

/* What a solid is made of. The caller fills it; fsi_tled_init copies it and its arrays. */
typedef struct fsi_tled_desc {
    int nodes, tets;            /* >= 4, >= 1 (required) */
    const fsi_real *x;          /* [3 nodes] rest positions, m (required) */
    const int32_t *tet;         /* [4 tets] nodes, either orientation (required) */
    fsi_real density;           /* kg/m^3, > 0 (required) */
    fsi_real young;             /* Pa, > 0 (required) */
    fsi_real poisson;           /* [0, 0.49999] */
    fsi_tled_material material; /* 0 = neo-Hookean */
    /* 1: pressure from nodal volumes (against locking close to nu = 0.5); not with FSI_TLED_STVK */
    int average_pressure;
    fsi_real damping; /* mass-proportional, 1/s, >= 0: force -damping * m * v; 0 = none */
    fsi_vec3 gravity; /* m/s^2; 0 = none */
    /* inversion guard: below this J the energy continues quadratically; (0, 1), 0 = 0.1 */
    fsi_real min_volume;
    fsi_real safety;         /* of max_dt: fraction of the rest-state limit; (0, 1], 0 = 0.8 */
    fsi_allocator allocator; /* the caller's; zero = malloc */
} fsi_tled_desc;

/* A solid of tetrahedra. All arrays are its own. */
typedef struct fsi_tled {
    fsi_tled_desc desc; /* as resolved; desc.x and desc.tet point to the own copies */
    int nodes, tets;

    /* Dynamic state, one contiguous range; may be changed between steps. */
    fsi_real *x;            /* [3 nodes] positions, m */
    fsi_real *v;            /* [3 nodes] velocities, m/s, half a step behind the positions */
    fsi_real *drive;        /* [3 nodes] velocity of fixed nodes, m/s; 0 = held */
    fsi_real *fext;         /* [3 nodes] external forces, N: kept from step to step until changed */
    fsi_real *inverse_mass; /* [nodes] 1/kg; 0 = fixed */
    double *clock;          /* [2] time and last dt, s */

    /* Constant. */
    fsi_real *x0;     /* [3 nodes] rest positions, m */
    int32_t *tet;     /* [4 tets] positively oriented */
    fsi_real *mass;   /* [nodes] kg */
    fsi_real *volume; /* [tets] rest volumes, m^3 */
    /* [tets] critical step 2 / omega_max of each element alone, s (exact eigenvalue; it bounds the
       mesh, S-10) */
    fsi_real *dt_element;
    fsi_real dt_critical; /* smallest of them, s */
    int worst;            /* the element it comes from */
    int triangles;        /* of the surface: faces that belong to one tetrahedron */
    int32_t *triangle;    /* [3 triangles] nodes, counter-clockwise seen from outside */
    int32_t *identity;    /* [nodes] 0, 1, 2 ... (fsi_coupled.node) */
    fsi_real *impulse;    /* [3 nodes] room for the impulse of a coupling scheme, N s */

    /* Results of the last accelerate. */
    fsi_real *force; /* [3 nodes] internal forces, N */
    int inverted;    /* elements below min_volume */
    fsi_real min_j;  /* smallest J */

    /* private */
    fsi_real *grad;   /* per block of 8 elements: 9 gradient components and the volume */
    fsi_real *corner; /* [12 per element] forces on its corners, in blocks of 8 elements */
    int32_t *corner_start, *corner_at; /* of each node: where its corners are in corner[] */
    fsi_real *node_pressure;           /* [nodes] averaged pressure, Pa */
    fsi_real *node_volume;             /* [nodes] rest volume, m^3 */
    fsi_real *block_j;                 /* smallest J of each block of 8 elements */
    int32_t *block_inverted;           /* elements below min_volume in each block */
    fsi_real mu, lambda, bulk;         /* Lame constants and bulk modulus, Pa */
    int ready;                         /* 1 after accelerate */
    void *block;                       /* the one allocation; the state begins in it */
    size_t block_size;
} fsi_tled;

/* Checks everything (indices, finite, no tetrahedron of zero volume: FSI_ERR_GEOMETRY), computes
   what depends on the rest state alone, one allocation. */
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
   inverse_mass). */
FSI_API fsi_result fsi_tled_accelerate(fsi_tled *tled, fsi_real dt);
/* Stage 2: x += dt v. */
FSI_API fsi_result fsi_tled_move(fsi_tled *tled, fsi_real dt);
/* safety * dt_critical, s: of the rest state. Elements close to or beyond inversion are stiffer
   (FSI_CAPPED) and need a fifteenth of it or less. */
FSI_API fsi_real fsi_tled_max_dt(const fsi_tled *tled);
/* Internal forces at the current positions into tled->force (no step). */
FSI_API fsi_result fsi_tled_forces(fsi_tled *tled);
/* Energies, J, of the current positions and velocities; momentum, N s, and angular momentum about
   the origin, N m s; any pointer may be NULL. */
FSI_API void fsi_tled_totals(const fsi_tled *tled, double *elastic, double *kinetic,
                             double momentum[3], double angular_momentum[3]);
/* Deformation gradient of an element now. */
FSI_API fsi_mat3 fsi_tled_gradient(const fsi_tled *tled, int tet);
/* What the fluid sees: a closed surface on all nodes with velocities; points into tled. */
FSI_API fsi_surface fsi_tled_surface(const fsi_tled *tled);
/* The door for coupling schemes (nodal kind); points into tled. A scheme changes tled->v through
   it, so there is nothing to take back. */
FSI_API fsi_result fsi_tled_couple(fsi_tled *tled, fsi_coupled *out);
/* State in one block: positions, velocities, drives, external forces, fixed nodes, clock. */
FSI_API size_t fsi_tled_state_size(const fsi_tled *tled);
FSI_API fsi_result fsi_tled_save(const fsi_tled *tled, void *block);
FSI_API fsi_result fsi_tled_restore(fsi_tled *tled, const void *block, size_t size);

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
/* Symbols
     R      support radius, m             r      distance of two particles, m
     q      r / R                         x_ij   x_i - x_j
     W(r)   kernel = sigma w(q)           sigma  makes the integral of W one
     F(r)   W'(r) / r, so that grad W = F x_ij
   with ( )+ for the positive part:
     cubic      w = 2 (1-q)+^3 - 8 (1/2-q)+^3       wendland  w = (1-q)^4 (4 q + 1)
     poly6      w = (1-q^2)^3                       spiky     w = (1-q)^3
     viscosity  w = -q^3/2 + q^2 + 1/(2q) - 1 */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8
/* gcc -O3 unrolls short loops before it could vectorise them */
#define FSI__SPH_LANES _Pragma("GCC unroll 1")
#else
#define FSI__SPH_LANES
#endif

/* The factor that makes the integral of W one. */
static fsi_real fsi__kernel_sigma(fsi_kernel kernel, int dim, fsi_real R) {
    static const double flat[5] = {40.0 / 7, 7, 4, 10, 10.0 / 3};
    static const double solid[5] = {8, 10.5, 315.0 / 64, 15, 7.5};
    const double pi = 3.14159265358979323846;
    double r = (double)R;
    if (dim == 2)
        return (fsi_real)(flat[kernel] / (pi * r * r));

    return (fsi_real)(solid[kernel] / (pi * r * r * r));
}

/* max(x, 0) without a branch, exact. */
FSI__FORCE_INLINE fsi_real fsi__positive_part(fsi_real x) {
    return FSI_R(0.5) * (x + fsi__abs(x));
}

/* w(q), q >= 0; 0 from 1 on. */
FSI__FORCE_INLINE fsi_real fsi__kernel_w(fsi_kernel kernel, fsi_real q) {
    fsi_real outer = fsi__positive_part(1 - q);
    fsi_real inner = fsi__positive_part(FSI_R(0.5) - q);
    switch (kernel) {
    case FSI_KERNEL_CUBIC:
        return 2 * outer * outer * outer - 8 * inner * inner * inner;
    case FSI_KERNEL_WENDLAND:
        return outer * outer * outer * outer * (4 * q + 1);
    case FSI_KERNEL_POLY6:
        outer *= 1 + q;
        return outer * outer * outer;
    case FSI_KERNEL_SPIKY:
        return outer * outer * outer;
    case FSI_KERNEL_VISCOSITY:
        return -q * q * q / 2 + q * q + 1 / (2 * q) - 1;
    }

    return 0;
}

/* w'(q) / q, q > 0. The pair loops know 1 / q already, so they hand it in. */
FSI__FORCE_INLINE fsi_real fsi__kernel_f(fsi_kernel kernel, fsi_real q, fsi_real inverse_q) {
    fsi_real outer = fsi__positive_part(1 - q);
    fsi_real inner = fsi__positive_part(FSI_R(0.5) - q);
    switch (kernel) {
    case FSI_KERNEL_CUBIC:
        return (24 * inner * inner - 6 * outer * outer) * inverse_q;
    case FSI_KERNEL_WENDLAND:
        return -20 * outer * outer * outer;
    case FSI_KERNEL_POLY6:
        outer *= 1 + q;
        return -6 * outer * outer;
    case FSI_KERNEL_SPIKY:
        return -3 * outer * outer * inverse_q;
    case FSI_KERNEL_VISCOSITY:
        return (-3 * q * q / 2 + 2 * q - inverse_q * inverse_q / 2) * inverse_q;
    }

    return 0;
}

/* w''(q), 0 <= q < 1; not for the viscosity kernel. */
static fsi_real fsi__kernel_second(fsi_kernel kernel, fsi_real q) {
    fsi_real outer = 1 - q;
    switch (kernel) {
    case FSI_KERNEL_CUBIC:
        return 12 * outer - 48 * fsi__max(FSI_R(0.5) - q, 0);
    case FSI_KERNEL_WENDLAND:
        return 60 * q * outer * outer - 20 * outer * outer * outer;
    case FSI_KERNEL_POLY6:
        return (1 - q * q) * (30 * q * q - 6);
    default:
        return 6 * outer;
    }
}

static int fsi__kernel_ok(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    int known = (int)kernel >= 0 && (int)kernel <= 4;
    int inside = R > 0 && r >= 0 && r < R;
    return known && inside && (dim == 2 || dim == 3);
}

FSI_API fsi_real fsi_kernel_value(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    if (!fsi__kernel_ok(kernel, dim, R, r))
        return 0;
    return fsi__kernel_sigma(kernel, dim, R) * fsi__kernel_w(kernel, r / R);
}

FSI_API fsi_real fsi_kernel_slope(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    if (!fsi__kernel_ok(kernel, dim, R, r))
        return 0;
    fsi_real sigma = fsi__kernel_sigma(kernel, dim, R);
    if (r == 0)
        return kernel == FSI_KERNEL_SPIKY ? -3 * sigma / R : 0;
    fsi_real q = r / R;

    return sigma / R * q * fsi__kernel_f(kernel, q, 1 / q);
}

FSI_API fsi_real fsi_kernel_laplacian(fsi_kernel kernel, int dim, fsi_real R, fsi_real r) {
    if (!fsi__kernel_ok(kernel, dim, R, r))
        return 0;
    fsi_real q = r / R;
    fsi_real scale = fsi__kernel_sigma(kernel, dim, R) / (R * R);

    /* The viscosity kernel's is linear; scaled so that the integral of r^2 times it is 2 dim. */
    if (kernel == FSI_KERNEL_VISCOSITY)
        return (dim == 3 ? 6 * scale : 40 / FSI_PI / (R * R * R * R)) * (1 - q);

    /* The others: w'' + (dim - 1) w' / q. The limit of the quotient at 0 is taken just beside. */
    fsi_real second = fsi__kernel_second(kernel, q);
    q = fsi__max(q, FSI_R(1e-6));

    return scale * (second + (fsi_real)(dim - 1) * fsi__kernel_f(kernel, q, 1 / q));
}

FSI_API fsi_real fsi_sph_tait(fsi_real density, fsi_real rest_density, fsi_real sound_speed,
                              fsi_real gamma) {
    fsi_real ratio = density / rest_density;
    fsi_real scale = rest_density * sound_speed * sound_speed / gamma;
    if (gamma != 7)
        return scale * (fsi__pow(ratio, gamma) - 1);
    fsi_real cube = ratio * ratio * ratio;
    return scale * (cube * cube * ratio - 1);
}

/* ------------------------------------------------------------------------------------------------
 * >>cells */
/* Space is cut into cells; particles (or elements of a surface) are sorted by cell, so that what
   lies in one cell, and in neighbouring cells along x, is one range of the sorted order. The table
   has a fixed number of cells: an axis that is too long for it wraps round like a torus. Particles
   that are far apart then share a cell, and the distance test tells them apart.

       cells of a row along x are consecutive entries:
         start[row + 0]  start[row + 1]  ...         entry = x + size_x (y + size_y z)
       +--------+--------+--------+--------+
       | . .    |   .    |        | .  . . |         particles start[e] .. start[e + 1] - 1
       +--------+--------+--------+--------+ */
/* particles further than so many cells from the origin are lost */
#define FSI__CELLS_END FSI_R(1e8)
#define FSI__SPH_FINE 4 /* fluid cells along x per support radius */

/* floor(t), for anything farther than the end the end. */
FSI__INLINE int fsi__cell_floor(fsi_real t) {
    int whole = (int)fsi__max(fsi__min(t, FSI__CELLS_END), -FSI__CELLS_END);
    return whole - (t < (fsi_real)whole);
}

/* Sizes the table for cells lo .. hi with one empty cell around them. An axis that does not fit
   wraps. */
static void fsi__cells_fit(fsi__cells *cells, const int lo[3], const int hi[3], int dim) {
    int *size = cells->size;

    for (int d = 0; d < 3; d++) {
        int flat = d == 2 && dim == 2;
        cells->origin[d] = flat ? 0 : lo[d] - 1;
        size[d] = flat ? 1 : hi[d] - lo[d] + 3;
        cells->wrap[d] = 0;
    }

    while ((double)size[0] * (double)size[1] * (double)size[2] > (double)cells->room) {
        int longest = size[0] >= size[1] ? 0 : 1;
        if (size[2] > size[longest])
            longest = 2;

        /* The next power of two below. There is room for 4096 cells, so it is 8 at least. */
        int power = 1;
        while (2 * power < size[longest])
            power *= 2;
        size[longest] = power;
        cells->wrap[longest] = 1;
    }
}

/* How many cells the table has. */
static int fsi__cells_count(const fsi__cells *cells) {
    return cells->size[0] * cells->size[1] * cells->size[2];
}

/* The cell of a point. */
FSI__INLINE void fsi__cell_of(const fsi__cells *cells, fsi_vec3 point, int at[3]) {
    at[0] = fsi__cell_floor(point.x * ((fsi_real)cells->fine * cells->inverse_edge));
    at[1] = fsi__cell_floor(point.y * cells->inverse_edge);
    at[2] = fsi__cell_floor(point.z * cells->inverse_edge);
}

/* Table coordinate of a cell coordinate along axis d, or -1 when it is outside. */
FSI__INLINE int fsi__cell_wrapped(const fsi__cells *cells, int d, int at) {
    int place = at - cells->origin[d];
    if (cells->wrap[d])
        return place & (cells->size[d] - 1);
    return place < 0 || place >= cells->size[d] ? -1 : place;
}

/* Table entry where the row of cells along x through (y, z) begins, or -1 when it is outside. 2D
   has one layer for every z. */
FSI__INLINE int fsi__cell_row(const fsi__cells *cells, int y, int z) {
    int row = fsi__cell_wrapped(cells, 1, y);
    int layer = cells->size[2] > 1 ? fsi__cell_wrapped(cells, 2, z) : 0;
    if (row < 0 || layer < 0)
        return -1;
    return cells->size[0] * (row + cells->size[1] * layer);
}

/* Counting sort, stable: order[k] becomes the thing at sorted place k. key[n] holds the bucket of
   each thing; start[buckets + 1] gets where each bucket begins. */
static void fsi__counting_sort(int n, const int32_t *key, int buckets, int32_t *start,
                               int32_t *order) {
    memset(start, 0, ((size_t)buckets + 1) * sizeof *start);

    for (int i = 0; i < n; i++)
        start[key[i]]++;

    int32_t sum = 0;

    for (int i = 0; i <= buckets; i++) {
        int32_t count = start[i];
        start[i] = sum;
        sum += count;
    }

    /* Filling moves each start to the end of its bucket: the start of the next one. */
    for (int i = 0; i < n; i++)
        order[start[key[i]]++] = i;

    for (int i = buckets; i > 0; i--)
        start[i] = start[i - 1];
    start[0] = 0;
}

/* Positions of n particles: x[stride * i], and y and z likewise. */
typedef struct fsi__points {
    const fsi_real *x, *y, *z;
    int n, stride;
} fsi__points;

/* Bounds of all points; 0 when there is none. */
static void fsi__points_bounds(const fsi__points *points, fsi_real lo[3], fsi_real hi[3]) {
    const fsi_real *axis[3] = {points->x, points->y, points->z};

    for (int d = 0; d < 3; d++) {
        fsi_real least = points->n ? axis[d][0] : 0;
        fsi_real most = least;
        for (int i = 0; i < points->n; i++) {
            fsi_real value = axis[d][points->stride * i];
            least = value < least ? value : least;
            most = value > most ? value : most;
        }
        lo[d] = least;
        hi[d] = most;
    }
}

/* Sizes the table for all points. */
static void fsi__cells_around(fsi__cells *cells, int dim, const fsi__points *points) {
    fsi_real lo[3], hi[3];
    int first[3], last[3];
    fsi__points_bounds(points, lo, hi);
    fsi__cell_of(cells, fsi_vec_load(lo), first);
    fsi__cell_of(cells, fsi_vec_load(hi), last);
    fsi__cells_fit(cells, first, last, dim);
}

/* Sorts points into cells: order[] gets the order by cells. key is scratch [n]. */
static void fsi__cells_fill(fsi__cells *cells, int dim, const fsi__points *points, int32_t *key,
                            int32_t *order) {
    fsi__cells_around(cells, dim, points);

    FSI__PARALLEL(points->n > 4096)
    for (ptrdiff_t i = 0; i < points->n; i++) {
        ptrdiff_t k = points->stride * i;
        int at[3];
        fsi__cell_of(cells, fsi_vec(points->x[k], points->y[k], points->z[k]), at);
        key[i] = fsi__cell_row(cells, at[1], at[2]) + fsi__cell_wrapped(cells, 0, at[0]);
    }
    fsi__counting_sort(points->n, key, fsi__cells_count(cells), cells->start, order);
}

/* Rows of cells along x around (at[1], at[2]): table entry of each row's first cell, and how far
   along y and z a point at fraction f of the middle cell is from the row, in cells: max(0, offset +
   sign f). Twelve places for at most nine rows: whole vectors. */
typedef struct fsi__rows {
    int32_t row[12];
    fsi_real y_offset[12], y_sign[12], z_offset[12], z_sign[12];
    int n;
} fsi__rows;

static void fsi__rows_around(const fsi__cells *cells, const int at[3], fsi__rows *rows) {
    /* Rows before, at and behind the point. The slack covers the rounding of y / edge - cell. */
    const fsi_real slack = FSI_R(1e-4) + 4 * FSI_REAL_EPS * (fsi_real)(abs(at[1]) + abs(at[2]));
    const fsi_real offset[3] = {-slack, 0, 1 - slack};
    const fsi_real sign[3] = {1, 0, -1};
    const int depth = cells->size[2] > 1;
    memset(rows, 0, sizeof *rows);

    for (int dz = -depth; dz <= depth; dz++)
        for (int dy = -1; dy <= 1; dy++) {
            int row = fsi__cell_row(cells, at[1] + dy, at[2] + dz);
            if (row < 0)
                continue;
            int k = rows->n++;
            rows->row[k] = row;
            rows->y_offset[k] = offset[dy + 1];
            rows->y_sign[k] = sign[dy + 1];
            rows->z_offset[k] = offset[dz + 1];
            rows->z_sign[k] = sign[dz + 1];
        }
}

/* Sorted particles begin .. end - 1. */
typedef struct fsi__range {
    int32_t begin, end;
} fsi__range;

/* Sorted particles of cells lo .. hi of one row: one range and, where the row wraps, two. Returns
   how many, none of them empty: a particle far from walls must not walk through nine empty rows of
   them. */
FSI__INLINE int fsi__row_ranges(const fsi__cells *cells, int row, int lo, int hi,
                                fsi__range *range) {
    const int32_t *start = cells->start + row;
    int size = cells->size[0];
    lo -= cells->origin[0];
    hi -= cells->origin[0];

    /* One piece: the row does not wrap, or lo .. hi is all of it. */
    if (!cells->wrap[0] || hi - lo >= size - 1) {
        if (lo < 0 || cells->wrap[0])
            lo = 0;
        if (hi > size - 1 || cells->wrap[0])
            hi = size - 1;
        if (lo > hi)
            return 0;
        range->begin = start[lo];
        range->end = start[hi + 1];
        return range->begin < range->end;
    }

    /* It wraps: from lo to the end of the row, and from its beginning to hi. */
    lo &= size - 1;
    hi &= size - 1;
    range->begin = start[lo];
    range->end = start[lo <= hi ? hi + 1 : size];
    int n = range->begin < range->end;
    if (lo <= hi)
        return n;
    range += n;
    range->begin = start[0];
    range->end = start[hi + 1];

    return n + (range->begin < range->end);
}

/* All sorted particles in the cells around a point, as at most 18 ranges. */
typedef struct fsi__ranges {
    fsi__range range[18];
    int n;
} fsi__ranges;

static void fsi__ranges_around(const fsi__cells *cells, fsi_vec3 point, fsi__ranges *ranges) {
    const int depth = cells->size[2] > 1;
    int at[3];
    fsi__cell_of(cells, point, at);
    const int from = at[0] - cells->fine;
    const int to = at[0] + cells->fine;
    ranges->n = 0;

    for (int dz = -depth; dz <= depth; dz++)
        for (int dy = -1; dy <= 1; dy++) {
            int row = fsi__cell_row(cells, at[1] + dy, at[2] + dz);
            if (row >= 0)
                ranges->n += fsi__row_ranges(cells, row, from, to, ranges->range + ranges->n);
        }
}

/* Candidates of a search, in octets, eight sorted particles each: at = the first, end = where its
   range ends. Octets of all ranges stand in one row, so that one loop tests them: a loop for each
   short range would end where the processor does not expect it. */
#define FSI__SPH_OCTETS 64

typedef struct fsi__sph_search {
    const fsi_real *x, *y, *z; /* sorted particles to search among */
    fsi_vec3 point;            /* neighbours of this point ... */
    fsi_real radius2;          /* ... closer than the root of this ... */
    int self;                  /* ... but not this particle (-1: none) */
    int32_t *out;              /* list to append to: n entries so far, at most room */
    int n, room;
    int full;   /* the room ended */
    int octets; /* waiting to be tested */
    int32_t at[FSI__SPH_OCTETS + 4], end[FSI__SPH_OCTETS + 4];
} fsi__sph_search;

/* Tests the octets and appends the hits in order, without a branch: four tests make a number 0 ..
   15 that looks up how many hits there are and which lanes they move up from. */
static void fsi__sph_search_test(fsi__sph_search *search) {
    static const int32_t lane[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int32_t bit[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    static const int32_t count[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
    static const int32_t from[16][4] = {
        {0},    {0},       {1},       {0, 1},       /* hits in lane -, 0, 1, 01 */
        {2},    {0, 2},    {1, 2},    {0, 1, 2},    /* the same and lane 2 */
        {3},    {0, 3},    {1, 3},    {0, 1, 3},    /* the same and lane 3 */
        {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}, /* the same and lanes 2, 3 */
    };
    const fsi_vec3 point = search->point;
    const fsi_real radius2 = search->radius2;
    int32_t *FSI__RESTRICT out = search->out;
    ptrdiff_t n = search->n;
    int octet;

    for (octet = 0; octet < search->octets && n + 8 <= search->room; octet++) {
        int32_t first = search->at[octet];
        int32_t left = search->end[octet] - first;
        int32_t self = search->self - first;
        int32_t hits = 0;
        const fsi_real *FSI__RESTRICT x = search->x + first;
        const fsi_real *FSI__RESTRICT y = search->y + first;
        const fsi_real *FSI__RESTRICT z = search->z + first;
        FSI__SPH_LANES
        for (int32_t k = 0; k < 8; k++) {
            fsi_real dx = x[k] - point.x;
            fsi_real dy = y[k] - point.y;
            fsi_real dz = z[k] - point.z;
            int32_t close = dx * dx + dy * dy + dz * dz < radius2 ? bit[k] : 0;
            hits |= close & (lane[k] < left ? bit[k] : 0) & (lane[k] != self ? bit[k] : 0);
        }

        /* Lanes 0 .. 3, then 4 .. 7. What is written beyond the hits is overwritten. */
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++)
            out[n + k] = first + from[hits & 15][k];
        n += count[hits & 15];
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++)
            out[n + k] = first + 4 + from[hits >> 4][k];
        n += count[hits >> 4];
    }
    search->full |= octet < search->octets;
    search->n = (int)n;
    search->octets = 0;
}

/* Makes octets of a range. Four are written whether needed or not: more than a row of a fluid at
   rest has. */
FSI__INLINE void fsi__sph_search_candidates(fsi__sph_search *search, const fsi__range *range) {
    static const int32_t next[4] = {0, 8, 16, 24};
    int32_t begin = range->begin;
    int32_t end = range->end;
    int32_t octets;
    do {
        int32_t *FSI__RESTRICT at = search->at + search->octets;
        int32_t *FSI__RESTRICT to = search->end + search->octets;
        FSI__SPH_LANES
        for (int32_t k = 0; k < 4; k++) {
            at[k] = begin + next[k];
            to[k] = end;
        }
        octets = (end - begin + 7) >> 3;
        search->octets += fsi__imin(octets, 4);
        begin += 32;
        if (search->octets > FSI__SPH_OCTETS - 4)
            fsi__sph_search_test(search);
    } while (octets > 4);
}

/* Finds the neighbours within radius R of search->point among the rows around its cell at: of each
   row the cells that the sphere reaches. Half its chord there is R sqrt(t), t = 1 - distance^2;
   three tangents bound the root from above by at most a tenth (a root would keep compilers from
   vectorising).

            . - .
          '   |   '
         |    o    |     row through the centre: the whole diameter
        -|----+----|-    row at distance d: half a chord of R sqrt(1 - d^2)
          .   |   .
            ' - '  */
static void fsi__sph_search_rows(fsi__sph_search *search, const fsi__cells *cells,
                                 const fsi__rows *rows, const int at[3], fsi_real R) {
    const fsi_real fraction_y = search->point.y * cells->inverse_edge - (fsi_real)at[1];
    const fsi_real fraction_z = search->point.z * cells->inverse_edge - (fsi_real)at[2];
    const fsi_real inverse_edge_x = (fsi_real)cells->fine * cells->inverse_edge;
    const fsi_real x = search->point.x * inverse_edge_x;
    const fsi_real radius = R * inverse_edge_x;
    int32_t lo[12], hi[12];
    FSI__SPH_LANES
    for (int k = 0; k < 12; k++) {
        fsi_real dy = rows->y_offset[k] + rows->y_sign[k] * fraction_y;
        fsi_real dz = rows->z_offset[k] + rows->z_sign[k] * fraction_z;
        dy = dy > 0 ? dy : 0;
        dz = dz > 0 ? dz : 0;

        /* Tangents of the root at t = 1, 1/4 and 1/25. */
        fsi_real t = FSI_R(1.001) - dy * dy - dz * dz;
        fsi_real root = FSI_R(0.5) + FSI_R(0.5) * t;
        root = root < FSI_R(0.25) + t ? root : FSI_R(0.25) + t;
        root = root < FSI_R(0.1) + FSI_R(2.5) * t ? root : FSI_R(0.1) + FSI_R(2.5) * t;

        /* fsi__cell_floor, in the shape that vectorises. */
        fsi_real left = x - root * radius;
        fsi_real right = x + root * radius;
        lo[k] = (int32_t)left - (left < (fsi_real)(int32_t)left);
        hi[k] = (int32_t)right - (right < (fsi_real)(int32_t)right);
    }

    fsi__range range[2];

    for (int k = 0; k < rows->n; k++) {
        int pieces = fsi__row_ranges(cells, rows->row[k], lo[k], hi[k], range);
        if (pieces == 0)
            continue;
        fsi__sph_search_candidates(search, &range[0]);
        if (pieces == 2)
            fsi__sph_search_candidates(search, &range[1]);
    }
    fsi__sph_search_test(search);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph set-up */
/* particles that share one pool of list entries; also the grain of the threads */
#define FSI__SPH_CHUNK 256
#define FSI__SPH_CARRIED 10 /* real numbers that belong to a fluid particle */
/* a boundary particle carries the pressure of the fluid particle it meets: (p_i + p_i) */
#define FSI__SPH_MIRROR 2

/* The arrays of the numbers that belong to a fluid particle and move with it. WCSPH uses the first
   7 (with an integrated density 8), DFSPH all. */
static void fsi__sph_carried(fsi_sph *sph, fsi_real **array[FSI__SPH_CARRIED]) {
    array[0] = &sph->x;
    array[1] = &sph->y;
    array[2] = &sph->z;
    array[3] = &sph->vx;
    array[4] = &sph->vy;
    array[5] = &sph->vz;
    array[6] = &sph->mass;
    array[7] = &sph->rho;
    array[8] = &sph->kappa;
    array[9] = &sph->kappa_v;
}

/* Arrays of n items each. */
static void fsi__take_reals(fsi_arena *arena, size_t n, size_t arrays, fsi_real **const *array) {
    for (size_t k = 0; k < arrays; k++)
        FSI__TAKE(*array[k], arena, n);
}

static void fsi__take_ints(fsi_arena *arena, size_t n, size_t arrays, int32_t **const *array) {
    for (size_t k = 0; k < arrays; k++)
        FSI__TAKE(*array[k], arena, n);
}

/* Places all arrays; the first ones are the state. Vector loops may read a little past the end. */
static void fsi__sph_layout(fsi_sph *sph, fsi_arena *arena) {
    size_t fluid = (size_t)sph->desc.capacity + 16;
    size_t walls = (size_t)sph->desc.boundary_capacity + 16;

    /* The state. */
    fsi_real **carried[FSI__SPH_CARRIED];
    fsi_real **boundary[] = {&sph->bx, &sph->bv, &sph->blocal};
    fsi__sph_carried(sph, carried);
    fsi__take_reals(arena, fluid, FSI__SPH_CARRIED, carried);
    FSI__TAKE(sph->id, arena, fluid);
    FSI__TAKE(sph->listed_at, arena, sph->desc.skin > 0 ? 3 * (fluid + walls) : 0);
    fsi__take_reals(arena, 3 * walls, 3, boundary);
    FSI__TAKE(sph->bobject, arena, walls);

    /* Results and scratch of fluid particles. */
    fsi_real **result[] = {&sph->p,         &sph->ax,    &sph->ay,       &sph->az,   &sph->work,
                           &sph->stiffness, &sph->alpha, &sph->previous, &sph->guard};
    int32_t **lists[] = {&sph->first, &sph->middle, &sph->last};
    fsi__take_reals(arena, fluid, sizeof result / sizeof *result, result);
    fsi__take_ints(arena, fluid, 3, lists);

    /* Of boundary particles. */
    fsi_real **wall[] = {&sph->bvolume, &sph->sorted_bx, &sph->sorted_by, &sph->sorted_bz};
    fsi__take_reals(arena, walls, 4, wall);
    FSI__TAKE(sph->bf, arena, 3 * walls);
    FSI__TAKE(sph->border, arena, walls);

    /* Of both: sorting and packed copies. */
    int32_t **sorting[] = {&sph->key, &sph->order};
    fsi_real **packed[] = {&sph->packed_x, &sph->packed_v};
    fsi__take_ints(arena, fluid > walls ? fluid : walls, 2, sorting);
    fsi__take_reals(arena, 4 * (fluid + walls), 2, packed);
    FSI__TAKE(sph->cells.start, arena, (size_t)sph->cells.room + 1);
    FSI__TAKE(sph->bcells.start, arena, (size_t)sph->bcells.room + 1);

    /* Neighbour lists: a pool for each chunk. Their indices have 31 bits. */
    size_t chunks = ((size_t)sph->desc.capacity + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK;
    size_t pool = 0;
    if (!fsi_size_mul(chunks, (size_t)sph->list_room, &pool) || pool > 0x7fffff00u)
        arena->failed = 1;
    FSI__TAKE(sph->list, arena, pool + 16);
    FSI__TAKE(sph->slope, arena, pool + 16);
}

/* Was it made by fsi_sph_init? */
static int fsi__sph_live(const fsi_sph *sph) {
    return sph && sph->block;
}

static int fsi__all_true(size_t n, const int *condition) {
    for (size_t k = 0; k < n; k++)
        if (!condition[k])
            return 0;
    return 1;
}

/* Is a resolved desc (without zeros that mean a default) inside all ranges? */
static int fsi__sph_desc_ok(const fsi_sph_desc *desc) {
    const fsi_real natural[] = {desc->support,         desc->sound_speed, desc->gamma,
                                desc->viscosity,       desc->artificial,  desc->xsph,
                                desc->wall_viscosity,  desc->delta,       desc->skin,
                                desc->density_error,   desc->cfl,         desc->dt_max,
                                desc->divergence_error};

    for (size_t k = 0; k < sizeof natural / sizeof *natural; k++)
        if (!fsi__natural(natural[k]))
            return 0;

    const int known[] = {
        desc->dim == 2 || desc->dim == 3,
        (int)desc->solver == 0 || (int)desc->solver == 1,
        (int)desc->kernel >= 0 && desc->kernel <= FSI_KERNEL_POLY6,
        desc->capacity >= 1 && desc->capacity < 0x1fffff00,
        desc->boundary_capacity >= 0 && desc->boundary_capacity < 0x1fffff00,
        desc->neighbors >= 0 && desc->max_iterations >= 0,
        fsi__positive(desc->spacing) && fsi__positive(desc->density),
        desc->support >= desc->spacing && desc->support <= 6 * desc->spacing,
        desc->gamma >= 1 && desc->gamma <= 7,
        desc->xsph <= 1 && desc->skin <= desc->support,
        desc->solver == FSI_SPH_DFSPH || desc->sound_speed > 0,
        fsi__finite_vec(desc->gravity) && fsi_allocator_valid(&desc->allocator),
    };

    return fsi__all_true(sizeof known / sizeof *known, known);
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

    /* List entries: nearly twice the particles within the support at rest. */
    double reach = (double)(desc->support + desc->skin) / (double)desc->spacing;
    double full = desc->dim == 3 ? 4.19 * reach * reach * reach : 3.15 * reach * reach;
    if (desc->neighbors == 0 && full < 1e6)
        desc->neighbors = (int)(1.8 * full) + 16;
}

static fsi_real fsi__sph_rest_mass(const fsi_sph_desc *desc) {
    return desc->density * desc->spacing * desc->spacing * (desc->dim == 3 ? desc->spacing : 1);
}

/* The kernel whose slope makes pressure forces. */
static fsi_kernel fsi__sph_slope_kernel(const fsi_sph_desc *desc) {
    return desc->kernel == FSI_KERNEL_POLY6 ? FSI_KERNEL_SPIKY : desc->kernel;
}

/* Layers of a wall that fill the support of a particle one spacing away. */
static int fsi__sph_layers(const fsi_sph_desc *desc) {
    return fsi__imax(1, (int)fsi__ceil(desc->support / desc->spacing - FSI_R(1.001)));
}

/* Sums over the rest lattice around one of its points:
     wall_scale   a boundary particle has volume wall_scale / sum W: spacing^dim in the first layer
   of a flat wall, so that the density beside it is the rest density; larger where a thin sampled
   surface stands for all the layers. Here the wall is the layers j >= 0 least_alpha  sum |m grad
   W|^2 of a full neighbourhood */
static void fsi__sph_calibrate(fsi_sph *sph) {
    const fsi_sph_desc *desc = &sph->desc;
    const fsi_kernel kernel = fsi__sph_slope_kernel(desc);
    const int reach = (int)(desc->support / desc->spacing) + 1;
    const int depth = desc->dim == 3 ? reach : 0;
    const double mass = (double)fsi__sph_rest_mass(desc);
    double wall = 0;
    double stiffness = 0;

    for (int k = -depth; k <= depth; k++)
        for (int j = -reach; j <= reach; j++)
            for (int i = -reach; i <= reach; i++) {
                fsi_real r = desc->spacing * fsi__sqrt((fsi_real)(i * i + j * j + k * k));
                double pull = mass * (double)fsi_kernel_slope(kernel, desc->dim, desc->support, r);
                if (i || j || k)
                    stiffness += pull * pull;
                if (j >= 0 && j < fsi__sph_layers(desc))
                    wall += (double)fsi_kernel_value(desc->kernel, desc->dim, desc->support, r);
            }
    sph->wall_scale = (fsi_real)(mass / (double)desc->density * wall);
    sph->least_alpha = (fsi_real)stiffness;
}

FSI_API fsi_result fsi_sph_init(fsi_sph *sph, const fsi_sph_desc *desc) {
    if (!sph || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_sph_desc given = *desc;
    fsi__sph_defaults(&given);
    if (!fsi__sph_desc_ok(&given))
        return FSI_ERR_ARGUMENT;
    if ((double)given.neighbors * FSI__SPH_CHUNK > 1e9)
        return FSI_ERR_SIZE;

    /* Cells as wide as lists reach; those of the fluid are shorter along x, so that a search ends
       where its sphere ends. */
    memset(sph, 0, sizeof *sph);
    sph->desc = given;
    sph->cells.room = 4 * given.capacity + 4096;
    sph->cells.fine = FSI__SPH_FINE;
    sph->bcells.room = 2 * given.boundary_capacity + 4096;
    sph->bcells.fine = 1;
    sph->cells.inverse_edge = 1 / (given.support + given.skin);
    sph->bcells.inverse_edge = sph->cells.inverse_edge;
    sph->list_room = given.neighbors * FSI__SPH_CHUNK + 64;

    /* The first layout counts, the second one places. */
    fsi_arena arena = FSI__ZERO;
    fsi__sph_layout(sph, &arena);
    fsi_result result = fsi__arena_block(&arena, &given.allocator, &sph->block, &sph->block_size);
    if (result != FSI_OK) {
        memset(sph, 0, sizeof *sph);
        return result;
    }
    fsi__sph_layout(sph, &arena);
    fsi__sph_calibrate(sph);
    sph->now.boundary_dirty = 1;

    return FSI_OK;
}

FSI_API void fsi_sph_free(fsi_sph *sph) {
    if (!sph)
        return;
    fsi_free(&sph->desc.allocator, sph->block, sph->block_size);
    memset(sph, 0, sizeof *sph);
}

FSI_API double fsi_sph_bytes_per_particle(const fsi_sph *sph) {
    return fsi__sph_live(sph) ? (double)sph->block_size / (double)sph->desc.capacity : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph filling */
/* Is a point inside the outermost cells? (NaN is not.) */
static int fsi__sph_within(const fsi_sph *sph, fsi_vec3 point) {
    fsi_real longest = fsi__max(fsi__max(fsi__abs(point.x), fsi__abs(point.y)), fsi__abs(point.z));
    return longest * sph->cells.inverse_edge < FSI__CELLS_END && fsi__finite_vec(point);
}

/* The same for n points, 3 numbers each. */
static int fsi__sph_all_within(const fsi_sph *sph, int n, const fsi_real *x) {
    for (int i = 0; i < n; i++)
        if (!fsi__sph_within(sph, fsi__vec_at(x, i)))
            return 0;
    return 1;
}

/* What every change of the particles' number says: lists and prepared sums are void. */
static void fsi__sph_outdate(fsi_sph *sph) {
    sph->now.list_valid = 0;
    sph->ready = 0;
}

FSI__INLINE fsi_vec3 fsi__sph_position(const fsi_sph *sph, ptrdiff_t i) {
    return fsi_vec(sph->x[i], sph->y[i], sph->z[i]);
}

FSI__INLINE fsi_vec3 fsi__sph_velocity(const fsi_sph *sph, ptrdiff_t i) {
    return fsi_vec(sph->vx[i], sph->vy[i], sph->vz[i]);
}

FSI__INLINE void fsi__sph_change_velocity(fsi_sph *sph, ptrdiff_t i, fsi_vec3 change) {
    sph->vx[i] += change.x;
    sph->vy[i] += change.y;
    sph->vz[i] += change.z;
}

/* Fluid particles that may still be added: memory and names. */
static int fsi__sph_room(const fsi_sph *sph) {
    return fsi__imin(sph->desc.capacity - sph->now.count, 0x7fffffff - sph->now.next_id);
}

static void fsi__sph_append(fsi_sph *sph, fsi_vec3 x, fsi_vec3 v, fsi_real mass) {
    int i = sph->now.count++;
    int flat = sph->desc.dim == 2;
    sph->x[i] = x.x;
    sph->y[i] = x.y;
    sph->z[i] = flat ? 0 : x.z;
    sph->vx[i] = v.x;
    sph->vy[i] = v.y;
    sph->vz[i] = flat ? 0 : v.z;
    sph->mass[i] = mass;
    sph->rho[i] = sph->desc.density;
    sph->kappa[i] = 0;
    sph->kappa_v[i] = 0;
    sph->id[i] = sph->now.next_id++;
    fsi__sph_outdate(sph);
}

FSI_API fsi_result fsi_sph_add(fsi_sph *sph, int n, const fsi_real *x, const fsi_real *v,
                               const fsi_real *mass) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (n < 0 || (n > 0 && !x))
        return FSI_ERR_ARGUMENT;
    if (n > fsi__sph_room(sph))
        return FSI_ERR_SIZE;

    /* All or nothing: look at everything first. */
    if (!fsi__sph_all_within(sph, n, x) || (v && !fsi_all_finite(3 * (size_t)n, v)))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; mass && i < n; i++)
        if (!fsi__positive(mass[i]))
            return FSI_ERR_ARGUMENT;

    for (int i = 0; i < n; i++) {
        fsi_vec3 velocity = v ? fsi__vec_at(v, i) : fsi_vec(0, 0, 0);
        fsi_real own = mass ? mass[i] : fsi__sph_rest_mass(&sph->desc);
        fsi__sph_append(sph, fsi__vec_at(x, i), velocity, own);
    }

    return FSI_OK;
}

/* Whole spacings between lo and hi; a hair less than whole counts as whole. */
static double fsi__sph_fitting(fsi_real lo, fsi_real hi, fsi_real spacing) {
    return floor((double)(hi - lo) / (double)spacing + 1e-4);
}

FSI_API fsi_result fsi_sph_add_block(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, fsi_vec3 v,
                                     int *count) {
    if (count)
        *count = 0;
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!fsi__sph_within(sph, lo) || !fsi__sph_within(sph, hi) || !fsi__finite_vec(v))
        return FSI_ERR_ARGUMENT;

    fsi_real spacing = sph->desc.spacing;
    double nx = fsi__sph_fitting(lo.x, hi.x, spacing);
    double ny = fsi__sph_fitting(lo.y, hi.y, spacing);
    double nz = sph->desc.dim == 3 ? fsi__sph_fitting(lo.z, hi.z, spacing) : 1;
    if (nx <= 0 || ny <= 0 || nz <= 0)
        return FSI_EMPTY;
    if (nx * ny * nz > (double)fsi__sph_room(sph))
        return FSI_ERR_SIZE;

    const fsi_vec3 half = fsi_vec(FSI_R(0.5), FSI_R(0.5), FSI_R(0.5));

    for (int k = 0; k < (int)nz; k++)
        for (int j = 0; j < (int)ny; j++)
            for (int i = 0; i < (int)nx; i++) {
                fsi_vec3 at = fsi_vec_add(fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k), half);
                fsi__sph_append(sph, fsi_vec_mad(lo, at, spacing), v,
                                fsi__sph_rest_mass(&sph->desc));
            }
    if (count)
        *count = (int)(nx * ny * nz);

    return FSI_OK;
}

/* FSI_OK, or why this fluid cannot have the emitter. */
static fsi_result fsi__sph_emitter_check(const fsi_sph *sph, const fsi_sph_emitter *emitter) {
    if (!fsi__sph_within(sph, emitter->centre) || !fsi__finite_vec(emitter->direction))
        return FSI_ERR_ARGUMENT;
    int sized = fsi__positive(emitter->radius) && fsi__positive(emitter->speed);
    int timed = fsi__finite(emitter->from) && fsi__finite(emitter->until);
    if (!sized || !timed || !(fsi__length(emitter->direction) > 0))
        return FSI_ERR_ARGUMENT;

    /* A layer that could never fit is refused. */
    double across = (double)emitter->radius / (double)sph->desc.spacing;
    double layer = across * (sph->desc.dim == 3 ? across : 1);
    return layer > (double)sph->desc.capacity ? FSI_ERR_SIZE : FSI_OK;
}

FSI_API fsi_result fsi_sph_add_emitter(fsi_sph *sph, const fsi_sph_emitter *emitter) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!emitter)
        return FSI_ERR_ARGUMENT;
    fsi_result result = fsi__sph_emitter_check(sph, emitter);
    if (result < 0)
        return result;
    if (sph->now.emitters == FSI_SPH_EMITTERS)
        return FSI_ERR_SIZE;

    fsi_sph_emitter *own = &sph->now.emitter[sph->now.emitters++];
    *own = *emitter;
    own->direction = fsi__unit(emitter->direction);
    own->due = (double)emitter->from > sph->now.time ? (double)emitter->from : sph->now.time;

    return FSI_OK;
}

FSI_API fsi_result fsi_sph_add_removal(fsi_sph *sph, const fsi_sph_box *box) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!box || !fsi__finite_vec(box->lo) || !fsi__finite_vec(box->hi))
        return FSI_ERR_ARGUMENT;
    if (sph->now.boxes == FSI_SPH_EMITTERS)
        return FSI_ERR_SIZE;
    sph->now.box[sph->now.boxes++] = *box;

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph boundaries */
/* Boundary particles that may still be added. */
static int fsi__sph_boundary_room(const fsi_sph *sph) {
    return sph->desc.boundary_capacity - sph->now.boundary_count;
}

FSI_API fsi_result fsi_sph_add_boundary(fsi_sph *sph, int n, const fsi_real *x, fsi_vec3 centre,
                                        int two_way, int *object) {
    if (object)
        *object = -1;
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (n < 0 || (n > 0 && !x) || !fsi__finite_vec(centre))
        return FSI_ERR_ARGUMENT;
    if (n > fsi__sph_boundary_room(sph) || sph->now.objects == FSI_SPH_OBJECTS)
        return FSI_ERR_SIZE;
    if (!fsi__sph_all_within(sph, n, x))
        return FSI_ERR_ARGUMENT;

    fsi_sph_object *added = &sph->now.object[sph->now.objects];
    memset(added, 0, sizeof *added);
    added->first = sph->now.boundary_count;
    added->count = n;
    added->two_way = two_way != 0;
    added->centre = centre;

    for (int i = 0; i < n; i++) {
        int b = added->first + i;
        fsi_vec3 place = fsi__vec_at(x, i);
        if (sph->desc.dim == 2)
            place.z = 0;
        fsi__vec_put(sph->bx, b, place);
        fsi__vec_put(sph->blocal, b, fsi_vec_sub(place, centre));
        fsi__vec_put(sph->bv, b, fsi_vec(0, 0, 0));
        sph->bobject[b] = sph->now.objects;
    }
    sph->now.boundary_count += n;
    sph->now.boundary_dirty = 1;
    fsi__sph_outdate(sph);
    if (object)
        *object = sph->now.objects;
    sph->now.objects++;

    return FSI_OK;
}

/* Points of a growing boundary object are written straight behind the last boundary particle. What
   does not fit is only counted. */
static void fsi__sph_put_point(fsi_sph *sph, int *count, fsi_vec3 place) {
    if (*count < fsi__sph_boundary_room(sph))
        fsi__vec_put(sph->bx, sph->now.boundary_count + *count, place);
    (*count)++;
}

/* Makes an object at rest of those points. */
static fsi_result fsi__sph_add_points(fsi_sph *sph, int count, fsi_vec3 centre, int *object) {
    if (count > fsi__sph_boundary_room(sph))
        return FSI_ERR_SIZE;
    fsi_real *points = sph->bx + 3 * sph->now.boundary_count;
    return fsi_sph_add_boundary(sph, count, points, centre, 0, object);
}

/* Spacings along a length, at least one; 0 when there is no length, -1 when it is absurd. */
static int fsi__sph_along(const fsi_sph *sph, fsi_real length) {
    fsi_real spacings = length / sph->desc.spacing;
    if (!(spacings < FSI_R(1e6)))
        return -1;
    return spacings > 0 ? fsi__imax(1, (int)(spacings + FSI_R(0.5))) : 0;
}

/* Place number i along one axis of a box: 0 .. n - 1 fill the side [lo, hi] evenly, numbers before
   and behind go on by the spacing.

       -2  -1 | 0   1   2  ...  n-1 | n  n+1
        o   o | .   .   .   .   .   | o   o       wall, fluid, wall
             lo                     hi

   Returns 0 between the walls, 1 in the wall at lo, 2 in the wall at hi. */
static int fsi__sph_wall_place(fsi_real lo, fsi_real hi, int n, int i, fsi_real spacing,
                               fsi_real *place) {
    fsi_real at = (fsi_real)i + FSI_R(0.5);
    if (i < 0) {
        *place = lo + spacing * at;
        return 1;
    }
    if (i >= n) {
        *place = hi + spacing * (at - (fsi_real)n);
        return 2;
    }
    *place = lo + (hi - lo) / (fsi_real)n * at;

    return 0;
}

FSI_API fsi_result fsi_sph_add_box_walls(fsi_sph *sph, fsi_vec3 lo, fsi_vec3 hi, unsigned open,
                                         int *object) {
    if (object)
        *object = -1;
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!fsi__finite_vec(lo) || !fsi__finite_vec(hi))
        return FSI_ERR_ARGUMENT;

    /* Places -wall .. inside + wall - 1 on each axis. */
    int inside[3] = {1, 1, 1};
    int wall[3] = FSI__ZERO;

    for (int d = 0; d < sph->desc.dim; d++) {
        inside[d] = fsi__sph_along(sph, fsi__get(hi, d) - fsi__get(lo, d));
        wall[d] = fsi__sph_layers(&sph->desc);
        if (inside[d] < 1)
            return FSI_ERR_ARGUMENT;
    }

    int at[3];
    int count = 0;

    for (at[2] = -wall[2]; at[2] < inside[2] + wall[2]; at[2]++)
        for (at[1] = -wall[1]; at[1] < inside[1] + wall[1]; at[1]++)
            for (at[0] = -wall[0]; at[0] < inside[0] + wall[0]; at[0]++) {
                /* In an edge two walls meet, in a corner three: one that is open opens it. */
                fsi_real place[3] = FSI__ZERO;
                int walls = 0;
                int left_open = 0;
                for (int d = 0; d < sph->desc.dim; d++) {
                    int side = fsi__sph_wall_place(fsi__get(lo, d), fsi__get(hi, d), inside[d],
                                                   at[d], sph->desc.spacing, &place[d]);
                    if (!side)
                        continue;
                    walls++;
                    left_open += open >> (2 * d + side - 1) & 1u ? 1 : 0;
                }
                if (walls && !left_open)
                    fsi__sph_put_point(sph, &count, fsi_vec_load(place));
                /* Nothing more in this row before the wall at hi. */
                if (!walls)
                    at[0] = inside[0] - 1;
            }

    return fsi__sph_add_points(sph, count, fsi_vec_scale(fsi_vec_add(lo, hi), FSI_R(0.5)), object);
}

FSI_API fsi_result fsi_sph_add_plane(fsi_sph *sph, fsi_vec3 corner, fsi_vec3 u, fsi_vec3 v,
                                     fsi_vec3 normal, int *object) {
    if (object)
        *object = -1;
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    int finite = fsi__finite_vec(corner) && fsi__finite_vec(u) && fsi__finite_vec(v);
    if (!finite || !fsi__finite_vec(normal) || !(fsi__length(normal) > 0))
        return FSI_ERR_ARGUMENT;

    int along_u = fsi__sph_along(sph, fsi__length(u));
    int along_v = sph->desc.dim == 3 ? fsi__sph_along(sph, fsi__length(v)) : 0;
    if (along_u < 1 || along_v < 0)
        return FSI_ERR_ARGUMENT;

    int count = 0;
    normal = fsi__unit(normal);

    for (int layer = 0; layer < fsi__sph_layers(&sph->desc); layer++) {
        fsi_real depth = sph->desc.spacing * ((fsi_real)layer + FSI_R(0.5));
        fsi_vec3 behind = fsi_vec_mad(corner, normal, -depth);
        for (int j = 0; j <= along_v; j++)
            for (int i = 0; i <= along_u; i++) {
                fsi_vec3 place = fsi_vec_mad(behind, u, (fsi_real)i / (fsi_real)along_u);
                place = fsi_vec_mad(place, v, along_v ? (fsi_real)j / (fsi_real)along_v : 0);
                fsi__sph_put_point(sph, &count, place);
            }
    }

    return fsi__sph_add_points(sph, count, corner, object);
}

/* Sampling of a surface: dart throwing in a fixed order. A candidate is taken when no taken point
   is closer than 0.7 spacing. Corners are thrown first, then edges, then the inside, so that sharp
   features stay sampled. The taken points of a cell (edge = spacing) are a chain. */
typedef struct fsi__darts {
    fsi_real *x;   /* [3 room] taken points */
    int32_t *next; /* [room] the next point of the same cell, or -1 */
    int n, room;
    fsi__cells cells; /* start: the first point of each cell, or -1 */
    fsi_real least2;  /* square of the least distance, m^2 */
} fsi__darts;

static void fsi__dart(fsi__darts *darts, fsi_vec3 point) {
    const fsi__cells *cells = &darts->cells;
    int at[3];
    int own = 0;
    fsi__cell_of(cells, point, at);

    for (int k = -1; k <= 1; k++)
        for (int j = -1; j <= 1; j++)
            for (int i = -1; i <= 1; i++) {
                int row = fsi__cell_row(cells, at[1] + j, at[2] + k);
                int column = fsi__cell_wrapped(cells, 0, at[0] + i);
                if (row < 0 || column < 0)
                    continue;
                int cell = row + column;
                if (!i && !j && !k)
                    own = cell;
                for (int32_t e = cells->start[cell]; e >= 0; e = darts->next[e]) {
                    fsi_vec3 apart = fsi_vec_sub(point, fsi__vec_at(darts->x, e));
                    if (fsi_vec_dot(apart, apart) < darts->least2)
                        return;
                }
            }
    if (darts->n == darts->room)
        return;
    fsi__vec_put(darts->x, darts->n, point);
    darts->next[darts->n] = darts->cells.start[own];
    darts->cells.start[own] = darts->n++;
}

/* Parts no longer than the spacing that the side a b is cut into. */
static int fsi__sph_divisions(fsi_vec3 a, fsi_vec3 b, fsi_real spacing) {
    fsi_real parts = fsi__length(fsi_vec_sub(b, a)) / spacing;
    return parts < FSI_R(1e5) ? (int)fsi__ceil(parts - FSI_R(1e-3)) : 100000;
}

/* One element of a surface and how finely it is sampled. */
typedef struct fsi__dart_board {
    fsi_vec3 corner[3];
    int corners, sides; /* a segment has 2 corners and 1 side, a triangle 3 and 3 */
    int parts[3];       /* of each side */
    int most;           /* largest of them: rows of the inside */
} fsi__dart_board;

static void fsi__dart_board_of(const fsi_surface *surface, int element, fsi_real spacing,
                               fsi__dart_board *board) {
    int m = surface->dim;
    board->corners = m;
    board->sides = m == 2 ? 1 : 3;
    board->most = 0;

    for (int i = 0; i < m; i++)
        board->corner[i] = fsi_surface_place(surface, surface->index[m * element + i]);

    for (int k = 0; k < board->sides; k++) {
        board->parts[k] = fsi__sph_divisions(board->corner[k], board->corner[(k + 1) % m], spacing);
        board->most = fsi__imax(board->most, board->parts[k]);
    }
}

/* How many candidates an element has. */
static double fsi__dart_candidates(const fsi__dart_board *board) {
    double count = board->corners;
    for (int k = 0; k < board->sides; k++)
        count += fsi__imax(board->parts[k] - 1, 0);
    if (board->corners == 3 && board->most > 2)
        count += 0.5 * (board->most - 1) * (board->most - 2);
    return count;
}

/* Throws the candidates of one element: pass 0 its corners, pass 1 its sides, pass 2 its inside. */
static void fsi__dart_throw(fsi__darts *darts, const fsi__dart_board *board, int pass) {
    const fsi_vec3 *corner = board->corner;

    for (int i = 0; pass == 0 && i < board->corners; i++)
        fsi__dart(darts, corner[i]);

    for (int k = 0; pass == 1 && k < board->sides; k++) {
        fsi_vec3 side = fsi_vec_sub(corner[(k + 1) % board->corners], corner[k]);
        for (int i = 1; i < board->parts[k]; i++) {
            fsi_real share = (fsi_real)i / (fsi_real)board->parts[k];
            fsi__dart(darts, fsi_vec_mad(corner[k], side, share));
        }
    }

    if (pass != 2 || board->corners != 3)
        return;
    fsi_vec3 u = fsi_vec_sub(corner[1], corner[0]);
    fsi_vec3 v = fsi_vec_sub(corner[2], corner[0]);

    for (int i = 1; i < board->most; i++)
        for (int j = 1; i + j < board->most; j++) {
            fsi_vec3 point = fsi_vec_mad(corner[0], u, (fsi_real)i / (fsi_real)board->most);
            fsi__dart(darts, fsi_vec_mad(point, v, (fsi_real)j / (fsi_real)board->most));
        }
}

FSI_API fsi_result fsi_sph_sample_surface(const fsi_surface *surface, fsi_real spacing,
                                          fsi_real *out, int room, int *count,
                                          const fsi_allocator *allocator) {
    if (count)
        *count = 0;
    if (fsi_surface_check(surface) != FSI_OK || (surface->vertex_count && !surface->x))
        return FSI_ERR_ARGUMENT;
    if (!fsi__positive(spacing) || room < 0 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;

    for (int i = 0; i < 3 * surface->vertex_count; i++)
        if (!(fsi__abs(surface->x[i]) / spacing < FSI__CELLS_END))
            return FSI_ERR_ARGUMENT;

    if (!surface->element_count)
        return FSI_OK;

    /* Room for every candidate, and cells around all vertices. */
    fsi__dart_board board;
    double most = 0;

    for (int e = 0; e < surface->element_count; e++) {
        fsi__dart_board_of(surface, e, spacing, &board);
        most += fsi__dart_candidates(&board);
    }
    if (most > 1e8)
        return FSI_ERR_SIZE;
    fsi__darts darts = FSI__ZERO;
    darts.room = (int)most + 1;
    darts.least2 = FSI_R(0.49) * spacing * spacing;
    darts.cells.room = darts.room + 4096;
    darts.cells.inverse_edge = 1 / spacing;
    darts.cells.fine = 1;
    fsi__points vertices = {surface->x, surface->x + 1, surface->x + 2, surface->vertex_count, 3};
    fsi__cells_around(&darts.cells, 3, &vertices);

    /* The first pass counts the memory, the second one places it. */
    fsi_arena arena = FSI__ZERO;

    for (int pass = 0; pass < 2; pass++) {
        fsi_result result = pass ? fsi__arena_open(&arena, allocator) : FSI_OK;
        if (result != FSI_OK)
            return result;
        FSI__TAKE(darts.x, &arena, 3 * (size_t)darts.room);
        FSI__TAKE(darts.next, &arena, (size_t)darts.room);
        FSI__TAKE(darts.cells.start, &arena, (size_t)fsi__cells_count(&darts.cells));
    }

    for (int i = 0; i < fsi__cells_count(&darts.cells); i++)
        darts.cells.start[i] = -1;

    for (int pass = 0; pass < 3; pass++)
        for (int e = 0; e < surface->element_count; e++) {
            fsi__dart_board_of(surface, e, spacing, &board);
            fsi__dart_throw(&darts, &board, pass);
        }

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
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    fsi_real *points = sph->bx + 3 * sph->now.boundary_count;
    int n;
    fsi_result result = fsi_sph_sample_surface(
        surface, sph->desc.spacing, points, fsi__sph_boundary_room(sph), &n, &sph->desc.allocator);
    if (result != FSI_OK)
        return result;

    return fsi_sph_add_boundary(sph, n, points, centre, two_way, object);
}

/* 2D: the boundary particles of an object stay in the plane. */
static void fsi__sph_object_moved(fsi_sph *sph, const fsi_sph_object *object) {
    for (int i = object->first; sph->desc.dim == 2 && i < object->first + object->count; i++) {
        sph->bx[3 * i + 2] = 0;
        sph->bv[3 * i + 2] = 0;
    }
    sph->now.boundary_dirty = 1;
}

FSI_API fsi_result fsi_sph_object_set(fsi_sph *sph, int object, const fsi_real *x,
                                      const fsi_real *v) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (object < 0 || object >= sph->now.objects || !x)
        return FSI_ERR_ARGUMENT;
    const fsi_sph_object *moved = &sph->now.object[object];
    size_t n = 3 * (size_t)moved->count;
    if (!fsi__sph_all_within(sph, moved->count, x) || (v && !fsi_all_finite(n, v)))
        return FSI_ERR_ARGUMENT;

    /* x may be the object's own range. */
    if (n)
        memmove(sph->bx + 3 * moved->first, x, n * sizeof *x);

    for (size_t i = 0; i < n; i++)
        sph->bv[3 * (size_t)moved->first + i] = v ? v[i] : 0;
    fsi__sph_object_moved(sph, moved);

    return FSI_OK;
}

FSI_API fsi_result fsi_sph_object_pose(fsi_sph *sph, int object, fsi_vec3 centre, fsi_quat q,
                                       fsi_vec3 v, fsi_vec3 spin) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    int moves = fsi__finite_vec(v) && fsi__finite_vec(spin)
                && fsi__finite(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z);

    /* Twice as far as the centre is must still be within: its particles lie around it. */
    int within = fsi__sph_within(sph, fsi_vec_scale(centre, 2));
    if (object < 0 || object >= sph->now.objects || !moves || !within)
        return FSI_ERR_ARGUMENT;

    fsi_sph_object *moved = &sph->now.object[object];
    q = fsi_quat_unit(q);
    moved->centre = centre;

    for (int i = moved->first; i < moved->first + moved->count; i++) {
        fsi_vec3 arm = fsi_quat_rotate(q, fsi__vec_at(sph->blocal, i));
        fsi__vec_put(sph->bx, i, fsi_vec_add(centre, arm));
        fsi__vec_put(sph->bv, i, fsi_vec_add(v, fsi_vec_cross(spin, arm)));
    }
    fsi__sph_object_moved(sph, moved);

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph prepare: come and go */
static int fsi__sph_in_box(const fsi_sph_box *box, fsi_vec3 point, int dim) {
    int in_x = point.x >= box->lo.x && point.x <= box->hi.x;
    int in_y = point.y >= box->lo.y && point.y <= box->hi.y;
    int in_z = dim == 2 || (point.z >= box->lo.z && point.z <= box->hi.z);
    int inside = in_x && in_y && in_z;
    return box->outside ? !inside : inside;
}

static void fsi__sph_copy_particle(fsi_sph *sph, int to, int from) {
    fsi_real **carried[FSI__SPH_CARRIED];
    fsi__sph_carried(sph, carried);
    for (int k = 0; k < FSI__SPH_CARRIED; k++)
        (*carried[k])[to] = (*carried[k])[from];
    sph->id[to] = sph->id[from];
}

/* Does particle i leave? Counts why. */
static int fsi__sph_leaves(fsi_sph *sph, int i) {
    fsi_vec3 point = fsi__sph_position(sph, i);
    if (!fsi__sph_within(sph, point)) {
        sph->now.lost++;
        return 1;
    }

    for (int k = 0; k < sph->now.boxes; k++)
        if (fsi__sph_in_box(&sph->now.box[k], point, sph->desc.dim)) {
            sph->now.removed++;
            return 1;
        }

    return 0;
}

/* Drops particles in removal boxes and particles beyond all cells; the others keep their order. */
static void fsi__sph_remove(fsi_sph *sph) {
    int stay = 0;

    for (int i = 0; i < sph->now.count; i++) {
        if (fsi__sph_leaves(sph, i))
            continue;
        if (stay != i)
            fsi__sph_copy_particle(sph, stay, i);
        stay++;
    }
    if (stay != sph->now.count)
        sph->now.list_valid = 0;
    sph->now.count = stay;
}

/* spacings: an emitter puts no particle closer than this to another */
#define FSI__SPH_FREE FSI_R(0.75)

static int fsi__sph_closer(const fsi_sph *sph, int i, fsi_vec3 point, fsi_real radius) {
    fsi_vec3 apart = fsi_vec_sub(fsi__sph_position(sph, i), point);
    return fsi_vec_dot(apart, apart) < radius * radius;
}

/* Particles that may be in the way of a layer around centre: their numbers into key. Returns how
   many. */
static int fsi__sph_in_the_way(fsi_sph *sph, fsi_vec3 centre, fsi_real radius) {
    int n = 0;
    for (int i = 0; i < sph->now.count; i++)
        if (fsi__sph_closer(sph, i, centre, radius + FSI__SPH_FREE * sph->desc.spacing))
            sph->key[n++] = i;
    return n;
}

/* Is there room for a particle at point, as far as those `in_the_way` go? */
static int fsi__sph_is_free(const fsi_sph *sph, int in_the_way, fsi_vec3 point) {
    for (int k = 0; k < in_the_way; k++)
        if (fsi__sph_closer(sph, sph->key[k], point, FSI__SPH_FREE * sph->desc.spacing))
            return 0;
    return 1;
}

/* Two directions across an axis: u, and in 3D w too. */
static void fsi__sph_across(fsi_vec3 axis, int dim, fsi_vec3 *u, fsi_vec3 *w) {
    fsi_vec3 other = fsi__abs(axis.x) < FSI_R(0.7) ? fsi_vec(1, 0, 0) : fsi_vec(0, 1, 0);
    *u = dim == 2 ? fsi_vec(-axis.y, axis.x, 0) : fsi__unit(fsi_vec_cross(axis, other));
    *w = fsi_vec_cross(axis, *u);
}

/* Emits one layer, `along` metres downstream of the disk.

        ^ u          Where fluid has come to a stop before the emitter there is no room: a
        |            particle put onto another would be a burst of pressure. What would lie
      --o--> d       beyond all cells is lost at once.
        |  */
static void fsi__sph_emit_layer(fsi_sph *sph, const fsi_sph_emitter *emitter, fsi_real along) {
    const fsi_real spacing = sph->desc.spacing;
    fsi_vec3 direction = emitter->direction;
    fsi_vec3 middle = fsi_vec_mad(emitter->centre, direction, along);
    int in_the_way = fsi__sph_in_the_way(sph, middle, emitter->radius);
    fsi_vec3 u, w;
    fsi__sph_across(direction, sph->desc.dim, &u, &w);

    int reach = (int)(emitter->radius / spacing);
    int depth = sph->desc.dim == 3 ? reach : 0;

    for (int i = -reach; i <= reach; i++)
        for (int j = -depth; j <= depth; j++) {
            fsi_real a = (fsi_real)i * spacing;
            fsi_real b = (fsi_real)j * spacing;
            if (a * a + b * b > emitter->radius * emitter->radius)
                continue;
            if (fsi__sph_room(sph) == 0) {
                sph->stats.blocked++;
                return;
            }
            fsi_vec3 place = fsi_vec_mad(fsi_vec_mad(emitter->centre, u, a), w, b);
            place = fsi_vec_mad(place, direction, along);
            if (!fsi__sph_is_free(sph, in_the_way, place))
                continue;

            sph->now.emitted++;
            if (fsi__sph_within(sph, place))
                fsi__sph_append(sph, place, fsi_vec_scale(direction, emitter->speed),
                                fsi__sph_rest_mass(&sph->desc));
            else
                sph->now.lost++;
        }
}

/* Emits all layers that are due, at most a thousand per emitter. */
static void fsi__sph_emit(fsi_sph *sph) {
    for (int k = 0; k < sph->now.emitters; k++) {
        fsi_sph_emitter *emitter = &sph->now.emitter[k];
        for (int layers = 0; emitter->due <= sph->now.time && layers < 1000; layers++) {
            if (emitter->until > 0 && emitter->due > (double)emitter->until)
                break;
            fsi_real late = (fsi_real)(sph->now.time - emitter->due);
            fsi__sph_emit_layer(sph, emitter, late * emitter->speed);
            emitter->due += (double)sph->desc.spacing / (double)emitter->speed;
        }
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>sph prepare: sorting */
/* Fills the cells of the fluid; order[] gets the order by cells. */
static void fsi__sph_fill_cells(fsi_sph *sph) {
    fsi__points points = {sph->x, sph->y, sph->z, sph->now.count, 1};
    fsi__cells_fill(&sph->cells, sph->desc.dim, &points, sph->key, sph->order);
}

/* Sorts the fluid particles by cells, with everything they carry. */
static void fsi__sph_sort(fsi_sph *sph) {
    fsi__sph_fill_cells(sph);

    /* What the solver uses of the carried numbers. */
    int used = sph->desc.delta > 0 ? 8 : 7;
    if (sph->desc.solver == FSI_SPH_DFSPH)
        used = FSI__SPH_CARRIED;
    fsi_real **carried[FSI__SPH_CARRIED];
    fsi__sph_carried(sph, carried);
    ptrdiff_t n = sph->now.count;

    for (int k = 0; k < used; k++) {
        fsi_real *values = *carried[k];
        FSI__PARALLEL(n > 4096)
        for (ptrdiff_t i = 0; i < n; i++)
            sph->work[i] = values[sph->order[i]];
        fsi_copy((size_t)n, sph->work, values);
    }

    for (ptrdiff_t i = 0; i < n; i++)
        sph->first[i] = sph->id[sph->order[i]];
    memcpy(sph->id, sph->first, (size_t)n * sizeof *sph->id);
}

/* Copies the boundary positions into sorted order. */
static void fsi__sph_copy_boundary(fsi_sph *sph) {
    for (int i = 0; i < sph->now.boundary_count; i++) {
        const fsi_real *x = sph->bx + 3 * sph->border[i];
        sph->sorted_bx[i] = x[0];
        sph->sorted_by[i] = x[1];
        sph->sorted_bz[i] = x[2];
    }
}

/* Sorts the boundary particles into their own cells. */
static void fsi__sph_sort_boundary(fsi_sph *sph) {
    fsi__points points = {sph->bx, sph->bx + 1, sph->bx + 2, sph->now.boundary_count, 3};
    fsi__cells_fill(&sph->bcells, sph->desc.dim, &points, sph->key, sph->border);
    fsi__sph_copy_boundary(sph);
}

/* Volumes of boundary particles: V_b = wall_scale / sum_b' W (Akinci et al. 2012, eq. 4). The sum
   has b itself in it, so it is positive. */
static void fsi__sph_boundary_volumes(fsi_sph *sph) {
    const fsi_real R = sph->desc.support;
    const fsi_real sigma = fsi__kernel_sigma(sph->desc.kernel, sph->desc.dim, R);
    const fsi_real *x = sph->sorted_bx;
    const fsi_real *y = sph->sorted_by;
    const fsi_real *z = sph->sorted_bz;
    int n = sph->now.boundary_count;

    FSI__PARALLEL(n > 512)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real sum = 0;
        fsi__ranges around;
        fsi__ranges_around(&sph->bcells, fsi_vec(x[i], y[i], z[i]), &around);
        for (int k = 0; k < around.n; k++)
            for (int j = around.range[k].begin; j < around.range[k].end; j++) {
                fsi_vec3 apart = fsi_vec(x[j] - x[i], y[j] - y[i], z[j] - z[i]);
                fsi_real r2 = fsi_vec_dot(apart, apart);
                if (r2 < R * R)
                    sum += sigma * fsi__kernel_w(sph->desc.kernel, fsi__sqrt(r2) / R);
            }
        sph->bvolume[sph->border[i]] = sph->wall_scale / sum;
    }
}

/* Packed copies for the pair loops, four numbers a particle: x y z m (boundary: Psi = rho0 V_b) in
   packed_x, v and a fourth number in packed_v. Boundary particles stand behind the fluid's, in the
   order of their cells. */
static size_t fsi__sph_packed_boundary(const fsi_sph *sph) {
    return 4 * (size_t)sph->desc.capacity;
}

static void fsi__sph_pack_boundary(fsi_sph *sph) {
    fsi_real *x4 = sph->packed_x + fsi__sph_packed_boundary(sph);
    fsi_real *v4 = sph->packed_v + fsi__sph_packed_boundary(sph);

    for (int i = 0; i < sph->now.boundary_count; i++) {
        int b = sph->border[i];
        memcpy(x4 + 4 * i, sph->bx + 3 * b, 3 * sizeof *x4);
        x4[4 * i + 3] = sph->desc.density * sph->bvolume[b];
        memcpy(v4 + 4 * i, sph->bv + 3 * b, 3 * sizeof *v4);
        v4[4 * i + 3] = 0;
    }
}

/* out = (x, y, z, fourth) of n particles; fourth NULL = 0. */
static void fsi__sph_pack(ptrdiff_t n, const fsi_real *x, const fsi_real *y, const fsi_real *z,
                          const fsi_real *fourth, fsi_real *out) {
    FSI__PARALLEL(n > 4096)
    for (ptrdiff_t i = 0; i < n; i++) {
        out[4 * i] = x[i];
        out[4 * i + 1] = y[i];
        out[4 * i + 2] = z[i];
        out[4 * i + 3] = fourth ? fourth[i] : 0;
    }
}

static void fsi__sph_pack_velocity(fsi_sph *sph, const fsi_real *fourth) {
    fsi__sph_pack(sph->now.count, sph->vx, sph->vy, sph->vz, fourth, sph->packed_v);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph prepare: neighbours */
/* Lists of the particles of one chunk, packed one after the other in the chunk's pool. order[i] = 1
   marks a list cut short.

       list:  | fluid of 0 | walls of 0 | fluid of 1 | walls of 1 | ...
              first        middle       last = first of 1             */
static void fsi__sph_list_chunk(fsi_sph *sph, int chunk) {
    int begin = chunk * FSI__SPH_CHUNK;
    int end = fsi__imin(begin + FSI__SPH_CHUNK, sph->now.count);
    int base = chunk * sph->list_room;
    fsi_real R = sph->desc.support + sph->desc.skin;
    fsi__sph_search search;
    search.radius2 = R * R;
    search.out = sph->list + base;
    search.n = 0;
    search.octets = 0;
    fsi__rows rows;
    fsi__ranges walls;
    walls.n = 0;
    int cell[3] = FSI__ZERO;

    for (int i = begin; i < end; i++) {
        search.point = fsi__sph_position(sph, i);
        search.room = fsi__imin(search.n + 8 * sph->desc.neighbors, sph->list_room - 16);
        search.full = 0;

        /* A new cell: look up its surroundings, once for all its particles. */
        int at[3];
        fsi__cell_of(&sph->bcells, search.point, at);
        if (i == begin || at[0] != cell[0] || at[1] != cell[1] || at[2] != cell[2]) {
            fsi__rows_around(&sph->cells, at, &rows);
            if (sph->now.boundary_count)
                fsi__ranges_around(&sph->bcells, search.point, &walls);
            memcpy(cell, at, sizeof cell);
        }

        /* Fluid. */
        sph->first[i] = base + search.n;
        search.x = sph->x;
        search.y = sph->y;
        search.z = sph->z;
        search.self = i;
        fsi__sph_search_rows(&search, &sph->cells, &rows, at, R);

        /* Walls. */
        sph->middle[i] = base + search.n;
        search.x = sph->sorted_bx;
        search.y = sph->sorted_by;
        search.z = sph->sorted_bz;
        search.self = -1;
        for (int k = 0; k < walls.n; k++)
            fsi__sph_search_candidates(&search, &walls.range[k]);
        fsi__sph_search_test(&search);
        sph->last[i] = base + search.n;
        sph->order[i] = search.full;
    }
}

/* With a skin (Verlet lists) the positions that the lists were made for are remembered: x, y, z of
   the fluid and bx, each range as long as the array it copies. */
typedef struct fsi__sph_listed {
    fsi_real *x, *y, *z, *bx;
} fsi__sph_listed;

static fsi__sph_listed fsi__sph_listed_at(const fsi_sph *sph) {
    size_t n = (size_t)sph->desc.capacity + 16;
    fsi__sph_listed listed;
    listed.x = sph->listed_at;
    listed.y = listed.x + n;
    listed.z = listed.y + n;
    listed.bx = listed.z + n;

    return listed;
}

/* Are there remembered positions, and all of them inside the outermost cells? */
static int fsi__sph_listed_within(const fsi_sph *sph) {
    if (!(sph->desc.skin > 0))
        return 0;
    fsi__sph_listed old = fsi__sph_listed_at(sph);
    for (int i = 0; i < sph->now.count; i++)
        if (!fsi__sph_within(sph, fsi_vec(old.x[i], old.y[i], old.z[i])))
            return 0;

    return fsi__sph_all_within(sph, sph->now.boundary_count, old.bx);
}

/* May the old lists serve? 1 while nothing moved further than half the skin. */
static int fsi__sph_list_serves(const fsi_sph *sph) {
    if (!(sph->desc.skin > 0) || !sph->now.list_valid)
        return 0;
    fsi__sph_listed old = fsi__sph_listed_at(sph);
    fsi_real limit = sph->desc.skin / 2;

    for (int i = 0; i < sph->now.count; i++)
        if (!fsi__sph_closer(sph, i, fsi_vec(old.x[i], old.y[i], old.z[i]), limit))
            return 0;

    for (int i = 0; sph->now.boundary_dirty && i < sph->now.boundary_count; i++) {
        fsi_vec3 moved = fsi_vec_sub(fsi__vec_at(sph->bx, i), fsi__vec_at(old.bx, i));
        if (!(fsi_vec_dot(moved, moved) < limit * limit))
            return 0;
    }

    return 1;
}

static void fsi__sph_remember(fsi_sph *sph) {
    if (!(sph->desc.skin > 0))
        return;
    fsi__sph_listed old = fsi__sph_listed_at(sph);
    size_t bytes = (size_t)sph->now.count * sizeof(fsi_real);
    memcpy(old.x, sph->x, bytes);
    memcpy(old.y, sph->y, bytes);
    memcpy(old.z, sph->z, bytes);
    memcpy(old.bx, sph->bx, 3 * (size_t)sph->now.boundary_count * sizeof(fsi_real));
    sph->now.list_valid = 1;
}

/* Says where the particles are. */
static void fsi__sph_be_at(fsi_sph *sph, fsi__sph_listed places) {
    sph->x = places.x;
    sph->y = places.y;
    sph->z = places.z;
    sph->bx = places.bx;
}

/* Chunks of 256 particles, the last one shorter. */
static int fsi__sph_chunks(const fsi_sph *sph) {
    return (sph->now.count + FSI__SPH_CHUNK - 1) / FSI__SPH_CHUNK;
}

/* After a restore the Verlet lists are made again from the positions they came from (which are in
   the order of their cells): same order, same bits. For that time the fluid is where it was. */
static void fsi__sph_recall(fsi_sph *sph) {
    fsi__sph_listed now = {sph->x, sph->y, sph->z, sph->bx};
    fsi__sph_be_at(sph, fsi__sph_listed_at(sph));
    fsi__sph_fill_cells(sph);
    fsi__sph_sort_boundary(sph);
    for (int chunk = 0; chunk < fsi__sph_chunks(sph); chunk++)
        fsi__sph_list_chunk(sph, chunk);
    fsi__sph_be_at(sph, now);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph prepare: sums */
/* Every loop over neighbours below runs over the pairs of one fluid particle i with its neighbours
   of one kind: fluid j, or boundary b. Symbols, in pairs and formulas:
     m      mass, kg; for a boundary particle Psi = rho0 V_b
     rho    density, kg/m^3; rho0 at rest
     x_ij   x_i - x_j, m             v_ij  v_i - v_j, m/s
     W, F   kernel and its slope, grad W = F x_ij
     k      stiffness p / rho^2
     G      sum m grad W             g2    sum |m grad W|^2 */
typedef struct fsi__sph_pairs {
    const fsi_real *own_x, *own_v;     /* particle i: x y z m; v and a fourth number */
    const fsi_real *other_x, *other_v; /* the packed particles that the list numbers */
    const int32_t *list;               /* [count] */
    fsi_real *slope;                   /* [count] m_j F of each pair */
    int count;
} fsi__sph_pairs;

enum {
    FSI__SPH_FLUID,
    FSI__SPH_WALLS
};

FSI__FORCE_INLINE fsi__sph_pairs fsi__sph_pairs_of(const fsi_sph *sph, ptrdiff_t i, int kind) {
    int begin = kind == FSI__SPH_FLUID ? sph->first[i] : sph->middle[i];
    int end = kind == FSI__SPH_FLUID ? sph->middle[i] : sph->last[i];
    size_t others = kind == FSI__SPH_FLUID ? 0 : fsi__sph_packed_boundary(sph);
    fsi__sph_pairs pairs;
    pairs.own_x = sph->packed_x + 4 * i;
    pairs.own_v = sph->packed_v + 4 * i;
    pairs.other_x = sph->packed_x + others;
    pairs.other_v = sph->packed_v + others;
    pairs.list = sph->list + begin;
    pairs.slope = sph->slope + begin;
    pairs.count = end - begin;
    return pairs;
}

/* a - b of two packed particles, without the fourth number. */
FSI__INLINE fsi_vec3 fsi__packed_difference(const fsi_real *a, const fsi_real *b) {
    return fsi_vec(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

/* The other particle of pair k, packed. */
FSI__FORCE_INLINE const fsi_real *fsi__pair_other_x(const fsi__sph_pairs *pairs, int k) {
    return pairs->other_x + 4 * (size_t)pairs->list[k];
}

FSI__FORCE_INLINE const fsi_real *fsi__pair_other_v(const fsi__sph_pairs *pairs, int k) {
    return pairs->other_v + 4 * (size_t)pairs->list[k];
}

/* x_ij and v_ij of pair k. */
FSI__INLINE fsi_vec3 fsi__pair_x(const fsi__sph_pairs *pairs, int k) {
    return fsi__packed_difference(pairs->own_x, fsi__pair_other_x(pairs, k));
}

FSI__INLINE fsi_vec3 fsi__pair_v(const fsi__sph_pairs *pairs, int k) {
    return fsi__packed_difference(pairs->own_v, fsi__pair_other_v(pairs, k));
}

/* The long loops take 32 pairs at a time. First all differences own - other go into a table, since
   what was just written in pieces is slow to read in one; then 8 rows at a time are worked on as
   lanes of vectors. */
#define FSI__SPH_BATCH 32

FSI__FORCE_INLINE void fsi__sph_row(const fsi_real *FSI__RESTRICT own,
                                    const fsi_real *FSI__RESTRICT other,
                                    fsi_real *FSI__RESTRICT row) {
    FSI__SPH_LANES
    for (int d = 0; d < 4; d++)
        row[d] = own[d] - other[d];
}

/* Rows between n and the next multiple of 8 belong to a particle without mass at the same place. */
FSI__FORCE_INLINE void fsi__sph_fill_rows(const fsi_real *own, int n,
                                          fsi_real table[FSI__SPH_BATCH][4]) {
    for (; n & 7; n++) {
        table[n][0] = table[n][1] = table[n][2] = 0;
        table[n][3] = own[3];
    }
}

/* Adds the 8 lanes in a fixed order. */
FSI__INLINE fsi_real fsi__sum_lanes(const fsi_real *lane) {
    return ((lane[0] + lane[4]) + (lane[1] + lane[5]))
           + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

/* 1 / sqrt(x), x > 0: a guess from the bits, then Newton. A call of sqrt() would keep gcc from
   vectorising (it may set errno). */
FSI__FORCE_INLINE fsi_real fsi__inverse_root(fsi_real x) {
#ifdef FSI_SINGLE
    uint32_t bits, magic = 0x5f375a86u;
#else
    uint64_t bits;
    uint64_t magic = (uint64_t)0x5fe6eb50u << 32 | 0xc7b537a9u;
#endif
    memcpy(&bits, &x, sizeof bits);
    bits = magic - (bits >> 1);
    fsi_real root;
    memcpy(&root, &bits, sizeof bits);

    for (int i = 0; i < (sizeof(fsi_real) == 4 ? 3 : 4); i++)
        root *= FSI_R(1.5) - FSI_R(0.5) * x * root * root;

    return root;
}

/* The two kernels of a fluid, as constants of the pair loops. */
typedef struct fsi__sph_kernels {
    fsi_kernel value, slope; /* for densities, for gradients */
    fsi_real R;              /* support */
    fsi_real value_scale;    /* W = value_scale w(q) */
    fsi_real slope_scale;    /* F = slope_scale w'(q) / q */
} fsi__sph_kernels;

FSI__FORCE_INLINE fsi__sph_kernels fsi__sph_make_kernels(const fsi_sph_desc *desc, fsi_kernel value,
                                                         fsi_kernel slope) {
    fsi__sph_kernels kernels;
    kernels.value = value;
    kernels.slope = slope;
    kernels.R = desc->support;
    kernels.value_scale = fsi__kernel_sigma(value, desc->dim, desc->support);
    kernels.slope_scale =
        fsi__kernel_sigma(slope, desc->dim, desc->support) / (desc->support * desc->support);

    return kernels;
}

/* What the pairs of one kind add to density / value_scale, G and g2; partial sums per lane. */
typedef struct fsi__sph_sums {
    fsi_real rho[8], gx[8], gy[8], gz[8], g2[8];
} fsi__sph_sums;

/* Sums over the pairs; leaves m F of each in slope for later passes. Writes may pass the end of the
   list: those entries are written later by the same thread, and the pool has room. Pairs beyond R
   (Verlet skin) add 0. */
FSI__FORCE_INLINE void fsi__sph_sum_pairs(const fsi__sph_pairs *pairs,
                                          const fsi__sph_kernels *kernels, int gradients,
                                          fsi__sph_sums *FSI__RESTRICT sum) {
    const fsi_real R = kernels->R;
    const fsi_real inverse_R = 1 / R;
    const fsi_real tiny = FSI_R(1e-12) * R * R;
    const fsi_real own_mass = pairs->own_x[3];
    fsi_real table[FSI__SPH_BATCH][4];

    for (int k = 0; k < pairs->count; k += FSI__SPH_BATCH) {
        int n = fsi__imin(pairs->count - k, FSI__SPH_BATCH);
        for (int j = 0; j < n; j++)
            fsi__sph_row(pairs->own_x, fsi__pair_other_x(pairs, k + j), table[j]);
        fsi__sph_fill_rows(pairs->own_x, n, table);
        for (int j = 0; j < n; j += 8) {
            fsi_real *FSI__RESTRICT slope = pairs->slope + k + j;
            FSI__SPH_LANES
            for (int lane = 0; lane < 8; lane++) {
                fsi_real x = table[j + lane][0];
                fsi_real y = table[j + lane][1];
                fsi_real z = table[j + lane][2];
                fsi_real m = own_mass - table[j + lane][3];
                fsi_real r2 = x * x + y * y + z * z + tiny;
                fsi_real inverse_r = fsi__inverse_root(r2);
                fsi_real q = r2 * inverse_r * inverse_R;
                fsi_real mF =
                    m * kernels->slope_scale * fsi__kernel_f(kernels->slope, q, inverse_r * R);
                slope[lane] = mF;
                sum->rho[lane] += m * fsi__kernel_w(kernels->value, q);
                if (!gradients)
                    continue;
                x *= mF;
                y *= mF;
                z *= mF;
                sum->gx[lane] += x;
                sum->gy[lane] += y;
                sum->gz[lane] += z;
                sum->g2[lane] += x * x + y * y + z * z;
            }
        }
    }
}

FSI__INLINE fsi_vec3 fsi__sph_sum_gradient(const fsi__sph_sums *sum) {
    return fsi_vec(fsi__sum_lanes(sum->gx), fsi__sum_lanes(sum->gy), fsi__sum_lanes(sum->gz));
}

/* Densities and slopes of all pairs of particles begin .. end - 1; DFSPH (gradients = 1): alpha =
   1 / (G . G' + g2), the inverse of -d(rho)/d(k) / dt^2, where G' counts walls FSI__SPH_MIRROR
   times (their pressure mirrors ours). */
FSI__FORCE_INLINE void fsi__sph_sums_with(fsi_sph *sph, int begin, int end, fsi_kernel value,
                                          fsi_kernel slope, int gradients) {
    const fsi__sph_kernels kernels = fsi__sph_make_kernels(&sph->desc, value, slope);
    const fsi_real scale = kernels.value_scale;
    const fsi_real w0 = scale * fsi__kernel_w(value, 0);
    int integrated = sph->desc.delta > 0 && !gradients; /* the density is not summed */
    for (int i = begin; i < end; i++) {
        fsi__sph_sums fluid, walls;
        memset(&fluid, 0, sizeof fluid);
        memset(&walls, 0, sizeof walls);
        fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_FLUID);
        fsi__sph_sum_pairs(&pairs, &kernels, gradients, &fluid);
        pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_WALLS);
        fsi__sph_sum_pairs(&pairs, &kernels, gradients, &walls);
        if (!integrated) {
            fsi_real around = fsi__sum_lanes(fluid.rho) + fsi__sum_lanes(walls.rho);
            sph->rho[i] = sph->mass[i] * w0 + scale * around;
        }
        if (gradients) {
            fsi_vec3 fluid_g = fsi__sph_sum_gradient(&fluid);
            fsi_vec3 walls_g = fsi__sph_sum_gradient(&walls);
            fsi_vec3 plain = fsi_vec_add(fluid_g, walls_g);
            fsi_vec3 mirrored = fsi_vec_mad(fluid_g, walls_g, FSI__SPH_MIRROR);
            fsi_real inverse = fsi_vec_dot(plain, mirrored) + fsi__sum_lanes(fluid.g2);
            /* Few neighbours must not mean a huge correction. */
            sph->alpha[i] = 1 / fsi__max(inverse, sph->least_alpha);
        }
    }
}

/* One copy of the loops for each kernel: a kernel that is a constant leaves no choice in them, and
   only then they are vectorised. */
static void fsi__sph_sums_chunk(fsi_sph *sph, int begin, int end) {
    const fsi_kernel cubic = FSI_KERNEL_CUBIC;
    const fsi_kernel wendland = FSI_KERNEL_WENDLAND;
    int dfsph = sph->desc.solver == FSI_SPH_DFSPH;
    if (sph->desc.kernel == FSI_KERNEL_POLY6)
        fsi__sph_sums_with(sph, begin, end, FSI_KERNEL_POLY6, FSI_KERNEL_SPIKY, dfsph);
    else if (sph->desc.kernel == FSI_KERNEL_WENDLAND && dfsph)
        fsi__sph_sums_with(sph, begin, end, wendland, wendland, 1);
    else if (sph->desc.kernel == FSI_KERNEL_WENDLAND)
        fsi__sph_sums_with(sph, begin, end, wendland, wendland, 0);
    else if (dfsph)
        fsi__sph_sums_with(sph, begin, end, cubic, cubic, 1);
    else
        fsi__sph_sums_with(sph, begin, end, cubic, cubic, 0);
}

/* Sums of all particles, chunk by chunk; search: make their lists first, which are then still in
   the cache. */
static void fsi__sph_sum_all(fsi_sph *sph, int search) {
    ptrdiff_t chunks = fsi__sph_chunks(sph);

    FSI__PARALLEL(chunks > 1)
    for (ptrdiff_t chunk = 0; chunk < chunks; chunk++) {
        int begin = (int)chunk * FSI__SPH_CHUNK;
        if (search)
            fsi__sph_list_chunk(sph, (int)chunk);
        fsi__sph_sums_chunk(sph, begin, fsi__imin(begin + FSI__SPH_CHUNK, sph->now.count));
    }
}

/* Statistics of lists (also of old ones: a list cut short stays so) and densities. */
static void fsi__sph_count(fsi_sph *sph) {
    fsi_sph_stats *stats = &sph->stats;
    fsi_real rest = sph->desc.density;
    fsi_real top = 0;
    double compression = 0;

    for (int i = 0; i < sph->now.count; i++) {
        int neighbours = sph->last[i] - sph->first[i];
        stats->pairs += neighbours;
        stats->max_neighbors = fsi__imax(stats->max_neighbors, neighbours);
        stats->truncated += sph->order[i];
        top = fsi__max(top, sph->rho[i]);
        compression += (double)fsi__max(sph->rho[i] - rest, 0);
    }
    stats->max_density = top / rest;
    stats->density_error = (fsi_real)(compression / (double)sph->now.count) / rest;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph prepare */
/* Is every position and velocity a number? Boundary particles count when they were moved. */
static int fsi__sph_finite(const fsi_sph *sph) {
    const fsi_real *fluid[] = {sph->x, sph->y, sph->z, sph->vx, sph->vy, sph->vz};
    for (int k = 0; k < 6; k++)
        if (!fsi_all_finite((size_t)sph->now.count, fluid[k]))
            return 0;
    return 1;
}

static int fsi__sph_boundary_finite(const fsi_sph *sph) {
    size_t n = 3 * (size_t)sph->now.boundary_count;
    return fsi_all_finite(n, sph->bx) && fsi_all_finite(n, sph->bv);
}

/* Brings the sorted copies of the boundary up to date. They are sorted anew when lists are made and
   something moved (or may have moved since the lists that a skin kept). */
static void fsi__sph_update_boundary(fsi_sph *sph) {
    int dirty = sph->now.boundary_dirty;
    int resort = sph->stats.rebuilt && (dirty || sph->desc.skin > 0);
    if (resort)
        fsi__sph_sort_boundary(sph);
    else if (dirty)
        fsi__sph_copy_boundary(sph);
    if (dirty)
        fsi__sph_boundary_volumes(sph);
    if (resort || dirty)
        fsi__sph_pack_boundary(sph);
    sph->now.boundary_dirty = 0;
}

FSI_API fsi_result fsi_sph_prepare(fsi_sph *sph, fsi_real dt) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!fsi__positive(dt) || (sph->now.boundary_dirty && !fsi__sph_boundary_finite(sph)))
        return FSI_ERR_ARGUMENT;
    if (!fsi__sph_finite(sph))
        return FSI_ERR_NUMERIC;

    /* Particles go and come. */
    memset(&sph->stats, 0, sizeof sph->stats);
    fsi__sph_remove(sph);
    fsi__sph_emit(sph);
    sph->ready = 1;
    if (sph->now.count == 0)
        return FSI_EMPTY;

    /* Sorting, unless the old lists serve. */
    sph->stats.rebuilt = !fsi__sph_list_serves(sph);
    if (sph->stats.rebuilt) {
        fsi__sph_sort(sph);
        fsi__sph_remember(sph);
    }
    fsi__sph_update_boundary(sph);

    /* Lists and densities. */
    fsi__sph_pack(sph->now.count, sph->x, sph->y, sph->z, sph->mass, sph->packed_x);
    fsi__sph_sum_all(sph, sph->stats.rebuilt);
    fsi__sph_count(sph);

    return sph->stats.truncated || sph->stats.blocked ? FSI_CAPPED : FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph accelerate: forces */
/* Symbols beyond those of the sums: mu viscosity, alpha and c of the artificial one, h = R / 2, eta
   = 0.01 h^2, g gravity.
     m_i a_i = -sum m_i m_j (k_i + k_j) grad W + friction + m_i g
   Friction, all antisymmetric in i, j:
     laminar     2 mu / rho0^2 m_j F r^2 / (r^2 + eta) v_ij                       (Morris)
                 -mu / rho0^2 m_j lap W v_ij                        (with FSI_KERNEL_POLY6)
     artificial  alpha c h / rho0 m_j min(0, v_ij . x_ij) / (r^2 + eta) F x_ij    (Monaghan)
   The artificial one is central: it keeps angular momentum. The rest density stands for rho_i and
   rho_j here: summed densities close to a free surface are too low.
   Walls: k_b = k_i + g . (x_b - x_i) / rho0: the pressure at rest goes on into the wall (Adami et
   al. 2012). With k_b = k_i alone the layer at the floor must carry the weight of half a layer too
   much, and the layers above it alternate about rho g depth. The addition (lift) is at most k_i, so
   that a lone particle beside a wall, without pressure, feels nothing. */
typedef struct fsi__sph_law {
    fsi_real laminar;         /* mu / rho0^2 between fluid particles */
    fsi_real wall;            /* mu / rho0^2 between fluid and wall */
    fsi_real artificial;      /* alpha c h / rho0 */
    fsi_real eta;             /* keeps r^2 + eta away from 0 */
    fsi_real laplacian;       /* of the viscosity kernel at r = 0; 0 without the trio */
    fsi_real inverse_support; /* 1 / R */
    fsi_vec3 lift;            /* -g / rho0 */
    fsi_kernel kernel;        /* whose slope makes pressure forces */
    fsi_real slope_scale;     /* F = slope_scale w'(q) / q */
} fsi__sph_law;

static fsi__sph_law fsi__sph_make_law(const fsi_sph_desc *desc) {
    fsi__sph_law law;
    fsi_real h = desc->support / 2;
    fsi_real rest = desc->density;
    law.laplacian = 0;
    if (desc->kernel == FSI_KERNEL_POLY6)
        law.laplacian = fsi_kernel_laplacian(FSI_KERNEL_VISCOSITY, desc->dim, desc->support, 0);
    law.laminar = desc->viscosity / (rest * rest);
    law.wall = desc->wall_viscosity / (rest * rest);
    law.artificial = desc->artificial * desc->sound_speed * h / rest;
    law.eta = FSI_R(0.01) * h * h;
    law.inverse_support = 1 / desc->support;
    law.lift = fsi_vec_scale(desc->gravity, -1 / rest);
    law.kernel = fsi__sph_slope_kernel(desc);
    law.slope_scale =
        fsi__kernel_sigma(law.kernel, desc->dim, desc->support) / (desc->support * desc->support);

    return law;
}

/* How fast a velocity difference is evened out: -2 m F r^2 / (r^2 + eta), or (trio) m times the
   viscosity kernel's Laplacian. */
FSI__FORCE_INLINE fsi_real fsi__sph_diffusion(const fsi__sph_law *law, int trio, fsi_real m,
                                              fsi_real mF, fsi_real r2) {
    if (trio)
        return m * law->laplacian * fsi__max(1 - fsi__sqrt(r2) * law->inverse_support, 0);
    return -2 * mF * r2 * (1 / (r2 + law->eta));
}

/* How much larger the stiffness of a wall particle is: lift . x_ib, bounded. */
FSI__FORCE_INLINE fsi_real fsi__sph_lift(const fsi__sph_law *law, fsi_real x, fsi_real y,
                                         fsi_real z, fsi_real bound) {
    fsi_real lift = law->lift.x * x + law->lift.y * y + law->lift.z * z;
    lift = lift < bound ? lift : bound;
    return lift > -bound ? lift : -bound;
}

/* Terms of a force, beside the pressure. */
enum {
    FSI__SPH_PLAIN = 0,
    FSI__SPH_ARTIFICIAL = 1,
    FSI__SPH_LAMINAR = 2,
    FSI__SPH_TRIO = 4,    /* with LAMINAR: by the viscosity kernel */
    FSI__SPH_MIRRORED = 8 /* the pairs are walls */
};

/* Adds the accelerations of the pairs of one kind, 8 pairs at a time. packed_v holds (v, k). Slopes
   behind the end of a list are finite (the sums wrote them) and meet a zero distance. bound: of the
   lift of walls. */
FSI__FORCE_INLINE void fsi__sph_force_pairs(const fsi__sph_pairs *pairs,
                                            const fsi__sph_law *FSI__RESTRICT law, int terms,
                                            fsi_real bound, fsi_real *FSI__RESTRICT acceleration) {
    const fsi_real mu = terms & FSI__SPH_MIRRORED ? law->wall : law->laminar;
    const fsi_real own_mass = pairs->own_x[3];
    const fsi_real own_k = pairs->own_v[3];
    fsi_real apart[FSI__SPH_BATCH][4], relative[FSI__SPH_BATCH][4];
    fsi_real ax[8], ay[8], az[8];
    if (pairs->count == 0)
        return;
    FSI__SPH_LANES
    for (int lane = 0; lane < 8; lane++)
        ax[lane] = ay[lane] = az[lane] = 0;

    for (int k = 0; k < pairs->count; k += FSI__SPH_BATCH) {
        int n = fsi__imin(pairs->count - k, FSI__SPH_BATCH);
        for (int j = 0; j < n; j++) {
            fsi__sph_row(pairs->own_x, fsi__pair_other_x(pairs, k + j), apart[j]);
            fsi__sph_row(pairs->own_v, fsi__pair_other_v(pairs, k + j), relative[j]);
        }
        fsi__sph_fill_rows(pairs->own_x, n, apart);
        fsi__sph_fill_rows(pairs->own_v, n, relative);
        for (int j = 0; j < n; j += 8) {
            const fsi_real *FSI__RESTRICT slope = pairs->slope + k + j;
            FSI__SPH_LANES
            for (int lane = 0; lane < 8; lane++) {
                int row = j + lane;
                fsi_real x = apart[row][0];
                fsi_real y = apart[row][1];
                fsi_real z = apart[row][2];
                fsi_real vx = relative[row][0];
                fsi_real vy = relative[row][1];
                fsi_real vz = relative[row][2];
                fsi_real mF = slope[lane];
                fsi_real r2 = x * x + y * y + z * z;

                /* Along x_ij: pressure and artificial viscosity. */
                fsi_real along;
                if (terms & FSI__SPH_MIRRORED)
                    along = -(FSI__SPH_MIRROR * own_k + fsi__sph_lift(law, x, y, z, bound)) * mF;
                else
                    along = -(2 * own_k - relative[row][3]) * mF;
                if (terms & FSI__SPH_ARTIFICIAL) {
                    fsi_real approach = x * vx + y * vy + z * vz;
                    approach = approach < 0 ? approach : 0;
                    along += law->artificial * approach / (r2 + law->eta) * mF;
                }

                /* Along v_ij: laminar viscosity. */
                if (terms & FSI__SPH_LAMINAR) {
                    fsi_real drag = -mu
                                    * fsi__sph_diffusion(law, terms & FSI__SPH_TRIO,
                                                         own_mass - apart[row][3], mF, r2);
                    ax[lane] += drag * vx;
                    ay[lane] += drag * vy;
                    az[lane] += drag * vz;
                }
                ax[lane] += along * x;
                ay[lane] += along * y;
                az[lane] += along * z;
            }
        }
    }
    acceleration[0] += fsi__sum_lanes(ax);
    acceleration[1] += fsi__sum_lanes(ay);
    acceleration[2] += fsi__sum_lanes(az);
}

FSI__FORCE_INLINE void fsi__sph_forces_with(fsi_sph *sph, const fsi__sph_law *law, int begin,
                                            int end, int fluid, int walls) {
    for (ptrdiff_t i = begin; i < end; i++) {
        fsi_real sum[3] = FSI__ZERO;
        fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_FLUID);
        fsi__sph_force_pairs(&pairs, law, fluid, 0, sum);
        pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_WALLS);
        fsi__sph_force_pairs(&pairs, law, walls | FSI__SPH_MIRRORED, fsi__max(sph->stiffness[i], 0),
                             sum);
        sph->ax[i] = sum[0] + sph->desc.gravity.x;
        sph->ay[i] = sum[1] + sph->desc.gravity.y;
        sph->az[i] = sph->desc.dim == 2 ? 0 : sum[2] + sph->desc.gravity.z;
    }
}

/* One copy of the loops per set of terms, as for the sums. A term with a zero coefficient adds
   zero, so each set holds the ones before it. */
static void fsi__sph_forces_chunk(fsi_sph *sph, const fsi__sph_law *law, int begin, int end) {
    const int artificial = FSI__SPH_ARTIFICIAL;
    const int laminar = artificial | FSI__SPH_LAMINAR;
    int sticky = law->wall > 0;
    int viscous = law->laminar > 0 || sticky;
    if (viscous && law->laplacian > 0)
        fsi__sph_forces_with(sph, law, begin, end, laminar | FSI__SPH_TRIO,
                             FSI__SPH_LAMINAR | FSI__SPH_TRIO);
    else if (sticky)
        fsi__sph_forces_with(sph, law, begin, end, laminar, FSI__SPH_LAMINAR);
    else if (viscous)
        fsi__sph_forces_with(sph, law, begin, end, laminar, FSI__SPH_PLAIN);
    else if (law->artificial > 0)
        fsi__sph_forces_with(sph, law, begin, end, artificial, FSI__SPH_PLAIN);
    else
        fsi__sph_forces_with(sph, law, begin, end, FSI__SPH_PLAIN, FSI__SPH_PLAIN);
}

/* Accelerations from packed_v = (v, k; DFSPH: 0) and stiffness = k (DFSPH: of the step before). */
static void fsi__sph_forces(fsi_sph *sph) {
    const fsi__sph_law law = fsi__sph_make_law(&sph->desc);
    ptrdiff_t chunks = fsi__sph_chunks(sph);

    FSI__PARALLEL(chunks > 1)
    for (ptrdiff_t chunk = 0; chunk < chunks; chunk++) {
        int begin = (int)chunk * FSI__SPH_CHUNK;
        fsi__sph_forces_chunk(sph, &law, begin, fsi__imin(begin + FSI__SPH_CHUNK, sph->now.count));
    }
}

/* v += dt a */
static void fsi__sph_kick(fsi_sph *sph, fsi_real dt) {
    size_t n = (size_t)sph->now.count;
    fsi_axpy(n, dt, sph->ax, sph->vx);
    fsi_axpy(n, dt, sph->ay, sph->vy);
    fsi_axpy(n, dt, sph->az, sph->vz);
}

/* XSPH: v_i += eps sum m_j / rho0 (v_j - v_i) W. Momentum is kept, since all use the velocities of
   the packed copy. */
static void fsi__sph_xsph(fsi_sph *sph) {
    if (!(sph->desc.xsph > 0))
        return;
    const fsi_real R = sph->desc.support;
    const fsi_real sigma = fsi__kernel_sigma(sph->desc.kernel, sph->desc.dim, R);
    const fsi_real scale = sph->desc.xsph * sigma / sph->desc.density;
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, NULL);

    FSI__PARALLEL(n > 256)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_vec3 change = FSI__ZERO;
        fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_FLUID);
        for (int k = 0; k < pairs.count; k++) {
            fsi_real m = fsi__pair_other_x(&pairs, k)[3];
            fsi_real q = fsi__min(fsi__length(fsi__pair_x(&pairs, k)) / R, 1);
            fsi_real weight = scale * m * fsi__kernel_w(sph->desc.kernel, q);
            change = fsi_vec_mad(change, fsi__pair_v(&pairs, k), -weight);
        }
        fsi__sph_change_velocity(sph, i, change);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>sph accelerate: forces on objects */
/* Wall guard: a lone particle is slowed down by a wall's density only when it is nearly through.
   One that is closer than 0.8 spacing to boundary particles loses the velocity towards them.

        .   fluid particle i            normal = sum w (x_i - x_b)
       /|\                              w      = (0.8 spacing - r)+
      o o o o  boundary particles b     guard  = sum w where it acted */
#define FSI__SPH_GUARD FSI_R(0.8)

static void fsi__sph_guard(fsi_sph *sph) {
    const fsi_real reach = FSI__SPH_GUARD * sph->desc.spacing;
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, NULL);

    FSI__PARALLEL(n > 4096)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_vec3 normal = FSI__ZERO;
        fsi_vec3 wall = normal;
        fsi_real sum = 0;
        sph->guard[i] = 0;
        fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_WALLS);
        for (int k = 0; k < pairs.count; k++) {
            fsi_vec3 apart = fsi__pair_x(&pairs, k);
            fsi_real weight = reach - fsi__length(apart);
            if (!(weight > 0))
                continue;
            sum += weight;
            normal = fsi_vec_mad(normal, apart, weight);
            wall = fsi_vec_mad(wall, fsi_vec_load(fsi__pair_other_v(&pairs, k)), weight);
        }
        if (!(sum > 0))
            continue;

        /* The velocity against the mean velocity of that wall. */
        normal = fsi__unit(normal);
        wall = fsi_vec(wall.x / sum, wall.y / sum, wall.z / sum);
        fsi_real away = fsi_vec_dot(fsi_vec_sub(fsi__sph_velocity(sph, i), wall), normal);
        if (away >= 0)
            continue;
        fsi__sph_change_velocity(sph, i, fsi_vec_scale(normal, -away));
        sph->guard[i] = sum;
    }
}

/* Parts of the force of the fluid on a boundary particle. */
enum {
    FSI__REACT_PRESSURE = 1, /* mirrored pressure */
    FSI__REACT_FORCES = 2,   /* what fsi__sph_forces added: friction and lift */
    FSI__REACT_GUARD = 4     /* alone: the impulses of the wall guard over the kick */
};

/* What the guard of fluid particle i does to a wall particle at distance r: its impulse over the
   kick, shared by the weights that made the normal. packed_v holds the velocities before it
   acted. */
FSI__INLINE fsi_vec3 fsi__sph_guard_force(const fsi_sph *sph, int i, fsi_real r2, fsi_real kick) {
    fsi_real weight = FSI__SPH_GUARD * sph->desc.spacing - fsi__sqrt(r2);
    if (!(weight > 0))
        return fsi_vec(0, 0, 0);
    fsi_vec3 before = fsi_vec_load(sph->packed_v + 4 * (size_t)i);
    fsi_vec3 change = fsi_vec_sub(before, fsi__sph_velocity(sph, i));
    return fsi_vec_scale(change, weight * (sph->mass[i] / (sph->guard[i] * kick)));
}

/* Reaction on one boundary particle, gathered from the fluid around it: f_b = -sum (force of b on
   i). */
static fsi_vec3 fsi__sph_react_one(const fsi_sph *sph, int sorted, const fsi__sph_law *law,
                                   int parts, fsi_real kick) {
    const fsi_real R = sph->desc.support;
    const fsi_real tiny = FSI_R(1e-12) * R * R;
    size_t at = fsi__sph_packed_boundary(sph) + 4 * (size_t)sorted;
    const fsi_real *wall_x = sph->packed_x + at;
    const fsi_real *wall_v = sph->packed_v + at;
    fsi_vec3 force = FSI__ZERO;
    fsi__ranges around;
    fsi__ranges_around(&sph->cells, fsi_vec_load(wall_x), &around);

    for (int n = 0; n < around.n; n++)
        for (int i = around.range[n].begin; i < around.range[n].end; i++) {
            if (parts == FSI__REACT_GUARD && !(sph->guard[i] > 0))
                continue;
            const fsi_real *own_x = sph->packed_x + 4 * (size_t)i;
            fsi_vec3 apart = fsi__packed_difference(own_x, wall_x);
            fsi_real r2 = fsi_vec_dot(apart, apart);
            if (!(r2 < R * R))
                continue;
            if (parts == FSI__REACT_GUARD) {
                force = fsi_vec_add(force, fsi__sph_guard_force(sph, i, r2, kick));
                continue;
            }

            /* Along x_ib: pressure and lift. */
            fsi_real q = fsi__min(fsi__sqrt(r2 + tiny) / R, 1);
            fsi_real F = law->slope_scale * fsi__kernel_f(law->kernel, q, 1 / q);
            fsi_real m = own_x[3] * wall_x[3]; /* m_i Psi_b */
            fsi_real k = sph->stiffness[i];
            if (parts & FSI__REACT_PRESSURE)
                force = fsi_vec_mad(force, apart, m * FSI__SPH_MIRROR * k * F);
            if (!(parts & FSI__REACT_FORCES))
                continue;
            fsi_real lift = fsi__sph_lift(law, apart.x, apart.y, apart.z, fsi__max(k, 0));
            force = fsi_vec_mad(force, apart, m * lift * F);

            /* Along v_ib: friction. */
            if (!(law->wall > 0))
                continue;
            fsi_real drag = m * law->wall * fsi__sph_diffusion(law, law->laplacian > 0, 1, F, r2);
            fsi_vec3 relative = fsi__packed_difference(sph->packed_v + 4 * (size_t)i, wall_v);
            force = fsi_vec_mad(force, relative, drag);
        }

    return force;
}

/* Adds parts of the forces on two-way objects: stiffness[] holds k of the fluid, packed_v the
   velocities. */
static void fsi__sph_react(fsi_sph *sph, int parts, fsi_real kick) {
    fsi__sph_law law = fsi__sph_make_law(&sph->desc);
    int wanted = 0;
    for (int k = 0; k < sph->now.objects; k++)
        wanted |= sph->now.object[k].two_way;
    ptrdiff_t n = wanted ? sph->now.boundary_count : 0;

    FSI__PARALLEL(n > 256)
    for (ptrdiff_t i = 0; i < n; i++) {
        int b = sph->border[i];
        if (!sph->now.object[sph->bobject[b]].two_way)
            continue;
        fsi_vec3 more = fsi__sph_react_one(sph, (int)i, &law, parts, kick);
        fsi__vec_add_at(sph->bf, b, more);
    }
}

/* Force and torque of each two-way object, in fixed order, in double. */
static void fsi__sph_sum_objects(fsi_sph *sph) {
    for (int k = 0; k < sph->now.objects; k++) {
        fsi_sph_object *object = &sph->now.object[k];
        double force[3] = FSI__ZERO;
        double torque[3] = FSI__ZERO;
        if (!object->two_way)
            continue;
        object->contact = 0;
        for (int i = object->first; i < object->first + object->count; i++) {
            fsi_vec3 push = fsi__vec_at(sph->bf, i);
            fsi_vec3 arm = fsi_vec_sub(fsi__vec_at(sph->bx, i), object->centre);
            fsi_vec3 turn = fsi_vec_cross(arm, push);
            for (int d = 0; d < 3; d++) {
                force[d] += (double)fsi__get(push, d);
                torque[d] += (double)fsi__get(turn, d);
            }
            object->contact += push.x != 0 || push.y != 0 || push.z != 0;
        }
        object->force = fsi_vec((fsi_real)force[0], (fsi_real)force[1], (fsi_real)force[2]);
        object->torque = fsi_vec((fsi_real)torque[0], (fsi_real)torque[1], (fsi_real)torque[2]);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>sph accelerate: wcsph */
/* Pressures by Tait and their stiffness. */
static void fsi__wc_pressures(fsi_sph *sph) {
    const fsi_sph_desc *desc = &sph->desc;
    ptrdiff_t n = sph->now.count;

    FSI__PARALLEL(n > 4096)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real rho = sph->rho[i];
        fsi_real p = fsi_sph_tait(rho, desc->density, desc->sound_speed, desc->gamma);
        if (!desc->tension && p < 0)
            p = 0;
        sph->p[i] = p;
        sph->stiffness[i] = rho > 0 ? p / (rho * rho) : 0;
    }
}

/* Weakly compressible: the density says how large the pressure is. Leap-frog: v(n+1/2) = v(n-1/2) +
   a(n) kick, kick = (dt_old + dt) / 2. */
static void fsi__wc_accelerate(fsi_sph *sph, fsi_real kick) {
    fsi__wc_pressures(sph);
    fsi__sph_pack_velocity(sph, sph->stiffness);
    fsi__sph_forces(sph);
    fsi__sph_react(sph, FSI__REACT_PRESSURE | FSI__REACT_FORCES, kick);
    fsi__sph_kick(sph, kick);
    fsi__sph_xsph(sph);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph accelerate: dfsph */
/* Divergence-free SPH (Bender and Koschier 2017) as projected Jacobi on the stiffness k of each
   particle:
     dv_i/dt = -sum m_j (k_i + k_j) grad W - mirror sum Psi_b k_i grad W,   k >= 0
     D_i     = sum m_j v_ij . grad W                        rate of the density, D rho / D t
     density solve:     residual rho_i + dt D_i - rho0,     kappa   = dt^2 k
     divergence solve:  residual D_i,                       kappa_v = dt k
     kappa_i <- max(0, kappa_i + omega residual_i alpha_i)
   Nesterov's momentum is put on top (from 10 to 7 iterations in a dam break of 40,000). kappa and
   kappa_v are kept for the next step. The packed velocities (v, change of kappa) are iterated. */
/* compression undone in one step of max_dt: all at once would throw particles that hit a wall
 * back at twice their speed */
#define FSI__DF_EXCESS FSI_R(0.02)
/* measured: 0.5 may burst with wide supports, 0.3 costs a third more iterations */
#define FSI__DF_OMEGA FSI_R(0.4)

/* Adds m F x_ij v_ij of pair k, component by component; the fourth is dropped later. */
FSI__FORCE_INLINE void fsi__df_rate_pair(const fsi__sph_pairs *pairs, int k,
                                         fsi_real *FSI__RESTRICT sum) {
    const fsi_real *FSI__RESTRICT x = fsi__pair_other_x(pairs, k);
    const fsi_real *FSI__RESTRICT v = fsi__pair_other_v(pairs, k);
    const fsi_real mF = pairs->slope[k];
    FSI__SPH_LANES
    for (int d = 0; d < 4; d++)
        sum[d] += mF * (pairs->own_x[d] - x[d]) * (pairs->own_v[d] - v[d]);
}

/* D of the pairs of one kind. Two sums: one addition need not wait for the other. */
FSI__FORCE_INLINE fsi_real fsi__df_rate_pairs(const fsi__sph_pairs *pairs) {
    fsi_real even[4] = FSI__ZERO;
    fsi_real odd[4] = FSI__ZERO;
    int k;

    for (k = 0; k + 1 < pairs->count; k += 2) {
        fsi__df_rate_pair(pairs, k, even);
        fsi__df_rate_pair(pairs, k + 1, odd);
    }
    if (k < pairs->count)
        fsi__df_rate_pair(pairs, k, even);

    return (even[0] + odd[0]) + (even[1] + odd[1]) + (even[2] + odd[2]);
}

/* D_i by the packed velocities. */
FSI__INLINE fsi_real fsi__df_rate(const fsi_sph *sph, ptrdiff_t i) {
    fsi__sph_pairs fluid = fsi__sph_pairs_of(sph, i, FSI__SPH_FLUID);
    fsi__sph_pairs walls = fsi__sph_pairs_of(sph, i, FSI__SPH_WALLS);
    return fsi__df_rate_pairs(&fluid) + fsi__df_rate_pairs(&walls);
}

/* Which of the two solves. */
typedef enum fsi__df_kind {
    FSI__DF_DIVERGENCE,
    FSI__DF_DENSITY
} fsi__df_kind;

/* One Jacobi iteration for kappa: its change into the fourth packed number. momentum: how much of
   the last change is added once more. Returns the mean residual, relative to rho0 (density) or rho0
   / dt (divergence). */
static fsi_real fsi__df_residual(fsi_sph *sph, fsi_real dt, fsi__df_kind kind,
                                 const fsi_real *kappa, fsi_real omega, fsi_real momentum) {
    const fsi_real rest = sph->desc.density;
    int density = kind == FSI__DF_DENSITY;
    int two_sided = sph->desc.tension && !density;
    ptrdiff_t n = sph->now.count;

    /* Rates first: their loops read the fourth number of neighbours too, and drop it. */
    FSI__PARALLEL(n > 256)
    for (ptrdiff_t i = 0; i < n; i++)
        sph->work[i] = fsi__df_rate(sph, i);

    /* With few neighbours the divergence means nothing. */
    int few = sph->desc.dim == 3 ? 20 : 7;

    FSI__PARALLEL(n > 4096)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real residual = sph->work[i];
        if (density)
            residual = fsi__min(sph->rho[i] - rest, sph->excess) + dt * residual;
        fsi_real next = kappa[i] + omega * residual * sph->alpha[i];
        if (!density && sph->last[i] - sph->first[i] < few) {
            next = 0;
            residual = 0;
        }
        if (next < 0 && !two_sided)
            next = 0;
        fsi_real ahead = next + momentum * (next - sph->previous[i]);
        if (ahead < 0 && !two_sided)
            ahead = 0;
        sph->previous[i] = next;
        sph->packed_v[4 * i + 3] = ahead - kappa[i];

        /* Too much pressure is an error as long as there is any. */
        if (residual < 0)
            residual = two_sided ? -residual : fsi__min(-residual, kappa[i] / sph->alpha[i]);
        sph->work[i] = (density ? residual : residual * dt) / rest;
    }

    return (fsi_real)(fsi_sum((size_t)n, sph->work) / (double)n);
}

/* sum += sum m (own + other) grad W over the pairs of one kind: own and other are changes of kappa;
   walls have none. */
FSI__FORCE_INLINE void fsi__df_push_pairs(const fsi__sph_pairs *pairs, fsi_real own, int walls,
                                          fsi_real *FSI__RESTRICT sum) {
    fsi_real part[4] = FSI__ZERO;

    for (int k = 0; k < pairs->count; k++) {
        const fsi_real *x = fsi__pair_other_x(pairs, k);
        fsi_real push = pairs->slope[k] * (walls ? own : own + fsi__pair_other_v(pairs, k)[3]);
        FSI__SPH_LANES
        for (int d = 0; d < 4; d++)
            part[d] += push * (pairs->own_x[d] - x[d]);
    }

    for (int d = 0; d < 4; d++)
        sum[d] += part[d];
}

/* v -= scale * (what the changes of kappa push), and takes the changes into kappa (NULL: they are
   in it already). */
static void fsi__df_push(fsi_sph *sph, fsi_real scale, fsi_real *kappa) {
    ptrdiff_t n = sph->now.count;

    FSI__PARALLEL(n > 256)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real *v = sph->packed_v + 4 * i;
        fsi_real sum[4] = FSI__ZERO;
        fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_FLUID);
        fsi__df_push_pairs(&pairs, v[3], 0, sum);
        pairs = fsi__sph_pairs_of(sph, i, FSI__SPH_WALLS);
        fsi__df_push_pairs(&pairs, FSI__SPH_MIRROR * v[3], 1, sum);
        v[0] -= scale * sum[0];
        v[1] -= scale * sum[1];
        v[2] -= scale * sum[2];
        if (kappa)
            kappa[i] += v[3];
    }
}

/* One solve: warm start, then iterations until the mean residual is low. Returns how many; *error
   gets what is left. */
static int fsi__df_solve(fsi_sph *sph, fsi_real dt, fsi__df_kind kind, fsi_real *error) {
    int density = kind == FSI__DF_DENSITY;
    fsi_real *kappa = density ? sph->kappa : sph->kappa_v;
    fsi_real tolerance = density ? sph->desc.density_error : sph->desc.divergence_error;
    fsi_real scale = density ? 1 / dt : 1;
    ptrdiff_t n = sph->now.count;

    /* Warm start: the same pressure in a step of another length. */
    int warm = sph->now.dt_old > 0 && !sph->desc.cold_start;
    fsi_real ratio = warm ? dt / sph->now.dt_old : 0;
    if (density)
        ratio *= ratio;

    for (ptrdiff_t i = 0; i < n; i++) {
        kappa[i] *= ratio;
        sph->packed_v[4 * i + 3] = kappa[i];
        sph->previous[i] = kappa[i];
    }
    if (ratio > 0)
        fsi__df_push(sph, scale, NULL);

    /* t is Nesterov's sequence. */
    fsi_real t = 1;
    fsi_real last = FSI_REAL_MAX;
    fsi_real omega = FSI__DF_OMEGA;

    for (int iterations = 0;; iterations++) {
        fsi_real t_next = FSI_R(0.5) * (1 + fsi__sqrt(1 + 4 * t * t));
        *error = fsi__df_residual(sph, dt, kind, kappa, omega, (t - 1) / t_next);
        t = t_next;

        /* It gets worse: start the momentum again, with shorter steps. */
        if (*error > FSI_R(1.3) * last) {
            t = 1;
            omega = fsi__max(FSI_R(0.7) * omega, FSI_R(0.1));
        }
        last = *error;
        int done = *error <= tolerance && iterations >= density;
        if (done || iterations == sph->desc.max_iterations || !fsi__finite(*error))
            return iterations;
        fsi__df_push(sph, scale, kappa);
    }
}

/* Solves with the velocities of the fluid and brings them back. */
static void fsi__df_project(fsi_sph *sph, fsi_real dt, fsi__df_kind kind, int *iterations,
                            fsi_real *error) {
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, NULL);
    *iterations = fsi__df_solve(sph, dt, kind, error);

    FSI__PARALLEL(n > 4096)
    for (ptrdiff_t i = 0; i < n; i++) {
        sph->vx[i] = sph->packed_v[4 * i];
        sph->vy[i] = sph->packed_v[4 * i + 1];
        sph->vz[i] = sph->packed_v[4 * i + 2];
    }
}

/* Stiffness of both solves together; density_dt is the step that kappa belongs to (0: none yet). */
static void fsi__df_stiffness(fsi_sph *sph, fsi_real density_dt, fsi_real dt) {
    for (ptrdiff_t i = 0; i < sph->now.count; i++) {
        sph->stiffness[i] = 0;
        if (density_dt > 0)
            sph->stiffness[i] = sph->kappa[i] / (density_dt * density_dt) + sph->kappa_v[i] / dt;
    }
}

static void fsi__df_accelerate(fsi_sph *sph, fsi_real dt) {
    fsi_sph_stats *stats = &sph->stats;
    size_t n = (size_t)sph->now.count;

    /* No divergence in the velocities that the last step left. */
    fsi__df_project(sph, dt, FSI__DF_DIVERGENCE, &stats->divergence_iterations,
                    &stats->divergence_error);

    /* Gravity, viscosity, lift of the walls: all but the pressure. */
    fsi__df_stiffness(sph, sph->now.dt_old, dt);
    fsi__sph_pack_velocity(sph, NULL);
    fsi__sph_forces(sph);
    fsi__sph_react(sph, FSI__REACT_FORCES, dt);
    fsi__sph_kick(sph, dt);
    fsi__sph_xsph(sph);

    /* No compression at the end of the step. */
    fsi__df_project(sph, dt, FSI__DF_DENSITY, &stats->density_iterations, &stats->density_error);

    /* What pressure that was. */
    fsi__df_stiffness(sph, dt, dt);

    for (size_t i = 0; i < n; i++)
        sph->p[i] = sph->stiffness[i] * sph->rho[i] * sph->rho[i];
    sph->now.mean_pressure = (fsi_real)(fsi_sum(n, sph->p) / (double)n);
    fsi__sph_react(sph, FSI__REACT_PRESSURE, dt);
}

/* ------------------------------------------------------------------------------------------------
 * >>sph accelerate */
/* Largest length of n vectors (x, y, z). */
static fsi_real fsi__sph_longest(int n, const fsi_real *x, const fsi_real *y, const fsi_real *z) {
    fsi_real most = 0;
    for (int i = 0; i < n; i++) {
        fsi_real length2 = x[i] * x[i] + y[i] * y[i] + z[i] * z[i];
        most = length2 > most ? length2 : most;
    }
    return fsi__sqrt(most);
}

FSI_API fsi_real fsi_sph_max_dt(const fsi_sph *sph) {
    if (!fsi__sph_live(sph))
        return 0;
    const fsi_sph_desc *desc = &sph->desc;
    const fsi_real h = desc->support / 2;
    fsi_real speed = fsi__sph_longest(sph->now.count, sph->vx, sph->vy, sph->vz);
    fsi_real gravity = fsi__length(desc->gravity);
    fsi_real dt = FSI_REAL_MAX;

    /* Courant: how far a wave or a particle goes. */
    if (desc->solver == FSI_SPH_WCSPH)
        dt = desc->cfl * h / (desc->sound_speed + speed);
    else {
        fsi_real pressed = 2 * sph->now.mean_pressure / desc->density;
        fsi_real least = fsi__sqrt(fsi__max(gravity * desc->spacing, pressed));
        speed = fsi__max(speed, least);
        if (speed > 0)
            dt = desc->cfl * desc->spacing / speed;
    }

    /* Friction, and how fast forces change the motion. */
    fsi_real viscosity = fsi__max(desc->viscosity, desc->wall_viscosity);
    if (viscosity > 0)
        dt = fsi__min(dt, FSI_R(0.125) * h * h * desc->density / viscosity);
    if (desc->artificial * desc->sound_speed > 0)
        dt = fsi__min(dt, FSI_R(0.5) * h / (desc->artificial * desc->sound_speed));
    fsi_real acceleration = fsi__max(gravity, sph->now.max_acceleration);
    if (acceleration > 0)
        dt = fsi__min(dt, FSI_R(0.25) * fsi__sqrt(h / acceleration));

    return desc->dt_max > 0 ? fsi__min(dt, desc->dt_max) : dt;
}

static void fsi__sph_report(const fsi_sph *sph, fsi_real dt, fsi_result result,
                            fsi_report *report) {
    if (!report)
        return;
    double mass = 0;
    fsi_sph_totals(sph, &mass, NULL, NULL, NULL);
    memset(report, 0, sizeof *report);
    report->reason = result;
    report->iterations = sph->stats.density_iterations + sph->stats.divergence_iterations;
    report->residual = (double)sph->stats.density_error;
    report->divergence = (double)(sph->stats.divergence_error / dt);
    report->volume = mass / (double)sph->desc.density;
}

/* What a step of length dt has to be told; safe is the longest advisable one. */
static fsi_result fsi__sph_verdict(const fsi_sph *sph, fsi_real dt, fsi_real safe) {
    const fsi_sph_stats *stats = &sph->stats;
    int cap = sph->desc.max_iterations;
    if (stats->truncated || stats->blocked)
        return FSI_CAPPED;
    if (stats->density_iterations >= cap || stats->divergence_iterations >= cap)
        return FSI_NOT_CONVERGED;

    return dt > safe * FSI_R(1.001) ? FSI_DT_TOO_LARGE : FSI_OK;
}

FSI_API fsi_result fsi_sph_accelerate(fsi_sph *sph, fsi_real dt, fsi_report *report) {
    if (!fsi__sph_live(sph) || sph->ready < 1)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    memset(sph->bf, 0, 3 * (size_t)sph->now.boundary_count * sizeof *sph->bf);
    if (sph->now.count == 0) {
        fsi__sph_sum_objects(sph);
        fsi__sph_report(sph, dt, FSI_EMPTY, report);
        return FSI_EMPTY;
    }

    /* Forces and pressure. The excess is a rate: a step cut short must not push as far as a full
       one. */
    fsi_real safe = fsi_sph_max_dt(sph);
    fsi_real kick = dt;
    sph->excess = FSI__DF_EXCESS * sph->desc.density * fsi__min(dt / safe, 1);
    if (sph->desc.solver == FSI_SPH_DFSPH) {
        fsi__df_accelerate(sph, dt);
    } else {
        kick = (sph->now.dt_old + dt) / 2;
        fsi__wc_accelerate(sph, kick);
    }

    /* Walls stop what is too close to them. */
    if (sph->now.boundary_count) {
        fsi__sph_guard(sph);
        if (fsi_max_abs((size_t)sph->now.count, sph->guard) > 0)
            fsi__sph_react(sph, FSI__REACT_GUARD, kick);
    }
    fsi__sph_sum_objects(sph);

    /* What came of it. */
    sph->stats.max_speed = fsi__sph_longest(sph->now.count, sph->vx, sph->vy, sph->vz);
    sph->now.max_acceleration = fsi__sph_longest(sph->now.count, sph->ax, sph->ay, sph->az);
    sph->ready = 2;
    fsi_result result = fsi__sph_verdict(sph, dt, safe);
    fsi__sph_report(sph, dt, result, report);

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph move */
/* delta-SPH (Antuono et al. 2010), x_ij and v_ij as above:
     d rho_i/dt = sum m_j v_ij . grad W + 2 delta h c sum V_j (rho_i - rho_j - hydrostatic part) F
   The hydrostatic part is the density difference at rest. */
static void fsi__sph_integrate_density(fsi_sph *sph, fsi_real dt) {
    const fsi_real c = sph->desc.sound_speed;
    const fsi_real diffusion = sph->desc.delta * sph->desc.support * c / sph->desc.density;
    const fsi_vec3 at_rest = fsi_vec_scale(sph->desc.gravity, sph->desc.density / (c * c));
    ptrdiff_t n = sph->now.count;
    fsi__sph_pack_velocity(sph, sph->rho);

    FSI__PARALLEL(n > 256)
    for (ptrdiff_t i = 0; i < n; i++) {
        fsi_real rate = 0;
        for (int kind = FSI__SPH_FLUID; kind <= FSI__SPH_WALLS; kind++) {
            fsi__sph_pairs pairs = fsi__sph_pairs_of(sph, i, kind);
            for (int k = 0; k < pairs.count; k++) {
                fsi_vec3 apart = fsi__pair_x(&pairs, k);
                fsi_real change = fsi_vec_dot(fsi__pair_v(&pairs, k), apart);
                fsi_real denser = pairs.own_v[3] - fsi__pair_other_v(&pairs, k)[3];
                if (kind == FSI__SPH_FLUID)
                    change += diffusion * (denser - fsi_vec_dot(at_rest, apart));
                rate += pairs.slope[k] * change;
            }
        }
        sph->rho[i] += dt * rate;
    }
}

FSI_API fsi_result fsi_sph_move(fsi_sph *sph, fsi_real dt) {
    if (!fsi__sph_live(sph) || sph->ready < 1)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    size_t n = (size_t)sph->now.count;
    if (sph->desc.delta > 0 && sph->desc.solver == FSI_SPH_WCSPH)
        fsi__sph_integrate_density(sph, dt);
    fsi_axpy(n, dt, sph->vx, sph->x);
    fsi_axpy(n, dt, sph->vy, sph->y);
    fsi_axpy(n, dt, sph->vz, sph->z);
    sph->now.time += (double)dt;
    sph->now.dt_old = dt;
    sph->ready = 0;
    if (!fsi_all_finite(n, sph->x) || !fsi_all_finite(n, sph->y) || !fsi_all_finite(n, sph->z))
        return FSI_ERR_NUMERIC;

    return n ? FSI_OK : FSI_EMPTY;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph step */
FSI_API fsi_result fsi_sph_step(fsi_sph *sph, fsi_real dt, fsi_report *report) {
    fsi_result result, moved;
    if ((result = fsi_sph_prepare(sph, dt)) < 0)
        return result;
    if ((result = fsi_sph_accelerate(sph, dt, report)) < 0)
        return result;
    if ((moved = fsi_sph_move(sph, dt)) < 0)
        return moved;

    return result;
}

FSI_API fsi_result fsi_sph_advance(fsi_sph *sph, fsi_real duration, int max_steps, int *steps,
                                   fsi_report *report) {
    if (steps)
        *steps = 0;
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    if (!fsi__positive(duration) || max_steps < 0)
        return FSI_ERR_ARGUMENT;
    fsi_result result = FSI_OK;
    double left = (double)duration;

    for (int n = 0; left > 1e-9 * (double)duration; n++) {
        double safe = (double)fsi_sph_max_dt(sph);
        if (!(safe > 0))
            return FSI_ERR_NUMERIC;
        if (max_steps && n == max_steps)
            return FSI_NOT_CONVERGED;

        /* The last two steps are equally long. */
        double parts = ceil(left / safe - 1e-6);
        double dt = safe;
        if (parts < 3)
            dt = parts > 1 ? left / parts : left;
        if ((result = fsi_sph_step(sph, (fsi_real)dt, report)) < 0)
            return result;
        left -= dt;
        if (steps)
            *steps = n + 1;
    }

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>sph state */
static int fsi__fits(int count, int most) {
    return count >= 0 && count <= most;
}

/* Can this fluid have these scalars? */
static int fsi__sph_scalars_fit(const fsi_sph *sph, const fsi_sph_scalars *now) {
    const fsi_sph_desc *desc = &sph->desc;
    const int fits[] = {
        fsi__fits(now->count, desc->capacity),
        fsi__fits(now->boundary_count, desc->boundary_capacity),
        fsi__fits(now->objects, FSI_SPH_OBJECTS),
        fsi__fits(now->emitters, FSI_SPH_EMITTERS),
        fsi__fits(now->boxes, FSI_SPH_EMITTERS),
        now->next_id >= 0,
        fsi__finite64(now->time),
        now->dt_old >= 0,
    };
    if (!fsi__all_true(sizeof fits / sizeof *fits, fits))
        return 0;

    for (int k = 0; k < now->objects; k++) {
        const fsi_sph_object *object = &now->object[k];
        if (!fsi__fits(object->first, now->boundary_count)
            || !fsi__fits(object->count, now->boundary_count - object->first))
            return 0;
    }
    for (int k = 0; k < now->emitters; k++)
        if (fsi__sph_emitter_check(sph, &now->emitter[k]) < 0
            || !fsi__finite64(now->emitter[k].due))
            return 0;

    return 1;
}

/* What hangs on the restored arrays. */
static void fsi__sph_restored(fsi_sph *sph) {
    const fsi_sph_scalars *now = &sph->now;
    sph->ready = 0;
    for (int k = 0; k < now->objects; k++)
        for (int i = 0; i < now->object[k].count; i++)
            sph->bobject[now->object[k].first + i] = k;
    sph->now.list_valid = now->list_valid && fsi__sph_listed_within(sph);
    if (now->list_valid && now->count)
        fsi__sph_recall(sph);

    /* The sorted copies of the boundary may be of another time. */
    sph->now.boundary_dirty = 1;
}

/* Everything that a step changes, listed once; see fsi__state in the base. */
static void fsi__sph_state(void *object, fsi__state *state) {
    fsi_sph *sph = (fsi_sph *)object;
    fsi_sph_scalars now = sph->now;
    fsi__state_match(state, (size_t)sph->desc.capacity);
    fsi__state_match(state, (size_t)sph->desc.boundary_capacity);
    fsi__state_match(state, sph->desc.skin > 0);
    fsi__state_copy(state, &now, 1, sizeof now);
    fsi__state_require(state, fsi__sph_scalars_fit(sph, &now));
    if (fsi__state_loads(state))
        sph->now = now;

    /* The arrays lie side by side. Places without a particle may hold anything. */
    fsi_real **carried[FSI__SPH_CARRIED];
    fsi_real **boundary[] = {&sph->bx, &sph->bv, &sph->blocal};
    fsi__sph_carried(sph, carried);
    size_t fluid = (size_t)sph->desc.capacity + 16;
    size_t walls = (size_t)sph->desc.boundary_capacity + 16;
    for (int k = 0; k < FSI__SPH_CARRIED; k++)
        fsi__state_within(state, *carried[k], fluid, (size_t)now.count, -FSI_REAL_MAX,
                          FSI_REAL_MAX);
    fsi__state_field(state, sph->id, fluid, sizeof *sph->id);
    fsi__state_field(state, sph->listed_at, sph->desc.skin > 0 ? 3 * (fluid + walls) : 0,
                     sizeof *sph->listed_at);
    for (int k = 0; k < 3; k++)
        fsi__state_within(state, *boundary[k], 3 * walls, 3 * (size_t)now.boundary_count,
                          -FSI_REAL_MAX, FSI_REAL_MAX);
    if (fsi__state_loads(state))
        fsi__sph_restored(sph);
}

#define FSI__STATE_SPH FSI__STATE_OF('s', 'p', 'h', ' ')

FSI_API size_t fsi_sph_state_size(const fsi_sph *sph) {
    return fsi__sph_live(sph) ? fsi__state_size(fsi__sph_state, sph) : 0;
}

FSI_API fsi_result fsi_sph_save(const fsi_sph *sph, void *block) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__sph_state, FSI__STATE_SPH, sph, block);
}

FSI_API fsi_result fsi_sph_check(const fsi_sph *sph, const void *block, size_t size) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    return fsi__state_check(fsi__sph_state, FSI__STATE_SPH, sph, block, size);
}

FSI_API fsi_result fsi_sph_restore(fsi_sph *sph, const void *block, size_t size) {
    if (!fsi__sph_live(sph))
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__sph_state, FSI__STATE_SPH, sph, block, size);
}

/* Sums over point masses, in double. */
typedef struct fsi__totals {
    double mass, kinetic;                    /* kg, J */
    double momentum[3], angular_momentum[3]; /* N s, N m s about the origin */
} fsi__totals;

static void fsi__totals_add(fsi__totals *totals, fsi_real mass, fsi_vec3 at, fsi_vec3 velocity) {
    double m = (double)mass;
    double x[3] = {(double)at.x, (double)at.y, (double)at.z};
    double v[3] = {(double)velocity.x, (double)velocity.y, (double)velocity.z};
    totals->mass += m;
    totals->kinetic += 0.5 * m * (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);

    for (int d = 0; d < 3; d++) {
        int next = (d + 1) % 3;
        int after = (d + 2) % 3;
        totals->momentum[d] += m * v[d];
        totals->angular_momentum[d] += m * (x[next] * v[after] - x[after] * v[next]);
    }
}

/* Writes what is wanted (not NULL). */
static void fsi__totals_write(const fsi__totals *totals, double *kinetic, double momentum[3],
                              double angular_momentum[3]) {
    if (kinetic)
        *kinetic = totals->kinetic;
    if (momentum)
        memcpy(momentum, totals->momentum, sizeof totals->momentum);
    if (angular_momentum)
        memcpy(angular_momentum, totals->angular_momentum, sizeof totals->angular_momentum);
}

FSI_API void fsi_sph_totals(const fsi_sph *sph, double *mass, double momentum[3],
                            double angular_momentum[3], double *kinetic) {
    fsi__totals totals = FSI__ZERO;

    for (int i = 0; sph && i < sph->now.count; i++) {
        fsi__totals_add(&totals, sph->mass[i], fsi__sph_position(sph, i),
                        fsi__sph_velocity(sph, i));
    }
    if (mass)
        *mass = totals.mass;
    fsi__totals_write(&totals, kinetic, momentum, angular_momentum);
}

/* Distance of the weighted mean of the centres around a point, less the particles' radius; the
   support where there is none. */
static fsi_real fsi__sph_level_at(const fsi_sph *sph, fsi_vec3 point, fsi_real radius) {
    const fsi_real R = sph->desc.support;
    if (!fsi__sph_within(sph, point))
        return R;
    fsi_real sum = 0;
    fsi_vec3 mean = FSI__ZERO; /* seen from the point */
    fsi__ranges around;
    fsi__ranges_around(&sph->cells, point, &around);

    for (int n = 0; n < around.n; n++)
        for (int i = around.range[n].begin; i < around.range[n].end; i++) {
            if (i >= sph->now.count)
                continue;
            fsi_vec3 apart = fsi_vec_sub(fsi__sph_position(sph, i), point);
            fsi_real weight = 1 - fsi_vec_dot(apart, apart) / (R * R);
            if (!(weight > 0))
                continue;
            weight *= weight * weight;
            sum += weight;
            mean = fsi_vec_mad(mean, apart, weight);
        }

    return sum > 0 ? fsi__length(mean) / sum - radius : R;
}

FSI_API fsi_result fsi_sph_level(const fsi_sph *sph, fsi_vec3 origin, fsi_real h, int nx, int ny,
                                 int nz, fsi_real radius, fsi_real *phi) {
    if (!fsi__sph_live(sph) || sph->cells.size[0] == 0)
        return FSI_ERR_STATE;
    if (!fsi__finite_vec(origin) || !fsi__positive(h) || !fsi__natural(radius))
        return FSI_ERR_ARGUMENT;
    if (nx < 1 || ny < 1 || nz < 1 || !phi)
        return FSI_ERR_ARGUMENT;
    if (radius == 0)
        radius = FSI_R(0.55) * sph->desc.spacing;
    ptrdiff_t rows = (ptrdiff_t)ny * nz;

    FSI__PARALLEL(rows > 8)
    for (ptrdiff_t row = 0; row < rows; row++) {
        fsi_vec3 node;
        node.y = origin.y + h * (fsi_real)(row % ny);
        node.z = origin.z + h * (fsi_real)(row / ny);
        for (int i = 0; i < nx; i++) {
            node.x = origin.x + h * (fsi_real)i;
            phi[i + (ptrdiff_t)nx * row] = fsi__sph_level_at(sph, node, radius);
        }
    }

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>look-up */
#define FSI__LOOKUP_ITEMS 32 /* room per element, in cells */
#define FSI__LOOKUP_MOST 128 /* an element in more cells than this is a large one ... */
#define FSI__LOOKUP_LARGE 16 /* ... of which there may be so many */

static void fsi__lookup_layout(fsi_lookup *lookup, fsi_arena *arena) {
    size_t n = (size_t)lookup->capacity;
    FSI__TAKE(lookup->box, arena, 6 * n);
    FSI__TAKE(lookup->item, arena, n * (FSI__LOOKUP_ITEMS + 1) + FSI__LOOKUP_LARGE);
    FSI__TAKE(lookup->cells.start, arena, (size_t)lookup->cells.room + 2);
}

FSI_API fsi_result fsi_lookup_init(fsi_lookup *lookup, int capacity,
                                   const fsi_allocator *allocator) {
    if (!lookup || capacity < 1 || !fsi_allocator_valid(allocator))
        return FSI_ERR_ARGUMENT;
    memset(lookup, 0, sizeof *lookup);

    /* Places in item[] have 31 bits. */
    if (capacity > INT32_MAX / (FSI__LOOKUP_ITEMS + 2))
        return FSI_ERR_SIZE;
    lookup->capacity = capacity;
    lookup->cells.room = fsi__imax(4096, 4 * capacity);
    if (allocator)
        lookup->allocator = *allocator;

    fsi_arena arena = FSI__ZERO;
    fsi__lookup_layout(lookup, &arena);
    fsi_result result = fsi__arena_block(&arena, &lookup->allocator, &lookup->block, &lookup->size);
    if (result != FSI_OK) {
        memset(lookup, 0, sizeof *lookup);
        return result;
    }
    fsi__lookup_layout(lookup, &arena);

    for (int i = 0; i < capacity; i++)
        lookup->item[i] = i;

    return FSI_OK;
}

FSI_API void fsi_lookup_free(fsi_lookup *lookup) {
    if (!lookup)
        return;
    fsi_free(&lookup->allocator, lookup->block, lookup->size);
    memset(lookup, 0, sizeof *lookup);
}

/* Cell coordinate of x; rises with x, whatever x is. */
FSI__INLINE int fsi__lookup_cell(const fsi_lookup *lookup, fsi_real x) {
    x *= lookup->cells.inverse_edge;
    return fsi__cell_floor(fsi__max(-FSI__CELLS_END, fsi__min(FSI__CELLS_END, x)));
}

/* Cells first .. last of the box lo .. hi enlarged by margin, at least the middle one; z has one
   cell in 2D. */
static void fsi__lookup_cells(const fsi_lookup *lookup, const fsi_real *lo, const fsi_real *hi,
                              fsi_real margin, int first[3], int last[3]) {
    first[2] = 0;
    last[2] = 0;

    for (int d = 0; d < lookup->surface.dim; d++) {
        fsi_real from = lo[d] - margin;
        fsi_real to = hi[d] + margin;
        if (from > to) {
            from = lo[d] / 2 + hi[d] / 2;
            to = from;
        }
        first[d] = fsi__lookup_cell(lookup, from);
        last[d] = fsi__lookup_cell(lookup, to);
    }
}

/* Bounds of all elements, and of them together. */
static void fsi__lookup_boxes(fsi_lookup *lookup) {
    for (int d = 0; d < 3; d++) {
        lookup->lo[d] = FSI_REAL_MAX;
        lookup->hi[d] = -FSI_REAL_MAX;
    }

    for (int e = 0; e < lookup->surface.element_count; e++) {
        fsi_real *lo = lookup->box + 6 * (size_t)e;
        fsi_real *hi = lo + 3;
        fsi_surface_bounds(&lookup->surface, e, lo, hi);
        fsi__bounds_pad(lo, hi);
        for (int d = 0; d < 3; d++) {
            lookup->lo[d] = fsi__min(lookup->lo[d], lo[d]);
            lookup->hi[d] = fsi__max(lookup->hi[d], hi[d]);
        }
    }
}

/* Edge of the cells from the median of a few elements: neither huge nor degenerate ones count. */
static fsi_real fsi__lookup_edge(const fsi_lookup *lookup) {
    fsi_real sizes[31]; /* sorted by insertion */
    size_t elements = (size_t)lookup->surface.element_count;
    size_t n = elements < 31 ? elements : 31;

    for (size_t k = 0; k < n; k++) {
        const fsi_real *box = lookup->box + 6 * (k * elements / n);
        fsi_real size = fsi__max(box[3] - box[0], fsi__max(box[4] - box[1], box[5] - box[2]));
        size_t at = k;
        for (; at > 0 && sizes[at - 1] > size; at--)
            sizes[at] = sizes[at - 1];
        sizes[at] = size;
    }
    fsi_real edge = FSI_R(0.5) * (sizes[n / 2] + 2 * lookup->reach);

    return edge > FSI_R(1e-30) ? edge : 1;
}

/* Puts element e into its cells: pass 0 counts it in start[cell + 2], pass 1 writes it behind
   start[cell + 1]. Returns how many cells; 0 = too many, a large element. */
static int fsi__lookup_put(fsi_lookup *lookup, int e, int pass) {
    const fsi__cells *cells = &lookup->cells;
    const fsi_real *box = lookup->box + 6 * (size_t)e;
    int first[3], last[3];
    double n = 1;
    fsi__lookup_cells(lookup, box, box + 3, lookup->reach, first, last);

    for (int d = 0; d < 3; d++) {
        last[d] = fsi__imin(last[d], first[d] + cells->size[d] - 1); /* once round the torus */
        n *= last[d] - first[d] + 1;
    }
    if (n > FSI__LOOKUP_MOST)
        return 0;

    for (int z = first[2]; z <= last[2]; z++)
        for (int y = first[1]; y <= last[1]; y++) {
            int32_t *row = cells->start + 1 + fsi__cell_row(cells, y, z);
            for (int x = first[0]; x <= last[0]; x++) {
                int32_t *at = row + fsi__cell_wrapped(cells, 0, x);
                if (pass)
                    lookup->item[(*at)++] = e;
                else
                    at[1]++;
            }
        }

    return (int)n;
}

/* Tries cells of this edge: fits the table, counts the elements of each cell, lists the large ones;
   0 when they do not fit. */
static int fsi__lookup_try(fsi_lookup *lookup, fsi_real edge) {
    int first[3], last[3];
    lookup->cells.inverse_edge = 1 / edge;
    fsi__lookup_cells(lookup, lookup->lo, lookup->hi, lookup->reach, first, last);
    fsi__cells_fit(&lookup->cells, first, last, lookup->surface.dim);
    size_t entries = (size_t)fsi__cells_count(&lookup->cells) + 2;
    memset(lookup->cells.start, 0, entries * sizeof *lookup->cells.start);

    int n = lookup->surface.element_count;
    int items = 0;
    lookup->large = 0;

    for (int e = 0; e < n && items <= FSI__LOOKUP_ITEMS * n; e++) {
        int cells = fsi__lookup_put(lookup, e, 0);
        items += cells;
        if (cells)
            continue;
        if (lookup->large == FSI__LOOKUP_LARGE)
            return 0;
        lookup->item[lookup->capacity + lookup->large++] = e;
    }

    return items <= FSI__LOOKUP_ITEMS * n;
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

    /* Wider cells until the items fit. This ends: an element no larger than a cell is in at most
       8. */
    fsi_real edge = fsi__lookup_edge(lookup);
    while (!fsi__lookup_try(lookup, edge))
        edge *= FSI_R(1.5);

    /* Counts become places, then the elements go there. */
    int cells = fsi__cells_count(&lookup->cells);
    int32_t *start = lookup->cells.start;
    start[0] = lookup->capacity + lookup->large;
    start[1] = start[0];

    for (int k = 1; k <= cells; k++)
        start[k + 1] += start[k];

    for (int e = 0; e < surface->element_count; e++)
        (void)fsi__lookup_put(lookup, e, 1);

    return FSI_OK;
}

/* One query: elements whose bounds come within the root of limit of the box lo .. hi, by distance
   from p or by crossing of p -> q. */
typedef struct fsi__lookup_query {
    const fsi_lookup *lookup;
    fsi_vec3 p, q;
    int ray;   /* 1: crossings */
    int first; /* 1: only the first one matters; radius and limit shrink */
    fsi_real lo[3], hi[3];
    fsi_real radius; /* hits with t beyond this do not count */
    fsi_real limit;  /* squared distance from the box */
    fsi_hit *hits;   /* sorted */
    int room, count;
} fsi__lookup_query;

/* Tests one element: its bounds first, then itself. */
static void fsi__lookup_test(fsi__lookup_query *query, int e) {
    const fsi_surface *surface = &query->lookup->surface;
    const fsi_real *lo = query->lookup->box + 6 * (size_t)e;
    const fsi_real *hi = lo + 3;
    fsi_real distance2 = 0;

    for (int d = 0; d < 3; d++) {
        fsi_real gap = fsi__max(fsi__max(lo[d] - query->hi[d], query->lo[d] - hi[d]), 0);
        distance2 += gap * gap;
    }
    if (!(distance2 <= query->limit))
        return;

    fsi_hit hit;
    if (query->ray && !fsi_surface_cross(surface, e, query->p, query->q, &hit))
        return;
    if (!query->ray)
        fsi_surface_closest(surface, e, query->p, &hit);
    if (!(hit.t <= query->radius))
        return;
    fsi__hits_add(query->hits, query->room, &query->count, &hit);
    if (!query->first)
        return;

    /* What is further away need not be looked at any more. */
    query->radius = query->hits[0].t;
    fsi_real reached = query->ray ? 0 : fsi__ball_square(query->radius);
    query->limit = fsi__min(query->limit, reached);
}

/* Is cell `at` the first of the query's cells that holds element e? lo is where the query begins.
 */
static int fsi__lookup_new(const fsi_lookup *lookup, int e, const int at[3], const int lo[3]) {
    const fsi_real *box = lookup->box + 6 * (size_t)e;
    for (int d = 0; d < lookup->surface.dim; d++)
        if (at[d] != fsi__imax(fsi__lookup_cell(lookup, box[d] - lookup->reach), lo[d]))
            return 0;
    return 1;
}

/* Tests, each once, the elements of the cells that hold everything within radius of the query's
   box. Returns 1 when it tested all there are instead, because the cells were more. */
static int fsi__lookup_search(fsi__lookup_query *query, fsi_real radius) {
    const fsi_lookup *lookup = query->lookup;
    const fsi__cells *cells = &lookup->cells;
    int lo[3], hi[3], at[3];
    double n = 1;
    fsi__lookup_cells(lookup, query->lo, query->hi, radius - lookup->reach, lo, hi);

    for (int d = 0; d < 3; d++) {
        if (!cells->wrap[d]) {
            lo[d] = fsi__imax(lo[d], cells->origin[d]);
            hi[d] = fsi__imin(hi[d], cells->origin[d] + cells->size[d] - 1);
        }
        n *= fsi__imax(hi[d] - lo[d] + 1, 0);
    }

    /* item[] begins with all elements; behind them stand the large ones. */
    int all = n > lookup->surface.element_count;
    const int32_t *item = lookup->item + (all ? 0 : lookup->capacity);

    for (int k = 0; k < (all ? lookup->surface.element_count : lookup->large); k++)
        fsi__lookup_test(query, item[k]);
    if (all || !(n > 0))
        return all;

    for (at[2] = lo[2]; at[2] <= hi[2]; at[2]++)
        for (at[1] = lo[1]; at[1] <= hi[1]; at[1]++) {
            const int32_t *row = cells->start + fsi__cell_row(cells, at[1], at[2]);
            for (at[0] = lo[0]; at[0] <= hi[0]; at[0]++) {
                const int32_t *run = row + fsi__cell_wrapped(cells, 0, at[0]);
                for (int k = run[0]; k < run[1]; k++)
                    if (n < 2 || fsi__lookup_new(lookup, lookup->item[k], at, lo))
                        fsi__lookup_test(query, lookup->item[k]);
            }
        }

    return 0;
}

/* Starts a query at p; 0 when there is nothing to find. */
static int fsi__lookup_begin(fsi__lookup_query *query, const fsi_lookup *lookup, fsi_vec3 p,
                             fsi_hit *hits, int room) {
    memset(query, 0, sizeof *query);
    if (!lookup || !lookup->block || !lookup->surface.element_count || !fsi__finite_vec(p))
        return 0;
    if (lookup->surface.dim == 2)
        p.z = 0;
    query->lookup = lookup;
    query->p = p;
    query->hits = hits;
    query->room = room;
    fsi_vec_store(query->lo, p);
    fsi_vec_store(query->hi, p);

    return 1;
}

/* Searches the sphere around p; as fsi__lookup_search. */
static int fsi__lookup_within(fsi__lookup_query *query, fsi_real radius) {
    query->radius = radius;
    query->limit = fsi__ball_square(radius);
    return fsi__lookup_search(query, radius);
}

FSI_API int fsi_lookup_closest(const fsi_lookup *lookup, fsi_vec3 p, fsi_real radius,
                               fsi_hit *hit) {
    fsi__lookup_query query;
    if (!(radius >= 0) || !fsi__lookup_begin(&query, lookup, p, hit, 1))
        return 0;
    query.first = 1;

    /* The sphere grows until it holds an element. */
    fsi_real r = fsi__min(radius, lookup->reach);

    for (;;) {
        int all = fsi__lookup_within(&query, r);
        if (all && !query.count) {
            r = radius;
            (void)fsi__lookup_within(&query, r);
        }
        if (query.count || r >= radius)
            return query.count > 0;
        r = fsi__min(radius, fsi__max(2 * r, 1 / lookup->cells.inverse_edge));
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

FSI_API int fsi_lookup_first_hit(const fsi_lookup *lookup, fsi_vec3 p, fsi_vec3 q, fsi_hit *hit) {
    fsi__lookup_query query;
    if (!fsi__lookup_begin(&query, lookup, p, hit, 1) || !fsi__finite_vec(q))
        return 0;
    if (lookup->surface.dim == 2)
        q.z = 0;
    query.q = q;
    query.ray = 1;
    query.first = 1;
    query.radius = 1;

    /* The box of the segment, enlarged by the round-off of points on it. */
    for (int d = 0; d < 3; d++) {
        fsi_real from = fsi__get(query.p, d);
        fsi_real to = fsi__get(q, d);
        fsi_real slack = 8 * FSI_REAL_EPS * (fsi__abs(from) + fsi__abs(to));
        query.lo[d] = fsi__min(from, to) - slack;
        query.hi[d] = fsi__max(from, to) + slack;
    }
    (void)fsi__lookup_search(&query, 0);

    return query.count > 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled set-up */
/* Symbols
     X, x     rest and present positions        N_a  shape function of corner a = 0 .. 3
     g_a      grad N_a in the rest state (a = 1 .. 3; g_0 = -sum)
     F        sum (x_a - x_0) g_a^T, deformation gradient, row major
     J        det F                             C    cof F, so that dJ/dF = C
     I1       |F|^2                             V    rest volume of an element
     P        dpsi/dF, first Piola stress       mu, lambda, K   Lame constants, bulk modulus
     m        min_volume; j = max(J, m); e = J - j, how far below the guard (e <= 0)
   The laws with a barrier have psi(F) = A(J) I1 / 2 + U(J), so P = A F + (A' I1 / 2 + U') C: no
   inverse of F is needed, and below J = m A and U' go on linearly, which keeps the force defined
   (and pushing back) through inversion. */
/* elements worked on together; constant, so that compilers vectorise at -O2 */
#define FSI__TLED_LANES 8

typedef fsi_real fsi__tled_lane[FSI__TLED_LANES]; /* one number of each element of a block */

static int fsi__tled_blocks(const fsi_tled *tled) {
    return (tled->tets + FSI__TLED_LANES - 1) / FSI__TLED_LANES;
}

/* Was it made by fsi_tled_init? */
static int fsi__tled_live(const fsi_tled *tled) {
    return tled && tled->block;
}

static void fsi__tled_layout(fsi_tled *tled, fsi_arena *arena) {
    size_t nodes = (size_t)tled->nodes;
    size_t tets = (size_t)tled->tets;
    size_t blocks = (size_t)fsi__tled_blocks(tled);

    /* The state. */
    fsi_real **state[] = {&tled->x, &tled->v, &tled->drive, &tled->fext};
    fsi__take_reals(arena, 3 * nodes, 4, state);
    FSI__TAKE(tled->inverse_mass, arena, nodes);
    FSI__TAKE(tled->clock, arena, 2);

    /* Nodes. */
    fsi_real **vectors[] = {&tled->x0, &tled->impulse, &tled->force};
    fsi_real **numbers[] = {&tled->mass, &tled->node_pressure, &tled->node_volume};
    fsi__take_reals(arena, 3 * nodes, 3, vectors);
    fsi__take_reals(arena, nodes, 3, numbers);
    FSI__TAKE(tled->identity, arena, nodes);
    FSI__TAKE(tled->corner_start, arena, nodes + 1);

    /* Elements. */
    FSI__TAKE(tled->tet, arena, 4 * tets);
    FSI__TAKE(tled->volume, arena, tets);
    FSI__TAKE(tled->dt_element, arena, tets);
    FSI__TAKE(tled->triangle, arena, 12 * tets);
    FSI__TAKE(tled->corner_at, arena, 4 * tets);

    /* Blocks of elements. */
    FSI__TAKE(tled->grad, arena, 10 * FSI__TLED_LANES * blocks);
    FSI__TAKE(tled->corner, arena, 12 * FSI__TLED_LANES * blocks);
    FSI__TAKE(tled->block_j, arena, blocks);
    FSI__TAKE(tled->block_inverted, arena, blocks);
}

/* The first of the ten numbers (g_1, g_2, g_3, V) of an element; they are FSI__TLED_LANES apart. */
static fsi_real *fsi__tled_element(const fsi_tled *tled, int tet) {
    size_t block = (size_t)(tet / FSI__TLED_LANES);
    return tled->grad + block * 10 * FSI__TLED_LANES + tet % FSI__TLED_LANES;
}

/* Where the x force on a corner (4 * tet + a) stands in corner[]; y and z follow FSI__TLED_LANES
   later. And the way back to the element. */
static int32_t fsi__tled_corner_place(int corner) {
    int tet = corner / 4;
    int a = corner % 4;
    return (tet / FSI__TLED_LANES * 12 + 3 * a) * FSI__TLED_LANES + tet % FSI__TLED_LANES;
}

static int fsi__tled_corner_tet(int32_t place) {
    return place / (12 * FSI__TLED_LANES) * FSI__TLED_LANES + place % FSI__TLED_LANES;
}

/* Rest gradients g_1 .. g_3 (rows of g) and volume; 0 when the tetrahedron is flat. Turns a
   negative one round. */
static int fsi__tled_rest(const fsi_real *X, int32_t *tet, double g[9], double *volume) {
    double edge[9];
    double size = 0;

    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 3; i++) {
            double length = (double)X[3 * tet[a + 1] + i] - (double)X[3 * tet[0] + i];
            edge[3 * a + i] = length;
            size = fabs(length) > size ? fabs(length) : size;
        }

    /* Rows of the cofactor matrix: the cross products of the two other edges. */
    double cofactor[9];

    for (int a = 0; a < 3; a++)
        for (int i = 0; i < 3; i++) {
            const double *u = edge + 3 * ((a + 1) % 3);
            const double *w = edge + 3 * ((a + 2) % 3);
            int next = (i + 1) % 3;
            int after = (i + 2) % 3;
            cofactor[3 * a + i] = u[next] * w[after] - u[after] * w[next];
        }
    double det = edge[0] * cofactor[0] + edge[1] * cofactor[1] + edge[2] * cofactor[2];
    double tiny = sizeof(fsi_real) == 4 ? 1e-7 : 1e-12;
    if (!(fabs(det) > tiny * size * size * size))
        return 0;
    if (det < 0) {
        int32_t third = tet[2];
        tet[2] = tet[3];
        tet[3] = third;
        return fsi__tled_rest(X, tet, g, volume);
    }

    for (int i = 0; i < 9; i++)
        g[i] = cofactor[i] / det; /* g_a . edge_b = delta_ab */
    *volume = det / 6;

    return 1;
}

/* Largest eigenvalue of a symmetric positive semi-definite 6 x 6 matrix S: squared again and again,
   S becomes the projector on the eigenvectors that grow fastest, and the eigenvalue is their
   Rayleigh quotient. Scaled to trace 1, the trace of the square grows until only eigenvalues are
   left that differ by less than 1e-9. (fsi_eigen_dense would allocate.) */
static double fsi__tled_largest_eigenvalue(const double S[36]) {
    double power[36];
    double square[36];
    double trace = 0;
    double quotient = 0;
    double last = 0;
    memcpy(power, S, sizeof power);

    for (int i = 0; i < 6; i++)
        trace += S[7 * i];

    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 36; i++)
            power[i] /= trace;
        trace = 0;
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j <= i; j++) {
                double dot = 0;
                for (int k = 0; k < 6; k++)
                    dot += power[6 * i + k] * power[6 * j + k];
                square[6 * i + j] = square[6 * j + i] = dot;
            }
            trace += square[7 * i];
        }
        if (trace - last <= 1e-15)
            break;
        last = trace;
        memcpy(power, square, sizeof power);
    }

    for (int i = 0; i < 36; i++)
        quotient += S[i] * power[i];

    return quotient;
}

/* omega_max^2 of one element with a quarter of its mass at each corner, exact: M^-1 K = (4 / rho)
   B^T D B has the non-zero eigenvalues of (4 / rho) D^1/2 B B^T D^1/2. Mandel notation: strains xx
   yy zz, sqrt(2) (yz zx xy); D = 2 mu 1 + lambda t t^T, t = (1 1 1 0 0 0), whose root is known. */
static double fsi__tled_omega2(const double g[9], double mu, double lambda, double rho) {
    const double half = sqrt(0.5);
    const double root = sqrt(2 * mu);
    const double volumetric = (sqrt(2 * mu + 3 * lambda) - root) / 3;
    double S[36];
    memset(S, 0, sizeof S);

    for (int a = 0; a < 4; a++) {
        double n[3];
        for (int d = 0; d < 3; d++)
            n[d] = a ? g[3 * a - 3 + d] : -(g[d] + g[3 + d] + g[6 + d]);
        for (int axis = 0; axis < 3; axis++) {
            /* Column of D^1/2 B: the strain of moving corner a along this axis. */
            int next = (axis + 1) % 3;
            int after = (axis + 2) % 3;
            double strain[6] = FSI__ZERO;
            for (int d = 0; d < 3; d++)
                strain[d] = volumetric * n[axis];
            strain[axis] = root * n[axis] + volumetric * n[axis];
            strain[3 + next] = root * (half * n[after]);
            strain[3 + after] = root * (half * n[next]);
            for (int i = 0; i < 36; i++)
                S[i] += strain[i / 6] * strain[i % 6];
        }
    }

    return 4 / rho * fsi__tled_largest_eigenvalue(S);
}

static int fsi__tled_desc_ok(const fsi_tled_desc *desc) {
    int counts = desc->nodes >= 4 && desc->nodes <= 0x7fffffff / 4 && desc->tets >= 1
                 && desc->tets <= 0x7fffffff / 16;
    if (!counts || !desc->x || !desc->tet)
        return 0;
    const int known[] = {
        fsi__positive(desc->density) && fsi__positive(desc->young),
        fsi__natural(desc->poisson) && desc->poisson <= FSI_R(0.49999),
        fsi__natural(desc->damping) && fsi__finite_vec(desc->gravity),
        fsi__positive(desc->min_volume) && desc->min_volume < 1,
        fsi__positive(desc->safety) && desc->safety <= 1,
        (int)desc->material >= 0 && (int)desc->material <= 2,
        !desc->average_pressure || desc->material != FSI_TLED_STVK,
        fsi_allocator_valid(&desc->allocator),
        fsi_all_finite(3 * (size_t)desc->nodes, desc->x),
    };
    if (!fsi__all_true(sizeof known / sizeof *known, known))
        return 0;

    for (int i = 0; i < 4 * desc->tets; i++)
        if (desc->tet[i] < 0 || desc->tet[i] >= desc->nodes)
            return 0;

    return 1;
}

/* Are all three nodes of a face in this tetrahedron? */
static int fsi__tled_has(const int32_t *tet, const int32_t face[3]) {
    int n = 0;
    for (int a = 0; a < 4; a++)
        n += tet[a] == face[0] || tet[a] == face[1] || tet[a] == face[2];
    return n == 3;
}

/* The surface: faces that only one tetrahedron has, counter-clockwise from outside. Twins are
   looked for around the first node of a face. */
static void fsi__tled_skin(fsi_tled *tled) {
    /* Opposite corner 0 .. 3, outward for positive volume. */
    static const int side[4][3] = {{1, 2, 3}, {0, 3, 2}, {0, 1, 3}, {0, 2, 1}};

    for (int tet = 0; tet < tled->tets; tet++)
        for (int a = 0; a < 4; a++) {
            int32_t face[3];
            for (int k = 0; k < 3; k++)
                face[k] = tled->tet[4 * tet + side[a][k]];
            int count = 0;
            for (int k = tled->corner_start[face[0]]; k < tled->corner_start[face[0] + 1]; k++) {
                int other = fsi__tled_corner_tet(tled->corner_at[k]);
                count += fsi__tled_has(tled->tet + 4 * other, face);
            }
            if (count == 1)
                memcpy(tled->triangle + 3 * tled->triangles++, face, sizeof face);
        }
}

/* Everything that depends on the rest state alone. */
static fsi_result fsi__tled_precompute(fsi_tled *tled) {
    double density = (double)tled->desc.density;
    double top = 0;

    for (int tet = 0; tet < tled->tets; tet++) {
        /* Gradients and volume. */
        double g[9], V;
        int32_t *node = tled->tet + 4 * tet;
        fsi_real *element = fsi__tled_element(tled, tet);
        if (!fsi__tled_rest(tled->x0, node, g, &V))
            return FSI_ERR_GEOMETRY;
        for (int i = 0; i < 9; i++)
            element[i * FSI__TLED_LANES] = (fsi_real)g[i];
        tled->volume[tet] = (fsi_real)V;
        element[9 * FSI__TLED_LANES] = tled->volume[tet];

        /* A quarter for each corner. */
        for (int a = 0; a < 4; a++) {
            tled->mass[node[a]] += (fsi_real)(density * V / 4);
            tled->node_volume[node[a]] += (fsi_real)(V / 4);
        }

        /* Critical step. */
        double omega2 = fsi__tled_omega2(g, (double)tled->mu, (double)tled->lambda, density);
        tled->dt_element[tet] = (fsi_real)(2 / sqrt(omega2));
        if (omega2 > top) {
            top = omega2;
            tled->worst = tet;
        }
    }
    tled->dt_critical = tled->dt_element[tled->worst];

    for (int i = 0; i < tled->nodes; i++) {
        /* A node without tetrahedra has no mass. */
        if (!(tled->mass[i] > 0))
            return FSI_ERR_GEOMETRY;
        tled->inverse_mass[i] = 1 / tled->mass[i];
        tled->identity[i] = i;
    }

    /* The corners of each node. */
    fsi__counting_sort(4 * tled->tets, tled->tet, tled->nodes, tled->corner_start, tled->corner_at);

    for (int i = 0; i < 4 * tled->tets; i++)
        tled->corner_at[i] = fsi__tled_corner_place(tled->corner_at[i]);
    fsi__tled_skin(tled);

    return FSI_OK;
}

FSI_API fsi_result fsi_tled_init(fsi_tled *tled, const fsi_tled_desc *desc) {
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

    /* The first layout counts, the second one places. */
    fsi_arena arena = FSI__ZERO;
    fsi__tled_layout(tled, &arena);
    fsi_result result = fsi__arena_block(&arena, &given.allocator, &tled->block, &tled->block_size);
    if (result != FSI_OK) {
        memset(tled, 0, sizeof *tled);
        return result;
    }
    fsi__tled_layout(tled, &arena);
    size_t bytes = 3 * (size_t)given.nodes * sizeof *tled->x;
    memcpy(tled->x0, given.x, bytes);
    memcpy(tled->x, given.x, bytes);
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
    fsi_free(&tled->desc.allocator, tled->block, tled->block_size);
    memset(tled, 0, sizeof *tled);
}

/* Sets a node's inverse mass and drive; the checks of fix and unfix. */
static fsi_result fsi__tled_set_node(fsi_tled *tled, int node, int fixed, fsi_vec3 drive) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    if (node < 0 || node >= tled->nodes || !fsi__finite_vec(drive))
        return FSI_ERR_ARGUMENT;
    tled->inverse_mass[node] = fixed ? 0 : 1 / tled->mass[node];
    fsi__vec_put(tled->drive, node, drive);

    return FSI_OK;
}

FSI_API fsi_result fsi_tled_fix(fsi_tled *tled, int node, fsi_vec3 drive) {
    return fsi__tled_set_node(tled, node, 1, drive);
}

FSI_API fsi_result fsi_tled_unfix(fsi_tled *tled, int node) {
    return fsi__tled_set_node(tled, node, 0, fsi_vec(0, 0, 0));
}

/* ------------------------------------------------------------------------------------------------
 * >>tled forces */
/* In vector loops ln J = 2 (y + y^3/3 + y^5/5 ...), y = (J - 1) / (J + 1), for 1/2 <= J <= 2 so
   many terms. */
#define FSI__TLED_TERMS (sizeof(fsi_real) == 4 ? 7 : 16)

/* Is J in the range of the series? (NaN is not.) */
FSI__INLINE int fsi__tled_ordinary(fsi_real J) {
    return (J >= FSI_R(0.5)) & (J <= 2);
}

/* The part of U' that resists a change of volume, the one that pressure averaging takes from the
   nodes: lambda ln J / J or K (J - 1). */
static fsi_real fsi__tled_pressure(const fsi_tled *tled, fsi_real J) {
    if (tled->desc.material == FSI_TLED_NEARLY)
        return tled->bulk * (J - 1);
    fsi_real j = fsi__max(J, tled->desc.min_volume);
    fsi_real log_j = fsi__log(j);
    return tled->lambda * (log_j / j + (J - j) * (1 - log_j) / (j * j));
}

/* A(J) and A' I1 / 2 + U' of one element, for any J: the plain version of fsi__tled_stress. */
static void fsi__tled_law(const fsi_tled *tled, fsi_real J, fsi_real I1, fsi_real *of_F,
                          fsi_real *of_C) {
    fsi_real j = fsi__max(J, tled->desc.min_volume);
    fsi_real e = J - j;
    fsi_real volumetric = fsi__tled_pressure(tled, J);
    if (tled->desc.material == FSI_TLED_NEARLY) {
        fsi_real a = fsi__pow(j, FSI_R(-2.0) / 3);
        fsi_real slope = tled->mu * FSI_R(-2.0) / 3 * a / j;
        *of_F = tled->mu * a + slope * e;
        *of_C = slope * I1 / 2 + volumetric;
    } else {
        *of_F = tled->mu;
        *of_C = volumetric + tled->mu * (e / j - 1) / j;
    }
}

/* The state of the 8 elements of a block. */
typedef struct fsi__tled_lanes {
    fsi__tled_lane F[9], C[9], J, I1;
} fsi__tled_lanes;

/* The nodes of element number k of a block. The last block repeats its last element, with volume
   0. */
FSI__INLINE const int32_t *fsi__tled_nodes(const fsi_tled *tled, int block, int k) {
    int tet = fsi__imin(block * FSI__TLED_LANES + k, tled->tets - 1);
    return tled->tet + 4 * (size_t)tet;
}

/* The ten numbers (g_1, g_2, g_3, V) of the elements of a block. */
FSI__INLINE const fsi__tled_lane *fsi__tled_block(const fsi_tled *tled, ptrdiff_t block) {
    return (const fsi__tled_lane *)tled->grad + 10 * block;
}

/* edge = x_to - x_from, in lane k. */
FSI__FORCE_INLINE void fsi__tled_edge(const fsi_real *x, int32_t from, int32_t to, int k,
                                      fsi__tled_lane edge[3]) {
    const fsi_real *a = x + 3 * (size_t)from;
    const fsi_real *b = x + 3 * (size_t)to;
    edge[0][k] = b[0] - a[0];
    edge[1][k] = b[1] - a[1];
    edge[2][k] = b[2] - a[2];
}

/* out = a x b, in all lanes. */
FSI__FORCE_INLINE void fsi__tled_cross(fsi__tled_lane a[3], fsi__tled_lane b[3],
                                       fsi__tled_lane out[3]) {
    for (int k = 0; k < FSI__TLED_LANES; k++) {
        out[0][k] = a[1][k] * b[2][k] - a[2][k] * b[1][k];
        out[1][k] = a[2][k] * b[0][k] - a[0][k] * b[2][k];
        out[2][k] = a[0][k] * b[1][k] - a[1][k] * b[0][k];
    }
}

/* F, its cofactors, J and I1 of the 8 elements of a block. */
FSI__FORCE_INLINE void fsi__tled_kinematics(const fsi_tled *tled, int block,
                                            fsi__tled_lanes *lanes) {
    fsi__tled_lane edge[9];

    for (int k = 0; k < FSI__TLED_LANES; k++) {
        const int32_t *node = fsi__tled_nodes(tled, block, k);
        fsi__tled_edge(tled->x, node[0], node[1], k, edge);
        fsi__tled_edge(tled->x, node[0], node[2], k, edge + 3);
        fsi__tled_edge(tled->x, node[0], node[3], k, edge + 6);
        lanes->I1[k] = 0;
    }

    /* F_ij = sum_a edge_a,i g_a,j, row by row. */
    const fsi__tled_lane *FSI__RESTRICT g = fsi__tled_block(tled, block);

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            fsi_real a = edge[i][k];
            fsi_real b = edge[3 + i][k];
            fsi_real c = edge[6 + i][k];
            fsi_real x = a * g[0][k] + b * g[3][k] + c * g[6][k];
            fsi_real y = a * g[1][k] + b * g[4][k] + c * g[7][k];
            fsi_real z = a * g[2][k] + b * g[5][k] + c * g[8][k];
            lanes->F[3 * i][k] = x;
            lanes->F[3 * i + 1][k] = y;
            lanes->F[3 * i + 2][k] = z;
            lanes->I1[k] = lanes->I1[k] + x * x + y * y + z * z;
        }

    /* Each row of C is the cross product of the two other rows of F. */
    fsi__tled_lane *F = lanes->F;
    fsi__tled_lane *C = lanes->C;
    fsi__tled_cross(F + 3, F + 6, C);
    fsi__tled_cross(F + 6, F, C + 3);
    fsi__tled_cross(F, F + 3, C + 6);

    for (int k = 0; k < FSI__TLED_LANES; k++)
        lanes->J[k] = F[0][k] * C[0][k] + F[1][k] * C[1][k] + F[2][k] * C[2][k];
}

/* Coefficients of P = of_F F + of_C C for all lanes by series and Newton (no libm); lanes outside
   [1/2, 2] by the plain version. */
FSI__FORCE_INLINE void fsi__tled_stress(const fsi_tled *tled, const fsi__tled_lanes *lanes,
                                        int nearly, fsi_real *of_F, fsi_real *of_C) {
    const fsi_real *J = lanes->J;
    fsi__tled_lane sum;
    if (nearly) {
        const fsi_real third = FSI_R(1.0) / 3;

        /* sum = J^(-1/3): sum <- sum (4 - J sum^3) / 3 */
        for (int k = 0; k < FSI__TLED_LANES; k++)
            sum[k] = 3 / (2 + J[k]);
        for (int round = 0; round < (sizeof(fsi_real) == 4 ? 3 : 5); round++)
            for (int k = 0; k < FSI__TLED_LANES; k++)
                sum[k] = sum[k] * (4 - J[k] * sum[k] * sum[k] * sum[k]) * third;

        /* of_C = K (J-1) - mu J^(-5/3) I1 / 3 */
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            of_F[k] = tled->mu * sum[k] * sum[k];
            of_C[k] = tled->bulk * (J[k] - 1) - of_F[k] * lanes->I1[k] / (3 * J[k]);
        }
    } else {
        /* sum = ln J / (2 y) */
        fsi__tled_lane y;
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            y[k] = (J[k] - 1) / (J[k] + 1);
            sum[k] = 0;
        }
        for (int i = FSI__TLED_TERMS; i >= 0; i--) {
            fsi_real term = 1 / (fsi_real)(2 * i + 1);
            for (int k = 0; k < FSI__TLED_LANES; k++)
                sum[k] = sum[k] * (y[k] * y[k]) + term;
        }
        for (int k = 0; k < FSI__TLED_LANES; k++) {
            of_F[k] = tled->mu;
            of_C[k] = (tled->lambda * 2 * y[k] * sum[k] - tled->mu) / J[k];
        }
    }

    int odd = 0;

    for (int k = 0; k < FSI__TLED_LANES; k++)
        odd |= !fsi__tled_ordinary(J[k]);

    for (int k = 0; odd && k < FSI__TLED_LANES; k++)
        if (!fsi__tled_ordinary(J[k]))
            fsi__tled_law(tled, J[k], lanes->I1[k], &of_F[k], &of_C[k]);
}

/* With averaged pressure: the element's own pressure is replaced by the mean of its nodes'. */
static void fsi__tled_average(const fsi_tled *tled, int block, const fsi__tled_lanes *lanes,
                              fsi_real *of_C) {
    const fsi_real *pressure = tled->node_pressure;
    for (int k = 0; k < FSI__TLED_LANES; k++) {
        const int32_t *node = fsi__tled_nodes(tled, block, k);
        fsi_real sum =
            pressure[node[0]] + pressure[node[1]] + pressure[node[2]] + pressure[node[3]];
        of_C[k] += sum / 4 - fsi__tled_pressure(tled, lanes->J[k]);
    }
}

/* P of all lanes. St. Venant-Kirchhoff: P = (lambda tr E - mu) F + mu F F^T F. */
FSI__FORCE_INLINE void fsi__tled_piola(const fsi_tled *tled, int block,
                                       const fsi__tled_lanes *lanes, fsi_tled_material kind,
                                       fsi__tled_lane P[9]) {
    const fsi__tled_lane *F = lanes->F;
    if (kind == FSI_TLED_STVK) {
        for (int i = 0; i < 9; i += 3)
            for (int k = 0; k < FSI__TLED_LANES; k++) {
                fsi_real of_F = tled->lambda * (lanes->I1[k] - 3) / 2 - tled->mu;
                fsi_real row[3]; /* row i of F F^T */
                for (int j = 0; j < 3; j++)
                    row[j] = F[i][k] * F[3 * j][k] + F[i + 1][k] * F[3 * j + 1][k]
                             + F[i + 2][k] * F[3 * j + 2][k];
                for (int j = 0; j < 3; j++)
                    P[i + j][k] =
                        of_F * F[i + j][k]
                        + tled->mu
                              * (row[0] * F[j][k] + row[1] * F[3 + j][k] + row[2] * F[6 + j][k]);
            }
        return;
    }
    fsi__tled_lane of_F, of_C;
    fsi__tled_stress(tled, lanes, kind == FSI_TLED_NEARLY, of_F, of_C);
    if (tled->desc.average_pressure)
        fsi__tled_average(tled, block, lanes, of_C);

    for (int i = 0; i < 9; i++)
        for (int k = 0; k < FSI__TLED_LANES; k++)
            P[i][k] = of_F[k] * F[i][k] + of_C[k] * lanes->C[i][k];
}

/* Corner forces f_a = -V P g_a of a block, f_0 = -(f_1 + f_2 + f_3). */
FSI__FORCE_INLINE void fsi__tled_forces_with(fsi_tled *tled, int block, fsi_tled_material kind) {
    fsi__tled_lanes lanes;
    fsi__tled_kinematics(tled, block, &lanes);
    fsi__tled_lane P[9], force[12];
    fsi__tled_piola(tled, block, &lanes, kind, P);

    const fsi__tled_lane *element = fsi__tled_block(tled, block);
    const fsi_real *V = element[9];

    for (int i = 0; i < 3; i++)
        for (int a = 1; a < 4; a++) {
            const fsi__tled_lane *g = element + 3 * (a - 1);
            fsi__tled_lane *row = P + 3 * i;
            for (int k = 0; k < FSI__TLED_LANES; k++)
                force[3 * a + i][k] =
                    -V[k] * (row[0][k] * g[0][k] + row[1][k] * g[1][k] + row[2][k] * g[2][k]);
        }

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < FSI__TLED_LANES; k++)
            force[i][k] = -(force[3 + i][k] + force[6 + i][k] + force[9 + i][k]);
    memcpy(tled->corner + (size_t)block * 12 * FSI__TLED_LANES, force, sizeof force);

    /* Smallest J, and how many are below the guard. */
    fsi_real least = lanes.J[0];
    int inverted = 0;
    int used = fsi__imin(tled->tets - block * FSI__TLED_LANES, FSI__TLED_LANES);

    for (int k = 0; k < used; k++) {
        least = lanes.J[k] < least ? lanes.J[k] : least;
        inverted += !(lanes.J[k] >= tled->desc.min_volume);
    }
    tled->block_j[block] = least;
    tled->block_inverted[block] = inverted;
}

/* One copy of the loops per material: a constant leaves no choice in them. */
static void fsi__tled_block_forces(fsi_tled *tled, int block) {
    switch (tled->desc.material) {
    case FSI_TLED_STVK:
        fsi__tled_forces_with(tled, block, FSI_TLED_STVK);
        break;
    case FSI_TLED_NEARLY:
        fsi__tled_forces_with(tled, block, FSI_TLED_NEARLY);
        break;
    case FSI_TLED_NEOHOOKEAN:
        fsi__tled_forces_with(tled, block, FSI_TLED_NEOHOOKEAN);
        break;
    }
}

/* Nodal pressures from nodal volumes: J_a = sum V / sum V0 over the elements around a (Bonet and
   Burton 1998). */
static void fsi__tled_nodal_pressure(fsi_tled *tled) {
    ptrdiff_t blocks = fsi__tled_blocks(tled);

    FSI__PARALLEL(blocks > 32)
    for (ptrdiff_t block = 0; block < blocks; block++) {
        const fsi_real *V = fsi__tled_block(tled, block)[9];
        fsi__tled_lane *corner = (fsi__tled_lane *)tled->corner + 12 * block;
        fsi__tled_lanes lanes;
        fsi__tled_kinematics(tled, (int)block, &lanes);
        for (int a = 0; a < 4; a++)
            for (int k = 0; k < FSI__TLED_LANES; k++)
                corner[3 * a][k] = lanes.J[k] * V[k] / 4;
    }

    FSI__PARALLEL(tled->nodes > 1024)
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_real sum = 0;
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++)
            sum += tled->corner[tled->corner_at[k]];
        tled->node_pressure[i] = fsi__tled_pressure(tled, sum / tled->node_volume[i]);
    }
}

static void fsi__tled_element_forces(fsi_tled *tled) {
    ptrdiff_t blocks = fsi__tled_blocks(tled);
    if (tled->desc.average_pressure)
        fsi__tled_nodal_pressure(tled);

    FSI__PARALLEL(blocks > 32)
    for (ptrdiff_t block = 0; block < blocks; block++)
        fsi__tled_block_forces(tled, (int)block);

    tled->min_j = tled->block_j[0];
    tled->inverted = 0;

    for (ptrdiff_t block = 0; block < blocks; block++) {
        if (!(tled->block_j[block] >= tled->min_j))
            tled->min_j = tled->block_j[block];
        tled->inverted += tled->block_inverted[block];
    }
}

FSI_API fsi_result fsi_tled_forces(fsi_tled *tled) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    fsi__tled_element_forces(tled);

    /* Each node gathers its own corners: no atomics, one order. */
    FSI__PARALLEL(tled->nodes > 1024)
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_vec3 sum = FSI__ZERO;
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++) {
            const fsi_real *force = tled->corner + tled->corner_at[k];
            sum.x += force[0];
            sum.y += force[FSI__TLED_LANES];
            sum.z += force[2 * FSI__TLED_LANES];
        }
        fsi__vec_put(tled->force, i, sum);
    }
    if (!fsi_all_finite(3 * (size_t)tled->nodes, tled->force))
        return FSI_ERR_NUMERIC;

    return tled->inverted ? FSI_CAPPED : FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled step */
FSI_API fsi_result fsi_tled_accelerate(fsi_tled *tled, fsi_real dt) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    size_t n = 3 * (size_t)tled->nodes;
    if (!fsi_all_finite(n, tled->fext) || !fsi_all_finite(n, tled->v))
        return FSI_ERR_NUMERIC;
    fsi_result result = fsi_tled_forces(tled);
    if (result < 0)
        return result;

    /* From the middle of the last step to the middle of this one; the damping force is at the mean
       of old and new velocity. */
    fsi_real kick = ((fsi_real)tled->clock[1] + dt) / 2;
    fsi_real damping = tled->desc.damping * kick / 2;
    fsi_real gain = kick / (1 + damping);
    fsi_real keep = (1 - damping) / (1 + damping);
    fsi_vec3 gravity = tled->desc.gravity;

    FSI__PARALLEL(tled->nodes > 1024)
    for (ptrdiff_t i = 0; i < tled->nodes; i++) {
        fsi_real *v = tled->v + 3 * i;
        if (!(tled->inverse_mass[i] > 0)) {
            memcpy(v, tled->drive + 3 * i, 3 * sizeof *v);
            continue;
        }
        fsi_vec3 inner = fsi__vec_at(tled->force, i);
        fsi_vec3 force = fsi_vec_add(inner, fsi__vec_at(tled->fext, i));
        fsi_vec3 rate = fsi_vec_add(fsi_vec_scale(force, tled->inverse_mass[i]), gravity);
        fsi_vec3 kept = fsi_vec_scale(fsi_vec_load(v), keep);
        fsi_vec_store(v, fsi_vec_mad(kept, rate, gain));
    }
    tled->ready = 1;
    if (result == FSI_OK && dt > fsi_tled_max_dt(tled) * FSI_R(1.0001))
        result = FSI_DT_TOO_LARGE;

    return result;
}

FSI_API fsi_result fsi_tled_move(fsi_tled *tled, fsi_real dt) {
    if (!fsi__tled_live(tled) || !tled->ready)
        return FSI_ERR_STATE;
    if (!fsi__positive(dt))
        return FSI_ERR_ARGUMENT;
    fsi_axpy(3 * (size_t)tled->nodes, dt, tled->v, tled->x);
    tled->clock[0] += (double)dt;
    tled->clock[1] = (double)dt;
    tled->ready = 0;

    return FSI_OK;
}

FSI_API fsi_result fsi_tled_step(fsi_tled *tled, fsi_real dt) {
    fsi_result result, moved;
    if ((result = fsi_tled_accelerate(tled, dt)) < 0)
        return result;
    if ((moved = fsi_tled_move(tled, dt)) < 0)
        return moved;
    return result;
}

FSI_API fsi_real fsi_tled_max_dt(const fsi_tled *tled) {
    return fsi__tled_live(tled) ? tled->desc.safety * tled->dt_critical : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>tled looks */
FSI_API fsi_mat3 fsi_tled_gradient(const fsi_tled *tled, int tet) {
    fsi_mat3 F = FSI__ZERO;
    if (!fsi__tled_live(tled) || tet < 0 || tet >= tled->tets)
        return F;
    const fsi_real *g = fsi__tled_element(tled, tet);
    const int32_t *node = tled->tet + 4 * (size_t)tet;

    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int a = 0; a < 3; a++) {
                fsi_real edge = tled->x[3 * node[a + 1] + i] - tled->x[3 * node[0] + i];
                F.m[3 * i + j] += edge * g[(3 * a + j) * FSI__TLED_LANES];
            }

    return F;
}

/* The energy whose derivative is fsi__tled_pressure. Below the guard it is the quadratic that
   belongs to a linear force. */
static double fsi__tled_volume_energy(const fsi_tled *tled, double J) {
    double m = (double)tled->desc.min_volume;
    double j = J > m ? J : m;
    double e = J - j;
    double log_j = log(j);
    if (tled->desc.material == FSI_TLED_NEARLY)
        return (double)tled->bulk / 2 * (J - 1) * (J - 1);
    double linear = e * log_j / j;
    double quadratic = e * e / 2 * (1 - log_j) / (j * j);
    return (double)tled->lambda * (log_j * log_j / 2 + linear + quadratic);
}

/* mu |E|^2 + lambda / 2 (tr E)^2, E = (F^T F - 1) / 2 */
static double fsi__tled_stvk_energy(const fsi_tled *tled, const fsi_mat3 *F, double I1) {
    double strain2 = 0;

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            fsi_real dot =
                F->m[i] * F->m[k] + F->m[3 + i] * F->m[3 + k] + F->m[6 + i] * F->m[6 + k];
            double strain = (double)dot - (i == k);
            strain2 += strain * strain / 4;
        }

    return (double)tled->mu * strain2 + (double)tled->lambda / 8 * (I1 - 3) * (I1 - 3);
}

/* psi of one element; without the energy of its volume where that is averaged. */
static double fsi__tled_psi(const fsi_tled *tled, const fsi_mat3 *F) {
    double I1 = 0;
    double J = (double)fsi_mat3_det(F);

    for (int i = 0; i < 9; i++)
        I1 += (double)F->m[i] * (double)F->m[i];
    if (tled->desc.material == FSI_TLED_STVK)
        return fsi__tled_stvk_energy(tled, F, I1);

    double m = (double)tled->desc.min_volume;
    double mu = (double)tled->mu;
    double j = J > m ? J : m;
    double e = J - j;
    double volume = tled->desc.average_pressure ? 0 : fsi__tled_volume_energy(tled, J);
    if (tled->desc.material == FSI_TLED_NEARLY) {
        double a = pow(j, -2.0 / 3);
        return mu / 2 * ((a - 2.0 / 3 * a / j * e) * I1 - 3) + volume;
    }

    return mu / 2 * (I1 - 3) - mu * (log(j) + e / j - e * e / (2 * j * j)) + volume;
}

/* All elements, and with averaged pressure sum_a U(J_a) V0_a over the nodes. */
static double fsi__tled_elastic(const fsi_tled *tled) {
    double energy = 0;

    for (int tet = 0; tet < tled->tets; tet++) {
        fsi_mat3 F = fsi_tled_gradient(tled, tet);
        energy += (double)tled->volume[tet] * fsi__tled_psi(tled, &F);
    }

    for (int i = 0; tled->desc.average_pressure && i < tled->nodes; i++) {
        double volume = 0;
        double rest = (double)tled->node_volume[i];
        for (int k = tled->corner_start[i]; k < tled->corner_start[i + 1]; k++) {
            int tet = fsi__tled_corner_tet(tled->corner_at[k]);
            fsi_mat3 F = fsi_tled_gradient(tled, tet);
            volume += (double)fsi_mat3_det(&F) * (double)tled->volume[tet] / 4;
        }
        energy += rest * fsi__tled_volume_energy(tled, volume / rest);
    }

    return energy;
}

FSI_API void fsi_tled_totals(const fsi_tled *tled, double *elastic, double *kinetic,
                             double momentum[3], double angular_momentum[3]) {
    if (!fsi__tled_live(tled))
        return;
    fsi__totals totals = FSI__ZERO;

    for (int i = 0; i < tled->nodes; i++)
        fsi__totals_add(&totals, tled->mass[i], fsi__vec_at(tled->x, i), fsi__vec_at(tled->v, i));
    fsi__totals_write(&totals, kinetic, momentum, angular_momentum);
    if (elastic)
        *elastic = fsi__tled_elastic(tled);
}

FSI_API fsi_surface fsi_tled_surface(const fsi_tled *tled) {
    fsi_surface surface = FSI__ZERO;
    surface.dim = 3;
    if (!fsi__tled_live(tled))
        return surface;
    surface.vertex_count = tled->nodes;
    surface.element_count = tled->triangles;
    surface.closed = 1;
    surface.x = tled->x;
    surface.v = tled->v;
    surface.index = tled->triangle;

    return surface;
}

FSI_API fsi_result fsi_tled_couple(fsi_tled *tled, fsi_coupled *out) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    if (!out)
        return FSI_ERR_ARGUMENT;
    memset(out, 0, sizeof *out);
    out->surface = fsi_tled_surface(tled);
    out->dof = 3 * tled->nodes;
    out->v = tled->v;
    out->impulse = tled->impulse;
    out->mass = tled->mass;
    out->inverse_mass = tled->inverse_mass;
    out->node = tled->identity;

    return FSI_OK;
}

static void fsi__tled_state(void *object, fsi__state *state) {
    fsi_tled *tled = (fsi_tled *)object;
    size_t nodes = (size_t)tled->nodes;
    fsi_real *const array[] = {tled->x, tled->v, tled->drive, tled->fext};
    fsi__state_match(state, nodes);
    for (int k = 0; k < 4; k++)
        fsi__state_reals(state, array[k], 3 * nodes);
    fsi__state_within(state, tled->inverse_mass, nodes, nodes, 0, FSI_REAL_MAX);

    double clock[2] = {tled->clock[0], tled->clock[1]};
    fsi__state_copy(state, clock, 2, sizeof *clock);
    fsi__state_require(state, fsi__finite64(clock[0]) && fsi__finite64(clock[1]));
    if (fsi__state_loads(state)) {
        memcpy(tled->clock, clock, sizeof clock);
        tled->ready = 0;
    }
}

FSI_API size_t fsi_tled_state_size(const fsi_tled *tled) {
    return fsi__tled_live(tled) ? fsi__state_size(fsi__tled_state, tled) : 0;
}

FSI_API fsi_result fsi_tled_save(const fsi_tled *tled, void *block) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__tled_state, FSI__STATE_OF('t', 'l', 'e', 'd'), tled, block);
}

FSI_API fsi_result fsi_tled_restore(fsi_tled *tled, const void *block, size_t size) {
    if (!fsi__tled_live(tled))
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__tled_state, FSI__STATE_OF('t', 'l', 'e', 'd'), tled, block,
                              size);
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
