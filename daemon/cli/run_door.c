/* daemon/cli/run_door.c - `pawl run` at the watch door: one JSON object a packet. What comes back is input: looked at field by field, and
 * never shown with its control bytes. */
#include "daemon/cli/run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int try_connect(struct run *r)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	memcpy(to.sun_path, r->door_path, strlen(r->door_path) + 1);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0) {
		int e = errno;

		(void)close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

static int no_door(const struct run *r, struct pawl_error *err)
{
	if (errno == EACCES || errno == EPERM)
		return pawl_fail_errno(err, "the pawld of this folder is for its user and root (--dir DIR: another): %s", r->door_path);
	if (r->opt.policy)
		return pawl_fail_errno(err, "is pawld running? %s", r->door_path);
	return pawl_fail_errno(err, "is pawld running? `pawld` starts it, after `pawl init`; --policy FILE brings one for this run alone: %s", r->door_path);
}

int run_door_open(struct run *r, int64_t until_ms, struct pawl_error *err)
{
	int pause = 10;

	while ((r->door = try_connect(r)) < 0) {
		if ((errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN) || run_now_ms() >= until_ms)
			return no_door(r, err);
		(void)run_poll(r, pause);
		if (r->interrupted)
			return pawl_fail(err, PAWL_E_SYS, "interrupted");
		if (r->opt.policy && !r->own.keeper)
			return pawl_fail(err, PAWL_E_SYS, "it has ended");
		pause = pause < 200 ? pause * 2 : pause;
	}
	return 0;
}

void run_door_close(struct run *r)
{
	if (r->door >= 0)
		(void)close(r->door);
	r->door = -1;
}

static int send_packet(struct run *r, const struct buf *body, int pass, struct pawl_error *err)
{
	struct iovec iov = { body->p, body->n };
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { .room = { 0 } };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (!buf_ok(body))
		return pawl_fail(err, PAWL_E_LIMIT, "the request has more than %u bytes", RUN_MAX_PACKET);
	if (pass >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control.room;
		msg.msg_controllen = sizeof(control.room);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass, sizeof(int));
	}
	while (sendmsg(r->door, &msg, MSG_NOSIGNAL) < 0) {
		if (errno == EPIPE || errno == ECONNRESET)
			return 0; /* closed: what it said before that, or the end, is heard next */
		if (errno != EINTR)
			return pawl_fail_errno(err, "the watch door");
	}
	return 0;
}

static void number_or_text(struct buf *b, const char *value)
{
	size_t digits = strspn(value, "0123456789");

	if (*value && !value[digits] && digits < 19 && (digits == 1 || *value != '0'))
		buf_puts(b, value);
	else
		buf_json(b, str_of(value)); /* pawld says what is wrong with it */
}

static void put_limits(struct buf *b, const struct run_options *o)
{
	static const char *const names[] = { "money", "tokens", "calls", "time" };

	buf_key(b, "limits");
	buf_putc(b, '{');
	for (size_t i = 0; i < PAWL_LEN(names); i++) {
		if (!o->limits[i])
			continue;
		buf_key(b, names[i]);
		if (i == 1 || i == 2)
			number_or_text(b, o->limits[i]);
		else
			buf_json(b, str_of(o->limits[i]));
	}
	buf_putc(b, '}');
}

int run_door_ask(struct run *r, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(RUN_MAX_PACKET);
	const struct run_options *o = &r->opt;

	buf_puts(&b, "{\"v\":1,\"op\":\"run\",\"agent\":");
	buf_json(&b, str_of(o->agent));
	buf_puts(&b, ",\"root\":");
	buf_json(&b, str_of(o->root));
	buf_puts(&b, ",\"labels\":{");
	for (size_t i = 0; i < o->n_labels; i++) {
		const char *eq = strchr(o->labels[i], '=');

		if (i)
			buf_putc(&b, ',');
		buf_json(&b, (struct str){ o->labels[i], (size_t)(eq - o->labels[i]) });
		buf_putc(&b, ':');
		buf_json(&b, str_of(eq + 1));
	}
	buf_putc(&b, '}');
	put_limits(&b, o);
	buf_printf(&b, ",\"allow_degraded\":%s}", o->degraded ? "true" : "false");
	return send_packet(r, &b, r->child.pidfd, err);
}

int run_door_tell(struct run *r, const char *op, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(1024);

	buf_printf(&b, "{\"v\":1,\"op\":\"%s\",\"session\":\"%s\",\"token\":\"%s\"", op, r->session, r->token);
	if (str_is(str_of(op), "exited"))
		buf_printf(&b, ",\"status\":%d", r->status);
	buf_putc(&b, '}');
	return send_packet(r, &b, -1, err);
}

