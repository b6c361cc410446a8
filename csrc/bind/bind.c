#include "bind/bind.h"

#include <stdlib.h>

/* The userdata's environment goes below the arguments, where the functions of Lua layers look. */
struct neap_bind *neap_bind_enter(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  if (!bind->world) luaL_error(L, "this world is closed");
  if (bind->L)
    luaL_error(L, "this world is in the middle of a turn: a layer cannot do this, it passes on");
  lua_getfenv(L, 1);
  lua_insert(L, 2);
  bind->env = 2;
  bind->L = L;
  return bind;
}

void neap_bind_leave(struct neap_bind *bind)
{
  bind->L = NULL;
}

/* What an error handler gets: any value, also none.  Gives text with a traceback. */
static int traceback(lua_State *L)
{
  const char *text = lua_tostring(L, 1);
  if (!text && !luaL_callmeta(L, 1, "__tostring"))
    lua_pushfstring(L, "(an error that is a %s)", luaL_typename(L, 1));
  luaL_traceback(L, L, lua_tostring(L, -1), 1);
  return 1;
}

/* Where the file of this module is, so that FFI opens the same one. */
static int pointer_of(lua_State *L)
{
  struct neap_bind *bind = luaL_checkudata(L, 1, "neap.world");
  lua_pushlightuserdata(L, bind->world);
  return 1;
}

static const luaL_Reg functions[] = {
  {"shape", neap_bind_shape},
  {"shapes", neap_bind_shapes},
  {"traceback", traceback},
  {"pointer", pointer_of},
  {NULL, NULL},
};

/* Idempotent: everything it makes is new, or the metatable that is there already. */
NEAP_EXPORT int luaopen_neap_core(lua_State *L);
NEAP_EXPORT int luaopen_neap_core(lua_State *L)
{
  lua_newtable(L);
  luaL_setfuncs(L, functions, 0);
  luaL_setfuncs(L, neap_bind_world_functions, 0);
  luaL_setfuncs(L, neap_bind_sim_functions, 0);
  luaL_setfuncs(L, neap_bind_line_functions, 0);
  luaL_setfuncs(L, neap_bind_loop_functions, 0);
  luaL_setfuncs(L, neap_bind_state_functions, 0);
  neap_bind_world_open(L);
  return 1;
}
