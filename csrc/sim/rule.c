/* Rules of the simulated network: which message on which way.
 *
 * A rule fits a message when the ends of its way fit, and its headers and body do (core/rule.h).
 * It hits when it fits, has times left, and chance says so. */

#include "sim/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULE_SALT 0x3c6ef372fe94f82bu /* Rules and lines draw from different streams. */

/* ---- does it fit? ---- */

static bool address_of(const void *context, const char *name, struct neap_addr *addr)
{
  const struct host *host = neap_sim_host_find(context, name);
  if (host) *addr = host->member;
  return host != NULL;
}

static bool way_fits(const struct rule *rule, const struct host *from, const struct host *to)
{
  return !rule->cleared && rule->rule.hits < rule->rule.times &&
         (!rule->rule.from || !strcmp(rule->rule.from, from->name)) &&
         (!rule->rule.to || !strcmp(rule->rule.to, to->name));
}

bool neap_sim_rules_for(const struct sim *sim, const struct host *from, const struct host *to)
{
  for (uint32_t r = 0; r < sim->rule_count; r++)
    if (way_fits(&sim->rules[r], from, to)) return true;
  return false;
}

const struct rule *neap_sim_rule_hit(
  struct sim *sim, const struct host *from, const struct host *to, const struct neap_msg *m)
{
  struct neap_rule_scene scene = {&sim->registry, address_of, sim};
  for (uint32_t r = 0; r < sim->rule_count; r++) {
    struct rule *rule = &sim->rules[r];
    if (!way_fits(rule, from, to) || !neap_rule_fits(&rule->rule, &scene, m)) continue;
    if (!neap_rule_hit(&rule->rule)) continue;
    neap_sim_event(sim, SIM_RULE, to, (uint64_t)rule->id << 32 ^ rule->rule.hits);
    return rule;
  }
  return NULL;
}

/* ---- making and clearing ---- */

uint32_t neap_sim_rule(
  struct neap_world *world, const struct neap_rule_rows *given, char *why, size_t size)
{
  struct sim *sim = neap_sim_of(world);
  struct rule rule = {.id = sim->rule_count + 1, .act = (uint8_t)given->act};
  if (sim->rule_count == RULES_MAX) {
    snprintf(why, size, "a world has at most %d rules", RULES_MAX);
    return 0;
  }
  if (neap_rule_make(&rule.rule, &sim->registry, given->rows, given->count, why, size) < 0)
    return 0;
  if (rule.act == NEAP_RULE_DELAY && !rule.rule.by) {
    snprintf(why, size, "by: how long? a time such as \"50ms\" is expected");
    neap_rule_free(&rule.rule);
    return 0;
  }
  neap_random_seed(&rule.rule.random, sim->world.seed ^ ((uint64_t)rule.id << 56) ^ RULE_SALT);
  sim->rules = realloc(sim->rules, rule.id * sizeof *sim->rules);
  NEAP_ASSERT(sim->rules);
  sim->rules[sim->rule_count++] = rule;
  sim->rules_live++;
  neap_sim_event(sim, SIM_RULE, NULL, rule.id);
  return rule.id;
}

int64_t neap_sim_rule_hits(const struct neap_world *world, uint32_t id)
{
  const struct sim *sim = neap_sim_of(world);
  return id && id <= sim->rule_count ? (int64_t)sim->rules[id - 1].rule.hits : -1;
}

bool neap_sim_rule_clear(struct neap_world *world, uint32_t id)
{
  struct sim *sim = neap_sim_of(world);
  if (!id || id > sim->rule_count || sim->rules[id - 1].cleared) return false;
  sim->rules[id - 1].cleared = true;
  sim->rules_live--;
  return true;
}

void neap_sim_rules_done(struct sim *sim)
{
  for (uint32_t r = 0; r < sim->rule_count; r++) neap_rule_free(&sim->rules[r].rule);
  free(sim->rules);
}
