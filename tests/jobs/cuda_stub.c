/*
 * A libcuda.so.1 of ours with the calls that copies and `cuda.py` need, and a model of their time: a copy
 * from pageable memory is staged (a real memcpy) and then takes bytes / STUB_GB_S in all; a kernel takes
 * the nanoseconds that are its only argument, beside the caller. Test use only.
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

/* When the work that was launched is done. */
static double done;

int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDeviceGet(int *out, int ordinal) { *out = ordinal; return 0; }
int cuCtxCreate_v2(void **out, unsigned flags, int device) { (void)flags; (void)device; *out = &done; return 0; }
int cuModuleLoadData(void **out, const void *image) { (void)image; *out = &done; return 0; }
int cuModuleGetFunction(void **out, void *module, const char *name) { (void)module; (void)name; *out = &done; return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **args, void **extra) {
  (void)function; (void)gx; (void)gy; (void)gz; (void)bx; (void)by; (void)bz; (void)shared; (void)stream; (void)extra;
  double now = seconds();
  done = (done > now ? done : now) + (double)*(unsigned long long *)args[0] / 1e9;
  return 0;
}
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
int cuCtxSynchronize(void) { until(done); return 0; }
