/* policy/yaml.c - the only file with <yaml.h>. Events in, nodes out: no alias is ever followed, so a small file stays
 * small. Borrows the text, owns the libyaml parser while it runs. Must not know what a key means. */
#include "policy/yaml.h"

#include "policy/yaml_text.h"

#include <stdlib.h>
#include <yaml.h>

struct frame {
	struct ynode *node; /* the open list or map */
	struct ynode *last; /* its newest child */
	bool key_waits;     /* a map whose newest key has no value yet */
};

struct reader {
	yaml_parser_t parser;
	struct arena *mem;
	struct policy_report *rep;
	struct frame stack[YAML_MAX_DEPTH];
	unsigned depth, documents;
	size_t nodes;
	struct ynode *root;
	bool ended; /* the document's own `...` was there */
	int bad;    /* PAWL_E_POLICY: reported, reading on makes no sense; PAWL_E_NOMEM */
};

static void complain(struct reader *r, const yaml_mark_t *at, const char *what)
{
	if (report_add(r->rep, false, (unsigned)at->line + 1, (unsigned)at->column + 1, "%s", what))
		r->bad = PAWL_E_NOMEM;
}

static void give_up(struct reader *r, const yaml_mark_t *at, const char *what)
{
	complain(r, at, what);
	if (!r->bad)
		r->bad = PAWL_E_POLICY;
}

static int by_text(const void *va, const void *vb)
{
	const struct ynode *a = *(struct ynode *const *)va, *b = *(struct ynode *const *)vb;
	int c = memcmp(a->text.p, b->text.p, a->text.n < b->text.n ? a->text.n : b->text.n);

	if (c)
		return c;
	if (a->text.n != b->text.n)
		return a->text.n < b->text.n ? -1 : 1;
	if (a->line != b->line)
		return a->line < b->line ? -1 : 1;
	return a->column < b->column ? -1 : a->column > b->column;
}

/* Two equal keys in one map: each later one is reported and taken out, so that nothing reads it. */
static void refuse_repeats(struct reader *r, struct ynode *map)
{
	struct ynode **keys = arena_array(r->mem, map->n, sizeof(*keys));
	struct ynode *first = NULL, **link;
	size_t n = 0;

	if (!keys || map->n < 2)
		return;
	for (struct ynode *k = map->first; k; k = k->next)
		keys[n++] = k;
	qsort(keys, n, sizeof(*keys), by_text);
	for (size_t i = 0; i < n; i++) {
		if (!first || !str_eq(first->text, keys[i]->text)) {
			first = keys[i];
			continue;
		}
		if (report_add(r->rep, false, keys[i]->line, keys[i]->column, "key %s is there twice, first in line %u",
			       QUOTED(keys[i]->text), first->line))
			r->bad = PAWL_E_NOMEM;
		keys[i]->kind = YNODE_MAP; /* no key is a map: the mark of one to take out */
	}
	for (link = &map->first; *link;) {
		if ((*link)->kind == YNODE_MAP) {
			*link = (*link)->next;
			map->n--;
		} else {
			link = &(*link)->next;
		}
	}
}

/* Puts a finished or opened node into the innermost open one. */
static void attach(struct reader *r, struct ynode *node, const yaml_mark_t *at)
{
	struct frame *f;

	if (r->depth == 0) {
		r->root = node;
		return;
	}
	f = &r->stack[r->depth - 1];
	if (f->key_waits) {
		f->last->value = node;
		f->key_waits = false;
		return;
	}
	if (f->node->kind == YNODE_MAP) {
		if (node->kind != YNODE_TEXT) {
			give_up(r, at, "a key is one text, not a list or a map");
			return;
		}
		if (node->plain && str_is(node->text, "<<"))
			complain(r, at, "merge keys (<<) are not allowed: write the keys out");
		else if (node->plain && node->text.n == 0)
			complain(r, at, "a key is missing before the colon");
		f->key_waits = true;
	}
	if (f->last)
		f->last->next = node;
	else
		f->node->first = node;
	f->last = node;
	f->node->n++;
}

static struct ynode *node_new(struct reader *r, enum ynode_kind kind, const yaml_mark_t *at)
{
	struct ynode *node;

	if (++r->nodes > YAML_MAX_NODES) {
		give_up(r, at, "more than 50,000 values");
		return NULL;
	}
	node = arena_array(r->mem, 1, sizeof(*node));
	if (!node)
		return NULL;
	node->kind = kind;
	node->line = (unsigned)at->line + 1;
	node->column = (unsigned)at->column + 1;
	return node;
}

static void refuse_marks(struct reader *r, const yaml_mark_t *at, const yaml_char_t *anchor, const yaml_char_t *tag)
{
	if (anchor)
		complain(r, at, "anchors (&name) are not allowed");
	if (tag)
		complain(r, at, "tags (!name) are not allowed");
}

static void on_text(struct reader *r, const yaml_event_t *ev)
{
	struct str raw = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	struct ynode *node = node_new(r, YNODE_TEXT, &ev->start_mark);

	refuse_marks(r, &ev->start_mark, ev->data.scalar.anchor, ev->data.scalar.tag);
	if (!node)
		return;
	node->plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	if (memchr(raw.p, 0, raw.n)) {
		complain(r, &ev->start_mark, "text with a NUL byte");
		raw.n = strlen(raw.p);
	}
	/* YAML joins the lines, so a comma or a colon that was forgotten makes one odd text out of two values. */
	if (node->plain && ev->end_mark.line != ev->start_mark.line)
		complain(r, &ev->start_mark,
			 "text without quotes runs on over the end of the line: is a comma or a colon missing? If not, "
			 "quote it");
	node->text = arena_text(r->mem, raw);
	attach(r, node, &ev->start_mark);
}

