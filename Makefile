# make            builds everything into build/ and installs nothing
# make run        installs what is missing, builds, shows the main job
# make repl       three simulated members and a prompt; time stands still until told to run
# make test       installs, builds, lints, runs every spec with its variants
# make sim SEEDS=1..1000    the swarm         make soak    real sockets under load
# make bench, make fuzz, make install PREFIX= DESTDIR=, make clean
#
# BUILD=folder builds elsewhere; SAN=1 with sanitizers; MUTANT=n with one fault of spec/mutants.md.

BUILD ?= build
PREFIX ?= /usr/local
CC = gcc
OPT ?= -O2 -g
SEEDS ?= 1..1000
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

all: $(BUILD)/lib/neap/core.so $(BUILD)/neap

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

soak: deps
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/neap run spec/support/soak.lua

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d)

.PHONY: all deps run repl test sim soak clean
