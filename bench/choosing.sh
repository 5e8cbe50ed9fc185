#!/bin/sh
# choosing.sh: the table of docs/choosing.md. The floating disk of examples/one_scene.c by every method: where it floats, what a step costs, and the
# smallest density that stays stable (120 steps at 32 cells). Needs build/one_scene.
cd "$(dirname "$0")/.." || exit 1
get() { awk -F= -v k="result $1" '$1 == k { print $2 }' "$2"; }
t=$(mktemp)
echo '| method | depth over radius (exact 1) | error, cells | iterations a step | ms a step | lightest stable density |'
echo '|---|---|---|---|---|---|'
for m in weak partitioned xpm monolithic schur sph; do
    density=0.5
    [ $m = weak ] && density=2                                 # it cannot do 0.5; a sinking disk has no depth
    build/one_scene --size 64 --set method=$m --set density=$density >"$t"
    depth=$(get depth "$t") error=$(get error_cells "$t") its=$(get iterations "$t") s=$(get seconds_per_step "$t")
    [ $m = weak ] && depth='sinks at 2' error='-'
    limit=none
    for d in 4 2 1.5 1.2 1 0.8 0.5 0.2 0.1 0.05 0.01 0.001 0.0001; do
        build/one_scene --size 32 --frames 120 --set method=$m --set density=$d >"$t" 2>/dev/null
        [ "$(get stable "$t")" = 1 ] && limit=$d || break
    done
    echo "| $m | $depth | $error | $its | $(awk "BEGIN { printf \"%.1f\", 1000 * $s }") | $limit |"
done
rm -f "$t"
