/*
 * A libcuda.so.1 of ours with the calls that a copy needs, and a model of their time: a copy from
 * pageable memory is staged (a real memcpy) and then takes bytes / STUB_GB_S in all. Test use only.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long devptr;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void until(double end) {
  double left = end - seconds();
  if (left <= 0) return;
  struct timespec span = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&span, NULL);
}

static double rate(void) {
  const char *text = getenv("STUB_GB_S");
  double gb = text ? atof(text) : 0;
  return (gb > 0 ? gb : 6) * 1e9;
}

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuMemAlloc_v2(devptr *out, size_t size) { return (*out = (devptr)(size_t)malloc(size)) ? 0 : 2; }
int cuMemFree_v2(devptr at) { free((void *)(size_t)at); return 0; }
int cuMemcpyHtoD_v2(devptr to, const void *from, size_t size) {
  double end = seconds() + (double)size / rate();
  memcpy((void *)(size_t)to, from, size);
  until(end);
  return 0;
}
int cuMemcpyDtoH_v2(void *to, devptr from, size_t size) {
  double end = seconds() + (double)size / rate();
  memcpy(to, (void *)(size_t)from, size);
  until(end);
  return 0;
}
int cuCtxSynchronize(void) { return 0; }
