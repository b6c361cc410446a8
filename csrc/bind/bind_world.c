/* bind_world: worlds as Lua values, and what may run turns.
 *
 * core.step(world) comes back when something waits for the application; nothing here ever calls it.
 * A world that is collected closes what is open in it, without a goodbye. */

#include "bind/bind.h"

#include "core/capture.h"
#include "core/promise.h"

#include "real/real.h"
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- channels, by the number that Lua knows them by ---- */

static struct neap_bind_channel *channel_at(struct neap_bind *bind, lua_State *L, int index)
{
  lua_Integer id = luaL_checkinteger(L, index);
  for (struct neap_bind_channel *c = bind->channels; c; c = c->next)
    if (c->channel->id == (uint32_t)id) return c;
  neap_bind_leave(bind);
  luaL_error(L, "there is no channel %d in this world", (int)id);
  return NULL;
}

static void hands_free(struct neap_bind *bind, struct neap_channel *channel)
{
  struct neap_hand **at = &bind->hands;
  while (*at) {
    struct neap_hand *hand = *at;
    if (channel && hand->channel != channel) {
      at = &hand->next;
      continue;
    }
    neap_batch_free(&hand->batch);
    *at = hand->next;
    free(hand);
  }
}

static void channel_free(struct neap_bind *bind, struct neap_bind_channel *c)
{
  struct neap_bind_channel **at = &bind->channels;
  while (*at != c) at = &(*at)->next;
  *at = c->next;
  hands_free(bind, c->channel);
  if (c->view) neap_note_free(c->view);
  neap_channel_free(c->channel);
  free(c);
}

/* core.open(world, spec, cluster, name): the channel and its number, or nil and the trail. */
static int channel_open(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  const struct neap_stack_spec *spec =
    lua_topointer(L, 3); /* a cdata struct of exactly this kind */
  const char *cluster = luaL_checkstring(L, 4), *name = luaL_checkstring(L, 5);
  struct neap_trail trail = {""};
  struct neap_channel *channel = neap_channel_open(bind->world, spec, cluster, name, &trail);
  neap_bind_leave(bind);
  if (!channel) {
    lua_pushnil(L);
    lua_pushstring(L, trail.text);
    return 2;
  }
  struct neap_bind_channel *c = calloc(1, sizeof *c);
  NEAP_ASSERT(c);
  c->channel = channel;
  c->next = bind->channels;
  bind->channels = c;
  channel->host = c;
  channel->id = ++bind->last_id;
  lua_pushlightuserdata(L, channel);
  lua_pushinteger(L, (lua_Integer)channel->id);
  return 2;
}

static int channel_leave(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  neap_channel_leave(channel_at(bind, L, 3)->channel);
  neap_bind_leave(bind);
  return 0;
}

static int channel_close(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  neap_channel_close(channel_at(bind, L, 3)->channel);
  neap_bind_leave(bind);
  return 0;
}

/* core.free(world, id): after it is closed and its last row was taken. */
static int channel_done(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  channel_free(bind, channel_at(bind, L, 3));
  neap_bind_leave(bind);
  return 0;
}

/* core.set(world, id, set, all): 0, or for the whole group a ticket; or a negative code and why. */
static int stack_set(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_channel *channel = channel_at(bind, L, 3)->channel;
  const struct neap_set *set = lua_topointer(L, 4); /* a cdata struct of exactly this kind */
  char why[NEAP_OP_TEXT] = "";
  int64_t code = NEAP_CLOSED;
  if (channel->stack && lua_toboolean(L, 5))
    code = neap_channel_agree(channel, set, why, sizeof why);
  else if (channel->stack)
    code = neap_stack_set(channel->stack, set, why, sizeof why);
  neap_bind_leave(bind);
  lua_pushinteger(L, (lua_Integer)code);
  lua_pushstring(L, why);
  return 2;
}

/* core.op(world, id, layer, name, argument): the answer's code and its text. */
static int stack_op(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_channel *channel = channel_at(bind, L, 3)->channel;
  const char *name = luaL_checkstring(L, 4), *wanted = luaL_checkstring(L, 5);
  const char *argument = luaL_optstring(L, 6, "");
  struct neap_layer *layer = channel->stack ? neap_stack_layer(channel->stack, name) : NULL;
  char *out = calloc(1, NEAP_OP_TEXT);
  int code = NEAP_CLOSED;
  NEAP_ASSERT(out);
  for (const struct neap_op *op = layer ? layer->class->ops : NULL; op && op->name; op++)
    if (!strcmp(op->name, wanted)) code = neap_op_run(layer, op, argument, out);
  if (channel->stack) neap_stack_ready(channel->stack);
  neap_bind_leave(bind);
  lua_pushinteger(L, code);
  lua_pushstring(L, out);
  free(out);
  return 2;
}

/* Runs every layer's check now. */
static int stack_checks(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_channel *channel = channel_at(bind, L, 3)->channel;
  if (channel->stack) neap_stack_checks(channel->stack);
  neap_bind_leave(bind);
  return 0;
}

/* core.maker(world, class, maker): who makes the instances of this class in this world. */
static int class_maker(lua_State *L)
{
  luaL_checkudata(L, 1, "neap.world");
  lua_getfenv(L, 1);
  lua_pushlightuserdata(L, (void *)(uintptr_t)lua_topointer(L, 2)); /* a cdata struct neap_class */
  lua_pushvalue(L, 3);
  lua_rawset(L, -3);
  return 0;
}

