/* fsi_grid.h - v1.00 - smoke and liquid on a MAC grid, part of fsi, a library for two-way
   solid-fluid coupling in C99 and C++11
   SPDX-License-Identifier: MIT OR Unlicense          (full text at the end of the file)

   Incompressible flow in a box of uniform cells, 2D (nz = 1) or 3D: smoke that fills the box, or
   liquid with a free surface.

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_grid.h"
       #include <stdio.h>

       // Hot smoke rises in a box with an open top.
       int main(void) {
           // A box of 1 m x 1 m in 64 x 64 cells; one layer of cells makes it two-dimensional.
           fsi_grid_desc desc = {
               .nx = 64,
               .ny = 64,
               .nz = 1,
               .h = FSI_R(1) / 64,
               .rho = 1,
               .smoke = 1,
               .buoyancy_temperature = 4,
               .side[FSI_TOP].kind = FSI_SIDE_OPEN,
           };
           fsi_grid grid;
           if (fsi_grid_init(&grid, &desc) < 0)
               return 1;

           // A round vent near the floor keeps the smoke there dense and hot.
           fsi_grid_source vent = {
               .shape = FSI_SOURCE_SPHERE,
               .centre = fsi_vec(FSI_R(0.5), FSI_R(0.2), 0),
               .radius = FSI_R(0.1),
               .set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE,
               .density = 1,
               .temperature = 1,
           };
           fsi_grid_add_source(&grid, &vent);

           // Two seconds; each frame takes as many steps as the flow allows.
           fsi_report report;
           for (int frame = 0; frame < 50; frame++)
               if (fsi_grid_advance(&grid, FSI_R(0.04), 0, NULL, &report) < 0)
                   return 1;
           printf("t = %g s, %d iterations, divergence %g\n", grid.time, report.iterations,
                  report.divergence);
           fsi_grid_free(&grid);
           return 0;
       }
   Compile: cc main.c -lm          (add -fopenmp for threads, -O3 -march=native for speed)

   WHAT IT DOES
   - Sides closed (slip, no-slip), open, or with prescribed velocity; gravity, a body-force
     callback, buoyancy, vorticity confinement.
   - Sources and drains (boxes, spheres, callbacks) of velocity, smoke, scalars, liquid and volume.
   - Semi-Lagrangian and MacCormack advection, chosen per quantity; one-sided next to solids:
     nothing looks through a surface.
   - Pressure projection with open fractions of faces, second-order ghost-fluid surface, closed
     regions; implicit viscosity.
   - Liquid: particle level set (see >>levelset), air regions told apart (open, closed) with
     volumes.
   - Steps in named stages, so that fsi_couple.h or you can sit in the middle; save and restore;
     tracers; sampling anywhere.
   WHAT IT DOES NOT
   - No compressibility, no surface tension, no adaptive grids. Air is empty: closed air regions
     push back only through fsi_couple.h.
   - It does not know solids. Whoever does fills in an fsi_occlusion: solid cells, blocked faces,
     open fractions, wall velocities.
   - Viscosity acts on each component alone (div nu grad u): exact for constant nu, an
     approximation where nu varies strongly.
   - Splitting of advection and projection is first order in time, whatever the advection scheme.

   CONFIGURATION (define before the include)
     FSI_IMPLEMENTATION, FSI_SINGLE, FSI_STATIC, FSI_API, FSI_NO_OPENMP: as in fsi_linalg.h;
   FSI_GRID_IMPLEMENTATION: only this header's code.

   UNITS AND CONVENTIONS
   SI; 2D is a slab one metre deep (areas in place of volumes). Cells i + nx (j + ny k); u[a] lies
   on the lower a-faces, see fsi_grid.
   The pressure unknown is p^ = p dt (Pa s): u = u* - grad p^ / rho. phi < 0 is liquid. Sides: -x
   +x -y +y -z +z.
   A desc struct may be zeroed: a numerical knob at 0 takes its default, a physical quantity at 0
   is really 0, a size at 0 is refused.

   GLOSSARY
   side      one of the six walls of the grid: FSI_LEFT ... FSI_FRONT
   region    fluid cells that are connected; closed without a free surface
   bubble    a closed region of air whose volume is kept
   shell     a surface without inside, wet on both sides
   level set phi, the signed distance to the free surface, negative in liquid
   marker    a particle on the free surface that mends phi
   room      space that is left: items a list or an array can take

   USAGE
   First calls to know: fsi_grid_init, fsi_grid_set_velocity, fsi_grid_set_field,
   fsi_grid_add_source, fsi_grid_step, fsi_grid_max_dt.
   1. One step. fsi_grid_step runs the stages; fsi_grid_advance splits a frame into steps of the
      advised length: fsi_grid_advect           old velocity carries itself, smoke and scalars
      fsi_grid_forces           gravity, buoyancy, confinement, force_fn, sources: now u is u*
      fsi_grid_classify         cell[]: fluid, air, solid; air regions fsi_grid_viscosity
      implicit, only if there is any fsi_grid_build_pressure   weight[], rhs[]           <- a
      coupling changes these, or solves in their place fsi_grid_solve_pressure   A p^ = rhs
      fsi_grid_apply_pressure   u = u* - grad p^ / rho; closed faces take the solid's velocity
      fsi_grid_extrapolate      velocity into air and solids fsi_grid_move_surface     liquid moves
      with the new velocity; time advances Faces beside solids keep their u* until build_pressure;
      the sides of the box are set in every stage.
   2. Solids. Fill an fsi_occlusion and call fsi_grid_set_occlusion (every step, if they move).
      Voxel walls: solid[] alone. Smooth ones: open[] too (a cell is then solid only when all of
      its faces are closed). Thin shells: blocked[]; with desc.shells the two sides of a blocked
      face keep their own velocity (u: cell on the minus side, u_plus: plus side). hit_fn makes
      sight exact.
   3. Liquid. desc.liquid = 1, then fsi_grid_set_field(FSI_FIELD_PHI) with a signed distance.
      desc.volume_correction = 1 keeps the volume and reports by how much (report.volume_change).
   4. Own fields. Write any state array between steps; after writing phi by hand call
      fsi_levelset_reset(&grid.levelset, ...).
   5. Tracers. fsi_grid_trace moves your points; they belong to you and are not part of the saved
      state.
   6. Time shares. Set grid.clock_fn; grid.stats has seconds per stage.

   NUMERICAL NOTES
   - Step: any dt is stable; accuracy wants max |u| dt / h near 1, fsi_grid_max_dt allows desc.cfl
     = 3. Beyond it the step is done and says FSI_DT_TOO_LARGE.
   - Paths are quadratic with one midpoint evaluation per cell (see >>grid advection): second
     order. MacCormack falls back to linear where a path leaves the box or comes near a solid.
   - Measured (tests F_01 .. F_22): inviscid Taylor-Green kinetic energy kept at T = 1 on
     32/64/128: linear .854 .923 .960, MacCormack .955 .976 .988. Gresho vortex on 32/64: linear
     .425 .610, MacCormack .815 .893. Rotated bump: order 1 and 2 (1.9).
   - Ghost fluid: p second order (1.94 up to 256), exact for hydrostatics: a tank with an unaligned
     surface stays at rest to 4e-13 of g dt over 1,000 steps. theta is kept above desc.theta_min: a
     surface closer than that to a cell centre is moved there.
   - The solver stops at desc.tolerance or at grid.noise, the round-off of the velocities,
     whichever comes first.
   - Closed boxes whose inflow and outflow do not match: the compatible part is solved, the result
     is FSI_INCOMPATIBLE.
   - A no-slip side acts through the viscosity; without viscosity it is a slip side.
   - A layer of liquid over the whole width under a closed lid does not fall as one: the air below
     holds it, as in a glass turned over, and it comes down by the waves that grow on it (sigma^2 =
     g k tanh k d, kept to 0.5 % on 32 cells). Where air gets beside it, it falls.
   - Dam break: the front runs 7 to 9.5 % ahead of the experiment (40 to 140 cells along the tank),
     as without friction it should.
   - Single precision: divergence about 1e-5 of u / h; tank at rest to 4e-5 of g dt.

   MEMORY
   One allocation for the grid, one for the pressure solver, one for the level set; all in
   fsi_grid_init, none in a step. In double: smoke
   194 bytes per cell, liquid without markers 217. desc.shells adds 48.

   ERRORS
   Functions return an fsi_result. Negative: refused, the grid is as before; this holds for
   fsi_grid_step as well: dt, fields and callbacks are
   checked before anything changes. Positive: done, but look (FSI_DT_TOO_LARGE, FSI_NOT_CONVERGED,
   FSI_INCOMPATIBLE, FSI_CAPPED ...).

   THREADS AND DETERMINISM
   No file-scope state, no threads of our own; long loops use OpenMP where the compiler has it on.
   The same binary gives the same bits for any
   number of threads (tested for 1, 2, 3), with and without the wider vectors that the advection
   takes where the processor has them. A restored run continues bit for bit. force_fn and
   distance_fn run on the caller's thread,
   hit_fn may be called from several at once.

   REFERENCES
   Harlow, Welch 1965 (MAC). Stam 1999 (semi-Lagrangian). Selle, Fedkiw, Kim, Liu, Rossignac 2008
   (MacCormack). Fedkiw, Stam, Jensen 2001
   (smoke, confinement). Gibou, Fedkiw, Cheng, Kang 2002 (second-order surface). Enright,
   Marschner, Fedkiw 2002 (particle level set).
   Guendelman, Selle, Losasso, Fedkiw 2005 and Robinson-Mosher, English, Fedkiw 2009 (one-sided
   interpolation at solids).

   CHANGELOG
   1.00  first release.

   LICENCE
   MIT or public domain, as you prefer; text at the end of the file. */
#if defined(FSI_IMPLEMENTATION) && !defined(FSI_DECLARATIONS_ONLY)                                 \
    && !defined(FSI_GRID_IMPLEMENTATION)
#define FSI_GRID_IMPLEMENTATION
#endif
#include "fsi_linalg.h"

#ifndef FSI_GRID_H
#define FSI_GRID_H
#if FSI_LINALG_VERSION != 100
#error "vendor all fsi_*.h files from the same release"
#endif
#ifdef FSI_SINGLE /* first calls of a user: a mixture of precisions does not link */
#define fsi_levelset_init fsi_levelset_init_f32
#define fsi_grid_init fsi_grid_init_f32
#endif
#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------
 * >>levelset */
/* The surface of a liquid: phi at cell centres, the signed distance to the surface, negative inside
   the liquid, with marker particles on both sides (particle level set). It knows nothing of
   pressure: it moves with any velocity given on MAC faces. Cells are i + nx * (j + ny * k) with
   centre origin + h * (i + 1/2, j + 1/2, k + 1/2); faces u[0][(nx+1)*ny*nz], u[1][nx*(ny+1)*nz],
   u[2][nx*ny*(nz+1)]; with nz = 1 (2D) u[2] is never read and volumes are areas, m^2. */
typedef struct fsi_levelset_desc {
    int nx, ny, nz;  /* cells, >= 2, >= 2, >= 1; nz = 1 is 2D. Required */
    fsi_real h;      /* cell size, m, > 0. Required */
    fsi_vec3 origin; /* corner of cell 0, m */
    /* markers per cell and side of a cell, n^dim in each cell near the surface: 0 = default (4 in
     * 2D, 3 in 3D), 1 .. 8; -1 = none (pure level set) */
    int particles;
    /* most markers alive; 0 = default (half the cells full in 2D, an eighth in 3D, all on small
     * grids) */
    size_t particle_room;
    int reseed;     /* steps between reseedings; 0 = default 20, -1 = never */
    int redistance; /* steps between redistancings; 0 = default 5, -1 = never */
    /* phi is a distance up to this many cells from the surface and clipped beyond; 0 = default 8,
     * >= 5 */
    int band;
    /* 1: linear interpolation of phi in the advection; 0: limited cubic */
    int linear;
    /* 1: drops and bubbles smaller than a cell do not last, as weight has it (they fall back,
     * they rise): markers that the repaired surface leaves on the wrong side go; 0: they are
     * carried on, as thin threads in a given flow need it. A grid sets it: 1 with gravity */
    int settle;
    /* 1: markers sit on a regular lattice (a mirrored scene stays mirrored); 0: jittered */
    int even;
    uint64_t seed;           /* of the jitter; any value */
    fsi_allocator allocator; /* zero = malloc */
} fsi_levelset_desc;

/* The part of the dynamic state that is not an array; lies at the head of the state block. */
typedef struct fsi_levelset_state {
    size_t count;    /* markers alive */
    uint64_t random; /* state of the jitter */
    int64_t steps;   /* steps done */
    /* volume that should be there, m^3: what was added and taken away on purpose */
    double target;
} fsi_levelset_state;

typedef struct fsi_levelset {
    fsi_levelset_desc desc;    /* resolved: no zeros that mean "default" */
    size_t cells, room;        /* cells; markers that fit */
    fsi_levelset_state *state; /* head of the state block; then phi and the markers */
    fsi_real *phi;             /* [cells] signed distance, m, negative in the liquid */
    /* [room] positions of the markers, m; the first state->count are alive */
    fsi_real *px, *py, *pz;
    /* [room] signed radius of the markers, m: > 0 marks air, < 0 marks liquid */
    fsi_real *pr;
    fsi_real *work[2];    /* [cells] scratch */
    int32_t *heap, *slot; /* [most faces of an axis] scratch of the marching */
    uint8_t *mark;        /* [most faces of an axis] scratch flags */
    /* [room] scratch flags of the markers: 1 = escaped, 2 = to be deleted */
    uint8_t *pmark;
    void *block;                   /* the one allocation */
    size_t block_size, state_size; /* bytes; the state is the head of the block */
} fsi_levelset;

/* What keeps the liquid out. All members may be NULL. */
typedef struct fsi_levelset_walls {
    /* [cells] not 0: no liquid in this cell; phi there only continues the surface */
    const uint8_t *solid;
    /* the last point of the way from -> to that is not behind a solid */
    fsi_vec3 (*clip_fn)(fsi_vec3 from, fsi_vec3 to, void *user);
    void *user; /* handed to clip_fn */
    /* [cells] 0: no way that begins in the cell meets a solid, clip_fn is not asked; NULL: any may
     */
    const uint8_t *near_cell;
    /* [6] sides -x +x -y +y -z +z, not 0: markers may leave, and what flows in is air; NULL = all
     * closed */
    const int *open;
} fsi_levelset_walls;

/* What one advance did. Plain data. */
typedef struct fsi_levelset_report {
    double volume; /* after the step, m^3 (m^2 in 2D) */
    /* what fsi_levelset_correct_volume added, m^3; 0 when it was not called */
    double volume_change;
    double shift;           /* by how much it moved the surface outward, m */
    size_t markers;         /* alive */
    size_t escaped;         /* found on the wrong side in this step */
    size_t seeded, deleted; /* in this step */
    int room_full;          /* 1: markers were left out for lack of room */
} fsi_levelset_report;

/* Makes an empty level set (no liquid): one block of memory, all of it here. */
FSI_API fsi_result fsi_levelset_init(fsi_levelset *ls, const fsi_levelset_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_levelset_free(fsi_levelset *ls);
/* Shape of a liquid or hole: signed distance at a point, m, negative inside. */
typedef fsi_real (*fsi_shape_fn)(fsi_vec3 x, void *user);
/* Adds the shape to the liquid (add = 1) or cuts it out (add = 0), redistances, reseeds and
   corrects state->target by what really changed. walls may be NULL. FSI_ERR_CALLBACK when a value
   is not finite (nothing changed then). */
FSI_API fsi_result fsi_levelset_shape(fsi_levelset *ls, fsi_shape_fn shape_fn, void *user, int add,
                                      const fsi_levelset_walls *walls);
/* Call after writing phi by hand: redistances, reseeds, takes the present volume as target. walls
 * may be NULL. */
FSI_API fsi_result fsi_levelset_reset(fsi_levelset *ls, const fsi_levelset_walls *walls);
/* One step of the surface: phi and markers move with u for dt seconds, markers repair phi, phi is
   made a distance again, markers are reseeded when due. u must be valid some cells beyond the
   surface (fsi_levelset_extrapolate). FSI_ERR_ARGUMENT on dt not finite or negative,
   FSI_ERR_NUMERIC when u is not finite (nothing changed); FSI_CAPPED when markers found no room.
   walls, report may be NULL. */
FSI_API fsi_result fsi_levelset_advance(fsi_levelset *ls, const fsi_real *const u[3], fsi_real dt,
                                        const fsi_levelset_walls *walls,
                                        fsi_levelset_report *report);
/* Makes phi a signed distance; the surface stays where it is (near cells by closest points, the
 * rest by fast marching, second order). */
FSI_API void fsi_levelset_redistance(fsi_levelset *ls);
/* Continues phi from the free cells into the solid ones next to them, so that the surface meets the
 * wall straight. */
FSI_API void fsi_levelset_continue(fsi_levelset *ls, const uint8_t *solid);
/* Continues the face velocities from the liquid outward, constant along the normals of the surface.
   valid[axis][face]: 1 = known, 0 = to be filled, 2 = leave alone and do not use (walls); valid or
   a member NULL = known where a neighbour cell has phi < 0. layers: how many cells far, >= 1, less
   than desc.band. Faces farther away become 0. In 2D u[2] may be NULL. */
FSI_API void fsi_levelset_extrapolate(fsi_levelset *ls, fsi_real *const u[3],
                                      const uint8_t *const valid[3], int layers);
/* Liquid volume in every cell as a fraction of h^dim, 0 .. 1, into fraction[cells] (may be NULL);
   returns the volume, m^3 (m^2 in 2D). Solid cells (may be NULL) hold none. */
FSI_API double fsi_levelset_volume(const fsi_levelset *ls, const uint8_t *solid,
                                   fsi_real *fraction);
/* Moves the surface outward everywhere by the same small distance (at most limit * h) so that the
   volume is state->target again; fills volume, volume_change and shift of the report (may be NULL).
   FSI_EMPTY without a surface; FSI_CAPPED at the limit. */
FSI_API fsi_result fsi_levelset_correct_volume(fsi_levelset *ls, const uint8_t *solid,
                                               fsi_real limit, fsi_levelset_report *report);
/* Takes the present volume outside the solid cells (may be NULL) as the one to keep. */
FSI_API void fsi_levelset_keep_volume(fsi_levelset *ls, const uint8_t *solid);
/* Takes out the markers of all cells c in which cell[c] has one of the bits set. */
FSI_API void fsi_levelset_drop_markers(fsi_levelset *ls, const int8_t *cell, int bits);
/* phi at any point, m (linear between cell centres, continued to the walls, clipped to the box);
 * and its gradient. */
FSI_API fsi_real fsi_levelset_sample(const fsi_levelset *ls, fsi_vec3 x, fsi_vec3 *gradient);
/* Bytes of the dynamic state; save copies it out, restore back in. A restored run continues bit for
 * bit. */
FSI_API size_t fsi_levelset_state_size(const fsi_levelset *ls);
FSI_API void fsi_levelset_save(const fsi_levelset *ls, void *out);
FSI_API fsi_result fsi_levelset_restore(fsi_levelset *ls, const void *in);

/* ------------------------------------------------------------------------------------------------
 * >>grid types */
#define FSI_GRID_SCALARS 8  /* most user scalars */
#define FSI_GRID_SOURCES 32 /* most sources kept by a grid */

/* The sides of the box by name: the index of fsi_grid_desc.side. */
enum {
    FSI_LEFT = 0, /* -x */
    FSI_RIGHT,    /* +x */
    FSI_BOTTOM,   /* -y */
    FSI_TOP,      /* +y */
    FSI_BACK,     /* -z; not read in 2D */
    FSI_FRONT     /* +z; not read in 2D */
};

/* What happens at one side of the box. */
typedef enum fsi_side_kind {
    FSI_SIDE_SLIP = 0, /* closed, frictionless */
    /* closed; friction acts through the viscosity (none where viscosity is 0) */
    FSI_SIDE_NOSLIP,
    /* pressure 0 outside, fluid flows freely both ways; what comes in is fresh: no smoke, ambient,
     * scalars 0, no liquid */
    FSI_SIDE_OPEN,
    /* velocity prescribed on the side (in or out); what comes in is what the outermost cells hold
     * (put a source there) */
    FSI_SIDE_INFLOW
} fsi_side_kind;

typedef struct fsi_grid_side {
    fsi_side_kind kind;
    /* m/s; INFLOW: the whole vector; NOSLIP: its tangential part moves the wall; else ignored */
    fsi_vec3 velocity;
} fsi_grid_side;

typedef enum fsi_advection {
    FSI_ADVECT_DEFAULT = 0, /* MacCormack */
    /* semi-Lagrangian, midpoint back-trace, linear interpolation: first order, monotone */
    FSI_ADVECT_LINEAR,
    /* with limiter: second order where smooth, keeps the range of the old values */
    FSI_ADVECT_MACCORMACK,
    FSI_ADVECT_MACCORMACK_FREE, /* without limiter: least dissipation, may overshoot */
    FSI_ADVECT_NONE             /* stays where it is */
} fsi_advection;

/* Cell-centred fields, by number. */
typedef enum fsi_field {
    FSI_FIELD_PRESSURE = 0, /* p^ = pressure times the last dt, Pa s */
    FSI_FIELD_DENSITY,      /* smoke density, any unit */
    FSI_FIELD_TEMPERATURE,  /* K or any unit */
    FSI_FIELD_PHI,          /* liquid level set, m, negative inside */
    FSI_FIELD_SCALAR        /* FSI_FIELD_SCALAR + i: user scalar i */
} fsi_field;

typedef fsi_real (*fsi_scalar_fn)(fsi_vec3 x, void *user); /* a value at a point, m */
/* a vector at a point and time */
typedef fsi_vec3 (*fsi_vector_fn)(fsi_vec3 x, double time, void *user);

/* Something that pours in or drains. A bit of set names each quantity it prescribes in its region,
 * once a step. */
/* fill with liquid */
enum {
    FSI_SOURCE_VELOCITY = 1,
    FSI_SOURCE_DENSITY = 2,
    FSI_SOURCE_TEMPERATURE = 4,
    FSI_SOURCE_LIQUID = 8,
    FSI_SOURCE_DRAIN = 16, /* take liquid away */
    FSI_SOURCE_DIVERGENCE = 32,
    FSI_SOURCE_SCALAR = 256 /* << i: user scalar i */
};

typedef enum fsi_source_shape {
    FSI_SOURCE_BOX = 0,
    FSI_SOURCE_SPHERE,
    FSI_SOURCE_CALLBACK
} fsi_source_shape;

typedef struct fsi_grid_source {
    fsi_source_shape shape;
    fsi_vec3 lo, hi;           /* BOX: corners, m (z ignored in 2D) */
    fsi_vec3 centre;           /* SPHERE, m */
    fsi_real radius;           /* SPHERE, m, > 0 */
    fsi_scalar_fn distance_fn; /* CALLBACK: signed distance, m, negative inside; finite */
    void *user;                /* for distance_fn */
    unsigned set;              /* bits FSI_SOURCE_*; at least one */
    fsi_vec3 velocity;         /* m/s */
    fsi_real density, temperature, scalar[FSI_GRID_SCALARS]; /* value prescribed inside */
    fsi_real divergence; /* volume made per volume and second, 1/s; negative drains */
    double start, stop;  /* active for start <= time < stop, s; both 0 = always */
} fsi_grid_source;

/* Solids as the grid sees them: plain data filled in by whoever knows the solids (fsi_couple.h, or
   you). All arrays belong to the caller and are read until the next fsi_grid_set_occlusion. Face
   arrays are laid out like fsi_grid.u. Any pointer may be NULL. A face is *blocked* (nobody looks
   through it) when its bit is set or a neighbour cell is solid. It is *closed* (carries no pressure
   gradient, takes the solid's normal velocity) when a neighbour cell is solid, when open[] is 0
   there, or, where open[] is NULL, when it is blocked. */
typedef struct fsi_occlusion {
    /* [cells] 1: the cell centre lies in a solid; no fluid lives there. NULL: no cell */
    const uint8_t *solid;
    /* [faces] open fraction of the face, 0..1; NULL: 0 where blocked, else 1. Beside solid cells it
     * counts as 0 */
    const fsi_real *open[3];
    /* [faces] 1: the segment between the two cell centres hits a surface (thin shell or solid).
     * NULL: none */
    const uint8_t *blocked[3];
    /* [faces] solid's velocity along the axis where closed, m/s; flux through the closed part.
     * NULL: 0 */
    const fsi_real *velocity[3];
    /* Optional, first surface on the segment a -> b: returns 1 and *t in [0,1], unit normal,
       surface velocity, else 0. Must be safe to call from several threads; numbers that are none
       count as a wall at rest at a. Without it rays stop at blocked faces. Also answers "does b see
       a". */
    int (*hit_fn)(void *user, fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal,
                  fsi_vec3 *velocity);
    void *user;
    /* 1: the velocity inside solid cells continues the flow outside (slip walls): only shells hide
     * anything from the advection */
    int smooth;
    /* 1: blocked[] holds thin shells. The liquid's surface is then kept from moving through them: a
     * cell beside a shell that sees only its own kind stays what it is */
    int shells;
} fsi_occlusion;

typedef struct fsi_grid_desc {
    int nx, ny, nz;  /* cells, >= 2, >= 2, >= 1; nz = 1 is 2D */
    fsi_real h;      /* cell size, m, > 0 */
    fsi_vec3 origin; /* lower corner of the box, m */
    /* fluid mass density, kg/m^3, > 0 (2D: kg/m^3 too, per metre of depth) */
    fsi_real rho;
    fsi_vec3 gravity;      /* m/s^2 */
    fsi_grid_side side[6]; /* by name, FSI_LEFT .. FSI_FRONT. Zero: closed, slip */
    /* 1: a free surface (level set), starts empty; 0: the fluid fills the box (smoke) */
    int liquid;
    int smoke;   /* 1: density and temperature fields */
    int scalars; /* user scalars, 0..FSI_GRID_SCALARS */
    int shells;  /* 1: room for a second velocity sample per face (thin shells) */
    /* 0 = MacCormack */
    fsi_advection advect_velocity, advect_density, advect_temperature, advect_scalar;
    /* alpha: acceleration = up * (-alpha density + beta (temperature - ambient)), m/s^2 per unit */
    fsi_real buoyancy_density;
    fsi_real buoyancy_temperature; /* beta, m/s^2 per K */
    fsi_real ambient;              /* temperature without buoyancy, K; temperature starts there */
    /* direction of buoyancy; zero = against gravity, or +y without gravity */
    fsi_vec3 up;
    fsi_real confinement; /* vorticity confinement strength, 1; 0 = none */
    fsi_real cooling;     /* temperature falls to ambient at this rate, 1/s */
    fsi_real dissipation; /* density fades at this rate, 1/s */
    fsi_real viscosity;   /* kinematic, m^2/s; 0 = none. Implicit: stable for any step */
    /* optional [cells] kinematic viscosity instead, m^2/s >= 0; caller's, read in every step */
    const fsi_real *viscosity_cells;
    int solid_noslip; /* 1: viscosity also drags at solids; 0: solids are frictionless */
    /* optional body acceleration, m/s^2, at face centres; must be finite */
    fsi_vector_fn force_fn;
    void *force_user;
    double tolerance;   /* pressure: relative residual; 0 = 1e-6 (single: 1e-5) */
    int max_iterations; /* pressure: cap; 0 = 200 */
    fsi_real cfl;       /* advised max |u| dt / h of fsi_grid_max_dt; 0 = 3 */
    /* ghost fluid: smallest distance to the surface, in cells; 0 = 1e-3 */
    fsi_real theta_min;
    int extrapolate; /* layers of velocity carried out of the fluid; 0 = 6 */
    /* air regions told apart (liquid); 0 = 256, further ones count as open */
    int max_regions;
    /* liquid: markers as in fsi_levelset_desc: 0 = default, 1..8 per cell side, -1 = level set only
     */
    int particles;
    /* liquid: 1 = drift of the volume is corrected and reported, 0 = never touched */
    int volume_correction;
    fsi_allocator allocator; /* zero = malloc */
    fsi_logger logger;       /* zero = silent */
} fsi_grid_desc;

/* A connected region of air cells (liquid grids). */
typedef struct fsi_air_region {
    /* 1: touches an open side of the box: atmosphere; 0: closed off (a bubble, or air under a lid)
     */
    int open;
    int cells;     /* air cells */
    double volume; /* m^3 (2D: m^2), cells at the surface counted by their air share */
    /* m, set by the caller of fsi_grid_shift_phi and fsi_grid_shift_markers: how far the liquid
     * beside this air grows */
    double shift;
} fsi_air_region;

/* What the last stages saw and did. */
typedef struct fsi_grid_stats {
    double max_speed;     /* largest velocity component, m/s, at the start of the last step */
    double cfl;           /* max_speed * dt / h of that step */
    double liquid_volume; /* m^3 (2D: m^2) */
    /* J, after the projection (only set by fsi_grid_step with a report) */
    double kinetic_energy;
    /* s, only with a clock (fsi_grid.clock_fn) */
    double seconds_advect, seconds_forces, seconds_project;
} fsi_grid_stats;

/* The grid. Cell (i,j,k) is i + nx (j + ny k), its centre origin + h (i+1/2, j+1/2, k+1/2) (2D: z =
   origin.z + h/2). Face (i,j,k) of axis a is the lower a-face of cell (i,j,k); u[0] has nx+1, u[1]
   ny+1, u[2] nz+1 faces along its own axis: u[0]: i + (nx+1) (j + ny k)     u[1]: i + nx (j +
   (ny+1) k)     u[2]: i + nx (j + ny k)   (2D: u[2] is NULL) You may read everything and write
   state arrays between stages. */
typedef struct fsi_grid {
    /* as given, defaults filled in; gravity, buoyancy, viscosity, cfl, tolerance may be changed
     * between steps */
    fsi_grid_desc desc;
    int nx, ny, nz, dim;    /* dim = 2 or 3 */
    fsi_real h;             /* m */
    fsi_vec3 origin;        /* m */
    size_t cells, faces[3]; /* array sizes */
    /* state: what save and restore copy */
    double time;   /* s since init */
    int64_t steps; /* steps done */
    /* [faces[a]] velocity along a, m/s. At a blocked face: the sample of the cell on the minus side
     */
    fsi_real *u[3];
    /* optional, a coupling's: [faces[a]] what the next fsi_grid_advect carries along the paths of u
     * in place of u, away from shells; cleared by it */
    const fsi_real *carried[3];
    /* desc.shells: [faces[a]] sample of the cell on the plus side; equal to u where the face is not
     * blocked. Else NULL */
    fsi_real *u_plus[3];
    fsi_real *pressure;                 /* [cells] p^ = p dt, Pa s; guess of the next solve */
    fsi_real *density, *temperature;    /* [cells] with desc.smoke, else NULL */
    fsi_real *scalar[FSI_GRID_SCALARS]; /* [cells] user scalars */
    /* made by fsi_grid_classify and fsi_grid_build_pressure; the coupling may change weight, rhs
     * and cell before the solve */
    uint8_t *cell; /* [cells] fsi_cell: FLUID, DIRICHLET (air), NEUMANN (solid) */
    /* [faces[a]] of the matrix: open fraction / ghost-fluid theta; 0 at closed faces and closed
     * sides */
    fsi_real *weight[3];
    /* [cells, room for the largest faces] Pa s: A p^ = rhs, (A p)_c = sum w_f (p_c - p_n), rhs_c
     * = -rho h (sum of outward open u* + closed u_solid). Times h^(dim-2) / rho this is G^T b^-1
     * G p^ = G^T u* of the coupled system. */
    fsi_real *rhs;
    /* residual that is only round-off (of u* and of p ~ rho u* times the box), Pa s: the solver
     * stops there */
    double noise;
    /* 1: every weight inside the box is 1, the solver takes its faster path; clear it when you
     * change weight */
    int weights_are_one;
    /* liquid: [cells] number of the air region, -1 in other cells; else NULL */
    int32_t *region;
    fsi_air_region *regions; /* [region_count] */
    int region_count;
    /* parts and settings */
    fsi_mg *mg;              /* pressure solver, owned */
    fsi_levelset levelset;   /* liquid: see >>levelset; else zeroed */
    fsi_real *phi;           /* liquid: levelset.phi, [cells] m, negative inside; else NULL */
    fsi_occlusion occlusion; /* copy of what fsi_grid_set_occlusion was given */
    int occluded;            /* 1: occlusion is in force */
    fsi_grid_source source[FSI_GRID_SOURCES]; /* fsi_grid_add_source */
    int source_count;
    fsi_grid_stats stats;
    double (*clock_fn)(void *user); /* optional: seconds, for stats; set it after init */
    void *clock_user;
    /* private */
    /* [largest faces] work space between stages: free for the caller inside a stage boundary */
    fsi_real *scratch[4];
    int32_t *stencil;       /* [largest faces] lower corner of the back-traced stencil */
    fsi_real *way[2];       /* [cells] ways of the forward paths along y and z */
    uint8_t *mark[3];       /* [faces[a]] */
    fsi_real *plus_work[3]; /* desc.shells: [faces[a]] */
    int mg_plain;           /* 1: the solver holds the plain box (all fluid, all weights one) */
    uint8_t *near_cell;     /* [cells] 1: rays from here may meet a solid */
    void *block, *state;    /* the one allocation, and its part that is state */
    size_t block_size, state_bytes;
} fsi_grid;

/* ------------------------------------------------------------------------------------------------
 * >>grid primary */
/* Makes a grid at rest (one allocation, and one each for the pressure solver and the level set).
 * *grid is overwritten; on failure it is zeroed. */
FSI_API fsi_result fsi_grid_init(fsi_grid *grid, const fsi_grid_desc *desc);
/* Frees everything; safe on a zeroed struct and twice. */
FSI_API void fsi_grid_free(fsi_grid *grid);
/* One uncoupled step of dt seconds (> 0): the stages below in order. report may be NULL.
 * FSI_DT_TOO_LARGE when max |u| dt / h > desc.cfl (done all the same). */
FSI_API fsi_result fsi_grid_step(fsi_grid *grid, fsi_real dt, fsi_report *report);
/* Sub-steps of at most fsi_grid_max_dt until dt is used up, at most max_steps (0 = 1000; FSI_CAPPED
   when the last one had to be longer). report: of the last sub-step, iterations summed; may be
   NULL. steps: how many, may be NULL. */
FSI_API fsi_result fsi_grid_advance(fsi_grid *grid, fsi_real dt, int max_steps, int *steps,
                                    fsi_report *report);
/* Longest advised step, s: cfl h / (max |u| + sqrt(cfl h |g|)) with g of gravity; FSI_REAL_MAX when
 * nothing moves. 0 when a velocity is not finite. */
FSI_API fsi_real fsi_grid_max_dt(const fsi_grid *grid);
/* max |u| dt / h; 0 when dt is not positive. */
FSI_API fsi_real fsi_grid_cfl(const fsi_grid *grid, fsi_real dt);
/* Sets the velocity at the face centres (and stops flow through closed sides), fn is called with
 * time 0. A value that is not finite: nothing changes. */
FSI_API fsi_result fsi_grid_set_velocity(fsi_grid *grid, fsi_vector_fn fn, void *user);
/* Sets a field at the cell centres; FSI_FIELD_PHI takes a signed distance (it is redistanced) and
 * seeds particles. */
FSI_API fsi_result fsi_grid_set_field(fsi_grid *grid, fsi_field field, fsi_scalar_fn fn,
                                      void *user);
/* Keeps a copy of the source. FSI_ERR_ARGUMENT when a value is not finite or it lies outside the
 * box, FSI_ERR_SIZE when the list is full. */
FSI_API fsi_result fsi_grid_add_source(fsi_grid *grid, const fsi_grid_source *source);
/* Solids for the next steps (struct copied, arrays referenced); NULL = none. Velocity samples that
 * come out of a solid are filled in by extrapolation. */
FSI_API fsi_result fsi_grid_set_occlusion(fsi_grid *grid, const fsi_occlusion *occlusion);

/* ------------------------------------------------------------------------------------------------
 * >>grid stages */
/* The stages of a step, in order. dt > 0 and finite, else FSI_ERR_ARGUMENT; a field that is not
 * finite: FSI_ERR_NUMERIC; nothing changed then. */
/* velocity and scalars by the old velocity */
FSI_API fsi_result fsi_grid_advect(fsi_grid *grid, fsi_real dt);
/* sources, gravity, buoyancy, confinement, force_fn, decay */
FSI_API fsi_result fsi_grid_forces(fsi_grid *grid, fsi_real dt);
/* implicit; does nothing where viscosity is 0 */
FSI_API fsi_result fsi_grid_viscosity(fsi_grid *grid, fsi_real dt, fsi_report *report);
/* cell, region, regions */
FSI_API fsi_result fsi_grid_classify(fsi_grid *grid);
/* After it: near[cells] = 1 + the air region within 4 cells, counted along open faces, 0 = none;
   and the regions' volumes (stats.liquid_volume, too) when phi has changed since, with the regions
   as they were. */
FSI_API void fsi_grid_air_near(const fsi_grid *grid, int32_t *nearby);
FSI_API void fsi_grid_air_volumes(fsi_grid *grid, const int32_t *nearby);
/* Moves the liquid's surface outward by regions[].shift, each part by that of the air region near
   it (nearby as above): phi, where it is not clipped; and the markers, who left behind would soon
   count as escaped and undo the shift. */
FSI_API void fsi_grid_shift_phi(fsi_grid *grid, const int32_t *nearby);
FSI_API void fsi_grid_shift_markers(fsi_grid *grid, const int32_t *nearby);
/* boundary velocities, weight, rhs; the coupling sits after this */
FSI_API fsi_result fsi_grid_build_pressure(fsi_grid *grid, fsi_real dt);
FSI_API fsi_result fsi_grid_solve_pressure(fsi_grid *grid, fsi_report *report); /* A p^ = rhs */
/* u -= grad p^ / rho on open faces of fluid cells; boundary velocities */
FSI_API fsi_result fsi_grid_apply_pressure(fsi_grid *grid);
/* velocity out of the fluid into air and solid cells */
FSI_API fsi_result fsi_grid_extrapolate(fsi_grid *grid);
/* liquid: level set, particles, volume; also time += dt */
FSI_API fsi_result fsi_grid_move_surface(fsi_grid *grid, fsi_real dt, fsi_report *report);

/* ------------------------------------------------------------------------------------------------
 * >>grid queries */
/* The array of a field, NULL when the grid does not have it. */
FSI_API fsi_real *fsi_grid_field(const fsi_grid *grid, fsi_field field);
/* Velocity at any point (clamped to the box), m/s; one-sided next to solids: samples the point
 * cannot see are not used. */
FSI_API fsi_vec3 fsi_grid_velocity_at(const fsi_grid *grid, fsi_vec3 x);
/* A field at any point, likewise; 0 when the grid does not have it. */
FSI_API fsi_real fsi_grid_field_at(const fsi_grid *grid, fsi_field field, fsi_vec3 x);
/* Moves count tracer points x[3 * count] for dt (either sign) with the velocity, midpoint rule,
 * stopping at solids and at the box. */
FSI_API fsi_result fsi_grid_trace(const fsi_grid *grid, fsi_real dt, int count, fsi_real *x);
/* Position of a cell centre or of a face centre of an axis, m. */
FSI_API fsi_vec3 fsi_grid_cell_centre(const fsi_grid *grid, int i, int j, int k);
FSI_API fsi_vec3 fsi_grid_face_centre(const fsi_grid *grid, int axis, int i, int j, int k);
/* Largest |divergence| over fluid cells, 1/s, with the openness of the last build_pressure (solid
 * fluxes and sources included). */
FSI_API double fsi_grid_max_divergence(const fsi_grid *grid);
/* Kinetic energy of the fluid, J (2D: per metre of depth), from faces beside fluid cells weighted
 * by their fluid share. */
FSI_API double fsi_grid_kinetic_energy(const fsi_grid *grid);
/* All fields of a cell but the pressure become the mean of those of `count` other cells, phi only
   where with_phi: for cells that a solid has run over. */
FSI_API void fsi_grid_take_mean(fsi_grid *grid, size_t cell, int count, const size_t *from,
                                int with_phi);
/* Bytes a save needs; save copies the state there; restore takes it back (FSI_ERR_SIZE when it is
 * from another kind of grid). */
FSI_API size_t fsi_grid_state_size(const fsi_grid *grid);
FSI_API fsi_result fsi_grid_save(const fsi_grid *grid, void *block);
FSI_API fsi_result fsi_grid_restore(fsi_grid *grid, const void *block);
/* Bytes the grid holds with all its parts. */
FSI_API size_t fsi_grid_memory(const fsi_grid *grid);

#ifdef __cplusplus
}
#endif
#endif /* FSI_GRID_H */
/* Stop here if you only need the API. */

