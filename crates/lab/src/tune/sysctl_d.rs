//! Writes the chosen setting as a file for `/etc/sysctl.d` of a current Linux, with the formulas
//! that lead to it.

use super::goals::mib;
use super::space::{MOST_SCALE_FACTOR, Setting, scale_factor, sums};
use mm::memory::watermark::{khugepaged_min_free_kbytes, lowmem_kbytes};
use sim::spec::Machine;
use std::fmt::Write as _;

/// Returns the nearest setting that a current Linux accepts: one with `watermark_scale_factor` in
/// the place of explicit watermarks, such that kswapd starts at the same low watermark.
pub fn modern(setting: &Setting, machine: &Machine) -> Setting {
    let (Some(low), Some(_)) = (setting.wmark_low_kbytes, setting.wmark_high_kbytes) else {
        return setting.clone();
    };
    let lowmem = lowmem_kbytes(&sim::run::engine_config(machine).zones);
    let min = setting.min_free_kbytes.unwrap_or(sums(machine)[0]);
    let gap = low.saturating_sub(min);
    Setting {
        // The minimum must be written out: without the explicit watermarks the kernel would compute
        // another one.
        min_free_kbytes: Some(min),
        watermark_scale_factor: Some(scale_factor(gap, lowmem)),
        wmark_low_kbytes: None,
        wmark_high_kbytes: None,
        ..setting.clone()
    }
}

/// The warning in every file.
const FOR_EVER: &str = "#
# A sysctl holds for all disks and all programs of the machine, and a file in /etc/sysctl.d for ever: at every boot
# until it is removed. This one was chosen for one workload. `sysctl -p FILE` tries it until the next boot.
";

/// Returns a comment with the rule for udev that limits dirty pages of one kind of disk, in the
/// place of `dirty_bytes`.
fn for_one_disk(bytes: u64) -> String {
    format!(
        "#
# Only for USB disks, in the place of these two lines: a file /etc/udev/rules.d/90-lowmark.rules (Linux 6.2 and later;
# the search has not tried it) with the line
# ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ENV{{ID_BUS}}==\"usb\", \\
#   ATTR{{bdi/strict_limit}}=\"1\", ATTR{{bdi/max_bytes}}=\"{bytes}\"
"
    )
}

/// Returns the text of the file for a setting of the search. `head` says where it comes from; each
/// of its lines becomes a comment.
pub fn text(head: &[String], setting: &Setting, machine: &Machine) -> String {
    let mut out = String::new();
    for line in head {
        let _ = writeln!(out, "{}", format!("# {line}").trim_end());
    }
    out += FOR_EVER;
    let modern_setting = modern(setting, machine);
    let modern_machine = modern_setting.on(machine);
    let zones = sim::run::engine_config(&modern_machine).zones;
    let lowmem = lowmem_kbytes(&zones);
    let [min, low, high] = sums(&modern_machine);
    if let Some(kbytes) = modern_setting.min_free_kbytes {
        out.push('\n');
        let _ = writeln!(out, "vm.min_free_kbytes = {kbytes}");
        let raised = khugepaged_min_free_kbytes(zones.len() as u64, lowmem / 4, kbytes);
        if raised > kbytes {
            let _ = writeln!(
                out,
                "# With transparent huge pages, khugepaged raises this to {raised} when it starts \
                 (512 pages\n# x {} zones x 11, at most a twentieth of memory): load this file \
                 after that, and again after\n# every change of \
                 /sys/kernel/mm/transparent_hugepage/enabled.",
                zones.len()
            );
        }
    }
    if let Some(factor) = modern_setting.watermark_scale_factor {
        out.push('\n');
        let _ = writeln!(out, "vm.watermark_scale_factor = {factor}");
        let by_factor = lowmem * u64::from(factor) / 10_000;
        let _ = writeln!(
            out,
            "# low - min = high - low = max(min / 4, managed x factor / 10000), zone by zone:\n\
             # max({} / 4, {lowmem} x {factor} / 10000) kB in all zones together. Sums in kB: \
             min {min}, low {low}, high {high};\n# kswapd keeps {} free.",
            min,
            mib(high * 1024)
        );
        if by_factor <= min / 4 {
            let _ = writeln!(
                out,
                "# The factor is hidden here: a quarter of min is {} kB, what it asks for {by_factor} kB. \
                 On zones\n# this small the distance follows min_free_kbytes; a smaller one takes \
                 min_free_kbytes = 4 x distance.",
                min / 4
            );
        }
        if let (Some(want_low), Some(want_high)) =
            (setting.wmark_low_kbytes, setting.wmark_high_kbytes)
        {
            let want_min = setting.min_free_kbytes.unwrap_or(sums(machine)[0]);
            let gap = want_low.saturating_sub(want_min);
            let _ = writeln!(
                out,
                "# The search asked for low {want_low} and high {want_high} kB, which no released \
                 Linux takes. The factor\n# is the least that starts kswapd as early: \
                 ceil(10000 x (low - min) / managed)\n# = ceil(10000 x {gap} / {lowmem}) = {}{}. \
                 high is then low + the same distance, {high} instead of {want_high} kB.",
                (gap * 10_000).div_ceil(lowmem.max(1)),
                if scale_factor(gap, lowmem) == MOST_SCALE_FACTOR {
                    ", cut to the largest that is accepted"
                } else {
                    ""
                },
            );
        }
        if factor > 1000 {
            let _ = writeln!(out, "# Linux before 5.19 accepts at most 1000.");
        }
    }
    if let (Some(most), Some(background)) = (
        modern_setting.dirty_bytes,
        modern_setting.dirty_background_bytes,
    ) {
        out.push('\n');
        let _ = writeln!(
            out,
            "vm.dirty_background_bytes = {background}\nvm.dirty_bytes = {most}\n\
             # Writeback starts at {}, writers are held at {}. These replace the ratios.",
            mib(background),
            mib(most)
        );
        out += &for_one_disk(most);
    }
    if let Some(swappiness) = modern_setting.swappiness {
        let _ = writeln!(out, "\nvm.swappiness = {swappiness}");
    }
    out
}
