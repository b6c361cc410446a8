/* embed: libneap, the C face of csrc/neap.h.
 *
 * A thin shell: it brings a Lua state, loads neap/core.so and lua/neap/embed.lua into it, and
 * translates.  Where they are was fixed when it was built; NEAP_LIB and NEAP_ROOT say otherwise. */

#include "neap.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY = 512, NAMES_MAX = 1024 };

struct neap {
  lua_State *L;
  struct neap_member *members;
  int next_id;
};

struct neap_member {
  struct neap *neap;
  struct neap_member *next;
  struct neap_callbacks on;
  void *context;
  int id;
};

static _Thread_local char why[WHY];

const char *neap_why(void)
{
  return why;
}

static int mistake(lua_State *L)
{
  const char *text = lua_tostring(L, -1);
  if (!text) text = "error";
  if (!strncmp(text, "?: ", 3)) text += 3; /* There is no line of Lua to point at. */
  snprintf(why, sizeof why, "%s", text);
  return NEAP_E_MISTAKE;
}

/* Pushes embed.<name>. */
static void push(lua_State *L, const char *name)
{
  lua_getfield(L, LUA_REGISTRYINDEX, "neap.embed");
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

static int code_of(const char *text)
{
  static const struct {
    const char *text;
    int code;
  } codes[] = {
    {"timeout", NEAP_E_TIMEOUT},
    {"closed", NEAP_E_CLOSED},
    {"left", NEAP_E_CLOSED},
    {"not joined", NEAP_E_NOT_JOINED},
    {"not a member", NEAP_E_NOT_A_MEMBER},
    {"too big", NEAP_E_TOO_BIG},
    {"would block", NEAP_E_WOULD_BLOCK},
    {"refused", NEAP_E_REFUSED},
  };
  for (size_t i = 0; text && i < sizeof codes / sizeof *codes; i++)
    if (!strcmp(codes[i].text, text)) return codes[i].code;
  return text && *text ? NEAP_E_REFUSED : 0;
}

/* ---- what is told ---- */

static void tell_message(struct neap_member *m, lua_State *L)
{
  struct neap_message message = {.from = lua_tostring(L, 3), .to = lua_tostring(L, 4)};
  message.body = lua_tolstring(L, 5, &message.len);
  message.oob = lua_toboolean(L, 6);
  if (m->on.message) m->on.message(m, &message, m->context);
}

static void tell_view(struct neap_member *m, lua_State *L)
{
  const char *names[NAMES_MAX];
  unsigned count = 0;
  for (; count < NAMES_MAX; count++) {
    lua_rawgeti(L, 4, (int)count + 1);
    names[count] = lua_tostring(L, -1); /* The table keeps it. */
    lua_pop(L, 1);
    if (!names[count]) break;
  }
  if (m->on.view) m->on.view(m, lua_tostring(L, 3), names, count, m->context);
}

static void member_free(struct neap_member *m)
{
  struct neap_member **at = &m->neap->members;
  while (*at != m) at = &(*at)->next;
  *at = m->next;
  free(m);
}

/* notify(id, what, ...) */
static int notify(lua_State *L)
{
  struct neap *neap = lua_touserdata(L, lua_upvalueindex(1));
  int id = (int)lua_tointeger(L, 1);
  const char *what = lua_tostring(L, 2);
  struct neap_member *m = neap->members;
  while (m && m->id != id) m = m->next;
  if (!m || !what) return 0;
  if (!strcmp(what, "message")) {
    tell_message(m, L);
  } else if (!strcmp(what, "view")) {
    tell_view(m, L);
  } else if (!strcmp(what, "writable")) {
    if (m->on.writable) m->on.writable(m, m->context);
  } else if (!strcmp(what, "done")) {
    if (m->on.done)
      m->on.done(
        m, (int)lua_tointeger(L, 3), code_of(lua_tostring(L, 4)), lua_tostring(L, 5), m->context);
  } else if (!strcmp(what, "closed")) {
    if (m->on.closed) m->on.closed(m, lua_tostring(L, 3), m->context);
    member_free(m);
  }
  return 0;
}

/* ---- life ---- */

static int set_paths(lua_State *L)
{
  const char *lib = getenv("NEAP_LIB"), *root = getenv("NEAP_ROOT");
  lib = lib ? lib : NEAP_DEFAULT_LIB;
  root = root ? root : NEAP_DEFAULT_ROOT;
  lua_getglobal(L, "package");
  lua_pushfstring(L, "%s/lua/?.lua;%s/lua/?/init.lua", root, root);
  lua_setfield(L, -2, "path");
  lua_pushfstring(L, "%s/?.so", lib);
  lua_setfield(L, -2, "cpath");
  lua_pop(L, 1);
  return 0;
}

struct neap *neap_new(void)
{
  /* core.so takes the machine's functions from whoever brought it in: they have to be visible, also
   * when this library itself was loaded privately. */
  Dl_info here;
  if (dladdr((void *)luaL_newstate, &here)) dlopen(here.dli_fname, RTLD_NOW | RTLD_GLOBAL);
  struct neap *neap = calloc(1, sizeof *neap);
  lua_State *L = neap ? luaL_newstate() : NULL;
  if (!L) {
    snprintf(why, sizeof why, "out of memory");
    free(neap);
    return NULL;
  }
  neap->L = L;
  luaL_openlibs(L);
  set_paths(L);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "neap.embed");
  if (lua_pcall(L, 1, 1, 0) == 0) {
    lua_setfield(L, LUA_REGISTRYINDEX, "neap.embed");
    push(L, "start");
    lua_pushlightuserdata(L, neap);
    lua_pushcclosure(L, notify, 1);
    if (lua_pcall(L, 1, 0, 0) == 0) return neap;
  }
  mistake(L);
  lua_close(L);
  free(neap);
  return NULL;
}

