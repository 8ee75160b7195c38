/* policy/civil.h - the Gregorian calendar, as far as windows and time zones need it. Pure. */
#ifndef PAWL_CIVIL_H
#define PAWL_CIVIL_H
#include <stdint.h>

#define HOUR_S INT64_C(3600)
#define DAY_S  INT64_C(86400)

/* Days from 1970-01-01 to the first of the month; month 0..11, or beyond it into the next years. year >= 1. */
int64_t civil_month_start(int64_t year, int64_t month);
/* The year and month (0..11) of a day; from year 1 on. */
void civil_of_day(int64_t day, int64_t *ret_year, int64_t *ret_month);
int64_t floor_div(int64_t a, int64_t b); /* b > 0; rounds down also below 0 */

#endif
