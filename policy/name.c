/* policy/name.c - one spelling for a tool's name, before anything looks at it.
 * Pure. Must not guess: a byte outside the small ASCII set is refused, so a look-alike letter, a zero-width mark or a
 * full-width form never becomes (or hides beside) a name that some rule speaks of. */
#include "pawl/policy.h"

static bool name_byte(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == ':' || c == '/' ||
	       c == '-';
}

int tool_name_fold(struct str raw, char out[static PAWL_MAX_TOOL + 1], struct pawl_error *err)
{
	char folded[PAWL_MAX_TOOL + 1];

	if (raw.n == 0)
		return pawl_fail_field(err, "tool", "empty tool name");
	if (raw.n > PAWL_MAX_TOOL)
		return pawl_fail_field(err, "tool", "tool name of %zu bytes, at most %d", raw.n, PAWL_MAX_TOOL);
	for (size_t i = 0; i < raw.n; i++) {
		unsigned char c = (unsigned char)raw.p[i];

		if (c >= 'A' && c <= 'Z') /* not tolower(): a locale must not have a say */
			c = (unsigned char)(c - 'A' + 'a');
		if (!name_byte(c))
			return pawl_fail_field(err, "tool",
					       "byte 0x%02x at offset %zu; a tool name has a-z, digits and _ . : / -",
					       c, i);
		folded[i] = (char)c;
	}
	folded[raw.n] = '\0';
	memcpy(out, folded, raw.n + 1);
	return 0;
}
