/* SPDX-License-Identifier: MIT OR Unlicense
   arguments.h: options and --help, values of keys, progress, result lines, checked calls. */
#ifndef ARGUMENTS_H
#define ARGUMENTS_H
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* An example need not use everything that is shared. */
#if defined(__GNUC__) || defined(__clang__)
#define EX static __attribute__((unused))
#else
#define EX static
#endif

enum {
    EX_KEYS = 24 /* most keys of one example */
};

/* One key of --set KEY=VALUE. Make it with EX_NUMBER or EX_WORD. */
typedef struct ex_key {
    const char *name;
    const char *unit;
    const char *help;
    const char *value; /* the default, as text */
    const char *range; /* of a number, and of each number of a comma list: "0 to 1" */
    const char *words; /* comma list of the words allowed; NULL = it is a number */
} ex_key;

#define EX_NUMBER(name, unit, help, value, range)                                                  \
    { name, unit, help, value, range, NULL }
#define EX_WORD(name, help, value, words)                                                          \
    { name, "", help, value, "", words }

/* How the grid sees closed solids: the key that all examples with a choice have. */
#define EX_BOUNDARY                                                                                \
    EX_WORD("boundary", "how the grid sees closed solids", "cut", "cut,voxel,fraction")

/* What an example is: name, one sentence, and what it does without any options. */
typedef struct ex_about {
    const char *name;
    const char *what;
    int size;
    int frames;
    ex_key keys[EX_KEYS]; /* the first one without a name ends the list */
} ex_about;

/* The options of a run, and what its pictures need to know between frames. */
typedef struct ex_args {
    int size, frames; /* --size, --frames */
    int threads;      /* --threads; 0 = as the system has it */
    const char *out;  /* --out: folder for pictures, NULL = draw nothing */
    int term;         /* --set view=term: frames are also drawn in the terminal */
    const char *name; /* of the example */
    const ex_about *about;
    const char *value[EX_KEYS]; /* current text of each key */
    int key_count;

    double begin, shown; /* wall clock at the start and at the last progress bar, s */
    int written;         /* pictures written so far */

    FILE *movie;         /* the animated picture */
    long movie_count_at; /* where the number of frames stands in it */
    uint32_t movie_serial;
    int movie_w;
    int movie_h;
} ex_args;

/* args.out with view=term alone: a folder in which no file can be made. */
#define EX_NOWHERE "/dev/null"

/* Wall clock in seconds. */
EX double ex_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The same clock, for clock_fn of the library's descs. */
EX double ex_clock(void *user) {
    (void)user;
    return ex_now();
}

/* Ends the program with one line on stderr and status 2: the arguments were wrong. */
EX void ex_die(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    exit(2);
}

/* ------------------------------------------------------------------------------------------------
 * checked calls */
/* The worst thing that calls of ex_try returned so far, and whether it was told. */
typedef struct ex_status {
    fsi_result failed; /* the first error, or FSI_OK */
    int told;
} ex_status;

EX ex_status *ex_status_now(void) {
    static ex_status status;
    return &status;
}

/* Says on stderr what a call returned: its name without the arguments, and the library's words. */
EX void ex_tell(const char *call, fsi_result result) {
    fprintf(stderr, "%.*s: %s\n", (int)strcspn(call, "("), call, fsi_result_text(result));
}

/* 1 as long as no call of ex_try has failed. */
EX int ex_fine(void) {
    return ex_status_now()->failed == FSI_OK;
}

/* Notes what a call returned. The first result other than FSI_OK is told; an error is kept. */
EX fsi_result ex_note(fsi_result result, const char *call) {
    ex_status *status = ex_status_now();
    int failed = result < 0;
    if (failed || (result != FSI_OK && !status->told)) {
        ex_tell(call, result);
        status->told = 1;
    }

    if (failed)
        status->failed = result;
    return result;
}

/* One step of a simulation: ex_try(fsi_world_step(&world, dt, NULL)). After an error the calls that
   follow are skipped and return that error, so that steps can stand below each other and the loop
   asks ex_fine() once. */
#define ex_try(call) (ex_fine() ? ex_note(call, #call) : ex_status_now()->failed)

/* Part of the set-up: without it there is nothing to run. Says why and ends with status 1. */
#define ex_need(call) ex_demand(call, #call)

EX int ex_demand(int result, const char *call) {
    if (result < 0) {
        ex_tell(call, (fsi_result)result);
        exit(1);
    }

    return result;
}

