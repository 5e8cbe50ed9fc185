/* page.c: the live page's side in C: a table of scenes and the flat functions that JavaScript
   calls. Compiled by emscripten it is the page's wasm; compiled natively it is the twin that the
   tests compare bits and times with:

       build/web_native hash pool 100        steps, saves, steps on, restores, steps on again
       build/web_native time pool 200        processor time of a step

   Single precision on both sides. */
#ifndef FSI_SINGLE
#define FSI_SINGLE
#endif
#include "fsi_couple.h"
#include "water.h"
#include "air.h"
#include "particles.h"
#include "methods.h"
#include "jelly.h"

#ifdef __EMSCRIPTEN__
#include <emscripten.h>
#define EXPORT EMSCRIPTEN_KEEPALIVE
#else
#define EXPORT
#endif

static scene *const scenes[] = {
    &pool_scene,    &raft_scene,  &boat_scene,    &diver_scene, &cloth_scene,
    &balloon_scene, &press_scene, &smoke_scene,   &jelly_scene, &dam_scene,
    &gate_scene,    &slip_scene,  &methods_scene,
};

enum {
    SCENES = sizeof scenes / sizeof scenes[0]
};

/* ---- scenes and settings */
EXPORT int page_scenes(void) {
    return SCENES;
}

EXPORT const char *page_scene_name(int i) {
    return scenes[i]->name;
}

EXPORT double page_dt(void) {
    return stage.scene->dt;
}

/* Makes a scene with its first settings; negative: an fsi_result. */
EXPORT int page_load(int i) {
    if (i < 0 || i >= SCENES)
        return FSI_ERR_ARGUMENT;
    stage_clear();
    stage.scene = scenes[i];
    for (int k = 0; k < setting_count(); k++)
        stage.scene->setting[k].value = stage.scene->setting[k].first;
    return stage_make();
}

/* Makes it again with the settings as they are. */
EXPORT int page_reset(void) {
    return stage_make();
}

EXPORT int page_settings(void) {
    return setting_count();
}

EXPORT const char *page_setting_key(int i) {
    return stage.scene->setting[i].key;
}

EXPORT double page_setting_lo(int i) {
    return stage.scene->setting[i].lo;
}

EXPORT double page_setting_hi(int i) {
    return stage.scene->setting[i].hi;
}

EXPORT double page_setting_value(int i) {
    return stage.scene->setting[i].value;
}

/* 1: changed at once; 2: the scene was made again; 0: no such key. The value is clamped. */
EXPORT int page_set(const char *key, double value) {
    setting *own = setting_find(key);
    if (!own || value != value)
        return 0;
    own->value = value < own->lo ? own->lo : value > own->hi ? own->hi : value;
    if (own->remakes || stage.broken) {
        stage_make();
        return 2;
    }
    if (stage.scene->change)
        stage.scene->change(own);
    return 1;
}

/* ---- time */
EXPORT int page_step(int count) {
    for (int i = 0; i < count && !stage.broken; i++)
        stage_step();
    return stage.result;
}

EXPORT const char *page_result_text(void) {
    return fsi_result_text(stage.result);
}

/* ---- the hand, in scene units */
EXPORT int page_grab(double x, double y) {
    return stage_grab(fsi_vec(x, y, 0));
}

EXPORT void page_pull(double x, double y) {
    stage_pull(fsi_vec(x, y, 0));
}

EXPORT void page_release(void) {
    stage_release();
}

/* ---- what is seen and measured */
EXPORT picture_table *page_picture(void) {
    return picture_make();
}

typedef enum report_place {
    REPORT_STEPS,
    REPORT_TIME,
    REPORT_KINETIC,
    REPORT_POTENTIAL,
    REPORT_MOMENTUM_X,
    REPORT_MOMENTUM_Y,
    REPORT_VOLUME,
    REPORT_VOLUME_ERROR,
    REPORT_ITERATIONS,
    REPORT_RESIDUAL,
    REPORT_BROKEN,
    REPORT_BODIES,
    REPORT_LO_X,
    REPORT_LO_Y,
    REPORT_HI_X,
    REPORT_HI_Y,
    REPORT_HI_Z,
    REPORT_FIRST_BODY
} report_place;

enum {
    REPORT_PER_BODY = 6
};

static double report[REPORT_FIRST_BODY + REPORT_PER_BODY * STAGE_SOLIDS];