void neap_free(struct neap *neap)
{
  if (!neap) return;
  push(neap->L, "finish");
  if (lua_pcall(neap->L, 0, 0, 0)) mistake(neap->L);
  lua_close(neap->L);
  while (neap->members) member_free(neap->members);
  free(neap);
}

/* Calls what was pushed; 0, or a code.  On success `results` values are on the stack. */
static int call(lua_State *L, int arguments, int results)
{
  if (lua_pcall(L, arguments, results, 0) == 0) return 0;
  int code = mistake(L);
  lua_pop(L, 1);
  return code;
}

struct neap_member *neap_join(struct neap *neap, const char *group, const char *stack,
  const char *name, const struct neap_callbacks *on, void *context)
{
  lua_State *L = neap->L;
  struct neap_member *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  *m = (struct neap_member){.neap = neap, .context = context, .id = ++neap->next_id};
  if (on) m->on = *on;
  m->next = neap->members;
  neap->members = m;
  push(L, "join");
  lua_pushinteger(L, m->id);
  lua_pushstring(L, group);
  lua_pushstring(L, stack);
  lua_pushstring(L, name);
  int code = call(L, 4, 2);
  if (code == 0) {
    bool joined = lua_toboolean(L, -2);
    if (!joined) mistake(L);
    lua_pop(L, 2);
    if (joined) return m;
  }
  member_free(m);
  return NULL;
}

/* What a call gave that returned `code`: a number, or nil, a code and a detail. */
static int ticket_of(lua_State *L, int code)
{
  if (code < 0) return code;
  if (lua_isnumber(L, -3)) {
    code = (int)lua_tointeger(L, -3);
  } else {
    code = code_of(lua_tostring(L, -2));
    snprintf(
      why, sizeof why, "%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : lua_tostring(L, -2));
  }
  lua_pop(L, 3);
  return code;
}

int neap_send(struct neap_member *m, const char *to, const void *body, size_t len, unsigned flags)
{
  lua_State *L = m->neap->L;
  push(L, "send");
  lua_pushinteger(L, m->id);
  lua_pushstring(L, to);
  if (body)
    lua_pushlstring(L, body, len);
  else
    lua_pushnil(L);
  lua_pushinteger(L, (lua_Integer)flags);
  return ticket_of(L, call(L, 4, 3));
}

int neap_set(struct neap_member *m, const char *attribute, const char *value)
{
  push(m->neap->L, "set");
  lua_pushinteger(m->neap->L, m->id);
  lua_pushstring(m->neap->L, attribute);
  lua_pushstring(m->neap->L, value);
  return call(m->neap->L, 3, 0);
}

int neap_set_all(struct neap_member *m, const char *attribute, const char *value)
{
  push(m->neap->L, "set_all");
  lua_pushinteger(m->neap->L, m->id);
  lua_pushstring(m->neap->L, attribute);
  lua_pushstring(m->neap->L, value);
  return ticket_of(m->neap->L, call(m->neap->L, 3, 3));
}

int neap_get(struct neap_member *m, const char *attribute, char *value, size_t size)
{
  lua_State *L = m->neap->L;
  push(L, "get");
  lua_pushinteger(L, m->id);
  lua_pushstring(L, attribute);
  int code = call(L, 2, 1);
  if (code < 0) return code;
  snprintf(value, size, "%s", lua_tostring(L, -1));
  lua_pop(L, 1);
  return 0;
}

static void tell_to(struct neap_member *m, const char *name)
{
  push(m->neap->L, name);
  lua_pushinteger(m->neap->L, m->id);
  call(m->neap->L, 1, 0);
}

void neap_leave(struct neap_member *m)
{
  tell_to(m, "leave");
}

void neap_close(struct neap_member *m)
{
  tell_to(m, "close");
}

/* ---- running ---- */

static int number(struct neap *neap, const char *name)
{
  push(neap->L, name);
  int code = call(neap->L, 0, 1);
  if (code < 0) return code;
  code = (int)lua_tointeger(neap->L, -1);
  lua_pop(neap->L, 1);
  return code;
}

int neap_step(struct neap *neap, int timeout_ms)
{
  push(neap->L, "step");
  lua_pushinteger(neap->L, timeout_ms);
  int code = call(neap->L, 1, 1);
  if (code < 0) return code;
  code = lua_toboolean(neap->L, -1);
  lua_pop(neap->L, 1);
  return code;
}

int neap_fd(struct neap *neap)
{
  return number(neap, "fd");
}

int neap_wait(struct neap *neap)
{
  return number(neap, "wait");
}
