/* policy/compile_text.c - small forms of text that several sections share: ids, paths, amounts with their units.
 * Refuses what is nearly right, and says how it is written. */
#include "policy/compile.h"
#include "policy/money.h"

bool value_id(struct loader *ld, const struct ynode *node, const char *what, struct str *ret)
{
	struct str s = node->text;
	bool good = s.n > 0 && s.n <= PAWL_MAX_ID;

	for (size_t i = 0; good && i < s.n; i++)
		good = (s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') ||
		       (s.p[i] >= '0' && s.p[i] <= '9') || s.p[i] == '_' || s.p[i] == '-';
	if (!good) {
		ld_error(ld, node, "%s %s: use 1 to %d of A-Z a-z 0-9 _ -", what, QUOTED(s), PAWL_MAX_ID);
		return false;
	}
	*ret = ld_text(ld, s);
	return ret->p != NULL;
}

bool value_digits(struct str text, int64_t *ret)
{
	int64_t v = 0;

	if (text.n == 0 || (text.n > 1 && text.p[0] == '0'))
		return false;
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10, &v) || add_over(v, text.p[i] - '0', &v))
			return false;
	}
	*ret = v;
	return true;
}

static struct str trim(struct str s)
{
	while (s.n && s.p[0] == ' ') {
		s.p++;
		s.n--;
	}
	while (s.n && s.p[s.n - 1] == ' ')
		s.n--;
	return s;
}

/* "400k tokens" -> "400k", "tokens"; "5USD" has no second word. */
static struct str second_word(struct str text, struct str *ret_first)
{
	const char *blank = text.n ? memchr(text.p, ' ', text.n) : NULL;
	size_t n = blank ? (size_t)(blank - text.p) : text.n;

	*ret_first = (struct str){ text.p, n };
	return trim((struct str){ text.p + n, text.n - n });
}

static bool is_currency(struct str s)
{
	return s.n == 3 && s.p[0] >= 'A' && s.p[0] <= 'Z' && s.p[1] >= 'A' && s.p[1] <= 'Z' && s.p[2] >= 'A' &&
	       s.p[2] <= 'Z';
}

static bool money_of(struct loader *ld, const struct ynode *node, struct str number, struct str currency, int64_t *ret)
{
	struct pawl_error err;

	if (money_parse(number, MONEY_EXACT, ret, &err)) {
		ld_error(ld, node, "%s", err.msg);
		return false;
	}
	if (str_eq(currency, ld->pol->currency))
		return true;
	ld_error(ld, node, "%.*s in a policy in %.*s: one policy has one currency", STR_ARG(currency),
		 STR_ARG(ld->pol->currency));
	return false;
}

bool value_money(struct loader *ld, const struct ynode *node, int64_t *ret)
{
	struct str number, currency;

	if (node->kind == YNODE_TEXT) {
		currency = second_word(node->text, &number);
		if (is_currency(currency))
			return money_of(ld, node, number, currency, ret);
	}
	ld_error(ld, node, "an amount of money is written like 0.002 %.*s", STR_ARG(ld->pol->currency));
	return false;
}

/* "400k", "2M", "30" */
static bool count_short(struct str s, int64_t *ret)
{
	int64_t by = 1, n;

	if (s.n && (s.p[s.n - 1] == 'k' || s.p[s.n - 1] == 'M')) {
		by = s.p[s.n - 1] == 'k' ? 1000 : 1000000;
		s.n--;
	}
	return value_digits(s, &n) && !__builtin_mul_overflow(n, by, ret);
}

bool value_amount(struct loader *ld, const struct ynode *node, struct amount *ret)
{
	struct str text = node->kind == YNODE_TEXT ? node->text : STR(""), number, unit = second_word(text, &number);
	struct amount a = { .unit = UNIT_TIME };

	if (is_currency(unit)) {
		a.unit = UNIT_MONEY;
		if (!money_of(ld, node, number, unit, &a.n))
			return false;
	} else if (str_is(unit, "tokens") || str_is(unit, "token") || str_is(unit, "calls") || str_is(unit, "call")) {
		a.unit = unit.p[0] == 't' ? UNIT_TOKENS : UNIT_CALLS;
		if (!count_short(number, &a.n)) {
			ld_error(ld, node, "%s: a count is a whole number, k or M behind it: 30, 400k", QUOTED(text));
			return false;
		}
	} else if (unit.n || span_parse(number, &a.n, NULL)) {
		ld_error(ld, node, "%s: an amount is written like 5 %.*s, 400k tokens, 30 calls or 15m", QUOTED(text),
			 STR_ARG(ld->pol->currency));
		return false;
	}
	*ret = a;
	return true;
}

