/* bind_sim: what only a simulated world can do.  Nothing here runs a turn; all of it may raise. */

#include "bind/bind.h"

#include "core/oracle.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 32, WHY = 400 };

static struct neap_world *world_of(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  if (!bind->world) luaL_error(L, "this world is closed");
  return bind->world;
}

/* nil and why, for what is no success. */
static int refused(lua_State *L, const char *why)
{
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* core.sim_set(world, name, value, from, to) */
static int sim_set(lua_State *L)
{
  char why[WHY] = "";
  struct neap_sim_setting setting = {
    .from = luaL_optstring(L, 4, NULL),
    .to = luaL_optstring(L, 5, NULL),
    .name = luaL_checkstring(L, 2),
  };
  struct neap_world *world = world_of(L);
  if (lua_type(L, 3) == LUA_TNUMBER)
    setting.number = lua_tonumber(L, 3);
  else
    setting.text = luaL_checkstring(L, 3);
  if (neap_sim_set(world, &setting, why, sizeof why) < 0) return refused(L, why);
  lua_pushboolean(L, 1);
  return 1;
}

/* core.sim_get(world, name): as text, or nil. */
static int sim_get(lua_State *L)
{
  struct neap_value value;
  const char *name = luaL_checkstring(L, 2);
  char text[WHY];
  if (!neap_sim_get(world_of(L), NULL, NULL, name, &value)) return 0;
  for (const struct neap_attr *attr = neap_sim_attrs; attr->kind; attr++) {
    if (strcmp(attr->name, name) != 0) continue;
    lua_pushstring(L, neap_attr_text(attr, &value, text, sizeof text));
    return 1;
  }
  return 0;
}

/* core.sim_names(): what sim_set knows, separated by spaces. */
static int sim_names(lua_State *L)
{
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (const struct neap_attr *attr = neap_sim_attrs; attr->kind; attr++) {
    luaL_addstring(&b, attr->name);
    luaL_addstring(&b, " ");
  }
  luaL_pushresult(&b);
  return 1;
}

/* core.sim_rule(world, act, { name, value, name, value, ... }): the id, or nil and why. */
static int sim_rule(lua_State *L)
{
  struct neap_rule_row rows[ROWS_MAX];
  char why[WHY] = "";
  struct neap_world *world = world_of(L);
  lua_Integer act = luaL_checkinteger(L, 2);
  uint32_t count = (uint32_t)lua_objlen(L, 3) / 2;
  if (count > ROWS_MAX) return refused(L, "a rule has at most 32 rows");
  luaL_checkstack(L, 2 * ROWS_MAX, "too many rows");
  for (uint32_t i = 0; i < count; i++) {
    rows[i] = (struct neap_rule_row){0};
    lua_rawgeti(L, 3, (int)(2 * i + 1));
    lua_rawgeti(L, 3, (int)(2 * i + 2)); /* Both stay on the stack: C keeps pointers to them. */
    rows[i].name = lua_tostring(L, -2);
    if (lua_type(L, -1) == LUA_TNUMBER)
      rows[i].number = lua_tonumber(L, -1);
    else
      rows[i].text = lua_tolstring(L, -1, &rows[i].len);
  }
  struct neap_rule_rows given = {(enum neap_rule_act)act, rows, count};
  uint32_t id = neap_sim_rule(world, &given, why, sizeof why);
  if (!id) return refused(L, why);
  lua_pushinteger(L, (lua_Integer)id);
  return 1;
}

static int sim_hits(lua_State *L)
{
  lua_pushnumber(L, (lua_Number)neap_sim_rule_hits(world_of(L), (uint32_t)luaL_checkinteger(L, 2)));
  return 1;
}

static int sim_clear(lua_State *L)
{
  lua_pushboolean(L, neap_sim_rule_clear(world_of(L), (uint32_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* core.sim_partition(world, { name, group, name, group, ... }) */
static int sim_partition(lua_State *L)
{
  struct neap_world *world = world_of(L);
  uint32_t count = (uint32_t)lua_objlen(L, 2) / 2;
  const char **names = calloc(count + 1, sizeof *names);
  uint32_t *groups = calloc(count + 1, sizeof *groups);
  NEAP_ASSERT(names && groups);
  for (uint32_t i = 0; i < count; i++) {
    lua_rawgeti(L, 2, (int)(2 * i + 1));
    lua_rawgeti(L, 2, (int)(2 * i + 2));
    names[i] = lua_tostring(L, -2); /* The table keeps it. */
    groups[i] = (uint32_t)lua_tointeger(L, -1);
    lua_pop(L, 2);
  }
  neap_sim_partition(world, names, groups, count);
  free(names);
  free(groups);
  return 0;
}

static int sim_cut(lua_State *L)
{
  neap_sim_cut(world_of(L), luaL_checkstring(L, 2), luaL_checkstring(L, 3));
  return 0;
}

/* core.sim_inject(world, from, to or nil, bytes): the place it comes from. */
static int sim_inject(lua_State *L)
{
  size_t len;
  char text[NEAP_ADDR_TEXT];
  const char *bytes = luaL_checklstring(L, 4, &len);
  if (len > NEAP_SLAB_BYTES) return refused(L, "a packet has at most 65536 bytes");
  const struct neap_addr *place = neap_sim_inject(world_of(L), luaL_checkstring(L, 2),
    luaL_optstring(L, 3, NULL), (const uint8_t *)bytes, (uint32_t)len);
  lua_pushstring(L, neap_addr_text(place, text));
  return 1;
}

static int sim_heal(lua_State *L)
{
  neap_sim_heal(world_of(L));
  return 0;
}

static int member(lua_State *L, int (*act)(struct neap_world *, const char *))
{
  lua_pushinteger(L, act(world_of(L), luaL_checkstring(L, 2)));
  return 1;
}

static int sim_pause(lua_State *L)
{
  return member(L, neap_sim_pause);
}

static int sim_resume(lua_State *L)
{
  return member(L, neap_sim_resume);
}

/* A kill closes a stack, and so calls its Lua layers. */
static int sim_kill(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  int code = neap_sim_kill(bind->world, luaL_checkstring(L, 3));
  neap_bind_leave(bind);
  lua_pushinteger(L, code);
  return 1;
}

/* core.sim_view(world, name, { members }): a code and why. */
static int sim_view(lua_State *L)
{
  char why[WHY] = "";
  struct neap_bind *bind = neap_bind_enter(L);
  const char *name = luaL_checkstring(L, 3), *members[ROWS_MAX];
  uint32_t count = (uint32_t)lua_objlen(L, 4);
  if (count > ROWS_MAX) count = ROWS_MAX;
  for (uint32_t i = 0; i < count; i++) {
    lua_rawgeti(L, 4, (int)(i + 1));
    members[i] = lua_tostring(L, -1);
    lua_pop(L, 1);
  }
  int code = neap_sim_inject_view(bind->world, name, members, count, why, sizeof why);
  neap_bind_leave(bind);
  lua_pushinteger(L, code);
  lua_pushstring(L, why);
  return 2;
}

static int sim_hash(lua_State *L)
{
  char text[17];
  lua_pushstring(L, neap_sim_hash(world_of(L), text));
  return 1;
}

static int sim_pending(lua_State *L)
{
  char text[4096];
  neap_sim_pending(world_of(L), text, sizeof text);
  lua_pushstring(L, text);
  return 1;
}

/* core.sim_complaints(world): what checkers found wrong, lines of text. */
static int sim_complaints(lua_State *L)
{
  lua_pushstring(L, neap_oracle_text(world_of(L)));
  return 1;
}

/* core.sim_know(world, headers): rows of a Lua layer, before it runs. */
static int sim_know(lua_State *L)
{
  neap_sim_know(world_of(L), lua_topointer(L, 2)); /* a cdata array */
  return 0;
}

/* core.sim_counts(world): what became of the packets. */
static int sim_counts(lua_State *L)
{
  const struct neap_sim_counts *counts = neap_sim_counts(world_of(L));
  const struct {
    const char *name;
    uint64_t value;
  } rows[] = {{"sent", counts->sent}, {"arrived", counts->arrived},
    {"duplicated", counts->duplicated}, {"reordered", counts->reordered},
    {"delayed", counts->delayed}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    lua_pushnumber(L, (lua_Number)rows[i].value);
    lua_setfield(L, -2, rows[i].name);
  }
  lua_newtable(L);
  for (unsigned i = 1; i < NEAP_LOSTS; i++) {
    lua_pushnumber(L, (lua_Number)counts->lost[i]);
    lua_setfield(L, -2, neap_lost_text(i));
  }
  lua_setfield(L, -2, "lost");
  return 1;
}

/* core.sim_log(world, row): one packet as a table; row 1 is the oldest. */
static int sim_log(lua_State *L)
{
  struct neap_sim_packet packet;
  struct neap_world *world = world_of(L);
  char text[4096];
  if (!neap_sim_log(world, (uint32_t)luaL_checkinteger(L, 2) - 1, &packet)) return 0;
  lua_newtable(L);
  lua_pushnumber(L, (lua_Number)packet.sent);
  lua_setfield(L, -2, "sent");
  if (!packet.lost) {
    lua_pushnumber(L, (lua_Number)packet.arrives);
    lua_setfield(L, -2, "arrives");
  } else {
    lua_pushstring(L, neap_lost_text(packet.lost));
    lua_setfield(L, -2, "lost");
  }
  lua_pushstring(L, packet.from);
  lua_setfield(L, -2, "from");
  lua_pushstring(L, packet.to);
  lua_setfield(L, -2, "to");
  lua_pushlstring(L, (const char *)packet.at, packet.len);
  lua_setfield(L, -2, "bytes");
  lua_pushstring(L, neap_sim_describe(world, packet.at, packet.len, text, sizeof text));
  lua_setfield(L, -2, "text");
  lua_pushboolean(L, packet.background);
  lua_setfield(L, -2, "background");
  lua_pushboolean(L, packet.twice);
  lua_setfield(L, -2, "twice");
  lua_pushboolean(L, packet.ruled);
  lua_setfield(L, -2, "ruled");
  lua_pushboolean(L, packet.multicast);
  lua_setfield(L, -2, "multicast");
  return 1;
}

static int sim_log_count(lua_State *L)
{
  lua_pushinteger(L, (lua_Integer)neap_sim_log_count(world_of(L)));
  return 1;
}

static int sim_log_start(lua_State *L)
{
  neap_sim_log_start(world_of(L), (uint32_t)luaL_checkinteger(L, 2));
  return 0;
}

const luaL_Reg neap_bind_sim_functions[] = {
  {"sim_set", sim_set},
  {"sim_get", sim_get},
  {"sim_names", sim_names},
  {"sim_rule", sim_rule},
  {"sim_hits", sim_hits},
  {"sim_clear", sim_clear},
  {"sim_partition", sim_partition},
  {"sim_cut", sim_cut},
  {"sim_heal", sim_heal},
  {"sim_inject", sim_inject},
  {"sim_pause", sim_pause},
  {"sim_resume", sim_resume},
  {"sim_kill", sim_kill},
  {"sim_view", sim_view},
  {"sim_hash", sim_hash},
  {"sim_pending", sim_pending},
  {"sim_complaints", sim_complaints},
  {"sim_know", sim_know},
  {"sim_counts", sim_counts},
  {"sim_log", sim_log},
  {"sim_log_count", sim_log_count},
  {"sim_log_start", sim_log_start},
  {NULL, NULL},
};
