/* SPDX-License-Identifier: MIT OR Unlicense
   greatest.h: a small unit test header with the macro names, options and closing lines of the
   well-known one, written for this project. The other file drops in unchanged: make test
   GREATEST=path/to/greatest.h

   TEST name(void) { ASSERT_EQ(1, 1); PASS(); }
   SUITE(suite) { RUN_TEST(name); }
   GREATEST_MAIN_DEFS();
   int main(int argc, char **argv) { GREATEST_MAIN_BEGIN(); RUN_SUITE(suite); GREATEST_MAIN_END(); }

   Difference: near-equality (ASSERT_IN_RANGE) fails on NaN. */
/* make GREATEST=path names another file: tests include it through this one, which they find first
 */
#ifdef GREATEST_INSTEAD
#include GREATEST_INSTEAD
#elif !defined(GREATEST_H)
#define GREATEST_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifndef GREATEST_USE_LONGJMP
#define GREATEST_USE_LONGJMP 1
#endif
#if GREATEST_USE_LONGJMP
#include <setjmp.h>
#endif

#define GREATEST_VERSION_MAJOR 1 /* of the interface */
#define GREATEST_VERSION_MINOR 5
#define GREATEST_VERSION_PATCH 0
#if defined(__GNUC__) || defined(__clang__)
#define GREATEST_UNUSED __attribute__((unused))
#else
#define GREATEST_UNUSED
#endif
#ifndef GREATEST_STDOUT
#define GREATEST_STDOUT stdout
#endif
#ifndef GREATEST_FPRINTF
#define GREATEST_FPRINTF fprintf
#endif
#ifndef GREATEST_DEFAULT_WIDTH
#define GREATEST_DEFAULT_WIDTH 72
#endif
#ifndef GREATEST_TESTNAME_BUF_SIZE
#define GREATEST_TESTNAME_BUF_SIZE 128
#endif
#ifndef GREATEST_FLOAT
#define GREATEST_FLOAT double
#define GREATEST_FLOAT_FMT "%g"
#endif

typedef enum greatest_test_res {
    GREATEST_TEST_RES_PASS = 0,
    GREATEST_TEST_RES_FAIL = -1,
    GREATEST_TEST_RES_SKIP = 1
} greatest_test_res;

typedef void greatest_setup_cb(void *udata);
typedef void greatest_teardown_cb(void *udata);
typedef void greatest_suite_cb(void);
typedef const char *greatest_enum_str_fun(int value);
typedef int greatest_equal_cb(const void *exp, const void *got, void *udata);
typedef int greatest_printf_cb(const void *t, void *udata);

typedef struct greatest_type_info {
    greatest_equal_cb *equal;
    greatest_printf_cb *print;
} greatest_type_info;

typedef enum {
    GREATEST_FLAG_FIRST_FAIL = 1,
    GREATEST_FLAG_LIST_ONLY = 2,
    GREATEST_FLAG_ABORT_ON_FAIL = 4
} greatest_flag_t;

struct greatest_report_t {
    unsigned int passed, failed, skipped, assertions;
};

/* A body that is run again and again, each time with one of its calls let through. */
typedef struct greatest_shuffle {
    int on, started;
    unsigned long count, pick, seen, mod, x;
} greatest_shuffle;

typedef struct greatest_run_info {
    unsigned passed, failed, skipped, tests_run, assertions;
    unsigned suite_run, suite_passed, suite_failed, suite_skipped;
    unsigned verbosity, flags, column;
    int exact;
    const char *suite_filter, *test_filter, *test_exclude, *name_suffix;
    char name_buf[GREATEST_TESTNAME_BUF_SIZE];
    const char *msg, *fail_file; /* of the test that is running */
    unsigned fail_line;
    greatest_setup_cb *setup;
    greatest_teardown_cb *teardown;
    void *setup_udata, *teardown_udata;
    greatest_shuffle shuffle[2]; /* of suites, of tests */
    clock_t begin, suite_begin, test_begin;
#if GREATEST_USE_LONGJMP
    jmp_buf jump_dest;
#endif
} greatest_run_info;

extern greatest_run_info greatest_info;

