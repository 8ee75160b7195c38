/* policy/suggest.c - what a misspelt key was meant to be: the nearest one of its own section, else of any other. Pure.
 */
#include "daemon/base/near.h"
#include "policy/compile.h"

#include <stdio.h>

/* Of a prefix row ("args.") only the part up to the point is compared. */
static size_t row_distance(const struct schema_key *row, struct str key)
{
	struct str want = { row->key, strlen(row->key) };
	const char *dot = want.p[want.n - 1] == '.' ? memchr(key.p, '.', key.n) : NULL;

	if (dot)
		key.n = (size_t)(dot - key.p) + 1;
	return near_edits(key, want);
}

static void lower(struct str *key, char out[static NEAR_MAX])
{
	for (size_t i = 0; i < key->n; i++)
		out[i] = key->p[i] >= 'A' && key->p[i] <= 'Z' ? (char)(key->p[i] + 32)
			 : key->p[i] == '-'                   ? '_'
							      : key->p[i];
	key->p = out;
}

const char *schema_section(const char *section)
{
	if (!*section)
		return "the top level";
	return strcmp(section, "condition") == 0 ? "when and unless"
	       : strcmp(section, "test") == 0    ? "a condition"
						 : section;
}

const char *schema_hint(const char *section, struct str key, char out[static 128])
{
	size_t n, near = key.n <= 3 ? 1 : key.n <= 6 ? 2 : 3, here_d = NEAR_MAX, there_d = NEAR_MAX;
	const struct schema_key *row = schema_rows(&n), *here = NULL, *there = NULL;
	char folded[NEAR_MAX];

	out[0] = '\0';
	if (key.n == 0 || key.n > NEAR_MAX)
		return out;
	lower(&key, folded);
	for (; n > 0; n--, row++) {
		bool same = strcmp(row->section, section) == 0;
		size_t d = row_distance(row, key);

		if (same && d < here_d) {
			here = row;
			here_d = d;
		} else if (!same && d < there_d) {
			there = row;
			there_d = d;
		}
	}
	/* A key that is right elsewhere beats a distant one here: it is in the wrong place, not misspelt. */
	if (here && here_d <= near && (here_d <= 1 || here_d <= there_d))
		(void)snprintf(out, 128, ", did you mean \"%s\"?", here->key);
	else if (there && there_d == 0)
		(void)snprintf(out, 128, " here: it is a key of %s", schema_section(there->section));
	else if (strcmp(section, "condition") == 0)
		(void)snprintf(out, 128, ": subjects are args.NAME, labels.NAME, agent, kind, tool, estimate.money");
	else if (strcmp(section, "test") == 0 && there_d > 1)
		(void)snprintf(out, 128, ": tests are is, in, not, glob, regex, under, over, below, bytes");
	else if (there && there_d <= near)
		(void)snprintf(out, 128, ", did you mean \"%s\", a key of %s?", there->key,
			       schema_section(there->section));
	return out;
}
