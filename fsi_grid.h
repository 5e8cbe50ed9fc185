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
      advised length.
        fsi_grid_advect           the old velocity carries itself, smoke and scalars
        fsi_grid_forces           gravity, buoyancy, confinement, force_fn, sources: now u is u*
        fsi_grid_classify         cell[]: fluid, air, solid; air regions
        fsi_grid_viscosity        implicit, only if there is any
        fsi_grid_build_pressure   weight[], rhs[]     <- a coupling changes these, or solves itself
        fsi_grid_solve_pressure   A p^ = rhs
        fsi_grid_apply_pressure   u = u* - grad p^ / rho; closed faces take the solid's velocity
        fsi_grid_extrapolate      velocity into air and solids
        fsi_grid_move_surface     the liquid moves with the new velocity; time advances
      Faces beside solids keep their u* until build_pressure; the sides of the box are set in every
      stage.
   2. Solids. Fill an fsi_occlusion and call fsi_grid_set_occlusion (every step, if they move).
      Voxel walls: solid[] alone. Smooth ones: open[] too (a cell is then solid only when all of
      its faces are closed). Thin shells: blocked[]; with desc.shells the two sides of a blocked
      face keep their own velocity (u: cell on the minus side, u_plus: plus side). hit_fn makes
      sight exact.
   3. Liquid. desc.liquid = 1, then fsi_grid_set_field(FSI_FIELD_PHI) with a signed distance.
      The volume is kept, and report.volume_change says by how much the surface was off; what
      sources and open sides do is no drift. desc.volume_correction = -1 leaves it alone.
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
    /* [room] positions of the markers, m; the first state->count are alive. 2D: no marker_z */
    fsi_real *marker_x, *marker_y, *marker_z;

    /* [room] signed radius of the markers, m: > 0 marks air, < 0 marks liquid */
    fsi_real *marker_radius;

    /* private */
    fsi_real *next_phi;   /* [cells] phi in the making: advected, marched, where air wins */
    fsi_real *other_phi;  /* [cells] a second one: where liquid wins, a shape to be added */
    int32_t *heap, *slot; /* [most faces of an axis] scratch of the marching */
    uint8_t *mark;        /* [most faces of an axis] scratch flags */
    uint8_t *marker_flag; /* [room] scratch: 1 = escaped, 2 = to be deleted */
    /* [cells] share that is not solid, of the grid's occlusion; NULL: all of it */
    const fsi_real *free_share;
    void *block;       /* the one allocation */
    size_t block_size; /* bytes */
} fsi_levelset;

/* What keeps the liquid out. All members may be NULL or 0. */
typedef struct fsi_levelset_walls {
    /* [cells] not 0: no liquid in this cell; phi there only continues the surface */
    const uint8_t *solid;

    /* the last point of the way from -> to that is not behind a solid */
    fsi_vec3 (*clip_fn)(fsi_vec3 from, fsi_vec3 to, void *user);
    void *user; /* handed to clip_fn */
    /* [cells] 0: no way that begins in the cell meets a solid, clip_fn is not asked; NULL: any may
     */
    const uint8_t *near_cell;

    /* sides -x +x -y +y -z +z, not 0: markers may leave, and what flows in is air */
    int open[6];
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
FSI_API fsi_result fsi_levelset_advance(fsi_levelset *ls, const fsi_real *const u[3],
                                        const fsi_levelset_walls *walls, fsi_real dt,
                                        fsi_levelset_report *report);

/* Makes phi a signed distance; the surface stays where it is (near cells by closest points, the
 * rest by fast marching, second order). */
FSI_API void fsi_levelset_redistance(fsi_levelset *ls);

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

/* Bytes of the dynamic state; save copies it out, restore back in, see fsi_grid_restore. A restored
 * run continues bit for bit. */
FSI_API size_t fsi_levelset_state_size(const fsi_levelset *ls);
FSI_API fsi_result fsi_levelset_save(const fsi_levelset *ls, void *block);
FSI_API fsi_result fsi_levelset_restore(fsi_levelset *ls, const void *block, size_t size);

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

/* What a source prescribes in its region, once a step: the bits of fsi_grid_source.set. */
enum {
    FSI_SOURCE_VELOCITY = 1,
    FSI_SOURCE_DENSITY = 2,
    FSI_SOURCE_TEMPERATURE = 4,
    FSI_SOURCE_LIQUID = 8,      /* fill with liquid */
    FSI_SOURCE_DRAIN = 16,      /* take liquid away */
    FSI_SOURCE_DIVERGENCE = 32, /* make or take volume */
    FSI_SOURCE_SCALAR = 256     /* << i: user scalar i */
};

typedef enum fsi_source_shape {
    FSI_SOURCE_BOX = 0,
    FSI_SOURCE_SPHERE,
    FSI_SOURCE_CALLBACK
} fsi_source_shape;

/* Something that pours in or drains. */
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

    /* [cells] share of the cell that is not solid, for volumes; NULL: 1 where solid[] is 0 */
    const fsi_real *free_share;

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
    int (*hit_fn)(fsi_vec3 a, fsi_vec3 b, fsi_real *t, fsi_vec3 *normal, fsi_vec3 *velocity,
                  void *user);
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

    /* liquid: 0 = drift of the volume is corrected and reported, -1 = never. What sources and the
     * sides of the box give or take is no drift */
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

/* The grid. Sizes and numbers (2D: u[2] is NULL, and z = origin.z + h/2 everywhere):
     cells   cell (i, j, k) is i + nx (j + ny k), its centre origin + h (i+1/2, j+1/2, k+1/2)
     u[0]    (nx+1) ny nz faces, number i + (nx+1) (j + ny k)
     u[1]    nx (ny+1) nz faces, number i + nx (j + (ny+1) k)
     u[2]    nx ny (nz+1) faces, number i + nx (j + ny k)
   Face (i, j, k) of an axis is the lower face of cell (i, j, k) along it. You may read everything
   and write state arrays between stages. */
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
    /* [largest faces] work space of single stages, free for the caller between them: a vector's
     * components, and one value, for each cell or each face of an axis */
    fsi_real *vector_work[3];
    fsi_real *scalar_work;
    size_t lent_bytes;      /* from weight[0] to the end of scalar_work */
    int32_t *stencil;       /* [largest faces] lower corner of the back-traced stencil */
    fsi_real *way[2];       /* [cells] ways of the forward paths along y and z */
    uint8_t *mark[3];       /* [faces[a]] */
    fsi_real *plus_work[3]; /* desc.shells: [faces[a]] */
    int mg_plain;           /* 1: the solver holds the plain box (all fluid, all weights one) */
    uint8_t *near_cell;     /* [cells] 1: rays from here may meet a solid */
    void *block;            /* the one allocation; it begins with the state */
    size_t block_size;
    size_t state_bytes;
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

/* Sub-steps of at most fsi_grid_max_dt until duration is over, at most max_steps (0 = 1000;
   FSI_CAPPED when the last one had to be longer). report: of the last sub-step, iterations summed;
   may be NULL. steps: how many, may be NULL. */
FSI_API fsi_result fsi_grid_advance(fsi_grid *grid, fsi_real duration, int max_steps, int *steps,
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
FSI_API fsi_result fsi_grid_trace(const fsi_grid *grid, int count, fsi_real *x, fsi_real dt);

/* Position of a cell centre or of a face centre of an axis, m. */
FSI_API fsi_vec3 fsi_grid_cell_centre(const fsi_grid *grid, int i, int j, int k);
FSI_API fsi_vec3 fsi_grid_face_centre(const fsi_grid *grid, int axis, int i, int j, int k);

/* Largest |divergence| over fluid cells, 1/s, with the openness of the last build_pressure (solid
 * fluxes and sources included). */
FSI_API double fsi_grid_max_divergence(const fsi_grid *grid);

/* Energy of the fluid as its pressure sees it, from faces beside fluid cells weighted by their
   fluid share (2D: per metre of depth). */
typedef struct fsi_grid_energy {
    double kinetic; /* J */
    double power;   /* of gravity on the flow, W */
    double fall;    /* J that gravity gives to all of it in the first second from rest */
} fsi_grid_energy;

FSI_API void fsi_grid_measure(const fsi_grid *grid, fsi_grid_energy *energy);
/* Kinetic energy of the fluid alone, J. */
FSI_API double fsi_grid_kinetic_energy(const fsi_grid *grid);

/* All fields of a cell but the pressure become the mean of those of `count` other cells, phi only
   where with_phi: for cells that a solid has run over. */
FSI_API void fsi_grid_take_mean(fsi_grid *grid, size_t cell, int count, const size_t *from,
                                int with_phi);

/* Bytes a save needs; save copies the state there; restore takes it back. size is that of the
   block, which may come from anywhere: all of it is checked before anything changes. FSI_ERR_SIZE:
   of a grid of another size, or cut off; FSI_ERR_DATA: damaged, of another kind of object,
   precision or version, or with numbers that no grid has. So it is with every fsi_X_restore. */
FSI_API size_t fsi_grid_state_size(const fsi_grid *grid);
FSI_API fsi_result fsi_grid_save(const fsi_grid *grid, void *block);
FSI_API fsi_result fsi_grid_restore(fsi_grid *grid, const void *block, size_t size);
/* What restore would say, without restoring. */
FSI_API fsi_result fsi_grid_check(const fsi_grid *grid, const void *block, size_t size);

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
 * >>grid basics */
/* Symbols of all grid chapters:
     x, X    a point in metres; the same point in cells, (x - origin) / h
     u       velocity; u[axis] lies on the lower faces of the cells along that axis
     family  which samples are meant: 0, 1, 2 the faces of that axis, FSI__CELLS the cell centres
     dth     dt / h: how many cells a speed of 1 m/s covers in a step
     phi     signed distance to the liquid's surface, negative in the liquid
   Sample (i, j, k) of a family sits at X = (i, j, k) + offset, with offset 0 along the family's own
   axis and 1/2 along the others:

       +-- u[1] --+
       |          |        u[0] at (i,       j + 1/2)
     u[0]   p   u[0]       u[1] at (i + 1/2, j      )
       |          |        p    at (i + 1/2, j + 1/2)
       +-- u[1] --+
*/
#define FSI__MANY 20000 /* cells from which on a loop is worth several threads */

/* The samples of a family. */
static fsi__lattice fsi__grid_lattice(const fsi_grid *grid, int family) {
    return fsi__lattice_of(grid->nx, grid->ny, grid->nz, family);
}

/* The sample beside a sample, which is at[3], towards a side; -1 = there is none. */
FSI__INLINE ptrdiff_t fsi__sample_beside(const fsi__lattice *samples, const int *at,
                                         ptrdiff_t sample, int side) {
    return fsi__lattice_beside(samples, at, sample, side >> 1, side & 1);
}

/* A point in metres, in cells. */
static fsi_vec3 fsi__to_cells(const fsi_grid *grid, fsi_vec3 x) {
    return fsi_vec_scale(fsi_vec_sub(x, grid->origin), 1 / grid->h);
}

/* A point in cells, in metres. */
static fsi_vec3 fsi__grid_point(const fsi_grid *grid, fsi_vec3 X) {
    return fsi_vec_mad(grid->origin, X, grid->h);
}

/* The point, in cells, of the box that is closest to X. */
static fsi_vec3 fsi__keep_in_box(const fsi_grid *grid, fsi_vec3 X) {
    return fsi_vec(fsi__clamp(X.x, 0, (fsi_real)grid->nx), fsi__clamp(X.y, 0, (fsi_real)grid->ny),
                   fsi__clamp(X.z, 0, (fsi_real)grid->nz));
}

/* Half a cell along every axis. */
FSI__FORCE_INLINE fsi_vec3 fsi__half_cell(void) {
    return fsi_vec(FSI_R(0.5), FSI_R(0.5), FSI_R(0.5));
}

/* Where sample at[3] of a family sits, in cells: faces lie half a cell below the centre. */
FSI__INLINE fsi_vec3 fsi__sample_place(int family, const int *at) {
    const fsi_vec3 corner = fsi_vec((fsi_real)at[0], (fsi_real)at[1], (fsi_real)at[2]);
    const fsi_vec3 centre = fsi_vec_add(corner, fsi__half_cell());
    return fsi_vec_mad(centre, fsi__axis(family), FSI_R(-0.5));
}

/* The same in metres. */
static fsi_vec3 fsi__sample_point(const fsi_grid *grid, int family, const int *at) {
    return fsi__grid_point(grid, fsi__sample_place(family, at));
}

FSI_API fsi_vec3 fsi_grid_cell_centre(const fsi_grid *grid, int i, int j, int k) {
    const int at[3] = {i, j, k};
    return fsi__sample_point(grid, FSI__CELLS, at);
}

FSI_API fsi_vec3 fsi_grid_face_centre(const fsi_grid *grid, int axis, int i, int j, int k) {
    const int at[3] = {i, j, k};
    return fsi__sample_point(grid, axis, at);
}

FSI_API fsi_real *fsi_grid_field(const fsi_grid *grid, fsi_field field) {
    if (!grid)
        return NULL;

    switch (field) {
    case FSI_FIELD_PRESSURE:
        return grid->pressure;

    case FSI_FIELD_DENSITY:
        return grid->density;

    case FSI_FIELD_TEMPERATURE:
        return grid->temperature;

    case FSI_FIELD_PHI:
        return grid->phi;

    default:
        break;
    }
    int number = (int)field - (int)FSI_FIELD_SCALAR;

    return number >= 0 && number < FSI_GRID_SCALARS ? grid->scalar[number] : NULL;
}

/* All fields: a loop over them meets NULL where the grid does not have one. */
#define FSI__FIELDS ((int)FSI_FIELD_SCALAR + FSI_GRID_SCALARS)

/* How a field is advected; phi moves with the level set. */
static fsi_advection fsi__field_mode(const fsi_grid *grid, int field) {
    fsi_advection mode = grid->desc.advect_scalar;
    if (field == FSI_FIELD_DENSITY)
        mode = grid->desc.advect_density;
    if (field == FSI_FIELD_TEMPERATURE)
        mode = grid->desc.advect_temperature;
    if (field == FSI_FIELD_PHI)
        mode = FSI_ADVECT_NONE;
    return mode == FSI_ADVECT_DEFAULT ? FSI_ADVECT_MACCORMACK : mode;
}

/* Seconds on the user's clock, 0 without one. */
static double fsi__now(const fsi_grid *grid) {
    return grid->clock_fn ? grid->clock_fn(grid->clock_user) : 0;
}

/* What every stage asks before it begins: is there a grid, and is dt a step? */
static fsi_result fsi__stage_check(const fsi_grid *grid, fsi_real dt) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    return fsi__positive(dt) ? FSI_OK : FSI_ERR_ARGUMENT;
}

/* The first error, else the first warning, of two results. */
static fsi_result fsi__worse(fsi_result first, fsi_result second) {
    if (first < 0 || second == FSI_OK)
        return first;
    return second < 0 || first == FSI_OK ? second : first;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid life */
static int fsi__side_valid(const fsi_grid_side *side) {
    return (int)side->kind >= FSI_SIDE_SLIP && (int)side->kind <= FSI_SIDE_INFLOW
           && fsi__finite_vec(side->velocity);
}

/* Can a box have these cells? Numbers of its samples, and twice of them, are int32. */
static fsi_result fsi__box_check(int nx, int ny, int nz, fsi_real h, fsi_vec3 origin) {
    if (nx < 2 || ny < 2 || nz < 1)
        return FSI_ERR_ARGUMENT;
    if (!fsi__positive(h) || !fsi__finite_vec(origin))
        return FSI_ERR_ARGUMENT;

    size_t samples;
    if (!fsi_size_mul((size_t)nx + 1, (size_t)ny + 1, &samples)
        || !fsi_size_mul(samples, (size_t)nz + 1, &samples) || samples > 0x7fffffff / 2)
        return FSI_ERR_SIZE;
    return FSI_OK;
}

/* Is this one of the values of fsi_advection? */
static int fsi__advection_valid(fsi_advection mode) {
    return (int)mode >= 0 && (int)mode <= FSI_ADVECT_NONE;
}

/* Refuses a description by its values; like fields are checked in one go. */
static fsi_result fsi__grid_check_desc(const fsi_grid_desc *desc) {
    if (!desc || !fsi__positive(desc->rho))
        return FSI_ERR_ARGUMENT;

    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        if (!fsi__side_valid(&desc->side[side]))
            return FSI_ERR_ARGUMENT;

    if (!fsi__finite_vec(desc->gravity) || !fsi__finite_vec(desc->up))
        return FSI_ERR_ARGUMENT;

    const fsi_real finite[] = {desc->buoyancy_density, desc->buoyancy_temperature, desc->ambient,
                               desc->confinement};
    if (!fsi_all_finite(4, finite))
        return FSI_ERR_ARGUMENT;

    const fsi_real not_negative[] = {desc->cooling, desc->dissipation, desc->viscosity, desc->cfl,
                                     desc->theta_min};
    for (int i = 0; i < 5; i++)
        if (!fsi__natural(not_negative[i]))
            return FSI_ERR_ARGUMENT;

    const int counts[] = {desc->max_iterations, desc->scalars, desc->extrapolate,
                          desc->max_regions};
    for (int i = 0; i < 4; i++)
        if (counts[i] < 0)
            return FSI_ERR_ARGUMENT;

    const fsi_advection modes[] = {desc->advect_velocity, desc->advect_density,
                                   desc->advect_temperature, desc->advect_scalar};
    for (int i = 0; i < 4; i++)
        if (!fsi__advection_valid(modes[i]))
            return FSI_ERR_ARGUMENT;

    if (desc->theta_min > FSI_R(0.5) || !(desc->tolerance >= 0 && desc->tolerance < 1))
        return FSI_ERR_ARGUMENT;
    if (desc->scalars > FSI_GRID_SCALARS || !fsi_allocator_valid(&desc->allocator))
        return FSI_ERR_ARGUMENT;

    return fsi__box_check(desc->nx, desc->ny, desc->nz, desc->h, desc->origin);
}

/* Copies the description and fills in the defaults. */
static void fsi__grid_defaults(fsi_grid *grid, const fsi_grid_desc *desc) {
    fsi_grid_desc *given = &grid->desc;
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
    if (given->advect_velocity == FSI_ADVECT_DEFAULT)
        given->advect_velocity = FSI_ADVECT_MACCORMACK;

    /* Buoyancy acts against gravity, and upwards where there is none. */
    if (!(fsi__length(given->up) > 0)) {
        const int weight = fsi__length(given->gravity) > 0;
        given->up = weight ? fsi_vec_scale(given->gravity, -1) : fsi_vec(0, 1, 0);
    }
    given->up = fsi__unit(given->up);

    grid->nx = given->nx;
    grid->ny = given->ny;
    grid->nz = given->nz;
    grid->dim = given->nz == 1 ? 2 : 3;
    grid->h = given->h;
    grid->origin = given->origin;
    grid->cells = (size_t)fsi__grid_lattice(grid, FSI__CELLS).count;
    for (int axis = 0; axis < grid->dim; axis++)
        grid->faces[axis] = (size_t)fsi__grid_lattice(grid, axis).count;
}

/* Places an array for the faces of each axis. */
static void fsi__take_faces(const fsi_grid *grid, fsi_arena *arena, fsi_real **array) {
    for (int axis = 0; axis < grid->dim; axis++)
        FSI__TAKE(array[axis], arena, grid->faces[axis]);
}

/* Places all arrays in the arena. Run twice, first to count and then to place. The state comes
   first and is contiguous. */
static void fsi__grid_layout(fsi_grid *grid, fsi_arena *arena) {
    const fsi_grid_desc *desc = &grid->desc;
    size_t most = grid->cells;
    for (int axis = 0; axis < grid->dim; axis++)
        if (grid->faces[axis] > most)
            most = grid->faces[axis];

    /* State. */
    fsi__take_faces(grid, arena, grid->u);
    if (desc->shells)
        fsi__take_faces(grid, arena, grid->u_plus);
    FSI__TAKE(grid->pressure, arena, grid->cells);
    if (desc->smoke) {
        FSI__TAKE(grid->density, arena, grid->cells);
        FSI__TAKE(grid->temperature, arena, grid->cells);
    }
    for (int number = 0; number < desc->scalars; number++)
        FSI__TAKE(grid->scalar[number], arena, grid->cells);
    grid->state_bytes = arena->used;

    /* The system of the pressure. */
    FSI__TAKE(grid->rhs, arena, most);
    const size_t lent_from = arena->used;
    fsi__take_faces(grid, arena, grid->weight);

    /* Weights and work space lie side by side: together they are lent to the viscosity's solver. */
    most = (most + 7) & ~(size_t)7;
    grid->lent_bytes = arena->used - lent_from + 4 * most * sizeof(fsi_real);
    fsi_real *work;
    FSI__TAKE(work, arena, 4 * (most + 16));
    for (int axis = 0; axis < 3; axis++)
        grid->vector_work[axis] = work ? work + (size_t)axis * most : NULL;
    grid->scalar_work = work ? work + 3 * most : NULL;

    /* Work space of the advection, marks and cells. */
    if (desc->shells)
        fsi__take_faces(grid, arena, grid->plus_work);
    FSI__TAKE(grid->stencil, arena, most);
    for (int axis = 0; axis < grid->dim - 1; axis++)
        FSI__TAKE(grid->way[axis], arena, grid->cells);
    for (int axis = 0; axis < grid->dim; axis++)
        FSI__TAKE(grid->mark[axis], arena, grid->faces[axis]);
    FSI__TAKE(grid->cell, arena, grid->cells);
    FSI__TAKE(grid->near_cell, arena, grid->cells);
    if (desc->liquid) {
        FSI__TAKE(grid->region, arena, grid->cells);
        FSI__TAKE(grid->regions, arena, (size_t)desc->max_regions);
    }
    FSI__TAKE(grid->mg, arena, 1);
}

/* Is this side of the box open? In 2D the box has four sides. */
static int fsi__side_open(const fsi_grid *grid, int side) {
    return side < 2 * grid->dim && grid->desc.side[side].kind == FSI_SIDE_OPEN;
}

/* The pressure solver and the level set of a liquid. */
static fsi_result fsi__grid_init_parts(fsi_grid *grid) {
    fsi_mg_desc solver = FSI__ZERO;
    solver.nx = grid->nx;
    solver.ny = grid->ny;
    solver.nz = grid->nz;
    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        solver.open[side] = fsi__side_open(grid, side);
    solver.allocator = grid->desc.allocator;
    fsi_result result = fsi_mg_init(grid->mg, &solver);
    if (result < 0 || !grid->desc.liquid)
        return result;

    fsi_levelset_desc surface = FSI__ZERO;
    surface.nx = grid->nx;
    surface.ny = grid->ny;
    surface.nz = grid->nz;
    surface.h = grid->h;
    surface.origin = grid->origin;
    surface.particles = grid->desc.particles;
    surface.allocator = grid->desc.allocator;
    result = fsi_levelset_init(&grid->levelset, &surface);
    if (result >= 0)
        grid->phi = grid->levelset.phi;

    return result;
}

static void fsi__set_walls(fsi_grid *grid, int solids);

FSI_API fsi_result fsi_grid_init(fsi_grid *grid, const fsi_grid_desc *desc) {
    if (!grid)
        return FSI_ERR_ARGUMENT;

    memset(grid, 0, sizeof *grid);
    fsi_result result = fsi__grid_check_desc(desc);
    if (result < 0)
        return result;

    fsi__grid_defaults(grid, desc);

    /* One block, whose size the first layout counts. */
    fsi_arena arena = FSI__ZERO;
    fsi__grid_layout(grid, &arena);
    result = fsi__arena_block(&arena, &grid->desc.allocator, &grid->block, &grid->block_size);
    if (result >= 0) {
        fsi__grid_layout(grid, &arena);
        result = fsi__grid_init_parts(grid);
    }
    if (result < 0) {
        fsi_grid_free(grid);
        return result;
    }

    /* At rest, at ambient temperature. */
    if (grid->temperature)
        fsi_fill(grid->cells, grid->desc.ambient, grid->temperature);
    fsi__set_walls(grid, 1);

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

FSI_API size_t fsi_grid_memory(const fsi_grid *grid) {
    return grid && grid->block ? grid->block_size + grid->mg->bytes + grid->levelset.block_size : 0;
}

/* Asks a callback for its component along an axis at all faces of that axis, into out[faces].
   Returns 0 when an answer is not finite. */
static int fsi__ask_faces(const fsi_grid *grid, int axis, fsi_vector_fn fn, double time, void *user,
                          fsi_real *out) {
    const fsi__lattice faces = fsi__grid_lattice(grid, axis);
    for (ptrdiff_t face = 0; face < faces.count; face++) {
        int at[3];
        fsi__lattice_place(&faces, face, at);
        fsi_vec3 answer = fn(fsi__sample_point(grid, axis, at), time, user);
        out[face] = fsi__get(answer, axis);
        if (!fsi__finite_vec(answer))
            return 0;
    }
    return 1;
}

/* The same of a scalar at the centres of all cells of a box. */
static int fsi__ask_cells(const fsi__lattice *cells, fsi_vec3 origin, fsi_real h, fsi_scalar_fn fn,
                          void *user, fsi_real *out) {
    for (ptrdiff_t cell = 0; cell < cells->count; cell++) {
        int at[3];
        fsi__lattice_place(cells, cell, at);
        out[cell] = fn(fsi_vec_mad(origin, fsi__sample_place(FSI__CELLS, at), h), user);
        if (!fsi__finite(out[cell]))
            return 0;
    }
    return 1;
}

/* Sets the velocity at the face centres; nothing changes before all answers are known. */
FSI_API fsi_result fsi_grid_set_velocity(fsi_grid *grid, fsi_vector_fn fn, void *user) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fn)
        return FSI_ERR_ARGUMENT;

    fsi_real *const *answer = grid->vector_work;
    for (int axis = 0; axis < grid->dim; axis++)
        if (!fsi__ask_faces(grid, axis, fn, 0, user, answer[axis]))
            return FSI_ERR_CALLBACK;
    for (int axis = 0; axis < grid->dim; axis++) {
        fsi_copy(grid->faces[axis], answer[axis], grid->u[axis]);
        if (grid->u_plus[axis])
            fsi_copy(grid->faces[axis], answer[axis], grid->u_plus[axis]);
    }
    fsi__set_walls(grid, 1);

    return FSI_OK;
}

static fsi_levelset_walls fsi__surface_walls(fsi_grid *grid);

/* Sets a field at the cell centres; nothing changes before all answers are known. */
FSI_API fsi_result fsi_grid_set_field(fsi_grid *grid, fsi_field field, fsi_scalar_fn fn,
                                      void *user) {
    fsi_real *out = fsi_grid_field(grid, field);
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fn || !out)
        return FSI_ERR_ARGUMENT;

    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    fsi_real *answer = grid->scalar_work;
    if (!fsi__ask_cells(&cells, grid->origin, grid->h, fn, user, answer))
        return FSI_ERR_CALLBACK;
    fsi_copy(grid->cells, answer, out);
    if (field != FSI_FIELD_PHI)
        return FSI_OK;

    /* A new surface: a distance again, with new markers and new air regions. */
    const fsi_levelset_walls walls = fsi__surface_walls(grid);
    fsi_result result = fsi_levelset_reset(&grid->levelset, &walls);

    return result < 0 ? result : fsi__worse(result, fsi_grid_classify(grid));
}