#if defined(FSI_GRID_IMPLEMENTATION) && !defined(FSI_GRID_IMPLEMENTED)
#define FSI_GRID_IMPLEMENTED
#ifdef __cplusplus
extern "C" {
#endif
#ifndef FSI__GRAIN
#define FSI__GRAIN 8192 /* as in fsi_linalg.h, whose implementation may be in another file */
#endif

/* ------------------------------------------------------------------------------------------------
   >>grid basics Symbols.  X: position in cells, (x - origin) / h.  family: 0..2 faces of that axis,
   3 cell centres.  s = dt / h. Sample (i,j,k) of a family sits at X = (i,j,k) + o with o = 0 along
   the family's own axis and 1/2 along the others. */
static void fsi__family_size(const fsi_grid *grid, int family, int *n) {
    n[0] = grid->nx + (family == 0);
    n[1] = grid->ny + (family == 1);
    n[2] = grid->nz + (family == 2);
}

FSI__INLINE size_t fsi__at(const int *n, int i, int j, int k) {
    return (size_t)i + (size_t)n[0] * ((size_t)j + (size_t)n[1] * (size_t)k);
}

static fsi_vec3 fsi__to_cells(const fsi_grid *grid, fsi_vec3 x) {
    return fsi_vec_scale(fsi_vec_sub(x, grid->origin), 1 / grid->h);
}

static fsi_vec3 fsi__grid_point(const fsi_grid *grid, fsi_vec3 X) {
    return fsi_vec_mad(grid->origin, X, grid->h);
}

static fsi_vec3 fsi__sample_place(int family, int i, int j, int k) {
    return fsi_vec((fsi_real)i + (family == 0 ? 0 : FSI_R(0.5)),
                   (fsi_real)j + (family == 1 ? 0 : FSI_R(0.5)),
                   (fsi_real)k + (family == 2 ? 0 : FSI_R(0.5)));
}

FSI_API fsi_vec3 fsi_grid_cell_centre(const fsi_grid *grid, int i, int j, int k) {
    return fsi__grid_point(grid, fsi__sample_place(3, i, j, k));
}

FSI_API fsi_vec3 fsi_grid_face_centre(const fsi_grid *grid, int axis, int i, int j, int k) {
    return fsi__grid_point(grid, fsi__sample_place(axis, i, j, k));
}

FSI_API fsi_real *fsi_grid_field(const fsi_grid *grid, fsi_field field) {
    int i = (int)field - (int)FSI_FIELD_SCALAR;
    if (!grid)
        return NULL;
    if (field == FSI_FIELD_PRESSURE)
        return grid->pressure;
    if (field == FSI_FIELD_DENSITY)
        return grid->density;
    if (field == FSI_FIELD_TEMPERATURE)
        return grid->temperature;
    if (field == FSI_FIELD_PHI)
        return grid->phi;
    return i >= 0 && i < FSI_GRID_SCALARS ? grid->scalar[i] : NULL;
}

/* All advected scalars by number: density, temperature, user scalars. NULL past the end of a kind
 * the grid does not have. */
static fsi_real *fsi__scalar(const fsi_grid *grid, int q, fsi_advection *mode) {
    fsi_advection m = q == 0   ? grid->desc.advect_density
                      : q == 1 ? grid->desc.advect_temperature
                               : grid->desc.advect_scalar;
    if (mode)
        *mode = m == FSI_ADVECT_DEFAULT ? FSI_ADVECT_MACCORMACK : m;
    return q == 0 ? grid->density : q == 1 ? grid->temperature : grid->scalar[q - 2];
}

static int fsi__side_valid(const fsi_grid_side *side) {
    return (int)side->kind >= FSI_SIDE_SLIP && (int)side->kind <= FSI_SIDE_INFLOW
           && fsi__finite_vec(side->velocity);
}

static int fsi__not_negative(fsi_real x) {
    return fsi__finite(x) && x >= 0;
}

static fsi_result fsi__grid_check_desc(const fsi_grid_desc *desc) {
    if (!desc || desc->nx < 2 || desc->ny < 2 || desc->nz < 1 || !fsi__finite(desc->h)
        || !(desc->h > 0) || !fsi__finite(desc->rho) || !(desc->rho > 0))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < 6; i++)
        if (!fsi__side_valid(&desc->side[i]))
            return FSI_ERR_ARGUMENT;
    int bad = !fsi__finite_vec(desc->origin) || !fsi__finite_vec(desc->gravity)
              || !fsi__finite_vec(desc->up) || !fsi__finite(desc->buoyancy_density)
              || !fsi__finite(desc->buoyancy_temperature) || !fsi__finite(desc->ambient)
              || !fsi__finite(desc->confinement) || !fsi__not_negative(desc->cooling)
              || !fsi__not_negative(desc->dissipation) || !fsi__not_negative(desc->viscosity)
              || !fsi__not_negative(desc->cfl) || !fsi__not_negative(desc->theta_min)
              || desc->theta_min > FSI_R(0.5) || !(desc->tolerance >= 0 && desc->tolerance < 1)
              || desc->max_iterations < 0 || desc->scalars < 0 || desc->scalars > FSI_GRID_SCALARS
              || desc->extrapolate < 0 || desc->max_regions < 0
              || !fsi_allocator_valid(&desc->allocator) || (int)desc->advect_velocity < 0
              || (int)desc->advect_velocity > FSI_ADVECT_NONE || (int)desc->advect_density < 0
              || (int)desc->advect_density > FSI_ADVECT_NONE || (int)desc->advect_temperature < 0
              || (int)desc->advect_temperature > FSI_ADVECT_NONE || (int)desc->advect_scalar < 0
              || (int)desc->advect_scalar > FSI_ADVECT_NONE;
    if (bad)
        return FSI_ERR_ARGUMENT;
    size_t n;
    if (!fsi_size_mul((size_t)desc->nx + 1, (size_t)desc->ny + 1, &n)
        || !fsi_size_mul(n, (size_t)desc->nz + 1, &n) || n > 0x7fffffff / 2)
        return FSI_ERR_SIZE;
    return FSI_OK; /* indices are int32 */
}

/* Run twice: first to count, then to place. The state comes first and is contiguous. */
static void fsi__grid_layout(fsi_grid *grid, fsi_arena *arena) {
    size_t most = grid->cells, R = sizeof(fsi_real);
    for (int d = 0; d < grid->dim; d++)
        if (grid->faces[d] > most)
            most = grid->faces[d];
    for (int d = 0; d < grid->dim; d++)
        grid->u[d] = (fsi_real *)fsi_arena_take(arena, grid->faces[d], R);
    for (int d = 0; d < grid->dim && grid->desc.shells; d++)
        grid->u_plus[d] = (fsi_real *)fsi_arena_take(arena, grid->faces[d], R);
    grid->pressure = (fsi_real *)fsi_arena_take(arena, grid->cells, R);
    if (grid->desc.smoke)
        grid->density = (fsi_real *)fsi_arena_take(arena, grid->cells, R);
    if (grid->desc.smoke)
        grid->temperature = (fsi_real *)fsi_arena_take(arena, grid->cells, R);
    for (int d = 0; d < grid->desc.scalars; d++)
        grid->scalar[d] = (fsi_real *)fsi_arena_take(arena, grid->cells, R);
    grid->state_bytes = arena->used;
    grid->rhs = (fsi_real *)fsi_arena_take(arena, most, R);
    for (int d = 0; d < grid->dim; d++)
        grid->weight[d] = (fsi_real *)fsi_arena_take(arena, grid->faces[d], R);
    /* weights and scratch lie side by side: together the workspace of the viscosity's CG */
    most = (most + 7) & ~(size_t)7;
    unsigned char *end = (unsigned char *)fsi_arena_take(arena, most + 16, 4 * R);
    for (int d = 0; d < 4; d++)
        grid->scratch[d] = end ? (fsi_real *)(void *)end + (size_t)d * most : NULL;
    for (int d = 0; d < grid->dim && grid->desc.shells; d++)
        grid->plus_work[d] = (fsi_real *)fsi_arena_take(arena, grid->faces[d], R);
    grid->stencil = (int32_t *)fsi_arena_take(arena, most, sizeof(int32_t));
    for (int d = 0; d < grid->dim - 1; d++)
        grid->way[d] = (fsi_real *)fsi_arena_take(arena, grid->cells, R);
    for (int d = 0; d < grid->dim; d++)
        grid->mark[d] = (uint8_t *)fsi_arena_take(arena, grid->faces[d], 1);
    grid->cell = (uint8_t *)fsi_arena_take(arena, grid->cells, 1);
    grid->near_cell = (uint8_t *)fsi_arena_take(arena, grid->cells, 1);
    if (grid->desc.liquid)
        grid->region = (int32_t *)fsi_arena_take(arena, grid->cells, sizeof(int32_t));
    if (grid->desc.liquid)
        grid->regions = (fsi_air_region *)fsi_arena_take(arena, (size_t)grid->desc.max_regions,
                                                         sizeof(fsi_air_region));
    grid->mg = (fsi_mg *)fsi_arena_take(arena, 1, sizeof(fsi_mg));
}

static void fsi__grid_defaults(fsi_grid *grid, const fsi_grid_desc *desc) {
    fsi_grid_desc *given = &grid->desc;
    int n[3];
    memset(grid, 0, sizeof *grid);
    *given = *desc;
    if (given->tolerance <= 0)
        given->tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-6;
    if (given->max_iterations == 0)
        given->max_iterations = 200;
    if (!(given->cfl > 0))
        given->cfl = 3;
    if (!(given->theta_min > 0))
        given->theta_min = FSI_R(1e-3);
    if (given->extrapolate == 0)
        given->extrapolate = 6;
    if (given->max_regions == 0)
        given->max_regions = 256;
    if (!(fsi__length(given->up) > 0))
        given->up =
            fsi__length(given->gravity) > 0 ? fsi_vec_scale(given->gravity, -1) : fsi_vec(0, 1, 0);
    given->up = fsi__unit(given->up);
    if (given->advect_velocity == FSI_ADVECT_DEFAULT)
        given->advect_velocity = FSI_ADVECT_MACCORMACK;
    grid->nx = given->nx;
    grid->ny = given->ny;
    grid->nz = given->nz;
    grid->dim = given->nz == 1 ? 2 : 3;
    grid->h = given->h;
    grid->origin = given->origin;
    for (int a = 0; a < 4; a++) {
        fsi__family_size(grid, a, n);
        if (a < 3)
            grid->faces[a] = a < grid->dim ? (size_t)n[0] * (size_t)n[1] * (size_t)n[2] : 0;
        else
            grid->cells = (size_t)n[0] * (size_t)n[1] * (size_t)n[2];
    }
}

