#!/bin/sh
# check.sh [SECTION...]: what make check runs. Every row is one command that must succeed; rows run two at a time: what finds a typo first, then the long
# ones, and many short ones last so that both end together.
# CHECK_JOBS=1: one at a time. CHECK_STRICT=1 (.ci/run): a tool that could not be installed is a failure, not a skipped row. Sections: hygiene readme beside matrix subsets ports link folded symbols static single asan threads full tsan golden fuzz allocs valgrind web commands coverage (all by default; commands, coverage and
# the long parts of the others only with CHECK_FULL=1).
cd "$(dirname "$0")/.." || exit 1
top=$(pwd) dir=$(mktemp -d) rows=$dir/rows
trap 'rm -rf "$dir"' EXIT
: >"$rows"
CC=${CC:-cc}
strict="-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wcast-qual -Wdouble-promotion -Wundef -Wvla -Werror"
strict_c="$strict -Wstrict-prototypes -Wmissing-prototypes"
headers=${HEADERS:-$(ls fsi_*.h)}                               # HEADERS=fsi_linalg.h: only what concerns that one
sections=${*:-hygiene readme beside matrix subsets ports link folded symbols static single asan threads full tsan golden fuzz allocs valgrind web ${CHECK_FULL:+commands coverage}}
for s in $sections; do case " hygiene readme beside matrix subsets ports link folded symbols static single asan threads full tsan golden fuzz allocs valgrind web commands coverage " in *" $s "*) ;; *) echo "check: no section $s"; exit 1 ;; esac; done
want() { case " $sections " in *" $1 "*) return 0 ;; esac; return 1; }
row() { printf '%s\t%s\n' "$1" "$2" >>"$rows"; }             # row NAME COMMAND
# lib NAME FLAGS: the five headers compiled once into $dir/NAME/libfsi.a; prog NAME FLAGS TARGET: a program of the Makefile linked to it
lib() { echo "flock $dir/$1.lock make --no-print-directory B=$dir/$1 $2 $dir/$1/libfsi.a"; }
prog() { echo "$(lib "$1" "$2") && make --no-print-directory B=$dir/$1 $2 $dir/$1/$3"; }
have() { command -v "$1" >/dev/null 2>&1; }
# Debian packages for what is missing; without root or network the rows that need them are skipped by name.
wanted=""
install() { wanted="$wanted $*"; }
install_all() {
    missing=""
    for p in $wanted; do dpkg -s "$p" >/dev/null 2>&1 || missing="$missing $p"; done
    have node && missing=$(echo "$missing" | sed 's/ nodejs//')
    [ -z "$missing" ] && return
    [ "$(id -u)" = 0 ] && have apt-get || return
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing) >"$dir/apt" 2>&1 ||
        for p in $missing; do DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$p" >>"$dir/apt" 2>&1; done
}
want hygiene && install clang-format
want matrix && install clang g++
want beside && install g++ gcc-mingw-w64-x86-64 g++-mingw-w64-x86-64 libx11-dev
# not gcc-multilib, which throws the s390x compiler out
want ports && install tcc "gcc-$(gcc -dumpversion | cut -d. -f1)-multilib" gcc-mingw-w64-x86-64 wine wine64 qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross emscripten nodejs
want tsan && install clang libomp-dev
want fuzz && install clang libclang-rt-14-dev
want static && install cppcheck clang-tidy
want valgrind && install valgrind
want web && install emscripten nodejs npm chromium
begin=$(date +%s)
install_all
echo "check: packages in $(($(date +%s) - begin)) s"

# ---- sources used by the rows
# outputs go to $dir, never to /dev/null: clang removes the output of a compilation that fails, as root also a device
for h in $headers; do
    n=${h%.h}
    printf '#define FSI_IMPLEMENTATION\n#include "%s"\nint main(void) { return 0; }\n' "$h" >"$dir/$n.impl.c"
    printf '#include "%s"\n#define FSI_IMPLEMENTATION\n#include "%s"\nint main(void) { return 0; }\n' "$h" "$h" >"$dir/$n.late.c"
    printf '#define FSI_IMPLEMENTATION\n#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$h" "$h" >"$dir/$n.twice.c"
    printf '#define FSI_STATIC\n#define FSI_IMPLEMENTATION\n#include "%s"\nint main(void) { return 0; }\n' "$h" >"$dir/$n.private.c"
    # a user that names every function whose symbol carries the precision
    first=$(sed -n 's/^#define \(fsi_[a-z_]*\) \1_f32$/\1/p' "$h")
    { printf '#include "%s"\ntypedef void (*any)(void);\nconst any first[] = {(any)fsi_result_text' "$h"; printf ', (any)%s' $first; printf '};\nint main(void) { return fsi_result_text(FSI_OK) == 0 || !first[0]; }\n'; } >"$dir/$n.user.c"
    for v in impl late twice private user; do cp "$dir/$n.$v.c" "$dir/$n.$v.cpp"; done
