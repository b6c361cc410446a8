/* bind_state: transfers of state, for Lua.
 *
 * Words go by FFI; what asks layers, which may be written in Lua, by functions. */

#include "bind/bind.h"

static struct neap_channel *channel_of(struct neap_bind *bind, lua_State *L)
{
  lua_Integer id = luaL_checkinteger(L, 3);
  for (struct neap_bind_channel *c = bind->channels; c; c = c->next)
    if (c->channel->id == (uint32_t)id) return c->channel;
  neap_bind_leave(bind);
  luaL_error(L, "there is no channel %d in this world", (int)id);
  return NULL;
}

/* A word that needs no digest; 0, or negative. */
int neap_bind_state(struct neap_channel *channel, int word, const struct neap_state_do *what)
{
  return neap_channel_state(channel, (unsigned)word, what);
}

void neap_bind_drained(struct neap_channel *channel, uint64_t number, int code)
{
  neap_channel_drained(channel, number, code);
}

void neap_bind_policy(struct neap_channel *channel, bool on)
{
  neap_channel_policy(channel, on);
}

int neap_bind_ordered(
  struct neap_channel *channel, uint64_t number, const uint16_t *places, int count)
{
  return neap_channel_ordered(channel, number, places, (uint32_t)count);
}

/* core.state_digest(world, id, word, ticket): the state is read from now on, or was read now. */
static int state_digest(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_channel *channel = channel_of(bind, L);
  struct neap_state_do what = {.ticket = (uint32_t)luaL_checkinteger(L, 5)};
  int code = neap_channel_state(channel, (unsigned)luaL_checkinteger(L, 4), &what);
  neap_bind_leave(bind);
  lua_pushinteger(L, code);
  return 1;
}

/* core.applied(world, id): { address, name, seqno, ... } of each member; nil: nobody knows. */
static int applied(lua_State *L)
{
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_digest *digest = neap_channel_applied(channel_of(bind, L), false);
  int n = 0;
  neap_bind_leave(bind);
  if (!digest) return 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < digest->count; i++) {
    char address[NEAP_ADDR_TEXT];
    neap_addr_text(&digest->rows[i].peer->addr, address);
    lua_pushstring(L, address);
    lua_rawseti(L, -2, ++n);
    lua_pushstring(L, digest->rows[i].peer->name);
    lua_rawseti(L, -2, ++n);
    lua_pushnumber(L, (lua_Number)digest->rows[i].delivered);
    lua_rawseti(L, -2, ++n);
  }
  neap_digest_unref(digest);
  return 1;
}

const luaL_Reg neap_bind_state_functions[] = {
  {"state_digest", state_digest},
  {"applied", applied},
  {NULL, NULL},
};