FSI_API void fsi_grid_take_mean(fsi_grid *grid, size_t cell, int count, const size_t *from,
                                int with_phi) {
    for (int which = FSI_FIELD_DENSITY; which < FSI__FIELDS; which++) {
        fsi_real *field = fsi_grid_field(grid, (fsi_field)which);
        fsi_real sum = 0;
        if (!field || !count || (which == FSI_FIELD_PHI && !with_phi))
            continue;
        for (int i = 0; i < count; i++)
            sum += field[from[i]];
        field[cell] = sum / (fsi_real)count;
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>grid solids and sides */
/* A face of an axis, and the cells below and above it:

        low  |  high          place: which face along its axis, 0 .. last; the first and the last
             |                one lie on the box and have only one of the cells
           face
*/
typedef struct fsi__mac_face {
    int axis;
    int place;
    int last;
    ptrdiff_t face;      /* number in the arrays of the axis */
    ptrdiff_t low, high; /* numbers of the cells; high is wrong at place last, low at place 0 */
} fsi__mac_face;

/* The lower face of cell at[3] along an axis. */
FSI__INLINE fsi__mac_face fsi__face_at(const fsi_grid *grid, int axis, const int *at) {
    const ptrdiff_t nx = grid->nx;
    const ptrdiff_t ny = grid->ny;
    fsi__mac_face face;
    face.axis = axis;
    face.place = at[axis];
    face.face = at[0] + (nx + (axis == 0)) * (at[1] + (ny + (axis == 1)) * at[2]);
    face.high = at[0] + nx * (at[1] + ny * at[2]);
    if (axis == 0) {
        face.last = grid->nx;
        face.low = face.high - 1;
    } else if (axis == 1) {
        face.last = grid->ny;
        face.low = face.high - nx;
    } else {
        face.last = grid->nz;
        face.low = face.high - nx * ny;
    }

    return face;
}

/* The face of cell at[3] towards a side. */
FSI__INLINE fsi__mac_face fsi__face_towards(const fsi_grid *grid, const int *at, int side) {
    int upper[3] = {at[0], at[1], at[2]};
    upper[side >> 1] += side & 1;
    return fsi__face_at(grid, side >> 1, upper);
}

/* The first face of a row of faces of an axis. */
static fsi__mac_face fsi__first_face(const fsi_grid *grid, int axis, ptrdiff_t row) {
    const fsi__lattice faces = fsi__grid_lattice(grid, axis);
    int at[3];
    fsi__lattice_row(&faces, row, at);
    return fsi__face_at(grid, axis, at);
}

/* On to the next face of the row. */
FSI__INLINE void fsi__next_face(fsi__mac_face *face) {
    face->face++;
    face->low++;
    face->high++;
    face->place += face->axis == 0;
}

/* Does the face have a cell below it? */
FSI__INLINE int fsi__has_low(const fsi__mac_face *face) {
    return face->place > 0;
}

/* Does the face have a cell above it? */
FSI__INLINE int fsi__has_high(const fsi__mac_face *face) {
    return face->place < face->last;
}

/* Does the face lie on the box? */
FSI__INLINE int fsi__on_box(const fsi__mac_face *face) {
    return face->place == 0 || face->place == face->last;
}

/* The side of the box on which a face lies. */
FSI__INLINE int fsi__side_of_face(const fsi__mac_face *face) {
    return 2 * face->axis + (face->place > 0);
}

/* Is one of the cells beside the face of this kind? */
FSI__INLINE int fsi__beside_kind(const fsi_grid *grid, const fsi__mac_face *face, int kind) {
    return (fsi__has_low(face) && grid->cell[face->low] == kind)
           || (fsi__has_high(face) && grid->cell[face->high] == kind);
}

/* Does a solid cell lie beside the face? */
FSI__INLINE int fsi__beside_solid(const fsi_grid *grid, const fsi__mac_face *face) {
    const uint8_t *solid = grid->occlusion.solid;
    return solid
           && ((fsi__has_high(face) && solid[face->high])
               || (fsi__has_low(face) && solid[face->low]));
}

/* Does a surface run between the two cells of the face? */
FSI__INLINE int fsi__in_shell(const fsi_grid *grid, const fsi__mac_face *face) {
    const uint8_t *blocked = grid->occlusion.blocked[face->axis];
    return blocked && blocked[face->face];
}

/* Is the face blocked to the eye? Faces of the box are not. */
static int fsi__blocked(const fsi_grid *grid, const fsi__mac_face *face) {
    if (!grid->occluded || fsi__on_box(face))
        return 0;
    return fsi__in_shell(grid, face) || fsi__beside_solid(grid, face);
}

/* Open fraction of a face; on the box 1 where the side is open. A blocked face is closed unless
   open[] says otherwise. */
FSI__INLINE fsi_real fsi__open_share(const fsi_grid *grid, const fsi__mac_face *face) {
    const fsi_real *open = grid->occlusion.open[face->axis];
    if (fsi__on_box(face) && !fsi__side_open(grid, fsi__side_of_face(face)))
        return 0;
    if (!grid->occluded)
        return 1;
    if (fsi__beside_solid(grid, face))
        return 0;
    if (open)
        return open[face->face];
    return fsi__in_shell(grid, face) ? 0 : FSI_R(1.0);
}

/* Can fluid pass from cell at[3] towards a side: to the cell there, or out of an open side of the
   box? */
FSI__INLINE int fsi__passes(const fsi_grid *grid, const int *at, int side) {
    const fsi__mac_face face = fsi__face_towards(grid, at, side);
    return fsi__open_share(grid, &face) > 0;
}

/* Velocity of the solid at a face along its axis, m/s. */
FSI__INLINE fsi_real fsi__solid_velocity(const fsi_grid *grid, int axis, ptrdiff_t face) {
    return grid->occlusion.velocity[axis] ? grid->occlusion.velocity[axis][face] : 0;
}

/* A face that is prescribed takes its velocity: on closed sides 0, on an inflow the side's; with
   solids = 1 a closed face the solid's. */
static void fsi__set_wall(fsi_grid *grid, const fsi__mac_face *face, int solids) {
    const int axis = face->axis;
    fsi_real *u = grid->u[axis] + face->face;
    fsi_real *plus = grid->u_plus[axis];
    if (fsi__on_box(face)) {
        const fsi_grid_side *side = &grid->desc.side[fsi__side_of_face(face)];
        if (side->kind == FSI_SIDE_INFLOW)
            *u = fsi__get(side->velocity, axis);
        else if (side->kind != FSI_SIDE_OPEN)
            *u = 0;
    } else if (solids && grid->occluded && !(fsi__open_share(grid, face) > 0)) {
        /* The two sides of a shell keep their own samples. */
        if (!(plus && fsi__in_shell(grid, face)))
            *u = fsi__solid_velocity(grid, axis, face->face);
    }
    if (plus && !fsi__blocked(grid, face))
        plus[face->face] = *u;
}

/* Prescribed velocities on the box, and with solids = 1 at closed faces (not before the solve: a
   coupled solve needs u* there). */
static void fsi__set_walls(fsi_grid *grid, int solids) {
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi__lattice faces = fsi__grid_lattice(grid, axis);
        const int last = faces.n[axis] - 1;

        /* Without solids the sides of the box are enough. */
        const int all = grid->occluded && (solids || grid->u_plus[axis]);
        const int stride = axis == 0 && !all ? last : 1;
        FSI__PARALLEL(grid->cells > FSI__MANY)
        for (ptrdiff_t row = 0; row < faces.rows; row++) {
            int at[3];
            fsi__lattice_row(&faces, row, at);
            if (!all && axis != 0 && at[axis] > 0 && at[axis] < last)
                continue;
            for (; at[0] < faces.n[0]; at[0] += stride) {
                const fsi__mac_face face = fsi__face_at(grid, axis, at);
                fsi__set_wall(grid, &face, solids);
            }
        }
    }
}

FSI_API fsi_result fsi_grid_set_occlusion(fsi_grid *grid, const fsi_occlusion *occlusion) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;

    for (int axis = 0; occlusion && axis < grid->dim; axis++) {
        const fsi_real *open = occlusion->open[axis];
        const fsi_real *velocity = occlusion->velocity[axis];
        if (velocity && !fsi_all_finite(grid->faces[axis], velocity))
            return FSI_ERR_NUMERIC;
        for (size_t face = 0; open && face < grid->faces[axis]; face++)
            if (!(open[face] >= 0 && open[face] <= 1))
                return FSI_ERR_ARGUMENT;
    }
    memset(&grid->occlusion, 0, sizeof grid->occlusion);
    if (occlusion)
        grid->occlusion = *occlusion;
    grid->levelset.free_share = grid->occlusion.free_share;
    grid->occluded = occlusion != NULL;
    grid->weights_are_one = 0;
    grid->mg_plain = 0;

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid speed */
/* Largest velocity component, and that of each axis (axis_speed, may be NULL); not finite when one
   of them is not. */
static fsi_real fsi__max_speed(const fsi_grid *grid, fsi_real *axis_speed) {
    fsi_real most = 0;
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real *plus = grid->u_plus[axis];
        fsi_real speed = fsi_max_abs(grid->faces[axis], grid->u[axis]);
        fsi_real beyond = plus ? fsi_max_abs(grid->faces[axis], plus) : 0;
        if (!fsi__finite(speed) || !fsi__finite(beyond))
            return speed - beyond;
        most = fsi__max(most, fsi__max(speed, beyond));
        if (axis_speed)
            axis_speed[axis] = fsi__max(speed, beyond);
    }
    return most;
}

/* Refuses fields that are not finite. Density and temperature are looked at when they are advected,
   by fsi__find_calm_rows. */
static fsi_result fsi__check_state(const fsi_grid *grid, fsi_real *most, fsi_real *axis_speed) {
    *most = fsi__max_speed(grid, axis_speed);
    if (!fsi__finite(*most) || !fsi_all_finite(grid->cells, grid->pressure))
        return FSI_ERR_NUMERIC;

    for (int field = FSI_FIELD_DENSITY; field < FSI__FIELDS; field++) {
        const fsi_real *values = fsi_grid_field(grid, (fsi_field)field);
        const int later = field < FSI_FIELD_PHI && fsi__field_mode(grid, field) != FSI_ADVECT_NONE;
        if (values && !later && !fsi_all_finite(grid->cells, values))
            return FSI_ERR_NUMERIC;
    }
    return FSI_OK;
}

FSI_API fsi_real fsi_grid_cfl(const fsi_grid *grid, fsi_real dt) {
    return fsi__stage_check(grid, dt) < 0 ? 0 : fsi__max_speed(grid, NULL) * dt / grid->h;
}

FSI_API fsi_real fsi_grid_max_dt(const fsi_grid *grid) {
    if (!grid || !grid->block)
        return 0;

    fsi_real speed = fsi__max_speed(grid, NULL);
    if (!fsi__finite(speed))
        return 0;

    /* Also the speed gained while falling over cfl cells. */
    fsi_real length = grid->desc.cfl * grid->h;
    speed += fsi__sqrt(length * fsi__length(grid->desc.gravity));
    return speed > length / FSI_REAL_MAX ? length / speed : FSI_REAL_MAX;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid step */
static fsi_result fsi__check_callbacks(const fsi_grid *grid);

/* Notes the result of a stage: worst becomes the first error, else the first warning. */
static fsi_result fsi__note(fsi_result result, fsi_result *worst) {
    *worst = fsi__worse(*worst, result);
    return *worst;
}

/* The stages of a step in order. Returns the first error, else the first warning. */
static fsi_result fsi__run_stages(fsi_grid *grid, fsi_real dt, fsi_report *report, int measure) {
    fsi_result worst = FSI_OK;

    /* The old velocity carries itself and all scalars; forces make it u*. */
    if (fsi__note(fsi_grid_advect(grid, dt), &worst) < 0)
        return worst;
    if (fsi__note(fsi_grid_forces(grid, dt), &worst) < 0)
        return worst;

    /* Where is fluid, air, solid? */
    if (fsi__note(fsi_grid_classify(grid), &worst) < 0)
        return worst;
    if (fsi__note(fsi_grid_viscosity(grid, dt, NULL), &worst) < 0)
        return worst;

    /* The pressure that makes the flow free of divergence. */
    if (fsi__note(fsi_grid_build_pressure(grid, dt), &worst) < 0)
        return worst;
    if (fsi__note(fsi_grid_solve_pressure(grid, report), &worst) < 0)
        return worst;
    if (fsi__note(fsi_grid_apply_pressure(grid), &worst) < 0)
        return worst;
    if (measure) {
        report->divergence = fsi_grid_max_divergence(grid);
        grid->stats.kinetic_energy = fsi_grid_kinetic_energy(grid);
    }

    /* The new velocity reaches beyond the surface, and the surface moves with it. */
    if (fsi__note(fsi_grid_extrapolate(grid), &worst) < 0)
        return worst;
    return fsi__note(fsi_grid_move_surface(grid, dt, report), &worst);
}

FSI_API fsi_result fsi_grid_step(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_report local;
    fsi_report *out = report ? report : &local;
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;

    memset(out, 0, sizeof *out);

    /* What can be refused is refused before anything changes. */
    if ((result = fsi__check_callbacks(grid)) < 0)
        return result;

    fsi_result worst = fsi__run_stages(grid, dt, out, report != NULL);
    if (worst == FSI_OK && grid->stats.cfl > (double)grid->desc.cfl)
        worst = FSI_DT_TOO_LARGE;
    out->reason = worst;
    if (worst != FSI_OK)
        fsi_log(&grid->desc.logger, worst < 0 ? 2 : 1, fsi_result_text(worst));

    return worst;
}

FSI_API fsi_result fsi_grid_advance(fsi_grid *grid, fsi_real duration, int max_steps, int *steps,
                                    fsi_report *report) {
    fsi_report local;
    fsi_report *out = report ? report : &local;
    fsi_result result = fsi__stage_check(grid, duration);
    fsi_result worst = FSI_OK;
    if (result < 0 || max_steps < 0)
        return result < 0 ? result : FSI_ERR_ARGUMENT;
    if (max_steps == 0)
        max_steps = 1000;

    fsi_real left = duration;
    int done = 0;
    int iterations = 0;

    while (left > 0 && result >= 0) {
        fsi_real part = fsi_grid_max_dt(grid);
        if (!(part > 0))
            return FSI_ERR_NUMERIC;

        /* Equal parts rather than a crumb at the end; the last step takes what is left. */
        const fsi_real pieces = fsi__ceil(left / part);
        const int last = done + 1 >= max_steps;
        part = last || pieces <= 1 ? left : left / pieces;
        if (last && pieces > 1)
            worst = fsi__worse(worst, FSI_CAPPED);
        result = fsi_grid_step(grid, part, out);
        worst = fsi__worse(worst, result);
        iterations += out->iterations;
        done++;
        left = part < left ? left - part : 0;
    }
    out->iterations = iterations;
    if (steps)
        *steps = done;

    return worst;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sampling */
/* Every value between samples comes from fsi__corner_mix, linear interpolation in the block of
   2^dim samples around a point. What differs is only how a coordinate is cut into the lower sample
   and the weight of the upper one:
     fsi__cut        kept on the line of samples; exact at its end, so that a wall stays a wall
     fsi__cut_line   the same in the rows of the advection, without branches (see there)
     fsi__ls_linear  continued by half a cell beyond the last samples, as a surface meets a wall
     fsi__seen_value next to solids, where samples that the point cannot see are left out */

/* Lower sample and weight of the upper one on a line of n >= 2 samples; x is kept on the line. */
FSI__FORCE_INLINE int fsi__cut(fsi_real x, int n, fsi_real *weight) {
    x = x > 0 ? x : 0;
    x = x < (fsi_real)(n - 1) ? x : (fsi_real)(n - 1);
    int lower = (int)x;
    lower = lower < n - 2 ? lower : n - 2;
    *weight = x - (fsi_real)lower;
    return lower;
}

/* Linear interpolation; weight is that of the upper value. */
FSI__FORCE_INLINE fsi_real fsi__mix(fsi_real low, fsi_real high, fsi_real weight) {
    return low + weight * (high - low);
}

/* Linear interpolation in the plane from the lower corner p. */
FSI__FORCE_INLINE fsi_real fsi__plane_mix(const fsi_real *p, size_t step_y, fsi_real wx,
                                          fsi_real wy) {
    return fsi__mix(fsi__mix(p[0], p[1], wx), fsi__mix(p[step_y], p[step_y + 1], wx), wy);
}

/* Linear interpolation from the lower corner p with the weights of the upper samples; three = 0: in
   the plane. */
FSI__FORCE_INLINE fsi_real fsi__corner_mix(const fsi_real *p, size_t step_y, size_t step_z,
                                           fsi_real wx, fsi_real wy, fsi_real wz, int three) {
    fsi_real low = fsi__plane_mix(p, step_y, wx, wy);
    return three ? fsi__mix(low, fsi__plane_mix(p + step_z, step_y, wx, wy), wz) : low;
}

/* What the hot loops need of the velocity, by value. */
typedef struct fsi__mac {
    const fsi_real *u[3];
    int cells[3];
    int three; /* 1 in 3D */
} fsi__mac;

/* The velocity u on the faces of nx * ny * nz cells. */
static fsi__mac fsi__mac_of(int nx, int ny, int nz, const fsi_real *const *u) {
    fsi__mac mac;
    for (int axis = 0; axis < 3; axis++)
        mac.u[axis] = u[axis];
    mac.cells[0] = nx;
    mac.cells[1] = ny;
    mac.cells[2] = nz;
    mac.three = nz > 1;
    return mac;
}

/* The velocity of a grid. */
static fsi__mac fsi__grid_mac(const fsi_grid *grid) {
    return fsi__mac_of(grid->nx, grid->ny, grid->nz, (const fsi_real *const *)grid->u);
}

/* Velocity at X. Each axis is cut twice, at faces (i, with weights f) and at centres (c, with
   weights g), and the three components share the cuts. */
FSI__FORCE_INLINE fsi_vec3 fsi__mac_at(const fsi__mac *mac, int three, fsi_real x, fsi_real y,
                                       fsi_real z) {
    const size_t nx = (size_t)mac->cells[0];
    const size_t ny = (size_t)mac->cells[1];
    fsi_real fx;
    fsi_real fy;
    fsi_real gx;
    fsi_real gy;
    fsi_real fz = 0;
    fsi_real gz = 0;
    const size_t ix = (size_t)fsi__cut(x, mac->cells[0] + 1, &fx);
    const size_t cx = (size_t)fsi__cut(x - FSI_R(0.5), mac->cells[0], &gx);
    const size_t iy = (size_t)fsi__cut(y, mac->cells[1] + 1, &fy);
    const size_t cy = (size_t)fsi__cut(y - FSI_R(0.5), mac->cells[1], &gy);
    const size_t iz = three ? (size_t)fsi__cut(z, mac->cells[2] + 1, &fz) : 0;
    const size_t cz = three ? (size_t)fsi__cut(z - FSI_R(0.5), mac->cells[2], &gz) : 0;

    const fsi_real *u0 = mac->u[0] + ix + (nx + 1) * (cy + ny * cz);
    const fsi_real *u1 = mac->u[1] + cx + nx * (iy + (ny + 1) * cz);
    fsi_vec3 velocity;
    velocity.x = fsi__corner_mix(u0, nx + 1, (nx + 1) * ny, fx, gy, gz, three);
    velocity.y = fsi__corner_mix(u1, nx, nx * (ny + 1), gx, fy, gz, three);
    velocity.z = 0;
    if (three) {
        const fsi_real *u2 = mac->u[2] + cx + nx * (cy + ny * iz);
        velocity.z = fsi__corner_mix(u2, nx, nx * ny, gx, gy, fz, three);
    }

    return velocity;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sight */
/* Next to solids nothing may look through a surface (SLIP section 3.3, figure 6). A sight is a
   point and the block of 2^dim cells around it:

       +-------+-------+      A sample counts when the centre of its cell is seen from the point.
       |       | shell |      The samples not seen are replaced by the mean of those seen.
       |   o   |#  o   |
       |     X |#      |      bit dx + 2 dy + 4 dz of `seen`: that cell of the block is seen
       +-------+#------+
*/
typedef struct fsi__sight {
    fsi_vec3 X;    /* the point, in cells */
    int own[3];    /* cell the point counts to */
    int base[3];   /* lower cell of the block (may be -1) */
    unsigned seen; /* bits of the cells seen */
} fsi__sight;

/* The cell of the box that holds X, or the one closest to it. */
static void fsi__own_cell(const fsi_grid *grid, fsi_vec3 X, int *own) {
    const int cells[3] = {grid->nx, grid->ny, grid->nz};
    own[2] = 0;
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real lower = fsi__floor(fsi__get(X, axis));
        own[axis] = (int)fsi__clamp(lower, 0, (fsi_real)(cells[axis] - 1));
    }
}

/* Is cell at[3] solid? */
static int fsi__solid_at(const fsi_grid *grid, const int *cell) {
    const ptrdiff_t row = cell[1] + (ptrdiff_t)grid->ny * cell[2];
    return grid->occlusion.solid && grid->occlusion.solid[cell[0] + grid->nx * row];
}

/* Cells of a block: 2^dim. */
static unsigned fsi__block_bits(const fsi_grid *grid) {
    return grid->dim == 3 ? 8 : 4;
}

/* The cell of a bit of the block around the point, kept inside the box. */
static void fsi__block_cell(const fsi_grid *grid, const fsi__sight *sight, unsigned bit,
                            int *cell) {
    cell[0] = fsi__iclamp(sight->base[0] + (int)(bit & 1u), 0, grid->nx - 1);
    cell[1] = fsi__iclamp(sight->base[1] + (int)(bit >> 1 & 1u), 0, grid->ny - 1);
    cell[2] = 0;
    if (grid->dim == 3)
        cell[2] = fsi__iclamp(sight->base[2] + (int)(bit >> 2 & 1u), 0, grid->nz - 1);
}

/* Asks hit_fn for the first surface between two points in cells. Answers that are no numbers count
   as a wall at rest, right here. */
static int fsi__ray_hits(const fsi_grid *grid, fsi_vec3 from, fsi_vec3 to, fsi_real *t,
                         fsi_vec3 *velocity) {
    const fsi_occlusion *occlusion = &grid->occlusion;
    fsi_vec3 normal;
    fsi_vec3 a = fsi__grid_point(grid, from);
    fsi_vec3 b = fsi__grid_point(grid, to);
    *t = 1;
    if (!occlusion->hit_fn(a, b, t, &normal, velocity, occlusion->user))
        return 0;
    if (!(*t >= 0 && *t <= 1))
        *t = 0;
    if (!fsi__finite_vec(*velocity))
        *velocity = fsi_vec(0, 0, 0);
    return 1;
}

/* Places the block of cells around X, all of them seen. The own cell is always one of them. Returns
   its bit. */
static unsigned fsi__sight_place(const fsi_grid *grid, fsi_vec3 X, const int *own,
                                 fsi__sight *sight) {
    unsigned own_bit = 0;
    sight->X = X;
    sight->seen = 0xff;
    for (int axis = 0; axis < 3; axis++) {
        const int below = fsi__get(X, axis) - FSI_R(0.5) < (fsi_real)own[axis];
        sight->own[axis] = own[axis];
        sight->base[axis] = axis < grid->dim ? own[axis] - below : 0;
        own_bit |= (unsigned)(own[axis] - sight->base[axis]) << axis;
    }
    return own_bit;
}

/* The cells of the block that a ray from the eye to their centre reaches. */
static unsigned fsi__seen_by_rays(const fsi_grid *grid, const fsi__sight *sight, fsi_vec3 eye) {
    unsigned seen = 0;
    for (unsigned bit = 0; bit < fsi__block_bits(grid); bit++) {
        int cell[3];
        fsi_real t;
        fsi_vec3 velocity;
        fsi__block_cell(grid, sight, bit, cell);
        if (fsi__solid_at(grid, cell))
            continue;
        fsi_vec3 centre = fsi__sample_place(FSI__CELLS, cell);
        if (!fsi__ray_hits(grid, eye, centre, &t, &velocity))
            seen |= 1u << bit;
    }
    return seen;
}

/* The cells of the block that are reached from the own cell through faces that are not blocked. */
static unsigned fsi__seen_by_faces(const fsi_grid *grid, const fsi__sight *sight,
                                   unsigned own_bit) {
    const int cells[3] = {grid->nx, grid->ny, grid->nz};
    int cell[3];
    fsi__block_cell(grid, sight, own_bit, cell);
    if (fsi__solid_at(grid, cell))
        return 0;

    unsigned seen = 1u << own_bit;
    for (int round = 0; round < grid->dim; round++)
        for (unsigned bit = 0; bit < fsi__block_bits(grid); bit++)
            for (int axis = 0; axis < grid->dim && (seen >> bit & 1u); axis++) {
                /* The upper of two neighbours names the face between them. */
                fsi__block_cell(grid, sight, bit | (1u << axis), cell);
                const fsi__mac_face face = fsi__face_at(grid, axis, cell);
                const int outside = sight->base[axis] < 0 || sight->base[axis] + 1 >= cells[axis];
                if (outside || !fsi__blocked(grid, &face))
                    seen |= 1u << (bit ^ (1u << axis));
            }

    return seen;
}

/* Which of the cells around X, a point that counts to the cell own, does the eye see? */
static void fsi__look(const fsi_grid *grid, fsi_vec3 X, const int *own, fsi_vec3 eye,
                      fsi__sight *sight) {
    const unsigned own_bit = fsi__sight_place(grid, X, own, sight);
    if (grid->occlusion.hit_fn)
        sight->seen = fsi__seen_by_rays(grid, sight, eye);
    else
        sight->seen = fsi__seen_by_faces(grid, sight, own_bit);
}

/* Weight of a cell of the block in the interpolation between centres, along all axes but `except`.
 */
static fsi_real fsi__block_weight(const fsi_grid *grid, const fsi__sight *sight, unsigned bit,
                                  int except) {
    fsi_real weight = 1;
    for (int axis = 0; axis < grid->dim; axis++) {
        fsi_real x = fsi__get(sight->X, axis) - FSI_R(0.5) - (fsi_real)sight->base[axis];
        fsi_real upper = fsi__clamp(x, 0, 1);
        if (axis != except)
            weight *= (bit >> axis & 1u) ? upper : 1 - upper;
    }
    return weight;
}

/* Value at the point of a sight: of cell samples, or of face samples, where the two faces of each
   seen cell in the plane of the own cell count. minus, plus: the samples of a face for the cells
   below and above it (equal away from shells). Returns 0, and leaves *value, when nothing is seen.
 */
static int fsi__seen_value(const fsi_grid *grid, const fsi__sight *sight, int family,
                           const fsi_real *minus, const fsi_real *plus, fsi_real *value) {
    const fsi__lattice samples = fsi__grid_lattice(grid, family);
    const int faces = family != FSI__CELLS;
    unsigned plane = 0; /* bit of the own cell along the family's axis */
    fsi_real along = 0; /* where the point lies between the two faces */
    if (faces) {
        plane = (unsigned)(sight->own[family] - sight->base[family]);
        along = fsi__clamp(fsi__get(sight->X, family) - (fsi_real)sight->own[family], 0, 1);
    }

    fsi_real sum = 0;
    fsi_real mean = 0;
    fsi_real lost = 0;
    int count = 0;

    for (unsigned bit = 0; bit < fsi__block_bits(grid); bit++) {
        if (faces && (bit >> family & 1u) != plane)
            continue;
        fsi_real weight = fsi__block_weight(grid, sight, bit, family);
        if (!(sight->seen >> bit & 1u)) {
            lost += weight;
            continue;
        }
        int cell[3];
        fsi__block_cell(grid, sight, bit, cell);

        /* The cell lies on the plus side of its lower face, and on the minus side of its upper. */
        const ptrdiff_t at = fsi__lattice_at(&samples, cell);
        fsi_real low = plus[at];
        fsi_real high = faces ? minus[at + samples.step[family]] : low;
        sum += weight * fsi__mix(low, high, along);
        mean += FSI_R(0.5) * (low + high);
        count++;
    }
    if (count)
        *value = sum + lost * mean / (fsi_real)count;

    return count > 0;
}

/* Velocity at the point of a sight; components of which nothing is seen are taken from otherwise.
 */
static fsi_vec3 fsi__seen_velocity(const fsi_grid *grid, const fsi__sight *sight,
                                   fsi_vec3 otherwise) {
    fsi_real velocity[3] = {otherwise.x, otherwise.y, grid->dim == 3 ? otherwise.z : 0};
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real *minus = grid->u[axis];
        const fsi_real *plus = grid->u_plus[axis];
        fsi__seen_value(grid, sight, axis, minus, plus ? plus : minus, &velocity[axis]);
    }
    return fsi_vec_load(velocity);
}

/* Walks in cells from the centre of the own cell by `way`, until a blocked face; own follows.
   Returns the part of the way gone. */
static fsi_real fsi__walk_cells(const fsi_grid *grid, int *own, fsi_vec3 way, fsi_real margin) {
    const int cells[3] = {grid->nx, grid->ny, grid->nz};
    fsi_real next[3];
    fsi_real along[3]; /* next: part of the way at which the next face is met */
    fsi_vec_store(along, way);
    for (int axis = 0; axis < 3; axis++) {
        const int moves = along[axis] < 0 || along[axis] > 0;
        next[axis] = moves ? FSI_R(0.5) / fsi__abs(along[axis]) : FSI_REAL_MAX;
    }
    for (int steps = cells[0] + cells[1] + cells[2]; steps > 0; steps--) {
        int axis = next[0] <= next[1] ? 0 : 1;
        if (next[2] < next[axis])
            axis = 2;
        if (next[axis] >= 1)
            break;
        int place[3] = {own[0], own[1], own[2]};
        place[axis] += along[axis] > 0;
        if (place[axis] <= 0 || place[axis] >= cells[axis]) {
            next[axis] = FSI_REAL_MAX;
            continue;
        }
        const fsi__mac_face face = fsi__face_at(grid, axis, place);
        if (fsi__blocked(grid, &face))
            return fsi__max(next[axis] - margin, 0);
        own[axis] += along[axis] > 0 ? 1 : -1;
        next[axis] += 1 / fsi__abs(along[axis]);
    }

    return 1;
}

/* How far before a surface a way of this length stops, as part of the way: a thousandth of a cell.
 */
static fsi_real fsi__margin(fsi_vec3 way) {
    return FSI_R(1e-3) / fsi__max(fsi__length(way), FSI_R(1e-3));
}

/* Walks from the centre of the own cell towards a target and stops short of the first surface,
   whose velocity it notes; own follows. Returns the point reached. */
static fsi_vec3 fsi__reach(const fsi_grid *grid, int *own, fsi_vec3 target, fsi_vec3 *velocity) {
    fsi_vec3 from = fsi__sample_place(FSI__CELLS, own);
    target = fsi__keep_in_box(grid, target);
    if (grid->dim == 2)
        target.z = from.z;
    const fsi_vec3 way = fsi_vec_sub(target, from);
    const fsi_real margin = fsi__margin(way);
    if (!grid->occlusion.hit_fn)
        return fsi_vec_mad(from, way, fsi__walk_cells(grid, own, way, margin));

    fsi_real t;
    fsi_real part = 1;
    if (fsi__ray_hits(grid, from, target, &t, velocity))
        part = fsi__max(t - margin, 0);
    fsi_vec3 end = fsi_vec_mad(from, way, part);
    fsi__own_cell(grid, end, own);

    return end;
}

/* Follows the flow from X (which counts to the cell own) for dth, by the midpoint rule, and stops
   at surfaces; own and sight follow. Returns the velocity of the surface that was hit, or 0. */
static fsi_vec3 fsi__seen_path(const fsi_grid *grid, fsi_vec3 X, int *own, fsi_real dth,
                               fsi__sight *sight) {
    const fsi_vec3 zero = FSI__ZERO;
    fsi_vec3 hit = zero;

    /* Half a step with the velocity at the start. */
    int middle_cell[3] = {own[0], own[1], own[2]};
    fsi__look(grid, X, own, fsi__sample_place(FSI__CELLS, own), sight);
    fsi_vec3 velocity = fsi__seen_velocity(grid, sight, zero);
    fsi_vec3 target = fsi_vec_mad(X, velocity, FSI_R(0.5) * dth);
    fsi_vec3 middle = fsi__reach(grid, middle_cell, target, &hit);

    /* The whole step with the velocity there. */
    fsi__look(grid, middle, middle_cell, middle, sight);
    velocity = fsi__seen_velocity(grid, sight, velocity);
    hit = zero;
    fsi_vec3 end = fsi__reach(grid, own, fsi_vec_mad(X, velocity, dth), &hit);
    fsi__look(grid, end, own, end, sight);

    return hit;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid queries */
FSI_API fsi_vec3 fsi_grid_velocity_at(const fsi_grid *grid, fsi_vec3 x) {
    const fsi_vec3 zero = FSI__ZERO;
    if (!grid || !grid->block || !fsi__finite_vec(x))
        return zero;

    fsi_vec3 X = fsi__to_cells(grid, x);
    if (!grid->occluded) {
        const fsi__mac mac = fsi__grid_mac(grid);
        return fsi__mac_at(&mac, mac.three, X.x, X.y, X.z);
    }
    int own[3];
    fsi__sight sight;
    X = fsi__keep_in_box(grid, X);
    fsi__own_cell(grid, X, own);
    fsi__look(grid, X, own, X, &sight);

    return fsi__seen_velocity(grid, &sight, zero);
}

FSI_API fsi_real fsi_grid_field_at(const fsi_grid *grid, fsi_field field, fsi_vec3 x) {
    const fsi_real *values = fsi_grid_field(grid, field);
    if (!values || !fsi__finite_vec(x))
        return 0;

    int own[3];
    fsi__sight sight;
    fsi_vec3 X = fsi__keep_in_box(grid, fsi__to_cells(grid, x));
    fsi__own_cell(grid, X, own);

    /* phi is continued into solids. */
    if (!grid->occluded || field == FSI_FIELD_PHI)
        fsi__sight_place(grid, X, own, &sight);
    else
        fsi__look(grid, X, own, X, &sight);

    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    fsi_real value = values[fsi__lattice_at(&cells, own)];
    fsi__seen_value(grid, &sight, FSI__CELLS, values, values, &value);

    return value;
}

/* Where a tracer at x comes to in dt: the midpoint rule. */
static fsi_vec3 fsi__trace_point(const fsi_grid *grid, fsi_vec3 x, fsi_real dt) {
    if (!grid->occluded) {
        fsi_vec3 velocity = fsi_grid_velocity_at(grid, x);
        velocity = fsi_grid_velocity_at(grid, fsi_vec_mad(x, velocity, FSI_R(0.5) * dt));
        return fsi__to_cells(grid, fsi_vec_mad(x, velocity, dt));
    }
    int own[3];
    fsi__sight sight;
    fsi_vec3 X = fsi__to_cells(grid, x);
    fsi__own_cell(grid, X, own);
    fsi__seen_path(grid, X, own, dt / grid->h, &sight);
    return sight.X;
}

FSI_API fsi_result fsi_grid_trace(const fsi_grid *grid, int count, fsi_real *x, fsi_real dt) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fsi__finite(dt) || count < 0 || (count > 0 && !x))
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(3 * (size_t)count, x))
        return FSI_ERR_ARGUMENT;

    FSI__PARALLEL(count > 1000)
    for (ptrdiff_t point = 0; point < count; point++) {
        fsi_real *place = x + 3 * point;
        fsi_vec3 X = fsi__trace_point(grid, fsi_vec_load(place), dt);
        fsi_vec3 end = fsi__grid_point(grid, fsi__keep_in_box(grid, X));
        place[0] = end.x;
        place[1] = end.y;
        if (grid->dim == 3)
            place[2] = end.z;
    }

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid advection */
/* Paths are quadratic, with the acceleration from the midpoint rule, once per cell. With m the
   middle of the straight path back, m = x0 - dt/2 u,
     the backward path ends at      x0 - dt u(m),
     the forward path, bent alike,  x0 + dt (2 u - u(m)):      second order.
   A face takes the mean of the ways of its two cells. Samples are traced row by row in chunks, in
   loops without branches; tests/test_grid.c has the same in plain words
   (advection_equals_its_slow_twin).

   Semi-Lagrangian: new = old at the end of the backward path. MacCormack: hat = that;
   new = hat + (old - hat carried forward) / 2, limited to the old values around the end of the
   backward path. Within a cell of a liquid's surface it stays at hat: stencils there hold
   velocities carried on into the air, to which the correction answers by feeding waves
   (test_liquid.c, slosh_comes_to_rest).

   A job carries one or two quantities along the same paths in three passes over the rows:
     0 ways   half the ways of all cells, once for all jobs
     1 back   hat and the stencil around the end of the backward path
     2 forth  the correction */