static fsi_result fsi__grid_init_parts(fsi_grid *grid) {
    fsi_mg_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.nx = grid->nx;
    desc.ny = grid->ny;
    desc.nz = grid->nz;
    for (int i = 0; i < 6; i++)
        desc.open[i] = i < 2 * grid->dim && grid->desc.side[i].kind == FSI_SIDE_OPEN;
    desc.allocator = grid->desc.allocator;
    fsi_result result = fsi_mg_init(grid->mg, &desc);
    if (result < 0 || !grid->desc.liquid)
        return result;
    fsi_levelset_desc given;
    memset(&given, 0, sizeof given);
    given.nx = grid->nx;
    given.ny = grid->ny;
    given.nz = grid->nz;
    given.h = grid->h;
    given.origin = grid->origin;
    given.particles = grid->desc.particles;
    given.allocator = grid->desc.allocator;
    result = fsi_levelset_init(&grid->levelset, &given);
    if (result >= 0)
        grid->phi = grid->levelset.phi;
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid solids and sides */
/* Is face (i,j,k) of axis a, between cell - and cell +, blocked to the eye? Faces of the box are
 * not. */
static int fsi__blocked(const fsi_grid *grid, int a, int i, int j, int k) {
    static const int e[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const fsi_occlusion *occlusion = &grid->occlusion;
    int n[3], m[3], at = a == 0 ? i : a == 1 ? j : k;
    m[0] = grid->nx;
    m[1] = grid->ny;
    m[2] = grid->nz;
    if (!grid->occluded || at <= 0 || at >= m[a])
        return 0;
    fsi__family_size(grid, a, n);
    if (occlusion->blocked[a] && occlusion->blocked[a][fsi__at(n, i, j, k)])
        return 1;
    return occlusion->solid
           && (occlusion->solid[fsi__at(m, i, j, k)]
               || occlusion->solid[fsi__at(m, i - e[a][0], j - e[a][1], k - e[a][2])]);
}

static int fsi__side_open(const fsi_grid *grid, int side) {
    return side < 2 * grid->dim && grid->desc.side[side].kind == FSI_SIDE_OPEN;
}

/* Open fraction of a face; sides of the box: 1 where open. A blocked face is closed unless open[]
   says otherwise. f: the face, number at along its axis of last; hi: the cell above it, step from
   it to the one below. */
FSI__INLINE fsi_real fsi__open_at(const fsi_grid *grid, int a, int at, int last, ptrdiff_t f,
                                  ptrdiff_t hi, ptrdiff_t step) {
    const fsi_occlusion *occlusion = &grid->occlusion;
    if ((at == 0 || at == last) && !fsi__side_open(grid, 2 * a + (at > 0)))
        return 0;
    if (!grid->occluded)
        return 1;
    if (occlusion->solid
        && ((at < last && occlusion->solid[hi]) || (at > 0 && occlusion->solid[hi - step])))
        return 0;
    if (occlusion->open[a])
        return occlusion->open[a][f];
    return occlusion->blocked[a] && occlusion->blocked[a][f] ? 0 : FSI_R(1.0);
}

static fsi_real fsi__open(const fsi_grid *grid, int a, int i, int j, int k) {
    const ptrdiff_t nx = grid->nx, ny = grid->ny, step = a == 0 ? 1 : a == 1 ? nx : nx * ny;
    return fsi__open_at(grid, a,
                        a == 0   ? i
                        : a == 1 ? j
                                 : k,
                        a == 0   ? grid->nx
                        : a == 1 ? grid->ny
                                 : grid->nz,
                        i + (nx + (a == 0)) * (j + (ny + (a == 1)) * k), i + nx * (j + ny * k),
                        step);
}

/* Faces that are prescribed take their velocity: closed sides 0, inflow its own; with solids = 1
 * closed faces the solid's (not before the solve: a coupled solve needs u* there). */
static void fsi__grid_walls(fsi_grid *grid, int solids) {
    for (int a = 0; a < grid->dim; a++) {
        int n[3];
        fsi_real *u = grid->u[a], *up = grid->u_plus[a];
        /* else the sides of the box are enough */
        const int all = grid->occluded && (solids || up);
        const ptrdiff_t below = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
        fsi__family_size(grid, a, n);
        int rows = n[1] * n[2];
        FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
        for (ptrdiff_t r = 0; r < rows; r++) {
            int j = (int)r % n[1], k = (int)r / n[1];
            int at = a == 1 ? j : k, step = a == 0 ? n[0] - 1 : 1;
            if (!all && a != 0 && at != 0 && at != n[a] - 1)
                continue;
            if (all)
                step = 1;
            for (int i = 0; i < n[0]; i += step) {
                size_t f = fsi__at(n, i, j, k);
                if (a == 0)
                    at = i;
                if (at == 0 || at == n[a] - 1) {
                    const fsi_grid_side *sd = &grid->desc.side[2 * a + (at > 0)];
                    if (sd->kind != FSI_SIDE_OPEN)
                        u[f] = sd->kind == FSI_SIDE_INFLOW ? fsi__get(sd->velocity, a) : 0;
                } else if (solids && grid->occluded
                           && !(fsi__open_at(grid, a, at, n[a] - 1, (ptrdiff_t)f,
                                             i + grid->nx * (j + (ptrdiff_t)grid->ny * k), below)
                                > 0)
                           && !(up && grid->occlusion.blocked[a]
                                && grid->occlusion.blocked[a][f])) {
                    u[f] = grid->occlusion.velocity[a] ? grid->occlusion.velocity[a][f] : 0;
                }
                if (up && !fsi__blocked(grid, a, i, j, k))
                    up[f] = u[f];
            }
        }
    }
}

FSI_API fsi_result fsi_grid_set_occlusion(fsi_grid *grid, const fsi_occlusion *occlusion) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    for (int a = 0; occlusion && a < grid->dim; a++) {
        if (occlusion->velocity[a] && !fsi_all_finite(grid->faces[a], occlusion->velocity[a]))
            return FSI_ERR_NUMERIC;
        for (size_t f = 0; occlusion->open[a] && f < grid->faces[a]; f++)
            if (!(occlusion->open[a][f] >= 0 && occlusion->open[a][f] <= 1))
                return FSI_ERR_ARGUMENT;
    }
    memset(&grid->occlusion, 0, sizeof grid->occlusion);
    if (occlusion)
        grid->occlusion = *occlusion;
    grid->occluded = occlusion != NULL;
    grid->weights_are_one = 0;
    grid->mg_plain = 0;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid checks */
static double fsi__now(const fsi_grid *grid) {
    return grid->clock_fn ? grid->clock_fn(grid->clock_user) : 0;
}

static int fsi__dt_valid(fsi_real dt) {
    return fsi__finite(dt) && dt > 0;
}

/* Largest velocity component, and that of each axis (speed, may be NULL); not finite when one of
 * them is not. */
static fsi_real fsi__max_speed(const fsi_grid *grid, fsi_real *speed) {
    fsi_real m = 0;
    for (int a = 0; a < grid->dim; a++) {
        fsi_real v = fsi_max_abs(grid->faces[a], grid->u[a]),
                 w = grid->u_plus[a] ? fsi_max_abs(grid->faces[a], grid->u_plus[a]) : 0;
        if (!fsi__finite(v) || !fsi__finite(w))
            return v - w;
        m = fsi__max(m, fsi__max(v, w));
        if (speed)
            speed[a] = fsi__max(v, w);
    }
    return m;
}

/* Density and temperature are looked at by fsi__find_calm_rows when they are advected. */
static fsi_result fsi__check_state(const fsi_grid *grid, fsi_real *most, fsi_real *speed) {
    *most = fsi__max_speed(grid, speed);
    if (!fsi__finite(*most) || !fsi_all_finite(grid->cells, grid->pressure))
        return FSI_ERR_NUMERIC;
    for (int q = 0; q < 2 + grid->desc.scalars; q++) {
        fsi_advection mode;
        const fsi_real *s = fsi__scalar(grid, q, &mode);
        if (s && (q >= 2 || mode == FSI_ADVECT_NONE) && !fsi_all_finite(grid->cells, s))
            return FSI_ERR_NUMERIC;
    }
    if (grid->phi && !fsi_all_finite(grid->cells, grid->phi))
        return FSI_ERR_NUMERIC;
    return FSI_OK;
}

FSI_API fsi_real fsi_grid_cfl(const fsi_grid *grid, fsi_real dt) {
    return grid && grid->block && fsi__dt_valid(dt) ? fsi__max_speed(grid, NULL) * dt / grid->h : 0;
}

FSI_API fsi_real fsi_grid_max_dt(const fsi_grid *grid) {
    if (!grid || !grid->block)
        return 0;
    fsi_real v = fsi__max_speed(grid, NULL);
    if (!fsi__finite(v))
        return 0;
    fsi_real c = grid->desc.cfl * grid->h;
    /* speed gained while falling over cfl cells */
    v += fsi__sqrt(c * fsi__length(grid->desc.gravity));
    return v > c / FSI_REAL_MAX ? c / v : FSI_REAL_MAX;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid life */
FSI_API fsi_result fsi_grid_init(fsi_grid *grid, const fsi_grid_desc *desc) {
    if (!grid)
        return FSI_ERR_ARGUMENT;
    memset(grid, 0, sizeof *grid);
    fsi_result result = fsi__grid_check_desc(desc);
    if (result < 0)
        return result;
    fsi__grid_defaults(grid, desc);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi__grid_layout(grid, &arena);
    result = arena.failed ? FSI_ERR_SIZE : FSI_OK;
    if (result >= 0) {
        arena.size = arena.used;
        arena.base = (unsigned char *)fsi_alloc(&grid->desc.allocator, arena.size);
        grid->block = arena.base;
        grid->block_size = arena.size;
        result = arena.base ? FSI_OK : FSI_ERR_MEMORY;
    }
    if (result >= 0) {
        arena.used = 0;
        fsi__grid_layout(grid, &arena);
        grid->state = grid->block;
        result = fsi__grid_init_parts(grid);
    }
    if (result < 0) {
        fsi_grid_free(grid);
        return result;
    }
    for (size_t i = 0; grid->temperature && i < grid->cells; i++)
        grid->temperature[i] = grid->desc.ambient;
    fsi__grid_walls(grid, 1);
    return fsi_grid_classify(grid);
}

FSI_API void fsi_grid_free(fsi_grid *grid) {
    if (!grid)
        return;
    if (grid->block && grid->mg)
        fsi_mg_free(grid->mg);
    fsi_levelset_free(&grid->levelset);
    fsi_free(&grid->desc.allocator, grid->block, grid->block_size);
    memset(grid, 0, sizeof *grid);
}

/* ------------------------------------------------------------------------------------------------
 * >>grid interpolation */
#if defined(__GNUC__) || defined(__clang__)
#define FSI__FLAT                                                                                  \
    static inline __attribute__((always_inline,                                                    \
                                 unused)) /* the compiler must specialise these for 2D and 3D */
#else
#define FSI__FLAT FSI__INLINE
#endif
/* Lower sample and weight of the upper one on a line of n >= 2 samples; x is clamped to the line.
 */
FSI__FLAT int fsi__cut(fsi_real x, int n, fsi_real *f) {
    x = x > 0 ? x : 0;
    x = x < (fsi_real)(n - 1) ? x : (fsi_real)(n - 1);
    int i = (int)x;
    i = i < n - 2 ? i : n - 2;
    *f = x - (fsi_real)i;
    return i;
}

FSI__FLAT fsi_real fsi__mix(fsi_real a, fsi_real b, fsi_real f) {
    return a + f * (b - a);
}

/* Linear interpolation from the lower corner p; three = 0: in the plane. */
FSI__FLAT fsi_real fsi__corner_mix(const fsi_real *p, size_t sy, size_t sz, fsi_real fx,
                                   fsi_real fy, fsi_real fz, int three) {
    fsi_real a = fsi__mix(fsi__mix(p[0], p[1], fx), fsi__mix(p[sy], p[sy + 1], fx), fy);
    if (!three)
        return a;
    p += sz;
    fsi_real b = fsi__mix(fsi__mix(p[0], p[1], fx), fsi__mix(p[sy], p[sy + 1], fx), fy);
    return fsi__mix(a, b, fz);
}

/* What the hot loops need of the grid, by value. */
typedef struct fsi__mac {
    const fsi_real *u[3];
    int n[3];  /* cells */
    int three; /* 1 in 3D */
} fsi__mac;

static fsi__mac fsi__mac_of(const fsi_grid *grid) {
    fsi__mac mac;
    for (int a = 0; a < 3; a++)
        mac.u[a] = grid->u[a];
    mac.n[0] = grid->nx;
    mac.n[1] = grid->ny;
    mac.n[2] = grid->nz;
    mac.three = grid->dim == 3;
    return mac;
}

/* Velocity at X: each axis is cut twice, at faces (f) and at centres (c), and the three components
 * share the cuts. */
FSI__FLAT void fsi__mac_at(const fsi__mac *mac, int three, fsi_real x, fsi_real y, fsi_real z,
                           fsi_real *v0, fsi_real *v1, fsi_real *v2) {
    const size_t nx = (size_t)mac->n[0], ny = (size_t)mac->n[1];
    fsi_real fx, fy, fz = 0, cx, cy, cz = 0;
    const size_t ix = (size_t)fsi__cut(x, mac->n[0] + 1, &fx),
                 jx = (size_t)fsi__cut(x - FSI_R(0.5), mac->n[0], &cx);
    const size_t iy = (size_t)fsi__cut(y, mac->n[1] + 1, &fy),
                 jy = (size_t)fsi__cut(y - FSI_R(0.5), mac->n[1], &cy);
    const size_t iz = three ? (size_t)fsi__cut(z, mac->n[2] + 1, &fz) : 0,
                 jz = three ? (size_t)fsi__cut(z - FSI_R(0.5), mac->n[2], &cz) : 0;
    *v0 = fsi__corner_mix(mac->u[0] + ix + (nx + 1) * (jy + ny * jz), nx + 1, (nx + 1) * ny, fx, cy,
                          cz, three);
    *v1 = fsi__corner_mix(mac->u[1] + jx + nx * (iy + (ny + 1) * jz), nx, nx * (ny + 1), cx, fy, cz,
                          three);
    *v2 = three ? fsi__corner_mix(mac->u[2] + jx + nx * (jy + ny * iz), nx, nx * ny, cx, cy, fz,
                                  three)
                : 0;
}

/* ------------------------------------------------------------------------------------------------
   >>grid advection Paths are quadratic with the acceleration from the midpoint rule, once per cell:
   with m = x0 - dt/2 u the backward path ends at x0 - dt u(m), the forward path, bent the same way,
   at x0 + dt (2 u - u(m)): second order. A face takes the mean of the ways of its two cells.
   Samples are traced row by row in chunks, in loops without branches; tests/test_grid.c has the
   same in plain words (advection_equals_its_slow_twin). Semi-Lagrangian: new = old at the end of
   the backward path. MacCormack: hat = that; out = hat + (old - hat carried forward) / 2, limited
   to the old values around the end of the backward path. Within a cell of a liquid's surface it
   stays at hat: stencils there hold velocities carried on into the air, to which the correction
   answers by feeding waves (test_liquid.c, slosh_comes_to_rest). */
#define FSI__CHUNK 136
#define FSI__NO_STENCIL INT32_MIN

typedef struct fsi__job {
    fsi__mac mac;
    int family, n[3];             /* samples of the family */
    fsi_real o[3];                /* offset of sample 0 */
    fsi_real s;                   /* dt / h */
    fsi_real *back[3], *forth[3]; /* [cells] half the ways from the cell centres, in cells */
    /* [3 rows] pass 0: longest half way forth of the row along each axis */
    fsi_real *most;
    /* cells: samples this far from a side are not led out of the box by their path, stencil
     * included */
    int reach[3];
    int count; /* quantities carried along the same paths, 1 or 2 */
    const fsi_real *old[2];
    fsi_real *hat[2], *out[2];
    /* hat and stencil begin with this sample, out with that one: they hold the layers in work only
     */
    ptrdiff_t base, out_base;
    int keep[2], limit[2]; /* keep: MacCormack; limit: with limiter */
    /* lower corner at the end of the backward path, relative to the sample; FSI__NO_STENCIL: it
     * left the box, no correction */
    int32_t *stencil;
    /* faces of a liquid: correction only below the surface; NULL: everywhere */
    const fsi_real *phi;
    fsi_real half_inv_h; /* 1 / (2 h) */
    /* [rows] bit p: pass p has to look at the row; NULL: at all of them */
    uint8_t *rows;
    fsi_real still[2]; /* cells: value of fresh air, which comes in through open sides */
    int open[6];       /* sides, not 0: open */
} fsi__job;

/* ------------------------------------------------------------------------------------------------
   >>grid sight Next to solids nothing may look through a surface (SLIP section 3.3, figure 6).
   Every sample belongs to a cell; a sample counts when the centre of its cell is seen from the
   point. The samples not seen are replaced by the mean of those seen. */
typedef struct fsi__sight {
    fsi_vec3 X;    /* the point, in cells */
    int own[3];    /* cell the point counts to */
    int base[3];   /* lower cell of the 2^dim cells around the point (may be -1) */
    unsigned seen; /* bit dx + 2 dy + 4 dz: that cell is seen */
} fsi__sight;

static void fsi__own_cell(const fsi_grid *grid, fsi_vec3 X, int *own) {
    own[0] = (int)fsi__clamp(fsi__floor(X.x), 0, (fsi_real)(grid->nx - 1));
    own[1] = (int)fsi__clamp(fsi__floor(X.y), 0, (fsi_real)(grid->ny - 1));
    own[2] = grid->dim == 3 ? (int)fsi__clamp(fsi__floor(X.z), 0, (fsi_real)(grid->nz - 1)) : 0;
}

static int fsi__solid_at(const fsi_grid *grid, const int *c) {
    return grid->occlusion.solid
           && grid->occlusion
                  .solid[(size_t)c[0]
                         + (size_t)grid->nx * ((size_t)c[1] + (size_t)grid->ny * (size_t)c[2])];
}

/* Cell of a bit of the block around the point, kept inside the box. */
static void fsi__block_cell(const fsi_grid *grid, const fsi__sight *sight, unsigned bit, int *c) {
    c[0] = fsi__iclamp(sight->base[0] + (int)(bit & 1u), 0, grid->nx - 1);
    c[1] = fsi__iclamp(sight->base[1] + (int)(bit >> 1 & 1u), 0, grid->ny - 1);
    c[2] = grid->dim == 3 ? fsi__iclamp(sight->base[2] + (int)(bit >> 2 & 1u), 0, grid->nz - 1) : 0;
}

static int fsi__ray_hits(const fsi_grid *grid, fsi_vec3 A, fsi_vec3 B, fsi_real *t,
                         fsi_vec3 *velocity) {
    *t = 1;
    fsi_vec3 normal;
    int hit = grid->occlusion.hit_fn(grid->occlusion.user, fsi__grid_point(grid, A),
                                     fsi__grid_point(grid, B), t, &normal, velocity);
    /* garbage counts as a wall at rest, right here */
    if (hit && !(*t >= 0 && *t <= 1))
        *t = 0;
    if (hit && !fsi__finite_vec(*velocity))
        *velocity = fsi_vec(0, 0, 0);
    return hit;
}

/* Which of the cells around X does the eye see? Without hit_fn: those reached from the own cell
 * through faces that are not blocked. */
static void fsi__look(const fsi_grid *grid, fsi_vec3 X, const int *own, fsi_vec3 eye,
                      fsi__sight *sight) {
    unsigned bits = grid->dim == 3 ? 8 : 4, own_bit = 0;
    int c[3];
    sight->X = X;
    sight->seen = 0;
    for (int a = 0; a < 3; a++) {
        fsi_real x = fsi__get(X, a) - FSI_R(0.5);
        sight->own[a] = own[a];
        /* the own cell is always in the block */
        sight->base[a] = a < grid->dim ? own[a] - (x < (fsi_real)own[a]) : 0;
        own_bit |= (unsigned)(own[a] - sight->base[a]) << a;
    }
    if (grid->occlusion.hit_fn) {
        for (unsigned bit = 0; bit < bits; bit++) {
            fsi__block_cell(grid, sight, bit, c);
            fsi_real t;
            fsi_vec3 v;
            if (!fsi__solid_at(grid, c)
                && !fsi__ray_hits(grid, eye, fsi__sample_place(3, c[0], c[1], c[2]), &t, &v))
                sight->seen |= 1u << bit;
        }
        return;
    }
    fsi__block_cell(grid, sight, own_bit, c);
    if (fsi__solid_at(grid, c))
        return;
    sight->seen = 1u << own_bit;
    for (int round = 0; round < grid->dim; round++)
        for (unsigned bit = 0; bit < bits; bit++)
            for (int a = 0; a < grid->dim && (sight->seen >> bit & 1u); a++) {
                unsigned other = bit ^ (1u << a);
                /* the upper of the two cells names the face between them */
                fsi__block_cell(grid, sight, bit | (1u << a), c);
                if (sight->base[a] < 0
                    || sight->base[a] + 1 >= (a == 0   ? grid->nx
                                              : a == 1 ? grid->ny
                                                       : grid->nz)
                    || !fsi__blocked(grid, a, c[0], c[1], c[2]))
                    sight->seen |= 1u << other;
            }
}

/* Component a of the velocity at the point of s: the two faces of each seen cell in the plane of
 * the own cell. 0 when nothing is seen. */
static int fsi__seen_component(const fsi_grid *grid, const fsi__sight *sight, int a,
                               fsi_real *value) {
    unsigned bits = grid->dim == 3 ? 8 : 4, along = (unsigned)(sight->own[a] - sight->base[a]);
    const fsi_real *minus = grid->u[a], *plus = grid->u_plus[a] ? grid->u_plus[a] : grid->u[a];
    fsi_real f = fsi__clamp(fsi__get(sight->X, a) - (fsi_real)sight->own[a], 0, 1), sum = 0,
             mean = 0, lost = 0;
    int n[3], c[3], count = 0;
    fsi__family_size(grid, a, n);
    for (unsigned bit = 0; bit < bits; bit++) {
        fsi_real w = 1;
        if ((bit >> a & 1u) != along)
            continue;
        for (int b = 0; b < grid->dim; b++) {
            fsi_real t =
                fsi__clamp(fsi__get(sight->X, b) - FSI_R(0.5) - (fsi_real)sight->base[b], 0, 1);
            if (b != a)
                w *= (bit >> b & 1u) ? t : 1 - t;
        }
        if (!(sight->seen >> bit & 1u)) {
            lost += w;
            continue;
        }
        fsi__block_cell(grid, sight, bit, c);
        size_t at = fsi__at(n, c[0], c[1], c[2]);
        /* the cell lies on the plus side of its lower face */
        fsi_real lo = plus[at];
        fsi_real hi = minus[at
                            + (a == 0   ? 1
                               : a == 1 ? (size_t)n[0]
                                        : (size_t)n[0] * (size_t)n[1])];
        sum += w * fsi__mix(lo, hi, f);
        mean += FSI_R(0.5) * (lo + hi);
        count++;
    }
    if (!count)
        return 0;
    *value = sum + lost * mean / (fsi_real)count;
    return 1;
}

static fsi_vec3 fsi__seen_velocity(const fsi_grid *grid, const fsi__sight *sight,
                                   fsi_vec3 otherwise) {
    fsi_real v[3];
    v[0] = otherwise.x;
    v[1] = otherwise.y;
    v[2] = grid->dim == 3 ? otherwise.z : 0;
    for (int a = 0; a < grid->dim; a++)
        fsi__seen_component(grid, sight, a, &v[a]);
    return fsi_vec(v[0], v[1], v[2]);
}

static fsi_real fsi__seen_scalar(const fsi_grid *grid, const fsi__sight *sight,
                                 const fsi_real *field, fsi_real otherwise) {
    unsigned bits = grid->dim == 3 ? 8 : 4;
    fsi_real sum = 0, mean = 0, lost = 0;
    int c[3], n[3], count = 0;
    fsi__family_size(grid, 3, n);
    for (unsigned bit = 0; bit < bits; bit++) {
        fsi_real w = 1;
        for (int b = 0; b < grid->dim; b++) {
            fsi_real t =
                fsi__clamp(fsi__get(sight->X, b) - FSI_R(0.5) - (fsi_real)sight->base[b], 0, 1);
            w *= (bit >> b & 1u) ? t : 1 - t;
        }
        if (!(sight->seen >> bit & 1u)) {
            lost += w;
            continue;
        }
        fsi__block_cell(grid, sight, bit, c);
        fsi_real v = field[fsi__at(n, c[0], c[1], c[2])];
        sum += w * v;
        mean += v;
        count++;
    }
    return count ? sum + lost * mean / (fsi_real)count : otherwise;
}

/* Walks from the centre of the own cell towards B and stops short of the first surface; own
   follows. Returns the point reached. Without hit_fn the walk goes from cell to cell and ends at a
   blocked face. */
static fsi_vec3 fsi__reach(const fsi_grid *grid, int *own, fsi_vec3 B, fsi_vec3 *velocity) {
    fsi_vec3 A = fsi__sample_place(3, own[0], own[1], own[2]);
    fsi_real end = 1, next[3], d[3];
    int n[3];
    fsi__family_size(grid, 3, n);
    B = fsi_vec(fsi__clamp(B.x, 0, (fsi_real)n[0]), fsi__clamp(B.y, 0, (fsi_real)n[1]),
                grid->dim == 3 ? fsi__clamp(B.z, 0, (fsi_real)n[2]) : A.z);
    fsi_vec3 D = fsi_vec_sub(B, A);
    /* a thousandth of a cell short of the surface */
    fsi_real margin = FSI_R(1e-3) / fsi__max(fsi__length(D), FSI_R(1e-3));
    if (grid->occlusion.hit_fn) {
        fsi_real t;
        if (fsi__ray_hits(grid, A, B, &t, velocity))
            end = fsi__max(t - margin, 0);
        B = fsi_vec_mad(A, D, end);
        fsi__own_cell(grid, B, own);
        return B;
    }
    d[0] = D.x;
    d[1] = D.y;
    d[2] = D.z;
    int a;
    for (a = 0; a < 3; a++)
        next[a] = d[a] < 0 || d[a] > 0 ? FSI_R(0.5) / fsi__abs(d[a]) : FSI_REAL_MAX;
    for (int steps = n[0] + n[1] + n[2]; steps > 0; steps--) {
        int c[3];
        a = next[0] <= next[1] ? (next[0] <= next[2] ? 0 : 2) : (next[1] <= next[2] ? 1 : 2);
        if (next[a] >= 1)
            break;
        c[0] = own[0];
        c[1] = own[1];
        c[2] = own[2];
        if (d[a] > 0)
            c[a]++;
        if (c[a] <= 0 || c[a] >= n[a]) {
            next[a] = FSI_REAL_MAX;
            continue;
        }
        if (fsi__blocked(grid, a, c[0], c[1], c[2])) {
            end = fsi__max(next[a] - margin, 0);
            break;
        }
        own[a] += d[a] > 0 ? 1 : -1;
        next[a] += 1 / fsi__abs(d[a]);
    }
    return fsi_vec_mad(A, D, end);
}

/* End of the path over s from X (which counts to the cell *own), midpoint rule, stopped at
 * surfaces; own and sight follow. */
static fsi_vec3 fsi__seen_path(const fsi_grid *grid, fsi_vec3 X, int *own, fsi_real s,
                               fsi__sight *sight) {
    int cell[3];
    fsi_vec3 zero = fsi_vec(0, 0, 0), hit = zero;
    cell[0] = own[0];
    cell[1] = own[1];
    cell[2] = own[2];
    fsi__look(grid, X, own, fsi__sample_place(3, own[0], own[1], own[2]), sight);
    fsi_vec3 v = fsi__seen_velocity(grid, sight, zero);
    fsi_vec3 end = fsi__reach(grid, cell, fsi_vec_mad(X, v, FSI_R(0.5) * s), &hit);
    fsi__look(grid, end, cell, end, sight);
    v = fsi__seen_velocity(grid, sight, v);
    hit = zero;
    end = fsi__reach(grid, own, fsi_vec_mad(X, v, s), &hit);
    fsi__look(grid, end, own, end, sight);
    return hit;
}

/* Sample (i,j,k) of the family as its cell sees it: side 0 the minus cell of a face, 1 the plus
 * cell. Returns 0 where both cells are solid. */
static int fsi__seen_sample(const fsi_grid *grid, const fsi__job *job, int i, int j, int k,
                            int side, fsi_real *value) {
    const int a = job->family;
    int own[3];
    own[0] = i;
    own[1] = j;
    own[2] = k;
    if (a < 3) {
        own[a] -= side == 0;
        if (own[a] < 0 || (own[a] < job->mac.n[a] && fsi__solid_at(grid, own)))
            own[a] += side == 0 ? 1 : -1;
        if (own[a] < 0 || own[a] >= job->mac.n[a])
            own[a] += own[a] < 0 ? 1 : -1;
    }
    if (fsi__solid_at(grid, own))
        return 0;
    fsi__sight sight;
    fsi_vec3 hit = fsi__seen_path(grid, fsi__sample_place(a, i, j, k), own, -job->s, &sight);
    for (int m = 0; m < job->count; m++)
        value[m] = a < 3 ? fsi__get(fsi__seen_velocity(grid, &sight, hit), a)
                         : fsi__seen_scalar(grid, &sight, job->old[m],
                                            job->old[m][fsi__at(job->n, i, j, k)]);
    return 1;
}

/* The samples whose paths may meet a solid, done again with sight; linear interpolation only (no
 * stencil: no correction). */
static void fsi__advect_seen(const fsi_grid *grid, const fsi__job *job, ptrdiff_t from,
                             ptrdiff_t to) {
    const int a = job->family;
    FSI__OMP(parallel for schedule(static))
    for (ptrdiff_t r = from; r < to; r++) {
        int j = (int)(r % job->n[1]), k = (int)(r / job->n[1]);
        for (int i = 0; i < job->n[0]; i++) {
            size_t f = fsi__at(job->n, i, j, k);
            fsi_real v[2];
            int c[3];
            c[0] = fsi__imin(i, grid->nx - 1);
            c[1] = fsi__imin(j, grid->ny - 1);
            c[2] = fsi__imin(k, grid->nz - 1);
            if (!grid->near_cell[fsi__at(job->mac.n, c[0], c[1], c[2])])
                continue;
            v[0] = job->old[0][f];
            v[1] = job->count > 1 ? job->old[1][f] : 0;
            fsi__seen_sample(grid, job, i, j, k, 0, v);
            for (int m = 0; m < job->count; m++) {
                if (job->keep[m])
                    job->hat[m][(ptrdiff_t)f - job->base] = v[m];
                else
                    job->out[m][(ptrdiff_t)f - job->out_base] = v[m];
            }
            job->stencil[(ptrdiff_t)f - job->base] = FSI__NO_STENCIL;
            if (a == 3 || !grid->u_plus[a])
                continue;
            grid->plus_work[a][f] = v[0];
            if (!fsi__blocked(grid, a, i, j, k))
                continue;
            v[0] = grid->u_plus[a][f];
            fsi__seen_sample(grid, job, i, j, k, 1, v);
            grid->plus_work[a][f] = v[0];
        }
    }
}

/* Plus samples: the common one where the face is not blocked; after the advection (work given)
 * their own elsewhere. */
static void fsi__plus_equal(fsi_grid *grid, int a, const fsi_real *work) {
    int n[3];
    fsi__family_size(grid, a, n);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                size_t f = fsi__at(n, i, j, k);
                if (!fsi__blocked(grid, a, i, j, k))
                    grid->u_plus[a][f] = grid->u[a][f];
                else if (work)
                    grid->u_plus[a][f] = work[f];
            }
}

static void fsi__grow_line(uint8_t *p, size_t step, int n, int reach) {
    int last = -reach - 1;
    /* value 1: source; 2: reached from below; 4: from above */
    for (int i = 0; i < n; i++) {
        if (p[(size_t)i * step] & 1u)
            last = i;
        if (i - last <= reach)
            p[(size_t)i * step] |= 2u;
    }
    last = n + reach;
    for (int i = n - 1; i >= 0; i--) {
        if (p[(size_t)i * step] & 1u)
            last = i;
        if (last - i <= reach)
            p[(size_t)i * step] |= 4u;
    }
    for (int i = 0; i < n; i++)
        p[(size_t)i * step] = p[(size_t)i * step] != 0;
}

/* Marks (0 or 1) grow along one axis by `reach`: count lines of `width` neighbours each, `step`
 * apart. */
static void fsi__grow_marks(uint8_t *mark, size_t width, size_t step, int count, int reach) {
    const uint8_t full = (uint8_t)(reach + 1);
    if (reach > 250) {
        for (int j = 0; j < count; j++)
            memset(mark + (size_t)j * step, 1, width);
        return;
    }
    /* a mark counts down from full as it is carried from line to line */
    for (int back = 0; back < 2; back++)
        for (int j = 0; j < count; j++) {
            uint8_t *p = mark + (size_t)(back ? count - 1 - j : j) * step;
            const uint8_t *q = j == 0 ? p : back ? p + step : p - step;
            FSI__OMP(simd)
            for (size_t i = 0; i < width; i++) {
                const uint8_t here = back ? p[i] : (uint8_t)(p[i] ? full : 0),
                              left = (uint8_t)(q[i] > 0 ? q[i] - 1 : 0);
                p[i] = here > left || j == 0 ? here : left;
            }
        }
    for (int j = 0; j < count; j++)
        for (size_t i = 0; i < width; i++)
            mark[(size_t)j * step + i] = mark[(size_t)j * step + i] != 0;
}

static void fsi__grow_all(uint8_t *mark, const int *n, const int *reach) { /* along all axes */
    const size_t nx = (size_t)n[0], plane = nx * (size_t)n[1];
    FSI__OMP(parallel for schedule(static) if (plane * (size_t)n[2] > 20000))
    for (ptrdiff_t k = 0; k < n[2]; k++) {
        for (int j = 0; j < n[1]; j++)
            fsi__grow_line(mark + (size_t)k * plane + (size_t)j * nx, 1, n[0], reach[0]);
        fsi__grow_marks(mark + (size_t)k * plane, nx, nx, n[1], reach[1]);
    }
    if (n[2] > 1)
        fsi__grow_marks(mark, plane, plane, n[2], reach[2]);
}

/* near_cell: cells within reach of a surface: those that touch one, grown by the longest path and
   the stencils. shells: of shells only (where the flow goes on into closed solids only they hide
   anything from the advection). */
static void fsi__mark_near(fsi_grid *grid, fsi_real dt, int shells) {
    const fsi_real cfl = fsi__max_speed(grid, NULL) * dt / grid->h;
    const uint8_t *solid = grid->occlusion.solid;
    int n[3], reach[3];
    fsi__family_size(grid, 3, n);
    reach[0] = reach[1] = reach[2] = cfl < FSI_R(1e6) ? 4 + (int)cfl : 1000000;
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)n[1] * n[2]; r++) {
        const ptrdiff_t row = r * n[0];
        int j = (int)(r % n[1]), k = (int)(r / n[1]);
        for (int i = 0; i < n[0]; i++)
            grid->near_cell[row + i] = (uint8_t)(solid && !shells && solid[row + i]);
        for (int a = 0; a < grid->dim; a++) {
            const ptrdiff_t step = a == 0 ? 1 : a == 1 ? n[0] : (ptrdiff_t)n[0] * n[1];
            const ptrdiff_t at = (n[0] + (a == 0)) * (j + (ptrdiff_t)(n[1] + (a == 1)) * k);
            const uint8_t *blocked = grid->occlusion.blocked[a];
            const fsi_real *open = grid->occlusion.open[a];
            if ((a == 1 && j == 0) || (a == 2 && k == 0))
                continue;
            for (int i = a == 0; blocked && i < n[0]; i++)
                if (blocked[at + i]
                    && !(shells && solid && (solid[row + i] || solid[row + i - step])))
                    grid->near_cell[row + i] = 1;
            for (int i = a == 0; open && !shells && i < n[0]; i++)
                if (open[at + i] < 1)
                    grid->near_cell[row + i] = 1;
        }
    }
    fsi__grow_all(grid->near_cell, n, reach);
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sampling */
FSI_API fsi_vec3 fsi_grid_velocity_at(const fsi_grid *grid, fsi_vec3 x) {
    fsi_vec3 v = fsi_vec(0, 0, 0);
    if (!grid || !grid->block || !fsi__finite_vec(x))
        return v;
    fsi_vec3 X = fsi__to_cells(grid, x);
    if (grid->occluded) {
        int own[3];
        X = fsi_vec(fsi__clamp(X.x, 0, (fsi_real)grid->nx), fsi__clamp(X.y, 0, (fsi_real)grid->ny),
                    fsi__clamp(X.z, 0, (fsi_real)grid->nz));
        fsi__own_cell(grid, X, own);
        fsi__sight sight;
        fsi__look(grid, X, own, X, &sight);
        return fsi__seen_velocity(grid, &sight, v);
    } else {
        fsi__mac mac = fsi__mac_of(grid);
        fsi__mac_at(&mac, mac.three, X.x, X.y, X.z, &v.x, &v.y, &v.z);
        return v;
    }
}

FSI_API fsi_real fsi_grid_field_at(const fsi_grid *grid, fsi_field field, fsi_vec3 x) {
    const fsi_real *f = fsi_grid_field(grid, field);
    int own[3], n[3];
    if (!f || !fsi__finite_vec(x))
        return 0;
    fsi_vec3 X = fsi__to_cells(grid, x);
    X = fsi_vec(fsi__clamp(X.x, 0, (fsi_real)grid->nx), fsi__clamp(X.y, 0, (fsi_real)grid->ny),
                fsi__clamp(X.z, 0, (fsi_real)grid->nz));
    fsi__own_cell(grid, X, own);
    fsi__family_size(grid, 3, n);
    fsi__sight sight;
    fsi__look(grid, X, own, X, &sight);
    /* phi is continued into solids */
    if (!grid->occluded || field == FSI_FIELD_PHI)
        sight.seen = 0xff;
    return fsi__seen_scalar(grid, &sight, f, f[fsi__at(n, own[0], own[1], own[2])]);
}

FSI_API fsi_result fsi_grid_trace(const fsi_grid *grid, fsi_real dt, int count, fsi_real *x) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || count < 0 || (count > 0 && !x) || !fsi_all_finite(3 * (size_t)count, x))
        return FSI_ERR_ARGUMENT;
    FSI__OMP(parallel for schedule(static) if (count > 1000))
    for (ptrdiff_t p = 0; p < count; p++) {
        fsi_vec3 a = fsi_vec_load(x + 3 * p), X;
        if (grid->occluded) {
            int own[3];
            X = fsi__to_cells(grid, a);
            fsi__own_cell(grid, X, own);
            fsi__sight sight;
            fsi__seen_path(grid, X, own, dt / grid->h, &sight);
            X = sight.X;
        } else {
            fsi_vec3 v = fsi_grid_velocity_at(grid, a);
            v = fsi_grid_velocity_at(grid, fsi_vec_mad(a, v, FSI_R(0.5) * dt));
            X = fsi__to_cells(grid, fsi_vec_mad(a, v, dt));
        }
        X = fsi_vec(fsi__clamp(X.x, 0, (fsi_real)grid->nx), fsi__clamp(X.y, 0, (fsi_real)grid->ny),
                    fsi__clamp(X.z, 0, (fsi_real)grid->nz));
        a = fsi__grid_point(grid, X);
        x[3 * p] = a.x;
        x[3 * p + 1] = a.y;
        if (grid->dim == 3)
            x[3 * p + 2] = a.z;
    }
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid advection rows */
/* Ends of the paths of a chunk of samples, cut into stencils. */
typedef struct fsi__ends {
    fsi_real F[3][FSI__CHUNK]; /* weight of the upper samples along each axis */
    /* lower corner of the stencil in the family's array, relative to the sample itself */
    int32_t shift[FSI__CHUNK];
    fsi_real off[FSI__CHUNK]; /* > 0: the path left the box */
} fsi__ends;

/* Coordinate x >= 0: lower sample (as a real number: see below), weight of the upper one. */
FSI__FLAT fsi_real fsi__cut_line(fsi_real x, fsi_real *F) {
    const fsi_real b = (fsi_real)(int32_t)x;
    *F = x - b;
    return b;
}

/* Coordinate kept on a line of n samples, just short of the last one: its stencil must not begin
 * there. */
FSI__FLAT fsi_real fsi__keep_on(fsi_real x, int n) {
    const fsi_real end = (fsi_real)(n - 1) * (1 - FSI_REAL_EPS);
    x = x > 0 ? x : 0;
    return x < end ? x : end;
}

/* How far x lies outside of the box, which ends o before the first and o behind the last sample. */
FSI__FLAT fsi_real fsi__beyond(fsi_real x, int n, fsi_real o) {
    fsi_real y = x > -o ? x : -o;
    y = y < (fsi_real)(n - 1) + o ? y : (fsi_real)(n - 1) + o;
    return fsi__abs(x - y);
}

/* Largest |a| of a chunk, in lanes: vector code. */
FSI__FLAT fsi_real fsi__chunk_most(int count, const fsi_real *a) {
    fsi_real lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int i;
    for (i = 0; i + 8 <= count; i += 8) {
        FSI__OMP(simd)
        for (int k = 0; k < 8; k++) {
            const fsi_real x = fsi__abs(a[i + k]);
            lane[k] = x > lane[k] ? x : lane[k];
        }
    }
    for (; i < count; i++)
        lane[0] = fsi__max(lane[0], fsi__abs(a[i]));
    for (int k = 1; k < 8; k++)
        lane[0] = fsi__max(lane[0], lane[k]);
    return lane[0];
}

/* The samples of a chunk that starts at sample i0 of a line of n cells, in parts [from, to) whose
   loops are whole vectors wherever the line allows (parts overlap then): part 0 holds all samples
   of first .. last-1 whose paths surely stay inside, if safe; the parts behind it, made after it,
   all others. Returns the number of parts. */
#define FSI__ROUND 8

FSI__FLAT int fsi__parts(int n, int reach, int safe, int i0, int first, int last, int (*part)[2]) {
    int lo =
        first
        + ((fsi__iclamp(reach - i0, first, last) - first + FSI__ROUND - 1) & ~(FSI__ROUND - 1));
    int hi = last
             - ((last - fsi__iclamp(n - reach - i0, first, last) + FSI__ROUND - 1)
                & ~(FSI__ROUND - 1)),
        parts = 1;
    if (!safe || lo >= hi)
        lo = hi = last;
    part[0][0] = lo;
    part[0][1] = fsi__imin(lo + ((hi - lo + FSI__ROUND - 1) & ~(FSI__ROUND - 1)), last);
    if (lo > first) {
        const int whole = (lo - first) & ~(FSI__ROUND - 1);
        if (whole) {
            part[parts][0] = first;
            part[parts++][1] = first + whole;
        }
        if (whole < lo - first) {
            part[parts][0] = whole ? lo - FSI__ROUND : first;
            part[parts++][1] = lo;
        }
    }
    if (hi < last) {
        part[parts][0] = hi;
        part[parts++][1] = last;
    }
    return parts;
}

/* Cuts the ends of the paths of samples from .. to-1 of a chunk that starts at sample i0 of row
   (j,k). r, t: half ways of the cells on the two sides of the samples. edge = 0: all paths stay
   inside, and instead of its own number a sample may take any (reach) that keeps the coordinate
   positive; edge = 1: first kept on the lines, in a loop of its own (a compiler that sees both at
   once makes branches of them). No branches: vector code. The shift is summed up in doubles: exact,
   and products of these are vector code where those of ints are not. */
FSI__FLAT void fsi__cut_ends(const fsi__job *job, int three, int edge, int j, int k, int i0,
                             int from, int to, const fsi_real *const *r, const fsi_real *const *t,
                             fsi__ends *ends) {
    const fsi_real *r0 = r[0] + i0, *r1 = r[1] + i0, *r2 = three ? r[2] + i0 : r1, *t0 = t[0] + i0,
                   *t1 = t[1] + i0, *t2 = three ? t[2] + i0 : t1;
    const fsi_real x0 = (fsi_real)(edge ? i0 : job->reach[0]),
                   y = (fsi_real)(edge ? j : job->reach[1]),
                   z = (fsi_real)(edge ? k : job->reach[2]);
    const fsi_real ox = job->o[0], oy = job->o[1], oz = job->o[2];
    const int nx = job->n[0], ny = job->n[1], nz = job->n[2];
    const double sy = nx, sz = sy * ny,
                 here = (double)x0 + sy * (double)y + (three ? sz * (double)z : 0);
    fsi_real *FSI__RESTRICT F0 = ends->F[0], *FSI__RESTRICT F1 = ends->F[1],
                            *FSI__RESTRICT F2 = ends->F[2], *FSI__RESTRICT off = ends->off;
    int32_t *FSI__RESTRICT shift = ends->shift;
    if (edge) {
        FSI__OMP(simd)
        for (int i = from; i < to; i++) {
            const fsi_real X = x0 + (fsi_real)i + (r0[i] + t0[i]), Y = y + (r1[i] + t1[i]),
                           Z = three ? z + (r2[i] + t2[i]) : 0;
            off[i] = fsi__beyond(X, nx, ox) + fsi__beyond(Y, ny, oy)
                     + (three ? fsi__beyond(Z, nz, oz) : 0);
            F0[i] = fsi__keep_on(X, nx);
            F1[i] = fsi__keep_on(Y, ny);
            if (three)
                F2[i] = fsi__keep_on(Z, nz);
        }
    }
    FSI__OMP(simd)
    for (int i = from; i < to; i++) {
        const fsi_real X = edge ? F0[i] : x0 + (r0[i] + t0[i]),
                       Y = edge ? F1[i] : y + (r1[i] + t1[i]);
        double sum = (double)fsi__cut_line(X, &F0[i]) + sy * (double)fsi__cut_line(Y, &F1[i]);
        if (three)
            sum += sz * (double)fsi__cut_line(edge ? F2[i] : z + (r2[i] + t2[i]), &F2[i]);
        shift[i] = (int32_t)(sum - (edge ? here + (double)i : here));
    }
}

/* Ends of the paths of samples i0 .. i0+count of row (j,k) of the family: the way of a cell, or the
   mean of the two cells beside a face. Returns 1 when one of them left the box. */
FSI__FLAT int fsi__find_ends(const fsi__job *job, int three, int back, int j, int k, int i0,
                             int count, fsi__ends *ends) {
    const int *n = job->mac.n, a = job->family,
              safe = j >= job->reach[1] && j < n[1] - job->reach[1]
                     && (!three || (k >= job->reach[2] && k < n[2] - job->reach[2]));
    /* x faces on the box have one cell */
    const int first = a == 0 && i0 == 0, last = count - (a == 0 && i0 + count == job->n[0]);
    const fsi_real *r[3], *t[3], *one[3];
    int part[5][2];
    for (int c = 0; c < 3; c++) {
        /* 2D: z is not read */
        const fsi_real *way = (back ? job->back : job->forth)[c < 2 || three ? c : 0];
        r[c] = way
               + (n[0]
                  * ((a == 1 ? fsi__imin(j, n[1] - 1) : j)
                     + (ptrdiff_t)n[1] * (a == 2 ? fsi__imin(k, n[2] - 1) : k)));
        t[c] = way
               + (n[0]
                      * ((a == 1 ? fsi__imax(j - 1, 0) : j)
                         + (ptrdiff_t)n[1] * (a == 2 ? fsi__imax(k - 1, 0) : k))
                  - (a == 0));
        one[c] = r[c] - 1;
    }
    int parts = fsi__parts(n[0], job->reach[0], safe, i0, first, last, part);
    fsi__cut_ends(job, three, 0, j, k, i0, part[0][0], part[0][1], r, t, ends);
    for (int i = part[0][0]; i < part[0][1]; i++)
        ends->off[i] = 0;
    for (int p = 1; p < parts; p++)
        fsi__cut_ends(job, three, 1, j, k, i0, part[p][0], part[p][1], r, t, ends);
    if (first)
        fsi__cut_ends(job, three, 1, j, k, 0, 0, 1, r, r, ends);
    if (last < count)
        fsi__cut_ends(job, three, 1, j, k, i0, last, count, one, one, ends);
    return fsi__chunk_most(count, ends->off) > 0;
}

#define FSI__BLOCK 4 /* samples whose stencils are looked at together */

/* 1 when all samples of a block have the same shift, as they do where neighbours have gone the same
 * number of cells: the loads are contiguous. */
FSI__FLAT int fsi__side_by_side(const int32_t *shift) {
    uint64_t w[FSI__BLOCK / 2]; /* two at a time */
    memcpy(w, shift, sizeof w);
    return !((w[0] ^ w[1]) | (w[0] ^ (w[0] << 32 | w[0] >> 32)));
}

/* out[i] = interpolated at the cut points; a: the array at the first sample of the chunk. */
FSI__FLAT void fsi__mix_chunk(const fsi_real *a, size_t sy, size_t sz, int three, int count,
                              const int32_t *shift, const fsi_real *fx, const fsi_real *fy,
                              const fsi_real *fz, fsi_real *FSI__RESTRICT out) {
    for (int from = 0; from < count; from += FSI__BLOCK) {
        if (from + FSI__BLOCK <= count && fsi__side_by_side(shift + from)) {
            const fsi_real *p = a + (ptrdiff_t)shift[from];
            FSI__OMP(simd)
            for (int i = from; i < from + FSI__BLOCK; i++)
                out[i] = fsi__corner_mix(p + i, sy, sz, fx[i], fy[i], three ? fz[i] : 0, three);
        } else
            for (int i = from; i < fsi__imin(from + FSI__BLOCK, count); i++)
                out[i] = fsi__corner_mix(a + i + shift[i], sy, sz, fx[i], fy[i], three ? fz[i] : 0,
                                         three);
    }
}

