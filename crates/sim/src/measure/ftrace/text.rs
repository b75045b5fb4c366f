//! Names and fields of events, as the kernel prints them.

use super::gfp;
use mm::world::event::Event;
use std::fmt::Write as _;

/// Name of the trace marker's lines.
pub const MARK: &str = "tracing_mark_write";

/// Every tracepoint: the folder in which the kernel has it, and its name.
pub const EVENTS: [(&str, &str); 23] = [
    ("vmscan", "mm_vmscan_kswapd_sleep"),
    ("vmscan", "mm_vmscan_kswapd_wake"),
    ("vmscan", "mm_vmscan_wakeup_kswapd"),
    ("vmscan", "mm_vmscan_direct_reclaim_begin"),
    ("vmscan", "mm_vmscan_direct_reclaim_end"),
    ("vmscan", "mm_shrink_slab_start"),
    ("vmscan", "mm_shrink_slab_end"),
    ("vmscan", "mm_vmscan_lru_isolate"),
    ("vmscan", "mm_vmscan_write_folio"),
    ("vmscan", "mm_vmscan_lru_shrink_inactive"),
    ("kmem", "mm_page_alloc"),
    ("kmem", "mm_page_free"),
    ("pagemap", "mm_lru_insertion"),
    ("pagemap", "mm_lru_activate"),
    ("filemap", "mm_filemap_add_to_page_cache"),
    ("filemap", "mm_filemap_delete_from_page_cache"),
    ("writeback", "writeback_dirty_folio"),
    ("writeback", "writeback_queue"),
    ("writeback", "writeback_start"),
    ("writeback", "writeback_written"),
    ("writeback", "balance_dirty_pages"),
    ("writeback", "writeback_congestion_wait"),
    ("writeback", "writeback_wait_iff_congested"),
];

/// Names of the LRU lists, by number.
const LISTS: [&str; 5] = [
    "inactive_anon",
    "active_anon",
    "inactive_file",
    "active_file",
    "unevictable",
];

/// Address of the frame table on x86-64, and the size of a frame's structure there.
const MEM_MAP: u64 = 0xffff_ea00_0000_0000;
const STRUCT_PAGE: u64 = 64;

/// Returns an event's name; events that no kernel has are lines of the trace marker.
pub fn name(event: &Event) -> &'static str {
    match event {
        Event::XfsInodeWait { .. } | Event::OutOfMemory { .. } | Event::MarkVictim { .. } => MARK,
        event => event.name(),
    }
}

/// Appends an event's fields to `out`, as the kernel prints them in a trace.
pub fn fields(event: &Event, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match *event {
        Event::KswapdSleep { .. }
        | Event::KswapdWake { .. }
        | Event::WakeupKswapd { .. }
        | Event::DirectReclaimBegin { .. }
        | Event::DirectReclaimEnd { .. }
        | Event::LruIsolate { .. }
        | Event::Writepage { .. }
        | Event::ShrinkInactive { .. }
        | Event::ShrinkSlabStart { .. }
        | Event::ShrinkSlabEnd { .. } => vmscan(event, out),
        Event::WritebackQueue { .. }
        | Event::WritebackStart { .. }
        | Event::WritebackWritten { .. }
        | Event::PageDirtied { .. }
        | Event::BalanceDirtyPages { .. }
        | Event::CongestionWait { .. }
        | Event::WaitIffCongested { .. } => writeback(event, out),
        _ => page(event, out),
    };
}

type Written = std::fmt::Result;

/// Appends the names of an allocation's flags.
fn put_gfp(gfp: u32, out: &mut String) -> Written {
    gfp::put(gfp, out);
    Ok(())
}