#define FSI__CHUNK 136 /* samples of a row that are worked on together */
#define FSI__ROUND 8   /* loops of whole vectors take this many samples at a time */
#define FSI__BLOCK 4   /* samples whose stencils are looked at together */
#define FSI__NO_STENCIL INT32_MIN

/* One of the quantities of a job. */
typedef struct fsi__carried {
    const fsi_real *old;
    fsi_real *hat;
    fsi_real *out;
    int correct, limit; /* correct: MacCormack; limit: with limiter */
    fsi_real still;     /* cells: value of fresh air, which comes in through open sides */
} fsi__carried;

typedef struct fsi__job {
    fsi__mac mac;
    int family, samples[3];       /* the samples of the family along each axis */
    fsi_real offset[3];           /* of sample 0, in cells */
    fsi_real dth;                 /* dt / h */
    fsi_real *back[3], *forth[3]; /* [cells] half the ways from the cell centres, in cells */
    fsi_real *most;               /* [3 rows] pass 0: longest half way forth along each axis */
    /* cells: samples this far from a side are not led out of the box by their path, stencil
     * included */
    int reach[3];
    int count; /* quantities, 1 or 2 */
    fsi__carried carried[2];

    /* lower corner at the end of the backward path, relative to the sample; FSI__NO_STENCIL: it
     * left the box, no correction */
    int32_t *stencil;
    const fsi_real *phi;  /* faces of a liquid: correction only below the surface; or NULL */
    fsi_real half_over_h; /* 1 / (2 h) */
    uint8_t *rows;        /* [rows] bit p: pass p has to look at the row; NULL: at all of them */
    int open[6];          /* sides of the box, not 0: open */
} fsi__job;

/* Samples start .. start + count - 1 of row (j, k). */
typedef struct fsi__chunk {
    int j;
    int k;
    int start;
    int count;
} fsi__chunk;

/* Ends of the paths of a chunk, cut into stencils. */
typedef struct fsi__ends {
    fsi_real weight[3][FSI__CHUNK]; /* of the upper samples along each axis */
    int32_t shift[FSI__CHUNK];      /* lower corner of the stencil, relative to the sample itself */
    fsi_real off[FSI__CHUNK];       /* > 0: the path left the box */
} fsi__ends;

/* Coordinate x >= 0: the lower sample, as a real number, and the weight of the upper one. */
FSI__FORCE_INLINE fsi_real fsi__cut_line(fsi_real x, fsi_real *weight) {
    const fsi_real lower = (fsi_real)(int32_t)x;
    *weight = x - lower;
    return lower;
}

/* Coordinate kept on a line of n samples, just short of the last one: its stencil must not begin
   there. */
FSI__FORCE_INLINE fsi_real fsi__keep_on(fsi_real x, int n) {
    const fsi_real end = (fsi_real)(n - 1) * (1 - FSI_REAL_EPS);
    x = x > 0 ? x : 0;
    return x < end ? x : end;
}

/* How far x lies outside of the box, which ends an offset before the first and one behind the last
   sample. */
FSI__FORCE_INLINE fsi_real fsi__beyond(fsi_real x, int n, fsi_real offset) {
    fsi_real kept = x > -offset ? x : -offset;
    kept = kept < (fsi_real)(n - 1) + offset ? kept : (fsi_real)(n - 1) + offset;
    return fsi__abs(x - kept);
}

/* Largest |a| of a chunk, in lanes: vector code. */
FSI__FORCE_INLINE fsi_real fsi__chunk_most(int count, const fsi_real *a) {
    fsi_real lane[8] = FSI__ZERO;
    int i;
    for (i = 0; i + 8 <= count; i += 8) {
        FSI__OMP(simd)
        for (int k = 0; k < 8; k++) {
            const fsi_real size = fsi__abs(a[i + k]);
            lane[k] = size > lane[k] ? size : lane[k];
        }
    }
    for (; i < count; i++)
        lane[0] = fsi__max(lane[0], fsi__abs(a[i]));
    for (int k = 1; k < 8; k++)
        lane[0] = fsi__max(lane[0], lane[k]);
    return lane[0];
}

/* A range of the samples of a chunk; edge: their paths may leave the box. */
typedef struct fsi__part {
    int from;
    int to;
} fsi__part;

/* The next multiple of FSI__ROUND. */
FSI__FORCE_INLINE int fsi__round_up(int count) {
    return (count + FSI__ROUND - 1) & ~(FSI__ROUND - 1);
}

/* Samples from .. to-1. */
FSI__FORCE_INLINE fsi__part fsi__part_of(int from, int to) {
    fsi__part part;
    part.from = from;
    part.to = to;
    return part;
}

/* Cuts the samples first .. last-1 of a chunk, of a line of n cells, into parts whose loops are
   whole vectors as far as the line allows (part 0 may reach into the last edge then):

       first    low                high    last
         | edge   | inside: part 0   | edge  |

   Part 0 holds all samples whose paths surely stay inside, if the row is safe; the parts behind it,
   made after it, all others. Returns the number of parts. */
FSI__FORCE_INLINE int fsi__cut_parts(int n, int reach, int safe, int start, int first, int last,
                                     fsi__part *part) {
    const int below = fsi__iclamp(reach - start, first, last) - first;
    const int above = last - fsi__iclamp(n - reach - start, first, last);
    int low = first + fsi__round_up(below);
    int high = last - fsi__round_up(above);
    if (!safe || low >= high)
        low = high = last;

    int parts = 1;
    part[0] = fsi__part_of(low, fsi__imin(low + fsi__round_up(high - low), last));

    if (low > first)
        part[parts++] = fsi__part_of(first, low);
    if (high < last)
        part[parts++] = fsi__part_of(high, last);

    return parts;
}

/* Do the paths of row (j, k) stay inside across the row? */
FSI__FORCE_INLINE int fsi__row_safe(const fsi__job *job, int three, const fsi__chunk *chunk) {
    const int *n = job->mac.cells;
    const int *reach = job->reach;
    const int safe_y = chunk->j >= reach[1] && chunk->j < n[1] - reach[1];
    return safe_y && (!three || (chunk->k >= reach[2] && chunk->k < n[2] - reach[2]));
}

/* Cuts the ends of the paths of a part of a chunk. above, below: half ways of the cells on the two
   sides of the samples. edge = 0: all paths stay inside, and instead of its own number a sample may
   take any (reach) that keeps the coordinate positive; edge = 1: first kept on the lines, in a loop
   of its own (a compiler that sees both at once makes branches of them). No branches: vector code.
   The shift is summed up in doubles: exact, and products of these are vector code where those of
   ints are not. */
FSI__FORCE_INLINE void fsi__cut_ends(const fsi__job *job, int three, int edge,
                                     const fsi__chunk *chunk, fsi__part part,
                                     const fsi_real *const *above, const fsi_real *const *below,
                                     fsi__ends *ends) {
    const int start = chunk->start;
    const int nx = job->samples[0];
    const int ny = job->samples[1];
    const int nz = job->samples[2];
    const fsi_real *ax = above[0] + start;
    const fsi_real *ay = above[1] + start;
    const fsi_real *bx = below[0] + start;
    const fsi_real *by = below[1] + start;
    const fsi_real *az = three ? above[2] + start : ay;
    const fsi_real *bz = three ? below[2] + start : by;
    const fsi_real x0 = (fsi_real)(edge ? start : job->reach[0]);
    const fsi_real y0 = (fsi_real)(edge ? chunk->j : job->reach[1]);
    const fsi_real z0 = (fsi_real)(edge ? chunk->k : job->reach[2]);
    const double step_y = nx;
    const double step_z = step_y * ny;
    const double here = (double)x0 + step_y * (double)y0 + (three ? step_z * (double)z0 : 0);
    fsi_real *FSI__RESTRICT wx = ends->weight[0];
    fsi_real *FSI__RESTRICT wy = ends->weight[1];
    fsi_real *FSI__RESTRICT wz = ends->weight[2];
    fsi_real *FSI__RESTRICT off = ends->off;
    int32_t *FSI__RESTRICT shift = ends->shift;

    /* Coordinates kept on the lines; the weights' room holds them until they are cut. */
    if (edge) {
        const fsi_real ox = job->offset[0];
        const fsi_real oy = job->offset[1];
        const fsi_real oz = job->offset[2];
        FSI__OMP(simd)
        for (int i = part.from; i < part.to; i++) {
            const fsi_real x = x0 + (fsi_real)i + (ax[i] + bx[i]);
            const fsi_real y = y0 + (ay[i] + by[i]);
            const fsi_real z = three ? z0 + (az[i] + bz[i]) : 0;
            off[i] = fsi__beyond(x, nx, ox) + fsi__beyond(y, ny, oy)
                     + (three ? fsi__beyond(z, nz, oz) : 0);
            wx[i] = fsi__keep_on(x, nx);
            wy[i] = fsi__keep_on(y, ny);
            if (three)
                wz[i] = fsi__keep_on(z, nz);
        }
    }

    /* Lower corners and weights. */
    FSI__OMP(simd)
    for (int i = part.from; i < part.to; i++) {
        const fsi_real x = edge ? wx[i] : x0 + (ax[i] + bx[i]);
        const fsi_real y = edge ? wy[i] : y0 + (ay[i] + by[i]);
        double sum = (double)fsi__cut_line(x, &wx[i]) + step_y * (double)fsi__cut_line(y, &wy[i]);
        if (three) {
            const fsi_real z = edge ? wz[i] : z0 + (az[i] + bz[i]);
            sum += step_z * (double)fsi__cut_line(z, &wz[i]);
        }
        shift[i] = (int32_t)(sum - (edge ? here + (double)i : here));
    }
}

/* First cells of the rows below and above a row of samples; of faces on the box the one there is.
 */
FSI__FORCE_INLINE void fsi__rows_beside(const fsi__job *job, const fsi__chunk *chunk,
                                        ptrdiff_t *low, ptrdiff_t *high) {
    const int *n = job->mac.cells;
    const int low_j = fsi__imax(chunk->j - (job->family == 1), 0);
    const int low_k = fsi__imax(chunk->k - (job->family == 2), 0);
    const int high_j = fsi__imin(chunk->j, n[1] - 1);
    const int high_k = fsi__imin(chunk->k, n[2] - 1);
    *low = n[0] * (low_j + (ptrdiff_t)n[1] * low_k);
    *high = n[0] * (high_j + (ptrdiff_t)n[1] * high_k);
}

/* Ends of the paths of a chunk of the family: by the way of a cell, or the mean of the two cells
   beside a face. Returns 1 when one of them left the box. */
FSI__FORCE_INLINE int fsi__find_ends(const fsi__job *job, int three, int back,
                                     const fsi__chunk *chunk, fsi__ends *ends) {
    const int *n = job->mac.cells;
    const int family = job->family;
    const int count = chunk->count;
    const int safe = fsi__row_safe(job, three, chunk);

    /* Rows of the cells above and below the samples. */
    ptrdiff_t low_row;
    ptrdiff_t high_row;
    fsi__rows_beside(job, chunk, &low_row, &high_row);
    low_row -= family == 0;
    const fsi_real *above[3];
    const fsi_real *below[3];
    const fsi_real *before[3];

    for (int axis = 0; axis < 3; axis++) {
        /* 2D: z is not read. */
        const fsi_real *way = (back ? job->back : job->forth)[axis < 2 || three ? axis : 0];
        above[axis] = way + high_row;
        below[axis] = way + low_row;
        before[axis] = above[axis] - 1;
    }

    /* The x faces on the box have one cell. */
    const int first = family == 0 && chunk->start == 0;
    const int last = count - (family == 0 && chunk->start + count == job->samples[0]);
    fsi__part part[3];
    int parts = fsi__cut_parts(n[0], job->reach[0], safe, chunk->start, first, last, part);
    fsi__cut_ends(job, three, 0, chunk, part[0], above, below, ends);
    for (int i = part[0].from; i < part[0].to; i++)
        ends->off[i] = 0;
    for (int number = 1; number < parts; number++)
        fsi__cut_ends(job, three, 1, chunk, part[number], above, below, ends);
    if (first)
        fsi__cut_ends(job, three, 1, chunk, fsi__part_of(0, 1), above, above, ends);
    if (last < count)
        fsi__cut_ends(job, three, 1, chunk, fsi__part_of(last, count), before, before, ends);

    return fsi__chunk_most(count, ends->off) > 0;
}

/* 1 when all samples of a block have the same shift, as they do where neighbours have gone the same
   number of cells: the loads are contiguous. */
FSI__FORCE_INLINE int fsi__side_by_side(const int32_t *shift) {
    uint64_t pair[FSI__BLOCK / 2]; /* two at a time */
    memcpy(pair, shift, sizeof pair);
    return !((pair[0] ^ pair[1]) | (pair[0] ^ (pair[0] << 32 | pair[0] >> 32)));
}

/* out[i] = interpolated at the cut points; a: the array at the first sample of the chunk. */
FSI__FORCE_INLINE void fsi__mix_chunk(const fsi_real *a, size_t step_y, size_t step_z, int three,
                                      int count, const int32_t *shift, const fsi_real *wx,
                                      const fsi_real *wy, const fsi_real *wz,
                                      fsi_real *FSI__RESTRICT out) {
    for (int from = 0; from < count; from += FSI__BLOCK) {
        if (from + FSI__BLOCK <= count && fsi__side_by_side(shift + from)) {
            const fsi_real *p = a + (ptrdiff_t)shift[from];
            FSI__OMP(simd)
            for (int i = from; i < from + FSI__BLOCK; i++)
                out[i] =
                    fsi__corner_mix(p + i, step_y, step_z, wx[i], wy[i], three ? wz[i] : 0, three);
        } else
            for (int i = from; i < fsi__imin(from + FSI__BLOCK, count); i++)
                out[i] = fsi__corner_mix(a + i + shift[i], step_y, step_z, wx[i], wy[i],
                                         three ? wz[i] : 0, three);
    }
}

/* The middles of the straight paths back from the cells of a chunk, cut along each axis among
   centres [0] and among faces [1]. */
typedef struct fsi__middles {
    fsi_real velocity[3][FSI__CHUNK];  /* at the cells */
    fsi_real weight[3][2][FSI__CHUNK]; /* of the upper sample */
    fsi_real lower[3][2][FSI__CHUNK];  /* the lower sample, relative to the cell */
} fsi__middles;

/* Cuts the middles of a part of a chunk along one axis. u: the faces below the cells, those above
   are step further on; own: number of the first cell along the axis. edge as in fsi__cut_ends. */
FSI__FORCE_INLINE void fsi__cut_middles(const fsi__job *job, int axis, int edge, int own,
                                        fsi__part part, const fsi_real *u, ptrdiff_t step,
                                        fsi__middles *middles) {
    const fsi_real half = FSI_R(0.5);
    const fsi_real back = -half * job->dth;
    const int n = job->samples[axis];
    const int moves = edge && axis == 0; /* from sample to sample */
    const fsi_real first = (fsi_real)(edge ? own : job->reach[axis]);
    fsi_real *FSI__RESTRICT velocity = middles->velocity[axis];
    fsi_real *FSI__RESTRICT centre = middles->weight[axis][0];
    fsi_real *FSI__RESTRICT face = middles->weight[axis][1];
    fsi_real *FSI__RESTRICT lower_centre = middles->lower[axis][0];
    fsi_real *FSI__RESTRICT lower_face = middles->lower[axis][1];

    /* Velocities at the centres; at an edge the coordinates, kept on the lines. */
    FSI__OMP(simd)
    for (int i = part.from; i < part.to; i++) {
        velocity[i] = half * (u[i] + u[i + step]);
        if (!edge)
            continue;
        const fsi_real x = (moves ? first + (fsi_real)i : first) + back * velocity[i];
        centre[i] = fsi__keep_on(x, n);
        face[i] = fsi__keep_on(x + half, n + 1);
    }

    /* Lower samples and weights. */
    FSI__OMP(simd)
    for (int i = part.from; i < part.to; i++) {
        const fsi_real here = moves ? first + (fsi_real)i : first;
        const fsi_real x = here + back * velocity[i];
        lower_centre[i] = fsi__cut_line(edge ? centre[i] : x, &centre[i]) - here;
        lower_face[i] = fsi__cut_line(edge ? face[i] : x + half, &face[i]) - here;
    }
}

/* The same along all axes. u: the rows of the faces. */
FSI__FORCE_INLINE void fsi__cut_all_middles(const fsi__job *job, int three, int edge,
                                            const fsi__chunk *chunk, fsi__part part,
                                            const fsi_real *const *u, fsi__middles *middles) {
    const int start = chunk->start;
    const ptrdiff_t row = job->samples[0];
    fsi__cut_middles(job, 0, edge, start, part, u[0] + start, 1, middles);
    fsi__cut_middles(job, 1, edge, chunk->j, part, u[1] + start, row, middles);
    if (three)
        fsi__cut_middles(job, 2, edge, chunk->k, part, u[2] + start, row * job->samples[1],
                         middles);
}

/* Pass 0. Half the ways of the cells of a chunk: back -dt u(m), forth dt (2 u - u(m)), with m the
   middle of the straight path back. The job is one of cells. */
FSI__FORCE_INLINE void fsi__ways_chunk(const fsi__job *job, int three, const fsi__chunk *chunk) {
    const ptrdiff_t nx = job->samples[0];
    const ptrdiff_t ny = job->samples[1];
    const ptrdiff_t line = chunk->j + ny * chunk->k;
    const ptrdiff_t row = chunk->start + nx * line;
    const int start = chunk->start;
    const int count = chunk->count;
    const fsi_real *u[3];
    const fsi_real half = FSI_R(-0.5) * job->dth;
    for (int axis = 0; axis < 3; axis++) {
        const ptrdiff_t face_row = chunk->j + (ny + (axis == 1)) * chunk->k;
        u[axis] = job->mac.u[axis] ? job->mac.u[axis] + (nx + (axis == 0)) * face_row : NULL;
    }

    fsi__middles middles;
    fsi__part part[3];
    const int safe = fsi__row_safe(job, three, chunk);
    int parts = fsi__cut_parts(job->samples[0], job->reach[0], safe, start, 0, count, part);
    fsi__cut_all_middles(job, three, 0, chunk, part[0], u, &middles);
    for (int number = 1; number < parts; number++)
        fsi__cut_all_middles(job, three, 1, chunk, part[number], u, &middles);

    for (int axis = 0; axis < 2 + three; axis++) {
        const size_t width = (size_t)nx + (axis == 0);
        const size_t height = (size_t)ny + (axis == 1);
        const fsi_real *velocity = middles.velocity[axis];
        fsi_real *FSI__RESTRICT back = job->back[axis] + row;
        fsi_real *FSI__RESTRICT forth = job->forth[axis] + row;
        fsi_real at_middle[FSI__CHUNK];

        /* The component lies on faces along its axis, and on centres across. */
        const fsi_real *x = middles.lower[0][axis == 0];
        const fsi_real *y = middles.lower[1][axis == 1];
        const fsi_real *z = middles.lower[2][axis == 2];
        const double step_y = (double)width;
        const double step_z = step_y * (double)height;
        int32_t shift[FSI__CHUNK];
        FSI__OMP(simd)
        for (int i = 0; i < count; i++)
            shift[i] = (int32_t)((double)x[i] + step_y * (double)y[i]
                                 + (three ? step_z * (double)z[i] : 0));
        fsi__mix_chunk(u[axis] + start, width, width * height, three, count, shift,
                       middles.weight[0][axis == 0], middles.weight[1][axis == 1],
                       middles.weight[2][axis == 2], at_middle);
        FSI__OMP(simd)
        for (int i = 0; i < count; i++) {
            back[i] = half * at_middle[i];
            forth[i] = half * (at_middle[i] - 2 * velocity[i]);
        }
        fsi_real *most = job->most + 3 * line + axis;
        fsi_real longest = fsi__chunk_most(count, forth);
        *most = start > 0 ? fsi__max(*most, longest) : longest;
    }
}

/* Does the path back from cell (i, j, k) lead out through an open side, so that fresh air comes in?
 */
static int fsi__enters(const fsi__job *job, int i, int j, int k) {
    const ptrdiff_t cell = i + job->samples[0] * (j + (ptrdiff_t)job->samples[1] * k);
    const int at[3] = {i, j, k};
    for (int axis = 0; axis < 2 + job->mac.three; axis++) {
        const fsi_real x = (fsi_real)at[axis] + 2 * job->back[axis][cell];
        if (x < FSI_R(-0.5) && job->open[2 * axis])
            return 1;
        if (x > (fsi_real)job->samples[axis] - FSI_R(0.5) && job->open[2 * axis + 1])
            return 1;
    }
    return 0;
}

/* Where pass 1 puts the value of sample `sample`: into hat, when a correction follows. */
FSI__FORCE_INLINE fsi_real *fsi__back_value(const fsi__job *job, int which, ptrdiff_t sample) {
    const fsi__carried *carried = &job->carried[which];
    return (carried->correct ? carried->hat : carried->out) + sample;
}

/* Pass 1. The old values at the ends of the backward paths. */
FSI__FORCE_INLINE void fsi__advect_back(const fsi__job *job, int three, const fsi__chunk *chunk) {
    const size_t step_y = (size_t)job->samples[0];
    const size_t step_z = step_y * (size_t)job->samples[1];
    const ptrdiff_t row =
        (ptrdiff_t)((size_t)chunk->start + step_y * (size_t)chunk->j + step_z * (size_t)chunk->k);
    fsi__ends ends;
    int off = fsi__find_ends(job, three, 1, chunk, &ends);
    for (int which = 0; which < job->count; which++)
        fsi__mix_chunk(job->carried[which].old + row, step_y, step_z, three, chunk->count,
                       ends.shift, ends.weight[0], ends.weight[1], ends.weight[2],
                       fsi__back_value(job, which, row));

    /* Paths that left the box: no correction, and fresh air where they left through an open side.
     */
    for (int i = 0; off && i < chunk->count; i++) {
        if (!(ends.off[i] > 0))
            continue;
        ends.shift[i] = FSI__NO_STENCIL;
        if (job->family != FSI__CELLS || !fsi__enters(job, chunk->start + i, chunk->j, chunk->k))
            continue;
        for (int which = 0; which < job->count; which++)
            *fsi__back_value(job, which, row + i) = job->carried[which].still;
    }
    memcpy(job->stencil + row, ends.shift, (size_t)chunk->count * sizeof ends.shift[0]);
}

/* Value kept between the least and the largest of the corners of a stencil. */
FSI__FORCE_INLINE fsi_real fsi__limit(const fsi_real *p, size_t step_y, size_t step_z, int three,
                                      fsi_real value) {
    const size_t y = step_y;
    fsi_real lo = fsi__min(fsi__min(p[0], p[1]), fsi__min(p[y], p[y + 1]));
    fsi_real hi = fsi__max(fsi__max(p[0], p[1]), fsi__max(p[y], p[y + 1]));
    if (three) {
        p += step_z;
        lo = fsi__min(lo, fsi__min(fsi__min(p[0], p[1]), fsi__min(p[y], p[y + 1])));
        hi = fsi__max(hi, fsi__max(fsi__max(p[0], p[1]), fsi__max(p[y], p[y + 1])));
    }
    return fsi__min(fsi__max(value, lo), hi);
}

/* out = MacCormack where both paths stay in the box and away from solids (shift), else hat. limit:
   to the old values around the end of the backward path. */
FSI__FORCE_INLINE void fsi__correct_chunk(size_t step_y, size_t step_z, int three, int limit,
                                          int count, const int32_t *shift, const fsi_real *hat,
                                          const fsi_real *old, const fsi_real *forth,
                                          fsi_real *FSI__RESTRICT out) {
    for (int from = 0; from < count; from += FSI__BLOCK) {
        const int whole = from + FSI__BLOCK <= count;
        if (whole && shift[from] != FSI__NO_STENCIL && fsi__side_by_side(shift + from)) {
            const fsi_real *p = old + (ptrdiff_t)shift[from];
            FSI__OMP(simd)
            for (int i = from; i < from + FSI__BLOCK; i++) {
                const fsi_real value = hat[i] + FSI_R(0.5) * (old[i] - forth[i]);
                out[i] = limit ? fsi__limit(p + i, step_y, step_z, three, value) : value;
            }
        } else
            for (int i = from; i < fsi__imin(from + FSI__BLOCK, count); i++) {
                fsi_real value = hat[i] + FSI_R(0.5) * (old[i] - forth[i]);
                if (shift[i] == FSI__NO_STENCIL)
                    value = hat[i];
                else if (limit)
                    value = fsi__limit(old + i + shift[i], step_y, step_z, three, value);
                out[i] = value;
            }
    }
}

/* Takes the correction, old - forth, away where a face lies within a cell of the liquid's surface
   or above it; two cells deep it is whole. */
FSI__FORCE_INLINE void fsi__spare_surface(const fsi__job *job, const fsi__chunk *chunk,
                                          const fsi_real *old, fsi_real *forth) {
    const int family = job->family;
    const int *n = job->mac.cells;
    ptrdiff_t low_row;
    ptrdiff_t high_row;
    fsi__rows_beside(job, chunk, &low_row, &high_row);
    const fsi_real *low = job->phi + low_row;
    const fsi_real *high = job->phi + high_row;
    for (int i = 0; i < chunk->count; i++) {
        const int x = chunk->start + i;
        const int low_x = family == 0 ? fsi__imax(x - 1, 0) : x;
        const fsi_real depth = -job->half_over_h * (low[low_x] + high[fsi__imin(x, n[0] - 1)]);
        forth[i] = old[i] + fsi__min(fsi__max(depth - 1, 0), 1) * (forth[i] - old[i]);
    }
}

/* Pass 2. hat is carried forward again, and half of what that misses corrects it. */
FSI__FORCE_INLINE void fsi__advect_forth(const fsi__job *job, int three, const fsi__chunk *chunk) {
    const size_t step_y = (size_t)job->samples[0];
    const size_t step_z = step_y * (size_t)job->samples[1];
    const ptrdiff_t row =
        (ptrdiff_t)((size_t)chunk->start + step_y * (size_t)chunk->j + step_z * (size_t)chunk->k);
    const int count = chunk->count;
    int32_t *stencil = job->stencil + row;
    fsi__ends ends;
    int off = fsi__find_ends(job, three, 0, chunk, &ends);
    for (int i = 0; off && i < count; i++)
        if (ends.off[i] > 0)
            stencil[i] = FSI__NO_STENCIL;

    for (int which = 0; which < job->count; which++) {
        const fsi__carried *carried = &job->carried[which];
        if (!carried->correct)
            continue;
        const fsi_real *hat = carried->hat + row;
        const fsi_real *old = carried->old + row;
        fsi_real forth[FSI__CHUNK];
        fsi_real *out = carried->out + row;
        fsi__mix_chunk(hat, step_y, step_z, three, count, ends.shift, ends.weight[0],
                       ends.weight[1], ends.weight[2], forth);
        if (job->phi)
            fsi__spare_surface(job, chunk, old, forth);

        /* Two versions: the compiler must not ask for the limiter in the loop. */
        if (carried->limit)
            fsi__correct_chunk(step_y, step_z, three, 1, count, stencil, hat, old, forth, out);
        else
            fsi__correct_chunk(step_y, step_z, three, 0, count, stencil, hat, old, forth, out);
    }
}

/* One row of a pass. The compiler makes one version of each for 2D and one for 3D. */
FSI__FORCE_INLINE void fsi__advect_row(const fsi__job *job, int pass, ptrdiff_t row) {
    const int three = job->mac.three;
    fsi__chunk chunk;
    chunk.j = (int)(row % job->samples[1]);
    chunk.k = (int)(row / job->samples[1]);

    for (chunk.start = 0; chunk.start < job->samples[0]; chunk.start += FSI__CHUNK) {
        chunk.count = fsi__imin(FSI__CHUNK, job->samples[0] - chunk.start);
        if (pass == 0 && three)
            fsi__ways_chunk(job, 1, &chunk);
        else if (pass == 0)
            fsi__ways_chunk(job, 0, &chunk);
        else if (pass == 1 && three)
            fsi__advect_back(job, 1, &chunk);
        else if (pass == 1)
            fsi__advect_back(job, 0, &chunk);
        else if (three)
            fsi__advect_forth(job, 1, &chunk);
        else
            fsi__advect_forth(job, 0, &chunk);
    }
}

/* One row with the vectors that the compiler was told of. */
static void fsi__advect_row_plain(const fsi__job *job, int pass, ptrdiff_t row) {
    fsi__advect_row(job, pass, row);
}

/* The same plain loops once more for processors with wider vectors (no fused operations: same
   bits), chosen when the program runs. */
#if defined(__x86_64__) && !defined(__AVX2__) && (defined(__GNUC__) || defined(__clang__))         \
    && !defined(__TINYC__)
__attribute__((target("avx2"))) static void fsi__advect_row_wide(const fsi__job *job, int pass,
                                                                 ptrdiff_t row) {
    fsi__advect_row(job, pass, row);
}

static int fsi__wide(void) {
    return __builtin_cpu_supports("avx2") != 0;
}
#else
#define fsi__advect_row_wide fsi__advect_row_plain

static int fsi__wide(void) {
    return 0;
}
#endif

/* A pass over rows from .. to-1, in parallel. */
static void fsi__advect_pass(const fsi__job *job, int pass, ptrdiff_t from, ptrdiff_t to) {
    void (*const advect)(const fsi__job *, int, ptrdiff_t) =
        fsi__wide() ? fsi__advect_row_wide : fsi__advect_row_plain;
    FSI__PARALLEL((to - from) * job->samples[0] > 8000)
    for (ptrdiff_t row = from; row < to; row++)
        if (!job->rows || (job->rows[row] & pass))
            advect(job, pass, row);
}

/* ------------------------------------------------------------------------------------------------
 * >>grid advection beside solids */
/* Sample at[3] of the job's family as a cell sees it: above = 0 the cell below a face, 1 the
   one above it. Leaves value where both cells are solid. */
static void fsi__seen_sample(const fsi_grid *grid, const fsi__job *job, const int *at, int above,
                             fsi_real *value) {
    const int family = job->family;
    int own[3] = {at[0], at[1], at[2]};

    if (family != FSI__CELLS) {
        /* The cell of that side; the other one when it is solid or outside the box. */
        const int last = job->mac.cells[family] - 1;
        own[family] -= !above;
        if (own[family] < 0 || (own[family] <= last && fsi__solid_at(grid, own)))
            own[family] += above ? -1 : 1;
        own[family] = fsi__iclamp(own[family], 0, last);
    }
    if (fsi__solid_at(grid, own))
        return;

    fsi__sight sight;
    fsi_vec3 X = fsi__sample_place(family, at);
    fsi_vec3 hit = fsi__seen_path(grid, X, own, -job->dth, &sight);

    for (int which = 0; which < job->count; which++) {
        const fsi_real *old = job->carried[which].old;
        if (family != FSI__CELLS)
            value[which] = fsi__get(fsi__seen_velocity(grid, &sight, hit), family);
        else
            fsi__seen_value(grid, &sight, FSI__CELLS, old, old, &value[which]);
    }
}

