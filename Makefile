# fsi: make = make demo. Only a C compiler and make are needed for demo, test, examples, gallery and bench.
CC      ?= cc
CFLAGS  ?= -O2
OPENMP  ?= $(shell echo 'int main(void){return 0;}' | $(CC) -fopenmp -x c - -o /dev/null 2>/dev/null && echo 1 || echo 0)
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

.PHONY: demo test examples gallery picture bench bench-peers check check-full fuzz single clean FORCE
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
$(TESTS): $(B)/%: tests/%.c tests/check.h tests/greatest.h $(GREATEST) $(HEADERS) $(B)/config
	$(CC) $(FLAGS) $(INSTEAD) -Itests $< -o $@ -lm

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
$(B)/plot $(B)/picture: $(B)/%: bench/%.c examples/common.h $(B)/fsi.o
	$(CC) $(FLAGS) -DFSI_DECLARATIONS_ONLY -Iexamples $< $(B)/fsi.o -o $@ -lm
picture: $(B)/picture
	$(B)/picture docs/balls.svg

bench:
	@$(MAKE) --no-print-directory -j2 bench-programs
	@for b in $(BENCHES); do $$b || exit 1; done
.PHONY: bench-programs
bench-programs: $(BENCHES)

bench-peers: $(B)/fsi.o
	@CC='$(CC)' sh bench/peers.sh

check:
	@CC='$(CC)' sh tests/check.sh
check-full:
	@CC='$(CC)' CHECK_FULL=1 sh tests/check.sh
fuzz:
	@if [ -f tests/fuzz.sh ]; then FUZZ_SECONDS=$${FUZZ_SECONDS:-60} sh tests/fuzz.sh; else echo "no fuzzers yet"; fi
single:
	@sh tests/single.sh

clean:
	rm -rf $(B) out
