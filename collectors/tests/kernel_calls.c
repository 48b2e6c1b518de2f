/* A program that opens the stub driver library as a runtime does, says `ready`, and on a line makes
 * its calls and says how many nanoseconds each kind took by its own clock; `launch` is 300 launches. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

typedef int (*call)(void *, void *, unsigned long);

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long long repeat(void *library, const char *name, int times, unsigned long size)
{
	call function = (call)dlsym(library, name);
	long long begin = now();
	for (int i = 0; i < times; i++)
		function(0, 0, size);
	return now() - begin;
}

int main(int count, char **arguments)
{
	char line[16];
	void *library = dlopen(arguments[count - 1], RTLD_NOW);
	if (!library)
		return 1;
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (line[0] == 'l') {
			printf("%lld\n", repeat(library, "cuLaunchKernel", 300, 0));
			fflush(stdout);
			continue;
		}
		printf("%lld", repeat(library, "cuMemcpyHtoD_v2", 20, 65536));
		printf(" %lld", repeat(library, "cuStreamSynchronize", 10, 0));
		printf(" %lld", repeat(library, "cuLaunchKernel", 300, 0));
		/* It synchronises inside: one call, not two. */
		printf(" %lld\n", repeat(library, "cuMemcpyDtoH_v2", 5, 4096));
		fflush(stdout);
	}
	return 0;
}
