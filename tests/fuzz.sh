#!/bin/sh
# fuzz.sh: the targets of fuzz.h for FUZZ_SECONDS in all (60 by default): seeds under gcc's sanitizers, then libFuzzer where clang has it.
# FUZZ_RUNS=N: always the same N seeds of each target and the same 50 N inputs of libFuzzer instead, so that make check gives the same answer twice.
cd "$(dirname "$0")/.." || exit 1
seconds=${FUZZ_SECONDS:-60} dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags="-std=c99 -D_POSIX_C_SOURCE=200809L -O1 -g -I. -Itests"
mkdir "$dir/corpus"
# half of the time: seeds, which any finding can be told by
gcc $flags -fsanitize=address,undefined -fno-sanitize-recover=all tests/fuzz.c -o "$dir/seeds" -lm || exit 1
first=${FUZZ_RUNS:+1}; first=${first:-$(date +%j%H%M)}; last=$((first + ${FUZZ_RUNS:-1000000})) end=$(($(date +%s) + seconds / 2)) bad=0 inputs=0
while [ "$first" -lt "$last" ] && { [ -n "$FUZZ_RUNS" ] || [ "$(date +%s)" -lt "$end" ]; }; do
    for target in 0 1 2 3 4 5 6; do
        timeout 300 "$dir/seeds" $target "$first" 25 >"$dir/log" 2>&1 || { cat "$dir/log"; echo "FAILED: fuzz $target $first 25"; bad=1; }
        inputs=$((inputs + 25))
    done
    first=$((first + 25))
done
echo "fuzz: $inputs seeds"
# the other half: libFuzzer, whose first byte chooses the target
if clang $flags -DFUZZ_LIB -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined tests/fuzz.c -o "$dir/lib" -lm 2>"$dir/why"; then
    (cd "$dir" && ./lib $([ -n "$FUZZ_RUNS" ] && echo "-seed=1 -runs=$((50 * FUZZ_RUNS))" || echo "-max_total_time=$((seconds / 2))") -max_len=4000 -timeout=60 -print_final_stats=1 corpus) >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; bad=1; }
    grep number_of_executed_units "$dir/log"
else
    echo "no libFuzzer here: $(head -n 1 "$dir/why")"
fi
exit $bad
