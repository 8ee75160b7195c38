/* daemon/watch/guard_object.c - the object of hooks/bpf/guard.bpf.c, as bytes inside pawld: nothing is looked for on disk at run time, so
 * nobody can put other programs there. */
#include "daemon/watch/guard_int.h"

const unsigned char guard_object[] __attribute__((aligned(16))) = {
#include "guard_bpf.h"
};
const size_t guard_object_size = sizeof(guard_object);

uint64_t guard_object_digest(void) /* FNV-1a: tells two builds apart, and is no secret and no seal */
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(guard_object); i++)
		h = (h ^ guard_object[i]) * UINT64_C(0x100000001b3);
	return h;
}