/* The samples of rows from .. to-1 whose paths may meet a solid, done again with sight; linear
   interpolation only (no stencil: no correction). */
static void fsi__advect_seen(const fsi_grid *grid, const fsi__job *job, ptrdiff_t from,
                             ptrdiff_t to) {
    const int family = job->family;
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    const fsi__lattice samples = fsi__grid_lattice(grid, family);
    FSI__OMP(parallel for schedule(static))
    for (ptrdiff_t row = from; row < to; row++) {
        int at[3];
        fsi__lattice_row(&samples, row, at);
        for (; at[0] < samples.n[0]; at[0]++) {
            int cell[3];
            for (int axis = 0; axis < 3; axis++)
                cell[axis] = fsi__imin(at[axis], cells.n[axis] - 1);
            if (!grid->near_cell[fsi__lattice_at(&cells, cell)])
                continue;

            /* The common sample, or that of the cell below a shell. */
            const ptrdiff_t sample = fsi__lattice_at(&samples, at);
            fsi_real value[2] = FSI__ZERO;
            for (int which = 0; which < job->count; which++)
                value[which] = job->carried[which].old[sample];
            fsi__seen_sample(grid, job, at, 0, value);
            for (int which = 0; which < job->count; which++)
                *fsi__back_value(job, which, sample) = value[which];
            job->stencil[sample] = FSI__NO_STENCIL;
            if (family == FSI__CELLS || !grid->u_plus[family])
                continue;

            /* That of the cell above it. */
            const fsi__mac_face face = fsi__face_at(grid, family, at);
            if (fsi__blocked(grid, &face)) {
                value[0] = grid->u_plus[family][sample];
                fsi__seen_sample(grid, job, at, 1, value);
            }
            grid->plus_work[family][sample] = value[0];
        }
    }
}

/* Plus samples: the common one where the face is not blocked; elsewhere their own, new ones where
   they are given. */
static void fsi__renew_plus(fsi_grid *grid, int axis, const fsi_real *given) {
    const fsi__lattice faces = fsi__grid_lattice(grid, axis);
    const fsi_real *u = grid->u[axis];
    fsi_real *plus = grid->u_plus[axis];
    for (ptrdiff_t row = 0; row < faces.rows; row++) {
        fsi__mac_face face = fsi__first_face(grid, axis, row);
        for (int i = 0; i < faces.n[0]; i++, fsi__next_face(&face))
            if (!fsi__blocked(grid, &face))
                plus[face.face] = u[face.face];
            else if (given)
                plus[face.face] = given[face.face];
    }
}

/* Marks (0 or 1) of a row grow by reach to both sides, into the gaps between them. */
static void fsi__grow_row(uint8_t *mark, int count, int reach) {
    int gap = 0; /* begins behind the last mark */
    for (int i = 0; i <= count; i++) {
        if (i < count && !mark[i])
            continue;
        const int size = i - gap;
        const int grown = fsi__imin(reach, size);
        if (gap > 0)
            memset(mark + gap, 1, (size_t)grown);
        if (i < count)
            memset(mark + i - grown, 1, (size_t)grown);
        gap = i + 1;
    }
}

/* Marks grow along one axis: `count` lines of `width` neighbours each, `step` apart. A mark counts
   down from reach + 1 as it is carried from line to line, forth and back. */
static void fsi__grow_lines(uint8_t *mark, size_t width, size_t step, int count, int reach) {
    const uint8_t full = (uint8_t)(reach + 1);
    if (reach > 250) {
        for (int line = 0; line < count; line++)
            memset(mark + (size_t)line * step, 1, width);
        return;
    }
    for (int back = 0; back < 2; back++)
        for (int line = 0; line < count; line++) {
            uint8_t *own = mark + (size_t)(back ? count - 1 - line : line) * step;
            const uint8_t *before = own;
            if (line > 0)
                before = back ? own + step : own - step;
            FSI__OMP(simd)
            for (size_t i = 0; i < width; i++) {
                const uint8_t here = back ? own[i] : (uint8_t)(own[i] ? full : 0);
                const uint8_t left = (uint8_t)(before[i] > 0 ? before[i] - 1 : 0);
                own[i] = here > left || line == 0 ? here : left;
            }
        }
    for (int line = 0; line < count; line++)
        for (size_t i = 0; i < width; i++)
            mark[(size_t)line * step + i] = mark[(size_t)line * step + i] != 0;
}

/* Marks of a box of n[0] * n[1] * n[2] samples grow along all axes. */
static void fsi__grow_all(uint8_t *mark, const int *n, const int *reach) {
    const size_t nx = (size_t)n[0];
    const size_t plane = nx * (size_t)n[1];
    FSI__PARALLEL(plane * (size_t)n[2] > FSI__MANY)
    for (ptrdiff_t k = 0; k < n[2]; k++) {
        for (int j = 0; j < n[1]; j++)
            fsi__grow_row(mark + (size_t)k * plane + (size_t)j * nx, n[0], reach[0]);
        fsi__grow_lines(mark + (size_t)k * plane, nx, nx, n[1], reach[1]);
    }
    if (n[2] > 1)
        fsi__grow_lines(mark, plane, plane, n[2], reach[2]);
}

/* near_cell: cells within reach of a surface: those that touch one, grown by the longest path and
   the stencils. shells: of shells only (where the flow goes on into closed solids only they hide
   anything from the advection). */
static void fsi__mark_near(fsi_grid *grid, fsi_real dt, int shells) {
    const fsi_occlusion *occlusion = &grid->occlusion;
    const uint8_t *solid = occlusion->solid;
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t row = 0; row < cells.rows; row++) {
        const ptrdiff_t first = row * cells.n[0];
        uint8_t *mark = grid->near_cell + first;
        int at[3];
        fsi__lattice_row(&cells, row, at);
        for (int i = 0; i < cells.n[0]; i++)
            mark[i] = (uint8_t)(solid && !shells && solid[first + i]);

        for (int axis = 0; axis < grid->dim; axis++) {
            const ptrdiff_t step = cells.step[axis];
            const ptrdiff_t face = fsi__face_at(grid, axis, at).face;
            const uint8_t *blocked = occlusion->blocked[axis];
            const fsi_real *open = occlusion->open[axis];
            if (axis > 0 && at[axis] == 0)
                continue;
            for (int i = axis == 0; blocked && i < cells.n[0]; i++) {
                const int hidden = shells && solid && (solid[first + i] || solid[first + i - step]);
                if (blocked[face + i] && !hidden)
                    mark[i] = 1;
            }
            for (int i = axis == 0; open && !shells && i < cells.n[0]; i++)
                if (open[face + i] < 1)
                    mark[i] = 1;
        }
    }

    const fsi_real cfl = fsi__max_speed(grid, NULL) * dt / grid->h;
    const int far_off = cfl < FSI_R(1e6) ? 4 + (int)cfl : 1000000;
    const int reach[3] = {far_off, far_off, far_off};
    fsi__grow_all(grid->near_cell, cells.n, reach);
}

/* ------------------------------------------------------------------------------------------------
 * >>grid advection jobs */
/* A job without quantities; longest: the longest ways along each axis, cells. */
static void fsi__job_begin(const fsi_grid *grid, int family, fsi_real dt, const fsi_real *longest,
                           fsi__job *job) {
    memset(job, 0, sizeof *job);
    job->mac = fsi__grid_mac(grid);
    job->family = family;
    const fsi__lattice samples = fsi__grid_lattice(grid, family);
    memcpy(job->samples, samples.n, sizeof job->samples);
    for (int axis = 0; axis < 3; axis++)
        job->offset[axis] = axis == family ? 0 : FSI_R(0.5);
    job->dth = dt / grid->h;
    job->stencil = grid->stencil;
    job->phi = family != FSI__CELLS ? grid->phi : NULL;
    job->half_over_h = FSI_R(0.5) / grid->h;
    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        job->open[side] = fsi__side_open(grid, side);
    for (int axis = 0; axis < 3; axis++) {
        job->reach[axis] = longest[axis] < FSI_R(1e6) ? 2 + (int)longest[axis] : 1 << 29;

        /* weight and rhs are free until build_pressure makes new ones. */
        job->back[axis] = grid->weight[axis];
        job->forth[axis] = axis == 0 ? grid->rhs : grid->way[axis - 1];
    }
}

/* Adds a quantity to a job. still: its value in fresh air. */
static void fsi__job_add(fsi__job *job, const fsi_real *old, fsi_real *hat, fsi_real *out,
                         fsi_advection mode, fsi_real still) {
    fsi__carried *carried = &job->carried[job->count++];
    carried->old = old;
    carried->hat = hat;
    carried->out = out;
    carried->correct = mode == FSI_ADVECT_MACCORMACK || mode == FSI_ADVECT_MACCORMACK_FREE;
    carried->limit = mode == FSI_ADVECT_MACCORMACK;
    carried->still = still;
}

/* How far the values of a row are from the still value. Not finite when one of them is not. */
static fsi_real fsi__row_stirred(int count, const fsi_real *values, fsi_real still) {
    fsi_real most = fsi_max_abs((size_t)count, values);
    if (!(fsi__abs(still) > 0) || !fsi__finite(most))
        return most;

    most = 0;
    for (int i = 0; i < count; i++)
        most = fsi__max(most, fsi__abs(values[i] - still));
    return most;
}

/* Smoke fills a part of the box only. Rows whose values lie within round-off (of the largest) of
   the still value, and whose neighbours within reach do, keep them: no work there. Bit 2 of rows:
   the row may change; bit 1: a row that may change needs its hat. The job carries scalars. Returns
   0 when one of them is not finite. */
static int fsi__find_calm_rows(fsi_grid *grid, fsi__job *job) {
    const ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    const int lines[3] = {1, grid->ny, grid->nz}; /* a row is one mark wide */
    const int reach[3] = {0, job->reach[1], job->reach[2]};
    uint8_t *may = grid->mark[0];
    uint8_t *needed = grid->mark[1];
    fsi_real *stirred = grid->scalar_work;
    memset(may, 0, (size_t)rows);

    for (int which = 0; which < job->count; which++) {
        const fsi__carried *carried = &job->carried[which];
        FSI__PARALLEL(grid->cells > FSI__MANY)
        for (ptrdiff_t row = 0; row < rows; row++)
            stirred[row] =
                fsi__row_stirred(grid->nx, carried->old + row * grid->nx, carried->still);
        fsi_real limit = FSI_REAL_EPS * fsi_max_abs((size_t)rows, stirred);
        if (!fsi__finite(limit))
            return 0;
        for (ptrdiff_t row = 0; row < rows; row++)
            may[row] |= stirred[row] > limit;
    }
    fsi__grow_all(may, lines, reach);
    memcpy(needed, may, (size_t)rows);
    fsi__grow_all(needed, lines, reach);
    for (ptrdiff_t row = 0; row < rows; row++)
        may[row] = (uint8_t)(needed[row] + 2 * may[row]);
    job->rows = may;

    return 1;
}

/* Brings finished rows of a quantity to where they belong. */
static void fsi__copy_rows(const fsi__job *job, int which, ptrdiff_t from, ptrdiff_t to,
                           fsi_real *field) {
    const ptrdiff_t width = job->samples[0];
    const fsi_real *out = job->carried[which].out;
    FSI__PARALLEL((to - from) * width > 8000)
    for (ptrdiff_t row = from; row < to; row++)
        if (!job->rows || (job->rows[row] & 2u))
            memcpy(field + row * width, out + row * width, (size_t)width * sizeof *field);
}

/* All passes of a job, layer after layer (a plane, in 2D a row), each pass as far behind the one
   before it as paths reach: what a pass makes is still in the cache when the next one reads it (5 %
   of the time at 128^3). field: where the results go; NULL: they stay in out. */
static void fsi__job_run(fsi_grid *grid, fsi__job *job, fsi_real *const *field) {
    const int three = job->mac.three;
    const int layers = job->samples[1 + three];
    const int reach = fsi__imin(job->reach[1 + three], layers);
    const ptrdiff_t rows = three ? job->samples[1] : 1; /* of a layer */
    const int step = (int)(1 + 131072 / (rows * job->samples[0]));
    int back = 0;
    int forth = 0;
    int copied = 0; /* layers done by each pass */
    while (forth < layers || (field && copied < layers)) {
        /* Backward. */
        int to = fsi__imin(back + step, layers);
        fsi__advect_pass(job, 1, back * rows, to * rows);
        if (grid->occluded)
            fsi__advect_seen(grid, job, back * rows, to * rows);
        back = to;

        /* Correction, as far as hat is known. */
        to = back == layers ? layers : fsi__imax(back - reach, forth);
        if (job->carried[0].correct || job->carried[1].correct)
            fsi__advect_pass(job, 2, forth * rows, to * rows);
        forth = to;

        /* Old values are overwritten where no correction looks at them any more. */
        to = forth == layers ? layers : fsi__imax(forth - reach, copied);
        for (int which = 0; which < job->count && field; which++)
            fsi__copy_rows(job, which, copied * rows, to * rows, field[which]);
        copied = to;
    }
}

/* Pass 0: the ways of all cells; longest: the longest ones along each axis, cells. */
static void fsi__find_ways(fsi_grid *grid, fsi_real dt, const fsi_real *axis_speed,
                           fsi_real *longest) {
    const ptrdiff_t rows = (ptrdiff_t)grid->ny * grid->nz;
    for (int axis = 0; axis < 3; axis++)
        longest[axis] = FSI_R(0.5) * (dt / grid->h * axis_speed[axis] + 1);
    fsi__job job;
    fsi__job_begin(grid, FSI__CELLS, dt, longest, &job);
    job.most = grid->scalar_work;
    fsi__advect_pass(&job, 0, 0, rows);
    for (int axis = 0; axis < 3; axis++) {
        longest[axis] = dt / grid->h * axis_speed[axis]; /* back */
        for (ptrdiff_t row = 0; row < rows && axis < grid->dim; row++)
            longest[axis] = fsi__max(longest[axis], 2 * job.most[3 * row + axis]);
    }
}

/* All scalars, two at a time, by the old velocity. */
static fsi_result fsi__advect_scalars(fsi_grid *grid, fsi_real dt, const fsi_real *longest) {
    fsi_real *const hat[2] = {grid->vector_work[0], grid->vector_work[1]};
    fsi_real *const out[2] = {grid->vector_work[2], grid->scalar_work};
    for (int which = FSI_FIELD_DENSITY; which < FSI__FIELDS;) {
        fsi__job job;
        fsi_real *field[2];
        fsi__job_begin(grid, FSI__CELLS, dt, longest, &job);
        for (; which < FSI__FIELDS && job.count < 2; which++) {
            const int place = job.count;
            const fsi_advection mode = fsi__field_mode(grid, which);
            fsi_real *values = fsi_grid_field(grid, (fsi_field)which);
            if (!values || mode == FSI_ADVECT_NONE)
                continue;
            field[place] = values;
            fsi__job_add(&job, values, hat[place], out[place], mode,
                         which == FSI_FIELD_TEMPERATURE ? grid->desc.ambient : 0);
        }
        if (!job.count)
            continue;

        /* Only the first ones can be not finite: nothing has changed yet. */
        if (!fsi__find_calm_rows(grid, &job))
            return FSI_ERR_NUMERIC;
        fsi__job_run(grid, &job, field);
    }

    return FSI_OK;
}

/* The velocity by itself, axis by axis. Next to solids all components of the old velocity are
   looked at again: there the new ones wait until all are known. */
static void fsi__advect_velocity(fsi_grid *grid, fsi_real dt, const fsi_real *longest) {
    fsi_real *const *moved = grid->vector_work;
    fsi_real *hat = grid->scalar_work;
    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real *carried = grid->carried[axis] ? grid->carried[axis] : grid->u[axis];
        fsi__job job;
        fsi__job_begin(grid, axis, dt, longest, &job);
        fsi__job_add(&job, carried, hat, moved[axis], grid->desc.advect_velocity, 0);
        fsi__job_run(grid, &job, grid->occluded ? NULL : &grid->u[axis]);
    }
    for (int axis = 0; axis < grid->dim; axis++) {
        if (grid->occluded)
            fsi_copy(grid->faces[axis], moved[axis], grid->u[axis]);
        grid->carried[axis] = NULL;
        if (grid->u_plus[axis])
            fsi__renew_plus(grid, axis, grid->plus_work[axis]);
    }
}

FSI_API fsi_result fsi_grid_advect(fsi_grid *grid, fsi_real dt) {
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;

    double start = fsi__now(grid);
    fsi_real speed;
    fsi_real longest[3];
    fsi_real axis_speed[3] = FSI__ZERO;
    if ((result = fsi__check_state(grid, &speed, axis_speed)) < 0)
        return result;

    grid->stats.max_speed = (double)speed;
    grid->stats.cfl = grid->stats.max_speed * (double)dt / (double)grid->h;

    if (grid->occluded)
        fsi__mark_near(grid, dt, grid->occlusion.smooth);
    fsi__find_ways(grid, dt, axis_speed, longest);
    grid->weights_are_one = 0; /* the weights' room holds the ways */
    if ((result = fsi__advect_scalars(grid, dt, longest)) < 0)
        return result;
    if (grid->desc.advect_velocity != FSI_ADVECT_NONE)
        fsi__advect_velocity(grid, dt, longest);
    fsi__set_walls(grid, 0);
    grid->stats.seconds_advect = fsi__now(grid) - start;

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sources */
/* Extent of a source along an axis, m; 0 when it has none (a callback). */
static int fsi__source_extent(const fsi_grid_source *source, int axis, fsi_real *lo, fsi_real *hi) {
    *lo = fsi__get(source->lo, axis);
    *hi = fsi__get(source->hi, axis);
    if (source->shape == FSI_SOURCE_SPHERE) {
        *lo = fsi__get(source->centre, axis) - source->radius;
        *hi = fsi__get(source->centre, axis) + source->radius;
    }
    return source->shape != FSI_SOURCE_CALLBACK;
}

/* Refuses values that are not finite and shapes that are empty or outside the box. */
static int fsi__source_valid(const fsi_grid *grid, const fsi_grid_source *source) {
    if (source->set == 0 || (int)source->shape < 0 || (int)source->shape > FSI_SOURCE_CALLBACK)
        return 0;
    if (source->shape == FSI_SOURCE_CALLBACK && !source->distance_fn)
        return 0;

    const fsi_real values[] = {source->density, source->temperature, source->divergence};
    if (!fsi_all_finite(3, values) || !fsi_all_finite(FSI_GRID_SCALARS, source->scalar))
        return 0;

    /* Times may be infinite, but not no numbers. */
    if (!(source->start <= source->start + 1) || !(source->stop <= source->stop + 1))
        return 0;
    if (!fsi__finite_vec(source->velocity))
        return 0;

    const int cells[3] = {grid->nx, grid->ny, grid->nz};

    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real origin = fsi__get(grid->origin, axis);
        fsi_real lo;
        fsi_real hi;
        if (!fsi__source_extent(source, axis, &lo, &hi))
            break;
        if (!fsi__finite(lo) || !fsi__finite(hi) || !(lo < hi))
            return 0;
        if (hi < origin || lo > origin + (fsi_real)cells[axis] * grid->h)
            return 0;
    }

    return 1;
}

FSI_API fsi_result fsi_grid_add_source(fsi_grid *grid, const fsi_grid_source *source) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!source || !fsi__source_valid(grid, source))
        return FSI_ERR_ARGUMENT;
    if (grid->source_count >= FSI_GRID_SOURCES)
        return FSI_ERR_SIZE;

    fsi_grid_source *own = &grid->source[grid->source_count++];
    *own = *source;
    if (grid->dim == 3)
        return FSI_OK;

    /* 2D: the cells lie in one plane, in which every shape is cut. */
    own->centre.z = fsi_grid_cell_centre(grid, 0, 0, 0).z;
    own->lo.z = -FSI_REAL_MAX;
    own->hi.z = FSI_REAL_MAX;

    return FSI_OK;
}

/* Signed distance to the source's region at x, negative inside (box: exact outside, by the nearest
   side inside). */
static fsi_real fsi__source_distance(fsi_vec3 x, const fsi_grid_source *source) {
    if (source->shape == FSI_SOURCE_CALLBACK)
        return source->distance_fn(x, source->user);
    if (source->shape == FSI_SOURCE_SPHERE)
        return fsi__length(fsi_vec_sub(x, source->centre)) - source->radius;
    fsi_real outside = 0;
    fsi_real inside = -FSI_REAL_MAX;
    for (int axis = 0; axis < 3; axis++) {
        fsi_real at = fsi__get(x, axis);
        fsi_real lo = fsi__get(source->lo, axis);
        fsi_real beyond = fsi__max(lo - at, at - fsi__get(source->hi, axis));
        if (beyond > 0)
            outside += beyond * beyond;
        inside = fsi__max(inside, beyond);
    }

    return inside > 0 ? fsi__sqrt(outside) : inside;
}

/* The same as a callback of the level set. */
static fsi_real fsi__source_shape(fsi_vec3 x, void *user) {
    return fsi__source_distance(x, (const fsi_grid_source *)user);
}

/* Does the source work at this time? With both times 0 it always does. */
static int fsi__source_active(const fsi_grid *grid, const fsi_grid_source *source) {
    const int always = source->start >= source->stop && source->stop <= 0;
    return always || (grid->time >= source->start && grid->time < source->stop);
}

/* Samples lo .. hi-1 of a family that may lie inside the source. */
static void fsi__source_range(const fsi_grid *grid, const fsi_grid_source *source,
                              const fsi__lattice *samples, int *lo, int *hi) {
    for (int axis = 0; axis < 3; axis++) {
        const fsi_real origin = fsi__get(grid->origin, axis);
        const fsi_real n = (fsi_real)samples->n[axis];
        fsi_real from;
        fsi_real to;
        lo[axis] = 0;
        hi[axis] = samples->n[axis];
        if (!fsi__source_extent(source, axis, &from, &to) || axis >= grid->dim)
            continue;
        lo[axis] = (int)fsi__clamp((from - origin) / grid->h - 1, 0, n);
        hi[axis] = (int)fsi__clamp((to - origin) / grid->h + 2, 0, n);
    }
}

/* Writes value into the samples of a family inside the source (add: adds it); out NULL: only asks.
   Returns 0 when a callback gave a number that is not finite. */
static int fsi__source_fill(const fsi_grid *grid, const fsi_grid_source *source, int family,
                            fsi_real value, int add, fsi_real *out) {
    const fsi__lattice samples = fsi__grid_lattice(grid, family);
    int lo[3];
    int hi[3];
    int good = 1;
    fsi__source_range(grid, source, &samples, lo, hi);
    for (int k = lo[2]; k < hi[2]; k++)
        for (int j = lo[1]; j < hi[1]; j++)
            for (int i = lo[0]; i < hi[0]; i++) {
                const int at[3] = {i, j, k};
                const ptrdiff_t sample = fsi__lattice_at(&samples, at);
                fsi_vec3 x = fsi__sample_point(grid, family, at);
                fsi_real distance = fsi__source_distance(x, source);
                if (!fsi__finite(distance))
                    good = 0;
                else if (distance < 0 && out)
                    out[sample] = value + (add ? out[sample] : 0);
            }

    return good;
}

/* Asks every callback once without using the answers, so that a step can be refused before it
   changed anything. */
static fsi_result fsi__check_callbacks(const fsi_grid *grid) {
    for (int number = 0; number < grid->source_count; number++) {
        const fsi_grid_source *source = &grid->source[number];
        if (source->shape != FSI_SOURCE_CALLBACK || !fsi__source_active(grid, source))
            continue;
        for (int family = 0; family <= FSI__CELLS; family++)
            if ((family == FSI__CELLS || family < grid->dim)
                && !fsi__source_fill(grid, source, family, 0, 0, NULL))
                return FSI_ERR_CALLBACK;
    }
    for (int axis = 0; axis < grid->dim && grid->desc.force_fn; axis++)
        if (!fsi__ask_faces(grid, axis, grid->desc.force_fn, grid->time, grid->desc.force_user,
                            grid->scalar_work))
            return FSI_ERR_CALLBACK;
    for (size_t cell = 0; grid->desc.viscosity_cells && cell < grid->cells; cell++)
        if (!fsi__natural(grid->desc.viscosity_cells[cell]))
            return FSI_ERR_ARGUMENT;

    return FSI_OK;
}

/* What one source prescribes in its region. */
static fsi_result fsi__apply_source(fsi_grid *grid, fsi_grid_source *source) {
    for (int axis = 0; axis < grid->dim && (source->set & FSI_SOURCE_VELOCITY); axis++)
        fsi__source_fill(grid, source, axis, fsi__get(source->velocity, axis), 0, grid->u[axis]);
    if ((source->set & FSI_SOURCE_DENSITY) && grid->density)
        fsi__source_fill(grid, source, FSI__CELLS, source->density, 0, grid->density);
    if ((source->set & FSI_SOURCE_TEMPERATURE) && grid->temperature)
        fsi__source_fill(grid, source, FSI__CELLS, source->temperature, 0, grid->temperature);
    for (int number = 0; number < grid->desc.scalars; number++)
        if (source->set & ((unsigned)FSI_SOURCE_SCALAR << number))
            fsi__source_fill(grid, source, FSI__CELLS, source->scalar[number], 0,
                             grid->scalar[number]);
    if (!grid->phi || !(source->set & (FSI_SOURCE_LIQUID | FSI_SOURCE_DRAIN)))
        return FSI_OK;

    const fsi_levelset_walls walls = fsi__surface_walls(grid);

    return fsi_levelset_shape(&grid->levelset, fsi__source_shape, source,
                              (source->set & FSI_SOURCE_LIQUID) != 0, &walls);
}

/* All sources that work at this time, in the order in which they were added. */
static fsi_result fsi__apply_sources(fsi_grid *grid) {
    fsi_result result = FSI_OK;
    for (int number = 0; number < grid->source_count && result >= 0; number++) {
        fsi_grid_source *source = &grid->source[number];
        if (fsi__source_active(grid, source))
            result = fsi__worse(result, fsi__apply_source(grid, source));
    }
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid forces */
/* The first face of a row whose faces have two cells each (along x: all but the first and the
   last). Returns 0 where the row lies on the box. */
static int fsi__inner_row(const fsi_grid *grid, int axis, ptrdiff_t row, fsi__mac_face *face) {
    *face = fsi__first_face(grid, axis, row);
    return axis == 0 || !fsi__on_box(face);
}

/* Adds dt times an acceleration of the cells to the faces of an axis inside the box: the mean of
   the two cells beside a face. half: half of the acceleration. */
static void fsi__push_faces(fsi_grid *grid, int axis, fsi_real dt, const fsi_real *half) {
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t row = 0; row < fsi__grid_lattice(grid, axis).rows; row++) {
        fsi__mac_face first;
        if (!fsi__inner_row(grid, axis, row, &first))
            continue;
        const fsi_real *high = half + first.high;
        const fsi_real *low = half + first.low;
        fsi_real *FSI__RESTRICT u = grid->u[axis] + first.face;
        FSI__OMP(simd)
        for (int i = axis == 0; i < grid->nx; i++)
            u[i] += dt * (low[i] + high[i]);
    }
}

/* Half the buoyancy of the cells along `up`, m/s^2: -alpha density + beta (T - T0). */
static void fsi__buoyancy(const fsi_grid *grid, fsi_real *half) {
    const fsi_real alpha = FSI_R(0.5) * grid->desc.buoyancy_density;
    const fsi_real beta = FSI_R(0.5) * grid->desc.buoyancy_temperature;
    const fsi_real ambient = grid->desc.ambient;
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t cell = 0; cell < (ptrdiff_t)grid->cells; cell++)
        half[cell] = beta * (grid->temperature[cell] - ambient) - alpha * grid->density[cell];
}

/* d u_component / d x_axis at cell at[3]: central difference of the cell means, one-sided at
   the box. */
static fsi_real fsi__cell_difference(const fsi_grid *grid, int component, int axis, const int *at) {
    const fsi__lattice faces = fsi__grid_lattice(grid, component);
    const int cells[3] = {grid->nx, grid->ny, grid->nz};
    const fsi_real *u = grid->u[component];
    const ptrdiff_t next = faces.step[component];
    int lo[3] = {at[0], at[1], at[2]};
    int hi[3] = {at[0], at[1], at[2]};
    lo[axis] -= lo[axis] > 0;
    hi[axis] += hi[axis] < cells[axis] - 1;
    if (lo[axis] == hi[axis])
        return 0;

    const fsi_real *high = u + fsi__lattice_at(&faces, hi);
    const fsi_real *low = u + fsi__lattice_at(&faces, lo);

    return FSI_R(0.5) * ((high[0] + high[next]) - (low[0] + low[next]))
           / ((fsi_real)(hi[axis] - lo[axis]) * grid->h);
}

/* One component of the vorticity at a cell: d u_b / d x_a - d u_a / d x_b. */
static fsi_real fsi__curl(const fsi_grid *grid, int a, int b, const int *at) {
    return fsi__cell_difference(grid, b, a, at) - fsi__cell_difference(grid, a, b, at);
}

/* Vorticity omega at cell centres into vector_work, |omega| into scalar_work. */
static void fsi__vorticity(fsi_grid *grid) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        int at[3];
        fsi__lattice_place(&cells, cell, at);
        fsi_vec3 omega = fsi_vec(0, 0, fsi__curl(grid, 0, 1, at));
        if (grid->dim == 3) {
            omega.x = fsi__curl(grid, 1, 2, at);
            omega.y = fsi__curl(grid, 2, 0, at);
        }
        for (int axis = 0; axis < 3; axis++)
            grid->vector_work[axis][cell] = fsi__get(omega, axis);
        grid->scalar_work[cell] = fsi__length(omega);
    }
}

/* Vorticity confinement, m/s^2: eps h (N x omega) with N = grad |omega| / |grad |omega||. Half of
   it takes the place of omega. */
static void fsi__confine(fsi_grid *grid) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    const fsi_real *const *vorticity = (const fsi_real *const *)grid->vector_work;
    const fsi_real *size = grid->scalar_work;
    fsi_real *const *half_force = grid->vector_work;
    const fsi_real strength = grid->desc.confinement * grid->h;
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        fsi_real slope[3];
        fsi_real omega[3];
        int at[3];
        fsi__lattice_place(&cells, cell, at);
        for (int axis = 0; axis < 3; axis++) {
            const ptrdiff_t step = cells.step[axis];
            const ptrdiff_t high = fsi__lattice_has(&cells, at, axis, 1) ? step : 0;
            const ptrdiff_t low = fsi__lattice_has(&cells, at, axis, 0) ? step : 0;
            slope[axis] = size[cell + high] - size[cell - low];
            omega[axis] = vorticity[axis][cell];
        }
        const fsi_vec3 normal = fsi__unit(fsi_vec_load(slope));
        const fsi_vec3 force = fsi_vec_cross(normal, fsi_vec_load(omega));
        for (int axis = 0; axis < 3; axis++)
            half_force[axis][cell] = FSI_R(0.5) * (strength * fsi__get(force, axis));
    }
}

/* Adds dt times the user's force to the faces of an axis. */
static void fsi__user_force(fsi_grid *grid, int axis, fsi_real dt) {
    const fsi_grid_desc *desc = &grid->desc;
    fsi_real *force = grid->scalar_work;
    if (!fsi__ask_faces(grid, axis, desc->force_fn, grid->time, desc->force_user, force))
        return;
    for (size_t face = 0; face < grid->faces[axis]; face++)
        grid->u[axis][face] += dt * force[face];
}

