/* daemon/door/spare.h - a descriptor that a door keeps for the day on which there are none: given up, it lets one connection be taken and
 * told, or cut off, that would else be heard of again at once, for ever. */
#ifndef PAWL_SPARE_H
#define PAWL_SPARE_H

/* Into *spare (-1: none is there): a copy of the listener, or still -1. */
void spare_keep(int listener, int *spare);
/* In its place a connection that waits, which the caller closes before the next spare_keep(). -1 with errno: nobody waits, or no spare is there. */
int spare_accept(int listener, int *spare);
#endif
