/* bind_line: the prompt's line, on libedit.
 *
 * The terminal is the process's, and so is libedit's state; nothing of Lua is kept between calls.
 *
 *     start(prompt)       -> a line is being edited
 *     feed(complete)      -> reads what was typed: the finished line, false at the end of input,
 *     nil;
 *                            true for ^C: the line is given up
 *     above(text)         -> prints above the line that is being edited
 *     stop()              -> the terminal is as it was
 *
 *     watch(world)        -> from now on a step of the real world returns when input is there;
 *                            watch(world, true): when there was a ^C
 *     input()             -> whether it is
 *
 * `feed` calls `complete(word, line)` for Tab: a list of whole words.  guard(f, ...) calls f so
 * that ^C raises an error in it: "interrupted".  That needs a hook, which compiled code does not
 * look at: what is typed runs with the compiler off. */

#include "bind/bind.h"
#include "real/real.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <editline/readline.h>

enum { CHUNK = 65536, WORDS_MAX = 1024 };

static char *finished_line;
static bool has_line, has_end, started;
static _Thread_local lua_State *completing; /* only while `feed` runs */

/* ^C while a line is edited comes out of this pipe, so that whoever waits for input wakes. */
static int breaks[2] = {-1, -1};
static struct sigaction before_edit;

static void on_break(int number)
{
  (void)number;
  int error = errno;
  ssize_t put = write(breaks[1], "", 1);
  (void)put; /* Full: there is one in it already. */
  errno = error;
}

static bool take_break(void)
{
  char bytes[16];
  bool any = false;
  while (read(breaks[0], bytes, sizeof bytes) > 0) any = true;
  return any;
}

static bool has_breaks(void)
{
  return breaks[0] >= 0 || pipe2(breaks, O_NONBLOCK | O_CLOEXEC) == 0;
}

static void edit_begins(void)
{
  if (!has_breaks()) return;
  struct sigaction on = {.sa_handler = on_break};
  sigemptyset(&on.sa_mask);
  sigaction(SIGINT, &on, &before_edit);
}

static void edit_ends(void)
{
  if (breaks[0] < 0) return;
  sigaction(SIGINT, &before_edit, NULL);
  take_break();
}

static void on_line(char *line)
{
  has_line = line != NULL;
  has_end = line == NULL;
  finished_line = line;
  rl_callback_handler_remove(); /* The next `start` shows the next prompt. */
  if (started) edit_ends();
  started = false;
}

/* The n-th word of the list at the top of the Lua stack. */
static char *candidate(const char *word, int state)
{
  static int index;
  (void)word;
  if (state == 0) index = 0;
  if (!completing || !lua_istable(completing, -1) || index >= WORDS_MAX) return NULL;
  lua_rawgeti(completing, -1, ++index);
  const char *text = lua_tostring(completing, -1);
  char *copy = text ? strdup(text) : NULL;
  lua_pop(completing, 1);
  return copy;
}

static char **complete(const char *word, int start, int end)
{
  (void)start;
  (void)end;
  rl_attempted_completion_over = 1;
  rl_completion_append_character = 0;
  if (!completing) return NULL;
  lua_pushvalue(completing, 1);
  lua_pushstring(completing, word);
  lua_pushstring(completing, rl_line_buffer);
  char **found = NULL;
  if (lua_pcall(completing, 2, 1, 0) == 0) found = rl_completion_matches(word, candidate);
  lua_pop(completing, 1);
  return found;
}

static int line_start(lua_State *L)
{
  const char *prompt = luaL_checkstring(L, 1);
  static bool ready;
  if (!ready) {
    setlocale(LC_CTYPE, ""); /* Without it letters beyond ASCII vanish. */
    rl_readline_name = "neap";
    rl_initialize();
    using_history();
    rl_attempted_completion_function = complete;
    rl_basic_word_break_characters = " \t\n\"'=(){}[]+-*/,;<>~";
    ready = true;
  }
  rl_callback_handler_install(prompt, on_line);
  if (!started) edit_begins();
  started = true;
  return 0;
}

/* Waits for input; false: ^C came instead. */
static bool typed(void)
{
  struct pollfd wanted[] = {
    {.fd = STDIN_FILENO, .events = POLLIN},
    {.fd = breaks[0], .events = POLLIN},
  };
  while (poll(wanted, 2, -1) < 0 && errno == EINTR) continue;
  return !take_break();
}

