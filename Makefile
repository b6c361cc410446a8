# `make` builds everything into build/ and installs nothing.  BUILD=, SAN=1 (sanitizers), MUTANT=n.

BUILD ?= build
CC ?= gcc
OPT ?= -O2 -g
CFLAGS = -std=c11 -D_GNU_SOURCE $(OPT) -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wshadow -Wconversion \
  -Werror -Icsrc $(shell pkg-config --cflags luajit libuv 2>/dev/null)
ifdef SAN
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer
LDSAN = -fsanitize=address,undefined
endif
ifdef MUTANT
CFLAGS += -DNEAP_MUTANT=$(MUTANT)
endif

SRC = $(wildcard csrc/base/*.c csrc/core/*.c csrc/layers/*.c csrc/layers/*/*.c csrc/sim/*.c csrc/real/*.c csrc/bind/*.c)
OBJ = $(SRC:csrc/%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/classes.o
LAYERS = $(filter-out template,$(notdir $(basename $(wildcard csrc/layers/*.c))))

all: $(BUILD)/neap/core.so

$(BUILD)/neap/core.so: $(OBJ)
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

clean:
	rm -rf $(BUILD)

-include $(OBJ:.o=.d)

.PHONY: all clean
