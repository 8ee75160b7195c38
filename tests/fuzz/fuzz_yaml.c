/* tests/fuzz/fuzz_yaml.c - any bytes as a policy file: a policy or problems with places, never both and never neither.
 */
#include "daemon/base/buf.h"
#include "pawl/policy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data, size };
	struct buf out = BUF_MAX(1u << 20);
	struct policy *pol = NULL;
	struct policy_report rep;
	struct pawl_error err;
	int r = policy_load(text, "fuzz.yaml", &pol, &rep, &err);

	if ((r == 0) != (pol != NULL) || (r == PAWL_E_POLICY) != (rep.errors > 0))
		abort();
	if (r == 0 && (pol->n_budgets > PAWL_MAX_BUDGETS || pol->fallback == VERDICT_UNSET || pol->name.n == 0))
		abort();
	for (size_t i = 0; r == 0 && i < pol->n_rules; i++)
		if (pol->rules[i].answer == VERDICT_UNSET || pol->rules[i].id.n == 0)
			abort();
	for (size_t i = 0; r == 0 && i < pol->n_budgets; i++)
		if (pol->budgets[i].limit <= 0 || pol->budgets[i].floor >= pol->budgets[i].limit)
			abort();
	for (size_t i = 0; i < rep.n; i++) /* a problem is printable: it goes to a terminal */
		for (const char *p = rep.rows[i].msg; *p; p++)
			if (*p < 0x20 || *p > 0x7e)
				abort();
	policy_report_text(&rep, &out);
	if (!buf_ok(&out))
		abort();
	buf_done(&out);
	policy_report_done(&rep);
	policy_free(pol);
	return 0;
}
