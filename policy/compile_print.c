/* policy/compile_print.c - digests of parts of a policy file, so that a reload can tell what has changed without keeping the
 * old file. They say "equal" or "not equal" and nothing else; comments, quotes and line breaks are not in them. */
#include "policy/compile.h"

#include <sodium.h>

static void put_text(crypto_generichash_state *h, struct str s)
{
	uint64_t n = s.n;

	(void)crypto_generichash_update(h, (const uint8_t *)&n, sizeof(n));
	(void)crypto_generichash_update(h, (const uint8_t *)(s.p ? s.p : ""), s.n);
}

/* As deep as the YAML reader lets a file be: YAML_MAX_DEPTH. */
static void put_node(crypto_generichash_state *h, const struct ynode *node)
{
	uint8_t kind = (uint8_t)node->kind;

	(void)crypto_generichash_update(h, &kind, 1);
	put_text(h, node->text);
	(void)crypto_generichash_update(h, (const uint8_t *)&node->n, sizeof(node->n));
	for (const struct ynode *k = node->first; k; k = k->next) {
		put_node(h, k);
		if (k->value)
			put_node(h, k->value);
	}
}

void ynode_print(const struct ynode *node, uint8_t out[static 16])
{
	crypto_generichash_state h;

	(void)crypto_generichash_init(&h, NULL, 0, 16);
	put_node(&h, node);
	if (node->value)
		put_node(&h, node->value);
	(void)crypto_generichash_final(&h, out, 16);
}

static bool is_of(const struct list_entry *e, enum index_kind kind, uint32_t target)
{
	return e->ix.kind == kind && e->ix.target == target;
}

/* The sum of the digests of the patterns that occur: no order, and one that is written twice counts once. */
void match_print(const struct loader *ld, enum index_kind kind, uint32_t target, uint8_t out[static 16])
{
	uint8_t one[16];

	memset(out, 0, 16);
	for (size_t i = 0; i < ld->n_entries; i++) {
		struct str text = ld->entries[i].ix.pattern.text;
		bool again = false;

		if (!is_of(&ld->entries[i], kind, target))
			continue;
		for (size_t k = 0; k < i && !again; k++)
			again = is_of(&ld->entries[k], kind, target) && str_eq(ld->entries[k].ix.pattern.text, text);
		if (again)
			continue;
		(void)crypto_generichash(one, sizeof(one), (const uint8_t *)text.p, text.n, NULL, 0);
		sodium_add(out, one, 16);
	}
}