/* The middles of the straight paths back from the cells from .. to-1 of a chunk, cut at centres
   (F[.][0]) and at faces (F[.][1]) of each axis; component c uses the faces along c and the centres
   across, shift[c]. v: velocity at the cells. edge as in fsi__cut_ends. */
FSI__FLAT void fsi__cut_middles(const fsi__job *job, int three, int edge, int j, int k, int i0,
                                int from, int to, const fsi_real *const *p,
                                fsi_real (*V)[FSI__CHUNK], fsi_real (*F)[2][FSI__CHUNK],
                                int32_t (*shift)[FSI__CHUNK]) {
    const fsi_real *p0 = p[0] + i0, *p1 = p[1] + i0, *p2 = three ? p[2] + i0 : p1,
                   half = FSI_R(0.5), s = -half * job->s;
    const fsi_real x0 = (fsi_real)(edge ? i0 : job->reach[0]),
                   y = (fsi_real)(edge ? j : job->reach[1]),
                   z = (fsi_real)(edge ? k : job->reach[2]);
    const int nx = job->n[0], ny = job->n[1], nz = job->n[2];
    const ptrdiff_t up1 = nx, up2 = (ptrdiff_t)nx * ny;
    /* from plane to plane in the three arrays */
    const double w = nx, s0 = (w + 1) * ny, s1 = w * (ny + 1), s2 = w * ny;
    fsi_real *FSI__RESTRICT V0 = V[0], *FSI__RESTRICT V1 = V[1], *FSI__RESTRICT V2 = V[2];
    fsi_real *FSI__RESTRICT E0 = F[0][0], *FSI__RESTRICT E1 = F[1][0], *FSI__RESTRICT E2 = F[2][0],
                            *FSI__RESTRICT F0 = F[0][1], *FSI__RESTRICT F1 = F[1][1],
                            *FSI__RESTRICT F2 = F[2][1];
    int32_t *FSI__RESTRICT a0 = shift[0], *FSI__RESTRICT a1 = shift[1],
                           *FSI__RESTRICT a2 = shift[2];
    FSI__OMP(simd)
    for (int i = from; i < to; i++) {
        V0[i] = half * (p0[i] + p0[i + 1]);
        V1[i] = half * (p1[i] + p1[i + up1]);
        if (three)
            V2[i] = half * (p2[i] + p2[i + up2]);
        if (!edge)
            continue;
        E0[i] = fsi__keep_on(x0 + (fsi_real)i + s * V0[i], nx);
        F0[i] = fsi__keep_on(x0 + (fsi_real)i + s * V0[i] + half, nx + 1);
        E1[i] = fsi__keep_on(y + s * V1[i], ny);
        F1[i] = fsi__keep_on(y + s * V1[i] + half, ny + 1);
        if (three) {
            E2[i] = fsi__keep_on(z + s * V2[i], nz);
            F2[i] = fsi__keep_on(z + s * V2[i] + half, nz + 1);
        }
    }
    FSI__OMP(simd)
    for (int i = from; i < to; i++) {
        const fsi_real x = edge ? x0 + (fsi_real)i : x0, X = x + s * V0[i], Y = y + s * V1[i],
                       Z = three ? z + s * V2[i] : 0;
        const fsi_real bx = fsi__cut_line(edge ? E0[i] : X, &E0[i]) - x,
                       fx = fsi__cut_line(edge ? F0[i] : X + half, &F0[i]) - x;
        const fsi_real by = fsi__cut_line(edge ? E1[i] : Y, &E1[i]) - y,
                       fy = fsi__cut_line(edge ? F1[i] : Y + half, &F1[i]) - y;
        fsi_real bz = 0, fz = 0;
        if (three) {
            bz = fsi__cut_line(edge ? E2[i] : Z, &E2[i]) - z;
            fz = fsi__cut_line(edge ? F2[i] : Z + half, &F2[i]) - z;
        }
        a0[i] = (int32_t)((double)fx + (w + 1) * (double)by + (three ? s0 * (double)bz : 0));
        a1[i] = (int32_t)((double)bx + w * (double)fy + (three ? s1 * (double)bz : 0));
        if (three)
            a2[i] = (int32_t)((double)bx + w * (double)by + s2 * (double)fz);
    }
}

/* Half the ways of the cells of a chunk: back -dt u(m), forth dt (2 u - u(m)), with u at the middle
 * m of the straight path back. q is a job of family 3. */
FSI__FLAT void fsi__ways_chunk(const fsi__job *job, int three, int j, int k, int i0, int count) {
    const ptrdiff_t nx = job->n[0], ny = job->n[1], row = i0 + nx * (j + ny * k);
    const int *n = job->n, safe = j >= job->reach[1] && j < n[1] - job->reach[1]
                                  && (!three || (k >= job->reach[2] && k < n[2] - job->reach[2]));
    fsi_real V[3][FSI__CHUNK], F[3][2][FSI__CHUNK], mid[FSI__CHUNK];
    int32_t shift[3][FSI__CHUNK];
    const fsi_real half = FSI_R(-0.5) * job->s, *p[3];
    int part[5][2], parts = fsi__parts(n[0], job->reach[0], safe, i0, 0, count, part);
    for (int c = 0; c < 3; c++)
        p[c] = job->mac.u[c] ? job->mac.u[c] + (nx + (c == 0)) * (j + (ny + (c == 1)) * k) : NULL;
    fsi__cut_middles(job, three, 0, j, k, i0, part[0][0], part[0][1], p, V, F, shift);
    for (int i = 1; i < parts; i++)
        fsi__cut_middles(job, three, 1, j, k, i0, part[i][0], part[i][1], p, V, F, shift);
    for (int c = 0; c < 2 + three; c++) {
        const size_t w = (size_t)nx + (c == 0), hgt = (size_t)ny + (c == 1);
        const fsi_real *v = V[c];
        fsi_real *FSI__RESTRICT back = job->back[c] + row,
                                *FSI__RESTRICT forth = job->forth[c] + row;
        fsi__mix_chunk(p[c] + i0, w, w * hgt, three, count, shift[c], F[0][c == 0], F[1][c == 1],
                       F[2][c == 2], mid);
        FSI__OMP(simd)
        for (int i = 0; i < count; i++) {
            back[i] = half * mid[i];
            forth[i] = half * (mid[i] - 2 * v[i]);
        }
        {
            fsi_real *most = job->most + 3 * (j + ny * k) + c, m = fsi__chunk_most(count, forth);
            *most = i0 > 0 ? fsi__max(*most, m) : m;
        }
    }
}

/* Where the path back from cell (i,j,k) leads out through an open side, fresh air comes in. */
static int fsi__enters(const fsi__job *job, int i, int j, int k) {
    const ptrdiff_t c = i + job->n[0] * (j + (ptrdiff_t)job->n[1] * k);
    const int at[3] = {i, j, k};
    for (int a = 0; a < 2 + job->mac.three; a++) {
        const fsi_real x = (fsi_real)at[a] + 2 * job->back[a][c];
        if ((x < FSI_R(-0.5) && job->open[2 * a])
            || (x > (fsi_real)job->n[a] - FSI_R(0.5) && job->open[2 * a + 1]))
            return 1;
    }
    return 0;
}

FSI__FLAT void fsi__advect_back(const fsi__job *job, int three, int j, int k, int i0, int count) {
    const size_t sy = (size_t)job->n[0], sz = sy * (size_t)job->n[1];
    const ptrdiff_t row = (ptrdiff_t)((size_t)i0 + sy * (size_t)j + sz * (size_t)k),
                    in = row - job->base;
    fsi__ends ends;
    int off = fsi__find_ends(job, three, 1, j, k, i0, count, &ends);
    for (int m = 0; m < job->count; m++)
        fsi__mix_chunk(job->old[m] + row, sy, sz, three, count, ends.shift, ends.F[0], ends.F[1],
                       ends.F[2],
                       job->keep[m] ? job->hat[m] + in : job->out[m] + (row - job->out_base));
    for (int i = 0; off && i < count; i++) {
        if (!(ends.off[i] > 0))
            continue;
        ends.shift[i] = FSI__NO_STENCIL;
        for (int m = 0; m < job->count && job->family == 3 && fsi__enters(job, i0 + i, j, k); m++)
            *(job->keep[m] ? job->hat[m] + in + i : job->out[m] + (row - job->out_base) + i) =
                job->still[m];
    }
    memcpy(job->stencil + in, ends.shift, (size_t)count * sizeof ends.shift[0]);
}

/* min and max over the corners of a stencil, then clamp. */
FSI__FLAT fsi_real fsi__limit(const fsi_real *p, size_t sy, size_t sz, int three, fsi_real v) {
    fsi_real lo = fsi__min(fsi__min(p[0], p[1]), fsi__min(p[sy], p[sy + 1])),
             hi = fsi__max(fsi__max(p[0], p[1]), fsi__max(p[sy], p[sy + 1]));
    if (three) {
        p += sz;
        lo = fsi__min(lo, fsi__min(fsi__min(p[0], p[1]), fsi__min(p[sy], p[sy + 1])));
        hi = fsi__max(hi, fsi__max(fsi__max(p[0], p[1]), fsi__max(p[sy], p[sy + 1])));
    }
    return fsi__min(fsi__max(v, lo), hi);
}

/* out = MacCormack where both paths stay in the box and away from solids (st), else hat. limit: to
 * the old values around the end of the backward path. */
FSI__FLAT void fsi__correct_chunk(size_t sy, size_t sz, int three, int limit, int count,
                                  const int32_t *st, const fsi_real *hat, const fsi_real *old,
                                  const fsi_real *forth, fsi_real *FSI__RESTRICT out) {
    for (int from = 0; from < count; from += FSI__BLOCK) {
        if (from + FSI__BLOCK <= count && st[from] != FSI__NO_STENCIL
            && fsi__side_by_side(st + from)) {
            const fsi_real *p = old + (ptrdiff_t)st[from];
            FSI__OMP(simd)
            for (int i = from; i < from + FSI__BLOCK; i++) {
                const fsi_real v = hat[i] + FSI_R(0.5) * (old[i] - forth[i]);
                out[i] = limit ? fsi__limit(p + i, sy, sz, three, v) : v;
            }
        } else
            for (int i = from; i < fsi__imin(from + FSI__BLOCK, count); i++) {
                const fsi_real v = hat[i] + FSI_R(0.5) * (old[i] - forth[i]);
                out[i] = st[i] == FSI__NO_STENCIL ? hat[i]
                         : limit                  ? fsi__limit(old + i + st[i], sy, sz, three, v)
                                                  : v;
            }
    }
}

/* Takes the correction, old - forth, away where a face lies within a cell of the liquid's surface
 * or above it; two cells deep it is whole. */
FSI__FLAT void fsi__spare_surface(const fsi__job *job, int j, int k, int i0, int count,
                                  const fsi_real *old, fsi_real *forth) {
    const int a = job->family, *n = job->mac.n, j0 = a == 1 ? fsi__imax(j - 1, 0) : j,
              k0 = a == 2 ? fsi__imax(k - 1, 0) : k;
    const fsi_real *low = job->phi + (ptrdiff_t)n[0] * (j0 + (ptrdiff_t)n[1] * k0),
                   *high =
                       job->phi
                       + (ptrdiff_t)n[0]
                             * (fsi__imin(j, n[1] - 1) + (ptrdiff_t)n[1] * fsi__imin(k, n[2] - 1));
    for (int i = 0; i < count; i++) {
        const fsi_real depth =
            -job->half_inv_h
            * (low[a == 0 ? fsi__imax(i0 + i - 1, 0) : i0 + i] + high[fsi__imin(i0 + i, n[0] - 1)]);
        forth[i] = old[i] + fsi__min(fsi__max(depth - 1, 0), 1) * (forth[i] - old[i]);
    }
}

FSI__FLAT void fsi__advect_forth(const fsi__job *job, int three, int j, int k, int i0, int count) {
    const size_t sy = (size_t)job->n[0], sz = sy * (size_t)job->n[1];
    const ptrdiff_t row = (ptrdiff_t)((size_t)i0 + sy * (size_t)j + sz * (size_t)k),
                    in = row - job->base;
    fsi_real forth[FSI__CHUNK];
    fsi__ends ends;
    int off = fsi__find_ends(job, three, 0, j, k, i0, count, &ends);
    for (int i = 0; off && i < count; i++)
        if (ends.off[i] > 0)
            job->stencil[in + i] = FSI__NO_STENCIL;
    for (int m = 0; m < job->count; m++) {
        if (!job->keep[m])
            continue;
        fsi__mix_chunk(job->hat[m] + in, sy, sz, three, count, ends.shift, ends.F[0], ends.F[1],
                       ends.F[2], forth);
        if (job->phi)
            fsi__spare_surface(job, j, k, i0, count, job->old[m] + row, forth);
        if (job->limit[m])
            fsi__correct_chunk(sy, sz, three, 1, count, job->stencil + in, job->hat[m] + in,
                               job->old[m] + row, forth, job->out[m] + (row - job->out_base));
        else
            fsi__correct_chunk(sy, sz, three, 0, count, job->stencil + in, job->hat[m] + in,
                               job->old[m] + row, forth, job->out[m] + (row - job->out_base));
    }
}

/* One row of a pass: 0 the ways, 1 backward, 2 correction. The compiler makes one version of each
 * for 2D and one for 3D. */
FSI__FLAT void fsi__advect_row(const fsi__job *job, int pass, ptrdiff_t r) {
    const int three = job->mac.three;
    int j = (int)(r % job->n[1]), k = (int)(r / job->n[1]);
    for (int i0 = 0; i0 < job->n[0]; i0 += FSI__CHUNK) {
        const int count = fsi__imin(FSI__CHUNK, job->n[0] - i0);
        if (pass == 0 && three)
            fsi__ways_chunk(job, 1, j, k, i0, count);
        else if (pass == 0)
            fsi__ways_chunk(job, 0, j, k, i0, count);
        else if (pass == 1 && three)
            fsi__advect_back(job, 1, j, k, i0, count);
        else if (pass == 1)
            fsi__advect_back(job, 0, j, k, i0, count);
        else if (three)
            fsi__advect_forth(job, 1, j, k, i0, count);
        else
            fsi__advect_forth(job, 0, j, k, i0, count);
    }
}

/* The same plain loops once more for processors with wider vectors (no fused operations: same
 * bits), chosen when the program runs. */
#if defined(__x86_64__) && !defined(__AVX2__) && (defined(__GNUC__) || defined(__clang__))         \
    && !defined(__TINYC__)
__attribute__((target("avx2"))) static void fsi__advect_row_wide(const fsi__job *job, int pass,
                                                                 ptrdiff_t r) {
    fsi__advect_row(job, pass, r);
}

static int fsi__wide(void) {
    return __builtin_cpu_supports("avx2") != 0;
}
#else
static void fsi__advect_row_wide(const fsi__job *q, int pass, ptrdiff_t r) {
    (void)q;
    (void)pass;
    (void)r;
}

static int fsi__wide(void) {
    return 0;
}
#endif
static void fsi__advect_row_plain(const fsi__job *job, int pass, ptrdiff_t r) {
    fsi__advect_row(job, pass, r);
}

static void fsi__advect_pass(const fsi__job *job, int pass, ptrdiff_t from, ptrdiff_t to) {
    void (*const row)(const fsi__job *, int, ptrdiff_t) =
        fsi__wide() ? fsi__advect_row_wide : fsi__advect_row_plain;
    FSI__OMP(parallel for schedule(static) if ((to - from) * job->n[0] > 8000))
    for (ptrdiff_t r = from; r < to; r++)
        if (!job->rows || (job->rows[r] & pass))
            row(job, pass, r);
}

static void fsi__job_begin(const fsi_grid *grid, int family, fsi_real dt, const fsi_real *way,
                           fsi__job *job) {
    fsi_vec3 o = fsi__sample_place(family, 0, 0, 0);
    memset(job, 0, sizeof *job);
    job->mac = fsi__mac_of(grid);
    job->family = family;
    fsi__family_size(grid, family, job->n);
    job->o[0] = o.x;
    job->o[1] = o.y;
    job->o[2] = o.z;
    job->s = dt / grid->h;
    job->stencil = grid->stencil;
    job->phi = family < 3 ? grid->phi : NULL;
    job->half_inv_h = FSI_R(0.5) / grid->h;
    for (int a = 0; a < 6; a++)
        job->open[a] = fsi__side_open(grid, a);
    for (int a = 0; a < 3; a++) {
        job->reach[a] = way[a] < FSI_R(1e6) ? 2 + (int)way[a] : 1 << 29;
        /* not needed before build_pressure makes new ones */
        job->back[a] = grid->weight[a];
        job->forth[a] = a == 0 ? grid->rhs : grid->way[a - 1];
    }
}

static void fsi__job_add(fsi__job *job, const fsi_real *old, fsi_real *hat, fsi_real *out,
                         fsi_advection mode) {
    int m = job->count++;
    job->old[m] = old;
    job->hat[m] = hat;
    job->out[m] = out;
    job->keep[m] = mode == FSI_ADVECT_MACCORMACK || mode == FSI_ADVECT_MACCORMACK_FREE;
    job->limit[m] = mode == FSI_ADVECT_MACCORMACK;
}

/* Smoke fills a part of the box only. Rows whose values lie within round-off (of the largest) of
   the still value, and whose neighbours within reach do, keep them: no work there. Bit 2 of rows:
   the row may change; bit 1: a row that may change needs its hat. q carries scalars. Returns 0 when
   one of them is not finite. */
static int fsi__find_calm_rows(fsi_grid *grid, fsi__job *job) {
    ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    uint8_t *may = grid->mark[0], *near_it = grid->mark[1];
    fsi_real *most = grid->scratch[3];
    memset(may, 0, (size_t)rows);
    for (int m = 0; m < job->count; m++) {
        FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
        for (ptrdiff_t r = 0; r < rows; r++) {
            const fsi_real *s = job->old[m] + r * grid->nx;
            fsi_real far_off = fsi_max_abs((size_t)grid->nx, s);
            int n;
            if (fsi__abs(job->still[m]) > 0 && fsi__finite(far_off))
                for (far_off = 0, n = 0; n < grid->nx; n++)
                    far_off = fsi__max(far_off, fsi__abs(s[n] - job->still[m]));
            most[r] = far_off;
        }
        fsi_real limit = FSI_REAL_EPS * fsi_max_abs((size_t)rows, most);
        if (!fsi__finite(limit))
            return 0;
        for (ptrdiff_t r = 0; r < rows; r++)
            may[r] |= most[r] > limit;
    }
    for (int pass = 0; pass < 2; pass++) {
        uint8_t *p = pass ? near_it : may;
        if (pass)
            memcpy(near_it, may, (size_t)rows);
        for (int i = 0; i < grid->nz; i++)
            fsi__grow_line(p + (size_t)i * (size_t)grid->ny, 1, grid->ny, job->reach[1]);
        if (grid->dim == 3)
            fsi__grow_marks(p, (size_t)grid->ny, (size_t)grid->ny, grid->nz, job->reach[2]);
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        may[r] = (uint8_t)(near_it[r] + 2 * may[r]);
    job->rows = may;
    return 1;
}

static void fsi__copy_rows(const fsi__job *job, int m, ptrdiff_t from, ptrdiff_t to,
                           fsi_real *field) {
    const ptrdiff_t w = job->n[0];
    FSI__OMP(parallel for schedule(static) if ((to - from) * w > 8000))
    for (ptrdiff_t r = from; r < to; r++)
        if (!job->rows || (job->rows[r] & 2u))
            memcpy(field + r * w, job->out[m] + (r * w - job->out_base), (size_t)w * sizeof *field);
}

/* Moves what is still needed of hat, stencil and out, samples from .. to-1, to the front. */
static void fsi__job_slide(fsi__job *job, int early, ptrdiff_t from, ptrdiff_t to) {
    const size_t n = (size_t)(to - from);
    for (int m = 0; m < job->count; m++) {
        if (job->keep[m])
            memmove(job->hat[m], job->hat[m] + (from - job->base), n * sizeof *job->hat[m]);
        if (early)
            memmove(job->out[m], job->out[m] + (from - job->out_base), n * sizeof *job->out[m]);
    }
    memmove(job->stencil, job->stencil + (from - job->base), n * sizeof *job->stencil);
    job->base = from;
    if (early)
        job->out_base = from;
}

/* All passes of a job, layer after layer (a plane, in 2D a row), each pass as far behind the one
   before it as paths reach: what a pass makes is still in the cache when the next one reads it, and
   hat, stencil and out need room for some layers only. field: where the results go; NULL: they stay
   in out. */
static void fsi__job_run(fsi_grid *grid, fsi__job *job, fsi_real *const *field) {
    const int three = job->mac.three, layers = three ? job->n[2] : job->n[1],
              per = three ? job->n[1] : 1, reach = fsi__imin(job->reach[1 + three], layers);
    const ptrdiff_t size = (ptrdiff_t)per * job->n[0]; /* samples of a layer */
    const int step = (int)(1 + 131072 / size), room = 2 * reach + 4 * step;
    int back = 0, forth = 0, copied = 0; /* layers done */
    while (forth < layers || (field && copied < layers)) {
        int to = fsi__imin(back + step, layers), from = fsi__imin(copied, forth - reach);
        if (to * size - job->base > room * size && from * size > job->base)
            fsi__job_slide(job, field != NULL, from * size, back * size);
        fsi__advect_pass(job, 1, (ptrdiff_t)back * per, (ptrdiff_t)to * per);
        if (grid->occluded)
            fsi__advect_seen(grid, job, (ptrdiff_t)back * per, (ptrdiff_t)to * per);
        back = to;
        to = back == layers ? layers : fsi__imax(back - reach, forth);
        if (job->keep[0] || job->keep[1])
            fsi__advect_pass(job, 2, (ptrdiff_t)forth * per, (ptrdiff_t)to * per);
        forth = to;
        to = forth == layers ? layers : fsi__imax(forth - reach, copied);
        for (int m = 0; m < job->count && field; m++)
            fsi__copy_rows(job, m, (ptrdiff_t)copied * per, (ptrdiff_t)to * per, field[m]);
        copied = to;
    }
}

/* Pass 0: the ways of all cells; way: the longest ones along each axis, cells. */
static void fsi__find_ways(fsi_grid *grid, fsi_real dt, const fsi_real *axis_speed, fsi_real *way) {
    const ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    for (int a = 0; a < 3; a++)
        way[a] = FSI_R(0.5) * (dt / grid->h * axis_speed[a] + 1);
    fsi__job job;
    fsi__job_begin(grid, 3, dt, way, &job);
    job.most = grid->scratch[0];
    fsi__advect_pass(&job, 0, 0, rows);
    for (int a = 0; a < 3; a++) {
        way[a] = dt / grid->h * axis_speed[a]; /* back */
        for (ptrdiff_t r = 0; r < rows && a < grid->dim; r++)
            way[a] = fsi__max(way[a], 2 * job.most[3 * r + a]);
    }
}

FSI_API fsi_result fsi_grid_advect(fsi_grid *grid, fsi_real dt) {
    fsi_grid *fluid = grid;
    fsi_real axis_speed[3] = {0, 0, 0}, way[3];
    fsi_real *field[2];
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    double t0 = fsi__now(fluid);
    fsi_real speed;
    fsi_result result = fsi__check_state(fluid, &speed, axis_speed);
    if (result < 0)
        return result;
    fluid->stats.max_speed = (double)speed;
    fluid->stats.cfl = fluid->stats.max_speed * (double)dt / (double)fluid->h;
    if (fluid->occluded)
        fsi__mark_near(fluid, dt, fluid->occlusion.smooth);
    for (int i = 0; i < 3; i++)
        way[i] = FSI_R(0.5) * (dt / fluid->h * axis_speed[i] + 1);
    fsi__find_ways(fluid, dt, axis_speed, way);
    fluid->weights_are_one = 0;
    int total = 2 + fluid->desc.scalars;
    /* scalars first, two at a time, all by the old velocity */
    fsi__job job;
    for (int i = 0; i < total;) {
        fsi__job_begin(fluid, 3, dt, way, &job);
        for (; i < total && job.count < 2; i++) {
            fsi_advection mode;
            fsi_real *s = fsi__scalar(fluid, i, &mode);
            if (!s || mode == FSI_ADVECT_NONE)
                continue;
            field[job.count] = s;
            job.still[job.count] = i == 1 ? fluid->desc.ambient : 0;
            fsi__job_add(&job, s, fluid->scratch[job.count], fluid->scratch[2 + job.count], mode);
        }
        if (!job.count)
            continue;
        /* only the first ones can be: nothing has changed yet */
        if (!fsi__find_calm_rows(fluid, &job))
            return FSI_ERR_NUMERIC;
        fsi__job_run(fluid, &job, field);
    }
    for (int i = 0; i < fluid->dim && fluid->desc.advect_velocity != FSI_ADVECT_NONE; i++) {
        fsi__job_begin(fluid, i, dt, way, &job);
        fsi__job_add(&job, fluid->carried[i] ? fluid->carried[i] : fluid->u[i], fluid->scratch[3],
                     fluid->scratch[i], fluid->desc.advect_velocity);
        field[0] = fluid->u[i];
        /* next to solids all components of the old velocity are looked at again */
        fsi__job_run(fluid, &job, fluid->occluded ? NULL : field);
    }
    for (int i = 0; i < fluid->dim && fluid->desc.advect_velocity != FSI_ADVECT_NONE; i++) {
        if (fluid->occluded)
            fsi_copy(fluid->faces[i], fluid->scratch[i], fluid->u[i]);
        fluid->carried[i] = NULL;
        if (fluid->u_plus[i])
            fsi__plus_equal(fluid, i, fluid->plus_work[i]);
    }
    fsi__grid_walls(fluid, 0);
    fluid->stats.seconds_advect = fsi__now(fluid) - t0;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid walls of the surface */
static fsi_vec3 fsi__clip_way(fsi_vec3 from, fsi_vec3 to, void *user) {
    const fsi_grid *grid = (const fsi_grid *)user;
    fsi_vec3 A = fsi__to_cells(grid, from), B = fsi__to_cells(grid, to), v;
    int own[3];
    if (grid->occlusion.hit_fn) {
        fsi_real t;
        if (!fsi__ray_hits(grid, A, B, &t, &v))
            return to;
        t -= FSI_R(1e-3) / fsi__max(fsi__length(fsi_vec_sub(B, A)), FSI_R(1e-3));
        return fsi_vec_mad(from, fsi_vec_sub(to, from), fsi__max(t, 0));
    }
    fsi__own_cell(grid, A, own);
    return fsi__grid_point(grid, fsi__reach(grid, own, B, &v));
}

static void fsi__surface_walls(fsi_grid *grid, fsi_levelset_walls *walls, int *open) {
    memset(walls, 0, sizeof *walls);
    for (int i = 0; i < 6; i++)
        open[i] = fsi__side_open(grid, i);
    walls->open = open;
    if (!grid->occluded)
        return;
    walls->solid = grid->occlusion.solid;
    walls->clip_fn = fsi__clip_way;
    walls->user = grid;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sources */
/* Signed distance to the source's region at x, negative inside (box: exact outside, by the nearest
 * side inside). */
static fsi_real fsi__source_distance(fsi_vec3 x, const fsi_grid_source *source, int dim) {
    fsi_real out = 0, in = -FSI_REAL_MAX;
    if (source->shape == FSI_SOURCE_CALLBACK)
        return source->distance_fn(x, source->user);
    if (source->shape == FSI_SOURCE_SPHERE) {
        fsi_vec3 d = fsi_vec_sub(x, source->centre);
        if (dim == 2)
            d.z = 0;
        return fsi__length(d) - source->radius;
    }
    for (int a = 0; a < dim; a++) {
        fsi_real d = fsi__max(fsi__get(source->lo, a) - fsi__get(x, a),
                              fsi__get(x, a) - fsi__get(source->hi, a));
        if (d > 0)
            out += d * d;
        in = fsi__max(in, d);
    }
    return in > 0 ? fsi__sqrt(out) : in;
}

typedef struct fsi__source_shape_user {
    const fsi_grid_source *source;
    int dim;
} fsi__source_shape_user;

static fsi_real fsi__source_shape(fsi_vec3 x, void *user) {
    const fsi__source_shape_user *u = (const fsi__source_shape_user *)user;
    return fsi__source_distance(x, u->source, u->dim);
}

static int fsi__source_active(const fsi_grid *grid, const fsi_grid_source *source) {
    return (source->start >= source->stop && source->stop <= 0)
           || (grid->time >= source->start && grid->time < source->stop);
}

FSI_API fsi_result fsi_grid_add_source(fsi_grid *grid, const fsi_grid_source *source) {
    const fsi_grid_source *s = source;
    fsi_real size[3];
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!s || s->set == 0 || (int)s->shape < 0 || (int)s->shape > FSI_SOURCE_CALLBACK
        || !fsi__finite_vec(s->velocity) || !fsi__finite(s->density) || !fsi__finite(s->temperature)
        || !fsi__finite(s->divergence) || !(s->start <= s->start + 1) || !(s->stop <= s->stop + 1))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < FSI_GRID_SCALARS; i++)
        if (!fsi__finite(s->scalar[i]))
            return FSI_ERR_ARGUMENT;
    size[0] = (fsi_real)grid->nx * grid->h;
    size[1] = (fsi_real)grid->ny * grid->h;
    size[2] = (fsi_real)grid->nz * grid->h;
    for (int a = 0; a < grid->dim && s->shape != FSI_SOURCE_CALLBACK; a++) {
        fsi_real o = fsi__get(grid->origin, a), lo = fsi__get(s->lo, a), hi = fsi__get(s->hi, a);
        if (s->shape == FSI_SOURCE_SPHERE) {
            lo = fsi__get(s->centre, a) - s->radius;
            hi = fsi__get(s->centre, a) + s->radius;
        }
        if (!fsi__finite(lo) || !fsi__finite(hi) || !(lo < hi) || hi < o || lo > o + size[a])
            return FSI_ERR_ARGUMENT;
    }
    if (s->shape == FSI_SOURCE_CALLBACK && !s->distance_fn)
        return FSI_ERR_ARGUMENT;
    if (grid->source_count >= FSI_GRID_SOURCES)
        return FSI_ERR_SIZE;
    grid->source[grid->source_count++] = *s;
    return FSI_OK;
}

/* Samples lo .. hi-1 of a family that may lie inside the source. */
static void fsi__source_range(const fsi_grid *grid, const fsi_grid_source *source, const int *n,
                              int *lo, int *hi) {
    for (int a = 0; a < 3; a++) {
        fsi_real x0 = fsi__get(source->lo, a), x1 = fsi__get(source->hi, a),
                 o = fsi__get(grid->origin, a);
        lo[a] = 0;
        hi[a] = n[a];
        if (source->shape == FSI_SOURCE_CALLBACK || a >= grid->dim)
            continue;
        if (source->shape == FSI_SOURCE_SPHERE) {
            x0 = fsi__get(source->centre, a) - source->radius;
            x1 = fsi__get(source->centre, a) + source->radius;
        }
        lo[a] = (int)fsi__clamp((x0 - o) / grid->h - 1, 0, (fsi_real)n[a]);
        hi[a] = (int)fsi__clamp((x1 - o) / grid->h + 2, 0, (fsi_real)n[a]);
    }
}

/* Writes value into the samples of a family inside the source (add: adds it); out NULL: only asks.
 * Returns 0 when a callback gave garbage. */
static int fsi__source_fill(const fsi_grid *grid, const fsi_grid_source *source, int family,
                            fsi_real value, int add, fsi_real *out) {
    int n[3], lo[3], hi[3], good = 1;
    fsi__family_size(grid, family, n);
    fsi__source_range(grid, source, n, lo, hi);
    for (int k = lo[2]; k < hi[2]; k++)
        for (int j = lo[1]; j < hi[1]; j++)
            for (int i = lo[0]; i < hi[0]; i++) {
                fsi_real d = fsi__source_distance(
                    fsi__grid_point(grid, fsi__sample_place(family, i, j, k)), source, grid->dim);
                if (!fsi__finite(d))
                    good = 0;
                else if (d < 0 && out)
                    out[fsi__at(n, i, j, k)] = value + (add ? out[fsi__at(n, i, j, k)] : 0);
            }
    return good;
}

/* Asks every callback once without using the answers, so that a step can be refused before it
 * changed anything. */
static fsi_result fsi__check_callbacks(const fsi_grid *grid) {
    int n[3];
    for (int i = 0; i < grid->source_count; i++)
        for (int a = 0; a < 4 && grid->source[i].shape == FSI_SOURCE_CALLBACK
                        && fsi__source_active(grid, &grid->source[i]);
             a++)
            if ((a == 3 || a < grid->dim)
                && !fsi__source_fill(grid, &grid->source[i], a, 0, 0, NULL))
                return FSI_ERR_CALLBACK;
    for (int a = 0; a < grid->dim && grid->desc.force_fn; a++) {
        fsi__family_size(grid, a, n);
        for (int z = 0; z < n[2]; z++)
            for (int y = 0; y < n[1]; y++)
                for (int x = 0; x < n[0]; x++)
                    if (!fsi__finite_vec(grid->desc.force_fn(fsi_grid_face_centre(grid, a, x, y, z),
                                                             grid->time, grid->desc.force_user)))
                        return FSI_ERR_CALLBACK;
    }
    for (int i = 0; grid->desc.viscosity_cells && i < (int)grid->cells; i++)
        if (!fsi__not_negative(grid->desc.viscosity_cells[i]))
            return FSI_ERR_ARGUMENT;
    return FSI_OK;
}

static fsi_result fsi__apply_sources(fsi_grid *grid) {
    fsi_result result = FSI_OK;
    for (int i = 0; i < grid->source_count; i++) {
        const fsi_grid_source *source = &grid->source[i];
        if (!fsi__source_active(grid, source))
            continue;
        for (int a = 0; a < grid->dim && (source->set & FSI_SOURCE_VELOCITY); a++)
            fsi__source_fill(grid, source, a, fsi__get(source->velocity, a), 0, grid->u[a]);
        if ((source->set & FSI_SOURCE_DENSITY) && grid->density)
            fsi__source_fill(grid, source, 3, source->density, 0, grid->density);
        if ((source->set & FSI_SOURCE_TEMPERATURE) && grid->temperature)
            fsi__source_fill(grid, source, 3, source->temperature, 0, grid->temperature);
        for (int a = 0; a < grid->desc.scalars; a++)
            if (source->set & ((unsigned)FSI_SOURCE_SCALAR << a))
                fsi__source_fill(grid, source, 3, source->scalar[a], 0, grid->scalar[a]);
        fsi__source_shape_user shape;
        shape.source = source;
        shape.dim = grid->dim;
        if (grid->phi && (source->set & (FSI_SOURCE_LIQUID | FSI_SOURCE_DRAIN))) {
            fsi_levelset_walls walls;
            int open[6];
            fsi__surface_walls(grid, &walls, open);
            result = fsi_levelset_shape(&grid->levelset, fsi__source_shape, &shape,
                                        (source->set & FSI_SOURCE_LIQUID) != 0, &walls);
        }
        if (result < 0)
            return result;
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid forces */
/* Adds dt times an acceleration of the cells to the faces of axis a inside the box: the mean of the
 * two cells beside a face. f holds half of it. */
static void fsi__push_faces(fsi_grid *grid, int a, fsi_real dt, const fsi_real *f) {
    const ptrdiff_t below = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
    const int first = a == 0,
              rows = (a == 1 ? grid->ny - 1 : grid->ny) * (a == 2 ? grid->nz - 1 : grid->nz),
              per = a == 1 ? grid->ny - 1 : grid->ny;
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        const ptrdiff_t j = r % per + (a == 1), k = r / per + (a == 2);
        const fsi_real *hi = f + grid->nx * (j + (ptrdiff_t)grid->ny * k), *lo = hi - below;
        fsi_real *FSI__RESTRICT u =
            grid->u[a] + (grid->nx + (a == 0)) * (j + (ptrdiff_t)(grid->ny + (a == 1)) * k);
        FSI__OMP(simd)
        for (int i = first; i < grid->nx; i++)
            u[i] += dt * (lo[i] + hi[i]);
    }
}

/* Adds dt up (-alpha density + beta (T - T0)) to the faces of axis a inside the box: the mean of
 * the two cells beside a face. */
static void fsi__buoyancy(fsi_grid *grid, int a, fsi_real dt) {
    const fsi_real scale = FSI_R(0.5) * dt * fsi__get(grid->desc.up, a),
                   alpha = scale * grid->desc.buoyancy_density,
                   beta = scale * grid->desc.buoyancy_temperature, T0 = 2 * grid->desc.ambient;
    const ptrdiff_t below = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
    const int first = a == 0, per = a == 1 ? grid->ny - 1 : grid->ny,
              rows = per * (a == 2 ? grid->nz - 1 : grid->nz);
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        const ptrdiff_t j = r % per + (a == 1), k = r / per + (a == 2),
                        at = grid->nx * (j + (ptrdiff_t)grid->ny * k);
        const fsi_real *s = grid->density + at, *t = s - below, *S = grid->temperature + at,
                       *T = S - below;
        fsi_real *FSI__RESTRICT u =
            grid->u[a] + (grid->nx + (a == 0)) * (j + (ptrdiff_t)(grid->ny + (a == 1)) * k);
        FSI__OMP(simd)
        for (int i = first; i < grid->nx; i++)
            u[i] += beta * (S[i] + T[i] - T0) - alpha * (s[i] + t[i]);
    }
}

/* Vorticity at cell centres by central differences of the cell means (one-sided at the box), into
 * scratch[0..2]; |omega| into scratch[3]. */
/* d u_c / d x_a */
static fsi_real fsi__cell_difference(const fsi_grid *grid, int c, int a, int i, int j, int k) {
    int lo[3], hi[3], n[3], m[3];
    const fsi_real *u = grid->u[c];
    fsi__family_size(grid, c, n);
    fsi__family_size(grid, 3, m);
    size_t s = c == 0 ? 1 : c == 1 ? (size_t)n[0] : (size_t)n[0] * (size_t)n[1];
    lo[0] = hi[0] = i;
    lo[1] = hi[1] = j;
    lo[2] = hi[2] = k;
    if (lo[a] > 0)
        lo[a]--;
    if (hi[a] < m[a] - 1)
        hi[a]++;
    if (lo[a] == hi[a])
        return 0;
    return FSI_R(0.5)
           * ((u[fsi__at(n, hi[0], hi[1], hi[2])] + u[fsi__at(n, hi[0], hi[1], hi[2]) + s])
              - (u[fsi__at(n, lo[0], lo[1], lo[2])] + u[fsi__at(n, lo[0], lo[1], lo[2]) + s]))
           / ((fsi_real)(hi[a] - lo[a]) * grid->h);
}

static void fsi__vorticity(fsi_grid *grid) {
    ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % grid->ny), k = (int)(r / grid->ny);
        for (int i = 0; i < grid->nx; i++) {
            size_t c = (size_t)r * (size_t)grid->nx + (size_t)i;
            fsi_vec3 w = fsi_vec(0, 0,
                                 fsi__cell_difference(grid, 1, 0, i, j, k)
                                     - fsi__cell_difference(grid, 0, 1, i, j, k));
            if (grid->dim == 3) {
                w.x = fsi__cell_difference(grid, 2, 1, i, j, k)
                      - fsi__cell_difference(grid, 1, 2, i, j, k);
                w.y = fsi__cell_difference(grid, 0, 2, i, j, k)
                      - fsi__cell_difference(grid, 2, 0, i, j, k);
            }
            grid->scratch[0][c] = w.x;
            grid->scratch[1][c] = w.y;
            grid->scratch[2][c] = w.z;
            grid->scratch[3][c] = fsi__length(w);
        }
    }
}