static void on_alias(struct reader *r, const yaml_event_t *ev)
{
	struct ynode *node = node_new(r, YNODE_TEXT, &ev->start_mark);

	complain(r, &ev->start_mark, "aliases (*name) are not allowed: write the value out");
	if (!node)
		return;
	node->text = arena_text(r->mem, STR("alias"));
	attach(r, node, &ev->start_mark);
}

static void on_open(struct reader *r, enum ynode_kind kind, const yaml_mark_t *at, const yaml_char_t *anchor,
		    const yaml_char_t *tag)
{
	struct ynode *node = node_new(r, kind, at);

	refuse_marks(r, at, anchor, tag);
	if (!node)
		return;
	attach(r, node, at);
	if (r->depth == YAML_MAX_DEPTH)
		give_up(r, at, "nested deeper than 32 levels");
	else
		r->stack[r->depth++] = (struct frame){ .node = node };
}

static const char second_document[] =
    "a second document: a policy is one file with one document, and ends with its \"...\"";

static void on_document(struct reader *r, const yaml_event_t *ev)
{
	if (++r->documents > 1) {
		give_up(r, &ev->start_mark, second_document);
		return;
	}
	if (ev->data.document_start.version_directive ||
	    ev->data.document_start.tag_directives.start != ev->data.document_start.tag_directives.end)
		complain(r, &ev->start_mark, "directives (%YAML, %TAG) are not allowed");
}

static void on_event(struct reader *r, const yaml_event_t *ev)
{
	switch ((int)ev->type) {
	case YAML_DOCUMENT_START_EVENT:
		on_document(r, ev);
		break;
	case YAML_DOCUMENT_END_EVENT:
		r->ended = !ev->data.document_end.implicit;
		break;
	case YAML_ALIAS_EVENT:
		on_alias(r, ev);
		break;
	case YAML_SCALAR_EVENT:
		on_text(r, ev);
		break;
	case YAML_SEQUENCE_START_EVENT:
		on_open(r, YNODE_LIST, &ev->start_mark, ev->data.sequence_start.anchor, ev->data.sequence_start.tag);
		break;
	case YAML_MAPPING_START_EVENT:
		on_open(r, YNODE_MAP, &ev->start_mark, ev->data.mapping_start.anchor, ev->data.mapping_start.tag);
		break;
	case YAML_MAPPING_END_EVENT:
		refuse_repeats(r, r->stack[r->depth - 1].node);
		r->depth--;
		break;
	case YAML_SEQUENCE_END_EVENT:
		r->depth--;
		break;
	default: /* start and end of the stream */
		break;
	}
	if (r->mem->failed)
		r->bad = PAWL_E_NOMEM;
}

/* libyaml said no. One problem, because after it nothing is certain; not repeated where a tab was named already. */
static void on_syntax(struct reader *r, struct str text)
{
	const yaml_parser_t *p = &r->parser;
	struct text_place at = { (unsigned)p->problem_mark.line + 1, (unsigned)p->problem_mark.column + 1 };
	bool known = false;

	r->bad = PAWL_E_POLICY;
	if (p->error == YAML_MEMORY_ERROR) {
		r->bad = PAWL_E_NOMEM;
		return;
	}
	if (p->error == YAML_READER_ERROR)
		at = text_place(text, p->problem_offset);
	else if (r->ended) { /* without `---` libyaml calls it a missing document start */
		give_up(r, &p->problem_mark, second_document);
		return;
	}
	for (size_t i = 0; i < r->rep->n; i++)
		known = known || r->rep->rows[i].line == at.line;
	if (!known &&
	    report_add(r->rep, false, at.line, at.column, "not YAML: %s%s%s", p->problem ? p->problem : "unreadable",
		       p->context ? ", " : "", p->context ? p->context : ""))
		r->bad = PAWL_E_NOMEM;
}

static void read_events(struct reader *r, struct str text)
{
	bool more = true;
	yaml_event_t ev;

	while (more && !r->bad) {
		if (!yaml_parser_parse(&r->parser, &ev)) {
			on_syntax(r, text);
			return;
		}
		more = ev.type != YAML_STREAM_END_EVENT;
		on_event(r, &ev);
		yaml_event_delete(&ev);
	}
}

int yaml_read(struct str text, struct arena *mem, struct policy_report *rep, struct ynode **ret)
{
	struct reader r = { .mem = mem, .rep = rep };
	int bad;

	text.p = text.p ? text.p : ""; /* libyaml asserts */
	bad = text_check(text, rep);
	if (bad)
		return bad;
	if (!yaml_parser_initialize(&r.parser))
		return PAWL_E_NOMEM;
	yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text.p, text.n);
	read_events(&r, text);
	yaml_parser_delete(&r.parser);
	if (!r.bad && !r.root)
		r.bad = PAWL_E_POLICY;
	/* Said beside a syntax error too: a file that broke off is the likelier cause of both. */
	if (r.bad != PAWL_E_NOMEM && (r.bad ? !text_ends_whole(text) : !r.ended)) {
		struct text_place at = text_place(text, text.n);

		if (report_add(rep, false, at.line, at.column, "the last line is not \"...\": was the file cut short?"))
			r.bad = PAWL_E_NOMEM;
	} else if (r.bad == PAWL_E_POLICY && !r.root && r.documents == 0 && rep->errors == 0) {
		if (report_add(rep, false, 1, 1, "the file is empty"))
			r.bad = PAWL_E_NOMEM;
	}
	if (r.bad)
		return r.bad;
	*ret = r.root;
	return 0;
}