#define GREATEST_MAIN_DEFS() greatest_run_info greatest_info
#define GREATEST_TEST static greatest_test_res
#define GREATEST_SUITE(NAME)                                                                       \
    void NAME(void);                                                                               \
    void NAME(void)
#define GREATEST_SUITE_EXTERN(NAME) void NAME(void)
#define GREATEST_IS_VERBOSE() (greatest_info.verbosity > 0)
#define GREATEST_LIST_ONLY() (greatest_info.flags & GREATEST_FLAG_LIST_ONLY)
#define GREATEST_FIRST_FAIL() (greatest_info.flags & GREATEST_FLAG_FIRST_FAIL)
#define GREATEST_ABORT_ON_FAIL() (greatest_info.flags & GREATEST_FLAG_ABORT_ON_FAIL)
#define GREATEST_FAILURE_ABORT() (GREATEST_FIRST_FAIL() && greatest_info.failed > 0)

static GREATEST_UNUSED int greatest_all_passed(void) {
    return greatest_info.failed == 0;
}

static GREATEST_UNUSED void greatest_set_suite_filter(const char *filter) {
    greatest_info.suite_filter = filter;
}

static GREATEST_UNUSED void greatest_set_test_filter(const char *filter) {
    greatest_info.test_filter = filter;
}

static GREATEST_UNUSED void greatest_set_test_exclude(const char *filter) {
    greatest_info.test_exclude = filter;
}

static GREATEST_UNUSED void greatest_set_exact_name_match(void) {
    greatest_info.exact = 1;
}

static GREATEST_UNUSED void greatest_set_test_suffix(const char *suffix) {
    greatest_info.name_suffix = suffix;
}

static GREATEST_UNUSED void greatest_set_flag(greatest_flag_t flag) {
    greatest_info.flags |= (unsigned)flag;
}

static GREATEST_UNUSED void greatest_stop_at_first_fail(void) {
    greatest_set_flag(GREATEST_FLAG_FIRST_FAIL);
}

static GREATEST_UNUSED void greatest_abort_on_fail(void) {
    greatest_set_flag(GREATEST_FLAG_ABORT_ON_FAIL);
}

static GREATEST_UNUSED void greatest_list_only(void) {
    greatest_set_flag(GREATEST_FLAG_LIST_ONLY);
}

static GREATEST_UNUSED unsigned int greatest_get_verbosity(void) {
    return greatest_info.verbosity;
}

static GREATEST_UNUSED void greatest_set_verbosity(unsigned int verbosity) {
    greatest_info.verbosity = verbosity;
}

static GREATEST_UNUSED void greatest_get_report(struct greatest_report_t *report) {
    if (!report)
        return;
    report->passed = greatest_info.passed;
    report->failed = greatest_info.failed;
    report->skipped = greatest_info.skipped;
    report->assertions = greatest_info.assertions;
}

static GREATEST_UNUSED void greatest_seconds(clock_t begin) {
    double ticks = (double)(clock() - begin);
    GREATEST_FPRINTF(GREATEST_STDOUT, " (%.0f ticks, %.3f sec)", ticks,
                     ticks / (double)CLOCKS_PER_SEC);
}

/* 1 when name passes the filter (substring, or whole name with -e). */
static GREATEST_UNUSED int greatest_name_match(const char *name, const char *filter,
                                               int otherwise) {
    if (!filter || !*filter)
        return otherwise;
    return greatest_info.exact ? strcmp(name, filter) == 0 : strstr(name, filter) != NULL;
}

/* 1 when a call inside a shuffled body is the one whose turn it is. The first pass only counts
 * them. */
static GREATEST_UNUSED int greatest_turn(int id) {
    greatest_shuffle *s = &greatest_info.shuffle[id];
    return !s->on || (s->count++ == s->pick && s->started);
}

/* The next of count calls: a congruential generator modulo a power of two visits every number once.
 * 0 when all had their turn. */
