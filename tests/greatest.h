/* SPDX-License-Identifier: MIT OR Unlicense
   greatest.h: a small unit test header with the macro names, options and closing lines of the well-known one, written for
   this project. The other file drops in unchanged: make test GREATEST=path/to/greatest.h

   TEST name(void) { ASSERT_EQ(1, 1); PASS(); }
   SUITE(suite) { RUN_TEST(name); }
   GREATEST_MAIN_DEFS();
   int main(int argc, char **argv) { GREATEST_MAIN_BEGIN(); RUN_SUITE(suite); GREATEST_MAIN_END(); }

   Differences: near-equality (ASSERT_IN_RANGE) fails on NaN; no longjmp, no shuffling. */
#ifdef GREATEST_INSTEAD                    /* make GREATEST=path names another file: tests include it through this one, which they all find first */
#include GREATEST_INSTEAD
#elif !defined(GREATEST_H)
#define GREATEST_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
#ifndef GREATEST_FLOAT
#define GREATEST_FLOAT double
#define GREATEST_FLOAT_FMT "%g"
#endif

typedef enum greatest_test_res { GREATEST_TEST_RES_PASS = 0, GREATEST_TEST_RES_FAIL = -1, GREATEST_TEST_RES_SKIP = 1 } greatest_test_res;
typedef void greatest_setup_cb(void *udata);
typedef void greatest_teardown_cb(void *udata);
typedef const char *greatest_enum_str_fun(int value);

typedef struct greatest_run_info {
    unsigned passed, failed, skipped, tests_run, suite_run, suite_failed, assertions;
    unsigned suites;                       /* suites run so far */
    int verbosity, list_only, first_fail, abort_on_fail, exact, column;
    const char *suite_filter, *test_filter, *test_exclude, *name, *suite_name;
    const char *msg, *fail_file;           /* of the test that is running */
    unsigned fail_line;
    greatest_setup_cb *setup;
    greatest_teardown_cb *teardown;
    void *setup_udata, *teardown_udata;
    clock_t begin, suite_begin, test_begin;
} greatest_run_info;

extern greatest_run_info greatest_info;

#define GREATEST_MAIN_DEFS() greatest_run_info greatest_info
#define GREATEST_TEST static greatest_test_res
#define GREATEST_SUITE(NAME) static void NAME(void)
#define GREATEST_SUITE_EXTERN(NAME) void NAME(void)
#define GREATEST_IS_VERBOSE() (greatest_info.verbosity > 0)
#define GREATEST_LIST_ONLY() (greatest_info.list_only)
#define GREATEST_FIRST_FAIL() (greatest_info.first_fail)
#define GREATEST_FAILURE_ABORT() (greatest_info.first_fail && (greatest_info.failed > 0 || greatest_info.suite_failed > 0))

/* 1 when name passes the filter (substring, or whole name with -e). */
static GREATEST_UNUSED int greatest_name_match(const char *name, const char *filter, int otherwise) {
    if (!filter) return otherwise;
    return greatest_info.exact ? strcmp(name, filter) == 0 : strstr(name, filter) != NULL;
}

static GREATEST_UNUSED int greatest_test_pre(const char *name) {
    greatest_run_info *g = &greatest_info;
    int wanted = greatest_name_match(name, g->test_filter, 1) && !greatest_name_match(name, g->test_exclude, 0);
    if (g->list_only) {
        if (wanted) GREATEST_FPRINTF(GREATEST_STDOUT, "  %s\n", name);
        return 0;
    }
    if (!wanted || (g->first_fail && g->failed + g->suite_failed > 0)) return 0;
    g->name = name;
    g->msg = NULL;
    g->fail_file = NULL;
    g->fail_line = 0;
    if (g->setup) g->setup(g->setup_udata);
    g->test_begin = clock();
    return 1;
}

