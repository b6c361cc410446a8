/* bind_layer: layers written in Lua, called once per batch.
 *
 * A class made at run time points to the functions below.  Each goes to one Lua function of the
 * instance by lua_pcall; the messages lie in `in`, what the layer passes on it puts (by FFI) into
 * `rising` and `falling`, which are passed when it has returned.  It never comes back into C that
 * could call Lua again.
 *
 *     up(batch)  ->  in = batch  ->  lua_pcall(up)  ->  pass rising, pass falling
 *
 * An error stops the stack where it stands: messages in hand stay there, the loop and the other
 * stacks go on.  The environment table of the world holds, at 1 the traceback, at 2 who is told of
 * a failure, under each class who makes an instance. */

#include "bind/bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct neap_bind_layer *of(const struct neap_layer *layer)
{
  return (struct neap_bind_layer *)(uintptr_t)layer;
}

/* What the layer has put aside goes on its way. */
static void flush(struct neap_bind_layer *l)
{
  neap_pass_up(&l->layer, &l->rising);
  neap_pass_down(&l->layer, &l->falling);
}

/* The error stands on top of the stack; afterwards it is gone. */
static void fail(struct neap_bind_layer *l, lua_State *L)
{
  struct neap_stack *stack = l->layer.stack;
  struct neap_event trouble = {.kind = NEAP_EVENT_TROUBLE, .code = NEAP_REFUSED};
  const char *text = lua_tostring(L, -1);
  l->failed = true;
  snprintf(l->why, sizeof l->why, "%.*s", (int)strcspn(text ? text : "", "\n"), text ? text : "");
  snprintf(trouble.text, sizeof trouble.text, "%s: %.120s", l->layer.name, text ? text : "error");
  lua_rawgeti(L, l->bind->env, 2);
  lua_insert(L, -2);
  lua_pushinteger(L, (lua_Integer)(stack->channel ? stack->channel->id : 0));
  lua_insert(L, -2);
  lua_pushstring(L, l->layer.name);
  if (lua_pcall(L, 3, 0, 0)) lua_pop(L, 1);
  if (stack->closing || stack->closed || !stack->channel) return;
  neap_stack_pause(stack);
  neap_channel_event(stack->channel, &trouble);
}

/* Calls one of the instance's functions; its result is left on the stack if it returns true. */
static bool call(struct neap_bind_layer *l, int function, enum neap_errand errand)
{
  struct neap_bind *bind = l->bind;
  lua_State *L = bind->L;
  if (l->failed && errand != NEAP_ERRAND_CLOSE) return false;
  NEAP_ASSERT(
    L && !l->running); /* Only what is a lua_CFunction runs turns; nothing calls through. */
  lua_checkstack(L, 8);
  lua_rawgeti(L, bind->env, 1);
  lua_rawgeti(L, bind->env, function);
  lua_pushinteger(L, errand);
  l->running = true;
  int status = lua_pcall(L, 1, 1, -3);
  l->running = false;
  lua_remove(L, -2);
  if (!status) return true;
  fail(l, L);
  return false;
}

static void errand(struct neap_bind_layer *l, enum neap_errand what)
{
  if (call(l, l->call, what)) lua_pop(l->bind->L, 1);
  if (!l->failed) flush(l);
}

static void fire(struct neap_layer *layer, struct neap_timer *timer)
{
  struct neap_bind_layer *l = of(layer);
  l->number = (uint32_t)(timer - l->timers);
  errand(l, NEAP_ERRAND_TIMER);
}

/* ---- the functions of a class ---- */

/* The maker gets the instance and returns up, down (or nil) and the function for all the rest. */
int neap_bind_layer_open(struct neap_layer *layer, struct neap_trail *trail)
{
  struct neap_bind_layer *l = of(layer);
  struct neap_bind *bind = layer->stack->world->host;
  lua_State *L = bind->L;
  l->bind = bind;
  NEAP_ASSERT(L);
  for (unsigned i = 0; i < NEAP_BIND_TIMERS; i++) neap_timer_init(layer, &l->timers[i], fire);
  lua_checkstack(L, 8);
  lua_rawgeti(L, bind->env, 1);
  lua_pushlightuserdata(L, (void *)(uintptr_t)layer->class);
  lua_rawget(L, bind->env);
  lua_pushlightuserdata(L, layer);
  if (lua_pcall(L, 1, 3, -3)) {
    neap_trail(trail, NEAP_CONFIG, "%.400s", lua_tostring(L, -1));
    lua_pop(L, 2);
    l->failed = true;
    return NEAP_CONFIG;
  }
  l->call = luaL_ref(L, bind->env);
  l->down = luaL_ref(L, bind->env);
  l->up = luaL_ref(L, bind->env);
  lua_pop(L, 1);
  if (call(l, l->call, NEAP_ERRAND_OPEN)) lua_pop(L, 1);
  if (l->failed) {
    neap_bind_layer_close(layer);
    return neap_trail(trail, NEAP_CONFIG, "%s", l->why);
  }
  flush(l);
  return 0;
}