static GREATEST_UNUSED int greatest_shuffle_next(int id, unsigned long seed) {
    greatest_shuffle *s = &greatest_info.shuffle[id];
    unsigned long count = s->count;
    if (!count)
        return 0;
    if (!s->started) {
        s->started = 1;
        s->seen = 0;
        for (s->mod = 1; s->mod < count; s->mod *= 2) {
        }
        s->x = seed & (s->mod - 1);
    } else if (++s->seen >= count)
        return 0;
    do
        s->x = (s->x * (4 * (seed & 0xffff) + 1) + 2 * (seed >> 4 & 0xffff) + 1) & (s->mod - 1);
    while (s->x >= count);
    s->pick = s->x;
    s->count = 0;
    return 1;
}

static GREATEST_UNUSED int greatest_test_pre(const char *name) {
    greatest_run_info *g = &greatest_info;
    const char *suffix = g->name_suffix;
    g->name_suffix = NULL;
    snprintf(g->name_buf, sizeof g->name_buf, "%s%s%s", name, suffix ? "_" : "",
             suffix ? suffix : "");
    int wanted = greatest_name_match(g->name_buf, g->test_filter, 1)
                 && !greatest_name_match(g->name_buf, g->test_exclude, 0);
    if (GREATEST_LIST_ONLY()) {
        if (wanted)
            GREATEST_FPRINTF(GREATEST_STDOUT, "  %s\n", g->name_buf);
        return 0;
    }
    if (!wanted || GREATEST_FAILURE_ABORT() || !greatest_turn(1))
        return 0;
    g->msg = NULL;
    g->fail_file = NULL;
    g->fail_line = 0;
    if (g->setup)
        g->setup(g->setup_udata);
    g->test_begin = clock();
    return 1;
}

static GREATEST_UNUSED void greatest_test_post(int res) {
    greatest_run_info *g = &greatest_info;
    const char *word = res == GREATEST_TEST_RES_PASS   ? "PASS"
                       : res <= GREATEST_TEST_RES_FAIL ? "FAIL"
                                                       : "SKIP";
    if (g->teardown)
        g->teardown(g->teardown_udata);
    g->suite_run++;
    g->tests_run++;
    if (res == GREATEST_TEST_RES_PASS) {
        g->passed++;
        g->suite_passed++;
    } else if (res <= GREATEST_TEST_RES_FAIL) {
        g->failed++;
        g->suite_failed++;
    } else {
        g->skipped++;
        g->suite_skipped++;
    }
    if (res <= GREATEST_TEST_RES_FAIL || g->verbosity) {
        if (!g->verbosity)
            GREATEST_FPRINTF(GREATEST_STDOUT, "F\n");
        GREATEST_FPRINTF(GREATEST_STDOUT, "%s %s: %s", word, g->name_buf, g->msg ? g->msg : "");
        if (res <= GREATEST_TEST_RES_FAIL)
            GREATEST_FPRINTF(GREATEST_STDOUT, " (%s:%u)", g->fail_file ? g->fail_file : "?",
                             g->fail_line);
        if (g->verbosity)
            greatest_seconds(g->test_begin);
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
        g->column = 0;
    } else {
        GREATEST_FPRINTF(GREATEST_STDOUT, res == GREATEST_TEST_RES_PASS ? "." : "s");
        if (++g->column % GREATEST_DEFAULT_WIDTH == 0)
            GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    }
    fflush(GREATEST_STDOUT);
}

static GREATEST_UNUSED void greatest_run_suite(greatest_suite_cb *suite, const char *name) {
    greatest_run_info *g = &greatest_info;
    if (!greatest_name_match(name, g->suite_filter, 1) || GREATEST_FAILURE_ABORT()
        || !greatest_turn(0))
        return;
    g->suite_run = g->suite_passed = g->suite_failed = g->suite_skipped = g->column = 0;
    g->setup = NULL;
    g->teardown = NULL;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n* Suite %s:\n", name);
    g->suite_begin = clock();
    suite();
    g->setup = NULL;
    g->teardown = NULL;
    if (!g->suite_run)
        return;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n%u test%s - %u passed, %u failed, %u skipped",
                     g->suite_run, g->suite_run == 1 ? "" : "s", g->suite_passed, g->suite_failed,
                     g->suite_skipped);
    greatest_seconds(g->suite_begin);
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
}