/* Smoke fades, and heat goes to the ambient temperature. */
static void fsi__decay(fsi_grid *grid, fsi_real dt) {
    const fsi_real keep = fsi__exp(-dt * grid->desc.dissipation);
    const fsi_real warm = fsi__exp(-dt * grid->desc.cooling);
    const fsi_real ambient = grid->desc.ambient;
    if (grid->density && grid->desc.dissipation > 0)
        for (size_t cell = 0; cell < grid->cells; cell++)
            grid->density[cell] *= keep;
    if (grid->temperature && grid->desc.cooling > 0)
        for (size_t cell = 0; cell < grid->cells; cell++)
            grid->temperature[cell] = ambient + (grid->temperature[cell] - ambient) * warm;
}

/* Adds the same to all values: gravity. */
static void fsi__add_to_all(size_t count, fsi_real by, fsi_real *values) {
    FSI__PARALLEL(count > FSI__MANY)
    for (ptrdiff_t i = 0; i < (ptrdiff_t)count; i++)
        values[i] += by;
}

FSI_API fsi_result fsi_grid_forces(fsi_grid *grid, fsi_real dt) {
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;
    if ((result = fsi__check_callbacks(grid)) < 0)
        return result;

    double start = fsi__now(grid);
    const fsi_grid_desc *desc = &grid->desc;

    /* The vorticity is that of the velocity before any force. */
    const int confined = fsi__abs(desc->confinement) > 0;
    fsi_real *const *half_force = grid->vector_work;
    if (confined) {
        fsi__vorticity(grid);
        fsi__confine(grid);
    }

    /* The right-hand side has room until build_pressure makes a new one. */
    const int heavy = fsi__abs(desc->buoyancy_density) > 0;
    const int warm = fsi__abs(desc->buoyancy_temperature) > 0;
    const int buoyant = grid->density && (heavy || warm);
    if (buoyant)
        fsi__buoyancy(grid, grid->rhs);

    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi_real up = fsi__get(desc->up, axis);
        if (buoyant && fsi__abs(up) > 0)
            fsi__push_faces(grid, axis, dt * up, grid->rhs);
        if (confined)
            fsi__push_faces(grid, axis, dt, half_force[axis]);
        if (desc->force_fn)
            fsi__user_force(grid, axis, dt);
        fsi_real gravity = dt * fsi__get(desc->gravity, axis);
        if (!(fsi__abs(gravity) > 0))
            continue;
        fsi__add_to_all(grid->faces[axis], gravity, grid->u[axis]);
        if (grid->u_plus[axis])
            fsi__add_to_all(grid->faces[axis], gravity, grid->u_plus[axis]);
    }

    fsi__decay(grid, dt);
    result = fsi__apply_sources(grid);
    fsi__set_walls(grid, 0);
    grid->stats.seconds_forces = fsi__now(grid) - start;

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid cells and air */
/* Joins the air cell at[3] to the air cells below it along each axis, where fluid can pass. A set
   is known by its first cell, to which fsi__root leads. */
static void fsi__join_air(const fsi_grid *grid, const fsi__lattice *cells, const int *at,
                          ptrdiff_t cell) {
    int32_t *parent = grid->stencil;
    int32_t own = (int32_t)cell; /* the first cell of its set */
    parent[cell] = own;
    for (int axis = 0; axis < grid->dim; axis++) {
        const ptrdiff_t other = fsi__lattice_beside(cells, at, cell, axis, 0);
        if (other < 0 || grid->cell[other] != FSI_CELL_DIRICHLET)
            continue;
        if (grid->occluded && !fsi__passes(grid, at, 2 * axis))
            continue;
        const int32_t its = fsi__root(parent, (int32_t)other);
        parent[own > its ? own : its] = own > its ? its : own;
        own = parent[own];
    }
}

/* Can air leave the box from cell at[3]? */
static int fsi__leads_out(const fsi_grid *grid, const fsi__lattice *cells, const int *at) {
    for (int side = 0; side < 2 * grid->dim; side++) {
        const int vent = fsi__side_open(grid, side);
        if (vent && !fsi__lattice_has(cells, at, side >> 1, side & 1)
            && fsi__passes(grid, at, side))
            return 1;
    }
    return 0;
}

/* The air cell at[3] gets the number of its set, a new one when it is the first cell of it. The
   last region that fits collects all further ones. */
static fsi_result fsi__number_air(fsi_grid *grid, const fsi__lattice *cells, const int *at,
                                  ptrdiff_t cell) {
    const ptrdiff_t first = fsi__root(grid->stencil, (int32_t)cell);
    const int full = grid->region_count == grid->desc.max_regions;
    const int fresh = first == cell;
    if (fresh && !full)
        memset(&grid->regions[grid->region_count++], 0, sizeof *grid->regions);
    if (fresh)
        grid->region[cell] = grid->region_count - 1;

    const int32_t number = grid->region[first];
    fsi_air_region *region = &grid->regions[number];
    grid->region[cell] = number;
    region->cells++;
    if ((fresh && full) || (!region->open && fsi__leads_out(grid, cells, at)))
        region->open = 1;

    return fresh && full ? FSI_CAPPED : FSI_OK;
}

/* The region of the first neighbour that has one from an earlier layer, coded for this one; 0
   without. Codes are 1 + region + layer * codes. */
static int32_t fsi__air_beside(const fsi_grid *grid, const fsi__lattice *cells,
                               const int32_t *nearby, ptrdiff_t cell, int layer) {
    const int codes = grid->desc.max_regions + 1;
    int at[3];
    fsi__lattice_place(cells, cell, at);
    for (int side = 0; side < 2 * grid->dim; side++) {
        const ptrdiff_t other = fsi__sample_beside(cells, at, cell, side);
        const int32_t code = other < 0 ? 0 : nearby[other];
        if (code > 0 && code < layer * codes && fsi__passes(grid, at, side))
            return code % codes + layer * codes;
    }
    return 0;
}

FSI_API void fsi_grid_air_near(const fsi_grid *grid, int32_t *nearby) {
    enum {
        LAYERS = 4
    };

    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    const fsi_real deep = -(LAYERS + 1) * grid->h;

    /* Air knows its region; liquid near the surface (0) is to be found; -1: all else. */
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        const int shallow = grid->cell[cell] == FSI_CELL_FLUID && grid->phi[cell] >= deep;
        nearby[cell] = shallow ? 0 : -1;
        if (grid->region[cell] >= 0)
            nearby[cell] = grid->region[cell] + 1;
    }
    for (int layer = 1; layer <= LAYERS; layer++)
        for (ptrdiff_t cell = 0; cell < cells.count; cell++)
            if (nearby[cell] == 0)
                nearby[cell] = fsi__air_beside(grid, &cells, nearby, cell, layer);
    for (ptrdiff_t cell = 0; cell < cells.count; cell++)
        nearby[cell] = nearby[cell] > 0 ? nearby[cell] % (grid->desc.max_regions + 1) : 0;
}

/* The air share of a liquid cell belongs to the air cells beside it, each in proportion to its phi:
   a film thinner than a cell has air on both sides, and no volume jumps when a cell changes sides.
   Nothing beside it: to the region near it, for the same reason. */
static void fsi__air_share(fsi_grid *grid, const fsi__lattice *cells, const int32_t *nearby,
                           ptrdiff_t cell, double share) {
    double weight[6] = {0};
    double sum = 0;
    int at[3];
    fsi__lattice_place(cells, cell, at);
    for (int side = 0; side < 2 * grid->dim; side++) {
        const ptrdiff_t other = fsi__sample_beside(cells, at, cell, side);
        const int air = other >= 0 && nearby[other] > 0 && grid->phi[other] > 0;
        if (air && fsi__passes(grid, at, side))
            weight[side] = (double)grid->phi[other];
        sum += weight[side];
    }
    for (int side = 0; side < 2 * grid->dim; side++) {
        const ptrdiff_t other = fsi__sample_beside(cells, at, cell, side);
        if (weight[side] > 0)
            grid->regions[nearby[other] - 1].volume += share * weight[side] / sum;
    }
    if (!(sum > 0) && nearby[cell] > 0)
        grid->regions[nearby[cell] - 1].volume += share;
}

FSI_API void fsi_grid_air_volumes(fsi_grid *grid, const int32_t *nearby) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    const double h = (double)grid->h;
    const double cell_volume = grid->dim == 2 ? h * h : h * h * h;
    const uint8_t *solid = grid->occlusion.solid;
    fsi_real *liquid = grid->scalar_work;
    grid->stats.liquid_volume = fsi_levelset_volume(&grid->levelset, solid, liquid);
    for (int number = 0; number < grid->region_count; number++)
        grid->regions[number].volume = 0;
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        const fsi_real *share = grid->occlusion.free_share;
        const fsi_real whole = share ? share[cell] : FSI_R(1.0);
        if (!(liquid[cell] < whole) || grid->cell[cell] == FSI_CELL_NEUMANN)
            continue;
        const double air = cell_volume * (double)(whole - liquid[cell]);
        if (grid->phi[cell] < 0)
            fsi__air_share(grid, &cells, nearby, cell, air);
        else if (nearby[cell] > 0)
            grid->regions[nearby[cell] - 1].volume += air;
    }
}

/* Finds the connected air regions, numbered in the order of their first cells; the last one that
   fits collects the rest and counts as open. */
static fsi_result fsi__find_regions(fsi_grid *grid) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    fsi_result result = FSI_OK;
    grid->region_count = 0;

    for (int numbers = 0; numbers < 2; numbers++)
        for (ptrdiff_t row = 0; row < cells.rows; row++) {
            int at[3];
            fsi__lattice_row(&cells, row, at);
            for (; at[0] < cells.n[0]; at[0]++) {
                const ptrdiff_t cell = row * cells.n[0] + at[0];
                if (grid->cell[cell] != FSI_CELL_DIRICHLET)
                    continue;
                if (numbers)
                    result = fsi__worse(result, fsi__number_air(grid, &cells, at, cell));
                else
                    fsi__join_air(grid, &cells, at, cell);
            }
        }

    return result;
}

FSI_API fsi_result fsi_grid_classify(fsi_grid *grid) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;

    const uint8_t *solid = grid->occlusion.solid;
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t cell = 0; cell < (ptrdiff_t)grid->cells; cell++) {
        int kind = FSI_CELL_FLUID;
        if (grid->phi && !(grid->phi[cell] < 0))
            kind = FSI_CELL_DIRICHLET; /* air */
        if (solid && solid[cell])
            kind = FSI_CELL_NEUMANN;
        grid->cell[cell] = (uint8_t)kind;
        if (grid->region)
            grid->region[cell] = -1;
    }
    if (!grid->phi)
        return FSI_OK;

    fsi_result result = fsi__find_regions(grid);
    fsi_grid_air_near(grid, grid->stencil);
    fsi_grid_air_volumes(grid, grid->stencil);

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid pressure */
/* A p^ = rhs with the face weights w = open / theta. Ghost fluid: the surface cuts the segment
   between the centres of a liquid and an air cell at the share theta from the liquid one, where
   p = 0, so that the gradient is (0 - p_liquid) / (theta h):

       liquid        surface       air
         o--------------|-----------o        theta = phi_liquid / (phi_liquid - phi_air)
         |<- theta h -->|
*/
static fsi_real fsi__ghost_theta(const fsi_grid *grid, ptrdiff_t liquid, ptrdiff_t air) {
    const fsi_real inside = grid->phi[liquid];
    const fsi_real outside = grid->phi[air];
    return fsi__max(inside / (inside - outside), grid->desc.theta_min);
}

/* Weight of a face in the matrix. */
static fsi_real fsi__face_weight(const fsi_grid *grid, const fsi__mac_face *face) {
    const fsi_real open = fsi__open_share(grid, face);
    if (!(open > 0) || fsi__beside_kind(grid, face, FSI_CELL_NEUMANN))
        return 0;
    if (!grid->phi || fsi__on_box(face) || grid->cell[face->low] == grid->cell[face->high])
        return open;
    if (grid->cell[face->low] == FSI_CELL_FLUID)
        return open / fsi__ghost_theta(grid, face->low, face->high);
    return open / fsi__ghost_theta(grid, face->high, face->low);
}

/* Weights of all faces of an axis; in rows of plain fluid they are 1 but at the ends. */
static void fsi__build_weights(fsi_grid *grid, int axis) {
    const fsi__lattice faces = fsi__grid_lattice(grid, axis);
    const int last = faces.n[axis] - 1;
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t row = 0; row < faces.rows; row++) {
        int at[3];
        fsi__lattice_row(&faces, row, at);
        const int inner = axis == 0 || (at[axis] > 0 && at[axis] < last);
        const int plain = !grid->phi && !grid->occluded && inner;
        fsi_real *weight = grid->weight[axis] + row * faces.n[0];
        for (int i = 0; plain && i < faces.n[0]; i++)
            weight[i] = 1;
        for (; at[0] < faces.n[0]; at[0] += plain ? faces.n[0] - 1 : 1) {
            const fsi__mac_face face = fsi__face_at(grid, axis, at);
            weight[at[0]] = fsi__face_weight(grid, &face);
        }
    }
}

/* Flow through a face as the cell on its upper (above = 1) or lower side has it, m/s: open u plus
   closed u_solid. */
static fsi_real fsi__face_flow(const fsi_grid *grid, const fsi__mac_face *face, int above) {
    const fsi_real *plus = grid->u_plus[face->axis];
    const fsi_real *u = above && plus ? plus : grid->u[face->axis];
    if (fsi__on_box(face))
        return u[face->face];

    const fsi_real open = fsi__open_share(grid, face);
    return open * u[face->face] + (1 - open) * fsi__solid_velocity(grid, face->axis, face->face);
}

/* Flow out of cell at[3], the sum over its faces, m/s. */
static fsi_real fsi__outflow(const fsi_grid *grid, const int *at) {
    fsi_real sum = 0;
    for (int side = 0; side < 2 * grid->dim; side++) {
        const int up = side & 1;
        const fsi__mac_face face = fsi__face_towards(grid, at, side);
        const fsi_real flow = fsi__face_flow(grid, &face, !up);
        sum += up ? flow : -flow;
    }
    return sum;
}

/* The same of row `row` of cells where there are no solids, scaled. */
static void fsi__plain_outflow(const fsi_grid *grid, ptrdiff_t row, fsi_real scale, fsi_real *out) {
    const ptrdiff_t nx = grid->nx;
    const ptrdiff_t j = row % grid->ny;
    const ptrdiff_t k = row / grid->ny;
    const uint8_t *cell = grid->cell + row * nx;
    const fsi_real *u0 = grid->u[0] + row * (nx + 1);
    const fsi_real *u1 = grid->u[1] + nx * (j + (grid->ny + 1) * k);
    for (ptrdiff_t i = 0; i < nx; i++)
        out[i] = (u0[i + 1] - u0[i]) + (u1[i + nx] - u1[i]);
    if (grid->dim == 3) {
        const fsi_real *u2 = grid->u[2] + row * nx;
        const fsi_real *above = u2 + nx * grid->ny;
        for (ptrdiff_t i = 0; i < nx; i++)
            out[i] += above[i] - u2[i];
    }
    for (ptrdiff_t i = 0; i < nx; i++)
        out[i] = cell[i] == FSI_CELL_FLUID ? scale * out[i] : 0;
}

/* out = scale * outflow of every fluid cell, 0 elsewhere. */
static void fsi__all_outflow(const fsi_grid *grid, fsi_real scale, fsi_real *out) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t row = 0; row < cells.rows; row++) {
        fsi_real *out_row = out + row * cells.n[0];
        const uint8_t *cell = grid->cell + row * cells.n[0];
        if (!grid->occluded) {
            fsi__plain_outflow(grid, row, scale, out_row);
            continue;
        }
        int at[3];
        fsi__lattice_row(&cells, row, at);
        for (; at[0] < cells.n[0]; at[0]++) {
            const int fluid = cell[at[0]] == FSI_CELL_FLUID;
            out_row[at[0]] = fluid ? scale * fsi__outflow(grid, at) : 0;
        }
    }
}

/* Adds scale times what the sources of volume make to the cells. */
static void fsi__add_divergence_sources(const fsi_grid *grid, fsi_real *out, fsi_real scale) {
    for (int number = 0; number < grid->source_count; number++) {
        const fsi_grid_source *source = &grid->source[number];
        if ((source->set & FSI_SOURCE_DIVERGENCE) && fsi__source_active(grid, source))
            fsi__source_fill(grid, source, FSI__CELLS, scale * source->divergence, 1, out);
    }
}

FSI_API fsi_result fsi_grid_build_pressure(fsi_grid *grid, fsi_real dt) {
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;

    double start = fsi__now(grid);
    fsi__set_walls(grid, 1);

    /* The matrix. */
    for (int axis = 0; axis < grid->dim && !grid->weights_are_one; axis++)
        fsi__build_weights(grid, axis);
    grid->weights_are_one = !grid->phi && !grid->occluded;

    /* The right-hand side, and the part of it that is only round-off. */
    const fsi_real scale = -grid->desc.rho * grid->h;
    const int longest = fsi__imax(grid->nx, fsi__imax(grid->ny, grid->nz));
    grid->noise = (4 + longest) * (double)FSI_REAL_EPS
                  * (double)(-scale * fsi__max_speed(grid, NULL)) * sqrt((double)grid->cells);
    fsi__all_outflow(grid, scale, grid->rhs);
    fsi__add_divergence_sources(grid, grid->rhs, -scale * grid->h);
    grid->stats.seconds_project = fsi__now(grid) - start;

    return FSI_OK;
}

FSI_API fsi_result fsi_grid_solve_pressure(fsi_grid *grid, fsi_report *report) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;

    double start = fsi__now(grid);
    fsi_result result;

    /* A plain box that the solver holds already needs no update. */
    const int plain = grid->weights_are_one;

    if (!plain || !grid->mg_plain) {
        const fsi_real *const *weight = (const fsi_real *const *)grid->weight;
        result = fsi_mg_update(grid->mg, plain ? NULL : grid->cell, plain ? NULL : weight);
        if (result < 0)
            return result;
        grid->mg_plain = plain;
    }

    fsi_mg_solve_desc desc = FSI__ZERO;
    desc.tolerance = grid->desc.tolerance;
    desc.tolerance_abs = grid->noise;
    desc.max_iterations = grid->desc.max_iterations;
    desc.guess = 1;
    result = fsi_mg_solve(grid->mg, &desc, grid->rhs, grid->pressure, report);
    grid->stats.seconds_project += fsi__now(grid) - start;

    return result == FSI_EMPTY ? FSI_OK : result; /* empty: no liquid yet */
}

/* u -= grad p^ / rho at one face; scale is 1 / (rho h). */
FSI__INLINE void fsi__take_gradient(fsi_grid *grid, const fsi__mac_face *face, fsi_real scale) {
    fsi_real weight = grid->weight[face->axis][face->face];
    fsi_real high = fsi__has_high(face) ? grid->pressure[face->high] : 0;
    fsi_real low = fsi__has_low(face) ? grid->pressure[face->low] : 0;
    if (!(weight > 0))
        return;
    if (!grid->weights_are_one && !fsi__beside_kind(grid, face, FSI_CELL_FLUID))
        return;
    if (grid->occluded)
        weight /= fsi__open_share(grid, face);
    grid->u[face->axis][face->face] -= weight * scale * (high - low);
    if (grid->u_plus[face->axis])
        grid->u_plus[face->axis][face->face] = grid->u[face->axis][face->face];
}

FSI_API fsi_result fsi_grid_apply_pressure(fsi_grid *grid) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;

    double start = fsi__now(grid);
    const fsi_real scale = 1 / (grid->desc.rho * grid->h);

    for (int axis = 0; axis < grid->dim; axis++) {
        const fsi__lattice faces = fsi__grid_lattice(grid, axis);
        FSI__PARALLEL(grid->cells > FSI__MANY)
        for (ptrdiff_t row = 0; row < faces.rows; row++) {
            fsi__mac_face face = fsi__first_face(grid, axis, row);
            for (int i = 0; i < faces.n[0]; i++, fsi__next_face(&face))
                fsi__take_gradient(grid, &face, scale);
        }
    }
    fsi__set_walls(grid, 1);
    grid->stats.seconds_project += fsi__now(grid) - start;

    return FSI_OK;
}

FSI_API double fsi_grid_max_divergence(const fsi_grid *grid) {
    if (!grid || !grid->block)
        return 0;

    fsi_real *divergence = grid->scalar_work;
    fsi__all_outflow(grid, 1 / grid->h, divergence);
    fsi__add_divergence_sources(grid, divergence, -1);
    return (double)fsi_max_abs(grid->cells, divergence);
}

/* Is there fluid in the cell now, whatever the last classify has found? */
FSI__INLINE int fsi__is_wet(const fsi_grid *grid, ptrdiff_t cell) {
    const uint8_t *solid = grid->occlusion.solid;
    return !(solid && solid[cell]) && !(grid->phi && !(grid->phi[cell] < 0));
}

/* Adds a sample of mass shares of a cell's fluid that gravity g pulls along its axis. */
FSI__INLINE void fsi__energy_add(fsi_grid_energy *energy, double mass, double u, double g) {
    energy->kinetic += mass * u * u / 2;
    energy->power += mass * g * u;
    energy->fall += mass * g * g / 2;
}

/* A face has the mass that the pressure moves: open theta; a closed one, as the solids' coupling
   sides do, half a cell's for each wet cell, and none where cut cells have taken it. */
static void fsi__face_energy(const fsi_grid *grid, const fsi__mac_face *face,
                             fsi_grid_energy *energy) {
    const int low = fsi__has_low(face) && fsi__is_wet(grid, face->low);
    const int high = fsi__has_high(face) && fsi__is_wet(grid, face->high);
    if (!low && !high)
        return;

    const fsi_real *u = grid->u[face->axis] + face->face;
    const fsi_real *plus = grid->u_plus[face->axis];
    const double g = (double)fsi__get(grid->desc.gravity, face->axis);
    const double open = (double)fsi__open_share(grid, face);
    if (open > 0) {
        double theta = 1;
        if (low != high && !fsi__on_box(face))
            theta = (double)fsi__ghost_theta(grid, low ? face->low : face->high,
                                             low ? face->high : face->low);
        fsi__energy_add(energy, open * theta, (double)*u, g);
    } else if (!fsi__on_box(face)
               && (!grid->occlusion.open[face->axis] || fsi__in_shell(grid, face))) {
        if (low)
            fsi__energy_add(energy, 0.5, (double)*u, g);
        if (high)
            fsi__energy_add(energy, 0.5, (double)(plus ? plus[face->face] : *u), g);
    }
}

FSI_API void fsi_grid_measure(const fsi_grid *grid, fsi_grid_energy *energy) {
    enum {
        PARTS = 64
    };

    memset(energy, 0, sizeof *energy);
    if (!grid || !grid->block)
        return;

    /* The parts are the same for any number of threads, and so are the sums. */
    fsi_grid_energy part[PARTS];
    memset(part, 0, sizeof part);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (int n = 0; n < PARTS; n++)
        for (int axis = 0; axis < grid->dim; axis++) {
            const fsi__lattice faces = fsi__grid_lattice(grid, axis);
            for (ptrdiff_t row = faces.rows * n / PARTS; row < faces.rows * (n + 1) / PARTS;
                 row++) {
                fsi__mac_face face = fsi__first_face(grid, axis, row);
                for (int i = 0; i < faces.n[0]; i++, fsi__next_face(&face))
                    fsi__face_energy(grid, &face, part + n);
            }
        }

    const double h = (double)grid->h;
    const double mass = (double)grid->desc.rho * h * h * (grid->dim == 3 ? h : 1);
    for (int n = 0; n < PARTS; n++) {
        energy->kinetic += mass * part[n].kinetic;
        energy->power += mass * part[n].power;
        energy->fall += mass * part[n].fall;
    }
}

FSI_API double fsi_grid_kinetic_energy(const fsi_grid *grid) {
    fsi_grid_energy energy;
    fsi_grid_measure(grid, &energy);
    return energy.kinetic;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid viscosity */
/* (1 - dt nu laplacian) u = u*, one component at a time, by conjugate gradients. Marks of faces: */
enum {
    FSI__FREE = 0,
    FSI__PLAIN = 1,  /* free, all neighbours free, constant nu */
    FSI__FIXED = 2,  /* prescribed */
    FSI__BURIED = 3, /* inside a solid */
    FSI__NONE = 4
};

/* The system of one component. */
typedef struct fsi__visc {
    const fsi_grid *grid;
    int axis;
    fsi__lattice faces;
    fsi_real dt_over_h2; /* dt / h^2 */
    uint8_t *mark;
} fsi__visc;

/* The mark of one face. */
static int fsi__visc_mark(const fsi_grid *grid, const fsi__mac_face *face) {
    if (fsi__beside_kind(grid, face, FSI_CELL_FLUID))
        return fsi__open_share(grid, face) > 0 ? FSI__FREE : FSI__FIXED;

    /* Between two solids, or a solid and the box. */
    const int solid = !fsi__beside_kind(grid, face, FSI_CELL_DIRICHLET);
    return solid && grid->desc.solid_noslip ? FSI__BURIED : FSI__NONE;
}

/* The marks of all faces of the axis. */
static void fsi__visc_marks(const fsi__visc *visc) {
    for (ptrdiff_t row = 0; row < visc->faces.rows; row++) {
        fsi__mac_face face = fsi__first_face(visc->grid, visc->axis, row);
        for (int i = 0; i < visc->faces.n[0]; i++, fsi__next_face(&face))
            visc->mark[face.face] = (uint8_t)fsi__visc_mark(visc->grid, &face);
    }
}

/* Viscosity between face at[] and its neighbour up or down along an axis. Along the own axis it is
   that of the cell between the faces; across, the mean of the four cells around the edge. */
static fsi_real fsi__nu(const fsi__visc *visc, const int *at, int axis, int up) {
    const fsi_grid *grid = visc->grid;
    const fsi_real *nu = grid->desc.viscosity_cells;
    if (!nu)
        return grid->desc.viscosity;

    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    fsi_real sum = 0;

    for (int corner = 0; corner < 4; corner++) {
        int cell[3] = {at[0], at[1], at[2]};
        if (axis == visc->axis)
            cell[axis] -= !up;
        else {
            cell[visc->axis] -= corner & 1;
            cell[axis] += (corner >> 1) * (up ? 1 : -1);
        }
        for (int b = 0; b < 3; b++)
            cell[b] = fsi__iclamp(cell[b], 0, cells.n[b] - 1);
        sum += FSI_R(0.25) * nu[fsi__lattice_at(&cells, cell)];
    }

    return sum;
}

/* A neighbour in the matrix: its coefficient (0 = none), and either the free face it is, or -1 and
   the prescribed value. */
typedef struct fsi__visc_link {
    fsi_real coefficient;
    fsi_real value;
    ptrdiff_t other;
} fsi__visc_link;

/* Link of the free face at[3] to its neighbour on a side. */
FSI__INLINE fsi__visc_link fsi__visc_link_of(const fsi__visc *visc, ptrdiff_t face, const int *at,
                                             int side) {
    const fsi_grid *grid = visc->grid;
    const int own = visc->axis;
    const int along = side >> 1 == own;
    const fsi_real nu = visc->dt_over_h2 * fsi__nu(visc, at, side >> 1, side & 1);
    const ptrdiff_t other = fsi__sample_beside(&visc->faces, at, face, side);
    fsi__visc_link link = {0, 0, -1};

    if (other < 0) {
        /* Outside the box: the wall is half a cell away. */
        const fsi_grid_side *wall = &grid->desc.side[side];
        const int drags = wall->kind == FSI_SIDE_NOSLIP || wall->kind == FSI_SIDE_INFLOW;
        if (!along && drags) {
            link.coefficient = 2 * nu;
            link.value = fsi__get(wall->velocity, own);
        }
        return link;
    }
    const int turn = side & 1 ? 1 : -1;
    const int place = at[own] + (along ? turn : 0);
    const int inside = place > 0 && place < visc->faces.n[own] - 1;
    switch (visc->mark[other]) {
    case FSI__FREE:
    case FSI__PLAIN:
        link.other = other;
        link.coefficient = nu;
        break;
    case FSI__FIXED:
        if (!along && !grid->desc.solid_noslip && grid->occluded)
            break;
        link.coefficient = nu;
        link.value =
            grid->occluded && inside ? fsi__solid_velocity(grid, own, other) : grid->u[own][other];
        break;
    case FSI__BURIED:
        link.coefficient = along ? nu : 2 * nu;
        link.value = fsi__solid_velocity(grid, own, other);
        break;
    default:
        break;
    }

    return link;
}

/* y = A x; diagonal: y = x / diagonal of A instead (the preconditioner). */
static void fsi__visc_rows(const fsi__visc *visc, const fsi_real *x, fsi_real *y, int diagonal) {
    const fsi__lattice *faces = &visc->faces;
    const ptrdiff_t step_y = faces->step[1];
    const ptrdiff_t step_z = faces->step[2];
    const int dim = visc->grid->dim;
    const fsi_real nu = visc->dt_over_h2 * visc->grid->desc.viscosity;
    FSI__PARALLEL(faces->count > FSI__MANY)
    for (ptrdiff_t row = 0; row < faces->rows; row++) {
        int at[3];
        fsi__lattice_row(faces, row, at);
        for (; at[0] < faces->n[0]; at[0]++) {
            const ptrdiff_t face = row * faces->n[0] + at[0];
            const fsi_real *p = x + face;
            fsi_real sum = 0;
            fsi_real own = 1;
            if (visc->mark[face] == FSI__PLAIN) {
                sum =
                    p[-1] + p[1] + p[-step_y] + p[step_y] + (dim == 3 ? p[-step_z] + p[step_z] : 0);
                own = 1 + (fsi_real)(2 * dim) * nu;
                sum *= nu;
            } else if (visc->mark[face] == FSI__FREE) {
                for (int side = 0; side < 2 * dim; side++) {
                    const fsi__visc_link link = fsi__visc_link_of(visc, face, at, side);
                    own += link.coefficient;
                    if (link.other >= 0)
                        sum += link.coefficient * x[link.other];
                }
            }
            y[face] = diagonal ? x[face] / own : own * x[face] - sum;
        }
    }
}

/* y = A x, for the solver. */
static void fsi__visc_apply(const fsi_real *x, fsi_real *y, void *user) {
    fsi__visc_rows((const fsi__visc *)user, x, y, 0);
}

/* y = x / diagonal of A, for the solver. */
static void fsi__visc_jacobi(const fsi_real *x, fsi_real *y, void *user) {
    fsi__visc_rows((const fsi__visc *)user, x, y, 1);
}

/* rhs = u* plus what the prescribed neighbours add; also finds the plain faces. */
static void fsi__visc_rhs(const fsi__visc *visc, fsi_real *rhs) {
    const fsi_grid *grid = visc->grid;
    for (ptrdiff_t face = 0; face < visc->faces.count; face++) {
        int at[3];
        int plain = !grid->desc.viscosity_cells;
        rhs[face] = grid->u[visc->axis][face];
        if (visc->mark[face] != FSI__FREE)
            continue;
        fsi__lattice_place(&visc->faces, face, at);
        for (int side = 0; side < 2 * grid->dim; side++) {
            const fsi__visc_link link = fsi__visc_link_of(visc, face, at, side);
            if (link.other >= 0)
                continue;
            rhs[face] += link.coefficient * link.value;
            plain = 0;
        }
        if (plain)
            visc->mark[face] = FSI__PLAIN;
    }
}

/* One component. The weights and the work space behind them are lent to the solver. */
static fsi_result fsi__visc_solve(fsi_grid *grid, int axis, fsi_real dt, fsi_report *report) {
    fsi__visc visc;
    visc.grid = grid;
    visc.axis = axis;
    visc.faces = fsi__grid_lattice(grid, axis);
    visc.dt_over_h2 = dt / (grid->h * grid->h);
    visc.mark = grid->mark[axis];
    fsi__visc_marks(&visc);
    fsi__visc_rhs(&visc, grid->rhs);

    fsi_krylov_desc desc = FSI__ZERO;
    desc.n = grid->faces[axis];
    desc.A.apply_fn = fsi__visc_apply;
    desc.A.user = &visc;
    desc.precondition.apply_fn = fsi__visc_jacobi;
    desc.precondition.user = &visc;
    desc.tolerance = (double)fsi__max((fsi_real)(0.01 * grid->desc.tolerance), 20 * FSI_REAL_EPS);
    desc.max_iterations = 1000;
    desc.guess = 1;
    desc.allocator = grid->desc.allocator;

    const int fits = fsi_cg_work_size(&desc) <= grid->lent_bytes;

    return fsi_cg_solve(&desc, grid->rhs, grid->u[axis], fits ? grid->weight[0] : NULL,
                        fits ? grid->lent_bytes : 0, report);
}

FSI_API fsi_result fsi_grid_viscosity(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;
    if (!(grid->desc.viscosity > 0) && !grid->desc.viscosity_cells)
        return FSI_OK;

    fsi__set_walls(grid, 0);
    grid->weights_are_one = 0;
    for (int axis = 0; axis < grid->dim && result >= 0; axis++)
        result = fsi__worse(result, fsi__visc_solve(grid, axis, dt, report));
    if (result >= 0)
        fsi__set_walls(grid, 0);
    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid extrapolation */
/* Carries values outward layer by layer: a sample with mark 0 takes the mean of its neighbours that
   have one from an earlier layer. */
static void fsi__spread(const fsi__lattice *samples, int layers, fsi_real *values, uint8_t *mark) {
    const size_t width = (size_t)samples->n[0];
    for (int layer = 1; layer <= layers && layer < 250; layer++)
        for (ptrdiff_t first = 0; first < samples->count; first += samples->n[0]) {
            if (!memchr(mark + first, 0, width))
                continue;
            int at[3];
            fsi__lattice_place(samples, first, at);
            for (; at[0] < samples->n[0]; at[0]++) {
                const ptrdiff_t sample = first + at[0];
                fsi_real sum = 0;
                int count = 0;
                for (int side = 0; side < 6 && !mark[sample]; side++) {
                    const ptrdiff_t other = fsi__sample_beside(samples, at, sample, side);
                    if (other >= 0 && mark[other] && mark[other] <= layer) {
                        sum += values[other];
                        count++;
                    }
                }
                if (count) {
                    values[sample] = sum / (fsi_real)count;
                    mark[sample] = (uint8_t)(layer + 1);
                }
            }
        }
}

/* Marks of the faces of an axis: 1 = known (beside a fluid cell), 2 = a wall (liquid: left alone),
   0 = to be filled. */
static void fsi__velocity_marks(fsi_grid *grid, int axis) {
    const fsi__lattice faces = fsi__grid_lattice(grid, axis);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t row = 0; row < faces.rows; row++) {
        fsi__mac_face face = fsi__first_face(grid, axis, row);
        for (int i = 0; i < faces.n[0]; i++, fsi__next_face(&face)) {
            const int fluid = fsi__beside_kind(grid, &face, FSI_CELL_FLUID);
            int wall = fluid && !(grid->weight[axis][face.face] > 0);
            if (fsi__on_box(&face))
                wall = !fsi__side_open(grid, fsi__side_of_face(&face));
            grid->mark[axis][face.face] = (uint8_t)(wall && grid->phi ? 2 : fluid || wall);
        }
    }
}

FSI_API fsi_result fsi_grid_extrapolate(fsi_grid *grid) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;

    const uint8_t *solid = grid->occlusion.solid;
    if (!grid->phi && !solid)
        return FSI_OK;

    /* Velocity: liquid along the normals of its surface, else by means. */
    for (int axis = 0; axis < grid->dim; axis++) {
        fsi__velocity_marks(grid, axis);
        const fsi__lattice faces = fsi__grid_lattice(grid, axis);
        if (!grid->phi)
            fsi__spread(&faces, grid->desc.extrapolate, grid->u[axis], grid->mark[axis]);
    }
    if (grid->phi)
        fsi_levelset_extrapolate(&grid->levelset, grid->u, (const uint8_t *const *)grid->mark,
                                 grid->desc.extrapolate);

    /* Scalars: cells that a solid uncovers start with sane values. */
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);

    for (int field = FSI_FIELD_DENSITY; field < FSI__FIELDS && solid; field++) {
        fsi_real *values = fsi_grid_field(grid, (fsi_field)field);
        if (!values || field == FSI_FIELD_PHI)
            continue;
        for (size_t cell = 0; cell < grid->cells; cell++)
            grid->mark[0][cell] = !solid[cell];
        fsi__spread(&cells, 3, values, grid->mark[0]);
    }
    for (int axis = 0; axis < grid->dim && grid->u_plus[axis]; axis++)
        fsi__renew_plus(grid, axis, NULL);

    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid surface */
