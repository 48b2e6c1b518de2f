// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the kernel counts for Feedline: block latency, time off the CPU, file reads and opens, and
 * calls into the device's libraries. Everything is summed here, in maps of fixed size that user
 * space reads once a second; nothing is sent one by one. What a full map turns away is counted. */

#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* The pid namespace that user space counts pids in; 0 is the machine's first. */
const volatile __u32 pid_namespace = 0;

/* ---- maps; user space reads them by these layouts (../layout.rs) ---- */

#define HASH(name, key_type, value_type, entries)          \
	struct {                                           \
		__uint(type, BPF_MAP_TYPE_HASH);           \
		__uint(max_entries, entries);              \
		__type(key, key_type);                     \
		__type(value, value_type);                 \
	} name SEC(".maps")

/* Processes of the job, and what is counted of each. */
enum of_process { FILES = 1, THREADS = 2 };
HASH(watched, __u32, __u8, 4096);

struct started {
	__u64 at;
	__u32 device;
	__u32 operation;
};
/* Requests on their way, by `struct request *`: sectors repeat, requests in flight do not. */
HASH(requests, __u64, struct started, 16384);

struct block_key {
	__u32 device;
	__u16 operation;
	__u16 bucket;
};
struct block_sum {
	__u64 requests;
	__u64 time;
};
HASH(block, struct block_key, struct block_sum, 8192);

enum how { BLOCKED = 0, UNINTERRUPTIBLE = 1, RUNNABLE = 2, STOPPED = 3 };

struct off_key {
	__u32 tgid;
	__u32 tid;
	__s16 syscall; /* -1: none, -2: this kernel does not tell */
	__u8 how;
	__u8 zeros; /* bit n: argument n of the call is 0 */
};
struct off_now {
	__u64 since; /* 0 while it is on a CPU */
	__u64 woken; /* 0 until it is woken */
	struct off_key key;
	__u32 pad;
};
/* Threads and whether they are off the CPU, by the kernel's own id. An entry stays as long as its
 * thread, for a look-up costs a third of putting in and taking out; user space removes those of
 * threads that are gone. The same holds for the maps of reads and calls in progress. */
HASH(off_now, __u32, struct off_now, 16384);

struct sum {
	__u64 time;
	__u64 times;
};
HASH(off, struct off_key, struct sum, 16384);

struct file_now {
	__u64 since; /* 0 while there is none */
	__u32 descriptor;
	__u32 operation;
	__u32 tgid;
	__u32 tid;
};
HASH(file_now, __u32, struct file_now, 8192);

struct file_key {
	__u32 tgid;
	__u32 magic; /* of the file system */
	__u8 operation; /* 0 read, 1 open */
	__u8 type; /* S_IFMT bits, shifted; 0: could not be opened */
	__u16 pad;
};
struct volume {
	__u64 calls;
	__u64 time;
	__u64 bytes;
};
HASH(files, struct file_key, struct volume, 8192);

struct call_key {
	__u32 tgid;
	__u32 tid;
	__u32 call;
	__u32 pad;
};
struct call_now {
	__u64 at; /* 0 while there is none */
	__u64 stack;
	__u64 bytes;
	struct call_key key;
};
HASH(call_now, __u32, struct call_now, 4096);
HASH(calls, struct call_key, struct volume, 8192);

enum loss { LOST_REQUESTS, LOST_BLOCK, LOST_OFF_NOW, LOST_OFF, LOST_FILE_NOW, LOST_FILES, LOST_CALL_NOW, LOST_CALLS, LOSSES };
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

/* ---- shared ---- */

static __always_inline void lose(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&lost, &what);
	if (count)
		__sync_fetch_and_add(count, 1);
}