static GREATEST_UNUSED void greatest_usage(const char *name) {
    GREATEST_FPRINTF(GREATEST_STDOUT,
                     "Usage: %s [-hlfavex] [-s SUITE] [-t TEST] [-x EXCLUDE]\n"
                     "  -h, --help  print this help\n  -l          list suites and tests, then "
                     "exit\n  -f          stop after the first failure\n"
                     "  -a          abort on the first failure\n  -v          verbose output\n  -s "
                     "SUITE    only run suites whose name contains SUITE\n"
                     "  -t TEST     only run tests whose name contains TEST\n  -e          only "
                     "run exact name matches for -s or -t\n"
                     "  -x EXCLUDE  leave out tests whose name contains EXCLUDE\n",
                     name);
}

static GREATEST_UNUSED void greatest_parse_options(int argc, char **argv) {
    greatest_run_info *g = &greatest_info;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        char f = a[0] == '-' ? a[1] : 0;
        if (a[0] != '-')
            continue;
        if (!strcmp(a, "--"))
            return;
        if (f == 'h' || !strcmp(a, "--help")) {
            greatest_usage(argv[0]);
            exit(EXIT_SUCCESS);
        }
        if ((f == 's' || f == 't' || f == 'x') && i + 1 < argc) {
            const char *value = argv[++i];
            if (f == 's')
                g->suite_filter = value;
            else if (f == 't')
                g->test_filter = value;
            else
                g->test_exclude = value;
        } else if (f == 'v')
            g->verbosity++;
        else if (f == 'l')
            greatest_list_only();
        else if (f == 'f')
            greatest_stop_at_first_fail();
        else if (f == 'a')
            greatest_abort_on_fail();
        else if (f == 'e')
            g->exact = 1;
        else {
            GREATEST_FPRINTF(GREATEST_STDOUT, "Unknown argument '%s'\n", a);
            greatest_usage(argv[0]);
            exit(EXIT_FAILURE);
        }
    }
}

static GREATEST_UNUSED void GREATEST_INIT(void) {
    memset(&greatest_info, 0, sizeof greatest_info);
    greatest_info.begin = clock();
}

static GREATEST_UNUSED void GREATEST_PRINT_REPORT(void) {
    greatest_run_info *g = &greatest_info;
    if (GREATEST_LIST_ONLY())
        return;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nTotal: %u test%s", g->tests_run,
                     g->tests_run == 1 ? "" : "s");
    greatest_seconds(g->begin);
    GREATEST_FPRINTF(GREATEST_STDOUT, ", %u assertion%s\nPass: %u, fail: %u, skip: %u.\n",
                     g->assertions, g->assertions == 1 ? "" : "s", g->passed, g->failed,
                     g->skipped);
}

#define GREATEST_MAIN_BEGIN()                                                                      \
    do {                                                                                           \
        GREATEST_INIT();                                                                           \
        greatest_parse_options(argc, argv);                                                        \
    } while (0)
#define GREATEST_MAIN_END()                                                                        \
    do {                                                                                           \
        GREATEST_PRINT_REPORT();                                                                   \
        return greatest_all_passed() ? EXIT_SUCCESS : EXIT_FAILURE;                                \
    } while (0)

/* ---- comparison by callback; udata of strings: NULL or the most characters to compare, of memory:
 * its size */
typedef struct greatest_memory_cmp_env {
    const unsigned char *exp, *got;
    size_t size;
} greatest_memory_cmp_env;

static GREATEST_UNUSED int greatest_string_equal_cb(const void *exp, const void *got, void *udata) {
    return udata ? !strncmp((const char *)exp, (const char *)got, *(size_t *)udata)
                 : !strcmp((const char *)exp, (const char *)got);
}

static GREATEST_UNUSED int greatest_string_printf_cb(const void *t, void *udata) {
    (void)udata;
    return GREATEST_FPRINTF(GREATEST_STDOUT, "%s", (const char *)t);
}

static GREATEST_UNUSED int greatest_memory_equal_cb(const void *exp, const void *got, void *udata) {
    return !memcmp(exp, got, ((greatest_memory_cmp_env *)udata)->size);
}

