/* tests/fuzz/fuzz_note.c - any bytes as a signed entry, a verifier key, a signer key. What is taken must be written
 * back byte for byte. */
#include "daemon/log/keys.h"

#include <stdlib.h>

#define MUST(x) ((x) ? (void)0 : abort())

static void entry(struct str in)
{
	struct buf out = BUF_MAX(1u << 17);
	struct pawl_error err;
	struct entry_view v;
	char name[sizeof(((struct vkey *)0)->name)];
	struct vkey k;

	if (entry_view_parse(in, &v, &err) < 0)
		return;
	MUST(v.sig_name.n < sizeof(name));
	memcpy(name, v.sig_name.p, v.sig_name.n);
	name[v.sig_name.n] = '\0';
	entry_text(v.origin, v.seq, v.prev, v.body, &out, NULL);
	MUST(str_eq(buf_str(&out), v.text));
	note_sig_line(name, v.sig_id, v.sig, &out);
	MUST(buf_ok(&out) && str_eq(buf_str(&out), in));
	MUST(out.n < entry_note_bytes(v.origin, name, v.body.n));
	MUST(vkey_parse(STR("example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"), &k,
			&err) == 0);
	(void)!entry_view_verify(&v, &k, &err);
	buf_done(&out);
}

static void keys(struct str in)
{
	struct buf out = BUF_MAX(4096);
	struct pawl_error err;
	struct sign_key *s;
	struct vkey k;

	if (vkey_parse(in, &k, &err) == 0) {
		vkey_text(&k, &out);
		MUST(in.n >= out.n && memcmp(in.p, out.p, out.n) == 0);
	}
	buf_reset(&out);
	if (sign_key_parse(in, &s, &err) == 0) {
		sign_key_text(s, &out);
		MUST(out.n - 1 <= in.n && memcmp(in.p, out.p, out.n - 1) == 0);
		sign_key_free(s);
	}
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data, size };

	entry(in);
	keys(in);
	return 0;
}