/* The number of a pid in user space's namespace; 0 where it has none there. */
static __always_inline __u32 number(struct pid *pid)
{
	__u32 level = BPF_CORE_READ(pid, level);
	for (__u32 i = 1; i <= 4; i++) {
		if (i > level)
			break;
		struct upid upid = {};
		void *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) + i * sizeof(struct upid);
		if (bpf_probe_read_kernel(&upid, sizeof(upid), at))
			break;
		if (BPF_CORE_READ(upid.ns, ns.inum) == pid_namespace)
			return upid.nr;
	}
	return 0;
}

/* Process (high) and thread (low) of the current task, as user space numbers them. */
static __always_inline __u64 current_ids(void)
{
	if (pid_namespace == 0)
		return bpf_get_current_pid_tgid();
	struct task_struct *task = (void *)bpf_get_current_task();
	__u64 tgid = number(BPF_CORE_READ(task, group_leader, thread_pid));
	return tgid ? tgid << 32 | number(BPF_CORE_READ(task, thread_pid)) : 0;
}

static __always_inline int is_watched(__u64 ids, __u8 what)
{
	__u32 tgid = ids >> 32;
	__u8 *found = tgid ? bpf_map_lookup_elem(&watched, &tgid) : NULL;
	return found && *found & what;
}

/* The sum of a key, made where it is not there yet; NULL, and counted, where the map is full. */
#define SUM(map, key, zero, loss)                                              \
	({                                                                     \
		typeof(zero) *sum__ = bpf_map_lookup_elem(&map, key);          \
		if (!sum__) {                                                  \
			bpf_map_update_elem(&map, key, &zero, BPF_NOEXIST);    \
			sum__ = bpf_map_lookup_elem(&map, key);                \
			if (!sum__)                                            \
				lose(loss);                                    \
		}                                                              \
		sum__;                                                         \
	})

/* The n for which 2^n is the least power of two that is not below the value. */
static __always_inline __u16 bucket_of(__u64 value)
{
	__u64 rest = value ? value - 1 : 0;
	__u16 bucket = 0;
	if (rest >> 32) { bucket += 32; rest >>= 32; }
	if (rest >> 16) { bucket += 16; rest >>= 16; }
	if (rest >> 8) { bucket += 8; rest >>= 8; }
	if (rest >> 4) { bucket += 4; rest >>= 4; }
	if (rest >> 2) { bucket += 2; rest >>= 2; }
	if (rest >> 1) { bucket += 1; rest >>= 1; }
	return bucket + (rest ? 1 : 0);
}

/* ---- block requests ---- */

static __always_inline int issue(struct request *request)
{
	struct gendisk *disk;
	struct request___old *old = (void *)request;
	if (bpf_core_field_exists(old->rq_disk))
		disk = BPF_CORE_READ(old, rq_disk);
	else
		disk = BPF_CORE_READ(request, q, disk);
	struct started started = {
		.at = bpf_ktime_get_ns(),
		.device = BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor),
		.operation = BPF_CORE_READ(request, cmd_flags) & 0xff,
	};
	__u64 key = (__u64)request;
	if (bpf_map_update_elem(&requests, &key, &started, BPF_ANY))
		lose(LOST_REQUESTS);
	return 0;
}

/* Linux 5.11 and later: the request is the only argument. */
SEC("raw_tp/block_rq_issue")
int block_issue(struct bpf_raw_tracepoint_args *ctx)
{
	return issue((void *)ctx->args[0]);
}

/* Before, the queue came first. The kernel refuses to attach this where there is no second. */
SEC("raw_tp/block_rq_issue")
int block_issue_second(struct bpf_raw_tracepoint_args *ctx)
{
	return issue((void *)ctx->args[1]);
}

SEC("raw_tp/block_rq_complete")
int block_complete(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 request = ctx->args[0];
	struct started *started = bpf_map_lookup_elem(&requests, &request);
	if (!started)
		return 0;
	__u64 took = bpf_ktime_get_ns() - started->at;
	struct block_key key = {
		.device = started->device,
		.operation = started->operation,
		.bucket = bucket_of(took),
	};
	bpf_map_delete_elem(&requests, &request);
	struct block_sum zero = {};
	struct block_sum *sum = SUM(block, &key, zero, LOST_BLOCK);
	if (sum) {
		__sync_fetch_and_add(&sum->requests, 1);
		__sync_fetch_and_add(&sum->time, took);
	}
	return 0;
}

