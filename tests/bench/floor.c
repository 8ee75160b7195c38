/* tests/bench/floor.c - what pawld is measured against: the least that any server with pawld's promise must do. It
 * takes a request off a raw nanomsg REP socket, signs some 600 bytes with Ed25519, has them on disk, and then sends
 * some 900 bytes back. It parses nothing, judges nothing and remembers nothing. Owns its socket, its journal file (made
 * new, preallocated) and a throw-away key. Must not use any of pawl's code: a floor that shares the building's bricks
 * would sink with it.
 *
 * Two shapes, the same batch rule (all that is queued goes into one pwrite and one fdatasync; what arrives meanwhile
 * waits for the next):
 *   --threads 2   a receiver and a committer that signs, syncs and replies
 *   --threads 1   receive all that is there, sign, write, sync, reply */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <nanomsg/nn.h>
#include <nanomsg/reqrep.h>
#include <sodium.h>

#define QUEUE_MAX    4096
#define TEXT_BYTES   600 /* what is signed: about an entry's five lines */
#define RECORD_BYTES 708 /* with the signature line */
#define REPLY_BYTES  900
#define RCVMAX       ((1 << 20) + (64 << 10))
#define PREALLOC     ((off_t)1 << 30)

struct waiting {       /* a request that has no answer yet: only where to send it matters */
	void *control; /* nn_allocmsg'd */
};

struct floor_server {
	int sock, journal;
	off_t at;
	uint64_t seq;
	unsigned char key[crypto_sign_SECRETKEYBYTES];
	char text[TEXT_BYTES], reply[REPLY_BYTES];
	char *batch; /* QUEUE_MAX records */
	pthread_mutex_t lock;
	pthread_cond_t some, room;
	struct waiting queue[QUEUE_MAX];
	size_t queued;
};

static void die(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, nn_strerror(nn_errno()));
	_exit(1);
}

/* false: nothing there (only with NN_DONTWAIT). The body is looked at by nobody. */
static bool receive(struct floor_server *f, int flags, struct waiting *ret)
{
	void *body = NULL, *control = NULL;
	struct nn_iovec iov = { .iov_base = &body, .iov_len = NN_MSG };
	struct nn_msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = NN_MSG };

	if (nn_recvmsg(f->sock, &hdr, flags) < 0) {
		if (nn_errno() == EAGAIN || nn_errno() == EINTR)
			return false;
		die("nn_recvmsg");
	}
	nn_freemsg(body);
	ret->control = control;
	return true;
}

static void answer(struct floor_server *f, struct waiting *w)
{
	struct nn_iovec iov = { .iov_base = f->reply, .iov_len = sizeof(f->reply) };
	struct nn_msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &w->control, .msg_controllen = NN_MSG
	};

	if (nn_sendmsg(f->sock, &hdr, NN_DONTWAIT) < 0 && nn_errno() != EAGAIN && nn_errno() != EHOSTUNREACH)
		die("nn_sendmsg");
	/* nn_sendmsg() has taken the control buffer when it succeeds */
}

static void sign_one(struct floor_server *f, char *record)
{
	unsigned char sig[crypto_sign_BYTES];

	memcpy(record, f->text, TEXT_BYTES);
	/* the sequence differs in each, so no two texts are equal */
	snprintf(record, 24, "%020llu", (unsigned long long)f->seq++);
	record[20] = '\n';
	crypto_sign_detached(sig, NULL, (const unsigned char *)record, TEXT_BYTES, f->key);
	memset(record + TEXT_BYTES, '-', RECORD_BYTES - TEXT_BYTES);
	sodium_bin2base64(record + TEXT_BYTES + 4, RECORD_BYTES - TEXT_BYTES - 4, sig, sizeof(sig),
			  sodium_base64_VARIANT_ORIGINAL);
}