done

if want hygiene; then
    row "hygiene: only the rooms of design.md at the top" \
        "git ls-files >$dir/files && [ -s $dir/files ] && for f in \$(cut -d/ -f1 $dir/files | sort -u); do case \$f in fsi_*.h|examples|tests|bench|docs|Makefile|README.md|CHANGELOG.md|LICENSE|.ci|.clang-format|.editorconfig|.git-blame-ignore-revs|.gitignore) ;; *) echo \$f; exit 1;; esac; done"
    row "hygiene: clang-format changes nothing" "make --no-print-directory format-check"
    row "hygiene: names in comments and documents lead somewhere" "sh tests/names.sh"
    row "hygiene: a line is as thick as it may be" "sh tests/density.sh"
    for h in $headers; do
        row "hygiene: $h names SPDX and the version, has no tab" "grep -q SPDX $h && grep -q '_VERSION' $h && awk '/\t/ { exit 1 }' $h"
        row "hygiene: declarations of $h need only stddef.h and stdint.h" "echo '#include \"$h\"' | cc -I. -M -MG -x c - | tr -d '\\\\' | tr ' ' '\n' | grep '/include/[a-z]*\.h' >$dir/${h%.h}.inc; grep -q stdint.h $dir/${h%.h}.inc && ! grep -E 'stdlib|string\.h|math\.h|stdio' $dir/${h%.h}.inc"
        row "hygiene: $h has the chapters of all headers, in order" "sed -n '1,/\\*\\/\$/p' $h | grep -oE '^   [A-Z][A-Z ]+[A-Z]( \\(define|\$)' | sed 's/ *(define//; s/^ *//' | tr '\n' ',' | grep -x 'QUICK START,WHAT IT DOES,WHAT IT DOES NOT,CONFIGURATION,UNITS AND CONVENTIONS,GLOSSARY,USAGE,NUMERICAL NOTES,MEMORY,ERRORS,THREADS AND DETERMINISM,REFERENCES,CHANGELOG,LICENCE,'"
    done
fi
if want readme; then
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$dir/readme.c"
    row "readme: the program of the first screen compiles, runs and floats" "cc -O2 -I. $dir/readme.c -o $dir/readme -lm && $dir/readme >$dir/readme.out && grep -E 'floats at 0.5[0-9]+ m' $dir/readme.out"
    row "readme: the same program is C++17 without a warning" "cp $dir/readme.c $dir/readme.cpp && g++ -std=c++17 -Wall -Wextra -Werror -I. -fsyntax-only $dir/readme.cpp"
fi
if want readme; then
    for n in fsi_linalg fsi_grid fsi_solids fsi_sph fsi_couple; do   # the quick starts are programs
        awk '/QUICK START/ { on = 1; next } /^   Compile:|^   WHAT IT/ { on = 0 } on' $n.h >"$dir/$n.quick.c"
        row "readme: the quick start of $n.h compiles and runs" "cc -std=c99 -I. $dir/$n.quick.c -o $dir/$n.quick -lm && $dir/$n.quick >$dir/$n.quick.out && grep '[0-9]' $dir/$n.quick.out"
    done
fi
if want beside; then
    # What windows.h, X11 and engines define as macros, as nonsense: no identifier of ours may be one of them.
    nonsense="-Dnear= -Dfar= -Dsmall=char -Dinterface=struct -Dmin=1 -Dmax=1 -DIN= -DOUT= -DERROR=0 -DNone=0 -DBool=int -DStatus=int -DSuccess=0 -DTrue=1 -DFalse=0 -DComplex=0 -DI=1i"
    for h in $headers; do
        n=${h%.h}
        printf '#include <windows.h>\n' | cat - "$dir/$n.impl.c" >"$dir/$n.windows.c"
        printf '#include <windows.h>\n' | cat - "$dir/$n.user.c" >"$dir/$n.windows_user.c"
        printf '#include <X11/Xlib.h>\n#include <X11/Xutil.h>\n' | cat - "$dir/$n.impl.c" >"$dir/$n.x11.c"
        for v in windows windows_user x11; do cp "$dir/$n.$v.c" "$dir/$n.$v.cpp"; done
        for v in impl user; do
            row "beside: $n $v among macros of that name" "gcc -std=c99 $strict_c $nonsense -I. -fsyntax-only $dir/$n.$v.c && g++ -std=c++11 $strict $nonsense -I. -fsyntax-only $dir/$n.$v.cpp"
        done
        row "beside: $n after X11" "gcc -std=c99 -Wall -Werror -I. -fsyntax-only $dir/$n.x11.c && g++ -std=c++11 -Wall -Werror -I. -fsyntax-only $dir/$n.x11.cpp"
        if have x86_64-w64-mingw32-g++; then
            for v in windows windows_user; do
                row "beside: $n after windows.h, $v" "x86_64-w64-mingw32-gcc -std=c99 -Wall -Werror -I. -fsyntax-only $dir/$n.$v.c && x86_64-w64-mingw32-g++ -std=c++11 -Wall -Werror -I. -fsyntax-only $dir/$n.$v.cpp"
            done
        else row "skip: mingw-w64" ""; fi
    done
