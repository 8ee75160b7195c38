/* policy/space.c - see space.h. Works on the written text in place, since folding only makes it shorter. */
#include "policy/space.h"

static bool starts(const char *p, const char *end, const char *with, size_t n)
{
	return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

/* Bytes of the one white space character at p, as JSON text has it; 0 = another character. */
static size_t space_at(const char *p, const char *end)
{
	static const char *const forms[] = {
		" ",
		"\\t",
		"\\n",
		"\\f",
		"\\r",
		"\\u000b",
		"\xc2\x85",
		"\xc2\xa0",
		"\xe1\x9a\x80",
		"\xe2\x80\xa8",
		"\xe2\x80\xa9",
		"\xe2\x80\xaf",
		"\xe2\x81\x9f",
		"\xe3\x80\x80",
	};

	if (!memchr(" \\\xc2\xe1\xe2\xe3", *p, 6)) /* nearly all */
		return 0;
	for (size_t i = 0; i < PAWL_LEN(forms); i++)
		if (starts(p, end, forms[i], strlen(forms[i])))
			return strlen(forms[i]);
	if (starts(p, end, "\xe2\x80", 2) && end - p > 2 && (unsigned char)p[2] >= 0x80 && (unsigned char)p[2] <= 0x8a)
		return 3; /* U+2000 to U+200A */
	return 0;
}

void space_fold(struct buf *b, size_t at)
{
	char *out = b->p + at + 1, *first = out;
	const char *p = out, *end = b->p + b->n - 1;
	bool gap = false;

	while (p < end) {
		size_t n = space_at(p, end);

		if (n) {
			gap = true;
			p += n;
			continue;
		}
		if (gap && out > first)
			*out++ = ' ';
		gap = false;
		if (*p == '\\' &&
		    end - p > 1) /* an escape goes as a whole: its second byte may look like the start of another */
			*out++ = *p++;
		*out++ = *p++;
	}
	*out++ = '"';
	b->n = (size_t)(out - b->p);
}
