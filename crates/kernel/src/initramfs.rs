//! Temporary.
use std::path::Path;
fn entry(out: &mut Vec<u8>, ino: u32, name: &str, mode: u32, rdev: (u32, u32), data: &[u8]) {
    let fields = [
        ino,
        mode,
        0,
        0,
        1,
        0,
        data.len() as u32,
        0,
        0,
        rdev.0,
        rdev.1,
        name.len() as u32 + 1,
        0,
    ];
    out.extend(b"070701");
    for f in fields {
        out.extend(format!("{f:08x}").bytes());
    }
    out.extend(name.bytes());
    out.push(0);
    while out.len() % 4 != 0 {
        out.push(0);
    }
    out.extend(data);
    while out.len() % 4 != 0 {
        out.push(0);
    }
}
/// Temporary.
pub fn build(init: &[u8], job: &[u8], _file: Option<&Path>) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    for (i, d) in ["dev", "proc", "sys", "mnt", "tmp", "trace"]
        .iter()
        .enumerate()
    {
        entry(&mut out, i as u32 + 1, d, 0o40755, (0, 0), &[]);
    }
    entry(&mut out, 20, "dev/console", 0o20600, (5, 1), &[]);
    entry(&mut out, 21, "init", 0o100755, (0, 0), init);
    entry(&mut out, 22, "job.json", 0o100644, (0, 0), job);
    entry(&mut out, 0, "TRAILER!!!", 0, (0, 0), &[]);
    Ok(out)
}