fi
if want folded; then
    sh tests/single.sh "$dir/folded" >/dev/null
    for h in $headers fsi.h; do
        printf '#define FSI_IMPLEMENTATION\n#include "%s"\nint main(void) { return 0; }\n' "$h" >"$dir/folded.${h%.h}.c"
        row "folded: ${h%.h} alone" "cd $dir/folded && mkdir -p ${h%.h}.d && cp $h ${h%.h}.d/ && gcc -std=c99 $strict_c -I${h%.h}.d -c $dir/folded.${h%.h}.c -o $dir/\$\$.o"
    done
    printf '#include "fsi_grid.h"\n#define FSI_IMPLEMENTATION\n#include "fsi_sph.h"\n#include "fsi_solids.h"\n#include "fsi.h"\nint main(void) { return 0; }\n' >"$dir/mixed.c"
    row "folded: they mix in one program" "gcc -std=c99 -I$dir/folded $dir/mixed.c -o $dir/mixed -lm"
fi
if want matrix; then
    for h in $headers; do
        n=${h%.h}
        for c in gcc clang; do
            have $c || { row "skip: $c" ""; continue; }
            row "matrix: $n $c c99" "$c -std=c99 $strict_c -I. -c $dir/$n.impl.c -o $dir/\$\$.o"
            for s in c11 c17; do row "matrix: $n $c $s" "$c -std=$s $strict_c -I. -fsyntax-only $dir/$n.impl.c"; done   # other standards: warnings only
            for v in late twice private user; do row "matrix: $n $c c99 $v" "$c -std=c99 $strict_c -I. -c $dir/$n.$v.c -o $dir/\$\$.o"; done
            row "matrix: $n $c c99 single" "$c -std=c99 -DFSI_SINGLE $strict_c -I. -c $dir/$n.impl.c -o $dir/\$\$.o"
        done
        row "matrix: $n gcc c99 -O2 -fopenmp" "gcc -std=c99 -O2 -fopenmp $strict_c -I. -c $dir/$n.impl.c -o $dir/\$\$.o"
        row "matrix: $n gcc c99 -O2" "gcc -std=c99 -O2 $strict_c -I. -c $dir/$n.impl.c -o $dir/\$\$.o"
        for c in g++ clang++; do
            have $c || { row "skip: $c" ""; continue; }
            row "matrix: $n $c c++11" "$c -std=c++11 $strict -I. -c $dir/$n.impl.cpp -o $dir/\$\$.o"
            for s in c++17 c++20; do row "matrix: $n $c $s" "$c -std=$s $strict -I. -fsyntax-only $dir/$n.impl.cpp"; done
            for v in late private user; do row "matrix: $n $c c++11 $v" "$c -std=c++11 $strict -I. -c $dir/$n.$v.cpp -o $dir/\$\$.o"; done
            row "matrix: $n $c c++11 single" "$c -std=c++11 -DFSI_SINGLE $strict -I. -c $dir/$n.impl.cpp -o $dir/\$\$.o"
        done
    done
