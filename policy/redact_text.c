/* policy/redact_text.c - secrets inside one text: tokens of known looks, key blocks, passwords in addresses, and what stands behind a
 * name (name=…, name: …, --name …). Goes over the text once; each rule looks ahead only over what it then skips. Errs towards hiding. */
#include "policy/redact.h"

struct scan {
	const struct redact_set *set;
	struct str s;
	bool cut;
	struct buf *out;
	size_t done; /* bytes of s that are in out */
	unsigned programs; /* that this command named so far */
};

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool not_blank(char c)
{
	return !blank(c);
}

static bool quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static char at(const struct scan *sc, size_t i)
{
	return i < sc->s.n ? sc->s.p[i] : '\0';
}

static bool starts(const struct scan *sc, size_t i, const char *z)
{
	size_t n = strlen(z);

	return sc->s.n - i >= n && memcmp(sc->s.p + i, z, n) == 0;
}

static size_t hide(struct scan *sc, size_t from, size_t to)
{
	if (from < sc->done)
		from = sc->done;
	if (from >= to)
		return to;
	buf_add(sc->out, sc->s.p + sc->done, from - sc->done);
	if (to - from != sizeof(REDACTED) - 1 || memcmp(sc->s.p + from, REDACTED, to - from) != 0)
		buf_puts(sc->out, REDACTED);
	else
		buf_add(sc->out, sc->s.p + from, to - from);
	sc->done = to;
	return to;
}

static size_t word_end(const struct scan *sc, size_t i, bool (*in)(char))
{
	while (i < sc->s.n && in(sc->s.p[i]))
		i++;
	return i;
}

/* ---- blocks and addresses ---- */

/* -----BEGIN … PRIVATE KEY----- up to its end, or to the text's. */
static size_t key_block(struct scan *sc, size_t i)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ";
	size_t from = i + sizeof(begin) - 1, look = sc->s.n - from < 64 ? sc->s.n - from : 64;
	const char *name = memmem(sc->s.p + from, look, "PRIVATE KEY", 11), *last;
	size_t to = sc->s.n;

	if (!name && !(sc->cut && look < 64))
		return i + 1;
	last = memmem(sc->s.p + from, sc->s.n - from, end, sizeof(end) - 1);
	if (last) {
		const char *dashes;

		last += sizeof(end) - 1;
		dashes = memmem(last, (size_t)(sc->s.p + sc->s.n - last), "-----", 5);
		if (dashes)
			to = (size_t)(dashes - sc->s.p) + 5;
	}
	return hide(sc, i, to);
}

static bool ends_address(char c)
{
	return blank(c) || quote(c) || c == '<' || c == '>' || c == '|' || c == '\\' || c == '\0';
}

/* host:80/a@b has a port and a path, where name:pass/word@host has a password. */
static bool is_port(const struct scan *sc, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (sc->s.p[i] < '0' || sc->s.p[i] > '9')
			return false;
	return true;
}

/* Behind "://": what stands before an @ is who, and with what. */
static size_t address(struct scan *sc, size_t from)
{
	size_t end = from, path = 0, colon = 0, who = 0;

	for (; end < sc->s.n && !ends_address(sc->s.p[end]); end++) {
		char c = sc->s.p[end];

		if ((c == '/' || c == '?' || c == '#') && !path)
			path = end;
		if (c == ':' && !colon && !path)
			colon = end;
		if (c == '@' && (!path || (colon && !is_port(sc, colon + 1, path))))
			who = end;
	}
	if (!who && sc->cut && end == sc->s.n && colon && !is_port(sc, colon + 1, path ? path : end))
		who = end;
	if (who && ((colon && colon < who) || who - from >= 16))
		return hide(sc, from, who);
	return from;
}

/* ---- shell lines ---- */

