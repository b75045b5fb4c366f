// SPDX-License-Identifier: GPL-2.0
/*
 * Disks of Lowmark: their time is modelled outside of the guest.
 *
 * Each device is a vhost-user-blk-pci of QEMU, of which one byte of the config space is used: a store to `wce` returns once
 * Lowmark has dealt with the mailbox (lowmark.h). Lowmark reads and writes the pages of a request itself and says when the
 * request ends; a timer of the guest ends it then. So nothing arrives from outside at a time that the guest did not choose.
 * The first device is no disk but /dev/lowmark, to which the guest's first process writes its frames.
 */
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/virtio_pci.h>
#include "lowmark.h"

#define BEFORE(a, b) (LINUX_VERSION_CODE < KERNEL_VERSION(a, b, 0))

/* Pages of the mailbox, as a power of two. */
#define LM_ORDER 1
static_assert(sizeof(struct lm_box) <= PAGE_SIZE << LM_ORDER);

/* Bytes of a write to /dev/lowmark that are handed over at a time. */
#define LM_SAID (64 << 10)

struct lm_device {
	void __iomem *config;
	u8 bell;
	struct lm_box *box;
	spinlock_t lock;
	struct hrtimer timer;
	u64 again; /* when the timer fires; ~0: it is not set */
	struct blk_mq_tag_set tags;
	struct gendisk *disk;
	bool programs; /* code may be read from the disk */
};

/* Requests that ended in a turn. */
struct lm_ended {
	struct request *request[LM_ENDED];
	unsigned int n;
};

/* A request's private part. */
struct lm_private {
	bool failed;
};

/* QEMU hands on a byte of the config space only if it differs from the last: its top bit alternates. */
static void lm_ring(struct lm_device *d, u8 bits)
{
	d->bell = (~d->bell & 0x80) | bits;
	iowrite8(d->bell, d->config + 32);
}

/* Rings, takes the requests that have ended into `ended`, and sets the timer for the next turn. The lock is held. */
static void lm_turn(struct lm_device *d, u32 ask, struct lm_ended *ended)
{
	struct lm_box *b = d->box;
	unsigned int i;

	b->ask = ask;
	b->now = ktime_get_ns();
	lm_ring(d, 0);
	ended->n = min_t(u32, b->ended, LM_ENDED);
	for (i = 0; i < ended->n; i++) {
		struct lm_private *p;

		ended->request[i] = blk_mq_tag_to_rq(d->tags.tags[0], b->done[i].tag);
		p = blk_mq_rq_to_pdu(ended->request[i]);
		p->failed = b->done[i].failed;
	}
	if (b->again != d->again) {
		d->again = b->again;
		if (b->again != ~0ULL)
			hrtimer_start(&d->timer, ns_to_ktime(b->again), HRTIMER_MODE_ABS_HARD);
	}
}

/* Completes requests, without the lock: a completion may submit others. */
static void lm_complete_all(struct lm_ended *ended)
{
	unsigned int i;

	for (i = 0; i < ended->n; i++)
		if (likely(!blk_should_fake_timeout(ended->request[i]->q)))
			blk_mq_complete_request(ended->request[i]);
}

static enum hrtimer_restart lm_fires(struct hrtimer *timer)
{
	struct lm_device *d = container_of(timer, struct lm_device, timer);
	struct lm_ended ended;
	unsigned long flags;

	spin_lock_irqsave(&d->lock, flags);
	d->again = ~0ULL;
	lm_turn(d, LM_TURN, &ended);
	spin_unlock_irqrestore(&d->lock, flags);
	lm_complete_all(&ended);
	return HRTIMER_NORESTART;
}

/*
 * Stores each word of read data once more. QEMU does not notice that another process has changed memory: code that it
 * translated from such a page before would run on as it was.
 */
static void lm_store_again(struct request *rq)
{
	struct req_iterator iter;
	struct bio_vec bv;

	rq_for_each_segment(bv, rq, iter) {
		u64 *words = kmap_atomic(bv.bv_page) + bv.bv_offset;
		unsigned int i;

		for (i = 0; i < bv.bv_len / sizeof(*words); i++)
			WRITE_ONCE(words[i], READ_ONCE(words[i]));
		kunmap_atomic((void *)words - bv.bv_offset);
	}
}

