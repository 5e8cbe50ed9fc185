#!/bin/sh
# run.sh PROGRAM...: runs the test programs, two at a time, prints what failed and the closing line 'N passed, N failed'.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
one='name=$(basename "$1"); OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=passive "$1" >"$2/$name.log" 2>&1; echo $? >"$2/$name.rc"'
for p in "$@"; do echo "$p"; done | xargs -P 2 -I{} sh -c "$one" sh {} "$dir"
passed=0 failed=0
for p in "$@"; do
    name=$(basename "$p")
    rc=$(cat "$dir/$name.rc" 2>/dev/null || echo 127)
    line=$(grep -E '^Pass: [0-9]+, fail: [0-9]+, skip: [0-9]+' "$dir/$name.log" 2>/dev/null | tail -n 1)
    ok=$(echo "$line" | sed -n 's/^Pass: \([0-9]*\),.*/\1/p')
    bad=$(echo "$line" | sed -n 's/.*fail: \([0-9]*\),.*/\1/p')
    time=$(sed -n 's/^Total: .*[( ]\([0-9.]*\) sec).*/\1/p' "$dir/$name.log" 2>/dev/null | tail -n 1)
    if [ -z "$line" ] || [ "${ok:-0}" = 0 ]; then bad=$((${bad:-0} + 1)); ok=${ok:-0}; echo "$name: exit status $rc and no test passed"; fi
    if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    passed=$((passed + ok)); failed=$((failed + bad))
    echo "$name: $ok passed, $bad failed (${time:-?} s)"
    [ "$bad" = 0 ] || grep -v '^\.*$' "$dir/$name.log" | tail -n 40
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