fi
if want subsets; then                                                  # what a user may vendor, with nothing else in the folder
    subset() { # subset FLAGS HEADER...: the last includes what it builds on
        flags=$1; shift
        name=$(echo "$*${flags:+ }${flags#-DFSI_COUPLE_}" | sed 's/fsi_//g; s/\.h//g; s/-DFSI_COUPLE_//g') d=$dir/$(echo "$name" | tr -c 'a-zA-Z\n' _)
        mkdir -p "$d"
        cp "$@" "$d"
        for h in "$@"; do echo "#include \"$h\""; done >"$d/main.c"
        echo 'int main(void) { return fsi_result_text(FSI_OK) == 0; }' >>"$d/main.c"
        cp "$d/main.c" "$d/main.cpp"
        row "subsets: $name" "cd $d && gcc -std=c99 $strict_c $flags -DFSI_IMPLEMENTATION main.c -o c -lm && ./c && g++ -std=c++11 $strict $flags -DFSI_IMPLEMENTATION main.cpp -o cpp && ./cpp"
    }
    b=fsi_linalg.h g=fsi_grid.h s=fsi_solids.h p=fsi_sph.h c=fsi_couple.h
    for l in "$b" "$b $g" "$b $s" "$b $p" "$b $g $s" "$b $g $p" "$b $s $p" "$b $g $s $p" "$b $g $s $p $c"; do subset "" $l; done
    subset -DFSI_COUPLE_NO_GRID $b $s $p $c
    subset -DFSI_COUPLE_NO_SPH $b $g $s $c
    subset "-DFSI_COUPLE_NO_GRID -DFSI_COUPLE_NO_SPH" $b $s $c
fi
if want ports; then
    for h in $headers; do
        n=${h%.h}
        if have tcc; then row "ports: $n tcc" "tcc -I. -c $dir/$n.impl.c -o $dir/$n.tcc.o"; else row "skip: tcc" ""; fi
        if echo 'int main(void){return 0;}' | gcc -m32 -x c - -o $dir/probe 2>/dev/null; then
            row "ports: $n gcc -m32" "gcc -m32 -std=c99 $strict_c -I. $dir/$n.impl.c -o $dir/$n.m32 -lm && $dir/$n.m32"
        else row "skip: -m32" ""; fi
        if have x86_64-w64-mingw32-gcc; then row "ports: $n mingw-w64" "x86_64-w64-mingw32-gcc -std=c99 $strict_c -I. $dir/$n.impl.c -o $dir/$n.exe -lm"
        else row "skip: mingw-w64" ""; fi
    done
    # tests run on other machines: the small ones and every scheme through test_trust; all of them with CHECK_FULL=1
    some="test_geometry test_iso test_trust"
    [ -n "$CHECK_FULL" ] && some=$(ls tests/test_*.c | sed 's,tests/\(.*\)\.c,\1,; /test_common/d')   # test_common is of the examples, which want POSIX
    if have s390x-linux-gnu-gcc && have qemu-s390x; then
        be="CC=s390x-linux-gnu-gcc AR=s390x-linux-gnu-ar OPENMP=0 CFLAGS='-O1 -static'"
        row "ports: big-endian s390x, library" "$(lib be "$be")"
        for t in $some; do row "ports: $t on big-endian s390x" "$(prog be "$be" "$t") && FSI_TEST_SANITIZER=1 qemu-s390x $dir/be/$t | grep 'Pass: [1-9][0-9]*, fail: 0'"; done
    else row "skip: big-endian" ""; fi
    if have emcc && have node; then                                    # SINGLE_FILE: emscripten 3.1.6 reads its .wasm by fetch, which node has and which takes no path
        em="CC=emcc AR=emar OPENMP=0 CFLAGS=-O1"
        row "ports: emscripten, library" "$(lib em "$em")"
        for t in $some; do row "ports: $t as wasm under node" "$(lib em "$em") && emcc -std=c99 -O1 -D_POSIX_C_SOURCE=200809L -DFSI_DECLARATIONS_ONLY -sALLOW_MEMORY_GROWTH=1 -sSINGLE_FILE=1 -sENVIRONMENT=node -I. -Itests tests/$t.c $dir/em/libfsi.a -o $dir/em/$t.js -lm && node $dir/em/$t.js | grep 'Pass: [1-9][0-9]*, fail: 0'"; done
    else row "skip: emscripten" ""; fi
    if have x86_64-w64-mingw32-gcc && have wine; then
        win="CC=x86_64-w64-mingw32-gcc AR=x86_64-w64-mingw32-ar OPENMP=0 CFLAGS='-O1 -static'"
        row "ports: windows, library" "$(lib win "$win") && WINEDEBUG=-all WINEPREFIX=$dir/wine wine cmd /c exit"
        for t in $some; do row "ports: $t under wine" "$(prog win "$win" "$t") && WINEDEBUG=-all WINEPREFIX=$dir/wine timeout 600 wine $dir/win/$t.exe | grep 'Pass: [1-9][0-9]*, fail: 0'"; done
    else row "skip: wine" ""; fi
    if have tcc; then row "ports: test_geometry by tcc" "tcc -D_POSIX_C_SOURCE=200809L -I. -Itests tests/test_geometry.c -o $dir/tcc.geometry -lm && $dir/tcc.geometry | grep 'Pass: [1-9][0-9]*, fail: 0'"; fi