void neap_bind_layer_close(struct neap_layer *layer)
{
  struct neap_bind_layer *l = of(layer);
  for (unsigned i = 0; i < NEAP_BIND_TIMERS; i++) neap_timer_stop(&l->timers[i]);
  if (call(l, l->call, NEAP_ERRAND_CLOSE)) lua_pop(l->bind->L, 1);
  neap_batch_free(&l->in);
  neap_batch_free(&l->rising);
  neap_batch_free(&l->falling);
  luaL_unref(l->bind->L, l->bind->env, l->up);
  luaL_unref(l->bind->L, l->bind->env, l->down);
  luaL_unref(l->bind->L, l->bind->env, l->call);
}

static void batch(struct neap_layer *layer, struct neap_batch *in, int function, unsigned what)
{
  struct neap_bind_layer *l = of(layer);
  neap_batch_append(&l->in, in); /* Empty, unless the layer failed: then they stay with it. */
  if (call(l, function, what)) lua_pop(l->bind->L, 1);
  if (!l->failed) flush(l);
}

void neap_bind_layer_up(struct neap_layer *layer, struct neap_batch *in)
{
  batch(layer, in, of(layer)->up, NEAP_ERRAND_UP);
}

void neap_bind_layer_down(struct neap_layer *layer, struct neap_batch *in)
{
  batch(layer, in, of(layer)->down, NEAP_ERRAND_DOWN);
}

int neap_bind_layer_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct neap_bind_layer *l = of(layer);
  int verdict = NEAP_PASS;
  l->event = event;
  l->event_up = up;
  if (call(l, l->call, NEAP_ERRAND_EVENT)) {
    verdict = (int)lua_tointeger(l->bind->L, -1);
    lua_pop(l->bind->L, 1);
  }
  l->event = NULL;
  if (!l->failed) flush(l);
  return verdict;
}

void neap_bind_layer_still(struct neap_layer *layer)
{
  errand(of(layer), NEAP_ERRAND_STILL);
}

static uint32_t row_of(const struct neap_layer *layer, const struct neap_attr *attr)
{
  return (uint32_t)(attr - layer->class->attrs);
}

int neap_bind_layer_may(const struct neap_layer *layer, const struct neap_attr *attr,
  const struct neap_value *value, char *why, size_t size)
{
  struct neap_bind_layer *l = of(layer);
  l->number = row_of(layer, attr);
  l->value = value;
  int code = 0;
  if (call(l, l->call, NEAP_ERRAND_MAY)) {
    const char *text = lua_tostring(l->bind->L, -1);
    if (text) {
      snprintf(why, size, "%s", text);
      code = NEAP_REFUSED;
    }
    lua_pop(l->bind->L, 1);
  }
  l->value = NULL;
  return code;
}

void neap_bind_layer_changed(struct neap_layer *layer, const struct neap_attr *attr)
{
  of(layer)->number = row_of(layer, attr);
  errand(of(layer), NEAP_ERRAND_CHANGED);
}

void neap_bind_layer_check(const struct neap_layer *layer)
{
  struct neap_bind_layer *l = of(layer);
  if (call(l, l->call, NEAP_ERRAND_CHECK)) lua_pop(l->bind->L, 1);
}

void neap_bind_layer_peer_gone(struct neap_layer *layer, struct neap_peer *peer, void *state)
{
  struct neap_bind_layer *l = of(layer);
  (void)state; /* It only says that there is some in Lua. */
  l->peer = peer;
  if (layer->open) errand(l, NEAP_ERRAND_GONE);
  l->peer = NULL;
}

/* Operations of Lua layers are called in Lua; from C there is nobody who could. */
int neap_bind_layer_op(struct neap_layer *layer, const char *argument, char *out)
{
  (void)argument;
  snprintf(out, NEAP_OP_TEXT, "%s is written in Lua: its operations are called there", layer->name);
  return NEAP_REFUSED;
}

/* ---- what an instance calls by FFI ---- */

/* After an operation, which runs outside of a turn: what it passed goes on its way. */
void neap_bind_flush(struct neap_bind_layer *l)
{
  flush(l);
  neap_stack_ready(l->layer.stack);
}

/* Messages that were passed before go before it. */
void neap_bind_event_send(struct neap_bind_layer *l, struct neap_event *event, bool up)
{
  flush(l);
  if (event->view) event->view->refs++;
  neap_peer_ref(event->peer);
  if (event->query)
    (up ? neap_ask_up : neap_ask_down)(&l->layer, event);
  else
    (up ? neap_event_up : neap_event_down)(&l->layer, event);
}

void neap_bind_timer_start(struct neap_bind_layer *l, int number, uint64_t delay, bool background)
{
  l->timers[number].background = background;
  neap_timer_start(&l->layer, &l->timers[number], delay);
}

void neap_bind_timer_stop(struct neap_bind_layer *l, int number)
{
  neap_timer_stop(&l->timers[number]);
}

/* The layer has state for this peer from now on, so it wants to hear when it is gone. */
void neap_bind_peer_keep(struct neap_layer *layer, struct neap_peer *peer)
{
  neap_peer_state(layer, peer);
}

void neap_bind_peer_hold(struct neap_layer *layer, struct neap_peer *peer)
{
  neap_peer_hold(layer, peer);
}

void neap_bind_peer_release(struct neap_layer *layer, struct neap_peer *peer)
{
  neap_peer_release(layer, peer);
}

double neap_bind_chance(struct neap_layer *layer, double bound)
{
  return (double)neap_chance_below(layer, (uint64_t)bound);
}
