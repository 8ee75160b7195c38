/* policy/yaml.h - YAML text to nodes that know their place. Scalars stay text: what a value means is the schema's
 * business. Nodes live in the caller's arena. */
#ifndef PAWL_YAML_H
#define PAWL_YAML_H
#include "policy/arena.h"
#include "policy/report.h"

#define YAML_MAX_BYTES (1u << 20)
#define YAML_MAX_DEPTH 32
#define YAML_MAX_NODES 50000u

enum ynode_kind { YNODE_TEXT, YNODE_LIST, YNODE_MAP };
struct ynode {
	enum ynode_kind kind;
	bool plain;            /* a text without quotes */
	unsigned line, column; /* 1-based; columns count characters */
	struct str text;       /* NUL-terminated, without NUL inside */
	size_t n;              /* children */
	struct ynode *first;   /* a list's elements, a map's keys */
	struct ynode *next;    /* the next sibling */
	struct ynode *value;   /* of a map's key; never NULL */
};

/* Reads exactly one document that ends with the line `...`. Every problem goes into *rep; 0 means that there is a tree
 * to look at, not that there was no problem. PAWL_E_POLICY: no tree. PAWL_E_NOMEM. */
PAWL_MUST_USE int yaml_read(struct str text, struct arena *mem, struct policy_report *rep, struct ynode **ret);

#endif
