# fsi: make = make demo. Only a C compiler and make are needed for demo, test, examples, gallery and bench.
CC      ?= cc
CFLAGS  ?= -O2
OPENMP  ?= $(shell t=$$(mktemp) && echo 'int main(void){return 0;}' | $(CC) -fopenmp -x c - -o $$t 2>/dev/null && echo 1 || echo 0; rm -f $$t)
SINGLE  ?= 0
GREATEST ?= tests/greatest.h
B       ?= build
STD     := -std=c99 -D_POSIX_C_SOURCE=200809L
ifeq ($(OPENMP),1)
OMP     := -fopenmp
endif
ifeq ($(SINGLE),1)
STD     += -DFSI_SINGLE
endif
ifneq ($(GREATEST),tests/greatest.h)
INSTEAD := -DGREATEST_INSTEAD='"$(abspath $(GREATEST))"'
endif
FLAGS   = $(STD) $(CFLAGS) $(OMP) -Wall -Wextra -I.
HEADERS := $(wildcard fsi_*.h)
TESTS   := $(patsubst tests/%.c,$(B)/%,$(wildcard tests/test_*.c))
EXAMPLES := $(patsubst examples/%.c,$(B)/%,$(wildcard examples/*.c))
BENCHES := $(patsubst bench/%.c,$(B)/%,$(wildcard bench/bench_*.c))
CONFIG  := $(CC) $(FLAGS) $(GREATEST)

.PHONY: demo test examples gallery picture bench bench-peers check check-full fuzz single web web-test format format-check clean FORCE
demo: $(B)/balls
	@mkdir -p out
	$(B)/balls --out out

# Everything is rebuilt when compiler or flags change.
$(B)/config: FORCE
	@mkdir -p $(B)
	@echo '$(CONFIG)' | cmp -s - $@ || echo '$(CONFIG)' > $@
FORCE:

# The implementation is compiled once; examples and benches see declarations only.
$(B)/fsi.o: $(HEADERS) $(B)/config
	@for h in $(HEADERS); do echo "#include \"$$h\""; done > $(B)/fsi.c
	$(CC) $(FLAGS) -DFSI_IMPLEMENTATION -c $(B)/fsi.c -o $@
$(EXAMPLES): $(B)/%: examples/%.c $(wildcard examples/*.h) $(B)/fsi.o
	$(CC) $(FLAGS) -DFSI_DECLARATIONS_ONLY -Iexamples $< $(B)/fsi.o -o $@ -lm
$(BENCHES): $(B)/%: bench/%.c $(wildcard bench/*.h) $(B)/fsi.o
	$(CC) $(FLAGS) -DFSI_DECLARATIONS_ONLY -Ibench $< $(B)/fsi.o -o $@ -lm
# Tests link the headers compiled one by one; a test that looks inside one defines that one's FSI_..._IMPLEMENTATION itself.
OBJECTS := $(patsubst %.h,$(B)/%.o,$(HEADERS))
$(OBJECTS): $(B)/%.o: %.h $(HEADERS) $(B)/config
	$(CC) $(FLAGS) -DFSI_DECLARATIONS_ONLY -D$(shell echo $* | tr a-z A-Z)_IMPLEMENTATION -x c -c $< -o $@
$(B)/libfsi.a: $(OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^
$(TESTS): $(B)/%: tests/%.c $(wildcard tests/*.h) $(GREATEST) $(B)/libfsi.a
	$(CC) $(FLAGS) $(INSTEAD) -DFSI_DECLARATIONS_ONLY -Itests $< $(B)/libfsi.a -o $@ -lm

# make test builds two at a time even without -j
test:
	@$(MAKE) --no-print-directory -j2 test-programs
	@sh tests/run.sh $(TESTS)
.PHONY: test-programs
test-programs: $(TESTS)

examples:
	@$(MAKE) --no-print-directory -j2 example-programs
.PHONY: example-programs
example-programs: $(EXAMPLES)

gallery: examples $(B)/plot
	@sh bench/gallery.sh
$(B)/plot $(B)/picture: $(B)/%: bench/%.c $(wildcard examples/*.h) $(B)/fsi.o
	$(CC) $(FLAGS) -DFSI_DECLARATIONS_ONLY -Iexamples $< $(B)/fsi.o -o $@ -lm
picture: $(B)/picture
	$(B)/picture docs/balls.svg

# The particles also as their peers were measured: single precision, -O2 (single_) and -O3 -march=native (native_).
PEER    = $(CC) -std=c99 -D_POSIX_C_SOURCE=200809L -DFSI_SINGLE -DFSI_IMPLEMENTATION $(OMP) -Wall -Wextra -I. -Ibench
bench:
	@$(MAKE) --no-print-directory -j2 bench-programs
	@date +%s >$(B)/bench.begin
	@for b in $(filter-out %/bench_sph %/bench_proxy,$(BENCHES)); do $$b || exit 1; done
	@$(B)/bench_sph "" quick && $(B)/bench_proxy "" 0 && $(B)/single_sph single_ quick && $(B)/native_sph native_ && $(B)/native_proxy native_
	@$(B)/reduced_torus --frames 3 --set bodies=50 --set tets=5000 --set compare=1 --set tets_many=60000 | awk -F'[ =]' '$$1 == "result" { print "bench reduced_torus_50_" $$2, $$3, $$2 ~ /seconds/ ? "s" : $$2 ~ /ratio/ ? "x" : $$2 ~ /bytes/ ? "B" : "1" }'
	@sh bench/many_bodies.sh quick
	@echo "bench seconds_in_all $$(($$(date +%s) - $$(cat $(B)/bench.begin))) s"
.PHONY: bench-programs
bench-programs: $(BENCHES) $(B)/reduced_torus $(B)/many_bodies $(B)/single_sph $(B)/native_sph $(B)/native_proxy
$(B)/single_%: bench/bench_%.c bench/bench.h $(HEADERS) $(B)/config
	$(PEER) -O2 $< -o $@ -lm
$(B)/native_%: bench/bench_%.c bench/bench.h $(HEADERS) $(B)/config
	$(PEER) -O3 -march=native $< -o $@ -lm || $(PEER) -O3 $< -o $@ -lm

bench-peers: $(B)/fsi.o
	@CC='$(CC)' sh bench/peers.sh

check:
	@CC='$(CC)' sh tests/check.sh
check-full:
	@CC='$(CC)' CHECK_FULL=1 sh tests/check.sh
fuzz:
	@if [ -f tests/fuzz.sh ]; then FUZZ_SECONDS=$${FUZZ_SECONDS:-60} sh tests/fuzz.sh; else echo "no fuzzers yet"; fi
# clang-format over everything written in C; format-check fails where it would change a line.
FORMATTED := $(HEADERS) $(wildcard examples/*.[ch] examples/web/*.[ch] tests/*.[ch] bench/*.[ch])
format:
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run --Werror $(FORMATTED)
single:
	@sh tests/single.sh

# The live page in $(B)/web: the library and the scenes of examples/web as wasm, single precision. web_native: the same C for this machine.
# One wasm serves one thread and several: its loops go through examples/web/omp.c, its memory is shared where the page may share it (engine.js).
WEB     := $(B)/web
PAGE    := $(wildcard examples/web/*.html examples/web/*.css examples/web/*.js)
SCENES  := $(wildcard examples/web/*.[ch]) $(wildcard examples/*.h)
WEB_O    = -O2 -fno-unroll-loops -msimd128 -matomics -mbulk-memory
WEB_C    = -std=c99 -D_POSIX_C_SOURCE=200809L -ffp-contract=off -DFSI_SINGLE -Wall -Wextra -I. -Iexamples
web:
	@command -v emcc >/dev/null 2>&1 || { echo "make web: emcc is missing; on Debian: apt-get install emscripten"; exit 1; }
	@$(MAKE) --no-print-directory -j2 $(WEB)/fsi.wasm $(WEB)/source.html
	@cp $(PAGE) $(WEB)/
	@echo "$(WEB)/index.html: $$(for f in $(WEB)/*; do gzip -9c $$f; done | wc -c) bytes gzipped; serve the folder, e.g. python3 -m http.server -d $(WEB)"
WASM    := $(patsubst %.h,$(B)/wasm/%.o,$(HEADERS))
$(B)/wasm/fsi_solids.o: WEB_O += -Os # 11 kB less to load; its loops are short beside the fluid's
$(WASM): $(B)/wasm/%.o: %.h $(HEADERS)
	@mkdir -p $(B)/wasm
	emcc $(WEB_C) $(WEB_O) -fopenmp -DFSI_DECLARATIONS_ONLY -D$(shell echo $* | tr a-z A-Z)_IMPLEMENTATION -x c -c $< -o $@
$(WEB)/fsi.wasm: $(WASM) $(SCENES)
	@mkdir -p $(WEB)
	emcc $(WEB_C) $(WEB_O) -DFSI_DECLARATIONS_ONLY examples/web/page.c examples/web/omp.c $(WASM) -o $@ --no-entry -sSTANDALONE_WASM -sALLOW_MEMORY_GROWTH \
	    -sIMPORTED_MEMORY -sMAXIMUM_MEMORY=256MB -Wl,--shared-memory,--no-check-features -sEXPORTED_FUNCTIONS=_malloc,_free
$(WEB)/source.html: examples/web/source.sh examples/web/scenes.js $(HEADERS)
	@mkdir -p $(WEB)
	@sh examples/web/source.sh > $@
$(B)/web_native: $(HEADERS) $(SCENES)
	@mkdir -p $(B)
	@for h in $(HEADERS); do echo "#include \"$$h\""; done > $(B)/web_native.c
	$(CC) $(WEB_C) -O2 -DFSI_IMPLEMENTATION -c $(B)/web_native.c -o $(B)/web_native.o
	$(CC) $(WEB_C) -O2 -DFSI_DECLARATIONS_ONLY examples/web/page.c $(B)/web_native.o -o $@ -lm
web-test: web $(B)/web_native
	@B=$(B) sh tests/web.sh

clean:
	rm -rf $(B) out
