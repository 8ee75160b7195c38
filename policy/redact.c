/* policy/redact.c - see redact.h: the walk over JSON and over a command line. Owns one scratch buffer for the length of a call. */
#include "policy/redact.h"

#include "policy/canon.h"

struct walk {
	const struct redact_set *set;
	struct buf *out, text; /* text: one redacted string, before it is quoted */
	struct str key[PAWL_MAX_DEPTH];
	size_t n; /* keys that lead here; lists do not count */
};

/* ---- one text ---- */

static void put_text(struct walk *w, struct str s, bool cut)
{
	buf_reset(&w->text);
	redact_text(w->set, s, cut, &w->text);
	if (buf_ok(&w->text))
		buf_json(w->out, buf_str(&w->text));
	else
		w->out->failed = true;
}

static void put_hidden(struct walk *w)
{
	buf_puts(w->out, "\"" REDACTED "\"");
}

/* ---- a command line: what one argument says of the next ---- */

enum next {
	NEXT_PLAIN,
	NEXT_ACCOUNT, /* it is name:password */
	NEXT_BARE,    /* the value of a name, unless it is an option */
	NEXT_VALUE,   /* that of an option with a secret's name, unless it begins with -- */
	NEXT_NO_PORTS, /* unless it is two ports */
	NEXT_SECRET,
};
struct command {
	enum next next;
	unsigned programs; /* that were named so far */
	bool setter;
};

static bool starts(struct str s, const char *z)
{
	size_t n = strlen(z);

	return s.n >= n && memcmp(s.p, z, n) == 0;
}

static struct str program_name(struct str s)
{
	const char *slash = s.n ? memrchr(s.p, '/', s.n) : NULL;

	return slash ? (struct str){ slash + 1, (size_t)(s.p + s.n - slash) - 1 } : s;
}

static struct str from(struct str s, size_t i)
{
	return (struct str){ s.p + i, s.n - i };
}

/* The first n bytes of s, and what stands for the rest. */
static void put_head(struct walk *w, struct str s, size_t n)
{
	buf_reset(&w->text);
	buf_add(&w->text, s.p, n);
	buf_puts(&w->text, REDACTED);
	if (buf_ok(&w->text))
		buf_json(w->out, buf_str(&w->text));
	else
		w->out->failed = true;
}

/* me:secret, from the byte at on. */
static bool put_account(struct walk *w, struct str s, size_t at)
{
	const char *colon = s.n > at ? memchr(s.p + at, ':', s.n - at) : NULL;

	if (!colon || secret_numbers(from(s, at)))
		return false;
	put_head(w, s, (size_t)(colon - s.p) + 1);
	return true;
}

/* --user me:secret, -u me:secret, --user=me:secret */
static bool put_user(struct walk *w, struct command *c, struct str s)
{
	static const char *const users[] = { "-u", "-U", "--user", "--proxy-user" };

	for (size_t i = 0; i < PAWL_LEN(users); i++) {
		size_t n = strlen(users[i]);

		if (str_is(s, users[i]))
			c->next = NEXT_ACCOUNT;
		else if (starts(s, users[i]) && s.p[n] == '=')
			return put_account(w, s, n + 1);
	}
	return false;
}

/* What a known program reads in s: mysql -psecret, curl -sSu me:secret */
static bool put_option(struct walk *w, struct command *c, struct str s)
{
	size_t at = 0;
	enum secret_option kind = secret_option(c->programs, s, &at);

	if (kind != OPTION_PLAIN && at == s.n)
		c->next = kind == OPTION_SECRET ? NEXT_SECRET : kind == OPTION_NO_PORTS ? NEXT_NO_PORTS : NEXT_ACCOUNT;
	else if (kind == OPTION_ACCOUNT)
		return put_account(w, s, at);
	else if (kind != OPTION_PLAIN)
		put_head(w, s, at);
	return kind != OPTION_PLAIN && at < s.n;
}

/* Does s, a whole argument, name what the next one holds? */
static enum next name_of_next(const struct walk *w, const struct command *c, struct str s)
{
	bool option = s.n > 3 && s.p[0] == '-', name = c->setter && s.n && s.p[0] != '-' && !memchr(s.p, ' ', s.n);

