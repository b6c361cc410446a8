/* Members: pausing, waking, killing, a view from nowhere; and who keeps a world from settling. */

#include "sim/net.h"

#include "base/text.h"
#include "core/channel.h"

#include <stdio.h>

enum { PENDING_LINES = 16 };

/* The next open stack of this member, from `link` on; NULL behind the last. */
static struct neap_stack *stack_of(
  const struct neap_world *world, const struct neap_link *link, const char *name)
{
  for (; link != &world->stacks; link = link->next) {
    struct neap_stack *stack = NEAP_HOLDER(link, struct neap_stack, link);
    if (!strcmp(stack->self->name, name)) return stack;
  }
  return NULL;
}

static struct neap_stack *first_of(const struct neap_world *world, const char *name)
{
  return stack_of(world, world->stacks.next, name);
}

static struct neap_stack *next_of(const struct neap_stack *stack, const char *name)
{
  return stack_of(stack->world, stack->link.next, name);
}

int neap_sim_pause(struct neap_world *world, const char *name)
{
  struct sim *sim = neap_sim_of(world);
  struct neap_stack *stack = first_of(world, name);
  if (!stack) return NEAP_NOT_A_MEMBER;
  struct host *host = neap_sim_host(sim, name);
  if (host->paused) return 0;
  host->paused = true;
  for (; stack; stack = next_of(stack, name)) neap_stack_pause(stack);
  neap_sim_event(sim, SIM_PAUSED, host, 0);
  return 0;
}

int neap_sim_resume(struct neap_world *world, const char *name)
{
  struct sim *sim = neap_sim_of(world);
  struct neap_stack *stack = first_of(world, name);
  if (!stack) return NEAP_NOT_A_MEMBER;
  struct host *host = neap_sim_host(sim, name);
  if (!host->paused) return 0;
  host->paused = false;
  neap_sim_event(sim, SIM_RESUMED, host, 0);
  for (; stack; stack = next_of(stack, name)) neap_stack_resume(stack);
  neap_sim_drain(sim, host);
  return 0;
}

bool neap_sim_paused(const struct neap_world *world, const char *name)
{
  const struct host *host = neap_sim_host_find(neap_sim_of(world), name);
  return host && host->paused;
}

int neap_sim_kill(struct neap_world *world, const char *name)
{
  struct sim *sim = neap_sim_of(world);
  struct neap_stack *stack = first_of(world, name), *next;
  if (!stack) return NEAP_NOT_A_MEMBER;
  struct host *host = neap_sim_host(sim, name);
  neap_sim_event(sim, SIM_KILLED, host, 0);
  for (struct neap_link *link = host->ports.next; link != &host->ports; link = link->next)
    NEAP_HOLDER(link, struct port, link)->dead = true;
  for (; stack; stack = next) {
    next = next_of(stack, name);
    if (stack->channel)
      neap_channel_close(stack->channel);
    else
      neap_stack_close(stack);
  }
  host->paused = false; /* Whoever joins under this name starts afresh. */
  return 0;
}

static const struct neap_op *op_named(const struct neap_class *class, const char *name)
{
  for (const struct neap_op *op = class->ops; op && op->name; op++)
    if (!strcmp(op->name, name)) return op;
  return NULL;
}

int neap_sim_inject_view(struct neap_world *world, const char *name, const char *const *members,
  uint32_t count, char *why, size_t size)
{
  struct neap_stack *stack = first_of(world, name);
  if (!stack) return NEAP_NOT_A_MEMBER;
  struct neap_layer *layer = NULL;
  for (uint32_t i = 0; i < stack->count && !layer; i++)
    if (op_named(stack->layers[i]->class, "inject_view")) layer = stack->layers[i];
  if (!layer) {
    snprintf(why, size, "the stack of %s has no layer with an operation 'inject_view'", name);
    return NEAP_REFUSED;
  }
  char list[NEAP_OP_TEXT], answer[NEAP_OP_TEXT] = "";
  struct neap_text text = neap_text_of(list, sizeof list);
  for (uint32_t m = 0; m < count; m++) {
    char address[NEAP_ADDR_TEXT];
    const struct neap_stack *member = first_of(world, members[m]);
    if (!member) {
      snprintf(why, size, "%s is not a member", members[m]);
      return NEAP_NOT_A_MEMBER;
    }
    neap_text_add(&text, "%s%s", m ? " " : "", neap_addr_text(&member->self->addr, address));
  }
  neap_sim_event(neap_sim_of(world), SIM_INJECTED, stack->host, neap_sim_digest(list, text.len));
  int code = op_named(layer->class, "inject_view")->run(layer, list, answer);
  if (code < 0) snprintf(why, size, "%s", answer);
  return code;
}

/* ---- what is left to do ---- */

static bool counted_before(const struct neap_timers *timers, uint32_t place)
{
  for (uint32_t t = 1; t < place; t++)
    if (timers->heap[t]->layer == timers->heap[place]->layer && !timers->heap[t]->background_now)
      return true;
  return false;
}

/* About so long: four digits can be read, nanoseconds of a second cannot. */
static const char *about(uint64_t ns, char *text, size_t size)
{
  uint64_t digit = 1;
  while (ns / digit >= 10000) digit *= 10;
  return neap_quantity_text((ns + digit - 1) / digit * digit, "ns", text, size);
}

void neap_sim_pending(const struct neap_world *world, char *out, size_t size)
{
  struct sim *sim = neap_sim_of(world);
  const struct neap_timers *timers = &world->timers;
  struct neap_text text = neap_text_of(out, size);
  unsigned lines = 0;
  for (uint32_t t = 1; t <= timers->count && lines < PENDING_LINES; t++) {
    const struct neap_timer *timer = timers->heap[t];
    if (timer->background_now || counted_before(timers, t)) continue;
    char due[32];
    about(timer->at - world->now, due, sizeof due);
    if (timer->layer && !timer->layer->stack->paused)
      neap_text_add(&text, "%s: a timer of %s is due in %s\n", timer->layer->stack->self->name,
        timer->layer->name, due);
    else if (!timer->layer)
      neap_text_add(&text, "a program waits and goes on in %s\n", due);
    lines += !(timer->layer && timer->layer->stack->paused);
  }
  for (uint32_t d = 1; d <= sim->due_count && lines < PENDING_LINES; d++) {
    for (const struct flight *f = sim->heap[d].flight; f && lines < PENDING_LINES; f = f->next) {
      char what[160];
      if (f->background) continue;
      neap_sim_describe(&sim->world, f->bytes, f->len, what, sizeof what);
      neap_text_add(
        &text, "a packet from %s to %s: %s\n", f->sender->name, f->to->host->name, what);
      lines++;
    }
  }
  if (!lines) neap_text_add(&text, "nothing\n");
}
