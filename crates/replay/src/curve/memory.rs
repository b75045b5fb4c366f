//! Says how much memory a plan will take, before its trace is read.

use super::{BYTES_PER_SLOT, BYTES_PER_STACKED_OBJECT, BYTES_PER_STREAMED_SLOT, Plan, Way};
use crate::dense::BYTES_PER_OBJECT;
use crate::sample::Sample;
use crate::{opt, stack};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use trace::{BLOCK, Reader};

/// Estimates the number of requests of the trace at `path` from its first block: the bytes of a
/// record, and the requests of a record. `None` if the length of the trace is not known, because it
/// is no plain file or can't be read.
pub fn expected(path: &Path, plan: &Plan) -> Option<u64> {
    let bytes = path.metadata().ok().filter(|m| m.is_file())?.len();
    let mut head = Vec::new();
    let file = File::open(path).ok()?;
    file.take(BLOCK as u64).read_to_end(&mut head).ok()?;
    if trace::is_packed(&head) {
        return None;
    }
    let mut reader = Reader::open(path, &plan.options).ok()?;
    let a_record = match reader.record_bytes() {
        Some(bytes) => bytes as f64,
        None => {
            let lines = head.iter().filter(|b| **b == b'\n').count();
            head.len() as f64 / lines.max(1) as f64
        }
    };
    let lines = bytes as f64 / a_record;
    // The block's requests, and the lines from which they are: a line may be no request.
    let mut batch = Vec::new();
    let unit = plan.unit;
    let requests = |r: &trace::Record| if r.op.is_data() { unit.objects(r).1 } else { 0 };
    reader.next_batch_of(&mut batch, requests).ok()?;
    let requests: u64 = batch.iter().sum();
    let of = requests as f64 / batch.len().max(1) as f64;
    (requests > 0).then_some((lines * of).round() as u64)
}

/// Describes in a sentence the memory that a plan will use at most, before anything is read;
/// `requests` is their number, if it is known.
pub fn memory(plan: &Plan, requests: Option<u64>) -> String {
    let largest = u64::from(plan.sizes.pages.last().copied().unwrap_or(1));
    let mib = |bytes: u64| (bytes >> 20) + 1;
    let least = match plan.budget.0 {
        Some(bytes) => format!("at most {} MiB, then it ends", bytes >> 20),
        None => "without a limit".to_owned(),
    };
    let future = if plan.has_opt() {
        opt::BYTES_PER_EVENT
    } else {
        0
    };
    // Describes so many bytes for each request, of which there are `share` times as many.
    let for_requests = |each: u64, share: Option<f64>| match (requests, share) {
        (Some(requests), Some(share)) => {
            let requests = (requests as f64 * share) as u64;
            format!("{} MiB for about {requests} requests", mib(each * requests))
        }
        _ => format!("{each} bytes a request"),
    };
    let a_request = future + if plan.writes.is_some() { 24 } else { 8 };
    let caches = if plan.sizes.shares.is_empty() {
        format!("{} MiB", mib(largest * BYTES_PER_SLOT))
    } else {
        format!("{BYTES_PER_SLOT} bytes a page of the largest cache")
    };
    match Way::of(plan) {
        Way::Stream => format!(
            "memory: up to {} MiB for a cache of {largest} pages; the trace is not kept",
            mib(largest * BYTES_PER_STREAMED_SLOT)
        ),
        Way::Distances => {
            let each = BYTES_PER_OBJECT + stack::Pass::BYTES_PER_OBJECT;
            let all = requests.map_or(String::new(), |n| {
                format!(", up to {} MiB for about {n} requests", mib(each * n))
            });
            format!(
                "memory: up to {each} bytes an object for all sizes{all}, {least}; the trace is not \
                 kept"
            )
        }
        Way::Sample => {
            let share = match plan.sample {
                Some(Sample::Rate(rate)) => Some(rate),
                _ => None,
            };
            format!(
                "memory: up to {} and {} bytes an object of the sample, and for each of {} threads a \
                 miniature, {least}",
                for_requests(future + 8, share),
                2 * BYTES_PER_OBJECT,
                plan.threads
            )
        }
        Way::Keep => format!(
            "memory: up to {} and {BYTES_PER_OBJECT} bytes an object, and for each of {} threads up \
             to {caches} and {BYTES_PER_STACKED_OBJECT} bytes an object, {least}",
            for_requests(a_request, Some(1.0)),
            plan.threads
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Unit};
    use trace::generate::{Pattern, Plan as TracePlan};

    fn plan(policies: &[&'static str], sample: Option<&str>) -> Plan {
        Plan {
            options: trace::Options::default(),
            unit: Unit::Page,
            sizes: vec![10, 20].into(),
            policies: policies.to_vec(),
            writes: None,
            sample: sample.map(|s| s.parse().expect("a sample")),
            threads: 2,
            budget: Budget::default(),
        }
    }

    #[test]
    fn a_plain_trace_says_how_many_requests_it_has() {
        let generated = TracePlan {
            pattern: Pattern::Zipf,
            objects: 1000,
            requests: 200_000,
            skew: 1.0,
            writes: 0.0,
            rate: 1000,
            seed: 1,
        };
        let dir = tempfile::tempdir().expect("a folder");
        let binary = dir.path().join("t.bin");
        let mut file = File::create(&binary).expect("a file");
        trace::write::oracle_general(&generated, &mut file).expect("space");
        let plan = plan(&["lru", "fifo"], None);
        assert_eq!(expected(&binary, &plan), Some(200_000));
        let csv = dir.path().join("t.csv");
        let mut file = File::create(&csv).expect("a file");
        trace::write::csv(&generated, &mut file).expect("space");
        let about = expected(&csv, &plan).expect("a length");
        assert!((190_000..210_000).contains(&about), "{about}");
        assert_eq!(expected(dir.path(), &plan), None);
    }

    #[test]
    fn a_known_length_gives_an_amount() {
        let both = plan(&["lru", "fifo"], None);
        let said = memory(&both, Some(10_000_000));
        assert!(said.contains("up to 77 MiB for about 10000000 requests and 80 bytes an object"));
        assert!(memory(&both, None).contains("up to 8 bytes a request and 80 bytes an object"));
        let lru = memory(&plan(&["lru"], None), Some(1000));
        assert!(lru.contains("an object for all sizes, up to 1 MiB for about 1000 requests"));
        let sampled = memory(&plan(&["fifo"], Some("rate=0.1")), Some(10_000_000));
        assert!(
            sampled.contains("up to 8 MiB for about 1000000 requests and"),
            "{sampled}"
        );
        let sampled = memory(&plan(&["fifo"], Some("size=128")), Some(10_000_000));
        assert!(sampled.contains("up to 8 bytes a request and"), "{sampled}");
    }
}