	if (!(option || name) || memchr(s.p, '=', s.n) || secret_name(w->set, s) == NAME_PLAIN)
		return NEXT_PLAIN;
	return option ? NEXT_VALUE : NEXT_BARE;
}

static bool is_value(enum next what, struct str s)
{
	return what == NEXT_SECRET || (what == NEXT_NO_PORTS && !secret_numbers(s)) || (what == NEXT_VALUE && !starts(s, "--")) || (what == NEXT_BARE && !starts(s, "-"));
}

static void put_arg(struct walk *w, struct command *c, struct str s, bool cut)
{
	enum next what = c->next;

	c->next = NEXT_PLAIN;
	c->programs |= secret_programs(program_name(s));
	if (is_value(what, s)) {
		put_hidden(w);
		return;
	}
	if ((what == NEXT_ACCOUNT && put_account(w, s, 0)) || put_user(w, c, s) || put_option(w, c, s))
		return;
	if (c->next == NEXT_PLAIN) /* no such option */
		c->next = str_is(s, "--") && what > NEXT_ACCOUNT ? NEXT_SECRET : name_of_next(w, c, s);
	c->setter = c->setter || secret_setter(s);
	put_text(w, s, cut);
}

/* ---- JSON ---- */

static void put_value(struct walk *w, const struct json *j, unsigned depth);

static bool path_matches(const struct walk *w, const struct redact_path *row)
{
	size_t end = row->text.n, k = w->n;

	for (;;) { /* from the last part to the first */
		const char *dot = end ? memrchr(row->text.p, '.', end) : NULL;
		size_t from = dot ? (size_t)(dot - row->text.p) + 1 : 0;

		if (k == 0 || !secret_name_eq(w->key[k - 1], (struct str){ row->text.p + from, end - from }))
			return false;
		k--;
		if (!dot)
			return row->anywhere || k == 0;
		end = from - 1;
	}
}

static bool is_secret(const struct walk *w, struct str key)
{
	if (secret_name(w->set, key) != NAME_PLAIN)
		return true;
	for (size_t i = 0; w->set && i < w->set->n; i++)
		if (path_matches(w, &w->set->paths[i]))
			return true;
	return false;
}

/* {name: "Authorization", value: "…"}: the text that names what the other members hold. */
static bool labelled(const struct walk *w, const struct json *obj)
{
	static const char *const labels[] = { "name", "key", "header", "field", "k", "n", "param", "variable" };

	for (size_t i = 0; i < PAWL_LEN(labels); i++) {
		void *it = json_iter(obj);

		for (; it; it = json_iter_next(obj, it))
			if (secret_name_eq(json_iter_key(it), str_of(labels[i])) && secret_name(w->set, json_string(json_iter_value(it))) != NAME_PLAIN)
				return true;
	}
	return false;
}

static bool holds_value(struct str key)
{
	static const char *const names[] = { "value", "values", "val", "v", "content", "text", "data" };

	for (size_t i = 0; i < PAWL_LEN(names); i++)
		if (secret_name_eq(key, str_of(names[i])))
			return true;
	return false;
}

static void put_object(struct walk *w, const struct json *obj, unsigned depth)
{
	bool label = labelled(w, obj), first = true;

	for (void *it = json_iter(obj); it; it = json_iter_next(obj, it), first = false) {
		struct str key = json_iter_key(it);
		const struct json *v = json_iter_value(it);
		enum json_kind kind = json_kind(v);

		buf_putc(w->out, first ? '{' : ',');
		put_text(w, key, false); /* a map from tokens to something has them as keys */
		buf_putc(w->out, ':');
		w->key[w->n++] = key;
		if (kind != JSON_KIND_NULL && kind != JSON_KIND_BOOL && (is_secret(w, key) || (label && holds_value(key))))
			put_hidden(w);
		else
			put_value(w, v, depth + 1);
		w->n--;
	}
	buf_puts(w->out, first ? "{}" : "}");
}