/* The next word of a command line that stands in one text, without its quotes. */
static void next_word(const struct scan *sc, size_t i, size_t *ret_from, size_t *ret_to)
{
	const char *end = NULL;

	while (at(sc, i) == ' ' || at(sc, i) == '\t')
		i++;
	if (quote(at(sc, i))) {
		i++;
		if (i < sc->s.n && !blank(sc->s.p[i])) /* else it closes */
			end = memchr(sc->s.p + i, sc->s.p[i - 1], sc->s.n - i);
	}
	*ret_from = *ret_to = i;
	if (end)
		*ret_to = (size_t)(end - sc->s.p);
	while (!end && *ret_to < sc->s.n && !blank(sc->s.p[*ret_to]) && !quote(sc->s.p[*ret_to]))
		++*ret_to;
}

/* me:secret behind the option at i, from there on. */
static size_t account(struct scan *sc, size_t i, size_t behind)
{
	const char *colon;
	size_t from, to;

	next_word(sc, behind, &from, &to);
	colon = memchr(sc->s.p + from, ':', to - from);
	return colon && !secret_numbers((struct str){ sc->s.p + from, to - from }) ? hide(sc, (size_t)(colon - sc->s.p) + 1, to) : i;
}

/* An option at i, with a blank or a quote before it: what redact.c knows of lists, in a line of one text. i: nothing was hidden. */
static size_t option(struct scan *sc, size_t i)
{
	static const char *const users[] = { "-u ", "-U ", "--user ", "--user=", "--proxy-user ", "--proxy-user=" };
	size_t behind = 0, from, to = i;
	enum secret_option kind;

	for (size_t k = 0; k < PAWL_LEN(users); k++)
		if (starts(sc, i, users[k]))
			return account(sc, i, i + strlen(users[k]));
	while (to < sc->s.n && !blank(sc->s.p[to]))
		to++;
	kind = secret_option(sc->programs, (struct str){ sc->s.p + i, to - i }, &behind);
	if (kind == OPTION_PLAIN)
		return i;
	if (kind == OPTION_ACCOUNT)
		return account(sc, i, i + behind);
	next_word(sc, i + behind, &from, &to);
	return to > from && (kind == OPTION_SECRET || !secret_numbers((struct str){ sc->s.p + from, to - from })) ? hide(sc, from, to) : i;
}

/* Which programs' options the following are, up to the command's end. */
static void program(struct scan *sc, size_t i, bool edge)
{
	char c = sc->s.p[i];

	if (c == '|' || c == ';' || c == '&' || c == '\n')
		sc->programs = 0;
	else if (edge)
		sc->programs |= secret_programs((struct str){ sc->s.p + i, sc->s.n - i });
}

/* ---- behind a name ---- */

static bool is_scheme(struct str s)
{
	static const char *const names[] = { "bearer", "basic", "digest", "negotiate", "token", "apikey" };

	for (size_t i = 0; i < PAWL_LEN(names); i++)
		if (secret_name_eq(s, str_of(names[i])))
			return true;
	return false;
}

/* "Bearer abc123" without a name before it. A sentence about the bearer of news has no digit behind it. */
static size_t scheme(struct scan *sc, size_t i, size_t end)
{
	struct str word = { sc->s.p + i, end - i };
	size_t from = end, to;

	if (!secret_name_eq(word, STR("bearer")) && !secret_name_eq(word, STR("basic")))
		return end;
	while (at(sc, from) == ' ' || at(sc, from) == '\t')
		from++;
	to = word_end(sc, from, secret_in_token);
	if (from == end || to == from)
		return end;
	if (to - from >= 16 || secret_has_digit((struct str){ sc->s.p + from, to - from }) || sc->s.p[to - 1] == '=' || (sc->cut && to == sc->s.n))
		return hide(sc, from, to);
	return end;
}

static bool line_end(const struct scan *sc, size_t i)
{
	return at(sc, i) == '\n' || at(sc, i) == '\r' || at(sc, i) == '\0' || (at(sc, i) == '\\' && (at(sc, i + 1) == 'n' || at(sc, i + 1) == 'r'));
}

/* From an opening quote, perhaps with a backslash (text in a text), to its like. */
static size_t quoted(struct scan *sc, size_t i)
{
	bool escaped = at(sc, i) == '\\';
	char q = at(sc, i + escaped);
	size_t from = i + 1 + escaped, to = from;

	for (; to < sc->s.n; to++) {
		if (escaped ? at(sc, to) == '\\' && at(sc, to + 1) == q : at(sc, to) == q)
			break;
		if (!escaped && at(sc, to) == '\\' && to + 1 < sc->s.n)
			to++;
	}
	return hide(sc, from, to < sc->s.n ? to : sc->s.n);
}