bool value_count_per(struct str text, const char *const *periods, size_t n_periods, const char *between, int64_t *ret,
		     size_t *ret_period)
{
	const char *at = memmem(text.p, text.n, between, strlen(between));
	struct str number, period;

	if (!at)
		return false;
	number = (struct str){ text.p, (size_t)(at - text.p) };
	period = (struct str){ at + strlen(between), text.n - number.n - strlen(between) };
	for (size_t i = 0; i < n_periods; i++)
		if (str_is(period, periods[i])) {
			*ret_period = i;
			return value_digits(number, ret);
		}
	return false;
}

bool value_bytes(struct loader *ld, const struct ynode *node, int64_t *ret)
{
	static const struct {
		const char *name;
		int64_t bytes;
	} units[] = { { "GiB", 1 << 30 }, { "MiB", 1 << 20 }, { "KiB", 1 << 10 }, { "", 1 } };
	struct str s = node->kind == YNODE_TEXT ? node->text : STR("");
	int64_t n;

	for (size_t i = 0; i < PAWL_LEN(units); i++) {
		size_t tail = strlen(units[i].name);

		if (s.n <= tail || memcmp(s.p + s.n - tail, units[i].name, tail) != 0)
			continue;
		if (value_digits((struct str){ s.p, s.n - tail }, &n) &&
		    !__builtin_mul_overflow(n, units[i].bytes, ret))
			return true;
		break;
	}
	ld_error(ld, node, "a size is a whole number of bytes, or of KiB, MiB or GiB: 300, 64KiB");
	return false;
}

bool value_path(struct str dotted)
{
	bool part = false;

	for (size_t i = 0; i < dotted.n; i++) {
		if (dotted.p[i] == '.' && !part)
			return false;
		part = dotted.p[i] != '.';
	}
	return part && dotted.n <= PAWL_MAX_TEXT;
}

void value_arg_paths(struct loader *ld, const struct ynode *list, const char *what, struct str **ret, size_t *ret_n)
{
	struct str *paths = ld_array(ld, list->n, sizeof(*paths));
	size_t n = 0;

	for (const struct ynode *e = list->first; paths && e; e = e->next) {
		struct str s = e->kind == YNODE_TEXT ? e->text : STR("");

		if (s.n <= 5 || memcmp(s.p, "args.", 5) != 0 || !value_path((struct str){ s.p + 5, s.n - 5 })) {
			ld_error(ld, e, "%s names arguments: args.NAME or args.NAME.NAME", what);
			continue;
		}
		paths[n++] = ld_text(ld, (struct str){ s.p + 5, s.n - 5 });
	}
	if (paths) {
		*ret = paths;
		*ret_n = n;
	}
}

const struct ynode *value_at(const struct ynode *map, const char *key)
{
	for (const struct ynode *k = map->first; k; k = k->next)
		if (str_is(k->text, key))
			return k->value;
	return NULL;
}

bool value_per(const struct ynode *node, struct per *ret)
{
	static const char *const words[] = { [SCOPE_SESSION] = "session",
					     [SCOPE_AGENT] = "agent",
					     [SCOPE_TENANT] = "tenant",
					     [SCOPE_GLOBAL] = "global" };
	const struct ynode *e = node->kind == YNODE_LIST ? node->first : node;
	size_t n = node->kind == YNODE_LIST ? node->n : 1, scopes = 0, tools = 0;
	struct per per = { .has_scope = false };

	for (size_t i = 0; i < n; i++, e = e->next) {
		tools += e->kind == YNODE_TEXT && str_is(e->text, "tool");
		for (size_t k = 0; e->kind == YNODE_TEXT && k < PAWL_LEN(words); k++)
			if (str_is(e->text, words[k])) {
				per.scope = (enum scope)k;
				scopes++;
			}
	}
	per.has_scope = scopes == 1;
	per.tool = tools == 1;
	*ret = per;
	return n > 0 && scopes <= 1 && tools <= 1 && scopes + tools == n;
}
