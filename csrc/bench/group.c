/* group: a real group, driven from C, so that nothing but the stack is measured.
 *
 * Each process opens a channel on a world of its own, waits until everybody is in the view, and
 * then sends until the gate shuts, or takes what arrives. */

#include "bench/bench.h"

#include "core/channel.h"
#include "core/layer.h"
#include "real/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* POUR: messages between two steps, so that what is sent is still warm when it goes down. */
enum { LAYERS = 24, SETTINGS = 16, WORDS = 1024, POUR = 256, PORT = 20000 };

extern const struct neap_class *const neap_classes[];

static void fail(const char *what, const char *why)
{
  fprintf(stderr, "bench: %s: %s\n", what, why);
  exit(1);
}

/* ---- the stack of a load ---- */

struct plan {
  struct neap_stack_spec spec;
  struct neap_layer_spec layers[LAYERS];
  struct neap_setting settings[LAYERS][SETTINGS];
  char words[WORDS], set[WORDS];
};

static const struct neap_class *class_of(const char *name)
{
  for (int i = 0; neap_classes[i]; i++)
    if (!strcmp(neap_classes[i]->name, name)) return neap_classes[i];
  fail(name, "no such layer");
  return NULL;
}

/* "layer.attr=value ..." onto the layers that are there. */
static void apply(struct plan *plan)
{
  char *rest = NULL;
  for (char *word = strtok_r(plan->set, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
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

const struct neap_stack_spec *bench_plan(const struct bench_load *load)
{
  static struct plan plan;
  char *rest = NULL;
  plan = (struct plan){.spec = {.name = "bench", .file = "bench", .layers = plan.layers}};
  snprintf(plan.words, sizeof plan.words, "%s", load->stack);
  for (char *word = strtok_r(plan.words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    if (plan.spec.count == LAYERS) fail("stack", "too many layers");
    uint32_t i = plan.spec.count++;
    plan.layers[i] =
      (struct neap_layer_spec){.class = class_of(word), .settings = plan.settings[i]};
  }
  snprintf(plan.set, sizeof plan.set, "udp.group=239.7.7.98:%u %s discard.up=%.6f %s",
    PORT + load->run, load->namespaces ? "udp.interface=eth0" : "", load->loss,
    load->set ? load->set : "");
  apply(&plan);
  if (neap_stack_check(&plan.spec, problem, NULL)) exit(1);
  return &plan.spec;
}

/* ---- a member ---- */

struct member {
  const struct bench_load *load;
  struct bench_shared *shared;
  struct bench_member *mine;
  struct neap_world *world;
  struct neap_channel *channel;
  struct neap_peer *other; /* somebody else in the view */
  uint8_t *body;
  unsigned view;                    /* members */
  bool room;                        /* as far as is known */
  bool echo;                        /* answers each message, or waits for the answer */
  bool rsvp;                        /* sends are synchronous */
  bool done;                        /* the last one has ended */
  bool stamped;                     /* messages begin with the time at which they were sent */
  bool waiting;                     /* late: the last one was late as well */
  const struct neap_attr *overflow; /* of the lowest layer: what its sockets had no room for */
  uint64_t taken;
};

static void note(struct member *m, const struct neap_note *note)
{
  if (note->kind == NEAP_NOTE_VIEW) {
    m->view = note->view->count;
    for (uint32_t i = 0; i < note->view->count; i++)
      if (!note->view->members[i]->self) m->other = note->view->members[i];
  }
  if (note->kind == NEAP_NOTE_ROOM) m->room = true;
  if (note->kind == NEAP_NOTE_DONE) m->done = true;
  if (note->kind == NEAP_NOTE_FAILED) fail("join", note->text);
  if (note->kind == NEAP_NOTE_TROUBLE) fprintf(stderr, "bench: trouble: %s\n", note->text);
}

/* False: there is no room now. */
static bool say(struct member *m, struct neap_peer *to)
{
  struct neap_send send = {.to = to,
    .body = m->body,
    .len = m->load->size,
    .no_loopback = !m->load->all_send && !to && !m->rsvp,
    .rsvp = m->rsvp,
    .ack_on = 2, /* delivery */
    .timeout = UINT64_MAX};
  int64_t code = neap_channel_send(m->channel, &send);
  if (code < 0 && code != NEAP_WOULD_BLOCK) fail("send", neap_code_text((int)code));
  m->room = code >= 0;
  return m->room;
}

/* Of messages that are late in a row only the first was lost; the others waited behind it. */
static void look_at_stamp(struct member *m, const struct neap_msg *msg)
{
  uint64_t sent, now = bench_now();
  if (msg->len < sizeof sent || msg->from->self) return;
  memcpy(&sent, msg->body, sizeof sent);
  bool late = now - sent >= m->load->late;
  if (late && !m->waiting) bench_time(m->shared, now - sent);
  m->waiting = late;
}

static const struct neap_layer *wire_of(const struct member *m)
{
  return m->channel->stack->layers[m->channel->stack->count - 1];
}

/* Takes what waits for the application. */
static void take(struct member *m)
{
  struct neap_row row;
  uint64_t messages = 0, bytes = 0;
  while (neap_channel_next(m->channel, &row)) {
    if (row.note) {
      note(m, row.note);
      neap_note_free(row.note);
      continue;
    }
    struct neap_msg *msg;
    while ((msg = neap_inbox_take(m->channel, row.inbox))) {
      messages++;
      bytes += msg->len;
      if (m->stamped) look_at_stamp(m, msg);
      if (m->echo && !msg->from->self && m->mine != m->shared->member) say(m, msg->from);
      neap_msg_free(msg);
    }
  }
  m->taken += messages;
  atomic_fetch_add_explicit(&m->mine->messages, messages, memory_order_relaxed);
  atomic_fetch_add_explicit(&m->mine->bytes, bytes, memory_order_relaxed);
  if (m->overflow) m->mine->overflow = (uint64_t)neap_attr_get(wire_of(m), m->overflow).number;
}

static void step(struct member *m, uint64_t most)
{
  m->world->class->step(m->world, m->world->now + most);
  take(m);
}

void bench_tell(const struct neap_channel *channel)
{
  if (!getenv("BENCH_TELL")) return;
  for (uint32_t i = 0; i < channel->stack->count; i++) {
    const struct neap_layer *layer = channel->stack->layers[i];
    for (const struct neap_attr *a = layer->class->attrs; a && a->kind; a++) {
      struct neap_value v = neap_attr_get(layer, a);
      if (a->kind != NEAP_PARAM && v.number)
        fprintf(stderr, "%s %s.%s %llu\n", channel->name, layer->name, a->name,
          (unsigned long long)v.number);
    }
  }
}

static void join(struct member *m, unsigned me)
{
  struct neap_trail trail = {""};
  char name[16];
  snprintf(name, sizeof name, "m%u", me);
  m->mine = &m->shared->member[me];
  m->room = true;
  m->body = calloc(1, m->load->size + 1u);
  m->world = neap_real_new(bench_now() + me, &trail);
  if (!m->world || !m->body) fail("world", trail.text);
  while (me && !m->shared->member[me - 1].ready && !m->shared->stop) bench_rest(0.002);
  m->channel = neap_channel_open(m->world, bench_plan(m->load), "bench", name, &trail);
  if (!m->channel) fail("open", trail.text);
  for (const struct neap_attr *a = wire_of(m)->class->attrs; a->kind; a++)
    if (!strcmp(a->name, "receive_overflow")) m->overflow = a;
  while (!m->shared->stop && !m->view) step(m, NEAP_MS(20));
  m->mine->ready = true;
  while (!m->shared->stop && (m->view <= m->load->receivers || !m->shared->go)) step(m, NEAP_MS(2));
}

static void leave(struct member *m)
{
  bench_tell(m->channel);
  neap_channel_close(m->channel);
  neap_channel_free(m->channel);
  neap_world_free(m->world);
  free(m->body);
}

void bench_group(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct member m = {.load = load, .shared = shared};
  join(&m, me);
  while (!shared->stop) {
    if ((!me || load->all_send) && m.room) {
      for (int i = 0; i < POUR && say(&m, NULL); i++) continue;
      step(&m, 0);
    } else {
      step(&m, NEAP_MS(20));
    }
  }
  leave(&m);
}

/* Nobody says anything. */
void bench_group_idle(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct member m = {.load = load, .shared = shared};
  join(&m, me);
  while (!shared->stop) step(&m, NEAP_MS(20));
  leave(&m);
}

/* Member 0 asks, member 1 answers. */
void bench_group_echo(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct member m = {.load = load, .shared = shared, .echo = true};
  join(&m, me);
  while (!shared->stop) {
    if (me) {
      step(&m, NEAP_MS(20));
      continue;
    }
    uint64_t begun = bench_now(), before = m.taken;
    if (!say(&m, m.other)) fail("send", "no room for one message");
    while (!shared->stop && m.taken == before) step(&m, NEAP_MS(20));
    bench_time(shared, bench_now() - begun);
  }
  leave(&m);
}

/* Member 0 sends synchronously, one after the other; all have to be done with it, itself too. */
void bench_group_rsvp(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct member m = {.load = load, .shared = shared, .rsvp = true};
  join(&m, me);
  while (!shared->stop) {
    if (me) {
      step(&m, NEAP_MS(20));
      continue;
    }
    uint64_t begun = bench_now();
    m.done = false;
    if (!say(&m, NULL)) fail("send", "no room for one message");
    while (!shared->stop && !m.done) step(&m, NEAP_MS(20));
    bench_time(shared, bench_now() - begun);
  }
  leave(&m);
}

/* Member 0 sends a message now and then; the others look how old those are that come late. */
void bench_group_late(const struct bench_load *load, struct bench_shared *shared, unsigned me)
{
  struct member m = {.load = load, .shared = shared, .stamped = me != 0};
  join(&m, me);
  while (!shared->stop) {
    uint64_t now = bench_now();
    if (!me) memcpy(m.body, &now, sizeof now);
    if (!me) say(&m, NULL);
    do step(&m, load->pause / 8 + 1);
    while (!shared->stop && !me && bench_now() - now < load->pause);
  }
  leave(&m);
}