/* An answer that is no number any more, or a body that flies off, ends a run as an error does. */
EX void ex_check_speed(double speed, double most) {
    ex_status *status = ex_status_now();
    if (speed <= most || status->failed != FSI_OK)
        return;
    fprintf(stderr, "a speed of %g m/s: the run ends here\n", speed);
    status->failed = FSI_ERR_NUMERIC;
}

/* For programs that run several scenes: the next one starts with a clean slate. */
EX void ex_forget(void) {
    memset(ex_status_now(), 0, sizeof(ex_status));
}

/* Memory for count elements of size bytes, zeroed; ends the program when there is none. */
EX void *ex_alloc(size_t count, size_t size) {
    void *block = calloc(count > 0 ? count : 1, size);
    if (!block)
        ex_die("out of memory");
    return block;
}

/* ------------------------------------------------------------------------------------------------
 * reading the command line */
/* Index of a key, -1 when there is none of this name. */
EX int ex_find(const ex_args *args, const char *name) {
    for (int i = 0; i < args->key_count; i++)
        if (!strcmp(args->about->keys[i].name, name))
            return i;
    return -1;
}

/* The two numbers of "0 to 1". */
EX void ex_range(const ex_key *key, double *lowest, double *highest) {
    if (sscanf(key->range, "%lf to %lf", lowest, highest) != 2)
        ex_die("%s has no range", key->name);
}

/* One line of --help. */
EX void ex_help_key(const ex_key *key) {
    printf("  %-14s %s", key->name, key->help);
    if (*key->unit)
        printf(" (%s)", key->unit);
    printf(", default %s, ", key->value);

    if (key->words)
        printf("one of %s\n", key->words);
    else {
        double lowest;
        double highest;
        ex_range(key, &lowest, &highest);
        printf("range %g to %g\n", lowest, highest);
    }
}

EX void ex_help(const ex_args *args) {
    printf("%s: %s\n\n", args->name, args->about->what);
    printf("usage: build/%s [--size N] [--frames N] [--out DIR] [--threads N] "
           "[--set KEY=VALUE]... [--help]\n",
           args->name);
    printf("  --size N      cells (particles) along the longest side, default %d\n", args->size);
    printf("  --frames N    default %d\n", args->frames);
    printf("  --out DIR     write pictures there\n");
    printf("  --threads N   default: as OpenMP decides\n");
    printf("keys for --set:\n");

    for (int i = 0; i < args->key_count; i++)
        ex_help_key(&args->about->keys[i]);
    if (ex_find(args, "view") < 0)
        printf("  %-14s where frames go, default files, one of files,term (block characters in the "
               "terminal)\n",
               "view");
}

/* 1 when text is one of the comma separated words. */
EX int ex_has_word(const char *words, const char *text) {
    size_t length = strlen(text);
    while (*words) {
        size_t word = strcspn(words, ",");
        if (word == length && !strncmp(words, text, length))
            return 1;
        words += word;
        words += *words == ',';
    }

    return 0;
}

/* Makes a folder and those above it. That one cannot be made is told by the first file in it. */
EX void ex_folder(const char *path) {
    char part[512];
    for (size_t i = 0; path[i] && i < sizeof part - 1; i++) {
        part[i] = path[i];
        part[i + 1] = 0;
        int whole_name = path[i + 1] == '/' || !path[i + 1];
        if (whole_name)
            mkdir(part, 0777);
    }
}

/* Checks one value against its key; ends with one line and status 2 when it does not fit. */
EX void ex_check(const ex_key *key, const char *text) {
    if (key->words) {
        if (!ex_has_word(key->words, text))
            ex_die("%s takes one of %s", key->name, key->words);
        return;
    }

    double lowest;
    double highest;
    ex_range(key, &lowest, &highest);
    const char *rest = text;
    do {
        char *end;
        double number = strtod(rest, &end);
        int followed_well = !*end || *end == ',';
        if (end == rest || !followed_well)
            ex_die("%s: '%s' is not a number", key->name, text);

        int in_range = number >= lowest && number <= highest;
        if (!in_range)
            ex_die("%s is outside its range %g to %g", key->name, lowest, highest);
        rest = *end ? end + 1 : end;
    } while (*rest);
}

/* The whole number after an option. */
EX int ex_parse_int(const char *name, const char *text, int lowest) {
    if (!text)
        ex_die("%s: '' is not a whole number in range", name);
    char *end;
    long number = strtol(text, &end, 10);
    int is_number = end != text && !*end;
    int in_range = number >= lowest && number <= 1000000;
    if (!is_number || !in_range)
        ex_die("%s: '%s' is not a whole number in range", name, text);
    return (int)number;
}

