/* policy: the application's word on the order of members.
 *
 * Whoever makes a view asks first, and waits for a moment.  The answer is a permutation of what was
 * asked about, checked here, so that a layer need not believe it. */

#include "core/channel.h"

void neap_channel_policy(struct neap_channel *channel, bool on)
{
  bool before = channel->policy;
  channel->policy = on;
  if (!channel->stack || !(on || before)) return;
  neap_stack_event_down(
    channel->stack, &(struct neap_event){.kind = NEAP_EVENT_POLICY, .flag = on});
}

static bool each_once(const uint16_t *places, uint32_t count)
{
  bool there[NEAP_MEMBERS_MAX] = {false};
  if (count > NEAP_MEMBERS_MAX) return false;
  for (uint32_t i = 0; i < count; i++) {
    if (places[i] >= count || there[places[i]]) return false;
    there[places[i]] = true;
  }
  return true;
}

int neap_channel_ordered(
  struct neap_channel *channel, uint64_t number, const uint16_t *places, uint32_t count)
{
  bool good = each_once(places, count);
  struct neap_stack *stack = channel->stack;
  if (!stack) return NEAP_CLOSED;
  struct neap_event event = {.kind = NEAP_EVENT_ORDERED, .number = number};
  if (good && count) event.msg = neap_msg_filled(stack, places, count * (uint32_t)sizeof *places);
  neap_stack_event_down(stack, &event);
  return good ? 0 : NEAP_REFUSED;
}
