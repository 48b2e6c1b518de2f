/*
 * A management library that plays recorded readings: the part of NVML that Feedline calls, over
 * the file `readings` beside this library. The file is read anew at each call, so that a test can
 * change the machine while it is watched.
 *
 * A line is `KEY VALUE…`. A key that is not there answers NOT_SUPPORTED, a value `error N` answers
 * with that code, and a line `DEVICE.lost 15` answers every call to the device with 15. With
 * -DOLD_DRIVER the calls that came with later drivers are left out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7 };

typedef unsigned int uint;
typedef unsigned long long ull;
typedef void *device;

/* A handle is a number: the device's index + 1, and for a MIG slot 1000 times the slot + 1 more. */
static device handle_of(uint index, uint slot) { return (device)(size_t)(index + 1 + 1000 * slot); }

static void prefix_of(device handle, char *out, size_t size) {
  size_t number = (size_t)handle, slot = number / 1000, index = number % 1000 - 1;
  if (slot)
    snprintf(out, size, "%zu.mig%zu", index, slot - 1);
  else
    snprintf(out, size, "%zu", index);
}

static FILE *readings(void) {
  Dl_info here;
  char path[4096];
  if (!dladdr((void *)readings, &here)) return NULL;
  snprintf(path, sizeof path, "%s", here.dli_fname);
  char *slash = strrchr(path, '/');
  snprintf(slash ? slash + 1 : path, 16, "readings");
  return fopen(path, "r");
}

/* The value of the nth line with the key. */
static int line_of(const char *key, int nth, char *out, size_t size) {
  FILE *file = readings();
  char line[512];
  size_t length = strlen(key);
  int found = 0;
  if (!file) return NOT_SUPPORTED;
  while (!found && fgets(line, sizeof line, file)) {
    if (strncmp(line, key, length) || line[length] != ' ' || nth-- > 0) continue;
    line[strcspn(line, "\n")] = 0;
    snprintf(out, size, "%s", line + length + 1);
    found = 1;
  }
  fclose(file);
  if (!found) return NOT_SUPPORTED;
  return strncmp(out, "error ", 6) ? SUCCESS : atoi(out + 6);
}

static int nth_text(device handle, const char *name, int nth, char *out, size_t size) {
  char prefix[32], key[128], lost[512];
  prefix_of(handle, prefix, sizeof prefix);
  snprintf(key, sizeof key, "%s.lost", prefix);
  if (line_of(key, 0, lost, sizeof lost) == SUCCESS) return atoi(lost);
  snprintf(key, sizeof key, "%s.%s", prefix, name);
  return line_of(key, nth, out, size);
}

static int text(device handle, const char *name, char *out, size_t size) {
  return nth_text(handle, name, 0, out, size);
}

static int whole(device handle, const char *name, uint *out) {
  char value[512];
  int code = text(handle, name, value, sizeof value);
  if (code == SUCCESS) *out = (uint)strtoul(value, NULL, 10);
  return code;
}

int nvmlInit_v2(void) {
  char value[512];
  return line_of("init", 0, value, sizeof value) == SUCCESS ? atoi(value) : SUCCESS;
}
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char *out, uint size) { return line_of("driver", 0, out, size); }
int nvmlDeviceGetCount_v2(uint *count) {
  char value[512];
  int code = line_of("count", 0, value, sizeof value);
  if (code == SUCCESS) *count = (uint)atoi(value);
  return code;
}
int nvmlDeviceGetHandleByIndex_v2(uint index, device *out) {
  *out = handle_of(index, 0);
  return SUCCESS;
}
int nvmlDeviceGetUUID(device d, char *out, uint size) { return text(d, "uuid", out, size); }
int nvmlDeviceGetName(device d, char *out, uint size) { return text(d, "name", out, size); }

typedef struct { uint gpu, memory; } utilization;
int nvmlDeviceGetUtilizationRates(device d, utilization *out) {
  int code = whole(d, "utilization.gpu", &out->gpu);
  return code ? code : whole(d, "utilization.memory", &out->memory);
}

typedef struct { uint version; ull total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *out) {
  char value[512];
  int code = text(d, "memory", value, sizeof value);
  if (code) return code;
  if (sscanf(value, "%llu %llu %llu %llu", &out->total, &out->reserved, &out->free, &out->used) != 4) return INVALID;
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device d, uint *out) { return whole(d, "power", out); }
int nvmlDeviceGetTemperature(device d, uint sensor, uint *out) { (void)sensor; return whole(d, "temperature", out); }
int nvmlDeviceGetClockInfo(device d, uint type, uint *out) {
  const char *names[] = {"clocks.graphics", "clocks.sm", "clocks.memory", "clocks.video"};
  return type < 4 ? whole(d, names[type], out) : INVALID;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device d, ull *out) {
  uint mask = 0;
  int code = whole(d, "throttle", &mask);
  *out = mask;
  return code;
}
static int engine(device d, const char *name, uint *percent, uint *period) {
  *period = 167000;
  return whole(d, name, percent);
}
int nvmlDeviceGetEncoderUtilization(device d, uint *p, uint *us) { return engine(d, "utilization.encoder", p, us); }
int nvmlDeviceGetDecoderUtilization(device d, uint *p, uint *us) { return engine(d, "utilization.decoder", p, us); }
int nvmlDeviceGetPcieThroughput(device d, uint counter, uint *out) {
  return whole(d, counter ? "pcie.rx" : "pcie.tx", out);
}