/* ---- time off the CPU ---- */

/* What the leaving thread was doing: the system call in progress, as in /proc/PID/syscall. */
static __always_inline void describe_call(struct off_key *key)
{
	key->syscall = -2;
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
		return;
	void *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm64 = regs;
	if (bpf_core_field_exists(x86->di)) {
		key->syscall = (__s16)BPF_CORE_READ(x86, orig_ax);
		switch (key->syscall) {
		case 7: case 23: case 270: case 271: /* poll select pselect6 ppoll: without descriptors they only sleep */
			key->zeros = (BPF_CORE_READ(x86, di) == 0) | (BPF_CORE_READ(x86, si) == 0) << 1;
		}
	} else if (bpf_core_field_exists(arm64->orig_x0)) {
		key->syscall = (__s16)BPF_CORE_READ(arm64, syscallno);
		switch (key->syscall) {
		case 72: case 73: /* pselect6 ppoll */
			key->zeros = (BPF_CORE_READ(arm64, orig_x0) == 0) | (BPF_CORE_READ(arm64, regs[1]) == 0) << 1;
		}
	}
}

static __always_inline void leaves(int preempted, struct task_struct *task)
{
	__u64 ids = current_ids();
	if (!is_watched(ids, THREADS))
		return;
	struct task_struct___old *old = (void *)task;
	__u64 state;
	if (bpf_core_field_exists(old->state))
		state = BPF_CORE_READ(old, state);
	else
		state = BPF_CORE_READ(task, __state);
	if (!preempted && state & 0xb0) /* it exits */
		return;
	__u32 kernel_tid = bpf_get_current_pid_tgid();
	struct off_now zero = {};
	struct off_now *found = SUM(off_now, &kernel_tid, zero, LOST_OFF_NOW);
	if (!found)
		return;
	struct off_now now = { .since = bpf_ktime_get_ns() };
	now.key.tgid = ids >> 32;
	now.key.tid = (__u32)ids;
	if (preempted || !(state & 0xf)) {
		now.key.how = RUNNABLE;
		now.key.syscall = -1;
		now.woken = now.since;
	} else if (state & 0xc) {
		now.key.how = STOPPED;
		now.key.syscall = -1;
	} else {
		now.key.how = state & 2 ? UNINTERRUPTIBLE : BLOCKED;
		describe_call(&now.key);
	}
	*found = now;
}

static __always_inline void add_off(struct off_key *key, __u64 time)
{
	struct sum zero = {};
	struct sum *sum = SUM(off, key, zero, LOST_OFF);
	if (sum) {
		__sync_fetch_and_add(&sum->time, time);
		__sync_fetch_and_add(&sum->times, 1);
	}
}

static __always_inline void comes(struct task_struct *task)
{
	__u32 kernel_tid = BPF_CORE_READ(task, pid);
	struct off_now *found = bpf_map_lookup_elem(&off_now, &kernel_tid);
	if (!found || !found->since)
		return;
	struct off_now was = *found;
	__u64 now = bpf_ktime_get_ns();
	found->since = 0;
	if (was.key.how != RUNNABLE) {
		__u64 until = was.woken ? was.woken : now;
		add_off(&was.key, until - was.since);
		if (!was.woken)
			return;
		/* From here on it was ready and waited for a CPU. */
		was.key.how = RUNNABLE;
		was.key.syscall = -1;
		was.key.zeros = 0;
		was.since = until;
	}
	add_off(&was.key, now - was.since);
}

SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	leaves(ctx->args[0] & 1, (void *)ctx->args[1]);
	comes((void *)ctx->args[2]);
	return 0;
}

