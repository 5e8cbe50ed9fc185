/* fsi_grid.h - v1.00 - smoke and liquid on a MAC grid, part of fsi, a library for two-way
   solid-fluid coupling in C99 and C++11
   SPDX-License-Identifier: MIT OR Unlicense          (full text at the end of the file)

   Incompressible flow in a box of uniform cells, 2D (nz = 1) or 3D: smoke that fills the box, or
   liquid with a free surface.

   QUICK START
       #define FSI_IMPLEMENTATION // in exactly one file, before the include
       #include "fsi_grid.h"
       #include <stdio.h>

       int main(void) { // hot smoke rises in a box with an open top
           fsi_grid_desc desc = {0};
           fsi_grid_source vent = {0};
           fsi_grid grid;
           fsi_report report;
           desc.nx = desc.ny = 64;
           desc.nz = 1;
           desc.h = FSI_R(1) / 64;
           desc.rho = 1;
           desc.smoke = 1;
           desc.buoyancy_temperature = 4;
           desc.side[3].kind = FSI_SIDE_OPEN; // -x +x -y +y
           if (fsi_grid_init(&grid, &desc) < 0)
               return 1;
           vent.shape = FSI_SOURCE_SPHERE;
           vent.centre = fsi_vec(FSI_R(0.5), FSI_R(0.2), 0);
           vent.radius = FSI_R(0.1);
           vent.set = FSI_SOURCE_DENSITY | FSI_SOURCE_TEMPERATURE;
           vent.density = vent.temperature = 1;
           fsi_grid_add_source(&grid, &vent);
           for (int frame = 0; frame < 50; frame++)
               fsi_grid_advance(&grid, FSI_R(0.04), 0, NULL, &report);
           printf("t = %g s, %d iterations, divergence %g\n", grid.time, report.iterations,
                  report.divergence);
           fsi_grid_free(&grid);
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
#ifdef FSI_SINGLE /* the precision is part of every symbol: a mismatch is a link error */
#define fsi_levelset_init fsi_levelset_init_f32
#define fsi_levelset_free fsi_levelset_free_f32
#define fsi_levelset_shape fsi_levelset_shape_f32
#define fsi_levelset_reset fsi_levelset_reset_f32
#define fsi_levelset_advance fsi_levelset_advance_f32
#define fsi_levelset_redistance fsi_levelset_redistance_f32
#define fsi_levelset_continue fsi_levelset_continue_f32
#define fsi_levelset_extrapolate fsi_levelset_extrapolate_f32
#define fsi_levelset_volume fsi_levelset_volume_f32
#define fsi_levelset_correct_volume fsi_levelset_correct_volume_f32
#define fsi_levelset_sample fsi_levelset_sample_f32
#define fsi_levelset_state_size fsi_levelset_state_size_f32
#define fsi_levelset_save fsi_levelset_save_f32
#define fsi_levelset_restore fsi_levelset_restore_f32
#define fsi_grid_init fsi_grid_init_f32
#define fsi_grid_free fsi_grid_free_f32
#define fsi_grid_step fsi_grid_step_f32
#define fsi_grid_advance fsi_grid_advance_f32
#define fsi_grid_max_dt fsi_grid_max_dt_f32
#define fsi_grid_cfl fsi_grid_cfl_f32
#define fsi_grid_set_velocity fsi_grid_set_velocity_f32
#define fsi_grid_set_field fsi_grid_set_field_f32
#define fsi_grid_add_source fsi_grid_add_source_f32
#define fsi_grid_set_occlusion fsi_grid_set_occlusion_f32
#define fsi_grid_advect fsi_grid_advect_f32
#define fsi_grid_forces fsi_grid_forces_f32
#define fsi_grid_viscosity fsi_grid_viscosity_f32
#define fsi_grid_air_near fsi_grid_air_near_f32
#define fsi_grid_air_volumes fsi_grid_air_volumes_f32
#define fsi_grid_classify fsi_grid_classify_f32
#define fsi_grid_build_pressure fsi_grid_build_pressure_f32
#define fsi_grid_solve_pressure fsi_grid_solve_pressure_f32
#define fsi_grid_apply_pressure fsi_grid_apply_pressure_f32
#define fsi_grid_extrapolate fsi_grid_extrapolate_f32
#define fsi_grid_move_surface fsi_grid_move_surface_f32
#define fsi_grid_field fsi_grid_field_f32
#define fsi_grid_velocity_at fsi_grid_velocity_at_f32
#define fsi_grid_field_at fsi_grid_field_at_f32
#define fsi_grid_trace fsi_grid_trace_f32
#define fsi_grid_cell_centre fsi_grid_cell_centre_f32
#define fsi_grid_face_centre fsi_grid_face_centre_f32
#define fsi_grid_max_divergence fsi_grid_max_divergence_f32
#define fsi_grid_kinetic_energy fsi_grid_kinetic_energy_f32
#define fsi_grid_state_size fsi_grid_state_size_f32
#define fsi_grid_save fsi_grid_save_f32
#define fsi_grid_restore fsi_grid_restore_f32
#define fsi_grid_memory fsi_grid_memory_f32
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
} fsi_occlusion;

