/* tests/bench/load.c - the load generator: N clients in one process, each with one request in flight, over libnanomsg
 * REQ sockets. One thread waits with epoll on the sockets' NN_RCVFD, so that its own part of the two cores is small; it
 * prints how much it was. Owns its sockets. Speaks docs/wire.md by template: hello, session.open, then decide with a
 * fresh call id and fresh arguments each. Against the floor (--floor) the same bytes are sent, with a session that
 * nobody looks at. With --sessions each client opens one session after the other, makes its calls there, settles them and
 * leaves it open: it fills a pawld. Prints one line of JSON. Any answer but `allow` ends the run with status 1: a benchmark
 * of refusals measures nothing. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <nanomsg/nn.h>
#include <nanomsg/reqrep.h>

#define CLIENTS_MAX 512
#define SAMPLES_MAX (8u << 20)

struct client {
	int sock;
	int64_t sent_ns;
	uint64_t calls;
	unsigned step; /* --sessions: of this session, 0 = being opened, odd = being asked for, even = being settled */
	char id[33];   /* `client` of a decide */
	char session[40], token[80], decision[40];
};

struct load {
	const char *url;
	bool floor_mode, filling;
	uint64_t sessions_left, sessions_open; /* --sessions: to be begun; begun and not through */
	unsigned calls;                        /* of each */
	int n_clients, epoll;
	double seconds, warm;
	struct client clients[CLIENTS_MAX];
	uint32_t *samples; /* ns, capped at 4 s */
	size_t n_samples;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
	       ((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static void die(const char *what, const char *more, int n)
{
	fprintf(stderr, "load: %s: %.*s\n", what, n, more);
	exit(1);
}

static void die_nn(const char *what)
{
	die(what, nn_strerror(nn_errno()), 200);
}

/* Copies the text value of "key" in a reply that pawld rendered. Only for our own setup; a real client parses JSON. */
static void text_field(const char *reply, int n, const char *key, char *out, size_t out_n)
{
	char want[64];
	int k = snprintf(want, sizeof(want), "\"%s\":\"", key);
	const char *p = memmem(reply, (size_t)n, want, (size_t)k);
	const char *end = p ? memchr(p + k, '"', (size_t)(reply + n - p - k)) : NULL;

	if (!end || (size_t)(end - p - k) >= out_n)
		die(key, reply, n);
	memcpy(out, p + k, (size_t)(end - p - k));
	out[end - p - k] = 0;
}

static int ask(struct client *c, const char *body, char **ret)
{
	int n;

	if (nn_send(c->sock, body, strlen(body), 0) < 0)
		die_nn("nn_send");
	n = nn_recv(c->sock, ret, NN_MSG, 0);
	if (n < 0)
		die_nn("nn_recv");
	return n;
}

static void client_open(struct load *l, struct client *c, int number)
{
	int never = INT_MAX /* ms; -1 aborts in nanomsg 1.1.5: its timer asserts timeout >= 0 */, fast = 5,
	    wait_ms = 10000, n;
	char *reply;

	c->sock = nn_socket(AF_SP, NN_REQ);
	if (c->sock < 0 || nn_setsockopt(c->sock, NN_REQ, NN_REQ_RESEND_IVL, &never, sizeof(never)) != 0 ||
	    nn_setsockopt(c->sock, NN_SOL_SOCKET, NN_RECONNECT_IVL, &fast, sizeof(fast)) != 0 ||
	    nn_setsockopt(c->sock, NN_SOL_SOCKET, NN_RCVTIMEO, &wait_ms, sizeof(wait_ms)) != 0 ||
	    nn_connect(c->sock, l->url) < 0)
		die_nn(l->url);
	snprintf(c->id, sizeof(c->id), "%016" PRIx64 "%016x", (uint64_t)now_ns() ^ (uint64_t)getpid() << 40,
		 (unsigned)number);
	if (l->floor_mode) {
		snprintf(c->session, sizeof(c->session), "s_%d", 1 + number);
		memset(c->token, 'a', 64);
	}
	n = ask(c, "{\"v\":1,\"op\":\"hello\"}", &reply);
	if (n == 0 || memmem(reply, (size_t)n, "\"error\"", 7))
		die("hello", reply, n);
	nn_freemsg(reply);
	if (!l->floor_mode && !l->filling) {
		n = ask(c, "{\"v\":1,\"op\":\"session.open\",\"agent\":\"local\",\"labels\":{\"run\":\"bench\"}}",
			&reply);
		text_field(reply, n, "session", c->session, sizeof(c->session));
		text_field(reply, n, "token", c->token, sizeof(c->token));
		nn_freemsg(reply);
	}
}

static void client_watch(struct load *l, struct client *c)
{
	int fd;
	size_t size = sizeof(fd);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };

	if (nn_getsockopt(c->sock, NN_SOL_SOCKET, NN_RCVFD, &fd, &size) != 0 ||
	    epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
		die_nn("NN_RCVFD");
}

static void client_send(struct client *c)
{
	char body[1024];
	int n = snprintf(
	    body, sizeof(body),
	    "{\"v\":1,\"op\":\"decide\",\"session\":\"%s\",\"token\":\"%s\",\"client\":\"%s\",\"call\":\"c-%" PRIu64
	    "\",\"kind\":\"tool\",\"tool\":\"web.search\",\"args\":{\"q\":\"how to bound a queue that a peer can "
	    "grow\",\"page\":%" PRIu64
	    ",\"lang\":\"en\",\"safe\":true},\"estimate\":{\"money\":\"0.000002\",\"tokens\":12}}",
	    c->session, c->token, c->id, c->calls, c->calls);

	c->calls++;
	c->sent_ns = now_ns();
	if (nn_send(c->sock, body, (size_t)n, 0) < 0)
		die_nn("nn_send");
}

/* One answer, then the next question. */
static void client_turn(struct load *l, struct client *c, bool keep)
{
	char *reply;
	int n = nn_recv(c->sock, &reply, NN_MSG, NN_DONTWAIT);
	int64_t took;

	if (n < 0) {
		if (nn_errno() == EAGAIN)
			return;
		die_nn("nn_recv");
	}
	took = now_ns() - c->sent_ns;
	if (!memmem(reply, (size_t)n, "\"verdict\":\"allow\"", 17))
		die("not an allow", reply, n);
	nn_freemsg(reply);
	if (keep && l->n_samples < SAMPLES_MAX)
		l->samples[l->n_samples++] = took > 4000000000 ? 4000000000u : (uint32_t)took;
	client_send(c);
}

static void run_until(struct load *l, int64_t end, bool keep)
{
	struct epoll_event ev[64];

	while (now_ns() < end) {
		int n = epoll_wait(l->epoll, ev, 64, 5000);

		if (n == 0)
			die("no answer for 5 s", "", 0);
		for (int i = 0; i < n; i++)
			client_turn(l, ev[i].data.ptr, keep);
	}
}

/* ---- --sessions ---- */

static void send_open(struct load *l, struct client *c)
{
	static const char body[] = "{\"v\":1,\"op\":\"session.open\",\"agent\":\"local\",\"labels\":{\"run\":\"bench\"}}";

	if (l->sessions_left == 0)
		return;
	l->sessions_left--;
	l->sessions_open++;
	c->step = 0;
	if (nn_send(c->sock, body, sizeof(body) - 1, 0) < 0)
		die_nn("nn_send");
}

static void send_settle(struct client *c)
{
	char body[768];
	int n = snprintf(body, sizeof(body),
			 "{\"v\":1,\"op\":\"settle\",\"session\":\"%s\",\"token\":\"%s\",\"decision\":\"%s\",\"outcome\":\"ok\","
			 "\"cost\":{\"money\":\"0.0000015\",\"tokens\":11},\"result\":{\"bytes\":4096,\"sha256\":\"%064" PRIx64 "\"}}",
			 c->session, c->token, c->decision, c->calls);

	if (nn_send(c->sock, body, (size_t)n, 0) < 0)
		die_nn("nn_send");
}

static void fill_turn(struct load *l, struct client *c)
{
	char *reply;
	int n = nn_recv(c->sock, &reply, NN_MSG, NN_DONTWAIT);

	if (n < 0) {
		if (nn_errno() == EAGAIN)
			return;
		die_nn("nn_recv");
	}
	if (memmem(reply, (size_t)n, "\"error\"", 7) || (c->step % 2 && !memmem(reply, (size_t)n, "\"verdict\":\"allow\"", 17)))
		die("not an allow", reply, n);
	if (c->step == 0) {
		text_field(reply, n, "session", c->session, sizeof(c->session));
		text_field(reply, n, "token", c->token, sizeof(c->token));
	} else if (c->step % 2) {
		text_field(reply, n, "decision", c->decision, sizeof(c->decision));
	}
	nn_freemsg(reply);
	if (c->step == 2 * l->calls) {
		l->sessions_open--;
		send_open(l, c);
	} else if (c->step++ % 2) {
		send_settle(c);
	} else {
		client_send(c);
	}
}

static void fill(struct load *l)
{
	struct epoll_event ev[64];
	int64_t t = now_ns();
	uint64_t all = l->sessions_left;

	for (int i = 0; i < l->n_clients; i++)
		send_open(l, &l->clients[i]);
	while (l->sessions_open) {
		int n = epoll_wait(l->epoll, ev, 64, 5000);

		if (n == 0)
			die("no answer for 5 s", "", 0);
		for (int i = 0; i < n; i++)
			fill_turn(l, ev[i].data.ptr);
	}
	printf("{\"sessions\":%" PRIu64 ",\"calls\":%u,\"seconds\":%.2f}\n", all, l->calls, (double)(now_ns() - t) / 1e9);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static double at(const struct load *l, double q)
{
	size_t i = (size_t)(q * (double)(l->n_samples - 1) + 0.5);

	return (double)l->samples[i] / 1000.0;
}

static void report(struct load *l, int64_t wall, int64_t cpu)
{
	if (l->n_samples == 0)
		die("no sample", "", 0);
	qsort(l->samples, l->n_samples, sizeof(l->samples[0]), by_value);
	printf("{\"clients\":%d,\"answers\":%zu,\"per_second\":%.1f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f,"
	       "\"own_cpu_us\":%.2f,\"own_cpu_share\":%.3f}\n",
	       l->n_clients, l->n_samples, (double)l->n_samples * 1e9 / (double)wall, at(l, 0.5), at(l, 0.99),
	       at(l, 1.0), (double)cpu / 1000.0 / (double)l->n_samples, (double)cpu / (double)wall);
}

int main(int argc, char **argv)
{
	static struct load l;
	char url[160];
	int64_t t, cpu;

	l.filling = argc == 6 && strcmp(argv[1], "--sessions") == 0;
	if (argc != 6 || (!l.filling && strcmp(argv[1], "--floor") != 0 && strcmp(argv[1], "--pawld") != 0)) {
		fprintf(stderr, "usage: load --floor|--pawld SOCKET CLIENTS SECONDS WARM_SECONDS\n"
				"       load --sessions SOCKET CLIENTS SESSIONS CALLS\n");
		return 2;
	}
	snprintf(url, sizeof(url), "ipc://%s", argv[2]);
	l.url = url;
	l.floor_mode = strcmp(argv[1], "--floor") == 0;
	l.n_clients = (int)strtol(argv[3], NULL, 10);
	l.seconds = strtod(argv[4], NULL);
	l.warm = strtod(argv[5], NULL);
	l.samples = malloc(SAMPLES_MAX * sizeof(l.samples[0]));
	l.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l.n_clients < 1 || l.n_clients > CLIENTS_MAX || !l.samples || l.epoll < 0)
		die("arguments", argv[3], 20);
	memset(l.samples, 0, SAMPLES_MAX * sizeof(l.samples[0]) / 8); /* page faults before the clock runs */

	for (int i = 0; i < l.n_clients; i++)
		client_open(&l, &l.clients[i], i);
	for (int i = 0; i < l.n_clients; i++)
		client_watch(&l, &l.clients[i]);
	if (l.filling) {
		l.sessions_left = strtoull(argv[4], NULL, 10);
		l.calls = (unsigned)strtoul(argv[5], NULL, 10);
		fill(&l);
		return 0;
	}
	for (int i = 0; i < l.n_clients; i++)
		client_send(&l.clients[i]);
	run_until(&l, now_ns() + (int64_t)(l.warm * 1e9), false);
	t = now_ns();
	cpu = cpu_ns();
	run_until(&l, t + (int64_t)(l.seconds * 1e9), true);
	cpu = cpu_ns() - cpu;
	report(&l, now_ns() - t, cpu);
	return 0;
}