/// Appends the fields of a reclaim event to `out`, as the kernel prints them
/// (include/trace/events/vmscan.h). Other events have none here.
fn vmscan(event: &Event, out: &mut String) -> Written {
    match *event {
        Event::KswapdSleep { nid } => write!(out, "nid={nid}"),
        Event::KswapdWake { nid, order } => write!(out, "nid={nid} order={order}"),
        Event::WakeupKswapd {
            nid, order, gfp, ..
        } => {
            write!(out, "nid={nid} order={order} gfp_flags=")?;
            put_gfp(gfp, out)
        }
        Event::DirectReclaimBegin { order, gfp, .. } => {
            write!(out, "order={order} gfp_flags=")?;
            put_gfp(gfp, out)
        }
        Event::DirectReclaimEnd { nr_reclaimed } => write!(out, "nr_reclaimed={nr_reclaimed}"),
        Event::LruIsolate {
            classzone,
            order,
            nr_requested,
            nr_scanned,
            nr_skipped,
            nr_taken,
            lru,
            ..
        } => write!(
            out,
            "classzone={classzone} order={order} nr_requested={nr_requested} nr_scanned={nr_scanned} \
             nr_skipped={nr_skipped} nr_taken={nr_taken} lru={}",
            LISTS[usize::from(lru)]
        ),
        Event::Writepage { pfn, file, sync } => {
            let kind = if file { "FILE" } else { "ANON" };
            let how = if sync { "SYNC" } else { "ASYNC" };
            let page = address(pfn);
            write!(
                out,
                "page={page:016x} pfn=0x{pfn:x} flags=RECLAIM_WB_{kind}|RECLAIM_WB_{how}"
            )
        }
        Event::ShrinkInactive { .. } => shrink_inactive(event, out),
        Event::ShrinkSlabStart {
            shrinker,
            nid,
            deferred,
            gfp,
            cache_items,
            delta,
            total_scan,
            priority,
            ..
        } => {
            write!(
                out,
                "{shrinker}+0x0/0x0 {:016x}: nid: {nid} objects to shrink {deferred} gfp_flags ",
                0
            )?;
            put_gfp(gfp, out)?;
            write!(
                out,
                " cache items {cache_items} delta {delta} total_scan {total_scan} priority {priority}"
            )
        }
        Event::ShrinkSlabEnd {
            shrinker,
            nid,
            unused_scan,
            new_scan,
            total_scan,
            freed,
        } => write!(
            out,
            "{shrinker}+0x0/0x0 {:016x}: nid: {nid} unused scan count {unused_scan} new scan count {new_scan} \
             total_scan {total_scan} last shrinker return val {freed}",
            0
        ),
        _ => Ok(()),
    }
}

/// Appends the fields of `mm_vmscan_lru_shrink_inactive` to `out`; those without a counterpart in
/// the engine are constant.
fn shrink_inactive(event: &Event, out: &mut String) -> Written {
    let Event::ShrinkInactive {
        nid,
        nr_scanned,
        nr_reclaimed,
        nr_dirty,
        nr_writeback,
        nr_congested,
        nr_immediate,
        nr_activate: [anon, of_file],
        nr_ref_keep,
        priority,
        file,
        ..
    } = *event
    else {
        return Ok(());
    };
    let kind = if file { "FILE" } else { "ANON" };
    // Unmapping never fails here, and reclaim of a batch never waits for its writes.
    write!(
        out,
        "nid={nid} nr_scanned={nr_scanned} nr_reclaimed={nr_reclaimed} nr_dirty={nr_dirty} \
         nr_writeback={nr_writeback} nr_congested={nr_congested} nr_immediate={nr_immediate} \
         nr_activate_anon={anon} nr_activate_file={of_file} nr_ref_keep={nr_ref_keep} nr_unmap_fail=0 \
         priority={priority} flags=RECLAIM_WB_{kind}|RECLAIM_WB_ASYNC"
    )
}

