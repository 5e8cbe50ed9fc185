/* Who allocated, and who saw an allocation fail: for every call of the failing allocator of check.h
   the return addresses on the stack, in pairs (callee, caller), each once, to the file that
   CHECK_TRACE_OUT names. Only with -DCHECK_TRACE (glibc); allocs.sh turns them into functions. */
#ifndef TRACE_H
#define TRACE_H
#include <execinfo.h>

enum {
    TRACE_PAIRS = 1 << 16,
    TRACE_DEPTH = 48
};

static struct {
    void *at, *from;
    int failed;
} trace_pair[TRACE_PAIRS];

static void trace_write(void) {
    FILE *out = getenv("CHECK_TRACE_OUT") ? fopen(getenv("CHECK_TRACE_OUT"), "a") : NULL;
    int i;
    for (i = 0; out && i < TRACE_PAIRS; i++)
        if (trace_pair[i].at)
            fprintf(out, "%lx %lx %d\n", (unsigned long)(uintptr_t)trace_pair[i].at,
                    (unsigned long)(uintptr_t)trace_pair[i].from, trace_pair[i].failed);
    if (out)
        fclose(out);
}

static void trace(int failed) {
    static int begun;
    void *frame[TRACE_DEPTH];
    int n = backtrace(frame, TRACE_DEPTH);
    if (!begun++)
        atexit(trace_write);
    for (int i = 1; i + 1 < n; i++) {
        size_t k = ((uintptr_t)frame[i] * 31 + (uintptr_t)frame[i + 1]) % TRACE_PAIRS;
        while (trace_pair[k].at
               && (trace_pair[k].at != frame[i] || trace_pair[k].from != frame[i + 1]))
            k = (k + 1) % TRACE_PAIRS;
        trace_pair[k].at = frame[i];
        trace_pair[k].from = frame[i + 1];
        trace_pair[k].failed |= failed;
    }
}
#endif