/* ---- descriptions ---- */

/* Adds a text to the list on top. */
static void problem(void *context, const char *text)
{
  lua_State *L = context;
  lua_pushstring(L, text);
  lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
}

/* core.check(spec): a list of problems. */
static int spec_check(lua_State *L)
{
  lua_newtable(L);
  neap_stack_check(lua_topointer(L, 1), problem, L);
  return 1;
}

/* core.promises(spec): the words that hold above it, in their order. */
static int spec_promises(lua_State *L)
{
  const struct neap_stack_spec *spec = lua_topointer(L, 1);
  lua_newtable(L);
  for (const struct neap_word *w = neap_words; w->word; w++)
    if (neap_stack_promises(spec, w->word)) problem(L, w->word);
  return 1;
}

/* ---- worlds ---- */

static struct neap_bind *world_push(lua_State *L)
{
  struct neap_bind *bind = lua_newuserdata(L, sizeof *bind);
  *bind = (struct neap_bind){0};
  luaL_getmetatable(L, "neap.world");
  lua_setmetatable(L, -2);
  lua_newtable(L);
  lua_setfenv(L, -2);
  return bind;
}

/* core.sim(seed, log): a world in virtual time and its environment table. */
static int world_sim(lua_State *L)
{
  struct neap_sim_options options = {
    (uint64_t)luaL_checknumber(L, 1), (uint32_t)luaL_optinteger(L, 2, 0)};
  struct neap_bind *bind = world_push(L);
  bind->world = neap_sim_new(&options);
  bind->world->host = bind;
  lua_getfenv(L, -1);
  return 2;
}

/* core.real(seed): the real world; no seed: one from the system.  Raises what is refused. */
static int world_real(lua_State *L)
{
  struct neap_trail trail = {""};
  uint64_t seed = (uint64_t)luaL_optnumber(L, 1, 0);
  if (!seed && getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
    return luaL_error(L, "the system gives no random numbers");
  struct neap_bind *bind = world_push(L);
  bind->world = neap_real_new(seed, &trail);
  if (!bind->world) return luaL_error(L, "no world: %s", trail.text);
  bind->world->host = bind;
  lua_getfenv(L, -1);
  return 2;
}

/* For the names of members that are given none. */
static int pid(lua_State *L)
{
  lua_pushinteger(L, getpid());
  return 1;
}

static int host(lua_State *L)
{
  char name[32] = "";
  if (gethostname(name, sizeof name - 1) < 0 || !name[0]) strcpy(name, "member");
  lua_pushstring(L, name);
  return 1;
}

/* core.step(world, until, settle): "work", "time" or "idle".  No `until`: as long as it takes. */
static int world_step(lua_State *L)
{
  static const char *const results[] = {"work", "time", "idle"};
  struct neap_bind *bind = neap_bind_enter(L);
  lua_Number until = luaL_optnumber(L, 3, -1);
  uint64_t at = until < 0 ? UINT64_MAX : (uint64_t)until;
  int result = lua_toboolean(L, 4) ? neap_sim_settle(bind->world, at)
                                   : bind->world->class->step(bind->world, at);
  neap_bind_leave(bind);
  lua_pushstring(L, results[result]);
  return 1;
}

/* core.close(world): everything in it ends; twice is fine.  Also what the collector calls. */
static int world_close(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  if (!bind->world) return 0;
  lua_settop(L, 1);
  neap_bind_enter(L);
  hands_free(bind, NULL);
  while (bind->channels) channel_free(bind, bind->channels);
  neap_world_free(bind->world);
  bind->world = NULL;
  neap_bind_leave(bind);
  return 0;
}

/* core.capture(world, path, bytes, seconds, arrivals): true, or nil and why. */
static int world_capture(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  struct neap_capture_options options = {luaL_checkstring(L, 2), (uint64_t)luaL_checknumber(L, 3),
    (uint64_t)luaL_checknumber(L, 4), lua_toboolean(L, 5)};
  int error = bind->world ? neap_capture_start(bind->world, &options) : EINVAL;
  if (!error) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushnil(L);
  lua_pushstring(L, strerror(error));
  return 2;
}

/* core.capture_stop(world): frames, bytes, dropped; nothing when there was none. */
static int world_capture_stop(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  struct neap_capture_counts counts;
  if (!bind->world || !neap_capture_stop(bind->world, &counts)) return 0;
  lua_pushnumber(L, (lua_Number)counts.frames);
  lua_pushnumber(L, (lua_Number)counts.bytes);
  lua_pushnumber(L, (lua_Number)counts.dropped);
  return 3;
}

const luaL_Reg neap_bind_world_functions[] = {
  {"open", channel_open},
  {"leave", channel_leave},
  {"close", channel_close},
  {"free", channel_done},
  {"set", stack_set},
  {"op", stack_op},
  {"checks", stack_checks},
  {"check", spec_check},
  {"promises", spec_promises},
  {"maker", class_maker},
  {"sim", world_sim},
  {"real", world_real},
  {"pid", pid},
  {"host", host},
  {"step", world_step},
  {"finish", world_close},
  {"capture", world_capture},
  {"capture_stop", world_capture_stop},
  {NULL, NULL},
};

int neap_bind_world_open(lua_State *L)
{
  if (luaL_newmetatable(L, "neap.world")) {
    lua_pushcfunction(L, world_close);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  return 0;
}
