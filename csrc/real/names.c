/* Addresses, interfaces and errors, between the system's form and ours. */

#include "real/private.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

socklen_t neap_real_name(const struct neap_addr *addr, struct sockaddr_storage *name)
{
  memset(name, 0, sizeof *name);
  if (addr->size == 16) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)name;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(addr->port);
    six->sin6_scope_id = addr->scope;
    memcpy(&six->sin6_addr, addr->bytes, 16);
    return sizeof *six;
  }
  struct sockaddr_in *four = (struct sockaddr_in *)name;
  four->sin_family = AF_INET;
  four->sin_port = htons(addr->port);
  memcpy(&four->sin_addr, addr->bytes, 4);
  return sizeof *four;
}

struct neap_addr neap_real_addr(const struct sockaddr_storage *name)
{
  struct neap_addr addr = {.kind = NEAP_ADDR_IP};
  if (name->ss_family == AF_INET6) {
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)name;
    addr.size = 16;
    addr.port = ntohs(six->sin6_port);
    addr.scope = six->sin6_scope_id;
    memcpy(addr.bytes, &six->sin6_addr, 16);
  } else {
    const struct sockaddr_in *four = (const struct sockaddr_in *)name;
    addr.size = 4;
    addr.port = ntohs(four->sin_port);
    memcpy(addr.bytes, &four->sin_addr, 4);
  }
  return addr;
}

static const char *error_text(int error)
{
  switch (error) {
  case EADDRINUSE:
    return "address in use";
  case EADDRNOTAVAIL:
    return "no interface has this address";
  case ENODEV:
    return "no such interface";
  case ENETUNREACH:
  case EHOSTUNREACH:
    return "no route (name an interface, or add a route for multicast)";
  case EMFILE:
    return "too many open files";
  case EACCES:
  case EPERM:
    return "not permitted";
  default:
    return strerror(error);
  }
}

int neap_real_trail(struct neap_trail *trail, int error, const char *format, ...)
{
  char what[128];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  bool address = error == EADDRINUSE || error == EADDRNOTAVAIL;
  int code = address ? NEAP_ADDRESS : NEAP_SYSTEM;
  neap_trail(trail, code, "%s", error_text(error));
  return neap_trail(trail, code, "%s", what);
}

/* ---- interfaces ---- */

static bool anywhere(const struct neap_addr *addr)
{
  return addr->kind != NEAP_ADDR_IP || (!addr->words[0] && !addr->words[1]);
}

/* Does this entry of the system's list answer to the spec? */
static bool matches(const struct ifaddrs *entry, const struct neap_port_spec *spec)
{
  const struct neap_addr *bind = &spec->bind;
  if (!entry->ifa_addr) return false;
  int family = spec->group.size == 16 ? AF_INET6 : AF_INET;
  if (entry->ifa_addr->sa_family != family) return false;
  if (*spec->interface && strcmp(entry->ifa_name, spec->interface)) return false;
  if (anywhere(bind)) return true;
  struct neap_addr addr = neap_real_addr((const struct sockaddr_storage *)entry->ifa_addr);
  /* Every address of 127.0.0.0/8 is the loopback's. */
  if (addr.size == 4 && bind->bytes[0] == 127 && addr.bytes[0] == 127) return true;
  return addr.words[0] == bind->words[0] && addr.words[1] == bind->words[1];
}

static uint32_t mtu_of(const char *name)
{
  struct ifreq request = {0};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  int failed = fd < 0 || ioctl(fd, SIOCGIFMTU, &request);
  if (fd >= 0) close(fd);
  return failed ? 1500 : (uint32_t)request.ifr_mtu;
}

/* Where the system would send the group to, if nobody names an interface or an address. */
static int by_route(struct neap_port_spec *spec, struct neap_trail *trail)
{
  struct sockaddr_storage name;
  char text[NEAP_ADDR_TEXT];
  socklen_t len = neap_real_name(&spec->group, &name);
  int fd = socket(name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int error = fd < 0 || connect(fd, (struct sockaddr *)&name, len) ? errno : 0;
  len = sizeof name;
  if (!error && getsockname(fd, (struct sockaddr *)&name, &len)) error = errno;
  if (fd >= 0) close(fd);
  if (error) return neap_real_trail(trail, error, "group %s", neap_addr_text(&spec->group, text));
  uint16_t port = spec->bind.port;
  spec->bind = neap_real_addr(&name);
  spec->bind.port = port;
  return 0;
}

int neap_real_interface(
  struct neap_port_spec *spec, struct interface *interface, struct neap_trail *trail)
{
  struct ifaddrs *list, *entry;
  char text[NEAP_ADDR_TEXT];
  *interface = (struct interface){.mtu = 1500};
  if (*spec->interface && !if_nametoindex(spec->interface))
    return neap_real_trail(trail, ENODEV, "interface %s", spec->interface);
  if (!*spec->interface && anywhere(&spec->bind) && by_route(spec, trail)) return NEAP_SYSTEM;
  if (getifaddrs(&list)) return neap_real_trail(trail, errno, "interfaces");
  for (entry = list; entry && !matches(entry, spec); entry = entry->ifa_next) continue;
  bool found = entry, up = entry && entry->ifa_flags & IFF_UP;
  if (found) {
    snprintf(interface->name, sizeof interface->name, "%s", entry->ifa_name);
    interface->index = if_nametoindex(entry->ifa_name);
    interface->mtu = mtu_of(entry->ifa_name);
    struct neap_addr addr = neap_real_addr((const struct sockaddr_storage *)entry->ifa_addr);
    addr.port = spec->bind.port;
    if (anywhere(&spec->bind)) spec->bind = addr;
  }
  freeifaddrs(list);
  if (found && up) return 0;
  if (found) {
    neap_trail(trail, NEAP_SYSTEM, "it is down");
    return neap_trail(trail, NEAP_SYSTEM, "interface %s", interface->name);
  }
  if (!anywhere(&spec->bind))
    return neap_real_trail(trail, EADDRNOTAVAIL, "bind %s", neap_addr_text(&spec->bind, text));
  neap_trail(trail, NEAP_SYSTEM, "it has no address of the group's kind");
  return neap_trail(trail, NEAP_SYSTEM, "interface %s", spec->interface);
}