EXPORT double *page_report(void) {
    stage_totals sum = stage_measure();
    double first = stage.volume_at_first;
    report[REPORT_STEPS] = stage.steps;
    report[REPORT_TIME] = stage.time;
    report[REPORT_KINETIC] = sum.kinetic;
    report[REPORT_POTENTIAL] = sum.potential;
    report[REPORT_MOMENTUM_X] = sum.momentum[0];
    report[REPORT_MOMENTUM_Y] = sum.momentum[1];
    report[REPORT_VOLUME] = sum.volume;
    report[REPORT_VOLUME_ERROR] = first > 0 ? (sum.volume - stage.volume_added) / first - 1 : 0;
    report[REPORT_ITERATIONS] = stage.report.iterations;
    report[REPORT_RESIDUAL] = stage.report.residual;
    report[REPORT_BROKEN] = stage.broken;
    report[REPORT_LO_X] = stage.lo.x;
    report[REPORT_LO_Y] = stage.lo.y;
    report[REPORT_HI_X] = stage.hi.x;
    report[REPORT_HI_Y] = stage.hi.y;
    report[REPORT_HI_Z] = stage.hi.z;

    stage_solid list[STAGE_SOLIDS];
    int count = stage_list_solids(list);
    report[REPORT_BODIES] = count;
    for (int i = 0; i < count; i++) {
        double *out = report + REPORT_FIRST_BODY + REPORT_PER_BODY * i;
        out[0] = list[i].x.x;
        out[1] = list[i].x.y;
        out[2] = list[i].density;
        out[3] = list[i].v.x;
        out[4] = list[i].v.y;
        out[5] = list[i].submerged;
    }
    return report;
}

/* ---- state: one block without addresses */
EXPORT int page_state_size(void) {
    return (int)stage_state_size();
}

EXPORT int page_save(unsigned char *block) {
    return stage_save(block);
}

/* A block that page_save made in the same scene. */
EXPORT int page_restore(const unsigned char *block, int size) {
    stage_head head;
    if (size < (int)sizeof head)
        return FSI_ERR_SIZE;
    memcpy(&head, block, sizeof head);
    if (head.magic != stage_magic)
        return FSI_ERR_STATE;
    for (int i = 0; i < setting_count(); i++)
        stage.scene->setting[i].value = head.value[i];
    fsi_result result = stage_make();
    if (result >= 0 && stage_state_size() != (size_t)size)
        return FSI_ERR_SIZE;
    if (result >= 0)
        result = stage_restore_parts(block);
    stage.steps = head.steps;
    stage.time = head.time;
    stage.volume_at_first = head.volume_at_first;
    return result;
}

EXPORT uint32_t page_hash(void) {
    return stage_hash();
}

/* ------------------------------------------------------------------------------------------------
 * the native twin */
#ifndef __EMSCRIPTEN__
#include <stdio.h>
#include <time.h>

static int find_scene(const char *name) {
    for (int i = 0; i < SCENES; i++)
        if (strcmp(scenes[i]->name, name) == 0)
            return i;
    return -1;
}

/* Steps, saves, steps on; restores, steps on again: both ends must agree, and with the wasm. */
static int twin_hash(int steps) {
    page_step(steps);
    int size = page_state_size();
    unsigned char *block = malloc((size_t)size);
    if (!block || page_save(block) < 0)
        return 1;
    uint32_t saved = page_hash();
    page_step(steps / 2);
    uint32_t straight = page_hash();
    int restored = page_restore(block, size);
    page_step(steps / 2);
    uint32_t again = page_hash();
    printf("%s %d %08x %08x %08x\n", stage.scene->name, restored, saved, straight, again);
    free(block);
    return 0;
}

static double twin_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int twin_time(int steps) {
    page_step(20);
    double start = twin_seconds();
    page_step(steps);
    double spent = twin_seconds() - start;
    printf("%s %.4f\n", stage.scene->name, 1e3 * spent / steps);
    return 0;
}

int main(int argc, char **argv) {
    int which = argc > 3 ? find_scene(argv[2]) : -1;
    if (which < 0) {
        fprintf(stderr, "web_native hash|time SCENE STEPS\n");
        return 2;
    }
    int made = page_load(which);
    if (made < 0) {
        fprintf(stderr, "%s: %s\n", argv[2], fsi_result_text((fsi_result)made));
        return 1;
    }
    for (int i = 4; i + 1 < argc; i += 2)
        page_set(argv[i], atof(argv[i + 1]));
    int steps = atoi(argv[3]);
    return strcmp(argv[1], "time") == 0 ? twin_time(steps) : twin_hash(steps);
}
#endif
