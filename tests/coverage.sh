#!/bin/sh
# coverage.sh: gcov over all tests. Prints the share of lines run in each header and the public functions no test calls; fails below 90 % or with any.
cd "$(dirname "$0")/.." || exit 1
top=$(pwd) dir=$(mktemp -d) bad=0
trap 'rm -rf "$dir"' EXIT
make --no-print-directory CC=gcc OPENMP=0 SINGLE=0 B="$dir" CFLAGS='-O1 --coverage' test-programs >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; exit 1; }
for t in tests/test_*.c; do
    "$dir/$(basename "$t" .c)" >"$dir/log" 2>&1 || { echo "$(basename "$t" .c) did not run"; tail -n 5 "$dir/log"; bad=1; }
done
for f in "$dir"/*.gcda; do mkdir "$f.d"; (cd "$f.d" && ln -s "$top"/fsi_*.h . && gcov "$f" >/dev/null 2>&1); done   # without the source gcov writes no line
for h in fsi_*.h; do                                           # a line counts when any test runs it
    cat "$dir"/*.d/"$h.gcov" 2>/dev/null | awk -F: -v h="$h" '
        { n = $2 + 0; c = $1; gsub(/[ *]/, "", c); if (n == 0 || c == "-") next; seen[n] = 1; if (c !~ /^[#=]/) run[n] = 1; text[n] = $3 }
        END { for (n in seen) { all++; if (n in run) hit++; else if (text[n] ~ /^FSI_API.*\(/) missed = missed "\n  not called: " text[n] }
              printf "%s: %.1f %% of %d lines%s\n", h, 100 * hit / (all ? all : 1), all, missed; exit !(all && hit >= 0.9 * all && missed == "") }' || bad=1
done
exit $bad