SEC("raw_tp/sched_wakeup")
int sched_wakeup(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 kernel_tid = BPF_CORE_READ(task, pid);
	struct off_now *found = bpf_map_lookup_elem(&off_now, &kernel_tid);
	if (found && found->since && !found->woken)
		found->woken = bpf_ktime_get_ns();
	return 0;
}

/* ---- reads and opens ---- */

/* What a system call of the running architecture is: a file operation, or -1. */
static __always_inline int operation_of(long number)
{
	if (bpf_core_field_exists(((struct pt_regs___x86 *)0)->di)) {
		switch (number) {
		case 0: case 17: case 19: case 295: case 327: /* read pread64 readv preadv preadv2 */
			return 0;
		case 2: case 257: case 437: /* open openat openat2 */
			return 1;
		}
	} else {
		switch (number) { /* the generic table, as Arm has it */
		case 63: case 67: case 65: case 69: case 286:
			return 0;
		case 56: case 437:
			return 1;
		}
	}
	return -1;
}

SEC("raw_tp/sys_enter")
int call_enters(struct bpf_raw_tracepoint_args *ctx)
{
	int operation = operation_of(ctx->args[1]);
	if (operation < 0)
		return 0;
	__u64 ids = current_ids();
	if (!is_watched(ids, FILES))
		return 0;
	void *regs = (void *)ctx->args[0];
	struct pt_regs___x86 *x86 = regs;
	struct pt_regs___arm64 *arm64 = regs;
	struct file_now now = {
		.since = bpf_ktime_get_ns(),
		.operation = operation,
		.tgid = ids >> 32,
		.tid = (__u32)ids,
	};
	if (bpf_core_field_exists(x86->di))
		now.descriptor = BPF_CORE_READ(x86, di);
	else
		now.descriptor = BPF_CORE_READ(arm64, orig_x0);
	__u32 kernel_tid = bpf_get_current_pid_tgid();
	struct file_now zero = {};
	struct file_now *found = SUM(file_now, &kernel_tid, zero, LOST_FILE_NOW);
	if (found)
		*found = now;
	return 0;
}

/* The open file of a descriptor of the current task. */
static __always_inline struct file *file_of(__u32 descriptor)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	if (descriptor >= BPF_CORE_READ(table, max_fds))
		return NULL;
	struct file **slot = BPF_CORE_READ(table, fd) + descriptor;
	struct file *file = NULL;
	return bpf_probe_read_kernel(&file, sizeof(file), slot) ? NULL : file;
}

SEC("raw_tp/sys_exit")
int call_leaves(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 kernel_tid = bpf_get_current_pid_tgid();
	struct file_now *found = bpf_map_lookup_elem(&file_now, &kernel_tid);
	if (!found || !found->since)
		return 0;
	struct file_now was = *found;
	__u64 took = bpf_ktime_get_ns() - was.since;
	found->since = 0;
	__s64 returned = ctx->args[1];
	struct file_key key = { .tgid = was.tgid, .operation = was.operation };
	/* A read that failed was still on something; an open that failed is on nothing. */
	struct file *file = NULL;
	if (was.operation == 0 || returned >= 0)
		file = file_of(was.operation == 0 ? was.descriptor : (__u32)returned);
	if (file) {
		struct inode *inode = BPF_CORE_READ(file, f_inode);
		key.type = BPF_CORE_READ(inode, i_mode) >> 12;
		key.magic = BPF_CORE_READ(inode, i_sb, s_magic);
	}
	struct volume zero = {};
	struct volume *sum = SUM(files, &key, zero, LOST_FILES);
	if (sum) {
		__sync_fetch_and_add(&sum->calls, 1);
		__sync_fetch_and_add(&sum->time, took);
		if (was.operation == 0 && returned > 0)
			__sync_fetch_and_add(&sum->bytes, returned);
	}
	return 0;
}

/* ---- calls into the device's libraries ---- */

