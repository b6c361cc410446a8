/* group: a real group, driven from C, so that nothing but the stack is measured.
 *
 * Each process opens a channel on a world of its own, waits until everybody is in the view, and then
 * sends until the gate shuts, or takes what arrives. */

#include "bench/bench.h"

#include "core/channel.h"
#include "core/layer.h"
#include "core/promise.h"
#include "real/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 24, SETTINGS = 16, WORD = 64 };

extern const struct neap_class *const neap_classes[];

static const char lan[] =
  "rsvp frag ufc mfc gms stable unicast nakack verify_suspect fd_all ping udp";

struct plan {
  struct neap_stack_spec spec;
  struct neap_layer_spec layers[LAYERS];
  struct neap_setting settings[LAYERS][SETTINGS];
  char words[LAYERS * WORD], set[1024];
};

static void fail(const char *what, const char *why)
{
  fprintf(stderr, "bench: %s: %s\n", what, why);
  exit(1);
}

static const struct neap_class *class_of(const char *name)
{
  for (int i = 0; neap_classes[i]; i++)
    if (!strcmp(neap_classes[i]->name, name)) return neap_classes[i];
  return NULL;
}

/* "layer.attr=value ..." onto the layers that are there. */
static void apply(struct plan *plan, char *set)
{
  char *rest = NULL;
  for (char *word = strtok_r(set, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char *dot = strchr(word, '.'), *is = strchr(word, '=');
    if (!dot || !is) fail(word, "is not layer.attr=value");
    *dot = *is = 0;
    for (uint32_t i = 0; i < plan->spec.count; i++) {
      struct neap_layer_spec *layer = &plan->layers[i];
      if (strcmp(layer->class->name, word) || layer->setting_count == SETTINGS) continue;
      plan->settings[i][layer->setting_count++] =
        (struct neap_setting){.attr = dot + 1, .text = is + 1};
    }
  }
}

static void problem(void *context, const char *text)
{
  (void)context;
  fprintf(stderr, "bench: %s\n", text);
}

static void make_plan(struct plan *plan, const struct bench_load *load)
{
  memset(plan, 0, sizeof *plan);
  const char *list = !strcmp(load->stack, "lan") ? lan : load->stack;
  char *rest = NULL;
  snprintf(plan->words, sizeof plan->words, "%s", list);
  for (char *word = strtok_r(plan->words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    const struct neap_class *class = class_of(word);
    if (!class) fail(word, "no such layer");
    uint32_t i = plan->spec.count++;
    plan->layers[i] = (struct neap_layer_spec){.class = class, .settings = plan->settings[i]};
  }
  plan->spec.name = "bench";
  plan->spec.file = "bench";
  plan->spec.layers = plan->layers;
  snprintf(plan->set, sizeof plan->set, "udp.group=239.7.7.98:7698 discard.up=%.6f %s", load->loss,
    load->set ? load->set : "");
  apply(plan, plan->set);
  if (neap_stack_check(&plan->spec, problem, NULL)) exit(1);
}

const struct neap_stack_spec *bench_plan(const struct bench_load *load)
{
  static struct plan plan;
  make_plan(&plan, load);
  return &plan.spec;
}

struct member {
  const struct bench_load *load;
  struct bench_shared *shared;
  struct bench_member *mine;
  struct neap_world *world;
  struct neap_channel *channel;
  unsigned view;
  bool room;
};

/* Takes what waits for the application. */
static void take(struct member *m)
{
  struct neap_row row;
  uint64_t messages = 0, bytes = 0;
  while (neap_channel_next(m->channel, &row)) {
    if (row.note) {
      if (row.note->kind == NEAP_NOTE_VIEW) m->view = row.note->view->count;
      if (row.note->kind == NEAP_NOTE_ROOM) m->room = true;
      if (row.note->kind == NEAP_NOTE_FAILED) fail("join", row.note->text);
      if (row.note->kind == NEAP_NOTE_TROUBLE) fprintf(stderr, "bench: %s\n", row.note->text);
      neap_note_free(row.note);
      continue;
    }
    struct neap_msg *msg;
    while ((msg = neap_inbox_take(m->channel, row.inbox))) {
      messages++;
      bytes += msg->len;
      neap_msg_free(msg);
    }
  }
  atomic_fetch_add_explicit(&m->mine->messages, messages, memory_order_relaxed);
  atomic_fetch_add_explicit(&m->mine->bytes, bytes, memory_order_relaxed);
}

static void step(struct member *m, uint64_t most)
{
  m->world->class->step(m->world, m->world->now + most);
  take(m);
}

/* Sends until the gate shuts, or a good many. */
static void pour(struct member *m, const uint8_t *body)
{
  struct neap_send send = {
    .body = body, .len = m->load->size, .timeout = UINT64_MAX, .no_loopback = !m->load->all_send};
  for (int i = 0; i < 4096; i++) {
    int64_t code = neap_channel_send(m->channel, &send);
    if (code == NEAP_WOULD_BLOCK) {
      m->room = false;
      return;
    }
    if (code < 0) fail("send", neap_code_text((int)code));
  }
}

static void tell(const struct member *m)
{
  if (!getenv("BENCH_TELL")) return;
  for (uint32_t i = 0; i < m->channel->stack->count; i++) {
    const struct neap_layer *layer = m->channel->stack->layers[i];
    for (const struct neap_attr *a = layer->class->attrs; a && a->kind; a++) {
      struct neap_value v = neap_attr_get(layer, a);
      if (a->kind != NEAP_PARAM && v.number)
        fprintf(stderr, "%s %s.%s %llu\n", m->channel->name, layer->name, a->name,
          (unsigned long long)v.number);
    }
  }
}

void bench_group(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct neap_trail trail = {""};
  struct plan plan;
  char name[16];
  uint8_t *body = calloc(1, load->size + 1u);
  make_plan(&plan, load);
  snprintf(name, sizeof name, "m%u", me);
  struct member m = {
    load, shared, &shared->member[me], neap_real_new(load->seed + me, &trail), .room = true};
  if (!m.world) fail("world", trail.text);
  while (me && !shared->member[me - 1].ready && !shared->stop)
    nanosleep(&(struct timespec){0, 2000000}, NULL);
  m.channel = neap_channel_open(m.world, &plan.spec, "bench", name, &trail);
  if (!m.channel) fail("open", trail.text);
  while (!shared->stop && !m.view) step(&m, NEAP_MS(20));
  m.mine->ready = true;
  while (!shared->stop &&
         ((m.view <= load->receivers && neap_stack_gives(m.channel->stack, "view")) || !shared->go))
    step(&m, NEAP_MS(2));
  while (!shared->stop) {
    if ((!me || load->all_send) && m.room) {
      pour(&m, body);
      step(&m, 0);
    } else {
      step(&m, NEAP_MS(20));
    }
  }
  tell(&m);
  neap_channel_close(m.channel);
  neap_channel_free(m.channel);
  neap_world_free(m.world);
  free(body);
}
