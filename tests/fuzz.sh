#!/bin/sh
# fuzz.sh [seeds | lib]: the targets of fuzz.h for FUZZ_SECONDS in all (60 by default): seeds under gcc's sanitizers, then libFuzzer where clang has it.
# FUZZ_RUNS=N: always the same N seeds of each target and the same 50 N inputs of libFuzzer instead, so that make check gives the same answer twice.
# FUZZ_ASAN: a libfsi.a that is already compiled with gcc's sanitizers. SINGLE=1 (make fuzz SINGLE=1): in single precision.
cd "$(dirname "$0")/.." || exit 1
seconds=${FUZZ_SECONDS:-60} part=${1:-both} dir=$(mktemp -d) bad=0
trap 'rm -rf "$dir"' EXIT
SINGLE=${SINGLE:-0} flags="-std=c99 -D_POSIX_C_SOURCE=200809L -O1 -g -I. -Itests -DFSI_DECLARATIONS_ONLY"
[ "$SINGLE" = 0 ] || flags="$flags -DFSI_SINGLE"
library() { make --no-print-directory B="$dir/$1" CC="$2" SINGLE="$SINGLE" OPENMP=0 CFLAGS="$3" "$dir/$1/libfsi.a"; }
# half of the time: seeds, which any finding can be told by
if [ "$part" != lib ]; then
    san="-fsanitize=address,undefined -fno-sanitize-recover=all"
    [ -n "$FUZZ_ASAN" ] || library gcc gcc "-O1 -g $san" >"$dir/log" 2>&1 || { tail -n 20 "$dir/log"; exit 1; }
    gcc $flags $san tests/fuzz.c "${FUZZ_ASAN:-$dir/gcc/libfsi.a}" -o "$dir/seeds" -lm || exit 1
    targets=$("$dir/seeds" targets) || exit 1
    first=${FUZZ_RUNS:+1}; first=${first:-$(date +%j%H%M)}; last=$((first + ${FUZZ_RUNS:-1000000})) end=$(($(date +%s) + seconds / 2)) inputs=0
    while [ "$first" -lt "$last" ] && { [ -n "$FUZZ_RUNS" ] || [ "$(date +%s)" -lt "$end" ]; }; do
        for target in $targets; do
            timeout 300 "$dir/seeds" "$target" "$first" 25 >"$dir/log" 2>&1 || { cat "$dir/log"; echo "FAILED: fuzz $target $first 25"; bad=1; }
            inputs=$((inputs + 25))
        done
        first=$((first + 25))
    done
    echo "fuzz: $inputs seeds"
fi
# the other half: libFuzzer, whose first byte chooses the target
if [ "$part" != seeds ]; then
    san="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined"
    mkdir "$dir/corpus"
    if library clang clang "-O1 -g $san" >"$dir/why" 2>&1 && clang $flags -DFUZZ_LIB $san -fsanitize=fuzzer tests/fuzz.c "$dir/clang/libfsi.a" -o "$dir/lib" -lm 2>>"$dir/why"; then
        (cd "$dir" && ./lib $([ -n "$FUZZ_RUNS" ] && echo "-seed=1 -runs=$((50 * FUZZ_RUNS))" || echo "-max_total_time=$((seconds / 2))") -max_len=4000 -timeout=60 -print_final_stats=1 corpus) >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; bad=1; }
        echo "fuzz: $(sed -n 's/^stat::number_of_executed_units: *//p' "$dir/log") inputs of libFuzzer"
    else
        echo "no libFuzzer here: $(tail -n 1 "$dir/why")"
        [ "$part" != lib ] || bad=1                              # asked for it alone
    fi
fi
exit $bad