static size_t header_value(struct scan *sc, size_t from, char around, enum secret_name kind)
{
	size_t to = from;

	while (to < sc->s.n && !line_end(sc, to) && !(quote(around) && sc->s.p[to] == around))
		to++;
	if (kind == NAME_WEAK && memchr(sc->s.p + from, ' ', to - from)) {
		if (blank(sc->s.p[from - 1]))
			return from; /* "this session: we …" */
		to = word_end(sc, from, not_blank); /* openssl -passin pass:… */
	}
	return hide(sc, from, to);
}

/* A value may go on in brackets: ('me', 'secret'), f("secret"). Returns where they end; the line's end, if they do not soon. */
static size_t brackets_end(const struct scan *sc, size_t from)
{
	size_t depth = 0, most = sc->s.n - from < 1024 ? sc->s.n : from + 1024, to = from;
	char in = '\0';

	for (; to < most; to++) {
		char c = sc->s.p[to];

		if (c == '\\')
			to++;
		else if (in || quote(c))
			in = in == c ? '\0' : in ? in : c;
		else if (c == '(' || c == '[' || c == '{')
			depth++;
		else if ((c == ')' || c == ']' || c == '}') && --depth == 0)
			return to + 1;
	}
	for (to = from; to < sc->s.n && !line_end(sc, to);)
		to++;
	return to;
}

static size_t plain_value(struct scan *sc, size_t from, bool in_json)
{
	size_t to = from;

	for (int words = 0; words < 2; words++) {
		size_t word = to;

		while (to < sc->s.n && !blank(sc->s.p[to]) && !quote(sc->s.p[to]) && !strchr(in_json ? ",}]&;" : "&;", sc->s.p[to]))
			to = strchr("([{", sc->s.p[to]) ? brackets_end(sc, to) : to + 1;
		if (words || !is_scheme((struct str){ sc->s.p + word, to - word }) || at(sc, to) != ' ')
			break;
		to++; /* Authorization=Bearer abc */
	}
	if (in_json && (str_is((struct str){ sc->s.p + from, to - from }, "null") || str_is((struct str){ sc->s.p + from, to - from }, "true") ||
			str_is((struct str){ sc->s.p + from, to - from }, "false")))
		return from;
	return hide(sc, from, to);
}

/* <name>value</name> */
static size_t element(struct scan *sc, size_t e, size_t from)
{
	const char *end = from < sc->s.n ? memchr(sc->s.p + from, '<', sc->s.n - from) : NULL;
	size_t to = end ? (size_t)(end - sc->s.p) : sc->s.n;

	return to > from && (end ? at(sc, to + 1) == '/' : sc->cut) ? hide(sc, from, to) : e;
}

static size_t encoded(struct scan *sc, size_t from)
{
	size_t to = from;

	while (to < sc->s.n && !blank(sc->s.p[to]) && !quote(sc->s.p[to]) && !strchr("&;<>", sc->s.p[to]) && !starts(sc, to, "%26"))
		to++;
	return hide(sc, from, to);
}

static size_t blanks_end(const struct scan *sc, size_t p)
{
	while (at(sc, p) == ' ' || at(sc, p) == '\t')
		p++;
	return p;
}

/* Behind the quote and the bracket that close a name: "name", [name], x['name']. */
static size_t name_end(const struct scan *sc, size_t e, char around, bool *ret_closed)
{
	size_t p = e;

	*ret_closed = quote(around) && (at(sc, p) == around || (at(sc, p) == '\\' && at(sc, p + 1) == around));
	if (*ret_closed)
		p += at(sc, p) == '\\' ? 2 : 1;
	return at(sc, p) == ']' && (*ret_closed || around == '[') ? p + 1 : p;
}

/* ("name", "…"): a name at i, and a comma at p behind its quote. */
static bool in_pair(const struct scan *sc, size_t i, size_t p)
{
	return at(sc, p) == ',' && i > 1 && (sc->s.p[i - 2] == '(' || sc->s.p[i - 2] == '[') && quote(at(sc, blanks_end(sc, p + 1)));
}