fi
if want link; then
    # a swapped test header must reach the tests: the stand-in leaves its own word in the program
    { echo '#define GREATEST_H_SWAPPED 1'; sed 's/Pass: %/Swapped pass: %/' tests/greatest.h | sed '/GREATEST_INSTEAD/d; s/^#elif !defined(GREATEST_H)/#ifndef GREATEST_H/'; } >"$dir/stand_in.h"
    row "link: make GREATEST= reaches the tests" "make --no-print-directory CFLAGS=-O0 OPENMP=0 B=$dir/swap GREATEST=$dir/stand_in.h $dir/swap/test_iso && $dir/swap/test_iso | grep 'Swapped pass: [1-9]'"
    for h in $headers; do
        n=${h%.h}
        row "link: $n double user, single implementation must not link" \
            "cc -c -I. $dir/$n.user.c -o $dir/$n.u.o && cc -c -I. -DFSI_SINGLE $dir/$n.user.c -o $dir/$n.us.o && cc -DFSI_SINGLE -DFSI_IMPLEMENTATION -I. -x c -c $h -o $dir/$n.s.o && cc $dir/$n.us.o $dir/$n.s.o -o $dir/$n.same -lm && $dir/$n.same && ! cc $dir/$n.u.o $dir/$n.s.o -o $dir/$n.mix -lm 2>$dir/$n.mix.log && for f in fsi_result_text \$(sed -n 's/^#define \\(fsi_[a-z_]*\\) \\1_f32\$/\\1/p' $h); do grep -q \"undefined reference.*\$f\" $dir/$n.mix.log || exit 1; done"
    done
    row "link: one implementation file per header" \
        "objs=; for h in $(echo $(ls fsi_*.h)); do m=\$(echo \${h%.h} | tr a-z A-Z)_IMPLEMENTATION; echo \"#include \\\"\$h\\\"\" >$dir/split.\${h%.h}.c; cc -D\$m -I. -c $dir/split.\${h%.h}.c -o $dir/split.\${h%.h}.o || exit 1; objs=\"\$objs $dir/split.\${h%.h}.o\"; done; for e in balls sph_dam_break; do cc -D_POSIX_C_SOURCE=200809L -DFSI_DECLARATIONS_ONLY -I. -Iexamples examples/\$e.c \$objs -o $dir/split.\$e -lm && $dir/split.\$e --size 12 --frames 1 >$dir/split.out && grep -q 'result stable=1' $dir/split.out || exit 1; done"
    if [ -f "$dir/fsi_couple.impl.c" ]; then
        for sub in NO_GRID NO_SPH "NO_GRID -DFSI_COUPLE_NO_SPH"; do row "link: fsi_couple.h with $sub" "cc -std=c99 $strict_c -DFSI_COUPLE_$sub -I. $dir/fsi_couple.impl.c -o $dir/sub.\$\$ -lm"; done
    fi
fi
if want symbols; then
    # every row counts what it looked at: an object without symbols would pass anything
    for h in $headers; do
        n=${h%.h}
        row "symbols: $n exports only fsi_, no writable file-scope state" "cc -I. -c $dir/$n.impl.c -o $dir/$n.nm.o && nm -g --defined-only $dir/$n.nm.o | awk '{print \$3}' >$dir/$n.nm && [ \$(grep -c '^fsi_' $dir/$n.nm) -ge 30 ] && ! grep -v -e '^fsi_' -e '^main\$' $dir/$n.nm && ! nm $dir/$n.nm.o | grep ' [bBdDC] '"
        row "symbols: $n single: every *_init ends in _f32" "cc -DFSI_SINGLE -I. -c $dir/$n.impl.c -o $dir/$n.nms.o && nm -g --defined-only $dir/$n.nms.o | awk '{print \$3}' >$dir/$n.nms && [ \$(grep -c '_f32\$' $dir/$n.nms) -ge 3 ] && ! grep -e '_init\$' -e '^fsi_result_text\$' $dir/$n.nms"
        row "symbols: $n private mode exports nothing" "cc -I. -c $dir/$n.private.c -o $dir/$n.nmp.o && [ \"\$(nm -g --defined-only $dir/$n.nmp.o | awk '{print \$3}')\" = main ]"
    done