/* The way of a marker or of a phi sample ends at the first solid: clip_fn of fsi_levelset_walls. */
static fsi_vec3 fsi__clip_way(fsi_vec3 from, fsi_vec3 to, void *user) {
    const fsi_grid *grid = (const fsi_grid *)user;
    fsi_vec3 velocity;
    fsi_vec3 start = fsi__to_cells(grid, from);
    fsi_vec3 end = fsi__to_cells(grid, to);
    if (!grid->occlusion.hit_fn) {
        int own[3];
        fsi__own_cell(grid, start, own);
        return fsi__grid_point(grid, fsi__reach(grid, own, end, &velocity));
    }
    fsi_real t;
    if (!fsi__ray_hits(grid, start, end, &t, &velocity))
        return to;

    t -= fsi__margin(fsi_vec_sub(end, start));

    return fsi_vec_mad(from, fsi_vec_sub(to, from), fsi__max(t, 0));
}

/* What the level set has to know of the box and the solids. */
static fsi_levelset_walls fsi__surface_walls(fsi_grid *grid) {
    fsi_levelset_walls walls = FSI__ZERO;
    for (int side = FSI_LEFT; side <= FSI_FRONT; side++)
        walls.open[side] = fsi__side_open(grid, side);
    walls.solid = grid->occlusion.solid;
    walls.clip_fn = grid->occluded ? fsi__clip_way : NULL;
    walls.user = grid;
    return walls;
}

/* What cell at[] can see beside it: the number of cells across open faces (into seen), or -1 when
   no shell is there: a closed face, or a wall of one solid cell with a free one behind it. */
static int fsi__cells_seen(const fsi_grid *grid, const int *at, size_t *seen) {
    const uint8_t *solid = grid->occlusion.solid;
    int count = 0;
    int shell = 0;
    for (int side = 0; side < 2 * grid->dim; side++) {
        const fsi__mac_face face = fsi__face_towards(grid, at, side);
        const ptrdiff_t own = side & 1 ? face.low : face.high;
        const ptrdiff_t other = side & 1 ? face.high : face.low;
        if (fsi__on_box(&face))
            continue;
        if (fsi__open_share(grid, &face) > 0)
            seen[count++] = (size_t)other;
        else if (!solid[other])
            shell = 1;
        else {
            const int place = face.place + (side & 1 ? 1 : -1);
            shell |= place > 0 && place < face.last && !solid[2 * other - own];
        }
    }

    return shell ? count : -1;
}

enum {
    FSI__LIQUID = 1, /* marks of cells before the surface moves */
    FSI__HELD = 2    /* beside a shell and among its own kind: stays liquid, or air */
};

/* Marks the cells beside thin shells that see only their own kind. */
static void fsi__hold_beside_shells(const fsi_grid *grid, uint8_t *mark) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    FSI__PARALLEL(grid->cells > FSI__MANY)
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        const int liquid = grid->phi[cell] < 0;
        size_t seen[6];
        int at[3];
        int same = 1;
        int count = -1;
        fsi__lattice_place(&cells, cell, at);
        if (!grid->occlusion.solid[cell])
            count = fsi__cells_seen(grid, at, seen);
        for (int i = 0; i < count; i++)
            same &= (grid->phi[seen[i]] < 0) == liquid;
        mark[cell] = (uint8_t)((liquid ? FSI__LIQUID : 0) | (count >= 0 && same ? FSI__HELD : 0));
    }
}

/* What the other side of a shell put near 0 comes back to half a cell at least: all that a held
   cell sees is far from a surface. */
static void fsi__restore_held(fsi_grid *grid, const uint8_t *mark) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        const int liquid = mark[cell] & FSI__LIQUID;
        const fsi_real sign = liquid ? FSI_R(-1.0) : FSI_R(1.0);
        if (!(mark[cell] & FSI__HELD) || sign * grid->phi[cell] >= grid->h / 2)
            continue;
        size_t seen[6];
        fsi_real depth = 0;
        int at[3];
        int count = 0;
        fsi__lattice_place(&cells, cell, at);
        if (!(sign * grid->phi[cell] > 0))
            count = fsi__cells_seen(grid, at, seen);
        for (int i = 0; i < count; i++)
            if ((grid->phi[seen[i]] < 0) == liquid)
                depth = fsi__max(depth, fsi__abs(grid->phi[seen[i]]));
        grid->phi[cell] = sign * fsi__max(depth / 2, grid->h / 2);
    }
}

static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report);

/* Volume that sources and the sides of the box give the liquid in dt, m^3: no drift. What flows in
   at an open side is air. */
static double fsi__liquid_inflow(const fsi_grid *grid, fsi_real dt) {
    const fsi__lattice cells = fsi__grid_lattice(grid, FSI__CELLS);
    fsi_real *inflow = grid->scalar_work;
    fsi_fill(grid->cells, 0, inflow);
    fsi__add_divergence_sources(grid, inflow, grid->h);
    double sum = 0;
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        int at[3];
        fsi__lattice_place(&cells, cell, at);
        for (int side = 0; side < 2 * grid->dim; side++) {
            const fsi__mac_face face = fsi__face_towards(grid, at, side);
            const fsi_real u = grid->u[face.axis][face.face] * (side & 1 ? -1 : 1);
            if (fsi__on_box(&face) && !(u > 0 && fsi__side_open(grid, side)))
                inflow[cell] += u;
        }
        const fsi_real wet = fsi__clamp(FSI_R(0.5) - grid->phi[cell] / grid->h, 0, 1);
        sum += (double)(wet * inflow[cell]);
    }

    return sum * (double)(dt * grid->h * (grid->dim == 3 ? grid->h : 1));
}

/* The liquid moves with the velocity, keeps to its side of thin walls, and gets its volume back. */
static fsi_result fsi__move_liquid(fsi_grid *grid, fsi_real dt, fsi_levelset_report *report) {
    fsi_levelset *ls = &grid->levelset;
    fsi_levelset_walls walls = fsi__surface_walls(grid);
    if (grid->occluded) {
        fsi__mark_near(grid, dt, 0);
        walls.near_cell = grid->near_cell;
    }
    const int held = grid->occluded && grid->occlusion.solid;
    if (held)
        fsi__hold_beside_shells(grid, grid->mark[0]);

    ls->state->target += fsi__liquid_inflow(grid, dt);
    ls->desc.settle = fsi_vec_dot(grid->desc.gravity, grid->desc.gravity) > 0;
    fsi_result result =
        fsi_levelset_advance(ls, (const fsi_real *const *)grid->u, &walls, dt, report);
    if (result < 0)
        return result;
    if (grid->desc.volume_correction >= 0)
        fsi__ls_correct_from(ls, walls.solid, FSI_R(0.1), report->volume, report);
    grid->stats.liquid_volume = report->volume;
    if (held)
        fsi__restore_held(grid, grid->mark[0]);

    return result;
}

FSI_API fsi_result fsi_grid_move_surface(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_result result = fsi__stage_check(grid, dt);
    if (result < 0)
        return result;
    if (grid->phi) {
        fsi_levelset_report liquid = FSI__ZERO;
        if ((result = fsi__move_liquid(grid, dt, &liquid)) < 0)
            return result;
        if (report) {
            report->volume = liquid.volume;
            report->volume_change = liquid.volume_change;
        }
    }
    grid->time += (double)dt;
    grid->steps++;

    return result;
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset sampling */
/* Particle level set (Enright et al. 2002) on cell centres. Symbols:
     phi    signed distance, < 0 in the liquid
     place  lattice coordinates of a point, (x - origin) / h - 1/2: a cell centre has whole numbers
     band   number of cells from the surface in which phi is a distance
   A step: markers and phi move, escaped markers repair phi, phi is redistanced, repaired again,
   radii are renewed. */
#define FSI__LS_RMIN FSI_R(0.1) /* smallest and largest marker radius, cells */
#define FSI__LS_RMAX FSI_R(0.5)
/* phi bends this much over two cells, relative to its slope: a corner */
#define FSI__LS_BEND FSI_R(0.3)
/* air markers deeper in the liquid, cells, are dropped: the gap they marked has closed */
#define FSI__LS_AIR FSI_R(0.5)
#define FSI__LS_SEED FSI_R(3.0) /* markers live this close to the surface, cells */

/* The cells of a level set. */
static fsi__lattice fsi__ls_cells(const fsi_levelset *ls) {
    return fsi__lattice_of(ls->desc.nx, ls->desc.ny, ls->desc.nz, FSI__CELLS);
}

/* 2 or 3. */
static int fsi__ls_dim(const fsi_levelset *ls) {
    return ls->desc.nz > 1 ? 3 : 2;
}

/* Weights of a sample on a line: four samples (numbers kept on the line), their weights, and the
   derivatives of these. */
typedef struct fsi__ls_axis {
    int sample[4];
    fsi_real weight[4];
    fsi_real slope[4];
} fsi__ls_axis;

/* Cubic weights (Catmull-Rom) at lattice coordinate x on n samples where four samples are there,
   else linear, continued to half a cell outside. */
static fsi__ls_axis fsi__ls_weights(fsi_real x, int n) {
    fsi__ls_axis axis;
    const int base = fsi__iclamp((int)x, 0, fsi__imax(n - 2, 0)); /* x > -1 */
    const fsi_real t = n > 1 ? x - (fsi_real)base : 0;
    const fsi_real s = 1 - t;
    for (int m = 0; m < 4; m++)
        axis.sample[m] = fsi__iclamp(base - 1 + m, 0, n - 1);
    if (base > 0 && base < n - 2) {
        axis.weight[0] = -t * s * s / 2;
        axis.weight[3] = -s * t * t / 2;
        axis.weight[1] = s * (1 + t - FSI_R(1.5) * t * t);
        axis.weight[2] = t * (1 + s - FSI_R(1.5) * s * s);
        axis.slope[0] = -s * (s - 2 * t) / 2;
        axis.slope[3] = t * (t - 2 * s) / 2;
        axis.slope[1] = t * (FSI_R(4.5) * t - 5);
        axis.slope[2] = -s * (FSI_R(4.5) * s - 5);
        return axis;
    }
    axis.weight[0] = axis.weight[3] = axis.slope[0] = axis.slope[3] = 0;
    axis.weight[1] = s;
    axis.weight[2] = n > 1 ? t : 0;
    axis.slope[1] = n > 1 ? FSI_R(-1.0) : 0;
    axis.slope[2] = n > 1 ? FSI_R(1.0) : 0;

    return axis;
}

/* phi at a place by cubics (linear along an axis next to its ends); gradient per cell if asked for.
   limit: not beyond the samples around it. */
static fsi_real fsi__ls_cubic(const fsi_levelset *ls, fsi_vec3 place, int limit,
                              fsi_vec3 *gradient) {
    const int nx = ls->desc.nx;
    const int ny = ls->desc.ny;
    const int nz = ls->desc.nz;
    const fsi__ls_axis x = fsi__ls_weights(place.x, nx);
    const fsi__ls_axis y = fsi__ls_weights(place.y, ny);
    const fsi__ls_axis z = fsi__ls_weights(place.z, nz);
    fsi_real value = 0;
    fsi_real lo = FSI_REAL_MAX;
    fsi_real hi = -FSI_REAL_MAX;
    fsi_real dx = 0;
    fsi_real dy = 0;
    fsi_real dz = 0;
    const int first = nz > 1 ? 0 : 1;
    const int last = nz > 1 ? 4 : 2; /* 2D: one layer */
    for (int k = first; k < last; k++)
        for (int j = 0; j < 4; j++) {
            const size_t line = (size_t)y.sample[j] + (size_t)ny * (size_t)z.sample[k];
            const fsi_real *row = ls->phi + (size_t)nx * line;
            fsi_real along = 0;
            fsi_real change = 0;
            fsi_real across = y.weight[j] * z.weight[k];
            for (int i = 0; i < 4; i++)
                along += x.weight[i] * row[x.sample[i]];
            value += along * across;
            if (gradient) {
                for (int i = 0; i < 4; i++)
                    change += x.slope[i] * row[x.sample[i]];
                dx += change * across;
                dy += along * y.slope[j] * z.weight[k];
                dz += along * y.weight[j] * z.slope[k];
            }
            const int inner = (j == 1 || j == 2) && (k == 1 || k == 2);
            if (limit && inner) {
                lo = fsi__min(lo, fsi__min(row[x.sample[1]], row[x.sample[2]]));
                hi = fsi__max(hi, fsi__max(row[x.sample[1]], row[x.sample[2]]));
            }
        }
    if (gradient)
        *gradient = fsi_vec(dx, dy, dz);

    return limit ? fsi__clamp(value, lo, hi) : value;
}

/* Lattice coordinates of a world point; 2D: in the plane of the centres. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_place(const fsi_levelset *ls, fsi_vec3 x) {
    const fsi_vec3 cells = fsi_vec_scale(fsi_vec_sub(x, ls->desc.origin), 1 / ls->desc.h);
    fsi_vec3 place = fsi_vec_sub(cells, fsi__half_cell());
    if (ls->desc.nz == 1)
        place.z = 0;
    return place;
}

/* Coordinate clipped to a line of n cells. */
FSI__FORCE_INLINE fsi_real fsi__ls_clamp(fsi_real coordinate, int n) {
    return fsi__clamp(coordinate, FSI_R(-0.5), (fsi_real)n - FSI_R(0.5));
}

/* Lattice coordinates of a world point, clipped to the box. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_place_inside(const fsi_levelset *ls, fsi_vec3 x) {
    const fsi_vec3 place = fsi__ls_place(ls, x);
    return fsi_vec(fsi__ls_clamp(place.x, ls->desc.nx), fsi__ls_clamp(place.y, ls->desc.ny),
                   ls->desc.nz > 1 ? fsi__ls_clamp(place.z, ls->desc.nz) : 0);
}

/* The world point of a place. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_world(const fsi_levelset *ls, fsi_vec3 place) {
    return fsi_vec_mad(ls->desc.origin, fsi_vec_add(place, fsi__half_cell()), ls->desc.h);
}

/* Cell of a place inside the box. */
FSI__FORCE_INLINE ptrdiff_t fsi__ls_cell(const fsi_levelset *ls, fsi_vec3 place) {
    const int nx = ls->desc.nx;
    const int ny = ls->desc.ny;
    const int nz = ls->desc.nz;
    const int i = fsi__iclamp((int)(place.x + FSI_R(0.5)), 0, nx - 1);
    const int j = fsi__iclamp((int)(place.y + FSI_R(0.5)), 0, ny - 1);
    const int k = nz > 1 ? fsi__iclamp((int)(place.z + FSI_R(0.5)), 0, nz - 1) : 0;
    return i + nx * (j + (ptrdiff_t)ny * k);
}

/* The place of the centre of a cell. */
static fsi_vec3 fsi__ls_centre(const fsi_levelset *ls, ptrdiff_t cell) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    int at[3];
    fsi__lattice_place(&cells, cell, at);
    return fsi_vec((fsi_real)at[0], (fsi_real)at[1], (fsi_real)at[2]);
}

/* Gradient, per cell, of the linear interpolation from the lower corners of two layers. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_slope(const fsi_real *low, const fsi_real *high, size_t step_y,
                                         fsi_real wx, fsi_real wy, fsi_real wz) {
    const size_t y = step_y;

    /* The four corners of the plane between the layers: a b below, c d above. */
    const fsi_real a = fsi__mix(low[0], high[0], wz);
    const fsi_real b = fsi__mix(low[1], high[1], wz);
    const fsi_real c = fsi__mix(low[y], high[y], wz);
    const fsi_real d = fsi__mix(low[y + 1], high[y + 1], wz);
    const fsi_real rise_y0 = fsi__mix(high[0] - low[0], high[1] - low[1], wx);
    const fsi_real rise_y1 = fsi__mix(high[y] - low[y], high[y + 1] - low[y + 1], wx);
    return fsi_vec(fsi__mix(b - a, d - c, wy), fsi__mix(c - a, d - b, wx),
                   fsi__mix(rise_y0, rise_y1, wy));
}

/* phi at a place, linear, continued to half a cell outside; its gradient per cell if asked for. */
FSI__FORCE_INLINE fsi_real fsi__ls_linear(const fsi_levelset *ls, fsi_vec3 place,
                                          fsi_vec3 *gradient) {
    const int nx = ls->desc.nx;
    const int ny = ls->desc.ny;
    const int nz = ls->desc.nz;
    const int three = nz > 1;
    const int i = fsi__iclamp((int)place.x, 0, nx - 2);
    const int j = fsi__iclamp((int)place.y, 0, ny - 2);
    const int k = three ? fsi__iclamp((int)place.z, 0, nz - 2) : 0;
    const size_t step_y = (size_t)nx;
    const size_t step_z = step_y * (size_t)ny;
    const fsi_real *corner = ls->phi + ((size_t)i + step_y * (size_t)j + step_z * (size_t)k);
    const fsi_real wx = place.x - (fsi_real)i;
    const fsi_real wy = place.y - (fsi_real)j;
    const fsi_real wz = three ? place.z - (fsi_real)k : 0;
    if (gradient)
        *gradient = fsi__ls_slope(corner, three ? corner + step_z : corner, step_y, wx, wy, wz);

    return fsi__corner_mix(corner, step_y, step_z, wx, wy, wz, three);
}

/* phi at a world point. */
static fsi_real fsi__ls_phi(const fsi_levelset *ls, fsi_vec3 x) {
    return fsi__ls_linear(ls, fsi__ls_place_inside(ls, x), NULL);
}

/* Velocity at a place: linear on the faces of each component, constant beyond the outermost ones.
 */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_velocity(const fsi__mac *mac, fsi_vec3 place) {
    const fsi_vec3 X = fsi_vec_add(place, fsi__half_cell());
    return fsi__mac_at(mac, mac->three, X.x, X.y, X.z);
}

/* Velocity at the centre of cell (i, j, k): the means of its faces. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_centre_velocity(const fsi__mac *mac, ptrdiff_t i, ptrdiff_t j,
                                                   ptrdiff_t k) {
    const ptrdiff_t nx = mac->cells[0];
    const ptrdiff_t ny = mac->cells[1];
    const fsi_real *u0 = mac->u[0] + i + (nx + 1) * (j + ny * k);
    const fsi_real *u1 = mac->u[1] + i + nx * (j + (ny + 1) * k);
    const fsi_real *u2 = mac->three ? mac->u[2] + i + nx * (j + ny * k) : NULL;
    return fsi_vec(FSI_R(0.5) * (u0[0] + u0[1]), FSI_R(0.5) * (u1[0] + u1[nx]),
                   u2 ? FSI_R(0.5) * (u2[0] + u2[nx * ny]) : 0);
}

/* Where a place with this velocity comes to in dth = dt / h (negative: comes from): the midpoint
   rule. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_trace(const fsi__mac *mac, fsi_vec3 place, fsi_vec3 velocity,
                                         fsi_real dth) {
    fsi_vec3 middle = fsi_vec_mad(place, velocity, dth / 2);
    return fsi_vec_mad(place, fsi__ls_velocity(mac, middle), dth);
}

/* Does clip_fn have to be asked about ways that begin at this place? */
FSI__FORCE_INLINE int fsi__ls_guarded(const fsi_levelset *ls, const fsi_levelset_walls *walls,
                                      fsi_vec3 place) {
    if (!walls->clip_fn)
        return 0;
    return !walls->near_cell || walls->near_cell[fsi__ls_cell(ls, place)];
}

/* The way between two places ends at a solid; *beyond is how far its end lies outside an open side
   to which the way leads, cells (negative: inside, by that much). Closed sides clip. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_clip(const fsi_levelset *ls, const fsi_levelset_walls *walls,
                                        fsi_vec3 from, fsi_vec3 to, fsi_real *beyond) {
    if (fsi__ls_guarded(ls, walls, from)) {
        fsi_vec3 x = walls->clip_fn(fsi__ls_world(ls, from), fsi__ls_world(ls, to), walls->user);
        if (fsi__finite_vec(x))
            to = fsi__ls_place(ls, x);
    }
    const int n[3] = {ls->desc.nx, ls->desc.ny, ls->desc.nz};
    const int *open = walls->open;
    const fsi_real lo = FSI_R(-0.5);
    fsi_real start[3];
    fsi_real end[3];
    fsi_vec_store(start, from);
    fsi_vec_store(end, to);
    *beyond = FSI_R(-1e6);

    for (int axis = 0; axis < (n[2] > 1 ? 3 : 2); axis++) {
        const fsi_real hi = (fsi_real)n[axis] + lo;
        if (open[2 * axis] && end[axis] < start[axis])
            *beyond = fsi__max(*beyond, lo - end[axis]);
        if (open[2 * axis + 1] && end[axis] > start[axis])
            *beyond = fsi__max(*beyond, end[axis] - hi);
        end[axis] = fsi__clamp(end[axis], lo, hi);
    }

    return fsi_vec(end[0], end[1], n[2] > 1 ? end[2] : 0);
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset life */
static void fsi__ls_layout(fsi_levelset *ls, fsi_arena *arena) {
    const int nx = ls->desc.nx;
    const int ny = ls->desc.ny;
    const int nz = ls->desc.nz;
    size_t faces = 0; /* most of an axis */
    for (int axis = 0; axis < fsi__ls_dim(ls); axis++) {
        const size_t count = (size_t)fsi__lattice_of(nx, ny, nz, axis).count;
        faces = count > faces ? count : faces;
    }
    FSI__TAKE(ls->state, arena, 1);
    FSI__TAKE(ls->phi, arena, ls->cells);
    FSI__TAKE(ls->marker_x, arena, ls->room);
    FSI__TAKE(ls->marker_y, arena, ls->room);
    FSI__TAKE(ls->marker_z, arena, nz > 1 ? ls->room : 0);
    FSI__TAKE(ls->marker_radius, arena, ls->room);
    FSI__TAKE(ls->next_phi, arena, ls->cells);
    FSI__TAKE(ls->other_phi, arena, ls->cells);
    FSI__TAKE(ls->heap, arena, faces);
    FSI__TAKE(ls->slot, arena, faces);
    FSI__TAKE(ls->mark, arena, faces);
    FSI__TAKE(ls->marker_flag, arena, ls->room);
}

/* Markers of a cell that is full. */
static int fsi__ls_full(const fsi_levelset *ls) {
    const int along = ls->desc.particles;
    return along < 0 ? 0 : along * along * (ls->desc.nz > 1 ? along : 1);
}

/* Checks the description and fills in the defaults. */
static fsi_result fsi__ls_resolve(fsi_levelset *ls, const fsi_levelset_desc *desc) {
    fsi_levelset_desc *given = &ls->desc;
    *given = *desc;
    if (given->particles < -1 || given->particles > 8 || given->reseed < -1)
        return FSI_ERR_ARGUMENT;
    if (given->redistance < -1 || given->band < 0 || !fsi_allocator_valid(&given->allocator))
        return FSI_ERR_ARGUMENT;

    const fsi_result result =
        fsi__box_check(given->nx, given->ny, given->nz, given->h, given->origin);
    if (result < 0)
        return result;

    ls->cells = (size_t)given->nx * (size_t)given->ny * (size_t)given->nz;
    if (!given->particles)
        given->particles = given->nz > 1 ? 3 : 4;
    if (!given->reseed)
        given->reseed = 20;
    if (!given->redistance)
        given->redistance = 5;
    given->band = given->band ? fsi__imax(given->band, 5) : 8;

    /* Room for markers: all cells full on small grids, else an eighth (2D: half) of them. */
    size_t seeded = given->nz > 1 ? ls->cells / 8 + 28672 : ls->cells / 2 + 16384;
    if (ls->cells < 32768)
        seeded = ls->cells;
    if (given->particles < 0)
        given->particle_room = 0;
    else if (!given->particle_room)
        given->particle_room = (size_t)fsi__ls_full(ls) * seeded;
    if (given->particle_room > 0x7fffffffu)
        return FSI_ERR_SIZE;

    ls->room = given->particle_room;

    return FSI_OK;
}

