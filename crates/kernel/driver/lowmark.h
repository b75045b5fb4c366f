/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The mailbox between the guest's driver and Lowmark, which models the disk outside of the guest.
 *
 * A mailbox is two pages of the guest's memory. The driver writes the first one's number, in five parts of seven bits,
 * lowest first, to the byte `wce` of the device's config space. Every further write of that byte rings the bell: Lowmark
 * deals with the mailbox before the write returns, and virtual time stands still meanwhile.
 */
#ifndef LOWMARK_H
#define LOWMARK_H

#define LM_SEGMENTS 256
#define LM_ENDED 64
#define LM_VERSION 1

/* What the driver asks. */
enum {
	LM_HELLO = 1,  /* what is this device? */
	LM_TURN = 2,   /* which requests have ended? */
	LM_SUBMIT = 3, /* here is a request; which have ended? */
	LM_SAY = 4,    /* here are bytes, in segment 0 */
};

/* What a request is. */
enum { LM_READ = 0, LM_WRITE = 1 };

/* Flags in the answer to LM_HELLO. */
#define LM_ROTATIONAL 1u
#define LM_CONTROL 2u  /* no disk, but the file /dev/lowmark */
#define LM_PROGRAMS 4u /* code may be read from the disk */

struct lm_box {
	/* In: */
	u32 ask;
	u32 version;
	u64 now; /* CLOCK_MONOTONIC of the guest, in ns */
	u64 sector; /* LM_SUBMIT: where the request begins, in units of 512 bytes */
	u32 op;
	u32 tag;
	u32 segments; /* entries of `segment` */
	/* Out: */
	u32 ended;   /* entries of `done` */
	u64 again;   /* when to take the next turn, in ns of that clock; ~0: never */
	u64 sectors; /* LM_HELLO: the disk's size */
	u32 depth;   /* LM_HELLO: requests that it takes at a time */
	u32 most;    /* LM_HELLO: bytes of its largest request */
	u32 flags;   /* LM_HELLO */
	u32 index;   /* LM_HELLO: 0 is the first disk */
	struct {
		u32 tag;
		u32 failed;
	} done[LM_ENDED];
	struct {
		u64 at; /* guest-physical address */
		u32 len;
		u32 unused;
	} segment[LM_SEGMENTS];
};

#endif