/* f = eps h (N x omega), N = grad |omega| / |grad |omega||, component a. */
static fsi_real fsi__confine(const fsi_grid *grid, int a, int i, int j, int k) {
    const fsi_real *w = grid->scratch[3];
    const size_t sy = (size_t)grid->nx, sz = sy * (size_t)grid->ny,
                 c = (size_t)i + sy * (size_t)j + sz * (size_t)k;
    fsi_vec3 N;
    N.x = w[i < grid->nx - 1 ? c + 1 : c] - w[i > 0 ? c - 1 : c];
    N.y = w[j < grid->ny - 1 ? c + sy : c] - w[j > 0 ? c - sy : c];
    N.z = w[k < grid->nz - 1 ? c + sz : c] - w[k > 0 ? c - sz : c];
    return grid->desc.confinement * grid->h
           * fsi__get(fsi_vec_cross(fsi__unit(N), fsi_vec(grid->scratch[0][c], grid->scratch[1][c],
                                                          grid->scratch[2][c])),
                      a);
}

/* half of it, of all cells */
static void fsi__confinement(const fsi_grid *grid, int a, fsi_real *f) {
    ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        for (int i = 0; i < grid->nx; i++)
            f[r * grid->nx + i] =
                FSI_R(0.5) * fsi__confine(grid, a, i, (int)(r % grid->ny), (int)(r / grid->ny));
    }
}

static void fsi__user_force(fsi_grid *grid, int a, fsi_real dt) {
    int n[3];
    fsi__family_size(grid, a, n);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                fsi_real f = fsi__get(grid->desc.force_fn(fsi_grid_face_centre(grid, a, i, j, k),
                                                          grid->time, grid->desc.force_user),
                                      a);
                if (fsi__finite(f))
                    grid->u[a][fsi__at(n, i, j, k)] += dt * f;
            }
}

static void fsi__decay(fsi_grid *grid, fsi_real dt) {
    fsi_real keep = fsi__exp(-dt * grid->desc.dissipation),
             warm = fsi__exp(-dt * grid->desc.cooling);
    for (size_t i = 0; grid->density && grid->desc.dissipation > 0 && i < grid->cells; i++)
        grid->density[i] *= keep;
    for (size_t i = 0; grid->temperature && grid->desc.cooling > 0 && i < grid->cells; i++)
        grid->temperature[i] =
            grid->desc.ambient + (grid->temperature[i] - grid->desc.ambient) * warm;
}

static void fsi__add_to_all(size_t n, fsi_real by, fsi_real *v) {
    FSI__OMP(parallel for schedule(static) if (n > 20000))
    for (ptrdiff_t f = 0; f < (ptrdiff_t)n; f++)
        v[f] += by;
}

FSI_API fsi_result fsi_grid_forces(fsi_grid *grid, fsi_real dt) {
    fsi_grid *fluid = grid;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    fsi_result result = fsi__check_callbacks(fluid);
    if (result < 0)
        return result;
    double t0 = fsi__now(fluid);
    /* of the velocity before any force */
    if (fsi__abs(fluid->desc.confinement) > 0)
        fsi__vorticity(fluid);
    if (fluid->density
        && (fsi__abs(fluid->desc.buoyancy_density) > 0
            || fsi__abs(fluid->desc.buoyancy_temperature) > 0)) {
        for (int a = 0; a < fluid->dim; a++)
            if (fsi__abs(fsi__get(fluid->desc.up, a)) > 0)
                fsi__buoyancy(fluid, a, dt);
    }
    for (int a = 0; a < fluid->dim; a++) {
        fsi_real kick = dt * fsi__get(fluid->desc.gravity, a);
        if (fsi__abs(fluid->desc.confinement) > 0) {
            fsi__confinement(fluid, a, fluid->rhs);
            fsi__push_faces(fluid, a, dt, fluid->rhs);
        }
        if (fluid->desc.force_fn)
            fsi__user_force(fluid, a, dt);
        if (!(fsi__abs(kick) > 0))
            continue;
        fsi__add_to_all(fluid->faces[a], kick, fluid->u[a]);
        if (fluid->u_plus[a])
            fsi__add_to_all(fluid->faces[a], kick, fluid->u_plus[a]);
    }
    fsi__decay(fluid, dt);
    result = fsi__apply_sources(fluid);
    fsi__grid_walls(fluid, 0);
    fluid->stats.seconds_forces = fsi__now(fluid) - t0;
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid cells and air */
/* a face inside the box */
static int fsi__passes(const fsi_grid *grid, int a, int i, int j, int k) {
    return !grid->occluded || fsi__open(grid, a, i, j, k) > 0;
}

static int fsi__new_air(const fsi_grid *grid, size_t c) {
    return grid->cell[c] == FSI_CELL_DIRICHLET && grid->region[c] < 0;
}

/* The run lo .. hi of air around cell i of row (j,k), numbered. */
static void fsi__flood_run(fsi_grid *grid, int i, int j, int k, int number, int *lo, int *hi) {
    const size_t row = (size_t)grid->nx * ((size_t)j + (size_t)grid->ny * (size_t)k);
    for (*lo = i;
         *lo > 0 && fsi__new_air(grid, row + (size_t)*lo - 1) && fsi__passes(grid, 0, *lo, j, k);
         (*lo)--)
        grid->region[row + (size_t)*lo - 1] = number;
    for (*hi = i; *hi + 1 < grid->nx && fsi__new_air(grid, row + (size_t)*hi + 1)
                  && fsi__passes(grid, 0, *hi + 1, j, k);
         (*hi)++)
        grid->region[row + (size_t)*hi + 1] = number;
}

/* Flood fill of one air region from cell start, run by run (the stencil array is the stack, every
   cell lies there once at most); passes faces that are not closed. Fills r. */
static void fsi__flood_air(fsi_grid *grid, size_t start, int number, fsi_air_region *region) {
    const int n[3] = {grid->nx, grid->ny, grid->nz};
    int32_t *stack = grid->stencil;
    size_t top = 0;
    memset(region, 0, sizeof *region);
    stack[top++] = (int32_t)start;
    grid->region[start] = number;
    while (top) {
        const int32_t c = stack[--top];
        const int j = c / n[0] % n[1], k = c / n[0] / n[1];
        int lo, hi;
        fsi__flood_run(grid, c % n[0], j, k, number, &lo, &hi);
        region->cells += hi - lo + 1;
        if ((lo == 0 && fsi__open(grid, 0, 0, j, k) > 0)
            || (hi == n[0] - 1 && fsi__open(grid, 0, n[0], j, k) > 0))
            region->open = 1;
        for (int a = 1; a < grid->dim; a++)
            for (int up = 0; up < 2; up++) {
                const int y = j + (a == 1 ? 2 * up - 1 : 0), z = k + (a == 2 ? 2 * up - 1 : 0),
                          fy = j + (a == 1 && up), fz = k + (a == 2 && up);
                /* the cell before this one is on the stack and its run will reach this one */
                int before = 0;
                if (y < 0 || y >= n[1] || z < 0 || z >= n[2]) {
                    for (int i = lo; i <= hi && !region->open && fsi__side_open(grid, 2 * a + up);
                         i++)
                        region->open = fsi__open(grid, a, i, fy, fz) > 0;
                    continue;
                }
                for (int i = lo; i <= hi; i++) {
                    const size_t other = fsi__at(n, i, y, z);
                    const int found = fsi__new_air(grid, other) && fsi__passes(grid, a, i, fy, fz);
                    if (found && !(before && fsi__passes(grid, 0, i, y, z))) {
                        grid->region[other] = number;
                        stack[top++] = (int32_t)other;
                    }
                    before = found;
                }
            }
    }
}

/* Of the first neighbour that has one in an earlier layer, one layer on; 0 without. */
static int32_t fsi__air_beside(const fsi_grid *grid, const int32_t *nearby, int i, int j, int k,
                               int layer) {
    const int n[3] = {grid->nx, grid->ny, grid->nz}, at[3] = {i, j, k},
              codes = grid->desc.max_regions + 1;
    const ptrdiff_t step[3] = {1, grid->nx, (ptrdiff_t)grid->nx * grid->ny},
                    c = i + n[0] * (j + (ptrdiff_t)n[1] * k);
    for (int a = 0; a < grid->dim; a++)
        for (int up = 0; up < 2; up++) {
            if (up ? at[a] + 1 >= n[a] : at[a] < 1)
                continue;
            int32_t next = nearby[c + (up ? step[a] : -step[a])];
            if (next > 0 && next < layer * codes
                && fsi__passes(grid, a, i + (up && a == 0), j + (up && a == 1), k + (up && a == 2)))
                return next % codes + layer * codes;
        }
    return 0;
}

FSI_API void fsi_grid_air_near(const fsi_grid *grid, int32_t *nearby) {
    enum {
        LAYERS = 4
    };

    const fsi_grid *fluid = grid;
    const fsi_real deep = -(LAYERS + 1) * fluid->h;
    size_t c;
    for (c = 0; c < fluid->cells; c++)
        nearby[c] = fluid->region[c] >= 0 ? fluid->region[c] + 1
                    : fluid->cell[c] == FSI_CELL_FLUID && fluid->phi[c] >= deep ? 0
                                                                                : -1;
    int k;
    for (int layer = 1; layer <= LAYERS; layer++)
        for (k = 0, c = 0; k < fluid->nz; k++)
            for (int j = 0; j < fluid->ny; j++)
                for (int i = 0; i < fluid->nx; i++, c++)
                    if (nearby[c] == 0)
                        nearby[c] = fsi__air_beside(fluid, nearby, i, j, k, layer);
    for (c = 0; c < fluid->cells; c++)
        nearby[c] = nearby[c] > 0 ? nearby[c] % (fluid->desc.max_regions + 1) : 0;
}

/* The air share of a liquid cell belongs to the air cells beside it, each in proportion to its phi:
   a film thinner than a cell has air on both sides, and no volume jumps when a cell changes sides.
   Nothing beside it: to the region near it, for the same reason. */
static void fsi__air_share(fsi_grid *grid, const int32_t *nearby, int i, int j, int k,
                           double share) {
    const int n[3] = {grid->nx, grid->ny, grid->nz}, at[3] = {i, j, k};
    const ptrdiff_t step[3] = {1, grid->nx, (ptrdiff_t)grid->nx * grid->ny},
                    c = i + n[0] * (j + (ptrdiff_t)n[1] * k);
    double w[6] = {0}, sum = 0;
    for (int q = 0; q < 2 * grid->dim; q++) {
        const int a = q / 2, up = q % 2;
        const ptrdiff_t b = c + (up ? step[a] : -step[a]);
        if ((up ? at[a] + 1 >= n[a] : at[a] < 1) || nearby[b] <= 0 || !(grid->phi[b] > 0)
            || !fsi__passes(grid, a, i + (up && a == 0), j + (up && a == 1), k + (up && a == 2)))
            continue;
        sum += w[q] = (double)grid->phi[b];
    }
    for (int q = 0; q < 2 * grid->dim; q++)
        if (w[q] > 0)
            grid->regions[nearby[c + (q % 2 ? step[q / 2] : -step[q / 2])] - 1].volume +=
                share * w[q] / sum;
    if (!(sum > 0) && nearby[c] > 0)
        grid->regions[nearby[c] - 1].volume += share;
}

FSI_API void fsi_grid_air_volumes(fsi_grid *grid, const int32_t *nearby) {
    fsi_grid *fluid = grid;
    const double cell = fluid->dim == 2 ? (double)fluid->h * (double)fluid->h
                                        : (double)fluid->h * (double)fluid->h * (double)fluid->h;
    const fsi_real *liquid = fluid->scratch[0];
    fluid->stats.liquid_volume = fsi_levelset_volume(
        &fluid->levelset, fluid->occluded ? fluid->occlusion.solid : NULL, fluid->scratch[0]);
    for (int r = 0; r < fluid->region_count; r++)
        fluid->regions[r].volume = 0;
    size_t c;
    int k;
    for (k = 0, c = 0; k < fluid->nz; k++)
        for (int j = 0; j < fluid->ny; j++)
            for (int i = 0; i < fluid->nx; i++, c++) {
                if (!(liquid[c] < 1) || fluid->cell[c] == FSI_CELL_NEUMANN)
                    continue;
                if (fluid->phi[c] < 0)
                    fsi__air_share(fluid, nearby, i, j, k, cell * (1 - (double)liquid[c]));
                else if (nearby[c] > 0)
                    fluid->regions[nearby[c] - 1].volume += cell * (1 - (double)liquid[c]);
            }
}

FSI_API fsi_result fsi_grid_classify(fsi_grid *grid) {
    fsi_grid *fluid = grid;
    fsi_result result = FSI_OK;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    FSI__OMP(parallel for schedule(static) if (fluid->cells > 20000))
    for (ptrdiff_t c = 0; c < (ptrdiff_t)fluid->cells; c++) {
        int solid = fluid->occluded && fluid->occlusion.solid && fluid->occlusion.solid[c];
        fluid->cell[c] = (uint8_t)(solid                                ? FSI_CELL_NEUMANN
                                   : fluid->phi && !(fluid->phi[c] < 0) ? FSI_CELL_DIRICHLET
                                                                        : FSI_CELL_FLUID);
        if (fluid->region)
            fluid->region[c] = -1;
    }
    if (!fluid->phi)
        return FSI_OK;
    fluid->region_count = 0;
    for (ptrdiff_t c = 0; c < (ptrdiff_t)fluid->cells; c++) {
        int number = fsi__imin(fluid->region_count, fluid->desc.max_regions - 1);
        if (fluid->cell[c] != FSI_CELL_DIRICHLET || fluid->region[c] >= 0)
            continue;
        fsi_air_region region;
        fsi__flood_air(fluid, (size_t)c, number, &region);
        if (fluid->region_count < fluid->desc.max_regions) {
            fluid->regions[number] = region;
            fluid->region_count++;
        }
        /* the last one collects the rest */
        else {
            fluid->regions[number].open = 1;
            fluid->regions[number].cells += region.cells;
            result = FSI_CAPPED;
        }
    }
    fsi_grid_air_near(fluid, fluid->stencil);
    fsi_grid_air_volumes(fluid, fluid->stencil);
    return result;
}

/* ------------------------------------------------------------------------------------------------
   >>grid pressure A p^ = rhs with w = open / theta. Ghost fluid: the surface cuts the segment
   between a liquid and an air cell centre at the share theta = phi_l / (phi_l - phi_a) from the
   liquid one, where p = 0, so the gradient is (0 - p_l) / (theta h). */
static fsi_real fsi__ghost(const fsi_grid *grid, size_t liquid, size_t air) {
    fsi_real a = grid->phi[liquid], b = grid->phi[air];
    return fsi__max(a / (a - b), grid->desc.theta_min); /* a < 0 <= b */
}

/* Weight of the face between cells lo and hi (cells, -1 = outside), open fraction given. */
static fsi_real fsi__face_weight(const fsi_grid *grid, ptrdiff_t lo, ptrdiff_t hi, fsi_real open) {
    if (!(open > 0))
        return 0;
    int a = lo < 0 ? (int)FSI_CELL_DIRICHLET : grid->cell[lo];
    int b = hi < 0 ? (int)FSI_CELL_DIRICHLET : grid->cell[hi];
    if (a == FSI_CELL_NEUMANN || b == FSI_CELL_NEUMANN)
        return 0;
    if (!grid->phi || a == b || lo < 0 || hi < 0)
        return open;
    return open
           / (a == FSI_CELL_FLUID ? fsi__ghost(grid, (size_t)lo, (size_t)hi)
                                  : fsi__ghost(grid, (size_t)hi, (size_t)lo));
}

static void fsi__build_weights(fsi_grid *grid, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
    fsi__family_size(grid, a, n);
    fsi__family_size(grid, 3, m);
    ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % n[1]), k = (int)(r / n[1]), across = a == 1 ? j : k,
            plain = !grid->phi && !grid->occluded && (a == 0 || (across > 0 && across < m[a]));
        for (int i = 0; plain && i < n[0]; i++)
            grid->weight[a][r * n[0] + i] = 1;
        for (int i = 0; i < n[0]; i += plain ? n[0] - 1 : 1) {
            int at = a == 0 ? i : across;
            ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k);
            grid->weight[a][r * n[0] + i] =
                fsi__face_weight(grid, at > 0 ? hi - step : -1, at < m[a] ? hi : -1,
                                 fsi__open_at(grid, a, at, m[a], r * n[0] + i, hi, step));
        }
    }
}

/* Flow out of cell (i,j,k), sum of (open u + closed u_solid) over its faces, m/s. */
static fsi_real fsi__outflow(const fsi_grid *grid, int i, int j, int k) {
    const ptrdiff_t nx = grid->nx, ny = grid->ny, c = i + nx * (j + ny * k);
    fsi_real sum = 0;
    for (int a = 0; a < grid->dim; a++) {
        const ptrdiff_t w = nx + (a == 0), height = ny + (a == 1),
                        step = a == 0   ? 1
                               : a == 1 ? nx
                                        : nx * ny;
        const int last = a == 0   ? grid->nx
                         : a == 1 ? grid->ny
                                  : grid->nz,
                  at = a == 0   ? i
                       : a == 1 ? j
                                : k;
        for (int up = 0; up < 2; up++) {
            /* the cell's own sample */
            const fsi_real *u = up || !grid->u_plus[a] ? grid->u[a] : grid->u_plus[a];
            const ptrdiff_t f = i + w * (j + height * k)
                                + (up ? (a == 0   ? 1
                                         : a == 1 ? w
                                                  : w * height)
                                      : 0);
            fsi_real v = u[f];
            if (at + up > 0 && at + up < last) {
                const fsi_real open =
                    fsi__open_at(grid, a, at + up, last, f, c + (up ? step : 0), step);
                v = open * v
                    + (1 - open)
                          * (grid->occlusion.velocity[a] ? grid->occlusion.velocity[a][f] : 0);
            }
            sum += up ? v : -v;
        }
    }
    return sum;
}

static void fsi__add_divergence_sources(const fsi_grid *grid, fsi_real *out, fsi_real scale) {
    for (int s = 0; s < grid->source_count; s++)
        if ((grid->source[s].set & FSI_SOURCE_DIVERGENCE)
            && fsi__source_active(grid, &grid->source[s]))
            fsi__source_fill(grid, &grid->source[s], 3, scale * grid->source[s].divergence, 1, out);
}

/* out = scale * outflow of every fluid cell, 0 elsewhere. */
static void fsi__all_outflow(const fsi_grid *grid, fsi_real scale, fsi_real *out) {
    ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    const size_t nx = (size_t)grid->nx, sy = nx, sz = nx * ((size_t)grid->ny + 1),
                 sz2 = nx * (size_t)grid->ny;
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % grid->ny), k = (int)(r / grid->ny);
        const uint8_t *cell = grid->cell + (size_t)r * nx;
        fsi_real *o = out + (size_t)r * nx;
        if (grid->occluded) {
            for (int i = 0; i < grid->nx; i++)
                o[i] = cell[i] == FSI_CELL_FLUID ? scale * fsi__outflow(grid, i, j, k) : 0;
        } else {
            const fsi_real *u = grid->u[0] + (size_t)r * (nx + 1),
                           *v = grid->u[1] + sy * (size_t)j + sz * (size_t)k;
            for (int i = 0; i < grid->nx; i++)
                o[i] = (u[i + 1] - u[i]) + (v[(size_t)i + sy] - v[i]);
            if (grid->dim == 3) {
                const fsi_real *w = grid->u[2] + (size_t)r * nx;
                for (int i = 0; i < grid->nx; i++)
                    o[i] += w[(size_t)i + sz2] - w[i];
            }
            for (int i = 0; i < grid->nx; i++)
                o[i] = cell[i] == FSI_CELL_FLUID ? scale * o[i] : 0;
        }
    }
}

FSI_API fsi_result fsi_grid_build_pressure(fsi_grid *grid, fsi_real dt) {
    fsi_grid *fluid = grid;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    double t0 = fsi__now(fluid);
    fsi__grid_walls(fluid, 1);
    if (!fluid->weights_are_one)
        for (int a = 0; a < fluid->dim; a++)
            fsi__build_weights(fluid, a);
    fluid->weights_are_one = !fluid->phi && !fluid->occluded;
    fsi_real scale = -fluid->desc.rho * fluid->h;
    fluid->noise = (4 + fsi__imax(fluid->nx, fsi__imax(fluid->ny, fluid->nz)))
                   * (double)FSI_REAL_EPS * (double)(-scale * fsi__max_speed(fluid, NULL))
                   * sqrt((double)fluid->cells);
    fsi__all_outflow(fluid, scale, fluid->rhs);
    fsi__add_divergence_sources(fluid, fluid->rhs, -scale * fluid->h);
    fluid->stats.seconds_project = fsi__now(fluid) - t0;
    return FSI_OK;
}

FSI_API fsi_result fsi_grid_solve_pressure(fsi_grid *grid, fsi_report *report) {
    fsi_grid *fluid = grid;
    fsi_result result = FSI_OK;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    double t0 = fsi__now(fluid);
    if (!fluid->weights_are_one || !fluid->mg_plain) {
        const fsi_real *w[3];
        w[0] = fluid->weight[0];
        w[1] = fluid->weight[1];
        w[2] = fluid->weight[2];
        result = fluid->weights_are_one ? fsi_mg_update(fluid->mg, NULL, NULL)
                                        : fsi_mg_update(fluid->mg, fluid->cell, w);
        if (result < 0)
            return result;
        fluid->mg_plain = fluid->weights_are_one;
    }
    fsi_mg_solve_desc desc;
    memset(&desc, 0, sizeof desc);
    desc.tolerance = fluid->desc.tolerance;
    desc.tolerance_abs = fluid->noise;
    desc.max_iterations = fluid->desc.max_iterations;
    desc.guess = 1;
    result = fsi_mg_solve(fluid->mg, &desc, fluid->rhs, fluid->pressure, report);
    if (result == FSI_EMPTY)
        result = FSI_OK; /* no liquid yet */
    fluid->stats.seconds_project += fsi__now(fluid) - t0;
    return result;
}

FSI_API fsi_result fsi_grid_apply_pressure(fsi_grid *grid) {
    fsi_grid *fluid = grid;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    double t0 = fsi__now(fluid);
    fsi_real scale = 1 / (fluid->desc.rho * fluid->h);
    for (int a = 0; a < fluid->dim; a++) {
        int n[3], m[3];
        const ptrdiff_t step = a == 0 ? 1 : a == 1 ? fluid->nx : (ptrdiff_t)fluid->nx * fluid->ny;
        const int plain = fluid->weights_are_one;
        fsi__family_size(fluid, a, n);
        fsi__family_size(fluid, 3, m);
        ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
        FSI__OMP(parallel for schedule(static) if (fluid->cells > 20000))
        for (ptrdiff_t r = 0; r < rows; r++) {
            int j = (int)(r % n[1]), k = (int)(r / n[1]);
            for (int i = 0; i < n[0]; i++) {
                const int at = a == 0 ? i : a == 1 ? j : k;
                const ptrdiff_t f = r * n[0] + i,
                                hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                                lo = hi - step;
                fsi_real w = fluid->weight[a][f], jump = (at < m[a] ? fluid->pressure[hi] : 0)
                                                         - (at > 0 ? fluid->pressure[lo] : 0);
                if (!(w > 0))
                    continue;
                if (!plain && (at == m[a] || fluid->cell[hi] != FSI_CELL_FLUID)
                    && (at == 0 || fluid->cell[lo] != FSI_CELL_FLUID))
                    continue;
                if (fluid->occluded)
                    w /= fsi__open_at(fluid, a, at, m[a], f, hi, step);
                fluid->u[a][f] -= w * scale * jump; /* u -= dt/rho grad p */
                if (fluid->u_plus[a])
                    fluid->u_plus[a][f] = fluid->u[a][f];
            }
        }
    }
    fsi__grid_walls(fluid, 1);
    fluid->stats.seconds_project += fsi__now(fluid) - t0;
    return FSI_OK;
}

FSI_API double fsi_grid_max_divergence(const fsi_grid *grid) {
    if (!grid || !grid->block)
        return 0;
    fsi_real *out = grid->scratch[0];
    fsi__all_outflow(grid, 1 / grid->h, out);
    fsi__add_divergence_sources(grid, out, -1);
    return (double)fsi_max_abs(grid->cells, out);
}

/* Sum over faces of rho V/2 per fluid neighbour times u^2 / 2. */
typedef struct fsi__energy {
    const fsi_grid *g;
    int a;
} fsi__energy;

static double fsi__energy_range(size_t begin, size_t end, void *user) {
    const fsi__energy *energy = (const fsi__energy *)user;
    const fsi_grid *grid = energy->g;
    const int a = energy->a;
    const fsi_real *plus = grid->u_plus[a] ? grid->u_plus[a] : grid->u[a];
    double sum = 0;
    int n[3], i = (int)(begin % (size_t)grid->nx),
              j = (int)(begin / (size_t)grid->nx % (size_t)grid->ny),
              k = (int)(begin / (size_t)grid->nx / (size_t)grid->ny);
    fsi__family_size(grid, a, n);
    size_t step = a == 0 ? 1 : a == 1 ? (size_t)n[0] : (size_t)n[0] * (size_t)n[1];
    for (size_t c = begin; c < end; c++) {
        size_t lo = fsi__at(n, i, j, k);
        double x = (double)plus[lo], y = (double)grid->u[a][lo + step];
        if (grid->cell[c] == FSI_CELL_FLUID)
            sum += x * x + y * y;
        if (++i == grid->nx) {
            i = 0;
            if (++j == grid->ny) {
                j = 0;
                k++;
            }
        }
    }
    return sum;
}

FSI_API double fsi_grid_kinetic_energy(const fsi_grid *grid) {
    double sum = 0;
    if (!grid || !grid->block)
        return 0;
    fsi__energy energy;
    energy.g = grid;
    for (energy.a = 0; energy.a < grid->dim; energy.a++)
        sum += fsi_reduce(grid->cells, fsi__energy_range, &energy);
    double v = (double)grid->h * (double)grid->h * (grid->dim == 3 ? (double)grid->h : 1);
    return 0.25 * (double)grid->desc.rho * v * sum;
}

/* ------------------------------------------------------------------------------------------------
   >>grid viscosity (1 - dt nu laplacian) u = u*, one component at a time, conjugate gradients.
   Marks of faces: */
enum {
    FSI__FREE = 0,
    FSI__PLAIN = 1 /* free, all neighbours free, constant nu */,
    FSI__FIXED = 2,
    FSI__BURIED = 3 /* inside a solid */,
    FSI__NONE = 4
};

typedef struct fsi__visc {
    const fsi_grid *g;
    int a, n[3];
    fsi_real k; /* dt / h^2 */
    const uint8_t *mark;
} fsi__visc;

static void fsi__visc_marks(fsi_grid *grid, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
    fsi__family_size(grid, a, n);
    fsi__family_size(grid, 3, m);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                int at = a == 0 ? i : a == 1 ? j : k, mark = FSI__FREE;
                ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                          lo = hi - step;
                int cl = at > 0 ? grid->cell[lo] : -1, ch = at < m[a] ? grid->cell[hi] : -1;
                int fluid = cl == FSI_CELL_FLUID || ch == FSI_CELL_FLUID;
                int solid =
                    (cl < 0 || cl == FSI_CELL_NEUMANN) && (ch < 0 || ch == FSI_CELL_NEUMANN);
                if (!fluid)
                    mark = solid && grid->desc.solid_noslip ? FSI__BURIED : FSI__NONE;
                else if (!(fsi__open(grid, a, i, j, k) > 0))
                    mark = FSI__FIXED;
                grid->mark[a][fsi__at(n, i, j, k)] = (uint8_t)mark;
            }
}