static void lm_complete(struct request *rq)
{
	struct lm_private *p = blk_mq_rq_to_pdu(rq);
	struct lm_device *d = rq->q->queuedata;

	if (d->programs && !p->failed && req_op(rq) == REQ_OP_READ)
		lm_store_again(rq);
	blk_mq_end_request(rq, p->failed ? BLK_STS_IOERR : BLK_STS_OK);
}

static blk_status_t lm_queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct lm_device *d = hctx->queue->queuedata;
	struct request *rq = bd->rq;
	struct lm_private *p = blk_mq_rq_to_pdu(rq);
	struct lm_box *b = d->box;
	struct req_iterator iter;
	struct lm_ended ended;
	struct bio_vec bv;
	unsigned long flags;
	u32 n = 0;

	if (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE)
		return BLK_STS_NOTSUPP;
	blk_mq_start_request(rq);
	p->failed = false;
	spin_lock_irqsave(&d->lock, flags);
	rq_for_each_bvec(bv, rq, iter) {
		u64 at = page_to_phys(bv.bv_page) + bv.bv_offset;

		if (n && b->segment[n - 1].at + b->segment[n - 1].len == at) {
			b->segment[n - 1].len += bv.bv_len;
			continue;
		}
		if (WARN_ON_ONCE(n == LM_SEGMENTS)) {
			spin_unlock_irqrestore(&d->lock, flags);
			return BLK_STS_IOERR;
		}
		b->segment[n].at = at;
		b->segment[n++].len = bv.bv_len;
	}
	b->segments = n;
	b->sector = blk_rq_pos(rq);
	b->op = req_op(rq) == REQ_OP_READ ? LM_READ : LM_WRITE;
	b->tag = rq->tag;
	lm_turn(d, LM_SUBMIT, &ended);
	spin_unlock_irqrestore(&d->lock, flags);
	lm_complete_all(&ended);
	return BLK_STS_OK;
}

static const struct blk_mq_ops lm_mq_ops = {
	.queue_rq = lm_queue_rq,
	.complete = lm_complete,
};

static const struct block_device_operations lm_fops = {
	.owner = THIS_MODULE,
};

/* ---- /dev/lowmark ---- */
static struct lm_device *control;
static void *said;
static DEFINE_MUTEX(saying);

static ssize_t lm_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	struct lm_ended ended;
	unsigned long flags;

	len = min_t(size_t, len, LM_SAID);
	if (mutex_lock_interruptible(&saying))
		return -ERESTARTSYS;
	if (copy_from_user(said, from, len)) {
		mutex_unlock(&saying);
		return -EFAULT;
	}
	spin_lock_irqsave(&control->lock, flags);
	control->box->segment[0].at = virt_to_phys(said);
	control->box->segment[0].len = len;
	control->box->segments = 1;
	lm_turn(control, LM_SAY, &ended);
	spin_unlock_irqrestore(&control->lock, flags);
	mutex_unlock(&saying);
	return len;
}

static const struct file_operations lm_control_fops = {
	.owner = THIS_MODULE,
	.write = lm_write,
};

static struct miscdevice lm_control = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "lowmark",
	.fops = &lm_control_fops,
	.mode = 0200,
};

static int lm_add_control(struct lm_device *d)
{
	struct lm_ended ended;
	unsigned long flags;

	said = (void *)__get_free_pages(GFP_KERNEL, get_order(LM_SAID));
	if (!said)
		return -ENOMEM;
	control = d;
	/* Turns of the control device keep Lowmark informed of the guest's time. */
	spin_lock_irqsave(&d->lock, flags);
	lm_turn(d, LM_TURN, &ended);
	spin_unlock_irqrestore(&d->lock, flags);
	return misc_register(&lm_control);
}

/* ---- Devices ---- */

static void __iomem *lm_config(struct pci_dev *pdev)
{
	int pos;

	for (pos = pci_find_capability(pdev, PCI_CAP_ID_VNDR); pos > 0;
	     pos = pci_find_next_capability(pdev, pos, PCI_CAP_ID_VNDR)) {
		u8 type, bar;
		u32 offset;

		pci_read_config_byte(pdev, pos + offsetof(struct virtio_pci_cap, cfg_type), &type);
		pci_read_config_byte(pdev, pos + offsetof(struct virtio_pci_cap, bar), &bar);
		pci_read_config_dword(pdev, pos + offsetof(struct virtio_pci_cap, offset), &offset);
		if (type == VIRTIO_PCI_CAP_DEVICE_CFG)
			return pci_iomap_range(pdev, bar, offset, 256);
	}
	return NULL;
}

