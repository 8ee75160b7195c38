/* policy/yaml_text.h - what is asked of a policy file's bytes before a YAML parser sees them. Pure. */
#ifndef PAWL_YAML_TEXT_H
#define PAWL_YAML_TEXT_H
#include "policy/report.h"

struct text_place {
	unsigned line, column; /* 1-based, columns in characters */
};
struct text_place text_place(struct str text, size_t offset);
/* Size, UTF-8, line ends, characters that hide text, tabs that indent. 0: a parser may read it (tabs are reported, not
 * fatal). PAWL_E_POLICY, PAWL_E_NOMEM. */
PAWL_MUST_USE int text_check(struct str text, struct policy_report *rep);
/* The last line that is neither blank nor a comment is `...`. */
bool text_ends_whole(struct str text);

#endif