int run_door_hear(struct run *r, struct json **ret, struct pawl_error *err)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(RUN_MAX_PACKET + 1);
	char *room = buf_room(&b, RUN_MAX_PACKET);
	int reset = 0;
	ssize_t n;

	if (!room)
		return pawl_fail(err, PAWL_E_NOMEM, "out of memory");
	do
		n = recv(r->door, room, RUN_MAX_PACKET, MSG_TRUNC);
	while (n < 0 && (errno == EINTR || (errno == ECONNRESET && !reset++))); /* it closed with our word unread; its own is still there */
	if (n < 0)
		return pawl_fail_errno(err, "the watch door");
	if (n == 0)
		return pawl_fail(err, PAWL_E_INCOMPLETE, "pawld closed the watch door");
	if (n > (ssize_t)RUN_MAX_PACKET)
		return pawl_fail(err, PAWL_E_LIMIT, "a packet of pawld has %zd bytes, and may have %u", n, RUN_MAX_PACKET);
	return json_parse((struct str){ room, (size_t)n }, PAWL_MAX_DEPTH, ret, err);
}

/* ---- the answer ---- */

static int bad(struct pawl_error *err, const char *what)
{
	return pawl_fail(err, PAWL_E_MALFORMED, "pawld's answer cannot be read: %s", what);
}

static bool is(const struct json *j, enum json_kind kind)
{
	return j && json_kind(j) == kind;
}

/* A text without NUL in it (the parser sees to that), put where it fits. */
static bool text_into(const struct json *j, char *out, size_t size)
{
	struct str s = json_string(j);

	if (s.n == 0 || s.n >= size)
		return false;
	memcpy(out, s.p, s.n);
	out[s.n] = '\0';
	return true;
}

static bool only(const char *text, const char *set)
{
	return text[strspn(text, set)] == '\0';
}

/* jansson ends its texts with NUL, so they can be borrowed as they are. */
static int paths(const struct json *arr, const char **out, uint32_t *ret_n, const char *what, struct pawl_error *err)
{
	size_t n = json_size(arr);

	if (!is(arr, JSON_KIND_ARRAY) || n > LAUNCH_MAX_PATHS)
		return bad(err, what);
	for (size_t i = 0; i < n; i++) {
		struct str s = json_string(json_at(arr, i));

		if (s.n == 0 || s.p[0] != '/' || s.n >= PATH_MAX)
			return bad(err, what);
		out[i] = s.p;
	}
	*ret_n = (uint32_t)n;
	return 0;
}