FSI_API fsi_result fsi_levelset_init(fsi_levelset *ls, const fsi_levelset_desc *desc) {
    if (!ls || !desc)
        return FSI_ERR_ARGUMENT;

    fsi_levelset fresh;
    fsi_arena arena;
    memset(&fresh, 0, sizeof fresh);
    memset(&arena, 0, sizeof arena);
    fsi_result result = fsi__ls_resolve(&fresh, desc);
    if (result < 0)
        return result;

    /* One block, whose size the first layout counts. */
    fsi__ls_layout(&fresh, &arena);
    result = fsi__arena_block(&arena, &fresh.desc.allocator, &fresh.block, &fresh.block_size);
    if (result < 0)
        return result;

    fsi__ls_layout(&fresh, &arena);
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

/* Everything that a step changes, listed once; see fsi__state in the base. */
static void fsi__ls_state(void *object, fsi__state *state) {
    fsi_levelset *ls = (fsi_levelset *)object;
    fsi_levelset_state own = *ls->state;
    fsi__state_match(state, ls->cells);
    fsi__state_match(state, ls->room);
    own.count = (size_t)fsi__state_integer(state, (int64_t)own.count, 0, (int64_t)ls->room);
    own.steps = fsi__state_integer(state, own.steps, 0, INT64_MAX);
    fsi__state_copy(state, &own.random, 1, sizeof own.random);
    fsi__state_copy(state, &own.target, 1, sizeof own.target);
    fsi__state_require(state, fsi__finite64(own.target));
    if (fsi__state_loads(state))
        *ls->state = own;

    fsi__state_reals(state, ls->phi, ls->cells);
    fsi_real *place[3] = {ls->marker_x, ls->marker_y, ls->marker_z};
    const int n[3] = {ls->desc.nx, ls->desc.ny, ls->desc.nz};
    for (int axis = 0; axis < fsi__ls_dim(ls); axis++) {
        fsi_real lo = fsi__get(ls->desc.origin, axis);
        fsi_real hi = lo + (fsi_real)n[axis] * ls->desc.h;
        fsi__state_within(state, place[axis], ls->room, own.count, lo, hi);
    }
    fsi__state_within(state, ls->marker_radius, ls->room, own.count, -ls->desc.h, ls->desc.h);
}

FSI_API size_t fsi_levelset_state_size(const fsi_levelset *ls) {
    return ls && ls->block ? fsi__state_size(fsi__ls_state, ls) : 0;
}

FSI_API fsi_result fsi_levelset_save(const fsi_levelset *ls, void *block) {
    if (!ls || !ls->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__ls_state, FSI__STATE_OF('l', 'e', 'v', 'l'), ls, block);
}

FSI_API fsi_result fsi_levelset_restore(fsi_levelset *ls, const void *block, size_t size) {
    if (!ls || !ls->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__ls_state, FSI__STATE_OF('l', 'e', 'v', 'l'), ls, block, size);
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset redistance */
/* The two rings of cells next to the surface get their distance to the zero set of phi itself, the
   rest by fast marching from there. Marks of cells: 1 = their distance is fixed. Slots of cells: */
enum {
    FSI__LS_UNSEEN = -1, /* 0 and more: the place in the heap */
    FSI__LS_SETTLED = -2,
    FSI__LS_EXACT = -3 /* not beside the surface, but its distance is fixed all the same */
};

/* Sorts three numbers upwards. */
static void fsi__sort3(fsi_real *v) {
    for (int pass = 0; pass < 3; pass++) {
        const int i = pass % 2;
        if (v[i] > v[i + 1]) {
            const fsi_real larger = v[i];
            v[i] = v[i + 1];
            v[i + 1] = larger;
        }
    }
}

/* Is one of the neighbours of a sample marked? */
static int fsi__ls_beside_mark(const fsi_levelset *ls, const fsi__lattice *samples,
                               ptrdiff_t sample) {
    int at[3];
    fsi__lattice_place(samples, sample, at);
    for (int side = 0; side < 6; side++) {
        const ptrdiff_t other = fsi__sample_beside(samples, at, sample, side);
        if (other >= 0 && ls->mark[other])
            return 1;
    }
    return 0;
}

/* Distances along the axes to the nearest change of sign, linear between samples: in cells, 2 where
   there is none. Returns the smallest one. */
static fsi_real fsi__ls_crossings(const fsi_levelset *ls, const fsi__lattice *cells, ptrdiff_t cell,
                                  fsi_real distance[3]) {
    const fsi_real *phi = ls->phi;
    int at[3];
    fsi__lattice_place(cells, cell, at);
    for (int axis = 0; axis < 3; axis++) {
        distance[axis] = 2;
        for (int up = 0; up < 2; up++) {
            const ptrdiff_t other = fsi__lattice_beside(cells, at, cell, axis, up);
            if (other >= 0 && (phi[cell] < 0) != (phi[other] < 0))
                distance[axis] = fsi__min(distance[axis], phi[cell] / (phi[cell] - phi[other]));
        }
    }
    return fsi__min(distance[0], fsi__min(distance[1], distance[2]));
}

/* Does phi bend within less than about two cells at this cell: a corner or a film, where the cubic
   interpolant would move the surface? */
static int fsi__ls_bent(const fsi_levelset *ls, const fsi__lattice *cells, ptrdiff_t cell,
                        const int *at) {
    const fsi_real *phi = ls->phi + cell;
    fsi_real bend = 0;
    fsi_real slope = 0;
    for (int axis = 0; axis < 3; axis++) {
        const ptrdiff_t step = cells->step[axis];
        const int below = fsi__lattice_has(cells, at, axis, 0);
        const int above = fsi__lattice_has(cells, at, axis, 1);
        const fsi_real lo = below ? phi[0] - phi[-step] : 0;
        const fsi_real hi = above ? phi[step] - phi[0] : 0;
        slope += fsi__max(lo * lo, hi * hi);
        if (below && above)
            bend = fsi__max(bend, fsi__abs(hi - lo));
    }
    return bend * bend > FSI__LS_BEND * FSI__LS_BEND * slope;
}

/* The same at the cell or a neighbour of it: at one across the surface, or (all) at any. */
static int fsi__ls_sharp(const fsi_levelset *ls, ptrdiff_t cell, int all) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    int at[3];
    fsi__lattice_place(&cells, cell, at);
    if (fsi__ls_bent(ls, &cells, cell, at))
        return 1;

    for (int side = 0; side < 6; side++) {
        const ptrdiff_t other = fsi__sample_beside(&cells, at, cell, side);
        if (other < 0 || (!all && (ls->phi[other] < 0) == (ls->phi[cell] < 0)))
            continue;
        int place[3] = {at[0], at[1], at[2]};
        place[side >> 1] += side & 1 ? 1 : -1;
        if (fsi__ls_bent(ls, &cells, other, place))
            return 1;
    }

    return 0;
}

/* Distance in cells of a cell to the zero set of the cubic interpolant, by Chopp's iteration for
   the closest point (one part of the step goes down to the surface, the other one along it).
   Negative when it does not settle within two and a half cells. */
static fsi_real fsi__ls_closest(const fsi_levelset *ls, ptrdiff_t cell) {
    const fsi_vec3 start = fsi__ls_centre(ls, cell);
    const fsi_real per_h = 1 / ls->desc.h;
    fsi_vec3 place = start;
    fsi_real move = 1;

    for (int round = 0; round < 6 && move > 16 * FSI_REAL_EPS * FSI_REAL_EPS; round++) {
        fsi_vec3 slope;
        fsi_real value = fsi__ls_cubic(ls, place, 0, &slope) * per_h;
        slope = fsi_vec_scale(slope, per_h);
        const fsi_real square = fsi_vec_dot(slope, slope);
        if (!(square > FSI_R(0.01)))
            return -1;

        /* Down to the surface; and towards the start, without the part along the normal. */
        const fsi_vec3 back = fsi_vec_sub(start, place);
        const fsi_vec3 down = fsi_vec_scale(slope, -value / square);
        const fsi_vec3 slide = fsi_vec_mad(back, slope, -fsi_vec_dot(back, slope) / square);
        place = fsi_vec_add(place, fsi_vec_add(down, slide));
        const fsi_vec3 gone = fsi_vec_sub(place, start);
        if (fsi_vec_dot(gone, gone) > FSI_R(6.25))
            return -1;
        move = fsi_vec_dot(down, down) + fsi_vec_dot(slide, slide);
    }

    return move < FSI_R(1e-8) ? fsi__length(fsi_vec_sub(place, start)) : -1;
}

/* Distance of a cell next to the surface, in cells: the closest point where phi is smooth and the
   answer sane, else from the axis crossings: 1 / d^2 = sum 1 / d_i^2, exact for planes. */
static fsi_real fsi__ls_near(const fsi_levelset *ls, ptrdiff_t cell) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    fsi_real crossing[3];
    fsi_real sum = 0;
    const fsi_real least = fsi__ls_crossings(ls, &cells, cell, crossing);
    for (int axis = 0; axis < 3; axis++)
        if (crossing[axis] < 2)
            sum += 1 / fsi__max(crossing[axis] * crossing[axis], FSI_R(1e-24));
    const fsi_real plane = 1 / fsi__sqrt(sum);
    if (fsi__ls_sharp(ls, cell, 0))
        return plane;

    const fsi_real closest = fsi__ls_closest(ls, cell);
    const int too_far = closest > least * FSI_R(1.05) + FSI_R(1e-3);
    const int too_close = closest < least * FSI_R(0.55) - FSI_R(0.02);

    return closest < 0 || too_far || too_close ? plane : closest;
}

/* mark = 1 where phi changes its sign towards a neighbour: the cells next to the surface. */
static void fsi__ls_mark_near(fsi_levelset *ls) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    FSI__PARALLEL(ls->cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        fsi_real crossing[3];
        ls->mark[cell] = fsi__ls_crossings(ls, &cells, cell, crossing) < 2;
    }
}

/* Distance of a cell of the second ring: exact too where phi is smooth, so that the next call sees
   the same cubic; negative: leave it to the marching. */
static fsi_real fsi__ls_second(const fsi_levelset *ls, ptrdiff_t cell) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    if (!fsi__ls_beside_mark(ls, &cells, cell) || fsi__ls_sharp(ls, cell, 1))
        return -1;
    return fsi__ls_closest(ls, cell);
}

/* Brings the cell at a place of the heap to where it belongs by its distance (next_phi). */
static void fsi__ls_sift(fsi_levelset *ls, int at, int count) {
    const fsi_real *distance = ls->next_phi;
    int32_t *heap = ls->heap;
    int32_t *slot = ls->slot;
    const int32_t cell = heap[at];
    while (at > 0 && distance[heap[(at - 1) / 2]] > distance[cell]) {
        heap[at] = heap[(at - 1) / 2];
        slot[heap[at]] = at;
        at = (at - 1) / 2;
    }
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && distance[heap[child + 1]] < distance[heap[child]])
            child++;
        if (!(distance[heap[child]] < distance[cell]))
            break;
        heap[at] = heap[child];
        slot[heap[at]] = at;
        at = child;
    }
    heap[at] = cell;
    slot[cell] = at;
}

/* Puts a cell at the end of the heap. */
static void fsi__ls_push(fsi_levelset *ls, ptrdiff_t cell, int *count) {
    ls->heap[*count] = (int32_t)cell;
    ls->slot[cell] = *count;
    *count += 1;
}

/* Takes the closest cell out of the heap. */
static ptrdiff_t fsi__ls_pop(fsi_levelset *ls, int *count) {
    const ptrdiff_t cell = ls->heap[0];
    *count -= 1;
    ls->heap[0] = ls->heap[*count];
    if (*count) {
        ls->slot[ls->heap[0]] = 0;
        fsi__ls_sift(ls, 0, *count);
    }
    ls->slot[cell] = FSI__LS_SETTLED;
    return cell;
}

/* |grad T| = 1 at a cell from the settled neighbours on its own side, upwind (in cells). First
   order on purpose: then T depends continuously on the two exact rings, whatever the order of
   nearly equal distances, and a mirrored scene stays mirrored. */
static fsi_real fsi__ls_eikonal(const fsi_levelset *ls, const fsi__lattice *cells, ptrdiff_t cell) {
    const fsi_real *distance = ls->next_phi;
    const fsi_real *phi = ls->phi;
    fsi_real nearest[3];
    int at[3];
    fsi__lattice_place(cells, cell, at);

    for (int axis = 0; axis < 3; axis++) {
        nearest[axis] = FSI_REAL_MAX;
        for (int up = 0; up < 2; up++) {
            const ptrdiff_t other = fsi__lattice_beside(cells, at, cell, axis, up);
            const int same = other >= 0 && (phi[other] < 0) == (phi[cell] < 0);
            if (same && ls->slot[other] == FSI__LS_SETTLED)
                nearest[axis] = fsi__min(nearest[axis], distance[other]);
        }
    }
    fsi__sort3(nearest);

    /* One axis after the other, as long as it lies below the result T:
       count T^2 - 2 sum T + square = 0. */
    fsi_real result = nearest[0] + 1;
    fsi_real sum = 0;
    fsi_real square = -1;

    for (int count = 1; count <= 3 && nearest[count - 1] < result; count++) {
        const fsi_real next = nearest[count - 1];
        sum += next;
        square += next * next;
        const fsi_real root = sum * sum - (fsi_real)count * square;
        result = root > 0 ? (sum + fsi__sqrt(root)) / (fsi_real)count : result;
    }

    return result;
}

/* Settles cells in the order of their distance until the band is filled. */
static void fsi__ls_march(fsi_levelset *ls, int count) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    const fsi_real limit = (fsi_real)ls->desc.band;

    while (count > 0 && !(ls->next_phi[ls->heap[0]] >= limit)) {
        const ptrdiff_t cell = fsi__ls_pop(ls, &count);
        int at[3];
        fsi__lattice_place(&cells, cell, at);
        for (int side = 0; side < 6; side++) {
            const ptrdiff_t other = fsi__sample_beside(&cells, at, cell, side);
            const int same = other >= 0 && (ls->phi[other] < 0) == (ls->phi[cell] < 0);
            if (!same || ls->slot[other] == FSI__LS_SETTLED || ls->mark[other])
                continue;

            /* A neighbour that is new, or closer than it was known to be. */
            const fsi_real distance = fsi__ls_eikonal(ls, &cells, other);
            const int fresh = ls->slot[other] == FSI__LS_UNSEEN;
            if (!fresh && !(distance < ls->next_phi[other]))
                continue;
            ls->next_phi[other] = distance;
            if (fresh)
                fsi__ls_push(ls, other, &count);
            fsi__ls_sift(ls, ls->slot[other], count);
        }
    }
}

/* Liquid cells at an open side with the surface between their centre and the side: air that came in
   must not be forgotten before it reaches a centre. open as in fsi_levelset_walls. */
static void fsi__ls_side_films(fsi_levelset *ls, const int *open) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    for (int side = 0; side < 2 * fsi__ls_dim(ls); side++)
        for (ptrdiff_t cell = 0; open[side] && cell < cells.count; cell++) {
            int at[3];
            fsi__lattice_place(&cells, cell, at);
            if (fsi__lattice_has(&cells, at, side >> 1, side & 1) || ls->mark[cell])
                continue;
            const ptrdiff_t inward = fsi__lattice_beside(&cells, at, cell, side >> 1, !(side & 1));
            const fsi_real phi = ls->phi[cell];
            const fsi_real slope = ls->phi[inward] - phi;
            if (phi < 0 && slope < 2 * phi) {
                ls->next_phi[cell] = phi / slope;
                ls->slot[cell] = FSI__LS_EXACT;
            }
        }
}

/* Redistances; open (may be NULL): sides through which air comes in. */
static void fsi__ls_redistance(fsi_levelset *ls, const int *open) {
    const ptrdiff_t cells = (ptrdiff_t)ls->cells;
    const fsi_real h = ls->desc.h;
    const fsi_real band = (fsi_real)ls->desc.band;
    fsi_real *distance = ls->next_phi;

    /* The two exact rings. */
    fsi__ls_mark_near(ls);
    FSI__OMP(parallel for schedule(dynamic, 512) if (cells > FSI__GRAIN))
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        ls->slot[cell] = FSI__LS_UNSEEN;
        distance[cell] = band;
        if (ls->mark[cell])
            distance[cell] = fsi__ls_near(ls, cell);
        else if (fsi__abs(ls->phi[cell]) < 8 * h) {
            const fsi_real second = fsi__ls_second(ls, cell);
            if (second >= FSI_R(0.1)) {
                distance[cell] = second;
                ls->slot[cell] = FSI__LS_EXACT;
            }
        }
    }
    if (open)
        fsi__ls_side_films(ls, open);

    /* They go through the heap too: settled in order, value fixed. */
    int count = 0;
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        if (ls->mark[cell] || ls->slot[cell] == FSI__LS_EXACT) {
            ls->mark[cell] = 1;
            fsi__ls_push(ls, cell, &count);
            fsi__ls_sift(ls, count - 1, count);
        }
    fsi__ls_march(ls, count);

    /* The sign never changes here. */
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        const fsi_real size = fsi__min(distance[cell], band) * h;
        ls->phi[cell] = ls->phi[cell] < 0 ? -fsi__max(size, FSI_REAL_EPS * h) : size;
    }
}

FSI_API void fsi_levelset_redistance(fsi_levelset *ls) {
    fsi__ls_redistance(ls, NULL);
}

/* Continues phi from the free cells into the solid ones next to them, so that the surface meets the
   wall straight: three layers of solid cells take the mean of what is known next to them. */