/* Bytes in rows of sixteen; those that differ carry a '<'. */
static GREATEST_UNUSED int greatest_memory_printf_cb(const void *t, void *udata) {
    const greatest_memory_cmp_env *env = (const greatest_memory_cmp_env *)udata;
    int n = 0;
    for (size_t i = 0; i < env->size; i++) {
        if (i % 16 == 0)
            n += GREATEST_FPRINTF(GREATEST_STDOUT, "\n%04lx ", (unsigned long)i);
        n += GREATEST_FPRINTF(GREATEST_STDOUT, "%02x%c", (unsigned)((const unsigned char *)t)[i],
                              env->exp[i] == env->got[i] ? ' ' : '<');
    }
    return n;
}

static GREATEST_UNUSED greatest_type_info greatest_type_info_string = {greatest_string_equal_cb,
                                                                       greatest_string_printf_cb};
static GREATEST_UNUSED greatest_type_info greatest_type_info_memory = {greatest_memory_equal_cb,
                                                                       greatest_memory_printf_cb};

static GREATEST_UNUSED int greatest_do_assert_equal_t(const void *exp, const void *got,
                                                      greatest_type_info *type, void *udata) {
    if (!type || !type->equal)
        return 0;
    if (type->equal(exp, got, udata))
        return 1;
    if (!type->print)
        return 0;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: ");
    (void)type->print(exp, udata);
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n     Got: ");
    (void)type->print(got, udata);
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    return 0;
}

#define GREATEST_RUN_SUITE(S) greatest_run_suite(S, #S)
#if GREATEST_USE_LONGJMP
/* 0 at first, -1 from a jump */
#define GREATEST_SAVE_CONTEXT() ((greatest_test_res)setjmp(greatest_info.jump_dest))
#else
#define GREATEST_SAVE_CONTEXT() GREATEST_TEST_RES_PASS
#endif
#define GREATEST_RUN_CALL_(NAME, CALL)                                                             \
    do {                                                                                           \
        if (greatest_test_pre(NAME)) {                                                             \
            greatest_test_res greatest_result = GREATEST_SAVE_CONTEXT();                           \
            if (greatest_result == GREATEST_TEST_RES_PASS)                                         \
                greatest_result = CALL;                                                            \
            greatest_test_post(greatest_result);                                                   \
        }                                                                                          \
    } while (0)
#define GREATEST_RUN_TEST(T) GREATEST_RUN_CALL_(#T, T())
#define GREATEST_RUN_TEST1(T, ENV) GREATEST_RUN_CALL_(#T, T(ENV))
#define GREATEST_RUN_TESTp(T, ...) GREATEST_RUN_CALL_(#T, T(__VA_ARGS__))
#define GREATEST_IGNORE_TEST(T) (void)T
/* Everything run within BODY, in an order that depends on the seed. BODY is evaluated many times.
 */
#define GREATEST_SHUFFLE_SUITES(SEED, BODY) GREATEST_SHUFFLE(0, SEED, BODY)
#define GREATEST_SHUFFLE_TESTS(SEED, BODY) GREATEST_SHUFFLE(1, SEED, BODY)
#define GREATEST_SHUFFLE(ID, SEED, BODY)                                                           \
    do {                                                                                           \
        memset(&greatest_info.shuffle[ID], 0, sizeof greatest_info.shuffle[ID]);                   \
        greatest_info.shuffle[ID].on = 1;                                                          \
        do {                                                                                       \
            BODY;                                                                                  \
        } while (!GREATEST_FAILURE_ABORT() && greatest_shuffle_next(ID, (unsigned long)(SEED)));   \
        greatest_info.shuffle[ID].on = 0;                                                          \
    } while (0)

#define GREATEST_PASSm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.msg = MSG;                                                                   \
        return GREATEST_TEST_RES_PASS;                                                             \
    } while (0)
#define GREATEST_SKIPm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.msg = MSG;                                                                   \
        return GREATEST_TEST_RES_SKIP;                                                             \
    } while (0)
#define GREATEST_FAILm(MSG)                                                                        \
    do {                                                                                           \
        greatest_info.fail_file = __FILE__;                                                        \
        greatest_info.fail_line = __LINE__;                                                        \
        greatest_info.msg = MSG;                                                                   \
        if (GREATEST_ABORT_ON_FAIL())                                                              \
            abort();                                                                               \
        return GREATEST_TEST_RES_FAIL;                                                             \
    } while (0)