/// Appends the fields of a writeback event to `out`, as the kernel prints them
/// (include/trace/events/writeback.h). Minor device numbers are 16 apart, as those of disks.
fn writeback(event: &Event, out: &mut String) -> Written {
    match *event {
        Event::WritebackQueue {
            bdi,
            nr_pages,
            kupdate,
            background,
        }
        | Event::WritebackStart {
            bdi,
            nr_pages,
            kupdate,
            background,
        }
        | Event::WritebackWritten {
            bdi,
            nr_pages,
            kupdate,
            background,
        } => {
            let minor = 16 * bdi;
            let cyclic = u8::from(kupdate || background);
            let reason = match (background, kupdate) {
                (true, _) => "background",
                (_, true) => "periodic",
                _ => "vmscan",
            };
            write!(
                out,
                "bdi 8:{minor}: sb_dev 8:{minor} nr_pages={nr_pages} sync_mode=0 kupdate={} \
                 range_cyclic={cyclic} background={} reason={reason} cgroup_ino=1",
                u8::from(kupdate),
                u8::from(background),
            )
        }
        Event::PageDirtied {
            bdi,
            mapping,
            index,
            ..
        } => write!(out, "bdi 8:{}: ino={mapping} index={index}", 16 * bdi),
        Event::BalanceDirtyPages {
            bdi,
            limit,
            setpoint,
            dirty,
            bdi_setpoint,
            bdi_dirty,
            dirty_ratelimit,
            task_ratelimit,
            dirtied,
            dirtied_pause,
            paused,
            pause,
            period,
            think,
        } => write!(
            out,
            "bdi 8:{}: limit={limit} setpoint={setpoint} dirty={dirty} wb_setpoint={bdi_setpoint} \
             wb_dirty={bdi_dirty} dirty_ratelimit={dirty_ratelimit} task_ratelimit={task_ratelimit} \
             dirtied={dirtied} dirtied_pause={dirtied_pause} paused={paused} pause={pause} period={period} \
             think={think} cgroup_ino=1",
            16 * bdi
        ),
        Event::CongestionWait {
            usec_timeout,
            usec_delayed,
        }
        | Event::WaitIffCongested {
            usec_timeout,
            usec_delayed,
        } => write!(
            out,
            "usec_timeout={usec_timeout} usec_delayed={usec_delayed}"
        ),
        _ => Ok(()),
    }
}

/// Appends the fields of an event about single pages
/// (include/trace/events/{kmem,pagemap,filemap}.h), or of an event that no kernel has.
fn page(event: &Event, out: &mut String) -> Written {
    match *event {
        Event::PageAlloc { pfn, order, gfp } => {
            let page = address(pfn);
            // MIGRATE_UNMOVABLE, MIGRATE_MOVABLE and MIGRATE_RECLAIMABLE, as gfp_migratetype() has
            // them.
            let request = mm::memory::gfp::Gfp(gfp);
            let kind = match () {
                () if request.high_zoneidx() > 2 => 1,
                () if request.has(mm::memory::gfp::Gfp::RECLAIMABLE) => 2,
                () => 0,
            };
            write!(
                out,
                "page={page:016x} pfn=0x{pfn:x} order={order} migratetype={kind} gfp_flags="
            )?;
            put_gfp(gfp, out)
        }
        Event::PageFree { pfn, order } => {
            write!(
                out,
                "page={:016x} pfn=0x{pfn:x} order={order}",
                address(pfn)
            )
        }
        Event::LruInsertion {
            pfn,
            lru,
            mapped,
            anon,
            swapcache,
        } => {
            let mark = |set: bool, mark: char| if set { mark } else { ' ' };
            let (m, s, b) = (mark(mapped, 'M'), mark(swapcache, 's'), mark(anon, 'b'));
            let a = if anon { 'a' } else { 'f' };
            let page = address(pfn);
            write!(
                out,
                "folio={page:016x} pfn=0x{pfn:x} lru={lru} flags={m}{a}{s}{b}  "
            )
        }
        Event::LruActivate { pfn } => write!(out, "folio={:016x} pfn=0x{pfn:x}", address(pfn)),
        Event::FilemapAdd {
            pfn,
            bdi,
            mapping,
            index,
        }
        | Event::FilemapDelete {
            pfn,
            bdi,
            mapping,
            index,
        } => write!(
            out,
            "dev 8:{} ino {mapping:x} pfn=0x{pfn:x} ofs={} order=0",
            16 * bdi,
            u64::from(index) << 12
        ),
        Event::XfsInodeWait {
            what,
            object,
            usec_delayed,
        } => write!(
            out,
            "lowmark: xfs_inode_wait what={what:?} object={object} usec_delayed={usec_delayed}"
        ),
        Event::OutOfMemory { task, order } => {
            write!(out, "lowmark: out_of_memory pid={task} order={order}")
        }
        Event::MarkVictim { pid } => write!(out, "lowmark: mark_victim pid={pid}"),
        _ => Ok(()),
    }
}

/// Returns the address at which the kernel would have a page's frame.
fn address(pfn: u32) -> u64 {
    MEM_MAP + u64::from(pfn) * STRUCT_PAGE
}