static GREATEST_UNUSED void greatest_test_post(greatest_test_res res) {
    greatest_run_info *g = &greatest_info;
    double ticks = (double)(clock() - g->test_begin);
    const char *word = res == GREATEST_TEST_RES_PASS ? "PASS" : res == GREATEST_TEST_RES_FAIL ? "FAIL" : "SKIP";
    if (g->teardown) g->teardown(g->teardown_udata);
    g->suite_run++;
    g->tests_run++;
    if (res == GREATEST_TEST_RES_PASS) g->passed++;
    else if (res == GREATEST_TEST_RES_SKIP) g->skipped++;
    else { g->failed++; g->suite_failed++; }
    if (res == GREATEST_TEST_RES_FAIL || g->verbosity > 0) {
        if (res == GREATEST_TEST_RES_FAIL && !g->verbosity) GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
        GREATEST_FPRINTF(GREATEST_STDOUT, "%s %s: %s", word, g->name, g->msg ? g->msg : "");
        if (res == GREATEST_TEST_RES_FAIL) GREATEST_FPRINTF(GREATEST_STDOUT, " (%s:%u)", g->fail_file ? g->fail_file : "?", g->fail_line);
        if (g->verbosity) GREATEST_FPRINTF(GREATEST_STDOUT, " (%.0f ticks, %.3f sec)", ticks, ticks / (double)CLOCKS_PER_SEC);
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    } else {
        GREATEST_FPRINTF(GREATEST_STDOUT, res == GREATEST_TEST_RES_SKIP ? "s" : ".");
        if (++g->column % 79 == 0) GREATEST_FPRINTF(GREATEST_STDOUT, "\n");
    }
    fflush(GREATEST_STDOUT);
    if (res == GREATEST_TEST_RES_FAIL && g->abort_on_fail) abort();
}

static GREATEST_UNUSED void greatest_run_suite(void (*suite)(void), const char *name) {
    greatest_run_info *g = &greatest_info;
    if (!greatest_name_match(name, g->suite_filter, 1)) return;
    if (g->first_fail && g->failed > 0) return;
    g->suite_run = g->suite_failed = 0;
    g->suite_name = name;
    g->setup = NULL;
    g->teardown = NULL;
    g->column = 0;
    g->suites++;
    GREATEST_FPRINTF(GREATEST_STDOUT, "\n* Suite %s:\n", name);
    g->suite_begin = clock();
    suite();
    if (!g->list_only && g->suite_run > 0)
        GREATEST_FPRINTF(GREATEST_STDOUT, "\n%u test%s - %u passed, %u failed (%.3f sec)\n", g->suite_run, g->suite_run == 1 ? "" : "s",
                         g->suite_run - g->suite_failed, g->suite_failed, (double)(clock() - g->suite_begin) / (double)CLOCKS_PER_SEC);
}

static GREATEST_UNUSED void greatest_usage(const char *name) {
    GREATEST_FPRINTF(GREATEST_STDOUT,
                     "Usage: %s [-hlfavex] [-s SUITE] [-t TEST] [-x EXCLUDE]\n"
                     "  -h, --help  print this help\n  -l          list suites and tests, then exit\n  -f          stop after the first failure\n"
                     "  -a          abort on the first failure\n  -v          verbose output\n  -s SUITE    only run suites whose name contains SUITE\n"
                     "  -t TEST     only run tests whose name contains TEST\n  -e          only run exact name matches for -s or -t\n"
                     "  -x EXCLUDE  leave out tests whose name contains EXCLUDE\n", name);
}

static GREATEST_UNUSED void greatest_parse_options(int argc, char **argv) {
    greatest_run_info *g = &greatest_info;
    int i;
    for (i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--")) return;
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) { greatest_usage(argv[0]); exit(EXIT_SUCCESS); }
        if (a[0] != '-' || a[1] == 0 || a[2] != 0) { greatest_usage(argv[0]); exit(EXIT_FAILURE); }
        if (strchr("stx", a[1])) {
            const char *value = i + 1 < argc ? argv[++i] : NULL;
            if (!value) { greatest_usage(argv[0]); exit(EXIT_FAILURE); }
            if (a[1] == 's') g->suite_filter = value;
            else if (a[1] == 't') g->test_filter = value;
            else g->test_exclude = value;
        } else if (a[1] == 'v') g->verbosity++;
        else if (a[1] == 'l') g->list_only = 1;
        else if (a[1] == 'f') g->first_fail = 1;
        else if (a[1] == 'a') g->abort_on_fail = 1;
        else if (a[1] == 'e') g->exact = 1;
        else { greatest_usage(argv[0]); exit(EXIT_FAILURE); }
    }
}