#if GREATEST_USE_LONGJMP
#define GREATEST_FAIL_WITH_LONGJMP() GREATEST_FAIL_WITH_LONGJMPm(NULL)
#define GREATEST_FAIL_WITH_LONGJMPm(MSG)                                                           \
    do {                                                                                           \
        greatest_info.fail_file = __FILE__;                                                        \
        greatest_info.fail_line = __LINE__;                                                        \
        greatest_info.msg = MSG;                                                                   \
        longjmp(greatest_info.jump_dest, GREATEST_TEST_RES_FAIL);                                  \
    } while (0)
#define GREATEST_ASSERT_OR_LONGJMP(COND) GREATEST_ASSERT_OR_LONGJMPm(#COND, COND)
#define GREATEST_ASSERT_OR_LONGJMPm(MSG, COND)                                                     \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!(COND))                                                                               \
            GREATEST_FAIL_WITH_LONGJMPm(MSG);                                                      \
    } while (0)
#endif
#define GREATEST_ASSERTm(MSG, COND)                                                                \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!(COND))                                                                               \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
#define GREATEST_ASSERT_FALSEm(MSG, COND)                                                          \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (COND)                                                                                  \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
#define GREATEST_ASSERT_FMT_(MSG, COND, FMT, EXP, GOT)                                             \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!(COND)) {                                                                             \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: " FMT "\n     Got: " FMT "\n", EXP,     \
                             GOT);                                                                 \
            GREATEST_FAILm(MSG);                                                                   \
        }                                                                                          \
    } while (0)
#define GREATEST_ASSERT_EQm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) == (GOT))
#define GREATEST_ASSERT_NEQm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) != (GOT))
#define GREATEST_ASSERT_GTm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) > (GOT))
#define GREATEST_ASSERT_GTEm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) >= (GOT))
#define GREATEST_ASSERT_LTm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) < (GOT))
#define GREATEST_ASSERT_LTEm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) <= (GOT))
#define GREATEST_ASSERT_EQ_FMTm(MSG, EXP, GOT, FMT)                                                \
    GREATEST_ASSERT_FMT_(MSG, (EXP) == (GOT), FMT, EXP, GOT)
#define GREATEST_ASSERT_ENUM_EQm(MSG, EXP, GOT, STR)                                               \
    GREATEST_ASSERT_FMT_(MSG, (int)(EXP) == (int)(GOT), "%s", (STR)(EXP), (STR)(GOT))
#define GREATEST_ASSERT_EQUAL_Tm(MSG, EXP, GOT, TYPE_INFO, UDATA)                                  \
    do {                                                                                           \
        greatest_info.assertions++;                                                                \
        if (!greatest_do_assert_equal_t(EXP, GOT, TYPE_INFO, UDATA))                               \
            GREATEST_FAILm(MSG);                                                                   \
    } while (0)
#define GREATEST_ASSERT_STR_EQm(MSG, EXP, GOT)                                                     \
    GREATEST_ASSERT_EQUAL_Tm(MSG, EXP, GOT, &greatest_type_info_string, NULL)
#define GREATEST_ASSERT_STRN_EQm(MSG, EXP, GOT, SIZE)                                              \
    do {                                                                                           \
        size_t greatest_size = SIZE;                                                               \
        GREATEST_ASSERT_EQUAL_Tm(MSG, EXP, GOT, &greatest_type_info_string, &greatest_size);       \
    } while (0)
#define GREATEST_ASSERT_MEM_EQm(MSG, EXP, GOT, SIZE)                                               \
    do {                                                                                           \
        greatest_memory_cmp_env greatest_env;                                                      \
        greatest_env.exp = (const unsigned char *)(EXP);                                           \
        greatest_env.got = (const unsigned char *)(GOT);                                           \
        greatest_env.size = SIZE;                                                                  \
        GREATEST_ASSERT_EQUAL_Tm(MSG, greatest_env.exp, greatest_env.got,                          \
                                 &greatest_type_info_memory, &greatest_env);                       \
    } while (0)