/* Viscosity between face (i,j,k) and its neighbour up/down along b. */
static fsi_real fsi__nu(const fsi__visc *visc, int i, int j, int k, int b, int up) {
    const fsi_real *nu = visc->g->desc.viscosity_cells;
    fsi_real sum = 0;
    int m[3];
    if (!nu)
        return visc->g->desc.viscosity;
    fsi__family_size(visc->g, 3, m);
    /* own axis: the cell between the faces; across: the four cells around the edge */
    for (int t = 0; t < 4; t++) {
        int c[3];
        c[0] = i;
        c[1] = j;
        c[2] = k;
        if (b == visc->a)
            c[b] -= !up;
        else {
            c[visc->a] -= t & 1;
            c[b] += (t >> 1) * (up ? 1 : -1);
        }
        c[0] = fsi__iclamp(c[0], 0, m[0] - 1);
        c[1] = fsi__iclamp(c[1], 0, m[1] - 1);
        c[2] = fsi__iclamp(c[2], 0, m[2] - 1);
        sum += FSI_R(0.25) * nu[fsi__at(m, c[0], c[1], c[2])];
    }
    return sum;
}

/* Link of a free face to its neighbour along b: coefficient (0 = none); *other = free neighbour, or
 * -1 and *value = the prescribed one. */
static fsi_real fsi__visc_link(const fsi__visc *visc, const fsi_real *u, int i, int j, int k, int b,
                               int up, ptrdiff_t *other, fsi_real *value) {
    const fsi_grid *grid = visc->g;
    int q[3];
    fsi_real nu = visc->k * fsi__nu(visc, i, j, k, b, up);
    q[0] = i;
    q[1] = j;
    q[2] = k;
    q[b] += up ? 1 : -1;
    *other = -1;
    *value = 0;
    if (q[b] < 0 || q[b] >= visc->n[b]) { /* outside the box */
        const fsi_grid_side *side = &grid->desc.side[2 * b + up];
        if (b == visc->a || (side->kind != FSI_SIDE_NOSLIP && side->kind != FSI_SIDE_INFLOW))
            return 0;
        *value = fsi__get(side->velocity, visc->a);
        return 2 * nu; /* the wall is half a cell away */
    }
    size_t at = fsi__at(visc->n, q[0], q[1], q[2]);
    switch (visc->mark[at]) {
    case FSI__FREE:
    case FSI__PLAIN:
        *other = (ptrdiff_t)at;
        return nu;
    case FSI__FIXED:
        if (b != visc->a && !grid->desc.solid_noslip && grid->occluded)
            return 0;
        *value = u[at];
        if (grid->occluded && q[visc->a] > 0 && q[visc->a] < visc->n[visc->a] - 1)
            *value = grid->occlusion.velocity[visc->a] ? grid->occlusion.velocity[visc->a][at] : 0;
        return nu;
    case FSI__BURIED:
        *value = grid->occlusion.velocity[visc->a] ? grid->occlusion.velocity[visc->a][at] : 0;
        return b == visc->a ? nu : 2 * nu;
    default:
        return 0;
    }
}

/* y = A x over a row range; diag: y = 1 / diagonal of A instead (the preconditioner). */
static void fsi__visc_rows(const fsi__visc *visc, const fsi_real *x, fsi_real *y, int diag) {
    const ptrdiff_t sy = visc->n[0], sz = sy * visc->n[1];
    const int dim = visc->g->dim;
    const fsi_real kn = visc->k * visc->g->desc.viscosity;
    ptrdiff_t rows = (ptrdiff_t)visc->n[1] * visc->n[2];
    FSI__OMP(parallel for schedule(static) if (rows * sy > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % visc->n[1]), k = (int)(r / visc->n[1]);
        for (int i = 0; i < visc->n[0]; i++) {
            const ptrdiff_t f = r * sy + i;
            fsi_real sum = 0, d = 1, value;
            ptrdiff_t other;
            if (visc->mark[f] == FSI__PLAIN) {
                sum = x[f - 1] + x[f + 1] + x[f - sy] + x[f + sy]
                      + (dim == 3 ? x[f - sz] + x[f + sz] : 0);
                d = 1 + (fsi_real)(2 * dim) * kn;
                sum *= kn;
            } else if (visc->mark[f] == FSI__FREE) {
                for (int b = 0; b < dim; b++)
                    for (int up = 0; up < 2; up++) {
                        fsi_real c = fsi__visc_link(visc, visc->g->u[visc->a], i, j, k, b, up,
                                                    &other, &value);
                        d += c;
                        if (other >= 0)
                            sum += c * x[other];
                    }
            }
            y[f] = diag ? x[f] / d : d * x[f] - sum;
        }
    }
}

static void fsi__visc_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi__visc_rows((const fsi__visc *)user, x, y, 0);
}

static void fsi__visc_jacobi(const fsi_real *x, fsi_real *y, void *user) {
    fsi__visc_rows((const fsi__visc *)user, x, y, 1);
}

/* rhs = u* plus what the prescribed neighbours add; also finds the plain faces. */
static void fsi__visc_rhs(fsi__visc *visc, uint8_t *mark, fsi_real *rhs) {
    const fsi_grid *grid = visc->g;
    const fsi_real *u = grid->u[visc->a];
    for (int k = 0; k < visc->n[2]; k++)
        for (int j = 0; j < visc->n[1]; j++)
            for (int i = 0; i < visc->n[0]; i++) {
                size_t f = fsi__at(visc->n, i, j, k);
                int plain = !grid->desc.viscosity_cells;
                rhs[f] = u[f];
                for (int b = 0; b < grid->dim && mark[f] == FSI__FREE; b++)
                    for (int up = 0; up < 2; up++) {
                        ptrdiff_t other;
                        fsi_real value, c = fsi__visc_link(visc, u, i, j, k, b, up, &other, &value);
                        if (other < 0) {
                            rhs[f] += c * value;
                            plain = 0;
                        }
                    }
                if (plain && mark[f] == FSI__FREE)
                    mark[f] = FSI__PLAIN;
            }
}

FSI_API fsi_result fsi_grid_viscosity(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_grid *fluid = grid;
    fsi_krylov_desc desc;
    fsi_result result = FSI_OK;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    if (!(fluid->desc.viscosity > 0) && !fluid->desc.viscosity_cells)
        return FSI_OK;
    fsi__grid_walls(fluid, 0);
    fluid->weights_are_one = 0; /* the weights' room is lent to the solver */
    fsi__visc visc;
    for (visc.a = 0; visc.a < fluid->dim; visc.a++) {
        fsi__visc_marks(fluid, visc.a);
        visc.g = fluid;
        visc.k = dt / (fluid->h * fluid->h);
        visc.mark = fluid->mark[visc.a];
        fsi__family_size(fluid, visc.a, visc.n);
        fsi__visc_rhs(&visc, fluid->mark[visc.a], fluid->rhs);
        memset(&desc, 0, sizeof desc);
        desc.n = fluid->faces[visc.a];
        desc.A.apply_fn = fsi__visc_apply;
        desc.A.user = &visc;
        desc.precondition.apply_fn = fsi__visc_jacobi;
        desc.precondition.user = &visc;
        desc.tolerance =
            (double)fsi__max((fsi_real)(0.01 * fluid->desc.tolerance), 20 * FSI_REAL_EPS);
        desc.max_iterations = 1000;
        desc.guess = 1;
        desc.allocator = fluid->desc.allocator;
        size_t room =
            (size_t)(fluid->scratch[3] - fluid->weight[0] + (fluid->scratch[1] - fluid->scratch[0]))
            * sizeof(fsi_real);
        size_t need = fsi_cg_work_size(&desc);
        fsi_result status_now =
            fsi_cg_solve(&desc, fluid->rhs, fluid->u[visc.a],
                         need <= room ? fluid->weight[0] : NULL, need <= room ? room : 0, report);
        if (status_now < 0)
            return status_now;
        if (status_now > 0 && result == FSI_OK)
            result = status_now;
    }
    fsi__grid_walls(fluid, 0);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid extrapolation */
/* Carries values outward layer by layer: a sample with mark 0 takes the mean of its neighbours that
 * have one. */
static void fsi__spread(const int *n, int dim, fsi_real *v, uint8_t *mark, int layers) {
    const ptrdiff_t step[3] = {1, n[0], (ptrdiff_t)n[0] * n[1]};
    for (int layer = 1; layer <= layers && layer < 250; layer++)
        for (int k = 0; k < n[2]; k++)
            for (int j = 0; j < n[1]; j++)
                for (int i = 0; i < n[0]; i++) {
                    ptrdiff_t f = (ptrdiff_t)fsi__at(n, i, j, k);
                    fsi_real sum = 0;
                    int count = 0, at[3];
                    if (mark[f])
                        continue;
                    at[0] = i;
                    at[1] = j;
                    at[2] = k;
                    for (int a = 0; a < dim; a++) {
                        if (at[a] > 0 && mark[f - step[a]] && mark[f - step[a]] <= layer) {
                            sum += v[f - step[a]];
                            count++;
                        }
                        if (at[a] < n[a] - 1 && mark[f + step[a]] && mark[f + step[a]] <= layer) {
                            sum += v[f + step[a]];
                            count++;
                        }
                    }
                    if (count) {
                        v[f] = sum / (fsi_real)count;
                        mark[f] = (uint8_t)(layer + 1);
                    }
                }
}

/* mark: 1 = known (beside a fluid cell), 2 = a wall of the box (liquid: left alone), 0 = to be
 * filled. */
static void fsi__velocity_marks(fsi_grid *grid, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? grid->nx : (ptrdiff_t)grid->nx * grid->ny;
    fsi__family_size(grid, a, n);
    fsi__family_size(grid, 3, m);
    ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % n[1]), k = (int)(r / n[1]);
        for (int i = 0; i < n[0]; i++) {
            const int at = a == 0 ? i : a == 1 ? j : k;
            const ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                            lo = hi - step;
            int fluid = (at > 0 && grid->cell[lo] == FSI_CELL_FLUID)
                        || (at < m[a] && grid->cell[hi] == FSI_CELL_FLUID);
            int wall = at == 0 || at == m[a] ? !fsi__side_open(grid, 2 * a + (at > 0))
                                             : fluid && !(grid->weight[a][r * n[0] + i] > 0);
            grid->mark[a][r * n[0] + i] = (uint8_t)(wall && grid->phi ? 2 : fluid || wall);
        }
    }
}

FSI_API fsi_result fsi_grid_extrapolate(fsi_grid *grid) {
    fsi_grid *fluid = grid;
    const uint8_t *valid[3];
    int n[3];
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fluid->phi && !(fluid->occluded && fluid->occlusion.solid))
        return FSI_OK;
    for (int a = 0; a < 3; a++)
        valid[a] = fluid->mark[a];
    for (int a = 0; a < fluid->dim; a++) {
        fsi__velocity_marks(fluid, a);
        fsi__family_size(fluid, a, n);
        if (!fluid->phi)
            fsi__spread(n, fluid->dim, fluid->u[a], fluid->mark[a], fluid->desc.extrapolate);
    }
    if (fluid->phi) {
        fsi_real *u[3];
        u[0] = fluid->u[0];
        u[1] = fluid->u[1];
        u[2] = fluid->u[2];
        fsi_levelset_extrapolate(&fluid->levelset, u, valid, fluid->desc.extrapolate);
    }
    fsi__family_size(fluid, 3, n);
    /* cells a solid uncovers start with sane values */
    for (int q = 0; q < 2 + fluid->desc.scalars && fluid->occluded && fluid->occlusion.solid; q++) {
        fsi_real *s = fsi__scalar(fluid, q, NULL);
        if (!s)
            continue;
        for (size_t c = 0; c < fluid->cells; c++)
            fluid->mark[0][c] = !fluid->occlusion.solid[c];
        fsi__spread(n, fluid->dim, s, fluid->mark[0], 3);
    }
    for (int a = 0; a < fluid->dim && fluid->u_plus[a]; a++)
        fsi__plus_equal(fluid, a, NULL);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid surface */
static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report);

/* What cell (i,j,k) can see beside it: number of cells across open faces (into seen), or -1 when no
   face of it is blocked. */
static int fsi__cells_seen(const fsi_grid *grid, int i, int j, int k, size_t *seen) {
    const fsi_occlusion *occlusion = &grid->occlusion;
    const int cells[3] = {grid->nx, grid->ny, grid->nz}, at[3] = {i, j, k};
    int count = 0, cut = 0;
    for (int axis = 0; axis < grid->dim; axis++)
        for (int up = 0; up < 2; up++) {
            int face[3] = {i, j, k}, beside[3] = {i, j, k}, faces[3];
            if (up ? at[axis] + 1 >= cells[axis] : at[axis] < 1)
                continue;
            face[axis] += up;
            beside[axis] += up ? 1 : -1;
            fsi__family_size(grid, axis, faces);
            size_t other = fsi__at(cells, beside[0], beside[1], beside[2]);
            if (occlusion->blocked[axis][fsi__at(faces, face[0], face[1], face[2])])
                cut = 1;
            else if (!occlusion->solid[other])
                seen[count++] = other;
        }
    return cut ? count : -1;
}

enum {
    FSI__LIQUID = 1, /* marks of cells before the surface moves */
    FSI__HELD = 2    /* beside a shell and among its own kind: stays liquid, or air */
};

/* Marks the cells beside thin shells that see only their own kind. */
static void fsi__hold_beside_shells(const fsi_grid *grid, uint8_t *mark) {
    FSI__OMP(parallel for schedule(static) if (grid->cells > 20000))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)grid->ny * grid->nz; r++)
        for (int i = 0; i < grid->nx; i++) {
            const ptrdiff_t c = r * grid->nx + i;
            const int liquid = grid->phi[c] < 0;
            size_t seen[6];
            int same = 1, count = -1;
            if (!grid->occlusion.solid[c])
                count = fsi__cells_seen(grid, i, (int)(r % grid->ny), (int)(r / grid->ny), seen);
            for (int m = 0; m < count; m++)
                same &= (grid->phi[seen[m]] < 0) == liquid;
            mark[c] = (uint8_t)((liquid ? FSI__LIQUID : 0) | (count >= 0 && same ? FSI__HELD : 0));
        }
}

/* What the other side of a shell put near 0 comes back to half a cell at least: all that a held
   cell sees is far from a surface. */
static void fsi__restore_held(fsi_grid *grid, const uint8_t *mark) {
    for (ptrdiff_t c = 0; c < (ptrdiff_t)grid->cells; c++) {
        const fsi_real sign = mark[c] & FSI__LIQUID ? FSI_R(-1.0) : FSI_R(1.0);
        if (!(mark[c] & FSI__HELD) || sign * grid->phi[c] >= grid->h / 2)
            continue;
        size_t seen[6];
        fsi_real depth = 0;
        const int row = (int)(c / grid->nx), i = (int)(c % grid->nx);
        int count = 0;
        if (!(sign * grid->phi[c] > 0))
            count = fsi__cells_seen(grid, i, row % grid->ny, row / grid->ny, seen);
        for (int m = 0; m < count; m++)
            if ((grid->phi[seen[m]] < 0) == (mark[c] & FSI__LIQUID))
                depth = fsi__max(depth, fsi__abs(grid->phi[seen[m]]));
        grid->phi[c] = sign * fsi__max(depth / 2, grid->h / 2);
    }
}

FSI_API fsi_result fsi_grid_move_surface(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_grid *fluid = grid;
    fsi_result result = FSI_OK;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    if (fluid->phi) {
        fsi_levelset_report lr;
        const fsi_real *u[3];
        int open[6];
        memset(&lr, 0, sizeof lr);
        fsi_levelset_walls walls;
        fsi__surface_walls(fluid, &walls, open);
        if (fluid->occluded) {
            fsi__mark_near(fluid, dt, 0);
            walls.near_cell = fluid->near_cell;
        }
        u[0] = fluid->u[0];
        u[1] = fluid->u[1];
        u[2] = fluid->u[2];
        const int held = fluid->occluded && fluid->occlusion.shells;
        if (held)
            fsi__hold_beside_shells(fluid, fluid->mark[0]);
        fluid->levelset.desc.settle = fsi_vec_dot(fluid->desc.gravity, fluid->desc.gravity) > 0;
        result = fsi_levelset_advance(&fluid->levelset, u, dt, &walls, &lr);
        if (result < 0)
            return result;
        if (fluid->desc.volume_correction)
            fsi__ls_correct_from(&fluid->levelset, walls.solid, FSI_R(0.1), lr.volume, &lr);
        fluid->stats.liquid_volume = lr.volume;
        if (report) {
            report->volume = lr.volume;
            report->volume_change = lr.volume_change;
        }
        if (held)
            fsi__restore_held(fluid, fluid->mark[0]);
    }
    fluid->time += (double)dt;
    fluid->steps++;
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid step */
static fsi_result fsi__worse(fsi_result result, fsi_result status_now) {
    return result < 0 ? result : status_now < 0 ? status_now : result > 0 ? result : status_now;
}

FSI_API fsi_result fsi_grid_step(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_grid *fluid = grid;
    fsi_report local, *rep = report ? report : &local;
    if (!fluid || !fluid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    memset(rep, 0, sizeof *rep);
    fsi_result result = fsi__check_callbacks(fluid); /* refuse before anything changed */
    if (result < 0)
        return result;
    result = fsi_grid_advect(fluid, dt); /* u, scalars -> transported by u */
    if (result < 0)
        return result;
    fsi_result worst = result = fsi_grid_forces(fluid, dt); /* u* */
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_classify(fluid));
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_viscosity(fluid, dt, NULL));
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_build_pressure(fluid, dt));
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_solve_pressure(fluid, rep));
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_apply_pressure(fluid));
    if (result >= 0 && report) {
        report->divergence = fsi_grid_max_divergence(fluid);
        fluid->stats.kinetic_energy = fsi_grid_kinetic_energy(fluid);
    }
    if (result >= 0)
        worst = fsi__worse(worst, result = fsi_grid_extrapolate(fluid));
    if (result >= 0)
        worst = fsi__worse(worst, fsi_grid_move_surface(fluid, dt, rep));
    if (worst == FSI_OK && fluid->stats.cfl > (double)fluid->desc.cfl)
        worst = FSI_DT_TOO_LARGE;
    rep->reason = worst;
    if (worst != FSI_OK)
        fsi_log(&fluid->desc.logger, worst < 0 ? 2 : 1, fsi_result_text(worst));
    return worst;
}

FSI_API fsi_result fsi_grid_advance(fsi_grid *grid, fsi_real dt, int max_steps, int *steps,
                                    fsi_report *report) {
    fsi_report local, *rep = report ? report : &local;
    fsi_result result = FSI_OK, worst = FSI_OK;
    fsi_real left = dt;
    int n = 0, iterations = 0;
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt) || max_steps < 0)
        return FSI_ERR_ARGUMENT;
    if (max_steps == 0)
        max_steps = 1000;
    while (left > 0 && result >= 0) {
        fsi_real part = fsi_grid_max_dt(grid);
        if (!(part > 0))
            return FSI_ERR_NUMERIC;
        /* equal parts rather than a crumb at the end */
        fsi_real pieces = fsi__ceil(left / part);
        part = n + 1 >= max_steps || pieces <= 1 ? left : left / pieces;
        if (n + 1 >= max_steps && pieces > 1)
            worst = fsi__worse(worst, FSI_CAPPED);
        result = fsi_grid_step(grid, part, rep);
        worst = fsi__worse(worst, result);
        iterations += rep->iterations;
        n++;
        left = part < left ? left - part : 0;
    }
    rep->iterations = iterations;
    if (steps)
        *steps = n;
    return worst;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid setters and state */
FSI_API fsi_result fsi_grid_set_velocity(fsi_grid *grid, fsi_vector_fn fn, void *user) {
    int n[3];
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fn)
        return FSI_ERR_ARGUMENT;
    for (int a = 0; a < grid->dim; a++) {
        fsi__family_size(grid, a, n);
        for (int k = 0; k < n[2]; k++)
            for (int j = 0; j < n[1]; j++)
                for (int i = 0; i < n[0]; i++) {
                    fsi_real v = fsi__get(fn(fsi_grid_face_centre(grid, a, i, j, k), 0, user), a);
                    if (!fsi__finite(v))
                        return FSI_ERR_CALLBACK;
                    grid->scratch[a][fsi__at(n, i, j, k)] = v;
                }
    }
    for (int a = 0; a < grid->dim; a++) {
        fsi_copy(grid->faces[a], grid->scratch[a], grid->u[a]);
        if (grid->u_plus[a])
            fsi_copy(grid->faces[a], grid->scratch[a], grid->u_plus[a]);
    }
    fsi__grid_walls(grid, 1);
    return FSI_OK;
}

FSI_API fsi_result fsi_grid_set_field(fsi_grid *grid, fsi_field field, fsi_scalar_fn fn,
                                      void *user) {
    fsi_real *out = fsi_grid_field(grid, field);
    size_t c = 0;
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fn || !out)
        return FSI_ERR_ARGUMENT;
    for (int k = 0; k < grid->nz; k++)
        for (int j = 0; j < grid->ny; j++)
            for (int i = 0; i < grid->nx; i++, c++) {
                grid->scratch[0][c] = fn(fsi_grid_cell_centre(grid, i, j, k), user);
                if (!fsi__finite(grid->scratch[0][c]))
                    return FSI_ERR_CALLBACK;
            }
    fsi_copy(grid->cells, grid->scratch[0], out);
    if (field == FSI_FIELD_PHI) {
        fsi_levelset_walls walls;
        int open[6];
        fsi__surface_walls(grid, &walls, open);
        fsi_result result = fsi_levelset_reset(&grid->levelset, &walls);
        return result < 0 ? result : fsi__worse(result, fsi_grid_classify(grid));
    }
    return FSI_OK;
}

FSI_API void fsi_grid_take_mean(fsi_grid *grid, size_t cell, int count, const size_t *from,
                                int with_phi) {
    for (int q = FSI_FIELD_DENSITY; count && q < FSI_FIELD_SCALAR + FSI_GRID_SCALARS; q++) {
        fsi_real *field = fsi_grid_field(grid, (fsi_field)q), sum = 0;
        if (!field || (q == FSI_FIELD_PHI && !with_phi))
            continue;
        for (int i = 0; i < count; i++)
            sum += field[from[i]];
        field[cell] = sum / (fsi_real)count;
    }
}

/* first 64 bytes of a saved block */
typedef struct fsi__grid_head {
    uint64_t bytes, levelset_bytes;
    double time;
    int64_t steps;
} fsi__grid_head;

FSI_API size_t fsi_grid_state_size(const fsi_grid *grid) {
    if (!grid || !grid->block)
        return 0;
    return 64 + grid->state_bytes + (grid->phi ? fsi_levelset_state_size(&grid->levelset) : 0);
}

FSI_API fsi_result fsi_grid_save(const fsi_grid *grid, void *block) {
    unsigned char *out = (unsigned char *)block;
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    memset(out, 0, 64);
    fsi__grid_head head;
    head.bytes = grid->state_bytes;
    head.levelset_bytes = grid->phi ? fsi_levelset_state_size(&grid->levelset) : 0;
    head.time = grid->time;
    head.steps = grid->steps;
    memcpy(out, &head, sizeof head);
    memcpy(out + 64, grid->state, grid->state_bytes);
    if (grid->phi)
        fsi_levelset_save(&grid->levelset, out + 64 + grid->state_bytes);
    return FSI_OK;
}

FSI_API fsi_result fsi_grid_restore(fsi_grid *grid, const void *block) {
    const unsigned char *in = (const unsigned char *)block;
    fsi_result result = FSI_OK;
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!block)
        return FSI_ERR_ARGUMENT;
    fsi__grid_head head;
    memcpy(&head, in, sizeof head);
    if (head.bytes != grid->state_bytes
        || head.levelset_bytes != (grid->phi ? fsi_levelset_state_size(&grid->levelset) : 0))
        return FSI_ERR_SIZE;
    if (grid->phi)
        result = fsi_levelset_restore(&grid->levelset, in + 64 + grid->state_bytes);
    if (result < 0)
        return result;
    memcpy(grid->state, in + 64, grid->state_bytes);
    grid->time = head.time;
    grid->steps = head.steps;
    return fsi_grid_classify(grid);
}

