/* bind_loop: the real world's loop, for programs that have one of their own. */

#include "bind/bind.h"
#include "real/real.h"

#include <math.h>

/* loop_fd(world): can be read when a step has something to do. */
static int loop_fd(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  int fd = neap_real_fd(bind->world);
  neap_bind_leave(bind);
  lua_pushinteger(L, fd);
  return 1;
}

/* loop_next(world): when a step has something to do in any case, on the world's clock. */
static int loop_next(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  uint64_t at = neap_real_next(bind->world);
  neap_bind_leave(bind);
  lua_pushnumber(L, at == UINT64_MAX ? HUGE_VAL : (lua_Number)at);
  return 1;
}

const luaL_Reg neap_bind_loop_functions[] = {
  {"loop_fd", loop_fd},
  {"loop_next", loop_next},
  {NULL, NULL},
};