/* |EXP - GOT| <= TOL, written so that NaN in any of the three fails. */
#define GREATEST_ASSERT_IN_RANGEm(MSG, EXP, GOT, TOL)                                              \
    do {                                                                                           \
        GREATEST_FLOAT greatest_exp = (EXP), greatest_got = (GOT), greatest_tol = (TOL);           \
        greatest_info.assertions++;                                                                \
        if (!(greatest_exp - greatest_got <= greatest_tol                                          \
              && greatest_got - greatest_exp <= greatest_tol)) {                                   \
            GREATEST_FPRINTF(GREATEST_STDOUT,                                                      \
                             "\nExpected: " GREATEST_FLOAT_FMT " +/- " GREATEST_FLOAT_FMT          \
                             "\n     Got: " GREATEST_FLOAT_FMT "\n",                               \
                             greatest_exp, greatest_tol, greatest_got);                            \
            GREATEST_FAILm(MSG);                                                                   \
        }                                                                                          \
    } while (0)
#define GREATEST_CHECK_CALL(RES)                                                                   \
    do {                                                                                           \
        enum greatest_test_res greatest_check_res = RES;                                           \
        if (greatest_check_res != GREATEST_TEST_RES_PASS)                                          \
            return greatest_check_res;                                                             \
    } while (0)

static GREATEST_UNUSED void GREATEST_SET_SETUP_CB(greatest_setup_cb *cb, void *udata) {
    greatest_info.setup = cb;
    greatest_info.setup_udata = udata;
}

static GREATEST_UNUSED void GREATEST_SET_TEARDOWN_CB(greatest_teardown_cb *cb, void *udata) {
    greatest_info.teardown = cb;
    greatest_info.teardown_udata = udata;
}

