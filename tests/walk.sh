#!/bin/sh
# walk.sh: the walk of one world step with a box and a cloth in water, to a depth of three: function, header, chapter in the order of the calls,
# and how often header and chapter change. Small functions of the base (vectors, arrays, checks) are left out. Needs gcc and addr2line (binutils).
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
gcc -std=c99 -D_POSIX_C_SOURCE=200809L -O0 -g -no-pie -finstrument-functions -I. tests/walk.c -o "$dir/walk" -lm || exit 1
"$dir/walk" >"$dir/calls" || exit 1
for h in fsi_*.h; do awk -v h="$h" '/^ \* >>/ { sub(/.*>>/, ""); sub(/ *\*\/.*/, ""); print h "\t" FNR "\t" $0 }' "$h"; done >"$dir/chapters"
cut -d' ' -f2 "$dir/calls" | addr2line -f -s -e "$dir/walk" | paste - - | paste -d' ' "$dir/calls" - | awk -v chapters="$dir/chapters" '
    BEGIN { FS = "[ \t:]+"
            while ((getline line <chapters) > 0) { split(line, part, "\t"); n = ++count[part[1]]; from[part[1], n] = part[2]; name[part[1], n] = part[3] } }
    { depth = $1; function_name = $3; header = $4; line = $5 + 0
      for (k = count[header]; k > 1 && from[header, k] > line; k--);
      chapter = name[header, k]
      if (header !~ /^fsi_/ || chapter ~ /^(base|vectors|arrays|memory|results)$/) next
      if (function_name == last && depth == last_depth) next
      last = function_name; last_depth = depth
      printf "%*s%-*s %-14s %s\n", 2 * depth, "", 40 - 2 * depth, function_name, header, chapter
      headers += before != "" && header != before; chapters_changed += before != "" && header chapter != before_chapter
      before = header; before_chapter = header chapter }
    END { printf "walk: %d header switches, %d chapter switches\n", headers, chapters_changed }'
