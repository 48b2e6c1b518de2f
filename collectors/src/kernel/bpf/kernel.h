/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The few kernel types that the programs look into. Only names count: the loader finds each field
 * where the running kernel has it (CO-RE), and a field that another version names differently is
 * a flavour, told by its `___` suffix. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	unsigned int __state;
	int pid;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct files_struct *files;
};

/* Before Linux 5.14. */
struct task_struct___old {
	long state;
};

struct gendisk {
	int major;
	int first_minor;
};

struct request_queue {
	struct gendisk *disk;
};

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
};

/* Before Linux 5.15 a queue does not know its disk. */
struct request___old {
	struct gendisk *rq_disk;
};

struct super_block {
	unsigned long s_magic;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct pt_regs___x86 {
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long cx;
	unsigned long orig_ax;
	unsigned long sp;
};

struct pt_regs___arm64 {
	__u64 regs[31];
	__u64 sp;
	__u64 orig_x0;
	int syscallno;
};

#pragma clang attribute pop
