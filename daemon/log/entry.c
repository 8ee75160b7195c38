/* daemon/log/entry.c - the words inside entries: ids, amounts, texts of any origin. Owns nothing; pure. */
#include "daemon/log/entry.h"

#include "daemon/log/entry_fields.h"

#include <stdlib.h>

void entry_parsed_done(struct entry_parsed *p)
{
	if (!p)
		return;
	free(p->bytes);
	for (size_t i = 0; i < PAWL_LEN(p->rows); i++)
		free(p->rows[i]);
	json_free(p->doc);
	*p = (struct entry_parsed){ 0 };
}

void buf_id(struct buf *b, char prefix, uint64_t seq)
{
	char head[3] = { '"', prefix, '_' };

	buf_add(b, head, sizeof(head));
	buf_u64(b, seq);
	buf_putc(b, '"');
}

int id_parse(struct str text, char prefix, uint64_t *ret)
{
	uint64_t v = 0;

	if (text.n < 3 || text.n > 2 + 19 || text.p[0] != prefix || text.p[1] != '_' || text.p[2] == '0')
		return PAWL_E_MALFORMED;
	for (size_t i = 2; i < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			return PAWL_E_MALFORMED;
		v = v * 10 + (uint64_t)(text.p[i] - '0'); /* 19 digits fit in 64 bits */
	}
	if (v > INT64_MAX)
		return PAWL_E_MALFORMED;
	*ret = v;
	return 0;
}

size_t amount_text(enum unit unit, int64_t v, char out[static 32])
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	unsigned decimals = unit == UNIT_MONEY || unit == UNIT_TIME ? 9 : 0;
	char t[32];
	size_t at = sizeof(t), n;

	for (; decimals && left % 10 == 0; decimals--)
		left /= 10;
	for (unsigned i = 0; i < decimals; i++, left /= 10)
		t[--at] = (char)('0' + left % 10);
	if (decimals)
		t[--at] = '.';
	do {
		t[--at] = (char)('0' + left % 10);
		left /= 10;
	} while (left);
	if (v < 0)
		t[--at] = '-';
	n = sizeof(t) - at;
	memcpy(out, t + at, n);
	out[n] = '\0';
	return n;
}

struct str unit_text(enum unit unit, struct str currency)
{
	switch (unit) {
	case UNIT_CALLS:
		return STR("calls");
	case UNIT_TOKENS:
		return STR("tokens");
	case UNIT_TIME:
		return STR("s");
	case UNIT_MONEY:
	case UNIT_COUNT:
		break;
	}
	return currency.n ? currency : STR("money");
}

void buf_text(struct buf *b, struct str s)
{
	bool plain = true;

	for (size_t i = 0; i < s.n; i++)
		plain &= (unsigned char)(s.p[i] - 1) < 0x7f; /* ASCII but NUL: nearly every text, so no call for it */
	if (plain || utf8_valid(s)) {
		buf_json(b, s);
		return;
	}
	buf_putc(b, '"');
	for (size_t i = 0; i < s.n; i++) {
		struct str one = { s.p + i, 1 };
		size_t at = b->n;

		if (one.p[0] == '\0' || (unsigned char)one.p[0] >= 0x80)
			one = STR("?");
		buf_json(b, one); /* "x": the quotes go again */
		if (!buf_ok(b))
			return;
		memmove(b->p + at, b->p + at + 1, b->n - at - 2);
		b->n -= 2;
	}
	buf_putc(b, '"');
}

/* An object that may be left out is there when one of its own optional rows is. */
static bool object_present(const struct fields *of, const char *base)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->rows[i].when != ALWAYS && field_present(&of->rows[i], base))
			return true;
	return false;
}

static bool field_set(const struct field *f, const char *base)
{
	switch ((enum field_type)f->type) {
	case FIELD_TEXT:
	case FIELD_JSON:
	case FIELD_CURRENCY:
		return ((const struct str *)(const void *)(base + f->off))->p != NULL;
	case FIELD_TIME:
	case FIELD_SPAN:
	case FIELD_INT:
	case FIELD_AMOUNT:
	case FIELD_MONEY:
	case FIELD_COUNT:
	case FIELD_HEX64:
	case FIELD_ID:
	case FIELD_ID_OR_OWN:
		return field_i64(f, base) != 0;
	case FIELD_BOOL:
		return *(const bool *)(base + f->off);
	case FIELD_NAME:
	case FIELD_UNIT:
		return *(const unsigned *)(const void *)(base + f->off) != 0;
	case FIELD_OBJECT:
		return object_present(f->more, base + f->off);
	case FIELD_LIST:
		return list_count(f->more, base) != 0;
	case FIELD_MESSAGE:
	case FIELD_HEX:
		break;
	}
	return true;
}

bool field_present(const struct field *f, const char *base)
{
	switch ((enum field_when)f->when) {
	case WHEN_SET:
		return field_set(f, base);
	case WHEN_FLAG:
		return field_flag(f, base);
	case WHEN_NOT_NEGATIVE:
		return field_i64(f, base) >= 0;
	case ALWAYS:
		break;
	}
	return true;
}