fi
want static && ! have cppcheck && row "skip: cppcheck" ""
want valgrind && ! have valgrind && row "skip: valgrind" ""
if want static && have cppcheck; then
    # off: uninitvar in its three forms (arrays filled through a pointer; gcc, clang and the sanitizers look for the real ones),
    # nullPointer* (offsets computed before the check of the block they point into)
    for h in $headers; do row "static: cppcheck ${h%.h}" "cppcheck -q --error-exitcode=1 --std=c99 --max-configs=1 -DFSI_DECLARATIONS_ONLY -D\$(echo ${h%.h} | tr a-z A-Z)_IMPLEMENTATION --enable=warning,portability --inline-suppr --suppress=missingIncludeSystem --suppress=invalidPointerCast --suppress=uninitvar --suppress=legacyUninitvar --suppress=ctuuninitvar --suppress=nullPointer --suppress=nullPointerArithmeticRedundantCheck -I. $dir/${h%.h}.impl.c"; done
fi
if want static && ! have clang-tidy; then row "skip: clang-tidy" ""; elif want static; then
    # off: what -Wconversion says better (narrowing, implicit widening), style (swappable parameters, parentheses in lists), what is meant (row = i / n, arrays of
    # pointers, memcmp as a truth value, small signed tables, halved steps, padding), and the analyzer's guesses about arrays filled in loops or
    # taken together: the sanitizers and valgrind find the real ones
    tidy='-*,bugprone-*,clang-analyzer-*,-bugprone-narrowing-conversions,-bugprone-implicit-widening-of-multiplication-result,-bugprone-easily-swappable-parameters,-bugprone-macro-parentheses,-bugprone-integer-division,-bugprone-sizeof-expression,-bugprone-suspicious-string-compare,-bugprone-signed-char-misuse,-clang-analyzer-core.uninitialized.*,-clang-analyzer-core.CallAndMessage,-clang-analyzer-core.UndefinedBinaryOperatorResult,-clang-analyzer-core.NonNullParamChecker,-clang-analyzer-core.NullDereference,-clang-analyzer-optin.performance.Padding,-clang-analyzer-security.FloatLoopCounter'
    for h in $headers; do row "static: clang-tidy ${h%.h}" "clang-tidy --quiet --warnings-as-errors='*' --checks='$tidy' $h -- -x c -std=c99 -DFSI_DECLARATIONS_ONLY -D\$(echo ${h%.h} | tr a-z A-Z)_IMPLEMENTATION -I."; done   # what it includes has its own row
fi
all=$(ls tests/test_*.c | sed 's,tests/\(.*\)\.c,\1,')
if want single; then
    row "single: library" "$(lib single SINGLE=1)"
    for t in $all; do row "single: $t" "$(prog single SINGLE=1 "$t") && sh tests/run.sh $dir/single/$t"; done
fi
# FSI__GUARD: closed gaps between the arrays of a block; whole blocks are copied by memcpy, which is therefore not looked at here (libFuzzer's row does)
asan="OPENMP=0 CFLAGS='-O1 -g -DFSI__GUARD -fsanitize=address,undefined -fno-sanitize-recover=all'"
if want asan || want fuzz; then row "asan: library" "$(lib asan "$asan")"; fi
if want asan; then
    # bounded: every scheme through test_trust and the fuzz seeds, and what is quick; all tests with CHECK_FULL=1
    for t in $([ -n "$CHECK_FULL" ] && echo $all || for n in trust couple couple_reduced contact fuzz linalg multigrid cycle geometry iso common; do echo test_$n; done); do
        row "asan: $t" "$(prog asan "$asan" "$t") && ASAN_OPTIONS=detect_leaks=1:replace_intrin=0 FSI_TEST_SANITIZER=1 $dir/asan/$t"
    done
fi
if want threads || want full; then row "full: library" "$(lib plain "")"; fi
if want threads; then
    # test_trust itself compares 1, 2, 3 and 8 threads for every scheme; all tests on three threads with CHECK_FULL=1
    for t in $([ -n "$CHECK_FULL" ] && echo $all || echo test_trust); do row "threads: $t on three" "$(prog plain "" "$t") && OMP_NUM_THREADS=3 $dir/plain/$t"; done
fi
if want full; then                                                     # the catalogue's own sizes; test_trust: 20,000 steps and 1,000 frames of rollback
    for t in test_grid ${CHECK_FULL:+test_levelset test_liquid test_trust}; do row "full: $t" "$(prog plain "" "$t") && FSI_TEST_FULL=1 $dir/plain/$t"; done
