/* digest_events: what SET, MERGE and OVERWRITE do to the windows of nakack (gap G26).
 *
 * A stack of three: one that asks, nakack, and a hole in place of the wire.  Members: ann is this
 * one and has sent five; bob's window is at 5; nobody has heard of cho; dee's is at 5 and is in no
 * digest. */

#include "core/channel.h"
#include "core/layer.h"

#include <stdio.h>
#include <stdlib.h>

extern const struct neap_class neap_nakack;

struct asker {
  struct neap_layer layer;
  struct neap_digest *answer;
  unsigned rose; /* multicasts of ann's */
};

static enum neap_verdict asker_event(struct neap_layer *layer, struct neap_event *event, bool up)
{
  struct asker *a = (struct asker *)layer;
  (void)up;
  if (event->kind != NEAP_EVENT_DIGEST_GET) return NEAP_PASS;
  neap_digest_unref(a->answer);
  a->answer = neap_digest_ref(event->digest);
  return NEAP_STOP;
}

static void asker_up(struct neap_layer *layer, struct neap_batch *batch)
{
  ((struct asker *)layer)->rose += batch->count;
  neap_batch_free(batch);
}

static void hole_down(struct neap_layer *layer, struct neap_batch *batch)
{
  (void)layer;
  neap_batch_free(batch);
}

static const struct neap_class asker_class = {.name = "asker",
  .doc = "Asks.",
  .size = sizeof(struct asker),
  .event = asker_event,
  .up = asker_up};
static const struct neap_class hole_class = {.name = "hole",
  .doc = "Swallows everything.",
  .gives = "multicast unicast stable view",
  .size = sizeof(struct neap_layer),
  .down = hole_down};
static const struct neap_world_class world_class = {.name = "proof"};

static struct neap_world world;
static struct asker *asker;
static struct neap_peer *ann, *bob, *cho, *dee;

static struct neap_peer *peer(uint8_t number)
{
  struct neap_addr addr = {.kind = NEAP_ADDR_UUID, .bytes = "neap\1"};
  addr.bytes[15] = number;
  return neap_peer_intern(asker->layer.stack, &addr);
}

static void down(struct neap_event event)
{
  neap_event_down(&asker->layer, &event);
  neap_world_turns(&world, 1000);
}

static void tell(unsigned kind, uint64_t of_ann, uint64_t of_bob, uint64_t of_cho)
{
  struct neap_digest *digest = neap_digest_new(3);
  neap_digest_add(digest, (struct neap_digest_row){ann, of_ann, of_ann, 0, 0});
  neap_digest_add(digest, (struct neap_digest_row){bob, of_bob, of_bob, 0, 0});
  if (of_cho) neap_digest_add(digest, (struct neap_digest_row){cho, of_cho, of_cho, 0, 0});
  down((struct neap_event){.kind = (uint8_t)kind, .digest = digest});
}

/* Where the stream of this member is; UINT64_MAX: nowhere. */
static uint64_t at(struct neap_peer *member)
{
  struct neap_event event = {.kind = NEAP_EVENT_DIGEST_GET};
  neap_ask_down(&asker->layer, &event);
  neap_world_turns(&world, 1000);
  const struct neap_digest_row *row = neap_digest_find(asker->answer, member);
  return row ? row->received : UINT64_MAX;
}

static struct neap_channel *begin(void)
{
  static const struct neap_layer_spec layers[] = {
    {.class = &asker_class}, {.class = &neap_nakack}, {.class = &hole_class}};
  struct neap_stack_spec spec = {.name = "proof", .file = "proof", .layers = layers, .count = 3};
  struct neap_trail trail = {""};
  world = (struct neap_world){0};
  neap_world_init(&world, &world_class, 1);
  struct neap_channel *channel = neap_channel_open(&world, &spec, "proof", "ann", &trail);
  NEAP_ASSERT(channel);
  asker = (struct asker *)channel->stack->layers[0];
  ann = channel->stack->self;
  bob = neap_peer_ref(peer(2));
  cho = neap_peer_ref(peer(3));
  dee = neap_peer_ref(peer(4));
  struct neap_digest *digest = neap_digest_new(2);
  neap_digest_add(digest, (struct neap_digest_row){bob, 5, 5, 0, 0});
  neap_digest_add(digest, (struct neap_digest_row){dee, 5, 5, 0, 0});
  down((struct neap_event){.kind = NEAP_EVENT_DIGEST_SET, .digest = digest});
  struct neap_peer *members[] = {ann, bob, dee};
  down((struct neap_event){.kind = NEAP_EVENT_VIEW,
    .view = neap_view_new(channel->stack, &ann->addr, 1, members, 3, NULL)});
  for (int i = 0; i < 5; i++)
    neap_pass_down_msg(&asker->layer, neap_msg_filled(channel->stack, "x", 1));
  neap_world_turns(&world, 1000);
  NEAP_ASSERT(at(ann) == 5 && at(bob) == 5 && at(dee) == 5 && asker->rose == 5);
  return channel;
}

static void end(struct neap_channel *channel)
{
  NEAP_ASSERT(at(dee) == 5); /* It was in no digest. */
  neap_digest_unref(asker->answer);
  asker->answer = NULL;
  neap_peer_unref(bob);
  neap_peer_unref(cho);
  neap_peer_unref(dee);
  neap_channel_free(channel);
  neap_world_done(&world);
}

static void set(void)
{
  struct neap_channel *channel = begin();
  tell(NEAP_EVENT_DIGEST_SET, 2, 9, 7);
  NEAP_ASSERT(at(ann) == 5 && asker->rose == 5); /* Own: left alone. */
  NEAP_ASSERT(at(bob) == 5);                     /* Existing: left alone. */
  struct neap_peer *members[] = {ann, bob, dee, cho};
  down((struct neap_event){.kind = NEAP_EVENT_VIEW,
    .view = neap_view_new(channel->stack, &ann->addr, 2, members, 4, asker->layer.view)});
  NEAP_ASSERT(at(cho) == 7); /* Missing: made there. */
  end(channel);
}

static void merge(void)
{
  struct neap_channel *channel = begin();
  tell(NEAP_EVENT_DIGEST_MERGE, 2, 3, 0);
  NEAP_ASSERT(at(ann) == 5 && asker->rose == 5); /* Own: never. */
  NEAP_ASSERT(at(bob) == 5);                     /* Not lower: left alone. */
  tell(NEAP_EVENT_DIGEST_MERGE, 2, 9, 0);
  NEAP_ASSERT(at(bob) == 9); /* Lower: replaced. */
  end(channel);
}

static void overwrite(void)
{
  struct neap_channel *channel = begin();
  tell(NEAP_EVENT_DIGEST_OVERWRITE, 3, 9, 0);
  NEAP_ASSERT(at(bob) == 9);
  NEAP_ASSERT(at(ann) == 5 && asker->rose == 7); /* Own: 4 and 5 rise again. */
  end(channel);
}

/* Backwards nothing that was said is taken back: what comes again is below it. */
static void backwards(void)
{
  struct neap_channel *channel = begin();
  tell(NEAP_EVENT_DIGEST_MERGE, 5, 9, 0);
  NEAP_ASSERT(at(bob) == 9);
  tell(NEAP_EVENT_DIGEST_OVERWRITE, 5, 4, 0);
  NEAP_ASSERT(at(bob) == 9);
  end(channel);
}

int main(void)
{
  set();
  merge();
  overwrite();
  backwards();
  puts("held");
  return 0;
}
