#!/bin/sh
# single.sh [DIR]: writes headers that need no other file: each with what it includes folded in, and fsi.h with everything.
cd "$(dirname "$0")/.." || exit 1
dir=${1:-build/single}
mkdir -p "$dir"
fold() {
    awk -v file="$1" '
        function emit(name,    line, part) {
            if (seen[name]++) return
            while ((getline line < name) > 0) {
                if (line ~ /^#include "fsi_[a-z]*\.h"/) { split(line, part, "\""); emit(part[2]) }
                else print line
            }
            close(name)
        }
        BEGIN { emit(file) }'
}
for h in fsi_*.h; do fold "$h" >"$dir/$h" || exit 1; done
last=fsi_couple.h
[ -f "$last" ] || last=fsi_linalg.h
{ echo '/* fsi.h: all of fsi in one file, made by make single. */'; cat "$dir/$last"; } >"$dir/fsi.h"
wc -c "$dir"/*.h