static void fsi__ls_continue(fsi_levelset *ls, const uint8_t *solid) {
    if (!solid)
        return;

    const fsi__lattice cells = fsi__ls_cells(ls);
    for (ptrdiff_t cell = 0; cell < cells.count; cell++)
        ls->mark[cell] = !solid[cell];
    fsi__spread(&cells, 3, ls->phi, ls->mark);
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset extrapolation */
/* n . grad u = 0, solved outward from the liquid. Marks of faces: 1 known, 0 not, 2 not to be used.
   Slots of faces: 1 to be filled, 2 in the list, 3 filled in this round. */
typedef struct fsi__ls_faces {
    fsi__lattice faces;
    fsi__lattice cells;
    int axis;
    int dim;
} fsi__ls_faces;

/* The faces of an axis, and the cells around them. */
static fsi__ls_faces fsi__ls_faces_of(const fsi_levelset *ls, int axis) {
    fsi__ls_faces mesh;
    mesh.faces = fsi__lattice_of(ls->desc.nx, ls->desc.ny, ls->desc.nz, axis);
    mesh.cells = fsi__ls_cells(ls);
    mesh.axis = axis;
    mesh.dim = fsi__ls_dim(ls);
    return mesh;
}

/* Twice the mean of phi over the two cells of a face, the `place`-th along its axis, below a cell
   (one cell at the border). */
FSI__INLINE fsi_real fsi__ls_face_phi(const fsi_real *phi, const fsi__ls_faces *mesh,
                                      ptrdiff_t cell, ptrdiff_t place) {
    const ptrdiff_t step = mesh->cells.step[mesh->axis];
    const int inside = place < mesh->cells.n[mesh->axis];
    return phi[place > 0 ? cell - step : cell] + phi[inside ? cell : cell - step];
}

/* The value that a face hands on to the next one in direction -step: constant, or continued by the
   smaller of the two slopes behind it where they agree in sign. A surface wave needs the slope:
   with constant values its frequency is off by k h / 3. behind: faces behind it. */
static fsi_real fsi__ls_handed(const fsi_levelset *ls, const fsi_real *u, ptrdiff_t face,
                               ptrdiff_t step, ptrdiff_t behind) {
    const fsi_real own = u[face];
    if (behind < 2 || !ls->mark[face + step] || !ls->mark[face + 2 * step])
        return own;

    const fsi_real first = own - u[face + step];
    const fsi_real second = u[face + step] - u[face + 2 * step];
    if (!(first * second > 0))
        return own;
    return own + (fsi__abs(first) < fsi__abs(second) ? first : second);
}

/* A face, the cell above it, and phi there. */
typedef struct fsi__ls_spot {
    int at[3];
    ptrdiff_t face;
    ptrdiff_t cell;
    fsi_real phi;
} fsi__ls_spot;

/* What the lower of the two neighbours of a face along one axis hands on. */
typedef struct fsi__ls_upwind {
    fsi_real drop, value; /* of phi towards it; what it hands on */
    int known;
} fsi__ls_upwind;

/* The lower neighbour along an axis. force: only known ones. mean, count: all known ones are added
   here. */
FSI__INLINE fsi__ls_upwind fsi__ls_lower(const fsi_levelset *ls, const fsi__ls_faces *mesh,
                                         const fsi_real *u, const fsi__ls_spot *spot, int axis,
                                         int force, fsi_real *mean, int *count) {
    const fsi_real h = ls->desc.h;
    const fsi_real level = FSI_R(1e-6) * h;
    const fsi_real here = spot->phi;
    const int *at = spot->at;
    const int along = axis == mesh->axis;
    const int place = at[mesh->axis];
    const ptrdiff_t face = spot->face;
    const ptrdiff_t cell = spot->cell;
    fsi__ls_upwind best = {0, 0, 1};
    fsi_real most = FSI_R(1e-3) * h; /* smaller drops count as level */
    for (int up = 0; up < 2; up++) {
        const int turn = up ? 1 : -1;
        const ptrdiff_t step = turn * mesh->faces.step[axis];
        const ptrdiff_t other = face + step;
        if (!fsi__lattice_has(&mesh->faces, at, axis, up) || ls->mark[other] == 2)
            continue;
        const int known = ls->mark[other] == 1;
        if (!known && force)
            continue;
        fsi_real value = 0;
        if (known) {
            const int behind = up ? mesh->faces.n[axis] - 2 - at[axis] : at[axis] - 1;
            *mean += u[other];
            *count += 1;
            value = fsi__ls_handed(ls, u, other, step, here < 2 * h ? behind : 0);
        }
        const ptrdiff_t other_cell = cell + turn * mesh->cells.step[axis];
        const int other_place = place + (along ? turn : 0);
        const fsi_real drop = here - fsi__ls_face_phi(ls->phi, mesh, other_cell, other_place) / 2;
        if (drop > most + level) {
            most = best.drop = drop;
            best.value = value;
            best.known = known;
        } else if (drop > most - level) {
            /* Both sides alike: a mirrored scene stays mirrored. */
            best.value = (best.value + value) / 2;
            best.known = best.known && known;
        }
    }

    return best;
}

/* The value of a face: the mean of the neighbours with lower phi, weighted by the drop. Returns 0
   while one of them is not known yet; with force it takes what is known, and the plain mean where
   none of that lies lower. */
static int fsi__ls_extend(const fsi_levelset *ls, const fsi__ls_faces *mesh, const fsi_real *u,
                          ptrdiff_t face, int force, fsi_real *out) {
    fsi_real drops = 0;
    fsi_real sum = 0;
    fsi_real mean = 0;
    int count = 0;
    int wait = 0;
    fsi__ls_spot spot;
    spot.face = face;
    fsi__lattice_place(&mesh->faces, face, spot.at);
    spot.cell = fsi__lattice_at(&mesh->cells, spot.at);
    spot.phi = fsi__ls_face_phi(ls->phi, mesh, spot.cell, spot.at[mesh->axis]) / 2;
    for (int axis = 0; axis < mesh->dim; axis++) {
        const fsi__ls_upwind lower = fsi__ls_lower(ls, mesh, u, &spot, axis, force, &mean, &count);
        wait |= !lower.known;
        drops += lower.drop;
        sum += lower.drop * lower.value;
    }
    if (!count || (!force && (wait || !(drops > 0))))
        return 0;
    *out = drops > 0 ? sum / drops : mean / (fsi_real)count;

    return 1;
}

/* Marks the faces and which of them are to be filled; those that are not known are zeroed. given:
   the marks, or NULL = known beside liquid. */
static void fsi__ls_mark_faces(fsi_levelset *ls, const fsi__ls_faces *mesh, const uint8_t *given,
                               int layers, fsi_real *u) {
    const fsi__lattice *faces = &mesh->faces;
    const fsi_real reach = 2 * (fsi_real)layers * ls->desc.h;
    const ptrdiff_t step = mesh->cells.step[mesh->axis];
    FSI__PARALLEL(faces->count > FSI__GRAIN)
    for (ptrdiff_t row = 0; row < faces->rows; row++) {
        int at[3];
        fsi__lattice_row(faces, row, at);
        for (; at[0] < faces->n[0]; at[0]++) {
            const ptrdiff_t face = row * faces->n[0] + at[0];
            const ptrdiff_t cell = fsi__lattice_at(&mesh->cells, at);
            const int place = at[mesh->axis];
            const int inside = place < mesh->cells.n[mesh->axis];
            if (given)
                ls->mark[face] = given[face];
            else
                ls->mark[face] = (uint8_t)((place > 0 && ls->phi[cell - step] < 0)
                                           || (inside && ls->phi[cell] < 0));
            const int unknown = ls->mark[face] == 0;
            ls->slot[face] = unknown && fsi__ls_face_phi(ls->phi, mesh, cell, place) < reach;
            if (unknown)
                u[face] = 0;
        }
    }
}

/* Lists the faces to be filled beside marked ones, in the heap. */
static int fsi__ls_front(fsi_levelset *ls, const fsi__lattice *faces) {
    int count = 0;
    for (ptrdiff_t face = 0; face < faces->count; face++) {
        const int unknown = ls->slot[face] == 1 && ls->mark[face] == 0;
        if (unknown && fsi__ls_beside_mark(ls, faces, face))
            ls->heap[count++] = (int32_t)face;
    }
    return count;
}

/* Lists the neighbours of the first `done` faces of the list that are to be filled. The list grows
   down from the end of the heap: known and unknown faces are not more than all. Returns their
   number. */
static int fsi__ls_next_front(fsi_levelset *ls, const fsi__ls_faces *mesh, int done) {
    const fsi__lattice *faces = &mesh->faces;
    int32_t *end = ls->heap + faces->count;
    int next = 0;
    for (int i = 0; i < done; i++) {
        const ptrdiff_t face = ls->heap[i];
        int at[3];
        fsi__lattice_place(faces, face, at);
        for (int side = 0; side < 2 * mesh->dim; side++) {
            const ptrdiff_t other = fsi__sample_beside(faces, at, face, side);
            if (other < 0 || ls->mark[other] || ls->slot[other] != 1)
                continue;
            ls->slot[other] = 2;
            next++;
            end[-next] = (int32_t)other;
        }
    }

    return next;
}

/* Fills faces from a front outward. A round sees only what earlier ones made known; the next one
   tries the neighbours of what this one made known. */
static void fsi__ls_fill(fsi_levelset *ls, const fsi__ls_faces *mesh, fsi_real *u, int force) {
    int32_t *list = ls->heap;
    int32_t *end = ls->heap + mesh->faces.count;
    int count = fsi__ls_front(ls, &mesh->faces);

    while (count > 0) {
        FSI__PARALLEL(count > 1024)
        for (ptrdiff_t i = 0; i < count; i++) {
            const ptrdiff_t face = list[i];
            ls->slot[face] = fsi__ls_extend(ls, mesh, u, face, force, &u[face]) ? 3 : 1;
        }
        int done = 0;
        for (int i = 0; i < count; i++)
            if (ls->slot[list[i]] == 3) {
                ls->mark[list[i]] = 1;
                list[done++] = list[i];
            }
        count = fsi__ls_next_front(ls, mesh, done);
        for (int i = 0; i < count; i++)
            list[i] = end[i - count];
    }
}

FSI_API void fsi_levelset_extrapolate(fsi_levelset *ls, fsi_real *const u[3],
                                      const uint8_t *const valid[3], int layers) {
    for (int axis = 0; axis < fsi__ls_dim(ls); axis++) {
        const fsi__ls_faces mesh = fsi__ls_faces_of(ls, axis);
        fsi__ls_mark_faces(ls, &mesh, valid ? valid[axis] : NULL, layers, u[axis]);
        fsi__ls_fill(ls, &mesh, u[axis], 0);

        /* In nooks no order may be found. */
        fsi__ls_fill(ls, &mesh, u[axis], 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset volume */
/* Part of the unit cube where offset + slope . x < 0, x in [-1/2, 1/2]^3 (Scardovelli and Zaleski
   2000). m1 <= m2 <= m3: the slopes, scaled to sum to 1; q: the plane's offset from the corner. */
static fsi_real fsi__ls_cut(fsi_real offset, fsi_real sx, fsi_real sy, fsi_real sz) {
    fsi_real m[3] = {fsi__abs(sx), fsi__abs(sy), fsi__abs(sz)};
    fsi__sort3(m);
    const fsi_real sum = m[0] + m[1] + m[2];
    if (!(sum > 0) || 2 * fsi__abs(offset) >= sum)
        return offset < 0 ? FSI_R(1.0) : FSI_R(0.0);

    const fsi_real m1 = m[0] / sum;
    const fsi_real m2 = m[1] / sum;
    const fsi_real m3 = m[2] / sum;
    const fsi_real m12 = m1 + m2;

    /* The larger half is 1 - the smaller one: q <= 1/2 from here. */
    fsi_real volume;
    fsi_real q = FSI_R(0.5) - offset / sum;
    const int flip = q > FSI_R(0.5);
    if (flip)
        q = 1 - q;
    if (q < m1)
        volume = q * q * q / (6 * m1 * m2 * m3);
    else if (q < m2)
        volume = q * (q - m1) / (2 * m2 * m3) + m1 * m1 / (6 * m2 * m3);
    else if (q < fsi__min(m12, m3))
        volume = (q * q * (3 * m12 - q) + m1 * m1 * (m1 - 3 * q) + m2 * m2 * (m2 - 3 * q))
                 / (6 * m1 * m2 * m3);
    else if (m12 <= m3)
        volume = (2 * q - m12) / (2 * m3);
    else
        volume = (q * q * (3 - 2 * q) + m1 * m1 * (m1 - 3 * q) + m2 * m2 * (m2 - 3 * q)
                  + m3 * m3 * (m3 - 3 * q))
                 / (6 * m1 * m2 * m3);

    return flip ? 1 - volume : volume;
}

/* A patch: the 3^3 samples around a cell; the cell is number 13, neighbours along the axes are 1, 3
   and 9 away. */
static const int fsi__ls_stride[3] = {1, 3, 9};

/* Continues a patch linearly beyond the box: the samples on its lower (end = 0) or upper side along
   an axis. */
static void fsi__ls_patch_end(int axis, int end, fsi_real patch[27]) {
    const int stride = fsi__ls_stride[axis];
    const int inward = end ? -stride : stride;
    for (int i = 0; i < 27; i++)
        if (i / stride % 3 == 2 * end)
            patch[i] = 2 * patch[i + inward] - patch[i + 2 * inward];
}

/* The patch around a cell (2D: the middle layer three times). */
static void fsi__ls_patch(const fsi_levelset *ls, ptrdiff_t cell, fsi_real patch[27]) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    ptrdiff_t shift[3][3]; /* along each axis: to the sample below, the own one, the one above */
    int at[3];
    fsi__lattice_place(&cells, cell, at);
    for (int axis = 0; axis < 3; axis++) {
        shift[axis][0] = fsi__lattice_has(&cells, at, axis, 0) ? -cells.step[axis] : 0;
        shift[axis][1] = 0;
        shift[axis][2] = fsi__lattice_has(&cells, at, axis, 1) ? cells.step[axis] : 0;
    }
    for (int row = 0; row < 9; row++) {
        const fsi_real *middle = ls->phi + cell + shift[1][row % 3] + shift[2][row / 3];
        for (int i = 0; i < 3; i++)
            patch[3 * row + i] = middle[shift[0][i]];
    }
    for (int axis = 0; axis < fsi__ls_dim(ls); axis++)
        for (int end = 0; end < 2; end++)
            if (!fsi__lattice_has(&cells, at, axis, end))
                fsi__ls_patch_end(axis, end, patch);
}

/* The linear interpolant in a square, a quarter of the way from corner a towards b, and towards c.
 */
FSI__INLINE fsi_real fsi__ls_quarter(fsi_real a, fsi_real b, fsi_real c, fsi_real d) {
    const fsi_real w = FSI_R(0.75);
    const fsi_real e = FSI_R(0.25);
    return w * (w * a + e * b) + e * (w * c + e * d);
}

/* Liquid part of the octant (2D: quarter) of a cell towards the corner sx, sy, sz of its patch,
   values in cells: the plane that fits the linear interpolant there. v0 .. v7: the corners of the
   octant's cube; x0, x1 ...: its values at a quarter of the way on opposite sides, per axis. */
static fsi_real fsi__ls_octant(const fsi_real *patch, int sx, int sy, int sz, fsi_real bend) {
    const fsi_real *p = patch + 13;
    const fsi_real v0 = p[0];
    const fsi_real v1 = p[sx];
    const fsi_real v2 = p[sy];
    const fsi_real v3 = p[sx + sy];
    const fsi_real v4 = p[sz];
    const fsi_real v5 = p[sx + sz];
    const fsi_real v6 = p[sy + sz];
    const fsi_real v7 = p[sx + sy + sz];
    const fsi_real x0 = fsi__ls_quarter(v0, v2, v4, v6);
    const fsi_real x1 = fsi__ls_quarter(v1, v3, v5, v7);
    const fsi_real y0 = fsi__ls_quarter(v0, v1, v4, v5);
    const fsi_real y1 = fsi__ls_quarter(v2, v3, v6, v7);
    const fsi_real z0 = fsi__ls_quarter(v0, v1, v2, v3);
    const fsi_real z1 = fsi__ls_quarter(v4, v5, v6, v7);
    const fsi_real middle = FSI_R(0.75) * x0 + FSI_R(0.25) * x1;

    return fsi__ls_cut(middle - bend, (x1 - x0) / 2, (y1 - y0) / 2, (z1 - z0) / 2);
}

/* Liquid part of a cell with the surface moved outward by `by` (m): the sum over its 2^dim quarters
   or octants. */
static fsi_real fsi__ls_fraction(const fsi_levelset *ls, ptrdiff_t cell, fsi_real by) {
    const fsi_real per_h = 1 / ls->desc.h;
    const fsi_real value = (ls->phi[cell] - by) * per_h;
    const fsi_real whole = value < 0 ? FSI_R(1.0) : FSI_R(0.0);
    if (fsi__abs(value) > 2)
        return whole;

    /* Does the surface come near? The bend below is less than 0.04. */
    fsi_real patch[27];
    fsi_real lo = value;
    fsi_real hi = value;
    fsi__ls_patch(ls, cell, patch);
    for (int i = 0; i < 27; i++) {
        patch[i] = (patch[i] - by) * per_h;
        lo = fsi__min(lo, patch[i]);
        hi = fsi__max(hi, patch[i]);
    }
    if (lo > FSI_R(0.1) || hi < FSI_R(-0.1))
        return whole;

    /* A straight line through a bent phi is off by t (1 - t) phi'' / 2, t = 1/4; not at corners and
     * films. */
    fsi_real bend = 0;
    for (int axis = 0; axis < 3; axis++) {
        const int stride = fsi__ls_stride[axis];
        const fsi_real second = patch[13 + stride] - 2 * patch[13] + patch[13 - stride];
        bend += second * fsi__max(0, 1 - 2 * fsi__abs(second)) * FSI_R(0.09375);
    }

    const int parts = ls->desc.nz > 1 ? 8 : 4;
    fsi_real sum = 0;
    for (int part = 0; part < parts; part++) {
        const int sz = part & 4 ? 9 : -9;
        sum +=
            fsi__ls_octant(patch, part & 1 ? 1 : -1, part & 2 ? 3 : -3, parts == 8 ? sz : 0, bend);
    }

    return sum / (fsi_real)parts;
}

typedef struct fsi__ls_sum {
    const fsi_levelset *ls;
    const uint8_t *solid;
    fsi_real *fraction;
    fsi_real by;
} fsi__ls_sum;

/* Sum of the liquid parts of cells begin .. end-1. */
static double fsi__ls_volume_range(size_t begin, size_t end, void *user) {
    const fsi__ls_sum *sum = (const fsi__ls_sum *)user;
    double total = 0;
    for (size_t cell = begin; cell < end; cell++) {
        fsi_real part = 0;
        if (!sum->solid || !sum->solid[cell])
            part = fsi__ls_fraction(sum->ls, (ptrdiff_t)cell, sum->by);
        if (sum->solid && sum->ls->free_share)
            part *= sum->ls->free_share[cell];
        if (sum->fraction)
            sum->fraction[cell] = part;
        total += (double)part;
    }
    return total;
}

/* Volume with the surface moved outward by `by`. */
static double fsi__ls_volume_at(const fsi_levelset *ls, const uint8_t *solid, fsi_real *fraction,
                                double by) {
    const double h = (double)ls->desc.h;
    fsi__ls_sum sum;
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

FSI_API void fsi_levelset_keep_volume(fsi_levelset *ls, const uint8_t *solid) {
    ls->state->target = fsi_levelset_volume(ls, solid, NULL);
}

/* Surface area by the number of cells within two of it: good enough to begin a secant with. */
static double fsi__ls_area(const fsi_levelset *ls, const uint8_t *solid) {
    const double h = (double)ls->desc.h;
    size_t count = 0;
    for (size_t cell = 0; cell < ls->cells; cell++)
        count += fsi__abs(ls->phi[cell]) < 2 * ls->desc.h && !(solid && solid[cell]);
    return (double)count / 4 * h * (ls->desc.nz > 1 ? h : 1);
}

/* Where a marker is, m. */
FSI__FORCE_INLINE fsi_vec3 fsi__ls_marker(const fsi_levelset *ls, ptrdiff_t marker) {
    return fsi_vec(ls->marker_x[marker], ls->marker_y[marker],
                   ls->desc.nz > 1 ? ls->marker_z[marker] : 0);
}

/* Puts a marker at x, m. */
FSI__FORCE_INLINE void fsi__ls_set_marker(fsi_levelset *ls, ptrdiff_t marker, fsi_vec3 x) {
    ls->marker_x[marker] = x.x;
    ls->marker_y[marker] = x.y;
    if (ls->desc.nz > 1)
        ls->marker_z[marker] = x.z;
}

/* The cell in which a marker lies. */
FSI__FORCE_INLINE ptrdiff_t fsi__ls_marker_cell(const fsi_levelset *ls, ptrdiff_t marker) {
    return fsi__ls_cell(ls, fsi__ls_place_inside(ls, fsi__ls_marker(ls, marker)));
}

/* Moves a marker outward along the normal by `by` (m), unless that leads into a solid cell. */
FSI__FORCE_INLINE void fsi__ls_shift_marker(fsi_levelset *ls, const uint8_t *solid,
                                            ptrdiff_t marker, fsi_real by) {
    const fsi_vec3 x = fsi__ls_marker(ls, marker);
    fsi_vec3 normal;
    fsi__ls_linear(ls, fsi__ls_place_inside(ls, x), &normal);
    const fsi_vec3 place = fsi__ls_place_inside(ls, fsi_vec_mad(x, fsi__unit(normal), by));
    if (!solid || !solid[fsi__ls_cell(ls, place)])
        fsi__ls_set_marker(ls, marker, fsi__ls_world(ls, place));
}

/* Moves the surface at a cell outward by `by` (m); where phi is clipped it stays. */
FSI__INLINE void fsi__ls_shift_phi(fsi_levelset *ls, ptrdiff_t cell, fsi_real by) {
    if (fsi__abs(ls->phi[cell]) < (fsi_real)ls->desc.band * ls->desc.h)
        ls->phi[cell] -= by;
}

/* The surface goes outward by this much (m), and its markers with it: left behind they would soon
   count as escaped and undo the shift. */
static void fsi__ls_shift(fsi_levelset *ls, const uint8_t *solid, double by) {
    const ptrdiff_t cells = (ptrdiff_t)ls->cells;
    const ptrdiff_t markers = (ptrdiff_t)ls->state->count;
    FSI__PARALLEL(markers > 1024)
    for (ptrdiff_t marker = 0; marker < markers; marker++)
        fsi__ls_shift_marker(ls, solid, marker, (fsi_real)by);
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++)
        fsi__ls_shift_phi(ls, cell, (fsi_real)by);
}

FSI_API void fsi_grid_shift_phi(fsi_grid *grid, const int32_t *nearby) {
    for (ptrdiff_t cell = 0; cell < (ptrdiff_t)grid->cells; cell++)
        if (nearby[cell] > 0)
            fsi__ls_shift_phi(&grid->levelset, cell,
                              (fsi_real)grid->regions[nearby[cell] - 1].shift);
}

FSI_API void fsi_grid_shift_markers(fsi_grid *grid, const int32_t *nearby) {
    fsi_levelset *ls = &grid->levelset;
    const uint8_t *solid = grid->occlusion.solid;
    for (ptrdiff_t marker = 0; marker < (ptrdiff_t)ls->state->count; marker++) {
        const int32_t region = nearby[fsi__ls_marker_cell(ls, marker)] - 1;
        if (region >= 0)
            fsi__ls_shift_marker(ls, solid, marker, (fsi_real)grid->regions[region].shift);
    }
}

/* fsi_levelset_correct_volume from the present volume (first): secant steps; phi and markers move
   once, at the end. */
static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report) {
    const double h = (double)ls->desc.h;
    const double most = (double)limit * h;
    const double target = ls->state->target;
    double volume = first;
    double shift = 0;
    double area = fsi__ls_area(ls, solid);
    fsi_result result = area > 0 ? FSI_OK : FSI_EMPTY;

    for (int round = 0; round < 5 && result == FSI_OK; round++) {
        if (!(fabs(target - volume) > 1e-9 * target))
            break;
        const double last = volume;
        double step = (target - volume) / area;
        if (fabs(shift + step) > most) {
            step = (step > 0 ? most : -most) - shift;
            result = FSI_CAPPED;
        }
        shift += step;
        volume = fsi__ls_volume_at(ls, solid, NULL, shift);
        if (fabs(step) > 1e-12 * h && (volume - last) / step > 0.1 * area)
            area = (volume - last) / step;
    }
    if (fabs(shift) > 0)
        fsi__ls_shift(ls, solid, shift);
    if (report) {
        report->volume = volume;
        report->volume_change = volume - first;
        report->shift = shift;
    }

    return result;
}

FSI_API fsi_result fsi_levelset_correct_volume(fsi_levelset *ls, const uint8_t *solid,
                                               fsi_real limit, fsi_levelset_report *report) {
    if (!ls || !ls->block || !fsi__positive(limit))
        return FSI_ERR_ARGUMENT;
    return fsi__ls_correct_from(ls, solid, limit, fsi_levelset_volume(ls, solid, NULL), report);
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset markers */
enum {
    FSI__LS_STAYS = 0,   /* flags of markers */
    FSI__LS_ESCAPED = 1, /* on the wrong side of the surface */
    FSI__LS_GOES = 2
};

/* Takes out the markers flagged FSI__LS_GOES; the others keep their order. Returns how many. */
static size_t fsi__ls_compact(fsi_levelset *ls) {
    const ptrdiff_t count = (ptrdiff_t)ls->state->count;
    ptrdiff_t kept = 0;
    for (ptrdiff_t marker = 0; marker < count; marker++) {
        if (ls->marker_flag[marker] == FSI__LS_GOES)
            continue;
        if (kept < marker) {
            fsi__ls_set_marker(ls, kept, fsi__ls_marker(ls, marker));
            ls->marker_radius[kept] = ls->marker_radius[marker];
            ls->marker_flag[kept] = ls->marker_flag[marker];
        }
        kept++;
    }
    ls->state->count = (size_t)kept;
    return (size_t)(count - kept);
}

FSI_API void fsi_levelset_drop_markers(fsi_levelset *ls, const int8_t *cell, int bits) {
    for (ptrdiff_t marker = 0; marker < (ptrdiff_t)ls->state->count; marker++) {
        const int goes = cell[fsi__ls_marker_cell(ls, marker)] & bits;
        ls->marker_flag[marker] = goes ? FSI__LS_GOES : FSI__LS_STAYS;
    }
    fsi__ls_compact(ls);
}

/* Markers move with the velocity, up to solids; those that leave through an open side go. */
static void fsi__ls_move_markers(fsi_levelset *ls, const fsi__mac *mac, fsi_real dth,
                                 const fsi_levelset_walls *walls) {
    const ptrdiff_t count = (ptrdiff_t)ls->state->count;
    FSI__PARALLEL(count > 1024)
    for (ptrdiff_t marker = 0; marker < count; marker++) {
        const fsi_vec3 start = fsi__ls_place_inside(ls, fsi__ls_marker(ls, marker));
        fsi_vec3 end = fsi__ls_trace(mac, start, fsi__ls_velocity(mac, start), dth);
        fsi_real beyond;
        end = fsi__ls_clip(ls, walls, start, end, &beyond);
        ls->marker_flag[marker] = beyond > 0 ? FSI__LS_GOES : FSI__LS_STAYS;
        if (walls->solid && walls->solid[fsi__ls_cell(ls, end)])
            end = start;
        fsi__ls_set_marker(ls, marker, fsi__ls_world(ls, end));
    }
}

/* The cell of a corner of the block of 2^dim cells around a place, -1 outside the box. centre: its
   place. */
FSI__INLINE ptrdiff_t fsi__ls_corner(const fsi_levelset *ls, fsi_vec3 place, int corner,
                                     fsi_vec3 *centre) {
    const int nx = ls->desc.nx;
    const int ny = ls->desc.ny;
    const int nz = ls->desc.nz;
    const int i = (int)fsi__floor(place.x) + (corner & 1);
    const int j = (int)fsi__floor(place.y) + (corner >> 1 & 1);
    const int k = (nz > 1 ? (int)fsi__floor(place.z) : 0) + (corner >> 2);
    *centre = fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k);
    const int inside = i >= 0 && i < nx && j >= 0 && j < ny;
    return inside && k >= 0 && k < nz ? i + nx * (j + (ptrdiff_t)ny * k) : -1;
}

/* Corners of a block: 2^dim. */
static int fsi__ls_corners(const fsi_levelset *ls) {
    return ls->desc.nz > 1 ? 8 : 4;
}

/* One escaped marker: its ball, phi_p = sign (r - |x - x_p|), on the cells around it. next_phi
   holds phi where air wins, other_phi where liquid wins. */
static void fsi__ls_ball(fsi_levelset *ls, ptrdiff_t marker) {
    const fsi_vec3 place = fsi__ls_place_inside(ls, fsi__ls_marker(ls, marker));
    const fsi_real radius = fsi__abs(ls->marker_radius[marker]);
    for (int corner = 0; corner < fsi__ls_corners(ls); corner++) {
        fsi_vec3 centre;
        const ptrdiff_t cell = fsi__ls_corner(ls, place, corner, &centre);
        if (cell < 0)
            continue;
        const fsi_real distance = ls->desc.h * fsi__length(fsi_vec_sub(place, centre));
        if (ls->marker_radius[marker] > 0)
            ls->next_phi[cell] = fsi__max(ls->next_phi[cell], radius - distance);
        else
            ls->other_phi[cell] = fsi__min(ls->other_phi[cell], distance - radius);
    }
}

/* Escaped: on the wrong side by more than the radius. Air markers deep in the liquid do not count:
   where a closing gap is squeezed out (an impact on a wall) they would eat the liquid, a third of
   it in a second of splashing. Returns how many repaired phi. */
static size_t fsi__ls_repair(fsi_levelset *ls) {
    const ptrdiff_t count = (ptrdiff_t)ls->state->count;
    const ptrdiff_t cells = (ptrdiff_t)ls->cells;
    const fsi_real deep = -FSI__LS_AIR * ls->desc.h;
    FSI__PARALLEL(count > 1024)
    for (ptrdiff_t marker = 0; marker < count; marker++) {
        const fsi_real phi = fsi__ls_phi(ls, fsi__ls_marker(ls, marker));
        const fsi_real radius = ls->marker_radius[marker];
        const int escaped = radius > 0 ? phi < -radius && phi > deep : phi > -radius;
        ls->marker_flag[marker] = escaped ? FSI__LS_ESCAPED : FSI__LS_STAYS;
    }
    size_t escaped = 0;
    for (ptrdiff_t marker = 0; marker < count; marker++)
        escaped += ls->marker_flag[marker] == FSI__LS_ESCAPED;
    if (!escaped)
        return 0;

    /* The balls of both kinds apart, then of the two the one nearer to the surface. */
    fsi_copy(ls->cells, ls->phi, ls->next_phi);
    fsi_copy(ls->cells, ls->phi, ls->other_phi);
    for (ptrdiff_t marker = 0; marker < count; marker++)
        if (ls->marker_flag[marker])
            fsi__ls_ball(ls, marker);
    FSI__PARALLEL(cells > FSI__GRAIN)
    for (ptrdiff_t cell = 0; cell < cells; cell++) {
        const fsi_real air = ls->next_phi[cell];
        const fsi_real liquid = ls->other_phi[cell];
        ls->phi[cell] = fsi__abs(air) <= fsi__abs(liquid) ? air : liquid;
    }

    return escaped;
}

/* New radii from the repaired phi. Flagged for deletion: far markers on their own side; air deep in
   the liquid; and with desc.settle all that are still escaped, for they mark what is smaller than a
   cell. They would bend phi step after step and, carried by a velocity continued from the surface,
   neither fall nor rise: the surface would never come to rest. */
static void fsi__ls_radii(fsi_levelset *ls) {
    const ptrdiff_t count = (ptrdiff_t)ls->state->count;
    const fsi_real h = ls->desc.h;
    const fsi_real least = FSI__LS_RMIN * h;
    FSI__PARALLEL(count > 1024)
    for (ptrdiff_t marker = 0; marker < count; marker++) {
        const fsi_real sign = ls->marker_radius[marker] > 0 ? FSI_R(1.0) : FSI_R(-1.0);

        /* How deep it lies on its own side. */
        const fsi_real depth = sign * fsi__ls_phi(ls, fsi__ls_marker(ls, marker));
        ls->marker_radius[marker] = sign * fsi__clamp(depth, least, FSI__LS_RMAX * h);
        int lost = sign > 0 && depth < -FSI__LS_AIR * h;
        if (ls->desc.settle)
            lost = depth < -least;
        ls->marker_flag[marker] = depth < 0 ? FSI__LS_ESCAPED : FSI__LS_STAYS;
        if (lost || depth > (FSI__LS_SEED + 1) * h)
            ls->marker_flag[marker] = FSI__LS_GOES;
    }
}

/* Does nothing stand between two places? */
static int fsi__ls_seen(const fsi_levelset *ls, const fsi_levelset_walls *walls, fsi_vec3 from,
                        fsi_vec3 to) {
    fsi_real beyond;
    const fsi_vec3 end = fsi__ls_clip(ls, walls, from, to, &beyond);
    return fsi__length(fsi_vec_sub(end, to)) < FSI_R(1e-3);
}

/* May there be a marker at this place in the cell, where phi has the value given? The cell's centre
   must see it, and so must one with the sign of phi: interpolated across a shell phi puts liquid on
   its dry side. */
static int fsi__ls_seed_valid(const fsi_levelset *ls, const fsi_levelset_walls *walls,
                              ptrdiff_t cell, fsi_vec3 place, fsi_real phi) {
    const int liquid = phi < 0;
    const fsi_vec3 own_centre = fsi__ls_centre(ls, cell);
    if (!fsi__ls_guarded(ls, walls, own_centre))
        return 1;
    if (!fsi__ls_seen(ls, walls, own_centre, place))
        return 0;
    if (liquid == (ls->phi[cell] < 0))
        return 1;

    for (int corner = 0; corner < fsi__ls_corners(ls); corner++) {
        fsi_vec3 centre;
        const ptrdiff_t other = fsi__ls_corner(ls, place, corner, &centre);
        if (other < 0 || liquid != (ls->phi[other] < 0))
            continue;
        if (fsi__ls_seen(ls, walls, place, centre))
            return 1;
    }

    return 0;
}

/* Where marker `number` of a cell goes, relative to its centre: its box of the full lattice
   (jittered inside it unless desc.even), or, spread = 0, anywhere. */
static fsi_vec3 fsi__ls_seed_offset(fsi_levelset *ls, int number, int spread) {
    const int along = ls->desc.particles;
    const int at[3] = {number % along, number / along % along, number / (along * along)};
    const fsi_real box = 1 / (fsi_real)along;
    fsi_real offset[3];
    for (int axis = 0; axis < 3; axis++) {
        fsi_real t = ls->desc.even ? FSI_R(0.5) : fsi__random_unit(&ls->state->random);
        offset[axis] = (spread ? ((fsi_real)at[axis] + t) * box : t) - FSI_R(0.5);
    }
    return fsi_vec(offset[0], offset[1], ls->desc.nz > 1 ? offset[2] : 0);
}

/* Puts markers into one cell: a full lattice, or `want` anywhere. Returns 0 when there is no room.
 */
static int fsi__ls_seed_cell(fsi_levelset *ls, const fsi_levelset_walls *walls, ptrdiff_t cell,
                             int want) {
    const fsi_real h = ls->desc.h;
    const fsi_vec3 centre = fsi__ls_centre(ls, cell);
    const int full = fsi__ls_full(ls);

    for (int number = 0; number < fsi__imin(want, full); number++) {
        const size_t marker = ls->state->count;
        const fsi_vec3 offset = fsi__ls_seed_offset(ls, number, want >= full);
        if (marker >= ls->room)
            return 0;
        const fsi_vec3 place = fsi_vec_add(centre, offset);
        const fsi_vec3 x = fsi__ls_world(ls, place);
        const fsi_real phi = fsi__ls_phi(ls, x);
        if (!fsi__ls_seed_valid(ls, walls, cell, place, phi))
            continue;
        const fsi_real radius = fsi__clamp(fsi__abs(phi), FSI__LS_RMIN * h, FSI__LS_RMAX * h);
        fsi__ls_set_marker(ls, (ptrdiff_t)marker, x);
        ls->marker_radius[marker] = phi < 0 ? -radius : radius;
        ls->marker_flag[marker] = FSI__LS_STAYS;
        ls->state->count++;
    }

    return 1;
}

/* Every cell near the surface gets its full number again: sparse cells are topped up, crowded ones
   (and sparse ones on an even lattice) are swept and seeded anew. Escaped markers (as
   fsi__ls_radii found them) always stay. */
static void fsi__ls_reseed(fsi_levelset *ls, const fsi_levelset_walls *walls,
                           fsi_levelset_report *report) {
    const uint8_t *solid = walls->solid;
    const ptrdiff_t count = (ptrdiff_t)ls->state->count;
    const ptrdiff_t cells = (ptrdiff_t)ls->cells;
    const int full = fsi__ls_full(ls);
    int32_t *have = ls->slot; /* markers of each cell; -1: it is swept */
    if (full < 1)
        return;

    memset(have, 0, ls->cells * sizeof *have);
    for (ptrdiff_t marker = 0; marker < count; marker++)
        if (!ls->marker_flag[marker])
            have[fsi__ls_marker_cell(ls, marker)]++;

    for (ptrdiff_t marker = 0; marker < count; marker++) {
        int32_t *in_cell = &have[fsi__ls_marker_cell(ls, marker)];
        const int crowded = *in_cell > 2 * full || *in_cell < 0;
        const int uneven = ls->desc.even && *in_cell < full;
        if (!ls->marker_flag[marker] && (crowded || uneven)) {
            ls->marker_flag[marker] = FSI__LS_GOES;
            *in_cell = -1;
        }
    }
    report->deleted += fsi__ls_compact(ls);

    const size_t before = ls->state->count;
    for (ptrdiff_t cell = 0; cell < cells && !report->room_full; cell++) {
        const int want = have[cell] < 0 ? full : full - have[cell];
        const int close = !(fsi__abs(ls->phi[cell]) > FSI__LS_SEED * ls->desc.h);
        if (want > 0 && close && !(solid && solid[cell]))
            report->room_full = !fsi__ls_seed_cell(ls, walls, cell, want);
    }
    report->seeded += ls->state->count - before;
}

/* ------------------------------------------------------------------------------------------------
 * >>levelset steps */
/* mark = 1 where the new phi may differ from the old one: within reach of a cell where phi is not
   clipped, or of an open side. */
static void fsi__ls_mark_moving(fsi_levelset *ls, const fsi_levelset_walls *walls,
                                const int *reach) {
    const fsi__lattice cells = fsi__ls_cells(ls);
    const fsi_real end = (fsi_real)ls->desc.band * ls->desc.h;
    const int *open = walls->open;
    FSI__PARALLEL(ls->cells > FSI__GRAIN)
    for (ptrdiff_t row = 0; row < cells.rows; row++) {
        int at[3];
        fsi__lattice_row(&cells, row, at);
        int all = 0; /* the row lies at an open side */
        for (int side = FSI_BOTTOM; side <= FSI_FRONT; side++)
            all |= open[side] && !fsi__lattice_has(&cells, at, side >> 1, side & 1);
        uint8_t *mark = ls->mark + row * cells.n[0];
        for (int i = 0; i < cells.n[0]; i++)
            mark[i] = (uint8_t)(all || fsi__abs(ls->phi[row * cells.n[0] + i]) < end);
        if (open[FSI_LEFT])
            mark[0] = 1;
        if (open[FSI_RIGHT])
            mark[cells.n[0] - 1] = 1;
    }
    fsi__grow_all(ls->mark, cells.n, reach);
}

/* phi is carried along: semi-Lagrangian, by limited cubics near the surface. */
static void fsi__ls_advect(fsi_levelset *ls, const fsi__mac *mac, fsi_real dth,
                           const fsi_levelset_walls *walls, const int *reach) {
    const fsi_real h = ls->desc.h;
    const int nx = mac->cells[0];
    const int ny = mac->cells[1];
    const int cubic = !ls->desc.linear;
    fsi__ls_mark_moving(ls, walls, reach);
    FSI__OMP(parallel for schedule(dynamic, 16) if (ls->cells > FSI__GRAIN))
    for (ptrdiff_t row = 0; row < (ptrdiff_t)ny * mac->cells[2]; row++) {
        const int j = (int)(row % ny);
        const int k = (int)(row / ny);
        for (int i = 0; i < nx; i++) {
            const ptrdiff_t cell = row * nx + i;
            const fsi_vec3 place = fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k);
            ls->next_phi[cell] = ls->phi[cell];
            if (!ls->mark[cell])
                continue;
            const fsi_vec3 velocity = fsi__ls_centre_velocity(mac, i, j, k);
            fsi_vec3 from = fsi__ls_trace(mac, place, velocity, -dth);
            fsi_real beyond;
            from = fsi__ls_clip(ls, walls, place, from, &beyond);

            /* Beyond the last centre phi is continued, not limited. */
            fsi_real value = fsi__ls_linear(ls, from, NULL);
            if (cubic && fsi__abs(value) < 4 * h && beyond < FSI_R(-0.5))
                value = fsi__ls_cubic(ls, from, 1, NULL);

            /* What comes in from outside is air. */
            ls->next_phi[cell] = fsi__max(value, beyond * h);
        }
    }
    fsi_copy(ls->cells, ls->next_phi, ls->phi);
}

/* What keeps the liquid out where nobody said so: nothing but the closed box. */
static const fsi_levelset_walls fsi__ls_no_walls = FSI__ZERO;

/* How many cells phi may be carried along each axis, stencil included. */
static fsi_result fsi__ls_find_reach(const fsi_levelset *ls, const fsi_real *const u[3],
                                     fsi_real dth, int *reach) {
    reach[2] = 0;
    for (int axis = 0; axis < fsi__ls_dim(ls); axis++) {
        const fsi__ls_faces mesh = fsi__ls_faces_of(ls, axis);
        if (!u[axis])
            return FSI_ERR_ARGUMENT;
        const fsi_real most = dth * fsi_max_abs((size_t)mesh.faces.count, u[axis]);
        if (!fsi__finite(most))
            return FSI_ERR_NUMERIC;
        reach[axis] = most < FSI_R(1e6) ? 3 + (int)most : 1000000;
    }
    return FSI_OK;
}

FSI_API fsi_result fsi_levelset_advance(fsi_levelset *ls, const fsi_real *const u[3],
                                        const fsi_levelset_walls *walls, fsi_real dt,
                                        fsi_levelset_report *report) {
    if (!ls || !ls->block || !u || !fsi__natural(dt))
        return FSI_ERR_ARGUMENT;

    walls = walls ? walls : &fsi__ls_no_walls;
    const fsi_real dth = dt / ls->desc.h;
    int reach[3];
    fsi_result result = fsi__ls_find_reach(ls, u, dth, reach);
    if (result < 0)
        return result;

    const fsi__mac mac = fsi__mac_of(ls->desc.nx, ls->desc.ny, ls->desc.nz, u);
    fsi_levelset_report own = FSI__ZERO;
    ls->state->steps++;

    /* Markers and phi move. */
    fsi__ls_move_markers(ls, &mac, dth, walls);
    own.deleted = fsi__ls_compact(ls);
    fsi__ls_advect(ls, &mac, dth, walls, reach);

    /* Markers repair phi; now and then it is made a distance again. */
    own.escaped = fsi__ls_repair(ls);
    fsi__ls_continue(ls, walls->solid);
    if (ls->desc.redistance > 0 && ls->state->steps % ls->desc.redistance == 0) {
        fsi__ls_redistance(ls, walls->open);
        fsi__ls_repair(ls);
    }

    /* Radii follow the repaired phi; now and then markers are seeded anew. */
    fsi__ls_radii(ls);
    if (ls->desc.reseed > 0 && ls->state->steps % ls->desc.reseed == 0)
        fsi__ls_reseed(ls, walls, &own);
    else if (ls->desc.settle)
        own.deleted += fsi__ls_compact(ls);

    own.markers = ls->state->count;
    own.volume = fsi_levelset_volume(ls, walls->solid, NULL);
    if (report)
        *report = own;

    return own.room_full ? FSI_CAPPED : FSI_OK;
}

FSI_API fsi_result fsi_levelset_reset(fsi_levelset *ls, const fsi_levelset_walls *walls) {
    if (!ls || !ls->block)
        return FSI_ERR_ARGUMENT;
    if (!fsi_all_finite(ls->cells, ls->phi))
        return FSI_ERR_NUMERIC;

    walls = walls ? walls : &fsi__ls_no_walls;
    fsi_levelset_report report = FSI__ZERO;
    fsi__ls_continue(ls, walls->solid);
    fsi_levelset_redistance(ls);
    ls->state->count = 0;
    fsi__ls_reseed(ls, walls, &report);
    fsi_levelset_keep_volume(ls, walls->solid);
    return report.room_full ? FSI_CAPPED : FSI_OK;
}

FSI_API fsi_result fsi_levelset_shape(fsi_levelset *ls, fsi_shape_fn shape_fn, void *user, int add,
                                      const fsi_levelset_walls *walls) {
    if (!ls || !ls->block || !shape_fn)
        return FSI_ERR_ARGUMENT;

    walls = walls ? walls : &fsi__ls_no_walls;
    const fsi__lattice cells = fsi__ls_cells(ls);
    const double before = fsi_levelset_volume(ls, walls->solid, NULL);

    /* The shape at all cells first: nothing changes when an answer is not finite. */
    fsi_real *shape = ls->other_phi;
    if (!fsi__ask_cells(&cells, ls->desc.origin, ls->desc.h, shape_fn, user, shape))
        return FSI_ERR_CALLBACK;
    for (ptrdiff_t cell = 0; cell < cells.count; cell++) {
        const fsi_real phi = ls->phi[cell];
        ls->phi[cell] = add ? fsi__min(phi, shape[cell]) : fsi__max(phi, -shape[cell]);
    }
    fsi_levelset_redistance(ls);

    /* Markers that now mark the wrong thing go. */
    for (ptrdiff_t marker = 0; marker < (ptrdiff_t)ls->state->count; marker++) {
        const fsi_real phi = fsi__ls_phi(ls, fsi__ls_marker(ls, marker));
        const int wrong = (phi < 0) != (ls->marker_radius[marker] < 0);
        ls->marker_flag[marker] = wrong ? FSI__LS_GOES : FSI__LS_STAYS;
    }
    fsi_levelset_report report = FSI__ZERO;
    fsi__ls_compact(ls);
    fsi__ls_reseed(ls, walls, &report);
    ls->state->target += fsi_levelset_volume(ls, walls->solid, NULL) - before;

    return report.room_full ? FSI_CAPPED : FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid state */
/* Everything that a step changes, listed once; see fsi__state in the base. */
static void fsi__grid_state(void *object, fsi__state *state) {
    fsi_grid *grid = (fsi_grid *)object;
    int64_t steps = fsi__state_integer(state, grid->steps, 0, INT64_MAX);
    double time = grid->time;
    fsi__state_copy(state, &time, 1, sizeof time);
    fsi__state_require(state, fsi__finite64(time));
    fsi__state_match(state, grid->state_bytes);
    fsi__state_reals(state, (fsi_real *)grid->block, grid->state_bytes / sizeof(fsi_real));
    fsi__state_match(state, grid->phi != NULL);
    if (grid->phi)
        fsi__ls_state(&grid->levelset, state);

    if (fsi__state_loads(state)) {
        grid->time = time;
        grid->steps = steps;
        state->result = fsi_grid_classify(grid);
    }
}

#define FSI__STATE_GRID FSI__STATE_OF('g', 'r', 'i', 'd')

FSI_API size_t fsi_grid_state_size(const fsi_grid *grid) {
    return grid && grid->block ? fsi__state_size(fsi__grid_state, grid) : 0;
}

FSI_API fsi_result fsi_grid_save(const fsi_grid *grid, void *block) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    return fsi__state_save(fsi__grid_state, FSI__STATE_GRID, grid, block);
}

FSI_API fsi_result fsi_grid_check(const fsi_grid *grid, const void *block, size_t size) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    return fsi__state_check(fsi__grid_state, FSI__STATE_GRID, grid, block, size);
}

FSI_API fsi_result fsi_grid_restore(fsi_grid *grid, const void *block, size_t size) {
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    return fsi__state_restore(fsi__grid_state, FSI__STATE_GRID, grid, block, size);
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
