#!/bin/sh
# density.sh [FILE...]: how thick the code is: tokens a line of code, names of one letter, lines over 100 columns. Comments and strings do not count,
# i, j and k are no names. Without files: every header for itself and the examples together, and fails where one is above its bar.
cd "$(dirname "$0")/.." || exit 1
count() { # count NAME FILE...
    name=$1; shift
    cat "$@" | awk -v name="$name" '
        BEGIN { split("int char void if else for while do return static const struct typedef enum unsigned signed float double long short sizeof break continue switch case default goto size_t ptrdiff_t inline extern union NULL uint8_t int8_t uint32_t int32_t int64_t uint64_t", word, " ")
                for (i in word) keyword[word[i]] = 1 }
        { whole = $0; code = ""
          # comments and strings out
          while (whole != "") {
              if (inside) { end = index(whole, "*/"); if (!end) break; whole = substr(whole, end + 2); inside = 0; continue }
              if (!match(whole, /\/[*]|\/\/|"(\\.|[^"\\])*"|\047(\\.|[^\047\\])*\047/)) { code = code whole; break }
              code = code substr(whole, 1, RSTART - 1); piece = substr(whole, RSTART, 2)
              if (piece == "//") break
              if (piece == "/*") { inside = 1; whole = substr(whole, RSTART + 2); continue }
              code = code "\"\""; whole = substr(whole, RSTART + RLENGTH)
          }
          if (code !~ /[^ \t]/) next
          lines++; wide += length($0) > 100
          gsub(/[ \t]/, "\n", code)
          while (match(code, /[A-Za-z_][A-Za-z_0-9]*|[^\n]/)) {
              token = substr(code, RSTART, RLENGTH); code = substr(code, RSTART + RLENGTH); tokens++
              if (token ~ /^[A-Za-z_]/ && !(token in keyword)) { names++; letters += length(token) == 1 && token !~ /[ijk]/ }
          } }
        END { printf "%s: %d tokens in %d lines, %.1f a line; %.1f %% names of one letter; %d lines over 100 columns\n", name, tokens, lines, tokens / lines, 100 * letters / names, wide
              exit !(tokens < 11.05 * lines && 4 * letters <= names && wide == 0) }'
}
[ $# = 0 ] || { count "in all" "$@"; exit; }
bad=0
for h in fsi_*.h; do count "$h" "$h" || bad=1; done
count examples examples/*.[ch] || bad=1
count "the live page" examples/web/*.[ch] || bad=1
exit $bad