#define GREATEST_ASSERT(COND) GREATEST_ASSERTm(#COND, COND)
#define GREATEST_ASSERT_FALSE(COND) GREATEST_ASSERT_FALSEm(#COND, COND)
#define GREATEST_ASSERT_EQ(EXP, GOT) GREATEST_ASSERT_EQm(#EXP " != " #GOT, EXP, GOT)
#define GREATEST_ASSERT_NEQ(EXP, GOT) GREATEST_ASSERT_NEQm(#EXP " == " #GOT, EXP, GOT)
#define GREATEST_ASSERT_GT(EXP, GOT) GREATEST_ASSERT_GTm(#EXP " <= " #GOT, EXP, GOT)
#define GREATEST_ASSERT_GTE(EXP, GOT) GREATEST_ASSERT_GTEm(#EXP " < " #GOT, EXP, GOT)
#define GREATEST_ASSERT_LT(EXP, GOT) GREATEST_ASSERT_LTm(#EXP " >= " #GOT, EXP, GOT)
#define GREATEST_ASSERT_LTE(EXP, GOT) GREATEST_ASSERT_LTEm(#EXP " > " #GOT, EXP, GOT)
#define GREATEST_ASSERT_EQ_FMT(EXP, GOT, FMT)                                                      \
    GREATEST_ASSERT_EQ_FMTm(#EXP " != " #GOT, EXP, GOT, FMT)
#define GREATEST_ASSERT_IN_RANGE(EXP, GOT, TOL)                                                    \
    GREATEST_ASSERT_IN_RANGEm(#EXP " != " #GOT " +/- " #TOL, EXP, GOT, TOL)
#define GREATEST_ASSERT_STR_EQ(EXP, GOT) GREATEST_ASSERT_STR_EQm(#EXP " != " #GOT, EXP, GOT)
#define GREATEST_ASSERT_STRN_EQ(EXP, GOT, SIZE)                                                    \
    GREATEST_ASSERT_STRN_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define GREATEST_ASSERT_MEM_EQ(EXP, GOT, SIZE)                                                     \
    GREATEST_ASSERT_MEM_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define GREATEST_ASSERT_ENUM_EQ(EXP, GOT, STR)                                                     \
    GREATEST_ASSERT_ENUM_EQm(#EXP " != " #GOT, EXP, GOT, STR)
#define GREATEST_PASS() GREATEST_PASSm(NULL)
#define GREATEST_FAIL() GREATEST_FAILm(NULL)
#define GREATEST_SKIP() GREATEST_SKIPm(NULL)
#define GREATEST_ASSERT_EQUAL_T(EXP, GOT, TYPE_INFO, UDATA)                                        \
    GREATEST_ASSERT_EQUAL_Tm(#EXP " != " #GOT, EXP, GOT, TYPE_INFO, UDATA)

#ifndef GREATEST_USE_ABBREVS
#define GREATEST_USE_ABBREVS 1
#endif
#if GREATEST_USE_ABBREVS
#define TEST GREATEST_TEST
#define SUITE GREATEST_SUITE
#define SUITE_EXTERN GREATEST_SUITE_EXTERN
#define RUN_TEST GREATEST_RUN_TEST
#define RUN_TEST1 GREATEST_RUN_TEST1
#define RUN_TESTp GREATEST_RUN_TESTp
#define RUN_SUITE GREATEST_RUN_SUITE
#define ASSERT GREATEST_ASSERT
#define ASSERTm GREATEST_ASSERTm
#define ASSERT_FALSE GREATEST_ASSERT_FALSE
#define ASSERT_FALSEm GREATEST_ASSERT_FALSEm
#define ASSERT_EQ GREATEST_ASSERT_EQ
#define ASSERT_EQm GREATEST_ASSERT_EQm
#define ASSERT_NEQ GREATEST_ASSERT_NEQ
#define ASSERT_NEQm GREATEST_ASSERT_NEQm
#define ASSERT_GT GREATEST_ASSERT_GT
#define ASSERT_GTm GREATEST_ASSERT_GTm
#define ASSERT_GTE GREATEST_ASSERT_GTE
#define ASSERT_GTEm GREATEST_ASSERT_GTEm
#define ASSERT_LT GREATEST_ASSERT_LT
#define ASSERT_LTm GREATEST_ASSERT_LTm
#define ASSERT_LTE GREATEST_ASSERT_LTE
#define ASSERT_LTEm GREATEST_ASSERT_LTEm
#define ASSERT_EQ_FMT GREATEST_ASSERT_EQ_FMT
#define ASSERT_EQ_FMTm GREATEST_ASSERT_EQ_FMTm
#define ASSERT_IN_RANGE GREATEST_ASSERT_IN_RANGE
#define ASSERT_IN_RANGEm GREATEST_ASSERT_IN_RANGEm
#define ASSERT_STR_EQ GREATEST_ASSERT_STR_EQ
#define ASSERT_STR_EQm GREATEST_ASSERT_STR_EQm
#define ASSERT_STRN_EQ GREATEST_ASSERT_STRN_EQ
#define ASSERT_STRN_EQm GREATEST_ASSERT_STRN_EQm
#define ASSERT_MEM_EQ GREATEST_ASSERT_MEM_EQ
#define ASSERT_MEM_EQm GREATEST_ASSERT_MEM_EQm
#define ASSERT_ENUM_EQ GREATEST_ASSERT_ENUM_EQ
#define ASSERT_ENUM_EQm GREATEST_ASSERT_ENUM_EQm
#define PASS GREATEST_PASS
#define FAIL GREATEST_FAIL
#define SKIP GREATEST_SKIP
#define PASSm GREATEST_PASSm
#define FAILm GREATEST_FAILm
#define SKIPm GREATEST_SKIPm
#define CHECK_CALL GREATEST_CHECK_CALL
#define SET_SETUP GREATEST_SET_SETUP_CB
#define SET_TEARDOWN GREATEST_SET_TEARDOWN_CB
#define ASSERT_EQUAL_T GREATEST_ASSERT_EQUAL_T
#define ASSERT_EQUAL_Tm GREATEST_ASSERT_EQUAL_Tm
#define IGNORE_TEST GREATEST_IGNORE_TEST
#define SHUFFLE_TESTS GREATEST_SHUFFLE_TESTS
#define SHUFFLE_SUITES GREATEST_SHUFFLE_SUITES
#if GREATEST_USE_LONGJMP
#define ASSERT_OR_LONGJMP GREATEST_ASSERT_OR_LONGJMP
#define ASSERT_OR_LONGJMPm GREATEST_ASSERT_OR_LONGJMPm
#define FAIL_WITH_LONGJMP GREATEST_FAIL_WITH_LONGJMP
#define FAIL_WITH_LONGJMPm GREATEST_FAIL_WITH_LONGJMPm
#endif
#endif
#endif /* GREATEST_H */