static int line_feed(lua_State *L)
{
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  if (!typed()) {
    lua_pushboolean(L, 1);
    return 1;
  }
  completing = L;
  has_line = has_end = false;
  rl_callback_read_char();
  completing = NULL;
  lua_settop(L, 1);
  if (has_end) {
    lua_pushboolean(L, 0);
  } else if (has_line) {
    lua_pushstring(L, finished_line);
    free(finished_line);
    finished_line = NULL;
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static int line_above(lua_State *L)
{
  size_t len;
  const char *text = luaL_checklstring(L, 1, &len);
  if (started) fputs("\r\033[K", stdout);
  fwrite(text, 1, len, stdout);
  if (started) rl_forced_update_display();
  fflush(stdout);
  return 0;
}

static int line_stop(lua_State *L)
{
  (void)L;
  if (started) {
    rl_callback_handler_remove();
    edit_ends();
  }
  started = false;
  return 0;
}

static int line_history(lua_State *L)
{
  const char *file = luaL_checkstring(L, 1);
  const char *line = luaL_optstring(L, 2, NULL);
  if (!line) {
    using_history();
    read_history(file);
    return 0;
  }
  add_history(line);
  write_history(file); /* At once: a prompt that is killed keeps its history. */
  return 0;
}

/* Bytes that can be read from a descriptor now; false at its end. */
static int line_read(lua_State *L)
{
  char *bytes = malloc(CHUNK);
  ssize_t got = bytes ? read(luaL_checkint(L, 1), bytes, CHUNK) : -1;
  if (got > 0)
    lua_pushlstring(L, bytes, (size_t)got);
  else if (got == 0 || errno != EINTR)
    lua_pushboolean(L, 0);
  else
    lua_pushliteral(L, "");
  free(bytes);
  return 1;
}

static int line_terminal(lua_State *L)
{
  lua_pushboolean(L, isatty(luaL_checkint(L, 1)));
  return 1;
}

static bool input_there;

static void on_input(void *context, int fd)
{
  (void)context;
  (void)fd;
  input_there = true;
}

static int line_watch(lua_State *L)
{
  int fd = STDIN_FILENO;
  if (lua_toboolean(L, 2)) fd = has_breaks() ? breaks[0] : -1;
  if (fd < 0) return 0;
  struct neap_bind *bind = neap_bind_enter(L);
  struct neap_watch *watch = neap_real_watch(bind->world, fd, on_input, NULL);
  neap_bind_leave(bind);
  if (!watch) return 0;
  lua_pushlightuserdata(L, watch);
  return 1;
}

static int line_unwatch(lua_State *L)
{
  neap_real_unwatch(lua_touserdata(L, 1));
  return 0;
}

/* Whether input came since the last question. */
static int line_input(lua_State *L)
{
  lua_pushboolean(L, input_there);
  input_there = false;
  return 1;
}

/* ---- ^C ---- */

static _Thread_local lua_State *guarded;

static void stop_hook(lua_State *L, lua_Debug *ar)
{
  (void)ar;
  lua_sethook(L, NULL, 0, 0);
  luaL_error(L, "interrupted");
}

static void on_interrupt(int number)
{
  (void)number;
  if (guarded) lua_sethook(guarded, stop_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

/* guard(f, ...): like pcall; ^C ends f with the error "interrupted". */
static int line_guard(lua_State *L)
{
  struct sigaction stop = {.sa_handler = on_interrupt}, before;
  sigemptyset(&stop.sa_mask);
  sigaction(SIGINT, &stop, &before);
  lua_State *outer = guarded;
  guarded = L;
  int code = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  guarded = outer;
  lua_sethook(L, NULL, 0, 0);
  sigaction(SIGINT, &before, NULL);
  lua_pushboolean(L, code == 0);
  lua_insert(L, 1);
  return lua_gettop(L);
}

const luaL_Reg neap_bind_line_functions[] = {
  {"line_start", line_start},
  {"line_feed", line_feed},
  {"line_above", line_above},
  {"line_stop", line_stop},
  {"line_history", line_history},
  {"line_read", line_read},
  {"line_terminal", line_terminal},
  {"line_guard", line_guard},
  {"line_watch", line_watch},
  {"line_unwatch", line_unwatch},
  {"line_input", line_input},
  {NULL, NULL},
};