fi
# Scenes that are small enough for these rows are below the sizes from which loops use threads: wide/ has the headers with every loop parallel.
if want golden || want tsan; then
    mkdir -p "$dir/wide"
    for h in fsi_*.h; do sed 's/FSI__PARALLEL([^l].*)$/FSI__OMP(parallel for schedule(static))/; s/\(FSI__OMP(parallel for .*\) if (.*))$/\1)/' "$h" >"$dir/wide/$h"; done
    row "threads: no loop of wide/ has a size left" "[ \$(grep -c 'FSI__OMP(parallel for' $dir/wide/*.h | awk -F: '{ n += \$2 } END { print n }') -ge 100 ] && ! grep 'FSI__OMP(parallel for.* if (' $dir/wide/*.h"
fi
if want golden; then
    # the same bits from -O0 and -O2 without contraction, for 1, 2, 3 and 8 threads, with sizes and without, and as golden.txt says (made by this row's program on x86-64)
    row "golden: 15 scenes, -O0 and -O2, 1 2 3 8 threads" \
        "export OMP_WAIT_POLICY=passive; for o in O0 O2 O2wide; do cc -std=c99 -D_POSIX_C_SOURCE=200809L -\${o%wide} -ffp-contract=off -fopenmp -I\$([ \$o = O2wide ] && echo $dir/wide || echo .) -Itests tests/golden.c -o $dir/golden.\$o -lm || exit 1; for t in 1 2 3 8; do $dir/golden.\$o \$t >$dir/golden.\$o.\$t || exit 1; cmp $dir/golden.O0.1 $dir/golden.\$o.\$t || { diff $dir/golden.O0.1 $dir/golden.\$o.\$t; exit 1; }; done; done; [ \$(uname -m) != x86_64 ] || diff tests/golden.txt $dir/golden.O0.1"
fi
if want tsan; then
    if echo 'int main(void){return 0;}' | clang -fopenmp -fsanitize=thread -x c - -o $dir/probe 2>/dev/null; then
        row "tsan: every scene on two threads" "clang -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -g -fopenmp -fsanitize=thread -I$dir/wide -Itests tests/golden.c -o $dir/tsan -lm && OMP_TOOL_LIBRARIES=\$(ls /usr/lib/llvm-*/lib/libarcher.so 2>/dev/null | head -n 1) TSAN_OPTIONS='ignore_noninstrumented_modules=1 exitcode=66' $dir/tsan 2"
    else row "skip: tsan" ""; fi
fi
if want fuzz; then
    row "fuzz: seeds" "$(lib asan "$asan") && ASAN_OPTIONS=replace_intrin=0 FUZZ_ASAN=$dir/asan/libfsi.a FUZZ_RUNS=\${FUZZ_RUNS:-50} sh tests/fuzz.sh seeds"
    row "fuzz: seeds in single precision" "$(lib single SINGLE=1) && cc -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -fopenmp -DFSI_SINGLE -DFSI_DECLARATIONS_ONLY -I. -Itests tests/fuzz.c $dir/single/libfsi.a -o $dir/fuzz.single -lm && for t in \$($dir/fuzz.single targets); do $dir/fuzz.single \$t 1 25 || exit 1; done"
    if echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n); int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n > 9 ? 0 : 0; }' | clang -fsanitize=fuzzer,address -x c - -o $dir/probe 2>/dev/null; then
        row "fuzz: libFuzzer" "FUZZ_RUNS=\${FUZZ_RUNS:-50} sh tests/fuzz.sh lib"
    else row "skip: libFuzzer" ""; fi
fi
if want allocs; then row "allocs: every line that allocates and every public function that reaches one has failed" "sh tests/allocs.sh"; fi
if want web; then                                                      # built once for both rows
    page="flock $dir/web.lock make --no-print-directory B=$dir/web web"
    row "web: every name of a text is a function of a header, and the page's C has no warning" "make --no-print-directory B=$dir/webc $dir/webc/web/source.html && gcc -std=c99 -D_POSIX_C_SOURCE=200809L -DFSI_SINGLE -Wall -Wextra -Werror -DFSI_DECLARATIONS_ONLY -I. -Iexamples -fsyntax-only examples/web/page.c"
    if have emcc; then
        row "web: the page is at most 400 kB gzipped" "$page && [ \$(for f in $dir/web/web/*; do gzip -9c \$f; done | wc -c) -le 409600 ]"
        if have npm && { have chromium || have chromium-browser; }; then row "web: the page in a real browser" "$page && make --no-print-directory B=$dir/web web-test"
        else row "skip: chromium" ""; fi
    else row "skip: emscripten" ""; fi