static void put_array(struct walk *w, const struct json *arr, unsigned depth)
{
	struct command c = { .next = NEXT_PLAIN };
	size_t n = json_size(arr);
	struct str first = json_string(json_at(arr, 0));
	bool pair = n == 2 && first.n && first.p[0] != '-' && secret_name(w->set, first) != NAME_PLAIN; /* ["Cookie", "…"] */

	buf_putc(w->out, '[');
	for (size_t i = 0; i < n; i++) {
		const struct json *v = json_at(arr, i);

		if (i)
			buf_putc(w->out, ',');
		if (pair && i == 1)
			put_hidden(w);
		else if (json_kind(v) == JSON_KIND_STRING)
			put_arg(w, &c, json_string(v), false);
		else
			put_value(w, v, depth + 1);
	}
	buf_putc(w->out, ']');
}

static void put_value(struct walk *w, const struct json *j, unsigned depth)
{
	enum json_kind kind = json_kind(j);

	if (depth >= PAWL_MAX_DEPTH && (kind == JSON_KIND_OBJECT || kind == JSON_KIND_ARRAY))
		put_hidden(w); /* deeper than what the wire takes */
	else if (kind == JSON_KIND_OBJECT)
		put_object(w, j, depth);
	else if (kind == JSON_KIND_ARRAY)
		put_array(w, j, depth);
	else if (kind == JSON_KIND_STRING)
		put_text(w, json_string(j), false);
	else
		canon_json(j, NULL, 0, w->out);
}

void redact_json(const struct redact_set *set, const struct json *args, struct buf *out)
{
	struct walk w = { .set = set, .out = out, .text = BUF_MAX(out->max) };

	put_value(&w, args, 0);
	buf_done(&w.text);
}

/* ---- argv ---- */

/* Bytes above ASCII that are no UTF-8 as \xNN, so that the text is JSON. */
static struct str readable(struct str s, struct buf *scratch)
{
	if (utf8_valid(s))
		return s;
	buf_reset(scratch);
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x80)
			buf_putc(scratch, s.p[i]);
		else
			buf_printf(scratch, "\\x%02x", (unsigned char)s.p[i]);
	return buf_str(scratch);
}

void redact_argv(const struct redact_set *set, struct str argv, bool redact, struct buf *out)
{
	struct walk w = { .set = set, .out = out, .text = BUF_MAX(out->max) };
	struct buf scratch = BUF_MAX(out->max);
	struct command c = { .next = NEXT_PLAIN };

	buf_putc(out, '[');
	for (size_t i = 0; i < argv.n;) {
		const char *nul = memchr(argv.p + i, '\0', argv.n - i);
		size_t end = nul ? (size_t)(nul - argv.p) : argv.n;
		struct str s = readable((struct str){ argv.p + i, end - i }, &scratch);

		out->failed = out->failed || scratch.failed;
		if (i)
			buf_putc(out, ',');
		if (redact)
			put_arg(&w, &c, s, !nul);
		else
			buf_json(out, s);
		i = end + 1;
	}
	buf_putc(out, ']');
	buf_done(&w.text);
	buf_done(&scratch);
}

/* ---- what is recorded ---- */

struct str redact_fit(struct str s)
{
	if (s.n > PAWL_MAX_VALUE)
		for (s.n = PAWL_MAX_VALUE; s.n > 0 && ((unsigned char)s.p[s.n] & 0xc0) == 0x80;)
			s.n--;
	return s;
}

static int recorded(const struct log_policy *log, const struct buf *text, struct str *ret)
{
	if (!buf_ok(text))
		return PAWL_E_NOMEM;
	*ret = log->record_args == RECORD_DIGEST ? STR_NONE : redact_fit(buf_str(text));
	return 0;
}

int record_args(const struct log_policy *log, const struct json *args, struct str canon, struct buf *scratch, struct str *ret)
{
	buf_reset(scratch);
	if (log->record_args == RECORD_FULL)
		buf_str_add(scratch, canon);
	else if (log->record_args == RECORD_REDACTED)
		redact_json(log->redact, args, scratch);
	return recorded(log, scratch, ret);
}

int record_argv(const struct log_policy *log, const struct str *argv, size_t n, struct buf *scratch, struct str *ret)
{
	buf_reset(scratch);
	if (log->record_args == RECORD_DIGEST)
		n = 0;
	buf_putc(scratch, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(scratch, ',');
		if (argv[i].p)
			redact_argv(log->redact, argv[i], log->record_args != RECORD_FULL, scratch);
		else
			buf_puts(scratch, "null");
	}
	buf_putc(scratch, ']');
	return recorded(log, scratch, ret);
}