enum size_rule { NO_SIZE, SECOND, THIRD, RUNTIME_COPY, ELEMENTS_THIRD, ELEMENTS_SECOND };
/* As in ../symbols.rs. */
enum call { LAUNCH, COPY_H2D, COPY_D2H, COPY_OTHER, SYNC, COLLECTIVE, ALLOC };

struct arguments {
	__u64 second, third, fourth, stack;
};

static __always_inline struct arguments arguments(void *ctx)
{
	struct arguments out = {};
	struct pt_regs___x86 *x86 = ctx;
	struct pt_regs___arm64 *arm64 = ctx;
	if (bpf_core_field_exists(x86->di)) {
		out.second = BPF_CORE_READ(x86, si);
		out.third = BPF_CORE_READ(x86, dx);
		out.fourth = BPF_CORE_READ(x86, cx);
		out.stack = BPF_CORE_READ(x86, sp);
	} else {
		out.second = BPF_CORE_READ(arm64, regs[1]);
		out.third = BPF_CORE_READ(arm64, regs[2]);
		out.fourth = BPF_CORE_READ(arm64, regs[3]);
		out.stack = BPF_CORE_READ(arm64, sp);
	}
	return out;
}

/* Bytes of an element of NCCL's data types, as powers of two, four bits each: int8 uint8 int32
 * uint32 int64 uint64 float16 float32 float64 bfloat16 float8e4m3 float8e5m2. */
#define ELEMENT_SIZES 0x001321332200ULL

static __always_inline __u64 elements(__u64 count, __u64 type)
{
	return type < 12 ? count << (ELEMENT_SIZES >> (type * 4) & 0xf) : 0;
}

SEC("uprobe")
int call_begins(void *ctx)
{
	__u64 ids = current_ids();
	if (!is_watched(ids, THREADS))
		return 0;
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct arguments given = arguments(ctx);
	struct call_now now = { .at = bpf_ktime_get_ns(), .stack = given.stack };
	now.key.tgid = ids >> 32;
	now.key.tid = (__u32)ids;
	now.key.call = cookie & 0xff;
	switch (cookie >> 8 & 0xff) {
	case SECOND:
		now.bytes = given.second;
		break;
	case THIRD:
		now.bytes = given.third;
		break;
	case RUNTIME_COPY:
		now.bytes = given.third;
		__u32 direction = given.fourth;
		now.key.call = direction == 1 ? COPY_H2D : direction == 2 ? COPY_D2H : COPY_OTHER;
		break;
	case ELEMENTS_THIRD:
		now.bytes = elements(given.third, (__u32)given.fourth);
		break;
	case ELEMENTS_SECOND:
		now.bytes = elements(given.second, (__u32)given.third);
		break;
	}
	__u32 kernel_tid = bpf_get_current_pid_tgid();
	struct call_now zero = {};
	struct call_now *found = SUM(call_now, &kernel_tid, zero, LOST_CALL_NOW);
	/* A call within a call belongs to the outer one. One that never returned (an exception
	 * passed through it) is known by its stack, which is not above this one's any more. */
	if (found && (!found->at || given.stack >= found->stack))
		*found = now;
	return 0;
}

SEC("uretprobe")
int call_ends(void *ctx)
{
	__u32 kernel_tid = bpf_get_current_pid_tgid();
	struct call_now *found = bpf_map_lookup_elem(&call_now, &kernel_tid);
	if (!found || !found->at)
		return 0;
	__u64 stack = arguments(ctx).stack;
	/* The outermost call returns to where it came from: with its return address popped (x86)
	 * or never pushed (Arm). */
	if (stack != found->stack && stack != found->stack + 8)
		return 0;
	struct call_now was = *found;
	found->at = 0;
	struct volume zero = {};
	struct volume *sum = SUM(calls, &was.key, zero, LOST_CALLS);
	if (sum) {
		__sync_fetch_and_add(&sum->calls, 1);
		__sync_fetch_and_add(&sum->time, bpf_ktime_get_ns() - was.at);
		__sync_fetch_and_add(&sum->bytes, was.bytes);
	}
	return 0;
}
