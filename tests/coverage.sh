#!/bin/sh
# coverage.sh: gcov over all tests. Prints the share of lines run in each header and the public functions no test calls; fails below 90 % or with any.
cd "$(dirname "$0")/.." || exit 1
top=$(pwd) dir=$(mktemp -d) bad=0
trap 'rm -rf "$dir"' EXIT
for t in tests/test_*.c; do
    n=$(basename "$t" .c)
    mkdir "$dir/$n"
    (cd "$dir/$n" && gcc -std=c99 -D_POSIX_C_SOURCE=200809L -O1 --coverage -I"$top" -I"$top/tests" -I"$top/examples" "$top/$t" -o run -lm && ./run >log 2>&1 && gcov -o . ./*.gcda >/dev/null 2>&1) || { echo "$n did not run"; tail -n 5 "$dir/$n/log"; bad=1; }
done
for h in fsi_*.h; do                                           # a line counts when any test runs it
    cat "$dir"/*/"$h.gcov" 2>/dev/null | awk -F: -v h="$h" '
        { n = $2 + 0; c = $1; gsub(/[ *]/, "", c); if (n == 0 || c == "-") next; seen[n] = 1; if (c !~ /^[#=]/) run[n] = 1; text[n] = $3 }
        END { for (n in seen) { all++; if (n in run) hit++; else if (text[n] ~ /^FSI_API.*\(/) missed = missed "\n  not called: " text[n] }
              printf "%s: %.1f %% of %d lines%s\n", h, 100 * hit / all, all, missed; exit !(hit >= 0.9 * all && missed == "") }' || bad=1
done
exit $bad