static bool seconds(const struct json *j, uint64_t *ret)
{
	static const struct {
		const char *unit;
		uint64_t s;
	} units[] = { { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
	struct str s = json_string(j);
	uint64_t n = 0;
	size_t i = 0;

	if (is(j, JSON_KIND_INT) && json_int(j) > 0) {
		*ret = (uint64_t)json_int(j);
		return true;
	}
	for (; i < s.n && i < 12 && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		n = n * 10 + (uint64_t)(s.p[i] - '0');
	if (i == 0 || n == 0)
		return false;
	if (s.n - i == 2 && memcmp(s.p + i, "ms", 2) == 0) {
		*ret = (n + 999) / 1000; /* the kernel counts whole seconds */
		return true;
	}
	for (size_t u = 0; u < PAWL_LEN(units) && s.n - i == 1; u++) {
		if (s.p[i] == units[u].unit[0]) {
			*ret = n * units[u].s;
			return true;
		}
	}
	return false;
}

static int rlimits(const struct json *lim, struct launch_head *h, struct pawl_error *err)
{
	const struct json *cpu = json_get(lim, "cpu"), *memory = json_get(lim, "memory"), *processes = json_get(lim, "processes");

	if (cpu && !is(cpu, JSON_KIND_NULL) && !seconds(cpu, &h->cpu_s))
		return bad(err, "launch.rlimits.cpu");
	if (json_int(memory) < 0 || json_int(processes) < 0)
		return bad(err, "launch.rlimits");
	h->memory = (uint64_t)json_int(memory);
	h->processes = (uint64_t)json_int(processes);
	return 0;
}

/* What does not hold is said before the command's own first line. */
static void say_missing(const struct run *r, const struct json *watch)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(2048);
	const struct json *missing = json_get(watch, "missing");
	struct str message = json_string(json_get(watch, "message"));

	for (size_t i = 0; i < json_size(missing); i++) {
		struct str s = json_string(json_at(missing, i));

		buf_printf(&b, "%s%.*s", i ? ", " : "", STR_ARG(s));
	}
	buf_putc(&b, '\0');
	if (!r->opt.quiet && json_size(missing) && buf_ok(&b))
		run_say("not held here: %s%s%.*s (`pawl doctor` says how to get it)", b.p, message.n ? ": " : "", STR_ARG(message));
}

static int refused(const struct json *error, struct pawl_error *err)
{
	struct str code = json_string(json_get(error, "code")), message = json_string(json_get(error, "message"));
	const struct json *missing = json_get(error, "missing");

	for (size_t i = 0; i < json_size(missing); i++)
		run_say("cannot hold %.*s", STR_ARG(json_string(json_at(missing, i))));
	if (str_is(code, "watch_required"))
		(void)pawl_fail(err, PAWL_E_LIMIT, "%.*s [watch_required]; `pawl doctor` says what is missing and how to get it, --allow-degraded runs "
				"without", STR_ARG(message));
	else
		(void)pawl_fail(err, PAWL_E_AUTH, "refused: %.*s [%.*s]", STR_ARG(message), STR_ARG(code));
	return err->code;
}

int run_door_rules(struct run *r, const struct json *reply, struct launch_rules *rules, struct pawl_error *err)
{
	const struct json *launch = json_get(reply, "launch"), *writes = json_get(launch, "writes_under"), *lim = json_get(launch, "rlimits");
	int got = 0;

	if (json_get(reply, "error"))
		return refused(json_get(reply, "error"), err);
	if (!str_is(json_string(json_get(reply, "op")), "run") || !is(launch, JSON_KIND_OBJECT))
		return bad(err, "op, launch");
	if (!text_into(json_get(reply, "session"), r->session, sizeof(r->session)) || !only(r->session, "s_0123456789") ||
	    !text_into(json_get(reply, "token"), r->token, sizeof(r->token)) || !only(r->token, "0123456789abcdef"))
		return bad(err, "session, token");
	if (!text_into(json_get(launch, "agent_socket"), r->agent_socket, sizeof(r->agent_socket)) || r->agent_socket[0] != '/')
		return bad(err, "launch.agent_socket");
	rules->agent_socket = r->agent_socket;
	got = paths(json_get(launch, "hide"), rules->hide, &rules->head.n_hide, "launch.hide", err);
	if (got == 0 && !writes)
		return bad(err, "launch.writes_under");
	if (got == 0 && !is(writes, JSON_KIND_NULL)) {
		rules->head.flags |= LAUNCH_WRITES;
		got = paths(writes, rules->writes, &rules->head.n_writes, "launch.writes_under", err);
	}
	if (got == 0 && lim && !is(lim, JSON_KIND_NULL))
		got = rlimits(lim, &rules->head, err);
	if (got == 0)
		say_missing(r, json_get(reply, "watch"));
	r->watched = !str_is(json_string(json_get(json_get(reply, "watch"), "state")), "off");
	return got;
}

/* ---- news ---- */

static void put_number(struct buf *b, struct str why, const struct json *v)
{
	bool time = str_is(why, "cpu") || str_is(why, "wall");

	if (is(v, JSON_KIND_STRING))
		buf_str_add(b, json_string(v));
	else if (time)
		buf_printf(b, "%.3gs", (double)json_int(v) / 1e9);
	else
		buf_i64(b, json_int(v));
}

static void say_ended(const struct run *r, const struct json *p)
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(1024);
	struct str why = json_string(json_get(p, "why"));
	const struct json *measured = json_get(p, "measured"), *limit = json_get(p, "limit");
	long long n = (long long)json_int(json_get(p, "killed"));

	if (str_is(why, "ended")) { /* by itself; what it left behind is worth a word */
		if (n > 0 && !r->opt.quiet)
			(void)fprintf(stderr, "pawl: %s: %lld process%s that the command had left ended\n", r->session, n, n == 1 ? "" : "es");
		return;
	}
	buf_printf(&b, "%.*s", STR_ARG(why));
	if (json_int(limit) > 0 || json_string(limit).n) {
		buf_putc(&b, ' ');
		put_number(&b, why, measured);
		buf_puts(&b, ", limit ");
		put_number(&b, why, limit);
	}
	buf_putc(&b, '\0');
	for (char *c = b.p; buf_ok(&b) && *c; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
			*c = '?';
	if (buf_ok(&b))
		(void)fprintf(stderr, "pawl: stopped %s: %s (%lld process%s ended)\n", r->session, b.p, n, n == 1 ? "" : "es");
}

void run_door_news(struct run *r, const struct json *packet)
{
	struct str op = json_string(json_get(packet, "op"));
	const struct json *error = json_get(packet, "error");

	if (!error && !str_is(json_string(json_get(packet, "session")), r->session))
		return;
	if (str_is(op, "ended") && !r->said_ended) {
		r->said_ended = true;
		say_ended(r, packet);
	} else if (!error && str_is(op, "exited")) {
		r->said_exited = true;
	} else if (error && str_is(json_string(json_get(error, "code")), "unavailable")) {
		run_door_lost(r); /* asked again in a moment */
	} else if (error && (str_is(op, "rejoin") || str_is(op, "exited"))) {
		r->lost = true; /* it was ended and closed while we were away */
		if (!r->over || str_is(op, "rejoin")) /* a command that ends before the answer is there must not hide it */
			run_say("pawld does not take %s back: %.*s", r->session, STR_ARG(json_string(json_get(error, "message"))));
	}
}