FSI_API size_t fsi_grid_memory(const fsi_grid *grid) {
    return grid && grid->block ? grid->block_size + grid->mg->bytes + grid->levelset.block_size : 0;
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset */
/* Particle level set (Enright et al. 2002) on cell centres.
   phi   signed distance, < 0 in the liquid       s, r  sign and radius of a marker (stored as s r)
   g     lattice coordinate x / h - 1/2           band  cells in which phi is a distance
   A step: markers and phi move, escaped markers repair phi, phi is redistanced, repaired again,
   radii are renewed. */
#define FSI__LS_RMIN FSI_R(0.1) /* smallest and largest marker radius, cells */
#define FSI__LS_RMAX FSI_R(0.5)
#define FSI__LS_BEND                                                                               \
    FSI_R(0.3) /* phi bends this much over two cells, relative to its slope: a corner */
#define FSI__LS_AIR                                                                                \
    FSI_R(0.5) /* air markers deeper in the liquid, cells, are dropped: the gap they marked has    \
                  closed */
#define FSI__LS_SEED FSI_R(3.0) /* markers live this close to the surface, cells */

/* Four weights of a sample at lattice coordinate g on n samples, on indices i .. i+3 clamped to the
   lattice, and their derivatives. Cubic (Catmull-Rom) where four samples are there, else linear,
   continued to half a cell outside. */
typedef struct fsi__ls_axis {
    int i[4];
    fsi_real w[4], d[4];
} fsi__ls_axis;

static fsi__ls_axis fsi__ls_weights(fsi_real g, int n) {
    fsi__ls_axis axis;
    int b = fsi__iclamp((int)g, 0, fsi__imax(n - 2, 0)); /* g > -1 */
    fsi_real t = n > 1 ? g - (fsi_real)b : 0, s = 1 - t;
    for (int m = 0; m < 4; m++)
        axis.i[m] = fsi__iclamp(b - 1 + m, 0, n - 1);
    if (b > 0 && b < n - 2) {
        axis.w[0] = -t * s * s / 2;
        axis.w[3] = -s * t * t / 2;
        axis.w[1] = s * (1 + t - FSI_R(1.5) * t * t);
        axis.w[2] = t * (1 + s - FSI_R(1.5) * s * s);
        axis.d[0] = -s * (s - 2 * t) / 2;
        axis.d[3] = t * (t - 2 * s) / 2;
        axis.d[1] = t * (FSI_R(4.5) * t - 5);
        axis.d[2] = -s * (FSI_R(4.5) * s - 5);
    } else {
        axis.w[0] = axis.w[3] = axis.d[0] = axis.d[3] = 0;
        axis.w[1] = s;
        axis.w[2] = n > 1 ? t : 0;
        axis.d[1] = n > 1 ? FSI_R(-1.0) : 0;
        axis.d[2] = n > 1 ? FSI_R(1.0) : 0;
    }
    return axis;
}

/* phi at lattice point g by cubics (linear along an axis next to its ends); gradient per cell if
 * asked for. limit: not beyond the samples around it. */
static fsi_real fsi__ls_cubic(const fsi_levelset *ls, fsi_vec3 g, int limit, fsi_vec3 *gradient) {
    int nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz;
    fsi__ls_axis X = fsi__ls_weights(g.x, nx), Y = fsi__ls_weights(g.y, ny),
                 Z = fsi__ls_weights(g.z, nz);
    fsi_real v = 0, lo = FSI_REAL_MAX, hi = -FSI_REAL_MAX, dx = 0, dy = 0, dz = 0;
    const int k0 = nz > 1 ? 0 : 1, k1 = nz > 1 ? 4 : 2;
    for (int k = k0; k < k1; k++)
        for (int j = 0; j < 4; j++) {
            const fsi_real *row =
                ls->phi + (size_t)nx * ((size_t)Y.i[j] + (size_t)ny * (size_t)Z.i[k]);
            fsi_real a = 0, b = 0, yz = Y.w[j] * Z.w[k];
            for (int i = 0; i < 4; i++)
                a += X.w[i] * row[X.i[i]];
            v += a * yz;
            if (gradient) {
                for (int i = 0; i < 4; i++)
                    b += X.d[i] * row[X.i[i]];
                dx += b * yz;
                dy += a * Y.d[j] * Z.w[k];
                dz += a * Y.w[j] * Z.d[k];
            }
            if (limit && (j == 1 || j == 2) && (k == 1 || k == 2)) {
                lo = fsi__min(lo, fsi__min(row[X.i[1]], row[X.i[2]]));
                hi = fsi__max(hi, fsi__max(row[X.i[1]], row[X.i[2]]));
            }
        }
    if (gradient)
        *gradient = fsi_vec(dx, dy, dz);
    return limit ? fsi__clamp(v, lo, hi) : v;
}

/* Lattice coordinates of a world point, clipped to the box. */
FSI__FLAT fsi_vec3 fsi__ls_lattice(const fsi_levelset *ls, fsi_vec3 x) {
    const fsi_levelset_desc *desc = &ls->desc;
    fsi_real s = 1 / desc->h, half = FSI_R(0.5);
    return fsi_vec(fsi__clamp((x.x - desc->origin.x) * s - half, -half, (fsi_real)desc->nx - half),
                   fsi__clamp((x.y - desc->origin.y) * s - half, -half, (fsi_real)desc->ny - half),
                   desc->nz > 1 ? fsi__clamp((x.z - desc->origin.z) * s - half, -half,
                                             (fsi_real)desc->nz - half)
                                : 0);
}

/* phi at a lattice point, linear, continued to half a cell outside; its gradient per cell if asked
 * for. */
FSI__FLAT fsi_real fsi__ls_linear(const fsi_levelset *ls, fsi_vec3 g, fsi_vec3 *gradient) {
    const int nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz, three = nz > 1;
    const int i = fsi__iclamp((int)g.x, 0, nx - 2), j = fsi__iclamp((int)g.y, 0, ny - 2),
              k = three ? fsi__iclamp((int)g.z, 0, nz - 2) : 0;
    const size_t sy = (size_t)nx, sz = sy * (size_t)ny;
    const fsi_real *p = ls->phi + ((size_t)i + sy * (size_t)j + sz * (size_t)k),
                   *q = three ? p + sz : p;
    const fsi_real fx = g.x - (fsi_real)i, fy = g.y - (fsi_real)j,
                   fz = three ? g.z - (fsi_real)k : 0;
    if (gradient) {
        const fsi_real a = fsi__mix(p[0], q[0], fz), b = fsi__mix(p[1], q[1], fz),
                       c = fsi__mix(p[sy], q[sy], fz), d = fsi__mix(p[sy + 1], q[sy + 1], fz);
        *gradient = fsi_vec(fsi__mix(b - a, d - c, fy), fsi__mix(c - a, d - b, fx),
                            fsi__mix(fsi__mix(q[0] - p[0], q[1] - p[1], fx),
                                     fsi__mix(q[sy] - p[sy], q[sy + 1] - p[sy + 1], fx), fy));
    }
    return fsi__corner_mix(p, sy, sz, fx, fy, fz, three);
}

static fsi_real fsi__ls_phi(const fsi_levelset *ls, fsi_vec3 x) {
    return fsi__ls_linear(ls, fsi__ls_lattice(ls, x), NULL);
}

FSI_API fsi_real fsi_levelset_sample(const fsi_levelset *ls, fsi_vec3 x, fsi_vec3 *gradient) {
    fsi_real v = fsi__ls_linear(ls, fsi__ls_lattice(ls, x), gradient);
    if (gradient)
        *gradient = fsi_vec_scale(*gradient, 1 / ls->desc.h);
    return v;
}

/* Velocity at lattice point g (cell centres): linear on the faces of each component, constant
 * beyond the outermost ones. */
FSI__FLAT fsi_vec3 fsi__ls_velocity(const fsi__mac *mac, fsi_vec3 g) {
    const fsi_real half = FSI_R(0.5);
    fsi_vec3 v;
    if (mac->three)
        fsi__mac_at(mac, 1, g.x + half, g.y + half, g.z + half, &v.x, &v.y, &v.z);
    else
        fsi__mac_at(mac, 0, g.x + half, g.y + half, half, &v.x, &v.y, &v.z);
    return v;
}

static fsi__mac fsi__ls_mac(const fsi_levelset *ls, const fsi_real *const u[3]) {
    fsi__mac mac;
    mac.u[0] = u[0];
    mac.u[1] = u[1];
    mac.u[2] = u[2];
    mac.n[0] = ls->desc.nx;
    mac.n[1] = ls->desc.ny;
    mac.n[2] = ls->desc.nz;
    mac.three = ls->desc.nz > 1;
    return mac;
}

/* At the centre of cell (i,j,k): the means of its faces. */
FSI__FLAT fsi_vec3 fsi__ls_centre_velocity(const fsi__mac *mac, ptrdiff_t i, ptrdiff_t j,
                                           ptrdiff_t k) {
    const ptrdiff_t nx = mac->n[0], ny = mac->n[1];
    const fsi_real *u = mac->u[0] + i + (nx + 1) * (j + ny * k),
                   *v = mac->u[1] + i + nx * (j + (ny + 1) * k),
                   *w = mac->three ? mac->u[2] + i + nx * (j + ny * k) : NULL;
    return fsi_vec(FSI_R(0.5) * (u[0] + u[1]), FSI_R(0.5) * (v[0] + v[nx]),
                   w ? FSI_R(0.5) * (w[0] + w[nx * ny]) : 0);
}

/* Where lattice point g with velocity v comes to in dt / h (negative: comes from): the midpoint
 * rule. */
FSI__FLAT fsi_vec3 fsi__ls_trace(const fsi__mac *mac, fsi_vec3 g, fsi_vec3 v, fsi_real dth) {
    return fsi_vec_mad(g, fsi__ls_velocity(mac, fsi_vec_mad(g, v, dth / 2)), dth);
}

FSI__FLAT fsi_vec3 fsi__ls_world(const fsi_levelset *ls, fsi_vec3 g) {
    fsi_real h = ls->desc.h, half = FSI_R(0.5);
    return fsi_vec(ls->desc.origin.x + (g.x + half) * h, ls->desc.origin.y + (g.y + half) * h,
                   ls->desc.nz > 1 ? ls->desc.origin.z + (g.z + half) * h : 0);
}

/* Cell of a lattice point inside the box. */
FSI__FLAT size_t fsi__ls_cell(const fsi_levelset *ls, fsi_vec3 g) {
    int nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz;
    int i = fsi__iclamp((int)(g.x + FSI_R(0.5)), 0, nx - 1),
        j = fsi__iclamp((int)(g.y + FSI_R(0.5)), 0, ny - 1);
    int k = nz > 1 ? fsi__iclamp((int)(g.z + FSI_R(0.5)), 0, nz - 1) : 0;
    return (size_t)i + (size_t)nx * ((size_t)j + (size_t)ny * (size_t)k);
}

/* The way from a to b (lattice) ends at a solid; *out is how far b lies outside an open side to
   which the way leads, cells (negative: inside, by that much). Closed sides clip. */
FSI__FLAT fsi_vec3 fsi__ls_clip(const fsi_levelset *ls, const fsi_levelset_walls *walls, fsi_vec3 a,
                                fsi_vec3 b, fsi_real *out) {
    fsi_real p[3], from[3], lo = FSI_R(-0.5), far_off = FSI_R(-1e6);
    int n[3];
    if (walls && walls->clip_fn && (!walls->near_cell || walls->near_cell[fsi__ls_cell(ls, a)])) {
        fsi_vec3 x = walls->clip_fn(fsi__ls_world(ls, a), fsi__ls_world(ls, b), walls->user);
        fsi_real s = 1 / ls->desc.h;
        if (fsi__finite_vec(x)) {
            b = fsi_vec((x.x - ls->desc.origin.x) * s - FSI_R(0.5),
                        (x.y - ls->desc.origin.y) * s - FSI_R(0.5),
                        ls->desc.nz > 1 ? (x.z - ls->desc.origin.z) * s - FSI_R(0.5) : 0);
        }
    }
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    p[0] = b.x;
    p[1] = b.y;
    p[2] = b.z;
    from[0] = a.x;
    from[1] = a.y;
    from[2] = a.z;
    for (int m = 0; m < (n[2] > 1 ? 3 : 2); m++) {
        fsi_real hi = (fsi_real)n[m] + lo;
        if (walls && walls->open && p[m] < from[m] && walls->open[2 * m])
            far_off = fsi__max(far_off, lo - p[m]);
        if (walls && walls->open && p[m] > from[m] && walls->open[2 * m + 1])
            far_off = fsi__max(far_off, p[m] - hi);
        p[m] = fsi__clamp(p[m], lo, hi);
    }
    *out = far_off;
    return fsi_vec(p[0], p[1], n[2] > 1 ? p[2] : 0);
}

/* lattice coordinates of cell c */
static fsi_vec3 fsi__ls_centre(const fsi_levelset *ls, ptrdiff_t c) {
    ptrdiff_t nx = ls->desc.nx, ny = ls->desc.ny;
    return fsi_vec((fsi_real)(c % nx), (fsi_real)(c / nx % ny), (fsi_real)(c / (nx * ny)));
}

static void fsi__ls_place(fsi_levelset *ls, fsi_arena *arena) {
    size_t n = ls->cells, nx = (size_t)ls->desc.nx, ny = (size_t)ls->desc.ny,
           nz = (size_t)ls->desc.nz;
    size_t faces = (nx + 1) * ny * nz;
    if (nx * (ny + 1) * nz > faces)
        faces = nx * (ny + 1) * nz;
    if (nz > 1 && nx * ny * (nz + 1) > faces)
        faces = nx * ny * (nz + 1);
    ls->state = (fsi_levelset_state *)fsi_arena_take(arena, 1, sizeof *ls->state);
    ls->phi = (fsi_real *)fsi_arena_take(arena, n, sizeof *ls->phi);
    ls->px = (fsi_real *)fsi_arena_take(arena, ls->room, sizeof *ls->px);
    ls->py = (fsi_real *)fsi_arena_take(arena, ls->room, sizeof *ls->py);
    ls->pz = (fsi_real *)fsi_arena_take(arena, nz > 1 ? ls->room : 0, sizeof *ls->pz);
    ls->pr = (fsi_real *)fsi_arena_take(arena, ls->room, sizeof *ls->pr);
    ls->state_size = arena->used;
    for (size_t m = 0; m < 2; m++)
        ls->work[m] = (fsi_real *)fsi_arena_take(arena, n, sizeof(fsi_real));
    ls->heap = (int32_t *)fsi_arena_take(arena, faces, sizeof *ls->heap);
    ls->slot = (int32_t *)fsi_arena_take(arena, faces, sizeof *ls->slot);
    ls->mark = (uint8_t *)fsi_arena_take(arena, faces, 1);
    ls->pmark = (uint8_t *)fsi_arena_take(arena, ls->room, 1);
}

static fsi_result fsi__ls_resolve(fsi_levelset *ls, const fsi_levelset_desc *desc) {
    fsi_levelset_desc *given = &ls->desc;
    *given = *desc;
    if (given->nx < 2 || given->ny < 2 || given->nz < 1 || !fsi__finite(given->h) || !(given->h > 0)
        || !fsi__finite_vec(given->origin))
        return FSI_ERR_ARGUMENT;
    if (given->particles < -1 || given->particles > 8 || given->reseed < -1
        || given->redistance < -1 || given->band < 0 || !fsi_allocator_valid(&given->allocator))
        return FSI_ERR_ARGUMENT;
    size_t n;
    if (!fsi_size_mul((size_t)given->nx + 1, (size_t)given->ny + 1, &n)
        || !fsi_size_mul(n, (size_t)given->nz + 1, &n) || n > 0x7fffffffu)
        return FSI_ERR_SIZE;
    ls->cells = (size_t)given->nx * (size_t)given->ny * (size_t)given->nz;
    if (!given->particles)
        given->particles = given->nz > 1 ? 3 : 4;
    if (!given->reseed)
        given->reseed = 20;
    if (!given->redistance)
        given->redistance = 5;
    given->band = given->band ? fsi__imax(given->band, 5) : 8;
    size_t full = given->particles < 0 ? 0
                                       : (size_t)(given->particles * given->particles
                                                  * (given->nz > 1 ? given->particles : 1));
    if (given->particles < 0)
        given->particle_room = 0;
    else if (!given->particle_room)
        given->particle_room = full
                               * (ls->cells < 32768 ? ls->cells
                                  : given->nz > 1   ? ls->cells / 8 + 28672
                                                    : ls->cells / 2 + 16384);
    if (given->particle_room > 0x7fffffffu)
        return FSI_ERR_SIZE;
    ls->room = given->particle_room;
    return FSI_OK;
}

FSI_API fsi_result fsi_levelset_init(fsi_levelset *ls, const fsi_levelset_desc *desc) {
    if (!ls || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_levelset fresh;
    memset(&fresh, 0, sizeof fresh);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi_result result = fsi__ls_resolve(&fresh, desc);
    if (result != FSI_OK)
        return result;
    fsi__ls_place(&fresh, &arena);
    if (arena.failed)
        return FSI_ERR_SIZE;
    arena.size = fresh.block_size = arena.used;
    arena.base = (unsigned char *)fsi_alloc(&fresh.desc.allocator, arena.size);
    if (!arena.base)
        return FSI_ERR_MEMORY;
    fresh.block = arena.base;
    arena.used = 0;
    fsi__ls_place(&fresh, &arena);
    fresh.state->random = desc->seed;
    fsi_fill(fresh.cells, (fsi_real)fresh.desc.band * fresh.desc.h, fresh.phi);
    *ls = fresh;
    return FSI_OK;
}

FSI_API void fsi_levelset_free(fsi_levelset *ls) {
    if (!ls)
        return;
    fsi_free(&ls->desc.allocator, ls->block, ls->block_size);
    memset(ls, 0, sizeof *ls);
}

FSI_API size_t fsi_levelset_state_size(const fsi_levelset *ls) {
    return ls->state_size;
}

FSI_API void fsi_levelset_save(const fsi_levelset *ls, void *out) {
    memcpy(out, ls->block, ls->state_size);
}

FSI_API fsi_result fsi_levelset_restore(fsi_levelset *ls, const void *in) {
    if (!ls || !ls->block || !in)
        return FSI_ERR_ARGUMENT;
    fsi_levelset_state head;
    memcpy(&head, in, sizeof head);
    if (head.count > ls->room)
        return FSI_ERR_SIZE;
    memcpy(ls->block, in, ls->state_size);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>redistance */
/* Distances along the axes to the nearest change of sign, linear between samples: d[axis] in cells,
 * >= 2 where there is none. */
static void fsi__ls_crossings(const fsi_levelset *ls, ptrdiff_t c, fsi_real d[3]) {
    ptrdiff_t n[3], step[3], q = c;
    const fsi_real *phi = ls->phi;
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    for (int m = 0; m < 3; q /= n[m], m++) {
        ptrdiff_t i = q % n[m];
        d[m] = 2;
        for (int s = 0; s < 2; s++) {
            if (s ? i + 1 >= n[m] : i < 1)
                continue;
            fsi_real b = phi[c + (s ? step[m] : -step[m])];
            if ((phi[c] < 0) != (b < 0))
                d[m] = fsi__min(d[m], phi[c] / (phi[c] - b));
        }
    }
}

/* 1 when phi bends within less than about two cells at c or a neighbour of it across the surface: a
   corner or a film, where the cubic interpolant would move the surface. */
/* depth 0: c alone, 1: neighbours across the surface, 2: all */
static int fsi__ls_sharp(const fsi_levelset *ls, ptrdiff_t c, int depth) {
    ptrdiff_t n[3], step[3], q = c;
    const fsi_real *phi = ls->phi;
    fsi_real bend = 0, slope = 0;
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    for (int m = 0; m < 3; q /= n[m], m++) {
        ptrdiff_t i = q % n[m];
        fsi_real lo = i > 0 ? phi[c] - phi[c - step[m]] : 0,
                 hi = i + 1 < n[m] ? phi[c + step[m]] - phi[c] : 0;
        slope += fsi__max(lo * lo, hi * hi);
        if (i > 0 && i + 1 < n[m])
            bend = fsi__max(bend, fsi__abs(hi - lo));
        for (int s = 0; depth && s < 2; s++) {
            ptrdiff_t o = c + (s ? step[m] : -step[m]);
            if ((s ? i + 1 < n[m] : i > 0) && (depth == 2 || (phi[o] < 0) != (phi[c] < 0))
                && fsi__ls_sharp(ls, o, 0))
                return 1;
        }
    }
    return bend * bend > FSI__LS_BEND * FSI__LS_BEND * slope;
}

/* Distance in cells of cell c to the zero set of the cubic interpolant, by Chopp's iteration for
   the closest point (one part of the step goes down to the surface, the other one along it).
   Negative when it does not settle within two and a half cells. */
static fsi_real fsi__ls_closest(const fsi_levelset *ls, ptrdiff_t c) {
    fsi_vec3 x0 = fsi__ls_centre(ls, c), x = x0, g;
    fsi_real hs = 1 / ls->desc.h, move = 1;
    for (int m = 0; m < 6 && move > 16 * FSI_REAL_EPS * FSI_REAL_EPS; m++) {
        fsi_real f = fsi__ls_cubic(ls, x, 0, &g) * hs;
        g = fsi_vec_scale(g, hs);
        fsi_real gg = fsi_vec_dot(g, g);
        if (!(gg > FSI_R(0.01)))
            return -1;
        fsi_vec3 e = fsi_vec_sub(x0, x);
        fsi_vec3 to = fsi_vec_scale(g, -f / gg); /* down to the surface */
        /* x0 - x without its part along the normal */
        fsi_vec3 slide = fsi_vec_mad(e, g, -fsi_vec_dot(e, g) / gg);
        x = fsi_vec_add(x, fsi_vec_add(to, slide));
        e = fsi_vec_sub(x, x0);
        if (fsi_vec_dot(e, e) > FSI_R(6.25))
            return -1;
        move = fsi_vec_dot(to, to) + fsi_vec_dot(slide, slide);
    }
    return move < FSI_R(1e-8) ? fsi__length(fsi_vec_sub(x, x0)) : -1;
}

/* Distance of a cell next to the surface, in cells: the closest point where phi is smooth, else
   from the axis crossings: 1 / d^2 = sum 1 / d_i^2, exact for planes. */
static fsi_real fsi__ls_near(const fsi_levelset *ls, ptrdiff_t c) {
    fsi_real d[3], inv = 0;
    fsi__ls_crossings(ls, c, d);
    fsi_real least = fsi__min(d[0], fsi__min(d[1], d[2]));
    for (int m = 0; m < 3; m++)
        if (d[m] < 2)
            inv += 1 / fsi__max(d[m] * d[m], FSI_R(1e-24));
    fsi_real plane = 1 / fsi__sqrt(inv);
    fsi_real f = fsi__ls_sharp(ls, c, 1) ? FSI_R(-1.0) : fsi__ls_closest(ls, c);
    return f < 0 || f > least * FSI_R(1.05) + FSI_R(1e-3) || f < least * FSI_R(0.55) - FSI_R(0.02)
               ? plane
               : f;
}

/* mark[c] = 1 where phi changes its sign towards a neighbour: the cells next to the surface. */
static void fsi__ls_mark_near(fsi_levelset *ls) {
    const ptrdiff_t nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz, plane = nx * ny;
    FSI__OMP(parallel for schedule(static) if (ls->cells > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < ny * nz; r++) {
        const fsi_real *p = ls->phi + r * nx, *s = r % ny > 0 ? p - nx : p,
                       *n = r % ny < ny - 1 ? p + nx : p, *b = r >= ny ? p - plane : p,
                       *t = r < ny * (nz - 1) ? p + plane : p;
        uint8_t *mark = ls->mark + r * nx;
        for (ptrdiff_t i = 0; i < nx; i++) {
            const int in = p[i] < 0;
            mark[i] = (uint8_t)((in ^ (p[i > 0 ? i - 1 : i] < 0))
                                | (in ^ (p[i < nx - 1 ? i + 1 : i] < 0)) | (in ^ (s[i] < 0))
                                | (in ^ (n[i] < 0)) | (in ^ (b[i] < 0)) | (in ^ (t[i] < 0)));
        }
    }
}

/* Cells of the second ring: exact too where phi is smooth, so that the next call sees the same
 * cubic; negative: leave it to the marching. */
static fsi_real fsi__ls_second(const fsi_levelset *ls, ptrdiff_t c) {
    const ptrdiff_t nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz, plane = nx * ny,
                    i = c % nx, j = c / nx % ny, k = c / plane;
    const uint8_t *m = ls->mark + c;
    const int found = (i > 0 && m[-1]) || (i < nx - 1 && m[1]) || (j > 0 && m[-nx])
                      || (j < ny - 1 && m[nx]) || (k > 0 && m[-plane]) || (k < nz - 1 && m[plane]);
    return found && !fsi__ls_sharp(ls, c, 2) ? fsi__ls_closest(ls, c) : FSI_R(-1.0);
}

/* Binary heap of cells by distance (work[0]); slot[c] is the place in the heap, -1 never seen, -2
 * settled. */
static void fsi__ls_sift(fsi_levelset *ls, int at, int count) {
    const fsi_real *T = ls->work[0];
    int32_t *heap = ls->heap, *slot = ls->slot, c = heap[at];
    while (at > 0 && T[heap[(at - 1) / 2]] > T[c]) {
        heap[at] = heap[(at - 1) / 2];
        slot[heap[at]] = at;
        at = (at - 1) / 2;
    }
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && T[heap[child + 1]] < T[heap[child]])
            child++;
        if (!(T[heap[child]] < T[c]))
            break;
        heap[at] = heap[child];
        slot[heap[at]] = at;
        at = child;
    }
    heap[at] = c;
    slot[c] = at;
}

/* |grad T| = 1 at cell c from the settled neighbours on its own side, upwind (in cells). First
   order on purpose: then T depends continuously on the two exact rings, whatever the order of
   nearly equal distances, and a mirrored scene stays mirrored. */
static fsi_real fsi__ls_eikonal(const fsi_levelset *ls, ptrdiff_t c) {
    const fsi_real *T = ls->work[0], *phi = ls->phi;
    ptrdiff_t n[3], step[3], q = c;
    /* count T^2 - 2 sum T + square = 0 */
    fsi_real v[3], sum = 0, square = -1;
    int count = 0;
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    for (int m = 0; m < 3; q /= n[m], m++) {
        ptrdiff_t i = q % n[m];
        v[m] = FSI_REAL_MAX;
        for (int s = 0; s < 2; s++) {
            ptrdiff_t o = s ? step[m] : -step[m];
            if ((s ? i + 1 >= n[m] : i < 1) || ls->slot[c + o] != -2
                || (phi[c + o] < 0) != (phi[c] < 0))
                continue;
            v[m] = fsi__min(v[m], T[c + o]);
        }
    }
    fsi_real t;
    if (v[0] > v[1]) {
        t = v[0];
        v[0] = v[1];
        v[1] = t;
    }
    if (v[1] > v[2]) {
        t = v[1];
        v[1] = v[2];
        v[2] = t;
    }
    if (v[0] > v[1]) {
        t = v[0];
        v[0] = v[1];
        v[1] = t;
    }
    t = v[0] + 1;
    /* one axis after the other, as long as it lies below the result */
    for (int m = 0; m < 3 && v[m] < t; m++) {
        sum += v[m];
        square += v[m] * v[m];
        count++;
        fsi_real root = sum * sum - (fsi_real)count * square;
        t = root > 0 ? (sum + fsi__sqrt(root)) / (fsi_real)count : t;
    }
    return t;
}

/* Settles cells in the order of their distance until the band is filled. */
static void fsi__ls_march(fsi_levelset *ls, int count) {
    ptrdiff_t n[3], step[3];
    fsi_real limit = (fsi_real)ls->desc.band;
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    while (count > 0) {
        ptrdiff_t c = ls->heap[0], q = c;
        if (ls->work[0][c] >= limit)
            break;
        ls->heap[0] = ls->heap[--count];
        if (count) {
            ls->slot[ls->heap[0]] = 0;
            fsi__ls_sift(ls, 0, count);
        }
        ls->slot[c] = -2;
        for (int m = 0; m < 3; q /= n[m], m++)
            for (int s = 0; s < 2; s++) {
                ptrdiff_t i = q % n[m], o = c + (s ? step[m] : -step[m]);
                if ((s ? i + 1 >= n[m] : i < 1) || ls->slot[o] == -2 || ls->mark[o]
                    || (ls->phi[o] < 0) != (ls->phi[c] < 0))
                    continue;
                fsi_real t = fsi__ls_eikonal(ls, o);
                if (ls->slot[o] == -1) {
                    ls->heap[count] = (int32_t)o;
                    ls->slot[o] = count++;
                    ls->work[0][o] = t;
                } else if (t < ls->work[0][o])
                    ls->work[0][o] = t;
                else
                    continue;
                fsi__ls_sift(ls, ls->slot[o], count);
            }
    }
}

/* Liquid cells at an open side with the surface between their centre and the side: air that came in
   must not be forgotten before it reaches a centre. open as in fsi_levelset_walls. */
static void fsi__ls_side_films(fsi_levelset *ls, const int *open) {
    ptrdiff_t n[3], step[3];
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    for (int side = 0; side < (n[2] > 1 ? 6 : 4); side++)
        for (ptrdiff_t c = 0; open[side] && c < (ptrdiff_t)ls->cells; c++) {
            const int m = side / 2;
            const ptrdiff_t at = c / step[m] % n[m], in = side & 1 ? -step[m] : step[m];
            fsi_real v = ls->phi[c];
            if (at != (side & 1 ? n[m] - 1 : 0) || ls->mark[c])
                continue;
            fsi_real slope = ls->phi[c + in] - v;
            if (v < 0 && slope < 2 * v) {
                ls->work[0][c] = v / slope;
                ls->slot[c] = -3;
            }
        }
}

static void fsi__ls_redistance(fsi_levelset *ls, const int *open) {
    ptrdiff_t n = (ptrdiff_t)ls->cells;
    fsi_real *T = ls->work[0], h = ls->desc.h, band = (fsi_real)ls->desc.band;
    int count = 0;
    fsi__ls_mark_near(ls);
    FSI__OMP(parallel for schedule(dynamic, 512) if (n > FSI__GRAIN))
    for (ptrdiff_t c = 0; c < n; c++) {
        ls->slot[c] = -1;
        T[c] = band;
        if (ls->mark[c])
            T[c] = fsi__ls_near(ls, c);
        else if (fsi__abs(ls->phi[c]) < 8 * h) {
            fsi_real t = fsi__ls_second(ls, c);
            if (t >= FSI_R(0.1)) {
                T[c] = t;
                ls->slot[c] = -3;
            }
        }
    }
    if (open)
        fsi__ls_side_films(ls, open);
    /* near cells go through the heap too: settled in order, value fixed */
    for (ptrdiff_t c = 0; c < n; c++)
        if (ls->mark[c] || ls->slot[c] == -3) {
            ls->mark[c] = 1;
            ls->heap[count] = (int32_t)c;
            ls->slot[c] = count++;
            fsi__ls_sift(ls, count - 1, count);
        }
    fsi__ls_march(ls, count);
    FSI__OMP(parallel for schedule(static) if (n > FSI__GRAIN))
    for (ptrdiff_t c = 0; c < n; c++) {
        fsi_real t = fsi__min(T[c], band) * h;
        /* the sign never changes here */
        ls->phi[c] = ls->phi[c] < 0 ? -fsi__max(t, FSI_REAL_EPS * h) : t;
    }
}

FSI_API void fsi_levelset_redistance(fsi_levelset *ls) {
    fsi__ls_redistance(ls, NULL);
}

FSI_API void fsi_levelset_continue(fsi_levelset *ls, const uint8_t *solid) {
    ptrdiff_t n[3], step[3], left = 0, cells = (ptrdiff_t)ls->cells;
    uint8_t *known = ls->mark;
    /* solid cells not known yet */
    int32_t *list = ls->heap;
    if (!solid)
        return;
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    step[0] = 1;
    step[1] = n[0];
    step[2] = n[0] * n[1];
    for (ptrdiff_t c = 0; c < cells; c++) {
        known[c] = !solid[c];
        if (solid[c])
            list[left++] = (int32_t)c;
    }
    /* three layers: mean of what is known next to the cell */
    for (uint8_t pass = 1; pass < 4; pass++) {
        ptrdiff_t kept = 0;
        FSI__OMP(parallel for schedule(static) if (left > FSI__GRAIN))
        for (ptrdiff_t p = 0; p < left; p++) {
            ptrdiff_t at = list[p], q = at;
            fsi_real sum = 0, w = 0;
            for (int m = 0; m < 3; q /= n[m], m++) {
                if (q % n[m] > 0 && known[at - step[m]]) {
                    sum += ls->phi[at - step[m]];
                    w += 1;
                }
                if (q % n[m] + 1 < n[m] && known[at + step[m]]) {
                    sum += ls->phi[at + step[m]];
                    w += 1;
                }
            }
            if (w > 0)
                ls->work[0][at] = sum / w;
            ls->slot[p] = w > 0;
        }
        for (ptrdiff_t p = 0; p < left; p++) {
            if (ls->slot[p]) {
                ls->phi[list[p]] = ls->work[0][list[p]];
                known[list[p]] = 1;
            } else
                list[kept++] = list[p];
        }
        left = kept;
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>extrapolation */
/* step, cell: from face to face, from cell to cell */
typedef struct fsi__ls_faces {
    ptrdiff_t n[3], step[3], cell[3], count;
    int axis, dim;
} fsi__ls_faces;

static fsi__ls_faces fsi__ls_faces_of(const fsi_levelset *ls, int axis) {
    fsi__ls_faces faces;
    faces.n[0] = ls->desc.nx;
    faces.n[1] = ls->desc.ny;
    faces.n[2] = ls->desc.nz;
    faces.cell[0] = 1;
    faces.cell[1] = faces.n[0];
    faces.cell[2] = faces.n[0] * faces.n[1];
    faces.n[axis]++;
    faces.step[0] = 1;
    faces.step[1] = faces.n[0];
    faces.step[2] = faces.n[0] * faces.n[1];
    faces.count = faces.step[2] * faces.n[2];
    faces.axis = axis;
    faces.dim = ls->desc.nz > 1 ? 3 : 2;
    return faces;
}

/* Twice the mean of phi over the two cells of the face `place` along its axis, below cell c (one
 * cell at the border). */
FSI__INLINE fsi_real fsi__ls_face_phi(const fsi_real *phi, const fsi__ls_faces *faces, ptrdiff_t c,
                                      ptrdiff_t place) {
    const ptrdiff_t step = faces->cell[faces->axis];
    return phi[place > 0 ? c - step : c] + phi[place + 1 < faces->n[faces->axis] ? c : c - step];
}

/* The value neighbour o hands on to the next face in direction -step: constant, or (linear)
   continued by the smaller of the two slopes behind it where they agree in sign. A surface wave
   needs the slope: with constant values its frequency is off by k h / 3. */
static fsi_real fsi__ls_handed(const fsi_levelset *ls, const fsi_real *u, ptrdiff_t o,
                               ptrdiff_t step, ptrdiff_t behind) {
    if (behind < 2 || !ls->mark[o + step] || !ls->mark[o + 2 * step])
        return u[o];
    fsi_real a = u[o] - u[o + step];
    fsi_real b = u[o + step] - u[o + 2 * step];
    return a * b > 0 ? u[o] + (fsi__abs(a) < fsi__abs(b) ? a : b) : u[o];
}

/* n . grad u = 0 at a face, upwind in phi: the mean of the neighbours with lower phi, weighted by
   the drop. Returns 0 while one of them is not known yet; with force it takes what is known, and
   the plain mean where none of that lies lower. */
static int fsi__ls_extend(const fsi_levelset *ls, const fsi__ls_faces *faces, const fsi_real *u,
                          ptrdiff_t at, int force, fsi_real *out) {
    const fsi_real h = ls->desc.h;
    fsi_real wsum = 0, sum = 0, mean = 0;
    ptrdiff_t place[3];
    int count = 0, wait = 0;
    place[0] = at % faces->n[0];
    place[1] = at / faces->n[0] % faces->n[1];
    place[2] = at / faces->step[2];
    ptrdiff_t c = place[0] + faces->cell[1] * place[1] + faces->cell[2] * place[2];
    fsi_real here = fsi__ls_face_phi(ls->phi, faces, c, place[faces->axis]) / 2;
    for (int m = 0; m < faces->dim; m++) {
        /* smaller drops count as level */
        fsi_real best = FSI_R(1e-3) * h, v = 0, w = 0;
        int known = 1;
        for (int s = 0; s < 2; s++) {
            const ptrdiff_t i = place[m], step = s ? faces->step[m] : -faces->step[m],
                            o = at + step, turn = s ? 1 : -1;
            fsi_real from = 0;
            if ((s ? i + 1 >= faces->n[m] : i < 1) || ls->mark[o] == 2)
                continue;
            int is = ls->mark[o] == 1;
            if (is) {
                mean += u[o];
                count++;
                from = fsi__ls_handed(ls, u, o, step,
                                      here < 2 * h ? (s ? faces->n[m] - 2 - i : i - 1) : 0);
            } else if (force)
                continue;
            fsi_real drop = here
                            - fsi__ls_face_phi(ls->phi, faces, c + turn * faces->cell[m],
                                               place[faces->axis] + (m == faces->axis ? turn : 0))
                                  / 2;
            if (drop > best + FSI_R(1e-6) * h) {
                best = w = drop;
                v = from;
                known = is;
            }
            /* both sides alike: stays mirrored */
            else if (drop > best - FSI_R(1e-6) * h) {
                v = (v + from) / 2;
                known = known && is;
            }
        }
        wait |= !known;
        wsum += w;
        sum += w * v;
    }
    if (!count || (wait && !force) || (!(wsum > 0) && !force))
        return 0;
    *out = wsum > 0 ? sum / wsum : mean / (fsi_real)count;
    return 1;
}

/* mark: 1 known, 0 not, 2 not to be used; slot: 1 = to be filled. Faces that are not known are
 * zeroed. */
static void fsi__ls_mark_faces(fsi_levelset *ls, const fsi__ls_faces *faces, const uint8_t *given,
                               int layers, fsi_real *v) {
    const fsi_real reach = 2 * (fsi_real)layers * ls->desc.h;
    FSI__OMP(parallel for schedule(static) if (faces->count > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < faces->n[1] * faces->n[2]; r++) {
        ptrdiff_t to = r * faces->n[0],
                  c = faces->cell[1] * (r % faces->n[1]) + faces->cell[2] * (r / faces->n[1]);
        const ptrdiff_t across = faces->axis == 1 ? r % faces->n[1] : r / faces->n[1],
                        step = faces->cell[faces->axis];
        for (ptrdiff_t i = 0; i < faces->n[0]; i++, to++, c++) {
            const ptrdiff_t place = faces->axis == 0 ? i : across;
            const fsi_real far_off = fsi__ls_face_phi(ls->phi, faces, c, place);
            ls->mark[to] =
                given ? given[to]
                      : (uint8_t)((place > 0 && ls->phi[c - step] < 0)
                                  || (place + 1 < faces->n[faces->axis] && ls->phi[c] < 0));
            ls->slot[to] = ls->mark[to] == 0 && far_off < reach;
            if (ls->mark[to] == 0)
                v[to] = 0;
        }
    }
}

/* Faces to be filled with a known neighbour, into the heap. */
static int fsi__ls_front(fsi_levelset *ls, const fsi__ls_faces *faces) {
    int count = 0;
    FSI__OMP(parallel for schedule(static) if (faces->count > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < faces->n[1] * faces->n[2]; r++) {
        const ptrdiff_t j = r % faces->n[1], k = r / faces->n[1];
        ptrdiff_t o = r * faces->n[0];
        for (ptrdiff_t i = 0; i < faces->n[0]; i++, o++)
            if (ls->slot[o] == 1 && ls->mark[o] == 0
                && ((i > 0 && ls->mark[o - 1] == 1) || (i + 1 < faces->n[0] && ls->mark[o + 1] == 1)
                    || (j > 0 && ls->mark[o - faces->step[1]] == 1)
                    || (j + 1 < faces->n[1] && ls->mark[o + faces->step[1]] == 1)
                    || (k > 0 && ls->mark[o - faces->step[2]] == 1)
                    || (k + 1 < faces->n[2] && ls->mark[o + faces->step[2]] == 1)))
                ls->slot[o] = 2;
    }
    for (ptrdiff_t at = 0; at < faces->count; at++)
        if (ls->slot[at] == 2) {
            ls->slot[at] = 1;
            ls->heap[count++] = (int32_t)at;
        }
    return count;
}

/* Fills faces from a front outward. A round sees only what earlier ones made known; the next one
 * tries the neighbours of what this one made known. */
static void fsi__ls_fill(fsi_levelset *ls, const fsi__ls_faces *faces, fsi_real *u, int force) {
    /* the next front grows down from the end: known and unknown faces are not more than all */
    int32_t *list = ls->heap, *end = ls->heap + faces->count;
    int count = fsi__ls_front(ls, faces);
    while (count > 0) {
        int done = 0, next = 0;
        FSI__OMP(parallel for schedule(static) if (count > 1024))
        for (ptrdiff_t p = 0; p < count; p++)
            ls->slot[list[p]] = fsi__ls_extend(ls, faces, u, list[p], force, &u[list[p]]) ? 3 : 1;
        for (ptrdiff_t p = 0; p < count; p++)
            if (ls->slot[list[p]] == 3) {
                ls->mark[list[p]] = 1;
                list[done++] = list[p];
            }
        for (ptrdiff_t p = 0; p < done; p++) {
            const int32_t nx = (int32_t)faces->n[0], row = list[p] / nx,
                          place[3] = {list[p] % nx, row % (int32_t)faces->n[1],
                                      row / (int32_t)faces->n[1]};
            for (int m = 0; m < faces->dim; m++)
                for (int s = 0; s < 2; s++) {
                    const ptrdiff_t o = list[p] + (s ? faces->step[m] : -faces->step[m]);
                    if ((s ? place[m] + 1 >= faces->n[m] : place[m] < 1) || ls->mark[o]
                        || ls->slot[o] != 1)
                        continue;
                    ls->slot[o] = 2; /* is in the list */
                    end[-++next] = (int32_t)o;
                }
        }
        for (ptrdiff_t p = 0; p < next; p++)
            list[p] = end[-next + p];
        count = next;
    }
}

FSI_API void fsi_levelset_extrapolate(fsi_levelset *ls, fsi_real *const u[3],
                                      const uint8_t *const valid[3], int layers) {
    for (int axis = 0; axis < (ls->desc.nz > 1 ? 3 : 2); axis++) {
        fsi__ls_faces faces = fsi__ls_faces_of(ls, axis);
        fsi__ls_mark_faces(ls, &faces, valid ? valid[axis] : NULL, layers, u[axis]);
        fsi__ls_fill(ls, &faces, u[axis], 0);
        /* in nooks no order may be found */
        fsi__ls_fill(ls, &faces, u[axis], 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>liquid volume */
/* Part of the unit cube where a + m . x < 0, x in [-1/2, 1/2]^3 (Scardovelli and Zaleski 2000). */
static fsi_real fsi__ls_cut(fsi_real a, fsi_real m1, fsi_real m2, fsi_real m3) {
    m1 = fsi__abs(m1);
    m2 = fsi__abs(m2);
    m3 = fsi__abs(m3);
    fsi_real t;
    if (m1 > m2) {
        t = m1;
        m1 = m2;
        m2 = t;
    }
    if (m2 > m3) {
        t = m2;
        m2 = m3;
        m3 = t;
    }
    if (m1 > m2) {
        t = m1;
        m1 = m2;
        m2 = t;
    }
    fsi_real s = m1 + m2 + m3;
    if (!(s > 0) || 2 * fsi__abs(a) >= s)
        return a < 0 ? FSI_R(1.0) : FSI_R(0.0);
    m1 /= s;
    m2 /= s;
    m3 /= s;
    fsi_real q = FSI_R(0.5) - a / s;
    int flip = q > FSI_R(0.5);
    if (flip)
        q = 1 - q; /* q <= 1/2 from here */
    fsi_real m12 = m1 + m2;
    fsi_real v;
    if (q < m1)
        v = q * q * q / (6 * m1 * m2 * m3);
    else if (q < m2)
        v = q * (q - m1) / (2 * m2 * m3) + m1 * m1 / (6 * m2 * m3);
    else if (q < fsi__min(m12, m3))
        v = (q * q * (3 * m12 - q) + m1 * m1 * (m1 - 3 * q) + m2 * m2 * (m2 - 3 * q))
            / (6 * m1 * m2 * m3);
    else if (m12 <= m3)
        v = (2 * q - m12) / (2 * m3);
    else
        v = (q * q * (3 - 2 * q) + m1 * m1 * (m1 - 3 * q) + m2 * m2 * (m2 - 3 * q)
             + m3 * m3 * (m3 - 3 * q))
            / (6 * m1 * m2 * m3);
    return flip ? 1 - v : v;
}

/* The 3^3 samples around cell c, continued linearly beyond the box (2D: the middle layer three
 * times). */
static void fsi__ls_patch(const fsi_levelset *ls, ptrdiff_t c, fsi_real p[27]) {
    static const int stride[3] = {1, 3, 9};
    ptrdiff_t n[3], i[3], d[3];
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    i[0] = c % n[0];
    i[1] = c / n[0] % n[1];
    i[2] = c / (n[0] * n[1]);
    if (i[0] > 0 && i[0] + 1 < n[0] && i[1] > 0 && i[1] + 1 < n[1]
        && (n[2] == 1 || (i[2] > 0 && i[2] + 1 < n[2]))) {
        const ptrdiff_t up = n[2] > 1 ? n[0] * n[1] : 0;
        for (int at = 0; at < 9; at++)
            memcpy(p + 3 * at, ls->phi + c - 1 + (at % 3 - 1) * n[0] + (at / 3 - 1) * up,
                   3 * sizeof *p);
        return;
    }
    for (int at = 0; at < 27; at++) {
        d[0] = at % 3 - 1;
        d[1] = at / 3 % 3 - 1;
        d[2] = at / 9 - 1;
        for (int m = 0; m < 3; m++)
            d[m] = i[m] + d[m] < 0 ? 0 : i[m] + d[m] >= n[m] ? n[m] - 1 : i[m] + d[m];
        p[at] = ls->phi[d[0] + n[0] * (d[1] + n[1] * d[2])];
    }
    for (int m = 0; m < 3; m++)
        for (int e = 0; e < 2; e++)
            if (n[m] > 1 && (e ? i[m] + 1 >= n[m] : i[m] < 1))
                for (int at = 0; at < 27; at++)
                    if (at / stride[m] % 3 == 2 * e)
                        p[at] =
                            2 * p[at + (e ? -1 : 1) * stride[m]] - p[at + (e ? -2 : 2) * stride[m]];
}

/* Liquid part of the octant (2D: quarter) of a cell towards the corner sx, sy, sz of its patch p,
   values in cells: the plane that fits the linear interpolant there. */
static fsi_real fsi__ls_octant(const fsi_real *p, int sx, int sy, int sz, fsi_real bend) {
    const fsi_real w = FSI_R(0.75), e = FSI_R(0.25);
    const fsi_real v0 = p[13], v1 = p[13 + sx], v2 = p[13 + sy], v3 = p[13 + sx + sy],
                   v4 = p[13 + sz], v5 = p[13 + sx + sz], v6 = p[13 + sy + sz],
                   v7 = p[13 + sx + sy + sz];
    /* values at a quarter of the way, per axis */
    const fsi_real x0 = w * (w * v0 + e * v2) + e * (w * v4 + e * v6),
                   x1 = w * (w * v1 + e * v3) + e * (w * v5 + e * v7);
    const fsi_real y0 = w * (w * v0 + e * v1) + e * (w * v4 + e * v5),
                   y1 = w * (w * v2 + e * v3) + e * (w * v6 + e * v7);
    const fsi_real z0 = w * (w * v0 + e * v1) + e * (w * v2 + e * v3),
                   z1 = w * (w * v4 + e * v5) + e * (w * v6 + e * v7);
    return fsi__ls_cut(w * x0 + e * x1 - bend, (x1 - x0) / 2, (y1 - y0) / 2, (z1 - z0) / 2);
}

/* Liquid part of cell c with the surface moved outward by `by` (m): the sum over its 2^dim quarters
 * or octants. */
static fsi_real fsi__ls_fraction(const fsi_levelset *ls, ptrdiff_t c, fsi_real by) {
    fsi_real p[27], sum = 0, bend = 0, hs = 1 / ls->desc.h, f = (ls->phi[c] - by) * hs;
    int nq = ls->desc.nz > 1 ? 8 : 4;
    if (fsi__abs(f) > 2)
        return f < 0 ? FSI_R(1.0) : FSI_R(0.0);
    fsi__ls_patch(ls, c, p);
    fsi_real hi;
    fsi_real lo = hi = f;
    for (int q = 0; q < 27; q++) {
        p[q] = (p[q] - by) * hs;
        lo = fsi__min(lo, p[q]);
        hi = fsi__max(hi, p[q]);
    }
    /* bend is less than 0.04 */
    if (lo > FSI_R(0.1) || hi < FSI_R(-0.1))
        return f < 0 ? FSI_R(1.0) : FSI_R(0.0);
    /* a straight line through a bent phi is off by t (1 - t) phi'' / 2, t = 1/4 */
    for (int q = 0; q < 3; q++) {
        static const int stride[3] = {1, 3, 9};
        fsi_real b = p[13 + stride[q]] - 2 * p[13] + p[13 - stride[q]];
        /* not at corners and films */
        bend += b * fsi__max(0, 1 - 2 * fsi__abs(b)) * FSI_R(0.09375);
    }
    for (int q = 0; q < nq; q++)
        sum +=
            fsi__ls_octant(p, q & 1 ? 1 : -1, q & 2 ? 3 : -3, nq == 8 ? (q & 4 ? 9 : -9) : 0, bend);
    return sum / (fsi_real)nq;
}

typedef struct fsi__ls_sum {
    const fsi_levelset *ls;
    const uint8_t *solid;
    fsi_real *fraction, by;
} fsi__ls_sum;

static double fsi__ls_volume_range(size_t begin, size_t end, void *user) {
    const fsi__ls_sum *s = (const fsi__ls_sum *)user;
    double sum = 0;
    for (size_t c = begin; c < end; c++) {
        fsi_real f =
            s->solid && s->solid[c] ? FSI_R(0.0) : fsi__ls_fraction(s->ls, (ptrdiff_t)c, s->by);
        if (s->fraction)
            s->fraction[c] = f;
        sum += (double)f;
    }
    return sum;
}

/* Volume with the surface moved outward by `by`. */
static double fsi__ls_volume_at(const fsi_levelset *ls, const uint8_t *solid, fsi_real *fraction,
                                double by) {
    fsi__ls_sum sum;
    double h = (double)ls->desc.h;
    sum.ls = ls;
    sum.solid = solid;
    sum.fraction = fraction;
    sum.by = (fsi_real)by;
    return fsi_reduce(ls->cells, fsi__ls_volume_range, &sum) * h * h * (ls->desc.nz > 1 ? h : 1.0);
}

FSI_API double fsi_levelset_volume(const fsi_levelset *ls, const uint8_t *solid,
                                   fsi_real *fraction) {
    return fsi__ls_volume_at(ls, solid, fraction, 0);
}

/* Surface area by the number of cells within two of it: good enough to begin a secant with. */
static double fsi__ls_area(const fsi_levelset *ls, const uint8_t *solid) {
    size_t count = 0;
    double h = (double)ls->desc.h;
    for (size_t c = 0; c < ls->cells; c++)
        count += fsi__abs(ls->phi[c]) < 2 * ls->desc.h && !(solid && solid[c]);
    return (double)count / 4 * h * (ls->desc.nz > 1 ? h : 1);
}

/* Moves marker p outward along the normal by `by` (m), unless that leads into a solid cell. */
static void fsi__ls_shift_marker(fsi_levelset *ls, const uint8_t *solid, ptrdiff_t p, fsi_real by) {
    fsi_vec3 x = fsi_vec(ls->px[p], ls->py[p], ls->desc.nz > 1 ? ls->pz[p] : 0), normal;
    fsi__ls_linear(ls, fsi__ls_lattice(ls, x), &normal);
    fsi_vec3 g = fsi__ls_lattice(ls, fsi_vec_mad(x, fsi__unit(normal), by));
    if (solid && solid[fsi__ls_cell(ls, g)])
        return;
    x = fsi__ls_world(ls, g);
    ls->px[p] = x.x;
    ls->py[p] = x.y;
    if (ls->desc.nz > 1)
        ls->pz[p] = x.z;
}

/* The surface goes outward by this much (m), and its markers with it: left behind they would soon
   count as escaped and undo the shift. Where phi is clipped it stays. */
static void fsi__ls_shift(fsi_levelset *ls, const uint8_t *solid, double by) {
    ptrdiff_t n = (ptrdiff_t)ls->cells, count = (ptrdiff_t)ls->state->count;
    const fsi_real s = (fsi_real)by, end = (fsi_real)ls->desc.band * ls->desc.h;
    FSI__OMP(parallel for schedule(static) if (count > 1024))
    for (ptrdiff_t p = 0; p < count; p++)
        fsi__ls_shift_marker(ls, solid, p, s);
    FSI__OMP(parallel for schedule(static) if (n > FSI__GRAIN))
    for (ptrdiff_t c = 0; c < n; c++)
        if (fsi__abs(ls->phi[c]) < end)
            ls->phi[c] -= s;
}

FSI_API void fsi_grid_shift_phi(fsi_grid *grid, const int32_t *nearby) {
    const fsi_real end = (fsi_real)grid->levelset.desc.band * grid->h;
    for (size_t c = 0; c < grid->cells; c++)
        if (nearby[c] > 0 && fsi__abs(grid->phi[c]) < end)
            grid->phi[c] -= (fsi_real)grid->regions[nearby[c] - 1].shift;
}

FSI_API void fsi_grid_shift_markers(fsi_grid *grid, const int32_t *nearby) {
    fsi_levelset *ls = &grid->levelset;
    const uint8_t *solid = grid->occluded ? grid->occlusion.solid : NULL;
    for (ptrdiff_t p = 0; p < (ptrdiff_t)ls->state->count; p++) {
        fsi_vec3 x = fsi_vec(ls->px[p], ls->py[p], ls->desc.nz > 1 ? ls->pz[p] : 0);
        int32_t region = nearby[fsi__ls_cell(ls, fsi__ls_lattice(ls, x))] - 1;
        if (region >= 0)
            fsi__ls_shift_marker(ls, solid, p, (fsi_real)grid->regions[region].shift);
    }
}

FSI_API void fsi_levelset_keep_volume(fsi_levelset *ls, const uint8_t *solid) {
    ls->state->target = fsi_levelset_volume(ls, solid, NULL);
}

/* fsi_levelset_correct_volume from the present volume: secant steps; phi and markers move once, at
 * the end. */
static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report) {
    double v = first, h = (double)ls->desc.h, most = (double)limit * h, shift = 0,
           area = fsi__ls_area(ls, solid), target = ls->state->target;
    fsi_result result = area > 0 ? FSI_OK : FSI_EMPTY;
    for (int m = 0; m < 5 && result == FSI_OK && fabs(target - v) > 1e-9 * target; m++) {
        double step = (target - v) / area, last = v;
        if (fabs(shift + step) > most) {
            step = (step > 0 ? most : -most) - shift;
            result = FSI_CAPPED;
        }
        shift += step;
        v = fsi__ls_volume_at(ls, solid, NULL, shift);
        if (fabs(step) > 1e-12 * h && (v - last) / step > 0.1 * area)
            area = (v - last) / step;
    }
    if (fabs(shift) > 0)
        fsi__ls_shift(ls, solid, shift);
    if (report) {
        report->volume = v;
        report->volume_change = v - first;
        report->shift = shift;
    }
    return result;
}

FSI_API fsi_result fsi_levelset_correct_volume(fsi_levelset *ls, const uint8_t *solid,
                                               fsi_real limit, fsi_levelset_report *report) {
    if (!ls || !ls->block || !(limit > 0) || !fsi__finite(limit))
        return FSI_ERR_ARGUMENT;
    return fsi__ls_correct_from(ls, solid, limit, fsi_levelset_volume(ls, solid, NULL), report);
}

/* ------------------------------------------------------------------------------------------------
 * >>markers */
FSI__FLAT fsi_vec3 fsi__ls_marker(const fsi_levelset *ls, ptrdiff_t p) {
    return fsi_vec(ls->px[p], ls->py[p], ls->desc.nz > 1 ? ls->pz[p] : 0);
}

static void fsi__ls_markers_move(fsi_levelset *ls, const fsi_real *const u[3], fsi_real dt,
                                 const fsi_levelset_walls *walls) {
    ptrdiff_t n = (ptrdiff_t)ls->state->count;
    const fsi_real dth = dt / ls->desc.h;
    const fsi__mac mac = fsi__ls_mac(ls, u);
    FSI__OMP(parallel for schedule(static) if (n > 1024))
    for (ptrdiff_t p = 0; p < n; p++) {
        fsi_vec3 g = fsi__ls_lattice(ls, fsi__ls_marker(ls, p));
        fsi_real out;
        fsi_vec3 x = fsi__ls_clip(ls, walls, g,
                                  fsi__ls_trace(&mac, g, fsi__ls_velocity(&mac, g), dth), &out);
        ls->pmark[p] = out > 0 ? 2 : 0;
        if (walls && walls->solid && walls->solid[fsi__ls_cell(ls, x)])
            x = g;
        x = fsi__ls_world(ls, x);
        ls->px[p] = x.x;
        ls->py[p] = x.y;
        if (ls->desc.nz > 1)
            ls->pz[p] = x.z;
    }
}

/* Takes out the markers flagged 2; the others keep their order. */
static size_t fsi__ls_compact(fsi_levelset *ls) {
    size_t n = 0, count = ls->state->count;
    for (size_t p = 0; p < count; p++) {
        if (ls->pmark[p] == 2)
            continue;
        if (n != p) {
            ls->px[n] = ls->px[p];
            ls->py[n] = ls->py[p];
            ls->pr[n] = ls->pr[p];
            ls->pmark[n] = ls->pmark[p];
            if (ls->desc.nz > 1)
                ls->pz[n] = ls->pz[p];
        }
        n++;
    }
    ls->state->count = n;
    return count - n;
}

FSI_API void fsi_levelset_drop_markers(fsi_levelset *ls, const int8_t *cell, int bits) {
    for (ptrdiff_t p = 0; p < (ptrdiff_t)ls->state->count; p++) {
        size_t c = fsi__ls_cell(ls, fsi__ls_lattice(ls, fsi__ls_marker(ls, p)));
        ls->pmark[p] = cell[c] & bits ? 2 : 0;
    }
    fsi__ls_compact(ls);
}

/* One escaped marker: its ball on the cells around it. work[0] = phi+ (air wins), work[1] = phi-
 * (liquid wins). */
static void fsi__ls_ball(fsi_levelset *ls, ptrdiff_t p) {
    fsi_vec3 x = fsi__ls_marker(ls, p), g = fsi__ls_lattice(ls, x);
    int nx = ls->desc.nx, ny = ls->desc.ny, nz = ls->desc.nz;
    int i = (int)fsi__floor(g.x), j = (int)fsi__floor(g.y), k = nz > 1 ? (int)fsi__floor(g.z) : 0;
    for (int q = 0; q < (nz > 1 ? 8 : 4); q++) {
        int a = i + (q & 1), b = j + (q >> 1 & 1), e = k + (q >> 2);
        fsi_real r = fsi__abs(ls->pr[p]);
        if (a < 0 || b < 0 || e < 0 || a >= nx || b >= ny || e >= nz)
            continue;
        size_t c = (size_t)a + (size_t)nx * ((size_t)b + (size_t)ny * (size_t)e);
        fsi_real d = ls->desc.h
                     * fsi__length(fsi_vec_sub(g, fsi_vec((fsi_real)a, (fsi_real)b, (fsi_real)e)));
        /* phi_p = s (r - |x - x_p|) */
        if (ls->pr[p] > 0)
            ls->work[0][c] = fsi__max(ls->work[0][c], r - d);
        else
            ls->work[1][c] = fsi__min(ls->work[1][c], d - r);
    }
}

/* Escaped: on the wrong side by more than the radius. Air markers deep in the liquid do not count:
   where a closing gap is squeezed out (an impact on a wall) they would eat the liquid, a third of
   it in a second of splashing. Returns how many repaired phi. */
static size_t fsi__ls_repair(fsi_levelset *ls) {
    ptrdiff_t n = (ptrdiff_t)ls->state->count, cells = (ptrdiff_t)ls->cells;
    size_t escaped = 0;
    FSI__OMP(parallel for schedule(static) if (n > 1024))
    for (ptrdiff_t p = 0; p < n; p++) {
        fsi_real f = fsi__ls_phi(ls, fsi__ls_marker(ls, p)), r = ls->pr[p];
        ls->pmark[p] = r > 0 ? f < -r && f > -FSI__LS_AIR * ls->desc.h : f > -r;
    }
    for (ptrdiff_t p = 0; p < n; p++)
        escaped += ls->pmark[p];
    if (!escaped)
        return 0;
    fsi_copy(ls->cells, ls->phi, ls->work[0]);
    fsi_copy(ls->cells, ls->phi, ls->work[1]);
    for (ptrdiff_t p = 0; p < n; p++)
        if (ls->pmark[p])
            fsi__ls_ball(ls, p);
    FSI__OMP(parallel for schedule(static) if (cells > FSI__GRAIN))
    for (ptrdiff_t c = 0; c < cells; c++) {
        fsi_real plus = ls->work[0][c], minus = ls->work[1][c];
        /* the one nearer to the surface */
        ls->phi[c] = fsi__abs(plus) <= fsi__abs(minus) ? plus : minus;
    }
    return escaped;
}

/* New radii from the repaired phi. Flagged for deletion: far markers on their own side; air deep in
   the liquid; and with desc.settle all that are still escaped, for they mark what is smaller than a
   cell. They would bend phi step after step and, carried by a velocity continued from the surface,
   neither fall nor rise: the surface would never come to rest. */
static void fsi__ls_radii(fsi_levelset *ls) {
    ptrdiff_t n = (ptrdiff_t)ls->state->count;
    const fsi_real h = ls->desc.h;
    const int settle = ls->desc.settle;
    FSI__OMP(parallel for schedule(static) if (n > 1024))
    for (ptrdiff_t p = 0; p < n; p++) {
        fsi_real s = ls->pr[p] > 0 ? FSI_R(1.0) : FSI_R(-1.0),
                 f = s * fsi__ls_phi(ls, fsi__ls_marker(ls, p));
        ls->pr[p] = s * fsi__clamp(f, FSI__LS_RMIN * h, FSI__LS_RMAX * h);
        ls->pmark[p] = f > (FSI__LS_SEED + 1) * h
                               || (settle ? f < -FSI__LS_RMIN * h : s > 0 && f < -FSI__LS_AIR * h)
                           ? 2
                       : f < 0 ? 1
                               : 0;
    }
}

/* Nothing stands between two lattice points. */
static int fsi__ls_seen(const fsi_levelset *ls, const fsi_levelset_walls *walls, fsi_vec3 a,
                        fsi_vec3 b) {
    fsi_real out;
    return fsi__length(fsi_vec_sub(fsi__ls_clip(ls, walls, a, b, &out), b)) < FSI_R(1e-3);
}

/* A place g in cell c where phi is f may have a marker: the cell's centre sees it, and so does one
 * with the sign of f. Interpolated across a shell phi puts liquid on its dry side. */
static int fsi__ls_seed_valid(const fsi_levelset *ls, const fsi_levelset_walls *walls, ptrdiff_t c,
                              fsi_vec3 g, fsi_real f) {
    const ptrdiff_t nx = ls->desc.nx, ny = ls->desc.ny;
    int i = (int)fsi__floor(g.x), j = (int)fsi__floor(g.y),
        k = ls->desc.nz > 1 ? (int)fsi__floor(g.z) : 0;
    if (!walls || !walls->clip_fn || (walls->near_cell && !walls->near_cell[c]))
        return 1;
    if (!fsi__ls_seen(ls, walls, fsi__ls_centre(ls, c), g))
        return 0;
    for (int q = 0; q < (ls->desc.nz > 1 ? 8 : 4) && (f < 0) != (ls->phi[c] < 0); q++) {
        int a = i + (q & 1), b = j + (q >> 1 & 1), e = k + (q >> 2);
        if (a < 0 || b < 0 || e < 0 || a >= ls->desc.nx || b >= ls->desc.ny || e >= ls->desc.nz
            || (f < 0) != (ls->phi[a + nx * (b + ny * e)] < 0))
            continue;
        if (fsi__ls_seen(ls, walls, g, fsi_vec((fsi_real)a, (fsi_real)b, (fsi_real)e)))
            return 1;
    }
    return (f < 0) == (ls->phi[c] < 0);
}

/* Puts the markers of one cell: a full lattice of m^dim (jittered inside its boxes unless
 * desc.even), or `want` anywhere. Returns 0 when full. */
static int fsi__ls_seed_cell(fsi_levelset *ls, const fsi_levelset_walls *walls, ptrdiff_t c,
                             int want) {
    int m = ls->desc.particles, n = m * m * (ls->desc.nz > 1 ? m : 1);
    fsi_vec3 g = fsi__ls_centre(ls, c);
    uint64_t *rng = &ls->state->random;
    for (int q = 0; q < fsi__imin(want, n); q++) {
        size_t p = ls->state->count;
        fsi_real e[3], box = want < n ? FSI_R(1.0) : 1 / (fsi_real)m;
        int at[3];
        at[0] = q % m;
        at[1] = q / m % m;
        at[2] = q / (m * m);
        for (int a = 0; a < 3; a++) {
            fsi_real t = ls->desc.even ? FSI_R(0.5) : fsi__random_unit(rng);
            e[a] = (want < n ? t : ((fsi_real)at[a] + t) * box) - FSI_R(0.5);
        }
        if (p >= ls->room)
            return 0;
        fsi_vec3 x = fsi_vec_add(g, fsi_vec(e[0], e[1], ls->desc.nz > 1 ? e[2] : 0));
        fsi_real f = fsi__ls_phi(ls, fsi__ls_world(ls, x));
        if (!fsi__ls_seed_valid(ls, walls, c, x, f))
            continue;
        x = fsi__ls_world(ls, x);
        fsi_real r = fsi__clamp(fsi__abs(f), FSI__LS_RMIN * ls->desc.h, FSI__LS_RMAX * ls->desc.h);
        ls->px[p] = x.x;
        ls->py[p] = x.y;
        ls->pr[p] = f < 0 ? -r : r;
        ls->pmark[p] = 0;
        if (ls->desc.nz > 1)
            ls->pz[p] = x.z;
        ls->state->count++;
    }
    return 1;
}

/* Every cell near the surface gets its full number again: sparse cells are topped up, crowded ones
   (and sparse ones on an even lattice) are swept and seeded anew. Escaped markers (pmark 1, set by
   fsi__ls_radii) always stay. */
static void fsi__ls_reseed(fsi_levelset *ls, const fsi_levelset_walls *walls,
                           fsi_levelset_report *report) {
    const uint8_t *solid = walls ? walls->solid : NULL;
    int m = ls->desc.particles, full = m * m * (ls->desc.nz > 1 ? m : 1);
    ptrdiff_t n = (ptrdiff_t)ls->state->count, cells = (ptrdiff_t)ls->cells;
    int32_t *have = ls->slot;
    if (m < 1)
        return;
    for (ptrdiff_t c = 0; c < cells; c++)
        have[c] = 0;
    for (ptrdiff_t p = 0; p < n; p++)
        if (!ls->pmark[p])
            have[fsi__ls_cell(ls, fsi__ls_lattice(ls, fsi__ls_marker(ls, p)))]++;
    for (ptrdiff_t p = 0; p < n; p++) {
        int32_t *a = &have[fsi__ls_cell(ls, fsi__ls_lattice(ls, fsi__ls_marker(ls, p)))];
        if (!ls->pmark[p] && (*a > 2 * full || *a < 0 || (ls->desc.even && *a < full))) {
            ls->pmark[p] = 2;
            *a = -1;
        }
    }
    report->deleted += fsi__ls_compact(ls);
    n = (ptrdiff_t)ls->state->count;
    for (ptrdiff_t c = 0; c < cells; c++) {
        int want = have[c] < 0 ? full : full - have[c];
        if (want <= 0 || fsi__abs(ls->phi[c]) > FSI__LS_SEED * ls->desc.h || (solid && solid[c]))
            continue;
        if (!fsi__ls_seed_cell(ls, walls, c, want)) {
            report->room_full = 1;
            break;
        }
    }
    report->seeded += ls->state->count - (size_t)n;
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset steps */
/* mark[c] = 1 where the new phi may differ from the old one: within reach of a cell where phi is
 * not clipped, or of an open side. */
static void fsi__ls_mark_moving(fsi_levelset *ls, const fsi_levelset_walls *walls,
                                const int *reach) {
    const fsi_real end = (fsi_real)ls->desc.band * ls->desc.h;
    int n[3];
    n[0] = ls->desc.nx;
    n[1] = ls->desc.ny;
    n[2] = ls->desc.nz;
    FSI__OMP(parallel for schedule(static) if (ls->cells > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)n[1] * n[2]; r++) {
        const int *open = walls ? walls->open : NULL;
        const int j = (int)(r % n[1]), k = (int)(r / n[1]),
                  all = open
                        && ((open[2] && j == 0) || (open[3] && j == n[1] - 1) || (open[4] && k == 0)
                            || (open[5] && k == n[2] - 1));
        uint8_t *mark = ls->mark + r * n[0];
        for (int i = 0; i < n[0]; i++)
            mark[i] = (uint8_t)(all || fsi__abs(ls->phi[r * n[0] + i]) < end);
        if (open && open[0])
            mark[0] = 1;
        if (open && open[1])
            mark[n[0] - 1] = 1;
    }
    fsi__grow_all(ls->mark, n, reach);
}

static void fsi__ls_advect(fsi_levelset *ls, const fsi_real *const u[3], fsi_real dt,
                           const fsi_levelset_walls *walls, const int *reach) {
    const fsi_real h = ls->desc.h, dth = dt / h;
    const fsi__mac mac = fsi__ls_mac(ls, u);
    const int nx = mac.n[0], cubic = !ls->desc.linear;
    fsi__ls_mark_moving(ls, walls, reach);
    FSI__OMP(parallel for schedule(dynamic, 16) if (ls->cells > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)mac.n[1] * mac.n[2]; r++) {
        const int j = (int)(r % mac.n[1]), k = (int)(r / mac.n[1]);
        for (int i = 0; i < nx; i++) {
            const ptrdiff_t c = r * nx + i;
            const fsi_vec3 g = fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k);
            ls->work[0][c] = ls->phi[c];
            if (!ls->mark[c])
                continue;
            fsi_real out;
            fsi_vec3 x = fsi__ls_clip(
                ls, walls, g, fsi__ls_trace(&mac, g, fsi__ls_centre_velocity(&mac, i, j, k), -dth),
                &out);
            fsi_real v = fsi__ls_linear(ls, x, NULL);
            /* beyond the last centre: continued, not limited */
            if (cubic && fsi__abs(v) < 4 * h && out < FSI_R(-0.5))
                v = fsi__ls_cubic(ls, x, 1, NULL);
            /* what comes in from outside is air */
            ls->work[0][c] = fsi__max(v, out * h);
        }
    }
    fsi_copy(ls->cells, ls->work[0], ls->phi);
}

/* How many cells phi may be carried along each axis, stencil included. */
static fsi_result fsi__ls_find_reach(const fsi_levelset *ls, const fsi_real *const u[3],
                                     fsi_real dth, int *reach) {
    reach[2] = 0;
    for (int axis = 0; axis < (ls->desc.nz > 1 ? 3 : 2); axis++) {
        if (!u[axis])
            return FSI_ERR_ARGUMENT;
        fsi_real most = dth * fsi_max_abs((size_t)fsi__ls_faces_of(ls, axis).count, u[axis]);
        if (!fsi__finite(most))
            return FSI_ERR_NUMERIC;
        reach[axis] = most < FSI_R(1e6) ? 3 + (int)most : 1000000;
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_levelset_advance(fsi_levelset *ls, const fsi_real *const u[3], fsi_real dt,
                                        const fsi_levelset_walls *walls,
                                        fsi_levelset_report *report) {
    fsi_levelset_report own;
    const uint8_t *solid = walls ? walls->solid : NULL;
    int reach[3];
    memset(&own, 0, sizeof own);
    if (!ls || !ls->block || !u || !fsi__finite(dt) || dt < 0)
        return FSI_ERR_ARGUMENT;
    fsi_result result = fsi__ls_find_reach(ls, u, dt / ls->desc.h, reach);
    if (result != FSI_OK)
        return result;
    ls->state->steps++;
    fsi__ls_markers_move(ls, u, dt, walls);
    /* those that left through open sides */
    own.deleted = fsi__ls_compact(ls);
    fsi__ls_advect(ls, u, dt, walls, reach);
    own.escaped = fsi__ls_repair(ls);
    fsi_levelset_continue(ls, solid);
    if (ls->desc.redistance > 0 && ls->state->steps % ls->desc.redistance == 0) {
        fsi__ls_redistance(ls, walls ? walls->open : NULL);
        fsi__ls_repair(ls);
    }
    fsi__ls_radii(ls);
    if (ls->desc.reseed > 0 && ls->state->steps % ls->desc.reseed == 0)
        fsi__ls_reseed(ls, walls, &own);
    else if (ls->desc.settle)
        own.deleted += fsi__ls_compact(ls);
    own.markers = ls->state->count;
    own.volume = fsi_levelset_volume(ls, solid, NULL);
    if (report)
        *report = own;
    return own.room_full ? FSI_CAPPED : FSI_OK;
}

FSI_API fsi_result fsi_levelset_reset(fsi_levelset *ls, const fsi_levelset_walls *walls) {
    fsi_levelset_report report;
    const uint8_t *solid = walls ? walls->solid : NULL;
    memset(&report, 0, sizeof report);
    if (!ls || !ls->block)
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(ls->cells, ls->phi))
        return FSI_ERR_NUMERIC;
    fsi_levelset_continue(ls, solid);
    fsi_levelset_redistance(ls);
    ls->state->count = 0;
    fsi__ls_reseed(ls, walls, &report);
    fsi_levelset_keep_volume(ls, solid);
    return report.room_full ? FSI_CAPPED : FSI_OK;
}

FSI_API fsi_result fsi_levelset_shape(fsi_levelset *ls, fsi_shape_fn shape_fn, void *user, int add,
                                      const fsi_levelset_walls *walls) {
    const uint8_t *solid = walls ? walls->solid : NULL;
    if (!ls || !ls->block || !shape_fn)
        return FSI_ERR_ARGUMENT;
    fsi_levelset_report report;
    memset(&report, 0, sizeof report);
    ptrdiff_t n = (ptrdiff_t)ls->cells;
    double before = fsi_levelset_volume(ls, solid, NULL);
    for (ptrdiff_t c = 0; c < n; c++) {
        ls->work[1][c] = shape_fn(fsi__ls_world(ls, fsi__ls_centre(ls, c)), user);
        if (!fsi__finite(ls->work[1][c]))
            return FSI_ERR_CALLBACK;
    }
    for (ptrdiff_t c = 0; c < n; c++)
        ls->phi[c] =
            add ? fsi__min(ls->phi[c], ls->work[1][c]) : fsi__max(ls->phi[c], -ls->work[1][c]);
    fsi_levelset_redistance(ls);
    /* markers that now mark the wrong thing go */
    for (ptrdiff_t c = 0; c < (ptrdiff_t)ls->state->count; c++) {
        fsi_real f = fsi__ls_phi(ls, fsi__ls_marker(ls, c));
        ls->pmark[c] = (f < 0) != (ls->pr[c] < 0) ? 2 : 0;
    }
    fsi__ls_compact(ls);
    fsi__ls_reseed(ls, walls, &report);
    ls->state->target += fsi_levelset_volume(ls, solid, NULL) - before;
    return report.room_full ? FSI_CAPPED : FSI_OK;
}

#ifdef __cplusplus
}
#endif
#endif /* FSI_GRID_IMPLEMENTATION */

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