static void commit(struct floor_server *f, struct waiting *batch, size_t n)
{
	size_t bytes = n * RECORD_BYTES;

	for (size_t i = 0; i < n; i++)
		sign_one(f, f->batch + i * RECORD_BYTES);
	if (pwrite(f->journal, f->batch, bytes, f->at) != (ssize_t)bytes)
		die("pwrite");
	if (fdatasync(f->journal) != 0)
		die("fdatasync");
	f->at += (off_t)bytes;
	if (f->at > PREALLOC - (off_t)(QUEUE_MAX * RECORD_BYTES))
		die("the preallocated journal is used up: a shorter run, please");
	for (size_t i = 0; i < n; i++)
		answer(f, &batch[i]);
}

static void *committer(void *arg)
{
	struct floor_server *f = arg;
	static struct waiting batch[QUEUE_MAX];

	for (;;) {
		pthread_mutex_lock(&f->lock);
		while (f->queued == 0)
			pthread_cond_wait(&f->some, &f->lock);
		size_t n = f->queued;
		memcpy(batch, f->queue, n * sizeof(batch[0]));
		f->queued = 0;
		pthread_cond_signal(&f->room);
		pthread_mutex_unlock(&f->lock);
		commit(f, batch, n);
	}
	return NULL;
}

static void receiver(struct floor_server *f)
{
	struct waiting w;

	for (;;) {
		if (!receive(f, 0, &w))
			continue;
		pthread_mutex_lock(&f->lock);
		while (f->queued == QUEUE_MAX)
			pthread_cond_wait(&f->room, &f->lock);
		f->queue[f->queued++] = w;
		pthread_cond_signal(&f->some);
		pthread_mutex_unlock(&f->lock);
	}
}

static void alone(struct floor_server *f)
{
	for (;;) {
		size_t n = 0;

		while (n < QUEUE_MAX && receive(f, n ? NN_DONTWAIT : 0, &f->queue[n]))
			n++;
		if (n)
			commit(f, f->queue, n);
	}
}

static void start(struct floor_server *f, const char *path, const char *journal)
{
	unsigned char pub[crypto_sign_PUBLICKEYBYTES];
	char url[160];
	int max = RCVMAX;

	snprintf(url, sizeof(url), "ipc://%s", path);
	memset(f->text, 'e', sizeof(f->text));
	memset(f->reply, ' ', sizeof(f->reply));
	/* enough for the generator to see the one word it looks for */
	memcpy(f->reply, "{\"v\":1,\"op\":\"decide\",\"verdict\":\"allow\"}", 39);
	crypto_sign_keypair(pub, f->key);
	f->batch = malloc((size_t)QUEUE_MAX * RECORD_BYTES);
	f->journal = open(journal, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	if (!f->batch || f->journal < 0 || posix_fallocate(f->journal, 0, PREALLOC) != 0 || fsync(f->journal) != 0)
		die(journal);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->some, NULL);
	pthread_cond_init(&f->room, NULL);
	f->sock = nn_socket(AF_SP_RAW, NN_REP);
	if (f->sock < 0 || nn_setsockopt(f->sock, NN_SOL_SOCKET, NN_RCVMAXSIZE, &max, sizeof(max)) != 0 ||
	    nn_bind(f->sock, url) < 0)
		die(url);
	fprintf(stderr, "floor: ready: %s\n", path);
}

int main(int argc, char **argv)
{
	static struct floor_server f; /* half a megabyte of queue: not for the stack */
	pthread_t thread;

	signal(SIGTERM, SIG_DFL);
	if (argc != 5 || strcmp(argv[1], "--threads") != 0 || sodium_init() < 0) {
		fprintf(stderr, "usage: floor --threads 1|2 SOCKET JOURNAL\n");
		return 2;
	}
	start(&f, argv[3], argv[4]);
	if (argv[2][0] == '1')
		alone(&f);
	if (pthread_create(&thread, NULL, committer, &f) != 0)
		die("pthread_create");
	receiver(&f);
	return 0;
}
