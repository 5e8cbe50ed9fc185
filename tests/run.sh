#!/bin/sh
# run.sh PROGRAM...: runs the test programs, two at a time, and prints a line for each that has finished, with what failed in it.
# The closing line is 'N passed, N failed'.
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
: >"$dir/counts"
cat >"$dir/one.sh" <<'X'
program=$1 dir=$2 name=$(basename "$1")
OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMP_WAIT_POLICY=passive "$program" >"$dir/$name.log" 2>&1
status=$?
line=$(grep -E '^Pass: [0-9]+, fail: [0-9]+, skip: [0-9]+' "$dir/$name.log" | tail -n 1)
passed=$(echo "$line" | sed -n 's/^Pass: \([0-9]*\),.*/\1/p')
failed=$(echo "$line" | sed -n 's/.*fail: \([0-9]*\),.*/\1/p')
seconds=$(sed -n 's/^Total: .*[( ]\([0-9.]*\) sec).*/\1/p' "$dir/$name.log" | tail -n 1)
passed=${passed:-0} failed=${failed:-0}
if [ "$passed" = 0 ]; then failed=$((failed + 1)); echo "$name: exit status $status and no test passed"; fi
if [ "$status" != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "$passed $failed" >>"$dir/counts"
echo "$name: $passed passed, $failed failed (${seconds:-?} s)"
[ "$failed" = 0 ] || grep -v '^\.*$' "$dir/$name.log" | tail -n 40
X
for program in "$@"; do echo "$program"; done | xargs -P 2 -I{} sh "$dir/one.sh" {} "$dir"
passed=$(awk '{ n += $1 } END { print n + 0 }' "$dir/counts")
failed=$(awk '{ n += $2 } END { print n + 0 }' "$dir/counts")
# a program that was killed has left no line
lost=$(($# - $(wc -l <"$dir/counts")))
[ "$lost" = 0 ] || { echo "$lost programs without an end"; failed=$((failed + lost)); }
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
