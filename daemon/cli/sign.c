/* daemon/cli/sign.c - see sign.h. */
#include "daemon/cli/sign.h"

#include "daemon/cli/sp.h"
#include "policy/canon.h"

#define TIMEOUT_MS  5000
#define MAX_REQUEST (64u << 10)

static bool nonce_ok(struct str s)
{
	if (s.n != SIGN_NONCE)
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!((s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] >= 'a' && s.p[i] <= 'f')))
			return false;
	return true;
}

/* Appends the canonical request with operator and nonce, which is what is signed. */
static int canonical(const struct signer *who, struct str nonce, struct str request, struct buf *out,
		     struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf whole = BUF_MAX(MAX_REQUEST);
	struct json *doc = NULL;
	int r;

	if (request.n < 2 || request.p[request.n - 1] != '}')
		return pawl_fail(err, PAWL_E_MALFORMED, "not a request");
	buf_add(&whole, request.p, request.n - 1);
	buf_key(&whole, "operator");
	buf_json(&whole, who->name);
	buf_key(&whole, "nonce");
	buf_json(&whole, nonce);
	buf_putc(&whole, '}');
	if (!buf_ok(&whole))
		return pawl_fail(err, PAWL_E_NOMEM, "no memory for the request");
	r = json_parse(buf_str(&whole), PAWL_MAX_DEPTH, &doc, err);
	if (r < 0)
		return r;
	canon_json(doc, NULL, 0, out);
	json_free(doc);
	return buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the request");
}

int sign_request(const struct signer *who, struct str nonce, struct str request, struct buf *out,
		 struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf text = BUF_MAX(MAX_REQUEST);
	const size_t prefix = sizeof(SIGN_PREFIX) - 1;
	uint8_t sig[64];
	int r;

	if (!nonce_ok(nonce))
		return pawl_fail(err, PAWL_E_MALFORMED, "not a nonce: pawld's are %d hex digits", SIGN_NONCE);
	buf_puts(&text, SIGN_PREFIX);
	r = canonical(who, nonce, request, &text, err);
	if (r < 0)
		return r;
	sign_key_sign(who->key, buf_str(&text), sig);
	buf_add(out, text.p + prefix, text.n - prefix - 1);
	buf_key(out, "signature");
	buf_putc(out, '"');
	buf_hex(out, sig, sizeof(sig));
	buf_puts(out, "\"}");
	return buf_ok(out) ? 0 : pawl_fail(err, PAWL_E_NOMEM, "no memory for the request");
}

static int refused(const struct json *error, struct pawl_error *err)
{
	struct str code = json_string(json_get(error, "code")), field = json_string(json_get(error, "field"));
	struct str message = json_string(json_get(error, "message"));
	enum pawl_err kind = str_is(code, "replay_conflict")   ? PAWL_E_CONFLICT
			     : str_is(code, "unauthenticated") ? PAWL_E_AUTH
							       : PAWL_E_MALFORMED;

	if (code.n > 40)
		code.n = 40;
	if (field.n > 60)
		field.n = 60;
	return pawl_fail(err, kind, "pawld refuses: %.*s%s%.*s: %.*s", STR_ARG(code), field.n ? ", field " : "",
			 STR_ARG(field), STR_ARG(message));
}

int door_ask(const char *socket, struct str request, struct buf *raw, struct json **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf own = BUF_MAX(SIGN_MAX_REPLY);
	struct buf *text = raw ? raw : &own;
	struct json *reply = NULL;
	int r;

	buf_reset(text);
	r = sp_request(socket, request, TIMEOUT_MS, text, err);
	if (r < 0)
		return r;
	if (json_parse(buf_str(text), PAWL_MAX_DEPTH + 4, &reply, err) < 0)
		return pawl_fail(err, PAWL_E_MALFORMED, "what came back is no reply of pawld's");
	if (json_get(reply, "error")) {
		r = refused(json_get(reply, "error"), err);
		json_free(reply);
		return r;
	}
	*ret = reply;
	return 0;
}

int door_order(const char *socket, const struct signer *who, struct str request, struct buf *raw, struct json **ret,
	       struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf order = BUF_MAX(MAX_REQUEST);
	struct json *fresh = NULL;
	int r = door_ask(socket, STR("{\"v\":1,\"op\":\"nonce\"}"), NULL, &fresh, err);

	if (r == 0)
		r = sign_request(who, json_string(json_get(fresh, "nonce")), request, &order, err);
	json_free(fresh);
	return r < 0 ? r : door_ask(socket, buf_str(&order), raw, ret, err);
}