typedef struct { uint pid; ull ts; uint sm, mem, enc, dec; } process_sample;
int nvmlDeviceGetProcessUtilization(device d, process_sample *out, uint *count, ull seen) {
  char value[512];
  uint room = out ? *count : 0, found = 0;
  for (int nth = 0;; nth++) {
    process_sample s;
    int code = nth_text(d, "sample", nth, value, sizeof value);
    if (code == NOT_SUPPORTED && nth) break;
    if (code) return code;
    if (sscanf(value, "%u %llu %u %u %u %u", &s.pid, &s.ts, &s.sm, &s.mem, &s.enc, &s.dec) != 6) return INVALID;
    if (s.ts <= seen) continue;
    if (out && found < room) out[found] = s;
    found++;
  }
  *count = found;
  if (!found) return NOT_FOUND;
  return out && found <= room ? SUCCESS : TOO_SMALL;
}

#ifndef OLD_DRIVER
int nvmlDeviceGetJpgUtilization(device d, uint *p, uint *us) { return engine(d, "utilization.jpeg", p, us); }
int nvmlDeviceGetOfaUtilization(device d, uint *p, uint *us) { return engine(d, "utilization.ofa", p, us); }

typedef struct { uint pid; ull memory; uint gi, ci; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(device d, uint *count, process *out) {
  char value[512];
  uint room = *count, found = 0;
  for (int nth = 0;; nth++) {
    process p = {0, 0, ~0u, ~0u};
    int code = nth_text(d, "process", nth, value, sizeof value);
    if (code == NOT_SUPPORTED) break;
    if (code) return code;
    if (sscanf(value, "%u %llu %u %u", &p.pid, &p.memory, &p.gi, &p.ci) < 2) return INVALID;
    if (out && found < room) out[found] = p;
    found++;
  }
  *count = found;
  return found <= room ? SUCCESS : TOO_SMALL;
}

typedef struct { uint field, scope; long long ts, latency; int type, code; ull value; } field_value;
int nvmlDeviceGetFieldValues(device d, int count, field_value *fields) {
  char value[512];
  for (int i = 0; i < count; i++) {
    /* Scope ~0 is the sum of all links; another is one link, which was not recorded. */
    const char *name = fields[i].field == 139 ? "nvlink.rx" : fields[i].field == 138 ? "nvlink.tx" : "";
    fields[i].code = fields[i].scope == ~0u ? text(d, name, value, sizeof value) : NOT_SUPPORTED;
    if (!fields[i].code) fields[i].value = strtoull(value, NULL, 10);
  }
  return SUCCESS;
}

int nvmlDeviceGetMigMode(device d, uint *current, uint *pending) {
  *pending = 0;
  return whole(d, "mig", current);
}
int nvmlDeviceGetMaxMigDeviceCount(device d, uint *count) { (void)d; *count = 7; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, uint slot, device *out) {
  char value[512];
  *out = handle_of((uint)((size_t)d - 1), slot + 1);
  return text(*out, "uuid", value, sizeof value) ? NOT_FOUND : SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(device d, uint *out) { return whole(d, "instance", out); }

typedef struct { uint version, supported; } gpm_support;
int nvmlGpmQueryDeviceSupport(device d, gpm_support *out) { return whole(d, "gpm", &out->supported); }

/* A sample remembers whose it is; the averages are what the file says when they are asked for. */
typedef struct { char prefix[32]; } gpm_sample;
int nvmlGpmSampleAlloc(gpm_sample **out) { return (*out = calloc(1, sizeof **out)) ? SUCCESS : 20; }
int nvmlGpmSampleFree(gpm_sample *sample) { free(sample); return SUCCESS; }
int nvmlGpmSampleGet(device d, gpm_sample *out) {
  char value[512];
  int code = text(d, "gpm.2", value, sizeof value);
  if (code == SUCCESS) prefix_of(d, out->prefix, sizeof out->prefix);
  return code;
}
int nvmlGpmMigSampleGet(device d, uint instance, gpm_sample *out) {
  char value[512];
  for (uint slot = 1; slot <= 7; slot++) {
    device mig = handle_of((uint)((size_t)d - 1), slot);
    if (text(mig, "instance", value, sizeof value) == SUCCESS && (uint)atoi(value) == instance)
      return nvmlGpmSampleGet(mig, out);
  }
  return NOT_FOUND;
}

typedef struct { uint id; int code; double value; const char *name, *long_name, *unit; } gpm_metric;
typedef struct { uint version, count; gpm_sample *from, *to; gpm_metric metrics[]; } gpm_get;
int nvmlGpmMetricsGet(gpm_get *get) {
  char key[64], value[512];
  if (get->from == get->to || strcmp(get->from->prefix, get->to->prefix)) return INVALID;
  for (uint i = 0; i < get->count; i++) {
    gpm_metric *m = &get->metrics[i];
    snprintf(key, sizeof key, "%s.gpm.%u", get->to->prefix, m->id);
    m->code = line_of(key, 0, value, sizeof value);
    m->value = m->code ? 0 : atof(value);
    m->name = m->long_name = "";
    m->unit = m->id == 20 || m->id == 21 ? "MiB/s" : "%";
  }
  return SUCCESS;
}
#endif
