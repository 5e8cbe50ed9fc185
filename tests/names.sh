#!/bin/sh
# names.sh: do the names that comments and documents mention exist?
#   files      x.md x.h x.c x.sh    in the repository, by path or by name
#   functions  fsi_x FSI_X          a token of the headers, or the beginning of one (fsi_grid_..., FSI_SCHEME_*)
#   tests      C_01_..., -t NAME    the beginning of a test's name
#   ids        C-01                 a row of docs/catalogue.md
#   chapters   >>name               the table of docs/architecture.md has all of them, in order
# Prints what is missing and where; fails when anything is.
cd "$(dirname "$0")/.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
git ls-files >"$dir/files"
sources=$(grep -E '\.[ch]$' "$dir/files")
# The text to look at: comments of the sources, and the documents as they are. CHANGELOG names what is gone.
for f in $sources; do
    awk -v file="$f" '
        { rest = $0; text = ""
          while (rest != "") {
              if (inside) {
                  end = index(rest, "*/")
                  if (!end) { text = text rest; break }
                  text = text substr(rest, 1, end - 1) " "; rest = substr(rest, end + 2); inside = 0
              } else {
                  begin = index(rest, "/*")
                  if (!begin) break
                  rest = substr(rest, begin + 2); inside = 1
              }
          }
          if (text != "") print file ":" FNR ": " text }' "$f"
done >"$dir/text"
for f in README.md docs/*.md; do awk -v file="$f" '{ print file ":" FNR ": " $0 }' "$f"; done >>"$dir/text"

# ask KIND PATTERN: file:line and each word of the text that matches
ask() { awk -v pattern="$1" '{ where = $1; line = substr($0, length($1) + 2)
    while (match(line, pattern)) { print where, substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH) } }' "$dir/text"; }

ask '[A-Za-z_0-9./-]+[.](md|sh|[ch])([^A-Za-z_0-9]|$)' | sed 's/[^A-Za-z_0-9]$//' |
    awk -v list="$dir/files" 'BEGIN { while ((getline f < list) > 0) { have[f] = 1; n = split(f, part, "/"); have[part[n]] = 1 }
          split("main.c math.h stdio.h stdlib.h stddef.h stdint.h string.h windows.h complex.h omp.h box2d.h a.c fsi.h your.c", more, " "); for (i in more) have[more[i]] = 1 }
        { name = $2; sub(/^[.][.]?[/]/, "", name); n = split(name, part, "/") }
        name ~ /(desc|grid|^v)[.][ch]$/ && !(name in have) { next }                     # a field: desc.h
        !(name in have) && !(part[n] in have) && name !~ /^(build|out)[/]/ { print $1, "no file", $2 }' >"$dir/missing"

# A name stands for itself in code, not in a comment: strip comments before looking.
for f in $sources; do sed -e 's,/[*].*[*]/,,g' "$f" | awk '/[/][*]/ { sub(/[/][*].*/, ""); print; inside = 1; next } inside && /[*][/]/ { sub(/.*[*][/]/, ""); inside = 0 } !inside'; done |
    grep -oE '\b(fsi|FSI)_[A-Za-z_0-9]+' | sort -u >"$dir/code"
grep -ohE '\bFSI_[A-Z_0-9]+' Makefile tests/*.sh | sort -u >>"$dir/code"
ask '(fsi|FSI)_[A-Za-z_0-9]+' | awk -v list="$dir/code" '
        BEGIN { while ((getline t < list) > 0) { have[t] = 1; for (n = 5; n < length(t); n++) if (substr(t, n, 1) == "_") have[substr(t, 1, n)] = 1 }
                split("fsi_linalg fsi_grid fsi_solids fsi_sph fsi_couple", h, " "); for (i in h) have[h[i]] = 1 }
        { name = $2 } name !~ /_X(_|$)/ && !(name in have) && !((name "_") in have) { print $1, "no name", name }' >>"$dir/missing"

grep -hoE '^TEST +[A-Za-z_0-9]+' tests/*.c | awk '{ print $2 }' >"$dir/tests"
ask '(-t [A-Za-z_0-9]+|(^|[^A-Za-z_0-9])[LMFRSHCPA]_[0-9][0-9][a-z]?[A-Za-z_0-9]*)' | sed 's/ -t / /' | awk -v list="$dir/tests" '
        BEGIN { while ((getline t < list) > 0) all = all " " t }
        { name = $NF; gsub(/[^A-Za-z_0-9]/, "", name) } index(all, name) == 0 { print $1, "no test", name }' >>"$dir/missing"
ask '(^|[^A-Za-z_0-9-])[LMFRSHCPA]-[0-9][0-9][ab]?' | awk -v list=docs/catalogue.md '
        BEGIN { while ((getline t < list) > 0) if (match(t, /^[|] [A-Z]-[0-9]+[ab]?/)) have[substr(t, 3, RLENGTH - 2)] = 1 }
        { name = $NF; sub(/^[^A-Z]*/, "", name) } !(name in have) && !((name "a") in have) { print $1, "not in the catalogue", name }' >>"$dir/missing"
# Chapters: the table of docs/architecture.md lists those of every header, in their order. A part of a chapter (>>name: part) counts with it.
for h in fsi_*.h; do
    sed -n 's/^ \* >>\([^*:]*[^*: ]\).*/\1/p' "$h" | uniq | tr '\n' ',' >"$dir/is"
    awk -F' *[|] *' -v h="\`$h\`" '$2 == h { printf "%s, %s,", $3, $4 }' docs/architecture.md | sed 's/, */,/g' >"$dir/told"
    cmp -s "$dir/is" "$dir/told" || echo "docs/architecture.md: other chapters than $h has: $(cat "$dir/is")" >>"$dir/missing"
done
sort -u "$dir/missing"
echo "names: $(wc -l <"$dir/text") lines of text, $(sort -u "$dir/missing" | wc -l) names that lead nowhere"
[ -s "$dir/tests" ] && [ -s "$dir/code" ] && [ ! -s "$dir/missing" ]
