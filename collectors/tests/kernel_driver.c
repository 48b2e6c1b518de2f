/* A stub of the driver library: calls that take a time and do nothing. */
#include <time.h>

static void sleep_ms(long ms)
{
	struct timespec t = { 0, ms * 1000000L };
	nanosleep(&t, 0);
}

int cuMemcpyHtoD_v2(void *to, void *from, unsigned long size)
{
	sleep_ms(5);
	return to != from || size == 0;
}

int cuStreamSynchronize(void *stream)
{
	sleep_ms(2);
	return stream != 0;
}

int cuLaunchKernel(void *function)
{
	return function != 0;
}

int cuMemcpyDtoH_v2(void *to, void *from, unsigned long size)
{
	int (*volatile inner)(void *) = cuStreamSynchronize;
	return inner(to == from ? 0 : to) + (size == 0);
}
