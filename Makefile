# make            builds everything into build/ and installs nothing
# make run        installs what is missing, builds, shows the main job
# make repl       three simulated members and a prompt; time stands still until told to run
# make test       installs, builds, lints, runs every spec with its variants
# make sim SEEDS=1..1000    the swarm         make soak    real sockets under load
# make fuzz SECONDS=120     any bytes through the decoder      make mutants   every known fault
# make fuzz-live SECONDS=300   a living group among packets of its own, changed, under sanitizers
# make bench, make install PREFIX= DESTDIR=, make clean
#
# BUILD=folder builds elsewhere; SAN=1 with sanitizers; MUTANT=n with one fault of spec/mutants.md.

BUILD ?= build
PREFIX ?= /usr/local
CC = gcc
OPT ?= -O2 -g
SEEDS ?= 1..1000
SECONDS ?= 120
CFLAGS = -std=c11 -D_GNU_SOURCE $(OPT) -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wshadow \
  -Wconversion -Werror -Icsrc $(shell pkg-config --cflags luajit libuv 2>/dev/null)
ifdef SAN
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer
LDSAN = -fsanitize=address,undefined
endif
ifdef MUTANT
CFLAGS += -DNEAP_MUTANT=$(MUTANT)
endif

SRC = $(wildcard csrc/base/*.c csrc/core/*.c csrc/layers/*.c csrc/layers/*/*.c csrc/sim/*.c \
  csrc/real/*.c csrc/bind/*.c)
OBJ = $(SRC:csrc/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/classes.o
LAYERS = $(filter-out template,$(notdir $(basename $(wildcard csrc/layers/*.c))))

all: $(BUILD)/lib/neap/core.so $(BUILD)/neap $(BUILD)/lib/libneap.so

# No Lua library: whoever loads the module brings its own machine.
$(BUILD)/lib/neap/core.so: $(OBJ)
	@mkdir -p $(@D)
	$(CC) -shared $(LDSAN) -o $@.new $^ -luv -ledit -ldl -lm && mv $@.new $@

$(BUILD)/obj/%.o: csrc/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# The table of built-in layers, from the files that are there.
$(BUILD)/classes.c: $(wildcard csrc/layers/*.c) Makefile
	@mkdir -p $(@D)
	@{ echo '#include "core/layer.h"'; \
	  for l in $(LAYERS); do echo "extern const struct neap_class neap_$$l;"; done; \
	  echo 'extern const struct neap_class *const neap_classes[];'; \
	  echo 'const struct neap_class *const neap_classes[] = {'; \
	  for l in $(LAYERS); do echo "  &neap_$$l,"; done; echo '  NULL};'; } > $@

$(BUILD)/obj/classes.o: $(BUILD)/classes.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# For C programs: a shell around a Lua state, core.so and the Lua files, found where they are now.
ROOT_NOW ?= $(CURDIR)
LIB_NOW ?= $(abspath $(BUILD))/lib
$(BUILD)/lib/libneap.so: csrc/bind/embed/embed.c csrc/neap.h
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Icsrc -DNEAP_DEFAULT_ROOT='"$(ROOT_NOW)"' -DNEAP_DEFAULT_LIB='"$(LIB_NOW)"' \
	  -shared $(LDSAN) -o $@ $< $(shell pkg-config --libs luajit) -ldl

# The command, which finds its parts from where it stands.
$(BUILD)/neap: Makefile
	@mkdir -p $(@D); if [ -d $@ ]; then rm -rf $@; fi
	@{ echo '#!/bin/sh'; \
	  echo '# neap: the command.  See neap help.'; \
	  echo 'build=$$(dirname "$$(readlink -f "$$0")")'; \
	  echo 'export NEAP_LIB="$${NEAP_LIB:-$$build/lib}" NEAP_ROOT="$${NEAP_ROOT:-$(CURDIR)}"'; \
	  echo 'export NEAP_COMMAND="$$(readlink -f "$$0")"'; \
	  echo 'exec luajit $$NEAP_LUAJIT "$$NEAP_ROOT/lua/neap/command.lua" "$$@"'; } > $@
	@chmod +x $@

deps:
	@sh spec/support/deps.sh
	@[ -e $(BUILD)/lib/neap/core.so ] || echo "neap: building, for a minute or so" >&2

run: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/neap run lua/neap/main_job.lua

repl: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/neap repl

test: deps
	@$(MAKE) --no-print-directory -s -j2 all
	@$(MAKE) --no-print-directory -s -j2 BUILD=build/san SAN=1 OPT="-O1 -g" all
	@luajit spec/support/test.lua

sim: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/neap run spec/support/swarm_main.lua $(SEEDS)

# The programs that measure: the same objects in a program of their own, without Lua.
BENCH_OBJ = $(filter-out $(BUILD)/obj/bind/%,$(OBJ)) \
  $(patsubst csrc/%.c,$(BUILD)/obj/%.o,$(wildcard csrc/bench/*.c))
$(BUILD)/neap-bench: $(BENCH_OBJ)
	$(CC) $(LDSAN) -o $@ $^ -luv -lm

bench: deps
	@$(MAKE) --no-print-directory -s all $(BUILD)/neap-bench
	@$(BUILD)/neap bench

soak: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/neap run spec/support/soak.lua

# Every fault of spec/mutants.md, or some: make mutants N="301 302".
mutants: deps
	@$(MAKE) --no-print-directory -s -j2 all
	@LUA_PATH='spec/?.lua;;' luajit spec/support/mutants.lua $(BUILD) $(N)

# One of them: the file FROM, which stands for csrc/WHERE, with the other objects of the build.
mutant:
	@mkdir -p $(BUILD)/mutants/$(MUTANT)/lib/neap
	@cp -al $(BUILD)/obj $(BUILD)/mutants/$(MUTANT)/ && cp $(BUILD)/neap $(BUILD)/mutants/$(MUTANT)/
	@rm $(BUILD)/mutants/$(MUTANT)/obj/$(WHERE:.c=.o)
	@$(CC) $(CFLAGS) -w -c -o $(BUILD)/mutants/$(MUTANT)/obj/$(WHERE:.c=.o) $(FROM)
	@$(CC) -shared -o $(BUILD)/mutants/$(MUTANT)/lib/neap/core.so \
	  $(OBJ:$(BUILD)/%=$(BUILD)/mutants/$(MUTANT)/%) -luv -ledit -ldl -lm

# The decoder alone under libFuzzer, from the captures and vectors on; what it found new stays in
# $(BUILD)/fuzz/found for the next time, what broke it in $(BUILD)/fuzz.
$(BUILD)/fuzz/packet: spec/support/fuzz_packet.c $(wildcard csrc/base/*.[ch] csrc/core/*.[ch])
	@mkdir -p $(@D)/seeds $(@D)/found
	clang -g -O1 -std=c11 -D_GNU_SOURCE -Icsrc -fsanitize=fuzzer,address,undefined \
	  -fno-sanitize-recover=undefined -o $@ $(filter %.c,$^)

fuzz: deps
	@sh spec/support/deps.sh clang libclang-rt-14-dev
	@$(MAKE) --no-print-directory -s all $(BUILD)/fuzz/packet
	@NEAP_LIB=$(BUILD)/lib luajit spec/support/fuzz_corpus.lua $(BUILD)/fuzz/seeds
	@$(BUILD)/fuzz/packet -max_total_time=$(SECONDS) -max_len=4096 -timeout=5 -rss_limit_mb=1024 \
	  -artifact_prefix=$(BUILD)/fuzz/ -verbosity=1 $(BUILD)/fuzz/found $(BUILD)/fuzz/seeds

# A group that lives among packets of its own, changed; one round again: make fuzz-live SEED=17.
# What was running when it ended stands in build/fuzz-live.
LIVE_SECONDS = $(if $(filter command line,$(origin SECONDS)),$(SECONDS),300)
fuzz-live: deps
	@$(MAKE) --no-print-directory -s -j2 BUILD=build/san SAN=1 OPT="-O1 -g" all
	@LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1 NEAP_LIB=build/san/lib \
	  luajit spec/support/fuzz_live_main.lua $(LIVE_SECONDS) "$(SEED)" build/fuzz-live

# Installs the command, the library, pkg-config's file, Lua files and stacks below PREFIX.
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig \
	  $(DESTDIR)$(PREFIX)/lib/neap/lib/neap $(DESTDIR)$(PREFIX)/share/neap/stacks
	cp -r lua $(DESTDIR)$(PREFIX)/share/neap/
	install -m 644 stacks/*.lua $(DESTDIR)$(PREFIX)/share/neap/stacks/
	install -m 755 $(BUILD)/lib/neap/core.so $(DESTDIR)$(PREFIX)/lib/neap/lib/neap/core.so
	install -m 644 csrc/neap.h $(DESTDIR)$(PREFIX)/include/neap.h
	$(MAKE) --no-print-directory -B $(BUILD)/installed/lib/libneap.so BUILD=$(BUILD)/installed \
	  ROOT_NOW=$(PREFIX)/share/neap LIB_NOW=$(PREFIX)/lib/neap/lib
	install -m 755 $(BUILD)/installed/lib/libneap.so $(DESTDIR)$(PREFIX)/lib/libneap.so
	sed -e 's#^export NEAP_LIB.*#export NEAP_LIB="$(PREFIX)/lib/neap/lib" NEAP_ROOT="$(PREFIX)/share/neap"#' \
	  $(BUILD)/neap >$(DESTDIR)$(PREFIX)/bin/neap && chmod 755 $(DESTDIR)$(PREFIX)/bin/neap
	printf 'Name: neap\nDescription: reliable group communication\nVersion: 0.1\nCflags: -I%s\nLibs: -L%s -lneap -Wl,-rpath,%s\n' \
	  $(PREFIX)/include $(PREFIX)/lib $(PREFIX)/lib >$(DESTDIR)$(PREFIX)/lib/pkgconfig/neap.pc

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d)

-include $(patsubst csrc/%.c,$(BUILD)/obj/%.d,$(wildcard csrc/bench/*.c))

.PHONY: mutants mutant bench all deps run repl test sim soak fuzz fuzz-live install clean
