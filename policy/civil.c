/* policy/civil.c - see civil.h. */
#include "policy/civil.h"

#include <stdbool.h>

#define DAYS_TO_1970 719162 /* from the first day of year 1 */

int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static bool leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t year_start(int64_t year)
{
	int64_t past = year - 1;

	return past * 365 + past / 4 - past / 100 + past / 400 - DAYS_TO_1970;
}

int64_t civil_month_start(int64_t year, int64_t month)
{
	static const int16_t before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };

	year += month / 12;
	month %= 12;
	return year_start(year) + before[month] + (month > 1 && leap(year));
}

void civil_of_day(int64_t day, int64_t *ret_year, int64_t *ret_month)
{
	int64_t year = floor_div((day + DAYS_TO_1970) * 400, 146097) + 1, month = 11; /* at most one off */

	while (year_start(year + 1) <= day)
		year++;
	while (year_start(year) > day)
		year--;
	while (civil_month_start(year, month) > day)
		month--;
	*ret_year = year;
	*ret_month = month;
}