fi
if want commands; then row "commands: what README and docs print runs" "sh tests/commands.sh"; fi
if want coverage; then row "coverage: lines and public functions" "sh tests/coverage.sh"; fi
if want valgrind && have valgrind; then                                # every scheme after it has touched, and the quick start of each header
    row "valgrind: every scene" "cc -std=c99 -D_POSIX_C_SOURCE=200809L -O1 -g -I. -Itests tests/golden.c -o $dir/golden.vg -lm && valgrind -q --error-exitcode=1 --leak-check=full $dir/golden.vg 1 1"
    for h in $headers; do
        n=${h%.h}
        awk '/QUICK START/ { on = 1; next } /^   Compile:|^   WHAT IT/ { on = 0 } on' "$h" >"$dir/$n.vg.c"
        row "valgrind: quick start of $h" "cc -std=c99 -O1 -g -I. $dir/$n.vg.c -o $dir/$n.vg -lm && valgrind -q --error-exitcode=1 --leak-check=full $dir/$n.vg"
    done
fi

# ---- run the rows
cat >"$dir/one.sh" <<'X'
name=$(printf '%s' "$1" | cut -f1); cmd=$(printf '%s' "$1" | cut -f2-)
log=$(mktemp "$2/log.XXXXXX")
case $name in skip:*) echo "$name" >>"$2/skipped"; [ -z "$CHECK_STRICT" ] || echo "$name" >>"$2/failed"; echo "$name" >>"$2/ended"; exit 0 ;; esac
begin=$(date +%s)
if sh -c "$cmd" >"$log" 2>&1; then echo "$name" >>"$2/passed"; grep -E '^(fuzz|allocs|stat|fsi_[a-z]+\.h): ' "$log" >>"$2/notes"; else echo "$name" >>"$2/failed"; echo "FAILED $name"; tail -n 25 "$log"; fi
echo "${name%%:*} $(($(date +%s) - begin)) $name" >>"$2/times"
echo "$name" >>"$2/ended"
rm -f "$log"
X
: >"$dir/ended"; : >"$dir/passed"; : >"$dir/failed"; : >"$dir/skipped"; : >"$dir/times"; : >"$dir/notes"
begin=$(date +%s)
awk -F'\t' '{ w = 5 } /^(hygiene|readme|skip)/ || $1 ~ /^matrix: [a-z_]+ (gcc c99|g\+\+ c\+\+11)$/ { w = 1 } $1 ~ /library$/ || /^fuzz: lib/ { w = 2 } /^(golden|tsan|allocs|web|static: clang-tidy|fuzz: seeds)/ { w = 3 }
    $1 !~ /library$/ && /^(asan|single|full|threads)/ { w = 4 } { print w "\t" $0 }' "$rows" | sort -s -n -k1,1 | cut -f2- | tr '\n' '\0' | xargs -0 -P "${CHECK_JOBS:-2}" -I{} sh "$dir/one.sh" {} "$dir"
sort -u "$dir/skipped"
awk '{ t[$1] += $2; n[$1]++ } END { for (g in t) printf "check: %-9s %3d rows, %5.1f min\n", g, n[g], t[g] / 60 }' "$dir/times" | sort
sort -k2,2nr "$dir/times" | head -n 12 | while read -r g t name; do echo "check: $t s $name"; done
# closing figures
sort -u "$dir/notes" | sed 's/^/check: /'
awk -F'[:\t ]' '/^(matrix|subsets|folded|ports)/ { n[$1] += $1 == "subsets" ? 2 : 1; all += $1 == "subsets" ? 2 : 1 } END { if (all) printf "check: %d builds (compilers and standards %d, subsets %d, single files %d, other systems %d)\n", all, n["matrix"], n["subsets"], n["folded"], n["ports"] }' "$rows"
lib=$(cat fsi_*.h | wc -l) own=$(cat tests/*.c tests/*.h tests/*.sh | wc -l) cases=$(cat tests/test_*.c | grep -c 'RUN_TEST')
echo "check: $own lines of tests ($cases tests) against $lib of library, $(awk "BEGIN { printf \"%.2f\", $own / $lib }") to one"
echo "check: $(wc -l <"$rows") rows in $(($(date +%s) - begin)) s"
p=$(wc -l <"$dir/passed") f=$(wc -l <"$dir/failed") s=$(wc -l <"$dir/skipped")
lost=$(($(wc -l <"$rows") - $(wc -l <"$dir/ended")))
echo "$p passed, $f failed, $s skipped$([ "$lost" = 0 ] || echo ", $lost rows without an end")"
[ "$f" = 0 ] && [ "$p" -gt 0 ] && [ "$lost" = 0 ]          # a row that was killed is no success