static void lm_init_timer(struct lm_device *d)
{
#if BEFORE(6, 13)
	hrtimer_init(&d->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	d->timer.function = lm_fires;
#else
	hrtimer_setup(&d->timer, lm_fires, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
#endif
}

/* Makes the disk with its limits; the ways to say limits and flags have changed between releases. */
static struct gendisk *lm_alloc_disk(struct lm_device *d)
{
	u32 sectors = d->box->most >> 9, segments = min_t(u32, LM_SEGMENTS, d->box->most >> 12);
	bool turns = d->box->flags & LM_ROTATIONAL;
#if BEFORE(6, 9)
	struct gendisk *disk = blk_mq_alloc_disk(&d->tags, d);

	if (IS_ERR(disk))
		return disk;
	blk_queue_logical_block_size(disk->queue, 512);
	blk_queue_max_hw_sectors(disk->queue, sectors);
	blk_queue_max_segments(disk->queue, segments);
	blk_queue_max_segment_size(disk->queue, UINT_MAX);
#else
	struct queue_limits limits = {
		.logical_block_size = 512,
		.max_hw_sectors = sectors,
		.max_segments = segments,
		.max_segment_size = UINT_MAX,
#if !BEFORE(6, 11)
		.features = turns ? BLK_FEAT_ROTATIONAL : 0,
#endif
	};
	struct gendisk *disk = blk_mq_alloc_disk(&d->tags, &limits, d);

	if (IS_ERR(disk))
		return disk;
#endif
#if BEFORE(6, 11)
	if (!turns)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
#endif
	return disk;
}

static int lm_add_disk(struct lm_device *d, struct pci_dev *pdev)
{
	int err;

	d->programs = d->box->flags & LM_PROGRAMS;
	d->tags.ops = &lm_mq_ops;
	d->tags.nr_hw_queues = 1;
	d->tags.queue_depth = clamp_t(u32, d->box->depth, 1, BLK_MQ_MAX_DEPTH);
	d->tags.numa_node = NUMA_NO_NODE;
	d->tags.cmd_size = sizeof(struct lm_private);
#if BEFORE(6, 14)
	d->tags.flags = BLK_MQ_F_SHOULD_MERGE;
#endif
	err = blk_mq_alloc_tag_set(&d->tags);
	if (err)
		return err;
	d->disk = lm_alloc_disk(d);
	if (IS_ERR(d->disk))
		return PTR_ERR(d->disk);
	/* The names of the same disks in guests of User-Mode Linux. */
	snprintf(d->disk->disk_name, DISK_NAME_LEN, "vd%c", 'a' + d->box->index);
	d->disk->fops = &lm_fops;
	d->disk->private_data = d;
	set_capacity(d->disk, d->box->sectors);
#if BEFORE(5, 15)
	device_add_disk(&pdev->dev, d->disk, NULL);
	return 0;
#else
	return device_add_disk(&pdev->dev, d->disk, NULL);
#endif
}

static int lm_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct lm_device *d = kzalloc(sizeof(*d), GFP_KERNEL);
	int err, i;

	if (!d)
		return -ENOMEM;
	err = pci_enable_device(pdev);
	if (err)
		return err;
	pci_set_master(pdev);
	d->config = lm_config(pdev);
	d->box = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, LM_ORDER);
	if (!d->config || !d->box)
		return -ENODEV;
	spin_lock_init(&d->lock);
	d->again = ~0ULL;
	lm_init_timer(d);
	for (i = 0; i < 5; i++)
		lm_ring(d, (virt_to_phys(d->box) >> PAGE_SHIFT >> 7 * i) & 0x7f);
	d->box->ask = LM_HELLO;
	d->box->version = LM_VERSION;
	d->box->now = ktime_get_ns();
	lm_ring(d, 0);
	if (d->box->flags & LM_CONTROL)
		return lm_add_control(d);
	if (!d->box->sectors) {
		dev_err(&pdev->dev, "no answer from Lowmark, or of another version\n");
		return -ENODEV;
	}
	return lm_add_disk(d, pdev);
}

/* vhost-user-blk-pci-non-transitional */
static const struct pci_device_id lm_ids[] = {
	{ PCI_DEVICE(0x1af4, 0x1042) },
	{ }
};
MODULE_DEVICE_TABLE(pci, lm_ids);

static struct pci_driver lm_driver = {
	.name = "lowmark",
	.id_table = lm_ids,
	.probe = lm_probe,
};
module_pci_driver(lm_driver);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Disks whose time Lowmark models");
