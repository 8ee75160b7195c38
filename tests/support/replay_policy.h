/* tests/support/replay_policy.h - the policy under which tests/unit/test_replay.c and tests/fuzz/fuzz_rejudge.c judge again: each law in it
 * once. The seeds of the fuzzer name it by its SHA-256. */
#ifndef PAWL_TESTS_REPLAY_POLICY_H
#define PAWL_TESTS_REPLAY_POLICY_H

#define REPLAY_POLICY(mode) \
	"pawl: 1\n" mode "name: again\ndefault: deny\n" \
	"tools:\n" \
	"  fixed: {cost: 0.5 USD}\n" \
	"  free: {}\n" \
	"rules:\n" \
	"  - {id: never, deny: [danger]}\n" \
	"  - {id: big, deny: [free], when: {args.n: {over: 10}}, sticky: tree}\n" \
	"  - {id: ask, review: [held]}\n" \
	"  - {id: ok, allow: [fixed, free, 'web.*']}\n" \
	"budgets:\n" \
	"  run: {per: session, limit: 2 USD, match: [fixed], then: review, grant_max: 5 USD}\n" \
	"loops:\n" \
	"  repeat: {same: [tool, args], limit: 2}\n" \
	"breakers:\n" \
	"  web: {match: ['web.*'], open: {failures: 2}}\n" \
	"...\n"
static const char policy_text[] = REPLAY_POLICY("");
static const char shadow_text[] = REPLAY_POLICY("mode: shadow\n"); /* the same on trial */

#endif
