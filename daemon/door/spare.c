/* daemon/door/spare.c - see spare.h. */
#include "daemon/door/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

void spare_keep(int listener, int *spare)
{
	if (*spare < 0)
		*spare = fcntl(listener, F_DUPFD_CLOEXEC, 0);
}

int spare_accept(int listener, int *spare)
{
	if (*spare < 0) {
		errno = EMFILE;
		return -1;
	}
	(void)close(*spare);
	*spare = -1;
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}