/* Where the value begins whose name at i ends before p; 0: none does. */
static size_t value_start(const struct scan *sc, size_t i, size_t e, size_t p, char *ret_sep)
{
	char sep = at(sc, p);

	*ret_sep = sep;
	if (sep == '=' || sep == ':') {
		for (p++; at(sc, p) == '=' || at(sc, p) == '>';)
			p++;
	} else if (p == e || sep == '\0' || (sc->s.p[i] != '-' && !in_pair(sc, i, p) && !secret_set_before(sc->s, i))) {
		return 0; /* neither name=… nor --name … nor set name … */
	} else if (sep == '-') {
		if (!starts(sc, p, "-- ")) /* what follows is no option, whatever it looks like */
			return 0;
		p += 3;
	} else if (sep == ',') { /* ["--name", "…"] */
		p++;
	}
	p = blanks_end(sc, p);
	return p < sc->s.n ? p : 0;
}

/* A name ends at e: is there a value behind it? Returns where to go on, e if not. */
static size_t named(struct scan *sc, size_t i, size_t e, enum secret_name kind)
{
	char around = i ? sc->s.p[i - 1] : '\0', sep;
	bool closed;
	size_t p = name_end(sc, e, around, &closed);

	if (around == '<' && at(sc, p) == '>')
		return element(sc, e, p + 1);
	p = blanks_end(sc, p);
	if (at(sc, p) == '%' && at(sc, p + 1) == '3' && (at(sc, p + 2) | 0x20) == 'd') /* name%3Dvalue%26, in a query of a query */
		return encoded(sc, p + 3);
	p = value_start(sc, i, e, p, &sep);
	if (!p)
		return e;
	if (closed && (at(sc, p) == 'b' || at(sc, p) == 'f' || at(sc, p) == 'r') && quote(at(sc, p + 1))) /* b'…' */
		p++;
	if (quote(at(sc, p)) && !(at(sc, p) == around && !closed))
		return quoted(sc, p);
	if (at(sc, p) == '\\' && quote(at(sc, p + 1)))
		return quoted(sc, p);
	if (closed && (at(sc, p) == '[' || at(sc, p) == '{'))
		return header_value(sc, p, '\0', NAME_STRONG);
	if (sep == ':' && !closed)
		p = header_value(sc, p, around, kind);
	else
		p = plain_value(sc, p, closed);
	return p > e ? p : e;
}

void redact_text(const struct redact_set *set, struct str text, bool cut, struct buf *out)
{
	struct scan sc = { .set = set, .s = text, .cut = cut, .out = out };
	size_t word = 0; /* where the word that was looked at ends */

	for (size_t i = 0, next; i < text.n; i = next) {
		char before = i ? text.p[i - 1] : ' ';
		bool edge = !secret_alnum(before) || (i > 1 && text.p[i - 2] == '\\' && (before == 'n' || before == 't' || before == 'r'));

		program(&sc, i, !secret_alnum(before));
		if (text.p[i] == '-' && (blank(before) || quote(before)) && (next = option(&sc, i)) > i) {
			word = next;
			continue;
		}
		next = i + 1;
		if (starts(&sc, i, "://")) {
			next = address(&sc, i + 3);
		} else if (starts(&sc, i, "-----BEGIN ")) {
			next = key_block(&sc, i);
		} else if (edge && secret_alnum(text.p[i])) {
			size_t end = secret_token(text, i, cut);

			if (end > i)
				next = hide(&sc, i, end);
		}
		if (next == i + 1 && secret_in_word(text.p[i]) && i >= word) {
			enum secret_name kind;

			word = word_end(&sc, i, secret_in_word);
			kind = secret_name(set, (struct str){ text.p + i, word - i });
			next = kind ? named(&sc, i, word, kind) : word;
			if (next == word)
				next = scheme(&sc, i, word);
			if (next == word) /* no value behind it: its inside may still be a token */
				next = i + 1;
			else if (next > word)
				word = next;
		}
	}
	if (sc.done < text.n)
		buf_add(out, text.p + sc.done, text.n - sc.done);
}
