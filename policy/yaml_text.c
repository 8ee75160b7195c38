/* policy/yaml_text.c - see yaml_text.h. YAML takes more characters for a line end than an editor shows, so a rule could
 * stand in what looks like a comment: such characters are refused, wherever they are. */
#include "policy/yaml_text.h"

#include "daemon/base/buf.h"
#include "policy/yaml.h"

struct text_place text_place(struct str text, size_t offset)
{
	struct text_place at = { 1, 1 };

	for (size_t i = 0; i < offset && i < text.n; i++) {
		if (text.p[i] == '\n')
			at = (struct text_place){ at.line + 1, 1 };
		else if (((unsigned char)text.p[i] & 0xc0) != 0x80)
			at.column++;
	}
	return at;
}

/* The line at *offset without its line end; moves *offset behind it. */
static struct str next_line(struct str text, size_t *offset)
{
	const char *p = text.p + *offset, *end = memchr(p, '\n', text.n - *offset);
	struct str line = { p, end ? (size_t)(end - p) : text.n - *offset };

	*offset += line.n + (end ? 1 : 0);
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	return line;
}

static bool hides_text(const unsigned char *p, size_t n)
{
	if (p[0] == '\r')
		return true;
	if (n >= 2 && p[0] == 0xc2 && p[1] == 0x85) /* next line */
		return true;
	if (n < 3)
		return false;
	if (p[0] == 0xe2 && p[1] == 0x80)
		return p[2] == 0xa8 || p[2] == 0xa9 || (p[2] >= 0xaa && p[2] <= 0xae); /* line ends, direction */
	if (p[0] == 0xe2 && p[1] == 0x81)
		return p[2] >= 0xa6 && p[2] <= 0xa9;
	return p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf; /* byte order mark */
}

/* Offset of the first byte of line that starts no character, line.n when all is well. */
static size_t bad_utf8(struct str line)
{
	size_t i = 0;

	if (utf8_valid(line))
		return line.n;
	while (i < line.n) {
		size_t len = 1;

		while (len <= 4 && i + len <= line.n && !utf8_valid((struct str){ line.p + i, len }))
			len++;
		if (len > 4 || i + len > line.n)
			return i;
		i += len;
	}
	return line.n;
}

static int complain(struct policy_report *rep, struct text_place at, const char *what, int code)
{
	return report_add(rep, false, at.line, at.column, "%s", what) ? PAWL_E_NOMEM : code;
}

static int check_line(struct str text, struct str line, unsigned number, struct policy_report *rep)
{
	size_t from = (size_t)(line.p - text.p), bad = bad_utf8(line), indent = 0;
	const char *tab;

	if (bad < line.n)
		return complain(rep, text_place(text, from + bad), line.p[bad] ? "not UTF-8" : "a NUL byte",
				PAWL_E_POLICY);
	for (size_t i = 0; i < line.n; i++)
		if (hides_text((const unsigned char *)line.p + i, line.n - i))
			return complain(rep, text_place(text, from + i),
					"a character that hides text (a lone CR, a Unicode line end, text direction, "
					"byte order mark)",
					PAWL_E_POLICY);
	while (indent < line.n && (line.p[indent] == ' ' || line.p[indent] == '\t'))
		indent++;
	tab = memchr(line.p, '\t', indent);
	if (!tab)
		return 0;
	return complain(rep, (struct text_place){ number, (unsigned)(tab - line.p) + 1 },
			"a tab in the indentation: use blanks", 0);
}

int text_check(struct str text, struct policy_report *rep)
{
	struct text_place top = { 1, 1 };
	unsigned number = 0;
	int r = 0;

	if (text.n > YAML_MAX_BYTES)
		return complain(rep, top, "larger than 1 MiB", PAWL_E_POLICY);
	for (size_t at = 0; at < text.n && !r;) {
		struct str line = next_line(text, &at);

		r = check_line(text, line, ++number, rep);
	}
	return r;
}

bool text_ends_whole(struct str text)
{
	bool whole = false;

	for (size_t at = 0; at < text.n;) {
		struct str line = next_line(text, &at);
		size_t i = 0;

		while (i < line.n && (line.p[i] == ' ' || line.p[i] == '\t'))
			i++;
		if (i == line.n || line.p[i] == '#')
			continue;
		whole = line.n >= 3 && memcmp(line.p, "...", 3) == 0 && (line.n == 3 || line.p[3] == ' ');
	}
	return whole;
}