#define GREATEST_INIT() do { memset(&greatest_info, 0, sizeof greatest_info); greatest_info.begin = clock(); } while (0)
#define GREATEST_MAIN_BEGIN() do { GREATEST_INIT(); greatest_parse_options(argc, argv); } while (0)
#define GREATEST_PRINT_REPORT()                                                                                                 \
    do {                                                                                                                        \
        if (!greatest_info.list_only) {                                                                                         \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nTotal: %u test%s (%.3f sec), %u assertion%s\n", greatest_info.tests_run,       \
                             greatest_info.tests_run == 1 ? "" : "s", (double)(clock() - greatest_info.begin) / (double)CLOCKS_PER_SEC, \
                             greatest_info.assertions, greatest_info.assertions == 1 ? "" : "s");                               \
            GREATEST_FPRINTF(GREATEST_STDOUT, "Pass: %u, fail: %u, skip: %u.\n", greatest_info.passed, greatest_info.failed,    \
                             greatest_info.skipped);                                                                            \
        }                                                                                                                       \
    } while (0)
#define GREATEST_MAIN_END()                                                                                                     \
    do {                                                                                                                        \
        GREATEST_PRINT_REPORT();                                                                                                \
        return greatest_info.failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;                                                          \
    } while (0)

#define GREATEST_RUN_SUITE(S) greatest_run_suite(S, #S)
#define GREATEST_RUN_TEST(T) do { if (greatest_test_pre(#T)) greatest_test_post(T()); } while (0)
#define GREATEST_RUN_TEST1(T, ENV) do { if (greatest_test_pre(#T)) greatest_test_post(T(ENV)); } while (0)
#define GREATEST_RUN_TESTp(T, ...) do { if (greatest_test_pre(#T)) greatest_test_post(T(__VA_ARGS__)); } while (0)

#define GREATEST_PASSm(MSG) do { greatest_info.msg = MSG; return GREATEST_TEST_RES_PASS; } while (0)
#define GREATEST_SKIPm(MSG) do { greatest_info.msg = MSG; return GREATEST_TEST_RES_SKIP; } while (0)
#define GREATEST_FAILm(MSG)                                                                                                     \
    do {                                                                                                                        \
        greatest_info.fail_file = __FILE__;                                                                                     \
        greatest_info.fail_line = __LINE__;                                                                                     \
        greatest_info.msg = MSG;                                                                                                \
        return GREATEST_TEST_RES_FAIL;                                                                                          \
    } while (0)
#define GREATEST_ASSERTm(MSG, COND) do { greatest_info.assertions++; if (!(COND)) GREATEST_FAILm(MSG); } while (0)
#define GREATEST_ASSERT_FALSEm(MSG, COND) do { greatest_info.assertions++; if (COND) GREATEST_FAILm(MSG); } while (0)
#define GREATEST_ASSERT_FMT_(MSG, COND, FMT, EXP, GOT)                                                                          \
    do {                                                                                                                        \
        greatest_info.assertions++;                                                                                             \
        if (!(COND)) {                                                                                                          \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: " FMT "\n     Got: " FMT "\n", EXP, GOT);                            \
            GREATEST_FAILm(MSG);                                                                                                \
        }                                                                                                                       \
    } while (0)
#define GREATEST_ASSERT_EQm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) == (GOT))
#define GREATEST_ASSERT_NEQm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) != (GOT))
#define GREATEST_ASSERT_GTm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) > (GOT))
#define GREATEST_ASSERT_GTEm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) >= (GOT))
#define GREATEST_ASSERT_LTm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) < (GOT))
#define GREATEST_ASSERT_LTEm(MSG, EXP, GOT) GREATEST_ASSERTm(MSG, (EXP) <= (GOT))
#define GREATEST_ASSERT_EQ_FMTm(MSG, EXP, GOT, FMT) GREATEST_ASSERT_FMT_(MSG, (EXP) == (GOT), FMT, EXP, GOT)
#define GREATEST_ASSERT_ENUM_EQm(MSG, EXP, GOT, STR) GREATEST_ASSERT_FMT_(MSG, (int)(EXP) == (int)(GOT), "%s", (STR)(EXP), (STR)(GOT))
#define GREATEST_ASSERT_STR_EQm(MSG, EXP, GOT) GREATEST_ASSERT_FMT_(MSG, strcmp(EXP, GOT) == 0, "%s", EXP, GOT)
#define GREATEST_ASSERT_STRN_EQm(MSG, EXP, GOT, SIZE) GREATEST_ASSERTm(MSG, strncmp(EXP, GOT, SIZE) == 0)
#define GREATEST_ASSERT_MEM_EQm(MSG, EXP, GOT, SIZE) GREATEST_ASSERTm(MSG, memcmp(EXP, GOT, SIZE) == 0)
/* |EXP - GOT| <= TOL, written so that NaN in any of the three fails. */
#define GREATEST_ASSERT_IN_RANGEm(MSG, EXP, GOT, TOL)                                                                           \
    do {                                                                                                                        \
        GREATEST_FLOAT greatest_exp = (EXP), greatest_got = (GOT), greatest_tol = (TOL);                                        \
        greatest_info.assertions++;                                                                                             \
        if (!(greatest_exp - greatest_got <= greatest_tol && greatest_got - greatest_exp <= greatest_tol)) {                    \
            GREATEST_FPRINTF(GREATEST_STDOUT, "\nExpected: " GREATEST_FLOAT_FMT " +/- " GREATEST_FLOAT_FMT "\n     Got: "       \
                             GREATEST_FLOAT_FMT "\n", greatest_exp, greatest_tol, greatest_got);                                \
            GREATEST_FAILm(MSG);                                                                                                \
        }                                                                                                                       \
    } while (0)
#define GREATEST_CHECK_CALL(RES)                                                                                                \
    do {                                                                                                                        \
        enum greatest_test_res greatest_check_res = RES;                                                                        \
        if (greatest_check_res != GREATEST_TEST_RES_PASS) return greatest_check_res;                                            \
    } while (0)

#define GREATEST_SET_SETUP_CB(CB, UDATA) do { greatest_info.setup = CB; greatest_info.setup_udata = UDATA; } while (0)
#define GREATEST_SET_TEARDOWN_CB(CB, UDATA) do { greatest_info.teardown = CB; greatest_info.teardown_udata = UDATA; } while (0)

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
#define ASSERT(COND) GREATEST_ASSERTm(#COND, COND)
#define ASSERTm GREATEST_ASSERTm
#define ASSERT_FALSE(COND) GREATEST_ASSERT_FALSEm(#COND, COND)
#define ASSERT_FALSEm GREATEST_ASSERT_FALSEm
#define ASSERT_EQ(EXP, GOT) GREATEST_ASSERT_EQm(#EXP " != " #GOT, EXP, GOT)
#define ASSERT_EQm GREATEST_ASSERT_EQm
#define ASSERT_NEQ(EXP, GOT) GREATEST_ASSERT_NEQm(#EXP " == " #GOT, EXP, GOT)
#define ASSERT_NEQm GREATEST_ASSERT_NEQm
#define ASSERT_GT(EXP, GOT) GREATEST_ASSERT_GTm(#EXP " <= " #GOT, EXP, GOT)
#define ASSERT_GTm GREATEST_ASSERT_GTm
#define ASSERT_GTE(EXP, GOT) GREATEST_ASSERT_GTEm(#EXP " < " #GOT, EXP, GOT)
#define ASSERT_GTEm GREATEST_ASSERT_GTEm
#define ASSERT_LT(EXP, GOT) GREATEST_ASSERT_LTm(#EXP " >= " #GOT, EXP, GOT)
#define ASSERT_LTm GREATEST_ASSERT_LTm
#define ASSERT_LTE(EXP, GOT) GREATEST_ASSERT_LTEm(#EXP " > " #GOT, EXP, GOT)
#define ASSERT_LTEm GREATEST_ASSERT_LTEm
#define ASSERT_EQ_FMT(EXP, GOT, FMT) GREATEST_ASSERT_EQ_FMTm(#EXP " != " #GOT, EXP, GOT, FMT)
#define ASSERT_EQ_FMTm GREATEST_ASSERT_EQ_FMTm
#define ASSERT_IN_RANGE(EXP, GOT, TOL) GREATEST_ASSERT_IN_RANGEm(#EXP " != " #GOT " +/- " #TOL, EXP, GOT, TOL)
#define ASSERT_IN_RANGEm GREATEST_ASSERT_IN_RANGEm
#define ASSERT_STR_EQ(EXP, GOT) GREATEST_ASSERT_STR_EQm(#EXP " != " #GOT, EXP, GOT)
#define ASSERT_STR_EQm GREATEST_ASSERT_STR_EQm
#define ASSERT_STRN_EQ(EXP, GOT, SIZE) GREATEST_ASSERT_STRN_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_STRN_EQm GREATEST_ASSERT_STRN_EQm
#define ASSERT_MEM_EQ(EXP, GOT, SIZE) GREATEST_ASSERT_MEM_EQm(#EXP " != " #GOT, EXP, GOT, SIZE)
#define ASSERT_MEM_EQm GREATEST_ASSERT_MEM_EQm
#define ASSERT_ENUM_EQ(EXP, GOT, STR) GREATEST_ASSERT_ENUM_EQm(#EXP " != " #GOT, EXP, GOT, STR)
#define ASSERT_ENUM_EQm GREATEST_ASSERT_ENUM_EQm
#define PASS() GREATEST_PASSm(NULL)
#define FAIL() GREATEST_FAILm(NULL)
#define SKIP() GREATEST_SKIPm(NULL)
#define PASSm GREATEST_PASSm
#define FAILm GREATEST_FAILm
#define SKIPm GREATEST_SKIPm
#define CHECK_CALL GREATEST_CHECK_CALL
#define SET_SETUP GREATEST_SET_SETUP_CB
#define SET_TEARDOWN GREATEST_SET_TEARDOWN_CB
#endif
#endif /* GREATEST_H */