typedef struct fsi_grid_desc {
    int nx, ny, nz;  /* cells, >= 2, >= 2, >= 1; nz = 1 is 2D */
    fsi_real h;      /* cell size, m, > 0 */
    fsi_vec3 origin; /* lower corner of the box, m */
    /* fluid mass density, kg/m^3, > 0 (2D: kg/m^3 too, per metre of depth) */
    fsi_real rho;
    fsi_vec3 gravity;      /* m/s^2 */
    fsi_grid_side side[6]; /* -x +x -y +y -z +z; z ignored in 2D. Zero: closed, slip */
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
FSI_API void fsi_grid_air_near(const fsi_grid *grid, int32_t *near);
FSI_API void fsi_grid_air_volumes(fsi_grid *grid, const int32_t *near);
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
static void fsi__family_size(const fsi_grid *g, int family, int *n) {
    n[0] = g->nx + (family == 0);
    n[1] = g->ny + (family == 1);
    n[2] = g->nz + (family == 2);
}

FSI__INLINE size_t fsi__at(const int *n, int i, int j, int k) {
    return (size_t)i + (size_t)n[0] * ((size_t)j + (size_t)n[1] * (size_t)k);
}

static fsi_vec3 fsi__to_cells(const fsi_grid *g, fsi_vec3 x) {
    return fsi_vec_scale(fsi_vec_sub(x, g->origin), 1 / g->h);
}

static fsi_vec3 fsi__grid_point(const fsi_grid *g, fsi_vec3 X) {
    return fsi_vec_mad(g->origin, X, g->h);
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
static fsi_real *fsi__scalar(const fsi_grid *g, int q, fsi_advection *mode) {
    fsi_advection m = q == 0   ? g->desc.advect_density
                      : q == 1 ? g->desc.advect_temperature
                               : g->desc.advect_scalar;
    if (mode)
        *mode = m == FSI_ADVECT_DEFAULT ? FSI_ADVECT_MACCORMACK : m;
    return q == 0 ? g->density : q == 1 ? g->temperature : g->scalar[q - 2];
}

static int fsi__side_valid(const fsi_grid_side *s) {
    return (int)s->kind >= FSI_SIDE_SLIP && (int)s->kind <= FSI_SIDE_INFLOW
           && fsi__finite_vec(s->velocity);
}

static int fsi__not_negative(fsi_real x) {
    return fsi__finite(x) && x >= 0;
}

static fsi_result fsi__grid_check_desc(const fsi_grid_desc *d) {
    if (!d || d->nx < 2 || d->ny < 2 || d->nz < 1 || !fsi__finite(d->h) || !(d->h > 0)
        || !fsi__finite(d->rho) || !(d->rho > 0))
        return FSI_ERR_ARGUMENT;
    for (int i = 0; i < 6; i++)
        if (!fsi__side_valid(&d->side[i]))
            return FSI_ERR_ARGUMENT;
    int bad = !fsi__finite_vec(d->origin) || !fsi__finite_vec(d->gravity) || !fsi__finite_vec(d->up)
              || !fsi__finite(d->buoyancy_density) || !fsi__finite(d->buoyancy_temperature)
              || !fsi__finite(d->ambient) || !fsi__finite(d->confinement)
              || !fsi__not_negative(d->cooling) || !fsi__not_negative(d->dissipation)
              || !fsi__not_negative(d->viscosity) || !fsi__not_negative(d->cfl)
              || !fsi__not_negative(d->theta_min) || d->theta_min > FSI_R(0.5)
              || !(d->tolerance >= 0 && d->tolerance < 1) || d->max_iterations < 0 || d->scalars < 0
              || d->scalars > FSI_GRID_SCALARS || d->extrapolate < 0 || d->max_regions < 0
              || !fsi_allocator_valid(&d->allocator) || (int)d->advect_velocity < 0
              || (int)d->advect_velocity > FSI_ADVECT_NONE || (int)d->advect_density < 0
              || (int)d->advect_density > FSI_ADVECT_NONE || (int)d->advect_temperature < 0
              || (int)d->advect_temperature > FSI_ADVECT_NONE || (int)d->advect_scalar < 0
              || (int)d->advect_scalar > FSI_ADVECT_NONE;
    if (bad)
        return FSI_ERR_ARGUMENT;
    size_t n;
    if (!fsi_size_mul((size_t)d->nx + 1, (size_t)d->ny + 1, &n)
        || !fsi_size_mul(n, (size_t)d->nz + 1, &n) || n > 0x7fffffff / 2)
        return FSI_ERR_SIZE;
    return FSI_OK; /* indices are int32 */
}

/* Run twice: first to count, then to place. The state comes first and is contiguous. */
static void fsi__grid_layout(fsi_grid *g, fsi_arena *a) {
    size_t most = g->cells, R = sizeof(fsi_real);
    for (int d = 0; d < g->dim; d++)
        if (g->faces[d] > most)
            most = g->faces[d];
    for (int d = 0; d < g->dim; d++)
        g->u[d] = (fsi_real *)fsi_arena_take(a, g->faces[d], R);
    for (int d = 0; d < g->dim && g->desc.shells; d++)
        g->u_plus[d] = (fsi_real *)fsi_arena_take(a, g->faces[d], R);
    g->pressure = (fsi_real *)fsi_arena_take(a, g->cells, R);
    if (g->desc.smoke)
        g->density = (fsi_real *)fsi_arena_take(a, g->cells, R);
    if (g->desc.smoke)
        g->temperature = (fsi_real *)fsi_arena_take(a, g->cells, R);
    for (int d = 0; d < g->desc.scalars; d++)
        g->scalar[d] = (fsi_real *)fsi_arena_take(a, g->cells, R);
    g->state_bytes = a->used;
    g->rhs = (fsi_real *)fsi_arena_take(a, most, R);
    for (int d = 0; d < g->dim; d++)
        g->weight[d] = (fsi_real *)fsi_arena_take(a, g->faces[d], R);
    /* weights and scratch lie side by side: together the workspace of the viscosity's CG */
    most = (most + 7) & ~(size_t)7;
    unsigned char *end = (unsigned char *)fsi_arena_take(a, most + 16, 4 * R);
    for (int d = 0; d < 4; d++)
        g->scratch[d] = end ? (fsi_real *)(void *)end + (size_t)d * most : NULL;
    for (int d = 0; d < g->dim && g->desc.shells; d++)
        g->plus_work[d] = (fsi_real *)fsi_arena_take(a, g->faces[d], R);
    g->stencil = (int32_t *)fsi_arena_take(a, most, sizeof(int32_t));
    for (int d = 0; d < g->dim - 1; d++)
        g->way[d] = (fsi_real *)fsi_arena_take(a, g->cells, R);
    for (int d = 0; d < g->dim; d++)
        g->mark[d] = (uint8_t *)fsi_arena_take(a, g->faces[d], 1);
    g->cell = (uint8_t *)fsi_arena_take(a, g->cells, 1);
    g->near_cell = (uint8_t *)fsi_arena_take(a, g->cells, 1);
    if (g->desc.liquid)
        g->region = (int32_t *)fsi_arena_take(a, g->cells, sizeof(int32_t));
    if (g->desc.liquid)
        g->regions = (fsi_air_region *)fsi_arena_take(a, (size_t)g->desc.max_regions,
                                                      sizeof(fsi_air_region));
    g->mg = (fsi_mg *)fsi_arena_take(a, 1, sizeof(fsi_mg));
}

static void fsi__grid_defaults(fsi_grid *g, const fsi_grid_desc *desc) {
    fsi_grid_desc *d = &g->desc;
    int n[3];
    memset(g, 0, sizeof *g);
    *d = *desc;
    if (d->tolerance <= 0)
        d->tolerance = sizeof(fsi_real) == 4 ? 1e-5 : 1e-6;
    if (d->max_iterations == 0)
        d->max_iterations = 200;
    if (!(d->cfl > 0))
        d->cfl = 3;
    if (!(d->theta_min > 0))
        d->theta_min = FSI_R(1e-3);
    if (d->extrapolate == 0)
        d->extrapolate = 6;
    if (d->max_regions == 0)
        d->max_regions = 256;
    if (!(fsi__length(d->up) > 0))
        d->up = fsi__length(d->gravity) > 0 ? fsi_vec_scale(d->gravity, -1) : fsi_vec(0, 1, 0);
    d->up = fsi__unit(d->up);
    if (d->advect_velocity == FSI_ADVECT_DEFAULT)
        d->advect_velocity = FSI_ADVECT_MACCORMACK;
    g->nx = d->nx;
    g->ny = d->ny;
    g->nz = d->nz;
    g->dim = d->nz == 1 ? 2 : 3;
    g->h = d->h;
    g->origin = d->origin;
    for (int a = 0; a < 4; a++) {
        fsi__family_size(g, a, n);
        if (a < 3)
            g->faces[a] = a < g->dim ? (size_t)n[0] * (size_t)n[1] * (size_t)n[2] : 0;
        else
            g->cells = (size_t)n[0] * (size_t)n[1] * (size_t)n[2];
    }
}

static fsi_result fsi__grid_init_parts(fsi_grid *g) {
    fsi_mg_desc m;
    memset(&m, 0, sizeof m);
    m.nx = g->nx;
    m.ny = g->ny;
    m.nz = g->nz;
    for (int i = 0; i < 6; i++)
        m.open[i] = i < 2 * g->dim && g->desc.side[i].kind == FSI_SIDE_OPEN;
    m.allocator = g->desc.allocator;
    fsi_result r = fsi_mg_init(g->mg, &m);
    if (r < 0 || !g->desc.liquid)
        return r;
    fsi_levelset_desc l;
    memset(&l, 0, sizeof l);
    l.nx = g->nx;
    l.ny = g->ny;
    l.nz = g->nz;
    l.h = g->h;
    l.origin = g->origin;
    l.particles = g->desc.particles;
    l.allocator = g->desc.allocator;
    r = fsi_levelset_init(&g->levelset, &l);
    if (r >= 0)
        g->phi = g->levelset.phi;
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid solids and sides */
/* Is face (i,j,k) of axis a, between cell - and cell +, blocked to the eye? Faces of the box are
 * not. */
static int fsi__blocked(const fsi_grid *g, int a, int i, int j, int k) {
    static const int e[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    const fsi_occlusion *o = &g->occlusion;
    int n[3], m[3], at = a == 0 ? i : a == 1 ? j : k;
    m[0] = g->nx;
    m[1] = g->ny;
    m[2] = g->nz;
    if (!g->occluded || at <= 0 || at >= m[a])
        return 0;
    fsi__family_size(g, a, n);
    if (o->blocked[a] && o->blocked[a][fsi__at(n, i, j, k)])
        return 1;
    return o->solid
           && (o->solid[fsi__at(m, i, j, k)]
               || o->solid[fsi__at(m, i - e[a][0], j - e[a][1], k - e[a][2])]);
}

static int fsi__side_open(const fsi_grid *g, int side) {
    return side < 2 * g->dim && g->desc.side[side].kind == FSI_SIDE_OPEN;
}

/* Open fraction of a face; sides of the box: 1 where open. A blocked face is closed unless open[]
   says otherwise. f: the face, number at along its axis of last; hi: the cell above it, step from
   it to the one below. */
FSI__INLINE fsi_real fsi__open_at(const fsi_grid *g, int a, int at, int last, ptrdiff_t f,
                                  ptrdiff_t hi, ptrdiff_t step) {
    const fsi_occlusion *o = &g->occlusion;
    if ((at == 0 || at == last) && !fsi__side_open(g, 2 * a + (at > 0)))
        return 0;
    if (!g->occluded)
        return 1;
    if (o->solid && ((at < last && o->solid[hi]) || (at > 0 && o->solid[hi - step])))
        return 0;
    if (o->open[a])
        return o->open[a][f];
    return o->blocked[a] && o->blocked[a][f] ? 0 : FSI_R(1.0);
}

static fsi_real fsi__open(const fsi_grid *g, int a, int i, int j, int k) {
    const ptrdiff_t nx = g->nx, ny = g->ny, step = a == 0 ? 1 : a == 1 ? nx : nx * ny;
    return fsi__open_at(g, a,
                        a == 0   ? i
                        : a == 1 ? j
                                 : k,
                        a == 0   ? g->nx
                        : a == 1 ? g->ny
                                 : g->nz,
                        i + (nx + (a == 0)) * (j + (ny + (a == 1)) * k), i + nx * (j + ny * k),
                        step);
}

/* Faces that are prescribed take their velocity: closed sides 0, inflow its own; with solids = 1
 * closed faces the solid's (not before the solve: a coupled solve needs u* there). */
static void fsi__grid_walls(fsi_grid *g, int solids) {
    for (int a = 0; a < g->dim; a++) {
        int n[3];
        fsi_real *u = g->u[a], *up = g->u_plus[a];
        /* else the sides of the box are enough */
        const int all = g->occluded && (solids || up);
        const ptrdiff_t below = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
        fsi__family_size(g, a, n);
        int rows = n[1] * n[2];
        FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
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
                    const fsi_grid_side *sd = &g->desc.side[2 * a + (at > 0)];
                    if (sd->kind != FSI_SIDE_OPEN)
                        u[f] = sd->kind == FSI_SIDE_INFLOW ? fsi__get(sd->velocity, a) : 0;
                } else if (solids && g->occluded
                           && !(fsi__open_at(g, a, at, n[a] - 1, (ptrdiff_t)f,
                                             i + g->nx * (j + (ptrdiff_t)g->ny * k), below)
                                > 0)
                           && !(up && g->occlusion.blocked[a] && g->occlusion.blocked[a][f])) {
                    u[f] = g->occlusion.velocity[a] ? g->occlusion.velocity[a][f] : 0;
                }
                if (up && !fsi__blocked(g, a, i, j, k))
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
static double fsi__now(const fsi_grid *g) {
    return g->clock_fn ? g->clock_fn(g->clock_user) : 0;
}

static int fsi__dt_valid(fsi_real dt) {
    return fsi__finite(dt) && dt > 0;
}

/* Largest velocity component, and that of each axis (speed, may be NULL); not finite when one of
 * them is not. */
static fsi_real fsi__max_speed(const fsi_grid *g, fsi_real *speed) {
    fsi_real m = 0;
    for (int a = 0; a < g->dim; a++) {
        fsi_real v = fsi_max_abs(g->faces[a], g->u[a]),
                 w = g->u_plus[a] ? fsi_max_abs(g->faces[a], g->u_plus[a]) : 0;
        if (!fsi__finite(v) || !fsi__finite(w))
            return v - w;
        m = fsi__max(m, fsi__max(v, w));
        if (speed)
            speed[a] = fsi__max(v, w);
    }
    return m;
}

/* Density and temperature are looked at by fsi__find_calm_rows when they are advected. */
static fsi_result fsi__check_state(const fsi_grid *g, fsi_real *most, fsi_real *speed) {
    *most = fsi__max_speed(g, speed);
    if (!fsi__finite(*most) || !fsi_all_finite(g->cells, g->pressure))
        return FSI_ERR_NUMERIC;
    for (int q = 0; q < 2 + g->desc.scalars; q++) {
        fsi_advection mode;
        const fsi_real *s = fsi__scalar(g, q, &mode);
        if (s && (q >= 2 || mode == FSI_ADVECT_NONE) && !fsi_all_finite(g->cells, s))
            return FSI_ERR_NUMERIC;
    }
    if (g->phi && !fsi_all_finite(g->cells, g->phi))
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
    fsi_result r = fsi__grid_check_desc(desc);
    if (r < 0)
        return r;
    fsi__grid_defaults(grid, desc);
    fsi_arena a;
    memset(&a, 0, sizeof a);
    fsi__grid_layout(grid, &a);
    r = a.failed ? FSI_ERR_SIZE : FSI_OK;
    if (r >= 0) {
        a.size = a.used;
        a.base = (unsigned char *)fsi_alloc(&grid->desc.allocator, a.size);
        grid->block = a.base;
        grid->block_size = a.size;
        r = a.base ? FSI_OK : FSI_ERR_MEMORY;
    }
    if (r >= 0) {
        a.used = 0;
        fsi__grid_layout(grid, &a);
        grid->state = grid->block;
        r = fsi__grid_init_parts(grid);
    }
    if (r < 0) {
        fsi_grid_free(grid);
        return r;
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

static fsi__mac fsi__mac_of(const fsi_grid *g) {
    fsi__mac m;
    for (int a = 0; a < 3; a++)
        m.u[a] = g->u[a];
    m.n[0] = g->nx;
    m.n[1] = g->ny;
    m.n[2] = g->nz;
    m.three = g->dim == 3;
    return m;
}

/* Velocity at X: each axis is cut twice, at faces (f) and at centres (c), and the three components
 * share the cuts. */
FSI__FLAT void fsi__mac_at(const fsi__mac *m, int three, fsi_real x, fsi_real y, fsi_real z,
                           fsi_real *v0, fsi_real *v1, fsi_real *v2) {
    const size_t nx = (size_t)m->n[0], ny = (size_t)m->n[1];
    fsi_real fx, fy, fz = 0, cx, cy, cz = 0;
    const size_t ix = (size_t)fsi__cut(x, m->n[0] + 1, &fx),
                 jx = (size_t)fsi__cut(x - FSI_R(0.5), m->n[0], &cx);
    const size_t iy = (size_t)fsi__cut(y, m->n[1] + 1, &fy),
                 jy = (size_t)fsi__cut(y - FSI_R(0.5), m->n[1], &cy);
    const size_t iz = three ? (size_t)fsi__cut(z, m->n[2] + 1, &fz) : 0,
                 jz = three ? (size_t)fsi__cut(z - FSI_R(0.5), m->n[2], &cz) : 0;
    *v0 = fsi__corner_mix(m->u[0] + ix + (nx + 1) * (jy + ny * jz), nx + 1, (nx + 1) * ny, fx, cy,
                          cz, three);
    *v1 = fsi__corner_mix(m->u[1] + jx + nx * (iy + (ny + 1) * jz), nx, nx * (ny + 1), cx, fy, cz,
                          three);
    *v2 = three
              ? fsi__corner_mix(m->u[2] + jx + nx * (jy + ny * iz), nx, nx * ny, cx, cy, fz, three)
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

static void fsi__own_cell(const fsi_grid *g, fsi_vec3 X, int *own) {
    own[0] = (int)fsi__clamp(fsi__floor(X.x), 0, (fsi_real)(g->nx - 1));
    own[1] = (int)fsi__clamp(fsi__floor(X.y), 0, (fsi_real)(g->ny - 1));
    own[2] = g->dim == 3 ? (int)fsi__clamp(fsi__floor(X.z), 0, (fsi_real)(g->nz - 1)) : 0;
}

static int fsi__solid_at(const fsi_grid *g, const int *c) {
    return g->occlusion.solid
           && g->occlusion.solid[(size_t)c[0]
                                 + (size_t)g->nx * ((size_t)c[1] + (size_t)g->ny * (size_t)c[2])];
}

/* Cell of a bit of the block around the point, kept inside the box. */
static void fsi__block_cell(const fsi_grid *g, const fsi__sight *s, unsigned bit, int *c) {
    c[0] = fsi__iclamp(s->base[0] + (int)(bit & 1u), 0, g->nx - 1);
    c[1] = fsi__iclamp(s->base[1] + (int)(bit >> 1 & 1u), 0, g->ny - 1);
    c[2] = g->dim == 3 ? fsi__iclamp(s->base[2] + (int)(bit >> 2 & 1u), 0, g->nz - 1) : 0;
}

static int fsi__ray_hits(const fsi_grid *g, fsi_vec3 A, fsi_vec3 B, fsi_real *t,
                         fsi_vec3 *velocity) {
    *t = 1;
    fsi_vec3 normal;
    int hit = g->occlusion.hit_fn(g->occlusion.user, fsi__grid_point(g, A), fsi__grid_point(g, B),
                                  t, &normal, velocity);
    /* garbage counts as a wall at rest, right here */
    if (hit && !(*t >= 0 && *t <= 1))
        *t = 0;
    if (hit && !fsi__finite_vec(*velocity))
        *velocity = fsi_vec(0, 0, 0);
    return hit;
}

/* Which of the cells around X does the eye see? Without hit_fn: those reached from the own cell
 * through faces that are not blocked. */
static void fsi__look(const fsi_grid *g, fsi_vec3 X, const int *own, fsi_vec3 eye, fsi__sight *s) {
    unsigned bits = g->dim == 3 ? 8 : 4, own_bit = 0;
    int c[3];
    s->X = X;
    s->seen = 0;
    for (int a = 0; a < 3; a++) {
        fsi_real x = fsi__get(X, a) - FSI_R(0.5);
        s->own[a] = own[a];
        /* the own cell is always in the block */
        s->base[a] = a < g->dim ? own[a] - (x < (fsi_real)own[a]) : 0;
        own_bit |= (unsigned)(own[a] - s->base[a]) << a;
    }
    if (g->occlusion.hit_fn) {
        for (unsigned bit = 0; bit < bits; bit++) {
            fsi__block_cell(g, s, bit, c);
            fsi_real t;
            fsi_vec3 v;
            if (!fsi__solid_at(g, c)
                && !fsi__ray_hits(g, eye, fsi__sample_place(3, c[0], c[1], c[2]), &t, &v))
                s->seen |= 1u << bit;
        }
        return;
    }
    fsi__block_cell(g, s, own_bit, c);
    if (fsi__solid_at(g, c))
        return;
    s->seen = 1u << own_bit;
    for (int round = 0; round < g->dim; round++)
        for (unsigned bit = 0; bit < bits; bit++)
            for (int a = 0; a < g->dim && (s->seen >> bit & 1u); a++) {
                unsigned other = bit ^ (1u << a);
                /* the upper of the two cells names the face between them */
                fsi__block_cell(g, s, bit | (1u << a), c);
                if (s->base[a] < 0
                    || s->base[a] + 1 >= (a == 0   ? g->nx
                                          : a == 1 ? g->ny
                                                   : g->nz)
                    || !fsi__blocked(g, a, c[0], c[1], c[2]))
                    s->seen |= 1u << other;
            }
}

/* Component a of the velocity at the point of s: the two faces of each seen cell in the plane of
 * the own cell. 0 when nothing is seen. */
static int fsi__seen_component(const fsi_grid *g, const fsi__sight *s, int a, fsi_real *value) {
    unsigned bits = g->dim == 3 ? 8 : 4, along = (unsigned)(s->own[a] - s->base[a]);
    const fsi_real *minus = g->u[a], *plus = g->u_plus[a] ? g->u_plus[a] : g->u[a];
    fsi_real f = fsi__clamp(fsi__get(s->X, a) - (fsi_real)s->own[a], 0, 1), sum = 0, mean = 0,
             lost = 0;
    int n[3], c[3], count = 0;
    fsi__family_size(g, a, n);
    for (unsigned bit = 0; bit < bits; bit++) {
        fsi_real w = 1;
        if ((bit >> a & 1u) != along)
            continue;
        for (int b = 0; b < g->dim; b++) {
            fsi_real t = fsi__clamp(fsi__get(s->X, b) - FSI_R(0.5) - (fsi_real)s->base[b], 0, 1);
            if (b != a)
                w *= (bit >> b & 1u) ? t : 1 - t;
        }
        if (!(s->seen >> bit & 1u)) {
            lost += w;
            continue;
        }
        fsi__block_cell(g, s, bit, c);
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

static fsi_vec3 fsi__seen_velocity(const fsi_grid *g, const fsi__sight *s, fsi_vec3 otherwise) {
    fsi_real v[3];
    v[0] = otherwise.x;
    v[1] = otherwise.y;
    v[2] = g->dim == 3 ? otherwise.z : 0;
    for (int a = 0; a < g->dim; a++)
        fsi__seen_component(g, s, a, &v[a]);
    return fsi_vec(v[0], v[1], v[2]);
}

static fsi_real fsi__seen_scalar(const fsi_grid *g, const fsi__sight *s, const fsi_real *field,
                                 fsi_real otherwise) {
    unsigned bits = g->dim == 3 ? 8 : 4;
    fsi_real sum = 0, mean = 0, lost = 0;
    int c[3], n[3], count = 0;
    fsi__family_size(g, 3, n);
    for (unsigned bit = 0; bit < bits; bit++) {
        fsi_real w = 1;
        for (int b = 0; b < g->dim; b++) {
            fsi_real t = fsi__clamp(fsi__get(s->X, b) - FSI_R(0.5) - (fsi_real)s->base[b], 0, 1);
            w *= (bit >> b & 1u) ? t : 1 - t;
        }
        if (!(s->seen >> bit & 1u)) {
            lost += w;
            continue;
        }
        fsi__block_cell(g, s, bit, c);
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
static fsi_vec3 fsi__reach(const fsi_grid *g, int *own, fsi_vec3 B, fsi_vec3 *velocity) {
    fsi_vec3 A = fsi__sample_place(3, own[0], own[1], own[2]);
    fsi_real end = 1, next[3], d[3];
    int n[3];
    fsi__family_size(g, 3, n);
    B = fsi_vec(fsi__clamp(B.x, 0, (fsi_real)n[0]), fsi__clamp(B.y, 0, (fsi_real)n[1]),
                g->dim == 3 ? fsi__clamp(B.z, 0, (fsi_real)n[2]) : A.z);
    fsi_vec3 D = fsi_vec_sub(B, A);
    /* a thousandth of a cell short of the surface */
    fsi_real margin = FSI_R(1e-3) / fsi__max(fsi__length(D), FSI_R(1e-3));
    if (g->occlusion.hit_fn) {
        fsi_real t;
        if (fsi__ray_hits(g, A, B, &t, velocity))
            end = fsi__max(t - margin, 0);
        B = fsi_vec_mad(A, D, end);
        fsi__own_cell(g, B, own);
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
        if (fsi__blocked(g, a, c[0], c[1], c[2])) {
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
static fsi_vec3 fsi__seen_path(const fsi_grid *g, fsi_vec3 X, int *own, fsi_real s,
                               fsi__sight *sight) {
    int cell[3];
    fsi_vec3 zero = fsi_vec(0, 0, 0), hit = zero;
    cell[0] = own[0];
    cell[1] = own[1];
    cell[2] = own[2];
    fsi__look(g, X, own, fsi__sample_place(3, own[0], own[1], own[2]), sight);
    fsi_vec3 v = fsi__seen_velocity(g, sight, zero);
    fsi_vec3 end = fsi__reach(g, cell, fsi_vec_mad(X, v, FSI_R(0.5) * s), &hit);
    fsi__look(g, end, cell, end, sight);
    v = fsi__seen_velocity(g, sight, v);
    hit = zero;
    end = fsi__reach(g, own, fsi_vec_mad(X, v, s), &hit);
    fsi__look(g, end, own, end, sight);
    return hit;
}

/* Sample (i,j,k) of the family as its cell sees it: side 0 the minus cell of a face, 1 the plus
 * cell. Returns 0 where both cells are solid. */
static int fsi__seen_sample(const fsi_grid *g, const fsi__job *q, int i, int j, int k, int side,
                            fsi_real *value) {
    const int a = q->family;
    int own[3];
    own[0] = i;
    own[1] = j;
    own[2] = k;
    if (a < 3) {
        own[a] -= side == 0;
        if (own[a] < 0 || (own[a] < q->mac.n[a] && fsi__solid_at(g, own)))
            own[a] += side == 0 ? 1 : -1;
        if (own[a] < 0 || own[a] >= q->mac.n[a])
            own[a] += own[a] < 0 ? 1 : -1;
    }
    if (fsi__solid_at(g, own))
        return 0;
    fsi__sight s;
    fsi_vec3 hit = fsi__seen_path(g, fsi__sample_place(a, i, j, k), own, -q->s, &s);
    for (int m = 0; m < q->count; m++)
        value[m] = a < 3 ? fsi__get(fsi__seen_velocity(g, &s, hit), a)
                         : fsi__seen_scalar(g, &s, q->old[m], q->old[m][fsi__at(q->n, i, j, k)]);
    return 1;
}

/* The samples whose paths may meet a solid, done again with sight; linear interpolation only (no
 * stencil: no correction). */
static void fsi__advect_seen(const fsi_grid *g, const fsi__job *q, ptrdiff_t from, ptrdiff_t to) {
    const int a = q->family;
    FSI__OMP(parallel for schedule(static))
    for (ptrdiff_t r = from; r < to; r++) {
        int j = (int)(r % q->n[1]), k = (int)(r / q->n[1]);
        for (int i = 0; i < q->n[0]; i++) {
            size_t f = fsi__at(q->n, i, j, k);
            fsi_real v[2];
            int c[3];
            c[0] = fsi__imin(i, g->nx - 1);
            c[1] = fsi__imin(j, g->ny - 1);
            c[2] = fsi__imin(k, g->nz - 1);
            if (!g->near_cell[fsi__at(q->mac.n, c[0], c[1], c[2])])
                continue;
            v[0] = q->old[0][f];
            v[1] = q->count > 1 ? q->old[1][f] : 0;
            fsi__seen_sample(g, q, i, j, k, 0, v);
            for (int m = 0; m < q->count; m++) {
                if (q->keep[m])
                    q->hat[m][(ptrdiff_t)f - q->base] = v[m];
                else
                    q->out[m][(ptrdiff_t)f - q->out_base] = v[m];
            }
            q->stencil[(ptrdiff_t)f - q->base] = FSI__NO_STENCIL;
            if (a == 3 || !g->u_plus[a])
                continue;
            g->plus_work[a][f] = v[0];
            if (!fsi__blocked(g, a, i, j, k))
                continue;
            v[0] = g->u_plus[a][f];
            fsi__seen_sample(g, q, i, j, k, 1, v);
            g->plus_work[a][f] = v[0];
        }
    }
}

/* Plus samples: the common one where the face is not blocked; after the advection (work given)
 * their own elsewhere. */
static void fsi__plus_equal(fsi_grid *g, int a, const fsi_real *work) {
    int n[3];
    fsi__family_size(g, a, n);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                size_t f = fsi__at(n, i, j, k);
                if (!fsi__blocked(g, a, i, j, k))
                    g->u_plus[a][f] = g->u[a][f];
                else if (work)
                    g->u_plus[a][f] = work[f];
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
static void fsi__mark_near(fsi_grid *g, fsi_real dt, int shells) {
    const fsi_real cfl = fsi__max_speed(g, NULL) * dt / g->h;
    const uint8_t *solid = g->occlusion.solid;
    int n[3], reach[3];
    fsi__family_size(g, 3, n);
    reach[0] = reach[1] = reach[2] = cfl < FSI_R(1e6) ? 4 + (int)cfl : 1000000;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)n[1] * n[2]; r++) {
        const ptrdiff_t row = r * n[0];
        int j = (int)(r % n[1]), k = (int)(r / n[1]);
        for (int i = 0; i < n[0]; i++)
            g->near_cell[row + i] = (uint8_t)(solid && !shells && solid[row + i]);
        for (int a = 0; a < g->dim; a++) {
            const ptrdiff_t step = a == 0 ? 1 : a == 1 ? n[0] : (ptrdiff_t)n[0] * n[1];
            const ptrdiff_t at = (n[0] + (a == 0)) * (j + (ptrdiff_t)(n[1] + (a == 1)) * k);
            const uint8_t *blocked = g->occlusion.blocked[a];
            const fsi_real *open = g->occlusion.open[a];
            if ((a == 1 && j == 0) || (a == 2 && k == 0))
                continue;
            for (int i = a == 0; blocked && i < n[0]; i++)
                if (blocked[at + i]
                    && !(shells && solid && (solid[row + i] || solid[row + i - step])))
                    g->near_cell[row + i] = 1;
            for (int i = a == 0; open && !shells && i < n[0]; i++)
                if (open[at + i] < 1)
                    g->near_cell[row + i] = 1;
        }
    }
    fsi__grow_all(g->near_cell, n, reach);
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
        fsi__sight s;
        fsi__look(grid, X, own, X, &s);
        return fsi__seen_velocity(grid, &s, v);
    } else {
        fsi__mac m = fsi__mac_of(grid);
        fsi__mac_at(&m, m.three, X.x, X.y, X.z, &v.x, &v.y, &v.z);
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
    fsi__sight s;
    fsi__look(grid, X, own, X, &s);
    /* phi is continued into solids */
    if (!grid->occluded || field == FSI_FIELD_PHI)
        s.seen = 0xff;
    return fsi__seen_scalar(grid, &s, f, f[fsi__at(n, own[0], own[1], own[2])]);
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
            fsi__sight s;
            fsi__seen_path(grid, X, own, dt / grid->h, &s);
            X = s.X;
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
FSI__FLAT void fsi__cut_ends(const fsi__job *q, int three, int edge, int j, int k, int i0, int from,
                             int to, const fsi_real *const *r, const fsi_real *const *t,
                             fsi__ends *e) {
    const fsi_real *r0 = r[0] + i0, *r1 = r[1] + i0, *r2 = three ? r[2] + i0 : r1, *t0 = t[0] + i0,
                   *t1 = t[1] + i0, *t2 = three ? t[2] + i0 : t1;
    const fsi_real x0 = (fsi_real)(edge ? i0 : q->reach[0]), y = (fsi_real)(edge ? j : q->reach[1]),
                   z = (fsi_real)(edge ? k : q->reach[2]);
    const fsi_real ox = q->o[0], oy = q->o[1], oz = q->o[2];
    const int nx = q->n[0], ny = q->n[1], nz = q->n[2];
    const double sy = nx, sz = sy * ny,
                 here = (double)x0 + sy * (double)y + (three ? sz * (double)z : 0);
    fsi_real *FSI__RESTRICT F0 = e->F[0], *FSI__RESTRICT F1 = e->F[1], *FSI__RESTRICT F2 = e->F[2],
                            *FSI__RESTRICT off = e->off;
    int32_t *FSI__RESTRICT shift = e->shift;
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
FSI__FLAT int fsi__find_ends(const fsi__job *q, int three, int back, int j, int k, int i0,
                             int count, fsi__ends *e) {
    const int *n = q->mac.n, a = q->family,
              safe = j >= q->reach[1] && j < n[1] - q->reach[1]
                     && (!three || (k >= q->reach[2] && k < n[2] - q->reach[2]));
    /* x faces on the box have one cell */
    const int first = a == 0 && i0 == 0, last = count - (a == 0 && i0 + count == q->n[0]);
    const fsi_real *r[3], *t[3], *one[3];
    int part[5][2];
    for (int c = 0; c < 3; c++) {
        /* 2D: z is not read */
        const fsi_real *way = (back ? q->back : q->forth)[c < 2 || three ? c : 0];
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
    int parts = fsi__parts(n[0], q->reach[0], safe, i0, first, last, part);
    fsi__cut_ends(q, three, 0, j, k, i0, part[0][0], part[0][1], r, t, e);
    for (int i = part[0][0]; i < part[0][1]; i++)
        e->off[i] = 0;
    for (int p = 1; p < parts; p++)
        fsi__cut_ends(q, three, 1, j, k, i0, part[p][0], part[p][1], r, t, e);
    if (first)
        fsi__cut_ends(q, three, 1, j, k, 0, 0, 1, r, r, e);
    if (last < count)
        fsi__cut_ends(q, three, 1, j, k, i0, last, count, one, one, e);
    return fsi__chunk_most(count, e->off) > 0;
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
FSI__FLAT void fsi__cut_middles(const fsi__job *q, int three, int edge, int j, int k, int i0,
                                int from, int to, const fsi_real *const *p,
                                fsi_real (*V)[FSI__CHUNK], fsi_real (*F)[2][FSI__CHUNK],
                                int32_t (*shift)[FSI__CHUNK]) {
    const fsi_real *p0 = p[0] + i0, *p1 = p[1] + i0, *p2 = three ? p[2] + i0 : p1,
                   half = FSI_R(0.5), s = -half * q->s;
    const fsi_real x0 = (fsi_real)(edge ? i0 : q->reach[0]), y = (fsi_real)(edge ? j : q->reach[1]),
                   z = (fsi_real)(edge ? k : q->reach[2]);
    const int nx = q->n[0], ny = q->n[1], nz = q->n[2];
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
FSI__FLAT void fsi__ways_chunk(const fsi__job *q, int three, int j, int k, int i0, int count) {
    const ptrdiff_t nx = q->n[0], ny = q->n[1], row = i0 + nx * (j + ny * k);
    const int *n = q->n, safe = j >= q->reach[1] && j < n[1] - q->reach[1]
                                && (!three || (k >= q->reach[2] && k < n[2] - q->reach[2]));
    fsi_real V[3][FSI__CHUNK], F[3][2][FSI__CHUNK], mid[FSI__CHUNK];
    int32_t shift[3][FSI__CHUNK];
    const fsi_real half = FSI_R(-0.5) * q->s, *p[3];
    int part[5][2], parts = fsi__parts(n[0], q->reach[0], safe, i0, 0, count, part);
    for (int c = 0; c < 3; c++)
        p[c] = q->mac.u[c] ? q->mac.u[c] + (nx + (c == 0)) * (j + (ny + (c == 1)) * k) : NULL;
    fsi__cut_middles(q, three, 0, j, k, i0, part[0][0], part[0][1], p, V, F, shift);
    for (int i = 1; i < parts; i++)
        fsi__cut_middles(q, three, 1, j, k, i0, part[i][0], part[i][1], p, V, F, shift);
    for (int c = 0; c < 2 + three; c++) {
        const size_t w = (size_t)nx + (c == 0), hgt = (size_t)ny + (c == 1);
        const fsi_real *v = V[c];
        fsi_real *FSI__RESTRICT back = q->back[c] + row, *FSI__RESTRICT forth = q->forth[c] + row;
        fsi__mix_chunk(p[c] + i0, w, w * hgt, three, count, shift[c], F[0][c == 0], F[1][c == 1],
                       F[2][c == 2], mid);
        FSI__OMP(simd)
        for (int i = 0; i < count; i++) {
            back[i] = half * mid[i];
            forth[i] = half * (mid[i] - 2 * v[i]);
        }
        {
            fsi_real *most = q->most + 3 * (j + ny * k) + c, m = fsi__chunk_most(count, forth);
            *most = i0 > 0 ? fsi__max(*most, m) : m;
        }
    }
}

/* Where the path back from cell (i,j,k) leads out through an open side, fresh air comes in. */
static int fsi__enters(const fsi__job *q, int i, int j, int k) {
    const ptrdiff_t c = i + q->n[0] * (j + (ptrdiff_t)q->n[1] * k);
    const int at[3] = {i, j, k};
    for (int a = 0; a < 2 + q->mac.three; a++) {
        const fsi_real x = (fsi_real)at[a] + 2 * q->back[a][c];
        if ((x < FSI_R(-0.5) && q->open[2 * a])
            || (x > (fsi_real)q->n[a] - FSI_R(0.5) && q->open[2 * a + 1]))
            return 1;
    }
    return 0;
}

FSI__FLAT void fsi__advect_back(const fsi__job *q, int three, int j, int k, int i0, int count) {
    const size_t sy = (size_t)q->n[0], sz = sy * (size_t)q->n[1];
    const ptrdiff_t row = (ptrdiff_t)((size_t)i0 + sy * (size_t)j + sz * (size_t)k),
                    in = row - q->base;
    fsi__ends e;
    int off = fsi__find_ends(q, three, 1, j, k, i0, count, &e);
    for (int m = 0; m < q->count; m++)
        fsi__mix_chunk(q->old[m] + row, sy, sz, three, count, e.shift, e.F[0], e.F[1], e.F[2],
                       q->keep[m] ? q->hat[m] + in : q->out[m] + (row - q->out_base));
    for (int i = 0; off && i < count; i++) {
        if (!(e.off[i] > 0))
            continue;
        e.shift[i] = FSI__NO_STENCIL;
        for (int m = 0; m < q->count && q->family == 3 && fsi__enters(q, i0 + i, j, k); m++)
            *(q->keep[m] ? q->hat[m] + in + i : q->out[m] + (row - q->out_base) + i) = q->still[m];
    }
    memcpy(q->stencil + in, e.shift, (size_t)count * sizeof e.shift[0]);
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
FSI__FLAT void fsi__spare_surface(const fsi__job *q, int j, int k, int i0, int count,
                                  const fsi_real *old, fsi_real *forth) {
    const int a = q->family, *n = q->mac.n, j0 = a == 1 ? fsi__imax(j - 1, 0) : j,
              k0 = a == 2 ? fsi__imax(k - 1, 0) : k;
    const fsi_real *low = q->phi + (ptrdiff_t)n[0] * (j0 + (ptrdiff_t)n[1] * k0),
                   *high =
                       q->phi
                       + (ptrdiff_t)n[0]
                             * (fsi__imin(j, n[1] - 1) + (ptrdiff_t)n[1] * fsi__imin(k, n[2] - 1));
    for (int i = 0; i < count; i++) {
        const fsi_real depth =
            -q->half_inv_h
            * (low[a == 0 ? fsi__imax(i0 + i - 1, 0) : i0 + i] + high[fsi__imin(i0 + i, n[0] - 1)]);
        forth[i] = old[i] + fsi__min(fsi__max(depth - 1, 0), 1) * (forth[i] - old[i]);
    }
}

FSI__FLAT void fsi__advect_forth(const fsi__job *q, int three, int j, int k, int i0, int count) {
    const size_t sy = (size_t)q->n[0], sz = sy * (size_t)q->n[1];
    const ptrdiff_t row = (ptrdiff_t)((size_t)i0 + sy * (size_t)j + sz * (size_t)k),
                    in = row - q->base;
    fsi_real forth[FSI__CHUNK];
    fsi__ends e;
    int off = fsi__find_ends(q, three, 0, j, k, i0, count, &e);
    for (int i = 0; off && i < count; i++)
        if (e.off[i] > 0)
            q->stencil[in + i] = FSI__NO_STENCIL;
    for (int m = 0; m < q->count; m++) {
        if (!q->keep[m])
            continue;
        fsi__mix_chunk(q->hat[m] + in, sy, sz, three, count, e.shift, e.F[0], e.F[1], e.F[2],
                       forth);
        if (q->phi)
            fsi__spare_surface(q, j, k, i0, count, q->old[m] + row, forth);
        if (q->limit[m])
            fsi__correct_chunk(sy, sz, three, 1, count, q->stencil + in, q->hat[m] + in,
                               q->old[m] + row, forth, q->out[m] + (row - q->out_base));
        else
            fsi__correct_chunk(sy, sz, three, 0, count, q->stencil + in, q->hat[m] + in,
                               q->old[m] + row, forth, q->out[m] + (row - q->out_base));
    }
}

/* One row of a pass: 0 the ways, 1 backward, 2 correction. The compiler makes one version of each
 * for 2D and one for 3D. */
FSI__FLAT void fsi__advect_row(const fsi__job *q, int pass, ptrdiff_t r) {
    const int three = q->mac.three;
    int j = (int)(r % q->n[1]), k = (int)(r / q->n[1]);
    for (int i0 = 0; i0 < q->n[0]; i0 += FSI__CHUNK) {
        const int count = fsi__imin(FSI__CHUNK, q->n[0] - i0);
        if (pass == 0 && three)
            fsi__ways_chunk(q, 1, j, k, i0, count);
        else if (pass == 0)
            fsi__ways_chunk(q, 0, j, k, i0, count);
        else if (pass == 1 && three)
            fsi__advect_back(q, 1, j, k, i0, count);
        else if (pass == 1)
            fsi__advect_back(q, 0, j, k, i0, count);
        else if (three)
            fsi__advect_forth(q, 1, j, k, i0, count);
        else
            fsi__advect_forth(q, 0, j, k, i0, count);
    }
}

/* The same plain loops once more for processors with wider vectors (no fused operations: same
 * bits), chosen when the program runs. */
#if defined(__x86_64__) && !defined(__AVX2__) && (defined(__GNUC__) || defined(__clang__))         \
    && !defined(__TINYC__)
__attribute__((target("avx2"))) static void fsi__advect_row_wide(const fsi__job *q, int pass,
                                                                 ptrdiff_t r) {
    fsi__advect_row(q, pass, r);
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
static void fsi__advect_row_plain(const fsi__job *q, int pass, ptrdiff_t r) {
    fsi__advect_row(q, pass, r);
}

static void fsi__advect_pass(const fsi__job *q, int pass, ptrdiff_t from, ptrdiff_t to) {
    void (*const row)(const fsi__job *, int, ptrdiff_t) =
        fsi__wide() ? fsi__advect_row_wide : fsi__advect_row_plain;
    FSI__OMP(parallel for schedule(static) if ((to - from) * q->n[0] > 8000))
    for (ptrdiff_t r = from; r < to; r++)
        if (!q->rows || (q->rows[r] & pass))
            row(q, pass, r);
}

static void fsi__job_begin(const fsi_grid *g, int family, fsi_real dt, const fsi_real *way,
                           fsi__job *q) {
    fsi_vec3 o = fsi__sample_place(family, 0, 0, 0);
    memset(q, 0, sizeof *q);
    q->mac = fsi__mac_of(g);
    q->family = family;
    fsi__family_size(g, family, q->n);
    q->o[0] = o.x;
    q->o[1] = o.y;
    q->o[2] = o.z;
    q->s = dt / g->h;
    q->stencil = g->stencil;
    q->phi = family < 3 ? g->phi : NULL;
    q->half_inv_h = FSI_R(0.5) / g->h;
    for (int a = 0; a < 6; a++)
        q->open[a] = fsi__side_open(g, a);
    for (int a = 0; a < 3; a++) {
        q->reach[a] = way[a] < FSI_R(1e6) ? 2 + (int)way[a] : 1 << 29;
        /* not needed before build_pressure makes new ones */
        q->back[a] = g->weight[a];
        q->forth[a] = a == 0 ? g->rhs : g->way[a - 1];
    }
}

static void fsi__job_add(fsi__job *q, const fsi_real *old, fsi_real *hat, fsi_real *out,
                         fsi_advection mode) {
    int m = q->count++;
    q->old[m] = old;
    q->hat[m] = hat;
    q->out[m] = out;
    q->keep[m] = mode == FSI_ADVECT_MACCORMACK || mode == FSI_ADVECT_MACCORMACK_FREE;
    q->limit[m] = mode == FSI_ADVECT_MACCORMACK;
}

/* Smoke fills a part of the box only. Rows whose values lie within round-off (of the largest) of
   the still value, and whose neighbours within reach do, keep them: no work there. Bit 2 of rows:
   the row may change; bit 1: a row that may change needs its hat. q carries scalars. Returns 0 when
   one of them is not finite. */
static int fsi__find_calm_rows(fsi_grid *g, fsi__job *q) {
    ptrdiff_t rows = (ptrdiff_t)g->ny * g->nz;
    uint8_t *may = g->mark[0], *near_it = g->mark[1];
    fsi_real *most = g->scratch[3];
    memset(may, 0, (size_t)rows);
    for (int m = 0; m < q->count; m++) {
        FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
        for (ptrdiff_t r = 0; r < rows; r++) {
            const fsi_real *s = q->old[m] + r * g->nx;
            fsi_real far = fsi_max_abs((size_t)g->nx, s);
            int n;
            if (fsi__abs(q->still[m]) > 0 && fsi__finite(far))
                for (far = 0, n = 0; n < g->nx; n++)
                    far = fsi__max(far, fsi__abs(s[n] - q->still[m]));
            most[r] = far;
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
        for (int i = 0; i < g->nz; i++)
            fsi__grow_line(p + (size_t)i * (size_t)g->ny, 1, g->ny, q->reach[1]);
        if (g->dim == 3)
            fsi__grow_marks(p, (size_t)g->ny, (size_t)g->ny, g->nz, q->reach[2]);
    }
    for (ptrdiff_t r = 0; r < rows; r++)
        may[r] = (uint8_t)(near_it[r] + 2 * may[r]);
    q->rows = may;
    return 1;
}

static void fsi__copy_rows(const fsi__job *q, int m, ptrdiff_t from, ptrdiff_t to,
                           fsi_real *field) {
    const ptrdiff_t w = q->n[0];
    FSI__OMP(parallel for schedule(static) if ((to - from) * w > 8000))
    for (ptrdiff_t r = from; r < to; r++)
        if (!q->rows || (q->rows[r] & 2u))
            memcpy(field + r * w, q->out[m] + (r * w - q->out_base), (size_t)w * sizeof *field);
}

/* Moves what is still needed of hat, stencil and out, samples from .. to-1, to the front. */
static void fsi__job_slide(fsi__job *q, int early, ptrdiff_t from, ptrdiff_t to) {
    const size_t n = (size_t)(to - from);
    for (int m = 0; m < q->count; m++) {
        if (q->keep[m])
            memmove(q->hat[m], q->hat[m] + (from - q->base), n * sizeof *q->hat[m]);
        if (early)
            memmove(q->out[m], q->out[m] + (from - q->out_base), n * sizeof *q->out[m]);
    }
    memmove(q->stencil, q->stencil + (from - q->base), n * sizeof *q->stencil);
    q->base = from;
    if (early)
        q->out_base = from;
}

/* All passes of a job, layer after layer (a plane, in 2D a row), each pass as far behind the one
   before it as paths reach: what a pass makes is still in the cache when the next one reads it, and
   hat, stencil and out need room for some layers only. field: where the results go; NULL: they stay
   in out. */
static void fsi__job_run(fsi_grid *g, fsi__job *q, fsi_real *const *field) {
    const int three = q->mac.three, layers = three ? q->n[2] : q->n[1], per = three ? q->n[1] : 1,
              reach = fsi__imin(q->reach[1 + three], layers);
    const ptrdiff_t size = (ptrdiff_t)per * q->n[0]; /* samples of a layer */
    const int step = (int)(1 + 131072 / size), room = 2 * reach + 4 * step;
    int back = 0, forth = 0, copied = 0; /* layers done */
    while (forth < layers || (field && copied < layers)) {
        int to = fsi__imin(back + step, layers), from = fsi__imin(copied, forth - reach);
        if (to * size - q->base > room * size && from * size > q->base)
            fsi__job_slide(q, field != NULL, from * size, back * size);
        fsi__advect_pass(q, 1, (ptrdiff_t)back * per, (ptrdiff_t)to * per);
        if (g->occluded)
            fsi__advect_seen(g, q, (ptrdiff_t)back * per, (ptrdiff_t)to * per);
        back = to;
        to = back == layers ? layers : fsi__imax(back - reach, forth);
        if (q->keep[0] || q->keep[1])
            fsi__advect_pass(q, 2, (ptrdiff_t)forth * per, (ptrdiff_t)to * per);
        forth = to;
        to = forth == layers ? layers : fsi__imax(forth - reach, copied);
        for (int m = 0; m < q->count && field; m++)
            fsi__copy_rows(q, m, (ptrdiff_t)copied * per, (ptrdiff_t)to * per, field[m]);
        copied = to;
    }
}

/* Pass 0: the ways of all cells; way: the longest ones along each axis, cells. */
static void fsi__find_ways(fsi_grid *g, fsi_real dt, const fsi_real *axis_speed, fsi_real *way) {
    const ptrdiff_t rows = (ptrdiff_t)g->ny * g->nz;
    for (int a = 0; a < 3; a++)
        way[a] = FSI_R(0.5) * (dt / g->h * axis_speed[a] + 1);
    fsi__job q;
    fsi__job_begin(g, 3, dt, way, &q);
    q.most = g->scratch[0];
    fsi__advect_pass(&q, 0, 0, rows);
    for (int a = 0; a < 3; a++) {
        way[a] = dt / g->h * axis_speed[a]; /* back */
        for (ptrdiff_t r = 0; r < rows && a < g->dim; r++)
            way[a] = fsi__max(way[a], 2 * q.most[3 * r + a]);
    }
}

FSI_API fsi_result fsi_grid_advect(fsi_grid *grid, fsi_real dt) {
    fsi_grid *g = grid;
    fsi_real axis_speed[3] = {0, 0, 0}, way[3];
    fsi_real *field[2];
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    double t0 = fsi__now(g);
    fsi_real speed;
    fsi_result r = fsi__check_state(g, &speed, axis_speed);
    if (r < 0)
        return r;
    g->stats.max_speed = (double)speed;
    g->stats.cfl = g->stats.max_speed * (double)dt / (double)g->h;
    if (g->occluded)
        fsi__mark_near(g, dt, g->occlusion.smooth);
    for (int i = 0; i < 3; i++)
        way[i] = FSI_R(0.5) * (dt / g->h * axis_speed[i] + 1);
    fsi__find_ways(g, dt, axis_speed, way);
    g->weights_are_one = 0;
    int total = 2 + g->desc.scalars;
    /* scalars first, two at a time, all by the old velocity */
    fsi__job q;
    for (int i = 0; i < total;) {
        fsi__job_begin(g, 3, dt, way, &q);
        for (; i < total && q.count < 2; i++) {
            fsi_advection mode;
            fsi_real *s = fsi__scalar(g, i, &mode);
            if (!s || mode == FSI_ADVECT_NONE)
                continue;
            field[q.count] = s;
            q.still[q.count] = i == 1 ? g->desc.ambient : 0;
            fsi__job_add(&q, s, g->scratch[q.count], g->scratch[2 + q.count], mode);
        }
        if (!q.count)
            continue;
        /* only the first ones can be: nothing has changed yet */
        if (!fsi__find_calm_rows(g, &q))
            return FSI_ERR_NUMERIC;
        fsi__job_run(g, &q, field);
    }
    for (int i = 0; i < g->dim && g->desc.advect_velocity != FSI_ADVECT_NONE; i++) {
        fsi__job_begin(g, i, dt, way, &q);
        fsi__job_add(&q, g->carried[i] ? g->carried[i] : g->u[i], g->scratch[3], g->scratch[i],
                     g->desc.advect_velocity);
        field[0] = g->u[i];
        /* next to solids all components of the old velocity are looked at again */
        fsi__job_run(g, &q, g->occluded ? NULL : field);
    }
    for (int i = 0; i < g->dim && g->desc.advect_velocity != FSI_ADVECT_NONE; i++) {
        if (g->occluded)
            fsi_copy(g->faces[i], g->scratch[i], g->u[i]);
        g->carried[i] = NULL;
        if (g->u_plus[i])
            fsi__plus_equal(g, i, g->plus_work[i]);
    }
    fsi__grid_walls(g, 0);
    g->stats.seconds_advect = fsi__now(g) - t0;
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid walls of the surface */
static fsi_vec3 fsi__clip_way(fsi_vec3 from, fsi_vec3 to, void *user) {
    const fsi_grid *g = (const fsi_grid *)user;
    fsi_vec3 A = fsi__to_cells(g, from), B = fsi__to_cells(g, to), v;
    int own[3];
    if (g->occlusion.hit_fn) {
        fsi_real t;
        if (!fsi__ray_hits(g, A, B, &t, &v))
            return to;
        t -= FSI_R(1e-3) / fsi__max(fsi__length(fsi_vec_sub(B, A)), FSI_R(1e-3));
        return fsi_vec_mad(from, fsi_vec_sub(to, from), fsi__max(t, 0));
    }
    fsi__own_cell(g, A, own);
    return fsi__grid_point(g, fsi__reach(g, own, B, &v));
}

static void fsi__surface_walls(fsi_grid *g, fsi_levelset_walls *w, int *open) {
    memset(w, 0, sizeof *w);
    for (int i = 0; i < 6; i++)
        open[i] = fsi__side_open(g, i);
    w->open = open;
    if (!g->occluded)
        return;
    w->solid = g->occlusion.solid;
    w->clip_fn = fsi__clip_way;
    w->user = g;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid sources */
/* Signed distance to the source's region at x, negative inside (box: exact outside, by the nearest
 * side inside). */
static fsi_real fsi__source_distance(fsi_vec3 x, const fsi_grid_source *s, int dim) {
    fsi_real out = 0, in = -FSI_REAL_MAX;
    if (s->shape == FSI_SOURCE_CALLBACK)
        return s->distance_fn(x, s->user);
    if (s->shape == FSI_SOURCE_SPHERE) {
        fsi_vec3 d = fsi_vec_sub(x, s->centre);
        if (dim == 2)
            d.z = 0;
        return fsi__length(d) - s->radius;
    }
    for (int a = 0; a < dim; a++) {
        fsi_real d =
            fsi__max(fsi__get(s->lo, a) - fsi__get(x, a), fsi__get(x, a) - fsi__get(s->hi, a));
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

static int fsi__source_active(const fsi_grid *g, const fsi_grid_source *s) {
    return (s->start >= s->stop && s->stop <= 0) || (g->time >= s->start && g->time < s->stop);
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
static void fsi__source_range(const fsi_grid *g, const fsi_grid_source *s, const int *n, int *lo,
                              int *hi) {
    for (int a = 0; a < 3; a++) {
        fsi_real x0 = fsi__get(s->lo, a), x1 = fsi__get(s->hi, a), o = fsi__get(g->origin, a);
        lo[a] = 0;
        hi[a] = n[a];
        if (s->shape == FSI_SOURCE_CALLBACK || a >= g->dim)
            continue;
        if (s->shape == FSI_SOURCE_SPHERE) {
            x0 = fsi__get(s->centre, a) - s->radius;
            x1 = fsi__get(s->centre, a) + s->radius;
        }
        lo[a] = (int)fsi__clamp((x0 - o) / g->h - 1, 0, (fsi_real)n[a]);
        hi[a] = (int)fsi__clamp((x1 - o) / g->h + 2, 0, (fsi_real)n[a]);
    }
}

/* Writes value into the samples of a family inside the source (add: adds it); out NULL: only asks.
 * Returns 0 when a callback gave garbage. */
static int fsi__source_fill(const fsi_grid *g, const fsi_grid_source *s, int family, fsi_real value,
                            int add, fsi_real *out) {
    int n[3], lo[3], hi[3], good = 1;
    fsi__family_size(g, family, n);
    fsi__source_range(g, s, n, lo, hi);
    for (int k = lo[2]; k < hi[2]; k++)
        for (int j = lo[1]; j < hi[1]; j++)
            for (int i = lo[0]; i < hi[0]; i++) {
                fsi_real d = fsi__source_distance(
                    fsi__grid_point(g, fsi__sample_place(family, i, j, k)), s, g->dim);
                if (!fsi__finite(d))
                    good = 0;
                else if (d < 0 && out)
                    out[fsi__at(n, i, j, k)] = value + (add ? out[fsi__at(n, i, j, k)] : 0);
            }
    return good;
}

/* Asks every callback once without using the answers, so that a step can be refused before it
 * changed anything. */
static fsi_result fsi__check_callbacks(const fsi_grid *g) {
    int n[3];
    for (int i = 0; i < g->source_count; i++)
        for (int a = 0; a < 4 && g->source[i].shape == FSI_SOURCE_CALLBACK
                        && fsi__source_active(g, &g->source[i]);
             a++)
            if ((a == 3 || a < g->dim) && !fsi__source_fill(g, &g->source[i], a, 0, 0, NULL))
                return FSI_ERR_CALLBACK;
    for (int a = 0; a < g->dim && g->desc.force_fn; a++) {
        fsi__family_size(g, a, n);
        for (int z = 0; z < n[2]; z++)
            for (int y = 0; y < n[1]; y++)
                for (int x = 0; x < n[0]; x++)
                    if (!fsi__finite_vec(g->desc.force_fn(fsi_grid_face_centre(g, a, x, y, z),
                                                          g->time, g->desc.force_user)))
                        return FSI_ERR_CALLBACK;
    }
    for (int i = 0; g->desc.viscosity_cells && i < (int)g->cells; i++)
        if (!fsi__not_negative(g->desc.viscosity_cells[i]))
            return FSI_ERR_ARGUMENT;
    return FSI_OK;
}

static fsi_result fsi__apply_sources(fsi_grid *g) {
    fsi_result r = FSI_OK;
    for (int i = 0; i < g->source_count; i++) {
        const fsi_grid_source *s = &g->source[i];
        if (!fsi__source_active(g, s))
            continue;
        for (int a = 0; a < g->dim && (s->set & FSI_SOURCE_VELOCITY); a++)
            fsi__source_fill(g, s, a, fsi__get(s->velocity, a), 0, g->u[a]);
        if ((s->set & FSI_SOURCE_DENSITY) && g->density)
            fsi__source_fill(g, s, 3, s->density, 0, g->density);
        if ((s->set & FSI_SOURCE_TEMPERATURE) && g->temperature)
            fsi__source_fill(g, s, 3, s->temperature, 0, g->temperature);
        for (int a = 0; a < g->desc.scalars; a++)
            if (s->set & ((unsigned)FSI_SOURCE_SCALAR << a))
                fsi__source_fill(g, s, 3, s->scalar[a], 0, g->scalar[a]);
        fsi__source_shape_user shape;
        shape.source = s;
        shape.dim = g->dim;
        if (g->phi && (s->set & (FSI_SOURCE_LIQUID | FSI_SOURCE_DRAIN))) {
            fsi_levelset_walls w;
            int open[6];
            fsi__surface_walls(g, &w, open);
            r = fsi_levelset_shape(&g->levelset, fsi__source_shape, &shape,
                                   (s->set & FSI_SOURCE_LIQUID) != 0, &w);
        }
        if (r < 0)
            return r;
    }
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid forces */
/* Adds dt times an acceleration of the cells to the faces of axis a inside the box: the mean of the
 * two cells beside a face. f holds half of it. */
static void fsi__push_faces(fsi_grid *g, int a, fsi_real dt, const fsi_real *f) {
    const ptrdiff_t below = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
    const int first = a == 0, rows = (a == 1 ? g->ny - 1 : g->ny) * (a == 2 ? g->nz - 1 : g->nz),
              per = a == 1 ? g->ny - 1 : g->ny;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        const ptrdiff_t j = r % per + (a == 1), k = r / per + (a == 2);
        const fsi_real *hi = f + g->nx * (j + (ptrdiff_t)g->ny * k), *lo = hi - below;
        fsi_real *FSI__RESTRICT u =
            g->u[a] + (g->nx + (a == 0)) * (j + (ptrdiff_t)(g->ny + (a == 1)) * k);
        FSI__OMP(simd)
        for (int i = first; i < g->nx; i++)
            u[i] += dt * (lo[i] + hi[i]);
    }
}

/* Adds dt up (-alpha density + beta (T - T0)) to the faces of axis a inside the box: the mean of
 * the two cells beside a face. */
static void fsi__buoyancy(fsi_grid *g, int a, fsi_real dt) {
    const fsi_real scale = FSI_R(0.5) * dt * fsi__get(g->desc.up, a),
                   alpha = scale * g->desc.buoyancy_density,
                   beta = scale * g->desc.buoyancy_temperature, T0 = 2 * g->desc.ambient;
    const ptrdiff_t below = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
    const int first = a == 0, per = a == 1 ? g->ny - 1 : g->ny,
              rows = per * (a == 2 ? g->nz - 1 : g->nz);
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        const ptrdiff_t j = r % per + (a == 1), k = r / per + (a == 2),
                        at = g->nx * (j + (ptrdiff_t)g->ny * k);
        const fsi_real *s = g->density + at, *t = s - below, *S = g->temperature + at,
                       *T = S - below;
        fsi_real *FSI__RESTRICT u =
            g->u[a] + (g->nx + (a == 0)) * (j + (ptrdiff_t)(g->ny + (a == 1)) * k);
        FSI__OMP(simd)
        for (int i = first; i < g->nx; i++)
            u[i] += beta * (S[i] + T[i] - T0) - alpha * (s[i] + t[i]);
    }
}

/* Vorticity at cell centres by central differences of the cell means (one-sided at the box), into
 * scratch[0..2]; |omega| into scratch[3]. */
/* d u_c / d x_a */
static fsi_real fsi__cell_difference(const fsi_grid *g, int c, int a, int i, int j, int k) {
    int lo[3], hi[3], n[3], m[3];
    const fsi_real *u = g->u[c];
    fsi__family_size(g, c, n);
    fsi__family_size(g, 3, m);
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
           / ((fsi_real)(hi[a] - lo[a]) * g->h);
}

static void fsi__vorticity(fsi_grid *g) {
    ptrdiff_t rows = (ptrdiff_t)g->ny * g->nz;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % g->ny), k = (int)(r / g->ny);
        for (int i = 0; i < g->nx; i++) {
            size_t c = (size_t)r * (size_t)g->nx + (size_t)i;
            fsi_vec3 w = fsi_vec(0, 0,
                                 fsi__cell_difference(g, 1, 0, i, j, k)
                                     - fsi__cell_difference(g, 0, 1, i, j, k));
            if (g->dim == 3) {
                w.x =
                    fsi__cell_difference(g, 2, 1, i, j, k) - fsi__cell_difference(g, 1, 2, i, j, k);
                w.y =
                    fsi__cell_difference(g, 0, 2, i, j, k) - fsi__cell_difference(g, 2, 0, i, j, k);
            }
            g->scratch[0][c] = w.x;
            g->scratch[1][c] = w.y;
            g->scratch[2][c] = w.z;
            g->scratch[3][c] = fsi__length(w);
        }
    }
}

/* f = eps h (N x omega), N = grad |omega| / |grad |omega||, component a. */
static fsi_real fsi__confine(const fsi_grid *g, int a, int i, int j, int k) {
    const fsi_real *w = g->scratch[3];
    const size_t sy = (size_t)g->nx, sz = sy * (size_t)g->ny,
                 c = (size_t)i + sy * (size_t)j + sz * (size_t)k;
    fsi_vec3 N;
    N.x = w[i < g->nx - 1 ? c + 1 : c] - w[i > 0 ? c - 1 : c];
    N.y = w[j < g->ny - 1 ? c + sy : c] - w[j > 0 ? c - sy : c];
    N.z = w[k < g->nz - 1 ? c + sz : c] - w[k > 0 ? c - sz : c];
    return g->desc.confinement * g->h
           * fsi__get(fsi_vec_cross(fsi__unit(N),
                                    fsi_vec(g->scratch[0][c], g->scratch[1][c], g->scratch[2][c])),
                      a);
}

/* half of it, of all cells */
static void fsi__confinement(const fsi_grid *g, int a, fsi_real *f) {
    ptrdiff_t rows = (ptrdiff_t)g->ny * g->nz;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        for (int i = 0; i < g->nx; i++)
            f[r * g->nx + i] =
                FSI_R(0.5) * fsi__confine(g, a, i, (int)(r % g->ny), (int)(r / g->ny));
    }
}

static void fsi__user_force(fsi_grid *g, int a, fsi_real dt) {
    int n[3];
    fsi__family_size(g, a, n);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                fsi_real f = fsi__get(g->desc.force_fn(fsi_grid_face_centre(g, a, i, j, k), g->time,
                                                       g->desc.force_user),
                                      a);
                if (fsi__finite(f))
                    g->u[a][fsi__at(n, i, j, k)] += dt * f;
            }
}

static void fsi__decay(fsi_grid *g, fsi_real dt) {
    fsi_real keep = fsi__exp(-dt * g->desc.dissipation), warm = fsi__exp(-dt * g->desc.cooling);
    for (size_t i = 0; g->density && g->desc.dissipation > 0 && i < g->cells; i++)
        g->density[i] *= keep;
    for (size_t i = 0; g->temperature && g->desc.cooling > 0 && i < g->cells; i++)
        g->temperature[i] = g->desc.ambient + (g->temperature[i] - g->desc.ambient) * warm;
}

static void fsi__add_to_all(size_t n, fsi_real by, fsi_real *v) {
    FSI__OMP(parallel for schedule(static) if (n > 20000))
    for (ptrdiff_t f = 0; f < (ptrdiff_t)n; f++)
        v[f] += by;
}

FSI_API fsi_result fsi_grid_forces(fsi_grid *grid, fsi_real dt) {
    fsi_grid *g = grid;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    fsi_result r = fsi__check_callbacks(g);
    if (r < 0)
        return r;
    double t0 = fsi__now(g);
    /* of the velocity before any force */
    if (fsi__abs(g->desc.confinement) > 0)
        fsi__vorticity(g);
    if (g->density
        && (fsi__abs(g->desc.buoyancy_density) > 0 || fsi__abs(g->desc.buoyancy_temperature) > 0)) {
        for (int a = 0; a < g->dim; a++)
            if (fsi__abs(fsi__get(g->desc.up, a)) > 0)
                fsi__buoyancy(g, a, dt);
    }
    for (int a = 0; a < g->dim; a++) {
        fsi_real kick = dt * fsi__get(g->desc.gravity, a);
        if (fsi__abs(g->desc.confinement) > 0) {
            fsi__confinement(g, a, g->rhs);
            fsi__push_faces(g, a, dt, g->rhs);
        }
        if (g->desc.force_fn)
            fsi__user_force(g, a, dt);
        if (!(fsi__abs(kick) > 0))
            continue;
        fsi__add_to_all(g->faces[a], kick, g->u[a]);
        if (g->u_plus[a])
            fsi__add_to_all(g->faces[a], kick, g->u_plus[a]);
    }
    fsi__decay(g, dt);
    r = fsi__apply_sources(g);
    fsi__grid_walls(g, 0);
    g->stats.seconds_forces = fsi__now(g) - t0;
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid cells and air */
/* a face inside the box */
static int fsi__passes(const fsi_grid *g, int a, int i, int j, int k) {
    return !g->occluded || fsi__open(g, a, i, j, k) > 0;
}

static int fsi__new_air(const fsi_grid *g, size_t c) {
    return g->cell[c] == FSI_CELL_DIRICHLET && g->region[c] < 0;
}

/* The run lo .. hi of air around cell i of row (j,k), numbered. */
static void fsi__flood_run(fsi_grid *g, int i, int j, int k, int number, int *lo, int *hi) {
    const size_t row = (size_t)g->nx * ((size_t)j + (size_t)g->ny * (size_t)k);
    for (*lo = i; *lo > 0 && fsi__new_air(g, row + (size_t)*lo - 1) && fsi__passes(g, 0, *lo, j, k);
         (*lo)--)
        g->region[row + (size_t)*lo - 1] = number;
    for (*hi = i; *hi + 1 < g->nx && fsi__new_air(g, row + (size_t)*hi + 1)
                  && fsi__passes(g, 0, *hi + 1, j, k);
         (*hi)++)
        g->region[row + (size_t)*hi + 1] = number;
}

/* Flood fill of one air region from cell start, run by run (the stencil array is the stack, every
   cell lies there once at most); passes faces that are not closed. Fills r. */
static void fsi__flood_air(fsi_grid *g, size_t start, int number, fsi_air_region *r) {
    const int n[3] = {g->nx, g->ny, g->nz};
    int32_t *stack = g->stencil;
    size_t top = 0;
    memset(r, 0, sizeof *r);
    stack[top++] = (int32_t)start;
    g->region[start] = number;
    while (top) {
        const int32_t c = stack[--top];
        const int j = c / n[0] % n[1], k = c / n[0] / n[1];
        int lo, hi;
        fsi__flood_run(g, c % n[0], j, k, number, &lo, &hi);
        r->cells += hi - lo + 1;
        if ((lo == 0 && fsi__open(g, 0, 0, j, k) > 0)
            || (hi == n[0] - 1 && fsi__open(g, 0, n[0], j, k) > 0))
            r->open = 1;
        for (int a = 1; a < g->dim; a++)
            for (int up = 0; up < 2; up++) {
                const int y = j + (a == 1 ? 2 * up - 1 : 0), z = k + (a == 2 ? 2 * up - 1 : 0),
                          fy = j + (a == 1 && up), fz = k + (a == 2 && up);
                /* the cell before this one is on the stack and its run will reach this one */
                int before = 0;
                if (y < 0 || y >= n[1] || z < 0 || z >= n[2]) {
                    for (int i = lo; i <= hi && !r->open && fsi__side_open(g, 2 * a + up); i++)
                        r->open = fsi__open(g, a, i, fy, fz) > 0;
                    continue;
                }
                for (int i = lo; i <= hi; i++) {
                    const size_t other = fsi__at(n, i, y, z);
                    const int found = fsi__new_air(g, other) && fsi__passes(g, a, i, fy, fz);
                    if (found && !(before && fsi__passes(g, 0, i, y, z))) {
                        g->region[other] = number;
                        stack[top++] = (int32_t)other;
                    }
                    before = found;
                }
            }
    }
}

/* Of the first neighbour that has one in an earlier layer, one layer on; 0 without. */
static int32_t fsi__air_beside(const fsi_grid *g, const int32_t *near, int i, int j, int k,
                               int layer) {
    const int n[3] = {g->nx, g->ny, g->nz}, at[3] = {i, j, k}, codes = g->desc.max_regions + 1;
    const ptrdiff_t step[3] = {1, g->nx, (ptrdiff_t)g->nx * g->ny},
                    c = i + n[0] * (j + (ptrdiff_t)n[1] * k);
    for (int a = 0; a < g->dim; a++)
        for (int up = 0; up < 2; up++) {
            if (up ? at[a] + 1 >= n[a] : at[a] < 1)
                continue;
            int32_t next = near[c + (up ? step[a] : -step[a])];
            if (next > 0 && next < layer * codes
                && fsi__passes(g, a, i + (up && a == 0), j + (up && a == 1), k + (up && a == 2)))
                return next % codes + layer * codes;
        }
    return 0;
}

FSI_API void fsi_grid_air_near(const fsi_grid *grid, int32_t *near) {
    enum {
        LAYERS = 4
    };

    const fsi_grid *g = grid;
    const fsi_real deep = -(LAYERS + 1) * g->h;
    size_t c;
    for (c = 0; c < g->cells; c++)
        near[c] = g->region[c] >= 0                                   ? g->region[c] + 1
                  : g->cell[c] == FSI_CELL_FLUID && g->phi[c] >= deep ? 0
                                                                      : -1;
    int k;
    for (int layer = 1; layer <= LAYERS; layer++)
        for (k = 0, c = 0; k < g->nz; k++)
            for (int j = 0; j < g->ny; j++)
                for (int i = 0; i < g->nx; i++, c++)
                    if (near[c] == 0)
                        near[c] = fsi__air_beside(g, near, i, j, k, layer);
    for (c = 0; c < g->cells; c++)
        near[c] = near[c] > 0 ? near[c] % (g->desc.max_regions + 1) : 0;
}

/* The air share of a liquid cell belongs to the air cells beside it, each in proportion to its phi:
   a film thinner than a cell has air on both sides, and no volume jumps when a cell changes sides.
   Nothing beside it: to the region near it, for the same reason. */
static void fsi__air_share(fsi_grid *g, const int32_t *near, int i, int j, int k, double share) {
    const int n[3] = {g->nx, g->ny, g->nz}, at[3] = {i, j, k};
    const ptrdiff_t step[3] = {1, g->nx, (ptrdiff_t)g->nx * g->ny},
                    c = i + n[0] * (j + (ptrdiff_t)n[1] * k);
    double w[6] = {0}, sum = 0;
    for (int q = 0; q < 2 * g->dim; q++) {
        const int a = q / 2, up = q % 2;
        const ptrdiff_t b = c + (up ? step[a] : -step[a]);
        if ((up ? at[a] + 1 >= n[a] : at[a] < 1) || near[b] <= 0 || !(g->phi[b] > 0)
            || !fsi__passes(g, a, i + (up && a == 0), j + (up && a == 1), k + (up && a == 2)))
            continue;
        sum += w[q] = (double)g->phi[b];
    }
    for (int q = 0; q < 2 * g->dim; q++)
        if (w[q] > 0)
            g->regions[near[c + (q % 2 ? step[q / 2] : -step[q / 2])] - 1].volume +=
                share * w[q] / sum;
    if (!(sum > 0) && near[c] > 0)
        g->regions[near[c] - 1].volume += share;
}

FSI_API void fsi_grid_air_volumes(fsi_grid *grid, const int32_t *near) {
    fsi_grid *g = grid;
    const double cell =
        g->dim == 2 ? (double)g->h * (double)g->h : (double)g->h * (double)g->h * (double)g->h;
    const fsi_real *liquid = g->scratch[0];
    g->stats.liquid_volume =
        fsi_levelset_volume(&g->levelset, g->occluded ? g->occlusion.solid : NULL, g->scratch[0]);
    for (int r = 0; r < g->region_count; r++)
        g->regions[r].volume = 0;
    size_t c;
    int k;
    for (k = 0, c = 0; k < g->nz; k++)
        for (int j = 0; j < g->ny; j++)
            for (int i = 0; i < g->nx; i++, c++) {
                if (!(liquid[c] < 1) || g->cell[c] == FSI_CELL_NEUMANN)
                    continue;
                if (g->phi[c] < 0)
                    fsi__air_share(g, near, i, j, k, cell * (1 - (double)liquid[c]));
                else if (near[c] > 0)
                    g->regions[near[c] - 1].volume += cell * (1 - (double)liquid[c]);
            }
}

FSI_API fsi_result fsi_grid_classify(fsi_grid *grid) {
    fsi_grid *g = grid;
    fsi_result result = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t c = 0; c < (ptrdiff_t)g->cells; c++) {
        int solid = g->occluded && g->occlusion.solid && g->occlusion.solid[c];
        g->cell[c] = (uint8_t)(solid                        ? FSI_CELL_NEUMANN
                               : g->phi && !(g->phi[c] < 0) ? FSI_CELL_DIRICHLET
                                                            : FSI_CELL_FLUID);
        if (g->region)
            g->region[c] = -1;
    }
    if (!g->phi)
        return FSI_OK;
    g->region_count = 0;
    for (ptrdiff_t c = 0; c < (ptrdiff_t)g->cells; c++) {
        int number = fsi__imin(g->region_count, g->desc.max_regions - 1);
        if (g->cell[c] != FSI_CELL_DIRICHLET || g->region[c] >= 0)
            continue;
        fsi_air_region r;
        fsi__flood_air(g, (size_t)c, number, &r);
        if (g->region_count < g->desc.max_regions) {
            g->regions[number] = r;
            g->region_count++;
        }
        /* the last one collects the rest */
        else {
            g->regions[number].open = 1;
            g->regions[number].cells += r.cells;
            result = FSI_CAPPED;
        }
    }
    fsi_grid_air_near(g, g->stencil);
    fsi_grid_air_volumes(g, g->stencil);
    return result;
}

/* ------------------------------------------------------------------------------------------------
   >>grid pressure A p^ = rhs with w = open / theta. Ghost fluid: the surface cuts the segment
   between a liquid and an air cell centre at the share theta = phi_l / (phi_l - phi_a) from the
   liquid one, where p = 0, so the gradient is (0 - p_l) / (theta h). */
static fsi_real fsi__ghost(const fsi_grid *g, size_t liquid, size_t air) {
    fsi_real a = g->phi[liquid], b = g->phi[air];
    return fsi__max(a / (a - b), g->desc.theta_min); /* a < 0 <= b */
}

/* Weight of the face between cells lo and hi (cells, -1 = outside), open fraction given. */
static fsi_real fsi__face_weight(const fsi_grid *g, ptrdiff_t lo, ptrdiff_t hi, fsi_real open) {
    if (!(open > 0))
        return 0;
    int a = lo < 0 ? (int)FSI_CELL_DIRICHLET : g->cell[lo];
    int b = hi < 0 ? (int)FSI_CELL_DIRICHLET : g->cell[hi];
    if (a == FSI_CELL_NEUMANN || b == FSI_CELL_NEUMANN)
        return 0;
    if (!g->phi || a == b || lo < 0 || hi < 0)
        return open;
    return open
           / (a == FSI_CELL_FLUID ? fsi__ghost(g, (size_t)lo, (size_t)hi)
                                  : fsi__ghost(g, (size_t)hi, (size_t)lo));
}

static void fsi__build_weights(fsi_grid *g, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
    fsi__family_size(g, a, n);
    fsi__family_size(g, 3, m);
    ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % n[1]), k = (int)(r / n[1]), across = a == 1 ? j : k,
            plain = !g->phi && !g->occluded && (a == 0 || (across > 0 && across < m[a]));
        for (int i = 0; plain && i < n[0]; i++)
            g->weight[a][r * n[0] + i] = 1;
        for (int i = 0; i < n[0]; i += plain ? n[0] - 1 : 1) {
            int at = a == 0 ? i : across;
            ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k);
            g->weight[a][r * n[0] + i] =
                fsi__face_weight(g, at > 0 ? hi - step : -1, at < m[a] ? hi : -1,
                                 fsi__open_at(g, a, at, m[a], r * n[0] + i, hi, step));
        }
    }
}

/* Flow out of cell (i,j,k), sum of (open u + closed u_solid) over its faces, m/s. */
static fsi_real fsi__outflow(const fsi_grid *g, int i, int j, int k) {
    const ptrdiff_t nx = g->nx, ny = g->ny, c = i + nx * (j + ny * k);
    fsi_real sum = 0;
    for (int a = 0; a < g->dim; a++) {
        const ptrdiff_t w = nx + (a == 0), height = ny + (a == 1),
                        step = a == 0   ? 1
                               : a == 1 ? nx
                                        : nx * ny;
        const int last = a == 0 ? g->nx : a == 1 ? g->ny : g->nz, at = a == 0 ? i : a == 1 ? j : k;
        for (int up = 0; up < 2; up++) {
            /* the cell's own sample */
            const fsi_real *u = up || !g->u_plus[a] ? g->u[a] : g->u_plus[a];
            const ptrdiff_t f = i + w * (j + height * k)
                                + (up ? (a == 0   ? 1
                                         : a == 1 ? w
                                                  : w * height)
                                      : 0);
            fsi_real v = u[f];
            if (at + up > 0 && at + up < last) {
                const fsi_real open =
                    fsi__open_at(g, a, at + up, last, f, c + (up ? step : 0), step);
                v = open * v
                    + (1 - open) * (g->occlusion.velocity[a] ? g->occlusion.velocity[a][f] : 0);
            }
            sum += up ? v : -v;
        }
    }
    return sum;
}

static void fsi__add_divergence_sources(const fsi_grid *g, fsi_real *out, fsi_real scale) {
    for (int s = 0; s < g->source_count; s++)
        if ((g->source[s].set & FSI_SOURCE_DIVERGENCE) && fsi__source_active(g, &g->source[s]))
            fsi__source_fill(g, &g->source[s], 3, scale * g->source[s].divergence, 1, out);
}

/* out = scale * outflow of every fluid cell, 0 elsewhere. */
static void fsi__all_outflow(const fsi_grid *g, fsi_real scale, fsi_real *out) {
    ptrdiff_t rows = (ptrdiff_t)g->ny * g->nz;
    const size_t nx = (size_t)g->nx, sy = nx, sz = nx * ((size_t)g->ny + 1),
                 sz2 = nx * (size_t)g->ny;
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % g->ny), k = (int)(r / g->ny);
        const uint8_t *cell = g->cell + (size_t)r * nx;
        fsi_real *o = out + (size_t)r * nx;
        if (g->occluded) {
            for (int i = 0; i < g->nx; i++)
                o[i] = cell[i] == FSI_CELL_FLUID ? scale * fsi__outflow(g, i, j, k) : 0;
        } else {
            const fsi_real *u = g->u[0] + (size_t)r * (nx + 1),
                           *v = g->u[1] + sy * (size_t)j + sz * (size_t)k;
            for (int i = 0; i < g->nx; i++)
                o[i] = (u[i + 1] - u[i]) + (v[(size_t)i + sy] - v[i]);
            if (g->dim == 3) {
                const fsi_real *w = g->u[2] + (size_t)r * nx;
                for (int i = 0; i < g->nx; i++)
                    o[i] += w[(size_t)i + sz2] - w[i];
            }
            for (int i = 0; i < g->nx; i++)
                o[i] = cell[i] == FSI_CELL_FLUID ? scale * o[i] : 0;
        }
    }
}

FSI_API fsi_result fsi_grid_build_pressure(fsi_grid *grid, fsi_real dt) {
    fsi_grid *g = grid;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    double t0 = fsi__now(g);
    fsi__grid_walls(g, 1);
    if (!g->weights_are_one)
        for (int a = 0; a < g->dim; a++)
            fsi__build_weights(g, a);
    g->weights_are_one = !g->phi && !g->occluded;
    fsi_real scale = -g->desc.rho * g->h;
    g->noise = (4 + fsi__imax(g->nx, fsi__imax(g->ny, g->nz))) * (double)FSI_REAL_EPS
               * (double)(-scale * fsi__max_speed(g, NULL)) * sqrt((double)g->cells);
    fsi__all_outflow(g, scale, g->rhs);
    fsi__add_divergence_sources(g, g->rhs, -scale * g->h);
    g->stats.seconds_project = fsi__now(g) - t0;
    return FSI_OK;
}

FSI_API fsi_result fsi_grid_solve_pressure(fsi_grid *grid, fsi_report *report) {
    fsi_grid *g = grid;
    fsi_result r = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    double t0 = fsi__now(g);
    if (!g->weights_are_one || !g->mg_plain) {
        const fsi_real *w[3];
        w[0] = g->weight[0];
        w[1] = g->weight[1];
        w[2] = g->weight[2];
        r = g->weights_are_one ? fsi_mg_update(g->mg, NULL, NULL)
                               : fsi_mg_update(g->mg, g->cell, w);
        if (r < 0)
            return r;
        g->mg_plain = g->weights_are_one;
    }
    fsi_mg_solve_desc d;
    memset(&d, 0, sizeof d);
    d.tolerance = g->desc.tolerance;
    d.tolerance_abs = g->noise;
    d.max_iterations = g->desc.max_iterations;
    d.guess = 1;
    r = fsi_mg_solve(g->mg, &d, g->rhs, g->pressure, report);
    if (r == FSI_EMPTY)
        r = FSI_OK; /* no liquid yet */
    g->stats.seconds_project += fsi__now(g) - t0;
    return r;
}

FSI_API fsi_result fsi_grid_apply_pressure(fsi_grid *grid) {
    fsi_grid *g = grid;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    double t0 = fsi__now(g);
    fsi_real scale = 1 / (g->desc.rho * g->h);
    for (int a = 0; a < g->dim; a++) {
        int n[3], m[3];
        const ptrdiff_t step = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
        const int plain = g->weights_are_one;
        fsi__family_size(g, a, n);
        fsi__family_size(g, 3, m);
        ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
        FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
        for (ptrdiff_t r = 0; r < rows; r++) {
            int j = (int)(r % n[1]), k = (int)(r / n[1]);
            for (int i = 0; i < n[0]; i++) {
                const int at = a == 0 ? i : a == 1 ? j : k;
                const ptrdiff_t f = r * n[0] + i,
                                hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                                lo = hi - step;
                fsi_real w = g->weight[a][f],
                         jump = (at < m[a] ? g->pressure[hi] : 0) - (at > 0 ? g->pressure[lo] : 0);
                if (!(w > 0))
                    continue;
                if (!plain && (at == m[a] || g->cell[hi] != FSI_CELL_FLUID)
                    && (at == 0 || g->cell[lo] != FSI_CELL_FLUID))
                    continue;
                if (g->occluded)
                    w /= fsi__open_at(g, a, at, m[a], f, hi, step);
                g->u[a][f] -= w * scale * jump; /* u -= dt/rho grad p */
                if (g->u_plus[a])
                    g->u_plus[a][f] = g->u[a][f];
            }
        }
    }
    fsi__grid_walls(g, 1);
    g->stats.seconds_project += fsi__now(g) - t0;
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
    const fsi__energy *e = (const fsi__energy *)user;
    const fsi_grid *g = e->g;
    const int a = e->a;
    const fsi_real *plus = g->u_plus[a] ? g->u_plus[a] : g->u[a];
    double sum = 0;
    int n[3], i = (int)(begin % (size_t)g->nx), j = (int)(begin / (size_t)g->nx % (size_t)g->ny),
              k = (int)(begin / (size_t)g->nx / (size_t)g->ny);
    fsi__family_size(g, a, n);
    size_t step = a == 0 ? 1 : a == 1 ? (size_t)n[0] : (size_t)n[0] * (size_t)n[1];
    for (size_t c = begin; c < end; c++) {
        size_t lo = fsi__at(n, i, j, k);
        double x = (double)plus[lo], y = (double)g->u[a][lo + step];
        if (g->cell[c] == FSI_CELL_FLUID)
            sum += x * x + y * y;
        if (++i == g->nx) {
            i = 0;
            if (++j == g->ny) {
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
    fsi__energy e;
    e.g = grid;
    for (e.a = 0; e.a < grid->dim; e.a++)
        sum += fsi_reduce(grid->cells, fsi__energy_range, &e);
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

static void fsi__visc_marks(fsi_grid *g, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
    fsi__family_size(g, a, n);
    fsi__family_size(g, 3, m);
    for (int k = 0; k < n[2]; k++)
        for (int j = 0; j < n[1]; j++)
            for (int i = 0; i < n[0]; i++) {
                int at = a == 0 ? i : a == 1 ? j : k, mark = FSI__FREE;
                ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                          lo = hi - step;
                int cl = at > 0 ? g->cell[lo] : -1, ch = at < m[a] ? g->cell[hi] : -1;
                int fluid = cl == FSI_CELL_FLUID || ch == FSI_CELL_FLUID;
                int solid =
                    (cl < 0 || cl == FSI_CELL_NEUMANN) && (ch < 0 || ch == FSI_CELL_NEUMANN);
                if (!fluid)
                    mark = solid && g->desc.solid_noslip ? FSI__BURIED : FSI__NONE;
                else if (!(fsi__open(g, a, i, j, k) > 0))
                    mark = FSI__FIXED;
                g->mark[a][fsi__at(n, i, j, k)] = (uint8_t)mark;
            }
}

/* Viscosity between face (i,j,k) and its neighbour up/down along b. */
static fsi_real fsi__nu(const fsi__visc *v, int i, int j, int k, int b, int up) {
    const fsi_real *nu = v->g->desc.viscosity_cells;
    fsi_real sum = 0;
    int m[3];
    if (!nu)
        return v->g->desc.viscosity;
    fsi__family_size(v->g, 3, m);
    /* own axis: the cell between the faces; across: the four cells around the edge */
    for (int t = 0; t < 4; t++) {
        int c[3];
        c[0] = i;
        c[1] = j;
        c[2] = k;
        if (b == v->a)
            c[b] -= !up;
        else {
            c[v->a] -= t & 1;
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
static fsi_real fsi__visc_link(const fsi__visc *v, const fsi_real *u, int i, int j, int k, int b,
                               int up, ptrdiff_t *other, fsi_real *value) {
    const fsi_grid *g = v->g;
    int q[3];
    fsi_real nu = v->k * fsi__nu(v, i, j, k, b, up);
    q[0] = i;
    q[1] = j;
    q[2] = k;
    q[b] += up ? 1 : -1;
    *other = -1;
    *value = 0;
    if (q[b] < 0 || q[b] >= v->n[b]) { /* outside the box */
        const fsi_grid_side *s = &g->desc.side[2 * b + up];
        if (b == v->a || (s->kind != FSI_SIDE_NOSLIP && s->kind != FSI_SIDE_INFLOW))
            return 0;
        *value = fsi__get(s->velocity, v->a);
        return 2 * nu; /* the wall is half a cell away */
    }
    size_t at = fsi__at(v->n, q[0], q[1], q[2]);
    switch (v->mark[at]) {
    case FSI__FREE:
    case FSI__PLAIN:
        *other = (ptrdiff_t)at;
        return nu;
    case FSI__FIXED:
        if (b != v->a && !g->desc.solid_noslip && g->occluded)
            return 0;
        *value = u[at];
        if (g->occluded && q[v->a] > 0 && q[v->a] < v->n[v->a] - 1)
            *value = g->occlusion.velocity[v->a] ? g->occlusion.velocity[v->a][at] : 0;
        return nu;
    case FSI__BURIED:
        *value = g->occlusion.velocity[v->a] ? g->occlusion.velocity[v->a][at] : 0;
        return b == v->a ? nu : 2 * nu;
    default:
        return 0;
    }
}

/* y = A x over a row range; diag: y = 1 / diagonal of A instead (the preconditioner). */
static void fsi__visc_rows(const fsi__visc *v, const fsi_real *x, fsi_real *y, int diag) {
    const ptrdiff_t sy = v->n[0], sz = sy * v->n[1];
    const int dim = v->g->dim;
    const fsi_real kn = v->k * v->g->desc.viscosity;
    ptrdiff_t rows = (ptrdiff_t)v->n[1] * v->n[2];
    FSI__OMP(parallel for schedule(static) if (rows * sy > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % v->n[1]), k = (int)(r / v->n[1]);
        for (int i = 0; i < v->n[0]; i++) {
            const ptrdiff_t f = r * sy + i;
            fsi_real sum = 0, d = 1, value;
            ptrdiff_t other;
            if (v->mark[f] == FSI__PLAIN) {
                sum = x[f - 1] + x[f + 1] + x[f - sy] + x[f + sy]
                      + (dim == 3 ? x[f - sz] + x[f + sz] : 0);
                d = 1 + (fsi_real)(2 * dim) * kn;
                sum *= kn;
            } else if (v->mark[f] == FSI__FREE) {
                for (int b = 0; b < dim; b++)
                    for (int up = 0; up < 2; up++) {
                        fsi_real c =
                            fsi__visc_link(v, v->g->u[v->a], i, j, k, b, up, &other, &value);
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
static void fsi__visc_rhs(fsi__visc *v, uint8_t *mark, fsi_real *rhs) {
    const fsi_grid *g = v->g;
    const fsi_real *u = g->u[v->a];
    for (int k = 0; k < v->n[2]; k++)
        for (int j = 0; j < v->n[1]; j++)
            for (int i = 0; i < v->n[0]; i++) {
                size_t f = fsi__at(v->n, i, j, k);
                int plain = !g->desc.viscosity_cells;
                rhs[f] = u[f];
                for (int b = 0; b < g->dim && mark[f] == FSI__FREE; b++)
                    for (int up = 0; up < 2; up++) {
                        ptrdiff_t other;
                        fsi_real value, c = fsi__visc_link(v, u, i, j, k, b, up, &other, &value);
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
    fsi_grid *g = grid;
    fsi_krylov_desc d;
    fsi_result r = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    if (!(g->desc.viscosity > 0) && !g->desc.viscosity_cells)
        return FSI_OK;
    fsi__grid_walls(g, 0);
    g->weights_are_one = 0; /* the weights' room is lent to the solver */
    fsi__visc v;
    for (v.a = 0; v.a < g->dim; v.a++) {
        fsi__visc_marks(g, v.a);
        v.g = g;
        v.k = dt / (g->h * g->h);
        v.mark = g->mark[v.a];
        fsi__family_size(g, v.a, v.n);
        fsi__visc_rhs(&v, g->mark[v.a], g->rhs);
        memset(&d, 0, sizeof d);
        d.n = g->faces[v.a];
        d.A.apply_fn = fsi__visc_apply;
        d.A.user = &v;
        d.precondition.apply_fn = fsi__visc_jacobi;
        d.precondition.user = &v;
        d.tolerance = (double)fsi__max((fsi_real)(0.01 * g->desc.tolerance), 20 * FSI_REAL_EPS);
        d.max_iterations = 1000;
        d.guess = 1;
        d.allocator = g->desc.allocator;
        size_t room = (size_t)(g->scratch[3] - g->weight[0] + (g->scratch[1] - g->scratch[0]))
                      * sizeof(fsi_real);
        size_t need = fsi_cg_work_size(&d);
        fsi_result q = fsi_cg_solve(&d, g->rhs, g->u[v.a], need <= room ? g->weight[0] : NULL,
                                    need <= room ? room : 0, report);
        if (q < 0)
            return q;
        if (q > 0 && r == FSI_OK)
            r = q;
    }
    fsi__grid_walls(g, 0);
    return r;
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
static void fsi__velocity_marks(fsi_grid *g, int a) {
    int n[3], m[3];
    const ptrdiff_t step = a == 0 ? 1 : a == 1 ? g->nx : (ptrdiff_t)g->nx * g->ny;
    fsi__family_size(g, a, n);
    fsi__family_size(g, 3, m);
    ptrdiff_t rows = (ptrdiff_t)n[1] * n[2];
    FSI__OMP(parallel for schedule(static) if (g->cells > 20000))
    for (ptrdiff_t r = 0; r < rows; r++) {
        int j = (int)(r % n[1]), k = (int)(r / n[1]);
        for (int i = 0; i < n[0]; i++) {
            const int at = a == 0 ? i : a == 1 ? j : k;
            const ptrdiff_t hi = (ptrdiff_t)i + m[0] * ((ptrdiff_t)j + (ptrdiff_t)m[1] * k),
                            lo = hi - step;
            int fluid = (at > 0 && g->cell[lo] == FSI_CELL_FLUID)
                        || (at < m[a] && g->cell[hi] == FSI_CELL_FLUID);
            int wall = at == 0 || at == m[a] ? !fsi__side_open(g, 2 * a + (at > 0))
                                             : fluid && !(g->weight[a][r * n[0] + i] > 0);
            g->mark[a][r * n[0] + i] = (uint8_t)(wall && g->phi ? 2 : fluid || wall);
        }
    }
}

FSI_API fsi_result fsi_grid_extrapolate(fsi_grid *grid) {
    fsi_grid *g = grid;
    const uint8_t *valid[3];
    int n[3];
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!g->phi && !(g->occluded && g->occlusion.solid))
        return FSI_OK;
    for (int a = 0; a < 3; a++)
        valid[a] = g->mark[a];
    for (int a = 0; a < g->dim; a++) {
        fsi__velocity_marks(g, a);
        fsi__family_size(g, a, n);
        if (!g->phi)
            fsi__spread(n, g->dim, g->u[a], g->mark[a], g->desc.extrapolate);
    }
    if (g->phi) {
        fsi_real *u[3];
        u[0] = g->u[0];
        u[1] = g->u[1];
        u[2] = g->u[2];
        fsi_levelset_extrapolate(&g->levelset, u, valid, g->desc.extrapolate);
    }
    fsi__family_size(g, 3, n);
    /* cells a solid uncovers start with sane values */
    for (int q = 0; q < 2 + g->desc.scalars && g->occluded && g->occlusion.solid; q++) {
        fsi_real *s = fsi__scalar(g, q, NULL);
        if (!s)
            continue;
        for (size_t c = 0; c < g->cells; c++)
            g->mark[0][c] = !g->occlusion.solid[c];
        fsi__spread(n, g->dim, s, g->mark[0], 3);
    }
    for (int a = 0; a < g->dim && g->u_plus[a]; a++)
        fsi__plus_equal(g, a, NULL);
    return FSI_OK;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid surface */
static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report);

FSI_API fsi_result fsi_grid_move_surface(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_grid *g = grid;
    fsi_result r = FSI_OK;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    if (g->phi) {
        fsi_levelset_report lr;
        const fsi_real *u[3];
        int open[6];
        memset(&lr, 0, sizeof lr);
        fsi_levelset_walls w;
        fsi__surface_walls(g, &w, open);
        if (g->occluded) {
            fsi__mark_near(g, dt, 0);
            w.near_cell = g->near_cell;
        }
        u[0] = g->u[0];
        u[1] = g->u[1];
        u[2] = g->u[2];
        g->levelset.desc.settle = fsi_vec_dot(g->desc.gravity, g->desc.gravity) > 0;
        r = fsi_levelset_advance(&g->levelset, u, dt, &w, &lr);
        if (r < 0)
            return r;
        if (g->desc.volume_correction)
            fsi__ls_correct_from(&g->levelset, w.solid, FSI_R(0.1), lr.volume, &lr);
        g->stats.liquid_volume = lr.volume;
        if (report) {
            report->volume = lr.volume;
            report->volume_change = lr.volume_change;
        }
    }
    g->time += (double)dt;
    g->steps++;
    return r;
}

/* ------------------------------------------------------------------------------------------------
 * >>grid step */
static fsi_result fsi__worse(fsi_result a, fsi_result b) {
    return a < 0 ? a : b < 0 ? b : a > 0 ? a : b;
}

FSI_API fsi_result fsi_grid_step(fsi_grid *grid, fsi_real dt, fsi_report *report) {
    fsi_grid *g = grid;
    fsi_report local, *rep = report ? report : &local;
    if (!g || !g->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt))
        return FSI_ERR_ARGUMENT;
    memset(rep, 0, sizeof *rep);
    fsi_result r = fsi__check_callbacks(g); /* refuse before anything changed */
    if (r < 0)
        return r;
    r = fsi_grid_advect(g, dt); /* u, scalars -> transported by u */
    if (r < 0)
        return r;
    fsi_result worst = r = fsi_grid_forces(g, dt); /* u* */
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_classify(g));
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_viscosity(g, dt, NULL));
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_build_pressure(g, dt));
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_solve_pressure(g, rep));
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_apply_pressure(g));
    if (r >= 0 && report) {
        report->divergence = fsi_grid_max_divergence(g);
        g->stats.kinetic_energy = fsi_grid_kinetic_energy(g);
    }
    if (r >= 0)
        worst = fsi__worse(worst, r = fsi_grid_extrapolate(g));
    if (r >= 0)
        worst = fsi__worse(worst, fsi_grid_move_surface(g, dt, rep));
    if (worst == FSI_OK && g->stats.cfl > (double)g->desc.cfl)
        worst = FSI_DT_TOO_LARGE;
    rep->reason = worst;
    if (worst != FSI_OK)
        fsi_log(&g->desc.logger, worst < 0 ? 2 : 1, fsi_result_text(worst));
    return worst;
}

FSI_API fsi_result fsi_grid_advance(fsi_grid *grid, fsi_real dt, int max_steps, int *steps,
                                    fsi_report *report) {
    fsi_report local, *rep = report ? report : &local;
    fsi_result r = FSI_OK, worst = FSI_OK;
    fsi_real left = dt;
    int n = 0, iterations = 0;
    if (!grid || !grid->block)
        return FSI_ERR_STATE;
    if (!fsi__dt_valid(dt) || max_steps < 0)
        return FSI_ERR_ARGUMENT;
    if (max_steps == 0)
        max_steps = 1000;
    while (left > 0 && r >= 0) {
        fsi_real part = fsi_grid_max_dt(grid);
        if (!(part > 0))
            return FSI_ERR_NUMERIC;
        /* equal parts rather than a crumb at the end */
        fsi_real pieces = fsi__ceil(left / part);
        part = n + 1 >= max_steps || pieces <= 1 ? left : left / pieces;
        if (n + 1 >= max_steps && pieces > 1)
            worst = fsi__worse(worst, FSI_CAPPED);
        r = fsi_grid_step(grid, part, rep);
        worst = fsi__worse(worst, r);
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
        fsi_levelset_walls w;
        int open[6];
        fsi__surface_walls(grid, &w, open);
        fsi_result r = fsi_levelset_reset(&grid->levelset, &w);
        return r < 0 ? r : fsi__worse(r, fsi_grid_classify(grid));
    }
    return FSI_OK;
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
    fsi_result r = FSI_OK;
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
        r = fsi_levelset_restore(&grid->levelset, in + 64 + grid->state_bytes);
    if (r < 0)
        return r;
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
    fsi__ls_axis a;
    int b = fsi__iclamp((int)g, 0, fsi__imax(n - 2, 0)); /* g > -1 */
    fsi_real t = n > 1 ? g - (fsi_real)b : 0, s = 1 - t;
    for (int m = 0; m < 4; m++)
        a.i[m] = fsi__iclamp(b - 1 + m, 0, n - 1);
    if (b > 0 && b < n - 2) {
        a.w[0] = -t * s * s / 2;
        a.w[3] = -s * t * t / 2;
        a.w[1] = s * (1 + t - FSI_R(1.5) * t * t);
        a.w[2] = t * (1 + s - FSI_R(1.5) * s * s);
        a.d[0] = -s * (s - 2 * t) / 2;
        a.d[3] = t * (t - 2 * s) / 2;
        a.d[1] = t * (FSI_R(4.5) * t - 5);
        a.d[2] = -s * (FSI_R(4.5) * s - 5);
    } else {
        a.w[0] = a.w[3] = a.d[0] = a.d[3] = 0;
        a.w[1] = s;
        a.w[2] = n > 1 ? t : 0;
        a.d[1] = n > 1 ? FSI_R(-1.0) : 0;
        a.d[2] = n > 1 ? FSI_R(1.0) : 0;
    }
    return a;
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
    const fsi_levelset_desc *d = &ls->desc;
    fsi_real s = 1 / d->h, half = FSI_R(0.5);
    return fsi_vec(
        fsi__clamp((x.x - d->origin.x) * s - half, -half, (fsi_real)d->nx - half),
        fsi__clamp((x.y - d->origin.y) * s - half, -half, (fsi_real)d->ny - half),
        d->nz > 1 ? fsi__clamp((x.z - d->origin.z) * s - half, -half, (fsi_real)d->nz - half) : 0);
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
FSI__FLAT fsi_vec3 fsi__ls_velocity(const fsi__mac *m, fsi_vec3 g) {
    const fsi_real half = FSI_R(0.5);
    fsi_vec3 v;
    if (m->three)
        fsi__mac_at(m, 1, g.x + half, g.y + half, g.z + half, &v.x, &v.y, &v.z);
    else
        fsi__mac_at(m, 0, g.x + half, g.y + half, half, &v.x, &v.y, &v.z);
    return v;
}

static fsi__mac fsi__ls_mac(const fsi_levelset *ls, const fsi_real *const u[3]) {
    fsi__mac m;
    m.u[0] = u[0];
    m.u[1] = u[1];
    m.u[2] = u[2];
    m.n[0] = ls->desc.nx;
    m.n[1] = ls->desc.ny;
    m.n[2] = ls->desc.nz;
    m.three = ls->desc.nz > 1;
    return m;
}

/* At the centre of cell (i,j,k): the means of its faces. */
FSI__FLAT fsi_vec3 fsi__ls_centre_velocity(const fsi__mac *m, ptrdiff_t i, ptrdiff_t j,
                                           ptrdiff_t k) {
    const ptrdiff_t nx = m->n[0], ny = m->n[1];
    const fsi_real *u = m->u[0] + i + (nx + 1) * (j + ny * k),
                   *v = m->u[1] + i + nx * (j + (ny + 1) * k),
                   *w = m->three ? m->u[2] + i + nx * (j + ny * k) : NULL;
    return fsi_vec(FSI_R(0.5) * (u[0] + u[1]), FSI_R(0.5) * (v[0] + v[nx]),
                   w ? FSI_R(0.5) * (w[0] + w[nx * ny]) : 0);
}

/* Where lattice point g with velocity v comes to in dt / h (negative: comes from): the midpoint
 * rule. */
FSI__FLAT fsi_vec3 fsi__ls_trace(const fsi__mac *m, fsi_vec3 g, fsi_vec3 v, fsi_real dth) {
    return fsi_vec_mad(g, fsi__ls_velocity(m, fsi_vec_mad(g, v, dth / 2)), dth);
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
    fsi_real p[3], from[3], lo = FSI_R(-0.5), far = FSI_R(-1e6);
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
            far = fsi__max(far, lo - p[m]);
        if (walls && walls->open && p[m] > from[m] && walls->open[2 * m + 1])
            far = fsi__max(far, p[m] - hi);
        p[m] = fsi__clamp(p[m], lo, hi);
    }
    *out = far;
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
    fsi_levelset_desc *d = &ls->desc;
    *d = *desc;
    if (d->nx < 2 || d->ny < 2 || d->nz < 1 || !fsi__finite(d->h) || !(d->h > 0)
        || !fsi__finite_vec(d->origin))
        return FSI_ERR_ARGUMENT;
    if (d->particles < -1 || d->particles > 8 || d->reseed < -1 || d->redistance < -1 || d->band < 0
        || !fsi_allocator_valid(&d->allocator))
        return FSI_ERR_ARGUMENT;
    size_t n;
    if (!fsi_size_mul((size_t)d->nx + 1, (size_t)d->ny + 1, &n)
        || !fsi_size_mul(n, (size_t)d->nz + 1, &n) || n > 0x7fffffffu)
        return FSI_ERR_SIZE;
    ls->cells = (size_t)d->nx * (size_t)d->ny * (size_t)d->nz;
    if (!d->particles)
        d->particles = d->nz > 1 ? 3 : 4;
    if (!d->reseed)
        d->reseed = 20;
    if (!d->redistance)
        d->redistance = 5;
    d->band = d->band ? fsi__imax(d->band, 5) : 8;
    size_t full = d->particles < 0
                      ? 0
                      : (size_t)(d->particles * d->particles * (d->nz > 1 ? d->particles : 1));
    if (d->particles < 0)
        d->particle_room = 0;
    else if (!d->particle_room)
        d->particle_room = full
                           * (ls->cells < 32768 ? ls->cells
                              : d->nz > 1       ? ls->cells / 8 + 28672
                                                : ls->cells / 2 + 16384);
    if (d->particle_room > 0x7fffffffu)
        return FSI_ERR_SIZE;
    ls->room = d->particle_room;
    return FSI_OK;
}

FSI_API fsi_result fsi_levelset_init(fsi_levelset *ls, const fsi_levelset_desc *desc) {
    if (!ls || !desc)
        return FSI_ERR_ARGUMENT;
    fsi_levelset fresh;
    memset(&fresh, 0, sizeof fresh);
    fsi_arena arena;
    memset(&arena, 0, sizeof arena);
    fsi_result r = fsi__ls_resolve(&fresh, desc);
    if (r != FSI_OK)
        return r;
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
    fsi__ls_faces f;
    f.n[0] = ls->desc.nx;
    f.n[1] = ls->desc.ny;
    f.n[2] = ls->desc.nz;
    f.cell[0] = 1;
    f.cell[1] = f.n[0];
    f.cell[2] = f.n[0] * f.n[1];
    f.n[axis]++;
    f.step[0] = 1;
    f.step[1] = f.n[0];
    f.step[2] = f.n[0] * f.n[1];
    f.count = f.step[2] * f.n[2];
    f.axis = axis;
    f.dim = ls->desc.nz > 1 ? 3 : 2;
    return f;
}

/* Twice the mean of phi over the two cells of the face `place` along its axis, below cell c (one
 * cell at the border). */
FSI__INLINE fsi_real fsi__ls_face_phi(const fsi_real *phi, const fsi__ls_faces *f, ptrdiff_t c,
                                      ptrdiff_t place) {
    const ptrdiff_t step = f->cell[f->axis];
    return phi[place > 0 ? c - step : c] + phi[place + 1 < f->n[f->axis] ? c : c - step];
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
static int fsi__ls_extend(const fsi_levelset *ls, const fsi__ls_faces *f, const fsi_real *u,
                          ptrdiff_t at, int force, fsi_real *out) {
    const fsi_real h = ls->desc.h;
    fsi_real wsum = 0, sum = 0, mean = 0;
    ptrdiff_t place[3];
    int count = 0, wait = 0;
    place[0] = at % f->n[0];
    place[1] = at / f->n[0] % f->n[1];
    place[2] = at / f->step[2];
    ptrdiff_t c = place[0] + f->cell[1] * place[1] + f->cell[2] * place[2];
    fsi_real here = fsi__ls_face_phi(ls->phi, f, c, place[f->axis]) / 2;
    for (int m = 0; m < f->dim; m++) {
        /* smaller drops count as level */
        fsi_real best = FSI_R(1e-3) * h, v = 0, w = 0;
        int known = 1;
        for (int s = 0; s < 2; s++) {
            const ptrdiff_t i = place[m], step = s ? f->step[m] : -f->step[m], o = at + step,
                            turn = s ? 1 : -1;
            fsi_real from = 0;
            if ((s ? i + 1 >= f->n[m] : i < 1) || ls->mark[o] == 2)
                continue;
            int is = ls->mark[o] == 1;
            if (is) {
                mean += u[o];
                count++;
                from = fsi__ls_handed(ls, u, o, step,
                                      here < 2 * h ? (s ? f->n[m] - 2 - i : i - 1) : 0);
            } else if (force)
                continue;
            fsi_real drop = here
                            - fsi__ls_face_phi(ls->phi, f, c + turn * f->cell[m],
                                               place[f->axis] + (m == f->axis ? turn : 0))
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
static void fsi__ls_mark_faces(fsi_levelset *ls, const fsi__ls_faces *f, const uint8_t *given,
                               int layers, fsi_real *v) {
    const fsi_real reach = 2 * (fsi_real)layers * ls->desc.h;
    FSI__OMP(parallel for schedule(static) if (f->count > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < f->n[1] * f->n[2]; r++) {
        ptrdiff_t to = r * f->n[0], c = f->cell[1] * (r % f->n[1]) + f->cell[2] * (r / f->n[1]);
        const ptrdiff_t across = f->axis == 1 ? r % f->n[1] : r / f->n[1], step = f->cell[f->axis];
        for (ptrdiff_t i = 0; i < f->n[0]; i++, to++, c++) {
            const ptrdiff_t place = f->axis == 0 ? i : across;
            const fsi_real far = fsi__ls_face_phi(ls->phi, f, c, place);
            ls->mark[to] = given ? given[to]
                                 : (uint8_t)((place > 0 && ls->phi[c - step] < 0)
                                             || (place + 1 < f->n[f->axis] && ls->phi[c] < 0));
            ls->slot[to] = ls->mark[to] == 0 && far < reach;
            if (ls->mark[to] == 0)
                v[to] = 0;
        }
    }
}

/* Faces to be filled with a known neighbour, into the heap. */
static int fsi__ls_front(fsi_levelset *ls, const fsi__ls_faces *f) {
    int count = 0;
    FSI__OMP(parallel for schedule(static) if (f->count > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < f->n[1] * f->n[2]; r++) {
        const ptrdiff_t j = r % f->n[1], k = r / f->n[1];
        ptrdiff_t o = r * f->n[0];
        for (ptrdiff_t i = 0; i < f->n[0]; i++, o++)
            if (ls->slot[o] == 1 && ls->mark[o] == 0
                && ((i > 0 && ls->mark[o - 1] == 1) || (i + 1 < f->n[0] && ls->mark[o + 1] == 1)
                    || (j > 0 && ls->mark[o - f->step[1]] == 1)
                    || (j + 1 < f->n[1] && ls->mark[o + f->step[1]] == 1)
                    || (k > 0 && ls->mark[o - f->step[2]] == 1)
                    || (k + 1 < f->n[2] && ls->mark[o + f->step[2]] == 1)))
                ls->slot[o] = 2;
    }
    for (ptrdiff_t at = 0; at < f->count; at++)
        if (ls->slot[at] == 2) {
            ls->slot[at] = 1;
            ls->heap[count++] = (int32_t)at;
        }
    return count;
}

/* Fills faces from a front outward. A round sees only what earlier ones made known; the next one
 * tries the neighbours of what this one made known. */
static void fsi__ls_fill(fsi_levelset *ls, const fsi__ls_faces *f, fsi_real *u, int force) {
    /* the next front grows down from the end: known and unknown faces are not more than all */
    int32_t *list = ls->heap, *end = ls->heap + f->count;
    int count = fsi__ls_front(ls, f);
    while (count > 0) {
        int done = 0, next = 0;
        FSI__OMP(parallel for schedule(static) if (count > 1024))
        for (ptrdiff_t p = 0; p < count; p++)
            ls->slot[list[p]] = fsi__ls_extend(ls, f, u, list[p], force, &u[list[p]]) ? 3 : 1;
        for (ptrdiff_t p = 0; p < count; p++)
            if (ls->slot[list[p]] == 3) {
                ls->mark[list[p]] = 1;
                list[done++] = list[p];
            }
        for (ptrdiff_t p = 0; p < done; p++) {
            const int32_t nx = (int32_t)f->n[0], row = list[p] / nx,
                          place[3] = {list[p] % nx, row % (int32_t)f->n[1], row / (int32_t)f->n[1]};
            for (int m = 0; m < f->dim; m++)
                for (int s = 0; s < 2; s++) {
                    const ptrdiff_t o = list[p] + (s ? f->step[m] : -f->step[m]);
                    if ((s ? place[m] + 1 >= f->n[m] : place[m] < 1) || ls->mark[o]
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
        fsi__ls_faces f = fsi__ls_faces_of(ls, axis);
        fsi__ls_mark_faces(ls, &f, valid ? valid[axis] : NULL, layers, u[axis]);
        fsi__ls_fill(ls, &f, u[axis], 0);
        /* in nooks no order may be found */
        fsi__ls_fill(ls, &f, u[axis], 1);
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
    fsi__ls_sum s;
    double h = (double)ls->desc.h;
    s.ls = ls;
    s.solid = solid;
    s.fraction = fraction;
    s.by = (fsi_real)by;
    return fsi_reduce(ls->cells, fsi__ls_volume_range, &s) * h * h * (ls->desc.nz > 1 ? h : 1.0);
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

/* The surface goes outward by this much (m), and its markers with it: left behind they would soon
   count as escaped and undo the shift. Where phi is clipped it stays. */
static void fsi__ls_shift(fsi_levelset *ls, const uint8_t *solid, double by) {
    ptrdiff_t n = (ptrdiff_t)ls->cells, count = (ptrdiff_t)ls->state->count;
    const fsi_real s = (fsi_real)by, end = (fsi_real)ls->desc.band * ls->desc.h;
    FSI__OMP(parallel for schedule(static) if (count > 1024))
    for (ptrdiff_t p = 0; p < count; p++) {
        fsi_vec3 x = fsi_vec(ls->px[p], ls->py[p], ls->desc.nz > 1 ? ls->pz[p] : 0), normal;
        fsi__ls_linear(ls, fsi__ls_lattice(ls, x), &normal);
        fsi_vec3 g = fsi__ls_lattice(ls, fsi_vec_mad(x, fsi__unit(normal), s));
        if (solid && solid[fsi__ls_cell(ls, g)])
            continue;
        x = fsi__ls_world(ls, g);
        ls->px[p] = x.x;
        ls->py[p] = x.y;
        if (ls->desc.nz > 1)
            ls->pz[p] = x.z;
    }
    FSI__OMP(parallel for schedule(static) if (n > FSI__GRAIN))
    for (ptrdiff_t c = 0; c < n; c++)
        if (fsi__abs(ls->phi[c]) < end)
            ls->phi[c] -= s;
}

/* fsi_levelset_correct_volume from the present volume: secant steps; phi and markers move once, at
 * the end. */
static fsi_result fsi__ls_correct_from(fsi_levelset *ls, const uint8_t *solid, fsi_real limit,
                                       double first, fsi_levelset_report *report) {
    double v = first, h = (double)ls->desc.h, most = (double)limit * h, shift = 0,
           area = fsi__ls_area(ls, solid), target = ls->state->target;
    fsi_result r = area > 0 ? FSI_OK : FSI_EMPTY;
    for (int m = 0; m < 5 && r == FSI_OK && fabs(target - v) > 1e-9 * target; m++) {
        double step = (target - v) / area, last = v;
        if (fabs(shift + step) > most) {
            step = (step > 0 ? most : -most) - shift;
            r = FSI_CAPPED;
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
    return r;
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
    const fsi__mac m = fsi__ls_mac(ls, u);
    FSI__OMP(parallel for schedule(static) if (n > 1024))
    for (ptrdiff_t p = 0; p < n; p++) {
        fsi_vec3 g = fsi__ls_lattice(ls, fsi__ls_marker(ls, p));
        fsi_real out;
        fsi_vec3 x =
            fsi__ls_clip(ls, walls, g, fsi__ls_trace(&m, g, fsi__ls_velocity(&m, g), dth), &out);
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
    const fsi__mac m = fsi__ls_mac(ls, u);
    const int nx = m.n[0], cubic = !ls->desc.linear;
    fsi__ls_mark_moving(ls, walls, reach);
    FSI__OMP(parallel for schedule(dynamic, 16) if (ls->cells > FSI__GRAIN))
    for (ptrdiff_t r = 0; r < (ptrdiff_t)m.n[1] * m.n[2]; r++) {
        const int j = (int)(r % m.n[1]), k = (int)(r / m.n[1]);
        for (int i = 0; i < nx; i++) {
            const ptrdiff_t c = r * nx + i;
            const fsi_vec3 g = fsi_vec((fsi_real)i, (fsi_real)j, (fsi_real)k);
            ls->work[0][c] = ls->phi[c];
            if (!ls->mark[c])
                continue;
            fsi_real out;
            fsi_vec3 x = fsi__ls_clip(
                ls, walls, g, fsi__ls_trace(&m, g, fsi__ls_centre_velocity(&m, i, j, k), -dth),
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
    fsi_result r = fsi__ls_find_reach(ls, u, dt / ls->desc.h, reach);
    if (r != FSI_OK)
        return r;
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
    ls->state->target = fsi_levelset_volume(ls, solid, NULL);
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