/* --set KEY=VALUE. The key view belongs to every example that has none of its own. */
EX void ex_set(ex_args *args, const char *assignment) {
    const char *value = strchr(assignment, '=') + 1;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(value - assignment - 1), assignment);

    int key = ex_find(args, name);
    if (key >= 0) {
        args->value[key] = value;
        ex_check(&args->about->keys[key], value);
    } else if (!strcmp(name, "view")) {
        static const ex_key view = EX_WORD("view", "", "files", "files,term");
        ex_check(&view, value);
        args->term = !strcmp(value, "term");
    } else
        ex_die("unknown key '%s'; %s --help lists them", name, args->name);
}

/* One option; next is the argument after it or NULL. Returns how many arguments were used. */
EX int ex_option(ex_args *args, const char *option, const char *next) {
    if (!strcmp(option, "--help")) {
        ex_help(args);
        exit(0);
    }

    if (!strcmp(option, "--size"))
        args->size = ex_parse_int(option, next, 4);
    else if (!strcmp(option, "--frames"))
        args->frames = ex_parse_int(option, next, 1);
    else if (!strcmp(option, "--threads"))
        args->threads = ex_parse_int(option, next, 1);
    else if (!strcmp(option, "--out") && next)
        args->out = next;
    else if (!strcmp(option, "--set") && next && strchr(next, '='))
        ex_set(args, next);
    else
        ex_die("unknown option '%s'; %s --help lists them", option, args->name);
    return 2;
}

/* Reads the command line. Anything wrong with it ends the program with status 2. */
EX void ex_begin(ex_args *args, int argc, char **argv, const ex_about *about) {
    memset(args, 0, sizeof *args);
    args->about = about;
    args->name = about->name;
    args->size = about->size;
    args->frames = about->frames;

    while (args->key_count < EX_KEYS && about->keys[args->key_count].name) {
        args->value[args->key_count] = about->keys[args->key_count].value;
        args->key_count++;
    }

    for (int i = 1; i < argc;)
        i += ex_option(args, argv[i], i + 1 < argc ? argv[i + 1] : NULL);

#ifdef _OPENMP
    if (args->threads)
        omp_set_num_threads(args->threads);
#endif
    if (args->out)
        ex_folder(args->out);
    else if (args->term)
        args->out = EX_NOWHERE;
    args->begin = ex_now();
}

/* ------------------------------------------------------------------------------------------------
 * values of keys; a key must exist */
EX const char *ex_word(const ex_args *args, const char *key) {
    return args->value[ex_find(args, key)];
}

EX double ex_number(const ex_args *args, const char *key) {
    return strtod(ex_word(args, key), NULL);
}

/* A number that counts or switches something: its whole part. */
EX int ex_whole(const ex_args *args, const char *key) {
    return (int)ex_number(args, key);
}

/* 1 when the key's value is this word. */
EX int ex_is(const ex_args *args, const char *key, const char *word) {
    return !strcmp(ex_word(args, key), word);
}

/* The numbers of a comma list, at most so many; returns how many there are. */
EX int ex_list(const ex_args *args, const char *key, double *numbers, int most) {
    const char *rest = ex_word(args, key);
    int count = 0;
    while (*rest && count < most) {
        char *end;
        numbers[count++] = strtod(rest, &end);
        rest = *end ? end + 1 : end;
    }

    return count;
}

/* ------------------------------------------------------------------------------------------------
 * output */
/* A bar with the time left, ten times a second; only on a terminal. */
EX void ex_progress(ex_args *args, int frame) {
    double now = ex_now();
    double part = (double)(frame + 1) / args->frames;
    int last = frame + 1 >= args->frames;
    int too_soon = now - args->shown < 0.1 && !last;
    if (args->term || !isatty(2) || too_soon)
        return;

    args->shown = now;
    fprintf(stderr, "\r%s [", args->name);
    for (int i = 0; i < 40; i++)
        fputc(i < (int)(40 * part) ? '#' : ' ', stderr);
    double left = (now - args->begin) * (1 - part) / part;
    fprintf(stderr, "] %3.0f %%, %.0f s left  %s", 100 * part, left, last ? "\n" : "");
    fflush(stderr);
}

/* One line of the results: result KEY=VALUE. */
EX void ex_result(const char *key, const char *format, ...) {
    printf("result %s=", key);
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}
#endif
